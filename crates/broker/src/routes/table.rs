//! Filters and the subscriptions under them.
//!
//! ```text
//!  dev/1/in        exact: found by its whole text
//!  dev/+/in   ─┐   root ─ "dev" ─┬─ "+"  leaf, the rest of its filter is `in`
//!  dev/7/#    ─┘                 └─ "7"  leaf, the rest of its filter is `#`
//! ```
//! A record is a filter, or a node that several filters share, or both. A child is found by hash
//! of its parent's number and its level's text, in the same index that finds exact filters. A
//! leaf keeps its whole filter; when another filter shares its level, a node is put above it, or,
//! where its filter ends, it becomes one. The invariants: a record without subscriptions has
//! children, and goes with the last of them; a filter keeps its record while it has a subscription.
//!
//! Sketch, for a unique filter with one subscription: a record of 24 bytes, 6 to 11 bytes in the
//! index, the text in slots of eight (measured: 34 to 41 bytes above the text). Levels are not
//! interned: a level that one filter has costs less in that filter's own text.

use super::record::{CHILDREN_MAX, EXACT, NOTHING, Record, Records, SET, flag, level_end};
use super::texts::{TEXT_BYTES_MAX, Texts};
use base::hash::HashKey;
use base::index::Index;
use std::collections::BTreeSet;

/// Most levels of a filter: the depth of the trie, and of the walk through it.
pub const LEVELS_MAX: usize = 128;

/// Largest number that stands for a subscription.
pub const SUBSCRIPTION_MAX: u64 = u64::MAX >> 1;

/// Number of the record above all levels.
pub(super) const ROOT: u32 = 0;

/// Reason why a filter was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FilterRefused {
    /// The filter has more than [`LEVELS_MAX`] levels, or more than 65,535 bytes.
    TooLong,
    /// The table holds as many as it can number.
    Full,
}

/// A part of what matches: numbers of subscriptions from one on, so many at most of each filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RouteSlice {
    /// The first.
    pub from: u64,
    /// The most subscriptions of each filter.
    pub most: usize,
}

impl RouteSlice {
    /// All subscriptions.
    pub const ALL: RouteSlice = RouteSlice { from: 0, most: usize::MAX };
}

/// Filters and subscriptions.
pub struct FilterTable {
    key: HashKey,
    index: Index,
    pub(super) records: Records,
    texts: Texts,
    /// Subscriptions of filters that have more than one.
    sets: Vec<BTreeSet<u64>>,
    free_sets: Vec<u32>,
    filters: usize,
    subscriptions: usize,
    removals: u64,
}

impl FilterTable {
    /// An empty one; levels are hashed with `key`, for strangers choose them.
    pub fn new(key: HashKey) -> FilterTable {
        let mut table = FilterTable {
            key,
            index: Index::default(),
            records: Records::default(),
            texts: Texts::default(),
            sets: Vec::new(),
            free_sets: Vec::new(),
            filters: 0,
            subscriptions: 0,
            removals: 0,
        };
        let text = table.texts.put("").expect("the first text");
        let root = Record::new(ROOT, text, 0, 0, flag::NODE);
        let number = table.records.add(root);
        debug_assert_eq!(number, Some(ROOT));
        table
    }

    /// Filters held.
    pub fn filters(&self) -> usize {
        self.filters
    }

    /// Records that went so far: their numbers may be others' by now.
    pub fn removals(&self) -> u64 {
        self.removals
    }

    /// Subscriptions held.
    pub fn subscriptions(&self) -> usize {
        self.subscriptions
    }

    /// Adds a subscription to a filter that was checked and is no shared one. Gives the filter's
    /// number, which it keeps while it has a subscription, and whether this one is new.
    pub fn insert(
        &mut self,
        filter: &str,
        subscription: u64,
    ) -> Result<(u32, bool), FilterRefused> {
        assert!(subscription <= SUBSCRIPTION_MAX, "a subscription has 63 bits");
        let number = self.place(filter)?;
        Ok((number, self.hold(number, subscription)))
    }

    /// The record of a filter, which is made if there is none.
    fn place(&mut self, filter: &str) -> Result<u32, FilterRefused> {
        let levels = 1 + filter.bytes().filter(|&byte| byte == b'/').count();
        if filter.len() > TEXT_BYTES_MAX || levels > LEVELS_MAX {
            return Err(FilterRefused::TooLong);
        }
        if !has_wildcard(filter) {
            return match self.find(EXACT, filter.as_bytes()) {
                Some(number) => Ok(number),
                None => self.add_leaf(EXACT, filter, 0),
            };
        }
        let (mut parent, mut at) = (ROOT, 0);
        loop {
            let end = level_end(filter.as_bytes(), at);
            let Some(mut number) = self.find(parent, &filter.as_bytes()[at..end]) else {
                return self.add_leaf(parent, filter, at);
            };
            let record = self.records.at(number);
            let is_same = record.is_leaf() && self.text(record) == filter.as_bytes();
            if !is_same && record.is_leaf() {
                number = self.split(number)?;
            }
            if is_same || end == filter.len() {
                return Ok(number);
            }
            (parent, at) = (number, end + 1);
        }
    }

    /// Takes a subscription off a filter. False: it was not there.
    pub fn remove(&mut self, filter: &str, subscription: u64) -> bool {
        self.find_filter(filter).is_some_and(|number| self.remove_at(number, subscription))
    }

    /// As [`remove`](Self::remove), by the filter's number.
    pub fn remove_at(&mut self, number: u32, subscription: u64) -> bool {
        if !self.let_go(number, subscription) {
            return false;
        }
        self.prune(number);
        true
    }

    /// The filter of this number, which has a subscription.
    pub fn filter(&self, number: u32) -> String {
        let record = self.records.at(number);
        let text = |record| String::from_utf8_lossy(self.text(record)).into_owned();
        if record.is_leaf() {
            return text(record);
        }
        let mut levels = vec![text(record)];
        let mut parent = record.parent;
        while parent != ROOT {
            let record = self.records.at(parent);
            levels.push(text(record));
            parent = record.parent;
        }
        levels.reverse();
        levels.join("/")
    }

    /// The smallest subscription from `first` to `last` that the filter of this number has.
    pub fn held(&self, number: u32, first: u64, last: u64) -> Option<u64> {
        match self.records.at(number).held() {
            NOTHING => None,
            held if held & SET != 0 => self.sets[set_of(held)].range(first..=last).next().copied(),
            one => (first..=last).contains(&one).then_some(one),
        }
    }

    /// Bytes that records and texts take; the index comes on top.
    pub fn heap_bytes(&self) -> usize {
        self.records.heap_bytes() + self.texts.heap_bytes()
    }

    /// Tells so many subscriptions of a filter from one on, in order; the next one, if there is
    /// one.
    pub fn each_held(
        &self,
        number: u32,
        RouteSlice { from, most }: RouteSlice,
        visit: &mut impl FnMut(u64),
    ) -> Option<u64> {
        match self.records.at(number).held() {
            NOTHING => None,
            held if held & SET != 0 => {
                let mut rest = self.sets[set_of(held)].range(from..).copied();
                rest.by_ref().take(most).for_each(&mut *visit);
                rest.next()
            }
            one => {
                if one >= from {
                    visit(one);
                }
                None
            }
        }
    }

    /// The record of a filter that has a subscription.
    pub fn find_held(&self, filter: &str) -> Option<u32> {
        self.find_filter(filter).filter(|&number| self.records.at(number).held() != NOTHING)
    }

    /// The record of a filter, whether it is a leaf or a node where a filter ends.
    fn find_filter(&self, filter: &str) -> Option<u32> {
        if !has_wildcard(filter) {
            return self.find(EXACT, filter.as_bytes());
        }
        let (mut parent, mut at) = (ROOT, 0);
        loop {
            let end = level_end(filter.as_bytes(), at);
            let number = self.find(parent, &filter.as_bytes()[at..end])?;
            let record = self.records.at(number);
            if record.is_leaf() {
                return (self.text(record) == filter.as_bytes()).then_some(number);
            }
            if end == filter.len() {
                return Some(number);
            }
            (parent, at) = (number, end + 1);
        }
    }

    pub(super) fn find(&self, parent: u32, level: &[u8]) -> Option<u32> {
        self.index.find(hash(&self.key, parent, level), |number| {
            let record = self.records.at(number);
            record.parent == parent && record.level(&self.texts) == level
        })
    }

    pub(super) fn text(&self, record: &Record) -> &[u8] {
        self.texts.bytes(record.text, usize::from(record.text_bytes))
    }

    /// Makes a leaf for `filter`, whose level below `parent` begins at `at`.
    fn add_leaf(&mut self, parent: u32, filter: &str, at: usize) -> Result<u32, FilterRefused> {
        if parent != EXACT && self.records.at(parent).count() == CHILDREN_MAX {
            return Err(FilterRefused::Full);
        }
        let text = self.texts.put(filter).ok_or(FilterRefused::Full)?;
        let record = Record::new(parent, text, filter.len(), at, 0);
        let Some(number) = self.records.add(record) else {
            self.texts.free(text, filter.len());
            return Err(FilterRefused::Full);
        };
        self.attach(number);
        Ok(number)
    }

    /// Puts a new record into the index and tells its parent.
    fn attach(&mut self, number: u32) {
        self.enter(number);
        let record = *self.records.at(number);
        if record.parent != EXACT {
            let flag = wildcard_flag(record.level(&self.texts));
            let parent = self.records.at_mut(record.parent);
            parent.children = (parent.children | flag) + 1;
        }
    }

    fn enter(&mut self, number: u32) {
        let FilterTable { index, records, texts, key, .. } = self;
        let of = |number| {
            let record = records.at(number);
            hash(key, record.parent, record.level(texts))
        };
        index.insert(of(number), number, of);
    }

    /// Makes a leaf a node, or puts a node above it; the leaf keeps its number. Gives the node's.
    fn split(&mut self, number: u32) -> Result<u32, FilterRefused> {
        let leaf = *self.records.at(number);
        let (from, length) = (usize::from(leaf.level_at), usize::from(leaf.text_bytes));
        let end = level_end(self.text(&leaf), from);
        let level = String::from_utf8_lossy(&self.text(&leaf)[from..end]).into_owned();
        let text = self.texts.put(&level).ok_or(FilterRefused::Full)?;
        let mut node = Record::new(leaf.parent, text, level.len(), 0, flag::NODE);
        if end == length {
            node.held = leaf.held;
            *self.records.at_mut(number) = node;
            self.texts.free(leaf.text, length);
            return Ok(number);
        }
        let Some(above) = self.records.add(node) else {
            self.texts.free(text, level.len());
            return Err(FilterRefused::Full);
        };
        let was_in = self.index.remove(hash(&self.key, leaf.parent, level.as_bytes()), number);
        debug_assert!(was_in);
        self.enter(above);
        let below = Record { parent: above, level_at: (end + 1) as u16, ..leaf };
        *self.records.at_mut(number) = below;
        self.attach(number);
        Ok(above)
    }

    /// Adds a subscription to a record. False: it has it.
    fn hold(&mut self, number: u32, subscription: u64) -> bool {
        let record = self.records.at_mut(number);
        match record.held() {
            NOTHING => {
                record.set_held(subscription);
                self.filters += 1;
            }
            held if held & SET != 0 => {
                if !self.sets[set_of(held)].insert(subscription) {
                    return false;
                }
            }
            held if held == subscription => return false,
            held => {
                let set = self.free_sets.pop().unwrap_or_else(|| {
                    self.sets.push(BTreeSet::new());
                    (self.sets.len() - 1) as u32
                });
                self.sets[set as usize].extend([held, subscription]);
                record.set_held(SET | u64::from(set));
            }
        }
        self.subscriptions += 1;
        true
    }

    /// Takes a subscription off a record. False: it does not have it.
    fn let_go(&mut self, number: u32, subscription: u64) -> bool {
        let record = self.records.at_mut(number);
        let held = record.held();
        if held == NOTHING {
            return false;
        }
        if held & SET == 0 {
            if held != subscription {
                return false;
            }
            record.set_held(NOTHING);
            self.filters -= 1;
        } else {
            let set = &mut self.sets[set_of(held)];
            if !set.remove(&subscription) {
                return false;
            }
            if set.len() == 1 {
                record.set_held(set.pop_first().expect("one is left"));
                self.free_sets.push(set_of(held) as u32);
            }
        }
        self.subscriptions -= 1;
        true
    }

    /// Removes a record that holds nothing and has no children, and so its parents.
    fn prune(&mut self, mut number: u32) {
        while number != ROOT {
            let record = *self.records.at(number);
            if record.held() != NOTHING || record.count() > 0 {
                return;
            }
            let level = record.level(&self.texts);
            let flag = wildcard_flag(level);
            let was_in = self.index.remove(hash(&self.key, record.parent, level), number);
            debug_assert!(was_in);
            self.texts.free(record.text, usize::from(record.text_bytes));
            self.records.free(number);
            self.removals += 1;
            if record.parent == EXACT {
                return;
            }
            let parent = self.records.at_mut(record.parent);
            parent.children = (parent.children - 1) & !flag;
            number = record.parent;
        }
    }
}

fn hash(key: &HashKey, parent: u32, level: &[u8]) -> u64 {
    key.of(&[&parent.to_le_bytes(), level])
}

fn set_of(held: u64) -> usize {
    (held & !SET) as usize
}

fn wildcard_flag(level: &[u8]) -> u32 {
    match level {
        b"+" => flag::PLUS,
        b"#" => flag::HASH,
        _ => 0,
    }
}

fn has_wildcard(filter: &str) -> bool {
    filter.bytes().any(|byte| matches!(byte, b'+' | b'#'))
}
