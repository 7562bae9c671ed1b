//! Archive: the messages of an account, with one other or with all.
//!
//! ```text
//! Archive ─► with one other: that account ─► parts of the conversation, at its home ─┐
//!         ├► of a group: parts of its conversation, as a member may read them ───────┤
//!         └► with all: parts of the inbox (this shard) ─► the messages that match ───┴► page
//! ```
//! `inbox` and `conversation` choose the next part to read; each request is one read, whose parts
//! follow each other until its page is complete or its time is over. Invariant: a page is in the
//! order of its archive, and no message is left out between pages.

mod conversation;
mod inbox;
mod search;

use crate::groups;
use crate::label::Pointer;
use crate::log::PendingCall;
use crate::reads::{Asked, PartnerAsked, Reading, Wanted, ranges_of};
use crate::sessions::Requester;
use crate::word::{Fetched, Range, ReadBy};
use crate::{Chat, Effects};
use base::time::Now;
use conversation::ConversationArchive;
use inbox::InboxArchive;
use model::chat::{
    ARCHIVE_BOUNDS_MAX, ARCHIVE_NAMED_MAX, ArchiveId, ArchivePage, ArchiveRange, ChatDelivery,
    ChatFault, ChatMessage, PAGE_BYTES_MAX,
};
use model::id::{ConnRef, SessionRef, ShardId};
use model::ports::log::{Call, Page, Pull, Read};
use model::timeline::TimelineId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A page in the making.
pub(crate) enum Archive {
    /// Of all messages, from this inbox.
    Inbox(TimelineId, Box<InboxArchive>),
    /// Of one conversation.
    Conversation(TimelineId, Box<ConversationArchive>),
}

impl Archive {
    /// The messages in the order of the archive, and the id where the next page continues.
    pub(crate) fn page(self, fetched: Fetched) -> (Vec<Arc<ChatMessage>>, Option<ArchiveId>) {
        match self {
            Archive::Inbox(_, it) => it.page(fetched),
            Archive::Conversation(_, it) => it.page(),
        }
    }
}

impl Chat {
    /// Handles a device's request for a part of its account's archive.
    pub(crate) fn archive(
        &mut self,
        now: Now,
        from: ConnRef,
        (session, number): (SessionRef, u32),
        range: Box<ArchiveRange>,
        fx: &mut Effects,
    ) {
        let Some(asker) = self.asker(from, session) else { return };
        let reader = Requester { conn: from, session, number };
        let bounds = range.after.len().max(range.before.len());
        let is_too_much = bounds > ARCHIVE_BOUNDS_MAX || range.named.len() > ARCHIVE_NAMED_MAX;
        let fault = match is_too_much {
            true => Some(ChatFault::Invalid),
            false => self.may_not_read(reader, range.count),
        };
        if let Some(why) = fault {
            let failed = ChatDelivery::Failed { number, why };
            return self.answer_session((from, session), failed, fx);
        }
        let limits = &self.settings.limits.chat;
        let count = range.count.min(limits.page_messages_max);
        let Some(with) = range.with.as_ref().map(|with| with.within(asker.address.domain())) else {
            let entries_max = limits.archive_entries_max as usize;
            let archive = InboxArchive::new(asker.address, range, count.into(), entries_max);
            let archive = Archive::Inbox(asker.inbox, archive.into());
            return self.begin_archive(now, reader, archive, fx);
        };
        if with.is_group() {
            let conversation = groups::conversation_of(self.settings.home, &with);
            let archive = ConversationArchive::new(conversation, range, count);
            let archive = match asker.is_operator {
                true => archive,
                false => archive.read_by(ReadBy::Member(asker.inbox)),
            };
            let archive = Archive::Conversation(conversation, archive.into());
            return self.begin_archive(now, reader, archive, fx);
        }
        let (inbox, wanted) = (asker.inbox, Asked::Archive(range));
        let asked = Box::new(PartnerAsked { reader, inbox, wanted });
        self.read_with(asked, with, fx);
    }

    /// Reads the archive of a conversation whose other party has been found.
    pub(super) fn archive_of_conversation(
        &mut self,
        now: Now,
        reader: Requester,
        (conversation, range): (TimelineId, Box<ArchiveRange>),
        fx: &mut Effects,
    ) {
        let count = range.count.min(self.settings.limits.chat.page_messages_max);
        let archive = ConversationArchive::new(conversation, range, count);
        let archive = Archive::Conversation(conversation, archive.into());
        self.begin_archive(now, reader, archive, fx);
    }

    /// Sends the empty archive of a conversation without messages.
    pub(super) fn archive_of_nobody(
        &mut self,
        reader: Requester,
        range: &ArchiveRange,
        fx: &mut Effects,
    ) {
        let ids = [&range.after, &range.before, &range.named];
        if ids.into_iter().any(|ids| !ids.is_empty()) {
            return self.read_fails(reader, ChatFault::UnknownMessage, fx);
        }
        self.ends_to_read(reader);
        let Requester { conn, session, number } = reader;
        let page = ArchivePage { number, messages: Vec::new(), goes_on: None };
        self.answer_session((conn, session), ChatDelivery::Archive(Box::new(page)), fx);
    }

    fn begin_archive(&mut self, now: Now, reader: Requester, archive: Archive, fx: &mut Effects) {
        let holder = match &archive {
            Archive::Inbox(inbox, _) => Some(*inbox),
            Archive::Conversation(..) => None,
        };
        let reading = Reading::new(reader, holder, Wanted::Archive(archive));
        let number = self.readings.put(reading);
        self.archive_goes_on(now, number, fx);
    }

    /// Reads the next part, or completes the page.
    fn archive_goes_on(&mut self, now: Now, number: u64, fx: &mut Effects) {
        let Some(reading) = self.readings.at_mut(number) else { return };
        let Wanted::Archive(archive) = &mut reading.what else { return };
        match archive {
            Archive::Inbox(inbox, it) => {
                if let Some((from, backwards, count_max)) = it.part() {
                    let (timeline, bytes_max) = (*inbox, PAGE_BYTES_MAX);
                    let pull = Pull { timeline, from, backwards, count_max, bytes_max };
                    let read = Call::Read(Read::Pull(pull));
                    return self.log.ask(PendingCall::Inbox(number), read, fx);
                }
                let wanted = it.wanted();
                self.fetch_found(now, number, wanted, fx);
            }
            Archive::Conversation(conversation, it) => {
                let (shard, ranges) = (self.settings.shard_at(*conversation), it.ranges());
                let by = it.reader();
                let parts = [(shard, ranges)].into_iter().filter(|(_, it)| !it.is_empty());
                self.fetch_all(now, number, parts.collect(), by, fx);
            }
        }
    }

    fn fetch_found(&mut self, now: Now, number: u64, mut wanted: Vec<Pointer>, fx: &mut Effects) {
        let mut by_shard = BTreeMap::<ShardId, Vec<Range>>::new();
        wanted.sort_unstable();
        for range in ranges_of(&wanted) {
            let shard = self.settings.shard_at(range.conversation);
            by_shard.entry(shard).or_default().push(range);
        }
        self.fetch_held(now, number, by_shard, fx);
    }

    /// Handles a part of the inbox that was read for an archive.
    pub(super) fn archive_read(&mut self, now: Now, number: u64, page: &Page, fx: &mut Effects) {
        let Some(reading) = self.readings.at_mut(number) else { return };
        let Wanted::Archive(Archive::Inbox(_, it)) = &mut reading.what else { return };
        match it.sees(page) {
            Ok(()) => self.archive_goes_on(now, number, fx),
            Err(fault) => self.reading_fails(number, fault, fx),
        }
    }

    /// Handles parts of conversations that were read for an archive.
    pub(super) fn archive_fetched(&mut self, now: Now, number: u64, fx: &mut Effects) {
        let Some(reading) = self.readings.at_mut(number) else { return };
        let Wanted::Archive(Archive::Conversation(_, it)) = &mut reading.what else {
            return self.end_reading(number, fx); // the messages found in the inbox
        };
        match it.sees(std::mem::take(&mut reading.fetched)) {
            Ok(()) => self.archive_goes_on(now, number, fx),
            Err(fault) => self.reading_fails(number, fault, fx),
        }
    }
}
