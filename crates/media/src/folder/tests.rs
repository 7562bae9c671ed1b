//! Files of the folder: whole, once, and gone when they are over.

use super::*;
use std::io::Read;
use tempfile::TempDir;

const ID: [u8; 16] = *b"0123456789abcdef";
const UNTIL_S: u64 = 20_000 * DAY_S + 5;

fn folder(bytes_max: u64) -> (TempDir, Folder) {
    let at = tempfile::tempdir().expect("a folder");
    let folder = Folder::open(&at.path().join("media"), bytes_max).expect("it can be made");
    (at, folder)
}

fn read(folder: &Folder) -> Option<String> {
    let (mut file, bytes) = folder.open_file(&ID, UNTIL_S).ok()?;
    let mut text = String::new();
    file.read_to_string(&mut text).expect("it is text");
    assert_eq!(text.len() as u64, bytes);
    Some(text)
}

fn write(folder: &Folder, text: &str) -> Result<(), Unwritten> {
    let mut written = folder.create(&ID, UNTIL_S, text.len() as u64)?;
    assert_eq!(read(folder), None, "it is not there before it is whole");
    written.write(text.as_bytes())?;
    written.finish()
}

#[test]
fn a_file_is_there_when_it_is_whole_and_once() {
    let (_at, folder) = folder(100);
    write(&folder, "hello").expect("there is room");
    assert_eq!((read(&folder).as_deref(), folder.bytes()), (Some("hello"), 5));
    assert!(matches!(folder.create(&ID, UNTIL_S, 3), Err(Unwritten::Taken)));
    assert_eq!((read(&folder).as_deref(), folder.bytes()), (Some("hello"), 5));
}

#[test]
fn two_at_once_are_one() {
    let (_at, folder) = folder(100);
    let first = folder.create(&ID, UNTIL_S, 3).expect("there is room");
    assert!(matches!(folder.create(&ID, UNTIL_S, 3), Err(Unwritten::Taken)));
    assert_eq!(folder.bytes(), 3);
    drop(first);
    assert_eq!(folder.bytes(), 0);
    write(&folder, "abc").expect("what was given up leaves its place");
}

#[test]
fn a_folder_that_is_full_takes_nothing_and_gives_room_back() {
    let (_at, folder) = folder(5);
    assert!(matches!(folder.create(&ID, UNTIL_S, 6), Err(Unwritten::Full)));
    assert!(matches!(folder.create(&ID, UNTIL_S, u64::MAX), Err(Unwritten::Full)));
    let some = folder.create(&ID, UNTIL_S, 5).expect("just enough");
    assert!(matches!(folder.create(b"another one's id", UNTIL_S, 1), Err(Unwritten::Full)));
    drop(some);
    write(&folder, "hello").expect("there is room again");
}

#[test]
fn what_a_kill_left_is_removed_and_what_is_whole_is_counted() {
    let (at, folder) = folder(100);
    write(&folder, "hello").expect("there is room");
    let other = folder.create(b"another one's id", UNTIL_S, 3).expect("there is room");
    std::mem::forget(other);
    let root = at.path().join("media");
    let folder = Folder::open(&root, 100).expect("it can be opened");
    assert_eq!(folder.bytes(), 5);
    let day = root.join("20000");
    assert_eq!(fs::read_dir(day).expect("it is there").count(), 1);
}

#[test]
fn what_is_over_is_removed_and_nothing_else() {
    let (at, folder) = folder(100);
    write(&folder, "hello").expect("there is room");
    fs::write(at.path().join("media/readme"), "not ours").expect("it can be written");
    assert_eq!(folder.sweep(UNTIL_S).expect("it can be read"), 0, "its day is not over");
    assert_eq!(folder.sweep(20_001 * DAY_S).expect("it can be read"), 1);
    assert_eq!((read(&folder), folder.bytes()), (None, 0));
    assert!(at.path().join("media/readme").exists());
    write(&folder, "again").expect("its place is free");
}
