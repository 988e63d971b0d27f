//! The value profile: all sets of values that each instruction worked on in any test.
//!
//! The profile is fed with the executions of instructions in order. What an instruction defines is
//! seen in the registers before the next one. Addresses mean something in their own run only; an
//! operand whose type says so, through which memory is accessed, or that ever held one (`origin.rs`)
//! is a pointer, and pointers are left out of replacements, also where they were null. Nothing distinguishes the values of passing and of failing tests: any test can have the
//! value that a failing one should have had.

use rustc_hash::FxHashMap;

use crate::origin::{Origins, Pointer, sole_base};
use crate::shape::{MOST, Place, Shape};

/// Different sets of values kept per instruction and side. Values that come later are missing
/// from the profile, which [`Profile::overflowed`] counts.
const LARGEST: usize = 4096;

pub(crate) type Values = [u64; MOST];

/// Sets of values, and whether a passing test has them.
pub(crate) type Seen = FxHashMap<Values, bool>;

/// What is known of addresses from outside of the code.
pub trait Address {
    /// Is memory of the guest mapped there?
    fn is_address(&self, value: u64) -> bool;

    /// The memory operand of the instruction about to be executed is a variable of a pointer type, or a part of one
    /// that is.
    fn is_pointer(&self, _event: &Event, _operand: u64) -> bool {
        false
    }
}

/// One execution of an instruction, as the engine shows it.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    pub pc: u64,
    pub step: u64,
    pub memory: u64,
    pub regs: [u64; 16],
    pub after: u64,
}

/// What one instruction worked on in all tests.
#[derive(Debug)]
pub struct Entry {
    pub shape: Shape,
    pub(crate) used: Seen,
    pub(crate) defined: Seen,
    /// Operands that hold addresses.
    pub pointers_used: [Option<Pointer>; MOST],
    pub pointers_defined: [Option<Pointer>; MOST],
    /// The branch has not been taken, has been taken; in a passing test.
    pub outcomes: [bool; 2],
    pub(crate) passing_outcomes: [bool; 2],
    /// A call whose result nobody takes: it can be left out.
    pub skippable: bool,
    looked_at: bool,
}

#[derive(Debug, Default)]
pub struct Profile {
    pub entries: Vec<Entry>,
    by_pc: FxHashMap<u64, u32>,
    /// Sets of values that found no room.
    pub overflowed: u64,
}

/// One execution of an instruction in a failing run.
#[derive(Clone, Copy, Debug)]
pub struct Instance {
    /// Index into [`Profile::entries`].
    pub entry: u32,
    /// Which execution of the instruction, from 1.
    pub nth: u32,
    pub step: u64,
    pub address: u64,
    pub(crate) used: Values,
    /// `None` if it is not known what was defined.
    pub(crate) defined: Option<Values>,
    pub taken: Option<bool>,
}

/// What is kept of one test.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Executions of each instruction, by index into [`Profile::entries`].
    pub executed: FxHashMap<u32, u32>,
    /// Only for failing runs, in order.
    pub instances: Vec<Instance>,
    /// Executions observed.
    pub length: u64,
    /// Instances that were not kept because there are too many of one instruction.
    pub dropped: u64,
}

/// Turns the events of one run into a [`Run`] and adds what it sees to the profile.
pub struct Observer<'a> {
    profile: &'a mut Profile,
    run: Run,
    last: Option<(u32, Event)>,
    code: &'a dyn Fn(u64) -> Option<Vec<u8>>,
    addresses: &'a dyn Address,
    origins: Origins,
    /// Most instances kept per instruction; 0 if none are.
    keep: u32,
    passes: bool,
}

impl<'a> Observer<'a> {
    /// `code` gives the bytes at an address, or nothing for one that is not of interest.
    pub fn new(
        profile: &'a mut Profile,
        code: &'a dyn Fn(u64) -> Option<Vec<u8>>,
        addresses: &'a dyn Address,
        keep: u32,
        passes: bool,
    ) -> Self {
        Observer {
            profile,
            run: Run::default(),
            last: None,
            code,
            addresses,
            origins: Origins::default(),
            keep,
            passes,
        }
    }

    pub fn see(&mut self, event: &Event) {
        if let Some((entry, last)) = self.last.take() {
            self.account(entry, &last, Some(event));
        }
        if let Some(entry) = self.profile.entry(event, self.code, self.addresses) {
            self.last = Some((entry, *event));
        }
    }

    pub fn finish(mut self) -> Run {
        if let Some((entry, last)) = self.last.take() {
            self.account(entry, &last, None);
        }
        self.run
    }

    fn account(&mut self, index: u32, event: &Event, next: Option<&Event>) {
        let nth = self.run.executed.entry(index).or_default();
        *nth += 1;
        let nth = *nth;
        self.run.length += 1;
        let entry = &mut self.profile.entries[index as usize];
        let shape = &entry.shape;
        let mut used = Values::default();
        self.origins.arrive(event, self.addresses);
        let at = shape.address(&event.regs);
        for (i, o) in shape.uses.iter().enumerate() {
            used[i] = o.value(&event.regs, event.memory);
            if self.origins.used(*o, used[i], at, self.addresses) {
                entry.pointers_used[i].get_or_insert(Pointer::Origin);
            }
        }
        let follows = next.filter(|n| shape.falls_through() && n.pc == shape.next);
        let defined = follows.map(|next| {
            let mut defined = Values::default();
            let marks = (self.origins).pass(shape, event, &next.regs, self.addresses);
            for (i, o) in shape.defines.iter().enumerate() {
                defined[i] = o.value(&next.regs, event.after);
                if marks[i] {
                    entry.pointers_defined[i].get_or_insert(Pointer::Origin);
                }
            }
            defined
        });
        let taken = shape.branch.and_then(|target| match next {
            Some(n) if n.pc == target => Some(true),
            Some(n) if n.pc == shape.next => Some(false),
            _ => None,
        });
        if let Some(taken) = taken {
            entry.outcomes[usize::from(taken)] = true;
            entry.passing_outcomes[usize::from(taken)] |= self.passes;
        }
        let mut full = false;
        let passes = self.passes;
        let keep = |set: &mut Seen, values: Values| {
            if let Some(passing) = set.get_mut(&values) {
                *passing |= passes;
            } else if set.len() < LARGEST {
                set.insert(values, passes);
            } else {
                return true;
            }
            false
        };
        if !shape.uses.is_empty() {
            full |= keep(&mut entry.used, without(used, &entry.pointers_used));
        }
        if let (false, Some(defined)) = (shape.defines.is_empty(), defined) {
            full |= keep(
                &mut entry.defined,
                without(defined, &entry.pointers_defined),
            );
        }
        self.profile.overflowed += u64::from(full);
        let matters = shape.branch.is_some()
            || entry.skippable
            || !shape.uses.is_empty()
            || !shape.defines.is_empty();
        if self.keep == 0 || !matters {
            return;
        }
        if nth > self.keep {
            self.run.dropped += 1;
            return;
        }
        self.run.instances.push(Instance {
            entry: index,
            nth,
            step: event.step,
            address: at,
            used,
            defined,
            taken,
        });
    }
}

fn without(mut values: Values, pointers: &[Option<Pointer>; MOST]) -> Values {
    for (v, p) in values.iter_mut().zip(pointers) {
        if p.is_some() {
            *v = 0;
        }
    }
    values
}

impl Entry {
    /// What can be told of the operands when the instruction is first executed.
    fn look(&mut self, event: &Event, addresses: &dyn Address) {
        let base = sole_base(self.shape.instruction());
        for (o, p) in self.shape.uses.iter().zip(&mut self.pointers_used) {
            if matches!(o.place, Place::Register { number, size: 8, .. } if Some(number) == base) {
                *p = Some(Pointer::Use);
            }
        }
        let wide = Place::Memory { size: 8 };
        let of = |list: &[crate::Operand]| list.iter().position(|o| o.place == wide);
        let (used, defined) = (of(&self.shape.uses), of(&self.shape.defines));
        if used.or(defined).is_none() {
            return;
        }
        if addresses.is_pointer(event, self.shape.address(&event.regs)) {
            if let Some(i) = used {
                self.pointers_used[i] = Some(Pointer::Type);
            }
            if let Some(i) = defined {
                self.pointers_defined[i] = Some(Pointer::Type);
            }
        }
    }
}

impl Profile {
    /// Notes that an instruction was executed so often in a run, without its values.
    pub fn cover(
        &mut self,
        run: &mut Run,
        pc: u64,
        times: u64,
        code: &dyn Fn(u64) -> Option<Vec<u8>>,
    ) {
        if let Some(entry) = self.index(pc, code) {
            let times = u32::try_from(times).unwrap_or(u32::MAX);
            run.executed.insert(entry, times);
            run.length += u64::from(times);
        }
    }

    /// The entry of an instruction that is executed.
    fn entry(
        &mut self,
        event: &Event,
        code: &dyn Fn(u64) -> Option<Vec<u8>>,
        addresses: &dyn Address,
    ) -> Option<u32> {
        let i = self.index(event.pc, code)?;
        let entry = &mut self.entries[i as usize];
        if !entry.looked_at {
            entry.looked_at = true;
            entry.look(event, addresses);
        }
        Some(i)
    }

    fn index(&mut self, pc: u64, code: &dyn Fn(u64) -> Option<Vec<u8>>) -> Option<u32> {
        const NONE: u32 = u32::MAX;
        if let Some(&i) = self.by_pc.get(&pc) {
            return (i != NONE).then_some(i);
        }
        let shape = code(pc).and_then(|bytes| Shape::decode(pc, &bytes));
        let Some(shape) = shape else {
            self.by_pc.insert(pc, NONE);
            return None;
        };
        let i = self.entries.len() as u32;
        self.by_pc.insert(pc, i);
        self.entries.push(Entry {
            used: Seen::default(),
            defined: Seen::default(),
            pointers_used: [None; MOST],
            pointers_defined: [None; MOST],
            outcomes: [false; 2],
            passing_outcomes: [false; 2],
            skippable: shape.is_call()
                && code(shape.next)
                    .and_then(|bytes| Shape::decode(shape.next, &bytes))
                    .is_some_and(|next| !next.takes_result()),
            looked_at: false,
            shape,
        });
        Some(i)
    }

    /// An operand may turn out to be a pointer after its values were kept. Once all tests have been
    /// seen, this takes those values out.
    pub fn settle(&mut self) {
        let settle = |set: &mut Seen, pointers: &[Option<Pointer>; MOST]| {
            let mut out = Seen::default();
            for (values, passes) in set.drain() {
                *out.entry(without(values, pointers)).or_default() |= passes;
            }
            *set = out;
        };
        for e in &mut self.entries {
            settle(&mut e.used, &e.pointers_used);
            settle(&mut e.defined, &e.pointers_defined);
        }
    }

    /// No passing test has what this execution works on, or how it goes on. That is so near what is wrong, and far
    /// less often elsewhere.
    pub(crate) fn is_novel(&self, instance: &Instance) -> bool {
        let e = &self.entries[instance.entry as usize];
        let new = |set: &Seen, values: Values| set.get(&values) == Some(&false);
        let uses = !e.shape.uses.is_empty();
        let branch = instance.taken.map(usize::from);
        uses && new(&e.used, without(instance.used, &e.pointers_used))
            || (instance.defined).is_some_and(|d| new(&e.defined, without(d, &e.pointers_defined)))
            || branch.is_some_and(|taken| !e.passing_outcomes[taken])
    }

    /// Operands that hold addresses and are therefore left out, as far as this is how it is known.
    pub fn pointers(&self, how: Pointer) -> usize {
        let all = self.entries.iter();
        all.flat_map(|e| e.pointers_used.iter().chain(&e.pointers_defined))
            .filter(|p| **p == Some(how))
            .count()
    }

    /// All operands that values were seen of.
    pub fn operands(&self) -> usize {
        let count = |e: &Entry| e.shape.uses.len() + e.shape.defines.len();
        self.entries.iter().map(count).sum()
    }
}
