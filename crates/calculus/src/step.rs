//! Fig. 8, middle: the reduction rules.

use crate::error::Class;
use crate::state::{Block, Event, Frame, Origin, Pointer, Region, State};
use crate::syntax::{Expr, Kind, Span, Value};

/// A redex that is a detection point of rules, with the values it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Point {
    Read(Value),
    Write(Value, Value),
    Malloc(i64),
    Free(Value),
    Call(String, Value),
    Ret(String, Value),
}

/// What one step led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Next,
    /// Main has returned this.
    Done(Value),
    /// An error rule applies; the state is the one before it.
    Error(Class),
    /// No rule applies at all, for this reason.
    Stuck(&'static str),
}

/// No block is larger; the contents are kept.
const LARGEST: i64 = 1 << 20;

impl State {
    /// The expression that is reduced next.
    pub fn redex(&self) -> &Expr {
        let mut e = &self.expr;
        while let Some(inner) = e.evaluated().into_iter().find(|p| p.value().is_none()) {
            e = inner;
        }
        e
    }

    fn redex_mut(&mut self) -> &mut Expr {
        fn descend(e: &mut Expr) -> &mut Expr {
            let evaluated = e.evaluated();
            // What is evaluated stands before what is not.
            match evaluated.iter().position(|p| p.value().is_none()) {
                Some(n) => descend(e.parts_mut().swap_remove(n)),
                None => e,
            }
        }
        descend(&mut self.expr)
    }

    /// The detection point at which the state stands, if the next reduction is one, and where that is written.
    pub fn point(&self) -> Option<(Point, Span)> {
        let e = self.redex();
        let of = |e: &Expr| e.value().cloned();
        let point = match &e.kind {
            Kind::Read(r) => Point::Read(of(r)?),
            Kind::Assign(r, v) => Point::Write(of(r)?, of(v)?),
            Kind::Free(r) => Point::Free(of(r)?),
            Kind::Malloc(n) => match of(n)? {
                Value::Number(n) => Point::Malloc(n),
                _ => return None,
            },
            Kind::Apply(z, v) => match of(z)? {
                Value::Symbol(z) if self.functions.contains_key(&z) => Point::Call(z, of(v)?),
                _ => return None,
            },
            Kind::Ret(z, v) => Point::Ret(z.clone(), of(v)?),
            _ => return None,
        };
        Some((point, e.span))
    }

    /// One reduction. On anything but [`Outcome::Next`] the state is left as it is.
    pub fn step(&mut self) -> Outcome {
        if let Some(v) = self.expr.value() {
            return Outcome::Done(v.clone());
        }
        if let Some((point, _)) = self.point()
            && let Some(class) = self.error(&point)
        {
            return Outcome::Error(class);
        }
        let redex = self.redex().clone();
        match self.reduce(redex) {
            Ok(reduct) => {
                *self.redex_mut() = reduct;
                self.time += 1;
                Outcome::Next
            }
            Err(why) => Outcome::Stuck(why),
        }
    }

    /// What a redex becomes. Its effects on the state are made only if there is no reason against it.
    fn reduce(&mut self, redex: Expr) -> Result<Expr, &'static str> {
        let span = redex.span;
        let value = |v| Ok(Expr::new(Kind::Value(v), span));
        let of = |e: Box<Expr>| match e.kind {
            Kind::Value(v) => Ok(v),
            _ => Err("an operand is no value"),
        };
        match redex.kind {
            Kind::Let {
                name,
                value,
                mut body,
            } => {
                body.substitute(&name, &of(value)?);
                Ok(*body)
            }
            Kind::Salloc {
                name,
                size,
                mut body,
            } => {
                let bid = self.fresh(Region::Stack);
                let block = Block::junk(size as usize, self.time);
                let top = self.stack.last_mut().ok_or("there is no frame")?;
                top.blocks.insert(bid, block);
                let r = self.point_to(Pointer { bid, index: 0 });
                body.substitute(&name, &Value::Pointer(r));
                Ok(*body)
            }
            Kind::Seq(_, rest) => Ok(*rest),
            Kind::Malloc(n) => value(self.malloc(of(n)?, span)?),
            Kind::Free(r) => value(self.free(of(r)?, span)?),
            Kind::Apply(z, v) => self.call(of(z)?, of(v)?, span),
            Kind::Ret(z, v) => value(self.ret(z, of(v)?, span)?),
            Kind::Read(r) => value(self.read(of(r)?)?),
            Kind::Assign(r, v) => value(self.assign(of(r)?, of(v)?, span)?),
            Kind::Add(a, b) => match (of(a)?, of(b)?) {
                (Value::Number(a), Value::Number(b)) => {
                    self.origin = Origin::Generated;
                    value(Value::Number(a.wrapping_add(b)))
                }
                _ => Err("`+` is of numbers"),
            },
            Kind::Shift(r, n) => value(self.shift(of(r)?, of(n)?)?),
            Kind::If0(n, yes, no) => match of(n)? {
                Value::Number(n) => {
                    self.note(Event::If(n), span);
                    Ok(if n == 0 { *yes } else { *no })
                }
                _ => Err("`if0` asks about a number"),
            },
            Kind::Variable(_) => Err("a variable has no value"),
            Kind::Value(_) => Err("a value is not reduced"),
        }
    }

    fn malloc(&mut self, n: Value, span: Span) -> Result<Value, &'static str> {
        let Value::Number(n) = n else {
            return Err("a size is a number");
        };
        if !(0..=LARGEST).contains(&n) {
            return Err("there is no block of that size");
        }
        let bid = self.fresh(Region::Heap);
        self.heap.insert(bid, Block::junk(n as usize, self.time));
        let r = self.point_to(Pointer { bid, index: 0 });
        let size = n as u64;
        self.note(Event::Malloc { size, bid }, span);
        self.origin = Origin::Generated;
        Ok(Value::Pointer(r))
    }

    fn free(&mut self, value: Value, span: Span) -> Result<Value, &'static str> {
        if let Some(at) = self.location(&value) {
            let bid = self.pointers[&at].bid;
            self.heap.remove(&bid).ok_or("no block of the heap")?;
            self.freed.insert(bid);
            self.note(Event::Free { at, bid }, span);
        }
        Ok(Value::Number(0))
    }

    fn call(&mut self, z: Value, v: Value, span: Span) -> Result<Expr, &'static str> {
        let Value::Symbol(z) = z else {
            return Err("only functions are applied");
        };
        let function = self.functions.get(&z).cloned();
        let (parameter, body) = function.ok_or("only functions are applied")?;
        self.stack.push(Frame::default());
        self.note(Event::Call(z, v.clone()), span);
        self.origin = self.origin_of(&v);
        // let x = salloc 1 in (x := v; e)
        let at = |kind| Box::new(Expr::new(kind, span));
        let to = at(Kind::Variable(parameter.clone()));
        let assign = at(Kind::Assign(to, at(Kind::Value(v))));
        let body = at(Kind::Seq(assign, Box::new(body)));
        let kind = Kind::Salloc {
            name: parameter,
            size: 1,
            body,
        };
        Ok(Expr::new(kind, span))
    }

    fn ret(&mut self, z: String, v: Value, span: Span) -> Result<Value, &'static str> {
        if self.stack.len() < 2 {
            return Err("nothing is left to return from");
        }
        // popStack
        let frame = self.stack.pop().unwrap_or_default();
        self.freed.extend(frame.blocks.into_keys());
        self.note(Event::Ret(z, v.clone()), span);
        self.origin = self.origin_of(&v);
        Ok(v)
    }

    fn read(&mut self, value: Value) -> Result<Value, &'static str> {
        let at = self.location(&value).ok_or("this is no location")?;
        let p = self.pointers[&at];
        let block = self.block(p.bid).ok_or("the frame is gone")?;
        let cell = block.at(p.index).ok_or("outside of a variable")?;
        let v = cell.clone().ok_or("junk")?;
        self.origin = Origin::Location(at);
        Ok(v)
    }

    fn assign(&mut self, to: Value, v: Value, span: Span) -> Result<Value, &'static str> {
        let at = self.location(&to).ok_or("this is no location")?;
        let p = self.pointers[&at];
        let block = self.block_mut(p.bid).ok_or("the frame is gone")?;
        let index = usize::try_from(p.index).ok();
        let cell = index.and_then(|i| block.contents.get_mut(i));
        let cell = cell.ok_or("outside of a variable")?;
        *cell = Some(v.clone());
        let origin = self.origin_of(&v);
        let value = v.clone();
        self.origin = origin.clone();
        self.note(Event::Write { at, value, origin }, span);
        Ok(v)
    }

    fn shift(&mut self, r: Value, n: Value) -> Result<Value, &'static str> {
        let Value::Number(n) = n else {
            return Err("a pointer is moved by a number");
        };
        self.origin = Origin::Generated;
        // Beside NULL there is no block, and yet there are addresses.
        if let Value::Number(base) = r {
            return Ok(Value::Number(base.wrapping_add(n)));
        }
        let p = self.pointer(&r).ok_or("this is no location")?;
        let moved = Pointer {
            bid: p.bid,
            index: p.index.wrapping_add(n),
        };
        Ok(Value::Pointer(self.point_to(moved)))
    }
}
