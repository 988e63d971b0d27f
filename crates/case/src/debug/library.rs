//! Breakpoints at calls of library functions, with conditions on what the call does.
//!
//! The guest is stopped at the entry of the function, and what the condition asks about is found out
//! by letting the call happen: to its return for what it returns, with a watch for what it touches.
//! Then the guest is taken back to the instruction that made the call.

use std::str::FromStr;

use guest::{StopAt, Until};

use super::{Session, Watch, Why};
use crate::Error;
use crate::frames;
use crate::set::look;
use crate::slice::number;

/// What must hold of a call for it to stop the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    Always,
    /// Its argument, from 1, is this.
    Argument(u32, u64),
    Returns(u64),
    Touches(Watch),
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = "write argN==VALUE, ret==VALUE, or write|read|access ADDRESS [SIZE]";
        let value = |t: &str| number(t.trim()).ok_or(format!("`{t}` is not a number; {form}"));
        if let Some((what, is)) = text.split_once("==") {
            let what = what.trim();
            if what == "ret" {
                return Ok(Condition::Returns(value(is)?));
            }
            let n = what.strip_prefix("arg").and_then(|n| n.parse().ok());
            return match n {
                Some(n @ 1..=6) => Ok(Condition::Argument(n, value(is)?)),
                _ => Err(format!("`{what}` is none of arg1 to arg6 and ret; {form}")),
            };
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        let (kind, addr, len) = match words[..] {
            [kind, addr] => (kind, addr, "1"),
            [kind, addr, len] => (kind, addr, len),
            _ => return Err(form.to_owned()),
        };
        let (read, write) = match kind {
            "write" => (false, true),
            "read" => (true, false),
            "access" => (true, true),
            _ => return Err(format!("`{kind}` is not known; {form}")),
        };
        Ok(Condition::Touches(Watch {
            addr: value(addr)?,
            len: value(len)?.max(1),
            read,
            write,
        }))
    }
}

/// A breakpoint at the calls of a function.
#[derive(Clone, Debug)]
pub struct LibraryBreak {
    pub id: u32,
    pub function: String,
    pub entries: Vec<u64>,
    pub condition: Condition,
}

impl Session {
    /// Stops before calls of a function.
    pub fn add_library_break(
        &mut self,
        function: &str,
        condition: Condition,
    ) -> Result<u32, Error> {
        let program = self.program()?;
        let list = program.addresses_of_function(function);
        let named = program.functions_named(|name| name == function);
        let choosers: Vec<u64> = (named.iter().filter(|f| f.chooses))
            .map(|f| f.entry)
            .collect();
        // A stub of the same name leads to the function itself.
        let mut entries: Vec<u64> = list.iter().map(|f| f.entry).collect();
        for entry in entries.iter_mut().filter(|e| choosers.contains(e)) {
            // What is called is not this, but what it returns.
            let chosen = self.replay.branch(|copy| copy.call(*entry, &[]));
            *entry = chosen.map_err(|e| self.wrong(e))?;
        }
        entries.sort_unstable();
        entries.dedup();
        if entries.is_empty() {
            return Err(Error::NoSuchPlace(format!(
                "no file that is loaded has a function `{function}`; libraries are loaded after the first instructions: go on to main first"
            )));
        }
        self.last_library_break += 1;
        self.library_breaks.push(LibraryBreak {
            id: self.last_library_break,
            function: function.to_owned(),
            entries,
            condition,
        });
        Ok(self.last_library_break)
    }

    pub fn library_breaks(&self) -> &[LibraryBreak] {
        &self.library_breaks
    }

    pub fn delete_library_break(&mut self, id: u32) -> Result<(), Error> {
        let at = self.library_breaks.iter().position(|b| b.id == id);
        let at = at.ok_or_else(|| Error::Request(format!("there is no lbreak {id}")))?;
        self.library_breaks.remove(at);
        Ok(())
    }

    /// Stops at the entries of these functions, for a run.
    pub(super) fn library_stops(&self) -> Vec<StopAt> {
        let entries = self.library_breaks.iter().flat_map(|b| &b.entries);
        let own = entries.filter(|pc| !self.breakpoints.contains_key(pc));
        own.map(|&pc| StopAt { pc, nth: 1 }).collect()
    }

    /// The guest is at the entry of such a function: whether it stops for it, and then at the call.
    pub(super) fn at_library(&mut self) -> Result<Option<Why>, Error> {
        let pc = self.replay.regs().rip;
        let here = self
            .library_breaks
            .iter()
            .filter(|b| b.entries.contains(&pc));
        let list: Vec<LibraryBreak> = here.cloned().collect();
        let entry = self.step()?;
        if self.library_passed.take() == Some(entry) {
            return Ok(None);
        }
        for b in list {
            if self.holds(b.condition, entry)? {
                self.go(entry)?;
                self.back_to_call(entry)?;
                self.library_passed = Some(entry);
                return Ok(Some(Why::Library(b.id)));
            }
        }
        Ok(None)
    }

    fn holds(&mut self, condition: Condition, entry: u64) -> Result<bool, Error> {
        let r = self.replay.regs();
        let (until, wanted) = match condition {
            Condition::Always => return Ok(true),
            Condition::Argument(n, value) => {
                let args = [r.rdi, r.rsi, r.rdx, r.rcx, r.r8, r.r9];
                return Ok(args[n as usize - 1] == value);
            }
            Condition::Returns(value) => (Until::default(), Some(value)),
            Condition::Touches(w) => {
                let watches = vec![guest::Watch {
                    addr: w.addr,
                    len: w.len,
                    read: w.read,
                    write: w.write,
                }];
                let until = Until {
                    watches,
                    ..Until::default()
                };
                (until, None)
            }
        };
        let touched = self.until_return(until)?;
        let holds = wanted.map_or(touched, |v| self.replay.regs().rax == v);
        if !holds && (!self.breakpoints.is_empty() || !self.watches.is_empty()) {
            // What lies inside of the call is the debugger's to stop at.
            self.go(entry)?;
        }
        Ok(holds)
    }

    /// From the entry of a function back to the instruction that called it.
    fn back_to_call(&mut self, entry: u64) -> Result<(), Error> {
        let rsp = self.replay.regs().rsp;
        let mut word = [0; 8];
        self.replay.read(rsp, &mut word);
        let home = u64::from_le_bytes(word);
        let call = look(&mut self.replay, |m| frames::call_before(m, home));
        let Some(call) = call.map_err(|e| self.wrong(e))? else {
            return Ok(());
        };
        let only = std::collections::BTreeMap::from([(call.ip(), 1)]);
        let breakpoints = std::mem::replace(&mut self.breakpoints, only);
        let watches = std::mem::take(&mut self.watches);
        let catch = std::mem::take(&mut self.catch);
        let found = self.back_to_stop(entry);
        (self.breakpoints, self.watches, self.catch) = (breakpoints, watches, catch);
        if found? != Why::Breakpoint {
            self.go(entry)?;
        }
        Ok(())
    }
}
