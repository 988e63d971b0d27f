//! Where exceptions land: the call-site tables of `.gcc_except_table`.
//!
//! For each range of code that may throw, the table names the landing pad in the same function,
//! or none.

use gimli::{EndianSlice, LittleEndian, Reader as _};

use crate::module::Module;

/// A landing pad and the calls that lead there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pad {
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) pad: u64,
}

type Table<'a> = EndianSlice<'a, LittleEndian>;

/// A function with more call sites than this is damaged.
const MOST_SITES: usize = 1 << 16;

/// The landing pads of the frame description that covers an address.
pub(super) fn pads(module: &Module, pc: u64) -> Vec<Pad> {
    let found = || {
        let vaddr = module.vaddr(pc);
        let (start, table) = module.cfi()?.exception_table(vaddr)?;
        let bytes = module.contents.elf()?.at_vaddr(table)?;
        let table = EndianSlice::new(bytes.bytes(), LittleEndian);
        parse(table, start)
    };
    let mut pads = found().unwrap_or_default();
    for pad in &mut pads {
        pad.begin = module.pc(pad.begin);
        pad.end = module.pc(pad.end);
        pad.pad = module.pc(pad.pad);
    }
    pads
}

fn parse(mut table: Table<'_>, function: u64) -> Option<Vec<Pad>> {
    let base = match table.read_u8().ok()? {
        0xff => function,
        encoding => value(&mut table, encoding)?,
    };
    if table.read_u8().ok()? != 0xff {
        table.read_uleb128().ok()?;
    }
    let encoding = table.read_u8().ok()?;
    let length = usize::try_from(table.read_uleb128().ok()?).ok()?;
    let mut sites = table.split(length.min(table.len())).ok()?;
    let mut out = Vec::new();
    while !sites.is_empty() && out.len() < MOST_SITES {
        let begin = value(&mut sites, encoding)?;
        let size = value(&mut sites, encoding)?;
        let pad = value(&mut sites, encoding)?;
        sites.read_uleb128().ok()?;
        if pad != 0 {
            let begin = function.wrapping_add(begin);
            out.push(Pad {
                begin,
                end: begin.wrapping_add(size),
                pad: base.wrapping_add(pad),
            });
        }
    }
    Some(out)
}

/// A number in one of the plain encodings; what is relative to something is not used here.
fn value(table: &mut Table<'_>, encoding: u8) -> Option<u64> {
    match encoding & 0x0f {
        0x00 | 0x04 | 0x0c => table.read_u64().ok(),
        0x01 => table.read_uleb128().ok(),
        0x02 => table.read_u16().ok().map(u64::from),
        0x03 => table.read_u32().ok().map(u64::from),
        0x09 => table.read_sleb128().ok().map(|v| v as u64),
        0x0a => table.read_i16().ok().map(|v| v as u64),
        0x0b => table.read_i32().ok().map(|v| v as u64),
        _ => None,
    }
}
