//! Result codes, one byte on the wire (MIOP 9).
//!
//! 2x are permanent, 3x ask to come back, 4x end a session. Classic frames carry the same numbers
//! in the property `r`.

use model::request::Refusal;

macro_rules! codes {
    ($($variant:ident $number:literal $meaning:literal;)+) => {
        /// How something ended.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        pub enum ResultCode { $(#[doc = $meaning] $variant = $number,)+ }

        impl ResultCode {
            /// All codes with their meaning, in order.
            pub const ALL: &'static [(ResultCode, &'static str)] =
                &[$((ResultCode::$variant, $meaning),)+];
        }
    };
}

codes! {
    Ok 0 "Done.";
    Resumed 1 "Done, and the earlier session goes on.";
    BadFrame 10 "A frame broke the rules.";
    Version 11 "The version is not served.";
    TooLarge 12 "Larger than allowed.";
    AuthFailed 20 "The proof was refused.";
    ClockSkew 21 "The device's clock is too far off.";
    Replay 22 "The nonce was used before.";
    UnknownProduct 23 "No such product.";
    DeviceBlocked 24 "The device is blocked.";
    Busy 30 "Too much at once, or full.";
    Quota 31 "More than the quota allows.";
    Draining 32 "The server is going.";
    Redirect 33 "Go elsewhere.";
    Replaced 40 "A newer connection took the device over.";
    AdminKick 41 "An operator said so.";
    HeartbeatTimeout 42 "Nothing was heard for too long.";
    SlowConsumer 43 "The device did not read.";
    BindTimeout 44 "No Bind came in time.";
    Internal 50 "A defect of the server.";
}

impl ResultCode {
    /// The number on the wire.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// What the hub's no is on the wire.
    pub const fn of(why: Refusal) -> ResultCode {
        match why {
            Refusal::AuthFailed => ResultCode::AuthFailed,
            Refusal::ClockSkew => ResultCode::ClockSkew,
            Refusal::Replayed => ResultCode::Replay,
            Refusal::UnknownProduct => ResultCode::UnknownProduct,
            // Firmware in the field knows no other number for it.
            Refusal::DeviceBlocked | Refusal::Banned => ResultCode::DeviceBlocked,
            Refusal::Busy | Refusal::Full => ResultCode::Busy,
            Refusal::Quota => ResultCode::Quota,
            Refusal::Draining => ResultCode::Draining,
            Refusal::Redirect => ResultCode::Redirect,
            Refusal::Replaced => ResultCode::Replaced,
            Refusal::AdminKick => ResultCode::AdminKick,
            Refusal::Malformed => ResultCode::BadFrame,
        }
    }

    /// Whether the device is meant to try again.
    pub const fn passes(self) -> bool {
        matches!(self.number(), 30..=33)
    }
}
