//! Annotations that write the tape: which way out of a superblock was taken, and the registers from
//! which the addresses of its memory accesses follow.
//!
//! Where the next record goes, the *cursor*, is in a register, because a chain of loads and stores of
//! it from superblock to superblock costs more than the rest of the annotations. Between superblocks
//! that is always [`HOME`]: r11, which compilers use last, because it is neither kept over calls nor an
//! argument. What the guest has there waits in the thread's page. Before an instruction that touches
//! r11 the cursor moves to a register that the next instructions do not touch, and back at the way
//! out. Values are stored at fixed distances from the cursor, which is moved on once, at the way out.
//! All this is done with `mov` and `lea`: the flags stay as they are.
//!
//! A register need not be stored if its value follows from something stored before: the translator
//! keeps for each register what is known of it, as a slot and a constant. Of rsp and rbp the reader
//! knows the value at the beginning, so code that addresses its frame stores nothing.
//!
//! Keeping the cursor in the thread's page and loading it where a superblock first needs it was rejected:
//! saving and restoring a register each time, and seven cycles from one record to the next. Several
//! tapes written in turn would shorten that chain too, but not the code, and the reader would have to
//! merge them.

use std::sync::Arc;

use iced_x86::{
    Code as Opcode, ConditionCode, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};
use tape::{Known, RECORD_HEAD, Term, What, slot};

use super::emit::{Code, Gpr};
use super::{Insn, Routines, Superblock, measure};
use crate::layout::slot as page;

const RSP: usize = 4;
const RBP: usize = 5;

/// Most bytes that one step adds to the tape: the registers of an address, of a string
/// instruction afterwards, and at the way out rsp, rbp and the head of the record; a gather more, and so does the entry of
/// a function.
pub(crate) const MAX_BYTES_PER_STEP: u64 = 120;

/// Longest taped superblock, so that there are slots enough for its values.
pub(crate) const MAX_INSNS: usize = 48;

/// The register that holds the cursor between superblocks.
pub(crate) const HOME: Gpr = Gpr::R11;

/// Registers that can hold the cursor. rcx and rdx are what other annotations use.
const CANDIDATES: [u8; 12] = [0, 3, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// What one instruction does to the general registers, as far as the tape is concerned.
#[derive(Clone, Default)]
struct Use {
    touched: u16,
    written: u16,
    addresses: u16,
}

/// The state of the annotations at a side exit.
#[derive(Clone, Copy)]
pub(crate) struct Moment {
    cursor: Gpr,
    home_saved: bool,
    values: u8,
    rsp: Option<Term>,
    rbp: Option<Term>,
}

/// A way out, of which the translation makes a shape.
pub(crate) struct Way {
    pub(crate) executed: u8,
    pub(crate) values: u8,
    pub(crate) rsp: Option<Term>,
    pub(crate) rbp: Option<Term>,
}

/// What the engine keeps of a taped superblock.
pub(crate) struct Taped {
    pub(crate) code: Arc<tape::Code>,
    /// Values stored before each instruction is reached.
    pub(crate) values_before: Vec<u8>,
    pub(crate) ways: Vec<Way>,
}

pub(crate) struct Taping {
    first_id: u32,
    ways: Vec<Way>,
    terms: [Option<Term>; 16],
    values: u8,
    known: Vec<Known>,
    values_before: Vec<u8>,
    uses: Vec<Use>,
    /// The register that holds the cursor; the guest's own value of it is in the thread's page.
    pub(crate) cursor: Gpr,
    /// What the thread's page has for [`HOME`] is what the guest has there.
    home_saved: bool,
    /// The stack pointer is what it was less what was in a register.
    lowered: bool,
}

/// It sets as much aside on the stack as a register says.
fn lowers_stack(i: &Instruction) -> bool {
    let from = i.mnemonic() == Mnemonic::Sub && i.op0_register() == Register::RSP;
    from && i.op1_kind() == OpKind::Register
}

impl Taping {
    pub(crate) fn new(block: &Superblock, first_id: u32) -> Self {
        let mut factory = InstructionInfoFactory::new();
        let uses = block.insns.iter().map(|i| Use::of(i, &mut factory));
        let mut terms = [None; 16];
        terms[RSP] = Some(at(slot::RSP, 0));
        terms[RBP] = Some(at(slot::RBP, 0));
        Taping {
            first_id,
            ways: Vec::new(),
            terms,
            values: 0,
            known: Vec::new(),
            values_before: Vec::with_capacity(block.insns.len()),
            uses: uses.collect(),
            cursor: HOME,
            home_saved: true,
            lowered: false,
        }
    }

    pub(crate) fn finish(self, block: &Superblock) -> Taped {
        let insns = block.insns.iter().map(|i| tape::Insn {
            pc: i.pc,
            len: i.len,
            bytes: i.bytes,
        });
        Taped {
            code: Arc::new(tape::Code {
                insns: insns.collect(),
                known: self.known,
            }),
            values_before: self.values_before,
            ways: self.ways,
        }
    }

    /// To be called before the translation of instruction `i`.
    pub(crate) fn before(&mut self, code: &mut Code, i: usize, insn: &Insn, routines: &Routines) {
        self.values_before.push(self.values);
        let used = self.uses[i].clone();
        if used.touched >> self.cursor.0 & 1 != 0 {
            self.move_cursor(code, i);
        }
        for r in registers(used.addresses | insn.told) {
            let term = match self.terms[r] {
                Some(term) => term,
                None => {
                    let term = self.store(code, Gpr(r as u8));
                    self.terms[r] = Some(term);
                    term
                }
            };
            self.known.push(Known {
                insn: i as u8,
                what: What::Before(r as u8),
                term,
            });
        }
        for (n, measure) in insn.measures.iter().enumerate() {
            let Some(measure) = measure else { continue };
            let slot = self.slot();
            measure::call(code, measure, routines);
            code.store_based(Gpr::RCX, self.cursor, place(slot));
            code.load(Gpr::RCX, page::RCX);
            self.known.push(Known {
                insn: i as u8,
                what: What::Measured(n as u8),
                term: at(slot, 0),
            });
        }
        // Where a pointer into the frame leads, if that follows from what is known anyway.
        let base = match insn.decoded.mnemonic() {
            Mnemonic::Lea => insn.decoded.memory_base(),
            Mnemonic::Mov if insn.decoded.op1_kind() == OpKind::Register => {
                insn.decoded.op1_register()
            }
            _ if lowers_stack(&insn.decoded) => Register::RSP,
            _ => Register::None,
        };
        let mut bases = [number(base), None];
        // Or if it leads to what was set aside on the stack. Every way out would tell the stack pointer later.
        if self.lowered && base == Register::RSP {
            if self.terms[RSP].is_none() {
                self.terms[RSP] = Some(self.store(code, Gpr(RSP as u8)));
            }
            bases[1] = Some(RBP);
        }
        for r in bases.into_iter().flatten() {
            if let (RSP | RBP, Some(term)) = (r, self.terms[r])
                && (used.addresses | insn.told) >> r & 1 == 0
            {
                self.known.push(Known {
                    insn: i as u8,
                    what: What::Before(r as u8),
                    term,
                });
            }
        }
        if insn.decoded.is_vsib() {
            self.store_vector(code, i, &insn.decoded);
        }
        let condition = insn.decoded.condition_code();
        if is_cmov(&insn.decoded) && condition != ConditionCode::None {
            let slot = self.slot();
            code.set_condition(insn_condition(condition), self.cursor, place(slot));
            self.known.push(Known {
                insn: i as u8,
                what: What::Condition,
                term: at(slot, 0),
            });
        }
    }

    /// To be called after the translation of instruction `i`, unless it ends the superblock.
    pub(crate) fn after(&mut self, code: &mut Code, i: usize, insn: &Insn) {
        self.follow(i, &insn.decoded);
        if !insn.decoded.is_string_instruction() {
            return;
        }
        // The cursor is in none of these: they are touched by this instruction.
        for r in registers(self.uses[i].addresses & self.uses[i].written) {
            let term = self.store(code, Gpr(r as u8));
            self.terms[r] = Some(term);
            self.known.push(Known {
                insn: i as u8,
                what: What::After(r as u8),
                term,
            });
        }
    }

    /// What instruction `i` does to what is known of the registers.
    pub(crate) fn follow(&mut self, i: usize, insn: &Instruction) {
        let new = self.derive(insn);
        let old = self.terms;
        self.lowered = lowers_stack(insn) || self.lowered && self.terms[RSP].is_none();
        for r in registers(self.uses[i].written) {
            self.terms[r] = None;
            self.home_saved &= r != usize::from(HOME.0);
        }
        let moved = insn.stack_pointer_increment();
        if moved != 0 && insn.mnemonic() != Mnemonic::Enter {
            self.terms[RSP] = old[RSP].map(|t| at(t.slot, t.offset + i64::from(moved)));
        }
        if insn.mnemonic() == Mnemonic::Leave {
            self.terms[RSP] = old[RBP].map(|t| at(t.slot, t.offset + 8));
        }
        if let Some((r, term)) = new {
            self.terms[r] = term;
        }
    }

    /// The register that the instruction sets to something that follows from what is known.
    fn derive(&self, i: &Instruction) -> Option<(usize, Option<Term>)> {
        if i.op_count() == 0 || i.op0_kind() != OpKind::Register {
            return None;
        }
        let to = i.op0_register();
        let wide = to.is_gpr64();
        let r = number(to)?;
        let same = |n: u32| i.op_kind(n) == OpKind::Register;
        let constant = |v: i64| Some((r, Some(at(slot::ZERO, v))));
        let plus = |term: Option<Term>, n: i64| {
            Some((r, term.map(|t| at(t.slot, t.offset.wrapping_add(n)))))
        };
        match i.mnemonic() {
            Mnemonic::Pop if r == RSP => Some((r, None)),
            Mnemonic::Mov if wide && same(1) && i.op1_register().is_gpr64() => {
                plus(self.terms[number(i.op1_register())?], 0)
            }
            Mnemonic::Mov if wide && is_immediate(i, 1) => constant(i.immediate(1) as i64),
            Mnemonic::Mov if to.is_gpr32() && is_immediate(i, 1) => {
                constant(i64::from(i.immediate(1) as u32))
            }
            Mnemonic::Lea if wide && i.is_ip_rel_memory_operand() => {
                constant(i.ip_rel_memory_address() as i64)
            }
            Mnemonic::Lea
                if wide && i.memory_index() == Register::None && i.memory_base().is_gpr64() =>
            {
                let base = self.terms[number(i.memory_base())?];
                plus(base, i.memory_displacement64() as i64)
            }
            Mnemonic::Add if wide && is_immediate(i, 1) => {
                plus(self.terms[r], i.immediate(1) as i64)
            }
            Mnemonic::Sub if wide && is_immediate(i, 1) => {
                plus(self.terms[r], (i.immediate(1) as i64).wrapping_neg())
            }
            Mnemonic::Inc if wide => plus(self.terms[r], 1),
            Mnemonic::Dec if wide => plus(self.terms[r], -1),
            Mnemonic::Xor | Mnemonic::Sub
                if (wide || to.is_gpr32()) && same(1) && i.op1_register() == to =>
            {
                constant(0)
            }
            _ => None,
        }
    }

    /// The state that a way out laid down later will need.
    pub(crate) fn moment(&self) -> Moment {
        Moment {
            cursor: self.cursor,
            home_saved: self.home_saved,
            values: self.values,
            rsp: self.terms[RSP],
            rbp: self.terms[RBP],
        }
    }

    /// Ends the record of a way out behind `executed` instructions. The cursor is at home afterwards.
    pub(crate) fn way_out(&mut self, code: &mut Code, executed: usize) {
        let moment = self.moment();
        self.leave(code, executed, moment);
        self.cursor = HOME;
    }

    pub(crate) fn leave(&mut self, code: &mut Code, executed: usize, mut m: Moment) {
        for (term, register) in [(&mut m.rsp, RSP), (&mut m.rbp, RBP)] {
            if term.is_none() {
                code.store_based(Gpr(register as u8), m.cursor, place(m.values));
                *term = Some(at(m.values, 0));
                m.values += 1;
            }
        }
        code.store_imm32_based(m.cursor, self.first_id + self.ways.len() as u32);
        if m.cursor != HOME && !m.home_saved {
            code.save(HOME, saved(HOME));
        }
        code.lea_based(HOME, m.cursor, place(m.values));
        if m.cursor != HOME {
            code.load(m.cursor, saved(m.cursor));
        }
        self.ways.push(Way {
            executed: executed as u8,
            values: m.values,
            rsp: m.rsp,
            rbp: m.rbp,
        });
    }

    /// The cursor waits in the thread's page, and all registers are the guest's: for a system call, which
    /// destroys r11.
    pub(crate) fn park(code: &mut Code) {
        code.save(HOME, page::TAPE);
        code.load(HOME, saved(HOME));
    }

    /// Undoes that.
    pub(crate) fn unpark(code: &mut Code) {
        code.save(HOME, saved(HOME));
        code.load(HOME, page::TAPE);
    }

    /// Moves the cursor to a register that is not touched for as long as possible from instruction `i` on.
    fn move_cursor(&mut self, code: &mut Code, i: usize) {
        let mut left = CANDIDATES.iter().fold(0u16, |m, r| m | 1 << r);
        for used in &self.uses[i..] {
            let next = left & !used.touched;
            if next == 0 {
                break;
            }
            left = next;
        }
        let to = match left >> HOME.0 & 1 {
            0 => Gpr(left.trailing_zeros() as u8),
            _ => HOME,
        };
        code.save(to, saved(to));
        code.lea_based(to, self.cursor, 0);
        code.load(self.cursor, saved(self.cursor));
        // Between two others, the slot of home is as stale as it was.
        self.home_saved |= self.cursor == HOME || to == HOME;
        self.cursor = to;
    }

    fn slot(&mut self) -> u8 {
        let slot = self.values;
        assert!(slot < slot::VALUES, "a superblock has that many values");
        self.values += 1;
        slot
    }

    fn store(&mut self, code: &mut Code, r: Gpr) -> Term {
        let slot = self.slot();
        code.store_based(r, self.cursor, place(slot));
        at(slot, 0)
    }

    /// The index register of a gather or scatter, eight bytes a value.
    fn store_vector(&mut self, code: &mut Code, i: usize, insn: &Instruction) {
        let index = insn.memory_index();
        let (opcode, parts) = if index.is_zmm() {
            (Opcode::EVEX_Vmovdqu64_zmmm512_k1z_zmm, 8)
        } else if index.is_ymm() {
            (Opcode::VEX_Vmovdqu_ymmm256_ymm, 4)
        } else {
            (Opcode::VEX_Vmovdqu_xmmm128_xmm, 2)
        };
        let first = self.values;
        for part in 0..parts {
            let slot = self.slot();
            self.known.push(Known {
                insn: i as u8,
                what: What::Vector {
                    register: index.number() as u8,
                    part,
                },
                term: at(slot, 0),
            });
        }
        code.encode_store(opcode, index, self.cursor, place(first));
    }
}

impl Use {
    fn of(insn: &Insn, factory: &mut InstructionInfoFactory) -> Self {
        let info = factory.info(&insn.decoded);
        let mut u = Use {
            touched: insn.told,
            ..Use::default()
        };
        for used in info.used_registers() {
            let Some(r) = number(used.register()) else {
                continue;
            };
            u.touched |= 1 << r;
            if !matches!(used.access(), OpAccess::Read | OpAccess::CondRead) {
                u.written |= 1 << r;
            }
        }
        for m in info.used_memory() {
            for r in [m.base(), m.index()] {
                if let Some(r) = number(r) {
                    u.addresses |= 1 << r;
                }
            }
        }
        // The bit that a register names may be anywhere from the address on.
        if matches!(
            insn.decoded.mnemonic(),
            Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc
        ) && insn.decoded.op0_kind() == OpKind::Memory
            && let Some(r) = number(insn.decoded.op1_register())
        {
            u.addresses |= 1 << r;
        }
        u
    }
}

/// Where the guest's own value of a register is while that holds the cursor.
pub(crate) fn saved(r: Gpr) -> u32 {
    page::TAPE_REGISTERS + 8 * u32::from(r.0)
}

fn at(slot: u8, offset: i64) -> Term {
    Term { slot, offset }
}

/// Distance of a value from the beginning of its record.
fn place(slot: u8) -> i32 {
    RECORD_HEAD as i32 + 8 * i32::from(slot)
}

fn registers(mask: u16) -> impl Iterator<Item = usize> {
    (0..16).filter(move |r| mask >> r & 1 != 0)
}

fn number(r: Register) -> Option<usize> {
    r.is_gpr().then(|| r.full_register().number())
}

fn is_immediate(i: &Instruction, n: u32) -> bool {
    i.op_count() > n
        && matches!(
            i.op_kind(n),
            OpKind::Immediate8
                | OpKind::Immediate16
                | OpKind::Immediate32
                | OpKind::Immediate64
                | OpKind::Immediate8to16
                | OpKind::Immediate8to32
                | OpKind::Immediate8to64
                | OpKind::Immediate32to64
        )
}

fn is_cmov(i: &Instruction) -> bool {
    use Mnemonic::*;
    matches!(
        i.mnemonic(),
        Cmova
            | Cmovae
            | Cmovb
            | Cmovbe
            | Cmove
            | Cmovg
            | Cmovge
            | Cmovl
            | Cmovle
            | Cmovne
            | Cmovno
            | Cmovnp
            | Cmovns
            | Cmovo
            | Cmovp
            | Cmovs
    )
}

fn insn_condition(c: ConditionCode) -> u8 {
    super::decode::HARDWARE_CONDITION[c as usize]
}
