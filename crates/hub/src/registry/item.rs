//! One push waiting for one device: 48 bytes, with its body or without.
//!
//! What the log keeps of a push need not be in memory while its device is away: then only what the
//! queue must know is here, a stub, and the body comes back before it is sent. An item whose body
//! is not here is in the log.

use crate::log::durable::push::Label;
use base::time::Instant;
use model::id::MessageId;
use model::push::{Priority, Push};
use model::timeline::Seq;
use std::sync::Arc;

/// State of an item in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kept {
    /// Nothing.
    No,
    /// It was asked to keep it and has not answered.
    Asked,
    /// It keeps it at this place of the device's timeline.
    At(Seq),
}

/// A collapse key on its own: behind a thin pointer, because few items have one.
struct CollapseKey(Box<str>);

enum Body {
    Here(Arc<Push>),
    Away(Option<Box<CollapseKey>>),
}

/// One push waiting for one device.
pub(crate) struct Item {
    /// The push.
    pub id: MessageId,
    /// Zero: not kept. [`Item::ASKED`]: asked. Otherwise the place in the log.
    place: u64,
    body: Body,
    expire_at: u32,
    weight: u32,
    /// When it was sent last, milliseconds of the monotonic clock, the low 32 bits.
    sent_ms: u32,
    /// How often it was sent.
    pub times: u8,
    flags: u8,
}

const _: () = assert!(size_of::<Item>() <= 48, "a place in a queue is 48 bytes");

/// Watcher of an item's end.
#[derive(Clone, Copy, Default)]
pub(crate) struct Watch {
    /// Somebody waits for its outcome (`waits`).
    pub answers: bool,
    /// A fan-out counts it (`jobs`).
    pub counted: bool,
    /// Its end is told as an event.
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

    /// An item without its body, which the log keeps at `seq`.
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

    /// Its push, if the body is here.
    pub fn push(&self) -> Option<&Arc<Push>> {
        match &self.body {
            Body::Here(push) => Some(push),
            Body::Away(_) => None,
        }
    }

    /// What the log knows of it.
    pub fn kept(&self) -> Kept {
        match self.place {
            0 => Kept::No,
            Item::ASKED => Kept::Asked,
            seq => Kept::At(seq),
        }
    }

    /// Says so.
    pub fn set_kept(&mut self, kept: Kept) {
        self.place = match kept {
            Kept::No => 0,
            Kept::Asked => Item::ASKED,
            Kept::At(seq) => seq,
        };
    }

    /// Its body is let go, if the log keeps it.
    pub fn shed(&mut self) {
        if let (Kept::At(_), Body::Here(push)) = (self.kept(), &self.body) {
            let key = push.collapse.clone().map(|key| Box::new(CollapseKey(key)));
            self.body = Body::Away(key);
        }
    }

    /// Its body is here again.
    pub fn attach(&mut self, push: Arc<Push>) {
        self.body = Body::Here(push);
    }

    /// What replaces it.
    pub fn collapse(&self) -> Option<&str> {
        match &self.body {
            Body::Here(push) => push.collapse.as_deref(),
            Body::Away(key) => key.as_ref().map(|key| &*key.0),
        }
    }

    /// Whether it goes before others that were not sent.
    pub fn high(&self) -> bool {
        self.flags & HIGH != 0
    }

    /// What it costs a queue, bytes.
    pub fn weight(&self) -> usize {
        self.weight as usize
    }

    /// Whether it may wait for a device that is away.
    pub fn stores(&self) -> bool {
        self.expire_at != 0
    }

    /// Unix second after which it must not be delivered, zero for now or never.
    pub fn expire_at(&self) -> u32 {
        self.expire_at
    }

    /// Whether its time is over at this Unix second.
    pub fn expired(&self, unix_s: u32) -> bool {
        self.stores() && self.expire_at <= unix_s
    }

    /// Who wants to know of its end.
    pub fn watch(&self) -> Watch {
        let [answers, counted, receipts] =
            [ANSWERS, COUNTED, RECEIPTS].map(|flag| self.flags & flag != 0);
        Watch { answers, counted, receipts }
    }

    /// A fan-out counts it.
    pub fn set_counted(&mut self) {
        self.set(COUNTED, true);
    }

    /// Nobody waits for its outcome any more; whether somebody did.
    pub fn stop_answering(&mut self) -> bool {
        let answers = self.flags & ANSWERS != 0;
        self.set(ANSWERS, false);
        answers
    }

    /// Whether it is passed over until the next session, because its body cannot be read.
    pub fn aside(&self) -> bool {
        self.flags & ASIDE != 0
    }

    /// Says so.
    pub fn set_aside(&mut self, to: bool) {
        self.set(ASIDE, to);
    }

    /// Whether it stands in the queue as it was sent: behind all that was sent before it.
    pub fn in_order(&self) -> bool {
        self.flags & IN_ORDER != 0
    }

    /// Says so.
    pub fn set_in_order(&mut self, to: bool) {
        self.set(IN_ORDER, to);
    }

    /// It was sent, once more.
    pub fn sent(&mut self, at: Instant) {
        self.times = self.times.saturating_add(1);
        self.sent_ms = at.millis() as u32;
    }

    /// When it was sent last, milliseconds of the monotonic clock, the low 32 bits.
    pub fn sent_ms(&self) -> u32 {
        self.sent_ms
    }

    /// Milliseconds since it was sent last, for what was sent within weeks.
    pub fn age_ms(&self, now: Instant) -> u32 {
        (now.millis() as u32).wrapping_sub(self.sent_ms)
    }

    fn set(&mut self, flag: u8, to: bool) {
        self.flags = if to { self.flags | flag } else { self.flags & !flag };
    }
}
