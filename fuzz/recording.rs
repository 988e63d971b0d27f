//! A recording whose events were changed under a checksum that holds: the replay ends as some replay may, or says
//! that the recording is damaged. It does not panic.
//!
//! The input is a list of changes to a good recording, so that nearly every input gets past the first events:
//! `kind, place (4 bytes), value (8 bytes)` each.
#![no_main]

use guest::{Launch, Recorder, Replay, Until};
use libfuzzer_sys::fuzz_target;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use tempfile::TempDir;

/// Magic, version and what the machine can do.
const HEAD: usize = 36;

struct Sample {
    folder: TempDir,
    head: Vec<u8>,
    /// All events, unpacked.
    events: Vec<u8>,
    steps: u64,
}

static SAMPLE: LazyLock<Sample> = LazyLock::new(record);

fn record() -> Sample {
    let null = |write: bool| {
        let file = File::options().read(!write).write(write).open("/dev/null");
        Some(Arc::new(OwnedFd::from(file.expect("/dev/null"))))
    };
    let script =
        "trap 'echo caught' USR1; for i in 1 2 3; do echo $i; done; kill -USR1 $$; ls / | wc -l";
    let mut launch = Launch::new("sh", ["-c".into(), script.into()]).expect("there is a shell");
    launch.streams = [null(false), null(true), null(true)];
    let folder = tempfile::tempdir().expect("a temporary folder");
    let recording = Recorder::start(&launch, folder.path()).expect("recording can start");
    let steps = recording.run().expect("recording works").stats.steps;
    let file = fs::read(events(&folder)).expect("the recording");
    let (head, mut rest) = file.split_at(HEAD);
    let mut events = Vec::new();
    while !rest.is_empty() {
        let word = |at: usize| {
            u32::from_le_bytes(rest[at..at + 4].try_into().expect("four bytes")) as usize
        };
        let (frame, after) = rest[12..].split_at(word(0));
        let frame = lz4_flex::block::decompress(frame, word(4)).expect("a good frame");
        events.extend(frame);
        rest = after;
    }
    Sample {
        folder,
        head: head.to_vec(),
        events,
        steps,
    }
}

fn events(folder: &TempDir) -> PathBuf {
    folder.path().join("events")
}

fn changed(events: &[u8], changes: &[u8]) -> Vec<u8> {
    let mut out = events.to_vec();
    for change in changes.chunks_exact(13) {
        if out.len() < 8 {
            break;
        }
        let place = u32::from_le_bytes(change[1..5].try_into().expect("four bytes")) as usize
            % (out.len() - 7);
        let value = &change[5..13];
        let aligned = place & !7;
        match change[0] % 6 {
            0 => out[place] = value[0],
            1 => out[place] ^= 1 << (value[0] & 7),
            2 => out[aligned..aligned + 8].copy_from_slice(value),
            3 => {
                let end = (aligned + usize::from(value[0]) * 8).min(out.len());
                out.drain(aligned..end);
            }
            4 => {
                let end = (aligned + usize::from(value[0]) * 8).min(out.len());
                let again = out[aligned..end].to_vec();
                out.splice(aligned..aligned, again);
            }
            _ => out.truncate(aligned),
        }
    }
    out
}

fuzz_target!(|changes: &[u8]| {
    let sample = &*SAMPLE;
    let events_now = changed(&sample.events, changes);
    let packed = lz4_flex::block::compress(&events_now);
    let mut file = sample.head.clone();
    for word in [
        packed.len() as u32,
        events_now.len() as u32,
        crc32fast::hash(&packed),
    ] {
        file.extend(word.to_le_bytes());
    }
    file.extend(packed);
    fs::write(events(&sample.folder), file).expect("room for the recording");
    if let Ok(mut replay) = Replay::open(sample.folder.path(), Box::new(|_, _| {})) {
        // What is read may differ, and the guest go on for longer.
        let _ = replay.run(&Until::step(sample.steps * 2));
    }
});
