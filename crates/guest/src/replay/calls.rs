//! System calls of a replay: results and effects from the recording, and what is carried out again.

use super::*;

/// Mappings from this size on are given huge pages.
const LARGE: u64 = 4 << 20;

impl Replay {
    pub(super) fn syscall(&mut self) -> Result<Option<End>, Error> {
        self.engine.stats.syscalls += 1;
        let call = self.engine.call();
        let step = self.engine.step()?;
        // What the call did before it began to wait.
        while matches!(&self.next, Some(e) if e.kind == Kind::Memory && e.step == step) {
            let event = self.take()?.expect("just seen");
            self.put_effects(&CallEffects::decode(&event.payload)?)?;
            self.engine.tape_outside()?;
        }
        if matches!(&self.next, Some(e) if e.kind == Kind::Switch && e.step == step) {
            // The thread waits in this call while others have their turn.
            self.in_call.push(self.engine.threads.current);
            return Ok(None);
        }
        // An edited run keeps to the recording's calls, not to their steps.
        let at = if self.edited { None } else { Some(step) };
        if !self.expected(&call, at)? {
            if self.edited {
                if self.private.is_none() {
                    self.depart(&call)?;
                }
                return self.private_call(&call);
            }
            if let Some(e) = self.next.as_ref().filter(|e| e.kind == Kind::End) {
                let end = End::from_wait_status(e.result)?;
                self.engine.stats.steps = step;
                self.in_call.push(self.engine.threads.current);
                return Ok(Some(end));
            }
            return Err(self.diverged(&format!("the guest calls {}", abi::describe(&call, None))));
        }
        let event = self.take()?.expect("just seen");
        self.take_caused(event.step)?;
        let ret = event.result;
        if event.kind == Kind::Spot {
            self.spot_effects(&call, &event)?;
            self.forward(&call, ret);
            self.engine.follow_names(&call, ret);
            self.engine.return_from_call(ret);
            return Ok(None);
        }
        let effects = CallEffects::decode(&event.payload)?;
        // What a call that makes a mapping writes is what there is to see in it.
        let space = abi::class(&call) == Class::AddressSpace;
        if !space {
            self.put_effects(&effects)?;
        }
        if (-516..=-512).contains(&ret) {
            return self.interrupted(&call, ret);
        }
        self.forward(&call, ret);
        match abi::class(&call) {
            Class::AddressSpace => {
                self.address_space(&call, ret, &effects)?;
                self.put_effects(&effects)?;
            }
            Class::GuestState => {
                if call.nr as i64 == libc::SYS_rt_sigreturn {
                    self.engine.sigreturn()?;
                    return Ok(None);
                }
                self.guest_state(&call, ret)?;
            }
            Class::Process => match call.nr as i64 {
                libc::SYS_exit if self.engine.threads.several() => {
                    let id = self.engine.threads.current;
                    self.gone.push(id);
                    self.engine.threads.ended(id, step);
                    return Ok(None);
                }
                libc::SYS_exit | libc::SYS_exit_group => {
                    self.engine.stats.steps = step;
                    return Ok(Some(End::Exited(call.args[0] as i32 & 0xff)));
                }
                libc::SYS_execve | libc::SYS_execveat if ret == 0 => {
                    return self.exec(step).map(|()| None);
                }
                libc::SYS_clone | libc::SYS_clone3 => self.new_thread(&call, ret)?,
                _ => {}
            },
            _ => {}
        }
        self.engine.follow_names(&call, ret);
        self.engine.return_from_call(ret);
        Ok(None)
    }

    /// An edited run is given the signals that came as the call at hand, recorded at `step`, returned: the
    /// call has brought them about.
    fn take_caused(&mut self, step: u64) -> Result<(), Error> {
        let caused = |e: &Event| e.kind == Kind::Signal && e.step == step;
        while self.edited && self.next.as_ref().is_some_and(caused) {
            let e = self.take()?.expect("just seen");
            let signal = special::decode_signal(e.nr as i32, &e.payload)?;
            self.to_deliver.push_back(signal.pending);
        }
        Ok(())
    }

    /// The call is the one that the recording has next, at `step` if that is given.
    pub(super) fn expected(&mut self, call: &Call, step: Option<u64>) -> Result<bool, Error> {
        // Elsewhere an edited run is not interrupted where the recorded one was.
        while self.edited && matches!(&self.next, Some(e) if e.kind == Kind::Signal) {
            self.take()?;
        }
        let Some(e) = &self.next else {
            return Ok(false);
        };
        if u64::from(e.nr) != call.nr & 0xff_ffff || step.is_some_and(|s| s != e.step) {
            return Ok(false);
        }
        let n = abi::arguments(call.nr).min(6);
        Ok(match e.kind {
            Kind::Spot => spot(&e.payload)?
                .0
                .iter()
                .zip(call.args)
                .take(n)
                .all(|(a, b)| *a == b),
            Kind::Call => {
                let effects = CallEffects::decode(&e.payload)?;
                effects.args[..n] == call.args[..n]
                    && !(self.edited && (-516..=-512).contains(&e.result))
            }
            _ => false,
        })
    }

    pub(super) fn spot_effects(&mut self, call: &Call, event: &Event) -> Result<(), Error> {
        let (_, bytes) = spot(&event.payload)?;
        if bytes.is_empty() {
            return Ok(());
        }
        match abi::simple(call.nr) {
            Simple::FixedAt { arg, .. } | Simple::ReturnedAt { arg, .. } => {
                self.engine.put(call.args[arg as usize], bytes)
            }
            _ => Err(Error::damaged("a call wrote memory that it cannot write")),
        }
    }

    /// Passes on what the call wrote to standard output or error.
    pub(crate) fn forward(&mut self, call: &Call, ret: i64) {
        let memory = &self.engine.memory;
        if let Some((kind, bytes)) = self.descriptors.follow(call, ret, memory) {
            self.put_out += bytes.len() as u64;
            let news = self.edited || self.engine.step().is_ok_and(|s| s > self.shown_to);
            if news && !self.muted {
                (self.sink)(kind, &bytes);
            }
        }
    }

    pub(super) fn interrupted(&mut self, call: &Call, code: i64) -> Result<Option<End>, Error> {
        let restart = match &self.next {
            Some(e) if e.kind == Kind::Signal => {
                matches!(
                    self.engine.dispositions.of(e.nr as i32),
                    Disposition::Handler { restart: true }
                )
            }
            _ => return Err(self.diverged("a call was interrupted by nothing")),
        };
        if !matches!(&self.next, Some(e) if e.result == 1) {
            self.engine.finish_interrupted(call, code, restart);
            self.tape_left()?;
        }
        let step = self.engine.step()?;
        self.due_signals(step)
    }

    pub(super) fn guest_state(&mut self, call: &Call, ret: i64) -> Result<(), Error> {
        let nr = call.nr as i64;
        if ret < 0 {
            return Ok(());
        }
        match nr {
            libc::SYS_rt_sigaction => {
                let act = self.engine.sigaction_argument(call);
                // The old action is in place already.
                self.redo(&Call {
                    args: [call.args[0], call.args[1], 0, call.args[3], 0, 0],
                    ..*call
                })?;
                if let Some(act) = act {
                    self.engine.dispositions.set(call.args[0], &act);
                }
            }
            libc::SYS_rt_sigprocmask => {
                self.redo(&Call {
                    args: [call.args[0], call.args[1], 0, call.args[3], 0, 0],
                    ..*call
                })?;
                self.engine.keep_trap_open()?;
            }
            libc::SYS_sigaltstack => {
                let mut stack = [0; 24];
                if call.args[0] != 0 && self.engine.memory.read(call.args[0], &mut stack) == 24 {
                    self.engine.altstack = stack;
                }
                self.redo(&Call {
                    args: [call.args[0], 0, 0, 0, 0, 0],
                    ..*call
                })?;
            }
            libc::SYS_arch_prctl => {
                self.redo(call)?;
                self.engine.regs.fs_base = self.engine.tracee.regs()?.fs_base;
            }
            // How far the stack may grow is decided by the kernel here too.
            libc::SYS_setrlimit if call.args[0] == u64::from(libc::RLIMIT_STACK) => {
                self.redo(call)?;
            }
            libc::SYS_prlimit64
                if call.args[1] == u64::from(libc::RLIMIT_STACK) && call.args[2] != 0 =>
            {
                self.redo(&Call {
                    args: [0, call.args[1], call.args[2], 0, 0, 0],
                    ..*call
                })?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Carries out a call that must have its effect in this process too.
    pub(super) fn redo(&mut self, call: &Call) -> Result<i64, Error> {
        let saved = self.engine.regs;
        self.engine.regs.rdi = call.args[0];
        self.engine.regs.rsi = call.args[1];
        self.engine.regs.rdx = call.args[2];
        self.engine.regs.r10 = call.args[3];
        self.engine.regs.r8 = call.args[4];
        self.engine.regs.r9 = call.args[5];
        let outcome = self.engine.guest_call(call);
        self.engine.regs = saved;
        match outcome? {
            Outcome::Returned(ret) => Ok(ret),
            _ => Err(Error::Lost),
        }
    }

    pub(super) fn address_space(
        &mut self,
        call: &Call,
        ret: i64,
        effects: &CallEffects,
    ) -> Result<(), Error> {
        if (-4095..0).contains(&ret) {
            return Ok(());
        }
        let at = ret as u64;
        let [a, len, c, flags, _, offset] = call.args;
        let got = match call.nr as i64 {
            libc::SYS_mmap => {
                if flags & libc::MAP_SHARED as u64 != 0 {
                    self.map_shared(call, at, effects.file.as_ref())?;
                } else if let Some(f) = &effects.file {
                    let whole = (len + 0xfff) & !0xfff;
                    self.engine
                        .map_stored(f, &self.files, at, whole, c & 7, offset)?;
                    let known = PathBuf::from(
                        <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(&f.name),
                    );
                    self.names.insert(self.files.path(f), known);
                } else {
                    let keep = (libc::MAP_GROWSDOWN | libc::MAP_STACK | libc::MAP_NORESERVE) as u64;
                    let flags = flags & keep
                        | (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED) as u64;
                    let call = Call {
                        args: [at, len, c & 7, flags, u64::MAX, 0],
                        ..*call
                    };
                    if self.redo(&call)? != ret {
                        return Err(self.diverged("a mapping could not be made again"));
                    }
                    // Copying the page tables is what a checkpoint costs; of huge pages there are
                    // few. Where the kernel has none to give, nothing is lost.
                    if len >= LARGE && c & libc::PROT_WRITE as u64 != 0 {
                        let advice = libc::MADV_HUGEPAGE as u64;
                        self.engine
                            .inject(libc::SYS_madvise, [at, len, advice, 0, 0, 0])?;
                    }
                }
                ret
            }
            libc::SYS_shmat => {
                let segment = effects.file.as_ref();
                let segment = segment.ok_or(Error::damaged("an attached segment has no size"))?;
                self.attach(call, at, segment)?;
                ret
            }
            libc::SYS_shmdt => {
                self.detach(a)?;
                ret
            }
            libc::SYS_brk => {
                let (old, new) = ((self.brk + 0xfff) & !0xfff, (at + 0xfff) & !0xfff);
                self.brk = at;
                if new > old {
                    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED) as u64;
                    self.engine
                        .inject(libc::SYS_mmap, [old, new - old, 3, flags, u64::MAX, 0])?;
                } else if new < old {
                    self.engine
                        .inject(libc::SYS_munmap, [new, old - new, 0, 0, 0, 0])?;
                    self.engine.changed(new, old);
                }
                self.engine.changed(new.min(old), new.max(old));
                return Ok(());
            }
            libc::SYS_mremap => {
                let flags = if at == a {
                    0
                } else {
                    (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as u64
                };
                let flags = flags | flags_kept(call.args[3]);
                self.redo(&Call {
                    args: [a, len, c, flags, at, 0],
                    ..*call
                })?
            }
            libc::SYS_munmap | libc::SYS_mprotect | libc::SYS_pkey_mprotect => {
                let call = if call.nr as i64 == libc::SYS_pkey_mprotect {
                    Call {
                        nr: libc::SYS_mprotect as u64,
                        ..*call
                    }
                } else {
                    *call
                };
                self.redo(&call)?
            }
            libc::SYS_madvise => {
                // Advice that changes contents matters; the rest need not succeed here.
                self.redo(call)?;
                ret
            }
            _ => ret,
        };
        if got != ret {
            return Err(self.diverged(&format!(
                "{} gave {got:#x}, not {ret:#x}",
                abi::describe(call, None)
            )));
        }
        self.engine.note_address_space(call, ret);
        Ok(())
    }

    pub(super) fn exec(&mut self, step: u64) -> Result<(), Error> {
        let event = self.take()?.filter(|e| e.kind == Kind::Image);
        let event = event.ok_or(Error::damaged("an exec has no image"))?;
        let snapshot = Snapshot::decode(&event.payload)?;
        // Whichever thread has made the call is the only one left, and the first.
        self.engine.threads = Threads::new(snapshot.pid as i32, step);
        self.engine.last_fault = crate::signals::LastFault::default();
        self.gone.clear();
        self.in_call.clear();
        self.names = self.engine.rebuild(&snapshot, &self.files)?;
        self.brk = snapshot.brk;
        self.objects = Objects::default();
        self.engine.dispositions.reset_handlers();
        self.engine.reset_kernel_signals()?;
        self.engine.reset_vector_state()?;
        self.descriptors.exec();
        self.engine.reset_step(step)
    }
}

/// The arguments and the data of a call that ran on the spot.
pub(crate) fn spot(payload: &[u8]) -> Result<([u64; 3], &[u8]), Error> {
    let mut d = Decoder(payload);
    let args = [d.u64()?, d.u64()?, d.u64()?];
    Ok((args, d.0))
}

pub(super) fn flags_kept(flags: u64) -> u64 {
    const MREMAP_DONTUNMAP: u64 = 4;
    flags & MREMAP_DONTUNMAP
}
