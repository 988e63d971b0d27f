//! Accesses at constant distances from one pointer, as to the stack or to parts of a structure: their cells are
//! found together, and then are as near as a constant.

use crate::shadow::REACH;
use crate::ways::{Kind, Op, Way};

/// Cells that are made unwritten one by one; of more a loop does it.
pub(crate) const MOST_FORGOTTEN: u32 = 64;
/// Anchors of a way. Registers have those that are used next, and there is room for the others in memory.
pub(crate) const MOST: usize = 16;
/// Accesses are not further from their pointer than this.
const SPAN: u64 = REACH / 4;
/// The stack pointer's place in the row.
const RSP: u8 = 1;

/// Cells that are found together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Anchor {
    /// The pointer, as operations have it.
    pub(crate) base: u8,
    pub(crate) index: u8,
    pub(crate) scale: u8,
    /// From there to the first cell.
    pub(crate) first: i64,
    /// Bytes from there on.
    pub(crate) span: u32,
}

/// Where the cell of an access is: which anchor, bytes from its first cell, and bytes into the cell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Near {
    pub(crate) anchor: usize,
    pub(crate) cell: u32,
    pub(crate) byte: u32,
}

pub(crate) fn of(way: &Way) -> Vec<Anchor> {
    let mut list: Vec<Anchor> = Vec::new();
    for op in &way.ops {
        // One of eight bytes says where cells begin, if the pointer is one to such things.
        let begins = op.len == 8 && is_near(op);
        if list.len() == MOST || !begins || list.iter().any(|a| a.is_of(op)) {
            continue;
        }
        let mut anchor = Anchor {
            base: op.base,
            index: op.index,
            scale: op.scale,
            first: op.offset,
            span: 8,
        };
        let (mut near, mut wide) = (0, 0);
        for other in way.ops.iter().filter(|o| is_near(o)) {
            if !anchor.is_of(other) || !anchor.grow(other) {
                continue;
            }
            near += 1;
            wide += u32::from(other.len == 8);
        }
        // The stack is sure to be in cells. Other pointers may be to anything.
        let stack = op.base == RSP && op.index == 0;
        if near >= 2 && (stack || wide >= 2) {
            list.push(anchor);
        }
    }
    list
}

/// Where an access is, if it is near an anchor.
pub(crate) fn near(anchors: &[Anchor], op: &Op) -> Option<Near> {
    if !is_near(op) {
        return None;
    }
    let n = anchors.iter().position(|a| a.is_of(op))?;
    let anchor = &anchors[n];
    let at = u32::try_from(op.offset.checked_sub(anchor.first)?).ok()?;
    let (cell, byte) = (at & !7, at & 7);
    let fits = match op.kind {
        Kind::Forget => byte == 0,
        _ => byte + op.len <= 8,
    };
    (fits && at + op.len <= anchor.span).then_some(Near {
        anchor: n,
        cell,
        byte,
    })
}

/// An access that can be found so.
fn is_near(op: &Op) -> bool {
    let kind = match op.kind {
        Kind::Check
        | Kind::Pointer
        | Kind::Arith(_)
        | Kind::Select
        | Kind::Constant
        | Kind::Variable
        | Kind::Name
        | Kind::Return => false,
        Kind::Forget => op.len.is_multiple_of(8) && op.len / 8 <= MOST_FORGOTTEN,
        _ => true,
    };
    kind && (op.base != 0 || op.index != 0) && op.offset.unsigned_abs() < SPAN
}

impl Anchor {
    /// The access is through this pointer.
    fn is_of(&self, op: &Op) -> bool {
        let scaled = op.index == 0 || self.scale == op.scale;
        (self.base, self.index) == (op.base, op.index) && scaled
    }

    /// Takes in the cells of an access, if it is in cells of its own.
    fn grow(&mut self, op: &Op) -> bool {
        let from = op.offset - self.first;
        let (first, end) = (from & !7, (from + i64::from(op.len) + 7) & !7);
        if op.kind != Kind::Forget && end - first > 8 || op.kind == Kind::Forget && from & 7 != 0 {
            return false;
        }
        let last = i64::from(self.span).max(end);
        let begin = first.min(0);
        self.first += begin;
        self.span = (last - begin) as u32;
        true
    }
}
