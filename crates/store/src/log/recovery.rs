//! Reading a log back at the start, and making good what a crash left.
//!
//! Recovery knows records, not their meaning. The last segment's file is longer than its content:
//! zeros behind its last batch are its end. An incomplete record, or a batch without its end, is a
//! torn tail when it is in the last segment and no batch behind it says that it was on stable
//! storage: its whole batch is cut off. Anything else is a corrupt middle, or a file that belongs
//! elsewhere, and nothing is changed. Invariant: when [`recover`] returns, everything that it gave
//! to `each` is on stable storage, whatever a failed sync reported to an earlier process.

use crate::log::batch::{self, BATCH_HEAD_BYTES, BatchWalk};
use crate::log::record::{self, SEGMENT_BYTES, SegmentHead};
use crate::log::record_scan::{RecordScan, Stop, Stuck};
use crate::log::{LogIdentity, OpenedLog, Place, Position, segment_number, segment_path};
use crate::{OpenError, Torn};
use model::ports::files::{FileSystem, ReadFile};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Bytes that are written again at once.
const PIECE_BYTES: u64 = 1024 * 1024;

/// Receiver of every record.
pub(crate) type Each<'a> =
    &'a mut dyn FnMut(Place, record::RecordKind, &[u8]) -> Result<(), &'static str>;

/// Where the last segment's whole batches end.
struct End {
    bytes: u64,
    /// Offset up to which it was on stable storage for certain.
    sure: u64,
    /// Fault behind its end.
    torn: Option<&'static str>,
}

/// Why a segment cannot be read on.
enum Break {
    /// A record is incomplete.
    Torn(u64, &'static str),
    /// The damage is no torn tail, whatever follows it.
    Error(OpenError),
}

/// Gives every record from `from` on to `each`. The segments and their lengths, and where the next
/// record is to be written: in one of them, or at the beginning of one that is not there yet.
pub(crate) fn recover(
    files: &dyn FileSystem,
    folder: &Path,
    (whose, from): (LogIdentity, Position),
    each: Each<'_>,
) -> Result<(BTreeMap<u32, u64>, Position, OpenedLog), OpenError> {
    let mut segments = list(files, folder)?;
    let mut found = OpenedLog { segments: segments.len() as u64, ..OpenedLog::default() };
    let first = from.place.segment.max(1);
    let last = segments.last_key_value().map_or(0, |(number, _)| *number);
    if last == 0 && from == Position::default() {
        let place = Place { segment: first, offset: 0 };
        return Ok((segments, Position { place, ..from }, found));
    }
    if let Some(missing) = (first..=last.max(first)).find(|n| !segments.contains_key(n)) {
        let path = segment_path(folder, missing);
        return Err(OpenError::Corrupt { path, offset: 0, why: "the segment is missing" });
    }
    check_older(files, folder, segments.range(..first).map(|(number, _)| *number), (whose, from))?;
    let mut walk = BatchWalk::new(from);
    let mut end = End { bytes: 0, sure: 0, torn: None };
    for number in first..=last {
        let path = segment_path(folder, number);
        let source = files.source(&path).map_err(|error| OpenError::at(&path, error))?;
        let from = if number == first { from.place.offset.into() } else { 0 };
        let segment = Segment { number, path, source: &*source, whose, from };
        let length = segment.length()?;
        let upto = match number == last {
            false => length,
            // Of the last one nothing is carried out that is about to be cut off.
            true => {
                end = segment.end(&walk, length)?;
                end.bytes
            }
        };
        if number == last && upto == 0 {
            break; // torn in its first record
        }
        segment.give(&mut walk, upto, &mut found, each)?;
    }
    mend(files, folder, last, &end, &mut segments, &mut found)?;
    found.bytes = segments.values().sum();
    let at = walk.at();
    let place = if end.bytes == 0 { Place { segment: last, offset: 0 } } else { at.place };
    Ok((segments, Position { place, ..at }, found))
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

/// Looks whether segments that are not read on are of this log, and in its order. One whose first
/// record is damaged is left to whoever reads it.
fn check_older(
    files: &dyn FileSystem,
    folder: &Path,
    numbers: impl Iterator<Item = u32>,
    (whose, from): (LogIdentity, Position),
) -> Result<(), OpenError> {
    let (mut epoch, mut index) = (0, 0);
    for number in numbers {
        let path = segment_path(folder, number);
        let source = files.source(&path).map_err(|error| OpenError::at(&path, error))?;
        let mut bytes = [0; SEGMENT_BYTES];
        match source.read_at(0, &mut bytes) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => continue,
            Err(error) => return Err(OpenError::at(&path, error)),
        }
        let Ok((kind, payload)) = record::read(&bytes) else { continue };
        let corrupt = |why| OpenError::Corrupt { path: path.clone(), offset: 0, why };
        let head = SegmentHead::read(kind, payload, number).map_err(corrupt)?;
        is_of(&head, whose, &path)?;
        let is_in_order = head.index >= index && head.index <= from.index + 1;
        if !is_in_order || head.epoch < epoch || head.epoch > from.epoch {
            let why = "its records and epochs are not in the order of the segments around it";
            return Err(corrupt(why));
        }
        (epoch, index) = (head.epoch, head.index);
    }
    Ok(())
}

fn is_of(head: &SegmentHead, wanted: LogIdentity, path: &Path) -> Result<(), OpenError> {
    let (path, found) = (path.to_path_buf(), head.whose);
    match found == wanted {
        true => Ok(()),
        false => Err(OpenError::OtherLog { path, found, wanted }),
    }
}

struct Segment<'a> {
    number: u32,
    path: PathBuf,
    source: &'a dyn ReadFile,
    whose: LogIdentity,
    /// Where reading begins.
    from: u64,
}

impl Segment<'_> {
    fn length(&self) -> Result<u64, OpenError> {
        let length = self.source.length().map_err(|error| OpenError::at(&self.path, error))?;
        match self.from > length {
            true => Err(self.corrupt(length, "the file ends before the place of the checkpoint")),
            false => Ok(length),
        }
    }

    /// Where its whole batches end, if it is the last one.
    fn end(&self, walk: &BatchWalk, length: u64) -> Result<End, OpenError> {
        let mut walk = walk.clone();
        let (offset, why) = match self.follow(&mut walk, length, &mut |_| Ok(())) {
            Ok(()) => {
                return Ok(End { bytes: length, sure: walk.sure().into(), torn: None });
            }
            Err(Break::Torn(offset, why)) => (offset, why),
            Err(Break::Error(error)) => return Err(error),
        };
        let is_begun = walk.at().place.segment == self.number;
        let blank = is_blank(self.source, (offset, length));
        let blank = blank.map_err(|error| OpenError::at(&self.path, error))?;
        if is_begun && walk.is_between() && blank {
            // What is behind it never was written, or was never synced.
            return Ok(End { bytes: offset, sure: walk.sure().into(), torn: None });
        }
        // A segment is on stable storage before anything is written behind its first record.
        let least = walk.at().index + u64::from(is_begun);
        let was_whole = vouches(self.source, self.number, (offset, length), least);
        if was_whole.map_err(|error| OpenError::at(&self.path, error))? || offset < self.from {
            return Err(self.corrupt(offset, why));
        }
        let bytes = if is_begun { walk.at().place.offset.into() } else { 0 };
        let sure = if is_begun { u64::from(walk.sure()).min(bytes) } else { 0 };
        Ok(End { bytes, sure, torn: Some(why) })
    }

    /// Gives its records up to `upto`, where a batch ends.
    fn give(
        &self,
        walk: &mut BatchWalk,
        upto: u64,
        found: &mut OpenedLog,
        each: Each<'_>,
    ) -> Result<(), OpenError> {
        let number = self.number;
        let mut give = |stop: &Stop<'_>| {
            if stop.kind.is_own() {
                return Ok(());
            }
            found.records += 1;
            each(Place { segment: number, offset: stop.offset as u32 }, stop.kind, stop.payload)
        };
        match self.follow(walk, upto, &mut give) {
            Ok(()) => {}
            Err(Break::Torn(offset, why)) => return Err(self.corrupt(offset, why)),
            Err(Break::Error(error)) => return Err(error),
        }
        found.bytes_read += upto - self.from;
        found.segments_read += 1;
        Ok(())
    }

    /// Follows its records up to `upto`.
    fn follow(
        &self,
        walk: &mut BatchWalk,
        upto: u64,
        each: &mut dyn FnMut(&Stop<'_>) -> Result<(), &'static str>,
    ) -> Result<(), Break> {
        let stuck = |stuck| match stuck {
            Stuck::Bad { offset, why } => Break::Torn(offset, why),
            Stuck::Io(error) => Break::Error(OpenError::at(&self.path, error)),
        };
        let corrupt = |offset, why| Break::Error(self.corrupt(offset, why));
        let mut scan = RecordScan::new(self.source, 0, upto);
        let head = match scan.next().map_err(stuck)? {
            None => return Err(Break::Torn(0, "the file is empty")),
            Some(stop) => SegmentHead::read(stop.kind, stop.payload, self.number)
                .map_err(|why| corrupt(0, why))?,
        };
        is_of(&head, self.whose, &self.path).map_err(Break::Error)?;
        if self.from < SEGMENT_BYTES as u64 {
            walk.segment(&head).map_err(|why| corrupt(0, why))?;
        } else {
            let Position { epoch, index, .. } = walk.at();
            if head.epoch > epoch || head.index > index + 1 {
                return Err(corrupt(0, "the segment begins behind the checkpoint"));
            }
            scan = RecordScan::new(self.source, self.from, upto);
        }
        loop {
            match scan.next() {
                Ok(Some(stop)) => {
                    let followed = walk.record(&stop).and_then(|()| each(&stop));
                    followed.map_err(|why| corrupt(stop.offset, why))?;
                }
                Ok(None) if walk.is_between() => return Ok(()),
                Ok(None) => return Err(Break::Torn(upto, "the file ends inside a batch")),
                Err(bad) => return Err(stuck(bad)),
            }
        }
    }

    fn corrupt(&self, offset: u64, why: &'static str) -> OpenError {
        OpenError::Corrupt { path: self.path.clone(), offset, why }
    }
}

/// Whether there are zeros alone from the first place up to the second.
pub(crate) fn is_blank(source: &dyn ReadFile, (from, length): (u64, u64)) -> io::Result<bool> {
    let mut at = from;
    while at < length {
        let mut bytes = vec![0; (length - at).min(PIECE_BYTES) as usize];
        source.read_at(at, &mut bytes)?;
        if bytes.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        at += bytes.len() as u64;
    }
    Ok(true)
}

/// Whether a batch between `from` and `length` says that the record with the index `least` was on
/// stable storage.
pub(crate) fn vouches(
    source: &dyn ReadFile,
    number: u32,
    (from, length): (u64, u64),
    least: u64,
) -> io::Result<bool> {
    let mut at = from;
    while at < length {
        // Pieces overlap by a batch's first record less one byte.
        let count = (length - at).min(PIECE_BYTES + BATCH_HEAD_BYTES as u64 - 1);
        let mut bytes = vec![0; count as usize];
        source.read_at(at, &mut bytes)?;
        if batch::vouches(number, at, &bytes, least) {
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
