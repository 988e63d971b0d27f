//! The code cache: translated blocks, the links between them, and the tables that find them.
//!
//! One memory file backs everything that tracer and guest share. The tracer sees it whole and
//! writable; the guest sees the tables writable and the code regions executable, each region near
//! the code it was made from. Blocks are laid down one after another and never move. A block whose
//! code changed is *retired*: links to it are taken back and the tables forget it; its bytes stay
//! until the whole cache is emptied.

use std::io;
use std::sync::Once;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::Error;
use crate::layout::{L2_BITS, Layout, REGION_SIZE, SHARED_SIZE, l2_index};
use crate::routines::{self, Labels};
use crate::translate::emit::{far_jump, far_stop_bytes};
use crate::translate::{
    Correction, Counted, LANDING, MapEntry, Point, Routines, Translation, thunk,
};

/// Most regions that the memory file has room for.
const MAX_REGIONS: usize = 60;
const FILE_SIZE: u64 = SHARED_SIZE + MAX_REGIONS as u64 * REGION_SIZE;

/// Head of each region: bounded runs are translated here, over and over.
const BOUNDED_SIZE: u64 = 0x4000;
const ROUTINES_SIZE: u64 = 0x1000;

/// Memory is asked for in pieces of this size: a fault for each page costs several times as much.
const PIECE: u64 = 0x2_0000;

const LARGE_PAGE: usize = 0x20_0000;

/// Address space for what the tracer itself keeps, most of it about translated code.
const HEAP: usize = 0x400_0000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct BlockId(pub(crate) u32);

/// A stretch of the code cache near some of the guest's code.
#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) base: u64,
    cursor: u64,
    /// Memory is there up to here.
    ready: u64,
    pub(crate) labels: Labels,
    /// Blocks by where their code begins, in ascending order.
    placed: Vec<(u64, BlockId)>,
}

#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) pc: u64,
    pub(crate) entry: u64,
    /// How it begins by counting itself; the entry behind that.
    counted: Option<(Counted, u64)>,
    /// Entry for indirect branches, made when first needed.
    indirect: Option<u64>,
    first_point: u32,
    points: u32,
    map: Vec<MapEntry>,
    /// Exits that are linked to this block.
    incoming: Vec<u32>,
    ranges: Vec<(u64, u64)>,
    retired: bool,
}

/// The shared memory file as the tracer sees it.
struct Shared {
    fd: i32,
    memory: *mut u8,
}

impl Shared {
    fn new() -> Result<Self, Error> {
        // SAFETY: plain system calls; the mapping is private to this value until it is dropped.
        unsafe {
            let fd = libc::memfd_create(c"wherefore".as_ptr(), libc::MFD_CLOEXEC);
            if fd < 0 {
                return Err(Error::Os("memfd_create", io::Error::last_os_error()));
            }
            if libc::ftruncate(fd, FILE_SIZE as i64) < 0 {
                let e = io::Error::last_os_error();
                libc::close(fd);
                return Err(Error::Os("ftruncate", e));
            }
            let p = libc::mmap(
                std::ptr::null_mut(),
                FILE_SIZE as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                fd,
                0,
            );
            if p == libc::MAP_FAILED {
                let e = io::Error::last_os_error();
                libc::close(fd);
                return Err(Error::Os("mmap", e));
            }
            Ok(Shared {
                fd,
                memory: p.cast(),
            })
        }
    }

    fn write(&self, offset: u64, bytes: &[u8]) {
        assert!(offset + bytes.len() as u64 <= FILE_SIZE);
        // SAFETY: within the mapping, by the assertion. The guest, which maps the same memory, is
        // stopped whenever the tracer runs, and a reader of the tape is given the other half.
        unsafe {
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                self.memory.add(offset as usize),
                bytes.len(),
            );
        }
    }

    /// Has memory at hand for what will be written soon. Without it (on an old kernel, say) the
    /// first access to each page sees to that.
    fn prepare(&self, offset: u64, len: u64) {
        assert!(offset + len <= FILE_SIZE);
        // SAFETY: within the mapping, by the assertion; nothing that is there is changed.
        unsafe {
            libc::madvise(
                self.memory.add(offset as usize).cast(),
                len as usize,
                libc::MADV_POPULATE_WRITE,
            );
        }
    }

    fn read(&self, offset: u64, buf: &mut [u8]) {
        assert!(offset + buf.len() as u64 <= FILE_SIZE);
        // SAFETY: as for `write`.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.memory.add(offset as usize),
                buf.as_mut_ptr(),
                buf.len(),
            );
        }
    }

    /// The same for somebody on another CPU: what is written goes past the caches of this one. The lines that `buf`
    /// is in need not be fetched from where they were read last, which takes longer than all the rest.
    fn stream(&self, offset: u64, buf: &mut [u8]) {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
        const WORD: usize = size_of::<__m128i>();
        let head = buf.as_ptr().align_offset(WORD).min(buf.len());
        let (head, rest) = buf.split_at_mut(head);
        let (words, tail) = rest.split_at_mut(rest.len() / WORD * WORD);
        let from = offset + head.len() as u64;
        let behind = from + words.len() as u64;
        self.read(offset, head);
        self.read(behind, tail);
        assert!(behind <= FILE_SIZE);
        // SAFETY: as for `write`; what is written is aligned, and in `words`.
        unsafe {
            let from: *const __m128i = self.memory.add(from as usize).cast();
            let to: *mut __m128i = words.as_mut_ptr().cast();
            for n in 0..words.len() / WORD {
                _mm_stream_si128(to.add(n), _mm_loadu_si128(from.add(n)));
            }
            // Before anybody is told.
            _mm_sfence();
        }
    }

    fn word(&self, offset: u64) -> u64 {
        let mut b = [0; 8];
        self.read(offset, &mut b);
        u64::from_le_bytes(b)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping and the descriptor are ours and not used again.
        unsafe {
            libc::munmap(self.memory.cast(), FILE_SIZE as usize);
            libc::close(self.fd);
        }
    }
}

/// Has the memory of this process come in large pages. What is kept of a block is a kilobyte, so that the start of a
/// program asks for megabytes at once, and the faults for small pages are a tenth of its time. Where this does not
/// work (no such pages, another thread's memory), nothing but that is lost.
#[cfg(target_env = "gnu")]
fn use_large_pages() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: settings of the allocator; where its memory ends is only looked at, and the advice changes nothing
        // that is there.
        unsafe {
            // Any of these keeps the allocator from choosing the others by itself.
            libc::mallopt(libc::M_MMAP_THRESHOLD, 0x40_0000);
            libc::mallopt(libc::M_TRIM_THRESHOLD, 2 * HEAP as i32);
            libc::mallopt(libc::M_TOP_PAD, HEAP as i32);
            let begin = libc::sbrk(0) as usize & !4095;
            // Kept for good and never touched: what comes after it begins with a large page.
            let before = begin.next_multiple_of(LARGE_PAGE) - begin;
            std::mem::forget(std::hint::black_box(Vec::<u8>::with_capacity(before)));
            drop(std::hint::black_box(Vec::<u8>::with_capacity(LARGE_PAGE)));
            let end = libc::sbrk(0) as usize;
            if end > begin {
                libc::madvise(begin as *mut _, end - begin, libc::MADV_HUGEPAGE);
            }
        }
    });
}

#[cfg(not(target_env = "gnu"))]
fn use_large_pages() {}

/// All translated code of one guest image.
pub(crate) struct Cache {
    shared: Shared,
    pub(crate) layout: Layout,
    pub(crate) regions: Vec<Region>,
    blocks: Vec<Block>,
    by_pc: FxHashMap<u64, BlockId>,
    by_page: FxHashMap<u64, Vec<BlockId>>,
    pub(crate) points: Vec<Point>,
    owners: Vec<BlockId>,
    /// Exits that lead to code not translated yet, by its address. Some may have been linked in the meantime, or be
    /// of retired blocks.
    open: FxHashMap<u64, SmallVec<[u32; 4]>>,
    /// Points of the bounded run in progress; their ids count down from the top.
    bounded: Vec<Point>,
    bounded_map: Vec<MapEntry>,
    pub(crate) translated: u64,
    l2_used: usize,
    /// Changes whenever block and point ids lose their meaning.
    pub(crate) generation: u64,
}

/// Ids of the points of bounded runs begin here.
const FIRST_BOUNDED: u32 = 0xf000_0000;

impl Cache {
    pub(crate) fn new(layout: Layout) -> Result<Self, Error> {
        use_large_pages();
        Ok(Cache {
            shared: Shared::new()?,
            layout,
            regions: Vec::new(),
            blocks: Vec::new(),
            by_pc: FxHashMap::default(),
            by_page: FxHashMap::default(),
            points: Vec::new(),
            owners: Vec::new(),
            open: FxHashMap::default(),
            bounded: Vec::new(),
            bounded_map: Vec::new(),
            translated: 0,
            l2_used: 0,
            generation: 0,
        })
    }

    /// The descriptor that the guest maps.
    pub(crate) fn fd(&self) -> i32 {
        self.shared.fd
    }

    pub(crate) fn region_offset(region: usize) -> u64 {
        SHARED_SIZE + region as u64 * REGION_SIZE
    }

    /// Adds the region that the guest has mapped at `base`.
    pub(crate) fn add_region(&mut self, base: u64) {
        assert!(self.regions.len() < MAX_REGIONS);
        let (code, labels) = routines::assemble(self.layout, base + BOUNDED_SIZE);
        assert!(code.len() as u64 <= ROUTINES_SIZE);
        let offset = Self::region_offset(self.regions.len());
        self.shared.write(offset + BOUNDED_SIZE, &code);
        let cursor = base + BOUNDED_SIZE + ROUTINES_SIZE;
        self.regions.push(Region {
            base,
            cursor,
            ready: base,
            labels,
            placed: Vec::new(),
        });
        if self.regions.len() == 1 {
            self.clear_table();
        }
    }

    pub(crate) fn can_grow(&self) -> bool {
        self.regions.len() < MAX_REGIONS
    }

    fn clear_table(&mut self) {
        let miss = self.regions[0].labels.miss.to_le_bytes();
        let piece = miss.repeat(512);
        let table = self.layout.table() - self.layout.shared();
        self.shared.prepare(table, 65536 * 8);
        for n in 0..128 {
            self.shared.write(table + n * 4096, &piece);
        }
    }

    /// A region near `pc` with room for another block.
    pub(crate) fn region_near(&self, pc: u64) -> Option<usize> {
        self.regions.iter().position(|r| {
            let near = pc.abs_diff(r.base) < 0x7000_0000
                && pc.abs_diff(r.base + REGION_SIZE) < 0x7000_0000;
            near && r.cursor + 0x4000 < r.base + REGION_SIZE
        })
    }

    /// Where the next block of `region` goes.
    pub(crate) fn cursor(&self, region: usize) -> u64 {
        self.regions[region].cursor
    }

    pub(crate) fn routines(&self, region: usize) -> Routines {
        let l = self.regions[region].labels;
        Routines {
            miss: l.miss,
            syscall: l.syscall,
            measure: l.measure.entries,
        }
    }

    pub(crate) fn bounded_at(&self, region: usize) -> u64 {
        self.regions[region].base
    }

    pub(crate) fn next_point(&self) -> u32 {
        self.points.len() as u32
    }

    pub(crate) const fn first_bounded() -> u32 {
        FIRST_BOUNDED
    }

    fn write_host(&mut self, region: usize, host: u64, bytes: &[u8]) {
        let offset = Self::region_offset(region) + (host - self.regions[region].base);
        self.shared.write(offset, bytes);
    }

    pub(crate) fn region_of(&self, host: u64) -> Option<usize> {
        self.regions
            .iter()
            .position(|r| host >= r.base && host < r.base + REGION_SIZE)
    }

    /// Reads the shared tables, by guest address.
    pub(crate) fn read_shared(&self, addr: u64, buf: &mut [u8]) {
        self.shared.read(addr - self.layout.shared(), buf);
    }

    /// Reads a large piece for somebody on another CPU.
    pub(crate) fn stream_shared(&self, addr: u64, buf: &mut [u8]) {
        self.shared.stream(addr - self.layout.shared(), buf);
    }

    pub(crate) fn write_shared(&mut self, addr: u64, bytes: &[u8]) {
        self.shared.write(addr - self.layout.shared(), bytes);
    }

    /// The id in the stop whose `int3` stands at `host`.
    pub(crate) fn point_at(&self, host: u64) -> Option<(u32, &Point)> {
        let region = self.region_of(host)?;
        let mut b = [0; 8];
        self.shared.read(
            Self::region_offset(region) + (host - self.regions[region].base),
            &mut b,
        );
        if b[..4] != [0xcc, 0x90, 0x90, 0x90] {
            return None;
        }
        let id = u32::from_le_bytes(b[4..].try_into().expect("four bytes"));
        let point = if id >= FIRST_BOUNDED {
            self.bounded.get((id - FIRST_BOUNDED) as usize)?
        } else {
            self.points.get(id as usize)?
        };
        Some((id, point))
    }

    pub(crate) fn lookup(&self, pc: u64) -> Option<BlockId> {
        self.by_pc.get(&pc).copied()
    }

    pub(crate) fn block(&self, id: BlockId) -> &Block {
        &self.blocks[id.0 as usize]
    }

    /// Lays down a translated block and links what can be linked, from it and to it.
    pub(crate) fn place(
        &mut self,
        region: usize,
        pc: u64,
        ranges: Vec<(u64, u64)>,
        t: Translation,
        prologue: bool,
    ) -> BlockId {
        let id = BlockId(self.blocks.len() as u32);
        let start = self.regions[region].cursor;
        let r = &mut self.regions[region];
        if start + t.bytes.len() as u64 > r.ready && r.ready < r.base + REGION_SIZE {
            let offset = Self::region_offset(region) + (r.ready - r.base);
            self.shared.prepare(offset, PIECE);
            r.ready += PIECE;
        }
        self.write_host(region, start, &t.bytes);
        let r = &mut self.regions[region];
        r.cursor = (start + t.bytes.len() as u64 + 15) & !15;
        r.placed.push((start, id));
        let first_point = self.points.len() as u32;
        let points = t.points.len() as u32;
        self.owners.resize(self.owners.len() + t.points.len(), id);
        self.points.extend(t.points);
        for &(a, b) in &ranges {
            for page in a >> 12..=(b - 1) >> 12 {
                let list = self.by_page.entry(page).or_default();
                if list.last() != Some(&id) {
                    list.push(id);
                }
            }
        }
        let entry = start + u64::from(t.entry);
        self.blocks.push(Block {
            pc,
            entry,
            counted: t.counted.map(|c| (c, start + u64::from(c.entry))),
            indirect: None,
            first_point,
            points,
            map: t.map,
            incoming: Vec::new(),
            ranges,
            retired: false,
        });
        self.by_pc.insert(pc, id);
        self.translated += 1;
        if prologue {
            let landing = start + u64::from(LANDING);
            self.blocks[id.0 as usize].indirect = Some(landing);
            self.enter_tables(pc, landing);
        }
        for p in first_point..first_point + points {
            if let Point::Exit { target, .. } = self.points[p as usize] {
                match self.lookup(target) {
                    Some(to) => self.link(p, to),
                    None => self.open.entry(target).or_default().push(p),
                }
            }
        }
        for exit in self.open.remove(&pc).unwrap_or_default() {
            let owner = self.owners[exit as usize];
            if !self.block(owner).retired {
                self.link(exit, id);
            }
        }
        id
    }

    /// Lays down a run that stops at each way out and is not kept.
    pub(crate) fn place_bounded(&mut self, region: usize, t: Translation) -> u64 {
        assert!(t.bytes.len() as u64 <= BOUNDED_SIZE);
        let base = self.regions[region].base;
        self.write_host(region, base, &t.bytes);
        self.bounded = t.points;
        self.bounded_map = t.map;
        base + u64::from(t.entry)
    }

    /// Direct ways out of a block that lead to code not translated yet.
    pub(crate) fn open_exits(&self, id: BlockId) -> impl Iterator<Item = (u32, u64)> + '_ {
        let b = self.block(id);
        (b.first_point..b.first_point + b.points).filter_map(|p| match self.points[p as usize] {
            Point::Exit {
                target,
                linked: None,
                ..
            } => Some((p, target)),
            _ => None,
        })
    }

    /// Makes the exit jump straight to the block.
    pub(crate) fn link(&mut self, exit: u32, to: BlockId) {
        let mut entry = self.block(to).entry;
        let Point::Exit {
            site,
            stub,
            linked: ref mut linked @ None,
            correction,
            ..
        } = self.points[exit as usize]
        else {
            return;
        };
        *linked = Some(to);
        self.blocks[to.0 as usize].incoming.push(exit);
        let region = self.region_of(site).expect("exits are in regions");
        if let Some(correction) = correction
            && let Some((counted, behind)) = self.block(to).counted
        {
            entry = behind;
            let number = correction.number + counted.number;
            self.correct(region, correction, counted.lane, number);
        }
        let rel = entry.wrapping_sub(site + 4) as i64;
        if let Ok(rel) = i32::try_from(rel) {
            self.write_host(region, site, &rel.to_le_bytes());
        } else {
            self.write_host(region, stub, &far_jump(entry));
        }
    }

    /// Has a way out count `number`, in `lane`.
    fn correct(&mut self, region: usize, correction: Correction, lane: u32, number: i8) {
        let mut operands = [0; 5];
        operands[..4].copy_from_slice(&lane.to_le_bytes());
        operands[4] = number as u8;
        self.write_host(region, correction.site, &operands);
        if let Point::Budget { uncounted, .. } = &mut self.points[correction.budget as usize] {
            *uncounted = i32::from(correction.number) - i32::from(number);
        }
    }

    fn unlink(&mut self, exit: u32) {
        let Point::Exit {
            target,
            site,
            stub,
            ref mut linked,
            correction,
            ..
        } = self.points[exit as usize]
        else {
            return;
        };
        *linked = None;
        self.open.entry(target).or_default().push(exit);
        let region = self.region_of(site).expect("exits are in regions");
        if let Some(c) = correction {
            self.correct(region, c, c.lane, c.number);
        }
        let rel = stub.wrapping_sub(site + 4) as i32;
        self.write_host(region, site, &rel.to_le_bytes());
        self.write_host(region, stub, &far_stop_bytes(exit));
    }

    /// Makes a block reachable by indirect branches.
    pub(crate) fn make_indirect(&mut self, id: BlockId) {
        let (pc, entry) = (self.block(id).pc, self.block(id).entry);
        if let Some(at) = self.block(id).indirect {
            self.enter_tables(pc, at);
            return;
        }
        let region = self.region_of(entry).expect("blocks are in regions");
        let at = self.regions[region].cursor;
        let bytes = thunk(pc, entry, at, self.routines(region));
        self.write_host(region, at, &bytes);
        self.regions[region].cursor = (at + bytes.len() as u64 + 15) & !15;
        let landing = at + u64::from(LANDING);
        self.blocks[id.0 as usize].indirect = Some(landing);
        self.enter_tables(pc, landing);
    }

    fn enter_tables(&mut self, pc: u64, host: u64) {
        let at = self.layout.table() - self.layout.shared() + (pc & 0xffff) * 8;
        self.shared.write(at, &host.to_le_bytes());
        let slot = self.l2_slot(pc);
        if self.shared.word(slot) != pc {
            self.l2_used += 1;
        }
        self.shared.write(slot, &pc.to_le_bytes());
        self.shared.write(slot + 8, &host.to_le_bytes());
    }

    /// The second table has no room for more: it is kept at most three quarters full.
    pub(crate) fn tables_full(&self) -> bool {
        self.l2_used > 3 << (L2_BITS - 2) || self.points.len() > 0x7000_0000
    }

    fn l2_slot(&self, pc: u64) -> u64 {
        let base = self.layout.l2() - self.layout.shared();
        let mask = (1u64 << L2_BITS) - 1;
        let mut i = l2_index(pc);
        loop {
            let at = base + i * 16;
            let key = self.shared.word(at);
            if key == pc || key == 0 {
                return at;
            }
            i = (i + 1) & mask;
        }
    }

    /// Retires every block made from bytes in the given range. Says whether there were any.
    pub(crate) fn retire(&mut self, start: u64, end: u64) -> bool {
        let mut any = false;
        if end <= start {
            return false;
        }
        let pages: Vec<u64> = if (end - start) >> 12 > self.by_page.len() as u64 {
            self.by_page
                .keys()
                .copied()
                .filter(|&p| p >= start >> 12 && p <= (end - 1) >> 12)
                .collect()
        } else {
            (start >> 12..=(end - 1) >> 12)
                .filter(|p| self.by_page.contains_key(p))
                .collect()
        };
        for page in pages {
            let Some(list) = self.by_page.get_mut(&page) else {
                continue;
            };
            let list = std::mem::take(list);
            let mut kept = Vec::new();
            for id in list {
                let b = self.block(id);
                if b.retired {
                    continue;
                }
                if b.ranges.iter().any(|&(a, z)| a < end && z > start) {
                    self.retire_block(id);
                    any = true;
                } else {
                    kept.push(id);
                }
            }
            if kept.is_empty() {
                self.by_page.remove(&page);
            } else {
                self.by_page.insert(page, kept);
            }
        }
        any
    }

    fn retire_block(&mut self, id: BlockId) {
        let b = &mut self.blocks[id.0 as usize];
        b.retired = true;
        let (pc, indirect) = (b.pc, b.indirect);
        let incoming = std::mem::take(&mut b.incoming);
        let (first, n) = (b.first_point, b.points);
        for exit in incoming {
            // The exit may belong to a retired block or have been linked elsewhere since.
            if matches!(self.points[exit as usize], Point::Exit { linked: Some(to), .. } if to == id)
            {
                self.unlink(exit);
            }
        }
        for p in first..first + n {
            if let Point::Exit {
                linked: Some(to), ..
            } = self.points[p as usize]
            {
                self.blocks[to.0 as usize].incoming.retain(|&e| e != p);
            }
        }
        if self.by_pc.get(&pc) == Some(&id) {
            self.by_pc.remove(&pc);
        }
        if let Some(host) = indirect {
            let miss = self.regions[0].labels.miss;
            let at = self.layout.table() - self.layout.shared() + (pc & 0xffff) * 8;
            if self.shared.word(at) == host {
                self.shared.write(at, &miss.to_le_bytes());
            }
            // A key once in the second table stays; it leads to the miss stop from now on.
            let slot = self.l2_slot(pc);
            if self.shared.word(slot) == pc {
                let absent = self.regions[0].labels.miss_stop;
                self.shared.write(slot + 8, &absent.to_le_bytes());
            }
        }
    }

    /// Forgets everything that was translated.
    pub(crate) fn clear(&mut self) {
        self.blocks.clear();
        self.by_pc.clear();
        self.by_page.clear();
        self.points.clear();
        self.owners.clear();
        self.open.clear();
        let used = std::mem::take(&mut self.l2_used);
        self.generation += 1;
        for r in &mut self.regions {
            r.placed.clear();
            r.cursor = r.base + BOUNDED_SIZE + ROUTINES_SIZE;
        }
        if !self.regions.is_empty() {
            self.clear_table();
        }
        // A table in which nothing was ever put takes no memory, and is not to take any from here on.
        if used > 0 {
            let zeros = vec![0; 16 << L2_BITS];
            self.shared
                .write(self.layout.l2() - self.layout.shared(), &zeros);
        }
    }

    /// The guest state that a stop at `host` inside translated code stands for.
    pub(crate) fn state_at(&self, host: u64) -> Option<MapEntry> {
        let region = &self.regions[self.region_of(host)?];
        let find = |map: &[MapEntry], offset: u32| {
            map.partition_point(|e| e.host <= offset)
                .checked_sub(1)
                .map(|i| map[i])
        };
        if host < region.base + BOUNDED_SIZE {
            return find(&self.bounded_map, (host - region.base) as u32);
        }
        let i = region
            .placed
            .partition_point(|&(start, _)| start <= host)
            .checked_sub(1)?;
        let (start, id) = region.placed[i];
        find(&self.block(id).map, (host - start) as u32)
    }

    /// `host` is where the translation of a guest instruction begins.
    pub(crate) fn is_edge(&self, host: u64) -> bool {
        let Some(region) = self.region_of(host).map(|r| &self.regions[r]) else {
            return false;
        };
        let begins =
            |map: &[MapEntry], offset: u64| map.iter().any(|e| u64::from(e.host) == offset);
        if self.in_bounded(host) {
            return begins(&self.bounded_map, host - region.base);
        }
        let Some(i) = region
            .placed
            .partition_point(|&(start, _)| start <= host)
            .checked_sub(1)
        else {
            return false;
        };
        let (start, id) = region.placed[i];
        begins(&self.block(id).map, host - start)
    }

    /// The block that `host` belongs to; `None` for a bounded run.
    pub(crate) fn block_of(&self, host: u64) -> Option<BlockId> {
        let region = &self.regions[self.region_of(host)?];
        if self.in_bounded(host) {
            return None;
        }
        let i = region.placed.partition_point(|&(start, _)| start <= host);
        Some(region.placed[i.checked_sub(1)?].1)
    }

    /// The block whose stop has this id.
    pub(crate) fn owner(&self, point: u32) -> Option<BlockId> {
        self.owners.get(point as usize).copied()
    }

    /// `host` belongs to a bounded run.
    pub(crate) fn in_bounded(&self, host: u64) -> bool {
        self.regions
            .iter()
            .any(|r| host >= r.base && host < r.base + BOUNDED_SIZE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_streamed_piece_is_what_is_read() {
        let shared = Shared::new().expect("a memory file");
        let pattern: Vec<u8> = (0..400u32).map(|n| (n * 7 + n / 256) as u8).collect();
        shared.write(100, &pattern);
        for offset in 100..132 {
            for len in [0, 1, 15, 16, 17, 63, 64, 200] {
                // At all places in a line.
                for begin in 0..16 {
                    let mut room = vec![0xee; begin + len + 16];
                    shared.stream(offset, &mut room[begin..begin + len]);
                    let (mut plain, mut expected) = (vec![0; len], vec![0xee; begin]);
                    shared.read(offset, &mut plain);
                    expected.extend(plain);
                    expected.extend([0xee; 16]);
                    assert_eq!(room, expected, "{offset} {len} {begin}");
                }
            }
        }
    }
}
