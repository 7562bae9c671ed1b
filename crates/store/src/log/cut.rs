//! Cutting off the end of a log: what a deposed leader wrote and nobody acknowledged.
//!
//! The log is closed. Segments go from the last backwards, so a crash in between leaves a log that
//! is only longer than wanted, and is cut again. Invariant: nothing up to the given index changes.

use super::batch::{BATCH_HEAD_BYTES, BatchHead};
use super::record::{self, SEGMENT_BYTES, SegmentHead};
use super::{durable_mark, recovery, segment_path};
use crate::OpenError;
use model::ports::files::FileSystem;
use std::io;
use std::path::Path;

/// Cuts everything behind the record with this index, which must be the last of a batch, unless the
/// log ends before it. Batches that were promised, or written into state (up to `told`), are not
/// cut.
pub(crate) fn cut_behind(
    files: &dyn FileSystem,
    folder: &Path,
    (index, told): (u64, u64),
) -> Result<(), OpenError> {
    let promised = durable_mark::read(files, folder).map_or(0, |promised| promised.index);
    if index < promised.max(told) {
        let why = "records are acknowledged behind the place at which the log is to be cut";
        return Err(OpenError::Corrupt { path: folder.into(), offset: 0, why });
    }
    let segments = recovery::list(files, folder)?;
    for (number, length) in segments.into_iter().rev() {
        let path = segment_path(folder, number);
        let failed = |error| OpenError::at(&path, error);
        // A first record that cannot be read is recovery's.
        let Some(head) = read_begin(files, &path, number).map_err(failed)? else { break };
        if head.index > index + 1 {
            files.remove(&path).and_then(|()| files.sync_folder(folder)).map_err(failed)?;
            continue;
        }
        let end = end_of(files, &path, (number, length), index).map_err(failed)?;
        if end < length {
            let mut file = files.open(&path).map_err(failed)?;
            file.cut(end).and_then(|()| file.sync()).map_err(failed)?;
        }
        break;
    }
    Ok(())
}

fn read_begin(files: &dyn FileSystem, path: &Path, number: u32) -> io::Result<Option<SegmentHead>> {
    let mut bytes = [0; SEGMENT_BYTES];
    match files.source(path)?.read_at(0, &mut bytes) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let head = record::read(&bytes).ok();
    Ok(head.and_then(|(kind, payload)| SegmentHead::read(kind, payload, number).ok()))
}

/// Where the batch begins that is behind this record, or where something else does: recovery looks
/// at that.
fn end_of(
    files: &dyn FileSystem,
    path: &Path,
    (number, length): (u32, u64),
    index: u64,
) -> io::Result<u64> {
    let source = files.source(path)?;
    let (mut at, mut bytes) = (SEGMENT_BYTES as u64, [0; BATCH_HEAD_BYTES]);
    while at + (BATCH_HEAD_BYTES as u64) <= length {
        source.read_at(at, &mut bytes)?;
        let head = record::read(&bytes).ok().and_then(|(_, payload)| BatchHead::read(payload));
        let is_here =
            |head: &BatchHead| head.place.segment == number && u64::from(head.place.offset) == at;
        let Some(head) = head.filter(is_here) else { return Ok(length) };
        if head.index > index {
            return Ok(at);
        }
        at += BATCH_HEAD_BYTES as u64 + u64::from(head.bytes);
    }
    Ok(length)
}
