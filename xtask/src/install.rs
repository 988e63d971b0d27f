//! Gets the Debian programs that the foreign suite and the benchmarks run, and those that the gallery is built with.
//!
//! Only as root and with apt at hand, as in a container or on a CI runner. Elsewhere what is missing is skipped by
//! name, and the count at the end says so.

use crate::tool;
use std::process::{Command, Stdio};

/// Command and the package it comes in.
const PROGRAMS: [(&str, &str); 47] = [
    ("autoreconf", "autoconf"),
    ("as", "binutils"),
    ("automake", "automake"),
    ("awk", "gawk"),
    ("gawk", "gawk"),
    ("bash", "bash"),
    ("bison", "bison"),
    ("busybox", "busybox-static"),
    ("bzip2", "bzip2"),
    ("curl", "curl"),
    ("diff", "diffutils"),
    ("dwz", "dwz"),
    ("find", "findutils"),
    ("g++", "g++"),
    ("gcc", "gcc"),
    ("gdb", "gdb"),
    ("git", "git"),
    ("grep", "grep"),
    ("gzip", "gzip"),
    ("jq", "jq"),
    ("lldb", "lldb"),
    ("ls", "coreutils"),
    ("lua5.4", "lua5.4"),
    ("luajit", "luajit"),
    ("make", "make"),
    ("node", "nodejs"),
    ("openssl", "openssl"),
    ("perl", "perl"),
    ("php", "php-cli"),
    ("python3", "python3"),
    ("sed", "sed"),
    ("sort", "coreutils"),
    ("sqlite3", "sqlite3"),
    ("tar", "tar"),
    ("tclsh", "tcl"),
    ("bc", "bc"),
    ("valgrind", "valgrind"),
    ("vim", "vim"),
    ("wget", "wget"),
    ("xz", "xz-utils"),
    ("zstd", "zstd"),
    ("file", "file"),
    ("pigz", "pigz"),
    ("b3sum", "b3sum"),
    ("rg", "ripgrep"),
    ("cmake", "cmake"),
    ("taskset", "util-linux"),
];

pub(crate) fn missing_programs() {
    let missing: Vec<&str> = PROGRAMS
        .iter()
        .filter(|(name, _)| tool::find_program(name).is_none())
        .map(|(_, package)| *package)
        .collect();
    if missing.is_empty()
        || !nix::unistd::geteuid().is_root()
        || tool::find_program("apt-get").is_none()
    {
        return;
    }
    println!("installing {}", missing.join(" "));
    let apt = |args: &[&str]| {
        let mut command = Command::new("apt-get");
        command
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(["-qq", "-y"])
            .args(args);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let install =
        |packages: &[&str]| apt(&[&["install", "--no-install-recommends"], packages].concat());
    if install(&missing) {
        return;
    }
    // An index that is absent or stale is the usual reason; one package that does not exist must not cost the rest.
    apt(&["update"]);
    for package in missing {
        if !install(&[package]) {
            println!("cannot install {package}");
        }
    }
}
