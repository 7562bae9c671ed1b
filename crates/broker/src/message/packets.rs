//! SUBSCRIBE and UNSUBSCRIBE that are not answered yet, and what is left of long ones.
//!
//! A packet that is too long for one turn goes on a slice a turn, in turns with those of other
//! sessions; what its client asks for behind it waits for it, within a limit in bytes. An answer
//! waits for rows, and for the owners of shared groups. Invariant: an answer is here until all that
//! it waits for has come, and its packet is at its end.

use super::answers::Origin;
use super::subscribe::Wish;
use base::slab::{Key, Slab};
use model::chat::CHAT_EVENTS;
use model::id::ConnRef;
use model::session::{Denial, SessionDelivery};
use model::topic::{Qos, SubscriptionOptions};
use std::collections::{BTreeMap, VecDeque};
use std::vec::IntoIter;

/// Answers to subscribers that may wait, a shard. Beyond, all of a packet is refused.
const GRANTINGS_MAX: usize = 1 << 20;

/// Rows of one packet that the log is asked for at a time.
const ROWS_ASKED_MAX: u32 = 2_048;

/// An answer that is not given yet.
pub(crate) struct Granting {
    pub session: Key,
    pub conn: ConnRef,
    id: u16,
    /// Rows that are asked for, and one while the packet is not at its end.
    left: u32,
    results: Results,
    /// Filters whose retained messages are wanted then, by their numbers, and since when they are
    /// held.
    pub wanted: BTreeMap<u32, u64>,
    filters: Vec<Box<str>>,
    /// Subscriptions that the session had under these filters, by the indices of the filters.
    before: BTreeMap<usize, Renewed>,
}

/// A subscription that was granted again.
#[derive(Clone, Copy)]
pub(crate) struct Renewed {
    /// The options and the identifier that it had.
    pub options: u8,
    pub subscription_id: Option<u32>,
    /// The options that it has been given.
    pub given: u8,
}

enum Results {
    Subscribed(Vec<Result<Qos, Denial>>),
    Unsubscribed(Vec<Result<bool, Denial>>),
}

/// The unhandled part of a packet.
pub(crate) enum Rest {
    /// Subscriptions, and the identifier of them all.
    Wishes(IntoIter<SubscriptionOptions>, Option<u32>),
    /// Filters to unsubscribe.
    Filters(IntoIter<Box<str>>),
}

/// The next of a packet.
pub(crate) enum Next {
    Wish(Wish),
    Filter(Box<str>),
}

/// A packet that is not at its end.
pub(crate) struct Packet {
    pub granting: Key,
    rest: Rest,
    bytes: u64,
}

/// Pending packets of a shard.
pub(crate) struct Packets {
    grantings: Slab<Granting>,
    of: BTreeMap<Key, VecDeque<Packet>>,
    /// Sessions in the order of their turns.
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

    /// Memory of the part, with the answer's copy, bytes.
    fn bytes(&self) -> u64 {
        let each = |filter: &str| (2 * filter.len() + size_of::<SubscriptionOptions>() + 48) as u64;
        match self {
            Rest::Wishes(wishes, _) => wishes.as_slice().iter().map(|it| each(&it.filter)).sum(),
            Rest::Filters(filters) => filters.as_slice().iter().map(|it| each(it)).sum(),
        }
    }
}

impl Granting {
    fn of(session: Key, conn: ConnRef, id: u16, rest: &Rest) -> Granting {
        let (wanted, filters) = (BTreeMap::new(), Vec::with_capacity(rest.len()));
        let results = match rest {
            Rest::Wishes(..) => Results::Subscribed(Vec::with_capacity(rest.len())),
            Rest::Filters(_) => Results::Unsubscribed(Vec::with_capacity(rest.len())),
        };
        let before = BTreeMap::new();
        Granting { session, conn, id, left: 1, results, wanted, filters, before }
    }

    /// The answer to the client.
    pub fn into_word(self) -> SessionDelivery {
        let id = self.id;
        match self.results {
            Results::Subscribed(results) => {
                SessionDelivery::Subscribed { id, results: results.into() }
            }
            Results::Unsubscribed(results) => {
                SessionDelivery::Unsubscribed { id, results: results.into() }
            }
        }
    }

    /// Whether one of the filters is that of chat events.
    pub fn is_about_events(&self) -> bool {
        self.filters.iter().any(|filter| filter.starts_with(CHAT_EVENTS))
    }

    /// A wish was granted, or was not. `wanted`: its retained messages are. `joins`: the owner of
    /// its group has to know it first.
    pub fn subscribed(
        &mut self,
        filter: Box<str>,
        result: Result<Qos, Denial>,
        wanted: Option<(u32, u64)>,
        joins: bool,
    ) {
        self.filters.push(filter);
        self.wanted.extend(wanted);
        self.left += u32::from(joins);
        if let Results::Subscribed(results) = &mut self.results {
            results.push(result);
        }
    }

    /// Notes that a filter was unsubscribed; `was_there` if it was subscribed.
    pub fn unsubscribed(&mut self, filter: Box<str>, was_there: bool) {
        self.filters.push(filter);
        if let Results::Unsubscribed(results) = &mut self.results {
            results.push(Ok(was_there));
        }
    }

    /// Notes that the session had its last filter before.
    pub fn renewed(&mut self, before: Option<Renewed>) {
        let at = self.filters.len().saturating_sub(1);
        self.before.extend(before.map(|before| (at, before)));
    }

    /// Makes the answer wait for the row of its last filter, and returns that filter's index.
    pub fn wait_for_row(&mut self) -> usize {
        self.left += 1;
        self.filters.len() - 1
    }

    /// A row was refused, or a group; the filter, if it is not to be held then, or as before.
    pub fn refuse(&mut self, at: usize, why: Denial) -> Option<(Box<str>, Option<Renewed>)> {
        match &mut self.results {
            Results::Subscribed(results) => {
                results[at] = Err(why);
                Some((self.filters[at].clone(), self.before.get(&at).copied()))
            }
            Results::Unsubscribed(results) => {
                results[at] = Err(why);
                None
            }
        }
    }

    /// Whether so many row writes are open that no more are started for now.
    pub fn is_busy(&self) -> bool {
        self.left > ROWS_ASKED_MAX
    }
}

impl Packet {
    /// The next wish or filter to handle.
    pub fn next(&mut self, packets: &Packets) -> Option<Next> {
        match &mut self.rest {
            Rest::Wishes(wishes, subscription_id) => {
                let (options, subscription_id) = (wishes.next()?, *subscription_id);
                let at = packets.at(self.granting)?.filters.len() as u32;
                let joining = Some(Origin::Joining(self.granting, at));
                Some(Next::Wish(Wish { options, subscription_id, joining }))
            }
            Rest::Filters(filters) => Some(Next::Filter(filters.next()?)),
        }
    }

    pub fn is_at_end(&self) -> bool {
        self.rest.len() == 0
    }
}

impl Packets {
    /// An empty store that holds at most `bytes_max` bytes of long packets.
    pub fn new(bytes_max: u64) -> Packets {
        let (of, order) = (BTreeMap::new(), VecDeque::new());
        Packets { grantings: Slab::new(GRANTINGS_MAX), of, order, bytes: 0, bytes_max }
    }

    /// Sets the limit of bytes of long packets.
    pub fn set_max(&mut self, bytes_max: u64) {
        self.bytes_max = bytes_max;
    }

    /// Opens a packet. If no more answers may wait, all of its filters are refused.
    pub fn open(
        &mut self,
        session: Key,
        conn: ConnRef,
        id: u16,
        rest: Rest,
    ) -> Result<Packet, Box<Granting>> {
        match self.grantings.insert(Granting::of(session, conn, id, &rest)) {
            Ok(granting) => Ok(Packet { granting, rest, bytes: 0 }),
            Err(mut granting) => {
                match &mut granting.results {
                    Results::Subscribed(all) => all.resize(rest.len(), Err(Denial::Quota)),
                    Results::Unsubscribed(all) => all.resize(rest.len(), Err(Denial::Quota)),
                }
                Err(Box::new(granting))
            }
        }
    }

    pub fn at(&self, granting: Key) -> Option<&Granting> {
        self.grantings.at(granting)
    }

    pub fn at_mut(&mut self, granting: Key) -> Option<&mut Granting> {
        self.grantings.at_mut(granting)
    }

    /// Notes that a part of an answer has arrived; returns the answer, if it was the last.
    pub fn arrived(&mut self, granting: Key) -> Option<Granting> {
        let open = self.grantings.at_mut(granting)?;
        open.left -= 1;
        if open.left == 0 { self.grantings.remove(granting) } else { None }
    }

    /// Whether packets of a session wait.
    pub fn has(&self, session: Key) -> bool {
        self.of.contains_key(&session)
    }

    /// Queues the unhandled part of a packet. False: the queue has no room.
    pub fn put(&mut self, session: Key, mut packet: Packet) -> bool {
        packet.bytes = packet.rest.bytes();
        if self.bytes + packet.bytes > self.bytes_max {
            return false;
        }
        self.bytes += packet.bytes;
        let line = self.of.entry(session).or_insert_with(|| {
            self.order.push_back(session);
            VecDeque::new()
        });
        line.push_back(packet);
        true
    }

    /// Sessions whose packets wait.
    pub fn waiting(&self) -> usize {
        self.order.len()
    }

    /// The first packet of the session whose turn it is.
    pub fn take(&mut self) -> Option<(Key, Packet)> {
        let session = self.order.pop_front()?;
        let packet = self.of.get_mut(&session)?.pop_front()?;
        self.bytes -= packet.bytes;
        Some((session, packet))
    }

    /// The session had its turn; `rest`: its packet goes on.
    pub fn had_turn(&mut self, session: Key, rest: Option<Packet>) {
        let Some(line) = self.of.get_mut(&session) else { return };
        if let Some(packet) = rest {
            self.bytes += packet.bytes;
            line.push_front(packet);
        }
        match line.is_empty() {
            true => _ = self.of.remove(&session),
            false => self.order.push_back(session),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Effects;
    use crate::session::made::{NOW, broker, client, conn};
    use model::session::{SessionRequest, SubscribeRequest, UnsubscribeRequest};
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
