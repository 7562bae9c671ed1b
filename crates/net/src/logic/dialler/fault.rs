//! Why a call by name did not come about, and the words for it.

use crate::detail::{Detail, Reached};
use model::close::CloseReason;
use model::ports::names::NameFault;
use std::fmt;

/// Reason why a call did not come about: that of its last attempt, or why there was none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallFault {
    /// The limit of calls under way is reached.
    Busy,
    /// No address was found.
    Name(NameFault),
    /// The name is an address, or leads to none that is public, and somebody else said it.
    NotPublic,
    /// The domain says that it does not offer the service (RFC 2782, a target of `.`).
    NotOffered,
    /// The last address did not answer, or what goes around the protocol did not open.
    Failed(CloseReason, Detail, Reached),
}

impl fmt::Display for CallFault {
    /// For people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallFault::Busy => f.write_str("too many outgoing connections in progress"),
            CallFault::Name(fault) => fault.fmt(f),
            CallFault::NotPublic => f.write_str("it has no public address"),
            CallFault::NotOffered => f.write_str("the domain does not offer it"),
            CallFault::Failed(_, Detail::Errno(errno), _) => errno.fmt(f),
            CallFault::Failed(_, Detail::Certificate(doubt), _) => {
                write!(f, "its certificate is not trusted: {doubt}")
            }
            CallFault::Failed(_, Detail::Alert(alert), _) => {
                write!(f, "it closed TLS with alert {alert}")
            }
            CallFault::Failed(_, Detail::Tls(why), _) => write!(f, "TLS handshake failed: {why}"),
            CallFault::Failed(_, Detail::Upgrade(0), _) => f.write_str("its answer is not HTTP"),
            CallFault::Failed(_, Detail::Upgrade(status), _) => {
                write!(f, "it refused the WebSocket upgrade: {status}")
            }
            CallFault::Failed(reason, Detail::Nothing | Detail::Truncated, _) => {
                f.write_str(reason.meaning())
            }
        }
    }
}
