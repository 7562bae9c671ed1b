//! `[federation]` and `[component.NAME]`: other XMPP servers and components.
//!
//! Secrets are never shown. Whether a file can be read is checked when the server starts.

use base::section;
use base::setting::{Hidden, Kind, list, text};
use model::account::{canonical_domain, is_domain};
use model::limits::FederationLimits;
use proto_xmpp::peer::PeerDomains;
use std::path::PathBuf;

section! {
    /// `[federation]`: other XMPP servers.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct FederationSection {
        /// Exchange messages with accounts of other domains. Needs a listener with protocol
        /// xmpp-server that other servers can reach, at port 5269 or where an SRV record says.
        enabled: bool = false;
        /// Domains to federate with; [] is all.
        allow: Vec<String> = Vec::new(), DOMAINS;
        /// Domains not to federate with, even if allow has them.
        deny: Vec<String> = Vec::new(), DOMAINS;
        /// Require TLS in both directions.
        require_tls: bool = true;
        /// Require a valid certificate of the domain from every other server, and therefore TLS,
        /// whatever require_tls says. Otherwise, servers without one are verified by dialback.
        require_certificates: bool = false;
        /// PEM file of the authorities that certificates of called servers are verified against; ""
        /// is the system's.
        ca: Option<PathBuf> = None;
        /// PEM file of the certificate that is presented to called servers; "" is that of [tls].
        certificate: Option<PathBuf> = None;
        /// PEM file of its private key.
        key: Option<PathBuf> = None;
        /// Call domains at public addresses only: not domains that are IP addresses, nor names that
        /// resolve to this machine, a private network or another address without global reach.
        /// Entries of hosts are called in any case.
        public_only: bool = true;
        /// Addresses of domains, instead of a DNS look-up.
        hosts: Vec<String> = Vec::new(), list(
            1_024,
            "domains with a host and a port, such as \"b.example=192.0.2.7:5269\"",
            |text| host(text).is_some(),
        );
        /// Limits of federation.
        @part limits: FederationLimits;
    }
}

section! {
    /// `[component.NAME]`: a service with a domain of its own (XEP-0114).
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct ComponentSection {
        /// Its name.
        @aside name: String;
        /// Its domain, such as "echo.example.org".
        domain: String, text("a host in lower case", is_domain);
        /// Secret shared between the component and this server. Never printed.
        secret: Hidden = Hidden::default(), SECRET, secret;
        /// File with the secret, instead of secret; "" is none.
        secret_file: Option<PathBuf> = None;
    }
}

const DOMAINS: Kind = list(4_096, "hosts in lower case", is_domain);

const SECRET: Kind = text("up to 256 visible characters", |text| {
    text.len() <= 256 && text.bytes().all(|b| b.is_ascii_graphic())
});

/// Longest secret in a file, bytes.
const SECRET_BYTES_MAX: usize = 4_096;

impl ComponentSection {
    /// A component of this name with the defaults; an error says why the name is invalid.
    pub fn named(name: &str) -> Result<ComponentSection, String> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-_".contains(&b);
        if name.is_empty() || name.len() > 32 || !name.bytes().all(allowed) {
            return Err("a component's name must be 1 to 32 letters, digits, - and _".into());
        }
        Ok(ComponentSection { name: name.into(), ..ComponentSection::default() })
    }

    /// Its secret, read from its file if there is one. An error says what to change.
    pub fn read_secret(&self) -> Result<Box<str>, String> {
        let wrong = |why: &str| format!("component.{}: {why}", self.name);
        let text = match &self.secret_file {
            Some(path) => std::fs::read_to_string(path)
                .map_err(|error| wrong(&format!("{}: {error}", path.display())))?,
            None => self.secret.reveal().to_owned(),
        };
        match text.trim() {
            "" => Err(wrong("it has no secret: set secret or secret_file")),
            text if text.len() > SECRET_BYTES_MAX => Err(wrong("its secret is too long")),
            text => Ok(text.into()),
        }
    }
}

/// Domain, host and port of an entry of `hosts`.
pub(crate) fn host(text: &str) -> Option<(&str, &str, u16)> {
    let (domain, place) = text.split_once('=')?;
    let (host, port) = place.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (is_domain(domain) && !host.is_empty()).then_some((domain, host, port.parse().ok()?))
}

impl FederationSection {
    /// Address of a domain, if hosts has one.
    pub(crate) fn place_of(&self, domain: &str) -> Option<(&str, u16)> {
        let mut hosts = self.hosts.iter().filter_map(|text| host(text));
        let is_it = |of: &str| canonical_domain(of).is_some_and(|of| *of == *domain);
        hosts.find(|(of, ..)| is_it(of)).map(|(_, host, port)| (host, port))
    }

    /// Whether TLS is required in both directions: certificates exist only in TLS.
    pub(crate) fn requires_tls(&self) -> bool {
        self.require_tls || self.require_certificates
    }

    /// Domains to federate with, if federation is enabled.
    pub(crate) fn peers(&self) -> PeerDomains {
        let one = |name: &String| canonical_domain(name).map(|it| it.into());
        let list = |names: &[String]| names.iter().filter_map(one).collect();
        PeerDomains { allow: list(&self.allow), deny: list(&self.deny) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_host_and_a_port() {
        assert_eq!(host("b.example=127.0.0.2:5269"), Some(("b.example", "127.0.0.2", 5269)));
        assert_eq!(host("b.example=[::1]:1"), Some(("b.example", "::1", 1)));
        for text in ["", "b.example", "b.example=", "b.example=x", "=x:1", "B=x:1", "b=x:99999"] {
            assert_eq!(host(text), None, "{text}");
        }
    }

    #[test]
    fn who_wants_certificates_wants_tls() {
        let of = |require_tls, require_certificates| FederationSection {
            require_tls,
            require_certificates,
            ..FederationSection::default()
        };
        assert!(of(false, true).requires_tls() && of(true, false).requires_tls());
        assert!(of(true, true).requires_tls() && !of(false, false).requires_tls());
    }

    #[test]
    fn who_is_denied_is_not_spoken_with_whatever_else_is_said() {
        let of = |allow: &[&str], deny: &[&str]| FederationSection {
            enabled: true,
            allow: allow.iter().map(|it| it.to_string()).collect(),
            deny: deny.iter().map(|it| it.to_string()).collect(),
            ..FederationSection::default()
        };
        assert!(of(&[], &[]).peers().has("b.example"));
        assert!(of(&["b.example"], &[]).peers().has("b.example"));
        assert!(!of(&["c.example"], &[]).peers().has("b.example"));
        assert!(!of(&["b.example"], &["b.example"]).peers().has("b.example"));
        let denied = of(&[], &["xn--bcher-kva.example"]);
        assert!(!denied.peers().has("b\u{fc}cher.example"), "in whichever letters");
        let hosts = vec!["xn--bcher-kva.example=127.0.0.1:1".to_owned()];
        let placed = FederationSection { hosts, ..FederationSection::default() };
        assert_eq!(placed.place_of("b\u{fc}cher.example"), Some(("127.0.0.1", 1)));
    }
}
