//! `[service.NAME]`: what clients of XMPP are told of that is beside this server.
//!
//! Secrets are never shown. Whether a file can be read is looked at when the server starts.

use super::media::{SECRET_FILE_BYTES_MAX, is_plain};
use base::setting::{Hidden, Kind, text, whole};
use base::{section, words};
use model::account::is_domain;
use proto_xmpp::server::{ExternalService, ServiceCredentials};
use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

section! {
    /// `[service.NAME]`: a service beside XMPP, such as a relay of calls (XEP-0215).
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct ServiceSection {
        /// Its name in the configuration.
        @aside name: String;
        /// What it is: stun, turn, stuns and turns (the same in TLS), or another word that clients
        /// know.
        kind as "type": String, text("1 to 32 lower-case letters, digits and -", is_kind);
        /// Where it is.
        host: String, text("a host in lower case, or an IP address", is_host);
        /// Its port; 0 is the usual one: 3478, or 5349 of stuns and turns. Of other services none
        /// is told then.
        port: u16 = 0, whole(0..=65_535, "a port");
        /// What carries it.
        transport: ServiceTransport = ServiceTransport::Udp;
        /// The user name that lets everybody in; "" is none.
        username: String = String::new(), PLAIN;
        /// Its password. Never printed.
        password: Hidden = Hidden::default(), PLAIN, secret;
        /// Instead of these, the secret that it shares with this server, as use-auth-secret of
        /// coturn has it: a user name and a password are made of it for whoever asks, which hold for
        /// ttl_s. Never printed.
        secret: Hidden = Hidden::default(), PLAIN, secret;
        /// File with the secret, instead; "" is none.
        secret_file: Option<PathBuf> = None;
        /// How long these hold.
        ttl_s: u32 = 86_400, whole(60..=604_800, "seconds");
        /// Whether such a user name has the account in it, so that the service can tell people
        /// apart. It can be read by whoever is on the way there.
        with_account: bool = false;
    }
}

words! {
    /// What carries a service.
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
    /// One of this name with the defaults, unless the name may not be one; then why.
    pub fn named(name: &str) -> Result<ServiceSection, String> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-_".contains(&b);
        if name.is_empty() || name.len() > 32 || !name.bytes().all(allowed) {
            return Err("a service's name must be 1 to 32 letters, digits, - and _".into());
        }
        Ok(ServiceSection { name: name.into(), ..ServiceSection::default() })
    }

    /// What clients are told of it, its secret read from its file if it is there. An error says
    /// what to change.
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

    /// Whether user names are made for it.
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
    fn types_and_hosts_are_plain() {
        assert!(["stun", "x-1"].into_iter().all(is_kind));
        assert!(!["", "STUN", "a b", "<"].into_iter().any(is_kind) && !is_kind(&"x".repeat(33)));
        assert!(["a.example", "192.0.2.1", "2001:db8::1"].into_iter().all(is_host));
        assert!(!["", "A.example", "[::1]", "a b", "a'b"].into_iter().any(is_host));
    }
}
