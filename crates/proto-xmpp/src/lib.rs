//! XMPP: a server's side of a stream as a pure machine, and what it is made of.
//!
//! [`xml`] finds the pieces of a stream and reads them, [`stream`], [`stanza`] and
//! [`sasl`] are what is said of streams, stanzas and logins, [`bosh`] carries a stream in requests
//! of HTTP, [`archive`] is what is asked of archives, `forms` what forms are made of, [`jid`] holds
//! addresses to the rules of accounts, [`moment`] reads times, [`moving`] what other servers have
//! kept, [`render`] turns messages of the model into stanzas and back, [`message`] is what they can
//! be besides texts, [`claims`] lists what of XMPP is done, and [`server::Server`] is the machine.
//! Nothing here knows a socket, a clock, an account's contents or another connection; whatever
//! bytes come, they are answered, more is waited for, or the stream ends with an error.
//!
//! `docs/xmpp.md` lists the supported parts of XMPP.

use model::limits::Limits;
use model::link::{FrameLimits, Protocol, WireProfile};

pub mod archive;
pub mod bosh;
pub mod claims;
mod external;
pub mod fault;
mod forms;
pub mod jid;
pub mod message;
pub mod moment;
pub mod moving;
pub mod peer;
pub mod render;
pub mod sasl;
pub mod server;
pub mod stanza;
pub mod stream;
pub mod xml;

/// XMPP as the transport sees it.
pub const WIRE: WireProfile = WireProfile {
    protocol: Protocol::Xmpp,
    // What goes on otherwise is still XML, and its machine says what is wrong.
    begins: |bytes| bytes[0] == b'<',
    begins_alone: |bytes| bytes[0].is_ascii_whitespace(),
    alpn: &["xmpp-client"],
    subprotocols: &["xmpp"],
    frames: frame_limits,
    asks_tls: true,
    text_messages: true,
};

/// The longest stanza that is made of a message, bytes: each byte of its text may have to be
/// written as six.
fn written_bytes_max(limits: &Limits) -> usize {
    let chat = &limits.chat;
    6 * chat.text_bytes_max as usize + chat.extra_bytes_max as usize + 12 * 1024
}

fn frame_limits(limits: &Limits) -> FrameLimits {
    let (out, written) = (limits.out_bytes_max as usize, written_bytes_max(limits));
    FrameLimits {
        unbound_bytes_max: limits.frame_bytes_unbound_max as usize,
        bytes_max: limits.chat.stanza_bytes_max as usize,
        // The machine goes by the backlog, and may add to it a part of a page.
        out_bytes_max: out.max(written) + written,
        out_frames_max: limits.out_frames_max as usize,
        counts_shared_alone: true,
        backlog_bytes_max: out / 2,
    }
}

#[cfg(test)]
mod fuzz;
