//! `[listen.NAME]`: an address that accepts connections.
//!
//! Which protocols a listener accepts (TLS, WebSockets, a PROXY header) and which clients it lets
//! in. Rules that relate several keys are in `rules.rs`. This module does not check whether a
//! certificate exists or an address can be bound.

use federation::PeerDoor;
use guard::{Anonymous, ListenerPolicy, Method};
use model::link::network::IpNetwork;
use net::layer::BACKLOG;
use net::layer::tls::{CertificateIdentity, ClientCertificates};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::sections::is_url_path;
use base::setting::{Field, Kind, Value, list, switch, text, whole};
use base::{section, words};

section! {
    /// `[listen.NAME]`: an address that accepts connections.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct ListenSection {
        /// Its name in logs and metrics.
        @aside name: String;
        /// Address to listen on. 0.0.0.0 or [::] is every interface; unix:/path is a socket file.
        @live address: ListenAddress, LISTEN_ADDRESS;
        /// Permissions of the socket file, if the address is one.
        @live mode: String = "0660".into(),
            text("three or four octal digits, such as \"0660\"", is_mode);
        /// Open this listener.
        @live enabled: bool = true;
        /// Concurrent connections through this listener; 0: limited only by [limits]
        /// connections_max. One more gets BUSY, as when the server is full.
        @live connections_max: u32 = 0, whole(0..=100_000_000, "connections");
        /// Length of the accept queue, for each shard; the kernel caps it at net.core.somaxconn.
        /// Beyond, clients retry the TCP handshake after a second, and later.
        @live backlog: u32 = BACKLOG as u32, whole(1..=1 << 30, "connections");
        /// Accepted protocols. any: MIOP, MQTT, IM, XMPP, TLS (if [tls] has a certificate) and HTTP
        /// (if websocket is set), told apart by their first bytes. miop, mqtt, im, xmpp or http:
        /// that one only; mqtt, im and xmpp with websocket: the protocol both with and without
        /// WebSockets. xmpp-server: other servers, if [federation] is enabled. xmpp-component: the
        /// components of [component.NAME]; any change of a listener of these two needs a restart.
        /// Other bytes close the connection.
        @live protocol: ListenerProtocol = ListenerProtocol::Any;
        /// Every connection must begin with TLS; needs a certificate, here or in [tls]. With false,
        /// XMPP still offers STARTTLS within its stream, and requires it if there is a certificate.
        @live tls: bool = false;
        /// Path of WebSocket upgrades; true is "/miop", "/mqtt", "/im" and "/xmpp-websocket". The
        /// subprotocol (miop, mqtt, mqttv3.1, holdline-im.1, xmpp) selects the protocol inside, or
        /// else the first bytes.
        @live web_socket as "websocket": WebSocketAt = WebSocketAt::Off,
            switch("a path such as \"/mqtt\", or \"*\" for any", is_web_path);
        /// Path of XMPP over HTTP (BOSH), such as "/http-bind"; "" is none. Its limits are in
        /// [bosh].
        @live bosh: String = String::new(),
            text("a path such as \"/http-bind\", or empty", is_bosh_path);
        /// Origins of web pages whose scripts may connect; "*" is any page. Pages from the host and
        /// port that the browser connects to are always allowed, so [] allows only those. Pages of
        /// other sites or ports are refused with 403. Clients that are not browsers send no origin
        /// and are not checked.
        @live web_socket_origins as "websocket_origins": Vec<String> = Vec::new(), list(
            64,
            "origins, such as \"https://app.example\", or \"*\" for any",
            |text| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic()),
        );
        /// v1v2: each connection must begin with a PROXY header, and its address is trusted. Such
        /// clients never count as local to this machine, whatever the header says.
        @live proxy: ProxyHeader = ProxyHeader::Off;
        /// Addresses and networks that may send PROXY headers. Connections from elsewhere are
        /// closed. On a socket file, everybody who can open it may.
        @live proxy_from: Vec<String> = ["127.0.0.0/8", "::1"].map(str::to_owned).into(), list(
            256,
            "addresses and networks, such as \"10.0.0.7\" or \"10.0.0.0/8\"",
            |text| text.parse::<IpNetwork>().is_ok(),
        );
        /// Ask for client certificates in TLS; needs client_ca, here or in [tls].
        @live client_certificates: ClientCertificates = ClientCertificates::Off;
        /// Part of the certificate that is the client's identity. alternative_name: the first DNS
        /// name or URI among its alternative names, or the common name if there is neither. dns,
        /// uri, email: the first alternative name of that kind. common_name: the common name.
        /// subject: the whole subject as RFC 4514 writes it.
        @live identity: CertificateIdentity = CertificateIdentity::Alternative;
        /// PEM file of this listener's own certificate; "" is that of [tls].
        @live certificate: Option<PathBuf> = None;
        /// PEM file of its private key.
        @live key: Option<PathBuf> = None;
        /// PEM file of this listener's own authorities; "" is those of [tls].
        @live client_ca: Option<PathBuf> = None;
        /// PEM file of revoked certificates (CRL). A reload reads it again.
        @live revoked: Option<PathBuf> = None;
        /// Lowest version of TLS. Versions below 1.2 are not offered.
        @live tls_min: TlsMin = TlsMin::V12;
        /// MQTT: tolerate known faults of old devices, and count each, where the standard lets a
        /// server close the connection.
        @live lenient: bool = false;
        /// MQTT and IM: from where clients may connect without credentials. The start warns of yes
        /// on an address that others can reach.
        @live anonymous: Anonymous = Anonymous::Loopback;
        /// MQTT, IM and XMPP: authentication methods, in the order in which they are tried. Methods
        /// that are not configured are skipped. scram uses [access] scram_hashes. XMPP offers
        /// these, and PLAIN in TLS; anonymous lets guests in there, up to [chat] guests_max.
        @live methods: Vec<Method> = ListenerPolicy::default().methods;
        /// MQTT and IM: where anonymous clients are allowed, accept a user name that no method
        /// knows, without proof.
        @live believe_names: bool = false;
        /// MQTT 5 and XMPP: the answer to clients while this node of a cluster follows. refuse: the
        /// server is unavailable (MQTT), the connection is closed (XMPP); for load balancers and
        /// virtual addresses, where the client's own address leads to the leader. use-another and
        /// moved: MQTT 5 is told to use another server for now (0x9C) or from now on (0x9D), XMPP
        /// to see another host, with the leader's address. MIOP and IM always tell the address.
        @live redirect: Redirect = Redirect::Refuse;
    }
}

/// Address of a listener.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ListenAddress {
    /// An address and port.
    Tcp(SocketAddr),
    /// A socket file.
    Unix(PathBuf),
}

impl ListenAddress {
    /// Address of `unix:/path` or `address:port`.
    pub fn parse(text: &str) -> Option<ListenAddress> {
        match text.strip_prefix("unix:") {
            Some(path) => {
                let fits = (2..=107).contains(&path.len()) && !path.contains('\0');
                fits.then(|| ListenAddress::Unix(path.into()))
            }
            None => text.parse().ok().map(ListenAddress::Tcp),
        }
    }

    /// Whether only this machine can reach it.
    pub fn is_near(&self) -> bool {
        match self {
            ListenAddress::Tcp(address) => address.ip().is_loopback(),
            ListenAddress::Unix(_) => true,
        }
    }
}

/// Any port of this machine.
impl Default for ListenAddress {
    fn default() -> Self {
        ListenAddress::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)))
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddress::Tcp(address) => write!(f, "{address}"),
            ListenAddress::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Field for ListenAddress {
    fn show(&self) -> Value {
        Value::Text(self.to_string())
    }

    fn take(value: &Value) -> Option<Self> {
        match value {
            Value::Text(text) => ListenAddress::parse(text),
            _ => None,
        }
    }
}

/// Where WebSockets are served.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WebSocketAt {
    /// Nowhere.
    Off,
    /// At the default path of each protocol.
    Usual,
    /// Path of WebSockets; `*`: any.
    Path(String),
}

impl WebSocketAt {
    /// The paths.
    pub fn paths(&self) -> Vec<String> {
        match self {
            WebSocketAt::Off => Vec::new(),
            WebSocketAt::Usual => super::WEB_SOCKET_PATHS.map(str::to_owned).into(),
            WebSocketAt::Path(path) => vec![path.clone()],
        }
    }
}

impl Field for WebSocketAt {
    fn show(&self) -> Value {
        match self {
            WebSocketAt::Off => Value::Bool(false),
            WebSocketAt::Usual => Value::Bool(true),
            WebSocketAt::Path(path) => Value::Text(path.clone()),
        }
    }

    fn take(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(false) => Some(WebSocketAt::Off),
            Value::Bool(true) => Some(WebSocketAt::Usual),
            Value::Text(path) => Some(WebSocketAt::Path(path.clone())),
            _ => None,
        }
    }
}

words! {
    /// Protocol that a listener accepts.
    pub enum ListenerProtocol {
        /// By the first bytes: MIOP, MQTT, IM, XMPP, TLS if there is a certificate, HTTP if there
        /// is a WebSocket path.
        Any = "any",
        /// MIOP only.
        Miop = "miop",
        /// MQTT only, also in WebSockets if there is a path.
        Mqtt = "mqtt",
        /// IM only, also in WebSockets if there is a path.
        Im = "im",
        /// XMPP only, with STARTTLS if there is a certificate.
        Xmpp = "xmpp",
        /// HTTP only, to be upgraded to a WebSocket.
        Http = "http",
        /// Other XMPP servers.
        XmppServer = "xmpp-server",
        /// XMPP components.
        XmppComponent = "xmpp-component",
    }
}

words! {
    /// Whether connections begin with a PROXY header.
    pub enum ProxyHeader {
        /// No header is expected.
        Off = "off",
        /// A header of version 1 or 2 is required and trusted.
        V1V2 = "v1v2",
    }
}

words! {
    /// Answer to clients while the node follows.
    pub enum Redirect {
        /// Clients are refused.
        Refuse = "refuse",
        /// Clients are told to use the leader for now.
        UseAnother = "use-another",
        /// Clients are told to use the leader from now on.
        Moved = "moved",
    }
}

words! {
    /// Lowest accepted version of TLS.
    pub enum TlsMin {
        /// 1.2.
        V12 = "1.2",
        /// 1.3.
        V13 = "1.3",
    }
}

impl ListenerProtocol {
    /// Whether a listener without required TLS also accepts it, if there is a certificate.
    pub fn may_begin_tls(self) -> bool {
        let within = [ListenerProtocol::Xmpp, ListenerProtocol::XmppServer];
        self == ListenerProtocol::Any || within.contains(&self)
    }

    /// Which kind of peers it accepts, if it is for other domains.
    pub fn peers(self) -> Option<PeerDoor> {
        match self {
            ListenerProtocol::XmppServer => Some(PeerDoor::Server),
            ListenerProtocol::XmppComponent => Some(PeerDoor::Component),
            _ => None,
        }
    }
}

impl ListenSection {
    /// A listener of this name, a plain word, with the defaults.
    pub fn named(name: &str) -> ListenSection {
        ListenSection { name: name.into(), ..ListenSection::default() }
    }

    /// As [`named`](Self::named), but fails with the reason if the name is invalid.
    pub(super) fn checked(name: &str) -> Result<ListenSection, String> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        if name.is_empty() || name.len() > 32 || !name.bytes().all(allowed) {
            return Err("a listener's name must be 1 to 32 letters, digits, - and _".into());
        }
        Ok(ListenSection::named(name))
    }

    /// Networks that may send PROXY headers.
    pub fn proxies(&self) -> Vec<IpNetwork> {
        self.proxy_from.iter().filter_map(|text| text.parse().ok()).collect()
    }

    /// Permissions of its socket file.
    pub fn file_mode(&self) -> u32 {
        u32::from_str_radix(&self.mode, 8).unwrap_or(0o660)
    }
}

const LISTEN_ADDRESS: Kind = text(
    "an IP address and a port, such as \"127.0.0.1:7000\", or unix: and a path of at most \
     107 bytes",
    |text| ListenAddress::parse(text).is_some(),
);

fn is_mode(text: &str) -> bool {
    (3..=4).contains(&text.len()) && text.bytes().all(|b| (b'0'..=b'7').contains(&b))
}

fn is_bosh_path(text: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~/".contains(&b);
    text.is_empty() || is_url_path(text) && text.len() > 1 && text.bytes().all(is_plain)
}

fn is_web_path(text: &str) -> bool {
    text == "*" || is_url_path(text)
}
