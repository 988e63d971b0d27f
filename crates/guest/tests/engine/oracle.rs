//! The slow, obvious way to count and to see every instruction: plain single-stepping.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;

use guest::{Replay, UserRegs};
use iced_x86::{Decoder, DecoderOptions};

use crate::scene::{ENVIRONMENT, Program, word_at};

/// One arrival at an instruction.
pub(crate) struct Seen {
    /// Instructions executed before.
    pub(crate) step: u64,
    pub(crate) regs: UserRegs,
}

/// Every arrival at an instruction in a native run, in order. A repeated string instruction, which
/// traps once an element, counts once; one that faults is not executed, so the first instruction
/// of its handler has the same number. The vdso is hidden as the engine hides it, and the kernel's
/// random bytes are those that `like`, which stands at the beginning, has.
#[track_caller]
pub(crate) fn trace(program: &Program, like: &Replay) -> Vec<Seen> {
    let c = |s: &[u8]| CString::new(s).expect("no zero byte in a name");
    let path = c(program.path.as_os_str().as_bytes());
    let args: Vec<CString> = [path.clone()]
        .into_iter()
        .chain(program.args.iter().map(|a| c(a.as_bytes())))
        .collect();
    let env: Vec<CString> = ENVIRONMENT
        .iter()
        .map(|(k, v)| c(format!("{k}={v}").as_bytes()))
        .collect();
    let pointers = |list: &[CString]| -> Vec<*const libc::c_char> {
        let list = list.iter().map(|s| s.as_ptr());
        list.chain([std::ptr::null()]).collect()
    };
    let (argv, envp) = (pointers(&args), pointers(&env));
    // The kinds of file that a recording has: a program may ask.
    let null = File::options().write(true).open("/dev/null");
    let streams = [
        program.stdin(),
        tempfile::tempfile().expect("a temporary file"),
        null.expect("/dev/null"),
    ];
    // SAFETY: the child makes only async-signal-safe calls, on memory prepared before.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: as above.
        unsafe {
            for (n, f) in streams.iter().enumerate() {
                libc::dup2(f.as_raw_fd(), n as i32);
            }
            libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
            libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
            libc::execve(path.as_ptr(), argv.as_ptr(), envp.as_ptr());
            libc::_exit(127);
        }
    }
    let child = Child(pid);
    assert_eq!(child.wait(), Some(libc::SIGTRAP), "the exec");
    child.begin_like(like);
    let mut seen: Vec<Seen> = Vec::new();
    let (mut signal, mut step) = (0, 0);
    loop {
        let regs = child.regs();
        let again = seen.last().is_some_and(|last| last.regs.rip == regs.rip);
        if signal == 0 && !(again && child.repeats(regs.rip)) {
            seen.push(Seen { step, regs });
            step += 1;
        }
        child.step(signal);
        signal = match child.wait() {
            None => return seen,
            Some(libc::SIGTRAP) => 0,
            Some(other) => {
                step -= u64::from(child.regs().rip == regs.rip);
                other
            }
        };
    }
}

struct Child(i32);

impl Child {
    /// The signal that stopped it; `None` at its end.
    fn wait(&self) -> Option<i32> {
        let mut status = 0;
        // SAFETY: `status` is live.
        let r = unsafe { libc::waitpid(self.0, &raw mut status, 0) };
        assert_eq!(r, self.0, "waiting for the single-stepped guest");
        libc::WIFSTOPPED(status).then(|| libc::WSTOPSIG(status))
    }

    fn step(&self, signal: i32) {
        // SAFETY: takes no pointers.
        let r = unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, self.0, 0, signal as usize) };
        assert_eq!(r, 0, "single-stepping");
    }

    fn regs(&self) -> UserRegs {
        // SAFETY: the structure is plain integers, and live during the call.
        unsafe {
            let mut regs: UserRegs = std::mem::zeroed();
            let r = libc::ptrace(libc::PTRACE_GETREGS, self.0, 0, &raw mut regs);
            assert_eq!(r, 0, "reading registers");
            regs
        }
    }

    fn word(&self, at: u64) -> u64 {
        // SAFETY: takes no pointers of ours.
        unsafe { libc::ptrace(libc::PTRACE_PEEKDATA, self.0, at, 0) as u64 }
    }

    /// A repeated string instruction stands there.
    fn repeats(&self, at: u64) -> bool {
        let words = [self.word(at), self.word(at + 8)];
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let i = Decoder::with_ip(64, &bytes, at, DecoderOptions::NONE).decode();
        i.is_string_instruction() && (i.has_rep_prefix() || i.has_repne_prefix())
    }

    fn begin_like(&self, like: &Replay) {
        let mut at = self.regs().rsp;
        assert_eq!(at, like.regs().rsp, "where the stack begins");
        at += 8 * (self.word(at) + 2);
        while self.word(at) != 0 {
            at += 8;
        }
        at += 8;
        while self.word(at) != libc::AT_NULL {
            let value = self.word(at + 8);
            match self.word(at) {
                libc::AT_SYSINFO_EHDR => self.poke(at, libc::AT_IGNORE),
                libc::AT_RANDOM => {
                    self.poke(value, word_at(like, value));
                    self.poke(value + 8, word_at(like, value + 8));
                }
                _ => {}
            }
            at += 16;
        }
    }

    fn poke(&self, at: u64, value: u64) {
        // SAFETY: takes no pointers of ours.
        let r = unsafe { libc::ptrace(libc::PTRACE_POKEDATA, self.0, at, value) };
        assert_eq!(r, 0, "writing memory");
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: our child; at its end it has been reaped and the calls fail.
        unsafe {
            if std::thread::panicking() {
                libc::kill(self.0, libc::SIGKILL);
                libc::waitpid(self.0, std::ptr::null_mut(), 0);
            }
        }
    }
}
