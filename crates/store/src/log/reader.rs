//! Reading records back, on any thread, while the log goes on writing.
//!
//! Few segments are kept open; the others are opened when they are asked for. A segment that was
//! removed is gone: what is alive of it stands elsewhere, and whoever reads asks where. It knows no
//! payload. Invariant: what is returned has had its checksum looked at, and never is part of a
//! batch that is still being written.

use crate::LostHook;
use crate::log::record::{self, HEAD_BYTES, RecordKind};
use crate::log::record_scan::{RecordScan, Stuck};
use crate::log::{Place, segment_path};
use model::ports::files::{FileSystem, ReadFile};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Segments of a log that are kept open for reading. The one that was asked for the longest ago is
/// closed first.
const OPEN_MAX: usize = 32;

/// Reason why a record cannot be read.
#[derive(Debug)]
pub enum ReadError {
    /// Its segment is not there: what stood in it was removed, or stands elsewhere now.
    Gone,
    /// The data differs from what was written.
    Damaged {
        /// Place of the record.
        place: Place,
        /// The fault.
        why: &'static str,
    },
    /// The system's words.
    Io(io::Error),
}

/// Receiver of a record: its place, its length with its head, and its content.
pub(crate) type Scanned<'a> = &'a mut dyn FnMut(Place, u32, RecordKind, &[u8]);

/// Reads records of one log. Clones share what is open.
#[derive(Clone)]
pub(crate) struct Reader(Arc<Shared>);

struct Shared {
    files: Arc<dyn FileSystem>,
    folder: PathBuf,
    open: Mutex<Open>,
    on_lost: OnceLock<LostHook>,
}

struct Open {
    /// The latest asked for last.
    kept: VecDeque<(u32, Arc<dyn ReadFile>)>,
    /// The end of what has been written.
    end: Place,
}

impl Reader {
    pub(crate) fn new(files: Arc<dyn FileSystem>, folder: PathBuf, end: Place) -> Reader {
        let open = Mutex::new(Open { kept: VecDeque::new(), end });
        Reader(Arc::new(Shared { files, folder, open, on_lost: OnceLock::new() }))
    }

    /// The record at `place`, which is `length` bytes long with its head.
    pub(crate) fn read(
        &self,
        place: Place,
        length: u32,
    ) -> Result<(RecordKind, Vec<u8>), ReadError> {
        read(&*self.source(place.segment)?, place, length)
    }

    /// Records from `from` on, up to about `bytes_max` bytes of them and at least one, but not the
    /// log's own. Where to go on; `None` at the end of the segment, or of what has been written.
    pub(crate) fn scan(
        &self,
        from: Place,
        bytes_max: usize,
        each: Scanned<'_>,
    ) -> Result<Option<Place>, ReadError> {
        let source = self.source(from.segment)?;
        let end = self.0.lock().end;
        let end = match from.segment == end.segment {
            true => end.offset.into(),
            false => source.length().map_err(ReadError::Io)?,
        };
        let mut scan = RecordScan::new(&*source, from.offset.into(), end);
        while scan.at() < end {
            let stop = scan.next().map_err(|stuck| ReadError::of(from.segment, stuck))?;
            let stop = stop.expect("the walk is not at its end");
            let place = Place { segment: from.segment, offset: stop.offset as u32 };
            if !stop.kind.is_own() {
                each(place, stop.length, stop.kind, stop.payload);
            }
            if scan.at() - u64::from(from.offset) >= bytes_max as u64 && scan.at() < end {
                return Ok(Some(Place { segment: from.segment, offset: scan.at() as u32 }));
            }
        }
        Ok(None)
    }

    /// Receiver of messages that are found to be lost, from now on.
    pub(crate) fn tell_lost(&self, hook: LostHook) {
        let _ = self.0.on_lost.set(hook); // once, at the start
    }

    /// Receiver of messages that are found to be lost.
    pub(crate) fn on_lost(&self) -> Option<&LostHook> {
        self.0.on_lost.get()
    }

    /// So far has been written.
    pub(crate) fn written(&self, end: Place) {
        self.0.lock().end = end;
    }

    /// The end of what has been written.
    pub(crate) fn end(&self) -> Place {
        self.0.lock().end
    }

    /// This segment has been removed.
    pub(crate) fn forget(&self, segment: u32) {
        self.0.lock().kept.retain(|(number, _)| *number != segment);
    }

    /// The file of a segment.
    pub(crate) fn source(&self, segment: u32) -> Result<Arc<dyn ReadFile>, ReadError> {
        let mut open = self.0.lock();
        if let Some(at) = open.kept.iter().position(|(number, _)| *number == segment) {
            let kept = open.kept.remove(at).expect("its position was found");
            open.kept.push_back(kept.clone());
            return Ok(kept.1);
        }
        let source = match self.0.files.source(&segment_path(&self.0.folder, segment)) {
            Ok(source) => source,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(ReadError::Gone),
            Err(error) => return Err(ReadError::Io(error)),
        };
        if open.kept.len() == OPEN_MAX {
            open.kept.pop_front();
        }
        open.kept.push_back((segment, Arc::clone(&source)));
        Ok(source)
    }
}

impl Shared {
    /// Locks the open files. Nothing panics while it holds the lock, so a poisoned one is as good
    /// as another.
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReadError {
    fn of(segment: u32, stuck: Stuck) -> ReadError {
        match stuck {
            Stuck::Bad { offset, why } => {
                ReadError::Damaged { place: Place { segment, offset: offset as u32 }, why }
            }
            Stuck::Io(error) => ReadError::Io(error),
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Gone => f.write_str("the segment is missing"),
            ReadError::Damaged { place: Place { segment, offset }, why } => {
                write!(f, "{segment:010}.log is damaged at byte {offset}: {why}")
            }
            ReadError::Io(error) => error.fmt(f),
        }
    }
}

fn read(
    source: &dyn ReadFile,
    place: Place,
    length: u32,
) -> Result<(RecordKind, Vec<u8>), ReadError> {
    let damaged = |why| ReadError::Damaged { place, why };
    if !(HEAD_BYTES..=record::RECORD_BYTES_MAX).contains(&(length as usize)) {
        return Err(damaged("invalid record length"));
    }
    let mut bytes = vec![0; length as usize];
    match source.read_at(place.offset.into(), &mut bytes) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Err(damaged("the file ends inside a record"));
        }
        Err(error) => return Err(ReadError::Io(error)),
    }
    let (kind, _) = record::read(&bytes).map_err(damaged)?;
    bytes.drain(..HEAD_BYTES);
    Ok((kind, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::files::FaultyFiles;

    #[test]
    fn so_many_segments_are_kept_open_and_the_longest_unread_makes_room() {
        let folder = PathBuf::from("/log");
        let files = FaultyFiles::new(1);
        files.make_folder(&folder).expect("no fault");
        let last = OPEN_MAX as u32;
        for segment in 0..=last {
            drop(files.open(&segment_path(&folder, segment)).expect("no fault"));
        }
        let end = Place { segment: last, offset: 0 };
        let reader = Reader::new(Arc::new(files), folder, end);
        let kept =
            || -> Vec<u32> { reader.0.lock().kept.iter().map(|(number, _)| *number).collect() };
        (0..last).for_each(|segment| drop(reader.source(segment).expect("there")));
        assert_eq!(kept().len(), OPEN_MAX);
        reader.source(0).expect("it is still open");
        assert_eq!((kept().len(), kept()[0]), (OPEN_MAX, 1));
        reader.source(last).expect("there");
        assert_eq!((kept().len(), kept()[0]), (OPEN_MAX, 2), "1 made room");
        reader.forget(5);
        assert!(kept().len() == OPEN_MAX - 1 && !kept().contains(&5));
        assert!(matches!(reader.source(last + 1), Err(ReadError::Gone)));
    }

    #[test]
    fn errors_say_where() {
        assert_eq!(ReadError::Gone.to_string(), "the segment is missing");
        let place = Place { segment: 7, offset: 9 };
        let damaged = ReadError::of(7, Stuck::Bad { offset: 9, why: "torn" });
        assert_eq!(damaged.to_string(), "0000000007.log is damaged at byte 9: torn");
        assert!(matches!(damaged, ReadError::Damaged { place: there, .. } if there == place));
        let io = ReadError::of(7, Stuck::Io(io::Error::other("broken")));
        assert_eq!(io.to_string(), "broken");
    }
}
