//! Answers of logs and of other shards: completes calls, answers clients, handles peer messages.
//!
//! Answers to one client are given in the order of its messages (MQTT5 4.6.0-2, 4.6.0-3), so one
//! that has to wait delays those behind it. Peer messages are sent in order: their carrier
//! preserves it, and keeps messages for a full mailbox. A will, a delayed message and one that a
//! member of a shared group gave back stay in the log until all its receivers have stored it: a
//! kill in between publishes it again, under a number that makes the repetition harmless, instead
//! of losing it.

use super::answers::{After, DueAnswer, Origin, PendingAnswer, denial, receipt_of, wait_of};
use super::queue::Entry;
use crate::Broker;
use crate::Effects;
use crate::durable::calls::{PendingCall, Retry};
use crate::durable::rows_now::RowsNow;
use crate::peer_message::PeerMessage;
use crate::session::inbound::{InboundState, ReadyAnswer};
use crate::session::record::Exchange;
use base::slab::Key;
use base::time::{Instant, Now};
use model::close::CloseReason;
use model::counters::TopicCounter;
use model::id::{ConnRef, ShardId};
use model::latency::LatencyPhase;
use model::ports::calls::RETRIES_A_TURN_MAX;
use model::ports::log::Completion;
use model::ports::topics::TopicAnswer;
use model::session::{Denial, Denied, Routed, SessionDelivery};
use model::timeline::Space;
use model::topic::{Publication, Qos};
use std::sync::Arc;
use std::time::Duration;

/// How often it is looked for a proof that this node leads, while answers wait for it.
const PROOF_PAUSE: Duration = Duration::from_millis(100);

/// How the numbers of wills and of delayed messages begin.
const ONCE: &[u8] = b"mqtt-after";

impl Broker {
    /// Whether logs and answers have room for what a message may cause.
    pub(crate) fn has_room_to_wait(&self) -> bool {
        self.answers.has_room() && self.log.may_ask()
    }

    /// The answer is given, or waits.
    pub(crate) fn close(
        &mut self,
        now: Now,
        pending: PendingAnswer,
        matched: bool,
        fx: &mut Effects,
    ) -> Option<Key> {
        match pending.wait {
            Some(wait) => self.answers.note(wait, matched, pending.error),
            None => {
                let routed = if matched { Routed::Matched } else { Routed::NoSubscriber };
                let result = pending.error.map_or(Ok(routed), Err);
                self.answer(now, DueAnswer::at_once(pending.origin, result), fx);
            }
        }
        pending.wait
    }

    /// Delays an answer until it is proved that this node leads: another node may lead, and the
    /// receivers may be connected there. The other conditions of the answer may not involve the
    /// log.
    pub(crate) fn await_proof(&mut self, now: Now, pending: &mut PendingAnswer) {
        let is_asked = matches!(pending.origin, Origin::Client(..) | Origin::Command(_));
        if !is_asked || pending.error.is_some() || self.settings.lead_proof.holds(now) {
            return;
        }
        if let Some(wait) = self.answers.one_more(pending) {
            self.answers.await_proof(wait);
        }
    }

    /// Gives the answers that waited for a proof that this node leads.
    pub(crate) fn turn_unproved(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        if !self.answers.is_unproved() {
            return None;
        }
        if !self.settings.lead_proof.holds(now) {
            self.answers.drop_given_up();
            return Some(now.mono + PROOF_PAUSE);
        }
        for wait in self.answers.take_unproved() {
            self.arrived(now, wait, Ok(()), fx);
        }
        None
    }

    /// Notes that one of the parts that a wait counts has arrived.
    pub(crate) fn arrived(
        &mut self,
        now: Now,
        wait: Key,
        result: Result<(), Denial>,
        fx: &mut Effects,
    ) {
        if let Some(due) = self.answers.arrived(wait, result) {
            self.answer(now, due, fx);
        }
    }

    /// A message is refused at once.
    pub(crate) fn refuse(&mut self, now: Now, origin: Origin, why: Denial, fx: &mut Effects) {
        self.answer(now, DueAnswer::at_once(origin, Err(why)), fx);
    }

    /// Gives an answer to its recipient: a client, another shard or the server itself.
    pub(crate) fn answer(&mut self, now: Now, due: DueAnswer, fx: &mut Effects) {
        let DueAnswer { origin, wait, result, began } = due;
        match origin {
            Origin::Server => {
                if let Some(after) = wait.and_then(|wait| self.answers.take_after(wait)) {
                    self.after(now, after, result.err(), fx);
                }
            }
            Origin::Client(exchange, qos) => {
                if qos != Qos::AtMostOnce && result.is_ok() {
                    let lasted = began.map_or(Duration::ZERO, |began| began.until(now));
                    fx.counters.lasted(LatencyPhase::Publish, lasted);
                }
                self.taken(exchange, qos, wait, result, fx);
                let is_away = self.sessions.conn(exchange.session).is_none();
                if qos == Qos::ExactlyOnce && is_away {
                    self.mark_taken(now, exchange.session, fx);
                }
            }
            Origin::Command(ask) => {
                let answer = match result {
                    Ok(routed) => TopicAnswer::Published { matched: routed == Routed::Matched },
                    Err(why) => TopicAnswer::Refused(why.name()),
                };
                fx.answers.push((ask, answer));
            }
            Origin::Joining(granting, at) => {
                self.granted(now, granting, at as usize, result.map(|_| ()), fx);
            }
            Origin::Shard(shard, number) => {
                let result = result.map(|routed| routed == Routed::Matched);
                self.tell(now, shard, PeerMessage::Receipt { number, result }, fx);
            }
        }
    }

    /// A message of a client is where it has to be, or will not be.
    fn taken(
        &mut self,
        Exchange { session: key, id }: Exchange,
        qos: Qos,
        wait: Option<Key>,
        result: Result<Routed, Denial>,
        fx: &mut Effects,
    ) {
        if result.is_err() {
            fx.counters.count(TopicCounter::PublishesRefused);
        }
        if qos == Qos::ExactlyOnce {
            self.taken_in(key, id, result);
        }
        let Some(session) = self.sessions.at_mut(key) else { return };
        let conn = session.online();
        let inbound = session.more.as_mut().map(|more| &mut more.inbound);
        let answer = ReadyAnswer { id, qos, result };
        match (wait, inbound) {
            (Some(wait), Some(inbound)) => {
                inbound.answered(wait, result);
                self.give_ready(key, fx);
            }
            (Some(_), None) => {}
            (None, inbound) => {
                if !inbound.is_some_and(|inbound| inbound.give_behind(answer)) {
                    give(conn, answer, fx);
                }
            }
        }
    }

    /// How far a message of QoS 2 is with that.
    fn taken_in(&mut self, key: Key, id: u16, result: Result<Routed, Denial>) {
        let Some(session) = self.sessions.at(key) else { return };
        let ends = self.sessions.protocol_name(session.protocol()) == "mqtt5";
        let most = usize::from(self.settings.limits.topics.receive_max);
        let Some(session) = self.sessions.at_mut(key) else { return };
        let inbound = &mut session.more().inbound;
        let Some(known) = inbound.at(id) else { return };
        match result {
            Ok(routed) => inbound.set_state(id, InboundState::Taken(routed)),
            Err(_) if known.marker.seq == 0 => _ = inbound.end(id),
            // Some may have it: said again, it goes on. With version 5 the exchange is over, unless
            // the client does not hear of it (MQTT5 4.3.3-9): no more than it may have open.
            Err(_) => {
                inbound.set_state(id, InboundState::Halfway);
                if ends && let Some(first) = inbound.end_halfway(most) {
                    self.log.remove_marks(key, first.marker);
                }
            }
        }
    }

    /// Gives the answers at the front that are ready.
    fn give_ready(&mut self, key: Key, fx: &mut Effects) {
        let Some(session) = self.sessions.at_mut(key) else { return };
        let conn = session.online();
        let Some(more) = session.more.as_mut() else { return };
        while let Some(answer) = more.inbound.next_ready() {
            give(conn, answer, fx);
        }
        session.rest();
    }

    /// Publishes a message that has a row; `number`: what it was called there, 0: nothing.
    pub(crate) fn publish_row(
        &mut self,
        now: Now,
        message: Arc<Publication>,
        number: u64,
        after: After,
        fx: &mut Effects,
    ) {
        let mut pending = PendingAnswer::of(Origin::Server);
        if number != 0 {
            let high = self.settings.home.of(&[ONCE, &number.to_le_bytes()]);
            pending.once = u128::from(high) << 64 | u128::from(number);
        }
        match self.publish_for(now, message, pending, fx) {
            Some(wait) => self.answers.set_after(wait, after),
            None => self.after(now, after, None, fx),
        }
    }

    /// A session gives an entry of the log back: the number of the receipt for it.
    pub(crate) fn await_move(&mut self, key: Key, entry: Entry) -> Result<u64, Box<Entry>> {
        let entry = Box::new(Entry { message: None, id: 0, ..entry });
        match self.answers.open(Origin::Server) {
            Some(wait) => {
                self.answers.set_after(wait, After::Moved(key, entry));
                Ok(receipt_of(wait))
            }
            None => Err(entry),
        }
    }

    /// The message is where it has to be, or could not be taken, and why not.
    fn after(&mut self, now: Now, after: After, why: Option<Denial>, fx: &mut Effects) {
        match after {
            After::Moved(key, entry) => self.offer_answered(now, key, *entry, why, fx),
            // A refused row stays for the next start.
            After::Row(..) if why.is_some() => {}
            After::Row(table, key) => self.log.delete(table, key, fx),
        }
    }

    /// The broker of another shard says something.
    pub fn peer_message(&mut self, now: Now, peer_message: PeerMessage, fx: &mut Effects) {
        self.units.begin();
        self.peer_message_in(now, peer_message, fx);
    }

    fn peer_message_in(&mut self, now: Now, peer_message: PeerMessage, fx: &mut Effects) {
        match peer_message {
            PeerMessage::Publish { message, from, receipt, once } => {
                let mut pending = PendingAnswer::of(Origin::of_shard(from, receipt));
                if receipt != 0 && !self.has_room_to_wait() {
                    return self.refuse(now, pending.origin, Denial::Busy, fx);
                }
                pending.once = once;
                let matched = self.route_here(now, &message, &mut pending, fx);
                self.close(now, pending, matched, fx);
            }
            PeerMessage::Keep { message, from, receipt, pages } => {
                let mut pending = PendingAnswer::of(Origin::of_shard(from, receipt));
                if receipt != 0 && !self.has_room_to_wait() {
                    return self.refuse(now, pending.origin, Denial::Busy, fx);
                }
                pending.pages = pages;
                let matched = self.retain_here(now, &message, &mut pending, fx);
                self.close(now, pending, matched, fx);
            }
            PeerMessage::Receipt { number, result } => {
                let wait = wait_of(number);
                if self.answers.is_open(wait) {
                    self.answers.note(wait, result == Ok(true), None);
                    self.arrived(now, wait, result.map(|_| ()), fx);
                }
            }
            PeerMessage::Group(word) => self.group_word(now, *word, fx),
            PeerMessage::Member(word) => self.member_word(now, *word, fx),
            PeerMessage::PageWanted(wanted) => self.page_wanted(now, &wanted, fx),
            PeerMessage::Page(page) => self.page_came(now, *page, fx),
            PeerMessage::LastWanted(wanted) => self.last_wanted(now, *wanted, fx),
            PeerMessage::Late(late) => self.late_came(now, *late, fx),
            PeerMessage::Elsewhere(place) => self.leave_old_place(now, place, fx),
        }
    }

    /// Sends a peer message, or carries it out if it is to this shard.
    pub(crate) fn tell(
        &mut self,
        now: Now,
        to: ShardId,
        peer_message: PeerMessage,
        fx: &mut Effects,
    ) {
        match to == self.settings.shard {
            true => self.peer_message_in(now, peer_message, fx),
            false => fx.peer_messages.push((to, peer_message)),
        }
    }

    /// Gives up some of the answers that wait for too long. A refusal would be wrong for a client,
    /// because the message may still be stored: its connection ends without an answer, and it sends
    /// the message again.
    pub(crate) fn turn_answers(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let (over, next) = self.answers.overdue(now, self.settings.limits.answer_ms_max);
        for wait in over {
            match self.answers.origin(wait) {
                // The shard of the publisher gives up, and nobody for it.
                Some(Origin::Shard(..)) => continue,
                Some(Origin::Client(exchange, Qos::ExactlyOnce)) if self.awaits_mark(exchange) => {
                    continue;
                }
                Some(Origin::Client(exchange, _)) => self.end_waiting(now, exchange, wait, fx),
                _ => {}
            }
            if let Some(due) = self.answers.give_up(wait) {
                fx.counters.count(TopicCounter::AnswersOverdue);
                self.answer(now, due, fx);
            }
        }
        next
    }

    /// Ends the connection of a client that waits for this answer.
    fn end_waiting(&mut self, now: Now, exchange: Exchange, wait: Key, fx: &mut Effects) {
        let session = self.sessions.at(exchange.session);
        let inbound = session.and_then(|session| Some(&session.more.as_ref()?.inbound));
        if inbound.is_some_and(|inbound| inbound.awaits(wait)) {
            let text = Some("a message could not be stored in time: send it again".into());
            let denied = Denied { text, ..Denied::of(Denial::Busy, CloseReason::Busy) };
            self.end(now, exchange.session, denied, fx);
        }
    }

    /// Whether nobody knows yet if a message of QoS 2 of a durable session is marked as taken. Such
    /// an answer waits as long as the log takes: if the exchange were forgotten, the client's
    /// retry would be a second message.
    fn awaits_mark(&self, Exchange { session, id }: Exchange) -> bool {
        let session = self.sessions.at(session).filter(|session| session.is_durable());
        let inbound = session.and_then(|session| session.more.as_ref()?.inbound.at(id));
        inbound.is_some_and(|inbound| inbound.marker.seq == 0)
    }

    /// Carries out what this shard owes itself.
    pub(crate) fn turn_owed(&mut self, now: Now, fx: &mut Effects) {
        for receipt in self.answers.take_owed() {
            self.peer_message_in(now, receipt, fx);
        }
    }

    /// The log has completed a call.
    pub fn complete(&mut self, now: Now, (ticket, result): Completion, fx: &mut Effects) {
        self.units.begin();
        let Some(pending) = self.log.completed(ticket, &result, fx) else { return };
        let written = || result.as_ref().map(|_| ()).map_err(|error| denial(*error));
        match pending {
            PendingCall::Kept(kept) => self.kept(now, *kept, result, fx),
            PendingCall::Delayed(delay) => self.delay_written(now, *delay, written(), fx),
            PendingCall::Marked(exchange, wait) => {
                self.marked(now, exchange, wait, result, fx);
            }
            PendingCall::Taken(exchange) => self.taken_marked(exchange, result, fx),
            PendingCall::Released(exchange) => self.release_written(now, exchange, result, fx),
            PendingCall::Unmarked(exchange) => self.unmarked(now, exchange, result, fx),
            PendingCall::Welcome(welcome) => {
                self.welcome_written(now, *welcome, result.is_ok(), fx);
            }
            PendingCall::Granted(granting, at) => {
                self.granted(now, granting, at, written(), fx);
            }
            PendingCall::Page(page) => self.page_read(now, page, result, fx),
            PendingCall::Given(key, page) => self.given_came(now, (key, page), result, fx),
            PendingCall::Swept(page) => self.swept(now, page, result, fx),
            PendingCall::Doubt(entry) => self.doubt_settled(now, entry, result, fx),
            PendingCall::Removed(removal) => self.removed(now, removal, result, fx),
            PendingCall::Retaining(retaining) => {
                self.retained_answered(now, *retaining, written(), fx);
            }
            PendingCall::Retained(topic) => {
                self.log.settle(now, Retry::Retained(topic), result, fx);
            }
            PendingCall::Retry(write) => self.log.settle(now, Retry::Write(*write), result, fx),
        }
    }

    /// Retries a slice of the refused writes, if it is time.
    pub(crate) fn turn_retries(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        if self.log.retries() == 0 {
            return None;
        }
        if let Err(due) = self.log.is_due(now) {
            return Some(due);
        }
        for mark in self.log.take_marks() {
            match mark {
                Retry::Unmark(exchange) => self.unmark(exchange, fx),
                Retry::Received(exchange) => self.mark_received(now, exchange, fx),
                Retry::Doubt(entry) => self.ask_doubt(entry, fx),
                Retry::Write(_) | Retry::Retained(_) | Retry::Removal(_) => {}
            }
        }
        for _ in 0..RETRIES_A_TURN_MAX {
            let Some(removal) = self.log.take_removal() else { break };
            self.log.ask_removal(removal, fx);
        }
        for _ in 0..RETRIES_A_TURN_MAX {
            let Some(topic) = self.log.take_topic() else { break };
            self.write_retained(topic, fx);
        }
        for _ in 0..RETRIES_A_TURN_MAX {
            let Some(write) = self.log.take_write() else { break };
            let (sessions, subscriptions) = (&self.sessions, &self.subscriptions);
            let rows = RowsNow { home: self.settings.home, sessions, subscriptions };
            if let Some(write) = rows.as_it_is(write) {
                self.log.write(write, fx);
            }
        }
        (self.log.retries() > 0).then_some(now.mono)
    }

    /// Removes ended messages from the log.
    pub(crate) fn turn_removals(&mut self, fx: &mut Effects) {
        let (sessions, home) = (&self.sessions, self.settings.home);
        // The name is hashed only for timelines with entries.
        let timeline_of = |key, space| {
            let session = sessions.at(key)?;
            Some(match space {
                Space::Exchanges => session.exchanges(home),
                _ => session.timeline(home),
            })
        };
        self.log.remove_over(timeline_of, fx);
    }
}

fn give(conn: Option<ConnRef>, answer: ReadyAnswer, fx: &mut Effects) {
    let ReadyAnswer { id, qos, result } = answer;
    if let Some(conn) = conn {
        fx.deliveries.push((conn, SessionDelivery::Taken { id, qos, result }));
    }
}

#[cfg(test)]
mod tests {
    use super::super::answers::WAITS_MAX;
    use super::*;
    use crate::durable::entries::timeline_of;
    use crate::session::made::{HOME, NOW, broker, client, conn};
    use model::ports::calls::RETRY_PAUSE;
    use model::ports::log::{StoreError, Write};
    use model::session::SessionRequest;

    #[test]
    fn where_no_more_answers_may_wait_a_message_is_refused() {
        let mut broker = broker(|_| {});
        let session = client(&mut broker, conn(1), "a");
        let publish = |broker: &mut Broker| {
            let (id, again, mut message) = (7, false, Publication::new("t", &[], b"x"));
            message.qos = Qos::AtLeastOnce;
            let message = Arc::new(message);
            let mut fx = Effects::default();
            let word = SessionRequest::Publish { session, id, again, message };
            broker.request(NOW, conn(1), word, &mut fx);
            match fx.deliveries.pop() {
                Some((_, SessionDelivery::Taken { id: 7, result, .. })) => result,
                other => panic!("{other:?}"),
            }
        };
        (1..WAITS_MAX).for_each(|_| assert!(broker.answers.open(Origin::Server).is_some()));
        assert_eq!(publish(&mut broker), Ok(Routed::NoSubscriber));
        assert!(broker.answers.open(Origin::Server).is_some());
        assert_eq!(publish(&mut broker), Err(Denial::Busy));
    }

    #[test]
    fn what_was_refused_is_asked_for_again_after_a_pause_a_slice_a_turn() {
        let (mut broker, mut fx) = (broker(|_| {}), Effects::default());
        let mut refuse = |broker: &mut Broker, why| {
            let write = Retry::Write(Write::Forget(timeline_of(HOME, "a")));
            broker.log.settle(NOW, write, Err(why), &mut fx);
        };
        refuse(&mut broker, StoreError::Failed);
        assert_eq!(broker.log.retries(), 0, "it will not be otherwise");
        (0..RETRIES_A_TURN_MAX + 1).for_each(|_| refuse(&mut broker, StoreError::Busy));
        let (mut fx, due) = (Effects::default(), NOW.after(RETRY_PAUSE));
        assert_eq!(broker.turn_retries(NOW, &mut fx), Some(due));
        assert!(fx.calls.is_empty());
        let later = Now::new(due, NOW.wall_ms + 1_000);
        assert_eq!(broker.turn_retries(later, &mut fx), Some(due), "there is more");
        assert_eq!(fx.calls.len(), RETRIES_A_TURN_MAX);
        assert_eq!(broker.turn_retries(later, &mut fx), None);
        assert_eq!((fx.calls.len(), broker.log.retries()), (RETRIES_A_TURN_MAX + 1, 0));
    }
}
