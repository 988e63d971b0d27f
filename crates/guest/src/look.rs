//! Looking at a replayed guest that is stopped.

use std::collections::HashMap;
use std::path::PathBuf;

use crate::Error;
use crate::maps::Mapping;
use crate::ptrace::UserRegs;
use crate::replay::Replay;

impl Replay {
    /// The general registers, in guest terms.
    pub fn regs(&self) -> UserRegs {
        self.engine.regs
    }

    /// Reads guest memory; says how many bytes were there.
    pub fn read(&self, addr: u64, buf: &mut [u8]) -> usize {
        self.engine.memory.read(addr, buf)
    }

    /// The guest's mappings. Those of files have the names of the stored copies.
    pub fn mappings(&mut self) -> Result<Vec<Mapping>, Error> {
        if self.ended.is_some() {
            return Err(Error::Ended);
        }
        self.engine.refresh_maps()?;
        Ok(self.engine.maps.list.clone())
    }

    /// What the guest knew stored files as, by the path of the copy.
    pub fn stored(&self) -> &HashMap<PathBuf, PathBuf> {
        &self.names
    }
}
