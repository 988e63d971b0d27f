//! The line table of one unit: which instruction belongs to which line.
//!
//! The compiler stores a program for a small machine that emits rows. It is run once per unit, on
//! the first question that reaches the unit, into rows sorted by address. Sequences the linker
//! discarded remain in the table with addresses at or near zero and are dropped, or they would
//! answer for code that is not there.

use std::path::{Path, PathBuf};

use gimli::Reader as _;

use crate::elf::{Bytes, Elf, Warnings};
use crate::separate::text;

/// One row: from this address on, until the next row, code belongs to this line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) vaddr: u64,
    pub(crate) file: u32,
    /// 0 means that no line is responsible.
    pub(crate) line: u32,
    pub(crate) column: u32,
    pub(crate) is_statement: bool,
    pub(crate) prologue_end: bool,
}

struct Sequence {
    start: u64,
    end: u64,
    rows: std::ops::Range<usize>,
}

pub(crate) struct Lines {
    rows: Vec<Row>,
    sequences: Vec<Sequence>,
}

impl Lines {
    /// Runs the line program. What was read before the first error is kept and the error handed
    /// back beside it.
    pub(crate) fn read(unit: &gimli::Unit<Bytes>, elf: &Elf) -> (Lines, Option<gimli::Error>) {
        let mut out = Lines {
            rows: Vec::new(),
            sequences: Vec::new(),
        };
        let Some(program) = unit.line_program.clone() else {
            return (out, None);
        };
        let mut reader = program.rows();
        let mut first = 0;
        let error = loop {
            let row = match reader.next_row() {
                Ok(Some((_, row))) => row,
                Ok(None) => break None,
                Err(error) => break Some(error),
            };
            if row.end_sequence() {
                let end = row.address();
                out.finish_sequence(first, end, elf);
                first = out.rows.len();
                continue;
            }
            let column = match row.column() {
                gimli::ColumnType::LeftEdge => 0,
                gimli::ColumnType::Column(column) => column.get(),
            };
            out.rows.push(Row {
                vaddr: row.address(),
                file: u32::try_from(row.file_index()).unwrap_or(u32::MAX),
                line: row
                    .line()
                    .map_or(0, |l| u32::try_from(l.get()).unwrap_or(0)),
                column: u32::try_from(column).unwrap_or(0),
                is_statement: row.is_stmt(),
                prologue_end: row.prologue_end(),
            });
        };
        out.rows.truncate(first);
        out.sequences.sort_by_key(|s| s.start);
        (out, error)
    }

    fn finish_sequence(&mut self, first: usize, end: u64, elf: &Elf) {
        let rows = &mut self.rows[first..];
        rows.sort_by_key(|r| r.vaddr);
        let start = rows.first().map_or(0, |r| r.vaddr);
        if rows.is_empty() || start >= end || !elf.is_code(start) {
            self.rows.truncate(first);
            return;
        }
        self.sequences.push(Sequence {
            start,
            end,
            rows: first..self.rows.len(),
        });
    }

    /// The row in force at an address. Of several rows at one address the last one counts, and one
    /// that begins a statement before one that does not.
    pub(crate) fn at(&self, vaddr: u64) -> Option<&Row> {
        let together = self.all_at(vaddr);
        let mut statement = together.iter().rev().take_while(|r| r.line != 0);
        let statement = statement.find(|r| r.is_statement);
        statement.or(together.last())
    }

    /// The last row that is not after an address, and those that are with it at the same one.
    pub(crate) fn all_at(&self, vaddr: u64) -> &[Row] {
        let after = self.sequences.partition_point(|s| s.start <= vaddr);
        let mut before = self.sequences[..after].iter().rev().take(8);
        let Some(sequence) = before.find(|s| vaddr < s.end) else {
            return &[];
        };
        let rows = &self.rows[sequence.rows.clone()];
        let rows = &rows[..rows.partition_point(|r| r.vaddr <= vaddr)];
        let Some(last) = rows.last() else { return &[] };
        &rows[rows.partition_point(|r| r.vaddr < last.vaddr)..]
    }

    /// The stretches of code that the table covers.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.sequences.iter().map(|s| (s.start, s.end))
    }

    /// The rows within a range of addresses, in order.
    pub(crate) fn within(&self, low: u64, high: u64) -> impl Iterator<Item = &Row> {
        self.sequences
            .iter()
            .filter(move |s| s.start < high && low < s.end)
            .flat_map(|s| &self.rows[s.rows.clone()])
            .filter(move |r| r.vaddr >= low && r.vaddr < high)
    }

    /// Visits the first statement of every contiguous run of rows for one line, in the files that
    /// `file` accepts. A row that the next one replaces at the same address counts too: optimised
    /// code marks in this way where a statement would have begun.
    pub(crate) fn range_starts(&self, file: impl Fn(u32) -> bool, mut visit: impl FnMut(&Row)) {
        for sequence in &self.sequences {
            let mut run = None;
            let mut visited = false;
            for row in &self.rows[sequence.rows.clone()] {
                if run != Some((row.file, row.line)) {
                    run = Some((row.file, row.line));
                    visited = false;
                }
                if row.is_statement && !visited && row.line != 0 && file(row.file) {
                    visited = true;
                    visit(row);
                }
            }
        }
    }
}

/// The source files a unit's line table names, by their index there.
pub(crate) struct Files {
    paths: Vec<PathBuf>,
}

impl Files {
    /// Reads only the header of the line program.
    pub(crate) fn read(dwarf: &gimli::Dwarf<Bytes>, unit: &gimli::Unit<Bytes>) -> Files {
        let mut paths = Vec::new();
        let Some(program) = &unit.line_program else {
            return Files { paths };
        };
        let header = program.header();
        let base = unit.comp_dir.as_ref().map(text).unwrap_or_default();
        for index in 0..=header.file_names().len() as u64 {
            let path = header.file(index).map(|file| {
                let mut path = PathBuf::from(&base);
                if let Some(directory) = file.directory(header)
                    && let Ok(directory) = dwarf.attr_string(unit, directory)
                {
                    path.push(text(&directory));
                }
                if let Ok(name) = dwarf.attr_string(unit, file.path_name()) {
                    path.push(text(&name));
                }
                plain(&path)
            });
            paths.push(path.unwrap_or_default());
        }
        Files { paths }
    }

    pub(crate) fn get(&self, index: u32) -> Option<&Path> {
        let path = self.paths.get(index as usize)?;
        (!path.as_os_str().is_empty()).then_some(path.as_path())
    }

    /// The indices of the files whose path ends in these components.
    pub(crate) fn matching(&self, asked: &Path) -> Vec<u32> {
        // Cutting a path into components takes long, and almost none is the one.
        let name = asked.file_name().unwrap_or_default().as_encoded_bytes();
        let named = |path: &Path| path.as_os_str().as_encoded_bytes().ends_with(name);
        (0u32..)
            .zip(&self.paths)
            .filter(|(_, path)| !path.as_os_str().is_empty())
            .filter(|(_, path)| named(path) && path.ends_with(asked))
            .map(|(index, _)| index)
            .collect()
    }
}

/// Whether the line tables of a file can name a source file at all, from their bytes alone.
///
/// Most questions about a line concern one file of a program and none of its libraries, whose
/// debug information may take longer to read than all else that there is to do. The names are in
/// the tables themselves, or in the strings that exist for them; a table that has them in other
/// places makes the answer yes.
pub(crate) struct Names {
    tables: Bytes,
    strings: Bytes,
    elsewhere: bool,
}

impl Names {
    pub(crate) fn read(elf: &Elf, warnings: &Warnings) -> Names {
        let contents = |section: gimli::SectionId| elf.contents(section.name(), warnings);
        let tables = contents(gimli::SectionId::DebugLine);
        Names {
            elsewhere: !names_are_beside(&tables).unwrap_or(false),
            strings: contents(gimli::SectionId::DebugLineStr),
            tables,
        }
    }

    pub(crate) fn may_have(&self, file: &Path) -> bool {
        let Some(name) = file.file_name() else {
            return true;
        };
        let name = memchr::memmem::Finder::new(name.as_encoded_bytes());
        let found = |bytes: &Bytes| name.find(bytes.bytes()).is_some();
        self.elsewhere || found(&self.strings) || found(&self.tables)
    }
}

/// Whether all tables have the names of their files in themselves or in the strings for them.
/// Nothing if that cannot be made out.
fn names_are_beside(tables: &Bytes) -> Option<bool> {
    let section = gimli::DebugLine::from(tables.clone());
    let mut at = 0;
    while at < tables.len() {
        let program = section.program(gimli::DebugLineOffset(at), 8, None, None);
        let program = program.ok()?;
        let header = program.header();
        // Before version 5 there is no other place.
        let formats = header.file_name_entry_format().iter();
        let beside = header.version() < 5
            || formats
                .filter(|f| f.content_type == gimli::DW_LNCT_path)
                .all(|f| [gimli::DW_FORM_string, gimli::DW_FORM_line_strp].contains(&f.form));
        if !beside {
            return Some(false);
        }
        let word = header.encoding().format.initial_length_size();
        at += usize::from(word) + header.unit_length();
    }
    Some(true)
}

/// Drops `.` and resolves `..` by text alone: the source tree may not exist here.
fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir if out.file_name().is_some() => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// A table of version 5 that has no code, one file, and its name in a certain form.
    fn table(form: gimli::DwForm, name: &[u8]) -> Bytes {
        // Sizes of addresses and selectors.
        let mut rest = vec![5, 0, 8, 0];
        let mut header = vec![1, 1, 1, 0, 1, 1];
        // No directories; one file. Both have a path and nothing else.
        let path = gimli::DW_LNCT_path.0 as u8;
        header.extend([1, path, gimli::DW_FORM_string.0 as u8, 0]);
        header.extend([1, path, form.0 as u8, 1]);
        header.extend(name);
        rest.extend((header.len() as u32).to_le_bytes());
        rest.extend(header);
        let mut out = (rest.len() as u32).to_le_bytes().to_vec();
        out.extend(rest);
        Bytes::new(Arc::from(out), gimli::LittleEndian)
    }

    #[track_caller]
    fn check(tables: Bytes, strings: &[u8], yes: &[&str], no: &[&str]) {
        let names = Names {
            elsewhere: !names_are_beside(&tables).unwrap_or(false),
            tables,
            strings: Bytes::new(Arc::from(strings), gimli::LittleEndian),
        };
        let may_have = |file: &&&str| names.may_have(Path::new(file));
        assert_eq!(yes.iter().filter(may_have).count(), yes.len());
        assert_eq!(no.iter().filter(may_have).count(), 0);
    }

    #[test]
    fn names_within_tables() {
        let table = table(gimli::DW_FORM_string, b"some.c\0");
        check(table, b"", &["some.c", "src/some.c"], &["other.c"]);
    }

    #[test]
    fn names_in_the_strings_of_tables() {
        let table = table(gimli::DW_FORM_line_strp, &[0; 4]);
        check(table, b"some.c\0", &["some.c"], &["other.c"]);
    }

    #[test]
    fn names_in_other_places_may_be_any() {
        let table = table(gimli::DW_FORM_strp, &[0; 4]);
        check(table, b"", &["some.c", "other.c"], &[]);
    }

    #[test]
    fn a_damaged_table_may_have_any_name() {
        let whole = table(gimli::DW_FORM_string, b"some.c\0");
        let cut = whole.range(0..whole.len() - 4);
        check(cut, b"", &["some.c", "other.c"], &[]);
    }
}
