//! Address of a server: of a broker, or of one of instant messaging.
//!
//! `mqtt://`, `mqtts://`, `ws://`, `wss://` and `unix://`, with the names that others use for them,
//! or `im://` and `ims://` for the first two; without a scheme it is a host. A user and a password
//! may stand in front of the host.

use model::link::{Protocol, WireProfile};
use std::path::PathBuf;

/// Address of a server, and what goes around the protocol.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BrokerAddress {
    /// Protocol: MQTT or IM.
    pub protocol: Protocol,
    /// Host or socket file to call.
    pub place: Endpoint,
    /// TLS is spoken.
    pub tls: bool,
    /// The path of a WebSocket; `None`: no WebSocket.
    pub web_socket: Option<String>,
    /// User and password that stood in it; never printed.
    pub user: Option<String>,
    /// The password.
    pub password: Option<String>,
    /// Path behind the host: a topic, for `holdline pub -L`.
    pub path: String,
}

/// Default port of Holdline's instant messaging, without TLS.
pub const IM_PORT: u16 = 7005;
/// Default port of Holdline's instant messaging, with TLS.
pub const IMS_PORT: u16 = 7006;

/// Endpoint that is called.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Endpoint {
    /// A host and a port.
    Host(String, u16),
    /// A Unix socket.
    Unix(PathBuf),
}

impl Endpoint {
    /// Host and port, as they stand in a `Host` header.
    pub(crate) fn authority(&self) -> String {
        match self {
            Endpoint::Host(host, port) if host.contains(':') => format!("[{host}]:{port}"),
            Endpoint::Host(host, port) => format!("{host}:{port}"),
            Endpoint::Unix(_) => "localhost".to_owned(),
        }
    }
}

impl BrokerAddress {
    /// A host without anything around.
    pub fn tcp(host: &str, port: u16) -> BrokerAddress {
        BrokerAddress {
            protocol: Protocol::Mqtt,
            place: Endpoint::Host(host.to_owned(), port),
            tls: false,
            web_socket: None,
            user: None,
            password: None,
            path: String::new(),
        }
    }

    /// Address of a server of instant messaging.
    pub fn im(host: &str, port: u16) -> BrokerAddress {
        BrokerAddress { protocol: Protocol::Im, ..BrokerAddress::tcp(host, port) }
    }

    /// A Unix socket.
    pub fn unix(path: impl Into<PathBuf>) -> BrokerAddress {
        BrokerAddress { place: Endpoint::Unix(path.into()), ..BrokerAddress::tcp("", 0) }
    }

    /// Reads one: `host`, `host:port`, `mqtts://user:password@host:port`, `ws://host/path`,
    /// `unix:///path`. An error says in words what is wrong with it.
    pub fn parse(text: &str) -> Result<BrokerAddress, String> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("mqtt", text));
        let around = match scheme {
            "mqtt" | "tcp" => (false, false, 1883),
            "mqtts" | "ssl" | "tls" => (true, false, 8883),
            "ws" => (false, true, 80),
            "wss" => (true, true, 443),
            "unix" if rest.starts_with('/') => return Ok(BrokerAddress::unix(rest)),
            "unix" => {
                return Err(format!(
                    "{text}: a Unix socket needs an absolute path: \
             unix:///run/x"
                ));
            }
            _ => {
                return Err(format!(
                    "{text}: unknown scheme {scheme}; use mqtt, mqtts, ws, wss or unix"
                ));
            }
        };
        BrokerAddress::taken_apart(rest, around, Protocol::Mqtt)
    }

    /// Reads one of instant messaging: `host`, `host:port`, `im://user@host`, `ims://host`,
    /// `ws://host/path`, `wss://host`. An error says in words what is wrong with it.
    pub fn parse_im(text: &str) -> Result<BrokerAddress, String> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("im", text));
        let around = match scheme {
            "im" => (false, false, IM_PORT),
            "ims" => (true, false, IMS_PORT),
            "ws" => (false, true, 80),
            "wss" => (true, true, 443),
            _ => return Err(format!("{text}: unknown scheme {scheme}; use im, ims, ws or wss")),
        };
        BrokerAddress::taken_apart(rest, around, Protocol::Im)
    }

    /// Parses what follows the scheme; the tuple says whether TLS and WebSocket are used, and the
    /// default port.
    fn taken_apart(
        rest: &str,
        (tls, web_socket, port): (bool, bool, u16),
        protocol: Protocol,
    ) -> Result<BrokerAddress, String> {
        let (authority, path) = match rest.find('/') {
            Some(at) => (&rest[..at], &rest[at..]),
            None => (rest, ""),
        };
        let (credentials, host) = match authority.rsplit_once('@') {
            Some((credentials, host)) => (Some(credentials), host),
            None => (None, authority),
        };
        let (host, port) = host_and_port(host, port).ok_or_else(|| {
            format!("{host}: expected a host name or an address, optionally with :PORT")
        })?;
        let (user, password) =
            match credentials.map(|both| both.split_once(':').unwrap_or((both, ""))) {
                Some((user, "")) => (Some(decoded(user)), None),
                Some((user, password)) => (Some(decoded(user)), Some(decoded(password))),
                None => (None, None),
            };
        let web_socket = web_socket.then(|| match path {
            "" | "/" => format!("/{}", protocol.name()),
            path => path.to_owned(),
        });
        let path = path.trim_start_matches('/').to_owned();
        let place = Endpoint::Host(host, port);
        Ok(BrokerAddress { protocol, place, tls, web_socket, user, password, path })
    }
}

impl BrokerAddress {
    /// The protocol as the layers see it.
    pub(crate) fn wire(&self) -> &'static WireProfile {
        match self.protocol {
            Protocol::Im => &proto_im::WIRE,
            _ => &proto_mqtt::WIRE,
        }
    }
}

impl std::fmt::Display for BrokerAddress {
    /// Without user and password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.web_socket.is_some() { "ws" } else { self.protocol.name() };
        let secure = if self.tls { "s" } else { "" };
        match &self.place {
            Endpoint::Unix(path) => write!(f, "unix://{}", path.display()),
            place @ Endpoint::Host(..) => write!(f, "{scheme}{secure}://{}", place.authority()),
        }
    }
}

fn host_and_port(text: &str, port: u16) -> Option<(String, u16)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            (host, after.strip_prefix(':').map_or(Some(port), |port| port.parse().ok())?)
        }
        None if text.matches(':').count() > 1 => (text, port), // an IPv6 address without a port
        None => match text.split_once(':') {
            Some((host, port)) => (host, port.parse().ok()?),
            None => (text, port),
        },
    };
    (!host.is_empty() && port != 0).then(|| (host.to_owned(), port))
}

/// Text with `%40` and the like read as what they stand for.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let code = after
            .first_chunk::<2>()
            .filter(|_| byte == b'%')
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        bytes.push(code.unwrap_or(byte));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_every_kind_are_read() {
        let cases = [
            ("broker", "mqtt://broker:1883"),
            ("broker:1", "mqtt://broker:1"),
            ("mqtts://u:p@broker", "mqtts://broker:8883"),
            ("ws://broker", "ws://broker:80"),
            ("wss://[::1]:9/x", "wss://[::1]:9"),
            ("::1", "mqtt://[::1]:1883"),
            ("unix:///run/x", "unix:///run/x"),
        ];
        for (text, shown) in cases {
            assert_eq!(
                BrokerAddress::parse(text).map(|address| address.to_string()),
                Ok(shown.into())
            );
        }
    }

    #[test]
    fn addresses_of_instant_messaging_are_read() {
        let cases = [
            ("chat", "im://chat:7005"),
            ("chat:1", "im://chat:1"),
            ("ims://ann@chat", "ims://chat:7006"),
            ("ws://chat", "ws://chat:80"),
            ("wss://chat/x", "wss://chat:443"),
        ];
        for (text, shown) in cases {
            let address = BrokerAddress::parse_im(text).map(|address| address.to_string());
            assert_eq!(address, Ok(shown.into()));
        }
        let path = BrokerAddress::parse_im("ws://chat").map(|address| address.web_socket);
        assert_eq!(path, Ok(Some("/im".into())));
        for text in ["", "mqtt://x", "im://", "x:y", "unix:///run/x"] {
            assert!(BrokerAddress::parse_im(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in ["", "http://x", "mqtt://", "x:y", "x:0", "unix://run", "[::1"] {
            assert!(BrokerAddress::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn user_password_and_path_are_taken_apart() {
        let address = BrokerAddress::parse("mqtt://a%40b:c:d@h:9/x/y").expect("an address");
        assert_eq!(address.user.as_deref(), Some("a@b"));
        assert_eq!((address.password.as_deref(), &*address.path), (Some("c:d"), "x/y"));
        assert_eq!(BrokerAddress::parse("ws://h/x").map(|a| a.web_socket), Ok(Some("/x".into())));
        assert_eq!(BrokerAddress::parse("ws://h/").map(|a| a.web_socket), Ok(Some("/mqtt".into())));
    }
}
