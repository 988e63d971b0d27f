//! Recorded answers that a replay offers to system calls in advance.
//!
//! A call that stops for the tracer costs tens of microseconds, one that the recorder let the guest make on the spot
//! half of one. So that a replay of many small calls is not fifty times slower than the run, the tracer puts the
//! answers that come next in the recording where the guest's system-call routine finds them. The routine takes one
//! if it is for this call, with these arguments, at this step; everything else stops as ever and is judged there.
//! Afterwards the tracer sees how many were taken, and catches up on what it keeps of calls.
//!
//! Offered are only calls of which nothing has to be known at the moment they are made: that write no output that
//! somebody is to see and change no descriptors, and, if the tape is to tell that, touch what their arguments say. What they write goes to private
//! memory in which there can be no code, so that it is there to be written when the call comes.

use std::collections::VecDeque;

use ::tape::{Event as TapeEvent, Stretch};
use abi::{Call, Simple};

use crate::Error;
use crate::engine::Engine;
use crate::layout::{offer, slot};
use crate::recording::{Event, Kind};
use crate::replay::{Replay, Syscalls, Until, spot};

/// Bytes that are offered at a time.
const MOST_BYTES: usize = 1 << 18;
/// Answers that are offered at a time.
const MOST: usize = 4096;
const FEWEST: usize = 4;

/// What the engine has to know of answers that were put in place.
#[derive(Default)]
pub(crate) struct Offers {
    /// In order; those that were taken are gone.
    open: VecDeque<Offered>,
    /// Taken, and nobody has asked yet.
    taken: usize,
}

struct Offered {
    /// Where it lies in the guest.
    at: u64,
    call: Call,
    result: i64,
    written: Option<Stretch>,
}

/// How many answers are worth preparing.
pub(crate) struct Window(usize);

impl Default for Window {
    fn default() -> Self {
        Window(FEWEST)
    }
}

impl Engine {
    /// Puts answers in place, from the beginning.
    fn offer(&mut self, bytes: &[u8], open: VecDeque<Offered>) -> Result<(), Error> {
        let ring = self.cache.layout.ring();
        self.cache.write_shared(ring, bytes);
        self.offers = Offers { open, taken: 0 };
        self.set_slot(slot::OFFER_AT, ring)?;
        self.set_slot(slot::OFFER_END, ring + bytes.len() as u64)
    }

    /// Sees which answers have been taken, and tells the tape. It has to know before what comes later is told.
    pub(crate) fn note_taken(&mut self) -> Result<(), Error> {
        if self.offers.open.is_empty() {
            return Ok(());
        }
        let next = self.slot(slot::OFFER_AT)?;
        while let Some(o) = self.offers.open.pop_front() {
            if o.at >= next {
                self.offers.open.push_front(o);
                break;
            }
            self.offers.taken += 1;
            if !self.taping() {
                continue;
            }
            let mut head = [0; offer::TO as usize];
            self.cache.read_shared(o.at, &mut head);
            let word = |n: u32| {
                let n = n as usize;
                u64::from_le_bytes(head[n..n + 8].try_into().expect("eight bytes"))
            };
            let (cursor, after) = (word(offer::CURSOR), word(offer::NEXT));
            let mut call = o.call;
            for n in 0..3 {
                call.args[n + 3] = word(offer::ARGS + 8 * n as u32);
            }
            let plan = || abi::Plan::before(&call, &self.memory).ok();
            let plan = self.tape_wants().reads.then(plan).flatten();
            let reads = plan.map(|p| p.reads(o.result, &self.memory));
            let stretch = |r: abi::Range| Stretch {
                addr: r.addr,
                len: r.len,
            };
            let enter = TapeEvent::Enter {
                pc: after.wrapping_sub(2),
                nr: call.nr,
                args: call.args,
            };
            let leave = TapeEvent::Leave {
                nr: call.nr,
                result: o.result,
                reads: reads.into_iter().flatten().map(stretch).collect(),
                writes: o.written.into_iter().collect(),
            };
            self.tape_call(cursor, enter, leave);
        }
        Ok(())
    }

    /// Takes the answers back that were not taken; says how many were.
    fn withdraw(&mut self) -> Result<usize, Error> {
        self.note_taken()?;
        self.offers.open.clear();
        // A guest that is gone has nothing to take.
        match self.set_slot(slot::OFFER_END, 0) {
            Err(Error::Lost) | Ok(()) => Ok(std::mem::take(&mut self.offers.taken)),
            Err(e) => Err(e),
        }
    }

    /// There is private memory of the guest's that no code can be in.
    fn is_plain_memory(&self, addr: u64, len: u64) -> bool {
        let end = addr.saturating_add(len);
        self.maps.find(addr).is_some_and(|m| {
            end <= m.end && m.protection.write && !m.protection.execute && !m.shared
        })
    }
}

impl Replay {
    /// Offers the answers that come next, if the guest is to have them without a stop. The step by which it has to
    /// stop for what comes behind them.
    pub(crate) fn offer_answers(&mut self, until: &Until) -> Result<Option<u64>, Error> {
        let spots = |e: &Event| e.kind == Kind::Spot;
        let plain = !self.edited
            && until.watches.is_empty()
            && until.syscalls != Syscalls::Any
            && self.engine.observed.is_empty();
        if !plain || !self.next.as_ref().is_some_and(spots) {
            return Ok(None);
        }
        self.engine.refresh_maps()?;
        let mut ahead = self.reader.clone();
        let mut event = self.next.clone();
        let (mut bytes, mut open) = (Vec::new(), VecDeque::new());
        let mut last = 0;
        let ring = self.engine.cache.layout.ring();
        while let Some(e) = &event {
            if open.len() >= self.window.0 || bytes.len() > MOST_BYTES {
                break;
            }
            let Some((mut offered, data)) = self.answer(e, until) else {
                break;
            };
            offered.at = ring + bytes.len() as u64;
            let [a, b, c, ..] = offered.call.args;
            let to = offered.written.map_or(0, |w| w.addr);
            let words = [
                offered.call.nr,
                e.step,
                e.result as u64,
                a,
                b,
                c,
                to,
                data.len() as u64,
            ];
            bytes.extend(words.into_iter().flat_map(u64::to_le_bytes));
            bytes.extend_from_slice(data);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
            open.push_back(offered);
            last = e.step;
            event = ahead.next()?;
        }
        if open.is_empty() {
            return Ok(None);
        }
        self.engine.offer(&bytes, open)?;
        // A guest that was killed in a call has the end of its recording at an earlier step than the call.
        let due = |e: &Event| {
            let timed = [Kind::Signal, Kind::Switch, Kind::Memory, Kind::End];
            timed.contains(&e.kind).then_some(e.step.max(last))
        };
        Ok(event.as_ref().and_then(due))
    }

    /// The answer to a recorded call, and what it writes, if it can be given in advance.
    fn answer<'a>(&self, e: &'a Event, until: &Until) -> Option<(Offered, &'a [u8])> {
        let nr = u64::from(e.nr);
        let ([a, b, c], data) = spot(&e.payload).ok().filter(|_| e.kind == Kind::Spot)?;
        let call = Call {
            nr,
            args: [a, b, c, 0, 0, 0],
        };
        let announced = matches!(&until.syscalls, Syscalls::Numbers(list) if list.contains(&nr));
        let named = nr == libc::SYS_prctl as u64
            || nr == libc::SYS_write as u64 && !self.engine.threads.naming.is_empty();
        // Later it is not known any more what it touched.
        let unknown = self.engine.tape_wants().has_to_be_seen(nr);
        if announced || named || unknown || !self.descriptors.can_wait(&call) {
            return None;
        }
        let written = match abi::simple(nr) {
            _ if data.is_empty() => None,
            Simple::FixedAt { arg, .. } | Simple::ReturnedAt { arg, .. } => Some(Stretch {
                addr: *call.args[..3].get(usize::from(arg))?,
                len: data.len() as u64,
            }),
            _ => return None,
        };
        if written.is_some_and(|w| !self.engine.is_plain_memory(w.addr, w.len)) {
            return None;
        }
        let offered = Offered {
            at: 0,
            call,
            result: e.result,
            written,
        };
        Some((offered, data))
    }

    /// The guest has stopped: catches up on the calls that took their answers.
    pub(crate) fn answers_taken(&mut self) -> Result<(), Error> {
        let offered = self.engine.offers.open.len() + self.engine.offers.taken;
        if offered == 0 {
            return Ok(());
        }
        let taken = self.engine.withdraw()?;
        self.window.0 = match taken {
            n if n == offered => (2 * self.window.0).min(MOST),
            n => (n + n / 2).clamp(FEWEST, MOST),
        };
        for _ in 0..taken {
            let missing = || Error::Internal("an answer was taken that was not offered".into());
            let event = self.take()?.ok_or_else(missing)?;
            let (args, _) = spot(&event.payload)?;
            let call = Call {
                nr: u64::from(event.nr),
                args: [args[0], args[1], args[2], 0, 0, 0],
            };
            self.engine.stats.syscalls += 1;
            self.forward(&call, event.result);
        }
        Ok(())
    }
}
