//! Address of a broker.
//!
//! `mqtt://`, `mqtts://`, `ws://`, `wss://` and `unix://`, with the names that others use for them;
//! without a scheme it is a host. A user and a password may stand in front of the host.

use std::path::PathBuf;

/// Address of a broker, and what goes around the protocol.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BrokerAddress {
    /// What is called.
    pub place: Endpoint,
    /// TLS is spoken.
    pub tls: bool,
    /// The path of a WebSocket; `None`: no WebSocket.
    pub web_socket: Option<String>,
    /// User and password that stood in it; never printed.
    pub user: Option<String>,
    /// The password.
    pub password: Option<String>,
    /// What followed the host: a topic, for `holdline pub -L`.
    pub path: String,
}

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
            place: Endpoint::Host(host.to_owned(), port),
            tls: false,
            web_socket: None,
            user: None,
            password: None,
            path: String::new(),
        }
    }

    /// A Unix socket.
    pub fn unix(path: impl Into<PathBuf>) -> BrokerAddress {
        BrokerAddress { place: Endpoint::Unix(path.into()), ..BrokerAddress::tcp("", 0) }
    }

    /// Reads one: `host`, `host:port`, `mqtts://user:password@host:port`, `ws://host/path`,
    /// `unix:///path`. What is wrong with it, in words.
    pub fn parse(text: &str) -> Result<BrokerAddress, String> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("mqtt", text));
        let (tls, web_socket, port) = match scheme {
            "mqtt" | "tcp" => (false, false, 1883),
            "mqtts" | "ssl" | "tls" => (true, false, 8883),
            "ws" => (false, true, 80),
            "wss" => (true, true, 443),
            "unix" if rest.starts_with('/') => return Ok(BrokerAddress::unix(rest)),
            "unix" => return Err(format!("{text}: a Unix socket has a whole path: unix:///run/x")),
            _ => {
                return Err(format!(
                    "{text}: mqtt, mqtts, ws, wss and unix are known, not {scheme}"
                ));
            }
        };
        let (authority, path) = match rest.find('/') {
            Some(at) => (&rest[..at], &rest[at..]),
            None => (rest, ""),
        };
        let (credentials, host) = match authority.rsplit_once('@') {
            Some((credentials, host)) => (Some(credentials), host),
            None => (None, authority),
        };
        let (host, port) = host_and_port(host, port).ok_or_else(|| {
            format!("{host}: a host is a name or an address, with a port behind a colon or none")
        })?;
        let (user, password) =
            match credentials.map(|both| both.split_once(':').unwrap_or((both, ""))) {
                Some((user, "")) => (Some(decoded(user)), None),
                Some((user, password)) => (Some(decoded(user)), Some(decoded(password))),
                None => (None, None),
            };
        let web_socket = web_socket.then(|| match path {
            "" | "/" => "/mqtt".to_owned(),
            path => path.to_owned(),
        });
        let path = path.trim_start_matches('/').to_owned();
        let place = Endpoint::Host(host, port);
        Ok(BrokerAddress { place, tls, web_socket, user, password, path })
    }
}

impl std::fmt::Display for BrokerAddress {
    /// Without user and password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = match (self.tls, self.web_socket.is_some()) {
            (false, false) => "mqtt",
            (true, false) => "mqtts",
            (false, true) => "ws",
            (true, true) => "wss",
        };
        match &self.place {
            Endpoint::Unix(path) => write!(f, "unix://{}", path.display()),
            place @ Endpoint::Host(..) => write!(f, "{scheme}://{}", place.authority()),
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
