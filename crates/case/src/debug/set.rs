//! Values that are set and branches that are turned round at one execution of an instruction.

use guest::UserRegs;
use iced_x86::{Decoder, DecoderOptions, FlowControl};
use locate::{Location, Shape, When};

use super::Session;
use super::statement::{EditKind, EditRequest, Times};
use super::timeline::What;
use crate::Error;
use crate::set::{SetRequest, Target, Where, look, variable};
use crate::trace::{Action, Values};

impl Session {
    /// Makes the change that is asked for. Says at which step it takes effect.
    pub fn set(&mut self, request: &SetRequest) -> Result<u64, Error> {
        if let (Where::Line { file, line }, true) = (&request.place, request.values.is_empty()) {
            return self.edit(&EditRequest {
                kind: EditKind::Switch,
                file: file.clone(),
                line: *line,
                times: Times::Nth(request.nth),
            });
        }
        self.settle()?;
        let here = self.step()?;
        let result = self.set_there(request, here);
        let effect = match result {
            Ok(()) => self.step(),
            Err(e) => Err(e),
        };
        self.stay(here)?;
        effect
    }

    /// Goes to the place of the change and makes it.
    fn set_there(&mut self, request: &SetRequest, here: u64) -> Result<(), Error> {
        let early = || {
            Error::BadSet(format!(
                "the run ends before the place has been executed {} times",
                request.nth
            ))
        };
        let at = match &request.place {
            Where::Address(pc) => vec![*pc],
            Where::Line { file, line } => {
                let starts = self.line_starts(file, *line)?.unwrap_or_default();
                if starts.is_empty() {
                    return Err(Error::BadSet(format!("there is no code at {file}:{line}")));
                }
                starts
            }
        };
        self.go(0)?;
        if !self.find_nth(&at, request.nth)? {
            return Err(early());
        }
        let mut regs = self.replay.regs();
        if request.values.is_empty() {
            regs.rip = self.other_way(&regs)?;
            return self.put(here, request, regs, Vec::new());
        }
        let shape = self.shape(regs.rip);
        let operand = shape.as_ref().and_then(|s| operand(s, &mut regs));
        if request.when == When::After {
            let step = self.step()? + 1;
            self.go(step)?;
            if self.step()? != step {
                return Err(early());
            }
            regs = self.replay.regs();
        }
        let mut writes = Vec::new();
        for (target, value) in &request.values {
            let location = match target {
                Target::Location(l) => *l,
                Target::Operand => operand.ok_or_else(|| {
                    Error::BadSet("the instruction has nothing in memory".to_owned())
                })?,
                Target::Variable(name) => {
                    let found = look(&mut self.replay, |m| variable(m, name));
                    found.map_err(|e| self.wrong(e))?.ok_or_else(|| {
                        Error::BadSet(format!("there is no variable `{name}` in memory there"))
                    })?
                }
            };
            location_put(&mut regs, &mut writes, location, *value as u64);
        }
        self.put(here, request, regs, writes)
    }

    fn put(
        &mut self,
        here: u64,
        request: &SetRequest,
        regs: UserRegs,
        writes: Vec<(u64, Vec<u8>)>,
    ) -> Result<(), Error> {
        let action = Action::Put(Box::new(Values {
            regs,
            vectors: None,
            writes,
        }));
        match self.change(here, What::Set(request.clone()), action) {
            Err(Error::Engine {
                error: guest::Error::Unmapped(a),
                ..
            }) => Err(Error::BadSet(format!("there is no memory at {a:#x}"))),
            other => other,
        }
    }

    fn shape(&self, pc: u64) -> Option<Shape> {
        let mut code = [0; 15];
        let n = self.replay.read(pc, &mut code);
        Shape::decode(pc, &code[..n])
    }

    /// Where the conditional branch or call that is next does not lead.
    fn other_way(&self, regs: &UserRegs) -> Result<u64, Error> {
        let mut code = [0; 15];
        let n = self.replay.read(regs.rip, &mut code);
        let insn = Decoder::with_ip(64, &code[..n], regs.rip, DecoderOptions::NONE).decode();
        if matches!(
            insn.flow_control(),
            FlowControl::Call | FlowControl::IndirectCall
        ) {
            return Ok(insn.next_ip());
        }
        if !insn.is_jcc_short_or_near() {
            return Err(Error::BadSet(format!(
                "there is no conditional branch or call at {:#x}",
                regs.rip
            )));
        }
        let taken = guest::condition_holds(insn.condition_code(), regs.eflags);
        Ok(match taken {
            true => insn.next_ip(),
            false => insn.near_branch_target(),
        })
    }
}

/// Where the instruction that is next has its memory operand.
fn operand(shape: &Shape, regs: &mut UserRegs) -> Option<Location> {
    let all: [u64; 16] = std::array::from_fn(|n| *guest::register_mut(regs, n as u8));
    let list = shape.uses.iter().chain(&shape.defines);
    let mut memory = list.filter(|o| o.place.is_memory());
    memory.next().map(|o| o.location(shape.address(&all)))
}

/// Notes what is to be written where.
pub(crate) fn location_put(
    regs: &mut UserRegs,
    writes: &mut Vec<(u64, Vec<u8>)>,
    location: Location,
    value: u64,
) {
    match location {
        Location::Memory { address, size } => {
            let bytes = value.to_le_bytes();
            writes.push((address, bytes[..usize::from(size.clamp(1, 8))].to_vec()));
        }
        Location::Register { number, size, high } => {
            let r = guest::register_mut(regs, number);
            *r = merge(*r, value, size, high);
        }
    }
}

/// A register after a write of a part of it.
fn merge(old: u64, value: u64, size: u8, high: bool) -> u64 {
    match (size, high) {
        (1, true) => old & !0xff00 | (value & 0xff) << 8,
        (1, false) => old & !0xff | value & 0xff,
        (2, _) => old & !0xffff | value & 0xffff,
        (4, _) => value & 0xffff_ffff,
        _ => value,
    }
}
