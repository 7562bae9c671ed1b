//! Facts as the harness saw them: asked, answered, delivered, acknowledged, dropped.
//!
//! Facts carry the times of one clock. They are made by the threads that load the server and by
//! the audit's visits, and judged in [`super::Book`].

use crate::line::Came;
use crate::plan::DeviceNumber;

/// A time that never came.
pub const NEVER: u64 = u64::MAX;

/// An order of a push.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Order {
    /// Names it in this run; its body says so too.
    pub number: u64,
    /// Devices that the order is for.
    pub devices: Vec<DeviceNumber>,
    /// Whether it overtakes others.
    pub high: bool,
    /// Key by which it replaces others.
    pub collapse: Option<u8>,
    /// Seconds after which it may expire: short enough to happen in a run.
    pub short_s: Option<u32>,
    /// Bytes of its body.
    pub length: u32,
    /// Group whose tag it names; `None`: it names devices.
    pub group: Option<DeviceNumber>,
    /// Whether it has an idempotency key.
    pub keyed: bool,
    /// When it was asked for the first time.
    pub asked_at: u64,
}

/// Fate of a push at a device, as the server reported it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// The push is on stable storage.
    Stored,
    /// The device acknowledged it.
    Delivered,
    /// The push is over, or was not taken on.
    Not,
}

/// An acknowledgement that a device said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ack {
    /// Id of the push.
    pub id: u64,
    /// When it was known that the server had read it: a heartbeat behind it was answered.
    pub read_at: Option<u64>,
}

/// One connection of a device, from Bind to end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Visit {
    /// Device that was there.
    pub device: DeviceNumber,
    /// When its Bind was said.
    pub began_at: u64,
    /// Its session's number, if the version says.
    pub epoch: Option<u64>,
    /// Whether nothing was asked meanwhile, and all that waited has come.
    pub full: bool,
    /// Pushes that came.
    pub came: Vec<Came>,
    /// Acknowledgements that were sent.
    pub acks: Vec<Ack>,
}

/// Event of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fact {
    /// An order was asked.
    Asked(Order),
    /// A keyed order was asked once more, in this life.
    Again(u64),
    /// An order was answered.
    Answered {
        /// Number of the order.
        number: u64,
        /// The id that the server gave it.
        id: u64,
        /// Moment of it, microseconds of the harness's clock.
        at: u64,
        /// Fates of the push at its devices.
        fates: Vec<(DeviceNumber, Fate)>,
    },
    /// An order was refused: nothing was done.
    Refused(u64),
    /// The product of a device was dropped, with all that waited.
    Dropped {
        /// The device.
        device: DeviceNumber,
        /// When it was asked.
        asked_at: u64,
        /// When it was answered, or [`NEVER`].
        answered_at: u64,
    },
    /// A device was there.
    Visited(Visit),
    /// The server was told to end.
    Ended {
        /// Moment of it, microseconds of the harness's clock.
        at: u64,
        /// Way in which it was told to end.
        how: String,
    },
    /// A fact that is a violation by itself.
    Wrong(&'static str, String),
}
