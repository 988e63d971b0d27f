//! Files with random damage: every question gets an answer, none gets a panic.

mod harness;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use harness::{Core, compile, crash, directory};
use image::cfg::Graphs;
use image::{Mapping, NoMemory, Program};

const SOURCE: &str = r#"
#include <stdio.h>
struct pair { int a; char text[8]; struct pair *next; };
int *volatile nothing;
static inline __attribute__((always_inline)) int inner(struct pair *p, int n) { return *nothing + p->a + n; }
__attribute__((noinline)) int leaf(struct pair p, double d, const char *s) { int r = inner(&p, 3); printf("%f %s", d, s); return r; }
int main(int argc, char **argv) { struct pair p = {1, "text", 0}; int r = leaf(p, 2.5, argv[0]); puts(""); return r; }
"#;

/// A small generator of known sequence, so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

/// Asks everything there is to ask.
fn interrogate(core: &Core, program: &Path, damaged: &Path) {
    let mappings: Vec<Mapping> = core
        .mappings
        .iter()
        .map(|m| {
            let mut m = m.clone();
            if m.file == program {
                m.file = PathBuf::from(damaged);
            } else {
                // The libraries are sound and only cost time.
                m.executable = false;
            }
            m
        })
        .collect();
    let mut image = Program::new();
    image.load(&mappings);
    let frames = image.unwind(&core.registers, core, 20);
    image.describe(&frames, core);
    for frame in &frames {
        image.locals(frame, core);
    }
    image.symbol(core.registers.rip);
    image.function_at(core.registers.rip);
    image.addresses_of_line("sound.c", 6);
    image.addresses_of_function("leaf");
    image.global("nothing", core);
    let code = core.mappings.iter().find(|m| m.executable).unwrap();
    for pc in (code.start..code.end).step_by(64) {
        image.locate(pc);
    }
    if let Some(frame) = frames.first() {
        for text in [
            "p",
            "p.next->a",
            "s[2]",
            "d * 2",
            "*nothing",
            "(struct pair *)s",
            "nowhere",
        ] {
            let _ = image.evaluate(text, frame, core);
        }
    }
    // Code from the damaged file, not from memory.
    let mut graphs = Graphs::new();
    for pc in (code.start..code.end).step_by(64) {
        graphs.control(&image, &NoMemory, pc);
    }
    image.warnings();
    image.modules();
}

fn check(test: &str, flags: &[&str], damage: impl Fn(&mut Vec<u8>, &mut Random), rounds: u64) {
    let directory = directory(test);
    let program = compile(&directory, "sound", SOURCE, flags);
    let core = crash(&program);
    interrogate(&core, &program, &program);
    let sound = std::fs::read(&program).unwrap();
    let damaged = directory.join("damaged");
    let done = AtomicUsize::new(0);
    for round in 0..rounds {
        let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ (round + 1));
        random.next();
        let mut bytes = sound.clone();
        damage(&mut bytes, &mut random);
        std::fs::write(&damaged, &bytes).unwrap();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            interrogate(&core, &program, &damaged);
        }));
        assert!(
            result.is_ok(),
            "round {round} of {test} with {flags:?}; the file is kept"
        );
        done.fetch_add(1, Ordering::Relaxed);
    }
    assert_eq!(done.into_inner() as u64, rounds);
}

fn flip(bytes: &mut [u8], random: &mut Random, count: usize) {
    for _ in 0..count {
        let at = random.below(bytes.len());
        bytes[at] ^= 1 << random.below(8);
    }
}

#[test]
fn flipped_bits() {
    check(
        "flip5",
        &["-g", "-O2"],
        |b, r| {
            let n = 1 + r.below(40);
            flip(b, r, n)
        },
        400,
    );
    check(
        "flip4",
        &["-g", "-gdwarf-4", "-O2"],
        |b, r| {
            let n = 1 + r.below(40);
            flip(b, r, n)
        },
        400,
    );
    check(
        "flipz",
        &["-g", "-O2", "-gz"],
        |b, r| {
            let n = 1 + r.below(10);
            flip(b, r, n)
        },
        150,
    );
}

/// Damage to the debug sections only, so that it is not hidden by a broken header.
#[test]
fn damaged_sections() {
    for (test, version) in [("sections5", "-gdwarf-5"), ("sections4", "-gdwarf-4")] {
        check(
            test,
            &["-g", version, "-O2"],
            |bytes, random| {
                // The debug sections follow the loaded ones in the file.
                let from = bytes.len() / 4;
                for _ in 0..1 + random.below(30) {
                    let at = from + random.below(bytes.len() - from);
                    bytes[at] = [0, 0xff, 0x7f, 0x80, random.next() as u8][random.below(5)];
                }
            },
            600,
        );
    }
}

#[test]
fn truncated_files() {
    check(
        "truncated",
        &["-g", "-O2"],
        |bytes, random| {
            let length = random.below(bytes.len());
            bytes.truncate(length);
        },
        200,
    );
}

#[test]
fn faults_are_named() {
    let directory = directory("faults");
    let program = compile(&directory, "sound", SOURCE, &["-g", "-O2"]);
    let core = crash(&program);
    let sound = std::fs::read(&program).unwrap();
    let damaged = directory.join("damaged");
    let mut bytes = sound.clone();
    // The version field of the first unit.
    let at = find_section(&sound, ".debug_info") + 4;
    bytes[at] = 0x77;
    std::fs::write(&damaged, &bytes).unwrap();
    let load = |file: &Path| {
        let mut image = Program::new();
        let mut mappings = core.mappings.clone();
        for mapping in mappings.iter_mut().filter(|m| m.file == program) {
            mapping.file = file.to_path_buf();
        }
        image.load(&mappings);
        let frames = image.backtrace(&core.registers, &core, 20);
        (image.warnings(), frames)
    };
    let (warnings, frames) = load(&damaged);
    assert!(
        warnings.iter().any(|w| w.contains("damaged")),
        "{warnings:?}"
    );
    assert_eq!(
        frames[0].function.as_deref(),
        Some("leaf"),
        "the symbol table is intact"
    );

    let (warnings, frames) = load(&directory.join("gone"));
    assert!(
        warnings.iter().any(|w| w.contains("cannot be read")),
        "{warnings:?}"
    );
    assert!(frames[0].module_offset.is_some());

    std::fs::write(&damaged, b"#!/bin/sh\n").unwrap();
    let (warnings, _) = load(&damaged);
    assert!(
        warnings.iter().any(|w| w.contains("not a usable ELF")),
        "{warnings:?}"
    );
}

/// The file offset of a section, by readelf's list.
fn find_section(bytes: &[u8], name: &str) -> usize {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("faults/sound");
    assert!(!bytes.is_empty());
    let text = harness::run(
        "readelf",
        &["-SW", &path.display().to_string()],
        path.parent().unwrap(),
    );
    let line = text
        .lines()
        .find(|l| l.contains(&format!(" {name} ")))
        .unwrap();
    let words: Vec<&str> = line
        .split(name)
        .nth(1)
        .unwrap()
        .split_whitespace()
        .collect();
    usize::from_str_radix(words[2], 16).unwrap()
}
