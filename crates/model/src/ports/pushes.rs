//! Requests of the API to the push service: devices, pushes, products.
//!
//! A command about one device goes to the shard that owns it; a command about all devices goes to
//! all shards and their answers are merged, as with every command of [`super::control`].

use crate::audience::{Audience, TagExpression};
use crate::calendar::{Schedule, ScheduleState};
use crate::close::CloseReason;
use crate::id::{DeviceId, DeviceUser, MessageId, ProductKey, ScheduleName, SegmentName, Tag};
use crate::presence::PresenceVersion;
use crate::product::Product;
use crate::push::{Outcome, PlatformToken, Priority, PushReport, PushStep, StepKind};
use crate::zone::{LocalTime, Zone};
use std::num::NonZeroU32;
use std::sync::Arc;

/// A question or an order about devices, pushes and products.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PushCommand {
    /// Send a push. Answer: `Pushed`.
    Push(PushOrder),
    /// How far a push has come. Answer: `Counts`.
    PushCounts(MessageId),
    /// Cancel a push: what was not delivered is recalled, on every shard. Answer of the shard that
    /// takes the order: `Done` (whether the push was known), once every shard has done it; of the
    /// whole: `Counts`.
    Cancel {
        /// Id of this change. Assigned by the component that accepts the order, such as the API.
        id: MessageId,
        /// The push.
        push: MessageId,
        /// Only if the push is for devices of this product.
        product: Option<ProductKey>,
    },
    /// Lists outcomes of a tracked push at its devices, in the order of time. Answer:
    /// `Outcomes`, a part of each shard.
    Outcomes {
        /// The push.
        push: MessageId,
        /// Only if the push is for devices of this product.
        product: Option<ProductKey>,
        /// By shard, where the last page ended; zero, or absent, for the beginning.
        after: Vec<u64>,
        /// Only lines of this kind.
        kind: Option<StepKind>,
        /// Most lines of a shard.
        count: u32,
    },
    /// Lists outcomes of a tracked push by minute. Answer: `Minutes`.
    Minutes {
        /// The push.
        push: MessageId,
        /// Only if the push is for devices of this product.
        product: Option<ProductKey>,
    },
    /// A report about a push, by the holder of a bearer token of the device. Answer: `Done` (false:
    /// the device is unknown), or `TokenRefused`.
    ReportPush {
        /// Product that the device belongs to.
        product: ProductKey,
        /// Device, by its name within the product.
        device: DeviceId,
        /// The bearer token.
        token: BearerToken,
        /// The push.
        push: MessageId,
        /// The report.
        report: PushReport,
    },
    /// The state of these devices. Answer: `Devices`, those known.
    States {
        /// Product that the device belongs to.
        product: ProductKey,
        /// The devices, at most `push_devices_max`.
        devices: Vec<DeviceId>,
    },
    /// Pause a push to many devices, or let it go on. Answers as those to `Cancel`.
    Pause {
        /// Id of this change. Assigned by the component that accepts the order, such as the API.
        id: MessageId,
        /// The push.
        push: MessageId,
        /// Only if the push is for devices of this product.
        product: Option<ProductKey>,
        /// Whether it is paused from now on.
        paused: bool,
    },
    /// How many devices a push would be for now. Answer: `Counted`.
    Count {
        /// Product of the devices.
        product: ProductKey,
        /// Which of them.
        target: PushTarget,
    },
    /// Save a segment, or change it. Answer: `Done` (whether it is new).
    PutSegment {
        /// Product of the devices.
        product: ProductKey,
        /// Name of the segment within the product.
        segment: SegmentName,
        /// The segment's devices. It names no segments.
        tags: TagExpression,
    },
    /// Remove a segment. Answer: `Done` (whether it was there).
    DropSegment {
        /// Product of the devices.
        product: ProductKey,
        /// Name of the segment within the product.
        segment: SegmentName,
    },
    /// Segments of a product. Answer: `Segments`.
    Segments {
        /// The product.
        product: ProductKey,
        /// Only those with these names; all when absent.
        names: Option<Vec<SegmentName>>,
    },
    /// Save a schedule, or replace it. Answer: `Done` (whether it is new).
    PutSchedule(Box<Schedule>),
    /// Remove a schedule. Answer: `Done` (whether it was there).
    DropSchedule {
        /// Product of the devices.
        product: ProductKey,
        /// Name of the schedule within the product.
        schedule: ScheduleName,
    },
    /// Pause a schedule, or let it go on. Answer: `Done` (whether it was there).
    PauseSchedule {
        /// Product of the devices.
        product: ProductKey,
        /// Name of the schedule within the product.
        schedule: ScheduleName,
        /// Whether it is paused from now on.
        paused: bool,
    },
    /// Schedules. Answer: `Schedules`.
    Schedules {
        /// Of this product; of all when absent.
        product: Option<ProductKey>,
        /// Only the one with this name; all when absent.
        schedule: Option<ScheduleName>,
    },
    /// Orders that are remembered, those to be sent last first. Answer: `Orders`.
    Orders {
        /// Of this product; of all when absent.
        product: Option<ProductKey>,
        /// Only those below this id, where the last page ended.
        before: Option<MessageId>,
        /// The most to return.
        count: u32,
    },
    /// A page of devices. Answer: `Page`.
    List {
        /// Only devices of this product; absent: of all products.
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
    /// End a device's connection, since its name is banned. Answer: `Done` (whether it was online).
    EndBanned {
        /// Product that the device belongs to.
        product: ProductKey,
        /// Device, by its name within the product.
        device: DeviceId,
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
    /// Set the user to whom a device belongs. Pushes that are queued for the device leave its queue
    /// if it belonged to another user. Answer: `Done` (false: the user has too many devices).
    SetUser {
        /// Product that the device belongs to.
        product: ProductKey,
        /// Device, by its name within the product.
        device: DeviceId,
        /// The user; absent: nobody.
        user: Option<DeviceUser>,
    },
    /// Set the time zone of a device. Answer: `Done` (false: no room for one more device).
    SetZone {
        /// Product that the device belongs to.
        product: ProductKey,
        /// Device, by its name within the product.
        device: DeviceId,
        /// The zone; absent: none.
        zone: Option<Zone>,
    },
    /// Set the address of a device at its platform's push service. Answer: `Done` (false: no room
    /// for one more device).
    SetPlatform {
        /// Product that the device belongs to.
        product: ProductKey,
        /// Device, by its name within the product.
        device: DeviceId,
        /// The address; absent: none.
        token: Option<PlatformToken>,
    },
    /// The devices of a user. Answer: `Devices`.
    UserDevices {
        /// Product of the devices.
        product: ProductKey,
        /// The user.
        user: DeviceUser,
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
        /// User to whom a Bind with the token gives the device.
        user: Option<DeviceUser>,
        /// Unix second until which it is good.
        until: u64,
    },
}

/// A push as it is ordered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PushOrder {
    /// The push's id. Assigned by the component that accepts the order, such as the API.
    pub id: MessageId,
    /// Product of the devices.
    pub product: ProductKey,
    /// Target: which of the product's devices.
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
    /// The body is a document of JSON with a notification for the device's user.
    pub notifies: bool,
    /// For named devices: refused by those that do not belong to this user.
    pub user: Option<DeviceUser>,
    /// Milliseconds the answer may wait for acknowledgements.
    pub wait_ms: u32,
    /// Tell the end of this push at each device as an event.
    pub receipts: bool,
    /// The outcome at each device is stored and can be asked for. A tracked push is on
    /// stable storage before it is sent, and is answered with its counts, whatever its target.
    pub track: bool,
    /// Unix milliseconds at which the push is sent; at once when absent. A scheduled push is
    /// answered with its counts, whatever its target, and its id contains this time.
    pub send_at_ms: Option<u64>,
    /// By the clock of each device: when to send it. A push with this is scheduled, too; it has no
    /// `send_at_ms`, and its id contains the time of the first zone.
    pub local: Option<LocalTime>,
    /// Devices a second that a tag, a product or an audience is visited at, at most; at full speed
    /// when absent.
    pub devices_per_s: Option<NonZeroU32>,
    /// The application's own name for this order, 1 to [`PushOrder::KEY_BYTES_MAX`] bytes. The
    /// order is on stable storage before anything is sent, and a repeated one is answered with the
    /// first one's id and changes nothing.
    pub idempotency_key: Option<Box<str>>,
}

impl PushOrder {
    /// An order of a normal push that is sent at once and delivered now or never, with none of the
    /// wishes.
    pub fn new(
        id: MessageId,
        product: ProductKey,
        target: PushTarget,
        body: Box<[u8]>,
    ) -> PushOrder {
        PushOrder {
            id,
            product,
            target,
            body,
            collapse: None,
            time_to_live_s: 0,
            priority: Priority::Normal,
            silent: false,
            notifies: false,
            user: None,
            wait_ms: 0,
            receipts: false,
            track: false,
            send_at_ms: None,
            local: None,
            devices_per_s: None,
            idempotency_key: None,
        }
    }

    /// Whether it is sent later than it is ordered.
    pub fn is_scheduled(&self) -> bool {
        self.send_at_ms.is_some() || self.local.is_some()
    }

    /// Longest idempotency key, bytes.
    pub const KEY_BYTES_MAX: usize = 128;
}

/// Devices of a product that a push or an order is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PushTarget {
    /// Named devices. The answer has the outcome for each.
    Devices(Vec<DeviceId>),
    /// All devices with this tag. The answer has counts only.
    Tag(Tag),
    /// All that are known. The answer counts.
    Product,
    /// The devices of this audience. The answer counts.
    Audience(Arc<Audience>),
    /// The devices of a user, as they are when the order arrives. The answer has the outcome for
    /// each.
    User(UserTarget),
}

/// Devices of a user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserTarget {
    /// The user.
    pub user: DeviceUser,
    /// Only devices whose tags satisfy this.
    pub tags: Option<TagExpression>,
    /// Only the one that was online last.
    pub last_active: bool,
}

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PushAnswer {
    /// Answer to `Push`.
    Pushed {
        /// The push.
        id: MessageId,
        /// Outcome for each device of a list, in no particular order; empty for a tag or a product.
        outcomes: Vec<(DeviceId, Outcome)>,
        /// Counts for a tag or a product, up to now.
        counts: PushCounts,
    },
    /// Answer to `PushCounts`; absent when the push is not remembered.
    Counts(Option<PushCounts>),
    /// Answer to `Outcomes`: the parts of the shards; absent when the push is not remembered.
    Outcomes(Option<Vec<OutcomePart>>),
    /// Answer to `Minutes`, by time; absent when the push is not remembered.
    Minutes(Option<Vec<PushMinute>>),
    /// The push is remembered but was not tracked.
    NotTracked,
    /// The device's bearer token is not valid, or does not suffice.
    TokenRefused,
    /// A device sends more reports than it may: nothing was done.
    TooManyReports,
    /// The device's product takes no reports.
    NoReports,
    /// Answer to `Orders`.
    Orders(Vec<OrderState>),
    /// Answer to `States`.
    Devices(Vec<DeviceState>),
    /// Answer to `List`.
    Page {
        /// The devices.
        devices: Vec<DeviceState>,
        /// Where to go on; absent at the end.
        next: Option<u64>,
    },
    /// The command is done; `false`: it changed nothing.
    Done(bool),
    /// Answer to `Products`.
    Products(Vec<Arc<Product>>),
    /// Answer to `Token`.
    Token(Option<String>),
    /// The product is not known.
    UnknownProduct,
    /// A mailbox was full: nothing was done, try again.
    Busy,
    /// The store cannot take it: nothing was done.
    StoreFailed,
    /// The idempotency key was used before for another order: nothing was done.
    Conflict,
    /// As many pushes are scheduled as may be: nothing was done.
    TooManyScheduled,
    /// The lists of open and scheduled pushes have as many bytes as they may: nothing was done.
    ListsFull,
    /// The sending time has passed: nothing was done.
    TimePassed,
    /// Answer to `Count`.
    Counted(AudienceCounts),
    /// Answer to `Segments`, by name.
    Segments(Vec<SavedSegment>),
    /// No segment of the product has this name, or nobody put it in: nothing was done.
    UnknownSegment(SegmentName),
    /// The audience's expression has so many tags with those of its segments, which is more than
    /// [`TagExpression::RESOLVED_TERMS_MAX`]: nothing was done.
    TooManyTerms(usize),
    /// The product has as many segments as it may have: nothing was done.
    TooManySegments,
    /// Answer to `Schedules`, by product and name.
    Schedules(Vec<ScheduleState>),
    /// The product has as many schedules as it may have: nothing was done.
    TooManySchedules,
}

/// The bearer token of a device. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct BearerToken(pub Box<str>);

impl std::fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BearerToken(..)")
    }
}

/// One thing that became of a push at a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceStep {
    /// The device.
    pub device: DeviceId,
    /// Outcome of the push, or report about it.
    pub step: PushStep,
    /// When, Unix milliseconds.
    pub at_ms: u64,
}

/// A shard's part of a page of [`DeviceStep`]s.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutcomePart {
    /// The shard that wrote the lines.
    pub shard: u16,
    /// Where the part begins.
    pub from: u64,
    /// The lines, each with the place behind it.
    pub lines: Vec<(u64, DeviceStep)>,
    /// Where the part ends: lines that were left out by their kind lie before it.
    pub end: u64,
    /// Whether the shard has more lines behind it.
    pub more: bool,
    /// Whether lines are missing, because the store had no room for them.
    pub is_cut: bool,
}

/// Outcomes of a push in a minute, at all devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PushMinute {
    /// The minute, counted from the Unix epoch.
    pub minute: u32,
    /// How often, by [`StepKind`].
    pub counts: [u64; StepKind::ALL.len()],
}

impl PushMinute {
    /// Two lists, each in the order of their minutes, as one.
    pub fn merge(one: Vec<PushMinute>, other: Vec<PushMinute>) -> Vec<PushMinute> {
        let mut all = std::collections::BTreeMap::<u32, PushMinute>::new();
        for more in one.into_iter().chain(other) {
            let of = all
                .entry(more.minute)
                .or_insert(PushMinute { minute: more.minute, counts: Default::default() });
            of.counts.iter_mut().zip(more.counts).for_each(|(count, more)| *count += more);
        }
        all.into_values().collect()
    }
}

/// A segment with its expression.
pub type SavedSegment = (SegmentName, Arc<TagExpression>);

/// Size of an audience.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AudienceCounts {
    /// Devices that a push would be for.
    pub matched: u64,
    /// Those of them that are online.
    pub online: u64,
    /// Those of them that the server does not know.
    pub unknown: u64,
}

impl AudienceCounts {
    /// Adds another shard's counts.
    pub fn add(&mut self, other: &AudienceCounts) {
        self.matched += other.matched;
        self.online += other.online;
        self.unknown += other.unknown;
    }
}

/// Progress of a push. `matched` is the sum of the columns from `pending` to `cancelled`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PushCounts {
    /// Devices it was for.
    pub matched: u64,
    /// Sent and not yet acknowledged.
    pub pending: u64,
    /// Acknowledged.
    pub delivered: u64,
    /// Pushes that were stored.
    pub stored: u64,
    /// Pushes that expired before they were delivered.
    pub expired: u64,
    /// Pushes that were refused, or given up.
    pub rejected: u64,
    /// Recalled by a cancel before it was delivered.
    pub cancelled: u64,
    /// Devices that reported that their user opened it. Zero if the push is not tracked.
    pub opened: u64,
    /// Devices that reported that their user dismissed it.
    pub dismissed: u64,
    /// Whether the outcome of the push at each device is stored.
    pub tracked: bool,
    /// Whether some shard is still walking its devices, or has yet to begin.
    pub running: bool,
    /// State of the push.
    pub state: PushState,
}

/// State of a push. Of several shards' states the last one here holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, PartialOrd, Ord)]
pub enum PushState {
    /// All its devices were visited.
    #[default]
    Finished,
    /// The sending time has not come.
    Scheduled,
    /// No further device is visited until it is resumed.
    Paused,
    /// The push's devices are being visited.
    Running,
    /// The push was cancelled.
    Cancelled,
}

impl PushState {
    /// All states.
    pub const ALL: [PushState; 5] = [
        PushState::Finished,
        PushState::Scheduled,
        PushState::Paused,
        PushState::Running,
        PushState::Cancelled,
    ];

    /// The word in answers.
    pub const fn name(self) -> &'static str {
        match self {
            PushState::Finished => "finished",
            PushState::Scheduled => "scheduled",
            PushState::Paused => "paused",
            PushState::Running => "running",
            PushState::Cancelled => "cancelled",
        }
    }
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
        self.cancelled += other.cancelled;
        self.opened += other.opened;
        self.dismissed += other.dismissed;
        self.tracked |= other.tracked;
        self.running |= other.running;
        self.state = self.state.max(other.state);
    }
}

/// State of an order that the server remembers, for the API.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OrderState {
    /// The push.
    pub id: MessageId,
    /// Product of its devices. Absent when that is not remembered.
    pub product: Option<ProductKey>,
    /// When it is sent, Unix milliseconds, while it is scheduled; of a push by the devices' clocks
    /// when it is sent next.
    pub send_at_ms: Option<u64>,
    /// How far it is.
    pub counts: PushCounts,
}

/// State of a device, for the API.
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
    /// Version of its last transition; zero if it never bound.
    pub version: PresenceVersion,
    /// How its last connection ended, when offline.
    pub reason: Option<CloseReason>,
    /// Agreed heartbeat in seconds, when online.
    pub heartbeat_s: u16,
    /// Pushes sent and not acknowledged.
    pub inflight: u32,
    /// Pushes waiting, those in flight included.
    pub waiting: u32,
    /// The device's tags.
    pub tags: Vec<Tag>,
    /// The user to whom it belongs.
    pub user: Option<DeviceUser>,
    /// Its time zone.
    pub zone: Option<Zone>,
    /// The platform at whose push service it has an address.
    pub platform: Option<Box<str>>,
    /// Whether it is blocked.
    pub blocked: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_shards_add_up_and_one_that_runs_makes_it_run() {
        let of = |n: u64, running| PushCounts {
            matched: n,
            pending: 2 * n,
            delivered: 3 * n,
            stored: 4 * n,
            expired: 5 * n,
            rejected: 6 * n,
            cancelled: 7 * n,
            opened: 8 * n,
            dismissed: 9 * n,
            tracked: running,
            running,
            state: if running { PushState::Running } else { PushState::Finished },
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
    fn minutes_of_shards_add_up_in_their_order() {
        let of = |minute, count| PushMinute { minute, counts: [count; StepKind::ALL.len()] };
        let sum = PushMinute::merge(vec![of(1, 1), of(3, 1)], vec![of(2, 5), of(3, 7)]);
        assert_eq!(sum, [of(1, 1), of(2, 5), of(3, 8)]);
    }
}
