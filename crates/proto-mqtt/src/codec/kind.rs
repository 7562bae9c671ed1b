//! The packet types: number, name, flags of the fixed header, who may send them.
//!
//! Declared once, in the table below. Number 0 is reserved; 15 is AUTH in 5.0 and reserved before
//! (MQTT5 2.1.2, MQTT3 2.2.1).

use super::{Sender, Version};

macro_rules! kinds {
    ($($variant:ident $number:literal $name:literal $flags:literal $senders:literal;)+) => {
        /// A packet type.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum PacketKind { $(#[doc = $name] $variant = $number,)+ }

        impl PacketKind {
            /// All of them, in the order of their numbers.
            pub const ALL: &'static [PacketKind] = &[$(PacketKind::$variant,)+];

            /// The type with this number; `None` for 0 and what does not fit four bits.
            pub const fn of(number: u8) -> Option<PacketKind> {
                match number { $($number => Some(PacketKind::$variant),)+ _ => None }
            }

            /// The name in vectors, logs and counters.
            pub const fn name(self) -> &'static str {
                match self { $(PacketKind::$variant => $name,)+ }
            }

            /// The lower four bits of the first byte where they are fixed (MQTT5 2.1.3-1); those
            /// of PUBLISH are not looked at.
            pub const fn flags(self) -> u8 {
                match self { $(PacketKind::$variant => $flags,)+ }
            }

            /// Types that clients send, one bit each.
            const OF_CLIENTS: u16 = 0 $(| sent_by(b'c', $senders) << $number)+;
            /// Types that servers send.
            const OF_SERVERS: u16 = 0 $(| sent_by(b's', $senders) << $number)+;
        }
    };
}

kinds! {
    Connect 1 "connect" 0 "c";
    Connack 2 "connack" 0 "s";
    Publish 3 "publish" 0 "cs";
    Puback 4 "puback" 0 "cs";
    Pubrec 5 "pubrec" 0 "cs";
    Pubrel 6 "pubrel" 2 "cs";
    Pubcomp 7 "pubcomp" 0 "cs";
    Subscribe 8 "subscribe" 2 "c";
    Suback 9 "suback" 0 "s";
    Unsubscribe 10 "unsubscribe" 2 "c";
    Unsuback 11 "unsuback" 0 "s";
    Pingreq 12 "pingreq" 0 "c";
    Pingresp 13 "pingresp" 0 "s";
    Disconnect 14 "disconnect" 0 "cs";
    Auth 15 "auth" 0 "cs";
}

impl PacketKind {
    /// Its number, the upper four bits of the first byte.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The first byte, where the flags are fixed.
    pub const fn first_byte(self) -> u8 {
        self.number() << 4 | self.flags()
    }

    /// Whether this end may send it in this version (MQTT5 2.1.2, MQTT3 2.2.1): AUTH, and
    /// DISCONNECT from a server, came with 5.0.
    #[inline]
    pub const fn may_come_from(self, sender: Sender, version: Version) -> bool {
        const DISCONNECT: u16 = 1 << PacketKind::Disconnect.number();
        let sent = match (sender, version) {
            (Sender::Client, _) => PacketKind::OF_CLIENTS,
            (Sender::Server, Version::V5) => PacketKind::OF_SERVERS,
            (Sender::Server, _) => PacketKind::OF_SERVERS & !DISCONNECT,
        };
        sent & (1 << self.number()) != 0
    }

    /// Whether flags other than [`PacketKind::flags`] are a fault. Version 3.1 calls most of them
    /// unused, and lets DUP stand on what has QoS 1 (MQTT31 2.1).
    #[inline]
    pub const fn flags_fit(self, flags: u8, version: Version) -> bool {
        match (self, version) {
            (PacketKind::Publish, _) => true,
            (_, Version::V31) => self.flags() == 0 || flags & 0b0110 == 0b0010,
            _ => flags == self.flags(),
        }
    }
}

/// 1 if `who` is among the senders.
const fn sent_by(who: u8, senders: &str) -> u16 {
    let senders = senders.as_bytes();
    (senders[0] == who || senders[senders.len() - 1] == who) as u16
}
