//! Source text from disk, one file read once.
//!
//! The path in the debug information is where the compiler found the file. It is tried first;
//! a file that moved with its build is looked for below the current directory by ever shorter
//! tails of that path.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Larger files are generated; reading them for one line would stall a report.
const LARGEST: u64 = 64 << 20;

#[derive(Default)]
pub(crate) struct Sources(Mutex<HashMap<PathBuf, Option<Arc<[String]>>>>);

impl Sources {
    /// The text of a line, counted from 1, without its line break.
    pub(crate) fn line(&self, file: &Path, line: u32) -> Option<String> {
        let mut cache = self.0.lock().unwrap_or_else(|e| e.into_inner());
        let lines = cache
            .entry(file.to_path_buf())
            .or_insert_with(|| read(file))
            .as_ref()?;
        lines.get((line as usize).checked_sub(1)?).cloned()
    }
}

fn read(file: &Path) -> Option<Arc<[String]>> {
    let mut candidates = vec![file.to_path_buf()];
    let components: Vec<_> = file.components().collect();
    candidates.extend((1..components.len()).map(|n| components[n..].iter().collect()));
    for candidate in candidates {
        let Ok(about) = std::fs::metadata(&candidate) else {
            continue;
        };
        if !about.is_file() || about.len() > LARGEST {
            continue;
        }
        if let Ok(bytes) = std::fs::read(&candidate) {
            let text = String::from_utf8_lossy(&bytes);
            return Some(text.lines().map(str::to_string).collect());
        }
    }
    None
}
