//! What the operator chooses of the store: when it syncs, and its limits.
//!
//! Each limit has its answer beside it. Invariant: after [`Settings::in_proportion`] a full
//! journal has several segments, so that it can become less full while the server runs.

use std::time::Duration;

/// When entries are put on stable storage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fsync {
    /// Before they are completed. What was acknowledged survives a power cut.
    Always,
    /// So often. What was acknowledged since the last time survives a crash of the server, not of
    /// the machine.
    Interval(Duration),
    /// When a segment is full and at the end. The same, for longer.
    Never,
}

/// Settings of the store.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// When entries are put on stable storage.
    pub fsync: Fsync,
    /// Random bytes that become the node's secret if the folder has none.
    pub secret: [u8; 32],
    /// Entries that may wait for the writer. Beyond: `Busy`.
    pub entries_waiting_max: usize,
    /// Their bytes in memory. Beyond: `Busy`. As much again may be with the writer.
    pub bytes_waiting_max: usize,
    /// Bytes after which a new segment begins; at most a quarter of `journal_bytes_max`.
    pub segment_bytes: u64,
    /// Bytes of all segments. Beyond: `Full`, except for entries that end something, which may
    /// make the journal as long again. While the server starts it is larger by what is alive.
    pub journal_bytes_max: u64,
}

impl Settings {
    /// The defaults, with the secret for a first start.
    pub fn new(secret: [u8; 32]) -> Settings {
        Settings {
            fsync: Fsync::Always,
            secret,
            entries_waiting_max: 65_536,
            bytes_waiting_max: 16 * 1024 * 1024,
            segment_bytes: 64 * 1024 * 1024,
            journal_bytes_max: 4 * 1024 * 1024 * 1024,
        }
    }

    pub(crate) fn in_proportion(mut self) -> Settings {
        self.segment_bytes = self.segment_bytes.min(self.journal_bytes_max / 4);
        self
    }
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Settings {{ fsync: {:?}, segment_bytes: {}, journal_bytes_max: {}, .. }}",
            self.fsync, self.segment_bytes, self.journal_bytes_max
        )
    }
}
