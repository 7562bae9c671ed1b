//! Setup of listeners, and of the layers that a call wraps around its protocol.
//!
//! A setup is shared by all connections of a listener or of a fleet, and holds nothing of one
//! connection.

use crate::layer::files::StaticFile;
use crate::layer::handing::HandedPaths;
use crate::layer::tls::{ClientTls, TlsServer};
use crate::layer::websocket::UpgradeTarget;
use crate::shard::Census;
use model::link::network::IpNetwork;
use model::link::{Protocol, WireProfile};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// Connections that may wait to be accepted, unless another number is chosen.
pub const BACKLOG: i32 = 65_535;

/// A listener: where it listens and what it takes.
#[derive(Clone)]
pub struct ListenerSetup {
    /// Its name in the configuration.
    pub name: Arc<str>,
    /// Its address.
    pub address: ListenEndpoint,
    /// `None`: told apart by the first bytes. `Http`: whatever comes in a WebSocket.
    pub protocol: Option<Protocol>,
    /// TLS of the listener: its protocol may (or, if it is named in TLS only, must) be spoken in
    /// TLS.
    pub tls: Option<Arc<TlsServer>>,
    /// Whether only TLS is accepted, whatever `protocol` says.
    pub tls_only: bool,
    /// The paths of WebSocket upgrades, `*` for any; without any, and without paths that are handed
    /// on, HTTP is not served. `protocol` names the protocol inside, or the subprotocol does, else
    /// its first bytes.
    pub paths: Vec<String>,
    /// Origins that a browser's upgrade may come from, besides those of the host that it asks for;
    /// `*`: any.
    pub origins: Vec<String>,
    /// Files for browsers, beside the WebSockets.
    pub files: Arc<[StaticFile]>,
    /// Paths that somebody beside the shards answers, 256 at most.
    pub handed: Vec<HandedPaths>,
    /// Every connection begins with a PROXY header, version 1 or 2.
    pub proxy: bool,
    /// Networks that may send one. At a socket file, whoever may open it.
    pub proxies: Vec<IpNetwork>,
    /// Connections that may wait to be accepted; the kernel clips it to `net.core.somaxconn`.
    pub backlog: i32,
    /// Connections through it at once; 0: as many as the process holds.
    pub connections_max: u32,
    /// Connections through it now, on all shards.
    pub open: Arc<Census>,
}

impl ListenerSetup {
    /// One without layers that tells protocols apart.
    pub fn plain(name: &str, address: ListenEndpoint) -> ListenerSetup {
        ListenerSetup {
            name: name.into(),
            address,
            protocol: None,
            tls: None,
            tls_only: false,
            paths: Vec::new(),
            origins: Vec::new(),
            files: Arc::default(),
            handed: Vec::new(),
            proxy: false,
            proxies: Vec::new(),
            backlog: BACKLOG,
            connections_max: 0,
            open: Arc::default(),
        }
    }

    /// Whether a PROXY header from there is believed.
    pub(super) fn believes(&self, peer: SocketAddr) -> bool {
        let is_file = matches!(self.address, ListenEndpoint::Unix(..));
        is_file || self.proxies.iter().any(|network| network.contains(peer.ip()))
    }

    /// Whether this protocol is served inside of WebSockets.
    pub(super) fn carries(&self, wire: &WireProfile) -> bool {
        match self.protocol {
            None | Some(Protocol::Http) => !wire.subprotocols.is_empty(),
            Some(only) => only == wire.protocol,
        }
    }

    /// Whether a connection may begin with this protocol, below a WebSocket if there is one.
    pub(super) fn takes(&self, protocol: Protocol) -> bool {
        match protocol {
            Protocol::Tls => false,
            Protocol::Http => !self.paths.is_empty() || !self.handed.is_empty(),
            other => self.protocol.is_none_or(|only| only == other),
        }
    }
}

/// Endpoint that a listener listens on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ListenEndpoint {
    /// An address and port.
    Tcp(SocketAddr),
    /// A socket file, and its permissions.
    Unix(PathBuf, u32),
}

impl fmt::Display for ListenEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenEndpoint::Tcp(address) => write!(f, "{address}"),
            ListenEndpoint::Unix(path, _) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Layers that a call wraps around its protocol.
#[derive(Clone)]
pub struct ClientLayers {
    /// TLS.
    pub tls: Option<Arc<ClientTls>>,
    /// Whether TLS begins when the machine orders it (STARTTLS), and not before all else.
    pub start_tls: bool,
    /// WebSocket: the upgrade.
    pub web_socket: Option<Arc<UpgradeTarget>>,
    /// Protocol inside.
    pub protocol: Protocol,
}

impl ClientLayers {
    /// Layers of a call without any around this protocol.
    pub fn plain(protocol: Protocol) -> ClientLayers {
        ClientLayers { tls: None, start_tls: false, web_socket: None, protocol }
    }

    /// Whether there is nothing around the protocol when it begins.
    pub fn is_plain(&self) -> bool {
        (self.tls.is_none() || self.start_tls) && self.web_socket.is_none()
    }

    /// Whether the machine may order TLS.
    pub fn may_start_tls(&self) -> bool {
        self.tls.is_some() && self.start_tls && self.web_socket.is_none()
    }
}
