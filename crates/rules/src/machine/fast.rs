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

use jit::{Arith, Cell, FIRST_VALUE, FS, Kind, Op as QuickOp, Quick, ROOM, Way};
use tape::{Shape, Term};

use super::RED_ZONE;
use super::plan::*;
use image::effects::Size;

fn quick(t: Term) -> Quick {
    Quick {
        at: place(t.slot),
        offset: t.offset,
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

/// One way through a superblock.
#[derive(Debug)]
pub(super) struct Fast {
    pub(super) way: Way,
    /// Units that change, instruction by instruction.
    log: Box<[(u8, u16, u16)]>,
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
    pub(super) fn of(plan: &Plan, shape: &Shape, trackers: Trackers) -> Fast {
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
        let (mut returns, mut handed) = (None, None);
        for (n, (i, op)) in plan.ops[..end].iter().enumerate() {
            match op {
                Op::Return { slot, result } if n + 1 == end => {
                    returns = Some((quick(*slot), quick(*result)));
                }
                Op::Enter(_) | Op::Return { .. } => {
                    // What is before it in its instruction is left to others too.
                    handed = Some(*i);
                    break;
                }
                _ => maker.op(plan, *i, op, trackers),
            }
        }
        if let Some(insn) = handed {
            debug_assert!(maker.ops.iter().all(|o| o.insn < insn));
        }
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
            usable: maker.usable,
            leaves: leaves.fold(0, |m, (to, _)| m | group(*to)),
            ends: ends.into(),
            ops: maker.ops.into(),
            zero: ZERO,
            reads: maker.reads,
            cleans: whole(maker.writes, &written),
            returns,
            handed,
            rsp: shape.rsp.map(quick),
            rbp: shape.rbp.map(quick),
        };
        Fast {
            way,
            log: maker.log.into(),
        }
    }

    /// Brings the registers to what they are before an instruction.
    #[cold]
    pub(super) fn settle(&self, insn: u8, units: &mut [Cell; ROOM]) {
        let log = self.log.iter().take_while(|(i, ..)| *i < insn);
        let values: Vec<Cell> = log.clone().map(|(.., v)| units[*v as usize]).collect();
        for ((_, to, _), value) in log.zip(values) {
            units[*to as usize] = value;
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
            len: u32::from(len),
            value: ZERO,
            pointer: ZERO,
            other: ZERO,
            offset: a.base.offset.wrapping_add(i64::from(at)),
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
    fn pointer(&mut self, i: u8, base: u16, index: u16) -> u16 {
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
                let mut op = self.empty(i, Kind::Forget);
                let below = (RED_ZONE as i64).wrapping_add(i64::from(*by));
                (op.base, op.offset) = (place(from.slot), from.offset.wrapping_sub(below));
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
                let at = (place(address.slot), address.offset);
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
                (op.base, op.offset) = (place(slot.slot), slot.offset);
                op.checked = u32::from(*function);
                self.ops.push(op);
            }
            Op::Enter(_) | Op::Return { .. } => {}
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
            let until = next.map_or(u8::MAX, |(j, ..)| *j);
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
