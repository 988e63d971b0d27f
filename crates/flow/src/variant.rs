//! What a record does with bytes, where everything that differs from record to record is settled.
//!
//! Two records of a shape do the same but for three things: where in its cell each access begins, which
//! conditional moves moved, and which loads and stores meet a cell that an earlier store of the same
//! record has written. A *variant* is a shape with these. In it every byte has its way: it was there before the
//! record (an *input*), or an instruction of the record wrote it (an *output*). Who wrote an input is
//! found by [`crate::links`]; what is wanted of the outputs, and what that leads to, is the business of
//! [`crate::sweep`].
//!
//! Memory is taken in *pieces*: the part of an access that lies in one cell. Pieces that are one cell have
//! the number of the first one that stores there, their *class*.

use image::effects::{Place, RegRange, Size};
use smallvec::SmallVec;

use crate::plan::{Step, Values};
use crate::wanted::pieces;

/// Outputs and inputs that a variant may have.
const MANY: usize = 240;

/// A cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spot {
    /// Of registers, by its number.
    Register(u16),
    /// Of memory: a piece.
    Memory(u8),
}

/// Bytes that are there after the record, and the instruction that made them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    pub(crate) insn: u8,
    pub(crate) spot: Spot,
}

/// Where bytes of a cell are from, after the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// An output.
    Output(u8),
    /// They are those of an input, in the same order.
    Input(u8),
    /// Of no interest.
    Nowhere,
}

/// What becomes of a cell.
#[derive(Debug)]
pub(crate) struct Update {
    pub(crate) spot: Spot,
    /// Which bytes come from where. A cell that comes from an input does so as a whole.
    pub(crate) parts: SmallVec<[(u8, Origin); 1]>,
}

/// Part of an access that lies in one cell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) insn: u8,
    pub(crate) access: u8,
    /// Which of the cells of the access.
    pub(crate) nth: u8,
    pub(crate) class: u8,
}

#[derive(Debug)]
pub(crate) struct Variant {
    pub(crate) shape: u32,
    pub(crate) pieces: Box<[Piece]>,
    pub(crate) inputs: Box<[Spot]>,
    pub(crate) outputs: Box<[Output]>,
    /// Cells that are outputs as a whole: of registers, and pieces.
    pub(crate) whole_registers: Box<[(u16, u8)]>,
    pub(crate) whole_memory: Box<[(u8, u8)]>,
    /// Inputs that are somewhere else afterwards.
    pub(crate) passed: Box<[u8]>,
    /// Others.
    pub(crate) updates: Box<[Update]>,
    /// Outputs that are flags: which of them. Nearly every record writes flags, hardly any reads those of another.
    pub(crate) flags: SmallVec<[(u8, u8); 2]>,
    pub(crate) flags_written: u8,
    /// Which flags are read that were there before.
    pub(crate) flags_read: u8,
}

/// The cell of flags.
pub(crate) const FLAGS: u16 = image::effects::FLAGS.at / 8;

impl Variant {
    /// The piece of an access that is in its `nth` cell.
    pub(crate) fn piece(&self, insn: u8, access: u8, nth: u64) -> &Piece {
        let first = self
            .pieces
            .partition_point(|p| (p.insn, p.access) < (insn, access));
        &self.pieces[first + nth as usize]
    }
}

/// Whether instructions do nothing but what can be said in advance.
pub(crate) fn is_regular(steps: &[Step]) -> bool {
    steps.iter().all(|s| {
        let transfers = s.effects.transfers.iter();
        let places = transfers.flat_map(|t| t.from.iter().map(|s| s.place).chain([t.to]));
        let mut places = places.chain(s.effects.decided_by.iter().copied());
        let fixed = |a: &image::effects::Access| matches!(a.size, Size::Fixed(n) if n > 0);
        places.all(|p| !matches!(p, Place::Whole(_))) && s.effects.accesses.iter().all(fixed)
    })
}

/// Registers that are not followed.
pub(crate) fn is_passed_over(r: RegRange) -> bool {
    use image::effects::{FS_BASE, GS_BASE};
    r.general_number() == Some(4) || matches!(r, FS_BASE | GS_BASE)
}

/// Where a byte is from, at some instruction of the record.
#[derive(Clone, Copy, PartialEq)]
enum Source {
    /// It has not been written in the record.
    Old,
    Input(u8),
    /// One of all outputs, also those that something is written over later.
    Output(u16),
    Nowhere,
}

type Bytes = [Source; 8];

struct Maker<'a> {
    steps: &'a [Step],
    values: &'a Values<'a>,
    pieces: Vec<Piece>,
    inputs: Vec<Spot>,
    outputs: Vec<Output>,
    registers: Vec<(u16, Bytes)>,
    /// By class.
    memory: Vec<(u8, Bytes)>,
    flags_read: u8,
}

/// What a record with these values does; `cells` are those of its accesses, in order, and where they are in some table. `None` where it is beyond
/// what is followed here.
pub(crate) fn variant(
    shape: u32,
    steps: &[Step],
    values: &Values<'_>,
    cells: &[(u64, u32)],
) -> Option<Variant> {
    let mut maker = Maker {
        steps,
        values,
        pieces: Vec::with_capacity(cells.len()),
        inputs: Vec::new(),
        outputs: Vec::new(),
        registers: Vec::new(),
        memory: Vec::new(),
        flags_read: 0,
    };
    maker.cut(cells)?;
    for (i, s) in steps.iter().enumerate() {
        maker.read(i as u8, s);
        maker.write(i as u8, s)?;
    }
    maker.end(shape)
}

impl Maker<'_> {
    /// Cuts accesses into pieces.
    fn cut(&mut self, cells: &[(u64, u32)]) -> Option<()> {
        let mut left = cells.iter();
        for (i, s) in self.steps.iter().enumerate() {
            for (n, spot) in s.spots.iter().enumerate() {
                let count = count(spot.address(self.values), spot.access.fixed()?);
                for nth in 0..count {
                    let (cell, _) = left.next()?;
                    let number = self.pieces.len();
                    let same = (0..number).find(|&k| {
                        let Piece { insn, access, .. } = self.pieces[k];
                        let stores = self.steps[insn as usize].spots[access as usize].access;
                        stores.writes && cells[k].0 == *cell
                    });
                    if number >= MANY {
                        return None;
                    }
                    self.pieces.push(Piece {
                        insn: i as u8,
                        access: n as u8,
                        nth: nth as u8,
                        class: same.map_or(number, |k| self.pieces[k].class.into()) as u8,
                    });
                }
            }
        }
        Some(())
    }

    fn register(&mut self, cell: u16) -> &mut Bytes {
        let known = self.registers.iter().position(|r| r.0 == cell);
        let n = known.unwrap_or_else(|| {
            self.registers.push((cell, [Source::Old; 8]));
            self.registers.len() - 1
        });
        &mut self.registers[n].1
    }

    fn class(&mut self, class: u8) -> &mut Bytes {
        let known = self.memory.iter().position(|m| m.0 == class);
        let n = known.unwrap_or_else(|| {
            self.memory.push((class, [Source::Old; 8]));
            self.memory.len() - 1
        });
        &mut self.memory[n].1
    }

    fn bytes(&mut self, spot: Spot) -> &mut Bytes {
        match spot {
            Spot::Register(cell) => self.register(cell),
            Spot::Memory(class) => self.class(class),
        }
    }

    /// The input that is what a cell held before.
    fn input(&mut self, spot: Spot) -> u8 {
        let known = self.inputs.iter().position(|i| *i == spot);
        let n = known.unwrap_or_else(|| {
            self.inputs.push(spot);
            self.inputs.len() - 1
        });
        n as u8
    }

    /// The cells of a place, with the bits of the bytes.
    fn cells(&self, insn: u8, place: Place) -> SmallVec<[(Spot, u8); 2]> {
        match place {
            Place::Register(r) => pieces(u64::from(r.at), u64::from(r.len))
                .map(|(n, bits)| (Spot::Register(n as u16), bits))
                .collect(),
            Place::Memory { access, at, len } => {
                let spot = &self.steps[insn as usize].spots[access as usize];
                let begin = spot.address(self.values);
                let from = begin.wrapping_add(u64::from(at));
                let first = self
                    .pieces
                    .partition_point(|p| (p.insn, p.access) < (insn, access));
                pieces(from, u64::from(len))
                    .map(|(n, bits)| {
                        let nth = n.wrapping_sub(begin / 8) as usize;
                        (Spot::Memory(self.pieces[first + nth].class), bits)
                    })
                    .collect()
            }
            Place::Whole(_) => SmallVec::new(),
        }
    }

    /// What an instruction may look at is an input unless it was written before.
    fn read(&mut self, i: u8, s: &Step) {
        let transfers = s.effects.transfers.iter();
        let data = transfers.flat_map(|t| t.from.iter().map(|s| s.place));
        let registers = s.spots.iter().flat_map(|spot| spot.access.registers());
        let all = data
            .chain(s.effects.decided_by.iter().copied())
            .chain(registers.map(Place::Register));
        for place in all {
            if Step::register(place).is_some_and(is_passed_over) {
                continue;
            }
            for (spot, bits) in self.cells(i, place) {
                let bytes = self.bytes(spot);
                let old = |b: &u8| bits >> b & 1 != 0 && bytes[*b as usize] == Source::Old;
                let old = (0..8).filter(old).fold(0, |all, b| all | 1 << b);
                if old != 0 {
                    self.input(spot);
                }
                if spot == Spot::Register(FLAGS) {
                    self.flags_read |= old;
                }
            }
        }
    }

    fn write(&mut self, i: u8, s: &Step) -> Option<()> {
        if let Some(c) = s.condition
            && self.values.get(c) & 1 == 0
        {
            return Some(());
        }
        let mut written: SmallVec<[(Spot, u8, Bytes); 4]> = SmallVec::new();
        for t in &s.effects.transfers {
            if Step::register(t.to).is_some_and(|r| r.general_number() == Some(4)) {
                continue;
            }
            let cells = self.cells(i, t.to);
            if s.keeps {
                let (spot, bits) = cells[0];
                let from = t.from.first().map(|f| self.cells(i, f.place));
                let bytes = match from {
                    Some(from) => self.kept(spot, bits, &from)?,
                    None => [Source::Nowhere; 8],
                };
                written.push((spot, bits, bytes));
                continue;
            }
            for (spot, bits) in cells {
                let source = match s.frames {
                    true => Source::Nowhere,
                    false => self.output(i, spot),
                };
                written.push((spot, bits, [source; 8]));
            }
        }
        for (spot, bits, bytes) in written {
            let to = self.bytes(spot);
            for b in (0..8).filter(|b| bits >> b & 1 != 0) {
                to[b] = bytes[b];
            }
        }
        Some(())
    }

    fn output(&mut self, insn: u8, spot: Spot) -> Source {
        // The halves of a register are written each for itself.
        let same = |o: &Output| o.insn == insn && o.spot == spot;
        let known = self.outputs.iter().rposition(same);
        let n = known.unwrap_or_else(|| {
            self.outputs.push(Output { insn, spot });
            self.outputs.len() - 1
        });
        Source::Output(n as u16)
    }

    /// What is kept for the caller is what it was, wherever it is.
    fn kept(&mut self, to: Spot, bits: u8, from: &[(Spot, u8)]) -> Option<Bytes> {
        let &[(from, 0xff)] = from else { return None };
        if bits != 0xff {
            return None;
        }
        let bytes = *self.bytes(from);
        if bytes.iter().any(|b| *b != bytes[0]) {
            return None;
        }
        Some(match bytes[0] {
            Source::Old => [Source::Input(self.input(from)); 8],
            // It is where the wish is noted; who wrote it is another.
            Source::Output(n) => [self.output(self.outputs[n as usize].insn, to); 8],
            known => [known; 8],
        })
    }

    fn end(self, shape: u32) -> Option<Variant> {
        let mut outputs: Vec<Output> = Vec::new();
        let mut numbers: Vec<Option<u8>> = vec![None; self.outputs.len()];
        let registers = self.registers.iter().map(|r| (Spot::Register(r.0), &r.1));
        let memory = self.memory.iter().map(|m| (Spot::Memory(m.0), &m.1));
        let mut updates = Vec::new();
        let mut whole = (Vec::new(), Vec::new());
        let mut passed = Vec::new();
        let mut flags = SmallVec::new();
        for (spot, bytes) in registers.chain(memory) {
            let mut parts: SmallVec<[(u8, Origin); 1]> = SmallVec::new();
            for (b, source) in bytes.iter().enumerate() {
                let origin = match *source {
                    Source::Old => continue,
                    Source::Nowhere => Origin::Nowhere,
                    Source::Input(n) => Origin::Input(n),
                    Source::Output(n) => {
                        Origin::Output(*numbers[n as usize].get_or_insert_with(|| {
                            outputs.push(self.outputs[n as usize]);
                            (outputs.len() - 1).min(MANY) as u8
                        }))
                    }
                };
                match parts.iter_mut().find(|p| p.1 == origin) {
                    Some(p) => p.0 |= 1 << b,
                    None => parts.push((1 << b, origin)),
                }
            }
            let is_input = |p: &(u8, Origin)| matches!(p.1, Origin::Input(_));
            match parts[..] {
                [] => continue,
                [(0xff, Origin::Input(n))] if self.inputs[n as usize] == spot => continue,
                [(0xff, Origin::Input(n))] => passed.push(n),
                _ if parts.iter().any(is_input) => return None,
                _ => {}
            }
            if spot == Spot::Register(FLAGS) {
                let outputs = parts.iter().filter_map(|p| match p.1 {
                    Origin::Output(output) => Some((p.0, output)),
                    _ => None,
                });
                flags.extend(outputs);
                continue;
            }
            match (spot, &parts[..]) {
                (Spot::Register(cell), [(0xff, Origin::Output(n))]) => whole.0.push((cell, *n)),
                (Spot::Memory(piece), [(0xff, Origin::Output(n))]) => whole.1.push((piece, *n)),
                _ => updates.push(Update { spot, parts }),
            }
        }
        if outputs.len() >= MANY || self.inputs.len() >= MANY {
            return None;
        }
        Some(Variant {
            shape,
            pieces: self.pieces.into(),
            inputs: self.inputs.into(),
            outputs: outputs.into(),
            whole_registers: whole.0.into(),
            whole_memory: whole.1.into(),
            updates: updates.into(),
            passed: passed.into(),
            flags_written: flags.iter().fold(0, |all, f: &(u8, u8)| all | f.0),
            flags,
            flags_read: self.flags_read,
        })
    }
}

/// Cells that so many bytes at an address are in.
#[inline]
pub(crate) fn count(addr: u64, len: u16) -> u64 {
    (addr % 8 + u64::from(len)).div_ceil(8)
}
