//! Settings of access control: listeners' policies and methods.
//!
//! The values were checked when they were read; nothing is read here. Invariant: the default admits
//! no unauthenticated client of another machine.

use crate::cache::CacheLimits;
use crate::passwords::Hashing;
use crate::scram::ScramHash;
use crate::sources::SourceLimits;
use crate::token::TokenPolicy;
use base::words;
use std::collections::HashSet;

/// Settings beside files and the book.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Users who may do everything.
    pub superusers: Vec<String>,
    /// Users who administer the server elsewhere: at its console, by protocols of chat.
    pub administrators: HashSet<String>,
    /// Client identifiers that may be chosen, `%u` being the user and `*` at the end anything; none
    /// of these: any.
    pub client_ids: Vec<String>,
    /// Actions that no rule matches are allowed, where there are rules.
    pub allow_unmatched: bool,
    /// Policies by listener; one that is missing is [`ListenerPolicy::CLOSED`].
    pub doors: Vec<ListenerPolicy>,
    /// How the book keeps new passwords.
    pub hashing: Hashing,
    /// Hashes that SCRAM is taken with.
    pub scram_hashes: Vec<ScramHash>,
    /// Users of the book. One more is refused.
    pub users_max: u32,
    /// Users of the book whose rows are remembered. Beyond, the oldest is read again.
    pub users_cached_max: u32,
    /// Limits of the cache of checks.
    pub cache: CacheLimits,
    /// Limits of the table of source addresses.
    pub sources: SourceLimits,
    /// Requirements of a token; absent: none is accepted.
    pub token: Option<TokenPolicy>,
    /// Seconds an answer of the service is remembered; absent: there is no service.
    pub http_cache_s: Option<u32>,
    /// Decisions of an LDAP server; absent: there is none.
    pub ldap: Option<LdapPolicy>,
}

/// Decisions of an LDAP server, beside whether a password is right.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LdapPolicy {
    /// Seconds a right password is remembered; 0: it is not.
    pub cache_s: u32,
    /// Whether its groups make superusers.
    pub gives_super: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            superusers: Vec::new(),
            administrators: HashSet::new(),
            client_ids: Vec::new(),
            allow_unmatched: false,
            doors: vec![ListenerPolicy::default()],
            hashing: Hashing::default(),
            scram_hashes: vec![ScramHash::Sha256],
            users_max: 1_000_000,
            users_cached_max: 5_000,
            cache: CacheLimits::default(),
            sources: SourceLimits::default(),
            token: None,
            http_cache_s: None,
            ldap: None,
        }
    }
}

/// Policy of a listener: how one comes in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListenerPolicy {
    /// Clients that may log in without a name.
    pub anonymous: Anonymous,
    /// Proofs, in the order in which they are tried.
    pub methods: Vec<Method>,
    /// With `anonymous`: a name that no method knows is believed without proof.
    pub believe_names: bool,
}

impl ListenerPolicy {
    /// Policy that admits no client.
    pub const CLOSED: ListenerPolicy =
        ListenerPolicy { anonymous: Anonymous::No, methods: Vec::new(), believe_names: false };
}

impl Default for ListenerPolicy {
    fn default() -> Self {
        ListenerPolicy {
            anonymous: Anonymous::Loopback,
            methods: vec![
                Method::Passwords,
                Method::Scram,
                Method::Token,
                Method::Ldap,
                Method::Http,
            ],
            believe_names: false,
        }
    }
}

words! {
    /// Clients that may log in without a name.
    #[derive(Hash)]
    pub enum Anonymous {
        /// No client.
        No = "no",
        /// Clients of this machine.
        Loopback = "loopback",
        /// All clients.
        Yes = "yes",
    }
}

impl Anonymous {
    /// Whether a client is admitted that is on this machine (`near`), or is not.
    pub fn admits(self, near: bool) -> bool {
        match self {
            Anonymous::No => false,
            Anonymous::Loopback => near,
            Anonymous::Yes => true,
        }
    }
}

words! {
    /// A way to prove who one is.
    #[derive(Hash)]
    pub enum Method {
        /// The identity in a verified certificate, or of a pre-shared key, is the user.
        Certificate = "certificate",
        /// Name and password, of the book and the password file.
        Passwords = "passwords",
        /// SCRAM, of the same users.
        Scram = "scram",
        /// A JSON Web Token as password.
        Token = "token",
        /// An LDAP server is asked.
        Ldap = "ldap",
        /// Another service is asked.
        Http = "http",
        /// A client may be a guest, by XMPP.
        Anonymous = "anonymous",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_have_the_words_of_configurations() {
        assert_eq!(Anonymous::ALL.map(Anonymous::name), ["no", "loopback", "yes"]);
        let methods = ["certificate", "passwords", "scram", "token", "ldap", "http", "anonymous"];
        assert_eq!(Method::ALL.map(Method::name), methods);
        for (anonymous, far, near) in [
            (Anonymous::No, false, false),
            (Anonymous::Loopback, false, true),
            (Anonymous::Yes, true, true),
        ] {
            assert_eq!((anonymous.admits(false), anonymous.admits(true)), (far, near));
        }
    }
}
