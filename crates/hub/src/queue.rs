//! The pushes of one device: those on the way, and those still to be sent.
//!
//! ```text
//!  unsent: [ held back for a Pull | sent before | High, in turn | Normal, in turn ] ──► in flight
//!              ▲ a Bind of a device that pulls     ▲ rewind: the connection ended
//! ```
//! The queue moves items and adds up their weights; it decides no outcome. Whatever leaves it is
//! handed to the caller, who gives it one. Items sent before stand in front of those that were
//! never sent, so an acknowledgement looks no further than the last of them.

use base::time::Instant;
use model::id::MessageId;
use model::push::{Priority, Push};
use std::collections::VecDeque;
use std::sync::Arc;

/// What the store knows of an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kept {
    /// Nothing.
    No,
    /// It was asked to keep it and has not answered.
    Asked,
    /// It keeps it.
    Yes,
}

/// One push waiting for one device.
#[derive(Debug)]
pub(crate) struct Item {
    /// The push.
    pub push: Arc<Push>,
    /// When it was sent last.
    pub sent: Instant,
    /// How often it was sent.
    pub times: u8,
    /// What the store knows of it.
    pub kept: Kept,
    /// Somebody waits for its outcome (`waits`).
    pub answers: bool,
    /// A fan-out counts it (`jobs`).
    pub counted: bool,
    /// Its end is told as an event.
    pub receipts: bool,
}

/// Bounds of a device's queue.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    /// Items.
    pub count_max: usize,
    /// Their weight, bytes.
    pub bytes_max: usize,
}

#[derive(Clone, Copy, Default)]
struct Load {
    count: usize,
    bytes: usize,
}

/// The pushes of one device.
pub(crate) struct Queue {
    inflight: Vec<Item>,
    unsent: VecDeque<Item>,
    /// So many at the front of `unsent` wait for a Pull.
    held: usize,
    all: Load,
    high: Load,
    /// No item expires before this Unix second.
    expiry: u32,
}

impl Default for Queue {
    fn default() -> Self {
        Queue {
            inflight: Vec::new(),
            unsent: VecDeque::new(),
            held: 0,
            all: Load::default(),
            high: Load::default(),
            expiry: u32::MAX,
        }
    }
}

impl Queue {
    /// Items.
    pub fn count(&self) -> usize {
        self.all.count
    }

    /// Their weight, bytes.
    pub fn bytes(&self) -> usize {
        self.all.bytes
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.count == 0
    }

    /// Items on the way.
    pub fn inflight(&self) -> usize {
        self.inflight.len()
    }

    /// All items.
    pub fn items(&self) -> impl Iterator<Item = &Item> + Clone {
        self.inflight.iter().chain(&self.unsent)
    }

    /// The item with this push.
    pub fn find(&mut self, id: MessageId) -> Option<&mut Item> {
        let mut items = self.inflight.iter_mut().chain(&mut self.unsent);
        items.find(|item| item.push.id == id)
    }

    /// The item that `push` replaces by its collapse key.
    pub fn collapsing(&self, push: &Push) -> Option<&Item> {
        let key = push.collapse.as_deref()?;
        self.items().find(|item| item.push.collapse.as_deref() == Some(key))
    }

    /// Whether `push` may come in: what is less important than it gives way, and `without` goes.
    pub fn admits(&self, room: Room, push: &Push, without: Option<&Item>) -> bool {
        let stays = match push.priority {
            Priority::High => Load::default(),
            Priority::Normal => self.high,
        };
        let gone = without.filter(|item| item.push.priority == Priority::High);
        let gone = gone.filter(|_| push.priority == Priority::Normal);
        let count = stays.count - gone.map_or(0, |_| 1);
        let bytes = stays.bytes - gone.map_or(0, |item| item.push.weight());
        count < room.count_max && bytes + push.weight() <= room.bytes_max
    }

    /// Takes out what has to give way before `push` fits: the oldest Normal one, else the oldest.
    /// `None` once it fits.
    pub fn victim(&mut self, room: Room, push: &Push) -> Option<Item> {
        let fits =
            self.all.count < room.count_max && self.all.bytes + push.weight() <= room.bytes_max;
        if fits || self.is_empty() {
            return None;
        }
        let normal = |item: &Item| item.push.priority == Priority::Normal;
        if let Some(at) = self.unsent.iter().position(normal) {
            return self.remove_unsent(at);
        }
        if let Some(at) = self.inflight.iter().position(normal) {
            return self.remove_inflight(at);
        }
        match self.unsent.is_empty() {
            true => self.remove_inflight(0),
            false => self.remove_unsent(0),
        }
    }

    /// Puts an item in its place among those still to be sent.
    pub fn insert(&mut self, item: Item) {
        let weight = item.push.weight();
        self.all.count += 1;
        self.all.bytes += weight;
        if item.push.stores() {
            self.expiry = self.expiry.min(item.push.expire_at);
        }
        if item.push.priority == Priority::Normal {
            self.unsent.push_back(item);
            return;
        }
        self.high.count += 1;
        self.high.bytes += weight;
        let later = |other: &Item| other.times == 0 && other.push.priority == Priority::Normal;
        let at = self.unsent.iter().skip(self.held).position(later);
        self.unsent.insert(at.map_or(self.unsent.len(), |at| at + self.held), item);
    }

    /// Sends what the window has room for. `send` is told each item before it counts as sent once
    /// more; what has expired goes to `over`.
    pub fn pump(
        &mut self,
        window: u16,
        clock: (Instant, u32),
        over: &mut Vec<Item>,
        mut send: impl FnMut(&Item),
    ) {
        while self.inflight.len() < usize::from(window) && self.held < self.unsent.len() {
            let Some(mut item) = self.unsent.remove(self.held) else { return };
            if item.push.expired(clock.1) {
                self.unload(&item);
                over.push(item);
                continue;
            }
            send(&item);
            item.sent(clock.0);
            self.inflight.push(item);
        }
    }

    /// Lets the first `count` items with ids above `after` go to the front of those to be sent
    /// next, ahead of the ones held back.
    pub fn unhold(&mut self, after: MessageId, count: usize) {
        let (mut at, mut moved) = (0, 0);
        while at < self.held && moved < count {
            if self.unsent[at].push.id <= after {
                at += 1;
                continue;
            }
            let item = self.unsent.remove(at).expect("an index below the length");
            self.held -= 1;
            self.unsent.insert(self.held + moved, item);
            moved += 1;
        }
    }

    /// Items not on the way whose ids are above `after`.
    pub fn remaining(&self, after: MessageId) -> usize {
        self.unsent.iter().filter(|item| item.push.id > after).count()
    }

    /// Takes out what is acknowledged: everything sent with an id up to `upto`, and `ids`, which
    /// are sorted.
    pub fn acknowledge(&mut self, upto: MessageId, ids: &[MessageId], into: &mut Vec<Item>) {
        let has = |item: &Item| item.push.id <= upto || ids.binary_search(&item.push.id).is_ok();
        let mut at = 0;
        while at < self.inflight.len() {
            match has(&self.inflight[at]) {
                true => into.extend(self.remove_inflight(at)),
                false => at += 1,
            }
        }
        at = 0;
        while self.unsent.get(at).is_some_and(|item| item.times > 0) {
            match has(&self.unsent[at]) {
                true => into.extend(self.remove_unsent(at)),
                false => at += 1,
            }
        }
    }

    /// Takes out the item with this push.
    pub fn remove(&mut self, id: MessageId) -> Option<Item> {
        if let Some(at) = self.inflight.iter().position(|item| item.push.id == id) {
            return self.remove_inflight(at);
        }
        let at = self.unsent.iter().position(|item| item.push.id == id)?;
        self.remove_unsent(at)
    }

    /// Looks at every item on the way; what `over` says yes to is taken out.
    pub fn sift_inflight(&mut self, into: &mut Vec<Item>, mut over: impl FnMut(&mut Item) -> bool) {
        let mut at = 0;
        while at < self.inflight.len() {
            match over(&mut self.inflight[at]) {
                true => into.extend(self.remove_inflight(at)),
                false => at += 1,
            }
        }
    }

    /// The connection is gone: what was on the way is to be sent again, first.
    pub fn rewind(&mut self) {
        for item in self.inflight.drain(..).rev() {
            self.unsent.push_front(item);
        }
        self.inflight = Vec::new();
        self.held = 0;
    }

    /// Everything not on the way waits for a Pull.
    pub fn hold(&mut self) {
        self.held = self.unsent.len();
    }

    /// Takes out what is over at this Unix second.
    pub fn expire(&mut self, unix_s: u32, into: &mut Vec<Item>) {
        if self.expiry > unix_s {
            return;
        }
        self.sift_inflight(into, |item| item.push.expired(unix_s));
        let mut at = 0;
        while at < self.unsent.len() {
            match self.unsent[at].push.expired(unix_s) {
                true => into.extend(self.remove_unsent(at)),
                false => at += 1,
            }
        }
        let stored = self.items().filter(|item| item.push.stores());
        self.expiry = stored.map(|item| item.push.expire_at).min().unwrap_or(u32::MAX);
    }

    /// Takes out everything.
    pub fn drain(&mut self) -> Vec<Item> {
        let mut queue = std::mem::take(self);
        queue.inflight.drain(..).chain(queue.unsent.drain(..)).collect()
    }

    /// Panics when a sum or an order does not hold.
    pub fn audit(&self) {
        let all = self.items().map(|item| item.push.weight());
        assert_eq!((all.clone().count(), all.sum()), (self.all.count, self.all.bytes), "load");
        let high = self.items().filter(|item| item.push.priority == Priority::High);
        let weight: usize = high.clone().map(|item| item.push.weight()).sum();
        assert_eq!((high.count(), weight), (self.high.count, self.high.bytes), "load of High");
        assert!(self.held <= self.unsent.len(), "held items are unsent ones");
        assert!(self.inflight.iter().all(|item| item.times > 0), "in flight means sent");
        let fresh = self.unsent.iter().skip_while(|item| item.times > 0);
        assert!(fresh.clone().all(|item| item.times == 0), "sent before stands in front");
        let mut ids: Vec<_> = self.items().map(|item| item.push.id).collect();
        ids.sort_unstable();
        assert!(ids.windows(2).all(|pair| pair[0] != pair[1]), "a push is in a queue once");
    }

    fn remove_inflight(&mut self, at: usize) -> Option<Item> {
        let item = self.inflight.remove(at);
        self.unload(&item);
        Some(item)
    }

    fn remove_unsent(&mut self, at: usize) -> Option<Item> {
        let item = self.unsent.remove(at)?;
        self.held -= usize::from(at < self.held);
        self.unload(&item);
        Some(item)
    }

    fn unload(&mut self, item: &Item) {
        let weight = item.push.weight();
        self.all.count -= 1;
        self.all.bytes -= weight;
        if item.push.priority == Priority::High {
            self.high.count -= 1;
            self.high.bytes -= weight;
        }
    }
}

impl Item {
    /// It was sent, once more.
    pub fn sent(&mut self, at: Instant) {
        self.times = self.times.saturating_add(1);
        self.sent = at;
    }
}
