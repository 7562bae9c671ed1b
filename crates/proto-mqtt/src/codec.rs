//! Bytes to packets and packets to bytes, for both directions and all three versions.
//!
//! [`decode`] is shown the front of a byte string and says: more is needed, one packet of so many
//! bytes, or a [`PacketFault`]. Packets borrow from the bytes; the path of PUBLISH, its
//! acknowledgements and PINGREQ allocates nothing. The length in the fixed header is held against
//! the limit before the rest has arrived. Which packet may come when is not known here, nor what a
//! session is: that is the machines' part.
//!
//! Read [`fault`] for what can be wrong and how it is answered, [`property`] for the properties
//! of 5.0, [`fanout`] for how one message becomes many packets.

pub mod ack;
pub mod auth;
pub mod block;
pub mod connack;
pub mod connect;
pub mod fanout;
pub mod fault;
pub mod header;
pub mod kind;
pub mod name;
pub mod packet;
pub mod property;
pub mod publish;
pub mod reader;
pub mod reason;
mod scan;
pub mod subscribe;
pub mod writer;

pub use fault::{FaultAnswer, FaultSet, PacketFault};
pub use kind::PacketKind;
pub use model::topic::Qos;
pub use packet::{DecodeStep, Packet, decode, decode_first};
pub use reason::ReasonCode;
pub use writer::{Terms, Unsent};

/// The versions that are served.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[repr(u8)]
pub enum Version {
    /// MQTT 3.1, protocol name `MQIsdp`.
    V31 = 3,
    /// MQTT 3.1.1.
    V311 = 4,
    /// MQTT 5.0.
    V5 = 5,
}

impl Version {
    /// All versions, oldest first.
    pub const ALL: [Version; 3] = [Version::V31, Version::V311, Version::V5];

    /// The name in logs, events and queries.
    pub const fn name(self) -> &'static str {
        match self {
            Version::V31 => "mqtt31",
            Version::V311 => "mqtt311",
            Version::V5 => "mqtt5",
        }
    }

    /// The protocol level in CONNECT (MQTT5 3.1.2.2).
    pub const fn level(self) -> u8 {
        self as u8
    }

    /// The protocol name in CONNECT (MQTT5 3.1.2-1, MQTT31 3.1).
    pub const fn protocol_name(self) -> &'static str {
        match self {
            Version::V31 => "MQIsdp",
            Version::V311 | Version::V5 => "MQTT",
        }
    }

    /// Whether packets carry properties and reason codes.
    pub const fn has_properties(self) -> bool {
        matches!(self, Version::V5)
    }
}

/// End of a connection that sent a packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Sender {
    /// The end that sent CONNECT.
    Client,
    /// The other one.
    Server,
}

/// Longest packet that the fixed header can announce, bytes, header included (MQTT5 1.5.5).
pub const PACKET_BYTES_MAX: u32 = 5 + varint_max();

/// Longest client identifier of 3.1, bytes; later versions leave it to the server (MQTT31 3.1).
pub const CLIENT_ID_BYTES_V31: usize = 23;

const fn varint_max() -> u32 {
    268_435_455
}

/// Rules by which bytes are decoded: their sender, the limits, and the tolerated faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DecodeRules {
    /// Sender of the bytes.
    pub sender: Sender,
    /// The version that CONNECT agreed on. CONNECT itself brings its own.
    pub version: Version,
    /// Largest packet taken, bytes, fixed header included. A larger one is a fault.
    pub packet_bytes_max: u32,
    /// Longest topic name or filter, bytes. A longer one is a fault.
    pub topic_bytes_max: u16,
    /// Most levels of a topic name or filter. One more is a fault.
    pub topic_levels_max: u32,
    /// Longest client identifier, bytes. A longer one is refused.
    pub client_id_bytes_max: u16,
    /// Faults that are reported and let pass; only those of [`FaultSet::TOLERABLE`] can be.
    pub tolerate: FaultSet,
    /// Whether control characters and non-characters in text are a fault (MQTT5 1.5.4: should).
    pub strict_text: bool,
}

impl DecodeRules {
    /// To the letter of the standard, with the standard's own limits.
    pub const fn strict(sender: Sender, version: Version) -> DecodeRules {
        DecodeRules {
            sender,
            version,
            packet_bytes_max: PACKET_BYTES_MAX,
            topic_bytes_max: u16::MAX,
            topic_levels_max: u32::MAX,
            client_id_bytes_max: u16::MAX,
            tolerate: FaultSet::NONE,
            strict_text: false,
        }
    }

    /// As [`strict`](Self::strict), but tolerates every fault of old devices that can be tolerated
    /// (research/mqtt.md 7).
    pub const fn lenient(sender: Sender, version: Version) -> DecodeRules {
        let strict = DecodeRules::strict(sender, version);
        DecodeRules { tolerate: FaultSet::TOLERABLE, ..strict }
    }
}

#[cfg(test)]
pub(crate) mod tests;
