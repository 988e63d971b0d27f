//! `cargo xtask tidy`: rules about the tree that no compiler checks.

use crate::scene::Complaints;
use crate::tally::Tally;
use crate::tool;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Each crate and what it may use of the others. Front ends sit on the façade, the façade on the facts and the
/// engine, and those on the vocabulary.
const LAYERS: [(&str, &[&str]); 13] = [
    ("wherefore", &["case", "serve"]),
    ("serve", &["case"]),
    (
        "case",
        &["rules", "flow", "guest", "image", "locate", "tape", "abi"],
    ),
    ("rules", &["flow", "image", "jit", "tape", "abi"]),
    ("flow", &["image", "tape", "abi"]),
    ("locate", &[]),
    // Nothing that ships uses it: it is what tests hold the rules against.
    ("calculus", &[]),
    ("guest", &["abi", "tape"]),
    ("image", &["abi"]),
    ("jit", &[]),
    ("tape", &[]),
    ("abi", &[]),
    ("xtask", &[]),
];
/// The crate that talks to the kernel in ways Rust cannot check, and the one that runs code that it makes.
const UNSAFE: [&str; 2] = ["guest", "jit"];
const LONGEST: usize = 800;
// Spelt in parts, so that this file does not contain what it looks for.
const FORBIDDEN: [&str; 3] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("#[", "ignore"),
];

pub(crate) fn run() -> Result<bool> {
    let mut tally = Tally::default();
    tally.record("tidy", complaints());
    Ok(tally.report())
}

pub(crate) fn complaints() -> Result<Complaints> {
    let mut complaints = Complaints::new();
    crates(&mut complaints)?;
    for file in files()? {
        // A file that is deleted but not yet committed is still listed.
        let Ok(bytes) = fs::read(&file) else { continue };
        if let Ok(text) = String::from_utf8(bytes) {
            text_file(&file, &text, &mut complaints);
        }
    }
    Ok(complaints)
}

fn crates(complaints: &mut Complaints) -> Result<()> {
    let output = tool::cargo()
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .output()?;
    let metadata: Value =
        serde_json::from_slice(&output.stdout).context("cargo metadata does not speak JSON")?;
    let packages = metadata["packages"]
        .as_array()
        .context("cargo metadata names no packages")?;
    let names: Vec<&str> = packages
        .iter()
        .filter_map(|package| package["name"].as_str())
        .collect();
    let map = fs::read_to_string("ARCHITECTURE.md").unwrap_or_default();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let place = Path::new(package["manifest_path"].as_str().unwrap_or_default())
            .parent()
            .unwrap_or(Path::new(""));
        let Some((_, allowed)) = LAYERS.iter().find(|(layer, _)| *layer == name) else {
            complaints.push(format!(
                "crate `{name}` has no layer; give it one in xtask/src/tidy.rs"
            ));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let used = dependency["name"].as_str().unwrap_or_default();
            // Tests may reach down past a layer; what ships may not.
            let ships = dependency["kind"].as_str() != Some("dev");
            if ships && names.contains(&used) && !allowed.contains(&used) {
                complaints.push(format!("crate `{name}` uses `{used}`, against the layers"));
            }
        }
        let folder = place
            .strip_prefix(tool::root())
            .unwrap_or(place)
            .display()
            .to_string();
        let spellings =
            [&folder, &format!("{folder}/"), &name.to_owned()].map(|text| format!("`{text}`"));
        if !spellings.iter().any(|spelling| map.contains(spelling)) {
            complaints.push(format!("ARCHITECTURE.md does not name `{folder}`"));
        }
        let roots = ["src/lib.rs", "src/main.rs"].map(|root| place.join(root));
        let safe = !UNSAFE.contains(&name);
        for root in roots.iter().filter(|root| root.exists() && safe) {
            if !fs::read_to_string(root)?.contains("#![forbid(unsafe_code)]") {
                complaints.push(format!("{folder}: {name} does not forbid unsafe code"));
            }
        }
    }
    Ok(())
}

fn files() -> Result<Vec<PathBuf>> {
    let output = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .output()
        .context("tidy asks git for the list of files")?;
    if !output.status.success() {
        bail!(
            "tidy asks git for the list of files: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let names = String::from_utf8(output.stdout)?;
    Ok(names
        .split('\0')
        .filter(|name| !name.is_empty() && *name != "Cargo.lock")
        .map(PathBuf::from)
        .collect())
}

fn text_file(file: &Path, text: &str, complaints: &mut Complaints) {
    let file = file.display();
    let count = text.lines().count();
    if count > LONGEST {
        complaints.push(format!("{file} has {count} lines; split it at {LONGEST}"));
    }
    for (number, line) in text.lines().enumerate() {
        let number = number + 1;
        if line.ends_with([' ', '\t']) {
            complaints.push(format!("{file}:{number}: blanks at the end"));
        }
        if let Some(word) = FORBIDDEN.iter().find(|word| line.contains(**word)) {
            complaints.push(format!("{file}:{number}: `{word}`"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_rules() {
        let mut complaints = Complaints::new();
        let text = format!("fine\nblank \n// {}: later\n", FORBIDDEN[0]);
        text_file(Path::new("a.rs"), &text, &mut complaints);
        assert_eq!(complaints.len(), 2, "{complaints:?}");
        assert!(complaints[0].starts_with("a.rs:2:") && complaints[1].starts_with("a.rs:3:"));
    }

    #[test]
    fn length_rule() {
        let mut complaints = Complaints::new();
        text_file(
            Path::new("a.rs"),
            &"x\n".repeat(LONGEST + 1),
            &mut complaints,
        );
        assert_eq!(complaints.len(), 1);
    }
}
