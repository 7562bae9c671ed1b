//! Delivery from a client's queue, as far as its window allows.
//!
//! In order, with the packet identifier it had if it was sent before. What has expired before it
//! was sent is dropped; what was sent does not expire (MQTT5 4.3.3-7).

use super::queue::Entry;
use crate::Broker;
use crate::Effects;
use base::slab::Key;
use base::time::Now;
use model::event::Counter;
use model::session::{Drop, Outgoing, SessionDelivery};
use model::topic::Qos;
use std::sync::Arc;

/// Bytes of messages of QoS 1 and 2 on the way to one client, but always one message.
pub(crate) const BYTES_ON_WAY_MAX: u64 = 512 * 1024;

/// What is to be done about the next message.
enum Next {
    Stop,
    Fetch,
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

    /// Sends what may be sent of what waits.
    pub(crate) fn pump_queue(&mut self, now: Now, key: Key, fx: &mut Effects) {
        let unix_s = now.unix_s();
        loop {
            let totals = &mut self.totals;
            let Some(session) = self.sessions.at_mut(key) else { return };
            let Some(conn) = session.online() else { return };
            let window = usize::from(session.window);
            let Some(more) = session.more.as_mut() else { return };
            let queue = &mut more.queue;
            let next = match queue.next() {
                None => Next::Stop,
                Some(entry) if entry.id == 0 && expired(entry, unix_s) => Next::Expired,
                Some(entry) if entry.message.is_none() => Next::Fetch,
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
                Next::Fetch => return self.fetch(now, key, fx),
                Next::Expired => {
                    let Some(entry) = queue.take_next(totals) else { break };
                    self.over(key, &entry);
                    self.share_over(key, &entry, fx);
                    self.dropped(now, key, (Drop::Expired, 1), fx);
                }
                Next::Straight => {
                    let Some(entry) = queue.take_next(totals) else { break };
                    if let Some(outgoing) = outgoing(&entry) {
                        fx.counters.count(Counter::Delivered);
                        fx.deliveries.push((conn, SessionDelivery::Publish(outgoing)));
                    }
                }
                Next::Send => {
                    let Some(entry) = queue.send_next() else { break };
                    let Some(outgoing) = outgoing(entry) else { break };
                    fx.counters.count(Counter::Delivered);
                    fx.counters.count_by(Counter::DeliveredAgain, u64::from(entry.again()));
                    fx.deliveries.push((conn, SessionDelivery::Publish(outgoing)));
                }
            }
        }
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
}

fn expired(entry: &Entry, unix_s: u32) -> bool {
    entry.expire_at != 0 && entry.expire_at <= unix_s
}

fn outgoing(entry: &Entry) -> Option<Outgoing> {
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
