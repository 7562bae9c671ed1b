//! Salvage: the undamaged content of a damaged folder, in a new one.
//!
//! The folder is read as it is: derived state, if it can be read, and the records behind its
//! checkpoint; else all records there are. Nothing in it is mended, and no order is asked for:
//! segments that are missing, chains that are broken and records that are damaged cost what they
//! said, and nothing else. Invariant: content that was found and is not in the new folder is
//! reported, with its file and byte.

use super::Means;
use super::check::Damage;
use super::split::Part;
use super::text::Sums;
use crate::OpenError;
use crate::data::alive::{Alive, Take};
use crate::data::folder::{Format, Layout, log_folder};
use crate::data::{Place as Folder, Secrets};
use crate::engine::rosters;
use crate::engine::wreck::{Remains, Wreck};
use crate::log::batch::{BATCH_HEAD_BYTES, BatchHead};
use crate::log::record::{self, RecordKind, SegmentHead};
use crate::log::record_scan::{RecordScan, Stop, Stuck, next_record};
use crate::log::{LogIdentity, Place, ReadError, Reader, recovery, segment_path};
use model::ports::files::{FileSystem, ReadFile};
use model::ports::log::Table;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Damages that are reported; more are only counted.
const TOLD_MAX: usize = 1_000;

/// Bytes in which the next batch is looked for at once.
const PIECE_BYTES: u64 = 1 << 20;

/// Result of a salvage.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Salvaged {
    /// Sums of the new folder's content.
    pub sums: Sums,
    /// Damages of the old folder, the first thousand.
    pub damages: Vec<Damage>,
    /// Number of all damages.
    pub count: u64,
    /// Messages that were to be there and cannot be read.
    pub lost: u64,
    /// Logs whose derived state cannot be read: what had left them may be there again.
    pub from_records: Vec<u16>,
}

impl Salvaged {
    /// Whether nothing is missing.
    pub fn is_whole(&self) -> bool {
        self.count == 0
    }

    fn tell(&mut self, file: &Path, offset: u64, why: impl Into<String>) {
        self.count += 1;
        if self.damages.len() < TOLD_MAX {
            self.damages.push(Damage { file: file.into(), offset, why: why.into() });
        }
    }
}

/// Makes a new folder of what is whole of one that is not in use. `node`: random bytes for its own
/// secret.
pub fn salvage(
    path: &Path,
    (to, node): (&Path, [u8; 32]),
    (means, now_s): (&Means, u32),
) -> Result<Salvaged, OpenError> {
    let (files, states) = (Arc::clone(&means.files), Arc::clone(&means.states));
    let taken = Folder::take(path, Secrets::of([0; 64]), files, states)?;
    let (place, Format::Made(Layout { logs, .. })) = taken else {
        let path = path.join("FORMAT");
        return Err(OpenError::UnknownFormat { path, found: "".into() });
    };
    let mut salvaged = Salvaged::default();
    let whole = (to, place.slots);
    let mut part = Part::begin(whole, (place.secrets.cluster, node), logs, (means, now_s))?;
    for number in 0..logs {
        let folder = log_folder(&place.path, number, "");
        let whose = place.whose(number);
        let mut of_log = LogWreck { files: &place.files, folder, whose, salvaged: &mut salvaged };
        let (wreck, from) = of_log.state(&place);
        let (wreck, is_sure) = of_log.records(wreck, from);
        of_log.give(wreck, &mut |alive| part.take(number, alive))?;
        part.pause()?;
        if !is_sure {
            salvaged.from_records.push(number);
        }
    }
    salvaged.sums = part.end(logs)?;
    Ok(salvaged)
}

/// One damaged log.
struct LogWreck<'a> {
    files: &'a Arc<dyn FileSystem>,
    folder: PathBuf,
    whose: LogIdentity,
    salvaged: &'a mut Salvaged,
}

impl LogWreck<'_> {
    /// Content of state, and the place from which on records add to it.
    fn state(&mut self, place: &Folder) -> (Wreck, Option<Place>) {
        let path = self.folder.join("state");
        if self.files.names(&self.folder).is_err() {
            return (Wreck::default(), None); // it is told with the segments
        }
        match (place.states)(&path, 1 << 20) {
            Ok(state) => Wreck::of_state(&*state, &mut |why| self.salvaged.tell(&path, 0, why)),
            Err(error) => {
                self.salvaged.tell(&path, 0, error.to_string());
                (Wreck::default(), None)
            }
        }
    }

    /// Adds what records say; whether nothing that had left can be there again.
    fn records(&mut self, mut wreck: Wreck, from: Option<Place>) -> (Wreck, bool) {
        let segments = match recovery::list(&**self.files, &self.folder) {
            Ok(segments) => segments,
            Err(error) => {
                self.salvaged.tell(&self.folder, 0, error.to_string());
                return (wreck, from.is_some());
            }
        };
        if segments.is_empty() {
            self.salvaged.tell(&self.folder, 0, "the log has no segment");
        }
        let begin = from.unwrap_or(Place { segment: 1, offset: 0 });
        let mut next = begin.segment.max(1);
        for (&number, &length) in segments.range(next..) {
            let missing = next..number;
            if !missing.is_empty() && (from.is_some() || next > 1) {
                let why = format!("{} segments from here on are missing", missing.len());
                self.salvaged.tell(&segment_path(&self.folder, next), 0, why);
            }
            let at = if number == begin.segment { begin.offset.into() } else { 0 };
            let is_last = segments.last_key_value().is_some_and(|(last, _)| *last == number);
            self.segment((number, length, is_last), at, &mut wreck);
            next = number + 1;
        }
        if from.is_some() && next == begin.segment.max(1) && begin != Place::default() {
            self.salvaged.tell(&segment_path(&self.folder, next), 0, "the segment is missing");
        }
        let is_all = segments.keys().copied().eq(1..=segments.len() as u32);
        (wreck, from.is_some() || is_all)
    }

    /// Adds the records of a segment from a byte on.
    fn segment(&mut self, (number, length, is_last): (u32, u64, bool), at: u64, wreck: &mut Wreck) {
        let path = segment_path(&self.folder, number);
        if let Err(error) = self.walk((number, length, is_last), at, (&path, wreck)) {
            self.salvaged.tell(&path, 0, error.to_string());
        }
    }

    fn walk(
        &mut self,
        (number, length, is_last): (u32, u64, bool),
        mut at: u64,
        (path, wreck): (&Path, &mut Wreck),
    ) -> io::Result<()> {
        let source = self.files.source(path)?;
        let source = &*source;
        while at < length {
            let mut scan = RecordScan::new(source, at, length);
            let (offset, why) = loop {
                match scan.next() {
                    Ok(Some(stop)) => {
                        if let Err(why) = self.record(number, &stop, wreck) {
                            self.salvaged.tell(path, stop.offset, why);
                            if stop.offset == 0 {
                                return Ok(()); // it is another's
                            }
                        }
                    }
                    Ok(None) => return Ok(()),
                    Err(Stuck::Bad { offset, why }) => break (offset, why),
                    Err(Stuck::Io(error)) => return Err(error),
                }
            };
            if is_last && recovery::is_blank(source, (offset, length))? {
                break; // the file of the last segment is longer than what is in it
            }
            self.salvaged.tell(path, offset, why);
            let next = next_record(source, offset, length)?;
            let next = next.map_or_else(
                || next_batch(source, number, offset + 1, length),
                |at| Ok(Some(at)),
            )?;
            let Some(next) = next else { break };
            at = next;
        }
        Ok(())
    }

    fn record(&self, segment: u32, stop: &Stop<'_>, wreck: &mut Wreck) -> Result<(), &'static str> {
        if stop.kind == RecordKind::Segment {
            let head = SegmentHead::read(stop.kind, stop.payload, segment)?;
            let is_own = head.whose == self.whose;
            return if is_own { Ok(()) } else { Err("the segment is of another log") };
        }
        let place = Place { segment, offset: stop.offset as u32 };
        match wreck.record((place, stop.length), stop.kind, stop.payload) {
            true => Ok(()),
            false => Err("invalid record"),
        }
    }

    /// Gives everything that can be read, in the order of [`crate::data::alive::Rest::each`].
    fn give(&mut self, mut wreck: Wreck, take: Take<'_>) -> Result<(), OpenError> {
        let end = Place { segment: u32::MAX, offset: u32::MAX };
        let reader = Reader::new(Arc::clone(self.files), self.folder.clone(), end);
        for (key, value) in std::mem::take(&mut wreck.rows) {
            match key.first().and_then(|table| Table::from_byte(*table)) {
                Some(Table::Rosters) if rosters::read(&value).is_none() => {
                    self.salvaged.tell(&self.folder, 0, "invalid row of a roster");
                }
                Some(table) => take(Alive::Row { table, key: key[1..].into(), value })?,
                None => self.salvaged.tell(&self.folder, 0, "a row is of no table"),
            }
        }
        for (timeline, remains) in std::mem::take(&mut wreck.timelines) {
            let Remains { last, entries, cursors, .. } = remains;
            take(Alive::Timeline { timeline, last })?;
            for (seq, stored) in entries {
                match Remains::message(&reader, &stored) {
                    Ok(message) => {
                        let message = Arc::new(message);
                        take(Alive::Entry { timeline, seq, message })?;
                    }
                    Err(error) => {
                        let file = segment_path(&self.folder, stored.place.segment);
                        let why = match error {
                            ReadError::Gone => "its segment is missing".to_owned(),
                            ReadError::Damaged { why, .. } => why.to_owned(),
                            ReadError::Io(error) => error.to_string(),
                        };
                        let why = format!("the message at {seq} of {timeline:?} is lost: {why}");
                        self.salvaged.lost += 1;
                        self.salvaged.tell(&file, stored.place.offset.into(), why);
                    }
                }
            }
            for (reader, upto) in cursors {
                take(Alive::Cursor { timeline, reader, upto })?;
            }
        }
        wreck.remembered().into_iter().try_for_each(|remembered| take(Alive::Once(remembered)))
    }
}

/// Where the next batch begins, of those whose first record says that it stands there.
fn next_batch(
    source: &dyn ReadFile,
    segment: u32,
    from: u64,
    length: u64,
) -> io::Result<Option<u64>> {
    let mut at = from;
    while at < length {
        // Pieces overlap by a batch's first record less one byte.
        let count = (length - at).min(PIECE_BYTES + BATCH_HEAD_BYTES as u64 - 1);
        let mut bytes = vec![0; count as usize];
        source.read_at(at, &mut bytes)?;
        let begins = |(n, window): (usize, &[u8])| {
            let offset = at + n as u64;
            let length = window.first_chunk().map(record::length)?.ok()?;
            let (kind, payload) = record::read(window.get(..length)?).ok()?;
            let place = BatchHead::read(payload).filter(|_| kind == RecordKind::Batch)?.place;
            let is_here = (place.segment, u64::from(place.offset)) == (segment, offset);
            is_here.then_some(offset)
        };
        if let Some(offset) = bytes.windows(BATCH_HEAD_BYTES).enumerate().find_map(begins) {
            return Ok(Some(offset));
        }
        at += PIECE_BYTES;
    }
    Ok(None)
}
