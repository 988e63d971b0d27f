//! One way through a superblock, as what it does to what is known.
//!
//! Addresses are sums of what is in a *row*: nothing, the stack pointer, the frame pointer, the base of the
//! thread's segment, and the values of the record. What is known of registers is in *units*; behind those of the
//! register file are temporaries, which operations fill and others use.
//!
//! A *trace* is a way through several records that often follow each other, as in a loop. Its row has the values of all
//! of them, one record's after the other's.

use crate::cell::{Arith, Cell};

/// Units and temporaries.
pub const ROOM: usize = 512;
/// Where a record's values begin in the row; before them are 0, rsp, rbp and the base of the thread's segment.
pub const FIRST_VALUE: usize = 4;
/// No record is longer.
pub(crate) const LONGEST: usize = 4 + 8 * u8::MAX as usize;
/// Variables have numbers below this.
const MOST_VARIABLES: u32 = 1 << 16;
/// What is told of a call: arguments, and how long strings are that they point to.
pub const ARGUMENTS: usize = 8;
/// Records of a trace.
pub const MOST_PARTS: usize = 16;
/// The place of that base.
pub const FS: u8 = 3;

/// Something in the row, and a constant.
#[derive(Clone, Copy, Debug)]
pub struct Quick {
    pub at: u8,
    pub offset: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An access that has only to be inside its block.
    Check,
    /// Eight bytes to a temporary.
    Load,
    CheckedLoad,
    /// Bytes that are read: they must have been written.
    Test,
    CheckedTest,
    /// Eight bytes of a value.
    Store,
    CheckedStore,
    /// Fewer, of which nothing is known.
    StorePart,
    CheckedStorePart,
    /// The pointer of an address that is the sum of two values.
    Pointer,
    Arith(Arith),
    /// One value or another, by a condition.
    Select,
    /// A cell as it is.
    Constant,
    /// Memory becomes unwritten.
    Forget,
    /// A pointer to the variable with the number in `checked`, at the address.
    Variable,
    /// The function with the number in `checked` is asked for by name; its return address is at the address.
    Name,
    /// A function returns in the middle of a trace; its return address is at the address.
    Return,
}

#[derive(Clone, Copy, Debug)]
pub struct Op {
    pub kind: Kind,
    /// The instruction that it belongs to, and above eight bits the number of its record in a trace.
    pub insn: u16,
    /// The address: two places of the row, a factor and a constant.
    pub base: u8,
    pub index: u8,
    pub scale: u8,
    /// Bytes that are read or written.
    pub len: u32,
    /// The unit that is stored, or that is made.
    pub value: u16,
    /// The pointer that is checked, or the first operand.
    pub pointer: u16,
    pub other: u16,
    pub offset: i64,
    /// What is checked: from where on, as seen from the address, and how many bytes.
    pub checked_at: i32,
    pub checked: u32,
    pub cell: Cell,
}

/// Where the variable with some number is, if it is one of the function that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Variable {
    pub address: u64,
    /// What is known of a pointer to it.
    pub cell: Cell,
}

impl Variable {
    /// No function that runs has it: nothing is at this address.
    pub const ABSENT: Variable = Variable {
        address: u64::MAX,
        cell: Cell::PLAIN,
    };
}

/// A record of a trace that is not its first.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub shape: u32,
    pub executed: u8,
    /// Values in the record.
    pub values: u8,
    /// rsp and rbp where it begins.
    pub rsp: Quick,
    pub rbp: Quick,
}

/// The entry of a function that means something. Whoever runs the code may know enough of it for code to go on.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub function: u32,
    /// Its first instruction.
    pub pc: u64,
    /// Where the return address is.
    pub slot: Quick,
    /// What it was called with.
    pub arguments: [Quick; ARGUMENTS],
}

/// What a record of one shape does, or several in a row.
#[derive(Clone, Debug)]
pub struct Way {
    /// Of the first record.
    pub executed: u8,
    /// Values in the first record.
    pub values: u8,
    /// Of a trace, the records after the first.
    pub more: Box<[Part]>,
    /// What is done can be done so. Otherwise the record is only followed while nothing is looked at.
    pub usable: bool,
    pub ops: Box<[Op]>,
    /// A unit of which nothing is ever known.
    pub zero: u16,
    /// Units that change, and the values they get, in this order.
    pub ends: Box<[(u16, u16)]>,
    /// Groups of units that must have no unwritten bytes.
    pub reads: u64,
    /// Groups that have none afterwards.
    pub cleans: u64,
    /// Groups that may have something to tell afterwards.
    pub leaves: u64,
    /// If it ends with a return: where the return address is, and what is returned. Also where others take over
    /// before that.
    pub returns: Option<(Quick, Quick)>,
    /// The instruction from which on others do it. Units are then as they are there.
    pub handed: Option<u8>,
    /// The function that is entered there. If it is known by what it was asked, what is left of the record is of no
    /// interest, but for whether it returns.
    pub call: Option<Call>,
    /// rsp and rbp afterwards.
    pub rsp: Option<Quick>,
    pub rbp: Option<Quick>,
}

impl Way {
    /// The length of its records; of a trace, of its first.
    pub fn record_len(&self) -> usize {
        4 + 8 * usize::from(self.values)
    }

    /// Where a record of a trace begins, and after how many instructions. There is one more than there are: the end.
    pub(crate) fn start(&self, part: usize) -> (usize, u32) {
        let before = self.more.iter().take(part.saturating_sub(1));
        let first = match part {
            0 => (0, 0),
            _ => (self.record_len(), u32::from(self.executed)),
        };
        before.fold(first, |(at, steps), p| {
            let len = 4 + 8 * usize::from(p.values);
            (at + len, steps + u32::from(p.executed))
        })
    }

    /// Where a value of the row is in the records.
    pub(crate) fn offset(&self, value: usize) -> usize {
        let mut left = value;
        let values = [self.values].into_iter();
        let mut at = 0;
        for n in values.chain(self.more.iter().map(|p| p.values)) {
            if left < usize::from(n) {
                break;
            }
            left -= usize::from(n);
            at += 4 + 8 * usize::from(n);
        }
        at + 4 + 8 * left
    }

    /// Everything it names is there.
    pub(crate) fn is_sound(&self) -> bool {
        let values = self.more.iter().map(|p| usize::from(p.values));
        let row = FIRST_VALUE + usize::from(self.values) + values.sum::<usize>();
        let place = |n: u8| usize::from(n) < row;
        let unit = |n: u16| usize::from(n) < ROOM;
        let quick = |q: Option<Quick>| q.is_none_or(|q| place(q.at));
        let op = |op: &Op| {
            let parts = op.kind == Kind::Forget || (1..=8).contains(&op.len);
            let addressed = !op.kind.is_access() || parts;
            usize::from(op.insn >> 8) <= self.more.len()
                && place(op.base)
                && place(op.index)
                && (op.index == 0 || matches!(op.scale, 1 | 2 | 4 | 8))
                && [op.value, op.pointer, op.other].into_iter().all(unit)
                && i32::try_from(op.checked).is_ok()
                && (op.kind != Kind::Variable || op.checked < MOST_VARIABLES)
                && addressed
        };
        let part = |p: &Part| place(p.rsp.at) && place(p.rbp.at);
        self.ops.iter().all(op)
            && self.more.len() < MOST_PARTS
            && self.more.iter().all(part)
            && (self.handed.is_none() || self.more.is_empty())
            && unit(self.zero)
            && self.ends.iter().all(|(a, b)| unit(*a) && unit(*b))
            && self
                .returns
                .is_none_or(|(slot, result)| place(slot.at) && place(result.at))
            && self.handed.is_none_or(|insn| insn < self.executed)
            && self.call.is_none_or(|call| {
                let list = call.arguments.into_iter().chain([call.slot]);
                self.handed.is_some() && list.into_iter().all(|q| place(q.at))
            })
            && quick(self.rsp)
            && quick(self.rbp)
    }
}

impl Kind {
    /// It reads or writes what is known of memory.
    fn is_access(self) -> bool {
        !matches!(
            self,
            Kind::Check
                | Kind::Pointer
                | Kind::Arith(_)
                | Kind::Select
                | Kind::Constant
                | Kind::Variable
                | Kind::Name
                | Kind::Return
        )
    }

    /// The way may be left where this is.
    pub fn may_stop(self) -> bool {
        self.is_checked() || matches!(self, Kind::Load | Kind::Test | Kind::Return)
    }

    /// It begins with a check.
    pub(crate) fn is_checked(self) -> bool {
        matches!(
            self,
            Kind::Check
                | Kind::CheckedLoad
                | Kind::CheckedTest
                | Kind::CheckedStore
                | Kind::CheckedStorePart
        )
    }
}
