//! The URL of a target: whom to call, as which clients, and how they prove themselves.
//!
//! `SCHEME://PREFIX:ACCOUNT@HOST:PORT/PATH?QUERY`. For HTTP everything behind the port is the path
//! of the requests, as in wrk. For the others the part in front of the account is the prefix of the
//! clients' ids (two testers that share one take each other's sessions over), the account is
//! MIOP's product or MQTT's user, and the query holds what else there is to say.

use load::target::{SCHEMES, Speech, UrlScheme, secret_of};
use model::id::ProductKey;

/// URL of a target, and the identity of its clients.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WrkTarget {
    /// The scheme's name.
    pub name: &'static str,
    /// How, below TLS and WebSocket.
    pub scheme: Speech,
    /// Whether TLS is around it.
    pub encrypted: bool,
    /// Whether WebSocket is around it.
    pub web_socket: bool,
    /// Prefix of the clients' ids.
    pub prefix: String,
    /// MIOP's product.
    pub product: Option<ProductKey>,
    /// MQTT's user name.
    pub user: Option<String>,
    /// Host name or address; an IPv6 address without its brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// The port as it stood in the URL; absent when it did not.
    pub port_given: Option<String>,
    /// Path: of HTTP requests with its query, of the WebSocket upgrade, MQTT's topic.
    pub path: String,
    /// Protocol version: MIOP's 5, 6 or 7; MQTT's 3, 4 or 5.
    pub version: u8,
    /// The product's secret; none: the devices are anonymous.
    pub secret: Option<Box<[u8]>>,
    /// Which of the product's secrets it is.
    pub key_id: u32,
    /// MQTT's password.
    pub password: Option<String>,
    /// Keep-alive the clients wish, seconds; zero: no wish.
    pub keep_s: u16,
    /// Topic filters that each MQTT client subscribes to; `%i` is its number.
    pub subscribe: Vec<String>,
    /// QoS of what MQTT clients publish and subscribe with, unless the script says otherwise.
    pub qos: u8,
    /// Bytes that end an answer of a TCP server; empty: an answer is whatever comes first.
    pub end: Box<[u8]>,
    /// PEM file with the authorities that are trusted; none: any certificate is taken.
    pub authority: Option<String>,
}

impl WrkTarget {
    /// Parses a URL.
    pub fn parse(url: &str) -> Result<WrkTarget, String> {
        let wrong = |what: &str| format!("invalid URL: {url}: {what}");
        let (scheme, rest) = url.split_once("://").ok_or_else(|| wrong("it has no scheme"))?;
        // People who talk have no place in wrk's scripts.
        let is_known = |speech| !matches!(speech, Some(Speech::Im | Speech::Xmpp));
        let known = || SCHEMES.iter().filter(|known| is_known(known.speech));
        let row = known().find(|known| known.name == scheme).ok_or_else(|| {
            let names: Vec<_> = known().map(|known| known.name).collect();
            wrong(&format!("unknown scheme {scheme}://; use one of {}", names.join(", ")))
        })?;
        let rest = rest.split_once('#').map_or(rest, |(rest, _)| rest);
        let slash = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(slash);
        let (who, address) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (host, port_given) =
            host_and_port(address).ok_or_else(|| wrong("its port is wrong"))?;
        if host.is_empty() {
            return Err(wrong("it has no host"));
        }
        let port = port_given.as_deref().map_or(row.port, |text| text.parse().ok());
        let port = port.filter(|port| *port > 0).ok_or_else(|| match &port_given {
            None => wrong("it has no port"),
            Some(_) => wrong("its port is no number from 1 to 65535"),
        })?;
        let mut target = WrkTarget::of(row, host, port, port_given);
        if target.scheme == Speech::Http {
            let slash = if path.starts_with('/') { "" } else { "/" };
            target.path = format!("{slash}{path}");
        } else {
            target.long(who, path).map_err(|what| wrong(&what))?;
        }
        Ok(target)
    }

    fn of(row: &UrlScheme, host: String, port: u16, port_given: Option<String>) -> WrkTarget {
        WrkTarget {
            name: row.name,
            scheme: row.speech.unwrap_or(Speech::Miop),
            encrypted: row.is_encrypted,
            web_socket: row.is_web_socket(),
            prefix: String::new(),
            product: None,
            user: None,
            host,
            port,
            port_given,
            path: "/".to_owned(),
            version: 0,
            secret: None,
            key_id: 1,
            password: None,
            keep_s: 0,
            subscribe: Vec::new(),
            qos: 0,
            end: Box::default(),
            authority: None,
        }
    }

    /// Parses the parts that only URLs of long connections have.
    fn long(&mut self, who: &str, rest: &str) -> Result<(), String> {
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        self.path = if path.is_empty() { "/".to_owned() } else { path.to_owned() };
        if self.web_socket && self.path.ends_with("/mqtt") {
            self.scheme = Speech::Mqtt;
        }
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            self.set(pair)?;
        }
        let (prefix, account) = who.split_once(':').unwrap_or((who, ""));
        self.prefix = prefix.to_owned();
        match self.scheme {
            Speech::Miop => {
                if prefix.is_empty() || account.is_empty() {
                    return Err("name the devices as HOST:PRODUCT@ in front of the address".into());
                }
                let key = ProductKey::parse(account);
                self.product = Some(key.map_err(|error| format!("the product key {error}"))?);
            }
            Speech::Mqtt => self.user = Some(account.to_owned()).filter(|user| !user.is_empty()),
            Speech::Im | Speech::Xmpp | Speech::Http | Speech::Tcp => {}
        }
        let (versions, newest) = match self.scheme {
            Speech::Mqtt => (3..=5, 4),
            _ => (5..=7, 7),
        };
        if self.version == 0 {
            self.version = newest;
        }
        if !versions.contains(&self.version) {
            let (first, last) = (versions.start(), versions.end());
            return Err(format!("version={}: versions are {first} to {last}", self.version));
        }
        Ok(())
    }

    fn set(&mut self, pair: &str) -> Result<(), String> {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let allowed = |what: &str| format!("{key}={value}: {what}");
        match key {
            "version" => {
                let version = value.parse().ok().filter(|version| *version > 0);
                self.version = version.ok_or_else(|| allowed("a number"))?;
            }
            "secret" => {
                self.secret = Some(secret_of(value).ok_or_else(|| allowed("pairs of hex digits"))?);
            }
            "end" => self.end = secret_of(value).ok_or_else(|| allowed("pairs of hex digits"))?,
            "key_id" => self.key_id = value.parse().map_err(|_| allowed("a number"))?,
            "keep" => self.keep_s = value.parse().map_err(|_| allowed("seconds, 0 to 65535"))?,
            "ca" if !value.is_empty() => self.authority = Some(value.to_owned()),
            "password" => self.password = Some(value.to_owned()),
            "subscribe" if !value.is_empty() => self.subscribe.push(value.to_owned()),
            "qos" => {
                let qos = value.parse().ok().filter(|qos| *qos <= 2);
                self.qos = qos.ok_or_else(|| allowed("0, 1 or 2"))?;
            }
            "protocol" => match value {
                "miop" => self.scheme = Speech::Miop,
                "mqtt" => self.scheme = Speech::Mqtt,
                _ => return Err(allowed("miop or mqtt, in a WebSocket")),
            },
            _ => {
                return Err(format!(
                    "`{key}` is not known; allowed are version, secret, key_id, password, keep, \
                     subscribe, qos, protocol, end and ca"
                ));
            }
        }
        Ok(())
    }

    /// Whether a connection's first request is a Bind.
    pub fn binds(&self) -> bool {
        matches!(self.scheme, Speech::Miop | Speech::Mqtt)
    }
}

/// Host, and port as it is written; `None`: there is a colon, and nothing like a port behind it.
fn host_and_port(address: &str) -> Option<(String, Option<String>)> {
    let (host, rest) = match address.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => address.split_at(address.find(':').unwrap_or(address.len())),
    };
    let port = match rest {
        "" => None,
        rest => Some(rest.strip_prefix(':').filter(|port| !port.is_empty())?.to_owned()),
    };
    Some((host.to_owned(), port))
}
