//! Writing down what is done at a record, while it is done.
//!
//! The learner goes through the record as the plain walk does, with names ([`Sym`]) for those who want
//! something: what it does is then right for all records in which the same instructions want the
//! same. Each operation is performed as it is written down. Where a record that was followed comes to
//! a new answer, it is gone through again from its end in the same way, but nothing is done or
//! written until that question is reached.

use image::effects::RegRange;
use smallvec::{SmallVec, smallvec};
use tape::Term;

use crate::asked::SetId;
use crate::memory::Trace;
use crate::plan::mask;
use crate::quick::{Answer, Guard, Next, Op, Operand, Run, Site, word};
use crate::rows::At;
use crate::step::{Piece, Room, State, step};
use crate::terms::{Edge, Edges, Kind, Node, OUTSIDE};
use crate::wanted::{
    Cell, Entry, Joins, Registers, Taken, Took, UNKNOWN, WhoId, Why, Wish, pieces, put, runs,
    spread,
};

/// Those who want something, by a name.
#[derive(Clone, Copy)]
pub(crate) struct Sym {
    who: WhoId,
    from: Operand,
}

impl Wish for Sym {
    fn who(self) -> WhoId {
        self.who
    }
}

/// Somebody asks which of these branches decided: in which frame.
struct Asks {
    frame: u8,
    set: SetId,
    askers: Vec<Sym>,
}

struct Learner<'l, 'r, 'a, E> {
    run: &'l mut Run<'r, 'a, E>,
    /// What is wanted of the registers that the record writes.
    registers: Registers<Sym>,
    cells: &'l [u16],
    /// Things are done and written down, in this knot.
    live: bool,
    knot: u32,
    passed: usize,
    /// The answer to the question that is open.
    resume: Option<Answer>,
    /// Questions that are open.
    asks: Vec<Asks>,
    /// Of what is kept, whether it is only in one place.
    single: Vec<bool>,
    /// Frames whose library code was counted.
    counted: u8,
    /// The cell that something is put into.
    into: u64,
    /// The instruction at hand, and its number.
    at: &'l At<'l>,
    i: u8,
    /// Dependences on the instruction at hand: the number, and the one it is within the record.
    edges: SmallVec<[(u32, Option<u8>); 8]>,
    /// Dependences on it may have been found of which nothing is known in advance.
    found: bool,
}

impl<E: Edges> Run<'_, '_, E> {
    /// Goes through the record and learns; the last knot of the path is where that begins.
    pub(crate) fn learn(&mut self, resume: Option<Answer>) {
        let form = self.form;
        let cells = &form.cells[..];
        let room = self.quick.room.take();
        let mut registers = room.unwrap_or_else(Registers::new);
        let real = self.slicer.registers();
        registers.mask = real.mask;
        for &cell in cells {
            let entries = real.cells[cell as usize].iter().enumerate();
            registers.cells[cell as usize] = entries
                .map(|(n, e)| Entry {
                    wants: Sym {
                        who: e.wants.who,
                        from: Operand::Register { cell, n: n as u8 },
                    },
                    base: 0,
                    bytes: e.bytes,
                })
                .collect();
        }
        let scene = self.scene;
        let mut asking = self.quick.asking.iter().enumerate();
        let questions = self.questions.iter().map(|&(frame, set, n)| Asks {
            frame,
            set,
            askers: asking
                .by_ref()
                .take(n as usize)
                .map(|(n, wants)| Sym {
                    who: wants.who,
                    from: Operand::Asker(n as u16),
                })
                .collect(),
        });
        let asks = questions.collect();
        let mut learner = Learner {
            live: resume.is_none(),
            knot: self.path()[0],
            run: self,
            registers,
            cells,
            passed: 0,
            resume,
            asks,
            single: Vec::new(),
            counted: 0,
            into: 0,
            at: &form.steps[0],
            i: 0,
            edges: SmallVec::new(),
            found: false,
        };
        let mut room = Room::default();
        for (i, at) in form.steps.iter().enumerate().rev() {
            learner.at = at;
            learner.i = i as u8;
            learner.edges.clear();
            learner.found = false;
            let values = &scene.values[at.part as usize];
            step(&mut learner, at.step, values, &mut room);
        }
        let registers = learner.end();
        self.quick.room = Some(registers);
    }
}

impl<E: Edges> Learner<'_, '_, '_, E> {
    /// The instruction at hand as it is shown.
    fn here(&mut self) -> Operand {
        let (pc, id) = (self.at.step.pc, self.at.step.id);
        match self.run.slicer.is_visible(pc, id) {
            true => Operand::Own(self.i),
            false => Operand::Hidden(self.run.form.shown_as[self.at.frame as usize]),
        }
    }

    fn who(&mut self, why: Why) -> WhoId {
        let here = self.here();
        let (id, node) = (self.run.id(here), self.run.shown(here));
        self.run.slicer.everybody.wants(id, node, why).who
    }

    fn emit(&mut self, op: Op) {
        if self.live {
            let ops = &mut self.run.quick.ops;
            ops.push(op);
            let number = ops.len() - 1;
            self.run.perform(number);
            self.run.quick.knots[self.knot as usize].ops.1 += 1;
        }
    }

    fn site(&mut self, at: Piece<'_>, len: u64) -> Site {
        let part = self.at.part;
        self.run.quick.site(at.spot, at.offset, len, part)
    }

    /// Somebody, and where they want it from: put aside, if that is not where they did before.
    fn here_or_kept(&mut self, entry: &Entry<Sym>) -> Sym {
        let Sym { who, from } = entry.wants;
        if entry.base == 0 {
            return entry.wants;
        }
        self.emit(Op::Keep {
            from,
            who,
            base: entry.base,
        });
        self.single.push(false);
        let from = Operand::Kept(self.single.len() as u16 - 1);
        Sym { who, from }
    }

    fn hint(&mut self) -> u32 {
        if self.live {
            self.run.quick.hints.push(SmallVec::new());
        }
        self.run.quick.hints.len().saturating_sub(1) as u32
    }

    /// Comes to a question; the answer.
    fn question(&mut self, guard: impl FnOnce(&mut Self) -> Guard) -> Answer {
        let path = self.run.path();
        if !self.live && self.passed + 1 < path.len() {
            let (from, to) = (path[self.passed], path[self.passed + 1]);
            self.passed += 1;
            self.knot = to;
            let Next::Guard(_, ways) = &self.run.quick.knots[from as usize].next else {
                unreachable!("a knot that was passed has ways on");
            };
            let way = ways.iter().find(|w| w.1 == to);
            return way.expect("the way that was taken").0;
        }
        if !self.live {
            // The last knot of the path, which has this question already.
            self.knot = path[self.passed];
        }
        self.live = true;
        let known = match self.run.quick.knots[self.knot as usize].next {
            Next::Guard(guard, _) => Some(guard),
            _ => None,
        };
        let guard = known.unwrap_or_else(|| guard(self));
        let resume = self.resume.take();
        let answer = resume.unwrap_or_else(|| self.run.answer(guard));
        let step = self.run.scene.item.step;
        let child = self.run.quick.knot(step);
        let knot = &mut self.run.quick.knots[self.knot as usize];
        match &mut knot.next {
            Next::Guard(_, ways) => ways.push((answer, child)),
            next => *next = Next::Guard(guard, smallvec![(answer, child)]),
        }
        self.knot = child;
        answer
    }

    /// Asks what the record does not answer.
    fn ask(&mut self) {
        for asks in std::mem::take(&mut self.asks) {
            debug_assert_eq!(asks.frame, 0, "calls answer what is asked in them");
            let first = self.run.quick.askers.len() as u32;
            let list = asks.askers.iter().map(|s| (s.who, s.from));
            if self.live {
                self.run.quick.askers.extend(list);
            }
            let mut whos: Vec<WhoId> = asks.askers.iter().map(|s| s.who).collect();
            let words = whos.iter().map(|w| word(*w, 0));
            let code = self.run.quick.code(words);
            whos.sort_unstable();
            let distinct = whos.windows(2).all(|w| w[0] != w[1]);
            self.emit(Op::Ask {
                set: asks.set,
                first,
                n: asks.askers.len() as u32,
                code: if distinct { code } else { UNKNOWN },
            });
        }
    }

    /// Adds somebody to those who ask the same.
    fn add(&mut self, askers: &mut Vec<Sym>, new: Sym) {
        // Executions that can be told apart are counted one by one.
        let same = |old: &&mut Sym| old.who == new.who && !self.is_plain(old.from);
        let same = askers.iter_mut().find(same);
        let Some(old) = same.filter(|_| !self.is_plain(new.from)) else {
            askers.push(new);
            return;
        };
        let entry = |wants| Entry {
            wants,
            base: 0,
            bytes: 0,
        };
        let mut joined = entry(*old);
        self.join(&mut joined, &entry(new));
        *old = joined.wants;
    }

    /// An execution that stands for nothing but itself.
    fn is_plain(&self, o: Operand) -> bool {
        matches!(o, Operand::Own(i) if !self.run.squashed.contains(&i))
    }

    /// Somebody wants something of a cell of registers.
    fn put(&mut self, n: u64, entry: Entry<Sym>) {
        if self.cells.binary_search(&(n as u16)).is_err() {
            let Sym { who, from } = self.here_or_kept(&entry);
            self.emit(Op::Put {
                cell: n as u16,
                bytes: entry.bytes,
                who,
                from,
                before: UNKNOWN,
                after: UNKNOWN,
                n: 0,
            });
            return;
        }
        self.into = n;
        let mut cell = std::mem::take(&mut self.registers.cells[n as usize]);
        put(&mut cell, entry, self);
        self.registers.cells[n as usize] = cell;
    }

    /// What is wanted afterwards. The registers are empty then.
    fn end(mut self) -> Registers<Sym> {
        self.ask();
        let mut ends = Vec::new();
        let mut first = 0;
        for &cell in self.cells {
            let entries: Cell<Sym> = std::mem::take(&mut self.registers.cells[cell as usize]);
            let before = &self.run.slicer.registers().cells[cell as usize];
            let same = |(n, e): (usize, &Entry<Sym>)| {
                let n = n as u8;
                e.wants.from == Operand::Register { cell, n }
                    && e.base == 0
                    && e.bytes == before[n as usize].bytes
            };
            if before.len() == entries.len() && entries.iter().enumerate().all(same) {
                continue;
            }
            let words = entries.iter().map(|e| word(e.wants.who, e.bytes));
            let code = self.run.quick.code(words);
            if let [e] = entries[..]
                && matches!(e.wants.from, Operand::Own(_) | Operand::Hidden(_))
                && e.base == 0
            {
                ends.push(Op::Alone {
                    cell,
                    bytes: e.bytes,
                    who: e.wants.who,
                    by: e.wants.from,
                    code,
                });
                continue;
            }
            for e in &entries {
                self.emit(Op::Final {
                    who: e.wants.who,
                    from: e.wants.from,
                    bytes: e.bytes,
                    base: e.base,
                });
            }
            let n = entries.len() as u16;
            ends.push(Op::End {
                cell,
                first,
                n,
                code,
            });
            first += n;
        }
        for end in ends {
            self.emit(end);
        }
        self.run.quick.knots[self.knot as usize].next = Next::End;
        self.registers
    }

    /// A dependence of somebody who wanted a register.
    fn edge(&mut self, took: &Took<Sym>, to: Operand) {
        let Sym { who, from } = took.wants();
        let asker = self.run.slicer.everybody.get(who);
        // What a call of a library does within itself is not shown.
        if asker.pc == OUTSIDE.pc || from == to {
            return;
        }
        let id = self.run.id(to);
        let merged = self.run.slicer.edges.merged().expect("numbers");
        let number = merged.number(u64::from(who) << 32 | u64::from(id));
        let alone = self.is_plain(from) && self.is_plain(to);
        let last = self.edges.iter_mut().find(|e| e.0 == number);
        let varies = self.found || last.as_ref().is_some_and(|e| e.1.is_none());
        let within = match from {
            Operand::Own(i) if !varies && alone => Some(i),
            _ => None,
        };
        let repeated = within.is_some() && last.as_ref().is_some_and(|e| e.1 == within);
        match last {
            Some(e) => e.1 = within,
            None => self.edges.push((number, within)),
        }
        if repeated {
            return;
        }
        let at = took.entry.base;
        let base = at.wrapping_add(u64::from(took.entry.bytes.trailing_zeros()));
        if within.is_none() {
            let piece = match asker.why {
                Why::Memory => {
                    if self.live {
                        self.run.quick.pieces.push((base, took.len));
                    }
                    self.run.quick.pieces.len().saturating_sub(1) as u32
                }
                Why::Register(_) | Why::Control => 0,
            };
            self.emit(Op::Edge {
                number,
                who,
                from,
                to,
                itself: asker.pc == self.run.shown(to).pc,
                piece,
            });
        } else if self.live {
            let step = self.run.shown(from).step;
            let to = self.run.shown(to);
            let kind = match asker.why {
                Why::Register(r) => Kind::Register(r),
                Why::Memory | Why::Control => Kind::Control,
            };
            let from = Node { step, pc: asker.pc };
            let edge = Edge { from, to, kind };
            let merged = self.run.slicer.edges.merged().expect("numbers");
            merged.add_one(number, (step, to.step), 1, || edge);
            let always = &mut self.run.quick.always[self.knot as usize];
            always.edges.push(number);
        }
    }
}

impl<E: Edges> Joins<Sym> for Learner<'_, '_, '_, E> {
    fn join(&mut self, old: &mut Entry<Sym>, new: &Entry<Sym>) -> bool {
        if old.bytes != new.bytes {
            return false;
        }
        let instruction = |o| matches!(o, Operand::Own(_) | Operand::Hidden(_));
        if old.wants.from == new.wants.from && instruction(new.wants.from) {
            return true;
        }
        let in_place = match old.wants.from {
            Operand::Register { cell, n } => {
                let before = &self.run.slicer.registers().cells[cell as usize][n as usize];
                let bytes = before.bytes;
                u64::from(cell) == self.into && old.base == 0 && old.bytes == bytes
            }
            Operand::Kept(n) => self.single[n as usize],
            Operand::Asker(_) => true,
            _ => false,
        };
        let who = old.wants.who;
        if !in_place {
            // Others may want the same of other bytes, and this is not for them.
            self.emit(Op::Keep {
                from: old.wants.from,
                who,
                base: old.base,
            });
            old.wants.from = Operand::Kept(self.single.len() as u16);
            old.base = 0;
            self.single.push(true);
        }
        self.emit(Op::Join {
            to: old.wants.from,
            from: new.wants.from,
            who,
        });
        true
    }
}

impl<E: Edges> State for Learner<'_, '_, '_, E> {
    type Wish = Sym;

    fn is_asked(&mut self) -> bool {
        let branch = self.at.step.may_branch.then_some(self.at.step.pc);
        let (frame, callee) = (self.at.frame, self.at.callee);
        let mut answered = Vec::new();
        let asked = &self.run.slicer.asked;
        self.asks.retain_mut(|a| {
            let by_branch = branch.is_some_and(|b| a.frame == frame && asked.has(a.set, b));
            let is_answered = by_branch || callee == Some(a.frame);
            if is_answered {
                answered.append(&mut a.askers);
            }
            !is_answered
        });
        let to = self.here();
        for wants in &answered {
            let entry = Entry {
                wants: *wants,
                base: 0,
                bytes: 0,
            };
            let (at, len) = (0, 0);
            self.edge(&Took { at, len, entry }, to);
        }
        !answered.is_empty()
    }

    fn moved(&mut self, condition: Term) -> bool {
        let part = self.at.part;
        self.question(|_| Guard::Moved(Site::of_term(condition, part))) != 0
    }

    fn take_register(&mut self, r: RegRange, out: &mut Taken<Sym>) {
        self.registers.take(r, out);
    }

    fn take_memory(&mut self, at: Piece<'_>, len: u64, whole: bool, out: &mut Taken<Sym>) {
        let answer = self.question(|this| Guard::Store {
            spot: this.site(at, len),
            whole,
        });
        let words = self.run.quick.words(answer);
        let Some((&align, words)) = words.split_first() else {
            return;
        };
        if whole {
            let from = self.single.len();
            let n: u64 = words.iter().skip(2).step_by(3).sum();
            for (n, took) in self.run.kept(from).iter().take(n as usize).enumerate() {
                out.push(Took {
                    at: took.at,
                    len: took.len,
                    entry: Entry {
                        wants: Sym {
                            who: took.entry.wants.who,
                            from: Operand::Kept((from + n) as u16),
                        },
                        base: 0,
                        bytes: took.entry.bytes,
                    },
                });
            }
            self.single.resize(from + out.len(), false);
            return;
        }
        for &w in words {
            let cell = (w >> 8) * 8;
            for (first, len) in runs(w as u8) {
                out.push(Took {
                    at: (cell + first).wrapping_sub(align),
                    len,
                    entry: Entry {
                        wants: Sym {
                            who: WhoId::MAX,
                            from: Operand::Taken,
                        },
                        base: 0,
                        bytes: 0,
                    },
                });
            }
        }
    }

    fn pass_register(&mut self, r: RegRange, took: &Took<Sym>) {
        let mut list: SmallVec<[(u64, Entry<Sym>); 2]> = SmallVec::new();
        spread(took, u64::from(r.at), |n, entry| list.push((n, entry)));
        for (n, entry) in list {
            self.put(n, entry);
        }
        self.registers.mask |= mask(r);
    }

    fn pass_memory(&mut self, at: Piece<'_>, took: &Took<Sym>) {
        let spot = self.site(at, took.len);
        let Sym { who, from } = self.here_or_kept(&took.entry);
        self.emit(Op::Pass {
            spot,
            who,
            from,
            bytes: took.entry.bytes,
        });
    }

    fn found(&mut self, taken: &Taken<Sym>) {
        let to = self.here();
        match taken.first() {
            Some(first) if first.entry.wants.from == Operand::Taken => {
                let hint = self.hint();
                self.emit(Op::Found { to, hint });
                self.found = true;
            }
            _ => {
                for took in taken {
                    self.edge(took, to);
                }
            }
        }
    }

    fn include(&mut self) {
        let here = self.here();
        match here {
            Operand::Own(i) if !self.run.squashed.contains(&i) => {
                if self.live {
                    let always = &mut self.run.quick.always[self.knot as usize];
                    always.included.push((self.at.step.id, i));
                }
            }
            Operand::Hidden(k) if self.counted >> k & 1 != 0 => {}
            Operand::Hidden(k) => {
                self.counted |= 1 << k;
                self.emit(Op::Count(here));
            }
            _ => self.emit(Op::Count(here)),
        }
        if self.run.slicer.options.data_only {
            return;
        }
        let (pc, id) = (self.at.step.pc, self.at.step.id);
        let set = self.run.slicer.deciders(pc, Some(id));
        let (frame, who) = (self.at.frame, self.who(Why::Control));
        let known = self
            .asks
            .iter()
            .position(|a| (a.frame, a.set) == (frame, set));
        let n = known.unwrap_or_else(|| {
            let askers = Vec::new();
            self.asks.push(Asks { frame, set, askers });
            self.asks.len() - 1
        });
        let new = Sym { who, from: here };
        let mut askers = std::mem::take(&mut self.asks[n].askers);
        self.add(&mut askers, new);
        self.asks[n].askers = askers;
    }

    fn want_register(&mut self, r: RegRange) {
        if self.run.slicer.is_pruned(r) {
            return;
        }
        let wants = Sym {
            who: self.who(Why::Register(r)),
            from: self.here(),
        };
        for (n, bytes) in pieces(u64::from(r.at), u64::from(r.len)) {
            let base = 0;
            self.put(n, Entry { wants, base, bytes });
        }
        self.registers.mask |= mask(r);
    }

    fn want_memory(&mut self, at: Piece<'_>, len: u64) {
        if len == 0 {
            return;
        }
        let spot = self.site(at, len);
        let (who, by) = (self.who(Why::Memory), self.here());
        self.emit(Op::Want {
            spot,
            who,
            by,
            trace: Trace::default(),
        });
    }
}
