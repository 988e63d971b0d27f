//! The folder of recordings: names, the latest, listings, removal.

mod harness;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use harness::{Place, finish_child, until};

#[test]
fn names_count_up_and_the_latest_is_the_default() {
    let p = Place::new();
    p.say(&["replay"]).exits(2).says("there is no recording");
    for status in ["0", "1", "2"] {
        p.say(&["run", "--", "sh", "-c", &format!("exit {status}")]);
    }
    assert_eq!(p.names(), ["sh-0", "sh-1", "sh-2"]);
    p.say(&["replay"]).exits(2);
    p.say(&["replay", "sh-1"]).exits(1);
    p.say(&["run", "--name", "mine", "--", "true"]).exits(0);
    p.say(&["run", "--name", "mine", "--", "true"])
        .exits(2)
        .says("already");
    p.say(&["run", "--name", "../x", "--", "true"])
        .exits(2)
        .says("cannot name");
    let listing = p.say(&["ls"]).out;
    assert!(
        listing.contains("mine *") && listing.contains("exit 2"),
        "{listing}"
    );
    p.say(&["rm", "mine"]).exits(0);
    // The youngest of the rest takes its place.
    p.say(&["replay"]).exits(2);
    p.say(&["rm", "sh-1", "sh-9"]).exits(2).says("sh-9");
    assert_eq!(
        p.names(),
        ["sh-0", "sh-1", "sh-2"],
        "nothing is removed if one is missing"
    );
    p.say(&["rm"]).exits(2);
    p.say(&["rm", "--all"]).exits(0);
    assert_eq!(p.names(), Vec::<String>::new());
    let left: Vec<_> = fs::read_dir(p.recordings())
        .unwrap()
        .flatten()
        .map(|e| e.file_name())
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn stored_files_go_with_the_last_recording_that_uses_them() {
    let p = Place::new();
    let guest = p.build("once", "int main(void) { return 0; }", &[]);
    p.run(&guest, &[]).exits(0);
    let count = || fs::read_dir(p.recordings().join(".files")).map_or(0, |d| d.count());
    let first = count();
    p.say(&["run", "--", "true"]).exits(0);
    assert!(count() > first);
    p.say(&["rm", "true-0"]).exits(0);
    assert_eq!(count(), first);
    p.say(&["replay", "once-0"]).exits(0);
    p.say(&["rm", "once-0"]).exits(0);
    assert_eq!(count(), 0);
}

#[test]
fn info_tells_all() {
    let p = Place::new();
    p.say(&["run", "--", "sh", "-c", "exit 7"]).exits(7);
    let text = p.say(&["info"]).out;
    for word in [
        "sh-0 (the latest)",
        "sh -c 'exit 7'",
        "exited with status 7",
        "libc.so.6",
        "steps",
        "UTC",
    ] {
        assert!(text.contains(word), "no {word:?} in\n{text}");
    }
    let info: serde_json::Value =
        serde_json::from_str(&p.say(&["info", "sh-0", "--json"]).out).unwrap();
    assert_eq!(info["meta"]["args"][2], "exit 7");
    p.say(&["info", "nosuch"])
        .exits(2)
        .says("there is no recording `nosuch`");
    p.say(&["info", "../.."]).exits(2);
}

#[test]
fn the_folder_is_private_and_its_place_is_a_choice() {
    let p = Place::new();
    let elsewhere = p.path("else/where");
    let mut c = p.wherefore(&[
        "run",
        "--recordings",
        elsewhere.to_str().unwrap(),
        "--",
        "true",
    ]);
    c.stdout(Stdio::null());
    harness::finish(c).exits(0);
    assert!(elsewhere.join("true-0/meta.json").exists());
    assert_eq!(
        fs::metadata(&elsewhere).unwrap().permissions().mode() & 0o77,
        0
    );
    let mut c = p.wherefore(&["run", "--", "true"]);
    c.env_remove("WHEREFORE_RECORDINGS")
        .env("XDG_DATA_HOME", p.path("xdg"));
    harness::finish(c).exits(0);
    assert!(p.path("xdg/wherefore/true-0").exists());
    let mut c = p.wherefore(&["run", "--", "true"]);
    c.env_remove("WHEREFORE_RECORDINGS")
        .env_remove("XDG_DATA_HOME")
        .env("HOME", p.path("home"));
    harness::finish(c).exits(0);
    assert!(p.path("home/.local/share/wherefore/true-0").exists());
}

#[test]
fn a_running_one_is_not_removed() {
    let p = Place::new();
    let mut c = p.wherefore(&["run", "--", "cat"]);
    let mut child = c
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("the recording", || {
        p.say(&["ls"]).out.contains("running").then_some(())
    });
    p.say(&["rm", "--all"])
        .exits(2)
        .says("still being recorded");
    p.say(&["replay", "cat-0"])
        .exits(2)
        .says("still being recorded");
    drop(child.stdin.take());
    finish_child(child).exits(0);
    p.say(&["rm", "--all"]).exits(0);
}

#[test]
fn an_unusable_folder_is_reported() {
    let p = Place::new();
    fs::write(p.path("file"), "").unwrap();
    for folder in ["file", "file/below", "/proc/nothing", "/dev/full"] {
        p.say(&["run", "--recordings", folder, "--", "true"])
            .exits(3)
            .says("cannot use");
    }
}

/// Runs `sh -c command` recorded, with a limit on the size of files: a full disk in miniature.
fn with_limit(p: &Place, blocks: u32, command: &str) -> harness::Ran {
    let mut c = std::process::Command::new("sh");
    let line = format!("ulimit -f {blocks}; exec \"$0\" run -- sh -c \"$1\"");
    c.arg("-c").arg(line);
    c.arg(env!("CARGO_BIN_EXE_wherefore")).arg(command);
    c.env("WHEREFORE_RECORDINGS", p.recordings());
    c.stdin(Stdio::null());
    harness::finish(c)
}

#[test]
fn a_full_disk_at_the_start() {
    for blocks in [0, 8, 64] {
        let p = Place::new();
        with_limit(&p, blocks, "true").exits(3).says("too large");
        assert!(!p.recordings().exists(), "nothing is left behind");
    }
}

#[test]
fn a_full_disk_on_the_way() {
    let p = Place::new();
    let busy = "while :; do read -r line < /proc/sys/kernel/random/uuid; done";
    let mut c = p.wherefore(&["run", "--", "sh", "-c", busy]);
    let child = c
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    until("the recording", || {
        p.recordings().join("latest").exists().then_some(())
    });
    let guest = until("the guest", || harness::children(pid).first().copied());
    let limited = std::process::Command::new("prlimit")
        .args(["--pid", &pid.to_string(), "--fsize=100000"])
        .status()
        .expect("prlimit is part of util-linux");
    assert!(limited.success());
    finish_child(child).exits(3).says("too large");
    until("the guest to be gone", || {
        (!harness::alive(guest)).then_some(())
    });
    let listing = p.say(&["ls"]).out;
    assert!(listing.contains("failed"), "{listing}");
    p.say(&["info"]).exits(0);
    p.say(&["replay"]).exits(3).says("wherefore: ");
    p.say(&["rm", "--all"]).exits(0);
}
