//! Faults of memory: a rule must find them, and the value propagation chain is held beside the line at fault.

use super::{Entry, Shelf};
use crate::scene::Complaints;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::fs;
use std::process::Stdio;

pub(super) const ENTRIES: [Entry; 3] = [
    Entry {
        name: "zlib-extra",
        needs: &["gcc"],
        build: zlib,
        check: |shelf| {
            let bad = Caught {
                rules: &["heap_overflow"],
                place: "inflate.c",
                cause: Some(("inflate.c", 764)),
            };
            let mut complaints = caught(shelf, &["./program", "20"], None, &bad)?;
            complaints.extend(quiet(shelf, &["./program", "64"], None)?);
            Ok(complaints)
        },
    },
    Entry {
        name: "optipng",
        needs: &["gcc", "make", "npm"],
        build: optipng,
        check: |shelf| {
            let bad = Caught {
                rules: &["global_overflow"],
                place: "gifread.c",
                cause: None,
            };
            let program = "src/src/optipng/optipng";
            let args = |file: &'static str| [program, "-simulate", "-quiet", file];
            let mut complaints = caught(shelf, &args("bad.gif"), None, &bad)?;
            complaints.extend(quiet(shelf, &args("good.gif"), None)?);
            Ok(complaints)
        },
    },
    Entry {
        name: "yajl-leak",
        needs: &["gcc", "dpkg-source"],
        build: yajl,
        check: |shelf| {
            let bad = Caught {
                rules: &["definite_leak"],
                place: "yajl_tree.c",
                cause: None,
            };
            let mut complaints = caught(shelf, &["./program"], Some("bad"), &bad)?;
            complaints.extend(quiet(shelf, &["./program"], Some("good"))?);
            Ok(complaints)
        },
    },
];

/// What is expected of a fault.
pub(super) struct Caught {
    /// One of these finds it.
    pub(super) rules: &'static [&'static str],
    /// A file on the stack of the fault, or of what was lost.
    pub(super) place: &'static str,
    /// A line that the bad value goes through.
    pub(super) cause: Option<(&'static str, u64)>,
}

/// Without a command the latest recording is looked at.
fn check(shelf: &Shelf, command: &[&str], input: Option<&str>) -> Result<Vec<Value>> {
    let input = match input {
        Some(name) => Stdio::from(fs::File::open(shelf.path(name))?),
        None => Stdio::null(),
    };
    let report = shelf.path("check.json");
    let report = report.to_str().context("a path that is text")?;
    let mut run = shelf.command(&["check", "--json", "-o", report]);
    if !command.is_empty() {
        run.arg("--").args(command);
    }
    let ran = run.stdin(input).output()?;
    if !matches!(ran.status.code(), Some(0 | 1)) {
        bail!("check: {}", String::from_utf8_lossy(&ran.stderr));
    }
    let facts: Value = serde_json::from_slice(&fs::read(report)?)?;
    Ok(facts["faults"].as_array().context("faults")?.clone())
}

/// The first fault is the one that is known.
pub(super) fn caught(
    shelf: &Shelf,
    command: &[&str],
    input: Option<&str>,
    wanted: &Caught,
) -> Result<Complaints> {
    let faults = check(shelf, command, input)?;
    let Some(fault) = faults.first() else {
        return Ok(vec!["no rule found a fault".to_owned()]);
    };
    let mut complaints = Complaints::new();
    let rule = fault["rule"].as_str().unwrap_or_default();
    if !wanted.rules.contains(&rule) {
        complaints.push(format!("found by {rule}, not by {:?}", wanted.rules));
    }
    let site = match fault["leaks"][0].is_null() {
        true => &fault["at"],
        false => &fault["leaks"][0]["allocated"],
    };
    let empty = Vec::new();
    let frames = site["stack"]["frames"].as_array().unwrap_or(&empty);
    let file = |v: &Value, name: &str| v["file"].as_str().is_some_and(|f| f.ends_with(name));
    if !frames.iter().any(|f| file(f, wanted.place)) {
        complaints.push(format!("found elsewhere than in {}: {site}", wanted.place));
    }
    for chain in fault["chains"].as_array().unwrap_or(&empty) {
        let hops = chain["hops"].as_array().unwrap_or(&empty);
        let places = hops.iter().map(|h| {
            let path = h["file"].as_str().unwrap_or("?");
            let name = path.rsplit('/').next().unwrap_or(path);
            format!("{name}:{}", h["line"])
        });
        println!(
            "  {rule}: chain of {} has {} instructions, from {} by way of {}",
            chain["name"],
            chain["instructions"],
            chain["origin"],
            places.collect::<Vec<_>>().join(", ")
        );
    }
    effort(shelf, fault)?;
    if let Some((name, line)) = wanted.cause {
        let chains = fault["chains"].as_array().unwrap_or(&empty);
        let mut hops = chains.iter().flat_map(|c| c["hops"].as_array()).flatten();
        let passes = hops.any(|h| file(h, name) && h["line"].as_u64() == Some(line));
        if !passes {
            complaints.push(format!("no chain goes through {name}:{line}"));
        }
    }
    Ok(complaints)
}

/// What somebody who looks for the cause has to go through, as Table 3 of the paper on these rules counts it: all
/// instructions back to where the chains begin, those of the slice from the fault, or those of the longest chain.
fn effort(shelf: &Shelf, fault: &Value) -> Result<()> {
    let empty = Vec::new();
    let chains = fault["chains"].as_array().unwrap_or(&empty);
    let hops = chains.iter().flat_map(|c| c["hops"].as_array()).flatten();
    let first = hops.filter_map(|h| h["step"].as_u64()).min();
    let longest = chains
        .iter()
        .filter_map(|c| c["instructions"].as_u64())
        .max();
    let (Some(first), Some(longest), Some(step)) = (first, longest, fault["step"].as_u64()) else {
        return Ok(());
    };
    let report = shelf.path("slice.json");
    let report = report.to_str().context("a path that is text")?;
    let at = step.to_string();
    let sliced = shelf.ask(&["slice", "--json", "--at", &at, "-o", report])?;
    if !sliced.status.success() {
        bail!("slice: {}", String::from_utf8_lossy(&sliced.stderr));
    }
    let facts: Value = serde_json::from_slice(&fs::read(report)?)?;
    println!(
        "  instructions to look at: {} from the fault back to where the chains begin (Table 3: 74 to 270,544), {} in \
         the slice (7 to 135,366), {longest} in the longest chain (1 to 16)",
        step.saturating_sub(first),
        facts["figures"]["instructions"],
    );
    Ok(())
}

/// No rule finds anything in what is right.
fn quiet(shelf: &Shelf, command: &[&str], input: Option<&str>) -> Result<Complaints> {
    let faults = check(shelf, command, input)?;
    let told = faults
        .iter()
        .map(|f| format!("a false alarm: {} {}", f["rule"], f["message"]));
    Ok(told.collect())
}

/// Reads a file of gzip's, eight bytes at a time, with room for so many bytes of the extra field.
const DRIVER: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "zlib.h"
int main(int argc, char **argv)
{
    int room = atoi(argv[1]);
    unsigned char in[200], out[64];
    FILE *file = fopen("in.gz", "rb");
    int n = fread(in, 1, sizeof in, file);
    fclose(file);
    z_stream z;
    gz_header head;
    memset(&z, 0, sizeof z);
    memset(&head, 0, sizeof head);
    head.extra = malloc(room);
    head.extra_max = room;
    inflateInit2(&z, 31);
    inflateGetHeader(&z, &head);
    for (int at = 0; at < n; at += 8) {
        z.next_in = in + at;
        z.avail_in = n - at < 8 ? n - at : 8;
        z.next_out = out;
        z.avail_out = sizeof out;
        inflate(&z, Z_NO_FLUSH);
    }
    inflateEnd(&z);
    free(head.extra);
    return 0;
}
"#;

fn zlib(shelf: &Shelf) -> Result<()> {
    let source = shelf.crate_source("libz-sys", "1.1.8")?.join("src/zlib");
    fs::write(shelf.path("driver.c"), DRIVER)?;
    shelf.script(
        &source,
        "gcc -g -O0 -w -I$SRC driver.c $SRC/adler32.c $SRC/crc32.c $SRC/inf*.c $SRC/zutil.c -o program",
    )?;
    // An empty stream behind a header that has an extra field.
    let mut file = vec![0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 3, 64, 0];
    file.extend([b'x'; 64]);
    file.extend([3, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    Ok(fs::write(shelf.path("in.gz"), file)?)
}

/// A picture whose data is cut into pieces of so many bytes. Codes are nine bits wide, and so need more than a
/// piece of one byte; the table is cleared before they would grow.
fn gif(piece: usize) -> Vec<u8> {
    const WIDTH: u32 = 9;
    let mut out = b"GIF89a".to_vec();
    out.extend([64, 0, 64, 0, 0xf7, 0, 0]);
    out.extend((0..=255).flat_map(|n: u8| [n, 255 - n, n / 2]));
    out.extend([b',', 0, 0, 0, 0, 64, 0, 64, 0, 0, 8]);
    let pixels: Vec<u32> = (0..64 * 64).map(|n: u32| n * 7 % 256).collect();
    let cleared = pixels
        .chunks(200)
        .flat_map(|row| [&[256][..], row].concat());
    let mut data = Vec::new();
    let (mut bits, mut held) = (0u32, 0);
    for code in cleared.chain([257]) {
        bits |= code << held;
        held += WIDTH;
        while held >= 8 {
            data.push(bits as u8);
            bits >>= 8;
            held -= 8;
        }
    }
    data.push(bits as u8);
    for part in data.chunks(piece) {
        out.push(part.len() as u8);
        out.extend(part);
    }
    out.extend([0, b';']);
    out
}

fn optipng(shelf: &Shelf) -> Result<()> {
    let package = shelf.npm_source("optipng-bin", "7.0.0")?;
    shelf.script(
        &package,
        "mkdir src; tar xzf $SRC/vendor/source/optipng.tar.gz -C src --strip-components=1
         cd src; CFLAGS='-g -O0 -w' LDFLAGS=-g ./configure; make -j2",
    )?;
    fs::write(shelf.path("bad.gif"), gif(1))?;
    Ok(fs::write(shelf.path("good.gif"), gif(255))?)
}

fn yajl(shelf: &Shelf) -> Result<()> {
    let source = shelf.debian_source("yajl", "2.1.0-3+deb12u2")?;
    shelf.script(
        &source,
        "mkdir -p include/yajl; cp $SRC/src/api/*.h include/yajl
         sed 's/${YAJL_MAJOR}/2/; s/${YAJL_MINOR}/1/; s/${YAJL_MICRO}/0/' $SRC/src/api/yajl_version.h.cmake > include/yajl/yajl_version.h
         gcc -g -O0 -w -Iinclude -I$SRC/src $SRC/src/*.c $SRC/example/parse_config.c -lm -o program",
    )?;
    fs::write(shelf.path("bad"), "{\"a\":{\"b\":[1,2")?;
    Ok(fs::write(shelf.path("good"), "{\"a\":{\"b\":[1,2]}}")?)
}
