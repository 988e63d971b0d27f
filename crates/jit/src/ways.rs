//! One way through a superblock, as what it does to what is known.
//!
//! Addresses are sums of what is in a *row*: nothing, the stack pointer, the frame pointer, the base of the
//! thread's segment, and the values of the record. What is known of registers is in *units*; behind those of the
//! register file are temporaries, which operations fill and others use.

use crate::cell::{Arith, Cell};

/// Units and temporaries.
pub const ROOM: usize = 512;
/// Where a record's values begin in the row; before them are 0, rsp, rbp and the base of the thread's segment.
pub const FIRST_VALUE: usize = 4;
/// No record is longer.
pub(crate) const LONGEST: usize = 4 + 8 * u8::MAX as usize;
/// Variables have numbers below this.
const MOST_VARIABLES: u32 = 1 << 16;
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
}

#[derive(Clone, Copy, Debug)]
pub struct Op {
    pub kind: Kind,
    /// The instruction that it belongs to.
    pub insn: u8,
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

/// What a record of one shape does.
#[derive(Clone, Debug)]
pub struct Way {
    pub executed: u8,
    /// Values in the record.
    pub values: u8,
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
    /// If it ends with a return: where the return address is, and what is returned.
    pub returns: Option<(Quick, Quick)>,
    /// The instruction from which on others do it. Units are then as they are there.
    pub handed: Option<u8>,
    /// rsp and rbp afterwards.
    pub rsp: Option<Quick>,
    pub rbp: Option<Quick>,
}

impl Way {
    /// The length of its records.
    pub fn record_len(&self) -> usize {
        4 + 8 * usize::from(self.values)
    }

    /// Everything it names is there.
    pub(crate) fn is_sound(&self) -> bool {
        let row = FIRST_VALUE + usize::from(self.values);
        let place = |n: u8| usize::from(n) < row;
        let unit = |n: u16| usize::from(n) < ROOM;
        let quick = |q: Option<Quick>| q.is_none_or(|q| place(q.at));
        let op = |op: &Op| {
            let parts = op.kind == Kind::Forget || (1..=8).contains(&op.len);
            let addressed = !op.kind.is_access() || parts;
            place(op.base)
                && place(op.index)
                && (op.index == 0 || matches!(op.scale, 1 | 2 | 4 | 8))
                && [op.value, op.pointer, op.other].into_iter().all(unit)
                && i32::try_from(op.checked).is_ok()
                && (op.kind != Kind::Variable || op.checked < MOST_VARIABLES)
                && addressed
        };
        self.ops.iter().all(op)
            && unit(self.zero)
            && self.ends.iter().all(|(a, b)| unit(*a) && unit(*b))
            && self
                .returns
                .is_none_or(|(slot, result)| place(slot.at) && place(result.at))
            && self.handed.is_none_or(|insn| insn < self.executed)
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
        )
    }

    /// The way may be left where this is.
    pub fn may_stop(self) -> bool {
        self.is_checked() || matches!(self, Kind::Load | Kind::Test)
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
