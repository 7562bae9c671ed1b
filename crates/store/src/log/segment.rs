//! The files of a log: their names, and how one begins.
//!
//! A segment's file knows its first record and no other. Invariant: a segment that was begun is on
//! stable storage, and its name too.

use super::record::SegmentHead;
use super::{LogIdentity, OFFSET_MAX, Place, Position};
use crate::OpenError;
use model::ports::files::{File, FileSystem};
use std::io;
use std::path::{Path, PathBuf};

/// The file of the segment that is written is lengthened by so many bytes at once, at least, so
/// that the sync of a batch has no new length to write and no new blocks to take.
pub(super) const STEP_BYTES: u64 = 1 << 20;

/// A segment that grows is lengthened by a part of what it has, but by no more than so many bytes:
/// a batch waits while they are written.
const STEP_BYTES_MAX: u64 = 4 << 20;

/// Zeros with which a file is lengthened, again and again. The kernel keeps what one call writes in
/// one piece of its cache (ext4 of Linux 6.18), and each batch written into that goes over all of
/// its blocks: by trial runs a lone append with its sync costs 1.3 µs of CPU more in pieces of a
/// MiB than in pieces of this length, which are as good as shorter ones.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// The segment that is written.
#[derive(Clone, Copy)]
pub(super) struct Last {
    pub(super) number: u32,
    pub(super) bytes: u64,
    /// Bytes of it that are on stable storage.
    pub(super) synced: u64,
    /// Of the file, of which what is behind those is zeros.
    pub(super) length: u64,
}

impl Last {
    /// The length that the file is to have before it is written up to `end`, if it is to change: as
    /// long as a segment at most, and none for what nothing comes behind.
    pub(super) fn longer(&self, end: u64, segment_bytes: u64) -> Option<u64> {
        let step = (end / 4).clamp(STEP_BYTES, STEP_BYTES_MAX);
        let length = end.next_multiple_of(step).min(segment_bytes);
        Some(length).filter(|length| end > self.length && end < *length)
    }

    /// Makes the file that long.
    pub(super) fn lengthen(&mut self, file: &mut dyn File, length: u64) -> io::Result<()> {
        while self.length < length {
            let bytes = (length - self.length).min(ZEROS.len() as u64);
            file.write_at(self.length, &ZEROS[..bytes as usize])?;
            self.length += bytes;
        }
        Ok(())
    }

    pub(super) fn end(&self) -> Place {
        Place { segment: self.number, offset: self.bytes.min(OFFSET_MAX) as u32 }
    }
}

/// The file name of segment `number`.
pub(crate) fn segment_path(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("{number:010}.log"))
}

/// The number of the segment with this file name.
pub(crate) fn segment_number(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(".log").filter(|digits| digits.len() == 10)?;
    digits.parse().ok()
}

/// Opens the segment that ends here, all of it on stable storage.
pub(super) fn open(
    files: &dyn FileSystem,
    folder: &Path,
    end: Place,
) -> Result<(Last, Box<dyn File>), OpenError> {
    let path = segment_path(folder, end.segment);
    let file = files.open(&path).map_err(|error| OpenError::at(&path, error))?;
    let bytes = end.offset.into();
    Ok((Last { number: end.segment, bytes, synced: bytes, length: bytes }, file))
}

/// Begins the segment at whose beginning `at` is, and moves that behind its first record.
pub(super) fn begin(
    files: &dyn FileSystem,
    folder: &Path,
    whose: LogIdentity,
    at: &mut Position,
) -> io::Result<(Last, Box<dyn File>)> {
    let Position { place: Place { segment: number, .. }, epoch, index, chain } = *at;
    let mut file = files.open(&segment_path(folder, number))?;
    let mut bytes = Vec::new();
    SegmentHead { number, whose, epoch, index: index + 1, chain }.write(&mut bytes);
    file.cut(0)?;
    file.write_at(0, &bytes)?;
    file.sync()?;
    files.sync_folder(folder)?;
    let bytes = bytes.len() as u64;
    let last = Last { number, bytes, synced: bytes, length: bytes };
    at.place = last.end();
    Ok((last, file))
}
