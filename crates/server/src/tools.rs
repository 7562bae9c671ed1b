//! What an operator does with a data folder that no server uses, with the clock and the homes of a
//! server.
//!
//! The tools themselves are the store's. It prints nothing.

use crate::clock;
use crate::start::shard_count;
use base::hash::{self, HashKey};
use base::secret::ClusterSecret;
use model::ports::log::Restored;
use std::cell::OnceCell;
use std::io::{BufRead, Write};
use std::path::Path;
use store::OpenError;
use store::tools::{self, Means};

pub use store::tools::backup::Copied;
pub use store::tools::check::{Checked, Damage};
pub use store::tools::compact::Compacted;
pub use store::tools::stats::LogStats;

/// How much an export or an import carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Carried {
    /// Rows, each as often as there are logs that have it.
    pub rows: u64,
    /// Timelines.
    pub timelines: u64,
    /// Messages in them.
    pub entries: u64,
}

/// Reason why a backup was not made.
#[derive(Debug)]
pub enum BackupError {
    /// A server uses the folder: ask that server.
    InUse,
    /// In words for the operator.
    Failed(String),
}

/// Reads everything, and says what is wrong.
pub fn check(data: &Path) -> Result<Checked, String> {
    tools::check::check(data, &Means::default(), clock::unix_s()).map_err(told)
}

/// How much there is in each log.
pub fn stats(data: &Path) -> Result<Vec<LogStats>, String> {
    tools::stats::stats(data, &Means::default(), clock::unix_s()).map_err(told)
}

/// Writes everything as text.
pub fn export(data: &Path, out: &mut dyn Write) -> Result<Carried, String> {
    let sums = tools::export::export(data, &Means::default(), clock::unix_s(), out);
    let sums = sums.map_err(told)?;
    Ok(Carried { rows: sums.rows, timelines: sums.timelines, entries: sums.entries })
}

/// Makes a data folder of such a text, with a log for each of so many shards; 0: as many as a
/// server of this machine has by itself.
pub fn import(text: &mut dyn BufRead, data: &Path, shards: u16) -> Result<Carried, String> {
    let logs = shard_count(shards) as u16;
    let mut node = [0; 32];
    getrandom::fill(&mut node).map_err(|error| format!("no random bytes: {error}"))?;
    // The folder has the export's secret before anything is placed.
    let key = OnceCell::new();
    let home = |restored: Restored<'_>| {
        let key = key.get_or_init(|| secret(data).map_or(HashKey::new(0, 0), |it| it.home()));
        crate::shard_logic::homes::of(*key, &restored).map(|hash| hash::home(hash, logs))
    };
    let clock = (&Means::default(), clock::unix_s());
    let sums = tools::import::import(text, data, clock, (logs, node), &home);
    let sums = sums.map_err(|error| error.to_string())?;
    Ok(Carried { rows: sums.rows, timelines: sums.timelines, entries: sums.entries })
}

/// The secret of the cluster whose the folder is.
pub fn secret(data: &Path) -> Result<ClusterSecret, String> {
    tools::secret::read(data, &Means::default()).map_err(told)
}

/// Makes a folder without data that begins with this secret.
pub fn set_secret(data: &Path, secret: ClusterSecret) -> Result<(), String> {
    tools::secret::set(data, secret, &Means::default()).map_err(told)
}

/// Writes segments anew without what is dead.
pub fn compact(data: &Path) -> Result<Compacted, String> {
    tools::compact::compact(data, &Means::default(), clock::unix_s()).map_err(told)
}

/// Copies the folder to a new one.
pub fn backup(data: &Path, to: &Path) -> Result<Copied, BackupError> {
    let copied = tools::backup::backup(data, to, &Means::default(), clock::unix_s());
    copied.map_err(|error| match error {
        OpenError::Locked { .. } => BackupError::InUse,
        error => BackupError::Failed(told(error)),
    })
}

fn told(error: OpenError) -> String {
    error.to_string()
}
