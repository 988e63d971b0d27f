//! Where the guest came from, and who made it come: for a program counter that is garbage.
//!
//! The instruction before, and for a return or a jump through memory the slot that held the address
//! and the last write to it. No tape is needed: going back to a write is what a debugger does anyway.

use guest::{Halt, Until};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};
use serde::Serialize;

use super::{Session, Watch, Why};
use crate::Error;
use crate::access;
use crate::moment;
use crate::position;
use crate::set::look;

/// How control came to where it is.
#[derive(Clone, Debug, Serialize)]
pub struct CameFrom {
    pub pc: u64,
    /// There is no code there.
    pub nowhere: bool,
    /// The instruction before, its step and its place.
    pub previous: u64,
    pub step: u64,
    pub place: String,
    pub instruction: String,
    /// The memory from which the address was taken.
    pub slot: Option<u64>,
    pub writer: Option<Writer>,
}

/// Who wrote the slot.
#[derive(Clone, Debug, Serialize)]
pub struct Writer {
    pub step: u64,
    pub pc: u64,
    /// The statement of the user's that did it, or called what did it.
    pub place: String,
    pub text: Option<String>,
    /// The function of a library that did it.
    pub inside: Option<String>,
}

impl Session {
    /// How the guest came to the instruction that is next.
    pub fn came_from(&mut self) -> Result<CameFrom, Error> {
        self.settle()?;
        let here = self.step()?;
        let result = self.look_back(here);
        self.stay(here)?;
        result
    }

    fn look_back(&mut self, here: u64) -> Result<CameFrom, Error> {
        let before = here
            .checked_sub(1)
            .ok_or_else(|| Error::Request("nothing was executed before this".to_owned()))?;
        let pc = self.replay.regs().rip;
        let code = |m: &crate::moment::Moment<'_>| m.is_code(pc);
        let nowhere = !look(&mut self.replay, code).map_err(|e| self.wrong(e))?;
        self.go(before)?;
        let regs = self.replay.regs();
        let mut bytes = [0; 15];
        let n = self.replay.read(regs.rip, &mut bytes);
        let insn = Decoder::with_ip(64, &bytes[..n], regs.rip, DecoderOptions::NONE).decode();
        let at = look(&mut self.replay, position::here).map_err(|e| self.wrong(e))?;
        let place = self.place()?;
        let slot = slot(&insn, &regs);
        let writer = match slot {
            Some(addr) => self.last_write(addr, before)?,
            None => None,
        };
        Ok(CameFrom {
            pc,
            nowhere,
            previous: regs.rip,
            step: before,
            place,
            instruction: at.instruction.map_or_else(String::new, |i| i.text),
            slot,
            writer,
        })
    }

    /// The last write to a word before a step.
    fn last_write(&mut self, addr: u64, before: u64) -> Result<Option<Writer>, Error> {
        let watch = Watch {
            addr,
            len: 8,
            read: false,
            write: true,
        };
        let breakpoints = std::mem::take(&mut self.breakpoints);
        let watches = std::mem::replace(&mut self.watches, vec![watch]);
        let catch = std::mem::take(&mut self.catch);
        let found = self.back_to_stop(before);
        (self.breakpoints, self.watches, self.catch) = (breakpoints, watches, catch);
        if !matches!(found?, Why::Watch(_)) {
            return Ok(None);
        }
        let step = self.step()?;
        let pc = self.replay.regs().rip;
        let at = look(&mut self.replay, position::here).map_err(|e| self.wrong(e))?;
        let frames = &at.stack.frames;
        let own = frames.iter().find(|f| f.own).or(frames.first());
        let inside = frames.first().filter(|f| !f.own);
        let place = own.map_or_else(
            || format!("{pc:#x}"),
            |f| match (&f.file, f.line) {
                (Some(file), Some(line)) => {
                    let name = file.file_name().unwrap_or(file.as_os_str());
                    let function = f.function.as_deref().unwrap_or("?");
                    format!("{function} at {}:{line}", name.to_string_lossy())
                }
                _ => f.function.clone().unwrap_or_else(|| format!("{:#x}", f.pc)),
            },
        );
        let line = own.and_then(|f| Some((f.file.clone()?, f.line?)));
        let text = line.and_then(|(file, line)| self.program.source_line(&file, line));
        Ok(Some(Writer {
            step,
            pc,
            place,
            text: text.map(|t| t.trim().to_owned()),
            inside: inside.and_then(|f| f.function.clone()),
        }))
    }

    /// Goes on to where a function returns, and says whether `stop` came first.
    pub(super) fn until_return(&mut self, until: Until) -> Result<bool, Error> {
        let entry = self.replay.regs().rsp;
        let mut word = [0; 8];
        self.replay.read(entry, &mut word);
        let home = u64::from_le_bytes(word);
        let mut until = until;
        until.stops = vec![guest::StopAt { pc: home, nth: 1 }];
        until.signals = true;
        loop {
            match self.run(&until)? {
                Halt::Stop(_) if self.replay.regs().rsp > entry => return Ok(false),
                Halt::Access => return Ok(true),
                Halt::Stop(_) | Halt::Signal(_) => {}
                Halt::Interrupted => return Err(Error::Interrupted),
                _ => return Ok(false),
            }
        }
    }
}

/// The memory from which an instruction takes where it goes.
fn slot(insn: &Instruction, regs: &guest::UserRegs) -> Option<u64> {
    match insn.flow_control() {
        FlowControl::Return => Some(regs.rsp),
        FlowControl::IndirectBranch | FlowControl::IndirectCall => {
            let operands = access::operands(insn, &moment::registers(regs));
            operands.iter().find(|o| o.read).map(|o| o.address)
        }
        _ => None,
    }
}
