//! Transfer functions run: what a record does to the shadow of registers and memory.

use super::*;

impl Machine {
    /// Goes through records; returns where it ended.
    pub(super) fn records(&mut self, records: &[u8], mut at: usize, end: usize) -> usize {
        while at < end {
            let (mut why, mut trace) = (Stop::Before, None);
            if let Some(code) = &self.code {
                let now = &mut self.now;
                let (registers, memory) = (&mut now.registers, &mut self.memory);
                let closed = now.closed > 0;
                let mut keeper = variables::Frames {
                    active: &mut now.active,
                    closed: &mut now.closed,
                    names: &self.names,
                    frames: &mut now.frames,
                    table: &mut self.variables,
                    heap: &mut self.heap,
                    step: self.step,
                };
                keeper.make_room();
                let stopped = code.run(registers, memory, &mut keeper, closed, records, at, end);
                self.step += stopped.steps;
                (why, at, trace) = (stopped.why, stopped.at, stopped.trace);
                if at >= end {
                    break;
                }
            }
            at += self.record(&records[at..end], why, trace);
        }
        at
    }

    /// The rest of a record after its code has stopped; returns its length, or 0 if it has code only now.
    /// `trace`: the trace that it was part of, and which.
    fn record(&mut self, bytes: &[u8], why: Stop, trace: Option<(u32, u8)>) -> usize {
        let number = u32::from_le_bytes(bytes[..4].try_into().expect("four bytes"));
        let shape = number as usize;
        if matches!(why, Stop::Before | Stop::End) && self.warms(number) {
            return 0;
        }
        let (plan, s) = &self.shapes[shape];
        let (length, executed) = (s.record_len(), s.executed);
        let registers = &mut self.now.registers;
        let values = Values {
            record: &bytes[..length],
            rsp: registers.rsp,
            rbp: registers.rbp,
            fs_base: registers.fs_base,
            unit: Values::UNIT,
        };
        registers.rsp = s.rsp.map_or(values.rsp, |t| values.get(t));
        registers.rbp = s.rbp.map_or(values.rbp, |t| values.get(t));
        self.detours.steps += u64::from(executed);
        match why {
            Stop::Before | Stop::End => {
                let count = match &self.fasts[shape] {
                    Warm::Met(_) => &mut self.detours.cold,
                    Warm::Made(_) if self.now.closed > 0 => &mut self.detours.calls,
                    Warm::Made(fast) if !fast.way.usable => &mut self.detours.odd,
                    Warm::Made(_) => &mut self.detours.unwritten,
                };
                *count += 1;
                self.slow(shape, 0, &values, true);
            }
            Stop::At(insn) => {
                self.detours.left += 1;
                match (trace, &self.fasts[shape]) {
                    (Some((n, part)), _) => {
                        let trace = &self.traces.made[n as usize];
                        trace.settle(u16::from(insn) | u16::from(part) << 8, &mut registers.units);
                        // All that the records before this one may have changed. What those after it would have
                        // written over counts as clean already; it is found out what of this is so.
                        registers.telling |= trace.writes;
                        registers.tainted |= trace.writes;
                    }
                    (None, Warm::Made(fast)) => fast.settle(insn.into(), &mut registers.units),
                    _ => {}
                }
                let first = self.first_op(shape, insn);
                self.slow(shape, first, &values, false);
            }
            Stop::Handed(insn) => {
                self.detours.calls += 1;
                if let Some(op) = self.called(shape, insn, &values) {
                    self.slow(shape, op, &values, true);
                }
            }
            Stop::Return => {
                self.detours.returns += 1;
                let plan = self.plans[*plan as usize].as_ref();
                let plan = plan.expect("its code was made by it");
                let ops = &plan.ops[..plan.first[usize::from(executed)] as usize];
                if let Some((i, Op::Return { slot, result })) = ops.last() {
                    let (slot, result) = (values.get(*slot), values.get(*result));
                    let pc = plan.pcs[usize::from(*i)];
                    self.leave(slot, result, self.step + u64::from(*i), pc);
                }
            }
        }
        self.now.registers.last = number;
        self.step += u64::from(executed);
        length
    }

    /// A shape is met of which there is no code: makes it, if it comes often.
    fn warms(&mut self, number: u32) -> bool {
        if self.code.is_none() {
            return false;
        }
        let Warm::Met(times) = &mut self.fasts[number as usize] else {
            return false;
        };
        if *times < self.patience {
            *times += 1;
            return false;
        }
        let n = self.shapes[number as usize].0;
        let plan = self.take_plan(n);
        let shape = &self.shapes[number as usize].1;
        let fast = Fast::of(&plan, shape, self.trackers);
        self.plans[n as usize] = Some(plan);
        if let Some(code) = &mut self.code {
            code.add(number, &fast.way);
        }
        self.fasts[number as usize] = Warm::Made(Box::new(fast));
        true
    }

    /// The instruction before a record.
    fn before(&self) -> calls::Before {
        match self.shapes.get(self.now.registers.last as usize) {
            Some((plan, shape)) => (*plan, shape.executed.wrapping_sub(1)),
            None => (u32::MAX, 0),
        }
    }

    /// The first operation of an instruction.
    fn first_op(&self, shape: usize, insn: u8) -> u32 {
        let plan = self.plans[self.shapes[shape].0 as usize].as_ref();
        plan.map_or(0, |p| p.first[usize::from(insn)])
    }

    /// What is left of a record from an instruction on that enters a function that means something. Nearly always nothing
    /// inside of it is looked at, and it remains to see whether it returns. Otherwise it is said where to go on.
    fn called(&mut self, shape: usize, insn: u8, values: &Values<'_>) -> Option<u32> {
        let (number, s) = &self.shapes[shape];
        let (number, executed) = (*number, usize::from(s.executed));
        let plan = self.take_plan(number);
        let end = plan.first[executed];
        let mut next = plan.first[usize::from(insn)];
        while next < end {
            let (i, op) = &plan.ops[next as usize];
            if op.is_call() {
                self.call(op, &plan, number, *i, values);
                next += 1;
            } else if self.now.closed > 0 {
                next = plan.next_call(next);
            } else {
                break;
            }
        }
        self.plans[number as usize] = Some(plan);
        (next < end).then_some(next)
    }

    /// Functions are called and return. Inside of one that is not looked into that is of no interest, but for its own
    /// return.
    fn call(&mut self, op: &Op, plan: &Plan, number: u32, i: u8, values: &Values<'_>) {
        let (at, pc) = (self.step + u64::from(i), plan.pcs[usize::from(i)]);
        match op {
            Op::Enter(e) if self.now.closed == 0 => {
                let arguments = e.arguments.map(|term| values.get(term));
                let measured = e.measured.map(|term| values.get(term));
                let caller = match i.checked_sub(1) {
                    Some(i) => (number, i),
                    None => self.before(),
                };
                let given = (arguments, measured);
                self.enter(e.function, given, values.get(e.slot), at, (pc, caller));
            }
            Op::Asks { function, slot } if self.now.closed == 0 => {
                let registers = &mut self.now.registers;
                registers.named = u32::from(*function);
                registers.named_at = values.get(*slot);
            }
            Op::Return { slot, result } => {
                let slot = values.get(*slot);
                if slot >= self.now.registers.slot || self.now.closed > 0 {
                    self.leave(slot, values.get(*result), at, pc);
                }
            }
            _ => {}
        }
    }

    /// All operations of a record, one by one, from one of them on. `settled`: which units have something
    /// unwritten is known.
    fn slow(&mut self, shape: usize, first: u32, values: &Values<'_>, settled: bool) {
        let (number, s) = &self.shapes[shape];
        let (number, executed) = (*number, s.executed as usize);
        let plan = self.take_plan(number);
        let (mut next, end) = (first, plan.first[executed]);
        let mut touched = false;
        while let Some((i, op)) = plan.ops[..end as usize].get(next as usize) {
            next += 1;
            if op.is_call() {
                self.call(op, &plan, number, *i, values);
            } else if self.now.closed > 0 {
                next = plan.next_call(next);
            } else {
                touched = true;
                self.operate(op, &plan, values, *i);
            }
        }
        let writes = plan.writes;
        self.plans[number as usize] = Some(plan);
        if !touched && settled {
            return;
        }
        self.now.registers.telling |= writes;
        let mut groups = self.now.registers.tainted | writes;
        self.now.registers.tainted = 0;
        while groups != 0 {
            let bit = groups.trailing_zeros();
            let units = &self.now.registers.units;
            if fast::group_units(bit).any(|u| units[u].unwritten() != 0) {
                self.now.registers.tainted |= 1 << bit;
            }
            groups &= groups - 1;
        }
    }

    #[inline]
    pub(super) fn operate(&mut self, op: &Op, plan: &Plan, values: &Values<'_>, i: u8) {
        let units = &mut self.now.registers.units;
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
                let cell = self.local(at, *local, self.step + u64::from(i));
                self.now.registers.units[*to as usize] = cell;
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
            by: Doer::Instruction,
        };
        self.judge(
            plan.pcs[i as usize],
            self.step + u64::from(i),
            from,
            what,
            (unit < 16).then_some(Holder::Register(unit as u8)),
        );
    }
}
