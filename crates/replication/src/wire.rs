//! Questions between nodes, beside beats: how far a log is, and parts of a base.
//!
//! ```text
//! ask:     | version u8 | log u16 |                          answered by a beat of that log
//! copy:    | version u8 | kind u8 | log u16 | file u32 | at u64 |
//!          kind 0: the list, from byte `at` on;  kind 1: chunk `at` of file `file`
//!          kind 2: the list of a base that ends behind epoch `file`, index `at`
//! answer:  | 0 | total u64 | bytes |   | 1 | it is being made |   | 2 | there is none |
//! ```
//! Little endian. A message that does not decode is ignored.

use base::bytes::ByteReader;

const VERSION: u8 = 1;

/// Bytes of a list that travel together.
pub(crate) const LIST_PIECE: usize = 256 << 10;

/// A question about a base.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CopyAsk {
    pub(crate) log: u16,
    pub(crate) part: CopyPart,
}

/// Which part of a base.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CopyPart {
    /// The beginning of the list. A base that ends here, or before, was of no use to whoever asks:
    /// if one is at hand, it is made anew.
    Newer {
        epoch: u32,
        index: u64,
    },
    List {
        from: u64,
    },
    Chunk {
        file: u32,
        chunk: u64,
    },
}

/// An answer about a base.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum CopyAnswer {
    /// The bytes, and how many a list has in all.
    Bytes { total: u64, bytes: Vec<u8> },
    /// The base is being made.
    Wait,
    /// This node has no copy from which one could be made.
    No,
}

impl CopyAsk {
    pub(crate) fn write(self) -> Vec<u8> {
        let (kind, file, at) = match self.part {
            CopyPart::List { from } => (0, 0, from),
            CopyPart::Chunk { file, chunk } => (1, file, chunk),
            CopyPart::Newer { epoch, index } => (2, epoch, index),
        };
        let mut out = vec![VERSION, kind];
        out.extend_from_slice(&self.log.to_le_bytes());
        out.extend_from_slice(&u32::to_le_bytes(file));
        out.extend_from_slice(&u64::to_le_bytes(at));
        out
    }

    pub(crate) fn read(bytes: &[u8]) -> Option<CopyAsk> {
        let mut from = ByteReader::of(VERSION, bytes)?;
        let (kind, log, file, at) = (from.byte()?, from.u16()?, from.u32()?, from.u64()?);
        let part = match kind {
            0 if file == 0 => CopyPart::List { from: at },
            1 => CopyPart::Chunk { file, chunk: at },
            2 => CopyPart::Newer { epoch: file, index: at },
            _ => return None,
        };
        from.ends(CopyAsk { log, part })
    }
}

impl CopyAnswer {
    pub(crate) fn write(&self) -> Vec<u8> {
        match self {
            CopyAnswer::Bytes { total, bytes } => {
                let mut out = Vec::with_capacity(9 + bytes.len());
                out.push(0);
                out.extend_from_slice(&total.to_le_bytes());
                out.extend_from_slice(bytes);
                out
            }
            CopyAnswer::Wait => vec![1],
            CopyAnswer::No => vec![2],
        }
    }

    pub(crate) fn read(bytes: &[u8]) -> Option<CopyAnswer> {
        let (kind, rest) = bytes.split_first()?;
        match (kind, rest) {
            (0, rest) => {
                let (total, bytes) = rest.split_first_chunk()?;
                let total = u64::from_le_bytes(*total);
                Some(CopyAnswer::Bytes { total, bytes: bytes.to_vec() })
            }
            (1, []) => Some(CopyAnswer::Wait),
            (2, []) => Some(CopyAnswer::No),
            _ => None,
        }
    }
}

/// The question how far a log is.
pub(crate) fn write_ask(log: u16) -> Vec<u8> {
    let [low, high] = log.to_le_bytes();
    vec![VERSION, low, high]
}

/// Reads a question: the log whose progress is asked for.
pub(crate) fn read_ask(bytes: &[u8]) -> Option<u16> {
    let mut from = ByteReader::of(VERSION, bytes)?;
    let log = from.u16()?;
    from.ends(log)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::hex;

    #[test]
    fn questions_have_these_bytes_and_others_are_not_read() {
        let chunk = CopyAsk { log: 3, part: CopyPart::Chunk { file: 2, chunk: 0x0102 } };
        let list = CopyAsk { log: 0, part: CopyPart::List { from: 9 } };
        let newer = CopyAsk { log: 3, part: CopyPart::Newer { epoch: 5, index: 9 } };
        for (ask, golden) in [
            (newer, "01020300050000000900000000000000"),
            (chunk, "01010300020000000201000000000000"),
            (list, "01000000000000000900000000000000"),
        ] {
            let bytes = ask.write();
            assert_eq!(CopyAsk::read(&bytes), Some(ask));
            assert_eq!(hex::encode(&bytes), golden);
            for length in 0..bytes.len() {
                assert_eq!(CopyAsk::read(&bytes[..length]), None);
            }
        }
        assert_eq!(read_ask(&write_ask(513)), Some(513));
        assert_eq!(read_ask(&[1, 0]), None);
        assert_eq!(read_ask(&[2, 0, 0]), None, "of another version");
    }

    #[test]
    fn answers_are_read_as_they_are_written() {
        let bytes = CopyAnswer::Bytes { total: 7, bytes: b"piece".to_vec() };
        for answer in [bytes, CopyAnswer::Wait, CopyAnswer::No] {
            assert_eq!(CopyAnswer::read(&answer.write()), Some(answer));
        }
        for wrong in [&[][..], &[0, 1, 2], &[1, 0], &[3]] {
            assert_eq!(CopyAnswer::read(wrong), None);
        }
    }
}
