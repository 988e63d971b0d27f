//! Changes of a replay in the user's notation.
//!
//! ```text
//! replace.c:117#3:i=5            before the 3rd execution of line 117, i becomes 5
//! 0x5555555551c3#3:eax=5         before the 3rd execution of that instruction
//! 0x5555555551c3#3+:eax=5        after it
//! 0x5555555551c3#3:mem=5         what the instruction has in memory, wherever that is
//! 0x5555555551c3#3:[0x7ffe10]:4=5,ecx=1      four bytes of memory, and a register
//! 0x5555555551c3#3:branch        a conditional branch goes the other way
//! 0x5555555551c3#3:skip          a call is left out
//! ```

use std::fmt;

use guest::Replay;
use locate::{Change, Location, When, trials::register_name};

use crate::moment::Moment;

/// Where a change is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    Address(u64),
    Line { file: String, line: u32 },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Location(Location),
    /// The memory operand of the instruction.
    Operand,
    Variable(String),
}

/// One `--set`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetRequest {
    pub(crate) place: Where,
    pub(crate) nth: u64,
    pub(crate) when: When,
    /// Empty: the branch goes the other way, or the call is left out.
    pub(crate) values: Vec<(Target, i128)>,
    typed: String,
}

/// As it was typed.
impl fmt::Display for SetRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.typed)
    }
}

impl std::str::FromStr for SetRequest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = "write PLACE#N:NAME=VALUE or PLACE#N:branch, such as file.c:17#1:i=5";
        let wrong = |what: &str| format!("{what}; {form}");
        let (place, rest) = text.split_once('#').ok_or_else(|| wrong("no `#` in it"))?;
        let (nth, what) = rest
            .split_once(':')
            .ok_or_else(|| wrong("no `:` after `#N`"))?;
        let (nth, when) = match nth.strip_suffix('+') {
            Some(nth) => (nth, When::After),
            None => (nth, When::Before),
        };
        let nth: u64 = nth.parse().map_err(|_| wrong("N is not a number"))?;
        if nth == 0 {
            return Err(wrong("executions are counted from 1"));
        }
        let place = if place.starts_with("0x") {
            Where::Address(
                number(place).ok_or_else(|| wrong("the address is not a number"))? as u64,
            )
        } else {
            let (file, line) = place.rsplit_once(':').ok_or_else(|| wrong("no line"))?;
            Where::Line {
                file: file.to_owned(),
                line: line
                    .parse()
                    .map_err(|_| wrong("the line is not a number"))?,
            }
        };
        let mut values = Vec::new();
        if what != "branch" && what != "skip" {
            for one in what.split(',') {
                let (name, value) = one.rsplit_once('=').ok_or_else(|| wrong("no `=`"))?;
                let value =
                    number(value.trim()).ok_or_else(|| wrong("the value is not a number"))?;
                values.push((
                    target(name.trim()).ok_or_else(|| wrong("no such place"))?,
                    value,
                ));
            }
        }
        Ok(SetRequest {
            place,
            nth,
            when,
            values,
            typed: text.to_owned(),
        })
    }
}

fn number(text: &str) -> Option<i128> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text),
    };
    let n = match digits.strip_prefix("0x") {
        Some(hex) => i128::from_str_radix(hex, 16).ok()?,
        None => digits.parse().ok()?,
    };
    (n <= i128::from(u64::MAX)).then_some(sign * n)
}

fn target(name: &str) -> Option<Target> {
    if name == "mem" {
        return Some(Target::Operand);
    }
    if let Some(rest) = name.strip_prefix('[') {
        let (address, size) = rest.split_once("]:")?;
        let address = u64::try_from(number(address)?).ok()?;
        let size: u8 = size.parse().ok().filter(|s| matches!(s, 1 | 2 | 4 | 8))?;
        return Some(Target::Location(Location::Memory { address, size }));
    }
    for number in 0..16 {
        for (size, high) in [(8, false), (4, false), (2, false), (1, false), (1, true)] {
            if (!high || number < 4) && register_name(number, size, high) == name {
                return Some(Target::Location(Location::Register { number, size, high }));
            }
        }
    }
    let ok = name.chars().all(|c| c.is_alphanumeric() || c == '_') && !name.is_empty();
    ok.then(|| Target::Variable(name.to_owned()))
}

/// A replacement as the text that makes it happen again.
pub(crate) struct Notation<'a> {
    pub(crate) pc: u64,
    pub(crate) nth: u32,
    pub(crate) when: When,
    pub(crate) change: &'a Change,
    pub(crate) is_call: bool,
}

impl fmt::Display for Notation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let after = if self.when == When::After { "+" } else { "" };
        write!(f, "{:#x}#{}{after}:", self.pc, self.nth)?;
        let Change::Set(list) = self.change else {
            return f.write_str(if self.is_call { "skip" } else { "branch" });
        };
        for (i, (location, value)) in list.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            match *location {
                // Replacements are of operands, and this one is where it is in that run only.
                Location::Memory { size, .. } => {
                    write!(f, "mem={}", locate::signed(*value, size))?;
                }
                Location::Register { number, size, high } => {
                    let value = locate::signed(*value, size);
                    write!(f, "{}={value}", register_name(number, size, high))?;
                }
            }
        }
        Ok(())
    }
}

/// Shows the stopped guest to `f`.
pub(crate) fn look<T>(
    replay: &mut Replay,
    f: impl FnOnce(&Moment<'_>) -> T,
) -> Result<T, guest::Error> {
    let mappings = replay.mappings()?;
    let step = replay.step()?;
    let read = |addr: u64, buf: &mut [u8]| replay.read(addr, buf);
    let m = Moment::new(step, replay.regs(), &mappings, replay.names(), &read, None);
    Ok(f(&m))
}

/// Where a variable that is in scope is in memory.
pub(crate) fn variable(m: &Moment<'_>, name: &str) -> Option<Location> {
    let frames = m.program.unwind(&m.registers(), m.memory(), 1);
    let locals = frames
        .first()
        .map(|f| m.program.locals(f, m.memory()))
        .unwrap_or_default();
    let v = locals
        .into_iter()
        .find(|v| v.name == name)
        .or_else(|| m.program.global(name, m.memory()))?;
    let size = v.size.filter(|s| matches!(s, 1 | 2 | 4 | 8))?;
    Some(Location::Memory {
        address: v.address?,
        size: size as u8,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notation_comes_back() {
        for text in [
            "0x5555555551c3#3:eax=5",
            "0x5555555551c3#3+:ecx=-1",
            "0x5555555551c3#1:mem=5,dil=7",
            "0x5555555551c3#12:branch",
            "0x5555555551c3#12:skip",
        ] {
            let set: SetRequest = text.parse().expect("it is well formed");
            let operand = Location::Memory {
                address: 0x7ffe10,
                size: 4,
            };
            let list = set.values.iter().map(|(t, v)| match t {
                Target::Location(l) => (*l, *v as u64),
                Target::Operand => (operand, *v as u64),
                Target::Variable(_) => panic!("no variable here"),
            });
            let change = if set.values.is_empty() {
                Change::Branch(0)
            } else {
                Change::Set(list.collect())
            };
            let Where::Address(pc) = set.place else {
                panic!("an address")
            };
            let again = Notation {
                pc,
                nth: set.nth as u32,
                when: set.when,
                change: &change,
                is_call: text.ends_with("skip"),
            };
            assert_eq!(again.to_string(), text);
        }
        let set: SetRequest = "0x1#1:[0x7ffe10]:4=5".parse().expect("it is well formed");
        let at = Location::Memory {
            address: 0x7ffe10,
            size: 4,
        };
        assert_eq!(set.values, [(Target::Location(at), 5)]);
        for bad in [
            "",
            "x.c:1",
            "x.c:1#0:a=1",
            "x.c#1:a=1",
            "x.c:1#1:a",
            "0x1#1:[5=4",
        ] {
            assert!(bad.parse::<SetRequest>().is_err(), "{bad}");
        }
    }
}
