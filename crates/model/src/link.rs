//! Facts about a connection besides its bytes.
//!
//! Filled in by `net` while the layers below the protocol open (PROXY header, TLS, WebSocket), and
//! shown to a machine whenever it receives.

use crate::limits::Limits;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The protocols that one listener can tell apart by their first bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Protocol {
    /// MIOP: `00 02` to `00 07`.
    Miop,
    /// MQTT: `10`, a CONNECT.
    Mqtt,
    /// XMPP: `<`.
    Xmpp,
    /// HTTP: an ASCII method; WebSocket begins so.
    Http,
    /// TLS: `16 03`. A layer: what is inside is sniffed again.
    Tls,
}

impl Protocol {
    /// How many there are.
    pub const COUNT: usize = 5;

    /// The name in logs, metrics and configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::Miop => "miop",
            Protocol::Mqtt => "mqtt",
            Protocol::Xmpp => "xmpp",
            Protocol::Http => "http",
            Protocol::Tls => "tls",
        }
    }
}

/// A protocol as the transport beneath it sees it. Its crate declares one (`WIRE`), a shard's logic
/// lists those that it serves, and `net` knows no more of any protocol.
pub struct WireProfile {
    /// Which one it is.
    pub protocol: Protocol,
    /// Whether a connection that begins with these bytes, at least one, speaks it. Of the protocols
    /// that one process serves no two may say so.
    pub begins: fn(&[u8]) -> bool,
    /// The same where a listener serves it alone: what begins so is wrong, and its machine knows
    /// best how to say so.
    pub begins_alone: fn(&[u8]) -> bool,
    /// Its names in ALPN (RFC 7301).
    pub alpn: &'static [&'static str],
    /// Its names in `Sec-WebSocket-Protocol` (RFC 6455 1.9). A caller offers the first; with none
    /// it is not served in WebSockets.
    pub subprotocols: &'static [&'static str],
    /// How much of it may be under way on a connection.
    pub frames: fn(&Limits) -> FrameLimits,
}

/// Limits of a connection's frames (packets, stanzas), bytes where nothing else is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FrameLimits {
    /// The largest that a peer may send before it is let in.
    pub unbound_bytes_max: usize,
    /// The largest that it may send afterwards.
    pub bytes_max: usize,
    /// What may wait for a peer that does not read. Beyond: `SlowConsumer`.
    pub out_bytes_max: usize,
    /// Frames that may wait.
    pub out_frames_max: usize,
    /// Small frames, which no other connection shares, count by their bytes alone.
    pub counts_shared_alone: bool,
    /// What may wait before its machine drops what it may drop ([`crate::machine::Outbox`]).
    pub backlog_bytes_max: usize,
}

/// Where connections come from, as far as limits tell apart: an IPv4 address, or a /64 of IPv6,
/// which is the least that a subscriber is given (RFC 6177).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Source(u64);

impl Source {
    /// The source of an address.
    pub fn of(address: IpAddr) -> Source {
        match address.to_canonical() {
            // No network of IPv6 that is in use begins so.
            IpAddr::V4(address) => Source(0xffff << 32 | u64::from(u32::from(address))),
            IpAddr::V6(address) => Source((u128::from(address) >> 64) as u64),
        }
    }

    /// Its bytes, to be hashed.
    pub fn bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }
}

/// Facts that TLS established.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsFacts {
    /// Identity in the client's certificate, verified: first DNS or URI of its SAN, else the CN.
    pub identity: Option<Box<str>>,
}

/// Facts known of a connection beside its bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link {
    /// The peer's address, from the PROXY header when the listener trusts one.
    pub peer: SocketAddr,
    /// It is of this machine: what its socket says, never a header. Nobody is who comes through a
    /// listener of PROXY headers, nor a browser that was sent here under another name.
    pub near: bool,
    /// What the bytes are.
    pub protocol: Protocol,
    /// Present when the connection is encrypted.
    pub tls: Option<TlsFacts>,
    /// Whether the frames travel in WebSocket messages.
    pub web_socket: bool,
    /// The server holds as many connections as it may: say so, and let this one go.
    pub crowded: bool,
    /// The listener it came through, by its place in the configuration.
    pub door: u8,
}

impl Link {
    /// A plain connection from this machine.
    pub const fn loopback(protocol: Protocol) -> Link {
        let peer = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        Link { peer, near: true, protocol, tls: None, web_socket: false, crowded: false, door: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_an_address_or_a_network_of_ipv6() {
        let of = |text: &str| Source::of(text.parse().expect("an address"));
        assert_eq!(of("10.0.0.7"), of("::ffff:10.0.0.7"));
        assert_ne!(of("10.0.0.7"), of("10.0.0.8"));
        assert_eq!(of("2001:db8:0:1::1"), of("2001:db8:0:1:ffff::2"));
        assert_ne!(of("2001:db8:0:1::1"), of("2001:db8:0:2::1"));
    }

    #[test]
    fn a_source_is_its_bytes() {
        let of = |text: &str| Source::of(text.parse().expect("an address")).bytes();
        assert_eq!(of("10.0.0.7"), [0, 0, 0xff, 0xff, 10, 0, 0, 7]);
        assert_eq!(of("2001:db8:0:1::9"), [0x20, 1, 0xd, 0xb8, 0, 0, 0, 1]);
    }

    #[test]
    fn protocols_have_names_and_this_machine_is_near() {
        let names = [Protocol::Miop, Protocol::Mqtt, Protocol::Xmpp, Protocol::Http, Protocol::Tls];
        assert_eq!(names.map(Protocol::name), ["miop", "mqtt", "xmpp", "http", "tls"]);
        let link = Link::loopback(Protocol::Mqtt);
        assert!(link.near && link.peer.ip().is_loopback() && link.tls.is_none());
    }
}
