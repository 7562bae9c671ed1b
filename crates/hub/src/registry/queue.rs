//! The queue of one device: pushes in flight, and those still to be sent.
//!
//! ```text
//!  [ in flight | held back for a Pull | to be sent: High, in turn; Normal, in turn ]
//!    ◄── pump: the next one gets on its way   rewind: the connection ended, none is on the way ──►
//! ```
//! The queue orders items and sums their weights; it decides no outcome. An item that leaves it is
//! handed to the caller, who ends it with an outcome. Items that were ever sent are in front of
//! those that never were, so an acknowledgement is compared with them only. An item without its
//! body stops the pump: no item behind it overtakes it.

use crate::registry::item::{Item, Kept};
use base::time::Instant;
use model::id::MessageId;
use model::push::{Priority, Push};
use model::timeline::Seq;
use std::collections::VecDeque;
use std::sync::Arc;

/// Bounds of a device's queue.
#[derive(Clone, Copy)]
pub(crate) struct QueueLimits {
    /// Most items.
    pub count_max: usize,
    /// Most bytes, as the sum of weights.
    pub bytes_max: usize,
}

#[derive(Clone, Copy, Default)]
struct Load {
    count: u32,
    bytes: usize,
}

/// Progress of a device with the pushes sent to it. A connection keeps the order, so everything
/// sent before an acknowledged push has arrived too.
#[derive(Clone, Copy)]
pub(crate) struct Progress {
    heard_ms: Millis,
    proven_ms: Millis,
}

impl Progress {
    /// Milliseconds that an item in flight has waited for its acknowledgement, counted from its
    /// sending. While it may still be on a slow link, behind others that the device acknowledges
    /// one by one, they count from the last acknowledgement.
    pub fn waited_ms(self, now: Instant, item: &Item) -> u32 {
        let waited_ms = item.age_ms(now);
        let came = self.proven_ms != 0 && later(self.proven_ms, item.sent_ms());
        match self.heard_ms {
            0 => waited_ms,
            _ if came => waited_ms,
            heard_ms => waited_ms.min((now.millis() as Millis).wrapping_sub(heard_ms)),
        }
    }
}

/// Whether `one` is later than `other`, for times within some weeks.
fn later(one: Millis, other: Millis) -> bool {
    one != other && one.wrapping_sub(other) < Millis::MAX / 2
}

/// The pushes of one device, with their order and totals.
pub(crate) struct Queue {
    items: VecDeque<Item>,
    /// Number of items in flight; they are at the front.
    inflight: u32,
    /// Number of items behind those that wait for a Pull, or cannot be read.
    held: u32,
    /// Weight of all items.
    bytes: usize,
    high: Load,
    /// No item expires before this Unix second.
    expiry: u32,
    /// When the device last acknowledged a push; zero: not yet.
    heard_ms: Millis,
    /// When the latest push was sent that is known to have arrived; zero: none.
    proven_ms: Millis,
    /// The last sent item that left the queue, and the item sent before it that is still here: an
    /// acknowledgement of the first covers the second. Zeros: none.
    left: (MessageId, MessageId),
}

/// A moment of the monotonic clock, milliseconds, the low 32 bits.
type Millis = u32;

impl Default for Queue {
    fn default() -> Self {
        Queue {
            items: VecDeque::new(),
            inflight: 0,
            held: 0,
            bytes: 0,
            high: Load::default(),
            expiry: u32::MAX,
            heard_ms: 0,
            proven_ms: 0,
            left: (MessageId(0), MessageId(0)),
        }
    }
}

impl Queue {
    /// Number of items.
    pub fn count(&self) -> usize {
        self.items.len()
    }

    /// Weight of all items, bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Number of items in flight; they are at the front.
    pub fn inflight(&self) -> usize {
        self.inflight as usize
    }

    /// All items.
    pub fn items(&self) -> impl Iterator<Item = &Item> + Clone {
        self.items.iter()
    }

    /// The item of this push.
    pub fn find(&mut self, id: MessageId) -> Option<&mut Item> {
        self.items.iter_mut().find(|item| item.id == id)
    }

    /// The latest item with the collapse key of `push`: the later order of the two replaces the
    /// other.
    pub fn collapsing(&self, push: &Push) -> Option<&Item> {
        let key = push.collapse.as_deref()?;
        self.items.iter().filter(|item| item.collapse() == Some(key)).max_by_key(|item| item.id)
    }

    /// The first item with this collapse key. There are two only while the log is being asked to
    /// store the newer one.
    pub fn alike(&self, key: &str) -> Option<&Item> {
        self.items.iter().find(|item| item.collapse() == Some(key))
    }

    /// Takes out the items that `push` replaces: earlier orders under its collapse key. With
    /// `keeps`, stored ones stay until the log has stored `push`.
    pub fn collapse(&mut self, push: &Push, keeps: bool, into: &mut Vec<Item>) {
        let Some(key) = push.collapse.as_deref() else { return };
        let goes = |item: &Item| {
            let stays = keeps && matches!(item.kept(), Kept::At(_));
            item.collapse() == Some(key) && item.id < push.id && !stays
        };
        while let Some(at) = self.items.iter().position(goes) {
            into.extend(self.take(at));
        }
    }

    /// Whether `push` may enter after items of no higher priority were evicted, and `without`
    /// removed.
    pub fn admits(&self, room: QueueLimits, push: &Push, without: Option<&Item>) -> bool {
        let stays = match push.priority {
            Priority::High => Load::default(),
            Priority::Normal => self.high,
        };
        let gone = without.filter(|item| item.high());
        let gone = gone.filter(|_| push.priority == Priority::Normal);
        let count = stays.count - gone.map_or(0, |_| 1);
        let bytes = stays.bytes - gone.map_or(0, |item| item.weight());
        (count as usize) < room.count_max && bytes + push.weight() <= room.bytes_max
    }

    /// Takes out an item that must give way before `push` fits: the oldest Normal one not in
    /// flight, else the oldest Normal one, else the oldest. `None` once it fits. A stored item that
    /// `push` replaces does not count.
    pub fn victim(&mut self, room: QueueLimits, push: &Push) -> Option<Item> {
        let alike = self.collapsing(push).map(|item| (item.id, item.weight()));
        let (count, weight) = alike.map_or((0, 0), |(_, weight)| (1, weight));
        let bytes = self.bytes - weight + push.weight();
        if self.count() - count < room.count_max && bytes <= room.bytes_max {
            return None;
        }
        let stays = |item: &Item| alike.is_some_and(|(id, _)| item.id == id);
        let normal = |item: &Item| !item.high() && !stays(item);
        let first = self.inflight();
        let waiting = self.items.iter().skip(first);
        let mut waiting = waiting.enumerate().map(|(at, item)| (at + first, item));
        let at = waiting.clone().find(|(_, item)| normal(item)).map(|(at, _)| at);
        let at = at.or_else(|| self.items.iter().position(normal));
        let at = at.or_else(|| waiting.find(|(_, item)| !stays(item)).map(|(at, _)| at));
        let at = at.or_else(|| self.items.iter().position(|item| !stays(item)))?;
        self.take(at)
    }

    /// Inserts an item at its place among those still to be sent.
    pub fn insert(&mut self, item: Item) {
        let weight = item.weight();
        self.bytes += weight;
        if item.stores() {
            self.expiry = self.expiry.min(item.expire_at());
        }
        if !item.high() {
            self.items.push_back(item);
            return;
        }
        self.high.count += 1;
        self.high.bytes += weight;
        let later = |other: &Item| other.times == 0 && !other.high();
        let from = self.head();
        let at = self.items.iter().skip(from).position(later);
        self.items.insert(at.map_or(self.items.len(), |at| at + from), item);
    }

    /// Sends items as far as the window has room, up to one without its body. Calls `send` with
    /// each item before counting it as sent once more; expired items go to `over`.
    pub fn pump(
        &mut self,
        window: u16,
        clock: (Instant, u32),
        over: &mut Vec<Item>,
        mut send: impl FnMut(&Item, &Arc<Push>),
    ) {
        while self.inflight < u32::from(window) {
            let next = self.head();
            let Some(item) = self.items.get_mut(next) else { return };
            if item.expired(clock.1) {
                over.extend(self.take(next));
                continue;
            }
            let Some(push) = item.push() else { return };
            send(item, push);
            item.sent(clock.0);
            item.set_in_order(true);
            self.shift(next, self.inflight());
            self.inflight += 1;
        }
    }

    /// Offset of the body that must be fetched before the pump can go on, if the window has room,
    /// and how many of the following items have bodies behind it in the log, itself included.
    pub fn missing(&self, window: u16, count_max: usize) -> Option<(Seq, usize)> {
        if self.inflight >= u32::from(window) {
            return None;
        }
        let away = self.items.iter().skip(self.head()).map_while(|item| match item.kept() {
            Kept::At(seq) if item.push().is_none() => Some(seq),
            _ => None,
        });
        let mut away = away.take(count_max).peekable();
        let (first, mut last, mut count) = (*away.peek()?, 0, 0);
        for seq in away {
            if seq < last {
                break;
            }
            (last, count) = (seq, count + 1);
        }
        Some((first, count))
    }

    /// Number of unsent items that do not wait for a Pull.
    pub fn to_send(&self) -> usize {
        self.items.len() - self.head()
    }

    /// The item without body at this offset in the log. The search starts where the last one was
    /// found (`hint`), because pages come in order.
    pub fn away_at(&mut self, seq: Seq, hint: &mut usize) -> Option<&mut Item> {
        let here = |item: &Item| item.kept() == Kept::At(seq) && item.push().is_none();
        let from = (*hint).min(self.items.len());
        let at = self.items.iter().skip(from).position(here).map(|at| at + from);
        let at = at.or_else(|| self.items.iter().take(from).position(here))?;
        *hint = at + 1;
        self.items.get_mut(at)
    }

    /// Index of the next item to be sent.
    pub fn head(&self) -> usize {
        (self.inflight + self.held) as usize
    }

    /// Skips the next item to be sent, until the session ends.
    pub fn set_head_aside(&mut self) {
        let head = self.head();
        if let Some(item) = self.items.get_mut(head) {
            item.set_aside(true);
            item.set_in_order(false);
            self.held += 1;
        }
    }

    /// A test whether an item comes after this push in the device's timeline, which has the order
    /// of arrival. True for every item if the push is no longer here, or not stored.
    fn comes_after(&self, id: MessageId) -> impl Fn(&Item) -> bool + use<> {
        let place = self.items.iter().find(|item| item.id == id).map(Item::kept);
        move |item| match (place, item.kept()) {
            (Some(Kept::At(after)), Kept::At(seq)) => seq > after,
            _ => true,
        }
    }

    /// Releases the first `count` held items that came after `after`, to be sent next; items that
    /// were sent before stay in front. The caller limits `count` to the room in the window.
    pub fn unhold(&mut self, after: MessageId, count: usize) {
        let (mut at, mut sent, mut new) = (self.inflight(), 0, 0);
        let (behind, comes_after) = (self.items.len() - self.head(), self.comes_after(after));
        let waiting = self.items.iter().skip(self.head());
        let sent_before = waiting.take_while(|item| item.times > 0).count();
        while at < self.head() && sent + new < count {
            if self.items[at].aside() || !comes_after(&self.items[at]) {
                at += 1;
                continue;
            }
            self.held -= 1;
            if self.items[at].times > 0 {
                self.shift(at, self.head() + sent);
                sent += 1;
            } else {
                self.shift(at, self.head() + sent + sent_before + new);
                new += 1;
            }
        }
        debug_assert_eq!(self.items.len() - self.head(), behind + sent + new);
    }

    /// Number of items not in flight that came after `after` and can be sent.
    pub fn remaining(&self, after: MessageId) -> usize {
        let (waiting, comes_after) =
            (self.items.iter().skip(self.inflight()), self.comes_after(after));
        waiting.filter(|item| !item.aside() && comes_after(item)).count()
    }

    /// Takes out acknowledged items: `upto` and everything sent before it, and `ids`, which are
    /// sorted. Ids are not compared in order: they say nothing about the order of sending.
    pub fn acknowledge(
        &mut self,
        now: Instant,
        upto: Option<MessageId>,
        ids: &[MessageId],
        into: &mut Vec<Item>,
    ) {
        // A push that left the queue, because it expired or another replaced it, may have arrived
        // all the same, and then everything sent before it too.
        let upto = if upto == Some(self.left.0) { Some(self.left.1) } else { upto };
        let last = |item: &Item| upto == Some(item.id) && item.in_order();
        let ever_sent = |(at, item): &(usize, &Item)| item.times > 0 || *at < self.head();
        let mut sent = self.items.iter().enumerate().take_while(ever_sent);
        let mut covered = sent.find(|(_, item)| last(item)).map_or(0, |(at, _)| at + 1);
        let mut at = 0;
        while let Some(item) = self.items.get(at) {
            if item.times == 0 && at >= self.head() {
                return;
            }
            let is_covered = at < covered && item.in_order();
            if item.times == 0 || !(is_covered || ids.binary_search(&item.id).is_ok()) {
                at += 1;
                continue;
            }
            covered = covered.saturating_sub(1);
            self.heard_ms = (now.millis() as Millis).max(1);
            // If a push was sent more than once, it is unknown which copy was acknowledged.
            let sent_ms = (item.times == 1).then(|| item.sent_ms());
            let is_news = |sent_ms: Millis| self.proven_ms == 0 || later(sent_ms, self.proven_ms);
            if let Some(sent_ms) = sent_ms.filter(|&sent_ms| is_news(sent_ms)) {
                self.proven_ms = sent_ms.max(1);
            }
            into.extend(self.take(at));
        }
    }

    /// The device's progress with the pushes sent to it.
    pub fn progress(&self) -> Progress {
        Progress { heard_ms: self.heard_ms, proven_ms: self.proven_ms }
    }

    /// Takes out the item of this push.
    pub fn remove(&mut self, id: MessageId) -> Option<Item> {
        let at = self.items.iter().position(|item| item.id == id)?;
        self.take(at)
    }

    /// Visits every item in flight; takes out those for which `over` returns true.
    pub fn sift_inflight(&mut self, into: &mut Vec<Item>, mut over: impl FnMut(&mut Item) -> bool) {
        let mut at = 0;
        while at < self.inflight() {
            match over(&mut self.items[at]) {
                true => into.extend(self.take(at)),
                false => at += 1,
            }
        }
    }

    /// Returns all items in flight to the front of those to be sent, as the connection ended.
    pub fn rewind(&mut self) {
        (self.inflight, self.held) = (0, 0);
        self.items.iter_mut().for_each(|item| item.set_aside(false));
        let turn = |item: &Item| (item.times == 0, item.times == 0 && !item.high());
        if !self.items.iter().is_sorted_by_key(turn) {
            self.items.make_contiguous().sort_by_key(turn);
        }
    }

    /// Holds all items that are not in flight until a Pull.
    pub fn hold(&mut self) {
        self.held = self.items.len() as u32 - self.inflight;
        // From now on the device chooses the order of sending.
        self.items.iter_mut().skip(self.inflight as usize).for_each(|it| it.set_in_order(false));
    }

    /// Holds the items to be sent that have no body here until another Pull, in their order.
    pub fn hold_away(&mut self) {
        let to_send = self.items.drain(self.head()..).collect::<Vec<_>>();
        let (here, away): (Vec<_>, Vec<_>) =
            to_send.into_iter().partition(|item| item.push().is_some());
        let mut held: Vec<_> = self.items.drain(self.inflight as usize..).chain(away).collect();
        // In the order of the timeline, which a Pull follows; unstored items come last.
        let place = |item: &Item| match item.kept() {
            Kept::At(seq) => seq,
            _ => Seq::MAX,
        };
        held.sort_by_key(|item| (item.times == 0, !item.high(), place(item), item.id));
        held.iter_mut().for_each(|item| item.set_in_order(false));
        self.held = held.len() as u32;
        self.items.extend(held.into_iter().chain(here));
    }

    /// Drops the bodies of stored items from memory, as the device is away.
    pub fn shed(&mut self) {
        self.items.iter_mut().for_each(Item::shed);
    }

    /// Takes out the items that have expired at this Unix second.
    pub fn expire(&mut self, unix_s: u32, into: &mut Vec<Item>) {
        if self.expiry > unix_s {
            return;
        }
        let mut at = 0;
        while at < self.items.len() {
            match self.items[at].expired(unix_s) {
                true => into.extend(self.take(at)),
                false => at += 1,
            }
        }
        let stored = self.items.iter().filter(|item| item.stores());
        self.expiry = stored.map(|item| item.expire_at()).min().unwrap_or(u32::MAX);
    }

    /// Takes out all items.
    pub fn drain(&mut self) -> VecDeque<Item> {
        std::mem::take(self).items
    }

    /// Panics when a total or the order is wrong.
    pub fn audit(&self) {
        let all = self.items.iter().map(|item| item.weight());
        assert_eq!(all.sum::<usize>(), self.bytes, "load");
        let high = self.items.iter().filter(|item| item.high());
        let weight: usize = high.clone().map(|item| item.weight()).sum();
        let load = (self.high.count as usize, self.high.bytes);
        assert_eq!((high.count(), weight), load, "load of High");
        assert!(self.head() <= self.items.len(), "parts of a whole");
        let sent = self.items.iter().take_while(|item| item.times > 0).count();
        assert!(self.inflight() <= sent, "in flight means sent");
        let behind = self.items.iter().skip(sent).all(|item| item.times == 0);
        assert!(behind || self.held > 0, "sent ones in front");
        let away = self.items.iter().filter(|item| item.push().is_none());
        assert!(away.clone().all(|item| matches!(item.kept(), Kept::At(_))), "a body is somewhere");
        assert!(away.count() <= self.items.len() - self.inflight(), "in flight means here");
        let mut ids: Vec<_> = self.items.iter().map(|item| item.id).collect();
        ids.sort_unstable();
        assert!(ids.windows(2).all(|pair| pair[0] != pair[1]), "a push is in a queue once");
    }

    fn take(&mut self, at: usize) -> Option<Item> {
        let item = self.items.remove(at)?;
        self.note_left(at, &item);
        if at < self.inflight() {
            self.inflight -= 1;
        } else if at < self.head() {
            self.held -= 1;
        }
        let weight = item.weight();
        self.bytes -= weight;
        if item.high() {
            self.high.count -= 1;
            self.high.bytes -= weight;
        }
        Some(item)
    }

    /// Remembers an item that left from this index, if its acknowledgement covers another.
    fn note_left(&mut self, at: usize, item: &Item) {
        if item.times == 0 || !item.in_order() {
            return;
        }
        let before = self.items.iter().take(at).rev().find(|it| it.times > 0 && it.in_order());
        let before = before.map_or(MessageId(0), |it| it.id);
        if self.left.1 == item.id {
            self.left.1 = before;
            return;
        }
        let known = self.items.iter().position(|it| it.id == self.left.1);
        // The later of two items covers more.
        if known.is_none_or(|known| known < at) {
            self.left = (item.id, before);
        }
    }

    fn shift(&mut self, from: usize, to: usize) {
        if from != to
            && let Some(item) = self.items.remove(from)
        {
            self.items.insert(to, item);
        }
    }
}
