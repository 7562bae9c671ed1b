//! Bytes as hexadecimal digits, two a byte: secrets, signatures, identifiers.
//!
//! Invariant: `decode(encode(x)) == x`. Digits are written in lower case and read in either.

/// Lower-case digits.
pub fn encode(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes; `None`: the text is not pairs of digits. Of an empty text there are none.
pub fn decode(text: &str) -> Option<Box<[u8]>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

/// Just so many bytes; `None`: the text is not twice as many digits.
pub fn decode_array<const N: usize>(text: &str) -> Option<[u8; N]> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    let mut bytes = [0; N];
    for (place, pair) in bytes.iter_mut().zip(pairs) {
        *place = byte(pair)?;
    }
    Some(bytes)
}

fn byte(pair: &[u8; 2]) -> Option<u8> {
    let digit = |digit: u8| char::from(digit).to_digit(16).map(|digit| digit as u8);
    Some(digit(pair[0])? << 4 | digit(pair[1])?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_go_both_ways_and_nothing_else_is_taken() {
        assert_eq!(encode(&[0, 0xab, 9]), "00ab09");
        assert_eq!(decode("00aB09").as_deref(), Some(&[0, 0xab, 9][..]));
        assert_eq!(decode_array("00aB09"), Some([0, 0xab, 9]));
        assert_eq!(decode("").as_deref(), Some(&[][..]));
        for wrong in ["0", "0g", "g0", "é", "+1"] {
            assert_eq!((decode(wrong), decode_array::<1>(wrong)), (None, None), "{wrong}");
        }
        for wrong in ["", "00", "000000", "00000"] {
            assert_eq!(decode_array::<2>(wrong), None, "{wrong}");
        }
    }
}
