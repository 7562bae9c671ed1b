//! SASL as XMPP carries it (RFC 6120 6): mechanisms, and what of their messages tells who it is.
//!
//! Whether a proof is right is decided elsewhere; here a message is taken apart as far as needed to
//! find the account's home. `SCRAM-SHA-256` (RFC 7677) and `SCRAM-SHA-1` (RFC 5802), bound to their
//! connection or not, are passed through whole; of `PLAIN` (RFC 4616) name and password are read.

use crate::jid;
use base64::prelude::{BASE64_STANDARD, Engine};
use model::account::AccountAddress;
use model::session::Denial;

/// The namespace (RFC 6120 6.3).
pub const SASL: &str = "urn:ietf:params:xml:ns:xmpp-sasl";

/// Mechanisms that are known here, the best first.
pub const MECHANISMS: [Mechanism; 7] = [
    Mechanism::External,
    Mechanism::ScramSha256Plus,
    Mechanism::ScramSha256,
    Mechanism::ScramSha1Plus,
    Mechanism::ScramSha1,
    Mechanism::Plain,
    Mechanism::Anonymous,
];

/// Failed logins of one connection, after which it ends (RFC 6120 6.4.5).
pub const TRIES_MAX: u8 = 3;

/// A way to prove who one is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mechanism {
    /// `EXTERNAL`: the certificate that TLS has verified.
    External,
    /// `SCRAM-SHA-256-PLUS`, bound to the connection.
    ScramSha256Plus,
    /// `SCRAM-SHA-256`, without channel binding.
    ScramSha256,
    /// `SCRAM-SHA-1-PLUS`.
    ScramSha1Plus,
    /// `SCRAM-SHA-1`.
    ScramSha1,
    /// `PLAIN`: the password itself.
    Plain,
    /// `ANONYMOUS`: nobody, as a guest (RFC 4505).
    Anonymous,
}

impl Mechanism {
    /// The registered name.
    pub const fn name(self) -> &'static str {
        match self {
            Mechanism::External => "EXTERNAL",
            Mechanism::ScramSha256Plus => "SCRAM-SHA-256-PLUS",
            Mechanism::ScramSha256 => "SCRAM-SHA-256",
            Mechanism::ScramSha1Plus => "SCRAM-SHA-1-PLUS",
            Mechanism::ScramSha1 => "SCRAM-SHA-1",
            Mechanism::Plain => "PLAIN",
            Mechanism::Anonymous => "ANONYMOUS",
        }
    }

    /// Whether it is bound to the connection.
    pub const fn is_bound(self) -> bool {
        matches!(self, Mechanism::ScramSha256Plus | Mechanism::ScramSha1Plus)
    }

    /// The one of this name.
    pub fn of(name: &str) -> Option<Mechanism> {
        MECHANISMS.into_iter().find(|mechanism| mechanism.name() == name)
    }
}

macro_rules! failures {
    ($($variant:ident $name:literal $meaning:literal;)+) => {
        /// Why a login failed (RFC 6120 6.5).
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum SaslFailure { $(#[doc = $meaning] $variant,)+ }

        impl SaslFailure {
            /// All failures.
            pub const ALL: &'static [SaslFailure] = &[$(SaslFailure::$variant,)+];

            /// The defined condition.
            pub const fn name(self) -> &'static str {
                match self { $(SaslFailure::$variant => $name,)+ }
            }
        }
    };
}

failures! {
    Aborted "aborted" "The client gave up.";
    AccountDisabled "account-disabled" "The account may not log in, for now.";
    EncryptionRequired "encryption-required" "TLS must stand before a login.";
    IncorrectEncoding "incorrect-encoding" "It is no Base64.";
    InvalidAuthzid "invalid-authzid" "One account in the name of another.";
    InvalidMechanism "invalid-mechanism" "A mechanism that is not offered.";
    MalformedRequest "malformed-request" "A message that is none of the mechanism.";
    NotAuthorized "not-authorized" "Name, password or proof are wrong.";
    TemporaryAuthFailure "temporary-auth-failure" "It cannot be told now: try again.";
}

impl SaslFailure {
    /// Why the service did not let somebody in.
    pub const fn of(why: Denial) -> SaslFailure {
        match why {
            Denial::Banned => SaslFailure::AccountDisabled,
            Denial::BadMethod => SaslFailure::InvalidMechanism,
            Denial::Unavailable
            | Denial::Busy
            | Denial::Full
            | Denial::Quota
            | Denial::Rate
            | Denial::ShuttingDown
            | Denial::UseAnother
            | Denial::Moved
            | Denial::StoreFull
            | Denial::StoreFailed => SaslFailure::TemporaryAuthFailure,
            _ => SaslFailure::NotAuthorized,
        }
    }
}

/// Data of an `auth` or `response`; a lone `=` is empty data (RFC 6120 6.4.2).
pub fn decoded(text: &str) -> Result<Vec<u8>, SaslFailure> {
    match text {
        "=" => Ok(Vec::new()),
        text => BASE64_STANDARD.decode(text).map_err(|_| SaslFailure::IncorrectEncoding),
    }
}

/// Encodes data of an exchange; empty data is a lone `=` (RFC 6120 6.4.2).
pub fn encoded(bytes: &[u8]) -> String {
    if bytes.is_empty() { "=".into() } else { BASE64_STANDARD.encode(bytes) }
}

/// Account and password of a message of `PLAIN` (RFC 4616 2).
pub fn plain<'a>(
    message: &'a [u8],
    domain: &str,
) -> Result<(AccountAddress, &'a [u8]), SaslFailure> {
    let malformed = SaslFailure::MalformedRequest;
    let mut parts = message.split(|byte| *byte == 0);
    let (authzid, name, password) = match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(authzid), Some(name), Some(password), None) => (authzid, name, password),
        _ => return Err(malformed),
    };
    let text = |bytes| std::str::from_utf8(bytes).map_err(|_| malformed);
    let (authzid, name) = (text(authzid)?, text(name)?);
    if name.is_empty() || password.is_empty() {
        return Err(malformed);
    }
    let account = account_of(name, domain)?;
    match authzid.is_empty() || account_of(authzid, domain).as_ref() == Ok(&account) {
        true => Ok((account, password)),
        false => Err(SaslFailure::InvalidAuthzid),
    }
}

/// The account that a client's first message of SCRAM names (RFC 5802 5.1). Its part about channel
/// binding is checked elsewhere.
pub fn scram(message: &[u8], domain: &str) -> Result<AccountAddress, SaslFailure> {
    let malformed = SaslFailure::MalformedRequest;
    let text = std::str::from_utf8(message).map_err(|_| malformed)?;
    let mut fields = text.split(',');
    let authzid = match (fields.next(), fields.next()) {
        (Some("n" | "y"), Some(authzid)) => authzid,
        (Some(binding), Some(authzid)) if binding.starts_with("p=") => authzid,
        _ => return Err(malformed),
    };
    let name = fields.next().and_then(|field| field.strip_prefix("n=")).ok_or(malformed)?;
    let account = account_of(name, domain)?;
    let other = authzid.strip_prefix("a=").unwrap_or(authzid);
    match other.is_empty() || account_of(other, domain).as_ref() == Ok(&account) {
        true => Ok(account),
        false => Err(SaslFailure::InvalidAuthzid),
    }
}

/// The account of a message that shows a token, and its MAC (draft-schmaus-kitten-sasl-ht 3.1).
pub fn hashed_token(
    message: &[u8],
    domain: &str,
) -> Result<(AccountAddress, [u8; 32]), SaslFailure> {
    let malformed = SaslFailure::MalformedRequest;
    let at = message.iter().position(|byte| *byte == 0).ok_or(malformed)?;
    let name = std::str::from_utf8(&message[..at]).map_err(|_| malformed)?;
    let mac = message[at + 1..].try_into().map_err(|_| malformed)?;
    Ok((account_of(name, domain)?, mac))
}

/// A name, alone or as a bare JID of the domain. A name that can be no account gets the answer of
/// any unknown one.
fn account_of(name: &str, domain: &str) -> Result<AccountAddress, SaslFailure> {
    let (name, host) = name.split_once('@').unwrap_or((name, domain));
    let is_own = jid::domain(host).is_some_and(|host| *host == *domain);
    let account = jid::account(name, domain).filter(|_| is_own);
    account.ok_or(SaslFailure::NotAuthorized)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_is_read_strictly() {
        let of = |message: &[u8]| {
            plain(message, "a.example")
                .map(|(account, password)| (account.as_str().to_owned(), password.to_vec()))
        };
        let ann = Ok(("ann@a.example".to_owned(), b"se,cret".to_vec()));
        for message in [
            &b"\0ann\0se,cret"[..],
            b"\0Ann\0se,cret",
            b"ann\0ann\0se,cret",
            b"ann@A.example\0ann\0se,cret",
            b"\0ann@a.example\0se,cret",
        ] {
            assert_eq!(of(message), ann, "{message:?}");
        }
        use SaslFailure::*;
        for (message, failure) in [
            (&b""[..], MalformedRequest),
            (b"ann\0x", MalformedRequest),
            (b"\0ann\0", MalformedRequest),
            (b"\0\0x", MalformedRequest),
            (b"\0ann\0x\0y", MalformedRequest),
            (b"\0\xff\0x", MalformedRequest),
            (b"bob\0ann\0x", InvalidAuthzid),
            (b"ann@b.example\0ann\0x", InvalidAuthzid),
            (b"\0a b\0x", NotAuthorized),
            (b"\0ann@b.example\0x", NotAuthorized),
        ] {
            assert_eq!(of(message), Err(failure), "{message:?}");
        }
    }

    #[test]
    fn scram_says_who_it_is_at_once() {
        let of = |message: &str| scram(message.as_bytes(), "a.example");
        let ann = jid::account("ann", "a.example").expect("right");
        for message in ["n,,n=ann,r=x", "y,,n=Ann,r=x", "n,a=ann,n=ann,r=x", "p=x,,n=ann,r=x"] {
            assert_eq!(of(message).as_ref(), Ok(&ann), "{message}");
        }
        use SaslFailure::*;
        for (message, failure) in [
            ("q,,n=ann,r=x", MalformedRequest),
            ("n,,m=x,n=ann,r=x", MalformedRequest),
            ("n,", MalformedRequest),
            ("", MalformedRequest),
            ("n,a=bob,n=ann,r=x", InvalidAuthzid),
            ("n,,n=a=2Cb,r=x", NotAuthorized),
        ] {
            assert_eq!(of(message), Err(failure), "{message}");
        }
    }

    #[test]
    fn a_token_is_shown_by_a_name_and_a_mac() {
        let of = |message: &[u8]| hashed_token(message, "a.example");
        let ann = jid::account("ann", "a.example").expect("right");
        assert_eq!(of(&[b"ann\0", &[0; 32][..]].concat()), Ok((ann.clone(), [0; 32])));
        assert_eq!(of(&[b"Ann@a.example\0", &[7; 32][..]].concat()), Ok((ann, [7; 32])));
        use SaslFailure::*;
        for (message, failure) in [
            (&b""[..], MalformedRequest),
            (b"ann", MalformedRequest),
            (b"ann\0short", MalformedRequest),
            (&[b"ann\0", &[7; 33][..]].concat(), MalformedRequest),
            (&[b"\xff\0", &[7; 32][..]].concat(), MalformedRequest),
            (&[b"\0", &[7; 32][..]].concat(), NotAuthorized),
            (&[b"ann@b.example\0", &[7; 32][..]].concat(), NotAuthorized),
        ] {
            assert_eq!(of(message), Err(failure), "{message:?}");
        }
    }

    #[test]
    fn base64_is_that_of_the_standard() {
        assert_eq!(decoded("=").as_deref(), Ok(&b""[..]));
        assert_eq!(decoded("").as_deref(), Ok(&b""[..]));
        assert_eq!(decoded("AGE=").as_deref(), Ok(&b"\0a"[..]));
        for wrong in ["AGE", "AG E=", "A===", "==", "AGF="] {
            assert_eq!(decoded(wrong), Err(SaslFailure::IncorrectEncoding), "{wrong}");
        }
        assert_eq!((encoded(b""), encoded(b"\0a")), ("=".into(), "AGE=".into()));
    }

    #[test]
    fn what_may_pass_is_temporary() {
        assert_eq!(SaslFailure::of(Denial::Busy), SaslFailure::TemporaryAuthFailure);
        assert_eq!(SaslFailure::of(Denial::BadCredentials), SaslFailure::NotAuthorized);
        assert!(SaslFailure::ALL.iter().all(|failure| !failure.name().is_empty()));
        let scram = ["SCRAM-SHA-256-PLUS", "SCRAM-SHA-256", "SCRAM-SHA-1-PLUS", "SCRAM-SHA-1"];
        assert_eq!(MECHANISMS.map(Mechanism::name)[1..5], scram);
        assert_eq!(
            MECHANISMS.map(Mechanism::is_bound)[..6],
            [false, true, false, true, false, false]
        );
        assert_eq!(Mechanism::of("PLAIN"), Some(Mechanism::Plain));
        assert_eq!(Mechanism::of("plain"), None);
    }
}
