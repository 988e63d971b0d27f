//! What string and memory functions of the C library were asked to touch.
//!
//! Some of it follows from their arguments, some from what they return, and some from what is in the strings, which
//! the engine measures where they are entered ([`tape::Measure`]). What is here is never more than a function has to touch to
//! do what it was asked for, however it goes about it.

use tape::{Measure, Measures, Most, UNMEASURED, Unit};

/// Memory that a function was asked to touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// The parameter that points to it.
    pub pointer: u8,
    pub extent: Extent,
    pub writes: bool,
    /// Bytes of what parameters and results count.
    pub unit: u8,
    /// Whether it goes on by what is there.
    pub decides: Decides,
}

/// Whether what a function does depends on bytes that it touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decides {
    /// It copies or overwrites them, or it may not look at all of them.
    Never,
    /// On each of them.
    By,
    /// On those up to where its first two parameters differ.
    ByDifference,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// As many as this parameter says.
    Count(u8),
    /// As many bytes as this measure came to.
    Measured(u8),
    /// Up to what the function found, or if it found nothing, as many as the parameter says: known when it is over.
    Until(u8),
    /// Up to what the function found, and it always finds something.
    Found,
    /// Up to what the function found and as much of it as the second measure, or if it found nothing, what the first one
    /// came to.
    FoundOr(u8, Option<u8>),
    /// As many as the function returns, and one more: known when it is over.
    Result,
    /// The smaller of that and what a parameter says.
    ResultUpTo(u8),
}

/// What a function is called with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given<'a> {
    pub(super) arguments: &'a [u64; 6],
    pub(super) measured: &'a [u64; tape::MOST_MEASURED],
}

impl Given<'_> {
    fn count(&self, n: u8, unit: u8) -> u64 {
        self.arguments[usize::from(n)].saturating_mul(unit.into())
    }

    /// If nothing is known of a string: that there is one.
    fn measured(&self, n: u8) -> u64 {
        match self.measured[usize::from(n)] {
            UNMEASURED => 1,
            len => len,
        }
    }
}

impl Touch {
    /// So many bytes, if that is known when the function is called.
    pub(super) fn at_call(&self, given: Given<'_>) -> Option<u64> {
        match self.extent {
            Extent::Count(n) => Some(given.count(n, self.unit)),
            Extent::Measured(n) => Some(given.measured(n)),
            Extent::Until(_)
            | Extent::Found
            | Extent::FoundOr(..)
            | Extent::Result
            | Extent::ResultUpTo(_) => None,
        }
    }

    /// How much it is is not known before the function returns.
    pub(super) fn is_found_late(&self) -> bool {
        !matches!(self.extent, Extent::Count(_) | Extent::Measured(_))
    }

    /// So many bytes, if that is known when the function returns, and not before.
    pub(super) fn at_return(&self, result: u64, given: Given<'_>) -> Option<u64> {
        let unit = u64::from(self.unit);
        let before = result.wrapping_sub(given.arguments[usize::from(self.pointer)]);
        let through_found = before.saturating_add(unit);
        let through_result = result.saturating_add(1).saturating_mul(unit);
        match self.extent {
            Extent::Result => Some(through_result),
            Extent::ResultUpTo(n) => Some(through_result.min(given.count(n, self.unit))),
            Extent::Until(n) if result == 0 => Some(given.count(n, self.unit)),
            Extent::FoundOr(n, _) if result == 0 => Some(given.measured(n)),
            Extent::FoundOr(_, Some(n)) => Some(before.saturating_add(given.measured(n) - 1)),
            Extent::Until(_) | Extent::Found | Extent::FoundOr(_, None) => Some(through_found),
            Extent::Count(_) | Extent::Measured(_) => None,
        }
    }
}

/// What a function of the C library does, whatever its instructions do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    pub touches: &'static [Touch],
    pub measures: Measures,
    pub effect: Effect,
    /// The parameter into whose block the result points.
    pub result: Option<u8>,
    /// Nothing inside of it is looked at. Otherwise what it writes is.
    pub whole: bool,
}

impl Model {
    /// The parameters that say what is touched, a bit for each.
    pub(super) fn parameters(&self) -> u8 {
        let touched = self.touches.iter().map(|t| {
            let count = match t.extent {
                Extent::Count(n) | Extent::Until(n) | Extent::ResultUpTo(n) => 1 << n,
                _ => 0,
            };
            1 << t.pointer | count
        });
        let measured = self.measures.iter().flatten().map(|m| match m.most {
            Most::Parameter(n) => 1 << n,
            _ => 0,
        });
        touched.chain(measured).fold(0, |mask, n: u8| mask | n)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Nothing,
    /// From the second parameter to the first, as many bytes as the third says.
    Copies,
    /// The first parameter, as many bytes as the third says.
    Fills,
    /// From the second parameter to the first, as many bytes as the first measure says. What its instructions write is
    /// looked at. Rules see that number as the third parameter.
    CopiesText,
}

pub(super) const fn reads(pointer: u8, extent: Extent) -> Touch {
    Touch {
        pointer,
        extent,
        writes: false,
        unit: 1,
        decides: match extent {
            Extent::Count(_) => Decides::Never,
            _ => Decides::By,
        },
    }
}

/// It is not said how much of it is looked at.
const fn reads_some(pointer: u8, extent: Extent) -> Touch {
    Touch {
        decides: Decides::Never,
        ..reads(pointer, extent)
    }
}

const fn differs(touch: Touch) -> Touch {
    Touch {
        decides: Decides::ByDifference,
        ..touch
    }
}

const fn reads_wide(pointer: u8, extent: Extent) -> Touch {
    Touch {
        unit: 4,
        ..reads(pointer, extent)
    }
}

const fn writes(pointer: u8, extent: Extent) -> Touch {
    Touch {
        writes: true,
        decides: Decides::Never,
        ..reads(pointer, extent)
    }
}

/// All of a string.
pub(super) const fn text(n: u8) -> Measure {
    Measure {
        text: n,
        like: None,
        stop: None,
        most: Most::All,
        unit: Unit::Byte,
    }
}

const fn most(n: u8, measure: Measure) -> Measure {
    Measure {
        most: Most::Parameter(n),
        ..measure
    }
}

/// The second parameter is looked for in the first one.
const fn sought(measure: Measure) -> Measure {
    Measure {
        stop: Some(1),
        ..measure
    }
}

/// The first parameter is compared with the second one, to which the same applies.
const fn compared(unit: Unit) -> Measure {
    Measure {
        like: Some(1),
        unit,
        ..text(0)
    }
}

const fn wide(measure: Measure) -> Measure {
    Measure {
        unit: Unit::Wide,
        ..measure
    }
}

/// Where a function may find something early, and is called again and again for what is behind that, all of the text is not
/// measured each time.
const PART: Measure = Measure {
    most: Most::Characters(4096),
    ..text(0)
};

pub(super) const NOTHING: Model = Model {
    touches: &[],
    measures: [None, None],
    effect: Effect::Nothing,
    result: None,
    whole: true,
};

/// Touches what follows from numbers.
const fn counted(touches: &'static [Touch]) -> Model {
    Model { touches, ..NOTHING }
}

const fn measured(touches: &'static [Touch], measures: Measures) -> Model {
    Model {
        touches,
        measures,
        ..NOTHING
    }
}

/// The result points into the block of the first parameter.
const fn finds(model: Model) -> Model {
    Model {
        result: Some(0),
        ..model
    }
}

/// It writes what it should, but may read more.
const fn looked_into(model: Model) -> Model {
    Model {
        whole: false,
        ..model
    }
}

const COPY: Model = {
    const TOUCHES: &[Touch] = &[reads(1, Extent::Count(2)), writes(0, Extent::Count(2))];
    Model {
        effect: Effect::Copies,
        ..finds(counted(TOUCHES))
    }
};
const FILL: Model = {
    const TOUCHES: &[Touch] = &[writes(0, Extent::Count(2))];
    Model {
        effect: Effect::Fills,
        ..finds(counted(TOUCHES))
    }
};

const FIRST: &[Touch] = &[reads(0, Extent::Measured(0))];
const SECOND: &[Touch] = &[reads(1, Extent::Measured(0))];
const BOTH_ALIKE: &[Touch] = &[reads(0, Extent::Measured(0)), reads(1, Extent::Measured(0))];
const BOTH: &[Touch] = &[reads(0, Extent::Measured(0)), reads(1, Extent::Measured(1))];
const SPAN: Model = {
    const TOUCHES: &[Touch] = &[reads(0, Extent::Result), reads(1, Extent::Measured(0))];
    measured(TOUCHES, [Some(text(1)), None])
};
const STRING_IN: Model = {
    const TOUCHES: &[Touch] = &[
        reads(0, Extent::FoundOr(0, Some(1))),
        reads(1, Extent::Measured(1)),
    ];
    finds(measured(TOUCHES, [Some(PART), Some(text(1))]))
};
const ONE_OF: Model = {
    const TOUCHES: &[Touch] = &[
        reads(0, Extent::FoundOr(0, None)),
        reads(1, Extent::Measured(1)),
    ];
    finds(measured(TOUCHES, [Some(PART), Some(text(1))]))
};

/// Looks into all of a string, or up to a character.
const fn find(measure: Measure) -> Model {
    finds(measured(FIRST, [Some(measure), None]))
}

const fn compare(measure: Measure) -> Model {
    measured(BOTH_ALIKE, [Some(measure), None])
}

/// Copies from the second parameter, or looks for what is in it.
const fn reads_second(measure: Measure) -> Model {
    looked_into(measured(SECOND, [Some(measure), None]))
}

const fn copies(model: Model) -> Model {
    Model {
        effect: Effect::CopiesText,
        ..model
    }
}

/// From the second parameter to the end of the first one.
const fn append(measure: Measure) -> Model {
    looked_into(measured(BOTH, [Some(text(0)), Some(measure)]))
}

const EQUAL: Model = counted(&[
    differs(reads(0, Extent::Count(2))),
    differs(reads(1, Extent::Count(2))),
]);
const FOUND: Model = finds(counted(&[reads(0, Extent::Found)]));

pub(super) const MODELS: [(&str, Model); 58] = [
    ("memcpy", COPY),
    ("memmove", COPY),
    ("mempcpy", COPY),
    ("__mempcpy", COPY),
    ("__memcpy_chk", COPY),
    ("__memmove_chk", COPY),
    ("__mempcpy_chk", COPY),
    ("memset", FILL),
    ("__memset_chk", FILL),
    ("memcmp", EQUAL),
    ("bcmp", EQUAL),
    (
        "wmemcmp",
        counted(&[
            differs(reads_wide(0, Extent::Count(2))),
            differs(reads_wide(1, Extent::Count(2))),
        ]),
    ),
    ("strlen", counted(&[reads(0, Extent::Result)])),
    ("strnlen", counted(&[reads(0, Extent::ResultUpTo(1))])),
    ("wcslen", counted(&[reads_wide(0, Extent::Result)])),
    ("wcsnlen", counted(&[reads_wide(0, Extent::ResultUpTo(1))])),
    ("memchr", finds(counted(&[reads(0, Extent::Until(2))]))),
    ("memrchr", finds(counted(&[reads(0, Extent::Count(2))]))),
    (
        "wmemchr",
        finds(counted(&[reads_wide(0, Extent::Until(2))])),
    ),
    ("rawmemchr", FOUND),
    ("__rawmemchr", FOUND),
    ("memmem", finds(counted(&[reads_some(0, Extent::Until(1))]))),
    ("strchr", find(sought(text(0)))),
    ("index", find(sought(text(0)))),
    ("strchrnul", find(sought(text(0)))),
    ("strrchr", find(text(0))),
    ("rindex", find(text(0))),
    ("wcschr", find(wide(sought(text(0))))),
    ("wcsrchr", find(wide(text(0)))),
    ("strstr", STRING_IN),
    ("strcasestr", STRING_IN),
    ("strpbrk", ONE_OF),
    ("strspn", SPAN),
    ("strcspn", SPAN),
    ("strcmp", compare(compared(Unit::Byte))),
    ("strncmp", compare(most(2, compared(Unit::Byte)))),
    ("strcasecmp", compare(compared(Unit::Folded))),
    ("strncasecmp", compare(most(2, compared(Unit::Folded)))),
    ("strcasecmp_l", compare(compared(Unit::Folded))),
    ("strncasecmp_l", compare(most(2, compared(Unit::Folded)))),
    ("strcoll", compare(compared(Unit::Byte))),
    ("strcoll_l", compare(compared(Unit::Byte))),
    ("wcscmp", compare(compared(Unit::Wide))),
    ("wcsncmp", compare(most(2, compared(Unit::Wide)))),
    ("strcpy", copies(reads_second(text(1)))),
    ("stpcpy", copies(reads_second(text(1)))),
    ("__stpcpy", copies(reads_second(text(1)))),
    ("__strcpy_chk", copies(reads_second(text(1)))),
    ("__stpcpy_chk", copies(reads_second(text(1)))),
    ("strncpy", copies(reads_second(most(2, text(1))))),
    ("stpncpy", copies(reads_second(most(2, text(1))))),
    ("wcscpy", reads_second(wide(text(1)))),
    ("strcat", append(text(1))),
    ("__strcat_chk", append(text(1))),
    ("strncat", append(most(2, text(1)))),
    ("wmemset", looked_into(NOTHING)),
    ("strtok", reads_second(text(1))),
    ("strsep", reads_second(text(1))),
];
