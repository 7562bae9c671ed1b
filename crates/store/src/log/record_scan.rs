//! Going through the records of one file, in pieces, with every checksum looked at.
//!
//! A scan knows bytes and places, not the meaning of records, and reads at most a piece and one
//! record of the file at once. Invariant: [`RecordScan::next`] gives records that stand one behind
//! another, the first of them where the scan began.

use crate::log::record::{self, HEAD_BYTES, RecordKind};
use model::ports::files::ReadFile;
use std::io;

/// Bytes that are read at once.
const PIECE_BYTES: usize = 256 * 1024;

/// A record, and where it stands.
pub(crate) struct Stop<'a> {
    pub(crate) offset: u64,
    pub(crate) length: u32,
    pub(crate) crc: u32,
    pub(crate) kind: RecordKind,
    pub(crate) payload: &'a [u8],
}

/// Reason why a scan cannot go on.
#[derive(Debug)]
pub(crate) enum Stuck {
    /// The record here is not what was written.
    Bad { offset: u64, why: &'static str },
    /// The file cannot be read.
    Io(io::Error),
}

/// A scan through a file.
pub(crate) struct RecordScan<'a> {
    source: &'a dyn ReadFile,
    /// Where the next record stands.
    at: u64,
    end: u64,
    /// Bytes read, of which the first `gone` have been walked over.
    bytes: Vec<u8>,
    gone: usize,
}

impl<'a> RecordScan<'a> {
    /// From `at` to `end`, both of them between records.
    pub(crate) fn new(source: &'a dyn ReadFile, at: u64, end: u64) -> RecordScan<'a> {
        RecordScan { source, at, end, bytes: Vec::new(), gone: 0 }
    }

    /// Where the next record stands.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// The next record; `None` at the end. When it is stuck, it stays where it is.
    pub(crate) fn next(&mut self) -> Result<Option<Stop<'_>>, Stuck> {
        let offset = self.at;
        if offset >= self.end {
            return Ok(None);
        }
        let bad = |why| Stuck::Bad { offset, why };
        let head = self.peek(HEAD_BYTES).map_err(Stuck::Io)?;
        let head = head.first_chunk().ok_or(bad("the file ends inside a record's head"))?;
        let length = record::length(head).map_err(bad)?;
        let whole = self.peek(length).map_err(Stuck::Io)?;
        if whole.len() < length {
            return Err(bad("the file ends inside a record"));
        }
        let (kind, _) = record::read(whole).map_err(bad)?;
        let crc = record::crc(whole);
        let payload = self.gone + HEAD_BYTES..self.gone + length;
        (self.gone, self.at) = (payload.end, offset + length as u64);
        let payload = &self.bytes[payload];
        Ok(Some(Stop { offset, length: length as u32, crc, kind, payload }))
    }

    /// The next `count` bytes, fewer at the end.
    fn peek(&mut self, count: usize) -> io::Result<&[u8]> {
        if self.bytes.len() - self.gone < count {
            self.bytes.drain(..self.gone);
            self.gone = 0;
            let have = self.bytes.len();
            let rest = self.end - self.at - have as u64;
            let more = rest.min((count.max(PIECE_BYTES) - have) as u64) as usize;
            self.bytes.resize(have + more, 0);
            let read = self.source.read_at(self.at + have as u64, &mut self.bytes[have..]);
            read.inspect_err(|_| self.bytes.truncate(have))?;
        }
        let rest = &self.bytes[self.gone..];
        Ok(&rest[..count.min(rest.len())])
    }
}

/// Where the record behind a bad one stands, if its length can be believed.
pub(crate) fn next_record(
    source: &dyn ReadFile,
    offset: u64,
    length: u64,
) -> io::Result<Option<u64>> {
    let mut head = [0; HEAD_BYTES];
    if offset + head.len() as u64 > length {
        return Ok(None);
    }
    source.read_at(offset, &mut head)?;
    let Ok(whole) = record::length(&head) else { return Ok(None) };
    let next = offset + whole as u64;
    let is_there = next < length && RecordScan::new(source, next, length).next().is_ok();
    Ok(is_there.then_some(next))
}
