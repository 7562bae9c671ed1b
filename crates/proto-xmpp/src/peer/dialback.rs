//! Keys of dialback (XEP-0220 2.1), made so that nothing has to be remembered (XEP-0185 3).
//!
//! ```text
//!   initiating server ──── db:result, key ───► receiving server
//!                                                    │ db:verify, key
//!   authoritative server of the same domain ◄────────┘
//! ```
//! A key is a MAC over both domains and the id of the stream that it is shown on, by a secret that
//! all servers of the domain have. Invariant: keys are compared in constant time.

use base::hex;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use std::fmt;

/// The secret of this domain's keys.
#[derive(Clone, PartialEq, Eq)]
pub struct DialbackSecret([u8; 32]);

impl fmt::Debug for DialbackSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DialbackSecret(…)")
    }
}

impl DialbackSecret {
    /// One made of a text that only our servers know.
    pub fn new(secret: &[u8]) -> DialbackSecret {
        DialbackSecret(Sha256::digest(secret).into())
    }

    /// The key by which `originating`, one of ours, is shown to `receiving`, on a stream with this
    /// id.
    pub fn key(&self, receiving: &str, originating: &str, id: &str) -> String {
        hex::encode(&self.mac(receiving, originating, id).finalize().into_bytes())
    }

    /// Whether this is that key.
    pub fn is_key(&self, key: &str, of: (&str, &str), id: &str) -> bool {
        let bytes: Option<[u8; 32]> = hex::decode_array(key.trim());
        bytes.is_some_and(|bytes| self.mac(of.0, of.1, id).verify_slice(&bytes).is_ok())
    }

    fn mac(&self, receiving: &str, originating: &str, id: &str) -> Hmac<Sha256> {
        // XEP-0185 3: the key is the hexadecimal form of the secret's hash.
        let key = hex::encode(&self.0);
        let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).expect("of any length");
        mac.update(format!("{receiving} {originating} {id}").as_bytes());
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of XEP-0185 3.
    #[test]
    fn a_key_is_that_of_the_xep() {
        let secret = DialbackSecret::new(b"s3cr3tf0rd14lb4ck");
        let key = secret.key("xmpp.example.com", "example.org", "D60000229F");
        assert_eq!(key, "37c69b1cf07a3f67c04a5ef5902fa5114f2c76fe4a2686482ba5b89323075643");
        let of = ("xmpp.example.com", "example.org");
        assert!(secret.is_key(&key, of, "D60000229F"));
        assert!(secret.is_key(&format!(" {key}\n"), of, "D60000229F"));
        for (key, of, id) in [
            (&*key, of, "D60000229E"),
            (&key, ("example.org", "xmpp.example.com"), "D60000229F"),
            (&key[1..], of, "D60000229F"),
            (&format!("0{}", &key[..63]), of, "D60000229F"),
            ("", of, "D60000229F"),
            (&"é".repeat(32), of, "D60000229F"),
        ] {
            assert!(!secret.is_key(key, of, id), "{key} {id}");
        }
    }
}
