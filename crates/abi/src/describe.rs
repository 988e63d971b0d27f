//! Messages and logs need a call in one line.
//!
//! The line shows numbers, not decoded structures: pointers in hexadecimal, small values in decimal, the
//! names of commands and errors. Guest memory is not consulted, so it works on a bare log entry.

use crate::table::{self, Effect, Entry, Rule};
use crate::{Call, errno};

/// One line for a call and, once there is one, its result: `openat(AT_FDCWD, 0x7ffe0010, 0x80000, 438) = 3`.
pub fn describe(call: &Call, ret: Option<i64>) -> String {
    let entry = table::entry(call.nr);
    let argc = entry.map_or(6, |entry| entry.argc.into());
    let args: Vec<String> = (0..argc)
        .map(|index| argument(entry, call, index))
        .collect();
    let mut line = format!("{}({})", name(call), args.join(", "));
    if let Some(ret) = ret {
        line.push_str(" = ");
        line.push_str(&result(ret));
    }
    line
}

/// The name of a call, with its command if it is multiplexed: `ioctl TCGETS`, `ioctl 0x1234`.
pub(crate) fn title(call: &Call) -> String {
    match table::entry(call.nr).map(|entry| entry.rule) {
        Some(Rule::Commands(commands)) => {
            let command = match commands.find(call) {
                Some(command) => command.name.to_owned(),
                None => format!("{:#x}", (commands.select)(call)),
            };
            format!("{} {command}", name(call))
        }
        _ => name(call),
    }
}

fn name(call: &Call) -> String {
    match table::entry(call.nr) {
        Some(entry) => entry.name.to_owned(),
        None => format!("syscall_{}", call.nr as i64),
    }
}

fn argument(entry: Option<&Entry>, call: &Call, index: usize) -> String {
    let value = call.args[index];
    if let Some(entry) = entry {
        if let Rule::Commands(commands) = entry.rule
            && usize::from(commands.arg) == index
            && let Some(command) = commands.find(call)
        {
            return command.name.to_owned();
        }
        if entry.effects.iter().any(|effect| points(effect, index)) {
            return if value == 0 {
                "NULL".to_owned()
            } else {
                format!("{value:#x}")
            };
        }
        const AT_FDCWD: i32 = -100;
        if value as i32 == AT_FDCWD && matches!(value >> 32, 0 | 0xffff_ffff) {
            return "AT_FDCWD".to_owned();
        }
    }
    number(value)
}

/// Whether an effect goes through the pointer in an argument.
fn points(effect: &Effect, index: usize) -> bool {
    match *effect {
        Effect::In(arg, _)
        | Effect::Part(arg, ..)
        | Effect::Text(arg)
        | Effect::Texts(arg)
        | Effect::Gather(arg, _)
        | Effect::Out(arg, _)
        | Effect::Opt(arg, _)
        | Effect::Late(arg, ..)
        | Effect::InOut(arg, _)
        | Effect::Scatter(arg, _) => usize::from(arg) == index,
        Effect::Told(buffer, size) => usize::from(buffer) == index || usize::from(size) == index,
        Effect::Reads(_) | Effect::By(_) => false,
    }
}

fn number(value: u64) -> String {
    const LARGEST_DECIMAL: u64 = 0xffff;
    let signed = value as i64;
    if (-4095..0).contains(&signed) {
        return signed.to_string();
    }
    // A negative `int` usually arrives zero-extended.
    if value >> 32 == 0 && (-4095..0).contains(&(value as i32)) {
        return (value as i32).to_string();
    }
    if value <= LARGEST_DECIMAL {
        value.to_string()
    } else {
        format!("{value:#x}")
    }
}

fn result(ret: i64) -> String {
    match errno::of(ret) {
        Some(code) => match errno::name(code) {
            Some(name) => format!("-{name}"),
            None => ret.to_string(),
        },
        None => number(ret as u64),
    }
}
