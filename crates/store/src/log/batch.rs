//! Batches: what is written at once, and how each follows the one before it.
//!
//! ```text
//! first record of a batch:
//! | segment u32 | offset u32 | epoch u32 | index u64 | committed u64 | bytes u32 | chain u32 |
//! ```
//! It names its own place, so bytes inside a body are not taken for one. Records are counted from 1
//! in the order of the log, without those of kind Segment and Batch: `index` is that of the batch's
//! first, and the others' follow from where they stand. `committed` is the last one that was on
//! stable storage when the batch was written, `bytes` the length of the batch's records behind this
//! one, and `chain` a checksum over the chain of the batch before, over epoch and index, and over
//! the checksums of the records. So it holds for everything before it: a batch that is missing,
//! exchanged or of another history does not follow.
//!
//! A reader that wants the log "from index n" finds the segment by the index in its first record,
//! goes from batch to batch by `bytes`, and begins with the batch that has n.
//!
//! A batch knows no payload but its own. Invariant: [`BatchWalk`] lets a batch pass only if it is
//! whole and follows everything that passed before.

use super::Place;
use super::record::{self, HEAD_BYTES, Origin, RecordKind, SegmentHead};
use super::record_scan::Stop;

/// Bytes of a Batch record.
pub(crate) const BATCH_HEAD_BYTES: usize = HEAD_BYTES + PAYLOAD_BYTES;

const PAYLOAD_BYTES: usize = 36;

/// How far a log has come: between two batches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Position {
    /// Where the next record is written, or behind it.
    pub place: Place,
    /// The epoch of the last batch before it.
    pub epoch: u32,
    /// The index of the last record before it; 0: there is none.
    pub index: u64,
    /// Checksum over all batches before it.
    pub chain: u32,
}

/// Content of a Batch record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BatchHead {
    pub(crate) place: Place,
    pub(crate) epoch: u32,
    pub(crate) index: u64,
    pub(crate) committed: u64,
    pub(crate) bytes: u32,
    pub(crate) chain: u32,
}

impl BatchHead {
    /// Appends the record.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        record::write(RecordKind::Batch, out, |out| {
            for word in [self.place.segment, self.place.offset, self.epoch] {
                out.extend_from_slice(&word.to_le_bytes());
            }
            out.extend_from_slice(&self.index.to_le_bytes());
            out.extend_from_slice(&self.committed.to_le_bytes());
            out.extend_from_slice(&self.bytes.to_le_bytes());
            out.extend_from_slice(&self.chain.to_le_bytes());
        });
    }

    /// Content of the payload of a Batch record.
    pub(crate) fn read(payload: &[u8]) -> Option<BatchHead> {
        let payload: &[u8; PAYLOAD_BYTES] = payload.try_into().ok()?;
        let word = |at: usize| u32::from_le_bytes(*payload[at..].first_chunk().expect("inside"));
        let long = |at: usize| u64::from_le_bytes(*payload[at..].first_chunk().expect("inside"));
        Some(BatchHead {
            place: Place { segment: word(0), offset: word(4) },
            epoch: word(8),
            index: long(12),
            committed: long(20),
            bytes: word(28),
            chain: word(32),
        })
    }
}

/// A whole batch as it stands in its segment, its Batch record first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogBatch<'a> {
    /// Place of the batch.
    pub place: Place,
    /// Epoch in which it was written.
    pub epoch: u32,
    /// Indices of its first and last record.
    pub first: u64,
    /// The last.
    pub last: u64,
    /// Checksum over everything up to its end: [`Position::chain`].
    pub chain: u32,
    /// Node that begins the epoch, if this is the batch of the one Epoch record.
    pub lead: Option<Origin>,
    /// Bytes of the batch.
    pub bytes: &'a [u8],
}

impl<'a> LogBatch<'a> {
    /// The batch that these bytes are, every checksum of which is right but for the chain, which
    /// only whoever knows what is before it can tell; or what is wrong with it.
    pub fn read(bytes: &'a [u8]) -> Result<LogBatch<'a>, &'static str> {
        let (head, records) = bytes.split_at_checked(BATCH_HEAD_BYTES).ok_or("no whole batch")?;
        let (kind, payload) = record::read(head)?;
        let head = Some(payload).filter(|_| kind == RecordKind::Batch).and_then(BatchHead::read);
        let head = head.ok_or("invalid batch")?;
        let is_short = head.bytes as usize != records.len() || records.is_empty();
        if is_short || head.index == 0 || head.committed >= head.index {
            return Err("invalid batch");
        }
        let mut count = 0;
        each_record(records, &mut |whole| {
            count += 1;
            match record::read(whole)?.0 {
                RecordKind::Segment | RecordKind::Batch => Err("a batch begins inside another one"),
                _ => Ok(()),
            }
        })?;
        Ok(LogBatch::of(&head, head.index + count - 1, bytes))
    }

    /// That with this head and last record.
    pub(crate) fn of(head: &BatchHead, last: u64, bytes: &'a [u8]) -> LogBatch<'a> {
        let &BatchHead { place, epoch, index: first, chain, .. } = head;
        let only = (first == last).then(|| record::read(&bytes[BATCH_HEAD_BYTES..]));
        let lead = match only {
            Some(Ok((RecordKind::Epoch, payload))) => Origin::read(payload),
            _ => None,
        };
        LogBatch { place, epoch, first, last, chain, lead, bytes }
    }

    /// Its records, each whole.
    pub(crate) fn records(&self) -> &'a [u8] {
        &self.bytes[BATCH_HEAD_BYTES..]
    }

    /// The chain behind it where this is the chain before it.
    pub(crate) fn chain_behind(&self, before: u32) -> u32 {
        let mut link = Link::begin(before, self.epoch, self.first);
        let added = each_record(self.records(), &mut |whole| {
            link.add(record::crc(whole));
            Ok(())
        });
        added.map_or(!self.chain, |()| link.chain()) // lengths were looked at before
    }

    /// Position behind the batch.
    pub fn end(&self) -> Position {
        let LogBatch { place, epoch, last: index, chain, .. } = *self;
        let offset = (u64::from(place.offset) + self.bytes.len() as u64).min(u32::MAX.into());
        Position { place: Place { offset: offset as u32, ..place }, epoch, index, chain }
    }
}

/// Gives each of these records, whole.
pub(crate) fn each_record<'a>(
    mut records: &'a [u8],
    each: &mut dyn FnMut(&'a [u8]) -> Result<(), &'static str>,
) -> Result<(), &'static str> {
    while !records.is_empty() {
        let head = records.first_chunk().ok_or("the batch ends inside a record's head")?;
        let length = record::length(head)?;
        let (whole, rest) = records.split_at_checked(length).ok_or("the batch ends early")?;
        each(whole)?;
        records = rest;
    }
    Ok(())
}

/// The checksum of a batch, in the making.
#[derive(Clone)]
pub(crate) struct Link {
    hasher: crc32fast::Hasher,
    /// Records so far.
    pub(crate) records: u64,
}

impl Link {
    /// Of a batch behind so much, whose first record has this index.
    pub(crate) fn begin(chain: u32, epoch: u32, index: u64) -> Link {
        let mut hasher = crc32fast::Hasher::new_with_initial(chain);
        hasher.update(&epoch.to_le_bytes());
        hasher.update(&index.to_le_bytes());
        Link { hasher, records: 0 }
    }

    /// The next record has this checksum.
    pub(crate) fn add(&mut self, crc: u32) {
        self.hasher.update(&crc.to_le_bytes());
        self.records += 1;
    }

    /// The chain behind the batch.
    pub(crate) fn chain(&self) -> u32 {
        self.hasher.clone().finalize()
    }
}

/// A walk over the records of a log from somewhere on, segment by segment.
#[derive(Clone)]
pub(crate) struct BatchWalk {
    at: Position,
    /// Offset up to which everything was on stable storage for certain, in this segment.
    sure: u32,
    open: Option<Open>,
    /// Whether the content here is unknown: the next batch, or segment, is believed.
    is_lost: bool,
}

#[derive(Clone)]
struct Open {
    head: BatchHead,
    end: u64,
    link: Link,
    /// Whether the content before it is unknown: its chain is believed.
    is_believed: bool,
}

impl BatchWalk {
    /// A walk from a position on, at which everything before it is on stable storage.
    pub(crate) fn new(at: Position) -> BatchWalk {
        BatchWalk { at, sure: at.place.offset, open: None, is_lost: false }
    }

    /// Position behind the last whole batch.
    pub(crate) fn at(&self) -> Position {
        self.at
    }

    /// Offset up to which everything was on stable storage for certain, bytes of the segment.
    pub(crate) fn sure(&self) -> u32 {
        self.sure
    }

    /// Whether it stands between two batches.
    pub(crate) fn is_between(&self) -> bool {
        self.open.is_none()
    }

    /// Skips what cannot be read here: goes on with the next batch that can be, or with the next
    /// segment, and knows no more than that these are behind.
    pub(crate) fn lose(&mut self) {
        (self.open, self.is_lost) = (None, true);
    }

    /// The next segment begins.
    pub(crate) fn segment(&mut self, head: &SegmentHead) -> Result<(), &'static str> {
        let next = self.at.index + 1;
        let is_lost = std::mem::take(&mut self.is_lost);
        if head.index < next {
            return Err("the segment begins with records that are in the one before it");
        }
        if head.index > next && !is_lost {
            return Err("records are missing between the segment before this one and it");
        }
        if head.chain != self.at.chain && !is_lost {
            return Err("the segment does not follow the one before it");
        }
        if head.epoch < self.at.epoch {
            return Err(EPOCH);
        }
        let place = Place { segment: head.number, offset: record::SEGMENT_BYTES as u32 };
        let SegmentHead { epoch, index, chain, .. } = *head;
        self.at = Position { place, epoch, index: index - 1, chain };
        // That its first record is on stable storage is known by the first batch behind it alone.
        (self.sure, self.open) = (0, None);
        Ok(())
    }

    /// The next record of the segment, a whole one.
    pub(crate) fn record(&mut self, stop: &Stop<'_>) -> Result<(), &'static str> {
        match stop.kind {
            RecordKind::Segment => return Err("a segment begins inside another one"),
            RecordKind::Batch => return self.batch(stop),
            _ => {}
        }
        let Some(open) = &mut self.open else {
            return if self.is_lost { Ok(()) } else { Err("a record outside a batch") };
        };
        open.link.add(stop.crc);
        let end = stop.offset + u64::from(stop.length);
        if end < open.end {
            return Ok(());
        }
        if end > open.end {
            return Err("a record goes beyond the end of its batch");
        }
        let Open { head, link, is_believed, .. } = open;
        if !*is_believed && link.chain() != head.chain {
            return Err("the batch does not follow the one before it");
        }
        let place = Place { segment: self.at.place.segment, offset: end as u32 };
        let index = head.index + link.records - 1;
        self.at = Position { place, epoch: head.epoch, index, chain: head.chain };
        self.open = None;
        Ok(())
    }

    fn batch(&mut self, stop: &Stop<'_>) -> Result<(), &'static str> {
        if self.open.is_some() {
            return Err("a batch begins inside another one");
        }
        let head = BatchHead::read(stop.payload).ok_or("invalid batch")?;
        let place = Place { segment: self.at.place.segment, offset: stop.offset as u32 };
        let next = self.at.index + 1;
        if head.place != place {
            return Err("the batch is not where it was written");
        }
        if head.index < next {
            return Err("the batch begins with records that are in one before it");
        }
        if head.index > next && !self.is_lost {
            return Err("records are missing before the batch");
        }
        if head.epoch < self.at.epoch {
            return Err(EPOCH);
        }
        if head.committed >= head.index || head.bytes == 0 {
            return Err("invalid batch");
        }
        if head.committed + 1 == head.index {
            self.sure = place.offset;
        }
        let is_believed = std::mem::take(&mut self.is_lost);
        let link = Link::begin(self.at.chain, head.epoch, head.index);
        let end = stop.offset + (BATCH_HEAD_BYTES as u64) + u64::from(head.bytes);
        self.open = Some(Open { head, end, link, is_believed });
        Ok(())
    }
}

const EPOCH: &str = "the epoch is lower than the one before it";

/// Whether a batch begins anywhere in `bytes`, of which the first is at `offset` of segment
/// `number`, that was written when the record with the index `least` was on stable storage.
pub(crate) fn vouches(number: u32, offset: u64, bytes: &[u8], least: u64) -> bool {
    let mut places = 0..(bytes.len() + 1).saturating_sub(BATCH_HEAD_BYTES);
    places.any(|at| {
        let head = &bytes[at..at + BATCH_HEAD_BYTES];
        if head[..4] != (PAYLOAD_BYTES as u32).to_le_bytes() || head[8] != RecordKind::Batch as u8 {
            return false;
        }
        let own = Place { segment: number, offset: (offset + at as u64) as u32 };
        let said = record::read(head).ok().and_then(|(_, payload)| BatchHead::read(payload));
        said.is_some_and(|said| said.place == own && said.committed >= least)
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::log::LogIdentity;
    use crate::log::record_scan::RecordScan;
    use model::ports::files::FileSystem;
    use std::path::Path;
    use testkit::files::FaultyFiles;

    /// A batch of these payloads as a log writes it there; and behind it.
    pub(crate) fn batch(at: Position, payloads: &[&[u8]]) -> (Vec<u8>, Position) {
        let Position { place, epoch, index: committed, chain } = at;
        let index = committed + 1;
        let (mut link, mut records) = (Link::begin(chain, epoch, index), Vec::new());
        for payload in payloads {
            let start = records.len();
            record::write(RecordKind::Put, &mut records, |out| out.extend_from_slice(payload));
            link.add(record::crc(&records[start..]));
        }
        let (bytes, chain) = (records.len() as u32, link.chain());
        let mut out = Vec::new();
        BatchHead { place, epoch, index, committed, bytes, chain }.write(&mut out);
        out.extend_from_slice(&records);
        let place = Place { offset: place.offset + out.len() as u32, ..place };
        (out, Position { place, epoch, index: committed + link.records, chain })
    }

    /// A segment of these batches, each of these payloads, as a log writes it; and behind them.
    pub(crate) fn segment(at: Position, number: u32, batches: &[&[&[u8]]]) -> (Vec<u8>, Position) {
        let Position { epoch, index, chain, .. } = at;
        let (whose, mut out) = (LogIdentity::default(), Vec::new());
        SegmentHead { number, whose, epoch, index: index + 1, chain }.write(&mut out);
        let place = Place { segment: number, offset: out.len() as u32 };
        let mut at = Position { place, ..at };
        for payloads in batches {
            let (bytes, behind) = batch(at, payloads);
            out.extend_from_slice(&bytes);
            at = behind;
        }
        (out, at)
    }

    /// The result of a walk over a segment: where it ends, or at which byte it is wrong, and why.
    fn walked(mut walk: BatchWalk, bytes: &[u8]) -> Result<BatchWalk, (u64, &'static str)> {
        let (files, path) = (FaultyFiles::new(1), Path::new("/segment"));
        files.open(path).and_then(|mut file| file.write_at(0, bytes)).expect("no fault");
        let source = files.source(path).expect("there");
        let mut scan = RecordScan::new(&*source, 0, bytes.len() as u64);
        while let Some(stop) = scan.next().expect("whole") {
            let told = match stop.offset {
                0 => SegmentHead::read(stop.kind, stop.payload, 2)
                    .and_then(|head| walk.segment(&head)),
                _ => walk.record(&stop),
            };
            told.map_err(|why| (stop.offset, why))?;
        }
        Ok(walk)
    }

    fn begin() -> Position {
        Position { place: Place { segment: 1, offset: 900 }, epoch: 4, index: 20, chain: 77 }
    }

    #[test]
    fn batches_that_follow_one_another_pass_and_are_counted() {
        let (bytes, end) = segment(begin(), 2, &[&[b"a", b"bc"], &[b"d"]]);
        let walk = walked(BatchWalk::new(begin()), &bytes).expect("they follow");
        assert!(walk.is_between());
        assert_eq!(walk.at(), end);
        assert_eq!((end.index, end.epoch), (23, 4));
        let last = bytes.len() - BATCH_HEAD_BYTES - HEAD_BYTES - 1;
        assert_eq!(walk.sure() as usize, last, "all before the last batch");
    }

    #[test]
    fn what_does_not_follow_is_told() {
        let (bytes, _) = segment(begin(), 2, &[&[b"a"], &[b"b"]]);
        for (at, why) in [
            (Position { index: 19, ..begin() }, "missing between"),
            (Position { index: 21, ..begin() }, "are in the one before"),
            (Position { chain: 78, ..begin() }, "does not follow"),
            (Position { epoch: 5, ..begin() }, "epoch is lower"),
        ] {
            let (offset, told) = walked(BatchWalk::new(at), &bytes).map(|_| ()).expect_err(why);
            assert!(offset == 0 && told.contains(why), "{told}");
            let mut lost = BatchWalk::new(at);
            lost.lose();
            let is_behind = at.index < 21 && at.epoch < 5;
            assert_eq!(walked(lost, &bytes).is_ok(), is_behind, "{why}");
        }
        let one = BATCH_HEAD_BYTES + HEAD_BYTES + 1;
        let first = record::SEGMENT_BYTES;
        let missing = [&bytes[..first], &bytes[first + one..]].concat();
        let again = [&bytes[..], &bytes[first + one..]].concat();
        for changed in [missing, again] {
            let told = walked(BatchWalk::new(begin()), &changed).map(|_| ()).expect_err("moved");
            assert!(told.1.contains("not where it was written"), "{told:?}");
        }
        // A batch of the same place and index, but of another history.
        let (other, _) = segment(begin(), 2, &[&[b"x"], &[b"b"]]);
        let mixed = [&bytes[..first + one], &other[first + one..]].concat();
        let told = walked(BatchWalk::new(begin()), &mixed).map(|_| ()).expect_err("another");
        let last = (bytes.len() - HEAD_BYTES - 1) as u64;
        assert_eq!(told, (last, "the batch does not follow the one before it"));
    }

    #[test]
    fn a_batch_vouches_only_at_its_own_place_and_for_what_was_committed() {
        let place = Place { segment: 3, offset: 105 };
        let head = BatchHead { place, epoch: 1, index: 9, committed: 7, bytes: 1, chain: 0 };
        let mut bytes = vec![7; 5];
        head.write(&mut bytes);
        assert_eq!(bytes.len(), 5 + BATCH_HEAD_BYTES);
        assert!(vouches(3, 100, &bytes, 7) && vouches(3, 105, &bytes[5..], 0));
        assert!(!vouches(3, 100, &bytes, 8), "that one was not committed");
        assert!(!vouches(3, 106, &bytes[6..], 7) && !vouches(4, 100, &bytes, 7));
        assert!(!vouches(3, 99, &bytes, 7) && !vouches(3, 100, &bytes[..bytes.len() - 1], 7));
        let (kind, payload) = record::read(&bytes[5..]).expect("whole");
        assert_eq!((kind, BatchHead::read(payload)), (RecordKind::Batch, Some(head)));
        assert_eq!(BatchHead::read(&payload[1..]), None);
    }
}
