//! Reasons why a call has no answer.

/// A call has no answer: nobody knows whether the password is right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LdapFault {
    /// The reason, for counters.
    pub kind: LdapFaultKind,
    /// The server, and details for the log.
    pub words: String,
}

impl LdapFault {
    pub(crate) fn new(kind: LdapFaultKind, words: impl Into<String>) -> LdapFault {
        LdapFault { kind, words: words.into() }
    }
}

/// The reason of a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LdapFaultKind {
    /// No connection, or it ended.
    Unreachable,
    /// No answer in time.
    Timeout,
    /// The handshake of TLS failed, or the server refused StartTLS.
    Tls,
    /// The server refused `bind_dn` with its password.
    Credentials,
    /// An answer that is not LDAP, or not one to what was asked.
    Nonsense,
    /// The server refused a request.
    Refused,
    /// The filter matches several entries.
    Ambiguous,
    /// The entry has no usable name.
    Unnamed,
}

impl LdapFaultKind {
    /// Every one.
    pub const ALL: [LdapFaultKind; 8] = [
        LdapFaultKind::Unreachable,
        LdapFaultKind::Timeout,
        LdapFaultKind::Tls,
        LdapFaultKind::Credentials,
        LdapFaultKind::Nonsense,
        LdapFaultKind::Refused,
        LdapFaultKind::Ambiguous,
        LdapFaultKind::Unnamed,
    ];

    /// Its word.
    pub const fn name(self) -> &'static str {
        match self {
            LdapFaultKind::Unreachable => "unreachable",
            LdapFaultKind::Timeout => "timeout",
            LdapFaultKind::Tls => "tls",
            LdapFaultKind::Credentials => "credentials",
            LdapFaultKind::Nonsense => "nonsense",
            LdapFaultKind::Refused => "refused",
            LdapFaultKind::Ambiguous => "ambiguous",
            LdapFaultKind::Unnamed => "unnamed",
        }
    }

    /// Whether it concerns one user's entry, and not the server.
    pub const fn is_of_entry(self) -> bool {
        matches!(self, LdapFaultKind::Ambiguous | LdapFaultKind::Unnamed)
    }
}
