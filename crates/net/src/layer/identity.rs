//! Identity of a client's certificate: which name in it is who it is.
//!
//! The certificate was verified; what is in it was chosen by whoever asked for it, so that names of
//! different kinds must never read alike: a DNS name has no colon and a URI has one, a subject is
//! escaped (RFC 4514). A certificate in which the wanted kind is missing or not well formed has no
//! identity. It knows no users.

use base::{hex, words};
use model::link::{CertificateName, PeerCertificate};
use rustls::pki_types::CertificateDer;
use std::fmt::Write;
use x509_parser::asn1_rs::{Any, Oid, oid};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

words! {
    /// Name of a client's certificate that is its identity.
    #[derive(Default)]
    pub enum CertificateIdentity {
        /// The first DNS name or URI among its alternative names; without either, the common name.
        #[default]
        Alternative = "alternative_name",
        /// The first DNS name among its alternative names.
        Dns = "dns",
        /// The first URI among them.
        Uri = "uri",
        /// The first e-mail address among them.
        Email = "email",
        /// The common name of its subject.
        CommonName = "common_name",
        /// Its whole subject, as RFC 4514 writes it.
        Subject = "subject",
    }
}

/// The name in a verified certificate.
pub(super) fn of(certificate: &CertificateDer<'_>, which: CertificateIdentity) -> Option<Box<str>> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let name = match which {
        CertificateIdentity::CommonName => common_name(parsed.subject()),
        CertificateIdentity::Subject => subject(parsed.subject()),
        kind => alternative(&parsed, kind),
    }?;
    Some(name.into())
}

/// All names in a verified certificate that protocols go by and that are well formed.
pub(super) fn all(certificate: &CertificateDer<'_>) -> Option<PeerCertificate> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let names = parsed.subject_alternative_name().ok().flatten();
    let names = names.map_or(&[][..], |names| &names.value.general_names);
    let name = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) if is_dns(name) => Some(CertificateName::Dns((*name).into())),
        GeneralName::URI(name) if is_uri(name) => Some(CertificateName::Uri((*name).into())),
        GeneralName::RFC822Name(name) if is_email(name) => {
            Some(CertificateName::Email((*name).into()))
        }
        GeneralName::OtherName(kind, value) => other(kind, value),
        _ => None,
    };
    let subject = subject(parsed.subject()).unwrap_or_default().into();
    Some(PeerCertificate { subject, names: names.iter().filter_map(name).collect() })
}

/// A name of a kind that has a number: `[0] EXPLICIT`, and in it a text (RFC 5280 4.2.1.6).
fn other(kind: &Oid<'_>, value: &[u8]) -> Option<CertificateName> {
    let (_, outer) = Any::from_der(value).ok()?;
    let (rest, inner) = Any::from_der(outer.data).ok()?;
    let text = std::str::from_utf8(inner.data).ok().filter(|text| !text.is_empty())?;
    let is_text = rest.is_empty() && !text.chars().any(char::is_control);
    if !is_text {
        return None;
    }
    if *kind == oid!(1.3.6.1.5.5.7.8.5) {
        Some(CertificateName::Xmpp(text.into()))
    } else if *kind == oid!(1.3.6.1.5.5.7.8.7) && is_dns(text) {
        Some(CertificateName::Service(text.into()))
    } else {
        None
    }
}

/// The first alternative name of the kind.
fn alternative(certificate: &X509Certificate<'_>, kind: CertificateIdentity) -> Option<String> {
    let names = certificate.subject_alternative_name().ok()?;
    let names = names.map_or(&[][..], |names| &names.value.general_names);
    let either = kind == CertificateIdentity::Alternative;
    let first = names.iter().find_map(|name| match name {
        GeneralName::DNSName(name) if either || kind == CertificateIdentity::Dns => {
            Some((*name, is_dns(name)))
        }
        GeneralName::URI(name) if either || kind == CertificateIdentity::Uri => {
            Some((*name, is_uri(name)))
        }
        GeneralName::RFC822Name(name) if kind == CertificateIdentity::Email => {
            Some((*name, is_email(name)))
        }
        _ => None,
    });
    match first {
        Some((name, well_formed)) => well_formed.then(|| name.to_owned()),
        None if either => common_name(certificate.subject()),
        None => None,
    }
}

/// RFC 1034 3.5, with what devices have in their names besides.
fn is_dns(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._*".contains(&b))
}

/// RFC 3986 3.1: a scheme and a colon.
fn is_uri(name: &str) -> bool {
    let Some((scheme, _)) = name.split_once(':') else { return false };
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
        && name.bytes().all(|b| b.is_ascii_graphic())
}

/// RFC 5280 4.2.1.6: a mailbox, without a phrase.
fn is_email(name: &str) -> bool {
    let parts = name.rsplit_once('@').filter(|(mailbox, _)| !mailbox.is_empty());
    parts.is_some_and(|(_, host)| is_dns(host)) && name.bytes().all(|b| b.is_ascii_graphic())
}

/// The common name, when there is one: of two nobody knows which was meant.
fn common_name(name: &X509Name<'_>) -> Option<String> {
    let mut all = name.iter_common_name();
    let (first, second) = (all.next()?, all.next());
    let text = first.as_str().ok().filter(|text| !text.chars().any(char::is_control))?;
    (second.is_none() && !text.is_empty()).then(|| text.to_owned())
}

/// RFC 4514 2: the last part first, attributes of one part joined by `+`.
fn subject(name: &X509Name<'_>) -> Option<String> {
    let mut text = String::new();
    let parts: Vec<_> = name.iter_rdn().collect();
    for (at, part) in parts.iter().rev().enumerate() {
        for (number, attribute) in part.iter().enumerate() {
            match (at, number) {
                (0, 0) => {}
                (_, 0) => text.push(','),
                _ => text.push('+'),
            }
            put_attribute(attribute, &mut text);
        }
    }
    (!text.is_empty()).then_some(text)
}

/// RFC 4514 2.3 and 2.4: types that have no name there are numbers, and their values hexadecimal.
fn put_attribute(attribute: &AttributeTypeAndValue<'_>, text: &mut String) {
    let number = attribute.attr_type().to_id_string();
    let name = match number.as_str() {
        "2.5.4.3" => Some("CN"),
        "2.5.4.6" => Some("C"),
        "2.5.4.7" => Some("L"),
        "2.5.4.8" => Some("ST"),
        "2.5.4.9" => Some("STREET"),
        "2.5.4.10" => Some("O"),
        "2.5.4.11" => Some("OU"),
        "0.9.2342.19200300.100.1.1" => Some("UID"),
        "0.9.2342.19200300.100.1.25" => Some("DC"),
        _ => None,
    };
    match (name, attribute.as_str()) {
        (Some(name), Ok(value)) => {
            text.push_str(name);
            text.push('=');
            put_escaped(value, text);
        }
        (name, _) => {
            text.push_str(name.unwrap_or(&number));
            text.push_str("=#");
            text.push_str(&hex::encode(attribute.attr_value().data));
        }
    }
}

/// RFC 4514 2.4: what would read like the end of a value is escaped.
fn put_escaped(value: &str, text: &mut String) {
    let last = value.chars().count().saturating_sub(1);
    for (at, letter) in value.chars().enumerate() {
        let at_the_edge = letter == ' ' && (at == 0 || at == last) || letter == '#' && at == 0;
        match letter {
            '"' | '+' | ',' | ';' | '<' | '>' | '\\' | '=' => text.extend(['\\', letter]),
            _ if at_the_edge => text.extend(['\\', letter]),
            _ if letter.is_control() => {
                let mut bytes = [0; 4];
                for byte in letter.encode_utf8(&mut bytes).bytes() {
                    let _ = write!(text, "\\{byte:02X}");
                }
            }
            _ => text.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};

    const KINDS: [CertificateIdentity; 6] = [
        CertificateIdentity::Alternative,
        CertificateIdentity::Dns,
        CertificateIdentity::Uri,
        CertificateIdentity::Email,
        CertificateIdentity::CommonName,
        CertificateIdentity::Subject,
    ];

    /// Identity of each kind in a certificate with these names.
    fn found(subject: &[(DnType, &str)], names: Vec<SanType>) -> Vec<Option<String>> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for (kind, value) in subject {
            params.distinguished_name.push(kind.clone(), *value);
        }
        params.subject_alt_names = names;
        let made = params.self_signed(&KeyPair::generate().expect("a key")).expect("made");
        let der = made.der();
        KINDS.map(|kind| of(der, kind).map(String::from)).into()
    }

    fn dns(name: &str) -> SanType {
        SanType::DnsName(name.try_into().expect("ASCII"))
    }

    fn uri(name: &str) -> SanType {
        SanType::URI(name.try_into().expect("ASCII"))
    }

    fn email(name: &str) -> SanType {
        SanType::Rfc822Name(name.try_into().expect("ASCII"))
    }

    #[test]
    fn a_kind_of_name_is_found_or_nothing_is() {
        let subject = [(DnType::OrganizationName, "acme"), (DnType::CommonName, "alice")];
        let names = vec![email("a@b.example"), uri("urn:dev:1"), dns("d1.example")];
        let all = found(&subject, names);
        let expected =
            ["urn:dev:1", "d1.example", "urn:dev:1", "a@b.example", "alice", "CN=alice,O=acme"];
        assert_eq!(all, expected.map(|name| Some(name.to_owned())));
        let none = found(&subject, Vec::new());
        let expected = [Some("alice"), None, None, None, Some("alice"), Some("CN=alice,O=acme")];
        assert_eq!(none, expected.map(|name| name.map(str::to_owned)));
    }

    #[test]
    fn a_name_of_one_kind_never_reads_like_another() {
        for name in ["urn:dev:1", "a@b.example", "CN=alice", "x y", ""] {
            let all = found(&[(DnType::CommonName, "alice")], vec![dns(name)]);
            assert_eq!(all[..2], [None, None], "{name}");
        }
        for name in ["d1.example", "1:x", ":x", "urn:a b"] {
            let all = found(&[(DnType::CommonName, "alice")], vec![uri(name)]);
            assert_eq!((&all[0], &all[2]), (&None, &None), "{name}");
        }
        for name in ["a", "@b", "a@", "urn:x@b/c"] {
            assert_eq!(found(&[], vec![email(name)])[3], None, "{name}");
        }
    }

    #[test]
    fn a_subject_cannot_pass_as_another() {
        let of = |value: &str| found(&[(DnType::OrganizationName, value)], Vec::new())[5].clone();
        for (value, escaped) in [
            ("acme, CN=alice", "O=acme\\, CN\\=alice"),
            ("acme,CN=alice", "O=acme\\,CN\\=alice"),
            ("a+CN=alice", "O=a\\+CN\\=alice"),
            (" a ", "O=\\ a\\ "),
            ("#61", "O=\\#61"),
            ("a\\", "O=a\\\\"),
            ("a\"b;c<d>", "O=a\\\"b\\;c\\<d\\>"),
            ("a\nb\0", "O=a\\0Ab\\00"),
            ("Müller", "O=Müller"),
        ] {
            assert_eq!(of(value).as_deref(), Some(escaped), "{value:?}");
        }
        let mail = DnType::CustomDnType(vec![1, 2, 840, 113_549, 1, 9, 1]);
        let all = found(&[(mail, "a@b")], Vec::new());
        let text = all[5].as_deref().expect("a subject");
        assert!(text.starts_with("1.2.840.113549.1.9.1=#"), "{text}");
        let control = found(&[(DnType::CommonName, "a\nb")], Vec::new());
        assert_eq!(control[4], None, "no name has control characters");
    }
}
