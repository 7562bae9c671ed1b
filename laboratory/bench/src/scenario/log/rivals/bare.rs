//! A write and fdatasync of the same bytes: the floor under every engine.
//!
//! A record is length, checksum, key, body and sixteen bytes a row (timeline, place). This store
//! has no index, cannot be read by key, and never frees anything. One file, whose length is set in
//! steps beforehand: fdatasync need not write a length then, which saves a third of the CPU of a
//! small append.

use crate::scenario::log::audit::Seen;
use crate::scenario::log::lane::Ordered;
use crate::scenario::log::rival::{Heads, Rival, completion, halves, key, message, row};
use crate::scenario::log::traffic::BODY_BYTES;
use model::ports::log::{Completion, Pull};
use model::timeline::Placed;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Length and checksum.
const HEAD_BYTES: usize = 8;
/// The file's length grows by so much.
const STEP_BYTES: u64 = 64 * 1024 * 1024;
/// A message's key.
const KEY_BYTES: usize = 16;

/// See the module.
pub struct Bare {
    file: File,
    /// Where the next record goes, and the file's length.
    end: u64,
    length: u64,
    heads: Heads,
    batch: Vec<u8>,
}

impl Bare {
    /// Opens the file in `folder`.
    pub fn open(folder: &Path) -> io::Result<Bare> {
        let mut options = OpenOptions::new();
        let file = options.create(true).truncate(false).write(true).read(true);
        let file = file.open(folder.join("bare"))?;
        Ok(Bare { file, end: 0, length: 0, heads: Heads::default(), batch: Vec::new() })
    }
}

impl Rival for Bare {
    fn commit(&mut self, batch: Vec<Ordered>) -> io::Result<Vec<Completion>> {
        self.batch.clear();
        let mut answers = Vec::with_capacity(batch.len());
        for ordered in batch {
            let append = &ordered.1;
            let begin = self.batch.len();
            self.batch.extend([0; HEAD_BYTES]);
            self.batch.extend(key(&append.message));
            self.batch.extend(&*append.message.body);
            let mut seqs = Vec::with_capacity(append.to.len());
            for &timeline in &append.to {
                let seq = self.heads.next(timeline);
                self.batch.extend(row(timeline, seq));
                seqs.push(seq);
            }
            let record = &self.batch[begin + HEAD_BYTES..];
            let (length, sum) = (record.len() as u32, crc32fast::hash(record));
            self.batch[begin..begin + 4].copy_from_slice(&length.to_le_bytes());
            self.batch[begin + 4..begin + 8].copy_from_slice(&sum.to_le_bytes());
            answers.push(completion(&ordered, seqs));
        }
        let end = self.end + self.batch.len() as u64;
        if end > self.length {
            self.length = end.next_multiple_of(STEP_BYTES);
            self.file.set_len(self.length)?;
        }
        self.file.write_all_at(&self.batch, self.end)?;
        self.end = end;
        self.file.sync_data()?;
        Ok(answers)
    }

    fn page(&mut self, _: &Pull) -> io::Result<Vec<Placed>> {
        Err(io::Error::other("bare bytes have no index"))
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }

    fn scan(&mut self, seen: &mut Seen<'_>) -> io::Result<()> {
        let torn = || io::Error::other("a record is torn");
        let mut reader = io::BufReader::with_capacity(1 << 20, &self.file);
        let mut head = [0; HEAD_BYTES];
        while reader.read_exact(&mut head).is_ok() {
            let (length, sum) = head.split_first_chunk::<4>().ok_or_else(torn)?;
            if head == [0; HEAD_BYTES] {
                break; // what lies behind was never written
            }
            let mut record = vec![0; u32::from_le_bytes(*length) as usize];
            reader.read_exact(&mut record)?;
            let (key, rest) = record.split_at_checked(KEY_BYTES).ok_or_else(torn)?;
            let (body, to) = rest.split_at_checked(BODY_BYTES).ok_or_else(torn)?;
            if crc32fast::hash(&record).to_le_bytes() != sum {
                return Err(torn());
            }
            seen.message(&message(key, body)?)?;
            for row in to.chunks_exact(16) {
                let (timeline, seq) = halves(row)?;
                seen.row(timeline, seq, halves(key)?.0)?;
            }
        }
        Ok(())
    }
}
