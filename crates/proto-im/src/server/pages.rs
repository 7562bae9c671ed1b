//! Pages of an inbox, a conversation and a list of conversations, as they go out (IM 5.4, 6, 11.4).
//!
//! A page ends with what brings it beyond [`PAGE_BYTES_MAX`], and says where to go on. A device
//! that does not read the last one is put off, and asks again.

use super::Out;
use super::session::write_failed;
use crate::codec::content::{EntryFields, MessageFields};
use crate::codec::conversation::EventFields;
use crate::codec::conversations::{ConversationFields, ConversationsPageFields};
use crate::codec::frame::{LAST_BYTES_MAX, PAGE_BYTES_MAX};
use crate::codec::server_frame::{HistoryPageFields, PageFields, ServerFrame};
use model::chat::{
    Amended, ChatFault, ChatMessage, Conversation, ConversationChange, ConversationsPage,
    HistoryPage, InboxChange, InboxEvent, InboxPage,
};
use model::timeline::Seq;
use std::sync::Arc;

/// Bytes of an entry of a page beside texts and names: numbers, ids, tags and lengths, at most.
const NUMBERS_BYTES: usize = 128;

pub(super) fn write_page(page: &InboxPage, out: &mut Out) {
    if out.backlog() > out.backlog_max() {
        return write_failed(page.number, ChatFault::Busy, out);
    }
    let InboxPage { number, messages, events, head, .. } = page;
    // Of both, in the order of their places.
    let messages_sizes = messages.iter().map(|(seq, message)| (*seq, bytes_of(message)));
    let events_sizes = events.iter().map(|(seq, event)| (*seq, bytes_of_event(event)));
    let mut sizes: Vec<(Seq, usize)> = messages_sizes.chain(events_sizes).collect();
    sizes.sort_unstable_by_key(|(seq, _)| *seq);
    let fitting = fitting(sizes.iter().map(|(_, bytes)| *bytes));
    let is_cut = fitting < sizes.len();
    let last = sizes[..fitting].last().map_or(page.upto, |(seq, _)| *seq);
    let upto = if is_cut { last } else { page.upto };
    let fields = PageFields {
        number: *number,
        entries: messages.iter().take_while(|(seq, _)| *seq <= upto).map(entry_of).collect(),
        upto,
        head: *head,
        events: events
            .iter()
            .take_while(|(seq, _)| *seq <= upto)
            .map(|(seq, event)| EventFields::of(*seq, event))
            .collect(),
    };
    ServerFrame::Page(fields).write(out.bytes());
}

pub(super) fn write_history(page: &HistoryPage, out: &mut Out) {
    if out.backlog() > out.backlog_max() {
        return write_failed(page.number, ChatFault::Busy, out);
    }
    let fitting = fitting(page.messages.iter().map(|message| bytes_of(message)));
    let is_cut = fitting < page.messages.len();
    let messages = page.messages[..fitting].iter();
    let fields = HistoryPageFields {
        number: page.number,
        messages: messages.map(|message| MessageFields::of(message)).collect(),
        more: page.more || is_cut,
    };
    ServerFrame::History(fields).write(out.bytes());
}

pub(super) fn write_conversations(page: &ConversationsPage, out: &mut Out) {
    if out.backlog() > out.backlog_max() {
        return write_failed(page.number, ChatFault::Busy, out);
    }
    let fitting = fitting(page.conversations.iter().map(bytes_of_conversation));
    let is_cut = fitting < page.conversations.len();
    let fields = ConversationsPageFields {
        number: page.number,
        upto: page.upto,
        conversations: page.conversations[..fitting].iter().map(ConversationFields::of).collect(),
        more: page.more || is_cut,
    };
    ServerFrame::Conversations(fields).write(out.bytes());
}

pub(super) fn entry_of((seq, message): &(Seq, Arc<ChatMessage>)) -> EntryFields<'_> {
    EntryFields { seq: *seq, message: MessageFields::of(message) }
}

/// How many of these go into one page: one more than fit, so that one always does; a large one
/// begins a page of its own.
pub(super) fn fitting(sizes: impl Iterator<Item = usize>) -> usize {
    let mut bytes = 0;
    let fits = |size: &usize| {
        let is_small = bytes + size <= PAGE_BYTES_MAX + LAST_BYTES_MAX;
        let fits = bytes < PAGE_BYTES_MAX && (bytes == 0 || is_small);
        bytes += size;
        fits
    };
    sizes.take_while(fits).count()
}

pub(super) fn bytes_of(message: &ChatMessage) -> usize {
    let names = message.from.as_str().len() + message.device.len() + message.to.as_str().len();
    let amended = message.amended.as_deref().map_or(0, Amended::weight);
    message.content.weight() + amended + names + NUMBERS_BYTES
}

fn bytes_of_event(event: &InboxEvent) -> usize {
    let draft = match &event.what {
        InboxChange::Set(ConversationChange::Draft(draft)) => draft.len(),
        _ => 0,
    };
    event.with.as_str().len() + draft + NUMBERS_BYTES
}

fn bytes_of_conversation(it: &Conversation) -> usize {
    let last = it.last.as_ref().map_or(0, |last| last.from.as_str().len() + last.text.len());
    it.with.as_str().len() + last + it.draft.len() + NUMBERS_BYTES
}
