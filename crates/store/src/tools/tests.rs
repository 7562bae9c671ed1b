//! The tools over folders on the real disk.

use super::*;
use crate::data::tests::{append, message, open as open_data, put_at, settings, timeline};
use crate::log::Origin;
use crate::log::batch::BATCH_HEAD_BYTES;
use crate::log::record::HEAD_BYTES;
use backup::backup;
use base::secret::ClusterSecret;
use check::check;
use compact::compact;
use export::export;
use import::{ImportError, import};
use model::ports::log::{Append, OnceKey, Write};
use model::timeline::{ReaderId, Space};
use salvage::{Salvaged, salvage};
use stats::stats;
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use tempfile::TempDir;
use text::Line;

const NOW_S: u32 = 2_000;

/// A folder with two logs: timelines 0 to 9, rows, a cursor, and much that is dead.
fn filled() -> (TempDir, PathBuf) {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("data");
    let fsync = crate::Fsync::Never;
    let small = Settings { segment_bytes: 65_536, fsync, ..settings(2) };
    let mut opened = open_data(&path, small).expect("opens");
    for n in 0..10 {
        let log = (n % 2) as u16;
        let writes: Vec<_> = (0..5).map(|id| append(n, n * 10 + id)).collect();
        assert!(opened.commit(1_000, log, &writes).iter().all(Result::is_ok));
        for id in 0..20 {
            let message = message(id, &[n as u8; 2_000]);
            let write = Write::Append(Append {
                message,
                to: vec![timeline(n)],
                once: None,
                heard: None,
                ends: false,
            });
            assert!(opened.commit(1_000, log, &[write])[0].is_ok());
        }
        let writes = [
            Write::Remove { timeline: timeline(n), seqs: (4..26).collect() },
            Write::Acknowledge { timeline: timeline(n), reader: ReaderId(3), upto: 2 },
            put_at(n, "value"),
            Write::Append(Append {
                message: message(n, b"once"),
                to: Vec::new(),
                once: Some(OnceKey::at_home(timeline(n).home_hash(), n)),
                heard: None,
                ends: false,
            }),
        ];
        assert!(opened.commit(1_000, log, &writes).iter().all(Result::is_ok));
    }
    opened.settle(1_000).expect("room");
    (folder, path)
}

fn means() -> Means {
    Means::default()
}

fn text_of(path: &Path) -> String {
    let mut text = Vec::new();
    export(path, &means(), NOW_S, &mut text).expect("whole");
    String::from_utf8(text).expect("it is text")
}

/// The lines without those that say which log it was, sorted.
fn lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().filter(|line| !line.contains("log")).collect();
    lines.sort_unstable();
    lines
}

/// A copy of a folder, to be damaged.
fn copy_of(path: &Path) -> (TempDir, PathBuf) {
    fn copy(from: &Path, to: &Path) {
        std::fs::create_dir(to).expect("room");
        for entry in std::fs::read_dir(from).expect("readable") {
            let entry = entry.expect("readable");
            let to = to.join(entry.file_name());
            match entry.file_type().expect("readable").is_dir() {
                true => copy(&entry.path(), &to),
                false => _ = std::fs::copy(entry.path(), to).expect("room"),
            }
        }
    }
    let folder = TempDir::new().expect("a folder");
    let to = folder.path().join("data");
    copy(path, &to);
    (folder, to)
}

/// A filled folder, with records behind its checkpoint.
fn unsettled() -> (TempDir, PathBuf) {
    let (folder, path) = filled();
    let fsync = crate::Fsync::Never;
    let small = Settings { segment_bytes: 65_536, fsync, ..settings(2) };
    let mut opened = open_data(&path, small).expect("opens");
    for n in 0..10 {
        let remove = Write::Remove { timeline: timeline(n), seqs: vec![1] };
        let writes = [append(n, 100 + n), append(n, 200 + n), remove, put_at(n, "later")];
        assert!(opened.commit(1_500, (n % 2) as u16, &writes).iter().all(Result::is_ok));
    }
    (folder, path)
}

/// Content of a folder, line by line of an export, each with its timeline; without its sums.
fn alive(path: &Path) -> BTreeSet<String> {
    alive_in(&text_of(path))
}

fn alive_in(text: &str) -> BTreeSet<String> {
    let (mut all, mut timeline) = (BTreeSet::new(), String::new());
    for line in text.lines().filter(|line| !line.contains("log") && !line.contains("\"end\"")) {
        match line {
            line if line.starts_with("{\"timeline\"") => {
                // The last number may be another one where the last message is lost.
                timeline = line.split(",\"last\"").next().unwrap_or(line).to_owned();
            }
            line if line.starts_with("{\"seq\"") || line.starts_with("{\"reader\"") => {
                assert!(all.insert(format!("{timeline} {line}")), "a place is there once");
            }
            line => _ = all.insert(line.to_owned()),
        }
    }
    all
}

fn flip(file: &Path, at: usize) {
    let mut bytes = std::fs::read(file).expect("readable");
    bytes[at] ^= 1;
    std::fs::write(file, bytes).expect("room");
}

/// A salvage of a folder, and what is alive in the new one, which is sound.
fn salvaged(path: &Path) -> (Salvaged, BTreeSet<String>) {
    let folder = TempDir::new().expect("a folder");
    let to = folder.path().join("new");
    let salvaged = salvage(path, (&to, [7; 32]), (&means(), NOW_S)).expect("it can be salvaged");
    let checked = check(&to, &means(), NOW_S).expect("readable");
    assert!(checked.is_sound(), "{:?}", checked.damages);
    assert_eq!(checked.entries, salvaged.sums.entries);
    (salvaged, alive(&to))
}

#[test]
fn a_damaged_message_costs_an_export_itself_and_is_told() {
    let (_folder, path) = filled();
    let whole = alive(&path);
    let mut lost = 0;
    for at in (100..700).step_by(83) {
        let (_copy, path) = copy_of(&path);
        let file = path.join("log-01").join("0000000001.log");
        flip(&file, at);
        let mut text = Vec::new();
        let exported = export(&path, &means(), NOW_S, &mut text).expect("the rest");
        assert_eq!(exported.damages.len() as u64, exported.lost);
        lost += exported.lost;
        for damage in &exported.damages {
            assert_eq!(damage.file, file);
            assert!((damage.offset as usize) <= at && at < damage.offset as usize + 300, "{at}");
        }
        let text = String::from_utf8(text).expect("text");
        let left = alive_in(&text);
        assert!(left.is_subset(&whole), "byte {at}");
        assert_eq!(left.len() as u64 + exported.lost, whole.len() as u64, "byte {at}");
        let end = Line::read(text.lines().last().expect("a line"));
        assert_eq!(end, Ok(Line::End(exported.sums)));
    }
    assert!(lost > 0, "some byte was a message's");
}

#[test]
fn a_salvage_of_what_is_whole_is_the_same() {
    for path in [filled(), unsettled()] {
        let whole = alive(&copy_of(&path.1).1);
        let (salvaged, alive) = salvaged(&path.1);
        assert!(salvaged.is_whole(), "{:?}", salvaged.damages);
        assert_eq!(alive, whole);
    }
}

#[test]
fn a_salvage_gets_out_what_is_whole_and_tells_the_rest() {
    let (_folder, path) = unsettled();
    let whole = alive(&copy_of(&path).1);
    let log = |path: &Path| path.join("log-01");
    let names = std::fs::read_dir(log(&path)).expect("readable");
    let names = names.map(|entry| entry.expect("readable").file_name());
    let mut names: Vec<_> = names.filter(|name| name.to_string_lossy().ends_with("log")).collect();
    names.sort();
    let last = names.last().expect("a segment").clone();
    // Behind what is in it the last one has zeros.
    let bytes = std::fs::read(log(&path).join(&last)).expect("there");
    let length = bytes.iter().rposition(|byte| *byte != 0).expect("something") + 1;
    let mut cost = 0;
    for at in (0..length).rev().step_by(383).take(15) {
        let (_copy, path) = copy_of(&path);
        flip(&log(&path).join(&last), at);
        let (salvaged, alive) = salvaged(&path);
        assert!(!salvaged.is_whole() || alive == whole, "byte {at}");
        let missing = whole.difference(&alive).count();
        assert!(missing <= 3, "byte {at}: {missing} lines are other than they were");
        cost += missing;
    }
    assert!(cost > 0, "some byte was of something alive");
    // A segment is missing, the end is cut off, state is not there, a whole log is gone.
    for name in [&names[0], &last] {
        let (_copy, path) = copy_of(&path);
        std::fs::remove_file(log(&path).join(name)).expect("there");
        let (salvaged, alive) = salvaged(&path);
        assert!(!salvaged.is_whole() && alive != whole, "{name:?}");
        assert!(alive.len() > whole.len() / 2);
    }
    let (_copy, cut) = copy_of(&path);
    let file = std::fs::OpenOptions::new().write(true).open(log(&cut).join(&last)).expect("there");
    file.set_len(length as u64 - 40).expect("it can be cut");
    let (told, left) = salvaged(&cut);
    assert!(!told.is_whole() && whole.difference(&left).count() <= 2);
    let (_copy, stateless) = copy_of(&path);
    std::fs::remove_dir_all(log(&stateless).join("state")).expect("there");
    let (told, left) = salvaged(&stateless);
    assert!(left.len() > whole.len() / 2, "{told:?}");
    let is_row = |line: &&String| line.contains("\"row\"");
    let rows = |all: &BTreeSet<String>| all.iter().filter(is_row).count();
    assert_eq!(rows(&left), rows(&whole), "{told:?}");
    let (_copy, gone) = copy_of(&path);
    std::fs::remove_dir_all(log(&gone)).expect("there");
    let (told, left) = salvaged(&gone);
    assert!(!told.is_whole() && left.is_subset(&whole) && left.len() >= whole.len() / 2 - 5);
}

#[test]
fn a_whole_folder_is_sound_and_is_counted() {
    let (_folder, path) = filled();
    let checked = check(&path, &means(), NOW_S).expect("readable");
    assert!(checked.is_sound() && checked.torn.is_empty(), "{checked:?}");
    assert_eq!((checked.timelines, checked.entries), (10, 30));
    assert_eq!((checked.rows, checked.cursors, checked.logs), (10, 10, 2));
    assert!(checked.segments > 4 && checked.records > 250 && checked.bytes > 400_000);
    let stats = stats(&path, &means(), NOW_S).expect("readable");
    assert_eq!(stats.len(), 2);
    for log in stats {
        assert_eq!(log.timelines.get(&Space::Pushes), Some(&5));
        assert_eq!(log.entries.get(&Space::Pushes), Some(&15));
        assert_eq!((log.cursors, log.oldest_s), (5, Some(1_000)));
        assert_eq!((log.rows.values().sum::<u64>(), log.replayed), (5, 0));
        assert!(log.checkpoint.segment > 1 && log.sizes.segments > 1);
    }
}

#[test]
fn damage_is_told_with_file_and_byte_and_nothing_is_changed() {
    let (_folder, path) = filled();
    let file = path.join("log-01").join("0000000001.log");
    let whole = std::fs::read(&file).expect("readable");
    for at in [0, 100, 5_000, whole.len() - 1] {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        std::fs::write(&file, &changed).expect("room");
        let checked = check(&path, &means(), NOW_S).expect("readable");
        assert!(!checked.is_sound(), "byte {at}");
        let first = &checked.damages[0];
        assert_eq!(first.file, file);
        assert!(first.offset as usize <= at && at < first.offset as usize + 2_200, "byte {at}");
        assert_eq!(std::fs::read(&file).expect("readable"), changed, "byte {at}");
    }
    let mut changed = whole.clone();
    (changed[100], changed[whole.len() - 1]) = (!whole[100], !whole[whole.len() - 1]);
    std::fs::write(&file, &changed).expect("room");
    let checked = check(&path, &means(), NOW_S).expect("readable");
    assert_eq!(checked.damages.len(), 2, "one does not hide the other: {:?}", checked.damages);
    std::fs::write(&file, &whole).expect("room");
    std::fs::remove_file(path.join("log-00/0000000001.log")).expect("was there");
    let checked = check(&path, &means(), NOW_S).expect("readable");
    assert_eq!(checked.damages.len(), 1);
    assert_eq!(checked.damages[0].file, path.join("log-00/0000000001.log"));
}

#[test]
fn a_torn_tail_is_no_damage() {
    let (_folder, path) = filled();
    let names = std::fs::read_dir(path.join("log-00")).expect("readable");
    let mut segments: Vec<_> = names.map(|entry| entry.expect("readable").path()).collect();
    segments.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    let last = segments.into_iter().max().expect("there are some");
    let mut bytes = std::fs::read(&last).expect("readable");
    bytes.extend_from_slice(&[7; 30]);
    std::fs::write(&last, &bytes).expect("room");
    let checked = check(&path, &means(), NOW_S).expect("readable");
    assert!(checked.is_sound());
    assert_eq!(checked.torn[0].file, last);
    assert_eq!(checked.entries, 30);
}

#[test]
fn an_export_makes_the_same_folder_again_with_any_number_of_logs() {
    let (folder, path) = filled();
    let text = text_of(&path);
    assert!(text.starts_with(r#"{"holdline":"export","version":3,"logs":2,"cluster":"0707"#));
    for logs in [1, 3] {
        let to = folder.path().join(format!("to-{logs}"));
        let made = import(&mut text.as_bytes(), &to, (&means(), NOW_S), (logs, [9; 32]));
        let sums = made.expect("whole");
        assert_eq!((sums.rows, sums.timelines, sums.entries, sums.cursors), (10, 10, 30, 10));
        assert_eq!(sums.once, 10);
        assert!(check(&to, &means(), NOW_S).expect("readable").is_sound());
        let again = text_of(&to);
        assert_eq!(lines(&again), lines(&text));
        let opened = open_data(&to, settings(logs)).expect("opens");
        assert_eq!(opened.logs_on_disk(), logs);
        let secrets = Secrets { node: [9; 32], ..Secrets::of([7; 64]) };
        assert!(opened.secrets == secrets, "the cluster's is the export's, the node's its own");
    }
}

#[test]
fn an_import_says_which_line_is_wrong_and_makes_no_folder() {
    let (folder, path) = filled();
    let text = text_of(&path);
    let first = text.lines().next().expect("there is one");
    let all: Vec<_> = text.lines().collect();
    let without_end = all[..all.len() - 1].join("\n");
    let without_one = [&all[..9], &all[10..]].concat().join("\n");
    for (at, (bad, line, why)) in [
        (String::new(), 0, "first line"),
        ("{\"log\":0}\n".into(), 1, "first line"),
        (format!("{first}\nnonsense\n"), 2, "flat JSON"),
        (format!("{first}\n{{\"reader\":1,\"upto\":1}}\n"), 2, "no timeline"),
        (format!("{first}\n{first}\n"), 2, "another export"),
        (without_end, all.len() as u64, "ends before"),
        (without_one, all.len() as u64 - 1, "but there were"),
    ]
    .into_iter()
    .enumerate()
    {
        let to = folder.path().join(format!("bad-{at}"));
        let made = import(&mut bad.as_bytes(), &to, (&means(), NOW_S), (1, [9; 32]));
        match made.expect_err("must not be taken") {
            ImportError::Line { number, why: told } => {
                assert!(told.contains(why), "{told}");
                assert_eq!(number, line, "{told}");
            }
            ImportError::Folder(error) => panic!("{error}"),
        }
        assert!(!to.join("FORMAT").exists());
    }
    let made = import(&mut text.as_bytes(), &path, (&means(), NOW_S), (2, [9; 32]));
    assert!(matches!(made, Err(ImportError::Folder(OpenError::HasCluster { .. }))));
}

#[test]
fn a_compaction_drops_what_is_dead_and_nothing_else() {
    let (_folder, path) = filled();
    let before = text_of(&path);
    let compacted = compact(&path, &means(), NOW_S).expect("room");
    assert!(compacted.after_bytes * 4 < compacted.before_bytes, "{compacted:?}");
    let again = compact(&path, &means(), NOW_S).expect("room");
    let epochs = 2 * (BATCH_HEAD_BYTES + HEAD_BYTES + Origin::BYTES) as u64;
    assert_eq!(again.before_bytes, compacted.after_bytes + epochs, "one a log and opening");
    assert_eq!(text_of(&path), before);
    assert!(check(&path, &means(), NOW_S).expect("readable").is_sound());
}

#[test]
fn a_backup_of_a_folder_at_rest_is_the_same() {
    let (folder, path) = filled();
    let to = folder.path().join("copy");
    let copied = backup(&path, &to, &means(), NOW_S).expect("room");
    assert!(copied.segments > 4);
    assert_eq!(text_of(&to), text_of(&path));
    assert!(check(&to, &means(), NOW_S).expect("readable").is_sound());
    assert!(backup(&path, &to, &means(), NOW_S).is_err(), "never over another");
}

#[test]
fn a_secret_is_shown_and_is_set_only_where_nothing_is_stored() {
    let (folder, path) = filled();
    let (given, own) = (ClusterSecret::new([5; 32]), Secrets::of([7; 64]).cluster);
    assert_eq!(secret::read(&path, &means()).expect("there"), own);
    assert!(matches!(secret::set(&path, given, &means()), Err(OpenError::HasCluster { .. })));
    let used = folder.path().join("used");
    let opened = open_data(&used, settings(1)).expect("opens");
    assert_eq!(secret::read(&used, &means()).expect("also of one in use"), own);
    assert!(secret::set(&used, given, &means()).is_err());
    drop(opened);
    let foreign = folder.path();
    assert!(matches!(secret::set(foreign, given, &means()), Err(OpenError::Foreign { .. })));
    let new = folder.path().join("new/data");
    assert!(secret::read(&new, &means()).is_err() && !new.exists());
    for _ in 0..2 {
        secret::set(&new, given, &means()).expect("it is new");
    }
    let mode = std::fs::metadata(new.join("cluster.secret")).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let opened = open_data(&new, settings(1)).expect("opens");
    assert!(opened.secrets == Secrets { cluster: given, node: [7; 32] });
    drop(opened);
    assert!(matches!(secret::set(&new, given, &means()), Err(OpenError::HasCluster { .. })));
}

#[test]
fn tools_make_no_folder_and_touch_none_that_is_in_use() {
    let (folder, path) = filled();
    let none = folder.path().join("none");
    assert!(check(&none, &means(), NOW_S).is_err() && !none.exists());
    let opened = open_data(&path, settings(2)).expect("opens");
    assert!(matches!(check(&path, &means(), NOW_S), Err(OpenError::Locked { .. })));
    drop(opened);
    assert!(check(&path, &means(), NOW_S).is_ok());
}
