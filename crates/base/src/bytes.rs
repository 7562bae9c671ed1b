//! Taking bytes off the front, and putting texts at the end.
//!
//! A [`ByteReader`] is used by one codec for one value; whoever is done asks whether it ends there,
//! for what is left over is a sign of another format. Decoding trusts nothing: whatever is not
//! there is `None`. Numbers are little-endian.

/// Bytes that are taken off the front.
#[derive(Debug)]
pub struct ByteReader<'a>(&'a [u8]);

impl<'a> ByteReader<'a> {
    /// Reads a value that begins with this version.
    pub fn of(version: u8, bytes: &'a [u8]) -> Option<ByteReader<'a>> {
        let mut from = ByteReader(bytes);
        (from.byte()? == version).then_some(from)
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `value`, if nothing is left.
    pub fn ends<T>(self, value: T) -> Option<T> {
        self.0.is_empty().then_some(value)
    }

    /// The bytes that are left.
    pub fn rest(self) -> &'a [u8] {
        self.0
    }

    /// Takes so many bytes; `None` if there are fewer.
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// A byte.
    pub fn byte(&mut self) -> Option<u8> {
        self.chunk().map(|[byte]| byte)
    }

    /// A byte of which only the bits in `known` may be set.
    pub fn flags(&mut self, known: u8) -> Option<u8> {
        self.byte().filter(|bits| bits & !known == 0)
    }

    /// A number of two bytes.
    pub fn u16(&mut self) -> Option<u16> {
        self.chunk().map(u16::from_le_bytes)
    }

    /// A number of four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        self.chunk().map(u32::from_le_bytes)
    }

    /// A number of eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        self.chunk().map(u64::from_le_bytes)
    }

    /// A text whose length is a byte.
    pub fn short_text(&mut self) -> Option<&'a str> {
        let length = self.byte()?;
        std::str::from_utf8(self.take(length.into())?).ok()
    }

    /// A text whose length is two bytes.
    pub fn text(&mut self) -> Option<&'a str> {
        let length = self.u16()?;
        std::str::from_utf8(self.take(length.into())?).ok()
    }

    fn chunk<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }
}

/// Writes a text as [`ByteReader::text`] reads it. It has at most [`u16::MAX`] bytes.
pub fn put_text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u16).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_none_and_what_is_left_over_is_noticed() {
        let bytes = [7, 1, 2, 3, 0, b'a', b'b', b'c', 2, b'x', b'y', 9];
        let mut from = ByteReader::of(7, &bytes).expect("its version");
        assert!(ByteReader::of(8, &bytes).is_none());
        assert_eq!((from.u16(), from.text()), (Some(0x0201), Some("abc")));
        assert_eq!((from.short_text(), from.u32()), (Some("xy"), None));
        assert_eq!(from.flags(1), None);
        assert_eq!(from.ends(()), Some(()));
        assert_eq!(ByteReader(&[1]).ends(()), None);
    }

    #[test]
    fn numbers_are_little_endian_and_leave_the_rest() {
        let bytes: Vec<u8> = (1..=15).collect();
        let mut from = ByteReader(&bytes);
        assert_eq!((from.byte(), from.u16()), (Some(1), Some(0x0302)));
        assert_eq!(from.u32(), Some(0x0706_0504));
        assert_eq!(from.u64(), Some(0x0f0e_0d0c_0b0a_0908));
        assert_eq!((from.byte(), from.take(1), from.take(0)), (None, None, Some(&[][..])));
        assert_eq!(ByteReader(&bytes).rest(), bytes);
    }

    #[test]
    fn a_text_is_read_as_it_was_written() {
        let mut out = vec![7];
        ["", "hello, 世界"].iter().for_each(|text| put_text(text, &mut out));
        let mut from = ByteReader::of(7, &out).expect("its version");
        assert_eq!((from.text(), from.text()), (Some(""), Some("hello, 世界")));
        assert_eq!(out[3..5], [13, 0], "its length is little-endian");
    }

    #[test]
    fn flags_are_those_that_are_known() {
        assert_eq!(ByteReader(&[0b101]).flags(0b111), Some(0b101));
        assert_eq!(ByteReader(&[0b101]).flags(0b101), Some(0b101));
        assert_eq!(ByteReader(&[0b101]).flags(0b100), None);
        assert_eq!(ByteReader(&[0]).flags(0), Some(0));
    }
}
