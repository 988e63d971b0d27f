//! Starting a process that is traced from its first instruction.

use std::ffi::{CString, OsString};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::Error;
use crate::ptrace::{Resume, Tracee, Wait};

/// What to run, as a shell would: program, arguments, environment, working directory.
/// Standard input, output and error are inherited unless given.
#[derive(Clone, Debug)]
pub struct Launch {
    pub program: PathBuf,
    /// All of argv, the program's name first.
    pub args: Vec<OsString>,
    pub env: Vec<(OsString, OsString)>,
    pub cwd: Option<PathBuf>,
    /// Standard input, output and error, where they are not the caller's own.
    pub streams: [Option<Arc<OwnedFd>>; 3],
}

impl Launch {
    /// The program with the present environment; a name without a slash is sought in `PATH`.
    pub fn new(
        program: impl Into<PathBuf>,
        args: impl IntoIterator<Item = OsString>,
    ) -> Result<Self, Error> {
        let name: PathBuf = program.into();
        let mut argv = vec![name.clone().into_os_string()];
        argv.extend(args);
        let program = search(&name)?;
        Ok(Launch {
            program,
            args: argv,
            env: std::env::vars_os().collect(),
            cwd: None,
            streams: [None, None, None],
        })
    }
}

fn search(name: &Path) -> Result<PathBuf, Error> {
    if name.as_os_str().as_bytes().contains(&b'/') {
        return Ok(name.to_owned());
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let mut denied = false;
    for dir in std::env::split_paths(&path) {
        let candidate = dir.join(name);
        let Ok(c) = CString::new(candidate.as_os_str().as_bytes()) else {
            continue;
        };
        if candidate.is_file() {
            // SAFETY: `c` is a live C string.
            if unsafe { libc::access(c.as_ptr(), libc::X_OK) } == 0 {
                return Ok(candidate);
            }
            denied = true;
        }
    }
    let kind = if denied {
        io::ErrorKind::PermissionDenied
    } else {
        io::ErrorKind::NotFound
    };
    Err(Error::Exec(name.to_owned(), io::Error::from(kind)))
}

fn c_string(s: &std::ffi::OsStr) -> Result<CString, Error> {
    CString::new(s.as_bytes())
        .map_err(|_| Error::Exec(PathBuf::from(s), io::ErrorKind::InvalidInput.into()))
}

fn pipe() -> Result<(OwnedFd, OwnedFd), Error> {
    let mut fds = [0; 2];
    // SAFETY: `fds` is an array of two, and both descriptors are fresh when the call succeeds.
    unsafe {
        if libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) < 0 {
            return Err(Error::Os("pipe2", io::Error::last_os_error()));
        }
        Ok((OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])))
    }
}

/// The standard streams, a bit for each, that were closed when this process began. The runtime opens
/// those on /dev/null before `main`; a guest that inherits them must find them closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);

extern "C" fn look_for_closed() {
    for fd in 0..3 {
        // SAFETY: a plain system call that changes nothing.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
            CLOSED.fetch_or(1 << fd, Ordering::Relaxed);
        }
    }
}

// SAFETY: the section holds functions of this type, which the C library calls before `main`; this one
// needs nothing that is not there by then.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK_FOR_CLOSED: extern "C" fn() = look_for_closed;

/// Starts the program; it is stopped at the exec event, before its first instruction.
///
/// Address randomisation is off, so that a run is cut the same way each time, and signals that the
/// tracer ignores for its own purposes have their old dispositions in the guest (`restore`).
pub(crate) fn start(
    launch: &Launch,
    restore: &[(i32, libc::sighandler_t)],
) -> Result<Tracee, Error> {
    let program = c_string(launch.program.as_os_str())?;
    let args = launch
        .args
        .iter()
        .map(|a| c_string(a))
        .collect::<Result<Vec<_>, _>>()?;
    let env = launch
        .env
        .iter()
        .map(|(k, v)| {
            let mut s = k.clone();
            s.push("=");
            s.push(v);
            c_string(&s)
        })
        .collect::<Result<Vec<_>, _>>()?;
    let cwd = launch
        .cwd
        .as_ref()
        .map(|d| c_string(d.as_os_str()))
        .transpose()?;
    let pointers = |list: &[CString]| -> Vec<*const libc::c_char> {
        list.iter()
            .map(|s| s.as_ptr())
            .chain([std::ptr::null()])
            .collect()
    };
    let (argv, envp) = (pointers(&args), pointers(&env));
    // A stream given must be numbered above those it might overwrite before its turn.
    let streams = launch
        .streams
        .each_ref()
        .map(|s| s.as_ref().map_or(-1, |fd| fd.as_raw_fd()));
    let closed = CLOSED.load(Ordering::Relaxed);
    let (go_read, go_write) = pipe()?;
    let (error_read, error_write) = pipe()?;

    // SAFETY: between fork and exec the child makes only async-signal-safe calls, on memory that
    // was prepared before.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return Err(Error::Os("fork", io::Error::last_os_error()));
    }
    if pid == 0 {
        // SAFETY: as above; every pointer outlives the call.
        unsafe {
            libc::close(go_write.as_raw_fd());
            let mut byte = 0u8;
            libc::read(go_read.as_raw_fd(), (&raw mut byte).cast(), 1);
            libc::personality(
                libc::ADDR_NO_RANDOMIZE as libc::c_ulong
                    | libc::personality(0xffff_ffff) as libc::c_ulong,
            );
            for &(sig, handler) in restore {
                libc::signal(sig, handler);
            }
            let mut failed = false;
            for (n, fd) in streams.iter().enumerate() {
                failed |= *fd >= 0 && libc::dup2(*fd, n as i32) < 0;
                if *fd < 0 && closed >> n & 1 != 0 {
                    libc::close(n as i32);
                }
            }
            if let Some(cwd) = &cwd {
                failed |= libc::chdir(cwd.as_ptr()) < 0;
            }
            if !failed {
                libc::execve(program.as_ptr(), argv.as_ptr(), envp.as_ptr());
            }
            let errno = *libc::__errno_location();
            libc::write(error_write.as_raw_fd(), (&raw const errno).cast(), 4);
            libc::_exit(127);
        }
    }
    let tracee = Tracee(pid);
    let seized = tracee.seize();
    drop(error_write);
    drop(go_read);
    if let Err(e) = seized {
        tracee.kill();
        return Err(e);
    }
    // Not by closing the pipe: a process that another thread has just forked may hold it open.
    let _ = std::fs::File::from(go_write).write_all(&[1]);
    loop {
        match tracee.wait()? {
            Wait::Event(libc::PTRACE_EVENT_EXEC) => return Ok(tracee),
            Wait::Exited(_) | Wait::Killed(_) => {
                let mut errno = [0; 4];
                let mut file = std::fs::File::from(error_read);
                return match file.read_exact(&mut errno) {
                    Ok(()) => Err(Error::Exec(
                        launch.program.clone(),
                        io::Error::from_raw_os_error(i32::from_le_bytes(errno)),
                    )),
                    Err(_) => Err(Error::Lost),
                };
            }
            Wait::Signal(sig) => tracee.resume(Resume::Deliver(sig))?,
            Wait::Event(_) | Wait::Group(_) => tracee.resume(Resume::Run)?,
        }
    }
}
