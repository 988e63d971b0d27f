//! The register file as a row of bytes.
//!
//! Analyses keep something per byte of machine state. One numbering for all registers lets them
//! use one array: `al` is a part of `eax` because its bytes are, and no table of overlaps is
//! needed. A flag takes a byte of its own, since instructions set flags one by one.
//!
//! The x87 stack is numbered from its top: `st0` is a place, and a push moves every register to
//! the next place. The physical numbers depend on a pointer that no instruction spells out.
//! `mm0` lies in `st0`, which is true while the stack is empty, as it is around MMX code.

use std::fmt;

use iced_x86::Register;

/// Some bytes of the register file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegRange {
    pub at: u16,
    pub len: u16,
}

/// Bytes in the register file.
pub const SIZE: u16 = 2432;

const FLAGS_AT: u16 = 128;
const SEGMENTS_AT: u16 = 136;
const MASKS_AT: u16 = 192;
const VECTORS_AT: u16 = 256;
const STACK_AT: u16 = 2304;

/// Bytes that belong to one vector register.
pub const VECTOR: u16 = 64;
/// Distance between two registers of the x87 stack, of which ten bytes are used.
pub const X87: u16 = 16;

const fn range(at: u16, len: u16) -> RegRange {
    RegRange { at, len }
}

pub const RAX: RegRange = RegRange::general(0);
pub const RCX: RegRange = RegRange::general(1);
pub const RDX: RegRange = RegRange::general(2);
pub const RBX: RegRange = RegRange::general(3);
pub const RSP: RegRange = RegRange::general(4);
pub const RBP: RegRange = RegRange::general(5);
pub const RSI: RegRange = RegRange::general(6);
pub const RDI: RegRange = RegRange::general(7);
pub const R11: RegRange = RegRange::general(11);

pub const CF: RegRange = range(FLAGS_AT, 1);
pub const PF: RegRange = range(FLAGS_AT + 1, 1);
pub const AF: RegRange = range(FLAGS_AT + 2, 1);
pub const ZF: RegRange = range(FLAGS_AT + 3, 1);
pub const SF: RegRange = range(FLAGS_AT + 4, 1);
pub const OF: RegRange = range(FLAGS_AT + 5, 1);
pub const DF: RegRange = range(FLAGS_AT + 6, 1);
/// The other flags that a program can set: AC and ID.
pub const OTHER_FLAGS: RegRange = range(FLAGS_AT + 7, 1);
/// CF, PF, AF, ZF, SF, OF.
pub const ARITHMETIC: RegRange = range(FLAGS_AT, 6);
pub const FLAGS: RegRange = range(FLAGS_AT, 8);

/// Rounding, masks, flushing to zero: what floating point arithmetic obeys.
pub const MXCSR_CONTROL: RegRange = range(148, 1);
/// The exceptions that floating point arithmetic has seen.
pub const MXCSR_FLAGS: RegRange = range(149, 1);
pub const X87_CONTROL: RegRange = range(150, 2);
/// The exceptions that x87 instructions have seen.
pub const X87_EXCEPTIONS: RegRange = range(152, 1);
/// C0 to C3. The pointer to the top of the stack is not modelled.
pub const X87_CONDITION: RegRange = range(153, 1);
pub const FS_BASE: RegRange = range(176, 8);
pub const GS_BASE: RegRange = range(184, 8);
pub const X87_STACK: RegRange = range(STACK_AT, 8 * X87);
pub const MASKS: RegRange = range(MASKS_AT, 64);
pub const VECTORS: RegRange = range(VECTORS_AT, 32 * VECTOR);

const GENERAL: [&str; 16] = [
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15",
];
const FLAG_NAMES: [&str; 8] = ["cf", "pf", "af", "zf", "sf", "of", "df", "ac"];
const SEGMENTS: [&str; 6] = ["es", "cs", "ss", "ds", "fs", "gs"];
const SINGLE: [(&str, RegRange); 11] = [
    ("eflags", FLAGS),
    ("flags", ARITHMETIC),
    ("mxcsr", range(148, 2)),
    ("mxcsr.control", MXCSR_CONTROL),
    ("mxcsr.flags", MXCSR_FLAGS),
    ("fctrl", X87_CONTROL),
    ("fstat", range(152, 2)),
    ("fstat.exceptions", X87_EXCEPTIONS),
    ("fstat.condition", X87_CONDITION),
    ("fs_base", FS_BASE),
    ("gs_base", GS_BASE),
];

impl RegRange {
    /// A general register by its hardware number.
    pub const fn general(number: u16) -> RegRange {
        range(8 * number, 8)
    }

    /// All bytes that belong to a vector register.
    pub const fn vector(number: u16) -> RegRange {
        range(VECTORS_AT + VECTOR * number, VECTOR)
    }

    pub const fn mask(number: u16) -> RegRange {
        range(MASKS_AT + 8 * number, 8)
    }

    /// A register of the x87 stack, from the top.
    pub const fn x87(number: u16) -> RegRange {
        range(STACK_AT + X87 * number, 10)
    }

    pub const fn end(self) -> u16 {
        self.at + self.len
    }

    /// `len` bytes from the byte `at` of this range on.
    pub const fn part(self, at: u16, len: u16) -> RegRange {
        range(self.at + at, len)
    }

    pub const fn contains(self, byte: u16) -> bool {
        self.at <= byte && byte < self.end()
    }

    pub const fn overlaps(self, other: RegRange) -> bool {
        self.at < other.end() && other.at < self.end()
    }

    /// The hardware number of the general register that this is in.
    pub const fn general_number(self) -> Option<u16> {
        if self.at < FLAGS_AT {
            Some(self.at / 8)
        } else {
            None
        }
    }

    /// The number of the vector register that this is in.
    pub const fn vector_number(self) -> Option<u16> {
        if VECTORS.contains(self.at) {
            Some((self.at - VECTORS_AT) / VECTOR)
        } else {
            None
        }
    }

    /// Where a register is. Control and debug registers are none of a program's, and the
    /// instruction pointer is known.
    pub fn of(register: Register) -> Option<RegRange> {
        let number = register.number() as u16;
        if register.is_gpr() {
            let whole = RegRange::general(register.full_register().number() as u16);
            let high = matches!(
                register,
                Register::AH | Register::CH | Register::DH | Register::BH
            );
            return Some(whole.part(u16::from(high), register.size() as u16));
        }
        match register {
            r if r.is_vector_register() => Some(RegRange::vector(number).part(0, r.size() as u16)),
            r if r.is_k() => Some(RegRange::mask(number)),
            r if r.is_st() => Some(RegRange::x87(number)),
            r if r.is_mm() => Some(RegRange::x87(number).part(0, 8)),
            r if r.is_segment_register() => Some(range(SEGMENTS_AT + 2 * number, 2)),
            _ => None,
        }
    }

    /// The place that a name stands for: `eax`, `ah`, `zf`, `xmm3`, `st1`, `rax.2+1`.
    pub fn parse(name: &str) -> Option<RegRange> {
        let name = name
            .trim()
            .trim_start_matches(['$', '%'])
            .to_ascii_lowercase();
        if let Some((whole, part)) = name.rsplit_once('.')
            && let Some((at, len)) = part.split_once('+')
        {
            let whole = RegRange::parse(whole)?;
            let (at, len) = (at.parse::<u16>().ok()?, len.parse::<u16>().ok()?);
            return (len > 0 && at.checked_add(len)? <= whole.len).then(|| whole.part(at, len));
        }
        if let Some((_, known)) = SINGLE.iter().find(|(n, _)| *n == name) {
            return Some(*known);
        }
        if let Some(flag) = FLAG_NAMES.iter().position(|n| *n == name) {
            return Some(FLAGS.part(flag as u16, 1));
        }
        if let Some(segment) = SEGMENTS.iter().position(|n| *n == name) {
            return Some(range(SEGMENTS_AT + 2 * segment as u16, 2));
        }
        for number in 0..16 {
            let whole = RegRange::general(number);
            let lengths = [8, 4, 2, 1].into_iter();
            for part in lengths.map(|l| whole.part(0, l)).chain([whole.part(1, 1)]) {
                if part.spelling().is_some_and(|s| s == name) {
                    return Some(part);
                }
            }
        }
        let digits = name.find(|c: char| c.is_ascii_digit())?;
        let (kind, number) = name.split_at(digits);
        let number: u16 = number.parse().ok()?;
        match kind {
            "xmm" if number < 32 => Some(RegRange::vector(number).part(0, 16)),
            "ymm" if number < 32 => Some(RegRange::vector(number).part(0, 32)),
            "zmm" if number < 32 => Some(RegRange::vector(number)),
            "k" if number < 8 => Some(RegRange::mask(number)),
            "st" if number < 8 => Some(RegRange::x87(number)),
            "mm" if number < 8 => Some(RegRange::x87(number).part(0, 8)),
            _ => None,
        }
    }

    /// The name of exactly this range, if it has one.
    fn spelling(self) -> Option<String> {
        if let Some((name, _)) = SINGLE.iter().find(|(_, r)| *r == self) {
            return Some((*name).to_owned());
        }
        if FLAGS.contains(self.at) && self.len == 1 {
            return Some(FLAG_NAMES[usize::from(self.at - FLAGS_AT)].to_owned());
        }
        let segments = range(SEGMENTS_AT, 12);
        if segments.contains(self.at) && self.len == 2 && self.at.is_multiple_of(2) {
            return Some(SEGMENTS[usize::from(self.at - SEGMENTS_AT) / 2].to_owned());
        }
        if let Some(number) = self.general_number() {
            return general_name(number, self.at % 8, self.len);
        }
        let numbered = |prefix: &str, number: u16| Some(format!("{prefix}{number}"));
        if let Some(number) = self.vector_number() {
            let at = self.at - RegRange::vector(number).at;
            return match (at, self.len) {
                (0, 16) => numbered("xmm", number),
                (0, 32) => numbered("ymm", number),
                (0, 64) => numbered("zmm", number),
                _ => None,
            };
        }
        if MASKS.contains(self.at) && self.len == 8 && self.at.is_multiple_of(8) {
            return numbered("k", (self.at - MASKS_AT) / 8);
        }
        if X87_STACK.contains(self.at) && self.at.is_multiple_of(X87) {
            let number = (self.at - STACK_AT) / X87;
            return match self.len {
                10 => numbered("st", number),
                8 => numbered("mm", number),
                _ => None,
            };
        }
        None
    }

    /// A name that [`RegRange::parse`] takes back.
    pub fn name(self) -> String {
        if let Some(name) = self.spelling() {
            return name;
        }
        let whole = match (self.general_number(), self.vector_number()) {
            (Some(number), _) => RegRange::general(number),
            (_, Some(number)) => RegRange::vector(number),
            _ if X87_STACK.contains(self.at) => RegRange::x87((self.at - STACK_AT) / X87),
            _ if MASKS.contains(self.at) => RegRange::mask((self.at - MASKS_AT) / 8),
            _ => return format!("bytes {}+{}", self.at, self.len),
        };
        match whole.spelling() {
            Some(name) => format!("{name}.{}+{}", self.at - whole.at, self.len),
            None => format!("bytes {}+{}", self.at, self.len),
        }
    }
}

fn general_name(number: u16, at: u16, len: u16) -> Option<String> {
    let wide = GENERAL[usize::from(number)];
    let letters = &wide[1..];
    let name = match (at, len, number) {
        (0, 8, _) => wide.to_owned(),
        (0, 4, 0..8) => format!("e{letters}"),
        (0, 2, 0..8) => letters.to_owned(),
        (0, 1, 0..4) => format!("{}l", &letters[..1]),
        (1, 1, 0..4) => format!("{}h", &letters[..1]),
        (0, 1, 4..8) => format!("{letters}l"),
        (0, 4, _) => format!("{wide}d"),
        (0, 2, _) => format!("{wide}w"),
        (0, 1, _) => format!("{wide}b"),
        _ => return None,
    };
    Some(name)
}

impl fmt::Debug for RegRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl fmt::Display for RegRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}
