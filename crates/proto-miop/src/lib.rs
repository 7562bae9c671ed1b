//! MIOP, versions 5, 6 and 7: the push protocol of many devices, as pure machines.
//!
//! [`codec`] turns bytes into frames and back, [`server::Server`] and [`client::Client`] are the
//! two ends of a connection, [`sign`] says which bytes a device signs. Nothing here knows a socket,
//! the time, a product's secret (the client's own excepted) or another device. For any bytes, a
//! machine answers, waits or ends with a reason; it keeps nothing of them between calls.
//!
//! The format is drawn byte by byte in `docs/wire/miop.md`; clauses are cited as `MIOP 4.2`.

use model::limits::Limits;
use model::link::{FrameLimits, Protocol, WireProfile};

pub mod client;
pub mod codec;
pub mod server;
pub mod sign;

/// MIOP as the transport sees it.
pub const WIRE: WireProfile = WireProfile {
    protocol: Protocol::Miop,
    // A version that is not served is still MIOP: its machine says so.
    begins: |bytes| bytes[0] == 0x00,
    begins_alone: |_| false,
    alpn: &["miop/7"],
    subprotocols: &["miop"],
    frames: frame_limits,
    asks_tls: false,
    text_messages: false,
};

fn frame_limits(limits: &Limits) -> FrameLimits {
    FrameLimits {
        unbound_bytes_max: limits.frame_bytes_unbound_max as usize,
        bytes_max: limits.frame_bytes_max as usize,
        out_bytes_max: limits.out_bytes_max as usize,
        out_frames_max: limits.out_frames_max as usize,
        counts_shared_alone: false,
        backlog_bytes_max: usize::MAX,
    }
}

#[cfg(test)]
mod fuzz;
