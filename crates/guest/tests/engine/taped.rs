//! The tape of a guest that is being recorded against the tape of a replay of that recording.
//!
//! They are the same but for how the run is cut into records, and for what was told again of where the guest stands. So
//! compared are the instructions in their order, with the thread and the values that both know, and the other events
//! with their steps.

use std::sync::{Arc, Mutex};

use crate::scene::{DYNAMIC, Program};
use guest::{Halt, Recorder, Syscalls, Until};
use tape::{Event, Listener, Part, Shape, Term, What, slot};

/// One executed instruction: thread, address, and general registers of which the value before it is known.
#[derive(Clone, Debug, PartialEq)]
struct Executed {
    thread: u32,
    pc: u64,
    known: Vec<(u8, u64)>,
}

#[derive(Default)]
struct Heard {
    first: u64,
    executed: Vec<Executed>,
    /// With the step before which they happened.
    events: Vec<(u64, Event)>,
}

/// Writes everything down.
#[derive(Default)]
struct Scribe {
    shapes: Vec<Shape>,
    begun: bool,
    thread: u32,
    rsp: u64,
    rbp: u64,
    fast: bool,
    followed: bool,
    heard: Arc<Mutex<Heard>>,
}

impl Scribe {
    fn event(&mut self, event: &Event, heard: &mut Heard) {
        let step = heard.first + heard.executed.len() as u64;
        let pc = match event {
            Event::State {
                thread, rsp, rbp, ..
            } => {
                (self.thread, self.rsp, self.rbp) = (*thread, *rsp, *rbp);
                return;
            }
            Event::Enter { pc, .. } => Some(*pc),
            Event::Special(insn) => Some(insn.pc),
            _ => None,
        };
        heard.events.push((step, event.clone()));
        let thread = self.thread;
        heard.executed.extend(pc.map(|pc| Executed {
            thread,
            pc,
            known: Vec::new(),
        }));
    }

    fn record(&mut self, record: &[u8], heard: &mut Heard) -> usize {
        let id = u32::from_le_bytes(record[..4].try_into().expect("four bytes"));
        let shape = &self.shapes[id as usize];
        let (rsp, rbp) = (self.rsp, self.rbp);
        let value = |t: Term| {
            let base = match t.slot {
                slot::ZERO => 0,
                slot::RSP => rsp,
                slot::RBP => rbp,
                n => {
                    let at = 4 + 8 * n as usize;
                    u64::from_le_bytes(record[at..at + 8].try_into().expect("eight bytes"))
                }
            };
            base.wrapping_add_signed(t.offset)
        };
        let begin = heard.executed.len();
        let thread = self.thread;
        let executed = shape.insns().iter().map(|i| Executed {
            thread,
            pc: i.pc,
            known: Vec::new(),
        });
        heard.executed.extend(executed);
        let facts = shape.code.known.iter();
        for k in facts.take_while(|k| k.insn < shape.executed) {
            if let What::Before(r) = k.what {
                let insn = &mut heard.executed[begin + k.insn as usize];
                insn.known.push((r, value(k.term)));
            }
        }
        let (new_rsp, new_rbp) = (shape.rsp.map(value), shape.rbp.map(value));
        let len = shape.record_len();
        self.rsp = new_rsp.unwrap_or(rsp);
        self.rbp = new_rbp.unwrap_or(rbp);
        len
    }
}

impl Listener for Scribe {
    fn shapes_heard(&self) -> usize {
        self.shapes.len()
    }

    fn wants_reads(&self) -> bool {
        !self.fast
    }

    fn wants_followed(&self) -> bool {
        self.followed
    }

    fn hear(&mut self, part: Part<'_>) {
        self.shapes.extend_from_slice(part.shapes);
        let heard = self.heard.clone();
        let mut heard = heard.lock().expect("a lock");
        if !std::mem::replace(&mut self.begun, true) {
            heard.first = part.step;
        }
        let step = heard.first + heard.executed.len() as u64;
        assert_eq!(step, part.step, "a part begins where the last one ended");
        let mut at = 0;
        for (n, event) in part.events {
            while at < *n as usize {
                at += self.record(&part.records[at..], &mut heard);
            }
            assert_eq!(at, *n as usize, "events are between records");
            self.event(event, &mut heard);
        }
        while at < part.records.len() {
            at += self.record(&part.records[at..], &mut heard);
        }
    }

    fn into_any(self: Box<Self>) -> Box<dyn std::any::Any> {
        self
    }
}

/// How a program is recorded and replayed.
#[derive(Clone, Copy, Default)]
struct How {
    /// Steps after which the tape is handed over at the latest.
    pieces: Option<u64>,
    /// Nobody wants to know what calls read, so that they run on the spot.
    fast: bool,
    /// Somebody wants to know what calls touch through pointers that lie in memory.
    followed: bool,
    /// The recorded guest is stopped before each call.
    stopped: bool,
}

#[track_caller]
fn check(program: &Program, how: How) -> (usize, usize) {
    let heard = both(program, how);
    (heard.executed.len(), heard.events.len())
}

/// What is heard of a recording and of its replay, which is the same.
#[track_caller]
fn both(program: &Program, how: How) -> Heard {
    let scribe = || {
        let heard = Arc::new(Mutex::new(Heard::default()));
        let listener = Scribe {
            heard: heard.clone(),
            fast: how.fast,
            followed: how.followed,
            ..Scribe::default()
        };
        (Box::new(listener), heard)
    };
    let (listener, live) = scribe();
    let recording = program.record_by(|r: &mut Recorder| {
        r.tape(listener).expect("a tape");
        if let Some(most) = how.pieces {
            r.tape_in_pieces(most);
        }
        let until = Until {
            syscalls: match how.stopped {
                true => Syscalls::Any,
                false => Syscalls::None,
            },
            ..Until::end()
        };
        while !matches!(
            r.run_until(&until).expect("recording works"),
            Halt::Ended(_)
        ) {}
        drop(r.end_tape().expect("the listener"));
    });
    let (listener, again) = scribe();
    let mut replay = recording.replay();
    replay.tape(listener).expect("a tape");
    let halt = replay.run(&Until::end()).expect("the replay runs");
    assert_eq!(halt, Halt::Ended(recording.end));
    drop(replay.end_tape().expect("the listener"));
    let (mut live, again) = (live.lock().expect("a lock"), again.lock().expect("a lock"));
    compare(&live, &again);
    std::mem::take(&mut live)
}

#[track_caller]
fn compare(live: &Heard, again: &Heard) {
    let pairs = live.executed.iter().zip(&again.executed);
    for (n, (a, b)) in pairs.enumerate() {
        assert_eq!((a.thread, a.pc), (b.thread, b.pc), "step {n}");
        for (r, value) in &a.known {
            let other = b.known.iter().find(|k| k.0 == *r);
            assert_eq!(Some(value), other.map(|k| &k.1), "register {r} at step {n}");
        }
    }
    for (n, (a, b)) in live.events.iter().zip(&again.events).enumerate() {
        assert_eq!(a, b, "event {n}");
    }
    assert_eq!(live.events.len(), again.events.len(), "events");
    assert_eq!(live.executed.len(), again.executed.len(), "instructions");
}

const PIECES: How = How {
    pieces: Some(500),
    fast: true,
    followed: true,
    stopped: false,
};
const FAST: How = How {
    pieces: None,
    fast: true,
    followed: false,
    stopped: false,
};
const STOPPED: How = How {
    pieces: None,
    fast: false,
    followed: true,
    stopped: true,
};
const FOLLOWED: How = How {
    followed: true,
    ..FAST
};

/// Programs of `guests/`, each in two ways.
#[track_caller]
fn guests(names: &[&str]) {
    let others = [How::default(), PIECES, STOPPED];
    for (name, other) in names.iter().zip(others.into_iter().cycle()) {
        let program = Program::guest(&format!("{name}.c"), &[DYNAMIC, &["-pthread"]].concat());
        for how in [FAST, other] {
            let (steps, events) = check(&program, how);
            assert!(
                steps > 100 && events > 2,
                "{name}: {steps} steps, {events} events"
            );
        }
    }
}

#[test]
fn signals() {
    guests(&[
        "signal/nested",
        "signal/interrupted_read",
        "signal/restart_read",
        "signal/segv_longjmp",
        "signal/segv_mprotect",
        "signal/altstack_overflow",
        "signal/timer_calls",
        "signal/queue",
        "signal/masked",
        "signal/child",
        "signal/edit_context",
        "signal/trap",
    ]);
}

#[test]
fn deaths() {
    guests(&[
        "signal/die_of_user",
        "signal/die_of_kill",
        "signal/die_of_alarm",
        "crash/null_deref",
        "crash/null_call",
        "crash/stack_overflow",
        "crash/abort",
    ]);
}

#[test]
fn threads() {
    guests(&[
        "threads/mutex",
        "threads/barrier",
        "threads/producer_consumer",
        "threads/signals",
        "threads/priority_inheritance",
        "threads/robust",
        "threads/exit_others_blocked",
        "threads/cancellation",
        "threads/semaphore",
        "threads/spin",
        "threads/fork",
        "threads/exec",
        "threads/deadlock",
    ]);
}

#[test]
fn code() {
    guests(&[
        "code/jit",
        "code/self_modifying",
        "code/regenerated",
        "code/rep_fault",
        "code/machine_facts",
        "code/raw_syscall",
        "code/red_zone",
        "control/longjmp",
        "control/coroutines",
    ]);
}

#[test]
fn calls() {
    guests(&[
        "kernel/spot_calls",
        "kernel/exec_self",
        "kernel/exec_other",
        "kernel/vfork_exec",
        "kernel/spawn",
        "kernel/fork_pipe",
        "kernel/popen",
        "kernel/vectors",
        "kernel/lists",
        "kernel/select",
        "kernel/many_calls",
        "kernel/files",
        "kernel/own_memory",
    ]);
}

#[test]
fn memory() {
    guests(&[
        "memory/mmap",
        "memory/shared_with_child",
        "memory/shared_with_vfork",
        "memory/shared_and_signal",
        "memory/shared_file",
        "memory/protect",
    ]);
}

/// What each call with a list touched through its pointers: how many bytes, and whether it wrote them.
#[test]
fn lists() {
    let program = Program::guest("kernel/lists.c", &[DYNAMIC, &["-pthread"]].concat());
    for how in [FOLLOWED, STOPPED] {
        let heard = both(&program, how);
        let followed = heard.events.iter().filter_map(|(_, e)| match e {
            Event::Followed(list) => Some(list),
            _ => None,
        });
        let sizes: Vec<Vec<(u64, bool)>> = followed
            .map(|list| list.iter().map(|f| (f.to.len, f.write)).collect())
            .collect();
        let (list, out) = ((16, false), |n| (n, false));
        let expected = [
            vec![(4, true), (15, true)],
            vec![list, out(3), list, out(7)],
            vec![list, (3, true), list, (7, true)],
            vec![out(24), (32, false), out(3), out(7)],
            vec![(32, false), (8, true), (2, true), (24, true)],
        ];
        assert_eq!(sizes, expected);
    }
}
