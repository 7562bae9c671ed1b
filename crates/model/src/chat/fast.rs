//! Words of tokens by which a device comes back without a password (XEP-0484).
//!
//! A **token** is of one device of an account, by the id that it gives itself; it shows that it has
//! the token by a MAC, which may be bound to its connection. It is good until a time, and as long
//! as the account's epoch is the one in which it was given.

use super::Login;
use crate::id::SessionRef;
use std::fmt;

/// Longest id of a device that has tokens, bytes.
pub const FAST_AGENT_BYTES_MAX: usize = 256;

/// What a token is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
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
    /// To none.
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
    /// Who it says it is, without another proof.
    pub login: Login,
    /// The device's id.
    pub agent: Box<str>,
    /// How the token is bound.
    pub binding: FastBinding,
    /// What the connection has of that.
    pub bound: Box<[u8]>,
    /// The MAC that shows the token.
    pub mac: [u8; 32],
    /// All tokens of the device are to be good for nothing, this one behind this login.
    pub invalidates: bool,
}

/// A device that is let in wants a token. Answered by `Token`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FastWish {
    /// Its session.
    pub session: SessionRef,
    /// The device's id, 1 to [`FAST_AGENT_BYTES_MAX`] bytes.
    pub agent: Box<str>,
    /// How it is to be bound.
    pub binding: FastBinding,
    /// What was drawn for it.
    pub secret: FastSecret,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown() {
        assert_eq!(format!("{:?}", FastSecret([7; 32])), "FastSecret");
    }
}
