//! A guest dies of a signal, and the user wants to know of which one and why.
//!
//! Names, default actions, and what the `si_code` of a `siginfo_t` means. Codes have a meaning per signal
//! (1 is "address not mapped" for SIGSEGV and "child exited" for SIGCHLD); the ones at or below zero and
//! `SI_KERNEL` mean the same everywhere.

/// What the kernel does on delivery when the guest left the signal at `SIG_DFL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Terminate,
    /// Terminates and dumps core.
    Core,
    Ignore,
    Stop,
    Continue,
}

use Action::{Continue, Core, Ignore, Stop, Terminate};

/// The standard signals by number, from 1.
const STANDARD: [(&str, Action, &str); 31] = [
    ("SIGHUP", Terminate, "the terminal hung up"),
    ("SIGINT", Terminate, "interrupt from the keyboard"),
    ("SIGQUIT", Core, "quit from the keyboard"),
    ("SIGILL", Core, "illegal instruction"),
    ("SIGTRAP", Core, "breakpoint or trace trap"),
    ("SIGABRT", Core, "abort"),
    ("SIGBUS", Core, "bus error"),
    ("SIGFPE", Core, "arithmetic error"),
    ("SIGKILL", Terminate, "killed"),
    ("SIGUSR1", Terminate, "user-defined signal 1"),
    ("SIGSEGV", Core, "invalid memory access"),
    ("SIGUSR2", Terminate, "user-defined signal 2"),
    ("SIGPIPE", Terminate, "write to a pipe nobody reads"),
    ("SIGALRM", Terminate, "alarm clock"),
    ("SIGTERM", Terminate, "asked to terminate"),
    ("SIGSTKFLT", Terminate, "coprocessor stack fault"),
    ("SIGCHLD", Ignore, "a child stopped or ended"),
    ("SIGCONT", Continue, "continue"),
    ("SIGSTOP", Stop, "stop"),
    ("SIGTSTP", Stop, "stop from the keyboard"),
    ("SIGTTIN", Stop, "background read from the terminal"),
    ("SIGTTOU", Stop, "background write to the terminal"),
    ("SIGURG", Ignore, "urgent data on a socket"),
    ("SIGXCPU", Core, "processor time limit exceeded"),
    ("SIGXFSZ", Core, "file size limit exceeded"),
    ("SIGVTALRM", Terminate, "virtual timer expired"),
    ("SIGPROF", Terminate, "profiling timer expired"),
    ("SIGWINCH", Ignore, "window resized"),
    ("SIGIO", Terminate, "input or output possible"),
    ("SIGPWR", Terminate, "power failure"),
    ("SIGSYS", Core, "bad system call"),
];

/// The first and the last real-time signal as the kernel counts them (libc keeps the first two for itself).
pub const RT_FIRST: i32 = 32;
pub const RT_LAST: i32 = 64;

fn standard(signal: i32) -> Option<&'static (&'static str, Action, &'static str)> {
    STANDARD.get(usize::try_from(signal).ok()?.checked_sub(1)?)
}

/// The name of a signal: `SIGSEGV`, or `SIGRT_7` for real-time ones (counted from the kernel's first, 32).
pub fn name(signal: i32) -> Option<String> {
    match standard(signal) {
        Some((name, ..)) => Some((*name).to_owned()),
        None if (RT_FIRST..=RT_LAST).contains(&signal) => {
            Some(format!("SIGRT_{}", signal - RT_FIRST))
        }
        None => None,
    }
}

/// The number of a name that `name` gives; the `SIG` may be left out.
pub fn number(name: &str) -> Option<i32> {
    let bare = name.strip_prefix("SIG").unwrap_or(name);
    if let Some(index) = bare.strip_prefix("RT_") {
        let signal = index.parse::<i32>().ok()?.checked_add(RT_FIRST)?;
        return (RT_FIRST..=RT_LAST).contains(&signal).then_some(signal);
    }
    let at = STANDARD
        .iter()
        .position(|(known, ..)| &known[3..] == bare)?;
    Some(at as i32 + 1)
}

/// What the kernel does by default with a signal.
pub fn default_action(signal: i32) -> Option<Action> {
    match standard(signal) {
        Some((_, action, _)) => Some(*action),
        None => (RT_FIRST..=RT_LAST).contains(&signal).then_some(Terminate),
    }
}

/// What a signal means, in a few words.
pub fn meaning(signal: i32) -> Option<&'static str> {
    match standard(signal) {
        Some((_, _, meaning)) => Some(meaning),
        None => (RT_FIRST..=RT_LAST)
            .contains(&signal)
            .then_some("real-time signal"),
    }
}

/// The name and the meaning of a `si_code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    pub name: &'static str,
    pub meaning: &'static str,
}

/// Codes that mean the same for every signal.
const ANY: &[(i32, &str, &str)] = &[
    (0, "SI_USER", "sent by kill"),
    (0x80, "SI_KERNEL", "sent by the kernel"),
    (-1, "SI_QUEUE", "sent by sigqueue"),
    (-2, "SI_TIMER", "a POSIX timer expired"),
    (-3, "SI_MESGQ", "a message queue became non-empty"),
    (-4, "SI_ASYNCIO", "asynchronous I/O finished"),
    (-5, "SI_SIGIO", "queued input or output event"),
    (-6, "SI_TKILL", "sent by tkill or tgkill"),
    (-7, "SI_DETHREAD", "another thread called execve"),
    (-60, "SI_ASYNCNL", "asynchronous name lookup finished"),
];

const SIGILL: &[(i32, &str, &str)] = &[
    (1, "ILL_ILLOPC", "illegal opcode"),
    (2, "ILL_ILLOPN", "illegal operand"),
    (3, "ILL_ILLADR", "illegal addressing mode"),
    (4, "ILL_ILLTRP", "illegal trap"),
    (5, "ILL_PRVOPC", "privileged opcode"),
    (6, "ILL_PRVREG", "privileged register"),
    (7, "ILL_COPROC", "coprocessor error"),
    (8, "ILL_BADSTK", "internal stack error"),
    (9, "ILL_BADIADDR", "unimplemented instruction address"),
];

const SIGFPE: &[(i32, &str, &str)] = &[
    (1, "FPE_INTDIV", "integer division by zero"),
    (2, "FPE_INTOVF", "integer overflow"),
    (3, "FPE_FLTDIV", "floating-point division by zero"),
    (4, "FPE_FLTOVF", "floating-point overflow"),
    (5, "FPE_FLTUND", "floating-point underflow"),
    (6, "FPE_FLTRES", "floating-point inexact result"),
    (7, "FPE_FLTINV", "invalid floating-point operation"),
    (8, "FPE_FLTSUB", "subscript out of range"),
    (14, "FPE_FLTUNK", "undiagnosed floating-point exception"),
    (15, "FPE_CONDTRAP", "trap on condition"),
];

const SIGSEGV: &[(i32, &str, &str)] = &[
    (1, "SEGV_MAPERR", "address not mapped"),
    (2, "SEGV_ACCERR", "access not permitted by the mapping"),
    (3, "SEGV_BNDERR", "failed address bound checks"),
    (4, "SEGV_PKUERR", "access denied by a protection key"),
    (5, "SEGV_ACCADI", "ADI not enabled for the mapping"),
    (6, "SEGV_ADIDERR", "disrupting MCD error"),
    (7, "SEGV_ADIPERR", "precise MCD exception"),
    (8, "SEGV_MTEAERR", "asynchronous memory tag fault"),
    (9, "SEGV_MTESERR", "synchronous memory tag fault"),
    (10, "SEGV_CPERR", "control protection fault"),
];

const SIGBUS: &[(i32, &str, &str)] = &[
    (1, "BUS_ADRALN", "invalid address alignment"),
    (
        2,
        "BUS_ADRERR",
        "physical address does not exist (a mapped file was cut short?)",
    ),
    (3, "BUS_OBJERR", "hardware error of the object"),
    (4, "BUS_MCEERR_AR", "memory error consumed, action required"),
    (5, "BUS_MCEERR_AO", "memory error found, action optional"),
];

const SIGTRAP: &[(i32, &str, &str)] = &[
    (1, "TRAP_BRKPT", "breakpoint"),
    (2, "TRAP_TRACE", "single step"),
    (3, "TRAP_BRANCH", "branch"),
    (4, "TRAP_HWBKPT", "hardware breakpoint or watchpoint"),
    (5, "TRAP_UNK", "undiagnosed trap"),
    (6, "TRAP_PERF", "performance event"),
];

const SIGCHLD: &[(i32, &str, &str)] = &[
    (1, "CLD_EXITED", "child exited"),
    (2, "CLD_KILLED", "child was killed"),
    (3, "CLD_DUMPED", "child was killed and dumped core"),
    (4, "CLD_TRAPPED", "traced child trapped"),
    (5, "CLD_STOPPED", "child stopped"),
    (6, "CLD_CONTINUED", "child continued"),
];

const SIGIO: &[(i32, &str, &str)] = &[
    (1, "POLL_IN", "input available"),
    (2, "POLL_OUT", "output buffers available"),
    (3, "POLL_MSG", "input message available"),
    (4, "POLL_ERR", "input or output error"),
    (5, "POLL_PRI", "high priority input available"),
    (6, "POLL_HUP", "device disconnected"),
];

const SIGSYS: &[(i32, &str, &str)] = &[
    (1, "SYS_SECCOMP", "system call caught by a seccomp filter"),
    (
        2,
        "SYS_USER_DISPATCH",
        "system call caught by user dispatch",
    ),
];

/// What a `si_code` says about a signal: `code(11, 1)` is `SEGV_MAPERR`, "address not mapped".
pub fn code(signal: i32, si_code: i32) -> Option<Code> {
    let own = match signal {
        4 => SIGILL,
        5 => SIGTRAP,
        7 => SIGBUS,
        8 => SIGFPE,
        11 => SIGSEGV,
        17 => SIGCHLD,
        29 => SIGIO,
        31 => SIGSYS,
        _ => &[],
    };
    own.iter()
        .chain(ANY)
        .find(|(number, ..)| *number == si_code)
        .map(|&(_, name, meaning)| Code { name, meaning })
}
