//! EXTERNAL: somebody is who the certificate says that TLS has verified (RFC 6120 6.3.4, 13.7.1.2;
//! XEP-0178 2).
//!
//! A certificate names accounts by addresses of XMPP in it (`id-on-xmppAddr`); in one without any,
//! the name that its listener goes by is an account's. Whether there is that account, and whether
//! it may log in, is for the service to say. Invariant: nobody becomes an account of another domain
//! than the stream's, nor one that the certificate does not name.

use crate::jid;
use crate::sasl::SaslFailure;
use model::account::AccountAddress;
use model::link::{CertificateName, Link};

/// Accounts of a domain that one certificate may name; more are passed over.
const ACCOUNTS_MAX: usize = 16;

/// The accounts of a domain that the certificate of this connection names.
pub(crate) fn accounts_of(link: &Link, domain: &str) -> Vec<AccountAddress> {
    let Some(facts) = &link.tls else { return Vec::new() };
    let names = facts.certificate.as_deref().map_or(&[][..], |it| &it.names);
    let addresses = names.iter().filter_map(|name| match name {
        CertificateName::Xmpp(address) => Some(&**address),
        _ => None,
    });
    let named: Vec<&str> = addresses.collect();
    let named = match named.is_empty() {
        // What has the form of an address is one, what has not is a name of the domain.
        true => facts.identity.as_deref().into_iter().collect(),
        false => named,
    };
    let accounts = named.into_iter().filter_map(|text| account_in(text, domain));
    accounts.take(ACCOUNTS_MAX).collect()
}

/// The account that logs in: the one that the client names, or the only one in the certificate.
pub(crate) fn account(
    message: &[u8],
    link: &Link,
    domain: &str,
) -> Result<AccountAddress, SaslFailure> {
    let mut accounts = accounts_of(link, domain);
    let wanted = std::str::from_utf8(message).map_err(|_| SaslFailure::MalformedRequest)?;
    match (wanted.is_empty(), accounts.len()) {
        (true, 1) => accounts.pop().ok_or(SaslFailure::InvalidMechanism),
        (true, _) => Err(SaslFailure::InvalidAuthzid),
        (false, _) => {
            let wanted = account_in(wanted, domain).filter(|wanted| accounts.contains(wanted));
            wanted.ok_or(SaslFailure::InvalidAuthzid)
        }
    }
}

/// The account of a domain that a bare address, or a name, means.
fn account_in(text: &str, domain: &str) -> Option<AccountAddress> {
    let (name, host) = text.split_once('@').unwrap_or((text, domain));
    let is_here = jid::domain(host).is_some_and(|host| *host == *domain);
    jid::account(name, domain).filter(|_| is_here)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::link::{PeerCertificate, Protocol, TlsFacts};

    fn link(names: &[CertificateName], identity: Option<&str>) -> Link {
        let certificate = PeerCertificate { names: names.into(), ..PeerCertificate::default() };
        let facts = TlsFacts {
            certificate: Some(Box::new(certificate)),
            identity: identity.map(Box::from),
            ..TlsFacts::default()
        };
        Link { tls: Some(facts), ..Link::loopback(Protocol::Xmpp) }
    }

    fn xmpp(text: &str) -> CertificateName {
        CertificateName::Xmpp(text.into())
    }

    fn who(wanted: &str, link: &Link) -> Result<String, SaslFailure> {
        account(wanted.as_bytes(), link, "a.example").map(|account| account.as_str().to_owned())
    }

    #[test]
    fn a_certificate_names_accounts_by_addresses() {
        let one = link(&[xmpp("Ann@A.example"), xmpp("ann@b.example")], Some("bob"));
        assert_eq!(who("", &one).as_deref(), Ok("ann@a.example"));
        assert_eq!(who("ann@a.example", &one).as_deref(), Ok("ann@a.example"));
        for other in ["bob", "bob@a.example", "ann@b.example", "ann@a.example/x", "@", "\u{e9}"] {
            assert_eq!(who(other, &one), Err(SaslFailure::InvalidAuthzid), "{other}");
        }
        let two = link(&[xmpp("ann@a.example"), xmpp("bob@a.example")], None);
        assert_eq!(who("", &two), Err(SaslFailure::InvalidAuthzid), "it must say which");
        assert_eq!(who("bob@a.example", &two).as_deref(), Ok("bob@a.example"));
        assert_eq!(account(&[0xff], &two, "a.example"), Err(SaslFailure::MalformedRequest));
    }

    #[test]
    fn one_without_addresses_names_whom_its_listener_goes_by() {
        let dns = CertificateName::Dns("ann".into());
        let mapped = |identity: &str| who("", &link(std::slice::from_ref(&dns), Some(identity)));
        assert_eq!(mapped("ann").as_deref(), Ok("ann@a.example"));
        assert_eq!(mapped("ann@a.example").as_deref(), Ok("ann@a.example"));
        for identity in ["ann@b.example", "CN=ann", "", "https://a.example", "a b"] {
            assert_eq!(mapped(identity), Err(SaslFailure::InvalidAuthzid), "{identity}");
        }
        assert!(accounts_of(&Link::loopback(Protocol::Xmpp), "a.example").is_empty());
        let foreign = link(&[xmpp("ann@b.example")], Some("ann"));
        assert!(accounts_of(&foreign, "a.example").is_empty(), "addresses come first");
    }
}
