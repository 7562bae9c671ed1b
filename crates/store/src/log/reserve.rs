//! The reserve: a file of zeros whose room is given back when the disk is full.
//!
//! Writes that free room must succeed even then, or a full disk would stay full. The first half is
//! for writes that end something, the rest on the segment and the checkpoint that let older
//! segments go. Only its length matters, so a start makes it anew. The reserve knows no record.
//! Invariant: while it stands, [`RESERVE_BYTES`] more can be written on a disk that is full (unless
//! the file system stores zeros in no room).

use crate::files::is_full;
use model::ports::files::FileSystem;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Length of the reserve.
pub(crate) const RESERVE_BYTES: u64 = 512 * 1024;

/// Bytes kept of it when a record that ends something needs room.
pub(crate) const ENDING_BYTES: u64 = RESERVE_BYTES / 2;

/// Bytes kept of it when a new segment needs room.
pub(crate) const ROLLING_BYTES: u64 = RESERVE_BYTES / 4;

/// The file, and how much of it there is.
pub(crate) struct Reserve {
    files: Arc<dyn FileSystem>,
    path: PathBuf,
    bytes: u64,
}

impl Reserve {
    /// Makes an empty reserve, and gives up what an earlier process kept.
    pub(crate) fn new(files: Arc<dyn FileSystem>, path: PathBuf) -> io::Result<Reserve> {
        let mut reserve = Reserve { files, path, bytes: RESERVE_BYTES };
        match reserve.keep(0) {
            // Not even room for the name of a file: then there is nothing to give up.
            Err(error) if is_full(&error) => reserve.bytes = 0,
            given_up => given_up?,
        }
        Ok(reserve)
    }

    /// Whether all of it is there.
    pub(crate) fn stands(&self) -> bool {
        self.bytes == RESERVE_BYTES
    }

    /// Makes it whole. Whether it stands: without room for all of it, it stays as it was.
    pub(crate) fn make(&mut self) -> io::Result<bool> {
        if self.stands() {
            return Ok(true);
        }
        match self.fill() {
            Ok(()) => self.bytes = RESERVE_BYTES,
            Err(error) if is_full(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(self.stands())
    }

    /// Gives up all but `bytes` of it.
    pub(crate) fn keep(&mut self, bytes: u64) -> io::Result<()> {
        if self.bytes > bytes {
            let mut file = self.files.open(&self.path)?;
            file.cut(bytes)?;
            // Some file systems give freed room out again only when that is on the disk.
            file.sync()?;
            self.bytes = bytes;
        }
        Ok(())
    }

    fn fill(&self) -> io::Result<()> {
        let mut file = self.files.open(&self.path)?;
        let missing = vec![0; (RESERVE_BYTES - self.bytes) as usize];
        let filled = file.write_at(self.bytes, &missing).and_then(|()| file.sync());
        if filled.is_err() {
            file.cut(self.bytes)?;
        }
        filled
    }
}
