//! Intact data of other logs: segments, batches of other histories, epochs.

use super::*;
use base::prng::Prng;

const FIRST: usize = record::SEGMENT_BYTES;

fn small() -> LogSettings {
    LogSettings { segment_bytes: 400, ..settings() }
}

/// A log of short segments, and its positions after each batch.
fn several(files: &FaultyFiles, settings: LogSettings, byte: u8) -> Vec<Position> {
    let (mut log, ..) = open_at(files, settings, Position::default()).expect("opens");
    let mut after = Vec::new();
    for n in 0..12 {
        log.add(RecordKind::Put, |out| out.extend_from_slice(&[byte; 40]));
        put(&mut log, &[n; 40]).expect("room");
        after.push(log.position());
    }
    after
}

fn refused(files: &FaultyFiles, from: Position) -> OpenError {
    open_at(files, small(), from).map(|_| ()).expect_err("must not open")
}

fn why(files: &FaultyFiles, from: Position) -> (PathBuf, u64, &'static str) {
    match refused(files, from) {
        OpenError::Corrupt { path, offset, why } => (path, offset, why),
        other => panic!("{other}"),
    }
}

fn path(segment: u32) -> PathBuf {
    segment_path(Path::new(FOLDER), segment)
}

#[test]
fn a_segment_of_another_log_or_cluster_is_refused_wherever_it_stands() {
    for whose in [LogIdentity { cluster: 6, log: 1 }, LogIdentity { cluster: 5, log: 2 }] {
        let (ours, theirs) = (folder(40), folder(41));
        let after = several(&ours, small(), 1);
        several(&theirs, LogSettings { whose, ..small() }, 1);
        let last = after.last().expect("some").place.segment;
        assert!(last > 3);
        for (segment, from) in [(1, 0), (2, 0), (last, 0), (1, 9), (2, 11), (last, 11)] {
            let from = if from == 0 { Position::default() } else { after[from] };
            let own = raw(&ours, segment);
            lay(&ours, segment, &raw(&theirs, segment));
            match refused(&ours, from) {
                OpenError::OtherLog { path: file, found, wanted } => {
                    assert_eq!((file, found, wanted), (path(segment), whose, small().whose));
                }
                other => panic!("{other}"),
            }
            lay(&ours, segment, &own);
        }
        open_at(&ours, small(), Position::default()).expect("it is its own again");
    }
}

#[test]
fn a_segment_of_another_history_of_the_same_log_does_not_follow() {
    let (ours, theirs) = (folder(42), folder(43));
    let after = several(&ours, small(), 1);
    several(&theirs, small(), 2);
    let own = raw(&ours, 2);
    lay(&ours, 2, &raw(&theirs, 2));
    let told = why(&ours, Position::default());
    assert_eq!(told, (path(2), 0, "the segment does not follow the one before it"));
    lay(&ours, 2, &own);
    // Under state of the other history too: its checkpoint is at the same place.
    let other = Position { chain: !after[1].chain, ..after[1] };
    assert_eq!(why(&ours, other).2, "the batch does not follow the one before it");
    let ahead = Position { index: after[1].index + 1, ..after[1] };
    assert_eq!(why(&ours, ahead).2, "the batch begins with records that are in one before it");
    let behind = Position { index: after[1].index - 1, ..after[1] };
    assert_eq!(why(&ours, behind).2, "records are missing before the batch");
    open_at(&ours, small(), after[1]).expect("its own");
}

#[test]
fn a_gap_or_an_overlap_between_segments_is_told() {
    let files = folder(44);
    let after = several(&files, small(), 1);
    let (second, third) = (raw(&files, 2), raw(&files, 3));
    // The third under the number of the second, and the second once more under that of the third.
    let renumbered = |bytes: &[u8], number: u32| {
        let (kind, payload) = record::read(&bytes[..FIRST]).expect("whole");
        let was = u32::from_le_bytes(*payload[10..].first_chunk().expect("long enough"));
        let head = record::SegmentHead::read(kind, payload, was).expect("a segment");
        let mut fresh = Vec::new();
        record::SegmentHead { number, ..head }.write(&mut fresh);
        [&fresh, &bytes[FIRST..]].concat()
    };
    lay(&files, 2, &renumbered(&third, 2));
    let gap = "records are missing between the segment before this one and it";
    assert_eq!(why(&files, Position::default()), (path(2), 0, gap));
    lay(&files, 2, &second);
    lay(&files, 3, &renumbered(&second, 3));
    let overlap = "the segment begins with records that are in the one before it";
    assert_eq!(why(&files, Position::default()), (path(3), 0, overlap));
    // Those before the checkpoint are only looked at.
    lay(&files, 3, &third);
    lay(&files, 2, &renumbered(&raw(&files, 1), 2));
    lay(&files, 1, &renumbered(&third, 1));
    let order = "its records and epochs are not in the order of the segments around it";
    assert_eq!(why(&files, *after.last().expect("some")).2, order);
}

#[test]
fn a_batch_that_is_missing_or_out_of_order_is_told_and_nothing_is_changed() {
    let files = folder(45);
    let (mut log, ..) = open(&files);
    for n in 0..6 {
        put(&mut log, &[n; 40]).expect("room");
    }
    drop(log);
    let whole = raw(&files, 1);
    let one = (whole.len() - FIRST) / 6;
    let piece = |n: usize| &whole[FIRST + n * one..FIRST + (n + 1) * one];
    for order in [&[0, 1, 3, 4, 5][..], &[0, 2, 1, 3, 4, 5], &[0, 0, 1, 2, 3, 4, 5], &[1, 2]] {
        let changed: Vec<u8> = order.iter().flat_map(|n| piece(*n)).copied().collect();
        let changed = [&whole[..FIRST], &changed].concat();
        lay(&files, 1, &changed);
        let (_, _, told) = corrupt(&files, Position::default());
        assert_eq!(told, "the batch is not where it was written", "{order:?}");
        assert_eq!(raw(&files, 1), changed);
    }
    lay(&files, 1, &whole);
    assert_eq!(open(&files).1.len(), 6);
}

#[test]
fn every_opening_begins_an_epoch_above_the_last_and_none_goes_down() {
    let files = folder(46);
    let mut epochs = Vec::new();
    for n in 0..5_usize {
        let (mut log, records, found) = open(&files);
        assert_eq!((records.len(), found.end.epoch), (n.div_ceil(2), log.position().epoch));
        epochs.push(log.position().epoch);
        if n % 2 == 0 {
            put(&mut log, &[n as u8; 10]).expect("room");
        }
        drop(log);
        files.crash();
    }
    assert_eq!(epochs, [1, 2, 3, 4, 5], "though nothing was written in some");
    let (log, ..) = open(&files);
    let at = log.position();
    drop(log);
    let whole = raw(&files, 1);
    let (older, _) = batch::tests::batch(Position { epoch: at.epoch - 1, ..at }, &[b"late"]);
    lay(&files, 1, &[&whole[..], &older].concat());
    let (_, offset, told) = corrupt(&files, Position::default());
    assert_eq!((offset, told), (whole.len() as u64, "the epoch is lower than the one before it"));
    let (next, _) = batch::tests::batch(at, &[b"in time"]);
    lay(&files, 1, &[&whole[..], &next].concat());
    assert_eq!(open(&files).1.len(), 4);
}

#[test]
fn a_log_of_the_build_before_opens() {
    let files = folder(49);
    let begin = Position { epoch: 1, ..Position::default() };
    let (first, end) = batch::tests::segment(begin, 1, &[&[b"one"]]);
    // It named its own epoch in a segment that it began, and nobody in the epoch's record.
    let (mut second, at) = batch::tests::segment(Position { epoch: 2, ..end }, 2, &[]);
    let mut records = Vec::new();
    record::write(RecordKind::Epoch, &mut records, |_| {});
    let mut link = Link::begin(at.chain, 2, at.index + 1);
    link.add(record::crc(&records));
    let (place, index, committed) = (at.place, at.index + 1, at.index);
    let (bytes, chain) = (records.len() as u32, link.chain());
    BatchHead { place, epoch: 2, index, committed, bytes, chain }.write(&mut second);
    lay(&files, 1, &first);
    lay(&files, 2, &[second, records].concat());
    let settings = LogSettings { whose: LogIdentity::default(), ..small() };
    let (log, records, _) = open_at(&files, settings, Position::default()).expect("opens");
    assert_eq!((records.len(), log.position().epoch, log.position().index), (1, 3, 3));
}

#[test]
fn a_new_epoch_needs_no_room_that_is_not_there() {
    let files = folder(47);
    let (mut log, ..) = open(&files);
    put(&mut log, b"before").expect("room");
    drop(log);
    files.resize(files.used() - reserve::RESERVE_BYTES);
    let (mut log, records, _) = open(&files);
    assert_eq!((records.len(), log.position().epoch), (1, 2));
    files.resize(u64::MAX);
    put(&mut log, b"after").expect("room");
    drop(log);
    let (log, records, _) = open(&files);
    assert_eq!((records.len(), log.position().epoch), (2, 3));
}

/// Bytes are changed, cut out, doubled or exchanged by chance: what comes back is how the log
/// began, and if it is less than all, that is told.
#[test]
fn whatever_is_done_to_a_log_it_gives_back_its_beginning_or_nothing() {
    let files = folder(48);
    let after = several(&files, small(), 1);
    let numbers: Vec<u32> = (1..=after.last().expect("some").place.segment).collect();
    let whole: Vec<Vec<u8>> = numbers.iter().map(|number| raw(&files, *number)).collect();
    let promised = files.read(Path::new("/log/promised")).expect("there");
    let (_, all, _) = open_at(&files, small(), Position::default()).expect("opens");
    let (mut refusals, mut cuts) = (0, 0);
    for seed in 0..3_000 {
        let (mut rng, name) = (Prng::new(seed), format!("seed {seed}"));
        let files = folder(seed);
        let mut bytes = whole.clone();
        for _ in 0..=rng.below(2) {
            harm(&mut rng, &mut bytes);
        }
        for (number, bytes) in numbers.iter().zip(&bytes) {
            lay(&files, *number, bytes);
        }
        let mut file = files.open(Path::new("/log/promised")).expect("no fault");
        file.write_at(0, &promised).and_then(|()| file.sync()).expect("room");
        match open_at(&files, small(), Position::default()) {
            Err(_) => refusals += 1,
            Ok((_, records, found)) => {
                assert!(records.len() <= all.len() && all[..records.len()] == records, "{name}");
                let is_less = records.len() < all.len();
                assert_eq!(found.missing().is_some(), is_less, "{name}: {found:?}");
                cuts += usize::from(is_less);
            }
        }
    }
    assert!(refusals > 2_000 && cuts > 50, "{refusals} {cuts}");
}

/// Changes the files of a log.
fn harm(rng: &mut Prng, segments: &mut [Vec<u8>]) {
    let pick = |rng: &mut Prng, length: usize| rng.below(length.max(1) as u64) as usize;
    let one = pick(rng, segments.len());
    let (at, other) = (pick(rng, segments[one].len()), pick(rng, segments.len()));
    let upto = at + pick(rng, segments[one].len() - at);
    match rng.below(6) {
        0 => segments[one][at] ^= 1 << rng.below(8),
        1 => segments[one].truncate(at),
        2 => drop(segments[one].drain(at..upto)),
        3 => {
            let piece = segments[one][at..upto].to_vec();
            segments[one].splice(upto..upto, piece);
        }
        4 => segments.swap(one, other),
        _ => {
            let piece = segments[one][at..upto].to_vec();
            let to = pick(rng, segments[other].len());
            let end = (to + piece.len()).min(segments[other].len());
            segments[other].splice(to..end, piece);
        }
    }
}
