//! The quick way through a superblock beside the operations one by one, on real code with made-up values: this
//! test's own instructions, in states that no program is ever in.

use tape::{Code, Insn, Known, Part, Term, What};

use super::*;

const SEED: u64 = 11;
const AREA: u64 = 0x7000_0000;
const AREA_CELLS: u64 = 512;
/// Cells before it, in another chunk.
const BEFORE: u64 = 128;

struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    fn cell(&mut self, odd: u64) -> Cell {
        let from = match self.next(3) {
            0 => NONE,
            _ => BlockId(self.next(6) as u32),
        };
        let unwritten = if self.next(odd) == 0 {
            self.next(256)
        } else {
            0
        };
        Cell::new(from, unwritten as u8)
    }
}

fn machine() -> Machine {
    let rules = crate::SHIPPED.iter().filter(|f| f.usual);
    let rules = rules.flat_map(|f| crate::compile(f.text).0.rules).collect();
    let mut m = Machine::new(Arc::new(rules), Vec::new(), Arc::default(), None).expect("addresses");
    for n in 0..4 {
        m.heap.add(Block {
            begin: AREA + 64 * n,
            size: 56,
            born: n,
            made: n,
            by: 0,
            family: Family::Malloc,
            freed: None,
        });
    }
    m.heap.free(
        BlockId(5),
        Freed {
            step: 9,
            pointer: AREA + 192,
            by: 0,
        },
    );
    m
}

/// Instructions in a row, from somewhere in the text.
fn code(text: &[u8], r: &mut Random) -> Option<Code> {
    let first = r.next(text.len() as u64 - 400) as usize;
    let mut decoder = iced_x86::Decoder::with_ip(64, &text[first..first + 400], 0x40_0000, 0);
    let mut insns = Vec::new();
    let mut known = Vec::new();
    let most = 1 + r.next(24) as usize;
    while insns.len() < most {
        let i = decoder.decode();
        if i.is_invalid() {
            return None;
        }
        let at = first + (i.ip() - 0x40_0000) as usize;
        let mut bytes = [0; 15];
        bytes[..i.len()].copy_from_slice(&text[at..at + i.len()]);
        let n = insns.len() as u8;
        insns.push(Insn {
            pc: i.ip(),
            len: i.len() as u8,
            bytes,
        });
        for register in 0..16u8 {
            let slot = match register {
                4 => tape::slot::RSP,
                5 => tape::slot::RBP,
                n => n,
            };
            let term = Term { slot, offset: 0 };
            let what = What::Before(register);
            known.push(Known {
                insn: n,
                what,
                term,
            });
            known.push(Known {
                insn: n,
                what: What::After(register),
                term: Term { offset: 8, ..term },
            });
        }
        if format!("{:?}", i.mnemonic()).starts_with("Cmov") {
            let slot = 16 + n % 2;
            known.push(Known {
                insn: n,
                what: What::Condition,
                term: Term { slot, offset: 0 },
            });
        }
        if i.flow_control() == iced_x86::FlowControl::Return {
            break;
        }
    }
    Some(Code { insns, known })
}

#[test]
fn the_quick_way_leads_where_all_operations_lead() {
    let exe = std::env::current_exe().expect("a test has a file");
    let file = std::fs::read(exe).expect("and can read it");
    let mut r = Random(SEED);
    let (mut quick, mut suspects, mut before) = (0, 0, 0);
    let mut fast = machine();
    let mut slow = machine();
    fast.patience = 0;
    slow.code = None;
    for round in 0..30_000u32 {
        let Some(code) = code(&file, &mut r) else {
            continue;
        };
        let insns: Vec<[u8; 15]> = code.insns.iter().map(|i| i.bytes).collect();
        let executed = 1 + r.next(code.insns.len() as u64) as u8;
        let shape = Shape {
            code: Arc::new(code),
            executed,
            values: 18,
            rsp: Some(Term {
                slot: tape::slot::RSP,
                offset: 8 * r.next(16) as i64 - 64,
            }),
            rbp: [tape::slot::RSP, tape::slot::RBP, 3]
                .get(r.next(4) as usize)
                .map(|slot| Term {
                    slot: *slot,
                    offset: 16,
                }),
        };
        let number = fast.shapes.len() as u32;
        // Some of what the code points to on the stack are variables.
        for insn in &shape.code.insns {
            let i = iced_x86::Decoder::with_ip(64, insn.code(), insn.pc, 0).decode();
            let offset = i.memory_displacement64() as i64;
            for register in [plan::RSP, plan::RBP] {
                let found = match r.next(3) {
                    0 => None,
                    _ => Some(r.next(variables::TRIED as u64) as u16),
                };
                for m in [&mut fast, &mut slow] {
                    m.variables.try_out(insn.pc, register, offset, found);
                }
            }
        }
        // First records of this shape alone; then, as a trace, with some of another one.
        let mut shapes = vec![shape];
        for phase in 0..2 {
            let mut numbers = vec![number; 1 + r.next(3) as usize];
            if phase == 1 {
                numbers = (0..2 + r.next(4))
                    .map(|_| [number, before][r.next(2) as usize])
                    .collect();
                if fast.traces.made.len() < 1 << 20 {
                    fast.trace(&numbers);
                }
                if r.next(4) == 0 {
                    numbers.push(number);
                }
            }
            let mut records = Vec::new();
            for number in &numbers {
                records.extend(number.to_le_bytes());
                for _ in 0..18 {
                    let value = match r.next(4) {
                        // Not so small that an operand is on both ends of the address space, where no program has memory.
                        0 => 4096 + r.next(16),
                        1 => AREA + r.next(AREA_CELLS * 8),
                        _ => AREA + 8 * r.next(32),
                    };
                    records.extend(value.to_le_bytes());
                }
            }
            let (rsp, rbp) = (AREA + 8 * r.next(128), AREA + r.next(1024));
            // Mostly states in which the quick way can be gone at least for a while.
            let odd = [4, 60, 1_000_000][r.next(3) as usize];
            for unit in 0..plan::ZERO as usize {
                let mut cell = r.cell(odd);
                match unit as u16 {
                    plan::RSP => cell = Cell::PLAIN,
                    // Only those that arithmetic sets are followed.
                    plan::FLAGS => cell = Cell::new(NONE, cell.unwritten() & 0x3f),
                    _ => {}
                }
                (
                    fast.now.registers.units[unit],
                    slow.now.registers.units[unit],
                ) = (cell, cell);
            }
            for m in [&mut fast, &mut slow] {
                (m.now.registers.rsp, m.now.registers.rbp) = (rsp, rbp);
                m.now.active.clear();
                m.now.frames = variables::Living::default();
                m.now.registers.telling = !0;
                m.now.registers.tainted = (0..52).fold(0, |mask, bit| {
                    let units = &m.now.registers.units;
                    match fast::group_units(bit).any(|u| units[u].unwritten() != 0) {
                        true => mask | 1 << bit,
                        false => mask,
                    }
                });
            }
            for n in 0..BEFORE + AREA_CELLS {
                let cell = r.cell(odd);
                fast.memory.set_cell(AREA - 8 * BEFORE + 8 * n, cell);
                slow.memory.set_cell(AREA - 8 * BEFORE + 8 * n, cell);
            }
            let part = Part {
                step: u64::from(round),
                shapes: &shapes,
                records: &records,
                events: &[],
            };
            fast.hear(part);
            slow.hear(part);
            shapes.clear();
            if let Warm::Made(made) = &fast.fasts[number as usize]
                && phase == 0
            {
                quick += u32::from(made.way.usable);
            }
            for unit in 0..plan::ZERO as usize {
                let (a, b) = (
                    fast.now.registers.units[unit],
                    slow.now.registers.units[unit],
                );
                let insns = &insns;
                assert_eq!(a, b, "round {round}, unit {unit}, code {insns:02x?}");
                let tainted = fast.now.registers.tainted & fast::group(unit as u16) != 0;
                assert!(tainted || a.unwritten() == 0, "unit {unit} of {insns:02x?}");
            }
            for n in 0..BEFORE + AREA_CELLS {
                let at = AREA - 8 * BEFORE + 8 * n;
                let insns = &insns;
                assert_eq!(
                    fast.memory.cell(at),
                    slow.memory.cell(at),
                    "at {at:#x}, round {round}, code {insns:02x?}"
                );
            }
            let found = |m: &Machine| format!("{:?}", m.suspects);
            assert_eq!(found(&fast), found(&slow), "round {round}");
            let position = |m: &Machine| {
                let r = &m.now.registers;
                (m.step, r.rsp, r.rbp, r.last)
            };
            assert_eq!(position(&fast), position(&slow), "round {round}");
            let blocks = |m: &Machine| {
                (
                    m.heap.all_bounds().len(),
                    m.heap.all_bounds().last().copied(),
                )
            };
            assert_eq!(blocks(&fast), blocks(&slow), "round {round}");
            suspects = suspects.max(fast.suspects.len());
            for m in [&mut fast, &mut slow] {
                m.suspects.clear();
                m.seen.clear();
            }
        }
        before = number;
    }
    let traces = fast.traces.made.len();
    assert!(traces > 5000, "{traces} traces");
    let variables = fast.heap.all_bounds().len();
    assert!(
        quick > 5000 && suspects > 0 && variables > 300,
        "{quick} {suspects} {variables}"
    );
}
