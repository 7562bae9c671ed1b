//! A source that lets one step read so many bytes, and counts lines.
//!
//! The reader of pieces of a file into memory says when one begins. Invariant: between two of these
//! it gives at most so many bytes, and then an error.

use std::io::{BufRead, Error, Read, Result};

pub(super) struct Pace<R> {
    source: R,
    most: usize,
    left: usize,
    line: usize,
}

impl<R: BufRead> Pace<R> {
    pub(super) fn new(source: R, most: usize) -> Pace<R> {
        Pace { source, most, left: most, line: 1 }
    }

    /// A piece begins.
    pub(super) fn begin(&mut self) {
        self.left = self.most;
    }

    /// The line of what was read last, from 1.
    pub(super) fn line(&self) -> usize {
        self.line
    }
}

impl<R: BufRead> Read for Pace<R> {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize> {
        let count = self.fill_buf()?.read(bytes)?;
        self.consume(count);
        Ok(count)
    }
}

impl<R: BufRead> BufRead for Pace<R> {
    fn fill_buf(&mut self) -> Result<&[u8]> {
        let bytes = self.source.fill_buf()?;
        match (bytes.is_empty(), self.left) {
            (false, 0) => {
                let most = self.most;
                Err(Error::other(format!("one element or text has more than {most} bytes")))
            }
            (_, left) => Ok(&bytes[..bytes.len().min(left)]),
        }
    }

    fn consume(&mut self, count: usize) {
        // What is consumed was given: it is there without a look at the source.
        if let Ok(bytes) = self.source.fill_buf() {
            let given = &bytes[..count.min(bytes.len())];
            self.line += given.iter().filter(|byte| **byte == b'\n').count();
        }
        self.left -= count.min(self.left);
        self.source.consume(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_has_so_many_bytes_and_the_next_as_many_again() {
        let mut pace = Pace::new(&b"ab\ncd\nef"[..], 3);
        let mut bytes = [0; 8];
        assert_eq!(
            (pace.read(&mut bytes).expect("some"), &bytes[..3], pace.line()),
            (3, &b"ab\n"[..], 2)
        );
        let why = pace.read(&mut bytes).expect_err("that was all").to_string();
        assert!(why.contains("more than 3 bytes"), "{why}");
        pace.begin();
        assert_eq!(pace.read(&mut bytes[..1]).expect("some"), 1);
        assert_eq!(pace.read(&mut bytes).expect("some"), 2);
        assert_eq!(pace.line(), 3);
        pace.begin();
        assert_eq!(pace.read(&mut bytes).expect("some"), 2);
        assert_eq!(pace.read(&mut bytes).expect("the end"), 0);
        let mut whole = Pace::new(&b"abc"[..], 3);
        assert_eq!(whole.read(&mut bytes).expect("some"), 3);
        assert_eq!(whole.read(&mut bytes).expect("the end"), 0, "no byte too many");
    }
}
