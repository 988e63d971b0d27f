//! One ELF file: its segments, sections and identity.
//!
//! Every other module asks for sections by name and gets a reader over shared bytes. A section
//! that is absent, compressed with an absurd size, or beyond the end of a truncated file comes
//! back empty, with the reason recorded, so that what is left of the file can still be used.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use flate2::{Decompress, FlushDecompress, Status};
use gimli::LittleEndian;
use object::elf;
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{CompressedData, CompressionFormat, Object, ObjectSection};

use crate::error::Error;

/// Shared, cheaply cloned bytes of a section.
pub(crate) type Bytes = gimli::EndianArcSlice<LittleEndian>;

/// Deflate cannot expand by more than this factor, so a larger claim is damage.
const LARGEST_EXPANSION: u64 = 1032;

/// Debug information seldom shrinks by more than this factor.
const LIKELY_EXPANSION: u64 = 32;

/// Program headers lie within the first pages of any file a linker wrote.
const HEADER_PREFIX: u64 = 64 * 1024;

/// Files up to this size are taken to fit into memory.
const LARGEST_PLAIN: u64 = 1 << 30;

/// A `PT_LOAD` segment, as the kernel and the dynamic linker map it.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) offset: u64,
    pub(crate) file_size: u64,
    pub(crate) vaddr: u64,
    pub(crate) memory_size: u64,
    pub(crate) executable: bool,
    pub(crate) writable: bool,
}

impl Segment {
    pub(crate) fn contains(&self, vaddr: u64) -> bool {
        vaddr >= self.vaddr && vaddr - self.vaddr < self.memory_size
    }
}

/// The warnings of one module, in the order they arose, without repetitions.
#[derive(Default)]
pub(crate) struct Warnings(Mutex<Vec<Error>>);

impl Warnings {
    pub(crate) fn add(&self, error: Error) {
        let mut list = self.0.lock().unwrap_or_else(|e| e.into_inner());
        if !list.contains(&error) {
            list.push(error);
        }
    }

    pub(crate) fn list(&self) -> Vec<String> {
        let list = self.0.lock().unwrap_or_else(|e| e.into_inner());
        list.iter().map(Error::to_string).collect()
    }
}

/// A section's place in the file and in the address space.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub(crate) name: String,
    pub(crate) vaddr: u64,
    pub(crate) size: u64,
    pub(crate) executable: bool,
}

impl Section {
    pub(crate) fn contains(&self, vaddr: u64) -> bool {
        vaddr >= self.vaddr && vaddr - self.vaddr < self.size
    }
}

/// A file's bytes, read straight to where they stay.
fn read(path: &Path) -> io::Result<Arc<[u8]>> {
    let mut file = File::open(path)?;
    let len = file.metadata()?.len();
    // What may not fit into memory is to be an error, and no end of the program.
    if len > LARGEST_PLAIN {
        return Ok(std::fs::read(path)?.into());
    }
    let len = len as usize;
    let mut data: Arc<[u8]> = std::iter::repeat_n(0, len).collect();
    let room = Arc::get_mut(&mut data).expect("nobody else has it yet");
    let mut read = 0;
    while read < len {
        match file.read(&mut room[read..]) {
            // It has become shorter meanwhile.
            Ok(0) => return Ok(data[..read].into()),
            Ok(n) => read += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(data)
}

/// A file read into memory whose header made sense.
pub(crate) struct Elf {
    pub(crate) path: PathBuf,
    data: Arc<[u8]>,
    pub(crate) segments: Vec<Segment>,
    pub(crate) sections: Vec<Section>,
    /// Sections that were compressed, by name: the line tables are looked at before all the rest.
    expanded: Mutex<HashMap<String, Bytes>>,
}

impl Elf {
    pub(crate) fn open(path: &Path) -> Result<Elf, Error> {
        let data = read(path).map_err(|e| Error::Unreadable {
            file: path.to_path_buf(),
            reason: e.to_string(),
        })?;
        Elf::parse(path, data)
    }

    pub(crate) fn parse(path: &Path, data: Arc<[u8]>) -> Result<Elf, Error> {
        let segments = segments_of(&data).map_err(|reason| Error::NotElf {
            file: path.to_path_buf(),
            reason,
        })?;
        let mut sections = Vec::new();
        if let Ok(file) = ElfFile64::<LittleEndianObject>::parse(&*data) {
            for section in file.sections() {
                let object::SectionFlags::Elf { sh_flags, .. } = section.flags() else {
                    continue;
                };
                sections.push(Section {
                    name: section.name().unwrap_or("").to_string(),
                    vaddr: section.address(),
                    size: section.size(),
                    executable: sh_flags.0 & elf::SHF_EXECINSTR.0 != 0,
                });
            }
        }
        Ok(Elf {
            path: path.to_path_buf(),
            data,
            segments,
            sections,
            expanded: Mutex::default(),
        })
    }

    /// The `object` crate's view, or why there is none: section headers stand at the end of a
    /// file, so truncation loses them first while the segments remain usable.
    pub(crate) fn object(&self) -> Result<ElfFile64<'_, LittleEndianObject>, Error> {
        ElfFile64::parse(&*self.data).map_err(|e| self.damaged("the section table", e))
    }

    pub(crate) fn damaged(&self, part: &'static str, reason: impl ToString) -> Error {
        Error::Damaged {
            file: self.path.clone(),
            part,
            reason: reason.to_string(),
        }
    }

    pub(crate) fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|s| s.name == name)
    }

    /// The contents of a section, decompressed, or nothing if the file has no such section.
    pub(crate) fn contents(&self, name: &str, warnings: &Warnings) -> Bytes {
        match self.try_contents(name) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => empty(),
            Err(error) => {
                warnings.add(error);
                empty()
            }
        }
    }

    fn try_contents(&self, name: &str) -> Result<Option<Bytes>, Error> {
        let file = self.object()?;
        let Some(section) = file.section_by_name(name) else {
            return Ok(None);
        };
        let damaged = |reason: String| self.damaged("a section", format!("{name}: {reason}"));
        // `file_range` is absent for sections that occupy no file space, as in the stub that is
        // left in place of debug information kept elsewhere.
        if section.file_range().is_none() {
            return Ok(None);
        }
        let compressed = section
            .compressed_data()
            .map_err(|e| damaged(e.to_string()))?;
        if compressed.format == CompressionFormat::None {
            let (offset, size) = section.file_range().unwrap_or((0, 0));
            return match self.range(offset, size) {
                Some(bytes) => Ok(Some(bytes)),
                None => Err(damaged("it lies beyond the end of the file".into())),
            };
        }
        let limit = (compressed.data.len() as u64).saturating_mul(LARGEST_EXPANSION);
        if compressed.uncompressed_size > limit {
            return Err(damaged(format!(
                "{} compressed bytes cannot expand to {}",
                compressed.data.len(),
                compressed.uncompressed_size
            )));
        }
        let mut known = self.expanded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bytes) = known.get(name) {
            return Ok(Some(bytes.clone()));
        }
        let bytes = Bytes::new(expand(&compressed).map_err(damaged)?, LittleEndian);
        known.insert(name.to_owned(), bytes.clone());
        Ok(Some(bytes))
    }

    /// Bytes of the file by offset.
    pub(crate) fn range(&self, offset: u64, size: u64) -> Option<Bytes> {
        let range = checked_range(offset, size, self.data.len())?;
        Some(Bytes::new(self.data.clone(), LittleEndian).range(range))
    }

    /// Bytes of the file by the address they are mapped at, to the end of their segment.
    pub(crate) fn at_vaddr(&self, vaddr: u64) -> Option<Bytes> {
        let segment = self
            .segments
            .iter()
            .find(|s| vaddr >= s.vaddr && vaddr - s.vaddr < s.file_size)?;
        let into = vaddr - segment.vaddr;
        let offset = segment.offset.checked_add(into)?;
        let size = (segment.file_size - into).min((self.data.len() as u64).checked_sub(offset)?);
        self.range(offset, size)
    }

    /// Up to so many bytes that the program cannot change, by the address they are mapped at.
    pub(crate) fn constant(&self, vaddr: u64, most: usize) -> Option<Vec<u8>> {
        let segment = self.segments.iter().find(|s| s.contains(vaddr))?;
        let bytes = self.at_vaddr(vaddr).filter(|_| !segment.writable)?;
        Some(bytes.bytes()[..bytes.len().min(most)].to_vec())
    }

    /// The address of `.eh_frame_hdr` according to the program headers.
    pub(crate) fn eh_frame_hdr_segment(&self) -> Option<u64> {
        let header = elf::FileHeader64::<LittleEndianObject>::parse(&*self.data).ok()?;
        let endian = ENDIAN;
        header
            .program_headers(endian, &*self.data)
            .ok()?
            .iter()
            .find(|h| h.p_type(endian) == elf::PT_GNU_EH_FRAME)
            .map(|h| h.p_vaddr(endian))
    }

    /// Size and alignment of each thread's copy of the thread-local variables.
    pub(crate) fn thread_local_segment(&self) -> Option<(u64, u64)> {
        let header = elf::FileHeader64::<LittleEndianObject>::parse(&*self.data).ok()?;
        let headers = header.program_headers(ENDIAN, &*self.data).ok()?;
        let found = headers.iter().find(|h| h.p_type(ENDIAN) == elf::PT_TLS)?;
        Some((found.p_memsz(ENDIAN), found.p_align(ENDIAN).max(1)))
    }

    /// Whether it is a program, which the dynamic linker numbers first, not a library.
    pub(crate) fn is_program(&self) -> bool {
        let Ok(object) = self.object() else {
            return false;
        };
        let fixed = object.elf_header().e_type(ENDIAN) == elf::ET_EXEC;
        let interpreted = || {
            let headers = object.elf_program_headers().iter();
            headers
                .into_iter()
                .any(|h| h.p_type(ENDIAN) == elf::PT_INTERP)
        };
        fixed || (interpreted() && object.elf_header().e_entry(ENDIAN) != 0)
    }

    /// Whether code could be at this address.
    pub(crate) fn is_code(&self, vaddr: u64) -> bool {
        self.segments
            .iter()
            .any(|s| s.executable && s.contains(vaddr))
    }
}

/// Decompresses a section. What `zlib` has packed goes straight to where it stays: the debug
/// information of a system's library has megabytes of it, and a copy of them costs their pages
/// once more. That place has to be there in advance, so a size that is not likely to be true has
/// to prove itself first.
fn expand(section: &CompressedData<'_>) -> Result<Arc<[u8]>, String> {
    let likely = (section.data.len() as u64).saturating_mul(LIKELY_EXPANSION);
    if section.format != CompressionFormat::Zlib || section.uncompressed_size > likely {
        let data = section.decompress().map_err(|e| e.to_string())?;
        return Ok(Arc::from(&*data));
    }
    let size = usize::try_from(section.uncompressed_size).map_err(|e| e.to_string())?;
    let mut out: Arc<[u8]> = std::iter::repeat_n(0, size).collect();
    let place = Arc::get_mut(&mut out).expect("nobody else has it yet");
    let mut stream = Decompress::new(true);
    let end = stream
        .decompress(section.data, place, FlushDecompress::Finish)
        .map_err(|e| e.to_string())?;
    match end == Status::StreamEnd && stream.total_out() == size as u64 {
        true => Ok(out),
        false => Err("it does not have the length that it says".to_owned()),
    }
}

pub(crate) fn empty() -> Bytes {
    Bytes::new(Arc::from([]), LittleEndian)
}

pub(crate) type LittleEndianObject = object::LittleEndian;
pub(crate) const ENDIAN: LittleEndianObject = object::LittleEndian;

fn checked_range(offset: u64, size: u64, len: usize) -> Option<Range<usize>> {
    let end = offset.checked_add(size)?;
    if end > len as u64 {
        return None;
    }
    Some(usize::try_from(offset).ok()?..usize::try_from(end).ok()?)
}

/// The loadable segments of a file, read without reading all of the file.
pub(crate) fn segments_in_file(path: &Path) -> Result<Vec<Segment>, Error> {
    let unreadable = |e: std::io::Error| Error::Unreadable {
        file: path.to_path_buf(),
        reason: e.to_string(),
    };
    let mut prefix = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err(Error::NotElf {
            file: path.to_path_buf(),
            reason: "it is not a regular file".into(),
        });
    }
    file.take(HEADER_PREFIX)
        .read_to_end(&mut prefix)
        .map_err(unreadable)?;
    if let Ok(segments) = segments_of(&prefix) {
        return Ok(segments);
    }
    Elf::open(path).map(|elf| elf.segments)
}

pub(crate) fn segments_of(data: &[u8]) -> Result<Vec<Segment>, String> {
    let header = elf::FileHeader64::<LittleEndianObject>::parse(data).map_err(|e| e.to_string())?;
    let endian = ENDIAN;
    if header.e_machine(endian) != elf::EM_X86_64 {
        return Err("it is for another processor".into());
    }
    let headers = header
        .program_headers(endian, data)
        .map_err(|e| e.to_string())?;
    Ok(headers
        .iter()
        .filter(|h| h.p_type(endian) == elf::PT_LOAD)
        .map(|h| Segment {
            offset: h.p_offset(endian),
            file_size: h.p_filesz(endian),
            vaddr: h.p_vaddr(endian),
            memory_size: h.p_memsz(endian),
            executable: h.p_flags(endian).0 & elf::PF_X.0 != 0,
            writable: h.p_flags(endian).0 & elf::PF_W.0 != 0,
        })
        .collect())
}
