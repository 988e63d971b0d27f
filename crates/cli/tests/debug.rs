//! `wherefore debug` and `wherefore serve`, with the real gdb.
//!
//! What gdb shows is held against gdb without us in `debug_commands.rs`. The oracle of going back is going
//! forward.

mod harness;

use std::fs;
use std::path::Path;
use std::process::Command;

use harness::gdb::{Typed, answer, contains, debug, mark, told};
use harness::{Place, finish};

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

/// Seed 001's first story: a return address smashed by `strcpy`.
#[test]
fn story_of_a_name_that_is_too_long() {
    let guest = "debug/long_name.c";
    let [cause, ret, predicate, call] =
        ["cause", "return", "predicate", "call"].map(|m| mark(guest, m));
    let long = "a_name_that_is_much_longer_than_the_array_which_is_to_hold_it_for_a_while";
    for level in ["-O0", "-O2"] {
        let p = Place::new();
        let program = p.guest(guest, &[level]);
        p.run(&program, &["short", long]).dies(11);
        let commands = format!(
            "continue\nwhere $pc\nslice\ninfo slices\nslice 1 tree\nbreak main\nreverse-continue\n\
             delete\ncheckpoint\nsuppress long_name.c:{call} 2\ncontinue\ncontinue\nrun\n\
             rollback 1\nswitch long_name.c:{predicate} 2\ncontinue\ncontinue\nrun\n\
             timeline 0\ncontinue\n"
        );
        let ran = debug(&p, &commands);
        let all = told(&ran, &commands);
        contains(answer(&all, "continue", 0), &["SIGSEGV"]);
        // The true crash point, and who did it.
        contains(
            answer(&all, "where $pc", 0),
            &[
                "where there is no code",
                "compress at long_name.c",
                "ret",
                &format!("last written by compress at long_name.c:{cause}, inside"),
            ],
        );
        let slice = answer(&all, "slice", 0);
        contains(slice, &[&format!("long_name.c:{cause}"), "the jump to"]);
        let tree = answer(&all, "slice 1 tree", 0);
        contains(tree, &[&format!("-> long_name.c:{cause}")]);
        // Without the second call, or with the predicate the other way, nothing crashes.
        if level == "-O0" {
            contains(slice, &[&format!("long_name.c:{ret}")]);
            for i in [2, 4] {
                contains(answer(&all, "continue", i), &["exited normally"]);
            }
        }
        contains(answer(&all, "continue", 5), &["SIGSEGV"]);
    }
}

/// A detector that is on stops the program before the fault; one that is off does not.
#[test]
fn detectors_on_and_off() {
    let guest = "debug/shallow_copy.c";
    let fault = mark(guest, "fault");
    let p = Place::new();
    let program = p.guest(guest, &["-O0"]);
    p.run(&program, &[]).dies(6);
    let commands = "info detectors\ndetector double_free on\ninfo detectors\ncontinue\nbt 3\n\
                    goto 0\ndetector double_free off\ncontinue\ndetector double_free off\ndetector nothing on\n";
    let ran = debug(&p, commands);
    let all = told(&ran, commands);
    contains(answer(&all, "info detectors", 0), &["off  double_free"]);
    contains(answer(&all, "detector", 0), &["step ", "double free"]);
    contains(answer(&all, "info detectors", 1), &["on   double_free"]);
    contains(answer(&all, "continue", 0), &["double free: free("]);
    contains(answer(&all, "bt", 0), &[&format!("shallow_copy.c:{fault}")]);
    contains(answer(&all, "continue", 1), &["SIGABRT"]);
    contains(answer(&all, "detector", 2), &["is not on"]);
    contains(answer(&all, "detector", 3), &["there is no rule `nothing`"]);
}

/// The second: freed twice through a shallow copy.
#[test]
fn story_of_a_shallow_copy() {
    let guest = "debug/shallow_copy.c";
    let [cause, free, predicate, first, fault] =
        ["cause", "free", "predicate", "first", "fault"].map(|m| mark(guest, m));
    let p = Place::new();
    let program = p.guest(guest, &["-O0"]);
    p.run(&program, &[]).dies(6);
    let commands = format!(
        "continue\nframe function discard\nprint a->php\nbreak main\nreverse-continue\ndelete\n\
         python gdb.execute('lbreak free if arg1==' + str(int(gdb.history(0).cast(gdb.lookup_type('long')))))\n\
         continue\nbt 2\ninfo lbreaks\ncontinue\nbt 2\nldelete 1\n\
         slice shallow_copy.c:{free} 2 a->php\ngoto 0\ncheckpoint\n\
         switch shallow_copy.c:{predicate} 2\ncontinue\ncontinue\ninfo edits\n"
    );
    let ran = debug(&p, &commands);
    let all = told(&ran, &commands);
    contains(answer(&all, "continue", 0), &["SIGABRT"]);
    contains(
        answer(&all, "continue", 1),
        &[
            "lbreak 1: a call of free",
            &format!("shallow_copy.c:{free}"),
        ],
    );
    contains(answer(&all, "bt", 0), &[&format!("shallow_copy.c:{first}")]);
    contains(answer(&all, "bt", 1), &[&format!("shallow_copy.c:{fault}")]);
    assert!(
        !answer(&all, "slice", 0).contains(&format!("shallow_copy.c:{cause} ")),
        "the second free is of the original: {}",
        answer(&all, "slice", 0)
    );
    contains(answer(&all, "continue", 4), &["exited normally"]);
    // The pointer of the first free came through the shallow copy.
    let commands =
        format!("break {free}\ncontinue\nslice a->php\nslice 1 tree\nsdelete 1\ninfo slices\n");
    let ran = debug(&p, &commands);
    let all = told(&ran, &commands);
    contains(
        answer(&all, "slice", 0),
        &[&format!("shallow_copy.c:{cause} ")],
    );
    contains(answer(&all, "info slices", 0), &["no slices"]);
}

/// The last: a null pointer, and the predicate that let it pass.
#[test]
fn story_of_a_missing_entry() {
    let guest = "debug/missing_entry.c";
    let [null, cause, fault] = ["null", "cause", "fault"].map(|m| mark(guest, m));
    let p = Place::new();
    let program = p.guest(guest, &["-O0"]);
    p.run(&program, &[]).dies(11);
    let commands = format!(
        "continue\nprint entry\ninstance missing_entry.c:{fault}\nslice entry\nfollow e1\nwhen\nsprev\nsnext\n\
         goto 0\nswitch missing_entry.c:{cause} 2\ncontinue\ncontinue\nrun\ntimeline 0\nswitch nowhere.c:3\n\
         switch missing_entry.c:{null}\nsuppress missing_entry.c:{cause} x\nrollback 7\nfollow e999\n\
         sbreak 1 99\nprune 1 nothing_of_that_name\ntimeline 9\nedit delete 4\ncdelete 2\ngoto 99999999999\n"
    );
    let ran = debug(&p, &commands);
    let all = told(&ran, &commands);
    contains(
        answer(&all, "continue", 0),
        &["SIGSEGV", &format!("{fault}\t")],
    );
    contains(answer(&all, "print entry", 0), &["0x0"]);
    contains(
        answer(&all, "slice", 0),
        &[&format!("missing_entry.c:{null}")],
    );
    contains(answer(&all, "instance", 0), &["executed 2 times"]);
    contains(answer(&all, "continue", 2), &["exited normally"]);
    // What makes no sense is answered, and loses nothing.
    for (command, why) in [
        ("switch nowhere.c", "no code at nowhere.c:3"),
        (
            &format!("switch missing_entry.c:{null}"),
            "no conditional branch",
        ),
        (
            &format!("suppress missing_entry.c:{cause} x"),
            "not the number",
        ),
        ("rollback 7", "no checkpoint 7"),
        ("follow e999", "no edge 999"),
        ("sbreak 1 99", "no statement 99"),
        ("prune 1 noth", "cannot be pruned"),
        ("timeline 9", "no timeline 9"),
        ("edit delete 4", "no edit 4"),
        ("cdelete 2", "no checkpoint 2"),
    ] {
        contains(answer(&all, command, 0), &[why]);
    }
}

#[test]
fn ctrl_c_stops_a_guest_that_runs() {
    let p = Place::new();
    let source = "#include <stdio.h>\n#include <sys/time.h>\nvolatile long n;\nint main(void) {\n\
                  struct itimerval t = { { 0 }, { 4 } };\nsetitimer(ITIMER_PROF, &t, 0);\n\
                  puts(\"it spins\");\nfflush(stdout);\nfor (;;) n++;\n}";
    let guest = p.build("spin", source, &["-O1"]);
    p.run(&guest, &[]).dies(27);
    let mut typed = Typed::new(&p, &["debug"]);
    typed.waits_for("(gdb) ");
    typed.types("continue\n");
    // Before the guest runs, Ctrl-C ends gdb's own command.
    typed.waits_for("it spins");
    typed.types("\x03");
    typed.waits_for("Program received signal SIGINT");
    typed.waits_for("(gdb) ");
    typed.types("reverse-stepi\nprint n >= 0\n");
    typed.waits_for("$1 = 1");
    typed.types("set confirm off\nquit\n");
    let status = harness::until("the end", || typed.child.try_wait().unwrap());
    assert!(status.success(), "{status}");
}

#[test]
fn threads_are_shown_and_stepped() {
    let p = Place::new();
    let guest = p.guest("threads/mutex.c", &["-O0", "-pthread"]);
    p.run(&guest, &[]).exits(0);
    let commands = "break pthread_mutex_lock\ncontinue\ncontinue\ncontinue\ninfo threads\nwhen\n\
                    thread apply all bt 1\nstepi\nreverse-stepi\nwhen\ndelete\nfinish\nreverse-finish\n";
    let ran = debug(&p, commands);
    let all = told(&ran, commands);
    let threads = answer(&all, "info threads", 0);
    assert!(threads.matches("Thread ").count() > 1, "{threads}");
    assert_eq!(answer(&all, "when", 0), answer(&all, "when", 1));
}

#[test]
fn serve_listens_where_it_says_and_ends_with_the_debugger() {
    let p = Place::new();
    let guest = p.guest("debug/tour.c", &["-O0"]);
    p.run(&guest, &["one", "two"]).exits(0);
    let socket = p.path("socket");
    let socket = socket.to_str().expect("a path");
    let server = p
        .wherefore(&["serve", "--once", "--listen", socket])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("it starts");
    harness::until("the socket", || Path::new(socket).exists().then_some(()));
    // Without files of its own gdb reads them from the recording, also when they are gone.
    fs::remove_file(&guest).expect("the program");
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-q", "-batch", "-ex"]);
    gdb.arg(format!("target extended-remote {socket}"));
    gdb.args(["-ex", "break push", "-ex", "continue", "-ex", "info args"]);
    let ran = finish(gdb);
    contains(&ran.out, &["Breakpoint 1, push", "name = ", "\"apple\""]);
    let ended = harness::finish_child(server);
    ended.exits(0);
    ended.says("listening at");
    assert!(!Path::new(socket).exists());
}

#[test]
fn a_gdb_that_is_not_there_is_named() {
    let p = Place::new();
    let guest = p.build("small", "int main(void) { return 3; }", &[]);
    p.run(&guest, &[]).exits(3);
    let ran = p.say(&["debug", "--gdb", "no-such-gdb"]);
    ran.exits(3).says("there is no `no-such-gdb`");
    p.say(&["debug", "no-such-recording"]).exits(2);
    p.say(&["serve", "--listen", "nonsense"])
        .says("cannot listen at nonsense");
}

#[test]
fn statements_are_changed_from_the_command_line() {
    let guest = "debug/missing_entry.c";
    let [cause, fault] = ["cause", "fault"].map(|m| mark(guest, m));
    let p = Place::new();
    let program = p.guest(guest, &["-O0"]);
    p.run(&program, &[]).dies(11);
    let r = p.say(&["replay", "--switch", &format!("missing_entry.c:{cause}#2")]);
    r.exits(0)
        .says("the failure is gone")
        .says("output is another");
    assert_eq!(r.out, "listed\n");
    let r = p.say(&["replay", "--suppress", &format!("missing_entry.c:{fault}")]);
    r.exits(0).says("the failure is gone");
    let r = p.say(&["replay", "--switch", &format!("missing_entry.c:{cause}#1")]);
    r.dies(11).says("its output is the same").says("as before");
    p.say(&["replay", "--switch", "missing_entry.c:999"])
        .exits(2);
}
