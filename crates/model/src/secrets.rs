//! Secrets that are drawn where there is no randomness: a counter, hashed under a key of its own.
//!
//! The key is random and handed in when the process starts, one for each source, and used for
//! nothing else: neither a table's key nor a name that is shown says anything of what is drawn
//! (HMAC-SHA256, RFC 2104). Invariant: no two draws of a source are alike.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;

/// Where secrets come from.
pub struct SecretSource {
    keyed: Hmac<Sha256>,
    drawn: u64,
}

impl SecretSource {
    /// One under this key.
    pub fn new(key: [u8; 32]) -> SecretSource {
        let keyed = Hmac::new_from_slice(&key).expect("HMAC takes keys of every length");
        SecretSource { keyed, drawn: 0 }
    }

    /// The next secret.
    pub fn draw(&mut self) -> [u8; 32] {
        self.drawn += 1;
        let mut mac = self.keyed.clone();
        mac.update(&self.drawn.to_be_bytes());
        mac.finalize().into_bytes().into()
    }

    /// The next one of half the length, as a number.
    pub fn number(&mut self) -> u128 {
        let drawn = self.draw();
        drawn.first_chunk().map_or(0, |half| u128::from_be_bytes(*half))
    }
}

impl fmt::Debug for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretSource({} drawn)", self.drawn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_draws_are_alike_and_one_key_draws_the_same_again() {
        let all = |key| {
            let mut source = SecretSource::new([key; 32]);
            (0..1_000).map(|_| source.draw()).collect::<Vec<_>>()
        };
        assert_eq!(all(1), all(1));
        let drawn: BTreeSet<_> = all(1).into_iter().chain(all(2)).collect();
        assert_eq!(drawn.len(), 2_000);
    }

    #[test]
    fn a_number_is_the_first_half_and_nothing_is_shown() {
        let mut source = SecretSource::new([7; 32]);
        let first: [u8; 16] = SecretSource::new([7; 32]).draw()[..16].try_into().expect("16 bytes");
        assert_eq!(source.number(), u128::from_be_bytes(first));
        assert_eq!(format!("{source:?}"), "SecretSource(1 drawn)");
    }
}
