//! Endings of a session that the server decides: a login that is refused, a session that is ended.

use crate::close::CloseReason;
use crate::session::Denial;
use base::encoding::Encoding;

/// A device is not let in.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct LoginRefused {
    /// Reason of the refusal.
    pub why: Denial,
    /// Milliseconds after which to try again; zero: do not.
    pub retry_after_ms: u32,
    /// The server to use instead, `host:port`.
    pub server: Option<Box<str>>,
    /// Name that the client claimed, for the log.
    pub who: Option<Box<str>>,
}

/// A session is ended by the server.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct SessionEnd {
    /// Reason for the device.
    pub why: Denial,
    /// How the connection is counted.
    pub reason: CloseReason,
}
