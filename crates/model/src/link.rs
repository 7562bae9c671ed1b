//! What is known of a connection besides its bytes.
//!
//! Filled in by `net` while the layers below the protocol open (PROXY header, TLS, WebSocket), and
//! shown to a machine whenever it receives.

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

/// What TLS established.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsFacts {
    /// Identity in the client's certificate, verified: first DNS or URI of its SAN, else the CN.
    pub identity: Option<Box<str>>,
}

/// What is known of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link {
    /// The peer's address, from the PROXY header when the listener trusts one.
    pub peer: SocketAddr,
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
        Link { peer, protocol, tls: None, web_socket: false, crowded: false, door: 0 }
    }
}
