//! String instructions, repeated or not.

use iced_x86::{Mnemonic, OpKind};
use smallvec::smallvec;

use super::access;
use super::build::{Builder, by_lane, whole};
use super::file::{self, ARITHMETIC, DF, RAX, RCX, RDI, RSI, RegRange};
use super::{Access, Place, Size, Sources};

pub(super) fn instruction(b: &mut Builder<'_>) -> bool {
    if !b.i.is_string_instruction() {
        return false;
    }
    let (source, destination) = match b.i.mnemonic() {
        Mnemonic::Movsb | Mnemonic::Movsw | Mnemonic::Movsd | Mnemonic::Movsq => (true, true),
        Mnemonic::Cmpsb | Mnemonic::Cmpsw | Mnemonic::Cmpsd | Mnemonic::Cmpsq => (true, true),
        Mnemonic::Lodsb | Mnemonic::Lodsw | Mnemonic::Lodsd | Mnemonic::Lodsq => (true, false),
        Mnemonic::Stosb | Mnemonic::Stosw | Mnemonic::Stosd | Mnemonic::Stosq => (false, true),
        Mnemonic::Scasb | Mnemonic::Scasw | Mnemonic::Scasd | Mnemonic::Scasq => (false, true),
        _ => return false,
    };
    let compares = !b.i.rflags_written() & iced_x86::RflagsBits::ZF == 0;
    let moves = source && destination && !compares;
    let repeats = b.i.has_rep_prefix() || b.i.has_repne_prefix();
    let element = b.i.memory_size().size() as u16;
    let narrow = (0..b.i.op_count()).any(|n| {
        matches!(
            b.i.op_kind(n),
            OpKind::MemorySegESI | OpKind::MemorySegEDI | OpKind::MemoryESEDI
        )
    });
    let address_size = if narrow { 4 } else { 8 };
    let count = RCX.part(0, address_size);
    let size = if repeats {
        Size::Repeat {
            element: element as u8,
            count,
        }
    } else {
        Size::Fixed(element)
    };
    let place = |b: &mut Builder<'_>, kind: OpKind, writes: bool| {
        let access = b.access(Access {
            address: access::string(b.i, kind),
            size,
            reads: !writes,
            writes,
        });
        match size {
            Size::Fixed(len) => Place::Memory { access, at: 0, len },
            _ => Place::Whole(access),
        }
    };
    let kinds: smallvec::SmallVec<[OpKind; 2]> =
        (0..b.i.op_count()).map(|n| b.i.op_kind(n)).collect();
    let kind_of = |wanted: &[OpKind]| kinds.iter().copied().find(|k| wanted.contains(k));
    let from = kind_of(&[OpKind::MemorySegRSI, OpKind::MemorySegESI]).filter(|_| source);
    let to = kind_of(&[OpKind::MemoryESRDI, OpKind::MemoryESEDI]).filter(|_| destination);
    let from = from.map(|kind| place(b, kind, false));
    let to = to.map(|kind| place(b, kind, !compares));

    // What decides how many elements there are, beyond the count.
    let mut compared = Sources::new();
    if compares {
        compared.extend(from.map(whole));
        compared.extend(to.map(whole));
        if !source {
            compared.push(whole(RAX.part(0, element)));
        }
    }
    for (register, used) in [(RSI, source), (RDI, destination)] {
        if used {
            let mut inputs: Sources = smallvec![whole(register.part(0, address_size)), whole(DF)];
            if repeats {
                inputs.push(whole(count));
                inputs.extend(compared.iter().copied());
            }
            pointer(b, register, address_size, inputs, repeats);
        }
    }
    if repeats {
        let inputs = if compares {
            let mut inputs = compared.clone();
            inputs.push(whole(count));
            inputs.push(whole(DF));
            inputs
        } else {
            Sources::new()
        };
        pointer(b, RCX, address_size, inputs, true);
    }
    if compares {
        if repeats {
            // With a count of zero the flags stay.
            compared.push(whole(count));
            compared.push(whole(DF));
            compared.push(whole(ARITHMETIC));
        }
        b.set(ARITHMETIC, 0, compared);
    } else if moves {
        if let (Some(to), Some(from)) = (to, from) {
            b.copy(to, from);
        }
    } else if let Some(to) = to {
        b.set(to, 1, smallvec![by_lane(RAX.part(0, element), 1)]);
    } else if let Some(from) = from {
        load(b, from, element, repeats, count);
    }
    true
}

/// Moves a pointer or counts down. With 32-bit addresses the upper half is cleared, but not if
/// nothing was repeated.
fn pointer(b: &mut Builder<'_>, register: RegRange, size: u16, from: Sources, repeats: bool) {
    b.set(register.part(0, size), 0, from);
    if size < 8 {
        let upper = register.part(size, 8 - size);
        let mut from = Sources::new();
        if repeats {
            from.extend([whole(RCX.part(0, size)), whole(upper)]);
        }
        b.set(upper, 0, from);
    }
}

/// `lods`: of several elements the last one stays.
fn load(b: &mut Builder<'_>, from: Place, element: u16, repeats: bool, count: RegRange) {
    let to = RAX.part(0, element);
    if repeats {
        let inputs = smallvec![whole(from), whole(count), whole(file::DF), whole(to)];
        b.set(to, 0, inputs);
    } else {
        b.copy(to, from);
    }
    if element == 4 {
        let upper = RAX.part(4, 4);
        let mut inputs = Sources::new();
        if repeats {
            inputs.extend([whole(count), whole(upper)]);
        }
        b.set(upper, 0, inputs);
    }
}
