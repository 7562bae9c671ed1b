//! Top talkers: clients, users, topics, groups and source addresses with most traffic.
//!
//! Traffic is sampled ([`Sampler`]): all of it at a low rate, a part of it at a high rate, which
//! bounds the cost. A sample counts for all traffic since the sample before, so sums are right on
//! average. Counts go into bounded tables ([`TopTable`]).

use base::time::Instant;
use std::collections::BTreeMap;
use std::time::Duration;

/// Names in a table. A new name replaces the one with least traffic.
pub const TOP_ENTRIES_MAX: usize = 256;

/// Longest stored name, bytes. Longer names are truncated.
pub const TOP_NAME_BYTES_MAX: usize = 256;

/// Samples in a [`WINDOW`]. Beyond, each sample counts for twice as much traffic.
const SAMPLES_MAX: u32 = 100;

const WINDOW: Duration = Duration::from_millis(100);

/// Most traffic that a sample counts for.
const QUANTUM_MAX: u64 = 1 << 30;

/// Bytes that a message counts for when the entry with least traffic is sought.
const MESSAGE_RANK: u64 = 100;

/// Kinds of names that are ranked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TopKind {
    /// Clients and devices.
    Clients,
    /// Users and accounts.
    Users,
    /// Topics.
    Topics,
    /// Groups and channels of chat.
    Groups,
    /// Source addresses.
    Addresses,
}

impl TopKind {
    /// All kinds, in the order of their indices.
    pub const ALL: [TopKind; 5] =
        [TopKind::Clients, TopKind::Users, TopKind::Topics, TopKind::Groups, TopKind::Addresses];

    /// The name in the API.
    pub const fn name(self) -> &'static str {
        match self {
            TopKind::Clients => "clients",
            TopKind::Users => "users",
            TopKind::Topics => "topics",
            TopKind::Groups => "groups",
            TopKind::Addresses => "addresses",
        }
    }
}

/// Traffic, from the server's point of view.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TopTally {
    /// Messages received.
    pub messages_in: u64,
    /// Messages sent.
    pub messages_out: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
}

impl TopTally {
    /// Adds another tally.
    pub fn add(&mut self, other: TopTally) {
        self.messages_in += other.messages_in;
        self.messages_out += other.messages_out;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
    }

    const fn rank(self) -> u64 {
        let messages = self.messages_in + self.messages_out;
        self.bytes_in + self.bytes_out + messages * MESSAGE_RANK
    }
}

/// The names with most traffic, after Space-Saving (Metwally, Agrawal, El Abbadi): every name with
/// more than a 256th of all traffic is in the table. A name that replaced another one may have had
/// more traffic than is counted.
#[derive(Default)]
pub struct TopTable {
    entries: BTreeMap<Box<str>, Entry>,
}

#[derive(Default)]
struct Entry {
    tally: TopTally,
    /// Rank of the entry that it replaced.
    inherited: u64,
}

impl TopTable {
    /// Counts traffic of a name.
    pub fn count(&mut self, name: &str, tally: TopTally) {
        let name = &name[..name.floor_char_boundary(TOP_NAME_BYTES_MAX)];
        if let Some(entry) = self.entries.get_mut(name) {
            return entry.tally.add(tally);
        }
        let mut inherited = 0;
        if self.entries.len() >= TOP_ENTRIES_MAX {
            let rank = |entry: &Entry| entry.inherited + entry.tally.rank();
            let smallest = self.entries.iter().min_by_key(|(_, entry)| rank(entry));
            if let Some((name, entry)) = smallest.map(|(name, entry)| (name.clone(), rank(entry))) {
                self.entries.remove(&name);
                inherited = entry;
            }
        }
        self.entries.insert(name.into(), Entry { tally, inherited });
    }

    /// Adds its entries to a page.
    pub fn tell(&self, page: &mut TopPage) {
        for (name, entry) in &self.entries {
            page.entries.entry(name.clone()).or_default().add(entry.tally);
        }
    }
}

/// Names and their traffic since a time: at most twice [`TOP_ENTRIES_MAX`] of each shard.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TopPage {
    /// Unix millisecond at which counting began.
    pub since_ms: u64,
    /// Traffic by name.
    pub entries: BTreeMap<Box<str>, TopTally>,
}

impl TopPage {
    /// Adds the page of another shard.
    pub fn add(&mut self, other: TopPage) {
        self.since_ms = self.since_ms.min(other.since_ms);
        for (name, tally) in other.entries {
            self.entries.entry(name).or_default().add(tally);
        }
    }
}

/// Chooses the traffic to count: all of it at a low rate, and at most [`SAMPLES_MAX`] samples in a
/// [`WINDOW`] (a few times as many while a burst begins).
#[derive(Default)]
pub struct Sampler {
    /// Traffic left before the next sample.
    left: u64,
    /// Traffic that a sample counts for, as a power of two.
    shift: u32,
    samples: u32,
    window: Instant,
}

impl Sampler {
    /// Takes traffic of this weight, in bytes or messages, and returns the weight to count: 0 if it
    /// is not sampled.
    #[inline]
    pub fn take(&mut self, now: Instant, weight: u64) -> u64 {
        if weight < self.left {
            self.left -= weight;
            return 0;
        }
        self.sampled(now, weight)
    }

    fn sampled(&mut self, now: Instant, weight: u64) -> u64 {
        let quantum = 1u64 << self.shift;
        let left = self.left.max(1).min(quantum);
        let excess = weight.saturating_sub(left);
        if now >= self.window {
            self.shift = self.shift.saturating_sub(u32::from(self.samples < SAMPLES_MAX / 2));
            (self.samples, self.window) = (0, now + WINDOW);
        } else if self.samples >= SAMPLES_MAX && quantum < QUANTUM_MAX {
            (self.samples, self.shift) = (0, self.shift + 1);
        }
        self.samples += 1;
        self.left = (quantum - excess % quantum).min(1 << self.shift);
        if weight == 0 { 0 } else { quantum * (1 + excess / quantum) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::default() + Duration::from_millis(ms)
    }

    fn bytes(bytes_in: u64) -> TopTally {
        TopTally { bytes_in, ..TopTally::default() }
    }

    #[test]
    fn little_traffic_is_counted_exactly() {
        let mut sampler = Sampler::default();
        for second in 0..100 {
            assert_eq!(sampler.take(at(second * 1_000), 700), 700);
            assert_eq!(sampler.take(at(second * 1_000 + 1), 1), 1);
        }
    }

    #[test]
    fn a_burst_is_sampled_and_its_sum_is_right() {
        let (mut sampler, mut samples, mut sum) = (Sampler::default(), 0u64, 0);
        for passed in 0..1_000_000u64 {
            let credit = sampler.take(at(passed / 1_000), 10);
            samples += u64::from(credit > 0);
            sum += credit;
        }
        assert!(samples < 3_000, "{samples} samples in a second");
        assert!((9_500_000..10_500_000).contains(&sum), "{sum}");
    }

    #[test]
    fn the_name_with_most_traffic_stays_in_a_full_table() {
        let mut table = TopTable::default();
        for round in 0..10_000u64 {
            table.count("heavy", bytes(100));
            table.count(&format!("light-{round}"), bytes(10));
        }
        let mut page = TopPage::default();
        table.tell(&mut page);
        assert_eq!(page.entries.len(), TOP_ENTRIES_MAX);
        assert_eq!(page.entries["heavy"], bytes(1_000_000));
    }

    #[test]
    fn a_long_name_is_cut_at_a_character() {
        let mut table = TopTable::default();
        table.count(&"é".repeat(300), bytes(1));
        table.count(&format!("a{}", "é".repeat(300)), bytes(1));
        let mut page = TopPage { since_ms: 9, ..TopPage::default() };
        table.tell(&mut page);
        let lengths: Vec<usize> = page.entries.keys().map(|name| name.len()).collect();
        assert_eq!(lengths, [255, 256]);
        page.add(TopPage { since_ms: 5, entries: [("b".into(), bytes(2))].into() });
        assert_eq!((page.since_ms, page.entries["b"]), (5, bytes(2)));
    }
}
