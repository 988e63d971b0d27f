//! Where the repository and the binary under test are.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// The cargo that started us, so that a toolchain override stays in force.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// `WHEREFORE` if it is set, else this workspace's release build, made first.
pub(crate) fn wherefore() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("WHEREFORE") {
        return std::fs::canonicalize(&path)
            .with_context(|| format!("WHEREFORE names {}", path.display()));
    }
    let status = cargo()
        .args(["build", "--release", "--quiet", "-p", "wherefore"])
        .status()?;
    if !status.success() {
        bail!("wherefore does not build");
    }
    Ok(target().join("release/wherefore"))
}

/// A benchmark of one of the crates, built.
pub(crate) fn bench(package: &str, name: &str) -> Result<PathBuf> {
    let output = cargo()
        .args(["bench", "--no-run", "--quiet", "--message-format=json"])
        .args(["--package", package, "--bench", name])
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        bail!("the benchmark `{name}` of `{package}` does not build");
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    messages
        .filter(|message: &Value| message["target"]["name"] == name)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .with_context(|| format!("cargo does not say where the benchmark `{name}` is"))
}

pub(crate) fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(directory) => root().join(directory),
        None => root().join("target"),
    }
}

/// The search path every case runs with: what a Debian login has, whatever the developer's shell adds.
pub(crate) const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/games";

pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    PATH.split(':')
        .map(|directory| Path::new(directory).join(name))
        .find(|path| path.is_file())
}
