//! Where the variables of a thread are.
//!
//! A debugger knows the file a thread-local variable belongs to and its place within that file's block;
//! where the block of a thread is, only the C library knows. For debuggers it describes its own structures
//! in symbols: how wide a field is, how many there are, and where. So nothing here depends on its version.

use super::Session;

/// A block that the library has not made yet.
const NOT_YET: u64 = u64::MAX;

impl Session {
    /// The address of a thread's variable at `offset` of the block of the file with this `link_map`.
    pub fn thread_local(&mut self, tid: i32, link_map: u64, offset: u64) -> Option<u64> {
        let [module, vector, entries, value] = [
            "_thread_db_link_map_l_tls_modid",
            "_thread_db_pthread_dtvp",
            "_thread_db_dtv_dtv",
            "_thread_db_dtv_t_pointer_val",
        ]
        .map(|name| self.field(name));
        let (module, vector, entries, value) = (module?, vector?, entries?, value?);
        let thread = self.registers(tid)?.fs_base;
        // A program without libraries has no maps, and one block.
        let number = match link_map {
            0 => 1,
            map => self.word(map.checked_add(module.offset)?)?,
        };
        let vector = self.word(thread.checked_add(vector.offset)?)?;
        let entry = vector.checked_add(entries.offset + number.checked_mul(entries.bytes)?)?;
        let block = self.word(entry.checked_add(value.offset)?)?;
        match number {
            0 => None,
            _ if block == NOT_YET => None,
            _ => block.checked_add(offset),
        }
    }

    fn word(&self, addr: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        (self.read(addr, &mut bytes) == 8).then(|| u64::from_le_bytes(bytes))
    }

    /// What the C library says of one of its fields: its width in bits, how many there are, its offset.
    fn field(&mut self, name: &str) -> Option<Field> {
        let at = self.program().ok()?.address_of_variable(name)?;
        let mut bytes = [0; 12];
        if self.read(at, &mut bytes) != bytes.len() {
            return None;
        }
        let number = |i: usize| u32::from_le_bytes([0, 1, 2, 3].map(|k| bytes[4 * i + k]));
        Some(Field {
            bytes: u64::from(number(0)) / 8,
            offset: u64::from(number(2)),
        })
    }
}

struct Field {
    bytes: u64,
    offset: u64,
}
