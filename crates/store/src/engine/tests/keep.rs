//! Retention of chat's timelines: by kind, behind a reader, and when the log comes near its limit;
//! and how long an append is remembered.

use super::subject::{Ground, Held};
use crate::engine::{Retention, RetentionRule};
use base::hash::HashKey;
use model::ports::log::*;
use model::timeline::{Message, ReaderId, Seq, Space, TimelineId};
use std::sync::Arc;
use testkit::log::{LogOptions, Subject};

const NOW_S: u32 = 1_700_000_000;

/// Labels of these two kinds begin so.
const SINGLE: u8 = 2;
const GROUP: u8 = 3;

const READER: ReaderId = ReaderId(77);

fn line(space: Space, n: u8) -> TimelineId {
    TimelineId::of(space, HashKey::new(1, 2), &[&[n]])
}

fn said(id: u64, kind: u8, at_s: u32, bytes: usize) -> Arc<Message> {
    let body = vec![id as u8; bytes].into();
    Arc::new(Message { id, at_s, label: [kind, id as u8].into(), body })
}

fn rule(space: Space, kind: Option<u8>, retention: Retention) -> RetentionRule {
    RetentionRule { space, kind, retention }
}

fn held(ground: Ground, rules: &[RetentionRule], log_bytes_max: u64) -> Held {
    let options = LogOptions { segment_bytes: 16 * 1024, log_bytes_max, ..LogOptions::default() };
    let mut held = Held::new(9, ground, options);
    held.settings.retention = rules.to_vec();
    held.restart();
    held
}

impl Held {
    fn say(&mut self, to: TimelineId, message: &Arc<Message>) -> Result<Done, StoreError> {
        let append = Append {
            message: Arc::clone(message),
            to: vec![to],
            once: None,
            heard: None,
            ends: false,
        };
        let now_s = message.at_s;
        self.engine().commit(now_s, &[Write::Append(append)]).remove(0)
    }

    fn writes(&mut self, write: Write) {
        assert_eq!(self.engine().commit(NOW_S, &[write]), [Ok(Done::Written)]);
    }

    fn ids_of(&mut self, timeline: TimelineId) -> Vec<u64> {
        let pull =
            Pull { timeline, from: 0, backwards: false, count_max: 1_000, bytes_max: 1 << 30 };
        match self.engine().read(Read::Pull(pull)) {
            Ok(Done::Page(page)) => page.messages.iter().map(|it| it.message.id).collect(),
            other => panic!("{other:?}"),
        }
    }

    fn cursor_of(&mut self, timeline: TimelineId, reader: ReaderId) -> Seq {
        match self.engine().read(Read::Standing { timeline, reader }) {
            Ok(Done::Standing(status)) => status.cursor,
            other => panic!("{other:?}"),
        }
    }

    fn rows_of(&mut self, timeline: TimelineId) -> Vec<Seq> {
        let prefix = RowHome::key_of(timeline, &[]);
        let read = Read::Rows { table: Table::ChatRecalled, prefix, after: None, count: 100 };
        match self.engine().read(read) {
            Ok(Done::Rows(rows)) => {
                let seq = |key: &[u8]| Seq::from_be_bytes(*key.last_chunk().expect("a place"));
                rows.iter().map(|(key, _)| seq(key)).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    fn does_upkeep(&mut self, now_s: u32) {
        while let Some(task) = self.engine().upkeep_task(now_s) {
            let finished = task.run();
            self.engine().finished(now_s, finished);
        }
    }

    fn verifies(&mut self) {
        let verified = self.engine().verify(true).expect("state is readable");
        assert_eq!(verified.told, Vec::<String>::new());
    }
}

fn amended(timeline: TimelineId, seq: Seq) -> Write {
    let key = RowHome::key_of(timeline, &[&seq.to_be_bytes()]);
    Write::Put { table: Table::ChatRecalled, key, value: [1].into() }
}

#[test]
fn kinds_of_one_space_have_rules_of_their_own_and_what_stands_in_place_goes_too() {
    let marks = Retention {
        marks: Some(ReaderId::RETENTION),
        rows: Some(Table::ChatRecalled),
        ..Retention::default()
    };
    let aged = Retention { age_s_max: Some(100), ..marks };
    let heavy = Retention { bytes_max: Some(3 * 166), ..marks };
    let rules = [
        rule(Space::Conversation, Some(SINGLE), aged),
        rule(Space::Conversation, Some(GROUP), heavy),
    ];
    for ground in [Ground::Memory, Ground::Fjall] {
        let mut held = held(ground, &rules, 1 << 30);
        let [single, group] = [1, 2].map(|n| line(Space::Conversation, n));
        for id in 1..=6 {
            let at_s = NOW_S + 20 * id as u32;
            held.say(single, &said(id, SINGLE, at_s, 100)).expect("it is stored");
            held.say(group, &said(id, GROUP, at_s, 100)).expect("it is stored");
        }
        // The second was edited, the last reacted to.
        for seq in [2, 6] {
            held.writes(amended(single, seq));
            held.writes(Write::Remove { timeline: single, seqs: vec![seq] });
        }
        held.writes(amended(group, 4));
        held.engine().retain_now(NOW_S + 165);
        for _ in 0..2 {
            assert_eq!(held.ids_of(single), [4, 5], "60 and older are over");
            assert_eq!(held.ids_of(group), [4, 5, 6]);
            assert_eq!((held.rows_of(single), held.rows_of(group)), (vec![6], vec![4]));
            let cursors = [single, group].map(|it| held.cursor_of(it, ReaderId::RETENTION));
            assert_eq!(cursors, [3, 3]);
            held.verifies();
            held.restart();
        }
        assert_eq!(held.engine().sizes().dropped, 0, "counted since the start");
    }
}

#[test]
fn nothing_goes_that_its_reader_does_not_have() {
    let behind = Retention { age_s_max: Some(100), behind: Some(READER), ..Retention::default() };
    let mut held = held(Ground::Memory, &[rule(Space::Inbox, None, behind)], 1 << 30);
    let inbox = line(Space::Inbox, 1);
    (1..=6).for_each(|id| _ = held.say(inbox, &said(id, 4, NOW_S, 10)).expect("it is stored"));
    held.engine().retain_now(NOW_S + 1_000);
    assert_eq!(held.ids_of(inbox).len(), 6, "nobody has any of it");
    held.writes(Write::Acknowledge { timeline: inbox, reader: READER, upto: 4 });
    held.engine().retain_now(NOW_S + 2_000);
    assert_eq!(held.ids_of(inbox), [5, 6]);
    held.verifies();
}

#[test]
fn a_log_near_its_limit_loses_the_oldest_of_what_gives_way_and_takes_what_comes() {
    let marks = Some(ReaderId::RETENTION);
    let gives_way = Retention { gives_way: true, marks, ..Retention::default() };
    let rules = [rule(Space::Conversation, Some(SINGLE), gives_way)];
    let mut held = held(Ground::Memory, &rules, 400_000);
    let [one, other] = [1, 2].map(|n| line(Space::Conversation, n));
    let (group, kept) = (line(Space::Conversation, 3), line(Space::Other, 4));
    for id in 1..=20 {
        held.say(kept, &said(id, 9, NOW_S, 500)).expect("it is stored");
        held.say(group, &said(id, GROUP, NOW_S, 500)).expect("it is stored");
    }
    // Five times as much as the log may have.
    for id in 1..=4_000 {
        let to = if id % 3 == 0 { other } else { one };
        let at_s = NOW_S + 5 * id as u32;
        let stored = held.say(to, &said(id, SINGLE, at_s, 500));
        assert!(stored.is_ok(), "message {id}: {stored:?}");
        held.does_upkeep(at_s);
    }
    let sizes = held.engine().sizes();
    assert!(sizes.gave_way > 2_000 && sizes.log_bytes <= 400_000, "{sizes:?}");
    let mut left = [held.ids_of(one), held.ids_of(other)].concat();
    left.sort_unstable();
    let first = left[0];
    assert!(first > 3_000 && left.len() > 200, "from {first} on, {} of them", left.len());
    assert_eq!(left, (first..=4_000).collect::<Vec<_>>(), "the oldest of all went, whatever line");
    assert_eq!(held.ids_of(kept), (1..=20).collect::<Vec<_>>(), "it does not give way");
    assert_eq!(held.ids_of(group), (1..=20).collect::<Vec<_>>(), "nor does this kind");
    assert!(held.cursor_of(one, ReaderId::RETENTION) > 1_900);
    held.verifies();
}

#[test]
fn an_append_is_known_for_a_day_whatever_others_append_and_after_a_restart() {
    for ground in [Ground::Memory, Ground::Fjall] {
        let options = LogOptions { segment_bytes: 16 * 1024, ..LogOptions::default() };
        let mut held = Held::new(9, ground, options);
        (held.settings.once_count_max, held.settings.once_bytes_max) = (1 << 20, 4 * 1024);
        held.settings.once_age_s_max = 86_400;
        held.restart();
        let line = line(Space::Conversation, 1);
        let say = |held: &mut Held, id: u64, now_s| {
            let (message, once) = (said(id, SINGLE, NOW_S, 10), Some(OnceKey(id.into())));
            let append = Append { message, to: vec![line], once, heard: None, ends: false };
            match held.engine().commit(now_s, &[Write::Append(append)]).remove(0) {
                Ok(Done::Appended(done)) => (done.new, done.id, done.seqs),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(say(&mut held, 7, NOW_S), (true, 7, vec![1]));
        for id in 100..3_100 {
            assert!(say(&mut held, id, NOW_S + 10).0);
            held.does_upkeep(NOW_S + 10);
        }
        for _ in 0..2 {
            assert_eq!(say(&mut held, 7, NOW_S + 86_400), (false, 7, vec![1]));
            assert_eq!(say(&mut held, 100, NOW_S + 86_400), (false, 100, vec![2]));
            held.restart();
        }
        assert!(say(&mut held, 7, NOW_S + 86_401).0, "a day is over");
        held.does_upkeep(NOW_S + 90_000);
        assert!(held.engine().sizes().once < 300, "and the others are forgotten");
    }
}
