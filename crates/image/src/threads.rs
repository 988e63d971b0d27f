//! Where a thread keeps its own copies of variables.
//!
//! The program's thread-local variables lie right below the address in FS. Those of libraries
//! are found through a vector that the thread control block points to, indexed by a number that
//! the dynamic linker gave each library. The number is nowhere in the files; it is certain when
//! one library alone has such variables, which is the C library in most programs.

use crate::module::Module;
use crate::program::{Memory, Program};

impl Program {
    /// The address of a thread-local variable, by its offset in the module's block.
    pub(crate) fn thread_local(
        &self,
        module: &Module,
        base: u64,
        offset: u64,
        memory: &dyn Memory,
    ) -> Option<u64> {
        let elf = module.contents.elf()?;
        let (size, alignment) = elf.thread_local_segment()?;
        if elf.is_program() {
            let below = size.checked_next_multiple_of(alignment)?;
            return Some(base.wrapping_sub(below).wrapping_add(offset));
        }
        let mut others = self.all_modules().iter().filter(|m| {
            let elf = m.contents.elf();
            elf.is_some_and(|e| e.thread_local_segment().is_some() && !e.is_program())
        });
        let only = others.next()?;
        if others.next().is_some() || !std::ptr::eq(only, module) {
            return None;
        }
        let program_has = self.all_modules().iter().any(|m| {
            let elf = m.contents.elf();
            elf.is_some_and(|e| e.is_program() && e.thread_local_segment().is_some())
        });
        let number = if program_has { 2 } else { 1 };
        let word = |address: u64| {
            let mut bytes = [0; 8];
            let read = memory.read(address, &mut bytes);
            read.then(|| u64::from_le_bytes(bytes))
        };
        let vector = word(base.checked_add(8)?)?;
        let block = word(vector.checked_add(16 * number)?)?;
        // A block that was not needed yet is not there yet.
        (block != u64::MAX && block != 0).then(|| block.wrapping_add(offset))
    }
}
