//! A push: what an application sends to devices, and what became of it.

use crate::id::{DeviceId, MessageId, ProductKey};
use std::sync::Arc;

/// Priority of a push: how urgently it is delivered when a device's connection is congested.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, PartialOrd, Ord)]
pub enum Priority {
    /// Delivered in turn.
    #[default]
    Normal,
    /// Delivered before normal ones that have not been sent yet.
    High,
}

/// A message to devices. Made once, shared by everyone who carries it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Push {
    /// Unique and ordered by time.
    pub id: MessageId,
    /// The product whose devices it is for.
    pub product: ProductKey,
    /// The product's number, as classic records carry it.
    pub app_id: u32,
    /// Body from the application: opaque bytes.
    pub body: Box<[u8]>,
    /// A stored push with the same key is replaced by a newer one; up to 64 bytes.
    pub collapse: Option<Box<str>>,
    /// Unix second after which it must not be delivered; 0: deliver now or never.
    pub expire_at: u32,
    /// Urgency.
    pub priority: Priority,
    /// Asks the application on the device to show nothing.
    pub silent: bool,
    /// The body is a document of JSON with a notification for the device's user.
    pub notifies: bool,
}

impl Push {
    /// Longest collapse key, in bytes.
    pub const COLLAPSE_BYTES_MAX: usize = 64;

    /// Whether the push has expired at this Unix second. A push with time to live 0 never counts as
    /// expired; it is simply not stored.
    pub fn expired(&self, unix_s: u32) -> bool {
        self.expire_at != 0 && self.expire_at <= unix_s
    }

    /// Whether it may wait for a device that is away.
    pub fn stores(&self) -> bool {
        self.expire_at != 0
    }

    /// Weight in a queue, bytes.
    pub fn weight(&self) -> usize {
        self.body.len() + self.collapse.as_ref().map_or(0, |key| key.len()) + 64
    }
}

/// Address of a device at a platform's push service, which reaches it while it is away.
#[derive(Clone, PartialEq, Eq)]
pub struct PlatformToken {
    /// Name of the platform in the configuration.
    pub platform: Box<str>,
    /// The address, as the platform's service knows it. Of a Web Push subscription: its endpoint,
    /// its public key and its authentication secret, with a space between them.
    pub token: Box<str>,
}

impl PlatformToken {
    /// Longest name of a platform, bytes.
    pub const PLATFORM_BYTES_MAX: usize = 32;

    /// Longest address, bytes.
    pub const TOKEN_BYTES_MAX: usize = 2_048;

    /// Whether both have an allowed length.
    pub fn is_allowed(&self) -> bool {
        (1..=Self::PLATFORM_BYTES_MAX).contains(&self.platform.len())
            && (1..=Self::TOKEN_BYTES_MAX).contains(&self.token.len())
    }
}

/// The address is a secret: with it anybody can send to the device.
impl std::fmt::Debug for PlatformToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PlatformToken {{ platform: {:?}, .. }}", self.platform)
    }
}

/// A platform's push service, as far as the order of pushes depends on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlatformRule {
    /// Its name in the configuration.
    pub name: Box<str>,
    /// How long a device must be away before it is reached there.
    pub away_s: u32,
}

/// Outcome of a push at one device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Outcome {
    /// The device acknowledged it.
    Delivered,
    /// The push is on stable storage and waits for the device, or for its acknowledgement.
    Stored,
    /// The push expired before it was delivered, or had time to live 0 while the device was
    /// offline.
    Expired,
    /// The push was rejected.
    Rejected(Rejection),
}

impl Outcome {
    /// The word in answers.
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::Delivered => "delivered",
            Outcome::Stored => "stored",
            Outcome::Expired => "expired",
            Outcome::Rejected(_) => "rejected",
        }
    }
}

/// Report of a device about what its user did with a push.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum PushReport {
    /// The user opened it.
    Opened = 1,
    /// The user dismissed it.
    Dismissed = 2,
}

impl PushReport {
    /// All of them.
    pub const ALL: [PushReport; 2] = [PushReport::Opened, PushReport::Dismissed];

    /// Beginning of a Report of MIOP that is about a push, see [`PushReport::of_body`].
    pub const BODY_HEAD: [u8; 6] = *b"\0miop\0";

    /// The word in requests and answers.
    pub const fn name(self) -> &'static str {
        match self {
            PushReport::Opened => "opened",
            PushReport::Dismissed => "dismissed",
        }
    }

    /// The report with this number.
    pub fn from_byte(byte: u8) -> Option<PushReport> {
        PushReport::ALL.into_iter().find(|&report| report as u8 == byte)
    }

    /// Report about a push in a body, if its body has the form of such a report: the head, the
    /// number of the report, the id of the push (big endian). Every other body is the
    /// application's.
    pub fn of_body(body: &[u8]) -> Option<(PushReport, MessageId)> {
        let (report, id) = body.strip_prefix(&PushReport::BODY_HEAD)?.split_first()?;
        let id = u64::from_be_bytes(id.try_into().ok()?);
        Some((PushReport::from_byte(*report)?, MessageId(id)))
    }
}

/// Step of a push at a device: an outcome, or a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PushStep {
    /// The push was stored, or it ended.
    Outcome(Outcome),
    /// The device reported what its user did.
    Report(PushReport),
}

impl PushStep {
    /// Kind of the step.
    pub const fn kind(self) -> StepKind {
        match self {
            PushStep::Outcome(Outcome::Stored) => StepKind::Stored,
            PushStep::Outcome(Outcome::Delivered) => StepKind::Delivered,
            PushStep::Outcome(Outcome::Expired) => StepKind::Expired,
            PushStep::Outcome(Outcome::Rejected(Rejection::Cancelled)) => StepKind::Cancelled,
            PushStep::Outcome(Outcome::Rejected(_)) => StepKind::Rejected,
            PushStep::Report(PushReport::Opened) => StepKind::Opened,
            PushStep::Report(PushReport::Dismissed) => StepKind::Dismissed,
        }
    }

    /// The outcome with which the push ended, if it did.
    pub fn end(self) -> Option<Outcome> {
        match self {
            PushStep::Outcome(outcome) => Some(outcome).filter(|it| *it != Outcome::Stored),
            PushStep::Report(_) => None,
        }
    }
}

/// Kinds of outcomes of a push at a device, and of reports about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum StepKind {
    /// Stored, and waiting for the device.
    Stored,
    /// Acknowledged.
    Delivered,
    /// Expired before that.
    Expired,
    /// Rejected, for whatever reason but a cancel.
    Rejected,
    /// Recalled by a cancel.
    Cancelled,
    /// Opened by the user.
    Opened,
    /// Dismissed by the user.
    Dismissed,
}

impl StepKind {
    /// All kinds, by number.
    pub const ALL: [StepKind; 7] = [
        StepKind::Stored,
        StepKind::Delivered,
        StepKind::Expired,
        StepKind::Rejected,
        StepKind::Cancelled,
        StepKind::Opened,
        StepKind::Dismissed,
    ];

    /// The word in requests and answers.
    pub const fn name(self) -> &'static str {
        match self {
            StepKind::Stored => "stored",
            StepKind::Delivered => "delivered",
            StepKind::Expired => "expired",
            StepKind::Rejected => "rejected",
            StepKind::Cancelled => "cancelled",
            StepKind::Opened => "opened",
            StepKind::Dismissed => "dismissed",
        }
    }
}

/// Reason why a push was not taken on, or was given up.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Rejection {
    /// The product accepts pushes only for devices that have bound once, and this one has not.
    UnknownDevice,
    /// The device is blocked.
    DeviceBlocked,
    /// The device's offline queue is full and the push may not evict an older one.
    QueueFull,
    /// Evicted from a full queue by newer pushes.
    Evicted,
    /// Replaced by a newer push with the same collapse key.
    Collapsed,
    /// The server's store has no room left.
    StoreFull,
    /// The device's log failed: it takes nothing until the disk is mended and the server restarted.
    StoreFailed,
    /// The body is larger than this device's protocol version can carry.
    TooLarge,
    /// A queue between threads was full; try again.
    Busy,
    /// The push was cancelled before the device had it.
    Cancelled,
    /// The device does not belong to the push's user, or belongs to another user by now.
    UserChanged,
}

impl Rejection {
    /// All reasons. Their places are stored.
    pub const ALL: [Rejection; 11] = [
        Rejection::UnknownDevice,
        Rejection::DeviceBlocked,
        Rejection::QueueFull,
        Rejection::Evicted,
        Rejection::Collapsed,
        Rejection::StoreFull,
        Rejection::StoreFailed,
        Rejection::TooLarge,
        Rejection::Busy,
        Rejection::Cancelled,
        Rejection::UserChanged,
    ];

    /// The word in answers and counters.
    pub const fn name(self) -> &'static str {
        match self {
            Rejection::UnknownDevice => "unknown_device",
            Rejection::DeviceBlocked => "device_blocked",
            Rejection::QueueFull => "queue_full",
            Rejection::Evicted => "evicted",
            Rejection::Collapsed => "collapsed",
            Rejection::StoreFull => "store_full",
            Rejection::StoreFailed => "store_failed",
            Rejection::TooLarge => "too_large",
            Rejection::Busy => "busy",
            Rejection::Cancelled => "cancelled",
            Rejection::UserChanged => "user_changed",
        }
    }
}

/// A push in the queue of one device, as the store keeps it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitingPush {
    /// The device.
    pub device: DeviceId,
    /// The push.
    pub push: Arc<Push>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(expire_at: u32, collapse: Option<&str>) -> Push {
        Push {
            id: MessageId(1),
            product: ProductKey::parse("shop").expect("allowed"),
            app_id: 1,
            body: [7; 10].into(),
            collapse: collapse.map(Box::from),
            expire_at,
            priority: Priority::Normal,
            silent: false,
            notifies: false,
        }
    }

    #[test]
    fn a_push_is_over_at_its_second_and_one_for_now_is_not_stored() {
        let timed = push(100, None);
        assert!(timed.stores() && !timed.expired(99) && timed.expired(100) && timed.expired(101));
        let now_or_never = push(0, None);
        assert!(!now_or_never.stores() && !now_or_never.expired(0) && !now_or_never.expired(9));
    }

    #[test]
    fn a_push_weighs_its_body_its_key_and_its_place() {
        assert_eq!((push(0, None).weight(), push(0, Some("key")).weight()), (74, 77));
    }

    #[test]
    fn only_a_body_of_one_form_is_a_report_about_a_push() {
        let body = b"\0miop\0\x01\0\0\0\0\0\0\x01\x02";
        let opened = Some((PushReport::Opened, MessageId(258)));
        assert_eq!(PushReport::of_body(body), opened);
        assert!((0..body.len()).all(|cut| PushReport::of_body(&body[..cut]).is_none()));
        assert_eq!(PushReport::of_body(&[&body[..], b"x"].concat()), None);
        for wrong in [0, 3, 255] {
            assert_eq!(PushReport::of_body(&[&body[..6], &[wrong], &body[7..]].concat()), None);
        }
        assert!(StepKind::ALL.iter().enumerate().all(|(at, kind)| *kind as usize == at));
    }

    #[test]
    fn outcomes_are_told_in_words() {
        use Outcome::{Delivered, Expired, Rejected, Stored};
        let words = [Delivered, Stored, Expired, Rejected(Rejection::Busy)].map(Outcome::name);
        assert_eq!(words, ["delivered", "stored", "expired", "rejected"]);
        assert_eq!(Rejection::TooLarge.name(), "too_large");
        assert_eq!(Rejection::StoreFailed.name(), "store_failed");
    }
}
