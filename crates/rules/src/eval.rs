//! Conditions evaluated, slowly and obviously: the calculus as it is written.
//!
//! A condition may need what is not known while the tape is read: the contents of memory. Then the
//! answer is `None`, and it is asked again with the guest at hand.

use crate::heap::{BlockId, DIFFERENCE, Family, Heap, NONE};
use crate::syntax::{Binary, Pattern};
use crate::term::{Checked, Field, Function, Kind, Set, Slot, Term};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number; of a pointer, also the block that it came from.
    Number(u64, BlockId),
    Block(BlockId),
    Text(String),
}

/// A call or return of a function that some rule asks about.
#[derive(Clone, Debug)]
pub struct CallEvent {
    pub step: u64,
    pub function: String,
    pub returned: bool,
    pub values: [u64; 6],
}

/// The guest's memory at the step in question.
pub trait Contents {
    fn word(&self, address: u64) -> Option<u64>;
    /// Whether a pointer to the block can be found from what the program still has.
    fn pointed(&self, block: BlockId) -> bool;
}

/// Why there is no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lack {
    /// There is none: a pointer without a block has no beginning.
    Missing,
    /// It is in memory that is not at hand.
    Unknown,
}

/// What a condition is about.
pub struct Facts<'a> {
    pub heap: &'a Heap,
    pub calls: &'a [CallEvent],
    pub step: u64,
    /// Family of the function at hand.
    pub releaser: &'a str,
    /// Family names, by block.
    pub family: &'a dyn Fn(BlockId) -> String,
    pub on_stack: &'a dyn Fn(u64) -> bool,
    pub written: Option<bool>,
    pub contents: Option<&'a dyn Contents>,
}

pub type Bindings = Vec<Option<Value>>;

/// Whether the rule's condition holds; `bindings` gets what it bound.
pub fn holds(rule: &Checked, bindings: &mut Bindings, facts: &Facts<'_>) -> Option<bool> {
    facts.truth(&rule.condition, bindings)
}

/// The calls and returns that a condition is true because of, as far as it gives their times names.
pub fn events<'a>(
    rule: &Checked,
    bindings: &Bindings,
    calls: &'a [CallEvent],
) -> Vec<&'a CallEvent> {
    let mut slots = Vec::new();
    named_times(&rule.condition, &mut slots);
    let found = slots.into_iter().filter_map(|(slot, pattern, returned)| {
        let Some(Value::Number(step, _)) = bindings[slot.0 as usize] else {
            return None;
        };
        let mut calls = calls.iter();
        calls.find(|c| c.step == step && c.returned == returned && pattern.matches(&c.function))
    });
    let mut out: Vec<&CallEvent> = found.collect();
    out.sort_by_key(|c| c.step);
    out.dedup_by_key(|c| c.step);
    out
}

fn named_times<'t>(t: &'t Term, out: &mut Vec<(Slot, &'t Pattern, bool)>) {
    match t {
        Term::Binary(Binary::And | Binary::Or, a, b) => {
            named_times(a, out);
            named_times(b, out);
        }
        Term::Event {
            kind, time, such, ..
        } => {
            match (kind, time) {
                (Kind::Call(p), Field::Is(slot)) => out.push((*slot, p, false)),
                (Kind::Ret(p), Field::Is(slot)) => out.push((*slot, p, true)),
                _ => {}
            }
            named_times(such, out);
        }
        Term::Blocks { such, .. } => named_times(such, out),
        _ => {}
    }
}

impl Facts<'_> {
    /// The blocks that make `exists bid in H suchthat ...` true, all of them.
    pub(crate) fn culprits(&self, rule: &Checked, bindings: &Bindings) -> Vec<BlockId> {
        let Term::Blocks {
            all: false,
            set,
            variable,
            such,
        } = &rule.condition
        else {
            return Vec::new();
        };
        // Variables are not lost.
        if *set == Set::Stack {
            return Vec::new();
        }
        let guilty = self.members(*set).filter(|id| {
            let mut env = bindings.clone();
            env[variable.0 as usize] = Some(Value::Block(*id));
            self.truth(such, &mut env) == Some(true)
        });
        guilty.collect()
    }

    fn members(&self, set: Set) -> Box<dyn Iterator<Item = BlockId> + '_> {
        let inside = move |id: &BlockId| self.inside(set, *id);
        match set {
            Set::Stack => Box::new(self.heap.locals().map(|(id, _)| id).filter(inside)),
            _ => Box::new(self.heap.all().map(|(id, _)| id).filter(inside)),
        }
    }

    fn inside(&self, set: Set, id: BlockId) -> bool {
        match set {
            Set::Heap | Set::Stack => self.heap.lives(id, self.step),
            Set::Freed => self
                .heap
                .block(id)
                .freed
                .is_some_and(|f| f.step < self.step),
        }
    }

    fn truth(&self, t: &Term, env: &mut Bindings) -> Option<bool> {
        match t {
            Term::Truth(b) => Some(*b),
            Term::Not(inner) => {
                // What did not happen binds nothing.
                let kept = env.clone();
                let out = self.truth(inner, env).map(|b| !b);
                *env = kept;
                out
            }
            Term::Binary(Binary::And, a, b) => match self.truth(a, env) {
                Some(false) => Some(false),
                Some(true) => self.truth(b, env),
                None => match self.truth(b, env) {
                    Some(false) => Some(false),
                    _ => None,
                },
            },
            Term::Binary(Binary::Or, a, b) => {
                let kept = env.clone();
                match self.truth(a, env) {
                    Some(true) => Some(true),
                    Some(false) => {
                        *env = kept;
                        self.truth(b, env)
                    }
                    None => match self.truth(b, env) {
                        Some(true) => Some(true),
                        _ => None,
                    },
                }
            }
            Term::Binary(op, a, b) => self.compare(*op, a, b, env),
            Term::Apply(Function::OnStack, list) => {
                let on = |n| (self.on_stack)(n);
                let argument = list.first().map(|t| self.value(t, env));
                Some(matches!(argument, Some(Ok(Value::Number(n, _))) if on(n)))
            }
            Term::Apply(f @ (Function::Local | Function::Global | Function::Gone), list) => {
                let argument = list.first().map(|t| self.value(t, env));
                let Some(Ok(Value::Number(_, id))) = argument else {
                    return Some(false);
                };
                let block = self.heap.block(id);
                Some(match f {
                    Function::Local => block.family == Family::Local,
                    Function::Global => block.family == Family::Global,
                    _ => block.freed.is_some_and(|f| f.step < self.step),
                })
            }
            Term::Written => self.written,
            Term::Pointed(block) => match self.value(block, env) {
                Ok(Value::Block(id)) => self.contents.map(|c| c.pointed(id)),
                _ => Some(false),
            },
            Term::Blocks {
                all,
                set,
                variable,
                such,
            } => self.blocks(*all, *set, *variable, such, env),
            Term::Event { .. } => self.event(t, env),
            _ => None,
        }
    }

    fn blocks(
        &self,
        all: bool,
        set: Set,
        slot: Slot,
        such: &Term,
        env: &mut Bindings,
    ) -> Option<bool> {
        let mut unknown = false;
        let kept = env.clone();
        for id in self.members(set) {
            env[slot.0 as usize] = Some(Value::Block(id));
            match self.truth(such, env) {
                Some(b) if b != all => return Some(!all),
                Some(_) => {}
                None => unknown = true,
            }
            env.clone_from(&kept);
        }
        if unknown { None } else { Some(all) }
    }

    fn event(&self, t: &Term, env: &mut Bindings) -> Option<bool> {
        let Term::Event {
            kind,
            time,
            fields,
            such,
            all,
            last,
            block,
        } = t
        else {
            return None;
        };
        let kept = env.clone();
        let mut unknown = false;
        let mut answer = None;
        let mut look = |step: u64, values: &[Value], env: &mut Bindings| {
            env.clone_from(&kept);
            let time = std::iter::once((time, Value::Number(step, NONE)));
            let rest = fields.iter().zip(values.iter().cloned());
            let matches = time.chain(rest).all(|(f, v)| self.matches(f, v, env));
            if !matches {
                return false;
            }
            match self.truth(such, env) {
                Some(b) if b != *all => {
                    answer = Some(!*all);
                    true
                }
                Some(_) => false,
                None => {
                    unknown = true;
                    false
                }
            }
        };
        let number = |n| Value::Number(n, NONE);
        match kind {
            Kind::Malloc | Kind::Free => {
                let mut one = |id: BlockId, env: &mut Bindings| {
                    let b = self.heap.block(id);
                    if b.family.is_variable() {
                        return false;
                    }
                    let found = match kind {
                        Kind::Malloc => (b.born <= self.step).then_some((b.born, number(b.size))),
                        _ => b
                            .freed
                            .filter(|f| f.step < self.step)
                            .map(|f| (f.step, Value::Number(f.pointer, id))),
                    };
                    found.is_some_and(|(step, v)| look(step, &[v, Value::Block(id)], env))
                };
                let asked = block.as_ref().map(|b| self.value(b, env));
                match asked {
                    Some(Ok(Value::Block(id))) => {
                        one(id, env);
                    }
                    Some(_) => {}
                    None if *last => {
                        self.heap.all().rev().any(|(id, _)| one(id, env));
                    }
                    None => {
                        self.heap.all().any(|(id, _)| one(id, env));
                    }
                }
            }
            Kind::Call(pattern) | Kind::Ret(pattern) => {
                let returned = matches!(kind, Kind::Ret(_));
                let mut one = |c: &CallEvent, env: &mut Bindings| {
                    c.step < self.step
                        && c.returned == returned
                        && pattern.matches(&c.function)
                        && look(c.step, &c.values.map(number), env)
                };
                if *last {
                    self.calls.iter().rev().any(|c| one(c, env));
                } else {
                    self.calls.iter().any(|c| one(c, env));
                }
            }
        }
        if answer.is_none() {
            env.clone_from(&kept);
        }
        match (answer, unknown) {
            (Some(a), _) => Some(a),
            (None, true) => None,
            (None, false) => Some(*all),
        }
    }

    fn matches(&self, field: &Field, value: Value, env: &mut Bindings) -> bool {
        match field {
            Field::Any => true,
            Field::Is(slot) => match &env[slot.0 as usize] {
                Some(known) => same(known, &value),
                None => {
                    env[slot.0 as usize] = Some(value);
                    true
                }
            },
            Field::Equals(term) => self.value(term, env).is_ok_and(|v| same(&v, &value)),
        }
    }

    fn compare(&self, op: Binary, a: &Term, b: &Term, env: &Bindings) -> Option<bool> {
        let (a, b) = match (self.value(a, env), self.value(b, env)) {
            (Ok(a), Ok(b)) => (a, b),
            // Nothing can be said of what is not there, and so nothing is.
            (Err(Lack::Missing), _) | (_, Err(Lack::Missing)) => return Some(false),
            _ => return None,
        };
        if let (Value::Number(x, _), Value::Number(y, _)) = (&a, &b) {
            let (x, y) = (*x as i64, *y as i64);
            return Some(match op {
                Binary::Equal => x == y,
                Binary::Unequal => x != y,
                Binary::Less => x < y,
                Binary::LessEqual => x <= y,
                Binary::Greater => x > y,
                _ => x >= y,
            });
        }
        Some(same(&a, &b) == (op == Binary::Equal))
    }

    fn value(&self, t: &Term, env: &Bindings) -> Result<Value, Lack> {
        match t {
            Term::Number(n) => Ok(Value::Number(*n as u64, NONE)),
            Term::Text(t) => Ok(Value::Text(t.clone())),
            Term::Variable(slot) => env[slot.0 as usize].clone().ok_or(Lack::Missing),
            Term::Apply(function, list) => self.apply(*function, list, env),
            Term::Binary(op, a, b) => self.arithmetic(*op, a, b, env),
            _ => Err(Lack::Missing),
        }
    }

    fn apply(&self, function: Function, list: &[Term], env: &Bindings) -> Result<Value, Lack> {
        if function == Function::Releaser {
            return Ok(Value::Text(self.releaser.to_owned()));
        }
        let argument = self.value(list.first().ok_or(Lack::Missing)?, env)?;
        let (number, id) = match argument {
            Value::Number(n, id) if id > DIFFERENCE => (n, id),
            Value::Number(n, _) => (n, self.heap.around(n)),
            Value::Block(id) => (0, id),
            Value::Text(_) => return Err(Lack::Missing),
        };
        let plain = |n| Ok(Value::Number(n, NONE));
        if function == Function::Value {
            let contents = self.contents.ok_or(Lack::Unknown)?;
            return plain(contents.word(number).ok_or(Lack::Missing)?);
        }
        if id <= DIFFERENCE {
            return Err(Lack::Missing);
        }
        let block = self.heap.block(id);
        match function {
            Function::Block => self.whole(block.begin, block.size),
            Function::Bid => Ok(Value::Block(id)),
            Function::Idx => plain(number.wrapping_sub(block.begin)),
            Function::Begin => Ok(Value::Number(block.begin, id)),
            Function::End => Ok(Value::Number(block.begin.wrapping_add(block.size), id)),
            Function::Size => plain(block.size),
            Function::Time => plain(block.born),
            Function::Family => Ok(Value::Text((self.family)(id))),
            _ => Err(Lack::Missing),
        }
    }

    /// The contents of memory as a text, a character for each byte. Zeros at the end are no part of it, so that it can be
    /// compared with what is written in a rule.
    fn whole(&self, begin: u64, size: u64) -> Result<Value, Lack> {
        const LONGEST: u64 = 1 << 20;
        let contents = self.contents.ok_or(Lack::Unknown)?;
        let mut text = String::new();
        for at in (0..size.min(LONGEST)).step_by(8) {
            let word = contents.word(begin.wrapping_add(at)).ok_or(Lack::Missing)?;
            let bytes = word.to_le_bytes().map(char::from);
            text.extend(bytes.iter().take((size - at).min(8) as usize));
        }
        let end = text.trim_end_matches('\0').len();
        text.truncate(end);
        Ok(Value::Text(text))
    }

    fn arithmetic(&self, op: Binary, a: &Term, b: &Term, env: &Bindings) -> Result<Value, Lack> {
        let number = |v| match v {
            Value::Number(n, id) => Ok((n, id)),
            _ => Err(Lack::Missing),
        };
        let (x, from) = number(self.value(a, env)?)?;
        let (y, _) = number(self.value(b, env)?)?;
        let shift = (y & 63) as u32;
        let out = match op {
            Binary::Plus => x.wrapping_add(y),
            Binary::Minus => x.wrapping_sub(y),
            Binary::Times => x.wrapping_mul(y),
            Binary::Divide => (x as i64).checked_div(y as i64).ok_or(Lack::Missing)? as u64,
            Binary::Remainder => (x as i64).checked_rem(y as i64).ok_or(Lack::Missing)? as u64,
            Binary::BitAnd => x & y,
            Binary::BitOr => x | y,
            Binary::BitXor => x ^ y,
            Binary::ShiftLeft => x << shift,
            Binary::ShiftRight => x >> shift,
            _ => return Err(Lack::Missing),
        };
        let moved = matches!(op, Binary::Plus | Binary::Minus);
        Ok(Value::Number(out, if moved { from } else { NONE }))
    }
}

fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x, _), Value::Number(y, _)) => x == y,
        _ => a == b,
    }
}
