//! What an instruction reads and writes, byte by byte.
//!
//! Slices, value chains and provenance all ask the same question of an instruction: from which
//! bytes of registers and memory does each byte it writes come? [`Effects::of`] answers it for a
//! decoded instruction, without running it. The answer has three parts:
//!
//! * [`Access`]: the memory it touches, as a formula over registers, since addresses are known
//!   only when it runs;
//! * [`Transfer`]: one thing that is written and what its value is made of. An instruction that
//!   writes two unrelated things (`push` writes memory and `rsp`) has two transfers;
//! * [`Control`]: where it goes next.
//!
//! Registers that only say where memory is are no sources of a transfer. They are in
//! [`Access::registers`], because whether an address is a dependence is the asker's decision.
//!
//! The rule is that an output never depends on what is not listed. The other direction (what is
//! listed matters) is as exact as is cheap: moves, shuffles with a constant, and arithmetic on
//! the lanes of vectors are exact to the byte or lane; a scalar addition depends on all bytes of
//! its operands. What is not known here by name is taken from the instruction tables of
//! `iced-x86`, each output depending on each input.
//!
//! Not modelled: the instruction pointer (always known), the pointer to the top of the x87 stack,
//! the x87's last-instruction pointers, AMX tiles, and the registers of the kernel.

mod access;
mod build;
mod control;
mod file;
mod general;
mod lanes;
mod shuffle;
mod stack;
mod state;
mod strings;
mod x87;

use iced_x86::Instruction;
use smallvec::SmallVec;

pub use access::{Access, Address, Mask, Segment, Size, StateFormat};
pub use control::Control;
pub use file::*;
pub use state::{StatePart, state_parts};

/// Something that is read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    Register(RegRange),
    /// Bytes of an access of fixed size.
    Memory {
        access: u8,
        at: u16,
        len: u16,
    },
    /// All of an access whose size is known only when it happens.
    Whole(u8),
}

impl Place {
    /// Bytes, as far as they can be told in advance.
    pub fn len(self) -> Option<u16> {
        match self {
            Place::Register(range) => Some(range.len),
            Place::Memory { len, .. } => Some(len),
            Place::Whole(_) => None,
        }
    }

    /// Whether there is nothing in it.
    pub fn is_empty(self) -> bool {
        self.len() == Some(0)
    }

    /// `len` bytes from the byte `at` on. Of an unknown size, all.
    pub fn part(self, at: u16, len: u16) -> Place {
        match self {
            Place::Register(range) => Place::Register(range.part(at, len)),
            Place::Memory {
                access, at: start, ..
            } => Place::Memory {
                access,
                at: start + at,
                len,
            },
            Place::Whole(_) => self,
        }
    }
}

impl From<RegRange> for Place {
    fn from(range: RegRange) -> Place {
        Place::Register(range)
    }
}

/// An input of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    pub place: Place,
    /// Bytes of one lane of this source; 0 if every lane of the output depends on all of it. A
    /// source with fewer lanes than the output begins again with its first.
    pub lane: u16,
}

pub type Sources = SmallVec<[Source; 3]>;

/// A written place and what its new contents are made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    pub to: Place,
    /// The output consists of lanes of so many bytes, each with its own inputs; 0 for one lane.
    /// With lanes of one byte and one source this is a copy.
    pub lane: u16,
    /// Empty for constants, and for what comes from outside the program.
    pub from: Sources,
}

impl Transfer {
    /// What the byte `at` of the output depends on.
    ///
    /// Places of computed size are given as a whole; of those, lane by lane, the caller has to
    /// make its own sense.
    pub fn sources(&self, at: u16) -> impl Iterator<Item = Place> + '_ {
        let lane = at.checked_div(self.lane).unwrap_or(0);
        self.from.iter().map(move |source| {
            let lanes = source.place.len().and_then(|l| l.checked_div(source.lane));
            match lanes {
                Some(lanes) if lanes > 0 => {
                    source.place.part(lane % lanes * source.lane, source.lane)
                }
                _ => source.place,
            }
        })
    }

    /// The bytes that `len` bytes of the output, from the byte `offset` on, are a copy of.
    pub fn copied(&self, offset: u16, len: u16) -> Option<Place> {
        if self.lane != 1 {
            return None;
        }
        let byte = |at: u16| {
            let mut list = self.sources(at);
            let one = list.next()?;
            (list.next().is_none() && one.len() == Some(1)).then_some(one)
        };
        let first = byte(offset)?;
        for n in 1..len {
            let follows = match (first, byte(offset + n)?) {
                (Place::Register(a), Place::Register(b)) => b.at == a.at + n,
                (
                    Place::Memory {
                        access: x, at: a, ..
                    },
                    Place::Memory {
                        access: y, at: b, ..
                    },
                ) => x == y && b == a + n,
                _ => false,
            };
            if !follows {
                return None;
            }
        }
        Some(match first {
            Place::Register(r) => Place::Register(RegRange { at: r.at, len }),
            Place::Memory { access, at, .. } => Place::Memory { access, at, len },
            Place::Whole(n) => Place::Whole(n),
        })
    }

    /// Whether this moves bytes unchanged.
    pub fn is_copy(&self) -> bool {
        self.lane == 1
            && matches!(self.from.as_slice(), [source] if source.lane == 1
                && source.place.len() == self.to.len())
    }
}

/// All that an instruction reads and writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    pub transfers: SmallVec<[Transfer; 2]>,
    pub accesses: SmallVec<[Access; 2]>,
    pub control: Control,
    /// What decides where it goes: the flags of a branch, the register or memory of an indirect
    /// jump.
    pub decided_by: SmallVec<[Place; 2]>,
    /// Something it writes comes from outside the program: time, the processor, the kernel.
    pub outside: bool,
    /// It may write more than is listed here (a system call does).
    pub unknown: bool,
}

impl Effects {
    pub fn of(instruction: &Instruction) -> Effects {
        build::effects(instruction)
    }

    /// Registers that are read as data, to find an address, or to decide where to go.
    pub fn registers_read(&self) -> SmallVec<[RegRange; 8]> {
        let data = self.transfers.iter().flat_map(|t| &t.from).map(|s| s.place);
        let mut out: SmallVec<[RegRange; 8]> = SmallVec::new();
        for place in data.chain(self.decided_by.iter().copied()) {
            if let Place::Register(range) = place {
                out.push(range);
            }
        }
        for access in &self.accesses {
            out.extend(access.registers());
        }
        out.sort_unstable();
        out.dedup();
        out
    }

    pub fn registers_written(&self) -> impl Iterator<Item = RegRange> + '_ {
        self.transfers.iter().filter_map(|t| match t.to {
            Place::Register(range) => Some(range),
            _ => None,
        })
    }
}
