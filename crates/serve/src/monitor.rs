//! Commands that gdb does not have: `monitor NAME ARGUMENTS`.

use std::fmt::Write;

use case::{Condition, EditKind, EditRequest, MoveRequest, Why};
use gdbstub::target::ext::monitor_cmd::{ConsoleOutput, MonitorCmd, outputln};

use crate::target::Served;

/// Said when the guest is elsewhere than the debugger believes.
pub(crate) const LOOK: &str = "(the guest has moved: `stepi` lets the debugger see where it is)";

impl MonitorCmd for Served {
    fn handle_monitor_cmd(&mut self, cmd: &[u8], mut out: ConsoleOutput<'_>) -> Result<(), String> {
        let text = String::from_utf8_lossy(cmd).into_owned();
        let (name, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        match self.command(name, rest.trim()) {
            Ok(said) => {
                for line in said.lines() {
                    outputln!(out, "{line}");
                }
                if self.session.has_moved() {
                    outputln!(out, "{LOOK}");
                }
            }
            Err(why) => outputln!(out, "error: {why}"),
        }
        Ok(())
    }
}

fn file_and_line(place: &str) -> Result<(&str, u32), String> {
    let (file, line) = place.rsplit_once(':').ok_or("write FILE:LINE")?;
    let line = line.parse();
    let line = line.map_err(|_| format!("`{place}` does not end in a line"))?;
    Ok((file, line))
}

fn id(text: &str, of: &str) -> Result<u32, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is not the number of a {of}"))
}

impl Served {
    fn command(&mut self, name: &str, rest: &str) -> Result<String, String> {
        let s = &mut self.session;
        let wrong = |e: case::Error| e.to_string();
        match name {
            "when" => {
                let step = s.step().map_err(wrong)?;
                let of = s.steps().map_or(String::new(), |n| format!(" of {n}"));
                let timeline = s.timelines().iter().find(|t| t.current).map_or(0, |t| t.id);
                let on = match timeline {
                    0 => String::new(),
                    n => format!(", timeline {n}"),
                };
                Ok(format!("step {step}{of}{on}"))
            }
            "goto" if rest.contains(':') => {
                let (place, n) = rest.split_once([' ', '#']).unwrap_or((rest, "1"));
                let (file, line) = file_and_line(place)?;
                let n = n.trim().parse().ok().filter(|n| *n > 0);
                let n = n.ok_or("write FILE:LINE and the number of an execution, from 1")?;
                s.goto_instance(file, line, n).map_err(wrong)?;
                Ok(String::new())
            }
            "goto" => {
                let step = rest.replace([',', '_'], "");
                let step = step
                    .parse()
                    .map_err(|_| format!("`{rest}` is not a step"))?;
                s.goto(step).map_err(wrong)?;
                Ok(String::new())
            }
            "checkpoint" => {
                let c = s.checkpoint().map_err(wrong)?;
                Ok(format!(
                    "checkpoint {} at step {}: {}",
                    c.id, c.step, c.place
                ))
            }
            "rollback" => {
                s.rollback(id(rest, "checkpoint")?).map_err(wrong)?;
                Ok(String::new())
            }
            "cdelete" => {
                s.delete_checkpoint(id(rest, "checkpoint")?)
                    .map_err(wrong)?;
                Ok(String::new())
            }
            "checkpoints" => {
                let list = s.checkpoints();
                let lines = list.iter().map(|c| {
                    let on = match c.timeline {
                        0 => String::new(),
                        n => format!(" of timeline {n}"),
                    };
                    format!("{:>3}  step {}{on}: {}", c.id, c.step, c.place)
                });
                Ok(match list.is_empty() {
                    true => "no checkpoints".to_owned(),
                    false => lines.collect::<Vec<_>>().join("\n"),
                })
            }
            "timelines" => {
                let list = s.timelines();
                let lines = list.iter().map(|t| {
                    let mark = if t.current { '*' } else { ' ' };
                    let what = match (&t.change, t.parent) {
                        (Some((what, step)), Some(parent)) => {
                            format!("{what}, from step {step} on; parts from {parent}")
                        }
                        _ => "the recording".to_owned(),
                    };
                    format!("{mark}{:>2}  {what}", t.id)
                });
                Ok(lines.collect::<Vec<_>>().join("\n"))
            }
            "timeline" => {
                s.timeline(id(rest, "timeline")?).map_err(wrong)?;
                Ok(String::new())
            }
            "switch" | "suppress" => {
                let kind = match name {
                    "switch" => EditKind::Switch,
                    _ => EditKind::Suppress,
                };
                let request = EditRequest::parse(kind, rest)?;
                let step = s.edit(&request).map_err(wrong)?;
                let edit = s.edits().last().map_or(0, |e| e.id);
                let timeline = s.timelines().iter().find(|t| t.current).map_or(0, |t| t.id);
                Ok(format!(
                    "edit {edit}: {request}, from step {step} on (timeline {timeline})"
                ))
            }
            "move" => {
                let request: MoveRequest = rest.parse()?;
                let step = s.move_variables(&request).map_err(wrong)?;
                let edit = s.edits();
                let edit = edit.last().ok_or("nothing was changed")?;
                let timeline = s.timelines().iter().find(|t| t.current).map_or(0, |t| t.id);
                Ok(format!(
                    "edit {}: {}, from step {step} on (timeline {timeline})",
                    edit.id, edit.what
                ))
            }
            "edits" => {
                let list = s.edits();
                let lines = list
                    .iter()
                    .map(|e| format!("{:>3}  {}, from step {} on", e.id, e.what, e.step));
                Ok(match list.is_empty() {
                    true => "no edits: this is the recording".to_owned(),
                    false => lines.collect::<Vec<_>>().join("\n"),
                })
            }
            "edit-delete" => {
                s.delete_edit(id(rest, "edit")?).map_err(wrong)?;
                Ok(String::new())
            }
            "instance" => {
                let (file, line) = file_and_line(rest)?;
                let n = s.instance(file, line).map_err(wrong)?;
                Ok(format!("{file}:{line} was executed {n} times before this"))
            }
            "slice" => self.slices.make(s, rest),
            "prune" => self.slices.prune(s, rest),
            "sbreak" => self.slices.breaks(s, rest),
            "snext" => self.slices.along(s, rest, true),
            "sprev" => self.slices.along(s, rest, false),
            "sdelete" => self.slices.delete(s, rest),
            "slices" => Ok(self.slices.all(s)),
            "follow" => self.slices.follow(s, rest),
            "record" => self.slices.record(s, rest),
            "lbreak" => {
                let (function, condition) = match rest.split_once(" if ") {
                    Some((function, condition)) => (function.trim(), condition.parse()?),
                    None => (rest, Condition::Always),
                };
                if function.is_empty() {
                    return Err("write the name of a function".to_owned());
                }
                let id = s.add_library_break(function, condition).map_err(wrong)?;
                Ok(format!("lbreak {id}: calls of {function}"))
            }
            "lbreaks" => {
                let list = s.library_breaks().iter();
                let lines =
                    list.map(|b| format!("{:>3}  {} {}", b.id, b.function, said(b.condition)));
                Ok(lines.collect::<Vec<_>>().join("\n"))
            }
            "ldelete" => {
                s.delete_library_break(id(rest, "lbreak")?).map_err(wrong)?;
                Ok(String::new())
            }
            "detectors" => {
                let lines = s.detectors().into_iter().map(|d| {
                    let what = d.about.split(['\n', ':']).next().unwrap_or("").to_owned();
                    let found = match d.on {
                        true => format!("; {}", findings(&d.faults)),
                        false => String::new(),
                    };
                    let on = if d.on { "on" } else { "off" };
                    format!("{on:<4} {:<20} {what}{found}", d.name)
                });
                Ok(lines.collect::<Vec<_>>().join("\n"))
            }
            "detector" => match rest.split_once(' ').map(|(rule, on)| (rule, on.trim())) {
                Some((rule, "on")) => {
                    let found = s.detector_on(rule).map_err(wrong)?;
                    Ok(findings(&found))
                }
                Some((rule, "off")) => {
                    s.detector_off(rule).map_err(wrong)?;
                    Ok(String::new())
                }
                _ => Err("write NAME on, or NAME off".to_owned()),
            },
            "stopped" => Ok(match s.last_stop() {
                Some(Why::Library(n)) => {
                    let found = s.library_breaks().iter().find(|b| b.id == n);
                    let function = found.map_or("", |b| &b.function);
                    format!("lbreak {n}: a call of {function}")
                }
                Some(Why::Marked) => match s.fault_at(s.step().map_err(wrong)?) {
                    Some(fault) => format!("{fault} (this has not happened yet)"),
                    None => "a statement instance of a slice".to_owned(),
                },
                Some(Why::End) => {
                    "the program is about to end; `continue` lets it, going back is possible"
                        .to_owned()
                }
                _ => String::new(),
            }),
            // Of breakpoints by their addresses: how often they are passed by, and how often yet.
            "ignore" => {
                let (at, times) = rest.split_once(' ').ok_or("write ADDRESS TIMES")?;
                let at = hexadecimal(at)?;
                let times = times.trim().parse();
                s.ignore(at, times.map_err(|_| "that is not a number of times")?);
                Ok(String::new())
            }
            "ignored" => Ok(s.ignores(hexadecimal(rest)?).to_string()),
            "cpu" => Ok(own_cpu().map_or(String::new(), |n| n.to_string())),
            "came-from" => {
                let c = s.came_from().map_err(wrong)?;
                let mut out = format!("pc {:#x}", c.pc);
                if c.nowhere {
                    out.push_str(", where there is no code");
                }
                let _ = write!(
                    out,
                    "\ncame from {:#x}, {} (step {}): {}",
                    c.previous, c.place, c.step, c.instruction
                );
                if let Some(slot) = c.slot {
                    let _ = write!(out, "\nthe address was taken from {slot:#x}");
                }
                if let Some(w) = c.writer {
                    let inside = w.inside.map_or(String::new(), |f| format!(", inside {f}"));
                    let text = w.text.map_or(String::new(), |t| format!(": {t}"));
                    let _ = write!(
                        out,
                        ", last written by {}{inside} (step {}){text}",
                        w.place, w.step
                    );
                }
                Ok(out)
            }
            _ => Err(format!("there is no `{name}`; the commands are {COMMANDS}")),
        }
    }
}

fn hexadecimal(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16).map_err(|_| format!("`{text}` is not an address"))
}

/// The CPU that this thread and the guest are kept on.
fn own_cpu() -> Option<usize> {
    let set = rustix::thread::sched_getaffinity(None).ok()?;
    let mut all = (0..rustix::thread::CpuSet::MAX_CPU).filter(|n| set.is_set(*n));
    all.next().filter(|_| set.count() == 1)
}

const COMMANDS: &str = "when, goto, checkpoint, rollback, checkpoints, cdelete, timelines, timeline, \
                        switch, suppress, move, edits, edit-delete, instance, slice, prune, sbreak, snext, \
                        sprev, sdelete, slices, follow, record, lbreak, lbreaks, ldelete, came-from, \
                        detectors, detector, ignore, ignored";

/// What a detector found.
fn findings(faults: &[(u64, String)]) -> String {
    match faults {
        [] => "it finds nothing in this recording".to_owned(),
        list => {
            let lines = list
                .iter()
                .map(|(step, what)| format!("step {step}: {what}"));
            lines.collect::<Vec<_>>().join("\n")
        }
    }
}

fn said(c: Condition) -> String {
    match c {
        Condition::Always => String::new(),
        Condition::Argument(n, value) => format!("if arg{n}=={value:#x}"),
        Condition::Returns(value) => format!("if ret=={value:#x}"),
        Condition::Touches(w) => {
            let kind = match (w.read, w.write) {
                (true, true) => "access",
                (true, false) => "read",
                _ => "write",
            };
            format!("if {kind} {:#x} {}", w.addr, w.len)
        }
    }
}
