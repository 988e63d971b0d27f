//! The file of events: what came from outside, in the order in which the guest met it.
//!
//! An event is a header of 24 bytes and a payload, padded to 8: exactly what the system-call
//! routine writes to its ring, so that a drained ring is appended as it is. Events are gathered
//! into frames of about a megabyte, compressed with LZ4, each with a checksum; a recording that
//! was cut off or damaged is readable up to the first bad frame and says so by name.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use crate::Error;
use crate::threads::ThreadId;

const MAGIC: [u8; 8] = *b"WHEREFOR";
/// Version of the format of the events file.
pub const VERSION: u32 = 2;
const FRAME: usize = 1 << 20;
const LARGEST_FRAME: u32 = 1 << 30;

/// What an event tells. The value stands in the top of the header's first word; a system call that
/// ran on the spot has zero there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Kind {
    /// A system call run by the routine: the payload is what it wrote.
    Spot = 0,
    /// A system call run by the tracer: the payload is a [`CallEffects`].
    Call = 1,
    /// A signal was delivered before this step.
    Signal = 2,
    /// Results of an instruction that the tracer carried out.
    Insn = 3,
    /// A new image: the payload is a [`Snapshot`](crate::start::Snapshot).
    Image = 4,
    /// The guest ended with this wait status.
    End = 5,
    /// Another thread goes on from this step: the one numbered `nr`.
    Switch = 6,
    /// Memory was changed from outside before this step: the payload is a [`CallEffects`] that
    /// has nothing else.
    Memory = 7,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) kind: Kind,
    pub(crate) nr: u32,
    pub(crate) step: u64,
    pub(crate) result: i64,
    pub(crate) payload: Vec<u8>,
}

impl Event {
    pub(crate) fn new(kind: Kind, nr: u32, step: u64, result: i64, payload: Vec<u8>) -> Self {
        Event {
            kind,
            nr,
            step,
            result,
            payload,
        }
    }
}

/// Memory that a system call changed, and what else a replay must know of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallEffects {
    pub(crate) args: [u64; 6],
    pub(crate) writes: Vec<(u64, Vec<u8>)>,
    /// The file that was mapped.
    pub(crate) file: Option<FileRef>,
}

/// A file whose contents are kept with the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FileRef {
    /// What the guest knew it as.
    pub name: Vec<u8>,
    /// Its name in the recording's `files` folder.
    pub stored: String,
}

/// Little-endian building of payloads.
#[derive(Default)]
pub(crate) struct Encoder(pub(crate) Vec<u8>);

impl Encoder {
    pub(crate) fn u32(&mut self, v: u32) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }
    pub(crate) fn u64(&mut self, v: u64) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }
    pub(crate) fn bytes(&mut self, b: &[u8]) {
        self.u32(b.len() as u32);
        self.0.extend_from_slice(b);
    }
}

/// The reverse; every read may find the payload too short.
pub(crate) struct Decoder<'a>(pub(crate) &'a [u8]);

impl<'a> Decoder<'a> {
    pub(crate) fn take(&mut self, n: usize) -> Result<&'a [u8], Error> {
        if n > self.0.len() {
            return Err(Error::damaged("an event is shorter than it says"));
        }
        let (a, b) = self.0.split_at(n);
        self.0 = b;
        Ok(a)
    }
    pub(crate) fn u32(&mut self) -> Result<u32, Error> {
        Ok(u32::from_le_bytes(
            self.take(4)?.try_into().expect("four bytes"),
        ))
    }
    pub(crate) fn u64(&mut self) -> Result<u64, Error> {
        Ok(u64::from_le_bytes(
            self.take(8)?.try_into().expect("eight bytes"),
        ))
    }
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Error> {
        let n = self.u32()? as usize;
        self.take(n)
    }
    pub(crate) fn string(&mut self) -> Result<String, Error> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| Error::damaged("a name is not text"))
    }
}

impl FileRef {
    pub(crate) fn encode(&self, e: &mut Encoder) {
        e.bytes(&self.name);
        e.bytes(self.stored.as_bytes());
    }
    pub(crate) fn decode(d: &mut Decoder<'_>) -> Result<Self, Error> {
        let name = d.bytes()?.to_vec();
        let stored = d.string()?;
        if stored.contains('/') || stored.starts_with('.') {
            return Err(Error::damaged(
                "a stored file's name leads out of the recording",
            ));
        }
        Ok(FileRef { name, stored })
    }
}

impl CallEffects {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut e = Encoder::default();
        for a in self.args {
            e.u64(a);
        }
        e.u32(self.writes.len() as u32);
        for (addr, bytes) in &self.writes {
            e.u64(*addr);
            e.bytes(bytes);
        }
        e.u32(u32::from(self.file.is_some()));
        if let Some(f) = &self.file {
            f.encode(&mut e);
        }
        e.0
    }

    pub(crate) fn decode(payload: &[u8]) -> Result<Self, Error> {
        let mut d = Decoder(payload);
        let mut out = CallEffects::default();
        for a in &mut out.args {
            *a = d.u64()?;
        }
        for _ in 0..d.u32()? {
            let addr = d.u64()?;
            out.writes.push((addr, d.bytes()?.to_vec()));
        }
        if d.u32()? != 0 {
            out.file = Some(FileRef::decode(&mut d)?);
        }
        Ok(out)
    }
}

/// What of the machine a replay depends on: instruction-set features and the extended state.
fn machine() -> [u32; 6] {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    let (one, seven, state) = (__cpuid(1), __cpuid_count(7, 0), __cpuid_count(13, 0));
    [one.ecx, one.edx, seven.ebx, seven.ecx, seven.edx, state.eax]
}

/// Writes an events file.
pub(crate) struct Writer {
    file: BufWriter<File>,
    frame: Vec<u8>,
    pub(crate) bytes: u64,
    pub(crate) events: u64,
}

impl Writer {
    pub(crate) fn create(path: &Path) -> Result<Self, Error> {
        let file = File::create_new(path).map_err(|e| Error::Recording(path.to_owned(), e))?;
        let mut file = BufWriter::new(file);
        let mut head = MAGIC.to_vec();
        head.extend_from_slice(&VERSION.to_le_bytes());
        for w in machine() {
            head.extend_from_slice(&w.to_le_bytes());
        }
        file.write_all(&head).map_err(Error::Disk)?;
        Ok(Writer {
            file,
            frame: Vec::with_capacity(FRAME + FRAME / 2),
            bytes: head.len() as u64,
            events: 0,
        })
    }

    pub(crate) fn event(&mut self, event: &Event) -> Result<(), Error> {
        self.events += 1;
        let f = &mut self.frame;
        f.extend_from_slice(&(event.nr | (event.kind as u32) << 24).to_le_bytes());
        f.extend_from_slice(&(event.payload.len() as u32).to_le_bytes());
        f.extend_from_slice(&event.step.to_le_bytes());
        f.extend_from_slice(&event.result.to_le_bytes());
        f.extend_from_slice(&event.payload);
        f.resize(f.len().next_multiple_of(8), 0);
        self.flush_if(FRAME)
    }

    /// Appends events as the ring holds them.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.frame.extend_from_slice(bytes);
        self.flush_if(FRAME)
    }

    fn flush_if(&mut self, limit: usize) -> Result<(), Error> {
        if self.frame.len() < limit || self.frame.is_empty() {
            return Ok(());
        }
        let packed = lz4_flex::block::compress(&self.frame);
        let mut head = Vec::with_capacity(12);
        head.extend_from_slice(&(packed.len() as u32).to_le_bytes());
        head.extend_from_slice(&(self.frame.len() as u32).to_le_bytes());
        head.extend_from_slice(&crc32fast::hash(&packed).to_le_bytes());
        self.bytes += (head.len() + packed.len()) as u64;
        self.file
            .write_all(&head)
            .and_then(|()| self.file.write_all(&packed))
            .map_err(Error::Disk)?;
        self.frame.clear();
        Ok(())
    }

    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        self.flush_if(0)?;
        self.file.flush().map_err(Error::Disk)
    }
}

/// A place in an events file, from which it is read on. Cheap to copy: a checkpoint keeps one.
#[derive(Clone)]
pub(crate) struct Reader {
    file: Arc<File>,
    /// Where the next frame begins.
    offset: u64,
    frame: Arc<Vec<u8>>,
    at: usize,
    pub(crate) index: u64,
}

const HEAD: usize = 12 + 24;

impl Reader {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(|e| Error::Recording(path.to_owned(), e))?;
        let mut head = [0; HEAD];
        file.read_exact_at(&mut head, 0)
            .map_err(|_| Error::damaged("it is shorter than its header"))?;
        if head[..8] != MAGIC {
            return Err(Error::damaged("it does not begin as a recording does"));
        }
        let word = |i: usize| u32::from_le_bytes(head[i..i + 4].try_into().expect("four bytes"));
        if word(8) != VERSION {
            return Err(Error::Version {
                found: word(8),
                known: VERSION,
            });
        }
        let here = machine();
        let there: Vec<u32> = (0..6).map(|i| word(12 + 4 * i)).collect();
        if there[5] != here[5] || there.iter().zip(here).any(|(t, h)| t & !h != 0) {
            return Err(Error::Machine);
        }
        Ok(Reader {
            file: Arc::new(file),
            offset: HEAD as u64,
            frame: Arc::default(),
            at: 0,
            index: 0,
        })
    }

    /// The next event; `None` at the end of the file.
    pub(crate) fn next(&mut self) -> Result<Option<Event>, Error> {
        if self.at == self.frame.len() && !self.next_frame()? {
            return Ok(None);
        }
        let mut d = Decoder(&self.frame[self.at..]);
        let (first, len) = (d.u32()?, d.u32()? as usize);
        let (step, result) = (d.u64()?, d.u64()? as i64);
        let payload = d.take(len)?.to_vec();
        self.at = (self.at + 24 + len)
            .next_multiple_of(8)
            .min(self.frame.len());
        self.index += 1;
        let kind = match first >> 24 {
            0 => Kind::Spot,
            1 => Kind::Call,
            2 => Kind::Signal,
            3 => Kind::Insn,
            4 => Kind::Image,
            5 => Kind::End,
            6 => Kind::Switch,
            7 => Kind::Memory,
            _ => return Err(Error::damaged("an event is of no known kind")),
        };
        Ok(Some(Event {
            kind,
            nr: first & 0xff_ffff,
            step,
            result,
            payload,
        }))
    }

    fn next_frame(&mut self) -> Result<bool, Error> {
        let mut head = [0; 12];
        if self
            .file
            .read_at(&mut head[..1], self.offset)
            .map_err(Error::Disk)?
            == 0
        {
            return Ok(false);
        }
        let short = |e: io::Error| match e.kind() {
            io::ErrorKind::UnexpectedEof => Error::damaged("it was cut off"),
            _ => Error::Disk(e),
        };
        self.file
            .read_exact_at(&mut head, self.offset)
            .map_err(short)?;
        let word = |i: usize| u32::from_le_bytes(head[i..i + 4].try_into().expect("four bytes"));
        let (packed_len, len, crc) = (word(0), word(4), word(8));
        // A wrong length must not exhaust memory: no more is asked for than the file has.
        let rest = self
            .file
            .metadata()
            .map_err(Error::Disk)?
            .len()
            .saturating_sub(self.offset + 12);
        if u64::from(packed_len) > rest {
            return Err(Error::damaged("it was cut off"));
        }
        if len > LARGEST_FRAME {
            return Err(Error::damaged("a frame has an impossible size"));
        }
        let mut packed = vec![0; packed_len as usize];
        self.file
            .read_exact_at(&mut packed, self.offset + 12)
            .map_err(short)?;
        if crc32fast::hash(&packed) != crc {
            return Err(Error::damaged("a checksum does not match"));
        }
        let frame = lz4_flex::block::decompress(&packed, len as usize)
            .map_err(|_| Error::damaged("a frame does not decompress"))?;
        self.frame = Arc::new(frame);
        self.offset += 12 + u64::from(packed_len);
        self.at = 0;
        Ok(!self.frame.is_empty())
    }
}

/// A change of turn in a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    pub step: u64,
    /// The thread that goes on.
    pub thread: ThreadId,
}

/// All changes of turn of the recording in `folder`, in order.
pub fn switches(folder: &Path) -> Result<Vec<Switch>, Error> {
    let mut reader = Reader::open(&folder.join("events"))?;
    let mut out = Vec::new();
    while let Some(e) = reader.next()? {
        if e.kind == Kind::Switch {
            out.push(Switch {
                step: e.step,
                thread: ThreadId(e.nr),
            });
        }
    }
    Ok(out)
}
