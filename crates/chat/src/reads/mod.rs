//! Pull and history: reads of an inbox or of a conversation.
//!
//! An inbox has references, so a page of it takes two steps: the references are read here, the
//! messages at the homes of their conversations, each run of consecutive messages by one call.
//!
//! ```text
//! Pull ─► references (this shard) ─► ranges, a query a shard ─► messages ─► Page
//! History ─► the other party's account ─► one range ──────────► messages ─► History
//! ```
//! An archive is read by parts of either ([`archive`]).
//!
//! Invariant: a page has every entry up to its `upto` that still exists, and none twice.

mod archive;
mod beginning;
pub(crate) mod fetching;
mod search;

use crate::accounts::{FOUND_BYTES, fault_of};
use crate::conversations::changes::{Subject, Task, Wish};
use crate::conversations::lists::Listed;
use crate::groups;
use crate::inboxes::entry::Entry;
use crate::label::Pointer;
use crate::log::{Answered, PendingCall};
use crate::send::conversation_of;
use crate::service::flow::Flow;
use crate::sessions::Requester;
use crate::word::{ChatWord, Fetched, Range, ReadBy};
use crate::{Chat, Effects};
use archive::Archive;
use base::time::{Instant, Now, earliest};
use model::account::{AccountAddress, AccountId};
use model::chat::{
    ArchivePage, ArchiveRange, ChatDelivery, ChatFault, ChatMessage, ConversationsPage,
    HistoryPage, HistoryRange, InboxEvent, InboxPage, PAGE_BYTES_MAX, PAGE_MESSAGES_MAX,
};
use model::counters::ChatCounter;
use model::id::{ConnRef, SessionRef, ShardId};
use model::ports::log::{Call, Done, Page, Pull, Read};
use model::timeline::{Placed, Seq, TimelineId};
use search::Searching;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Largest number of open reads of a shard, including those for other shards. A further one is
/// answered as busy.
pub(crate) const READINGS_MAX: usize = 65_536;

/// Largest number of open reads of one session. A further one is answered as busy.
const READINGS_A_SESSION_MAX: u8 = 4;

/// A request for a part of a conversation whose other party is being found.
#[derive(Clone)]
pub(crate) struct PartnerAsked {
    reader: Requester,
    inbox: TimelineId,
    wanted: Asked,
}

/// The kind of request.
#[derive(Clone)]
enum Asked {
    History(Box<HistoryRange>),
    Archive(Box<ArchiveRange>),
}

/// A read for a device.
pub(crate) struct Reading {
    reader: Requester,
    /// The inbox of the references, if the read begins with such.
    holder: Option<TimelineId>,
    what: Wanted,
    /// Number of answers that have not arrived.
    left: u16,
    fetched: Fetched,
}

pub(crate) enum Wanted {
    /// A page of the inbox, behind this offset. A damaged entry is an offset without an entry.
    Inbox { after: Seq, entries: Vec<(Seq, Option<Entry>)> },
    /// Beginnings of the last messages of these conversations.
    Conversations(Listed),
    /// Beginnings of messages for push notifications, by the number of the round.
    Push(u64),
    /// Messages of a followed group that this account draws, by its inbox.
    Draw(TimelineId),
    /// A part of a conversation.
    History,
    /// A part of the account's archive.
    Archive(Archive),
    /// Messages that contain a text.
    Search(Box<Searching>),
}

async fn find_partner(mut flow: Flow, asked: Box<PartnerAsked>, with: AccountAddress) {
    let id = flow.account(&with, FOUND_BYTES).await;
    let (chat, now, fx) = flow.state();
    chat.partner_found(now, *asked, (&with, id), fx);
}

impl Chat {
    /// Handles a device's request for its inbox behind an offset.
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
        let what = Wanted::Inbox { after, entries: Vec::new() };
        let reading = Reading::new(reader, Some(asker.inbox), what);
        let number = self.readings.put(reading);
        self.sessions.pulls((from, session), number);
        let count_max = usize::from(count.min(self.settings.limits.chat.page_messages_max));
        let (timeline, bytes_max) = (asker.inbox, PAGE_BYTES_MAX);
        let pull = Pull { timeline, from: after, backwards: false, count_max, bytes_max };
        self.log.ask(PendingCall::Inbox(number), Call::Read(Read::Pull(pull)), fx);
    }

    /// The reason why a device may not read now; without one the read is counted as begun.
    pub(crate) fn may_not_read(&mut self, reader: Requester, count: u16) -> Option<ChatFault> {
        if !(1..=PAGE_MESSAGES_MAX).contains(&count) {
            return Some(ChatFault::Invalid);
        }
        let is_full = self.readings.len() + self.fetchings.len() >= READINGS_MAX;
        let whom = (reader.conn, reader.session);
        let begins = !is_full
            && self.log.may_ask()
            && (self.is_errand(reader.conn)
                || self.sessions.begins_to_read(whom, READINGS_A_SESSION_MAX));
        (!begins).then_some(ChatFault::Busy)
    }

    /// Handles a page of an inbox; for a pull, fetches the messages that it refers to.
    pub(crate) fn inbox_read(&mut self, now: Now, number: u64, result: Answered, fx: &mut Effects) {
        let page = match result {
            Ok(Done::Page(page)) => page,
            Ok(_) => return self.reading_fails(number, ChatFault::StoreFailed, fx),
            Err(error) => return self.reading_fails(number, fault_of(error), fx),
        };
        let Some(reading) = self.readings.at_mut(number) else { return };
        let entries = match &mut reading.what {
            Wanted::Inbox { entries, .. } => entries,
            Wanted::Search(_) => return self.search_read(now, number, &page, fx),
            _ => return self.archive_read(now, number, &page, fx),
        };
        *entries = entries_of(&page);
        let mut by_shard = BTreeMap::<ShardId, Vec<Range>>::new();
        let pointer_of = |(_, entry): &(Seq, Option<Entry>)| entry.as_ref()?.pointer();
        let mut wanted: Vec<Pointer> = entries.iter().filter_map(pointer_of).collect();
        wanted.sort_unstable();
        for range in ranges_of(&wanted) {
            let shard = self.settings.shard_at(range.conversation);
            by_shard.entry(shard).or_default().push(range);
        }
        self.fetch_held(now, number, by_shard, fx);
    }

    /// Handles a device's request for a part of a conversation.
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
            let of_group = match asker.is_operator {
                true => ReadBy::Anybody,
                false => ReadBy::Member(asker.inbox),
            };
            return self.read_conversation(now, reader, (conversation, &range), of_group, fx);
        }
        let (inbox, wanted) = (asker.inbox, Asked::History(range));
        let asked = Box::new(PartnerAsked { reader, inbox, wanted });
        self.read_with(asked, with, fx);
    }

    /// Reads a part of the conversation with an account, after finding the account.
    fn read_with(&mut self, asked: Box<PartnerAsked>, with: AccountAddress, fx: &mut Effects) {
        let reader = asked.reader;
        if !self.begin(|flow| find_partner(flow, asked, with)) {
            self.read_fails(reader, ChatFault::Busy, fx);
        }
    }

    /// Continues with the account that was found, or with the fault.
    fn partner_found(
        &mut self,
        now: Now,
        asked: PartnerAsked,
        (with, partner): (&AccountAddress, Result<AccountId, ChatFault>),
        fx: &mut Effects,
    ) {
        let (reader, inbox) = (asked.reader, asked.inbox);
        match partner {
            Ok(id) => {
                let home = self.settings.home;
                let conversation = conversation_of(home, inbox, with.inbox(home, id));
                self.read_with_partner(now, asked, conversation, fx);
            }
            // The conversation with a removed account still belongs to this one.
            Err(ChatFault::UnknownAccount) => {
                let by = with.clone(); // only one of the two names matters here
                let what = Subject::Gone { by, with: with.clone() };
                let wish = Wish::Reread(Box::new(asked));
                self.for_account(now, inbox, Task { wait: reader, wish, what }, fx);
            }
            Err(fault) => self.read_fails(reader, fault, fx),
        }
    }

    /// Reads a part of a conversation whose other party has been found.
    pub(crate) fn read_with_partner(
        &mut self,
        now: Now,
        PartnerAsked { reader, wanted, .. }: PartnerAsked,
        conversation: TimelineId,
        fx: &mut Effects,
    ) {
        match wanted {
            Asked::History(range) => {
                self.read_conversation(now, reader, (conversation, &range), ReadBy::Anybody, fx);
            }
            Asked::Archive(range) => {
                self.archive_of_conversation(now, reader, (conversation, range), fx);
            }
        }
    }

    /// Ends a read whose other party does not exist, or cannot be found now.
    pub(crate) fn nobody_to_read_with(
        &mut self,
        asked: &PartnerAsked,
        fault: ChatFault,
        fx: &mut Effects,
    ) {
        match &asked.wanted {
            Asked::Archive(range) if fault == ChatFault::UnknownAccount => {
                self.archive_of_nobody(asked.reader, range, fx);
            }
            _ => self.read_fails(asked.reader, fault, fx),
        }
    }

    /// Reads a part of a conversation.
    fn read_conversation(
        &mut self,
        now: Now,
        reader: Requester,
        (conversation, range): (TimelineId, &HistoryRange),
        by: ReadBy,
        fx: &mut Effects,
    ) {
        let count = range.count.min(self.settings.limits.chat.page_messages_max);
        let &HistoryRange { from, backwards, .. } = range;
        let range = Range::part(conversation, from, backwards, count);
        let shard = self.settings.shard_at(conversation);
        let by_shard = BTreeMap::from([(shard, vec![range])]);
        self.read_for(now, reader, Wanted::History, (by_shard, by), fx);
    }

    /// Reads parts of conversations for a device whose read has been admitted.
    pub(crate) fn read_for(
        &mut self,
        now: Now,
        reader: Requester,
        what: Wanted,
        (by_shard, by): (BTreeMap<ShardId, Vec<Range>>, ReadBy),
        fx: &mut Effects,
    ) {
        let number = self.readings.put(Reading::new(reader, None, what));
        self.fetch_all(now, number, by_shard, by, fx);
    }

    /// Fetches the messages that references of an inbox refer to, for the inbox's account.
    fn fetch_held(
        &mut self,
        now: Now,
        number: u64,
        by_shard: BTreeMap<ShardId, Vec<Range>>,
        fx: &mut Effects,
    ) {
        let holder = self.readings.at(number).and_then(|reading| reading.holder);
        let by = holder.map_or(ReadBy::Anybody, ReadBy::Holder);
        self.fetch_all(now, number, by_shard, by, fx);
    }

    fn fetch_all(
        &mut self,
        now: Now,
        number: u64,
        by_shard: BTreeMap<ShardId, Vec<Range>>,
        reader: ReadBy,
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

    /// Handles a shard's answer to a fetch.
    pub(crate) fn fetched(
        &mut self,
        now: Now,
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
        reading.fetched.excerpts.extend(part.excerpts);
        reading.fetched.unread.extend(part.unread);
        reading.fetched.dropped.extend(part.dropped);
        reading.fetched.more |= part.more;
        reading.left -= 1;
        if reading.left == 0 {
            match reading.what {
                Wanted::Archive(_) => self.archive_fetched(now, number, fx),
                Wanted::Search(_) => self.search_fetched(number, fx),
                _ => self.end_reading(number, fx),
            }
        }
    }

    fn end_reading(&mut self, key: u64, fx: &mut Effects) {
        let Some(Reading { reader, what, fetched, .. }) = self.readings.take(key) else {
            return;
        };
        self.ends_to_read(reader);
        let Requester { conn, session, number } = reader;
        let delivery = match what {
            Wanted::Push(round) => return self.pushes.texts.push((round, Ok(fetched))),
            Wanted::Draw(inbox) => return self.follows.fetched.push((inbox, Ok(fetched))),
            Wanted::History => {
                let messages: Vec<_> = fetched.messages.into_iter().map(|(_, it)| it).collect();
                fx.counters.count_by(ChatCounter::HistoryRead, messages.len() as u64);
                ChatDelivery::History(Box::new(HistoryPage {
                    number,
                    messages,
                    more: fetched.more,
                }))
            }
            Wanted::Archive(archive) => {
                let (messages, goes_on) = archive.page(fetched);
                fx.counters.count_by(ChatCounter::ArchiveRead, messages.len() as u64);
                ChatDelivery::Archive(Box::new(ArchivePage { number, messages, goes_on }))
            }
            Wanted::Search(searching) => {
                let delivery = search::told(*searching, number);
                if let ChatDelivery::Found(page) = &delivery {
                    fx.counters.count_by(ChatCounter::Searched, page.found.len() as u64);
                }
                delivery
            }
            Wanted::Conversations(mut listed) => {
                self.dropped_of(&fetched.dropped, &mut listed);
                let Listed { upto, more, .. } = listed;
                let conversations = listed.with(fetched);
                let count = conversations.len() as u64;
                fx.counters.count_by(ChatCounter::ConversationsListed, count);
                let page = ConversationsPage { number, upto, conversations, more };
                ChatDelivery::Conversations(Box::new(page))
            }
            Wanted::Inbox { after, entries } => {
                let is_empty = entries.is_empty();
                let page = in_order(after, entries, fetched);
                let place = (page.upto, is_empty);
                let paged = self.paged((conn, session), key, place);
                let Some((upto, head)) = paged else { return };
                let InOrder { messages, events, .. } = self.is_paged((conn, session), page);
                fx.counters.count_by(ChatCounter::Pulled, messages.len() as u64);
                ChatDelivery::Page(Box::new(InboxPage { number, messages, events, upto, head }))
            }
        };
        self.answer_session((conn, session), delivery, fx);
    }

    /// Removes events that the account may not see from a page for a device, and tracks delivery of
    /// its messages.
    fn is_paged(&mut self, whom: (ConnRef, SessionRef), mut page: InOrder) -> InOrder {
        let inbox = self.sessions.session_of(whom).map(|(_, session)| session.inbox);
        if let Some(inbox) = inbox {
            for ((place, message), pointer) in page.messages.iter().zip(&page.pointers) {
                self.is_to_reach((inbox, *place), *pointer, message);
            }
            page.events.retain(|(_, event)| self.is_told_of(inbox, event));
        }
        page
    }

    fn reading_fails(&mut self, number: u64, fault: ChatFault, fx: &mut Effects) {
        if let Some(reading) = self.readings.take(number) {
            self.reading_is_over(reading, fault, fx);
        }
    }

    fn reading_is_over(&mut self, reading: Reading, fault: ChatFault, fx: &mut Effects) {
        match reading.what {
            Wanted::Push(round) => self.pushes.texts.push((round, Err(fault))),
            Wanted::Draw(inbox) => self.follows.fetched.push((inbox, Err(fault))),
            _ => self.read_fails(reading.reader, fault, fx),
        }
    }

    pub(crate) fn read_fails(&mut self, reader: Requester, why: ChatFault, fx: &mut Effects) {
        self.ends_to_read(reader);
        let Requester { conn, session, number } = reader;
        self.answer_session((conn, session), failed(number, why), fx);
    }

    /// Counts a device's read as ended. An errand's read is not counted for a session: its session
    /// is a number that might name a device's.
    pub(crate) fn ends_to_read(&mut self, reader: Requester) {
        if !self.is_errand(reader.conn) {
            self.sessions.ends_to_read(reader.session);
        }
    }

    /// Answers overdue reads as busy; returns when to be called again.
    pub(crate) fn turn_reads(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let ms_max = self.settings.limits.answer_ms_max;
        let (readings, next) = self.readings.overdue(now, ms_max);
        for reading in readings {
            self.reading_is_over(reading, ChatFault::Busy, fx);
        }
        // The shards that asked for these fetches have given them up by themselves.
        let (_, fetchings) = self.fetchings.overdue(now, ms_max);
        earliest([next, fetchings])
    }
}

impl Reading {
    fn new(reader: Requester, holder: Option<TimelineId>, what: Wanted) -> Reading {
        Reading { reader, holder, what, left: 0, fetched: Fetched::default() }
    }
}

fn failed(number: u32, why: ChatFault) -> ChatDelivery {
    ChatDelivery::Failed { number, why }
}

/// The entries of a page of an inbox that fit into one answer, and the damaged offsets between
/// them.
fn entries_of(page: &Page) -> Vec<(Seq, Option<Entry>)> {
    let of = |placed: &Placed| (placed.seq, Entry::decode(&placed.message));
    let damaged = page.damaged.iter().map(|seq| (*seq, None));
    let mut all: Vec<_> = page.messages.iter().map(of).chain(damaged).collect();
    all.sort_unstable_by_key(|(seq, _)| *seq);
    let mut bytes = 0;
    let fits = |(_, entry): &&(Seq, Option<Entry>)| {
        let begins = bytes < PAGE_BYTES_MAX;
        bytes += entry.as_ref().map_or(0, Entry::weight);
        begins
    };
    let count = all.iter().take_while(fits).count();
    all.truncate(count);
    all
}

/// Runs of consecutive messages among sorted references.
fn ranges_of(wanted: &[Pointer]) -> Vec<Range> {
    let mut ranges: Vec<Range> = Vec::new();
    for Pointer { conversation, seq, .. } in wanted.iter().copied() {
        match ranges.last_mut().filter(|last| last.conversation == conversation) {
            Some(last) if last.from + u64::from(last.count) >= seq => {} // named twice
            Some(last) if last.from + u64::from(last.count) + 1 == seq => last.count += 1,
            _ => {
                ranges.push(Range::run(conversation, seq.saturating_sub(1)));
            }
        }
    }
    ranges
}

/// The contents of a page of an inbox, in its order.
struct InOrder {
    messages: Vec<(Seq, Arc<ChatMessage>)>,
    /// The references to these messages.
    pointers: Vec<Pointer>,
    events: Vec<(Seq, Arc<InboxEvent>)>,
    /// The page is complete up to this offset.
    upto: Seq,
}

/// The fetched messages in the order of their entries, and the events among the entries.
fn in_order(after: Seq, entries: Vec<(Seq, Option<Entry>)>, fetched: Fetched) -> InOrder {
    let at = |(conversation, message): (TimelineId, Arc<ChatMessage>)| {
        ((conversation, message.seq), message)
    };
    let messages: BTreeMap<_, _> = fetched.messages.into_iter().map(at).collect();
    let (messages_of, pointers, events) = (Vec::new(), Vec::new(), Vec::new());
    let mut page = InOrder { messages: messages_of, pointers, events, upto: after };
    let mut bytes = 0;
    for (seq, entry) in entries {
        if bytes >= PAGE_BYTES_MAX {
            break;
        }
        match entry {
            Some(Entry::Message(pointer @ Pointer { conversation, seq: at, .. }, _)) => {
                let is_unread = |(of, from): &(TimelineId, Seq)| *of == conversation && at >= *from;
                if fetched.unread.iter().any(is_unread) {
                    break;
                }
                if let Some(message) = messages.get(&(conversation, at)) {
                    bytes += message.weight();
                    page.messages.push((seq, message.clone()));
                    page.pointers.push(pointer);
                }
            }
            Some(event @ Entry::Event(..)) => {
                bytes += event.weight();
                if let Entry::Event(_, event) = event {
                    page.events.push((seq, Arc::new(event)));
                }
            }
            None => {}
        }
        page.upto = seq;
    }
    page
}
