//! Taking bytes off the front, and putting texts at the end.
//!
//! A [`Reader`] is used by one codec for one value; whoever is done asks whether it ends there, for
//! what is left over is a sign of another format. Decoding trusts nothing.

/// Appends bytes with their length, at most 65,535 of them.
pub(super) fn text(text: &[u8], out: &mut Vec<u8>) {
    let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
    out.extend(length.to_le_bytes());
    out.extend_from_slice(&text[..usize::from(length)]);
}

/// Bytes that are taken off the front.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Reads a value that begins with this version.
    pub fn of(version: u8, bytes: &'a [u8]) -> Option<Reader<'a>> {
        let mut from = Reader(bytes);
        (from.byte()? == version).then_some(from)
    }

    /// `value`, if nothing is left.
    pub fn ends<T>(self, value: T) -> Option<T> {
        self.0.is_empty().then_some(value)
    }

    /// Whatever is left.
    pub fn rest(self) -> &'a [u8] {
        self.0
    }

    pub fn byte(&mut self) -> Option<u8> {
        self.chunk().map(|[byte]| byte)
    }

    /// A byte of which only the bits in `known` may be set.
    pub fn flags(&mut self, known: u8) -> Option<u8> {
        self.byte().filter(|bits| bits & !known == 0)
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.chunk().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.chunk().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.chunk().map(u64::from_le_bytes)
    }

    pub fn text(&mut self) -> Option<&'a str> {
        let length = self.u16()?;
        let (taken, rest) = self.0.split_at_checked(length.into())?;
        self.0 = rest;
        std::str::from_utf8(taken).ok()
    }

    fn chunk<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }
}
