//! The pushes of one device: those on the way, and those still to be sent.
//!
//! ```text
//!  [ in flight | held back for a Pull | to be sent: High, in turn; Normal, in turn ]
//!    ◄── pump: the next one gets on its way   rewind: the connection ended, none is on the way ──►
//! ```
//! The queue orders items and adds up their weights; it decides no outcome. Whatever leaves it is
//! handed to the caller, who gives it one. Items that were sent at any time stand in front of those
//! that never were, so an acknowledgement looks no further than the last of them.

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

const _: () = assert!(size_of::<Item>() <= 24, "a place in a queue is 24 bytes");

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
    items: VecDeque<Item>,
    /// So many at the front are on the way.
    inflight: usize,
    /// So many behind them wait for a Pull.
    held: usize,
    all: Load,
    high: Load,
    /// No item expires before this Unix second.
    expiry: u32,
}

impl Default for Queue {
    fn default() -> Self {
        Queue {
            items: VecDeque::new(),
            inflight: 0,
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

    /// Items on the way: the first so many of all.
    pub fn inflight(&self) -> usize {
        self.inflight
    }

    /// All items.
    pub fn items(&self) -> impl Iterator<Item = &Item> + Clone {
        self.items.iter()
    }

    /// The item with this push.
    pub fn find(&mut self, id: MessageId) -> Option<&mut Item> {
        self.items.iter_mut().find(|item| item.push.id == id)
    }

    /// The item that `push` replaces by its collapse key.
    pub fn collapsing(&self, push: &Push) -> Option<&Item> {
        let key = push.collapse.as_deref()?;
        self.items.iter().find(|item| item.push.collapse.as_deref() == Some(key))
    }

    /// Whether `push` may come in: what is not more important gives way, and `without` goes.
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

    /// Takes out what has to give way before `push` fits: the oldest Normal one not on the way,
    /// else the oldest Normal one, else the oldest. `None` once it fits.
    pub fn victim(&mut self, room: Room, push: &Push) -> Option<Item> {
        let bytes = self.all.bytes + push.weight();
        if self.is_empty() || (self.all.count < room.count_max && bytes <= room.bytes_max) {
            return None;
        }
        let normal = |item: &Item| item.push.priority == Priority::Normal;
        let waiting = self.items.iter().skip(self.inflight).position(normal);
        let waiting = waiting.map(|at| at + self.inflight);
        let at = waiting.or_else(|| self.items.iter().position(normal));
        self.take(at.unwrap_or(if self.inflight < self.items.len() { self.inflight } else { 0 }))
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
            self.items.push_back(item);
            return;
        }
        self.high.count += 1;
        self.high.bytes += weight;
        let later = |other: &Item| other.times == 0 && other.push.priority == Priority::Normal;
        let from = self.inflight + self.held;
        let at = self.items.iter().skip(from).position(later);
        self.items.insert(at.map_or(self.items.len(), |at| at + from), item);
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
        while self.inflight < usize::from(window) {
            let next = self.inflight + self.held;
            let Some(item) = self.items.get_mut(next) else { return };
            if item.push.expired(clock.1) {
                over.extend(self.take(next));
                continue;
            }
            send(item);
            item.sent(clock.0);
            self.shift(next, self.inflight);
            self.inflight += 1;
        }
    }

    /// Lets the first `count` items held back with ids above `after` be sent next. No more than
    /// the window has room for, so that they are on the way before anything else comes in.
    pub fn unhold(&mut self, after: MessageId, count: usize) {
        let (mut at, mut moved) = (self.inflight, 0);
        while at < self.inflight + self.held && moved < count {
            if self.items[at].push.id <= after {
                at += 1;
                continue;
            }
            self.held -= 1;
            self.shift(at, self.inflight + self.held + moved);
            moved += 1;
        }
    }

    /// Items not on the way whose ids are above `after`.
    pub fn remaining(&self, after: MessageId) -> usize {
        self.items.iter().skip(self.inflight).filter(|item| item.push.id > after).count()
    }

    /// Takes out what is acknowledged: everything sent with an id up to `upto`, and `ids`, which
    /// are sorted.
    pub fn acknowledge(&mut self, upto: MessageId, ids: &[MessageId], into: &mut Vec<Item>) {
        let mut at = 0;
        while let Some(item) = self.items.get(at).filter(|item| item.times > 0) {
            let id = item.push.id;
            match id <= upto || ids.binary_search(&id).is_ok() {
                true => into.extend(self.take(at)),
                false => at += 1,
            }
        }
    }

    /// Takes out the item with this push.
    pub fn remove(&mut self, id: MessageId) -> Option<Item> {
        let at = self.items.iter().position(|item| item.push.id == id)?;
        self.take(at)
    }

    /// Looks at every item on the way; what `over` says yes to is taken out.
    pub fn sift_inflight(&mut self, into: &mut Vec<Item>, mut over: impl FnMut(&mut Item) -> bool) {
        let mut at = 0;
        while at < self.inflight {
            match over(&mut self.items[at]) {
                true => into.extend(self.take(at)),
                false => at += 1,
            }
        }
    }

    /// The connection is gone: what was on the way is to be sent again, first.
    pub fn rewind(&mut self) {
        (self.inflight, self.held) = (0, 0);
    }

    /// Everything not on the way waits for a Pull.
    pub fn hold(&mut self) {
        self.held = self.items.len() - self.inflight;
    }

    /// Takes out what is over at this Unix second.
    pub fn expire(&mut self, unix_s: u32, into: &mut Vec<Item>) {
        if self.expiry > unix_s {
            return;
        }
        let mut at = 0;
        while at < self.items.len() {
            match self.items[at].push.expired(unix_s) {
                true => into.extend(self.take(at)),
                false => at += 1,
            }
        }
        let stored = self.items.iter().filter(|item| item.push.stores());
        self.expiry = stored.map(|item| item.push.expire_at).min().unwrap_or(u32::MAX);
    }

    /// Takes out everything.
    pub fn drain(&mut self) -> VecDeque<Item> {
        std::mem::take(self).items
    }

    /// Panics when a sum or an order does not hold.
    pub fn audit(&self) {
        let all = self.items.iter().map(|item| item.push.weight());
        assert_eq!((self.items.len(), all.sum()), (self.all.count, self.all.bytes), "load");
        let high = self.items.iter().filter(|item| item.push.priority == Priority::High);
        let weight: usize = high.clone().map(|item| item.push.weight()).sum();
        assert_eq!((high.count(), weight), (self.high.count, self.high.bytes), "load of High");
        assert!(self.inflight + self.held <= self.items.len(), "parts of a whole");
        let sent = self.items.iter().take_while(|item| item.times > 0).count();
        assert!(self.inflight <= sent, "in flight means sent");
        assert!(self.items.iter().skip(sent).all(|item| item.times == 0), "sent ones in front");
        let mut ids: Vec<_> = self.items.iter().map(|item| item.push.id).collect();
        ids.sort_unstable();
        assert!(ids.windows(2).all(|pair| pair[0] != pair[1]), "a push is in a queue once");
    }

    fn take(&mut self, at: usize) -> Option<Item> {
        let item = self.items.remove(at)?;
        if at < self.inflight {
            self.inflight -= 1;
        } else if at < self.inflight + self.held {
            self.held -= 1;
        }
        let weight = item.push.weight();
        self.all.count -= 1;
        self.all.bytes -= weight;
        if item.push.priority == Priority::High {
            self.high.count -= 1;
            self.high.bytes -= weight;
        }
        Some(item)
    }

    fn shift(&mut self, from: usize, to: usize) {
        if from != to
            && let Some(item) = self.items.remove(from)
        {
            self.items.insert(to, item);
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
