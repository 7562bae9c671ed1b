//! BER as requests need it (RFC 4511 5.1): definite lengths, and primitive strings.

/// Tags of types.
pub(crate) mod tag {
    pub(crate) const BOOLEAN: u8 = 0x01;
    pub(crate) const INTEGER: u8 = 0x02;
    pub(crate) const OCTET_STRING: u8 = 0x04;
    pub(crate) const ENUMERATED: u8 = 0x0a;
    pub(crate) const SEQUENCE: u8 = 0x30;

    /// `[number]` of the protocol's operations, with content of several values.
    pub(crate) const fn application(number: u8) -> u8 {
        0x60 | number
    }

    /// `[number]` in a choice: a string.
    pub(crate) const fn string(number: u8) -> u8 {
        0x80 | number
    }

    /// `[number]` in a choice: several values.
    pub(crate) const fn values(number: u8) -> u8 {
        0xa0 | number
    }
}

/// Appends a value: tag, length, content.
pub(crate) fn put(out: &mut Vec<u8>, tag: u8, content: &[u8]) {
    out.push(tag);
    let length = content.len();
    if length < 0x80 {
        out.push(length as u8);
    } else {
        let bytes = length.to_be_bytes();
        let begin = bytes.iter().position(|&b| b != 0).unwrap_or(bytes.len() - 1);
        out.push(0x80 | (bytes.len() - begin) as u8);
        out.extend_from_slice(&bytes[begin..]);
    }
    out.extend_from_slice(content);
}

/// Appends a value whose content `fill` writes.
pub(crate) fn put_with(out: &mut Vec<u8>, tag: u8, fill: impl FnOnce(&mut Vec<u8>)) {
    let mut content = Vec::new();
    fill(&mut content);
    put(out, tag, &content);
}

/// Appends a number from 0 to 2,147,483,647 as INTEGER or ENUMERATED.
pub(crate) fn put_number(out: &mut Vec<u8>, tag: u8, number: u32) {
    let bytes = number.to_be_bytes();
    let begin = bytes.iter().position(|&b| b != 0).unwrap_or(bytes.len() - 1);
    let mut content = Vec::with_capacity(5);
    if bytes[begin] >= 0x80 {
        content.push(0);
    }
    content.extend_from_slice(&bytes[begin..]);
    put(out, tag, &content);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_numbers_are_as_short_as_can_be() {
        let of = |length: usize| {
            let mut out = Vec::new();
            put(&mut out, tag::OCTET_STRING, &vec![7; length]);
            out[..out.len() - length].to_vec()
        };
        assert_eq!(of(0), [4, 0]);
        assert_eq!(of(127), [4, 127]);
        assert_eq!(of(128), [4, 0x81, 128]);
        assert_eq!(of(256), [4, 0x82, 1, 0]);
        let number = |number| {
            let mut out = Vec::new();
            put_number(&mut out, tag::INTEGER, number);
            out
        };
        assert_eq!(number(0), [2, 1, 0]);
        assert_eq!(number(127), [2, 1, 127]);
        assert_eq!(number(128), [2, 2, 0, 128]);
        assert_eq!(number(i32::MAX as u32), [2, 4, 0x7f, 0xff, 0xff, 0xff]);
    }
}
