//! Each limit of a batch exactly, and one byte beyond.

use super::*;
use crate::log::reserve::RESERVE_BYTES;

/// Bytes of a batch with a payload of ten, its first record included, on a log that is synced.
fn batch_of_ten(log: &mut Log) -> u64 {
    let before = log.last.bytes;
    put(log, &[1; 10]).expect("room");
    log.last.bytes - before
}

#[test]
fn a_batch_fills_the_log_and_the_disk_as_far_as_it_may() {
    let by_the_log = |log: &mut Log, left: u64| log.settings.log_bytes_max = log.bytes + left;
    let by_the_disk = |log: &mut Log, left: u64| {
        (log.state_room, log.unlooked) = (log.free_bytes() - left, 0);
    };
    for limit in [&by_the_log as &dyn Fn(&mut Log, u64), &by_the_disk] {
        let files = folder(21);
        let (mut log, _, _) = open(&files);
        assert_eq!(log.state_room, STATE_ROOM_MAX, "of a disk without end");
        let bytes = batch_of_ten(&mut log);
        limit(&mut log, bytes - 1);
        let end = log.last.end();
        assert_eq!(put(&mut log, &[2; 10]), Err(StoreError::Full));
        assert!(log.is_full() && log.last.end() == end && log.batch_bytes() == 0);
        limit(&mut log, bytes);
        put(&mut log, &[3; 10]).expect("as much as there may be");
        limit(&mut log, 0);
        log.add(RecordKind::Remove, |_| {});
        log.commit(Purpose::End).expect("what ends something has room");
    }
}

#[test]
fn a_disk_that_had_plenty_is_asked_again_after_so_many_bytes() {
    let files = folder(24);
    let (mut log, _, _) = open(&files);
    put(&mut log, &[1; 10]).expect("room");
    files.resize(files.used() + STATE_ROOM_MAX); // somebody else wrote
    let before = log.bytes();
    let refused = (0..1_000).find_map(|_| put(&mut log, &[2; 1_000]).err());
    assert_eq!(refused, Some(StoreError::Full));
    let written = log.bytes() - before;
    assert!(written > 0 && written <= LOOK_BYTES, "{written}");
    assert!(put(&mut log, &[3; 1_000]).is_err(), "where room is scarce it is asked every time");
    files.resize(u64::MAX);
    put(&mut log, &[4; 1_000]).expect("room again");
}

#[test]
fn state_is_left_an_eighth_of_what_the_log_could_have() {
    let files = folder(22);
    let (mut log, _, _) = open(&files);
    put(&mut log, &[1; 80_000]).expect("room");
    log.shorten().expect("no fault");
    drop(log);
    files.resize(files.used() + (8 << 20));
    let (log, _, _) = open(&files);
    let epoch = (BATCH_HEAD_BYTES + record::HEAD_BYTES + Origin::BYTES) as u64;
    assert_eq!(log.state_room, (8 << 20) / 8 + (log.bytes - epoch) / 8);
}

#[test]
fn a_segment_is_followed_when_it_is_as_long_as_it_may_be() {
    let files = folder(23);
    let endless = LogSettings { segment_bytes: u64::MAX, ..settings() };
    let (log, _, _) = open_at(&files, endless, Position::default()).expect("opens");
    assert_eq!(log.settings.segment_bytes, SEGMENT_BYTES_MAX, "whatever is asked for");
    drop(log);
    let (mut log, _, _) = open(&files);
    put(&mut log, &[1; 10]).expect("room");
    log.settings.segment_bytes = log.last.bytes + 1;
    assert_eq!(put(&mut log, &[2; 10]).expect("room").0.segment, 1);
    log.settings.segment_bytes = log.last.bytes;
    assert_eq!(put(&mut log, &[3; 10]).expect("room").0.segment, 2);
}

/// On the real disk, where a file may have a hole.
#[test]
fn no_batch_goes_beyond_what_an_offset_can_say() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let (files, none) = (Arc::new(crate::files::Disk), &mut |_, _, _: &[u8]| Ok(()));
    let lazy = LogSettings { fsync: Fsync::Never, ..settings() };
    let path = folder.path().join("log-00");
    let (mut log, _) = Log::open(files, &path, lazy, Position::default(), none).expect("opens");
    log.settings.segment_bytes = u64::MAX; // it grows on where the next finds no room
    put(&mut log, &[1; 10]).expect("room");
    let before = log.last.bytes;
    put(&mut log, &[1; 10]).expect("room");
    let bytes = log.last.bytes - before;
    log.last.bytes = OFFSET_MAX - bytes + 1;
    assert_eq!(put(&mut log, &[2; 10]), Err(StoreError::Full));
    log.last.bytes = OFFSET_MAX - bytes;
    let (place, _) = put(&mut log, &[3; 10]).expect("it ends at the last offset");
    assert_eq!(u64::from(place.offset), OFFSET_MAX - bytes + BATCH_HEAD_BYTES as u64);
    let end = Place { segment: 1, offset: u32::MAX };
    assert_eq!((log.last.bytes, log.ahead()), (OFFSET_MAX, end));
    assert_eq!(log.add(RecordKind::Put, |_| {}).0, end, "a place that commit refuses");
    assert_eq!((log.ahead(), log.commit(Purpose::End)), (end, Err(StoreError::Full)));
}

#[test]
fn the_reserve_is_spent_in_parts_and_made_whole_before_anything_else() {
    let files = folder(24);
    let (mut log, _, _) = open(&files);
    let reserve = || files.read(Path::new("/log/reserve")).expect("it is there").len() as u64;
    put(&mut log, b"before").expect("room");
    assert_eq!(reserve(), RESERVE_BYTES);
    log.shorten().expect("no fault");
    files.resize(files.used());
    log.add(RecordKind::Remove, |out| out.extend_from_slice(&[1; 8_192]));
    log.commit(Purpose::End).expect("the reserve has room");
    assert_eq!(reserve(), ENDING_BYTES);
    files.resize(files.used());
    log.add(RecordKind::Remove, |out| out.extend_from_slice(&[2; 8_192]));
    assert_eq!(log.commit(Purpose::End), Err(StoreError::Full), "no more than that part");
    log.roll().expect("the rest has room");
    assert_eq!(reserve(), ROLLING_BYTES);
    log.spend_reserve().expect("no fault");
    assert_eq!(reserve(), 0);
    files.resize(u64::MAX);
    put(&mut log, b"after").expect("room");
    assert_eq!(reserve(), RESERVE_BYTES);
}
