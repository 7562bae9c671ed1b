//! Compaction of a folder that is not in use: segments are written anew without what is dead.
//!
//! While a server runs it does the same by itself, slice by slice. Invariant: nothing that is alive
//! is dropped; retention is the server's.

use super::{Means, open};
use crate::OpenError;
use crate::data::opened::settle;
use std::path::Path;

/// Result of a compaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Compacted {
    /// Bytes of all segments before.
    pub before_bytes: u64,
    /// Bytes after the compaction.
    pub after_bytes: u64,
}

/// Compacts every log of a folder.
pub fn compact(path: &Path, means: &Means, now_s: u32) -> Result<Compacted, OpenError> {
    let (place, mut logs) = open(path, means, now_s)?;
    let mut compacted = Compacted::default();
    for log in &mut logs {
        compacted.before_bytes += log.engine.sizes().log_bytes;
        log.engine.compact_now(now_s);
        settle(&place, &mut log.engine, now_s)?;
        compacted.after_bytes += log.engine.sizes().log_bytes;
    }
    Ok(compacted)
}
