//! The slow way: every instruction of a run with the writers of all it read.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use flow::{Edge, Kind, Node};
use guest::{Halt, Replay, Until, UserRegs};
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use image::effects::{Control, Effects, Place, RegRange, SIZE, Size};

use crate::{Facts, Sliced};

/// Who wrote a byte: which instruction, which of its transfers, which byte of that.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Writer {
    node: usize,
    transfer: usize,
    at: u16,
}

/// One place that a transfer reads, with the writer of each byte.
struct Read {
    place: Place,
    kind: Kind,
    writers: Vec<Option<Writer>>,
}

struct Executed {
    pc: u64,
    effects: Effects,
    /// What is read, by place.
    reads: HashMap<Place, Read>,
    /// Registers of addresses of each access.
    addresses: Vec<Vec<Read>>,
    control: Option<usize>,
}

pub(crate) struct Oracle {
    list: Vec<Executed>,
    /// Every change of a byte of memory: address to (step, writer), ascending.
    memory: HashMap<u64, Vec<(usize, Option<Writer>)>>,
}

/// In place of a transfer: the byte depends on all that the instruction read.
const ALL: usize = usize::MAX;

/// A call in progress: the call itself, where its return address is, and its open branches.
struct Call {
    by: Option<usize>,
    slot: u64,
    open: Vec<(usize, Option<u64>)>,
}

fn register(regs: &UserRegs, r: RegRange) -> u64 {
    let g = regs;
    let all = [
        g.rax, g.rcx, g.rdx, g.rbx, g.rsp, g.rbp, g.rsi, g.rdi, g.r8, g.r9, g.r10, g.r11, g.r12,
        g.r13, g.r14, g.r15,
    ];
    let Some(n) = r.general_number() else {
        return 0;
    };
    let shifted = all[n as usize] >> (8 * (r.at % 8));
    if r.len >= 8 {
        shifted
    } else {
        shifted & ((1 << (8 * r.len)) - 1)
    }
}

fn keeps(i: &Instruction) -> bool {
    let kept = i.op0_kind() == OpKind::Register
        && matches!(
            i.op0_register(),
            Register::RBX
                | Register::RBP
                | Register::R12
                | Register::R13
                | Register::R14
                | Register::R15
        );
    match i.mnemonic() {
        Mnemonic::Push | Mnemonic::Pop => kept,
        Mnemonic::Leave => true,
        _ => false,
    }
}

fn sets_frame(i: &Instruction) -> bool {
    let to = i.op0_kind() == OpKind::Register && i.op0_register() == Register::RBP;
    match i.mnemonic() {
        Mnemonic::Mov => {
            to && i.op1_kind() == OpKind::Register && i.op1_register() == Register::RSP
        }
        Mnemonic::Lea => to && i.memory_base() == Register::RSP,
        _ => false,
    }
}

fn condition(i: &Instruction, flags: u64) -> Option<bool> {
    use iced_x86::ConditionCode as C;
    if !format!("{:?}", i.mnemonic()).starts_with("Cmov") {
        return None;
    }
    let bit = |n: u32| flags >> n & 1 != 0;
    let (cf, pf, zf, sf, of) = (bit(0), bit(2), bit(6), bit(7), bit(11));
    Some(match i.condition_code() {
        C::o => of,
        C::no => !of,
        C::b => cf,
        C::ae => !cf,
        C::e => zf,
        C::ne => !zf,
        C::be => cf || zf,
        C::a => !cf && !zf,
        C::s => sf,
        C::ns => !sf,
        C::p => pf,
        C::np => !pf,
        C::l => sf != of,
        C::ge => sf == of,
        C::le => zf || sf != of,
        C::g => !zf && sf == of,
        _ => return None,
    })
}

fn is_rsp(r: RegRange) -> bool {
    r.general_number() == Some(4)
}

impl Oracle {
    pub(crate) fn steps(&self) -> u64 {
        self.list.len() as u64
    }

    pub(crate) fn pc(&self, step: u64) -> u64 {
        self.list[step as usize].pc
    }

    pub(crate) fn of(replay: &mut Replay, facts: &mut Facts<'_>) -> Oracle {
        let mut oracle = Oracle {
            list: Vec::new(),
            memory: HashMap::new(),
        };
        let mut registers: Vec<Option<Writer>> = vec![None; SIZE as usize];
        let mut memory: HashMap<u64, Writer> = HashMap::new();
        let mut calls = vec![Call {
            by: None,
            slot: u64::MAX,
            open: Vec::new(),
        }];
        for step in 0.. {
            let regs = replay.regs();
            let mut code = [0; 15];
            let n = replay.read(regs.rip, &mut code);
            let decoded = Decoder::with_ip(64, &code[..n], regs.rip, DecoderOptions::NONE).decode();
            let effects = Effects::of(&decoded);
            let halt = replay.run(&Until::step(step as u64 + 1)).expect("a step");
            let after = replay.regs();
            // The last call does not return, but it is executed.
            let ended = matches!(halt, Halt::Ended(_));
            let left = oracle.list.last().is_some_and(|e: &Executed| {
                matches!(e.effects.control, Control::Return | Control::IndirectJump)
            });
            let top = calls.last().expect("a call").slot;
            let returned = oracle.list.last().map(|e| e.effects.control) == Some(Control::Return);
            if returned && regs.rsp == top.wrapping_add(8) {
                // Those of one function before and after a leap end together.
                while regs.rsp > calls.last().expect("a call").slot {
                    calls.pop();
                }
            } else if left && regs.rsp > top {
                // A leap: what comes now is because of it.
                while regs.rsp > calls.last().expect("a call").slot {
                    calls.pop();
                }
                let slot = calls.last().expect("a call").slot;
                calls.push(Call {
                    by: Some(oracle.list.len() - 1),
                    slot,
                    open: Vec::new(),
                });
            }
            let call = calls.last_mut().expect("a call");
            while call
                .open
                .last()
                .is_some_and(|(_, meet)| *meet == Some(regs.rip))
            {
                call.open.pop();
            }
            let control = call.open.last().map(|o| o.0).or(call.by);
            let stretch = |n: usize| {
                let a = &effects.accesses[n];
                let at = a.address.resolve(|r| register(&regs, r));
                let len = match a.size {
                    Size::Fixed(n) => u64::from(n),
                    Size::Repeat { element, .. } => {
                        let base = RegRange::general(u16::from(a.address.base.expect("a base")));
                        let end = register(&after, base);
                        assert!(end >= at, "upwards, {element}");
                        end - at
                    }
                    other => panic!("{other:?} is not for this test"),
                };
                (at, len)
            };
            let read = |place: Place| {
                let (kind, writers): (Kind, Vec<Option<Writer>>) = match place {
                    Place::Register(r) => (
                        Kind::Register(r),
                        (r.at..r.end()).map(|b| registers[b as usize]).collect(),
                    ),
                    Place::Memory { access, at, len } => {
                        let addr = stretch(access as usize).0 + u64::from(at);
                        let len = u64::from(len);
                        let writers = (addr..addr + len).map(|b| memory.get(&b).copied());
                        (Kind::Memory { addr, len }, writers.collect())
                    }
                    Place::Whole(access) => {
                        let (addr, len) = stretch(access as usize);
                        let writers = (addr..addr + len).map(|b| memory.get(&b).copied());
                        (Kind::Memory { addr, len }, writers.collect())
                    }
                };
                Read {
                    place,
                    kind,
                    writers,
                }
            };
            let mut reads: HashMap<Place, Read> = HashMap::new();
            let sources = effects
                .transfers
                .iter()
                .flat_map(|t| t.from.iter().map(|s| s.place));
            for place in sources.chain(effects.decided_by.iter().copied()) {
                reads.insert(place, read(place));
            }
            let addresses = effects.accesses.iter().map(|a| {
                let list = a.registers().into_iter();
                list.filter(|r| !is_rsp(*r))
                    .map(|r| read(Place::Register(r)))
                    .collect()
            });
            let addresses = addresses.collect();
            let moved = condition(&decoded, regs.eflags);
            let node = oracle.list.len();
            // What it writes.
            let syscall = effects.control == Control::Syscall;
            let mut writes: Vec<(Option<u16>, u64, Option<Writer>)> = Vec::new();
            if syscall {
                // Its result and what it destroys depend on its number and its arguments.
                reads.clear();
                let arguments = [7, 6, 2, 10, 8, 9]
                    .into_iter()
                    .take(abi::arguments(regs.rax));
                for r in arguments.chain([0]).map(RegRange::general) {
                    reads.insert(Place::Register(r), read(Place::Register(r)));
                }
                for b in [0, 1, 11].into_iter().flat_map(|r| 8 * r..8 * r + 8) {
                    let writer = Writer {
                        node,
                        transfer: ALL,
                        at: 0,
                    };
                    writes.push((Some(b), 0, Some(writer)));
                }
            }
            let transfers = effects.transfers.iter().enumerate();
            for (n, t) in transfers.filter(|_| !syscall) {
                let (first, addr, len) = match t.to {
                    Place::Register(r) if is_rsp(r) => continue,
                    Place::Register(r) => (Some(r.at), 0, u64::from(r.len)),
                    Place::Memory { access, at, len } => (
                        None,
                        stretch(access as usize).0 + u64::from(at),
                        u64::from(len),
                    ),
                    Place::Whole(access) => {
                        let (a, len) = stretch(access as usize);
                        (None, a, len)
                    }
                };
                for k in 0..len {
                    let mut writer = Some(Writer {
                        node,
                        transfer: n,
                        at: k as u16,
                    });
                    let old = |place: Place, k: u64| {
                        reads.get(&place).and_then(|r: &Read| r.writers[k as usize])
                    };
                    if keeps(&decoded) {
                        writer = old(t.from[0].place, k);
                    } else if sets_frame(&decoded) {
                        writer = None;
                    } else if moved == Some(false) {
                        // The old value stays.
                        match first {
                            Some(at) => writer = registers[(at + k as u16) as usize],
                            None => continue,
                        }
                    }
                    match first {
                        Some(at) => writes.push((Some(at + k as u16), 0, writer)),
                        None => writes.push((None, addr + k, writer)),
                    }
                }
            }
            for (reg, addr, writer) in writes {
                match reg {
                    Some(b) => registers[b as usize] = writer,
                    None => {
                        match writer {
                            Some(w) => memory.insert(addr, w),
                            None => memory.remove(&addr),
                        };
                        let list = oracle.memory.entry(addr).or_default();
                        list.push((node + 1, writer));
                    }
                }
            }
            let pc = regs.rip;
            let branches = matches!(effects.control, Control::Branch(_) | Control::IndirectJump);
            if branches {
                let meet = facts.meets_at(pc);
                // The same branch again: its region is this one.
                let open = &mut calls.last_mut().expect("a call").open;
                open.retain(|(n, _)| oracle.list[*n].pc != pc);
                open.push((node, meet));
            }
            if matches!(effects.control, Control::Call(_) | Control::IndirectCall) {
                calls.push(Call {
                    by: Some(node),
                    slot: after.rsp,
                    open: Vec::new(),
                });
            }
            oracle.list.push(Executed {
                pc,
                effects,
                reads,
                addresses,
                control,
            });
            if ended {
                break;
            }
        }
        oracle
    }

    /// The slice of memory before `step`.
    pub(crate) fn slice(&self, step: u64, memory: &[(u64, u64)], data_only: bool) -> Sliced {
        let mut walk = Walk {
            oracle: self,
            data_only,
            edges: BTreeSet::new(),
            seen: HashSet::new(),
            queue: VecDeque::new(),
        };
        let root = Node {
            step,
            pc: self.pc(step),
        };
        for &(addr, len) in memory {
            for b in addr..addr + len {
                let list = self.memory.get(&b);
                let last = list.and_then(|l| l.iter().rev().find(|(n, _)| *n as u64 <= step));
                walk.follow(root, Kind::Memory { addr, len }, last.and_then(|l| l.1));
            }
        }
        walk.ask(root);
        walk.run();
        let mut steps = BTreeSet::from([step]);
        steps.extend(walk.edges.iter().flat_map(|e| [e.from.step, e.to.step]));
        (steps, walk.edges)
    }

    fn node(&self, n: usize) -> Node {
        Node {
            step: n as u64,
            pc: self.list[n].pc,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Task {
    /// What one written byte is made of.
    Byte(Writer),
    /// All that an instruction uses.
    Whole(usize),
    /// Why an instruction was executed.
    Ask(usize),
}

struct Walk<'a> {
    oracle: &'a Oracle,
    data_only: bool,
    edges: BTreeSet<Edge>,
    seen: HashSet<Task>,
    queue: VecDeque<Task>,
}

impl Walk<'_> {
    fn task(&mut self, task: Task) {
        if self.seen.insert(task) {
            self.queue.push_back(task);
        }
    }

    fn follow(&mut self, from: Node, kind: Kind, w: Option<Writer>) {
        let Some(w) = w else { return };
        let to = self.oracle.node(w.node);
        self.edges.insert(Edge { from, to, kind });
        self.task(Task::Ask(w.node));
        self.task(if w.transfer == ALL {
            Task::Whole(w.node)
        } else {
            Task::Byte(w)
        });
    }

    fn ask(&mut self, from: Node) {
        if self.data_only {
            return;
        }
        if let Some(c) = self.oracle.list[from.step as usize].control {
            let to = self.oracle.node(c);
            let kind = Kind::Control;
            self.edges.insert(Edge { from, to, kind });
            self.task(Task::Whole(c));
            self.task(Task::Ask(c));
        }
    }

    fn run(&mut self) {
        let oracle = self.oracle;
        while let Some(task) = self.queue.pop_front() {
            match task {
                Task::Ask(n) => self.ask(oracle.node(n)),
                Task::Whole(n) => {
                    let e = &oracle.list[n];
                    let mut accesses = BTreeSet::new();
                    for r in e.reads.values() {
                        self.read(n, r, 0..r.writers.len());
                        accesses.extend(access(r.place));
                    }
                    accesses.extend(e.effects.transfers.iter().filter_map(|t| access(t.to)));
                    self.addresses(n, accesses);
                }
                Task::Byte(w) => {
                    let e = &oracle.list[w.node];
                    let t = &e.effects.transfers[w.transfer];
                    let mut accesses: BTreeSet<u8> = access(t.to).into_iter().collect();
                    for source in &t.from {
                        let r = &e.reads[&source.place];
                        let all = r.writers.len();
                        // Lane by lane, where the output has lanes.
                        let part = match (t.lane, source.lane) {
                            (0, _) | (_, 0) => 0..all,
                            (_, s) => {
                                let lanes = (all / s as usize).max(1);
                                let lane = (w.at / t.lane) as usize % lanes;
                                lane * s as usize..(lane + 1) * s as usize
                            }
                        };
                        self.read(w.node, r, part);
                        accesses.extend(access(source.place));
                    }
                    self.addresses(w.node, accesses);
                }
            }
        }
    }

    fn read(&mut self, n: usize, r: &Read, part: std::ops::Range<usize>) {
        if matches!(r.place, Place::Register(r) if is_rsp(r)) {
            return;
        }
        for w in &r.writers[part] {
            self.follow(self.oracle.node(n), r.kind, *w);
        }
    }

    fn addresses(&mut self, n: usize, accesses: BTreeSet<u8>) {
        for a in accesses {
            for r in &self.oracle.list[n].addresses[a as usize] {
                self.read(n, r, 0..r.writers.len());
            }
        }
    }
}

fn access(p: Place) -> Option<u8> {
    match p {
        Place::Memory { access, .. } | Place::Whole(access) => Some(access),
        Place::Register(_) => None,
    }
}
