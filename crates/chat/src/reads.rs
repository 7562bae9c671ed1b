//! Pull and history: what stands in an inbox, or in a conversation.
//!
//! An inbox has references, so a page of it takes two steps: the references are read here, the
//! messages where their conversations are at home, each run of neighbours by one call.
//!
//! ```text
//! Pull ─► references (this shard) ─► ranges, a question a shard ─► messages ─► Page
//! History ─► the partner's account ─► one range ──────────────────► messages ─► History
//! ```
//! Invariant: a page has everything up to its `upto` that is still there, and nothing twice.

use crate::accounts::{Waiter, fault_of};
use crate::envelope;
use crate::groups::{self, GroupTask};
use crate::label::Pointer;
use crate::log::{Answered, PendingCall};
use crate::send::conversation_of;
use crate::sessions::Requester;
use crate::word::{ChatWord, Fetched, Range, weight};
use crate::{Chat, Effects};
use base::time::{Instant, Now};
use model::account::{AccountAddress, AccountId};
use model::chat::{
    ChatDelivery, ChatFault, ChatMessage, HistoryPage, HistoryRange, InboxPage, PAGE_BYTES_MAX,
    PAGE_MESSAGES_MAX,
};
use model::counters::ChatCounter;
use model::id::{ConnRef, SessionRef, ShardId};
use model::ports::log::{Call, Done, Page, Pull, Read};
use model::timeline::{Placed, Seq, TimelineId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Readings that may be under way, a shard, those for others included. One more is answered as
/// busy.
const READINGS_MAX: usize = 65_536;

/// Pages that one device may have asked for and not got. One more is answered as busy.
const READINGS_A_SESSION_MAX: u8 = 4;

/// A part of a conversation is wanted whose partner is being found.
pub(crate) struct HistoryAsked {
    reader: Requester,
    inbox: TimelineId,
    range: Box<HistoryRange>,
}

/// Something that is being read for a device.
pub(crate) struct Reading {
    reader: Requester,
    what: Wanted,
    /// Answers that have not come.
    left: u16,
    fetched: Fetched,
}

enum Wanted {
    /// A page of the inbox, behind this place. What is damaged is a place without a reference.
    Inbox { after: Seq, pointers: Vec<(Seq, Option<Pointer>)> },
    /// A part of a conversation.
    History,
}

/// Ranges that are being read for a shard.
pub(crate) struct Fetching {
    from: ShardId,
    /// The asker's own.
    number: u64,
    ranges: Box<[Range]>,
    pages: Vec<Option<Page>>,
    left: u16,
    /// Messages with lower numbers are not given.
    since: u64,
}

impl Chat {
    /// A device wants what is in its inbox behind a place.
    pub(crate) fn pull(
        &mut self,
        from: ConnRef,
        (session, number): (SessionRef, u32),
        (after, count): (Seq, u16),
        fx: &mut Effects,
    ) {
        let Some(asker) = self.asker(from, session) else { return };
        let reader = Requester { conn: from, session, number };
        if let Some(fault) = self.may_not_read(reader, count) {
            return self.answer_session((from, session), failed(number, fault), fx);
        }
        let what = Wanted::Inbox { after, pointers: Vec::new() };
        let reading = Reading { reader, what, left: 0, fetched: Fetched::default() };
        let number = self.readings.put(reading);
        self.sessions.pulls((from, session), number);
        let count_max = usize::from(count.min(self.settings.limits.chat.page_messages_max));
        let (timeline, bytes_max) = (asker.inbox, PAGE_BYTES_MAX);
        let pull = Pull { timeline, from: after, backwards: false, count_max, bytes_max };
        self.log.ask(PendingCall::Inbox(number), Call::Read(Read::Pull(pull)), fx);
    }

    /// Reason why a device may not read now; with none it has begun to.
    fn may_not_read(&mut self, reader: Requester, count: u16) -> Option<ChatFault> {
        if !(1..=PAGE_MESSAGES_MAX).contains(&count) {
            return Some(ChatFault::Invalid);
        }
        let is_full = self.readings.len() + self.fetchings.len() >= READINGS_MAX;
        let whom = (reader.conn, reader.session);
        let begins = !is_full
            && self.log.may_ask()
            && self.sessions.begins_to_read(whom, READINGS_A_SESSION_MAX);
        (!begins).then_some(ChatFault::Busy)
    }

    /// References of an inbox were read: their messages are fetched.
    pub(crate) fn inbox_read(&mut self, now: Now, number: u64, result: Answered, fx: &mut Effects) {
        let Some(reading) = self.readings.at_mut(number) else { return };
        let Wanted::Inbox { pointers, .. } = &mut reading.what else { return };
        let page = match result {
            Ok(Done::Page(page)) => page,
            Ok(_) => return self.reading_fails(number, ChatFault::StoreFailed, fx),
            Err(error) => return self.reading_fails(number, fault_of(error), fx),
        };
        *pointers = references(&page);
        let mut by_shard = BTreeMap::<ShardId, Vec<Range>>::new();
        let mut wanted: Vec<Pointer> = pointers.iter().filter_map(|(_, it)| *it).collect();
        wanted.sort_unstable();
        for range in ranges_of(&wanted) {
            let shard = self.settings.shard_at(range.conversation);
            by_shard.entry(shard).or_default().push(range);
        }
        self.fetch_all(now, number, by_shard, None, fx);
    }

    /// A device wants a part of a conversation.
    pub(crate) fn history(
        &mut self,
        now: Now,
        from: ConnRef,
        (session, number): (SessionRef, u32),
        range: Box<HistoryRange>,
        fx: &mut Effects,
    ) {
        let Some(asker) = self.asker(from, session) else { return };
        let reader = Requester { conn: from, session, number };
        if let Some(fault) = self.may_not_read(reader, range.count) {
            return self.answer_session((from, session), failed(number, fault), fx);
        }
        let with = range.with.within(asker.address.domain());
        if with.is_group() {
            let conversation = groups::conversation_of(self.settings.home, &with);
            return self.read_conversation(
                now,
                reader,
                (conversation, &range),
                Some(asker.inbox),
                fx,
            );
        }
        let asked = Box::new(HistoryAsked { reader, inbox: asker.inbox, range });
        self.find_account(now, &with, None, Waiter::History(asked), fx);
    }

    /// The partner of a conversation is known, or why not.
    pub(crate) fn partner_found(
        &mut self,
        now: Now,
        asked: HistoryAsked,
        (with, partner): (&AccountAddress, Result<AccountId, ChatFault>),
        fx: &mut Effects,
    ) {
        let HistoryAsked { reader, inbox, range } = asked;
        let id = match partner {
            Ok(id) => id,
            Err(fault) => return self.read_fails(reader, fault, fx),
        };
        let home = self.settings.home;
        let conversation = conversation_of(home, inbox, with.inbox(home, id));
        self.read_conversation(now, reader, (conversation, &range), None, fx);
    }

    /// A part of a conversation is read; `of_group`: as this member may read it.
    fn read_conversation(
        &mut self,
        now: Now,
        reader: Requester,
        (conversation, range): (TimelineId, &HistoryRange),
        of_group: Option<TimelineId>,
        fx: &mut Effects,
    ) {
        let what = Wanted::History;
        let number =
            self.readings.put(Reading { reader, what, left: 0, fetched: Fetched::default() });
        let count = range.count.min(self.settings.limits.chat.page_messages_max);
        let &HistoryRange { from, backwards, .. } = range;
        let range = Range { conversation, from, backwards, count, is_run: false };
        let shard = self.settings.shard_at(conversation);
        self.fetch_all(now, number, BTreeMap::from([(shard, vec![range])]), of_group, fx);
    }

    fn fetch_all(
        &mut self,
        now: Now,
        number: u64,
        by_shard: BTreeMap<ShardId, Vec<Range>>,
        reader: Option<TimelineId>,
        fx: &mut Effects,
    ) {
        if let Some(reading) = self.readings.at_mut(number) {
            reading.left = by_shard.len() as u16;
        }
        if by_shard.is_empty() {
            return self.end_reading(number, fx);
        }
        for (shard, ranges) in by_shard {
            if shard == self.settings.shard {
                self.fetch(now, shard, number, (ranges.into(), reader), fx);
            } else {
                let ranges = ranges.into();
                fx.peer_messages.push((shard, ChatWord::Fetch { number, ranges, reader }));
            }
        }
    }

    /// Some shard wants parts of conversations that are at home here.
    pub(crate) fn fetch(
        &mut self,
        now: Now,
        from: ShardId,
        number: u64,
        (ranges, reader): (Box<[Range]>, Option<TimelineId>),
        fx: &mut Effects,
    ) {
        let group = ranges.first().map(|range| range.conversation);
        if let (Some(reader), Some(group)) = (reader, group) {
            let task = GroupTask::Read { from, number, ranges, reader };
            return self.for_group(now, group, task, fx);
        }
        self.fetch_since((from, number), ranges, 0, fx);
    }

    /// Parts of conversations are read, but messages with lower numbers than `since`.
    pub(crate) fn fetch_since(
        &mut self,
        (from, number): (ShardId, u64),
        ranges: Box<[Range]>,
        since: u64,
        fx: &mut Effects,
    ) {
        if !self.log.may_ask() || self.fetchings.len() >= READINGS_MAX {
            return self.tell_fetched((from, number), Err(ChatFault::Busy), fx);
        }
        let pages = ranges.iter().map(|_| None).collect();
        let left = ranges.len() as u16;
        let pulls: Vec<Pull> = ranges.iter().map(pull_of).collect();
        let key = self.fetchings.put(Fetching { from, number, ranges, pages, left, since });
        for (at, pull) in (0..).zip(pulls) {
            self.log.ask(PendingCall::Range(key, at), Call::Read(Read::Pull(pull)), fx);
        }
    }

    /// A range was read.
    pub(crate) fn range_read(&mut self, key: u64, at: u16, result: Answered, fx: &mut Effects) {
        let Some(fetching) = self.fetchings.at_mut(key) else { return };
        let page = match result {
            Ok(Done::Page(page)) => page,
            Ok(_) => return self.fetching_fails(key, ChatFault::StoreFailed, fx),
            Err(error) => return self.fetching_fails(key, fault_of(error), fx),
        };
        if let Some(from) = fetching.nothing_before(&page) {
            let pull = Pull { from, ..pull_of(&fetching.ranges[usize::from(at)]) };
            return self.log.ask(PendingCall::Range(key, at), Call::Read(Read::Pull(pull)), fx);
        }
        fetching.pages[usize::from(at)] = Some(page);
        fetching.left -= 1;
        if fetching.left == 0
            && let Some(fetching) = self.fetchings.take(key)
        {
            let whom = (fetching.from, fetching.number);
            self.tell_fetched(whom, Ok(fetching.joined()), fx);
        }
    }

    fn fetching_fails(&mut self, key: u64, fault: ChatFault, fx: &mut Effects) {
        if let Some(fetching) = self.fetchings.take(key) {
            self.tell_fetched((fetching.from, fetching.number), Err(fault), fx);
        }
    }

    pub(crate) fn tell_fetched(
        &mut self,
        (to, number): (ShardId, u64),
        result: Result<Fetched, ChatFault>,
        fx: &mut Effects,
    ) {
        if to == self.settings.shard {
            return self.fetched(number, result, fx);
        }
        fx.peer_messages.push((to, ChatWord::Fetched { number, result }));
    }

    /// A shard has answered.
    pub(crate) fn fetched(
        &mut self,
        number: u64,
        result: Result<Fetched, ChatFault>,
        fx: &mut Effects,
    ) {
        let Some(reading) = self.readings.at_mut(number) else { return };
        let part = match result {
            Ok(part) => part,
            Err(fault) => return self.reading_fails(number, fault, fx),
        };
        reading.fetched.messages.extend(part.messages);
        reading.fetched.unread.extend(part.unread);
        reading.fetched.more |= part.more;
        reading.left -= 1;
        if reading.left == 0 {
            self.end_reading(number, fx);
        }
    }

    fn end_reading(&mut self, key: u64, fx: &mut Effects) {
        let Some(Reading { reader, what, fetched, .. }) = self.readings.take(key) else {
            return;
        };
        let Requester { conn, session, number } = reader;
        self.sessions.ends_to_read((conn, session));
        let delivery = match what {
            Wanted::History => {
                let messages: Vec<_> = fetched.messages.into_iter().map(|(_, it)| it).collect();
                fx.counters.count_by(ChatCounter::HistoryRead, messages.len() as u64);
                ChatDelivery::History(Box::new(HistoryPage {
                    number,
                    messages,
                    more: fetched.more,
                }))
            }
            Wanted::Inbox { after, pointers } => {
                let (messages, upto) = in_order(after, &pointers, fetched);
                let place = (upto, pointers.is_empty());
                let paged = self.paged((conn, session), key, place);
                let Some((upto, head)) = paged else { return };
                fx.counters.count_by(ChatCounter::Pulled, messages.len() as u64);
                ChatDelivery::Page(Box::new(InboxPage { number, messages, upto, head }))
            }
        };
        self.answer_session((conn, session), delivery, fx);
    }

    fn reading_fails(&mut self, number: u64, fault: ChatFault, fx: &mut Effects) {
        if let Some(reading) = self.readings.take(number) {
            self.read_fails(reading.reader, fault, fx);
        }
    }

    fn read_fails(&mut self, reader: Requester, why: ChatFault, fx: &mut Effects) {
        let Requester { conn, session, number } = reader;
        self.sessions.ends_to_read((conn, session));
        self.answer_session((conn, session), failed(number, why), fx);
    }

    /// Whoever waited for too long is told so; when to look again.
    pub(crate) fn turn_reads(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let ms_max = self.settings.limits.answer_ms_max;
        let (readings, next) = self.readings.overdue(now, ms_max);
        for reading in readings {
            self.read_fails(reading.reader, ChatFault::Busy, fx);
        }
        // Whoever asked for these has given up by itself.
        let (_, fetchings) = self.fetchings.overdue(now, ms_max);
        [next, fetchings].into_iter().flatten().min()
    }
}

fn failed(number: u32, why: ChatFault) -> ChatDelivery {
    ChatDelivery::Failed { number, why }
}

impl Fetching {
    /// A page forwards has nothing that may be given, and there is more: where that begins.
    fn nothing_before(&self, page: &Page) -> Option<Seq> {
        let is_forwards = self.ranges.first().is_some_and(|range| !range.backwards);
        let last = page.messages.last().filter(|_| is_forwards && page.more)?;
        (last.message.id < self.since).then_some(last.seq)
    }

    /// What its pages say together.
    fn joined(self) -> Fetched {
        let mut joined = Fetched::default();
        for (range, page) in self.ranges.iter().zip(self.pages) {
            let Some(page) = page else { continue };
            let last = range.last();
            joined.more = page.more;
            let ends = page.messages.last().map(|placed| placed.seq);
            let end = ends.max(page.damaged.last().copied());
            if let (true, Some(end)) = (page.more, end)
                && page.messages.len() + page.damaged.len() < usize::from(range.count)
                && last.is_some_and(|last| end < last)
            {
                joined.unread.push((range.conversation, end + 1));
            }
            for placed in page.messages {
                if last.is_some_and(|last| placed.seq > last) {
                    break; // some of the range were erased
                }
                let (id, seq) = (placed.message.id, placed.seq);
                if id < self.since {
                    joined.more &= !range.backwards; // what comes is older still
                    continue;
                }
                if let Some(message) = envelope::decode(id, seq, &placed.message.body) {
                    joined.messages.push((range.conversation, Arc::new(message)));
                }
            }
        }
        joined
    }
}

impl Range {
    /// The last place that is wanted, of a run of references; a part of a history ends nowhere.
    fn last(&self) -> Option<Seq> {
        self.is_run.then(|| self.from + u64::from(self.count))
    }
}

fn pull_of(range: &Range) -> Pull {
    Pull {
        timeline: range.conversation,
        from: range.from,
        backwards: range.backwards,
        count_max: range.count.into(),
        bytes_max: PAGE_BYTES_MAX,
    }
}

/// The references of a page of an inbox, as many as go into one answer, and the places between them
/// that are damaged.
fn references(page: &Page) -> Vec<(Seq, Option<Pointer>)> {
    let of = |placed: &Placed| (placed.seq, Pointer::decode(&placed.message.label));
    let damaged = page.damaged.iter().map(|seq| (*seq, None));
    let mut all: Vec<_> = page.messages.iter().map(of).chain(damaged).collect();
    all.sort_unstable_by_key(|(seq, _)| *seq);
    let mut bytes = 0;
    let fits = |(_, pointer): &&(Seq, Option<Pointer>)| {
        let begins = bytes < PAGE_BYTES_MAX;
        bytes += pointer.map_or(0, |pointer| pointer.bytes as usize);
        begins
    };
    let count = all.iter().take_while(fits).count();
    all.truncate(count);
    all
}

/// Runs of neighbours among sorted references.
fn ranges_of(wanted: &[Pointer]) -> Vec<Range> {
    let mut ranges: Vec<Range> = Vec::new();
    for Pointer { conversation, seq, .. } in wanted.iter().copied() {
        match ranges.last_mut().filter(|last| last.conversation == conversation) {
            Some(last) if last.from + u64::from(last.count) >= seq => {} // it is named twice
            Some(last) if last.from + u64::from(last.count) + 1 == seq => last.count += 1,
            _ => {
                let from = seq.saturating_sub(1);
                let is_run = true;
                ranges.push(Range { conversation, from, backwards: false, count: 1, is_run });
            }
        }
    }
    ranges
}

/// The messages that were fetched, in the order of the references; and the place up to which they
/// are all.
fn in_order(
    after: Seq,
    pointers: &[(Seq, Option<Pointer>)],
    fetched: Fetched,
) -> (Vec<(Seq, Arc<ChatMessage>)>, Seq) {
    let at = |(conversation, message): (TimelineId, Arc<ChatMessage>)| {
        ((conversation, message.seq), message)
    };
    let messages: BTreeMap<_, _> = fetched.messages.into_iter().map(at).collect();
    let (mut page, mut upto, mut bytes) = (Vec::with_capacity(pointers.len()), after, 0);
    for (seq, pointer) in pointers {
        let Some(Pointer { conversation, seq: at, .. }) = *pointer else {
            upto = *seq;
            continue;
        };
        let is_unread = |(of, from): &(TimelineId, Seq)| *of == conversation && at >= *from;
        if fetched.unread.iter().any(is_unread) {
            break;
        }
        if let Some(message) = messages.get(&(conversation, at)) {
            if bytes >= PAGE_BYTES_MAX {
                break;
            }
            bytes += weight(message);
            page.push((*seq, message.clone()));
        }
        upto = *seq;
    }
    (page, upto)
}
