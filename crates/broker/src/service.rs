//! The broker as a service of its shard.

use crate::session::record::Session;
use crate::{Broker, Effects};
use base::time::{Instant, Now};
use model::id::{ConnRef, ShardId};
use model::limits::Limits;
use model::ports::control::Status;
use model::ports::events::ClientEvent;
use model::ports::log::{Completion, Restored};
use model::ports::presence::queries::PresenceStatus;
use model::ports::requests::PortReply;
use model::ports::topics::{TopicAnswer, TopicCommand};
use model::ports::trace::{TraceIdentity, TraceSubject};
use model::presence::{PresenceVersion, Principal};
use model::pressure::Pressure;
use model::service::{Service, ServiceKind, Weigh};
use model::session::{SessionDelivery, SessionRequest};
use model::timeline::TimelineId;
use model::topic::Publication;
use std::sync::Arc;

impl Weigh for crate::PeerMessage {
    fn weight(&self) -> usize {
        self.weight()
    }
}

impl Service for Broker {
    const KIND: ServiceKind = ServiceKind::Topics;

    type Request = SessionRequest;
    type Delivery = SessionDelivery;
    type Event = ClientEvent;
    type Command = TopicCommand;
    type Answer = TopicAnswer;
    type PeerMessage = crate::PeerMessage;

    fn restore(&mut self, now: Now, restored: Restored<'_>) -> bool {
        self.restore(now, restored)
    }

    fn wants_entries(&self, timeline: TimelineId) -> bool {
        self.wants_entries(timeline)
    }

    fn restored(&mut self, now: Now, fx: &mut Effects) {
        self.restored(now, fx);
    }

    fn request(&mut self, now: Now, from: ConnRef, request: SessionRequest, fx: &mut Effects) {
        self.answers.came(now);
        self.request(now, from, request, fx);
    }

    fn undelivered(&mut self, now: Now, to: ConnRef, delivery: SessionDelivery, fx: &mut Effects) {
        self.undelivered(now, to, delivery, fx);
    }

    fn command(&mut self, now: Now, ask: u64, command: TopicCommand, fx: &mut Effects) {
        self.answers.came(now);
        self.command(now, ask, command, fx);
    }

    fn complete(&mut self, now: Now, completion: Completion, fx: &mut Effects) {
        self.answers.came(now);
        self.complete(now, completion, fx);
    }

    fn peer_message(
        &mut self,
        now: Now,
        _: ShardId,
        message: crate::PeerMessage,
        fx: &mut Effects,
    ) {
        self.answers.came(now);
        self.peer_message(now, message, fx);
    }

    fn port_reply(&mut self, now: Now, number: u64, reply: PortReply, fx: &mut Effects) {
        if let PortReply::Access(answer) = reply {
            self.answers.came(now);
            self.admitted(now, number, answer, fx);
        }
    }

    fn publish(&mut self, now: Now, message: &Publication, fx: &mut Effects) {
        self.publish(now, message.clone(), fx);
    }

    fn turn(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        self.answers.came(now);
        self.turn(now, fx)
    }

    fn has_news(&self) -> bool {
        self.has_other_rules()
    }

    fn unsettled(&self) -> usize {
        self.unsettled()
    }

    fn is_behind(&self) -> bool {
        self.is_behind()
    }

    fn press(&mut self, pressure: Pressure) {
        self.press(pressure);
    }

    fn set_draining(&mut self, _: Now, draining: bool) {
        self.admissions.set_closed(draining);
    }

    fn configure(&mut self, limits: &Arc<Limits>) {
        self.configure(limits);
    }

    fn status(&self, status: &mut Status) {
        self.status(status);
    }

    fn find(&self, now: Now, who: &Principal) -> Option<PresenceStatus> {
        let Principal::Client(id) = who else { return None };
        self.sessions.presence_of(now, id)
    }

    fn identity(&self, conn: ConnRef, subject: TraceSubject) -> Option<TraceIdentity<'_>> {
        let TraceSubject::Session(ServiceKind::Topics, session) = subject else { return None };
        let session = self.sessions.at(session.key())?;
        (session.conn() == Some(conn)).then(|| TraceIdentity {
            client: session.id(),
            within_user: false,
            user: self.sessions.principal(session).user.as_deref(),
            peer: session.peer(),
        })
    }

    fn owner(&self, timeline: TimelineId, _label: &[u8]) -> Option<String> {
        let home = self.settings.home;
        let is_its = |session: &Session| {
            session.timeline(home) == timeline || session.exchanges(home) == timeline
        };
        let mut sessions = self.sessions.iter().map(|(_, session)| session);
        sessions.find(|session| is_its(session)).map(|session| format!("session {}", session.id()))
    }

    fn observe(&mut self, version: PresenceVersion) {
        self.observe(version);
    }

    fn outvoted(&mut self, now: Now, who: &Principal, fx: &mut Effects) {
        if let Principal::Client(id) = who {
            self.outvoted(now, id, fx);
        }
    }

    fn audit(&self) {
        self.audit();
    }
}
