//! What checkpoints cost, and what going to any step of a long run costs with them.
//!
//! Printed as a table, never asserted. `SECONDS=60` makes the long run a minute long (natively).

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use guest::{Launch, Recorder, Replay, Spacing, Until};

fn build(folder: &Path, name: &str, text: &str) -> std::path::PathBuf {
    let (source, program) = (folder.join(format!("{name}.c")), folder.join(name));
    std::fs::write(&source, text).expect("the source is written");
    let built = Command::new("cc")
        .arg("-O1")
        .arg("-o")
        .arg(&program)
        .arg(&source)
        .status();
    assert!(built.expect("a C compiler").success());
    program
}

fn record(
    folder: &Path,
    name: &str,
    program: &Path,
    args: &[&str],
) -> (std::path::PathBuf, u64, Duration) {
    let recording = folder.join(format!("{name}.rec"));
    std::fs::create_dir(&recording).expect("a folder for the recording");
    let launch =
        Launch::new(program, args.iter().map(|&a| a.into())).expect("the program is there");
    let begun = Instant::now();
    let done = Recorder::start(&launch, &recording)
        .and_then(Recorder::run)
        .expect("the guest runs");
    (recording, done.stats.steps, begun.elapsed())
}

fn open(recording: &Path) -> Replay {
    Replay::open(recording, Box::new(|_, _| ())).expect("the recording opens")
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn main() {
    let folder = std::env::temp_dir().join(format!("wherefore-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    println!(
        "{:<34} {:>12} {:>12} {:>12}",
        "guest", "take", "go back", "together"
    );
    for megabytes in [1, 16, 64, 256] {
        let text = format!(
            "#include <stdlib.h>\n#include <string.h>\nint main(void) {{ size_t n = {megabytes}u << 20; char *p = malloc(n); memset(p, 1, n);
             long s = 0; for (int k = 0; k < 4; k++) for (size_t i = 0; i < n; i += 64) s += p[i]++; return s == 7; }}"
        );
        let program = build(&folder, &format!("touch{megabytes}"), &text);
        let (recording, steps, _) = record(&folder, &format!("touch{megabytes}"), &program, &[]);
        let mut replay = open(&recording);
        replay
            .run(&Until::step(steps - 1000))
            .expect("the replay runs");
        let (mut take, mut back) = (Vec::new(), Vec::new());
        for _ in 0..21 {
            let begun = Instant::now();
            let id = replay.checkpoint().expect("a checkpoint");
            take.push(begun.elapsed());
            let begun = Instant::now();
            replay.restore(id).expect("going back");
            back.push(begun.elapsed());
            replay.forget(id).expect("it is there");
        }
        let (take, back) = (median(take), median(back));
        println!(
            "{:<34} {take:>12.1?} {back:>12.1?} {:>12.1?}",
            format!("{megabytes} MB in use"),
            take + back
        );
    }
    let seconds: f64 = std::env::var("SECONDS")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(10.0);
    let text = "#include <stdlib.h>\n#include <string.h>\nint main(int c, char **v) { long n = atol(v[1]); size_t size = 32u << 20;
                unsigned *p = calloc(1, size); unsigned s = 1;
                for (long i = 0; i < n; i++) { s = s * 1664525u + 1013904223u; p[(s >> 8) % (size / 4)] += s; } return p[s % 99] == 7; }";
    let program = build(&folder, "long", text);
    let rounds = (seconds * 6.7e7) as u64;
    let (recording, steps, recorded) = record(&folder, "long", &program, &[&rounds.to_string()]);
    let mut replay = open(&recording);
    replay
        .keep_checkpoints(Spacing::default())
        .expect("the first checkpoint");
    let begun = Instant::now();
    replay.run(&Until::end()).expect("the replay runs");
    println!(
        "long run: {steps} steps, recorded in {recorded:.1?}, replayed with checkpoints in {:.1?}",
        begun.elapsed()
    );
    let mut times = Vec::new();
    let mut s = 12345u64;
    for _ in 0..20 {
        s = s
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let begun = Instant::now();
        replay.goto(s % steps).expect("going there");
        times.push(begun.elapsed());
    }
    println!(
        "going to any of 20 steps: median {:.2?}, worst {:.2?}",
        median(times.clone()),
        times.iter().max().expect("some")
    );
    drop(replay);
    let _ = std::fs::remove_dir_all(&folder);
}
