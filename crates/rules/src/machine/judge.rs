//! Detection points: rules are asked, and what comes of it is kept.

use super::*;

/// Below this nothing is ever mapped.
const LOWEST: u64 = 4096;

impl Machine {
    /// An access that is not inside the block that its pointer came from.
    #[cold]
    pub(super) fn judge(
        &mut self,
        pc: u64,
        step: u64,
        from: BlockId,
        what: Access,
        pointer: Option<Holder>,
    ) {
        let asked = what.by != Doer::Instruction;
        if !what.write && self.now.lenient > 0 {
            return;
        }
        if from > DIFFERENCE && self.heap.is_presumed(from) {
            let block = self.heap.block(from);
            let (begin, end) = (block.begin, block.begin.saturating_add(block.size));
            let last = what.address.saturating_add(what.size);
            self.heap.settle(from, what.address < end && last > begin);
        }
        let from = match self.heap.is_meant(from) {
            true => from,
            false => NONE,
        };
        if from > DIFFERENCE
            && let Some(list) = &mut self.accesses
            && list.len() < MOST_NOTED
        {
            list.push(Noted {
                step,
                pc,
                block: from,
                address: what.address,
                size: what.size,
                write: what.write,
            });
        }
        let mut reached = what.address;
        if from > DIFFERENCE {
            let block = self.heap.block(from);
            let (begin, end) = (block.begin, block.begin.saturating_add(block.size));
            let (first, last) = (what.address, what.address.saturating_add(what.size));
            if last.saturating_add(FAR) < begin || first > end.saturating_add(FAR) {
                return;
            }
            if block.freed.is_none() {
                let (lowest, bytes) = self.heap.bounds(from);
                if first >= lowest && last - lowest <= bytes && !self.curious {
                    return;
                }
                // A whole aligned word or vector that is partly inside is how strings are searched.
                let aligned =
                    what.size >= 8 && what.size.is_power_of_two() && first % what.size == 0;
                if !what.write && !asked && aligned && first < end && last > begin {
                    return;
                }
                if first >= begin && first < end && last > end {
                    reached = end;
                }
            }
        }
        // Vector loops read more than they were asked to, but never where nothing can be.
        let library = self.in_library(pc);
        if library && !what.write && !asked && what.size >= 16 && what.address >= LOWEST {
            return;
        }
        // So do those that a program makes for itself while it runs (regular expressions, say), within a page.
        let partly = from > DIFFERENCE && self.heap.block(from).freed.is_none() && {
            let (begin, bytes) = self.heap.bounds(from);
            what.address.wrapping_sub(begin) < bytes
        };
        let last = what.address.saturating_add(what.size) - 1;
        let one_page = what.address >> 12 == last >> 12;
        if partly && one_page && what.size >= 16 && !what.write && !asked && self.is_made(pc) {
            return;
        }
        let redex = Redex::Access {
            address: what.address,
            size: what.size,
            write: what.write,
            pointer,
            block: from,
            call: match what.by {
                Doer::Call(nr) => Some(nr),
                Doer::Instruction | Doer::Function => None,
            },
        };
        let derefs = std::mem::take(&mut self.derefs);
        for &rule in &derefs {
            let fits = match self.rules[rule].point {
                PointKind::DerefRead => !what.write,
                PointKind::DerefWrite => what.write,
                _ => true,
            };
            if fits && !self.rules[rule].asks_written() {
                let values = [Value::Number(reached, from)];
                self.ask(
                    rule,
                    &values,
                    Context {
                        step,
                        pc,
                        releaser: "",
                        written: Some(true),
                    },
                    &redex,
                );
            }
        }
        self.derefs = derefs;
    }

    pub(super) fn in_library(&self, pc: u64) -> bool {
        let codebase = self
            .codebase
            .lock()
            .expect("nobody panics while holding it");
        codebase.library.iter().any(|(a, b)| (*a..*b).contains(&pc))
    }

    /// The code there is in no file: the program has made it.
    fn is_made(&self, pc: u64) -> bool {
        let codebase = self
            .codebase
            .lock()
            .expect("nobody panics while holding it");
        let program = codebase.program.as_ref();
        program.is_some_and(|p| p.module_offset(pc).is_none())
    }

    /// Something that was never written decides.
    #[cold]
    pub(super) fn used(&mut self, plan: &Plan, i: u8, register: Option<u8>) {
        let pc = plan.pcs[i as usize];
        // One report is enough for what follows from it.
        match register {
            Some(r) => self.now.registers.units[r as usize].set_unwritten(0),
            None => self.now.registers.units[plan::FLAGS as usize].set_unwritten(0),
        }
        if self.now.lenient > 0 {
            return;
        }
        self.decided(self.step + u64::from(i), pc, &Redex::Use { register });
    }

    /// Asks the rules about what was never written.
    pub(super) fn decided(&mut self, step: u64, pc: u64, redex: &Redex) {
        let derefs = std::mem::take(&mut self.derefs);
        for &rule in &derefs {
            if self.rules[rule].asks_written() && self.rules[rule].point != PointKind::DerefWrite {
                let context = Context {
                    step,
                    pc,
                    releaser: "",
                    written: Some(false),
                };
                self.ask(rule, &[Value::Number(0, NONE)], context, redex);
            }
        }
        self.derefs = derefs;
    }

    /// Evaluates a rule and keeps what comes of it.
    pub(super) fn ask(
        &mut self,
        rule: usize,
        values: &[Value],
        context: Context<'_>,
        redex: &Redex,
    ) {
        // An access is told of once, unless it is the C library's for others. All calls of a function begin at the same place, and which of them are
        // alike is seen when their callers are.
        let most = match redex {
            Redex::Call { .. }
            | Redex::Return { .. }
            | Redex::Given { .. }
            | Redex::Compared { .. } => MOST_CALLS,
            Redex::Access { .. } | Redex::Use { .. } if self.in_library(context.pc) => {
                MOST_IN_LIBRARY
            }
            _ => 1,
        };
        let seen = self.seen.get(&(rule, context.pc)).copied();
        if self.suspects.len() >= MOST || seen >= Some(most) {
            return;
        }
        let checked = &self.rules[rule];
        let mut bindings: Bindings = vec![None; checked.variables.len()];
        for (slot, value) in checked.arguments.iter().zip(values) {
            if let Some(slot) = slot {
                bindings[slot.0 as usize] = Some(value.clone());
            }
        }
        let given = bindings.clone();
        let pairs = &self.pairs;
        let heap = &self.heap;
        let family = |id: BlockId| family_word(heap.block(id).family, pairs);
        let stack = self.stack;
        let on_stack = |a: u64| (stack.0..stack.1).contains(&a);
        let facts = Facts {
            heap,
            calls: &self.calls,
            step: context.step,
            releaser: context.releaser,
            family: &family,
            on_stack: &on_stack,
            written: context.written,
            contents: None,
        };
        let held = match holds(checked, &mut bindings, &facts) {
            Some(false) => return,
            Some(true) => true,
            None => false,
        };
        let stayed = match values.first() {
            Some(Value::Number(at, from)) if held => self.stayed(*at, *from),
            _ => None,
        };
        // What it may be excused by is the same for all that the program does through such pointers.
        if let Some(block) = stayed
            && (self.doubted.len() == MOST_DOUBTED || !self.doubted.insert((rule, block)))
        {
            return;
        }
        let compared = matches!(redex, Redex::Compared { .. });
        let certain = held && stayed.is_none() && !compared;
        self.suspects.push(Suspect {
            rule,
            step: context.step,
            pc: context.pc,
            thread: self.thread,
            bindings: if held { bindings } else { given },
            what: redex.clone(),
            certain,
            stayed,
            releaser: context.releaser.to_owned(),
        });
        // What is not certain may become so later.
        if certain {
            *self.seen.entry((rule, context.pc)).or_default() += 1;
            if let Some(enough) = &self.enough {
                enough.store(true, Ordering::Relaxed);
            }
        }
    }

    /// The block that a pointer came from, if that was reallocated and is still there, around the address: a program that
    /// has asked whether it was moved may go on to use the pointer.
    fn stayed(&self, address: u64, from: BlockId) -> Option<BlockId> {
        let last = self.heap.block(self.heap.successors(from).last()?);
        let inside = address.wrapping_sub(last.begin) < last.size;
        (last.freed.is_none() && inside).then_some(from)
    }

    pub(super) fn call_rules(
        &mut self,
        kind: PointKind,
        name: &str,
        values: &[Value],
        step: u64,
        pc: u64,
        redex: &Redex,
    ) {
        for rule in 0..self.rules.len() {
            let r = &self.rules[rule];
            if r.point == kind && r.function.as_ref().is_some_and(|p| p.matches(name)) {
                self.ask(
                    rule,
                    values,
                    Context {
                        step,
                        pc,
                        releaser: "",
                        written: None,
                    },
                    redex,
                );
            }
        }
    }

    pub(super) fn ask_all(
        &mut self,
        kind: PointKind,
        values: &[Value],
        context: Context<'_>,
        redex: &Redex,
    ) {
        for rule in 0..self.rules.len() {
            if self.rules[rule].point == kind {
                self.ask(rule, values, context, redex);
            }
        }
    }

    /// A function was asked to touch so many bytes.
    #[inline]
    pub(super) fn touch(&mut self, a: &Active, t: &Touch, len: u64) {
        let n = usize::from(t.pointer);
        let (at, from) = (a.arguments[n], a.blocks[n]);
        let nothing = len == 0 || from <= DIFFERENCE;
        if nothing || self.heap.allows(from, at, len) && !self.curious {
            return;
        }
        let register = [7u8, 6, 2, 1, 8, 9][n];
        let what = Access {
            address: at,
            size: len,
            write: t.writes,
            by: Doer::Function,
        };
        let lenient = std::mem::take(&mut self.now.lenient);
        let pointer = Some(Holder::Register(register));
        self.judge(a.pc, a.step, from, what, pointer);
        self.now.lenient = lenient;
    }

    /// The program is about to end: `main` returns, or it exits.
    pub(super) fn end(&mut self, step: u64, pc: u64) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let redex = Redex::End;
        self.call_rules(
            PointKind::Ret,
            "main",
            &[Value::Number(0, NONE)],
            step,
            pc,
            &redex,
        );
    }

    /// The access at which the guest was stopped for good, or a handler was called.
    pub fn fatal_access(
        &mut self,
        (pc, step): (u64, u64),
        address: u64,
        size: u64,
        write: bool,
        register: Option<u8>,
    ) {
        if self.lost {
            return;
        }
        let from = register.map_or(NONE, |r| self.now.registers.units[r as usize].from());
        let what = Access {
            address,
            size,
            write,
            by: Doer::Instruction,
        };
        let lenient = std::mem::take(&mut self.now.lenient);
        let from = if from == DIFFERENCE { NONE } else { from };
        let pointer = register.map(Holder::Register);
        self.judge(pc, step, from, what, pointer);
        self.now.lenient = lenient;
    }

    /// The blocks for which a rule's condition holds, if it is about one of all that live or were freed.
    pub fn culprits(&self, s: &Suspect, contents: &dyn crate::eval::Contents) -> Vec<BlockId> {
        self.with_facts(s, Some(contents), |facts| {
            facts.culprits(&self.rules[s.rule], &s.bindings)
        })
    }

    /// Asks a rule again, with the guest's memory at hand.
    pub fn confirm(&self, s: &Suspect, contents: &dyn crate::eval::Contents) -> Option<Bindings> {
        let mut bindings = s.bindings.clone();
        let rule = &self.rules[s.rule];
        let held = self.with_facts(s, Some(contents), |facts| holds(rule, &mut bindings, facts));
        (held == Some(true)).then_some(bindings)
    }

    pub(super) fn with_facts<T>(
        &self,
        s: &Suspect,
        contents: Option<&dyn crate::eval::Contents>,
        f: impl FnOnce(&Facts<'_>) -> T,
    ) -> T {
        let family = |id: BlockId| family_word(self.heap.block(id).family, &self.pairs);
        let stack = self.stack;
        let on_stack = |a: u64| (stack.0..stack.1).contains(&a);
        f(&Facts {
            heap: &self.heap,
            calls: &self.calls,
            step: s.step,
            releaser: &s.releaser,
            family: &family,
            on_stack: &on_stack,
            written: None,
            contents,
        })
    }
}
