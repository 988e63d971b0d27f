//! `wherefore debug` and `wherefore serve`, with the real gdb.
//!
//! The oracle of what gdb shows is gdb itself on the same program without us: the same commands at the
//! same stops. The oracle of going back is going forward.

mod harness;

use std::fs;
use std::path::Path;
use std::process::Command;

use harness::{Place, Ran, finish};

/// Commands whose output is compared, one by one.
const TOUR: &str = "\
break main
info breakpoints
continue
bt
info args
next
next
step
info locals
print names
print i
print sum
print text
ptype struct item
ptype struct mixed
whatever names
print sizeof(struct mixed)
print mixed
print/x mixed
print &mixed
print mixed.colour
print (enum colour) 6
output total
printf \"%d %s\\n\", argc, argv[1]
x/4dh mixed.list
x/3i $pc
x/s names[1]
info line
info symbol main
info symbol total
info address total
info scope single
list 20,25
info source
print argc + 2 * 3
print argv[1]
print *argv@argc
print $_
print fibonacci
tbreak push
continue
bt
info args
info frame
up
info symbol $pc
down
frame
finish
print total
print fibonacci(7)
call total
watch total
info watchpoints
continue
print number
continue
print total
bt
delete
break single if item->number == 2
continue
print *item
print item->weight * 2
print item->next
bt
info symbol $pc
info registers rip
info registers eflags
p $xmm0.v2_double
stepi
x/i $pc
nexti
info line *$pc
display item->number
stepi
undisplay 1
finish
delete
continue
bt
info signals SIGUSR1
awatch signals
continue
bt 1
delete
rwatch total
continue
bt 1
delete
tbreak fibonacci
continue
bt
print n
step
step
break fibonacci
ignore $bpnum 10
continue
info breakpoints
bt
print n
finish
delete
until
advance fibonacci
backtrace -full 2
set var total = 99
print total
tbreak on_signal
info line on_signal
catch syscall write
continue
continue
delete
tbreak _exit
continue
print total
macro expand X
p 1.5 * 3
p sizeof(long)
info types colour
";

/// What may differ: where things lie that are not the program's, and numbers of processes.
fn normalise(text: &str) -> String {
    let mut out = String::new();
    let text = text.replace("0x00007f", "0x7f");
    let mut rest = text.as_str();
    while let Some(at) = rest.find("0x7f") {
        let digits = rest[at + 2..]
            .find(|c: char| !c.is_ascii_hexdigit())
            .unwrap_or(rest.len() - at - 2);
        out.push_str(&rest[..at]);
        out.push_str(if digits == 12 {
            "ADDRESS"
        } else {
            &rest[at..at + 2 + digits]
        });
        rest = &rest[at + 2 + digits..];
    }
    out.push_str(rest);
    let noise = ["[Thread debugging using", "Using host libthread_db"];
    let lines = out
        .lines()
        .filter(|l| !noise.iter().any(|n| l.starts_with(n)));
    lines.collect::<Vec<_>>().join("\n")
}

/// The output of each command.
fn sections(text: &str) -> Vec<String> {
    let mut parts: Vec<String> = text.split("@@@").map(normalise).collect();
    parts.remove(0);
    parts
}

/// A script with a mark before each command, which goes on after an error.
fn script(place: &Place, name: &str, before: &str, commands: &str) -> String {
    let mut text = String::from(
        "set pagination off\nset confirm off\nset width 0\nset debuginfod enabled off\n\
         set style enabled off\nset auto-load libthread-db off\n",
    );
    text.push_str(before);
    for command in commands.lines() {
        text.push_str("echo @@@\\n\n");
        let quoted = command.replace('\\', "\\\\").replace('\'', "\\'");
        text.push_str(&format!(
            "python\ntry: gdb.execute('{quoted}')\nexcept gdb.error as e: print(e)\nend\n"
        ));
    }
    let file = place.path(name);
    fs::write(&file, text).expect("a script");
    file.to_str().expect("a path").to_owned()
}

fn native(place: &Place, guest: &Path, args: &[&str], commands: &str) -> Ran {
    let script = script(place, "native.gdb", "starti\n", commands);
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-q", "-batch", "-x", &script, "--args"]);
    gdb.arg(guest).args(args);
    gdb.current_dir(place.path(""));
    finish(gdb)
}

#[track_caller]
fn debug(place: &Place, commands: &str) -> Ran {
    let script = script(place, "ours.gdb", "", commands);
    place.say(&["debug", "--batch", "--gdb-option=-nx", "-x", &script])
}

#[track_caller]
fn same_as_native(flags: &[&str], commands: &str) {
    let p = Place::new();
    let guest = p.guest("debug/tour.c", flags);
    let args = ["one", "two"];
    p.run(&guest, &args).exits(0);
    let theirs = native(&p, &guest, &args, commands);
    let ours = debug(&p, commands);
    let (a, b) = (sections(&theirs.out), sections(&ours.out));
    let count = commands.lines().count();
    assert_eq!(a.len(), count, "native gdb: {}{}", theirs.out, theirs.err);
    assert_eq!(b.len(), count, "ours: {}{}", ours.out, ours.err);
    let all = commands.lines().zip(a).zip(b);
    let different = all.filter(|((_, theirs), ours)| theirs != ours);
    let told: String = different
        .map(|((command, theirs), ours)| {
            format!("{command}\nnatively: {theirs}\nwith us:  {ours}\n")
        })
        .collect();
    assert!(told.is_empty(), "{told}");
}

#[test]
fn gdb_shows_what_it_shows_natively() {
    same_as_native(&["-O0"], TOUR);
}

#[test]
fn gdb_shows_what_it_shows_natively_when_optimised() {
    same_as_native(&["-O2"], TOUR);
}

/// What a command printed, by its place in the script.
#[track_caller]
fn told(ran: &Ran, commands: &str) -> Vec<(String, String)> {
    let parts = sections(&ran.out);
    let all: Vec<_> = commands.lines().map(str::to_owned).zip(parts).collect();
    assert_eq!(
        all.len(),
        commands.lines().count(),
        "{}{}",
        ran.out,
        ran.err
    );
    all
}

/// The number of the line with a mark.
#[track_caller]
fn mark(guest: &str, name: &str) -> usize {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests");
    let source = fs::read_to_string(root.join(guest)).expect("a guest");
    let mark = format!("// MARK: {name}");
    let found = source.lines().position(|l| l.ends_with(&mark));
    found.expect("a mark") + 1
}

/// Steps and registers on the way forward are those on the way back.
#[track_caller]
fn same_backwards(flags: &[&str], forward: &str, back: &str, times: usize) {
    let p = Place::new();
    let guest = p.guest("debug/tour.c", flags);
    p.run(&guest, &["one", "two"]).exits(0);
    let look = "when\ninfo registers\nprint total\n";
    let mut commands = String::from("break push\ncontinue\ndelete\n");
    for _ in 0..times {
        commands.push_str(&format!("{look}{forward}\n"));
    }
    commands.push_str(look);
    for _ in 0..times {
        commands.push_str(&format!("{back}\n{look}"));
    }
    let ran = debug(&p, &commands);
    let all = told(&ran, &commands);
    let seen: Vec<String> = all[3..]
        .iter()
        .filter(|(command, _)| look.contains(command.as_str()))
        .map(|(_, text)| text.trim().trim_start_matches(|c| c != '=').to_owned() + text)
        .collect();
    let strip = |t: &String| match t.rfind("= ") {
        Some(at) if t.contains('$') => t[at..].to_owned(),
        _ => t.clone(),
    };
    let places: Vec<Vec<String>> = seen
        .chunks(3)
        .map(|c| c.iter().map(strip).collect())
        .collect();
    assert_eq!(places.len(), 2 * times + 1);
    for i in 0..times {
        assert_eq!(
            places[i],
            places[2 * times - i],
            "{forward} {i} times and {back} as often"
        );
        assert_ne!(places[i][0], places[i + 1][0], "{forward} moves");
    }
}

#[test]
fn stepping_back_undoes_stepping() {
    same_backwards(&["-O0"], "stepi", "reverse-stepi", 30);
    same_backwards(&["-O2"], "stepi 7", "reverse-stepi 7", 20);
}

#[test]
fn stops_come_back_in_the_opposite_order() {
    let p = Place::new();
    let guest = p.guest("debug/tour.c", &["-O0"]);
    p.run(&guest, &["one", "two"]).exits(0);
    // Forward with a watchpoint, and back over the same writes.
    let mut commands = String::from("break main\ncontinue\nwatch total\n");
    commands.push_str(&"continue\nprint total\nwhen\n".repeat(4));
    commands.push_str(&"reverse-continue\nprint total\nwhen\n".repeat(4));
    let ran = debug(&p, &commands);
    let all = told(&ran, &commands);
    let of = |command: &str| -> Vec<&String> {
        all.iter()
            .filter(|(c, _)| c == command)
            .map(|(_, t)| t)
            .collect()
    };
    let values: Vec<&str> = of("print total")
        .into_iter()
        .map(|t| t.trim().rsplit(' ').next().unwrap())
        .collect();
    assert_eq!(values, ["1", "3", "6", "10", "6", "3", "1", "0"]);
    let steps: Vec<u64> = of("when")
        .into_iter()
        .map(|t| t.split_whitespace().nth(1).unwrap().parse().unwrap())
        .collect();
    // Going on stops behind the write, going back before it.
    for i in 0..4 {
        assert_eq!(steps[i], steps[7 - i] + 1, "{steps:?}");
    }
}

#[test]
fn breakpoints_are_found_backwards() {
    let p = Place::new();
    let guest = p.guest("debug/tour.c", &["-O2"]);
    p.run(&guest, &["one", "two"]).exits(0);
    let hits = 40;
    let mut commands = String::from(
        "handle SIGUSR1 nostop noprint\nbreak main\ncontinue\ndelete\nbreak fibonacci\n",
    );
    commands.push_str(&"continue\nwhen\nprint n\n".repeat(hits));
    commands.push_str(&"reverse-continue\nwhen\nprint n\n".repeat(hits - 1));
    commands.push_str("delete\nbreak main\nreverse-continue\nbt 1\n");
    let ran = debug(&p, &commands);
    let all = told(&ran, &commands);
    let of = |command: &str| -> Vec<&str> {
        let texts = all.iter().filter(|(c, _)| c == command);
        texts
            .map(|(_, t)| t.trim().rsplit(' ').next().unwrap())
            .collect()
    };
    let whens: Vec<String> = (all.iter().filter(|(c, _)| c == "when"))
        .map(|(_, t)| t.clone())
        .collect();
    let values = of("print n");
    for i in 0..hits - 1 {
        assert_eq!(whens[i], whens[2 * hits - 2 - i]);
        assert_eq!(values[i], values[2 * hits - 2 - i]);
    }
    let (_, last) = all.last().unwrap();
    assert!(last.contains("main (argc=3"), "{last}");
}

/// Native gdb with an automatic answer is the oracle of calls; here it is that they leave no trace.
#[test]
fn calls_and_changes_leave_the_recording_as_it_is() {
    let p = Place::new();
    let guest = p.guest("debug/tour.c", &["-O0"]);
    p.run(&guest, &["one", "two"]).exits(0);
    let line = mark("debug/tour.c", "call");
    let commands = format!(
        "break {line}\ncontinue\nwhen\nprint push(list, 100, \"new\", 1.0)->number\nstepi\n\
         reverse-stepi\nprint total\ninfo timelines\nset var total = 5\nstepi\nprint total\n\
         info timelines\nwhen\nreverse-stepi\nprint total\ngoto 0\ncontinue\nprint total\n\
         timeline 0\nprint total\ninfo edits\n"
    );
    let ran = debug(&p, &commands);
    let all = told(&ran, &commands);
    let values: Vec<&str> = (all.iter())
        .filter(|(c, _)| c.starts_with("print"))
        .map(|(_, t)| t.trim().rsplit(' ').next().unwrap())
        .collect();
    // The call made 110 of it, which is forgotten; 5 is there on its timeline whichever way.
    assert_eq!(values, ["100", "10", "5", "5", "5", "10"], "{}", ran.out);
    assert!(all[7].1.trim().ends_with("the recording"), "{:?}", all[7]);
    assert!(
        all[11].1.contains("* 1  set 4 bytes of memory"),
        "{:?}",
        all[11]
    );
}
