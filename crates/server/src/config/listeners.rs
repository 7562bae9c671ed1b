//! `[listen.NAME]`: an address where connections come in.
//!
//! What a listener takes (protocols, TLS, WebSockets, a PROXY header) and whom it lets in. Rules
//! that join several keys are in `rules.rs`. It does not look whether a certificate exists or an
//! address can be bound.

use net::layer::BACKLOG;
use net::network::IpNetwork;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::key::{Field, Key, Kind, Reload, Section, Value, Words, key, words};
use super::sections::{PATH_OR_NONE, is_url_path};

/// `[listen.NAME]`: an address where connections come in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListenSection {
    /// Its name in logs and metrics.
    pub name: String,
    /// Whether it is opened.
    pub enabled: bool,
    /// Connections through it at once; 0: as many as the server holds.
    pub connections_max: u32,
    /// Connections that may wait to be accepted.
    pub backlog: u32,
    /// Where it listens.
    pub address: ListenAddress,
    /// Permissions of its socket file, if it is one, as octal digits.
    pub mode: String,
    /// What it accepts.
    pub protocol: ListenerProtocol,
    /// Whether every connection must begin with TLS.
    pub tls: bool,
    /// The path whose upgrades become WebSockets, if any.
    pub web_socket: WebSocketAt,
    /// Origins that a browser's upgrade may come from, besides those of the host it asks for; `*`:
    /// any.
    pub web_socket_origins: Vec<String>,
    /// Whether a PROXY header comes first.
    pub proxy: ProxyHeader,
    /// Addresses and networks of those who may send one.
    pub proxy_from: Vec<String>,
    /// Whether TLS asks for a client's certificate.
    pub client_certificates: CertificateRequest,
    /// Which name of that certificate is who the client is.
    pub identity: IdentityName,
    /// PEM file of its own certificate and chain, instead of that of `[tls]`.
    pub certificate: Option<PathBuf>,
    /// PEM file of its key.
    pub key: Option<PathBuf>,
    /// PEM file of the authorities it trusts, instead of that of `[tls]`.
    pub client_ca: Option<PathBuf>,
    /// PEM file of certificates that were revoked.
    pub revoked: Option<PathBuf>,
    /// The oldest version of TLS it takes.
    pub tls_min: TlsMin,
    /// MQTT: whether the faults of old devices are let pass.
    pub lenient: bool,
    /// MQTT: from where clients may come in without a name.
    pub anonymous: AnonymousClients,
    /// MQTT: how clients may prove who they are, in this order.
    pub methods: Vec<String>,
    /// MQTT: whether names that no method knows are believed, where the nameless are let in.
    pub believe_names: bool,
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

/// Protocol that a listener accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListenerProtocol {
    /// Whatever the first bytes say: MIOP, MQTT, TLS if there is a certificate, HTTP if there is a
    /// WebSocket path.
    Any,
    /// MIOP alone.
    Miop,
    /// MQTT alone, in WebSockets too if there is a path.
    Mqtt,
    /// HTTP alone, to be upgraded to a WebSocket.
    Http,
}
words!(ListenerProtocol { Any = "any", Miop = "miop", Mqtt = "mqtt", Http = "http" });

/// Policy for a PROXY header before everything else on a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProxyHeader {
    /// None is expected.
    Off,
    /// One of version 1 or 2 is required and believed.
    V1V2,
}
words!(ProxyHeader { Off = "off", V1V2 = "v1v2" });

/// Policy of TLS for a client's certificate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CertificateRequest {
    /// It does not.
    Off,
    /// It asks; one that is sent must be valid.
    Optional,
    /// It asks; without a valid one there is no connection.
    Required,
}
words!(CertificateRequest { Off = "off", Optional = "optional", Required = "required" });

/// Name of a certificate that says who its owner is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IdentityName {
    /// The first DNS name or URI among its alternative names, else its common name.
    Alternative,
    /// The first DNS name among them.
    Dns,
    /// The first URI among them.
    Uri,
    /// The first e-mail address among them.
    Email,
    /// The common name.
    CommonName,
    /// The whole subject.
    Subject,
}
words!(IdentityName {
    Alternative = "alternative_name",
    Dns = "dns",
    Uri = "uri",
    Email = "email",
    CommonName = "common_name",
    Subject = "subject"
});

/// The oldest version of TLS that is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TlsMin {
    /// 1.2.
    V12,
    /// 1.3.
    V13,
}
words!(TlsMin { V12 = "1.2", V13 = "1.3" });

/// From where clients of MQTT may come in without a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnonymousClients {
    /// From nowhere.
    No,
    /// From this machine.
    Loopback,
    /// From everywhere.
    Yes,
}
words!(AnonymousClients { No = "no", Loopback = "loopback", Yes = "yes" });

/// The ways to prove who one is, as `guard` names them.
pub(super) const METHODS: [&str; 5] = ["certificate", "passwords", "scram", "token", "http"];

impl Section for ListenSection {
    const KEYS: &'static [Key<Self>] = &[
        key!(
            address,
            LISTEN_ADDRESS,
            Restart,
            "Where it listens. 0.0.0.0 or [::] is every interface; unix:/path is a socket file."
        )
        .required(),
        key!(
            mode,
            Kind::Text { what: "three or four octal digits, such as \"0660\"", fits: is_mode },
            Restart,
            "Permissions of the socket file, if it is one."
        ),
        key!(enabled, Kind::Bool, Restart, "Whether it is opened at all."),
        key!(
            connections_max,
            Kind::whole(0, 100_000_000, "connections"),
            Restart,
            "Connections through it at once; 0 is as many as [limits] connections_max lets in. \
             Beyond, callers are told BUSY, as they are when the server is full."
        ),
        key!(
            backlog,
            Kind::whole(1, 1 << 30, "connections"),
            Restart,
            "Connections that may wait to be accepted, of each shard; the kernel clips it to \
             net.core.somaxconn. Beyond, callers try again after a second, and later."
        ),
        key!(
            protocol,
            Kind::Word(ListenerProtocol::WORDS),
            Restart,
            "What it accepts. any: the first bytes tell MIOP, MQTT, TLS (if [tls] has a \
             certificate) and HTTP (if websocket is set) apart. miop, mqtt or http: that alone; \
             mqtt with websocket is MQTT in both. Other bytes end the connection."
        ),
        key!(
            tls,
            Kind::Bool,
            Restart,
            "Every connection must begin with TLS; needs a certificate, here or in [tls]."
        ),
        key!(
            "websocket" => web_socket,
            Kind::Switch { what: "a path such as \"/mqtt\", or \"*\" for any", fits: is_web_path },
            Restart,
            "The path whose HTTP upgrades become WebSockets; true is \"/miop\" and \"/mqtt\". What \
             is inside is told by the subprotocol (miop, mqtt, mqttv3.1), else by the first bytes."
        ),
        key!(
            "websocket_origins" => web_socket_origins,
            Kind::List {
                what: "origins, such as \"https://app.example\", or \"*\" for any",
                max: 64,
                fits: |text| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic())
            },
            Restart,
            "Web pages whose scripts may connect, by their origin; \"*\" is any page. Pages of the \
             host that the browser asks for always may, so [] is those alone. A page of another \
             site is refused with 403. Who is no browser names no origin, and is not asked."
        ),
        key!(
            proxy,
            Kind::Word(ProxyHeader::WORDS),
            Restart,
            "v1v2: each connection must begin with a PROXY header, whose address is believed. \
             Whatever it says, nobody counts as of this machine here."
        ),
        key!(
            proxy_from,
            Kind::List {
                what: "addresses and networks, such as \"10.0.0.7\" or \"10.0.0.0/8\"",
                max: 256,
                fits: |text| text.parse::<IpNetwork>().is_ok()
            },
            Restart,
            "Who may send PROXY headers. A connection from elsewhere ends. Through a socket file, \
             whoever may open it."
        ),
        key!(
            client_certificates,
            Kind::Word(CertificateRequest::WORDS),
            Restart,
            "Whether TLS asks for the client's certificate; needs client_ca, here or in [tls]."
        ),
        key!(
            identity,
            Kind::Word(IdentityName::WORDS),
            Restart,
            "Which name of that certificate is who the client is: the first DNS name or URI of \
             its alternative names (without either, the common name), the first of one of these \
             kinds alone, the common name, or all of its subject as RFC 4514 writes it."
        ),
        key!(
            certificate,
            PATH_OR_NONE,
            Restart,
            "PEM file of a certificate of its own; \"\" is that of [tls]."
        ),
        key!(key, PATH_OR_NONE, Restart, "PEM file of its private key."),
        key!(
            client_ca,
            PATH_OR_NONE,
            Restart,
            "PEM file of authorities of its own; \"\" is that of [tls]."
        ),
        key!(
            revoked,
            PATH_OR_NONE,
            Restart,
            "PEM file of certificates that were revoked (CRL). Read again by a reload."
        ),
        key!(
            tls_min,
            Kind::Word(TlsMin::WORDS),
            Restart,
            "The oldest version of TLS. Older ones than 1.2 are not offered."
        ),
        key!(
            lenient,
            Kind::Bool,
            Restart,
            "MQTT: let the faults of old devices pass and count each of them, where the standard \
             lets a server end the connection."
        ),
        key!(
            anonymous,
            Kind::Word(AnonymousClients::WORDS),
            Restart,
            "MQTT: from where clients may come in without a name. yes on an address that others \
             reach is warned of at the start."
        ),
        key!(
            methods,
            Kind::List {
                what: "of \"certificate\", \"passwords\", \"scram\", \"token\", \"http\"",
                max: METHODS.len(),
                fits: |text| METHODS.contains(&text)
            },
            Restart,
            "MQTT: how clients may prove who they are, in this order. One that is not configured \
             is passed over."
        ),
        key!(
            believe_names,
            Kind::Bool,
            Restart,
            "MQTT: where the nameless are let in, believe a name that no method knows, unproved."
        ),
    ];
    const RELOAD: Reload = Reload::Restart;

    fn blank(name: &str) -> Result<Self, String> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        if name.is_empty() || name.len() > 32 || !name.bytes().all(allowed) {
            return Err("a listener's name must be 1 to 32 letters, digits, - and _".into());
        }
        Ok(ListenSection {
            name: name.into(),
            enabled: true,
            connections_max: 0,
            backlog: BACKLOG as u32,
            address: ListenAddress::Tcp(SocketAddr::from(([127, 0, 0, 1], 0))),
            mode: "0660".into(),
            protocol: ListenerProtocol::Any,
            tls: false,
            web_socket: WebSocketAt::Off,
            web_socket_origins: Vec::new(),
            proxy: ProxyHeader::Off,
            proxy_from: ["127.0.0.0/8", "::1"].map(str::to_owned).into(),
            client_certificates: CertificateRequest::Off,
            identity: IdentityName::Alternative,
            certificate: None,
            key: None,
            client_ca: None,
            revoked: None,
            tls_min: TlsMin::V12,
            lenient: false,
            anonymous: AnonymousClients::Loopback,
            methods: METHODS[1..].iter().map(|&name| name.to_owned()).collect(),
            believe_names: false,
        })
    }
}

impl ListenSection {
    /// One of this name, a plain word, with the defaults.
    pub fn named(name: &str) -> ListenSection {
        ListenSection::blank(name).expect("a plain word names a listener")
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

const LISTEN_ADDRESS: Kind = Kind::Text {
    what: "an IP address and a port, such as \"127.0.0.1:7000\", or unix: and a path of at most \
           107 bytes",
    fits: |text| ListenAddress::parse(text).is_some(),
};

fn is_mode(text: &str) -> bool {
    (3..=4).contains(&text.len()) && text.bytes().all(|b| (b'0'..=b'7').contains(&b))
}

fn is_web_path(text: &str) -> bool {
    text == "*" || is_url_path(text)
}
