//! Chatrooms, at the seam: requests to one, and notifications to its members (IM 18).
//!
//! A message of a chatroom is encoded once for all connections of a shard. A device that does not
//! read is not sent messages of chatrooms, and the service gets a notice: it counts them, and tells
//! the device later. Invariant: of each message that the service hands over, either a frame goes
//! out or the service gets a notice that none did.

use super::Out;
use super::session::{Session, refuse};
use crate::codec::chatroom::{
    ChatroomOrderFields, JoinFields, JoinedFields, LeaveFields, MissedFields, NewsFields,
    SaidFields, StateFields, out_number,
};
use crate::codec::content::MessageFields;
use crate::codec::server_frame::ServerFrame;
use model::account::Addressee;
use model::chat::{
    CHATROOM_KEEPS_MAX, ChatRequest, ChatroomAsk, ChatroomJoined, ChatroomMessage, ChatroomMissed,
    ChatroomNews, ChatroomRequest, ChatroomState, ChatroomWhat,
};
use model::timeline::TimelineId;

/// Bytes of a frame up to which each connection gets a copy: a shorter one costs less to copy than
/// to share.
const COPIED_BYTES_MAX: usize = 512;

/// Of frames that are shared or copied, those of IM, among those of other protocols.
const FORM: u8 = 0xf0;

impl Session {
    /// The device wants a chatroom made or changed.
    pub(super) fn order_chatroom(&mut self, fields: &ChatroomOrderFields<'_>, out: &mut Out) {
        let number = fields.number;
        match fields.order() {
            Some(order) => self.ask_chatroom(number, ChatroomAsk::Order(order), out),
            None => refuse(number, out),
        }
    }

    /// The device wants to be in a chatroom.
    pub(super) fn join_chatroom(&mut self, fields: &JoinFields<'_>, out: &mut Out) {
        let number = fields.number;
        let Ok(room) = Addressee::parse(fields.room) else { return refuse(number, out) };
        let history = fields.history.min(u32::from(CHATROOM_KEEPS_MAX)) as u16;
        self.ask_chatroom(number, ChatroomAsk::Join { room, history }, out);
    }

    /// The device wants to be there no more.
    pub(super) fn leave_chatroom(&mut self, fields: &LeaveFields<'_>, out: &mut Out) {
        let number = fields.number;
        let Ok(room) = Addressee::parse(fields.room) else { return refuse(number, out) };
        self.ask_chatroom(number, ChatroomAsk::Leave(room), out);
    }

    fn ask_chatroom(&mut self, number: u32, ask: ChatroomAsk, out: &mut Out) {
        let request = ChatroomRequest { session: self.session, number, ask };
        self.ask(ChatRequest::Chatroom(Box::new(request)), out);
    }

    /// Handles a message in a chatroom.
    pub(super) fn chatroom_said(&self, said: &ChatroomMessage, out: &mut Out) {
        // What is important goes out while there is any room.
        let most = out.backlog_max() / if said.important { 1 } else { 2 };
        if out.backlog() > most {
            return self.missed((said.timeline, 1, false), out);
        }
        let encode = |bytes: &mut Vec<u8>| {
            let (message, important) = (MessageFields::of(&said.message), said.important);
            ServerFrame::ChatroomSaid(SaidFields { message, important }).write(bytes);
        };
        let key = (said.frame, FORM);
        if !out.copy_encoded(key, COPIED_BYTES_MAX, encode, |_| {}) {
            out.share_encoded(said.frame, FORM, encode);
        }
    }

    /// The device was not sent messages of a chatroom, and reads again perhaps.
    pub(super) fn chatroom_missed(&self, missed: &ChatroomMissed, out: &mut Out) {
        if out.backlog() > out.backlog_max() / 2 {
            return self.missed((missed.timeline, missed.missed, true), out);
        }
        let fields = MissedFields { room: missed.room.as_str(), missed: missed.missed };
        ServerFrame::ChatroomMissed(fields).write(out.bytes());
    }

    /// A chatroom is otherwise, or the device is in it no more.
    pub(super) fn chatroom_news(&self, news: &ChatroomNews, out: &mut Out) {
        let gone = ChatroomState::default();
        let fields = match &news.what {
            ChatroomWhat::State(_) if out.backlog() > out.backlog_max() / 2 => {
                return self.missed((news.timeline, 0, true), out);
            }
            ChatroomWhat::State(state) => {
                NewsFields { state: StateFields::of(&news.room, state), out: 0 }
            }
            ChatroomWhat::Out(why) => {
                NewsFields { state: StateFields::of(&news.room, &gone), out: out_number(*why) }
            }
        };
        ServerFrame::ChatroomNews(fields).write(out.bytes());
    }

    fn missed(&self, (room, missed, again): (TimelineId, u32, bool), out: &mut Out) {
        let session = self.session;
        out.say(ChatRequest::ChatroomMissed { session, room, missed, again });
    }
}

pub(super) fn write_joined(joined: &ChatroomJoined, out: &mut Out) {
    ServerFrame::ChatroomJoined(JoinedFields::of(joined)).write(out.bytes());
}
