//! A device that has its session: requests and what comes back (IM 4 to 7).
//!
//! Answers may come in another order than their requests: each carries its request's number. A
//! message on its way to a device is encoded for each connection: one that two people exchange goes
//! to a handful of devices on two shards, and copying a hundred bytes costs less than a frame that
//! several connections share.

use super::chatrooms::write_joined;
use super::conversations::{write_event, write_marked};
use super::groups::{write_changed, write_members};
use super::pages::{write_conversations, write_history, write_page};
use super::people::{write_contact, write_contacts, write_presence};
use super::words::{write_found, write_transient};
use super::{End, Out, unexpected, write_end};
use crate::codec::client_frame::{ClientFrame, HistoryFields, PullFields, SendFields};
use crate::codec::content::{EntryFields, MessageFields, client_id};
use crate::codec::server_frame::{FailedFields, SentFields, ServerFrame};
use crate::codec::{WireFault, fault_number, frame};
use base::time::Now;
use model::account::Addressee;
use model::chat::{
    ChatDelivery, ChatFault, ChatMessage, ChatRequest, HistoryRange, NewMessage, PAGE_MESSAGES_MAX,
    REFUSED_PAUSE, SendRejected,
};
use model::close::CloseReason;
use model::counters::ChatCounter;
use model::id::SessionRef;
use model::machine::Input;
use model::timeline::Seq;

/// A device that has its session.
pub(super) struct Session {
    /// The session's record.
    pub(super) session: SessionRef,
    /// Requests that are with the service.
    pub(super) unanswered: u16,
    /// Whether it is read.
    pub(super) heard: Heard,
}

/// Whether a device is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Heard {
    Yes,
    /// The limit of unanswered requests is reached.
    Full,
    /// The device exceeded its rate, and is not read for a while.
    Slowed,
}

impl Session {
    pub(super) const fn new(session: SessionRef) -> Session {
        Session { session, unanswered: 0, heard: Heard::Yes }
    }

    /// Whether nothing is read from the device.
    pub(super) fn is_held(&self) -> bool {
        self.heard != Heard::Yes
    }

    /// Takes requests, as many as may be unanswered.
    pub(super) fn receive(&mut self, input: &mut Input<'_>, out: &mut Out) -> Result<(), End> {
        let bytes_max = frame::client_bytes_max(input.limits);
        let requests_max = input.limits.chat.requests_a_session_max;
        while !input.rest().is_empty() {
            if self.unanswered >= requests_max {
                if !self.is_held() {
                    self.heard = Heard::Full;
                    out.hold(true);
                }
                return Ok(());
            }
            let Some((bytes, length)) = frame::split(input.rest(), bytes_max)? else { break };
            let request = ClientFrame::read(bytes)?;
            input.take(length);
            self.take(&request, out)?;
        }
        Ok(())
    }

    pub(super) fn take(&mut self, request: &ClientFrame<'_>, out: &mut Out) -> Result<(), End> {
        let session = self.session;
        match request {
            ClientFrame::Send(send) => self.send(send, out),
            ClientFrame::Pull(PullFields { number, after, count }) => {
                let (number, after, count) = (*number, *after, most(*count));
                self.ask(ChatRequest::Pull { session, number, after, count }, out);
            }
            ClientFrame::History(history) => self.history(history, out),
            ClientFrame::Group(order) => self.order(order, out),
            ClientFrame::Members(members) => self.members(members, out),
            ClientFrame::MarkRead(place) => self.mark_read(place, out),
            ClientFrame::Set(set) => self.set(set, out),
            ClientFrame::Conversations(wish) => self.conversations(wish, out),
            ClientFrame::Recall(place) => self.recall(place, out),
            ClientFrame::Contacts(wish) => self.contacts(wish, out),
            ClientFrame::Contact(order) => self.contact(order, out),
            ClientFrame::Presence(presence) => self.presence(presence, out),
            ClientFrame::Transient(transient) => self.transient(transient, out),
            ClientFrame::Search(search) => self.search(search, out),
            ClientFrame::Push(push) => self.push(push, out),
            ClientFrame::PushSettings(settings) => self.push_settings(settings, out),
            ClientFrame::Upload(wish) => self.upload(wish, out),
            ClientFrame::Readers(wish) => self.readers(wish, out),
            ClientFrame::Privacy(wish) => self.privacy(wish, out),
            ClientFrame::ChatroomOrder(order) => self.order_chatroom(order, out),
            ClientFrame::JoinChatroom(join) => self.join_chatroom(join, out),
            ClientFrame::LeaveChatroom(leave) => self.leave_chatroom(leave, out),
            ClientFrame::Token(wish) => self.token(wish, out),
            ClientFrame::Acknowledge(upto) => {
                out.say(ChatRequest::Acknowledge { session, upto: *upto });
            }
            ClientFrame::Ping => {
                out.beat();
                ServerFrame::Pong.write(out.bytes());
            }
            ClientFrame::Goodbye => return Err(End::Close(CloseReason::Unbound)),
            ClientFrame::Login(_) | ClientFrame::Proceed(_) => {
                return Err(WireFault::OutOfOrder.into());
            }
        }
        Ok(())
    }

    pub(super) fn ask(&mut self, request: ChatRequest, out: &mut Out) {
        self.unanswered += 1;
        out.say(request);
    }

    fn send(&mut self, send: &SendFields<'_>, out: &mut Out) {
        let (session, number) = (self.session, send.number);
        let parts = (Addressee::parse(send.to), client_id(send.client_id), send.content.content());
        let (Ok(to), Some(client_id), Some(content)) = parts else {
            return refuse(number, out);
        };
        let message = Box::new(NewMessage { to, client_id, content });
        self.ask(ChatRequest::Send { session, number, message }, out);
    }

    fn history(&mut self, history: &HistoryFields<'_>, out: &mut Out) {
        let (session, number) = (self.session, history.number);
        let Ok(with) = Addressee::parse(history.with) else {
            return refuse(number, out);
        };
        let from = if history.backwards && history.from == 0 { Seq::MAX } else { history.from };
        let (backwards, count) = (history.backwards, most(history.count));
        let range = Box::new(HistoryRange { with, from, backwards, count });
        self.ask(ChatRequest::History { session, number, range }, out);
    }

    /// A message was not taken, and more is known of it than why (IM 8.2).
    fn rejected(&mut self, rejected: &SendRejected, out: &mut Out) {
        let &SendRejected { number, why, ref reason, retry_after_ms } = rejected;
        let failed = FailedFields { reason, retry_after_ms, ..failed(number, why) };
        ServerFrame::Failed(failed).write(out.bytes());
        self.answered(out);
    }

    /// The service has something for the device.
    pub(super) fn tell(&mut self, word: ChatDelivery, out: &mut Out) -> Result<(), CloseReason> {
        match word {
            ChatDelivery::Rejected(rejected) => self.rejected(&rejected, out),
            ChatDelivery::PushStatus(status) => self.push_status(&status, out),
            ChatDelivery::PushCode { number } => self.push_code(number, out),
            ChatDelivery::Upload { number, slot } => self.slot(number, &slot, out),
            ChatDelivery::Token(answer) => self.token_told(&answer, out),
            ChatDelivery::ChatroomJoined(joined) => {
                write_joined(&joined, out);
                self.answered(out);
            }
            ChatDelivery::ChatroomSaid(said) => self.chatroom_said(&said, out),
            ChatDelivery::ChatroomMissed(missed) => self.chatroom_missed(&missed, out),
            ChatDelivery::ChatroomNews(news) => self.chatroom_news(&news, out),
            ChatDelivery::Contact(change) => write_contact(&change, out),
            ChatDelivery::Presence(presence) => write_presence(&presence, out),
            ChatDelivery::Transient(transient) => write_transient(&transient, out),
            ChatDelivery::Message { seq, message } => write_message(seq, &message, out),
            ChatDelivery::Event { seq, event } => write_event(seq, &event, out),
            ChatDelivery::Notify { head } => ServerFrame::Notify(head).write(out.bytes()),
            ChatDelivery::End(end) => {
                write_end(end.why.into(), 0, out);
                return Err(end.reason);
            }
            ChatDelivery::LoggedIn(_) | ChatDelivery::Challenge(_) | ChatDelivery::Refused(_) => {
                return Err(unexpected("an answer to a login within a session"));
            }
            word if self.receipt_told(&word, out) => {}
            answer if write_answer(&answer, out) => self.answered(out),
            // What a device of IM does not ask has no answer.
            _ => return Err(unexpected("an answer to what a device of IM does not ask")),
        }
        Ok(())
    }

    /// A request was answered: one more may come.
    pub(super) fn answered(&mut self, out: &mut Out) {
        base::never!(self.unanswered == 0, "an answer to nothing");
        self.unanswered = self.unanswered.saturating_sub(1);
        if self.heard == Heard::Full {
            self.heard = Heard::Yes;
            out.hold(false);
        }
    }

    /// Stops reading a device that exceeds its rate, for a while.
    pub(super) fn slows(&mut self, now: Now, out: &mut Out) {
        if !self.is_held() {
            out.hold(true);
        }
        self.heard = Heard::Slowed;
        out.wake(now.after(REFUSED_PAUSE));
    }

    /// A time has come.
    pub(super) fn woken(&mut self, out: &mut Out) {
        if self.heard == Heard::Slowed {
            self.heard = Heard::Yes;
            out.hold(false);
        }
    }
}

/// The answer to a request. False: a device of IM has no such request.
fn write_answer(answer: &ChatDelivery, out: &mut Out) -> bool {
    match answer {
        &ChatDelivery::Sent { number, id, seq, at_ms, again } => {
            let sent = SentFields { number, id, seq, at_ms, again };
            ServerFrame::Sent(sent).write(out.bytes());
        }
        ChatDelivery::Failed { number, why } => write_failed(*number, *why, out),
        ChatDelivery::Page(page) => write_page(page, out),
        ChatDelivery::History(page) => write_history(page, out),
        ChatDelivery::Changed(changed) => write_changed(changed, out),
        ChatDelivery::Members(page) => write_members(page, out),
        ChatDelivery::Read { number, upto } => write_marked(*number, *upto, out),
        ChatDelivery::Set { number } => ServerFrame::Set(*number).write(out.bytes()),
        ChatDelivery::Conversations(page) => write_conversations(page, out),
        ChatDelivery::ContactsPage(page) => write_contacts(page, out),
        ChatDelivery::Found(page) => write_found(page, out),
        ChatDelivery::Done { number } => ServerFrame::Done(*number).write(out.bytes()),
        _ => return false,
    }
    true
}

/// How many messages are asked for: a longer wish is cut.
pub(super) fn most(count: u32) -> u16 {
    count.min(u32::from(PAGE_MESSAGES_MAX)) as u16
}

/// A request that makes no sense by itself is counted, and asked of nobody (IM 8.2).
pub(super) fn refuse(number: u32, out: &mut Out) {
    out.count(ChatCounter::Invalid);
    write_failed(number, ChatFault::Invalid, out);
}

pub(super) fn write_failed(number: u32, why: ChatFault, out: &mut Out) {
    ServerFrame::Failed(failed(number, why)).write(out.bytes());
}

/// Why a request was not done.
pub(super) fn failed(number: u32, why: ChatFault) -> FailedFields<'static> {
    let (fault, word) = (fault_number(why), why.name());
    FailedFields { number, fault, word, ..FailedFields::default() }
}

/// A device that does not read gets a notice of more entries, and pulls (IM 5.3).
fn write_message(seq: Seq, message: &ChatMessage, out: &mut Out) {
    if out.backlog() > out.backlog_max() {
        return ServerFrame::Notify(seq).write(out.bytes());
    }
    let entry = EntryFields { seq, message: MessageFields::of(message) };
    ServerFrame::Message(entry).write(out.bytes());
}
