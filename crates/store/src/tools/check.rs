//! Check of a data folder: every record of every segment, and everything that is alive.
//!
//! First all segments are read as they are, and nothing is changed. Only if their records are whole
//! the logs are opened, as a start does, and everything alive is read. It mends nothing. Invariant:
//! each damage is reported with its file and byte, and one does not hide another of another record.

use super::{Means, settings, take};
use crate::OpenError;
use crate::data::Place;
use crate::data::alive::{Rest, state_failed};
use crate::data::folder::log_folder;
use crate::data::opened::settle;
use crate::engine::Engine;
use crate::log::batch::BatchWalk;
use crate::log::record::SegmentHead;
use crate::log::record_scan::{RecordScan, Stop, Stuck, next_record};
use crate::log::{LogIdentity, Position, durable_mark, recovery, segment_path};
use model::ports::files::ReadFile;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Damages of one segment that are reported; behind so many nobody reads on.
const DAMAGES_MAX: usize = 100;

/// Damage: a place that is not as it was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    /// The file or folder.
    pub file: PathBuf,
    /// Bytes before the place.
    pub offset: u64,
    /// Kind of the damage.
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
    /// The damages.
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
    let (whose, damages) = (place.whose(number), checked.damages.len());
    let mut walk = BatchWalk::new(Position::default());
    for (&segment, &length) in &segments {
        let path = segment_path(&folder, segment);
        checked.segments += 1;
        checked.bytes += length;
        if segment != walk.at().place.segment + 1 {
            walk.lose(); // those between were removed
        }
        let source = place.files.source(&path).map_err(|error| OpenError::at(&path, error))?;
        let is_last = Some(segment) == last;
        let (path, bad) = (&*path, Vec::new());
        let mut look = Look { source: &*source, path, segment, length, is_last, bad };
        let read = look.walk(whose, &mut walk, &mut checked.records);
        let torn = read.and_then(|()| if is_last { look.torn(&walk) } else { Ok(None) });
        let torn = torn.map_err(|error| OpenError::at(path, error))?;
        match torn {
            Some(torn) => checked.torn.push(torn),
            None => checked.damages.extend(look.bad.into_iter().map(|bad| bad.damage)),
        }
    }
    // Where a damage is told besides, the end is not the matter.
    let end = walk.at().place;
    if let Some(promised) = durable_mark::read(&*place.files, &folder).map(|it| it.place)
        && promised > end
        && checked.damages.len() == damages
    {
        let why = format!(
            "the log ends here, and answers had been given up to byte {} of segment {}",
            promised.offset, promised.segment
        );
        let file = segment_path(&folder, end.segment.max(1));
        checked.damages.push(Damage { file, offset: end.offset.into(), why });
    }
    Ok(())
}

/// A look at one segment.
struct Look<'a> {
    source: &'a dyn ReadFile,
    path: &'a Path,
    segment: u32,
    length: u64,
    is_last: bool,
    bad: Vec<Bad>,
}

/// Damage that was found.
struct Bad {
    damage: Damage,
    /// Position behind the last batch before it that follows.
    at: Position,
    /// Whether the content is changed or absent; otherwise it is in the wrong place.
    is_broken: bool,
}

impl Look<'_> {
    /// Finds the damages. Behind one it goes on where a record's length says that the next one is,
    /// if one is there.
    fn walk(
        &mut self,
        whose: LogIdentity,
        walk: &mut BatchWalk,
        records: &mut u64,
    ) -> io::Result<()> {
        if self.length == 0 {
            self.tell((0, "the file is empty"), true, walk);
            return Ok(());
        }
        let (source, mut at) = (self.source, 0);
        while at < self.length && self.bad.len() < DAMAGES_MAX {
            let mut scan = RecordScan::new(source, at, self.length);
            let stuck = loop {
                match scan.next() {
                    Ok(Some(stop)) => {
                        *records += 1;
                        self.record(whose, walk, &stop);
                    }
                    Ok(None) => {
                        if !walk.is_between() {
                            self.tell((self.length, "the file ends inside a batch"), true, walk);
                        }
                        return Ok(());
                    }
                    Err(stuck) => break stuck,
                }
            };
            let (offset, why) = match stuck {
                Stuck::Bad { offset, why } => (offset, why),
                Stuck::Io(error) => return Err(error),
            };
            // The file of the last segment is longer than what is in it.
            if self.is_last
                && walk.is_between()
                && walk.at().place.segment == self.segment
                && recovery::is_blank(source, (offset, self.length))?
            {
                return Ok(());
            }
            self.tell((offset, why), true, walk);
            match next_record(source, offset, self.length)? {
                Some(next) => at = next,
                None => break,
            }
        }
        Ok(())
    }

    fn record(&mut self, whose: LogIdentity, walk: &mut BatchWalk, stop: &Stop<'_>) {
        let followed = match stop.offset {
            0 => match SegmentHead::read(stop.kind, stop.payload, self.segment) {
                Ok(head) if head.whose != whose => Err("the segment is of another log"),
                head => head.and_then(|head| walk.segment(&head)),
            },
            _ => walk.record(stop),
        };
        let Err(why) = followed else { return };
        self.tell((stop.offset, why), false, walk);
        // It may be the beginning of what can be followed again.
        let _ = walk.record(stop);
    }

    fn tell(&mut self, (offset, why): (u64, &str), is_broken: bool, walk: &mut BatchWalk) {
        let damage = Damage { file: self.path.into(), offset, why: why.into() };
        self.bad.push(Bad { damage, at: walk.at(), is_broken });
        walk.lose();
    }

    /// The end that a crash left, if that is all there is to it. This is the last segment.
    fn torn(&self, walk: &BatchWalk) -> io::Result<Option<Damage>> {
        let Some(Bad { damage, at, is_broken }) = self.bad.first() else { return Ok(None) };
        let is_begun = at.place.segment == self.segment;
        let least = at.index + u64::from(is_begun);
        let span = (damage.offset, self.length);
        let is_torn = *is_broken
            && walk.at() == *at // nothing behind it could be followed
            && !recovery::vouches(self.source, self.segment, span, least)?;
        let offset = if is_begun { at.place.offset.into() } else { 0 };
        Ok(is_torn.then(|| Damage { offset, ..damage.clone() }))
    }
}

/// Reads everything alive of a log.
fn alive(
    place: &Place,
    (number, logs): (u16, u16),
    now_s: u32,
    checked: &mut Checked,
) -> Result<(), OpenError> {
    let folder = log_folder(&place.path, number, "");
    match alive_in(place, &folder, (number, logs), now_s, checked) {
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
    (number, logs): (u16, u16),
    now_s: u32,
    checked: &mut Checked,
) -> Result<(), OpenError> {
    let mut settings = settings(place.secrets, logs).engine(logs);
    settings.log.whose = place.whose(number);
    let state = (place.states)(&folder.join("state"), 1 << 20)?;
    let files = Arc::clone(&place.files);
    let (mut engine, _) = Engine::open(files, folder, settings, Arc::clone(&state))?;
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
    use crate::log::batch::tests::segment;
    use crate::log::record::{self, HEAD_BYTES};
    use model::ports::files::FileSystem;
    use testkit::files::FaultyFiles;

    /// Result of a check of a log's first segment: its damages, the number of its records, and
    /// whether the damages are a torn end.
    fn look(bytes: &[u8]) -> (Vec<Damage>, u64, bool) {
        let (files, path) = (FaultyFiles::new(1), Path::new("/segment"));
        files.open(path).and_then(|mut file| file.write_at(0, bytes)).expect("no fault");
        let source = files.source(path).expect("there");
        let (mut walk, mut records) = (BatchWalk::new(Position::default()), 0);
        let (source, length) = (&*source, bytes.len() as u64);
        let mut look = Look { source, path, segment: 1, length, is_last: false, bad: Vec::new() };
        look.walk(LogIdentity::default(), &mut walk, &mut records).expect("readable");
        let is_torn = look.torn(&walk).expect("readable").is_some();
        (look.bad.into_iter().map(|bad| bad.damage).collect(), records, is_torn)
    }

    /// The first segment of a log with so many batches of a record, of which so many are damaged,
    /// a good one behind each.
    fn damaged(bad: usize) -> Vec<u8> {
        let batch: &[&[u8]] = &[b"7"];
        let (mut bytes, _) = segment(Position::default(), 1, &vec![batch; 2 * bad]);
        let one = (bytes.len() - record::SEGMENT_BYTES) / (2 * bad).max(1);
        for n in 0..bad {
            bytes[record::SEGMENT_BYTES + (2 * n + 1) * one - 1] ^= 1;
        }
        bytes
    }

    #[test]
    fn damages_are_told_up_to_so_many() {
        let told = |bad: usize| {
            let (damages, records, is_torn) = look(&damaged(bad));
            assert!(!is_torn, "one that was committed follows");
            (damages.len(), records)
        };
        assert_eq!(told(0), (0, 1));
        assert_eq!(told(3), (3, 1 + 3 + 2 * 3));
        assert_eq!(told(DAMAGES_MAX - 1).0, DAMAGES_MAX - 1);
        assert_eq!([DAMAGES_MAX, DAMAGES_MAX + 1, 3 * DAMAGES_MAX].map(|n| told(n).0), [100; 3]);
    }

    #[test]
    fn a_batch_that_is_missing_or_exchanged_is_damage_though_all_is_whole() {
        let batches: &[&[&[u8]]] = &[&[b"a"], &[b"b"], &[b"c"]];
        let (bytes, _) = segment(Position::default(), 1, batches);
        let (first, one) = (record::SEGMENT_BYTES, (bytes.len() - record::SEGMENT_BYTES) / 3);
        assert_eq!(look(&bytes), (Vec::new(), 7, false));
        let missing = [&bytes[..first + one], &bytes[first + 2 * one..]].concat();
        let (other, _) = segment(Position::default(), 1, &[&[b"x"], &[b"b"], &[b"c"]]);
        let mixed = [&bytes[..first + one], &other[first + one..]].concat();
        for (changed, at) in [(missing, first + one), (mixed, first + 2 * one - HEAD_BYTES - 1)] {
            let (damages, _, is_torn) = look(&changed);
            assert!(!is_torn && damages[0].offset == at as u64, "{damages:?}");
        }
        let last = bytes.len() - 1;
        let (damages, _, is_torn) = look(&bytes[..last]);
        assert!(is_torn && damages.len() == 1, "its end is only torn: {damages:?}");
    }

    #[test]
    fn a_file_without_a_byte_is_damage_or_torn() {
        let (damages, records, is_torn) = look(&[]);
        assert_eq!((damages[0].offset, &*damages[0].why, records), (0, "the file is empty", 0));
        assert!(is_torn, "if it is the last one");
        let checked = Checked { damages, ..Checked::default() };
        assert!(!checked.is_sound() && Checked::default().is_sound());
    }
}
