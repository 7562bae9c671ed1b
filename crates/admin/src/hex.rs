//! Bytes as hex digits, for secrets and signatures.
//!
//! Knows nothing of what the bytes are. Invariant: `decode(encode(x)) == x`.

/// Lower-case hex digits.
pub(crate) fn encode(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes, or nothing when the text is not pairs of hex digits.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let byte = |pair: &[u8; 2]| Some(digit(pair[0])? << 4 | digit(pair[1])?);
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_go_both_ways_and_nothing_else_is_taken() {
        assert_eq!(encode(&[0, 0xab, 9]), "00ab09");
        assert_eq!(decode("00aB09"), Some(vec![0, 0xab, 9]));
        assert_eq!((decode("0"), decode("0g"), decode("é")), (None, None, None));
    }
}
