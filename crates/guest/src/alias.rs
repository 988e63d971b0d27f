//! Code that can be rewritten through another mapping of the same memory.
//!
//! Translated code is trusted because the page it came from is write-protected: the guest's store
//! faults, and the translation is thrown away. That is not enough for memory mapped twice, as
//! just-in-time compilers do that keep writable and executable apart: the store goes to another
//! page. So wherever code is translated, every writable view of the same bytes is write-protected
//! with it, and a fault on one of them retires the code seen through all of them.
//!
//! Views are found in the list of mappings by device, inode and offset. Nothing of this costs
//! anything before the guest has made its first shared mapping. Rejected: a table of views kept by
//! following each mmap, munmap and mremap, which is what the kernel does for us already.

use abi::Call;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::Error;
use crate::engine::Engine;
use crate::maps::{Mapping, Maps, Protection};

/// What the engine knows of memory that the guest has mapped more than once.
#[derive(Default)]
pub(crate) struct Aliases {
    /// The guest has made a shared mapping.
    pub(crate) any: bool,
    /// Executable mappings of objects that are also mapped writable.
    exposed: Vec<(u64, u64)>,
    /// Pages of such mappings all of whose writable views are write-protected.
    guarded: FxHashSet<u64>,
}

impl Aliases {
    /// The address space is another one.
    pub(crate) fn forget(&mut self) {
        self.exposed.clear();
        self.guarded.clear();
    }

    /// Looks through a list of mappings that was just read.
    pub(crate) fn see(&mut self, maps: &Maps) {
        self.exposed.clear();
        if !self.any {
            return;
        }
        let writable: FxHashSet<(u64, u64)> = maps
            .list
            .iter()
            .filter(|m| is_writable_view(m))
            .map(|m| m.object)
            .collect();
        self.exposed = maps
            .list
            .iter()
            .filter(|m| m.protection.execute && writable.contains(&m.object))
            .map(|m| (m.start, m.end))
            .collect();
    }

    /// The code on this page may change without a fault.
    pub(crate) fn expose(&self, page: u64) -> bool {
        let addr = page << 12;
        self.exposed.iter().any(|&(a, b)| a <= addr && addr < b) && !self.guarded.contains(&page)
    }
}

fn is_writable_view(m: &Mapping) -> bool {
    m.shared && m.protection.write && m.object.1 != 0
}

/// Where mapping `m` shows the bytes of its object from `from` to `to`.
fn window(m: &Mapping, from: u64, to: u64) -> Option<(u64, u64)> {
    let (a, b) = (
        from.max(m.offset),
        to.min(m.offset.saturating_add(m.end - m.start)),
    );
    (a < b).then(|| (m.start + (a - m.offset), m.start + (b - m.offset)))
}

impl Engine {
    /// All pages that show the bytes of `page`, itself included, with what the guest may do there.
    fn views(&self, page: u64) -> Vec<(u64, Protection, bool)> {
        let addr = page << 12;
        let Some(m) = self.maps.find(addr).filter(|m| m.object.1 != 0) else {
            return Vec::new();
        };
        let at = m.offset + (addr - m.start);
        self.maps
            .list
            .iter()
            .filter(|v| v.object == m.object)
            .filter_map(|v| {
                let (a, _) = window(v, at, at + 0x1000)?;
                Some((a >> 12, v.protection, v.shared))
            })
            .collect()
    }

    /// Write-protects the other views of a page whose code is about to be translated.
    pub(crate) fn guard_views(&mut self, page: u64) -> Result<(), Error> {
        if !self.aliases.expose(page) {
            return Ok(());
        }
        for (view, p, shared) in self.views(page) {
            if shared && p.write && !self.protected.contains_key(&view) {
                self.protect(view, Protection { write: false, ..p })?;
                self.protected.insert(view, p);
            }
        }
        self.aliases.guarded.insert(page);
        Ok(())
    }

    /// The bytes of `page` change: what was translated from any view of them is void.
    pub(crate) fn retire_views(&mut self, page: u64) -> Result<(), Error> {
        if !self.aliases.any {
            return Ok(());
        }
        self.refresh_maps()?;
        for (view, ..) in self.views(page) {
            self.forget_code(view << 12, (view + 1) << 12);
        }
        Ok(())
    }

    fn forget_code(&mut self, start: u64, end: u64) {
        if self.cache.retire(start, end) {
            self.epoch += 1;
        }
        let outside = |p: u64| p < start >> 12 || p > (end - 1) >> 12;
        self.code.pages.retain(|&p, _| outside(p));
        self.code.constants.retain(|p, _| outside(p));
        self.aliases.guarded.retain(|&p| outside(p));
    }

    /// Memory was changed by something other than the guest's instructions.
    pub(crate) fn code_changed(&mut self, addr: u64, len: u64) -> Result<(), Error> {
        for page in addr >> 12..=(addr + len.max(1) - 1) >> 12 {
            if self.code.pages.contains_key(&page) || self.code.constants.has(page) {
                self.forget_code(page << 12, (page + 1) << 12);
            }
            self.retire_views(page)?;
        }
        Ok(())
    }

    /// Views of code that are writable within this range make that code void: it was translated
    /// when they were not there or were write-protected.
    pub(crate) fn retire_aliased(&mut self, start: u64, end: u64) {
        if !self.aliases.any || self.refresh_maps().is_err() {
            return;
        }
        let mut code: FxHashMap<(u64, u64), Vec<&Mapping>> = FxHashMap::default();
        for m in self.maps.list.iter().filter(|m| m.protection.execute) {
            code.entry(m.object).or_default().push(m);
        }
        let mut gone = Vec::new();
        for m in self.maps.list.iter().filter(|m| is_writable_view(m)) {
            let (a, b) = (m.start.max(start), m.end.min(end));
            if a >= b {
                continue;
            }
            let (from, to) = (m.offset + (a - m.start), m.offset + (b - m.start));
            let views = code.get(&m.object).into_iter().flatten();
            gone.extend(views.filter_map(|v| window(v, from, to)));
        }
        for (a, b) in gone {
            self.forget_code(a, b);
        }
    }

    /// Keeps the picture of aliases after a call that changed the address space.
    pub(crate) fn note_aliases(&mut self, call: &Call, ret: i64) {
        let [a, b, c, flags, ..] = call.args;
        let (start, len) = match call.nr as i64 {
            libc::SYS_mmap => {
                self.aliases.any |= flags & libc::MAP_SHARED as u64 != 0;
                (ret as u64, b)
            }
            libc::SYS_mremap => (ret as u64, c),
            libc::SYS_shmat => {
                self.aliases.any = true;
                (ret as u64, u64::MAX)
            }
            libc::SYS_mprotect | libc::SYS_pkey_mprotect => (a, b),
            _ => return,
        };
        self.retire_aliased(start, start.saturating_add(len));
    }

    /// The parts of the address space that detaching the segment at `addr` gives back.
    pub(crate) fn attached(&mut self, addr: u64) -> Result<Vec<(u64, u64)>, Error> {
        self.refresh_maps()?;
        let Some(object) = self.maps.find(addr).map(|m| m.object) else {
            return Ok(Vec::new());
        };
        Ok(self
            .maps
            .list
            .iter()
            .filter(|m| m.object == object && m.start >= addr && m.start - addr == m.offset)
            .map(|m| (m.start, m.end))
            .collect())
    }
}
