//! What the test behind a recording should have printed, kept with the recording.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::compare::Compare;
use super::native::Wanted;
use crate::meta::Ended;

const OUTPUT: &str = "expected";
const HOW: &str = "expected.json";

#[derive(Serialize, Deserialize)]
struct How {
    status: Option<i32>,
    compare: Compare,
    folder: PathBuf,
}

/// Failing only means that a later replay has less to say.
pub(crate) fn keep(recording: &Path, wanted: &Wanted, compare: &Compare, folder: &Path) {
    let how = How {
        status: wanted.status,
        compare: compare.clone(),
        folder: folder.to_owned(),
    };
    let text = serde_json::to_vec(&how).unwrap_or_default();
    let _ = fs::write(recording.join(OUTPUT), &wanted.stdout);
    let _ = fs::write(recording.join(HOW), text);
}

/// Whether a run of the recording came out as it should; nothing if that is not known.
pub(crate) fn met(recording: &Path, output: &[u8], ended: &Ended) -> Option<bool> {
    let expected = fs::read(recording.join(OUTPUT)).ok()?;
    let how: How = serde_json::from_slice(&fs::read(recording.join(HOW)).ok()?).ok()?;
    let Ended::Exited { status } = ended else {
        return Some(false);
    };
    let status_is_right = how.status.is_none_or(|s| s == *status);
    Some(status_is_right && how.compare.equal(&expected, output, &how.folder, &|| false))
}
