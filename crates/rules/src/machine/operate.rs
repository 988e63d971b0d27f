//! Transfer functions run: what a record does to the shadow of registers and memory.

use super::*;

impl Machine {
    pub(super) fn record(&mut self, bytes: &[u8], shape: u32) -> usize {
        let (n, s) = &self.shapes[shape as usize];
        let (n, executed, length) = (*n as usize, s.executed as usize, s.record_len());
        let (rsp, rbp) = (s.rsp, s.rbp);
        let values = Values {
            record: bytes,
            rsp: self.now.rsp,
            rbp: self.now.rbp,
            fs_base: self.now.fs_base,
        };
        // Taken out, so that operations can change the rest of the machine.
        let plan = std::mem::take(&mut self.plans[n]);
        let end = plan.first[executed] as usize;
        for (i, op) in &plan.ops[..end] {
            match op {
                Op::Enter(e) => {
                    let arguments = e.arguments.map(|t| values.get(t));
                    let at = self.step + u64::from(*i);
                    self.enter(
                        e.function,
                        arguments,
                        values.get(e.slot),
                        at,
                        plan.pcs[*i as usize],
                    );
                }
                Op::Return { slot, result } => {
                    let slot = values.get(*slot);
                    if slot >= self.now.slot || self.now.closed > 0 {
                        self.leave(
                            slot,
                            values.get(*result),
                            self.step + u64::from(*i),
                            plan.pcs[*i as usize],
                        );
                    }
                }
                _ if self.now.closed > 0 => {}
                _ => self.operate(op, &plan, &values, *i),
            }
        }
        self.plans[n] = plan;
        let (rsp, rbp) = (rsp.map(|t| values.get(t)), rbp.map(|t| values.get(t)));
        self.now.rsp = rsp.unwrap_or(self.now.rsp);
        self.now.rbp = rbp.unwrap_or(self.now.rbp);
        self.step += executed as u64;
        length
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
                    part(&mut units[*to as usize], *to_at, *len, cell.unwritten);
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
                let pointed = if *bytes || x.from == DIFFERENCE {
                    x.from
                } else {
                    NONE
                };
                let from = match (b.from, pointed) {
                    (from, NONE) => from,
                    (NONE, from) => from,
                    _ => NONE,
                };
                if (b.unwritten | x.unwritten) != 0 {
                    let register = if b.unwritten != 0 { *base } else { *index };
                    self.used(plan, i, Some(register as u8));
                }
                if from != NONE || self.curious {
                    self.access(
                        plan,
                        *spot,
                        values,
                        i,
                        from,
                        if b.from == from { *base } else { *index },
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
                let bits = units[*from as usize].unwritten >> from_at;
                let kept = if *len == 8 {
                    units[*from as usize].from
                } else {
                    NONE
                };
                let unit = &mut units[*to as usize];
                part(unit, *to_at, *len, bits);
                unit.from = kept;
                if *whole {
                    unit.unwritten &= 0x0f;
                }
            }
            Op::Clear { to, mask } => {
                let unit = &mut units[*to as usize];
                unit.from = NONE;
                unit.unwritten &= !mask;
            }
            Op::Arith { to, a, b, kind } => {
                let known = |u: u16| {
                    if u == NO_UNIT {
                        NONE
                    } else {
                        units[u as usize].from
                    }
                };
                units[*to as usize].from = arithmetic(*kind, known(*a), known(*b));
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
                    units[*to as usize].from = NONE;
                    units[*to as usize].unwritten &= 0x0f;
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
                for s in sources {
                    let (bits, wanted) = match s {
                        Source::Unit(u, m) => (units[*u as usize].unwritten & m, *m),
                        Source::Memory { spot, at, len } => {
                            let address = plan.address(*spot, values);
                            let cell = self.memory.load(address.wrapping_add(u64::from(*at)), *len);
                            (cell.unwritten, ((1u16 << len) - 1) as u8)
                        }
                    };
                    // Compilers compare strings by the word, though they may end in it: there the
                    // bytes that were written decide, and it cannot be told without values.
                    any |= match *to == plan::FLAGS {
                        true => bits != 0 && bits == wanted,
                        false => bits != 0,
                    };
                    all &= bits == wanted;
                }
                let bad = match mix {
                    Mix::Any => any,
                    Mix::All => all,
                    Mix::Never => false,
                };
                let unit = &mut units[*to as usize];
                if bad {
                    unit.unwritten |= mask;
                } else {
                    unit.unwritten &= !mask;
                }
            }
            Op::Decide { mask } => {
                if units[plan::FLAGS as usize].unwritten & mask != 0 {
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
            Op::Enter(_) | Op::Return { .. } => {}
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
