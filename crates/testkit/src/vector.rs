//! Golden vectors: bytes and what is expected of them, as text that people read.
//!
//! ```text
//! # a comment
//! [the name of the vector]
//! section = 5.4
//! bytes = 00 07 01 02 "text\n" 61*40
//! expect = error bad_property
//! ```
//! Any key may stand in a vector; a repeated one is joined with a space. In bytes, pairs of hex
//! digits, quoted text (with `\n`) and a pair repeated by `*N` may be mixed. A line that cannot be
//! read panics: a vector that is skipped in silence tests nothing.

use base::prng::Prng;

/// One vector.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Vector {
    /// Description of the vector, in words.
    pub name: String,
    fields: Vec<(String, String)>,
}

impl Vector {
    /// The text of a field.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.fields.iter().find(|(name, _)| name == key).map(|(_, text)| text.as_str())
    }

    /// The text of a field that must be there.
    pub fn need(&self, key: &str) -> &str {
        self.text(key).unwrap_or_else(|| panic!("vector `{}` has no `{key}`", self.name))
    }

    /// The bytes of a field that must be there.
    pub fn bytes(&self, key: &str) -> Vec<u8> {
        let text = self.need(key);
        bytes(text).unwrap_or_else(|| panic!("vector `{}`: `{key}` is no bytes: {text}", self.name))
    }
}

/// All vectors of a file.
pub fn read(file: &str) -> Vec<Vector> {
    let mut vectors: Vec<Vector> = Vec::new();
    for line in file.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            assert!(vectors.iter().all(|v| v.name != name), "two vectors are called `{name}`");
            vectors.push(Vector { name: name.to_owned(), fields: Vec::new() });
            continue;
        }
        let vector = vectors.last_mut().unwrap_or_else(|| panic!("before any vector: {line}"));
        let (key, text) = line.split_once('=').unwrap_or_else(|| panic!("no `=` in: {line}"));
        let (key, text) = (key.trim(), text.trim());
        match vector.fields.iter_mut().find(|(name, _)| name == key) {
            Some((_, so_far)) => {
                so_far.push(' ');
                so_far.push_str(text);
            }
            None => vector.fields.push((key.to_owned(), text.to_owned())),
        }
    }
    vectors
}

/// The bytes that a text like `00 07 "ab" 61*3` means.
pub fn bytes(mut text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        text = text.trim_start();
        if text.is_empty() {
            return Some(bytes);
        }
        if let Some(rest) = text.strip_prefix('"') {
            let (quoted, rest) = rest.split_once('"')?;
            bytes.extend_from_slice(quoted.replace("\\n", "\n").as_bytes());
            text = rest;
            continue;
        }
        let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let (hex, count) = word.split_once('*').unwrap_or((word, "1"));
        if hex.len() != 2 {
            return None;
        }
        let byte = u8::from_str_radix(hex, 16).ok()?;
        bytes.extend(std::iter::repeat_n(byte, count.parse().ok()?));
        text = rest;
    }
}

/// Some byte strings of a corpus, one after another, with a few bytes changed, gone or doubled.
pub fn bent(rng: &mut Prng, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..=rng.below(4) {
        bytes.extend_from_slice(&corpus[rng.below(corpus.len() as u64) as usize]);
    }
    for _ in 0..rng.below(4) {
        let at = rng.below(bytes.len() as u64) as usize;
        match rng.below(4) {
            0 => bytes[at] = rng.draw() as u8,
            1 => bytes[at] ^= 1 << rng.below(8),
            2 if bytes.len() > 1 => drop(bytes.remove(at)),
            _ => bytes.insert(at, *[0, 1, 0x7f, 0x80, 0xff].get(at % 5).unwrap_or(&0)),
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_field_by_field() {
        let file = "# c\n[one]\nbytes = 00 07\nbytes = \"a b\\n\" ff*3\nexpect = more\n\n[two]\n";
        let vectors = read(file);
        assert_eq!(vectors.len(), 2);
        assert_eq!(vectors[0].bytes("bytes"), b"\x00\x07a b\n\xff\xff\xff");
        assert_eq!(vectors[0].need("expect"), "more");
        assert_eq!(vectors[1].text("expect"), None);
    }

    #[test]
    fn what_is_no_byte_is_not_read() {
        assert_eq!(bytes("0"), None);
        assert_eq!(bytes("0g"), None);
        assert_eq!(bytes("\"open"), None);
        assert_eq!(bytes("00*x"), None);
    }
}
