//! Instructions on general registers whose outputs do not all depend on all inputs.

use iced_x86::{ConditionCode, Mnemonic, OpKind, Register};
use smallvec::smallvec;

use super::build::{Builder, by_lane, range, whole, whole_of};
use super::file::{self, ARITHMETIC, CF, FLAGS, OF, RAX, RBX, RCX, RDX, RegRange, ZF};
use super::{Place, Sources, access};

pub(super) fn instruction(b: &mut Builder<'_>) -> bool {
    use Mnemonic as M;
    if zeroing(b) {
        return true;
    }
    let condition = b.i.condition_code();
    match b.i.mnemonic() {
        M::Mov | M::Movbe | M::Movnti | M::Movzx => mov(b),
        M::Movsx | M::Movsxd => {
            let (from, to) = (b.size(1), b.size(0));
            if let Some(source) = b.operand(1) {
                extend(b, source, from.min(to), to);
            }
        }
        M::Lea => lea(b),
        M::Xchg => exchange(b),
        M::Bswap => swap(b),
        M::And | M::Or | M::Xor | M::Test | M::Not => logic(b),
        M::Inc | M::Dec | M::Neg | M::Add | M::Sub | M::Cmp => {
            let mut from = b.inputs(0);
            from.dedup();
            if b.writes(0) {
                b.put(0, 0, from.clone());
            }
            b.flags(&from);
        }
        M::Bsf | M::Bsr => scan(b),
        M::Cbw => extend_in(b, 1, 2),
        M::Cwde => extend_in(b, 2, 4),
        M::Cdqe => extend_in(b, 4, 8),
        M::Cwd => sign(b, 2),
        M::Cdq => sign(b, 4),
        M::Cqo => sign(b, 8),
        M::Lahf => {
            b.set(RAX.part(1, 1), 0, smallvec![whole(FLAGS.part(0, 5))]);
        }
        M::Sahf => {
            b.set(FLAGS.part(0, 5), 0, smallvec![whole(RAX.part(1, 1))]);
        }
        M::Xadd => xadd(b),
        M::Cmpxchg => compare_exchange(b),
        M::Cmpxchg8b => compare_exchange_pair(b, 4),
        M::Cmpxchg16b => compare_exchange_pair(b, 8),
        M::Bt | M::Bts | M::Btr | M::Btc => bit(b),
        M::Shl
        | M::Sal
        | M::Shr
        | M::Sar
        | M::Rol
        | M::Ror
        | M::Rcl
        | M::Rcr
        | M::Shld
        | M::Shrd => shift(b),
        M::Mul | M::Imul if b.i.op_count() == 1 => multiply(b),
        M::Mulx => {
            let from = smallvec![whole(range(if b.size(0) == 8 {
                Register::RDX
            } else {
                Register::EDX
            }))];
            let mut from: Sources = from;
            from.extend(b.operand(2).map(whole));
            b.put(1, 0, from.clone());
            b.put(0, 0, from);
        }
        M::Div | M::Idiv => divide(b),
        M::Xlatb => {
            // The index is al, and that is an address.
            let access = b.access(super::Access {
                address: super::Address {
                    base: Some(3),
                    index: None,
                    scale: 1,
                    ..access::explicit(b.i)
                },
                size: super::Size::Lanes {
                    element: 1,
                    lanes: 1,
                    index: RAX.part(0, 1),
                    index_size: 1,
                    scale: 1,
                    mask: super::Mask::Always,
                },
                reads: true,
                writes: false,
            });
            b.set(RAX.part(0, 1), 0, smallvec![whole(Place::Whole(access))]);
        }
        M::Cld | M::Std => b.set(file::DF, 0, Sources::new()),
        M::Clc | M::Stc => b.set(CF, 0, Sources::new()),
        M::Cmc => b.set(CF, 0, smallvec![whole(CF)]),
        M::Cpuid => {
            let from: Sources = smallvec![whole(RAX.part(0, 4)), whole(RCX.part(0, 4))];
            for to in [RAX, RBX, RCX, RDX] {
                b.set(to.part(0, 4), 0, from.clone());
                b.set(to.part(4, 4), 0, Sources::new());
            }
            b.out.outside = true;
        }
        M::Rdtsc | M::Rdtscp | M::Rdpmc | M::Xgetbv => {
            let mut from = Sources::new();
            if matches!(b.i.mnemonic(), M::Rdpmc | M::Xgetbv) {
                from.push(whole(RCX.part(0, 4)));
            }
            let targets: &[RegRange] = match b.i.mnemonic() {
                M::Rdtscp => &[RAX, RDX, RCX],
                _ => &[RAX, RDX],
            };
            for to in targets {
                b.set(*to, 0, from.clone());
            }
            b.out.outside = true;
        }
        M::Rdrand | M::Rdseed => {
            b.put(0, 0, Sources::new());
            b.set(ARITHMETIC, 0, Sources::new());
            b.out.outside = true;
        }
        M::Rdpid => {
            b.put(0, 0, Sources::new());
            b.out.outside = true;
        }
        M::Syscall => {
            b.set(file::R11, 0, smallvec![whole(FLAGS)]);
            b.set(RCX, 0, Sources::new());
            let arguments = [7u16, 6, 2, 10, 8, 9].map(RegRange::general);
            let mut from: Sources = smallvec![whole(RAX)];
            from.extend(arguments.map(whole));
            b.set(RAX, 0, from);
            b.out.outside = true;
            b.out.unknown = true;
        }
        M::Rdfsbase | M::Rdgsbase => {
            let base = segment_base(b);
            let size = b.size(0);
            b.put(0, 1, smallvec![by_lane(base.part(0, size), 1)]);
        }
        M::Wrfsbase | M::Wrgsbase => {
            let base = segment_base(b);
            let size = b.size(0);
            if let Some(from) = b.operand(0) {
                b.copy(base.part(0, size), from);
                b.set(base.part(size, 8 - size), 0, Sources::new());
            }
        }
        M::Nop | M::Endbr64 | M::Endbr32 | M::Pause | M::Jmp => {}
        M::Loop | M::Loope | M::Loopne => {
            let size = if b.i.op0_kind() == OpKind::NearBranch64 {
                8
            } else {
                4
            };
            let count = RCX.part(0, size);
            b.set(count, 0, smallvec![whole(count)]);
        }
        // Not `cmpccxadd`, which has three operands.
        _ if condition != ConditionCode::None && b.i.op_count() < 3 => conditional(b),
        _ => return false,
    }
    true
}

fn segment_base(b: &Builder<'_>) -> RegRange {
    match b.i.mnemonic() {
        Mnemonic::Rdfsbase | Mnemonic::Wrfsbase => file::FS_BASE,
        _ => file::GS_BASE,
    }
}

/// An operation of a register with itself whose result is known.
fn zeroing(b: &mut Builder<'_>) -> bool {
    use Mnemonic as M;
    let first = b.register(0);
    let second = b.register(1);
    if !first.is_gpr() || first != second {
        return false;
    }
    match b.i.mnemonic() {
        M::Xor | M::Sub => {
            b.put(0, 0, Sources::new());
            b.set(ARITHMETIC, 0, Sources::new());
        }
        M::Cmp => b.set(ARITHMETIC, 0, Sources::new()),
        M::Sbb => {
            b.put(0, 0, smallvec![whole(CF)]);
            b.set(ARITHMETIC, 0, smallvec![whole(CF)]);
        }
        _ => return false,
    }
    true
}

fn mov(b: &mut Builder<'_>) {
    let (to, from) = (b.operand(0), b.operand(1));
    let Some(to) = to else { return };
    let Some(from) = from else {
        // An immediate; or a register of the kernel.
        return b.put(0, 0, Sources::new());
    };
    let (to_size, from_size) = (to.len().unwrap_or(0), from.len().unwrap_or(0));
    let size = to_size.min(from_size);
    if b.i.mnemonic() == Mnemonic::Movbe {
        for at in 0..size {
            let source = from.part(size - 1 - at, 1);
            b.set(to.part(at, 1), 1, smallvec![by_lane(source, 1)]);
        }
        b.extend(b.register(0), size);
        return;
    }
    b.set(
        to.part(0, size),
        1,
        smallvec![by_lane(from.part(0, size), 1)],
    );
    // movzx, or a segment register in a wide one.
    b.set(to.part(size, to_size - size), 0, Sources::new());
    b.extend(b.register(0), to_size);
}

/// Sign extension: the new bytes come from the top one.
fn extend(b: &mut Builder<'_>, source: Place, from: u16, to_size: u16) {
    let Some(to) = b.operand(0) else { return };
    b.copy(to.part(0, from), source.part(0, from));
    b.set(
        to.part(from, to_size - from),
        0,
        smallvec![whole(source.part(from - 1, 1))],
    );
    b.extend(b.register(0), to_size);
}

fn extend_in(b: &mut Builder<'_>, from: u16, to: u16) {
    let top = RAX.part(from - 1, 1);
    b.set(RAX.part(from, to - from), 0, smallvec![whole(top)]);
    if to == 4 {
        b.set(RAX.part(4, 4), 0, Sources::new());
    }
}

fn sign(b: &mut Builder<'_>, size: u16) {
    let top = RAX.part(size - 1, 1);
    b.set(RDX.part(0, size), 0, smallvec![whole(top)]);
    if size == 4 {
        b.set(RDX.part(4, 4), 0, Sources::new());
    }
}

fn lea(b: &mut Builder<'_>) {
    let address = access::explicit(b.i);
    let size = b.size(0);
    let numbers = [address.base, address.index];
    let from = numbers
        .into_iter()
        .flatten()
        .map(|n| {
            whole(RegRange::general(u16::from(n)).part(
                0,
                if size == 8 && !address.narrow {
                    8
                } else {
                    size.min(4)
                },
            ))
        })
        .collect();
    b.put(0, 0, from);
}

fn exchange(b: &mut Builder<'_>) {
    let (Some(first), Some(second)) = (b.operand(0), b.operand(1)) else {
        return;
    };
    if first == second && b.register(0).is_gpr32() && b.i.op_count() == 2 {
        return b.extend(b.register(0), 4);
    }
    b.put(0, 1, smallvec![by_lane(second, 1)]);
    b.put(1, 1, smallvec![by_lane(first, 1)]);
}

fn swap(b: &mut Builder<'_>) {
    let register = range(b.register(0));
    for at in 0..register.len {
        let from = register.part(register.len - 1 - at, 1);
        b.copy(register.part(at, 1), from);
    }
    b.extend(b.register(0), register.len);
}

/// Bitwise operations work byte by byte, and a constant may decide a byte alone.
fn logic(b: &mut Builder<'_>) {
    let from = b.inputs(1);
    let mut inputs = from.clone();
    inputs.dedup();
    let constant = (b.i.op_count() == 2 && b.operand(1).is_none()).then(|| b.i.immediate(1));
    // The byte of a constant that leaves nothing of the other operand.
    let decisive = match b.i.mnemonic() {
        Mnemonic::And => 0x00,
        Mnemonic::Or => 0xff,
        _ => 0x100,
    };
    if let (Some(constant), Some(to)) = (constant, b.operand(0))
        && b.i.mnemonic() != Mnemonic::Test
    {
        let size = to.len().unwrap_or(0);
        let decided = |at: u16| (constant >> (8 * at)) & 0xff == decisive;
        let mut at = 0;
        inputs.clear();
        while at < size {
            let same = (at..size)
                .take_while(|n| decided(*n) == decided(at))
                .count() as u16;
            let part = to.part(at, same);
            let mut from = Sources::new();
            if !decided(at) {
                from.push(by_lane(part, 1));
                inputs.push(whole(part));
            }
            b.set(part, 1, from);
            at += same;
        }
        b.extend(b.register(0), size);
    } else if b.writes(0) {
        b.put(0, 1, inputs.clone());
    }
    if let (Some(constant), Mnemonic::Test, Some(place)) = (constant, b.i.mnemonic(), b.operand(0))
    {
        inputs = (0..place.len().unwrap_or(0))
            .filter(|at| (constant >> (8 * at)) & 0xff != 0)
            .map(|at| whole(place.part(at, 1)))
            .collect();
    }
    b.flags(&inputs);
}

/// The place of a bit. If there is none, the register stays as it is, all of it.
fn scan(b: &mut Builder<'_>) {
    let mut from: Sources = b.operand(1).map(whole).into_iter().collect();
    let to = range(b.register(0));
    let to = if to.len == 4 {
        RegRange { len: 8, ..to }
    } else {
        to
    };
    let flags = from.clone();
    from.push(by_lane(to, 1));
    b.set(to, 1, from);
    b.flags(&flags);
}

fn xadd(b: &mut Builder<'_>) {
    let from = b.inputs(0);
    let (Some(first), Some(_)) = (b.operand(0), b.operand(1)) else {
        return;
    };
    if b.operand(0) != b.operand(1) {
        b.put(1, 1, smallvec![by_lane(first, 1)]);
    }
    b.put(0, 0, from.clone());
    b.flags(&from);
}

fn compare_exchange(b: &mut Builder<'_>) {
    let size = b.size(0);
    let accumulator = RAX.part(0, size);
    let (Some(place), Some(new)) = (b.operand(0), b.operand(1)) else {
        return;
    };
    let compared: Sources = smallvec![whole(accumulator), whole(place)];
    let mut stored = compared.clone();
    stored.push(by_lane(new, 1));
    // On success rax keeps what it has, which is what memory has.
    let mut loaded = compared.clone();
    if size == 4 {
        // The upper half of one of the two is cleared, which one depends on the comparison.
        let upper = RAX.part(4, 4);
        let mut from = compared.clone();
        from.push(whole(upper));
        b.set(upper, 0, from);
        if let Place::Register(register) = place {
            let upper = register.part(4, 4);
            let mut from = compared.clone();
            from.push(whole(upper));
            b.set(upper, 0, from);
        }
    }
    loaded.dedup();
    b.set(accumulator, 0, loaded);
    if place != Place::Register(accumulator) {
        b.set(place, 1, stored);
    } else {
        b.out.transfers.pop();
        b.set(place, 1, stored);
    }
    b.flags(&compared);
}

fn compare_exchange_pair(b: &mut Builder<'_>, half: u16) {
    let Some(place) = b.operand(0) else { return };
    let compared: Sources = smallvec![
        whole(RAX.part(0, half)),
        whole(RDX.part(0, half)),
        whole(place),
    ];
    for (at, old, new) in [(0, RAX, RBX), (half, RDX, RCX)] {
        let mut stored = compared.clone();
        stored.push(by_lane(new.part(0, half), 1));
        b.set(place.part(at, half), 1, stored);
        b.set(old.part(0, half), 0, compared.clone());
        if half == 4 {
            let upper = old.part(4, 4);
            let mut from = compared.clone();
            from.push(whole(upper));
            b.set(upper, 0, from);
        }
    }
    b.set(ZF, 0, compared);
}

fn bit(b: &mut Builder<'_>) {
    let number = b.operand(1);
    if let (Some(access), Some(Place::Register(bit))) = (b.memory, number) {
        b.out.accesses[usize::from(access)].address.bit = Some(bit);
    }
    let from = b.inputs(0);
    if b.writes(0) {
        b.put(0, 0, from.clone());
    }
    b.flags(&from);
}

fn shift(b: &mut Builder<'_>) {
    let operands = b.i.op_count();
    let variable = b.register(operands - 1) == Register::CL;
    let mut from = b.inputs(0);
    from.extend(b.flags_read());
    if variable {
        b.put(0, 0, from.clone());
        // A count of zero leaves all flags alone, and so may others.
        let rotates = matches!(
            b.i.mnemonic(),
            Mnemonic::Rol | Mnemonic::Ror | Mnemonic::Rcl | Mnemonic::Rcr
        );
        let changed: &[RegRange] = if rotates { &[CF, OF] } else { &[ARITHMETIC] };
        for flags in changed {
            let mut from = whole_of(&from);
            from.push(by_lane(*flags, 1));
            b.set(*flags, 1, from);
        }
        return;
    }
    b.put(0, 0, from.clone());
    // The tables know which flags a constant count touches; a zero count touches none.
    b.flags(&from);
}

fn multiply(b: &mut Builder<'_>) {
    let size = b.size(0);
    let mut from: Sources = smallvec![whole(RAX.part(0, size))];
    from.extend(b.operand(0).map(whole));
    if size == 1 {
        b.set(RAX.part(0, 2), 0, from.clone());
    } else {
        for half in [RAX, RDX] {
            b.set(half.part(0, size), 0, from.clone());
            if size == 4 {
                b.set(half.part(4, 4), 0, Sources::new());
            }
        }
    }
    b.flags(&from);
}

fn divide(b: &mut Builder<'_>) {
    let size = b.size(0);
    let mut from: Sources = if size == 1 {
        smallvec![whole(RAX.part(0, 2))]
    } else {
        smallvec![whole(RAX.part(0, size)), whole(RDX.part(0, size))]
    };
    from.extend(b.operand(0).map(whole));
    if size == 1 {
        b.set(RAX.part(0, 1), 0, from.clone());
        b.set(RAX.part(1, 1), 0, from.clone());
    } else {
        for half in [RAX, RDX] {
            b.set(half.part(0, size), 0, from.clone());
            if size == 4 {
                b.set(half.part(4, 4), 0, Sources::new());
            }
        }
    }
    b.flags(&from);
}

/// cmov and setcc. Branches write nothing.
fn conditional(b: &mut Builder<'_>) {
    let flags = b.flags_read();
    match b.operand(1) {
        Some(source) => {
            let Some(old) = b.operand(0) else { return };
            let mut from = whole_of(&flags);
            from.push(by_lane(source, 1));
            if old != source {
                from.push(by_lane(old, 1));
            }
            b.put(0, 1, from);
        }
        None if b.writes(0) => b.put(0, 0, flags),
        None => {}
    }
}
