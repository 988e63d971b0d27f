//! What checkpoints cost, and what going to any step of a long run costs with them.
//!
//! Printed as a table, or with `--json` as data, never asserted. `SECONDS=60` makes the long run
//! about a minute long.

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
    let json = std::env::args().any(|a| a == "--json");
    let folder = std::env::temp_dir().join(format!("wherefore-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let mut rows = Vec::new();
    for megabytes in [1, 16, 64, 256] {
        let (take, back) = take_and_go_back(&folder, megabytes);
        rows.push((megabytes, take, back));
    }
    let long = any_step(&folder);
    if json {
        let rows: Vec<String> = rows
            .iter()
            .map(|(m, t, b)| {
                let (t, b) = (t.as_secs_f64(), b.as_secs_f64());
                format!("{{\"megabytes\":{m},\"take_s\":{t},\"back_s\":{b}}}")
            })
            .collect();
        println!(
            "{{\"checkpoints\":[{}],\"long_run\":{{\"steps\":{},\"recorded_s\":{},\"replayed_s\":{},\"goto_median_s\":{},\"goto_worst_s\":{}}}}}",
            rows.join(","),
            long.steps,
            long.recorded.as_secs_f64(),
            long.replayed.as_secs_f64(),
            long.median.as_secs_f64(),
            long.worst.as_secs_f64()
        );
    } else {
        println!(
            "{:<16} {:>10} {:>10} {:>10}",
            "memory in use", "take", "go back", "together"
        );
        for (m, take, back) in rows {
            println!(
                "{:<16} {take:>10.1?} {back:>10.1?} {:>10.1?}",
                format!("{m} MB"),
                take + back
            );
        }
        println!(
            "a run of {} steps: recorded in {:.1?}, replayed with checkpoints in {:.1?}",
            long.steps, long.recorded, long.replayed
        );
        println!(
            "going to any of its steps: median {:.2?}, worst of 20 {:.2?}",
            long.median, long.worst
        );
    }
    let _ = std::fs::remove_dir_all(&folder);
}

/// The median cost of taking a checkpoint and of going back to it.
fn take_and_go_back(folder: &Path, megabytes: u32) -> (Duration, Duration) {
    let text = format!(
        "#include <stdlib.h>\n#include <string.h>\nint main(void) {{ size_t n = {megabytes}u << 20; char *p = malloc(n); memset(p, 1, n);
         long s = 0; for (int k = 0; k < 4; k++) for (size_t i = 0; i < n; i += 64) s += p[i]++; return s == 7; }}"
    );
    let name = format!("touch{megabytes}");
    let program = build(folder, &name, &text);
    let (recording, steps, _) = record(folder, &name, &program, &[]);
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
    (median(take), median(back))
}

struct Long {
    steps: u64,
    recorded: Duration,
    replayed: Duration,
    median: Duration,
    worst: Duration,
}

/// What going to any step of a long run costs, with automatic checkpoints.
fn any_step(folder: &Path) -> Long {
    let seconds: f64 = std::env::var("SECONDS")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(10.0);
    let text = "#include <stdlib.h>\nint main(int c, char **v) { long n = atol(v[1]); size_t size = 32u << 20;
                unsigned *p = calloc(1, size); unsigned s = 1;
                for (long i = 0; i < n; i++) { s = s * 1664525u + 1013904223u; p[(s >> 8) % (size / 4)] += s; }
                return p[s % 99] == 7; }";
    let program = build(folder, "long", text);
    let rounds = (seconds * 6.7e7) as u64;
    let (recording, steps, recorded) = record(folder, "long", &program, &[&rounds.to_string()]);
    let mut replay = open(&recording);
    replay
        .keep_checkpoints(Spacing::default())
        .expect("the first checkpoint");
    let begun = Instant::now();
    replay.run(&Until::end()).expect("the replay runs");
    let replayed = begun.elapsed();
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
    let worst = *times.iter().max().expect("twenty");
    Long {
        steps,
        recorded,
        replayed,
        median: median(times),
        worst,
    }
}
