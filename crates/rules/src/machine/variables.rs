//! Variables as blocks.
//!
//! A pointer that is made with `lea` and leads to the beginning of a variable came from that variable; so did an
//! access to `array[i]` that is one instruction. Where one variable ends at the beginning of another, the pointer
//! may mean the end of the first, and then both count.
//!
//! A pointer into the middle of a global variable may mean one of its fields or elements. Or it means what is behind
//! or before it: compilers make such pointers for `table[c - 48]`, which begins in front of the table, and programs for
//! `array - 1`, to count from one. But what one instruction makes was one name and a distance before it was an
//! address, and so means the same variable each time. Which, the first access through it shows: if it is to the
//! variable around the pointer, that is meant, and what comes later must stay there; otherwise pointers of that
//! instruction are not followed. So nothing has to be known of the compiler and its options. Rejected: to believe code
//! that was not optimised (its compilers do not make up such pointers, but its programmers do), and to believe
//! distances that fit the fields or elements (those of another variable may fit as well). Pointers into the middle of
//! local variables are not followed: all of them are distances from one register, and optimised code may make one pointer
//! for two variables.
//!
//! A local variable is another block each time its function runs. It is gone when the function returns. Memory that is
//! set aside on the stack while a function runs (`alloca`, arrays whose length is no constant) is another block each time
//! that is done. Where the stack pointer is put back before the function returns, such a block is forgotten when the place is
//! used again, and does not count as gone: the pointers that are left may as well mean what is there by then.

use std::sync::Arc;

use image::{Extent, NoMemory, Program};
use jit::Variable;
use rustc_hash::FxHashMap;

use super::plan::{RBP, RSP, Variables};
use super::*;

/// Blocks for local variables; after that many, pointers to them are not followed.
const MOST_LOCALS: u32 = 1 << 20;

/// Pieces of the stack that are set aside while functions run; after that many, further ones are not followed.
const MOST_ASIDE: u32 = 1 << 20;

/// What these are called.
const ASIDE: &str = "(of variable length)";

/// All variables that pointers were made to.
#[derive(Default)]
pub(super) struct Table {
    /// Global ones, by address.
    objects: Vec<Extent>,
    globals: FxHashMap<u64, BlockId>,
    /// Those that instructions make pointers into the middle of, by these and the address.
    middles: FxHashMap<(u64, u64), BlockId>,
    locals: Vec<Local>,
    /// What was found for an instruction, a register and a distance: superblocks share instructions.
    found: FxHashMap<(u64, u16, i64), Option<u16>>,
    names: Vec<String>,
    by_name: FxHashMap<String, u16>,
    /// What `objects` was read from.
    read: Option<Arc<Program>>,
    library: Vec<(u64, u64)>,
    made: u32,
    /// The first of three numbers under which it is said that a piece of the stack is set aside.
    aside: Option<u16>,
    set_aside: u32,
}

#[derive(Debug, PartialEq)]
struct Local {
    name: u16,
    /// Where the pointer leads, as seen from the frame's base.
    offset: i64,
    size: u64,
    /// Bytes of another variable in front of it.
    before: u64,
}

/// A variable of a function that runs.
struct Lives {
    base: u64,
    local: u16,
    address: u64,
    cell: Cell,
}

impl Lives {
    /// Where the return address is.
    fn slot(&self) -> u64 {
        self.base.wrapping_sub(8)
    }
}

/// A piece of the stack that was set aside.
struct Piece {
    base: u64,
    begin: u64,
    block: BlockId,
}

/// Variables of a thread's functions that run, those of the outermost first.
#[derive(Default)]
pub(super) struct Living {
    all: Vec<Lives>,
    pieces: Vec<Piece>,
    /// Of the piece that is being made: its end, and the frame's base.
    making: (u64, u64),
    /// Those of the innermost function, by number: what code finds without asking.
    innermost: Vec<Variable>,
    /// The numbers that are there.
    shown: Vec<u16>,
}

impl Living {
    /// A return through `slot` ends some of them.
    pub(super) fn ends_by(&self, slot: u64) -> bool {
        self.slot() <= slot
    }

    /// From which return on some of them end.
    fn slot(&self) -> u64 {
        let variable = self.all.last().map_or(u64::MAX, Lives::slot);
        let piece = self.pieces.last().map_or(u64::MAX, |p| p.base - 8);
        variable.min(piece)
    }

    /// Brings what code finds up to date.
    fn show(&mut self) {
        for n in self.shown.drain(..) {
            self.innermost[usize::from(n)] = Variable::ABSENT;
        }
        let Some(last) = self.all.last() else { return };
        for v in self.all.iter().rev().take_while(|v| v.base == last.base) {
            let n = usize::from(v.local);
            if self.innermost.len() <= n {
                self.innermost.resize(n + 1, Variable::ABSENT);
            }
            let (address, cell) = (v.address, v.cell);
            self.innermost[n] = Variable { address, cell };
            self.shown.push(v.local);
        }
    }
}
impl Table {
    /// The variables of the C library and the loader are their own affair: they are judged by what they were
    /// asked to do, and to read what is known of them takes as long as many a run.
    pub(super) fn renew(&mut self, program: Option<&Arc<Program>>, library: &[(u64, u64)]) {
        let known = self.read.as_ref().map(Arc::as_ptr);
        if known == program.map(Arc::as_ptr) {
            return;
        }
        self.read = program.cloned();
        let skip = |at: u64| library.iter().any(|(a, b)| (*a..*b).contains(&at));
        self.objects = program.map(|p| p.objects(skip)).unwrap_or_default();
        self.library = library.to_vec();
        self.globals.clear();
        self.middles.clear();
        self.found.clear();
    }

    /// Global variables that can begin or end at an address, or reach over it: only what is close can.
    fn near(&self, address: u64) -> &[Extent] {
        let after = self.objects.partition_point(|e| e.begin <= address);
        &self.objects[after.saturating_sub(64)..after]
    }

    /// The only global variable that an address is in.
    fn around(&self, address: u64) -> Option<&Extent> {
        let list = self.near(address).iter();
        let mut around = list.filter(|e| address - e.begin < e.size);
        let found = around.next()?;
        let same = |e: &Extent| (e.begin, e.size) == (found.begin, found.size);
        around.all(same).then_some(found)
    }

    pub(super) fn name(&self, n: u16) -> &str {
        &self.names[n as usize]
    }

    fn number(&mut self, name: &str) -> Option<u16> {
        if let Some(n) = self.by_name.get(name) {
            return Some(*n);
        }
        let n = u16::try_from(self.names.len()).ok()?;
        self.names.push(name.to_owned());
        self.by_name.insert(name.to_owned(), n);
        Some(n)
    }
}

/// Variables that tests make up.
#[cfg(test)]
pub(super) const TRIED: usize = 6;

#[cfg(test)]
impl Table {
    /// Says what is found for an instruction.
    pub(super) fn try_out(&mut self, pc: u64, register: u16, distance: i64, found: Option<u16>) {
        while self.locals.len() < TRIED {
            let n = self.locals.len();
            let name = self.number(&format!("v{n}")).expect("few of them");
            self.locals.push(Local {
                name,
                offset: -16 * (n as i64 % 3),
                size: 8 + n as u64,
                before: 0,
            });
        }
        self.found.insert((pc, register, distance), found);
    }
}

pub(super) struct Finder<'a> {
    pub(super) table: &'a mut Table,
    pub(super) heap: &'a mut Heap,
    pub(super) program: Option<&'a Program>,
}

/// The largest variable that begins at an address, and how far one that ends there reaches back.
fn at(list: &[Extent], address: u64) -> Option<(&Extent, u64)> {
    let here = list.iter().filter(|e| e.begin == address);
    let found = here.max_by_key(|e| e.size)?;
    let ends = list
        .iter()
        .filter(|e| e.begin.checked_add(e.size) == Some(address));
    Some((found, ends.map(|e| e.size).max().unwrap_or(0)))
}

impl Variables for Finder<'_> {
    fn global(&mut self, pc: u64, address: u64) -> Option<BlockId> {
        let table = &*self.table;
        let known = table.globals.get(&address);
        if let Some(id) = known.or_else(|| table.middles.get(&(pc, address))) {
            return Some(*id);
        }
        let begins = at(table.near(address), address);
        let begins = begins.map(|(found, before)| (found.clone(), Some(before)));
        let (found, before) = begins.or_else(|| Some((table.around(address)?.clone(), None)))?;
        let by = self.table.number(&found.name)?;
        let block = Block {
            begin: found.begin,
            size: found.size,
            born: 0,
            made: 0,
            by,
            family: Family::Global,
            freed: None,
        };
        Some(match before {
            Some(before) => {
                let id = self.heap.add_variable(block, before);
                self.table.globals.insert(address, id);
                id
            }
            None => {
                let id = self.heap.presume_variable(block);
                self.table.middles.insert((pc, address), id);
                id
            }
        })
    }

    fn left(&mut self, pc: u64, address: u64, len: u64) -> Option<BlockId> {
        let found = self.table.around(address)?;
        let (begin, end) = (found.begin, found.begin.saturating_add(found.size));
        let leaves = address.saturating_add(len) > end;
        // Assembly may know of its data what the symbols do not say.
        let of_a_compiler = || self.program.is_some_and(|p| p.has_debug_info(pc));
        (leaves && of_a_compiler())
            .then(|| self.global(pc, begin))
            .flatten()
    }

    fn made_to_measure(&mut self, pc: u64) -> Option<(i64, u16)> {
        let mut library = self.table.library.iter();
        let program = self.program.filter(|p| p.has_debug_info(pc))?;
        if library.any(|(a, b)| (*a..*b).contains(&pc)) {
            return None;
        }
        let imagined = program.imagined_frame(pc)?;
        if !imagined.holds(image::Imagined::FRAME) {
            return None;
        }
        let base = imagined.base.wrapping_sub(image::Imagined::FRAME) as i64;
        let table = &mut *self.table;
        if table.aside.is_none() {
            let name = table.number(ASIDE)?;
            let first = u16::try_from(table.locals.len() + 2).ok()? - 2;
            table.locals.extend((0..3).map(|offset| Local {
                name,
                offset,
                size: 0,
                before: 0,
            }));
            table.aside = Some(first);
        }
        Some((base, table.aside?))
    }

    fn local(&mut self, pc: u64, register: u16, displacement: i64) -> Option<u16> {
        let key = (pc, register, displacement);
        if let Some(known) = self.table.found.get(&key) {
            return *known;
        }
        let mut library = self.table.library.iter();
        let found = match library.any(|(a, b)| (*a..*b).contains(&pc)) {
            true => None,
            false => self.find_local(pc, register, displacement),
        };
        self.table.found.insert(key, found);
        found
    }
}

impl Finder<'_> {
    fn find_local(&mut self, pc: u64, register: u16, displacement: i64) -> Option<u16> {
        let program = self.program?;
        if !program.has_debug_info(pc) {
            return None;
        }
        let imagined = program.imagined_frame(pc)?;
        let from = match register {
            RSP => image::Imagined::STACK,
            RBP => image::Imagined::FRAME,
            _ => return None,
        };
        let address = from.wrapping_add_signed(displacement);
        // At its entry, before it aligns the stack, a function notes where the return address is by what is above that.
        if register == RSP && displacement == 8 && address == imagined.base {
            return None;
        }
        if !imagined.holds(address) {
            return None;
        }
        let image::Imagined { frame, base } = imagined;
        let list = program.frame_extents(&frame, &NoMemory);
        let (found, before) = at(&list, address)?;
        let name = self.table.number(&found.name)?;
        let local = Local {
            name,
            offset: address.wrapping_sub(base) as i64,
            size: found.size,
            before,
        };
        if let Some(n) = self.table.locals.iter().position(|l| *l == local) {
            return u16::try_from(n).ok();
        }
        let n = u16::try_from(self.table.locals.len()).ok()?;
        self.table.locals.push(local);
        Some(n)
    }
}

/// All that pointers to local variables concern, and the functions that run.
pub(super) struct Frames<'a> {
    pub(super) frames: &'a mut Living,
    /// Functions of interest that were entered.
    pub(super) active: &'a mut Vec<Active>,
    /// How many of them are not looked into.
    pub(super) closed: &'a mut u32,
    pub(super) names: &'a [Named],
    pub(super) table: &'a mut Table,
    pub(super) heap: &'a mut Heap,
    pub(super) step: u64,
}

impl Frames<'_> {
    /// Room for all variables that have a number.
    pub(super) fn make_room(&mut self) {
        let (room, wanted) = (&mut self.frames.innermost, self.table.locals.len());
        if room.len() < wanted {
            room.resize(wanted, Variable::ABSENT);
        }
    }

    /// A piece of the stack is set aside, which takes three steps.
    fn set_aside(&mut self, address: u64, which: u16, step: u64) -> Cell {
        let making = &mut self.frames.making;
        match which {
            0 => making.0 = address,
            1 => making.1 = address,
            _ => {
                let (end, base) = *making;
                return self.piece((address, end), base, step);
            }
        }
        Cell::PLAIN
    }

    fn piece(&mut self, (begin, end): (u64, u64), base: u64, step: u64) -> Cell {
        // Those of functions that were left without a return, and those of this one that were given back.
        let pieces = &mut self.frames.pieces;
        while (pieces.last()).is_some_and(|p| p.base < base || p.base == base && p.begin < end) {
            pieces.pop();
        }
        // Above it there are rbp as it was and the return address at least.
        let end = end.min(base.saturating_sub(16));
        let name = self.table.number(ASIDE);
        let (Some(by), true) = (name, begin < end) else {
            return Cell::PLAIN;
        };
        if self.table.set_aside >= MOST_ASIDE {
            return Cell::PLAIN;
        }
        self.table.set_aside += 1;
        let block = Block {
            begin,
            size: end - begin,
            born: step,
            made: step,
            by,
            family: Family::Local,
            freed: None,
        };
        let block = self.heap.add_variable(block, 0);
        self.frames.pieces.push(Piece { base, begin, block });
        Cell::new(block, 0)
    }

    /// A pointer to a local variable is made.
    fn local(&mut self, address: u64, local: u16, step: u64) -> Cell {
        let aside = self.table.aside.and_then(|first| local.checked_sub(first));
        if let Some(which) = aside.filter(|which| *which < 3) {
            return self.set_aside(address, which, step);
        }
        let l = &self.table.locals[local as usize];
        let base = address.wrapping_sub(l.offset as u64);
        let all = &mut self.frames.all;
        // Functions that were left without a return. Perhaps on another stack: nothing is said of them.
        let known = all.len();
        while all.last().is_some_and(|v| v.base < base) {
            all.pop();
        }
        let popped = all.len() < known;
        let here = all.iter().rev().take_while(|v| v.base == base);
        if let Some(cell) = here.into_iter().find(|v| v.local == local).map(|v| v.cell) {
            if popped {
                self.frames.show();
            }
            return cell;
        }
        if self.table.made >= MOST_LOCALS {
            if popped {
                self.frames.show();
            }
            return Cell::PLAIN;
        }
        self.table.made += 1;
        let block = Block {
            begin: address,
            size: l.size,
            born: step,
            made: step,
            by: l.name,
            family: Family::Local,
            freed: None,
        };
        let cell = Cell::new(self.heap.add_variable(block, l.before), 0);
        all.push(Lives {
            base,
            local,
            address,
            cell,
        });
        self.frames.show();
        cell
    }

    /// From which return on something has to be done.
    pub(super) fn slot(&self) -> u64 {
        let active = self.active.last().map_or(u64::MAX, |a| a.slot);
        active.min(self.frames.slot())
    }

    /// The function that returns through `slot` is over, and those that it called are too.
    pub(super) fn end_locals(&mut self, slot: u64, step: u64) {
        let frames = &mut *self.frames;
        let freed = Freed {
            step,
            pointer: slot,
            by: 0,
        };
        while let Some(p) = frames.pieces.pop_if(|p| p.base - 8 <= slot) {
            if p.base - 8 == slot {
                self.heap.free(p.block, freed);
            }
        }
        let known = frames.all.len();
        while let Some(v) = frames.all.last() {
            if v.slot() > slot {
                break;
            }
            if v.slot() == slot {
                self.heap.free(v.cell.from(), freed);
            }
            frames.all.pop();
        }
        if frames.all.len() < known {
            frames.show();
        }
    }
}

impl jit::Keeper for Frames<'_> {
    fn bounds(&self) -> &jit::BoundsTable {
        self.heap.all_bounds()
    }

    fn variables(&self) -> &[Variable] {
        &self.frames.innermost
    }

    fn variable(&mut self, address: u64, number: u32, steps: u64) -> (Cell, u64) {
        let cell = self.local(address, number as u16, self.step + steps);
        (cell, self.slot())
    }

    fn enters(&mut self, registers: &mut Registers, memory: &Shadow, steps: u64) -> bool {
        self.enter_briefly(registers, memory, self.step + steps)
    }

    fn leaves(
        &mut self,
        registers: &mut Registers,
        memory: &mut Shadow,
        steps: u64,
    ) -> Option<bool> {
        self.leave_briefly(registers, memory, self.step + steps)
    }
}

impl Machine {
    pub(super) fn frames(&mut self) -> Frames<'_> {
        Frames {
            frames: &mut self.now.frames,
            active: &mut self.now.active,
            closed: &mut self.now.closed,
            names: &self.names,
            table: &mut self.variables,
            heap: &mut self.heap,
            step: self.step,
        }
    }

    /// What is known of a pointer to a local variable.
    pub(super) fn local(&mut self, address: u64, local: u16, step: u64) -> Cell {
        let mut frames = self.frames();
        let cell = frames.local(address, local, step);
        self.now.registers.slot = frames.slot();
        cell
    }

    /// From which return on something has to be done.
    pub(super) fn set_slot(&mut self) {
        self.now.registers.slot = self.frames().slot();
    }
}
