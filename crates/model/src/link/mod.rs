//! Facts about a connection besides its bytes.
//!
//! Filled in by `net` while the layers below the protocol open (PROXY header, TLS, WebSocket), and
//! shown to a machine whenever it receives.

pub mod network;

use crate::limits::Limits;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

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
    /// Holdline's own protocol of instant messaging: `C4`.
    Im,
    /// HTTP: an ASCII method; WebSocket begins so.
    Http,
    /// TLS: `16 03`. A layer: what is inside is sniffed again.
    Tls,
}

impl Protocol {
    /// How many there are.
    pub const COUNT: usize = 6;

    /// The name in logs, metrics and configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::Miop => "miop",
            Protocol::Mqtt => "mqtt",
            Protocol::Xmpp => "xmpp",
            Protocol::Im => "im",
            Protocol::Http => "http",
            Protocol::Tls => "tls",
        }
    }
}

/// A protocol as the transport below it sees it. Its crate declares one (`WIRE`), a shard's logic
/// lists those that it serves, and `net` knows nothing else about a protocol.
pub struct WireProfile {
    /// The protocol.
    pub protocol: Protocol,
    /// Whether a connection that begins with these bytes, at least one, speaks it. Of the protocols
    /// that one process serves no two may say so.
    pub begins: fn(&[u8]) -> bool,
    /// As `begins`, on a listener that serves only this protocol: such input is wrong, and the
    /// protocol's machine can best say so.
    pub begins_alone: fn(&[u8]) -> bool,
    /// Its names in ALPN (RFC 7301).
    pub alpn: &'static [&'static str],
    /// Its names in `Sec-WebSocket-Protocol` (RFC 6455 1.9). A caller offers the first; with none
    /// it is not served in WebSockets.
    pub subprotocols: &'static [&'static str],
    /// How much of it may be under way on a connection.
    pub frames: fn(&Limits) -> FrameLimits,
    /// The machine needs from TLS all names of the peer, and the data that bind a login to its
    /// connection: [`TlsFacts::certificate`] and [`TlsFacts::bindings`] are stored for it.
    pub asks_tls: bool,
    /// In WebSockets it is text, and each of its messages one of theirs (RFC 7395 3): its machine
    /// says where they end ([`crate::machine::Outbox::end_message`]). The others are bytes.
    pub text_messages: bool,
}

/// Limits of a connection's frames (packets, stanzas), bytes where nothing else is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FrameLimits {
    /// The largest that a peer may send before it is let in.
    pub unbound_bytes_max: usize,
    /// The largest that it may send afterwards.
    pub bytes_max: usize,
    /// Bytes that may wait for a peer that does not read. Beyond: `SlowConsumer`.
    pub out_bytes_max: usize,
    /// Frames that may wait.
    pub out_frames_max: usize,
    /// Small frames, which no other connection shares, count by their bytes alone.
    pub counts_shared_alone: bool,
    /// Bytes that may wait before its machine drops messages ([`crate::machine::Outbox`]).
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
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct TlsFacts {
    /// Its version.
    pub version: TlsVersion,
    /// The cipher suite, by its number at IANA.
    pub suite: u16,
    /// The session was resumed (RFC 8446 2.2): no certificate was sent on this connection, and the
    /// facts about certificates are those of the first one.
    pub resumed: bool,
    /// The host that the client asked for (RFC 6066 3).
    pub server_name: Option<Box<str>>,
    /// The protocol that was agreed by ALPN (RFC 7301).
    pub alpn: Option<Box<str>>,
    /// Identity in the client's certificate, verified: first DNS or URI of its SAN, else the CN.
    pub identity: Option<Box<str>>,
    /// The peer's certificate, verified, for a protocol that asks ([`WireProfile::asks_tls`]).
    pub certificate: Option<Box<PeerCertificate>>,
    /// Channel bindings of this connection, for a protocol that asks.
    pub bindings: Option<Box<ChannelBindings>>,
}

/// Versions of TLS that are spoken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum TlsVersion {
    /// 1.2 (RFC 5246).
    V12,
    /// 1.3 (RFC 8446).
    #[default]
    V13,
}

impl TlsVersion {
    /// The name in logs and for people.
    pub const fn name(self) -> &'static str {
        match self {
            TlsVersion::V12 => "TLSv1.2",
            TlsVersion::V13 => "TLSv1.3",
        }
    }
}

/// Names in a peer's certificate, as its authority has confirmed them. They are as many as fit into
/// a handshake, 64 KiB.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct PeerCertificate {
    /// Its whole subject, as RFC 4514 writes it; empty when it has none.
    pub subject: Box<str>,
    /// Its alternative names, in its order.
    pub names: Box<[CertificateName]>,
}

/// An alternative name of a certificate (RFC 5280 4.2.1.6), of the kinds that protocols go by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CertificateName {
    /// A host, perhaps with a wildcard.
    Dns(Box<str>),
    /// A URI.
    Uri(Box<str>),
    /// A mailbox.
    Email(Box<str>),
    /// A service of a domain, `_xmpp-server.example.org` (RFC 4985).
    Service(Box<str>),
    /// An address of XMPP (RFC 6120 13.7.1.4).
    Xmpp(Box<str>),
}

/// Channel bindings (RFC 5056): data that both ends of a TLS connection know and that no one in
/// between can have. They are not secret.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ChannelBindings {
    /// `tls-exporter` (RFC 9266 2). Absent in TLS 1.2.
    pub exporter: Option<[u8; 32]>,
    /// `tls-server-end-point` (RFC 5929 4). Absent when the certificate's signature has no hash of
    /// its own, as that of Ed25519.
    pub end_point: Option<Arc<[u8]>>,
}

/// Reason why TLS does not begin on a connection that stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StartTlsRefusal {
    /// The listener has no certificate, or the call was given no TLS to begin.
    NotConfigured,
    /// The connection has TLS already.
    Stands,
    /// The protocol travels in WebSocket messages.
    InWebSocket,
}

/// Facts known of a connection beside its bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link {
    /// The peer's address, from the PROXY header when the listener trusts one.
    pub peer: SocketAddr,
    /// Whether the client is on this machine, as its socket says and never a header. False for
    /// every client of a listener of PROXY headers, and for a browser that used another name of
    /// this server.
    pub near: bool,
    /// Protocol of the bytes.
    pub protocol: Protocol,
    /// Present when the connection is encrypted.
    pub tls: Option<TlsFacts>,
    /// Whether TLS may begin now ([`crate::machine::Outbox::start_tls`]): a certificate is
    /// configured (for a call: a trusted authority), and TLS is not active yet.
    pub may_start_tls: bool,
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
        Link {
            peer,
            near: true,
            protocol,
            tls: None,
            may_start_tls: false,
            web_socket: false,
            crowded: false,
            door: 0,
        }
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
        let all = [
            Protocol::Miop,
            Protocol::Mqtt,
            Protocol::Xmpp,
            Protocol::Im,
            Protocol::Http,
            Protocol::Tls,
        ];
        assert_eq!(all.map(Protocol::name), ["miop", "mqtt", "xmpp", "im", "http", "tls"]);
        assert_eq!(all.len(), Protocol::COUNT);
        let link = Link::loopback(Protocol::Mqtt);
        assert!(link.near && link.peer.ip().is_loopback());
        assert!(link.tls.is_none() && !link.may_start_tls);
        assert_eq!(
            [TlsVersion::V12, TlsVersion::V13].map(TlsVersion::name),
            ["TLSv1.2", "TLSv1.3"]
        );
    }
}
