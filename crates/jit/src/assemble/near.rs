//! Accesses to cells that are found together.
//!
//! With the place of an anchor's first cell at hand, an access is an instruction or two, and several of them are one: cells
//! that lie in a row are looked at, cleared and made unwritten four or two at a time.

use super::{Maker, first_cell};
use crate::anchors::Near;
use crate::emit::*;
use crate::ways::{Kind, Op};

/// Operations that are looked at for others to be done with the one at hand.
const MOST_BESIDE: usize = 16;

impl Maker<'_> {
    /// The cells of an anchor. Elsewhere if they are not in cells.
    pub(super) fn anchor(&mut self, n: usize, plain: Label) {
        let anchor = self.anchors[n];
        self.sum(anchor.base, anchor.index, anchor.scale, anchor.first);
        self.a.test(cl, 7);
        self.a.jne(plain);
        // Behind the last cell there is room for all that are found together.
        let cell = self.cell();
        self.a.lea(rax, cell);
        self.made(first_cell(n))
    }

    /// An access to a cell of an anchor.
    pub(super) fn near(&mut self, op: &Op, near: Near) {
        let first = self.source_of_cells(near.anchor);
        let cell = first + near.cell as usize;
        let bytes = ((1u32 << op.len.min(8)) - 1) << near.byte;
        match op.kind {
            Kind::Load | Kind::CheckedLoad => {
                let fail = self.fail(op.insn);
                self.a.mov(rax, qword(cell));
                self.a.test(al, al);
                self.a.jne(fail);
                self.made(op.value)
            }
            Kind::Test | Kind::CheckedTest => {
                let fail = self.fail(op.insn);
                if bytes != 0xff {
                    self.a.test(byte(cell), bytes);
                    return self.a.jne(fail);
                }
                for (at, cells) in self.tests_beside(near) {
                    let cell = first + at as usize;
                    match cells {
                        4 => self.a.test_ymm0(cell),
                        2 => self.a.test_low_ymm0(cell),
                        _ => self.a.test(byte(cell), bytes),
                    }
                    self.a.jne(fail);
                }
            }
            Kind::Store | Kind::CheckedStore if op.len == 8 => {
                if op.value == self.way.zero {
                    for (at, cells) in self.stores_beside(near) {
                        let cell = first + at as usize;
                        match cells {
                            4 => self.a.store_ymm1(cell),
                            2 => self.a.store_low_ymm1(cell),
                            _ => self.a.mov(qword(cell), 0),
                        }
                    }
                    return;
                }
                let from = self.source(rax, op.value);
                self.a.mov(qword(cell), from)
            }
            Kind::Forget => self.unwrite(cell, op.len / 8),
            // Fewer bytes, of which nothing is known.
            _ => self.a.and(qword(cell), !bytes as i32 & 0xff),
        }
    }

    /// Cells that are tested from the operation at hand on, as long as nothing is written, to be looked at together: what
    /// fails a test that comes later may be left to others from here on.
    fn tests_beside(&mut self, near: Near) -> Vec<(u32, u32)> {
        self.beside(near, |op| match op.kind {
            Kind::Test => Some(op.len == 8),
            Kind::Store | Kind::CheckedStore | Kind::StorePart | Kind::CheckedStorePart => None,
            Kind::Forget | Kind::Return => None,
            _ => Some(false),
        })
    }

    /// Cells of which nothing is known any more by the operations from the one at hand on.
    fn stores_beside(&mut self, near: Near) -> Vec<(u32, u32)> {
        let zero = self.way.zero;
        self.beside(near, |op| {
            (op.kind == Kind::Store && op.len == 8 && op.value == zero).then_some(true)
        })
    }

    /// Whole cells of the operation at hand and of the next ones of which `like` is true, up to one of which it says
    /// nothing: from where on, and how many in a row. All of these are done with the one at hand.
    fn beside(&mut self, near: Near, like: impl Fn(&Op) -> Option<bool>) -> Vec<(u32, u32)> {
        let mut cells = vec![near.cell];
        let next = self.way.ops.iter().zip(&self.nears).enumerate();
        for (n, (op, other)) in next.skip(self.upcoming).take(MOST_BESIDE) {
            let Some(like) = like(op) else { break };
            if let Some(other) =
                other.filter(|o| like && self.exits.wide && o.anchor == near.anchor)
                && other.byte == 0
                && !self.done.contains(&n)
            {
                cells.push(other.cell);
                self.done.push(n);
            }
        }
        cells.sort_unstable();
        cells.dedup();
        let mut rows = Vec::new();
        let mut left = &cells[..];
        while let Some(first) = left.first() {
            let row = |n: usize| left.len() >= n && left[n - 1] - first == 8 * (n as u32 - 1);
            let n = [4, 2].into_iter().find(|n| row(*n)).unwrap_or(1);
            rows.push((*first, n as u32));
            left = &left[n..];
        }
        rows
    }

    /// Cells in a row become unwritten, four or two at a time.
    pub(super) fn unwrite(&mut self, first: Address, cells: u32) {
        let (a, wide) = (&mut self.a, self.exits.wide);
        let mut done = 0;
        while done < cells {
            let at = first + 8 * done;
            done += match cells - done {
                4.. if wide => {
                    a.store_ymm0(at);
                    4
                }
                2.. => {
                    match wide {
                        true => a.store_low_ymm0(at),
                        false => a.store_xmm0(at),
                    }
                    2
                }
                _ => {
                    a.mov(qword(at), 0xff);
                    1
                }
            };
        }
    }
}
