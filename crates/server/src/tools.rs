//! Tools for a data folder that no server uses, with the clock of a server.
//!
//! The tools themselves are the store's. It prints nothing.

use crate::clock;
use crate::start::shard_count;
use base::secret::ClusterSecret;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use store::OpenError;
use store::tools::{self, Means, Sums};

pub use store::tools::backup::Copied;
pub use store::tools::check::{Checked, Damage};
pub use store::tools::compact::Compacted;
pub use store::tools::export::Exported;
pub use store::tools::salvage::Salvaged;
pub use store::tools::stats::LogStats;

/// How much an import, a split or a join carried.
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

/// Writes a new first token of the API into a data folder, whether or not a server runs on it. The
/// file, and the process of that server if one runs.
pub fn reset_first_token(data: &Path) -> Result<(PathBuf, Option<u32>), String> {
    let file = crate::start::reset_token(data)?;
    Ok((file, user_of(data)))
}

/// The process of the server that uses a data folder.
fn user_of(data: &Path) -> Option<u32> {
    let lock = std::fs::File::open(data.join("LOCK")).ok()?;
    // Whoever uses the folder holds this lock alone.
    let is_held = matches!(lock.try_lock_shared(), Err(std::fs::TryLockError::WouldBlock));
    let pid = std::io::read_to_string(lock).ok()?;
    pid.trim().parse().ok().filter(|_| is_held)
}

/// Reads everything, and says what is wrong.
pub fn check(data: &Path) -> Result<Checked, String> {
    tools::check::check(data, &Means::default(), clock::unix_s()).map_err(told)
}

/// How much there is in each log.
pub fn stats(data: &Path) -> Result<Vec<LogStats>, String> {
    tools::stats::stats(data, &Means::default(), clock::unix_s()).map_err(told)
}

/// Writes everything that can be read as text.
pub fn export(data: &Path, out: &mut dyn Write) -> Result<Exported, String> {
    tools::export::export(data, &Means::default(), clock::unix_s(), out).map_err(told)
}

/// Makes a new folder of what is whole of a damaged one, and reads it once.
pub fn salvage(data: &Path, to: &Path) -> Result<Salvaged, String> {
    let means = Means::default();
    let salvaged = tools::salvage::salvage(data, (to, node_secret()?), (&means, clock::unix_s()));
    let salvaged = salvaged.map_err(told)?;
    match check(to)?.damages.first() {
        None => Ok(salvaged),
        Some(damage) => {
            let Damage { file, offset, why } = damage;
            Err(format!("the new folder is damaged: {} byte {offset}: {why}", file.display()))
        }
    }
}

/// Makes a data folder of such a text, with a log for each of so many shards; 0: as many as a
/// server of this machine has by itself.
pub fn import(text: &mut dyn BufRead, data: &Path, shards: u16) -> Result<Carried, String> {
    let logs = shard_count(shards) as u16;
    let node = node_secret()?;
    let clock = (&Means::default(), clock::unix_s());
    let sums = tools::import::import(text, data, clock, (logs, node));
    sums.map(carried).map_err(|error| error.to_string())
}

/// Splits the folder by slots into as many new ones as are named; gives what each has.
pub fn split(data: &Path, to: &[PathBuf]) -> Result<Vec<Carried>, String> {
    let targets: Result<Vec<_>, String> =
        to.iter().map(|path| Ok((path.clone(), node_secret()?))).collect();
    let means = (&Means::default(), clock::unix_s());
    let parts = tools::split::split(data, &targets?, means);
    parts.map(|parts| parts.into_iter().map(carried).collect()).map_err(told)
}

/// Makes a folder of all parts of one that was split.
pub fn join(parts: &[PathBuf], data: &Path) -> Result<Carried, String> {
    let means = (&Means::default(), clock::unix_s());
    tools::split::join(parts, (data, node_secret()?), means).map(carried).map_err(told)
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

fn node_secret() -> Result<[u8; 32], String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| format!("random number generator: {error}"))?;
    Ok(bytes)
}

fn carried(sums: Sums) -> Carried {
    Carried { rows: sums.rows, timelines: sums.timelines, entries: sums.entries }
}

fn told(error: OpenError) -> String {
    error.to_string()
}
