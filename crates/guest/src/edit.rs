//! Edits: what is changed in a run that otherwise repeats the recording.

use iced_x86::{ConditionCode, Decoder, DecoderOptions};
use rustc_hash::FxHashMap;

use crate::Error;
use crate::engine::register_mut;
use crate::replay::Replay;
use crate::stops::Purpose;
use crate::translate::{Displacement, displaced_at};

/// How far from code a place may be that it refers to.
const REACH: u64 = 1 << 30;

/// The n-th execution of an address, counted from where the edit was made. If the guest stands
/// before that instruction, what it is about to do is the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub pc: u64,
    pub nth: u64,
}

/// A change of the guest's state or of its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Gives a general register (by hardware number, 0 = rax) another value before the instruction.
    Register { at: Place, register: u8, value: u64 },
    /// Gives memory other contents before the instruction.
    Memory {
        at: Place,
        addr: u64,
        bytes: Vec<u8>,
    },
    /// Does not execute the instruction.
    Skip { at: Place },
    /// Lets a conditional branch go the other way, once.
    Branch { at: Place },
    /// Lets a conditional branch always go the other way.
    BranchAlways { pc: u64 },
    /// Always goes on at `to` instead of executing the instruction, which is not counted as a step.
    JumpAlways { pc: u64, to: u64 },
    /// A conditional branch that leads to one of `exits` always leads to the other one; it is not
    /// counted as a step.
    SwitchAlways { pc: u64, exits: [u64; 2] },
    /// Memory of its own for the run, from now on: zeroes, at an address that nothing is at.
    Map { addr: u64, len: u64 },
    /// From now on instructions refer to other addresses than those in them. With memory for it, and what was at the
    /// old address, that moves a variable.
    Refer { references: Vec<Reference> },
}

/// An address in an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    pub pc: u64,
    pub operand: Operand,
    /// How far from it the one is that is meant.
    pub by: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// The operand in memory. Also that of `lea`, and `mov REGISTER, rsp`, which is a `lea` without a distance.
    Memory,
    Immediate,
}

/// Names an edit of one replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EditId(pub u32);

impl Replay {
    /// Adds an edit. From its first effect on, the run is no longer that of the recording; it
    /// takes its results from there as long as it makes the same system calls.
    pub fn edit(&mut self, edit: Edit) -> Result<EditId, Error> {
        let id = self.last_edit;
        if let Edit::Register { register: 16.., .. } = edit {
            return Err(Error::Request(
                "general registers are numbered from 0 to 15".into(),
            ));
        }
        if let Edit::Memory { addr, bytes, .. } = &edit
            && self
                .engine
                .owns(*addr, addr.saturating_add(bytes.len() as u64))
        {
            return Err(Error::Unmapped(*addr));
        }
        match &edit {
            Edit::Register { at, .. } | Edit::Memory { at, .. } | Edit::Skip { at } => {
                self.stops.add_edit(&mut self.engine, at.pc, at.nth, id)?;
            }
            Edit::Branch { at } => {
                self.conditional_at(at.pc)?;
                self.stops.add_edit(&mut self.engine, at.pc, at.nth, id)?;
            }
            Edit::BranchAlways { pc } => {
                self.conditional_at(*pc)?;
                self.engine.flip(*pc, true);
                self.edited = true;
            }
            Edit::JumpAlways { pc, .. } => {
                self.stops.add_edit(&mut self.engine, *pc, 1, id)?;
            }
            Edit::SwitchAlways { pc, .. } => {
                self.conditional_at(*pc)?;
                self.stops.add_edit(&mut self.engine, *pc, 1, id)?;
            }
            Edit::Map { addr, len } => self.map_room(*addr, *len)?,
            Edit::Refer { references } => self.check_references(references)?,
        }
        self.last_edit += 1;
        let refers = matches!(edit, Edit::Refer { .. });
        self.edits.insert(EditId(id), edit);
        if refers {
            self.redirect();
            self.edited = true;
        }
        Ok(EditId(id))
    }

    /// Turns round exactly the branches that the edits say.
    pub(crate) fn reflip(&mut self) {
        let always = self.edits.values().filter_map(|e| match e {
            Edit::BranchAlways { pc } => Some(*pc),
            _ => None,
        });
        self.engine.set_flipped(always.collect());
    }

    /// Has exactly the instructions refer elsewhere that the edits say.
    pub(crate) fn redirect(&mut self) {
        let mut displaced: FxHashMap<u64, Displacement> = FxHashMap::default();
        let lists = self.edits.values().filter_map(|e| match e {
            Edit::Refer { references } => Some(references),
            _ => None,
        });
        for r in lists.flatten() {
            add(&mut displaced, r);
        }
        self.engine.set_displaced(displaced);
    }

    /// Whether there are such instructions, and such as refer to the other addresses.
    fn check_references(&self, references: &[Reference]) -> Result<(), Error> {
        let mut displaced = FxHashMap::default();
        for r in references {
            add(&mut displaced, r);
        }
        for (pc, by) in displaced {
            let i = self.instruction_at(pc)?;
            if displaced_at(&i, by).is_none() {
                return Err(Error::Request(format!(
                    "`{i}` at {pc:#x} cannot refer to something {:#x} bytes away",
                    if by.memory == 0 {
                        by.immediate
                    } else {
                        by.memory
                    }
                )));
            }
        }
        Ok(())
    }

    /// A place for so many bytes that nothing is at and that code near `addr` can refer to.
    pub fn room_near(&mut self, addr: u64, len: u64) -> Result<Option<u64>, Error> {
        self.engine.refresh_maps()?;
        Ok(self.engine.maps.gap_near(addr, len, REACH))
    }

    fn map_room(&mut self, addr: u64, len: u64) -> Result<(), Error> {
        let (prot, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE,
        );
        let args = [addr, len, prot as u64, flags as u64, u64::MAX, 0];
        match self.engine.inject(libc::SYS_mmap, args)? {
            at if at as u64 == addr => {
                self.engine.space_changed();
                self.edited = true;
                Ok(())
            }
            _ => Err(Error::Request(format!(
                "no {len} bytes of memory can be had at {addr:#x}"
            ))),
        }
    }

    /// Takes an edit back; what it has done already stays done.
    pub fn remove_edit(&mut self, id: EditId) -> Result<(), Error> {
        match self.edits.remove(&id) {
            None => return Err(Error::Request(format!("there is no edit {}", id.0))),
            Some(Edit::BranchAlways { pc }) => self.engine.flip(pc, false),
            Some(Edit::Refer { .. }) => self.redirect(),
            Some(_) => {}
        }
        self.stops
            .remove(&mut self.engine, |p| p == Purpose::Edit(id.0))
    }

    pub fn edits(&self) -> Vec<(EditId, Edit)> {
        self.edits.iter().map(|(&id, e)| (id, e.clone())).collect()
    }

    fn instruction_at(&self, pc: u64) -> Result<iced_x86::Instruction, Error> {
        let mut bytes = [0; 15];
        let n = self.engine.memory.read(pc, &mut bytes);
        let i = Decoder::with_ip(64, &bytes[..n], pc, DecoderOptions::NONE).decode();
        if i.is_invalid() {
            Err(Error::Request(format!(
                "there is no instruction at {pc:#x}"
            )))
        } else {
            Ok(i)
        }
    }

    fn conditional_at(&self, pc: u64) -> Result<iced_x86::Instruction, Error> {
        let i = self.instruction_at(pc)?;
        if i.is_jcc_short_or_near() {
            Ok(i)
        } else {
            Err(Error::Request(format!(
                "the instruction at {pc:#x} is not a conditional branch"
            )))
        }
    }

    /// Carries out the edit that is due at the present boundary. True if it took the place of the
    /// instruction there.
    pub(crate) fn apply_edit(&mut self, id: u32) -> Result<bool, Error> {
        let Some(edit) = self.edits.get(&EditId(id)).cloned() else {
            return Ok(false);
        };
        self.edited = true;
        match edit {
            Edit::Register {
                register, value, ..
            } => {
                *register_mut(&mut self.engine.regs, register) = value;
                Ok(false)
            }
            Edit::Memory { addr, bytes, .. } => {
                self.engine.put(addr, &bytes)?;
                Ok(false)
            }
            Edit::Skip { at } => {
                let i = self.instruction_at(at.pc)?;
                self.engine.regs.rip = i.next_ip();
                self.engine.add_steps(1)?;
                Ok(true)
            }
            Edit::Branch { at } => {
                let i = self.conditional_at(at.pc)?;
                let taken = condition_holds(i.condition_code(), self.engine.regs.eflags);
                self.engine.regs.rip = if taken {
                    i.next_ip()
                } else {
                    i.near_branch_target()
                };
                self.engine.add_steps(1)?;
                Ok(true)
            }
            Edit::BranchAlways { .. } | Edit::Map { .. } | Edit::Refer { .. } => Ok(false),
            Edit::JumpAlways { pc, to } => {
                self.engine.regs.rip = to;
                self.again(pc, id)?;
                Ok(true)
            }
            Edit::SwitchAlways { pc, exits } => {
                let i = self.conditional_at(pc)?;
                let next = if condition_holds(i.condition_code(), self.engine.regs.eflags) {
                    i.near_branch_target()
                } else {
                    i.next_ip()
                };
                let [one, other] = exits;
                self.engine.regs.rip = match next {
                    n if n == one => other,
                    n if n == other => one,
                    n => n,
                };
                self.again(pc, id)?;
                Ok(true)
            }
        }
    }
}

impl Replay {
    /// Has an edit that is meant for every execution done at the next one too.
    fn again(&mut self, pc: u64, id: u32) -> Result<(), Error> {
        self.stops.add(&mut self.engine, pc, 1, Purpose::Edit(id))
    }
}

fn add(displaced: &mut FxHashMap<u64, Displacement>, r: &Reference) {
    let of = displaced.entry(r.pc).or_default();
    match r.operand {
        Operand::Memory => of.memory = of.memory.wrapping_add(r.by),
        Operand::Immediate => of.immediate = of.immediate.wrapping_add(r.by),
    }
}

/// Whether a branch with this condition is taken when the flags are these.
pub fn condition_holds(condition: ConditionCode, flags: u64) -> bool {
    let (cf, pf, zf) = (flags & 1 != 0, flags >> 2 & 1 != 0, flags >> 6 & 1 != 0);
    let (sf, of) = (flags >> 7 & 1 != 0, flags >> 11 & 1 != 0);
    match condition {
        ConditionCode::None => true,
        ConditionCode::o => of,
        ConditionCode::no => !of,
        ConditionCode::b => cf,
        ConditionCode::ae => !cf,
        ConditionCode::e => zf,
        ConditionCode::ne => !zf,
        ConditionCode::be => cf || zf,
        ConditionCode::a => !cf && !zf,
        ConditionCode::s => sf,
        ConditionCode::ns => !sf,
        ConditionCode::p => pf,
        ConditionCode::np => !pf,
        ConditionCode::l => sf != of,
        ConditionCode::ge => sf == of,
        ConditionCode::le => zf || sf != of,
        ConditionCode::g => !zf && sf == of,
    }
}
