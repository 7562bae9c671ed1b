//! Words of tokens by which a device comes back without a password (XEP-0484).
//!
//! A **token** is of one device of an account, by the id that it gives itself; it shows that it has
//! the token by a MAC, which may be bound to its connection. It is good until a time, and as long
//! as the account's epoch is the one in which it was given.

use super::Login;
use crate::id::SessionRef;
use base::encoding::Encoding;
use std::fmt;

/// Longest id of a device that has tokens, bytes.
pub const FAST_AGENT_BYTES_MAX: usize = 256;

/// Parts of a token.
#[derive(Clone, Copy, PartialEq, Eq, Encoding)]
pub struct FastSecret(pub [u8; 32]);

impl fmt::Debug for FastSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FastSecret")
    }
}

/// Binding of a token to connections: it is good for that alone.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum FastBinding {
    /// To no connection: the token is good on any.
    None = 0,
    /// `tls-exporter` (RFC 9266).
    Exporter = 1,
    /// `tls-server-end-point` (RFC 5929 4).
    EndPoint = 2,
}

impl FastBinding {
    /// The best first.
    pub const ALL: [FastBinding; 3] =
        [FastBinding::Exporter, FastBinding::EndPoint, FastBinding::None];
}

/// A device comes back by a token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Redeeming {
    /// Claimed account, without another proof.
    pub login: Login,
    /// The device's id.
    pub agent: Box<str>,
    /// How the token is bound.
    pub binding: FastBinding,
    /// The connection's channel binding data for `binding`.
    pub bound: Box<[u8]>,
    /// The MAC that shows the token.
    pub mac: [u8; 32],
    /// All tokens of the device are to be good for nothing, this one behind this login.
    pub invalidates: bool,
}

/// A device with a session wants a token, or its tokens revoked. Answered by `Token`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FastWish {
    /// Its session.
    pub session: SessionRef,
    /// Number of the request, for the answer.
    pub number: u32,
    /// The device's id, 1 to [`FAST_AGENT_BYTES_MAX`] bytes; `None`: the name of the device.
    pub agent: Option<Box<str>>,
    /// Binding of the token.
    pub binding: FastBinding,
    /// The token, drawn by the connection; `None`: the device's tokens are revoked.
    pub secret: Option<FastSecret>,
}

impl FastWish {
    /// The answer to it.
    pub const fn answer(&self, outcome: FastOutcome) -> FastAnswer {
        FastAnswer { number: self.number, outcome }
    }
}

/// Answer to a [`FastWish`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encoding)]
pub struct FastAnswer {
    /// Number of the request.
    pub number: u32,
    /// The server's decision on the wish.
    pub outcome: FastOutcome,
}

/// Result of a [`FastWish`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encoding)]
#[encoding(Given = 0, Revoked = 1, Denied = 2)]
pub enum FastOutcome {
    /// The token is stored.
    Given {
        /// The token.
        secret: FastSecret,
        /// When it expires, Unix seconds.
        until_s: u32,
    },
    /// The device's tokens are revoked, and that is stored.
    Revoked,
    /// No token: the device did not log in by a password, or tokens are off, or nothing was stored.
    Denied,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown() {
        assert_eq!(format!("{:?}", FastSecret([7; 32])), "FastSecret");
    }
}
