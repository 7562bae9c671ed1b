//! Target of clients: its URL, and the one table of schemes.
//!
//! `SCHEME://[USER[:PASSWORD]@]HOST[:PORT][/PATH][?KEY=VALUE&…]`. A protocol joins the laboratory
//! by its line in [`SCHEMES`] and its arm in [`Profile`](crate::client::FleetProfile). The key
//! `protocol` names the protocol inside a WebSocket (`miop`, `mqtt`, `im`); without it the group's
//! other keys decide (`product` means MIOP, else MQTT). The key `ca` names a file of authorities to
//! trust.

use base::hex;
use model::link::{Protocol, WireProfile};
use net::layer::websocket::UpgradeTarget;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

/// Protocol that clients speak.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Speech {
    /// MIOP.
    Miop,
    /// MQTT.
    Mqtt,
    /// IM.
    Im,
    /// XMPP.
    Xmpp,
    /// HTTP/1.1.
    Http,
    /// Bytes, to be held or echoed.
    Tcp,
}

/// A scheme of URLs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UrlScheme {
    /// Its name.
    pub name: &'static str,
    /// Protocol of the scheme; `None`: WebSocket, which carries MIOP, MQTT or IM.
    pub speech: Option<Speech>,
    /// Whether TLS is around it.
    pub is_encrypted: bool,
    /// Its port where none is given.
    pub port: Option<u16>,
}

impl UrlScheme {
    /// Whether WebSocket is around what is spoken.
    pub const fn is_web_socket(&self) -> bool {
        self.speech.is_none()
    }
}

/// The schemes.
pub const SCHEMES: &[UrlScheme] = &[
    scheme("miop", Some(Speech::Miop), false, None),
    scheme("miops", Some(Speech::Miop), true, None),
    scheme("mqtt", Some(Speech::Mqtt), false, Some(1883)),
    scheme("mqtts", Some(Speech::Mqtt), true, Some(8883)),
    scheme("im", Some(Speech::Im), false, Some(client::IM_PORT)),
    scheme("ims", Some(Speech::Im), true, Some(client::IMS_PORT)),
    scheme("xmpp", Some(Speech::Xmpp), false, Some(5222)),
    scheme("xmpps", Some(Speech::Xmpp), true, Some(5223)),
    scheme("ws", None, false, Some(80)),
    scheme("wss", None, true, Some(443)),
    scheme("tcp", Some(Speech::Tcp), false, None),
    scheme("http", Some(Speech::Http), false, Some(80)),
    scheme("https", Some(Speech::Http), true, Some(443)),
];

const fn scheme(
    name: &'static str,
    speech: Option<Speech>,
    is_encrypted: bool,
    port: Option<u16>,
) -> UrlScheme {
    UrlScheme { name, speech, is_encrypted, port }
}

/// URL of a target.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    /// Scheme, which says the protocol and its layers.
    pub scheme: &'static UrlScheme,
    /// Text in front of the address: a user, for MIOP the prefix of device ids.
    pub user: Option<String>,
    /// Text behind the user: a password, for MIOP the product.
    pub password: Option<String>,
    /// Host name or address; an IPv6 address without its brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Path, with the query's keys that are not ours; `/` at least.
    pub path: String,
    /// Protocol inside a WebSocket, if the URL names it.
    pub inside: Option<Speech>,
    /// A file of authorities to trust.
    pub authority: Option<String>,
}

impl Url {
    /// Parses a URL.
    pub fn parse(text: &str) -> Result<Url, String> {
        let (name, rest) = text.split_once("://").ok_or_else(|| {
            format!(
                "`{}` is not a URL: the scheme is missing, as in mqtt://127.0.0.1:1883",
                shown(text)
            )
        })?;
        let wrong = |what: &str| format!("invalid URL `{}`: {what}", shown(text));
        let scheme = SCHEMES.iter().find(|scheme| scheme.name == name);
        let scheme = scheme.ok_or_else(|| {
            let known: Vec<&str> = SCHEMES.iter().map(|scheme| scheme.name).collect();
            wrong(&format!("unknown scheme {name}://; use one of {}", known.join(" ")))
        })?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let slash = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(slash);
        let (who, address) = match authority.rsplit_once('@') {
            Some((who, address)) => (Some(who), address),
            None => (None, authority),
        };
        let (host, port) = split_port(address);
        let port = match port {
            Some(port) => port.parse().ok().filter(|port| *port > 0),
            None => scheme.port,
        };
        let port = port.ok_or_else(|| wrong("it needs a port from 1 to 65535"))?;
        if host.is_empty() {
            return Err(wrong("it has no host"));
        }
        let (user, password) = match who.map(|who| who.split_once(':').unwrap_or((who, ""))) {
            Some((user, password)) => (filled(user), filled(password)),
            None => (None, None),
        };
        let path = if path.is_empty() { "/" } else { path }.to_owned();
        let host = host.to_owned();
        let (inside, authority) = (None, None);
        let mut url = Url { scheme, user, password, host, port, path, inside, authority };
        url.take_query(query).map_err(|what| wrong(&what))?;
        Ok(url)
    }

    fn take_query(&mut self, query: &str) -> Result<(), String> {
        let mut mark = '?';
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=').unwrap_or((pair, "")) {
                ("protocol", "miop") if self.scheme.is_web_socket() => {
                    self.inside = Some(Speech::Miop);
                }
                ("protocol", "mqtt") if self.scheme.is_web_socket() => {
                    self.inside = Some(Speech::Mqtt);
                }
                ("protocol", "im") if self.scheme.is_web_socket() => {
                    self.inside = Some(Speech::Im);
                }
                ("protocol", _) if self.scheme.is_web_socket() => {
                    return Err("the WebSocket protocols are miop, mqtt and im".to_owned());
                }
                ("ca", path) if self.scheme.is_encrypted && !path.is_empty() => {
                    self.authority = Some(path.to_owned());
                }
                _ => {
                    self.path.push(mark);
                    self.path.push_str(pair);
                    mark = '&';
                }
            }
        }
        Ok(())
    }

    /// The protocol as far as the URL names it: in a WebSocket that does not, `by_keys`.
    pub fn speech(&self, by_keys: Speech) -> Speech {
        self.scheme.speech.or(self.inside).unwrap_or(by_keys)
    }

    /// Its address: the first that the resolver gives.
    pub fn resolve(&self) -> Result<SocketAddr, String> {
        let (host, port) = (self.host.as_str(), self.port);
        let mut found = (host, port)
            .to_socket_addrs()
            .map_err(|error| format!("unable to resolve {host}:{port}: {error}"))?;
        found.next().ok_or_else(|| format!("unable to resolve {host}:{port}: no address"))
    }

    /// Host and port, as they stand in a `Host` header.
    pub fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

impl std::fmt::Debug for Url {
    /// Without what proves who calls.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}{}", self.scheme.name, self.authority(), self.path)
    }
}

/// A URL without what proves who calls: what is in front of the address, and a secret in it.
pub fn shown(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let address = rest[..end].rfind('@').map_or(0, |at| at + 1);
    let mut shown = format!("{scheme}://{}", &rest[address..]);
    if let Some(at) = shown.find("secret=") {
        let from = at + "secret=".len();
        let to = shown[from..].find('&').map_or(shown.len(), |length| from + length);
        shown.replace_range(from..to, "...");
    }
    shown
}

/// Whether a group that calls these is people who talk: by IM, or by XMPP.
pub fn is_chat(urls: &[String]) -> bool {
    speaks(urls, |speech| matches!(speech, Speech::Im | Speech::Xmpp))
}

/// Whether a group that calls these talks by IM, which has conversations of many.
pub fn is_im(urls: &[String]) -> bool {
    speaks(urls, |speech| speech == Speech::Im)
}

fn speaks(urls: &[String], is_it: impl Fn(Speech) -> bool) -> bool {
    let url = urls.first().and_then(|url| Url::parse(url).ok());
    url.is_some_and(|url| is_it(url.speech(Speech::Mqtt)))
}

/// Protocols that clients speak.
pub const WIRES: [WireProfile; 4] =
    [proto_miop::WIRE, proto_mqtt::WIRE, proto_im::WIRE, proto_xmpp::WIRE];

/// Target of a WebSocket's upgrade for this protocol.
pub fn upgrade(host: String, path: &str, protocol: Protocol) -> Arc<UpgradeTarget> {
    let wire = WIRES.iter().find(|wire| wire.protocol == protocol);
    UpgradeTarget::open(host, path, wire.expect("what comes in WebSockets is one of them"))
}

/// Bytes of a secret: pairs of hexadecimal digits, at least one.
pub fn secret_of(text: &str) -> Option<Box<[u8]>> {
    hex::decode(text).filter(|bytes| !bytes.is_empty())
}

fn filled(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// Host and port of an address; the colons of an IPv6 address stand in brackets.
fn split_port(address: &str) -> (&str, Option<&str>) {
    if let Some(rest) = address.strip_prefix('[')
        && let Some((host, rest)) = rest.split_once(']')
    {
        return (host, rest.strip_prefix(':'));
    }
    match address.rsplit_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (address, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_scheme_has_its_layers_and_its_port() {
        for scheme in SCHEMES {
            let url = Url::parse(&format!("{}://box:pk@[::1]:7000/a?b=c", scheme.name));
            let url = url.expect("it has everything");
            assert_eq!((url.scheme, url.port, url.host.as_str()), (scheme, 7000, "::1"));
            assert_eq!((url.user.as_deref(), url.path.as_str()), (Some("box"), "/a?b=c"));
            let bare = Url::parse(&format!("{}://localhost", scheme.name));
            assert_eq!(bare.map(|url| url.port).ok(), scheme.port, "{}", scheme.name);
        }
    }

    #[test]
    fn a_web_socket_says_what_it_carries_and_a_secret_is_not_shown() {
        let url = Url::parse("wss://h:1/mqtt?protocol=mqtt&x=1&ca=/a.pem").expect("well");
        assert_eq!((url.inside, url.path.as_str()), (Some(Speech::Mqtt), "/mqtt?x=1"));
        assert_eq!(url.authority.as_deref(), Some("/a.pem"));
        assert_eq!(shown("mqtt://u:p@h:1/?secret=ab&b"), "mqtt://h:1/?secret=...&b");
        for wrong in
            ["h:1", "gopher://h:1", "mqtt://:1", "mqtt://h:0", "tcp://h", "ws://h?protocol=x"]
        {
            assert!(Url::parse(wrong).is_err_and(|what| !what.is_empty()), "{wrong}");
        }
    }
}
