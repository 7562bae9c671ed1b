//! Streams and a table that behave as NATS was measured to, and worse.
//!
//! The streams keep the fence; they may be silent for seconds, full, gone, and forget their end.
//! The table may go back to an older value. The world sets their time and orders their faults.

use super::judge::Oracle;
use crate::batch::StreamBatch;
use crate::counting::Counted;
use crate::port::{StreamError, StreamPage};
use crate::rules::Rule;
use crate::wire::table::LogEntry;
use std::collections::{BTreeMap, VecDeque};

/// Messages of a page, at most.
const PAGE: usize = 40;

/// A reader that waits for further messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    pub(super) node: usize,
    pub(super) boot: u64,
    pub(super) ask: u64,
    pub(super) from: u64,
}

pub(super) struct SimStream {
    pub(super) first: u64,
    pub(super) messages: VecDeque<Vec<u8>>,
    pub(super) waiters: Vec<Waiter>,
    pub(super) oracle: Oracle,
    /// The highest epoch of the Leads that it forgot.
    pub(super) lead_forgotten: u32,
}

impl SimStream {
    pub(super) fn new() -> SimStream {
        let oracle = Oracle::new();
        let (messages, waiters) = (VecDeque::new(), Vec::new());
        SimStream { first: 1, messages, waiters, oracle, lead_forgotten: 0 }
    }

    /// The index of the first record that it has.
    pub(super) fn first_index(&self) -> u64 {
        let here = self.oracle.counted.iter().find(|counted| counted.at.first >= self.first);
        here.map_or(0, |counted| counted.batches[0].first_index())
    }

    pub(super) fn last(&self) -> u64 {
        self.first + self.messages.len() as u64 - 1
    }

    /// Appends, under the expected last sequence.
    pub(super) fn publish(
        &mut self,
        expected: Option<u64>,
        message: Vec<u8>,
    ) -> Result<u64, StreamError> {
        if expected.is_some_and(|expected| expected != self.last()) && Rule::Fence.holds() {
            return Err(StreamError::Refused);
        }
        self.messages.push_back(message);
        Ok(self.last())
    }

    /// A page from a sequence on; what a stale server has lacks the last `stale` messages.
    pub(super) fn page(&self, from: u64, stale: u64) -> StreamPage {
        let last = self.last().saturating_sub(stale).max(self.first - 1);
        let begin = from.max(self.first);
        let end = last.min(begin + PAGE as u64 - 1);
        let message =
            |sequence: u64| (sequence, self.messages[(sequence - self.first) as usize].clone());
        let messages = (begin..=end).map(message).collect();
        StreamPage { first: self.first, last, messages }
    }

    pub(super) fn purge(&mut self, below: u64) {
        while self.first < below && !self.messages.is_empty() {
            self.messages.pop_front();
            self.first += 1;
        }
    }

    /// Loses its last messages, though it had acknowledged them: what counted of them.
    pub(super) fn forget(&mut self, count: u64) -> Vec<Counted> {
        let kept = (self.messages.len() as u64).saturating_sub(count);
        self.messages.truncate(kept as usize);
        let (first, last) = (self.first, self.last());
        let oracle = std::mem::replace(&mut self.oracle, Oracle::new());
        self.oracle.read_all(first, &self.messages);
        let gone = |counted: &Counted| counted.at.first >= first && counted.at.last > last;
        let gone: Vec<Counted> = oracle.counted.into_iter().filter(gone).collect();
        let batches = gone.iter().flat_map(|counted| &counted.batches);
        let leads = batches.filter(|batch| batch.leader().is_some()).map(StreamBatch::epoch);
        self.lead_forgotten = leads.max().unwrap_or(0).max(self.lead_forgotten);
        gone
    }
}

pub(super) struct SimTable {
    pub(super) revision: u64,
    pub(super) entry: Option<LogEntry>,
    /// Counts changes, also those that go back.
    pub(super) version: u64,
    history: Vec<(u64, Option<LogEntry>)>,
    /// The highest epoch that was ever claimed.
    pub(super) epoch_max: u32,
    /// When a node claimed an epoch, by its number.
    claims: BTreeMap<(u16, u32), u64>,
}

impl SimTable {
    pub(super) fn new(entry: LogEntry) -> SimTable {
        let (revision, version, history) = (1, 1, Vec::new());
        let claims = BTreeMap::new();
        SimTable { revision, entry: Some(entry), version, history, epoch_max: 0, claims }
    }

    pub(super) fn set(&mut self, now: u64, revision: u64, entry: LogEntry) -> Option<u64> {
        if revision != self.revision {
            return None;
        }
        // A leader that takes its name back claims nothing.
        let is_claim = self.entry.as_ref().is_none_or(|before| entry.epoch > before.epoch);
        if let Some(leader) = entry.leader.filter(|_| is_claim) {
            self.claims.entry((leader.node.number(), entry.epoch)).or_insert(now);
        }
        self.epoch_max = self.epoch_max.max(entry.epoch);
        self.history.push((self.revision, self.entry.replace(entry)));
        self.revision += 1;
        self.version += 1;
        Some(self.revision)
    }

    /// When a node made its last claim.
    pub(super) fn claimed(&self, node: u16) -> Option<u64> {
        let claims = self.claims.range((node, 0)..=(node, u32::MAX));
        claims.map(|(_, at)| *at).next_back()
    }

    pub(super) fn go_back(&mut self, changes: usize) {
        for _ in 0..changes {
            let Some((revision, entry)) = self.history.pop() else { break };
            (self.revision, self.entry) = (revision, entry);
            self.version += 1;
        }
    }
}

/// All streams by their generations.
pub(super) type Streams = BTreeMap<u32, SimStream>;
