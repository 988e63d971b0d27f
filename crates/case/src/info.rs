//! What recordings there are, and what is known of each.

use std::fs;
use std::os::unix::fs::MetadataExt;

use serde::Serialize;

use crate::Error;
use crate::meta::Meta;
use crate::store::{RecordingName, Store};

#[derive(Clone, Debug, Serialize)]
pub struct ListReport {
    pub recordings: Vec<RecordingInfo>,
}

/// One recording in a list.
#[derive(Clone, Debug, Serialize)]
pub struct RecordingInfo {
    pub name: RecordingName,
    pub latest: bool,
    /// Bytes on disk.
    pub size: u64,
    /// What its `meta.json` says, or what is wrong with that.
    pub meta: Option<Meta>,
    pub damage: Option<String>,
}

/// Everything about one recording.
#[derive(Clone, Debug, Serialize)]
pub struct InfoReport {
    pub name: RecordingName,
    pub folder: String,
    pub latest: bool,
    pub size: u64,
    pub meta: Meta,
    pub files: Vec<StoredFile>,
}

/// A copy of a file that the guest mapped.
#[derive(Clone, Debug, Serialize)]
pub struct StoredFile {
    /// What the guest knew it as.
    pub name: String,
    pub stored: String,
    pub size: u64,
    /// Other recordings have it too.
    pub shared: bool,
}

pub(crate) fn list(store: &Store) -> Result<ListReport, Error> {
    let latest = store.resolve(None).ok();
    let mut recordings: Vec<RecordingInfo> = store
        .names()?
        .into_iter()
        .map(|name| {
            let meta = Meta::read(&name, &store.path(&name));
            RecordingInfo {
                latest: latest.as_deref() == Some(&name),
                size: store.size(&name),
                damage: meta.as_ref().err().map(Error::to_string),
                meta: meta.ok(),
                name: RecordingName(name),
            }
        })
        .collect();
    recordings.sort_by_cached_key(|r| {
        let (stem, number) = r.name.0.rsplit_once('-').unwrap_or((&r.name.0, ""));
        (
            r.meta.as_ref().map_or(0, |m| m.started),
            stem.to_owned(),
            number.parse::<u64>().unwrap_or(0),
        )
    });
    Ok(ListReport { recordings })
}

pub(crate) fn info(store: &Store, name: Option<&str>) -> Result<InfoReport, Error> {
    let name = store.resolve(name)?;
    let folder = store.path(&name);
    let meta = Meta::read(&name, &folder)?;
    let mut files: Vec<StoredFile> = fs::read_dir(folder.join("files"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|e| {
            let about = e.metadata().ok()?;
            let stored = e.file_name().to_string_lossy().into_owned();
            let known = meta.files.iter().find(|(s, _)| *s == stored);
            Some(StoredFile {
                name: known.map_or_else(|| stored.clone(), |(_, name)| name.clone()),
                stored,
                size: about.len(),
                // One link is this recording's, one the store's.
                shared: about.nlink() > 2,
            })
        })
        .collect();
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(InfoReport {
        latest: store.resolve(None).is_ok_and(|l| l == name),
        size: store.size(&name),
        folder: folder.to_string_lossy().into_owned(),
        name: RecordingName(name),
        meta,
        files,
    })
}
