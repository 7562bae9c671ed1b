//! Answers that have to wait until logs, or other shards, have said that they have it.
//!
//! A wait counts what it waits for; the last one that comes has the answer given. Answers to one
//! client are given in the order of its messages (MQTT5 4.6.0-2, 4.6.0-3), so one that has to wait
//! holds those behind it.

use crate::Broker;
use crate::Effects;
use crate::peer_message::PeerMessage;
use crate::session::record::{Inbound, InboundState, Pending, Stage};
use base::never;
use base::slab::Key;
use base::time::Now;
use model::event::Counter;
use model::id::ShardId;
use model::ports::log::StoreError;
use model::ports::topics::TopicAnswer;
use model::session::{Denial, Routed, SessionDelivery};
use model::topic::Qos;

/// Waits that a shard may have; beyond, a message is refused as Busy.
pub(crate) const WAITS_MAX: usize = 1 << 20;

/// Origin of a message, which is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// Nobody.
    Server,
    /// The publisher: session, packet identifier, QoS.
    Client(Key, u16, Qos),
    /// A command.
    Command(u64),
    /// The broker of another shard, under its number.
    Shard(ShardId, u64),
    /// A subscriber who joins a group: the answer that waits, and which of its results.
    Joining(Key, u32),
}

/// One answer that waits.
pub(crate) struct Wait {
    pub origin: Origin,
    pub left: u32,
    pub matched: bool,
    pub error: Option<Denial>,
}

impl Wait {
    fn result(&self) -> Result<Routed, Denial> {
        match (self.error, self.matched) {
            (Some(why), _) => Err(why),
            (None, true) => Ok(Routed::Matched),
            (None, false) => Ok(Routed::NoSubscriber),
        }
    }
}

/// What a client is told about a refusal of the log.
pub(crate) fn denial(error: StoreError) -> Denial {
    match error {
        StoreError::Busy => Denial::Busy,
        StoreError::Failed => Denial::StoreFailed,
        _ => Denial::StoreFull,
    }
}

impl Broker {
    /// One of those that a wait waits for has come.
    pub(crate) fn arrived(
        &mut self,
        now: Now,
        wait: Key,
        result: Result<(), Denial>,
        fx: &mut Effects,
    ) {
        let Some(open) = self.waits.at_mut(wait) else {
            never!(true, "a wait is there until all have come");
            return;
        };
        open.left -= 1;
        open.error = open.error.or(result.err());
        if open.left == 0
            && let Some(open) = self.waits.remove(wait)
        {
            self.answer(now, (Some(wait), open.origin), open.result(), fx);
        }
    }

    /// Gives an answer, to whoever it is for.
    pub(crate) fn answer(
        &mut self,
        now: Now,
        (wait, origin): (Option<Key>, Origin),
        result: Result<Routed, Denial>,
        fx: &mut Effects,
    ) {
        match origin {
            Origin::Server => {
                if let Some(after) = wait.and_then(|wait| self.afterwards.remove(&wait)) {
                    self.after(now, after, result.err(), fx);
                }
            }
            Origin::Client(key, id, qos) => self.taken(now, (key, wait), (id, qos), result, fx),
            Origin::Command(ask) => {
                let answer = match result {
                    Ok(routed) => TopicAnswer::Published { matched: routed == Routed::Matched },
                    Err(why) => TopicAnswer::Refused(why.name()),
                };
                fx.answers.push((ask, answer));
            }
            Origin::Joining(granting, at) => {
                self.granted(now, (granting, at as usize), result.map(|_| ()), fx);
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
        _now: Now,
        (key, wait): (Key, Option<Key>),
        (id, qos): (u16, Qos),
        result: Result<Routed, Denial>,
        fx: &mut Effects,
    ) {
        if result.is_err() {
            fx.counters.count(Counter::PublishesRefused);
        }
        if qos == Qos::ExactlyOnce {
            self.taken_in(key, id, result);
        }
        let Some(session) = self.sessions.at_mut(key) else { return };
        let conn = session.online();
        match (wait, session.more.as_mut()) {
            (Some(wait), Some(more)) => {
                for pending in &mut more.pending {
                    if matches!(pending.stage, Stage::Waits(of) if of == wait) {
                        pending.stage = Stage::Ready(result);
                    }
                }
                self.give_ready(key, fx);
            }
            (None, Some(more)) if !more.pending.is_empty() => {
                more.pending.push_back(Pending { id, qos, stage: Stage::Ready(result) });
            }
            (None, _) => give(conn, (id, qos), result, fx),
            (Some(_), None) => {}
        }
    }

    /// How far a message of QoS 2 is with that.
    fn taken_in(&mut self, key: Key, id: u16, result: Result<Routed, Denial>) {
        let Some(session) = self.sessions.at(key) else { return };
        let ends = self.sessions.protocol_name(session.protocol) == "mqtt5";
        let most = usize::from(self.settings.limits.topics.receive_max);
        let Some(session) = self.sessions.at_mut(key) else { return };
        let inbound = &mut session.more().inbound;
        let Some(at) = inbound.iter().position(|inbound| inbound.id == id) else { return };
        match result {
            Ok(routed) => inbound[at].state = InboundState::Taken(routed),
            Err(_) if inbound[at].marker == 0 => _ = inbound.swap_remove(at),
            // Some may have it: said again, it goes on. With version 5 the exchange is over, unless
            // the client does not hear of it (MQTT5 4.3.3-9): no more than it may have open.
            Err(_) => {
                inbound[at].state = InboundState::Halfway;
                let is_halfway = |it: &Inbound| it.state == InboundState::Halfway;
                if ends
                    && inbound.iter().filter(|it| is_halfway(it)).count() > most
                    && let Some(first) = inbound.iter().position(is_halfway)
                {
                    self.removals.push((key, inbound.remove(first).marker));
                }
            }
        }
    }

    /// Gives the answers at the front that are ready.
    fn give_ready(&mut self, key: Key, fx: &mut Effects) {
        let Some(session) = self.sessions.at_mut(key) else { return };
        let conn = session.online();
        let Some(more) = session.more.as_mut() else { return };
        while let Some(Pending { stage: Stage::Ready(result), id, qos }) = more.pending.front() {
            give(conn, (*id, *qos), *result, fx);
            more.pending.pop_front();
        }
        session.rest();
    }
}

fn give(
    conn: Option<model::id::ConnRef>,
    (id, qos): (u16, Qos),
    result: Result<Routed, Denial>,
    fx: &mut Effects,
) {
    if let Some(conn) = conn {
        fx.deliveries.push((conn, SessionDelivery::Taken { id, qos, result }));
    }
}

/// The number under which a wait is receipted; never 0.
pub(crate) fn receipt_of(wait: Key) -> u64 {
    wait.pack() + 1
}

/// The wait of a receipt.
pub(crate) fn wait_of(receipt: u64) -> Key {
    Key::unpack(receipt.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::made::{NOW, broker, client, conn};
    use base::slab::Slab;
    use model::session::SessionRequest;
    use model::topic::Publication;
    use std::sync::Arc;

    #[test]
    fn where_no_more_answers_may_wait_a_message_is_refused() {
        let mut broker = broker(|_| {});
        assert_eq!(broker.waits.cap(), WAITS_MAX);
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
        broker.waits = Slab::new(2 * WAITS_MAX);
        let wait = || Wait { origin: Origin::Server, left: 1, matched: false, error: None };
        (1..WAITS_MAX).for_each(|_| _ = broker.waits.insert(wait()).ok());
        assert_eq!(publish(&mut broker), Ok(Routed::NoSubscriber));
        assert!(broker.waits.insert(wait()).is_ok());
        assert_eq!(publish(&mut broker), Err(Denial::Busy));
    }

    #[test]
    fn a_receipt_is_never_0_and_leads_back_to_its_wait() {
        for key in [Key { slot: 0, generation: 0 }, Key { slot: u32::MAX, generation: 3 }] {
            assert!(receipt_of(key) != 0);
            assert_eq!(wait_of(receipt_of(key)), key);
        }
    }

    #[test]
    fn an_answer_is_what_became_of_all() {
        let of = |error, matched| Wait { origin: Origin::Server, left: 0, matched, error }.result();
        assert_eq!(of(None, true), Ok(Routed::Matched));
        assert_eq!(of(None, false), Ok(Routed::NoSubscriber));
        assert_eq!(of(Some(Denial::Busy), true), Err(Denial::Busy));
        let told = [StoreError::Busy, StoreError::Failed, StoreError::Full, StoreError::TooLarge];
        let words = [Denial::Busy, Denial::StoreFailed, Denial::StoreFull, Denial::StoreFull];
        assert_eq!(told.map(denial), words);
    }
}
