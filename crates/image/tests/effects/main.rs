//! The effects of instructions against the processor.
//!
//! A program executes each instruction from random states, changes one byte of the state and
//! executes it again. A byte of the outcome that changed must be one that the effects list as
//! written, and the byte that was changed must be among its sources. Nothing else is written.
//!
//! `EFFECTS_STATES` sets how many states are tried for each instruction, `EFFECTS_SEED` which.

#[path = "../harness/mod.rs"]
mod harness;
mod list;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::process::Command;

use iced_x86::{Decoder, DecoderOptions, InstructionInfoFactory, Mnemonic, OpAccess};
use image::effects::{Access, Effects, Place, RegRange, SIZE, Size, Transfer};

const MEMORY: u16 = 4096;
const WINDOW: u64 = 1024;

/// What the assembler takes of the list.
fn assemblable(directory: &std::path::Path) -> Vec<list::Line> {
    let lines = list::all();
    let mut text = String::from(".intel_syntax noprefix\n");
    for (line, _) in &lines {
        writeln!(text, "{line}").unwrap();
    }
    std::fs::write(directory.join("all.S"), text).unwrap();
    let output = Command::new("gcc")
        .args(["-c", "all.S", "-o", "all.o"])
        .current_dir(directory)
        .env("LC_ALL", "C")
        .output()
        .expect("gcc is needed by this test");
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    let bad: BTreeSet<usize> = complaints
        .lines()
        .filter(|l| l.contains("Error"))
        .filter_map(|l| l.split(':').nth(1)?.parse::<usize>().ok())
        .collect();
    let kept = lines.into_iter().enumerate();
    kept.filter(|(n, _)| !bad.contains(&(n + 2)))
        .map(|(_, line)| line)
        .collect()
}

fn build(lines: &[list::Line], directory: &std::path::Path) {
    let frame = include_str!("frame.S");
    let mut text = format!("{frame}\n.text\n");
    for (n, (line, _)) in lines.iter().enumerate() {
        writeln!(
            text,
            "run{n}:\nenter_state\nstart{n}: {line}\nend{n}: jmp leave_state"
        )
        .unwrap();
    }
    text.push_str(".data\n.globl table\n.p2align 4\ntable:\n");
    for n in 0..lines.len() {
        writeln!(text, ".quad run{n}, start{n}, end{n}, setup{n}").unwrap();
    }
    writeln!(text, ".globl entries\nentries: .quad {}", lines.len()).unwrap();
    for (n, (_, setup)) in lines.iter().enumerate() {
        writeln!(text, "setup{n}: .asciz \"{setup}\"").unwrap();
    }
    text.push_str(".section .note.GNU-stack,\"\",@progbits\n");
    std::fs::write(directory.join("table.S"), text).unwrap();
    std::fs::write(directory.join("driver.c"), include_str!("driver.c")).unwrap();
    harness::run(
        "gcc",
        &[
            "-O1", "-no-pie", "-static", "driver.c", "table.S", "-o", "driver",
        ],
        directory,
    );
}

/// The driver's output, read off from the front.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take(&mut self, n: usize) -> Vec<u8> {
        let (head, rest) = self.0.split_at(n);
        self.0 = rest;
        head.to_vec()
    }

    fn word(&mut self) -> u16 {
        u16::from_le_bytes(self.take(2).try_into().unwrap())
    }

    fn long(&mut self) -> u64 {
        u64::from_le_bytes(self.take(8).try_into().unwrap())
    }

    fn list(&mut self) -> Vec<u16> {
        let mut out = Vec::new();
        loop {
            match self.word() {
                0xffff => return out,
                n => out.push(n),
            }
        }
    }
}

/// The bytes of memory of an access, lane by lane, in the numbering of the driver.
fn touched(access: &Access, state: &[u8], window: u64) -> Vec<u16> {
    let register = |r: RegRange| {
        let mut bytes = [0; 8];
        let from = &state[usize::from(r.at)..usize::from(r.end())];
        let from = &from[..from.len().min(8)];
        bytes[..from.len()].copy_from_slice(from);
        u64::from_le_bytes(bytes)
    };
    let start = access.address.resolve(register);
    let number = |address: u64| {
        let at = address.wrapping_sub(window);
        if at < WINDOW {
            MEMORY + at as u16
        } else {
            u16::MAX - 1
        }
    };
    let run = |start: u64, len: u64| (0..len).map(move |n| number(start.wrapping_add(n)));
    match access.size {
        Size::Fixed(len) => run(start, u64::from(len)).collect(),
        Size::Masked { element, lanes, .. } => {
            run(start, u64::from(element) * u64::from(lanes)).collect()
        }
        Size::Repeat { element, count } => {
            let element = u64::from(element);
            let back = register(image::effects::DF) != 0;
            (0..register(count))
                .flat_map(|n| {
                    let at = n * element;
                    run(
                        if back {
                            start.wrapping_sub(at)
                        } else {
                            start + at
                        },
                        element,
                    )
                })
                .collect()
        }
        Size::Lanes {
            element,
            lanes,
            index,
            index_size,
            scale,
            ..
        } => (0..u16::from(lanes))
            .flat_map(|n| {
                let size = u16::from(index_size);
                let at = register(index.part(n * size, size)).wrapping_mul(u64::from(scale));
                run(start.wrapping_add(at), u64::from(element))
            })
            .collect(),
        Size::Packed { .. } | Size::State(_) => Vec::new(),
    }
}

struct Case<'a> {
    effects: &'a Effects,
    memory: Vec<Vec<u16>>,
}

impl Case<'_> {
    fn bytes(&self, place: Place) -> Vec<u16> {
        match place {
            Place::Register(r) => (r.at..r.end()).collect(),
            Place::Memory { access, at, len } => {
                self.memory[usize::from(access)][usize::from(at)..usize::from(at + len)].to_vec()
            }
            Place::Whole(access) => self.memory[usize::from(access)].clone(),
        }
    }

    /// For each byte that is written, the bytes it may depend on.
    fn dependences(&self) -> BTreeMap<u16, BTreeSet<u16>> {
        let mut out: BTreeMap<u16, BTreeSet<u16>> = BTreeMap::new();
        for transfer in &self.effects.transfers {
            // A repeated move reads what it has just written.
            if let (Place::Whole(_), [source]) = (transfer.to, transfer.from.as_slice())
                && let Place::Whole(_) = source.place
            {
                let pairs = self
                    .bytes(transfer.to)
                    .into_iter()
                    .zip(self.bytes(source.place));
                for (to, from) in pairs {
                    let origin = out.get(&from).cloned();
                    let mut origin = origin.unwrap_or(BTreeSet::from([from]));
                    origin.insert(to);
                    out.insert(to, origin);
                }
                continue;
            }
            for (at, byte) in self.bytes(transfer.to).into_iter().enumerate() {
                let from = out.entry(byte).or_default();
                // Where a mask says no, memory stays.
                if let Place::Memory { access, .. } | Place::Whole(access) = transfer.to
                    && self.effects.accesses[usize::from(access)].conditional()
                {
                    from.insert(byte);
                }
                for source in self.sources(transfer, at) {
                    from.extend(source);
                }
            }
        }
        out
    }

    fn sources(&self, transfer: &Transfer, at: usize) -> Vec<Vec<u16>> {
        let lane = at.checked_div(usize::from(transfer.lane)).unwrap_or(0);
        let computed = transfer.from.iter().map(|source| {
            let bytes = self.bytes(source.place);
            let size = usize::from(source.lane);
            match bytes.len().checked_div(size) {
                Some(lanes) if lanes > 0 => {
                    let from = lane % lanes * size;
                    bytes[from..from + size].to_vec()
                }
                _ => bytes,
            }
        });
        computed.collect()
    }
}

#[test]
fn the_processor_agrees() {
    let directory = harness::directory("effects");
    let lines = assemblable(&directory);
    assert!(lines.len() > 2000, "the assembler takes {}", lines.len());
    build(&lines, &directory);
    let amount = |name, default: &str| std::env::var(name).unwrap_or(default.to_owned());
    let output = Command::new("./driver")
        .args([amount("EFFECTS_STATES", "1"), amount("EFFECTS_SEED", "1")])
        .current_dir(&directory)
        .output()
        .unwrap();
    assert!(output.status.success(), "the driver: {}", output.status);
    let mut reader = Reader(&output.stdout);
    let mut complaints: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let (mut listed, mut seen) = (0u64, 0u64);
    let mut tried = BTreeSet::new();
    while !reader.0.is_empty() {
        let n = usize::from(reader.word());
        let (at, window) = (reader.long(), reader.long());
        let length = usize::from(reader.word());
        let code = reader.take(length);
        let state = reader.take(usize::from(MEMORY));
        let instruction = Decoder::with_ip(64, &code, at, DecoderOptions::NONE).decode();
        assert_eq!(instruction.len(), length, "{}", lines[n].0);
        tried.insert(n);
        let effects = Effects::of(&instruction);
        let case = Case {
            memory: effects
                .accesses
                .iter()
                .map(|a| touched(a, &state, window))
                .collect(),
            effects: &effects,
        };
        let dependences = case.dependences();
        listed += dependences.values().map(|d| d.len() as u64).sum::<u64>();
        let mut complain = |text: String| {
            complaints
                .entry(lines[n].0.clone())
                .or_default()
                .insert(text);
        };
        let name = |byte: u16| match byte {
            b if b < MEMORY => RegRange { at: b, len: 1 }.name(),
            b => format!("memory+{}", b - MEMORY),
        };
        for byte in reader.list() {
            if !dependences.contains_key(&byte) {
                complain(format!("{} is written", name(byte)));
            }
        }
        // Registers that are only addresses move the memory that is touched; what then happens
        // is no dependence of data.
        let addresses: BTreeSet<u16> = effects
            .accesses
            .iter()
            .flat_map(Access::registers)
            .flat_map(|r| r.at..r.end())
            .collect();
        loop {
            let input = reader.word();
            if input == 0xffff {
                break;
            }
            for byte in reader.list() {
                if addresses.contains(&input) {
                    continue;
                }
                match dependences.get(&byte) {
                    None if byte == input => {}
                    None => complain(format!("{} is written", name(byte))),
                    Some(from) if from.contains(&input) => seen += 1,
                    Some(_) => complain(format!("{} from {}", name(byte), name(input))),
                }
            }
        }
    }
    let total: usize = complaints.values().map(BTreeSet::len).sum();
    let mut text = String::new();
    for (line, what) in complaints.iter().take(60) {
        let what: Vec<&str> = what.iter().take(6).map(String::as_str).collect();
        writeln!(text, "{line}: {}", what.join("; ")).unwrap();
    }
    println!(
        "{} instructions of {}; {listed} dependences listed, {seen} seen",
        tried.len(),
        lines.len()
    );
    assert!(total == 0, "{} instructions:\n{text}", complaints.len());
}

/// Whatever decodes has effects, within the register file, and covers what the decoder's own
/// tables say is written.
#[test]
fn anything_has_effects() {
    let mut seed = 1u64;
    let mut chance = || {
        seed = seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (seed >> 33) as u8
    };
    let mut factory = InstructionInfoFactory::new();
    let (mut tried, mut missing) = (0u32, BTreeSet::new());
    for round in 0..400_000u32 {
        let mut bytes: [u8; 15] = std::array::from_fn(|_| chance());
        // Vector encodings are rare among random bytes.
        match round % 6 {
            0 => bytes[0] = 0x62,
            1 => bytes[0] = 0xc4,
            2 => bytes[0] = 0xc5,
            3 => bytes[0] = 0x0f,
            4 => (bytes[0], bytes[1]) = (0x62, bytes[1] & 0xf3 | 0x01),
            _ => {}
        }
        let instruction = Decoder::with_ip(64, &bytes, 0x1000, DecoderOptions::NONE).decode();
        let effects = Effects::of(&instruction);
        if instruction.is_invalid() {
            continue;
        }
        tried += 1;
        let inside = |place: &Place| match *place {
            Place::Register(r) => r.len > 0 && r.end() <= SIZE,
            Place::Memory { access, at, len } => {
                let size = effects.accesses[usize::from(access)].size;
                let most = match size {
                    Size::Fixed(most) => most,
                    Size::Masked { element, lanes, .. } => u16::from(element) * u16::from(lanes),
                    _ => 0,
                };
                at + len <= most
            }
            Place::Whole(access) => usize::from(access) < effects.accesses.len(),
        };
        for transfer in &effects.transfers {
            assert!(inside(&transfer.to), "{instruction}: {transfer:?}");
            for source in &transfer.from {
                assert!(inside(&source.place), "{instruction}: {transfer:?}");
            }
            for at in 0..transfer.to.len().unwrap_or(1) {
                for source in transfer.sources(at) {
                    assert!(inside(&source), "{instruction}: {transfer:?}");
                }
            }
        }
        // A register moved to itself.
        let itself = instruction.mnemonic() == Mnemonic::Fst
            || instruction.op_count() == 2
                && instruction.op0_register() == instruction.op1_register();
        if effects.unknown || instruction.is_privileged() || itself {
            continue;
        }
        for used in factory.info(&instruction).used_registers() {
            let writes = matches!(
                used.access(),
                OpAccess::Write
                    | OpAccess::ReadWrite
                    | OpAccess::CondWrite
                    | OpAccess::ReadCondWrite
            );
            let Some(range) = RegRange::of(used.register()).filter(|_| writes) else {
                continue;
            };
            // Bytes that come out as they went in are not listed, so some of it is enough.
            if !effects.registers_written().any(|w| w.overlaps(range)) {
                missing.insert(format!("{:?}: {:?}", instruction.mnemonic(), range));
            }
        }
    }
    assert!(tried > 100_000, "{tried}");
    println!("{tried} instructions");
    assert!(missing.is_empty(), "not written: {missing:#?}");
}
