//! The few instruction encodings that annotations are made of.
//!
//! Translation is on the critical path of every start-up, and what it emits around the guest's own
//! bytes is a dozen fixed forms; writing their bytes directly is ten times faster than going
//! through an assembler. Each form has its mnemonic beside it, and a test decodes them back.

/// A general register by its hardware number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gpr(pub(crate) u8);

impl Gpr {
    pub(crate) const RCX: Gpr = Gpr(1);
    pub(crate) const RDX: Gpr = Gpr(2);
    pub(crate) const R11: Gpr = Gpr(11);
}

/// Code under construction for a known address.
pub(crate) struct Code {
    pub(crate) host: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Code {
    pub(crate) fn at(host: u64) -> Self {
        Code {
            host,
            bytes: Vec::with_capacity(512),
        }
    }

    pub(crate) fn here(&self) -> u64 {
        self.host + self.bytes.len() as u64
    }

    pub(crate) fn offset(&self) -> u32 {
        self.bytes.len() as u32
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn u32(&mut self, v: u32) {
        self.bytes.extend_from_slice(&v.to_le_bytes());
    }

    fn gs_move(&mut self, opcode: u8, reg: Gpr, slot: u32) {
        let rex = 0x48 | (reg.0 >> 3) << 2;
        self.raw(&[0x65, rex, opcode, 0x04 | (reg.0 & 7) << 3, 0x25]);
        self.u32(slot);
    }

    /// `mov gs:[slot], reg`
    pub(crate) fn save(&mut self, reg: Gpr, slot: u32) {
        self.gs_move(0x89, reg, slot);
    }

    /// `mov reg, gs:[slot]`
    pub(crate) fn load(&mut self, reg: Gpr, slot: u32) {
        self.gs_move(0x8b, reg, slot);
    }

    /// `add qword gs:[slot], n`
    pub(crate) fn add_slot(&mut self, slot: u32, n: i8) {
        self.raw(&[0x65, 0x48, 0x83, 0x04, 0x25]);
        self.u32(slot);
        self.raw(&[n as u8]);
    }

    /// `movzx ecx, byte gs:[slot]`
    pub(crate) fn load_byte_ecx(&mut self, slot: u32) {
        self.raw(&[0x65, 0x0f, 0xb6, 0x0c, 0x25]);
        self.u32(slot);
    }

    /// `lea rcx, [rcx + n]`
    pub(crate) fn add_rcx(&mut self, n: i8) {
        self.raw(&[0x48, 0x8d, 0x49, n as u8]);
    }

    /// `lea rcx, [rcx + rdx]`
    pub(crate) fn add_rcx_rdx(&mut self) {
        self.raw(&[0x48, 0x8d, 0x0c, 0x11]);
    }

    /// `lea rdx, [rdx + rcx + n]`
    pub(crate) fn sum_rdx(&mut self, n: i8) {
        self.raw(&[0x48, 0x8d, 0x54, 0x0a, n as u8]);
    }

    /// `mov [rcx + n], reg`
    pub(crate) fn store_at_rcx(&mut self, n: i8, reg: Gpr) {
        let rex = 0x48 | (reg.0 >> 3) << 2;
        self.raw(&[rex, 0x89, 0x41 | (reg.0 & 7) << 3, n as u8]);
    }

    /// `lea rcx, [rcx + n]`, for more than a byte holds.
    pub(crate) fn advance_rcx(&mut self, n: i32) {
        self.raw(&[0x48, 0x8d, 0x89]);
        self.u32(n as u32);
    }

    /// `mov reg, imm64`
    pub(crate) fn imm64(&mut self, reg: Gpr, value: u64) {
        self.raw(&[0x48 | reg.0 >> 3, 0xb8 | reg.0 & 7]);
        self.raw(&value.to_le_bytes());
    }

    /// `mov rcx, [rsp]`
    pub(crate) fn load_return_address(&mut self) {
        self.raw(&[0x48, 0x8b, 0x0c, 0x24]);
    }

    /// `lea rsp, [rsp + n]`
    pub(crate) fn add_rsp(&mut self, n: i32) {
        self.raw(&[0x48, 0x8d, 0xa4, 0x24]);
        self.u32(n as u32);
    }

    /// `movzx edx, cx`
    pub(crate) fn low_half_to_edx(&mut self) {
        self.raw(&[0x0f, 0xb7, 0xd1]);
    }

    /// `jmp [rdx*8 + table]`
    pub(crate) fn jump_table(&mut self, table: u64) {
        self.raw(&[0xff, 0x24, 0xd5]);
        self.u32(table as u32);
    }

    /// `jmp rel32` to a known address.
    pub(crate) fn jump(&mut self, target: u64) {
        self.raw(&[0xe9]);
        let rel = target.wrapping_sub(self.here() + 4) as u32;
        self.u32(rel);
    }

    /// `jmp rel32`; returns where the displacement stands.
    pub(crate) fn jump_later(&mut self) -> u32 {
        self.raw(&[0xe9]);
        let at = self.offset();
        self.u32(0);
        at
    }

    /// `jcc rel32`; `condition` is the low nibble of the opcode.
    pub(crate) fn jcc_later(&mut self, condition: u8) -> u32 {
        self.raw(&[0x0f, 0x80 | condition]);
        let at = self.offset();
        self.u32(0);
        at
    }

    /// `push [rip + ...]`; returns where the displacement stands.
    pub(crate) fn push_literal_later(&mut self) -> u32 {
        self.raw(&[0xff, 0x35]);
        let at = self.offset();
        self.u32(0);
        at
    }

    /// `lea reg, [rip + ...]`; returns where the displacement stands.
    pub(crate) fn lea_later(&mut self, reg: Gpr) -> u32 {
        self.raw(&[0x48 | (reg.0 >> 3) << 2, 0x8d, 0x05 | (reg.0 & 7) << 3]);
        let at = self.offset();
        self.u32(0);
        at
    }

    /// `jrcxz +n`
    pub(crate) fn jrcxz(&mut self, n: i8) {
        self.raw(&[0xe3, n as u8]);
    }

    /// `loop -n`: one less in rcx, and if it is not zero then, goes to where `n` bytes before the end of this begin.
    pub(crate) fn loop_back(&mut self, n: u8) {
        self.raw(&[0xe2, n.wrapping_neg()]);
    }

    /// `jmp -n`
    pub(crate) fn jump_back(&mut self, n: u8) {
        self.raw(&[0xeb, n.wrapping_neg()]);
    }

    /// Points the displacement at `at` to the present end of the code.
    pub(crate) fn land(&mut self, at: u32) {
        let rel = self.offset() - (at + 4);
        self.bytes[at as usize..at as usize + 4].copy_from_slice(&rel.to_le_bytes());
    }

    /// `mov [base + disp], reg`
    pub(crate) fn store_based(&mut self, reg: Gpr, base: Gpr, disp: i32) {
        let rex = 0x48 | (reg.0 >> 3) << 2 | base.0 >> 3;
        self.raw(&[rex, 0x89]);
        self.based(reg.0, base, disp);
    }

    /// `mov dword [base], value`
    pub(crate) fn store_imm32_based(&mut self, base: Gpr, value: u32) {
        if base.0 >= 8 {
            self.raw(&[0x41]);
        }
        self.raw(&[0xc7]);
        self.based(0, base, 0);
        self.u32(value);
    }

    /// `lea reg, [base + disp]`
    pub(crate) fn lea_based(&mut self, reg: Gpr, base: Gpr, disp: i32) {
        self.raw(&[0x48 | (reg.0 >> 3) << 2 | base.0 >> 3, 0x8d]);
        self.based(reg.0, base, disp);
    }

    /// `setcc byte [base + disp]`
    pub(crate) fn set_condition(&mut self, condition: u8, base: Gpr, disp: i32) {
        if base.0 >= 8 {
            self.raw(&[0x41]);
        }
        self.raw(&[0x0f, 0x90 | condition]);
        self.based(0, base, disp);
    }

    /// The operands `reg, [base + disp]`.
    fn based(&mut self, reg: u8, base: Gpr, disp: i32) {
        let short = i8::try_from(disp);
        let mode = if short.is_ok() { 0x40 } else { 0x80 };
        self.raw(&[mode | (reg & 7) << 3 | base.0 & 7]);
        if base.0 & 7 == 4 {
            self.raw(&[0x24]);
        }
        match short {
            Ok(disp) => self.raw(&[disp as u8]),
            Err(_) => self.u32(disp as u32),
        }
    }

    /// A store of a vector register to `[base + disp]`.
    pub(crate) fn encode_store(
        &mut self,
        opcode: iced_x86::Code,
        reg: iced_x86::Register,
        base: Gpr,
        disp: i32,
    ) {
        use iced_x86::{Encoder, Instruction, MemoryOperand, Register};
        let base = Register::RAX + u32::from(base.0);
        let to = MemoryOperand::with_base_displ(base, i64::from(disp));
        let insn = Instruction::with2(opcode, to, reg).expect("a store of a vector register");
        let mut encoder = Encoder::new(64);
        encoder
            .encode(&insn, self.here())
            .expect("a store of a vector register can be encoded");
        self.raw(&encoder.take_buffer());
    }

    /// A stop: `int3` and the id by which the tracer knows it.
    pub(crate) fn stop(&mut self, id: u32) {
        self.raw(&[0xcc, 0x90, 0x90, 0x90]);
        self.u32(id);
    }

    /// A stop with room for `jmp [rip+2]; target`, the form of a link that is out of reach.
    pub(crate) fn far_stop(&mut self, id: u32) {
        self.stop(id);
        self.raw(&[0xcc; 8]);
    }
}

/// The bytes that turn a far stop into a jump to `target`.
pub(crate) fn far_jump(target: u64) -> [u8; 16] {
    let mut b = [0; 16];
    b[..6].copy_from_slice(&[0xff, 0x25, 0x02, 0, 0, 0]);
    b[8..].copy_from_slice(&target.to_le_bytes());
    b
}

/// The bytes of a far stop, to take such a jump back.
pub(crate) fn far_stop_bytes(id: u32) -> [u8; 16] {
    let mut b = [0xcc; 16];
    b[1..4].fill(0x90);
    b[4..8].copy_from_slice(&id.to_le_bytes());
    b
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter};

    #[track_caller]
    fn check(f: impl FnOnce(&mut Code), expect: &str) {
        let mut code = Code::at(0x1000);
        f(&mut code);
        let mut d = Decoder::with_ip(64, &code.bytes, 0x1000, DecoderOptions::NONE);
        let i = d.decode();
        assert_eq!(i.len(), code.bytes.len(), "one instruction");
        let mut text = String::new();
        IntelFormatter::new().format(&i, &mut text);
        assert_eq!(text, expect);
    }

    #[test]
    fn forms_decode_to_their_mnemonics() {
        check(|c| c.save(Gpr::RCX, 0), "mov gs:[0],rcx");
        check(|c| c.save(Gpr::R11, 0x38), "mov gs:[38h],r11");
        check(|c| c.load(Gpr(15), 0x10), "mov r15,gs:[10h]");
        check(|c| c.add_slot(0x20, 5), "add qword ptr gs:[20h],5");
        check(|c| c.load_byte_ecx(0x27), "movzx ecx,byte ptr gs:[27h]");
        check(|c| c.add_rcx(9), "lea rcx,[rcx+9]");
        check(|c| c.add_rcx_rdx(), "lea rcx,[rcx+rdx]");
        check(|c| c.sum_rdx(-3), "lea rdx,[rdx+rcx-3]");
        check(|c| c.store_at_rcx(-64, Gpr(13)), "mov [rcx-40h],r13");
        check(|c| c.advance_rcx(152), "lea rcx,[rcx+98h]");
        check(
            |c| c.imm64(Gpr::R11, 0x1122_3344_5566_7788),
            "mov r11,1122334455667788h",
        );
        check(|c| c.load_return_address(), "mov rcx,[rsp]");
        check(|c| c.add_rsp(24), "lea rsp,[rsp+18h]");
        check(|c| c.low_half_to_edx(), "movzx edx,cx");
        check(
            |c| c.jump_table(0x7010_0000),
            "jmp qword ptr [rdx*8+70100000h]",
        );
        check(|c| c.jump(0x2000), "jmp 0000000000002000h");
        check(
            |c| {
                c.lea_later(Gpr::R11);
            },
            "lea r11,[1007h]",
        );
        check(
            |c| {
                c.push_literal_later();
            },
            "push qword ptr [1006h]",
        );
        check(|c| c.jrcxz(3), "jrcxz 0000000000001005h");
        check(|c| c.loop_back(18), "loop 0000000000000FF0h");
        check(|c| c.jump_back(18), "jmp short 0000000000000FF0h");
        check(|c| c.store_based(Gpr(12), Gpr(3), 20), "mov [rbx+14h],r12");
        check(
            |c| c.store_based(Gpr(0), Gpr(12), 260),
            "mov [r12+104h],rax",
        );
        check(|c| c.store_imm32_based(Gpr(13), 7), "mov dword ptr [r13],7");
        check(|c| c.store_imm32_based(Gpr(0), 7), "mov dword ptr [rax],7");
        check(|c| c.lea_based(Gpr(9), Gpr(9), 36), "lea r9,[r9+24h]");
        check(|c| c.lea_based(Gpr(11), Gpr(0), 4), "lea r11,[rax+4]");
        check(|c| c.set_condition(4, Gpr(8), 4), "sete [r8+4]");
    }
}
