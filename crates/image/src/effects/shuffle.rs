//! Instructions that move bytes about in vectors, each output byte a copy of one input byte or a
//! constant. Which one, only the constants in the instruction decide.

use iced_x86::{Mnemonic, OpKind};
use smallvec::{SmallVec, smallvec};

use super::build::{Builder, by_lane};
use super::{Place, Sources};

/// Where a byte comes from: byte n of an operand.
type Origin = Option<(u32, u16)>;

pub(super) fn instruction(b: &mut Builder<'_>) -> bool {
    let vector = |n: u32| {
        let register = b.register(n);
        register.is_vector_register() || register.is_mm()
    };
    if b.i.has_op_mask() || b.i.is_string_instruction() || !(vector(0) || vector(1)) {
        return false;
    }
    let Some(map) = origins(b) else { return false };
    let Some(to) = b.operand(0) else { return false };
    let size = to.len().unwrap_or(0);
    let keeps = matches!(to, Place::Register(_)) && (map.len() as u16) < size;
    let mut at = 0;
    while at < map.len() {
        let first = map[at];
        let mut end = at + 1;
        while end < map.len() && follows(first, map[end], (end - at) as u16) {
            end += 1;
        }
        let part = to.part(at as u16, (end - at) as u16);
        match first {
            None => b.set(part, 0, Sources::new()),
            Some((operand, byte)) => {
                let source = b.operand(operand).map(|p| p.part(byte, (end - at) as u16));
                // A byte that stays where it is is not written.
                if let Some(source) = source
                    && source != part
                {
                    b.set(part, 1, smallvec![by_lane(source, 1)]);
                }
            }
        }
        at = end;
    }
    let written = if keeps { map.len() as u16 } else { size };
    b.extend(b.register(0), written.max(size));
    true
}

fn follows(first: Origin, next: Origin, distance: u16) -> bool {
    match (first, next) {
        (None, None) => true,
        (Some((a, at)), Some((b, byte))) => a == b && byte == at + distance,
        _ => false,
    }
}

type Map = SmallVec<[Origin; 32]>;

/// The origin of each written byte of the first operand, from its lowest.
fn origins(b: &Builder<'_>) -> Option<Map> {
    use Mnemonic as M;
    let operands = (0..b.i.op_count())
        .filter(|n| b.operand(*n).is_some())
        .count() as u32;
    // The two sources: of two operands the first is both source and target.
    let (a, s) = if operands >= 3 { (1, 2) } else { (0, 1) };
    let size = b.size(0);
    // Long vectors are worked on in parts of 16 bytes; MMX registers are shorter.
    let unit = size.min(16);
    let last = b.i.op_count() - 1;
    let constant = if b.operand(last).is_none() {
        b.i.immediate(last) as u16
    } else {
        0
    };
    let build =
        |len: u16, f: &dyn Fn(u16) -> Origin| -> Option<Map> { Some((0..len).map(f).collect()) };
    // The same for each unit, in elements: element k of the unit -> operand, element.
    let per_unit = |element: u16, f: &dyn Fn(u16) -> (u32, u16)| {
        build(size, &|at| {
            let (base, inside) = (at / unit * unit, at % unit);
            let (operand, from) = f(inside / element);
            Some((operand, base + from * element + inside % element))
        })
    };
    let unpack = |element: u16, high: bool| {
        let base = if high { unit / element / 2 } else { 0 };
        per_unit(element, &|k| (if k % 2 == 0 { a } else { s }, base + k / 2))
    };
    let pick2 = |k: u16| constant >> (2 * k) & 3;
    let repeat = |element: u16| build(size, &|at| Some((1, at % element)));
    let zero_extend = |to: u16, from: u16| {
        build(size, &|at| {
            (at % to < from).then(|| (1, at / to * from + at % to))
        })
    };
    let blend = |element: u16, bits: u16| {
        build(size, &|at| {
            let k = at / element % bits;
            Some((if constant >> k & 1 == 1 { s } else { a }, at))
        })
    };
    let insert = |element: u16| {
        let k = constant % (16 / element);
        build(size, &|at| {
            if at / element == k && at < 16 {
                Some((s, at % element))
            } else {
                Some((a, at))
            }
        })
    };
    let extract = |element: u16, from_size: u16| {
        let k = constant % (from_size / element);
        build(size, &|at| (at < element).then_some((1, k * element + at)))
    };
    match b.i.mnemonic() {
        M::Punpcklbw | M::Vpunpcklbw => unpack(1, false),
        M::Punpckhbw | M::Vpunpckhbw => unpack(1, true),
        M::Punpcklwd | M::Vpunpcklwd => unpack(2, false),
        M::Punpckhwd | M::Vpunpckhwd => unpack(2, true),
        M::Punpckldq | M::Vpunpckldq | M::Unpcklps | M::Vunpcklps => unpack(4, false),
        M::Punpckhdq | M::Vpunpckhdq | M::Unpckhps | M::Vunpckhps => unpack(4, true),
        M::Punpcklqdq | M::Vpunpcklqdq | M::Unpcklpd | M::Vunpcklpd => unpack(8, false),
        M::Punpckhqdq | M::Vpunpckhqdq | M::Unpckhpd | M::Vunpckhpd => unpack(8, true),
        M::Shufps | M::Vshufps => per_unit(4, &|k| (if k < 2 { a } else { s }, pick2(k))),
        M::Shufpd | M::Vshufpd => build(size, &|at| {
            let k = at / 8;
            let from = at / 16 * 16 + (constant >> k & 1) * 8 + at % 8;
            Some((if k % 2 == 0 { a } else { s }, from))
        }),
        M::Pshufd | M::Vpshufd => per_unit(4, &|k| (1, pick2(k))),
        M::Vpermilps if b.operand(last).is_none() => per_unit(4, &|k| (1, pick2(k))),
        M::Vpermilpd if b.operand(last).is_none() => build(size, &|at| {
            let from = at / 16 * 16 + (constant >> (at / 8) & 1) * 8 + at % 8;
            Some((1, from))
        }),
        M::Pshufw => per_unit(2, &|k| (1, pick2(k))),
        M::Pshuflw | M::Vpshuflw => per_unit(2, &|k| (1, if k < 4 { pick2(k) } else { k })),
        M::Pshufhw | M::Vpshufhw => per_unit(2, &|k| (1, if k < 4 { k } else { 4 + pick2(k - 4) })),
        M::Palignr | M::Vpalignr => build(size, &|at| {
            let (base, from) = (at / unit * unit, at % unit + constant);
            match from / unit {
                0 => Some((s, base + from)),
                1 => Some((a, base + from - unit)),
                _ => None,
            }
        }),
        M::Pslldq | M::Vpslldq => {
            let from = u32::from(b.i.op_count() == 3);
            build(size, &|at| {
                (at % 16 >= constant).then(|| (from, at - constant))
            })
        }
        M::Psrldq | M::Vpsrldq => {
            let from = u32::from(b.i.op_count() == 3);
            build(size, &|at| {
                (at % 16 + constant < 16).then(|| (from, at + constant))
            })
        }
        M::Movhlps | M::Vmovhlps => {
            build(16, &|at| Some(if at < 8 { (s, at + 8) } else { (a, at) }))
        }
        M::Movlhps | M::Vmovlhps => {
            build(16, &|at| Some(if at < 8 { (a, at) } else { (s, at - 8) }))
        }
        M::Movlps | M::Vmovlps | M::Movlpd | M::Vmovlpd => match b.i.op0_kind() {
            OpKind::Memory => build(8, &|at| Some((1, at))),
            _ => build(16, &|at| Some((if at < 8 { s } else { a }, at))),
        },
        M::Movhps | M::Vmovhps | M::Movhpd | M::Vmovhpd => match b.i.op0_kind() {
            OpKind::Memory => build(8, &|at| Some((1, at + 8))),
            _ => build(16, &|at| Some(if at < 8 { (a, at) } else { (s, at - 8) })),
        },
        M::Movss | M::Vmovss => single(b, 4, operands),
        M::Movsd | M::Vmovsd => single(b, 8, operands),
        M::Movd | M::Vmovd | M::Movq | M::Vmovq | M::Movq2dq | M::Movdq2q => {
            let len = size.min(b.size(1)).min(8);
            build(size, &|at| (at < len).then_some((1, at)))
        }
        M::Movddup | M::Vmovddup => build(size, &|at| Some((1, at / 16 * 16 + at % 8))),
        M::Movshdup | M::Vmovshdup => build(size, &|at| Some((1, at | 4))),
        M::Movsldup | M::Vmovsldup => build(size, &|at| Some((1, at & !4))),
        M::Pinsrb | M::Vpinsrb => insert(1),
        M::Pinsrw | M::Vpinsrw if b.register(0).is_mm() => {
            let k = constant % 4;
            build(size, &|at| {
                Some(if at / 2 == k { (s, at % 2) } else { (a, at) })
            })
        }
        M::Pinsrw | M::Vpinsrw => insert(2),
        M::Pinsrd | M::Vpinsrd => insert(4),
        M::Pinsrq | M::Vpinsrq => insert(8),
        M::Pextrb | M::Vpextrb => extract(1, 16),
        M::Pextrw | M::Vpextrw => extract(2, b.size(1)),
        M::Pextrd | M::Vpextrd | M::Extractps | M::Vextractps => extract(4, 16),
        M::Pextrq | M::Vpextrq => extract(8, 16),
        M::Insertps | M::Vinsertps => {
            let from_memory = b.i.op_kind(s) == OpKind::Memory;
            let from = if from_memory { 0 } else { constant >> 6 & 3 };
            build(16, &|at| {
                let k = at / 4;
                if constant >> k & 1 == 1 {
                    None
                } else if k == constant >> 4 & 3 {
                    Some((s, from * 4 + at % 4))
                } else {
                    Some((a, at))
                }
            })
        }
        M::Vinsertf128 | M::Vinserti128 => build(32, &|at| {
            Some(if at / 16 == constant & 1 {
                (2, at % 16)
            } else {
                (1, at)
            })
        }),
        M::Vextractf128 | M::Vextracti128 => build(16, &|at| Some((1, (constant & 1) * 16 + at))),
        M::Vpermq | M::Vpermpd if b.operand(last).is_none() => build(size, &|at| {
            let k = at / 8 % 4;
            Some((1, at / 32 * 32 + pick2(k) * 8 + at % 8))
        }),
        M::Vperm2f128 | M::Vperm2i128 => build(32, &|at| {
            let choice = constant >> (4 * (at / 16));
            let half = (choice & 1) * 16 + at % 16;
            (choice & 8 == 0).then_some((if choice & 2 == 0 { 1 } else { 2 }, half))
        }),
        M::Vpbroadcastb => repeat(1),
        M::Vpbroadcastw => repeat(2),
        M::Vpbroadcastd | M::Vbroadcastss => repeat(4),
        M::Vpbroadcastq | M::Vbroadcastsd => repeat(8),
        M::Vbroadcastf128 | M::Vbroadcasti128 => repeat(16),
        M::Blendps | M::Vblendps | M::Vpblendd => blend(4, 8),
        M::Blendpd | M::Vblendpd => blend(8, 4),
        M::Pblendw | M::Vpblendw => blend(2, 8),
        M::Pmovzxbw | M::Vpmovzxbw => zero_extend(2, 1),
        M::Pmovzxbd | M::Vpmovzxbd => zero_extend(4, 1),
        M::Pmovzxbq | M::Vpmovzxbq => zero_extend(8, 1),
        M::Pmovzxwd | M::Vpmovzxwd => zero_extend(4, 2),
        M::Pmovzxwq | M::Vpmovzxwq => zero_extend(8, 2),
        M::Pmovzxdq | M::Vpmovzxdq => zero_extend(8, 4),
        _ => None,
    }
}

/// `movss` and `movsd`: between registers the rest stays, from memory it is cleared.
fn single(b: &Builder<'_>, element: u16, operands: u32) -> Option<Map> {
    let map: Map = if b.i.op0_kind() == OpKind::Memory {
        (0..element).map(|at| Some((1, at))).collect()
    } else if operands == 3 {
        (0..16)
            .map(|at| Some((if at < element { 2 } else { 1 }, at)))
            .collect()
    } else if b.i.op1_kind() == OpKind::Memory {
        (0..16)
            .map(|at| (at < element).then_some((1, at)))
            .collect()
    } else {
        (0..element).map(|at| Some((1, at))).collect()
    };
    Some(map)
}
