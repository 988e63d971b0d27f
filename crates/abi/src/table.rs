//! Four hundred system calls differ in a few ways only: which arguments point at memory, how long the
//! object there is, and when the kernel fills it.
//!
//! So a call is one line of a table: number, name, count of arguments, rule, blocking, effects. The effects
//! form a small vocabulary that `plan` interprets; what the vocabulary cannot say is a named function in
//! the topic's file. Multiplexed calls (ioctl, fcntl, prctl, ...) have a second table, of commands, whose
//! lines carry the same rule and effects.
//!
//! The index from number to line is built at compile time, and two lines for one number fail the build.

use crate::plan::Draft;
use crate::{Blocking, Call, Class};

/// An argument that holds a count or a size. The upper half of a C `int` argument is undefined in the
/// x86-64 calling convention and ignored by the kernel, so the width matters.
#[derive(Clone, Copy)]
pub(crate) enum Num {
    /// `size_t` or `unsigned long`.
    Size(u8),
    /// `unsigned int`.
    Uint(u8),
    /// `int`; a negative value counts as zero since the kernel refuses or ignores it.
    Int(u8),
}

impl Num {
    /// What it is in a particular call.
    pub(crate) fn of(self, call: &Call) -> u64 {
        let Call { args, .. } = call;
        match self {
            Num::Size(index) => args[usize::from(index)],
            Num::Uint(index) => u64::from(args[usize::from(index)] as u32),
            Num::Int(index) => u64::try_from(args[usize::from(index)] as i32).unwrap_or(0),
        }
    }
}

/// How long an object in guest memory is.
#[derive(Clone, Copy)]
pub(crate) enum Len {
    Fixed(u32),
    /// As many bytes as an argument says.
    Arg(Num),
    /// As many items of a size as an argument says.
    Items(Num, u32),
    /// As many bytes as the call returns, which never exceeds the argument.
    Ret(Num),
    /// As many items of a size as the call returns, which never exceeds the argument.
    RetItems(u32, Num),
    /// As many bytes as the call returns or the argument says, whichever is less. For calls that return the
    /// size they would have needed.
    RetAtMost(Num),
}

/// On which results an effect takes place. An `EFAULT` may come after a part was written, so `plan` counts
/// every write as possible then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    Success,
    Always,
    /// The result is greater than this.
    Above(i64),
    /// The result is exactly this.
    Exactly(i64),
    /// A signal cut the call short.
    Interrupted,
}

/// One thing the kernel does with guest memory. The first field is the index of the pointer argument; a
/// null pointer means no effect everywhere.
#[derive(Clone, Copy)]
pub(crate) enum Effect {
    /// Reads an object.
    In(u8, Len),
    /// Reads an object, or only its beginning: so many bytes at least, if it is as long.
    Part(u8, Len, u8),
    /// Reads a string that ends with a zero byte.
    Text(u8),
    /// Reads a null-terminated array of pointers to strings, and the strings.
    Texts(u8),
    /// Reads through an array of `struct iovec` with this many elements, as many bytes as the call returns.
    Gather(u8, Num),
    /// Reads that need a function to describe.
    Reads(fn(&mut Draft<'_>)),
    /// Writes an object on success; the pointer may not be null in a successful call.
    Out(u8, Len),
    /// Writes an object on success; the pointer may be null, meaning "do not tell me".
    Opt(u8, Len),
    /// Writes an object on other results; the pointer may be null.
    Late(u8, Len, When),
    /// Reads an object, and writes it on success.
    InOut(u8, Len),
    /// Writes through an array of `struct iovec`, as many bytes as the call returns.
    Scatter(u8, Num),
    /// Writes a buffer whose size another argument points at, as an `int` that the kernel replaces by the
    /// size it had to tell, which may be more than fits: `accept`, `getsockname`, `getsockopt`.
    Told(u8, u8),
    /// Effects that need a function to describe.
    By(fn(&mut Draft<'_>)),
}

/// How the class of a call is found.
#[derive(Clone, Copy)]
pub(crate) enum Rule {
    Is(Class),
    By(fn(&Call) -> Class),
    Commands(&'static Commands),
}

pub(crate) const OUTSIDE: Rule = Rule::Is(Class::Outside);
pub(crate) const SPACE: Rule = Rule::Is(Class::AddressSpace);
pub(crate) const STATE: Rule = Rule::Is(Class::GuestState);
pub(crate) const PROCESS: Rule = Rule::Is(Class::Process);
pub(crate) const FUTEX: Rule = Rule::Is(Class::Futex);
pub(crate) const RESTART: Rule = Rule::Is(Class::Restart);

pub(crate) const fn refused(why: &'static str, errno: i32) -> Rule {
    Rule::Is(Class::Refused { why, errno })
}

/// One system call.
pub(crate) struct Entry {
    pub(crate) nr: u16,
    pub(crate) name: &'static str,
    pub(crate) argc: u8,
    pub(crate) rule: Rule,
    pub(crate) blocking: Blocking,
    pub(crate) effects: &'static [Effect],
}

/// The second table of a multiplexed call.
pub(crate) struct Commands {
    /// The argument that selects the command.
    pub(crate) arg: u8,
    /// Finds the command's id in the call, for instance the lower half of the argument.
    pub(crate) select: fn(&Call) -> u64,
    /// The known commands, in one or more tables.
    pub(crate) known: &'static [&'static [Command]],
    /// What to do with a command that is not in the table.
    pub(crate) otherwise: fn(&Call) -> Behaviour,
}

pub(crate) struct Command {
    pub(crate) id: u64,
    pub(crate) name: &'static str,
    pub(crate) rule: Rule,
    pub(crate) effects: &'static [Effect],
}

/// What one particular call does.
#[derive(Clone, Copy)]
pub(crate) struct Behaviour {
    pub(crate) class: Class,
    pub(crate) effects: &'static [Effect],
}

impl Behaviour {
    pub(crate) const fn refused(why: &'static str, errno: i32) -> Behaviour {
        Behaviour {
            class: Class::Refused { why, errno },
            effects: &[],
        }
    }
}

impl Commands {
    pub(crate) fn find(&self, call: &Call) -> Option<&'static Command> {
        let id = (self.select)(call);
        self.known
            .iter()
            .copied()
            .flatten()
            .find(|command| command.id == id)
    }
}

impl Rule {
    fn class(self, call: &Call) -> Class {
        match self {
            Rule::Is(class) => class,
            Rule::By(decide) => decide(call),
            Rule::Commands(commands) => commands.behaviour(call).class,
        }
    }
}

impl Commands {
    fn behaviour(&self, call: &Call) -> Behaviour {
        match self.find(call) {
            Some(command) => Behaviour {
                class: command.rule.class(call),
                effects: command.effects,
            },
            None => (self.otherwise)(call),
        }
    }
}

impl Entry {
    /// What a call of this entry does: its class, and the effects beyond the entry's own.
    pub(crate) fn behaviour(&self, call: &Call) -> Behaviour {
        match self.rule {
            Rule::Commands(commands) => commands.behaviour(call),
            rule => Behaviour {
                class: rule.class(call),
                effects: &[],
            },
        }
    }
}

/// Writes a topic's table: `number name/arguments: rule, blocking, [effects];`
macro_rules! calls {
    ($($nr:literal $name:ident/$argc:literal: $rule:expr, $blocking:expr, [$($effect:expr),* $(,)?];)*) => {
        pub(crate) const CALLS: &[$crate::table::Entry] = &[$($crate::table::Entry {
            nr: $nr,
            name: stringify!($name),
            argc: $argc,
            rule: $rule,
            blocking: $blocking,
            effects: &[$($effect),*],
        }),*];
    };
}

/// Writes a table of commands: `id NAME: rule, [effects];`
macro_rules! commands {
    ($table:ident; $($id:literal $name:ident: $rule:expr, [$($effect:expr),* $(,)?];)*) => {
        pub(crate) const $table: &[$crate::table::Command] = &[$($crate::table::Command {
            id: $id,
            name: stringify!($name),
            rule: $rule,
            effects: &[$($effect),*],
        }),*];
    };
}

pub(crate) use {calls, commands};

/// Call numbers end below this.
const LIMIT: usize = 480;

const fn index() -> [Option<&'static Entry>; LIMIT] {
    let mut index: [Option<&'static Entry>; LIMIT] = [None; LIMIT];
    let mut topic = 0;
    while topic < crate::calls::TOPICS.len() {
        let calls = crate::calls::TOPICS[topic];
        let mut at = 0;
        while at < calls.len() {
            let entry = &calls[at];
            assert!(
                index[entry.nr as usize].is_none(),
                "two lines for one call number"
            );
            index[entry.nr as usize] = Some(entry);
            at += 1;
        }
        topic += 1;
    }
    index
}

static INDEX: [Option<&'static Entry>; LIMIT] = index();

pub(crate) fn entry(nr: u64) -> Option<&'static Entry> {
    INDEX.get(usize::try_from(nr).ok()?).copied().flatten()
}

/// Every call, by number.
pub(crate) fn entries() -> impl Iterator<Item = &'static Entry> {
    INDEX.iter().copied().flatten()
}
