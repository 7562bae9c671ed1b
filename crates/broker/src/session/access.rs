//! Admission: decides at once which clients may connect, or asks and decides later.
//!
//! A question that takes a while is kept with its connection; when the connection ends, the answer
//! is dropped. A connected client may authenticate again (MQTT5 4.12.1); its identity stays the
//! same.

use crate::Broker;
use crate::Effects;
use crate::session::admissions::{Asker, Asking, Proven};
use base::slab::Key;
use base::time::Now;
use model::close::CloseReason;
use model::counters::TopicCounter;
use model::id::ConnRef;
use model::ports::access::{Admission, Grant, Question, Who};
use model::ports::events::{ClientEvent, ClientWhat};
use model::ports::requests::PortRequest;
use model::presence::PresenceVersion;
use model::session::{ConnectRequest, Denial, Denied, Proceed, SessionDelivery};

/// Steps of one authentication.
const STEPS_MAX: u8 = 8;

/// The names that a client claims in its CONNECT.
pub(crate) fn claimed(connect: &ConnectRequest) -> Who<'_> {
    Who { client_id: &connect.client_id, user: connect.user.as_deref() }
}

impl Broker {
    /// Asks whether this client may come in.
    pub(crate) fn ask_in(
        &mut self,
        now: Now,
        from: ConnRef,
        connect: Box<ConnectRequest>,
        fx: &mut Effects,
    ) {
        if !self.admissions.may_ask() {
            return self.turn_away(now, from, claimed(&connect), Denial::Busy, fx);
        }
        let question = question_of(&connect);
        let method = connect.method.as_ref().map(|(method, _)| method.clone());
        let asker = Asker::Connect(connect);
        let asking = Asking { conn: from, asker, method, dialogue: None, steps: 0 };
        self.ask(now, asking, question, fx);
    }

    fn ask(&mut self, now: Now, asking: Asking, question: Question, fx: &mut Effects) {
        match self.settings.access.admit(now.unix_s(), &question) {
            Admission::Later => {
                fx.counters.count(TopicCounter::AccessAsked);
                let number = self.admissions.put_asking(asking);
                fx.port_requests.push((number, PortRequest::Access(Box::new(question))));
            }
            answer => self.answered(now, asking, answer, fx),
        }
    }

    /// The answer to a question that was handed out.
    pub fn admitted(&mut self, now: Now, question: u64, answer: Admission, fx: &mut Effects) {
        if let Some(asking) = self.admissions.take_asking(question) {
            self.answered(now, asking, answer, fx);
        }
    }

    fn answered(&mut self, now: Now, mut asking: Asking, answer: Admission, fx: &mut Effects) {
        match answer {
            Admission::Granted(grant, data) => self.granted_in(now, asking, grant, data, fx),
            Admission::Continue { data, dialogue } => {
                let method = asking.method.clone().unwrap_or_default();
                fx.deliveries.push((asking.conn, SessionDelivery::Challenge { method, data }));
                asking.dialogue = Some(dialogue);
                self.admissions.put_asking(asking);
            }
            Admission::Refused(why) => self.refused_in(now, asking, why, fx),
            Admission::Later => self.refused_in(now, asking, Denial::Unavailable, fx),
        }
    }

    fn granted_in(
        &mut self,
        now: Now,
        asking: Asking,
        grant: Grant,
        data: Option<Box<[u8]>>,
        fx: &mut Effects,
    ) {
        // The answer may be older than an order that ended the account's sessions.
        let user = grant.user.as_deref();
        if user.is_some_and(|user| !self.settings.access.holds(user, grant.account)) {
            return self.refused_in(now, asking, Denial::BadCredentials, fx);
        }
        let method = asking.method.map(|method| (method, data.unwrap_or_default()));
        match asking.asker {
            Asker::Connect(connect) => {
                let version = self.settings.access.version();
                let connect = *connect;
                let proven = Proven { connect, method, grant, version, ends_durable: false };
                self.attach(now, asking.conn, proven, fx);
            }
            Asker::Session(key) => {
                let Some(session) = self.sessions.at(key) else { return };
                if session.conn() != Some(asking.conn) {
                    return;
                }
                if !self.sessions.principal(session).is_same(&grant) {
                    let denied = Denied::of(Denial::NotAuthorized, CloseReason::AuthFailed);
                    return self.end(now, key, denied, fx);
                }
                self.regrant(now, key, &grant, fx);
                let (method, data) = method.unwrap_or_default();
                let word = SessionDelivery::Authenticated { method, data };
                fx.deliveries.push((asking.conn, word));
                // The chat session of the client expires with the proof, too.
                self.tell_device(key, fx);
            }
        }
    }

    fn refused_in(&mut self, now: Now, asking: Asking, why: Denial, fx: &mut Effects) {
        match asking.asker {
            Asker::Connect(connect) => {
                self.turn_away(now, asking.conn, claimed(&connect), why, fx);
            }
            Asker::Session(key) => {
                if self.sessions.conn(key) == Some(asking.conn) {
                    self.end(now, key, Denied::of(why, CloseReason::AuthFailed), fx);
                }
            }
        }
    }

    /// The next step of an authentication, or the first of a new one.
    pub(crate) fn proceed(&mut self, now: Now, from: ConnRef, proceed: Proceed, fx: &mut Effects) {
        let Proceed { session, method, data } = proceed;
        let waiting = self.admissions.take_asking_of(from);
        let asking = match (waiting, session) {
            (Some(asking), _) if asking.method.as_ref() == Some(&method) => {
                Asking { steps: asking.steps + 1, ..asking }
            }
            (Some(asking), _) => return self.refused_in(now, asking, Denial::BadMethod, fx),
            (None, Some(session)) => {
                let Some(key) = self.bound(from, session) else { return };
                let asker = Asker::Session(key);
                Asking { conn: from, asker, method: Some(method.clone()), dialogue: None, steps: 0 }
            }
            (None, None) => return,
        };
        if asking.steps > STEPS_MAX {
            return self.refused_in(now, asking, Denial::BadCredentials, fx);
        }
        let mut question = match &asking.asker {
            Asker::Connect(connect) => question_of(connect),
            Asker::Session(key) => match self.question_again(*key) {
                Some(question) => question,
                None => return,
            },
        };
        question.method = Some((method, data));
        question.dialogue = asking.dialogue.clone();
        self.ask(now, asking, question, fx);
    }

    /// A connection went before it was answered.
    pub(crate) fn gone(&mut self, now: Now, from: ConnRef, fx: &mut Effects) {
        self.endings.forget(from);
        if let Some(key) = self.admissions.forget(from)
            && self.sessions.conn(key) == Some(from)
        {
            self.detach(now, key, CloseReason::PeerClosed, fx);
        }
    }

    /// Refuses a client.
    pub(crate) fn turn_away(
        &mut self,
        now: Now,
        from: ConnRef,
        who: Who<'_>,
        why: Denial,
        fx: &mut Effects,
    ) {
        let Who { client_id, user } = who;
        fx.counters.count(TopicCounter::SessionsRefused);
        if why == Denial::Rate {
            fx.counters.count(TopicCounter::SourceRefused);
        }
        self.admissions.take_assigned(client_id);
        if fx.events_wanted {
            let what = ClientWhat::Refused { why };
            let client_id = client_id.into();
            let (at_ms, version) = (now.wall_ms, PresenceVersion::default());
            let user = user.map(std::sync::Arc::from);
            fx.events.push(ClientEvent { at_ms, client_id, user, version, what });
        }
        let reason = match why {
            Denial::Busy | Denial::Rate => CloseReason::Busy,
            Denial::Full => CloseReason::Full,
            Denial::Quota | Denial::StoreFull | Denial::StoreFailed => CloseReason::Quota,
            Denial::ShuttingDown => CloseReason::Draining,
            Denial::UseAnother | Denial::Moved => CloseReason::Redirected,
            Denial::Banned => CloseReason::Banned,
            _ => CloseReason::AuthFailed,
        };
        let (who, user) = (Some(client_id.into()), user.map(Box::from));
        let denied = Denied { who, user, ..Denied::of(why, reason) };
        fx.deliveries.push((from, SessionDelivery::Refused(Box::new(denied))));
    }

    fn question_again(&self, key: Key) -> Option<Question> {
        let session = self.sessions.at(key)?;
        Some(Question {
            client_id: Box::<str>::from(session.id()),
            user: self.sessions.principal(session).user.as_deref().map(Box::from),
            password: None,
            certificate: None,
            method: None,
            dialogue: None,
            bindings: None,
            peer: session.peer()?,
            near: false,
            door: 0,
            tls: false,
            protocol: self.sessions.protocol_name(session.protocol()),
        })
    }
}

fn question_of(connect: &ConnectRequest) -> Question {
    Question {
        client_id: connect.client_id.clone(),
        user: connect.user.clone(),
        password: connect.password.clone(),
        certificate: connect.certificate.clone(),
        method: connect.method.clone(),
        dialogue: None,
        bindings: None,
        peer: connect.peer,
        near: connect.near,
        door: connect.door,
        tls: connect.tls,
        protocol: connect.protocol,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::admissions::ASKING_MAX;
    use crate::session::made::{NOW, broker, conn, connect};
    use model::ports::access::Access;
    use model::session::SessionRequest;
    use std::sync::Arc;

    /// Knows nothing at once.
    struct Slow;

    impl Access for Slow {
        fn admit(&self, _: u32, _: &Question) -> Admission {
            Admission::Later
        }

        fn renew(&self, _: &Who<'_>) -> Option<Grant> {
            None
        }

        fn version(&self) -> u64 {
            0
        }
    }

    #[test]
    fn so_many_questions_are_out_and_one_more_is_refused() {
        let mut broker = broker(|settings| settings.access = Arc::new(Slow));
        for slot in 1..ASKING_MAX as u32 {
            let asker = Asker::Session(Key { slot: 0, generation: 0 });
            let asking = Asking { conn: conn(slot), asker, method: None, dialogue: None, steps: 0 };
            broker.admissions.put_asking(asking);
        }
        let mut come = |slot: u32| {
            let mut fx = Effects::default();
            let word = SessionRequest::Connect(connect(&slot.to_string()));
            broker.request(NOW, conn(slot), word, &mut fx);
            if slot == 200_001 {
                broker.request(NOW, conn(1), SessionRequest::Gone, &mut fx);
            }
            let refused = fx.deliveries.pop().map(|(_, word)| match word {
                SessionDelivery::Refused(denied) => (denied.why, denied.reason),
                other => panic!("{other:?}"),
            });
            (fx.port_requests.len(), refused, broker.admissions.may_ask())
        };
        assert_eq!(come(200_000), (1, None, false));
        let busy = Some((Denial::Busy, CloseReason::Busy));
        assert_eq!(come(200_001), (0, busy, true), "and another one goes");
        assert_eq!(come(200_002), (1, None, false));
    }

    #[test]
    fn whoever_is_turned_away_ends_for_a_reason_that_fits() {
        for (why, reason) in [
            (Denial::Busy, CloseReason::Busy),
            (Denial::Rate, CloseReason::Busy),
            (Denial::Full, CloseReason::Full),
            (Denial::Quota, CloseReason::Quota),
            (Denial::StoreFull, CloseReason::Quota),
            (Denial::StoreFailed, CloseReason::Quota),
            (Denial::ShuttingDown, CloseReason::Draining),
            (Denial::UseAnother, CloseReason::Redirected),
            (Denial::Moved, CloseReason::Redirected),
            (Denial::Banned, CloseReason::Banned),
            (Denial::BadCredentials, CloseReason::AuthFailed),
        ] {
            let (mut broker, mut fx) = (broker(|_| {}), Effects::default());
            let who = Who { client_id: "a", user: Some("ann") };
            broker.turn_away(NOW, conn(1), who, why, &mut fx);
            let [(_, SessionDelivery::Refused(denied))] = &fx.deliveries[..] else { panic!() };
            assert_eq!((denied.why, denied.reason), (why, reason));
            assert_eq!((denied.who.as_deref(), denied.user.as_deref()), (Some("a"), Some("ann")));
            assert_eq!(fx.counters.of(TopicCounter::SessionsRefused), 1);
            let by_source = fx.counters.of(TopicCounter::SourceRefused);
            assert_eq!(by_source, u64::from(why == Denial::Rate), "{why:?}");
        }
    }
}
