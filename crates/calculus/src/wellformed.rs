//! Definition 3.1: well-formed states; and what the proof of soundness needs of the trace besides.

use std::collections::BTreeSet;

use crate::state::{Bid, Event, Region, State};
use crate::syntax::{Expr, Kind, Value};

/// Nothing, or what is not as it must be.
pub fn well_formed(state: &State) -> Result<(), String> {
    let frames = state.stack.iter().flat_map(|f| f.blocks.keys().copied());
    let stacked: Vec<Bid> = frames.collect();
    let alive: BTreeSet<Bid> = stacked.iter().copied().collect();
    let heap: BTreeSet<Bid> = state.heap.keys().copied().collect();
    // The definition itself.
    disjoint(&heap, &state.freed, "lives and is freed")?;
    disjoint(&heap, &alive, "is in the heap and on the stack")?;
    disjoint(&state.freed, &alive, "is freed and on the stack")?;
    ensure(alive.len() == stacked.len(), || {
        "a block is in two frames".to_owned()
    })?;
    regions(state)?;
    pointers(state)?;
    trace(state)
}

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}

fn disjoint(a: &BTreeSet<Bid>, b: &BTreeSet<Bid>, what: &str) -> Result<(), String> {
    match a.intersection(b).next() {
        Some(bid) => Err(format!("{bid} {what}")),
        None => Ok(()),
    }
}

fn regions(state: &State) -> Result<(), String> {
    for bid in state.heap.keys() {
        ensure(bid.region == Region::Heap, || {
            format!("{bid} is in the heap")
        })?;
    }
    for (n, frame) in state.stack.iter().enumerate() {
        let wanted = if n == 0 {
            Region::Global
        } else {
            Region::Stack
        };
        for bid in frame.blocks.keys() {
            ensure(bid.region == wanted, || format!("{bid} is in frame {n}"))?;
        }
    }
    Ok(())
}

/// P knows every location that the program has, and its blocks are known.
fn pointers(state: &State) -> Result<(), String> {
    for (r, p) in &state.pointers {
        let known = state.freed.contains(&p.bid) || state.block(p.bid).is_some();
        ensure(known, || format!("{r} leads to {}", p.bid))?;
    }
    let frames = state.stack.iter().flat_map(|f| f.blocks.values());
    let cells = frames
        .chain(state.heap.values())
        .flat_map(|b| b.contents.iter().flatten());
    for v in cells {
        known_value(state, v)?;
    }
    known_expr(state, &state.expr)
}

fn known_value(state: &State, v: &Value) -> Result<(), String> {
    match v {
        Value::Pointer(r) => ensure(state.pointers.contains_key(r), || {
            format!("{r} is not in P")
        }),
        _ => Ok(()),
    }
}

fn known_expr(state: &State, e: &Expr) -> Result<(), String> {
    if let Kind::Value(v) = &e.kind {
        known_value(state, v)?;
    }
    let mut e = e.clone();
    e.parts_mut()
        .into_iter()
        .try_for_each(|p| known_expr(state, p))
}

/// The trace tells of exactly the blocks that were made and freed, of the last value of each cell, and of the calls
/// that are open; its times increase.
fn trace(state: &State) -> Result<(), String> {
    let mut last = None;
    let (mut live, mut freed) = (BTreeSet::new(), BTreeSet::new());
    let mut open = 0;
    let mut written = std::collections::BTreeMap::new();
    for t in &state.trace {
        ensure(last < Some(t.time) && t.time < state.time, || {
            format!("an event at {}, which is not in order", t.time)
        })?;
        last = Some(t.time);
        match &t.event {
            Event::Malloc { size, bid } => {
                ensure(live.insert(*bid) && !freed.contains(bid), || {
                    format!("{bid} was made twice")
                })?;
                if let Some(b) = state.heap.get(bid) {
                    let agrees = b.contents.len() as u64 == *size && b.time == t.time;
                    ensure(agrees, || format!("{bid} is not the block that was made"))?;
                }
            }
            Event::Free { at, bid } => {
                let known = state.pointers.get(at).map(|p| (p.bid, p.index));
                ensure(known == Some((*bid, 0)), || {
                    format!("{bid} was freed by {at}")
                })?;
                ensure(live.remove(bid) && freed.insert(*bid), || {
                    format!("{bid} was freed twice")
                })?;
            }
            Event::Write { at, value, .. } => {
                let p = state.pointers.get(at).copied();
                let p = p.ok_or_else(|| format!("{at} was written and is not in P"))?;
                written.insert(p, value);
            }
            Event::Call(..) => open += 1,
            Event::Ret(..) => open -= 1,
            Event::If(_) => {}
        }
    }
    ensure(live.iter().eq(state.heap.keys()), || {
        "H is not what the trace tells".to_owned()
    })?;
    let heap_freed = state.freed.iter().filter(|b| b.region == Region::Heap);
    ensure(freed.iter().eq(heap_freed), || {
        "F is not what the trace tells".to_owned()
    })?;
    // Global variables and main have a frame each, and main is not called.
    let frames = state.stack.len() as i64 - 2;
    ensure(frames == open, || format!("{frames} frames, {open} calls"))?;
    let frames = state.stack.iter().flat_map(|f| &f.blocks);
    for (bid, block) in frames.chain(&state.heap) {
        for (i, cell) in block.contents.iter().enumerate() {
            let p = crate::state::Pointer {
                bid: *bid,
                index: i as i64,
            };
            ensure(written.get(&p).copied() == cell.as_ref(), || {
                format!("{bid} has not at {i} what was last written there")
            })?;
        }
    }
    Ok(())
}
