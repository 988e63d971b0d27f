//! Call stacks and source text, as a report shows them.

use std::path::{Path, PathBuf};

use iced_x86::{FlowControl, Instruction};
use image::{How, Program, RawFrame, Registers};
use serde::Serialize;

use crate::moment::Moment;
use crate::position::decode;

/// More machine frames than this are not followed: a runaway recursion on a huge stack.
const DEEPEST: usize = 100_000;
/// Frames described at either end of a deep stack.
const FIRST: usize = 12;
const LAST: usize = 4;
/// How far up the stack return addresses are looked for, in words.
const SCAN_WORDS: u64 = 1024;
const CONTEXT: u32 = 2;

/// A call stack, innermost frame first.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FrameList {
    pub frames: Vec<Frame>,
    /// So many machine frames are left out before `frames[left_out_at]`.
    pub left_out: usize,
    pub left_out_at: usize,
}

#[derive(Clone, Debug, Serialize)]
pub struct Frame {
    pub pc: u64,
    pub function: Option<String>,
    pub parameters: Vec<Parameter>,
    pub file: Option<PathBuf>,
    pub line: Option<u32>,
    pub column: Option<u32>,
    /// The program or library the code is from.
    pub module: Option<PathBuf>,
    /// `libfoo.so+0x1234`.
    pub module_offset: Option<String>,
    /// Its code is part of the next frame's function.
    pub inlined: bool,
    /// The kernel's frame around a signal handler.
    pub signal_frame: bool,
    /// Found by looking for return addresses on the stack; it may be a remnant.
    pub guessed: bool,
    /// Code of the user's rather than of the system's libraries.
    pub own: bool,
}

impl Frame {
    /// The user has written it: it is not of a header of the system's either, such as those of the C++ library.
    pub fn is_users(&self) -> bool {
        const HEADERS: [&str; 2] = ["/usr/include", "/usr/lib/gcc"];
        let file = self.file.as_deref();
        self.own && !file.is_some_and(|f| HEADERS.iter().any(|h| f.starts_with(h)))
    }

    /// Its code is in a library of the system's.
    pub fn is_systems(&self) -> bool {
        self.module.as_deref().is_some_and(is_system)
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct Parameter {
    pub name: String,
    pub value: String,
}

/// Lines of source around a place.
#[derive(Clone, Debug, Serialize)]
pub struct Excerpt {
    /// Index of the frame it belongs to.
    pub frame: usize,
    pub lines: Vec<SourceLine>,
    pub line: u32,
    pub column: Option<u32>,
}

#[derive(Clone, Debug, Serialize)]
pub struct SourceLine {
    pub number: u32,
    pub text: String,
}

/// The stack of a thread that stands at `registers`. If it got there by a `ret` to nowhere, the
/// frames above are looked for on the stack from `scan_from` on.
pub(crate) fn stack(m: &Moment<'_>, registers: &Registers, scan_from: Option<u64>) -> FrameList {
    let mut raw = m.program.unwind(registers, m.memory(), DEEPEST);
    if let Some(from) = scan_from {
        raw.truncate(1);
        let mut list = describe(m, raw);
        let mut found = scan(m, registers, from);
        for f in &mut found.frames {
            f.guessed = true;
        }
        list.frames.append(&mut found.frames);
        return list;
    }
    // A return address that is no code ends the stack; it is damage, not a frame.
    while raw.len() > 1 && raw.last().is_some_and(|f| !m.is_code(f.lookup_pc())) {
        raw.pop();
    }
    describe(m, raw)
}

/// A frame of which only the place is known.
pub(crate) fn single(program: &Program, pc: u64) -> FrameList {
    let place = program.locate(pc).into_iter().next();
    let (file, line) = match &place {
        Some(p) => (p.file.clone(), p.line),
        None => (None, None),
    };
    let function = place.and_then(|p| p.function);
    let modules = program.modules().into_iter();
    let module = modules
        .filter(|m| (m.start..m.end).contains(&pc))
        .map(|m| m.name)
        .next();
    FrameList {
        frames: vec![Frame {
            pc,
            function: function.or_else(|| program.symbol(pc).map(|s| s.name)),
            parameters: Vec::new(),
            own: line.is_some() && module.as_deref().is_some_and(|p| !is_system(p)),
            file,
            line,
            column: None,
            module,
            module_offset: program.module_offset(pc),
            inlined: false,
            signal_frame: false,
            guessed: false,
        }],
        ..FrameList::default()
    }
}

fn describe(m: &Moment<'_>, mut raw: Vec<RawFrame>) -> FrameList {
    let total = raw.len();
    let mut left_out = 0;
    let mut tail = Vec::new();
    if total > FIRST + LAST + 8 {
        left_out = total - FIRST - LAST;
        tail = raw.split_off(total - LAST);
        raw.truncate(FIRST);
    }
    let mut frames = convert(m, &raw);
    let left_out_at = frames.len();
    frames.append(&mut convert(m, &tail));
    FrameList {
        frames,
        left_out,
        left_out_at,
    }
}

fn convert(m: &Moment<'_>, raw: &[RawFrame]) -> Vec<Frame> {
    let mut described = m.program.describe(raw, m.memory());
    if let (Some(inner), Some(frame)) = (raw.first(), described.first_mut())
        && let Some(arguments) = m.program.incoming_arguments(inner, m.memory())
    {
        frame.arguments = arguments;
    }
    described
        .into_iter()
        .map(|f| Frame {
            pc: f.pc,
            own: f.line.is_some() && f.module.as_deref().is_some_and(|p| !is_system(p)),
            function: f.function,
            parameters: f
                .arguments
                .into_iter()
                .map(|a| Parameter {
                    name: a.name,
                    value: a.value,
                })
                .collect(),
            file: f.file,
            line: f.line,
            column: f.column,
            module: f.module,
            module_offset: f.module_offset,
            inlined: f.inlined,
            signal_frame: f.is_signal_frame,
            guessed: f.how == How::Scan,
        })
        .collect()
}

pub(crate) fn is_system(module: &Path) -> bool {
    const SYSTEM: [&str; 4] = ["/lib", "/lib64", "/usr/lib", "/usr/lib64"];
    SYSTEM.iter().any(|s| module.starts_with(s))
}

/// The stack above the first return address that is found from `from` on.
fn scan(m: &Moment<'_>, registers: &Registers, from: u64) -> FrameList {
    for index in 0..SCAN_WORDS {
        let Some(at) = from.checked_add(index * 8) else {
            break;
        };
        let Some(pc) = m.word(at) else { break };
        if call_before(m, pc).is_none() {
            continue;
        }
        // One byte back is inside the call: the right line, and the same frame layout.
        let caller = Registers {
            rip: pc - 1,
            rsp: at + 8,
            ..*registers
        };
        let mut raw = m.program.unwind(&caller, m.memory(), DEEPEST);
        while raw.len() > 1 && raw.last().is_some_and(|f| !m.is_code(f.lookup_pc())) {
            raw.pop();
        }
        return describe(m, raw);
    }
    FrameList::default()
}

/// The call instruction that `pc` is the return address of.
pub(crate) fn call_before(m: &Moment<'_>, pc: u64) -> Option<Instruction> {
    if !m.is_code(pc) {
        return None;
    }
    (2..=7).find_map(|length| {
        let start = pc.checked_sub(length)?;
        let insn = decode(m, start)?;
        let is_call = matches!(
            insn.flow_control(),
            FlowControl::Call | FlowControl::IndirectCall
        );
        (insn.next_ip() == pc && is_call).then_some(insn)
    })
}

/// Source text of the first frame that is the user's own, else of the first that has any.
pub(crate) fn excerpt(m: &Moment<'_>, list: &FrameList) -> Option<Excerpt> {
    let first = |fits: fn(&Frame) -> bool| {
        let frames = list.frames.iter().enumerate();
        let mut fitting = frames.filter(|(_, f)| fits(f));
        fitting.find_map(|(i, f)| excerpt_of(m, i, f))
    };
    first(Frame::is_users)
        .or_else(|| first(|f| f.own))
        .or_else(|| first(|_| true))
}

fn excerpt_of(m: &Moment<'_>, index: usize, frame: &Frame) -> Option<Excerpt> {
    let (file, line) = (frame.file.as_deref()?, frame.line?);
    m.program.source_line(file, line)?;
    let lines = (line.saturating_sub(CONTEXT).max(1)..=line.saturating_add(CONTEXT))
        .filter_map(|number| {
            let text = m.program.source_line(file, number)?;
            Some(SourceLine { number, text })
        })
        .collect();
    Some(Excerpt {
        frame: index,
        lines,
        line,
        column: frame.column,
    })
}
