//! Values of variables, who wrote them, and which lines ran.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use flow::{Execution, Node};
use image::{Evaluated, ValuePlace};
use serde::Serialize;

use crate::Error;
use crate::frames;
use crate::moment::{self, Guest};
use crate::point::Point;
use crate::replay::Audience;
use crate::slice::{Instance, Report, SourcePlace, is_own};
use crate::store::{RecordingName, Store};
use crate::trace::Traced;

/// Which variable, where.
#[derive(Clone, Debug)]
pub struct ValueRequest {
    pub recording: Option<String>,
    pub expression: String,
    /// The crash if absent.
    pub at: Option<Point>,
    /// Writers to be shown, for a history.
    pub most: usize,
}

#[derive(Clone, Debug, Serialize)]
pub struct ValueReport {
    pub recording: RecordingName,
    pub at: Instance,
    pub expression: String,
    pub value: String,
    #[serde(rename = "type")]
    pub type_name: String,
    pub address: Option<u64>,
    pub size: Option<u64>,
    /// Of a bit field, the first bit in these bytes and how many there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bits: Option<(u64, u64)>,
}

/// Several expressions at a place.
#[derive(Clone, Debug)]
pub struct ValuesRequest {
    pub recording: Option<String>,
    pub expressions: Vec<String>,
    /// The crash if absent.
    pub at: Option<Point>,
    /// Each time that the place is reached, but not more than so many.
    pub every: Option<usize>,
}

#[derive(Clone, Debug, Serialize)]
pub struct ValuesReport {
    pub recording: RecordingName,
    pub moments: Vec<Values>,
    /// The place was reached more often.
    pub more: bool,
}

/// What the expressions were at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct Values {
    pub at: Instance,
    pub values: Vec<NamedValue>,
}

/// The value of an expression, or why there is none.
#[derive(Clone, Debug, Serialize)]
pub struct NamedValue {
    pub expression: String,
    pub value: Option<String>,
    pub problem: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct HistoryReport {
    #[serde(flatten)]
    pub now: ValueReport,
    /// The latest first.
    pub writes: Vec<PastWrite>,
    /// There were more.
    pub more: bool,
}

#[derive(Clone, Debug, Serialize)]
pub struct PastWrite {
    #[serde(flatten)]
    pub by: Instance,
    pub text: Option<String>,
    /// Where in a library that was.
    pub inside: Option<SourcePlace>,
    /// What was there afterwards, in hexadecimal, as a number if it is as long as one.
    pub value: String,
}

/// A line that ran.
#[derive(Clone, Debug, Serialize)]
pub struct RanLine {
    pub line: u32,
    pub times: u64,
    pub text: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct SourceReport {
    pub recording: RecordingName,
    pub files: BTreeMap<PathBuf, Vec<RanLine>>,
    pub steps: u64,
}

impl Traced {
    /// Takes the guest to an execution; `None` for the end.
    pub(crate) fn go(&mut self, at: Option<Execution>) -> Result<(), Error> {
        let step = at.map_or(self.steps, |e| e.step);
        let here = self.replay.step().map_err(|e| self.wrong(e))?;
        if here == step {
            return Ok(());
        }
        self.replay.goto(step).map_err(|e| self.wrong(e))?;
        Ok(())
    }

    fn wrong(&self, error: guest::Error) -> Error {
        Error::Engine {
            name: self.name.clone(),
            error,
        }
    }

    /// Evaluates an expression where the guest stands.
    pub(crate) fn evaluate(&self, expression: &str) -> Result<Evaluated, Error> {
        let mut registers = moment::registers(&self.replay.regs());
        registers.xmm = self.replay.vector_state().ok().and_then(|s| vectors(&s));
        let memory = Guest(&self.replay);
        let frames = self.program.unwind(&registers, &memory, 1);
        let frame = frames
            .first()
            .ok_or(Error::Request("there is no frame here".into()))?;
        self.program
            .evaluate(expression, frame, &memory)
            .map_err(|e| {
                let mark = " ".repeat(expression[..e.at.min(expression.len())].chars().count());
                Error::Request(format!("{}\n  {expression}\n  {mark}^", e.reason))
            })
    }
}

/// The xmm registers in an XSAVE area.
fn vectors(state: &[u8]) -> Option<[u128; 16]> {
    const AT: usize = 160;
    let bytes = state.get(AT..AT + 256)?;
    let mut out = [0; 16];
    for (x, b) in out.iter_mut().zip(bytes.chunks_exact(16)) {
        *x = u128::from_le_bytes(b.try_into().ok()?);
    }
    Some(out)
}

fn here(traced: &mut Traced, request: &ValueRequest) -> Result<ValueReport, Error> {
    let point = request.at.clone().unwrap_or(Point::Crash);
    let found = traced.find_settled(&point)?;
    traced.go(found)?;
    let v = traced.evaluate(&request.expression)?;
    let node = Node {
        step: found.map_or(traced.steps, |e| e.step),
        pc: found.map_or(traced.regs.rip, |e| e.pc),
    };
    let mut report = Report::new(traced);
    report.number([node].into_iter());
    Ok(ValueReport {
        recording: RecordingName(traced.name.clone()),
        at: report.instance(node),
        expression: request.expression.clone(),
        value: v.value,
        type_name: v.type_name,
        address: match v.places.first() {
            Some(ValuePlace::Memory { address, .. }) => Some(*address),
            _ => None,
        },
        size: Some(v.bytes.len() as u64),
        bits: v.bits,
    })
}

pub(crate) fn value(
    store: &Store,
    request: &ValueRequest,
    audience: &Rc<dyn Audience>,
) -> Result<ValueReport, Error> {
    Traced::answer(store, request.recording.as_deref(), audience, |traced| {
        here(traced, request)
    })
}

pub(crate) fn values(
    store: &Store,
    request: &ValuesRequest,
    audience: &Rc<dyn Audience>,
) -> Result<ValuesReport, Error> {
    Traced::answer(store, request.recording.as_deref(), audience, |traced| {
        values_of(traced, request)
    })
}

fn values_of(traced: &mut Traced, request: &ValuesRequest) -> Result<ValuesReport, Error> {
    let mut times = Vec::new();
    let mut more = false;
    let point = request.at.clone().unwrap_or(Point::Crash);
    match (request.every, &point) {
        (None, one) => times.push(traced.find_settled(one)?),
        (Some(most), Point::Line { nth: None, .. } | Point::Function { nth: None, .. }) => {
            let wanted = traced.addresses(&point)?;
            let wanted = |pc| wanted.contains(&pc);
            traced.roll.executions_from(0, wanted, |e| {
                more = times.len() == most;
                if !more {
                    times.push(Some(e));
                }
                !more
            });
            for e in times.iter_mut().flatten() {
                *e = traced.settled(*e);
            }
        }
        (Some(_), once) => {
            return Err(Error::Request(format!(
                "`{once}` is one time only; a line or a function without `#N` is wanted here"
            )));
        }
    }
    // In the order of steps, so one run from the beginning answers all of them.
    let mut all = Vec::new();
    for at in &times {
        traced.go(*at)?;
        let values = request.expressions.iter().map(|e| {
            let known = traced.evaluate(e);
            NamedValue {
                expression: e.clone(),
                problem: known.as_ref().err().map(Error::to_string),
                value: known.ok().map(|v| v.value),
            }
        });
        all.push(values.collect());
        if traced.interrupt.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
    }
    let node = |at: &Option<Execution>| Node {
        step: at.map_or(traced.steps, |e| e.step),
        pc: at.map_or(traced.regs.rip, |e| e.pc),
    };
    let mut report = Report::new(traced);
    report.number(times.iter().map(node));
    let moments = times.iter().zip(all).map(|(at, values)| Values {
        at: report.instance(node(at)),
        values,
    });
    Ok(ValuesReport {
        recording: RecordingName(traced.name.clone()),
        moments: moments.collect(),
        more,
    })
}

pub(crate) fn history(
    store: &Store,
    request: &ValueRequest,
    audience: &Rc<dyn Audience>,
) -> Result<HistoryReport, Error> {
    Traced::answer(store, request.recording.as_deref(), audience, |traced| {
        history_of(traced, request)
    })
}

fn history_of(traced: &mut Traced, request: &ValueRequest) -> Result<HistoryReport, Error> {
    let now = here(traced, request)?;
    let (Some(addr), Some(size)) = (now.address, now.size) else {
        return Err(Error::Request(format!(
            "`{}` is not in memory here, so it has no history; `wherefore slice --var` follows it through registers",
            now.expression
        )));
    };
    let mut writes = Vec::new();
    // What a library wrote, the call of it wrote.
    let mut shown = Vec::new();
    let mut more = false;
    traced.roll.writes(addr, size, now.at.step, |view, w| {
        more = writes.len() == request.most;
        if !more {
            let own = view.shown(w.node, w.frame, |pc| is_own(&traced.program, pc));
            shown.push(own.unwrap_or(w.node));
            writes.push(w);
        }
        !more
    });
    // One pass over the run answers all of them.
    let mut values = Vec::new();
    for w in writes.iter().rev() {
        traced
            .replay
            .goto(w.node.step + 1)
            .map_err(|e| traced.wrong(e))?;
        let mut bytes = vec![0; size.min(64) as usize];
        let n = traced.replay.read(addr, &mut bytes);
        values.push(match now.bits {
            Some(bits) => render_bits(&bytes[..n], bits),
            None => as_float(traced, &now, addr).unwrap_or_else(|| render(&bytes[..n])),
        });
    }
    values.reverse();
    let mut report = Report::new(traced);
    report.number(shown.iter().copied());
    let list = writes
        .iter()
        .zip(shown)
        .zip(values)
        .map(|((w, node), value)| {
            let by = report.instance(node);
            PastWrite {
                text: traced.text(&by.place),
                inside: (node != w.node).then(|| traced.place(w.node.pc)),
                by,
                value,
            }
        });
    let writes = list.collect();
    Ok(HistoryReport { now, writes, more })
}

/// What a variable of a floating-point type is where the guest stands; its bytes tell nobody anything.
fn as_float(traced: &Traced, now: &ValueReport, addr: u64) -> Option<String> {
    let of = now.type_name.as_str();
    let of = of
        .trim_start_matches("const ")
        .trim_start_matches("volatile ");
    if !["float", "double", "long double"].contains(&of) {
        return None;
    }
    let there = traced.evaluate(&format!("*({of} *) {addr:#x}"));
    there.ok().map(|v| v.value)
}

/// A bit field in the bytes that it is a part of.
fn render_bits(bytes: &[u8], (first, count): (u64, u64)) -> String {
    let mut wide = [0; 16];
    let n = bytes.len().min(16);
    wide[..n].copy_from_slice(&bytes[..n]);
    let mask = 1u128.checked_shl(count as u32).map_or(u128::MAX, |b| b - 1);
    let value = u128::from_le_bytes(wide) >> first.min(127) & mask;
    format!("{value} ({value:#x})")
}

/// Bytes as a number where they can be one.
fn render(bytes: &[u8]) -> String {
    let mut wide = [0; 8];
    match bytes.len() {
        n @ (1 | 2 | 4 | 8) => {
            wide[..n].copy_from_slice(bytes);
            let unsigned = u64::from_le_bytes(wide);
            let unused = 64 - 8 * n;
            let signed = (unsigned << unused) as i64 >> unused;
            format!("{signed} ({unsigned:#x})")
        }
        _ => bytes
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect::<Vec<_>>()
            .join(" "),
    }
}

pub(crate) fn source(
    store: &Store,
    recording: Option<&str>,
    audience: &Rc<dyn Audience>,
) -> Result<SourceReport, Error> {
    Traced::answer(store, recording, audience, |traced| Ok(source_of(traced)))
}

fn source_of(traced: &Traced) -> SourceReport {
    let mut times: BTreeMap<PathBuf, BTreeMap<u32, u64>> = BTreeMap::new();
    let counts = traced.roll.times();
    let mut starts: BTreeMap<PathBuf, BTreeMap<u32, std::collections::BTreeSet<u64>>> =
        BTreeMap::new();
    let own = |pc| {
        let file = traced
            .program
            .modules()
            .into_iter()
            .find(|m| (m.start..m.end).contains(&pc));
        file.is_some_and(|m| !frames::is_system(&m.name))
    };
    for &pc in counts.keys().filter(|pc| own(**pc)) {
        let SourcePlace {
            file: Some(file),
            line: Some(line),
            ..
        } = traced.place(pc)
        else {
            continue;
        };
        let known = starts
            .entry(file.clone())
            .or_insert_with(|| traced.program.line_starts(&file));
        let first = known.get(&line).is_some_and(|s| s.contains(&pc));
        let n = times.entry(file).or_default().entry(line).or_default();
        if first {
            *n += counts[&pc];
        }
    }
    let files = times.into_iter().map(|(file, lines)| {
        let lines = lines.into_iter().map(|(line, times)| RanLine {
            line,
            times,
            text: traced
                .program
                .source_line(&file, line)
                .map(|t| t.trim_end().to_owned()),
        });
        let lines = lines.collect();
        (file, lines)
    });
    SourceReport {
        recording: RecordingName(traced.name.clone()),
        files: files.collect(),
        steps: traced.steps,
    }
}
