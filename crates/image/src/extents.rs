//! How far variables reach: where each begins and how many bytes it has.

use crate::debug::Die;
use crate::expression::ValuePlace;
use crate::module::Module;
use crate::program::{Memory, NoMemory, Program};
use crate::registers::{KnownRegisters, Registers};
use crate::types::{size_of, type_of};
use crate::unwind::{How, RawFrame};
use crate::view::View;

/// A variable in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    pub name: String,
    pub begin: u64,
    pub size: u64,
}

impl Program {
    /// Global and static variables of files that have debug information, in the order of addresses. Files that
    /// `skip` says of an address of are not looked into.
    pub fn objects(&self, skip: impl Fn(u64) -> bool) -> Vec<Extent> {
        let mut out = Vec::new();
        let of = |m: &&Module| !m.ranges.first().is_some_and(|r| skip(r.0));
        for module in self.all_modules().iter().filter(of) {
            let symbols = module.contents.symbols();
            if module.contents.debug().is_none() || !symbols.complete {
                continue;
            }
            out.extend(symbols.objects().map(|s| Extent {
                begin: module.pc(s.vaddr),
                size: s.size,
                name: s.raw,
            }));
        }
        out.sort_by_key(|e| (e.begin, e.size));
        out
    }

    /// The variables of a frame that have their memory to themselves: where nothing was optimised, all that are
    /// in scope. In optimised code a place may be used for one variable after the other, and a pointer is made
    /// before the scope of its variable begins: there it is those of the outermost scope with which no variable
    /// of an inner scope or inlined function shares memory. Temporary objects have no names, and the memory of a
    /// variable may be theirs until it is declared: it counts from that line on. A function that has functions inside of
    /// it keeps the variables that these use in one block without a name, and hands out pointers to that: it has none.
    pub fn frame_extents(&self, frame: &RawFrame, memory: &dyn Memory) -> Vec<Extent> {
        let Some(view) = View::new(self, frame, memory) else {
            return Vec::new();
        };
        let located = view.module.located(view.module.vaddr(frame.lookup_pc()));
        let Some(function) = located.last() else {
            return Vec::new();
        };
        let outermost = function.scopes.first().map(|s| view.die(s.die));
        if outermost.is_some_and(|scope| has_inner_functions(&view, scope)) {
            return Vec::new();
        }
        let root = Die {
            unit: view.unit,
            offset: view.unit.unit.header.root_offset(),
        };
        let producer = view.debug.string(root, gimli::DW_AT_producer);
        let optimised = producer.is_none_or(|p| {
            let mut levels = p.split(' ').filter(|word| word.starts_with("-O"));
            levels.next_back().is_some_and(|level| level != "-O0")
        });
        let (mut own, mut inner) = (Vec::new(), Vec::new());
        let mut scopes: Vec<Die<'_>> = match optimised {
            true => outermost,
            false => None,
        }
        .into_iter()
        .collect();
        match scopes.first() {
            Some(outermost) => {
                let declared = |name, of| match view.debug.inherited(of, name)?.1 {
                    gimli::AttributeValue::FileIndex(n) => Some(n),
                    other => other.udata_value(),
                };
                let file = declared(gimli::DW_AT_decl_file, *outermost);
                let here = function.place.line.map(u64::from);
                own.extend(extents_in(&view, *outermost, |variable| {
                    let same = declared(gimli::DW_AT_decl_file, variable) == file;
                    let line = declared(gimli::DW_AT_decl_line, variable);
                    !same || line.is_none() || here.is_none() || line <= here
                }));
            }
            None => {
                for scope in &function.scopes {
                    own.extend(extents_in(&view, view.die(scope.die), |_| true));
                }
            }
        }
        while let Some(scope) = scopes.pop() {
            for entry in view.debug.children(scope) {
                let nested = [
                    gimli::DW_TAG_lexical_block,
                    gimli::DW_TAG_inlined_subroutine,
                ];
                if nested.contains(&entry.tag()) && inner.len() < MOST_INNER {
                    let die = view.die(entry.offset());
                    inner.extend(extents_in(&view, die, |_| true));
                    scopes.push(die);
                }
            }
        }
        own.retain(|o| !inner.iter().any(|i| o.overlaps(i)));
        own
    }
}

/// Variables of inner scopes that are looked at.
const MOST_INNER: usize = 10_000;

impl Extent {
    fn overlaps(&self, other: &Extent) -> bool {
        self.begin < other.begin.saturating_add(other.size)
            && other.begin < self.begin.saturating_add(self.size)
    }
}

/// There are functions inside of a function, as GNU C knows them. Types that are declared in a function, and what
/// belongs to them, are something else.
fn has_inner_functions(view: &View<'_>, scope: Die<'_>) -> bool {
    let of = |die: Die<'_>| {
        let children = view.debug.children(die);
        children.iter().any(|c| {
            let only_declared = c.attr_value(gimli::DW_AT_declaration).is_some();
            c.tag() == gimli::DW_TAG_subprogram && !only_declared
        })
    };
    of(scope) || view.debug.origin(scope).is_some_and(of)
}

/// The variables of one scope that are wanted and in memory, whole.
fn extents_in<'a>(
    view: &View<'a>,
    scope: Die<'a>,
    wanted: impl Fn(Die<'a>) -> bool,
) -> Vec<Extent> {
    let mut out = Vec::new();
    for entry in view.debug.children(scope) {
        let is_variable = [gimli::DW_TAG_variable, gimli::DW_TAG_formal_parameter];
        if !is_variable.contains(&entry.tag()) {
            continue;
        }
        let die = view.die(entry.offset());
        if !wanted(die) {
            continue;
        }
        let name = view.debug.string(die, gimli::DW_AT_name);
        let size = size_of(view.debug, type_of(view.debug, die));
        let (Some(name), Some(size)) = (name, size) else {
            continue;
        };
        if let [ValuePlace::Memory { address, len }] = view.places(die, size)[..]
            && len == size
            && size > 0
        {
            out.push(Extent {
                name,
                begin: address,
                size,
            });
        }
    }
    out
}

/// A frame that does not exist, to ask where things are in it. Its registers are far from each other, so that an
/// address tells from which of them it was reckoned.
pub struct Imagined {
    pub frame: RawFrame,
    /// Its address: what the stack pointer was before the call.
    pub base: u64,
}

impl Imagined {
    pub const STACK: u64 = 0x7000_0000_0000;
    pub const FRAME: u64 = 0x7100_0000_0000;

    /// Whether an address was reckoned from the register from which the frame's base was. Only then is it in the frame.
    /// In a function without a frame pointer that register holds anything, such as a pointer to what a variable was read
    /// from and still equals: debuggers are told to look there.
    pub fn holds(&self, address: u64) -> bool {
        self.base.abs_diff(address) < (Imagined::FRAME - Imagined::STACK) / 2
    }
}

impl Program {
    /// A frame of the function that an instruction is in, as it is when that instruction is next.
    pub fn imagined_frame(&self, pc: u64) -> Option<Imagined> {
        let registers = Registers {
            rip: pc,
            rsp: Imagined::STACK,
            rbp: Imagined::FRAME,
            ..Registers::default()
        };
        let mut frame = RawFrame {
            pc,
            cfa: None,
            registers: KnownRegisters::from(&registers),
            is_signal_frame: false,
            is_exact: true,
            how: How::Registers,
        };
        self.find_base(&mut frame, &NoMemory);
        let base = frame.cfa?;
        Some(Imagined { frame, base })
    }

    /// From where to where the file is mapped that an address is in.
    pub fn range_around(&self, address: u64) -> Option<(u64, u64)> {
        let ranges = &self.module_at(address)?.ranges;
        let begin = ranges.iter().map(|r| r.0).min()?;
        Some((begin, ranges.iter().map(|r| r.1).max()?))
    }

    /// The functions of the file that an address is in, as ranges of addresses.
    pub fn code_beside(&self, address: u64) -> Vec<(u64, u64)> {
        let Some(module) = self.module_at(address) else {
            return Vec::new();
        };
        let functions = module.contents.symbols().functions();
        let mut out: Vec<(u64, u64)> = functions
            .map(|f| {
                (
                    module.pc(f.vaddr),
                    module.pc(f.vaddr).saturating_add(f.size),
                )
            })
            .collect();
        out.sort_unstable();
        // Several names for one.
        let mut known = 0;
        out.retain(|(begin, end)| {
            let fresh = *begin >= known && begin < end;
            known = known.max(*end);
            fresh
        });
        out
    }
}
