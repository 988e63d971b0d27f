//! Edits: what is changed in a run that otherwise repeats the recording.

use iced_x86::{ConditionCode, Decoder, DecoderOptions};

use crate::Error;
use crate::engine::register_mut;
use crate::replay::Replay;
use crate::stops::Purpose;

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
        }
        self.last_edit += 1;
        self.edits.insert(EditId(id), edit);
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

    /// Takes an edit back; what it has done already stays done.
    pub fn remove_edit(&mut self, id: EditId) -> Result<(), Error> {
        match self.edits.remove(&id) {
            None => return Err(Error::Request(format!("there is no edit {}", id.0))),
            Some(Edit::BranchAlways { pc }) => self.engine.flip(pc, false),
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
            Edit::BranchAlways { .. } => Ok(false),
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
