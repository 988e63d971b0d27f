//! The x87: a stack whose registers are numbered from the top, so that pushing and popping
//! renames them all.

use iced_x86::{Mnemonic, OpKind, Register};
use smallvec::smallvec;

use super::Sources;
use super::build::{Builder, by_lane, range, whole, whole_of};
use super::file::{RAX, RegRange, X87, X87_CONDITION, X87_CONTROL, X87_EXCEPTIONS, X87_STACK};

const ST0: RegRange = RegRange::x87(0);
const ST1: RegRange = RegRange::x87(1);

pub(super) fn instruction(b: &mut Builder<'_>) -> bool {
    use Mnemonic as M;
    let name = b.i.mnemonic();
    match name {
        M::Fnop | M::Wait => return true,
        M::Fnstcw => {
            if let Some(to) = b.operand(0) {
                b.copy(to, X87_CONTROL);
            }
            return true;
        }
        M::Fldcw => {
            if let Some(from) = b.operand(0) {
                b.copy(X87_CONTROL, from);
            }
            return true;
        }
        M::Fnstsw => {
            let to = b.operand(0).unwrap_or(RAX.part(0, 2).into());
            b.copy(to.part(0, 1), X87_EXCEPTIONS);
            b.copy(to.part(1, 1), X87_CONDITION);
            return true;
        }
        M::Fnclex => {
            b.set(X87_EXCEPTIONS, 0, Sources::new());
            return true;
        }
        M::Fninit => {
            for to in [X87_CONTROL, X87_EXCEPTIONS, X87_CONDITION] {
                b.set(to, 0, Sources::new());
            }
            return true;
        }
        M::Fxch => {
            let other = other(b);
            b.copy(ST0, other);
            b.copy(other, ST0);
            condition(b, &Sources::new());
            return true;
        }
        M::Fincstp => {
            rotate_up(b, 1);
            return true;
        }
        M::Fdecstp => {
            push(b, Sources::new());
            b.out.transfers.pop();
            b.copy(X87_STACK.part(0, X87), X87_STACK.part(7 * X87, X87));
            return true;
        }
        M::Ffree | M::Ffreep => {
            condition(b, &Sources::new());
            return true;
        }
        M::Emms | M::Femms => return true,
        _ => {}
    }
    if !is_x87(b) {
        return false;
    }
    match name {
        M::Fld | M::Fild | M::Fbld => {
            let mut from = b
                .operand(operand(b))
                .map_or(smallvec![], |p| smallvec![whole(p)]);
            exceptions(b, &from);
            if name == M::Fld && b.i.op0_kind() == OpKind::Register {
                from = smallvec![by_lane(range(b.i.op_register(operand(b))), 1)];
            }
            push(b, from);
        }
        M::Fld1 | M::Fldz | M::Fldpi | M::Fldl2t | M::Fldl2e | M::Fldlg2 | M::Fldln2 => {
            push(b, smallvec![whole(X87_CONTROL)]);
        }
        M::Fst | M::Fstp | M::Fist | M::Fistp | M::Fisttp | M::Fbstp | M::Fstpnce => store(b),
        M::Fcom
        | M::Fucom
        | M::Fcomp
        | M::Fucomp
        | M::Fcompp
        | M::Fucompp
        | M::Ficom
        | M::Ficomp
        | M::Ftst
        | M::Fxam => {
            let mut from: Sources = smallvec![whole(ST0)];
            match name {
                M::Fcompp | M::Fucompp => from.push(whole(ST1)),
                M::Ftst | M::Fxam => {}
                _ => from.extend(source(b)),
            }
            exceptions(b, &from);
            b.set(X87_CONDITION, 0, from);
            let pops = match name {
                M::Fcompp | M::Fucompp => 2,
                M::Fcomp | M::Fucomp | M::Ficomp => 1,
                _ => 0,
            };
            rotate_up(b, pops);
        }
        M::Fcomi | M::Fcomip | M::Fucomi | M::Fucomip => {
            let mut from: Sources = smallvec![whole(ST0)];
            from.extend(source(b));
            exceptions(b, &from);
            b.flags(&from);
            condition(b, &Sources::new());
            if matches!(name, M::Fcomip | M::Fucomip) {
                rotate_up(b, 1);
            }
        }
        M::Fadd | M::Fsub | M::Fsubr | M::Fmul | M::Fdiv | M::Fdivr => {
            let to = target(b);
            let mut from: Sources = smallvec![whole(to), whole(X87_CONTROL)];
            if b.memory.is_some() {
                from.extend(source(b));
            } else {
                from.push(whole(other_of(b, to)));
            }
            arithmetic(b, to, from);
        }
        M::Fiadd | M::Fisub | M::Fisubr | M::Fimul | M::Fidiv | M::Fidivr => {
            let mut from: Sources = smallvec![whole(ST0), whole(X87_CONTROL)];
            from.extend(source(b));
            arithmetic(b, ST0, from);
        }
        M::Faddp | M::Fsubp | M::Fsubrp | M::Fmulp | M::Fdivp | M::Fdivrp => {
            let to = target(b);
            let from = smallvec![whole(to), whole(ST0), whole(X87_CONTROL)];
            arithmetic(b, to, from);
            rotate_up(b, 1);
        }
        M::Fchs | M::Fabs => {
            // Only the sign, in the top byte.
            b.set(ST0.part(9, 1), 0, smallvec![whole(ST0.part(9, 1))]);
            condition(b, &Sources::new());
        }
        M::Fsqrt | M::Frndint | M::F2xm1 => {
            arithmetic(b, ST0, smallvec![whole(ST0), whole(X87_CONTROL)]);
        }
        M::Fsin | M::Fcos => {
            arithmetic(b, ST0, smallvec![whole(ST0), whole(X87_CONTROL)]);
        }
        M::Fprem | M::Fprem1 | M::Fscale => {
            arithmetic(
                b,
                ST0,
                smallvec![whole(ST0), whole(ST1), whole(X87_CONTROL)],
            );
        }
        M::Fyl2x | M::Fyl2xp1 | M::Fpatan => {
            arithmetic(
                b,
                ST1,
                smallvec![whole(ST0), whole(ST1), whole(X87_CONTROL)],
            );
            rotate_up(b, 1);
        }
        M::Fcmovb
        | M::Fcmove
        | M::Fcmovbe
        | M::Fcmovu
        | M::Fcmovnb
        | M::Fcmovne
        | M::Fcmovnbe
        | M::Fcmovnu => {
            let mut from = whole_of(&b.flags_read());
            from.push(by_lane(other(b), 1));
            from.push(by_lane(ST0, 1));
            b.set(ST0, 1, from);
            condition(b, &Sources::new());
        }
        _ => everything(b),
    }
    true
}

fn is_x87(b: &Builder<'_>) -> bool {
    b.i.fpu_stack_increment_info().increment() != 0
        || b.i.cpuid_features().iter().any(|f| {
            use iced_x86::CpuidFeature as F;
            matches!(f, F::FPU | F::FPU287 | F::FPU387)
        })
}

fn operand(b: &Builder<'_>) -> u32 {
    // `fld st(1)` is written with one operand or with two.
    b.i.op_count().saturating_sub(1)
}

fn source(b: &Builder<'_>) -> Option<super::Source> {
    if let Some(access) = b.memory {
        let n = (0..b.i.op_count()).find(|n| b.i.op_kind(*n) == OpKind::Memory)?;
        let _ = access;
        return b.operand(n).map(whole);
    }
    Some(whole(other(b)))
}

/// The operand that is not the top of the stack.
fn other(b: &Builder<'_>) -> RegRange {
    let registers = (0..b.i.op_count()).map(|n| b.register(n));
    let mut registers = registers.filter(|r| r.is_st());
    let found = registers.clone().find(|r| *r != Register::ST0);
    range(found.or(registers.next()).unwrap_or(Register::ST1))
}

fn other_of(b: &Builder<'_>, to: RegRange) -> RegRange {
    if to == ST0 { other(b) } else { ST0 }
}

fn target(b: &Builder<'_>) -> RegRange {
    if b.memory.is_some() || !b.register(0).is_st() {
        return ST0;
    }
    range(b.register(0))
}

fn arithmetic(b: &mut Builder<'_>, to: RegRange, from: Sources) {
    exceptions(b, &from);
    condition(b, &from);
    b.set(to, 0, from);
}

/// Exceptions stay until they are cleared.
fn exceptions(b: &mut Builder<'_>, from: &Sources) {
    let mut inputs = whole_of(from);
    inputs.push(whole(X87_EXCEPTIONS));
    inputs.push(whole(X87_CONTROL));
    b.set(X87_EXCEPTIONS, 0, inputs);
}

/// C1 says which way was rounded, or is cleared; the others are undefined.
fn condition(b: &mut Builder<'_>, from: &Sources) {
    let mut inputs = whole_of(from);
    inputs.push(whole(X87_CONDITION));
    let to = X87_CONDITION.into();
    // Part of an instruction that compares has set it already.
    if b.out.transfers.iter().all(|t| t.to != to) {
        b.set(X87_CONDITION, 0, inputs);
    }
}

fn push(b: &mut Builder<'_>, from: Sources) {
    condition(b, &Sources::new());
    // All inputs are read before any output is written.
    b.copy(X87_STACK.part(X87, 7 * X87), X87_STACK.part(0, 7 * X87));
    let lane = u16::from(from.iter().any(|s| s.lane == 1));
    b.set(ST0, lane, from);
}

/// Pops: what is popped becomes the last of the ring. Outputs already listed for the old names
/// move along.
fn rotate_up(b: &mut Builder<'_>, times: u16) {
    if times == 0 {
        return;
    }
    condition(b, &Sources::new());
    let renamed = |at: u16| {
        let slot = (at - X87_STACK.at) / X87;
        X87_STACK.at + (slot + 8 - times) % 8 * X87 + at % X87
    };
    let mut written: smallvec::SmallVec<[RegRange; 2]> = smallvec![];
    for transfer in &mut b.out.transfers {
        if let super::Place::Register(to) = &mut transfer.to
            && X87_STACK.contains(to.at)
        {
            to.at = renamed(to.at);
            written.push(*to);
        }
    }
    for slot in 0..8 {
        let to = X87_STACK.part(slot * X87, X87);
        if written.iter().any(|w| to.contains(w.at)) {
            continue;
        }
        let from = X87_STACK.part((slot + times) % 8 * X87, X87);
        b.copy(to, from);
    }
}

fn store(b: &mut Builder<'_>) {
    use Mnemonic as M;
    let name = b.i.mnemonic();
    if b.memory.is_some() {
        let n = (0..b.i.op_count())
            .find(|n| b.i.op_kind(*n) == OpKind::Memory)
            .unwrap_or(0);
        if let Some(to) = b.operand(n) {
            if to.len() == Some(10) && name == M::Fstp {
                b.copy(to, ST0);
            } else {
                let from: Sources = smallvec![whole(ST0), whole(X87_CONTROL)];
                exceptions(b, &from);
                condition(b, &from);
                b.set(to, 0, from);
            }
        }
    } else {
        let to = other(b);
        if to != ST0 {
            b.copy(to, ST0);
        }
    }
    condition(b, &Sources::new());
    if !matches!(name, M::Fst | M::Fist) {
        rotate_up(b, 1);
    }
}

/// Environments, whole states, and the rest: all of the x87 from all of it.
fn everything(b: &mut Builder<'_>) {
    let state = [X87_STACK, X87_CONTROL, X87_EXCEPTIONS, X87_CONDITION];
    let mut from: Sources = state.into_iter().map(whole).collect();
    let n = (0..b.i.op_count()).find(|n| b.i.op_kind(*n) == OpKind::Memory);
    let memory = n.and_then(|n| b.operand(n));
    let writes = n.is_some_and(|n| b.writes(n));
    if let Some(memory) = memory.filter(|_| !writes) {
        from.push(whole(memory));
    }
    for to in state {
        b.set(to, 0, from.clone());
    }
    if let Some(memory) = memory.filter(|_| writes) {
        b.set(memory, 0, from);
    }
}
