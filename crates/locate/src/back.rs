//! Where a value that mends a run comes from.
//!
//! A wrong line has perhaps never had the right value in any test, and then there is nothing to try there. But where its
//! result is used, results of other lines are used, too. So what is found to mend a run at a use is put where that place
//! was written, and from there back through copies: into variables, arguments and results of functions. It is one
//! trial each, and there are few of them.

use crate::profile::{Instance, Profile, Run};
use crate::shape::{Location, cut};
use crate::trials::{Change, Ivmp, Source, Trial, When};
use crate::{Shape, Statement};

/// Links of a chain of copies that are followed.
const LINKS: usize = 64;

/// What is tried because of what was found.
pub(crate) fn trials(
    profile: &Profile,
    run: &Run,
    found: &[Ivmp],
    statement: &dyn Fn(u32) -> Option<Statement>,
) -> Vec<Trial> {
    let mut out: Vec<Trial> = Vec::new();
    for ivmp in found {
        let Change::Set(list) = &ivmp.change else {
            continue;
        };
        for &(location, value) in list {
            for (at, location, value) in writers(profile, run, ivmp, location, value) {
                let instance = &run.instances[at];
                let Some(statement) = statement(instance.entry) else {
                    continue;
                };
                out.push(Trial {
                    step: instance.step + 1,
                    change: Change::Set(vec![(location, value)]),
                    sources: vec![Source {
                        statement,
                        instance: at as u32,
                        when: When::After,
                    }],
                });
            }
        }
    }
    out.sort_by(|a, b| (a.step, &a.change).cmp(&(b.step, &b.change)));
    out.dedup_by(|a, b| (a.step, &a.change) == (b.step, &b.change));
    out
}

/// The executions that have written a value, the last first, each with the place and what to put there.
fn writers(
    profile: &Profile,
    run: &Run,
    ivmp: &Ivmp,
    location: Location,
    value: u64,
) -> Vec<(usize, Location, u64)> {
    let mut out = Vec::new();
    let shape = |i: &Instance| &profile.entries[i.entry as usize].shape;
    let step = ivmp.step - u64::from(ivmp.when == When::After);
    let mut at = run.instances.partition_point(|i| i.step < step);
    let Some(first) = run.instances.get(at).filter(|i| i.step == step) else {
        return out;
    };
    let (mut location, mut value) = (location, value);
    let mut original = match ivmp.when {
        When::Before => used(shape(first), first, location),
        // It is the writer itself.
        When::After => match source(shape(first), first, location, value) {
            Some((from, to_put, was)) => {
                (location, value) = (from, to_put);
                Some(was)
            }
            None => None,
        },
    };
    while let (Some(was), true) = (original, out.len() < LINKS) {
        let before = run.instances[..at].iter().enumerate().rev();
        let mut writes = before.filter(|(_, i)| overlaps(shape(i), i, location));
        let Some((n, writer)) = writes.next() else {
            break;
        };
        // Code that is not observed writes, too.
        if defined(shape(writer), writer, location) != Some(was) {
            break;
        }
        out.push((n, location, value));
        at = n;
        original = source(shape(writer), writer, location, value).map(|(from, to_put, was)| {
            (location, value) = (from, to_put);
            was
        });
    }
    out
}

/// What an execution uses in this place, if it does.
fn used(shape: &Shape, i: &Instance, location: Location) -> Option<u64> {
    let at = |o: &crate::Operand| o.location(i.address) == location;
    shape.uses.iter().position(at).map(|n| i.used[n])
}

fn defined(shape: &Shape, i: &Instance, location: Location) -> Option<u64> {
    let at = |o: &crate::Operand| o.location(i.address) == location;
    let n = shape.defines.iter().position(at)?;
    Some(i.defined?[n])
}

/// An execution writes a part of this place.
fn overlaps(shape: &Shape, i: &Instance, location: Location) -> bool {
    let bytes = |l: Location| match l {
        Location::Register { number, .. } => (true, u64::from(number), 1),
        Location::Memory { address, size } => (false, address, u64::from(size)),
    };
    let (register, start, len) = bytes(location);
    shape.defines.iter().any(|o| {
        let (r, s, l) = bytes(o.location(i.address));
        r == register && s < start.saturating_add(len) && start < s.saturating_add(l)
    })
}

/// If an execution copies what it writes here: where from, what must be there instead, and what was.
fn source(
    shape: &Shape,
    i: &Instance,
    location: Location,
    value: u64,
) -> Option<(Location, u64, u64)> {
    defined(shape, i, location)?;
    let n = shape.copies()?;
    let operand = &shape.uses[n];
    let value = cut(value, operand.place.size());
    Some((operand.location(i.address), value, i.used[n]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Address, Event, Observer};

    struct Nowhere;

    impl Address for Nowhere {
        fn is_address(&self, _: u64) -> bool {
            false
        }
    }

    /// `mov eax, 7; mov [8], eax; mov edx, [8]; add edx, 1`: what mends at the last is tried at all others.
    #[test]
    fn through_copies_to_a_constant() {
        let code = |pc: u64| match pc {
            0x10 => Some(vec![0xb8, 7, 0, 0, 0]),
            0x15 => Some(vec![0x89, 0x04, 0x25, 8, 0, 0, 0]),
            0x1c => Some(vec![0x8b, 0x14, 0x25, 8, 0, 0, 0]),
            0x23 => Some(vec![0x83, 0xc2, 1]),
            _ => None,
        };
        let mut profile = Profile::default();
        let mut observer = Observer::new(&mut profile, &code, &Nowhere, 10, false);
        // Step, address, eax, edx.
        for (step, pc, eax, edx) in [
            (0, 0x10, 0, 0),
            (1, 0x15, 7, 0),
            (2, 0x1c, 7, 0),
            (3, 0x23, 7, 7),
            (4, 0x26, 7, 8),
        ] {
            let mut regs = [0; 16];
            (regs[0], regs[2]) = (eax, edx);
            observer.see(&Event {
                pc,
                step,
                memory: if pc == 0x15 { 0 } else { 7 },
                regs,
                after: 7,
            });
        }
        let run = observer.finish();
        profile.settle();
        let edx = Location::Register {
            number: 2,
            size: 4,
            high: false,
        };
        let found = Ivmp {
            statement: Statement(3),
            pc: 0x23,
            nth: 1,
            when: When::Before,
            step: 3,
            change: Change::Set(vec![(edx, 3)]),
            original: vec![7],
        };
        let list = trials(&profile, &run, &[found], &|entry| Some(Statement(entry)));
        let got: Vec<(u64, u32)> = list
            .iter()
            .map(|t| (t.step, t.sources[0].statement.0))
            .collect();
        assert_eq!(got, [(1, 0), (2, 1), (3, 2)]);
        let values = |t: &Trial| match &t.change {
            Change::Set(list) => list[0].1,
            Change::Branch(_) => 0,
        };
        assert!(list.iter().all(|t| values(t) == 3));
    }
}
