//! The steps that change a whole folder: the upgrade from format 1 and another number of logs, also
//! with a crash at each of their points.

use super::*;
use crate::version_1::{entry, record};
use model::id::{DeviceId, MessageId, ProductKey};
use model::ports::journal::Entry;
use model::push::{Priority, Push};

const FOLDER: &str = "/data";

/// State that is lost at every start, so that all of it comes from the log.
fn forgetful() -> Arc<States> {
    Arc::new(|_: &Path, _| Ok(Arc::new(MemoryState::default()) as Arc<dyn State>))
}

fn open_in(files: &FaultyFiles, logs: u16) -> Result<Opened, OpenError> {
    let settings = Settings { segment_bytes: 65_536, ..settings(logs) };
    Folder::open_with(Path::new(FOLDER), settings, Arc::new(files.clone()), forgetful())
}

/// Where a timeline or row lives among so many logs.
fn home(logs: u16) -> impl Fn(Restored<'_>) -> Option<u16> {
    move |restored| match restored {
        Restored::Row { key, .. } => (key != b"all").then(|| u16::from(key[0]) % logs),
        Restored::Entry { timeline, .. } => Some(base::hash::home(timeline.home_hash(), logs)),
    }
}

fn home_of(n: u64, logs: u16) -> u16 {
    base::hash::home(timeline(n).home_hash(), logs)
}

/// Timelines with gaps, one without entries, cursors and rows, among so many logs.
fn fill(opened: &mut Opened, logs: u16) {
    for n in 0..12 {
        let log = home_of(n, logs);
        let seqs = if n == 5 { vec![1, 2, 3] } else { vec![2] };
        let acknowledge =
            Write::Acknowledge { timeline: timeline(n), reader: ReaderId(9), upto: n % 4 };
        let mut writes: Vec<_> = (0..3).map(|id| append(n, n * 10 + id)).collect();
        writes.push(Write::Remove { timeline: timeline(n), seqs });
        writes.push(acknowledge);
        let key = format!("{n}");
        let row = u16::from(key.as_bytes()[0]) % logs;
        assert!(opened.commit(1_000, log, &writes).iter().all(Result::is_ok));
        assert!(opened.commit(1_000, row, &[put(&key, "value")])[0].is_ok());
    }
    for log in 0..logs {
        assert!(opened.commit(1_000, log, &[put("all", "value")])[0].is_ok());
    }
    opened.settle(1_000).expect("room");
}

/// Whether all of that is there, and in its home.
fn check(opened: &mut Opened, logs: u16, name: &str) {
    assert_eq!(opened.logs_on_disk(), logs, "{name}");
    for n in 0..12 {
        let log = usize::from(home_of(n, logs));
        let engine = &mut opened.logs[log].engine;
        let (timeline, reader) = (timeline(n), ReaderId(9));
        let standing = engine.read(Read::Standing { timeline, reader });
        let (count, cursor) = (if n == 5 { 0 } else { 2 }, n % 4);
        let Ok(Done::Standing(standing)) = standing else { panic!("{name}: {standing:?}") };
        assert_eq!((standing.last, standing.count, standing.cursor), (3, count, cursor), "{name}");
        let page = engine.read(Read::Pull(Pull {
            timeline,
            from: 0,
            backwards: false,
            count_max: 10,
            bytes_max: 10_000,
        }));
        let Ok(Done::Page(page)) = page else { panic!("{name}: {page:?}") };
        let found: Vec<_> =
            page.messages.iter().map(|placed| (placed.seq, placed.message.id)).collect();
        let expected = if n == 5 { vec![] } else { vec![(1, n * 10), (3, n * 10 + 2)] };
        assert_eq!(found, expected, "{name}");
    }
    let rows: usize = (0..logs)
        .map(|log| restored(opened, log).iter().filter(|told| !told.contains(':')).count())
        .sum();
    assert_eq!(rows, 12 + usize::from(logs), "{name}");
}

#[test]
fn with_another_number_of_logs_everything_gets_a_new_home() {
    let folder = TempDir::new().expect("a folder");
    let mut opened = open(folder.path(), settings(3)).expect("opens");
    fill(&mut opened, 3);
    check(&mut opened, 3, "before");
    drop(opened);
    let mut before = 3;
    for logs in [2, 5, 1] {
        let opened = open(folder.path(), settings(logs)).expect("opens");
        assert_eq!(opened.logs_on_disk(), before);
        let mut opened = opened.rehome(1_000, &home(logs)).expect("room");
        check(&mut opened, logs, "at once");
        drop(opened);
        let mut opened = open(folder.path(), settings(logs)).expect("opens");
        check(&mut opened, logs, "later");
        before = logs;
    }
    let opened = open(folder.path(), settings(2)).expect("opens");
    let not_yet = opened.start(Arc::new(|| 1), |_, _| {});
    assert!(not_yet.is_err(), "rehome comes first");
}

#[test]
fn timelines_of_one_name_that_meet_follow_one_another() {
    let folder = TempDir::new().expect("a folder");
    let mut opened = open(folder.path(), settings(2)).expect("opens");
    opened.commit(1, 0, &[append(1, 1), append(1, 2)]);
    opened.commit(1, 1, &[append(1, 11), append(1, 12), append(1, 13)]);
    drop(opened);
    let opened = open(folder.path(), settings(1)).expect("opens");
    let opened = opened.rehome(1, &home(1)).expect("room");
    let found = restored(&opened, 0);
    assert_eq!(found, ["1: 1", "2: 2", "3: 11", "4: 12", "5: 13"]);
}

#[test]
fn a_crash_while_rehoming_leaves_the_old_logs_or_the_new() {
    let (mut old, mut new) = (0, 0);
    let mut point = 0;
    loop {
        let name = format!("point {point}");
        let files = FaultyFiles::new(point);
        let mut opened = open_in(&files, 3).expect("opens");
        fill(&mut opened, 3);
        drop(opened);
        files.sync_folder(Path::new("/")).expect("no fault");
        files.crash_at(files.points() + point);
        let done = open_in(&files, 2).and_then(|opened| opened.rehome(1_000, &home(2)));
        let done = done.map(drop);
        if !files.is_off() {
            done.expect("no fault");
            break;
        }
        files.crash();
        let mut opened = open_in(&files, 2).unwrap_or_else(|error| panic!("{name}: {error}"));
        match opened.logs_on_disk() {
            3 => {
                old += 1;
                check(&mut opened, 3, &name);
                opened = opened.rehome(1_000, &home(2)).expect(&name);
            }
            _ => new += 1,
        }
        check(&mut opened, 2, &name);
        let names = files.names(Path::new(FOLDER)).expect("readable");
        assert!(!names.iter().any(|name| name.ends_with(".new") || name == "log-02"), "{names:?}");
        point += 1;
    }
    assert!(old > 10 && new > 3, "{old} {new}");
}

fn waits(id: u64) -> Entry {
    let push = Push {
        id: MessageId(id),
        product: ProductKey::parse("p").expect("allowed"),
        app_id: 1,
        body: [id as u8; 40].into(),
        collapse: None,
        expire_at: 2_000_000_000,
        priority: Priority::High,
        silent: false,
    };
    Entry::Waits { push: Arc::new(push), device: DeviceId::parse("d").expect("allowed") }
}

/// The files of a folder of format 1 with these waits.
fn version_1(ids: &[u64]) -> Vec<(&'static str, Vec<u8>)> {
    let mut journal = Vec::new();
    record::write_segment(1, 0, &mut journal);
    for id in ids {
        let waits = waits(*id);
        if let Entry::Waits { push, .. } = &waits {
            entry::write_body(push, &mut journal);
        }
        entry::write(&waits, &mut journal);
    }
    vec![
        ("FORMAT", b"holdline data 1\n".to_vec()),
        ("node.secret", vec![9; 32]),
        ("reserve", vec![0; 256 * 1024]),
        ("journal/0000000001.log", journal),
    ]
}

#[test]
fn a_folder_of_format_1_stays_one_until_everything_is_entered() {
    let mut point = 0;
    let (mut old, mut new) = (0, 0);
    loop {
        let name = format!("point {point}");
        let files = FaultyFiles::new(point);
        lay_version_1(&files, &[1, 2, 3]);
        files.crash_at(files.points() + point);
        let done = upgrade(&files);
        if !files.is_off() {
            done.expect("no fault");
            break;
        }
        files.crash();
        let opened = open_in(&files, 2).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(opened.secret, [9; 32], "{name}");
        match &opened.version_1 {
            Some(found) => {
                old += 1;
                assert_eq!(found.entries, [1, 2, 3].map(waits), "{name}");
                assert_eq!((found.last_id, &found.torn), (3, &None), "{name}");
                assert!(restored(&opened, 0).is_empty(), "{name}: nothing is entered twice");
                drop(opened);
                upgrade(&files).expect(&name);
            }
            None => new += 1,
        }
        let opened = open_in(&files, 2).expect(&name);
        assert_eq!(restored(&opened, 0), ["1: 1", "2: 2", "3: 3"], "{name}");
        let names = files.names(Path::new(FOLDER)).expect("readable");
        assert!(!names.iter().any(|name| name == "journal" || name == "reserve"), "{names:?}");
        point += 1;
    }
    assert!(old > 10 && new > 1, "{old} {new}");
}

fn upgrade(files: &FaultyFiles) -> Result<(), OpenError> {
    let mut opened = open_in(files, 2)?;
    let found = opened.version_1.clone().unwrap_or_default();
    let ids = found.entries.iter().map(|entry| match entry {
        Entry::Waits { push, .. } => push.id.0,
        other => panic!("{other:?}"),
    });
    let writes: Vec<_> = ids.map(|id| append(1, id)).collect();
    opened.commit(1, 0, &writes);
    opened.upgraded(1)?;
    let again = opened.upgraded(1);
    assert!(again.is_ok(), "there is nothing more to do");
    Ok(())
}

/// Puts them on a disk.
fn lay_version_1(files: &FaultyFiles, ids: &[u64]) {
    let root = Path::new(FOLDER);
    files.make_folder(&root.join("journal")).expect("no fault");
    for (name, bytes) in version_1(ids) {
        let mut file = files.open(&root.join(name)).expect("no fault");
        file.write_at(0, &bytes).and_then(|()| file.sync()).expect("no fault");
    }
    for folder in [Path::new("/"), root, &root.join("journal")] {
        files.sync_folder(folder).expect("no fault");
    }
}
