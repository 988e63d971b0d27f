//! xz 5.6.4: a worker that is told to stop frees its input buffer while the main thread fills it
//! (stream_decoder_mt.c). Natively 5 to 19 % of runs die of it.

use super::{Entry, Shelf};
use crate::scene::Complaints;
use anyhow::{Context, Result};
use serde_json::Value;
use std::fs;
use std::os::unix::process::ExitStatusExt;

pub(super) const ENTRY: Entry = Entry {
    name: "xz-threads",
    needs: &["gcc", "cmake", "make"],
    build,
    check,
};

/// Runs within which it must be caught, and replays of the one that failed.
const RUNS: &str = "50";
const REPLAYS: u32 = 20;

fn build(shelf: &Shelf) -> Result<()> {
    let source = shelf.crate_source("liblzma-sys", "0.3.13")?.join("xz");
    let source = source.to_str().context("a path that is text")?;
    shelf.tool(
        "cmake",
        &[
            "-S",
            source,
            "-B",
            "build",
            "-DCMAKE_BUILD_TYPE=None",
            "-DCMAKE_C_FLAGS=-g -O0",
        ],
    )?;
    shelf.tool("make", &["-C", "build", "-j2", "xz"])?;
    // Three blocks that do not compress, the first with a damaged header.
    let mut state: u64 = 1;
    let block: Vec<u8> = (0..1 << 20)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect();
    fs::write(shelf.path("in"), block.repeat(3))?;
    shelf.tool("build/xz", &["-kf", "-T2", "--block-size=1MiB", "-0", "in"])?;
    let mut packed = fs::read(shelf.path("in.xz"))?;
    packed[28] = 0x55;
    Ok(fs::write(shelf.path("bad.xz"), packed)?)
}

fn check(shelf: &Shelf) -> Result<Complaints> {
    let mut complaints = Complaints::new();
    let report = shelf.path("report.json");
    let report = report.to_str().context("a path that is text")?;
    let caught = shelf.ask(&[
        "run", "--chaos", RUNS, "--json", "-o", report, "--", "build/xz", "-T2", "-dc", "bad.xz",
    ])?;
    let facts: Value = serde_json::from_slice(&fs::read(report)?)?;
    if caught.status.code() != Some(1) || facts["failure"].is_null() {
        complaints.push(format!("not caught in {RUNS} chaos runs"));
        return Ok(complaints);
    }
    let (run, ended) = (
        &facts["failure"]["run"],
        &facts["failure"]["report"]["ended"],
    );
    println!("  caught in run {run} of {RUNS}: {ended}");
    let signal = ended["killed"]["signal"].as_i64();
    let mut same = 0;
    for _ in 0..REPLAYS {
        let replay = shelf.ask(&["replay", "--quiet"])?;
        same += u32::from(replay.status.signal().map(i64::from) == signal);
    }
    println!("  replayed the same {same} of {REPLAYS} times");
    if same != REPLAYS {
        complaints.push(format!(
            "{same} of {REPLAYS} replays died of the same signal"
        ));
    }
    for args in [["-T1", "bad.xz"], ["-T2", "in.xz"]] {
        let [threads, file] = args;
        let fine = shelf.ask(&[
            "run", "--quiet", "--chaos", "10", "--", "build/xz", threads, "-dc", file,
        ])?;
        if fine.status.code() != Some(0) {
            complaints.push(format!(
                "xz {threads} -dc {file} failed, which it does not natively"
            ));
        }
    }
    Ok(complaints)
}
