//! IM: Holdline's own protocol of instant messaging, as pure machines.
//!
//! [`codec`] turns bytes into frames and back, [`server::Server`] and [`client::Client`] are the
//! two ends of a connection. Frames are messages of Protocol Buffers behind their length, as every
//! library of those writes them; `schema/im.proto` has their fields, and [`schema`] what stands
//! there. Nothing here knows a socket, a clock, an account's contents or another connection. For
//! any bytes, a machine answers, waits or ends with a reason; it keeps nothing of them between
//! calls.
//!
//! `docs/wire/im.md` describes the protocol; clauses are cited as `IM 4.2`.

use codec::frame::{client_bytes_max, server_bytes_max};
use model::limits::Limits;
use model::link::{FrameLimits, Protocol, WireProfile};

pub mod client;
pub mod codec;
pub mod schema;
pub mod server;

/// IM as the transport sees it (IM 1).
pub const WIRE: WireProfile = WireProfile {
    protocol: Protocol::Im,
    // What goes on otherwise is still IM: its machine says what is wrong.
    begins: |bytes| bytes[0] == codec::frame::PREFACE[0],
    begins_alone: |_| false,
    alpn: &["holdline-im/1"],
    subprotocols: &["holdline-im.1"],
    frames: frame_limits,
    asks_tls: false,
    text_messages: false,
};

fn frame_limits(limits: &Limits) -> FrameLimits {
    let (out, frame) = (limits.out_bytes_max as usize, server_bytes_max(limits));
    FrameLimits {
        unbound_bytes_max: limits.frame_bytes_unbound_max as usize,
        bytes_max: client_bytes_max(limits),
        // The machine goes by the backlog and may add one frame to it: one page is not a slow
        // reader.
        out_bytes_max: out.max(frame) + frame,
        out_frames_max: limits.out_frames_max as usize,
        counts_shared_alone: true,
        backlog_bytes_max: out / 2,
    }
}

#[cfg(test)]
mod fuzz;
