//! Which functions there are, while modules are loaded.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use guest::{Guest, Halt, StopAt, Until};
use image::{ModuleInfo, Program};
use rules::machine::Codebase;
use rules::machine::functions::{Function, Role, SHARED, known};
use rules::syntax::Pattern;
use rules::term::Pair;

use super::select::Chosen;
use crate::moment;

/// System calls after which other modules may be there: mmap, mprotect, munmap, execve.
const LOADING: [u64; 4] = [9, 10, 11, 59];
/// The call that comes behind the last of them, before code of a new module runs.
const CLOSE: u64 = 3;
/// Functions that are chosen when the program starts, of which it is awaited. A recorded guest can be stopped at half
/// of the places of a guest.
const MOST_CHOSEN: usize = 200;

/// How the name of a function begins that Memcheck calls in place of another one. A number follows, and which one.
const REPLACEMENT: &str = "_vgr";

/// Executable mappings: where, and of which file.
pub(super) type Modules = Vec<(u64, PathBuf)>;

/// Keeps the machine's view of the code up to date while modules are loaded.
pub(super) struct Loader {
    pub(super) codebase: Arc<Mutex<Codebase>>,
    wanted: HashMap<String, Role>,
    /// Allocators that the user declared.
    pairs: Vec<Pair>,
    /// Why some of them are not followed, as far as is known.
    lacks: Vec<String>,
    patterns: Vec<Pattern>,
    asks_pointers: bool,
    /// Code that chooses a function, and the function's number.
    choosers: Vec<(u64, u16)>,
    chosen: Vec<u64>,
    /// Functions that were chosen.
    resolved: Vec<(u64, u16)>,
    /// Where `main` begins, and where it returns to.
    main: Option<u64>,
    back: Option<u64>,
    /// Functions that end the program.
    exits: Vec<u64>,
    ended: bool,
    /// The executable mappings as they were last looked at.
    modules: Modules,
    stale: bool,
    /// A call that may change them is about to be made.
    loading: bool,
}

/// Why the guest is stopped somewhere.
#[derive(Clone, Copy)]
enum Place {
    /// Code that chooses a function, by its place among these.
    Chooser(usize),
    /// `main` begins.
    Main,
    /// `main` has returned.
    Returned,
    /// A function that ends the program begins.
    Exit,
}

impl Loader {
    pub(super) fn new(chosen: &Chosen) -> Loader {
        Loader {
            codebase: Arc::default(),
            wanted: known(&chosen.pairs)
                .into_iter()
                .map(|f| (f.name, f.role))
                .rev()
                .collect(),
            pairs: chosen.pairs.clone(),
            lacks: Vec::new(),
            patterns: chosen.rules.iter().flat_map(|r| r.functions()).collect(),
            asks_pointers: chosen.rules.iter().any(|r| r.asks_pointers()),
            choosers: Vec::new(),
            chosen: Vec::new(),
            resolved: Vec::new(),
            main: None,
            back: None,
            exits: Vec::new(),
            ended: false,
            modules: Vec::new(),
            stale: true,
            loading: true,
        }
    }

    /// Some rule asks what can be found in memory.
    pub(super) fn asks_pointers(&self) -> bool {
        self.asks_pointers
    }

    /// What the mapped files say, as they were last looked at.
    pub(super) fn program(&self) -> Arc<Program> {
        let codebase = self.codebase.lock();
        let codebase = codebase.expect("nobody panics while holding it");
        codebase.program.clone().unwrap_or_default()
    }

    /// Declared allocators that were not followed, and why.
    pub(super) fn take_lacks(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lacks)
    }

    /// Functions of declared allocators that are not looked for. If one of the two is not there or was inlined somewhere,
    /// or the compiler has made a copy of it that takes its parameters otherwise, blocks would be freed that were never
    /// seen to be made.
    fn left_out(&mut self, program: &Program) -> Vec<String> {
        let mut out = Vec::new();
        self.lacks.clear();
        for p in &self.pairs {
            let both = [&p.allocate, &p.release];
            // A `.cold` part is jumped to, not called.
            let copy_of = |raw: &str, name: &str| {
                let tail = raw.strip_prefix(name).and_then(|t| t.strip_prefix('.'));
                tail.is_some_and(|t| !t.starts_with("cold"))
            };
            let there = program
                .functions_named(|raw| both.iter().any(|name| raw == *name || copy_of(raw, name)));
            let copy = there.iter().find(|f| !both.contains(&&f.name));
            let missing = both
                .iter()
                .find(|name| there.iter().all(|f| f.name != ***name));
            let why = match (copy, missing) {
                (Some(f), _) => format!(
                    "the compiler has made `{}` of it; build without optimisation, or with -fno-ipa-cp -fno-ipa-sra \
                     -fno-partial-inlining",
                    f.name
                ),
                (None, Some(name)) => format!(
                    "there is no function `{name}` in the program; one that was inlined everywhere is kept apart by \
                     -fno-inline"
                ),
                (None, None) => match both.iter().find(|name| program.is_inlined(name)) {
                    Some(name) => format!(
                        "`{name}` was inlined where some functions call it; build with -fno-inline"
                    ),
                    None => continue,
                },
            };
            self.lacks.push(format!(
                "the allocator {} / {} was not followed: {why}",
                p.allocate, p.release
            ));
            out.extend(both.map(Clone::clone));
        }
        out
    }

    /// Where the guest is to be stopped.
    fn places(&self) -> impl Iterator<Item = (u64, Place)> {
        let choosers = self.choosers.iter().enumerate();
        let choosers = choosers.map(|(n, (pc, _))| (*pc, Place::Chooser(n)));
        let main = self.main.map(|pc| (pc, Place::Main));
        let back = self.back.map(|pc| (pc, Place::Returned));
        let exits = self.exits.iter().map(|pc| (*pc, Place::Exit));
        let ends = main.into_iter().chain(back).chain(exits);
        choosers.chain(ends.filter(|_| !self.ended))
    }

    pub(super) fn stops(&self) -> Vec<StopAt> {
        self.places().map(|(pc, _)| StopAt { pc, nth: 1 }).collect()
    }

    /// System calls at which the mappings are looked at. A program may close files all the time.
    pub(super) fn calls(&self) -> Vec<u64> {
        let close = self.loading.then_some(CLOSE);
        LOADING.into_iter().chain(close).collect()
    }

    pub(super) fn refresh(&mut self, guest: &mut dyn Guest) -> Result<(), guest::Error> {
        if !std::mem::take(&mut self.stale) {
            return Ok(());
        }
        let mappings = guest.mappings()?;
        let code = mappings.iter().filter(|m| m.protection.execute);
        let modules: Vec<_> = code.map(|m| (m.start, m.name.clone())).collect();
        if modules == self.modules {
            return Ok(());
        }
        if self.modules.iter().any(|m| !modules.contains(m)) {
            // The machine may be behind: it has to know code that is gone as what it was.
            guest.let_tape_be_heard()?;
            let there = |at: u64| {
                let code = mappings.iter().find(|m| (m.start..m.end).contains(&at));
                code.is_some_and(|m| self.modules.iter().any(|k| k.0 == m.start && k.1 == m.name))
            };
            self.chosen.retain(|at| there(*at));
            self.back = self.back.filter(|at| there(*at));
            self.resolved.retain(|(at, _)| there(*at));
        }
        self.modules = modules;
        let program = moment::program(&mappings, guest.names());
        let left_out = self.left_out(&program);
        let role = |name: &str| {
            let role = self.wanted.get(name).cloned();
            role.filter(|_| !left_out.iter().any(|l| l == name))
        };
        let asked = |name: &str| self.patterns.iter().any(|p| p.matches(name));
        let mut found = program.functions_named(|name| {
            role(name).is_some() || asked(name) || name.starts_with(REPLACEMENT)
        });
        let replaced: HashSet<String> = found.iter().filter_map(|f| replaced(&f.name)).collect();
        if !replaced.is_empty() {
            let unknown = |name: &str| role(name).is_none() && !asked(name);
            found.extend(program.functions_named(|n| replaced.contains(n) && unknown(n)));
        }
        found.retain(|f| !f.name.starts_with(REPLACEMENT));
        let library = library(&program);
        let in_library = |entry: u64| library.iter().any(|(a, b)| (*a..*b).contains(&entry));
        let mut codebase = self
            .codebase
            .lock()
            .expect("nobody panics while holding it");
        codebase.entries.clear();
        self.choosers.clear();
        self.exits.clear();
        self.main = None;
        let mut entries = Vec::new();
        for f in found {
            let role = role(&f.name).filter(|r| !r.is_of_library() || in_library(f.entry));
            let role = match role {
                Some(role) => role,
                None if replaced.contains(&f.name) => Role::Replaced,
                None if asked(&f.name) => Role::Noted,
                None => continue,
            };
            match role {
                Role::Ends => self.exits.push(f.entry),
                _ if f.name == "main" && self.back.is_none() => self.main = Some(f.entry),
                _ => {}
            }
            let function = Function { name: f.name, role };
            let n = match codebase
                .functions
                .iter()
                .position(|known| *known == function)
            {
                Some(n) => n,
                None => {
                    codebase.functions.push(function);
                    codebase.functions.len() - 1
                }
            };
            entries.push((f.entry, n as u16, f.chooses));
        }
        for (entry, n, chooses) in entries {
            if chooses {
                if !self.chosen.contains(&entry) && self.choosers.len() < MOST_CHOSEN {
                    self.choosers.push((entry, n));
                }
            } else {
                codebase.add_entry(entry, n);
            }
        }
        for (entry, n) in &self.resolved {
            codebase.add_entry(*entry, *n);
        }
        let shared = |name: &str| SHARED.iter().any(|list| list.contains(&name));
        codebase.stubs.clear();
        for (stub, name) in program.stubs_named(shared) {
            let known = codebase.functions.iter().position(|f| f.name == name);
            if let Some(n) = known {
                codebase.stubs.insert(stub, n as u16);
            }
        }
        codebase.loader = called(&program, &["ld-linux"]);
        codebase.library = library;
        codebase.program = Some(Arc::new(program));
        let probes = codebase.probes();
        drop(codebase);
        guest.probe(probes);
        Ok(())
    }

    /// The guest stands before one of the system calls.
    pub(super) fn called(&mut self, nr: u64) {
        self.stale = true;
        self.loading = nr != CLOSE;
    }

    /// The guest stands at one of the stops. If the program is about to end, for the first time: the step that counts as
    /// its end. `main` may end by a jump to another function, so it is not its last instruction that is waited for.
    pub(super) fn stopped(
        &mut self,
        n: usize,
        guest: &mut dyn Guest,
    ) -> Result<Option<u64>, guest::Error> {
        let place = self.places().nth(n);
        match place.map(|(_, place)| place) {
            None => Ok(None),
            Some(Place::Chooser(n)) => self.choose(n, guest).map(|()| None),
            Some(Place::Main) => {
                self.main = None;
                self.back = return_address(guest);
                Ok(None)
            }
            Some(Place::Exit) => {
                self.ended = true;
                guest.step().map(Some)
            }
            Some(Place::Returned) => {
                self.ended = true;
                // It is about to end where it returns.
                guest.step().map(|step| step.checked_sub(1))
            }
        }
    }

    /// The guest stands before code that chooses a function: which one?
    fn choose(&mut self, n: usize, guest: &mut dyn Guest) -> Result<(), guest::Error> {
        let (chooser, function) = self.choosers.remove(n);
        self.chosen.push(chooser);
        let Some(back) = return_address(guest) else {
            return Ok(());
        };
        let until = Until {
            stops: vec![StopAt { pc: back, nth: 1 }],
            ..Until::default()
        };
        if !matches!(guest.run(&until)?, Halt::Stop(_)) {
            return Ok(());
        }
        let entry = guest.regs().rax;
        self.resolved.push((entry, function));
        let mut codebase = self
            .codebase
            .lock()
            .expect("nobody panics while holding it");
        codebase.add_entry(entry, function);
        let probes = codebase.probes();
        drop(codebase);
        guest.probe(probes);
        Ok(())
    }
}

/// The function of the program that a function with this name is to replace.
fn replaced(name: &str) -> Option<String> {
    let (number, which) = name.strip_prefix(REPLACEMENT)?.split_at_checked(5)?;
    // `ZU`: the name is as it is. `NONE`: it is in a file that is no library.
    let which = which.strip_prefix("ZU_NONE_")?;
    let numbered = number.bytes().all(|b| b.is_ascii_digit());
    numbered.then(|| which.to_owned())
}

/// Where the C library and the loader are.
fn library(program: &Program) -> Vec<(u64, u64)> {
    called(program, &["libc.so", "ld-linux"])
}

/// Where the files are whose names begin with one of these.
fn called(program: &Program, beginnings: &[&str]) -> Vec<(u64, u64)> {
    let is = |m: &ModuleInfo| {
        let name = m.name.file_name().unwrap_or_default().to_string_lossy();
        beginnings.iter().any(|b| name.starts_with(b))
    };
    let modules = program.modules().into_iter();
    modules.filter(is).map(|m| (m.start, m.end)).collect()
}

/// Where the function that the guest stands at the beginning of will return to.
fn return_address(guest: &dyn Guest) -> Option<u64> {
    let mut word = [0; 8];
    let got = guest.read(guest.regs().rsp, &mut word);
    (got == 8).then(|| u64::from_le_bytes(word))
}
