//! Value propagation chains: where a value was born, and every copy on its way.
//!
//! From the place where a rule found the value, the tape is walked backward along copies ([`super::trail`]). Here
//! is what is asked, and what the user is shown of the answer.

use flow::{Codes, Roll};
use guest::Until;
use rules::heap::BlockId;
use serde::Serialize;

use super::report::bytes;
use super::trail::{Move, Origin, Spot, Trail, Walk};
use super::watch::Watched;
use crate::Error;
use crate::moment::{self, Guest};
use crate::slice::{SourcePlace, is_own};

/// Steps of the run that are looked at.
const WINDOW: u64 = 300_000_000;
/// Hops that are shown.
const SHOWN: usize = 24;

/// How a value came to where it was used.
#[derive(Clone, Debug, Serialize)]
pub struct Chain {
    /// What the rule calls it.
    pub name: String,
    /// Where it came from, in words.
    pub origin: String,
    /// Memory that was never written, if that is where it came from: address and length.
    pub unwritten: Option<(u64, u64)>,
    /// Instructions that moved it.
    pub instructions: usize,
    /// From the first to the last. Library code is left out.
    pub hops: Vec<Hop>,
    /// Hops that are not shown.
    pub left_out: usize,
}

#[derive(Clone, Debug, Serialize)]
pub struct Hop {
    pub step: u64,
    #[serde(flatten)]
    pub place: SourcePlace,
    pub text: Option<String>,
    /// The variable that got it.
    pub variable: Option<String>,
    pub value: u64,
}

/// Where a chain begins, which is where the value ended up.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) name: String,
    pub(crate) step: u64,
    pub(crate) thread: u32,
    /// It is any value, not only a pointer.
    pub(crate) any: bool,
    pub(super) at: Spot,
    pub(crate) block: BlockId,
}

/// A part of the run with all that it did: from the first step to before the last.
pub(super) struct Stretch {
    first: u64,
    last: u64,
    roll: Box<Roll>,
}

/// The chains that begin at `starts`. Others will be asked for at `later`, which are steps in ascending order.
pub(crate) fn chains(
    w: &mut Watched,
    starts: &[Start],
    later: &[u64],
) -> Result<Vec<Chain>, Error> {
    let Some(last) = starts.iter().map(|s| s.step).max() else {
        return Ok(Vec::new());
    };
    let first = last.saturating_sub(WINDOW);
    let known = w.stretch.take();
    let stretch = match known.filter(|s| s.first <= first && last <= s.last) {
        Some(stretch) => stretch,
        None => {
            // With every fault on a tape of its own, a hundred of them would cost a hundred replays.
            let near = later.iter().take_while(|s| **s <= last + WINDOW);
            let last = near.last().map_or(last, |s| last.max(*s));
            record(w, first, last)?
        }
    };
    let mut out = Vec::new();
    for start in starts {
        let trail = Walk::new(start, &stretch.roll, &w.machine.heap).run(&w.user);
        w.go_on()?;
        out.push(describe(w, start, trail, stretch.first)?);
    }
    w.stretch = Some(stretch);
    Ok(out)
}

fn record(w: &mut Watched, first: u64, last: u64) -> Result<Stretch, Error> {
    w.goto(first)?;
    let replay = w.replay()?;
    let roll = replay
        .tape(Box::new(Roll::new(Codes::default())))
        .and_then(|()| replay.run(&Until::step(last)))
        .and_then(|_| replay.end_tape());
    let roll = roll.map_err(|e| w.wrong(e))?;
    let roll = roll.into_any().downcast::<Roll>();
    let roll = roll.expect("the listener that was given");
    // An interrupted one lacks its end.
    w.go_on()?;
    Ok(Stretch { first, last, roll })
}

/// The chain as the user sees it, of a stretch from the step `first` on.
fn describe(w: &mut Watched, start: &Start, trail: Trail, first: u64) -> Result<Chain, Error> {
    let mut moves: Vec<Move> = trail.moves.iter().copied().filter(|m| !m.keeps).collect();
    moves.reverse();
    let instructions = moves.len();
    let mut shown: Vec<Move> = Vec::new();
    let mut last: Option<(SourcePlace, u64)> = None;
    for m in moves {
        if !is_own(&w.program, m.pc) {
            continue;
        }
        let place = place(w, m.pc);
        // The moves of one statement are one hop; the last of them says where the value went.
        match &last {
            Some((p, step)) if *p == place && m.step - step < 64 => {
                *shown.last_mut().expect("there is a last one") = m;
            }
            _ => shown.push(m),
        }
        last = Some((place, m.step));
    }
    let left_out = shown.len().saturating_sub(SHOWN);
    if left_out > 0 {
        // The two ends say most.
        shown.drain(SHOWN / 2..SHOWN / 2 + left_out);
    }
    let mut hops = Vec::new();
    for m in shown {
        hops.push(hop(w, &m)?);
    }
    let unwritten = match (trail.origin, trail.begin) {
        (Origin::Unwritten, Spot::Memory(a, n)) => Some((a, n)),
        _ => None,
    };
    let origin = match trail.origin {
        Origin::Allocated => {
            let b = w.machine.heap.block(start.block).clone();
            match w.machine.variable_name(&b) {
                Some(name) => format!("the address of {name}, {}", bytes(b.size)),
                None => {
                    let by = w.function_name(b.by);
                    format!("allocated by {by}, {}", bytes(b.size))
                }
            }
        }
        Origin::Constant if hops.first().is_some_and(|h| h.value == 0) => {
            "the constant 0".to_owned()
        }
        Origin::Constant => "a constant".to_owned(),
        Origin::Computed => "computed".to_owned(),
        Origin::Call(nr) => match abi::name(nr) {
            Some(name) => format!("from the system call {name}"),
            None => "from outside of the program".to_owned(),
        },
        Origin::Unwritten => match unwritten {
            Some((a, 1)) => format!("1 byte at {a:#x} that was never written"),
            Some((a, n)) => format!("{n} bytes at {a:#x} that were never written"),
            None => "never written".to_owned(),
        },
        Origin::Lost => "computed from more values than are followed".to_owned(),
        Origin::Outside if first > 0 => {
            format!("from before step {first}; what was before that was not looked at")
        }
        Origin::Outside => "there from the beginning".to_owned(),
    };
    Ok(Chain {
        name: start.name.clone(),
        origin,
        unwritten,
        instructions,
        hops,
        left_out,
    })
}

fn hop(w: &mut Watched, m: &Move) -> Result<Hop, Error> {
    w.goto(m.step + 1)?;
    let regs = w.guest().regs();
    let (value, variable) = match m.to {
        Spot::Register(r) => (crate::trace::register_of(&regs, r), None),
        Spot::Memory(a, len) => {
            let mut bytes = [0; 8];
            let len = len.min(8) as usize;
            w.guest().read(a, &mut bytes[..len]);
            (u64::from_le_bytes(bytes), variable(w, a))
        }
    };
    let place = place(w, m.pc);
    let text = match (&place.file, place.line) {
        (Some(file), Some(line)) => w
            .program
            .source_line(file, line)
            .map(|t| t.trim().to_owned()),
        _ => None,
    };
    Ok(Hop {
        step: m.step,
        place,
        text,
        variable,
        value,
    })
}

/// The variable at an address: of the function that runs, or a global one.
fn variable(w: &Watched, a: u64) -> Option<String> {
    let memory = Guest(w.guest());
    let registers = moment::registers(&w.guest().regs());
    let frames = w.program.unwind(&registers, &memory, 1);
    let locals = frames
        .first()
        .map(|f| w.program.locals(f, &memory))
        .unwrap_or_default();
    let inside = |start: u64, size: u64| (start..start + size.max(1)).contains(&a);
    let local = locals
        .iter()
        .find(|v| v.address.is_some_and(|s| inside(s, v.size.unwrap_or(8))));
    if let Some(v) = local {
        return Some(v.name.clone());
    }
    w.program.data_symbol(a).map(|s| match a - s.start {
        0 => s.name,
        offset => format!("{}+{offset}", s.name),
    })
}

fn place(w: &Watched, pc: u64) -> SourcePlace {
    crate::trace::place_of(&w.program, pc)
}
