//! Builds C and C++ sources on demand, cached under the target directory by the content of all that goes in.

use crate::facts::Facts;
use crate::tool;
use anyhow::{Context, Result, bail};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

#[derive(Debug, Clone, Copy, Hash)]
pub(crate) struct Variant {
    pub(crate) optimisation: &'static str,
    pub(crate) is_static: bool,
}

impl Variant {
    pub(crate) const ALL: [Variant; 4] = [
        Variant {
            optimisation: "-O0",
            is_static: false,
        },
        Variant {
            optimisation: "-O2",
            is_static: false,
        },
        Variant {
            optimisation: "-O0",
            is_static: true,
        },
        Variant {
            optimisation: "-O2",
            is_static: true,
        },
    ];
    pub(crate) const FAST: Variant = Variant::ALL[1];

    pub(crate) fn name(self) -> String {
        format!(
            "{} {}",
            self.optimisation,
            if self.is_static { "static" } else { "dynamic" }
        )
    }
}

/// The path of the program that `source` becomes.
pub(crate) fn program(source: &Path, facts: &Facts, variant: Variant) -> Result<PathBuf> {
    let mut flags: Vec<String> = vec![variant.optimisation.to_owned()];
    if variant.is_static {
        flags.push("-static".to_owned());
    }
    flags.extend(facts.flags.iter().cloned());
    build(source, &flags, &facts.libs, "")
}

pub(crate) fn plugin(source: &Path, variant: Variant) -> Result<PathBuf> {
    build(
        source,
        &[
            variant.optimisation.into(),
            "-shared".into(),
            "-fPIC".into(),
        ],
        &[],
        ".so",
    )
}

fn build(source: &Path, flags: &[String], libs: &[String], suffix: &str) -> Result<PathBuf> {
    let compiler = if source
        .extension()
        .is_some_and(|extension| extension == "cpp")
    {
        "g++"
    } else {
        "gcc"
    };
    let mut state = DefaultHasher::new();
    (compiler, compiler_version(), flags, libs, source).hash(&mut state);
    fs::read(source)
        .with_context(|| format!("cannot read {}", source.display()))?
        .hash(&mut state);
    fs::read("guests/guest.h")?.hash(&mut state);
    let directory = tool::target().join(format!("guests/{:016x}", state.finish()));
    let name = source.file_stem().unwrap_or_default().to_string_lossy();
    let program = directory.join(format!("{name}{suffix}"));
    if program.exists() {
        return Ok(program);
    }
    fs::create_dir_all(&directory)?;
    // Under another name first: an interrupted build must not look like a finished one.
    let partial = directory.join(format!("{name}{suffix}.{}", std::process::id()));
    let output = Command::new(compiler)
        .args(["-g", "-Wall", "-Wextra", "-Werror", "-Iguests"])
        .args(flags)
        .arg("-o")
        .arg(&partial)
        .arg(source)
        .args(libs)
        .output()
        .with_context(|| {
            format!("cannot start {compiler}; it comes with Debian's package of that name")
        })?;
    if !output.status.success() {
        bail!(
            "{compiler} {}: {}",
            source.display(),
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
    }
    fs::rename(&partial, &program)?;
    Ok(program)
}

fn compiler_version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| match Command::new("gcc").arg("--version").output() {
        Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
        Err(_) => String::new(),
    })
}
