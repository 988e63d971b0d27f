//! The bare engine from the command line, for work on it: `try run [--recordings DIR] -- PROGRAM ARGS` and `try replay`.
use std::path::Path;
fn main() {
    let mut args: Vec<std::ffi::OsString> = std::env::args_os().skip(1).collect();
    let verb = args.remove(0);
    let mut dir = std::ffi::OsString::from("/tmp/rec/try");
    let mut quiet = false;
    loop {
        if args.is_empty() {
            break;
        }
        let a = args[0].clone();
        if a == "--" {
            args.remove(0);
            break;
        }
        if a == "--quiet" {
            quiet = true;
            args.remove(0);
            continue;
        }
        if a == "--recordings" {
            args.remove(0);
            dir = args.remove(0);
            continue;
        }
        break;
    }
    let folder = Path::new(&dir).join("one");
    let end = if verb == "replay" {
        let mut r = guest::Replay::open(&folder, guest::pass_through()).unwrap_or_else(|e| {
            eprintln!("{e}");
            std::process::exit(3)
        });
        if !quiet {
            r.on_crash(|c| {
                eprintln!(
                    "crash: signal {} at {:x} step {} from {:x}",
                    c.signal, c.regs.rip, c.step, c.branched_from
                )
            });
        }
        match r.run(&guest::Until {
            step: std::env::var("TO").ok().map(|s| s.parse().unwrap()),
            ..Default::default()
        }) {
            Ok(h) => {
                if !quiet {
                    eprintln!("{h:?} at {:?}, {:?}", r.step(), r.stats());
                }
                match h {
                    guest::Halt::Ended(e) => e,
                    _ => return,
                }
            }
            Err(e) => {
                eprintln!("{e}");
                std::process::exit(3)
            }
        }
    } else {
        let program = args.remove(0);
        let launch = guest::Launch::new(program, args).unwrap();
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let mut r = guest::Recorder::start(&launch, &folder).unwrap();
        if !quiet {
            r.on_crash(|c| {
                eprintln!(
                    "crash: signal {} at {:x} step {} from {:x}",
                    c.signal, c.regs.rip, c.step, c.branched_from
                )
            });
        }
        let done = r.run().unwrap_or_else(|e| {
            eprintln!("{e}");
            std::process::exit(3)
        });
        if !quiet {
            eprintln!("{:?} {:?}\n{:?}", done.end, done.stats, done.notes);
        }
        done.end
    };
    match end {
        guest::End::Exited(c) => std::process::exit(c),
        guest::End::Killed(s) => unsafe {
            libc::setrlimit(
                libc::RLIMIT_CORE,
                &libc::rlimit {
                    rlim_cur: 0,
                    rlim_max: 0,
                },
            );
            libc::signal(s, libc::SIG_DFL);
            libc::kill(libc::getpid(), s);
        },
    }
}
