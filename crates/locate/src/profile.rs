//! The value profile: all sets of values that each instruction worked on in any test.
//!
//! The profile is fed with the executions of instructions in order. What an instruction defines is
//! seen in the registers before the next one. Values that look like addresses (eight bytes wide and
//! within memory that the guest maps) mean something in their own run only; an operand that ever
//! held one is a pointer, and pointers are left out of replacements, with zeros where they were
//! null. Nothing distinguishes the values of passing and of failing tests: any test can have the
//! value that a failing one should have had.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::shape::{MOST, Shape};

/// Different sets of values kept per instruction and side. Values that come later are missing
/// from the profile, which [`Profile::overflowed`] counts.
const LARGEST: usize = 4096;

pub(crate) type Values = [u64; MOST];

/// Is this number an address of the guest's?
pub trait Address {
    fn is_address(&self, value: u64) -> bool;
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
    pub(crate) used: FxHashSet<Values>,
    pub(crate) defined: FxHashSet<Values>,
    /// Operands that have held an address.
    pub pointers_used: [bool; MOST],
    pub pointers_defined: [bool; MOST],
    /// The branch has been taken, has not been taken.
    pub outcomes: [bool; 2],
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
    /// Most instances kept per instruction; 0 if none are.
    keep: u32,
}

impl<'a> Observer<'a> {
    /// `code` gives the bytes at an address, or nothing for one that is not of interest.
    pub fn new(
        profile: &'a mut Profile,
        code: &'a dyn Fn(u64) -> Option<Vec<u8>>,
        addresses: &'a dyn Address,
        keep: u32,
    ) -> Self {
        Observer {
            profile,
            run: Run::default(),
            last: None,
            code,
            addresses,
            keep,
        }
    }

    pub fn see(&mut self, event: &Event) {
        if let Some((entry, last)) = self.last.take() {
            self.account(entry, &last, Some(event));
        }
        if let Some(entry) = self.profile.entry(event.pc, self.code) {
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
        for (i, o) in shape.uses.iter().enumerate() {
            used[i] = o.value(&event.regs, event.memory);
            if o.place.size() == 8 && self.addresses.is_address(used[i]) {
                entry.pointers_used[i] = true;
            }
        }
        let follows = next.filter(|n| shape.falls_through() && n.pc == shape.next);
        let defined = follows.map(|next| {
            let mut defined = Values::default();
            for (i, o) in shape.defines.iter().enumerate() {
                defined[i] = o.value(&next.regs, event.after);
                if o.place.size() == 8 && self.addresses.is_address(defined[i]) {
                    entry.pointers_defined[i] = true;
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
        }
        let mut full = false;
        let keep = |set: &mut FxHashSet<Values>, values: Values| {
            if set.len() < LARGEST {
                set.insert(values);
                false
            } else {
                !set.contains(&values)
            }
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
        let matters = shape.branch.is_some() || !shape.uses.is_empty() || !shape.defines.is_empty();
        if self.keep == 0 || !matters {
            return;
        }
        if nth > self.keep {
            self.run.dropped += 1;
            return;
        }
        let address = shape.address(&event.regs);
        self.run.instances.push(Instance {
            entry: index,
            nth,
            step: event.step,
            address,
            used,
            defined,
            taken,
        });
    }
}

fn without(mut values: Values, pointers: &[bool; MOST]) -> Values {
    for (v, p) in values.iter_mut().zip(pointers) {
        if *p {
            *v = 0;
        }
    }
    values
}

impl Profile {
    fn entry(&mut self, pc: u64, code: &dyn Fn(u64) -> Option<Vec<u8>>) -> Option<u32> {
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
            shape,
            used: FxHashSet::default(),
            defined: FxHashSet::default(),
            pointers_used: [false; MOST],
            pointers_defined: [false; MOST],
            outcomes: [false; 2],
        });
        Some(i)
    }

    /// An operand may turn out to be a pointer after its values were kept. Once all tests have been
    /// seen, this takes those values out.
    pub fn settle(&mut self) {
        for e in &mut self.entries {
            let pointers = e.pointers_used;
            e.used = e.used.drain().map(|v| without(v, &pointers)).collect();
            let pointers = e.pointers_defined;
            e.defined = e.defined.drain().map(|v| without(v, &pointers)).collect();
        }
    }

    /// Operands that hold addresses and are therefore left out.
    pub fn pointers(&self) -> usize {
        let count = |p: &[bool; MOST]| p.iter().filter(|&&p| p).count();
        self.entries
            .iter()
            .map(|e| count(&e.pointers_used) + count(&e.pointers_defined))
            .sum()
    }

    /// All operands that values were seen of.
    pub fn operands(&self) -> usize {
        let count = |e: &Entry| e.shape.uses.len() + e.shape.defines.len();
        self.entries.iter().map(count).sum()
    }
}
