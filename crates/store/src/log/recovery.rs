//! Reading a log back at the start, and making good what a crash left.
//!
//! It knows records, not what they mean. A bad record is a torn tail when it is in the last segment
//! and no mark behind it says that it was on stable storage: it is cut off. Anything else is a
//! corrupt middle, and nothing is changed. Invariant: when [`recover`] returns, everything that it
//! gave to `each` is on stable storage, whatever an earlier process was told by a failed sync.

use crate::log::record_scan::{RecordScan, Stuck};
use crate::log::{OpenedLog, Place, record, segment_number, segment_path};
use crate::{OpenError, Torn};
use model::ports::files::{FileSystem, ReadFile};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Bytes that are written again at once.
const PIECE_BYTES: u64 = 1024 * 1024;

/// Who hears of every record.
pub(crate) type Each<'a> =
    &'a mut dyn FnMut(Place, record::RecordKind, &[u8]) -> Result<(), &'static str>;

/// Where a segment's good records end.
struct End {
    bytes: u64,
    /// Up to here it was on stable storage for certain.
    sure: u64,
    /// What is wrong behind its end.
    torn: Option<&'static str>,
}

/// Gives every record from `from` on to `each`. The segments and their lengths, none for a folder
/// that is new.
pub(crate) fn recover(
    files: &dyn FileSystem,
    folder: &Path,
    from: Place,
    each: Each<'_>,
) -> Result<(BTreeMap<u32, u64>, OpenedLog), OpenError> {
    let mut segments = list(files, folder)?;
    let mut found = OpenedLog { segments: segments.len() as u64, ..OpenedLog::default() };
    let first = from.segment.max(1);
    let last = segments.last_key_value().map_or(0, |(number, _)| *number);
    if last == 0 && from == Place::default() {
        return Ok((segments, found));
    }
    if let Some(missing) = (first..=last.max(first)).find(|n| !segments.contains_key(n)) {
        let path = segment_path(folder, missing);
        return Err(OpenError::Corrupt { path, offset: 0, why: "the segment is missing" });
    }
    let mut end = End { bytes: 0, sure: 0, torn: None };
    for number in first..=last {
        let from = if number == first { from.offset.into() } else { 0 };
        let path = segment_path(folder, number);
        let source = files.source(&path).map_err(|error| OpenError::at(&path, error))?;
        let mut segment = Segment { number, path, source: &*source, last: number == last };
        end = segment.read(from, &mut found, each)?;
    }
    mend(files, folder, last, &end, &mut segments, &mut found)?;
    found.bytes = segments.values().sum();
    Ok((segments, found))
}

/// The segments of a folder and their lengths.
pub(crate) fn list(files: &dyn FileSystem, folder: &Path) -> Result<BTreeMap<u32, u64>, OpenError> {
    let names = files.names(folder).map_err(|error| OpenError::at(folder, error))?;
    let numbers = names.iter().filter_map(|name| segment_number(name));
    let lengths = numbers.map(|number| {
        let path = segment_path(folder, number);
        let length = files.source(&path).and_then(|source| source.length());
        Ok((number, length.map_err(|error| OpenError::at(&path, error))?))
    });
    lengths.collect()
}

struct Segment<'a> {
    number: u32,
    path: PathBuf,
    source: &'a dyn ReadFile,
    last: bool,
}

impl Segment<'_> {
    /// Reads it from `from` on.
    fn read(&mut self, from: u64, found: &mut OpenedLog, each: Each<'_>) -> Result<End, OpenError> {
        let length = self.source.length().map_err(|error| OpenError::at(&self.path, error))?;
        let mut end = End { bytes: length, sure: from, torn: None };
        if from > length {
            return Err(self.corrupt(length, "the file ends before the place of the checkpoint"));
        }
        let number = self.number;
        let mut head = RecordScan::new(self.source, 0, length);
        let first = match head.next() {
            Ok(Some(stop)) => record::read_segment(stop.kind, stop.payload, number)
                .map(|()| u64::from(stop.length))
                .map_err(|why| self.corrupt(0, why))?,
            Ok(None) => return self.stuck(from, length, Stuck::Bad { offset: 0, why: EMPTY }),
            Err(stuck) => return self.stuck(from, length, stuck),
        };
        let mut scan = RecordScan::new(self.source, from.max(first), length);
        loop {
            let stop = match scan.next() {
                Ok(Some(stop)) => stop,
                Ok(None) => break,
                Err(stuck) => {
                    let stuck = self.stuck(from, length, stuck)?;
                    return Ok(End { sure: end.sure, ..stuck });
                }
            };
            let place = Place { segment: number, offset: stop.offset as u32 };
            match stop.kind {
                record::RecordKind::Synced => end.sure = stop.offset,
                record::RecordKind::Segment => return Err(self.corrupt(stop.offset, SECOND)),
                kind => each(place, kind, stop.payload)
                    .map_err(|why| self.corrupt(place.offset.into(), why))?,
            }
            found.records += 1;
        }
        found.bytes_read += length - from;
        found.segments_read += 1;
        Ok(end)
    }

    /// Whether it is stuck at a torn tail; else an error.
    fn stuck(&self, from: u64, length: u64, stuck: Stuck) -> Result<End, OpenError> {
        let (offset, why) = match stuck {
            Stuck::Bad { offset, why } => (offset, why),
            Stuck::Io(error) => return Err(OpenError::at(&self.path, error)),
        };
        let marked = || has_mark(self.source, self.number, offset, length);
        if !self.last
            || offset < from
            || marked().map_err(|error| OpenError::at(&self.path, error))?
        {
            return Err(self.corrupt(offset, why));
        }
        Ok(End { bytes: offset, sure: from.min(offset), torn: Some(why) })
    }

    fn corrupt(&self, offset: u64, why: &'static str) -> OpenError {
        OpenError::Corrupt { path: self.path.clone(), offset, why }
    }
}

const EMPTY: &str = "the file is empty";
const SECOND: &str = "a segment begins inside another one";

/// Whether a mark stands at or behind `from`.
pub(crate) fn has_mark(
    source: &dyn ReadFile,
    number: u32,
    from: u64,
    length: u64,
) -> io::Result<bool> {
    let mut at = from;
    while at < length {
        // Pieces overlap by a mark less one byte.
        let count = (length - at).min(PIECE_BYTES + record::MARK_BYTES as u64 - 1);
        let mut bytes = vec![0; count as usize];
        source.read_at(at, &mut bytes)?;
        if record::has_mark(number, at, &bytes) {
            return Ok(true);
        }
        at += PIECE_BYTES;
    }
    Ok(false)
}

/// Cuts the last segment's torn tail off and makes sure of the rest.
fn mend(
    files: &dyn FileSystem,
    folder: &Path,
    last: u32,
    end: &End,
    segments: &mut BTreeMap<u32, u64>,
    found: &mut OpenedLog,
) -> Result<(), OpenError> {
    let path = segment_path(folder, last);
    let failed = |error| OpenError::at(&path, error);
    if let Some(why) = end.torn {
        let length = segments.get(&last).copied().unwrap_or_default();
        let bytes = length - end.bytes;
        found.torn = Some(Torn { file: path.clone(), offset: end.bytes, bytes, why });
    }
    if end.bytes == 0 {
        // Not even its first record is whole: its number is used again.
        files.remove(&path).map_err(failed)?;
        segments.remove(&last);
    } else {
        write_again(files, &path, end).map_err(failed)?;
        segments.insert(last, end.bytes);
    }
    files.sync_folder(folder).map_err(|error| OpenError::at(folder, error))
}

/// Writes what is not known to be on stable storage once more, and makes sure of the length. A
/// process whose sync failed left it in the kernel's memory, where it looks written, is read back,
/// and would be lost later.
fn write_again(files: &dyn FileSystem, path: &Path, end: &End) -> io::Result<()> {
    let source = files.source(path)?;
    let mut file = files.open(path)?;
    file.cut(end.bytes)?;
    let mut at = end.sure;
    while at < end.bytes {
        let mut bytes = vec![0; (end.bytes - at).min(PIECE_BYTES) as usize];
        source.read_at(at, &mut bytes)?;
        file.write_at(at, &bytes)?;
        at += bytes.len() as u64;
    }
    file.sync()
}
