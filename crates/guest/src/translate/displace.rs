//! Instructions that refer to another address than the one in them: a variable was moved.

use iced_x86::{Code, Decoder, DecoderOptions, Encoder, Instruction, OpKind, Register};
use rustc_hash::FxHashMap;

use super::decode::Superblock;

/// How far the addresses in an instruction are off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Displacement {
    /// Of the memory operand, or of what `lea` and a copy of the stack pointer lead to.
    pub(crate) memory: i64,
    /// Of the immediate operand.
    pub(crate) immediate: i64,
}

impl Superblock {
    /// Has instructions refer to other addresses.
    pub(crate) fn displace(&mut self, displaced: &FxHashMap<u64, Displacement>) {
        if displaced.is_empty() {
            return;
        }
        for i in &mut self.insns {
            // Whether it can be done was found out when it was asked for. Code may have been rewritten since: then
            // it is not the code that was meant.
            if let Some(by) = displaced.get(&i.pc)
                && let Some((decoded, bytes)) = displaced_at(&i.decoded, *by)
            {
                i.size = bytes.len() as u8;
                i.bytes = [0; 15];
                i.bytes[..bytes.len()].copy_from_slice(&bytes);
                i.rip_offset = rip_offset(&bytes, i.pc);
                i.decoded = decoded;
            }
        }
    }
}

/// The offset of a rip-relative displacement; 0 for none.
fn rip_offset(bytes: &[u8], pc: u64) -> u8 {
    let mut decoder = Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE);
    let decoded = decoder.decode();
    match decoded.is_ip_rel_memory_operand() {
        true => decoder.get_constant_offsets(&decoded).displacement_offset() as u8,
        false => 0,
    }
}

/// The instruction that refers to the other addresses, as it would be at the same place; `None` if there is none.
pub(crate) fn displaced_at(i: &Instruction, by: Displacement) -> Option<(Instruction, Vec<u8>)> {
    let mut out = *i;
    if by.memory != 0 {
        let memory = (0..i.op_count()).any(|n| i.op_kind(n) == OpKind::Memory);
        if copies_stack_pointer(i) {
            let to = i.op0_register();
            let operand = iced_x86::MemoryOperand::with_base_displ(Register::RSP, by.memory);
            out = Instruction::with2(Code::Lea_r64_m, to, operand).ok()?;
            out.set_ip(i.ip());
        } else if memory {
            let old = i.memory_displacement64();
            out.set_memory_displacement64(old.wrapping_add_signed(by.memory));
            out.set_memory_displ_size(8);
        } else {
            return None;
        }
    }
    if by.immediate != 0 {
        let n = (0..i.op_count()).find(|n| is_address(i.op_kind(*n)))?;
        let value = i.immediate(n).wrapping_add_signed(by.immediate);
        out.set_immediate_u64(n, value);
        // What does not fit was cut off.
        if out.immediate(n) != value {
            return None;
        }
    }
    let mut encoder = Encoder::new(64);
    encoder.encode(&out, i.ip()).ok()?;
    let bytes = encoder.take_buffer();
    let mut again = Decoder::with_ip(64, &bytes, i.ip(), DecoderOptions::NONE);
    Some((again.decode(), bytes))
}

/// `mov reg, rsp`: a pointer to what is at the top of the stack.
pub(crate) fn copies_stack_pointer(i: &Instruction) -> bool {
    matches!(i.code(), Code::Mov_r64_rm64 | Code::Mov_rm64_r64)
        && i.op0_kind() == OpKind::Register
        && i.op1_kind() == OpKind::Register
        && i.op1_register() == Register::RSP
}

/// An immediate operand that an address fits into.
fn is_address(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Immediate32 | OpKind::Immediate64 | OpKind::Immediate32to64
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(memory: i64, immediate: i64) -> Displacement {
        Displacement { memory, immediate }
    }

    fn displaced(bytes: &[u8], by: Displacement) -> Option<String> {
        let i = Decoder::with_ip(64, bytes, 0x40_1000, DecoderOptions::NONE).decode();
        assert!(!i.is_invalid());
        Some(displaced_at(&i, by)?.0.to_string())
    }

    #[test]
    fn operands_lead_elsewhere() {
        let cases: [(&[u8], Displacement, Option<&str>); 11] = [
            // mov eax,[rbp-8]
            (
                &[0x8b, 0x45, 0xf8],
                by(-0x100, 0),
                Some("mov eax,[rbp-108h]"),
            ),
            // mov eax,[rsp]
            (&[0x8b, 0x04, 0x24], by(16, 0), Some("mov eax,[rsp+10h]")),
            // mov eax,[rip+0]
            (
                &[0x8b, 0x05, 0, 0, 0, 0],
                by(0x1000, 0),
                Some("mov eax,[402006h]"),
            ),
            // lea rax,[rsp+rax*4+8]
            (
                &[0x48, 0x8d, 0x44, 0x84, 8],
                by(-8, 0),
                Some("lea rax,[rsp+rax*4]"),
            ),
            // mov rdi,rsp
            (&[0x48, 0x89, 0xe7], by(32, 0), Some("lea rdi,[rsp+20h]")),
            // mov edi,404040h
            (
                &[0xbf, 0x40, 0x40, 0x40, 0],
                by(0, -0x40),
                Some("mov edi,404000h"),
            ),
            // mov qword ptr [rbp-8],404040h
            (
                &[0x48, 0xc7, 0x45, 0xf8, 0x40, 0x40, 0x40, 0],
                by(-8, 8),
                Some("mov qword ptr [rbp-10h],404048h"),
            ),
            // An address that does not fit.
            (&[0xbf, 0x40, 0x40, 0x40, 0], by(0, 1 << 40), None),
            (&[0x8b, 0x45, 0xf8], by(1 << 40, 0), None),
            // add rax,rbx; add eax,1
            (&[0x48, 0x01, 0xd8], by(8, 0), None),
            (&[0x83, 0xc0, 0x01], by(0, 8), None),
        ];
        for (bytes, by, wanted) in cases {
            assert_eq!(displaced(bytes, by).as_deref(), wanted, "{bytes:02x?}");
        }
    }
}
