//! A roll as a file.
//!
//! ```text
//! "wherefore tape\n", version (u32)
//! the records of each chunk, compressed
//! an index, compressed: code, and for each chunk its place, its first step, calls and events
//! length and checksum of the index (u64, u32)
//! ```
//!
//! The index is read as a whole; of the records a chunk at a time, when it is looked at. Integers
//! are little-endian.

use std::cell::RefCell;
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use tape::{Code, Event, Shape, Term};

use crate::codes::Codes;
use crate::reader::{Frame, FrameId, Reader};
use crate::roll::{Chunk, Records, Roll};

const MAGIC: &[u8; 15] = b"wherefore tape\n";
const VERSION: u32 = 1;
const TAIL: usize = 12;

/// Why a file is no tape that can be read.
#[derive(Debug)]
pub enum Damaged {
    Io(io::Error),
    /// It is something else.
    NoTape,
    Version(u32),
    /// It ends too early, or its contents do not belong together.
    Contents,
}

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damaged::Io(e) => write!(f, "{e}"),
            Damaged::NoTape => f.write_str("it is not a tape"),
            Damaged::Version(v) => write!(f, "it has version {v}; this is for version {VERSION}"),
            Damaged::Contents => f.write_str("it is cut short or damaged"),
        }
    }
}

impl std::error::Error for Damaged {}

impl From<io::Error> for Damaged {
    fn from(e: io::Error) -> Self {
        Damaged::Io(e)
    }
}

/// Records in a file.
pub(crate) struct Saved {
    file: Arc<File>,
    place: Place,
}

/// Where the records of a chunk are, and how long they are in memory.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Place {
    at: u64,
    packed: u32,
    len: u32,
    checksum: u32,
}

impl Saved {
    pub(crate) fn len(&self) -> usize {
        self.place.len as usize
    }

    /// The file was whole when it was opened; what is lost since then cannot be made up for.
    pub(crate) fn get(&self) -> Vec<u8> {
        let mut packed = vec![0; self.place.packed as usize];
        self.file
            .read_exact_at(&mut packed, self.place.at)
            .expect("the tape is still there");
        unpack(&packed, self.place.len as usize).expect("the tape is as it was when it was opened")
    }
}

thread_local! {
    /// Making one takes as long as unpacking a chunk.
    static UNPACKER: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Unpacks what was compressed, of which the length is known.
pub(crate) fn unpack(bytes: &[u8], len: usize) -> std::io::Result<Vec<u8>> {
    UNPACKER.with_borrow_mut(|unpacker| {
        if unpacker.is_none() {
            *unpacker = Some(zstd::bulk::Decompressor::new()?);
        }
        let unpacker = unpacker.as_mut().expect("it was made");
        unpacker.decompress(bytes, len)
    })
}

#[derive(Serialize, Deserialize)]
struct Index {
    codes: Vec<Code>,
    ways: Vec<Way>,
    chunks: Vec<Entry>,
    kept: Vec<(FrameId, Frame)>,
    end: Reader,
    first_step: u64,
    bytes: u64,
}

#[derive(Serialize, Deserialize)]
struct Way {
    code: u32,
    executed: u8,
    values: u8,
    rsp: Option<Term>,
    rbp: Option<Term>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    place: Place,
    start: Reader,
    events: Vec<(u32, Event)>,
    counts: Vec<(u32, u32)>,
}

impl Roll {
    /// Writes the roll to a new file. It is whole or not there.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let partial = path.with_extension("partial");
        let written = self
            .write(&partial)
            .and_then(|()| std::fs::rename(&partial, path));
        if written.is_err() {
            let _ = std::fs::remove_file(&partial);
        }
        written
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        file.write_all(MAGIC)?;
        file.write_all(&VERSION.to_le_bytes())?;
        let mut at = (MAGIC.len() + 4) as u64;
        let mut chunks = Vec::with_capacity(self.chunks.len());
        for chunk in &self.chunks {
            let packed = chunk.records.packed();
            file.write_all(&packed)?;
            let mut counts = Vec::new();
            self.count(chunk, &mut |shape, n| counts.push((shape, n)));
            chunks.push(Entry {
                place: Place {
                    at,
                    packed: packed.len() as u32,
                    len: chunk.records.len() as u32,
                    checksum: crc32fast::hash(&packed),
                },
                start: chunk.start.clone(),
                events: chunk.events.clone(),
                counts,
            });
            at += packed.len() as u64;
        }
        let mut codes = Vec::new();
        let mut numbers = FxHashMap::default();
        let ways = self.codes.shapes().iter().map(|s| Way {
            code: *numbers.entry(Arc::as_ptr(&s.code)).or_insert_with(|| {
                codes.push(Code::clone(&s.code));
                codes.len() as u32 - 1
            }),
            executed: s.executed,
            values: s.values,
            rsp: s.rsp,
            rbp: s.rbp,
        });
        let ways = ways.collect();
        let mut kept: Vec<_> = self.kept.iter().map(|(f, frame)| (*f, *frame)).collect();
        kept.sort_unstable_by_key(|(f, _)| *f);
        let index = Index {
            codes,
            ways,
            chunks,
            kept,
            end: self.reader.clone(),
            first_step: self.first_step,
            bytes: self.bytes as u64,
        };
        let index = postcard::to_stdvec(&index).map_err(io::Error::other)?;
        let index = zstd::bulk::compress(&index, 1)?;
        file.write_all(&index)?;
        file.write_all(&(index.len() as u64).to_le_bytes())?;
        file.write_all(&crc32fast::hash(&index).to_le_bytes())?;
        file.flush()
    }

    /// A roll that was saved. All of the file is checked.
    pub fn open(path: &Path) -> Result<Roll, Damaged> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        let mut head = [0; MAGIC.len() + 4];
        file.read_exact_at(&mut head, 0)
            .map_err(|_| Damaged::NoTape)?;
        let (magic, version) = head.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(Damaged::NoTape);
        }
        let version = u32::from_le_bytes(version.try_into().expect("four bytes"));
        if version != VERSION {
            return Err(Damaged::Version(version));
        }
        let body = size
            .checked_sub((head.len() + TAIL) as u64)
            .ok_or(Damaged::Contents)?;
        let mut tail = [0; TAIL];
        file.read_exact_at(&mut tail, size - TAIL as u64)?;
        let len = u64::from_le_bytes(*tail.first_chunk().expect("eight bytes"));
        let sum = u32::from_le_bytes(*tail.last_chunk().expect("four bytes"));
        if len > body {
            return Err(Damaged::Contents);
        }
        let index = checked(&file, size - TAIL as u64 - len, len as usize, sum)?;
        let index = zstd::stream::decode_all(&index[..]).map_err(|_| Damaged::Contents)?;
        let index: Index = postcard::from_bytes(&index).map_err(|_| Damaged::Contents)?;
        for chunk in &index.chunks {
            let p = chunk.place;
            checked(&file, p.at, p.packed as usize, p.checksum)?;
        }
        index.into_roll(Arc::new(file))
    }
}

fn checked(file: &File, at: u64, len: usize, sum: u32) -> Result<Vec<u8>, Damaged> {
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, at)?;
    if crc32fast::hash(&bytes) != sum {
        return Err(Damaged::Contents);
    }
    Ok(bytes)
}

impl Index {
    fn into_roll(self, file: Arc<File>) -> Result<Roll, Damaged> {
        let list: Vec<Arc<Code>> = self.codes.into_iter().map(Arc::new).collect();
        let shapes = self.ways.into_iter().map(|w| {
            let code = list.get(w.code as usize).ok_or(Damaged::Contents)?;
            if w.executed as usize > code.insns.len() {
                return Err(Damaged::Contents);
            }
            Ok(Shape {
                code: code.clone(),
                executed: w.executed,
                values: w.values,
                rsp: w.rsp,
                rbp: w.rbp,
            })
        });
        let shapes: Vec<Shape> = shapes.collect::<Result<_, Damaged>>()?;
        let mut codes = Codes::default();
        codes.add(&shapes);
        let mut roll = Roll::new(codes);
        for entry in self.chunks {
            for (_, event) in &entry.events {
                roll.codes.add_event(event);
            }
            roll.chunks.push(Chunk {
                start: entry.start,
                records: Records::Saved(Saved {
                    file: file.clone(),
                    place: entry.place,
                }),
                events: entry.events,
                counts: entry.counts,
            });
        }
        roll.kept = self.kept.into_iter().collect();
        roll.reader = self.end;
        roll.first_step = self.first_step;
        roll.bytes = self.bytes as usize;
        Ok(roll)
    }
}
