//! Whether a certificate is one of a domain (RFC 6120 13.7.1.4, XEP-0178).

use crate::jid;
use model::link::{CertificateName, Link};

/// Whether whoever is at the other end has shown a certificate, which was verified, of this domain.
pub(super) fn is_of(link: &Link, domain: &str) -> bool {
    let shown = link.tls.as_ref().and_then(|tls| tls.certificate.as_deref());
    shown.is_some_and(|shown| shown.names.iter().any(|name| is_name_of(name, domain)))
}

fn is_name_of(name: &CertificateName, domain: &str) -> bool {
    // A certificate has A-labels, or the letters themselves.
    let is_it = |text: &str| jid::domain(text).is_some_and(|it| *it == *domain);
    match name {
        CertificateName::Dns(host) => match host.strip_prefix("*.") {
            // One label, and no public suffix alone.
            Some(parent) => {
                let rest = domain.split_once('.').map_or("", |(_, rest)| rest);
                rest.contains('.') && jid::domain(parent).is_some_and(|it| *it == *rest)
            }
            None => is_it(host),
        },
        CertificateName::Service(service) => {
            service.strip_prefix("_xmpp-server.").is_some_and(is_it)
        }
        CertificateName::Xmpp(address) => is_it(address),
        CertificateName::Uri(_) | CertificateName::Email(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_of_the_domains_that_its_names_say() {
        let dns = |text: &str| CertificateName::Dns(text.into());
        for (name, domain, is) in [
            (dns("a.example"), "a.example", true),
            (dns("A.Example."), "a.example", true),
            (dns("b.example"), "a.example", false),
            (dns("xn--bcher-kva.example"), "b\u{fc}cher.example", true),
            (dns("*.xn--bcher-kva.example"), "x.b\u{fc}cher.example", true),
            (dns("xn--bcher-kvb.example"), "b\u{fc}cher.example", false),
            (CertificateName::Xmpp("B\u{fc}cher.example".into()), "b\u{fc}cher.example", true),
            (dns("*.a.example"), "x.a.example", true),
            (dns("*.a.example"), "a.example", false),
            (dns("*.a.example"), "y.x.a.example", false),
            (dns("*.example"), "a.example", false),
            (CertificateName::Service("_xmpp-server.a.example".into()), "a.example", true),
            (CertificateName::Service("_xmpp-client.a.example".into()), "a.example", false),
            (CertificateName::Xmpp("a.example".into()), "a.example", true),
            (CertificateName::Email("x@a.example".into()), "a.example", false),
            (CertificateName::Uri("xmpp:a.example".into()), "a.example", false),
        ] {
            assert_eq!(is_name_of(&name, domain), is, "{name:?} {domain}");
        }
    }
}
