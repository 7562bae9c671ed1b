//! Rows of one space in the order of their keys, behind one another in one piece of memory.
//!
//! The rows know no space and no meaning. Invariant: keys rise.

/// Length of a value that stands for a row that goes.
const GONE: u32 = u32::MAX;

/// Sorted rows: put, or gone.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sorted {
    bytes: Vec<u8>,
    /// Lengths of key and value.
    lengths: Vec<(u16, u32)>,
    /// Where the last key stands.
    last: usize,
}

impl Sorted {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// Rows.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Memory, bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.len() + self.lengths.len() * size_of::<(u16, u32)>()
    }

    /// Adds a row behind all others; `fill` appends its value.
    pub(crate) fn put(&mut self, key: &[u8], fill: impl FnOnce(&mut Vec<u8>)) {
        self.begin(key);
        let start = self.bytes.len();
        fill(&mut self.bytes);
        let length = (self.bytes.len() - start) as u32; // values are far below 4 GiB
        self.lengths.push((key.len() as u16, length));
    }

    /// Adds a row that goes.
    pub(crate) fn delete(&mut self, key: &[u8]) {
        self.begin(key);
        self.lengths.push((key.len() as u16, GONE));
    }

    /// Keys and values; `None`: the row goes.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        let mut rest = &self.bytes[..];
        self.lengths.iter().map(move |&(key_bytes, value_bytes)| {
            let (key, behind) = rest.split_at(key_bytes.into());
            let value = (value_bytes != GONE).then(|| behind.split_at(value_bytes as usize));
            rest = value.map_or(behind, |(_, behind)| behind);
            (key, value.map(|(value, _)| value))
        })
    }

    fn begin(&mut self, key: &[u8]) {
        if let Some((length, _)) = self.lengths.last() {
            let before = &self.bytes[self.last..self.last + usize::from(*length)];
            assert!(before < key, "sorted rows are put in the order of their keys");
        }
        self.last = self.bytes.len();
        self.bytes.extend_from_slice(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_as_they_were_put() {
        let mut rows = Sorted::default();
        assert!(rows.is_empty() && rows.iter().next().is_none());
        rows.put(b"a", |out| out.extend_from_slice(b"one"));
        rows.delete(b"ab");
        rows.put(b"b", |_| {});
        let all: Vec<_> = rows.iter().collect();
        let told: [(&[u8], Option<&[u8]>); 3] =
            [(b"a", Some(b"one")), (b"ab", None), (b"b", Some(b""))];
        assert_eq!((all.as_slice(), rows.len()), (&told[..], 3));
        assert_eq!(rows.bytes(), 4 + 3 + 3 * 8);
    }

    #[test]
    #[should_panic(expected = "in the order of their keys")]
    fn a_row_that_is_not_behind_the_others_is_our_fault() {
        let mut rows = Sorted::default();
        rows.delete(b"b");
        rows.delete(b"b");
    }
}
