//! Bodies that say whose they are: any byte of any push can be checked without keeping it.
//!
//! ```text
//!  0        8        16
//!  | number | check  | filler that follows from seed and number |
//! ```

use crate::dice::{Dice, mix};

/// Shortest body, bytes.
pub const BYTES_MIN: usize = 16;

/// The body of order `number`.
pub fn of(seed: u64, number: u64, length: usize) -> Vec<u8> {
    debug_assert!(length >= BYTES_MIN);
    let mut bytes = Vec::with_capacity(length + 8);
    bytes.extend_from_slice(&number.to_be_bytes());
    bytes.extend_from_slice(&mix(seed, number).to_be_bytes());
    let mut dice = Dice::new(seed, number);
    while bytes.len() < length {
        bytes.extend_from_slice(&dice.next().to_be_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// The number at the head of a body, if that head is ours.
pub fn number(seed: u64, bytes: &[u8]) -> Option<u64> {
    let (number, rest) = bytes.split_first_chunk::<8>()?;
    let number = u64::from_be_bytes(*number);
    let check = rest.first_chunk::<8>()?;
    (u64::from_be_bytes(*check) == mix(seed, number)).then_some(number)
}

/// `bytes` as JSON carries them (RFC 4648 4).
pub fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for part in bytes.chunks(3) {
        let at = |at: usize| u32::from(part.get(at).copied().unwrap_or(0));
        let group = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            let letter = LETTERS[(group >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= part.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_names_its_number_and_a_changed_head_does_not() {
        let mut body = of(7, 42, 100);
        assert_eq!((body.len(), number(7, &body)), (100, Some(42)));
        assert_eq!(number(8, &body), None, "another run's");
        body[3] ^= 1;
        assert_eq!(number(7, &body), None);
        assert_eq!(number(7, &body[..15]), None);
    }

    #[test]
    fn base64_is_that_of_the_standard() {
        let pairs =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")];
        for (bytes, text) in pairs {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xfb, 0xff, 0xfe]), "+//+");
    }
}
