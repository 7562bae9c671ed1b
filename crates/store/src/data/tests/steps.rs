//! The step that changes a whole folder, another number of logs, also with a crash at each of its
//! points.

use super::*;

const FOLDER: &str = "/data";

/// State that is lost at every start, so that all of it comes from the log.
fn forgetful() -> Arc<States> {
    Arc::new(|_: &Path, _| Ok(Arc::new(MemoryState::default()) as Arc<dyn State>))
}

fn open_in(files: &FaultyFiles, logs: u16) -> Result<OpenFolder, OpenError> {
    let settings = Settings { segment_bytes: 65_536, ..settings(logs) };
    Folder::open_with(Path::new(FOLDER), settings, Arc::new(files.clone()), forgetful())
}

fn home_of(n: u64, logs: u16) -> u16 {
    base::hash::home(timeline(n).home_hash(), logs)
}

/// An append with a once key, for one of the timelines.
fn once(n: u64) -> Write {
    let (message, to) = (message(n, b"once"), Vec::new());
    let once = Some(OnceKey::at_home(timeline(n).home_hash(), n));
    Write::Append(Append { message, to, once, heard: None, ends: false })
}

/// Timelines with gaps, one without entries, cursors, rows and once keys, among so many logs.
fn fill(opened: &mut OpenFolder, logs: u16) {
    for n in 0..12 {
        let log = home_of(n, logs);
        let seqs = if n == 5 { vec![1, 2, 3] } else { vec![2] };
        let acknowledge =
            Write::Acknowledge { timeline: timeline(n), reader: ReaderId(9), upto: n % 4 };
        let mut writes: Vec<_> = (0..3).map(|id| append(n, n * 10 + id)).collect();
        writes.push(Write::Remove { timeline: timeline(n), seqs });
        writes.push(acknowledge);
        let key = RowHome::at(timeline(n).home_hash()).key(&[b"row"]);
        writes.push(Write::Put { table: Table::Other, key, value: [n as u8].into() });
        writes.push(once(n));
        assert!(opened.commit(1_000, log, &writes).iter().all(Result::is_ok));
    }
    for log in 0..logs {
        assert!(opened.commit(1_000, log, &[put("all", "value")])[0].is_ok());
    }
    opened.settle(1_000).expect("room");
}

/// Whether all of that is there, and in its home.
fn check(opened: &mut OpenFolder, logs: u16, name: &str) {
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
        let key = RowHome::at(timeline.home_hash()).key(&[b"row"]);
        let row = engine.read(Read::Row { table: Table::Other, key });
        assert_eq!(row, Ok(Done::Row(Some([n as u8].into()))), "{name}");
        // A retry gets the first answer, wherever it has gone.
        let again = engine.commit(1_000, &[once(n)]);
        let first = Appended { new: false, id: n, seqs: Vec::new() };
        assert_eq!(again, [Ok(Done::Appended(first))], "{name}");
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
        let mut opened = opened.rehome(1_000).expect("room");
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
    let opened = opened.rehome(1).expect("room");
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
        let done = open_in(&files, 2).and_then(|opened| opened.rehome(1_000));
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
                opened = opened.rehome(1_000).expect(&name);
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
