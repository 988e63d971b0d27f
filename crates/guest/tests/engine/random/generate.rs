//! Random instruction sequences that are safe to run: memory operands stay in their area, the
//! stack stays balanced, loops end, divisions do not trap.
//!
//! r15 points to the area and r14 counts loops; everything else is fair game.

use std::fmt::Write;

use crate::chance::Chance;

pub(super) const WIDE: [&str; 16] = [
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15",
];
const DOUBLE: [&str; 16] = [
    "eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi", "r8d", "r9d", "r10d", "r11d", "r12d",
    "r13d", "r14d", "r15d",
];
const SINGLE: [&str; 16] = [
    "ax", "cx", "dx", "bx", "sp", "bp", "si", "di", "r8w", "r9w", "r10w", "r11w", "r12w", "r13w",
    "r14w", "r15w",
];
const BYTE: [&str; 16] = [
    "al", "cl", "dl", "bl", "spl", "bpl", "sil", "dil", "r8b", "r9b", "r10b", "r11b", "r12b",
    "r13b", "r14b", "r15b",
];
const FREE: [usize; 13] = [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13];
const CONDITIONS: [&str; 16] = [
    "o", "no", "b", "ae", "e", "ne", "be", "a", "s", "ns", "p", "np", "l", "ge", "le", "g",
];

/// Bytes that one sequence leaves in the output.
pub(super) const RECORD: usize = 17 * 8 + 8 + 16 * 32;
const AREA: u64 = 2048;
const FUNCTIONS: usize = 24;

pub(super) struct Generator {
    pub(super) sequences: Vec<String>,
    functions: Vec<String>,
    area: Vec<u64>,
}

struct Body<'a> {
    chance: &'a mut Chance,
    out: String,
    labels: usize,
    unit: String,
    /// The rest of rcx is a loop counter.
    spare_rcx: bool,
    /// Inside a loop there is no other, so that r14 has one meaning.
    in_loop: bool,
    /// Functions do not call each other.
    leaf: bool,
    /// Addresses fit 32 bits.
    low: bool,
}

impl Generator {
    pub(super) fn program(chance: &mut Chance, sequences: usize, low: bool) -> Generator {
        let body = |chance: &mut Chance, unit: String, leaf: bool, most: u64| {
            let n = 3 + chance.below(most);
            let mut b = Body {
                chance,
                out: String::new(),
                labels: 0,
                unit,
                spare_rcx: false,
                // They may be called from a loop.
                in_loop: leaf,
                leaf,
                low,
            };
            b.several(n);
            b.out
        };
        let functions = (0..FUNCTIONS)
            .map(|f| body(chance, format!("f{f}_"), true, 8))
            .collect();
        let sequences = (0..sequences)
            .map(|s| body(chance, format!("s{s}_"), false, 24))
            .collect();
        let area = (0..AREA / 8 + 64).map(|_| chance.integer()).collect();
        Generator {
            sequences,
            functions,
            area,
        }
    }

    pub(super) fn text(&self) -> String {
        let mut t = String::from(HEAD);
        for s in &self.sequences {
            t.push_str(s);
            t.push_str("call snapshot\n");
        }
        t.push_str(TAIL);
        for (n, f) in self.functions.iter().enumerate() {
            // Some return with an operand; their callers push as much before.
            let ret = if n % 4 == 3 { "ret 16" } else { "ret" };
            let _ = write!(t, ".p2align {}\nf{n}:\n{f}{ret}\n", n % 5);
        }
        t.push_str(".data\n.p2align 6\narea:\n");
        for w in &self.area {
            let _ = writeln!(t, ".quad {w:#x}");
        }
        t.push_str(".section .data.rel.ro,\"aw\"\n.p2align 3\ntable:\n");
        for n in 0..FUNCTIONS {
            let _ = writeln!(t, ".quad f{n}");
        }
        let _ = writeln!(
            t,
            ".bss\n.p2align 6\n.skip 65536\nstack:\n.skip 64\ncursor: .skip 8\nout: .skip {}\nout_end:",
            self.sequences.len() * RECORD
        );
        t
    }
}

/// Stores the state behind the cursor; keeps all registers and flags but DF.
const HEAD: &str = "
.intel_syntax noprefix
.text
snapshot:
    pushfq
    push rdi
    push rax
    cld
    mov rdi, [rip + cursor]
    mov rax, [rsp]
    mov [rdi], rax
    mov [rdi + 8], rcx
    mov [rdi + 16], rdx
    mov [rdi + 24], rbx
    lea rax, [rsp + 32]
    mov [rdi + 32], rax
    mov [rdi + 40], rbp
    mov [rdi + 48], rsi
    mov rax, [rsp + 8]
    mov [rdi + 56], rax
    mov [rdi + 64], r8
    mov [rdi + 72], r9
    mov [rdi + 80], r10
    mov [rdi + 88], r11
    mov [rdi + 96], r12
    mov [rdi + 104], r13
    mov [rdi + 112], r14
    mov [rdi + 120], r15
    mov rax, [rsp + 16]
    mov [rdi + 128], rax
    .set n, 0
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    vmovdqu [rdi + 144 + 32 * \\n], ymm\\n
    .endr
    push rcx
    push rdx
    xor eax, eax
    xor ecx, ecx
1:  rol rax, 5
    add rax, [r15 + rcx * 8]
    lea rdx, [rax + rax * 4]
    xor rax, rdx
    inc ecx
    cmp ecx, 256
    jb 1b
    mov [rdi + 136], rax
    pop rdx
    pop rcx
    add rdi, 656
    mov [rip + cursor], rdi
    pop rax
    pop rdi
    popfq
    cld
    ret
.globl _start
_start:
    lea rsp, [rip + stack]
    lea r15, [rip + area]
    lea rax, [rip + out]
    mov [rip + cursor], rax
    xor eax, eax
    wrfsbase rax
    .irp r, rcx, rdx, rbx, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14
    mov \\r, rax
    .endr
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    vmovdqu ymm\\n, [r15 + 32 * \\n]
    .endr
    cmp eax, eax
";

const TAIL: &str = "
    lea rsi, [rip + out]
again:
    lea rdx, [rip + out_end]
    sub rdx, rsi
    jz written
    mov edi, 1
    mov eax, 1
    syscall
    test rax, rax
    jle failed
    add rsi, rax
    jmp again
written:
    xor edi, edi
    mov eax, 231
    syscall
failed:
    mov edi, 1
    mov eax, 231
    syscall
";

macro_rules! put {
    ($b:expr, $($t:tt)*) => {{
        let line = format!($($t)*);
        let _ = writeln!($b.out, "    {line}");
    }};
}

mod vectors;

impl Body<'_> {
    fn several(&mut self, n: u64) {
        for _ in 0..n {
            self.any();
        }
    }

    fn any(&mut self) {
        match self.chance.below(32) {
            0..7 => self.arithmetic(),
            7..9 => self.shift(),
            9..11 => self.flags(),
            11 => self.multiply(),
            12 => self.bits(),
            13 => self.moves(),
            14 => self.exchange(),
            15 => self.stack(),
            16..18 => self.branch(),
            18 => self.looping(),
            19..21 => self.calls(),
            21 => self.strings(),
            22..25 => self.sse(),
            25..28 => self.avx(),
            28 => self.bmi(),
            29 => self.x87(),
            30 => self.red_zone(),
            _ => self.oddities(),
        }
    }

    fn label(&mut self) -> String {
        self.labels += 1;
        format!(".L{}{}", self.unit, self.labels)
    }

    fn index(&mut self) -> usize {
        loop {
            let i = FREE[self.chance.below(FREE.len() as u64) as usize];
            if !(self.spare_rcx && i == 1) {
                return i;
            }
        }
    }

    fn reg(&mut self, width: u64) -> &'static str {
        let i = self.index();
        match width {
            8 => WIDE[i],
            4 => DOUBLE[i],
            2 => SINGLE[i],
            _ => BYTE[i],
        }
    }

    fn width(&mut self) -> u64 {
        1 << self.chance.below(4)
    }

    /// A memory operand of `size` bytes, aligned if asked for. May emit code that sets up an index.
    fn memory(&mut self, size: u64, aligned: bool) -> String {
        let mut at = self.chance.below(AREA - 640);
        if aligned {
            at -= at % size;
        }
        let kind = match size {
            1 => "byte",
            2 => "word",
            4 => "dword",
            8 => "qword",
            10 => "tbyte",
            16 => "xmmword",
            _ => "ymmword",
        };
        let place = match self.chance.below(if aligned { 2 } else { 4 }) {
            0 => format!("[rip + area + {at}]"),
            1 => format!("[r15 + {at}]"),
            2 => {
                let i = self.index();
                put!(self, "and {}, {}", DOUBLE[i], 0x3f);
                format!("[r15 + {} * {} + {at}]", WIDE[i], 1 << self.chance.below(4))
            }
            _ if self.low => format!("[area + {at}]"),
            _ => format!("[r15 + {at}]"),
        };
        format!("{kind} ptr {place}")
    }

    fn either(&mut self, width: u64) -> String {
        if self.chance.one_in(3) {
            self.memory(width, false)
        } else {
            self.reg(width).to_owned()
        }
    }

    fn immediate(&mut self, width: u64) -> i64 {
        let v = self.chance.integer();
        match width {
            1 => i64::from(v as i8),
            2 => i64::from(v as i16),
            _ => i64::from(v as i32),
        }
    }

    fn condition(&mut self) -> &'static str {
        CONDITIONS[self.chance.below(16) as usize]
    }

    fn arithmetic(&mut self) {
        let w = self.width();
        let op = self.chance.pick(&[
            "add", "sub", "adc", "sbb", "and", "or", "xor", "cmp", "test",
        ]);
        match self.chance.below(4) {
            0 => {
                let (m, r) = (self.memory(w, false), self.reg(w));
                put!(self, "{op} {m}, {r}");
            }
            1 if op != "test" => {
                let (r, m) = (self.reg(w), self.memory(w, false));
                put!(self, "{op} {r}, {m}");
            }
            2 => {
                let (a, i) = (self.either(w), self.immediate(w));
                put!(self, "{op} {a}, {i}");
            }
            _ => {
                let (a, b) = (self.reg(w), self.reg(w));
                put!(self, "{op} {a}, {b}");
            }
        }
        if self.chance.one_in(5) {
            let op = self.chance.pick(&["inc", "dec", "neg", "not"]);
            let a = self.either(w);
            put!(self, "{op} {a}");
        }
        if self.chance.one_in(12) {
            let op = self.chance.pick(&["add", "cmp", "xor", "mov", "test"]);
            let (a, b) = (
                self.chance.pick(&["ah", "bh", "dh"]),
                self.chance.pick(&["al", "bl", "dh"]),
            );
            put!(self, "{op} {a}, {b}");
        }
    }

    fn shift(&mut self) {
        let w = self.width();
        let op = self
            .chance
            .pick(&["shl", "shr", "sar", "rol", "ror", "rcl", "rcr"]);
        let a = self.either(w);
        match self.chance.below(3) {
            0 => put!(self, "{op} {a}, cl"),
            1 => put!(self, "{op} {a}, 1"),
            _ => put!(self, "{op} {a}, {}", self.chance.below(70)),
        }
        if self.chance.one_in(4) {
            let w = w.max(2);
            let op = self.chance.pick(&["shld", "shrd"]);
            let (a, b) = (self.either(w), self.reg(w));
            // A 16-bit shift by more than 16 leaves what it likes.
            let n = self.chance.below(16);
            put!(self, "{op} {a}, {b}, {n}");
        }
    }

    fn flags(&mut self) {
        let cc = self.condition();
        match self.chance.below(9) {
            0 => put!(
                self,
                "{}",
                self.chance.pick(&["clc", "stc", "cmc", "lahf", "sahf"])
            ),
            1 | 2 => {
                let a = self.either(1);
                put!(self, "set{cc} {a}");
            }
            3 | 4 => {
                let w = self.width().max(2);
                let (a, b) = (self.reg(w), self.either(w));
                put!(self, "cmov{cc} {a}, {b}");
            }
            5 => {
                put!(self, "pushfq");
                let r = self.reg(8);
                put!(self, "pop {r}");
            }
            6 => {
                let flags = self.chance.word() & 0x8d5 | 2;
                put!(self, "push {flags}");
                put!(self, "popfq");
            }
            7 => {
                put!(self, "pushfw");
                put!(self, "and word ptr [rsp], 0x8d5");
                put!(self, "popfw");
            }
            _ => {
                let a = self.reg(1);
                put!(self, "set{cc} {a}");
                put!(self, "lahf");
            }
        }
    }

    fn multiply(&mut self) {
        let w = self.width();
        match self.chance.below(5) {
            0 => {
                let (op, a) = (self.chance.pick(&["mul", "imul"]), self.either(w));
                put!(self, "{op} {a}");
            }
            1 => {
                let w = w.max(2);
                let (a, b) = (self.reg(w), self.either(w));
                put!(self, "imul {a}, {b}");
            }
            2 => {
                let w = w.max(2);
                let (a, b, i) = (self.reg(w), self.either(w), self.immediate(w));
                put!(self, "imul {a}, {b}, {i}");
            }
            3 => {
                let i = [3, 6, 7, 8, 9][self.chance.below(5) as usize];
                let names = if w == 8 { WIDE } else { DOUBLE };
                put!(self, "xor edx, edx");
                put!(self, "or {}, 1", names[i]);
                put!(self, "div {}", names[i]);
            }
            _ => {
                put!(self, "and eax, 0x7fffffff");
                put!(self, "{}", if w == 8 { "cqo" } else { "cdq" });
                put!(self, "movzx ebx, bl");
                put!(self, "or ebx, 1");
                put!(self, "idiv {}", if w == 8 { "rbx" } else { "ebx" });
            }
        }
    }

    fn bits(&mut self) {
        let w = self.width().max(2);
        match self.chance.below(5) {
            0 => {
                let op = self.chance.pick(&["bt", "bts", "btr", "btc"]);
                let (a, b) = (self.reg(w), self.reg(w));
                put!(self, "{op} {a}, {b}");
            }
            1 => {
                let op = self.chance.pick(&["bt", "bts", "btr", "btc"]);
                let a = self.either(w);
                put!(self, "{op} {a}, {}", self.chance.below(64));
            }
            2 => {
                let op = self.chance.pick(&["bts", "btr", "btc"]);
                let m = self.memory(8, false);
                let i = self.index();
                // Last, so that setting up the memory operand does not undo it.
                if m.contains(WIDE[i]) {
                    return;
                }
                put!(self, "and {}, 0x7f", DOUBLE[i]);
                put!(self, "{op} {m}, {}", WIDE[i]);
            }
            3 => {
                let op = self
                    .chance
                    .pick(&["bsf", "bsr", "popcnt", "lzcnt", "tzcnt"]);
                let (a, b) = (self.reg(w), self.either(w));
                put!(self, "{op} {a}, {b}");
            }
            _ => {
                let r = self.reg(w.max(4));
                put!(self, "bswap {r}");
                let (a, b) = (self.reg(w), self.memory(w, false));
                put!(self, "movbe {a}, {b}");
                let (a, b) = (self.reg(4), self.either(4));
                put!(self, "crc32 {a}, {b}");
            }
        }
    }

    fn moves(&mut self) {
        let w = self.width();
        match self.chance.below(8) {
            0 => {
                let (m, r) = (self.memory(w, false), self.reg(w));
                put!(self, "mov {m}, {r}");
            }
            1 => {
                let (m, r) = (self.memory(w, false), self.reg(w));
                put!(self, "mov {r}, {m}");
            }
            2 => {
                let (m, i) = (self.memory(w, false), self.immediate(w));
                put!(self, "mov {m}, {i}");
            }
            3 => {
                let r = self.reg(8);
                put!(self, "movabs {r}, {:#x}", self.chance.integer());
            }
            4 => {
                let op = self.chance.pick(&["movzx", "movsx"]);
                let from = 1 + self.chance.below(2);
                let to = 4 << self.chance.below(2);
                let (a, b) = (self.reg(to), self.either(from));
                put!(self, "{op} {a}, {b}");
            }
            5 => {
                let (a, b) = (self.reg(8), self.either(4));
                put!(self, "movsxd {a}, {b}");
            }
            6 => {
                let (a, b, c) = (self.reg(8), self.reg(8), self.reg(8));
                let (s, d) = (1 << self.chance.below(4), self.immediate(4));
                put!(self, "lea {a}, [{b} + {c} * {s} + {d}]");
                let (a, d) = (self.reg(8), self.chance.below(AREA));
                put!(self, "lea {a}, [rip + area + {d}]");
            }
            _ => put!(
                self,
                "{}",
                self.chance
                    .pick(&["cbw", "cwde", "cdqe", "cwd", "cdq", "cqo"])
            ),
        }
    }

    fn exchange(&mut self) {
        let w = self.width();
        let lock = if self.chance.one_in(2) { "lock " } else { "" };
        match self.chance.below(6) {
            0 => {
                let (a, b) = (self.either(w), self.reg(w));
                put!(self, "xchg {a}, {b}");
            }
            1 => {
                let (a, b) = (self.memory(w, false), self.reg(w));
                put!(self, "{lock}cmpxchg {a}, {b}");
            }
            2 => {
                let (a, b) = (self.memory(w, false), self.reg(w));
                put!(self, "{lock}xadd {a}, {b}");
            }
            3 => {
                let op = self.chance.pick(&["add", "sub", "xor", "or", "and", "adc"]);
                let (a, b) = (self.memory(w, false), self.reg(w));
                put!(self, "{lock}{op} {a}, {b}");
            }
            4 if !self.spare_rcx => {
                let m = self.memory(16, true);
                put!(self, "{lock}cmpxchg16b {m}");
            }
            _ => {
                let (a, b) = (self.reg(w), self.reg(w));
                put!(self, "xadd {a}, {b}");
                put!(self, "cmpxchg {b}, {a}");
            }
        }
    }

    fn stack(&mut self) {
        match self.chance.below(6) {
            0 => {
                let (a, b) = (self.reg(8), self.reg(8));
                put!(self, "push {a}");
                self.plain(2);
                put!(self, "pop {b}");
            }
            1 => {
                let (m, n) = (self.memory(8, false), self.memory(8, false));
                // The second operand's index may be the first one's.
                put!(
                    self,
                    "push {}",
                    if m.contains('*') { "7".to_owned() } else { m }
                );
                put!(self, "pop {n}");
            }
            2 => {
                let (a, i) = (self.reg(8), self.immediate(4));
                put!(self, "push {i}");
                put!(self, "xchg [rsp], {a}");
                put!(self, "pop {a}");
            }
            3 => {
                let a = self.reg(8);
                put!(self, "push rsp");
                put!(self, "pop {a}");
                put!(self, "push word ptr [r15 + 8]");
                put!(self, "pop {}", self.chance.pick(&["ax", "si", "r9w", "bp"]));
            }
            4 => {
                put!(
                    self,
                    "enter {}, {}",
                    16 * self.chance.below(5),
                    self.chance.below(2)
                );
                let a = self.reg(8);
                put!(self, "mov [rsp], {a}");
                put!(self, "leave");
            }
            _ => {
                put!(self, "sub rsp, 64");
                let a = self.reg(8);
                put!(self, "mov [rsp + {}], {a}", self.chance.below(56));
                self.plain(2);
                put!(self, "add {a}, [rsp + {}]", self.chance.below(56));
                put!(self, "lea rsp, [rsp + 64]");
            }
        }
    }

    /// A few instructions without control flow or stack use.
    fn plain(&mut self, n: u64) {
        for _ in 0..self.chance.below(n + 1) {
            match self.chance.below(6) {
                0 | 1 => self.arithmetic(),
                2 => self.shift(),
                3 => self.moves(),
                4 => self.sse(),
                _ => self.avx(),
            }
        }
    }

    fn branch(&mut self) {
        let over = self.label();
        match self.chance.below(8) {
            0..4 => {
                let cc = self.condition();
                put!(self, "j{cc} {over}");
            }
            4 => {
                let (a, b) = (self.reg(4), self.either(4));
                put!(self, "cmp {a}, {b}");
                let cc = self.condition();
                put!(self, "j{cc} {over}");
            }
            5 => {
                put!(self, "{} {over}", self.chance.pick(&["jrcxz", "jecxz"]));
                // Within reach of one byte.
                let a = self.reg(8);
                put!(self, "lea {a}, [{a} + 5]");
                let _ = writeln!(self.out, "{over}:");
                return;
            }
            6 => {
                let r = self.reg(8);
                put!(self, "lea {r}, [rip + {over}]");
                put!(self, "jmp {r}");
            }
            _ => put!(self, "jmp {over}"),
        }
        let n = 1 + self.chance.below(3);
        if self.leaf || self.in_loop {
            self.plain(n);
        } else {
            self.several(n);
        }
        let _ = writeln!(self.out, "{over}:");
    }

    fn looping(&mut self) {
        if self.in_loop {
            return self.arithmetic();
        }
        let head = self.label();
        let n = 1 + self.chance.below(6);
        self.in_loop = true;
        match self.chance.below(4) {
            0 => {
                // Short enough for the one byte that `loop` has.
                self.spare_rcx = true;
                put!(self, "mov ecx, {n}");
                let _ = writeln!(self.out, "{head}:");
                let (a, b) = (self.reg(8), self.reg(8));
                put!(
                    self,
                    "{} {a}, {b}",
                    self.chance.pick(&["add", "sub", "xor", "cmp", "adc"])
                );
                let a = self.reg(4);
                put!(self, "{} {a}, 1", self.chance.pick(&["rol", "shl", "rcr"]));
                let op = self
                    .chance
                    .pick(&["loop", "loope", "loopne", "addr32 loop"]);
                put!(self, "{op} {head}");
                self.spare_rcx = false;
            }
            1 => {
                put!(self, "mov r14d, {n}");
                let _ = writeln!(self.out, "{head}:");
                let n = 1 + self.chance.below(5);
                self.several(n);
                put!(self, "sub r14d, 1");
                put!(self, "ja {head}");
            }
            2 => {
                // Leaves in the middle, goes back by a plain jump.
                let out = self.label();
                put!(self, "mov r14d, {n}");
                let _ = writeln!(self.out, "{head}:");
                put!(self, "lea r14d, [r14 - 1]");
                put!(self, "test r14d, r14d");
                put!(self, "jz {out}");
                self.several(2);
                put!(self, "jmp {head}");
                let _ = writeln!(self.out, "{out}:");
            }
            _ => {
                put!(self, "mov r14d, {n}");
                let _ = writeln!(self.out, "{head}:");
                let n = 1 + self.chance.below(4);
                self.several(n);
                put!(self, "dec r14d");
                put!(self, "jnz {head}");
            }
        }
        self.in_loop = false;
    }

    fn calls(&mut self) {
        if self.leaf || self.in_loop && self.chance.one_in(2) {
            return self.moves();
        }
        let f = self.chance.below(FUNCTIONS as u64);
        let pops = f % 4 == 3;
        if pops {
            put!(self, "push rax");
            put!(self, "push rdx");
        }
        match self.chance.below(6) {
            0 | 1 => put!(self, "call f{f}"),
            2 => put!(self, "call [rip + table + {}]", 8 * f),
            3 => {
                let r = self.reg(8);
                put!(self, "lea {r}, [rip + f{f}]");
                put!(self, "call {r}");
            }
            4 => {
                let i = self.index();
                let (r, t) = (WIDE[i], if i == 0 { "rbx" } else { "rax" });
                put!(self, "lea {t}, [rip + table]");
                put!(self, "mov {}, {f}", DOUBLE[i]);
                put!(self, "call [{t} + {r} * 8]");
            }
            _ => {
                // A return that was never called.
                let back = self.label();
                put!(self, "push rsi");
                put!(self, "lea rsi, [rip + {back}]");
                put!(self, "xchg rsi, [rsp]");
                put!(self, "jmp [rip + table + {}]", 8 * f);
                let _ = writeln!(self.out, "{back}:");
            }
        }
    }
}
