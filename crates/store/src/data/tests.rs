//! The folder and its threads as the roof sees them: on the real disk, and on one that loses its
//! power in the middle of everything.

mod inspections;
mod steps;

use super::*;
use crate::engine::{MemoryState, State};
use crate::files::Disk;
use crate::{Fsync, OpenError};
use base::hash::HashKey;
use base::secret::ClusterSecret;
use model::id::ShardId;
use model::ports::files::FileSystem;
use model::ports::log::*;
use model::service::ServiceKind;
use model::timeline::{Message, ReaderId, Seq, Space, TimelineId};
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use testkit::files::FaultyFiles;

const SHARD: Party = Party::Service(ServiceKind::Push, ShardId(0));

pub(crate) fn settings(logs: u16) -> Settings {
    Settings::new(Secrets::of([7; 64]), logs)
}

pub(crate) fn timeline(n: u64) -> TimelineId {
    TimelineId::of(Space::Pushes, HashKey::new(1, 2), &[&n.to_le_bytes()])
}

pub(crate) fn message(id: u64, body: &[u8]) -> Arc<Message> {
    Arc::new(Message { id, at_s: 1_000, label: [id as u8].into(), body: body.into() })
}

pub(crate) fn append(n: u64, id: u64) -> Write {
    let message = message(id, &[id as u8; 50]);
    Write::Append(Append { message, to: vec![timeline(n)], once: None, heard: None, ends: false })
}

pub(crate) fn put(key: &str, value: &str) -> Write {
    Write::Put { table: Table::Other, key: key.as_bytes().into(), value: value.as_bytes().into() }
}

/// A row that lives where this timeline does.
pub(crate) fn put_at(n: u64, value: &str) -> Write {
    let key = RowHome::at(timeline(n).home_hash()).key(&[&n.to_be_bytes()]);
    Write::Put { table: Table::Other, key, value: value.as_bytes().into() }
}

fn pull(n: u64) -> Call {
    let (timeline, count_max, bytes_max) = (timeline(n), 1_000, usize::MAX);
    Call::Read(Read::Pull(Pull { timeline, from: 0, backwards: false, count_max, bytes_max }))
}

pub(crate) fn open(folder: &Path, settings: Settings) -> Result<OpenFolder, OpenError> {
    Folder::open(folder, settings, Arc::new(Disk))
}

/// Running logs, and what they complete.
struct Running {
    logs: Logs,
    done: Receiver<(Party, Vec<Completion>)>,
    ticket: Ticket,
}

impl Running {
    fn new(opened: OpenFolder) -> Running {
        let (tell, done) = sync_channel(10_000);
        let on_complete = move |party, completed| tell.send((party, completed)).unwrap_or(());
        let logs = opened.start(Arc::new(|| 2_000), on_complete).expect("starts");
        Running { logs, done, ticket: 0 }
    }

    /// Hands calls over, and their answers in the order of their tickets.
    fn call(&mut self, log: u16, calls: Vec<Call>) -> Vec<Result<Done, StoreError>> {
        let count = calls.len();
        let first = self.ticket;
        self.ticket += count as u64;
        let ticketed = calls.into_iter().enumerate().map(|(at, call)| (first + at as u64, call));
        self.logs.submit(SHARD, log, ticketed.collect()).expect("room");
        let mut answers = Vec::new();
        while answers.len() < count {
            let (party, completed) =
                self.done.recv_timeout(Duration::from_secs(300)).expect("is completed");
            assert_eq!(party, SHARD);
            answers.extend(completed);
        }
        answers.sort_by_key(|(ticket, _)| *ticket);
        assert_eq!(answers[0].0, first);
        answers.into_iter().map(|(_, answer)| answer).collect()
    }

    fn write(&mut self, log: u16, write: Write) -> Result<Done, StoreError> {
        self.call(log, vec![Call::Write(write)]).remove(0)
    }

    /// Places and ids of a timeline.
    fn entries(&mut self, log: u16, n: u64) -> Vec<(Seq, u64)> {
        match self.call(log, vec![pull(n)]).remove(0) {
            Ok(Done::Page(Page { messages, more: false, .. })) => {
                messages.iter().map(|placed| (placed.seq, placed.message.id)).collect()
            }
            other => panic!("{other:?}"),
        }
    }
}

fn restored(opened: &OpenFolder, log: u16) -> Vec<String> {
    let mut all = Vec::new();
    let mut each = |restored: Restored<'_>| {
        match restored {
            Restored::Row { key, .. } => all.push(String::from_utf8_lossy(key).into_owned()),
            Restored::Timeline { .. } => {}
            Restored::Entry { seq, id, .. } => all.push(format!("{seq}: {id}")),
        }
        true
    };
    opened.restore(log, &mut each).expect("readable");
    all
}

fn refused(folder: &Path, logs: u16) -> OpenError {
    open(folder, settings(logs)).map(|_| ()).expect_err("must not open")
}

#[test]
fn what_was_completed_is_there_after_a_restart() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("a/b");
    let opened = open(&path, settings(2)).expect("opens");
    assert!(opened.secrets == Secrets::of([7; 64]));
    assert_eq!((opened.logs_on_disk(), opened.found.len()), (2, 2));
    let mut running = Running::new(opened);
    let calls = vec![
        Call::Write(append(1, 10)),
        pull(1),
        Call::Write(append(1, 11)),
        Call::Write(put("a", "1")),
        Call::Write(Write::Remove { timeline: timeline(1), seqs: vec![1] }),
    ];
    let answers = running.call(0, calls);
    let appended = |seq, id| Ok(Done::Appended(Appended { new: true, id, seqs: vec![seq] }));
    assert_eq!((&answers[0], &answers[2]), (&appended(1, 10), &appended(2, 11)));
    assert_eq!((&answers[3], &answers[4]), (&Ok(Done::Written), &Ok(Done::Written)));
    assert!(matches!(&answers[1], Ok(Done::Page(_))), "it sees what was before it, or more");
    assert_eq!(running.entries(0, 1), [(2, 11)]);
    assert_eq!(running.write(1, put("b", "2")), Ok(Done::Written));
    assert!(running.logs.sizes()[0].engine.log_bytes > 0);
    drop(running);
    let other = Settings { secrets: Secrets::of([1; 64]), ..settings(2) };
    let opened = open(&path, other).expect("opens");
    assert!(opened.secrets == Secrets::of([7; 64]), "the first secrets stay");
    assert_eq!(
        (restored(&opened, 0), restored(&opened, 1)),
        (vec!["a".into(), "2: 11".into()], vec!["b".into()])
    );
    assert_eq!(opened.found[0].log.records, 0, "a checkpoint was made at the end");
    assert!(matches!(refused(&path, 2), OpenError::Locked { pid: Some(_), .. }));
    drop(opened);
    open(&path, settings(2)).expect("is free again");
}

#[test]
fn a_writer_that_makes_its_checkpoints_itself_completes_everything() {
    let folder = TempDir::new().expect("a folder");
    let small = || Settings { index_changes_bytes: 1, ..settings(1) };
    let mut running = Running::new(open(folder.path(), small()).expect("opens"));
    for id in 1..=100 {
        let calls = (0..20).map(|n| Call::Write(append(n, id))).collect();
        assert!(running.call(0, calls).iter().all(Result::is_ok));
    }
    assert_eq!(running.entries(0, 19).len(), 100);
    drop(running);
    let mut running = Running::new(open(folder.path(), small()).expect("opens"));
    assert_eq!(running.entries(0, 7), (1..=100).map(|id| (id, id)).collect::<Vec<_>>());
}

#[test]
fn every_start_has_a_number_above_those_before_it() {
    let place = TempDir::new().expect("a folder");
    let boot = |began_ms| {
        let opened = open(place.path(), Settings { began_ms, ..settings(1) }).expect("opens");
        assert_eq!(opened.node, model::id::NodeId::ALONE);
        opened.boot
    };
    let given = [0, 0, 1_000, 999, 5_000].map(boot);
    assert_eq!(given, [1, 2, 1_000, 1_001, 5_000], "though the clock went back");
    assert_eq!(open(place.path(), settings(3)).expect("opens").boot, 5_001);
    let file = place.path().join("boot");
    assert_eq!(std::fs::read(&file).expect("there"), b"00000000000000005001\n");
    std::fs::write(&file, "torn").expect("room");
    assert_eq!(boot(6_000), 6_000);
    assert_eq!(boot(6_000), 6_001);
}

#[test]
fn when_too_much_waits_calls_come_back() {
    let folder = TempDir::new().expect("a folder");
    let few = Settings { calls_waiting_max: 3, ..settings(1) };
    let opened = open(folder.path(), few).expect("opens");
    let (gate, tell) = (Arc::new(Mutex::new(())), sync_channel(100));
    let (told, done) = tell;
    let (held, closed) = (Arc::clone(&gate), gate.lock().expect("no panic"));
    let on_complete = move |_, completed: Vec<Completion>| {
        told.send(completed.len()).unwrap_or(());
        drop(held.lock().expect("no panic"));
    };
    let logs = opened.start(Arc::new(|| 1), on_complete).expect("starts");
    logs.submit(SHARD, 0, vec![(0, Call::Write(append(1, 1)))]).expect("room");
    assert_eq!(done.recv_timeout(Duration::from_secs(300)), Ok(1)); // the writer is held now
    let three: Vec<_> = (1..4).map(|n| (n, Call::Write(append(1, n)))).collect();
    logs.submit(SHARD, 0, three.clone()).expect("room");
    assert_eq!(logs.sizes()[0].calls_waiting, 3);
    assert_eq!(logs.submit(Party::Hooks, 0, three.clone()), Err(three));
    drop(closed);
    logs.close();
    assert_eq!(done.iter().take(1).sum::<usize>(), 3, "what was taken is completed at the end");
    let late = vec![(9, Call::Write(append(1, 9)))];
    assert_eq!(logs.submit(SHARD, 0, late.clone()), Err(late));
}

#[test]
fn a_folder_that_is_not_ours_is_left_alone() {
    let folder = TempDir::new().expect("a folder");
    std::fs::write(folder.path().join("letter"), "dear").expect("room");
    match refused(folder.path(), 1) {
        OpenError::Foreign { found, .. } => assert_eq!(found, "letter"),
        other => panic!("{other}"),
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 1);
    assert!(matches!(refused(&folder.path().join("letter"), 1), OpenError::NotAFolder { .. }));
}

#[test]
fn a_folder_of_another_format_is_refused_and_left_as_it_is() {
    for text in ["holdline data 1\n", "holdline data 5\nlogs 1\n", "holdline data 7\nlogs 1\n"] {
        let folder = TempDir::new().expect("a folder");
        std::fs::write(folder.path().join("FORMAT"), text).expect("room");
        std::fs::create_dir(folder.path().join("journal")).expect("room");
        match refused(folder.path(), 1) {
            OpenError::UnknownFormat { found, .. } => assert_eq!(found, text.trim()),
            other => panic!("{other}"),
        }
        assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 2, "{text}");
    }
}

#[test]
fn a_log_that_is_missing_is_damage() {
    let folder = TempDir::new().expect("a folder");
    drop(open(folder.path(), settings(2)).expect("opens"));
    std::fs::remove_dir_all(folder.path().join("log-01")).expect("was there");
    match refused(folder.path(), 2) {
        OpenError::Corrupt { path, why, .. } => {
            assert_eq!((path, why), (folder.path().join("log-01"), "the log is missing"));
        }
        other => panic!("{other}"),
    }
    std::fs::create_dir(folder.path().join("log-01")).expect("room");
    for name in [folder::NODE_SECRET, folder::CLUSTER_SECRET] {
        std::fs::remove_file(folder.path().join(name)).expect("was there");
        assert!(matches!(refused(folder.path(), 2), OpenError::Corrupt { .. }), "{name}");
    }
}

#[test]
fn a_folder_under_another_clusters_secret_is_refused() {
    let place = TempDir::new().expect("a folder");
    drop(open(place.path(), settings(2)).expect("opens"));
    let path = place.path().join(folder::CLUSTER_SECRET);
    std::fs::write(&path, [8; 32]).expect("room");
    match refused(place.path(), 2) {
        OpenError::OtherCluster { path: told, found, wanted } => {
            let of = |bytes| ClusterSecret::new(bytes).fingerprint();
            assert_eq!((told, found, wanted), (path.clone(), of([8; 32]), of([7; 32])));
        }
        other => panic!("{other}"),
    }
    std::fs::write(&path, [7; 32]).expect("room");
    open(place.path(), settings(2)).expect("it is its own again");
}

#[test]
fn a_backup_of_running_logs_is_a_folder_of_its_own() {
    let folder = TempDir::new().expect("a folder");
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    let small = Settings { segment_bytes: 65_536, ..settings(2) };
    let mut running = Running::new(open(&from, small).expect("opens"));
    for n in 0..400 {
        let message = message(n, &[n as u8; 1_000]);
        let write = Write::Append(Append {
            message,
            to: vec![timeline(1)],
            once: None,
            heard: None,
            ends: false,
        });
        running.write(0, write).expect("room");
    }
    running.write(1, put("a", "1")).expect("room");
    let copied = running.logs.backup(&to).expect("room");
    assert!(copied.segments > 5 && copied.linked > 3 && copied.bytes > 400_000, "{copied:?}");
    running.write(0, append(1, 1_000)).expect("it goes on");
    assert!(running.logs.backup(&to).is_err(), "never over another folder");
    drop(running);
    let mut running = Running::new(open(&to, settings(2)).expect("opens"));
    let entries = running.entries(0, 1);
    assert_eq!((entries.len(), entries[399]), (400, (400, 399)));
    running.write(0, append(1, 5)).expect("it is like any other");
    drop(running);
    let mut running = Running::new(open(&from, settings(2)).expect("opens"));
    assert_eq!(running.entries(0, 1).last(), Some(&(401, 1_000)), "and the first is as it was");
}

/// Nanoseconds that this thread has been on a core.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells");
    text.split(' ').next().and_then(|ns| ns.parse().ok()).expect("a number")
}

#[test]
#[ignore = "a measurement"]
fn a_start_reads_heads_of_a_million_messages_that_wait() {
    let folder = TempDir::new().expect("a folder");
    let lazy = Settings { fsync: Fsync::Never, ..settings(1) };
    let mut opened = open(folder.path(), lazy.clone()).expect("opens");
    let all: Vec<_> = (0..10_000).map(timeline).collect();
    for id in 0..100 {
        for some in all.chunks(2_000) {
            let append = Append {
                message: message(id, b"waits"),
                to: some.into(),
                once: None,
                heard: None,
                ends: false,
            };
            assert!(opened.commit(1_000, 0, &[Write::Append(append)])[0].is_ok());
        }
    }
    drop(opened);
    drop(open(folder.path(), lazy.clone()).expect("state is told of everything"));
    let opened = open(folder.path(), lazy).expect("opens");
    for wanted in [false, true, false, true] {
        let (began, mut heads, mut entries) = (cpu_ns(), 0, 0);
        let mut each = |restored: Restored<'_>| {
            match restored {
                Restored::Timeline { count: 100, .. } => heads += 1,
                Restored::Entry { .. } => entries += 1,
                other => panic!("{other:?}"),
            }
            wanted
        };
        opened.restore(0, &mut each).expect("readable");
        assert_eq!((heads, entries), (10_000, if wanted { 1_000_000 } else { 0 }));
        println!("entries wanted: {wanted}: {} µs of CPU", (cpu_ns() - began) / 1_000);
    }
}

#[test]
fn a_roster_has_in_every_log_whom_that_is_home_to_and_its_lowest_version() {
    let folder = TempDir::new().expect("a folder");
    let id = RosterId(9);
    let home = |n: u64, logs: u16| base::hash::home(timeline(n).home_hash(), logs);
    let mut opened = open(folder.path(), settings(2)).expect("opens");
    for (log, version) in [(0, 4), (1, 3)] {
        let join: Vec<_> = (0..40).filter(|&n| home(n, 2) == log).map(timeline).collect();
        let leave = Vec::new();
        let make = RosterChange { roster: id, after: 0, version, leave, join };
        let (message, only, once) = (message(7, b"to all"), None, None);
        let post = Post { message, roster: id, version, only, once };
        let answers = opened.commit(2_000, log, &[Write::Roster(make), Write::Post(post)]);
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    }
    drop(opened);
    for logs in [3, 1, 2] {
        let opened = open(folder.path(), settings(logs)).expect("opens");
        let mut running = Running::new(opened.rehome(2_000).expect("room"));
        for log in 0..logs {
            let mut members: Vec<_> =
                (0..40).filter(|&n| home(n, logs) == log).map(timeline).collect();
            members.sort_unstable();
            let count = members.len();
            let roster = Roster { version: 3, members: members.into() };
            let found = running.call(log, vec![Call::Read(Read::Roster(id))]).remove(0);
            assert_eq!(found, Ok(Done::Roster(Some(roster))), "log {log} of {logs}");
            let first = (0..40).find(|&n| home(n, logs) == log).expect("each has some");
            assert_eq!(running.entries(log, first)[0], (1, 7));
            let (message, only, once) = (message(8, b"again"), None, None);
            let post = Post { message, roster: id, version: 3, only, once };
            match running.write(log, Write::Post(post)) {
                Ok(Done::Appended(Appended { seqs, .. })) => assert_eq!(seqs.len(), count),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn lazy_syncs_are_done_by_the_ticker_and_at_the_end() {
    let folder = TempDir::new().expect("a folder");
    for fsync in [Fsync::Interval(Duration::from_millis(1)), Fsync::Never] {
        let lazy = Settings { fsync, ..settings(1) };
        let mut running = Running::new(open(folder.path(), lazy).expect("opens"));
        running.write(0, append(1, 1)).expect("room");
    }
    let mut running = Running::new(open(folder.path(), settings(1)).expect("opens"));
    assert_eq!(running.entries(0, 1), [(1, 1), (2, 1)]);
}
