//! Entries of one shard in the summary: the hashes of its filters, each with how often.
//!
//! An entry is a hash of 31 bits and one that says "durable". They are kept in order, so that all
//! entries of a block of the summary are neighbours, and a table of another size is filled in one
//! replay. Two filters of one hash are one entry that is there twice. About five bytes a filter.

use base::never;
use std::collections::HashMap;

/// The bit of an entry that says that its subscription is durable.
pub(super) const DURABLE: u32 = 1;

const RANGE_BITS: u32 = 9;
const RANGES: usize = 1 << RANGE_BITS;

/// The entries.
pub(super) struct Keys {
    /// Keys in order, parted by their highest bits so that inserting moves little.
    ranges: Vec<Vec<u32>>,
    /// How often beyond once.
    more: HashMap<u32, u64>,
}

impl Default for Keys {
    fn default() -> Self {
        Keys { ranges: vec![Vec::new(); RANGES], more: HashMap::new() }
    }
}

impl Keys {
    /// Adds one. False: it was there already.
    pub fn add(&mut self, entry: u32) -> bool {
        let range = &mut self.ranges[range_of(entry)];
        match range.binary_search(&entry) {
            Ok(_) => {
                *self.more.entry(entry).or_default() += 1;
                false
            }
            Err(at) => {
                range.insert(at, entry);
                true
            }
        }
    }

    /// Takes one out. False: it is there still, or never was.
    pub fn remove(&mut self, entry: u32) -> bool {
        if let Some(more) = self.more.get_mut(&entry) {
            *more -= 1;
            if *more == 0 {
                self.more.remove(&entry);
            }
            return false;
        }
        let range = &mut self.ranges[range_of(entry)];
        let Ok(at) = range.binary_search(&entry) else {
            // Others may ask this shard in vain from now on: no reason to stop it.
            never!(true, "a subscription was taken back as what it was not (durable or not)");
            return false;
        };
        range.remove(at);
        if range.capacity() > 64 && range.len() < range.capacity() / 4 {
            range.shrink_to(range.len() * 2);
        }
        true
    }

    /// Each entry from `first` to `last` in order, until `visit` says false.
    pub fn each(&self, first: u32, last: u32, mut visit: impl FnMut(u32) -> bool) {
        for range in range_of(first)..=range_of(last) {
            let range = &self.ranges[range];
            let from = range.partition_point(|&entry| entry < first);
            for &entry in &range[from..] {
                if entry > last || !visit(entry) {
                    return;
                }
            }
        }
    }

    /// Bytes that entries take.
    pub fn heap_bytes(&self) -> usize {
        self.ranges.iter().map(|range| range.capacity() * 4).sum::<usize>() + self.more.len() * 20
    }
}

fn range_of(entry: u32) -> usize {
    (entry >> (32 - RANGE_BITS)) as usize
}
