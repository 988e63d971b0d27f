//! Ways as machine code.
//!
//! While it runs: rbx is [`Registers`](crate::Registers), rbp the record, r12 the first cell, r15 what an address
//! keeps to be that of the cell around it, rsi the bounds of all blocks, r13 and r14 the guest's rsp and rbp, ymm0 (or
//! xmm0) cells that were never written, ymm1 cells of which nothing is known. r8 to r11 and rdi hold units and the cells of
//! anchors. Everything else comes and goes within an operation, and an operation that calls Rust code keeps nothing else over the call.
//!
//! What happens seldom is put behind the rest of the way (`Late`): it either goes on or stops the code.

mod calls;
mod held;
mod late;
mod near;

use crate::anchors::{self, Anchor, MOST_FORGOTTEN, Near};
use crate::cell::{Arith, DIFFERENCE};
use crate::emit::*;
use crate::run::{BEFORE, END, HANDED, at};
use crate::ways::{FIRST_VALUE, FS, Kind, Op, Quick, ROOM, Way};
use held::Held;
use late::Late;

/// The groups of which it matters whether something is known of them: vectors and what comes after.
const TELLING: u64 = !0 << 18;

/// The tape comes from another CPU, and to wait for each of its lines takes as long as all that is done for them. The CPU
/// would ask for them in time by itself, but not across pages.
const AHEAD: usize = 1536;
const LINE: usize = 64;

/// Where code goes that is not another record's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exits {
    pub(crate) enter: u64,
    pub(crate) end: u64,
    pub(crate) before: u64,
    leave: u64,
    /// The CPU has vectors of 32 bytes.
    wide: bool,
}

pub(crate) struct Fixed {
    pub(crate) bytes: Vec<u8>,
    pub(crate) exits: Exits,
}

/// The way in and the ways out, which are the same for all.
pub(crate) fn fixed(ip: u64) -> Fixed {
    let saved = [rbx, rbp, r12, r13, r14, r15];
    let wide = std::arch::is_x86_feature_detected!("avx");
    let mut bytes = Vec::new();
    let mut put = |make: &mut dyn FnMut(&mut Emit)| {
        let at = ip + bytes.len() as u64;
        let mut a = Emit::at(at);
        make(&mut a);
        bytes.extend(a.finish().expect("there are no labels"));
        at
    };
    let leave = put(&mut |a| {
        a.mov(field(at::RECORD), rbp);
        a.mov(field(at::RSP), r13);
        a.mov(field(at::RBP), r14);
        if wide {
            a.vzeroupper();
        }
        a.add(rsp, 8);
        for register in saved.iter().rev() {
            a.pop(*register);
        }
        a.ret()
    });
    let mut out = |why: u32| {
        put(&mut |a| {
            a.mov(eax, why);
            a.jmp(leave)
        })
    };
    let (end, before) = (out(END), out(BEFORE));
    let enter = put(&mut |a| {
        for register in saved {
            a.push(register);
        }
        a.sub(rsp, 8);
        a.mov(rbx, rdi);
        a.mov(rbp, rsi);
        a.mov(r12, rdx);
        a.mov(r15, rcx);
        a.mov(r13, field(at::RSP));
        a.mov(r14, field(at::RBP));
        constants(a, wide);
        dispatch(a, end, before)
    });
    let exits = Exits {
        enter,
        end,
        before,
        leave,
        wide,
    };
    Fixed { bytes, exits }
}

/// On to the record at rbp.
fn dispatch(a: &mut Emit, end: u64, before: u64) {
    // Behind all that begin before the end there is room for the longest.
    a.cmp(rbp, field(at::END));
    a.jae(end);
    a.mov(eax, dword(rbp + 0));
    a.cmp(eax, dword(rbx + at::SHAPES));
    a.jae(before);
    a.mov(rcx, field(at::TABLE));
    a.jmp_through(rcx + rax * 8)
}

/// What stays in registers that Rust code does not keep.
fn constants(a: &mut Emit, wide: bool) {
    a.mov(rsi, field(at::BOUNDS));
    let cells = rbx + at::UNWRITTEN;
    match wide {
        true => {
            a.load_ymm0(cells);
            a.zero_ymm1()
        }
        false => a.load_xmm0(cells),
    }
}

fn field(offset: usize) -> Operand {
    qword(rbx + offset)
}

fn unit(n: u16) -> Operand {
    match usize::from(n).checked_sub(ROOM) {
        None => field(usize::from(n) * 8),
        Some(anchor) => field(at::ANCHORS + 8 * anchor),
    }
}

/// What stands for the first cell of an anchor where units are held.
fn first_cell(anchor: usize) -> u16 {
    (ROOM + anchor) as u16
}

/// Calls Rust code, with what `arguments` puts into registers. It may lose what is held.
fn call(a: &mut Emit, wide: bool, routine: usize, arguments: impl FnOnce(&mut Emit)) {
    // The stack is as it must be where a function is called.
    let odd = HOLDERS.len() % 2 == 1;
    for register in HOLDERS {
        a.push(register);
    }
    if odd {
        a.sub(rsp, 8);
    }
    call_alone(a, wide, routine, arguments);
    if odd {
        a.add(rsp, 8);
    }
    for register in HOLDERS.iter().rev() {
        a.pop(*register);
    }
}

/// The same where nothing is held.
fn call_alone(a: &mut Emit, wide: bool, routine: usize, arguments: impl FnOnce(&mut Emit)) {
    if wide {
        a.vzeroupper();
    }
    arguments(a);
    a.call_through(rbx + routine);
    constants(a, wide);
}

/// The code of a way: it begins where it is entered while nothing is unwritten in any register. Also said is where it
/// is entered otherwise.
pub(crate) fn open(way: &Way, shape: u32, ip: u64, exits: &Exits) -> Option<(Vec<u8>, u64)> {
    let mut m = Maker::new(way, ip, exits);
    let back = m.a.label();
    m.a.set(back);
    let tainted = match way.reads | way.cleans {
        0 => back,
        _ => m.late(Late::Tainted { back }),
    };
    m.bodies(shape);
    m.lay_late();
    let entry = m.a.place(tainted)?;
    Some((m.a.finish()?, entry))
}

/// The code of a trace, which is entered at its first record. What comes is on the tape already: if it is not the trace,
/// `otherwise` is the code for the first record. As for a way, there is one place to enter it while nothing is unwritten in
/// any register, and one for otherwise, with what to do if it is not the trace.
pub(crate) fn trace(
    way: &Way,
    shape: u32,
    number: u32,
    ip: u64,
    exits: &Exits,
    (clean, open): (u64, u64),
) -> Option<(Vec<u8>, u64)> {
    let mut m = Maker::new(way, ip, exits);
    (m.shape, m.trace) = (shape, Some(number));
    m.is_next(clean);
    let body = m.a.label();
    m.a.set(body);
    m.bodies(way.more.last()?.shape);
    m.lay_late();
    let entry = m.a.label();
    m.a.set(entry);
    m.is_next(open);
    m.tainted(body, open);
    let entry = m.a.place(entry)?;
    Some((m.a.finish()?, entry))
}

/// The code of a way that is not looked into. Which functions are called there is of no interest either.
pub(crate) fn closed(way: &Way, shape: u32, ip: u64, exits: &Exits) -> Option<Vec<u8>> {
    let mut m = Maker::new(way, ip, exits);
    m.rest_closed(shape);
    m.lay_late();
    m.a.finish()
}

struct Maker<'a> {
    a: Emit,
    way: &'a Way,
    exits: Exits,
    late: Vec<(Label, Late)>,
    anchors: Vec<Anchor>,
    /// Which operations are near one of them.
    nears: Vec<Option<Near>>,
    held: Held,
    /// The first operation that has not been begun, and those after it that were done with others.
    upcoming: usize,
    done: Vec<usize>,
    /// Of a trace: the shape of its first record, and its number.
    shape: u32,
    trace: Option<u32>,
}

/// Registers that hold units and the cells of anchors.
pub(crate) const HOLDERS: [R64; 5] = [r8, r9, r10, r11, rdi];

impl<'a> Maker<'a> {
    fn new(way: &'a Way, ip: u64, exits: &Exits) -> Maker<'a> {
        Maker {
            a: Emit::at(ip),
            way,
            exits: *exits,
            late: Vec::new(),
            anchors: Vec::new(),
            nears: Vec::new(),
            held: Held::default(),
            upcoming: 0,
            done: Vec::new(),
            shape: 0,
            trace: None,
        }
    }

    /// On only if the next records are those of the trace.
    fn is_next(&mut self, otherwise: u64) {
        let way = self.way;
        let (last, _) = way.start(way.more.len());
        self.a.lea(rax, rbp + last);
        self.a.cmp(rax, field(at::END));
        self.a.jae(otherwise);
        for (n, part) in way.more.iter().enumerate() {
            let (start, _) = way.start(n + 1);
            self.a.cmp(dword(rbp + start), part.shape);
            self.a.jne(otherwise);
        }
    }

    /// All that the way does, with what is found together and without. `shape` is that of its last record.
    fn bodies(&mut self, shape: u32) {
        self.anchors = anchors::of(self.way);
        if !self.anchors.is_empty() {
            let near = |op: &Op| anchors::near(&self.anchors, op);
            self.nears = self.way.ops.iter().map(near).collect();
            self.upcoming = 0;
            let plain = self.a.label();
            for n in 0..self.anchors.len() {
                self.anchor(n, plain);
            }
            self.body(shape);
            // The same for pointers that are not as they usually are.
            self.anchors.clear();
            self.a.set(plain);
        }
        self.nears = vec![None; self.way.ops.len()];
        self.body(shape);
    }

    /// All that the way does.
    fn body(&mut self, shape: u32) {
        let way = self.way;
        self.done.clear();
        for (n, op) in way.ops.iter().enumerate() {
            self.upcoming = n + 1;
            if !self.done.contains(&n) {
                self.op(op, self.nears[n]);
            }
        }
        for (to, value) in &way.ends {
            if *value == way.zero {
                self.a.mov(unit(*to), 0);
            } else {
                let from = self.source(rax, *value);
                self.a.mov(unit(*to), from);
            }
            self.held.forget(*to);
        }
        // All that counts is where it belongs.
        self.held = Held::default();
        // At once, because others read all of it.
        let telling = way.leaves & TELLING;
        match i32::try_from(telling) {
            Ok(0) => {}
            Ok(mask) => self.a.or(field(at::TELLING), mask),
            Err(_) => {
                self.a.mov(rax, telling as i64);
                self.a.or(field(at::TELLING), rax)
            }
        }
        if let Some(insn) = way.handed {
            if let Some(call) = &way.call {
                let handed = self.a.label();
                self.enter(call, insn, handed);
                self.rest_closed(shape);
                self.a.set(handed);
            }
            self.a.mov(eax, HANDED + u32::from(insn));
            return self.a.jmp(self.exits.leave);
        }
        let back = self.a.label();
        if let Some((slot, result)) = way.returns {
            self.returns(slot, result, back);
        }
        self.a.set(back);
        self.next(shape)
    }

    /// Takes rsp and rbp to where they are.
    fn stack(&mut self, stack: Option<Quick>, frame: Option<Quick>) {
        let moves = |q: Option<Quick>, from: u8| q.filter(|q| (q.at, q.offset) != (from, 0));
        match (moves(stack, 1), moves(frame, 2)) {
            (Some(stack), Some(frame)) => {
                self.quick(rax, stack);
                self.quick(r14, frame);
                self.a.mov(r13, rax);
            }
            (Some(stack), None) => self.quick(r13, stack),
            (None, Some(frame)) => self.quick(r14, frame),
            (None, None) => {}
        }
    }

    /// On to the next record.
    fn next(&mut self, shape: u32) {
        self.stack(self.way.rsp, self.way.rbp);
        let (len, steps) = self.way.start(self.way.more.len() + 1);
        self.a.mov(dword(rbx + at::LAST), shape);
        self.a.add(field(at::STEPS), steps);
        for line in 0..len.div_ceil(LINE) {
            self.a.prefetch(rbp + (AHEAD + LINE * line));
        }
        self.a.add(rbp, len as i32);
        dispatch(&mut self.a, self.exits.end, self.exits.before)
    }

    fn lay_late(&mut self) {
        for (label, late) in std::mem::take(&mut self.late) {
            self.a.set(label);
            self.late_code(late);
        }
    }

    /// Something in the row.
    fn row(&mut self, to: R64, place: u8) {
        match place {
            0 => self.a.mov(to, 0i64),
            1 => self.a.mov(to, r13),
            2 => self.a.mov(to, r14),
            FS => self.a.mov(to, field(at::FS_BASE)),
            n => {
                let at = self.way.offset(usize::from(n) - FIRST_VALUE);
                self.a.mov(to, qword(rbp + at))
            }
        }
    }

    fn add(&mut self, to: R64, offset: i64) {
        match i32::try_from(offset) {
            Ok(0) => {}
            Ok(offset) => self.a.lea(to, to + offset),
            Err(_) => {
                self.a.mov(rdx, offset);
                self.a.add(to, rdx)
            }
        }
    }

    fn quick(&mut self, to: R64, q: Quick) {
        match (self.in_register(q.at), i32::try_from(q.offset)) {
            (Some(from), Ok(offset)) if offset != 0 => self.a.lea(to, from + offset),
            _ => {
                self.row(to, q.at);
                self.add(to, q.offset)
            }
        }
    }

    /// The register that something in the row is in.
    fn in_register(&self, place: u8) -> Option<R64> {
        match place {
            1 => Some(r13),
            2 => Some(r14),
            _ => None,
        }
    }

    /// What is known of a unit.
    fn value(&mut self, to: R64, n: u16) {
        if n == self.way.zero {
            return self.a.mov(to, 0i64);
        }
        let from = self.source(to, n);
        if from != to {
            self.a.mov(to, from);
        }
    }

    /// The address of an operation, to rcx.
    fn address(&mut self, op: &Op) {
        self.sum(op.base, op.index, op.scale, op.offset)
    }

    /// An address of these parts, to rcx.
    fn sum(&mut self, base: u8, index: u8, scale: u8, offset: i64) {
        if index == 0 {
            return self.quick(rcx, Quick { at: base, offset });
        }
        let from = match self.in_register(base) {
            Some(register) => register,
            None => {
                self.row(rcx, base);
                rcx
            }
        };
        self.row(rax, index);
        let sum = from + rax * u32::from(scale);
        match i32::try_from(offset) {
            Ok(offset) => self.a.lea(rcx, sum + offset as u32),
            Err(_) => {
                self.a.lea(rcx, sum);
                self.add(rcx, offset)
            }
        }
    }

    /// The cell at rcx, which is the address of one.
    fn cell(&mut self) -> Address {
        self.a.and(rcx, r15);
        r12 + rcx
    }

    /// The cell that rcx is in. Keeps rcx.
    fn cell_around(&mut self) -> Address {
        self.a.mov(rdx, rcx);
        self.a.and(rdx, r15);
        r12 + rdx
    }

    fn op(&mut self, op: &Op, near: Option<Near>) {
        match op.kind {
            Kind::Pointer => return self.pointer(op),
            Kind::Arith(kind) => return self.arithmetic(op, kind),
            Kind::Select => return self.select(op),
            Kind::Constant => {
                self.a.mov(rax, op.cell.0 as i64);
                return self.made(op.value);
            }
            Kind::Variable => return self.variable(op),
            Kind::Name => return self.name(op),
            Kind::Return => {
                let (at, offset) = (op.base, op.offset);
                let fail = self.fail(op.insn);
                return self.returns_to(Quick { at, offset }, fail);
            }
            _ => {}
        }
        if near.is_none() || op.kind.is_checked() {
            self.address(op);
        }
        if op.kind.is_checked() {
            self.check(op);
        }
        if let Some(near) = near {
            return self.near(op, near);
        }
        match op.kind {
            Kind::Load | Kind::CheckedLoad => self.load(op),
            Kind::Test | Kind::CheckedTest => self.test(op),
            Kind::Store | Kind::CheckedStore if op.len == 8 => self.store(op),
            Kind::Store | Kind::CheckedStore | Kind::StorePart | Kind::CheckedStorePart => {
                self.store_part(op)
            }
            Kind::Forget => self.forget(op),
            _ => {}
        }
    }

    /// Where the pointer is of no block, everything is inside. Keeps rcx.
    fn check(&mut self, op: &Op) {
        let fail = self.fail(op.insn);
        let inside = self.a.label();
        self.value(rax, op.pointer);
        let a = &mut self.a;
        // The block's number is above eight bits that are zero, and its bounds are 16 bytes.
        a.shr(rax, 4);
        a.hop(If::Zero, inside);
        let (begin, end) = (qword(rsi + rax), qword(rsi + rax + 8u32));
        // At least one byte is checked, so a block of none has nothing inside.
        if op.checked_at == 0 {
            a.cmp(rcx, begin);
            a.jb(fail);
            a.lea(rdx, rcx + op.checked as i32);
        } else {
            a.lea(rdx, rcx + op.checked_at);
            a.cmp(rdx, begin);
            a.jb(fail);
            a.add(rdx, op.checked as i32);
        }
        a.cmp(rdx, end);
        a.ja(fail);
        a.set(inside);
    }

    fn load(&mut self, op: &Op) {
        let back = self.a.label();
        let fail = self.fail(op.insn);
        let late = self.late(Late::Part { len: 8, fail, back });
        self.a.test(cl, 7);
        self.a.jne(late);
        let cell = self.cell();
        self.a.mov(rax, qword(cell));
        self.a.test(al, al);
        self.a.jne(fail);
        self.a.set(back);
        self.made(op.value)
    }

    fn test(&mut self, op: &Op) {
        let (len, fail) = (op.len, self.fail(op.insn));
        let back = self.a.label();
        let late = self.late(Late::Part { len, fail, back });
        let exact = self.late(Late::Exact { len, fail, back });
        self.within(len, late);
        let cell = self.cell_around();
        self.a.cmp(byte(cell), 0);
        self.a.jne(exact);
        self.a.set(back);
    }

    /// On only if so many bytes from rcx on are in one cell. Of those whose number is a power of two it is enough to
    /// see that they are where compilers put them.
    fn within(&mut self, len: u32, late: Label) {
        if len.is_power_of_two() && len > 1 {
            self.a.test(cl, len - 1);
            self.a.jne(late);
        } else if len > 1 {
            self.a.mov(eax, ecx);
            self.a.and(eax, 7);
            self.a.cmp(eax, 8 - len as i32);
            self.a.ja(late);
        }
    }

    fn store(&mut self, op: &Op) {
        let back = self.a.label();
        let late = self.late(Late::Store { len: 8, back });
        // Before the ways part: what it puts into a register is there from now on, on both.
        let from = (op.value != self.way.zero).then(|| self.source(rax, op.value));
        self.a.test(cl, 7);
        self.a.jne(late);
        let cell = self.cell();
        match from {
            None => self.a.mov(qword(cell), 0),
            Some(from) => self.a.mov(qword(cell), from),
        }
        self.a.set(back);
    }

    fn store_part(&mut self, op: &Op) {
        let len = op.len;
        let back = self.a.label();
        let late = self.late(Late::Store { len, back });
        let erase = self.late(Late::Erase { len, back });
        self.within(len, late);
        let cell = self.cell_around();
        self.a.cmp(qword(cell), 0);
        self.a.jne(erase);
        self.a.set(back);
    }

    fn forget(&mut self, op: &Op) {
        let back = self.a.label();
        let late = self.late(Late::Forget { len: op.len, back });
        let cells = op.len / 8;
        if !op.len.is_multiple_of(8) || cells > MOST_FORGOTTEN {
            self.a.jmp(late);
        } else {
            self.a.test(cl, 7);
            self.a.jne(late);
            let cell = self.cell();
            self.unwrite(cell, cells);
        }
        self.a.set(back);
    }

    fn pointer(&mut self, op: &Op) {
        let back = self.a.label();
        let late = self.late(Late::Pointer { back });
        self.value(rax, op.pointer);
        self.value(rcx, op.other);
        // An index seldom points anywhere.
        self.a.test(rcx, rcx);
        self.a.jne(late);
        self.a.set(back);
        self.made(op.value)
    }

    fn arithmetic(&mut self, op: &Op, kind: Arith) {
        let difference = i32::try_from(DIFFERENCE.0 << 8).expect("a small number");
        self.value(rax, op.pointer);
        match kind {
            Arith::Scale => {
                let a = &mut self.a;
                a.xor(ecx, ecx);
                a.cmp(rax, difference);
                a.cmov(If::NotZero, rax, rcx);
            }
            Arith::Add | Arith::Sub => {
                let back = self.a.label();
                let late = self.late(Late::Arith { kind, back });
                self.value(rcx, op.other);
                let a = &mut self.a;
                a.test(rcx, rcx);
                if kind == Arith::Add {
                    a.hop(If::Zero, back);
                    a.test(rax, rax);
                    a.jne(late);
                    a.mov(rax, rcx);
                } else {
                    // The distance of two places in one block is a number.
                    a.hop(If::Zero, back);
                    a.cmp(rax, rcx);
                    a.jne(late);
                    a.mov(eax, 0);
                }
                a.set(back);
            }
            Arith::Negate => {
                self.value(rcx, op.other);
                let a = &mut self.a;
                a.or(rcx, rax);
                a.mov(eax, 0);
                a.mov(edx, difference);
                a.test(rcx, rcx);
                a.cmov(If::NotZero, rax, rdx);
            }
        }
        self.made(op.value)
    }

    fn variable(&mut self, op: &Op) {
        let back = self.a.label();
        let (variable, insn) = (op.checked, op.insn);
        let late = self.late(Late::Ask {
            variable,
            insn,
            back,
        });
        self.address(op);
        let at = 16 * variable as i32;
        let a = &mut self.a;
        a.mov(rax, field(at::VARIABLES));
        a.cmp(rcx, qword(rax + at));
        a.mov(rax, qword(rax + (at + 8)));
        a.jne(late);
        a.set(back);
        self.made(op.value)
    }

    fn select(&mut self, op: &Op) {
        let condition = Quick {
            at: op.base,
            offset: op.offset,
        };
        self.quick(rcx, condition);
        self.a.test(cl, 1);
        // Moves leave the outcome alone.
        self.value(rax, op.pointer);
        self.value(rcx, op.other);
        self.a.cmov(If::Zero, rax, rcx);
        self.made(op.value)
    }
}
