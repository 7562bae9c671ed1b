//! Words between machines and services, as far as traces tell of them: logins, messages on topics,
//! what was refused and dropped.
//!
//! Invariant: a message is shown as delivered when its machine has written it, and not before.

use super::{Moment, Names, Seen, SeenWhat, TraceTap, WireKind};
use crate::shard_logic::AnyService;
use base::time::Now;
use model::chat::ChatRequest;
use model::id::ConnRef;
use model::ports::trace::{TraceField, TraceIdentity, TraceScope, TraceSubject};
use model::request::PushRequest;
use model::service::{Delivery, LoginRefusal, Request, ServiceKind};
use model::session::{Denial, Outgoing, SessionDelivery, SessionRequest};
use model::topic::Publication;
use proto_mqtt::codec::name;
use std::collections::HashMap;
use std::sync::Arc;

/// Messages that may be on their way to connections of a shard within a turn. More are left out.
const ON_WAY_MAX: usize = 4_096;

/// A message that was handed to a connection, and the terms of it.
type Handed = (Arc<Publication>, Vec<TraceField>);

/// Messages that were handed to connections in this turn.
#[derive(Default)]
pub(super) struct OnWay {
    to: HashMap<ConnRef, Vec<Handed>>,
    count: usize,
}

impl OnWay {
    pub(super) fn clear(&mut self) {
        if self.count > 0 {
            self.to.clear();
            self.count = 0;
        }
    }
}

impl TraceTap {
    /// A machine says something to the inside.
    pub(super) fn word(
        &mut self,
        at: Moment,
        word: &Request,
        subject: Option<TraceSubject>,
        services: &[Box<dyn AnyService>],
    ) {
        let plain = TraceIdentity { client: "", within_user: false, user: None, peer: None };
        match word {
            Request::Push(PushRequest::Bind(bind)) => {
                self.is(at, TraceIdentity { client: bind.device.as_str(), ..plain }, false);
            }
            Request::Topics(SessionRequest::Connect(connect)) => {
                let (client, user) = (&*connect.client_id, connect.user.as_deref());
                let peer = Some(connect.peer);
                self.is(at, TraceIdentity { client, user, peer, ..plain }, false);
            }
            Request::Chat(ChatRequest::Login(login)) => {
                let (client, user) = (&*login.device, Some(login.account.as_str()));
                let (within_user, peer) = (true, Some(login.peer));
                self.is(at, TraceIdentity { client, within_user, user, peer }, false);
            }
            Request::Chat(ChatRequest::Redeem(it)) => {
                let (client, user) = (&*it.login.device, Some(it.login.account.as_str()));
                let (within_user, peer) = (true, Some(it.login.peer));
                self.is(at, TraceIdentity { client, within_user, user, peer }, false);
            }
            Request::Topics(SessionRequest::Publish { id, again, message, .. })
                if self.wants_topic(message.topic()) =>
            {
                let mut fields = terms(message.qos as u8, message.retain, *again);
                if *id != 0 {
                    fields.push(("packet_id", (*id).into()));
                }
                self.message(at, "published", (message.clone(), fields), (subject, services));
            }
            Request::Topics(SessionRequest::Dropped { count, why, .. }) => {
                let fields = || vec![("reason", why.name().into()), ("count", (*count).into())];
                self.saw(at, || SeenWhat::Noticed("dropped", fields()));
            }
            _ => {}
        }
    }

    /// A service has something delivered to a connection.
    pub(crate) fn delivers(&mut self, now: Now, to: ConnRef, delivery: &Delivery) {
        let wire = match delivery.service() {
            ServiceKind::Push | ServiceKind::Echo => WireKind::Miop,
            ServiceKind::Topics => WireKind::Mqtt(None),
            ServiceKind::Chat => WireKind::Im,
        };
        let at = Moment { at_ms: now.wall_ms, conn: to, wire };
        if let Delivery::Topics(SessionDelivery::Publish(outgoing)) = delivery {
            return self.hands_over(to, outgoing);
        }
        if let Some(fields) = refused(delivery) {
            self.saw(at, || SeenWhat::Noticed("refused", fields));
        }
    }

    /// A message is handed to a machine, which will send it, or not.
    fn hands_over(&mut self, to: ConnRef, outgoing: &Outgoing) {
        if !self.wants_topic(outgoing.message.topic()) {
            return;
        }
        if self.on_way.count >= ON_WAY_MAX {
            let wanted = self.of_topic(outgoing.message.topic());
            let wanted = self.running.iter().filter(|it| wanted.contains(&it.trace.number));
            return wanted.for_each(|it| it.trace.leave_out(1));
        }
        let mut fields = terms(outgoing.qos as u8, outgoing.retain, outgoing.again);
        if outgoing.id != 0 {
            fields.push(("packet_id", outgoing.id.into()));
        }
        self.on_way.count += 1;
        self.on_way.to.entry(to).or_default().push((outgoing.message.clone(), fields));
    }

    /// A machine sends what was handed to it.
    pub(super) fn sends(
        &mut self,
        at: Moment,
        subject: Option<TraceSubject>,
        services: &[Box<dyn AnyService>],
    ) {
        if self.on_way.count == 0 {
            return;
        }
        for sent in self.on_way.to.remove(&at.conn).unwrap_or_default() {
            self.on_way.count -= 1;
            self.message(at, "delivered", sent, (subject, services));
        }
    }

    /// Tells of a message those traces that follow its topic.
    fn message(
        &mut self,
        at: Moment,
        kind: &'static str,
        (message, fields): (Arc<Publication>, Vec<TraceField>),
        (subject, services): (Option<TraceSubject>, &[Box<dyn AnyService>]),
    ) {
        let identity = subject.and_then(|subject| {
            services.iter().find_map(|service| service.identity(at.conn, subject))
        });
        let who = identity.map_or_else(Names::default, |identity| Names {
            client: Some(identity.name()),
            user: identity.user.map(str::to_owned),
            peer: identity.peer,
        });
        let connection = self.followed.get(&at.conn).map_or(0, |followed| followed.number);
        let traces = self.of_topic(message.topic());
        let what = SeenWhat::Message { kind, who, message, fields };
        let Moment { at_ms, wire, .. } = at;
        self.tell(&traces, &Arc::new(Seen { connection, at_ms, wire, what }));
    }

    /// The traces that follow a topic.
    fn of_topic(&self, topic: &str) -> Vec<u64> {
        let wants = |it: &&super::Running| follows(&it.trace.scope, topic);
        self.running.iter().filter(wants).map(|it| it.trace.number).collect()
    }

    fn wants_topic(&self, topic: &str) -> bool {
        self.running.iter().any(|it| follows(&it.trace.scope, topic))
    }
}

fn follows(scope: &TraceScope, topic: &str) -> bool {
    matches!(scope, TraceScope::Topic(filter) if name::matches(filter, topic))
}

/// Fields of a message beside its topic.
fn terms(qos: u8, retain: bool, again: bool) -> Vec<TraceField> {
    vec![("qos", qos.into()), ("retain", retain.into()), ("dup", again.into())]
}

/// Refusal in a delivery of a service, if it is one.
fn refused(delivery: &Delivery) -> Option<Vec<TraceField>> {
    if let Some(LoginRefusal { why, .. }) = delivery.refusal() {
        return Some(vec![("what", "login".into()), ("reason", why.into())]);
    }
    let Delivery::Topics(delivery) = delivery else { return None };
    let of = |what: &str, id: u16, denials: Vec<Denial>| {
        let reasons = denials.iter().map(|why| why.name().to_owned()).collect();
        let reasons = model::ports::trace::TraceValue::List(reasons);
        let fields = vec![("what", what.into()), ("packet_id", id.into()), ("reasons", reasons)];
        (!denials.is_empty()).then_some(fields)
    };
    match delivery {
        SessionDelivery::Taken { id, result: Err(why), .. } => of("publish", *id, vec![*why]),
        SessionDelivery::Subscribed { id, results } => {
            of("subscribe", *id, results.iter().filter_map(|result| result.err()).collect())
        }
        SessionDelivery::Unsubscribed { id, results } => {
            of("unsubscribe", *id, results.iter().filter_map(|result| result.err()).collect())
        }
        SessionDelivery::End(denied) => {
            Some(vec![("what", "session".into()), ("reason", denied.why.name().into())])
        }
        _ => None,
    }
}
