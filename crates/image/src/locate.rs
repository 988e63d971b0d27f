//! From an address to the source.

use std::path::PathBuf;

use crate::debug::Die;
use crate::demangle::demangle;
use crate::module::Module;
use crate::program::{Function, Place, Program};
use crate::scopes::{Scope, ScopeKind};
use crate::unit::Unit;

/// A function of the source that an address belongs to, with what its variables need.
pub(crate) struct Located {
    /// The scopes from this function's own to the one that contains the next inlined call.
    pub(crate) scopes: Vec<Scope>,
    pub(crate) place: Place,
}

impl Module {
    /// The functions at an address, innermost first. Empty without debug information.
    pub(crate) fn located(&self, vaddr: u64) -> Vec<Located> {
        let contents = &self.contents;
        let (Some(elf), Some(debug)) = (contents.elf(), contents.debug()) else {
            return Vec::new();
        };
        let Some((unit, function)) = debug.function_at(vaddr, elf, &contents.warnings) else {
            return Vec::new();
        };
        let entries = unit.entries(elf, &contents.warnings);
        let scopes = unit.scopes(entries, function.die).around(vaddr);

        let mut out: Vec<Located> = Vec::new();
        for scope in scopes {
            if scope.kind == ScopeKind::Block {
                if let Some(last) = out.last_mut() {
                    last.scopes.push(scope);
                }
                continue;
            }
            // The call site of an inlined function is the current line of the one around it.
            if let Some(outer) = out.last_mut() {
                outer.place.file = scope
                    .call_file
                    .and_then(|index| unit.files().get(index))
                    .map(|path| path.to_path_buf());
                outer.place.line = Some(scope.call_line).filter(|l| *l != 0);
                outer.place.column = Some(scope.call_column).filter(|c| *c != 0);
            }
            let die = Die {
                unit: entries,
                offset: scope.die,
            };
            out.push(Located {
                scopes: vec![scope],
                place: Place {
                    function: debug.function_name(die).map(|name| demangle(&name)),
                    file: None,
                    line: None,
                    column: None,
                    inlined: scope.kind == ScopeKind::Inlined,
                },
            });
        }
        if let Some(inner) = out.last_mut() {
            line_of(self, unit, vaddr, &mut inner.place);
        }
        out.reverse();
        out
    }
}

fn line_of(module: &Module, unit: &Unit, vaddr: u64, place: &mut Place) {
    let contents = &module.contents;
    let Some(elf) = contents.elf() else {
        return;
    };
    if let Some(row) = unit.lines(elf, &contents.warnings).at(vaddr) {
        place.file = unit.files().get(row.file).map(|path| path.to_path_buf());
        place.line = Some(row.line).filter(|l| *l != 0);
        place.column = Some(row.column).filter(|c| *c != 0);
    }
}

impl Program {
    /// The source positions of an instruction, the innermost inlined call first. Without debug
    /// information the function is the linker's symbol; without that the list is empty.
    pub fn locate(&self, pc: u64) -> Vec<Place> {
        let Some(module) = self.module_at(pc) else {
            return Vec::new();
        };
        let vaddr = module.vaddr(pc);
        let mut places: Vec<Place> = module.located(vaddr).into_iter().map(|l| l.place).collect();
        if places.is_empty() {
            let mut place = Place {
                function: self.symbol(pc).map(|s| s.name),
                file: None,
                line: None,
                column: None,
                inlined: false,
            };
            // Assembly has lines but no functions in its debug information, and so does a split
            // unit whose entries are lost.
            if let Some(debug) = module.contents.debug() {
                for unit in debug.units_at(vaddr) {
                    line_of(module, unit, vaddr, &mut place);
                    if place.line.is_some() {
                        break;
                    }
                }
            }
            if place.function.is_some() || place.line.is_some() {
                places.push(place);
            }
        } else if let Some(outermost) = places.last_mut()
            && outermost.function.is_none()
        {
            outermost.function = self.symbol(pc).map(|s| s.name);
        }
        places
    }

    /// All lines that the line table has for an instruction. There are several where statements
    /// that have no code of their own begin at the same address; [`Program::locate`] chooses one.
    pub fn lines_at(&self, pc: u64) -> Vec<(PathBuf, u32)> {
        let Some(module) = self.module_at(pc) else {
            return Vec::new();
        };
        let (vaddr, contents) = (module.vaddr(pc), &module.contents);
        let (Some(elf), Some(debug)) = (contents.elf(), contents.debug()) else {
            return Vec::new();
        };
        let mut out = Vec::new();
        for unit in debug.units_at(vaddr) {
            for row in unit.lines(elf, &contents.warnings).all_at(vaddr) {
                if let Some(file) = unit.files().get(row.file) {
                    out.push((file.to_path_buf(), row.line));
                }
            }
        }
        out
    }

    /// The function whose code is at an address; inlined functions do not count.
    pub fn function_at(&self, pc: u64) -> Option<Function> {
        let module = self.module_at(pc)?;
        let contents = &module.contents;
        let vaddr = module.vaddr(pc);
        if let (Some(elf), Some(debug)) = (contents.elf(), contents.debug())
            && let Some((unit, range)) = debug.function_at(vaddr, elf, &contents.warnings)
            && let Some(raw_name) = debug.function_name(Die {
                unit: unit.entries(elf, &contents.warnings),
                offset: range.die,
            })
        {
            return Some(Function {
                name: demangle(&raw_name),
                raw_name,
                low: module.pc(range.begin),
                high: module.pc(range.end),
                entry: module.pc(range.entry),
                module: contents.name.clone(),
            });
        }
        let symbol = self.symbol(pc)?;
        Some(Function {
            high: symbol
                .start
                .saturating_add(symbol.size.max(symbol.offset + 1)),
            low: symbol.start,
            entry: symbol.start,
            name: symbol.name,
            raw_name: symbol.raw_name,
            module: symbol.module,
        })
    }
}
