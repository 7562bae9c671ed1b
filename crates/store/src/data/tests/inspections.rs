//! Findings of a start about records before its checkpoint that the disk has changed.

use super::{Running, append, message, open, settings, timeline};
use crate::LostMessage;
use crate::engine::Inspection;
use model::ports::log::{Done, Page, StoreError, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

const LARGE: usize = 700_000;

/// A folder of one log in whose checkpoint everything is: so many messages of a timeline each, of
/// which every second one is over.
fn folder(messages: u64) -> (TempDir, PathBuf) {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("data");
    let mut opened = open(&path, settings(1)).expect("a first start");
    for n in 1..=messages {
        let remove = Write::Remove { timeline: timeline(n), seqs: vec![1] };
        let writes = if n % 2 == 0 { vec![append(n, n), remove] } else { vec![append(n, n)] };
        assert!(opened.commit(1_000, 0, &writes).iter().all(Result::is_ok));
    }
    opened.settle(1_000).expect("a checkpoint");
    drop(opened);
    (folder, path)
}

fn segment(path: &Path) -> PathBuf {
    path.join("log-00/0000000001.log")
}

/// Changes a bit of the body of a message, which is of its number alone.
fn damage(path: &Path, n: u64) -> u64 {
    let mut bytes = std::fs::read(segment(path)).expect("there");
    let body = [n as u8; 50];
    let at = bytes.windows(50).position(|some| some == body).expect("it stands there");
    bytes[at] ^= 1;
    std::fs::write(segment(path), bytes).expect("written");
    at as u64
}

fn inspect(path: &Path, bytes_max: u64) -> Inspection {
    let settings = crate::data::Settings { inspect_bytes_max: bytes_max, ..settings(1) };
    open(path, settings).expect("it opens").inspections.remove(0)
}

#[test]
fn a_start_names_what_is_lost_before_its_checkpoint_and_nothing_else() {
    let (_folder, path) = folder(40);
    let sound = inspect(&path, 1 << 30);
    assert_eq!((sound.damages.len(), sound.lost_count, sound.bytes_left), (0, 0, 0));
    assert!(sound.bytes > 40 * 50, "all of it was read: {sound:?}");
    let places = [damage(&path, 7), damage(&path, 8), damage(&path, 31)];
    let found = inspect(&path, 1 << 30);
    assert_eq!(found.damages.len(), 3, "{found:?}");
    for (damage, at) in found.damages.iter().zip(places) {
        assert_eq!(damage.file, segment(&path));
        assert!((at - 200..at).contains(&damage.offset), "{damage:?}");
    }
    let lost =
        |n: u64| LostMessage { timeline: timeline(n), seq: 1, id: n, label: [n as u8].into() };
    let mut wanted = vec![lost(7), lost(31)];
    wanted.sort_by_key(|lost| lost.timeline);
    assert_eq!((found.lost, found.lost_count), (wanted, 2), "the eighth was over");
    let unread = inspect(&path, 0);
    assert!(unread.bytes == 0 && unread.bytes_left >= sound.bytes && unread.damages.is_empty());
}

#[test]
fn a_length_that_is_damaged_hides_no_message_behind_it() {
    let (_folder, path) = folder(40);
    let body = damage(&path, 7);
    let mut bytes = std::fs::read(segment(&path)).expect("there");
    // The length of the record stands before its head's checksum and kind, and what it says first.
    let head = inspect(&path, 1 << 30).damages[0].offset;
    assert!(head < body);
    bytes[head as usize + 2] ^= 0x7f;
    std::fs::write(segment(&path), bytes).expect("written");
    let found = inspect(&path, 1 << 30);
    assert_eq!((found.damages.len(), found.lost_count, found.lost[0].id), (1, 1, 7), "{found:?}");
}

#[test]
fn the_newest_records_are_read_first_as_far_as_was_asked_for() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("data");
    let small = crate::data::Settings { segment_bytes: 1 << 20, ..settings(1) };
    let mut opened = open(&path, small).expect("a first start");
    for id in 1..=4 {
        let (message, to) = (message(id, &vec![id as u8; LARGE]), vec![timeline(id)]);
        let (once, heard, ends) = (None, None, false);
        let append = model::ports::log::Append { message, to, once, heard, ends };
        assert!(opened.commit(1_000, 0, &[Write::Append(append)])[0].is_ok());
    }
    opened.settle(1_000).expect("a checkpoint");
    drop(opened);
    damage(&path, 1);
    let all = inspect(&path, 1 << 30);
    assert_eq!((all.lost_count, all.bytes_left), (1, 0));
    let some = inspect(&path, 1 << 20);
    assert_eq!((some.lost_count, some.damages.len()), (0, 0), "it is of the oldest");
    assert!(some.bytes >= 1 << 20 && some.bytes_left >= LARGE as u64, "{some:?}");
    assert!(some.bytes + some.bytes_left >= all.bytes);
}

#[test]
fn a_read_that_finds_a_message_to_be_damaged_tells_whose_it_is() {
    let (_folder, path) = folder(4);
    damage(&path, 3);
    let mut small = settings(1);
    small.hot_bytes_max = 0;
    let opened = open(&path, small).expect("it opens");
    let told = Arc::new(Mutex::new(Vec::new()));
    let hears = Arc::clone(&told);
    opened.tell_lost(move |log, lost| hears.lock().expect("nobody panics").push((log, lost)));
    let mut running = Running::new(opened);
    match running.call(0, vec![super::pull(3)]).remove(0) {
        Ok(Done::Page(Page { messages, damaged, .. })) => {
            assert_eq!((messages.len(), damaged), (0, vec![1]));
        }
        other => panic!("{other:?}, and not {:?}", StoreError::Damaged),
    }
    assert_eq!(running.entries(0, 1), [(1, 1)]);
    let lost = LostMessage { timeline: timeline(3), seq: 1, id: 3, label: [3].into() };
    assert_eq!(*told.lock().expect("nobody panics"), [(0, lost)]);
}
