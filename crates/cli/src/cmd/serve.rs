//! `wherefore serve`.

use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use case::{Case, RunRequest};

use crate::args::{ServeArgs, Subject};
use crate::exit::Exit;
use crate::progress::Terminal;
use crate::render::say;

/// How often it is looked whether there is still something to wait for.
const PATIENCE: Duration = Duration::from_millis(50);

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, Option<PathBuf>),
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, Some(path)) = self {
            let _ = std::fs::remove_file(path);
        }
    }
}

type Ends = (Box<dyn serve::Source>, Box<dyn Write>);

impl Listener {
    fn new(args: &ServeArgs) -> Result<Self> {
        if args.inherited {
            let fd = io::stdin().as_fd().try_clone_to_owned()?;
            return Ok(Listener::Unix(UnixListener::from(fd), None));
        }
        let text = args.listen.as_deref().unwrap_or("127.0.0.1:0");
        if text.contains('/') {
            let path = Path::new(text);
            let listener = UnixListener::bind(path)
                .with_context(|| format!("cannot listen at {}", path.display()))?;
            say(&format!(
                "wherefore: listening at {text}; in gdb: target extended-remote {text}\n"
            ));
            return Ok(Listener::Unix(listener, Some(path.to_owned())));
        }
        let address = match text.strip_prefix(':').unwrap_or(text) {
            port if port.parse::<u16>().is_ok() => format!("127.0.0.1:{port}"),
            full => full.to_owned(),
        };
        let listener = TcpListener::bind(&address).with_context(|| {
            format!("cannot listen at {address}: write HOST:PORT, PORT or a path")
        })?;
        let at = listener.local_addr()?;
        say(&format!(
            "wherefore: listening at {at}; in gdb: target extended-remote {at}\n"
        ));
        Ok(Listener::Tcp(listener))
    }

    /// The next debugger; none if `stop` is set first.
    fn accept(&self, stop: &dyn Fn() -> bool) -> Result<Option<Ends>> {
        match self {
            Listener::Tcp(l) => l.set_nonblocking(true)?,
            Listener::Unix(l, _) => l.set_nonblocking(true)?,
        }
        while !stop() {
            let ends = match self {
                Listener::Tcp(l) => l.accept().and_then(|(s, _)| tcp(s)),
                Listener::Unix(l, _) => l.accept().and_then(|(s, _)| unix(s)),
            };
            match ends {
                Ok(ends) => return Ok(Some(ends)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(PATIENCE),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => bail!("cannot accept a debugger: {e}"),
            }
        }
        Ok(None)
    }
}

fn tcp(s: TcpStream) -> io::Result<Ends> {
    s.set_nonblocking(false)?;
    s.set_nodelay(true)?;
    Ok((Box::new(s.try_clone()?), Box::new(s)))
}

fn unix(s: UnixStream) -> io::Result<Ends> {
    s.set_nonblocking(false)?;
    Ok((Box::new(s.try_clone()?), Box::new(s)))
}

/// The recording that is meant; a program is run first.
pub(super) fn recording(case: &Case, subject: &Subject) -> Result<String> {
    let Some((program, rest)) = subject.command.split_first() else {
        return Ok(case.info(subject.recording.as_deref())?.name.0);
    };
    let request = RunRequest {
        program: program.into(),
        args: rest.to_vec(),
        name: None,
        seed: 0,
        schedule: None,
        chaos: None,
        time_limit: None,
    };
    let report = case.run(&request, Rc::new(|_| {}))?;
    for note in &report.notes {
        say(&format!("wherefore: note: {note}\n"));
    }
    Ok(report.recording.0)
}

pub(crate) fn serve(case: &Case, args: &ServeArgs) -> Result<Exit> {
    let name = recording(case, &args.subject)?;
    let stop = Arc::new(AtomicBool::new(false));
    case::on_interrupt(&stop);
    let listener = Listener::new(args)?;
    let parent = std::os::unix::process::parent_id();
    // One that was started for a debugger ends with who started it.
    let over = || {
        let orphan = args.inherited && std::os::unix::process::parent_id() != parent;
        stop.load(Ordering::SeqCst) || orphan
    };
    while let Some((reader, writer)) = listener.accept(&over)? {
        let session = case.debug(Some(&name), Rc::new(Terminal::new(false)))?;
        if let Err(why) = serve::serve(session, reader, writer, &over) {
            if args.once {
                bail!("{why}");
            }
            say(&format!("wherefore: {why}\n"));
        }
        if args.once {
            break;
        }
    }
    Ok(Exit::OK)
}
