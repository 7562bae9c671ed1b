//! Summary of the shards' subscriptions for each other: nearly exact, and read without asking.
//!
//! A [`RouteSummary`] is shared by all shards of a process. A filter is in it by a hash: an exact
//! one of its whole text, one with wildcards of the levels before the first wildcard. A publisher's
//! shard looks for the whole topic, and for its first levels at those depths that are in use
//! anywhere.
//!
//! The table grows and shrinks: a new one is published under a new generation, each shard moves
//! its entries over in slices, and while it does its entries are read in the old one. Nothing is
//! locked to read; the lock is taken when a generation, or a depth, begins or ends.

use super::bits::Bits;
use super::keys::{DURABLE, Keys};
use super::shards::Elsewhere;
use super::table::LEVELS_MAX;
use base::hash::HashKey;
use model::id::ShardId;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Blocks of the first table, as a power of two: 4 KiB for eight shards.
const BLOCKS_LOG_MIN: u32 = 6;
/// Blocks of the largest: beyond, more filters make more needless peer messages.
const BLOCKS_LOG_MAX: u32 = 26;
/// The table grows when a shard has set one bit in so many.
const FULL: usize = 4;
/// The table shrinks when no shard has set one bit in so many.
const SPARSE: usize = 64;
/// Entries that every change moves over while a table grows.
const SLICE: usize = 64;
/// How a filter without wildcards is hashed: as the table of filters does it.
const EXACT: u32 = u32::MAX;

/// Summary of which shards hold what, nearly; shared by all shards of a process.
pub struct RouteSummary {
    shards: u16,
    key: HashKey,
    /// Rises with every change of `state.view`.
    generation: AtomicU64,
    /// Depths in use, a bit each.
    depths: [AtomicU64; 2],
    /// Bits of "somebody" that each shard has set.
    set: Box<[AtomicU32]>,
    /// Pages of retained messages that each shard has given out.
    pages: Box<[AtomicU64]>,
    state: Mutex<State>,
}

/// State that changes seldom.
struct State {
    view: View,
    /// Shards that use each depth.
    depths: [u16; LEVELS_MAX],
}

/// The table in force, and the one before while shards move.
#[derive(Clone)]
struct View {
    bits: Arc<Bits>,
    old: Option<Arc<Bits>>,
}

/// Part of the summary that one shard writes.
pub(super) struct Part {
    summary: Arc<RouteSummary>,
    shard: ShardId,
    generation: u64,
    view: View,
    keys: Keys,
    /// While it moves: entries below are in the new table too.
    cursor: Option<u64>,
    /// Bits of "somebody" it has set in the table it is read in.
    set: usize,
    /// Bits of "somebody" it has set in the table it moves to.
    set_new: usize,
    /// Filters with wildcards by depth.
    depths: Box<[u32; LEVELS_MAX]>,
    /// Takings-out until it looks whether the table is too large.
    until_look: u32,
}

impl RouteSummary {
    /// For so many shards, which hash with `key`. With one there is nothing to know.
    pub fn new(shards: u16, key: HashKey) -> Arc<RouteSummary> {
        assert!((1..=ShardId::MAX).contains(&shards), "a process has 1 to 1,024 shards");
        let view = View { bits: Arc::new(Bits::new(shards, BLOCKS_LOG_MIN)), old: None };
        Arc::new(RouteSummary {
            shards,
            key,
            generation: AtomicU64::new(0),
            depths: [AtomicU64::new(0), AtomicU64::new(0)],
            set: (0..shards).map(|_| AtomicU32::new(0)).collect(),
            pages: (0..shards).map(|_| AtomicU64::new(0)).collect(),
            state: Mutex::new(State { view, depths: [0; LEVELS_MAX] }),
        })
    }

    /// The key by which filters are hashed.
    pub fn key(&self) -> HashKey {
        self.key
    }

    /// Bytes of the tables in force.
    pub fn heap_bytes(&self) -> usize {
        let view = &self.lock().view;
        view.bits.heap_bytes() + view.old.as_ref().map_or(0, |old| old.heap_bytes())
    }

    /// How many pages of retained messages a shard has given out. A shard that reads this and then
    /// looks for a filter that is not here yet finds that filter's pages given out later.
    pub fn pages(&self, shard: ShardId) -> u64 {
        self.pages[usize::from(shard.0)].load(Ordering::Acquire)
    }

    /// A shard says how many it has given out by now.
    pub fn set_pages(&self, shard: ShardId, count: u64) {
        self.pages[usize::from(shard.0)].store(count, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }

    /// Begins a new table, unless there is one already that this shard does not know.
    fn renew(&self, known: &View, blocks_log: u32) {
        let mut state = self.lock();
        if state.view.old.is_none() && Arc::ptr_eq(&state.view.bits, &known.bits) {
            let bits = Arc::new(Bits::new(self.shards, blocks_log));
            state.view = View { bits, old: Some(known.bits.clone()) };
            self.generation.fetch_add(1, Ordering::Release);
        }
    }

    /// Every shard has moved: the old table goes.
    fn settle(&self) {
        let mut state = self.lock();
        state.view.old = None;
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// A shard begins or ends to use a depth.
    fn depth(&self, depth: usize, used: bool) {
        let mut state = self.lock();
        let shards = &mut state.depths[depth];
        *shards = if used { *shards + 1 } else { *shards - 1 };
        let (word, bit) = (&self.depths[depth / 64], 1 << (depth % 64));
        if *shards == 0 {
            word.fetch_and(!bit, Ordering::AcqRel);
        } else {
            word.fetch_or(bit, Ordering::AcqRel);
        }
    }

    /// Bits that are set in the table in force.
    #[cfg(test)]
    pub(super) fn bits_set(&self) -> u32 {
        self.lock().view.bits.set_in_all()
    }

    /// Depths in use, a bit each.
    pub(super) fn depths(&self) -> u128 {
        let [low, high] = &self.depths;
        u128::from(low.load(Ordering::Acquire)) | u128::from(high.load(Ordering::Acquire)) << 64
    }
}

impl Part {
    pub fn new(summary: &Arc<RouteSummary>, shard: ShardId) -> Part {
        assert!(shard.0 < summary.shards, "the shard is one of them");
        let generation = summary.generation.load(Ordering::Acquire);
        let view = summary.lock().view.clone();
        Part {
            summary: summary.clone(),
            shard,
            generation,
            cursor: view.old.as_ref().map(|_| 0),
            view,
            keys: Keys::default(),
            set: 0,
            set_new: 0,
            depths: Box::new([0; LEVELS_MAX]),
            until_look: 0,
        }
    }

    /// One subscription more to a filter.
    pub fn add(&mut self, filter: &str, durable: bool) {
        if self.summary.shards == 1 {
            return;
        }
        self.refresh();
        let (depth, entry) = self.entry(filter, durable);
        if let Some(depth) = depth {
            self.depths[depth] += 1;
            if self.depths[depth] == 1 {
                self.summary.depth(depth, true);
            }
        }
        if self.keys.add(entry) {
            match (&self.view.old, self.cursor) {
                (Some(old), Some(cursor)) => {
                    self.set += old.set(self.shard, entry);
                    if u64::from(entry) < cursor {
                        self.set_new += self.view.bits.set(self.shard, entry);
                    }
                }
                _ => self.set += self.view.bits.set(self.shard, entry),
            }
            self.tell();
        }
        let (set, bits) = (self.set, &self.view.bits);
        let log = bits.blocks_log();
        if self.view.old.is_none() && set * FULL > bits.buckets() && log < BLOCKS_LOG_MAX {
            self.summary.renew(&self.view, log + 1);
        }
        self.grow(SLICE);
    }

    /// One subscription less; with `durable` as it was added.
    pub fn remove(&mut self, filter: &str, durable: bool) {
        if self.summary.shards == 1 {
            return;
        }
        self.refresh();
        let (depth, entry) = self.entry(filter, durable);
        if let Some(depth) = depth {
            self.depths[depth] -= 1;
            if self.depths[depth] == 0 {
                self.summary.depth(depth, false);
            }
        }
        if self.keys.remove(entry) {
            match (&self.view.old, self.cursor) {
                (Some(old), Some(cursor)) => {
                    self.set -= self.clear(old, entry);
                    if u64::from(entry) < cursor {
                        self.set_new -= self.clear(&self.view.bits, entry);
                    }
                }
                _ => self.set -= self.clear(&self.view.bits, entry),
            }
            self.tell();
            self.shrink();
        }
        self.grow(SLICE);
    }

    /// The other shards that may have a filter that matches.
    pub fn elsewhere(&mut self, topic: &str) -> Elsewhere {
        let mut found = Elsewhere::default();
        if self.summary.shards == 1 {
            return found;
        }
        self.refresh();
        let View { bits, old } = &self.view;
        let old = old.as_deref();
        bits.look(old, self.hash(EXACT, topic), &mut found);
        let mut depths = self.summary.depths();
        if topic.starts_with('$') {
            depths &= !1; // wildcards in front do not match it (MQTT5 4.7.2-1)
        }
        let (mut depth, mut end) = (0, 0);
        while depths >> depth != 0 {
            if depths >> depth & 1 != 0 {
                bits.look(old, self.hash(depth, &topic[..end]), &mut found);
            }
            if depth > 0 && end == topic.len() || depth as usize == LEVELS_MAX - 1 {
                break;
            }
            let from = if depth == 0 { 0 } else { end + 1 };
            end = topic[from..].find('/').map_or(topic.len(), |at| from + at);
            depth += 1;
        }
        found.any.remove(self.shard);
        found.durable.remove(self.shard);
        found
    }

    /// Moves at most so many entries over. True: there are more.
    pub fn grow(&mut self, entries_max: usize) -> bool {
        self.refresh();
        let Some(cursor) = self.cursor else { return false };
        let (mut left, mut next) = (entries_max, cursor);
        let Part { keys, view, shard, set_new, .. } = self;
        let first = u32::try_from(cursor).expect("the last slice ends the walk");
        keys.each(first, u32::MAX, |entry| {
            if left == 0 {
                return false;
            }
            left -= 1;
            *set_new += view.bits.set(*shard, entry);
            next = u64::from(entry) + 1;
            true
        });
        if left == 0 && next <= u64::from(u32::MAX) {
            self.cursor = Some(next);
            return true;
        }
        self.cursor = None;
        self.set = std::mem::take(&mut self.set_new);
        self.tell();
        if self.view.bits.move_in(self.shard) {
            self.summary.settle();
        }
        false
    }

    /// Bytes of what it knows for itself.
    pub fn heap_bytes(&self) -> usize {
        self.keys.heap_bytes()
    }

    /// Looks whether there is another table.
    fn refresh(&mut self) {
        let generation = self.summary.generation.load(Ordering::Acquire);
        if generation == self.generation {
            return;
        }
        let view = {
            let state = self.summary.lock();
            // Under the lock, so that number and view belong together.
            self.generation = self.summary.generation.load(Ordering::Acquire);
            state.view.clone()
        };
        if !Arc::ptr_eq(&view.bits, &self.view.bits) {
            debug_assert!(self.cursor.is_none(), "the next one waits for the last to move");
            self.cursor = Some(0);
        }
        self.view = view;
    }

    fn clear(&self, bits: &Bits, entry: u32) -> usize {
        let (first, last) = bits.neighbours(entry);
        let mut others = Vec::new();
        self.keys.each(first, last, |other| {
            others.push(other);
            true
        });
        bits.clear(self.shard, entry, &others)
    }

    /// Begins a smaller table if every shard has few entries.
    fn shrink(&mut self) {
        self.until_look = self.until_look.saturating_sub(1);
        let bits = &self.view.bits;
        let sparse = |set: usize| set * SPARSE < bits.buckets();
        if self.until_look > 0 || self.view.old.is_some() || bits.blocks_log() <= BLOCKS_LOG_MIN {
            return;
        }
        self.until_look = 1_024;
        let set = |of: &AtomicU32| of.load(Ordering::Relaxed) as usize;
        if self.summary.set.iter().all(|of| sparse(set(of))) {
            let log = bits.blocks_log() - 2;
            self.summary.renew(&self.view, log.max(BLOCKS_LOG_MIN));
        }
    }

    fn tell(&self) {
        let set = u32::try_from(self.set).unwrap_or(u32::MAX);
        self.summary.set[usize::from(self.shard.0)].store(set, Ordering::Relaxed);
    }

    /// How deep the literal levels of a filter with wildcards are, and what it is known by.
    fn entry(&self, filter: &str, durable: bool) -> (Option<usize>, u32) {
        let (depth, text) = match filter.find(['+', '#']) {
            None => (None, filter),
            Some(0) => (Some(0), ""),
            Some(at) => {
                let text = &filter[..at - 1];
                (Some(1 + text.bytes().filter(|&byte| byte == b'/').count()), text)
            }
        };
        let hash = self.hash(depth.map_or(EXACT, |depth| depth as u32), text);
        (depth, if durable { hash | DURABLE } else { hash })
    }

    fn hash(&self, depth: u32, text: &str) -> u32 {
        let hash = self.summary.key.of(&[&depth.to_le_bytes(), text.as_bytes()]);
        (hash >> 32) as u32 & !DURABLE
    }
}
