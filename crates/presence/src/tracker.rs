//! The presence of one shard's principals, and what a directory has not taken of it.
//!
//! Notes every transition in the order in which the shard's hub and broker made them: counts,
//! remembers, and, where there is a directory, keeps an entry until the directory has its last
//! word. A thousand transitions while the directory is away are one entry and one write. `agree`
//! decides the consequences of a write, and of a comparison; `answer` answers questions. It knows
//! no directory, no connection and no other shard.
//!
//! Invariants: an entry waits until the directory has taken exactly the version it has now; one
//! batch is out at a time; the digests are those of the entries that claim to be online.

mod agree;
mod answer;
#[cfg(test)]
mod tests;

use crate::counts;
use crate::digests::{Digests, TrackerCounter};
use crate::history::History;
use crate::ledger::code::Codes;
use crate::ledger::queue::Queue;
use crate::ledger::{DIRTY, Entry, FLYING, Ledger, OUTVOTED, RAISED, User};
use base::hash::HashKey;
use base::prng::{Prng, scramble};
use base::slab::Key;
use base::time::{Instant, Now};
use model::id::ShardId;
use model::ports::presence::directory::{Batch, Lease};
use model::ports::presence::queries::PresenceCounts;
use model::presence::{
    PresenceRecord, PresenceVersion, Principal, Transition, VersionClock, bucket,
};
use std::sync::Arc;
use std::time::Duration;

/// Records in one batch at the most: gathering them holds the shard up for two milliseconds.
pub const BATCH_MAX: usize = 2_048;

/// Principals of a process that are gone, and of whom the directory has not heard, at the most.
/// Beyond it they are forgotten, and what the directory says of them is put right by comparison.
pub const ABSENT_MAX: usize = 4 << 20;

/// First pause of a tracker after a fault, milliseconds; each further one is twice as long.
const BACKOFF_MS: u64 = 100;

/// Longest pause, milliseconds.
const BACKOFF_MS_MAX: u64 = 1_000;

/// Settings of a tracker.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Shard of the tracker.
    pub shard: ShardId,
    /// Shards of the process.
    pub shards: u16,
    /// The key by which principals find their shard.
    pub home: HashKey,
    /// This node, and which start of it.
    pub lease: Lease,
    /// Whether a directory is configured: without one there is no ledger.
    pub copies: bool,
    /// Transitions remembered by the process; a tracker remembers its share.
    pub history_max: u32,
    /// How long changes are gathered before they are handed out, milliseconds.
    pub flush_ms: u32,
    /// For jitter and for the key of the tables.
    pub seed: u64,
}

/// Effects that a tracker wants.
#[derive(Debug, Default)]
pub struct Effects {
    /// For the directory: one batch in parts. The next one comes after `written` was called.
    pub batches: Vec<Batch>,
    /// Principals that another node has, and its record: their connections here are stale. The
    /// transition by which the hub ends one is noted as any other, and is not written.
    pub outvoted: Vec<(Principal, PresenceRecord)>,
    /// A version that was seen in the directory or given here. Hub and broker get it at once: their
    /// later transitions must be above it.
    pub observed: Option<PresenceVersion>,
}

/// The presence of one shard's principals.
pub struct PresenceTracker {
    settings: Settings,
    digests: Arc<Digests>,
    hash_key: HashKey,
    codes: Codes,
    history: History,
    counts: PresenceCounts,
    ledger: Ledger,
    queue: Queue,
    /// Entries that wait or are out.
    unwritten: usize,
    /// Entries that are offline.
    absent: usize,
    /// Records handed out and not answered, in the order of their batches.
    flight: Vec<Flight>,
    /// Moment since which the oldest of it waits, as in entries.
    out_since_ms: u32,
    /// Entries that a part of the directory could not take.
    aside: Option<Aside>,
    clock: VersionClock,
    /// Version that is not reported yet.
    observed: Option<PresenceVersion>,
    retry_at: Option<Instant>,
    backoff_ms: u64,
    rng: Prng,
}

/// A record that is out.
struct Flight {
    place: Key,
    version: PresenceVersion,
    since_ms: u32,
    bucket: u16,
}

/// Slots of entries that wait beside the queue.
struct Aside {
    slots: Vec<u32>,
    /// Moment since which one of them waits, as in entries.
    since_ms: u32,
    /// When they stand in the queue again.
    at: Instant,
}

impl PresenceTracker {
    /// One that knows nobody.
    pub fn new(settings: Settings, digests: Arc<Digests>) -> PresenceTracker {
        let seed = settings.seed ^ u64::from(settings.shard.0).rotate_left(32);
        let hash_key = HashKey::new(scramble(seed), scramble(!seed));
        let share = settings.history_max.div_ceil(u32::from(settings.shards.max(1)));
        PresenceTracker {
            hash_key,
            codes: Codes::default(),
            history: History::new(share),
            counts: PresenceCounts::default(),
            ledger: Ledger::new(hash_key, settings.copies),
            queue: Queue::default(),
            unwritten: 0,
            absent: 0,
            flight: Vec::new(),
            out_since_ms: 0,
            aside: None,
            clock: VersionClock::default(),
            observed: None,
            retry_at: None,
            backoff_ms: 0,
            rng: Prng::new(seed),
            settings,
            digests,
        }
    }

    /// A principal came or went. A word that is not above the last one of this principal changes
    /// nothing.
    pub fn note(&mut self, now: Now, transition: Transition) {
        let key = transition.who.key();
        let (hash, bucket) = (self.hash_key.of(&[key.as_bytes()]), bucket(&key));
        let place = self.ledger.find(hash, bucket, &key);
        if self.is_late(hash, place, transition.version) {
            return self.digests.count(TrackerCounter::Late);
        }
        self.digests.count(TrackerCounter::Noted);
        let code = self.codes.encode(transition.state);
        self.history.note(hash, transition.version, code);
        counts::note(&mut self.counts, &transition);
        self.clock.observe(transition.version);
        if !self.settings.copies {
            return;
        }
        let user = transition.user.map(|user| Box::new(User(user)));
        let version = transition.version;
        match place {
            Some(place) => {
                self.renew(now, place, Entry { key, user, version, code, ..blank(bucket) })
            }
            None => self.enter(now, hash, Entry { key, user, version, code, ..blank(bucket) }),
        }
    }

    /// Hands out a batch when one is due. When to call again; none: after the next transition or
    /// answer.
    pub fn turn(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        self.tell(fx);
        self.bring_back(now);
        self.publish(now);
        if !self.flight.is_empty() {
            return None;
        }
        let aside = self.aside.as_ref().map(|aside| aside.at);
        let Some(head) = self.queue.front() else { return aside };
        let full = self.queue.len() >= BATCH_MAX;
        let wait_ms = if full { 0 } else { self.settings.flush_ms };
        let gathered =
            now.after(Duration::from_millis(wait_ms.saturating_sub(self.age(now, head)).into()));
        let due = self.retry_at.map_or(gathered, |at| at.max(gathered));
        if due > now.mono {
            return Some(aside.map_or(due, |at| at.min(due)));
        }
        self.gather(now);
        self.hand_out(&mut fx.batches);
        self.publish(now);
        None
    }

    /// Principals whose last transition the directory has not taken.
    pub fn unwritten(&self) -> u64 {
        self.unwritten as u64
    }

    /// Counts by product and protocol.
    pub fn counts(&self) -> &PresenceCounts {
        &self.counts
    }

    /// The history, which has the transitions of hub and broker, decides whether a transition is
    /// late; where it has forgotten them, the entry does, unless its version was given here.
    fn is_late(&self, hash: u64, place: Option<Key>, version: PresenceVersion) -> bool {
        let entry = place.and_then(|place| self.ledger.at(place));
        let written = entry.filter(|entry| !entry.is(RAISED)).map(|entry| entry.version);
        self.history.newest(hash).max(written).is_some_and(|last| version <= last)
    }

    /// The first word of a principal that has no entry.
    fn enter(&mut self, now: Now, hash: u64, entry: Entry) {
        let online = entry.is_online();
        if !online && self.absent >= self.absent_max() {
            return self.digests.count(TrackerCounter::Forgotten);
        }
        let place = self.ledger.insert(hash, entry);
        self.absent += usize::from(!online);
        self.wait(now, place);
        self.claim(place);
    }

    /// The next word of one that has.
    fn renew(&mut self, now: Now, place: Key, word: Entry) {
        let entry = self.ledger.at(place).expect("it was found just now");
        if entry.is(OUTVOTED) && !word.is_online() {
            return self.leave(place);
        }
        let crowd = !word.is_online() && entry.is_online() && self.absent >= self.absent_max();
        if crowd {
            self.digests.count(TrackerCounter::Forgotten);
            return self.leave(place);
        }
        let last = entry.version;
        let raised = last >= word.version;
        let version = if raised { self.above(now, last) } else { word.version };
        self.wait(now, place);
        self.change(place, |entry| {
            entry.version = version;
            entry.code = word.code;
            entry.user = word.user;
            entry.marks &= DIRTY | FLYING;
            entry.marks |= if raised { RAISED } else { 0 };
        });
    }

    /// Changes an entry, and the digests with it.
    fn change(&mut self, place: Key, change: impl FnOnce(&mut Entry)) {
        self.disclaim(place);
        let entry = self.ledger.at_mut(place).expect("callers have found it");
        let before = entry.is_online();
        change(entry);
        let after = entry.is_online();
        self.absent = self.absent + usize::from(!after) - usize::from(!before);
        self.claim(place);
    }

    /// An entry waits to be written from now on.
    fn wait(&mut self, now: Now, place: Key) {
        let entry = self.ledger.at_mut(place).expect("callers have found it");
        if !entry.is_unwritten() {
            self.unwritten += 1;
            self.digests.wait(entry.bucket);
        }
        if !entry.is(DIRTY) {
            entry.marks |= DIRTY;
            entry.since_ms = now.mono.millis() as u32;
            self.queue.push_back(place.slot);
        }
    }

    /// An entry was out, and waits no more; it leaves when it is offline.
    fn settle(&mut self, place: Key) {
        let entry = self.ledger.at_mut(place).expect("callers have found it");
        if entry.is_unwritten() {
            entry.marks &= !(DIRTY | FLYING);
            self.unwritten -= 1;
            self.digests.settle(entry.bucket);
        }
        if !entry.is_online() {
            self.leave(place);
        }
    }

    /// An entry leaves. Its slot may stand in the queue: what stands there and does not wait is
    /// skipped.
    fn leave(&mut self, place: Key) {
        self.disclaim(place);
        let entry = self.ledger.remove(place).expect("callers have found it");
        self.absent -= usize::from(!entry.is_online());
        if entry.is_unwritten() {
            self.unwritten -= 1;
            self.digests.settle(entry.bucket);
        }
    }

    fn claim(&self, place: Key) {
        if let Some(entry) = self.ledger.at(place).filter(|entry| entry.claims()) {
            self.digests.add(entry.bucket, entry.sum(&self.settings.lease, &self.codes));
        }
    }

    fn disclaim(&self, place: Key) {
        if let Some(entry) = self.ledger.at(place).filter(|entry| entry.claims()) {
            self.digests.take(entry.bucket, entry.sum(&self.settings.lease, &self.codes));
        }
    }

    fn tell(&mut self, fx: &mut Effects) {
        fx.observed = fx.observed.max(self.observed.take());
    }

    /// Drops what stands at the head of the queue and does not wait.
    fn skip(&mut self) {
        while let Some(slot) = self.queue.front() {
            if self.ledger.tenant(slot).is_some_and(|(_, entry)| entry.is(DIRTY)) {
                return;
            }
            self.queue.pop();
        }
    }

    /// Takes what waits longest. When much waits, others of the same buckets go along: a script a
    /// bucket is what a directory works by.
    fn gather(&mut self, now: Now) {
        let crowd = self.queue.len() > BATCH_MAX;
        while self.flight.len() < BATCH_MAX {
            let Some(slot) = self.queue.pop() else { break };
            let Some((place, entry)) = self.ledger.tenant(slot) else { continue };
            if !entry.is(DIRTY) {
                continue;
            }
            let bucket = entry.bucket;
            self.depart(place);
            if crowd {
                let room = BATCH_MAX - self.flight.len();
                let waiting = self.ledger.bucket(bucket).filter(|(_, entry)| entry.is(DIRTY));
                let along: Vec<Key> = waiting.map(|(place, _)| place).take(room).collect();
                along.into_iter().for_each(|place| self.depart(place));
            }
        }
        let oldest = self.flight.iter().max_by_key(|record| elapsed(now, record.since_ms));
        self.out_since_ms = oldest.map_or(0, |record| record.since_ms);
        self.flight.sort_by_key(|record| record.bucket);
    }

    fn depart(&mut self, place: Key) {
        let entry = self.ledger.at_mut(place).expect("callers have found it");
        entry.marks = (entry.marks & !DIRTY) | FLYING;
        let Entry { version, since_ms, bucket, .. } = *entry;
        self.flight.push(Flight { place, version, since_ms, bucket });
    }

    fn hand_out(&self, batches: &mut Vec<Batch>) {
        for part in self.flight.chunk_by(|one, next| one.bucket == next.bucket) {
            let entries = part.iter().map(|record| {
                let entry = self.ledger.at(record.place).expect("it has just been gathered");
                (entry.key.clone(), entry.record(&self.settings.lease, &self.codes))
            });
            batches.push(Batch { bucket: part[0].bucket, entries: entries.collect() });
        }
    }

    /// Tells all how long the oldest has waited: the head of the queue, or what is out or aside.
    fn publish(&mut self, now: Now) {
        self.skip();
        let out = self.flight.first().map(|_| elapsed(now, self.out_since_ms));
        let head = self.queue.front().map(|slot| self.age(now, slot));
        let aside = self.aside.as_ref().map(|aside| elapsed(now, aside.since_ms));
        let age = out.max(head).max(aside).filter(|_| self.unwritten > 0);
        self.digests.publish(now, self.settings.shard, age.map(u64::from));
    }

    /// Time that the entry in this slot has waited, milliseconds.
    fn age(&self, now: Now, slot: u32) -> u32 {
        self.ledger.tenant(slot).map_or(0, |(_, entry)| elapsed(now, entry.since_ms))
    }

    fn absent_max(&self) -> usize {
        ABSENT_MAX / usize::from(self.settings.shards.max(1))
    }
}

/// Milliseconds since a moment that is known modulo 2^32, which is 49 days.
fn elapsed(now: Now, since_ms: u32) -> u32 {
    (now.mono.millis() as u32).wrapping_sub(since_ms)
}

/// An entry without a name in this bucket.
fn blank(bucket: u16) -> Entry {
    Entry {
        key: Box::default(),
        user: None,
        version: PresenceVersion::default(),
        since_ms: 0,
        code: 0,
        marks: 0,
        bucket,
    }
}
