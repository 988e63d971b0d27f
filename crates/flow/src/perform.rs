//! Doing one thing after the other, as it was written down.

use crate::codes::InsnId;
use crate::quick::{MANY_WAYS, Op, Operand, Run};
use crate::slice::{NOBODY, Shown};
use crate::terms::{Edge, Edges, Kind, Node, OUTSIDE};
use crate::wanted::{Each, Entry, Took, Wants, WhoId, Why};

/// The number for what depends on nothing: who is outside.
const NO_EDGE: u32 = u32::MAX;

impl<E: Edges> Run<'_, '_, E> {
    /// Those that an operand stands for.
    #[inline]
    fn value(&mut self, operand: Operand, who: WhoId) -> (Wants, u64) {
        match operand {
            Operand::Register { cell, n } => {
                let e = &self.slicer.registers().cells[cell as usize][n as usize];
                (e.wants, e.base)
            }
            Operand::Kept(n) => {
                let e = &self.quick.kept[n as usize].entry;
                (e.wants, e.base)
            }
            Operand::Own(_) | Operand::Hidden(_) | Operand::Taken => {
                (Wants::one(who, self.shown(operand).step), 0)
            }
        }
    }

    /// The instruction that an operand stands for.
    #[inline]
    pub(crate) fn shown(&self, operand: Operand) -> Node {
        match operand {
            Operand::Own(i) => Node {
                step: self.scene.item.step + u64::from(i),
                pc: self.scene.plan.steps[i as usize].pc,
            },
            Operand::Hidden(k) => self.hidden[k as usize].node,
            _ => OUTSIDE,
        }
    }

    pub(crate) fn id(&self, operand: Operand) -> InsnId {
        match operand {
            Operand::Own(i) => self.scene.plan.steps[i as usize].id,
            Operand::Hidden(k) => self.hidden[k as usize].id,
            _ => NOBODY,
        }
    }

    /// Does one thing.
    #[inline]
    pub(crate) fn perform(&mut self, op: Op) {
        match op {
            Op::Edge {
                number,
                who,
                from,
                to,
                base,
                len,
            } => {
                let (wants, at) = self.value(from, who);
                let to = self.shown(to);
                let addr = at.wrapping_add(base);
                self.edge(number, wants, to, Kind::Memory { addr, len });
            }
            Op::Found { to, hint } => {
                let taken = std::mem::take(&mut self.slicer.taken);
                for (n, took) in taken.iter().enumerate() {
                    let wants = took.wants();
                    let number = self.number(hint, n, wants.who, to);
                    let kind = took.kind(Why::Memory);
                    self.edge(number, wants, self.shown(to), kind);
                }
                self.slicer.taken = taken;
            }
            Op::Answer { to, hint } => {
                let answered = std::mem::take(&mut self.slicer.answered);
                for (n, wants) in answered.iter().enumerate() {
                    let number = self.number(hint, n, wants.who, to);
                    self.edge(number, *wants, self.shown(to), Kind::Control);
                }
                self.slicer.answered = answered;
            }
            Op::Join { to, from, who } => {
                let (wants, _) = self.value(from, who);
                match to {
                    Operand::Register { cell, n } => {
                        let cell = &mut self.slicer.registers().cells[cell as usize];
                        cell[n as usize].wants.join(wants);
                    }
                    Operand::Kept(n) => self.quick.kept[n as usize].entry.wants.join(wants),
                    _ => unreachable!("only what is kept somewhere can be added to"),
                }
            }
            Op::Keep { from, who, base } => {
                let (wants, at) = self.value(from, who);
                let base = at.wrapping_add(base);
                let bytes = 0;
                let entry = Entry { wants, base, bytes };
                let (at, len) = (0, 0);
                self.quick.kept.push(Took { at, len, entry });
            }
            Op::Put {
                cell,
                bytes,
                who,
                from,
                base,
            } => {
                let (wants, at) = self.value(from, who);
                let base = at.wrapping_add(base);
                let registers = self.slicer.registers();
                let entry = Entry { wants, base, bytes };
                registers.put(u64::from(cell), entry, &mut Each(false));
                registers.summarise(cell as usize);
            }
            Op::Want {
                spot,
                offset,
                len,
                who,
                by,
            } => {
                let addr = self.address(spot, offset);
                let wants = Wants::one(who, self.shown(by).step);
                self.slicer.memory.add(addr, len, wants, Each(false));
            }
            Op::Pass {
                spot,
                offset,
                who,
                from,
                base,
                bytes,
                len,
            } => {
                let (wants, at) = self.value(from, who);
                let addr = self.address(spot, offset);
                let base = at.wrapping_add(base);
                let took = Took {
                    at: 0,
                    len: u64::from(len),
                    entry: Entry { wants, base, bytes },
                };
                self.slicer.memory.pass(addr, &took, Each(false));
            }
            Op::Ask {
                frame,
                set,
                first,
                n,
                distinct,
            } => {
                let frame = self.scene.frame(frame);
                let step = self.scene.item.step;
                let hidden = &self.hidden;
                let list = &self.quick.askers[first as usize..(first + n) as usize];
                let askers = list.iter().map(|&(who, by)| match by {
                    Operand::Own(i) => Wants::one(who, step + u64::from(i)),
                    Operand::Hidden(k) => Wants::one(who, hidden[k as usize].node.step),
                    _ => unreachable!("only instructions ask"),
                });
                self.slicer.asked.ask_all(frame, set, askers, distinct);
            }
            Op::Count(what) => {
                let shown = Shown {
                    node: self.shown(what),
                    id: self.id(what),
                };
                let squashed = matches!(what, Operand::Hidden(_)) || self.slicer.is_squashed(shown);
                self.slicer.count(shown, squashed);
            }
        }
    }

    /// The number of the dependence of somebody on an instruction.
    #[inline]
    fn number(&mut self, hint: u32, n: usize, who: WhoId, to: Operand) -> u32 {
        let known = &mut self.quick.hints[hint as usize];
        // Mostly they come in the same order.
        let same = known.get(n).filter(|k| k.0 == who);
        if let Some(k) = same.or_else(|| known.iter().find(|k| k.0 == who)) {
            return k.1;
        }
        self.find_number(hint, who, to)
    }

    #[cold]
    fn find_number(&mut self, hint: u32, who: WhoId, to: Operand) -> u32 {
        if self.slicer.everybody.get(who).pc == OUTSIDE.pc {
            return NO_EDGE;
        }
        let id = self.id(to);
        let known = &mut self.quick.hints[hint as usize];
        let merged = self.slicer.edges.merged().expect("dependences by number");
        let number = merged.number(u64::from(who) << 32 | u64::from(id));
        if known.len() < MANY_WAYS {
            known.push((who, number));
        }
        number
    }

    /// `memory` is why, unless another reason is known.
    #[inline]
    fn edge(&mut self, number: u32, wants: Wants, to: Node, memory: Kind) {
        let mut times = u64::from(wants.times);
        if number == NO_EDGE {
            return;
        }
        let everybody = &self.slicer.everybody;
        if wants.earliest == to.step && everybody.get(wants.who).pc == to.pc {
            // Inside one call of a library.
            times -= 1;
        }
        if times == 0 {
            return;
        }
        let merged = self.slicer.edges.merged().expect("dependences by number");
        let step = wants.latest;
        merged.add_one(number, (step, to.step), times, || {
            let who = everybody.get(wants.who);
            let kind = match who.why {
                Why::Register(r) => Kind::Register(r),
                Why::Control => Kind::Control,
                Why::Memory => memory,
            };
            let from = Node { step, pc: who.pc };
            Edge { from, to, kind }
        });
    }

    /// What is wanted of registers from now on.
    pub(crate) fn finish(&mut self, from: u32, to: u32) {
        // All are read before one is changed.
        let mut entries = std::mem::take(&mut self.quick.entries);
        entries.clear();
        for end in from..to {
            let (first, last) = self.quick.ends[end as usize].range;
            for n in first..last {
                let f = self.quick.finals[n as usize];
                let (mut wants, base) = self.value(f.from, f.who);
                wants.who = f.who;
                entries.push(Entry {
                    wants,
                    base: base.wrapping_add(f.base),
                    bytes: f.bytes,
                });
            }
        }
        let mut at = 0;
        let registers = self.slicer.registers();
        for end in &self.quick.ends[from as usize..to as usize] {
            let n = (end.range.1 - end.range.0) as usize;
            let cell = &mut registers.cells[end.cell as usize];
            cell.clear();
            cell.extend_from_slice(&entries[at..at + n]);
            registers.codes[end.cell as usize] = end.code;
            registers.summarise(end.cell as usize);
            at += n;
        }
        self.quick.entries = entries;
    }
}
