//! A push in the queue of a device: 48 bytes, with its body or without.
//!
//! A stored push need not be in memory while its device is away: then the item is a stub with the
//! fields that the queue needs, and the body is fetched before it is sent. An item without a body
//! is in the log.

use crate::log::durable::push::Label;
use base::time::Instant;
use model::id::MessageId;
use model::push::{Priority, Push};
use model::timeline::Seq;
use std::sync::Arc;

/// State of an item in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kept {
    /// The push is not in the log.
    No,
    /// The log was asked to store the push and has not answered.
    Asked,
    /// The log has stored the push at this offset of the device's timeline.
    At(Seq),
}

/// A collapse key on its own: behind a thin pointer, because few items have one.
struct CollapseKey(Box<str>);

enum Body {
    Here(Arc<Push>),
    Away(Option<Box<CollapseKey>>),
}

/// A push in the queue of a device.
pub(crate) struct Item {
    /// The push's id.
    pub id: MessageId,
    /// Zero: not stored. [`Item::ASKED`]: asked. Otherwise the offset in the device's timeline.
    place: u64,
    body: Body,
    expire_at: u32,
    weight: u32,
    /// When the push was last sent, milliseconds of the monotonic clock, the low 32 bits.
    sent_ms: u32,
    /// How often the push was sent.
    pub times: u8,
    flags: u8,
}

const _: () = assert!(size_of::<Item>() <= 48, "a place in a queue is 48 bytes");

/// Parties to notify when an item ends.
#[derive(Clone, Copy, Default)]
pub(crate) struct Watch {
    /// An order waits for the outcome (`waits`).
    pub answers: bool,
    /// A fan-out counts the outcome (`jobs`).
    pub counted: bool,
    /// The outcome is published as an event.
    pub receipts: bool,
}

const HIGH: u8 = 1;
const ANSWERS: u8 = 2;
const COUNTED: u8 = 4;
const RECEIPTS: u8 = 8;
const ASIDE: u8 = 16;
const IN_ORDER: u8 = 32;

impl Item {
    const ASKED: u64 = u64::MAX;

    /// An item with its body.
    pub fn new(push: &Arc<Push>, watch: Watch) -> Item {
        let mut item = Item {
            id: push.id,
            place: 0,
            expire_at: push.expire_at,
            weight: push.weight() as u32,
            sent_ms: 0,
            times: 0,
            flags: 0,
            body: Body::Here(push.clone()),
        };
        item.set(HIGH, push.priority == Priority::High);
        item.set(ANSWERS, watch.answers);
        item.set(COUNTED, watch.counted);
        item.set(RECEIPTS, watch.receipts);
        item
    }

    /// An item without its body, which the log has at offset `seq`.
    pub fn stub(id: MessageId, seq: Seq, label: Label) -> Item {
        let key = label.collapse.map(|key| Box::new(CollapseKey(key)));
        let mut item = Item {
            id,
            place: seq,
            expire_at: label.expire_at,
            weight: label.weight,
            sent_ms: 0,
            times: 0,
            flags: 0,
            body: Body::Away(key),
        };
        item.set(HIGH, label.priority == Priority::High);
        item
    }

    /// The item's push, if its body is in memory.
    pub fn push(&self) -> Option<&Arc<Push>> {
        match &self.body {
            Body::Here(push) => Some(push),
            Body::Away(_) => None,
        }
    }

    /// State of the item in the log.
    pub fn kept(&self) -> Kept {
        match self.place {
            0 => Kept::No,
            Item::ASKED => Kept::Asked,
            seq => Kept::At(seq),
        }
    }

    /// Sets the state of the item in the log.
    pub fn set_kept(&mut self, kept: Kept) {
        self.place = match kept {
            Kept::No => 0,
            Kept::Asked => Item::ASKED,
            Kept::At(seq) => seq,
        };
    }

    /// Drops the body from memory, if the log has it.
    pub fn shed(&mut self) {
        if let (Kept::At(_), Body::Here(push)) = (self.kept(), &self.body) {
            let key = push.collapse.clone().map(|key| Box::new(CollapseKey(key)));
            self.body = Body::Away(key);
        }
    }

    /// Puts the fetched push back into the item.
    pub fn attach(&mut self, push: Arc<Push>) {
        self.body = Body::Here(push);
    }

    /// The item's collapse key: a newer push with the same key replaces it.
    pub fn collapse(&self) -> Option<&str> {
        match &self.body {
            Body::Here(push) => push.collapse.as_deref(),
            Body::Away(key) => key.as_ref().map(|key| &*key.0),
        }
    }

    /// Whether the item's priority is High, so that it is sent before unsent Normal ones.
    pub fn high(&self) -> bool {
        self.flags & HIGH != 0
    }

    /// The item's weight in a queue, bytes.
    pub fn weight(&self) -> usize {
        self.weight as usize
    }

    /// Whether the push may be stored for a device that is away.
    pub fn stores(&self) -> bool {
        self.expire_at != 0
    }

    /// Unix second after which the push must not be delivered; zero for a push with time to live 0.
    pub fn expire_at(&self) -> u32 {
        self.expire_at
    }

    /// Whether the push has expired at this Unix second.
    pub fn expired(&self, unix_s: u32) -> bool {
        self.stores() && self.expire_at <= unix_s
    }

    /// Parties to notify when the item ends.
    pub fn watch(&self) -> Watch {
        let [answers, counted, receipts] =
            [ANSWERS, COUNTED, RECEIPTS].map(|flag| self.flags & flag != 0);
        Watch { answers, counted, receipts }
    }

    /// Notes that a fan-out counts the item.
    pub fn set_counted(&mut self) {
        self.set(COUNTED, true);
    }

    /// Notes that no answer waits for the outcome any more; returns whether one did.
    pub fn stop_answering(&mut self) -> bool {
        let answers = self.flags & ANSWERS != 0;
        self.set(ANSWERS, false);
        answers
    }

    /// Whether the item is skipped until the next session, because its body cannot be read.
    pub fn aside(&self) -> bool {
        self.flags & ASIDE != 0
    }

    /// Sets whether the item is skipped until the next session.
    pub fn set_aside(&mut self, to: bool) {
        self.set(ASIDE, to);
    }

    /// Whether the item's place in the queue reflects the order of sending: behind all items sent
    /// before it.
    pub fn in_order(&self) -> bool {
        self.flags & IN_ORDER != 0
    }

    /// Sets whether the item's place reflects the order of sending.
    pub fn set_in_order(&mut self, to: bool) {
        self.set(IN_ORDER, to);
    }

    /// Notes that the push was sent once more.
    pub fn sent(&mut self, at: Instant) {
        self.times = self.times.saturating_add(1);
        self.sent_ms = at.millis() as u32;
    }

    /// When the push was last sent, milliseconds of the monotonic clock, the low 32 bits.
    pub fn sent_ms(&self) -> u32 {
        self.sent_ms
    }

    /// Milliseconds since the push was last sent, valid for some weeks.
    pub fn age_ms(&self, now: Instant) -> u32 {
        (now.millis() as u32).wrapping_sub(self.sent_ms)
    }

    fn set(&mut self, flag: u8, to: bool) {
        self.flags = if to { self.flags | flag } else { self.flags & !flag };
    }
}
