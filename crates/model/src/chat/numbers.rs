//! Sessions and numbers of requests, and of their answers.
//!
//! A carrier of requests of a protocol in another one's messages gives them numbers of its own, to
//! match answers; each variant is named here, so that none is forgotten.

use super::{ChatDelivery, ChatRequest};
use crate::id::SessionRef;

impl ChatRequest {
    /// The session that asks; none: there is none yet.
    pub fn session(&self) -> Option<SessionRef> {
        Some(match self {
            ChatRequest::Login(_)
            | ChatRequest::Enter(_)
            | ChatRequest::Redeem(_)
            | ChatRequest::Proceed(_)
            | ChatRequest::Register(_)
            | ChatRequest::Gone => return None,
            ChatRequest::Bind { session, .. }
            | ChatRequest::Standing { session, .. }
            | ChatRequest::Send { session, .. }
            | ChatRequest::Group { session, .. }
            | ChatRequest::Members { session, .. }
            | ChatRequest::PublicGroups { session, .. }
            | ChatRequest::Pull { session, .. }
            | ChatRequest::History { session, .. }
            | ChatRequest::Archive { session, .. }
            | ChatRequest::Read { session, .. }
            | ChatRequest::Set { session, .. }
            | ChatRequest::Conversations { session, .. }
            | ChatRequest::Conversation { session, .. }
            | ChatRequest::Recall { session, .. }
            | ChatRequest::Transient { session, .. }
            | ChatRequest::Voice { session, .. }
            | ChatRequest::Search { session, .. }
            | ChatRequest::Readers { session, .. }
            | ChatRequest::Privacy { session, .. }
            | ChatRequest::ChatroomMissed { session, .. }
            | ChatRequest::Upload { session, .. }
            | ChatRequest::Acknowledge { session, .. }
            | ChatRequest::Resume { session, .. }
            | ChatRequest::Push { session, .. }
            | ChatRequest::Closed { session, .. } => *session,
            ChatRequest::People(asked) => asked.session,
            ChatRequest::Chatroom(asked) => asked.session,
            ChatRequest::Nodes(asked) => asked.session,
            ChatRequest::Profile(said) => said.session,
            ChatRequest::Room(asked) => asked.session,
            ChatRequest::Token(wish) => wish.session,
            ChatRequest::Keep(keeping) => keeping.id.session,
            ChatRequest::Detach(detaching) => detaching.session,
            ChatRequest::HandOn(handing) => handing.session,
            ChatRequest::HandTo(handing) => handing.session,
            ChatRequest::Book(asked) => asked.session,
        })
    }

    /// The number that its answer will have; none: it is not answered by number.
    pub fn number_mut(&mut self) -> Option<&mut u32> {
        match self {
            ChatRequest::Standing { number, .. }
            | ChatRequest::Send { number, .. }
            | ChatRequest::Group { number, .. }
            | ChatRequest::Members { number, .. }
            | ChatRequest::PublicGroups { number, .. }
            | ChatRequest::Pull { number, .. }
            | ChatRequest::History { number, .. }
            | ChatRequest::Archive { number, .. }
            | ChatRequest::Read { number, .. }
            | ChatRequest::Set { number, .. }
            | ChatRequest::Conversations { number, .. }
            | ChatRequest::Conversation { number, .. }
            | ChatRequest::Recall { number, .. }
            | ChatRequest::Search { number, .. }
            | ChatRequest::Readers { number, .. }
            | ChatRequest::Privacy { number, .. }
            | ChatRequest::Upload { number, .. }
            | ChatRequest::Push { number, .. } => Some(number),
            ChatRequest::Transient { number, .. } => Some(number).filter(|it| **it != 0),
            ChatRequest::Room(asked) => Some(&mut asked.number).filter(|it| **it != 0),
            ChatRequest::People(asked) => Some(&mut asked.number),
            ChatRequest::Chatroom(asked) => Some(&mut asked.number),
            ChatRequest::Nodes(asked) => Some(&mut asked.number),
            ChatRequest::HandTo(handing) => Some(&mut handing.number),
            ChatRequest::Book(asked) => Some(&mut asked.number),
            ChatRequest::Token(wish) => Some(&mut wish.number),
            ChatRequest::Login(_)
            | ChatRequest::Enter(_)
            | ChatRequest::Redeem(_)
            | ChatRequest::Proceed(_)
            | ChatRequest::Register(_)
            | ChatRequest::Gone
            | ChatRequest::Bind { .. }
            | ChatRequest::Voice { .. }
            | ChatRequest::ChatroomMissed { .. }
            | ChatRequest::Acknowledge { .. }
            | ChatRequest::Resume { .. }
            | ChatRequest::Closed { .. }
            | ChatRequest::Profile(_)
            | ChatRequest::Keep(_)
            | ChatRequest::Detach(_)
            | ChatRequest::HandOn(_) => None,
        }
    }
}

impl ChatDelivery {
    /// The number of the request that it answers; none: nobody asked for it.
    pub fn number_mut(&mut self) -> Option<&mut u32> {
        match self {
            ChatDelivery::Standing { number, .. }
            | ChatDelivery::Sent { number, .. }
            | ChatDelivery::Failed { number, .. }
            | ChatDelivery::Read { number, .. }
            | ChatDelivery::Set { number }
            | ChatDelivery::Privacy { number, .. }
            | ChatDelivery::Upload { number, .. }
            | ChatDelivery::Book { number, .. }
            | ChatDelivery::Done { number }
            | ChatDelivery::Occupant { number, .. }
            | ChatDelivery::Occupants { number, .. }
            | ChatDelivery::PushCode { number } => Some(number),
            ChatDelivery::Changed(changed) => Some(&mut changed.number),
            ChatDelivery::Members(page) => Some(&mut page.number),
            ChatDelivery::PublicGroups(page) => Some(&mut page.number),
            ChatDelivery::Rejected(rejected) => Some(&mut rejected.number),
            ChatDelivery::Conversations(page) => Some(&mut page.number),
            ChatDelivery::Page(page) => Some(&mut page.number),
            ChatDelivery::History(page) => Some(&mut page.number),
            ChatDelivery::Archive(page) => Some(&mut page.number),
            ChatDelivery::Readers(page) => Some(&mut page.number),
            ChatDelivery::Found(page) => Some(&mut page.number),
            ChatDelivery::RoomEntered(entered) => Some(&mut entered.number),
            ChatDelivery::ChatroomJoined(joined) => Some(&mut joined.number),
            ChatDelivery::Contacts(list) => Some(&mut list.number),
            ChatDelivery::ContactsPage(page) => Some(&mut page.number),
            ChatDelivery::PushStatus(status) => Some(&mut status.number),
            ChatDelivery::Nodes(answer) => Some(&mut answer.number),
            ChatDelivery::Token(answer) => Some(&mut answer.number),
            ChatDelivery::LoggedIn(_)
            | ChatDelivery::Challenge(_)
            | ChatDelivery::Bound { .. }
            | ChatDelivery::Refused(_)
            | ChatDelivery::Message { .. }
            | ChatDelivery::Event { .. }
            | ChatDelivery::Notify { .. }
            | ChatDelivery::Delivered(_)
            | ChatDelivery::Transient(_)
            | ChatDelivery::RoomNews(_)
            | ChatDelivery::Aside(_)
            | ChatDelivery::Announcement(_)
            | ChatDelivery::ForDevice(..)
            | ChatDelivery::ChatroomSaid(_)
            | ChatDelivery::ChatroomMissed(_)
            | ChatDelivery::ChatroomNews(_)
            | ChatDelivery::Stanza(_)
            | ChatDelivery::Contact(_)
            | ChatDelivery::Presence(_)
            | ChatDelivery::Resumed(_)
            | ChatDelivery::NotResumed { .. }
            | ChatDelivery::Yield
            | ChatDelivery::NodeNews(_)
            | ChatDelivery::ProfileWanted { .. }
            | ChatDelivery::End(_) => None,
        }
    }
}
