//! Control port: what the API asks of the hub.
//!
//! A [`Command`] about one device goes to the shard that owns it, one about all goes to all shards
//! and the answers are merged; the API sees one answer either way.

use crate::close::CloseReason;
use crate::event::Counters;
use crate::id::{DeviceId, MessageId, ProductKey, Tag};
use crate::ports::presence_queries::{PresenceAnswer, PresenceCommand};
use crate::ports::topics::{TopicAnswer, TopicCommand};
use crate::presence::PresenceVersion;
use crate::pressure::Pressure;
use crate::product::Product;
use crate::push::{Outcome, Priority};
use std::sync::Arc;

/// A question or an order from outside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Send a push. Answer: `Pushed`.
    Push(PushOrder),
    /// How far a push has come. Answer: `PresenceCounts`.
    PushCounts(MessageId),
    /// The state of these devices. Answer: `Devices`, those known.
    States {
        /// Product that the device belongs to.
        product: ProductKey,
        /// Which; at most `push_devices_max`.
        devices: Vec<DeviceId>,
    },
    /// A page of devices. Answer: `Page`.
    List {
        /// Whose; all products when absent.
        product: Option<ProductKey>,
        /// Only those online (or only those offline).
        online: Option<bool>,
        /// Only those with this tag.
        tag: Option<Tag>,
        /// Where the last page ended.
        after: Option<u64>,
        /// The most to return.
        count: u32,
    },
    /// End a device's connection. Answer: `Done` (whether it was online).
    Kick {
        /// Product that the device belongs to.
        product: ProductKey,
        /// Device, by its name within the product.
        device: DeviceId,
        /// Send it there instead, `ip:port`; at most four.
        addrs: Vec<String>,
    },
    /// Block or unblock a device; blocking ends its connection. Answer: `Done`.
    Block {
        /// Product that the device belongs to.
        product: ProductKey,
        /// Device, by its name within the product.
        device: DeviceId,
        /// Whether it is blocked from now on.
        blocked: bool,
    },
    /// Set a device's tags. Answer: `Done` (false: too many).
    SetTags {
        /// Product that the device belongs to.
        product: ProductKey,
        /// Device, by its name within the product.
        device: DeviceId,
        /// All its tags from now on.
        tags: Vec<Tag>,
    },
    /// Change agreed heartbeat and window of the online devices of a product. Answer: `Done`.
    Configure {
        /// Product that the device belongs to.
        product: ProductKey,
    },
    /// Make or change a product. Answer: `Done`.
    PutProduct(Box<Product>),
    /// Remove a product; its devices are kicked. Answer: `Done` (whether it was there).
    DropProduct(ProductKey),
    /// All products. Answer: `Products`.
    Products,
    /// A bearer token for one device. Answer: `Token`, absent when the product is unknown.
    Token {
        /// Product that the device belongs to.
        product: ProductKey,
        /// Device, by its name within the product.
        device: DeviceId,
        /// Unix second until which it is good.
        until: u64,
    },
    /// Counters and gauges. Answer: `Status`.
    Status,
    /// About topics and sessions. Answer: `Topics`.
    Topics(TopicCommand),
    /// About who is online. Answer: `PresenceStatus`.
    Presence(PresenceCommand),
}

/// A push as it is ordered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PushOrder {
    /// The push's id. Made by whoever takes the order in.
    pub id: MessageId,
    /// Whose devices.
    pub product: ProductKey,
    /// Which of them.
    pub target: PushTarget,
    /// Opaque bytes, at most `push_bytes_max`.
    pub body: Box<[u8]>,
    /// Replaces stored pushes with the same key.
    pub collapse: Option<Box<str>>,
    /// Seconds it may wait; 0: deliver now or never.
    pub time_to_live_s: u32,
    /// Urgency.
    pub priority: Priority,
    /// Asks the application on the device to show nothing.
    pub silent: bool,
    /// Milliseconds the answer may wait for acknowledgements.
    pub wait_ms: u32,
    /// Tell the end of this push at each device as an event.
    pub receipts: bool,
    /// The application's own name for this order, 1 to [`PushOrder::KEY_BYTES_MAX`] bytes. The
    /// order is on stable storage before anything is sent, and a repeated one is answered with the
    /// first one's id and changes nothing.
    pub idempotency_key: Option<Box<str>>,
}

impl PushOrder {
    /// Longest idempotency key, bytes.
    pub const KEY_BYTES_MAX: usize = 128;
}

/// Devices of a product that a push or an order is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PushTarget {
    /// These. Each has its outcome in the answer.
    Devices(Vec<DeviceId>),
    /// Those with this tag. The answer counts.
    Tag(Tag),
    /// All that are known. The answer counts.
    Product,
}

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// To `Push`.
    Pushed {
        /// The push.
        id: MessageId,
        /// For a list of devices, in no particular order; empty for a tag or a product.
        outcomes: Vec<(DeviceId, Outcome)>,
        /// For a tag or a product: as far as it has come.
        counts: PushCounts,
    },
    /// To `PushCounts`; absent when the push is not remembered.
    Counts(Option<PushCounts>),
    /// To `States`.
    Devices(Vec<DeviceState>),
    /// To `List`.
    Page {
        /// The devices.
        devices: Vec<DeviceState>,
        /// Where to go on; absent at the end.
        next: Option<u64>,
    },
    /// It was done, or there was nothing to do (`false`).
    Done(bool),
    /// To `Products`.
    Products(Vec<Arc<Product>>),
    /// To `Token`.
    Token(Option<String>),
    /// To `Status`.
    Status(Box<Status>),
    /// The product is not known.
    UnknownProduct,
    /// A mailbox was full: nothing was done, try again.
    Busy,
    /// The store cannot take it: nothing was done.
    StoreFailed,
    /// The idempotency key was used before for another order: nothing was done.
    Conflict,
    /// To `Topics`.
    Topics(TopicAnswer),
    /// To `PresenceStatus`.
    Presence(PresenceAnswer),
}

/// Progress of a push. `matched` is the sum of the others once the fan-out is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PushCounts {
    /// Devices it was for.
    pub matched: u64,
    /// Sent and not yet acknowledged.
    pub pending: u64,
    /// Acknowledged.
    pub delivered: u64,
    /// In the store.
    pub stored: u64,
    /// Over before it was delivered.
    pub expired: u64,
    /// Not taken on, or given up.
    pub rejected: u64,
    /// Whether some shard is still walking its devices, or has yet to begin.
    pub running: bool,
}

impl PushCounts {
    /// Adds another shard's counts.
    pub fn add(&mut self, other: &PushCounts) {
        self.matched += other.matched;
        self.pending += other.pending;
        self.delivered += other.delivered;
        self.stored += other.stored;
        self.expired += other.expired;
        self.rejected += other.rejected;
        self.running |= other.running;
    }
}

/// State of a device, as the API tells it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceState {
    /// Product that the device belongs to.
    pub product: ProductKey,
    /// Device, by its name within the product.
    pub device: DeviceId,
    /// Whether it is bound now.
    pub online: bool,
    /// `miop5`, `miop6`, `miop7`; empty if it never bound.
    pub protocol: &'static str,
    /// Epoch of its last session; 0 if it never bound.
    pub epoch: u64,
    /// Unix millisecond since when it is online or offline; 0 if it never bound.
    pub since_ms: u64,
    /// Unix millisecond at which it was certainly there for the last time; 0 if it never bound.
    pub seen_ms: u64,
    /// Of its last transition; zero if it never bound.
    pub version: PresenceVersion,
    /// How its last connection ended, when offline.
    pub reason: Option<CloseReason>,
    /// Agreed heartbeat in seconds, when online.
    pub heartbeat_s: u16,
    /// Pushes sent and not acknowledged.
    pub inflight: u32,
    /// Pushes waiting, those in flight included.
    pub waiting: u32,
    /// Its tags.
    pub tags: Vec<Tag>,
    /// Whether it is blocked.
    pub blocked: bool,
}

/// Counters and gauges of the process, added up over its shards.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Status {
    /// Counters.
    pub counters: Counters,
    /// Connections open.
    pub connections: u64,
    /// Devices with a record.
    pub devices: u64,
    /// Devices bound.
    pub online: u64,
    /// Pushes waiting for devices.
    pub waiting: u64,
    /// Their weight in bytes.
    pub waiting_bytes: u64,
    /// Shards that answered.
    pub shards: u32,
    /// Longest turn of a shard's loop since the last question, microseconds.
    pub turn_us_max: u64,
    /// Sessions, online or not.
    pub sessions: u64,
    /// Sessions with a connection.
    pub sessions_online: u64,
    /// Subscriptions, those of shared groups included.
    pub subscriptions: u64,
    /// Retained messages.
    pub retained: u64,
    /// Their bytes.
    pub retained_bytes: u64,
    /// Messages that wait for sessions, those on the way included.
    pub queued: u64,
    /// Their bytes in memory.
    pub queued_bytes: u64,
    /// Publications for later.
    pub delayed: u64,
    /// How short memory is.
    pub pressure: Pressure,
}

impl Status {
    /// Adds another shard's figures.
    pub fn add(&mut self, other: &Status) {
        self.counters.add(&other.counters);
        self.connections += other.connections;
        self.devices += other.devices;
        self.online += other.online;
        self.waiting += other.waiting;
        self.waiting_bytes += other.waiting_bytes;
        self.shards += other.shards;
        self.pressure = self.pressure.max(other.pressure);
        self.turn_us_max = self.turn_us_max.max(other.turn_us_max);
        self.sessions += other.sessions;
        self.sessions_online += other.sessions_online;
        self.subscriptions += other.subscriptions;
        self.retained += other.retained;
        self.retained_bytes += other.retained_bytes;
        self.queued += other.queued;
        self.queued_bytes += other.queued_bytes;
        self.delayed += other.delayed;
    }
}

/// Callback that takes an answer: called once.
pub type Reply = Box<dyn FnOnce(Answer) + Send>;

/// The way in. Implemented by the roof, used by the API.
pub trait Control: Send + Sync {
    /// Asks; `reply` is called exactly once, from any thread, and must not block.
    fn ask(&self, command: Command, reply: Reply);

    /// The next push id.
    fn next_id(&self) -> MessageId;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Counter;

    #[test]
    fn counts_of_shards_add_up_and_one_that_runs_makes_it_run() {
        let of = |n: u64, running| PushCounts {
            matched: n,
            pending: 2 * n,
            delivered: 3 * n,
            stored: 4 * n,
            expired: 5 * n,
            rejected: 6 * n,
            running,
        };
        let mut sum = of(1, false);
        sum.add(&of(100, false));
        assert_eq!(sum, of(101, false));
        sum.add(&of(1_000, true));
        sum.add(&of(0, false));
        sum.add(&of(0, true));
        assert_eq!(sum, of(1_101, true));
    }

    #[test]
    fn figures_of_shards_add_up_and_the_worst_of_them_stands() {
        let of = |n: u64, turn_us_max, pressure| {
            let mut counters = Counters::default();
            counters.count_by(Counter::Binds, n);
            Status {
                counters,
                connections: 2 * n,
                devices: 3 * n,
                online: 4 * n,
                waiting: 5 * n,
                waiting_bytes: 6 * n,
                shards: n as u32,
                turn_us_max,
                sessions: 7 * n,
                sessions_online: 8 * n,
                subscriptions: 9 * n,
                retained: 10 * n,
                retained_bytes: 11 * n,
                queued: 12 * n,
                queued_bytes: 13 * n,
                delayed: 14 * n,
                pressure,
            }
        };
        let mut sum = of(1, 50, Pressure::Calm);
        sum.add(&of(10, 70, Pressure::Qos0));
        sum.add(&of(100, 60, Pressure::Connections));
        assert_eq!(sum, of(111, 70, Pressure::Qos0));
    }
}
