//! Delivery from a client's queue, within its window, and the client's acknowledgements.
//!
//! Messages are sent in order, with the packet identifier they had if they were sent before. A
//! message that expired before it was sent is dropped; one that was sent does not expire (MQTT5
//! 4.3.3-7). A message that only the log has is read back in time; the pump stops until the next
//! message is here.
//!
//! A message is removed from the log when the client has it, in batches: one that is removed too
//! late is sent once more after a crash, which QoS 1 allows. At QoS 2 the log first stores that the
//! client has the message, and only then PUBREL is sent, so the message is never sent again (MQTT5
//! 4.3.3-6).
//!
//! An acknowledgement of another kind than the exchange awaits ends the connection (MQTT5 4.13.1,
//! MQTT3 4.8.0-1). One for an unused identifier does not: the message may have ended meanwhile, and
//! the acknowledgement be late.

use super::queue::{Awaited, Entry, Release};
use crate::Broker;
use crate::Effects;
use crate::durable::calls::{PendingCall, Retry};
use crate::durable::entries::Said;
use crate::session::record::Exchange;
use base::slab::Key;
use base::time::Now;
use model::close::CloseReason;
use model::counters::TopicCounter;
use model::ports::calls::may_be_taken_later;
use model::ports::log::{Append, Call, Done, StoreError, Write};
use model::session::{AckStep, Denial, Denied, Drop, Outgoing, SessionDelivery};
use model::timeline::Message;
use model::topic::{Publication, Qos, SubscriptionIds};
use std::sync::Arc;

/// Bytes of messages of QoS 1 and 2 on the way to one client, but always one message.
pub(crate) const BYTES_ON_WAY_MAX: u64 = 512 * 1024;

/// Action for the next message.
enum Next {
    Stop,
    Expired,
    Straight,
    Send,
}

impl Broker {
    /// Sends what may be sent, and goes on with retained messages.
    pub(crate) fn pump(&mut self, now: Now, key: Key, fx: &mut Effects) {
        self.pump_queue(now, key, fx);
        self.replay_on(now, key, super::replay::LOOKS_MAX, fx);
        self.sessions.rest(key);
    }

    /// Sends queued messages as far as the window permits.
    pub(crate) fn pump_queue(&mut self, now: Now, key: Key, fx: &mut Effects) {
        let unix_s = now.unix_s();
        loop {
            let totals = &mut self.totals;
            let Some(session) = self.sessions.at_mut(key) else { return };
            let Some(conn) = session.online() else { return };
            let window = usize::from(session.window());
            let Some(more) = session.more.as_mut() else { return };
            let queue = &mut more.queue;
            let next = match queue.next() {
                None => Next::Stop,
                Some(entry) if entry.id == 0 && expired(entry, unix_s) => Next::Expired,
                Some(entry) if entry.message.is_none() => Next::Stop,
                Some(entry) if entry.qos == Qos::AtMostOnce => Next::Straight,
                Some(_) if queue.on_way() >= window => Next::Stop,
                Some(entry)
                    if queue.on_way() > 0
                        && queue.bytes_on_way() + u64::from(entry.bytes) > BYTES_ON_WAY_MAX =>
                {
                    Next::Stop
                }
                Some(_) => Next::Send,
            };
            match next {
                Next::Stop => break,
                Next::Expired => {
                    let Some(entry) = queue.take_next(totals) else { break };
                    self.over(key, &entry);
                    self.share_over(key, &entry, fx);
                    self.sessions.dropped(now, key, Drop::Expired, 1, fx);
                }
                Next::Straight => {
                    let Some(entry) = queue.take_next(totals) else { break };
                    if let Some(outgoing) = outgoing(&entry) {
                        fx.counters.count(TopicCounter::Delivered);
                        fx.deliveries.push((conn, SessionDelivery::Publish(outgoing)));
                    }
                }
                Next::Send => {
                    let Some(entry) = queue.send_next() else { break };
                    let Some(outgoing) = outgoing(entry) else { break };
                    fx.counters.count(TopicCounter::Delivered);
                    fx.counters.count_by(TopicCounter::DeliveredAgain, u64::from(entry.again()));
                    fx.deliveries.push((conn, SessionDelivery::Publish(outgoing)));
                }
            }
        }
        self.read_on(key, fx);
    }

    /// The client is back: what it has and does not know to be released is said again, and what was
    /// on the way is sent again (MQTT5 4.4.0-1).
    pub(crate) fn resume(&mut self, now: Now, key: Key, fx: &mut Effects) {
        let Some(session) = self.sessions.at(key) else { return };
        let (Some(conn), Some(queue)) = (session.online(), session.queue()) else { return };
        for release in queue.releases().filter(|release| !release.marking) {
            let release = SessionDelivery::Release { id: release.id, unknown: false };
            fx.deliveries.push((conn, release));
        }
        self.pump(now, key, fx);
    }

    /// An answer to a delivery.
    pub(crate) fn acked(&mut self, now: Now, exchange: Exchange, step: AckStep, fx: &mut Effects) {
        let Exchange { session: key, id } = exchange;
        let more = self.sessions.more(key);
        let awaited = more.and_then(|more| more.queue.awaited(id));
        if let Some(text) = awaited.and_then(|awaited| out_of_order(awaited, step)) {
            return self.end_for(now, key, text, fx);
        }
        match step {
            AckStep::Puback(refused) => {
                self.end_delivery(now, exchange, Qos::AtLeastOnce, refused, fx)
            }
            AckStep::Pubrec(true) => self.end_delivery(now, exchange, Qos::ExactlyOnce, true, fx),
            AckStep::Pubrec(false) => self.received(now, key, id, fx),
            AckStep::Pubcomp => self.completed_out(key, id, fx),
            AckStep::Unsendable => {
                let totals = &mut self.totals;
                let more = self.sessions.more_mut(key);
                let entry = more.and_then(|more| more.queue.cancel(id, totals));
                let Some(entry) = entry else { return };
                self.over(key, &entry);
                self.share_over(key, &entry, fx);
                self.sessions.dropped(now, key, Drop::TooLarge, 1, fx);
            }
        }
        self.pump(now, key, fx);
    }

    /// The connection ends because its client is out of step with an exchange.
    pub(crate) fn end_for(&mut self, now: Now, key: Key, text: &'static str, fx: &mut Effects) {
        let text = Some(text.into());
        let denied = Denied { text, ..Denied::of(Denial::Protocol, CloseReason::OutOfOrder) };
        self.end(now, key, denied, fx);
    }

    fn end_delivery(
        &mut self,
        now: Now,
        Exchange { session: key, id }: Exchange,
        qos: Qos,
        refused: bool,
        fx: &mut Effects,
    ) {
        let totals = &mut self.totals;
        let more = self.sessions.more_mut(key);
        let Some(entry) = more.and_then(|more| more.queue.acknowledge(id, qos, totals)) else {
            return;
        };
        self.over(key, &entry);
        self.share_over(key, &entry, fx);
        match refused {
            true => self.sessions.dropped(now, key, Drop::ClientRefused, 1, fx),
            false => fx.counters.count(TopicCounter::DeliveredAcked),
        }
    }

    /// The client has a message of QoS 2.
    fn received(&mut self, now: Now, key: Key, id: u16, fx: &mut Effects) {
        let totals = &mut self.totals;
        let Some(session) = self.sessions.at_mut(key) else { return };
        let Some(conn) = session.online() else { return };
        let queue = &mut session.more().queue;
        if let Some(entry) = queue.acknowledge(id, Qos::ExactlyOnce, totals) {
            fx.counters.count(TopicCounter::DeliveredAcked);
            let marking = entry.seq != 0;
            queue.add_release(Release { id, of: entry.seq, seq: 0, marking });
            self.share_over(key, &entry, fx);
            match marking {
                true => self.mark_received(now, Exchange { session: key, id }, fx),
                false => {
                    fx.deliveries.push((conn, SessionDelivery::Release { id, unknown: false }))
                }
            }
            return;
        }
        let known = queue.release_mut(id).map(|release| release.marking);
        if known != Some(true) {
            let unknown = known.is_none();
            fx.deliveries.push((conn, SessionDelivery::Release { id, unknown }));
        }
    }

    /// Stores in the log that the client has a message.
    pub(crate) fn mark_received(&mut self, now: Now, exchange: Exchange, fx: &mut Effects) {
        let Exchange { session: key, id } = exchange;
        let more = self.sessions.more_mut(key);
        let release = more.and_then(|more| more.queue.release_mut(id));
        let Some(seq) = release.filter(|it| it.marking).map(|it| it.of) else { return };
        let Some(session) = self.sessions.at(key) else { return };
        let timeline = session.exchanges(self.settings.home);
        let message = Arc::new(Message {
            id: u64::from(id),
            at_s: now.unix_s(),
            label: Said::Released(id, seq).encode(),
            body: Box::default(),
        });
        let append = Write::Append(Append {
            message,
            to: vec![timeline],
            once: None,
            heard: None,
            ends: true,
        });
        self.log.ask(PendingCall::Released(exchange), Call::Write(append), fx);
    }

    /// Handles the log's answer about a release: it is stored, or the write is retried. PUBREL is
    /// not sent before: after a crash the client would take the message for a new one.
    pub(crate) fn release_written(
        &mut self,
        now: Now,
        exchange: Exchange,
        result: Result<Done, StoreError>,
        fx: &mut Effects,
    ) {
        let Exchange { session: key, id } = exchange;
        let Some(session) = self.sessions.at_mut(key) else { return };
        let conn = session.online();
        let seq = match result {
            Ok(Done::Appended(appended)) => appended.seqs.first().copied().unwrap_or(0),
            Err(error) if may_be_taken_later(error) => {
                return self.log.again(now, Retry::Received(exchange));
            }
            // It is known at the next start.
            _ => return,
        };
        let release = session.more.as_mut().and_then(|more| more.queue.release_mut(id));
        let Some(release) = release.filter(|release| release.marking) else {
            return self.log.remove_mark(key, seq);
        };
        (release.seq, release.marking) = (seq, false);
        if let Some(conn) = conn {
            fx.deliveries.push((conn, SessionDelivery::Release { id, unknown: false }));
        }
    }

    fn completed_out(&mut self, key: Key, id: u16, _fx: &mut Effects) {
        let more = self.sessions.more_mut(key);
        let Some(release) = more.and_then(|more| more.queue.drop_release(id)) else { return };
        self.log.remove_both(key, release.of, release.seq);
    }
}

pub(crate) fn expired(entry: &Entry, unix_s: u32) -> bool {
    entry.expire_at != 0 && entry.expire_at <= unix_s
}

/// A message that was taken out of a queue, on its way.
pub(super) fn outgoing(entry: &Entry) -> Option<Outgoing> {
    Some(Outgoing {
        message: Arc::clone(entry.message.as_ref()?),
        id: entry.id,
        qos: entry.qos,
        again: entry.again(),
        retain: entry.retain(),
        shared: false,
        subscription_ids: entry.ids(),
    })
}

/// Reason why a step is out of order, given the acknowledgement that is awaited; `None`: it is in
/// order.
fn out_of_order(awaited: Awaited, step: AckStep) -> Option<&'static str> {
    match (awaited, step) {
        (Awaited::Puback, AckStep::Puback(_))
        | (Awaited::Pubrec, AckStep::Pubrec(_))
        // A repeated PUBREC is answered by PUBREL again.
        | (Awaited::Pubcomp | Awaited::Nothing, AckStep::Pubrec(_))
        | (Awaited::Pubcomp, AckStep::Pubcomp)
        | (_, AckStep::Unsendable) => None,
        (Awaited::Puback, _) => Some("PUBREC or PUBCOMP for a message of QoS 1"),
        (_, AckStep::Puback(_)) => Some("PUBACK for a message of QoS 2"),
        (Awaited::Pubrec | Awaited::Nothing, _) => {
            Some("PUBCOMP for a message that was not released")
        }
    }
}

/// A message of QoS 0 for one client.
#[inline]
pub(super) fn straight(
    message: Arc<Publication>,
    retain: bool,
    subscription_ids: SubscriptionIds,
) -> Outgoing {
    let (id, qos, again, shared) = (0, Qos::AtMostOnce, false, false);
    Outgoing { message, id, qos, again, retain, shared, subscription_ids }
}
