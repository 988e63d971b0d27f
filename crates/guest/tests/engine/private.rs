//! A run that leaves the recording: it does what the changed program does, and nobody notices.

use std::fs;

use crate::scene::{Output, Program};
use guest::{Edit, End, Halt, Limits, Until};

/// `$DIR` is a folder with a file `in` of ten bytes; the choice is made by an edit.
const TEXT: &str = r#"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
volatile int choice;
__attribute__((noinline)) void place(void) { __asm__ volatile(""); }
int main(void)
{
    char text[32] = "";
    setvbuf(stdout, NULL, _IONBF, 0);
    int in = open("$DIR/in", O_RDONLY);
    read(in, text, 4);
    place();
    if (choice == 0) {
        read(in, text, 4);
        printf("as recorded %.4s\n", text);
        return 0;
    }
    if (choice == 2)
        for (;;)
            printf("flood\n");
    if (choice == 3)
        for (volatile long i = 0;; i++)
            ;
    if (choice == 4)
        raise(SIGTERM);
    if (choice == 5) {
        printf("%ld ", (long)lseek(in, -2, SEEK_CUR));
        printf("%ld ", (long)lseek(in, -20, SEEK_CUR));
        printf("%ld ", (long)lseek(in, 5, SEEK_SET));
        printf("%d ", close(0));
        printf("%d ", close(0));
        read(in, text, 3);
        int low = open("$DIR/in", O_RDONLY);
        printf("%.3s %d %ld\n", text, low, (long)lseek(in, -1, SEEK_END));
        return 5;
    }
    long n = read(in, text, 20);
    printf("left with %ld: %.6s\n", n, text);
    int out = open("$DIR/out", O_RDWR | O_CREAT | O_TRUNC, 0600);
    write(out, "private", 7);
    lseek(out, 0, SEEK_SET);
    memset(text, 0, sizeof text);
    read(out, text, 20);
    fchmod(in, 0);
    struct stat st;
    printf("%s, %d, ", text, stat("$DIR/out", &st));
    unlink("$DIR/in");
    printf("gone %d, ", access("$DIR/in", R_OK));
    rename("$DIR/out", "$DIR/moved");
    printf("moved %d %d, ", access("$DIR/out", R_OK), access("$DIR/moved", R_OK));
    printf("socket %d, device %d, fork %d\n", socket(AF_INET, SOCK_STREAM, 0) < 0, open("/dev/shm/wherefore-leak", O_CREAT | O_RDWR, 0600), fork());
    return 3;
}
"#;

/// The end and the output of the run with `choice` set at `place`.
fn departed(choice: u8, limits: Limits) -> (Halt, String, Vec<String>, bool) {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().to_str().expect("a plain path");
    fs::write(folder.path().join("in"), "abcdefghij").expect("a file");
    let program = Program::c(
        &TEXT.replace("$DIR", dir),
        &["-O0", "-static", "-no-pie", "-w"],
    );
    let recorded = program.record();
    assert_eq!(
        String::from_utf8_lossy(&recorded.stdout),
        "as recorded efgh\n"
    );
    let output = Output::default();
    let mut replay = recorded.replay_to(&output);
    let place = guest::StopAt {
        pc: program.at("place"),
        nth: 1,
    };
    let until = Until {
        stops: vec![place],
        ..Until::default()
    };
    assert_eq!(replay.run(&until).expect("the replay runs"), Halt::Stop(0));
    let at = guest::Place {
        pc: program.at("place"),
        nth: 1,
    };
    let edit = Edit::Memory {
        at,
        addr: program.at("choice"),
        bytes: vec![choice, 0, 0, 0],
    };
    replay.edit(edit).expect("an edit");
    replay.limit(limits).expect("limits");
    let halt = replay.run(&Until::end()).expect("the replay runs");
    let files: Vec<_> = fs::read_dir(&folder)
        .expect("the folder")
        .flatten()
        .map(|e| e.file_name())
        .collect();
    assert_eq!(files, ["in"], "the user's folder is as it was");
    assert_eq!(
        fs::read(folder.path().join("in")).expect("the file"),
        b"abcdefghij"
    );
    assert!(!std::path::Path::new("/dev/shm/wherefore-leak").exists());
    let departed = replay.departure().is_some();
    let text = String::from_utf8_lossy(&output.take()).into_owned();
    (halt, text, replay.denials().to_vec(), departed)
}

#[test]
fn the_world_is_private() {
    let (halt, text, denials, departed) = departed(1, Limits::default());
    assert!(departed);
    assert_eq!(
        text,
        "left with 6: efghij\nprivate, 0, gone -1, moved -1 0, socket 1, device -1, fork -1\n"
    );
    assert_eq!(halt, Halt::Ended(End::Exited(3)));
    for name in ["socket", "open", "clone"] {
        assert!(
            denials.iter().any(|d| d.starts_with(name)),
            "{name} in {denials:?}"
        );
    }
}

/// Some calls are answered before the descriptors are open in the guest's process; it must not see a difference.
#[test]
fn descriptors_are_where_they_should_be() {
    let (halt, text, _, departed) = departed(5, Limits::default());
    assert!(departed);
    assert_eq!(text, "2 -1 5 0 -1 fgh 0 9\n");
    assert_eq!(halt, Halt::Ended(End::Exited(5)));
}

#[test]
fn limits_end_it() {
    let output = Limits {
        output: 1 << 16,
        ..Limits::default()
    };
    assert_eq!(departed(2, output).0, Halt::Limit("output"));
    let steps = Limits {
        steps: 10_000_000,
        ..Limits::default()
    };
    assert_eq!(departed(3, steps).0, Halt::Limit("steps"));
    let time = Limits {
        time: std::time::Duration::from_millis(100),
        ..Limits::default()
    };
    assert_eq!(departed(3, time).0, Halt::Limit("time"));
}

#[test]
fn a_signal_to_itself() {
    assert_eq!(
        departed(4, Limits::default()).0,
        Halt::Ended(End::Killed(15))
    );
}
