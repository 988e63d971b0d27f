//! Trees to text that parses to the same tree.

use std::fmt::Write;

use crate::syntax::*;

/// A whole file.
pub fn print(items: &[Item]) -> String {
    let mut out = String::new();
    for item in items {
        match item {
            Item::Define(d) => {
                let list = names(&d.parameters);
                let _ = writeln!(
                    out,
                    "define {}({list}) = {}",
                    d.name.text,
                    expression(&d.body)
                );
            }
            Item::Allocator(a) => {
                let _ = writeln!(
                    out,
                    "allocator {}({}) / {}({})",
                    a.allocate.text,
                    names(&a.allocate_parameters),
                    a.release.text,
                    names(&a.release_parameters),
                );
            }
            Item::Rule(r) => {
                for line in r.about.lines() {
                    let _ = writeln!(out, "# {line}");
                }
                let _ = writeln!(out, "{}", rule(r));
            }
        }
    }
    out
}

pub fn rule(r: &Rule) -> String {
    let mut out = format!("[{}] detect <", r.name.text);
    for part in &r.state {
        let _ = write!(out, "{}; ", part.text);
    }
    let _ = write!(out, "{}>: {}", point(&r.point), expression(&r.condition));
    for (i, chain) in r.chains.iter().enumerate() {
        let _ = write!(
            out,
            "{} VPC({})",
            if i == 0 { " :" } else { "," },
            chain.text
        );
    }
    out
}

pub fn point(p: &Point) -> String {
    let mut out = p.kind.word().to_owned();
    if let Some(f) = &p.function {
        let _ = if f.quoted {
            write!(out, " \"{}\"", f.text)
        } else {
            write!(out, " {}", f.text)
        };
    }
    for a in &p.arguments {
        let _ = write!(out, " {}", a.text);
    }
    out
}

fn names(list: &[Name]) -> String {
    list.iter()
        .map(|n| n.text.as_str())
        .collect::<Vec<_>>()
        .join(", ")
}

fn list(e: &[Expr]) -> String {
    e.iter().map(expression).collect::<Vec<_>>().join(", ")
}

pub fn expression(e: &Expr) -> String {
    strong(e, 0)
}

/// In parentheses if it binds less tightly than what is around it.
fn strong(e: &Expr, least: u8) -> String {
    const TIGHT: u8 = 10;
    let (text, strength) = match &e.kind {
        ExprKind::Number(n) => (n.to_string(), TIGHT),
        ExprKind::Text(t) => (format!("\"{t}\""), TIGHT),
        ExprKind::Null => ("NULL".to_owned(), TIGHT),
        ExprKind::Any => ("_".to_owned(), TIGHT),
        ExprKind::Name(n) => (n.clone(), TIGHT),
        ExprKind::Call(name, arguments) => (format!("{}({})", name.text, list(arguments)), TIGHT),
        ExprKind::Not(inner) => (format!("!{}", strong(inner, TIGHT)), TIGHT),
        ExprKind::Negative(inner) => (format!("-{}", strong(inner, TIGHT)), TIGHT),
        ExprKind::Binary(op, l, r) => {
            let s = op.strength();
            // Comparisons do not chain, so both sides of one must bind more tightly.
            let left = if op.compares() { s + 1 } else { s };
            (
                format!("{} {} {}", strong(l, left), op.word(), strong(r, s + 1)),
                s,
            )
        }
        ExprKind::Quantified {
            all,
            bound,
            set,
            such,
        } => {
            let word = if *all { "forall" } else { "exists" };
            let bound = match bound {
                Bound::Event(fields) => format!("event({})", list(fields)),
                Bound::Block(name) => name.text.clone(),
                Bound::Pointer {
                    pointer,
                    block,
                    index,
                } => format!(
                    "{} -> ({}, {})",
                    expression(pointer),
                    expression(block),
                    expression(index)
                ),
            };
            let mut text = format!("{word} {bound} in {}", set.text);
            if let Some(such) = such {
                let _ = write!(text, " suchthat ({})", expression(such));
            }
            (text, TIGHT)
        }
    };
    if strength < least {
        format!("({text})")
    } else {
        text
    }
}
