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

use jit::{Arith, Call, Cell, FIRST_VALUE, FS, Kind, Op as QuickOp, Part, Quick, ROOM, Way};
use smallvec::SmallVec;
use tape::{Shape, Term};

use super::RED_ZONE;
use super::plan::*;
use image::effects::Size;

/// Values of a trace; the row has no room for more.
const MOST_VALUES: usize = 200;

/// One way through a superblock, or a trace: one through several that follow each other.
#[derive(Debug)]
pub(super) struct Fast {
    pub(super) way: Way,
    /// Units that change, instruction by instruction, with the number of the record above the instruction's.
    log: Box<[(u16, u16, u16)]>,
    /// Groups of units that change.
    pub(super) writes: u64,
}

/// Where rsp, rbp and the values of the record at hand are in the row.
#[derive(Clone, Copy)]
struct Place {
    rsp: Quick,
    rbp: Quick,
    first: u8,
}

impl Place {
    fn of(&self, t: Term) -> Quick {
        let from = |q: Quick| Quick {
            at: q.at,
            offset: q.offset.wrapping_add(t.offset),
        };
        match t.slot {
            tape::slot::ZERO => from(Quick { at: 0, offset: 0 }),
            tape::slot::RSP => from(self.rsp),
            tape::slot::RBP => from(self.rbp),
            n => from(Quick {
                at: n + self.first,
                offset: 0,
            }),
        }
    }
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

/// The first unit of a group, and the one behind its last. That of the upper parts of vector registers has their lower
/// parts in between.
pub(super) fn group_range(bit: u32) -> (usize, usize) {
    let (first, end) = match bit {
        0..=16 => (bit, bit + 1),
        17 => (17, 32),
        18..=49 => (32 + (bit - 18) * 8, 34 + (bit - 18) * 8),
        50 => (32, 288),
        _ => (288, u32::from(ZERO)),
    };
    (first as usize, end as usize)
}

/// The units of a group.
pub(super) fn group_units(bit: u32) -> impl Iterator<Item = usize> {
    let (first, end) = group_range(bit);
    (first..end).filter(move |u| bit != 50 || u % 8 >= 2)
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
    log: Vec<(u16, u16, u16)>,
    /// Of the record at hand.
    place: Place,
    next: u16,
    reads: u64,
    writes: u64,
    /// Checks that more accesses may be added to.
    open: Vec<usize>,
    usable: bool,
}

impl Fast {
    pub(super) fn of(plan: &Plan, shape: &Shape, trackers: Trackers) -> Fast {
        Fast::over(&[(0, plan, shape)], trackers)
    }

    /// The way through records of shapes that follow each other, with the shapes' numbers.
    pub(super) fn over(records: &[(u32, &Plan, &Shape)], trackers: Trackers) -> Fast {
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
            place: Place {
                rsp: Quick { at: 1, offset: 0 },
                rbp: Quick { at: 2, offset: 0 },
                first: FIRST_VALUE as u8,
            },
            next: UNITS as u16,
            reads: 0,
            writes: 0,
            open: Vec::new(),
            usable: true,
        };
        let (mut returns, mut handed, mut call) = (None, None, None);
        let (mut rsp, mut rbp) = (None, None);
        let mut more = Vec::new();
        let values = records.iter().map(|(_, _, s)| usize::from(s.values));
        maker.usable &= records.len() == 1 || values.sum::<usize>() <= MOST_VALUES;
        for (n, (number, plan, shape)) in records.iter().enumerate() {
            let last = n + 1 == records.len();
            if n > 0 {
                more.push(Part {
                    shape: *number,
                    executed: shape.executed,
                    values: shape.values,
                    rsp: maker.place.rsp,
                    rbp: maker.place.rbp,
                });
            }
            let end = plan.first[shape.executed as usize] as usize;
            for (m, (i, op)) in plan.ops[..end].iter().enumerate() {
                let insn = u16::from(*i) | (n as u16) << 8;
                match op {
                    Op::Return { slot, result } if m + 1 == end => {
                        let (slot, result) = (maker.place.of(*slot), maker.place.of(*result));
                        match last {
                            true => returns = Some((slot, result)),
                            false => maker.returns(insn, slot),
                        }
                    }
                    Op::Enter(_) | Op::Return { .. } => {
                        // What is before it in its instruction is left to others too.
                        handed = Some(*i);
                        if let Op::Enter(entry) = op
                            && plan.first[usize::from(*i)] as usize == m
                        {
                            call = Some(maker.call(entry, plan.pcs[usize::from(*i)]));
                        }
                        if let Some((_, Op::Return { slot, result })) = plan.ops[..end].last() {
                            returns = Some((maker.place.of(*slot), maker.place.of(*result)));
                        }
                        break;
                    }
                    _ => maker.op(plan, insn, op, trackers),
                }
            }
            // Only where it is at the end of all is it said what is not known, or done by others.
            let known = shape.rsp.is_some() && shape.rbp.is_some();
            maker.usable &= last || known && maker.usable;
            maker.usable &= records.len() == 1 || handed.is_none();
            rsp = shape.rsp.map(|t| maker.place.of(t));
            rbp = shape.rbp.map(|t| maker.place.of(t));
            if !last && maker.usable {
                maker.place = Place {
                    rsp: rsp.expect("just seen"),
                    rbp: rbp.expect("just seen"),
                    first: maker.place.first + shape.values,
                };
            } else {
                break;
            }
        }
        if let Some(insn) = handed {
            debug_assert!(records.len() > 1 || maker.ops.iter().all(|o| o.insn < insn.into()));
        }
        let (_, _, shape) = records[0];
        let mut written: Vec<u16> = maker.log.iter().map(|(_, to, _)| *to).collect();
        written.sort_unstable();
        written.dedup();
        // While nothing is unwritten in any register, all is known of the flags that can be. Otherwise a way that
        // sets them is not gone until others have cleared them.
        if let Some(flags) = written.iter().position(|u| *u == FLAGS)
            && maker.map[FLAGS as usize] == ZERO
        {
            maker.reads |= group(FLAGS);
            written.remove(flags);
        }
        let ends = maker.ends(&written);
        maker.trim_forgotten();
        if trackers.unwritten {
            maker.drop_loads(&ends);
        }
        let leaves = ends.iter().filter(|(_, value)| *value != ZERO);
        let way = Way {
            executed: shape.executed,
            values: shape.values,
            more: more.into(),
            usable: maker.usable,
            leaves: leaves.fold(0, |m, (to, _)| m | group(*to)),
            ends: ends.into(),
            ops: maker.ops.into(),
            zero: ZERO,
            reads: maker.reads,
            cleans: whole(maker.writes, &written),
            returns,
            handed,
            call,
            rsp,
            rbp,
        };
        Fast {
            way,
            log: maker.log.into(),
            writes: maker.writes,
        }
    }

    /// Brings the registers to what they are before an instruction.
    #[cold]
    pub(super) fn settle(&self, insn: u16, units: &mut [Cell; ROOM]) {
        let log = self.log.iter().take_while(|(i, ..)| *i < insn);
        let values: SmallVec<[Cell; 64]> = log.clone().map(|(.., v)| units[*v as usize]).collect();
        for ((_, to, _), value) in log.zip(values) {
            units[*to as usize] = value;
        }
    }
}

impl Maker {
    /// A function is entered.
    fn call(&self, entry: &Entry, pc: u64) -> Call {
        Call {
            function: entry.function.into(),
            pc,
            slot: self.place.of(entry.slot),
            arguments: {
                let mut told = entry.arguments.iter().chain(&entry.measured);
                std::array::from_fn(|_| self.place.of(*told.next().expect("as many as that")))
            },
        }
    }

    /// A function returns, and the trace goes on.
    fn returns(&mut self, insn: u16, slot: Quick) {
        let mut op = self.empty(insn, Kind::Return);
        (op.base, op.offset) = (slot.at, slot.offset);
        self.ops.push(op);
    }

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

    fn set(&mut self, i: u16, to: u16, value: u16) {
        self.map[to as usize] = value;
        self.writes |= group(to);
        if group(to) != 0 {
            self.log.push((i, to, value));
        }
    }

    /// Some bytes of a unit are set to something that is no pointer.
    fn set_part(&mut self, i: u16, to: u16, mask: u8) {
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

    fn access(&mut self, plan: &Plan, i: u16, spot: u16, at: u8, len: u8) -> QuickOp {
        let a = &plan.addresses[spot as usize];
        self.usable &= !(a.odd || a.fs && a.index != tape::slot::ZERO);
        let base = self.place.of(a.base);
        let index = self.place.of(Term {
            slot: a.index,
            offset: 0,
        });
        let (index, scale, beside) = match a.fs {
            true => (FS, 1, 0),
            false => {
                let beside = index.offset.wrapping_mul(i64::from(a.scale));
                (index.at, a.scale, beside)
            }
        };
        QuickOp {
            kind: Kind::Check,
            insn: i,
            base: base.at,
            index,
            scale,
            len: u32::from(len),
            value: ZERO,
            pointer: ZERO,
            other: ZERO,
            offset: base.offset.wrapping_add(beside).wrapping_add(i64::from(at)),
            checked_at: 0,
            checked: 0,
            cell: Cell::PLAIN,
        }
    }

    /// Bytes that were read or written here already, in the same place: they have been written by now.
    fn is_written(&self, test: &QuickOp) -> bool {
        let last = self.ops.iter().rev();
        let since = last.take_while(|o| o.kind != Kind::Forget);
        let place = |o: &QuickOp| (o.base, o.index, o.scale, o.offset);
        since
            .filter(|o| o.kind != Kind::Check && o.len >= test.len)
            .any(|o| place(o) == place(test))
    }

    /// Bytes that are next to others that are read: they are looked at together. The way may be left earlier for it
    /// than it had to be.
    fn widen_test(&mut self, op: &QuickOp) -> bool {
        let through = |o: &QuickOp| (o.base, o.index, o.scale) == (op.base, op.index, op.scale);
        let end = |o: &QuickOp| o.offset.wrapping_add(i64::from(o.len));
        for o in self.ops.iter_mut().rev() {
            match o.kind {
                Kind::Test | Kind::CheckedTest if through(o) => {
                    let (first, last) = (o.offset.min(op.offset), end(o).max(end(op)));
                    let apart = o.offset > end(op) || op.offset > end(o);
                    let back = o.offset.wrapping_sub(first);
                    if apart || last.wrapping_sub(first) > 8 {
                        continue;
                    }
                    // What is checked stays where it is.
                    o.checked_at += back as i32;
                    (o.offset, o.len) = (first, (last - first) as u32);
                    return true;
                }
                Kind::Forget => return false,
                // What is written in between need not have been before.
                Kind::Store | Kind::CheckedStore | Kind::StorePart | Kind::CheckedStorePart
                    if through(o) =>
                {
                    return false;
                }
                _ => {}
            }
        }
        false
    }

    /// What becomes unwritten twice, and is not looked at in between: once is enough. A call makes unwritten what is
    /// below it, and often the stack has just grown there.
    fn trim_forgotten(&mut self) {
        for n in (0..self.ops.len()).rev() {
            let mut op = self.ops[n];
            let later = self.ops[n + 1..].iter();
            if op.kind != Kind::Forget {
                continue;
            }
            for o in later.take_while(|o| !o.kind.may_stop()) {
                if o.kind != Kind::Forget || (o.base, o.index) != (op.base, op.index) {
                    continue;
                }
                let end = |o: &QuickOp| o.offset.wrapping_add(i64::from(o.len));
                if o.offset <= op.offset && op.offset < end(o) {
                    let kept = end(&op).wrapping_sub(end(o)).max(0);
                    op.offset = end(&op) - kept;
                    op.len = kept as u32;
                }
            }
            self.ops[n] = op;
        }
        self.ops.retain(|o| o.kind != Kind::Forget || o.len > 0);
    }

    /// Adds a part of an access, to the check of the same access if that is the last thing done.
    fn add(&mut self, mut op: QuickOp, plain: Kind, checked: Kind) {
        op.kind = plain;
        if plain == Kind::Test && self.is_written(&op) {
            return;
        }
        if plain == Kind::Test && self.widen_test(&op) {
            return;
        }
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

    /// The pointer of the sum of two values.
    fn pointer(&mut self, i: u16, base: u16, index: u16) -> u16 {
        let known = self.ops.iter().find(|o| {
            let values = (o.pointer, o.other) == (base, index);
            o.kind == Kind::Pointer && values
        });
        if let Some(known) = known {
            return known.value;
        }
        let value = self.temporary();
        let mut op = self.empty(i, Kind::Pointer);
        (op.pointer, op.other, op.value) = (base, index, value);
        self.ops.push(op);
        value
    }

    fn check(&mut self, mut op: QuickOp, pointer: u16, size: u32) {
        if pointer == ZERO || size == 0 {
            return;
        }
        (op.pointer, op.checked) = (pointer, size);
        let same = self.open.iter().find(|n| {
            let o = &self.ops[**n];
            let through = (o.pointer, o.base, o.index) == (pointer, op.base, op.index);
            through && (op.index == 0 || o.scale == op.scale)
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

    fn op(&mut self, plan: &Plan, i: u16, op: &Op, trackers: Trackers) {
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
                let op = self.access(plan, i, *spot, 0, 0);
                // Of an index that counts elements it is enough to look when the check fails.
                let pointer = match (b, x) {
                    (b, _) if !bytes => b,
                    (b, ZERO) => b,
                    (ZERO, x) => x,
                    (b, x) => self.pointer(i, b, x),
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
                let condition = self.place.of(*condition);
                (op.base, op.offset) = (condition.at, condition.offset);
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
                let mut op = self.empty(i, Kind::Forget);
                let below = (RED_ZONE as i64).wrapping_add(i64::from(*by));
                let from = self.place.of(*from);
                (op.base, op.offset) = (from.at, from.offset.wrapping_sub(below));
                op.len = *by;
                self.ops.push(op);
            }
            Op::Global { to, block } => {
                let value = self.temporary();
                let mut op = self.empty(i, Kind::Constant);
                (op.value, op.cell) = (value, Cell::new(*block, 0));
                self.ops.push(op);
                self.set(i, *to, value);
            }
            Op::Local { to, address, local } => {
                let address = self.place.of(*address);
                let at = (address.at, address.offset);
                // One of another function in between may show that this function was left.
                let mut variables = self.ops.iter().filter(|o| o.kind == Kind::Variable);
                let known = variables
                    .next_back()
                    .filter(|o| o.checked == u32::from(*local) && (o.base, o.offset) == at);
                let value = match known {
                    Some(known) => known.value,
                    None => {
                        let value = self.temporary();
                        let mut op = self.empty(i, Kind::Variable);
                        (op.base, op.offset) = at;
                        (op.checked, op.value) = (u32::from(*local), value);
                        self.ops.push(op);
                        value
                    }
                };
                self.set(i, *to, value);
            }
            Op::CopyMemory { .. } | Op::Overwrite { .. } => self.usable = false,
            Op::Asks { function, slot } => {
                let mut op = self.empty(i, Kind::Name);
                let slot = self.place.of(*slot);
                (op.base, op.offset) = (slot.at, slot.offset);
                op.checked = u32::from(*function);
                self.ops.push(op);
            }
            Op::Enter(_) | Op::Return { .. } => {}
        }
    }

    fn empty(&self, insn: u16, kind: Kind) -> QuickOp {
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
            cell: Cell::PLAIN,
        }
    }

    /// What is loaded is often done something with that leaves no pointer, as in arithmetic on vectors. Then only whether
    /// it was written matters, unless the way may be left while a register has it.
    fn drop_loads(&mut self, ends: &[(u16, u16)]) {
        for n in 0..self.ops.len() {
            let value = self.ops[n].value;
            let kind = match self.ops[n].kind {
                Kind::Load => Kind::Test,
                Kind::CheckedLoad => Kind::CheckedTest,
                _ => continue,
            };
            let uses = |o: &QuickOp| [o.pointer, o.other, o.value].contains(&value);
            let others = self.ops.iter().enumerate().filter(|(m, _)| *m != n);
            let mut others = others.map(|(_, o)| o);
            let kept = ends.iter().any(|(_, v)| *v == value);
            if !kept && !others.any(uses) && !self.may_be_seen(value) {
                (self.ops[n].kind, self.ops[n].value) = (kind, ZERO);
            }
        }
    }

    /// The way may be left while a unit has this value.
    fn may_be_seen(&self, value: u16) -> bool {
        let mut log = self.log.iter().enumerate();
        log.any(|(n, (i, to, v))| {
            let next = self.log[n + 1..].iter().find(|(_, other, _)| other == to);
            let until = next.map_or(u16::MAX, |(j, ..)| *j);
            let there = |o: &QuickOp| *i < o.insn && o.insn <= until;
            *v == value && self.ops.iter().any(|o| o.kind.may_stop() && there(o))
        })
    }

    /// Assignments that bring the units to what they are at the end, in an order in which they can be made.
    fn ends(&mut self, written: &[u16]) -> Vec<(u16, u16)> {
        let changed: Vec<(u16, u16)> = written
            .iter()
            .map(|to| (*to, self.map[*to as usize]))
            .filter(|(to, value)| to != value)
            .collect();
        let mut left = changed;
        let mut out = Vec::new();
        while let Some((first, _)) = left.first().copied() {
            // One that nobody has to read any more.
            let free = left.iter().position(|(to, _)| {
                let mut others = left.iter().filter(|(other, _)| other != to);
                others.all(|(_, value)| value != to)
            });
            if let Some(n) = free {
                out.push(left.remove(n));
                continue;
            }
            // They go round in a circle.
            let kept = self.next;
            self.next += 1;
            self.usable &= usize::from(self.next) < ROOM;
            out.push((kept, first));
            for (_, value) in left.iter_mut().filter(|(_, value)| *value == first) {
                *value = kept;
            }
        }
        out
    }
}
