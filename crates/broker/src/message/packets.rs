//! SUBSCRIBE and UNSUBSCRIBE, and their answers.
//!
//! The first filters of a packet are looked at when it comes. What is left of a long one goes on a
//! slice a turn, in turns with those of other sessions; what the client asks for behind it waits
//! for it, within a limit in bytes. The answer waits for the rows of durable sessions. What the
//! log refused is not granted.

use super::answers::Origin;
use super::subscribe::Wish;
use crate::Broker;
use crate::Effects;
use crate::durable::calls::PendingCall;
use base::slab::{Key, Slab};
use base::time::{Instant, Now};
use model::close::CloseReason;
use model::event::Counter;
use model::id::ConnRef;
use model::ports::log::{Call, Write};
use model::session::{Denial, Denied, SessionDelivery, SubscribeRequest, UnsubscribeRequest};
use model::topic::{Qos, SubscriptionOptions};
use std::collections::{BTreeMap, VecDeque};
use std::vec::IntoIter;

/// Answers to subscribers that may wait, a shard. Beyond, all of a packet is refused.
const GRANTINGS_MAX: usize = 1 << 20;

/// Filters of a packet that are looked at when it comes, and of one session in a turn.
pub(crate) const FILTERS_AT_ONCE: usize = 128;

/// Filters that are looked at in a turn, of all packets that were too long.
pub(crate) const FILTERS_A_TURN: usize = 512;

/// Rows of one packet that the log is asked for at a time.
const ROWS_ASKED_MAX: u32 = 2_048;

/// An answer that is not given yet.
struct Granting {
    key: Key,
    conn: ConnRef,
    id: u16,
    /// Rows that are asked for, and one while the packet is not at its end.
    left: u32,
    results: Results,
    /// Filters whose retained messages are wanted then, by their numbers, and since when they are
    /// held.
    wanted: BTreeMap<u32, u64>,
    filters: Vec<Box<str>>,
}

enum Results {
    Subscribed(Vec<Result<Qos, Denial>>),
    Unsubscribed(Vec<Result<bool, Denial>>),
}

/// What is left of a packet.
enum Rest {
    Wishes(IntoIter<SubscriptionOptions>, Option<u32>),
    Filters(IntoIter<Box<str>>),
}

/// A packet that is not at its end.
struct Packet {
    granting: Key,
    rest: Rest,
    bytes: u64,
}

/// Those of a shard.
pub(crate) struct Packets {
    /// Answers to subscribers that wait for rows.
    grantings: Slab<Granting>,
    of: BTreeMap<Key, VecDeque<Packet>>,
    /// Whose turn it is.
    order: VecDeque<Key>,
    bytes: u64,
    bytes_max: u64,
}

impl Rest {
    fn len(&self) -> usize {
        match self {
            Rest::Wishes(wishes, _) => wishes.len(),
            Rest::Filters(filters) => filters.len(),
        }
    }

    /// What it takes in memory, with the answer's copy.
    fn bytes(&self) -> u64 {
        let each = |filter: &str| (2 * filter.len() + size_of::<SubscriptionOptions>() + 48) as u64;
        match self {
            Rest::Wishes(wishes, _) => wishes.as_slice().iter().map(|it| each(&it.filter)).sum(),
            Rest::Filters(filters) => filters.as_slice().iter().map(|it| each(it)).sum(),
        }
    }
}

impl Packets {
    /// None; of long ones at most so many bytes.
    pub fn new(bytes_max: u64) -> Packets {
        let (of, order) = (BTreeMap::new(), VecDeque::new());
        Packets { grantings: Slab::new(GRANTINGS_MAX), of, order, bytes: 0, bytes_max }
    }

    fn add(&mut self, key: Key, packet: Packet) {
        self.bytes += packet.bytes;
        let line = self.of.entry(key).or_insert_with(|| {
            self.order.push_back(key);
            VecDeque::new()
        });
        line.push_back(packet);
    }
}

impl Broker {
    pub(crate) fn subscribe(
        &mut self,
        now: Now,
        key: Key,
        packet: SubscribeRequest,
        fx: &mut Effects,
    ) {
        let rest = Rest::Wishes(packet.wishes.into_iter(), packet.subscription_id);
        self.packet_in(now, key, packet.id, rest, fx);
    }

    pub(crate) fn unsubscribe(
        &mut self,
        now: Now,
        key: Key,
        packet: UnsubscribeRequest,
        fx: &mut Effects,
    ) {
        self.packet_in(now, key, packet.id, Rest::Filters(packet.filters.into_iter()), fx);
    }

    fn packet_in(&mut self, now: Now, key: Key, id: u16, rest: Rest, fx: &mut Effects) {
        let Some(conn) = self.sessions.online(key) else { return };
        let (wanted, filters) = (BTreeMap::new(), Vec::with_capacity(rest.len()));
        let results = match &rest {
            Rest::Wishes(wishes, _) => Results::Subscribed(Vec::with_capacity(wishes.len())),
            Rest::Filters(filters) => Results::Unsubscribed(Vec::with_capacity(filters.len())),
        };
        let granting = Granting { key, conn, id, left: 1, results, wanted, filters };
        let number = match self.packets.grantings.insert(granting) {
            Ok(number) => number,
            Err(mut granting) => {
                match &mut granting.results {
                    Results::Subscribed(all) => all.resize(rest.len(), Err(Denial::Quota)),
                    Results::Unsubscribed(all) => all.resize(rest.len(), Err(Denial::Quota)),
                }
                return self.tell_granted(now, granting, fx);
            }
        };
        let mut packet = Packet { granting: number, rest, bytes: 0 };
        let is_first = !self.packets.of.contains_key(&key);
        if is_first && self.work_on(now, key, &mut packet, FILTERS_AT_ONCE, fx) {
            return self.packet_over(now, number, fx);
        }
        packet.bytes = packet.rest.bytes();
        if self.packets.bytes + packet.bytes > self.packets.bytes_max {
            // It is over before its answer, which would be shorter than what was asked.
            self.end(now, key, Denied::of(Denial::Quota, CloseReason::Quota), fx);
            return self.packet_over(now, number, fx);
        }
        self.packets.add(key, packet);
    }

    /// Looks at so many filters of a packet; true: that were all.
    fn work_on(
        &mut self,
        now: Now,
        key: Key,
        packet: &mut Packet,
        most: usize,
        fx: &mut Effects,
    ) -> bool {
        let number = packet.granting;
        for _ in 0..most {
            self.units.spend(1);
            let row = match &mut packet.rest {
                Rest::Wishes(wishes, subscription_id) => match wishes.next() {
                    Some(options) => {
                        let (subscription_id, joining) = (*subscription_id, None);
                        let wish = Wish { options, subscription_id, joining };
                        self.grant_one(now, key, number, wish, fx)
                    }
                    None => return true,
                },
                Rest::Filters(filters) => match filters.next() {
                    Some(filter) => self.withdraw_one(now, key, number, filter, fx),
                    None => return true,
                },
            };
            let Some(granting) = self.packets.grantings.at_mut(number) else { return true };
            if let Some(row) = row {
                granting.left += 1;
                let at = granting.filters.len() - 1;
                self.log.ask(PendingCall::Granted(number, at), Call::Write(row), fx);
            }
        }
        packet.rest.len() == 0
    }

    fn grant_one(
        &mut self,
        now: Now,
        key: Key,
        number: Key,
        wish: Wish,
        fx: &mut Effects,
    ) -> Option<Write> {
        let filter = wish.options.filter.clone();
        let at = self.packets.grantings.at(number)?.filters.len() as u32;
        let wish = Wish { joining: Some(Origin::Joining(number, at)), ..wish };
        let granted = self.grant(now, key, wish, fx);
        let (counter, wanted) = match &granted {
            Ok(granted) => (Counter::Subscribed, granted.wanted),
            Err(_) => (Counter::SubscribesRefused, None),
        };
        fx.counters.count(counter);
        let granting = self.packets.grantings.at_mut(number)?;
        granting.filters.push(filter);
        granting.left += u32::from(granted.as_ref().is_ok_and(|granted| granted.joins));
        granting.wanted.extend(wanted);
        if let Results::Subscribed(results) = &mut granting.results {
            results.push(granted.as_ref().map(|granted| granted.qos).map_err(|why| *why));
        }
        granted.ok()?.row
    }

    fn withdraw_one(
        &mut self,
        now: Now,
        key: Key,
        number: Key,
        filter: Box<str>,
        fx: &mut Effects,
    ) -> Option<Write> {
        let (was_there, row) = self.withdraw(now, key, &filter, fx);
        let granting = self.packets.grantings.at_mut(number)?;
        granting.filters.push(filter);
        if let Results::Unsubscribed(results) = &mut granting.results {
            results.push(Ok(was_there));
        }
        row
    }

    /// Goes on with long packets, a slice of each in turn.
    pub(crate) fn turn_packets(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let (mut left, mut goes_on) = (FILTERS_A_TURN, false);
        for _ in 0..self.packets.order.len() {
            let Some(key) = self.packets.order.pop_front() else { break };
            let line = self.packets.of.get_mut(&key);
            let Some(mut packet) = line.and_then(|line| line.pop_front()) else { continue };
            self.packets.bytes -= packet.bytes;
            let granting = self.packets.grantings.at(packet.granting);
            let online = self.sessions.online(key);
            let is_here = granting.is_some_and(|granting| Some(granting.conn) == online);
            let waits = granting.is_some_and(|granting| granting.left > ROWS_ASKED_MAX)
                || !self.log.is_easy();
            let most = left.min(FILTERS_AT_ONCE);
            // A connection that is gone is not waited for: its packets are over.
            let is_over = !is_here
                || !waits && most > 0 && {
                    left -= most;
                    self.work_on(now, key, &mut packet, most, fx)
                };
            if is_over {
                self.packet_over(now, packet.granting, fx);
            }
            goes_on |= !waits || is_over;
            let Some(line) = self.packets.of.get_mut(&key) else { continue };
            if !is_over {
                self.packets.bytes += packet.bytes;
                line.push_front(packet);
            }
            match line.is_empty() {
                true => _ = self.packets.of.remove(&key),
                false => self.packets.order.push_back(key),
            }
        }
        (goes_on && !self.packets.order.is_empty()).then_some(now.mono)
    }

    /// A packet was looked at to its end, or is looked at no further.
    fn packet_over(&mut self, now: Now, number: Key, fx: &mut Effects) {
        let Some(granting) = self.packets.grantings.at_mut(number) else { return };
        granting.left -= 1;
        if granting.left == 0
            && let Some(granting) = self.packets.grantings.remove(number)
        {
            self.tell_granted(now, granting, fx);
        }
    }

    /// A row of a subscription was answered, or the owner of its group.
    pub(crate) fn granted(
        &mut self,
        now: Now,
        number: Key,
        at: usize,
        result: Result<(), Denial>,
        fx: &mut Effects,
    ) {
        let Some(granting) = self.packets.grantings.at_mut(number) else { return };
        let mut refused = None;
        if let Err(why) = result {
            match &mut granting.results {
                Results::Subscribed(results) => {
                    results[at] = Err(why);
                    refused = Some((granting.key, granting.filters[at].clone()));
                }
                Results::Unsubscribed(results) => results[at] = Err(why),
            }
        }
        if let Some((key, filter)) = refused {
            // What is not on stable storage, or not known to its group, is not granted.
            let (_, row) = self.withdraw(now, key, &filter, fx);
            if let Some(row) = row {
                self.log.write(row, fx);
            }
        }
        self.packet_over(now, number, fx);
    }

    fn tell_granted(&mut self, now: Now, granting: Granting, fx: &mut Effects) {
        let Granting { key, conn, id, results, wanted, .. } = granting;
        let session = self.sessions.at(key);
        if session.is_none_or(|session| session.online() != Some(conn)) {
            return;
        }
        let word = match results {
            Results::Subscribed(results) => {
                SessionDelivery::Subscribed { id, results: results.into() }
            }
            Results::Unsubscribed(results) => {
                SessionDelivery::Unsubscribed { id, results: results.into() }
            }
        };
        fx.deliveries.push((conn, word));
        self.replay(now, key, wanted, fx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::made::{NOW, broker, client, conn};
    use model::session::SessionRequest;
    use model::topic::RetainHandling;

    #[test]
    fn where_no_more_answers_may_wait_all_of_a_packet_is_refused() {
        let (mut broker, mut fx) = (broker(|_| {}), Effects::default());
        assert_eq!(broker.packets.grantings.cap(), GRANTINGS_MAX);
        let session = client(&mut broker, conn(1), "a");
        broker.packets.grantings = Slab::new(0);
        let wish = SubscriptionOptions {
            filter: "t".into(),
            qos: Qos::AtLeastOnce,
            no_local: false,
            retain_as_published: false,
            retain_handling: RetainHandling::Send,
        };
        let (subscription_id, wishes) = (None, vec![wish; 3]);
        let packet = Box::new(SubscribeRequest { session, id: 5, subscription_id, wishes });
        broker.request(NOW, conn(1), SessionRequest::Subscribe(packet), &mut fx);
        let packet = Box::new(UnsubscribeRequest { session, id: 6, filters: vec!["t".into(); 2] });
        broker.request(NOW, conn(1), SessionRequest::Unsubscribe(packet), &mut fx);
        let said: Vec<_> = fx.deliveries.into_iter().map(|(_, word)| word).collect();
        let subscribed: Box<[_]> = vec![Err(Denial::Quota); 3].into();
        let unsubscribed: Box<[_]> = vec![Err(Denial::Quota); 2].into();
        assert_eq!(
            said,
            [
                SessionDelivery::Subscribed { id: 5, results: subscribed },
                SessionDelivery::Unsubscribed { id: 6, results: unsubscribed },
            ]
        );
        assert_eq!(broker.subscriptions.len(), 0);
    }
}
