//! Programs that die, or say something wrong, far from where they are wrong: the slice must have the
//! line at fault.

use super::memory::{Caught, caught};
use super::{Entry, Shelf};
use crate::scene::Complaints;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

/// What is run, asked, and must be found.
#[derive(Default)]
struct Story<'a> {
    command: &'a [&'a str],
    input: Option<&'a str>,
    /// It ends well, with the wrong output.
    survives: bool,
    options: &'a [&'a str],
    file: &'a str,
    /// The first and the last line at fault.
    lines: (u64, u64),
    /// A rule finds it as well.
    caught: Option<Caught>,
}

pub(super) const ENTRIES: [Entry; 6] = [
    Entry {
        name: "gifsicle",
        needs: &["gcc", "make", "npm", "autoreconf"],
        build: gifsicle,
        check: |shelf| {
            let mut complaints = slice(
                shelf,
                &Story {
                    command: &["src/src/gifsicle", "-I", "bad.gif", "empty.gif"],
                    file: "gifread.c",
                    lines: (898, 898),
                    caught: Some(Caught {
                        rules: &["dangling_deref", "double_free"],
                        place: "gifread.c",
                        cause: None,
                    }),
                    ..Story::default()
                },
            )?;
            // Who freed it first, and what if it is not freed again?
            complaints.extend(debug(
                shelf,
                &[
                    ("continue", "SIGABRT"),
                    ("frame function read_gif", "gifread.c:898"),
                    ("print last_name", "$1 = "),
                    ("tbreak main", ""),
                    ("reverse-continue", "main (argc=4"),
                    ("checkpoint", "checkpoint 1"),
                    ("lbreak free if arg1==$1", "lbreak 1"),
                    ("continue", "\"bad.gif\""),
                    ("print last_name", "nnnn"),
                    ("continue", "\"empty.gif\""),
                    ("instance gifread.c:898", "executed 2 times"),
                    ("ldelete 1", ""),
                    ("rollback 1", "main (argc=4"),
                    ("suppress gifread.c:898 2", "timeline 1"),
                    ("continue", "+ image #0 2x2"),
                    ("continue", "exited normally"),
                ],
            )?);
            Ok(complaints)
        },
    },
    Entry {
        name: "patch",
        needs: &["gcc", "make", "dpkg-source"],
        build: patch,
        check: |shelf| {
            fs::write(shelf.path("x"), "text\n")?;
            slice(
                shelf,
                &Story {
                    command: &["patch/src/patch", "-p1", "-f"],
                    input: Some("in"),
                    // What is missing is that the rest of the patch is skipped.
                    options: &["--relevant"],
                    file: "pch.c",
                    lines: (974, 978),
                    caught: Some(Caught {
                        rules: &["null_deref"],
                        place: "patch.c",
                        cause: None,
                    }),
                    ..Story::default()
                },
            )
        },
    },
    Entry {
        name: "bc",
        needs: &["gcc", "make", "dpkg-source"],
        build: bc,
        check: |shelf| {
            slice(
                shelf,
                &Story {
                    command: &["bc/bc/bc"],
                    input: Some("in"),
                    file: "storage.c",
                    lines: (185, 185),
                    caught: Some(Caught {
                        rules: &["heap_overflow"],
                        place: "storage.c",
                        cause: None,
                    }),
                    ..Story::default()
                },
            )
        },
    },
    Entry {
        name: "unadf",
        needs: &["gcc", "patch", "dpkg-source"],
        build: unadf,
        check: |shelf| {
            let folder = "./".repeat(150) + "out";
            slice(
                shelf,
                &Story {
                    command: &["./program", "-p", "t.adf", "-d", folder.as_str()],
                    file: "unadf.c",
                    lines: (165, 165),
                    caught: Some(Caught {
                        rules: &["stack_overflow"],
                        place: "unadf.c",
                        cause: None,
                    }),
                    ..Story::default()
                },
            )
        },
    },
    Entry {
        name: "lua-join",
        needs: &["gcc"],
        build: |shelf| {
            let source = shelf.crate_source("lua-src", "540.0.0")?.join("lua-5.3.5");
            super::wrong::lua(shelf, &source)?;
            let text = "f=load(function() end) interesting={} interesting[0]=string.rep(\"A\",512) \
                        debug.upvaluejoin(f,1,f,1)\n";
            Ok(fs::write(shelf.path("in.lua"), text)?)
        },
        check: |shelf| {
            slice(
                shelf,
                &Story {
                    command: &["./lua", "in.lua"],
                    file: "lapi.c",
                    lines: (1292, 1292),
                    caught: Some(Caught {
                        rules: &["dangling_deref"],
                        place: "lapi.c",
                        cause: None,
                    }),
                    ..Story::default()
                },
            )
        },
    },
    Entry {
        name: "jq-slice",
        needs: &["gcc"],
        build: super::wrong::jq,
        check: |shelf| {
            slice(
                shelf,
                &Story {
                    command: &["./jq", "-nc", "\"aaa\"|indices(\"aa\")"],
                    survives: true,
                    // The result is too short: something was not appended to it.
                    options: &["--relevant", "--at", "main.c:184", "--var", "result"],
                    file: "jv.c",
                    lines: (664, 664),
                    ..Story::default()
                },
            )
        },
    },
];

fn gifsicle(shelf: &Shelf) -> Result<()> {
    let package = shelf.npm_source("gifsicle", "4.0.1")?;
    shelf.script(
        &package,
        "mkdir src; tar xzf $SRC/vendor/source/gifsicle.tar.gz -C src --strip-components=1
         cd src; autoreconf -i; CFLAGS='-g -O0 -w' ./configure -q --disable-gifview --disable-gifdiff; make -j2",
    )?;
    let head = b"GIF89a\x02\0\x02\0\x80\0\0\0\0\0\xff\xff\xff";
    let image = b",\0\0\0\0\x02\0\x02\0\0\x02\x03\x44\x02\x05\0";
    let name = [&b"!\xce\xc8"[..], &[b'n'; 200], b"\0"].concat();
    fs::write(
        shelf.path("bad.gif"),
        [&head[..], image, &name, b";"].concat(),
    )?;
    Ok(fs::write(
        shelf.path("empty.gif"),
        [&head[..], b";"].concat(),
    )?)
}

fn patch(shelf: &Shelf) -> Result<()> {
    let source = shelf.debian_source("patch", "2.7.6-7")?;
    shelf.script(
        &source,
        "cd $SRC; CFLAGS='-g -O0 -w' ./configure -q; make -j2",
    )?;
    let text = "diff --git \nrename from x\nrename to y\n+++ b/y\n@@ -0,0 +1 @@\n+x\n";
    Ok(fs::write(shelf.path("in"), text)?)
}

fn bc(shelf: &Shelf) -> Result<()> {
    let source = shelf.debian_source("bc", "1.07.1-3")?;
    // The slip of long ago is put back.
    shelf.script(
        &source,
        "cd $SRC; sed -i '185s/a_count/v_count/' bc/storage.c; CFLAGS='-g -O0 -w' ./configure -q; make -j2 -C lib; make -j2 -C bc",
    )?;
    let scalars = (0..200).map(|n| format!("v{n}={n}\n"));
    let arrays = (0..40).map(|n| format!("a{n}[0]={n}\n"));
    let text: String = scalars.chain(arrays).collect();
    Ok(fs::write(shelf.path("in"), text)?)
}

/// Makes a disk image with a folder, through the library that reads it.
const IMAGE: &str = r#"
#include "adflib.h"
int main(void)
{
    adfEnvInitDefault();
    struct Device *device = adfCreateDumpDevice("t.adf", 80, 2, 11);
    adfCreateFlop(device, "disk", 0);
    struct Volume *volume = adfMount(device, 0, 0);
    adfCreateDir(volume, volume->curDirPtr, "folder");
    adfUnMount(volume);
    adfUnMountDev(device);
    return 0;
}
"#;

fn unadf(shelf: &Shelf) -> Result<()> {
    let source = shelf.debian_source("unadf", "0.7.11a-5+deb12u1")?;
    fs::write(shelf.path("image.c"), IMAGE)?;
    shelf.script(
        &source,
        "for p in source-code-fixes 64-bit-fixes; do patch -s -p1 -d $SRC < $SRC/debian/patches/$p; done
         C=\"gcc -g -O0 -w -std=gnu99 -I$SRC/Lib -I$SRC/Lib/Generic -I$SRC\"
         $C $SRC/Demo/unadf.c $SRC/Lib/*.c $SRC/Lib/Generic/*.c -o program
         $C image.c $SRC/Lib/*.c $SRC/Lib/Generic/*.c -o image; ./image",
    )
}

/// Types commands into gdb over the latest recording; each must show something.
fn debug(shelf: &Shelf, dialogue: &[(&str, &str)]) -> Result<Complaints> {
    let script = shelf.path("dialogue.gdb");
    let mut text = String::from(
        "set pagination off\nset confirm off\nset debuginfod enabled off\nset print repeats 300\n",
    );
    for (command, _) in dialogue {
        text.push_str(&format!("echo @@@\\n\n{command}\n"));
    }
    fs::write(&script, text)?;
    let mut gdb = shelf.command(&["debug", "--batch", "--gdb-option=-nx", "-x"]);
    let output = gdb.arg(&script).stdin(Stdio::null()).output()?;
    let shown = String::from_utf8_lossy(&output.stdout);
    let parts: Vec<&str> = shown.split("@@@").skip(1).collect();
    if parts.len() != dialogue.len() {
        let words = String::from_utf8_lossy(&output.stderr);
        bail!("gdb gave up: {shown}{words}");
    }
    let all = dialogue.iter().zip(parts);
    let wrong = all.filter(|((_, expected), part)| !part.contains(expected));
    Ok(wrong
        .map(|((command, expected), part)| format!("{command}: no `{expected}` in {part}"))
        .collect())
}

/// Records the failure, slices from it, and looks for the lines at fault.
fn slice(shelf: &Shelf, story: &Story<'_>) -> Result<Complaints> {
    let input = match story.input {
        Some(name) => Stdio::from(fs::File::open(shelf.path(name))?),
        None => Stdio::null(),
    };
    let mut run = shelf.command(&["run", "--quiet", "--"]);
    let ran = run.args(story.command).stdin(input).output()?;
    if ran.status.signal().is_none() != story.survives {
        bail!("it did not end as it should: {}", ran.status);
    }
    let report = shelf.path("slice.json");
    let report = report.to_str().context("a path that is text")?;
    let mut command = shelf.command(&["slice", "--json", "-o", report]);
    let sliced = command.args(story.options).output()?;
    if !sliced.status.success() {
        bail!("slice: {}", String::from_utf8_lossy(&sliced.stderr));
    }
    let facts: Value = serde_json::from_slice(&fs::read(report)?)?;
    let statements = facts["statements"].as_array().context("statements")?;
    let (file, (first, last)) = (story.file, story.lines);
    let found = statements.iter().any(|s| {
        let here = s["file"].as_str().is_some_and(|f| f.ends_with(file));
        here && s["line"]
            .as_u64()
            .is_some_and(|l| (first..=last).contains(&l))
    });
    let figure = |name: &str| facts["figures"][name].clone();
    println!(
        "  {} statements of {} executed instructions in {:.2} s and {} windows; {file}:{first} is {}",
        statements.len(),
        figure("steps"),
        figure("replay_seconds").as_f64().unwrap_or(0.0)
            + figure("slice_seconds").as_f64().unwrap_or(0.0),
        figure("windows"),
        if found { "among them" } else { "not there" },
    );
    let mut complaints = Complaints::new();
    if !found {
        complaints.push(format!("{file}:{first} is not in the slice"));
    }
    if let Some(wanted) = &story.caught {
        complaints.extend(caught(shelf, &[], None, wanted)?);
    }
    Ok(complaints)
}
