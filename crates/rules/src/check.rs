//! Names, types and predicates of a rule file resolved: from trees to terms.
//!
//! Predicates are replaced by what they mean, so that a rule stands alone. A name that nothing binds
//! before a pattern meets it is bound by the first event that matches.

mod declared;
mod types;

use std::collections::HashMap;

use declared::pair;
use types::{FUNCTIONS, Type};

use crate::diagnostic::{Diagnostic, Severity, nearest};
use crate::print;
use crate::syntax::*;
use crate::term::{Checked, Field, Kind, Pair, Set, Slot, Term};

/// What a file declares.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    pub rules: Vec<Checked>,
    pub pairs: Vec<Pair>,
}

/// How deep predicates may use predicates.
const DEEPEST: usize = 64;

/// Predicates that a file need not define; it may.
const USUAL: &str = "
define Allocated(r) = exists event(_, malloc, _, bid) in Trace suchthat (bid == Bid(r))
define Freed(r, r1) = exists event(_, free, r1, bid) in Trace suchthat (bid == Bid(r))
";

/// Parses and checks a file. There are rules only if there are no errors.
pub fn compile(text: &str) -> (Rules, Vec<Diagnostic>) {
    let (items, mut wrong) = crate::parse::parse(text);
    let (usual, _) = crate::parse::parse(USUAL);
    let mut out = Rules::default();
    let mut defines: HashMap<&str, &Define> = HashMap::new();
    let mut used: HashMap<String, bool> = HashMap::new();
    for item in &items {
        if let Item::Define(d) = item {
            let known = FUNCTIONS.iter().any(|f| f.0 == d.name.text) || d.name.text == "FindLast";
            if known {
                let text = format!("`{}` is there already and cannot be defined", d.name.text);
                wrong.push(Diagnostic::error(d.name.span, text));
            } else if defines.insert(&d.name.text, d).is_some() {
                let text = format!("`{}` is defined twice", d.name.text);
                wrong.push(Diagnostic::error(d.name.span, text));
            }
            used.insert(d.name.text.clone(), false);
        }
    }
    for item in &usual {
        if let Item::Define(d) = item {
            defines.entry(&d.name.text).or_insert(d);
        }
    }
    let mut names: HashMap<&str, ()> = HashMap::new();
    for item in &items {
        match item {
            Item::Rule(r) => {
                if names.insert(&r.name.text, ()).is_some() {
                    let text = format!("there are two rules `{}`", r.name.text);
                    wrong.push(Diagnostic::error(r.name.span, text));
                }
                let mut checker = Checker {
                    defines: &defines,
                    used: &mut used,
                    wrong: &mut wrong,
                    variables: Vec::new(),
                    depth: 0,
                };
                out.rules.extend(checker.rule(r));
            }
            Item::Allocator(a) => out.pairs.extend(pair(a, &mut wrong)),
            Item::Define(_) => {}
        }
    }
    // A predicate that no rule uses is checked alone, so that its errors show.
    for item in &items {
        if let Item::Define(d) = item
            && used.get(&d.name.text) == Some(&false)
        {
            let mut scratch = HashMap::new();
            let mut checker = Checker {
                defines: &defines,
                used: &mut scratch,
                wrong: &mut wrong,
                variables: Vec::new(),
                depth: 0,
            };
            let scope: Scope = d
                .parameters
                .iter()
                .map(|p| {
                    (
                        p.text.clone(),
                        Actual::Variable(checker.slot(&p.text, p.span)),
                    )
                })
                .collect();
            checker.truth(&d.body, &scope);
            if !names.is_empty() {
                let text = format!("`{}` is used by no rule", d.name.text);
                wrong.push(Diagnostic::warning(d.name.span, text));
            }
        }
    }
    wrong.sort_by_key(|d| (d.span.start, d.span.end));
    wrong.dedup_by(|a, b| a.span == b.span && a.message == b.message);
    if wrong.iter().any(|d| d.severity == Severity::Error) {
        out = Rules::default();
    }
    (out, wrong)
}

/// What a name stands for.
#[derive(Clone)]
enum Actual {
    Variable(Slot),
    Term(Term, Type),
    Any,
}

type Scope = HashMap<String, Actual>;

struct Variable {
    name: String,
    span: Span,
    kind: Option<Type>,
    /// Something gives it a value.
    bound: bool,
}

struct Checker<'a> {
    defines: &'a HashMap<&'a str, &'a Define>,
    used: &'a mut HashMap<String, bool>,
    wrong: &'a mut Vec<Diagnostic>,
    variables: Vec<Variable>,
    depth: usize,
}

impl Checker<'_> {
    fn error(&mut self, span: Span, text: String) {
        self.wrong.push(Diagnostic::error(span, text));
    }

    fn slot(&mut self, name: &str, span: Span) -> Slot {
        self.variables.push(Variable {
            name: name.to_owned(),
            span,
            kind: None,
            bound: false,
        });
        if self.variables.len() > 200 {
            self.error(span, "this rule has too many variables".to_owned());
            self.variables.truncate(100);
        }
        Slot(self.variables.len() as u8 - 1)
    }

    fn rule(&mut self, r: &Rule) -> Option<Checked> {
        let before = self.wrong.len();
        for part in &r.state {
            const PARTS: [&str; 6] = ["Trace", "H", "F", "S", "P", "K"];
            if !PARTS.contains(&part.text.as_str()) {
                let text = format!("`{}` is no part of the state", part.text);
                let mut d = Diagnostic::error(part.span, text);
                d = d.help("the parts are Trace, H (heap), F (freed), S (stack) and P (pointers)");
                self.wrong.push(d);
            }
        }
        let most = match r.point.kind {
            PointKind::Call => 6,
            PointKind::Malloc => 2,
            _ => 1,
        };
        if r.point.arguments.len() > most {
            let text = format!("`{}` binds at most {most} here", r.point.kind.word());
            self.error(r.point.span, text);
        }
        let mut scope = Scope::new();
        let mut arguments = Vec::new();
        for (i, a) in r.point.arguments.iter().enumerate() {
            if a.text == "_" {
                arguments.push(None);
                continue;
            }
            let slot = self.slot(&a.text, a.span);
            let v = &mut self.variables[slot.0 as usize];
            v.bound = true;
            v.kind = Some(match (r.point.kind, i) {
                (PointKind::Malloc, 1) => Type::Block,
                _ => Type::Number,
            });
            scope.insert(a.text.clone(), Actual::Variable(slot));
            arguments.push(Some(slot));
        }
        // What is free in the condition belongs to the rule as a whole.
        self.free_names(&r.condition, &mut scope);
        let condition = self.truth(&r.condition, &scope)?;
        let mut chains = Vec::new();
        for chain in &r.chains {
            match scope.get(&chain.text) {
                Some(Actual::Variable(slot)) => {
                    let v = &self.variables[slot.0 as usize];
                    if v.kind.is_some_and(|k| k != Type::Number) {
                        let text = format!("`{}` is no pointer: it has no chain", chain.text);
                        self.error(chain.span, text);
                    }
                    chains.push(*slot);
                }
                _ => {
                    let text = format!("`{}` is bound nowhere in this rule", chain.text);
                    let known = nearest(&chain.text, scope.keys().map(String::as_str));
                    let mut d = Diagnostic::error(chain.span, text);
                    if let Some(meant) = known {
                        d = d.help(&format!("did you mean `{meant}`?"));
                    }
                    self.wrong.push(d);
                }
            }
        }
        for i in 0..self.variables.len() {
            let v = &self.variables[i];
            if !v.bound {
                let (name, span) = (v.name.clone(), v.span);
                let known: Vec<String> = scope.keys().filter(|k| **k != name).cloned().collect();
                let mut d = Diagnostic::error(span, format!("nothing gives `{name}` a value"));
                d = match nearest(&name, known.iter().map(String::as_str)) {
                    Some(meant) => d.help(&format!("did you mean `{meant}`?")),
                    None => d.help(
                        "a name is bound by the detection point, by `event(...)` or by `exists`",
                    ),
                };
                self.wrong.push(d);
            }
        }
        let never = crate::fold::contradicts_itself(&condition).then_some(false);
        match crate::fold::constant(&condition).or(never) {
            Some(true) => self.wrong.push(Diagnostic::warning(
                r.condition.span,
                "this condition always holds".to_owned(),
            )),
            Some(false) => self.wrong.push(Diagnostic::warning(
                r.condition.span,
                "this condition never holds".to_owned(),
            )),
            None => {}
        }
        let clean = self.wrong[before..]
            .iter()
            .all(|d| d.severity != Severity::Error);
        clean.then(|| Checked {
            name: r.name.text.clone(),
            about: r.about.clone(),
            point: r.point.kind,
            function: r.point.function.clone(),
            arguments,
            variables: self.variables.iter().map(|v| v.name.clone()).collect(),
            condition,
            chains,
            source: print::rule(r),
        })
    }

    /// Gives each name that is free in an expression a variable.
    fn free_names(&mut self, e: &Expr, scope: &mut Scope) {
        let mut bound = Vec::new();
        self.free_in(e, scope, &mut bound);
    }

    fn free_in(&mut self, e: &Expr, scope: &mut Scope, bound: &mut Vec<String>) {
        match &e.kind {
            ExprKind::Name(n) => {
                let reserved = n == "true" || n == "false";
                if !reserved && !bound.contains(n) && !scope.contains_key(n) {
                    let slot = self.slot(n, e.span);
                    scope.insert(n.clone(), Actual::Variable(slot));
                }
            }
            ExprKind::Call(name, list) => {
                let events = name.text == "FindLast";
                for (i, a) in list.iter().enumerate() {
                    if !events || !is_word_field(list, i) {
                        self.free_in(a, scope, bound);
                    }
                }
            }
            ExprKind::Not(a) | ExprKind::Negative(a) => self.free_in(a, scope, bound),
            ExprKind::Binary(_, a, b) => {
                self.free_in(a, scope, bound);
                self.free_in(b, scope, bound);
            }
            ExprKind::Quantified { bound: b, such, .. } => {
                let depth = bound.len();
                // Names in the pattern are the quantifier's own unless they are known around it.
                let own: Vec<&Expr> = match b {
                    Bound::Event(fields) => fields
                        .iter()
                        .enumerate()
                        .filter(|(i, _)| !is_word_field(fields, *i))
                        .map(|(_, f)| f)
                        .collect(),
                    Bound::Block(name) => {
                        bound.push(name.text.clone());
                        Vec::new()
                    }
                    Bound::Pointer {
                        pointer,
                        block,
                        index,
                    } => vec![pointer, block, index],
                };
                for field in own {
                    if let ExprKind::Name(n) = &field.kind
                        && !scope.contains_key(n)
                    {
                        bound.push(n.clone());
                    }
                }
                if let Some(such) = such {
                    self.free_in(such, scope, bound);
                }
                bound.truncate(depth);
            }
            _ => {}
        }
    }

    fn truth(&mut self, e: &Expr, scope: &Scope) -> Option<Term> {
        let (term, found) = self.term(e, scope)?;
        if found != Type::Truth {
            let text = format!("expected a condition, found {}", found.word());
            self.wrong.push(
                Diagnostic::error(e.span, text)
                    .help("compare it with something, as in `r != NULL`"),
            );
            return None;
        }
        Some(term)
    }

    fn term(&mut self, e: &Expr, scope: &Scope) -> Option<(Term, Type)> {
        self.depth += 1;
        if self.depth > 400 {
            self.error(e.span, "this is nested too deeply".to_owned());
            return None;
        }
        let out = self.term_of(e, scope);
        self.depth -= 1;
        out
    }

    fn term_of(&mut self, e: &Expr, scope: &Scope) -> Option<(Term, Type)> {
        match &e.kind {
            ExprKind::Number(n) => Some((Term::Number(*n), Type::Number)),
            ExprKind::Null => Some((Term::Number(0), Type::Number)),
            ExprKind::Text(t) => Some((Term::Text(t.clone()), Type::Text)),
            ExprKind::Any => {
                self.error(e.span, "`_` has no value".to_owned());
                None
            }
            ExprKind::Name(n) if n == "true" || n == "false" => {
                Some((Term::Truth(n == "true"), Type::Truth))
            }
            ExprKind::Name(n) => match scope.get(n) {
                Some(Actual::Variable(slot)) => {
                    let kind = self.variables[slot.0 as usize].kind;
                    Some((Term::Variable(*slot), kind.unwrap_or(Type::Number)))
                }
                Some(Actual::Term(term, kind)) => Some((term.clone(), *kind)),
                Some(Actual::Any) => {
                    self.error(e.span, format!("`{n}` was given as `_` and has no value"));
                    None
                }
                None => {
                    let mut d = Diagnostic::error(e.span, format!("`{n}` is not known here"));
                    if let Some(meant) = nearest(n, scope.keys().map(String::as_str)) {
                        d = d.help(&format!("did you mean `{meant}`?"));
                    }
                    self.wrong.push(d);
                    None
                }
            },
            ExprKind::Not(inner) => {
                let inner = self.truth(inner, scope)?;
                Some((Term::Not(Box::new(inner)), Type::Truth))
            }
            ExprKind::Negative(inner) => {
                let inner = self.number(inner, scope)?;
                let zero = Box::new(Term::Number(0));
                Some((
                    Term::Binary(Binary::Minus, zero, Box::new(inner)),
                    Type::Number,
                ))
            }
            ExprKind::Binary(op, a, b) => self.operation(*op, a, b, scope),
            ExprKind::Call(name, arguments) => self.call(e, name, arguments, scope),
            ExprKind::Quantified {
                all,
                bound,
                set,
                such,
            } => self.quantified(e, *all, bound, set, such.as_deref(), scope),
        }
    }

    fn number(&mut self, e: &Expr, scope: &Scope) -> Option<Term> {
        let (term, found) = self.term(e, scope)?;
        if found != Type::Number {
            self.error(
                e.span,
                format!("expected a number or pointer, found {}", found.word()),
            );
            return None;
        }
        Some(term)
    }

    fn operation(&mut self, op: Binary, a: &Expr, b: &Expr, scope: &Scope) -> Option<(Term, Type)> {
        let pair = |a, b| (Box::new(a), Box::new(b));
        if matches!(op, Binary::And | Binary::Or) {
            // Both sides are looked at, for all their errors.
            let (a, b) = (self.truth(a, scope), self.truth(b, scope));
            let (a, b) = pair(a?, b?);
            return Some((Term::Binary(op, a, b), Type::Truth));
        }
        if op.compares() {
            let (left, right) = (self.term(a, scope), self.term(b, scope));
            let ((left, x), (right, y)) = (left?, right?);
            let ordered = !matches!(op, Binary::Equal | Binary::Unequal);
            if x != y {
                let text = format!("{} cannot be compared with {}", x.word(), y.word());
                let d = Diagnostic::error(a.span.to(b.span), text);
                let blocks = [x, y].contains(&Type::Block) && [x, y].contains(&Type::Number);
                self.wrong.push(if blocks {
                    d.help("`Bid(r)` is the block of a pointer")
                } else {
                    d
                });
                return None;
            }
            if ordered && x != Type::Number {
                let text = format!("`{}` needs numbers, not {}", op.word(), x.word());
                self.error(a.span.to(b.span), text);
                return None;
            }
            let (left, right) = pair(left, right);
            return Some((Term::Binary(op, left, right), Type::Truth));
        }
        let (a, b) = (self.number(a, scope), self.number(b, scope));
        let (a, b) = pair(a?, b?);
        Some((Term::Binary(op, a, b), Type::Number))
    }

    fn call(
        &mut self,
        e: &Expr,
        name: &Name,
        arguments: &[Expr],
        scope: &Scope,
    ) -> Option<(Term, Type)> {
        if name.text == "FindLast" {
            return self.event(e, arguments, None, scope, false, true);
        }
        if let Some((_, function, parameters, result)) = FUNCTIONS.iter().find(|f| f.0 == name.text)
        {
            self.count(e, name, arguments.len(), parameters.len())?;
            let mut list = Vec::new();
            for (a, allowed) in arguments.iter().zip(*parameters) {
                let (term, found) = self.term(a, scope)?;
                if !allowed.contains(&found) {
                    let text = format!(
                        "`{}` wants {}, not {}",
                        name.text,
                        allowed[0].word(),
                        found.word()
                    );
                    self.error(a.span, text);
                    return None;
                }
                list.push(term);
            }
            return Some((Term::Apply(*function, list), *result));
        }
        let Some(define) = self.defines.get(name.text.as_str()).copied() else {
            let mut d =
                Diagnostic::error(name.span, format!("there is no predicate `{}`", name.text));
            let known = FUNCTIONS
                .iter()
                .map(|f| f.0)
                .chain(self.defines.keys().copied());
            if let Some(meant) = nearest(&name.text, known.chain(["FindLast"])) {
                d = d.help(&format!("did you mean `{meant}`?"));
            }
            self.wrong.push(d);
            return None;
        };
        self.used.insert(name.text.clone(), true);
        self.count(e, name, arguments.len(), define.parameters.len())?;
        if self.depth > DEEPEST {
            self.error(name.span, format!("`{}` uses itself", name.text));
            return None;
        }
        let mut inner = Scope::new();
        for (a, p) in arguments.iter().zip(&define.parameters) {
            let actual = match &a.kind {
                ExprKind::Any => Actual::Any,
                ExprKind::Name(n) if scope.contains_key(n) => scope[n].clone(),
                _ => {
                    let (term, found) = self.term(a, scope)?;
                    Actual::Term(term, found)
                }
            };
            inner.insert(p.text.clone(), actual);
        }
        // Deeper by far, so that a circle is found soon.
        self.depth += 4;
        let out = self.term(&define.body, &inner);
        self.depth -= 4;
        out
    }

    fn count(&mut self, e: &Expr, name: &Name, found: usize, wanted: usize) -> Option<()> {
        if found == wanted {
            return Some(());
        }
        let s = if wanted == 1 { "" } else { "s" };
        self.error(
            e.span,
            format!("`{}` takes {wanted} argument{s}, not {found}", name.text),
        );
        None
    }

    fn quantified(
        &mut self,
        e: &Expr,
        all: bool,
        bound: &Bound,
        set: &Name,
        such: Option<&Expr>,
        scope: &Scope,
    ) -> Option<(Term, Type)> {
        match (bound, set.text.as_str()) {
            (Bound::Event(fields), "Trace") => self.event(e, fields, such, scope, all, false),
            (Bound::Block(name), "H" | "F" | "S") => {
                let slot = self.slot(&name.text, name.span);
                let v = &mut self.variables[slot.0 as usize];
                (v.bound, v.kind) = (true, Some(Type::Block));
                let mut inner = scope.clone();
                inner.insert(name.text.clone(), Actual::Variable(slot));
                let such = match such {
                    Some(s) => self.truth(s, &inner)?,
                    None => Term::Truth(true),
                };
                let set = match set.text.as_str() {
                    "H" => Set::Heap,
                    "F" => Set::Freed,
                    _ => Set::Stack,
                };
                let such = Box::new(such);
                Some((
                    Term::Blocks {
                        all,
                        set,
                        variable: slot,
                        such,
                    },
                    Type::Truth,
                ))
            }
            (
                Bound::Pointer {
                    pointer,
                    block,
                    index,
                },
                "P",
            ) => {
                if !matches!(pointer.kind, ExprKind::Any | ExprKind::Name(_))
                    || !matches!(index.kind, ExprKind::Any)
                    || such.is_some()
                    || all
                {
                    self.error(
                        e.span,
                        "of P it can only be asked whether `exists r -> (bid, _) in P`".to_owned(),
                    );
                    return None;
                }
                let (block_term, kind) = self.term(block, scope)?;
                if kind != Type::Block {
                    self.error(
                        block.span,
                        format!("expected a block, found {}", kind.word()),
                    );
                    return None;
                }
                Some((Term::Pointed(Box::new(block_term)), Type::Truth))
            }
            _ => {
                let wanted = match bound {
                    Bound::Event(_) => "events are in `Trace`",
                    Bound::Block(_) => {
                        "blocks are in `H` (they live), `F` (they were freed) or `S` (local variables)"
                    }
                    Bound::Pointer { .. } => "pointers are in `P`",
                };
                let text = format!("there is nothing of this kind in `{}`", set.text);
                self.wrong
                    .push(Diagnostic::error(set.span, text).help(wanted));
                None
            }
        }
    }

    fn event(
        &mut self,
        e: &Expr,
        fields: &[Expr],
        such: Option<&Expr>,
        scope: &Scope,
        all: bool,
        last: bool,
    ) -> Option<(Term, Type)> {
        const KINDS: [&str; 5] = ["malloc", "free", "call", "ret", "write"];
        let word = match fields.get(1).map(|f| &f.kind) {
            Some(ExprKind::Name(n)) if KINDS.contains(&n.as_str()) => n.as_str(),
            _ => {
                let at = fields.get(1).map_or(e.span, |f| f.span);
                let mut d = Diagnostic::error(at, "expected the kind of an event".to_owned());
                let given = fields.get(1).map(|f| &f.kind);
                let meant = match given {
                    Some(ExprKind::Name(n)) => nearest(n, KINDS),
                    _ => None,
                };
                d = match meant {
                    Some(m) => d.help(&format!("did you mean `{m}`?")),
                    None => d.help("an event is (time, malloc|free|call|ret|write, ...)"),
                };
                self.wrong.push(d);
                return None;
            }
        };
        let mut inner = scope.clone();
        let time = self.field(&fields[0], &mut inner, Type::Number)?;
        if word == "write" {
            let current = matches!(fields.get(2).map(|f| &f.kind), Some(ExprKind::Name(_)));
            let rest = fields[3..].iter().all(|f| matches!(f.kind, ExprKind::Any));
            if !last || !current || !matches!(time, Field::Any) || !rest {
                self.error(
                    e.span,
                    "writes are not kept: only `FindLast(_, write, r, _)` can be asked, with the pointer of the point"
                        .to_owned(),
                );
                return None;
            }
            return Some((Term::Written, Type::Truth));
        }
        let types: &[Type] = match word {
            "malloc" | "free" => &[Type::Number, Type::Block],
            _ => &[Type::Number; 6],
        };
        let (kind, rest) = match word {
            "malloc" => (Kind::Malloc, &fields[2..]),
            "free" => (Kind::Free, &fields[2..]),
            _ => {
                let text = match fields.get(2).map(|f| &f.kind) {
                    Some(ExprKind::Name(n)) => n.clone(),
                    Some(ExprKind::Text(t)) => t.clone(),
                    _ => {
                        self.error(e.span, "this event needs the name of a function".to_owned());
                        return None;
                    }
                };
                let quoted = matches!(fields[2].kind, ExprKind::Text(_));
                let pattern = Pattern { text, quoted };
                let kind = if word == "call" {
                    Kind::Call(pattern)
                } else {
                    Kind::Ret(pattern)
                };
                (kind, &fields[3..])
            }
        };
        let exact = matches!(kind, Kind::Malloc | Kind::Free);
        if rest.len() > types.len() || exact && rest.len() != 2 {
            let shape = match word {
                "malloc" => "(time, malloc, size, block)",
                "free" => "(time, free, pointer, block)",
                _ => "(time, call|ret, function, value...)",
            };
            self.error(e.span, format!("such an event is {shape}"));
            return None;
        }
        let mut list = Vec::new();
        for (f, kind) in rest.iter().zip(types) {
            list.push(self.field(f, &mut inner, *kind)?);
        }
        let such = match such {
            Some(s) => self.truth(s, &inner)?,
            None => Term::Truth(true),
        };
        let block = match list.get(1) {
            Some(Field::Is(slot)) if exact => asked_block(&such, *slot).map(Box::new),
            _ => None,
        };
        let such = Box::new(such);
        Some((
            Term::Event {
                kind,
                time,
                fields: list,
                such,
                all,
                last,
                block,
            },
            Type::Truth,
        ))
    }

    /// A field of a pattern. A name that is not known around it is the pattern's own.
    fn field(&mut self, f: &Expr, scope: &mut Scope, kind: Type) -> Option<Field> {
        match &f.kind {
            ExprKind::Any => Some(Field::Any),
            ExprKind::Name(n) => match scope.get(n).cloned() {
                Some(Actual::Any) => Some(Field::Any),
                Some(Actual::Variable(slot)) => {
                    let v = &mut self.variables[slot.0 as usize];
                    v.bound = true;
                    if v.kind.is_some_and(|k| k != kind) {
                        let text = format!(
                            "`{n}` is {}, this is {}",
                            v.kind.unwrap_or(kind).word(),
                            kind.word()
                        );
                        self.error(f.span, text);
                        return None;
                    }
                    v.kind = Some(kind);
                    Some(Field::Is(slot))
                }
                Some(Actual::Term(term, _)) => Some(Field::Equals(Box::new(term))),
                None => {
                    let slot = self.slot(n, f.span);
                    let v = &mut self.variables[slot.0 as usize];
                    (v.bound, v.kind) = (true, Some(kind));
                    scope.insert(n.clone(), Actual::Variable(slot));
                    Some(Field::Is(slot))
                }
            },
            _ => {
                let (term, found) = self.term(f, scope)?;
                if found != kind {
                    self.error(
                        f.span,
                        format!("expected {}, found {}", kind.word(), found.word()),
                    );
                    return None;
                }
                Some(Field::Equals(Box::new(term)))
            }
        }
    }
}

/// Fields of an event that are words, not variables: its kind, and the name of a function.
fn is_word_field(fields: &[Expr], i: usize) -> bool {
    let kind = match fields.get(1).map(|f| &f.kind) {
        Some(ExprKind::Name(n)) => n.as_str(),
        _ => "",
    };
    i == 1 || i == 2 && matches!(kind, "call" | "ret")
}

/// The block that the condition says the variable is, if it says so in any case.
fn asked_block(such: &Term, slot: Slot) -> Option<Term> {
    match such {
        Term::Binary(Binary::Equal, a, b) => match (&**a, &**b) {
            (Term::Variable(s), other) | (other, Term::Variable(s)) if *s == slot => {
                Some(other.clone())
            }
            _ => None,
        },
        Term::Binary(Binary::And, a, b) => asked_block(a, slot).or_else(|| asked_block(b, slot)),
        _ => None,
    }
}
