//! What gdb can do besides stepping and printing: C++, catchpoints, core files, completion, help.
//!
//! The oracle is gdb itself: on the same program without us, or on another command that completes alike.

mod harness;

use std::process::Command;

use harness::gdb::{answer, contains, debug, mark, native, same_as_native, script, sections, told};
use harness::{Place, finish};

const SHELF: &str = "debug/shelf.cpp";

#[test]
fn cpp_looks_as_it_does_natively() {
    let filled = mark(SHELF, "filled");
    let commands = format!(
        "tbreak main\ncontinue\ncatch throw\ncatch catch\ncatch signal SIGUSR1\ninfo breakpoints\n\
         tbreak {filled}\ncontinue\nprint sizes\nprint places\nprint name\nprint sizes.size()\n\
         print sizes[2]\nprint places.size()\nprint *book\nset print object on\nprint *book\nprint book->weight()\n\
         ptype book\nptype Atlas\ninfo vtbl book.get()\nprint visits\nprint &sizes[1] - &sizes[0]\n\
         set print pretty on\nprint places\ninfo locals\n\
         continue\nbt -1\nprint $_siginfo.si_signo\nprint $_siginfo.si_code\n\
         print visits\ncontinue\nbt -2\nup\nup\nprint title\ninfo locals\n\
         continue\nbt -1\nfinish\nnext\nprint name\nnext\nprint sum\ndelete\n\
         info signals SIGUSR1\ntbreak _exit\ncontinue\n"
    );
    for level in ["-O0", "-O1"] {
        same_as_native(SHELF, &[level], &[], &commands);
    }
}

/// Each thread has its own, and a program without libraries has them too.
#[test]
fn variables_of_threads_are_found() {
    let p = Place::new();
    let source = "#include <errno.h>\n#include <pthread.h>\n#include <unistd.h>\n\
                  static __thread int own = 5;\nstatic int all;\n\
                  static void *work(void *n)\n{\n    own += *(int *)n;\n    close(-1);\n    all += own;\n    return 0;\n}\n\
                  int main(void)\n{\n    pthread_t t;\n    int n = 7;\n    errno = 3;\n    own = 20;\n\
                  pthread_create(&t, 0, work, &n);\n    pthread_join(t, 0);\n    return all - 12;\n}\n";
    for (name, flag) in [("dynamic", "-no-pie"), ("static", "-static")] {
        let guest = p.build(name, source, &["-pthread", flag]);
        p.run(&guest, &[]).exits(0);
        let commands = "break 10\ncontinue\nprint own\nprint errno\nthread 1\nprint own\nprint errno\n\
                        thread 2\nset var own = 1\nprint own\nstepi\nprint own\n";
        let ran = debug(&p, commands);
        let all = told(&ran, commands);
        let values: Vec<&str> = (all.iter().filter(|(c, _)| c == "print own"))
            .map(|(_, t)| t.trim().rsplit(' ').next().unwrap())
            .collect();
        assert_eq!(values, ["12", "20", "1", "1"], "{name}: {}", ran.out);
    }
}

/// What came with a signal: who sent it, or which address was wrong.
#[test]
fn siginfo_says_what_was_wrong() {
    let p = Place::new();
    let source = "int main(int argc, char **argv)\n{\n    if (argc > 1)\n        return argc / (argc - 2);\n\
                  return *(volatile int *)0x1230 + argv[0][0];\n}\n";
    let guest = p.build("faults", source, &["-O0"]);
    let look = "continue\nprint $_siginfo.si_signo\nprint $_siginfo.si_code\n\
                print $_siginfo._sifields._sigfault.si_addr\ninfo line *$pc\n";
    for args in [&[][..], &["x"]] {
        let ran = p.run(&guest, args);
        assert!(ran.signal.is_some(), "{args:?}: {}", ran.err);
        let (theirs, ours) = (native(&p, &guest, args, look), debug(&p, look));
        assert_eq!(told(&ours, look)[1..], told(&theirs, look)[1..], "{args:?}");
        contains(answer(&told(&ours, look), "print", 0), &["$1 = "]);
    }
    // Without a signal there is nothing to be told.
    let commands = "break main\ncontinue\nprint $_siginfo\n";
    let ran = debug(&p, commands);
    contains(
        answer(&told(&ran, commands), "print", 0),
        &["Unable to read siginfo"],
    );
}

/// Conditions are judged where the guest is; gdb itself is the oracle of what they mean.
#[test]
fn conditions_mean_what_they_mean_to_gdb() {
    let conditions = [
        "n == 9",
        "n > 5 && to == &odd",
        "*to == 3 || n == 4",
        "n % 3 == 0",
        "(char) (n * 40) < 0",
        "(n << 2) - 7 >= 29",
        "(unsigned char) (n * 50) / 7 > 20",
        "!(n - 15)",
        "~n == -7",
        "(n ^ 3) == 0",
        "text[0] == 0 && n == 6",
        "$rsp % 16 == 0 && n > 4",
        "n == 2 ? 0 : 1",
        "*(long *) 16 == 1",
        "factor * 2 == n",
        "n == nobody",
    ];
    let p = Place::new();
    let guest = p.guest("debug/two_sums.c", &["-O0"]);
    p.run(&guest, &[]).exits(0);
    // Two stops that come at the latest, so that no run ends.
    let last = mark("debug/two_sums.c", "print");
    let steady = |all: Vec<(String, String)>| -> Vec<(String, String)> {
        let notes = |t: &str| {
            t.replace(" (target evals)", "")
                .replace(" (host evals)", "")
        };
        let shown = all.into_iter().filter(|(c, _)| c != "run");
        shown.map(|(c, t)| (c, notes(&t))).collect()
    };
    for some in conditions.chunks(4) {
        let mut commands = String::from("break main\ncontinue\n");
        for condition in some {
            commands.push_str(&format!(
                "tbreak main\nrun\ndelete\nbreak calls\nbreak {last}\nbreak add if {condition}\n\
                 continue\nbt 1\nprint n\nprint odd\ninfo breakpoints\ncontinue\nprint n\nprint odd\n"
            ));
        }
        let theirs = native(&p, &guest, &[], &commands);
        let ours = debug(&p, &commands);
        contains(&ours.out, &["(target evals)"]);
        let theirs = steady(told(&theirs, &commands));
        for (ours, theirs) in steady(told(&ours, &commands)).iter().zip(&theirs) {
            assert_eq!(ours, theirs);
        }
    }
}

/// The lines that gdb shows, in the order in which they are shown.
fn lines(all: &[(String, String)]) -> Vec<&str> {
    let texts = all.iter().filter(|(c, _)| c.starts_with("python"));
    texts.map(|(_, t)| t.trim()).collect()
}

/// Line by line into calls and out of them, there and back, as native gdb does it with a recording of
/// its own (which knows no vector instructions, so that it is limited to the guest's own code).
#[test]
fn reverse_step_goes_where_native_gdb_goes() {
    let p = Place::new();
    let guest = p.guest("debug/two_sums.c", &["-O0"]);
    p.run(&guest, &[]).exits(0);
    let here = "python f = gdb.selected_frame(); print(f.name(), f.find_sal().line)\n";
    let line = mark("debug/two_sums.c", "factor");
    let begin = format!("break {line}\ncontinue\ndelete\n");
    for (forward, back, times) in [
        ("step", "reverse-step", 30),
        ("next", "reverse-next", 4),
        ("stepi 3", "reverse-stepi 2", 30),
        ("step", "reverse-finish", 9),
    ] {
        let way = format!(
            "{here}{}{}",
            format!("{forward}\n{here}").repeat(times),
            format!("{back}\n{here}").repeat(if back == "reverse-finish" { 1 } else { times }),
        );
        let commands = format!("{begin}{way}");
        let ours = debug(&p, &commands);
        let ours = told(&ours, &commands);
        let commands = format!("{begin}record full\n{way}");
        let theirs = native(&p, &guest, &[], &commands);
        let theirs = told(&theirs, &commands);
        assert_eq!(lines(&ours), lines(&theirs), "{forward} and {back}");
        let inside = lines(&ours).iter().any(|l| l.starts_with("add"));
        assert_eq!(inside, forward != "next");
    }
    // From inside of a function to where it was called.
    let commands = "break add\ncontinue\ndelete\nreverse-finish\ninfo symbol $pc\nx/i $pc\n";
    let ran = debug(&p, commands);
    let all = told(&ran, commands);
    contains(answer(&all, "info symbol", 0), &["sums + "]);
    contains(answer(&all, "x/i", 0), &["call", "<add>"]);
}

/// A core file that is made of a recording is what gdb reads back.
#[test]
fn a_core_file_is_read_back() {
    let p = Place::new();
    let guest = p.guest("debug/tour.c", &["-O0"]);
    p.run(&guest, &["one", "two"]).exits(0);
    let look = "bt\ninfo locals\ninfo registers\nprint total\nprint *item\nprint *item->next\n\
                x/16xb $sp\nup\nprint names\nprint text\nprint argv[1]\ninfo symbol $pc\n";
    let core = p.path("core");
    let make = format!(
        "break {}\ncontinue\ncontinue\ncontinue\n",
        mark("debug/tour.c", "pushed")
    );
    let commands = format!("{make}{look}down\ngenerate-core-file {}\n", core.display());
    let ran = debug(&p, &commands);
    let all = told(&ran, &commands);
    contains(answer(&all, "generate-core-file", 0), &["Saved corefile"]);
    let script = script(&p, "core.gdb", "", look);
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-q", "-batch", "-x", &script]);
    gdb.arg(&guest).arg(&core);
    let read = finish(gdb);
    let back = sections(&read.out);
    assert_eq!(back.len(), look.lines().count(), "{}{}", read.out, read.err);
    let skip = make.lines().count();
    for ((command, ours), theirs) in all[skip..].iter().zip(&back) {
        // A core file has no control words of the x87 that differ, and says so of nothing else.
        assert_eq!(ours, theirs, "{command}");
    }
}

/// Our commands complete places as gdb's own `break` does, and what else they take.
#[test]
fn commands_are_completed() {
    let p = Place::new();
    let guest = p.guest("debug/tour.c", &["-O0"]);
    p.run(&guest, &["one", "two"]).exits(0);
    let places = ["tour.c:fib", "tour.c:", "fibon", "wei"];
    let verbs = ["switch", "suppress", "record", "instance"];
    let mut commands = String::from("break main\ncontinue\n");
    for place in places {
        commands.push_str(&format!("complete tbreak {place}\n"));
        for verb in verbs {
            commands.push_str(&format!("complete {verb} {place}\n"));
        }
    }
    let given = [
        ("switch tour.c:24 a", "switch tour.c:24 all"),
        ("suppress tour.c:24 o", "suppress tour.c:24 once"),
        (
            "record tour.c:24 o",
            "record tour.c:24 off|record tour.c:24 on",
        ),
        ("lbreak malloc i", "lbreak malloc if"),
        (
            "lbreak malloc if r",
            "lbreak malloc if read|lbreak malloc if ret==",
        ),
        ("lbreak malloc if arg1", "lbreak malloc if arg1=="),
        ("rollback 1", "rollback 1"),
        ("cdelete 1", "cdelete 1"),
        ("timeline 1", "timeline 1"),
        ("sbreak a", "sbreak all"),
        ("sdelete 1", "sdelete 1"),
        ("snext 1", "snext 1"),
        ("ldelete 1", "ldelete 1"),
        ("roll", "rollback"),
        ("info timel", "info timelines"),
        ("info lb", "info lbreaks"),
        ("edit delete 1", "edit delete 1"),
    ];
    commands
        .push_str("checkpoint\ncheckpoint\nset var total = 7\nstepi\nlbreak free\nslice total\n");
    for (text, _) in given {
        commands.push_str(&format!("complete {text}\n"));
    }
    let ran = debug(&p, &commands);
    let all = told(&ran, &commands);
    for place in places {
        let own = answer(&all, &format!("complete tbreak {place}"), 0);
        assert!(own.contains("tbreak"), "gdb completes {place}: {own}");
        for verb in verbs {
            let ours = answer(&all, &format!("complete {verb} {place}"), 0);
            assert_eq!(ours, own.replace("tbreak", verb));
        }
    }
    for (text, expected) in given {
        let (_, got) = all
            .iter()
            .find(|(c, _)| *c == format!("complete {text}"))
            .expect("the command was given");
        let got: Vec<&str> = got
            .split('\n')
            .map(str::trim)
            .filter(|l| !l.is_empty())
            .collect();
        assert_eq!(got.join("|"), expected, "{text}");
    }
}

/// What a user's script defines does not get in the way of our commands.
#[test]
fn scripts_may_define_what_they_like() {
    let p = Place::new();
    let guest = p.build("small", "int main(void) { return 3; }", &[]);
    p.run(&guest, &[]).exits(3);
    let commands = "python run = ask = look = number = None\nwhen\ngoto 10\nwhen\n";
    let ran = debug(&p, commands);
    let all = told(&ran, commands);
    contains(answer(&all, "when", 0), &["step 0 of"]);
    contains(answer(&all, "when", 1), &["step 10 of"]);
}

/// Each command that the manual lists has a help text of its own that shows how it is written.
#[test]
fn every_command_of_the_manual_has_help() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let manual = std::fs::read_to_string(root.join("docs/debug.md")).unwrap();
    let table = manual.lines().filter(|l| l.starts_with("| `"));
    let mut names: Vec<String> = Vec::new();
    for row in table {
        let first = row.replace("\\|", "/");
        let first = first.split('|').nth(1).unwrap().to_owned();
        for form in first.split('`').skip(1).step_by(2) {
            let words = form.split_whitespace();
            let name: Vec<&str> = words
                .take_while(|w| w.chars().all(|c| c.is_ascii_lowercase() || c == '-'))
                .collect();
            let name = match name[..] {
                ["info", what] => format!("info {what}"),
                [name, ..] => name.to_owned(),
                [] => panic!("{form}"),
            };
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    assert!(names.len() > 25, "{names:?}");
    let p = Place::new();
    let guest = p.build("small", "int main(void) { return 3; }", &[]);
    p.run(&guest, &[]).exits(3);
    let commands: String = names.iter().map(|n| format!("help {n}\n")).collect();
    let ran = debug(&p, &format!("{commands}help wherefore\n"));
    let all = told(&ran, &format!("{commands}help wherefore\n"));
    let overview = answer(&all, "help wherefore", 0);
    for (name, text) in names.iter().zip(all.iter().map(|(_, t)| t.trim())) {
        assert!(text.len() > 15, "help {name}: {text}");
        assert!(!text.contains("not documented"), "help {name}: {text}");
        assert!(!text.contains("Undefined"), "help {name}: {text}");
        // The first line is what lists of commands show.
        let first = text.lines().next().unwrap();
        assert!(first.len() < 100, "help {name}: {first}");
        assert!(
            overview.contains(name.as_str()),
            "{name} is not in {overview}"
        );
    }
}

/// A run in which something was set is given the signals that it sends itself, and dies of them.
#[test]
fn a_changed_run_gets_its_own_signals() {
    let p = Place::new();
    let source = "#include <signal.h>\n#include <stdlib.h>\n#include <unistd.h>\nint seen, way;\n\
                  static void on(int n) { seen += n; }\n\
                  int main(void)\n{\n    signal(SIGUSR1, on);\n    way++;\n    raise(SIGUSR1);\n\
                  kill(getpid(), SIGUSR1);\n    sigset_t set;\n    sigemptyset(&set);\n    sigaddset(&set, SIGUSR1);\n\
                  sigprocmask(SIG_BLOCK, &set, 0);\n    raise(SIGUSR1);\n    way++;\n\
                  sigprocmask(SIG_UNBLOCK, &set, 0);\n    way++;\n    abort();\n}\n";
    let guest = p.build("signals", source, &["-O0"]);
    p.run(&guest, &[]).dies(6);
    let commands = "break 9\ncontinue\nset var way = 100\ncontinue\nprint seen\ncontinue\nprint seen\n\
                    tbreak 18\ncontinue\nprint seen\ncontinue\nprint seen\ntbreak 20\ncontinue\n\
                    print seen\nprint way\ncontinue\nprint $_siginfo.si_signo\nbt -1\n";
    let theirs = told(&native(&p, &guest, &[], commands), commands);
    let ours = told(&debug(&p, commands), commands);
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs);
    }
    contains(answer(&ours, "print way", 0), &["= 103"]);
    contains(answer(&ours, "continue", 5), &["SIGABRT"]);
}
