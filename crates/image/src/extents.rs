//! How far variables reach: where each begins and how many bytes it has.

use crate::debug::Die;
use crate::expression::ValuePlace;
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
    /// Global and static variables of files that have debug information, in the order of addresses.
    pub fn objects(&self) -> Vec<Extent> {
        let mut out = Vec::new();
        for module in self.all_modules() {
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

    /// The variables of a frame that are in memory all the time that the function runs, or, where nothing was
    /// optimised, all that are in scope. Of optimised code, variables of inner scopes are left out: they may share
    /// their memory with others.
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
        let scopes = match optimised {
            true => &function.scopes[..function.scopes.len().min(1)],
            false => &function.scopes[..],
        };
        let mut out = Vec::new();
        for scope in scopes {
            for entry in view.debug.children(view.die(scope.die)) {
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
        }
        out
    }
}
