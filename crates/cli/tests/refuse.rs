//! Programs that cannot be run: each is refused by name with status 2, and nothing stays behind.

mod harness;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use harness::Place;

#[track_caller]
fn check(name: &str, contents: &[u8], mode: u32, text: &str) {
    let p = Place::new();
    let program = p.path(name);
    fs::write(&program, contents).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(mode)).unwrap();
    let r = p.run(&program, &[]);
    r.exits(2).says("wherefore: cannot run").says(text);
    assert_eq!(r.err.lines().count(), 1, "{}", r.err);
    assert!(!p.recordings().exists(), "nothing is left behind");
}

fn real_program() -> Vec<u8> {
    let p = Place::new();
    fs::read(p.build("real", "int main(void) { return 0; }", &[])).unwrap()
}

#[test]
fn text_without_interpreter_line() {
    check(
        "text",
        b"echo hello\n",
        0o755,
        "neither an ELF program nor a script",
    );
}

#[test]
fn empty_file() {
    check("empty", b"", 0o755, "it is empty");
}

#[test]
fn not_executable() {
    check("data", b"#!/bin/sh\n", 0o644, "not executable");
}

#[test]
fn script_whose_interpreter_is_missing() {
    check(
        "script",
        b"#!/no/such/shell\n",
        0o755,
        "`/no/such/shell`, which does not exist",
    );
}

#[test]
fn thirty_two_bits() {
    // A header and one segment, as small as a 32-bit program can be.
    let mut elf = vec![0u8; 0x60];
    elf[..7].copy_from_slice(b"\x7fELF\x01\x01\x01");
    let mut put = |at: usize, value: u32| elf[at..at + 4].copy_from_slice(&value.to_le_bytes());
    put(0x10, 2 | 3 << 16); // a program for i386
    put(0x14, 1);
    put(0x18, 0x0804_8054); // entry
    put(0x1c, 0x34); // program headers
    put(0x28, 0x34 | 0x20 << 16);
    put(0x2c, 1);
    for (i, word) in [1, 0, 0x0804_8000, 0x0804_8000, 0x60, 0x60, 5, 0x1000]
        .into_iter()
        .enumerate()
    {
        put(0x34 + 4 * i, word);
    }
    check("narrow", &elf, 0o755, "32-bit");
}

#[test]
fn another_processor() {
    let mut elf = real_program();
    elf[18] = 183;
    check("arm", &elf, 0o755, "another kind of processor");
}

#[test]
fn object_file() {
    let p = Place::new();
    let object = fs::read(p.build("object.o", "int x;", &["-c"])).unwrap();
    check("object.o", &object, 0o755, "object file");
}

#[test]
fn cut_off() {
    let elf = real_program();
    for length in [5, 20, 63, 64, 100, 700, 4096] {
        check("cut", &elf[..length], 0o755, "cut off");
    }
}

#[test]
fn interpreter_is_missing() {
    let mut elf = real_program();
    let name = b"/lib64/ld-linux-x86-64.so.2";
    let at = elf
        .windows(name.len())
        .position(|w| w == name)
        .expect("an interpreter");
    elf[at..at + 6].copy_from_slice(b"/nolib");
    check(
        "lost",
        &elf,
        0o755,
        "interpreter `/nolib/ld-linux-x86-64.so.2`",
    );
}

#[test]
fn what_is_no_file() {
    let p = Place::new();
    p.say(&["run", "--", "/tmp"])
        .exits(2)
        .says("it is a directory");
    p.say(&["run", "--", "/dev/null"])
        .exits(2)
        .says("cannot run");
    p.say(&["run", "--", "./missing"])
        .exits(2)
        .says("no such program");
    p.say(&["run", "--", "missing-from-the-path"])
        .exits(2)
        .says("no such program");
    p.say(&["run", "--", ""]).exits(2).says("cannot run");
    p.say(&["run", "--"]).exits(2);
    p.say(&["walk"]).exits(2);
    assert!(!p.recordings().exists());
}

#[test]
fn a_script_runs() {
    let p = Place::new();
    let script = p.path("script");
    fs::write(&script, "#!/bin/sh -e\necho \"$0: $1\"\nexit 9\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let r = p.run(&script, &["one"]);
    r.exits(9);
    assert!(r.out.ends_with("script: one\n"), "{}", r.out);
    let again = p.say(&["replay"]);
    again.exits(9);
    assert_eq!(again.out, r.out);
}
