//! Futexes, decided by the scheduler.
//!
//! Whom a wake wakes decides the order of threads, and that order is to be a function of the guest
//! and of the schedule alone; the kernel's queues are neither. So a futex that only the guest's
//! threads can use is kept here: its waiters stand in `Recorder::waiting` with a [`Sleeper`], in
//! the order in which they came. That also tells a deadlock from a long wait.
//!
//! A sleeping thread still sleeps in the kernel, on a word of the engine's that nobody wakes, with
//! the guest's own timeout: signals and timeouts reach it as ever. To wake it, the tracer
//! interrupts it.
//!
//! Words in memory that other processes may share are left to the kernel.

use abi::Call;

use crate::layout::slot;
use crate::process::Outcome;
use crate::ptrace::Wait;
use crate::record::{Prepared, Recorder};
use crate::recording::{CallEffects, Kind};
use crate::schedule::Waiting;
use crate::threads::ThreadId;
use crate::{End, Error};

const PRIVATE: u64 = 128;
const CLOCK_REALTIME: u64 = 256;

const WAIT: u64 = 0;
const WAKE: u64 = 1;
const REQUEUE: u64 = 3;
const CMP_REQUEUE: u64 = 4;
const WAKE_OP: u64 = 5;
const LOCK_PI: u64 = 6;
const UNLOCK_PI: u64 = 7;
const TRYLOCK_PI: u64 = 8;
const WAIT_BITSET: u64 = 9;
const WAKE_BITSET: u64 = 10;
const WAIT_REQUEUE_PI: u64 = 11;
const CMP_REQUEUE_PI: u64 = 12;
const LOCK_PI2: u64 = 13;

const WAITERS: u32 = 0x8000_0000;
const OWNER_DIED: u32 = 0x4000_0000;
const TID: u32 = 0x3fff_ffff;
const ANY: u32 = u32::MAX;

/// Entries of a robust list that the kernel looks at.
const LONGEST_LIST: usize = 2048;

/// A futex: the kernel keeps private and shared ones at the same address apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    addr: u64,
    shared: bool,
}

/// What a waiting thread sleeps on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sleeper {
    key: Key,
    bitset: u32,
    /// It is to own the word when it is woken.
    pi: bool,
    /// When it came.
    order: u64,
    pub(crate) timed: bool,
}

/// A word of a dying thread's robust list.
pub(crate) struct Robust {
    addr: u64,
    pi: bool,
    word: u32,
    /// It was about to be locked or unlocked.
    pending: bool,
}

impl Recorder {
    /// Carries out a call of futex. `None`: it is the kernel's.
    pub(crate) fn futex(
        &mut self,
        call: &Call,
        prepared: Prepared,
    ) -> Result<Result<Option<End>, Prepared>, Error> {
        let [addr, op, value, second, addr2, third] = call.args;
        let key = self.futex_key(addr, op)?;
        let operation = op & 0x7f;
        let ours = key.is_some();
        if matches!(operation, WAIT_REQUEUE_PI | CMP_REQUEUE_PI) && ours {
            self.note(
                "futexes that requeue to a lock with priority inheritance are not supported: \
                 futex fails with ENOSYS"
                    .into(),
            );
            return self.futex_done(call, -i64::from(libc::ENOSYS), Vec::new());
        }
        let Some(key) = key else {
            return Ok(Err(prepared));
        };
        if addr % 4 != 0 {
            return self.futex_done(call, -i64::from(libc::EINVAL), Vec::new());
        }
        let none = Vec::new();
        match operation {
            WAIT | WAIT_BITSET => {
                let bitset = if operation == WAIT { ANY } else { third as u32 };
                let Some(word) = self.word(addr) else {
                    return self.futex_done(call, -i64::from(libc::EFAULT), none);
                };
                if bitset == 0 {
                    return self.futex_done(call, -i64::from(libc::EINVAL), none);
                }
                if word != value as u32 {
                    return self.futex_done(call, -i64::from(libc::EAGAIN), none);
                }
                self.sleep(call, prepared, key, bitset, false).map(Ok)
            }
            WAKE | WAKE_BITSET => {
                let bitset = if operation == WAKE { ANY } else { third as u32 };
                if bitset == 0 {
                    return self.futex_done(call, -i64::from(libc::EINVAL), none);
                }
                let n = self.wake(key, value as u32, bitset)?;
                self.futex_done(call, n, none)
            }
            REQUEUE | CMP_REQUEUE => {
                let Some(word) = self.word(addr) else {
                    return self.futex_done(call, -i64::from(libc::EFAULT), none);
                };
                if operation == CMP_REQUEUE && word != third as u32 {
                    return self.futex_done(call, -i64::from(libc::EAGAIN), none);
                }
                let woken = self.wake(key, value as u32, ANY)?;
                let to = Key {
                    addr: addr2,
                    shared: key.shared,
                };
                let moved = self.requeue(key, to, second as u32);
                self.futex_done(call, woken + moved, none)
            }
            WAKE_OP => self.wake_op(call, key),
            LOCK_PI | LOCK_PI2 | TRYLOCK_PI => self.lock_pi(call, prepared, key),
            UNLOCK_PI => self.unlock_pi(call, key),
            _ => Ok(Err(prepared)),
        }
    }

    fn futex_done(
        &mut self,
        call: &Call,
        ret: i64,
        writes: Vec<(u64, Vec<u8>)>,
    ) -> Result<Result<Option<End>, Prepared>, Error> {
        let effects = CallEffects {
            args: call.args,
            writes,
            file: None,
        };
        self.finish(call, ret, effects).map(Ok)
    }

    /// The futex at `addr`, unless another process may use it.
    fn futex_key(&mut self, addr: u64, op: u64) -> Result<Option<Key>, Error> {
        if op & PRIVATE != 0 {
            return Ok(Some(Key {
                addr,
                shared: false,
            }));
        }
        self.engine.refresh_maps()?;
        let elsewhere = self.engine.maps.find(addr).is_none_or(|m| m.shared);
        Ok((!elsewhere).then_some(Key { addr, shared: true }))
    }

    fn word(&self, addr: u64) -> Option<u32> {
        let mut b = [0; 4];
        (self.engine.memory.read(addr, &mut b) == 4).then(|| u32::from_le_bytes(b))
    }

    fn set_word(&mut self, addr: u64, word: u32) -> Result<(u64, Vec<u8>), Error> {
        let bytes = word.to_le_bytes().to_vec();
        self.engine.memory.write(addr, &bytes)?;
        Ok((addr, bytes))
    }

    /// The current thread waits for `key`, and has lost its turn.
    fn sleep(
        &mut self,
        call: &Call,
        prepared: Prepared,
        key: Key,
        bitset: u32,
        pi: bool,
    ) -> Result<Option<End>, Error> {
        self.turn_step = self.engine.step()?;
        let timeout = call.args[3];
        self.sleepers += 1;
        let sleeper = Sleeper {
            key,
            bitset,
            pi,
            order: self.sleepers,
            timed: timeout != 0,
        };
        // The same kind of timeout as the guest's, on a word that is always zero.
        let op = call.args[1] & (0x7f | CLOCK_REALTIME);
        let op = match op & 0x7f {
            LOCK_PI => WAIT_BITSET | CLOCK_REALTIME,
            LOCK_PI2 => WAIT_BITSET | op & CLOCK_REALTIME,
            _ => op,
        };
        let regs = self.engine.regs;
        self.engine.regs.rdi = self.engine.page + u64::from(slot::NOBODY);
        self.engine.regs.rsi = op | PRIVATE;
        self.engine.regs.rdx = 0;
        self.engine.regs.r9 = u64::from(ANY);
        let begun = self.engine.begin_call(call);
        self.engine.regs = regs;
        begun?;
        // One that is over already has come out before anybody else can go on.
        if timeout != 0
            && let Some(outcome) = self.wait_asleep()?
        {
            return self.complete(call, prepared, interrupted_as(pi, outcome));
        }
        self.tape_waits(call)?;
        self.waiting.push(Waiting {
            thread: self.engine.threads.current,
            call: *call,
            prepared,
            outcome: None,
            sleeper: Some(sleeper),
        });
        self.pass_turn(crate::schedule::Why::Blocked)
    }

    /// Indices of those that sleep on `key`, first come first.
    fn sleepers_on(&self, key: Key, bitset: u32) -> Vec<usize> {
        let mut found: Vec<(u64, usize)> = self
            .waiting
            .iter()
            .enumerate()
            .filter(|(_, w)| w.outcome.is_none())
            .filter_map(|(i, w)| w.sleeper.map(|s| (i, s)))
            .filter(|(_, s)| s.key == key && s.bitset & bitset != 0)
            .map(|(i, s)| (s.order, i))
            .collect();
        found.sort_unstable();
        found.into_iter().map(|(_, i)| i).collect()
    }

    /// Wakes at most `n` of those that sleep on `key`; says how many.
    pub(crate) fn wake(&mut self, key: Key, n: u32, bitset: u32) -> Result<i64, Error> {
        let mut woken = 0;
        for i in self.sleepers_on(key, bitset) {
            if woken >= i64::from(n) {
                break;
            }
            self.rouse(i)?;
            woken += 1;
        }
        Ok(woken)
    }

    /// The call that a sleeping thread waits in comes out with zero.
    fn rouse(&mut self, i: usize) -> Result<(), Error> {
        let (here, id) = (self.engine.threads.current, self.waiting[i].thread);
        if id != here {
            self.engine.exchange(id)?;
        }
        let tracee = self.engine.tracee;
        tracee.interrupt()?;
        let gadget = self.engine.cache.regions[0].labels.gadget;
        self.engine.stats.stops += 1;
        let wait = tracee.wait()?;
        let outcome = match wait {
            Wait::Exited(_) | Wait::Killed(_) => Outcome::Ended(wait),
            Wait::Signal(signal) => {
                // It was about to come out by itself, or a signal was quicker: that is met later.
                self.engine.can_deliver = true;
                if !(signal == libc::SIGTRAP && tracee.regs()?.rip == gadget + 3) {
                    self.engine.note_signal(signal)?;
                }
                Outcome::Returned(0)
            }
            Wait::Event(_) | Wait::Group(_) => {
                self.engine.can_deliver = false;
                Outcome::Returned(0)
            }
        };
        self.waiting[i].outcome = Some(outcome);
        if id != here {
            self.engine.exchange(here)?;
        }
        Ok(())
    }

    fn requeue(&mut self, from: Key, to: Key, n: u32) -> i64 {
        let mut moved = 0;
        for i in self.sleepers_on(from, ANY) {
            if moved >= i64::from(n) {
                break;
            }
            self.sleepers += 1;
            let order = self.sleepers;
            if let Some(s) = &mut self.waiting[i].sleeper {
                (s.key, s.order) = (to, order);
            }
            moved += 1;
        }
        moved
    }

    /// FUTEX_WAKE_OP: changes the second word and wakes on both.
    fn wake_op(&mut self, call: &Call, key: Key) -> Result<Result<Option<End>, Prepared>, Error> {
        let [_, _, value, second, addr2, code] = call.args;
        let Some(old) = self.word(addr2) else {
            return self.futex_done(call, -i64::from(libc::EFAULT), Vec::new());
        };
        let code = code as u32;
        let signed = |bits: u32| ((bits << 20) as i32 >> 20) as u32;
        let (mut operand, compared) = (signed(code >> 12 & 0xfff), signed(code & 0xfff));
        if code >> 31 != 0 {
            operand = 1u32.wrapping_shl(operand);
        }
        let new = match code >> 28 & 7 {
            0 => operand,
            1 => old.wrapping_add(operand),
            2 => old | operand,
            3 => old & !operand,
            4 => old ^ operand,
            _ => return self.futex_done(call, -i64::from(libc::ENOSYS), Vec::new()),
        };
        let (a, b) = (old as i32, compared as i32);
        let holds = match code >> 24 & 0xf {
            0 => a == b,
            1 => a != b,
            2 => a < b,
            3 => a <= b,
            4 => a > b,
            5 => a >= b,
            _ => return self.futex_done(call, -i64::from(libc::ENOSYS), Vec::new()),
        };
        let write = self.set_word(addr2, new)?;
        let mut woken = self.wake(key, value as u32, ANY)?;
        if holds {
            let other = Key { addr: addr2, ..key };
            woken += self.wake(other, second as u32, ANY)?;
        }
        self.futex_done(call, woken, vec![write])
    }

    // ---- priority inheritance: with one thread at a time there is nothing to inherit -------------

    fn lock_pi(
        &mut self,
        call: &Call,
        prepared: Prepared,
        key: Key,
    ) -> Result<Result<Option<End>, Prepared>, Error> {
        let me = self.engine.tracee.0 as u32;
        let Some(word) = self.word(key.addr) else {
            return self.futex_done(call, -i64::from(libc::EFAULT), Vec::new());
        };
        let owner = word & TID;
        if owner == 0 {
            let write = self.set_word(key.addr, me | word & (OWNER_DIED | WAITERS))?;
            return self.futex_done(call, 0, vec![write]);
        }
        let write = |this: &mut Self, ret| {
            let bytes = word.to_le_bytes().to_vec();
            this.futex_done(call, ret, vec![(key.addr, bytes)])
        };
        if owner == me {
            return write(self, -i64::from(libc::EDEADLK));
        }
        if !self.engine.threads.is_tid(owner as i32) {
            return write(self, -i64::from(libc::ESRCH));
        }
        if call.args[1] & 0x7f == TRYLOCK_PI {
            return write(self, -i64::from(libc::EWOULDBLOCK));
        }
        if word & WAITERS == 0 {
            let write = self.set_word(key.addr, word | WAITERS)?;
            let effects = CallEffects {
                writes: vec![write],
                ..Default::default()
            };
            self.tape_before_waiting(call, &effects)?;
            self.log(Kind::Memory, 0, 0, effects.encode())?;
        }
        self.sleep(call, prepared, key, ANY, true).map(Ok)
    }

    fn unlock_pi(&mut self, call: &Call, key: Key) -> Result<Result<Option<End>, Prepared>, Error> {
        let me = self.engine.tracee.0 as u32;
        let Some(word) = self.word(key.addr) else {
            return self.futex_done(call, -i64::from(libc::EFAULT), Vec::new());
        };
        if word & TID != me {
            let bytes = word.to_le_bytes().to_vec();
            return self.futex_done(call, -i64::from(libc::EPERM), vec![(key.addr, bytes)]);
        }
        let write = self.hand_over(key, 0)?;
        self.futex_done(call, 0, vec![write])
    }

    /// The first that waits for the lock at `key` owns it from here on; else nobody.
    fn hand_over(&mut self, key: Key, flags: u32) -> Result<(u64, Vec<u8>), Error> {
        let waiters = self.sleepers_on(key, ANY);
        let Some(&first) = waiters.first() else {
            return self.set_word(key.addr, flags);
        };
        let tid = self.engine.threads.tid(self.waiting[first].thread);
        let more = if waiters.len() > 1 { WAITERS } else { 0 };
        let write = self.set_word(key.addr, tid as u32 | more | flags)?;
        self.rouse(first)?;
        Ok(write)
    }

    // ---- the end of a thread -----------------------------------------------------------------

    /// The words in the current thread's robust list, before it ends.
    pub(crate) fn robust_list(&self) -> Vec<Robust> {
        let mut out = Vec::new();
        let Some(head) = crate::ptrace::robust_list(self.engine.tracee) else {
            return out;
        };
        let read = |addr: u64| self.engine.memory.read_u64(addr).ok();
        let (Some(first), Some(offset), Some(pending)) =
            (read(head), read(head + 8), read(head + 16))
        else {
            return out;
        };
        let mut look = |entry: u64, pending: bool| {
            let addr = (entry & !1).wrapping_add(offset);
            let mut b = [0; 4];
            if self.engine.memory.read(addr, &mut b) == 4 {
                out.push(Robust {
                    addr,
                    pi: entry & 1 != 0,
                    word: u32::from_le_bytes(b),
                    pending,
                });
            }
        };
        let mut entry = first;
        for _ in 0..LONGEST_LIST {
            if entry & !1 == head {
                break;
            }
            if entry != pending {
                look(entry, false);
            }
            match read(entry & !1) {
                Some(next) => entry = next,
                None => break,
            }
        }
        if pending != 0 {
            look(pending, true);
        }
        out
    }

    /// A thread has ended: what the kernel wrote on its behalf, and whom it would have woken.
    pub(crate) fn after_end(
        &mut self,
        tid: i32,
        clear_tid: u64,
        robust: Vec<Robust>,
    ) -> Result<Vec<(u64, Vec<u8>)>, Error> {
        let mut writes = Vec::new();
        for r in robust {
            let key = Key {
                addr: r.addr,
                shared: true,
            };
            if r.word & TID != tid as u32 {
                if r.pending && !r.pi && r.word == 0 {
                    self.wake(key, 1, ANY)?;
                }
                continue;
            }
            if r.pi {
                let private = Key {
                    shared: false,
                    ..key
                };
                for key in [key, private] {
                    if !self.sleepers_on(key, ANY).is_empty() {
                        self.hand_over(key, OWNER_DIED)?;
                    }
                }
            } else if r.word & WAITERS != 0 {
                self.wake(key, 1, ANY)?;
            }
            if let Some(word) = self.word(r.addr) {
                writes.push((r.addr, word.to_le_bytes().to_vec()));
            }
        }
        if clear_tid != 0
            && let Some(word) = self.word(clear_tid)
        {
            writes.push((clear_tid, word.to_le_bytes().to_vec()));
            let key = Key {
                addr: clear_tid,
                shared: true,
            };
            self.wake(key, 1, ANY)?;
        }
        Ok(writes)
    }

    /// Every thread sleeps on a futex without a timeout.
    pub(crate) fn nobody_can_wake(&self, threads: &[ThreadId]) -> bool {
        threads.iter().all(|id| {
            self.waiting.iter().any(|w| {
                w.thread == *id && w.outcome.is_none() && w.sleeper.is_some_and(|s| !s.timed)
            })
        })
    }
}

/// A lock with priority inheritance is waited for again after a signal, whatever its handler says.
pub(crate) fn interrupted_as(pi: bool, outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Interrupted(_) if pi => Outcome::Interrupted(crate::record::ERESTARTNOINTR),
        other => other,
    }
}

impl Waiting {
    /// How the call came out, once it has.
    pub(crate) fn result(&self) -> Option<Outcome> {
        let pi = self.sleeper.is_some_and(|s| s.pi);
        self.outcome.map(|o| interrupted_as(pi, o))
    }
}

/// futex_waitv, futex_wake, futex_wait and futex_requeue: the kernel's queues, which are not used
/// here. Programs do without.
pub(crate) fn is_newer_futex(nr: u64) -> bool {
    matches!(nr, 449 | 454..=456)
}
