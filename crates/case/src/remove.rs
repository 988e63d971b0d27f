//! Removing recordings.

use serde::Serialize;

use crate::Error;
use crate::info;
use crate::meta::{Ended, Meta};
use crate::store::{RecordingName, Store};

#[derive(Clone, Debug, Serialize)]
pub struct RemoveReport {
    pub removed: Vec<RecordingName>,
}

pub(crate) fn remove(store: &Store, names: Option<&[String]>) -> Result<RemoveReport, Error> {
    let mut chosen = match names {
        Some(names) => names
            .iter()
            .map(|n| store.resolve(Some(n)))
            .collect::<Result<Vec<_>, _>>()?,
        None => store.names()?,
    };
    chosen.sort();
    chosen.dedup();
    // All are checked before the first is removed.
    for name in &chosen {
        if let Ok(Meta {
            ended: Ended::Running { pid, .. },
            ..
        }) = Meta::read(name, &store.path(name))
        {
            return Err(Error::Running {
                name: name.clone(),
                pid,
            });
        }
    }
    let mut removed = Vec::new();
    for name in chosen {
        store.delete(&name)?;
        removed.push(RecordingName(name));
    }
    let left = info::list(store)?;
    store.settle_latest(left.recordings.last().map(|r| r.name.0.as_str()));
    Ok(RemoveReport { removed })
}
