//! The abstract trace: what rules are asked about, as a list.

use std::collections::HashMap;

use rules::heap::BlockId;
use rules::machine::MOST_NOTED;
use serde::Serialize;

use super::watch::Watched;

#[derive(Clone, Debug, Serialize)]
pub struct AbstractEvent {
    /// The step before which it happens.
    pub step: u64,
    #[serde(flatten)]
    pub what: EventKind,
    /// Of accesses: the source line.
    pub place: Option<String>,
}

/// Blocks are numbered from 1, in the order in which they were made.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum EventKind {
    Malloc {
        block: u32,
        size: u64,
        begin: u64,
        by: String,
    },
    Free {
        block: u32,
        by: String,
    },
    Read {
        block: u32,
        index: i64,
        size: u64,
    },
    Write {
        block: u32,
        index: i64,
        size: u64,
    },
    Call {
        function: String,
        values: [u64; 6],
    },
    Ret {
        function: String,
        value: u64,
    },
}

/// In the order of steps.
pub(super) fn events(w: &Watched, notes: &mut Vec<String>) -> Vec<AbstractEvent> {
    let machine = &w.machine;
    let numbered = machine.heap.all().zip(1..);
    let numbers: HashMap<BlockId, u32> = numbered.map(|((id, _), n)| (id, n)).collect();
    let mut out = Vec::new();
    let mut tell = |step, what, place| out.push(AbstractEvent { step, what, place });
    for ((_, b), block) in machine.heap.all().zip(1..) {
        let made = EventKind::Malloc {
            block,
            size: b.size,
            begin: b.begin,
            by: w.function_name(b.by).to_owned(),
        };
        tell(b.born, made, None);
        if let Some(f) = b.freed {
            let freed = EventKind::Free {
                block,
                by: w.function_name(f.by).to_owned(),
            };
            tell(f.step, freed, None);
        }
    }
    for c in &machine.calls {
        let function = c.function.clone();
        let what = match c.returned {
            true => EventKind::Ret {
                function,
                value: c.values[0],
            },
            false => EventKind::Call {
                function,
                values: c.values,
            },
        };
        tell(c.step, what, None);
    }
    let mut places: HashMap<u64, Option<String>> = HashMap::new();
    let accesses = machine.accesses.as_deref().unwrap_or_default();
    for a in accesses {
        let Some(&block) = numbers.get(&a.block) else {
            continue;
        };
        let begin = machine.heap.block(a.block).begin;
        let (index, size) = (a.address.wrapping_sub(begin) as i64, a.size);
        let what = match a.write {
            true => EventKind::Write { block, index, size },
            false => EventKind::Read { block, index, size },
        };
        let place = places.entry(a.pc).or_insert_with(|| {
            let (file, line) = w.program.lines_at(a.pc).pop()?;
            Some(format!("{}:{line}", file.display()))
        });
        tell(a.step, what, place.clone());
    }
    if accesses.len() == MOST_NOTED {
        notes.push(format!("only the first {MOST_NOTED} accesses are listed\n"));
    }
    out.sort_by_key(|e| e.step);
    out
}
