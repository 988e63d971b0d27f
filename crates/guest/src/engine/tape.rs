//! Writing the tape: buffers, shapes and events, and the thread that reads along.
//!
//! Translated code writes records to a buffer. There is no check for its end: the step budget is small
//! enough that the guest stops before it. Then the tracer, on the guest's CPU, copies them out for
//! somebody who reads them on another CPU, and the guest writes to the same memory again: it stays in
//! the caches of its CPU. The copy does not go there. Several of them are handed over at once, because to wake
//! somebody takes long.
//! The guest need not come to a boundary for that: it goes on in the middle of the superblock in which its budget ran
//! out, and what it has written of that superblock's record is moved to the beginning of the buffer.
//!
//! Handing the buffer itself over, and writing to another one meanwhile, was rejected: each line of it
//! has to be taken back from the reader's CPU when it is written to the next time, and that takes the
//! guest up to ten times as long as running, and twice as long if the lines are asked for ahead (`prefetchw`). A copy through
//! the caches was rejected too: it takes half as long as one past them, or three times as long, by where the two CPUs are.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use ::tape::{Event, Followed, Insn as TapedInsn, Listener, Measures, Part, Shape, Stretch};
use abi::{Call, Class, Plan};

use super::*;
use crate::layout::TAPE_SIZE;
use crate::translate::emit::Gpr;
use crate::translate::tape::{HOME, MAX_BYTES_PER_STEP, Taped, saved};

/// The buffer is emptied when this much is in it; little enough to stay in the CPU's caches.
const ENOUGH: u64 = 1 << 20;
/// What is wanted in the buffer where the guest stops for it: a stop takes as long as tens of thousands of steps, and
/// should not be made before there is enough.
const WANTED: u64 = ENOUGH + ENOUGH / 4;
/// Steps that the guest is given at least, if there is room for them.
const LEAST_PACE: u64 = 650_000;
/// A copy is handed over when this much is in it: to wake the reader, or to be woken by it, takes as long as thousands of
/// steps.
const WORTH_WAKING: usize = 4 << 20;
/// Copies that may wait for the reader before the guest does.
const COPIES: usize = 2;
const MANY_EVENTS: usize = 4096;
/// No record is longer.
const LONGEST: usize = ::tape::RECORD_HEAD + 8 * ::tape::slot::VALUES as usize;

/// A superblock of which a record may have to be cut short.
struct Cut {
    code: Arc<::tape::Code>,
    values_before: Vec<u8>,
    /// Shapes of its cut records, by the number of instructions executed.
    shapes: Vec<(u8, u32)>,
}

/// All that is known of taped code, and the tape being written.
#[derive(Default)]
pub(crate) struct Tape {
    shapes: Vec<Shape>,
    blocks: FxHashMap<BlockId, Cut>,
    bounded: Option<Cut>,
    /// The code cache holds taped code.
    in_cache: bool,
    running: Option<Running>,
    /// Entries of functions whose arguments the tape tells, with the results of all functions.
    probes: Option<FxHashMap<u64, Measures>>,
    /// It is handed over after so many steps at the latest.
    piece: Option<u64>,
}

/// Where a stopped guest has the cursor.
#[derive(Clone, Copy)]
pub(super) enum Cursor {
    In(Gpr),
    /// In the thread's page.
    Parked,
}

/// A tape that is being written.
struct Running {
    reader: Reader,
    /// What has been copied and not been handed over: so many bytes.
    copy: Vec<u8>,
    copied: usize,
    /// Where the next record goes. The guest has it while it runs.
    cursor: u64,
    /// How far it goes if the guest is killed before its next stop.
    certain: u64,
    /// Shapes that the listener has been told.
    told: usize,
    events: Vec<(u32, Event)>,
    /// The step before what has not been handed over.
    step: u64,
    /// The step at which the buffer was last empty, and how many there are likely to be until there is enough in it.
    emptied: u64,
    pace: u64,
    /// What has been written to the guest's memory since the last event.
    writes: Vec<Stretch>,
}

/// What somebody wants to know of system calls beside what they write.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// What they read.
    pub(crate) reads: bool,
    /// What they touch through pointers that lie in memory.
    followed: bool,
}

impl Wanted {
    /// Of such calls it is not known any more when they are over, but has to be found in memory before they are made.
    pub(crate) fn has_to_be_seen(self, nr: u64) -> bool {
        self.reads && !abi::reads_by_arguments(nr) || self.followed && abi::follows_pointers(nr)
    }
}

/// Somebody listens on another thread.
struct Reader {
    wanted: Wanted,
    to: Option<Sender<Message>>,
    /// Gives copies back that have been read.
    done: Receiver<Vec<u8>>,
    /// Copies that have not been given back.
    busy: usize,
    /// Those that have, to be used again.
    free: Vec<Vec<u8>>,
    thread: JoinHandle<Box<dyn Listener>>,
}

struct Message {
    step: u64,
    records: Vec<u8>,
    /// So many bytes of them.
    len: usize,
    shapes: Vec<Shape>,
    events: Vec<(u32, Event)>,
}

impl Reader {
    fn start(mut listener: Box<dyn Listener>) -> Self {
        let wanted = Wanted {
            reads: listener.wants_reads(),
            followed: listener.wants_followed(),
        };
        let (to, messages) = channel::<Message>();
        let (ack, done) = channel();
        let thread = std::thread::spawn(move || {
            crate::process::unpin_self();
            for m in messages {
                listener.hear(Part {
                    step: m.step,
                    shapes: &m.shapes,
                    records: &m.records[..m.len],
                    events: &m.events,
                });
                if ack.send(m.records).is_err() {
                    break;
                }
            }
            listener
        });
        Reader {
            wanted,
            to: Some(to),
            done,
            busy: 0,
            free: Vec::new(),
            thread,
        }
    }

    /// Waits until at most `most` copies have not been read.
    fn wait(&mut self, most: usize) -> Result<(), Error> {
        while self.busy > most {
            let copy = self.done.recv().map_err(|_| gone())?;
            self.free.push(copy);
            self.busy -= 1;
        }
        Ok(())
    }

    /// Room for a copy.
    fn room(&mut self) -> Result<Vec<u8>, Error> {
        self.wait(COPIES - 1)?;
        let new = || vec![0; WORTH_WAKING + 2 * ENOUGH as usize];
        Ok(self.free.pop().unwrap_or_else(new))
    }

    fn send(&mut self, m: Message) -> Result<(), Error> {
        self.busy += 1;
        let to = self.to.as_ref().expect("the reader has not been stopped");
        to.send(m).map_err(|_| gone())
    }

    fn stop(mut self) -> Result<Box<dyn Listener>, Error> {
        self.to = None;
        self.thread.join().map_err(|_| gone())
    }
}

fn gone() -> Error {
    Error::Internal("whoever reads the tape has failed".into())
}

impl Engine {
    pub(crate) fn taping(&self) -> bool {
        self.tape.running.is_some()
    }

    /// What somebody wants to know of system calls.
    pub(crate) fn tape_wants(&self) -> Wanted {
        let running = self.tape.running.as_ref();
        running.map_or(Wanted::default(), |r| r.reader.wanted)
    }

    /// Has the tape tell the arguments of calls that arrive at these addresses, and the result of
    /// every function, from here on.
    pub(crate) fn probe(&mut self, entries: FxHashMap<u64, Measures>) {
        match self.tape.probes.replace(entries) {
            // Functions are found one after the other. What they have to do with is made anew, and not all of it.
            Some(old) => {
                let new = self.tape.probes.as_ref().expect("just put there");
                let gone = old.keys().filter(|pc| !new.contains_key(pc));
                let changed = new.iter().filter(|(pc, m)| old.get(pc) != Some(m));
                for &pc in gone.chain(changed.map(|(pc, _)| pc)) {
                    self.cache.retire(pc, pc + 1);
                }
            }
            None => {
                self.tape.blocks.clear();
                self.cache.clear();
            }
        }
    }

    pub(super) fn probed(&self) -> Option<&FxHashMap<u64, Measures>> {
        self.tape.probes.as_ref().filter(|_| self.taping())
    }

    /// Has the tape handed over after so many steps at the latest.
    pub(crate) fn tape_in_pieces(&mut self, most: u64) {
        self.tape.piece = Some(most);
    }

    /// Begins a tape at the present boundary.
    pub(crate) fn start_tape(&mut self, listener: Box<dyn Listener>) -> Result<(), Error> {
        let told = listener.shapes_heard();
        self.tape.running = Some(Running {
            reader: Reader::start(listener),
            copy: Vec::new(),
            copied: 0,
            cursor: self.cache.layout.tape(),
            certain: self.cache.layout.tape(),
            told,
            events: Vec::new(),
            step: self.step()?,
            emptied: self.step()?,
            pace: LEAST_PACE,
            writes: Vec::new(),
        });
        Ok(())
    }

    /// Ends the tape and gives the listener back, who has heard everything.
    pub(crate) fn end_tape(&mut self) -> Result<Option<Box<dyn Listener>>, Error> {
        if !self.taping() {
            return Ok(None);
        }
        let step = match self.step() {
            Ok(step) => step,
            // A guest that is gone has nothing to say of its steps.
            Err(_) => {
                self.catch_up()?;
                let r = self.tape.running.as_mut().expect("just seen");
                r.cursor = r.certain;
                self.stats.steps
            }
        };
        self.hand_over(step)?;
        let running = self.tape.running.take().expect("just seen");
        running.reader.stop().map(Some)
    }

    /// Gives up the tape at this step, for the engine of another image of the same guest.
    pub(crate) fn give_tape(&mut self, step: u64) -> Result<Tape, Error> {
        if self.taping() {
            self.hand_over(step)?;
        }
        let tape = std::mem::take(&mut self.tape);
        Ok(Tape {
            // They are about the code of this engine.
            blocks: FxHashMap::default(),
            bounded: None,
            in_cache: tape.running.is_some(),
            ..tape
        })
    }

    /// Goes on with the tape of the engine of an earlier image. This one has not run anything.
    pub(crate) fn take_tape(&mut self, mut tape: Tape) {
        if let Some(r) = &mut tape.running {
            r.cursor = self.cache.layout.tape();
            r.certain = r.cursor;
        }
        self.tape = tape;
    }

    /// Has everything on the tape that was done without the tracer.
    fn catch_up(&mut self) -> Result<(), Error> {
        self.note_taken()?;
        self.note_spots()
    }

    /// A guest that is gone came at least to this step, when the cursor was there.
    pub(crate) fn tape_came_to(&mut self, step: u64, cursor: u64) {
        if let Some(r) = &mut self.tape.running
            && cursor > r.certain
        {
            r.certain = cursor;
            self.stats.steps = self.stats.steps.max(step);
        }
    }

    /// The guest stands at this step, which is how far it came if it is killed before its next stop.
    pub(crate) fn tape_stands(&mut self, step: u64) {
        if let Some(r) = &mut self.tape.running {
            r.certain = r.cursor;
            self.stats.steps = step;
        }
    }

    /// Waits until the listener has heard what is on the tape by now.
    pub(crate) fn let_tape_be_heard(&mut self) -> Result<(), Error> {
        if !self.taping() {
            return Ok(());
        }
        self.hand_over(self.step()?)?;
        let r = self.tape.running.as_mut().expect("just seen");
        r.reader.wait(0)
    }

    /// The tape as a listener that does not want it has to be rid of.
    pub(crate) fn drop_tape(&mut self) {
        if let Some(r) = self.tape.running.take() {
            drop(r.reader.stop());
        }
    }

    /// Sees to it that the code in the cache writes the tape exactly if there is one.
    pub(super) fn set_cache_mode(&mut self) {
        if self.tape.in_cache != self.taping() {
            self.tape.in_cache = self.taping();
            self.tape.blocks.clear();
            self.cache.clear();
        }
    }

    /// The longest superblock that may be made.
    pub(super) fn longest(&self) -> usize {
        if self.taping() {
            crate::translate::tape::MAX_INSNS
        } else if !self.observed.is_empty() {
            MAX_OBSERVED
        } else {
            MAX_INSNS
        }
    }

    /// Number that the next shape will have, if the tape is being written.
    pub(super) fn next_shape(&self) -> Option<u32> {
        self.taping().then_some(self.tape.shapes.len() as u32)
    }

    pub(super) fn add_taped(&mut self, taped: Option<Taped>, block: Option<BlockId>) {
        let Some(taped) = taped else {
            return;
        };
        for way in taped.ways {
            self.tape.shapes.push(Shape {
                code: taped.code.clone(),
                executed: way.executed,
                values: way.values,
                rsp: way.rsp,
                rbp: way.rbp,
            });
        }
        let cut = Cut {
            code: taped.code,
            values_before: taped.values_before,
            shapes: Vec::new(),
        };
        match block {
            Some(id) => {
                self.tape.blocks.insert(id, cut);
            }
            None => self.tape.bounded = Some(cut),
        }
    }

    /// The guest is about to run taped code and moves the cursor.
    pub(super) fn give_cursor(&mut self, regs: &mut UserRegs) -> Result<(), Error> {
        let Some(r) = &self.tape.running else {
            return Ok(());
        };
        let cursor = r.cursor;
        let home = register_mut(regs, HOME.0);
        let own = std::mem::replace(home, cursor);
        self.set_slot(saved(HOME), own)
    }

    /// Takes the cursor from a guest that has stopped, and leaves it its own registers.
    pub(super) fn take_cursor(&mut self, from: Cursor) -> Result<(), Error> {
        if !self.taping() {
            return Ok(());
        }
        let cursor = match from {
            Cursor::In(r) => {
                let own = self.slot(saved(r))?;
                std::mem::replace(register_mut(&mut self.regs, r.0), own)
            }
            Cursor::Parked => self.slot(slot::TAPE)?,
        };
        let r = self.tape.running.as_mut().expect("just seen");
        r.cursor = cursor;
        Ok(())
    }

    /// The same at a stop for the tracer, if that is what is at this host address.
    pub(super) fn take_cursor_at(&mut self, host: u64) -> Result<(), Error> {
        let region = self.cache.region_of(host);
        let is_call = region.is_some_and(|r| {
            let l = self.cache.regions[r].labels;
            host == l.syscall_stop || host == l.syscall_done_stop
        });
        match self.cache.point_at(host) {
            _ if is_call => self.take_cursor(Cursor::Parked),
            Some((
                _,
                &Point::Budget {
                    open: Some((_, r)), ..
                },
            )) => self.take_cursor(Cursor::In(r)),
            _ if self.is_stop(host) => self.take_cursor(Cursor::In(HOME)),
            _ => Ok(()),
        }
    }

    /// Makes the tape ready for the guest to go on; returns the steps for which there is room.
    pub(super) fn turn_tape(&mut self) -> Result<u64, Error> {
        self.set_cache_mode();
        if !self.taping() {
            return Ok(u64::MAX);
        }
        self.catch_up()?;
        let r = self.tape.running.as_ref().expect("just seen");
        if r.events.len() > MANY_EVENTS || self.tape_is_full() {
            self.make_room(self.step()?)?;
        }
        self.tape_state()?;
        Ok(self.tape_room())
    }

    /// Steps for which there is room.
    fn tape_room(&self) -> u64 {
        let room = (TAPE_SIZE - self.tape_used()) / MAX_BYTES_PER_STEP - 2 * MAX_INSNS as u64;
        let pace = self.tape.running.as_ref().map_or(u64::MAX, |r| r.pace);
        let room = room.min(pace);
        self.tape.piece.map_or(room, |most| room.min(most))
    }

    /// There is enough on it to be handed over.
    fn tape_is_full(&self) -> bool {
        let enough = if self.tape.piece.is_some() { 0 } else { ENOUGH };
        self.tape_used() > enough
    }

    /// The guest has stopped. If that is because its budget ran out, and the run is not to end yet: makes room on the
    /// tape and lets it go on where it stands. Its registers are those of the process.
    pub(super) fn refill(&mut self, goal: Option<u64>) -> Result<bool, Error> {
        if !self.taping() || !self.pending.is_empty() {
            return Ok(false);
        }
        let point = self.cache.point_at(self.regs.rip.wrapping_sub(1));
        let Some((
            _,
            &Point::Budget {
                uncounted,
                open,
                again: Some(again),
                ..
            },
        )) = point
        else {
            return Ok(false);
        };
        // All of the superblock at hand is in the count, also what is still to come.
        let count = self.note_use()?;
        let left = goal.map_or(NO_LIMIT, |goal| goal.saturating_sub(count));
        if left <= NEAR {
            return Ok(false);
        }
        let (index, register) = open.unwrap_or((0, HOME));
        let home = register_mut(&mut self.regs, register.0);
        let cursor = *home;
        let r = self.tape.running.as_mut().expect("just seen");
        r.cursor = cursor;
        let step = count.wrapping_add_signed(i64::from(uncounted)) - u64::from(index);
        self.tape_stands(step);
        if self.tape_is_full() {
            let mut begun = [0; LONGEST];
            self.cache.read_shared(cursor, &mut begun);
            self.make_room(step)?;
            let base = self.cache.layout.tape();
            self.cache.write_shared(base, &begun);
            *register_mut(&mut self.regs, register.0) = base;
        }
        let budget = left - (MAX_INSNS as u64 + u64::from(MOST_BLIND));
        self.set_step(count, budget.min(self.tape_room()))?;
        if again.rcx {
            self.regs.rcx = self.slot(slot::RCX)?;
        }
        self.regs.rip = again.host;
        self.regs.orig_rax = u64::MAX;
        self.tracee.set_regs(&self.regs)?;
        self.tracee.resume(Resume::Run)?;
        Ok(true)
    }

    /// Says whose turn it is and where that thread stands: what comes next on the tape is about it.
    pub(crate) fn tape_state(&mut self) -> Result<(), Error> {
        self.tape_event(Event::State {
            thread: self.threads.current.0,
            pc: self.regs.rip,
            rsp: self.regs.rsp,
            rbp: self.regs.rbp,
            fs_base: self.regs.fs_base,
        })
    }

    /// Where the next record will be in the copy at hand.
    fn tape_at(&self, cursor: u64) -> u32 {
        let r = self.tape.running.as_ref().expect("there is a tape");
        let used = (cursor - self.cache.layout.tape()) as usize;
        (r.copied + used) as u32
    }

    /// Bytes in the buffer.
    fn tape_used(&self) -> u64 {
        self.tape_cursor() - self.cache.layout.tape()
    }

    fn tape_cursor(&self) -> u64 {
        let r = self.tape.running.as_ref().expect("there is a tape");
        r.cursor
    }

    pub(crate) fn tape_event(&mut self, event: Event) -> Result<(), Error> {
        if !self.taping() {
            return Ok(());
        }
        self.catch_up()?;
        let at = self.tape_at(self.tape_cursor());
        let r = self.tape.running.as_mut().expect("just seen");
        if let (Event::State { .. }, Some((last, old @ Event::State { .. }))) =
            (&event, r.events.last_mut())
            && *last == at
        {
            *old = event;
        } else {
            r.events.push((at, event));
        }
        Ok(())
    }

    /// A call was made and has returned when the cursor was there.
    pub(crate) fn tape_call(&mut self, cursor: u64, enter: Event, leave: Event) {
        let at = self.tape_at(cursor);
        let r = self.tape.running.as_mut().expect("there is a tape");
        r.events.extend([(at, enter), (at, leave)]);
    }

    /// Copies what is in the buffer, which is then empty.
    fn empty_buffer(&mut self) -> Result<(), Error> {
        self.catch_up()?;
        let (used, base) = (self.tape_used() as usize, self.cache.layout.tape());
        let r = self.tape.running.as_mut().expect("there is a tape");
        if r.copy.is_empty() {
            r.copy = r.reader.room()?;
        }
        let end = r.copied + used;
        if r.copy.len() < end {
            r.copy.resize(end, 0);
        }
        self.cache.stream_shared(base, &mut r.copy[r.copied..end]);
        r.copied = end;
        (r.cursor, r.certain) = (base, base);
        Ok(())
    }

    /// Hands over what there is; `step` is the one before what comes next.
    fn hand_over(&mut self, step: u64) -> Result<(), Error> {
        self.empty_buffer()?;
        self.send_copy(step)
    }

    /// Empties the buffer, and hands over what there is if that is worth it.
    fn make_room(&mut self, step: u64) -> Result<(), Error> {
        let used = self.tape_used();
        self.empty_buffer()?;
        let r = self.tape.running.as_mut().expect("there is a tape");
        if used > ENOUGH {
            let steps = step.saturating_sub(std::mem::replace(&mut r.emptied, step));
            r.pace = (steps.saturating_mul(WANTED) / used).max(LEAST_PACE);
        }
        let worth = r.copied >= WORTH_WAKING || r.events.len() > MANY_EVENTS;
        match worth || self.tape.piece.is_some() {
            true => self.send_copy(step),
            false => Ok(()),
        }
    }

    fn send_copy(&mut self, step: u64) -> Result<(), Error> {
        let Tape {
            shapes, running, ..
        } = &mut self.tape;
        let r = running.as_mut().expect("there is a tape");
        let new = shapes[r.told..].to_vec();
        r.told = shapes.len();
        let first = std::mem::replace(&mut r.step, step);
        r.reader.send(Message {
            step: first,
            len: std::mem::take(&mut r.copied),
            records: std::mem::take(&mut r.copy),
            shapes: new,
            events: std::mem::take(&mut r.events),
        })
    }

    /// The superblock at hand was left before instruction `index`: completes its record.
    pub(super) fn cut_record(&mut self, index: u8, block: Option<BlockId>) -> Result<(), Error> {
        if index == 0 || !self.taping() {
            return Ok(());
        }
        let next = self.tape.shapes.len() as u32;
        let cut = match block {
            Some(id) => self.tape.blocks.get_mut(&id),
            None => self.tape.bounded.as_mut(),
        };
        let cut = cut.ok_or(Error::Internal("taped code is not known".into()))?;
        let values = cut.values_before[index as usize];
        let id = match cut.shapes.iter().find(|(n, _)| *n == index) {
            Some(&(_, id)) => id,
            None => {
                cut.shapes.push((index, next));
                self.tape.shapes.push(Shape {
                    code: cut.code.clone(),
                    executed: index,
                    values,
                    rsp: None,
                    rbp: None,
                });
                next
            }
        };
        let r = self.tape.running.as_mut().expect("just seen");
        let cursor = r.cursor;
        r.cursor += (::tape::RECORD_HEAD + 8 * values as usize) as u64;
        self.cache.write_shared(cursor, &id.to_le_bytes());
        Ok(())
    }

    /// A handler is about to run on the frame that the kernel has just written.
    pub(crate) fn tape_signal(&mut self, number: i32, old_rsp: u64) -> Result<(), Error> {
        const USUAL: u64 = 0x1000;
        const MOST: u64 = 0x1_0000;
        let addr = self.regs.rsp;
        let len = match old_rsp.wrapping_sub(addr) {
            len @ 1..MOST => len,
            // On the alternate stack.
            _ => USUAL,
        };
        let frame = Stretch { addr, len };
        self.tape_event(Event::Signal { number, frame })
    }

    /// The call that the guest has stopped for begins.
    pub(crate) fn tape_enter(&mut self, call: &Call) -> Result<(), Error> {
        let pc = self.regs.rcx.wrapping_sub(2);
        self.tape_event(Event::Enter {
            pc,
            nr: call.nr,
            args: call.args,
        })
    }

    /// The call has come out: it has read what the plan says, if there is one, and written what was noted.
    pub(crate) fn tape_leave(
        &mut self,
        call: &Call,
        result: i64,
        plan: Option<&Plan>,
    ) -> Result<(), Error> {
        if !self.taping() {
            return Ok(());
        }
        let stretch = |addr, len| Stretch { addr, len };
        let wanted = self.tape_wants();
        let reads = plan.filter(|_| wanted.reads);
        let reads = reads.map(|p| p.reads(result, &self.memory));
        let reads = reads.into_iter().flatten();
        let reads = reads.map(|r| stretch(r.addr, r.len)).collect();
        let followed = plan.filter(|_| wanted.followed);
        let followed = followed.map(|p| p.followed(result, &self.memory));
        let followed = followed.into_iter().flatten();
        let followed = followed.map(|f| Followed {
            at: f.at,
            to: stretch(f.range.addr, f.range.len),
            write: f.write,
        });
        let followed: Vec<Followed> = followed.collect();
        let mut writes = self.tape_writes();
        let mapped = (-4095..0).contains(&result) || abi::class(call) != Class::AddressSpace;
        if !mapped {
            match call.nr as i64 {
                libc::SYS_mmap => writes.push(stretch(result as u64, call.args[1])),
                libc::SYS_mremap => writes.push(stretch(result as u64, call.args[2])),
                _ => {}
            }
        }
        if !followed.is_empty() {
            self.tape_event(Event::Followed(followed))?;
        }
        self.tape_event(Event::Leave {
            nr: call.nr,
            result,
            reads,
            writes,
        })
    }

    /// The plan of a call that is about to be made, if somebody wants to know what it touches.
    pub(crate) fn tape_plan(&self, call: &Call) -> Option<Plan> {
        let plan = || Plan::before(call, &self.memory).ok();
        let wanted = self.tape_wants();
        let needed = wanted.reads || wanted.has_to_be_seen(call.nr);
        needed.then(plan).flatten()
    }

    /// The instruction that the tracer is about to carry out, and its step.
    pub(crate) fn tape_special(&self) -> Result<Option<(u64, TapedInsn)>, Error> {
        if !self.taping() {
            return Ok(None);
        }
        let pc = self.regs.rip;
        let len = crate::special::decode(self)?.len();
        let mut bytes = [0; 15];
        self.memory.read(pc, &mut bytes[..len]);
        let len = len as u8;
        Ok(Some((self.step()?, TapedInsn { pc, len, bytes })))
    }

    /// It has been carried out, unless it faulted.
    pub(crate) fn tape_special_done(
        &mut self,
        before: Option<(u64, TapedInsn)>,
    ) -> Result<(), Error> {
        match before {
            Some((step, insn)) if self.step()? > step => self.tape_event(Event::Special(insn)),
            _ => Ok(()),
        }
    }

    /// Memory that others have written, or a call that goes on to wait.
    pub(crate) fn tape_outside(&mut self) -> Result<(), Error> {
        let writes = self.tape_writes();
        if writes.is_empty() {
            return Ok(());
        }
        self.tape_event(Event::Outside { writes })
    }

    /// Notes that memory was written in the guest's name.
    pub(crate) fn tape_write(&mut self, addr: u64, len: u64) {
        if let Some(r) = &mut self.tape.running
            && len > 0
        {
            r.writes.push(Stretch { addr, len });
        }
    }

    pub(crate) fn tape_writes(&mut self) -> Vec<Stretch> {
        let r = self.tape.running.as_mut();
        r.map(|r| std::mem::take(&mut r.writes)).unwrap_or_default()
    }
}
