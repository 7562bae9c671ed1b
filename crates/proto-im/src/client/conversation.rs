//! Events about an account's view of its conversations, as a client gets them (IM 11).

use super::ImEvent;
use crate::codec::WireFault;
use crate::codec::conversation::EventFields;
use crate::codec::conversations::{ConversationFields, ConversationsPageFields};
use model::chat::{ConversationsPage, InboxEvent};
use model::timeline::Seq;
use std::sync::Arc;

/// An event of the inbox, told.
pub(super) fn event(fields: &EventFields<'_>) -> Result<ImEvent, WireFault> {
    Ok(ImEvent::Event { seq: fields.seq, event: fields.event()?.map(Arc::new) })
}

/// Events of a page whose kinds are known here.
pub(super) fn events_of(
    fields: &[EventFields<'_>],
) -> Result<Vec<(Seq, Arc<InboxEvent>)>, WireFault> {
    let known = |one: &EventFields<'_>| {
        let event = one.event().transpose()?;
        Some(event.map(|event| (one.seq, Arc::new(event))))
    };
    fields.iter().filter_map(known).collect()
}

/// A page of the list, told.
pub(super) fn conversations(page: &ConversationsPageFields<'_>) -> Result<ImEvent, WireFault> {
    let conversations = page.conversations.iter().map(ConversationFields::conversation);
    Ok(ImEvent::Conversations(Box::new(ConversationsPage {
        number: page.number,
        upto: page.upto,
        conversations: conversations.collect::<Result<_, _>>()?,
        more: page.more,
    })))
}
