//! Finds the blocks of a function by following its code.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use iced_x86::{Decoder, DecoderOptions, Instruction};

use super::landing::{self, Pad};
use super::noreturn::Cache;
use super::{Block, Leaves, tables};
use crate::effects::Control;
use crate::program::{Memory, Program};

const PAGE: u64 = 4096;
/// A function with more instructions than this is not followed to its end.
const MOST_INSTRUCTIONS: usize = 1 << 20;
/// How often new jump tables may show up behind jump tables.
const MOST_ROUNDS: usize = 64;

/// A function as its symbols or its debug information delimit it.
#[derive(Clone, Debug)]
pub(super) struct Extent {
    pub(super) entry: u64,
    pub(super) ranges: Vec<(u64, u64)>,
    /// Code that is known to run, though nothing leads there.
    pub(super) also: Vec<u64>,
    raw_name: Option<String>,
}

pub(super) fn extent(program: &Program, pc: u64) -> Option<Extent> {
    by_debug(program, pc)
        .or_else(|| by_symbol(program, pc))
        .or_else(|| by_unwinding(program, pc))
        .or_else(|| {
            // Nothing is known but that there is code.
            let range = program.executable_around(pc)?;
            Some(Extent {
                entry: pc,
                ranges: vec![range],
                also: Vec::new(),
                raw_name: None,
            })
        })
}

fn by_debug(program: &Program, pc: u64) -> Option<Extent> {
    let module = program.module_at(pc)?;
    let contents = &module.contents;
    let (elf, debug) = (contents.elf()?, contents.debug()?);
    let vaddr = module.vaddr(pc);
    let (unit, found) = debug.function_at(vaddr, elf, &contents.warnings)?;
    let parts = unit.functions(elf, &contents.warnings).iter();
    let parts = parts.filter(|r| r.die == found.die);
    Some(Extent {
        entry: module.pc(found.entry),
        ranges: parts
            .map(|r| (module.pc(r.begin), module.pc(r.end)))
            .collect(),
        also: Vec::new(),
        raw_name: program.symbol(module.pc(found.entry)).map(|s| s.raw_name),
    })
}

fn by_symbol(program: &Program, pc: u64) -> Option<Extent> {
    let symbol = program.symbol(pc)?;
    let module = program.module_at(pc)?;
    if symbol.size == 0 {
        return None;
    }
    let range = (symbol.start, symbol.start.checked_add(symbol.size)?);
    if let Some((parent, _)) = symbol.raw_name.split_once(".cold") {
        let symbols = module.contents.symbols();
        let found = symbols.functions().find(|s| s.raw == parent);
        if let Some(found) = found {
            let start = module.pc(found.vaddr);
            return Some(Extent {
                entry: start,
                ranges: vec![(start, start.checked_add(found.size)?), range],
                also: Vec::new(),
                raw_name: Some(found.raw),
            });
        }
    }
    Some(Extent {
        entry: symbol.start,
        ranges: vec![range],
        also: Vec::new(),
        raw_name: Some(symbol.raw_name),
    })
}

fn by_unwinding(program: &Program, pc: u64) -> Option<Extent> {
    let module = program.module_at(pc)?;
    let (begin, end) = module.cfi()?.extent(module.vaddr(pc))?;
    Some(Extent {
        entry: module.pc(begin),
        ranges: vec![(module.pc(begin), module.pc(end))],
        also: Vec::new(),
        raw_name: None,
    })
}

/// What follows an instruction.
#[derive(Clone, Debug, Default)]
pub(super) struct Ways {
    pub(super) to: Vec<u64>,
    pub(super) falls: bool,
    leaves: Leaves,
    pads: Vec<u64>,
}

pub(super) struct Explorer<'a> {
    program: &'a Program,
    memory: &'a dyn Memory,
    ranges: Vec<(u64, u64)>,
    raw_name: Option<&'a str>,
    pads: Vec<Pad>,
    pages: HashMap<u64, Option<Box<[u8]>>>,
    pub(super) found: BTreeMap<u64, (Instruction, Ways)>,
    leaders: BTreeSet<u64>,
    work: Vec<u64>,
    /// Indirect jumps that no table is known for yet.
    indirect: BTreeSet<u64>,
}

pub(super) fn blocks(
    program: &Program,
    memory: &dyn Memory,
    extent: &Extent,
    observed: &BTreeMap<u64, BTreeSet<u64>>,
    noreturn: &mut Cache,
) -> Vec<Block> {
    let mut explorer = Explorer {
        program,
        memory,
        ranges: Vec::new(),
        raw_name: extent.raw_name.as_deref(),
        pads: Vec::new(),
        pages: HashMap::new(),
        found: BTreeMap::new(),
        leaders: BTreeSet::new(),
        work: Vec::new(),
        indirect: BTreeSet::new(),
    };
    for range in &extent.ranges {
        explorer.add_range(*range);
    }
    explorer.lead(extent.entry);
    for pc in &extent.also {
        explorer.lead(*pc);
    }
    explorer.follow(noreturn);
    for _ in 0..MOST_ROUNDS {
        let mut news = false;
        for jump in explorer.indirect.clone() {
            if let Some(targets) = tables::targets(&mut explorer, jump) {
                explorer.indirect.remove(&jump);
                explorer.set_targets(jump, targets, Leaves::No);
                news = true;
            }
        }
        if !news {
            break;
        }
        explorer.follow(noreturn);
    }
    for (jump, targets) in observed {
        if let Some((_, ways)) = explorer.found.get(jump) {
            let mut all = ways.to.clone();
            let own = |t: &u64| explorer.ranges.iter().any(|r| (r.0..r.1).contains(t));
            all.extend(targets.iter().copied().filter(own));
            let leaves = ways.leaves;
            explorer.set_targets(*jump, all, leaves);
            explorer.follow(noreturn);
        }
    }
    explorer.blocks(extent.entry)
}

impl Explorer<'_> {
    fn add_range(&mut self, range: (u64, u64)) {
        self.ranges.push(range);
        if let Some(module) = self.program.module_at(range.0) {
            self.pads.extend(landing::pads(module, range.0));
        }
    }

    pub(super) fn owns(&self, pc: u64) -> bool {
        self.ranges.iter().any(|(s, e)| (*s..*e).contains(&pc))
    }

    /// Whether a jump target outside is a part of this function that was put elsewhere.
    pub(super) fn adopt(&mut self, target: u64) -> bool {
        if self.owns(target) {
            return true;
        }
        let Some(range) = self.cold_part(target) else {
            return false;
        };
        self.add_range(range);
        true
    }

    fn cold_part(&self, target: u64) -> Option<(u64, u64)> {
        let module = self.program.module_at(target)?;
        match (self.program.symbol(target), self.raw_name) {
            (Some(symbol), Some(own)) => {
                let rest = symbol.raw_name.strip_prefix(own)?;
                let end = symbol.start.checked_add(symbol.size.max(1))?;
                rest.starts_with(".cold").then_some((symbol.start, end))
            }
            // Without names, code that begins with a frame in place is no function.
            (None, _) => {
                let cfi = module.cfi()?;
                let (begin, end) = cfi.extent(module.vaddr(target))?;
                let inside = cfi.begins_inside(begin);
                inside.then(|| (module.pc(begin), module.pc(end)))
            }
            _ => None,
        }
    }

    /// A block begins here.
    fn lead(&mut self, pc: u64) {
        if self.leaders.insert(pc) {
            self.work.push(pc);
        }
    }

    fn set_targets(&mut self, jump: u64, mut targets: Vec<u64>, leaves: Leaves) {
        targets.sort_unstable();
        targets.dedup();
        for target in &targets {
            self.lead(*target);
        }
        if let Some((_, ways)) = self.found.get_mut(&jump) {
            ways.to = targets;
            ways.leaves = leaves;
        }
    }

    fn page(&mut self, number: u64) -> Option<&[u8]> {
        let (memory, program) = (self.memory, self.program);
        let page = self.pages.entry(number).or_insert_with(|| {
            let mut bytes = vec![0; PAGE as usize];
            let start = number.checked_mul(PAGE)?;
            start.checked_add(PAGE)?;
            if memory.read(start, &mut bytes) {
                return Some(bytes.into());
            }
            // The file has the code too, unless it was changed in memory.
            let module = program.module_at(start)?;
            let file = module.contents.elf()?.at_vaddr(module.vaddr(start))?;
            let known = file.bytes().len().min(bytes.len());
            bytes[..known].copy_from_slice(&file.bytes()[..known]);
            Some(bytes.into())
        });
        page.as_deref()
    }

    /// Up to `buf.len()` bytes of memory or of the file; says how many.
    pub(super) fn read(&mut self, address: u64, buf: &mut [u8]) -> usize {
        let mut done = 0;
        while done < buf.len() {
            let Some(at) = address.checked_add(done as u64) else {
                break;
            };
            let inside = (at % PAGE) as usize;
            let Some(page) = self.page(at / PAGE) else {
                break;
            };
            let n = (buf.len() - done).min(page.len() - inside);
            buf[done..done + n].copy_from_slice(&page[inside..inside + n]);
            done += n;
        }
        done
    }

    fn decode(&mut self, pc: u64) -> Instruction {
        let mut bytes = [0; 15];
        let n = self.read(pc, &mut bytes);
        Decoder::with_ip(64, &bytes[..n], pc, DecoderOptions::NONE).decode()
    }

    fn follow(&mut self, noreturn: &mut Cache) {
        while let Some(start) = self.work.pop() {
            let mut pc = start;
            while self.owns(pc)
                && !self.found.contains_key(&pc)
                && self.found.len() < MOST_INSTRUCTIONS
            {
                let instruction = self.decode(pc);
                let ways = self.ways(&instruction, noreturn);
                let plain = ways.falls && ways.to.is_empty() && ways.pads.is_empty();
                let falls = ways.falls;
                for target in ways.to.iter().chain(&ways.pads) {
                    self.lead(*target);
                }
                self.found.insert(pc, (instruction, ways));
                if !falls {
                    break;
                }
                pc = instruction.next_ip();
                if !plain {
                    self.lead(pc);
                    break;
                }
            }
        }
    }

    fn ways(&mut self, instruction: &Instruction, noreturn: &mut Cache) -> Ways {
        let next = instruction.next_ip();
        let mut ways = Ways::default();
        let never = Ways {
            leaves: Leaves::Never,
            ..Ways::default()
        };
        if instruction.is_invalid() {
            return never;
        }
        match Control::of(instruction) {
            Control::None | Control::Syscall | Control::Trap | Control::Other => ways.falls = true,
            Control::Undefined => return never,
            Control::Return => ways.leaves = Leaves::Return,
            Control::Jump(target) if self.adopt(target) => ways.to.push(target),
            Control::Jump(_) => ways.leaves = Leaves::TailCall,
            Control::Branch(target) => {
                ways.falls = true;
                if self.adopt(target) {
                    ways.to.push(target);
                } else {
                    ways.leaves = Leaves::TailCall;
                }
            }
            Control::IndirectJump => {
                ways.leaves = Leaves::Unknown;
                self.indirect.insert(instruction.ip());
            }
            Control::Call(target) => {
                let never = noreturn.never_returns(self.program, target);
                self.call(instruction, never, &mut ways);
            }
            Control::IndirectCall => {
                let never = instruction.is_ip_rel_memory_operand()
                    && noreturn.never_returns_through(
                        self.program,
                        self.memory,
                        instruction.ip_rel_memory_address(),
                    );
                self.call(instruction, never, &mut ways);
            }
        }
        if ways.falls && !self.owns(next) {
            ways.falls = false;
            if ways.leaves == Leaves::No {
                ways.leaves = Leaves::Never;
            }
        }
        ways
    }

    fn call(&self, instruction: &Instruction, never: bool, ways: &mut Ways) {
        ways.falls = !never;
        if never {
            ways.leaves = Leaves::Never;
        }
        let at = instruction.ip();
        let pads = self.pads.iter().filter(|p| (p.begin..p.end).contains(&at));
        ways.pads = pads.map(|p| p.pad).filter(|p| self.owns(*p)).collect();
        ways.pads.dedup();
    }

    fn blocks(&self, entry: u64) -> Vec<Block> {
        let mut out: Vec<Block> = Vec::new();
        let mut numbers: HashMap<u64, usize> = HashMap::new();
        let mut ends: Vec<&Ways> = Vec::new();
        let mut current: Option<Block> = None;
        for (pc, (instruction, ways)) in &self.found {
            if current
                .as_ref()
                .is_some_and(|b| b.end != *pc || self.leaders.contains(pc))
                && let Some(block) = current.take()
            {
                out.push(block);
            }
            let block = current.get_or_insert_with(|| {
                numbers.insert(*pc, out.len());
                Block {
                    start: *pc,
                    end: *pc,
                    last: *pc,
                    successors: Vec::new(),
                    landing_pads: Vec::new(),
                    leaves: Leaves::No,
                }
            });
            block.end = instruction.next_ip();
            block.last = *pc;
            block.leaves = ways.leaves;
            if ends.len() > out.len() {
                ends.pop();
            }
            ends.push(ways);
        }
        out.extend(current);
        let number = |pc: &u64| numbers.get(pc).copied();
        for (block, ways) in out.iter_mut().zip(ends) {
            block.successors = ways.to.iter().filter_map(number).collect();
            if ways.falls {
                block.successors.extend(number(&block.end));
            }
            block.successors.sort_unstable();
            block.successors.dedup();
            block.landing_pads = ways.pads.iter().filter_map(number).collect();
            if block.successors.is_empty() && block.leaves == Leaves::No {
                block.leaves = Leaves::Never;
            }
        }
        let _ = entry;
        out
    }
}
