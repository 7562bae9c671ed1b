//! Addresses of XMPP within the rules of accounts (RFC 7622; `model::account`).
//!
//! One fixed policy, which needs no tables: the part in front of the `@` is an account's name,
//! ASCII letters in lower case, so that nodeprep, PRECIS and the other protocols agree on it; a
//! domain is a host in lower case without its last dot, its labels in their own letters (U-labels)
//! however they were written; a resource is compared as it is. Other addresses that the RFC would
//! allow are no addresses here.

use model::account::{ACCOUNT_NAME_BYTES_MAX, AccountAddress, canonical_domain};

/// Longest part of an address, bytes (RFC 7622 3.1).
pub const PART_BYTES_MAX: usize = 1_023;

/// Longest address that is looked at, bytes.
pub const JID_BYTES_MAX: usize = 3 * PART_BYTES_MAX + 2;

/// An address: of a domain, of an account, or of one of its resources.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Jid {
    /// The account, unless the domain itself is meant.
    pub account: Option<AccountAddress>,
    /// The domain.
    pub domain: Box<str>,
    /// The resource.
    pub resource: Option<Box<str>>,
}

impl Jid {
    /// Reads one; `None`: it is no address here.
    pub fn parse(text: &str) -> Option<Jid> {
        if text.len() > JID_BYTES_MAX {
            return None;
        }
        let (bare, resource) = text.split_once('/').map_or((text, None), |(b, r)| (b, Some(r)));
        let (name, host) = bare.split_once('@').map_or((None, bare), |(n, h)| (Some(n), h));
        let domain = domain(host)?;
        let account = match name {
            Some(name) => Some(account(name, &domain)?),
            None => None,
        };
        let is_resource = |text: &&str| (1..=PART_BYTES_MAX).contains(&text.len());
        let resource = match resource {
            Some(text) => Some(Some(text).filter(is_resource)?.into()),
            None => None,
        };
        Some(Jid { account, domain, resource })
    }

    /// The address as text, in the form in which it is compared.
    pub fn text(&self) -> String {
        let bare = self.account.as_ref().map_or(&*self.domain, |account| account.as_str());
        match &self.resource {
            Some(resource) => format!("{bare}/{resource}"),
            None => bare.into(),
        }
    }
}

/// The domain of an address, whose other parts may be what they are; `None`: it has none.
pub fn domain_of(text: &str) -> Option<Box<str>> {
    let bare = text.split_once('/').map_or(text, |(bare, _)| bare);
    domain(bare.split_once('@').map_or(bare, |(_, host)| host))
        .filter(|_| text.len() <= JID_BYTES_MAX)
}

/// A domain as it is compared; `None`: it is none.
pub fn domain(text: &str) -> Option<Box<str>> {
    let text = text.strip_suffix('.').unwrap_or(text).to_lowercase();
    canonical_domain(&text).map(|domain| domain.into())
}

/// The account of a name in a domain.
pub fn account(name: &str, domain: &str) -> Option<AccountAddress> {
    if name.len() > ACCOUNT_NAME_BYTES_MAX || name.contains('@') {
        return None;
    }
    AccountAddress::parse(&name.to_ascii_lowercase(), domain).ok()
}

/// Whether a resource that a client wants is taken as it is: what is not is replaced by one of the
/// server's (RFC 6120 7.7.2.1), so that no two that look alike are two.
pub fn is_plain_resource(text: &str, bytes_max: usize) -> bool {
    (1..=bytes_max).contains(&text.len()) && text.bytes().all(|b| (b' '..=b'~').contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(Option<String>, String, Option<String>)> {
        let jid = Jid::parse(text)?;
        let account = jid.account.map(|account| account.as_str().to_owned());
        Some((account, jid.domain.into(), jid.resource.map(Into::into)))
    }

    #[test]
    fn addresses_are_read_and_compared_by_one_policy() {
        let some = |text: &str| Some(text.to_owned());
        let domain = || "example.org".to_owned();
        let ann = || some("ann@example.org");
        assert_eq!(read("example.org"), Some((None, domain(), None)));
        assert_eq!(read("Ann@Example.ORG."), Some((ann(), domain(), None)));
        assert_eq!(read("ann@example.org/a@b/c"), Some((ann(), domain(), some("a@b/c"))));
        assert_eq!(read("example.org/x"), Some((None, domain(), some("x"))));
        for text in ["ann@BÜCHER.example", "ann@XN--BCHER-KVA.example.", "xn--bcher-kva.example/x"]
        {
            assert_eq!(read(text).map(|jid| jid.1), some("bücher.example"), "{text}");
        }
        assert_eq!(
            super::domain_of("x y@xn--bcher-kva.example").as_deref(),
            Some("bücher.example")
        );
        let long = format!("example.org/{}", "x".repeat(PART_BYTES_MAX));
        assert!(read(&long).is_some() && read(&format!("{long}x")).is_none());
    }

    #[test]
    fn what_is_no_address_is_none() {
        for text in [
            "",
            "@",
            "ann@",
            "@example.org",
            "a b@example.org",
            "ann@example.org/",
            "ann@@x",
            "änn@example.org",
            "ann@exa mple.org",
            "ann@-x",
            "a\"b@x",
            "ann@x@y",
            "/x",
            "ann@..",
            "ann@xn--a.example",
            "xn--ls8h.example",
            &"x".repeat(65),
            &format!("{}@x", "a".repeat(65)),
            &"/x".repeat(2_000),
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn plain_resources_are_taken_as_they_are() {
        assert!(is_plain_resource("Home Desk/1", 64) && is_plain_resource(&"x".repeat(64), 64));
        for text in ["", "caf\u{e9}", "a\tb", &"x".repeat(65)] {
            assert!(!is_plain_resource(text, 64), "{text}");
        }
    }
}
