//! The detectors with machine code beside the same without, on whole programs: faulty ones, repaired ones, and
//! programs of others.

mod harness;

use std::path::Path;

use harness::Place;

const SAME: &str = "machine code and plain operations came to the same";

#[track_caller]
fn check(p: &Place, command: &[&str]) {
    let mut args = vec!["check", "--all", "--no-chains", "--doubt", "--"];
    args.extend(command);
    let r = p.say(&args);
    assert!(r.err.contains(SAME), "{command:?}: {}", r.err);
}

fn guests(level: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests/rules");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let name = entry.expect("an entry").file_name();
        let p = Place::new();
        let program = p.guest(&format!("rules/{}", name.to_string_lossy()), &[level]);
        let program = program.to_str().expect("a path");
        check(&p, &[program]);
        check(&p, &[program, "right"]);
        seen += 1;
    }
    assert!(seen > 20, "{seen} guests");
}

#[test]
fn guests_that_are_not_optimised() {
    guests("-O0");
}

#[test]
fn guests_that_are_optimised() {
    guests("-O2");
}

#[test]
fn programs_of_others() {
    let p = Place::new();
    check(&p, &["sort", "--parallel=2", "/etc/services"]);
    check(
        &p,
        &[
            "awk",
            "BEGIN { for (i = 0; i < 3000; i++) a[i % 97] = a[i % 97] i; print length(a[5]) }",
        ],
    );
    check(
        &p,
        &[
            "sh",
            "-c",
            "x=1; while [ $x -lt 300 ]; do x=$((x + 1)); done; echo $x",
        ],
    );
    check(
        &p,
        &[
            "perl",
            "-e",
            "my %h; $h{$_ % 50} .= 'x' for 1 .. 5000; print scalar(keys %h), qq(\\n)",
        ],
    );
}
