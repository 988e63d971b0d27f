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

/// Behind a checksum that holds, anything may stand.
#[test]
fn changed_events() {
    const HEAD: usize = 36;
    let s = sample("events");
    let word = |at: usize| u32::from_le_bytes(s.good[at..at + 4].try_into().unwrap()) as usize;
    let (packed, len) = (word(HEAD), word(HEAD + 4));
    let frame = &s.good[HEAD + 12..];
    assert_eq!(frame.len(), packed, "a short recording is one frame");
    let events = lz4_flex::block::decompress(frame, len).unwrap();
    // An event: its kind and number, the length of its payload, step, result, and the payload.
    let mut places = Vec::new();
    let mut at = 0;
    while at < len {
        let payload = u32::from_le_bytes(events[at + 4..at + 8].try_into().unwrap()) as usize;
        places.push((at, 24 + payload));
        at = (at + 24 + payload).next_multiple_of(8);
    }
    let mut state = 0x1234_5678_9abc_def1;
    let mut below = |n: usize| draw(&mut state) as usize % n;
    for n in 0..160 {
        let mut bytes = events.clone();
        for _ in 0..1 + below(3) {
            let (at, size) = places[below(places.len())];
            let aligned = at + (below(size.min(400)) & !7);
            match below(5) {
                0 => bytes[at + below(size)] ^= 1 << below(8),
                1 => {
                    let value = [0, 1, u64::MAX, 1 << 31, 1 << 63, 0x7fff_ffff_e000][below(6)];
                    bytes[aligned..aligned + 8].copy_from_slice(&value.to_le_bytes());
                }
                2 => bytes[at + 3] = below(9) as u8,
                3 => {
                    let end = (at + size).next_multiple_of(8);
                    bytes.drain(at..end);
                    break;
                }
                _ => {
                    let again = events[at..(at + size).next_multiple_of(8)].to_vec();
                    bytes.splice(at..at, again);
                    break;
                }
            }
        }
        let packed = lz4_flex::block::compress(&bytes);
        let mut file = s.good[..HEAD].to_vec();
        for word in [
            packed.len() as u32,
            bytes.len() as u32,
            crc32fast::hash(&packed),
        ] {
            file.extend(word.to_le_bytes());
        }
        file.extend(packed);
        let r = s.with(&file);
        // What the guest read may differ, and with it what it does and how it ends.
        assert!(!r.err.contains("panicked"), "{n}: {}", r.err);
        if r.status == Some(3) {
            assert!(r.err.starts_with("wherefore: "), "{n}: {}", r.err);
        }
    }
    s.with(&s.good).exits(4);
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
