//! Names: which are local variables and which global symbols, and where `ret` may stand.
//!
//! `ret z e` is a marker at which z's frame goes away; what stands around it goes on. So it means a return only
//! in tail position, and each function must have one there.

use crate::parse::Wrong;
use crate::syntax::{Definition, Expr, Kind, Program, Value};

pub(crate) fn resolve(program: &mut Program, wrong: &mut Vec<Wrong>) {
    let mut globals: Vec<String> = Vec::new();
    for d in &mut program.definitions {
        globals.push(d.name().to_owned());
        if let Definition::Function {
            name,
            parameter,
            body,
        } = d
        {
            names(body, &globals, &mut vec![parameter.clone()], wrong);
            tail(body, name, wrong);
        }
    }
    names(&mut program.main, &globals, &mut Vec::new(), wrong);
    tail(&program.main, "main", wrong);
}

fn names(e: &mut Expr, globals: &[String], locals: &mut Vec<String>, wrong: &mut Vec<Wrong>) {
    match &mut e.kind {
        Kind::Variable(x) if locals.contains(x) => {}
        Kind::Variable(z) if globals.contains(z) => e.kind = Kind::Value(Value::Symbol(z.clone())),
        Kind::Variable(x) => wrong.push(Wrong::new(e.span, format!("`{x}` is not defined"))),
        Kind::Let { name, value, body } => {
            names(value, globals, locals, wrong);
            locals.push(name.clone());
            names(body, globals, locals, wrong);
            locals.pop();
        }
        Kind::Salloc { name, body, .. } => {
            locals.push(name.clone());
            names(body, globals, locals, wrong);
            locals.pop();
        }
        _ => {
            for part in e.parts_mut() {
                names(part, globals, locals, wrong);
            }
        }
    }
}

/// The expression ends in `ret z`, on every way.
fn tail(e: &Expr, z: &str, wrong: &mut Vec<Wrong>) {
    match &e.kind {
        Kind::Let { value, body, .. } => {
            inside(value, wrong);
            tail(body, z, wrong);
        }
        Kind::Salloc { body, .. } => tail(body, z, wrong),
        Kind::Seq(a, b) => {
            inside(a, wrong);
            tail(b, z, wrong);
        }
        Kind::If0(c, a, b) => {
            inside(c, wrong);
            tail(a, z, wrong);
            tail(b, z, wrong);
        }
        Kind::Ret(name, value) if name == z => inside(value, wrong),
        Kind::Ret(name, _) => {
            let message = format!("this returns from `{name}`, but it is in `{z}`");
            wrong.push(Wrong::new(e.span, message));
        }
        _ => wrong.push(Wrong::new(
            e.span,
            format!("`{z}` must end in `ret {z}` on every way"),
        )),
    }
}

/// There is no `ret` in it.
fn inside(e: &Expr, wrong: &mut Vec<Wrong>) {
    if let Kind::Ret(..) = e.kind {
        wrong.push(Wrong::new(e.span, "`ret` can only be the last thing"));
        return;
    }
    let parts: Vec<&Expr> = match &e.kind {
        Kind::Let { value, body, .. } => vec![value, body],
        Kind::Salloc { body, .. } => vec![body],
        Kind::Seq(a, b) => vec![a, b],
        Kind::If0(a, b, c) => vec![a, b, c],
        _ => e.evaluated(),
    };
    parts.into_iter().for_each(|p| inside(p, wrong));
}
