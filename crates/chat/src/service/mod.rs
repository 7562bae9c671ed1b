//! Chat as a service of its shard: each call takes an input, and then runs the flows that the input
//! made ready.
//!
//! Invariant: when a call returns no flow is ready, so the call's [`Effects`] are complete.

mod dispatch;
pub(crate) mod flow;

use crate::{Chat, ChatWord, Effects, Settings};
use base::flows::{self, FlowState, Flows};
use base::time::{Instant, Now, earliest};
use flow::Reply;
use model::chat::foreign::ForeignWord;
use model::chat::{ChatDelivery, ChatRequest};
use model::id::{ConnRef, ShardId};
use model::limits::Limits;
use model::ports::chat::{ChatAnswer, ChatCommand};
use model::ports::control::Status;
use model::ports::events::ChatEvent;
use model::ports::log::{Completion, Restored};
use model::ports::presence::queries::PresenceStatus;
use model::ports::requests::PortReply;
use model::ports::trace::{TraceIdentity, TraceSubject};
use model::presence::{PresenceVersion, Principal};
use model::pressure::Pressure;
use model::service::{Service, ServiceKind};
use model::timeline::TimelineId;
use std::sync::Arc;

/// The chat service of one shard.
pub struct ChatService(Option<Box<ShardState>>);

/// The state that flows share: all of a shard's chat, the effects of the call under way, and its
/// time.
pub(crate) struct ShardState {
    pub(crate) chat: Chat,
    pub(crate) fx: Effects,
    pub(crate) now: Now,
}

impl FlowState for ShardState {
    type Reply = Reply;

    fn flows(&mut self) -> &mut Flows<ShardState> {
        &mut self.chat.flows
    }

    fn paused(&mut self) {
        self.chat.leave_doors(self.now, &mut self.fx);
    }
}

impl ChatService {
    /// A service without sessions.
    pub fn new(settings: Settings) -> ChatService {
        let (chat, fx, now) = (Chat::new(settings), Effects::default(), Now::default());
        ChatService(Some(Box::new(ShardState { chat, fx, now })))
    }

    /// Queues messages that are stored from now on for the archive, too.
    pub fn keep_for_archive(&mut self) {
        self.chat_mut().keep_for_archive();
    }

    fn chat(&self) -> &Chat {
        &self.0.as_ref().expect("it is lent only during a call").chat
    }

    fn chat_mut(&mut self) -> &mut Chat {
        &mut self.0.as_mut().expect("it is lent only during a call").chat
    }

    /// Runs an action on the chat of this shard, and then resumes the flows that it made ready.
    fn act(&mut self, now: Now, fx: &mut Effects, act: impl FnOnce(&mut Chat, &mut Effects)) {
        act(self.chat_mut(), fx);
        self.run_flows(now, fx);
    }

    /// Resumes the flows that are ready. False: no flow was.
    fn run_flows(&mut self, now: Now, fx: &mut Effects) -> bool {
        if !self.chat().flows.is_ready() {
            return false;
        }
        let mut state = self.0.take().expect("it is lent only during a call");
        state.now = now;
        std::mem::swap(&mut state.fx, fx);
        let mut state = flows::run(state);
        std::mem::swap(&mut state.fx, fx);
        self.0 = Some(state);
        true
    }
}

impl Service for ChatService {
    const KIND: ServiceKind = ServiceKind::Chat;

    type Request = ChatRequest;
    type Delivery = ChatDelivery;
    type Event = ChatEvent;
    type Command = ChatCommand;
    type Answer = ChatAnswer;
    type PeerMessage = ChatWord;

    fn restore(&mut self, _: Now, restored: Restored<'_>) -> bool {
        self.chat_mut().restore(restored)
    }

    fn restored(&mut self, now: Now, fx: &mut Effects) {
        self.act(now, fx, |chat, fx| chat.restored(now, fx));
    }

    fn request(&mut self, now: Now, from: ConnRef, request: ChatRequest, fx: &mut Effects) {
        self.act(now, fx, |chat, fx| chat.request(now, from, request, fx));
    }

    fn undelivered(&mut self, now: Now, to: ConnRef, delivery: ChatDelivery, fx: &mut Effects) {
        self.act(now, fx, |chat, fx| chat.undelivered(to, delivery, fx));
    }

    fn command(&mut self, now: Now, ask: u64, command: ChatCommand, fx: &mut Effects) {
        self.act(now, fx, |chat, fx| chat.command(ask, command, fx));
    }

    fn complete(&mut self, now: Now, completion: Completion, fx: &mut Effects) {
        self.act(now, fx, |chat, fx| chat.complete(now, completion, fx));
    }

    fn peer_message(&mut self, now: Now, from: ShardId, message: ChatWord, fx: &mut Effects) {
        self.act(now, fx, |chat, fx| chat.peer_message(now, from, message, fx));
    }

    fn port_reply(&mut self, now: Now, number: u64, reply: PortReply, fx: &mut Effects) {
        self.act(now, fx, |chat, fx| match reply {
            PortReply::Access(answer) => chat.admitted(number, answer, fx),
            PortReply::Review(verdict) => chat.reviewed(number, verdict),
            PortReply::Book(answer) => chat.book_told(now, number, answer, fx),
            PortReply::Notify(result) => chat.told(now, number, result, fx),
        });
    }

    fn not_out(&mut self, now: Now, words: Vec<ForeignWord>, fx: &mut Effects) {
        self.act(now, fx, |chat, fx| chat.come_back(now, words, fx));
    }

    fn turn(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        self.chat_mut().flows.expire(now.mono, || Reply::Late);
        self.run_flows(now, fx);
        let next = self.chat_mut().turn(now, fx);
        // Flows that went on may have set deadlines; those that go on below have another turn.
        let deadline = self.chat_mut().flows.expire(now.mono, || Reply::Late);
        let is_more = self.run_flows(now, fx);
        earliest([deadline, next, is_more.then_some(now.mono)])
    }

    fn has_news(&self) -> bool {
        self.chat().has_news()
    }

    fn unsettled(&self) -> usize {
        self.chat().unsettled()
    }

    fn is_behind(&self) -> bool {
        self.chat().is_behind()
    }

    fn press(&mut self, pressure: Pressure) {
        self.chat_mut().pressure = pressure;
    }

    fn set_draining(&mut self, now: Now, draining: bool) {
        self.chat_mut().set_draining(now, draining);
    }

    fn configure(&mut self, limits: &Arc<Limits>) {
        self.chat_mut().configure(limits);
    }

    fn status(&self, status: &mut Status) {
        self.chat().status(status);
    }

    fn find(&self, _: Now, _: &Principal) -> Option<PresenceStatus> {
        None
    }

    fn identity(&self, conn: ConnRef, subject: TraceSubject) -> Option<TraceIdentity<'_>> {
        self.chat().identity(conn, subject)
    }

    fn owner(&self, timeline: TimelineId, label: &[u8]) -> Option<String> {
        self.chat().owner_of_timeline(timeline, label)
    }

    fn observe(&mut self, _: PresenceVersion) {}

    fn outvoted(&mut self, _: Now, _: &Principal, _: &mut Effects) {}

    fn audit(&self) {
        self.chat().audit();
    }
}
