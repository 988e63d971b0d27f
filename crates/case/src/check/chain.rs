//! Value propagation chains: where a value was born, and every copy on its way.
//!
//! From the place where a rule found the value, the tape is walked backward along copies. Pointer arithmetic is
//! followed to the pointer. Which operand that is cannot be seen from a single instruction, so all of them are
//! followed at first, and those are given up that turn out to be no pointers: widened integers, multiples,
//! constants.

use flow::{Codes, FrameId, Item, Roll, Step, Values, View, What};
use guest::Until;
use image::effects::{self, Place, RegRange, Transfer};
use rules::heap::{BlockId, DIFFERENCE, Heap};
use serde::Serialize;

use super::watch::Watched;
use crate::Error;
use crate::moment::{self, Guest};
use crate::slice::{SourcePlace, is_own};

/// Steps of the run that are looked at.
const WINDOW: u64 = 300_000_000;
/// Values that are followed at a time.
const MOST: usize = 4;
/// Hops that are shown.
const SHOWN: usize = 24;

/// How a value came to where it was used.
#[derive(Clone, Debug, Serialize)]
pub struct Chain {
    /// What the rule calls it.
    pub name: String,
    /// Where it came from, in words.
    pub origin: String,
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
    /// A general register; the flags if absent.
    pub(crate) register: Option<u8>,
    pub(crate) block: BlockId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spot {
    Register(RegRange),
    Memory(u64, u64),
}

/// An instruction that moved the value.
#[derive(Clone, Copy, Debug)]
struct Move {
    step: u64,
    pc: u64,
    to: Spot,
    /// Saving and restoring registers is of no interest.
    keeps: bool,
}

struct Trail {
    want: Spot,
    moves: Vec<Move>,
    /// Before this step what is wanted was something else.
    limit: u64,
}

/// How a trail ended.
#[derive(Clone, Copy, Debug)]
enum Origin {
    Allocated,
    Constant,
    Computed,
    Call(u64),
    Unwritten,
    Outside,
}

pub(crate) fn chains(w: &mut Watched, starts: &[Start]) -> Result<Vec<Chain>, Error> {
    let Some(last) = starts.iter().map(|s| s.step).max() else {
        return Ok(Vec::new());
    };
    let first = last.saturating_sub(WINDOW);
    w.goto(first)?;
    let replay = w.replay()?;
    let roll = replay
        .tape(Box::new(Roll::new(Codes::default())))
        .and_then(|()| replay.run(&Until::step(last)))
        .and_then(|_| replay.end_tape());
    let roll = roll.map_err(|e| w.wrong(e))?;
    let roll = roll
        .into_any()
        .downcast::<Roll>()
        .expect("the listener that was given");
    let mut out = Vec::new();
    for start in starts {
        let (trail, origin) = Walk::new(start, &roll, &w.machine.heap).run();
        out.push(describe(w, start, trail, origin)?);
    }
    Ok(out)
}

/// The call that an instruction is part of, and where that is known.
type Within<'a> = (&'a View<'a>, FrameId);

struct Walk<'a> {
    start: &'a Start,
    roll: &'a Roll,
    heap: &'a Heap,
    trails: Vec<Trail>,
    ended: Option<(Trail, Origin)>,
    /// The block of the pointer was made at this step.
    made: u64,
    /// Integers too, not only pointers.
    values: bool,
    stretches: Vec<(u64, u64)>,
    thread: Option<u32>,
}

impl<'a> Walk<'a> {
    fn new(start: &'a Start, roll: &'a Roll, heap: &'a Heap) -> Self {
        let want = match start.register {
            Some(r) => Spot::Register(RegRange::general(u16::from(r))),
            None => Spot::Register(effects::ARITHMETIC),
        };
        let known = start.block > DIFFERENCE;
        Walk {
            start,
            roll,
            heap,
            trails: vec![Trail {
                want,
                moves: Vec::new(),
                limit: 0,
            }],
            ended: None,
            made: if known {
                heap.block(start.block).made
            } else {
                0
            },
            values: start.name == "value",
            stretches: Vec::new(),
            thread: None,
        }
    }

    fn run(mut self) -> (Trail, Origin) {
        let roll = self.roll;
        roll.backward_from(self.start.step, |view, item| {
            self.item(view, item);
            self.ended.is_none()
        });
        self.ended
            .take()
            .unwrap_or_else(|| (self.trails.remove(0), Origin::Outside))
    }

    /// A trail is over; if it is the last one, that is the chain.
    fn end(&mut self, n: usize, origin: Origin) {
        let trail = self.trails.remove(n);
        let certain = matches!(origin, Origin::Allocated | Origin::Unwritten);
        if self.trails.is_empty() || certain {
            self.ended = Some((trail, origin));
        }
    }

    fn item(&mut self, view: &View<'_>, item: &Item) {
        match item.what {
            What::Record(record) => {
                if item.step >= self.start.step {
                    return;
                }
                let thread = *self.thread.get_or_insert(if item.step < self.start.step {
                    item.thread
                } else {
                    self.start.thread
                });
                let plan = view.codes().plan(record.shape);
                let executed = view.codes().shape(record.shape).executed as usize;
                let same = item.thread == thread;
                let may = self.trails.iter().any(|t| match t.want {
                    Spot::Register(r) => same && plan.may_write(r),
                    Spot::Memory(..) => !plan.stores.is_empty(),
                });
                let late = item.step + executed as u64 - 1;
                let over = self.trails.iter().any(|t| t.limit > item.step) || late <= self.made;
                if !may && !over {
                    return;
                }
                let values = view.values(&record);
                for i in (0..executed).rev() {
                    let step = item.step + i as u64;
                    if step >= self.start.step {
                        continue;
                    }
                    if self.made > 0 && step <= self.made {
                        let n = self
                            .trails
                            .iter()
                            .position(|t| t.want == Spot::Register(effects::RAX));
                        self.end(n.unwrap_or(0), Origin::Allocated);
                        return;
                    }
                    let frame = plan.frame_at(i, item.frame, record.first_frame);
                    self.instruction(&plan.steps[i], step, &values, same, (view, frame));
                    if self.ended.is_some() {
                        return;
                    }
                }
            }
            What::Event(n) => self.event(item, view.event(n)),
        }
    }

    fn event(&mut self, item: &Item, event: &tape::Event) {
        use tape::Event;
        if item.step >= self.start.step {
            return;
        }
        let (nr, writes): (u64, &[tape::Stretch]) = match event {
            Event::Leave { nr, writes, .. } => (*nr, writes),
            Event::Outside { writes } => (u64::MAX, writes),
            _ => return,
        };
        let same = self.thread.is_none_or(|t| t == item.thread);
        let hit = |want: Spot| match want {
            Spot::Register(r) => nr != u64::MAX && same && r.overlaps(effects::RAX),
            Spot::Memory(a, n) => writes.iter().any(|w| w.addr < a + n && a < w.addr + w.len),
        };
        while let Some(n) = self.trails.iter().position(|t| hit(t.want)) {
            self.end(n, Origin::Call(nr));
            if self.ended.is_some() {
                return;
            }
        }
    }

    fn instruction(
        &mut self,
        s: &Step,
        step: u64,
        values: &Values<'_>,
        same: bool,
        frame: Within<'_>,
    ) {
        let mut n = 0;
        while n < self.trails.len() {
            let t = &self.trails[n];
            if t.limit > step {
                self.end(n, Origin::Unwritten);
                if self.ended.is_some() {
                    return;
                }
                continue;
            }
            let found = match t.want {
                Spot::Register(r) if same => s.effects.transfers.iter().find_map(|x| match x.to {
                    Place::Register(to) if to.overlaps(r) => {
                        Some((x, r.at.saturating_sub(to.at), to.len))
                    }
                    _ => None,
                }),
                Spot::Register(_) => None,
                Spot::Memory(a, len) => self.writer(s, a, len, values),
            };
            let Some((transfer, offset, size)) = found else {
                n += 1;
                continue;
            };
            let transfer = transfer.clone();
            self.follow(n, s, step, &transfer, (offset, size), values, frame);
            if self.ended.is_some() {
                return;
            }
            n += 1;
        }
    }

    /// The transfer of an instruction that writes to this memory.
    fn writer<'s>(
        &mut self,
        s: &'s Step,
        a: u64,
        len: u64,
        values: &Values<'_>,
    ) -> Option<(&'s Transfer, u16, u16)> {
        if !s.spots.iter().any(|x| x.access.writes) {
            return None;
        }
        for x in &s.effects.transfers {
            let (access, at, size) = match x.to {
                Place::Memory { access, at, len } => (access, u64::from(at), u64::from(len)),
                Place::Whole(access) => (access, 0, 0),
                Place::Register(_) => continue,
            };
            self.stretches.clear();
            s.spots[access as usize].stretches(values, &mut self.stretches);
            for &(addr, length) in &self.stretches {
                let (addr, length) = if size == 0 {
                    (addr, length)
                } else {
                    (addr + at, size)
                };
                if addr < a + len && a < addr + length {
                    return Some((
                        x,
                        a.saturating_sub(addr) as u16,
                        length.min(u64::from(u16::MAX)) as u16,
                    ));
                }
            }
        }
        None
    }

    #[expect(clippy::too_many_arguments)]
    fn follow(
        &mut self,
        n: usize,
        s: &Step,
        step: u64,
        t: &Transfer,
        (offset, size): (u16, u16),
        values: &Values<'_>,
        frame: Within<'_>,
    ) {
        let want = self.trails[n].want;
        let wanted = match want {
            Spot::Register(r) => u64::from(r.len),
            Spot::Memory(_, len) => len,
        };
        let hop = Move {
            step,
            pc: s.pc,
            to: want,
            keeps: s.keeps,
        };
        self.trails[n].moves.push(hop);
        if let Some(condition) = s.condition {
            if values.get(condition) & 1 == 0 {
                self.trails[n].moves.pop();
                return;
            }
            let from: Vec<Place> = t.from.iter().map(|x| x.place).collect();
            let other = from.into_iter().find(|p| *p != t.to && !is_flags(*p));
            if let Some(spot) = other.and_then(|p| self.spot(s, p, values)) {
                self.aim(n, spot, frame);
                return;
            }
        }
        let len = wanted.min(u64::from(size)) as u16;
        if let Some(place) = t.copied(offset, len)
            && let Some(spot) = self.spot(s, place, values)
        {
            self.aim(n, spot, frame);
            return;
        }
        if t.from.is_empty() {
            return self.end(n, Origin::Constant);
        }
        let mut list: Vec<Spot> = Vec::new();
        for source in &t.from {
            let wide = source.place.len() == Some(8);
            if !self.values && (is_flags(source.place) || !wide) {
                continue;
            }
            list.extend(self.spot(s, source.place, values));
        }
        list.dedup();
        let Some((first, rest)) = list.split_first() else {
            return self.end(n, Origin::Computed);
        };
        for spot in rest {
            if self.trails.len() < MOST {
                let t = &self.trails[n];
                let trail = Trail {
                    want: *spot,
                    moves: t.moves.clone(),
                    limit: 0,
                };
                self.trails.push(trail);
                let last = self.trails.len() - 1;
                self.aim(last, *spot, frame);
            }
        }
        self.aim(n, *first, frame);
    }

    fn aim(&mut self, n: usize, spot: Spot, frame: Within<'_>) {
        self.trails[n].want = spot;
        self.trails[n].limit = match spot {
            Spot::Memory(a, _) if self.values => self.birth(a, frame),
            _ => 0,
        };
    }

    /// The step at which memory came to be what it is: its block was made, or its frame.
    fn birth(&self, a: u64, (view, mut frame): Within<'_>) -> u64 {
        let id = self.heap.around(a);
        if id > DIFFERENCE && self.heap.lives(id, self.start.step) {
            return self.heap.block(id).made;
        }
        loop {
            let f = view.frame(frame);
            if f.slot == u64::MAX || frame == f.parent {
                return 0;
            }
            if a < f.slot {
                return f.call.step;
            }
            frame = f.parent;
        }
    }

    fn spot(&mut self, s: &Step, place: Place, values: &Values<'_>) -> Option<Spot> {
        match place {
            Place::Register(r) => Some(Spot::Register(r)),
            Place::Memory { access, at, len } => {
                let address = s.spots[access as usize].address(values);
                Some(Spot::Memory(
                    address.wrapping_add(u64::from(at)),
                    u64::from(len),
                ))
            }
            Place::Whole(_) => None,
        }
    }
}

fn is_flags(p: Place) -> bool {
    matches!(p, Place::Register(r) if effects::FLAGS.overlaps(r))
}

/// The chain as the user sees it.
fn describe(w: &mut Watched, start: &Start, trail: Trail, origin: Origin) -> Result<Chain, Error> {
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
    let origin = match origin {
        Origin::Allocated => {
            let b = w.machine.heap.block(start.block).clone();
            match w.machine.variable_name(&b) {
                Some(name) => format!("the address of {name}, {} bytes", b.size),
                None => {
                    let by = w.machine.function_name(b.by);
                    format!("allocated by {by}, {} bytes", b.size)
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
        Origin::Unwritten => match trail.want {
            Spot::Memory(a, n) => format!("{n} bytes at {a:#x} that were never written"),
            Spot::Register(_) => "never written".to_owned(),
        },
        Origin::Outside => "there from the beginning".to_owned(),
    };
    Ok(Chain {
        name: start.name.clone(),
        origin,
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
