//! Stores that are wrong on purpose: the reference, spoilt at one point each.
//!
//! A fault is what a store could really have: an off by one, a state lost at a crash, a limit not
//! looked at. Invariant: each is visible in some answer.

use crate::log::memory::Timeline;
use crate::log::*;
use model::ports::log::*;
use model::timeline::Message;
use std::sync::Arc;

/// One way of being wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    SeqsAgainAfterForget,
    SeqsAgainAfterRemove,
    CursorGoesBack,
    CursorClamped,
    CursorsStayAfterForget,
    CursorsLostAtTidy,
    UnreadCountsRemoved,
    PageBeginsWithItsPlace,
    PageBackBeginsWithItsPlace,
    PageBackInWrongOrder,
    MoreAtTheEnd,
    NeverMore,
    MoreForAHole,
    BytesUnlimited,
    NothingWhenOneIsTooLong,
    PageUnlimited,
    RowLostAtRestart,
    RowComesBackAtTidy,
    DeleteTakesThePrefix,
    TablesTogether,
    WalkBeginsWithItsKey,
    WalkTooLong,
    RetryDoubled,
    RetryDoubledAfterCrash,
    RetryDoubledInABatch,
    RetryWithItsOwnId,
    RetrySaysNew,
    ConflictMissed,
    KeysNeverForgotten,
    KeyUsedUpByARefusal,
    LastWriteLostAtCrash,
    HalfAnAppendAtCrash,
    RemovedComesBackAtTidy,
    BodySwappedAtTidy,
    LabelLostAtRestart,
    AppendsInReverse,
    LongRemoveTaken,
    LongKeyTaken,
    LongLabelTaken,
    ManyTimelinesTaken,
    FullIgnored,
    RetentionForgetsToDrop,
    RetentionInEverySpace,
    BodyStoredEachTime,
    RestoresRemoved,
    RestoresNothing,
    StalePostTaken,
    PostToAll,
    LeaversStay,
}

impl Fault {
    /// Every fault, and whether a seeded run must find it too.
    pub(super) const ALL: [(Fault, bool); 49] = [
        (Fault::SeqsAgainAfterForget, true),
        (Fault::SeqsAgainAfterRemove, true),
        (Fault::CursorGoesBack, true),
        (Fault::CursorClamped, true),
        (Fault::CursorsStayAfterForget, true),
        (Fault::CursorsLostAtTidy, true),
        (Fault::UnreadCountsRemoved, true),
        (Fault::PageBeginsWithItsPlace, true),
        (Fault::PageBackBeginsWithItsPlace, true),
        (Fault::PageBackInWrongOrder, true),
        (Fault::MoreAtTheEnd, true),
        (Fault::NeverMore, true),
        (Fault::MoreForAHole, true),
        (Fault::BytesUnlimited, true),
        (Fault::NothingWhenOneIsTooLong, true),
        (Fault::PageUnlimited, false),
        (Fault::RowLostAtRestart, true),
        (Fault::RowComesBackAtTidy, true),
        (Fault::DeleteTakesThePrefix, true),
        (Fault::TablesTogether, true),
        (Fault::WalkBeginsWithItsKey, true),
        (Fault::WalkTooLong, true),
        (Fault::RetryDoubled, true),
        (Fault::RetryDoubledAfterCrash, true),
        (Fault::RetryDoubledInABatch, true),
        (Fault::RetryWithItsOwnId, true),
        (Fault::RetrySaysNew, true),
        (Fault::ConflictMissed, true),
        (Fault::KeysNeverForgotten, false),
        (Fault::KeyUsedUpByARefusal, false),
        (Fault::LastWriteLostAtCrash, true),
        (Fault::HalfAnAppendAtCrash, true),
        (Fault::RemovedComesBackAtTidy, true),
        (Fault::BodySwappedAtTidy, true),
        (Fault::LabelLostAtRestart, true),
        (Fault::AppendsInReverse, true),
        (Fault::LongRemoveTaken, false),
        (Fault::LongKeyTaken, false),
        (Fault::LongLabelTaken, false),
        (Fault::ManyTimelinesTaken, false),
        (Fault::FullIgnored, false),
        (Fault::RetentionForgetsToDrop, false),
        (Fault::RetentionInEverySpace, false),
        (Fault::BodyStoredEachTime, false),
        (Fault::RestoresRemoved, true),
        (Fault::RestoresNothing, true),
        (Fault::StalePostTaken, true),
        (Fault::PostToAll, true),
        (Fault::LeaversStay, true),
    ];
}

/// A reference with a fault.
pub(super) struct Broken {
    fault: Fault,
    log: MemoryLog,
    /// As it was before the last write.
    before: MemoryLog,
    /// As it was before the last removal or deletion.
    fuller: Option<MemoryLog>,
    stored: u64,
}

impl Broken {
    pub(super) fn new(fault: Fault, mut options: LogOptions) -> Broken {
        match fault {
            Fault::KeysNeverForgotten => options.once_age_s_max = u32::MAX,
            Fault::FullIgnored => options.log_bytes_max = u64::MAX,
            Fault::RetentionForgetsToDrop => options.retention.clear(),
            Fault::RetentionInEverySpace => {
                if let Some(&one) = options.retention.values().next() {
                    options.retention = Space::ALL.map(|space| (space, one)).into();
                }
            }
            _ => {}
        }
        let log = MemoryLog::new(options);
        Broken { fault, before: log.clone(), log, fuller: None, stored: 0 }
    }

    fn write(&mut self, mut write: Write) -> Result<Done, StoreError> {
        if matches!(self.fault, Fault::LastWriteLostAtCrash | Fault::CursorsStayAfterForget) {
            self.before = self.log.clone();
        }
        if matches!(write, Write::Remove { .. } | Write::Delete { .. }) {
            self.fuller = Some(self.log.clone());
        }
        if let Some(answer) = self.spoil_append(&mut write) {
            return answer;
        }
        match (self.fault, &mut write) {
            (Fault::CursorGoesBack, Write::Acknowledge { timeline, reader, upto }) => {
                let line = self.log.timelines.entry(*timeline).or_default();
                line.cursors.insert(*reader, *upto);
                return Ok(Done::Written);
            }
            (Fault::CursorClamped, Write::Acknowledge { timeline, upto, .. }) => {
                let last = self.log.timelines.get(timeline).map_or(0, |line| line.last);
                *upto = (*upto).min(last);
            }
            (Fault::DeleteTakesThePrefix, Write::Delete { table, key }) => {
                self.log.rows.retain(|(of, row), _| of != table || !row.starts_with(key));
            }
            (Fault::StalePostTaken, Write::Post(post)) => {
                let roster = self.log.rosters.get(&post.roster);
                post.version = roster.map_or(post.version, |roster| roster.version);
            }
            (Fault::PostToAll, Write::Post(post)) => post.only = None,
            (Fault::LeaversStay, Write::Roster(change)) => change.leave.clear(),
            (Fault::LongRemoveTaken, Write::Remove { seqs, .. }) => seqs.truncate(REMOVE_SEQS_MAX),
            (Fault::LongKeyTaken, Write::Put { table, key, value }) => {
                self.log.rows.insert((*table, key.clone()), value.clone());
                return Ok(Done::Written);
            }
            (Fault::TablesTogether, Write::Put { table, .. } | Write::Delete { table, .. }) => {
                *table = Table::Other
            }
            _ => {}
        }
        let answer = self.log.write(&write);
        match (self.fault, &write) {
            (Fault::SeqsAgainAfterForget, Write::Forget(timeline)) => {
                self.log.timelines.remove(timeline);
            }
            (Fault::CursorsStayAfterForget, Write::Forget(timeline)) => {
                if let Some(line) = self.before.timelines.get(timeline) {
                    let mine = self.log.timelines.get_mut(timeline).expect("it was there");
                    mine.cursors = line.cursors.clone();
                }
            }
            (Fault::SeqsAgainAfterRemove, Write::Remove { timeline, .. }) => {
                if let Some(line) = self.log.timelines.get_mut(timeline) {
                    line.last = line.messages.keys().next_back().copied().unwrap_or(0);
                }
            }
            _ => {}
        }
        answer
    }

    fn spoil_append(&mut self, write: &mut Write) -> Option<Result<Done, StoreError>> {
        let Write::Append(append) = write else {
            return None;
        };
        self.stored += (append.message.weight() * append.to.len()) as u64;
        match self.fault {
            Fault::RetryDoubled => append.once = None,
            Fault::AppendsInReverse => append.to.reverse(),
            Fault::LongLabelTaken if append.message.label.len() > Message::LABEL_BYTES_MAX => {
                let label = append.message.label[..Message::LABEL_BYTES_MAX].into();
                append.message = Arc::new(Message { label, ..(*append.message).clone() });
            }
            Fault::ManyTimelinesTaken => append.to.truncate(APPEND_TIMELINES_MAX),
            Fault::ConflictMissed | Fault::KeyUsedUpByARefusal => {
                let once = append.once;
                match self.log.clone().write(write) {
                    Err(StoreError::Conflict) if self.fault == Fault::ConflictMissed => {
                        let first = Appended { new: false, id: 1, seqs: vec![1] };
                        return Some(Ok(Done::Appended(first)));
                    }
                    Err(StoreError::TooLarge) if self.fault == Fault::KeyUsedUpByARefusal => {
                        let claim = Append {
                            to: Vec::new(),
                            message: empty(),
                            once,
                            heard: None,
                            ends: false,
                        };
                        let _ = self.log.write(&Write::Append(claim));
                        return Some(Err(StoreError::TooLarge));
                    }
                    _ => {}
                }
            }
            Fault::RetryWithItsOwnId | Fault::RetrySaysNew => {
                let id = append.message.id;
                return Some(self.log.write(write).map(|done| match done {
                    Done::Appended(first) if self.fault == Fault::RetrySaysNew => {
                        Done::Appended(Appended { new: true, ..first })
                    }
                    Done::Appended(first) => Done::Appended(Appended { id, ..first }),
                    other => other,
                }));
            }
            _ => {}
        }
        None
    }

    fn read(&self, mut read: Read) -> Result<Done, StoreError> {
        match (self.fault, &mut read) {
            (Fault::PageBeginsWithItsPlace, Read::Pull(pull)) if !pull.backwards => {
                pull.from = pull.from.saturating_sub(1);
            }
            (Fault::PageBackBeginsWithItsPlace, Read::Pull(pull)) if pull.backwards => {
                pull.from = pull.from.saturating_add(1);
            }
            (Fault::BytesUnlimited, Read::Pull(pull)) => pull.bytes_max = usize::MAX,
            (Fault::PageUnlimited, Read::Pull(pull)) if pull.count_max > PAGE_MESSAGES_MAX => {
                let first = self.log.read(&read)?;
                let Done::Page(mut page) = first else { unreachable!("a pull gets a page") };
                let again = page.messages.clone();
                page.messages.extend(again);
                return Ok(Done::Page(page));
            }
            (Fault::TablesTogether, Read::Row { table, .. } | Read::Rows { table, .. }) => {
                *table = Table::Other;
            }
            (Fault::WalkBeginsWithItsKey, Read::Rows { after: Some(after), .. }) => {
                if let Some((&last, rest)) = after.split_last() {
                    let before = [rest, &[last.saturating_sub(1), 0xff, 0xff]].concat();
                    *after = before.into();
                }
            }
            (Fault::WalkTooLong, Read::Rows { count, .. }) => *count += 1,
            _ => {}
        }
        let answer = self.log.read(&read)?;
        Ok(self.spoil_answer(&read, answer))
    }

    fn spoil_answer(&self, read: &Read, answer: Done) -> Done {
        match (self.fault, read, answer) {
            (Fault::PageBackInWrongOrder, Read::Pull(pull), Done::Page(mut page)) => {
                if pull.backwards {
                    page.messages.reverse();
                }
                Done::Page(page)
            }
            (Fault::MoreAtTheEnd, Read::Pull(pull), Done::Page(mut page)) => {
                page.more |= page.messages.len() == pull.count_max;
                Done::Page(page)
            }
            (Fault::NeverMore, _, Done::Page(page)) => Done::Page(Page { more: false, ..page }),
            (Fault::MoreForAHole, Read::Pull(pull), Done::Page(mut page)) => {
                let last = self.log.timelines.get(&pull.timeline).map_or(0, |line| line.last);
                let end = page.messages.last().map_or(last, |at| at.seq);
                page.more |= if pull.backwards { end > 1 && last > 0 } else { end < last };
                Done::Page(page)
            }
            (Fault::NothingWhenOneIsTooLong, Read::Pull(pull), Done::Page(mut page)) => {
                let bytes: usize = page.messages.iter().map(|at| at.message.body.len()).sum();
                if bytes > pull.bytes_max {
                    page = Page { messages: Vec::new(), damaged: Vec::new(), more: true };
                }
                Done::Page(page)
            }
            (Fault::UnreadCountsRemoved, _, Done::Standing(mut standing)) => {
                standing.unread = standing.last.saturating_sub(standing.cursor);
                Done::Standing(standing)
            }
            (_, _, answer) => answer,
        }
    }

    fn started(&mut self) {
        match self.fault {
            Fault::RowLostAtRestart => {
                self.log.rows.pop_last();
            }
            Fault::LabelLostAtRestart => {
                self.each_message(|message| message.label = [].into());
            }
            _ => {}
        }
    }

    fn each_message(&mut self, change: impl Fn(&mut Message)) {
        for line in self.log.timelines.values_mut() {
            for message in line.messages.values_mut() {
                change(Arc::make_mut(message));
            }
        }
    }
}

fn empty() -> Arc<Message> {
    Arc::new(Message { id: 0, at_s: 0, label: [].into(), body: [].into() })
}

impl Subject for Broken {
    fn options(&self) -> &LogOptions {
        self.log.options()
    }

    fn now_s(&self) -> u32 {
        self.log.now_s()
    }

    fn call(&mut self, calls: Vec<Call>) -> Vec<Result<Done, StoreError>> {
        let needed = self.fault == Fault::RetryDoubledInABatch;
        let before = needed.then(|| self.log.clone());
        let mut answers = Vec::new();
        for call in calls {
            answers.push(match call {
                Call::Write(Write::Append(mut append))
                    if self.fault == Fault::RetryDoubledInABatch && append.once.is_some() =>
                {
                    let known =
                        before.clone().expect("needed").write(&Write::Append(append.clone()));
                    let is_known = !matches!(&known, Ok(Done::Appended(first)) if first.new);
                    append.once = append.once.filter(|_| is_known || answers.is_empty());
                    self.write(Write::Append(append))
                }
                Call::Write(write) => self.write(write),
                Call::Read(read) => self.read(read),
            });
        }
        answers
    }

    fn restart(&mut self) {
        self.started();
    }

    fn crash(&mut self, work: KilledWork, point: u32) -> Vec<CallAnswer> {
        let answers = self.log.crash(work, point);
        match self.fault {
            Fault::LastWriteLostAtCrash => self.log = self.before.clone(),
            Fault::RetryDoubledAfterCrash => self.log.once.clear(),
            Fault::HalfAnAppendAtCrash => {
                let grown = |line: &&mut Timeline| line.messages.len() > 1;
                if let Some(line) = self.log.timelines.values_mut().find(grown) {
                    line.messages.pop_last();
                }
            }
            _ => {}
        }
        self.started();
        answers
    }

    fn tidy(&mut self, now_s: u32) {
        self.log.tidy(now_s);
        match self.fault {
            Fault::CursorsLostAtTidy => {
                self.log.timelines.values_mut().for_each(|line| line.cursors.clear());
            }
            Fault::RemovedComesBackAtTidy => {
                for (id, line) in self.fuller.iter_mut().flat_map(|log| &mut log.timelines) {
                    let mine = self.log.timelines.entry(*id).or_default();
                    mine.messages.append(&mut line.messages);
                }
            }
            Fault::RowComesBackAtTidy => {
                if let Some(fuller) = &self.fuller {
                    self.log.rows.extend(fuller.rows.clone());
                }
            }
            Fault::BodySwappedAtTidy => self.each_message(|message| message.body.reverse()),
            _ => {}
        }
    }

    fn restored(&self) -> Restoration {
        match (self.fault, &self.fuller) {
            (Fault::RestoresRemoved, Some(fuller)) => fuller.restoration(),
            (Fault::RestoresNothing, _) => Restoration::default(),
            _ => self.log.restoration(),
        }
    }

    fn stored_bytes(&self) -> Option<u64> {
        match self.fault {
            Fault::BodyStoredEachTime => Some(self.stored),
            _ => self.log.stored_bytes(),
        }
    }
}
