//! `[contacts]` and `[service.NAME]`: contact addresses and services that are announced to XMPP
//! clients.
//!
//! Secrets are never shown. Whether a file can be read is checked when the server starts.

use super::media::{SECRET_FILE_BYTES_MAX, is_plain};
use super::sections::is_url;
use base::setting::{Hidden, Kind, list, text, whole};
use base::{section, words};
use model::account::is_domain;
use proto_xmpp::server::{ExternalService, ServerContact, ServiceCredentials};
use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

section! {
    /// `[contacts]`: the operator's contact addresses (XEP-0157).
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct ContactsSection {
        /// For reports of abuse.
        abuse: Vec<String> = Vec::new(), ADDRESSES;
        /// For the administrators.
        admin: Vec<String> = Vec::new(), ADDRESSES;
        /// For feedback.
        feedback: Vec<String> = Vec::new(), ADDRESSES;
        /// For sales.
        sales: Vec<String> = Vec::new(), ADDRESSES;
        /// For reports of vulnerabilities.
        security: Vec<String> = Vec::new(), ADDRESSES;
        /// The service's status page.
        status: Vec<String> = Vec::new(), ADDRESSES;
        /// For user support.
        support: Vec<String> = Vec::new(), ADDRESSES;
    }
}

/// Maximum number of addresses of one role.
const ADDRESSES_MAX: usize = 8;

/// Longest address, bytes.
const ADDRESS_BYTES_MAX: usize = 256;

const ADDRESSES: Kind = list(
    ADDRESSES_MAX,
    "URIs of up to 256 bytes, such as \"mailto:me@example.org\", \"xmpp:me@example.org\" or \
     \"https://example.org/me\"",
    is_uri,
);

/// RFC 3986 3: a scheme, and the characters that may follow it.
fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let of_scheme = |b: u8| b.is_ascii_alphanumeric() || b"+-.".contains(&b);
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic());
    let of_rest = |b: u8| b.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&b);
    let is_its = match &*scheme.to_ascii_lowercase() {
        "http" | "https" => is_url(text),
        "mailto" => rest.split_once('@').is_some_and(|(name, host)| {
            !name.is_empty() && !host.is_empty() && !rest.starts_with('/')
        }),
        _ => rest.bytes().any(|b| b.is_ascii_alphanumeric()),
    };
    let is_whole = is_scheme && scheme.bytes().all(of_scheme) && rest.bytes().all(of_rest);
    text.len() <= ADDRESS_BYTES_MAX && is_whole && is_its
}

impl ContactsSection {
    /// The addresses as clients get them.
    pub fn told(&self) -> Vec<ServerContact> {
        let all = [
            ("abuse", &self.abuse),
            ("admin", &self.admin),
            ("feedback", &self.feedback),
            ("sales", &self.sales),
            ("security", &self.security),
            ("status", &self.status),
            ("support", &self.support),
        ];
        let of = |(role, addresses): (&'static str, &Vec<String>)| {
            let addresses = addresses.iter().map(|it| it.as_str().into()).collect();
            ServerContact { role, addresses }
        };
        all.map(of).into()
    }
}

section! {
    /// `[service.NAME]`: a service beside XMPP, such as a TURN relay for calls (XEP-0215).
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct ServiceSection {
        /// Its name in the configuration.
        @aside name: String;
        /// Type of the service: stun, turn, stuns and turns (the same in TLS), or another word that
        /// clients know.
        kind as "type": String, text("1 to 32 lower-case letters, digits and -", is_kind);
        /// Host of the service.
        host: String, text("a host in lower case, or an IP address", is_host);
        /// Port; 0 is the default of the type: 3478, or 5349 for stuns and turns. For other types
        /// no port is announced then.
        port: u16 = 0, whole(0..=65_535, "a port");
        /// Transport protocol.
        transport: ServiceTransport = ServiceTransport::Udp;
        /// A user name shared by all clients; "" is none.
        username: String = String::new(), PLAIN;
        /// Its password. Never printed.
        password: Hidden = Hidden::default(), PLAIN, secret;
        /// Instead of a shared user name: the secret that the service shares with this server, as
        /// coturn's use-auth-secret. Each client gets its own user name and password, made from the
        /// secret and valid for ttl_s. Never printed.
        secret: Hidden = Hidden::default(), PLAIN, secret;
        /// File with the secret, instead of secret; "" is none.
        secret_file: Option<PathBuf> = None;
        /// How long these credentials are valid.
        ttl_s: u32 = 86_400, whole(60..=604_800, "seconds");
        /// Put the account into these user names, so that the service can tell users apart. Anybody
        /// on the network path can read it.
        with_account: bool = false;
    }
}

words! {
    /// Transport protocol of a service.
    pub enum ServiceTransport {
        /// UDP.
        Udp = "udp",
        /// TCP.
        Tcp = "tcp",
    }
}

const PLAIN: Kind = text("up to 256 visible characters", is_plain);

fn is_kind(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=32).contains(&text.len()) && text.bytes().all(allowed)
}

fn is_host(text: &str) -> bool {
    is_domain(text) || text.parse::<IpAddr>().is_ok()
}

impl ServiceSection {
    /// A service of this name with the defaults; an error says why the name is invalid.
    pub fn named(name: &str) -> Result<ServiceSection, String> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-_".contains(&b);
        if name.is_empty() || name.len() > 32 || !name.bytes().all(allowed) {
            return Err("a service's name must be 1 to 32 letters, digits, - and _".into());
        }
        Ok(ServiceSection { name: name.into(), ..ServiceSection::default() })
    }

    /// The service as clients get it, with its secret read from its file. An error says what to
    /// change.
    pub fn told(&self) -> Result<ExternalService, String> {
        let usual = match &*self.kind {
            "stun" | "turn" => Some(3_478),
            "stuns" | "turns" => Some(5_349),
            _ => None,
        };
        let transport = match self.transport {
            ServiceTransport::Udp => "udp",
            ServiceTransport::Tcp => "tcp",
        };
        Ok(ExternalService {
            kind: self.kind.as_str().into(),
            host: self.host.as_str().into(),
            port: Some(self.port).filter(|port| *port > 0).or(usual),
            transport,
            credentials: self.credentials()?,
        })
    }

    /// Whether it makes user names from a secret.
    pub(super) fn has_secret(&self) -> bool {
        self.secret_file.is_some() || !self.secret.reveal().is_empty()
    }

    fn credentials(&self) -> Result<ServiceCredentials, String> {
        let secret: Box<str> = match &self.secret_file {
            Some(path) => read_secret(path)
                .map_err(|why| format!("service.{}: {}: {why}", self.name, path.display()))?
                .into(),
            None => self.secret.reveal().into(),
        };
        if !secret.is_empty() {
            let (ttl_s, with_account) = (self.ttl_s, self.with_account);
            return Ok(ServiceCredentials::Made { secret, ttl_s, with_account });
        }
        Ok(match self.username.is_empty() {
            true => ServiceCredentials::Open,
            false => ServiceCredentials::Same {
                username: self.username.as_str().into(),
                password: self.password.reveal().into(),
            },
        })
    }
}

fn read_secret(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    let read = File::open(path)
        .and_then(|file| file.take(SECRET_FILE_BYTES_MAX).read_to_string(&mut text));
    read.map_err(|error| error.to_string())?;
    let secret = text.trim();
    match !secret.is_empty() && is_plain(secret) {
        true => Ok(secret.to_owned()),
        false => Err("holds no secret of up to 256 visible characters".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(kind: &str) -> ServiceSection {
        let (kind, host) = (kind.into(), "192.0.2.7".into());
        ServiceSection { kind, host, ..ServiceSection::named("x").expect("a name") }
    }

    #[test]
    fn a_port_is_the_usual_one_of_its_kind_or_that_which_is_named() {
        let port = |section: ServiceSection| section.told().expect("told").port;
        let all = ["stun", "turn", "stuns", "turns", "ftp"].map(|kind| port(named(kind)));
        assert_eq!(all, [Some(3_478), Some(3_478), Some(5_349), Some(5_349), None]);
        assert_eq!(port(ServiceSection { port: 9, ..named("ftp") }), Some(9));
    }

    #[test]
    fn what_lets_one_in_is_nothing_a_password_or_a_secret_in_its_place_or_a_file() {
        let of = |section: &ServiceSection| section.told().map(|it| it.credentials);
        let mut section = named("turn");
        assert_eq!(of(&section), Ok(ServiceCredentials::Open));
        (section.username, section.password) = ("u".into(), Hidden::of("p"));
        let same = ServiceCredentials::Same { username: "u".into(), password: "p".into() };
        assert_eq!(of(&section), Ok(same));
        section.secret = Hidden::of("s");
        let made = |secret: &str| {
            let secret = secret.into();
            Ok(ServiceCredentials::Made { secret, ttl_s: 86_400, with_account: false })
        };
        assert_eq!(of(&section), made("s"));
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("secret");
        section.secret_file = Some(file.clone());
        assert!(of(&section).is_err_and(|why| why.starts_with("service.x: ")));
        for (text, is_one) in [("north\n", true), ("\n", false), ("a b", false)] {
            std::fs::write(&file, text).expect("written");
            assert_eq!(of(&section).is_ok(), is_one, "{text:?}");
        }
        std::fs::write(&file, "north\n").expect("written");
        assert_eq!(of(&section), made("north"));
    }

    #[test]
    fn an_address_is_a_uri_that_leads_somewhere() {
        for uri in [
            "mailto:abuse@example.org",
            "xmpp:abuse@example.org?message",
            "https://example.org/a?b=%20",
            "tel:+4930123456",
            "sip:ann@[2001:db8::1]",
        ] {
            assert!(is_uri(uri), "{uri}");
        }
        for other in [
            "",
            "abuse@example.org",
            "mailto:abuse",
            "mailto:@example.org",
            "mailto://a@b",
            "xmpp:",
            "xmpp:/?",
            "http:example.org",
            "https:///x",
            ":a",
            "1a:b",
            "a b:c",
            "xmpp:a b",
            "xmpp:<a>",
            "xmpp:\u{e9}",
        ] {
            assert!(!is_uri(other), "{other}");
        }
        let long = |bytes: usize| format!("xmpp:{}", "x".repeat(bytes - 5));
        assert!(is_uri(&long(256)) && !is_uri(&long(257)));
    }

    #[test]
    fn types_and_hosts_are_plain() {
        assert!(["stun", "x-1"].into_iter().all(is_kind));
        assert!(!["", "STUN", "a b", "<"].into_iter().any(is_kind) && !is_kind(&"x".repeat(33)));
        assert!(["a.example", "192.0.2.1", "2001:db8::1"].into_iter().all(is_host));
        assert!(!["", "A.example", "[::1]", "a b", "a'b"].into_iter().any(is_host));
    }
}
