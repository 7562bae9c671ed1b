//! Agreement of tracker and directory: answers to writes, comparisons, and newer records.
//!
//! A newer record in the directory is either a leftover, which is written over with a version above
//! it, or another node's claim to the principal, before which the claim here is dropped. Which of
//! them it is: see [`PresenceTracker::kept`]. Whatever a directory answers, twice, late or wrongly,
//! an entry changes only by its version here.

use super::{Aside, BACKOFF_MS, BACKOFF_MS_MAX, Effects, Flight, PresenceTracker};
use crate::digests::TrackerCounter;
use crate::ledger::{DIRTY, Entry, FLYING, OUTVOTED, RAISED, TAKEN, TRY};
use crate::owner::owner;
use base::slab::Key;
use base::time::Now;
use model::close::CloseReason;
use model::ports::presence::directory::{DirectoryEntry as Stored, DirectoryError, Put};
use model::presence::{OnlineState, PresenceRecord, PresenceVersion, Principal};
use std::time::Duration;

/// How often a record is written again above a newer one, before that is believed.
const TRIES_MAX: u8 = 3;

const _: () = assert!(TRIES_MAX <= u8::MAX / TRY, "tries have two bits");

/// Clocks are believed to be so far from each other at the most, milliseconds: a day. A version
/// that is further ahead is written above, where it must be, but hub and broker do not follow it.
const AHEAD_MS_MAX: u64 = 86_400_000;

/// Records that the directory could not take are offered again so much later, milliseconds.
const ASIDE_MS: u64 = 250;

/// Meaning of a newer record in the directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Meaning {
    /// The newer record is a leftover, or older news than ours: write above it.
    Raise,
    /// Another node has the principal.
    Outvoted,
    /// Another node has the principal, and here it has gone anyway.
    Moot,
    /// The newer record comes back each time, or makes no sense: leave it until the next
    /// comparison.
    GiveUp,
}

impl PresenceTracker {
    /// Takes the results of the batches that were handed out last, in their order. Called exactly
    /// once after each [`turn`](PresenceTracker::turn) that handed out batches; without any it does
    /// nothing.
    pub fn written(
        &mut self,
        now: Now,
        result: Result<Vec<Put>, DirectoryError>,
        fx: &mut Effects,
    ) {
        let flight = std::mem::take(&mut self.flight);
        match result {
            Ok(puts) if puts.len() == flight.len() => {
                (self.backoff_ms, self.retry_at) = (0, None);
                for (record, put) in flight.iter().zip(puts) {
                    self.landed(now, record, put, fx);
                }
            }
            _ if flight.is_empty() => {}
            _ => {
                self.put_off(now);
                for record in flight.iter().rev() {
                    if self.returned(record) {
                        self.queue.push_front(record.place.slot);
                    }
                }
            }
        }
        self.tell(fx);
        self.publish(now);
    }

    /// Compares a whole bucket of the directory with what is known here, and has differences
    /// written over. Principals of other shards are skipped, and those that wait anyway.
    pub fn compare(&mut self, now: Now, bucket: u16, stored: &[Stored], fx: &mut Effects) {
        if !self.settings.copies {
            return;
        }
        let mut seen = Vec::with_capacity(stored.len());
        for (key, record) in stored {
            let hash = self.hash_key.of(&[key.as_bytes()]);
            match self.ledger.find(hash, bucket, key) {
                Some(place) => {
                    seen.push(place.slot);
                    self.compare_one(now, place, record, fx);
                }
                None if record.online && record.node == self.settings.lease.node => {
                    self.extra(now, hash, bucket, (key, record));
                }
                None => {}
            }
        }
        seen.sort_unstable();
        let unseen = self.ledger.bucket(bucket).filter(|(place, entry)| {
            entry.claims() && !entry.is_unwritten() && seen.binary_search(&place.slot).is_err()
        });
        let missing: Vec<Key> = unseen.map(|(place, _)| place).collect();
        missing.into_iter().for_each(|place| self.again(now, place, TrackerCounter::Missing));
        self.tell(fx);
        self.publish(now);
    }

    /// The directory has this record of one that has an entry.
    fn compare_one(&mut self, now: Now, place: Key, stored: &PresenceRecord, fx: &mut Effects) {
        let entry = self.ledger.at_mut(place).expect("it was found just now");
        if entry.is_unwritten() || !entry.claims() {
            return;
        }
        entry.marks %= TRY;
        if stored.version < entry.version {
            return self.again(now, place, TrackerCounter::Stale);
        }
        if entry.record(&self.settings.lease, &self.codes) == *stored {
            entry.marks |= TAKEN;
            return;
        }
        self.kept(now, place, stored, fx);
    }

    /// Has an entry written again.
    fn again(&mut self, now: Now, place: Key, why: TrackerCounter) {
        self.digests.count(why);
        let entry = self.ledger.at_mut(place).expect("callers have found it");
        entry.marks %= TRY;
        self.wait(now, place);
    }

    /// The directory says that a principal is online here of which nothing is known: it gets a
    /// record that the principal has gone, with the lowest version above, so that later transitions
    /// of the hub are above that.
    fn extra(&mut self, now: Now, hash: u64, bucket: u16, (key, stored): (&str, &PresenceRecord)) {
        let Some(who) = Principal::parse(key) else {
            return self.digests.count(TrackerCounter::Nonsense);
        };
        if owner(self.settings.home, self.settings.shards, &who) != self.settings.shard {
            return;
        }
        if stored.version > PresenceVersion::LAST {
            return self.digests.count(TrackerCounter::GivenUp);
        }
        self.digests.count(TrackerCounter::Extra);
        let version = PresenceVersion(stored.version.0 + 1);
        self.observe(now, version);
        let end = OnlineState::Offline(CloseReason::ServerStopped);
        let last = self.history.of(hash).last().map_or(end, |&(_, code)| self.codes.decode(code));
        let code = self.codes.encode(if last.is_online() { end } else { last });
        let entry = Entry { key: key.into(), version, code, marks: RAISED, ..super::blank(bucket) };
        self.enter(now, hash, entry);
    }

    fn landed(&mut self, now: Now, record: &Flight, put: Put, fx: &mut Effects) {
        let Some(entry) = self.ledger.at_mut(record.place) else { return };
        let changed = entry.version != record.version;
        match put {
            Put::Taken => self.digests.count(TrackerCounter::Taken),
            Put::Untaken => return self.set_aside(now, record),
            Put::Kept(stored) if !changed => return self.kept(now, record.place, &stored, fx),
            Put::Kept(_) => {}
        }
        if changed {
            entry.marks &= !FLYING;
        } else {
            entry.marks = (entry.marks % TRY) | TAKEN;
            self.settle(record.place);
        }
    }

    /// A record was out, and it is not known what became of it: its entry waits as it did before.
    /// Whether it is to be given a place; one that changed meanwhile has got it.
    fn returned(&mut self, record: &Flight) -> bool {
        let Some(entry) = self.ledger.at_mut(record.place) else { return false };
        self.digests.count(TrackerCounter::Returned);
        let placeless = !entry.is(DIRTY);
        entry.marks = (entry.marks & !FLYING) | DIRTY;
        entry.since_ms = record.since_ms;
        placeless
    }

    /// One bucket does not answer: its records wait beside the queue, and hold up nobody.
    fn set_aside(&mut self, now: Now, record: &Flight) {
        if self.returned(record) {
            let aside = self.aside.get_or_insert_with(|| Aside {
                slots: Vec::new(),
                since_ms: record.since_ms,
                at: now.after(Duration::from_millis(ASIDE_MS)),
            });
            aside.slots.push(record.place.slot);
        }
    }

    /// Puts what stands beside the queue back into it when its time has come.
    pub(super) fn bring_back(&mut self, now: Now) {
        if let Some(aside) = self.aside.take_if(|aside| aside.at <= now.mono) {
            aside.slots.into_iter().for_each(|slot| self.queue.push_back(slot));
        }
    }

    /// The directory keeps another record than this entry's, which has not changed since. Ours is
    /// written above it if that one is of this node or says offline, or if the versions decide
    /// nothing, for the other node's clock is ahead: then ours is the news, if it was never taken.
    fn kept(&mut self, now: Now, place: Key, stored: &PresenceRecord, fx: &mut Effects) {
        self.observe(now, stored.version);
        match self.meaning(now, place, stored) {
            Meaning::Raise => {
                self.digests.count(TrackerCounter::Raised);
                let entry = self.ledger.at(place).expect("callers have found it");
                let waits_since = entry.is(FLYING).then_some(entry.since_ms);
                let version = self.above(now, stored.version.max(entry.version));
                self.wait(now, place);
                self.change(place, |entry| {
                    entry.version = version;
                    entry.since_ms = waits_since.unwrap_or(entry.since_ms);
                    entry.marks = ((entry.marks | RAISED) & !FLYING) + TRY;
                });
            }
            Meaning::Outvoted => {
                self.digests.count(TrackerCounter::Outvoted);
                self.change(place, |entry| entry.marks |= OUTVOTED);
                let key = &self.ledger.at(place).expect("callers have found it").key;
                let who = Principal::parse(key);
                fx.outvoted.extend(who.map(|who| (who, stored.clone())));
                self.settle(place);
            }
            Meaning::Moot => {
                self.digests.count(TrackerCounter::Moot);
                self.settle(place);
            }
            Meaning::GiveUp => {
                self.digests.count(TrackerCounter::GivenUp);
                self.settle(place);
            }
        }
    }

    fn meaning(&self, now: Now, place: Key, stored: &PresenceRecord) -> Meaning {
        let entry = self.ledger.at(place).expect("callers have found it");
        let theirs = stored.online && stored.node != self.settings.lease.node;
        let unknown = !entry.is(TAKEN) && stored.version.unix_ms() > now.wall_ms;
        let tired = entry.tries() == TRIES_MAX;
        match theirs {
            true if !entry.is_online() => Meaning::Moot,
            _ if stored.version > PresenceVersion::LAST => Meaning::GiveUp,
            true if tired || !unknown => Meaning::Outvoted,
            false if tired => Meaning::GiveUp,
            _ => Meaning::Raise,
        }
    }

    /// A version above one that was seen, and above what hub and broker said so far.
    pub(super) fn above(&mut self, now: Now, seen: PresenceVersion) -> PresenceVersion {
        if is_far(now, seen) {
            return PresenceVersion(seen.0 + 1);
        }
        self.clock.observe(seen);
        let version = self.clock.next(now.wall_ms);
        self.observe(now, version);
        version
    }

    /// Notes that hub and broker must get a version.
    fn observe(&mut self, now: Now, version: PresenceVersion) {
        if !is_far(now, version) {
            self.clock.observe(version);
            self.observed = self.observed.max(Some(version));
        }
    }

    /// Waits longer after each fault, with a jitter of a quarter.
    fn put_off(&mut self, now: Now) {
        self.backoff_ms = (self.backoff_ms * 2).clamp(BACKOFF_MS, BACKOFF_MS_MAX);
        let wait_ms = self.backoff_ms * 3 / 4 + self.rng.below(self.backoff_ms / 4 + 1);
        self.retry_at = Some(now.after(Duration::from_millis(wait_ms)));
    }
}

fn is_far(now: Now, version: PresenceVersion) -> bool {
    version.unix_ms() > now.wall_ms.saturating_add(AHEAD_MS_MAX)
}
