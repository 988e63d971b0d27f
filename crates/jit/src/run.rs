//! Code at work.

use std::io;
use std::mem::offset_of;

use crate::anchors::MOST;
use crate::assemble::{self, Exits, Fixed};
use crate::bounds::BoundsTable;
use crate::cell::{Arith, BlockId, Bounds, Cell, NONE, arithmetic};
use crate::recent::Recent;
use crate::region::Region;
use crate::shadow::{MASK, Shadow};
use crate::ways::{ARGUMENTS, Kind, LONGEST, ROOM, Variable, Way};

/// Units before those of the x87 and mask registers.
const APART: usize = 288;

/// No trace.
const NO_TRACE: u32 = u32::MAX;

/// No function: none was asked for by name.
pub const UNNAMED: u32 = u32::MAX;

/// What is known of a thread's registers, and what code needs at hand.
#[repr(C)]
#[derive(Clone)]
pub struct Registers {
    /// Units, and room for temporaries.
    pub units: [Cell; ROOM],
    /// Words that are 4096 bytes apart are taken for the same by a CPU that has not yet written one and is to
    /// read the other. What follows is used by all code, and must not be that far from units that are: with this
    /// it is that far from those of the x87 and mask registers.
    _apart: [u64; APART - MOST],
    /// The first cells of anchors that no register has.
    anchors: [u64; MOST],
    /// Groups of units in which something may be unwritten.
    pub tainted: u64,
    /// Groups of which something may be known.
    pub telling: u64,
    pub rsp: u64,
    pub rbp: u64,
    pub fs_base: u64,
    /// Returns whose address is not below this are of interest.
    pub slot: u64,
    /// The function that was asked for by name last ([`UNNAMED`] if it was entered), and where its return address is.
    pub named: u32,
    pub named_at: u64,
    /// What a function returned last of which it was not known what it means.
    pub inner: u64,
    /// The shape of the last record.
    pub last: u32,
    shapes: u32,
    /// Instructions that were executed.
    steps: u64,
    record: *const u8,
    end: *const u8,
    table: *const u64,
    /// The table to go by while nothing is unwritten in any register, while something is, and while nothing is looked at.
    clean: *const u64,
    open: *const u64,
    closed: *const u64,
    bounds: *const Bounds,
    memory: *mut Shadow,
    variables: *const Variable,
    /// A function is entered or left: where its return address is, its number and where it begins, and what it was
    /// called with, or returns first.
    pub call_slot: u64,
    pub function: u32,
    pub call_pc: u64,
    pub arguments: [u64; ARGUMENTS],
    /// To make several cells unwritten at once.
    unwritten: [Cell; 4],
    /// The trace that was left, and at which of its records.
    trace: u32,
    part_of_trace: u32,
    part: usize,
    store: usize,
    forget: usize,
    arithmetic: usize,
    /// Whoever runs the code, how many variables it has to have at least, and what it is asked through.
    keeper: *mut (),
    least_variables: usize,
    recent: Recent,
    variable: usize,
    enters: usize,
    leaves: usize,
}

// SAFETY: its pointers are used only while code runs, and set each time before.
unsafe impl Send for Registers {}

impl Default for Registers {
    fn default() -> Registers {
        Registers {
            units: [Cell::PLAIN; ROOM],
            _apart: [0; APART - MOST],
            anchors: [0; MOST],
            unwritten: [Cell::UNWRITTEN; 4],
            tainted: 0,
            telling: 0,
            rsp: 0,
            rbp: 0,
            fs_base: 0,
            slot: u64::MAX,
            named: UNNAMED,
            named_at: 0,
            inner: 0,
            last: u32::MAX,
            shapes: 0,
            steps: 0,
            record: std::ptr::null(),
            end: std::ptr::null(),
            table: std::ptr::null(),
            clean: std::ptr::null(),
            open: std::ptr::null(),
            closed: std::ptr::null(),
            bounds: std::ptr::null(),
            memory: std::ptr::null_mut(),
            variables: std::ptr::null(),
            call_slot: 0,
            function: 0,
            call_pc: 0,
            arguments: [0; ARGUMENTS],
            trace: NO_TRACE,
            part_of_trace: 0,
            part: part as *const () as usize,
            store: store as *const () as usize,
            forget: forget as *const () as usize,
            arithmetic: sum as *const () as usize,
            keeper: std::ptr::null_mut(),
            least_variables: 0,
            recent: Recent::default(),
            variable: 0,
            enters: 0,
            leaves: 0,
        }
    }
}

impl Registers {
    /// Where the keeper has what code looks into: it may have moved since it was asked last.
    fn look_at<K: Keeper>(&mut self, keeper: &K) {
        let variables = keeper.variables();
        assert!(variables.len() >= self.least_variables);
        self.variables = variables.as_ptr();
        self.bounds = keeper.bounds().as_ptr();
    }
}

/// Where things are in [`Registers`].
pub(crate) mod at {
    use super::{Registers, offset_of};

    pub(crate) const TAINTED: usize = offset_of!(Registers, tainted);
    pub(crate) const TELLING: usize = offset_of!(Registers, telling);
    pub(crate) const RSP: usize = offset_of!(Registers, rsp);
    pub(crate) const RBP: usize = offset_of!(Registers, rbp);
    pub(crate) const FS_BASE: usize = offset_of!(Registers, fs_base);
    pub(crate) const SLOT: usize = offset_of!(Registers, slot);
    pub(crate) const NAMED: usize = offset_of!(Registers, named);
    pub(crate) const NAMED_AT: usize = offset_of!(Registers, named_at);
    pub(crate) const INNER: usize = offset_of!(Registers, inner);
    pub(crate) const LAST: usize = offset_of!(Registers, last);
    pub(crate) const SHAPES: usize = offset_of!(Registers, shapes);
    pub(crate) const STEPS: usize = offset_of!(Registers, steps);
    pub(crate) const RECORD: usize = offset_of!(Registers, record);
    pub(crate) const END: usize = offset_of!(Registers, end);
    pub(crate) const TABLE: usize = offset_of!(Registers, table);
    pub(crate) const CLEAN: usize = offset_of!(Registers, clean);
    pub(crate) const BOUNDS: usize = offset_of!(Registers, bounds);
    pub(crate) const VARIABLES: usize = offset_of!(Registers, variables);
    pub(crate) const CALL_SLOT: usize = offset_of!(Registers, call_slot);
    pub(crate) const FUNCTION: usize = offset_of!(Registers, function);
    pub(crate) const CALL_PC: usize = offset_of!(Registers, call_pc);
    pub(crate) const ARGUMENTS: usize = offset_of!(Registers, arguments);
    pub(crate) const ANCHORS: usize = offset_of!(Registers, anchors);
    pub(crate) const UNWRITTEN: usize = offset_of!(Registers, unwritten);
    pub(crate) const TRACE: usize = offset_of!(Registers, trace);
    pub(crate) const PART_OF_TRACE: usize = offset_of!(Registers, part_of_trace);
    pub(crate) const PART: usize = offset_of!(Registers, part);
    pub(crate) const STORE: usize = offset_of!(Registers, store);
    pub(crate) const FORGET: usize = offset_of!(Registers, forget);
    pub(crate) const ARITHMETIC: usize = offset_of!(Registers, arithmetic);
    pub(crate) const VARIABLE: usize = offset_of!(Registers, variable);
    pub(crate) const ENTERS: usize = offset_of!(Registers, enters);
    pub(crate) const LEAVES: usize = offset_of!(Registers, leaves);
}

/// Why code stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// There is no other record.
    End,
    /// Nothing of the record was done.
    Before,
    /// Its operations before this instruction were done; units have still to be brought to what they are there.
    At(u8),
    /// All before this instruction was done, and the rest is not for code.
    Handed(u8),
    /// All was done but to go on to the next record. It ends with a return of interest.
    Return,
}

/// Where code stopped, and after how many instructions.
#[derive(Clone, Copy, Debug)]
pub struct Stopped {
    pub why: Stop,
    pub at: usize,
    pub steps: u64,
    /// If it was in a trace: its number, and the number of the record in it.
    pub trace: Option<(u32, u8)>,
}

pub(crate) const END: u32 = 0;
pub(crate) const BEFORE: u32 = 1;
pub(crate) const RETURN: u32 = 2;
/// And the number of the instruction.
pub(crate) const FAILED: u32 = 256;
/// The same, where others take over.
pub(crate) const HANDED: u32 = 512;

/// What code works on that grows while it runs.
pub trait Keeper {
    /// Where pointers into each block may lead.
    fn bounds(&self) -> &BoundsTable;

    /// Where each variable of the function that runs is, by number.
    fn variables(&self) -> &[Variable];

    /// A pointer is made to this variable at this address, which is not in the list, so many instructions after
    /// the code began: what is known of it, and from which return on returns are of interest.
    fn variable(&mut self, address: u64, number: u32, steps: u64) -> (Cell, u64);

    /// The function that the registers tell of is entered, so many instructions after the code began. True if nothing
    /// inside of it is looked at. Otherwise nothing was done.
    fn enters(&mut self, registers: &mut Registers, memory: &Shadow, steps: u64) -> bool;

    /// A function returns, as the registers tell, which is of interest: whether it was inside of one that is not looked
    /// into that it returned to. None if nothing was done.
    fn leaves(
        &mut self,
        registers: &mut Registers,
        memory: &mut Shadow,
        steps: u64,
    ) -> Option<bool>;
}

/// The code of all shapes.
pub struct Code {
    region: Region,
    exits: Exits,
    /// The code of each shape: to follow what is known, the same while nothing is unwritten in any register, and to
    /// follow only where the stack is.
    open: Vec<u64>,
    clean: Vec<u64>,
    closed: Vec<u64>,
    /// Variables that it knows by number.
    variables: usize,
}

type Enter = extern "sysv64" fn(*mut Registers, *const u8, *mut u64, u64) -> u32;

impl Code {
    pub fn new() -> io::Result<Code> {
        let mut region = Region::new()?;
        let Fixed { bytes, exits } = assemble::fixed(region.next());
        region.add(&bytes);
        Ok(Code {
            region,
            exits,
            open: Vec::new(),
            clean: Vec::new(),
            closed: Vec::new(),
            variables: 0,
        })
    }

    /// Another shape, of which no way is known.
    pub fn add_shape(&mut self) {
        self.open.push(self.exits.before);
        self.clean.push(self.exits.before);
        self.closed.push(self.exits.before);
    }

    /// The way of a shape. It stays unknown where there is no room for it, and if it asks for what is not there.
    pub fn add(&mut self, shape: u32, way: &Way) {
        let known = (shape as usize) < self.open.len();
        if !way.is_sound() || !known || !way.more.is_empty() {
            return;
        }
        if way.usable
            && let Some((at, entry)) = self.put(|ip, exits| assemble::open(way, shape, ip, exits))
        {
            self.clean[shape as usize] = at;
            self.open[shape as usize] = entry;
            self.count_variables(way);
        }
        if let Some((at, ())) = self.put(|ip, exits| {
            let code = assemble::closed(way, shape, ip, exits)?;
            Some((code, ()))
        }) {
            self.closed[shape as usize] = at;
        }
    }

    /// A trace that begins with records of a shape, by the number that is said where it is left. Those that were added
    /// last are tried first. False if it cannot be gone.
    pub fn add_trace(&mut self, shape: u32, number: u32, way: &Way) -> bool {
        let known = (shape as usize) < self.clean.len() && !way.more.is_empty();
        if !known || !way.usable || !way.is_sound() {
            return false;
        }
        let otherwise = (self.clean[shape as usize], self.open[shape as usize]);
        let make = |ip, exits: &Exits| assemble::trace(way, shape, number, ip, exits, otherwise);
        let Some((at, entry)) = self.put(make) else {
            return false;
        };
        (self.clean[shape as usize], self.open[shape as usize]) = (at, entry);
        self.count_variables(way);
        true
    }

    fn count_variables(&mut self, way: &Way) {
        for op in way.ops.iter().filter(|o| o.kind == Kind::Variable) {
            self.variables = self.variables.max(op.checked as usize + 1);
        }
    }

    /// Where the code is that was made, and what was said about it.
    fn put<T>(
        &mut self,
        make: impl FnOnce(u64, &Exits) -> Option<(Vec<u8>, T)>,
    ) -> Option<(u64, T)> {
        let at = self.region.next();
        let (code, about) = make(at, &self.exits)?;
        self.region.add(&code).then_some((at, about))
    }

    /// The ways in, of all shapes.
    fn table(&self, registers: &Registers, closed: bool) -> &[u64] {
        match closed {
            true => &self.closed,
            false if registers.tainted == 0 => &self.clean,
            false => &self.open,
        }
    }

    /// Goes through records from `at` to `end`. `closed`: only where the stack is is followed.
    #[allow(
        clippy::too_many_arguments,
        reason = "all that code works on, which others own"
    )]
    #[inline]
    pub fn run<K: Keeper>(
        &self,
        registers: &mut Registers,
        memory: &mut Shadow,
        keeper: &mut K,
        closed: bool,
        records: &[u8],
        at: usize,
        end: usize,
    ) -> Stopped {
        let table = self.table(registers, closed);
        registers.clean = self.clean.as_ptr();
        registers.open = self.open.as_ptr();
        registers.closed = self.closed.as_ptr();
        registers.variable = variable::<K> as *const () as usize;
        registers.enters = enters::<K> as *const () as usize;
        registers.leaves = leaves::<K> as *const () as usize;
        registers.shapes = table.len() as u32;
        registers.table = table.as_ptr();
        registers.steps = 0;
        let mut stopped = Stopped {
            why: Stop::End,
            at,
            steps: 0,
            trace: None,
        };
        let far = end.min(records.len().saturating_sub(LONGEST));
        if at < far {
            self.go(registers, memory, keeper, records, far, &mut stopped);
        }
        if stopped.why == Stop::End && stopped.at < end {
            self.go_to_end(registers, memory, keeper, &records[..end], &mut stopped);
        }
        stopped.steps = registers.steps;
        stopped
    }

    /// Goes through the last records, which are taken to where there is room behind them.
    #[cold]
    fn go_to_end<K: Keeper>(
        &self,
        registers: &mut Registers,
        memory: &mut Shadow,
        keeper: &mut K,
        records: &[u8],
        stopped: &mut Stopped,
    ) {
        let mut room = [0; 2 * LONGEST];
        let last = &records[stopped.at..];
        room[..last.len()].copy_from_slice(last);
        let before = std::mem::take(&mut stopped.at);
        self.go(registers, memory, keeper, &room, last.len(), stopped);
        stopped.at += before;
    }

    /// Goes through the records that begin before `end`, behind which there is room for the longest.
    #[inline]
    fn go<K: Keeper>(
        &self,
        registers: &mut Registers,
        memory: &mut Shadow,
        keeper: &mut K,
        records: &[u8],
        end: usize,
        stopped: &mut Stopped,
    ) {
        assert!(stopped.at <= end && end + LONGEST <= records.len());
        let range = records.as_ptr_range();
        registers.trace = NO_TRACE;
        registers.least_variables = self.variables;
        registers.look_at(keeper);
        registers.end = range.start.wrapping_add(end);
        let first = memory.first();
        registers.memory = memory;
        registers.keeper = (keeper as *mut K).cast();
        let at = range.start.wrapping_add(stopped.at);
        // SAFETY: the code there was made for this signature, and by `assemble`, which sees to it that only what
        // was set above and by the caller is touched: records that begin before their end, units below ROOM,
        // variables below their number, and bounds and cells, of which there are as many as it can ask for. What it
        // asks of memory and the keeper meanwhile it asks through the pointers above, which nobody else uses.
        let why = unsafe {
            let enter: Enter = std::mem::transmute(self.exits.enter as *const ());
            enter(registers, at, first, MASK & !7)
        };
        let part = registers.part_of_trace as u8;
        stopped.trace = (registers.trace != NO_TRACE).then_some((registers.trace, part));
        stopped.at = registers.record as usize - range.start as usize;
        stopped.why = match why {
            END => Stop::End,
            BEFORE => Stop::Before,
            RETURN => Stop::Return,
            n if n >= HANDED => Stop::Handed((n - HANDED) as u8),
            n => Stop::At((n - FAILED) as u8),
        };
    }
}

/// What is known of a pointer to a variable that is not in the list.
extern "sysv64" fn variable<K: Keeper>(
    registers: &mut Registers,
    address: u64,
    number: u32,
    steps: u32,
) -> Cell {
    // SAFETY: it is set while code runs, for a keeper of this type, and nobody else uses it until code stops.
    let keeper = unsafe { &mut *registers.keeper.cast::<K>() };
    let steps = registers.steps + u64::from(steps);
    let (cell, slot) = keeper.variable(address, number, steps);
    registers.slot = slot;
    registers.look_at(keeper);
    cell
}

/// A function is entered at the end of a record: zero if nothing inside of it is looked at. A bit for each of the record's values
/// that is a parameter.
extern "sysv64" fn enters<K: Keeper>(
    registers: &mut Registers,
    steps: u32,
    record: *const u8,
    values: u32,
) -> u64 {
    // SAFETY: code says where its record is, and where the last one begins has been set.
    unsafe {
        let (end, cells) = (registers.end, (*registers.memory).first());
        registers.recent.look_ahead(record, values, end, cells);
    }
    // SAFETY: as above, and the same is true of the memory.
    let (keeper, memory) = unsafe { (&mut *registers.keeper.cast::<K>(), &*registers.memory) };
    let steps = registers.steps + u64::from(steps);
    let known = keeper.enters(registers, memory, steps);
    registers.look_at(keeper);
    if known {
        registers.table = registers.closed;
    }
    u64::from(!known)
}

/// A function returns: zero if all that has been done that has to be.
extern "sysv64" fn leaves<K: Keeper>(registers: &mut Registers, steps: u32) -> u64 {
    // SAFETY: as above.
    let (keeper, memory) = unsafe { (&mut *registers.keeper.cast::<K>(), &mut *registers.memory) };
    let steps = registers.steps + u64::from(steps);
    let known = keeper.leaves(registers, memory, steps);
    registers.look_at(keeper);
    if let Some(closed) = known {
        registers.table = match closed {
            true => registers.closed,
            false if registers.tainted == 0 => registers.clean,
            false => registers.open,
        };
    }
    u64::from(known.is_none())
}

/// Which bytes of a piece of memory were never written.
extern "sysv64" fn part(registers: &Registers, address: u64, len: u32) -> u64 {
    // SAFETY: it is set while code runs, and code holds no reference to it.
    let memory = unsafe { &*registers.memory };
    memory.load(address, len as u8).unwritten().into()
}

/// A piece of memory is written, and nothing is known of it.
extern "sysv64" fn store(registers: &Registers, address: u64, len: u32) {
    // SAFETY: as above.
    let memory = unsafe { &mut *registers.memory };
    memory.store(address, len as u8, Cell::PLAIN);
}

extern "sysv64" fn forget(registers: &Registers, address: u64, len: u32) {
    // SAFETY: as above.
    let memory = unsafe { &mut *registers.memory };
    memory.fill(address, len.into(), true);
}

/// Arithmetic on two blocks, or with a difference.
extern "sysv64" fn sum(kind: u32, a: Cell, b: Cell) -> Cell {
    let kind = match kind {
        0 => Arith::Add,
        1 => Arith::Sub,
        2 => Arith::Scale,
        _ => Arith::Negate,
    };
    let from: BlockId = arithmetic(kind, a.from(), b.from());
    debug_assert!(a.from() != NONE || b.from() != NONE);
    Cell::new(from, 0)
}
