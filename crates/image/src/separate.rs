//! Debug information that lives outside the program.
//!
//! Distributions strip programs and ship the debug information apart, to be found by build id or
//! by the name in `.gnu_debuglink`. Compilers may leave it in `.dwo` files beside the objects, or
//! gathered in one `.dwp`. Each is looked for where its producer puts it, and used only if it
//! proves to belong to the program: a stale debug file gives confident wrong answers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gimli::Section as _;
use object::Object as _;

use crate::elf::{Bytes, Elf, Warnings, empty};
use crate::error::Error;

const DEBUG_ROOT: &str = "/usr/lib/debug";

pub(crate) type Dwarf = gimli::Dwarf<Bytes>;

/// The separate debug file of a program, if one is installed.
pub(crate) fn find(elf: &Elf, warnings: &Warnings) -> Option<Elf> {
    let object = elf.object().ok()?;
    if let Ok(Some(id)) = object.build_id()
        && let Some((first, rest)) = id.split_first()
        && !rest.is_empty()
    {
        let rest: String = rest.iter().map(|b| format!("{b:02x}")).collect();
        let path = format!("{DEBUG_ROOT}/.build-id/{first:02x}/{rest}.debug");
        if let Some(found) = open(Path::new(&path), warnings) {
            return Some(found);
        }
    }
    let (link, crc) = object.gnu_debuglink().ok()??;
    let link = String::from_utf8_lossy(link).into_owned();
    let mut candidates = Vec::new();
    if let Some(directory) = elf.path.parent() {
        candidates.push(directory.join(&link));
        candidates.push(directory.join(".debug").join(&link));
        if let Ok(below) = directory.strip_prefix("/") {
            candidates.push(Path::new(DEBUG_ROOT).join(below).join(&link));
        }
    }
    for path in candidates {
        let Ok(data) = std::fs::read(&path) else {
            continue;
        };
        if crc32(&data) != crc {
            warnings.add(Error::Missing {
                file: elf.path.clone(),
                wanted: format!("the debug file {link} of this build"),
                advice: "the one on disk belongs to another build",
            });
            continue;
        }
        match Elf::parse(&path, data.into()) {
            Ok(found) => return Some(found),
            Err(error) => warnings.add(error),
        }
    }
    None
}

fn open(path: &Path, warnings: &Warnings) -> Option<Elf> {
    if !path.is_file() {
        return None;
    }
    Elf::open(path).map_err(|error| warnings.add(error)).ok()
}

/// The checksum `.gnu_debuglink` carries, one bit at a time: it runs once per stripped program.
fn crc32(data: &[u8]) -> u32 {
    let mut table = [0u32; 256];
    for (byte, slot) in (0u32..).zip(table.iter_mut()) {
        *slot = (0..8).fold(byte, |crc, _| {
            if crc & 1 != 0 {
                (crc >> 1) ^ 0xedb8_8320
            } else {
                crc >> 1
            }
        });
    }
    !data.iter().fold(!0u32, |crc, byte| {
        (crc >> 8) ^ table[((crc ^ u32::from(*byte)) & 0xff) as usize]
    })
}

/// The entries of a unit that were split off, read from its `.dwo` or from the program's `.dwp`.
pub(crate) struct Split {
    pub(crate) dwarf: Arc<Dwarf>,
    pub(crate) unit: gimli::Unit<Bytes>,
}

/// Finds and reads what a skeleton unit points to.
pub(crate) fn split_unit(
    skeleton: &gimli::Unit<Bytes>,
    parent: &Dwarf,
    program: &Path,
    warnings: &Warnings,
) -> Option<Split> {
    let id = skeleton.dwo_id?;
    let name = skeleton.dwo_name().ok()??;
    let name = parent.attr_string(skeleton, name).ok()?;
    let name = text(&name);
    let missing = || Error::Missing {
        file: program.to_path_buf(),
        wanted: format!("the split debug information {name}"),
        advice: "keep the .dwo files, or build a .dwp, for lines of inlined calls and variables",
    };

    let mut package = program.as_os_str().to_owned();
    package.push(".dwp");
    if let Some(elf) = open(Path::new(&package), warnings) {
        let load = |section: gimli::SectionId| -> Result<Bytes, gimli::Error> {
            Ok(section
                .dwo_name()
                .map_or_else(empty, |n| elf.contents(n, warnings)))
        };
        let found = gimli::DwarfPackage::load(load, empty())
            .and_then(|package| package.find_cu(id, parent));
        match found {
            Ok(Some(dwarf)) => return first_unit(dwarf, skeleton),
            Ok(None) => {}
            Err(error) => warnings.add(elf.damaged("the debug package", error)),
        }
    }

    let compiled_in = skeleton.comp_dir.as_ref().map(text).unwrap_or_default();
    let mut candidates = vec![PathBuf::from(compiled_in).join(&name)];
    if let (Some(directory), Some(file)) = (program.parent(), Path::new(&name).file_name()) {
        candidates.push(directory.join(file));
    }
    for path in candidates {
        let Some(elf) = open(&path, warnings) else {
            continue;
        };
        let load = |section: gimli::SectionId| -> Result<Bytes, gimli::Error> {
            Ok(section
                .dwo_name()
                .map_or_else(empty, |n| elf.contents(n, warnings)))
        };
        let Ok(mut dwarf) = Dwarf::load(load) else {
            continue;
        };
        dwarf.make_dwo(parent);
        match first_unit(dwarf, skeleton) {
            Some(split) if split.unit.dwo_id == Some(id) => return Some(split),
            _ => continue,
        }
    }
    warnings.add(missing());
    None
}

fn first_unit(dwarf: Dwarf, skeleton: &gimli::Unit<Bytes>) -> Option<Split> {
    let mut headers = dwarf.units();
    while let Ok(Some(header)) = headers.next() {
        if matches!(header.type_(), gimli::UnitType::SplitType { .. }) {
            continue;
        }
        let mut unit = dwarf.unit(header).ok()?;
        unit.copy_relocated_attributes(skeleton);
        return Some(Split {
            dwarf: Arc::new(dwarf),
            unit,
        });
    }
    None
}

/// The sections of a file as DWARF. Nothing is read until a question needs it, except that
/// compressed sections are expanded here.
pub(crate) fn dwarf_of(elf: &Elf, warnings: &Warnings) -> Dwarf {
    let load = |section: gimli::SectionId| -> Result<Bytes, std::convert::Infallible> {
        Ok(elf.contents(section.name(), warnings))
    };
    let Ok(mut dwarf) = Dwarf::load(load);
    if let Some(common) = common_file(elf, warnings) {
        let load = |section: gimli::SectionId| -> Result<Bytes, std::convert::Infallible> {
            Ok(common.contents(section.name(), warnings))
        };
        let Ok(()) = dwarf.load_sup(load);
    }
    dwarf
}

/// The file into which `dwz` has moved what several programs have in common.
fn common_file(elf: &Elf, warnings: &Warnings) -> Option<Elf> {
    let object = elf.object().ok()?;
    let (name, id) = object.gnu_debugaltlink().ok()??;
    let name = String::from_utf8_lossy(name).into_owned();
    let folder = elf.path.parent()?;
    // Distributions install it below the folder of debug files.
    let moved = name.split_once("/.dwz/").map(|(_, rest)| rest);
    let moved = moved.map(|rest| Path::new(DEBUG_ROOT).join(".dwz").join(rest));
    let found = [Some(folder.join(&name)), moved].into_iter().flatten();
    let belongs = |found: &Elf| {
        let object = found.object().ok();
        object.is_some_and(|o| matches!(o.build_id(), Ok(Some(own)) if own == id))
    };
    let mut found = found.filter_map(|path| open(&path, warnings));
    let common = found.find(belongs);
    if common.is_none() {
        warnings.add(Error::Missing {
            file: elf.path.clone(),
            wanted: format!("the common debug information {name}"),
            advice: "install it for names of inlined functions, variables and types",
        });
    }
    common
}

/// Whether a file has debug information of its own.
pub(crate) fn has_debug(elf: &Elf) -> bool {
    elf.section(gimli::DebugInfo::<Bytes>::section_name())
        .is_some()
        || elf.section(".zdebug_info").is_some()
}

pub(crate) fn text(bytes: &Bytes) -> String {
    String::from_utf8_lossy(bytes.bytes()).into_owned()
}

#[cfg(test)]
mod tests {
    #[test]
    fn crc32_of_the_standard_check_string() {
        assert_eq!(super::crc32(b"123456789"), 0xcbf4_3926);
    }
}
