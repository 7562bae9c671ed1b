//! The number that stands for a subscription in the table of filters: a session's slot and eight
//! bits of options, or a shared group's number.
//!
//! Numbers of one session are together in their order. The table does not know what they mean.

use model::topic::{Qos, SubscriptionOptions};

/// Bits of options.
pub(crate) mod option {
    /// The highest QoS.
    pub const QOS: u8 = 3;
    /// Leaves out messages that the session published itself.
    pub const NO_LOCAL: u8 = 1 << 2;
    /// Retain flags stay.
    pub const AS_PUBLISHED: u8 = 1 << 3;
    /// Each message is looked at, whether it may be read.
    pub const PARTLY: u8 = 1 << 4;
    /// Deliveries name it.
    pub const HAS_ID: u8 = 1 << 5;
    /// The filter is subscribed to exclusively.
    pub const EXCLUSIVE: u8 = 1 << 6;
}

/// The bit of a shared group's number.
pub(crate) const GROUP: u64 = 1 << 62;

/// Holder of a subscription that matches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Holder {
    /// The session in this slot, with these options.
    Session(u32, u8),
    /// The shared group with this number.
    Group(u32),
}

/// The options of a wish.
pub(crate) fn options_of(wish: &SubscriptionOptions) -> u8 {
    let bit = |on: bool, bit: u8| if on { bit } else { 0 };
    wish.qos as u8
        | bit(wish.no_local, option::NO_LOCAL)
        | bit(wish.retain_as_published, option::AS_PUBLISHED)
}

/// The QoS in options.
pub(crate) fn qos_of(options: u8) -> Qos {
    Qos::of(options & option::QOS).unwrap_or(Qos::ExactlyOnce)
}

/// The holder that a number stands for.
pub(crate) fn holder(number: u64) -> Holder {
    match number & GROUP {
        0 => Holder::Session((number >> 8) as u32, number as u8),
        _ => Holder::Group(number as u32),
    }
}

/// The number of a session in this slot, with these options.
pub(crate) fn number_of(slot: u32, options: u8) -> u64 {
    u64::from(slot) << 8 | u64::from(options)
}

/// The first number behind all that whoever has this one may have.
pub(crate) fn behind(number: u64) -> u64 {
    1 + match holder(number) {
        Holder::Session(slot, _) => number_of(slot, u8::MAX),
        Holder::Group(_) => number,
    }
}

/// The first number that whoever has this one may have.
pub(crate) fn first_of(number: u64) -> u64 {
    match holder(number) {
        Holder::Session(slot, _) => number_of(slot, 0),
        Holder::Group(_) => number,
    }
}
