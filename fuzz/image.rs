//! A damaged program: every question about it gets an answer, none a panic.
//!
//! The input is a list of changes to a sound program: `place (4 bytes), length, bytes`.
#![no_main]

use image::{Mapping, Program};
use libfuzzer_sys::fuzz_target;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;
use tempfile::TempDir;

const SOURCE: &str = "struct pair { int a; char text[8]; struct pair *next; };
static struct pair head = {1, \"text\", 0};
static inline int inner(struct pair *p, int n) { return p->a + n; }
__attribute__((noinline)) int leaf(struct pair p, double d) { switch (p.a) { case 1: return inner(&p, 3); case 2: return d; case 3: return 7; case 4: return 1; default: return 2; } }
int main(int argc, char **argv) { return leaf(head, argc); }
";

static SOUND: LazyLock<(TempDir, PathBuf, Vec<u8>)> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (source, program) = (folder.path().join("sound.c"), folder.path().join("sound"));
    fs::write(&source, SOURCE).expect("room for the source");
    let built = Command::new("cc")
        .args(["-g", "-O1", "-static", "-nostartfiles", "-Wl,-emain", "-o"])
        .arg(&program)
        .arg(&source)
        .status();
    assert!(built.expect("a C compiler").success());
    let bytes = fs::read(&program).expect("the program");
    (folder, program, bytes)
});

fuzz_target!(|changes: &[u8]| {
    let (_, program, sound) = &*SOUND;
    let mut bytes = sound.clone();
    let mut rest = changes;
    while let [a, b, c, d, len, more @ ..] = rest {
        let place = u32::from_le_bytes([*a, *b, *c, *d]) as usize % bytes.len();
        let len = usize::from(*len).min(more.len()).min(bytes.len() - place);
        bytes[place..place + len].copy_from_slice(&more[..len]);
        rest = &more[len..];
    }
    fs::write(program, &bytes).expect("room for the program");
    let start = 0x40_0000;
    let end = start + (bytes.len() as u64).next_multiple_of(0x1000);
    let mut image = Program::new();
    image.load(&[Mapping {
        start,
        end,
        offset: 0,
        executable: true,
        name: program.clone(),
        file: program.clone(),
    }]);
    for pc in (start..end).step_by(32) {
        image.locate(pc);
        image.symbol(pc);
        image.function_at(pc);
    }
    image.addresses_of_line("sound.c", 4);
    image.addresses_of_function("leaf");
});
