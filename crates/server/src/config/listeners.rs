//! `[listen.NAME]`: an address where connections come in.
//!
//! What a listener takes (protocols, TLS, WebSockets, a PROXY header) and whom it lets in. Rules
//! that join several keys are in `rules.rs`. It does not look whether a certificate exists or an
//! address can be bound.

use federation::PeerDoor;
use guard::{Anonymous, ListenerPolicy, Method};
use net::layer::BACKLOG;
use net::layer::tls::{CertificateIdentity, ClientCertificates};
use net::network::IpNetwork;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::sections::is_url_path;
use base::setting::{Field, Kind, Value, list, switch, text, whole};
use base::{section, words};

section! {
    /// `[listen.NAME]`: an address where connections come in.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct ListenSection {
        /// Its name in logs and metrics.
        @aside name: String;
        /// Where it listens. 0.0.0.0 or [::] is every interface; unix:/path is a socket file.
        address: ListenAddress, LISTEN_ADDRESS;
        /// Permissions of the socket file, if it is one.
        mode: String = "0660".into(), text("three or four octal digits, such as \"0660\"", is_mode);
        /// Whether it is opened at all.
        enabled: bool = true;
        /// Connections through it at once; 0 is as many as [limits] connections_max lets in.
        /// Beyond, callers are told BUSY, as they are when the server is full.
        connections_max: u32 = 0, whole(0..=100_000_000, "connections");
        /// Connections that may wait to be accepted, of each shard; the kernel clips it to
        /// net.core.somaxconn. Beyond, callers try again after a second, and later.
        backlog: u32 = BACKLOG as u32, whole(1..=1 << 30, "connections");
        /// What it accepts. any: the first bytes tell MIOP, MQTT, IM, XMPP, TLS (if [tls] has a
        /// certificate) and HTTP (if websocket is set) apart. miop, mqtt, im, xmpp or http: that
        /// alone; mqtt, im and xmpp with websocket are that protocol in both. xmpp-server: other
        /// servers, if [federation] is enabled; xmpp-component: the components of
        /// [component.NAME]. Other bytes end the connection.
        protocol: ListenerProtocol = ListenerProtocol::Any;
        /// Every connection must begin with TLS; needs a certificate, here or in [tls]. XMPP
        /// begins it within its stream besides (STARTTLS), and must, once there is one.
        tls: bool = false;
        /// The path whose HTTP upgrades become WebSockets; true is "/miop", "/mqtt", "/im" and
        /// "/xmpp-websocket". What is inside is told by the subprotocol (miop, mqtt, mqttv3.1,
        /// holdline-im.1, xmpp), else by the first bytes.
        web_socket as "websocket": WebSocketAt = WebSocketAt::Off,
            switch("a path such as \"/mqtt\", or \"*\" for any", is_web_path);
        /// The path whose HTTP requests carry XMPP (BOSH), such as "/http-bind"; "" is none. What
        /// bounds it is in [bosh].
        bosh: String = String::new(), text("a path such as \"/http-bind\", or empty", is_bosh_path);
        /// Web pages whose scripts may connect, by their origin; "*" is any page. Pages of the host
        /// and port that the browser asks for always may, so [] is those alone. A page of another
        /// site, or of another port, is refused with 403. Who is no browser names no origin, and is
        /// not asked.
        web_socket_origins as "websocket_origins": Vec<String> = Vec::new(), list(
            64,
            "origins, such as \"https://app.example\", or \"*\" for any",
            |text| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic()),
        );
        /// v1v2: each connection must begin with a PROXY header, whose address is believed.
        /// Whatever it says, nobody counts as of this machine here.
        proxy: ProxyHeader = ProxyHeader::Off;
        /// Who may send PROXY headers. A connection from elsewhere ends. Through a socket file,
        /// whoever may open it.
        proxy_from: Vec<String> = ["127.0.0.0/8", "::1"].map(str::to_owned).into(), list(
            256,
            "addresses and networks, such as \"10.0.0.7\" or \"10.0.0.0/8\"",
            |text| text.parse::<IpNetwork>().is_ok(),
        );
        /// Whether TLS asks for the client's certificate; needs client_ca, here or in [tls].
        client_certificates: ClientCertificates = ClientCertificates::Off;
        /// Which name of that certificate is who the client is: the first DNS name or URI of its
        /// alternative names (without either, the common name), the first of one of these kinds
        /// alone, the common name, or all of its subject as RFC 4514 writes it.
        identity: CertificateIdentity = CertificateIdentity::Alternative;
        /// PEM file of a certificate of its own; "" is that of [tls].
        certificate: Option<PathBuf> = None;
        /// PEM file of its private key.
        key: Option<PathBuf> = None;
        /// PEM file of authorities of its own; "" is that of [tls].
        client_ca: Option<PathBuf> = None;
        /// PEM file of certificates that were revoked (CRL). Read again by a reload.
        revoked: Option<PathBuf> = None;
        /// The oldest version of TLS. Older ones than 1.2 are not offered.
        tls_min: TlsMin = TlsMin::V12;
        /// MQTT: let the faults of old devices pass and count each of them, where the standard lets
        /// a server end the connection.
        lenient: bool = false;
        /// MQTT and IM: from where clients may come in without a proof. yes on an address that
        /// others reach is warned of at the start.
        anonymous: Anonymous = Anonymous::Loopback;
        /// MQTT, IM and XMPP: how clients may prove who they are, in this order. One that is not
        /// configured is passed over. scram is of [access] scram_hashes. XMPP offers these, and
        /// PLAIN in TLS; anonymous lets guests in there, of whom [chat] guests_max may be.
        methods: Vec<Method> = ListenerPolicy::default().methods;
        /// MQTT and IM: where the nameless are let in, believe a name that no method knows,
        /// unproved.
        believe_names: bool = false;
    }
}

/// Address that a listener listens on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ListenAddress {
    /// An address and port.
    Tcp(SocketAddr),
    /// A socket file.
    Unix(PathBuf),
}

impl ListenAddress {
    /// What `unix:/path` and `address:port` mean.
    pub fn parse(text: &str) -> Option<ListenAddress> {
        match text.strip_prefix("unix:") {
            Some(path) => {
                let fits = (2..=107).contains(&path.len()) && !path.contains('\0');
                fits.then(|| ListenAddress::Unix(path.into()))
            }
            None => text.parse().ok().map(ListenAddress::Tcp),
        }
    }

    /// Whether only this machine reaches it.
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

/// Where WebSockets are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WebSocketAt {
    /// Nowhere.
    Off,
    /// At the usual path of each protocol.
    Usual,
    /// At this path; `*`: at any.
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
        /// Whatever the first bytes say: MIOP, MQTT, IM, XMPP, TLS if there is a certificate, HTTP
        /// if there is a WebSocket path.
        Any = "any",
        /// MIOP alone.
        Miop = "miop",
        /// MQTT alone, in WebSockets too if there is a path.
        Mqtt = "mqtt",
        /// IM alone, in WebSockets too if there is a path.
        Im = "im",
        /// XMPP alone, with TLS within it if there is a certificate.
        Xmpp = "xmpp",
        /// HTTP alone, to be upgraded to a WebSocket.
        Http = "http",
        /// Other servers of XMPP.
        XmppServer = "xmpp-server",
        /// Components of XMPP.
        XmppComponent = "xmpp-component",
    }
}

words! {
    /// Policy for a PROXY header before everything else on a connection.
    pub enum ProxyHeader {
        /// None is expected.
        Off = "off",
        /// One of version 1 or 2 is required and believed.
        V1V2 = "v1v2",
    }
}

words! {
    /// The oldest version of TLS that is taken.
    pub enum TlsMin {
        /// 1.2.
        V12 = "1.2",
        /// 1.3.
        V13 = "1.3",
    }
}

impl ListenerProtocol {
    /// Whether a listener that need not begin with TLS takes it, once there is a certificate.
    pub fn may_begin_tls(self) -> bool {
        let within = [ListenerProtocol::Xmpp, ListenerProtocol::XmppServer];
        self == ListenerProtocol::Any || within.contains(&self)
    }

    /// Whom of other domains it is for, if it is.
    pub fn peers(self) -> Option<PeerDoor> {
        match self {
            ListenerProtocol::XmppServer => Some(PeerDoor::Server),
            ListenerProtocol::XmppComponent => Some(PeerDoor::Component),
            _ => None,
        }
    }
}

impl ListenSection {
    /// One of this name, a plain word, with the defaults.
    pub fn named(name: &str) -> ListenSection {
        ListenSection { name: name.into(), ..ListenSection::default() }
    }

    /// The same, unless the name may not be one; then why.
    pub(super) fn checked(name: &str) -> Result<ListenSection, String> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        if name.is_empty() || name.len() > 32 || !name.bytes().all(allowed) {
            return Err("a listener's name must be 1 to 32 letters, digits, - and _".into());
        }
        Ok(ListenSection::named(name))
    }

    /// The networks of those who may send PROXY headers.
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
