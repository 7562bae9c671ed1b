//! What a device shows as proof of itself. Its `Debug` never shows a secret.

use std::fmt;

/// A device's proof (MIOP 6).
#[derive(Clone, Default)]
pub enum Credentials {
    /// None: the product must allow it.
    #[default]
    None,
    /// An HMAC with a secret of the product.
    Secret {
        /// Which of the product's secrets.
        key_id: u32,
        /// The secret.
        secret: Vec<u8>,
    },
    /// A token that the API made for this device. It is sent only over TLS or to this machine.
    Token(Vec<u8>),
    /// The certificate of the TLS connection.
    Certificate,
}

impl fmt::Debug for Credentials {
    /// Which kind, and never the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Credentials::None => "None",
            Credentials::Secret { .. } => "Secret",
            Credentials::Token(_) => "Token",
            Credentials::Certificate => "Certificate",
        })
    }
}
