//! The threads of a guest that stands still: which they are, where they stand, what they wait for.

use image::Registers;
use serde::{Deserialize, Serialize};

use crate::frames::{self, FrameList};
use crate::moment::{Moment, registers};

/// Which thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ThreadLabel {
    /// In the order of creation, the first is 0.
    pub number: u32,
    /// What the program has called it.
    pub name: Option<String>,
}

/// A thread and where it stands.
#[derive(Clone, Debug, Serialize)]
pub struct ThreadReport {
    pub thread: ThreadLabel,
    pub waits: Option<Wait>,
    pub stack: FrameList,
}

/// What a thread waits for.
#[derive(Clone, Debug, Serialize)]
pub struct Wait {
    /// In words, after "waits".
    pub text: String,
    /// The word that it sleeps on.
    pub address: Option<u64>,
    /// The thread that would have to do something.
    pub thread: Option<u32>,
}

/// A guest in which no thread can run.
#[derive(Clone, Debug, Serialize)]
pub struct DeadlockReport {
    pub recording: String,
    pub step: u64,
    pub threads: Vec<ThreadReport>,
    /// Threads each of which waits for the next, and the last for the first.
    pub cycle: Vec<u32>,
    /// Signals whose handlers might still wake a thread. If there are none, the guest was ended.
    pub handlers: Vec<String>,
}

/// A thread in the description of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadInfo {
    pub number: u32,
    pub tid: i32,
    pub name: Option<String>,
    pub creator: Option<u32>,
    /// The step at which it was created, and the one at which it ended by itself.
    pub began: u64,
    pub ended: Option<u64>,
    /// How often it had its turn, and the steps it took.
    pub turns: u64,
    pub steps: u64,
}

impl From<&guest::About> for ThreadInfo {
    fn from(a: &guest::About) -> Self {
        ThreadInfo {
            number: a.id.0,
            tid: a.tid,
            name: a.name.clone(),
            creator: a.creator.map(|c| c.0),
            began: a.began,
            ended: a.ended,
            turns: a.turns,
            steps: a.steps,
        }
    }
}

pub(crate) fn label(about: &guest::About) -> ThreadLabel {
    ThreadLabel {
        number: about.id.0,
        name: about.name.clone(),
    }
}

/// The label of thread `id`, if the guest has or had another one: most have not.
pub(crate) fn label_of(views: &[guest::ThreadView], id: guest::ThreadId) -> Option<ThreadLabel> {
    let view = views.iter().find(|v| v.about.id == id)?;
    let alone = views.len() == 1 && id.0 == 0;
    (!alone).then(|| label(&view.about))
}

/// Threads described at most.
const MOST: usize = 200;

/// All threads but `except`, with their stacks.
pub(crate) fn others(
    m: &Moment<'_>,
    views: &[guest::ThreadView],
    except: guest::ThreadId,
) -> Vec<ThreadReport> {
    views
        .iter()
        .filter(|v| v.about.id != except)
        .take(MOST)
        .map(|v| report(m, v, views))
        .collect()
}

pub(crate) fn deadlock(recording: &str, d: &guest::Deadlock<'_>) -> DeadlockReport {
    let read = |addr: u64, buf: &mut [u8]| d.read(addr, buf);
    let regs = d.threads.first().map(|v| v.regs);
    let Some(regs) = regs else {
        return DeadlockReport {
            recording: recording.to_owned(),
            step: d.step,
            threads: Vec::new(),
            cycle: Vec::new(),
            handlers: Vec::new(),
        };
    };
    let m = Moment::new(d.step, regs, &d.mappings, d.stored, &read, None);
    let threads: Vec<ThreadReport> = d
        .threads
        .iter()
        .take(MOST)
        .map(|v| report(&m, v, &d.threads))
        .collect();
    DeadlockReport {
        recording: recording.to_owned(),
        step: d.step,
        cycle: cycle(&threads),
        threads,
        handlers: d.handlers.iter().map(|s| crate::signal_name(*s)).collect(),
    }
}

/// Threads that wait for each other in a circle, beginning with the lowest number.
fn cycle(threads: &[ThreadReport]) -> Vec<u32> {
    let next = |number: u32| {
        let report = threads.iter().find(|t| t.thread.number == number)?;
        report.waits.as_ref()?.thread
    };
    for t in threads {
        let mut path = vec![t.thread.number];
        while let Some(n) = next(path[path.len() - 1]) {
            if n == path[0] {
                return path;
            }
            if path.contains(&n) {
                break;
            }
            path.push(n);
        }
    }
    Vec::new()
}

fn report(m: &Moment<'_>, v: &guest::ThreadView, all: &[guest::ThreadView]) -> ThreadReport {
    let at = registers(&v.regs);
    let stack = frames::stack(m, &at, None);
    ThreadReport {
        waits: v.waits.then(|| wait(m, &at, &stack, all)),
        thread: label(&v.about),
        stack,
    }
}

/// Functions that wait, by how their names begin, and for what.
const WAITING: [(&str, &str); 11] = [
    ("pthread_mutex_", "mutex"),
    ("__pthread_mutex_", "mutex"),
    ("pthread_cond_", "condition variable"),
    ("pthread_rwlock_", "read-write lock"),
    ("pthread_barrier_wait", "barrier"),
    ("sem_", "semaphore"),
    ("pthread_join", "thread"),
    ("__pthread_clockjoin", "thread"),
    ("pthread_clockjoin", "thread"),
    ("std::sys::sync::mutex", "mutex"),
    ("std::sys::sync::condvar", "condition variable"),
];

fn wait(m: &Moment<'_>, at: &Registers, stack: &FrameList, all: &[guest::ThreadView]) -> Wait {
    let call = abi::Call {
        nr: at.rax,
        args: [at.rdi, at.rsi, at.rdx, at.r10, at.r8, at.r9],
    };
    if abi::name(call.nr) != Some("futex") {
        return Wait {
            text: format!("in {}", abi::describe(&call, None)),
            address: None,
            thread: None,
        };
    }
    let address = call.args[0];
    let strip = |name: &str| {
        let name = name.trim_start_matches("___").trim_start_matches("__GI_");
        name.strip_prefix("__new_").unwrap_or(name).to_owned()
    };
    let kind = stack.frames.iter().find_map(|f| {
        let name = strip(f.function.as_deref()?);
        let bare = name.trim_start_matches('_');
        WAITING
            .iter()
            .find(|(start, _)| name.starts_with(start) || bare.starts_with(start))
            .map(|(_, kind)| *kind)
    });
    let number = |tid: u32| {
        let tid = i32::try_from(tid).ok()?;
        let view = all.iter().find(|v| v.about.tid == tid)?;
        Some(view.about.id.0)
    };
    let word = |addr: u64| m.word(addr & !7).map(|w| (w >> (8 * (addr & 4))) as u32);
    let variable = m.program.data_symbol(address).map(|s| match s.offset {
        0 => format!("`{}`", s.name),
        n => format!("`{}`+{n:#x}", s.name),
    });
    let place = match variable {
        Some(name) => format!("{name} at {address:#x}"),
        None => format!("at {address:#x}"),
    };
    let (text, thread) = match kind {
        Some("thread") => match word(address).and_then(number) {
            Some(n) => (format!("for thread {n} to end"), Some(n)),
            None => ("for a thread to end".to_owned(), None),
        },
        Some("mutex") => {
            // glibc keeps the owner's number two words behind the lock.
            let owner = word(address + 8).filter(|t| *t != 0).and_then(number);
            match owner {
                Some(n) => (
                    format!("for the mutex {place}, held by thread {n}"),
                    Some(n),
                ),
                None => (format!("for the mutex {place}"), None),
            }
        }
        Some(kind) => (format!("for the {kind} {place}"), None),
        None => (format!("for the futex {place}"), None),
    };
    Wait {
        text,
        address: Some(address),
        thread,
    }
}
