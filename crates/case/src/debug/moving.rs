//! Variables that are put elsewhere, one behind the other in a new order.
//!
//! What a program does must not depend on which of its variables are neighbours. Where it does, something is written
//! or read beyond the end of a variable, and another order shows it elsewhere or makes it crash.
//!
//! Global variables go to memory of their own. The code of their file is made to refer to them there, what is in them
//! is copied, and words that point to them, in memory and registers, are made to point to the new place: tables of
//! the linker, initialised pointers, pointers that the program has made so far. `frame.rs` is about local variables,
//! `references.rs` about what in code refers to a variable.

mod frame;
mod references;

use std::fmt;
use std::str::FromStr;

use guest::{Edit, Reference};
use image::{Extent, Memory};

use self::references::{Layout, Piece, Use};
use super::Session;
use super::timeline::What;
use crate::Error;
use crate::moment::Guest;
use crate::trace::{Action, Values};

/// Variables to be put one behind the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveRequest {
    /// Whose local variables they are.
    pub function: Option<String>,
    pub names: Vec<String>,
}

impl FromStr for MoveRequest {
    type Err = String;

    /// `[FUNCTION:]NAME[,NAME...]`. A name may be an address in the variable.
    fn from_str(text: &str) -> Result<MoveRequest, String> {
        let form = "write the names of global variables as NAME,NAME..., of local ones as FUNCTION:NAME,NAME...";
        let text = text.trim();
        // `::` is a part of names.
        let bytes = text.as_bytes();
        let is_colon = |at: usize| bytes.get(at) == Some(&b':');
        let single =
            |at: &usize| is_colon(*at) && !is_colon(at + 1) && !is_colon(at.wrapping_sub(1));
        let (function, list) = match (0..text.len()).rev().find(single) {
            Some(at) => (Some(text[..at].trim()), &text[at + 1..]),
            None => (None, text),
        };
        if function.is_some_and(str::is_empty) {
            return Err(format!("there is no function before the `:`; {form}"));
        }
        let split = |c: char| c == ',' || c.is_whitespace();
        let names = list.split(split).filter(|n| !n.is_empty());
        let names: Vec<String> = names.map(str::to_owned).collect();
        if names.is_empty() {
            return Err(form.to_owned());
        }
        for (n, name) in names.iter().enumerate() {
            if names[..n].contains(name) {
                return Err(format!("`{name}` is there twice"));
            }
        }
        Ok(MoveRequest {
            function: function.map(str::to_owned),
            names,
        })
    }
}

impl fmt::Display for MoveRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("move ")?;
        if let Some(function) = &self.function {
            write!(f, "{function}:")?;
        }
        f.write_str(&self.names.join(","))
    }
}

const PAGE: u64 = 4096;
/// Variables that are aligned to more are not written as if they were.
const MOST_ALIGNED: u64 = 32;
/// What is read at a time where pointers are looked for.
const CHUNK: u64 = 1 << 20;

/// The alignment that code may count on.
fn alignment(begin: u64, size: u64) -> u64 {
    // Nothing larger fits into it.
    let natural = size.checked_ilog2().map_or(1, |n| 1 << n);
    let natural = MOST_ALIGNED.min(natural);
    natural.min(1 << begin.trailing_zeros().min(32))
}

impl Session {
    /// Puts variables one behind the other. Says at which step that takes effect: local ones before their function
    /// is called, global ones here, but not before `main` begins.
    pub fn move_variables(&mut self, request: &MoveRequest) -> Result<u64, Error> {
        self.settle()?;
        let here = self.step()?;
        let result = match &request.function {
            None => self.move_globals(request, here),
            Some(function) => self.move_locals(request, function, here),
        };
        let effect = match result {
            Ok(()) => self.step(),
            Err(e) => Err(e),
        };
        self.stay(here)?;
        effect
    }

    /// Goes to where `main` begins, if that is ahead: what is before it is the linker's and the libraries' affair.
    fn reach_main(&mut self, here: u64) -> Result<Vec<u64>, Error> {
        let named = self.program()?.functions_named(|n| n == "main");
        let mains: Vec<u64> = named.iter().map(|f| f.entry).collect();
        self.go(0)?;
        // The program's file may not be mapped yet where it is known already.
        if mains.is_empty() || !self.find_nth(&mains, 1)? || self.step()? < here {
            self.go(here)?;
        }
        Ok(mains)
    }

    fn move_globals(&mut self, request: &MoveRequest, here: u64) -> Result<(), Error> {
        let mains = self.reach_main(here)?;
        let threads = self.replay.threads().len();
        if threads > 1 {
            return Err(Error::Request(format!(
                "there are {threads} threads, any of which may be at work with the variables: move them before the \
                 second one begins"
            )));
        }
        let program = self.program()?;
        let objects = program.objects(|_| false);
        // The program's own come first.
        let own = mains.first().and_then(|at| program.range_around(*at));
        let mut found: Vec<&Extent> = Vec::new();
        for name in &request.names {
            let one = find_global(&objects, name, own)?;
            if found.iter().any(|f| f.begin == one.begin) {
                return Err(Error::Request(format!("`{name}` is there twice")));
            }
            found.push(one);
        }
        let code = self.program.code_beside(found[0].begin);
        let elsewhere = |e: &&&Extent| self.program.code_beside(e.begin) != code;
        if let Some(other) = found.iter().find(elsewhere) {
            return Err(Error::Request(format!(
                "`{}` and `{}` are in different files: code of one cannot refer to the other's place",
                found[0].name, other.name
            )));
        }
        let mut len = 0;
        let places: Vec<u64> = found
            .iter()
            .map(|e| {
                let at = align_up(len, alignment(e.begin, e.size));
                len = at + e.size;
                at
            })
            .collect();
        let len = align_up(len.max(1), PAGE);
        let near = code.first().map_or(found[0].begin, |c| c.0);
        let room = self
            .replay
            .room_near(near, len)
            .map_err(|e| self.wrong(e))?;
        let Some(room) = room else {
            return Err(Error::Request(format!(
                "there are no {len} free bytes in reach of the program's code"
            )));
        };
        let pieces = found.iter().zip(&places).map(|(e, at)| Piece {
            begin: e.begin,
            end: e.begin + e.size,
            to: room + at,
        });
        let pieces: Vec<Piece> = pieces.collect();
        let moved = |e: &Extent| {
            pieces
                .iter()
                .any(|p| p.begin < e.begin + e.size && e.begin < p.end)
        };
        let others = objects.iter().filter(|e| !moved(e));
        let mut others: Vec<(u64, u64)> = others.map(|e| (e.begin, e.begin + e.size)).collect();
        // Among constants there are such as have no name, strings and tables of the compiler.
        let mappings = self.replay.mappings().map_err(|e| self.wrong(e))?;
        let constant = |p: &&Piece| {
            let mut there = mappings
                .iter()
                .filter(|m| (m.start..m.end).contains(&p.begin));
            there.any(|m| !m.protection.write)
        };
        others.extend(pieces.iter().filter(constant).map(|p| (p.end, p.end)));
        let layout = Layout::new(pieces.clone(), others);
        let references = self.global_references(&code, &layout)?;
        let values = self.pointers(&layout)?;
        let named = found.iter().zip(&pieces);
        let places: Vec<String> = named
            .map(|(e, p)| format!("{} at {:#x}", e.name, p.to))
            .collect();
        let edits = vec![Edit::Map { addr: room, len }, Edit::Refer { references }];
        let action = Action::Move {
            edits,
            values: Box::new(values),
        };
        let what = What::Move(request.clone(), places.join(", "));
        self.change(here, what, action)
    }

    /// What in the code of a file refers to the variables.
    fn global_references(
        &mut self,
        code: &[(u64, u64)],
        layout: &Layout,
    ) -> Result<Vec<Reference>, Error> {
        let memory = Guest(&self.replay);
        let functions: Vec<_> = code
            .iter()
            .map(|(begin, end)| references::decode(&memory, *begin, *end))
            .collect();
        let asked = functions
            .iter()
            .flat_map(|insns| references::questions(insns, layout, &references::absolute));
        let asked = asked.collect();
        let told = self.ask(asked, |_, _, address| Some(address))?;
        let mut out = Vec::new();
        for insns in &functions {
            let list = references::find(insns, layout, &told, &references::absolute);
            out.extend(list.map_err(Error::Request)?);
        }
        Ok(out)
    }

    /// The new contents of the variables, and of all that points to them.
    fn pointers(&mut self, layout: &Layout) -> Result<Values, Error> {
        let mut writes = Vec::new();
        for p in &layout.pieces {
            let mut bytes = vec![0; (p.end - p.begin) as usize];
            if !Guest(&self.replay).read(p.begin, &mut bytes) {
                return Err(Error::Request(format!("{:#x} cannot be read", p.begin)));
            }
            let skew = (p.begin.wrapping_neg() & 7) as usize;
            let (words, _) = bytes[skew.min((p.end - p.begin) as usize)..].as_chunks_mut::<8>();
            for word in words {
                if let Some(to) = layout.follow(u64::from_le_bytes(*word), Use::Pointer) {
                    *word = to.to_le_bytes();
                }
            }
            writes.push((p.to, bytes));
        }
        let mappings = self.replay.mappings().map_err(|e| self.wrong(e))?;
        // Only the program itself has pointers to the end of a variable: the loader knows where a file ends.
        let file = layout
            .pieces
            .first()
            .and_then(|p| self.program.range_around(p.begin));
        let stack = mappings
            .iter()
            .find(|m| (m.start..m.end).contains(&self.replay.regs().rsp));
        let stack = stack.map(|m| (self.replay.regs().rsp, m.end));
        let ends: Vec<(u64, u64)> = file.into_iter().chain(stack).collect();
        for m in &mappings {
            let tables = m.object.1 != 0 && m.protection.read && !m.protection.execute;
            if !m.protection.write && !tables {
                continue;
            }
            let mut at = m.start;
            while at < m.end {
                let mut bytes = vec![0; CHUNK.min(m.end - at) as usize];
                let n = self.replay.read(at, &mut bytes);
                for (i, word) in bytes[..n].as_chunks::<8>().0.iter().enumerate() {
                    let place = at + 8 * i as u64;
                    let done = match ends.iter().any(|(a, b)| (*a..*b).contains(&place)) {
                        true => Use::Pointer,
                        false => Use::Access(1),
                    };
                    if let Some(to) = layout.follow(u64::from_le_bytes(*word), done)
                        && layout.containing(place).is_none()
                    {
                        writes.push((place, to.to_le_bytes().to_vec()));
                    }
                }
                at += bytes.len() as u64;
            }
        }
        let mut regs = self.replay.regs();
        for n in (0..16).filter(|n| *n != 4) {
            let r = guest::register_mut(&mut regs, n);
            *r = layout.follow(*r, Use::Pointer).unwrap_or(*r);
        }
        Ok(Values {
            regs,
            vectors: None,
            writes,
        })
    }
}

fn align_up(n: u64, to: u64) -> u64 {
    n.next_multiple_of(to)
}

/// The variable of a name. Those inside functions have a number behind it.
fn find_global<'a>(
    objects: &'a [Extent],
    name: &str,
    own: Option<(u64, u64)>,
) -> Result<&'a Extent, Error> {
    if let Some(hex) = name.strip_prefix("0x") {
        let at = u64::from_str_radix(hex, 16)
            .map_err(|_| Error::Request(format!("`{name}` is not an address")))?;
        let mut there = objects
            .iter()
            .filter(|e| (e.begin..e.begin + e.size).contains(&at));
        return there
            .next()
            .ok_or_else(|| Error::NoSuchPlace(format!("there is no global variable at {name}")));
    }
    let numbered = |raw: &str| {
        let rest = raw.strip_prefix(name).and_then(|r| r.strip_prefix('.'));
        rest.is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
    };
    let named = |e: &&Extent| {
        e.name == name || numbered(&e.name) || plain(&image::demangle(&e.name)) == name
    };
    let mut list: Vec<&Extent> = objects.iter().filter(named).collect();
    list.dedup_by_key(|e| e.begin);
    let is_own = |e: &&Extent| own.is_some_and(|(a, b)| (a..b).contains(&e.begin));
    if list.iter().any(is_own) {
        list.retain(is_own);
    }
    match list[..] {
        [one] => Ok(one),
        [] => Err(Error::NoSuchPlace(format!(
            "there is no global variable `{name}` in the files that have debug information, or it is each thread's \
             own; a local one is written FUNCTION:{name}"
        ))),
        _ => {
            let places: Vec<String> = list.iter().map(|e| format!("{:#x}", e.begin)).collect();
            Err(Error::Request(format!(
                "there are {} variables `{name}`: give the address of one instead, {}",
                list.len(),
                places.join(" or ")
            )))
        }
    }
}

/// A C++ name without the tag that tells its version of the library.
fn plain(name: &str) -> &str {
    name.split("[abi:").next().unwrap_or(name)
}
