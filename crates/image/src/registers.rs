//! The registers of one frame, numbered as DWARF numbers them.
//!
//! DWARF names the general registers of x86-64 in an order of its own, and gives the return
//! address column (16) the role of the program counter. Frame 0 knows all registers; an unwound
//! frame knows only those its callees preserved, which is why there are two types.

/// All registers of a stopped thread.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Registers {
    pub rax: u64,
    pub rdx: u64,
    pub rcx: u64,
    pub rbx: u64,
    pub rsi: u64,
    pub rdi: u64,
    pub rbp: u64,
    pub rsp: u64,
    pub r8: u64,
    pub r9: u64,
    pub r10: u64,
    pub r11: u64,
    pub r12: u64,
    pub r13: u64,
    pub r14: u64,
    pub r15: u64,
    pub rip: u64,
    pub rflags: u64,
    /// Base of the thread control block; without it thread-local variables have no address.
    pub fs_base: Option<u64>,
    /// The low 128 bits of the vector registers, where floating point arguments live.
    pub xmm: Option<[u128; 16]>,
}

/// DWARF register numbers of x86-64 that this crate treats specially.
pub(crate) const RBX: u16 = 3;
pub(crate) const RBP: u16 = 6;
pub(crate) const RSP: u16 = 7;
pub(crate) const RIP: u16 = 16;
pub(crate) const XMM0: u16 = 17;
const RFLAGS: u16 = 49;
pub(crate) const FS_BASE: u16 = 58;

/// The registers the ABI obliges a function to hand back unchanged.
pub(crate) const CALLEE_SAVED: [u16; 6] = [RBX, RBP, 12, 13, 14, 15];

const NAMES: [&str; 17] = [
    "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15", "rip",
];

/// The registers of a frame as far as they are known.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct KnownRegisters {
    general: [Option<u64>; 17],
    rflags: Option<u64>,
    fs_base: Option<u64>,
    xmm: Option<[u128; 16]>,
    /// What the registers a callee may overwrite held last, further in. Right only if no callee
    /// did overwrite them.
    left: [Option<u64>; 17],
    left_xmm: Option<[u128; 16]>,
}

impl From<&Registers> for KnownRegisters {
    fn from(r: &Registers) -> Self {
        let general = [
            r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8, r.r9, r.r10, r.r11,
            r.r12, r.r13, r.r14, r.r15, r.rip,
        ];
        KnownRegisters {
            general: general.map(Some),
            rflags: Some(r.rflags),
            fs_base: r.fs_base,
            xmm: r.xmm,
            left: [None; 17],
            left_xmm: None,
        }
    }
}

impl KnownRegisters {
    /// The value of the register with this DWARF number.
    pub fn get(&self, number: u16) -> Option<u64> {
        match number {
            RFLAGS => self.rflags,
            FS_BASE => self.fs_base,
            _ => self.general.get(usize::from(number)).copied().flatten(),
        }
    }

    /// The value of a vector register with this DWARF number.
    pub fn get_vector(&self, number: u16) -> Option<u128> {
        let index = usize::from(number.checked_sub(XMM0)?);
        self.xmm?.get(index).copied()
    }

    /// What a register holds if the compiler vouches that no callee overwrote it.
    pub(crate) fn left(&self, number: u16) -> Option<u64> {
        self.left.get(usize::from(number)).copied().flatten()
    }

    pub(crate) fn left_vector(&self, number: u16) -> Option<u128> {
        let index = usize::from(number.checked_sub(XMM0)?);
        self.left_xmm?.get(index).copied()
    }

    /// The value of a register by its assembly name.
    pub fn by_name(&self, name: &str) -> Option<u64> {
        let number = NAMES.iter().position(|n| *n == name)?;
        self.general[number]
    }

    pub fn rip(&self) -> Option<u64> {
        self.get(RIP)
    }

    pub fn rsp(&self) -> Option<u64> {
        self.get(RSP)
    }

    pub fn rbp(&self) -> Option<u64> {
        self.get(RBP)
    }

    /// The general registers that are known, by assembly name, in DWARF order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        NAMES
            .iter()
            .zip(self.general)
            .filter_map(|(name, value)| Some((*name, value?)))
    }

    pub(crate) fn set(&mut self, number: u16, value: Option<u64>) {
        match number {
            RFLAGS => self.rflags = value,
            _ => {
                if let Some(slot) = self.general.get_mut(usize::from(number)) {
                    *slot = value;
                }
            }
        }
    }

    /// What a caller still knows when its callee left no record: the callee-saved registers and
    /// the thread's own state.
    pub(crate) fn preserved(&self) -> KnownRegisters {
        let mut out = KnownRegisters {
            fs_base: self.fs_base,
            left_xmm: self.xmm.or(self.left_xmm),
            ..KnownRegisters::default()
        };
        for (slot, (known, left)) in out.left.iter_mut().zip(self.general.iter().zip(self.left)) {
            *slot = known.or(left);
        }
        for number in CALLEE_SAVED {
            out.set(number, self.get(number));
        }
        out
    }
}

/// The assembly name of a DWARF register number, for messages.
pub(crate) fn name_of(number: u16) -> String {
    match NAMES.get(usize::from(number)) {
        Some(name) => (*name).to_string(),
        None if (XMM0..XMM0 + 16).contains(&number) => format!("xmm{}", number - XMM0),
        None => format!("register {number}"),
    }
}
