//! The retained messages of a shard: the last message of every topic that is at home here.
//!
//! Found by topic in a hash index, and walked in the order of topics, level by level, page by page
//! (MQTT5 3.3.1.3). A page seeks: topics that a filter cannot match are jumped over, not looked
//! at. Nothing is known here of who asks, of rows beyond their form, or of the clock.
//!
//! The invariant: index, order and slots hold the same topics, and `bytes` is the sum of their
//! weights. Above a message's own record and text, a topic costs 21 bytes: 8 in its slot, 5 in the
//! order, about 8 in the index.

mod order;
pub mod row;
mod rows;
mod slots;
mod step;

#[cfg(test)]
mod tests;

use base::hash::HashKey;
use base::index::Index;
use model::topic::Publication;
use order::Order;
use slots::Slots;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use step::{Filter, Step};

pub use row::{decode, encode, row_home, row_key};
pub(crate) use rows::RetainedRows;

/// The retained messages of one shard.
pub struct Retained {
    key: HashKey,
    count_max: u32,
    bytes_max: u64,
    slots: Slots,
    index: Index,
    order: Order,
    /// When what expires and in which slot; what was replaced since is passed over.
    expiries: BinaryHeap<Reverse<(u32, u32)>>,
    bytes: u64,
    /// Number and bytes of the server's own messages among them, which no limit bounds.
    own: (usize, u64),
}

/// Whether a topic is one where the server itself says something. Clients publish nothing there.
pub fn is_own(topic: &str) -> bool {
    topic.starts_with("$SYS") && !is_state_of_bridge(topic)
}

/// Whether it is where a bridge of another broker says, as mosquitto's do, whether it is there.
fn is_state_of_bridge(topic: &str) -> bool {
    let rest = topic.strip_prefix("$SYS/broker/connection/");
    let name = rest.and_then(|rest| rest.strip_suffix("/state"));
    name.is_some_and(|name| !name.is_empty() && !name.contains('/'))
}

/// The count or the bytes of retained messages reached their limit; the message was not kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RetainedFull;

/// Limits of a page of retained messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Most {
    /// Messages.
    pub count: usize,
    /// Bytes of their payloads, topics and records together; one message is always given.
    pub bytes: usize,
}

/// A part of a replay.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReplayPage {
    /// In the order of their topics.
    pub messages: Vec<Arc<Publication>>,
    /// Where to go on; `None`: that was the end. There may be no messages and yet more to come:
    /// how many topics a page passes over is limited too.
    pub next: Option<Box<str>>,
    /// Topics that were looked at.
    pub looks: usize,
}

/// Topics that a page may look at in vain, besides four for each message it may hold.
const LOOKS_MAX: usize = 1_024;

impl Retained {
    /// An empty store for at most this many messages and bytes; topics are hashed with `key`.
    pub fn new(key: HashKey, count_max: u32, bytes_max: u64) -> Retained {
        Retained {
            key,
            count_max,
            bytes_max,
            slots: Slots::default(),
            index: Index::default(),
            order: Order::default(),
            expiries: BinaryHeap::new(),
            bytes: 0,
            own: (0, 0),
        }
    }

    /// Sets the most messages, and the most bytes. Messages that are retained already stay.
    pub fn set_max(&mut self, count_max: u32, bytes_max: u64) {
        (self.count_max, self.bytes_max) = (count_max, bytes_max);
    }

    /// Number of retained messages, including expired ones that were not swept yet.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Their bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Messages that are not the server's own, and their bytes.
    pub fn of_users(&self) -> (usize, u64) {
        (self.len() - self.own.0, self.bytes - self.own.1)
    }

    /// Keeps a message as the last one of its topic, and gives back the one it replaces.
    pub fn set(
        &mut self,
        message: Arc<Publication>,
    ) -> Result<Option<Arc<Publication>>, RetainedFull> {
        let weight = message.weight() as u64;
        let expire_at = message.expire_at;
        let found = self.find(message.topic());
        let freed = found.map_or(0, |slot| self.slots.at(slot).weight() as u64);
        let is_own = is_own(message.topic());
        let (count, bytes) = (self.len() - self.own.0, self.bytes - self.own.1);
        let is_full = bytes - freed.min(bytes) + weight > self.bytes_max
            || found.is_none() && count >= self.count_max as usize;
        if is_full && !is_own {
            return Err(RetainedFull);
        }
        let (slot, replaced) = match found {
            Some(slot) => (slot, Some(self.slots.replace(slot, message))),
            None => (self.add(message), None),
        };
        self.bytes = self.bytes - freed + weight;
        if is_own {
            self.own.0 += usize::from(replaced.is_none());
            self.own.1 = self.own.1 - freed + weight;
        }
        if expire_at != 0 {
            self.note_expiry(expire_at, slot);
        }
        Ok(replaced)
    }

    /// Forgets the message of a topic.
    pub fn clear(&mut self, topic: &str) -> Option<Arc<Publication>> {
        let slot = self.find(topic)?;
        Some(self.take(slot))
    }

    /// The message of a topic. Its time may be over.
    pub fn get(&self, topic: &str) -> Option<&Arc<Publication>> {
        self.find(topic).map(|slot| self.slots.at(slot))
    }

    /// The messages whose topics match a valid filter, in the order of topics, after the topic
    /// `after`, without expired ones.
    pub fn page(&self, unix_s: u32, filter: &str, after: Option<&str>, most: Most) -> ReplayPage {
        let filter = Filter::new(filter);
        let mut page = ReplayPage::default();
        let mut looks = LOOKS_MAX.saturating_add(most.count.saturating_mul(4));
        let (mut bytes, mut last) = (0usize, after);
        let topic_of = |slot| self.slots.at(slot).topic();
        let mut at = self.order.seek(&filter.first(after), topic_of);
        while let Some(slot) = self.order.at(at) {
            let message = self.slots.at(slot);
            let topic = message.topic();
            looks -= 1;
            page.looks += 1;
            at = match filter.step(topic) {
                Step::End => return page,
                Step::Seek(bound) => self.order.seek_from(at, &bound, topic_of),
                Step::Match if message.expired(unix_s) => self.order.next(at),
                Step::Match => {
                    bytes = bytes.saturating_add(message.weight());
                    let has_room = page.messages.len() < most.count && bytes <= most.bytes;
                    if !has_room && !page.messages.is_empty() {
                        page.next = last.map(Box::from);
                        return page;
                    }
                    page.messages.push(message.clone());
                    self.order.next(at)
                }
            };
            last = Some(topic);
            if looks == 0 {
                page.next = last.map(Box::from);
                return page;
            }
        }
        page
    }

    /// When the next message expires, Unix seconds; it may be too early, never too late.
    pub fn next_expiry(&self) -> Option<u32> {
        self.expiries.peek().map(|Reverse((expire_at, _))| *expire_at)
    }

    /// Removes expired messages, visiting at most `most`. True if there are more.
    pub fn expire(&mut self, unix_s: u32, most: usize, gone: &mut Vec<Arc<Publication>>) -> bool {
        for _ in 0..most {
            match self.next_expiry() {
                Some(expire_at) if expire_at <= unix_s => {}
                _ => return false,
            }
            let Reverse((expire_at, slot)) = self.expiries.pop().expect("there is a next one");
            if self.slots.find(slot).is_some_and(|message| message.expire_at == expire_at) {
                gone.push(self.take(slot));
            }
        }
        self.next_expiry().is_some_and(|expire_at| expire_at <= unix_s)
    }

    fn find(&self, topic: &str) -> Option<u32> {
        let hash = self.key.of(&[topic.as_bytes()]);
        self.index.find(hash, |slot| self.slots.at(slot).topic() == topic)
    }

    fn add(&mut self, message: Arc<Publication>) -> u32 {
        let Retained { slots, index, order, key, .. } = self;
        let slot = slots.add(message);
        let hash = |slot| key.of(&[slots.at(slot).topic().as_bytes()]);
        index.insert(hash(slot), slot, hash);
        order.insert(slot, |slot| slots.at(slot).topic());
        slot
    }

    fn take(&mut self, slot: u32) -> Arc<Publication> {
        let Retained { slots, index, order, key, .. } = self;
        let was_in = index.remove(key.of(&[slots.at(slot).topic().as_bytes()]), slot);
        debug_assert!(was_in);
        order.remove(slot, |slot| slots.at(slot).topic());
        let message = slots.take(slot);
        self.bytes -= message.weight() as u64;
        if is_own(message.topic()) {
            self.own = (self.own.0 - 1, self.own.1 - message.weight() as u64);
        }
        message
    }

    /// Notes an expiry, and discards outdated notes when they are more than half.
    fn note_expiry(&mut self, expire_at: u32, slot: u32) {
        if self.expiries.len() >= 64 + 2 * self.slots.len() {
            let slots = &self.slots;
            let mut kept: Vec<_> = std::mem::take(&mut self.expiries).into_vec();
            kept.retain(|Reverse((expire_at, slot))| {
                slots.find(*slot).is_some_and(|message| message.expire_at == *expire_at)
            });
            kept.sort_unstable();
            kept.dedup();
            self.expiries = kept.into();
        }
        self.expiries.push(Reverse((expire_at, slot)));
    }
}
