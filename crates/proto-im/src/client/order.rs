//! The frames of a client's orders.

use super::{ImOrder, chatroom, group, people};
use crate::codec::client_frame::{ClientFrame, HistoryFields, PullFields, SendFields};
use crate::codec::content::ContentFields;
use crate::codec::conversation::{ChangeFields, ConversationsFields, PlaceFields, SetFields};
use crate::codec::presence::SetPresenceFields;
use crate::codec::push::{PushFields, PushSettingsFields};
use crate::codec::receipts::{PrivacyFields, ReadersFields};
use crate::codec::search::SearchFields;
use crate::codec::transient::{TransientFields, state_number};
use crate::codec::upload::UploadFields;
use model::account::Addressee;
use model::chat::{NewTransient, PushWish, SearchRange};

/// The frame of an order.
pub(super) fn frame_of(order: &ImOrder) -> ClientFrame<'_> {
    match order {
        ImOrder::Proceed(data) => ClientFrame::Proceed(data),
        ImOrder::Send { number, to, client_id, content } => ClientFrame::Send(SendFields {
            number: *number,
            to: to.as_str(),
            client_id: &client_id.0,
            content: ContentFields::of(content),
        }),
        ImOrder::Pull { number, after, count } => ClientFrame::Pull(PullFields {
            number: *number,
            after: *after,
            count: u32::from(*count),
        }),
        ImOrder::History { number, with, from, backwards, count } => {
            ClientFrame::History(HistoryFields {
                number: *number,
                with: with.as_str(),
                from: *from,
                backwards: *backwards,
                count: u32::from(*count),
            })
        }
        ImOrder::Group { number, order } => ClientFrame::Group(group::fields_of(*number, order)),
        ImOrder::Members { number, range } => ClientFrame::Members(group::range_of(*number, range)),
        ImOrder::MarkRead { number, with, upto } => {
            ClientFrame::MarkRead(PlaceFields { number: *number, with: with.as_str(), seq: *upto })
        }
        ImOrder::Recall { number, with, seq } => {
            ClientFrame::Recall(PlaceFields { number: *number, with: with.as_str(), seq: *seq })
        }
        ImOrder::Set { number, with, change } => {
            let change = ChangeFields::of(change);
            ClientFrame::Set(SetFields { number: *number, with: with.as_str(), change })
        }
        ImOrder::Conversations { number, with, before, count, groups } => {
            ClientFrame::Conversations(ConversationsFields {
                number: *number,
                with: with.as_ref().map_or("", Addressee::as_str),
                before: *before,
                count: u32::from(*count),
                groups: *groups,
            })
        }
        ImOrder::Contacts { number, range } => {
            ClientFrame::Contacts(people::range_of(*number, range))
        }
        ImOrder::Contact { number, wish } => ClientFrame::Contact(people::wish_of(*number, wish)),
        ImOrder::Present { number, how } => {
            ClientFrame::Presence(SetPresenceFields::of(*number, how.as_deref()))
        }
        ImOrder::Push { number, wish } => push_of(*number, wish),
        ImOrder::Upload { number, wish } => ClientFrame::Upload(UploadFields::of(*number, wish)),
        ImOrder::Readers { number, range } => {
            ClientFrame::Readers(ReadersFields::of(*number, range))
        }
        ImOrder::Privacy { number, wish } => {
            ClientFrame::Privacy(PrivacyFields::of(*number, *wish))
        }
        ImOrder::Search { number, range } => ClientFrame::Search(search_of(*number, range)),
        ImOrder::Transient(it) => ClientFrame::Transient(transient_of(it)),
        ImOrder::Chatroom { number, ask } => chatroom::frame_of(*number, ask),
        ImOrder::Acknowledge(upto) => ClientFrame::Acknowledge(*upto),
        ImOrder::Ping => ClientFrame::Ping,
        ImOrder::Goodbye => ClientFrame::Goodbye,
    }
}

fn search_of(number: u32, range: &SearchRange) -> SearchFields<'_> {
    let unless_max = |number: u64| if number == u64::MAX { 0 } else { number };
    SearchFields {
        number,
        text: &range.text,
        with: range.with.as_ref().map_or("", Addressee::as_str),
        from: range.from.as_ref().map_or("", Addressee::as_str),
        since_ms: range.since_ms,
        until_ms: unless_max(range.until_ms),
        before: unless_max(range.before),
        count: u32::from(range.count),
    }
}

fn transient_of(it: &NewTransient) -> TransientFields<'_> {
    let state = it.state.map_or(0, state_number);
    let content = ContentFields::of(&it.content);
    TransientFields { to: it.to.as_str(), state, content, from: "", device: "", number: 0 }
}

/// One of the two frames about pushes has it.
fn push_of(number: u32, wish: &PushWish) -> ClientFrame<'_> {
    let settings = PushSettingsFields::of(number, wish).unwrap_or_default();
    let push = PushFields::of(number, wish).map(ClientFrame::Push);
    push.unwrap_or(ClientFrame::PushSettings(settings))
}
