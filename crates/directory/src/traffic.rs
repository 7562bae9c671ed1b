//! Bytes sent and received, counted where they are: shared by all connections of one directory.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The counts.
#[derive(Default)]
pub(crate) struct Traffic {
    sent: AtomicU64,
    received: AtomicU64,
}

impl Traffic {
    /// Counts bytes that were handed to a connection.
    pub(crate) fn sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Relaxed);
    }

    /// Counts bytes that came from a connection.
    pub(crate) fn received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Relaxed);
    }

    /// Sent and received.
    pub(crate) fn read(&self) -> (u64, u64) {
        (self.sent.load(Relaxed), self.received.load(Relaxed))
    }
}
