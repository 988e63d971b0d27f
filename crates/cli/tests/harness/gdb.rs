//! The real gdb: over a recording, and on the same program without us.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use super::{Place, Ran, finish, until};

/// What may differ: where things lie that are not the program's, and numbers of processes.
pub(crate) fn normalise(text: &str) -> String {
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
pub(crate) fn sections(text: &str) -> Vec<String> {
    let mut parts: Vec<String> = text.split("@@@").map(normalise).collect();
    parts.remove(0);
    parts
}

/// A script with a mark before each command, which goes on after an error.
pub(crate) fn script(place: &Place, name: &str, before: &str, commands: &str) -> String {
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

pub(crate) fn native(place: &Place, guest: &Path, args: &[&str], commands: &str) -> Ran {
    let script = script(place, "native.gdb", "starti\n", commands);
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-q", "-batch", "-x", &script, "--args"]);
    gdb.arg(guest).args(args);
    gdb.current_dir(place.path(""));
    finish(gdb)
}

#[track_caller]
pub(crate) fn debug(place: &Place, commands: &str) -> Ran {
    let script = script(place, "ours.gdb", "", commands);
    place.say(&["debug", "--batch", "--gdb-option=-nx", "-x", &script])
}

/// What a command printed, by its place in the script.
#[track_caller]
pub(crate) fn told(ran: &Ran, commands: &str) -> Vec<(String, String)> {
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

/// Each command shows what it shows in native gdb.
#[track_caller]
pub(crate) fn same_as_native(guest: &str, flags: &[&str], args: &[&str], commands: &str) {
    let p = Place::new();
    let guest = p.guest(guest, flags);
    p.run(&guest, args).exits(0);
    compare_with_native(&p, &guest, args, commands);
}

/// The same of the program that was recorded last.
#[track_caller]
pub(crate) fn compare_with_native(p: &Place, guest: &Path, args: &[&str], commands: &str) {
    let theirs = native(p, guest, args, commands);
    let ours = debug(p, commands);
    let (a, b) = (sections(&theirs.out), sections(&ours.out));
    let count = commands.lines().count();
    assert_eq!(a.len(), count, "native gdb: {}{}", theirs.out, theirs.err);
    assert_eq!(b.len(), count, "ours: {}{}", ours.out, ours.err);
    let all = commands.lines().zip(a).zip(b);
    let (misread, readable) = (gdb_misreads_state(), |text: &str| {
        let lines = text.lines().filter(|l| !l.starts_with("zmm"));
        lines.map(|l| format!("{l}\n")).collect::<String>()
    });
    let different = all.filter(|((_, theirs), ours)| match misread {
        true => readable(theirs) != readable(ours),
        false => theirs != ours,
    });
    let told: String = different
        .map(|((command, theirs), ours)| {
            format!("{command}\nnatively: {theirs}\nwith us:  {ours}\n")
        })
        .collect();
    assert!(told.is_empty(), "{told}");
}

/// Before version 14 gdb looks for the registers of AVX-512 where Intel's processors have them in the extended state,
/// and shows something else on others.
fn gdb_misreads_state() -> bool {
    use std::arch::x86_64::__cpuid_count;
    const AVX512: u32 = 0xe0;
    let (masks, upper) = (__cpuid_count(13, 5), __cpuid_count(13, 7));
    if __cpuid_count(13, 0).eax & AVX512 != AVX512 || (masks.ebx, upper.ebx) == (1088, 1664) {
        return false;
    }
    let said = Command::new("gdb").arg("--version").output();
    let said = said.expect("these tests need gdb").stdout;
    let said = String::from_utf8_lossy(&said);
    let version = said.lines().next().and_then(|l| l.rsplit(' ').next());
    let major = version.and_then(|v| v.split('.').next()?.parse::<u32>().ok());
    let misreads = major.is_none_or(|major| major < 14);
    if misreads {
        eprintln!("not compared, this gdb misreads them on this processor: zmm0 to zmm31");
    }
    misreads
}

/// The number of the line with a mark.
#[track_caller]
pub(crate) fn mark(guest: &str, name: &str) -> usize {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests");
    let source = fs::read_to_string(root.join(guest)).expect("a guest");
    let mark = format!("// MARK: {name}");
    let found = source.lines().position(|l| l.ends_with(&mark));
    found.expect("a mark") + 1
}

/// The text of the only command that begins so, or of the n-th.
#[track_caller]
pub(crate) fn answer<'a>(all: &'a [(String, String)], command: &str, nth: usize) -> &'a str {
    let mut found = all.iter().filter(|(c, _)| c.starts_with(command));
    &found.nth(nth).expect("the command was given").1
}

#[track_caller]
pub(crate) fn contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
}

/// A command on a terminal of its own, which `script` provides.
pub(crate) struct Typed {
    pub(crate) child: Child,
    seen: Arc<Mutex<String>>,
    /// How much of it was waited for.
    done: usize,
}

impl Typed {
    pub(crate) fn new(place: &Place, args: &[&str]) -> Self {
        // A shell that waits for it would meet a typed Ctrl-C too, and some die of it.
        let command = format!(
            "exec {} {}",
            env!("CARGO_BIN_EXE_wherefore"),
            args.join(" ")
        );
        let mut child = Command::new("script")
            .args(["-qec", &command, "/dev/null"])
            .env("WHEREFORE_RECORDINGS", place.recordings())
            .env("TERM", "dumb")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("these tests need script");
        let seen: Arc<Mutex<String>> = Default::default();
        let (mut out, to) = (child.stdout.take().unwrap(), seen.clone());
        std::thread::spawn(move || {
            let mut buf = [0; 4096];
            while let Ok(n @ 1..) = std::io::Read::read(&mut out, &mut buf) {
                to.lock()
                    .unwrap()
                    .push_str(&String::from_utf8_lossy(&buf[..n]));
            }
        });
        Typed {
            child,
            seen,
            done: 0,
        }
    }

    pub(crate) fn types(&mut self, text: &str) {
        let to = self.child.stdin.as_mut().unwrap();
        std::io::Write::write_all(to, text.as_bytes()).expect("somebody reads");
    }

    #[track_caller]
    pub(crate) fn waits_for(&mut self, text: &str) {
        self.waits_for_one(&[text]);
    }

    /// Which of them came first.
    #[track_caller]
    pub(crate) fn waits_for_one(&mut self, texts: &[&str]) -> usize {
        let (at, which) = until(texts[0], || {
            let seen = self.seen.lock().unwrap();
            let new = &seen[self.done..];
            let found = (texts.iter().enumerate())
                .filter_map(|(n, t)| new.find(t).map(|at| (at + t.len(), n)));
            found.min()
        });
        self.done += at;
        which
    }
}

impl Drop for Typed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("on the terminal:\n{}", self.seen.lock().unwrap());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
