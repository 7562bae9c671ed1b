//! Observations of a client machine, and its orders: the laboratory's words.
//!
//! All protocols share these words, so that a scenario is written once.

use crate::id::MessageId;
use std::sync::Arc;

/// Bytes of a message's front that are handed on.
pub const HEAD_BYTES: usize = 36;

/// Bytes behind a message's front that are handed on with an MQTT message.
pub const NOTE_BYTES: usize = 8;

/// Properties that the protocol gave for a message besides its body: the laboratory compares them
/// with those that the sender wrote into the body.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum DeliveryClaim {
    /// No property that could be compared.
    #[default]
    Nothing,
    /// MQTT's PUBLISH packet.
    Publish {
        /// CRC-32 of the topic's name.
        topic: u32,
        /// QoS of this delivery.
        qos: u8,
        /// The RETAIN flag.
        retain: bool,
        /// The bytes behind the front of the body, zeros behind a shorter one.
        note: [u8; NOTE_BYTES],
    },
    /// CRC-32 of the sender's account, without its domain (IM, XMPP).
    Sender(u32),
}

/// Observation of a simulated client. The driver of the client takes the times.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Observation {
    /// The server accepted its identity.
    Bound {
        /// An earlier session goes on.
        resumed: bool,
        /// Agreed heartbeat, seconds.
        heartbeat_s: u16,
        /// Stored pushes announced.
        offline_count: u32,
    },
    /// The server refused it, with the protocol's own code.
    Refused {
        /// The code.
        code: u32,
        /// Milliseconds after which to try again; zero: unknown or never.
        retry_after_ms: u32,
    },
    /// A heartbeat was answered.
    Pong,
    /// A message arrived (and was acknowledged, if the protocol wants that).
    Message {
        /// Its id.
        id: MessageId,
        /// Its body.
        body: Box<[u8]>,
        /// The server says it may have been sent before.
        again: bool,
    },
    /// The server took responsibility for what we sent, up to this number.
    Taken {
        /// Number that we gave the message.
        seq: u32,
    },
    /// The server took responsibility for this one; some before it have no answer yet.
    TakenAlone {
        /// Number that we gave the message.
        seq: u32,
    },
    /// The client wrote all messages that need no answer up to this number; some that need one may
    /// still be under way.
    Written {
        /// Number that we gave the message.
        seq: u32,
    },
    /// The server did not take what we sent.
    NotTaken {
        /// Number that we gave the message.
        seq: u32,
        /// The protocol's code.
        code: u32,
    },
    /// The server ended our session.
    Kicked {
        /// The protocol's code.
        code: u32,
    },
    /// The server asks us to leave and come back, perhaps elsewhere.
    GoAway {
        /// Milliseconds.
        retry_after_ms: u32,
        /// Where to; empty: here.
        addrs: Vec<String>,
    },
    /// The server answered a pull; this many pushes remain.
    Pulled {
        /// Stored messages not sent yet.
        remaining: u32,
    },
    /// Stored messages came that it had asked for; each was handed on before.
    Fetched {
        /// Number of messages.
        messages: u32,
        /// Number of messages still to come. The client fetches them by itself.
        behind: u32,
    },
    /// A message arrived, of which only the front is handed on: nothing is allocated for it.
    Heard {
        /// Bytes of its body.
        bytes: u32,
        /// The front of its body, zeros behind a shorter one.
        head: [u8; HEAD_BYTES],
        /// Checksum (CRC-32) of the bytes behind the front.
        rest: u32,
        /// The server says it may have been sent before.
        again: bool,
        /// Properties that the protocol gave for the message.
        claim: DeliveryClaim,
    },
    /// The server says that it did not send messages that were for it.
    Skipped {
        /// Number of messages.
        messages: u32,
    },
    /// The server answered a subscription, or the end of one.
    Subscribed {
        /// Filters that were granted.
        granted: u16,
        /// Number of them granted at QoS 0, 1 and 2 (MQTT).
        at_qos: [u16; 3],
        /// The protocol's codes of those that were not.
        refused: Box<[u8]>,
    },
    /// The server acknowledged more than was sent to it.
    Overcounted,
}

/// Order to a simulated client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Send a heartbeat.
    Ping,
    /// Send something upstream.
    Report(Box<[u8]>),
    /// Fetch this many stored messages after the last one seen.
    Pull(u16),
    /// Publish to a topic of the client's script. Counts among what is sent upstream.
    Publish {
        /// Index of the topic in the script.
        topic: u16,
        /// Client whose topic it is: the number in the topic's formula; `None`: the client's own.
        number: Option<u32>,
        /// 0, 1 or 2.
        qos: u8,
        /// Whether the broker retains the message for later subscribers.
        retain: bool,
        /// Body of the message.
        body: Arc<[u8]>,
    },
    /// Make the subscriptions of the client's script, or end them.
    Subscribe(bool),
    /// Say farewell.
    Unbind,
}
