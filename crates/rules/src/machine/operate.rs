//! Transfer functions run: what a record does to the shadow of registers and memory.

use super::*;

impl Machine {
    /// Goes through records; returns where it ended.
    pub(super) fn records(&mut self, records: &[u8], mut at: usize, end: usize) -> usize {
        while at < end {
            let bytes = &records[at..];
            let shape = u32::from_le_bytes(bytes[..4].try_into().expect("four bytes"));
            at += self.record(bytes, shape as usize);
        }
        at
    }

    fn record(&mut self, bytes: &[u8], shape: usize) -> usize {
        let Some(fast) = &self.fasts[shape] else {
            let (n, s) = &self.shapes[shape];
            let fast = Fast::of(&self.plans[*n as usize], *n, s, self.trackers);
            self.fasts[shape] = Some(Box::new(fast));
            return self.record(bytes, shape);
        };
        let now = &mut self.now;
        let row = &mut self.row;
        (row[1], row[2], row[3]) = (now.rsp, now.rbp, now.fs_base);
        let length = tape::RECORD_HEAD + 8 * usize::from(fast.values);
        let values = bytes[tape::RECORD_HEAD..length].chunks_exact(8);
        for (to, value) in row[fast::FIRST_VALUE..].iter_mut().zip(values) {
            *to = u64::from_le_bytes(value.try_into().expect("eight bytes"));
        }
        now.rsp = fast.rsp.map_or(now.rsp, |t| t.get(row));
        now.rbp = fast.rbp.map_or(now.rbp, |t| t.get(row));
        let executed = u64::from(fast.executed);
        let fast_plan = fast.plan;
        let mut left = Ok(());
        if now.closed == 0 {
            left = if self.quick && fast.usable && fast.reads & now.tainted == 0 {
                let mut ground = fast::Ground {
                    units: &mut now.units,
                    memory: &mut self.memory,
                    heap: &self.heap,
                    row,
                    red_zone: RED_ZONE,
                };
                fast.run(&mut ground)
            } else {
                Err(0)
            };
        } else if !fast.quiet {
            left = Err(0);
        }
        match left {
            Ok(()) => {
                if now.closed == 0 {
                    now.tainted &= !fast.cleans;
                    now.telling |= fast.leaves;
                }
                if let Some((slot, result, i)) = fast.returns {
                    let (slot, result) = (slot.get(row), result.get(row));
                    if slot >= now.slot || now.closed > 0 {
                        let pc = self.plans[fast.plan as usize].pcs[usize::from(i)];
                        self.leave(slot, result, self.step + u64::from(i), pc);
                    }
                }
            }
            Err(i) => self.slow(shape, i, bytes),
        }
        self.now.last = (fast_plan, executed as u8);
        self.step += executed;
        length
    }

    /// All operations of a record, one by one, from an instruction on.
    fn slow(&mut self, shape: usize, insn: u8, bytes: &[u8]) {
        let (number, s) = &self.shapes[shape];
        let (number, executed) = (*number, s.executed as usize);
        let plan = self.plans[number as usize].clone();
        let values = Values {
            record: bytes,
            rsp: self.row[1],
            rbp: self.row[2],
            fs_base: self.row[3],
        };
        let ops = plan.first[insn as usize] as usize..plan.first[executed] as usize;
        for (i, op) in &plan.ops[ops] {
            match op {
                Op::Enter(e) => {
                    let arguments = e.arguments.map(|t| values.get(t));
                    let at = self.step + u64::from(*i);
                    let pc = plan.pcs[*i as usize];
                    let caller = match i.checked_sub(1) {
                        Some(i) => (number, i),
                        None => (self.now.last.0, self.now.last.1.wrapping_sub(1)),
                    };
                    self.enter(e.function, arguments, values.get(e.slot), at, (pc, caller));
                }
                Op::Asks { function, slot } => {
                    self.now.asked = Some((*function, values.get(*slot)));
                }
                Op::Return { slot, result } => {
                    let slot = values.get(*slot);
                    if slot >= self.now.slot || self.now.closed > 0 {
                        let at = self.step + u64::from(*i);
                        self.leave(slot, values.get(*result), at, plan.pcs[*i as usize]);
                    }
                }
                _ if self.now.closed > 0 => {}
                _ => self.operate(op, &plan, &values, *i),
            }
        }
        self.now.telling |= plan.writes;
        let mut groups = self.now.tainted | plan.writes;
        self.now.tainted = 0;
        while groups != 0 {
            let bit = groups.trailing_zeros();
            let units = &self.now.units;
            if fast::group_units(bit).any(|u| units[u].unwritten() != 0) {
                self.now.tainted |= 1 << bit;
            }
            groups &= groups - 1;
        }
    }

    #[inline]
    pub(super) fn operate(&mut self, op: &Op, plan: &Plan, values: &Values<'_>, i: u8) {
        let units = &mut self.now.units;
        match op {
            Op::Copy { to, from } => units[*to as usize] = units[*from as usize],
            Op::Load {
                to,
                to_at,
                spot,
                at,
                len,
                whole,
            } => {
                let address = plan.address(*spot, values).wrapping_add(u64::from(*at));
                let cell = self.memory.load(address, *len);
                if *len == 8 || *whole {
                    units[*to as usize] = cell;
                } else {
                    part(&mut units[*to as usize], *to_at, *len, cell.unwritten());
                }
            }
            Op::Store {
                from,
                spot,
                at,
                len,
            } => {
                let address = plan.address(*spot, values).wrapping_add(u64::from(*at));
                self.memory.store(address, *len, units[*from as usize]);
            }
            Op::Check {
                spot,
                base,
                index,
                bytes,
            } => {
                let known = |u: u16| {
                    if u == NO_UNIT {
                        Cell::default()
                    } else {
                        units[u as usize]
                    }
                };
                let (b, x) = (known(*base), known(*index));
                let pointed = if *bytes || x.from() == DIFFERENCE {
                    x.from()
                } else {
                    NONE
                };
                let from = match (b.from(), pointed) {
                    (from, NONE) => from,
                    (NONE, from) => from,
                    _ => NONE,
                };
                if (b.unwritten() | x.unwritten()) != 0 {
                    let register = if b.unwritten() != 0 { *base } else { *index };
                    self.used(plan, i, Some(register as u8));
                }
                if from != NONE || self.curious {
                    self.access(
                        plan,
                        *spot,
                        values,
                        i,
                        from,
                        if b.from() == from { *base } else { *index },
                    );
                }
            }
            Op::Part {
                to,
                to_at,
                from,
                from_at,
                len,
                whole,
            } => {
                let bits = units[*from as usize].unwritten() >> from_at;
                let kept = if *len == 8 {
                    units[*from as usize].from()
                } else {
                    NONE
                };
                let unit = &mut units[*to as usize];
                part(unit, *to_at, *len, bits);
                unit.set_from(kept);
                if *whole {
                    unit.set_unwritten(unit.unwritten() & 0x0f);
                }
            }
            Op::Clear { to, mask } => {
                let unit = &mut units[*to as usize];
                *unit = Cell::new(NONE, unit.unwritten() & !mask);
            }
            Op::Arith { to, a, b, kind } => {
                let known = |u: u16| {
                    if u == NO_UNIT {
                        NONE
                    } else {
                        units[u as usize].from()
                    }
                };
                let from = arithmetic(*kind, known(*a), known(*b));
                units[*to as usize].set_from(from);
            }
            Op::Move {
                to,
                from,
                condition,
                wide,
            } => {
                if values.get(*condition) & 1 != 0 {
                    units[*to as usize] = units[*from as usize];
                }
                if !wide {
                    let unit = &mut units[*to as usize];
                    *unit = Cell::new(NONE, unit.unwritten() & 0x0f);
                }
            }
            Op::Mix {
                to,
                mask,
                mix,
                sources,
            } => {
                let mut any = false;
                let mut all = !sources.is_empty();
                let mut bytes = 0;
                for s in sources {
                    let (bits, wanted) = match s {
                        Source::Unit(u, m) => (units[*u as usize].unwritten() & m, *m),
                        Source::Memory { spot, at, len } => {
                            let address = plan.address(*spot, values);
                            let cell = self.memory.load(address.wrapping_add(u64::from(*at)), *len);
                            (cell.unwritten(), ((1u16 << len) - 1) as u8)
                        }
                    };
                    // Compilers compare strings by the word, though they may end in it: there the
                    // bytes that were written decide, and it cannot be told without values.
                    any |= match *to == plan::FLAGS {
                        true => bits != 0 && bits == wanted,
                        false => bits != 0,
                    };
                    all &= bits == wanted;
                    bytes |= match s {
                        Source::Unit(_, m) => bits >> m.trailing_zeros(),
                        Source::Memory { at, .. } => bits << at,
                    };
                }
                let bad = match mix {
                    Mix::Any if any => *mask,
                    Mix::All if all => *mask,
                    Mix::Bytes => bytes << mask.trailing_zeros() & mask,
                    _ => 0,
                };
                let unit = &mut units[*to as usize];
                unit.set_unwritten(unit.unwritten() & !mask | bad);
            }
            Op::Decide { mask } => {
                if units[plan::FLAGS as usize].unwritten() & mask != 0 {
                    self.used(plan, i, None);
                }
            }
            Op::Grow { from, by } => {
                let by = u64::from(*by);
                let top = values.get(*from).wrapping_sub(RED_ZONE);
                self.memory.fill(top.wrapping_sub(by), by, true);
            }
            Op::CopyMemory { to, from } => {
                let mut list = Vec::new();
                plan.spots[*from as usize].stretches(values, &mut list);
                plan.spots[*to as usize].stretches(values, &mut list);
                if let [(from, len), (to, _)] = list[..] {
                    self.memory.copy(to, from, len);
                }
            }
            Op::Overwrite { spot } => {
                let mut list = Vec::new();
                plan.spots[*spot as usize].stretches(values, &mut list);
                for (at, len) in list {
                    self.memory.fill(at, len, false);
                }
            }
            Op::Global { to, block } => units[*to as usize] = Cell::new(*block, 0),
            Op::Local { to, address, local } => {
                let at = values.get(*address);
                let block = self.local(at, *local, self.step + u64::from(i));
                self.now.units[*to as usize] = Cell::new(block, 0);
            }
            Op::Enter(_) | Op::Asks { .. } | Op::Return { .. } => {}
        }
    }

    /// An access through a pointer that came from a block.
    #[inline]
    pub(super) fn access(
        &mut self,
        plan: &Plan,
        spot: u16,
        values: &Values<'_>,
        i: u8,
        from: BlockId,
        unit: u16,
    ) {
        let at = plan.address(spot, values);
        let spot = &plan.spots[spot as usize];
        let (begin, len) = self.heap.bounds(from);
        let (address, size) = match spot.access.size {
            Size::Fixed(n) => (at, u64::from(n)),
            Size::Repeat { .. } => {
                let mut list = Vec::new();
                spot.stretches(values, &mut list);
                match list.first() {
                    Some(&(at, n)) if n > 0 => (at, n),
                    _ => return,
                }
            }
            _ => return,
        };
        let offset = address.wrapping_sub(begin);
        if offset < len && len - offset >= size && !self.curious {
            return;
        }
        if from == DIFFERENCE {
            return;
        }
        let what = Access {
            address,
            size,
            write: spot.access.writes,
        };
        self.judge(
            plan.pcs[i as usize],
            self.step + u64::from(i),
            from,
            what,
            (unit < 16).then_some(unit as u8),
        );
    }
}
