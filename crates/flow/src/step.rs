//! What one executed instruction does to what is wanted.
//!
//! This is the heart of a slice, and it is gone through in two ways: instruction by instruction with
//! the executions that want something ([`crate::slice`]), and once for all records in which the same
//! happens, with names for them ([`crate::learn`]).

use image::effects::{Place, RegRange, Transfer};
use smallvec::SmallVec;
use tape::Term;

use crate::plan::{Spot, Step, Values};
use crate::sources::{Uses, sources};
use crate::wanted::{Taken, Took, Wish};

/// A piece of memory.
#[derive(Clone, Copy)]
pub(crate) struct Piece<'a> {
    pub(crate) spot: &'a Spot,
    /// Where in the access it begins.
    pub(crate) offset: u64,
    pub(crate) addr: u64,
}

impl<'a> Piece<'a> {
    fn of(s: &'a Step, access: u8, offset: u64, values: &Values<'_>) -> Self {
        let spot = &s.spots[access as usize];
        Piece {
            spot,
            offset,
            addr: spot.address(values).wrapping_add(offset),
        }
    }

    /// At an address that is not where the access begins.
    fn at(self, addr: u64) -> Self {
        Piece { addr, ..self }
    }

    fn plus(self, n: u64) -> Self {
        Piece {
            offset: self.offset.wrapping_add(n),
            addr: self.addr.wrapping_add(n),
            ..self
        }
    }
}

/// What is wanted, where an instruction is looked at.
pub(crate) trait State {
    type Wish: Wish;

    /// The instruction decided about something that is in the slice, or was asked for by itself.
    fn is_asked(&mut self) -> bool;
    /// A conditional move did move.
    fn moved(&mut self, condition: Term) -> bool;
    fn take_register(&mut self, r: RegRange, out: &mut Taken<Self::Wish>);
    fn take_memory(&mut self, at: Piece<'_>, len: u64, out: &mut Taken<Self::Wish>);
    /// What was wanted of other bytes is wanted of these.
    fn pass_register(&mut self, r: RegRange, took: &Took<Self::Wish>);
    fn pass_memory(&mut self, at: Piece<'_>, took: &Took<Self::Wish>);
    /// Those who wanted this depend on the instruction.
    fn found(&mut self, taken: &Taken<Self::Wish>);
    /// The instruction is in the slice.
    fn include(&mut self);
    fn want_register(&mut self, r: RegRange);
    fn want_memory(&mut self, at: Piece<'_>, len: u64);
}

/// Room that is used again.
pub(crate) struct Room<W> {
    taken: Taken<W>,
    stretches: Vec<(u64, u64)>,
}

impl<W> Default for Room<W> {
    fn default() -> Self {
        Room {
            taken: Vec::new(),
            stretches: Vec::new(),
        }
    }
}

pub(crate) fn step<S: State>(
    state: &mut S,
    s: &Step,
    values: &Values<'_>,
    room: &mut Room<S::Wish>,
) {
    let inside = state.is_asked();
    let Room { taken, stretches } = room;
    let mut hit = inside;
    // Everything is taken before anything is wanted: an instruction reads before it writes.
    let mut uses = Uses::new();
    let mut addresses: SmallVec<[u8; 4]> = SmallVec::new();
    for t in &s.effects.transfers {
        taken.clear();
        let mut certain = true;
        match t.to {
            Place::Register(r) => {
                if r.general_number() == Some(4) && r.at < 128 {
                    continue;
                }
                state.take_register(r, taken);
            }
            Place::Memory { access, at, len } => {
                let piece = Piece::of(s, access, u64::from(at), values);
                state.take_memory(piece, u64::from(len), taken);
            }
            Place::Whole(access) => {
                stretches.clear();
                certain = s.spots[access as usize].stretches(values, stretches);
                let piece = Piece::of(s, access, 0, values);
                let mut offset = 0;
                for &(a, len) in stretches.iter() {
                    let from = taken.len();
                    state.take_memory(piece.at(a), len, taken);
                    for t in &mut taken[from..] {
                        t.at += offset;
                    }
                    offset += len;
                }
            }
        }
        if taken.is_empty() && !inside {
            continue;
        }
        if s.keeps && !inside {
            pass_on(state, s, t, values, taken);
            continue;
        }
        if s.frames && !inside {
            continue;
        }
        if let Some(c) = s.condition
            && !state.moved(c)
        {
            // A conditional move that did not move leaves the old value there.
            if let Place::Register(r) = t.to {
                for took in taken.iter() {
                    let part = r.part(took.at as u16, took.len as u16);
                    state.pass_register(part, took);
                }
            }
            continue;
        }
        if let Place::Whole(access) = t.to
            && !certain
        {
            // Perhaps it was not written at all: it is still wanted.
            let piece = Piece::of(s, access, 0, values);
            for took in taken.iter() {
                let mut begin = 0;
                for &(a, whole) in stretches.iter() {
                    if (begin..begin + whole).contains(&took.at) {
                        state.pass_memory(piece.at(a + (took.at - begin)), took);
                    }
                    begin += whole;
                }
            }
        }
        hit = true;
        state.found(taken);
        if let Place::Memory { access, .. } | Place::Whole(access) = t.to {
            addresses.push(access);
        }
        sources(t, taken, inside, &mut uses);
    }
    if !hit {
        return;
    }
    state.include();
    if inside {
        for p in &s.effects.decided_by {
            uses.push((*p, 0, p.len().map_or(u64::MAX, u64::from)));
        }
    }
    for (place, at, len) in uses {
        match place {
            Place::Register(r) => state.want_register(r),
            Place::Memory {
                access,
                at: from,
                len: all,
            } => {
                let (at, len) = (at.min(u64::from(all)), len.min(u64::from(all)));
                let piece = Piece::of(s, access, u64::from(from), values);
                state.want_memory(piece.plus(at), len);
                addresses.push(access);
            }
            Place::Whole(access) => {
                stretches.clear();
                s.spots[access as usize].stretches(values, stretches);
                let piece = Piece::of(s, access, 0, values);
                for &(a, whole) in stretches.iter() {
                    let (at, len) = (at.min(whole), len.min(whole - at.min(whole)));
                    state.want_memory(piece.at(a.wrapping_add(at)), len);
                }
                addresses.push(access);
            }
        }
    }
    addresses.sort_unstable();
    addresses.dedup();
    for n in addresses {
        for r in s.spots[n as usize].access.registers() {
            state.want_register(r);
        }
    }
}

/// Registers saved and restored: whoever wanted the one wants the other.
fn pass_on<S: State>(
    state: &mut S,
    s: &Step,
    t: &Transfer,
    values: &Values<'_>,
    taken: &Taken<S::Wish>,
) {
    let Some(source) = t.from.first() else { return };
    for took in taken {
        match source.place {
            Place::Register(r) => {
                let part = r.part(took.at as u16, took.len as u16);
                state.pass_register(part, took);
            }
            Place::Memory {
                access, at: from, ..
            } => {
                let piece = Piece::of(s, access, u64::from(from), values);
                state.pass_memory(piece.plus(took.at), took);
            }
            Place::Whole(_) => {}
        }
    }
}
