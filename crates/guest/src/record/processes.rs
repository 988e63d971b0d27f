//! Exit, exec and fork while recording. Children run natively, outside the recording.

use super::*;
use crate::threads::Threads;

impl Recorder {
    pub(super) fn process_call(&mut self, call: &Call) -> Result<Option<End>, Error> {
        match call.nr as i64 {
            libc::SYS_exit if self.engine.threads.several() => self.thread_exit(call),
            libc::SYS_exit | libc::SYS_exit_group => {
                self.engine.stats.steps = self.engine.step()?;
                let effects = CallEffects {
                    args: call.args,
                    ..Default::default()
                };
                self.log(Kind::Call, call.nr as u32, 0, effects.encode())?;
                self.tape_enter(call)?;
                self.engine.begin_call(call)?;
                self.wait_for_leader().map(Some)
            }
            libc::SYS_execve | libc::SYS_execveat => self.exec(call),
            _ => self.fork(call),
        }
    }

    pub(super) fn exec(&mut self, call: &Call) -> Result<Option<End>, Error> {
        let step = self.engine.step()?;
        match self.exec_call(call)? {
            Outcome::Returned(ret) => self.finish(
                call,
                ret,
                CallEffects {
                    args: call.args,
                    ..Default::default()
                },
            ),
            Outcome::Event(libc::PTRACE_EVENT_EXEC) => {
                let effects = CallEffects {
                    args: call.args,
                    ..Default::default()
                };
                self.writer.event(&Event::new(
                    Kind::Call,
                    call.nr as u32,
                    step,
                    0,
                    effects.encode(),
                ))?;
                self.tape_enter(call)?;
                let tape = self.engine.give_tape(step)?;
                let (mut engine, names) =
                    Self::image(self.engine.tracee, &mut self.files, &mut self.writer, step)?;
                engine.stats = std::mem::take(&mut self.engine.stats);
                engine.stats.translated += self.engine.cache.translated;
                engine.pending = std::mem::take(&mut self.engine.pending);
                let (atomics, accesses) = self.policy.wants();
                engine.hunt = Some(Hunt::for_sites(atomics, accesses));
                engine.threads = Threads::new(engine.tracee.0, step);
                self.sites = Sites::default();
                self.turn_began = step;
                self.engine = engine;
                self.names = names;
                self.outside = Outside::default();
                self.classes_for = Default::default();
                self.waiting.clear();
                self.clear_tids.clear();
                self.stops = Stops::beside(crate::sites::MOST_OBSERVED);
                self.tape_exec(tape)?;
                Ok(None)
            }
            Outcome::Ended(wait) => Ok(Some(self.ended(wait)?)),
            Outcome::NotMade => self.engine.before_call().map(|()| None),
            _ => Err(Error::Internal("an unexpected event in exec".into())),
        }
    }

    /// fork, vfork and clone of a process: the child runs natively, outside the recording.
    pub(super) fn fork(&mut self, call: &Call) -> Result<Option<End>, Error> {
        let Some(flags) = self.engine.clone_flags(call) else {
            return self.finish(
                call,
                -i64::from(libc::EFAULT),
                CallEffects {
                    args: call.args,
                    ..Default::default()
                },
            );
        };
        if flags & libc::CLONE_THREAD as u64 != 0 {
            return self.new_thread(call);
        }
        if flags & libc::CLONE_VM as u64 != 0 && flags & libc::CLONE_VFORK as u64 == 0 {
            self.note("a process that shares its memory with the guest is not supported: clone fails with EAGAIN".into());
            let effects = CallEffects {
                args: call.args,
                ..Default::default()
            };
            return self.finish(call, -i64::from(libc::EAGAIN), effects);
        }
        let shared = flags & libc::CLONE_VM as u64 != 0;
        let plan = Plan::before(call, &self.engine.memory).ok();
        self.engine.unprotect_all()?;
        self.engine.changed_code_guards();
        self.outside.inherited(&self.engine.maps);
        let before = if shared {
            Some(self.engine.copy()?)
        } else {
            None
        };
        let (ret, ended) = self.engine.fork_call(call, &self.affinity)?;
        let mut writes = Vec::new();
        if let Some(plan) = &plan {
            writes = self.written(plan, ret)?;
        }
        if let Some(copy) = before {
            writes.extend(self.engine.differences(&copy)?);
            copy.kill();
        }
        if let Some(wait) = ended {
            return Ok(Some(self.ended(wait)?));
        }
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
}
