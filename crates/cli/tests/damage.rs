//! Damaged recordings: a message and a status, never a panic, never for long.

mod harness;

use std::fs;
use std::path::PathBuf;

use harness::{Place, Ran};

struct Sample {
    place: Place,
    good: Vec<u8>,
    file: PathBuf,
    output: String,
}

fn sample(file: &str) -> Sample {
    let place = Place::new();
    let ran = place.say(&[
        "run",
        "--",
        "sh",
        "-c",
        "for i in 1 2 3; do echo $i; done; exit 4",
    ]);
    ran.exits(4);
    let file = place.recordings().join("sh-0").join(file);
    Sample {
        good: fs::read(&file).unwrap(),
        output: ran.out,
        file,
        place,
    }
}

impl Sample {
    fn with(&self, bytes: &[u8]) -> Ran {
        fs::write(&self.file, bytes).unwrap();
        self.place.say(&["replay"])
    }

    /// Refused, or so little damaged that the run is the same.
    #[track_caller]
    fn check(&self, what: &str, bytes: &[u8]) {
        let r = self.with(bytes);
        assert!(!r.err.contains("panicked"), "{what}: {}", r.err);
        match r.status {
            Some(2 | 3) => assert!(r.err.starts_with("wherefore: "), "{what}: {}", r.err),
            Some(4) => assert_eq!(r.out, self.output, "{what}"),
            other => panic!("{what}: status {other:?}, signal {:?}: {}", r.signal, r.err),
        }
    }
}

/// A fixed sequence, so that a failure can be repeated.
fn draw(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn truncated_events() {
    let s = sample("events");
    let n = s.good.len();
    for length in (0..40).chain((40..n).step_by(n / 20 + 1)).chain([n - 1]) {
        let r = s.with(&s.good[..length]);
        r.exits(3).says("wherefore: ");
    }
    s.with(&s.good).exits(4);
}

#[test]
fn flipped_events() {
    let s = sample("events");
    let mut state = 0x2545_f491_4f6c_dd1d;
    for bit in (0..64 * 8).step_by(5) {
        let mut bytes = s.good.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        s.check(&format!("bit {bit}"), &bytes);
    }
    for _ in 0..60 {
        let mut bytes = s.good.clone();
        let bit = draw(&mut state) as usize % (bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        s.check(&format!("bit {bit}"), &bytes);
    }
}

#[test]
fn damaged_description() {
    let s = sample("meta.json");
    let n = s.good.len();
    for length in (0..n - 2).step_by(n / 30 + 1) {
        s.with(&s.good[..length]).exits(3).says("damaged");
    }
    let mut state = 0x9e37_79b9_7f4a_7c15;
    for _ in 0..60 {
        let mut bytes = s.good.clone();
        let bit = draw(&mut state) as usize % (bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        s.check(&format!("bit {bit}"), &bytes);
    }
    // Such a one is listed, and can be removed.
    s.with(b"{").exits(3);
    let listing = s.place.say(&["ls"]);
    assert!(listing.exits(0).out.contains("damaged"), "{}", listing.out);
    s.place.say(&["info"]).exits(3).says("damaged");
    s.place.say(&["rm", "sh-0"]).exits(0);
}

#[test]
fn other_versions() {
    let s = sample("events");
    let mut bytes = s.good.clone();
    bytes[8] = 99;
    s.with(&bytes).exits(3).says("format 99");
    s.with(&s.good).exits(4);
    let s = sample("meta.json");
    let text = String::from_utf8(s.good.clone()).unwrap();
    let mut meta: serde_json::Value = serde_json::from_str(&text).unwrap();
    meta["format"] = 77.into();
    s.with(meta.to_string().as_bytes())
        .exits(3)
        .says("format 77");
}

#[test]
fn missing_parts() {
    let s = sample("events");
    fs::remove_file(&s.file).unwrap();
    s.place.say(&["replay"]).exits(3).says("events");
    let s = sample("events");
    fs::remove_dir_all(s.file.with_file_name("files")).unwrap();
    s.place.say(&["replay"]).exits(3).says("lacks");
    fs::remove_file(s.file.with_file_name("meta.json")).unwrap();
    s.place.say(&["replay"]).exits(3).says("meta.json");
}
