//! Commands that gdb does not have: `monitor NAME ARGUMENTS`.
use case::{EditKind, EditRequest};
use gdbstub::target::ext::monitor_cmd::{ConsoleOutput, MonitorCmd, outputln};

use crate::target::Served;

#[derive(Default)]
pub(crate) struct Slices {}

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
                let (file, line) = rest.rsplit_once(':').ok_or("write FILE:LINE")?;
                let line = line
                    .parse()
                    .map_err(|_| format!("`{line}` is not a line"))?;
                let n = s.instance(file, line).map_err(wrong)?;
                Ok(format!("{file}:{line} was executed {n} times before this"))
            }
            _ => Err(format!(
                "there is no `{name}`; the commands are when, goto, checkpoint, rollback, \
                 checkpoints, cdelete, timelines, timeline, switch, suppress, edits, edit-delete, \
                 instance"
            )),
        }
    }
}
