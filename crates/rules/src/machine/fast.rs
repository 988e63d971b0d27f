//! The quick way through a superblock.
//!
//! Nearly always nothing that a superblock works on is unwritten and all its accesses stay inside their blocks.
//! For that case its transfer functions are reduced to what is left to do. Registers are followed when the way
//! is made: a value is the number of the unit that held it at the beginning, or of a *temporary* that a load or
//! a sum fills. So copies cost nothing, and registers change at the end, once. Accesses through one pointer at
//! constant distances are checked together.
//!
//! Where the case is not given, the quick way stops before the instruction at hand. The registers are brought
//! up to date and the operations of `operate.rs`, which know all cases, do the rest. They are also the oracle:
//! both must leave the same state.

use tape::{Shape, Term};

use super::plan::*;
use super::shadow::{Cell, Shadow};
use super::{BlockId, Heap, NONE, arithmetic};
use image::effects::Size;

/// Units and temporaries.
pub(super) const ROOM: usize = 512;
/// Where a record's values begin in the row that addresses are made of; before them are 0, rsp, rbp and the
/// base of the thread's segment.
pub(super) const FIRST_VALUE: usize = 4;
const FS: u8 = 3;

/// A value of a record: which, and a constant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quick {
    at: u8,
    offset: i64,
}

/// What addresses are made of.
pub(super) type Row = [u64; 256];

impl Quick {
    fn of(t: Term) -> Quick {
        Quick {
            at: place(t.slot),
            offset: t.offset,
        }
    }

    #[inline]
    pub(super) fn get(self, row: &Row) -> u64 {
        row[self.at as usize].wrapping_add_signed(self.offset)
    }
}

fn place(slot: u8) -> u8 {
    match slot {
        tape::slot::ZERO => 0,
        tape::slot::RSP => 1,
        tape::slot::RBP => 2,
        n => n + FIRST_VALUE as u8,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
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
    /// Fewer.
    StorePart,
    CheckedStorePart,
    /// The pointer of an address that is the sum of two values.
    Pointer,
    Arith(Arith),
    /// One value or another, by a condition.
    Select,
    /// A pointer to a block.
    Global,
    /// The stack grows.
    Grow,
}

#[derive(Clone, Copy, Debug)]
struct QuickOp {
    kind: Kind,
    insn: u8,
    /// The address: two values of the row, a factor and a constant.
    base: u8,
    index: u8,
    scale: u8,
    len: u8,
    /// The value that is stored, or that is made.
    value: u16,
    /// The pointer that is checked, or the first operand.
    pointer: u16,
    other: u16,
    offset: i64,
    /// What is checked: from where on, as seen from the address, and how many bytes.
    checked_at: i32,
    checked: u32,
}

/// One way through a superblock.
#[derive(Debug)]
pub(super) struct Fast {
    /// Number of the plan with all operations.
    pub(super) plan: u32,
    pub(super) executed: u8,
    /// Values in the record.
    pub(super) values: u8,
    /// It can be gone.
    pub(super) usable: bool,
    /// Nothing here is a call or return of interest, but for a return at the end.
    pub(super) quiet: bool,
    ops: Box<[QuickOp]>,
    /// Units that change, and the values they get.
    ends: Box<[(u16, u16)]>,
    /// The same, instruction by instruction.
    log: Box<[(u8, u16, u16)]>,
    /// Groups of units that must have no unwritten bytes.
    pub(super) reads: u64,
    /// Groups that have none afterwards.
    pub(super) cleans: u64,
    /// Groups that may have something to tell afterwards.
    pub(super) leaves: u64,
    /// Where the return address is, the result, and the instruction.
    pub(super) returns: Option<(Quick, Quick, u8)>,
    pub(super) rsp: Option<Quick>,
    pub(super) rbp: Option<Quick>,
}

/// The group of a unit, as a bit: one for each general register and for the lowest 16 bytes of each vector
/// register, and a few for the rest.
pub(super) fn group(unit: u16) -> u64 {
    match unit {
        0..=16 => 1 << unit,
        17..=31 => 1 << 17,
        32..=287 if unit % 8 < 2 => 1 << (18 + (unit - 32) / 8),
        32..=287 => 1 << 50,
        288..ZERO => 1 << 51,
        _ => 0,
    }
}

/// The units of a group.
pub(super) fn group_units(bit: u32) -> impl Iterator<Item = usize> {
    let (first, end) = match bit {
        0..=16 => (bit, bit + 1),
        17 => (17, 32),
        18..=49 => (32 + (bit - 18) * 8, 34 + (bit - 18) * 8),
        50 => (32, 288),
        _ => (288, u32::from(ZERO)),
    };
    (first..end)
        .filter(move |u| bit != 50 || u % 8 >= 2)
        .map(|u| u as usize)
}

/// The groups of vector registers and what comes after them.
pub(super) const VECTORS: u64 = !0 << 18;

/// Those of these groups of which the list has all units.
fn whole(groups: u64, units: &[u16]) -> u64 {
    (0..64)
        .filter(|bit| groups & 1 << bit != 0)
        .filter(|bit| group_units(*bit).all(|u| units.contains(&(u as u16))))
        .fold(0, |mask, bit| mask | 1 << bit)
}

struct Maker {
    ops: Vec<QuickOp>,
    /// The value that each unit has.
    map: [u16; UNITS],
    log: Vec<(u8, u16, u16)>,
    next: u16,
    reads: u64,
    writes: u64,
    /// Checks that more accesses may be added to.
    open: Vec<usize>,
    usable: bool,
}

impl Fast {
    pub(super) fn of(plan: &Plan, number: u32, shape: &Shape, trackers: Trackers) -> Fast {
        let mut map = [0; UNITS];
        for (n, m) in map.iter_mut().enumerate() {
            *m = n as u16;
        }
        // The stack pointer points to the stack.
        map[RSP as usize] = ZERO;
        let mut maker = Maker {
            ops: Vec::new(),
            map,
            log: Vec::new(),
            next: UNITS as u16,
            reads: 0,
            writes: 0,
            open: Vec::new(),
            usable: true,
        };
        let end = plan.first[shape.executed as usize] as usize;
        let (mut returns, mut quiet) = (None, true);
        for (n, (i, op)) in plan.ops[..end].iter().enumerate() {
            match op {
                Op::Return { slot, result } if n + 1 == end => {
                    returns = Some((Quick::of(*slot), Quick::of(*result), *i));
                }
                Op::Enter(_) | Op::Asks { .. } | Op::Return { .. } => quiet = false,
                _ => maker.op(plan, *i, op, trackers),
            }
        }
        let mut written: Vec<u16> = maker.log.iter().map(|(_, to, _)| *to).collect();
        written.sort_unstable();
        written.dedup();
        let ends = maker.ends(&written);
        let leaves = ends.iter().filter(|(_, value)| *value != ZERO);
        Fast {
            plan: number,
            executed: shape.executed,
            values: shape.values,
            usable: maker.usable && quiet,
            quiet,
            leaves: leaves.fold(0, |m, (to, _)| m | group(*to)),
            ends: ends.into(),
            ops: maker.ops.into(),
            log: maker.log.into(),
            reads: maker.reads,
            cleans: whole(maker.writes, &written),
            returns,
            rsp: shape.rsp.map(Quick::of),
            rbp: shape.rbp.map(Quick::of),
        }
    }
}

impl Maker {
    /// The value of a unit that is read.
    fn read(&mut self, unit: u16) -> u16 {
        if unit == NO_UNIT {
            return ZERO;
        }
        // What was made here has been written.
        let value = self.map[unit as usize];
        if value == unit {
            self.reads |= group(unit);
        }
        value
    }

    fn set(&mut self, i: u8, to: u16, value: u16) {
        self.map[to as usize] = value;
        self.writes |= group(to);
        if group(to) != 0 {
            self.log.push((i, to, value));
        }
    }

    /// Some bytes of a unit are set to something that is no pointer.
    fn set_part(&mut self, i: u8, to: u16, mask: u8) {
        if mask != 0xff {
            self.read(to);
        }
        self.set(i, to, ZERO);
    }

    fn temporary(&mut self) -> u16 {
        let n = self.next;
        // Room for those that settle the registers at the end is left.
        match usize::from(n) < ROOM - 64 {
            true => self.next += 1,
            false => self.usable = false,
        }
        n
    }

    fn access(&mut self, plan: &Plan, i: u8, spot: u16, at: u8, len: u8) -> QuickOp {
        let a = &plan.addresses[spot as usize];
        self.usable &= !(a.odd || a.fs && a.index != tape::slot::ZERO);
        let (index, scale) = match a.fs {
            true => (FS, 1),
            false => (place(a.index), a.scale),
        };
        QuickOp {
            kind: Kind::Check,
            insn: i,
            base: place(a.base.slot),
            index,
            scale,
            len,
            value: ZERO,
            pointer: ZERO,
            other: ZERO,
            offset: a.base.offset.wrapping_add(i64::from(at)),
            checked_at: 0,
            checked: 0,
        }
    }

    /// Adds a part of an access, to the check of the same access if that is the last thing done.
    fn add(&mut self, mut op: QuickOp, plain: Kind, checked: Kind) {
        op.kind = plain;
        if let Some(last) = self.ops.last_mut()
            && last.kind == Kind::Check
            && last.insn == op.insn
            && (last.base, last.index, last.scale) == (op.base, op.index, op.scale)
            && let Ok(back) = i32::try_from(last.offset.wrapping_sub(op.offset))
        {
            op.checked_at = last.checked_at + back;
            (op.checked, op.pointer, op.kind) = (last.checked, last.pointer, checked);
            *last = op;
            return;
        }
        self.ops.push(op);
    }

    fn check(&mut self, mut op: QuickOp, pointer: u16, size: u32) {
        if pointer == ZERO || size == 0 {
            return;
        }
        (op.pointer, op.checked) = (pointer, size);
        if op.index != 0 {
            return self.ops.push(op);
        }
        let same = self.open.iter().find(|n| {
            let o = &self.ops[**n];
            o.pointer == pointer && o.base == op.base
        });
        if let Some(n) = same {
            let o = &mut self.ops[*n];
            // Both from the base on.
            let known = o.offset.wrapping_add(i64::from(o.checked_at));
            let first = known.min(op.offset);
            let last = (known.wrapping_add(i64::from(o.checked)))
                .max(op.offset.wrapping_add(i64::from(size)));
            let (at, len) = (first.wrapping_sub(o.offset), last.wrapping_sub(first));
            if let (Ok(at), Ok(len)) = (i32::try_from(at), u32::try_from(len))
                && len < 1 << 30
            {
                (o.checked_at, o.checked) = (at, len);
                return;
            }
        }
        self.open.push(self.ops.len());
        self.ops.push(op);
    }

    fn op(&mut self, plan: &Plan, i: u8, op: &Op, trackers: Trackers) {
        match op {
            Op::Copy { to, from } => {
                let value = self.read(*from);
                self.set(i, *to, value);
            }
            Op::Part {
                to,
                from,
                len,
                whole,
                ..
            } => {
                let value = self.read(*from);
                match len {
                    8 => self.set(i, *to, value),
                    _ => self.set_part(i, *to, if *whole { 0xff } else { 0 }),
                }
            }
            Op::Clear { to, mask } => self.set_part(i, *to, *mask),
            Op::Load {
                to,
                spot,
                at,
                len,
                whole,
                ..
            } => {
                let mut load = self.access(plan, i, *spot, *at, *len);
                if *len == 8 {
                    load.value = self.temporary();
                    self.add(load, Kind::Load, Kind::CheckedLoad);
                    self.set(i, *to, load.value);
                    return;
                }
                if trackers.unwritten {
                    self.add(load, Kind::Test, Kind::CheckedTest);
                }
                self.set_part(i, *to, if *whole { 0xff } else { 0 });
            }
            Op::Store {
                from,
                spot,
                at,
                len,
            } => {
                let mut store = self.access(plan, i, *spot, *at, *len);
                store.value = self.read(*from);
                match len {
                    8 => self.add(store, Kind::Store, Kind::CheckedStore),
                    _ => self.add(store, Kind::StorePart, Kind::CheckedStorePart),
                }
            }
            Op::Check {
                spot,
                base,
                index,
                bytes,
            } => {
                let (b, x) = (self.read(*base), self.read(*index));
                let Size::Fixed(size) = plan.spots[*spot as usize].access.size else {
                    self.usable &=
                        !matches!(plan.spots[*spot as usize].access.size, Size::Repeat { .. });
                    return;
                };
                let mut op = self.access(plan, i, *spot, 0, 0);
                // Of an index that counts elements it is enough to look when the check fails.
                let pointer = match (b, x) {
                    (b, _) if !bytes => b,
                    (b, ZERO) => b,
                    (ZERO, x) => x,
                    (b, x) => {
                        let value = self.temporary();
                        (op.kind, op.pointer, op.other, op.value) = (Kind::Pointer, b, x, value);
                        self.ops.push(op);
                        op.kind = Kind::Check;
                        value
                    }
                };
                self.check(op, pointer, u32::from(size));
            }
            Op::Decide { .. } => {
                self.read(FLAGS);
            }
            Op::Arith { to, a, b, kind } => {
                let (a, b) = (self.read(*a), self.read(*b));
                let value = match (kind, a, b) {
                    (_, ZERO, ZERO) => ZERO,
                    (Arith::Add, a, ZERO) | (Arith::Add, ZERO, a) | (Arith::Sub, a, ZERO) => a,
                    _ => {
                        let value = self.temporary();
                        let mut op = self.empty(i, Kind::Arith(*kind));
                        (op.pointer, op.other, op.value) = (a, b, value);
                        self.ops.push(op);
                        value
                    }
                };
                self.set(i, *to, value);
            }
            Op::Move {
                to,
                from,
                condition,
                wide,
            } => {
                let (old, new) = (self.read(*to), self.read(*from));
                if !wide {
                    return self.set(i, *to, ZERO);
                }
                if old == new {
                    return;
                }
                let value = self.temporary();
                let mut op = self.empty(i, Kind::Select);
                (op.pointer, op.other, op.value) = (new, old, value);
                (op.base, op.offset) = (place(condition.slot), condition.offset);
                self.ops.push(op);
                self.set(i, *to, value);
            }
            Op::Mix {
                to, mask, sources, ..
            } => {
                for s in sources {
                    match s {
                        Source::Unit(u, _) => {
                            self.read(*u);
                        }
                        Source::Memory { spot, at, len } => {
                            let test = self.access(plan, i, *spot, *at, *len);
                            self.add(test, Kind::Test, Kind::CheckedTest);
                        }
                    }
                }
                if *to == FLAGS {
                    if mask & 0x3f != 0x3f {
                        self.read(FLAGS);
                    }
                    self.set(i, FLAGS, ZERO);
                } else if self.map[*to as usize] == *to {
                    // It stays what it is, but is written.
                    self.read(*to);
                }
            }
            Op::Grow { from, by } => {
                let mut op = self.empty(i, Kind::Grow);
                (op.base, op.offset, op.checked) = (place(from.slot), from.offset, *by);
                self.ops.push(op);
            }
            Op::Global { to, block } => {
                let value = self.temporary();
                let mut op = self.empty(i, Kind::Global);
                (op.value, op.checked) = (value, block.0);
                self.ops.push(op);
                self.set(i, *to, value);
            }
            // A frame is a place that must be looked up.
            Op::Local { .. } | Op::CopyMemory { .. } | Op::Overwrite { .. } => self.usable = false,
            Op::Enter(_) | Op::Asks { .. } | Op::Return { .. } => {}
        }
    }

    fn empty(&self, insn: u8, kind: Kind) -> QuickOp {
        QuickOp {
            kind,
            insn,
            base: 0,
            index: 0,
            scale: 0,
            len: 0,
            value: ZERO,
            pointer: ZERO,
            other: ZERO,
            offset: 0,
            checked_at: 0,
            checked: 0,
        }
    }

    /// Assignments that bring the units to what they are at the end, in an order in which they can be made.
    fn ends(&mut self, written: &[u16]) -> Vec<(u16, u16)> {
        let changed: Vec<(u16, u16)> = written
            .iter()
            .map(|to| (*to, self.map[*to as usize]))
            .filter(|(to, value)| to != value)
            .collect();
        let overwritten = |u: u16| changed.iter().any(|(to, _)| *to == u);
        let mut out = Vec::new();
        let mut late = Vec::new();
        for (to, value) in &changed {
            if *value < ZERO && overwritten(*value) {
                let kept = self.next;
                self.next += 1;
                self.usable &= usize::from(self.next) < ROOM;
                out.push((kept, *value));
                late.push((*to, kept));
            } else {
                late.push((*to, *value));
            }
        }
        out.extend(late);
        out
    }
}

/// All that the quick way changes and looks at.
pub(super) struct Ground<'a> {
    pub(super) units: &'a mut [Cell; ROOM],
    pub(super) memory: &'a mut Shadow,
    pub(super) heap: &'a Heap,
    pub(super) row: &'a Row,
    pub(super) red_zone: u64,
}

impl Fast {
    /// Goes the whole way, or stops before an instruction with the registers as they are there.
    #[inline]
    pub(super) fn run(&self, g: &mut Ground<'_>) -> Result<(), u8> {
        for op in &self.ops {
            let done = match op.kind {
                Kind::Check => g.check(op, g.address(op)),
                Kind::Load => g.load(op, g.address(op)),
                Kind::CheckedLoad => {
                    let at = g.address(op);
                    g.check(op, at) && g.load(op, at)
                }
                Kind::Test => g.test(op, g.address(op)),
                Kind::CheckedTest => {
                    let at = g.address(op);
                    g.check(op, at) && g.test(op, at)
                }
                Kind::Store => g.store(op, g.address(op)),
                Kind::CheckedStore => {
                    let at = g.address(op);
                    g.check(op, at) && g.store(op, at)
                }
                Kind::StorePart => g.store_part(op, g.address(op)),
                Kind::CheckedStorePart => {
                    let at = g.address(op);
                    g.check(op, at) && g.store_part(op, at)
                }
                Kind::Pointer => {
                    let (b, x) = (g.value(op.pointer), g.value(op.other));
                    let value = match (b.from(), x.from()) {
                        (_, NONE) => b,
                        (NONE, _) => x,
                        _ => Cell::PLAIN,
                    };
                    g.set(op.value, value)
                }
                Kind::Arith(kind) => {
                    let (a, b) = (g.value(op.pointer).from(), g.value(op.other).from());
                    g.set(op.value, Cell::new(arithmetic(kind, a, b), 0))
                }
                Kind::Select => {
                    let condition = g.row[op.base as usize].wrapping_add_signed(op.offset);
                    let taken = if condition & 1 != 0 {
                        op.pointer
                    } else {
                        op.other
                    };
                    let value = g.value(taken);
                    g.set(op.value, value)
                }
                Kind::Global => g.set(op.value, Cell::new(BlockId(op.checked), 0)),
                Kind::Grow => {
                    let from = g.row[op.base as usize].wrapping_add_signed(op.offset);
                    let by = u64::from(op.checked);
                    let top = from.wrapping_sub(g.red_zone);
                    g.memory.fill(top.wrapping_sub(by), by, true);
                    true
                }
            };
            if !done {
                self.settle(op.insn, g.units);
                return Err(op.insn);
            }
        }
        for (to, value) in &self.ends {
            let value = g.value(*value);
            g.set(*to, value);
        }
        Ok(())
    }

    /// Brings the registers to what they are before an instruction.
    #[cold]
    fn settle(&self, insn: u8, units: &mut [Cell; ROOM]) {
        let before = *units;
        for (_, to, value) in self.log.iter().take_while(|(i, ..)| *i < insn) {
            units[*to as usize] = before[*value as usize];
        }
    }
}

impl Ground<'_> {
    #[inline]
    fn address(&self, op: &QuickOp) -> u64 {
        let scaled = self.row[op.index as usize].wrapping_mul(u64::from(op.scale));
        self.row[op.base as usize]
            .wrapping_add(scaled)
            .wrapping_add_signed(op.offset)
    }

    #[inline]
    fn value(&self, n: u16) -> Cell {
        self.units[n as usize & (ROOM - 1)]
    }

    #[inline]
    fn set(&mut self, n: u16, value: Cell) -> bool {
        self.units[n as usize & (ROOM - 1)] = value;
        true
    }

    /// Where the pointer is of no block, everything is inside.
    #[inline]
    fn check(&self, op: &QuickOp, at: u64) -> bool {
        let from: BlockId = self.value(op.pointer).from();
        let (begin, len) = self.heap.bounds(from);
        let offset = at
            .wrapping_add_signed(i64::from(op.checked_at))
            .wrapping_sub(begin);
        offset < len && len - offset >= u64::from(op.checked)
    }

    #[inline]
    fn load(&mut self, op: &QuickOp, at: u64) -> bool {
        let cell = self.memory.load(at, 8);
        self.set(op.value, cell);
        cell.unwritten() == 0
    }

    #[inline]
    fn test(&self, op: &QuickOp, at: u64) -> bool {
        self.memory.load(at, op.len).unwritten() == 0
    }

    #[inline]
    fn store(&mut self, op: &QuickOp, at: u64) -> bool {
        let value = self.value(op.value);
        self.memory.store(at, 8, value);
        true
    }

    #[inline]
    fn store_part(&mut self, op: &QuickOp, at: u64) -> bool {
        self.memory.store(at, op.len, Cell::PLAIN);
        true
    }
}
