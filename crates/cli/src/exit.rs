//! How the tool ends, so that scripts can rely on it.

use case::Ended;

/// The tool could not do its job.
const TROUBLE: i32 = 3;
/// What was asked for makes no sense or does not exist.
const REQUEST: i32 = 2;
/// A fault was found.
const FAULT: i32 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Status(i32),
    /// Die of this signal.
    Signal(i32),
}

impl Exit {
    pub(crate) const OK: Exit = Exit::Status(0);
    pub(crate) const FAULT: Exit = Exit::Status(FAULT);
    pub(crate) const REQUEST: Exit = Exit::Status(REQUEST);

    pub(crate) fn leave(self) -> ! {
        match self {
            Exit::Status(status) => std::process::exit(status),
            Exit::Signal(signal) => case::die_of(signal),
        }
    }

    /// As the guest ended.
    pub(crate) fn of(ended: &Ended) -> Self {
        match ended {
            Ended::Exited { status } => Exit::Status(*status),
            Ended::Killed { signal } => Exit::Signal(*signal),
            Ended::Deadlocked => Exit::FAULT,
            _ => Exit::Status(TROUBLE),
        }
    }
}

/// Says what went wrong and chooses the status.
pub(crate) fn failure(error: &anyhow::Error) -> Exit {
    let broken_pipe = error
        .downcast_ref::<std::io::Error>()
        .is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe);
    if broken_pipe {
        // Nobody reads on; that is how `wherefore ls | head` ends.
        return Exit::Signal(PIPE);
    }
    crate::render::say(&format!("wherefore: {error:#}\n"));
    match error.downcast_ref::<case::Error>() {
        Some(e) if e.is_request() => Exit::Status(REQUEST),
        _ => Exit::Status(TROUBLE),
    }
}

const PIPE: i32 = 13;
