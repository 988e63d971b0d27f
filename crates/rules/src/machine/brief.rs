//! Calls for which machine code is hardly interrupted.
//!
//! The functions that programs call most copy, fill and compare memory. All there is to such a call is, nearly always,
//! that what it touches is inside of the blocks that its pointers came from, that numbers refute the rules about it, and
//! at its return what it did to memory. So code asks, is told that it may go on, and nothing else is looked at. Where
//! there is more to it, nothing is done here, and the call takes the way that all others do (`calls.rs`).

use super::given::MOST_LOOKED_AT;
use super::models::Decides;
use super::variables::Frames;
use super::*;

/// The registers of the first arguments.
pub(super) const ARGUMENTS: [usize; 6] = [7, 6, 2, 1, 8, 9];

impl Frames<'_> {
    /// A function is entered, as the registers tell. True if that is all.
    #[inline]
    pub(super) fn enter_briefly(
        &mut self,
        registers: &mut Registers,
        memory: &Shadow,
        step: u64,
    ) -> bool {
        let mut function = registers.function as u16;
        let slot = registers.call_slot;
        let asked = registers.named != jit::UNNAMED && registers.named_at == slot;
        if asked {
            let kin = |n: u16| self.names[n as usize].kin;
            let name = registers.named as u16;
            if kin(name) == kin(function) {
                function = name;
            }
        }
        let named = &self.names[function as usize];
        let Some(model) = &named.brief else {
            return false;
        };
        let [a, b, c, d, e, f, first, second] = registers.arguments;
        let arguments = [a, b, c, d, e, f];
        let blocks = ARGUMENTS.map(|unit| registers.units[unit].from());
        let entered = Active {
            function,
            slot,
            arguments,
            measured: [first, second],
            blocks,
            step,
            pc: registers.call_pc,
        };
        let plain = model.touches.iter().all(|t| {
            let len = t.at_call(entered.given());
            len.is_none_or(|len| {
                self.is_inside(&entered, t, len) && is_written(&entered, t, len, memory)
            })
        });
        if !plain
            || named.is_undecided(registers)
            || !named.at_call.iter().all(|(_, r)| r.by(&arguments))
        {
            return false;
        }
        if asked {
            registers.named = jit::UNNAMED;
        }
        *self.closed += 1;
        self.active.push(entered);
        registers.slot = self.slot();
        true
    }

    /// A function returns, as the registers tell: whether one goes on that is not looked into.
    #[inline]
    pub(super) fn leave_briefly(
        &mut self,
        registers: &mut Registers,
        memory: &mut Shadow,
        step: u64,
    ) -> Option<bool> {
        let (slot, result) = (registers.call_slot, registers.arguments[0]);
        let mut over = false;
        if let Some((a, before)) = self.active.split_last()
            && a.slot <= slot
        {
            let named = &self.names[a.function as usize];
            let model = named.brief.as_ref()?;
            let is_plain = |t: &Touch| {
                let len = t.at_return(result, a.given());
                len.is_none_or(|len| self.is_inside(a, t, len) && is_written(a, t, len, memory))
            };
            let plain = !named.found_late || model.touches.iter().all(is_plain);
            let alone = before.last().is_none_or(|b| b.slot > slot);
            if a.slot != slot || !alone || !plain {
                return None;
            }
            over = true;
        }
        if self.frames.ends_by(slot) {
            self.end_locals(slot, step);
        }
        match over.then(|| self.active.pop()).flatten() {
            Some(a) => {
                *self.closed -= 1;
                if *self.closed == 0
                    && let Some(model) = &self.names[a.function as usize].brief
                {
                    let from = effect(model, &a, result, memory);
                    set_result(registers, from);
                }
            }
            None => registers.inner = result,
        }
        registers.slot = self.slot();
        Some(*self.closed > 0)
    }

    /// What a function was asked to touch is no matter for rules.
    fn is_inside(&self, a: &Active, t: &Touch, len: u64) -> bool {
        let n = usize::from(t.pointer);
        let from = a.blocks[n];
        len == 0 || from <= DIFFERENCE || self.heap.allows(from, a.arguments[n], len)
    }
}

impl Named {
    /// What it is to do is said by something that was never written.
    #[inline]
    fn is_undecided(&self, registers: &Registers) -> bool {
        let mut left = self.parameters;
        while left != 0 {
            let unit = ARGUMENTS[left.trailing_zeros() as usize];
            if registers.units[unit].unwritten() != 0 {
                return true;
            }
            left &= left - 1;
        }
        false
    }
}

/// All that a function decides by was written.
#[inline]
fn is_written(a: &Active, t: &Touch, len: u64, memory: &Shadow) -> bool {
    let decides = t.decides != Decides::Never;
    !decides || memory.is_written(a.arguments[usize::from(t.pointer)], len.min(MOST_LOOKED_AT))
}

/// What a function has done to memory, and the block that its result points to.
#[inline]
pub(super) fn effect(m: &Model, a: &Active, result: u64, memory: &mut Shadow) -> BlockId {
    const MOST: u64 = 1 << 40;
    let [to, from, len, ..] = a.arguments;
    match m.effect {
        Effect::Copies => memory.copy(to, from, len.min(MOST)),
        Effect::Fills => memory.fill(to, len.min(MOST), false),
        Effect::Nothing | Effect::CopiesText => {}
    }
    match m.result {
        Some(n) if result != 0 => a.blocks[n as usize],
        _ => NONE,
    }
}

/// A function has returned a pointer into a block: nothing is known of what it may change and its caller must not rely
/// on.
pub(super) fn set_result(registers: &mut Registers, from: BlockId) {
    let mut clean = 0;
    for unit in [0, 1, 2, 6, 7, 8, 9, 10, 11, plan::FLAGS] {
        registers.units[unit as usize] = Cell::PLAIN;
        clean |= fast::group(unit);
    }
    let mut groups = registers.telling & fast::VECTORS;
    registers.telling &= !fast::VECTORS;
    // Each of them is cleared as a whole.
    registers.tainted &= !(clean | groups);
    while groups != 0 {
        let (first, end) = fast::group_range(groups.trailing_zeros());
        registers.units[first..end].fill(Cell::PLAIN);
        groups &= groups - 1;
    }
    registers.units[0].set_from(from);
}
