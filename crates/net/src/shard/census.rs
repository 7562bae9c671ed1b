//! Counts that all shards share: connections, by source too, and bytes of frames in pieces.
//!
//! One of a process, and one of each listener, of which connections alone are used. Sources are
//! counted in buckets under the process's key, so that the table has one size and a connection
//! remembers two bytes of where it came from: sources that share a bucket share its limit.

use base::hash::HashKey;
use model::link::Source;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Buckets of sources, 256 KB. The first is of those that are not counted.
const BUCKETS: u64 = 65_536;

/// Bucket of connections that are not counted.
pub(crate) const NO_BUCKET: u16 = 0;

/// Counts of all shards, shared.
#[derive(Debug)]
pub struct Census {
    open: AtomicU32,
    /// The most connections while memory is short.
    most: AtomicU32,
    partial_bytes: AtomicU64,
    sources: OnceLock<Box<[AtomicU32]>>,
}

impl Default for Census {
    fn default() -> Self {
        Census {
            open: AtomicU32::new(0),
            most: AtomicU32::new(u32::MAX),
            partial_bytes: AtomicU64::new(0),
            sources: OnceLock::new(),
        }
    }
}

impl Census {
    /// Connections open now.
    pub fn open(&self) -> u32 {
        self.open.load(Ordering::Relaxed)
    }

    /// Bytes of frames that are not whole.
    pub fn partial_bytes(&self) -> u64 {
        self.partial_bytes.load(Ordering::Relaxed)
    }

    /// Sets whether new connections are refused for want of memory: then there may be no more than
    /// there are.
    pub fn press(&self, pressed: bool) {
        if pressed {
            self.most.fetch_min(self.open(), Ordering::Relaxed);
        } else {
            self.most.store(u32::MAX, Ordering::Relaxed);
        }
    }

    /// The most connections while memory is short.
    pub(crate) fn most(&self) -> u32 {
        self.most.load(Ordering::Relaxed)
    }

    /// One more; how many that makes.
    pub(crate) fn enter(&self) -> u32 {
        self.open.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// One fewer.
    pub(crate) fn leave(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// The bucket of a source.
    pub(crate) fn bucket(key: HashKey, source: Source) -> u16 {
        (1 + key.of(&[b"source", &source.bytes()]) % (BUCKETS - 1)) as u16
    }

    /// One more of a bucket; how many that makes.
    pub(crate) fn enter_source(&self, bucket: u16) -> u32 {
        if bucket == NO_BUCKET {
            return 0;
        }
        let sources =
            self.sources.get_or_init(|| (0..BUCKETS).map(|_| AtomicU32::new(0)).collect());
        sources[usize::from(bucket)].fetch_add(1, Ordering::Relaxed) + 1
    }

    /// One fewer.
    pub(crate) fn leave_source(&self, bucket: u16) {
        if bucket != NO_BUCKET
            && let Some(sources) = self.sources.get()
        {
            sources[usize::from(bucket)].fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// A connection holds so much of a frame now, where it held so much before.
    pub(crate) fn holds(&self, before: u32, now: u32) {
        if now > before {
            self.partial_bytes.fetch_add(u64::from(now - before), Ordering::Relaxed);
        } else if now < before {
            self.partial_bytes.fetch_sub(u64::from(before - now), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_counted_apart_and_some_not_at_all() {
        let (census, key) = (Census::default(), HashKey::new(1, 2));
        let bucket = |text: &str| Census::bucket(key, Source::of(text.parse().expect("one")));
        let (one, other) = (bucket("10.0.0.1"), bucket("10.0.0.2"));
        assert!(one != other && one != NO_BUCKET);
        assert_eq!([one, one, other].map(|source| census.enter_source(source)), [1, 2, 1]);
        census.leave_source(one);
        assert_eq!(census.enter_source(one), 2);
        census.leave_source(NO_BUCKET);
        assert_eq!([0, 0].map(|_| census.enter_source(NO_BUCKET)), [0, 0]);
    }

    #[test]
    fn pressed_there_are_never_more_than_there_were() {
        let census = Census::default();
        (0..5).for_each(|_| assert!(census.enter() > 0));
        census.press(true);
        assert_eq!(census.most(), 5);
        census.leave();
        census.press(true);
        census.enter();
        census.press(true);
        assert_eq!(census.most(), 4, "it does not rise again");
        census.press(false);
        assert_eq!(census.most(), u32::MAX);
    }
}
