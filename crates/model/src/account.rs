//! Accounts: users of all protocols.
//!
//! An account is named by an [`AccountAddress`], `name@domain`, and identified internally by an
//! [`AccountId`], which is never reused: an account that is created again under a name is another
//! one. All state of an account lives at the home of its address.

use crate::ports::users::account_home;
use crate::timeline::{Space, TimelineId};
use base::encoding::Encoding;
use base::hash::HashKey;
use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};
use std::borrow::{Borrow, Cow};
use std::fmt;
use std::sync::Arc;

/// Longest name of an account, bytes.
pub const ACCOUNT_NAME_BYTES_MAX: usize = 64;

/// Longest domain, bytes (RFC 1035 2.3.4).
pub const DOMAIN_BYTES_MAX: usize = 253;

/// Number of an account. It distinguishes accounts that had the same name, and is never reused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Encoding)]
pub struct AccountId(pub u64);

/// Address of an account, checked: `name@domain`. The name has 1 to [`ACCOUNT_NAME_BYTES_MAX`]
/// bytes of `a` to `z`, digits and `. _ + -`; so it is the same in every protocol, and a bare JID
/// (RFC 7622 3). A contact may also be a domain itself, such as a gateway: `@domain`, which
/// [`parse`](Self::parse) refuses.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AccountAddress(Arc<str>);

/// An account as another one names it, checked: `name`, which is of the namer's own domain, or
/// `name@domain`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Addressee(Arc<str>);

/// Reason why an address was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddressFault {
    /// The name has no characters, or more than [`ACCOUNT_NAME_BYTES_MAX`] bytes.
    NameLength,
    /// The name has this byte, which is not allowed.
    NameByte(u8),
    /// The domain is no name of a host in lower case.
    Domain,
}

impl fmt::Display for AddressFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AddressFault::NameLength => {
                write!(f, "a name has 1 to {ACCOUNT_NAME_BYTES_MAX} bytes")
            }
            AddressFault::NameByte(byte) => write!(
                f,
                "the name has the byte 0x{byte:02x}, allowed are a to z, digits and . _ + -"
            ),
            AddressFault::Domain => {
                write!(f, "the domain is no host in lower case, such as example.org")
            }
        }
    }
}

impl AccountAddress {
    /// The address of a name, which may bring its own domain behind an `@`; else it is of `domain`.
    pub fn parse(text: &str, domain: &str) -> Result<AccountAddress, AddressFault> {
        let (name, domain) = text.split_once('@').unwrap_or((text, domain));
        check_name(name)?;
        let domain = canonical_domain(domain).ok_or(AddressFault::Domain)?;
        Ok(AccountAddress(format!("{name}@{domain}").into()))
    }

    /// That of a domain itself, which a contact may be.
    pub fn of_domain(domain: &str) -> Option<AccountAddress> {
        canonical_domain(domain).map(|domain| AccountAddress(format!("@{domain}").into()))
    }

    /// The address of a contact, as it is kept: of an account, or of a domain itself.
    pub fn of_contact(text: &str) -> Option<AccountAddress> {
        match text.strip_prefix('@') {
            Some(domain) => AccountAddress::of_domain(domain),
            None => AccountAddress::parse(text, "").ok(),
        }
    }

    /// The address of its domain itself, as [`as_str`](Self::as_str) has that: `@domain`.
    pub fn of_its_domain(&self) -> &str {
        &self.0[self.name().len()..]
    }

    /// Whether it is that of a domain itself.
    pub fn is_domain(&self) -> bool {
        self.0.starts_with('@')
    }

    /// The address as a bare JID.
    pub fn jid(&self) -> &str {
        self.0.strip_prefix('@').unwrap_or(&self.0)
    }

    /// `name@domain`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The part before the `@`.
    pub fn name(&self) -> &str {
        self.parts().0
    }

    /// The part behind the `@`.
    pub fn domain(&self) -> &str {
        self.parts().1
    }

    /// The hash by which its owner's shard is chosen; `home` is the key that chooses shards. A
    /// machine goes there by [`home_parts`](Self::home_parts).
    pub fn home_hash(&self, home: HashKey) -> u64 {
        let (name, domain) = self.parts();
        account_home(home, domain, name)
    }

    /// The parts of the address that [`home_hash`](Self::home_hash) hashes: domain, then name.
    pub fn home_parts(&self) -> [&[u8]; 2] {
        let (name, domain) = self.parts();
        [domain.as_bytes(), name.as_bytes()]
    }

    /// The inbox of the account that has this address and this number; of a foreign one what
    /// stands for it.
    pub fn inbox(&self, home: HashKey, id: AccountId) -> TimelineId {
        if id == AccountId::FOREIGN {
            let own = home.of(&[b"foreign", self.0.as_bytes()]);
            return TimelineId::at_home(Space::Foreign, self.home_hash(home), own);
        }
        TimelineId::at_home(Space::Inbox, self.home_hash(home), home.of(&[&id.0.to_be_bytes()]))
    }

    fn parts(&self) -> (&str, &str) {
        self.0.split_once('@').expect("checked when it was made")
    }
}

impl Addressee {
    /// Checks one.
    pub fn parse(text: &str) -> Result<Addressee, AddressFault> {
        let (name, domain) = text.split_once('@').map_or((text, None), |(n, d)| (n, Some(d)));
        check_name(name)?;
        let Some(domain) = domain else { return Ok(Addressee(text.into())) };
        match canonical_domain(domain).ok_or(AddressFault::Domain)? {
            Cow::Borrowed(_) => Ok(Addressee(text.into())),
            Cow::Owned(domain) => Ok(Addressee(format!("{name}@{domain}").into())),
        }
    }

    /// Checks one of a contact, which may be a domain itself: `@domain`.
    pub fn of_contact(text: &str) -> Result<Addressee, AddressFault> {
        let Some(domain) = text.strip_prefix('@') else { return Addressee::parse(text) };
        AccountAddress::of_domain(domain).map(Addressee::from).ok_or(AddressFault::Domain)
    }

    /// The address as the client wrote it, with the domain in lower case.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The address that an account of `domain` means by it.
    pub fn within(&self, domain: &str) -> AccountAddress {
        match self.0.contains('@') {
            true => AccountAddress(self.0.clone()),
            false => AccountAddress(format!("{}@{domain}", self.0).into()),
        }
    }
}

/// An address is found by its text, too.
impl Borrow<str> for AccountAddress {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<AccountAddress> for Addressee {
    fn from(address: AccountAddress) -> Addressee {
        Addressee(address.0)
    }
}

impl fmt::Debug for AccountAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for AccountAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn check_name(name: &str) -> Result<(), AddressFault> {
    if !(1..=ACCOUNT_NAME_BYTES_MAX).contains(&name.len()) {
        return Err(AddressFault::NameLength);
    }
    let allowed = |b: &u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'+' | b'-');
    match name.as_bytes().iter().find(|b| !allowed(b)) {
        Some(&byte) => Err(AddressFault::NameByte(byte)),
        None => Ok(()),
    }
}

/// A domain as it is compared, of one in lower case: each label in its own letters, U-label and
/// A-label (`bücher`, `xn--bcher-kva`) being one (RFC 7622 3.2, RFC 5890 2.3.2.1). `None`: it is
/// none.
pub fn canonical_domain(text: &str) -> Option<Cow<'_, str>> {
    let is_plain = text.is_ascii() && !text.split('.').any(|label| label.starts_with("xn--"));
    if is_plain {
        return is_host(text).then_some(Cow::Borrowed(text));
    }
    if text.len() > DOMAIN_BYTES_MAX {
        return None;
    }
    let hyphens = Hyphens::CheckFirstLast;
    let (domain, valid) = Uts46::new().to_unicode(text.as_bytes(), AsciiDenyList::STD3, hyphens);
    let is_one = valid.is_ok() && is_host(&domain) && ascii_domain(&domain).is_some();
    is_one.then_some(domain)
}

/// A domain as the domain name system and certificates have it, in A-labels (RFC 5890 2.3.2.1);
/// `None`: it has no such form.
pub fn ascii_domain(domain: &str) -> Option<Cow<'_, str>> {
    if domain.is_ascii() {
        return Some(Cow::Borrowed(domain));
    }
    let (deny, hyphens) = (AsciiDenyList::STD3, Hyphens::CheckFirstLast);
    Uts46::new().to_ascii(domain.as_bytes(), deny, hyphens, DnsLength::Verify).ok()
}

/// Whether this is a domain in lower case, its labels in either form.
pub fn is_domain(text: &str) -> bool {
    canonical_domain(text).is_some()
}

/// Whether this is the name of a host in lower case (RFC 1123 2.1); letters beyond ASCII are taken
/// as they are (RFC 7622 3.2).
fn is_host(text: &str) -> bool {
    let is_label = |label: &str| {
        let allowed = |c: char| match c {
            'a'..='z' | '0'..='9' | '-' => true,
            c => !c.is_ascii() && c.is_alphanumeric() && !c.is_uppercase(),
        };
        (1..=63).contains(&label.len())
            && label.chars().all(allowed)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= DOMAIN_BYTES_MAX && text.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contact_may_be_a_domain_and_an_account_never_is_one() {
        let gateway = AccountAddress::of_domain("irc.example").expect("right");
        assert_eq!((gateway.as_str(), gateway.jid()), ("@irc.example", "irc.example"));
        assert_eq!((gateway.name(), gateway.domain()), ("", "irc.example"));
        assert_eq!(AccountAddress::of_contact("@irc.example"), Some(gateway.clone()));
        assert!(gateway.is_domain());
        let ann = AccountAddress::parse("ann@irc.example", "").expect("right");
        assert_eq!(AccountAddress::of_contact("ann@irc.example"), Some(ann.clone()));
        assert!(!ann.is_domain() && ann.jid() == "ann@irc.example" && ann != gateway);
        for of in [&ann, &gateway] {
            assert_eq!(of.of_its_domain(), gateway.as_str());
        }
        let known = std::collections::BTreeMap::from([(gateway.clone(), 1), (ann.clone(), 2)]);
        assert_eq!(known.get(ann.of_its_domain()), Some(&1));
        let inbox = |it: &AccountAddress| it.inbox(HashKey::new(1, 2), AccountId::FOREIGN);
        assert_ne!(inbox(&ann), inbox(&gateway));
        assert_eq!(Addressee::from(gateway.clone()).within("a.example"), gateway);
        for text in ["", "@", "@@irc.example", "@-", "irc.example", "@Irc.example"] {
            assert_eq!(AccountAddress::of_contact(text), None, "{text}");
        }
        for domain in ["", "a.example"] {
            assert!(AccountAddress::parse("@irc.example", domain).is_err());
        }
        assert!(Addressee::parse("@irc.example").is_err());
        let of_contact = |text| Addressee::of_contact(text).map(|it| it.within("a.example"));
        assert_eq!(of_contact("@irc.example"), Ok(gateway));
        assert_eq!(of_contact("ann@irc.example"), Ok(ann));
        assert_eq!(of_contact("bob").map(|it| it.to_string()).as_deref(), Ok("bob@a.example"));
        assert!(of_contact("@").is_err() && of_contact("@x@irc.example").is_err());
    }

    #[test]
    fn labels_in_letters_and_in_ascii_are_one_domain() {
        let letters = "b\u{fc}cher.example";
        for text in [letters, "xn--bcher-kva.example", "bu\u{308}cher.example"] {
            assert_eq!(canonical_domain(text).as_deref(), Some(letters), "{text}");
            let ann = AccountAddress::parse(&format!("ann@{text}"), "").expect("right");
            assert_eq!(ann.as_str(), format!("ann@{letters}"));
            let to = Addressee::parse(&format!("ann@{text}")).expect("right");
            assert_eq!(to.within("a.example"), ann);
        }
        assert_eq!(ascii_domain(letters).as_deref(), Some("xn--bcher-kva.example"));
        for plain in ["a.example", "ab--c.example", "localhost"] {
            assert_eq!(canonical_domain(plain), Some(Cow::Borrowed(plain)));
            assert_eq!(ascii_domain(plain), Some(Cow::Borrowed(plain)));
        }
        // No punycode, ASCII in it, letters that are none, too long, or no host at all.
        let long = format!("{}.example", "\u{fc}".repeat(60));
        for text in [
            "xn--.example",
            "xn--a.example",
            "xn--example-.org",
            "xn--bcher-kv\u{fc}.example",
            "xn--ls8h.example",
            "\u{200d}a.example",
            "b\u{fc}cher..example",
            "-\u{fc}.example",
            "\u{fc}/x.example",
            &long,
        ] {
            assert_eq!(canonical_domain(text), None, "{text}");
            assert!(!is_domain(text), "{text}");
        }
    }

    #[test]
    fn an_address_is_checked_and_taken_apart() {
        let of = |text: &str| AccountAddress::parse(text, "example.org");
        let ann = of("ann").expect("right");
        assert_eq!(
            (ann.as_str(), ann.name(), ann.domain()),
            ("ann@example.org", "ann", "example.org")
        );
        assert_eq!(of("ann@example.org"), Ok(ann.clone()));
        assert_ne!(of("ann@b.example"), Ok(ann));
        assert!(
            of(&"x".repeat(64)).is_ok()
                && of("a.b_c+d-9").is_ok()
                && of("a@bücher.example").is_ok()
        );
        let long = "x".repeat(65);
        for (text, fault) in [
            ("", AddressFault::NameLength),
            ("@a", AddressFault::NameLength),
            (&long, AddressFault::NameLength),
            ("Ann", AddressFault::NameByte(b'A')),
            ("a b", AddressFault::NameByte(b' ')),
            ("a/b", AddressFault::NameByte(b'/')),
            ("a@", AddressFault::Domain),
            ("a@b@c", AddressFault::Domain),
            ("a@Example.org", AddressFault::Domain),
            ("a@-b", AddressFault::Domain),
            ("a@b..c", AddressFault::Domain),
        ] {
            assert_eq!(of(text), Err(fault), "{text:?}");
        }
    }

    #[test]
    fn an_addressee_without_a_domain_is_of_the_namers_own() {
        let of = |text: &str| Addressee::parse(text).map(|to| to.within("own.example"));
        let whole = |text: &str| AccountAddress::parse(text, "");
        assert_eq!(of("bob"), whole("bob@own.example"));
        assert_eq!(of("bob@b.example"), whole("bob@b.example"));
        assert_eq!(Addressee::parse("bob").as_ref().map(Addressee::as_str), Ok("bob"));
        let ann = whole("ann@a.example").expect("right");
        assert_eq!(Addressee::from(ann.clone()).within("own.example"), ann);
        for (text, fault) in [
            ("", AddressFault::NameLength),
            ("Bob", AddressFault::NameByte(b'B')),
            ("bob@", AddressFault::Domain),
            ("bob@B.example", AddressFault::Domain),
        ] {
            assert_eq!(of(text), Err(fault), "{text:?}");
        }
    }

    #[test]
    fn an_inbox_is_at_home_where_its_account_is_and_no_other_ones() {
        let home = HashKey::new(1, 2);
        let ann = AccountAddress::parse("ann", "a.example").expect("right");
        let inbox = ann.inbox(home, AccountId(7));
        assert_eq!((inbox.space(), inbox.home_hash()), (Space::Inbox, ann.home_hash(home)));
        assert_eq!(ann.home_hash(home), home.of(&ann.home_parts()));
        assert_ne!(inbox, ann.inbox(home, AccountId(8)), "a later account of the same name");
        let other = AccountAddress::parse("ann", "b.example").expect("right");
        assert_ne!(inbox.home_hash(), other.home_hash(home));
    }
}
