//! System calls while recording: carried out for real, their effects written down.

use super::*;

impl Recorder {
    pub(crate) fn written(&self, plan: &Plan, ret: i64) -> Result<Vec<(u64, Vec<u8>)>, Error> {
        let mut out = Vec::new();
        for r in plan.writes(ret, &self.engine.memory) {
            let mut bytes = vec![0; r.len as usize];
            let n = self.engine.memory.read(r.addr, &mut bytes);
            bytes.truncate(n);
            out.push((r.addr, bytes));
        }
        Ok(out)
    }

    pub(super) fn syscall(&mut self) -> Result<Option<End>, Error> {
        self.engine.stats.syscalls += 1;
        self.engine.stats.syscall_stops += 1;
        let call = self.engine.call();
        self.noticed(call.nr);
        match abi::class(&call) {
            Class::Process => self.process_call(&call),
            Class::AddressSpace => self.address_space_call(&call),
            Class::Refused { .. } => {
                let refusal = Plan::before(&call, &self.engine.memory).err();
                let errno = refusal.as_ref().map_or(libc::ENOSYS, |r| r.errno);
                if let Some(r) = refusal {
                    // libc asks for these on every start and does without.
                    if call.nr != libc::SYS_rseq as u64 {
                        self.note(r.to_string());
                    }
                }
                self.finish(
                    &call,
                    -i64::from(errno),
                    CallEffects {
                        args: call.args,
                        ..Default::default()
                    },
                )
            }
            _ => self.plain_call(&call),
        }
    }

    pub(crate) fn note(&mut self, text: String) {
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    /// Logs a finished call and steps over it.
    pub(crate) fn finish(
        &mut self,
        call: &Call,
        ret: i64,
        mut effects: CallEffects,
    ) -> Result<Option<End>, Error> {
        let writes = self.outside_writes(call, ret, effects.file.as_ref())?;
        effects.writes.extend(writes);
        self.tape_writes(&effects);
        self.log(Kind::Call, call.nr as u32, ret, effects.encode())?;
        self.tape_enter(call)?;
        self.engine.follow_names(call, ret);
        self.engine.return_from_call(ret);
        self.tape_leave(call)?;
        if self.engine.threads.several() && self.policy.after_call() {
            self.turn_until = self.engine.step()?;
        }
        Ok(None)
    }

    pub(super) fn plain_call(&mut self, call: &Call) -> Result<Option<End>, Error> {
        let nr = call.nr as i64;
        if nr == libc::SYS_rt_sigreturn {
            let effects = CallEffects {
                args: call.args,
                ..Default::default()
            };
            self.log(Kind::Call, call.nr as u32, 0, effects.encode())?;
            self.tape_enter(call)?;
            self.engine.sigreturn()?;
            self.tape_leave(call)?;
            return self.rest_from_here().map(|()| None);
        }
        if nr == libc::SYS_sched_getaffinity && self.concerns_guest(call.args[0]) {
            return self.get_affinity(call);
        }
        if nr == libc::SYS_sched_setaffinity && self.concerns_guest(call.args[0]) {
            let mut mask = vec![0; call.args[1].min(1024) as usize];
            self.engine.memory.read(call.args[2], &mut mask);
            if mask.iter().any(|&b| b != 0) {
                self.affinity = mask;
            }
            return self.finish(
                call,
                0,
                CallEffects {
                    args: call.args,
                    ..Default::default()
                },
            );
        }
        if crate::futex::is_newer_futex(call.nr) {
            let name = abi::name(call.nr).unwrap_or("futex");
            self.note(format!("{name} is not supported: it fails with ENOSYS"));
            let effects = CallEffects {
                args: call.args,
                ..Default::default()
            };
            return self.finish(call, -i64::from(libc::ENOSYS), effects);
        }
        if self.hides_output(call) {
            let effects = CallEffects {
                args: call.args,
                ..Default::default()
            };
            return self.finish(call, -i64::from(libc::EINVAL), effects);
        }
        let plan = match Plan::before(call, &self.engine.memory) {
            Ok(plan) => plan,
            Err(r) => {
                self.note(r.to_string());
                return self.finish(
                    call,
                    -i64::from(r.errno),
                    CallEffects {
                        args: call.args,
                        ..Default::default()
                    },
                );
            }
        };
        for a in call.args {
            self.engine.release_page(a >> 12)?;
        }
        let action = self.engine.sigaction_argument(call);
        if !self.engine.pending.is_empty() {
            self.engine.before_call()?;
            return Ok(None);
        }
        let prepared = Prepared {
            plan,
            action,
            believed: self.engine.trap_blocked,
        };
        let prepared = match nr {
            libc::SYS_futex => match self.futex(call, prepared)? {
                Ok(end) => return Ok(end),
                Err(prepared) => prepared,
            },
            _ => prepared,
        };
        if !self.engine.threads.several() {
            let outcome = self.engine.guest_call(call)?;
            return self.complete(call, prepared, outcome);
        }
        if nr == libc::SYS_sched_yield {
            let outcome = self.engine.guest_call(call)?;
            let end = self.complete(call, prepared, outcome)?;
            return if end.is_none() {
                self.yield_turn(Why::Yield)
            } else {
                Ok(end)
            };
        }
        if abi::may_block(call.nr) == abi::Blocking::Never {
            let outcome = self.engine.guest_call(call)?;
            return self.complete(call, prepared, outcome);
        }
        self.turn_step = self.engine.step()?;
        match self.call_or_wait(call, prepared)? {
            Some((prepared, outcome)) => self.complete(call, prepared, outcome),
            None => self.pass_turn(Why::Blocked),
        }
    }

    /// A call has come out: what it did is written down.
    pub(crate) fn complete(
        &mut self,
        call: &Call,
        prepared: Prepared,
        outcome: Outcome,
    ) -> Result<Option<End>, Error> {
        let Prepared {
            plan,
            action,
            believed,
        } = &prepared;
        let nr = call.nr as i64;
        match outcome {
            Outcome::Returned(ret) => {
                if ret == -i64::from(libc::EFAULT) && !self.engine.protected.is_empty() {
                    let pages: Vec<u64> = self.engine.protected.keys().copied().collect();
                    for p in pages {
                        self.engine.release_page(p)?;
                    }
                    let outcome = self.engine.guest_call(call)?;
                    return self.complete(call, prepared, outcome);
                }
                if let (Some(act), true) = (action, ret == 0) {
                    self.engine.dispositions.set(call.args[0], act);
                }
                if nr == libc::SYS_arch_prctl {
                    self.engine.regs.fs_base = self.engine.tracee.regs()?.fs_base;
                }
                if nr == libc::SYS_set_tid_address {
                    let id = self.engine.threads.current;
                    self.clear_tids.retain(|c| c.0 != id);
                    self.clear_tids.push((id, call.args[0]));
                }
                if nr == libc::SYS_rt_sigprocmask {
                    self.show_trap_mask(call, ret, *believed)?;
                }
                let writes = self.written(plan, ret)?;
                self.finish(
                    call,
                    ret,
                    CallEffects {
                        args: call.args,
                        writes,
                        file: None,
                    },
                )
            }
            Outcome::Interrupted(code) => self.interrupted(call, Some(plan), code),
            Outcome::NotMade => self.engine.before_call().map(|()| None),
            Outcome::Ended(wait) => Ok(Some(self.ended(wait)?)),
            Outcome::Event(_) => Err(Error::Internal("an unexpected process event".into())),
        }
    }

    /// The old mask that the guest is given includes SIGTRAP if the guest blocked it.
    pub(super) fn show_trap_mask(
        &mut self,
        call: &Call,
        ret: i64,
        believed: bool,
    ) -> Result<(), Error> {
        const TRAP: u64 = 1 << (libc::SIGTRAP - 1);
        let [how, set, old, ..] = call.args;
        let asked = if set != 0 {
            self.engine.memory.read_u64(set).unwrap_or(0) & TRAP != 0
        } else {
            false
        };
        if ret == 0 && old != 0 && believed {
            let mask = self.engine.memory.read_u64(old)?;
            self.engine.memory.write_u64(old, mask | TRAP)?;
        }
        self.engine.keep_trap_open()?;
        // SIG_BLOCK adds to what is blocked, SIG_UNBLOCK takes away, SIG_SETMASK replaces.
        self.engine.trap_blocked = match (set != 0 && ret == 0, how) {
            (true, 0) => believed || asked,
            (true, 1) => believed && !asked,
            (true, _) => asked,
            (false, _) => believed,
        };
        Ok(())
    }

    /// The call would move data to standard output or error without its passing through the
    /// guest's memory, where a replay finds it. Programs fall back to reading and writing.
    pub(super) fn hides_output(&self, call: &Call) -> bool {
        use std::os::unix::fs::MetadataExt;
        let fd = match call.nr as i64 {
            libc::SYS_sendfile => call.args[0],
            libc::SYS_copy_file_range | libc::SYS_splice => call.args[2],
            _ => return false,
        };
        let identity = |path: String| std::fs::metadata(path).ok().map(|m| (m.dev(), m.ino()));
        let Some(target) = identity(format!("/proc/{}/fd/{}", self.leader, fd as i32)) else {
            return false;
        };
        [1, 2]
            .iter()
            .any(|n| identity(format!("/proc/self/fd/{n}")) == Some(target))
    }

    pub(super) fn concerns_guest(&self, pid: u64) -> bool {
        pid == 0 || pid as i32 == self.engine.tracee.0
    }

    pub(super) fn get_affinity(&mut self, call: &Call) -> Result<Option<End>, Error> {
        let n = self.affinity.len().min(call.args[1] as usize);
        let mask = self.affinity[..n].to_vec();
        let ret = match self.engine.memory.write(call.args[2], &mask) {
            Ok(()) => n as i64,
            Err(_) => -i64::from(libc::EFAULT),
        };
        let writes = if ret > 0 {
            vec![(call.args[2], mask)]
        } else {
            Vec::new()
        };
        self.finish(
            call,
            ret,
            CallEffects {
                args: call.args,
                writes,
                file: None,
            },
        )
    }

    pub(super) fn address_space_call(&mut self, call: &Call) -> Result<Option<End>, Error> {
        let nr = call.nr as i64;
        let [addr, len, _, flags, fd, _] = call.args;
        let effects = CallEffects {
            args: call.args,
            ..Default::default()
        };
        let fixed = (nr == libc::SYS_mmap && flags & libc::MAP_FIXED as u64 != 0)
            || matches!(
                nr,
                libc::SYS_munmap | libc::SYS_mprotect | libc::SYS_madvise | libc::SYS_pkey_mprotect
            );
        if fixed && self.engine.owns(addr, addr.saturating_add(len.max(1))) {
            self.note(format!(
                "{} of memory that the engine uses fails",
                abi::describe(call, None)
            ));
            return self.finish(call, -i64::from(libc::ENOMEM), effects);
        }
        // The file is kept before the guest can change it through the mapping.
        let file = if nr == libc::SYS_mmap && flags & libc::MAP_ANONYMOUS as u64 == 0 {
            self.keep_mapped(fd as i32)?
        } else {
            None
        };
        let detached = match nr {
            libc::SYS_shmdt => self.engine.attached(addr)?,
            _ => Vec::new(),
        };
        let plan = Plan::before(call, &self.engine.memory);
        match self.engine.guest_call(call)? {
            Outcome::Returned(ret) => {
                for (a, b) in detached {
                    self.engine.changed(a, b);
                }
                self.engine.note_address_space(call, ret);
                let file = match nr {
                    libc::SYS_shmat => self.attached(call, ret)?,
                    _ => file,
                };
                let writes = match &plan {
                    Ok(plan) => self.written(plan, ret)?,
                    Err(_) => Vec::new(),
                };
                self.finish(
                    call,
                    ret,
                    CallEffects {
                        args: call.args,
                        writes,
                        file,
                    },
                )
            }
            Outcome::Interrupted(code) => self.interrupted(call, None, code),
            Outcome::NotMade => self.engine.before_call().map(|()| None),
            Outcome::Ended(wait) => Ok(Some(self.ended(wait)?)),
            Outcome::Event(_) => Err(Error::Internal("an unexpected process event".into())),
        }
    }

    /// How the segment just attached is written down.
    pub(super) fn attached(&mut self, call: &Call, ret: i64) -> Result<Option<FileRef>, Error> {
        if (-4095..0).contains(&ret) {
            return Ok(None);
        }
        let places = self.engine.attached(ret as u64)?;
        let size = places.iter().map(|(a, b)| b - a).sum();
        Ok(Some(segment(call.args[0], size)))
    }

    pub(super) fn keep_mapped(&mut self, fd: i32) -> Result<Option<FileRef>, Error> {
        let link = PathBuf::from(format!("/proc/{}/fd/{fd}", self.engine.tracee.0));
        let Ok(name) = std::fs::read_link(&link) else {
            return Ok(None);
        };
        match self.files.keep(&name, &[link]) {
            Ok(f) => {
                self.names.insert(self.files.path(&f), known_as(&f));
                Ok(Some(f))
            }
            Err(Error::Unreadable(_)) => Ok(None),
            Err(e) => Err(e),
        }
    }
}
