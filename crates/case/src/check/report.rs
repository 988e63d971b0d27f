//! From places where a condition held to what the user is told.

use std::collections::HashSet;
use std::path::PathBuf;
use std::rc::Rc;

use guest::Guest;
use image::Program;
use image::effects::{self, RegRange};
use rules::eval::{CallEvent, Value};
use rules::heap::{BlockId, DIFFERENCE, Family, Heap};
use rules::machine::{Holder, Redex, Suspect};
use rules::term::{Checked, Slot};
use serde::Serialize;

use super::CheckRequest;
use super::chain::{self, Chain, Start};
use super::moved;
use super::reach::{self, Held, Reachable, Stands};
use super::select::Chosen;
use super::trail::Spot;
use super::watch::{Watched, as_written};
use crate::Error;
use crate::frames::{self, Excerpt, FrameList};
use crate::moment::Moment;

/// Something that a rule found.
#[derive(Clone, Debug, Serialize)]
pub struct Fault {
    pub rule: String,
    /// Its class in a few words, such as `double free`.
    pub class: String,
    /// What that means here.
    pub message: String,
    /// The step before which it happens: the guest can be taken there.
    pub step: u64,
    pub at: Site,
    /// The block that the pointer came from; of a value that was never written, the one that it is in.
    pub block: Option<BlockReport>,
    /// Of leaks: where the blocks were made. Of very many, some are looked at.
    pub leaks: Vec<LeakedBlocks>,
    /// Of leaks: how many there are beside those.
    pub further_leaks: Amount,
    /// Calls and returns before it that the rule names, such as the one that closed what is closed again.
    pub events: Vec<PastEvent>,
    pub chains: Vec<Chain>,
    /// It was not possible to look up the rest of it.
    pub brief: bool,
}

/// A call or return that a rule is about.
#[derive(Clone, Debug, Serialize)]
pub struct PastEvent {
    /// Such as `sys_openat returned 0x3`.
    pub what: String,
    pub at: Site,
}

/// A step with its call stack.
#[derive(Clone, Debug, Serialize)]
pub struct Site {
    pub step: u64,
    pub stack: FrameList,
    pub excerpt: Option<Excerpt>,
}

#[derive(Clone, Debug, Serialize)]
pub struct BlockReport {
    pub begin: u64,
    pub size: u64,
    /// It is about memory that was never written, and not about the address of an access.
    pub unwritten: bool,
    /// Bytes of the access that are past the end, if it begins inside.
    pub beyond: u64,
    /// Where the address lies, such as `0 bytes past the end`.
    pub relation: String,
    /// It is no allocation but this variable, which is `global` or `local`.
    pub variable: Option<String>,
    /// The function that made it, or the kind of variable.
    pub by: String,
    /// Where it was made; of a local variable, where a pointer to it was made first.
    pub allocated: Option<Site>,
    pub freed_by: Option<String>,
    pub freed: Option<Site>,
}

/// So many blocks, with so many bytes together.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Amount {
    pub blocks: u64,
    pub bytes: u64,
}

/// Blocks that were lost, from one place.
#[derive(Clone, Debug, Serialize)]
pub struct LeakedBlocks {
    pub blocks: u64,
    pub bytes: u64,
    pub by: String,
    pub allocated: Site,
}

/// What is told of.
struct Found {
    suspect: Suspect,
    /// Of leaks: the blocks.
    culprits: Vec<BlockId>,
    /// Where it is, if that has been looked at.
    at: Option<Site>,
}

/// What comes of the suspects.
pub(crate) struct Told {
    pub(crate) faults: Vec<Fault>,
    /// Why some of them are told in brief, if they are.
    pub(crate) trouble: Option<Error>,
    /// Places that may be faults: it was not possible to find out.
    pub(crate) undecided: usize,
}

/// Whatever comes in between, what is known by then is told.
pub(crate) fn faults(w: &mut Watched, chosen: &Chosen, request: &CheckRequest) -> Told {
    let Search {
        found,
        mut trouble,
        undecided,
        ..
    } = found(w, chosen, request);
    // The tape that shows the way of one value shows that of the next.
    let steps: Vec<u64> = found.iter().map(|f| f.suspect.step).collect();
    let mut faults = Vec::new();
    for mut f in found {
        let rule = &chosen.rules[f.suspect.rule];
        let whole = match trouble {
            None => fault(w, rule, &mut f, &steps, request),
            Some(_) => Ok(None),
        };
        match whole {
            Ok(Some(fault)) => faults.push(fault),
            Ok(None) => faults.push(in_brief(w, rule, f)),
            Err(e) => {
                trouble = Some(e);
                faults.push(in_brief(w, rule, f));
            }
        }
    }
    Told {
        faults,
        trouble,
        undecided,
    }
}

/// What has been found among the suspects so far.
#[derive(Default)]
struct Search {
    found: Vec<Found>,
    told: HashSet<(usize, Place)>,
    /// Why the guest cannot be taken anywhere any more.
    trouble: Option<Error>,
    undecided: usize,
}

/// The suspects that are faults, each once.
fn found(w: &mut Watched, chosen: &Chosen, request: &CheckRequest) -> Search {
    let mut suspects = std::mem::take(&mut w.machine.suspects);
    suspects.sort_by_key(|s| (s.step, s.rule));
    let mut out = Search::default();
    for mut s in suspects {
        let rule = &chosen.rules[s.rule];
        let decided = match decide(w, rule, &mut s, out.trouble.is_none()) {
            Ok(decided) => decided,
            Err(e) => {
                out.trouble = Some(e);
                // What is needed for it may be known all the same.
                decide(w, rule, &mut s, false).unwrap_or(Decided::Unknown)
            }
        };
        match decided {
            Decided::Fault(culprits) => out.add(w, s, culprits),
            Decided::None => {}
            Decided::Unknown => out.undecided += 1,
        }
        if !request.all && !out.found.is_empty() {
            break;
        }
    }
    out
}

/// Whether a suspect is a fault.
enum Decided {
    /// Of leaks: the blocks.
    Fault(Vec<BlockId>),
    None,
    /// That would take a look at the guest.
    Unknown,
}

/// Whether a suspect is a fault, with the guest taken there if it must be and `may`.
fn decide(w: &mut Watched, rule: &Checked, s: &mut Suspect, may: bool) -> Result<Decided, Error> {
    let mut culprits = Vec::new();
    if rule.asks_memory() || is_about_blocks(rule) {
        // Of the end of a program that was watched while it ran, it is known what could be found.
        let known = w.ending.as_ref().is_some_and(|e| e.step == s.step);
        let searches = rule.asks_pointers() && !known;
        let goes = rule.asks_values() || searches;
        if goes && !may {
            return Ok(Decided::Unknown);
        }
        let mut found = Reachable::default();
        if goes {
            w.goto(s.step)?;
        }
        if searches {
            let user = w.user.clone();
            let replay = w.replay.as_mut().expect("it was taken there");
            let stands = match s.what {
                Redex::End => Stands::Ends,
                Redex::Return { .. } => Stands::Returns,
                _ => Stands::Somewhere,
            };
            let reachable = reach::reachable(replay, &w.machine.heap, s.step, stands, &user);
            found = reachable.map_err(|e| w.wrong(e))?;
            w.go_on()?;
        }
        let ending = w.ending.as_ref().filter(|_| known);
        let held = Held {
            guest: rule.asks_values().then(|| w.guest() as &dyn Guest),
            reachable: ending.map_or(&found, |e| &e.reachable),
        };
        let Some(bindings) = w.machine.confirm(s, &held) else {
            return Ok(Decided::None);
        };
        culprits = w.machine.culprits(s, &held);
        s.bindings = bindings;
    }
    let looked_at = matches!(s.what, Redex::Compared { .. }) || s.stayed.is_some();
    if looked_at && !may {
        return Ok(Decided::Unknown);
    }
    if !is_reached(w, s)? {
        return Ok(Decided::None);
    }
    if let Some(block) = s.stayed
        && moved::is_known(w, block, s.step)?
    {
        return Ok(Decided::None);
    }
    Ok(Decided::Fault(culprits))
}

impl Search {
    /// A fault, unless it is one that is known.
    fn add(&mut self, w: &mut Watched, suspect: Suspect, culprits: Vec<BlockId>) {
        // The same place under another rule is the same fault.
        let same = |f: &Found| f.suspect.step == suspect.step;
        if culprits.is_empty() && self.found.iter().any(same) {
            return;
        }
        let mut at = None;
        if culprits.is_empty() {
            if self.trouble.is_none() {
                match site(w, suspect.step) {
                    Ok(site) => at = Some(site),
                    Err(e) => self.trouble = Some(e),
                }
            }
            let place = match &at {
                Some(site) => Place::of(&suspect, site),
                None => Place::of(&suspect, &nearby(w, &suspect)),
            };
            if !self.told.insert((suspect.rule, place)) {
                return;
            }
        }
        self.found.push(Found {
            suspect,
            culprits,
            at,
        });
    }
}

/// What is told of once.
#[derive(PartialEq, Eq, Hash)]
enum Place {
    Way(Vec<u64>),
    Source(Option<PathBuf>, Option<u32>, Option<u32>),
    Code(u64),
}

impl Place {
    fn of(s: &Suspect, at: &Site) -> Place {
        let frames = &at.stack.frames;
        let passed_on = matches!(
            s.what,
            Redex::Given {
                passed_on: true,
                ..
            }
        );
        let calls = passed_on || matches!(s.what, Redex::Call { .. } | Redex::Return { .. });
        let users = frames.iter().find(|f| f.is_users());
        match users.or(frames.iter().find(|f| f.own)) {
            // Calls are the same fault if they come the same way.
            _ if calls => Place::Way(frames.iter().map(|f| f.pc).collect()),
            // A function of a library may touch what it was given in several places, and so does a statement.
            Some(own) => Place::Source(own.file.clone(), own.line, own.column),
            None => Place::Code(s.pc),
        }
    }
}

/// The place without its callers, which only the guest knows.
fn nearby(w: &Watched, s: &Suspect) -> Site {
    Site {
        step: s.step,
        stack: frames::single(&w.program, s.pc),
        excerpt: None,
    }
}

/// What is known of a fault without the guest.
fn in_brief(w: &Watched, rule: &Checked, found: Found) -> Fault {
    let s = &found.suspect;
    let heap = &w.machine.heap;
    let ending = w.ending.as_ref().filter(|e| e.step == s.step);
    let at = found.at.or(ending.and_then(|e| e.site.clone()));
    let there = |step| Site {
        step,
        stack: FrameList::default(),
        excerpt: None,
    };
    let mut leaks: Vec<LeakedBlocks> = Vec::new();
    for id in &found.culprits {
        let b = heap.block(*id);
        let by = w.function_name(b.by);
        match leaks.iter_mut().find(|l| l.by == by) {
            Some(l) => {
                l.blocks += 1;
                l.bytes += b.size;
            }
            None => leaks.push(LeakedBlocks {
                blocks: 1,
                bytes: b.size,
                by: by.to_owned(),
                allocated: there(b.born),
            }),
        }
    }
    let block = block_of(w, s, rule).filter(|_| leaks.is_empty());
    let block = block.map(|id| {
        let b = heap.block(id);
        let made = (b.family != Family::Global).then(|| there(b.born));
        let freed = b.freed.filter(|f| f.step < s.step);
        block_report(w, id, address(s), (made, freed.map(|f| there(f.step))))
    });
    let (class, detail) = named(rule);
    Fault {
        rule: rule.name.clone(),
        class,
        message: message(s, &leaks, Amount::default(), &detail),
        step: s.step,
        at: at.unwrap_or_else(|| nearby(w, s)),
        block,
        leaks,
        further_leaks: Amount::default(),
        events: Vec::new(),
        chains: Vec::new(),
        brief: true,
    }
}

/// The class of a rule's faults, and what else is said of them.
fn named(rule: &Checked) -> (String, String) {
    match rule.about.split_once(':') {
        Some((class, detail)) => (class.trim().to_owned(), detail.trim().replace('\n', " ")),
        None => (
            rule.name.replace(['_', '.'], " "),
            rule.about.replace('\n', " "),
        ),
    }
}

fn is_about_blocks(rule: &Checked) -> bool {
    matches!(rule.condition, rules::term::Term::Blocks { .. })
}

/// The guest taken to a step, and its stack there.
fn site(w: &mut Watched, step: u64) -> Result<Site, Error> {
    w.goto(step)?;
    let mappings = w.replay()?.mappings();
    let mappings = mappings.map_err(|e| w.wrong(e))?;
    let program = w.program_there(&mappings);
    Ok(Site::of(w.guest(), &mappings, step, Some(program)))
}

impl Site {
    /// Where a guest stands, with the program if it is known to be the one there.
    pub(super) fn of(
        guest: &dyn Guest,
        mappings: &[guest::Mapping],
        step: u64,
        program: Option<Rc<Program>>,
    ) -> Site {
        let read = |addr: u64, buf: &mut [u8]| guest.read(addr, buf);
        let m = Moment::new(step, guest.regs(), mappings, guest.names(), &read, program);
        let stack = frames::stack(&m, &m.registers(), None);
        let excerpt = frames::excerpt(&m, &stack);
        Site {
            step,
            stack,
            excerpt,
        }
    }
}

fn fault(
    w: &mut Watched,
    rule: &Checked,
    found: &mut Found,
    steps: &[u64],
    request: &CheckRequest,
) -> Result<Option<Fault>, Error> {
    let s = &found.suspect;
    let ending = w.ending.as_ref().filter(|e| e.step == s.step);
    let at = match found.at.clone().or(ending.and_then(|e| e.site.clone())) {
        Some(site) => site,
        None => site(w, s.step)?,
    };
    let block = block_of(w, s, rule);
    let (leaks, further_leaks) = leaks(w, &found.culprits)?;
    let mut block_report = match block {
        Some(id) if leaks.is_empty() => Some(describe(w, id, address(s), s.step)?),
        _ => None,
    };
    let mut events = Vec::new();
    let past = rules::eval::events(rule, &s.bindings, &w.machine.calls);
    let past: Vec<CallEvent> = past.into_iter().cloned().collect();
    for e in past {
        let what = match e.returned {
            true => format!("{} returned {:#x}", e.function, e.values[0]),
            false => format!("{}({:#x}, ...)", e.function, e.values[0]),
        };
        let at = site(w, e.step)?;
        events.push(PastEvent { what, at });
    }
    let mut chains = Vec::new();
    if !request.no_chains {
        let starts = starts(w, rule, s);
        chains = chain::chains(w, &starts, steps)?;
    }
    if block_report.is_none()
        && let Some((a, _)) = chains.iter().find_map(|c| c.unwritten)
        && let Some(id) = living_around(&w.machine.heap, a, s.step)
    {
        block_report = Some(BlockReport {
            unwritten: true,
            ..describe(w, id, Some((a, 0)), s.step)?
        });
    }
    let (class, detail) = named(rule);
    Ok(Some(Fault {
        rule: rule.name.clone(),
        class,
        message: message(s, &leaks, further_leaks, &detail),
        step: s.step,
        at,
        block: block_report,
        leaks,
        further_leaks,
        events,
        chains,
        brief: false,
    }))
}

fn message(s: &Suspect, leaks: &[LeakedBlocks], further: Amount, detail: &str) -> String {
    let done = match &s.what {
        Redex::Access {
            address,
            size,
            write,
            call,
            ..
        } => {
            let verb = if *write { "write" } else { "read" };
            let size = bytes(*size);
            let by = call.and_then(abi::name).map(|name| format!(" by {name}"));
            let by = by.unwrap_or_default();
            format!("{verb} of {size} at {address:#x}{by}")
        }
        Redex::Use { register: Some(r) } => {
            let name = image::effects::RegRange::general(u16::from(*r));
            format!("an address is computed from {name}")
        }
        Redex::Use { register: None } => "a branch is decided".to_owned(),
        Redex::Given { what, .. } | Redex::Compared { what, .. } => what.clone(),
        Redex::Call {
            function,
            arguments,
            first,
        } => {
            let before = if *first > 0 { "..., " } else { "" };
            let function = as_written(function);
            let alone = ["free", "operator delete", "operator delete[]"].contains(&function);
            let behind = if alone { "" } else { ", ..." };
            format!(
                "{function}({before}{:#x}{behind})",
                arguments[usize::from(*first)]
            )
        }
        Redex::Return { function, result } => format!("{function} returns {result:#x}"),
        Redex::End if leaks.is_empty() => "the program ends".to_owned(),
        Redex::End => {
            let blocks = further.blocks + leaks.iter().map(|l| l.blocks).sum::<u64>();
            let lost = bytes(further.bytes + leaks.iter().map(|l| l.bytes).sum::<u64>());
            let s = if blocks == 1 { "" } else { "s" };
            format!("{lost} in {blocks} block{s} when the program ends")
        }
    };
    if detail.is_empty() {
        done
    } else {
        format!("{done}: {detail}")
    }
}

/// `1 byte`, `2 bytes`.
pub(super) fn bytes(n: u64) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{n} byte{s}")
}

/// Where memory is used, and how much of it if that is known.
fn address(s: &Suspect) -> Option<(u64, u64)> {
    match &s.what {
        Redex::Access { address, size, .. } => Some((*address, *size)),
        Redex::Call {
            arguments, first, ..
        } => Some((arguments[usize::from(*first)], 0)),
        _ => None,
    }
}

/// The block that the rule is about: that of its first pointer.
fn block_of(w: &Watched, s: &Suspect, rule: &Checked) -> Option<BlockId> {
    let first = rule.arguments.iter().flatten().next()?;
    match s.bindings[first.0 as usize].as_ref()? {
        Value::Number(_, id) if *id > DIFFERENCE => Some(*id),
        Value::Number(n, _) if matches!(s.what, Redex::Call { .. }) => {
            Some(w.machine.heap.around(*n)).filter(|id| *id > DIFFERENCE)
        }
        _ => None,
    }
}

/// The block that there was at an address.
fn living_around(heap: &Heap, a: u64, step: u64) -> Option<BlockId> {
    let mut all = heap.all().filter(|(id, _)| heap.lives(*id, step));
    all.find(|(_, b)| b.begin <= a && a - b.begin < b.size)
        .map(|(id, _)| id)
}

fn describe(
    w: &mut Watched,
    id: BlockId,
    address: Option<(u64, u64)>,
    step: u64,
) -> Result<BlockReport, Error> {
    let b = w.machine.heap.block(id).clone();
    let made = match b.family {
        Family::Global => None,
        _ => Some(site(w, b.born)?),
    };
    let freed = match b.freed.filter(|f| f.step < step) {
        Some(f) => Some(site(w, f.step)?),
        None => None,
    };
    Ok(block_report(w, id, address, (made, freed)))
}

/// A block, with where it was made and freed.
fn block_report(
    w: &Watched,
    id: BlockId,
    address: Option<(u64, u64)>,
    (allocated, freed): (Option<Site>, Option<Site>),
) -> BlockReport {
    let b = w.machine.heap.block(id);
    let relation = match address {
        Some((a, _)) if a < b.begin => format!("{} before", bytes(b.begin - a)),
        Some((a, _)) if a >= b.begin.saturating_add(b.size) => {
            format!("{} past the end of", bytes(a - b.begin - b.size))
        }
        Some((a, _)) => format!("{} inside", bytes(a - b.begin)),
        None => "in".to_owned(),
    };
    let end = b.begin.saturating_add(b.size);
    let beyond = match address {
        Some((a, size)) if (b.begin..end).contains(&a) => {
            a.saturating_add(size).saturating_sub(end)
        }
        _ => 0,
    };
    let variable = w.machine.variable_name(b).map(str::to_owned);
    let by = match variable {
        Some(_) => b.family.word(),
        None => w.function_name(b.by).to_owned(),
    };
    let freer = b.freed.filter(|_| freed.is_some());
    let freed_by = freer.map(|f| match b.family {
        Family::Local => "the return of its function".to_owned(),
        _ => w.function_name(f.by).to_owned(),
    });
    BlockReport {
        begin: b.begin,
        size: b.size,
        unwritten: false,
        beyond,
        relation,
        variable,
        by,
        allocated,
        freed_by,
        freed,
    }
}

/// Takes `most` of the blocks, of each kind at least one as far as that goes, and leaves the others. Blocks of one
/// size from one function are mostly from one place.
fn samples(heap: &Heap, blocks: &[BlockId], most: usize) -> (Vec<BlockId>, Vec<BlockId>) {
    let mut kinds = HashSet::new();
    let (mut first, rest): (Vec<BlockId>, Vec<BlockId>) = blocks.iter().partition(|id| {
        let b = heap.block(**id);
        kinds.insert((b.by, b.size))
    });
    first.extend(rest);
    let others = first.split_off(most.min(first.len()));
    (first, others)
}

/// Leaked blocks by where they were made, and how many are not among those.
fn leaks(w: &mut Watched, culprits: &[BlockId]) -> Result<(Vec<LeakedBlocks>, Amount), Error> {
    /// Blocks that are looked at; each costs a visit to where it was made.
    const MOST: usize = 200;
    let mut out: Vec<(Vec<u64>, LeakedBlocks)> = Vec::new();
    // In the order in which they were made, so that the way to the next is short.
    let (mut looked_at, others) = samples(&w.machine.heap, culprits, MOST);
    let mut further = Amount::default();
    for id in others {
        further.blocks += 1;
        further.bytes += w.machine.heap.block(id).size;
    }
    looked_at.sort_unstable_by_key(|id| w.machine.heap.block(*id).born);
    for id in looked_at {
        let b = w.machine.heap.block(id).clone();
        let allocated = site(w, b.born)?;
        let pcs: Vec<u64> = allocated.stack.frames.iter().map(|f| f.pc).collect();
        match out.iter_mut().find(|(known, _)| *known == pcs) {
            Some((_, l)) => {
                l.blocks += 1;
                l.bytes += b.size;
            }
            None => {
                let by = w.function_name(b.by).to_owned();
                out.push((
                    pcs,
                    LeakedBlocks {
                        blocks: 1,
                        bytes: b.size,
                        by,
                        allocated,
                    },
                ));
            }
        }
    }
    let mut list: Vec<LeakedBlocks> = out.into_iter().map(|(_, l)| l).collect();
    list.sort_by_key(|l| std::cmp::Reverse(l.bytes));
    Ok((list, further))
}

fn place_of(holder: Holder) -> Spot {
    match holder {
        Holder::Register(r) => Spot::Register(RegRange::general(r.into())),
        Holder::Vector(n) => Spot::Register(RegRange::vector(n.into()).part(0, 8)),
        Holder::Memory(at, len) => Spot::Memory(at, len),
    }
}

/// Where memory is compared of which some was never written: whether it is the same up to there.
fn is_reached(w: &mut Watched, s: &Suspect) -> Result<bool, Error> {
    let Redex::Compared {
        addresses, before, ..
    } = s.what
    else {
        return Ok(true);
    };
    w.goto(s.step)?;
    let bytes = addresses.map(|at| {
        let mut out = vec![0; before as usize];
        let got = w.guest().read(at, &mut out);
        (got == out.len()).then_some(out)
    });
    Ok(bytes[0].is_some() && bytes[0] == bytes[1])
}

/// Where the chains of a rule begin.
fn starts(w: &Watched, rule: &Checked, s: &Suspect) -> Vec<Start> {
    const ARGUMENTS: [u8; 6] = [7, 6, 2, 1, 8, 9];
    let mut out = Vec::new();
    let name = |slot: &Slot| rule.variables[slot.0 as usize].clone();
    for slot in &rule.chains {
        let Some(Value::Number(_, id)) = &s.bindings[slot.0 as usize] else {
            continue;
        };
        let argument = rule.arguments.iter().position(|a| *a == Some(*slot));
        let passed = |n: usize| ARGUMENTS.get(n).map(|r| Holder::Register(*r));
        let (step, holder) = match (argument, &s.what) {
            (Some(_), Redex::Access { pointer, .. }) => (s.step, *pointer),
            (Some(n), Redex::Call { first, .. }) => (s.step, passed(n + usize::from(*first))),
            (Some(_), _) => (s.step, None),
            // A pointer that was freed earlier.
            (None, _) => {
                let block = w.machine.heap.block(*id);
                let argument = w.machine.freeing_argument(block);
                let (Some(f), Some(n)) = (block.freed, argument) else {
                    continue;
                };
                (f.step, passed(n))
            }
        };
        let Some(holder) = holder else { continue };
        out.push(Start {
            name: name(slot),
            step,
            thread: s.thread,
            any: false,
            at: place_of(holder),
            block: *id,
        });
    }
    let value = match &s.what {
        Redex::Use { register: Some(r) } => Some(place_of(Holder::Register(*r))),
        Redex::Use { register: None } => Some(Spot::Register(effects::ARITHMETIC)),
        Redex::Given { by, .. } | Redex::Compared { by, .. } => Some(place_of(*by)),
        _ => None,
    };
    if let Some(at) = value {
        out.push(Start {
            name: "value".to_owned(),
            step: s.step,
            thread: s.thread,
            any: true,
            at,
            block: rules::heap::NONE,
        });
    }
    out
}
