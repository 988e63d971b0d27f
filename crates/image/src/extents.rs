//! How far variables reach: where each begins and how many bytes it has.

use crate::debug::Die;
use crate::expression::ValuePlace;
use crate::module::Module;
use crate::program::{Memory, Program};
use crate::types::{size_of, type_of};
use crate::unwind::RawFrame;
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
    /// of an inner scope or inlined function shares memory.
    pub fn frame_extents(&self, frame: &RawFrame, memory: &dyn Memory) -> Vec<Extent> {
        let Some(view) = View::new(self, frame, memory) else {
            return Vec::new();
        };
        let located = view.module.located(view.module.vaddr(frame.lookup_pc()));
        let Some(function) = located.last() else {
            return Vec::new();
        };
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
            true => function.scopes.first(),
            false => None,
        }
        .map(|s| view.die(s.die))
        .into_iter()
        .collect();
        match scopes.first() {
            Some(outermost) => own.extend(extents_in(&view, *outermost)),
            None => {
                for scope in &function.scopes {
                    own.extend(extents_in(&view, view.die(scope.die)));
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
                    inner.extend(extents_in(&view, die));
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

/// The variables of one scope that are in memory, whole.
fn extents_in<'a>(view: &View<'a>, scope: Die<'a>) -> Vec<Extent> {
    let mut out = Vec::new();
    for entry in view.debug.children(scope) {
        let is_variable = [gimli::DW_TAG_variable, gimli::DW_TAG_formal_parameter];
        if !is_variable.contains(&entry.tag()) {
            continue;
        }
        let die = view.die(entry.offset());
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
