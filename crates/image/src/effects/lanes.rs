//! Vector arithmetic: output lane n comes from input lane n.

use iced_x86::{Mnemonic, OpKind, Register};
use smallvec::smallvec;

use super::build::{Builder, by_lane, range, whole, whole_of};
use super::file::{MXCSR_CONTROL, RegRange};
use super::{Place, Sources};

enum Lanes {
    /// All lanes of so many bytes.
    Packed { lane: u16, float: bool },
    /// The lowest lane alone, from so many bytes of the last operand (0: all of it), and from the
    /// first source if it takes part.
    Scalar { lane: u16, source: u16, first: bool },
}

impl Lanes {
    fn integer(lane: u16) -> Option<Lanes> {
        Some(Lanes::Packed { lane, float: false })
    }

    fn float(lane: u16) -> Option<Lanes> {
        Some(Lanes::Packed { lane, float: true })
    }

    fn scalar(lane: u16, source: u16, first: bool) -> Option<Lanes> {
        Some(Lanes::Scalar {
            lane,
            source,
            first,
        })
    }
}

#[rustfmt::skip]
fn lanes(mnemonic: Mnemonic) -> Option<Lanes> {
    use Mnemonic as M;
    match mnemonic {
        M::Paddb | M::Vpaddb | M::Psubb | M::Vpsubb | M::Paddsb | M::Vpaddsb | M::Paddusb | M::Vpaddusb | M::Psubsb | M::Vpsubsb | M::Psubusb | M::Vpsubusb | M::Pminub | M::Vpminub | M::Pminsb | M::Vpminsb | M::Pmaxub | M::Vpmaxub | M::Pmaxsb | M::Vpmaxsb | M::Pavgb | M::Vpavgb | M::Pcmpeqb | M::Vpcmpeqb | M::Pcmpgtb | M::Vpcmpgtb | M::Pabsb | M::Vpabsb | M::Psignb | M::Vpsignb | M::Pand | M::Vpand | M::Pandn | M::Vpandn | M::Por | M::Vpor | M::Pxor | M::Vpxor | M::Andps | M::Vandps | M::Andpd | M::Vandpd | M::Andnps | M::Vandnps | M::Andnpd | M::Vandnpd | M::Orps | M::Vorps | M::Orpd | M::Vorpd | M::Xorps | M::Vxorps | M::Xorpd | M::Vxorpd | M::Movaps | M::Vmovaps | M::Movapd | M::Vmovapd | M::Movups | M::Vmovups | M::Movupd | M::Vmovupd | M::Movdqa | M::Vmovdqa | M::Movdqu | M::Vmovdqu | M::Lddqu | M::Vlddqu | M::Movntdq | M::Vmovntdq | M::Movntps | M::Vmovntps | M::Movntpd | M::Vmovntpd | M::Movntdqa | M::Vmovntdqa | M::Movntq | M::Vmovdqa32 | M::Vmovdqa64 | M::Vmovdqu8 | M::Vmovdqu16 | M::Vmovdqu32 | M::Vmovdqu64 | M::Vpandd | M::Vpandq | M::Vpandnd | M::Vpandnq | M::Vpord | M::Vporq | M::Vpxord | M::Vpxorq => Lanes::integer(1),
        M::Paddw | M::Vpaddw | M::Psubw | M::Vpsubw | M::Paddsw | M::Vpaddsw | M::Paddusw | M::Vpaddusw | M::Psubsw | M::Vpsubsw | M::Psubusw | M::Vpsubusw | M::Pminuw | M::Vpminuw | M::Pminsw | M::Vpminsw | M::Pmaxuw | M::Vpmaxuw | M::Pmaxsw | M::Vpmaxsw | M::Pavgw | M::Vpavgw | M::Pcmpeqw | M::Vpcmpeqw | M::Pcmpgtw | M::Vpcmpgtw | M::Pabsw | M::Vpabsw | M::Psignw | M::Vpsignw | M::Pmullw | M::Vpmullw | M::Pmulhw | M::Vpmulhw | M::Pmulhuw | M::Vpmulhuw | M::Pmulhrsw | M::Vpmulhrsw | M::Pmaddubsw | M::Vpmaddubsw | M::Vpsllvw | M::Vpsrlvw | M::Vpsravw => Lanes::integer(2),
        M::Paddd | M::Vpaddd | M::Psubd | M::Vpsubd | M::Pminud | M::Vpminud | M::Pminsd | M::Vpminsd | M::Pmaxud | M::Vpmaxud | M::Pmaxsd | M::Vpmaxsd | M::Pcmpeqd | M::Vpcmpeqd | M::Pcmpgtd | M::Vpcmpgtd | M::Pabsd | M::Vpabsd | M::Psignd | M::Vpsignd | M::Pmulld | M::Vpmulld | M::Pmaddwd | M::Vpmaddwd | M::Vpsllvd | M::Vpsrlvd | M::Vpsravd | M::Vprolvd | M::Vprorvd | M::Vpternlogd => Lanes::integer(4),
        M::Paddq | M::Vpaddq | M::Psubq | M::Vpsubq | M::Vpminuq | M::Vpminsq | M::Vpmaxuq | M::Vpmaxsq | M::Pcmpeqq | M::Vpcmpeqq | M::Pcmpgtq | M::Vpcmpgtq | M::Vpabsq | M::Vpmullq | M::Vpsllvq | M::Vpsrlvq | M::Vpsravq | M::Pmuludq | M::Vpmuludq | M::Pmuldq | M::Vpmuldq | M::Psadbw | M::Vpsadbw | M::Vprolvq | M::Vprorvq | M::Vpternlogq => Lanes::integer(8),
        M::Pshufb | M::Vpshufb | M::Phaddw | M::Vphaddw | M::Phaddd | M::Vphaddd | M::Phaddsw | M::Vphaddsw | M::Phsubw | M::Vphsubw | M::Phsubd | M::Vphsubd | M::Phsubsw | M::Vphsubsw | M::Packsswb | M::Vpacksswb | M::Packssdw | M::Vpackssdw | M::Packuswb | M::Vpackuswb | M::Packusdw | M::Vpackusdw | M::Mpsadbw | M::Vmpsadbw => Lanes::integer(16),
        M::Addps | M::Vaddps | M::Subps | M::Vsubps | M::Mulps | M::Vmulps | M::Divps | M::Vdivps | M::Minps | M::Vminps | M::Maxps | M::Vmaxps | M::Sqrtps | M::Vsqrtps | M::Rcpps | M::Vrcpps | M::Rsqrtps | M::Vrsqrtps | M::Cmpps | M::Vcmpps | M::Roundps | M::Vroundps | M::Cvtdq2ps | M::Vcvtdq2ps | M::Cvtps2dq | M::Vcvtps2dq | M::Cvttps2dq | M::Vcvttps2dq | M::Addsubps | M::Vaddsubps | M::Vfmadd132ps | M::Vfmadd213ps | M::Vfmadd231ps | M::Vfmsub132ps | M::Vfmsub213ps | M::Vfmsub231ps | M::Vfnmadd132ps | M::Vfnmadd213ps | M::Vfnmadd231ps | M::Vfnmsub132ps | M::Vfnmsub213ps | M::Vfnmsub231ps | M::Vfmaddsub132ps | M::Vfmaddsub213ps | M::Vfmaddsub231ps | M::Vfmsubadd132ps | M::Vfmsubadd213ps | M::Vfmsubadd231ps => Lanes::float(4),
        M::Addpd | M::Vaddpd | M::Subpd | M::Vsubpd | M::Mulpd | M::Vmulpd | M::Divpd | M::Vdivpd | M::Minpd | M::Vminpd | M::Maxpd | M::Vmaxpd | M::Sqrtpd | M::Vsqrtpd | M::Cmppd | M::Vcmppd | M::Roundpd | M::Vroundpd | M::Addsubpd | M::Vaddsubpd | M::Vfmadd132pd | M::Vfmadd213pd | M::Vfmadd231pd | M::Vfmsub132pd | M::Vfmsub213pd | M::Vfmsub231pd | M::Vfnmadd132pd | M::Vfnmadd213pd | M::Vfnmadd231pd | M::Vfnmsub132pd | M::Vfnmsub213pd | M::Vfnmsub231pd | M::Vfmaddsub132pd | M::Vfmaddsub213pd | M::Vfmaddsub231pd | M::Vfmsubadd132pd | M::Vfmsubadd213pd | M::Vfmsubadd231pd => Lanes::float(8),
        M::Haddps | M::Vhaddps | M::Haddpd | M::Vhaddpd | M::Hsubps | M::Vhsubps | M::Hsubpd | M::Vhsubpd | M::Dpps | M::Vdpps | M::Dppd | M::Vdppd => Lanes::float(16),
        M::Addss | M::Vaddss | M::Subss | M::Vsubss | M::Mulss | M::Vmulss | M::Divss | M::Vdivss | M::Minss | M::Vminss | M::Maxss | M::Vmaxss | M::Cmpss | M::Vcmpss | M::Vfmadd132ss | M::Vfmadd213ss | M::Vfmadd231ss | M::Vfmsub132ss | M::Vfmsub213ss | M::Vfmsub231ss | M::Vfnmadd132ss | M::Vfnmadd213ss | M::Vfnmadd231ss | M::Vfnmsub132ss | M::Vfnmsub213ss | M::Vfnmsub231ss => Lanes::scalar(4, 4, true),
        M::Sqrtss | M::Vsqrtss | M::Rcpss | M::Vrcpss | M::Rsqrtss | M::Vrsqrtss | M::Roundss | M::Vroundss => Lanes::scalar(4, 4, false),
        M::Addsd | M::Vaddsd | M::Subsd | M::Vsubsd | M::Mulsd | M::Vmulsd | M::Divsd | M::Vdivsd | M::Minsd | M::Vminsd | M::Maxsd | M::Vmaxsd | M::Vfmadd132sd | M::Vfmadd213sd | M::Vfmadd231sd | M::Vfmsub132sd | M::Vfmsub213sd | M::Vfmsub231sd | M::Vfnmadd132sd | M::Vfnmadd213sd | M::Vfnmadd231sd | M::Vfnmsub132sd | M::Vfnmsub213sd | M::Vfnmsub231sd | M::Vcmpsd | M::Cmpsd => Lanes::scalar(8, 8, true),
        M::Sqrtsd | M::Vsqrtsd | M::Roundsd | M::Vroundsd => Lanes::scalar(8, 8, false),
        M::Cvtss2sd | M::Vcvtss2sd => Lanes::scalar(8, 4, false),
        M::Cvtsd2ss | M::Vcvtsd2ss => Lanes::scalar(4, 8, false),
        M::Cvtsi2ss | M::Vcvtsi2ss => Lanes::scalar(4, 0, false),
        M::Cvtsi2sd | M::Vcvtsi2sd => Lanes::scalar(8, 0, false),
        _ => None,
    }
}

/// Lanes of a shift whose count is one operand for all.
fn shifted(mnemonic: Mnemonic) -> Option<u16> {
    use Mnemonic as M;
    match mnemonic {
        M::Psllw | M::Vpsllw | M::Psrlw | M::Vpsrlw | M::Psraw | M::Vpsraw => Some(2),
        M::Pslld | M::Vpslld | M::Psrld | M::Vpsrld | M::Psrad | M::Vpsrad => Some(4),
        M::Psllq | M::Vpsllq | M::Psrlq | M::Vpsrlq | M::Vpsraq => Some(8),
        _ => None,
    }
}

/// Lanes that are widened with their sign: of the output, of the source.
fn widened(mnemonic: Mnemonic) -> Option<(u16, u16)> {
    use Mnemonic as M;
    match mnemonic {
        M::Pmovsxbw | M::Vpmovsxbw => Some((2, 1)),
        M::Pmovsxbd | M::Vpmovsxbd => Some((4, 1)),
        M::Pmovsxbq | M::Vpmovsxbq => Some((8, 1)),
        M::Pmovsxwd | M::Vpmovsxwd => Some((4, 2)),
        M::Pmovsxwq | M::Vpmovsxwq => Some((8, 2)),
        M::Pmovsxdq | M::Vpmovsxdq => Some((8, 4)),
        M::Cvtps2pd | M::Vcvtps2pd | M::Cvtdq2pd | M::Vcvtdq2pd => Some((8, 4)),
        _ => None,
    }
}

/// A choice of two sources by the sign of each lane of a third.
fn chosen(mnemonic: Mnemonic) -> Option<u16> {
    use Mnemonic as M;
    match mnemonic {
        M::Pblendvb | M::Vpblendvb => Some(1),
        M::Blendvps | M::Vblendvps => Some(4),
        M::Blendvpd | M::Vblendvpd => Some(8),
        _ => None,
    }
}

/// Bytes of the lowest lane, of what looks at no others and leaves something outside of vectors.
fn lowest(mnemonic: Mnemonic) -> Option<u16> {
    use Mnemonic as M;
    match mnemonic {
        M::Comiss | M::Vcomiss | M::Ucomiss | M::Vucomiss => Some(4),
        M::Cvtss2si | M::Vcvtss2si | M::Cvttss2si | M::Vcvttss2si => Some(4),
        M::Comisd | M::Vcomisd | M::Ucomisd | M::Vucomisd => Some(8),
        M::Cvtsd2si | M::Vcvtsd2si | M::Cvttsd2si | M::Vcvttsd2si => Some(8),
        _ => None,
    }
}

pub(super) fn instruction(b: &mut Builder<'_>) -> bool {
    if let Some(size) = lowest(b.i.mnemonic()) {
        looked_at(b, size);
        return true;
    }
    let target = b.register(0);
    let to_vector = target.is_vector_register() || target.is_mm();
    let to_memory = b.i.op_count() > 0 && b.i.op0_kind() == OpKind::Memory;
    if !(to_vector || to_memory) {
        return false;
    }
    if constant(b) {
        b.put(0, 0, Sources::new());
        return true;
    }
    let mnemonic = b.i.mnemonic();
    if let Some(lane) = shifted(mnemonic) {
        shift(b, lane);
    } else if let Some((to, from)) = widened(mnemonic) {
        widen(b, to, from);
    } else if let Some(lane) = chosen(mnemonic) {
        let mut from = b.inputs(lane);
        if b.i.op_count() < 4 {
            let size = b.size(0);
            from.push(by_lane(range(Register::XMM0).part(0, size), lane));
        }
        b.put(0, lane, from);
    } else {
        match lanes(mnemonic) {
            Some(Lanes::Packed { lane, float }) => packed(b, lane, float),
            Some(Lanes::Scalar { .. }) if b.i.has_op_mask() => return false,
            Some(Lanes::Scalar {
                lane,
                source,
                first,
            }) => scalar(b, lane, source, first),
            None => return false,
        }
    }
    true
}

/// An operation of a register with itself that gives all zeros or all ones.
fn constant(b: &Builder<'_>) -> bool {
    use Mnemonic as M;
    let known = matches!(
        b.i.mnemonic(),
        M::Pxor
            | M::Vpxor
            | M::Vpxord
            | M::Vpxorq
            | M::Xorps
            | M::Vxorps
            | M::Xorpd
            | M::Vxorpd
            | M::Pandn
            | M::Vpandn
            | M::Andnps
            | M::Vandnps
            | M::Andnpd
            | M::Vandnpd
            | M::Psubb
            | M::Vpsubb
            | M::Psubw
            | M::Vpsubw
            | M::Psubd
            | M::Vpsubd
            | M::Psubq
            | M::Vpsubq
            | M::Pcmpeqb
            | M::Vpcmpeqb
            | M::Pcmpeqw
            | M::Vpcmpeqw
            | M::Pcmpeqd
            | M::Vpcmpeqd
            | M::Pcmpeqq
            | M::Vpcmpeqq
            | M::Pcmpgtb
            | M::Vpcmpgtb
            | M::Pcmpgtw
            | M::Vpcmpgtw
            | M::Pcmpgtd
            | M::Vpcmpgtd
            | M::Pcmpgtq
            | M::Vpcmpgtq
    );
    let last = b.i.op_count().saturating_sub(1);
    let operand = b.register(last);
    known && last > 0 && operand != Register::None && operand == b.register(last - 1)
}

fn packed(b: &mut Builder<'_>, lane: u16, float: bool) {
    let mut from = b.inputs(lane);
    from.dedup();
    if float {
        b.floating(&from.clone());
        from.push(whole(MXCSR_CONTROL));
    }
    b.put(0, lane, from);
}

fn shift(b: &mut Builder<'_>, lane: u16) {
    let last = b.i.op_count() - 1;
    let mut from: Sources = smallvec![];
    let data = last - 1;
    from.extend(b.operand(data).map(|p| by_lane(p, lane)));
    if let Some(count) = b.operand(last) {
        from.push(whole(count.part(0, 8)));
    }
    b.put(0, lane, from);
}

fn widen(b: &mut Builder<'_>, to: u16, from: u16) {
    let count = b.size(0) / to;
    let Some(source) = b.operand(1) else { return };
    let used = source.len().unwrap_or(0).min(count * from);
    let mut inputs: Sources = smallvec![by_lane(source.part(0, used), from)];
    if matches!(b.i.mnemonic(), Mnemonic::Cvtps2pd | Mnemonic::Vcvtps2pd) {
        b.floating(&inputs.clone());
        inputs.push(whole(MXCSR_CONTROL));
    }
    b.put(0, to, inputs);
}

fn looked_at(b: &mut Builder<'_>, size: u16) {
    let operands = (0..b.i.op_count()).filter(|n| b.reads(*n));
    let inputs = operands.filter_map(|n| b.operand(n));
    let mut from: Sources = inputs.map(|p| whole(p.part(0, size))).collect();
    b.floating(&from.clone());
    from.push(whole(MXCSR_CONTROL));
    match b.register(0).is_gpr() {
        true => b.put(0, 0, from),
        false => b.flags(&from),
    }
}

fn scalar(b: &mut Builder<'_>, lane: u16, source: u16, first: bool) {
    // The last operand that is not a constant.
    let Some(last) = (0..b.i.op_count()).rev().find(|n| b.operand(*n).is_some()) else {
        return;
    };
    let (Some(to), Some(operand)) = (b.operand(0), b.operand(last)) else {
        return;
    };
    let used = if source == 0 {
        operand.len().unwrap_or(0)
    } else {
        source
    };
    let mut from: Sources = smallvec![whole(operand.part(0, used))];
    let three = last >= 2;
    let keeps = !three || b.reads(0);
    if first {
        for n in u32::from(!b.reads(0))..last {
            from.extend(b.operand(n).map(|p| whole(p.part(0, lane))));
        }
    }
    from.dedup();
    let others = whole_of(&from);
    b.floating(&others);
    from.push(whole(MXCSR_CONTROL));
    b.put_low(0, lane, 0, from);
    if !keeps && let Some(Place::Register(rest)) = b.operand(1) {
        let to_rest = to.part(lane, 16 - lane);
        let rest: RegRange = rest.part(lane, 16 - lane);
        if to_rest != Place::Register(rest) {
            b.copy(to_rest, rest);
        }
    }
    b.extend(b.register(0), 16);
}
