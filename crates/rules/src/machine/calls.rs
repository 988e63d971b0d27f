//! Functions and system calls: the events of the abstract machine.

use iced_x86::{Decoder, DecoderOptions, FlowControl};
use tape::{Followed, Stretch, UNMEASURED};

use super::*;

const SIGRETURN: u64 = 15;
const MMAP: u64 = 9;
const MREMAP: u64 = 25;
const FUTEX: u64 = 202;
/// Of larger blocks it is not followed which bytes were written: that takes as much memory as they have, and programs that ask
/// for so much may use little of it.
const MOST_UNWRITTEN: u64 = 1 << 30;
/// Larger blocks go back to the system when they are freed; of these, the allocator makes no other use.
const MOST_KEPT: u64 = 32 << 20;
/// Handlers that run inside of each other; of more, the outermost are forgotten.
const MOST_HANDLERS: usize = 64;

/// The instruction before the one at hand: its plan, and its number there.
pub(super) type Before = (u32, u8);

/// A system call that a thread has entered.
#[derive(Clone, Copy)]
pub(super) struct Entered {
    nr: u64,
    args: [u64; 6],
    step: u64,
    pc: u64,
}

/// What a signal handler interrupted.
pub(super) struct Interrupted {
    /// Where the kernel saved the registers.
    frame: Stretch,
    units: Box<[Cell; jit::ROOM]>,
    tainted: u64,
    telling: u64,
}

impl Thread {
    /// A handler begins, with arguments that the kernel gives it.
    fn interrupt(&mut self, frame: Stretch) {
        if self.interrupted.len() == MOST_HANDLERS {
            self.interrupted.remove(0);
        }
        self.interrupted.push(Interrupted {
            frame,
            units: Box::new(self.registers.units),
            tainted: self.registers.tainted,
            telling: self.registers.telling,
        });
        for argument in [0usize, 7, 6, 2] {
            self.registers.units[argument] = Cell::default();
        }
    }

    /// A handler is over: the registers are as they were.
    fn resume(&mut self) {
        let inside =
            |f: &Stretch| (f.addr..=f.addr.saturating_add(f.len)).contains(&self.registers.rsp);
        let Some(n) = self.interrupted.iter().rposition(|i| inside(&i.frame)) else {
            return;
        };
        let was = self.interrupted.remove(n);
        self.interrupted.truncate(n);
        let registers = &mut self.registers;
        registers.units = *was.units;
        (registers.tainted, registers.telling) = (was.tainted, was.telling);
    }
}

impl Machine {
    pub(super) fn enter(
        &mut self,
        function: u16,
        (arguments, measured): ([u64; 6], [u64; tape::MOST_MEASURED]),
        slot: u64,
        step: u64,
        (pc, caller): (u64, Before),
    ) {
        let mut function = function;
        let registers = &mut self.now.registers;
        if registers.named != jit::UNNAMED && registers.named_at == slot {
            let asked = registers.named as u16;
            registers.named = jit::UNNAMED;
            let kin = |n: u16| self.names[n as usize].kin;
            if kin(asked) == kin(function) {
                function = asked;
            }
        }
        let units = &self.now.registers.units;
        let mut arguments = arguments;
        if let Role::Touches(model) = &self.names[function as usize].function.role
            && let Effect::CopiesText = model.effect
            && measured[0] != UNMEASURED
        {
            arguments[2] = measured[0];
        }
        let entered = Active {
            function,
            slot,
            arguments,
            measured,
            blocks: brief::ARGUMENTS.map(|unit| units[unit].from()),
            step,
            pc,
        };
        self.entering(&entered, caller);
        let (closed, lenient) = self.names[function as usize].function.role.hides();
        self.now.closed += u32::from(closed);
        self.now.lenient += u32::from(lenient);
        self.now.active.push(entered);
        self.set_slot();
    }

    fn entering(&mut self, a: &Active, caller: Before) {
        let (function, step, pc) = (a.function, a.step, a.pc);
        let (arguments, blocks) = (&a.arguments, &a.blocks);
        self.given(a);
        let pointer = |n: u8| {
            let n = n as usize;
            Value::Number(arguments[n], blocks[n])
        };
        let named = &self.names[function as usize];
        // Calls are frequent: nothing is taken out of this that would have to be counted or copied.
        match named.function.role {
            Role::Release { family, pointer: n } => {
                let value = arguments[n as usize];
                if value != 0 {
                    let from = self.pointed(value, blocks[n as usize]);
                    let owned =
                        self.is_owned(value, from) && self.heap.block(from).family == family;
                    // The C library hands its own memory back to itself, also what was freed and is kept for
                    // reuse: a thread that ends does so. What it frees for the program, it was given.
                    if !owned && (from != NONE || !self.is_call_in_library(caller))
                        || owned && !self.are_quiet(PointKind::Free)
                    {
                        let word = family_word(family, &self.pairs);
                        let redex = Redex::Call {
                            function: self.function_name(function).to_owned(),
                            arguments: *arguments,
                            first: n,
                        };
                        let context = Context {
                            step,
                            pc,
                            releaser: &word,
                            written: None,
                        };
                        let given = Value::Number(value, from);
                        self.ask_all(PointKind::Free, &[given], context, &redex);
                    }
                    self.release(value, family, function, step);
                }
            }
            Role::Touches(model) | Role::Gives(model) => {
                for t in model.touches {
                    if let Some(len) = t.at_call(a.given()) {
                        self.touch(a, t, len);
                        self.looks_at(a, t, len, caller);
                    }
                }
            }
            Role::Formats { format, wide, list } => self.formats(a, format, wide, list),
            Role::Ends => self.end(step, pc),
            _ => {}
        }
        let named = &self.names[function as usize];
        let (rules, remembered) = (named.at_call.len(), named.remembered);
        for n in 0..rules {
            let (rule, refuted) = &self.names[function as usize].at_call[n];
            let rule = *rule;
            let owned = self.quiet[rule] && self.is_owned(arguments[0], blocks[0]);
            if owned || refuted.by(arguments) {
                continue;
            }
            let redex = Redex::Call {
                function: self.function_name(function).to_owned(),
                arguments: *arguments,
                first: 0,
            };
            let values: [Value; 6] = std::array::from_fn(|n| pointer(n as u8));
            let context = Context {
                step,
                pc,
                releaser: "",
                written: None,
            };
            self.ask(rule, &values, context, &redex);
        }
        if remembered {
            self.calls.push(CallEvent {
                step,
                function: self.function_name(function).to_owned(),
                returned: false,
                values: *arguments,
            });
        }
    }

    /// The block that a value came from, unless it is so far away that something was written over the pointer unseen, as
    /// the allocator does in what it has back.
    fn pointed(&self, value: u64, from: BlockId) -> BlockId {
        let block = self.heap.block(from);
        let begin = block.begin.saturating_sub(FAR);
        let end = block.begin.saturating_add(block.size).saturating_add(FAR);
        match from > DIFFERENCE && !(begin..end).contains(&value) {
            true => NONE,
            false => from,
        }
    }

    /// A pointer leads to the beginning of an allocation that lives, as nearly all do that functions are called with
    /// for that.
    fn is_owned(&self, pointer: u64, from: BlockId) -> bool {
        let block = self.heap.block(from);
        from > DIFFERENCE
            && block.begin == pointer
            && block.freed.is_none()
            && !block.family.is_variable()
            && !(self.stack.0..self.stack.1).contains(&pointer)
    }

    /// No rule of a point is about such pointers.
    fn are_quiet(&self, point: PointKind) -> bool {
        let mut rules = self.rules.iter().zip(&self.quiet);
        rules.all(|(r, quiet)| *quiet || r.point != point)
    }

    /// The instruction is a call, and the C library's. Where functions are found when they are first called, the
    /// loader jumps to them.
    fn is_call_in_library(&self, (plan, insn): Before) -> bool {
        let code = self.codes.get(plan as usize);
        let Some(insn) = code.and_then(|c| c.insns.get(usize::from(insn))) else {
            return false;
        };
        let decoded = Decoder::with_ip(64, insn.code(), insn.pc, DecoderOptions::NONE).decode();
        let calls = [FlowControl::Call, FlowControl::IndirectCall];
        calls.contains(&decoded.flow_control()) && self.in_library(insn.pc)
    }

    pub(super) fn release(&mut self, pointer: u64, family: Family, function: u16, step: u64) {
        if let Some(id) = self.free(pointer, family, function, step) {
            let block = self.heap.block(id);
            self.give_back(block.family, block.begin, block.size);
        }
    }

    /// The allocator has memory again, to which it writes unseen.
    fn give_back(&mut self, family: Family, begin: u64, size: u64) {
        let unseen = !matches!(family, Family::Declared(_));
        if self.trackers.unwritten && unseen && size <= MOST_KEPT {
            self.memory.settle(begin, size);
        }
    }

    fn free(&mut self, pointer: u64, family: Family, function: u16, step: u64) -> Option<BlockId> {
        // Which block is freed is a matter of the address, whatever the pointer was meant for.
        let id = self.heap.live_at(pointer, family)?;
        // With a pool goes what it has handed out.
        for inner in self.heap.declared_inside(id) {
            self.heap.free(
                inner,
                Freed {
                    step,
                    pointer: self.heap.block(inner).begin,
                    by: function,
                },
            );
        }
        self.heap.free(
            id,
            Freed {
                step,
                pointer,
                by: function,
            },
        );
        Some(id)
    }

    /// Which argument of the function that freed a block was the pointer to it. A block that went with the pool that it
    /// was a part of, or that was freed unseen, was not pointed to by any.
    pub fn freeing_argument(&self, block: &Block) -> Option<usize> {
        let by = &self.names[block.freed?.by as usize].function.role;
        match by {
            Role::Release { family, pointer }
                if *family == block.family || !matches!(block.family, Family::Declared(_)) =>
            {
                Some(usize::from(*pointer))
            }
            Role::Reallocate { .. } => Some(0),
            _ => None,
        }
    }

    pub(super) fn allocate(
        &mut self,
        begin: u64,
        size: u64,
        zeroed: bool,
        family: Family,
        a: &Active,
        made: u64,
    ) -> BlockId {
        // Something that was not seen has freed what was there. What a pool hands out is a part of the pool's own block,
        // which lives on.
        let declared = matches!(family, Family::Declared(_));
        if let Some(old) = self.heap.live_at(begin, family)
            && (!declared || self.heap.block(old).family == family)
        {
            self.heap.free(
                old,
                Freed {
                    step: a.step,
                    pointer: begin,
                    by: a.function,
                },
            );
        }
        let id = self.heap.add(Block {
            begin,
            size,
            born: a.step,
            made,
            by: a.function,
            family,
            freed: None,
        });
        if declared {
            // A pool that was emptied as a whole hands out its memory in other pieces.
            for old in self.heap.declared_inside(id) {
                self.heap.free(
                    old,
                    Freed {
                        step: a.step,
                        pointer: self.heap.block(old).begin,
                        by: a.function,
                    },
                );
            }
        }
        let unwritten = !zeroed && self.trackers.unwritten && size <= MOST_UNWRITTEN;
        self.memory.fill(begin, size, unwritten);
        id
    }

    /// A `ret` with the return address at `slot`.
    pub(super) fn leave(&mut self, slot: u64, result: u64, step: u64, pc: u64) {
        if self.now.frames.ends_by(slot) {
            self.frames().end_locals(slot, step);
        }
        let mut returned = false;
        while let Some(a) = self.now.active.last() {
            if a.slot > slot {
                break;
            }
            let over = a.slot == slot;
            let a = self.now.active.pop().expect("just seen");
            self.left(&a, over.then_some(result), step, pc);
            returned |= over;
        }
        if !returned {
            self.now.registers.inner = result;
        }
        self.set_slot();
    }

    /// A function is over: it returned, or was jumped out of.
    pub(super) fn left(&mut self, a: &Active, result: Option<u64>, step: u64, pc: u64) {
        let role = &self.names[a.function as usize].function.role;
        let (closed, lenient) = role.hides();
        self.now.closed -= u32::from(closed);
        self.now.lenient -= u32::from(lenient);
        if self.now.closed > 0 {
            return;
        }
        let Some(result) = result else { return };
        let mut from = None;
        match *role {
            Role::Allocate {
                family,
                ref size,
                zeroed,
                stored,
            } => {
                let bytes = product(size, &a.arguments);
                let begin = if stored {
                    self.now.registers.inner
                } else {
                    result
                };
                let failed = if stored { result != 0 } else { result == 0 };
                from = Some(NONE);
                if !failed && begin != 0 {
                    let id = self.allocate(begin, bytes, zeroed, family, a, step);
                    if stored {
                        self.memory.store(a.arguments[0], 8, Cell::new(id, 0));
                    } else {
                        from = Some(id);
                    }
                    self.malloced(id, bytes, a);
                }
            }
            Role::Reallocate { ref size } => {
                let size = product(size, &a.arguments);
                from = Some(self.reallocate(a, size, result, step));
            }
            Role::Measures => {
                self.measured(a.arguments[0], result);
                from = Some(NONE);
            }
            Role::Release { .. } | Role::Inside => from = Some(NONE),
            Role::Touches(m) => from = self.modelled(&m, a, result),
            Role::Replaced => from = Some(self.now.registers.units[0].from()),
            Role::Formats { .. } | Role::Gives(_) | Role::Ends | Role::Noted => {}
        }
        if let Some(from) = from {
            brief::set_result(&mut self.now.registers, from);
        }
        let named = &self.names[a.function as usize];
        let remembered = named.remembered;
        if named.noted && named.function.name == "main" {
            self.end(step, pc);
        } else {
            let block = self.now.registers.units[0].from();
            for n in 0..named.at_return.len() {
                let rule = self.names[a.function as usize].at_return[n];
                let redex = Redex::Return {
                    function: self.function_name(a.function).to_owned(),
                    result,
                };
                let context = Context {
                    step,
                    pc,
                    releaser: "",
                    written: None,
                };
                self.ask(rule, &[Value::Number(result, block)], context, &redex);
            }
        }
        if remembered {
            let mut values = [0; 6];
            values[0] = result;
            self.calls.push(CallEvent {
                step,
                function: self.function_name(a.function).to_owned(),
                returned: true,
                values,
            });
        }
    }

    pub(super) fn malloced(&mut self, id: BlockId, bytes: u64, a: &Active) {
        if !self.rules.iter().any(|r| r.point == PointKind::Malloc) {
            return;
        }
        let name = self.function_name(a.function).to_owned();
        let redex = Redex::Call {
            function: name,
            arguments: a.arguments,
            first: 0,
        };
        let values = [Value::Number(bytes, NONE), Value::Block(id)];
        let context = Context {
            step: a.step,
            pc: a.pc,
            releaser: "",
            written: None,
        };
        self.ask_all(PointKind::Malloc, &values, context, &redex);
    }

    pub(super) fn reallocate(&mut self, a: &Active, size: u64, result: u64, step: u64) -> BlockId {
        let old = a.arguments[0];
        let before = self.heap.live_at(old, Family::Malloc).filter(|_| old != 0);
        if result == 0 {
            // With a size of zero it has freed; otherwise it has failed.
            if size == 0 && old != 0 {
                self.release(old, Family::Malloc, a.function, a.step);
            }
            return NONE;
        }
        let kept = before.map_or(0, |id| self.heap.block(id).size.min(size));
        if result == old {
            // What a pool has handed out of it stays where it is.
            if let Some(id) = before {
                let (step, by) = (a.step, a.function);
                self.heap.free(
                    id,
                    Freed {
                        step,
                        pointer: old,
                        by,
                    },
                );
            }
            let id = self.heap.add(Block {
                begin: result,
                size,
                born: a.step,
                made: step,
                by: a.function,
                family: Family::Malloc,
                freed: None,
            });
            self.memory.fill(
                result.wrapping_add(kept),
                size - kept,
                self.trackers.unwritten,
            );
            if let Some(old) = before {
                let was = self.heap.block(old).size;
                let shorter = was.saturating_sub(size);
                self.give_back(Family::Malloc, result.wrapping_add(size), shorter);
                self.heap.stay(old, id);
            }
            return id;
        }
        let was = before.map_or(0, |id| self.heap.block(id).size);
        if old != 0 {
            self.free(old, Family::Malloc, a.function, a.step);
        }
        let id = self.allocate(result, size, false, Family::Malloc, a, step);
        self.memory.copy(result, old, kept);
        if old.saturating_add(was) <= result || result.saturating_add(size) <= old {
            self.give_back(Family::Malloc, old, was);
        }
        self.malloced(id, size, a);
        id
    }

    /// The program was told that so many bytes of a block are its own, which may be more than it had asked for.
    fn measured(&mut self, pointer: u64, bytes: u64) {
        let Some(id) = self.heap.live_at(pointer, Family::Malloc) else {
            return;
        };
        let block = self.heap.block(id);
        let (end, more) = (
            block.begin.saturating_add(block.size),
            bytes.saturating_sub(block.size),
        );
        if more > 0 {
            self.heap.widen(id, bytes);
            self.memory.fill(end, more, self.trackers.unwritten);
        }
    }

    pub(super) fn modelled(&mut self, m: &Model, a: &Active, result: u64) -> Option<BlockId> {
        let from = brief::effect(m, a, result, &mut self.memory);
        for t in m.touches {
            if let Some(len) = t.at_return(result, a.given()) {
                self.touch(a, t, len);
                self.looks_at(a, t, len, (u32::MAX, 0));
            }
        }
        m.whole.then_some(from)
    }

    pub(super) fn event(&mut self, event: &Event) {
        match event {
            Event::State {
                thread,
                pc,
                rsp,
                rbp,
                fs_base,
            } => {
                self.lost |= !self.spread.take(*pc, 1) || !self.spread.take(*rsp, 1);
                if *thread != self.thread {
                    let next = self.others.remove(thread).unwrap_or_else(Thread::new);
                    let last = std::mem::replace(&mut self.now, next);
                    self.others.insert(self.thread, last);
                    self.thread = *thread;
                }
                (
                    self.now.registers.rsp,
                    self.now.registers.rbp,
                    self.now.registers.fs_base,
                ) = (*rsp, *rbp, *fs_base);
            }
            Event::Enter { pc, nr, args } => {
                for r in [1usize, 11] {
                    self.now.registers.units[r] = Cell::default();
                }
                if *nr == SIGRETURN {
                    self.now.resume();
                }
                self.given_to_kernel(*nr, *pc);
                let entered = Entered {
                    nr: *nr,
                    args: *args,
                    step: self.step,
                    pc: *pc,
                };
                self.entered.insert(self.thread, entered);
                // exit_group: nothing that the program has comes after it.
                if *nr == 231 {
                    self.end(self.step, *pc);
                }
                self.system_call(*nr, *pc, false, *args);
            }
            Event::Followed(list) => self.kernel_followed(list),
            Event::Leave {
                nr, result, writes, ..
            } => {
                self.kernel_touched(*nr, *result, writes);
                if *nr != SIGRETURN {
                    self.now.registers.units[0] = Cell::default();
                }
                let maps = [MMAP, MREMAP].contains(nr);
                for w in writes {
                    if maps {
                        self.lost |= !self.spread.take(w.addr, w.len);
                        self.heap.map(w.addr, w.len, self.step);
                    }
                    self.memory.fill(w.addr, w.len, false);
                }
                let mut values = [0; 6];
                values[0] = *result as u64;
                self.system_call(*nr, 0, true, values);
            }
            Event::Special(insn) => {
                let plan = flow::Step::of(insn, &[]);
                for r in plan.effects.registers_written() {
                    for unit in r.at / 8..=(r.end() - 1) / 8 {
                        self.now.registers.units[unit as usize] = Cell::default();
                    }
                }
            }
            Event::Signal { frame, .. } => {
                self.memory.fill(frame.addr, frame.len, false);
                self.now.interrupt(*frame);
            }
            Event::Outside { writes } => {
                for w in writes {
                    self.memory.fill(w.addr, w.len, false);
                }
            }
            Event::Exec => {
                self.heap.begin_anew();
                // Those to blocks of the program that is over.
                self.accesses = self.accesses.take().map(|_| Vec::new());
                self.memory.clear();
                self.spread = spread::Spread::default();
                self.now = Thread::new();
                self.others.clear();
            }
        }
        self.step += event.steps();
    }

    /// What the kernel has read and written where an argument points to. What a call may read is not on the tape, since to
    /// know it of all calls costs more than most of them; what it reads for certain, arguments and result tell.
    fn kernel_touched(&mut self, nr: u64, result: i64, writes: &[Stretch]) {
        const ARGUMENTS: [u8; 6] = [7, 6, 2, 10, 8, 9];
        let Some(entered) = self.entered.remove(&self.thread) else {
            return;
        };
        let blocks = ARGUMENTS.map(|r| self.now.registers.units[usize::from(r)].from());
        if self.is_overlooked(nr) || blocks.iter().all(|b| *b <= DIFFERENCE) {
            return;
        }
        let Entered { args, .. } = entered;
        let mut touch = |n: usize, len: u64, write: bool| {
            let (addr, holder) = (args[n], Holder::Register(ARGUMENTS[n]));
            self.kernel_touches(entered, blocks[n], Stretch { addr, len }, write, holder);
        };
        abi::read_by_arguments(&abi::Call { nr, args }, result, &mut |n, len| {
            touch(n, len, false);
        });
        for w in writes {
            if let Some(n) = args.iter().position(|a| *a == w.addr) {
                touch(n, w.len, true);
            }
        }
    }

    /// What it has read and written through pointers that lie in memory.
    fn kernel_followed(&mut self, list: &[Followed]) {
        let Some(entered) = self.entered.get(&self.thread).copied() else {
            return;
        };
        if self.is_overlooked(entered.nr) {
            return;
        }
        for f in list {
            let from = self.memory.load(f.at, 8).from();
            self.kernel_touches(entered, from, f.to, f.write, Holder::Memory(f.at, 8));
        }
    }

    fn is_overlooked(&self, nr: u64) -> bool {
        // Who wakes others need not have the memory any more by which they know each other.
        nr == FUTEX || self.now.closed > 0
    }

    fn kernel_touches(
        &mut self,
        entered: Entered,
        from: BlockId,
        memory: Stretch,
        write: bool,
        pointer: Holder,
    ) {
        let (begin, size) = self.heap.bounds(from);
        let offset = memory.addr.wrapping_sub(begin);
        if from <= DIFFERENCE || offset < size && size - offset >= memory.len {
            return;
        }
        let what = Access {
            address: memory.addr,
            size: memory.len,
            write,
            by: Doer::Call(entered.nr),
        };
        let lenient = std::mem::take(&mut self.now.lenient);
        self.judge(entered.pc, entered.step, from, what, Some(pointer));
        self.now.lenient = lenient;
    }

    pub(super) fn system_call(&mut self, nr: u64, pc: u64, returned: bool, values: [u64; 6]) {
        if self.unnamed_calls.contains(&nr) {
            return;
        }
        let name = abi_name(nr).filter(|name| self.patterns.iter().any(|p| p.matches(name)));
        let Some(name) = name else {
            self.unnamed_calls.insert(nr);
            return;
        };
        let list: Vec<Value> = values.iter().map(|v| Value::Number(*v, NONE)).collect();
        let (kind, redex) = if returned {
            (
                PointKind::Ret,
                Redex::Return {
                    function: name.clone(),
                    result: values[0],
                },
            )
        } else {
            (
                PointKind::Call,
                Redex::Call {
                    function: name.clone(),
                    arguments: values,
                    first: 0,
                },
            )
        };
        let list = if returned { &list[..1] } else { &list[..] };
        self.call_rules(kind, &name, list, self.step, pc, &redex);
        if !self.remembers(&name) {
            return;
        }
        self.calls.push(CallEvent {
            step: self.step,
            function: name,
            returned,
            values,
        });
    }
}
