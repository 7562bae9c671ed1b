//! Settings of a session.

use crate::{BrokerAddress, Trust};
use proto_mqtt::client::Profile;
use std::net::IpAddr;
use std::time::Duration;

/// Settings of a session.
#[derive(Clone)]
pub struct Settings {
    /// Where the broker is.
    pub address: BrokerAddress,
    /// Certificates to trust, and the session's own.
    pub trust: Trust,
    /// Terms of CONNECT, and how messages are acknowledged.
    pub profile: Profile,
    /// A proof that does not show the password, in place of the profile's; 5.0 only.
    pub scram: Option<Scram>,
    /// Time for name, connection, TLS, WebSocket and CONNACK.
    pub connect_timeout: Duration,
    /// When to come back after the connection was lost; `None`: not.
    pub retry: Option<Backoff>,
    /// The address to call from.
    pub from: Option<IpAddr>,
}

impl Settings {
    /// One address, ten seconds to connect, and no return.
    pub fn new(address: BrokerAddress, profile: Profile) -> Settings {
        Settings {
            address,
            trust: Trust::default(),
            profile,
            scram: None,
            connect_timeout: Duration::from_secs(10),
            retry: None,
            from: None,
        }
    }
}

/// Backoff before a return: doubled from `min` to `max`, half of it drawn at random.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Backoff {
    /// The first wait.
    pub min: Duration,
    /// The longest one.
    pub max: Duration,
}

/// Credentials for SCRAM-SHA-256 (RFC 5802, RFC 7677).
#[derive(Clone)]
pub struct Scram {
    /// The user.
    pub user: String,
    /// The password.
    pub password: String,
}
