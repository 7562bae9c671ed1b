//! Looks for single characters in text, eight bytes at a time.
//!
//! Every topic name is looked through for NUL and wildcards, and most are short: a loop byte by
//! byte costs more than the rest of reading a PUBLISH. A word holds a zero byte exactly if
//! `(w - 0x01..) & !w & 0x80..` is not zero.

const ONES: u64 = 0x0101_0101_0101_0101;

/// Whether there is a zero byte.
#[inline]
pub fn has_nul(bytes: &[u8]) -> bool {
    any_word(bytes, has_zero)
}

/// Whether there is a `+` or a `#`. The two differ in one bit, which is set before comparing.
#[inline]
pub fn has_wildcard(bytes: &[u8]) -> bool {
    const DIFFERENCE: u64 = (b'+' ^ b'#') as u64;
    const { assert!(DIFFERENCE.is_power_of_two() && b'+' as u64 & DIFFERENCE != 0) };
    any_word(bytes, |word| has_zero((word | (ONES * DIFFERENCE)) ^ (ONES * b'+' as u64)))
}

const fn has_zero(word: u64) -> bool {
    word.wrapping_sub(ONES) & !word & (ONES << 7) != 0
}

/// Whether the test holds for a word. The last one overlaps the one before it; what is shorter
/// than a word is filled up with letters.
#[inline]
fn any_word(bytes: &[u8], test: impl Fn(u64) -> bool) -> bool {
    let Some(last) = bytes.last_chunk() else {
        let word = bytes.iter().fold(ONES * b'a' as u64, |word, &byte| word << 8 | u64::from(byte));
        return test(word);
    };
    let (words, _) = bytes.as_chunks();
    let found = test(u64::from_le_bytes(*last));
    words.iter().fold(found, |found, &word| found | test(u64::from_le_bytes(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_at_every_place_is_seen_and_no_other() {
        for length in 0..40 {
            for at in 0..length {
                for byte in 0..=255 {
                    let mut bytes = vec![b'x'; length];
                    bytes[at] = byte;
                    assert_eq!(has_nul(&bytes), byte == 0, "{byte} at {at} of {length}");
                    assert_eq!(has_wildcard(&bytes), byte == b'+' || byte == b'#');
                }
            }
            assert!(!has_nul(&vec![1; length]) && !has_wildcard(&vec![0; length]));
        }
    }
}
