//! Looking at what a start does not read: the records before its checkpoint.
//!
//! Messages that wait stand there for as long as nobody takes them, and what the disk has done to
//! them meanwhile would be found only by who asks for them. The newest segments are read first, so
//! many bytes of them, with every checksum looked at; of a record that is not as it was written,
//! state says which entries named it. It mends nothing. Invariant: an entry is called lost only
//! after its own message was read and found to be damaged.

use super::body::message_at;
use crate::LostMessage;
use crate::engine::Engine;
use crate::engine::index::senseless;
use crate::engine::record::run;
use crate::engine::record::stored::Stored;
use crate::engine::state::{Keep, StateError};
use crate::log::record_scan::{RecordScan, Stuck, next_record};
use crate::log::{Place, ReadError, segment_path};
use model::ports::files::ReadFile;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Damages of one segment that are looked for; behind so many nobody reads on.
const DAMAGES_MAX: usize = 100;

/// Lost messages that are named; more are counted.
pub const LOST_NAMED_MAX: usize = 100;

/// Result of an inspection.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Inspection {
    /// Bytes that were read.
    pub bytes: u64,
    /// Bytes of older segments that were not.
    pub bytes_left: u64,
    /// Records that are not as they were written.
    pub damages: Vec<DamagedRecord>,
    /// Messages that stood in them and wait for somebody, in the order of their timelines.
    pub lost: Vec<LostMessage>,
    /// How many they are, those included that are not named.
    pub lost_count: u64,
}

/// A record that is not as it was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DamagedRecord {
    /// Its segment.
    pub file: PathBuf,
    /// Bytes before it.
    pub offset: u64,
    /// The fault there.
    pub why: String,
}

/// Bytes of segments that are damaged, from one place up to another.
type Spans = BTreeMap<u32, Vec<(u64, u64)>>;

impl Engine {
    /// Reads the log before `upto`, behind which the start has read it: about so many bytes.
    pub(crate) fn inspect(
        &self,
        folder: &Path,
        (upto, bytes_max): (Place, u64),
    ) -> Result<Inspection, StateError> {
        let (mut inspection, mut spans) = (Inspection::default(), Spans::new());
        let segments: Vec<_> = self.log.segments().filter(|(it, _)| *it <= upto.segment).collect();
        for (segment, bytes) in segments.into_iter().rev() {
            let end = if segment == upto.segment { upto.offset.into() } else { bytes };
            let left = bytes_max.saturating_sub(inspection.bytes);
            if left == 0 || end == 0 {
                inspection.bytes_left += end;
                continue;
            }
            let path = segment_path(folder, segment);
            let source =
                self.reader.source(segment).map_err(|error| io::Error::other(error.to_string()));
            let bad = source.and_then(|source| bad_records(&*source, end, left));
            let (read, bad) = bad.unwrap_or_else(|error| (end, vec![(0, end, error.to_string())]));
            inspection.bytes += read;
            inspection.bytes_left += end.saturating_sub(read);
            for (offset, next, why) in bad {
                spans.entry(segment).or_default().push((offset, next));
                inspection.damages.push(DamagedRecord { file: path.clone(), offset, why });
            }
        }
        if !spans.is_empty() {
            self.look_for_lost(&spans, &mut inspection)?;
        }
        Ok(inspection)
    }

    /// Which entries name messages in these spans that cannot be read.
    fn look_for_lost(&self, spans: &Spans, inspection: &mut Inspection) -> Result<(), StateError> {
        let (mut sense, mut read) = (true, BTreeMap::new());
        let is_in = |place: Place| {
            let spans = spans.get(&place.segment);
            let at = u64::from(place.offset);
            spans.is_some_and(|all| all.iter().any(|(from, to)| (*from..*to).contains(&at)))
        };
        let mut is_lost = |stored: &Stored| {
            let damaged =
                || !matches!(message_at(&self.reader, stored), Ok(_) | Err(ReadError::Gone));
            is_in(stored.place) && *read.entry(stored.place).or_insert_with(damaged)
        };
        self.index.state.range(Keep::Runs, (&[], &[u8::MAX; 25]), false, &mut |key, value| {
            let run = run::read_key(key);
            let run = run.and_then(|(timeline, at)| Some((timeline, run::read(at, value)?)));
            let Some((timeline, entries)) = run else {
                sense = false;
                return false;
            };
            for entry in entries.iter().filter(|entry| is_lost(&entry.stored)) {
                inspection.lost_count += 1;
                if inspection.lost.len() < LOST_NAMED_MAX {
                    let (seq, id, label) = (entry.seq, entry.stored.id, entry.stored.label.clone());
                    inspection.lost.push(LostMessage { timeline, seq, id, label });
                }
            }
            true
        })?;
        if sense { Ok(()) } else { Err(senseless()) }
    }
}

/// Range of a file that is not as it was written, and why.
type BadRecord = (u64, u64, String);

/// Records of a file up to `end` that are not as they were written: from where up to where, and
/// why. At most about so many bytes are read; how many.
fn bad_records(
    source: &dyn ReadFile,
    end: u64,
    bytes_max: u64,
) -> io::Result<(u64, Vec<BadRecord>)> {
    let (mut at, mut bad) = (0, Vec::new());
    while at < end && bad.len() < DAMAGES_MAX {
        let mut scan = RecordScan::new(source, at, end);
        let stuck = loop {
            if scan.at() >= bytes_max {
                return Ok((scan.at(), bad));
            }
            match scan.next() {
                Ok(Some(_)) => {}
                Ok(None) => return Ok((end, bad)),
                Err(stuck) => break stuck,
            }
        };
        let (offset, why) = match stuck {
            Stuck::Bad { offset, why } => (offset, why),
            Stuck::Io(error) => return Err(error),
        };
        // Where its length cannot be believed, each message behind it is looked at by itself.
        let next = next_record(source, offset, end)?.unwrap_or(end);
        bad.push((offset, next, why.to_owned()));
        at = next;
    }
    Ok((at, bad))
}
