//! Names for the stubs of the procedure linkage table.
//!
//! A call into a shared library goes through a stub that no symbol table lists. A crash inside
//! one, or a step into one, would otherwise show a bare offset. Each stub jumps through a slot of
//! the global offset table, and the relocation of that slot names the target, so the stub is
//! `puts@plt` whatever the order and the flavour of the table (`.plt`, `.plt.sec`, `.plt.got`).

use std::collections::HashMap;

use object::elf;
use object::read::elf::{Rela as _, SectionHeader as _};

use crate::elf::{ENDIAN, Elf, Warnings};
use crate::symbols::dynamic_name;

/// Address, size and name of every stub.
pub(crate) fn entries(elf: &Elf, warnings: &Warnings) -> Vec<(u64, u64, String)> {
    let names = slots(elf);
    if names.is_empty() {
        return Vec::new();
    }
    let mut out = Vec::new();
    for section in [".plt", ".plt.sec", ".plt.got"] {
        let Some(place) = elf.section(section) else {
            continue;
        };
        let code = elf.contents(section, warnings);
        let code = code.bytes();
        let mut at = 0;
        let mut start = 0;
        while at + 6 <= code.len() {
            // `jmp *slot(%rip)`, perhaps behind `endbr64` and a `bnd` prefix.
            if code[at] == 0xff && code[at + 1] == 0x25 {
                let displacement = [code[at + 2], code[at + 3], code[at + 4], code[at + 5]];
                let next = place.vaddr.wrapping_add(at as u64 + 6);
                let slot = next.wrapping_add_signed(i64::from(i32::from_le_bytes(displacement)));
                let size = if section == ".plt.got" && code[start..at].is_empty() {
                    8
                } else {
                    16
                };
                if let Some(name) = names.get(&slot) {
                    let vaddr = place.vaddr.wrapping_add(start as u64);
                    out.push((vaddr, size, format!("{name}@plt")));
                }
                start += size as usize;
                at = start;
            } else {
                at += 1;
                if at >= start + 16 {
                    start += 16;
                    at = start;
                }
            }
        }
    }
    out
}

/// The global offset table slots the dynamic linker fills with a named function.
fn slots(elf: &Elf) -> HashMap<u64, String> {
    let mut out = HashMap::new();
    let Ok(object) = elf.object() else {
        return out;
    };
    let endian = ENDIAN;
    let data = object.data();
    for section in object.elf_section_table().iter() {
        let Ok(Some((relocations, _))) = section.rela(endian, data) else {
            continue;
        };
        for relocation in relocations {
            let kind = relocation.r_type(endian, false);
            if kind != elf::R_X86_64_JUMP_SLOT && kind != elf::R_X86_64_GLOB_DAT {
                continue;
            }
            if let Some(name) = dynamic_name(&object, relocation.r_sym(endian, false)) {
                out.insert(relocation.r_offset(endian), name);
            }
        }
    }
    out
}
