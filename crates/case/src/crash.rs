//! The crash report: what killed the guest, and where.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use guest::{Halt, Until};
use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind};
use image::Registers;
use serde::Serialize;

use crate::access;
use crate::frames;
use crate::moment::Moment;
use crate::position::{self, Position, decode};
use crate::threads;

/// How a guest came to die of a signal.
#[derive(Clone, Debug, Serialize)]
pub struct CrashReport {
    pub recording: String,
    pub signal: SignalName,
    /// Name and meaning of the `si_code`, such as `SEGV_MAPERR`.
    pub code: Option<(String, String)>,
    /// The address that the signal names.
    pub address: Option<u64>,
    /// Who sent it, if it was sent.
    pub sent: Option<Sent>,
    /// One sentence on what happened, without a full stop.
    pub cause: Option<String>,
    /// The true last place; for a jump to nowhere that of the jump.
    pub position: Position,
    /// Where the guest jumped to, if that is no code.
    pub jumped_to: Option<u64>,
    /// The signal is a fault or an abort rather than a request to end.
    pub is_fault: bool,
}

#[derive(Clone, Debug, Serialize)]
pub struct SignalName {
    pub number: i32,
    pub name: String,
    pub meaning: String,
}

/// A signal that a process sent.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sent {
    pub by_pid: i32,
}

/// Looks at a guest in the moment of its crash.
#[derive(Clone, Default)]
pub(crate) struct Witness {
    seen: Rc<RefCell<Option<Seen>>>,
    took: Rc<Cell<Duration>>,
}

struct Seen {
    report: CrashReport,
    /// The step of the branch that led to where there is no code, if all depends on which that was.
    branch: Option<u64>,
}

impl Witness {
    pub(crate) fn look(&self, recording: &str) -> impl FnMut(&guest::Crash<'_>) + 'static {
        let (witness, recording) = (self.clone(), recording.to_owned());
        move |crash| {
            let begun = Instant::now();
            let report = report(&recording, crash, None);
            let explained = report.jumped_to.is_some();
            let branch = crash.branched_at.filter(|_| !explained);
            *witness.seen.borrow_mut() = Some(Seen { report, branch });
            witness.took.set(begun.elapsed());
        }
    }

    /// How long it took to look.
    pub(crate) fn took(&self) -> Duration {
        self.took.get()
    }

    /// What was seen. Which branch led astray is not written down while the guest runs; where the stack does not
    /// tell, the recording is run again up to it. If that cannot be done, or somebody interrupts it, the report says
    /// less.
    pub(crate) fn report(&self, folder: &Path) -> Option<CrashReport> {
        let Seen { report, branch } = self.seen.take()?;
        let again = branch.and_then(|step| again(&report.recording, folder, step).ok());
        Some(again.flatten().unwrap_or(report))
    }
}

/// The crash once more, with the branch at `step` in view.
fn again(recording: &str, folder: &Path, step: u64) -> Result<Option<CrashReport>, guest::Error> {
    let mut replay = guest::Replay::open(folder, Box::new(|_, _| ()))?;
    crate::on_interrupt(&replay.interrupter());
    if !matches!(replay.run(&Until::step(step))?, Halt::Step) {
        return Ok(None);
    }
    let from = replay.regs().rip;
    let seen = Rc::new(RefCell::new(None));
    replay.on_crash({
        let (seen, recording) = (seen.clone(), recording.to_owned());
        move |crash| *seen.borrow_mut() = Some(report(&recording, crash, Some(from)))
    });
    replay.run(&Until::end())?;
    Ok(seen.take())
}

/// Looks at the guest where it dies.
fn with_moment<T>(crash: &guest::Crash<'_>, look: impl FnOnce(&Moment<'_>) -> T) -> T {
    let read = |addr: u64, buf: &mut [u8]| crash.read(addr, buf);
    let (step, regs) = (crash.step, crash.regs);
    look(&Moment::new(
        step,
        regs,
        &crash.mappings,
        crash.stored,
        &read,
        None,
    ))
}

/// The call that led to where there is no code, if that is what the guest dies of.
pub(crate) fn astray(crash: &guest::Crash<'_>) -> Option<Instruction> {
    with_moment(crash, |m| {
        let jump = jump(m, None)?;
        matches!(jump.kind, FlowControl::IndirectCall)
            .then(|| decode(m, jump.before.rip))
            .flatten()
    })
}

/// `from` is the branch that led here, if there is no code here.
fn report(recording: &str, crash: &guest::Crash<'_>, from: Option<u64>) -> CrashReport {
    with_moment(crash, |m| seen_at(m, recording, crash, from))
}

fn seen_at(
    m: &Moment<'_>,
    recording: &str,
    crash: &guest::Crash<'_>,
    from: Option<u64>,
) -> CrashReport {
    let word = |at: usize| {
        let bytes = crash.info[at..at + 4].try_into().expect("four bytes");
        i32::from_le_bytes(bytes)
    };
    let si_code = word(8);
    let address = u64::from_le_bytes(crash.info[16..24].try_into().expect("eight bytes"));
    let is_fault_code = si_code > 0 && si_code != 0x80;
    let sent = (si_code <= 0).then(|| Sent { by_pid: word(16) });

    let jump = jump(m, from);
    let (mut position, cause) = match &jump {
        Some(j) => (position::at(m, &j.before, j.scan_from), Some(j.sentence(m))),
        None => {
            let position = position::here(m);
            let cause = cause(m, crash.signal, si_code, address)
                .or_else(|| sent.and_then(|_| given_up(&position)));
            (position, cause)
        }
    };
    position.thread = threads::label_of(&crash.threads, crash.thread);
    position.threads = threads::others(m, &crash.threads, crash.thread);
    use abi::signal;
    CrashReport {
        recording: recording.to_owned(),
        signal: SignalName {
            number: crash.signal,
            name: crate::signal_name(crash.signal),
            meaning: signal::meaning(crash.signal).unwrap_or("").to_owned(),
        },
        code: signal::code(crash.signal, si_code)
            .map(|c| (c.name.to_owned(), c.meaning.to_owned())),
        address: is_fault_code.then_some(address),
        sent,
        cause,
        position,
        jumped_to: jump.map(|_| m.regs.rip),
        is_fault: signal::default_action(crash.signal) == Some(signal::Action::Core)
            && crash.signal != SIGQUIT,
    }
}

const SIGQUIT: i32 = 3;
const BUS_ADRERR: i32 = 2;

fn cause(m: &Moment<'_>, signal: i32, code: i32, address: u64) -> Option<String> {
    if code <= 0 {
        return None;
    }
    match abi::signal::name(signal)?.as_str() {
        "SIGSEGV" => access::explain(m, code, address, false),
        "SIGBUS" => access::explain(m, code, address, code == BUS_ADRERR),
        "SIGFPE" => divided(m),
        _ => None,
    }
}

/// Functions of the C and C++ libraries that end a program, and what they mean. The most telling
/// come first, since they call each other.
const GIVING_UP: [(&str, &str); 9] = [
    ("__assert_fail", "an assertion failed"),
    (
        "__stack_chk_fail",
        "a buffer on the stack overflowed: the stack protector noticed when the function returned",
    ),
    (
        "__chk_fail",
        "a buffer would have overflowed: the C library refused the call",
    ),
    (
        "malloc_printerr",
        "the heap is damaged: the C library noticed",
    ),
    (
        "std::terminate",
        "an exception was not caught, or escaped from where it must not",
    ),
    ("__cxa_pure_virtual", "a pure virtual function was called"),
    ("rust_panic", "a Rust panic aborted the program"),
    ("abort", "the program called abort"),
    ("raise", "the program raised the signal itself"),
];

/// What the library functions between the signal and the user's own code say.
fn given_up(p: &Position) -> Option<String> {
    let frames = &p.stack.frames;
    let depth = frames.iter().position(|f| f.own).unwrap_or(frames.len());
    let names: Vec<&str> = frames[..depth]
        .iter()
        .filter_map(|f| f.function.as_deref())
        .map(|name| name.strip_prefix("__GI_").unwrap_or(name))
        .collect();
    let (_, meaning) = GIVING_UP.iter().find(|(function, _)| {
        names
            .iter()
            .any(|n| n == function || n.starts_with(&format!("{function}(")))
    })?;
    Some((*meaning).to_owned())
}

fn divided(m: &Moment<'_>) -> Option<String> {
    let insn = decode(m, m.regs.rip)?;
    if !matches!(insn.mnemonic(), Mnemonic::Div | Mnemonic::Idiv) {
        return None;
    }
    let size = match insn.op0_kind() {
        OpKind::Register => insn.op0_register().size(),
        _ => insn.memory_size().size(),
    };
    let raw = match insn.op0_kind() {
        OpKind::Register => access::register(&m.registers(), insn.op0_register())?,
        _ => {
            let a = access::accesses(m);
            m.word(a.first()?.address)?
        }
    };
    let divisor = if size >= 8 {
        raw
    } else {
        raw & ((1 << (8 * size)) - 1)
    };
    Some(if divisor == 0 {
        "divided an integer by zero".to_owned()
    } else {
        "divided an integer, and the quotient does not fit its type".to_owned()
    })
}

/// A branch to where there is no code.
struct Jump {
    kind: FlowControl,
    /// The registers before the branch.
    before: Registers,
    scan_from: Option<u64>,
}

/// The branch that led to where the guest stands, if there is no code: the one at `from`, or a call, which is found
/// by what it pushed.
fn jump(m: &Moment<'_>, from: Option<u64>) -> Option<Jump> {
    if m.is_code(m.regs.rip) {
        return None;
    }
    let last = from.and_then(|pc| decode(m, pc));
    let call = || m.word(m.regs.rsp).and_then(|pc| frames::call_before(m, pc));
    last.and_then(|insn| branch(m, &insn))
        .or_else(|| call().and_then(|insn| branch(m, &insn)))
}

/// The jump that `insn` made, provided that it leads to where the guest stands.
fn branch(m: &Moment<'_>, insn: &Instruction) -> Option<Jump> {
    let target = m.regs.rip;
    let mut before = Registers {
        rip: insn.ip(),
        ..m.registers()
    };
    let mut scan_from = None;
    let kind = insn.flow_control();
    let leads_here = match kind {
        FlowControl::Return => {
            // The popped address is the garbage; frames above it may have survived.
            scan_from = Some(before.rsp);
            let extra = match insn.op_count() {
                1 => insn.immediate(0),
                _ => 0,
            };
            before.rsp = before.rsp.wrapping_sub(8 + extra);
            m.word(before.rsp) == Some(target)
        }
        FlowControl::Call => {
            before.rsp = before.rsp.wrapping_add(8);
            insn.near_branch_target() == target
        }
        FlowControl::IndirectCall => {
            let pushed = m.word(before.rsp);
            before.rsp = before.rsp.wrapping_add(8);
            pushed == Some(insn.next_ip()) && operand(m, insn, &before) == Some(target)
        }
        FlowControl::IndirectBranch => operand(m, insn, &before) == Some(target),
        _ => false,
    };
    leads_here.then_some(Jump {
        kind,
        before,
        scan_from,
    })
}

/// Where an indirect branch leads.
fn operand(m: &Moment<'_>, insn: &Instruction, before: &Registers) -> Option<u64> {
    match insn.op0_kind() {
        OpKind::Register => access::register(before, insn.op0_register()),
        _ => {
            let at = access::operands(insn, before);
            at.first().and_then(|a| m.word(a.address))
        }
    }
}

impl Jump {
    fn sentence(&self, m: &Moment<'_>) -> String {
        let target = m.regs.rip;
        let function = m
            .program
            .locate(self.before.rip)
            .pop()
            .and_then(|p| p.function)
            .or_else(|| m.program.module_offset(self.before.rip))
            .unwrap_or_else(|| format!("{:#x}", self.before.rip));
        let what = match m.mapping(target) {
            None if target == 0 => "a null pointer".to_owned(),
            None => "which is not code".to_owned(),
            Some(_) => access::place(m, target),
        };
        match self.kind {
            FlowControl::Return => format!(
                "`{function}` returned to {target:#x}, {what}: its return address was overwritten"
            ),
            FlowControl::IndirectBranch => format!("`{function}` jumped to {target:#x}, {what}"),
            _ => format!("`{function}` called {target:#x}, {what}"),
        }
    }
}
