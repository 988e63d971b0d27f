//! The tape: what a guest executed, in the order of steps.
//!
//! The engine's translated code writes it while the guest runs, so it must be little: for each
//! *superblock* (a straight piece of code with several ways out) that was gone through, one
//! *record*: the number of the way out that was taken, and those register values from which the
//! addresses of its memory accesses follow. Everything else is the same each time and is said once,
//! in the [`Shape`] of that way out. What the tracer does to the guest (system calls, signals,
//! changes of threads) comes between the records as [`Event`]s.
//!
//! Values are not on the tape. What a register or a variable held at some step is had by executing
//! up to there again. Only where a function is entered whose reads are a matter of what is in a string, whoever asked for it is
//! told how long that is ([`Measure`]).
//!
//! **Record.** Little-endian: `u32` number of the shape, then [`Shape::values`] values of eight
//! bytes. A reader that knows all shapes can go through the records forward.
//!
//! **Invariant:** a reader that has followed the tape knows the stack pointer and the frame pointer
//! (rsp and rbp) at the beginning of every record: what happened to them follows from the shape
//! and the values, and where the tracer changed them, an [`Event::State`] says so.

#![forbid(unsafe_code)]

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Bytes before the values of a record.
pub const RECORD_HEAD: usize = 4;

/// One guest instruction of a superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Insn {
    pub pc: u64,
    pub len: u8,
    pub bytes: [u8; 15],
}

impl Insn {
    /// Its code, and what is behind that up to the length that no instruction exceeds. It may take more bytes or fewer
    /// than the guest's: a run in which it refers to another address.
    pub fn code(&self) -> &[u8] {
        &self.bytes
    }
}

/// A value that a reader of a record can compute: what is in a slot, and a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Term {
    pub slot: u8,
    pub offset: i64,
}

/// Slots that are not on the tape: the value 0, and what rsp and rbp were when the record began.
pub mod slot {
    pub const ZERO: u8 = 255;
    pub const RBP: u8 = 254;
    pub const RSP: u8 = 253;
    /// Values of a record have the slots below this.
    pub const VALUES: u8 = 240;
}

/// What a [`Known`] says about its instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// General register n right before the instruction.
    Before(u8),
    /// General register n right after it.
    After(u8),
    /// The condition of a conditional move: its low byte is 1 or 0.
    Condition,
    /// The 8-byte quarter or eighth `part` of vector register n before the instruction.
    Vector { register: u8, part: u8 },
    /// What the n-th [`Measure`] at a function's entry came to, or [`UNMEASURED`].
    Measured(u8),
}

/// Strings of a call that can be measured.
pub const MOST_MEASURED: usize = 2;

/// The string could not be read.
pub const UNMEASURED: u64 = u64::MAX;

/// How many bytes of a string a function has to read, which is a matter of what is in it: up to and with the zero at its
/// end, or less. Parameters are numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// The parameter that points to the string.
    pub text: u8,
    /// It is compared with this one and not read behind the first difference.
    pub like: Option<u8>,
    /// It is not read behind this character.
    pub stop: Option<u8>,
    pub most: Most,
    pub unit: Unit,
}

/// How much of a string is read at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Most {
    All,
    /// As many characters as a parameter says.
    Parameter(u8),
    Characters(u32),
}

/// What a string consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Byte,
    /// Bytes, of which capital letters and small ones are the same.
    Folded,
    /// Four bytes each.
    Wide,
    /// It is no string but a `va_list`. What is told is the pointer at [`Most::Characters`], shifted by eight bits, and in
    /// these how many arguments have been taken from registers: [`taken`].
    List,
}

/// The two of them that tell where the arguments of a `va_list` are: those in memory, and registers that were saved.
pub fn list(parameter: u8) -> Measures {
    let pointer = |at| {
        Some(Measure {
            text: parameter,
            like: None,
            stop: None,
            most: Most::Characters(at),
            unit: Unit::List,
        })
    };
    [pointer(8), pointer(16)]
}

/// The pointer in what a `va_list` was measured to, and how many arguments were taken from general registers and from
/// vector registers.
pub fn taken(measured: u64) -> (u64, u8, u8) {
    let general = measured as u8 & 15;
    let vector = (measured as u8 >> 4).saturating_sub(3);
    (measured >> 8, general, vector)
}

/// What is to be measured where a function is entered.
pub type Measures = [Option<Measure>; MOST_MEASURED];

/// A fact about one instruction of a superblock that follows from the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    pub insn: u8,
    pub what: What,
    pub term: Term,
}

/// A superblock: instructions that are executed in a row unless control leaves it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Code {
    pub insns: Vec<Insn>,
    /// All general registers that instructions use in addresses, in the order of instructions.
    pub known: Vec<Known>,
}

/// One way out of a superblock.
#[derive(Clone, Debug)]
pub struct Shape {
    pub code: Arc<Code>,
    /// Instructions executed, from the first one on.
    pub executed: u8,
    /// Values in the record.
    pub values: u8,
    /// rsp and rbp afterwards; `None` only where an [`Event::State`] follows.
    pub rsp: Option<Term>,
    pub rbp: Option<Term>,
}

impl Shape {
    pub fn record_len(&self) -> usize {
        RECORD_HEAD + 8 * self.values as usize
    }

    pub fn insns(&self) -> &[Insn] {
        &self.code.insns[..self.executed as usize]
    }
}

/// A stretch of guest memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stretch {
    pub addr: u64,
    pub len: u64,
}

/// Memory that a system call touched through a pointer that lies in memory itself, such as an element of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Followed {
    /// Where the pointer lies.
    pub at: u64,
    pub to: Stretch,
    pub write: bool,
}

/// What happened between two records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// Where the guest stands now.
    State {
        thread: u32,
        pc: u64,
        rsp: u64,
        rbp: u64,
        fs_base: u64,
    },
    /// A `syscall` instruction was executed: one step.
    Enter { pc: u64, nr: u64, args: [u64; 6] },
    /// The call that this thread entered has returned, having read and written this memory.
    Leave {
        nr: u64,
        result: i64,
        reads: Vec<Stretch>,
        writes: Vec<Stretch>,
    },
    /// The tracer carried this instruction out: one step.
    Special(Insn),
    /// A handler for this signal is about to run; the kernel wrote its frame.
    Signal { number: i32, frame: Stretch },
    /// Somebody else wrote to the guest's memory.
    Outside { writes: Vec<Stretch> },
    /// The guest is another program from here on.
    Exec,
    /// The call whose [`Event::Leave`] comes next has touched this.
    Followed(Vec<Followed>),
}

impl Event {
    /// Instructions that the event stands for.
    pub fn steps(&self) -> u64 {
        matches!(self, Event::Enter { .. } | Event::Special(_)).into()
    }
}

/// A piece of tape as the engine hands it over.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The step before its first record or event.
    pub step: u64,
    /// Shapes that have not been seen before; they are numbered in the order in which they come.
    pub shapes: &'a [Shape],
    pub records: &'a [u8],
    /// Events with the offset of the record that they come before.
    pub events: &'a [(u32, Event)],
}

/// Somebody who reads the tape while the guest goes on.
pub trait Listener: Send {
    /// Shapes that it knows from an earlier tape of the same guest.
    fn shapes_heard(&self) -> usize;

    /// It makes use of what system calls read ([`Event::Leave`]); otherwise that may be missing.
    fn wants_reads(&self) -> bool {
        true
    }

    /// It is to be told what system calls touch through pointers that lie in memory ([`Event::Followed`]).
    fn wants_followed(&self) -> bool {
        false
    }

    fn hear(&mut self, part: Part<'_>);

    /// For whoever gets it back.
    fn into_any(self: Box<Self>) -> Box<dyn std::any::Any>;
}
