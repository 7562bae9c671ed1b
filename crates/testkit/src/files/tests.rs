//! Each fault really happens, and what was synced survives all of them.

use super::*;
use std::path::PathBuf;

fn folder() -> PathBuf {
    PathBuf::from("/d")
}

fn path() -> PathBuf {
    folder().join("f")
}

/// A file whose name and first bytes are on the disk.
fn with_file(seed: u64) -> (FaultyFiles, Box<dyn File>) {
    let files = FaultyFiles::new(seed);
    files.make_folder(&folder()).expect("no fault");
    files.sync_folder(Path::new("/")).expect("no fault");
    let mut file = files.open(&path()).expect("no fault");
    file.write_at(0, b"synced").expect("no fault");
    file.sync().expect("no fault");
    files.sync_folder(&folder()).expect("no fault");
    (files, file)
}

fn errno(done: io::Result<()>) -> Option<i32> {
    done.expect_err("must fail").raw_os_error()
}

#[test]
fn what_was_synced_is_there_after_every_crash() {
    for seed in 0..200 {
        let (files, mut file) = with_file(seed);
        file.write_at(6, &[1; 5_000]).expect("no fault");
        assert_eq!(files.read(&path()).expect("is there").len(), 5_006, "seen at once");
        files.crash();
        assert!(files.read(&path()).expect("is there").starts_with(b"synced"), "{seed}");
        assert!(file.write_at(0, b"x").is_err(), "a file of the life before");
    }
}

#[test]
fn unsynced_writes_are_lost_torn_and_reordered() {
    let mut all = FaultCounts::default();
    let mut middle_lost = 0;
    for seed in 0..200 {
        let (files, mut file) = with_file(seed);
        for at in 1..6 {
            file.write_at(at * 4_096, &[at as u8; 4_096]).expect("no fault");
        }
        files.crash();
        let FaultCounts { lost, torn, reordered, .. } = files.counts();
        (all.lost, all.torn, all.reordered) =
            (all.lost + lost, all.torn + torn, all.reordered + reordered);
        let bytes = files.read(&path()).expect("is there");
        let holds =
            |at: usize| bytes.get(at * 4_096..).is_some_and(|rest| rest.contains(&(at as u8)));
        middle_lost += u32::from(holds(5) && !holds(1));
    }
    assert!(all.lost > 50 && all.torn > 50 && all.reordered > 50, "{all:?}");
    assert!(middle_lost > 0);
}

#[test]
fn unsynced_names_are_lost() {
    let mut seen = [false; 8];
    for seed in 0..100 {
        let (files, _) = with_file(seed);
        drop(files.open(&folder().join("made")).expect("no fault"));
        files.rename(&path(), &folder().join("renamed")).expect("no fault");
        files.crash();
        let names = files.names(&folder()).expect("is there");
        let has = |name: &str| names.iter().any(|found| found == name);
        assert!(has("f") != has("renamed"), "a rename is whole");
        seen[usize::from(has("made")) * 2 + usize::from(has("renamed"))] = true;
        let (files, _) = with_file(seed);
        files.remove(&path()).expect("no fault");
        files.crash();
        seen[4 + usize::from(files.read(&path()).is_ok())] = true;
    }
    assert_eq!(seen[..6], [true; 6]);
}

#[test]
fn a_file_in_a_folder_that_was_lost_is_lost() {
    let lost = (0..50).filter(|seed| {
        let files = FaultyFiles::new(*seed);
        files.make_folder(&folder()).expect("no fault");
        drop(files.open(&path()).expect("no fault"));
        files.sync_folder(&folder()).expect("no fault");
        files.crash();
        files.names(&folder()).is_err()
    });
    assert!((1..50).contains(&lost.count()));
}

#[test]
fn after_a_failed_sync_the_next_one_proves_nothing() {
    let mut lost = 0;
    for seed in 0..50 {
        let (files, mut file) = with_file(seed);
        files.fail_after(Op::Sync, 0, Error::Io);
        file.write_at(6, b" and more").expect("no fault");
        assert_eq!(errno(file.sync()), Some(5));
        file.sync().expect("says that all is well");
        assert_eq!(files.read(&path()).expect("is there"), b"synced and more");
        files.crash();
        lost += u32::from(files.read(&path()).expect("is there") == b"synced");
    }
    assert!(lost > 10);
}

#[test]
fn calls_fail_when_they_are_told_to() {
    let (files, mut file) = with_file(1);
    files.fail_after(Op::Write, 1, Error::NoSpace);
    file.write_at(6, b"1").expect("not yet");
    assert_eq!(errno(file.write_at(7, b"2")), Some(28));
    file.write_at(7, b"2").expect("no longer");
    files.fail_one_in(Op::Cut, 3, Error::Quota);
    let failed = (0..100).filter(|_| file.cut(7).is_err()).count();
    assert!((10..80).contains(&failed), "{failed}");
    files.fail_one_in(Op::Cut, 0, Error::Quota);
    file.cut(7).expect("no longer");
    files.fail_after(Op::Read, 0, Error::Io);
    assert!(files.read(&path()).is_err() && files.read(&path()).is_ok());
    files.fail_after(Op::Name, 0, Error::ReadOnly);
    assert_eq!(errno(files.remove(&path())), Some(30));
    files.fail_after(Op::SyncFolder, 0, Error::TooLarge);
    assert_eq!(errno(files.sync_folder(&folder())), Some(27));
    assert_eq!(files.counts().errors, failed as u64 + 4);
}

#[test]
fn a_full_disk_takes_a_part_and_has_room_again_after_a_cut() {
    let (files, mut file) = with_file(1);
    files.resize(files.used() + 4_096);
    assert_eq!(errno(file.write_at(4_096, &[1; 8_192])), Some(28));
    assert_eq!(files.read(&path()).expect("is there").len(), 8_192);
    file.cut(4_096).expect("needs no room");
    file.write_at(4_096, &[2; 4_096]).expect("has room again");
    assert_eq!(files.counts().full, 1);
}

#[test]
fn every_change_is_a_point_at_which_the_power_can_fail() {
    let points = with_file(0).0.points();
    assert!(points >= 6, "{points}");
    for n in 0..points {
        let files = FaultyFiles::new(n);
        files.crash_at(n);
        let run = || -> io::Result<()> {
            files.make_folder(&folder())?;
            files.sync_folder(Path::new("/"))?;
            let mut file = files.open(&path())?;
            file.write_at(0, b"synced")?;
            file.sync()?;
            files.sync_folder(&folder())
        };
        assert!(run().is_err() && files.is_off(), "{n}");
        assert!(files.names(Path::new("/")).is_err(), "nothing works until the restart");
        files.crash();
        assert!(run().is_ok(), "{n}");
        assert_eq!(files.read(&path()).expect("is there"), b"synced");
    }
}

#[test]
fn a_process_that_was_killed_loses_nothing_and_proves_nothing() {
    let (files, mut file) = with_file(3);
    file.write_at(6, b"!").expect("no fault");
    files.kill();
    assert!(file.sync().is_err());
    assert_eq!(files.read(&path()).expect("is there"), b"synced!");
    files.rot(&path(), 0, 1);
    assert_eq!(files.read(&path()).expect("is there"), b"rynced!");
}
