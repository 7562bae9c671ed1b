//! A case at work on a store: short words for calls, and panics that say which case and way.

use super::{LogOptions, Subject, Way};
use base::hash::HashKey;
use model::ports::log::*;
use model::timeline::{Message, ReaderId, Seq, Space, TimelineId};
use std::fmt::Debug;
use std::sync::Arc;

/// One run of one case.
pub(super) struct Trial<'a> {
    pub(super) subject: &'a mut dyn Subject,
    case: &'static str,
    way: Option<Way>,
}

/// A timeline whose space keeps everything.
pub(super) fn line(n: u8) -> TimelineId {
    line_in(Space::Other, n)
}

/// A timeline of a space.
pub(super) fn line_in(space: Space, n: u8) -> TimelineId {
    TimelineId::of(space, HashKey::new(1, 2), &[b"line", &[n]])
}

/// A message whose label and body follow from its id.
pub(super) fn message(id: u64) -> Arc<Message> {
    sized(id, 20)
}

/// A message with a body of so many bytes.
pub(super) fn sized(id: u64, bytes: usize) -> Arc<Message> {
    let body =
        (0..bytes).map(|n| (id as usize).wrapping_mul(31).wrapping_add(n * 7) as u8).collect();
    let label = format!("label {id}").into_bytes().into();
    Arc::new(Message { id, at_s: 1_700_000_000, label, body })
}

/// Messages with these ids at places from 1.
pub(super) fn from_first(ids: impl IntoIterator<Item = u64>) -> Vec<(Seq, u64)> {
    (1..).zip(ids).collect()
}

/// All of a timeline.
pub(super) const ALL: Pulled =
    Pulled { from: 0, backwards: false, count: 1_024, bytes: usize::MAX };

/// How to pull, without the timeline.
#[derive(Clone, Copy)]
pub(super) struct Pulled {
    pub(super) from: Seq,
    pub(super) backwards: bool,
    pub(super) count: usize,
    pub(super) bytes: usize,
}

impl<'a> Trial<'a> {
    pub(super) fn new(
        subject: &'a mut dyn Subject,
        case: &'static str,
        way: Option<Way>,
    ) -> Trial<'a> {
        Trial { subject, case, way }
    }

    /// Lets the way happen.
    pub(super) fn go(&mut self, way: Way) {
        way.go(self.subject);
    }

    /// The way led through a start, just before the case's second half.
    pub(super) fn was_started(&self) -> bool {
        !matches!(self.way, None | Some(Way::AtOnce | Way::Tidy))
    }

    #[track_caller]
    pub(super) fn fail(&self, what: String) -> ! {
        let way = self.way.map_or("as it happened".into(), |way| format!("after {way:?}"));
        panic!("case \"{}\", {way}: {what}", self.case);
    }

    #[track_caller]
    pub(super) fn same<T: PartialEq + Debug>(&self, what: &str, found: T, must: T) {
        if found != must {
            let mut text = format!("{what}\n  is      {found:?}\n  must be {must:?}");
            text.truncate(text.floor_char_boundary(4_000));
            self.fail(text);
        }
    }

    /// Calls at once.
    #[track_caller]
    pub(super) fn calls(&mut self, calls: Vec<Call>) -> Vec<Result<Done, StoreError>> {
        let count = calls.len();
        let answers = self.subject.call(calls);
        self.same("answers", answers.len(), count);
        answers
    }

    #[track_caller]
    pub(super) fn write(&mut self, write: Write) -> Result<Done, StoreError> {
        self.calls(vec![Call::Write(write)]).remove(0)
    }

    #[track_caller]
    pub(super) fn read(&mut self, read: Read) -> Result<Done, StoreError> {
        self.calls(vec![Call::Read(read)]).remove(0)
    }

    /// A write that must succeed.
    #[track_caller]
    pub(super) fn written(&mut self, write: Write) {
        let what = format!("answer to {write:?}");
        let answer = self.write(write);
        self.same(&what, answer, Ok(Done::Written));
    }

    #[track_caller]
    pub(super) fn append(&mut self, to: &[TimelineId], message: &Arc<Message>) -> Vec<Seq> {
        match self.try_append(to, message, None) {
            Ok(appended) if appended.new && appended.id == message.id => appended.seqs,
            other => self.fail(format!("append of {} was answered {other:?}", message.id)),
        }
    }

    #[track_caller]
    pub(super) fn try_append(
        &mut self,
        to: &[TimelineId],
        message: &Arc<Message>,
        once: Option<u128>,
    ) -> Result<Appended, StoreError> {
        match self.write(append(to, message, once)) {
            Ok(Done::Appended(appended)) => Ok(appended),
            Err(error) => Err(error),
            other => self.fail(format!("append was answered {other:?}")),
        }
    }

    /// Appends messages with these ids to one timeline.
    #[track_caller]
    pub(super) fn fill(&mut self, timeline: TimelineId, ids: impl IntoIterator<Item = u64>) {
        let ids: Vec<u64> = ids.into_iter().collect();
        let append = |&id: &u64| Call::Write(append(&[timeline], &message(id), None));
        for answer in self.calls(ids.iter().map(append).collect()) {
            if !matches!(answer, Ok(Done::Appended(_))) {
                self.fail(format!("append was answered {answer:?}"));
            }
        }
    }

    #[track_caller]
    pub(super) fn pull(&mut self, timeline: TimelineId, how: Pulled) -> Page {
        match self.read(pull(timeline, how)) {
            Ok(Done::Page(page)) => page,
            other => self.fail(format!("a pull was answered {other:?}")),
        }
    }

    /// A pull must give messages at these places with these ids, each as [`message`] makes it.
    #[track_caller]
    pub(super) fn page(&mut self, timeline: TimelineId, how: Pulled, must: (&[(Seq, u64)], bool)) {
        let page = self.pull(timeline, how);
        let found: Vec<_> = page.messages.iter().map(|at| (at.seq, at.message.id)).collect();
        self.same("places and ids of the page", found, must.0.to_vec());
        self.same("whether there are more", page.more, must.1);
        for at in page.messages {
            let made = sized(at.message.id, at.message.body.len());
            self.same("a message's label and body", (&at.message.label, &at.message.body), {
                (&made.label, &made.body)
            });
        }
    }

    /// A timeline must hold these, forwards and backwards.
    #[track_caller]
    pub(super) fn holds(&mut self, timeline: TimelineId, must: &[(Seq, u64)]) {
        self.page(timeline, ALL, (must, false));
        let back: Vec<_> = must.iter().rev().copied().collect();
        let how = Pulled { from: Seq::MAX, backwards: true, ..ALL };
        self.page(timeline, how, (&back, false));
        let count = self.standing(timeline, 999).count;
        self.same("messages in the timeline", count, must.len() as u64);
    }

    #[track_caller]
    pub(super) fn standing(&mut self, timeline: TimelineId, reader: u64) -> TimelineStatus {
        match self.read(Read::Standing { timeline, reader: ReaderId(reader) }) {
            Ok(Done::Standing(standing)) => standing,
            other => self.fail(format!("a standing was answered {other:?}")),
        }
    }

    /// `last`, `count`, `cursor` and `unread` must be so.
    #[track_caller]
    pub(super) fn stands(&mut self, timeline: TimelineId, reader: u64, must: [u64; 4]) {
        let at = self.standing(timeline, reader);
        let found = [at.last, at.count, at.cursor, at.unread];
        self.same("[last, count, cursor, unread]", found, must);
    }

    #[track_caller]
    pub(super) fn acknowledge(&mut self, timeline: TimelineId, reader: u64, upto: Seq) {
        self.written(Write::Acknowledge { timeline, reader: ReaderId(reader), upto });
    }

    #[track_caller]
    pub(super) fn remove(&mut self, timeline: TimelineId, seqs: &[Seq]) {
        self.written(Write::Remove { timeline, seqs: seqs.to_vec() });
    }

    #[track_caller]
    pub(super) fn put(&mut self, table: Table, key: &str, value: &str) {
        let (key, value) = (key.as_bytes().into(), value.as_bytes().into());
        self.written(Write::Put { table, key, value });
    }

    #[track_caller]
    pub(super) fn delete(&mut self, table: Table, key: &str) {
        self.written(Write::Delete { table, key: key.as_bytes().into() });
    }

    #[track_caller]
    pub(super) fn row(&mut self, table: Table, key: &str, must: Option<&str>) {
        let answer = self.read(Read::Row { table, key: key.as_bytes().into() });
        let must = Ok(Done::Row(must.map(|value| value.as_bytes().into())));
        self.same(&format!("row {key:?} of {table:?}"), answer, must);
    }

    /// A scan must give rows with these keys.
    #[track_caller]
    pub(super) fn keys(&mut self, table: Table, scan: (&str, Option<&str>, usize), must: &[&str]) {
        let answer = self.read(Read::Rows {
            table,
            prefix: scan.0.as_bytes().into(),
            after: scan.1.map(|after| after.as_bytes().into()),
            count: scan.2,
        });
        let Ok(Done::Rows(rows)) = answer else {
            self.fail(format!("a scan was answered {answer:?}"))
        };
        let found: Vec<_> = rows.iter().map(|row| String::from_utf8_lossy(&row.0)).collect();
        self.same(
            &format!("keys of scan {scan:?}"),
            found,
            must.iter().map(|&k| k.into()).collect(),
        );
    }
}

pub(super) fn append(to: &[TimelineId], message: &Arc<Message>, once: Option<u128>) -> Write {
    Write::Append(Append {
        message: message.clone(),
        to: to.to_vec(),
        once: once.map(OnceKey),
        heard: None,
        ends: false,
    })
}

pub(super) fn pull(timeline: TimelineId, how: Pulled) -> Read {
    Read::Pull(Pull {
        timeline,
        from: how.from,
        backwards: how.backwards,
        count_max: how.count,
        bytes_max: how.bytes,
    })
}

/// The options of cases that need none.
pub(super) fn plain() -> LogOptions {
    LogOptions::default()
}
