//! Pushes, pops, calls and returns: data and the stack pointer go separate ways.

use iced_x86::{Code, Mnemonic, OpKind};
use smallvec::smallvec;

use super::build::{Builder, by_lane, range, whole};
use super::file::{self, FLAGS, RBP, RSP};
use super::{Place, Sources};

pub(super) fn instruction(b: &mut Builder<'_>) -> bool {
    match b.i.mnemonic() {
        Mnemonic::Push => push(b),
        Mnemonic::Pop => pop(b),
        Mnemonic::Pushf | Mnemonic::Pushfq => {
            let len = width(b);
            // Bits 0 to 7 are CF, PF, AF, ZF and SF; OF and DF come next, then AC and ID.
            let to = b.stack(-i64::from(len), len, true);
            b.set(to.part(0, 1), 0, smallvec![whole(FLAGS.part(0, 5))]);
            b.set(to.part(1, 1), 0, smallvec![whole(FLAGS.part(5, 2))]);
            if len > 2 {
                b.set(to.part(2, 1), 0, smallvec![whole(file::OTHER_FLAGS)]);
                b.set(to.part(3, len - 3), 0, Sources::new());
            }
            move_pointer(b);
        }
        Mnemonic::Popf | Mnemonic::Popfq => {
            let len = width(b);
            let from = b.stack(0, len, false);
            b.set(FLAGS.part(0, 5), 0, smallvec![whole(from.part(0, 1))]);
            b.set(FLAGS.part(5, 2), 0, smallvec![whole(from.part(1, 1))]);
            if len > 2 {
                b.set(file::OTHER_FLAGS, 0, smallvec![whole(from.part(2, 1))]);
            }
            move_pointer(b);
        }
        Mnemonic::Call if !b.i.is_call_far() && !b.i.is_call_far_indirect() => {
            let to = b.stack(-8, 8, true);
            b.set(to, 0, Sources::new());
            move_pointer(b);
        }
        Mnemonic::Ret => {
            let from = b.stack(0, 8, false);
            b.out.decided_by.push(from);
            move_pointer(b);
        }
        Mnemonic::Leave => {
            let access = b.access(super::Access {
                address: super::Address {
                    base: Some(5),
                    scale: 1,
                    ..Default::default()
                },
                size: super::Size::Fixed(8),
                reads: true,
                writes: false,
            });
            let saved = Place::Memory {
                access,
                at: 0,
                len: 8,
            };
            b.set(RSP, 0, smallvec![whole(RBP)]);
            b.copy(RBP, saved);
        }
        Mnemonic::Enter if b.i.code() == Code::Enterq_imm16_imm8 => {
            if b.i.immediate8_2nd() & 31 != 0 {
                // Nested procedures: no compiler uses them.
                b.out.unknown = true;
            }
            let to = b.stack(-8, 8, true);
            b.copy(to, RBP);
            b.set(RBP, 0, smallvec![whole(RSP)]);
            b.set(RSP, 0, smallvec![whole(RSP)]);
        }
        _ => return false,
    }
    true
}

fn width(b: &Builder<'_>) -> u16 {
    b.i.stack_pointer_increment().unsigned_abs() as u16
}

fn move_pointer(b: &mut Builder<'_>) {
    b.set(RSP, 0, smallvec![whole(RSP)]);
}

fn push(b: &mut Builder<'_>) {
    let len = width(b);
    let to = b.stack(-i64::from(len), len, true);
    match b.operand(0) {
        Some(from) => {
            let size = from.len().unwrap_or(len).min(len);
            b.copy(to.part(0, size), from.part(0, size));
            // A segment register is shorter than what is pushed of it.
            b.set(to.part(size, len - size), 0, Sources::new());
        }
        None => b.set(to, 0, Sources::new()),
    }
    move_pointer(b);
}

fn pop(b: &mut Builder<'_>) {
    let len = width(b);
    let from = b.stack(0, len, false);
    if b.i.op0_kind() == OpKind::Memory {
        // An address on the stack is counted from the popped stack pointer.
        if let Some(access) = b.memory
            && b.out.accesses[usize::from(access)].address.base == Some(4)
        {
            let address = &mut b.out.accesses[usize::from(access)].address;
            address.displacement = address.displacement.wrapping_add(u64::from(len));
        }
        if let Some(to) = b.operand(0) {
            b.copy(to, from);
        }
        return move_pointer(b);
    }
    let register = b.register(0);
    let to = range(register);
    let size = to.len.min(len);
    // `pop rsp` leaves what was popped.
    if !to.overlaps(RSP) {
        move_pointer(b);
    }
    b.set(
        to.part(0, size),
        1,
        smallvec![by_lane(from.part(0, size), 1)],
    );
}
