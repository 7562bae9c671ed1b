//! Text properties of the classic versions: `key:value` lines joined by LF (MIOP 4.2).
//!
//! The reader behaves as classic readers do: a value with a further colon is dropped, unless its
//! key begins with `addr`; of two lines with one key the first counts.

use super::{ADDRESSES_MAX, FrameFault};

/// A property block that was checked once: UTF-8, every line has a key and a colon.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text<'a>(&'a str);

impl std::fmt::Debug for Text<'_> {
    /// Keys only: values may be signatures.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.lines().map(|(key, _)| key)).finish()
    }
}

impl<'a> Text<'a> {
    /// The block of a frame that has none.
    pub const NONE: Text<'static> = Text("");

    /// Checks a block off the wire.
    pub fn read(bytes: &'a [u8]) -> Result<Text<'a>, FrameFault> {
        let text = std::str::from_utf8(bytes).map_err(|_| FrameFault::BadProperty)?;
        let has_key = |line: &str| line.find(':').is_some_and(|at| at > 0);
        if text.split('\n').all(has_key) { Ok(Text(text)) } else { Err(FrameFault::BadProperty) }
    }

    fn lines(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.0.split('\n').filter_map(|line| line.split_once(':'))
    }

    /// The value of `key`.
    pub fn value(self, key: &str) -> Option<&'a str> {
        let kept = |(name, value): &(&str, &str)| *name == key && !value.contains(':');
        self.lines().find(kept).map(|(_, value)| value)
    }

    /// The value of `key` as a decimal number, digits only.
    pub fn number(self, key: &str) -> Result<Option<u64>, FrameFault> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let digits = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
        match value.parse() {
            Ok(number) if digits => Ok(Some(number)),
            _ => Err(FrameFault::BadProperty),
        }
    }

    /// The values of `addr0`, `addr1` and so on.
    pub fn addrs(self) -> Vec<String> {
        let addrs = self.lines().filter(|(key, _)| key.starts_with("addr"));
        addrs.take(ADDRESSES_MAX).map(|(_, value)| value.to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_classic_readers_read_them() {
        let text = Text::read(b"u:a@1\nx:1:2\naddr0:10.0.0.1:80\nt:300\nt:9").expect("well formed");
        assert_eq!(text.value("u"), Some("a@1"));
        assert_eq!(text.value("x"), None, "a further colon drops the value");
        assert_eq!(text.number("t"), Ok(Some(300)), "the first line counts");
        assert_eq!(text.addrs(), ["10.0.0.1:80"]);
    }

    #[test]
    fn what_is_no_line_is_a_fault() {
        let bad: [&[u8]; 6] = [b"", b"u", b":v", b"u:a\n", b"u:a\n\nt:1", b"u:\xff"];
        for block in bad {
            assert_eq!(Text::read(block), Err(FrameFault::BadProperty), "{block:?}");
        }
        let text = Text::read(b"a:+5\nb:\nc:99999999999999999999").expect("well formed");
        for key in ["a", "b", "c"] {
            assert_eq!(text.number(key), Err(FrameFault::BadProperty), "{key}");
        }
    }
}
