//! The registers, in the order in which the target description has them.
//!
//! The general ones come from the engine as the kernel has them, the others as XSAVE lays them out.

use std::fmt::Write;
use std::num::NonZeroUsize;

use case::UserRegs;
use gdbstub::arch::{Arch, RegId, Registers};

/// Where XSAVE keeps things.
mod xsave {
    pub(super) const ST: usize = 32;
    pub(super) const XMM: usize = 160;
    pub(super) const MXCSR: usize = 24;
    pub(super) const PRESENT: usize = 512;
    pub(super) const YMM_HIGH: usize = 576;
    pub(super) const WITH_AVX: usize = YMM_HIGH + 256;
    /// The parts of AVX-512: masks, upper halves of the first sixteen, all of the other sixteen.
    pub(super) const WIDE: [u32; 3] = [5, 6, 7];
    pub(super) const WIDE_SIZES: [usize; 3] = [8 * 8, 16 * 32, 16 * 64];
}

/// Where this processor has the parts of AVX-512 in an XSAVE area of this length, if it has them.
fn wide_parts(area: usize) -> Option<[usize; 3]> {
    use std::arch::x86_64::__cpuid_count;
    let supported = __cpuid_count(0xd, 0).eax;
    let mut out = [0; 3];
    for (i, part) in xsave::WIDE.into_iter().enumerate() {
        out[i] = __cpuid_count(0xd, part).ebx as usize;
        if supported >> part & 1 == 0 || out[i] + xsave::WIDE_SIZES[i] > area {
            return None;
        }
    }
    Some(out)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The n-th of `general`, this many bytes of it.
    General(usize),
    /// Bytes of the XSAVE area.
    Area(usize),
    ControlWord,
    StatusWord,
    TagWord,
    /// The x87's last instruction, operand and operation: offset and shift in the area.
    Last(usize, u32),
    OrigRax,
}

#[derive(Clone, Debug)]
struct Register {
    name: String,
    /// As the target description spells it.
    kind: &'static str,
    feature: &'static str,
    size: usize,
    place: Place,
}

const GENERAL: [&str; 24] = [
    "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15", "rip", "eflags", "cs", "ss", "ds", "es", "fs", "gs",
];
/// Of `GENERAL` and, behind them, the two bases.
const RIP: usize = 16;
/// So many of them come before the segments.
const COMPUTES: usize = 18;
const FS_BASE: usize = 24;

fn general(r: &mut UserRegs) -> [&mut u64; 26] {
    [
        &mut r.rax,
        &mut r.rbx,
        &mut r.rcx,
        &mut r.rdx,
        &mut r.rsi,
        &mut r.rdi,
        &mut r.rbp,
        &mut r.rsp,
        &mut r.r8,
        &mut r.r9,
        &mut r.r10,
        &mut r.r11,
        &mut r.r12,
        &mut r.r13,
        &mut r.r14,
        &mut r.r15,
        &mut r.rip,
        &mut r.eflags,
        &mut r.cs,
        &mut r.ss,
        &mut r.ds,
        &mut r.es,
        &mut r.fs,
        &mut r.gs,
        &mut r.fs_base,
        &mut r.gs_base,
    ]
}

fn list(avx: bool, wide: Option<[usize; 3]>) -> Vec<Register> {
    let mut out = Vec::new();
    let mut add = |name: String, kind, feature, size, place| {
        out.push(Register {
            name,
            kind,
            feature,
            size,
            place,
        });
    };
    for (i, name) in GENERAL.iter().enumerate() {
        let (kind, size) = match i {
            6 | 7 => ("data_ptr", 8),
            RIP => ("code_ptr", 8),
            17 => ("i386_eflags", 4),
            18.. => ("int32", 4),
            _ => ("int64", 8),
        };
        add((*name).to_owned(), kind, "core", size, Place::General(i));
    }
    for i in 0..8 {
        let at = xsave::ST + 16 * i;
        add(format!("st{i}"), "i387_ext", "core", 10, Place::Area(at));
    }
    let control = [
        ("fctrl", Place::ControlWord),
        ("fstat", Place::StatusWord),
        ("ftag", Place::TagWord),
        ("fiseg", Place::Last(8, 32)),
        ("fioff", Place::Last(8, 0)),
        ("foseg", Place::Last(16, 32)),
        ("fooff", Place::Last(16, 0)),
        ("fop", Place::Last(6, 0)),
    ];
    for (name, place) in control {
        add(name.to_owned(), "int", "core", 4, place);
    }
    for i in 0..16 {
        let at = xsave::XMM + 16 * i;
        add(format!("xmm{i}"), "vec128", "sse", 16, Place::Area(at));
    }
    add(
        "mxcsr".to_owned(),
        "i386_mxcsr",
        "sse",
        4,
        Place::Area(xsave::MXCSR),
    );
    add("orig_rax".to_owned(), "int", "linux", 8, Place::OrigRax);
    for (i, name) in ["fs_base", "gs_base"].into_iter().enumerate() {
        let place = Place::General(FS_BASE + i);
        add(name.to_owned(), "int64", "segments", 8, place);
    }
    if avx {
        for i in 0..16 {
            let at = xsave::YMM_HIGH + 16 * i;
            add(format!("ymm{i}h"), "uint128", "avx", 16, Place::Area(at));
        }
    }
    if let Some([masks, upper, others]) = wide {
        let mut add = |name: String, kind, size, at| {
            add(name, kind, "avx512", size, Place::Area(at));
        };
        for i in 0..16 {
            add(format!("xmm{}", i + 16), "vec128", 16, others + 64 * i);
        }
        for i in 0..16 {
            let at = others + 64 * i + 16;
            add(format!("ymm{}h", i + 16), "uint128", 16, at);
        }
        for i in 0..8 {
            add(format!("k{i}"), "uint64", 8, masks + 8 * i);
        }
        for i in 0..32 {
            let at = match i {
                0..16 => upper + 32 * i,
                _ => others + 64 * (i - 16) + 32,
            };
            add(format!("zmm{i}h"), "v2ui128", 32, at);
        }
    }
    out
}

/// The registers that gdb is told of.
pub(crate) struct Layout {
    list: Vec<Register>,
    /// The parts of the XSAVE area that it knows, as its header counts them.
    parts: u8,
}

impl Layout {
    /// For a machine whose XSAVE area is this long.
    pub(crate) fn new(area: usize) -> Self {
        Layout::with(area >= xsave::WITH_AVX, wide_parts(area))
    }

    fn with(avx: bool, wide: Option<[usize; 3]>) -> Self {
        let more = wide.map_or(0, |_| xsave::WIDE.iter().fold(0, |all, n| all | 1 << n));
        Layout {
            list: list(avx, wide),
            parts: if avx { 7 } else { 3 } | more,
        }
    }

    pub(crate) fn description(&self) -> String {
        let mut out = String::from(
            "<?xml version=\"1.0\"?><!DOCTYPE target SYSTEM \"gdb-target.dtd\"><target>\
             <architecture>i386:x86-64</architecture><osabi>GNU/Linux</osabi>",
        );
        let mut feature = "";
        for (n, r) in self.list.iter().enumerate() {
            if r.feature != feature {
                let end = if feature.is_empty() { "" } else { "</feature>" };
                let _ = write!(
                    out,
                    "{end}<feature name=\"org.gnu.gdb.i386.{}\">{}",
                    r.feature,
                    types(r.feature)
                );
                feature = r.feature;
            }
            let _ = write!(
                out,
                "<reg name=\"{}\" bitsize=\"{}\" type=\"{}\" regnum=\"{n}\"/>",
                r.name,
                r.size * 8,
                r.kind
            );
        }
        out.push_str("</feature></target>");
        out
    }

    /// The registers that code computes with, as a stop reply has them: `number:bytes;` for each.
    pub(crate) fn general(&self, regs: &UserRegs) -> String {
        let digit = |n: u8| char::from(b"0123456789abcdef"[usize::from(n & 15)]);
        let mut out = String::with_capacity(512);
        for (n, r) in self.list.iter().enumerate().take(COMPUTES) {
            let Some(value) = self.general_value(n, regs) else {
                continue;
            };
            let _ = write!(out, "{n:x}:");
            for b in &value.to_le_bytes()[..r.size] {
                out.extend([digit(b >> 4), digit(*b)]);
            }
            out.push(';');
        }
        out
    }

    /// One of the general registers.
    pub(crate) fn general_value(&self, n: usize, regs: &UserRegs) -> Option<u64> {
        let Place::General(i) = self.list.get(n)?.place else {
            return None;
        };
        Some(*general(&mut regs.clone())[i])
    }

    /// One register's bytes.
    pub(crate) fn get(&self, n: usize, regs: &UserRegs, area: &[u8]) -> Option<Vec<u8>> {
        let r = self.list.get(n)?;
        let mut regs = *regs;
        let word = |at: usize, len: usize| {
            let mut w = [0; 8];
            if let Some(b) = area.get(at..at + len) {
                w[..len].copy_from_slice(b);
            }
            u64::from_le_bytes(w)
        };
        let value = match r.place {
            Place::Area(at) => {
                let mut bytes = vec![0; r.size];
                if let Some(b) = area.get(at..at + r.size) {
                    bytes.copy_from_slice(b);
                }
                return Some(bytes);
            }
            Place::General(i) => *general(&mut regs)[i],
            Place::OrigRax => regs.orig_rax,
            Place::ControlWord => word(0, 2),
            Place::StatusWord => word(2, 2),
            Place::TagWord => tags(area),
            Place::Last(6, _) => word(6, 2) & 0x7ff,
            Place::Last(at, 32) => word(at + 4, 2),
            Place::Last(at, _) => word(at, 4),
        };
        Some(value.to_le_bytes()[..r.size].to_vec())
    }

    /// Sets one register; true if it is in the XSAVE area.
    pub(crate) fn set(
        &self,
        n: usize,
        bytes: &[u8],
        regs: &mut UserRegs,
        area: &mut [u8],
    ) -> Option<bool> {
        let r = self.list.get(n)?;
        let bytes = bytes.get(..r.size)?;
        let mut word = [0; 8];
        let short = r.size.min(8);
        word[..short].copy_from_slice(&bytes[..short]);
        let value = u64::from_le_bytes(word);
        let mut put = |at: usize, b: &[u8]| {
            if let Some(to) = area.get_mut(at..at + b.len()) {
                to.copy_from_slice(b);
            }
        };
        match r.place {
            Place::General(i) => {
                *general(regs)[i] = value;
                return Some(false);
            }
            Place::OrigRax => return Some(false),
            Place::Area(at) => put(at, bytes),
            Place::ControlWord => put(0, &bytes[..2]),
            Place::StatusWord => put(2, &bytes[..2]),
            Place::TagWord => {
                let used = (0..8).filter(|i| value >> (2 * i) & 3 != 3);
                put(4, &[used.fold(0u8, |all, i| all | 1 << i)]);
            }
            Place::Last(at @ 6, _) => put(at, &bytes[..2]),
            Place::Last(at, 32) => put(at + 4, &bytes[..2]),
            Place::Last(at, _) => put(at, &bytes[..4]),
        }
        // The parts that are no longer in their initial state.
        if let Some(present) = area.get_mut(xsave::PRESENT) {
            *present |= self.parts;
        }
        Some(true)
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn size(&self, n: usize) -> usize {
        self.list.get(n).map_or(0, |r| r.size)
    }
}

/// The x87's tag word, of which XSAVE keeps only whether a register is in use.
fn tags(area: &[u8]) -> u64 {
    let used = area.get(4).copied().unwrap_or(0);
    let top = area.get(3).map_or(0, |b| b >> 3 & 7);
    let mut out = 0;
    for physical in 0..8u8 {
        let tag = if used >> physical & 1 == 0 {
            3
        } else {
            let st = usize::from((physical.wrapping_sub(top)) & 7);
            let at = xsave::ST + 16 * st;
            let bytes = area.get(at..at + 10).unwrap_or(&[0; 10]);
            let exponent = u16::from_le_bytes([bytes[8], bytes[9]]) & 0x7fff;
            let mantissa = u64::from_le_bytes(bytes[..8].try_into().unwrap_or([0; 8]));
            match (exponent, mantissa) {
                (0, 0) => 1,
                (0 | 0x7fff, _) => 2,
                (_, m) if m >> 63 == 0 => 2,
                _ => 0,
            }
        };
        out |= tag << (2 * physical);
    }
    out
}

fn types(feature: &str) -> String {
    match feature {
        "core" => FLAGS.to_owned(),
        "sse" => format!("{VECTORS}{MXCSR}"),
        "avx512" => format!("{VECTORS}{PAIR}"),
        _ => String::new(),
    }
}

const FLAGS: &str = r#"<flags id="i386_eflags" size="4"><field name="CF" start="0" end="0"/><field name="" start="1" end="1"/><field name="PF" start="2" end="2"/><field name="AF" start="4" end="4"/><field name="ZF" start="6" end="6"/><field name="SF" start="7" end="7"/><field name="TF" start="8" end="8"/><field name="IF" start="9" end="9"/><field name="DF" start="10" end="10"/><field name="OF" start="11" end="11"/><field name="NT" start="14" end="14"/><field name="RF" start="16" end="16"/><field name="VM" start="17" end="17"/><field name="AC" start="18" end="18"/><field name="VIF" start="19" end="19"/><field name="VIP" start="20" end="20"/><field name="ID" start="21" end="21"/></flags>"#;
const VECTORS: &str = r#"<vector id="v8bf16" type="bfloat16" count="8"/><vector id="v8h" type="ieee_half" count="8"/><vector id="v4f" type="ieee_single" count="4"/><vector id="v2d" type="ieee_double" count="2"/><vector id="v16i8" type="int8" count="16"/><vector id="v8i16" type="int16" count="8"/><vector id="v4i32" type="int32" count="4"/><vector id="v2i64" type="int64" count="2"/><union id="vec128"><field name="v8_bfloat16" type="v8bf16"/><field name="v8_half" type="v8h"/><field name="v4_float" type="v4f"/><field name="v2_double" type="v2d"/><field name="v16_int8" type="v16i8"/><field name="v8_int16" type="v8i16"/><field name="v4_int32" type="v4i32"/><field name="v2_int64" type="v2i64"/><field name="uint128" type="uint128"/></union>"#;
const MXCSR: &str = r#"<flags id="i386_mxcsr" size="4"><field name="IE" start="0" end="0"/><field name="DE" start="1" end="1"/><field name="ZE" start="2" end="2"/><field name="OE" start="3" end="3"/><field name="UE" start="4" end="4"/><field name="PE" start="5" end="5"/><field name="DAZ" start="6" end="6"/><field name="IM" start="7" end="7"/><field name="DM" start="8" end="8"/><field name="ZM" start="9" end="9"/><field name="OM" start="10" end="10"/><field name="UM" start="11" end="11"/><field name="PM" start="12" end="12"/><field name="FZ" start="15" end="15"/></flags>"#;
const PAIR: &str = r#"<vector id="v2ui128" type="uint128" count="2"/>"#;

/// All registers of a thread, as gdb sends and gets them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct All {
    pub(crate) bytes: Vec<u8>,
}

impl Registers for All {
    type ProgramCounter = u64;

    fn pc(&self) -> u64 {
        let at = 8 * RIP;
        let bytes = self.bytes.get(at..at + 8).and_then(|b| b.try_into().ok());
        u64::from_le_bytes(bytes.unwrap_or_default())
    }

    fn gdb_serialize(&self, write_byte: impl FnMut(Option<u8>)) {
        self.bytes.iter().copied().map(Some).for_each(write_byte);
    }

    fn gdb_deserialize(&mut self, bytes: &[u8]) -> Result<(), ()> {
        self.bytes = bytes.to_vec();
        Ok(())
    }
}

/// The number of a register in the target description.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number(pub(crate) usize);

impl RegId for Number {
    fn from_raw_id(id: usize) -> Option<(Self, Option<NonZeroUsize>)> {
        Some((Number(id), None))
    }

    fn to_raw_id(&self) -> Option<usize> {
        Some(self.0)
    }
}

pub(crate) enum X86 {}

impl Arch for X86 {
    type Usize = u64;
    type Registers = All;
    type BreakpointKind = usize;
    type RegId = Number;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// gdb takes the description, and puts the parts together.
    #[test]
    fn gdb_understands_the_description() {
        let layout = Layout::with(true, Some([1088, 1152, 1664]));
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("target.xml");
        std::fs::write(&file, layout.description()).expect("a file");
        let ran = std::process::Command::new("gdb")
            .args(["-nx", "-q", "-batch", "-ex"])
            .arg(format!("set tdesc filename {}", file.display()))
            .args([
                "-ex",
                "ptype $zmm31",
                "-ex",
                "ptype $ymm17",
                "-ex",
                "ptype $k7",
            ])
            .args(["-ex", "print sizeof($zmm0)", "-ex", "print sizeof($xmm16)"])
            .output()
            .expect("this test needs gdb");
        let said = String::from_utf8_lossy(&ran.stdout);
        for part in ["vec512", "vec256", "uint64_t", "$1 = 64", "$2 = 16"] {
            assert!(
                said.contains(part),
                "no {part} in {said}{}",
                String::from_utf8_lossy(&ran.stderr)
            );
        }
    }

    /// No register lies over another, and together they fill the parts of AVX-512.
    #[test]
    fn registers_have_places_of_their_own() {
        let layout = Layout::with(true, Some([1088, 1152, 1664]));
        let mut places: Vec<(usize, usize)> = Vec::new();
        for r in &layout.list {
            if let Place::Area(at) = r.place {
                places.push((at, r.size));
            }
        }
        places.sort_unstable();
        for pair in places.windows(2) {
            assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{pair:?}");
        }
        let wide = places.iter().filter(|(at, _)| *at >= 1088);
        let bytes: usize = wide.map(|(_, size)| size).sum();
        assert_eq!(bytes, xsave::WIDE_SIZES.iter().sum::<usize>());
        assert_eq!(layout.parts, 0xe7);
    }
}
