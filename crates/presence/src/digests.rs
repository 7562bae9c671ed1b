//! Digests of what this process says of presence, one sum a bucket, for all shards together.
//!
//! Every tracker adds and takes away as it notes, by exclusive or, so that no order matters and
//! nothing is walked to compare a million records. Buckets also count what a directory has not
//! taken: one that has unwritten entries need not agree yet. Invariant: when all is quiet, sum and
//! count of a bucket are those of the records that say online with this node's boot.

use base::time::Now;
use model::id::ShardId;
use model::presence::{BUCKETS, Digest};
use sha1::{Digest as _, Sha1};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// One record's part of [`Digest::sum`].
pub fn sum(key: &str, text: &str) -> u64 {
    let mut sha = Sha1::new();
    sha.update(key);
    sha.update([0]);
    sha.update(text);
    let hash: [u8; 20] = sha.finalize().into();
    u64::from_be_bytes(hash[..8].try_into().expect("twenty bytes have eight"))
}

#[derive(Default)]
struct Bucket {
    sum: AtomicU64,
    online: AtomicU32,
    unwritten: AtomicU32,
}

const _: () = assert!(size_of::<Bucket>() == 16, "sixteen bytes a bucket: 256 KiB");

/// Sums, what is unwritten, and counters, of all trackers of a process.
pub struct Digests {
    buckets: Vec<Bucket>,
    unwritten: AtomicU64,
    /// Unix millisecond of each shard's oldest unwritten transition; zero: it has none.
    oldest: Vec<AtomicU64>,
    tallies: Vec<AtomicU64>,
}

macro_rules! tallies {
    ($($variant:ident $name:literal $help:literal;)+) => {
        /// Counters of trackers.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub enum TrackerCounter { $(#[doc = $help] $variant,)+ }

        const TALLIES: &[(&str, &str)] = &[$(($name, $help),)+];
    };
}

tallies! {
    Noted "presence_transitions_total" "Connects and disconnects recorded.";
    Late "presence_transitions_late_total" "Transitions ignored: a newer one was known.";
    Taken "presence_records_taken_total" "Records that the directory accepted or already had.";
    Returned "presence_records_returned_total" "Records queued again after a failed call.";
    Raised "presence_records_raised_total"
        "Records written again over an outdated one with a newer version.";
    Moot "presence_records_moot_total" "Disconnects not written: another node has the principal.";
    Outvoted "presence_outvoted_total" "Principals released: another node has them.";
    GivenUp "presence_records_given_up_total" "Records given up: a newer one came back each time.";
    Missing "presence_differences_missing_total"
        "Records found missing in the directory by comparison.";
    Stale "presence_differences_stale_total"
        "Records found outdated in the directory by comparison.";
    Extra "presence_differences_extra_total"
        "Records found by comparison that said online for an offline principal.";
    Forgotten "presence_forgotten_total" "Disconnects dropped unwritten: queue full.";
    Nonsense "presence_keys_nonsense_total" "Invalid keys found in the directory.";
}

impl Digests {
    /// Makes empty digests.
    pub fn new() -> Arc<Digests> {
        Arc::new(Digests {
            buckets: (0..BUCKETS).map(|_| Bucket::default()).collect(),
            unwritten: AtomicU64::new(0),
            oldest: (0..ShardId::MAX).map(|_| AtomicU64::new(0)).collect(),
            tallies: TALLIES.iter().map(|_| AtomicU64::new(0)).collect(),
        })
    }

    /// The digest of a bucket over what is online, whether the directory has it or not.
    pub fn of(&self, bucket: u16) -> Digest {
        let bucket = &self.buckets[usize::from(bucket)];
        Digest {
            count: u64::from(bucket.online.load(Ordering::Acquire)),
            sum: bucket.sum.load(Ordering::Acquire),
        }
    }

    /// Principals of a bucket whose last transition the directory has not taken.
    pub fn unwritten_in(&self, bucket: u16) -> u32 {
        self.buckets[usize::from(bucket)].unwritten.load(Ordering::Acquire)
    }

    /// Such principals of all buckets.
    pub fn unwritten(&self) -> u64 {
        self.unwritten.load(Ordering::Acquire)
    }

    /// Age of the oldest unwritten transition, milliseconds; zero: there is none. Good to within
    /// one call of the directory.
    pub fn lag_ms(&self, wall_ms: u64) -> u64 {
        let oldest = self.oldest.iter().map(|at| at.load(Ordering::Acquire)).filter(|&at| at > 0);
        oldest.min().map_or(0, |at| wall_ms.saturating_sub(at))
    }

    /// The counters of trackers: name, explanation, value.
    pub fn counters(&self) -> Vec<(&'static str, &'static str, u64)> {
        let values = self.tallies.iter().map(|tally| tally.load(Ordering::Relaxed));
        TALLIES.iter().zip(values).map(|(&(name, help), value)| (name, help, value)).collect()
    }

    /// Value of a counter.
    pub fn tally(&self, which: TrackerCounter) -> u64 {
        self.tallies[which as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn count(&self, which: TrackerCounter) {
        self.tallies[which as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// A record that says online is true from now on.
    pub(crate) fn add(&self, bucket: u16, sum: u64) {
        let bucket = &self.buckets[usize::from(bucket)];
        bucket.sum.fetch_xor(sum, Ordering::AcqRel);
        bucket.online.fetch_add(1, Ordering::AcqRel);
    }

    /// A record that says online is no longer true.
    pub(crate) fn take(&self, bucket: u16, sum: u64) {
        let bucket = &self.buckets[usize::from(bucket)];
        bucket.sum.fetch_xor(sum, Ordering::AcqRel);
        bucket.online.fetch_sub(1, Ordering::AcqRel);
    }

    /// A principal has something unwritten. Told before its record is added, so that whoever
    /// sees the sum sees that it is unwritten.
    pub(crate) fn wait(&self, bucket: u16) {
        self.buckets[usize::from(bucket)].unwritten.fetch_add(1, Ordering::AcqRel);
        self.unwritten.fetch_add(1, Ordering::AcqRel);
    }

    /// A principal has nothing unwritten any more.
    pub(crate) fn settle(&self, bucket: u16) {
        self.buckets[usize::from(bucket)].unwritten.fetch_sub(1, Ordering::AcqRel);
        self.unwritten.fetch_sub(1, Ordering::AcqRel);
    }

    /// Publishes the age of this shard's oldest unwritten transition.
    pub(crate) fn publish(&self, now: Now, shard: ShardId, age_ms: Option<u64>) {
        let at = age_ms.map_or(0, |age| now.wall_ms.saturating_sub(age).max(1));
        self.oldest[usize::from(shard.0)].store(at, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_the_head_of_a_hash_that_any_script_can_make() {
        // printf 'demo#a\0text' | sha1sum
        assert_eq!(sum("demo#a", "text"), 0x3449_16d5_6fc2_ca42);
    }

    #[test]
    fn order_does_not_matter_and_what_goes_leaves_no_trace() {
        let digests = Digests::new();
        let sums = [sum("a", "1"), sum("b", "1"), sum("c", "1")];
        sums.iter().for_each(|&sum| digests.add(7, sum));
        assert_eq!(digests.of(7), Digest { count: 3, sum: sums[0] ^ sums[1] ^ sums[2] });
        sums.iter().rev().for_each(|&sum| digests.take(7, sum));
        assert_eq!(digests.of(7), Digest::default());
    }

    #[test]
    fn the_lag_is_that_of_the_slowest_shard() {
        let digests = Digests::new();
        let now = Now { wall_ms: 10_000, ..Now::default() };
        assert_eq!(digests.lag_ms(now.wall_ms), 0);
        digests.publish(now, ShardId(0), Some(20));
        digests.publish(now, ShardId(9), Some(300));
        assert_eq!(digests.lag_ms(now.wall_ms + 5), 305);
        digests.publish(now, ShardId(9), None);
        assert_eq!(digests.lag_ms(now.wall_ms), 20);
    }
}
