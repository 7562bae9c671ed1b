//! Result codes, one byte on the wire (MIOP 9).
//!
//! 2x are permanent, 3x ask to come back, 4x end a session. Classic frames carry the same numbers
//! in the property `r`.

use model::request::Refusal;

macro_rules! codes {
    ($($variant:ident $number:literal $meaning:literal;)+) => {
        /// Results of frames, and reasons why a connection ends.
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
    Resumed 1 "Done; the earlier session continues.";
    BadFrame 10 "A malformed frame.";
    Version 11 "The protocol version is not supported.";
    TooLarge 12 "A frame is larger than allowed.";
    AuthFailed 20 "The proof was refused.";
    ClockSkew 21 "The device's clock differs too much from the server's.";
    Replay 22 "The nonce was used before.";
    UnknownProduct 23 "Unknown product.";
    DeviceBlocked 24 "The device is blocked.";
    Busy 30 "Too many requests at once, or the server is full: reconnect later.";
    Quota 31 "A quota is exceeded.";
    Draining 32 "The server is shutting down.";
    Redirect 33 "Connect to another server.";
    Replaced 40 "A newer connection of the device took over.";
    AdminKick 41 "An operator ended the connection.";
    HeartbeatTimeout 42 "Nothing was received for too long.";
    SlowConsumer 43 "The device did not read.";
    BindTimeout 44 "No Bind came in time.";
    Internal 50 "A defect of the server.";
}

impl ResultCode {
    /// The number on the wire.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The code of a refusal by the hub.
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

    /// Whether the device should reconnect.
    pub const fn passes(self) -> bool {
        matches!(self.number(), 30..=33)
    }
}
