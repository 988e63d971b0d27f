//! `wherefore debug`: the user's own gdb, connected to a server that is started for it.
//!
//! The server is a process of its own, in a process group of its own: Ctrl-C on the terminal is then
//! gdb's alone, and gdb passes it on as it would natively.

use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail};
use case::Case;

use crate::args::{DebugArgs, Subject};
use crate::exit::Exit;
use crate::render::say;

/// A folder for the socket and the commands, removed when gdb has ended.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self> {
        let base = std::env::temp_dir();
        for n in 0..100 {
            let path = base.join(format!("wherefore-{}-{n}", std::process::id()));
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Folder(path)),
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(e) => bail!("cannot make a folder in {}: {e}", base.display()),
            }
        }
        bail!("cannot make a folder in {}", base.display())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A process that does not outlive what it was started for.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs and records a program in a process of its own, so that this one's signals stay as they are.
fn record(folder: &Path, subject: &Subject) -> Result<()> {
    let mut run = Command::new(std::env::current_exe()?);
    run.arg("--recordings")
        .arg(folder)
        .args(["run", "--quiet", "--"]);
    run.args(&subject.command).status()?;
    Ok(())
}

pub(crate) fn debug(case: &Case, folder: &Path, args: &DebugArgs) -> Result<Exit> {
    let before = case.info(None).ok().map(|i| i.name.0);
    if !args.subject.command.is_empty() {
        record(folder, &args.subject)?;
    }
    let info = case.info(args.subject.recording.as_deref())?;
    let name = info.name.0.clone();
    if !args.subject.command.is_empty() && before.as_ref() == Some(&name) {
        // It has said why there is no recording.
        return Ok(Exit::Status(2));
    }
    let place = Folder::new()?;
    let socket = place.0.join("socket");
    let commands = place.0.join("wherefore.py");
    std::fs::write(&commands, serve::COMMANDS)?;
    let listener = UnixListener::bind(&socket)?;
    let mut gdb = Command::new(&args.gdb);
    gdb.arg("-q");
    if args.batch {
        gdb.arg("-batch");
    }
    gdb.args(&args.gdb_option);
    let quoted = |p: &Path| p.display().to_string();
    let mut setting = |text: String| {
        gdb.arg("-ex").arg(text);
    };
    setting("set remotetimeout 60".to_owned());
    // As a module, so that what the user's own scripts define cannot get in its way.
    setting(format!(
        "python import sys; sys.path.insert(0, {:?}); import wherefore; sys.path.pop(0)",
        quoted(&place.0)
    ));
    // Files that are what they were are read from where they are; others from the recording.
    let changed = case.changed_files(&name)?;
    if changed.is_empty() {
        setting("set sysroot /".to_owned());
    } else {
        say(&format!(
            "wherefore: {} changed since it was recorded; gdb reads it from the recording\n",
            changed[0].display()
        ));
    }
    setting(format!("target extended-remote {}", quoted(&socket)));
    setting("python wherefore.stay_close()".to_owned());
    if let Some(to) = &args.to {
        setting(format!("goto {to}"));
    }
    for script in &args.script {
        gdb.arg("-x").arg(script);
    }
    let mut gdb = match gdb.spawn() {
        Ok(child) => child,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => bail!(
            "there is no `{}`: install gdb (Debian: apt-get install gdb), name one with --gdb, or \
             connect another debugger to `wherefore serve`",
            args.gdb.display()
        ),
        Err(e) => bail!("cannot start {}: {e}", args.gdb.display()),
    };
    // Only now: gdb is to find the signals as they were.
    case::on_interrupt(&Arc::new(AtomicBool::new(false)));
    let server = Command::new(std::env::current_exe()?)
        .arg("--recordings")
        .arg(folder)
        .args(["serve", "--once", "--inherited", &name])
        .stdin(Stdio::from(OwnedFd::from(listener)))
        .process_group(0)
        .spawn()
        .context("cannot start the server")?;
    let _server = Server(server);
    let status = gdb.wait()?;
    Ok(Exit::Status(status.code().unwrap_or(1)))
}
