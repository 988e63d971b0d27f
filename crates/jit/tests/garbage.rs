//! No way and no tape makes code leave what it may touch: ways made at random, gone with values at random, up to
//! the last byte of the tape. Code that strays ends this test with a signal.

use jit::*;

/// As many as there can be.
const VARIABLES: usize = 1 << 16;

/// Blocks and variables, of which more come as they are asked for.
struct Kept {
    bounds: BoundsTable,
    variables: Vec<Variable>,
    asked: u32,
    entered: u32,
    left: u32,
}

impl Keeper for Kept {
    fn bounds(&self) -> &BoundsTable {
        &self.bounds
    }

    fn variables(&self) -> &[Variable] {
        &self.variables
    }

    fn variable(&mut self, address: u64, number: u32, _: u64) -> (Cell, u64) {
        self.asked += 1;
        // They move.
        self.variables = self.variables.clone();
        if self.asked.is_multiple_of(8) {
            self.bounds.push(Bounds::ANYWHERE);
        }
        let cell = Cell::new(BlockId(self.asked % 9), 0);
        self.variables[number as usize] = Variable { address, cell };
        (cell, address)
    }

    fn enters(&mut self, registers: &mut Registers, _: &Shadow, _: u64) -> bool {
        self.entered += 1;
        self.bounds.push(Bounds::ANYWHERE);
        registers.slot = registers.call_slot;
        !self.entered.is_multiple_of(3)
    }

    fn leaves(&mut self, registers: &mut Registers, memory: &mut Shadow, _: u64) -> Option<bool> {
        self.left += 1;
        memory.fill(registers.call_slot, 8, false);
        registers.slot = registers.arguments[0];
        match self.left % 3 {
            0 => None,
            n => Some(n == 1),
        }
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    fn word(&mut self) -> u64 {
        let any = self.next(1 << 32) << 32 | self.next(1 << 32);
        match self.next(4) {
            0 => any & 0xf000_0000_003f_ffff,
            1 => any | 0xffff_ffff_ff00_0000,
            2 => 0x7fff_0000_0000 + (any & 0xff_fff8),
            _ => 0x1_0000 + (any & 0xfff),
        }
    }

    fn offset(&mut self) -> i64 {
        match self.next(3) {
            0 => self.word() as i64,
            _ => self.next(300) as i64 - 150,
        }
    }

    fn quick(&mut self, row: u64) -> Option<Quick> {
        let at = self.next(row) as u8;
        let offset = self.offset();
        (self.next(3) > 0).then_some(Quick { at, offset })
    }

    fn op(&mut self, row: u64, parts: u64) -> Op {
        let kinds = [
            Kind::Check,
            Kind::Load,
            Kind::CheckedLoad,
            Kind::Test,
            Kind::CheckedTest,
            Kind::Store,
            Kind::CheckedStore,
            Kind::StorePart,
            Kind::CheckedStorePart,
            Kind::Pointer,
            Kind::Arith(Arith::Add),
            Kind::Arith(Arith::Sub),
            Kind::Arith(Arith::Scale),
            Kind::Arith(Arith::Negate),
            Kind::Select,
            Kind::Constant,
            Kind::Forget,
            Kind::Variable,
            Kind::Name,
            Kind::Return,
        ];
        let kind = kinds[self.next(kinds.len() as u64) as usize];
        Op {
            kind,
            insn: (self.next(64) | self.next(parts) << 8) as u16,
            base: self.next(row) as u8,
            index: [0, 0, self.next(row) as u8][self.next(3) as usize],
            scale: 1 << self.next(4),
            len: match kind {
                Kind::Load | Kind::CheckedLoad => 8,
                Kind::Forget => self.next(5000) as u32,
                _ => 1 + self.next(8) as u32,
            },
            value: self.next(ROOM as u64) as u16,
            pointer: self.next(ROOM as u64) as u16,
            other: self.next(ROOM as u64) as u16,
            offset: self.offset(),
            checked_at: self.next(1 << 32) as u32 as i32,
            checked: match kind {
                // Some numbers are too large.
                Kind::Variable => self.next(VARIABLES as u64 + 100) as u32,
                _ => 1 + self.next(1 << 30) as u32,
            },
            cell: Cell::new(BlockId(self.next(1 << 32) as u32), self.next(256) as u8),
        }
    }

    /// A way, or one through more records of shapes below a number.
    fn way(&mut self, more: u64, shapes: u64) -> Way {
        // Now and then it asks for what is not in its record.
        let values = [0, 1, 8, 240][self.next(4) as usize];
        let lengths: Vec<u64> = (0..more)
            .map(|_| [0, 1, 8][self.next(3) as usize])
            .collect();
        let all = values + lengths.iter().sum::<u64>();
        let row = (4 + all + u64::from(self.next(30) == 0)).min(255);
        let handed = (more == 0 && self.next(8) == 0).then(|| self.next(70) as u8);
        Way {
            executed: self.next(64) as u8,
            values: values as u8,
            more: lengths
                .iter()
                .map(|n| Part {
                    shape: self.next(shapes) as u32,
                    executed: self.next(64) as u8,
                    values: *n as u8,
                    rsp: self.quick(row).unwrap_or(Quick { at: 1, offset: 8 }),
                    rbp: self.quick(row).unwrap_or(Quick { at: 2, offset: 0 }),
                })
                .collect(),
            usable: self.next(10) > 0,
            ops: (0..self.next(12)).map(|_| self.op(row, more + 1)).collect(),
            zero: 300,
            ends: (0..self.next(4))
                .map(|_| (self.next(300) as u16, self.next(ROOM as u64) as u16))
                .collect(),
            reads: 1 << self.next(64),
            cleans: self.word(),
            leaves: self.word(),
            returns: self.quick(row).zip(self.quick(row)),
            handed,
            call: handed
                .and(self.quick(row).zip(self.quick(row)))
                .map(|(slot, q)| Call {
                    function: self.next(1 << 16) as u32,
                    pc: self.word(),
                    slot,
                    arguments: [q; ARGUMENTS],
                }),
            rsp: self.quick(row),
            rbp: self.quick(row),
        }
    }
}

#[test]
fn no_way_and_no_tape_leads_astray() {
    let mut r = Random(5);
    let mut code = Code::new().expect("memory for code");
    let mut ways = Vec::new();
    for n in 0..2000 {
        let way = r.way(0, 1);
        code.add_shape();
        code.add(n, &way);
        ways.push(way);
    }
    // Few shapes, so that what they say of the next records is often so.
    for n in 0..3000 {
        let way = r.way(1 + n % 3, 8);
        code.add_trace(r.next(8) as u32, n as u32, &way);
    }
    let mut bounds = BoundsTable::new().expect("addresses");
    (0..5).for_each(|_| bounds.push(Bounds::ANYWHERE));
    let mut kept = Kept {
        bounds,
        variables: vec![Variable::ABSENT; VARIABLES],
        asked: 0,
        entered: 0,
        left: 0,
    };
    let mut memory = Shadow::new().expect("addresses");
    let mut registers = Box::new(Registers::default());
    let (mut gone, mut traces) = (0, 0);
    for _ in 0..2000 {
        let mut tape = Vec::new();
        for _ in 0..r.next(40) {
            let shape = match r.next(2) {
                0 => r.next(8) as u32,
                _ => r.next(ways.len() as u64 + 3) as u32,
            };
            tape.extend(shape.to_le_bytes());
            let values = ways.get(shape as usize).map_or(1, |w| w.values);
            for _ in 0..values {
                tape.extend(r.word().to_le_bytes());
            }
        }
        // Often the last record is not whole.
        tape.truncate(tape.len() - r.next(tape.len().min(40) as u64 + 1) as usize);
        let tape = tape.into_boxed_slice();
        registers.slot = r.word();
        registers.tainted = 0;
        let closed = r.next(4) == 0;
        let (mut at, end) = (0, tape.len());
        while at < end {
            for unit in registers.units.iter_mut().take(300) {
                let any = r.next(1 << 32) as u32;
                let block = if r.next(16) == 0 { any } else { any % 7 };
                *unit = Cell::new(BlockId(block), 0);
            }
            let stopped = code.run(
                &mut registers,
                &mut memory,
                &mut kept,
                closed,
                &tape,
                at,
                end,
            );
            assert!(stopped.at >= at);
            gone += stopped.steps;
            traces += u32::from(stopped.trace.is_some());
            let number = tape.get(stopped.at..stopped.at + 4);
            let shape = number.map(|b| u32::from_le_bytes(b.try_into().expect("four bytes")));
            let way = shape.and_then(|n| ways.get(n as usize));
            at = stopped.at + way.map_or(12, Way::record_len);
        }
    }
    assert!(gone > 10_000, "code was hardly run: {gone} instructions");
    assert!(traces > 100, "hardly a trace was left: {traces}");
    assert!(kept.asked > 100, "hardly a variable: {}", kept.asked);
    assert!(kept.entered > 100, "hardly a call: {}", kept.entered);
    assert!(kept.left > 100, "hardly a return: {}", kept.left);
}
