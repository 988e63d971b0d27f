//! `meta.json`: what is known of a recording without running it.
//!
//! It is written when the guest starts and again when it has ended, each time to a temporary file
//! that is renamed over it, so that a reader never sees half of it. A recording whose tool was
//! killed keeps the first one: it says "running", but its process is gone.

use std::fs;
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::cost::Cost;
use crate::threads::ThreadInfo;

/// Version of the format of `meta.json`.
pub(crate) const FORMAT: u32 = 2;
const LARGEST: u64 = 64 << 20;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Meta {
    pub format: u32,
    /// The version of wherefore that made the recording.
    pub wherefore: String,
    pub program: String,
    /// All of argv, the program's name first.
    pub args: Vec<String>,
    pub cwd: String,
    pub env: Vec<(String, String)>,
    /// Milliseconds since 1970.
    pub started: u64,
    pub ended: Ended,
    pub figures: Option<Figures>,
    pub cost: Option<Cost>,
    pub notes: Vec<String>,
    /// Those of the last image, in the order of creation.
    pub threads: Vec<ThreadInfo>,
    /// The seed of its schedule.
    pub seed: u64,
    /// Stored files and what the guest knew them as.
    pub files: Vec<(String, String)>,
    /// The suite of tests that `locate` made it for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite: Option<String>,
}

/// How far a recording got.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ended {
    /// The guest still runs under the process `pid`, which began at `since` (in ticks after boot).
    Running {
        pid: i32,
        since: u64,
    },
    Exited {
        status: i32,
    },
    Killed {
        signal: i32,
    },
    /// No thread could run, and none waited for anything outside: it was ended.
    Deadlocked,
    /// The tool had to give up.
    Failed {
        why: String,
    },
    /// The tool was killed; what is there may still be replayed.
    Aborted,
}

/// What the guest did, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    /// Guest instructions executed.
    pub steps: u64,
    /// Blocks of code translated.
    pub blocks: u64,
    pub syscalls: u64,
    /// System calls that the tracer had to carry out.
    pub syscall_stops: u64,
    /// Times the guest stopped for the tracer.
    pub stops: u64,
    pub signals: u64,
    pub code_changes: u64,
    /// Size of the events in the recording.
    pub event_bytes: u64,
}

impl From<&guest::Stats> for Figures {
    fn from(s: &guest::Stats) -> Self {
        Figures {
            steps: s.steps,
            blocks: s.translated,
            syscalls: s.syscalls,
            syscall_stops: s.syscall_stops,
            stops: s.stops,
            signals: s.signals,
            code_changes: s.code_changes,
            event_bytes: s.recording_bytes,
        }
    }
}

impl From<guest::End> for Ended {
    fn from(end: guest::End) -> Self {
        match end {
            guest::End::Exited(status) => Ended::Exited { status },
            guest::End::Killed(signal) => Ended::Killed { signal },
            guest::End::Deadlocked => Ended::Deadlocked,
        }
    }
}

impl Meta {
    pub(crate) fn write(&self, folder: &Path) -> std::io::Result<()> {
        let temporary = folder.join("meta.json.part");
        let mut text = serde_json::to_vec_pretty(self).map_err(std::io::Error::other)?;
        text.push(b'\n');
        let mut file = fs::File::create(&temporary)?;
        file.write_all(&text)?;
        drop(file);
        fs::rename(&temporary, folder.join("meta.json"))
    }

    /// Reads the description of the recording `name` in `folder`.
    pub(crate) fn read(name: &str, folder: &Path) -> Result<Self, Error> {
        let damaged = |why: String| Error::Damaged {
            name: name.to_owned(),
            why,
        };
        let path = folder.join("meta.json");
        let about = fs::metadata(&path).map_err(|e| damaged(format!("meta.json: {e}")))?;
        if about.len() > LARGEST {
            return Err(damaged("meta.json is impossibly large".into()));
        }
        let bytes = fs::read(&path).map_err(|e| damaged(format!("meta.json: {e}")))?;
        // The version is looked at first: a later format may be anything else.
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let version: Version =
            serde_json::from_slice(&bytes).map_err(|e| damaged(format!("meta.json: {e}")))?;
        if version.format != FORMAT {
            return Err(Error::Version {
                name: name.to_owned(),
                found: version.format,
                known: FORMAT,
            });
        }
        let mut meta: Meta =
            serde_json::from_slice(&bytes).map_err(|e| damaged(format!("meta.json: {e}")))?;
        if let Ended::Running { pid, since } = meta.ended
            && started_at(pid) != Some(since)
        {
            meta.ended = Ended::Aborted;
        }
        Ok(meta)
    }
}

/// When a process began, in ticks after boot; with the number it names one process only.
pub(crate) fn started_at(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain anything, also blanks and parentheses.
    let after_name = &stat[stat.rfind(')')? + 1..];
    let mut fields = after_name.split_ascii_whitespace();
    // A zombie runs no guest.
    (fields.next()? != "Z").then_some(())?;
    fields.nth(18)?.parse().ok()
}
