//! MQTT 3.1, 3.1.1 and 5.0, as pure code.
//!
//! [`codec`] turns bytes into packets and back, for both ends of a connection: a server decodes
//! what clients send, a client what servers send. For any bytes, it answers with a packet, with how
//! many more bytes it needs, or with one fault that names the clause it breaks and the answer it
//! demands. [`server`] and [`client`] are one side of one connection each, as pure state machines:
//! packets become words of the model, and words packets. Nothing here knows a socket, a clock, a
//! session's contents or another connection.
//!
//! Clauses are cited as `MQTT5 3.3.1-4` (the numbered statements of 5.0), `MQTT3 2.3.1-1` (those
//! of 3.1.1) and `MQTT31 3.1` (sections of 3.1, which numbers none). `statements.txt` lists every
//! numbered statement that is kept here with its place and its test, and
//! docs/mqtt-statements.md those of every crate.
#![forbid(unsafe_code)]

use model::limits::Limits;
use model::link::{FrameLimits, Protocol, WireProfile};

pub mod client;
pub mod codec;
pub mod server;

/// MQTT as the transport sees it.
pub const WIRE: WireProfile = WireProfile {
    protocol: Protocol::Mqtt,
    begins: |bytes| bytes[0] == 0x10,
    // A CONNECT with flags in its first byte: they are reserved (MQTT5 2.1.3-1).
    begins_alone: |bytes| bytes[0] >> 4 == 1,
    // As IANA lists it.
    alpn: &["mqtt"],
    // One name for all versions; some clients have one of their own for 3.1.
    subprotocols: &["mqtt", "mqttv3.1"],
    frames: frame_limits,
    asks_tls: false,
    text_messages: false,
};

fn frame_limits(limits: &Limits) -> FrameLimits {
    let topics = &limits.topics;
    let packet = topics.packet_bytes_max as usize;
    FrameLimits {
        unbound_bytes_max: topics.packet_bytes_max.min(topics.connect_bytes_max) as usize,
        bytes_max: packet,
        // The machine goes by the backlog and may add one packet to it. One large packet is not a
        // slow reader, nor are one that may be dropped and one that may not.
        out_bytes_max: (limits.out_bytes_max as usize).max(packet) + packet,
        out_frames_max: limits.out_frames_max as usize,
        counts_shared_alone: true,
        backlog_bytes_max: topics.qos0_backlog_bytes_max as usize,
    }
}

#[cfg(test)]
mod fuzz;
