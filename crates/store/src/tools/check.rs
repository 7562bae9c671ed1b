//! Check of a data folder: every record of every segment, and everything that is alive.
//!
//! First all segments are read as they are, and nothing is changed. Only if their records are whole
//! the logs are opened, as a start does, and everything alive is read. It mends nothing. Invariant:
//! each damage is told with its file and byte, and one does not hide another of another record.

use super::{Means, settings, take};
use crate::OpenError;
use crate::data::Place;
use crate::data::alive::{Rest, state_failed};
use crate::data::folder::log_folder;
use crate::data::opened::settle;
use crate::engine::Engine;
use crate::log::record_scan::{RecordScan, Stuck};
use crate::log::{durable_mark, record, recovery, segment_path};
use model::ports::files::FileSystem;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Damages of one segment that are told; behind so many nobody reads on.
const DAMAGES_MAX: usize = 100;

/// Damage: a place that is not as it was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    /// The file or folder.
    pub file: PathBuf,
    /// Bytes before the place.
    pub offset: u64,
    /// What is wrong there.
    pub why: String,
}

/// Result of a check.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Checked {
    /// Logs.
    pub logs: u16,
    /// Segments, all of them read.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Whole records.
    pub records: u64,
    /// Rows.
    pub rows: u64,
    /// Timelines.
    pub timelines: u64,
    /// Messages in them, all of them read.
    pub entries: u64,
    /// Cursors.
    pub cursors: u64,
    /// Ends of logs that a crash left torn, and that the next start cuts off: no damage.
    pub torn: Vec<Damage>,
    /// What is wrong.
    pub damages: Vec<Damage>,
}

impl Checked {
    /// The verdict.
    pub fn is_sound(&self) -> bool {
        self.damages.is_empty()
    }
}

/// Checks a folder that is not in use.
pub fn check(path: &Path, means: &Means, now_s: u32) -> Result<Checked, OpenError> {
    let (place, logs) = take(path, means)?;
    let mut checked = Checked { logs, ..Checked::default() };
    for number in 0..logs {
        records(&place, number, &mut checked)?;
    }
    if checked.is_sound() {
        for number in 0..logs {
            alive(&place, (number, logs), now_s, &mut checked)?;
        }
    }
    Ok(checked)
}

/// Reads every record of a log.
fn records(place: &Place, number: u16, checked: &mut Checked) -> Result<(), OpenError> {
    let folder = log_folder(&place.path, number, "");
    let segments = recovery::list(&*place.files, &folder)?;
    let last = segments.last_key_value().map(|(number, _)| *number);
    let (mut end, damages) = ((0, 0), checked.damages.len());
    for (&segment, &length) in &segments {
        let path = segment_path(&folder, segment);
        checked.segments += 1;
        checked.bytes += length;
        let read = walk(&*place.files, &path, segment, length, checked);
        let bad = read.map_err(|error| OpenError::at(&path, error))?;
        end = (segment, bad.first().map_or(length, |bad| bad.offset));
        match bad.first() {
            Some(first) if Some(segment) == last && is_torn(place, &path, segment, first)? => {
                checked.torn.push(first.clone());
            }
            _ => checked.damages.extend(bad),
        }
    }
    // Where a damage is told besides, the end is not the matter.
    if let Some(promised) = durable_mark::read(&*place.files, &folder)
        && (promised.segment, u64::from(promised.offset)) > end
        && checked.damages.len() == damages
    {
        let why = format!(
            "the log ends here, and answers had been given up to byte {} of segment {}",
            promised.offset, promised.segment
        );
        let file = segment_path(&folder, end.0.max(1));
        checked.damages.push(Damage { file, offset: end.1, why });
    }
    Ok(())
}

/// The damages of a segment. Behind one it goes on where a record's length says that the next one
/// is, if one is there.
fn walk(
    files: &dyn FileSystem,
    path: &Path,
    number: u32,
    length: u64,
    checked: &mut Checked,
) -> io::Result<Vec<Damage>> {
    let source = files.source(path)?;
    let mut bad = Vec::new();
    let tell = |offset, why: &str| Damage { file: path.into(), offset, why: why.into() };
    if length == 0 {
        return Ok(vec![tell(0, "the file is empty")]);
    }
    let mut at = 0;
    while at < length && bad.len() < DAMAGES_MAX {
        let mut walk = RecordScan::new(&*source, at, length);
        let stuck = loop {
            match walk.next() {
                Ok(Some(stop)) if stop.offset == 0 => {
                    checked.records += 1;
                    if let Err(why) = record::read_segment(stop.kind, stop.payload, number) {
                        bad.push(tell(0, why));
                    }
                }
                Ok(Some(_)) => checked.records += 1,
                Ok(None) => return Ok(bad),
                Err(stuck) => break stuck,
            }
        };
        let (offset, why) = match stuck {
            Stuck::Bad { offset, why } => (offset, why),
            Stuck::Io(error) => return Err(error),
        };
        bad.push(tell(offset, why));
        match next_record(&*source, offset, length)? {
            Some(next) => at = next,
            None => break,
        }
    }
    Ok(bad)
}

/// Where the record behind a bad one stands, if its length can be believed.
fn next_record(
    source: &dyn model::ports::files::ReadFile,
    offset: u64,
    length: u64,
) -> io::Result<Option<u64>> {
    let mut head = [0; record::HEAD_BYTES];
    if offset + head.len() as u64 > length {
        return Ok(None);
    }
    source.read_at(offset, &mut head)?;
    let Ok(whole) = record::length(&head) else { return Ok(None) };
    let next = offset + whole as u64;
    let is_there = next < length && RecordScan::new(source, next, length).next().is_ok();
    Ok(is_there.then_some(next))
}

fn is_torn(place: &Place, path: &Path, number: u32, bad: &Damage) -> Result<bool, OpenError> {
    let failed = |error| OpenError::at(path, error);
    let source = place.files.source(path).map_err(failed)?;
    let length = source.length().map_err(failed)?;
    let marked = recovery::has_mark(&*source, number, bad.offset, length).map_err(failed)?;
    Ok(!marked)
}

/// Reads everything alive of a log.
fn alive(
    place: &Place,
    (number, logs): (u16, u16),
    now_s: u32,
    checked: &mut Checked,
) -> Result<(), OpenError> {
    let folder = log_folder(&place.path, number, "");
    match alive_in(place, &folder, logs, now_s, checked) {
        Err(OpenError::Corrupt { path, offset, why }) => {
            checked.damages.push(Damage { file: path, offset, why: why.into() });
            Ok(())
        }
        // Derived state that cannot be read is damage too, whatever its engine says of it.
        Err(OpenError::Failed { path, error }) => {
            let why = error.to_string();
            checked.damages.push(Damage { file: path, offset: 0, why });
            Ok(())
        }
        done => done,
    }
}

fn alive_in(
    place: &Place,
    folder: &Path,
    logs: u16,
    now_s: u32,
    checked: &mut Checked,
) -> Result<(), OpenError> {
    let settings = settings(place.secrets, logs);
    let state = (place.states)(&folder.join("state"), 1 << 20)?;
    let files = Arc::clone(&place.files);
    let (mut engine, _) = Engine::open(files, folder, settings.engine(logs), Arc::clone(&state))?;
    settle(place, &mut engine, now_s)?;
    let verified = engine.verify(true).map_err(|error| state_failed(folder, error))?;
    checked.timelines += verified.timelines;
    checked.entries += verified.entries;
    let file = || folder.to_path_buf();
    let told = verified.told.into_iter().map(|why| Damage { file: file(), offset: 0, why });
    checked.damages.extend(told);
    let mut rest = Rest { folder, engine: &mut engine, state: &*state };
    rest.rows(&mut |_, _, _| {
        checked.rows += 1;
        Ok(())
    })?;
    rest.timelines(&mut |rest, timeline| {
        rest.cursors(timeline, &mut |_, _| {
            checked.cursors += 1;
            Ok(())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::RecordKind;
    use testkit::files::FaultyFiles;

    /// What a walk tells of a segment with so many damaged records, a good one behind each.
    fn told(bad: usize) -> (usize, u64) {
        let mut bytes = Vec::new();
        record::write_segment(1, &mut bytes);
        for _ in 0..bad {
            let payload = bytes.len() + record::HEAD_BYTES;
            record::write(RecordKind::Put, &mut bytes, |out| out.push(7));
            bytes[payload] ^= 1;
            record::write(RecordKind::Put, &mut bytes, |out| out.push(8));
        }
        let (files, path) = (FaultyFiles::new(1), Path::new("/segment"));
        files.open(path).and_then(|mut file| file.write_at(0, &bytes)).expect("no fault");
        let mut checked = Checked::default();
        let damages = walk(&files, path, 1, bytes.len() as u64, &mut checked).expect("readable");
        (damages.len(), checked.records)
    }

    #[test]
    fn damages_are_told_up_to_so_many() {
        assert_eq!(told(0), (0, 1));
        assert_eq!(told(3), (3, 4));
        assert_eq!(told(DAMAGES_MAX - 1), (DAMAGES_MAX - 1, DAMAGES_MAX as u64));
        let all = (DAMAGES_MAX, DAMAGES_MAX as u64);
        assert_eq!([DAMAGES_MAX, DAMAGES_MAX + 1, 3 * DAMAGES_MAX].map(told), [all; 3]);
    }

    #[test]
    fn a_file_without_a_byte_is_damage() {
        let (files, path) = (FaultyFiles::new(1), Path::new("/segment"));
        let mut checked = Checked::default();
        let damages = walk(&files, path, 1, 0, &mut checked);
        assert!(damages.is_err(), "there is no such file");
        drop(files.open(path).expect("no fault"));
        let damages = walk(&files, path, 1, 0, &mut checked).expect("readable");
        assert_eq!((damages[0].offset, &*damages[0].why), (0, "the file is empty"));
        checked.damages = damages;
        assert!(!checked.is_sound() && Checked::default().is_sound());
    }
}
