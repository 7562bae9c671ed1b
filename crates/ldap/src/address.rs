//! Addresses of LDAP servers.

use std::fmt;

/// The accepted form of an address.
const FORM: &str = "the form is ldap://HOST[:PORT] or ldaps://HOST[:PORT]";

/// Most bytes of an address.
const URL_BYTES_MAX: usize = 512;

/// Address of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ServerAddress {
    pub(crate) host: Box<str>,
    pub(crate) port: u16,
    /// TLS from the first byte.
    pub(crate) tls: bool,
}

impl ServerAddress {
    pub(crate) fn parse(url: &str) -> Result<ServerAddress, String> {
        let wrong = || format!("{url:?}: {FORM}");
        if url.len() > URL_BYTES_MAX {
            return Err(FORM.into());
        }
        let (tls, rest) = match (url.strip_prefix("ldap://"), url.strip_prefix("ldaps://")) {
            (Some(rest), _) => (false, rest),
            (None, Some(rest)) => (true, rest),
            (None, None) => return Err(wrong()),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let usual = if tls { 636 } else { 389 };
        let (host, port) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, usual),
            Some((host, port)) => (host, port_of(port).ok_or_else(wrong)?),
            None => match rest.find(':') {
                Some(at) => (&rest[..at], port_of(&rest[at..]).ok_or_else(wrong)?),
                None => (rest, usual),
            },
        };
        let is_host = |b: u8| b.is_ascii_alphanumeric() || b"-._:".contains(&b);
        match !host.is_empty() && host.bytes().all(is_host) {
            true => Ok(ServerAddress { host: host.into(), port, tls }),
            false => Err(wrong()),
        }
    }
}

/// The port in `text`, which begins with a colon.
fn port_of(text: &str) -> Option<u16> {
    text.strip_prefix(':')?.parse().ok().filter(|&port| port > 0)
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "ldaps" } else { "ldap" };
        match self.host.contains(':') {
            true => write!(f, "{scheme}://[{}]:{}", self.host, self.port),
            false => write!(f, "{scheme}://{}:{}", self.host, self.port),
        }
    }
}

/// Checks the address of a server; the error says what is wrong with it.
pub fn check_url(url: &str) -> Result<(), String> {
    ServerAddress::parse(url).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_scheme_a_host_and_a_port() {
        for (url, shown) in [
            ("ldap://dc1.corp.example", "ldap://dc1.corp.example:389"),
            ("ldaps://dc1.corp.example/", "ldaps://dc1.corp.example:636"),
            ("ldap://10.0.0.1:1389", "ldap://10.0.0.1:1389"),
            ("ldaps://[::1]", "ldaps://[::1]:636"),
            ("ldap://[fe80::1]:5", "ldap://[fe80::1]:5"),
        ] {
            assert_eq!(ServerAddress::parse(url).expect(url).to_string(), shown);
        }
        for url in [
            "",
            "ldap://",
            "dc1.corp.example",
            "http://a",
            "ldap://a:0",
            "ldap://a:99999",
            "ldap://a:b",
            "ldap://a/dc=corp",
            "ldap://user@a",
            "ldap://[::1",
            "ldap://a b",
        ] {
            assert!(check_url(url).is_err(), "{url}");
        }
    }
}
