//! An account's view of its conversations, at the seam: cursors, settings, lists and recalls become
//! the model's words (IM 11).
//!
//! Requests that are invalid by themselves are answered here, and counted; the service knows which
//! conversations exist, and how far an inbox has them.

use super::Out;
use super::session::{Session, most, refuse};
use crate::codec::conversation::{
    ConversationsFields, EventFields, MarkedFields, PlaceFields, SetFields,
};
use crate::codec::server_frame::ServerFrame;
use model::account::Addressee;
use model::chat::{ChatRequest, InboxEvent, RecallOrder};
use model::timeline::Seq;

impl Session {
    /// The account has read up to a place.
    pub(super) fn mark_read(&mut self, fields: &PlaceFields<'_>, out: &mut Out) {
        let (session, number) = (self.session, fields.number);
        let Some((with, upto)) = place_of(fields) else { return refuse(number, out) };
        self.ask(ChatRequest::Read { session, number, with, upto }, out);
    }

    /// A message is to be called back.
    pub(super) fn recall(&mut self, fields: &PlaceFields<'_>, out: &mut Out) {
        let (session, number) = (self.session, fields.number);
        let Some((with, seq)) = place_of(fields) else { return refuse(number, out) };
        let order = Box::new(RecallOrder { with: *with, seq, reason: Box::default() });
        self.ask(ChatRequest::Recall { session, number, order }, out);
    }

    /// A conversation is to be kept otherwise.
    pub(super) fn set(&mut self, fields: &SetFields<'_>, out: &mut Out) {
        let (session, number) = (self.session, fields.number);
        let (Ok(with), Some(change)) = (Addressee::parse(fields.with), fields.change.change())
        else {
            return refuse(number, out);
        };
        let (with, change) = (Box::new(with), Box::new(change));
        self.ask(ChatRequest::Set { session, number, with, change }, out);
    }

    /// The device wants the list of conversations, or one of them.
    pub(super) fn conversations(&mut self, fields: &ConversationsFields<'_>, out: &mut Out) {
        let (session, number) = (self.session, fields.number);
        if fields.with.is_empty() {
            let before = if fields.before == 0 { Seq::MAX } else { fields.before };
            let (count, groups) = (most(fields.count), fields.groups);
            let list = ChatRequest::Conversations { session, number, before, count, groups };
            return self.ask(list, out);
        }
        let Ok(with) = Addressee::parse(fields.with) else { return refuse(number, out) };
        let with = Box::new(with);
        self.ask(ChatRequest::Conversation { session, number, with }, out);
    }
}

/// A place of a conversation; `None`: it is none.
fn place_of(fields: &PlaceFields<'_>) -> Option<(Box<Addressee>, Seq)> {
    let with = Addressee::parse(fields.with).ok()?;
    (fields.seq > 0).then(|| (Box::new(with), fields.seq))
}

pub(super) fn write_marked(number: u32, upto: Seq, out: &mut Out) {
    ServerFrame::MarkedRead(MarkedFields { number, upto }).write(out.bytes());
}

/// A device that does not read gets a notice of more entries, and pulls (IM 5.3).
pub(super) fn write_event(seq: Seq, event: &InboxEvent, out: &mut Out) {
    if out.backlog() > out.backlog_max() {
        return ServerFrame::Notify(seq).write(out.bytes());
    }
    ServerFrame::Event(EventFields::of(seq, event)).write(out.bytes());
}
