//! The log as its owner sees it, over a file system that fails.

mod bounds;
mod chains;
mod crashes;
mod promises;

use super::segment::STEP_BYTES;
use super::*;
use model::id::NodeId;
use model::ports::files::ReadFile;
use std::time::Duration;
use testkit::files::{Error, FaultyFiles, Op};

const FOLDER: &str = "/log";

fn settings() -> LogSettings {
    let whose = LogIdentity { cluster: 5, log: 1 };
    let (segment_bytes, log_bytes_max, kept_bytes) = (1 << 20, 1 << 30, 0);
    LogSettings {
        whose,
        // No byte of it is zero: zeros behind the last batch are none of its bytes.
        origin: Origin { node: NodeId::new(0x0101).expect("small"), boot: u64::MAX },
        fsync: Fsync::Always,
        segment_bytes,
        log_bytes_max,
        kept_bytes,
    }
}

fn folder(seed: u64) -> FaultyFiles {
    let files = FaultyFiles::new(seed);
    files.make_folder(Path::new(FOLDER)).expect("no fault");
    files.sync_folder(Path::new("/")).expect("no fault");
    files
}

type Record = (Place, RecordKind, Vec<u8>);

fn open_at(
    files: &FaultyFiles,
    settings: LogSettings,
    from: Position,
) -> Result<(Log, Vec<Record>, OpenedLog), OpenError> {
    let mut records = Vec::new();
    let mut each = |place, kind, payload: &[u8]| {
        records.push((place, kind, payload.to_vec()));
        Ok(())
    };
    let files = Arc::new(files.clone());
    let (log, found) = Log::open(files, Path::new(FOLDER), settings, from, &mut each)?;
    Ok((log, records, found))
}

fn open(files: &FaultyFiles) -> (Log, Vec<Record>, OpenedLog) {
    open_at(files, settings(), Position::default()).expect("opens")
}

fn put(log: &mut Log, payload: &[u8]) -> Result<(Place, u32), StoreError> {
    let added = log.add(RecordKind::Put, |out| out.extend_from_slice(payload));
    log.commit(Purpose::Store).map(|()| added)
}

fn corrupt(files: &FaultyFiles, from: Position) -> (PathBuf, u64, &'static str) {
    match open_at(files, settings(), from).map(|_| ()).expect_err("must not open") {
        OpenError::Corrupt { path, offset, why } => (path, offset, why),
        other => panic!("{other}"),
    }
}

/// A segment without the zeros behind what is in it.
fn raw(files: &FaultyFiles, segment: u32) -> Vec<u8> {
    let mut bytes = files.read(&segment_path(Path::new(FOLDER), segment)).expect("is there");
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    bytes.truncate(end);
    bytes
}

fn lay(files: &FaultyFiles, segment: u32, bytes: &[u8]) {
    let mut file = files.open(&segment_path(Path::new(FOLDER), segment)).expect("no fault");
    file.cut(0).and_then(|()| file.write_at(0, bytes)).and_then(|()| file.sync()).expect("room");
    files.sync_folder(Path::new(FOLDER)).expect("no fault");
}

#[test]
fn what_was_committed_comes_back_in_order_with_its_place() {
    let files = folder(1);
    let (mut log, records, found) = open(&files);
    assert_eq!((records.len(), found.segments, found.torn), (0, 0, None));
    let before = log.ahead();
    let (first, _) = log.add(RecordKind::Append, |out| out.extend_from_slice(b"one"));
    assert!(before <= first && first < log.ahead());
    let (second, _) = log.add(RecordKind::Remove, |_| {});
    log.commit(Purpose::Store).expect("room");
    let checkpoint = log.position();
    let (third, length) = put(&mut log, b"three").expect("room");
    log.add(RecordKind::Put, |out| out.extend_from_slice(b"never"));
    log.drop_batch();
    log.commit(Purpose::Store).expect("nothing to do");
    assert_eq!(
        log.reader().read(third, length).expect("whole"),
        (RecordKind::Put, b"three".to_vec())
    );
    files.crash();
    let expected = vec![
        (first, RecordKind::Append, b"one".to_vec()),
        (second, RecordKind::Remove, vec![]),
        (third, RecordKind::Put, b"three".to_vec()),
    ];
    assert_eq!(open(&files).1, expected);
    let (_, later, found) = open_at(&files, settings(), checkpoint).expect("opens");
    assert_eq!((later, found.segments_read), (expected[2..].to_vec(), 1));
}

#[test]
fn a_long_segment_is_followed_by_the_next_and_any_but_the_last_can_go() {
    let files = folder(2);
    let small = LogSettings { segment_bytes: 300, ..settings() };
    let (mut log, _, _) = open_at(&files, small, Position::default()).expect("opens");
    let places: Vec<_> = (0..20u8).map(|n| put(&mut log, &[n; 100]).expect("room")).collect();
    let count = log.segments().count();
    assert!(count > 5, "{count}");
    assert_eq!(log.bytes(), log.segments().map(|(_, bytes)| bytes).sum::<u64>());
    let reader = log.reader();
    let in_two = places.iter().position(|(place, _)| place.segment == 2).expect("some are");
    let (place, length) = places[in_two];
    assert_eq!(reader.read(place, length).expect("whole").1, vec![in_two as u8; 100]);
    log.remove(2).expect("is there");
    assert!(matches!(reader.read(place, length), Err(ReadError::Gone)));
    let from = log.position();
    drop(log);
    let (log, records, found) = open_at(&files, small, from).expect("a gap before it is normal");
    // The epoch begins in a segment of its own, for the last one was long enough.
    assert_eq!((records.len(), log.segments().count()), (0, count));
    assert_eq!(found.segments_read, 1);
    let (path, offset, why) =
        corrupt(&files, Position { place: Place { segment: 2, offset: 0 }, ..from });
    assert_eq!((path, offset), (segment_path(Path::new(FOLDER), 2), 0));
    assert_eq!(why, "the segment is missing");
    assert_eq!(corrupt(&files, Position::default()).0, segment_path(Path::new(FOLDER), 2));
    let Place { segment, offset } = from.place;
    let beyond = Position { place: Place { segment, offset: offset + 1_000 }, ..from };
    assert_eq!(corrupt(&files, beyond).2, "the file ends before the place of the checkpoint");
    let beyond = Position { place: Place { segment: segment + 2, offset: 0 }, ..from };
    assert_eq!(corrupt(&files, beyond).2, "the segment is missing");
}

#[test]
fn a_roll_begins_a_segment_unless_the_last_is_empty() {
    let files = folder(3);
    let (mut log, _, _) = open(&files);
    log.roll().expect("room");
    assert_eq!(log.segments().count(), 1);
    let (place, _) = put(&mut log, b"1").expect("room");
    log.roll().expect("room");
    log.roll().expect("room");
    let (next, _) = put(&mut log, b"2").expect("room");
    assert_eq!((place.segment, next.segment, log.segments().count()), (1, 2, 2));
    drop(log);
    assert_eq!(open(&files).1.len(), 2);
}

#[test]
fn a_scan_gives_what_a_replay_gives_in_pieces() {
    let files = folder(4);
    let (mut log, _, _) = open(&files);
    let mut expected = Vec::new();
    for n in 0..50u8 {
        // One is longer than the pieces in which a file is read.
        let length = if n == 30 { 700_000 } else { 100 };
        expected.push(put(&mut log, &vec![n; length]).expect("room"));
    }
    log.add(RecordKind::Put, |_| {});
    let reader = log.reader();
    for bytes_max in [1, 500, 10_000, usize::MAX] {
        let mut places = Vec::new();
        let mut from = Some(Place { segment: 1, offset: 0 });
        while let Some(next) = from {
            let mut each = |place, length, _: RecordKind, _: &[u8]| places.push((place, length));
            from = reader.scan(next, bytes_max, &mut each).expect("whole");
        }
        assert_eq!(places, expected);
    }
    let none = reader.scan(Place { segment: 2, offset: 0 }, 1, &mut |_, _, _, _| {});
    assert!(matches!(none, Err(ReadError::Gone)));
}

#[test]
fn a_reader_tells_damage_from_what_was_written() {
    let files = folder(5);
    let (mut log, _, _) = open(&files);
    let (place, length) = put(&mut log, b"payload").expect("room");
    let reader = log.reader();
    let damaged = |length| matches!(reader.read(place, length), Err(ReadError::Damaged { .. }));
    assert!(damaged(length - 1) && damaged(length + 1) && damaged(0) && damaged(u32::MAX));
    files.rot(&segment_path(Path::new(FOLDER), 1), u64::from(place.offset) + 12, 1);
    assert!(damaged(length));
    files.fail_after(Op::Read, 0, Error::Io);
    assert!(matches!(reader.read(place, length), Err(ReadError::Io(_))));
    let scan = reader.scan(Place { segment: 1, offset: 0 }, 1_000, &mut |_, _, _, _| {});
    assert!(matches!(scan, Err(ReadError::Damaged { place: found, .. }) if found == place));
}

#[test]
fn few_segments_are_open_at_once_and_all_can_be_read() {
    let files = folder(6);
    let (mut log, _, _) = open(&files);
    let places: Vec<_> = (0..100u32)
        .map(|n| {
            log.roll().expect("room");
            put(&mut log, &n.to_le_bytes()).expect("room")
        })
        .collect();
    let reader = log.reader();
    for (n, (place, length)) in places.into_iter().enumerate() {
        assert_eq!(reader.read(place, length).expect("whole").1, (n as u32).to_le_bytes());
    }
}

/// A folder with three batches, where each ends, and its bytes.
fn three_batches() -> (FaultyFiles, Vec<u64>, Vec<u8>) {
    let files = folder(7);
    let (mut log, _, _) = open(&files);
    let mut ends = Vec::new();
    for n in 0..3u8 {
        put(&mut log, &[n; 40]).expect("room");
        ends.push(u64::from(log.ahead().offset));
    }
    drop(log);
    let bytes = raw(&files, 1);
    (files, ends, bytes)
}

#[test]
fn a_tail_torn_at_any_byte_costs_nothing_before_it() {
    let (_, ends, whole) = three_batches();
    for length in 0..whole.len() {
        let files = folder(8);
        lay(&files, 1, &whole[..length]);
        let (mut log, records, found) = open(&files);
        let expected = ends.iter().filter(|end| **end <= length as u64).count();
        assert_eq!(records.len(), expected, "cut at {length}");
        // Between two batches a cut leaves nothing that is torn.
        let good = found.torn.map_or(length as u64, |torn| torn.offset);
        assert!(good <= length as u64 && good + 100 > length as u64, "cut at {length}");
        put(&mut log, b"more").expect("room");
        let (_, again, found) = open(&files);
        assert_eq!((again.len(), found.torn), (expected + 1, None), "cut at {length}, later");
    }
}

#[test]
fn a_corrupt_middle_is_told_with_its_place_and_never_skipped() {
    let (_, ends, whole) = three_batches();
    for at in 0..whole.len() {
        let files = folder(9);
        let mut changed = whole.clone();
        changed[at] ^= 0x40;
        lay(&files, 1, &changed);
        if (at as u64) < ends[1] {
            let (path, offset, _) = corrupt(&files, Position::default());
            assert_eq!(path, segment_path(Path::new(FOLDER), 1));
            assert!(offset as usize <= at && at < offset as usize + 60, "byte {at}");
            assert_eq!(raw(&files, 1), changed, "nothing is changed");
        } else {
            let (_, records, found) = open(&files);
            assert_eq!(records.len(), 2, "byte {at}");
            assert!(found.torn.expect("is told").offset as usize <= at);
        }
        // No segment but the last has a torn tail.
        let mut next = Vec::new();
        let whose = settings().whose;
        record::SegmentHead { number: 2, whose, epoch: 1, index: 4, chain: 0 }.write(&mut next);
        lay(&files, 1, &changed);
        lay(&files, 2, &next);
        corrupt(&files, Position::default());
    }
}

#[test]
fn a_tail_of_zeros_is_the_end_unless_a_batch_is_begun_in_front_of_it() {
    let epoch = (BATCH_HEAD_BYTES + record::HEAD_BYTES + Origin::BYTES) as u64;
    for zeros in [1, 8, 9, 5_000, 3 << 20] {
        let (files, ends, mut whole) = three_batches();
        whole.resize(whole.len() + zeros, 0);
        lay(&files, 1, &whole);
        let (_, records, found) = open(&files);
        assert_eq!((records.len(), found.torn), (3, None), "{zeros}");
        assert_eq!(raw(&files, 1).len() as u64, ends[2] + epoch, "a new one began");
        // A byte behind them was written by somebody.
        whole.push(1);
        lay(&files, 1, &whole);
        let (_, records, found) = open(&files);
        let torn = found.torn.map(|torn| (torn.offset, torn.bytes));
        assert_eq!((records.len(), torn), (3, Some((ends[2], zeros as u64 + 1))), "{zeros}");
    }
    let (files, ends, mut whole) = three_batches();
    let length = whole.len() as u64;
    whole.truncate(whole.len() - 5);
    whole.resize(whole.len() + 5_000, 0);
    lay(&files, 1, &whole);
    let (_, records, found) = open(&files);
    let torn = found.torn.map(|torn| (torn.offset, torn.bytes));
    assert_eq!((records.len(), torn), (2, Some((ends[1], length - 5 + 5_000 - ends[1]))));
}

#[test]
fn the_file_of_the_last_segment_is_longer_than_what_is_in_it_and_no_other() {
    let files = folder(14);
    let steps = LogSettings { segment_bytes: 5 << 20, ..settings() };
    let (mut log, _, _) = open_at(&files, steps, Position::default()).expect("opens");
    let length = |segment| {
        let source = files.source(&segment_path(Path::new(FOLDER), segment)).expect("is there");
        source.length().expect("known")
    };
    let before = files.used();
    put(&mut log, &[1; 100]).expect("room");
    assert_eq!(length(1), STEP_BYTES);
    assert_eq!(files.used(), before + STEP_BYTES - 4_096, "all its blocks but one are new");
    put(&mut log, &vec![2; STEP_BYTES as usize]).expect("room");
    assert_eq!(length(1), 2 * STEP_BYTES);
    put(&mut log, &vec![3; 5 * STEP_BYTES as usize]).expect("room");
    assert_eq!(length(1), log.last.bytes, "no more than a segment");
    put(&mut log, &[4; 100]).expect("room");
    put(&mut log, &[5; 100]).expect("room");
    let bytes = log.last.bytes;
    log.roll().expect("room");
    assert_eq!((length(2), log.last.number), (bytes, 3));
    put(&mut log, &[6; 100]).expect("room");
    files.fail_after(Op::Write, 0, Error::NoSpace);
    assert_eq!(put(&mut log, &[7; 100]), Err(StoreError::Full));
    assert_eq!(length(3), log.last.bytes, "what was refused is cut off with the rest");
    put(&mut log, &[8; 100]).expect("room");
    drop(log);
    assert_eq!(length(3), STEP_BYTES);
    let (_, records, found) = open_at(&files, steps, Position::default()).expect("opens");
    assert_eq!((records.len(), found.torn), (7, None));
}

#[test]
fn a_batch_finds_room_where_what_would_come_behind_it_does_not() {
    let files = folder(15);
    let (mut log, _, _) = open(&files);
    put(&mut log, &[1; 100]).expect("room");
    log.shorten().expect("no fault");
    files.fail_after(Op::Write, 0, Error::NoSpace);
    put(&mut log, &[2; 100]).expect("the file is not longer than that");
    let source = files.source(&segment_path(Path::new(FOLDER), 1)).expect("is there");
    assert_eq!(source.length().expect("known"), log.last.bytes);
    drop(log);
    let (_, records, found) = open(&files);
    assert_eq!((records.len(), found.torn), (2, None));
}

#[test]
fn what_the_owner_cannot_read_is_corrupt() {
    let files = folder(10);
    let (mut log, _, _) = open(&files);
    let (place, _) = put(&mut log, b"nonsense").expect("room");
    drop(log);
    let mut each = |_, _, _: &[u8]| Err("invalid record");
    let path = Path::new(FOLDER);
    let opened =
        Log::open(Arc::new(files.clone()), path, settings(), Position::default(), &mut each);
    match opened.map(|_| ()).expect_err("must not open") {
        OpenError::Corrupt { offset, why, .. } => {
            assert_eq!((offset, why), (place.offset.into(), "invalid record"));
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_full_disk_takes_what_ends_something_and_nothing_else() {
    for error in [Error::NoSpace, Error::Quota, Error::TooLarge] {
        let files = folder(11);
        let (mut log, _, _) = open(&files);
        put(&mut log, b"before").expect("room");
        let length = log.ahead();
        files.fail_after(Op::Write, 0, error);
        assert_eq!(put(&mut log, &[1; 10_000]), Err(StoreError::Full));
        assert_eq!((log.ahead(), log.is_failed(), log.is_full()), (length, false, true));
        put(&mut log, b"room again").expect("room");
        assert!(!log.is_full());
        log.shorten().expect("no fault");
        files.resize(files.used());
        assert_eq!(put(&mut log, &[1; 10_000]), Err(StoreError::Full));
        for _ in 0..100 {
            log.add(RecordKind::Remove, |out| out.extend_from_slice(&[2; 1_000]));
            log.commit(Purpose::End).expect("the reserve has room");
        }
        assert_eq!(put(&mut log, b"small"), Err(StoreError::Full), "the reserve is for endings");
        log.roll().expect("the reserve has room");
        let from = log.position();
        log.remove(1).expect("is there");
        log.spend_reserve().expect("no fault");
        files.resize(files.used() + 8_192);
        assert_eq!(put(&mut log, b"small"), Err(StoreError::Full), "the reserve comes first");
        files.resize(u64::MAX);
        put(&mut log, b"small").expect("room");
        files.crash();
        assert_eq!(open_at(&files, settings(), from).expect("opens").1.len(), 1);
    }
}

#[test]
fn the_limit_holds_for_all_but_what_ends_something() {
    let files = folder(12);
    let small = LogSettings { segment_bytes: 1_000, log_bytes_max: 4_000, ..settings() };
    let (mut log, _, _) = open_at(&files, small, Position::default()).expect("opens");
    let taken = (0..100).take_while(|_| put(&mut log, &[1; 400]).is_ok()).count();
    assert!((5..10).contains(&taken), "{taken}");
    assert!(log.bytes() <= 4_000);
    log.add(RecordKind::Remove, |out| out.extend_from_slice(&[2; 1_000]));
    log.commit(Purpose::End).expect("is taken");
    log.remove(1).expect("is there");
    log.remove(2).expect("is there");
    put(&mut log, &[1; 400]).expect("room");
}

#[test]
fn any_other_error_of_a_write_or_sync_is_final() {
    for (op, error) in [
        (Op::Write, Error::Io),
        (Op::Write, Error::ReadOnly),
        (Op::Sync, Error::Io),
        (Op::Sync, Error::NoSpace),
    ] {
        let files = folder(13);
        let (mut log, _, _) = open(&files);
        let (place, length) = put(&mut log, b"before").expect("room");
        files.fail_after(op, 0, error);
        assert_eq!(put(&mut log, b"not known"), Err(StoreError::Failed), "{op:?} {error:?}");
        assert_eq!(put(&mut log, b"later"), Err(StoreError::Failed));
        assert_eq!((log.sync(), log.roll()), (Err(StoreError::Failed), Err(StoreError::Failed)));
        assert!(log.is_failed());
        log.reader().read(place, length).expect("reading goes on");
        files.crash();
        let (_, records, _) = open(&files);
        assert!(records[0].2 == b"before" && records.len() <= 2);
    }
}

#[test]
fn what_a_failed_sync_left_in_memory_is_made_good_by_the_next_start() {
    for seed in 0..40 {
        let files = folder(seed);
        let (mut log, _, _) = open(&files);
        put(&mut log, b"before").expect("room");
        files.fail_after(Op::Sync, 0, Error::Io);
        assert_eq!(put(&mut log, &[7; 3_000]), Err(StoreError::Failed));
        files.kill();
        let (mut log, records, _) = open(&files);
        assert_eq!(records.len(), 2, "it looks as if it was written");
        put(&mut log, b"after").expect("room");
        files.crash();
        assert_eq!(open(&files).1.len(), 3, "{seed}");
    }
}

#[test]
fn without_a_sync_a_commit_is_with_the_kernel() {
    for fsync in [Fsync::Never, Fsync::Interval(Duration::from_secs(1))] {
        let (mut lost, mut kept) = (0, 0);
        for seed in 0..40 {
            let files = folder(seed);
            let lazy = LogSettings { fsync, ..settings() };
            let (mut log, _, _) = open_at(&files, lazy, Position::default()).expect("opens");
            put(&mut log, b"1").expect("room");
            log.sync().expect("no fault");
            put(&mut log, b"2").expect("room");
            files.crash();
            let count = open(&files).1.len();
            assert!((1..=2).contains(&count));
            (lost, kept) = (lost + 2 - count, kept + count - 1);
        }
        assert!(lost > 0 && kept > 0, "{lost} {kept}");
    }
}

#[test]
fn the_real_disk_keeps_what_it_was_given() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let path = folder.path().join("log-00");
    let files: Arc<dyn FileSystem> = Arc::new(crate::files::Disk);
    let none = &mut |_, _, _: &[u8]| Ok(());
    let (mut log, _) =
        Log::open(Arc::clone(&files), &path, settings(), Position::default(), none).expect("opens");
    let (place, length) = put(&mut log, b"payload").expect("room");
    assert_eq!(log.reader().read(place, length).expect("whole").1, b"payload");
    log.roll().expect("room");
    log.remove(1).expect("is there");
    assert!(matches!(log.reader().read(place, length), Err(ReadError::Gone)));
    let source: Arc<dyn ReadFile> = files.source(&segment_path(&path, 2)).expect("is there");
    let short = source.read_at(1 << 20, &mut [0; 8]).expect_err("is short");
    assert_eq!(short.kind(), io::ErrorKind::UnexpectedEof);
    assert_eq!(source.length().expect("known"), record::SEGMENT_BYTES as u64);
}
