//! Shared memory of a replayed guest and its checkpoints do not get in each other's way.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use guest::{End, Halt, Launch, Recorder, Replay, Until};

fn folder(of: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(of.replace('/', "-"));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(path.join("recording")).expect("a folder for the test");
    path
}

fn build(guest: &str, to: &Path) -> PathBuf {
    let guests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests");
    let program = to.join("guest");
    let status = Command::new("cc")
        .args(["-O1", "-g", "-o"])
        .arg(&program)
        .arg("-I")
        .arg(&guests)
        .arg(guests.join(guest).with_extension("c"))
        .status();
    assert!(status.expect("a C compiler").success(), "{guest} builds");
    program
}

/// Records the guest; then, from checkpoints along the way, lets it run to its end three times.
/// Whatever comes after the checkpoint must come out the same each time.
#[track_caller]
fn check(guest: &str) {
    let folder = folder(guest);
    let launch = Launch::new(build(guest, &folder).into_os_string(), Vec::new()).expect("a launch");
    let recording = folder.join("recording");
    let recorded = Recorder::start(&launch, &recording).and_then(Recorder::run);
    let recorded = recorded.expect("the guest is recorded");
    assert_eq!(recorded.end, End::Exited(0));

    let output = Rc::new(RefCell::new(Vec::new()));
    let into = output.clone();
    let sink = Box::new(move |_, bytes: &[u8]| into.borrow_mut().extend_from_slice(bytes));
    let mut replay = Replay::open(&recording, sink).expect("the recording opens");
    let mut checkpoints = Vec::new();
    for part in 1..8 {
        let step = recorded.stats.steps * part / 8;
        assert_eq!(replay.run(&Until::step(step)).expect("it runs"), Halt::Step);
        checkpoints.push((
            replay.checkpoint().expect("a checkpoint"),
            output.borrow().len(),
        ));
    }
    let to_end = |replay: &mut Replay| {
        let halt = replay.run(&Until::end()).expect("it runs to the end");
        assert_eq!(halt, Halt::Ended(End::Exited(0)));
    };
    to_end(&mut replay);
    let whole = output.take();
    assert!(!whole.is_empty());
    for _ in 0..2 {
        for &(id, shown) in checkpoints.iter().rev() {
            replay.restore(id).expect("the checkpoint is there");
            to_end(&mut replay);
            let again = output.take();
            assert_eq!(
                String::from_utf8_lossy(&again),
                String::from_utf8_lossy(&whole[shown..])
            );
        }
    }
}

#[test]
fn sums() {
    check("memory/shared_accumulates");
}

#[test]
fn views_of_code() {
    check("memory/aliased_code");
    check("memory/code_in_file");
}

#[test]
fn what_children_wrote() {
    check("memory/shared_with_child");
    check("memory/shared_with_vfork");
}

#[test]
fn files() {
    check("memory/file_grows_and_shrinks");
}
