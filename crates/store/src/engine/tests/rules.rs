//! Rules that the suite cannot see: segments, pages that race, damage, lost state.

use super::subject::{Ground, Held};
use crate::OpenError;
use crate::engine::{CheckpointStep, Import, Sizes};
use base::hash::HashKey;
use model::ports::log::*;
use model::timeline::{Message, Seq, Space, TimelineId};
use std::path::Path;
use std::sync::Arc;
use testkit::log::{LogOptions, Subject};

const NOW_S: u32 = 1_700_000_000;

fn line(n: u8) -> TimelineId {
    TimelineId::of(Space::Other, HashKey::new(1, 2), &[&[n]])
}

fn message(id: u64, bytes: usize) -> Arc<Message> {
    let body = vec![id as u8; bytes].into();
    Arc::new(Message { id, at_s: NOW_S, label: [id as u8].into(), body })
}

fn held(ground: Ground) -> Held {
    Held::new(9, ground, LogOptions { segment_bytes: 16 * 1024, ..LogOptions::default() })
}

impl Held {
    fn append(&mut self, to: &[TimelineId], message: &Arc<Message>) {
        let append = Append {
            message: Arc::clone(message),
            to: to.into(),
            once: None,
            heard: None,
            ends: false,
        };
        let answers = self.engine().commit(NOW_S, &[Write::Append(append)]);
        assert!(answers[0].is_ok(), "{answers:?}");
    }

    fn remove(&mut self, timeline: TimelineId, seqs: impl IntoIterator<Item = Seq>) {
        let seqs: Vec<_> = seqs.into_iter().collect();
        let answers = self.engine().commit(NOW_S, &[Write::Remove { timeline, seqs }]);
        assert_eq!(answers, [Ok(Done::Written)]);
    }

    fn page(&mut self, timeline: TimelineId) -> Result<Page, StoreError> {
        match self.engine().read(Read::Pull(all(timeline)))? {
            Done::Page(page) => Ok(page),
            other => panic!("{other:?}"),
        }
    }

    fn sizes(&mut self) -> Sizes {
        self.engine().sizes()
    }

    fn is_clean(&mut self) {
        let verified = self.engine().verify(true).expect("state is readable");
        assert_eq!(verified.told, Vec::<String>::new());
    }
}

fn all(timeline: TimelineId) -> Pull {
    Pull { timeline, from: 0, backwards: false, count_max: 1_000, bytes_max: 1 << 30 }
}

fn ids(page: &Page) -> Vec<u64> {
    page.messages.iter().map(|placed| placed.message.id).collect()
}

#[test]
fn a_crash_between_the_runs_and_the_heads_of_a_load_brings_nothing_back() {
    let mut held = held(Ground::Memory);
    let lines = [line(1), line(2), line(3)];
    (1..=4).for_each(|id| held.append(&lines, &message(id, 50)));
    assert!(held.engine().checkpoint_now(NOW_S));
    held.remove(line(2), [1, 2]);
    (5..=8).for_each(|id| held.append(&lines, &message(id, 50)));
    held.memory().fail_after(Some(2)); // the mark and the runs, and not the heads
    assert!(!held.engine().checkpoint_now(NOW_S));
    held.remove(line(1), [3, 5]);
    held.is_clean();
    held.die();
    assert!(held.open());
    for _ in 0..2 {
        for (timeline, left) in [
            (line(1), vec![1, 2, 4, 6, 7, 8]),
            (line(2), vec![3, 4, 5, 6, 7, 8]),
            (line(3), (1..=8).collect()),
        ] {
            assert_eq!(ids(&held.page(timeline).expect("a page")), left);
        }
        held.is_clean();
        held.restart();
    }
}

#[test]
fn compaction_wins_the_room_of_what_is_gone_and_keeps_the_rest() {
    for ground in [Ground::Memory, Ground::Fjall] {
        let mut held = held(ground);
        for id in 1..=400 {
            held.append(&[line(1), line(2)], &message(id, 500));
        }
        held.engine().checkpoint_now(NOW_S);
        let gone = |seq: &Seq| !seq.is_multiple_of(10);
        held.remove(line(1), (1..=400).filter(gone));
        held.remove(line(2), (1..=400).filter(gone));
        let before = held.sizes();
        held.engine().compact_now(NOW_S);
        let after = held.sizes();
        assert!(after.log_bytes * 4 < before.log_bytes, "{before:?} {after:?}");
        let left: Vec<u64> = (1..=400).filter(|id| id % 10 == 0).collect();
        for restarted in [false, true] {
            if restarted {
                held.restart();
            }
            for timeline in [line(1), line(2)] {
                assert_eq!(ids(&held.page(timeline).expect("a page")), left);
            }
            held.is_clean();
        }
    }
}

#[test]
fn compaction_runs_by_itself_when_enough_is_dead() {
    let mut held = held(Ground::Memory);
    for id in 1..=400 {
        held.append(&[line(1)], &message(id, 500));
    }
    held.remove(line(1), (1..=400).filter(|seq| seq % 4 != 0));
    let before = held.sizes();
    for now_s in NOW_S..NOW_S + 200 {
        if let Some(upkeep_task) = held.engine().upkeep_task(now_s) {
            let finished = upkeep_task.run();
            held.engine().finished(now_s, finished);
        }
    }
    let after = held.sizes();
    assert!(after.log_bytes * 2 < before.log_bytes, "{before:?} {after:?}");
    assert_eq!(held.page(line(1)).expect("a page").messages.len(), 100);
    held.is_clean();
}

#[test]
fn a_page_that_races_a_compaction_finds_its_messages_where_they_went() {
    let mut held = held(Ground::Memory);
    for id in 1..=200 {
        held.append(&[line(1)], &message(id, 500));
    }
    held.engine().checkpoint_now(NOW_S);
    held.remove(line(1), 1..=150);
    let plan = held.engine().plan(Read::Pull(all(line(1))));
    held.remove(line(1), 151..=160);
    held.engine().compact_now(NOW_S);
    let Ok(Done::Page(page)) = plan.finish() else { panic!("no page") };
    let ids = ids(&page);
    assert!(ids.ends_with(&(161..=200).collect::<Vec<_>>()), "{ids:?}");
    assert!(ids.iter().all(|id| *id > 150), "those were gone before: {ids:?}");
}

#[test]
fn a_checkpoint_that_somebody_waits_for_is_made_in_slices_between_commits() {
    let mut held = held(Ground::Memory);
    let name = |n: u32| TimelineId::of(Space::Other, HashKey::new(3, 4), &[&n.to_le_bytes()]);
    let many: Vec<_> = (0..5_000).map(name).collect();
    many.chunks(1_000).for_each(|some| held.append(some, &message(1, 10)));
    let (mut tasks, mut is_first) = (0, true);
    loop {
        match held.engine().checkpoint_step(is_first) {
            CheckpointStep::Task(slice) => {
                // While state is told the log is written, and answers.
                tasks += 1;
                held.append(&[line(1)], &message(tasks, 10));
                let finished = slice.run();
                held.append(&many[..1], &message(tasks, 10));
                held.engine().finished(NOW_S, finished);
            }
            CheckpointStep::More => {}
            CheckpointStep::Done(is_well) => break assert!(is_well),
        }
        is_first = false;
    }
    assert!(tasks >= 6, "{tasks}: five of 1,024 timelines at most, and the end");
    for timeline in [line(1), many[0]] {
        let page = held.page(timeline).expect("readable");
        let written = ids(&page).into_iter().rev().take(tasks as usize);
        assert!(written.eq((1..=tasks).rev()));
    }
    held.restart();
    held.is_clean();
}

#[test]
fn upkeep_is_behind_when_two_checkpoints_should_have_been_and_one_is_under_way() {
    let mut held = held(Ground::Memory); // 4 KiB of changes make a checkpoint due
    let name = |n: u32| TimelineId::of(Space::Other, HashKey::new(3, 4), &[&n.to_le_bytes()]);
    let many: Vec<_> = (0..200).map(name).collect();
    held.append(&many, &message(1, 10));
    assert!(!held.engine().is_behind(), "none has begun");
    let slice = held.engine().upkeep_task(NOW_S).expect("one is due");
    assert!(held.engine().is_behind(), "nothing is told of all that changed");
    let finished = slice.run();
    held.engine().finished(NOW_S, finished);
    while let Some(slice) = held.engine().upkeep_task(NOW_S) {
        let finished = slice.run();
        held.engine().finished(NOW_S, finished);
    }
    assert!(!held.engine().is_behind());
    held.append(&many[..2], &message(2, 10));
    assert!(!held.engine().is_behind());
    held.is_clean();
}

#[test]
fn a_damaged_message_is_named_and_the_others_are_there() {
    let mut held = held(Ground::Memory);
    let bodies = [message(1, 3_000), message(2, 3_000), message(3, 3_000)];
    for body in &bodies {
        held.append(&[line(1)], body);
    }
    held.restart(); // nothing is hot
    held.files.rot(Path::new("/log/0000000001.log"), 4_000, 0x40);
    for (from, count_max, there, damaged, more) in [
        (0, 9, vec![1, 3], vec![2], false),
        (0, 2, vec![1], vec![2], true),
        (0, 1, vec![1], vec![], true),
        (1, 1, vec![], vec![2], true),
        (2, 1, vec![3], vec![], false),
    ] {
        let pull = Pull { from, count_max, ..all(line(1)) };
        let Ok(Done::Page(page)) = held.engine().read(Read::Pull(pull)) else { panic!("no page") };
        assert_eq!((ids(&page), &page.damaged, page.more), (there, &damaged, more));
    }
    let verified = held.engine().verify(true).expect("state is readable");
    assert_eq!(verified.problems, 1, "{:?}", verified.told);
    assert!(verified.told[0].contains("0000000001.log"), "{:?}", verified.told);
}

#[test]
fn lost_state_is_made_anew_while_the_log_has_everything() {
    let mut held = held(Ground::Memory);
    for id in 1..=100 {
        held.append(&[line(1), line(2)], &message(id, 500));
    }
    held.remove(line(1), (1..=100).filter(|seq| seq % 10 != 0));
    held.remove(line(2), (1..=100).filter(|seq| seq % 10 != 0));
    held.engine().checkpoint_now(NOW_S);
    let lose = |held: &mut Held| {
        held.engine = None;
        held.memory.as_ref().expect("in memory").clear();
    };
    lose(&mut held);
    assert!(held.open());
    assert!(held.found.rebuilt);
    assert_eq!(held.page(line(1)).expect("a page").messages.len(), 10);
    held.is_clean();
    held.engine().compact_now(NOW_S);
    assert!(held.engine().sizes().segments < 5);
    lose(&mut held);
    match held.try_open() {
        Err(OpenError::Corrupt { why, .. }) => assert!(why.contains("checkpoint"), "{why}"),
        other => panic!("{:?}", other.map(|_| ())),
    }
}

#[test]
fn a_missing_segment_that_is_needed_is_named() {
    let mut held = held(Ground::Memory);
    for id in 1..=200 {
        held.append(&[line(1)], &message(id, 500));
    }
    held.engine().checkpoint_now(NOW_S);
    held.engine = None;
    let path = Path::new("/log/0000000002.log");
    model::ports::files::FileSystem::remove(&held.files, path).expect("no fault");
    match held.try_open() {
        Err(OpenError::Corrupt { path: named, .. }) => assert_eq!(named, path),
        other => panic!("{:?}", other.map(|_| ())),
    }
}

#[test]
fn what_is_taken_in_keeps_its_place_and_the_numbers_go_on() {
    let mut held = held(Ground::Memory);
    let imports = [
        Import::Entry(line(1), 7, message(70, 10)),
        Import::Entry(line(1), 9, message(90, 10)),
        Import::Entry(line(1), 9, message(91, 10)),
        Import::Last(line(2), 5),
    ];
    let new = held.engine().import(NOW_S, &imports);
    assert_eq!(new, Ok(vec![true, true, false, true]));
    for restarted in [false, true] {
        if restarted {
            held.die();
            assert!(held.open());
        }
        let page = held.page(line(1)).expect("a page");
        assert_eq!(page.messages.iter().map(|placed| placed.seq).collect::<Vec<_>>(), [7, 9]);
        assert!(held.page(line(2)).expect("a page").messages.is_empty());
        held.is_clean();
    }
    held.append(&[line(2)], &message(1, 1));
    assert_eq!(held.page(line(2)).expect("a page").messages[0].seq, 6);
}

#[test]
fn a_message_stands_beside_so_few_timelines_and_alone_before_more() {
    for (count, records) in [(0, 0), (1, 1), (16, 1), (17, 2), (60, 2)] {
        let mut held = held(Ground::Memory);
        let to: Vec<_> = (0..count).map(line).collect();
        held.append(&to, &message(7, 3_000));
        let mut lengths = Vec::new();
        let from = crate::log::Place { segment: 1, offset: 0 };
        let mut each = |_, length: u32, kind, _: &[u8]| {
            lengths.extend((kind == crate::log::RecordKind::Append).then_some(length));
        };
        held.engine().log.reader().scan(from, usize::MAX, &mut each).expect("whole");
        let with_body = lengths.iter().filter(|length| **length >= 3_000).count();
        assert_eq!((lengths.len(), with_body), (records, records.min(1)), "{count}");
        for restarted in [false, true] {
            if restarted {
                held.restart();
            }
            for timeline in &to {
                assert_eq!(ids(&held.page(*timeline).expect("a page")), [7]);
            }
        }
    }
}

#[test]
fn a_full_log_takes_small_rows_and_refuses_larger_ones() {
    let options = LogOptions { log_bytes_max: 64 * 1024, ..LogOptions::default() };
    let mut held = Held::new(9, Ground::Memory, options);
    let small = || Append {
        message: message(1, 10),
        to: [line(1)].into(),
        once: None,
        heard: None,
        ends: false,
    };
    while held.engine().commit(NOW_S, &[Write::Append(small())])[0].is_ok() {}
    assert!(held.engine().is_full());
    for (bytes, answer) in [(1_025, Err(StoreError::Full)), (1_024, Ok(Done::Written))] {
        let (table, key) = (model::ports::log::Table::Other, [1].into());
        let put = Write::Put { table, key, value: vec![2; bytes].into() };
        assert_eq!(held.engine().commit(NOW_S, &[put]), [answer], "{bytes}");
    }
}

#[test]
fn a_page_waits_for_the_disk_unless_memory_has_every_message() {
    let mut held = held(Ground::Memory);
    held.append(&[line(1)], &message(1, 500));
    assert!(held.engine().plan(Read::Pull(all(line(1)))).is_ready());
    // What is held in memory is as large as a segment.
    (2..=60).for_each(|id| held.append(&[line(2)], &message(id, 500)));
    assert!(!held.engine().plan(Read::Pull(all(line(1)))).is_ready());
    let latest = Pull { backwards: true, from: Seq::MAX, count_max: 3, ..all(line(2)) };
    assert!(held.engine().plan(Read::Pull(latest)).is_ready());
    held.engine().checkpoint_now(NOW_S);
    assert!(!held.engine().plan(Read::Pull(latest)).is_ready(), "they are in runs");
}

/// Kinds and lengths of all records of the first segment.
fn records(held: &mut Held) -> Vec<(crate::log::RecordKind, u32)> {
    let mut all = Vec::new();
    let from = crate::log::Place { segment: 1, offset: 0 };
    let mut each = |_, length: u32, kind, _: &[u8]| all.push((kind, length));
    held.engine().log.reader().scan(from, usize::MAX, &mut each).expect("whole");
    all
}

const ROSTER: RosterId = RosterId(3);

fn roster(held: &mut Held, after: u64, join: Vec<TimelineId>) {
    let (version, leave) = (after + 1, Vec::new());
    let change = RosterChange { roster: ROSTER, after, version, leave, join };
    assert_eq!(held.engine().commit(NOW_S, &[Write::Roster(change)]), [Ok(Done::Written)]);
}

fn post(held: &mut Held, id: u64, version: u64) -> Vec<Seq> {
    let (message, only, once) = (message(id, 100), None, None);
    let post = Post { message, roster: ROSTER, version, only, once };
    match held.engine().commit(NOW_S, &[Write::Post(post)]).remove(0) {
        Ok(Done::Appended(appended)) => appended.seqs,
        other => panic!("{other:?}"),
    }
}

#[test]
fn members_are_listed_once_a_segment_and_behind_each_checkpoint() {
    use crate::log::RecordKind::{List, Roster};
    let mut held = Held::new(9, Ground::Memory, LogOptions::default());
    roster(&mut held, 0, (0..100).map(line).collect());
    let lists = |held: &mut Held| {
        records(held)
            .iter()
            .filter(|(kind, _)| *kind == List)
            .map(|(_, it)| *it)
            .collect::<Vec<_>>()
    };
    for id in 1..=20 {
        assert_eq!(post(&mut held, id, 1), [id; 100]);
    }
    assert_eq!(lists(&mut held), [9 + 4 + 1_600], "once for twenty posts");
    let (last, rest) = (records(&mut held), 9 + 80);
    let slice = last.last().expect("some").1;
    assert!(slice < rest + 100, "a member of a post takes its seq: {slice} bytes");
    held.engine().checkpoint_now(NOW_S);
    post(&mut held, 21, 1);
    assert_eq!(lists(&mut held).len(), 2, "a start reads from the checkpoint on");
    roster(&mut held, 1, vec![line(200)]);
    post(&mut held, 22, 2);
    assert_eq!(lists(&mut held), [1_613, 1_613, 1_629], "another version is another list");
    let changes = records(&mut held).iter().filter(|(kind, _)| *kind == Roster).count();
    assert_eq!(changes, 2);
    held.die();
    assert!(held.open());
    assert_eq!(post(&mut held, 23, 2).len(), 101);
    assert_eq!(ids(&held.page(line(200)).expect("a page")), [22, 23]);
    assert_eq!(held.page(line(7)).expect("a page").messages.len(), 23);
    held.is_clean();
}

#[test]
fn timelines_that_are_named_again_take_few_bytes_each() {
    let mut held = Held::new(9, Ground::Memory, LogOptions::default());
    let many = |count: u32| -> Vec<TimelineId> {
        let one = |n: u32| TimelineId::of(Space::Other, HashKey::new(1, 2), &[&n.to_le_bytes()]);
        (0..count).map(one).collect()
    };
    let (all, fewer) = (many(10_000), many(17));
    let mut sizes = Vec::new();
    for id in 1..=4 {
        held.append(if id > 2 { &fewer } else { &all }, &message(id, 10));
        sizes.push(held.sizes().log_bytes);
    }
    let grown: Vec<u64> = sizes.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(sizes[0] < 18 * 10_000, "at first {} bytes", sizes[0]);
    assert!(grown[0] < 10_000 + 400, "named again: {} bytes", grown[0]);
    assert!(grown[1] < 17 * 18 + 200, "others: {} bytes", grown[1]);
    assert!(grown[2] < 17 + 250, "named again: {} bytes", grown[2]);
    for restarted in [false, true] {
        if restarted {
            held.die();
            assert!(held.open());
        }
        for (timeline, must) in [(fewer[3], vec![1, 2, 3, 4]), (all[9_999], vec![1, 2])] {
            assert_eq!(ids(&held.page(timeline).expect("a page")), must);
        }
        held.is_clean();
    }
}

#[test]
fn a_long_append_that_is_refused_leaves_no_list_behind() {
    use testkit::files::{Error, Op};
    let mut held = held(Ground::Memory);
    let all: Vec<_> = (0..30).map(line).collect();
    held.append(&all[..1], &message(1, 10));
    held.files.fail_after(Op::Write, 0, Error::NoSpace);
    let append =
        Append { message: message(2, 10), to: all.clone(), once: None, heard: None, ends: false };
    let answers = held.engine().commit(NOW_S, &[Write::Append(append)]);
    assert_eq!(answers, [Err(StoreError::Full)]);
    held.append(&all, &message(3, 10));
    held.die();
    assert!(held.open());
    assert_eq!(ids(&held.page(line(29)).expect("a page")), [3]);
    assert_eq!(ids(&held.page(line(0)).expect("a page")), [1, 3]);
    held.is_clean();
}

#[test]
fn a_refused_post_leaves_neither_a_list_nor_a_roster_behind() {
    use testkit::files::{Error, Op};
    let mut held = held(Ground::Memory);
    roster(&mut held, 0, vec![line(1), line(2)]);
    // The second time the file is lengthened before, for the first time cut it.
    for writes_before in [0, 1] {
        held.files.fail_after(Op::Write, writes_before, Error::NoSpace);
        let (message, only, once) = (message(1, 100), None, None);
        let join = vec![line(3)];
        let change = RosterChange { roster: ROSTER, after: 1, version: 2, leave: vec![], join };
        let post = Post { message, roster: ROSTER, version: 2, only, once };
        let answers = held.engine().commit(NOW_S, &[Write::Roster(change), Write::Post(post)]);
        assert_eq!(answers, [Err(StoreError::Full), Err(StoreError::Full)]);
    }
    assert_eq!(post(&mut held, 2, 1), [1, 1], "as it was before");
    for restarted in [false, true] {
        if restarted {
            held.die();
            assert!(held.open());
        }
        let Ok(Done::Roster(Some(found))) = held.engine().read(Read::Roster(ROSTER)) else {
            panic!("no roster")
        };
        assert_eq!((found.version, found.members.len()), (1, 2));
        assert_eq!(ids(&held.page(line(1)).expect("a page")), [2]);
        assert!(held.page(line(3)).expect("a page").messages.is_empty());
        held.is_clean();
    }
}
