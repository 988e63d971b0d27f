//! Ways as machine code.
//!
//! While it runs: rbx is [`Registers`](crate::Registers), rbp the record, r12 the table of chunks, r15 the first
//! chunk, r13 and r14 the guest's rsp and rbp. r8 to r11 are the cells of anchors. Everything else comes and goes
//! within an operation, and an operation that calls Rust code keeps nothing else over the call.
//!
//! What happens seldom is put behind the rest of the way (`Late`): it either goes on or stops the code.

use iced_x86::IcedError;
use iced_x86::code_asm::*;

use crate::anchors::{self, Anchor, MOST_FORGOTTEN, Near};
use crate::cell::{Arith, DIFFERENCE};
use crate::run::{ASK, BEFORE, END, FAILED, RETURN, at};
use crate::shadow::{CHUNK, CHUNK_BITS, TOP};
use crate::ways::{FIRST_VALUE, FS, Kind, Op, Quick, Way};

/// The groups of which it matters whether something is known of them: vectors and what comes after.
const TELLING: u64 = !0 << 18;

/// Where code goes that is not another record's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exits {
    pub(crate) enter: u64,
    /// The way in after a question.
    pub(crate) go_on: u64,
    pub(crate) end: u64,
    pub(crate) before: u64,
    leave: u64,
}

pub(crate) struct Fixed {
    pub(crate) bytes: Vec<u8>,
    pub(crate) exits: Exits,
}

/// The way in and the ways out, which are the same for all.
pub(crate) fn fixed(ip: u64) -> Result<Fixed, IcedError> {
    let saved = [rbx, rbp, r12, r13, r14, r15];
    let mut bytes = Vec::new();
    let mut put = |make: &mut dyn FnMut(&mut CodeAssembler) -> Result<(), IcedError>| {
        let mut a = CodeAssembler::new(64)?;
        make(&mut a)?;
        let at = ip + bytes.len() as u64;
        bytes.extend(a.assemble(at)?);
        Ok::<u64, IcedError>(at)
    };
    let leave = put(&mut |a| {
        a.mov(field(at::RECORD), rbp)?;
        a.mov(field(at::RSP), r13)?;
        a.mov(field(at::RBP), r14)?;
        a.add(rsp, 8)?;
        for register in saved.iter().rev() {
            a.pop(*register)?;
        }
        a.ret()
    })?;
    let mut out = |why: u32| {
        put(&mut |a| {
            a.mov(eax, why)?;
            a.jmp(leave)
        })
    };
    let (end, before) = (out(END)?, out(BEFORE)?);
    let enter = put(&mut |a| {
        for register in saved {
            a.push(register)?;
        }
        a.sub(rsp, 8)?;
        a.mov(rbx, rdi)?;
        a.mov(rbp, rsi)?;
        a.mov(r12, rdx)?;
        a.mov(r15, rcx)?;
        a.mov(r13, field(at::RSP))?;
        a.mov(r14, field(at::RBP))?;
        dispatch(a, end, before)
    })?;
    let go_on = put(&mut |a| {
        for register in saved {
            a.push(register)?;
        }
        a.sub(rsp, 8)?;
        a.mov(rbx, rdi)?;
        a.mov(rbp, rsi)?;
        a.mov(r12, rdx)?;
        a.mov(r15, rcx)?;
        a.mov(r13, field(at::RSP))?;
        a.mov(r14, field(at::RBP))?;
        for (n, anchor) in ANCHORS.into_iter().enumerate() {
            a.mov(anchor, field(at::KEPT + 8 * n))?;
        }
        a.mov(rax, field(at::ANSWER))?;
        a.jmp(field(at::RESUME))
    })?;
    let exits = Exits {
        enter,
        go_on,
        end,
        before,
        leave,
    };
    Ok(Fixed { bytes, exits })
}

/// On to the record at rbp.
fn dispatch(a: &mut CodeAssembler, end: u64, before: u64) -> Result<(), IcedError> {
    // Behind all that begin before the end there is room for the longest.
    a.cmp(rbp, field(at::END))?;
    a.jae(end)?;
    a.mov(eax, dword_ptr(rbp))?;
    a.cmp(eax, dword_ptr(rbx + at::SHAPES))?;
    a.jae(before)?;
    a.mov(rcx, field(at::TABLE))?;
    a.jmp(qword_ptr(rcx + rax * 8))
}

fn field(offset: usize) -> AsmMemoryOperand {
    qword_ptr(rbx + offset)
}

fn unit(n: u16) -> AsmMemoryOperand {
    field(usize::from(n) * 8)
}

/// Calls Rust code. It may lose the anchors.
fn call(a: &mut CodeAssembler, routine: usize) -> Result<(), IcedError> {
    for register in ANCHORS {
        a.push(register)?;
    }
    a.call(field(routine))?;
    for register in ANCHORS.iter().rev() {
        a.pop(*register)?;
    }
    Ok(())
}

/// The code of a way.
pub(crate) fn open(way: &Way, shape: u32, ip: u64, exits: &Exits) -> Result<Vec<u8>, IcedError> {
    let mut m = Maker::new(way, exits)?;
    if way.reads | way.cleans != 0 {
        let mut back = m.a.create_label();
        let late = m.late(Late::Tainted { back });
        m.a.cmp(field(at::TAINTED), 0)?;
        m.a.jne(late)?;
        m.a.set_label(&mut back)?;
    }
    m.anchors = anchors::of(way);
    if !m.anchors.is_empty() {
        let mut plain = m.a.create_label();
        for n in 0..m.anchors.len() {
            m.anchor(n, plain)?;
        }
        m.body(shape)?;
        // The same for pointers that are not as they usually are.
        m.anchors.clear();
        m.a.set_label(&mut plain)?;
    }
    m.body(shape)?;
    m.finish(ip)
}

/// The code of a way that is not looked into.
pub(crate) fn closed(way: &Way, shape: u32, ip: u64, exits: &Exits) -> Result<Vec<u8>, IcedError> {
    let mut m = Maker::new(way, exits)?;
    if way.returns.is_some() {
        m.a.mov(eax, RETURN)?;
        m.a.jmp(exits.leave)?;
        return m.a.assemble(ip);
    }
    m.next(shape)?;
    m.finish(ip)
}

/// What happens seldom.
enum Late {
    /// The code stops.
    Out(u32),
    /// Bytes at rcx are looked at one by one. If all were written, it goes on with nothing known of them.
    Part { len: u32, insn: u8, back: CodeLabel },
    /// Something is unwritten in some register; perhaps in none that is read.
    Tainted { back: CodeLabel },
    /// Some bytes of the cell of rcx were never written, as esi says; perhaps not those that are read.
    Exact { len: u32, insn: u8, back: CodeLabel },
    /// Bytes at rcx get what is known of rsi.
    Store { len: u32, back: CodeLabel },
    /// Bytes from rcx on become unwritten.
    Forget { len: u32, back: CodeLabel },
    /// rax and rcx are both of a block.
    Arith { kind: Arith, back: CodeLabel },
    /// It is not known what a pointer to the variable at rcx is; whoever runs the code says it in rax.
    Ask {
        variable: u32,
        insn: u8,
        back: CodeLabel,
    },
}

struct Maker<'a> {
    a: CodeAssembler,
    way: &'a Way,
    exits: Exits,
    late: Vec<(CodeLabel, Late)>,
    anchors: Vec<Anchor>,
}

/// Registers of anchors.
const ANCHORS: [AsmRegister64; 4] = [r8, r9, r10, r11];

impl<'a> Maker<'a> {
    fn new(way: &'a Way, exits: &Exits) -> Result<Maker<'a>, IcedError> {
        Ok(Maker {
            a: CodeAssembler::new(64)?,
            way,
            exits: *exits,
            late: Vec::new(),
            anchors: Vec::new(),
        })
    }

    /// All that the way does.
    fn body(&mut self, shape: u32) -> Result<(), IcedError> {
        let way = self.way;
        for op in &way.ops {
            self.op(op)?;
        }
        for (to, value) in &way.ends {
            if *value == way.zero {
                self.a.mov(unit(*to), 0)?;
                continue;
            }
            self.a.mov(rax, unit(*value))?;
            self.a.mov(unit(*to), rax)?;
        }
        self.halves(way.leaves & TELLING, |m, part, mask| {
            m.a.or(dword_ptr(rbx + (at::TELLING + part)), mask)
        })?;
        if let Some(slot) = way.returns {
            self.quick(rax, slot)?;
            self.a.cmp(rax, field(at::SLOT))?;
            let out = self.late(Late::Out(RETURN));
            self.a.jae(out)?;
        }
        self.next(shape)
    }

    /// On to the next record.
    fn next(&mut self, shape: u32) -> Result<(), IcedError> {
        let moves = |q: Option<Quick>, from: u8| q.filter(|q| (q.at, q.offset) != (from, 0));
        match (moves(self.way.rsp, 1), moves(self.way.rbp, 2)) {
            (Some(stack), Some(frame)) => {
                self.quick(rax, stack)?;
                self.quick(r14, frame)?;
                self.a.mov(r13, rax)?;
            }
            (Some(stack), None) => self.quick(r13, stack)?,
            (None, Some(frame)) => self.quick(r14, frame)?,
            (None, None) => {}
        }
        self.a.mov(dword_ptr(rbx + at::LAST), shape)?;
        let executed = i32::from(self.way.executed);
        self.a.add(field(at::STEPS), executed)?;
        self.a.add(rbp, self.way.record_len() as i32)?;
        dispatch(&mut self.a, self.exits.end, self.exits.before)
    }

    fn finish(mut self, ip: u64) -> Result<Vec<u8>, IcedError> {
        for (mut label, late) in std::mem::take(&mut self.late) {
            self.a.set_label(&mut label)?;
            self.late_code(late)?;
        }
        self.a.assemble(ip)
    }

    /// Does something for each half of a mask that has bits.
    fn halves(
        &mut self,
        mask: u64,
        each: impl Fn(&mut Self, usize, u32) -> Result<(), IcedError>,
    ) -> Result<(), IcedError> {
        for (part, half) in [(0, mask as u32), (4, (mask >> 32) as u32)] {
            if half != 0 {
                each(self, part, half)?;
            }
        }
        Ok(())
    }

    fn late(&mut self, late: Late) -> CodeLabel {
        if let Late::Out(why) = late {
            let same = |(_, l): &&(CodeLabel, Late)| matches!(l, Late::Out(w) if *w == why);
            if let Some((label, _)) = self.late.iter().find(same) {
                return *label;
            }
        }
        let label = self.a.create_label();
        self.late.push((label, late));
        label
    }

    fn fail(&mut self, insn: u8) -> CodeLabel {
        self.late(Late::Out(FAILED + u32::from(insn)))
    }

    fn late_code(&mut self, late: Late) -> Result<(), IcedError> {
        let way = self.way;
        let before = self.exits.before;
        let a = &mut self.a;
        match late {
            Late::Tainted { back } => {
                self.halves(way.reads, |m, part, mask| {
                    m.a.test(dword_ptr(rbx + (at::TAINTED + part)), mask)?;
                    m.a.jne(before)
                })?;
                // Where the way is left in its middle, others find out what of this is still so.
                self.halves(way.cleans, |m, part, mask| {
                    m.a.and(dword_ptr(rbx + (at::TAINTED + part)), !mask)
                })?;
                self.a.jmp(back)
            }
            Late::Out(why) => {
                a.mov(eax, why)?;
                a.jmp(self.exits.leave)
            }
            Late::Part { len, insn, back } => {
                a.mov(rdi, rbx)?;
                a.mov(rsi, rcx)?;
                a.mov(edx, len)?;
                call(a, at::PART)?;
                a.test(rax, rax)?;
                // What is not all written is for others.
                a.je(back)?;
                a.mov(eax, FAILED + u32::from(insn))?;
                a.jmp(self.exits.leave)
            }
            Late::Exact { len, insn, back } => {
                a.and(ecx, 7)?;
                a.shr(esi, cl)?;
                a.test(esi, (1i32 << len) - 1)?;
                a.je(back)?;
                a.mov(eax, FAILED + u32::from(insn))?;
                a.jmp(self.exits.leave)
            }
            Late::Store { len, back } => {
                a.mov(rdi, rbx)?;
                a.xchg(rsi, rcx)?;
                a.mov(edx, len)?;
                call(a, at::STORE)?;
                a.jmp(back)
            }
            Late::Forget { len, back } => {
                a.mov(rdi, rbx)?;
                a.mov(rsi, rcx)?;
                a.mov(edx, len)?;
                call(a, at::FORGET)?;
                a.jmp(back)
            }
            Late::Arith { kind, back } => {
                a.mov(edi, kind as u32)?;
                a.mov(rsi, rax)?;
                a.mov(rdx, rcx)?;
                call(a, at::ARITHMETIC)?;
                a.jmp(back)
            }
            Late::Ask {
                variable,
                insn,
                back,
            } => {
                a.mov(field(at::ADDRESS), rcx)?;
                a.mov(dword_ptr(rbx + at::ASKED), variable)?;
                a.mov(dword_ptr(rbx + at::INSN), u32::from(insn))?;
                a.lea(rax, ptr(back))?;
                a.mov(field(at::RESUME), rax)?;
                for (n, anchor) in ANCHORS.into_iter().enumerate() {
                    a.mov(field(at::KEPT + 8 * n), anchor)?;
                }
                a.mov(eax, ASK)?;
                a.jmp(self.exits.leave)
            }
        }
    }

    /// Something in the row.
    fn row(&mut self, to: AsmRegister64, place: u8) -> Result<(), IcedError> {
        match place {
            0 => self.a.mov(to, 0i64),
            1 => self.a.mov(to, r13),
            2 => self.a.mov(to, r14),
            FS => self.a.mov(to, field(at::FS_BASE)),
            n => {
                let n = usize::from(n) - FIRST_VALUE;
                self.a.mov(to, qword_ptr(rbp + (4 + 8 * n)))
            }
        }
    }

    fn add(&mut self, to: AsmRegister64, offset: i64) -> Result<(), IcedError> {
        match i32::try_from(offset) {
            Ok(0) => Ok(()),
            Ok(offset) => self.a.lea(to, to + offset),
            Err(_) => {
                self.a.mov(rdx, offset)?;
                self.a.add(to, rdx)
            }
        }
    }

    fn quick(&mut self, to: AsmRegister64, q: Quick) -> Result<(), IcedError> {
        self.row(to, q.at)?;
        self.add(to, q.offset)
    }

    /// What is known of a unit.
    fn value(&mut self, to: AsmRegister64, n: u16) -> Result<(), IcedError> {
        if n == self.way.zero {
            return self.a.mov(to, 0i64);
        }
        self.a.mov(to, unit(n))
    }

    /// The address of an operation, to rcx.
    fn address(&mut self, op: &Op) -> Result<(), IcedError> {
        self.pointer_of(op.base, op.index, op.scale)?;
        self.add(rcx, op.offset)
    }

    fn pointer_of(&mut self, base: u8, index: u8, scale: u8) -> Result<(), IcedError> {
        self.row(rcx, base)?;
        if index != 0 {
            self.row(rax, index)?;
            self.a.lea(rcx, rcx + rax * u32::from(scale))?;
        }
        Ok(())
    }

    /// The place of the cell of rcx: its offset in its chunk to rax, with the first chunk, and the chunk's
    /// distance to rdx.
    fn cell(&mut self) -> Result<AsmMemoryOperand, IcedError> {
        let a = &mut self.a;
        a.mov(rdx, rcx)?;
        a.shr(rdx, CHUNK_BITS)?;
        a.and(edx, TOP as i32 - 1)?;
        a.mov(eax, ecx)?;
        a.mov(rdx, qword_ptr(r12 + rdx * 8))?;
        a.and(eax, CHUNK as i32 - 8)?;
        a.add(rax, r15)?;
        Ok(rax + rdx)
    }

    fn op(&mut self, op: &Op) -> Result<(), IcedError> {
        match op.kind {
            Kind::Pointer => return self.pointer(op),
            Kind::Arith(kind) => return self.arithmetic(op, kind),
            Kind::Select => return self.select(op),
            Kind::Constant => {
                self.a.mov(rax, op.cell.0)?;
                return self.a.mov(unit(op.value), rax);
            }
            Kind::Variable => return self.variable(op),
            _ => {}
        }
        let near = anchors::near(&self.anchors, op);
        if near.is_none() || op.kind.is_checked() {
            self.address(op)?;
        }
        if op.kind.is_checked() {
            self.check(op)?;
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
            _ => Ok(()),
        }
    }

    /// The cells of an anchor. Elsewhere if they are not in one chunk, or not in cells.
    fn anchor(&mut self, n: usize, plain: CodeLabel) -> Result<(), IcedError> {
        let Anchor {
            base,
            index,
            scale,
            first,
            span,
            tells,
        } = self.anchors[n];
        self.pointer_of(base, index, scale)?;
        self.add(rcx, first)?;
        let a = &mut self.a;
        a.test(cl, 7)?;
        a.jne(plain)?;
        a.mov(eax, ecx)?;
        a.and(eax, CHUNK as i32 - 8)?;
        a.cmp(eax, CHUNK as i32 - span as i32)?;
        a.ja(plain)?;
        // Beyond user space nothing is forgotten.
        a.mov(rdx, rcx)?;
        a.shr(rdx, CHUNK_BITS)?;
        a.cmp(rdx, TOP as i32)?;
        a.jae(plain)?;
        a.mov(rdx, qword_ptr(r12 + rdx * 8))?;
        if tells {
            a.test(rdx, rdx)?;
            a.je(plain)?;
        }
        a.add(rax, r15)?;
        a.lea(ANCHORS[n], rax + rdx)
    }

    /// An access to a cell of an anchor.
    fn near(&mut self, op: &Op, near: Near) -> Result<(), IcedError> {
        let cell = ANCHORS[near.anchor] + near.cell;
        let bytes = ((1u32 << op.len.min(8)) - 1) << near.byte;
        match op.kind {
            Kind::Load | Kind::CheckedLoad => {
                let fail = self.fail(op.insn);
                self.a.mov(rax, qword_ptr(cell))?;
                self.a.test(al, al)?;
                self.a.jne(fail)?;
                self.a.mov(unit(op.value), rax)
            }
            Kind::Test | Kind::CheckedTest => {
                let fail = self.fail(op.insn);
                self.a.test(byte_ptr(cell), bytes)?;
                self.a.jne(fail)
            }
            Kind::Store | Kind::CheckedStore if op.len == 8 => {
                if op.value == self.way.zero {
                    return self.a.mov(qword_ptr(cell), 0);
                }
                self.a.mov(rax, unit(op.value))?;
                self.a.mov(qword_ptr(cell), rax)
            }
            Kind::Forget => self.unwrite(cell, op.len / 8),
            // Fewer bytes, of which nothing is known.
            _ => self.a.and(qword_ptr(cell), !bytes as i32 & 0xff),
        }
    }

    /// Where the pointer is of no block, everything is inside. Keeps rcx.
    fn check(&mut self, op: &Op) -> Result<(), IcedError> {
        let fail = self.fail(op.insn);
        let mut inside = self.a.create_label();
        self.value(rax, op.pointer)?;
        let a = &mut self.a;
        a.shr(rax, 8)?;
        a.je(inside)?;
        a.cmp(rax, field(at::BLOCKS))?;
        a.jae(fail)?;
        a.shl(rax, 4)?;
        a.add(rax, field(at::BOUNDS))?;
        a.lea(rdx, rcx + op.checked_at)?;
        a.sub(rdx, qword_ptr(rax))?;
        a.mov(rax, qword_ptr(rax + 8))?;
        // At least one byte is checked, so a block of none has nothing inside.
        a.sub(rax, op.checked as i32)?;
        a.jb(fail)?;
        a.cmp(rdx, rax)?;
        a.ja(fail)?;
        a.set_label(&mut inside)?;
        // A label needs an instruction of its own.
        if op.kind == Kind::Check {
            a.nop()?;
        }
        Ok(())
    }

    fn load(&mut self, op: &Op) -> Result<(), IcedError> {
        let mut back = self.a.create_label();
        let fail = self.fail(op.insn);
        let late = self.late(Late::Part {
            len: 8,
            insn: op.insn,
            back,
        });
        self.a.test(cl, 7)?;
        self.a.jne(late)?;
        let cell = self.cell()?;
        self.a.mov(rax, qword_ptr(cell))?;
        self.a.test(al, al)?;
        self.a.jne(fail)?;
        self.a.set_label(&mut back)?;
        self.a.mov(unit(op.value), rax)
    }

    fn test(&mut self, op: &Op) -> Result<(), IcedError> {
        let mut back = self.a.create_label();
        let late = self.late(Late::Part {
            len: op.len,
            insn: op.insn,
            back,
        });
        let exact = self.late(Late::Exact {
            len: op.len,
            insn: op.insn,
            back,
        });
        self.within(op.len, late)?;
        let cell = self.cell()?;
        self.a.movzx(esi, byte_ptr(cell))?;
        self.a.test(esi, esi)?;
        self.a.jne(exact)?;
        self.a.set_label(&mut back)?;
        self.a.nop()
    }

    /// On only if so many bytes from rcx on are in one cell; leaves their first byte's number in eax.
    fn within(&mut self, len: u32, late: CodeLabel) -> Result<(), IcedError> {
        if len > 1 {
            self.a.mov(eax, ecx)?;
            self.a.and(eax, 7)?;
            self.a.cmp(eax, 8 - len as i32)?;
            self.a.ja(late)?;
        }
        Ok(())
    }

    fn store(&mut self, op: &Op) -> Result<(), IcedError> {
        let mut back = self.a.create_label();
        let late = self.late(Late::Store { len: 8, back });
        self.value(rsi, op.value)?;
        self.a.test(cl, 7)?;
        self.a.jne(late)?;
        let cell = self.cell()?;
        // To memory of which nothing is known only the same may be written.
        if op.value != self.way.zero {
            self.a.test(rdx, rdx)?;
            self.a.je(late)?;
        }
        self.a.mov(qword_ptr(cell), rsi)?;
        self.a.set_label(&mut back)?;
        self.a.nop()
    }

    fn store_part(&mut self, op: &Op) -> Result<(), IcedError> {
        let mut back = self.a.create_label();
        let late = self.late(Late::Store { len: op.len, back });
        self.a.mov(rsi, 0i64)?;
        self.within(op.len, late)?;
        let cell = self.cell()?;
        self.a.and(ecx, 7)?;
        self.a.mov(esi, (1u32 << op.len) - 1)?;
        self.a.shl(esi, cl)?;
        self.a.xor(esi, 0xff)?;
        self.a.movzx(esi, sil)?;
        self.a.and(qword_ptr(cell), rsi)?;
        self.a.set_label(&mut back)?;
        self.a.nop()
    }

    fn forget(&mut self, op: &Op) -> Result<(), IcedError> {
        let mut back = self.a.create_label();
        let late = self.late(Late::Forget { len: op.len, back });
        let cells = op.len / 8;
        if !op.len.is_multiple_of(8) || cells > MOST_FORGOTTEN {
            self.a.jmp(late)?;
        } else {
            self.a.test(cl, 7)?;
            self.a.jne(late)?;
            // Beyond user space nothing is kept.
            self.a.mov(rsi, rcx)?;
            self.a.shr(rsi, CHUNK_BITS + TOP.ilog2())?;
            self.a.jne(late)?;
            let cell = self.cell()?;
            self.a.test(rdx, rdx)?;
            self.a.je(late)?;
            // All in one chunk.
            self.a.mov(esi, ecx)?;
            self.a.and(esi, CHUNK as i32 - 8)?;
            self.a.cmp(esi, CHUNK as i32 - op.len as i32)?;
            self.a.ja(late)?;
            self.unwrite(cell, cells)?;
        }
        self.a.set_label(&mut back)?;
        self.a.nop()
    }

    /// Cells in a row become unwritten, two at a time.
    fn unwrite(&mut self, first: AsmMemoryOperand, cells: u32) -> Result<(), IcedError> {
        let a = &mut self.a;
        if cells > 1 {
            a.movups(xmm0, xmmword_ptr(rbx + at::UNWRITTEN))?;
        }
        for n in 0..cells / 2 {
            a.movups(xmmword_ptr(first + 16 * n), xmm0)?;
        }
        match cells % 2 {
            0 => Ok(()),
            _ => a.mov(qword_ptr(first + 8 * (cells - 1)), 0xff),
        }
    }

    fn pointer(&mut self, op: &Op) -> Result<(), IcedError> {
        self.value(rax, op.pointer)?;
        self.value(rcx, op.other)?;
        let a = &mut self.a;
        // The one that points somewhere; if both do, it is not known which is meant.
        a.xor(edx, edx)?;
        a.test(rax, rax)?;
        a.cmovz(rdx, rcx)?;
        a.test(rcx, rcx)?;
        a.cmovz(rdx, rax)?;
        a.mov(unit(op.value), rdx)
    }

    fn arithmetic(&mut self, op: &Op, kind: Arith) -> Result<(), IcedError> {
        let difference = i32::try_from(DIFFERENCE.0 << 8).expect("a small number");
        self.value(rax, op.pointer)?;
        match kind {
            Arith::Scale => {
                let a = &mut self.a;
                a.xor(ecx, ecx)?;
                a.cmp(rax, difference)?;
                a.cmovne(rax, rcx)?;
            }
            Arith::Add | Arith::Sub => {
                let mut back = self.a.create_label();
                let late = self.late(Late::Arith { kind, back });
                self.value(rcx, op.other)?;
                let a = &mut self.a;
                a.test(rcx, rcx)?;
                if kind == Arith::Add {
                    a.je(back)?;
                    a.test(rax, rax)?;
                    a.jne(late)?;
                    a.mov(rax, rcx)?;
                } else {
                    a.jne(late)?;
                }
                a.set_label(&mut back)?;
            }
            Arith::Negate => {
                self.value(rcx, op.other)?;
                let a = &mut self.a;
                a.or(rcx, rax)?;
                a.mov(eax, 0)?;
                a.mov(edx, difference)?;
                a.test(rcx, rcx)?;
                a.cmovne(rax, rdx)?;
            }
        }
        self.a.mov(unit(op.value), rax)
    }

    fn variable(&mut self, op: &Op) -> Result<(), IcedError> {
        let mut back = self.a.create_label();
        let (variable, insn) = (op.checked, op.insn);
        let late = self.late(Late::Ask {
            variable,
            insn,
            back,
        });
        self.address(op)?;
        let at = 16 * variable as i32;
        let a = &mut self.a;
        a.mov(rax, field(at::VARIABLES))?;
        a.cmp(rcx, qword_ptr(rax + at))?;
        a.mov(rax, qword_ptr(rax + (at + 8)))?;
        a.jne(late)?;
        a.set_label(&mut back)?;
        a.mov(unit(op.value), rax)
    }

    fn select(&mut self, op: &Op) -> Result<(), IcedError> {
        let condition = Quick {
            at: op.base,
            offset: op.offset,
        };
        self.quick(rsi, condition)?;
        self.value(rax, op.pointer)?;
        self.value(rcx, op.other)?;
        self.a.test(sil, 1)?;
        self.a.cmovz(rax, rcx)?;
        self.a.mov(unit(op.value), rax)
    }
}
