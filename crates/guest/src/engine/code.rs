//! From guest code to blocks in the code cache: what is about to run is translated, with what it
//! leads to.

use super::*;

impl Engine {
    pub(super) fn region_for(&mut self, pc: u64) -> Result<usize, Error> {
        if let Some(r) = self.cache.region_near(pc) {
            return Ok(r);
        }
        if self.cache.can_grow() {
            self.refresh_maps()?;
            if let Some(base) = self.maps.gap_near(pc, REGION_SIZE, 0x6000_0000) {
                self.add_region(base)?;
                return Ok(self.cache.regions.len() - 1);
            }
        }
        // No room near: rip-relative operands go through a register instead.
        if let Some(r) = self
            .cache
            .regions
            .iter()
            .position(|r| self.cache.region_near(r.base).is_some())
        {
            return Ok(r);
        }
        self.cache.clear();
        Ok(0)
    }

    pub(super) fn translate_block(
        &mut self,
        pc: u64,
        prologue: bool,
        ahead: &mut VecDeque<Ahead>,
    ) -> Result<Option<BlockId>, Error> {
        if self.cache.tables_full() {
            self.cache.clear();
        }
        self.refresh_maps()?;
        let most = self.longest();
        let room = std::mem::take(&mut self.room);
        let mut block = {
            let armed = &self.armed;
            let mut fetcher = Fetcher::new(
                &mut self.code,
                &self.maps,
                &self.memory,
                &self.protected,
                &self.aliases,
            );
            let is_stop = |at| armed.contains_key(&at);
            let mut block = decode(pc, most, room, &mut fetcher, &is_stop);
            // Instructions under observation are left as they are.
            if self.observed.is_empty() {
                block.look_for_dead_flags(&mut fetcher, &is_stop);
            }
            block
        };
        if block.insns.is_empty() && block.special.is_none() {
            return Ok(None);
        }
        block.flip(&self.flipped);
        block.displace(&self.displaced);
        block.observe(&self.observed);
        if let Some(entries) = self.probed() {
            block.probe(entries);
        }
        if let Some(hunt) = &mut self.hunt {
            hunt.look(&block);
        }
        self.guard_pages(&block.ranges)?;
        let region = self.region_for(pc)?;
        let request = Request {
            host: self.cache.cursor(region),
            layout: self.cache.layout,
            routines: self.cache.routines(region),
            first_point: self.cache.next_point(),
            prologue,
            armed: self.armed.get(&pc).copied(),
            bounded: false,
            tape: self.next_shape(),
        };
        let mut t = translate(&block, request);
        let taped = t.taped.take();
        let sites: Vec<u64> = block.return_sites().collect();
        let id = self.cache.place(region, pc, block.ranges, t, prologue);
        self.add_taped(taped, Some(id));
        self.room = block.insns;
        let exits = self.cache.open_exits(id).map(|(exit, target)| Ahead {
            target,
            exit: Some(exit),
        });
        ahead.extend(exits.chain(sites.into_iter().map(|target| Ahead { target, exit: None })));
        Ok(Some(id))
    }

    /// Write-protects pages about to be translated that the guest could change unseen.
    pub(super) fn guard_pages(&mut self, ranges: &[(u64, u64)]) -> Result<(), Error> {
        for &(a, b) in ranges {
            for page in a >> 12..=(b - 1) >> 12 {
                let Some(m) = self.maps.find(page << 12) else {
                    continue;
                };
                if m.protection.write && !self.protected.contains_key(&page) {
                    let p = m.protection;
                    self.protect(page, Protection { write: false, ..p })?;
                    self.protected.insert(page, p);
                }
                self.guard_views(page)?;
            }
        }
        Ok(())
    }

    /// The block at `pc`, translated if need be together with what it leads to.
    pub(super) fn block_at(&mut self, pc: u64, prologue: bool) -> Result<Option<BlockId>, Error> {
        if let Some(id) = self.cache.lookup(pc) {
            return Ok(Some(id));
        }
        let mut queue = VecDeque::new();
        let Some(_) = self.translate_block(pc, prologue, &mut queue)? else {
            return Ok(None);
        };
        let generation = self.cache.generation;
        let mut left = AHEAD;
        while let Some(Ahead { target, exit }) = queue.pop_front() {
            let id = match self.cache.lookup(target) {
                Some(id) => id,
                None if left == 0 => continue,
                None => {
                    left -= 1;
                    let Some(id) = self.translate_block(target, exit.is_none(), &mut queue)? else {
                        continue;
                    };
                    id
                }
            };
            if self.cache.generation != generation {
                break;
            }
            match exit {
                Some(exit) => self.cache.link(exit, id),
                None => self.cache.make_indirect(id),
            }
        }
        match self.cache.lookup(pc) {
            Some(id) => Ok(Some(id)),
            None => self.translate_block(pc, prologue, &mut VecDeque::new()),
        }
    }
}
