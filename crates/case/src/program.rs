//! Why a program did not start.
//!
//! The kernel answers an exec with one of a handful of error numbers, and shells repeat them. The
//! file itself usually tells more. It is looked at only after the kernel has refused it, so that
//! what starts natively starts here.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::Error;

/// The error for `program`, which the engine failed to start.
pub(crate) fn explain(program: &Path, error: &guest::Error) -> Error {
    let kernel = match error {
        guest::Error::Exec(_, e) => Some(e),
        _ => None,
    };
    let why = look(program, kernel).unwrap_or_else(|| match kernel {
        Some(e) if e.kind() == io::ErrorKind::NotFound => "there is no such program".to_owned(),
        Some(e) => plain(e),
        None => match error {
            guest::Error::Lost => "it was killed while it was being loaded".to_owned(),
            other => other.to_string(),
        },
    });
    Error::Program {
        program: program.to_owned(),
        why,
    }
}

/// The error without its number.
fn plain(e: &io::Error) -> String {
    let text = e.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    text.to_lowercase()
}

fn look(program: &Path, kernel: Option<&io::Error>) -> Option<String> {
    let about = fs::metadata(program).ok()?;
    if about.is_dir() {
        return Some("it is a directory".to_owned());
    }
    if !about.is_file() {
        return Some("it is not a file".to_owned());
    }
    if about.permissions().mode() & 0o111 == 0 {
        return Some(format!(
            "it is not executable; `chmod +x {}` makes it so",
            program.display()
        ));
    }
    let denied = |e: &io::Error| e.kind() == io::ErrorKind::PermissionDenied;
    if kernel.is_some_and(denied) {
        return Some("permission denied".to_owned());
    }
    let mut head = Vec::new();
    let mut file = File::open(program).ok()?;
    file.by_ref().take(4096).read_to_end(&mut head).ok()?;
    if head.is_empty() {
        return Some("it is empty".to_owned());
    }
    if head.starts_with(b"#!") {
        let line = head[2..].split(|&b| b == b'\n').next()?;
        let name = String::from_utf8_lossy(line);
        let name = name.split_whitespace().next().unwrap_or("");
        return (!Path::new(name).exists())
            .then(|| format!("its #! line names `{name}`, which does not exist"));
    }
    if !head.starts_with(b"\x7fELF") {
        return Some("it is neither an ELF program nor a script with a #! line".to_owned());
    }
    elf(&head, about.len())
}

const I386: u16 = 3;
const X86_64: u16 = 62;

fn elf(head: &[u8], size: u64) -> Option<String> {
    let cut = || Some("it is an ELF file that was cut off".to_owned());
    let half = |at: usize| Some(u16::from_le_bytes(head.get(at..at + 2)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_le_bytes(head.get(at..at + 8)?.try_into().ok()?));
    let Some(machine) = half(18) else {
        return cut();
    };
    if head.get(4) == Some(&1) || machine == I386 {
        return Some("it is a 32-bit program; only 64-bit ones are supported".to_owned());
    }
    if machine != X86_64 {
        return Some("it is a program for another kind of processor".to_owned());
    }
    match half(16)? {
        2 | 3 => {}
        1 => return Some("it is an object file; link it first".to_owned()),
        4 => return Some("it is a core file, not a program".to_owned()),
        _ => return Some("it is an ELF file, but not a program".to_owned()),
    }
    let (Some(table), Some(entry), Some(count)) = (long(32), half(54), half(56)) else {
        return cut();
    };
    if table.saturating_add(u64::from(entry) * u64::from(count)) > size {
        return cut();
    }
    for i in 0..usize::from(count) {
        let at = usize::try_from(table).ok()? + i * usize::from(entry);
        let kind = u32::from_le_bytes(head.get(at..at + 4)?.try_into().ok()?);
        let (offset, length) = (long(at + 8)?, long(at + 32)?);
        if kind == 1 && offset.saturating_add(length) > size {
            return cut();
        }
        if kind == 3 {
            let offset = usize::try_from(offset).ok()?;
            let bytes = head.get(offset..offset.checked_add(usize::try_from(length).ok()?)?)?;
            let name = String::from_utf8_lossy(bytes);
            let name = name.trim_end_matches('\0');
            if !Path::new(name).exists() {
                return Some(format!(
                    "its interpreter `{name}`, the loader of its libraries, does not exist"
                ));
            }
        }
    }
    None
}
