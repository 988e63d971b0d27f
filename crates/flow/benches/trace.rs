//! What the tape of a program costs, and what a reader that keeps the last writer of everything takes for it.
//!
//! `trace PROGRAM ARGS...` records the program, replays it with the tape on, and prints one line of JSON. Nothing
//! is asserted about time. `cargo xtask bench trace` makes a table of it.

use std::collections::HashMap;
use std::ffi::OsString;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use flow::{Codes, Item, Roll, Step, View, What};
use guest::{Launch, Recorder, Replay, Until};
use image::effects::{self, SIZE, Size};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use rustc_hash::FxHashMap;
use tape::Event;

/// How often the replay and the pass are timed; the least counts, because interference only ever adds.
const ROUNDS: usize = 2;
/// Steps over which the pass is held against the obvious way of doing it.
const CHECKED: u64 = 300_000;

fn main() {
    let mut words = std::env::args_os()
        .skip(1)
        // Cargo says so to every benchmark.
        .filter(|word| word != "--bench");
    let Some(program) = words.next() else {
        println!("trace PROGRAM ARGS...; see `cargo xtask bench trace`");
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let steps = record(folder.path(), Path::new(&program), words.collect());
    let (mut cpu, mut wall, mut kept) = (f64::INFINITY, f64::INFINITY, None);
    for _ in 0..ROUNDS {
        // Two of them may be more than fits in memory.
        kept = None;
        let (before, begun) = (children(), Instant::now());
        let roll = replay(folder.path());
        wall = wall.min(begun.elapsed().as_secs_f64());
        cpu = cpu.min(children() - before);
        kept.replace(roll);
    }
    let roll = kept.expect("at least one round");
    check(&roll);
    let mut pass = f64::INFINITY;
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        let mut writers = Writers::new(&roll);
        roll.forward(|view, item| {
            writers.item(view, item);
            true
        });
        pass = pass.min(begun.elapsed().as_secs_f64());
        black_box(&writers.pages);
    }
    let file = folder.path().join("tape");
    roll.save(&file).expect("the tape can be saved");
    let compressed = std::fs::metadata(&file).expect("the file").len();
    println!(
        "{{\"steps\":{steps},\"guest_cpu_seconds\":{cpu},\"wall_seconds\":{wall},\"tape_bytes\":{},\
         \"compressed_bytes\":{compressed},\"last_writer_seconds\":{pass},\"peak_bytes\":{}}}",
        roll.bytes(),
        peak()
    );
}

/// Most memory that this process had at any time; the guest's is its own.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the kernel tells");
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let words = line.expect("a peak").trim().trim_end_matches(" kB");
    words.parse::<u64>().expect("a number") << 10
}

fn record(folder: &Path, program: &Path, args: Vec<OsString>) -> u64 {
    let launch = Launch::new(program, args).expect("the program is there");
    let done = Recorder::start(&launch, folder)
        .and_then(Recorder::run)
        .expect("the guest runs");
    done.stats.steps
}

/// The guest is gone when this returns, so that the kernel has charged all of it to us.
fn replay(folder: &Path) -> Roll {
    let mut replay = Replay::open(folder, Box::new(|_, _| ())).expect("the recording opens");
    replay
        .tape(Box::new(Roll::new(Codes::default())))
        .expect("a tape");
    replay.run(&Until::end()).expect("the replay runs");
    let roll = replay.end_tape().expect("the end of the tape");
    *roll.into_any().downcast().expect("the roll that was given")
}

/// CPU time of the children that have ended.
fn children() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("the kernel knows");
    let total = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    total as f64 / 1e6
}

/// Registers are cells too: [`SIZE`] bytes of them.
const REGISTER_CELLS: usize = (SIZE as usize).div_ceil(8);
/// Cells of a page of the table: 512 KiB of guest memory.
const PAGE: usize = 1 << 16;
/// Pages that are found without a search.
const NEAR: usize = 64;

type Registers = [u64; REGISTER_CELLS];

/// What is the same for each record of a shape.
struct Summary {
    /// Cells of registers that are written, and by which instruction last.
    registers: Box<[(u16, u8)]>,
    /// How many of the superblock's stores are executed.
    stores: usize,
}

/// For each cell of 8 bytes, the step after its last writer; 0 if there was none.
struct Writers<'a> {
    roll: &'a Roll,
    summaries: Vec<Summary>,
    pages: Vec<Box<[u64]>>,
    numbers: FxHashMap<u64, u32>,
    near: [(u64, u32); NEAR],
    registers: Registers,
    thread: u32,
    /// Registers of the threads that do not run.
    others: HashMap<u32, Registers>,
    stretches: Vec<(u64, u64)>,
}

impl<'a> Writers<'a> {
    fn new(roll: &'a Roll) -> Self {
        let shapes = 0..roll.codes.len() as u32;
        Writers {
            roll,
            summaries: shapes
                .map(|shape| Summary::of(&roll.codes, shape))
                .collect(),
            pages: Vec::new(),
            numbers: FxHashMap::default(),
            near: [(u64::MAX, 0); NEAR],
            registers: [0; REGISTER_CELLS],
            thread: 0,
            others: HashMap::new(),
            stretches: Vec::new(),
        }
    }

    #[inline]
    fn item(&mut self, view: &View<'_>, item: &Item) {
        if item.thread != self.thread {
            self.turn(item.thread);
        }
        let roll = self.roll;
        match item.what {
            What::Record(record) => {
                let (values, shape) = (view.values(&record), record.shape);
                let after = item.step + 1;
                let summary = &self.summaries[shape as usize];
                for &(cell, i) in &summary.registers {
                    self.registers[cell as usize] = after + u64::from(i);
                }
                let stores = &roll.codes.plan(shape).stores[..summary.stores];
                for (i, spot) in stores {
                    let after = after + u64::from(*i);
                    match spot.access.size {
                        Size::Fixed(len) => {
                            let addr = spot.address(&values);
                            self.memory(addr, u64::from(len), after);
                        }
                        _ => {
                            let mut list = std::mem::take(&mut self.stretches);
                            spot.stretches(&values, &mut list);
                            for (addr, len) in list.drain(..) {
                                self.memory(addr, len, after);
                            }
                            self.stretches = list;
                        }
                    }
                }
            }
            What::Event(n) => {
                let (registers, memory) = written(view.event(n));
                for cell in registers {
                    self.registers[cell] = item.step + 1;
                }
                for (addr, len) in memory {
                    self.memory(addr, len, item.step + 1);
                }
            }
        }
    }

    #[cold]
    fn turn(&mut self, thread: u32) {
        let next = self.others.remove(&thread);
        let next = next.unwrap_or([0; REGISTER_CELLS]);
        let last = std::mem::replace(&mut self.registers, next);
        self.others.insert(self.thread, last);
        self.thread = thread;
    }

    #[inline]
    fn memory(&mut self, addr: u64, len: u64, after: u64) {
        if len == 0 {
            return;
        }
        for cell in addr / 8..=addr.wrapping_add(len - 1).max(addr) / 8 {
            let page = self.page(cell / PAGE as u64);
            self.pages[page as usize][cell as usize % PAGE] = after;
        }
    }

    #[inline]
    fn page(&mut self, key: u64) -> u32 {
        let near = self.near[key as usize % NEAR];
        if near.0 == key {
            return near.1;
        }
        self.far(key)
    }

    #[cold]
    fn far(&mut self, key: u64) -> u32 {
        let pages = &mut self.pages;
        let number = *self.numbers.entry(key).or_insert_with(|| {
            pages.push(vec![0; PAGE].into());
            pages.len() as u32 - 1
        });
        self.near[key as usize % NEAR] = (key, number);
        number
    }
}

impl Summary {
    fn of(codes: &Codes, shape: u32) -> Summary {
        let (plan, executed) = (codes.plan(shape), codes.shape(shape).executed);
        let mut last = HashMap::new();
        for (i, step) in plan.steps[..executed as usize].iter().enumerate() {
            for cell in cells(step) {
                last.insert(cell as u16, i as u8);
            }
        }
        let executed = plan.stores.iter().take_while(|(i, _)| *i < executed);
        Summary {
            registers: last.into_iter().collect(),
            stores: executed.count(),
        }
    }
}

/// The cells of registers that an instruction writes.
fn cells(step: &Step) -> Vec<usize> {
    let ranges = step.effects.registers_written();
    ranges
        .flat_map(|r| r.at as usize / 8..=(r.end() as usize - 1) / 8)
        .collect()
}

/// The cells of registers and the memory that an event writes.
fn written(event: &Event) -> (Vec<usize>, Vec<(u64, u64)>) {
    let cell = |r: effects::RegRange| r.at as usize / 8;
    match event {
        Event::Enter { .. } => (vec![cell(effects::RCX), cell(effects::R11)], Vec::new()),
        Event::Leave { writes, .. } => {
            let memory = writes.iter().map(|w| (w.addr, w.len)).collect();
            (vec![cell(effects::RAX)], memory)
        }
        Event::Special(insn) => (cells(&Step::of(insn, &[])), Vec::new()),
        Event::Signal { frame, .. } => (Vec::new(), vec![(frame.addr, frame.len)]),
        Event::Outside { writes } => {
            let memory = writes.iter().map(|w| (w.addr, w.len)).collect();
            (Vec::new(), memory)
        }
        Event::State { .. } | Event::Exec => (Vec::new(), Vec::new()),
    }
}

/// Holds the pass against the obvious one: every instruction, every byte, ordinary maps.
fn check(roll: &Roll) {
    let mut writers = Writers::new(roll);
    let mut memory: HashMap<u64, u64> = HashMap::new();
    let mut registers: HashMap<(u32, usize), u64> = HashMap::new();
    let mut thread = 0;
    roll.forward(|view, item| {
        writers.item(view, item);
        thread = item.thread;
        match item.what {
            What::Record(record) => {
                let (values, shape) = (view.values(&record), record.shape);
                let executed = roll.codes.shape(shape).executed as usize;
                let steps = &roll.codes.plan(shape).steps[..executed];
                for (after, step) in (item.step + 1..).zip(steps) {
                    for cell in cells(step) {
                        registers.insert((thread, cell), after);
                    }
                    for spot in step.spots.iter().filter(|s| s.access.writes) {
                        let mut list = Vec::new();
                        spot.stretches(&values, &mut list);
                        for addr in list.into_iter().flat_map(|(addr, len)| addr..addr + len) {
                            memory.insert(addr / 8, after);
                        }
                    }
                }
            }
            What::Event(n) => {
                let (cells, list) = written(view.event(n));
                for cell in cells {
                    registers.insert((thread, cell), item.step + 1);
                }
                for addr in list.into_iter().flat_map(|(addr, len)| addr..addr + len) {
                    memory.insert(addr / 8, item.step + 1);
                }
            }
        }
        item.step < CHECKED
    });
    let mut seen = 0;
    for (&key, &page) in &writers.numbers {
        let page = &writers.pages[page as usize];
        for (i, &after) in page.iter().enumerate().filter(|(_, after)| **after > 0) {
            seen += 1;
            let cell = key * PAGE as u64 + i as u64;
            assert_eq!(memory.get(&cell), Some(&after), "memory at {:#x}", cell * 8);
        }
    }
    assert_eq!(seen, memory.len(), "cells of memory written");
    for (cell, &after) in writers.registers.iter().enumerate() {
        let expected = registers.get(&(thread, cell)).copied().unwrap_or(0);
        assert_eq!(expected, after, "cell {cell} of the registers");
    }
}
