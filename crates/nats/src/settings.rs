//! How to reach NATS.

use std::fmt;
use std::path::PathBuf;

/// How to reach the NATS servers of a cluster.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NatsSettings {
    /// Their addresses: `nats://host:4222`, `tls://host:4222` or `host:4222`. Others of the same
    /// NATS cluster are learned from them.
    pub servers: Vec<String>,
    /// TLS. None: plain TCP, unless an address or the server asks for TLS.
    pub tls: Option<NatsTls>,
    /// Proof of identity.
    pub login: NatsLogin,
}

/// TLS to NATS.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NatsTls {
    /// PEM file of the authorities that are trusted. None: those of the system.
    pub ca: Option<PathBuf>,
    /// PEM files of the certificate and of the key by which the node proves who it is.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

/// Proof of identity to NATS.
#[derive(Clone, PartialEq, Eq, Default)]
pub enum NatsLogin {
    /// No proof, or a name and a password in the addresses.
    #[default]
    None,
    /// A credentials file: a JSON Web Token and the seed of its NKey.
    Credentials(PathBuf),
    /// A file with the seed of an NKey.
    NKey(PathBuf),
}

impl fmt::Debug for NatsLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NatsLogin::None => "None",
            NatsLogin::Credentials(_) => "Credentials",
            NatsLogin::NKey(_) => "NKey",
        })
    }
}
