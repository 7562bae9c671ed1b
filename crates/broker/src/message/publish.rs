//! A client publishes.
//!
//! A message is refused before anything is done. A message of QoS 2 is known by its packet
//! identifier until the client releases it: another one under the same identifier meanwhile is
//! answered and not delivered again (MQTT5 4.3.3-10). The answer is given when every log that must
//! store the message has it; an answer that a log refused says so.

use super::answers::{Deferred, DueAnswer, Origin, PendingAnswer, SameShape, receipt_of};
use super::keep::Kept;
use crate::Broker;
use crate::Effects;
use crate::durable::calls::{PendingCall, Retry};
use crate::durable::entries::Said;
use crate::peer_message::PeerMessage;
use crate::retained::is_own;
use crate::rewrite::Names;
use crate::session::chat_calls::is_of_chat;
use crate::session::inbound::{Inbound, InboundState, Marker};
use crate::session::record::Exchange;
use base::slab::Key;
use base::time::Now;
use model::chat::CHAT_TOPICS;
use model::counters::TopicCounter;
use model::ports::calls::may_be_taken_later;
use model::ports::events::ClientWhat;
use model::ports::log::{Append, Call, Done, StoreError, Write};
use model::pressure::Pressure;
use model::session::{Denial, Routed, SessionDelivery};
use model::timeline::{Message, Seq};
use model::topic::{Publication, Qos};
use std::sync::Arc;

/// In front of a topic: seconds, and the topic to publish to then.
pub(super) const DELAYED: &str = "$delayed/";

impl Broker {
    /// A message came from a client.
    pub(crate) fn publish_in(
        &mut self,
        now: Now,
        exchange: Exchange,
        again: bool,
        message: Arc<Publication>,
        fx: &mut Effects,
    ) {
        let key = exchange.session;
        fx.counters.count(TopicCounter::Publishes);
        let qos = message.qos;
        match qos {
            Qos::AtMostOnce if self.pressure >= Pressure::Qos0 => {
                return fx.counters.count(TopicCounter::PressedPublishes);
            }
            Qos::AtMostOnce => {}
            Qos::AtLeastOnce => fx.counters.count(TopicCounter::PublishesQos1),
            Qos::ExactlyOnce => fx.counters.count(TopicCounter::PublishesQos2),
        }
        if message.is_under(CHAT_TOPICS) {
            return self.call_chat(now, exchange, message, fx);
        }
        if qos == Qos::ExactlyOnce && self.repeated(now, exchange, again, &message, fx) {
            return;
        }
        let message = match self.admit_message(now, key, message) {
            Ok(message) => message,
            Err(_) if qos == Qos::AtMostOnce => {
                return fx.counters.count(TopicCounter::PublishesRefused);
            }
            Err(why) => {
                return self.refuse(now, Origin::Client(exchange, qos), why, fx);
            }
        };
        if fx.events_wanted && fx.messages_wanted {
            let message = message.clone();
            self.sessions.event(now, key, || ClientWhat::Published(message), fx);
        }
        self.accept(now, exchange, message, fx);
    }

    /// Publishes a message of the server itself: no rule is checked, and no client is answered.
    pub fn publish(&mut self, now: Now, mut message: Publication, fx: &mut Effects) {
        message.publisher = 0;
        self.routing.stamp(now, &mut message);
        self.publish_for(now, Arc::new(message), PendingAnswer::of(Origin::Server), fx);
    }

    /// Publishes a message without a packet identifier: of a command, a will, or a delayed one.
    /// Returns the wait until it is stored, if any.
    pub(crate) fn publish_for(
        &mut self,
        now: Now,
        message: Arc<Publication>,
        mut pending_answer: PendingAnswer,
        fx: &mut Effects,
    ) -> Option<Key> {
        self.look_at_pages(&message, &mut pending_answer);
        let mut matched = self.route(now, &message, &mut pending_answer, fx);
        if message.retain {
            matched |= self.retain(now, &message, &mut pending_answer, fx);
        }
        self.await_proof(now, &mut pending_answer);
        self.close(now, pending_answer, matched, fx)
    }

    /// An admitted message is on its way.
    fn accept(
        &mut self,
        now: Now,
        exchange: Exchange,
        message: Arc<Publication>,
        fx: &mut Effects,
    ) {
        let Exchange { session: key, id } = exchange;
        let qos = message.qos;
        if qos == Qos::AtMostOnce {
            let mut pending_answer = PendingAnswer::of(Origin::Server);
            let matched = self.take_in(now, &message, &mut pending_answer, fx);
            if !matched {
                fx.counters.count(TopicCounter::PublishesUnmatched);
            }
            return;
        }
        let origin = Origin::Client(exchange, qos);
        if !self.has_room_to_wait() {
            return self.refuse(now, origin, Denial::Busy, fx);
        }
        let mut pending_answer = PendingAnswer::of(origin);
        let durable = self.sessions.at(key).is_some_and(|session| session.is_durable());
        if qos == Qos::ExactlyOnce {
            pending_answer.mark = durable.then_some(exchange);
            pending_answer.defer = (durable && self.settings.shards > 1).then(Vec::new);
            if let Some(session) = self.sessions.at_mut(key) {
                session.more().inbound.begin(id);
            }
        }
        let matched = self.take_in(now, &message, &mut pending_answer, fx);
        if let Some(mark) = pending_answer.mark.take() {
            self.write_mark(now, mark, &mut pending_answer, fx);
        }
        self.answers.defer(exchange, &message, &mut pending_answer);
        if !matched {
            fx.counters.count(TopicCounter::PublishesUnmatched);
        }
        self.await_proof(now, &mut pending_answer);
        if pending_answer.wait.is_some() && qos != Qos::AtMostOnce {
            self.expect_answer(exchange, qos, &pending_answer);
        }
        self.close(now, pending_answer, matched, fx);
    }

    /// Routes a message and keeps it if it is to be retained, or puts it by for later.
    fn take_in(
        &mut self,
        now: Now,
        message: &Arc<Publication>,
        pending_answer: &mut PendingAnswer,
        fx: &mut Effects,
    ) -> bool {
        if message.topic().starts_with(DELAYED) {
            return self.put_by(now, message, pending_answer, fx);
        }
        self.look_at_pages(message, pending_answer);
        let matched = self.route(now, message, pending_answer, fx);
        let late = message.retain && self.retain(now, message, pending_answer, fx);
        matched || late
    }

    /// The client waits for the answer of this opening.
    fn expect_answer(&mut self, exchange: Exchange, qos: Qos, pending_answer: &PendingAnswer) {
        let Exchange { session: key, id } = exchange;
        let Some(wait) = pending_answer.wait else { return };
        let Some(session) = self.sessions.at_mut(key) else { return };
        session.more().inbound.wait(id, qos, wait);
    }

    /// Checks and stamps a message: who it is from, whether it may, and under which topic.
    fn admit_message(
        &mut self,
        now: Now,
        key: Key,
        mut message: Arc<Publication>,
    ) -> Result<Arc<Publication>, Denial> {
        let topic = message.topic();
        // In front of a delayed topic stands when; all that is said of topics is about the rest.
        let rest = topic.strip_prefix(DELAYED).map(|rest| rest.split_once('/'));
        let bare = rest.map_or(topic, |rest| rest.map(|(_, bare)| bare).unwrap_or_default());
        let session = self.sessions.at(key).ok_or(Denial::Protocol)?;
        let other = self.published_as(bare, self.sessions.names(session))?;
        let name = other.as_deref().unwrap_or(bare);
        if !self.sessions.may_publish(key, name) {
            return Err(Denial::NotAuthorized);
        }
        if let Some(other) = other {
            let when = &topic[..topic.len() - bare.len()];
            let name = format!("{when}{other}");
            message = Arc::new(message.renamed(&name));
        }
        let client_id = || Some(self.sessions.at(key)?.id());
        let publisher = self.routing.publisher(key, client_id).ok_or(Denial::Protocol)?;
        if Arc::get_mut(&mut message).is_none() {
            message = Arc::new((*message).clone());
        }
        let own = Arc::get_mut(&mut message).expect("nobody else has it yet");
        own.publisher = publisher;
        self.routing.stamp(now, own);
        Ok(message)
    }

    /// The topic that one becomes that a client publishes to, if that is another one; an error
    /// where only the server speaks.
    pub(crate) fn published_as(
        &self,
        topic: &str,
        names: Names<'_>,
    ) -> Result<Option<String>, Denial> {
        let rewrites = self.settings.rewrites.as_ref();
        let other = rewrites.and_then(|rewrites| rewrites.published(topic, names));
        let name = other.as_deref().unwrap_or(topic);
        let is_own = is_own(name)
            || is_of_chat(name)
            || ["$share", DELAYED].iter().any(|own| name.starts_with(own));
        let most = usize::from(self.settings.limits.topics.topic_bytes_max);
        match is_own || name.is_empty() || name.len() > most {
            true => Err(Denial::TopicInvalid),
            false => Ok(other),
        }
    }

    /// A message of QoS 2 whose identifier is not released: answered, and not delivered again.
    fn repeated(
        &mut self,
        now: Now,
        exchange: Exchange,
        again: bool,
        message: &Arc<Publication>,
        fx: &mut Effects,
    ) -> bool {
        let Exchange { session: key, id } = exchange;
        let Some(session) = self.sessions.at_mut(key) else { return true };
        let Some(inbound) = session.more.as_mut().map(|more| &mut more.inbound) else {
            return false;
        };
        let Some(Inbound { state, marker, .. }) = inbound.at(id) else { return false };
        if state == InboundState::Halfway && !again {
            // The refused message has ended; this is a new one (MQTT5 3.3.1-2).
            inbound.end(id);
            self.log.remove_marks(key, marker);
            return false;
        }
        fx.counters.count(TopicCounter::PublishesRepeated);
        let origin = Origin::Client(exchange, Qos::ExactlyOnce);
        match state {
            InboundState::Taken(routed) => {
                self.answer(now, DueAnswer::at_once(origin, Ok(routed)), fx);
            }
            InboundState::Releasing { .. } => {}
            InboundState::Storing(wait) => inbound.wait_again(id, wait),
            InboundState::Halfway => {
                self.go_on(now, exchange, marker, message, fx);
            }
        }
        true
    }

    /// The client has released a message of QoS 2 of its own.
    pub(crate) fn release_in(&mut self, now: Now, key: Key, id: u16, fx: &mut Effects) {
        let Some(session) = self.sessions.at_mut(key) else { return };
        let Some(conn) = session.online() else { return };
        let inbound = session.more.as_ref().map(|more| &more.inbound);
        let known = inbound.and_then(|inbound| inbound.at(id));
        let Some(Inbound { state, marker, is_marking, .. }) = known else {
            if inbound.is_some_and(|inbound| inbound.awaits_puback(id)) {
                return self.end_for(now, key, "PUBREL for a message of QoS 1", fx);
            }
            fx.deliveries.push((conn, SessionDelivery::Completed { id, unknown: true }));
            return;
        };
        let releasing = InboundState::Releasing { asked: true };
        match state {
            // The client got no PUBREC yet (MQTT5 4.3.3-4): messages on their way to the logs would
            // be forgotten, and could be accepted once more.
            InboundState::Storing(_) => self.end_for(now, key, "PUBREL before its PUBREC", fx),
            // Said again after a reconnect: a second answer of the log could take the next
            // message's mark along.
            InboundState::Releasing { .. } => session.more().inbound.set_state(id, releasing),
            _ if marker.seq == 0 => self.completed(key, id, fx),
            _ => {
                // Were the mark still there after a crash, the next message under this identifier
                // would be taken for this one: the client hears of it when the mark is gone.
                // A mark that is being written is removed with it, once its place is known.
                session.more().inbound.set_state(id, releasing);
                if !is_marking {
                    self.unmark(Exchange { session: key, id }, fx);
                }
            }
        }
    }

    /// Has the log remove the mark of a packet identifier that is released.
    pub(crate) fn unmark(&mut self, exchange: Exchange, fx: &mut Effects) {
        let Exchange { session: key, id } = exchange;
        let Some(session) = self.sessions.at(key) else { return };
        let inbound = session.more.as_ref().and_then(|more| more.inbound.at(id));
        let Some(inbound) = inbound else { return };
        let timeline = session.exchanges(self.settings.home);
        let remove = Write::Remove { timeline, seqs: inbound.marker.places().collect() };
        self.log.ask(PendingCall::Unmarked(exchange), Call::Write(remove), fx);
    }

    /// The mark of a packet identifier is gone, or could not be removed.
    pub(crate) fn unmarked(
        &mut self,
        now: Now,
        exchange: Exchange,
        result: Result<Done, StoreError>,
        fx: &mut Effects,
    ) {
        let Exchange { session: key, id } = exchange;
        match result {
            Ok(_) => self.completed(key, id, fx),
            // A client does not ask again over the same connection.
            Err(error) if may_be_taken_later(error) => {
                self.log.again(now, Retry::Unmark(exchange));
            }
            Err(_) => {
                let Some(more) = self.sessions.more_mut(key) else { return };
                more.inbound.set_state(id, InboundState::Taken(Routed::Matched));
            }
        }
    }

    fn completed(&mut self, key: Key, id: u16, fx: &mut Effects) {
        let Some(session) = self.sessions.at_mut(key) else { return };
        let state = session.more().inbound.end(id).map(|inbound| inbound.state);
        let asked = state != Some(InboundState::Releasing { asked: false });
        if let Some(conn) = session.online().filter(|_| asked) {
            fx.deliveries.push((conn, SessionDelivery::Completed { id, unknown: false }));
        }
        session.rest();
    }

    /// Writes the mark that an identifier is taken in a call of its own, as this shard has no
    /// durable recipient whose append could carry it.
    fn write_mark(
        &mut self,
        now: Now,
        exchange: Exchange,
        pending_answer: &mut PendingAnswer,
        fx: &mut Effects,
    ) {
        let Some(wait) = self.answers.one_more(pending_answer) else { return };
        let Some(session) = self.sessions.at(exchange.session) else { return };
        let message = Arc::new(Message {
            id: self.routing.last_id(),
            at_s: now.unix_s(),
            label: Said::Inbound(exchange.id).encode(),
            body: Box::default(),
        });
        let to = vec![session.exchanges(self.settings.home)];
        let append = Write::Append(Append { message, to, once: None, heard: None, ends: false });
        self.log.ask(PendingCall::Marked(exchange, wait), Call::Write(append), fx);
    }

    /// The mark was written.
    pub(crate) fn marked(
        &mut self,
        now: Now,
        exchange: Exchange,
        wait: Key,
        result: Result<Done, StoreError>,
        fx: &mut Effects,
    ) {
        let result = match result {
            Ok(Done::Appended(appended)) => {
                let seq = appended.seqs.first().copied().unwrap_or(0);
                self.set_marker(exchange, Marker { seq, alone: true, ..Marker::default() }, fx);
                Ok(())
            }
            Ok(_) => Err(Denial::StoreFull),
            Err(error) => Err(super::answers::denial(error)),
        };
        if let Err(why) = result {
            self.not_marked(now, exchange, why, fx);
        }
        self.arrived(now, wait, result, fx);
    }

    /// The client went, and has not released what it published at QoS 2. If every log that must
    /// store the message has it, that is stored, too: whenever the client sends it again, no search
    /// for its receivers is needed, however much was published meanwhile.
    pub(crate) fn mark_taken(&mut self, now: Now, key: Key, fx: &mut Effects) {
        let Some(session) = self.sessions.at(key).filter(|session| session.is_durable()) else {
            return;
        };
        let (home, at_s) = (self.settings.home, now.unix_s());
        let (timeline, log_id) = (session.exchanges(home), self.routing.last_id());
        let more = self.sessions.more_mut(key);
        let untold = more.map(|more| more.inbound.take_untold()).unwrap_or_default();
        for id in untold {
            let label = Said::Taken(id).encode();
            let message = Arc::new(Message { id: log_id, at_s, label, body: Box::default() });
            let to = vec![timeline];
            let append = Write::Append(Append { message, to, once: None, heard: None, ends: true });
            let exchange = Exchange { session: key, id };
            self.log.ask(PendingCall::Taken(exchange), Call::Write(append), fx);
        }
    }

    /// That mark was written: it stands beside the one before. Refused, that one stands alone. A
    /// release that waited for it goes on.
    pub(crate) fn taken_marked(
        &mut self,
        exchange: Exchange,
        result: Result<Done, StoreError>,
        fx: &mut Effects,
    ) {
        let Exchange { session: key, id } = exchange;
        let seq = match result {
            Ok(Done::Appended(appended)) => appended.seqs.first().copied(),
            Ok(_) | Err(_) => None,
        };
        let Some(more) = self.sessions.more_mut(key) else { return };
        let is_its = more.inbound.marked(id, seq);
        let state = more.inbound.at(id).map(|inbound| inbound.state);
        match (is_its, state) {
            (true, Some(InboundState::Releasing { .. })) => self.unmark(exchange, fx),
            (true, _) => {}
            (false, _) => seq.into_iter().for_each(|seq| self.log.remove_mark(key, seq)),
        }
    }

    /// Handles the refusal of an identifier's mark: the message is not routed.
    pub(crate) fn not_marked(&mut self, now: Now, mark: Exchange, why: Denial, fx: &mut Effects) {
        self.fan_outs.mark_answered(mark, Err(why));
        let Some(deferred) = self.answers.take_deferred(mark) else { return };
        let Deferred { shards, appends, wait, .. } = deferred;
        for _ in 0..shards.len() + appends.len() {
            self.arrived(now, wait, Err(why), fx);
        }
    }

    /// The mark of an identifier is written: others get the message, in a way that makes a
    /// repetition after a crash harmless.
    pub(crate) fn set_marker(&mut self, mark: Exchange, marker: Marker, fx: &mut Effects) {
        let Exchange { session: key, id } = mark;
        if self.fan_outs.waits_for(mark) {
            let once = self.once_of(key, marker.seq);
            self.fan_outs.mark_answered(mark, Ok(once));
        }
        if let Some(deferred) = self.answers.take_deferred(mark) {
            let once = self.once_of(key, marker.seq);
            let Deferred { message, shards, appends, wait } = deferred;
            for SameShape { label, to } in appends {
                let (message, mark, wait) = (message.clone(), None, Some(wait));
                self.keep(Kept { message, label, to, mark, wait }, once, fx);
            }
            for shard in shards {
                let (message, from, receipt) =
                    (message.clone(), self.settings.shard, receipt_of(wait));
                let peer_message = PeerMessage::Publish { message, from, receipt, once };
                fx.peer_messages.push((shard, peer_message));
            }
        }
        let Some(session) = self.sessions.at_mut(key) else { return };
        if !session.more().inbound.set_marker(id, marker) {
            self.log.remove_mark(key, marker.seq);
        }
    }

    /// A message that comes again and whose mark was written: some have it, others may not.
    fn go_on(
        &mut self,
        now: Now,
        exchange: Exchange,
        marker: Marker,
        message: &Arc<Publication>,
        fx: &mut Effects,
    ) {
        let key = exchange.session;
        let origin = Origin::Client(exchange, Qos::ExactlyOnce);
        let message = match self.admit_message(now, key, message.clone()) {
            Ok(message) => message,
            Err(why) => return self.refuse(now, origin, why, fx),
        };
        let mut pending_answer = PendingAnswer::of(origin);
        pending_answer.once = self.once_of(key, marker.seq);
        let is_later = message.topic().starts_with(DELAYED);
        self.look_at_pages(&message, &mut pending_answer);
        let here =
            marker.alone && !is_later && self.route_here(now, &message, &mut pending_answer, fx);
        let mut matched = !is_later && self.route_there(&message, &mut pending_answer, fx) || here;
        if message.retain && !is_later {
            matched |= self.retain(now, &message, &mut pending_answer, fx);
        }
        self.await_proof(now, &mut pending_answer);
        self.expect_answer(exchange, Qos::ExactlyOnce, &pending_answer);
        self.close(now, pending_answer, matched, fx);
    }

    /// Id of a message, made from the place of its mark.
    fn once_of(&self, key: Key, marker: Seq) -> u128 {
        let Some(session) = self.sessions.at(key) else { return 0 };
        let timeline = session.exchanges(self.settings.home).to_bytes();
        u128::from_le_bytes(timeline).rotate_left(32) ^ u128::from(marker)
    }
}
