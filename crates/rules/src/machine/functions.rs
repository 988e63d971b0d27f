//! Functions that mean something to the abstract machine.
//!
//! The allocator's insides are no part of the program's doing: what counts is what was asked of it and
//! what it gave. The same goes for the string functions of the C library, whose vector loops read more
//! than they were asked to.

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
            Role::Ends | Role::Noted => (false, false),
        }
    }
}

/// Memory that a function was asked to touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// The parameter that points to it.
    pub pointer: u8,
    pub extent: Extent,
    pub writes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// As many bytes as this parameter says.
    Bytes(u8),
    /// The first byte, in any case. Where the rest ends is a matter of what is in it.
    First,
    /// The first byte, if this parameter is not zero.
    FirstOf(u8),
    /// Up to what the function found, or if it found nothing, as many bytes as the parameter says: known when it is over.
    Until(u8),
    /// As many bytes as the function returns, and one more: known when it is over.
    Result,
    /// The smaller of what it returns and a parameter says.
    ResultUpTo(u8),
}

impl Touch {
    /// So many bytes, if that is known when the function is called.
    pub(super) fn at_call(&self, arguments: &[u64; 6]) -> Option<u64> {
        match self.extent {
            Extent::Bytes(n) => Some(arguments[n as usize]),
            Extent::First => Some(1),
            Extent::FirstOf(n) => Some(arguments[n as usize].min(1)),
            Extent::Result | Extent::ResultUpTo(_) | Extent::Until(_) => None,
        }
    }

    /// So many bytes, if that is known when the function returns, and not before.
    pub(super) fn at_return(&self, result: u64, arguments: &[u64; 6]) -> Option<u64> {
        let until_result = result.saturating_add(1);
        match self.extent {
            Extent::Result => Some(until_result),
            Extent::ResultUpTo(n) => Some(until_result.min(arguments[n as usize])),
            Extent::Until(n) if result == 0 => Some(arguments[n as usize]),
            Extent::Until(_) => {
                let begin = arguments[usize::from(self.pointer)];
                Some(result.wrapping_sub(begin).saturating_add(1))
            }
            Extent::Bytes(_) | Extent::First | Extent::FirstOf(_) => None,
        }
    }
}

const fn reads(pointer: u8, extent: Extent) -> Touch {
    Touch {
        pointer,
        extent,
        writes: false,
    }
}

const fn writes(pointer: u8, extent: Extent) -> Touch {
    Touch {
        pointer,
        extent,
        writes: true,
    }
}

/// What a function of the C library does, whatever its instructions do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    pub touches: &'static [Touch],
    pub effect: Effect,
    /// The parameter into whose block the result points.
    pub result: Option<u8>,
    /// Nothing inside of it is looked at. Otherwise what it writes is.
    pub whole: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Nothing,
    /// From the second parameter to the first, as many bytes as the third says.
    Copies,
    /// The first parameter, as many bytes as the third says.
    Fills,
}

const fn model(touches: &'static [Touch], effect: Effect, result: Option<u8>) -> Model {
    Model {
        touches,
        effect,
        result,
        whole: true,
    }
}

const COPY: Model = {
    const TOUCHES: &[Touch] = &[reads(1, Extent::Bytes(2)), writes(0, Extent::Bytes(2))];
    model(TOUCHES, Effect::Copies, Some(0))
};
const FILL: Model = {
    const TOUCHES: &[Touch] = &[writes(0, Extent::Bytes(2))];
    model(TOUCHES, Effect::Fills, Some(0))
};
const COMPARE: Model = {
    const TOUCHES: &[Touch] = &[reads(0, Extent::Bytes(2)), reads(1, Extent::Bytes(2))];
    model(TOUCHES, Effect::Nothing, None)
};
const LENGTH: Model = {
    const TOUCHES: &[Touch] = &[reads(0, Extent::Result)];
    model(TOUCHES, Effect::Nothing, None)
};
const FIRST: [Touch; 2] = [reads(0, Extent::First), reads(1, Extent::First)];
const FIND: Model = {
    const TOUCHES: &[Touch] = &[reads(0, Extent::First)];
    model(TOUCHES, Effect::Nothing, Some(0))
};
/// In a string, something of another.
const FIND_OF: Model = model(&FIRST, Effect::Nothing, Some(0));
const FIND_IN: Model = {
    const TOUCHES: &[Touch] = &[reads(0, Extent::Until(2))];
    model(TOUCHES, Effect::Nothing, Some(0))
};
const FIND_LAST_IN: Model = {
    const TOUCHES: &[Touch] = &[reads(0, Extent::FirstOf(2))];
    model(TOUCHES, Effect::Nothing, Some(0))
};
const JUDGE: Model = model(&[], Effect::Nothing, None);
const JUDGE_ONE: Model = {
    const TOUCHES: &[Touch] = &[reads(0, Extent::First)];
    model(TOUCHES, Effect::Nothing, None)
};
const JUDGE_TWO: Model = model(&FIRST, Effect::Nothing, None);
const JUDGE_SOME: Model = {
    const TOUCHES: &[Touch] = &[reads(0, Extent::FirstOf(2)), reads(1, Extent::FirstOf(2))];
    model(TOUCHES, Effect::Nothing, None)
};
/// It writes what it should, but may read more.
const READS: Model = Model {
    whole: false,
    ..JUDGE
};
const READS_SECOND: Model = {
    const TOUCHES: &[Touch] = &[reads(1, Extent::First)];
    Model {
        touches: TOUCHES,
        ..READS
    }
};
const READS_SOME: Model = {
    const TOUCHES: &[Touch] = &[reads(1, Extent::FirstOf(2))];
    Model {
        touches: TOUCHES,
        ..READS
    }
};

const MODELS: [(&str, Model); 58] = [
    ("memcpy", COPY),
    ("memmove", COPY),
    ("mempcpy", COPY),
    ("__mempcpy", COPY),
    ("__memcpy_chk", COPY),
    ("__memmove_chk", COPY),
    ("__mempcpy_chk", COPY),
    ("memset", FILL),
    ("__memset_chk", FILL),
    ("memcmp", COMPARE),
    ("bcmp", COMPARE),
    ("strlen", LENGTH),
    (
        "strnlen",
        model(&[reads(0, Extent::ResultUpTo(1))], Effect::Nothing, None),
    ),
    ("wcslen", JUDGE_ONE),
    ("wcsnlen", JUDGE),
    ("memchr", FIND_IN),
    ("memrchr", FIND_LAST_IN),
    ("rawmemchr", FIND),
    ("__rawmemchr", FIND),
    ("wmemchr", FIND_LAST_IN),
    ("strchr", FIND),
    ("index", FIND),
    ("strchrnul", FIND),
    ("strrchr", FIND),
    ("rindex", FIND),
    ("strstr", FIND_OF),
    ("strcasestr", FIND_OF),
    ("strpbrk", FIND_OF),
    ("memmem", model(&[], Effect::Nothing, Some(0))),
    ("wcschr", FIND),
    ("wcsrchr", FIND),
    ("strcmp", JUDGE_TWO),
    ("strncmp", JUDGE_SOME),
    ("strcasecmp", JUDGE_TWO),
    ("strncasecmp", JUDGE_SOME),
    ("strcasecmp_l", JUDGE_TWO),
    ("strncasecmp_l", JUDGE_SOME),
    ("wcscmp", JUDGE_TWO),
    ("wcsncmp", JUDGE_SOME),
    ("wmemcmp", JUDGE_SOME),
    ("strspn", JUDGE_TWO),
    ("strcspn", JUDGE_TWO),
    ("strcoll", JUDGE_TWO),
    ("strcoll_l", JUDGE_TWO),
    ("strcpy", READS_SECOND),
    ("stpcpy", READS_SECOND),
    ("__stpcpy", READS_SECOND),
    ("__strcpy_chk", READS_SECOND),
    ("__stpcpy_chk", READS_SECOND),
    ("strncpy", READS_SOME),
    ("stpncpy", READS_SOME),
    ("strcat", READS_SECOND),
    ("strncat", READS_SOME),
    ("__strcat_chk", READS_SECOND),
    ("wcscpy", READS_SECOND),
    ("wmemset", READS),
    ("strtok", READS),
    ("strsep", READS),
];

/// Functions that may share their code, so that only the name they are called by tells them apart. The first is
/// the one that allows most.
pub const SHARED: [[&str; 2]; 2] = [["memmove", "memcpy"], ["__memmove_chk", "__memcpy_chk"]];

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
        "__malloc_hugepage_config",
    ] {
        add(name, Role::Inside);
    }
    for (name, model) in MODELS {
        add(name, Role::Touches(model));
    }
    for name in ["exit", "_exit", "_Exit", "quick_exit"] {
        add(name, Role::Ends);
    }
    add("main", Role::Noted);
    out
}
