//! What gdb asks of a target, answered from a session.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::rc::Rc;

use case::{Catch, Filter, Go, Session, Watch, Why};
use gdbstub::common::{Pid, Signal, Tid};
use gdbstub::stub::MultiThreadStopReason;
use gdbstub::target::ext::auxv::{Auxv, AuxvOps};
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::base::multithread::{
    MultiThreadBase, MultiThreadRangeStepping, MultiThreadRangeSteppingOps, MultiThreadResume,
    MultiThreadResumeOps, MultiThreadSchedulerLocking, MultiThreadSchedulerLockingOps,
    MultiThreadSingleStep, MultiThreadSingleStepOps,
};
use gdbstub::target::ext::base::reverse_exec::{
    ReplayLogPosition, ReverseCont, ReverseContOps, ReverseStep, ReverseStepOps,
};
use gdbstub::target::ext::base::single_register_access::{
    SingleRegisterAccess, SingleRegisterAccessOps,
};
use gdbstub::target::ext::breakpoints::{
    Breakpoints, BreakpointsOps, HwBreakpoint, HwBreakpointOps, HwWatchpoint, HwWatchpointOps,
    SwBreakpoint, SwBreakpointOps, WatchKind,
};
use gdbstub::target::ext::catch_syscalls::{
    CatchSyscallPosition, CatchSyscalls, CatchSyscallsOps, SyscallNumbers,
};
use gdbstub::target::ext::exec_file::{ExecFile, ExecFileOps};
use gdbstub::target::ext::extended_mode::{
    Args, AttachKind, CurrentActivePid, CurrentActivePidOps, ExtendedMode, ExtendedModeOps,
    ShouldTerminate,
};
use gdbstub::target::ext::host_io::HostIoOps;
use gdbstub::target::ext::monitor_cmd::MonitorCmdOps;
use gdbstub::target::ext::target_description_xml_override::{
    TargetDescriptionXmlOverride, TargetDescriptionXmlOverrideOps,
};
use gdbstub::target::ext::thread_extra_info::{ThreadExtraInfo, ThreadExtraInfoOps};
use gdbstub::target::{Target, TargetError, TargetResult};

use crate::agent::{self, Thread};
use crate::files::Open;
use crate::gdb_signal;
use crate::registers::{All, Layout, Number, X86};

const EFAULT: u8 = 14;
const EPERM: u8 = 1;

pub(crate) struct Served {
    pub(crate) session: Session,
    layout: Rc<Layout>,
    description: String,
    go: Go,
    backward: bool,
    /// The guest has ended, and gdb knows.
    over: bool,
    pub(crate) open_files: HashMap<u32, Open>,
    pub(crate) last_file: u32,
    pub(crate) slices: crate::slices::Slices,
}

/// As much of `bytes` from `offset` on as there is room for.
pub(crate) fn part(bytes: &[u8], offset: u64, buf: &mut [u8]) -> usize {
    let from = usize::try_from(offset)
        .unwrap_or(usize::MAX)
        .min(bytes.len());
    let n = buf.len().min(bytes.len() - from);
    buf[..n].copy_from_slice(&bytes[from..from + n]);
    n
}

fn tid(number: i32) -> Tid {
    NonZeroUsize::new(number.unsigned_abs() as usize).unwrap_or(NonZeroUsize::MIN)
}

fn number(tid: Tid) -> i32 {
    tid.get() as i32
}

impl Served {
    pub(crate) fn new(session: Session) -> Result<Self, String> {
        let area = session
            .vectors(session.thread())
            .map_err(|e| e.to_string())?;
        let layout = Layout::new(area.len());
        Ok(Served {
            description: layout.description(),
            layout: Rc::new(layout),
            go: Go::On,
            backward: false,
            over: false,
            open_files: HashMap::new(),
            last_file: 2,
            slices: crate::slices::Slices::default(),
            session,
        })
    }

    /// Lets the guest go as it was said, and says why it stopped.
    pub(crate) fn run(&mut self) -> Result<MultiThreadStopReason<u64>, String> {
        let why = if self.backward {
            self.session.backward(self.go)
        } else {
            self.session.forward(self.go)
        };
        let why = why.map_err(|e| e.to_string())?;
        self.over = matches!(why, Why::Exited(_) | Why::Killed(_));
        let at = tid(self.session.thread());
        let signal = |signal| MultiThreadStopReason::SignalWithThread { tid: at, signal };
        let log = |pos| MultiThreadStopReason::ReplayLog { tid: Some(at), pos };
        Ok(match why {
            Why::Step => signal(Signal::SIGTRAP),
            Why::Moved | Why::Marked | Why::Library(_) => signal(Signal(0)),
            Why::Breakpoint => MultiThreadStopReason::SwBreak(at),
            Why::Watch(w) => MultiThreadStopReason::Watch {
                tid: at,
                kind: kind(w),
                addr: w.addr,
            },
            Why::Call { nr, entry } => MultiThreadStopReason::CatchSyscall {
                tid: Some(at),
                number: nr,
                position: match entry {
                    true => CatchSyscallPosition::Entry,
                    false => CatchSyscallPosition::Return,
                },
            },
            Why::Signal(n) => signal(gdb_signal(n)),
            Why::Interrupted => signal(Signal::SIGINT),
            Why::Begin => log(ReplayLogPosition::Begin),
            Why::End => log(ReplayLogPosition::End),
            Why::Exited(status) => MultiThreadStopReason::Exited(status as u8),
            Why::Killed(n) => MultiThreadStopReason::Terminated(gdb_signal(n)),
        })
    }

    /// Something failed on the way: the guest is put where it can be used again.
    pub(crate) fn recover(&mut self) -> Result<MultiThreadStopReason<u64>, String> {
        self.session.recover().map_err(|e| e.to_string())?;
        Ok(MultiThreadStopReason::SignalWithThread {
            tid: tid(self.session.thread()),
            signal: Signal(0),
        })
    }

    /// The registers that gdb looks at whenever the guest stops, so that it need not ask.
    pub(crate) fn expedited(&self) -> String {
        let regs = self.session.registers(self.session.thread());
        let Some(regs) = regs.filter(|_| !self.over) else {
            return String::new();
        };
        self.layout.general(&regs)
    }

    /// Has a breakpoint stop the guest only if one of the conditions holds, if there are any.
    pub(crate) fn set_conditions(&mut self, address: u64, list: Vec<Vec<u8>>) {
        let layout = self.layout.clone();
        let filter: Option<Filter> = match list.is_empty() {
            true => None,
            false => Some(Rc::new(move |s: &Session| {
                let thread = Thread::new(s, &layout);
                let mut values = list.iter().map(|code| agent::value(code, &thread));
                values.any(|v| v != Some(0))
            })),
        };
        self.session.set_condition(address, filter);
    }

    fn state(&self, at: Tid) -> TargetResult<(case::UserRegs, Vec<u8>), Self> {
        let regs = self.session.registers(number(at));
        let regs = regs.ok_or(TargetError::NonFatal)?;
        let area = self.session.vectors(number(at));
        Ok((regs, area.map_err(|_| TargetError::NonFatal)?))
    }
}

fn kind(w: Watch) -> WatchKind {
    match (w.read, w.write) {
        (true, true) => WatchKind::ReadWrite,
        (true, false) => WatchKind::Read,
        _ => WatchKind::Write,
    }
}

impl Target for Served {
    type Arch = X86;
    type Error = String;

    fn base_ops(&mut self) -> BaseOps<'_, X86, String> {
        BaseOps::MultiThread(self)
    }

    fn use_fork_stop_reason(&self) -> bool {
        false
    }

    fn use_vfork_stop_reason(&self) -> bool {
        false
    }

    fn use_vforkdone_stop_reason(&self) -> bool {
        false
    }

    fn support_breakpoints(&mut self) -> Option<BreakpointsOps<'_, Self>> {
        Some(self)
    }

    fn support_monitor_cmd(&mut self) -> Option<MonitorCmdOps<'_, Self>> {
        Some(self)
    }

    fn support_extended_mode(&mut self) -> Option<ExtendedModeOps<'_, Self>> {
        Some(self)
    }

    fn support_target_description_xml_override(
        &mut self,
    ) -> Option<TargetDescriptionXmlOverrideOps<'_, Self>> {
        Some(self)
    }

    fn support_catch_syscalls(&mut self) -> Option<CatchSyscallsOps<'_, Self>> {
        Some(self)
    }

    fn support_host_io(&mut self) -> Option<HostIoOps<'_, Self>> {
        Some(self)
    }

    fn support_exec_file(&mut self) -> Option<ExecFileOps<'_, Self>> {
        Some(self)
    }

    fn support_auxv(&mut self) -> Option<AuxvOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadBase for Served {
    fn read_registers(&mut self, regs: &mut All, at: Tid) -> TargetResult<(), Self> {
        let (general, area) = self.state(at)?;
        let all = (0..self.layout.len()).filter_map(|n| self.layout.get(n, &general, &area));
        regs.bytes = all.flatten().collect();
        Ok(())
    }

    fn write_registers(&mut self, regs: &All, at: Tid) -> TargetResult<(), Self> {
        let (mut general, mut area) = self.state(at)?;
        let before = area.clone();
        let mut from = 0;
        for n in 0..self.layout.len() {
            let to = from + self.layout.size(n);
            let bytes = regs.bytes.get(from..to).ok_or(TargetError::NonFatal)?;
            self.layout.set(n, bytes, &mut general, &mut area);
            from = to;
        }
        // What is as before, bar a note that it is there, is left alone.
        let changed = area[..512.min(area.len())] != before[..512.min(before.len())]
            || area.get(576..) != before.get(576..);
        let area = changed.then_some(area.as_slice());
        let set = self.session.set_registers(number(at), &general, area);
        set.map_err(|_| TargetError::Errno(EPERM))
    }

    fn support_single_register_access(&mut self) -> Option<SingleRegisterAccessOps<'_, Tid, Self>> {
        Some(self)
    }

    fn read_addrs(&mut self, start: u64, data: &mut [u8], _: Tid) -> TargetResult<usize, Self> {
        match self.session.read(start, data) {
            0 if !data.is_empty() => Err(TargetError::Errno(EFAULT)),
            n => Ok(n),
        }
    }

    fn write_addrs(&mut self, start: u64, data: &[u8], _: Tid) -> TargetResult<(), Self> {
        let written = self.session.write(start, data);
        written.map_err(|_| TargetError::Errno(EFAULT))
    }

    fn list_active_threads(&mut self, found: &mut dyn FnMut(Tid)) -> Result<(), String> {
        if !self.over {
            self.session
                .threads()
                .iter()
                .for_each(|t| found(tid(t.tid)));
        }
        Ok(())
    }

    fn support_resume(&mut self) -> Option<MultiThreadResumeOps<'_, Self>> {
        Some(self)
    }

    fn support_thread_extra_info(&mut self) -> Option<ThreadExtraInfoOps<'_, Self>> {
        Some(self)
    }
}

impl SingleRegisterAccess<Tid> for Served {
    fn read_register(&mut self, at: Tid, n: Number, buf: &mut [u8]) -> TargetResult<usize, Self> {
        let (general, area) = self.state(at)?;
        let bytes = self.layout.get(n.0, &general, &area);
        let bytes = bytes.ok_or(TargetError::NonFatal)?;
        Ok(part(&bytes, 0, buf))
    }

    fn write_register(&mut self, at: Tid, n: Number, val: &[u8]) -> TargetResult<(), Self> {
        let (mut general, mut area) = self.state(at)?;
        let vectors = self.layout.set(n.0, val, &mut general, &mut area);
        let vectors = vectors.ok_or(TargetError::NonFatal)?;
        let area = vectors.then_some(area.as_slice());
        let set = self.session.set_registers(number(at), &general, area);
        set.map_err(|_| TargetError::Errno(EPERM))
    }
}

impl ThreadExtraInfo for Served {
    fn thread_extra_info(&self, at: Tid, buf: &mut [u8]) -> Result<usize, String> {
        let threads = self.session.threads();
        let found = threads.iter().find(|t| tid(t.tid) == at);
        let text = found.map_or(String::new(), |t| {
            let name = t.name.clone().unwrap_or_default();
            let state = match (t.current, t.waits) {
                (true, _) => "runs",
                (_, true) => "in a system call",
                _ => "waits for its turn",
            };
            match name.is_empty() {
                true => state.to_owned(),
                false => format!("{name}: {state}"),
            }
        });
        Ok(part(text.as_bytes(), 0, buf))
    }
}

impl MultiThreadResume for Served {
    fn resume(&mut self) -> Result<(), String> {
        self.backward = false;
        Ok(())
    }

    fn clear_resume_actions(&mut self) -> Result<(), String> {
        self.go = Go::On;
        Ok(())
    }

    /// Signals come where the recording has them, whatever the debugger would like.
    fn set_resume_action_continue(&mut self, _: Tid, _: Option<Signal>) -> Result<(), String> {
        Ok(())
    }

    fn support_single_step(&mut self) -> Option<MultiThreadSingleStepOps<'_, Self>> {
        Some(self)
    }

    fn support_range_step(&mut self) -> Option<MultiThreadRangeSteppingOps<'_, Self>> {
        Some(self)
    }

    fn support_reverse_step(&mut self) -> Option<ReverseStepOps<'_, Tid, Self>> {
        Some(self)
    }

    fn support_reverse_cont(&mut self) -> Option<ReverseContOps<'_, Tid, Self>> {
        Some(self)
    }

    fn support_scheduler_locking(&mut self) -> Option<MultiThreadSchedulerLockingOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadSingleStep for Served {
    fn set_resume_action_step(&mut self, at: Tid, _: Option<Signal>) -> Result<(), String> {
        self.go = Go::Step { tid: number(at) };
        Ok(())
    }
}

impl MultiThreadRangeStepping for Served {
    fn set_resume_action_range_step(&mut self, at: Tid, a: u64, b: u64) -> Result<(), String> {
        self.go = Go::Range {
            tid: number(at),
            start: a,
            end: b,
        };
        Ok(())
    }
}

/// The order of threads is the recording's.
impl MultiThreadSchedulerLocking for Served {
    fn set_resume_action_scheduler_lock(&mut self) -> Result<(), String> {
        Ok(())
    }
}

impl ReverseCont<Tid> for Served {
    fn reverse_cont(&mut self) -> Result<(), String> {
        (self.go, self.backward) = (Go::On, true);
        Ok(())
    }
}

impl ReverseStep<Tid> for Served {
    fn reverse_step(&mut self, at: Tid) -> Result<(), String> {
        (self.go, self.backward) = (Go::Step { tid: number(at) }, true);
        Ok(())
    }
}

impl Breakpoints for Served {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_breakpoint(&mut self) -> Option<HwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_watchpoint(&mut self) -> Option<HwWatchpointOps<'_, Self>> {
        Some(self)
    }
}

impl SwBreakpoint for Served {
    fn add_sw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        self.session.add_breakpoint(addr);
        Ok(true)
    }

    fn remove_sw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.session.remove_breakpoint(addr))
    }
}

impl HwBreakpoint for Served {
    fn add_hw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        self.session.add_breakpoint(addr);
        Ok(true)
    }

    fn remove_hw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.session.remove_breakpoint(addr))
    }
}

fn watch(addr: u64, len: u64, kind: WatchKind) -> Watch {
    Watch {
        addr,
        len,
        read: kind != WatchKind::Write,
        write: kind != WatchKind::Read,
    }
}

impl HwWatchpoint for Served {
    fn add_hw_watchpoint(&mut self, addr: u64, n: u64, k: WatchKind) -> TargetResult<bool, Self> {
        self.session.add_watch(watch(addr, n, k));
        Ok(true)
    }

    fn remove_hw_watchpoint(
        &mut self,
        addr: u64,
        n: u64,
        k: WatchKind,
    ) -> TargetResult<bool, Self> {
        Ok(self.session.remove_watch(watch(addr, n, k)))
    }
}

impl CatchSyscalls for Served {
    fn enable_catch_syscalls(
        &mut self,
        filter: Option<SyscallNumbers<'_, u64>>,
    ) -> TargetResult<(), Self> {
        self.session.catch = match filter {
            Some(list) => Catch::Numbers(list.collect()),
            None => Catch::All,
        };
        Ok(())
    }

    fn disable_catch_syscalls(&mut self) -> TargetResult<(), Self> {
        self.session.catch = Catch::Nothing;
        Ok(())
    }
}

impl TargetDescriptionXmlOverride for Served {
    fn target_description_xml(
        &self,
        _annex: &[u8],
        offset: u64,
        length: usize,
        buf: &mut [u8],
    ) -> TargetResult<usize, Self> {
        let n = length.min(buf.len());
        Ok(part(self.description.as_bytes(), offset, &mut buf[..n]))
    }
}

impl Auxv for Served {
    fn get_auxv(&self, offset: u64, length: usize, buf: &mut [u8]) -> TargetResult<usize, Self> {
        let n = length.min(buf.len());
        Ok(part(self.session.auxv(), offset, &mut buf[..n]))
    }
}

impl ExecFile for Served {
    fn get_exec_file(
        &self,
        _pid: Option<Pid>,
        offset: u64,
        length: usize,
        buf: &mut [u8],
    ) -> TargetResult<usize, Self> {
        let path = self.session.executable().ok_or(TargetError::NonFatal)?;
        let n = length.min(buf.len());
        let bytes = path.as_os_str().as_encoded_bytes();
        Ok(part(bytes, offset, &mut buf[..n]))
    }
}

impl ExtendedMode for Served {
    /// The recording from its beginning; what the program is called with cannot be changed.
    fn run(&mut self, _: Option<&[u8]>, _: Args<'_, '_>) -> TargetResult<Pid, Self> {
        // After its end a command may have put it elsewhere, and there it is.
        if !(self.over && self.session.take_moved()) {
            self.session.restart().map_err(|_| TargetError::NonFatal)?;
        }
        self.over = false;
        Ok(tid(self.session.pid()))
    }

    fn attach(&mut self, _: Pid) -> TargetResult<(), Self> {
        Err(TargetError::Errno(EPERM))
    }

    fn query_if_attached(&mut self, _: Pid) -> TargetResult<AttachKind, Self> {
        Ok(AttachKind::Run)
    }

    fn kill(&mut self, _: Option<Pid>) -> TargetResult<ShouldTerminate, Self> {
        Ok(ShouldTerminate::No)
    }

    fn restart(&mut self) -> Result<(), String> {
        self.session.restart().map_err(|e| e.to_string())
    }

    fn support_current_active_pid(&mut self) -> Option<CurrentActivePidOps<'_, Self>> {
        Some(self)
    }
}

impl CurrentActivePid for Served {
    fn current_active_pid(&mut self) -> Result<Pid, String> {
        Ok(tid(self.session.pid()))
    }
}
