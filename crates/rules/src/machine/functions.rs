//! Functions that mean something to the abstract machine.
//!
//! The allocator's insides are no part of the program's doing: what counts is what was asked of it and
//! what it gave. The same goes for the string functions of the C library, whose vector loops read more
//! than they were asked to.

use super::models::{MODELS, Model};
use super::paths;
use crate::heap::Family;
use crate::term::Pair;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    pub name: String,
    pub role: Role,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    Allocate {
        family: Family,
        /// Parameters whose product is the size.
        size: Vec<u8>,
        zeroed: bool,
        /// The pointer is not returned but put where the first parameter points.
        stored: bool,
    },
    Release {
        family: Family,
        pointer: u8,
    },
    Reallocate {
        /// Parameters whose product is the size.
        size: Vec<u8>,
    },
    /// Says how much of a block may be used, which from then on is its size.
    Measures,
    /// Belongs to the allocator; its insides are not looked at.
    Inside,
    /// Judged by what it was asked to touch.
    Touches(Model),
    /// The program brings another function along that Memcheck is to call in its place, since how this one reads looks
    /// like a fault and is none: a comparison of strings by words, say.
    Replaced,
    /// Writes what a format says: the parameter that points to the format, and the one that points to a `va_list` of the
    /// arguments, unless they are the ones behind it.
    Formats {
        format: u8,
        wide: bool,
        list: Option<u8>,
    },
    /// One of the C library, looked into as any other, which gives the kernel these texts.
    Gives(Model),
    /// Ends the program.
    Ends,
    /// Only noted.
    Noted,
}

impl Role {
    /// Whether nothing inside of such a function is looked at, and whether only reads are not held against it.
    pub(super) fn hides(&self) -> (bool, bool) {
        match self {
            Role::Allocate { .. }
            | Role::Release { .. }
            | Role::Reallocate { .. }
            | Role::Measures
            | Role::Inside => (true, false),
            Role::Touches(m) => (m.whole, !m.whole),
            Role::Replaced => (false, true),
            Role::Formats { .. } | Role::Gives(_) | Role::Ends | Role::Noted => (false, false),
        }
    }

    /// The parameters that say what such a function is to do, a bit for each.
    pub(super) fn parameters(&self) -> u8 {
        let all = |list: &[u8]| list.iter().fold(0, |mask, n| mask | 1 << n);
        match self {
            Role::Allocate { size, .. } => all(size),
            Role::Release { pointer, .. } => 1 << pointer,
            Role::Reallocate { size } => 1 | all(size),
            Role::Measures => 1,
            Role::Touches(m) => m.parameters(),
            Role::Formats { format, .. } => 1 << format,
            Role::Gives(m) => m.parameters(),
            Role::Inside | Role::Replaced | Role::Ends | Role::Noted => 0,
        }
    }

    /// It is not what a program of its own means by the name.
    pub fn is_of_library(&self) -> bool {
        matches!(self, Role::Gives(_))
    }
}

/// Functions that may share their code, so that only the name they are called by tells them apart. The first is
/// the one that allows most.
pub const SHARED: [[&str; 2]; 2] = [["memmove", "memcpy"], ["__memmove_chk", "__memcpy_chk"]];

/// Functions that write what a format says, the parameter that points to it, and whether it is of wide characters.
const FORMATTING: [(&str, u8, bool); 27] = [
    ("printf", 0, false),
    ("fprintf", 1, false),
    ("dprintf", 1, false),
    ("sprintf", 1, false),
    ("snprintf", 2, false),
    ("asprintf", 1, false),
    ("obstack_printf", 1, false),
    ("__printf_chk", 1, false),
    ("__fprintf_chk", 2, false),
    ("__dprintf_chk", 2, false),
    ("__sprintf_chk", 3, false),
    ("__snprintf_chk", 4, false),
    ("__asprintf_chk", 2, false),
    ("__obstack_printf_chk", 2, false),
    ("wprintf", 0, true),
    ("fwprintf", 1, true),
    ("swprintf", 2, true),
    ("__wprintf_chk", 1, true),
    ("__fwprintf_chk", 2, true),
    ("__swprintf_chk", 4, true),
    ("syslog", 1, false),
    ("__syslog_chk", 2, false),
    ("err", 1, false),
    ("errx", 1, false),
    ("warn", 0, false),
    ("warnx", 0, false),
    ("error", 2, false),
];

/// The same of those that are given a `va_list`, which is the parameter behind the format.
const FORMATTING_LISTS: [(&str, u8, bool); 26] = [
    ("vprintf", 0, false),
    ("vfprintf", 1, false),
    ("vdprintf", 1, false),
    ("vsprintf", 1, false),
    ("vsnprintf", 2, false),
    ("vasprintf", 1, false),
    ("obstack_vprintf", 1, false),
    ("__vprintf_chk", 1, false),
    ("__vfprintf_chk", 2, false),
    ("__vdprintf_chk", 2, false),
    ("__vsprintf_chk", 3, false),
    ("__vsnprintf_chk", 4, false),
    ("__vasprintf_chk", 2, false),
    ("__obstack_vprintf_chk", 2, false),
    ("vwprintf", 0, true),
    ("vfwprintf", 1, true),
    ("vswprintf", 2, true),
    ("__vwprintf_chk", 1, true),
    ("__vfwprintf_chk", 2, true),
    ("__vswprintf_chk", 4, true),
    ("vsyslog", 1, false),
    ("__vsyslog_chk", 2, false),
    ("verr", 1, false),
    ("verrx", 1, false),
    ("vwarn", 0, false),
    ("vwarnx", 0, false),
];

/// The functions that are known by name, with the pairs that the user declared.
pub fn known(pairs: &[Pair]) -> Vec<Function> {
    let mut out: Vec<Function> = Vec::new();
    let mut add = |name: &str, role: Role| {
        out.push(Function {
            name: name.to_owned(),
            role,
        });
    };
    for (n, p) in pairs.iter().enumerate() {
        let family = Family::Declared(n as u16);
        let size = p.size.clone();
        add(
            &p.allocate,
            Role::Allocate {
                family,
                size,
                zeroed: false,
                stored: false,
            },
        );
        add(
            &p.release,
            Role::Release {
                family,
                pointer: p.pointer,
            },
        );
    }
    let allocate = |family, size: &[u8]| Role::Allocate {
        family,
        size: size.to_vec(),
        zeroed: false,
        stored: false,
    };
    let malloc = Family::Malloc;
    add("malloc", allocate(malloc, &[0]));
    add("valloc", allocate(malloc, &[0]));
    add("pvalloc", allocate(malloc, &[0]));
    add("memalign", allocate(malloc, &[1]));
    add("aligned_alloc", allocate(malloc, &[1]));
    add(
        "calloc",
        Role::Allocate {
            family: malloc,
            size: vec![0, 1],
            zeroed: true,
            stored: false,
        },
    );
    add(
        "posix_memalign",
        Role::Allocate {
            family: malloc,
            size: vec![2],
            zeroed: false,
            stored: true,
        },
    );
    add("realloc", Role::Reallocate { size: vec![1] });
    add("reallocarray", Role::Reallocate { size: vec![1, 2] });
    add(
        "free",
        Role::Release {
            family: malloc,
            pointer: 0,
        },
    );
    add(
        "cfree",
        Role::Release {
            family: malloc,
            pointer: 0,
        },
    );
    for name in [
        "_Znwm",
        "_ZnwmRKSt9nothrow_t",
        "_ZnwmSt11align_val_t",
        "_ZnwmSt11align_val_tRKSt9nothrow_t",
    ] {
        add(name, allocate(Family::New, &[0]));
    }
    for name in [
        "_Znam",
        "_ZnamRKSt9nothrow_t",
        "_ZnamSt11align_val_t",
        "_ZnamSt11align_val_tRKSt9nothrow_t",
    ] {
        add(name, allocate(Family::NewArray, &[0]));
    }
    for tail in [
        "Pv",
        "Pvm",
        "PvRKSt9nothrow_t",
        "PvSt11align_val_t",
        "PvmSt11align_val_t",
        "PvSt11align_val_tRKSt9nothrow_t",
    ] {
        add(
            &format!("_Zdl{tail}"),
            Role::Release {
                family: Family::New,
                pointer: 0,
            },
        );
        add(
            &format!("_Zda{tail}"),
            Role::Release {
                family: Family::NewArray,
                pointer: 0,
            },
        );
    }
    add("malloc_usable_size", Role::Measures);
    for name in [
        "malloc_trim",
        "malloc_stats",
        "malloc_info",
        "mallinfo",
        "mallinfo2",
        "mallopt",
        "__libc_freeres",
        "__malloc_arena_thread_freeres",
        "__malloc_hugepage_config",
    ] {
        add(name, Role::Inside);
    }
    for (name, model) in MODELS {
        add(name, Role::Touches(model));
    }
    for (name, format, wide) in FORMATTING {
        let list = None;
        add(name, Role::Formats { format, wide, list });
    }
    for (name, format, wide) in FORMATTING_LISTS {
        // It is the next parameter.
        let list = Some(format + 1);
        add(name, Role::Formats { format, wide, list });
    }
    for (name, model) in paths::functions() {
        add(name, Role::Gives(model));
    }
    for name in ["exit", "_exit", "_Exit", "quick_exit"] {
        add(name, Role::Ends);
    }
    add("main", Role::Noted);
    out
}
