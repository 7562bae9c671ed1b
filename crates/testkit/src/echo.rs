//! The smallest service: what it is told it stores, says again, and tells its like on all shards.
//!
//! The echo service shows the parts that a service needs: this file, a variant in each word of
//! `model::service`, and a line in the list of whoever runs it. It has one row, which counts its
//! answers: the count is in every answer, so an answer shows whether a log kept the row over a
//! restart.

use base::encoding::Encoding;
use base::never;
use base::time::{Instant, Now};
use model::id::{ConnRef, ShardId};
use model::ports::control::Status;
use model::ports::log::{Call, Completion, Restored, RowHome, Table, Ticket, Write};
use model::ports::presence::queries::PresenceStatus;
use model::presence::{PresenceVersion, Principal};
use model::pressure::Pressure;
use model::service::{Echo, Effects, Service, ServiceKind, Weigh};
use std::collections::BTreeMap;

/// The key of its row, behind where that lives.
const KEY: &[u8] = b"spoken";

/// The echo service of a shard.
#[derive(Default)]
pub struct EchoService {
    shard: u16,
    shards: u16,
    /// How often it has spoken, in all its lives.
    spoken: u64,
    /// Messages from the same service of other shards.
    heard: Vec<Box<str>>,
    next: Ticket,
    /// Answers that wait for the row in the log, and their commands.
    pending: BTreeMap<Ticket, (u64, Echo)>,
}

/// Message to other shards.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct EchoMessage(Box<str>);

impl Weigh for EchoMessage {
    fn weight(&self) -> usize {
        size_of::<EchoMessage>() + self.0.len()
    }
}

impl EchoService {
    /// The one of this shard, of so many.
    pub fn new(shard: ShardId, shards: u16) -> EchoService {
        EchoService { shard: shard.0, shards, ..EchoService::default() }
    }

    /// Messages from other shards, in order.
    pub fn heard(&self) -> &[Box<str>] {
        &self.heard
    }
}

impl Service for EchoService {
    const KIND: ServiceKind = ServiceKind::Echo;

    type Request = Echo;
    type Delivery = Echo;
    type Event = Echo;
    type Command = Echo;
    type Answer = Echo;
    type PeerMessage = EchoMessage;

    fn restore(&mut self, _: Now, restored: Restored<'_>) -> bool {
        let Restored::Row { table: Table::Other, key, value } = restored else { return false };
        if RowHome::rest(key) != Some(KEY) {
            return false;
        }
        let spoken = value.try_into().map(u64::from_be_bytes);
        spoken.map(|spoken| self.spoken = spoken).is_ok()
    }

    fn restored(&mut self, _: Now, _: &mut Effects<Self>) {}

    fn request(&mut self, _: Now, from: ConnRef, request: Echo, fx: &mut Effects<Self>) {
        fx.tell(request.clone());
        fx.deliveries.push((from, request));
    }

    fn undelivered(&mut self, _: Now, _: ConnRef, _: Echo, _: &mut Effects<Self>) {}

    fn command(&mut self, _: Now, ask: u64, Echo(text): Echo, fx: &mut Effects<Self>) {
        self.spoken += 1;
        self.next += 1;
        let others = (0..self.shards).filter(|shard| *shard != self.shard).map(ShardId);
        fx.peer_messages.extend(others.map(|shard| (shard, EchoMessage(text.clone()))));
        self.pending.insert(self.next, (ask, Echo(format!("{text} {}", self.spoken).into())));
        let (key, value) = (RowHome::PROCESS.key(&[KEY]), self.spoken.to_be_bytes().into());
        fx.calls.push((self.next, Call::Write(Write::Put { table: Table::Other, key, value })));
    }

    fn complete(&mut self, _: Now, (ticket, result): Completion, fx: &mut Effects<Self>) {
        let pending = self.pending.remove(&ticket);
        never!(pending.is_none(), "each ticket is completed once");
        if let Some((ask, echo)) = pending {
            let failed = |error| Echo(format!("{error:?}").into());
            fx.answers.push((ask, result.map_or_else(failed, |_| echo)));
        }
    }

    fn peer_message(&mut self, _: Now, _: ShardId, message: EchoMessage, _: &mut Effects<Self>) {
        self.heard.push(message.0);
    }

    fn turn(&mut self, _: Now, _: &mut Effects<Self>) -> Option<Instant> {
        None
    }

    fn unsettled(&self) -> usize {
        self.pending.len()
    }

    fn press(&mut self, _: Pressure) {}

    fn set_draining(&mut self, _: Now, _: bool) {}

    fn status(&self, _: &mut Status) {}

    fn find(&self, _: Now, _: &Principal) -> Option<PresenceStatus> {
        None
    }

    fn observe(&mut self, _: PresenceVersion) {}

    fn outvoted(&mut self, _: Now, _: &Principal, _: &mut Effects<Self>) {}

    fn audit(&self) {
        assert!(self.pending.len() as u64 <= self.spoken, "it answers what it was asked");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::slab::Key;
    use model::ports::events::ClientEvent;
    use model::service::{Delivery, Event, Request};

    #[test]
    fn a_word_is_of_one_service() {
        let (request, delivery) =
            (Request::Echo(Echo("a".into())), Delivery::from(Echo("a".into())));
        assert_eq!((request.service(), delivery.service()), (ServiceKind::Echo, ServiceKind::Echo));
        assert_eq!(Echo::try_from(request), Ok(Echo("a".into())));
        let event = Event::from(Echo("a".into()));
        assert_eq!(ClientEvent::try_from(event.clone()), Err(event), "it comes back");
    }

    #[test]
    fn a_request_is_said_again_where_it_came_from_and_told_if_somebody_listens() {
        let (mut echo, mut fx) = (EchoService::new(ShardId(0), 1), Effects::default());
        let (now, from) =
            (Now::default(), ConnRef::new(ShardId(0), Key { slot: 1, generation: 1 }));
        echo.request(now, from, Echo("a".into()), &mut fx);
        assert!(fx.events.is_empty(), "nobody listens");
        fx.events_wanted = true;
        echo.request(now, from, Echo("b".into()), &mut fx);
        assert_eq!(fx.events, [Echo("b".into())]);
        assert_eq!(fx.deliveries, [(from, Echo("a".into())), (from, Echo("b".into()))]);
    }
}
