//! `wherefore run` stands in for the program.

mod harness;

use std::fs;
use std::io::Write;
use std::process::Stdio;

use harness::{Place, finish_child};

const ECHO: &str = r#"
#include <stdio.h>
int main(void) { int c, n = 0; while ((c = getchar()) != EOF) { putchar(c); n++; } fprintf(stderr, "%d\n", n); return n; }
"#;

#[test]
fn exit_status_is_passed_on() {
    let p = Place::new();
    let guest = p.build(
        "status",
        "#include <stdlib.h>\nint main(int c, char **v) { return atoi(v[1]); }",
        &[],
    );
    for status in [0, 1, 2, 3, 77, 127, 255] {
        let r = p.run(&guest, &[&status.to_string()]);
        r.exits(status);
        assert_eq!((r.out.as_str(), r.err.as_str()), ("", ""));
    }
}

#[test]
fn closed_streams_are_closed() {
    let p = Place::new();
    let source = "#include <stdio.h>\n#include <fcntl.h>\nint main(void) { int n = 0; for (int i = 0; i < 3; i++) n |= (fcntl(i, F_GETFD) < 0) << i; fprintf(stderr, \"%d\\n\", n); return n; }";
    let guest = p.build("closed", source, &[]);
    for (redirection, closed) in [("", 0), ("<&-", 1), (">&-", 2), ("<&- >&-", 3), ("2>&-", 4)] {
        let wherefore = p.wherefore(&["run", "-q", "--"]);
        let mut c = std::process::Command::new("sh");
        c.args(["-c", &format!("exec \"$@\" {redirection}"), "sh"])
            .arg(wherefore.get_program())
            .args(wherefore.get_args())
            .arg(&guest)
            .stdin(Stdio::null());
        for (name, value) in wherefore.get_envs() {
            match value {
                Some(value) => c.env(name, value),
                None => c.env_remove(name),
            };
        }
        harness::finish(c).exits(closed);
        p.say(&["replay", "-q"]).exits(closed);
    }
}

#[test]
fn death_by_signal_is_passed_on() {
    let p = Place::new();
    let source = "#include <signal.h>\n#include <stdlib.h>\n#include <unistd.h>\nint main(int c, char **v) { int n = atoi(v[1]); signal(n, SIG_DFL); kill(getpid(), n); pause(); }";
    let guest = p.build("die", source, &[]);
    for signal in [
        1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 24, 31, 40,
    ] {
        p.run(&guest, &[&signal.to_string()]).dies(signal);
        p.say(&["replay", "-q"]).dies(signal);
    }
}

#[test]
fn input_from_a_file_and_from_a_pipe() {
    let p = Place::new();
    let guest = p.build("echo", ECHO, &[]);
    fs::write(p.path("in.txt"), "from a file\n").unwrap();
    let mut c = p.wherefore(&["run", "--"]);
    c.arg(&guest)
        .stdin(fs::File::open(p.path("in.txt")).unwrap());
    let r = harness::finish({
        c.stdout(Stdio::piped());
        c
    });
    r.exits(12);
    assert_eq!((r.out.as_str(), r.err.as_str()), ("from a file\n", "12\n"));

    let mut c = p.wherefore(&["run", "--"]);
    c.arg(&guest)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = c.spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"through a pipe\n")
        .unwrap();
    let r = finish_child(child);
    r.exits(15);
    assert_eq!(r.out, "through a pipe\n");

    fs::remove_file(p.path("in.txt")).unwrap();
    fs::remove_file(&guest).unwrap();
    for (name, text, status) in [
        ("echo-0", "from a file\n", 12),
        ("echo-1", "through a pipe\n", 15),
    ] {
        let r = p.say(&["replay", name]);
        r.exits(status);
        assert_eq!((r.out, r.err), (text.to_owned(), format!("{status}\n")));
    }
}

#[test]
fn program_is_sought_in_the_path_and_sees_its_own_name() {
    let p = Place::new();
    let r = p.say(&["run", "--", "sh", "-c", "echo $0 $1; exit 5", "zero", "one"]);
    r.exits(5);
    assert_eq!(r.out, "zero one\n");
    assert_eq!(p.names(), ["sh-0"]);
}

#[test]
fn options_of_the_program_are_its_own() {
    let p = Place::new();
    let r = p.say(&["run", "--", "echo", "--stats", "-q", "--", "x"]);
    r.exits(0);
    assert_eq!((r.out.as_str(), r.err.as_str()), ("--stats -q -- x\n", ""));
}

#[test]
fn figures_and_json() {
    let p = Place::new();
    let r = p.say(&["run", "--stats", "--", "true"]);
    for word in [
        "instructions",
        "blocks translated",
        "system calls",
        "stops",
        "wall time",
        "tool CPU",
    ] {
        r.says(word);
    }
    let r = p.say(&["run", "-v", "--", "false"]);
    r.exits(1)
        .says("false-0: the program exited with status 1")
        .says("instructions");

    let r = p.say(&["run", "--json", "--", "true"]);
    let report: serde_json::Value = serde_json::from_str(&r.err).expect("JSON on standard error");
    assert_eq!(report["ended"]["exited"]["status"], 0);
    assert!(report["figures"]["steps"].as_u64().unwrap() > 1000);

    let file = p.path("report.json");
    let r = p.say(&[
        "run",
        "--json",
        "-o",
        file.to_str().unwrap(),
        "--",
        "echo",
        "hello",
    ]);
    assert_eq!((r.out.as_str(), r.err.as_str()), ("hello\n", ""));
    let report: serde_json::Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    assert_eq!(report["recording"], "echo-0");
}

#[test]
fn a_listing_may_be_cut_off() {
    let p = Place::new();
    p.say(&["run", "--", "true"]).exits(0);
    let mut c = p.wherefore(&["ls"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let child = c.stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    let r = finish_child(child);
    r.dies(13);
    assert_eq!(r.err, "");
}
