//! Calls that a recorded guest has run on the spot, as its tape tells them.
//!
//! The tracer learns of such a call when the guest stops for something else, and by then the tape has gone on: the
//! call's place on it, and what else the tape tells but the events file does not need, is written by the system-call
//! routine beside the record in the ring. Whenever an event is added to the tape, or a piece of it handed over, the
//! calls since the last time are put in their places first. The ring itself is emptied by the recorder, which
//! moves it to the file.
//!
//! What a call has touched is known afterwards only if its arguments say it. If somebody wants to know, other calls are
//! not run on the spot (`choose_classes`).

use ::tape::{Event, Stretch};
use abi::{Call, Plan, Simple};

use crate::Error;
use crate::engine::Engine;
use crate::layout::{beside, record, slot};

/// How far the ring has been told.
#[derive(Clone, Copy, Default)]
pub(crate) struct Told {
    bytes: u64,
    calls: u64,
}

impl Engine {
    /// The ring is empty from here on, and a tape is told of what comes into it.
    pub(crate) fn empty_ring(&mut self) -> Result<(), Error> {
        let layout = self.cache.layout;
        self.set_slot(slot::RING_AT, layout.ring())?;
        if self.spots.is_some() {
            self.spots = Some(Told::default());
        }
        let beside = if self.spots.is_some() {
            layout.beside()
        } else {
            0
        };
        self.set_slot(slot::BESIDE_AT, beside)
    }

    /// Bytes in the ring. Of a guest that is gone the mark is gone too: what is logged ends where a step is zero.
    pub(crate) fn in_ring(&self) -> (u64, bool) {
        let layout = self.cache.layout;
        match self.slot(slot::RING_AT) {
            Ok(at) => (at - layout.ring(), true),
            Err(_) => (layout.spots_end() - layout.ring(), false),
        }
    }

    /// Tells the tape of the calls that it has not been told of.
    pub(crate) fn note_spots(&mut self) -> Result<(), Error> {
        let Some(mut told) = self.spots.filter(|_| self.taping()) else {
            return Ok(());
        };
        let (used, lives) = self.in_ring();
        if used <= told.bytes {
            return Ok(());
        }
        let layout = self.cache.layout;
        let mut ring = vec![0; (used - told.bytes) as usize];
        self.cache
            .read_shared(layout.ring() + told.bytes, &mut ring);
        let mut rest = ring.as_slice();
        while let Some(head) = rest.first_chunk::<{ record::SIZE as usize }>() {
            let word = |n: u32| word(head, n);
            let (nr, len) = (word(record::NR) & 0xff_ffff, word(record::NR) >> 32);
            if word(record::STEP) == 0 {
                break;
            }
            let mut more = [0; beside::SIZE as usize];
            let at = layout.beside() + told.calls * u64::from(beside::SIZE);
            self.cache.read_shared(at, &mut more);
            let first = [0, 1, 2].map(|n| word(record::ARGS + 8 * n));
            let last = [0, 1, 2].map(|n| self::word(&more, beside::ARGS + 8 * n));
            let call = Call {
                nr,
                args: [first[0], first[1], first[2], last[0], last[1], last[2]],
            };
            let (cursor, next) = (
                self::word(&more, beside::CURSOR),
                self::word(&more, beside::NEXT),
            );
            let written = len.saturating_sub(u64::from(record::ARGS_LEN));
            if !lives {
                self.tape_came_to(word(record::STEP), cursor);
            }
            self.tape_spot(&call, word(record::RESULT) as i64, written, cursor, next);
            let size = (u64::from(record::ARGS) + len).next_multiple_of(8);
            told.bytes += size;
            told.calls += 1;
            rest = rest.get(size as usize..).unwrap_or_default();
        }
        self.spots = Some(told);
        Ok(())
    }

    fn tape_spot(&mut self, call: &Call, result: i64, written: u64, cursor: u64, next: u64) {
        let stretch = |r: abi::Range| Stretch {
            addr: r.addr,
            len: r.len,
        };
        let plan = || Plan::before(call, &self.memory).ok();
        let plan = self.tape_wants().reads.then(plan).flatten();
        let reads = plan.map(|p| p.reads(result, &self.memory));
        let writes = match abi::simple(call.nr) {
            Simple::FixedAt { arg, .. } | Simple::ReturnedAt { arg, .. } if written > 0 => {
                vec![Stretch {
                    addr: call.args[arg as usize],
                    len: written,
                }]
            }
            _ => Vec::new(),
        };
        let enter = Event::Enter {
            pc: next.wrapping_sub(2),
            nr: call.nr,
            args: call.args,
        };
        let leave = Event::Leave {
            nr: call.nr,
            result,
            reads: reads.into_iter().flatten().map(stretch).collect(),
            writes,
        };
        self.tape_call(cursor, enter, leave);
    }
}

fn word(bytes: &[u8], at: u32) -> u64 {
    let at = at as usize;
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
