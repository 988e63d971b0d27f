//! Where a guest stands: source excerpt, instruction, call stack.

use case::{Excerpt, Frame, FrameList, Position, RecordingName};

use super::paint::Paint;
use super::{WIDTH, clean, cut, number, threads};

/// Longer argument values are cut.
const VALUE: usize = 60;

/// The text for a stop at a step.
pub(crate) fn position(
    p: &Position,
    name: &RecordingName,
    all_threads: bool,
    paint: Paint,
) -> String {
    let mut out = paint.strong(&heading(&format!("step {} of {name}", number(p.step)), p));
    out.push('\n');
    out += &source_place(p, paint);
    if let Some(e) = &p.excerpt
        && e.frame > 0
    {
        out += &format!("  stands in    {}\n", whereabouts(&p.stack.frames[0]));
    }
    out += &instruction(p);
    out += &stack(&p.stack, "backtrace", paint);
    out += &threads::others(&p.threads, all_threads, paint);
    out + &notes(p)
}

/// Why it is perhaps less than one would expect.
pub(super) fn notes(p: &Position) -> String {
    let line = |n: &String| format!("  note: {}\n", clean(n));
    p.notes.iter().map(line).collect()
}

/// With the thread, if there are several.
pub(super) fn heading(text: &str, p: &Position) -> String {
    match &p.thread {
        Some(thread) => format!("{text}, {}", threads::label(thread)),
        None => text.to_owned(),
    }
}

/// The source text, or as much as is known instead.
pub(super) fn source_place(p: &Position, paint: Paint) -> String {
    match &p.excerpt {
        Some(e) => excerpt(e, &p.stack.frames[e.frame], paint),
        None => match p.stack.frames.first() {
            Some(frame) => format!("  {} {}\n", paint.rule("-->"), whereabouts(frame)),
            None => String::new(),
        },
    }
}

pub(super) fn instruction(p: &Position) -> String {
    let Some(i) = &p.instruction else {
        return String::new();
    };
    let symbol = i
        .symbol
        .as_deref()
        .map_or(String::new(), |s| format!(" <{}>", clean(s)));
    let mut out = format!("  instruction  {:#x}{symbol}:  {}\n", i.address, i.text);
    if !i.registers.is_empty() {
        let list: Vec<String> = i
            .registers
            .iter()
            .map(|(name, value)| format!("{name} = {value:#x}"))
            .collect();
        out += &format!("  registers    {}\n", list.join(", "));
    }
    out
}

pub(super) fn excerpt(e: &Excerpt, frame: &Frame, paint: Paint) -> String {
    let last = e.lines.last().map_or(0, |l| l.number);
    let margin = last.to_string().len().max(3);
    let blank = paint.rule(&format!("{:margin$} |", ""));
    let mut out = format!(
        "{:margin$}{} {}\n{blank}\n",
        "",
        paint.rule("-->"),
        whereabouts(frame)
    );
    for line in &e.lines {
        let text = cut(&clean(&line.text), WIDTH - margin - 3);
        let number = paint.rule(&format!("{:margin$} |", line.number));
        if line.number != e.line {
            out += format!("{number} {text}").trim_end();
            out.push('\n');
            continue;
        }
        out += &format!("{number} {}\n", paint.strong(&text));
        let before = match e.column {
            Some(column) if column > 0 => {
                let upto: String = line.text.chars().take(column as usize - 1).collect();
                clean(&upto).chars().count()
            }
            _ => text.chars().take_while(|c| *c == ' ').count(),
        };
        if before < WIDTH - margin - 3 {
            out += &format!("{blank} {:before$}{}\n", "", paint.alarm("^"));
        }
    }
    out + &blank + "\n"
}

/// `file.c:12:5 in main`.
pub(super) fn whereabouts(frame: &Frame) -> String {
    let function = function(frame);
    match (&frame.file, frame.line) {
        (Some(file), Some(line)) => {
            let column = frame.column.map_or(String::new(), |c| format!(":{c}"));
            format!("{}:{line}{column} in {function}", clean(&short(file)))
        }
        _ => match &frame.module_offset {
            Some(offset) => format!("{function} ({})", clean(offset)),
            None => format!("{:#x}, which belongs to no file", frame.pc),
        },
    }
}

pub(super) fn function(frame: &Frame) -> String {
    let name = frame.function.as_deref().map(clean);
    name.unwrap_or_else(|| format!("{:#x}", frame.pc))
}

/// Relative to the working directory if it is below that.
fn short(file: &std::path::Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let shown = file.strip_prefix(here).unwrap_or(file);
    shown.display().to_string()
}

pub(super) fn stack(list: &FrameList, heading: &str, paint: Paint) -> String {
    if list.frames.is_empty() {
        return String::new();
    }
    let mut out = paint.strong(heading);
    out.push('\n');
    let mut guessing = false;
    // What called main, or a thread's first function, is the same in every program.
    let is_start = |f: &Frame| {
        let name = f.function.as_deref().unwrap_or("");
        name.starts_with("__libc_start")
            || name == "_start"
            || name == "start_thread"
            || name.starts_with("__clone")
            || name.starts_with("clone3")
    };
    let start = list.frames.iter().position(is_start).filter(|i| *i > 0);
    let shown = start.unwrap_or(list.frames.len());
    for (i, frame) in list.frames.iter().enumerate().take(shown) {
        if list.left_out > 0 && i == list.left_out_at {
            let rest = format!(
                "      ... {} more frames ...\n",
                number(list.left_out as u64)
            );
            out += &paint.faint(&rest);
        }
        if frame.guessed && !guessing {
            guessing = true;
            out += &paint
                .faint("      found on the damaged stack, perhaps remnants of earlier calls:\n");
        }
        let index = if list.left_out > 0 && i >= list.left_out_at {
            i + list.left_out
        } else {
            i
        };
        out += &frame_line(index, frame, paint);
    }
    out
}

fn frame_line(index: usize, frame: &Frame, paint: Paint) -> String {
    const INDENT: usize = 8;
    let head = format!("  #{index:<3} ");
    if frame.signal_frame {
        return format!("{head}<signal handler called>\n");
    }
    // Words that stay together on a line.
    let mut words = vec![function(frame)];
    if frame.line.is_some() || !frame.parameters.is_empty() {
        let last = frame.parameters.len().saturating_sub(1);
        words.extend(frame.parameters.iter().enumerate().map(|(i, p)| {
            let open = if i == 0 { "(" } else { "" };
            let close = if i == last { ")" } else { "," };
            let value = cut(&clean(&p.value), VALUE);
            format!("{open}{}={value}{close}", clean(&p.name))
        }));
        if frame.parameters.is_empty() {
            words.push("()".to_owned());
        }
    }
    let inlined = if frame.inlined { " (inlined)" } else { "" };
    match (&frame.file, frame.line) {
        (Some(file), Some(line)) => {
            words.push(format!("at {}:{line}{inlined}", clean(&short(file))));
        }
        _ => words.extend(
            frame
                .module_offset
                .iter()
                .map(|o| format!("in {}", clean(o))),
        ),
    }
    let place = words.len() - 1;
    let mut out = head.clone();
    let mut column = head.chars().count();
    for (i, word) in words.iter().enumerate() {
        let width = word.chars().count();
        if i > 0 && column + 1 + width > WIDTH {
            out += &format!("\n{:INDENT$}", "");
            column = INDENT;
        } else if i > 0 {
            out.push(' ');
            column += 1;
        }
        column += width;
        out += &if i == place && place > 0 {
            paint.faint(word)
        } else {
            word.clone()
        };
    }
    out.push('\n');
    out
}
