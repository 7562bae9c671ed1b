//! Lists of conversations: an account's state of each, and the beginning of its last message, which
//! is read where the conversation is at home.
//!
//! Invariant: the state of a conversation in a list is the sum of the inbox at one moment; no body
//! is kept for it, so a list has no recalled text.

use super::knowledge::Row;
use crate::conversations::changes::{Part, Subject, Task, Wish};
use crate::reads::Wanted;
use crate::sessions::Requester;
use crate::word::{Fetched, Range, ReadBy};
use crate::{Chat, Effects};
use base::time::Now;
use model::chat::{
    ChatDelivery, ChatFault, ChatMessage, Content, Conversation, EXCERPT_BYTES_MAX, Excerpt,
};
use model::id::{ConnRef, SessionRef, ShardId};
use model::timeline::{Seq, TimelineId};
use std::collections::{BTreeMap, HashMap};

/// Conversations of a list whose last messages are being read.
pub(crate) struct Listed {
    /// The inbox of the account.
    inbox: TimelineId,
    /// The place of the inbox up to which the state is known.
    pub(crate) upto: Seq,
    pub(crate) rows: Vec<(TimelineId, Conversation)>,
    pub(crate) more: bool,
}

impl Chat {
    /// Lists a part of an account's conversations for a device.
    pub(crate) fn conversations(
        &mut self,
        now: Now,
        from: ConnRef,
        (session, number): (SessionRef, u32),
        part: Part,
        fx: &mut Effects,
    ) {
        let Some(asker) = self.asker(from, session) else { return };
        let wait = Requester { conn: from, session, number };
        let wish = Wish::List(part);
        if let Some(fault) = self.may_not_read(wait, part.count) {
            return self.read_is_refused(wait, fault, fx);
        }
        self.for_account(now, asker.inbox, Task { wait, wish, what: Subject::All }, fx);
    }

    pub(super) fn list_conversations(
        &mut self,
        now: Now,
        (inbox, wait): (TimelineId, Requester),
        Part { before, count, groups }: Part,
        fx: &mut Effects,
    ) {
        let count = usize::from(count.min(self.settings.limits.chat.page_messages_max));
        let Some(account) = self.conversations.known.get(&inbox) else { return };
        let shares = self.shares_reads(inbox);
        let is_wanted = |row: &Row| match groups {
            true => row.with.is_group() && !row.left,
            false => !row.hidden,
        };
        let mut all = account.knowledge.before(before).filter(|(_, row)| is_wanted(row));
        let rows = all.by_ref().take(count).map(|(of, row)| (of, told(row, shares))).collect();
        let more = all.next().is_some();
        drop(all);
        let upto = account.knowledge.upto;
        self.read_last(now, (inbox, wait), Listed { inbox, upto, rows, more }, fx);
    }

    pub(super) fn look_at(
        &mut self,
        now: Now,
        (inbox, wait): (TimelineId, Requester),
        conversation: TimelineId,
        fx: &mut Effects,
    ) {
        let Some(account) = self.conversations.known.get(&inbox) else { return };
        let row = account.knowledge.row(conversation);
        let shares = self.shares_reads(inbox);
        let rows = row.map(|row| (conversation, told(row, shares))).into_iter().collect();
        let upto = account.knowledge.upto;
        self.read_last(now, (inbox, wait), Listed { inbox, upto, rows, more: false }, fx);
    }

    /// Reads the last message of each of these conversations.
    fn read_last(
        &mut self,
        now: Now,
        (inbox, wait): (TimelineId, Requester),
        listed: Listed,
        fx: &mut Effects,
    ) {
        let mut by_shard = BTreeMap::<ShardId, Vec<Range>>::new();
        for (conversation, row) in listed.rows.iter().filter(|(_, row)| row.said_seq > 0) {
            let (conversation, from) = (*conversation, row.said_seq - 1);
            let shard = self.settings.shard_at(conversation);
            let range = Range::excerpt(conversation, from, row.unread > 0);
            by_shard.entry(shard).or_default().push(range);
        }
        let by = ReadBy::Holder(inbox);
        self.read_for(now, wait, Wanted::Conversations(listed), (by_shard, by), fx);
    }

    /// Stops counting messages as unread which retention has dropped from the conversations of a
    /// list.
    pub(crate) fn dropped_of(&mut self, dropped: &[(TimelineId, Seq)], listed: &mut Listed) {
        let Some(account) = self.conversations.known.get_mut(&listed.inbox) else { return };
        for (of, upto) in dropped {
            account.knowledge.has_lost(*of, *upto);
            let row = account.knowledge.row(*of);
            let told = listed.rows.iter_mut().find(|(listed, _)| listed == of);
            if let (Some(row), Some((_, told))) = (row, told) {
                (told.unread, told.mentions) = (row.unread(), row.mentions());
            }
        }
    }

    pub(super) fn read_is_refused(&mut self, wait: Requester, why: ChatFault, fx: &mut Effects) {
        let Requester { conn, session, number } = wait;
        let failed = ChatDelivery::Failed { number, why };
        self.answer_session((conn, session), failed, fx);
    }
}

impl Listed {
    /// The conversations of the list, with their last messages as read.
    pub(crate) fn with(self, fetched: Fetched) -> Vec<Conversation> {
        let mut last: HashMap<TimelineId, Excerpt> = fetched.excerpts.into_iter().collect();
        let complete = |(of, row)| Conversation { last: last.remove(&of), ..row };
        self.rows.into_iter().map(complete).collect()
    }
}

/// The state of a conversation before its last message was read, with the read position of the
/// other only for an account that shares its own.
fn told(row: &Row, shares: bool) -> Conversation {
    Conversation {
        with: row.with.clone(),
        place: row.place,
        last_seq: row.last_seq,
        said_seq: row.said_seq,
        last: None,
        read: row.read,
        peer_read: if shares { row.peer_read } else { 0 },
        unread: row.unread(),
        mentions: row.mentions(),
        pinned: row.pinned,
        muted: row.muted.is_on(),
        hidden: row.hidden,
        left: row.left,
        draft: row.draft.clone(),
    }
}

/// The beginning of a message.
pub(crate) fn excerpt_of(message: &ChatMessage) -> Excerpt {
    let content = &message.content;
    let text = &content.text[..content.text.floor_char_boundary(EXCERPT_BYTES_MAX)];
    // The moderator of a recalled message is no part of its text.
    let is_alone = content.extra.is_empty() || content.kind == Content::RECALLED;
    Excerpt {
        id: message.id,
        at_ms: message.at_ms,
        from: message.from.clone(),
        kind: content.kind,
        text: text.into(),
        whole: text.len() == content.text.len() && is_alone,
    }
}
