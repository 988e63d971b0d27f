//! What the operands of instructions are, as units and masks.

use iced_x86::{Instruction, Mnemonic, OpKind, Register};
use image::effects::{Place, RegRange, Transfer};

use super::plan::{FLAGS, Mix};

pub(super) fn mask_is_flags(t: &Transfer) -> bool {
    matches!(t.to, Place::Register(r) if r.at / 8 == FLAGS)
}

pub(super) fn mix_of(i: &Instruction) -> Mix {
    use Mnemonic as M;
    match i.mnemonic() {
        M::Add
        | M::Sub
        | M::Inc
        | M::Dec
        | M::Neg
        | M::Cmp
        | M::Lea
        | M::Imul
        | M::Movsx
        | M::Movsxd
        | M::Cdqe
        | M::Cwde
        | M::Cbw
        | M::Comiss
        | M::Comisd
        | M::Ucomiss
        | M::Ucomisd
        | M::Vcomiss
        | M::Vcomisd
        | M::Vucomiss
        | M::Vucomisd
        | M::Cvtss2si
        | M::Cvtsd2si
        | M::Cvttss2si
        | M::Cvttsd2si
        | M::Vcvtss2si
        | M::Vcvtsd2si
        | M::Vcvttss2si
        | M::Vcvttsd2si => Mix::Any,
        M::Not | M::Xor => Mix::Bytes,
        // One with itself decides whether it is zero.
        M::Test | M::And | M::Or
            if i.op0_kind() == OpKind::Register
                && i.op1_kind() == OpKind::Register
                && i.op0_register() == i.op1_register() =>
        {
            Mix::Any
        }
        // Some bits of the outcome are known whatever the others are.
        M::Test | M::And | M::Or | M::Shl | M::Shr | M::Sar => Mix::All,
        _ if i.condition_code() != iced_x86::ConditionCode::None => Mix::Any,
        _ => Mix::Never,
    }
}

/// The instruction does arithmetic on numbers in vector registers. There are hundreds of these, so they are told by the
/// beginnings of their names. What programs look for zeros in strings with is not among them: comparisons, the smaller of
/// two integers, and what is done to single bits.
pub(super) fn computes_numbers(i: &Instruction) -> bool {
    const BEGINNINGS: [&str; 22] = [
        "add", "sub", "mul", "div", "sqrt", "min", "max", "round", "rcp", "rsqrt", "cvt", "fm",
        "fnm", "hadd", "hsub", "paddb", "paddw", "paddd", "paddq", "psub", "pmul", "pmadd",
    ];
    let name = format!("{:?}", i.mnemonic()).to_lowercase();
    let name = name.strip_prefix('v').unwrap_or(&name);
    !i.has_op_mask() && BEGINNINGS.iter().any(|b| name.starts_with(b))
}

pub(super) fn gpr(r: Register) -> Option<u16> {
    r.is_gpr().then(|| r.full_register().number() as u16)
}

/// A lane comes from lanes of no more than eight bytes, so that what else is in the register does not matter.
pub(super) fn is_of_lanes(t: &Transfer) -> bool {
    let short = |p: Place| p.len().is_some_and(|len| len <= 8);
    t.lane <= 8 && (t.lane > 0 || t.from.iter().all(|s| short(s.place)))
}

/// A bit for each of `len` bytes from `at` on.
pub(super) fn bits(at: u16, len: u16) -> u8 {
    (((1u32 << len) - 1) << at) as u8
}

/// The units of a range of registers: unit, first byte in it, bytes, first byte in the range.
pub(super) fn units(r: RegRange) -> Vec<(u16, u8, u8, u16)> {
    let mut out = Vec::new();
    let mut at = r.at;
    while at < r.end() {
        let n = (8 - at % 8).min(r.end() - at);
        out.push((at / 8, (at % 8) as u8, n as u8, at - r.at));
        at += n;
    }
    out
}

pub(super) fn touches(a: Place, b: Place) -> bool {
    match (a, b) {
        (Place::Register(a), Place::Register(b)) => a.overlaps(b),
        (Place::Register(_), _) | (_, Place::Register(_)) => false,
        _ => true,
    }
}

/// The unit that a part of an outcome is a copy of.
pub(super) fn copied_unit(t: &Transfer, offset: u16, len: u8) -> Option<u16> {
    match t.copied(offset, u16::from(len))? {
        Place::Register(r) if r.at % 8 == 0 => Some(r.at / 8),
        _ => None,
    }
}
