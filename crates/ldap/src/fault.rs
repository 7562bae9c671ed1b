//! Faults: reasons why a call has no answer.

/// A call has no answer: it is unknown whether the password is right.
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
    /// The connection failed, or it ended.
    Unreachable,
    /// The server did not answer in time.
    Timeout,
    /// The handshake of TLS failed, or the server refused StartTLS.
    Tls,
    /// The server refused `bind_dn` with its password.
    Credentials,
    /// The response is not LDAP, or does not answer the request.
    Nonsense,
    /// The server refused a request.
    Refused,
    /// The filter matches several entries.
    Ambiguous,
    /// The entry has no usable name.
    Unnamed,
}

impl LdapFaultKind {
    /// All reasons.
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

    /// The reason as a word, for metrics and logs.
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

    /// Whether the fault is about one user's entry, and not about the server.
    pub const fn is_of_entry(self) -> bool {
        matches!(self, LdapFaultKind::Ambiguous | LdapFaultKind::Unnamed)
    }
}
