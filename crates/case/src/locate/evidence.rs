//! Replacements in the user's terms: variables, not registers and addresses.
//!
//! The failing run is taken to the place of the replacement, and what is in scope there is looked
//! up. A value in a register is called by the variable that it was loaded from, if that happened a
//! few instructions before.

use std::collections::BTreeMap;
use std::path::Path;

use guest::{Halt, Replay, Until};
use iced_x86::{Formatter, GasFormatter, MemorySize};
use locate::trials::register_name;
use locate::{Change, Ivmp, Location, Run, SearchState, Statement, signed};

use super::observe::Observed;
use super::recording_name;
use super::report::{Evidence, LocateReport, Rerun, ValueChange};
use crate::moment::Moment;
use crate::set::{Notation, look};

/// Evidence written out per line.
const MOST: usize = 3;

/// How far back a register's origin is sought, in instructions.
const BACK: usize = 16;

#[allow(clippy::too_many_arguments)]
pub(crate) fn explain(
    report: &mut LocateReport,
    lines: usize,
    observed: &Observed,
    searched: &[usize],
    names: &[String],
    state: &SearchState,
    suite: &str,
) {
    let mut wanted: BTreeMap<Statement, usize> = BTreeMap::new();
    for (at, r) in report.ranking.iter().enumerate().take(lines) {
        if r.suspiciousness > 0
            && let Some(i) = observed.lines.iter().position(|l| *l == r.line)
        {
            wanted.insert(Statement(i as u32), at);
        }
    }
    // The engine pins its thread to a CPU.
    let found: Vec<(usize, Evidence)> = std::thread::scope(|scope| {
        let work = || {
            let mut out = Vec::new();
            for (n, run) in state.runs.iter().enumerate() {
                let mut list: Vec<&Ivmp> = run
                    .ivmps
                    .iter()
                    .filter(|i| wanted.contains_key(&i.statement))
                    .collect();
                list.sort_by_key(|i| i.step);
                let mut seen: BTreeMap<Statement, usize> = BTreeMap::new();
                list.retain(|i| {
                    let n = seen.entry(i.statement).or_default();
                    *n += 1;
                    *n == 1
                });
                let test = searched[n];
                let folder = &observed.folders[test];
                let name = recording_name(suite, &names[n]);
                let one = explain_run(
                    folder,
                    &name,
                    &names[n],
                    &list,
                    observed,
                    &observed.runs[test],
                );
                // Without words the ranking is still there.
                for (i, e) in one.unwrap_or_default() {
                    out.push((wanted[&list[i].statement], e));
                }
            }
            out
        };
        scope.spawn(work).join().unwrap_or_default()
    });
    for (at, evidence) in found {
        let list = &mut report.ranking[at].evidence;
        if list.len() < MOST {
            list.push(evidence);
        }
    }
}

fn explain_run(
    folder: &Path,
    recording: &str,
    test: &str,
    list: &[&Ivmp],
    observed: &Observed,
    run: &Run,
) -> Result<Vec<(usize, Evidence)>, guest::Error> {
    let mut out = Vec::new();
    if list.is_empty() {
        return Ok(out);
    }
    let mut replay = Replay::open(folder, Box::new(|_, _| {}))?;
    for (i, ivmp) in list.iter().enumerate() {
        if replay.run(&Until::step(ivmp.step))? != Halt::Step {
            break;
        }
        let mut entries = observed.profile.entries.iter();
        let entry = entries.find(|e| e.shape.pc == ivmp.pc);
        let format = entry.map(|e| e.shape.instruction().memory_size());
        let values = look(&mut replay, |m| values(m, ivmp, format, observed, run))?;
        let mut instruction = String::new();
        if let Some(entry) = entry {
            GasFormatter::new().format(entry.shape.instruction(), &mut instruction);
        }
        let is_call = entry.is_some_and(|e| e.shape.is_call());
        let change = option(ivmp, observed, is_call);
        out.push((
            i,
            Evidence {
                test: test.to_owned(),
                recording: recording.to_owned(),
                pc: ivmp.pc,
                instruction,
                is_call,
                nth: ivmp.nth,
                when: ivmp.when,
                step: ivmp.step,
                values,
                command: ["wherefore", "replay", recording]
                    .map(str::to_owned)
                    .into_iter()
                    .chain(change.clone())
                    .collect(),
                run: Rerun {
                    command: ["wherefore", "run"]
                        .map(str::to_owned)
                        .into_iter()
                        .chain(change.clone())
                        .chain(["--".to_owned()])
                        .collect(),
                    ..Rerun::default()
                },
                change,
            },
        ));
    }
    Ok(out)
}

/// The option that makes the change in any run of the test.
fn option(ivmp: &Ivmp, observed: &Observed, is_call: bool) -> Vec<String> {
    let notation = Notation {
        pc: ivmp.pc,
        nth: ivmp.nth,
        when: ivmp.when,
        change: &ivmp.change,
        is_call,
    };
    if is_call || matches!(ivmp.change, Change::Set(_)) {
        return vec!["--set".to_owned(), notation.to_string()];
    }
    // A line with one branch is a predicate that can be named by the line.
    let entries = observed.profile.entries.iter().zip(&observed.statements);
    let branches = entries.filter(|(e, s)| **s == Some(ivmp.statement) && e.shape.branch.is_some());
    let place = match branches.count() {
        1 => observed.lines[ivmp.statement.0 as usize].short(),
        _ => format!("{:#x}", ivmp.pc),
    };
    vec!["--switch".to_owned(), format!("{place}#{}", ivmp.nth)]
}

/// `format` is that of the memory which the instruction accesses.
fn values(
    m: &Moment<'_>,
    ivmp: &Ivmp,
    format: Option<MemorySize>,
    observed: &Observed,
    run: &Run,
) -> Vec<ValueChange> {
    let Change::Set(list) = &ivmp.change else {
        return Vec::new();
    };
    let change = |(&(location, value), &was): (&(Location, u64), &u64)| {
        let (variable, size) = match location {
            Location::Memory { address, size } => (variable_at(m, address, size), size),
            Location::Register { number, size, .. } => {
                (origin(m, ivmp, number, observed, run), size)
            }
        };
        let name = variable.clone().unwrap_or_else(|| match location {
            Location::Memory { address, .. } => format!("memory at {address:#x}"),
            Location::Register { number, size, high } => register_name(number, size, high),
        });
        let format = format.filter(|_| matches!(location, Location::Memory { .. }));
        ValueChange {
            name,
            is_variable: variable.is_some(),
            was: show(was, size, format),
            with: show(value, size, format),
        }
    };
    list.iter().zip(&ivmp.original).map(change).collect()
}

fn show(value: u64, size: u8, format: Option<MemorySize>) -> String {
    match format {
        Some(MemorySize::Float64) => return f64::from_bits(value).to_string(),
        Some(MemorySize::Float32) => return f32::from_bits(value as u32).to_string(),
        _ => {}
    }
    let n = signed(value, size);
    match u8::try_from(n) {
        Ok(c) if size == 1 && (c.is_ascii_graphic() || c == b' ') => format!("{n} '{}'", c as char),
        _ => n.to_string(),
    }
}

/// The variable in scope at an address.
fn variable_at(m: &Moment<'_>, address: u64, size: u8) -> Option<String> {
    let frames = m.program.unwind(&m.registers(), m.memory(), 1);
    let locals = frames
        .first()
        .map(|f| m.program.locals(f, m.memory()))
        .unwrap_or_default();
    for v in &locals {
        let (Some(at), Some(len)) = (v.address, v.size) else {
            continue;
        };
        if (at..at.saturating_add(len)).contains(&address) {
            return Some(part(&v.name, address - at, len, size));
        }
    }
    let symbol = m.program.data_symbol(address)?;
    Some(part(&symbol.name, symbol.offset, symbol.size, size))
}

fn part(name: &str, offset: u64, len: u64, size: u8) -> String {
    let size = u64::from(size);
    if offset == 0 && len <= size {
        name.to_owned()
    } else if offset.is_multiple_of(size) {
        format!("{name}[{}]", offset / size)
    } else {
        format!("{name}+{offset}")
    }
}

/// The variable that the value in a register was loaded from, a few instructions before.
fn origin(
    m: &Moment<'_>,
    ivmp: &Ivmp,
    number: u8,
    observed: &Observed,
    run: &Run,
) -> Option<String> {
    let last = run.instances.partition_point(|i| i.step < ivmp.step);
    // After an instruction, the one that defines the register is the first to look at.
    for instance in run.instances[..last].iter().rev().take(BACK) {
        let shape = &observed.profile.entries[instance.entry as usize].shape;
        let of_register = |o: &locate::Operand| matches!(o.location(0), Location::Register { number: n, .. } if n == number);
        if !shape.defines.iter().any(of_register) {
            continue;
        }
        let mut memory = shape.uses.iter().filter(|o| o.place.is_memory());
        // A load; the result of a computation has no name.
        let loads = format!("{:?}", shape.instruction().mnemonic()).starts_with("Mov");
        return match (memory.next(), loads) {
            (Some(o), true) => variable_at(m, instance.address, o.place.size()),
            _ => None,
        };
    }
    None
}
