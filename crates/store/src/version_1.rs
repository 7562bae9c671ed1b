//! A folder of format 1: one journal of waits, products and blocks.
//!
//! Read, never written. What is alive in it is entered anew by whoever knows what it means; until
//! that is done and said ([`crate::data::Opened::upgraded`]) the folder stays what it was, so that
//! a crash only means to begin again. Invariant: nothing is changed here.

pub(crate) mod entry;
pub(crate) mod record;
mod replay;

use crate::files::Files;
use crate::{OpenError, Torn};
use model::ports::journal::Entry;
use replay::Replay;
use std::path::{Path, PathBuf};

/// What a folder of format 1 held.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Version1 {
    /// What is alive: products, then blocked devices, then waits in the order they began.
    pub entries: Vec<Entry>,
    /// The highest push id it remembers, 0 if none: new ids must be above it.
    pub last_id: u64,
    /// The torn tail that was left out, if there was one.
    pub torn: Option<Torn>,
}

/// Reads the journal in `folder`.
pub(crate) fn read(folder: &Path, files: &dyn Files) -> Result<Version1, OpenError> {
    let names = files.names(folder).map_err(|error| OpenError::at(folder, error))?;
    let mut numbers: Vec<_> = names.iter().filter_map(|name| segment_number(name)).collect();
    numbers.sort_unstable();
    if let Some(gap) = numbers.windows(2).find(|pair| pair[0] + 1 != pair[1]) {
        let path = segment_path(folder, gap[0] + 1);
        return Err(OpenError::Corrupt { path, offset: 0, why: "the segment is missing" });
    }
    let mut replay = Replay::default();
    let mut torn = None;
    for number in &numbers {
        let path = segment_path(folder, *number);
        let bytes = files.read(&path).map_err(|error| OpenError::at(&path, error))?;
        let read = replay.segment(*number, &bytes, Some(number) == numbers.last());
        let (good, bad) = read.map_err(|bad| OpenError::Corrupt {
            path: path.clone(),
            offset: bad.offset as u64,
            why: bad.why,
        })?;
        torn = bad.map(|bad| Torn {
            file: path.clone(),
            offset: good as u64,
            bytes: (bytes.len() - good) as u64,
            why: bad.why,
        });
    }
    Ok(Version1 { last_id: replay.last_id, entries: replay.entries(), torn })
}

fn segment_path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:010}.log"))
}

fn segment_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".log").filter(|digits| digits.len() >= 10)?;
    digits.parse().ok()
}
