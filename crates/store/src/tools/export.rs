//! A data folder as text, whole: what [`super::import`] makes a folder of again.
//!
//! The lines are drawn in `text.rs`. The cluster's secret is among them, for names of timelines are
//! hashed under it; whoever has an export has the folder. A message of many timelines is written
//! once for each. A message that cannot be read is left out and told. Invariant: the last line
//! comes only after everything.

use super::check::Damage;
use super::text::{Line, Sums};
use super::{Means, open};
use crate::OpenError;
use crate::data::alive::Alive;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Messages left out that are reported; more are only counted.
const TOLD_MAX: usize = 1_000;

/// Result of an export.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Exported {
    /// Sums of the content.
    pub sums: Sums,
    /// Messages that cannot be read and are not in it, each as often as there are timelines that
    /// have it.
    pub lost: u64,
    /// Where the first thousand of them stand.
    pub damages: Vec<Damage>,
}

/// Writes everything that a folder holds and that can be read.
pub fn export(
    path: &Path,
    means: &Means,
    now_s: u32,
    out: &mut dyn Write,
) -> Result<Exported, OpenError> {
    let (place, mut logs) = open(path, means, now_s)?;
    // An import makes a whole folder, over which a server starts.
    place.check_whole()?;
    let (mut sums, mut lost, mut damages) = (Sums::default(), 0, Vec::new());
    let mut put = |line: Line| {
        sums.note(&line);
        writeln!(out, "{}", line.write())
            .map_err(|error| OpenError::Failed { path: PathBuf::from("the export"), error })
    };
    put(Line::First { logs: logs.len() as u64, cluster: place.secrets.cluster })?;
    for (number, log) in logs.iter_mut().enumerate() {
        put(Line::Log(number as u64))?;
        log.rest().each(&mut |alive| match line(alive) {
            Ok(line) => put(line),
            Err(damage) => {
                lost += 1;
                if damages.len() < TOLD_MAX {
                    damages.push(damage);
                }
                Ok(())
            }
        })?;
    }
    writeln!(out, "{}", Line::End(sums).write())
        .and_then(|()| out.flush())
        .map_err(|error| OpenError::Failed { path: PathBuf::from("the export"), error })?;
    Ok(Exported { sums, lost, damages })
}

fn line(alive: Alive) -> Result<Line, Damage> {
    Ok(match alive {
        Alive::Row { table, key, value } => {
            Line::Row { table, key: key.into(), value: value.into() }
        }
        Alive::Timeline { timeline, last } => Line::Timeline { timeline, last },
        Alive::Entry { seq, message, .. } => Line::Entry { seq, message: (*message).clone() },
        Alive::Cursor { reader, upto, .. } => Line::Cursor { reader, upto },
        Alive::Once(remembered) => Line::Once(remembered),
        Alive::Damaged { timeline, seq, file, offset } => {
            let why = format!("the message at {seq} of {timeline:?} cannot be read");
            return Err(Damage { file, offset, why });
        }
    })
}
