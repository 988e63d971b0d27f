//! Local variables in another order.
//!
//! A frame keeps its size: its variables change places in it. Those that are named go to its upper end, nearest to
//! the return address, and all others below them, as they were. Code of the function refers to them by their distance
//! from the stack or frame pointer, which the call frame information ties to one address for all instructions. What
//! has no name there, such as a register that was put aside, moves with the rest.

use guest::Edit;
use iced_x86::{EncodingKind, Instruction, Mnemonic, OpKind, Register};
use image::cfg::Graphs;
use image::{Imagined, Program};
use rustc_hash::FxHashMap;

use super::references::{self, Layout, Piece};
use super::{MoveRequest, alignment};
use crate::Error;
use crate::debug::Session;
use crate::debug::timeline::What;
use crate::moment::{Guest, registers};
use crate::trace::{Action, Values};

/// Where the frames of the function are, for the purpose of reckoning.
const BASE: u64 = 1 << 46;
/// Deeper frames are not looked at.
const DEEPEST: usize = 10_000;

struct Local {
    name: String,
    begin: u64,
    end: u64,
}

/// How an instruction finds its frame.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Anchor {
    register: Register,
    /// From what is in it to the frame's address.
    distance: u64,
}

impl Anchor {
    fn at(program: &Program, pc: u64) -> Option<Anchor> {
        let base = program.imagined_frame(pc)?.base;
        let near = |from: u64| base.wrapping_sub(from).wrapping_add(1 << 32) < 1 << 33;
        let (register, from) = match () {
            () if near(Imagined::STACK) => (Register::RSP, Imagined::STACK),
            () if near(Imagined::FRAME) => (Register::RBP, Imagined::FRAME),
            () => return None,
        };
        Some(Anchor {
            register,
            distance: base.wrapping_sub(from),
        })
    }

    /// An address that is so far from what is in the register.
    fn place(self, from_register: u64) -> u64 {
        BASE.wrapping_sub(self.distance).wrapping_add(from_register)
    }
}

/// A function's code, and how each of its instructions finds the frame.
struct Body {
    insns: Vec<Instruction>,
    anchors: FxHashMap<u64, Anchor>,
}

impl Body {
    /// What an instruction refers to in its frame, an index aside.
    fn address(&self, i: &Instruction) -> Option<u64> {
        let anchor = self.anchors.get(&i.ip())?;
        if references::copies_stack_pointer(i) {
            // `mov rbp, rsp` sets up the frame, or rbp is a register like others.
            let next = self.anchors.get(&i.next_ip());
            let sets_up = next.is_some_and(|n| n.register == Register::RBP);
            return (anchor.register == Register::RSP && !sets_up).then(|| anchor.place(0));
        }
        let memory = (0..i.op_count()).any(|n| i.op_kind(n) == OpKind::Memory);
        let thread = matches!(i.segment_prefix(), Register::FS | Register::GS);
        if !memory || thread {
            return None;
        }
        // An index without a scale may stand in front.
        let is = |r: Register| r == anchor.register;
        let found = is(i.memory_base()) || (is(i.memory_index()) && i.memory_index_scale() == 1);
        found.then(|| anchor.place(i.memory_displacement64()))
    }
}

impl Session {
    pub(super) fn move_locals(
        &mut self,
        request: &MoveRequest,
        function: &str,
        here: u64,
    ) -> Result<(), Error> {
        let entry = self.function(function)?;
        self.is_not_running(function, entry)?;
        let body = self.body(function, entry)?;
        let locals = self.locals_of(&body);
        let layout = arrange(request, function, &body, &locals)?;
        let address = |i: &Instruction| body.address(i);
        let questions = references::questions(&body.insns, &layout, &address);
        let told = self.ask(questions, |regs, i, address| {
            let anchor = body.anchors.get(&i.ip())?;
            let register = match anchor.register {
                Register::RBP => regs.rbp,
                _ => regs.rsp,
            };
            Some(anchor.place(address.wrapping_sub(register)))
        })?;
        let references = references::find(&body.insns, &layout, &told, &address);
        let references = references.map_err(Error::Request)?;
        let action = Action::Move {
            edits: vec![Edit::Refer { references }],
            values: Box::new(Values {
                regs: self.replay.regs(),
                vectors: None,
                writes: Vec::new(),
            }),
        };
        let places: Vec<String> = locals
            .iter()
            .filter_map(|l| {
                let to = layout.follow(l.begin, references::Use::Access(1))?;
                let up = BASE.wrapping_sub(to);
                Some(format!("{} {up} bytes below the caller's frame", l.name))
            })
            .collect();
        let what = What::Move(request.clone(), places.join(", "));
        self.change(here, what, action)
    }

    /// Where a function begins. One of which the compiler has made variants may have none of its own.
    fn function(&mut self, name: &str) -> Result<u64, Error> {
        let program = self.program()?;
        let mut list: Vec<(String, u64)> = program
            .addresses_of_function(name)
            .into_iter()
            .map(|f| (f.name, f.entry))
            .collect();
        if list.is_empty() {
            let is_variant = |n: &str| match n.strip_prefix(name) {
                Some(rest) => rest.is_empty() || rest.starts_with('.') && !rest.contains(".cold"),
                None => false,
            };
            let named = program.functions_named(is_variant);
            list.extend(named.into_iter().map(|f| (f.name, f.entry)));
        }
        // A part that is rarely executed has a name of its own.
        for f in &mut list {
            f.1 = program.function_at(f.1).map_or(f.1, |of| of.entry);
        }
        list.sort_by_key(|f| f.1);
        list.dedup_by_key(|f| f.1);
        match &list[..] {
            [(_, entry)] => Ok(*entry),
            [] => Err(Error::NoSuchPlace(format!("there is no function `{name}`"))),
            several => {
                let names: Vec<&str> = several.iter().map(|f| f.0.as_str()).collect();
                Err(Error::Request(format!(
                    "there are {} functions `{name}`: {}",
                    several.len(),
                    names.join(", ")
                )))
            }
        }
    }

    /// A frame that is there already has the old order.
    fn is_not_running(&mut self, function: &str, entry: u64) -> Result<(), Error> {
        for thread in self.replay.threads() {
            let memory = Guest(&self.replay);
            let frames = self
                .program
                .unwind(&registers(&thread.regs), &memory, DEEPEST);
            let runs = frames.iter().any(|f| {
                let found = self.program.function_at(f.lookup_pc());
                found.is_some_and(|f| f.entry == entry) && f.lookup_pc() != entry
            });
            if runs {
                return Err(Error::Request(format!(
                    "{function} is running, with its variables where they are: go back to before it was called"
                )));
            }
        }
        Ok(())
    }

    fn body(&mut self, function: &str, entry: u64) -> Result<Body, Error> {
        let memory = Guest(&self.replay);
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        if let Some(f) = self.program.function_at(entry) {
            ranges.push((f.low, f.high));
        }
        // What is rarely executed may be elsewhere.
        if let Some(graph) = Graphs::new().graph(&self.program, &memory, entry) {
            for b in &graph.blocks {
                let known = |r: &(u64, u64)| r.0 <= b.start && b.end <= r.1;
                if !ranges.iter().any(known) {
                    ranges.push((b.start, b.end));
                }
            }
        }
        let insns: Vec<Instruction> = ranges
            .iter()
            .flat_map(|(begin, end)| references::decode(&memory, *begin, *end))
            .collect();
        let mut anchors = FxHashMap::default();
        for i in &insns {
            let Some(anchor) = Anchor::at(&self.program, i.ip()) else {
                continue;
            };
            anchors.insert(i.ip(), anchor);
            // From the frame pointer alone it is not known where the stack pointer is.
            let through = |r: Register| i.memory_base() == r || i.memory_index() == r;
            let mixed = anchor.register == Register::RBP && through(Register::RSP);
            if mixed && i.mnemonic() != Mnemonic::Nop {
                return Err(Error::Request(format!(
                    "`{i}` at {:#x} in {function}: it is not known which variable is there",
                    i.ip()
                )));
            }
        }
        Ok(Body { insns, anchors })
    }

    fn locals_of(&self, body: &Body) -> Vec<Local> {
        let mut out: Vec<Local> = Vec::new();
        for i in &body.insns {
            let Some(imagined) = self.program.imagined_frame(i.ip()) else {
                continue;
            };
            let list = self
                .program
                .frame_extents(&imagined.frame, &image::NoMemory);
            for e in list {
                let begin = BASE.wrapping_add(e.begin.wrapping_sub(imagined.base));
                let end = begin.wrapping_add(e.size);
                // Arguments on the stack are the caller's.
                let own = begin < end && end <= BASE && begin > BASE - (1 << 31);
                let known = out
                    .iter()
                    .any(|l| (l.begin, l.end) == (begin, end) && l.name == e.name);
                if own && !known {
                    out.push(Local {
                        name: e.name,
                        begin,
                        end,
                    });
                }
            }
        }
        out.sort_by_key(|l| (l.begin, l.end));
        out
    }
}

/// The new order of a frame.
fn arrange(
    request: &MoveRequest,
    function: &str,
    body: &Body,
    locals: &[Local],
) -> Result<Layout, Error> {
    // Those that share memory stay together.
    let mut pieces: Vec<(u64, u64)> = Vec::new();
    for l in locals {
        match pieces.last_mut() {
            Some(last) if l.begin < last.1 => last.1 = last.1.max(l.end),
            _ => pieces.push((l.begin, l.end)),
        }
    }
    let mut wanted: Vec<(u64, u64)> = Vec::new();
    for name in &request.names {
        let mut places: Vec<(u64, u64)> = locals
            .iter()
            .filter(|l| l.name == *name)
            .filter_map(|l| pieces.iter().find(|p| p.0 <= l.begin && l.end <= p.1))
            .copied()
            .collect();
        places.dedup();
        match places[..] {
            [one] => {
                if !wanted.contains(&one) {
                    wanted.push(one);
                }
            }
            [] => {
                let mut known: Vec<&str> = locals.iter().map(|l| l.name.as_str()).collect();
                known.dedup();
                let known = match known[..] {
                    [] => "none of its variables is".to_owned(),
                    _ => format!("those that are: {}", known.join(", ")),
                };
                return Err(Error::NoSuchPlace(format!(
                    "{function} has no variable `{name}` with a place of its own in memory; {known}"
                )));
            }
            _ => {
                return Err(Error::Request(format!(
                    "{function} has {} variables `{name}`",
                    places.len()
                )));
            }
        }
    }
    let (low, high) = (pieces[0].0, pieces[pieces.len() - 1].1);
    // What is in between and has no name is kept if something refers to it.
    let used: Vec<u64> = body.insns.iter().filter_map(|i| body.address(i)).collect();
    let mut all = pieces.clone();
    for pair in pieces.windows(2) {
        let gap = (pair[0].1, pair[1].0);
        if used.iter().any(|a| *a > gap.0 && *a < gap.1) || used.contains(&gap.0) && gap.0 < gap.1 {
            all.push(gap);
        }
    }
    all.sort_unstable();
    let rest: Vec<(u64, u64)> = all.into_iter().filter(|p| !wanted.contains(p)).collect();
    // Most variables are aligned to more than their type asks for. Where that takes too much room, those are that the
    // function itself takes to be.
    let vectors = body.insns.iter().filter(|i| is_aligned(i));
    let vectors: Vec<u64> = vectors.filter_map(|i| body.address(i)).collect();
    let needs = |p: &(u64, u64)| vectors.iter().any(|a| (p.0..p.1).contains(a));
    let usual = |p: &(u64, u64)| alignment(p.0, p.1 - p.0);
    let least = |p: &(u64, u64)| if needs(p) { usual(p) } else { usual(p).min(8) };
    let mut dense = rest.clone();
    dense.sort_by_key(|p| std::cmp::Reverse(least(p)));
    let all = (low, high);
    let placed = place(&wanted, &rest, all, usual)
        .or_else(|| place(&wanted, &rest, all, least))
        .or_else(|| place(&wanted, &dense, all, least));
    let Some(placed) = placed else {
        return Err(Error::Request(format!(
            "the frame of {function} has no room for that order: its variables have to be aligned"
        )));
    };
    if placed.iter().all(|p| p.to == p.begin) {
        return Err(Error::Request(format!(
            "that is the order in the frame of {function} already"
        )));
    }
    Ok(Layout::new(placed, Vec::new()))
}

/// Puts the wanted ones at the upper end of a stretch of memory and the rest at its lower end.
fn place(
    wanted: &[(u64, u64)],
    rest: &[(u64, u64)],
    (low, high): (u64, u64),
    align: impl Fn(&(u64, u64)) -> u64,
) -> Option<Vec<Piece>> {
    let mut placed = Vec::new();
    let mut put = |p: &(u64, u64), to| {
        placed.push(Piece {
            begin: p.0,
            end: p.1,
            to,
        });
    };
    let mut top = high;
    for p in wanted.iter().rev() {
        top = top.checked_sub(p.1 - p.0)? & !(align(p) - 1);
        put(p, top);
    }
    let mut bottom = low;
    for p in rest {
        let to = bottom.next_multiple_of(align(p));
        bottom = to + (p.1 - p.0);
        put(p, to);
    }
    (bottom <= top).then_some(placed)
}

/// The instruction takes what it works on to be aligned to its size.
fn is_aligned(i: &Instruction) -> bool {
    use Mnemonic::{Lddqu, Movdqu, Movupd, Movups, Vmovaps, Vmovdqa};
    let wide = i.memory_size().size() >= 16;
    let legacy = i.encoding() == EncodingKind::Legacy;
    let any = matches!(i.mnemonic(), Lddqu | Movdqu | Movupd | Movups);
    wide && (legacy && !any || matches!(i.mnemonic(), Vmovaps | Vmovdqa))
}
