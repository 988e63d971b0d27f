//! The tape against single-stepping: every instruction in its place, every register that it says it
//! knows.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::oracle::{Seen, trace};
use crate::scene::{Program, STATIC};
use crate::steps::{BRANCHES, SIGNALS};
use guest::{Halt, Until, UserRegs};
use tape::{Event, Listener, Measure, Most, Part, Shape, Term, UNMEASURED, Unit, What, slot};

/// What the tape says of one instruction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    pub(crate) pc: u64,
    before: Vec<(u8, u64)>,
    after: Vec<(u8, u64)>,
    measured: Vec<u64>,
}

/// A reader that does nothing clever.
#[derive(Default)]
pub(crate) struct Plain {
    shapes: Vec<Shape>,
    rsp: u64,
    rbp: u64,
    pub(crate) told: Arc<Mutex<Vec<Told>>>,
    first: Arc<Mutex<Option<u64>>>,
    parts: Arc<AtomicU64>,
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"))
}

impl Plain {
    fn event(&mut self, event: &Event, told: &mut Vec<Told>) {
        match event {
            Event::State { rsp, rbp, .. } => (self.rsp, self.rbp) = (*rsp, *rbp),
            Event::Enter { pc, .. } => told.push(Told {
                pc: *pc,
                ..Told::default()
            }),
            Event::Special(insn) => told.push(Told {
                pc: insn.pc,
                ..Told::default()
            }),
            _ => {}
        }
    }
}

impl Listener for Plain {
    fn shapes_heard(&self) -> usize {
        self.shapes.len()
    }

    fn hear(&mut self, part: Part<'_>) {
        let first = *self.first.lock().expect("a lock").get_or_insert(part.step);
        self.shapes.extend_from_slice(part.shapes);
        let told = self.told.clone();
        let mut told = told.lock().expect("a lock");
        let step = first + told.len() as u64;
        assert_eq!(step, part.step, "a part begins where the last one ended");
        self.parts.fetch_add(1, Ordering::Relaxed);
        let (mut at, mut events) = (0, part.events);
        loop {
            while let Some(((n, event), rest)) = events.split_first()
                && *n as usize <= at
            {
                assert_eq!(*n as usize, at, "events are between records");
                self.event(event, &mut told);
                events = rest;
            }
            if at == part.records.len() {
                break;
            }
            let record = &part.records[at..];
            let id = u32::from_le_bytes(record[..4].try_into().expect("four bytes"));
            let shape = self.shapes[id as usize].clone();
            let (rsp, rbp) = (self.rsp, self.rbp);
            let value = |t: Term| {
                let base = match t.slot {
                    slot::ZERO => 0,
                    slot::RSP => rsp,
                    slot::RBP => rbp,
                    n => word(&record[4 + 8 * n as usize..]),
                };
                base.wrapping_add_signed(t.offset)
            };
            let begin = told.len();
            told.extend(shape.insns().iter().map(|i| Told {
                pc: i.pc,
                ..Told::default()
            }));
            for k in &shape.code.known {
                if k.insn >= shape.executed {
                    break;
                }
                let told = &mut told[begin + k.insn as usize];
                match k.what {
                    What::Before(r) => told.before.push((r, value(k.term))),
                    What::After(r) => told.after.push((r, value(k.term))),
                    What::Measured(_) => told.measured.push(value(k.term)),
                    What::Condition | What::Vector { .. } => {}
                }
            }
            if let Some(t) = shape.rsp {
                self.rsp = value(t);
            }
            if let Some(t) = shape.rbp {
                self.rbp = value(t);
            }
            at += shape.record_len();
        }
        assert!(events.is_empty(), "events are within their part");
    }

    fn into_any(self: Box<Self>) -> Box<dyn std::any::Any> {
        self
    }
}

fn register(regs: &UserRegs, n: u8) -> u64 {
    let r = regs;
    [
        r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11, r.r12,
        r.r13, r.r14, r.r15,
    ][n as usize]
}

impl Told {
    /// Holds what the tape knew before the instruction against the registers there.
    #[track_caller]
    pub(crate) fn is_true_before(&self, regs: &UserRegs, place: &str) {
        assert_eq!(self.pc, regs.rip, "{place}");
        for &(r, value) in &self.before {
            let pc = self.pc;
            let own = register(regs, r);
            assert_eq!(value, own, "register {r} before {place} at {pc:#x}");
        }
    }
}

#[track_caller]
fn check(program: &Program, begin: u64) {
    check_pieces(program, begin, None);
}

/// The same with pieces of tape of so many steps at most.
#[track_caller]
fn check_pieces(program: &Program, begin: u64, most: Option<u64>) {
    let recorded = program.record();
    let mut replay = recorded.replay();
    let native = trace(program, &replay);
    if begin > 0 {
        assert_eq!(replay.run(&Until::step(begin)).expect("runs"), Halt::Step);
    }
    let plain = Plain::default();
    let (told, parts) = (plain.told.clone(), plain.parts.clone());
    replay.tape(Box::new(plain)).expect("a tape");
    if let Some(most) = most {
        replay.tape_in_pieces(most);
    }
    let halt = replay.run(&Until::end()).expect("the replay runs");
    assert_eq!(halt, Halt::Ended(recorded.end));
    drop(replay.end_tape().expect("the listener"));
    if let Some(most) = most {
        let parts = parts.load(Ordering::Relaxed);
        // What a superblock is begun with is not left before its end.
        let longest = most + 64;
        assert!(parts > (recorded.steps - begin) / longest, "{parts} parts");
    }
    compare(
        &told.lock().expect("a lock"),
        &native,
        begin,
        recorded.steps,
    );
}

#[track_caller]
fn compare(told: &[Told], native: &[Seen], begin: u64, steps: u64) {
    assert_eq!(told.len() as u64, steps - begin, "instructions on the tape");
    // An instruction that faulted has the number of its handler's first, which was executed.
    let at = |step: u64| &native[native.partition_point(|s| s.step <= step) - 1].regs;
    for (n, t) in told.iter().enumerate() {
        let step = begin + n as u64;
        t.is_true_before(at(step), &format!("step {step} of {steps}"));
        for &(r, value) in &t.after {
            let next = at(step + 1);
            assert_eq!(
                value,
                register(next, r),
                "register {r} after step {step} at {:#x}",
                t.pc
            );
        }
    }
    let known: usize = told.iter().map(|t| t.before.len()).sum();
    assert!(known > 0 || steps < 20, "something is known");
}

#[test]
fn branches_and_strings() {
    check(&Program::asm(BRANCHES), 0);
}

/// What a string instruction works on is known beforehand, and what follows touches everything but
/// the registers that it has moved.
const STRINGS: &str = "
.globl _start
_start:
    lea rsi, [rip + text]
    lea rdi, [rip + room]
    mov ecx, 5
    rep movsb
    xor eax, eax
    xor ebx, ebx
    mov r8d, 8
    mov r9d, 9
    mov r10d, 10
    mov r11d, 11
    mov r12d, 12
    mov r13d, 13
    mov r14d, 14
    mov r15d, 15
    lea rdi, [rip + room]
    mov ecx, 3
    rep stosb
    mov eax, 231
    xor edi, edi
    syscall
.data
text: .ascii \"some text\"
room: .zero 16
";

#[test]
fn ends_of_strings() {
    check(&Program::asm(STRINGS), 0);
}

/// Strings are as long as the guest says, which goes through them one character after the other, and nothing of the
/// guest's is changed by measuring them.
#[test]
fn lengths_of_strings() {
    let program = Program::guest("code/measured.c", STATIC);
    let text = |n| Measure {
        text: n,
        like: None,
        stop: None,
        most: Most::All,
        unit: Unit::Byte,
    };
    let until = Measure {
        stop: Some(1),
        ..text(0)
    };
    let like = Measure {
        like: Some(1),
        ..text(0)
    };
    let some = |m| Measure {
        most: Most::Parameter(2),
        ..m
    };
    let unit = |unit, m| Measure { unit, ..m };
    let forty = Measure {
        most: Most::Characters(40),
        ..text(0)
    };
    let functions = [
        ("all_of_first", text(0)),
        ("all_of_second", text(1)),
        ("some_of_second", some(text(1))),
        ("until_second", until),
        ("compared", like),
        ("compared_some", some(like)),
        ("folded_some", unit(Unit::Folded, some(like))),
        ("at_most_forty", forty),
        ("wide_until_second", unit(Unit::Wide, until)),
        ("wide_compared_some", unit(Unit::Wide, some(like))),
    ];
    let recorded = program.record();
    // In small pieces, functions are entered in code that executes once, too.
    for most in [None, Some(5000)] {
        let mut replay = recorded.replay();
        let plain = Plain::default();
        let told = plain.told.clone();
        let entry = |(name, m): &(&str, Measure)| (program.at(name), [Some(*m), Some(text(0))]);
        replay.probe(functions.iter().map(entry));
        replay.tape(Box::new(plain)).expect("a tape");
        if let Some(most) = most {
            replay.tape_in_pieces(most);
        }
        let halt = replay.run(&Until::end()).expect("the replay runs");
        assert_eq!(halt, Halt::Ended(recorded.end));
        drop(replay.end_tape().expect("the listener"));
        let told = told.lock().expect("a lock");
        let (mut ending, mut leading_out) = (0, 0);
        for (name, _) in &functions {
            let at = program.at(name);
            for t in told.iter().filter(|t| t.pc == at) {
                let rcx = t.before.iter().find(|(r, _)| *r == 1);
                let expected = rcx.expect("an argument").1;
                assert_eq!(t.measured[0], expected, "{name}");
                assert_eq!(t.measured.len(), 2);
                let leads_out = expected == UNMEASURED;
                leading_out += u32::from(leads_out);
                ending += u32::from(!leads_out);
            }
        }
        assert!(ending > 800 && leading_out > 50, "{ending} {leading_out}");
    }
}

#[test]
fn handlers_of_faults() {
    check(&Program::asm(SIGNALS), 0);
}

#[test]
fn a_program_with_its_library() {
    check(&Program::guest("basic/hello.c", STATIC), 0);
    check(&Program::guest("basic/hello.c", STATIC), 777);
}

/// The budget runs out in the middle of superblocks, whose records are then begun in one piece and ended in the next.
#[test]
fn pieces_of_tape() {
    for most in [7, 40, 333] {
        check_pieces(&Program::asm(BRANCHES), 0, Some(most));
        check_pieces(&Program::asm(STRINGS), 0, Some(most));
        check_pieces(&Program::asm(SIGNALS), 0, Some(most));
    }
    for most in [97, 1000] {
        check_pieces(&Program::guest("basic/hello.c", STATIC), 0, Some(most));
        check_pieces(&Program::guest("code/flag_chains.c", STATIC), 0, Some(most));
    }
}

#[test]
fn foreign_instructions() {
    for name in ["code/direction.c", "control/loop_instructions.c"] {
        check(&Program::guest(name, STATIC), 0);
    }
}
