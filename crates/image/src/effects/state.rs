//! Instructions that save and restore the state of the processor, gathers and masked moves.

use iced_x86::{Mnemonic, OpKind};
use smallvec::smallvec;

use super::access::{self, Mask};
use super::build::{Builder, by_lane, range, whole};
use super::file::{self, RegRange, VECTORS, X87_STACK};
use super::{Access, Place, Size, Sources, StateFormat};

/// A piece of the register file in a saved state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatePart {
    pub register: RegRange,
    /// Bytes from the start of the area.
    pub at: u16,
}

const HEADER: u16 = 576;
/// Components that the layout below knows: x87, SSE, AVX, opmask, and the two halves of AVX-512.
const AVX: u64 = 1 << 2;
const MASKS: u64 = 1 << 5;
const HIGH_HALVES: u64 = 1 << 6;
const HIGH_VECTORS: u64 = 1 << 7;

/// Where the registers are in the area of an `xsave` or `xrstor` of these components: the
/// requested ones (edx:eax) that the processor has switched on. For `xrstor` of the compact
/// format, the low bits of the second word of the area's header.
pub fn state_parts(compact: bool, components: u64) -> Vec<StatePart> {
    let mut out = Vec::new();
    let mut add = |register: RegRange, at: u16| out.push(StatePart { register, at });
    if components & 1 != 0 {
        add(file::X87_CONTROL, 0);
        add(file::X87_EXCEPTIONS, 2);
        add(file::X87_CONDITION, 3);
        for n in 0..8 {
            add(RegRange::x87(n), 32 + 16 * n);
        }
    }
    if components & (2 | AVX) != 0 {
        // Control and flags are interleaved in one word of four bytes.
        add(file::MXCSR_CONTROL, 24);
        add(file::MXCSR_FLAGS, 25);
    }
    if components & 2 != 0 {
        for n in 0..16 {
            add(RegRange::vector(n).part(0, 16), 160 + 16 * n);
        }
    }
    let mut next = HEADER;
    let mut place = |component: u64, standard: u16, size: u16, aligned: bool| {
        if components & component == 0 {
            return None;
        }
        if !compact {
            return Some(standard);
        }
        if aligned {
            next = next.next_multiple_of(64);
        }
        let at = next;
        next += size;
        Some(at)
    };
    let avx = place(AVX, 576, 256, false);
    let masks = place(MASKS, 1088, 64, true);
    let halves = place(HIGH_HALVES, 1152, 512, false);
    let vectors = place(HIGH_VECTORS, 1664, 1024, true);
    for n in 0..16u16 {
        if let Some(at) = avx {
            add(RegRange::vector(n).part(16, 16), at + 16 * n);
        }
        if let Some(at) = halves {
            add(RegRange::vector(n).part(32, 32), at + 32 * n);
        }
        if let Some(at) = vectors {
            add(RegRange::vector(16 + n), at + 64 * n);
        }
    }
    if let Some(at) = masks {
        for n in 0..8 {
            add(RegRange::mask(n), at + 8 * n);
        }
    }
    out
}

pub(super) fn instruction(b: &mut Builder<'_>) -> bool {
    use Mnemonic as M;
    match b.i.mnemonic() {
        M::Xsave | M::Xsave64 | M::Xsaveopt | M::Xsaveopt64 => {
            area(b, StateFormat::Standard, true);
        }
        M::Xsavec | M::Xsavec64 | M::Xsaves | M::Xsaves64 => area(b, StateFormat::Compact, true),
        M::Xrstor | M::Xrstor64 | M::Xrstors | M::Xrstors64 => {
            area(b, StateFormat::Either, false);
        }
        M::Fxsave | M::Fxsave64 | M::Fxrstor | M::Fxrstor64 => legacy(b),
        M::Ldmxcsr | M::Vldmxcsr => {
            if let Some(from) = b.operand(0) {
                b.set(file::MXCSR_CONTROL, 0, smallvec![whole(from)]);
                b.set(file::MXCSR_FLAGS, 0, smallvec![whole(from)]);
            }
        }
        M::Stmxcsr | M::Vstmxcsr => {
            if let Some(to) = b.operand(0) {
                let from = smallvec![whole(file::MXCSR_CONTROL), whole(file::MXCSR_FLAGS)];
                b.set(to, 0, from);
            }
        }
        M::Vzeroupper => {
            for n in 0..16 {
                b.set(RegRange::vector(n).part(16, 48), 0, Sources::new());
            }
        }
        M::Vzeroall => {
            for n in 0..16 {
                b.set(RegRange::vector(n), 0, Sources::new());
            }
        }
        M::Maskmovdqu | M::Vmaskmovdqu | M::Maskmovq => masked_string(b),
        M::Vmaskmovps | M::Vpmaskmovd => masked(b, 4),
        M::Vmaskmovpd | M::Vpmaskmovq => masked(b, 8),
        _ if b.i.is_vsib() => gather(b),
        _ => return false,
    }
    true
}

fn area(b: &mut Builder<'_>, format: StateFormat, writes: bool) {
    // The header says which components are in their initial state, so a save reads nothing of
    // those, and a restore reads only the header.
    let access = b.access(Access {
        address: access::explicit(b.i),
        size: Size::State(format),
        reads: !writes,
        writes,
    });
    let state = [
        file::X87_CONTROL,
        file::X87_EXCEPTIONS,
        file::X87_CONDITION,
        X87_STACK,
        file::MXCSR_CONTROL,
        file::MXCSR_FLAGS,
        VECTORS,
        file::MASKS,
    ];
    if writes {
        b.set(
            Place::Whole(access),
            0,
            state.into_iter().map(whole).collect(),
        );
    } else {
        for register in state {
            // What was not asked for stays.
            let from = smallvec![whole(Place::Whole(access)), by_lane(register, 1)];
            b.set(register, 1, from);
        }
    }
}

fn legacy(b: &mut Builder<'_>) {
    let writes = matches!(b.i.mnemonic(), Mnemonic::Fxsave | Mnemonic::Fxsave64);
    let access = match b.memory {
        Some(access) => access,
        None => b.access(Access {
            address: access::explicit(b.i),
            size: Size::Fixed(512),
            reads: !writes,
            writes,
        }),
    };
    b.out.accesses[usize::from(access)].size = Size::Fixed(512);
    let place = Place::Memory {
        access,
        at: 0,
        len: 512,
    };
    for part in state_parts(false, 3) {
        // Control and flags of MXCSR are interleaved.
        let interleaved = matches!(part.register, file::MXCSR_CONTROL | file::MXCSR_FLAGS);
        let memory = if interleaved {
            place.part(24, 4)
        } else {
            place.part(part.at, part.register.len)
        };
        if !writes {
            let lane = u16::from(!interleaved);
            b.set(part.register, lane, smallvec![by_lane(memory, lane)]);
        } else if !interleaved {
            b.copy(memory, part.register);
        } else if part.register == file::MXCSR_CONTROL {
            let from = smallvec![whole(file::MXCSR_CONTROL), whole(file::MXCSR_FLAGS)];
            b.set(memory, 0, from);
        }
    }
    if writes {
        // Tags, pointers, the mask of MXCSR, and what is reserved.
        for (at, end) in [(4, 24), (28, 32)] {
            b.set(place.part(at, end - at), 0, Sources::new());
        }
        for n in 0..8 {
            b.set(place.part(32 + 16 * n + 10, 6), 0, Sources::new());
        }
    }
}

/// `maskmovdqu`: bytes of a vector to rdi, where the mask says so.
fn masked_string(b: &mut Builder<'_>) {
    let (Some(from), mask) = (b.operand(1), range(b.register(2))) else {
        return;
    };
    let size = from.len().unwrap_or(0);
    let narrow = matches!(b.i.op0_kind(), OpKind::MemorySegEDI | OpKind::MemorySegDI);
    let kind = if narrow {
        OpKind::MemorySegEDI
    } else {
        OpKind::MemorySegRDI
    };
    let access = b.access(Access {
        address: access::string(b.i, kind),
        size: Size::Masked {
            element: 1,
            lanes: size as u8,
            mask: Mask::Sign(mask, 1),
        },
        reads: false,
        writes: true,
    });
    let to = Place::Memory {
        access,
        at: 0,
        len: size,
    };
    b.copy(to, from);
}

/// The moves of AVX with a vector as mask: lanes without the bit are zero, or stay in memory.
fn masked(b: &mut Builder<'_>, element: u16) {
    let mask = range(b.register(1));
    let Some(access) = b.memory else { return };
    b.out.accesses[usize::from(access)].size = Size::Masked {
        element: element as u8,
        lanes: (mask.len / element) as u8,
        mask: Mask::Sign(mask, element as u8),
    };
    let Some(from) = b.operand(2) else { return };
    if b.i.op0_kind() == OpKind::Memory {
        if let Some(to) = b.operand(0) {
            b.copy(to, from);
        }
    } else {
        let from = smallvec![by_lane(from, element), by_lane(mask, element)];
        b.put(0, element, from);
    }
}

/// Gathers and scatters.
fn gather(b: &mut Builder<'_>) {
    use Mnemonic as M;
    let index = range(b.i.memory_index());
    let index_size: u16 = if b.i.is_vsib64() { 8 } else { 4 };
    let element = b.i.memory_size().element_size() as u16;
    let scatter = b.i.op0_kind() == OpKind::Memory;
    let data = range(b.register(u32::from(scatter)));
    let only_prefetch = !matches!(
        b.i.mnemonic(),
        M::Vpgatherdd
            | M::Vpgatherdq
            | M::Vpgatherqd
            | M::Vpgatherqq
            | M::Vgatherdps
            | M::Vgatherdpd
            | M::Vgatherqps
            | M::Vgatherqpd
            | M::Vpscatterdd
            | M::Vpscatterdq
            | M::Vpscatterqd
            | M::Vpscatterqq
            | M::Vscatterdps
            | M::Vscatterdpd
            | M::Vscatterqps
            | M::Vscatterqpd
    );
    if only_prefetch || element == 0 {
        return;
    }
    let lanes = (data.len / element).min(index.len / index_size);
    let by_vector = !b.i.has_op_mask();
    let (mask, mask_register) = if by_vector {
        let register = range(b.register(2));
        (Mask::Sign(register, element as u8), register)
    } else {
        let register = range(b.i.op_mask());
        (Mask::Bits(register), register)
    };
    let access = b.access(Access {
        address: super::Address {
            index: None,
            ..access::explicit(b.i)
        },
        size: Size::Lanes {
            element: element as u8,
            lanes: lanes as u8,
            index,
            index_size: index_size as u8,
            scale: b.i.memory_index_scale() as u8,
            mask,
        },
        reads: !scatter,
        writes: scatter,
    });
    let used = data.part(0, lanes * element);
    if scatter {
        b.set(
            Place::Whole(access),
            element,
            smallvec![by_lane(used, element)],
        );
    } else {
        let mask_source = if by_vector {
            by_lane(mask_register.part(0, lanes * element), element)
        } else {
            whole(mask_register)
        };
        b.set(
            used,
            element,
            smallvec![
                by_lane(Place::Whole(access), element),
                by_lane(used, element),
                mask_source,
            ],
        );
        let rest = RegRange {
            at: used.end(),
            len: RegRange::vector(data.vector_number().unwrap_or(0)).end() - used.end(),
        };
        b.set(rest, 0, Sources::new());
    }
    // Done lanes leave the mask, so all have.
    if by_vector {
        b.put(2, 0, Sources::new());
    } else {
        b.set(mask_register, 0, Sources::new());
    }
}
