//! Doing one thing after the other, as it was written down.

use crate::codes::InsnId;
use crate::quick::{MANY_WAYS, Op, Operand, Run, TOO_MANY};
use crate::rows::Form;
use crate::slice::{NOBODY, Shown};
use crate::terms::{Edge, Edges, Kind, Node, OUTSIDE};
use crate::wanted::{Each, Entry, Took, UNKNOWN, Wants, WhoId, Why};

/// The number for what depends on nothing: who is outside.
const NO_EDGE: u32 = u32::MAX;

fn pc_of(form: &Form<'_>, hidden: &[Shown], operand: Operand) -> u64 {
    match operand {
        Operand::Own(i) => form.steps[i as usize].step.pc,
        Operand::Hidden(k) => hidden[k as usize].node.pc,
        _ => OUTSIDE.pc,
    }
}

impl<E: Edges> Run<'_, '_, E> {
    /// Those that an operand stands for.
    #[inline(always)]
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
            Operand::Asker(n) => (self.quick.asking[n as usize], 0),
            Operand::Own(_) | Operand::Hidden(_) | Operand::Taken => {
                (Wants::one(who, self.step(operand)), 0)
            }
        }
    }

    /// The step of the instruction that an operand stands for.
    #[inline(always)]
    fn step(&self, operand: Operand) -> u64 {
        match operand {
            Operand::Own(i) => self.scene.item.step + u64::from(i),
            Operand::Hidden(k) => self.hidden[k as usize].node.step,
            _ => OUTSIDE.step,
        }
    }

    /// The instruction that an operand stands for.
    #[inline]
    pub(crate) fn shown(&self, operand: Operand) -> Node {
        match operand {
            Operand::Own(_) => Node {
                step: self.step(operand),
                pc: pc_of(self.form, &self.hidden, operand),
            },
            Operand::Hidden(k) => self.hidden[k as usize].node,
            _ => OUTSIDE,
        }
    }

    pub(crate) fn id(&self, operand: Operand) -> InsnId {
        match operand {
            Operand::Own(i) => self.form.steps[i as usize].step.id,
            Operand::Hidden(k) => self.hidden[k as usize].id,
            _ => NOBODY,
        }
    }

    /// Does one thing.
    #[inline(always)]
    pub(crate) fn perform(&mut self, number: usize) {
        match self.quick.ops[number] {
            Op::Edge {
                number,
                who,
                from,
                to,
                itself,
                piece,
            } => {
                let (wants, at) = self.value(from, who);
                let kind = |pieces: &[(u64, u64)]| {
                    let (base, len) = pieces[piece as usize];
                    let addr = at.wrapping_add(base);
                    Kind::Memory { addr, len }
                };
                self.edge(number, wants, to, itself, kind);
            }
            Op::Found { to, hint } => {
                let taken = std::mem::take(&mut self.slicer.taken);
                let to_step = self.step(to);
                for (n, took) in taken.iter().enumerate() {
                    let wants = took.wants();
                    let number = self.number(hint, n, wants.who, to);
                    let itself = wants.earliest == to_step
                        && self.slicer.everybody.get(wants.who).pc == self.shown(to).pc;
                    self.edge(number, wants, to, itself, |_| took.kind(Why::Memory));
                }
                self.slicer.taken = taken;
            }
            Op::Join { to, from, who } => {
                let (wants, _) = self.value(from, who);
                match to {
                    Operand::Register { cell, n } => {
                        let cell = &mut self.slicer.registers().cells[cell as usize];
                        cell[n as usize].wants.join(wants);
                    }
                    Operand::Kept(n) => self.quick.kept[n as usize].entry.wants.join(wants),
                    Operand::Asker(n) => self.quick.asking[n as usize].join(wants),
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
                before,
                after,
                n,
            } => {
                let (wants, base) = self.value(from, who);
                let entry = Entry { wants, base, bytes };
                let cell = cell as usize;
                let registers = self.slicer.registers();
                if registers.codes[cell] != before || before == UNKNOWN {
                    return self.put_new(cell, entry, number);
                }
                registers.codes[cell] = after;
                let list = &mut registers.cells[cell];
                match list.get_mut(n as usize) {
                    Some(old) => old.wants.join(entry.wants),
                    None => {
                        list.push(entry);
                        registers.summarise_wanted(cell);
                    }
                }
            }
            Op::Want {
                spot,
                who,
                by,
                mut trace,
            } => {
                let (addr, len) = (self.address(spot), u64::from(spot.len));
                let step = self.step(by);
                let memory = &mut self.slicer.memory;
                if !memory.want(addr, len, who, step, &mut trace)
                    && let Op::Want { trace: known, .. } = &mut self.quick.ops[number]
                {
                    *known = trace;
                }
            }
            Op::Pass {
                spot,
                who,
                from,
                bytes,
            } => {
                let (wants, base) = self.value(from, who);
                let addr = self.address(spot);
                let took = Took {
                    at: 0,
                    len: u64::from(spot.len),
                    entry: Entry { wants, base, bytes },
                };
                self.slicer.memory.pass(addr, &took, Each(false));
            }
            Op::Final {
                who,
                from,
                bytes,
                base,
            } => {
                let (mut wants, at) = self.value(from, who);
                wants.who = who;
                let base = at.wrapping_add(base);
                self.quick.entries.push(Entry { wants, base, bytes });
            }
            Op::End {
                cell,
                first,
                n,
                code,
            } => {
                let list = &self.quick.entries[first as usize..(first + n) as usize];
                let registers = &mut self.slicer.registers[self.slicer.now].1;
                let to = &mut registers.cells[cell as usize];
                to.clear();
                // Mostly it is one.
                for entry in list {
                    to.push(*entry);
                }
                registers.codes[cell as usize] = code;
                registers.summarise(cell as usize);
            }
            Op::Alone {
                cell,
                bytes,
                who,
                by,
                code,
            } => {
                let wants = Wants::one(who, self.step(by));
                let base = 0;
                let registers = self.slicer.registers();
                let to = &mut registers.cells[cell as usize];
                to.clear();
                to.push(Entry { wants, base, bytes });
                registers.codes[cell as usize] = code;
                registers.summarise_wanted(cell as usize);
            }
            Op::Ask {
                set,
                first,
                n,
                code,
            } => {
                let frame = self.scene.frame(0);
                let step = self.scene.item.step;
                let (hidden, kept) = (&self.hidden, &self.quick.kept);
                let list = &self.quick.askers[first as usize..(first + n) as usize];
                let askers = list.iter().map(|&(who, by)| match by {
                    Operand::Own(i) => Wants::one(who, step + u64::from(i)),
                    Operand::Hidden(k) => Wants::one(who, hidden[k as usize].node.step),
                    Operand::Kept(n) => kept[n as usize].entry.wants,
                    _ => unreachable!("those who asked before have their answers"),
                });
                self.slicer.asked.ask_all(frame, set, askers, code);
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
    fn edge(
        &mut self,
        number: u32,
        wants: Wants,
        to: Operand,
        itself: bool,
        memory: impl FnOnce(&[(u64, u64)]) -> Kind,
    ) {
        let mut times = u64::from(wants.times);
        if number == NO_EDGE {
            return;
        }
        let to_step = self.step(to);
        if itself && wants.earliest == to_step {
            // Inside one call of a library.
            times -= 1;
        }
        if times == 0 {
            return;
        }
        let step = wants.latest;
        let (form, hidden) = (self.form, &self.hidden);
        let (everybody, pieces) = (&self.slicer.everybody, &self.quick.pieces);
        let merged = self.slicer.edges.merged().expect("dependences by number");
        merged.add_one(number, (step, to_step), times, || {
            let to = Node {
                step: to_step,
                pc: pc_of(form, hidden, to),
            };
            let who = everybody.get(wants.who);
            let kind = match who.why {
                Why::Register(r) => Kind::Register(r),
                Why::Control => Kind::Control,
                Why::Memory => memory(pieces),
            };
            let from = Node { step, pc: who.pc };
            Edge { from, to, kind }
        });
    }

    /// Puts somebody into a cell of registers, and remembers how.
    fn put_new(&mut self, cell: usize, entry: Entry, number: usize) {
        let registers = self.slicer.registers();
        let before = self.quick.cell_code(registers, cell);
        let same = |e: &Entry| e.wants.who == entry.wants.who && e.bytes == entry.bytes;
        let n = registers.cells[cell].iter().position(same);
        let n = n.unwrap_or(registers.cells[cell].len()) as u32;
        registers.put(cell as u64, entry, &mut Each(false));
        registers.summarise(cell);
        let after = self.quick.cell_code(registers, cell);
        if before != TOO_MANY
            && after != TOO_MANY
            && let Op::Put {
                before: b,
                after: a,
                n: at,
                ..
            } = &mut self.quick.ops[number]
        {
            (*b, *a, *at) = (before, after, n);
        }
    }
}
