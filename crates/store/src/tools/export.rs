//! A data folder as text, whole: what [`super::import`] makes a folder of again.
//!
//! The lines are drawn in `text.rs`. The cluster's secret is among them, for names of timelines are
//! hashed under it; whoever has an export has the folder. A message of many timelines is written
//! once for each. Invariant: the last line comes only after everything.

use super::text::{Line, Sums};
use super::{Means, open};
use crate::OpenError;
use crate::data::alive::Alive;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Writes everything that a folder holds.
pub fn export(
    path: &Path,
    means: &Means,
    now_s: u32,
    out: &mut dyn Write,
) -> Result<Sums, OpenError> {
    let (place, mut logs) = open(path, means, now_s)?;
    // An import makes a whole folder, over which a server starts.
    place.check_whole()?;
    let mut sums = Sums::default();
    let mut put = |line: Line| {
        sums.note(&line);
        writeln!(out, "{}", line.write())
            .map_err(|error| OpenError::Failed { path: PathBuf::from("the export"), error })
    };
    put(Line::First { logs: logs.len() as u64, cluster: place.secrets.cluster })?;
    for (number, log) in logs.iter_mut().enumerate() {
        put(Line::Log(number as u64))?;
        log.rest().each(&mut |alive| put(line(alive)))?;
    }
    writeln!(out, "{}", Line::End(sums).write())
        .and_then(|()| out.flush())
        .map_err(|error| OpenError::Failed { path: PathBuf::from("the export"), error })?;
    Ok(sums)
}

fn line(alive: Alive) -> Line {
    match alive {
        Alive::Row { table, key, value } => {
            Line::Row { table, key: key.into(), value: value.into() }
        }
        Alive::Timeline { timeline, last } => Line::Timeline { timeline, last },
        Alive::Entry { seq, message, .. } => Line::Entry { seq, message: (*message).clone() },
        Alive::Cursor { reader, upto, .. } => Line::Cursor { reader, upto },
        Alive::Once(remembered) => Line::Once(remembered),
    }
}
