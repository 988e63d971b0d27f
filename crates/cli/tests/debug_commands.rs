//! gdb's own commands, held against gdb itself on the same program without us: the same commands at the same
//! stops show the same.

mod harness;

use std::collections::BTreeSet;

use harness::Place;
use harness::gdb::{answer, contains, debug, native, same_as_native, told};

/// From stop to stop: lines, functions, watchpoints, signals.
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

/// Looking at source, code, data and types; breakpoints of all kinds.
const LOOK: &str = r#"tbreak main
continue
info sharedlibrary
info functions fib
info variables ^total
info types item
list main
list push,weigh
list fibonacci
list -
forward-search struct
reverse-search include
search weigh
disassemble /r main,+8
disassemble /s push
disassemble push
disassemble /rs fibonacci
x/4xb &mixed
x/2xh &mixed
x/2xw &mixed
x/2xg &mixed
x/3c names[0]
x/2dw &mixed
x/2uw &mixed
x/2ow &mixed
x/2tw &mixed
x/2zw &mixed
x/2a $rip
x/1fg &sum
x/2wx
x
print/x total
print/d argc
print/u argc
print/o argc
print/t argc
print/c 65
print/a main
print/z argc
print/f 3
print/s names[0]
print/r mixed
print -pretty -- mixed
print $_exitcode
print $bpnum
print $pc
print $_
print $__
ptype main
ptype/o struct mixed
ptype list
whatever list
whatever fibonacci(2)
ptype argv
ptype mixed.u
print &names[1]
print names[1]@2
print 'tour.c'::total
print fibonacci::n
print $nonexistent
print nosuchvariable
set variable i = 3
print i
print total = 5
print total
print sizeof(names)/sizeof(names[0])
print argc > 2 && i == 3
print (char)argc
print "text"
print 'A'
print {1,2}
print 0x10 | 3
print -5 / 2
print 7 % 3
print !argc
print argc ? names[0] : names[1]
set $counter = 5
print $counter++
set listsize 4
list 20
show listsize
set print address off
print main
set print address on
set print elements 2
print names[0]
set print elements 200
set output-radix 16
print 31
set output-radix 10
info line weigh
info scope weigh
info address main
info address list
info symbol names
info source
tbreak weigh
info breakpoints
continue
info frame
info locals
up
info locals
frame 0
frame 1
frame function main
frame level 0
frame apply all print $pc
faas print 1
bt full
bt -1
bt full 1
where 1
step
next
next 2
stepi 3
nexti 2
display sum
display/i $pc
info display
next
disable display 1
next
undisplay 2
delete display
info display
finish
print $
print $$2
print $1
hbreak fibonacci
thbreak on_signal
break 25 if n == 1
condition $bpnum n == 0
condition $bpnum
disable $bpnum
info breakpoints
enable once $bpnum
enable delete $bpnum
enable count 2 $bpnum
enable $bpnum
info breakpoints
continue
info breakpoints
bt 2
continue
bt 2
clear fibonacci
info breakpoints
delete
tbreak fibonacci
continue
return 5
bt 1
next
delete
watch -l mixed.list[2]
info watchpoints
watch total if total > 3
continue
print mixed.list
delete
tbreak _exit
continue
bt -1
"#;

/// Registers, calls into the program, memory in and out, catchpoints.
const TOUCH: &str = r#"rbreak ^fib
tbreak main
continue
info line
skip function push
info skip
tbreak 58
continue
step
skip delete
find &mixed, +sizeof(mixed), 5
find /w &mixed, +sizeof(mixed), 7
dump binary value dumped mixed
restore dumped binary &mixed
append binary value dumped argc
print mixed
save breakpoints saved
python print(gdb.parse_and_eval("total") + 1)
python print(gdb.selected_frame().name(), gdb.selected_frame().older() is not None)
eval "print %d", 3
echo hello\n
printf "%s %5.2f %c %lu\n", names[1], 2.5, 65, sizeof(long)
output/x 255
info all-registers rip
info registers rip rbp
info float
info vector
compare-sections
info handle SIGINT
handle SIGUSR1 nostop noprint pass
info signals SIGUSR1
info macro NULL
info symbol push
info source
info frame function main
tbreak +3
break
info breakpoints
delete
until 59
advance weigh
advance 41
until
show environment HOME
break *main+4
break tour.c:25
break tour.c:push
tbreak -function single
info breakpoints
disable
enable 9
continue
bt
up 2
down 1
up-silently
down-silently
frame
print $rip
print $eflags
print $xmm0
print $st0
print/x $mxcsr
print $ax
print $al
set $rax = 7
print $rax
print $sp
x/2gx $sp
call fibonacci(12)
call (void) push(list, 3, "x", 1.5)
print push(list, 4, "y", 2.5)->name
print *push(list, 4, "y", 2.5)
print single(item)
print strlen("four")
print (unsigned long) strlen("four")
print abs(-3)
ptype single
ptype struct item
ptype enum colour
whatever mixed.colour
whatever &mixed
list single
info line single
info scope push
macro define TWO 2
print TWO
macro list
print sizeof(struct item)
print &((struct item *)0)->weight
print (long) &((struct item *)0)->weight
print item->next->name
p *item->next
p item->name[0]
p &item->name
p *item.name@3
p/c item.name[0]@5
p/x (short)-1
p/t 10
p 5 > 3 ? 1 : 2
p 10 == 10.0
p 1 == 2
p 'tour.c'::mixed.list
ptype 'tour.c'::mixed.list
p $_gdb_setting("listsize")
p $_streq("a", "a")
p $_strlen(names[0])
info types .
info variables signals
info functions ^weigh
info line tour.c:25
stepi
x/i $pc
stepi 4
x/i $pc
nexti 2
x/i $pc
finish
next 3
catch signal SIGUSR1
catch syscall write
catch load
info breakpoints
continue
bt -1
continue
bt -1
continue
"#;

/// The commands of a list, by their names; of a family of commands each member.
fn names(commands: &str) -> BTreeSet<String> {
    let families = [
        "info", "set", "show", "catch", "enable", "disable", "frame", "macro", "skip", "dump",
    ];
    let short = [("p", "print"), ("bt", "backtrace"), ("where", "backtrace")];
    let mut names = BTreeSet::new();
    for command in commands.lines() {
        let mut words = command.split_whitespace();
        let first = words.next().expect("a command");
        let first = first.split('/').next().expect("a name");
        let full = short.iter().find(|(s, _)| *s == first);
        let first = full.map_or(first, |(_, full)| full);
        let second = words
            .next()
            .filter(|w| w.chars().all(|c| c.is_ascii_lowercase() || c == '-'));
        names.insert(match (families.contains(&first), second) {
            (true, Some(second)) => format!("{first} {second}"),
            _ => first.to_owned(),
        });
    }
    names
}

#[test]
fn well_over_sixty_commands_are_compared() {
    let all: BTreeSet<String> = [TOUR, LOOK, TOUCH].into_iter().flat_map(names).collect();
    assert!(all.len() >= 100, "{}: {all:?}", all.len());
    for must in [
        "until",
        "advance",
        "tbreak",
        "rwatch",
        "awatch",
        "catch syscall",
        "catch signal",
        "display",
        "x",
        "disassemble",
        "ptype",
        "finish",
        "call",
        "info line",
        "info scope",
        "info frame",
        "return",
        "watch",
    ] {
        assert!(all.contains(must), "{must}");
    }
}

#[test]
fn tour_is_as_it_is_natively() {
    same_as_native("debug/tour.c", &["-O0"], &["one", "two"], TOUR);
}

#[test]
fn tour_is_as_it_is_natively_when_optimised() {
    same_as_native("debug/tour.c", &["-O2"], &["one", "two"], TOUR);
}

#[test]
fn looking_shows_what_it_shows_natively() {
    same_as_native("debug/tour.c", &["-O0"], &["one", "two"], LOOK);
}

#[test]
fn touching_does_what_it_does_natively() {
    same_as_native("debug/tour.c", &["-O0"], &["one", "two"], TOUCH);
}

/// What is mapped is the recorded process's: the same files at the same offsets with the same rights.
#[test]
fn mappings_are_those_of_the_process() {
    let p = Place::new();
    let guest = p.guest("debug/tour.c", &["-O0"]);
    p.run(&guest, &["one", "two"]).exits(0);
    let commands = "tbreak push\ncontinue\ninfo proc mappings\n";
    let own = |ran: harness::Ran| -> Vec<String> {
        let all = told(&ran, commands);
        let lines = answer(&all, "info proc", 0).lines();
        lines
            .filter(|l| l.ends_with("/tour"))
            .map(str::to_owned)
            .collect()
    };
    let theirs = own(native(&p, &guest, &["one", "two"], commands));
    assert!(theirs.len() >= 4, "{theirs:?}");
    assert_eq!(own(debug(&p, commands)), theirs);
}

/// `run` begins again, as often as one likes, with the breakpoints that are there.
#[test]
fn run_begins_again() {
    let p = Place::new();
    let guest = p.guest("debug/tour.c", &["-O0"]);
    p.run(&guest, &["one", "two"]).exits(0);
    let commands = "break push\nrun\nprint number\nwhen\ncontinue\nprint number\nrun\nprint number\nwhen\n\
                    delete\ncontinue\ncontinue\ncontinue\ntbreak push\nrun\nprint number\nwhen\n";
    let ran = debug(&p, commands);
    let all = told(&ran, commands);
    let number = |n| answer(&all, "print number", n).trim().rsplit(' ').next();
    assert_eq!(
        [0, 1, 2, 3].map(number),
        [Some("1"), Some("2"), Some("1"), Some("1")]
    );
    contains(answer(&all, "continue", 3), &["exited normally"]);
    assert_eq!(answer(&all, "when", 0), answer(&all, "when", 1));
    assert_eq!(answer(&all, "when", 0), answer(&all, "when", 2));
}

/// A great number of hits is ignored by the program's own code, and gdb is told what is left of it; with a
/// condition gdb counts by itself.
#[test]
fn ignore_counts_are_those_of_gdb() {
    let p = Place::new();
    let source = "#include <signal.h>\nvolatile long n;\n__attribute__((noipa)) void tick(void) { n++; }\n\
                  __attribute__((noipa)) void tock(void) { n++; }\n\
                  int main(void) {\n    signal(SIGUSR1, SIG_IGN);\n    for (int i = 0; i < 4000; i++) {\n\
                  tick();\n        if (i == 1500) tock();\n    }\n    return 0;\n}\n";
    let guest = p.build("ticking", source, &["-O1"]);
    p.run(&guest, &[]).exits(0);
    let commands = "break main\ncontinue\nbreak tick\nignore 2 1000\ncontinue\nprint n\ncontinue 301\nprint n\n\
                    tbreak tock\nignore 2 500\ncontinue\nprint n\npython print(gdb.breakpoints()[1].ignore_count)\n\
                    continue\nprint n\nbreak tick if n % 2 == 0\nignore 4 200\ndisable 2\ncontinue\nprint n\n\
                    python print(gdb.breakpoints()[2].hit_count)\nbreak tick\nignore 5 150\nenable 2\n\
                    ignore 2 150\ndelete 4\ncontinue\nprint n\n";
    let ours = told(&debug(&p, commands), commands);
    let theirs = told(&native(&p, &guest, &[], commands), commands);
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs);
    }
    // gdb has not seen the others, and the list says so.
    let commands = "break main\ncontinue\nbreak tick\nignore 2 1000\ncontinue\ninfo breakpoints\n\
                    reverse-continue\nprint n\n";
    let all = told(&debug(&p, commands), commands);
    contains(
        answer(&all, "info breakpoints", 0),
        &[
            "already hit 1 time\n",
            "breakpoint 2 was passed by 1000 more times",
        ],
    );
    contains(answer(&all, "print n", 0), &["= 999"]);
}

/// An execution of a line by its number, wherever the program stands, also of a line with several beginnings.
#[test]
fn goto_finds_an_execution_of_a_line() {
    let p = Place::new();
    let source = "volatile long n;\nint main(void) {\n    for (int i = 0; i < 3000; i++) {\n        n += i;\n    }\n\
                  return 0;\n}\n";
    let guest = p.build("loop", source, &["-O0"]);
    p.run(&guest, &[]).exits(0);
    let commands = "goto loop.c:4 2000\nprint i\ninstance loop.c:4\ngoto loop.c:4\nprint i\ngoto loop.c:4 3000\n\
                    print i\ngoto loop.c:4 3001\nprint i\ngoto loop.c:4 0\ngoto loop.c:x 2\ngoto loop.c:3 2500\n\
                    instance loop.c:3\nprint n\nsuppress loop.c:4 2900\nbreak 6\ncontinue\nprint n\n\
                    instance loop.c:4\n";
    let all = told(&debug(&p, commands), commands);
    let values: Vec<&str> = (all.iter().filter(|(c, _)| c.starts_with("print")))
        .map(|(_, t)| t.trim().rsplit(' ').next().unwrap())
        .collect();
    // Without the 2,900th addition, of 2,899, that is missing in the sum.
    let sum = (0..3000).sum::<u64>() - 2899;
    assert_eq!(values[..4], ["1999", "0", "2999", "2999"], "{all:?}");
    assert_eq!(values[5], sum.to_string(), "{all:?}");
    contains(
        answer(&all, "instance loop.c:4", 0),
        &["executed 1999 times"],
    );
    contains(
        answer(&all, "goto loop.c:4 3001", 0),
        &["not executed 3001 times"],
    );
    contains(answer(&all, "goto loop.c:4 0", 0), &["from 1"]);
    contains(
        answer(&all, "goto loop.c:x", 0),
        &["does not end in a line"],
    );
    contains(
        answer(&all, "instance loop.c:3", 0),
        &["executed 2499 times"],
    );
}
