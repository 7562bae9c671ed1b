//! The reference: the durable log's port in plain maps.
//!
//! The reference is meant to be obviously right, and slow where that helps. Nothing is ever lost in
//! it, it knows no files and no clock. Invariant: a timeline's `last` never falls, and no message
//! stands above it.

use super::{CallAnswer, KilledWork, LogOptions, Restoration, Retention, Subject};
use model::ports::log::*;
use model::timeline::{Message, Placed, ReaderId, Seq, TimelineId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

type Bytes = Box<[u8]>;

/// A log in memory.
#[derive(Clone, PartialEq, Debug)]
pub struct MemoryLog {
    options: LogOptions,
    now_s: u32,
    pub(super) timelines: BTreeMap<TimelineId, Timeline>,
    pub(super) rows: BTreeMap<(Table, Bytes), Bytes>,
    pub(super) once: VecDeque<Once>,
    pub(super) rosters: BTreeMap<RosterId, Roster>,
    /// Bytes of what is alive, for `log_bytes_max`.
    bytes: u64,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Timeline {
    pub(super) last: Seq,
    pub(super) messages: BTreeMap<Seq, Arc<Message>>,
    pub(super) cursors: BTreeMap<ReaderId, Seq>,
}

/// A remembered append, oldest first.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Once {
    key: OnceKey,
    made_s: u32,
    message: Arc<Message>,
    /// Checksum that the owner compares in a retry, instead of that one.
    check: Option<u32>,
    first: Appended,
}

impl MemoryLog {
    /// An empty log.
    pub fn new(options: LogOptions) -> MemoryLog {
        MemoryLog {
            now_s: options.now_s,
            options,
            timelines: BTreeMap::new(),
            rows: BTreeMap::new(),
            once: VecDeque::new(),
            rosters: BTreeMap::new(),
            bytes: 0,
        }
    }

    /// Forgets every append that it would know again: others have pushed them out of the window.
    pub fn forget_once(&mut self) {
        self.once.clear();
    }

    /// Carries out a call.
    pub fn answer(&mut self, call: &Call) -> Result<Done, StoreError> {
        match call {
            Call::Write(write) => self.write(write),
            Call::Read(read) => self.read(read),
        }
    }

    /// Carries out a write.
    pub fn write(&mut self, write: &Write) -> Result<Done, StoreError> {
        match write {
            Write::Append(append) if append.to.len() > APPEND_TIMELINES_MAX => {
                return Err(StoreError::TooLarge);
            }
            Write::Append(Append { message, to, once, .. }) => {
                let append = self.append(message, (*once, None), |_| Ok(to.clone()));
                return append.map(Done::Appended);
            }
            Write::Post(post) => {
                let once = (post.once, None);
                let append = self.append(&post.message, once, |log| log.members(post));
                return append.map(Done::Appended);
            }
            Write::Roster(change) => self.change(change)?,
            Write::Disband(roster) => drop(self.rosters.remove(roster)),
            Write::Put { table: Table::Rosters, .. }
            | Write::Delete { table: Table::Rosters, .. } => return Err(StoreError::Stale),
            Write::Remove { timeline, seqs } => self.remove(*timeline, seqs)?,
            Write::Acknowledge { timeline, reader, upto } => {
                let cursors = &mut self.timelines.entry(*timeline).or_default().cursors;
                let cursor = cursors.entry(*reader).or_insert(0);
                *cursor = (*upto).max(*cursor);
            }
            Write::Forget(timeline) => {
                if let Some(timeline) = self.timelines.get_mut(timeline) {
                    timeline.cursors.clear();
                    for message in std::mem::take(&mut timeline.messages).values() {
                        self.bytes -= weight(message);
                    }
                }
            }
            Write::Put { table, key, value } => {
                if key.len() > ROW_KEY_BYTES_MAX || value.len() > ROW_VALUE_BYTES_MAX {
                    return Err(StoreError::TooLarge);
                }
                self.rows.insert((*table, key.clone()), value.clone());
            }
            Write::Delete { table, key } => {
                self.rows.remove(&(*table, key.clone()));
            }
            Write::AppendWith(with) => return self.append_with(with).map(Done::Appended),
        }
        Ok(Done::Written)
    }

    fn append_with(&mut self, with: &AppendWith) -> Result<Appended, StoreError> {
        let AppendWith { append, check, replaces } = with;
        let is_large = |it: &Replaced| {
            it.key.len() > ROW_KEY_BYTES_MAX || it.value.len() > ROW_VALUE_BYTES_MAX
        };
        let is_large = replaces.as_ref().is_some_and(is_large);
        if is_large || append.to.len() > REPLACE_TIMELINES_MAX {
            return Err(StoreError::TooLarge);
        }
        if replaces.as_ref().is_some_and(|it| it.table == Table::Rosters) {
            return Err(StoreError::Stale);
        }
        let last = |log: &MemoryLog, of| log.timelines.get(&of).map_or(0, |line| line.last);
        let lasts = replaces.as_ref().map_or(0, |it| last(self, it.timeline));
        let once = (append.once, Some(*check));
        let done = self.append(&append.message, once, |_| Ok(append.to.clone()))?;
        if let (true, Some(it)) = (done.new, replaces) {
            // What is appended by the same write is not what leaves.
            if it.seq <= lasts {
                self.remove(it.timeline, &[it.seq])?;
            }
            self.rows.insert((it.table, it.key.clone()), it.value.clone());
        }
        Ok(done)
    }

    /// Answers a read.
    pub fn read(&self, read: &Read) -> Result<Done, StoreError> {
        match read {
            Read::Pull(pull) => Ok(Done::Page(self.pull(pull))),
            Read::Standing { timeline, reader } => {
                Ok(Done::Standing(self.standing(*timeline, *reader)))
            }
            Read::Roster(roster) => Ok(Done::Roster(self.rosters.get(roster).cloned())),
            Read::Row { table, key } => {
                Ok(Done::Row(self.rows.get(&(*table, key.clone())).cloned()))
            }
            Read::Rows { count, .. } if *count > ROWS_MAX => Err(StoreError::TooLarge),
            Read::Rows { table, prefix, after, count } => {
                let rows = self.rows.iter().filter(|((of, key), _)| {
                    of == table
                        && key.starts_with(prefix)
                        && after.as_ref().is_none_or(|after| key > after)
                });
                let rows = rows.map(|((_, key), value)| (key.clone(), value.clone()));
                Ok(Done::Rows(rows.take(*count).collect()))
            }
        }
    }

    /// Its time is now this or later.
    pub fn advance(&mut self, now_s: u32) {
        self.now_s = self.now_s.max(now_s);
    }

    /// The same, and what retention drops is gone.
    pub fn retain(&mut self, now_s: u32) {
        self.advance(now_s);
        for (id, timeline) in &mut self.timelines {
            if let Some(retention) = self.options.retention.get(&id.space()) {
                for message in timeline.retain(retention, self.now_s) {
                    self.bytes -= weight(&message);
                }
            }
        }
    }

    /// Content that it would return at a start.
    pub fn restoration(&self) -> Restoration {
        Restoration::collect(|each| {
            for ((table, key), value) in self.rows.iter().filter(|((it, _), _)| it.is_restored()) {
                each(Restored::Row { table: *table, key, value });
            }
            let kept = self.timelines.iter().filter(|(id, _)| id.space().is_restored());
            for (&timeline, line) in kept.clone() {
                let (last, count) = (line.last, line.messages.len() as u64);
                let bytes = line.messages.values().map(|message| message.weight() as u64).sum();
                if count > 0 {
                    each(Restored::Timeline { timeline, last, count, bytes });
                }
            }
            for (&timeline, line) in kept {
                for (&seq, message) in &line.messages {
                    each(Restored::Entry { timeline, seq, id: message.id, label: &message.label });
                }
            }
        })
    }

    fn members(&self, post: &Post) -> Result<Vec<TimelineId>, StoreError> {
        let roster = self.rosters.get(&post.roster).filter(|all| all.version == post.version);
        let members = &roster.ok_or(StoreError::Stale)?.members;
        let Some(only) = &post.only else { return Ok(members.to_vec()) };
        let rises = only.windows(2).all(|pair| pair[0] < pair[1]);
        let some = only.iter().map(|&at| members.get(at as usize).copied());
        some.collect::<Option<_>>().filter(|_| rises).ok_or(StoreError::Stale)
    }

    fn change(&mut self, change: &RosterChange) -> Result<(), StoreError> {
        let RosterChange { roster, after, version, leave, join } = change;
        let before = self.rosters.get(roster).cloned().unwrap_or_default();
        let mut members: BTreeSet<_> = before.members.iter().copied().collect();
        if leave.len() + join.len() > ROSTER_CHANGE_MAX {
            return Err(StoreError::TooLarge);
        }
        if before.version == *version && *version > 0 {
            return Ok(());
        }
        if before.version != *after || version <= after {
            return Err(StoreError::Stale);
        }
        members.retain(|member| !leave.contains(member));
        members.extend(join);
        if members.len() > ROSTER_MEMBERS_MAX {
            return Err(StoreError::TooLarge);
        }
        let members = members.into_iter().collect();
        self.rosters.insert(*roster, Roster { version: *version, members });
        Ok(())
    }

    fn append(
        &mut self,
        message: &Arc<Message>,
        (once, check): (Option<OnceKey>, Option<u32>),
        to: impl FnOnce(&MemoryLog) -> Result<Vec<TimelineId>, StoreError>,
    ) -> Result<Appended, StoreError> {
        if message.label.len() > Message::LABEL_BYTES_MAX
            || message.body.len() > Message::BODY_BYTES_MAX
        {
            return Err(StoreError::TooLarge);
        }
        self.forget_old_keys();
        if let Some(known) = self.once.iter().find(|known| Some(known.key) == once) {
            let is_equal =
                (&known.message.body, &known.message.label) == (&message.body, &message.label);
            let is_same = match (known.check, check) {
                (Some(known), Some(check)) => known == check,
                (None, _) => is_equal,
                (Some(_), None) => false,
            };
            if !is_same {
                return Err(StoreError::Conflict);
            }
            return Ok(Appended { new: false, ..known.first.clone() });
        }
        let to = to(self)?;
        let grown = self.bytes + weight(message) * to.len() as u64;
        if grown > self.options.log_bytes_max {
            return Err(StoreError::Full);
        }
        self.bytes = grown;
        let seqs = to.into_iter().map(|timeline| {
            let timeline = self.timelines.entry(timeline).or_default();
            timeline.last += 1;
            timeline.messages.insert(timeline.last, message.clone());
            timeline.last
        });
        let first = Appended { new: true, id: message.id, seqs: seqs.collect() };
        if let Some(key) = once {
            let (first, message) = (first.clone(), message.clone());
            self.once.push_back(Once { key, made_s: self.now_s, message, check, first });
            self.forget_old_keys();
        }
        Ok(first)
    }

    fn forget_old_keys(&mut self) {
        let too_old =
            |once: &Once| self.now_s.saturating_sub(once.made_s) > self.options.once_age_s_max;
        while self.once.len() > self.options.once_count_max
            || self.once.front().is_some_and(too_old)
        {
            self.once.pop_front();
        }
    }

    fn remove(&mut self, timeline: TimelineId, seqs: &[Seq]) -> Result<(), StoreError> {
        if seqs.len() > REMOVE_SEQS_MAX {
            return Err(StoreError::TooLarge);
        }
        if let Some(timeline) = self.timelines.get_mut(&timeline) {
            for seq in seqs {
                if let Some(message) = timeline.messages.remove(seq) {
                    self.bytes -= weight(&message);
                }
            }
        }
        Ok(())
    }

    fn pull(&self, pull: &Pull) -> Page {
        let mut page = Page { messages: Vec::new(), damaged: Vec::new(), more: false };
        let Some(timeline) = self.timelines.get(&pull.timeline) else {
            return page;
        };
        let all = &timeline.messages;
        let in_order: Vec<_> = if pull.backwards {
            all.iter().rev().filter(|&(&seq, _)| seq < pull.from).collect()
        } else {
            all.iter().filter(|&(&seq, _)| seq > pull.from).collect()
        };
        let mut bytes = 0;
        for (&seq, message) in in_order {
            bytes += message.body.len();
            let too_many = page.messages.len() == pull.count_max.min(PAGE_MESSAGES_MAX);
            if too_many || (bytes > pull.bytes_max && !page.messages.is_empty()) {
                page.more = true;
                break;
            }
            page.messages.push(Placed { seq, message: message.clone() });
        }
        page
    }

    fn standing(&self, timeline: TimelineId, reader: ReaderId) -> TimelineStatus {
        let Some(timeline) = self.timelines.get(&timeline) else {
            return TimelineStatus::default();
        };
        let cursor = timeline.cursors.get(&reader).copied().unwrap_or(0);
        TimelineStatus {
            last: timeline.last,
            count: timeline.messages.len() as u64,
            cursor,
            unread: timeline.messages.keys().filter(|&&seq| seq > cursor).count() as u64,
        }
    }
}

impl Subject for MemoryLog {
    fn options(&self) -> &LogOptions {
        &self.options
    }

    fn now_s(&self) -> u32 {
        self.now_s
    }

    fn call(&mut self, calls: Vec<Call>) -> Vec<Result<Done, StoreError>> {
        calls.iter().map(|call| self.answer(call)).collect()
    }

    fn restart(&mut self) {}

    /// Dies before the call with this number, and answers half of the calls before it.
    fn crash(&mut self, work: KilledWork, point: u32) -> Vec<CallAnswer> {
        match work {
            KilledWork::Calls(mut calls) => {
                let all = calls.len();
                calls.truncate(point as usize);
                let told = calls.len() / 2;
                let answers = calls.iter().map(|call| self.answer(call)).collect::<Vec<_>>();
                let told = answers.into_iter().take(told).map(Some);
                told.chain(std::iter::repeat(None)).take(all).collect()
            }
            KilledWork::Tidy(now_s) => {
                self.retain(now_s);
                Vec::new()
            }
            KilledWork::Nothing | KilledWork::Restart | KilledWork::Recovery => Vec::new(),
        }
    }

    fn tidy(&mut self, now_s: u32) {
        self.retain(now_s);
    }

    fn restored(&self) -> Restoration {
        self.restoration()
    }

    fn stored_bytes(&self) -> Option<u64> {
        let mut once: BTreeMap<*const Message, u64> = BTreeMap::new();
        for message in self.timelines.values().flat_map(|timeline| timeline.messages.values()) {
            once.insert(Arc::as_ptr(message), weight(message));
        }
        Some(once.values().sum())
    }
}

impl Timeline {
    /// Takes out what goes.
    fn retain(&mut self, rule: &Retention, now_s: u32) -> Vec<Arc<Message>> {
        let read_by_all = self.cursors.values().min().copied().filter(|_| rule.acknowledged);
        let mut count = self.messages.len() as u64;
        let mut bytes: u64 = self.messages.values().map(weight).sum();
        let mut gone = Vec::new();
        self.messages.retain(|&seq, message| {
            let goes = rule.age_s_max.is_some_and(|max| now_s > message.at_s.saturating_add(max))
                || rule.count_max.is_some_and(|max| count > max)
                || rule.bytes_max.is_some_and(|max| bytes > max)
                || read_by_all.is_some_and(|upto| seq <= upto);
            if goes {
                count -= 1;
                bytes -= weight(message);
                gone.push(message.clone());
            }
            !goes
        });
        gone
    }
}

fn weight(message: &Arc<Message>) -> u64 {
    message.weight() as u64
}
