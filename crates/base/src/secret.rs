//! The secret that all nodes of a cluster share, and the keys that are derived from it.
//!
//! Things that two nodes must name alike (homes, timelines, rows, tokens) are named under a key of
//! this secret, never under a node's own. It knows no file. Invariant: the secret is shown by
//! [`ClusterSecret::to_text`] alone; everything else shows its fingerprint.

use crate::hash::HashKey;
use crate::hex;
use std::fmt;

/// The secret of a cluster. A lone node is a cluster of one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ClusterSecret([u8; 32]);

impl ClusterSecret {
    /// The secret with these bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        ClusterSecret(bytes)
    }

    /// The secret with these 64 hexadecimal digits; `None` when they are anything else.
    pub fn parse(text: &str) -> Option<Self> {
        hex::decode_array(text).map(ClusterSecret)
    }

    /// Its digits, as [`parse`](Self::parse) takes them.
    pub fn to_text(&self) -> String {
        hex::encode(&self.0)
    }

    /// Its bytes.
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The key for one purpose. Keys of two purposes say nothing of each other.
    pub fn key(&self, purpose: &str) -> HashKey {
        let word = |at: usize| {
            let bytes = &self.0[8 * at..8 * at + 8];
            u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
        };
        let (one, two) = (HashKey::new(word(0), word(1)), HashKey::new(word(2), word(3)));
        let half = |number: &[u8]| {
            let inner = one.of(&[purpose.as_bytes(), number]).to_be_bytes();
            two.of(&[&inner, purpose.as_bytes(), number])
        };
        HashKey::new(half(b"0"), half(b"1"))
    }

    /// The key by which identities have their homes and timelines their names.
    pub fn home(&self) -> HashKey {
        self.key("home")
    }

    /// Fingerprint, which may be shown: two clusters have two.
    pub fn fingerprint(&self) -> u64 {
        self.key("fingerprint").of(&[])
    }
}

impl fmt::Debug for ClusterSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterSecret({:016x})", self.fingerprint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_read_as_it_is_written_and_nothing_else_is() {
        let secret = ClusterSecret::new(std::array::from_fn(|at| (7 * at) as u8));
        let text = secret.to_text();
        assert_eq!((text.len(), ClusterSecret::parse(&text)), (64, Some(secret)));
        assert_eq!(ClusterSecret::parse(&text.to_uppercase()), Some(secret));
        let longer = format!("{text}0");
        for wrong in ["", &text[1..], &longer, &text.replace('0', "g"), &text.replace("00", "+0")] {
            assert_eq!(ClusterSecret::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn every_byte_and_every_purpose_makes_another_key() {
        let of = |bytes, purpose| ClusterSecret::new(bytes).key(purpose).of(&[b"a"]);
        let first = of([7; 32], "home");
        assert_eq!(first, of([7; 32], "home"));
        assert_ne!(first, of([7; 32], "routes"));
        for at in 0..32 {
            let mut bytes = [7; 32];
            bytes[at] ^= 1;
            assert_ne!(first, of(bytes, "home"), "byte {at}");
            let (one, other) = (ClusterSecret::new([7; 32]), ClusterSecret::new(bytes));
            assert_ne!(one.fingerprint(), other.fingerprint(), "byte {at}");
        }
    }

    #[test]
    fn only_the_fingerprint_is_shown() {
        let secret = ClusterSecret::new([77; 32]);
        let shown = format!("{secret:?}");
        assert_eq!(shown, format!("ClusterSecret({:016x})", secret.fingerprint()));
        assert!(!shown.contains(&secret.to_text()[..8]), "{shown}");
    }
}
