//! Error of starting the API, with the remedy, for people.

use std::fmt;
use std::io;
use std::net::SocketAddr;

/// Reason why the API does not start.
#[derive(Debug)]
pub enum ApiStartError {
    /// An address cannot be listened on.
    Bind {
        /// The address.
        addr: SocketAddr,
        /// The system's words.
        error: io::Error,
    },
    /// The token is empty, so the API would be open to everyone.
    NoToken,
    /// A webhook names an unknown type of event.
    UnknownType {
        /// The type.
        found: String,
    },
    /// A webhook's filter of topics is none, or stands without the type it is for.
    BadTopic {
        /// The filter.
        found: String,
        /// Rule that a filter of topics must keep.
        why: String,
    },
    /// The file of a webhook's dead letters cannot be used.
    DeadLetters {
        /// The webhook's.
        url: String,
        /// The system's words.
        error: io::Error,
    },
    /// The files of the audit log cannot be used.
    AuditLog(io::Error),
    /// A thread could not be started.
    Thread(io::Error),
}

impl fmt::Display for ApiStartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ApiStartError::Bind { addr, error } if error.kind() == io::ErrorKind::AddrInUse => {
                write!(
                    f,
                    "the API cannot listen on {addr}: the port is in use; stop the program that \
                     uses it (`ss -ltnp 'sport = :{}'` shows it) or give the API another address",
                    addr.port()
                )
            }
            ApiStartError::Bind { addr, error } => {
                write!(f, "the API cannot listen on {addr}: {error}; give it another address")
            }
            ApiStartError::NoToken => write!(f, "the API token is empty: set one"),
            ApiStartError::UnknownType { found } => write!(
                f,
                "a webhook has the unknown event type {found:?}; allowed are {}",
                crate::events::TYPES.join(", ")
            ),
            ApiStartError::BadTopic { found, why } => {
                write!(f, "a webhook's topic filter {found:?} {why}")
            }
            ApiStartError::DeadLetters { url, error } => {
                write!(f, "the dead letters of the webhook {url} cannot be opened: {error}")
            }
            ApiStartError::AuditLog(error) => write!(
                f,
                "the API's audit log cannot be opened: {error}; the data folder's audit_log \
                 must be a folder that the server may write"
            ),
            ApiStartError::Thread(error) => {
                write!(f, "cannot start a thread of the API: {error}")
            }
        }
    }
}

impl std::error::Error for ApiStartError {}
