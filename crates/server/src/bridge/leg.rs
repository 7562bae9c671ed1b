//! A leg of a bridge: one session over connection after connection, as far as it is known between
//! them.
//!
//! The client machine of `proto-mqtt` lives with the connection while there is one and rests here
//! while there is none, so that orders are taken at any time. Which address is called next and when
//! is decided here; the calls themselves are the [`Dialler`](net::Dialler)'s.
//!
//! Invariant: the machine is in exactly one of both places.

use super::settings::LegPlan;
use base::prng::Prng;
use base::time::{Instant, Now};
use client::{
    Block, BrokerAddress, Client, ClientOrder, ConnectAccepted, ConnectError, ConnectErrorKind,
    Farewell, MqttEvent, Publication, Qos, ReasonCode, SubscriptionOptions, Unpublished, Version,
};
use model::close::CloseReason;
use model::id::ConnRef;
use model::link::Link;
use model::machine::{Input, Machine, Outbox, TurnAway};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

/// Time for name, connection, TLS, WebSocket and CONNACK, each address.
pub(super) const CONNECT_TIME: Duration = Duration::from_secs(5);

/// Which leg of which bridge: twice the bridge's number, and one for the leg at our own broker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LegId(pub u16);

/// Where a leg is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LegState {
    /// No connection exists; one is begun at this time.
    Away(Instant),
    /// A call is under way, which must have come through by then.
    Calling(Instant),
    /// CONNECT is on its way, and must be answered by then.
    Asking(ConnRef, Instant),
    /// The broker has accepted it.
    Online(ConnRef),
}

/// A session with one of the two brokers.
pub(super) struct Leg {
    plan: LegPlan,
    pub state: LegState,
    resting: Option<Client>,
    wishes: Vec<SubscriptionOptions>,
    /// The broker has answered the subscription, in this process and its session.
    is_subscribed: bool,
    token: u32,
    /// Which address is next, and how often in a row it went wrong.
    next: usize,
    tries: u32,
    random: Prng,
    /// The broker's last words on this connection, and whether they were a refusal.
    farewell: Option<(Box<Farewell>, bool)>,
}

impl Leg {
    /// One that calls at once, for these subscriptions. `seed` draws pauses.
    pub fn new(plan: LegPlan, wishes: Vec<SubscriptionOptions>, seed: u64) -> Leg {
        Leg {
            state: LegState::Away(Instant::default()),
            resting: Some(Client::new(Arc::new(plan.profile.clone()), 0)),
            plan,
            wishes,
            is_subscribed: false,
            token: 0,
            next: 0,
            tries: 0,
            random: Prng::new(seed),
            farewell: None,
        }
    }

    /// Whether the broker has accepted it.
    pub fn is_online(&self) -> bool {
        matches!(self.state, LegState::Online(_))
    }

    /// Whether the broker has accepted it, and sends it what it subscribes to.
    pub fn is_subscribed(&self) -> bool {
        self.is_online() && (self.is_subscribed || self.wishes.is_empty())
    }

    /// Its connection, while the machine lives there.
    pub fn conn(&self) -> Option<ConnRef> {
        match self.state {
            LegState::Asking(conn, _) | LegState::Online(conn) => Some(conn),
            LegState::Away(_) | LegState::Calling(_) => None,
        }
    }

    /// When it must be looked at again at the latest.
    pub fn next_look(&self) -> Option<Instant> {
        match self.state {
            LegState::Away(at) | LegState::Calling(at) | LegState::Asking(_, at) => Some(at),
            LegState::Online(_) => None,
        }
    }

    /// The address that is called, or was called last.
    pub fn address(&self) -> &BrokerAddress {
        &self.plan.addresses[self.next % self.plan.addresses.len()]
    }

    /// Layers around the protocol on the next connection.
    pub fn layers(&self) -> Result<net::layer::ClientLayers, ConnectError> {
        self.address().layers(self.plan.tls.as_ref())
    }

    /// A connection is open: the machine goes to live there.
    pub fn opened(&mut self, id: LegId, conn: ConnRef) -> Option<LegMachine> {
        let LegState::Calling(until) = self.state else { return None };
        let client = self.resting.take()?;
        self.state = LegState::Asking(conn, until);
        self.farewell = None;
        Some(LegMachine { id, client: Cell::new(Some(client)) })
    }

    /// The broker said yes. Gives the order to subscribe, whenever no broker has answered it yet
    /// that still has the session.
    pub fn accepted(&mut self, conn: ConnRef, accepted: &ConnectAccepted) -> Option<ClientOrder> {
        self.state = LegState::Online(conn);
        self.plan.older = None;
        self.tries = 0;
        self.is_subscribed &= accepted.session_present;
        if self.is_subscribed || self.wishes.is_empty() {
            return None;
        }
        let (token, wishes) = (self.take_token(), self.wishes.clone());
        Some(ClientOrder::Subscribe { token, wishes, properties: Block::default() })
    }

    /// The broker has answered the subscription.
    pub fn subscribed(&mut self) {
        self.is_subscribed = true;
    }

    /// The broker said no, or farewell.
    pub fn told(&mut self, farewell: Box<Farewell>, is_refusal: bool) {
        self.farewell = Some((farewell, is_refusal));
    }

    /// The connection has ended: the machine rests, until the next. Gives why, and whether the
    /// broker had accepted it.
    pub fn ended(
        &mut self,
        now: Now,
        machine: &LegMachine,
        reason: CloseReason,
    ) -> (ConnectError, bool) {
        self.resting = machine.client.take();
        let was_online = self.is_online();
        let fault = self.fault(reason);
        if was_online {
            self.next = if self.plan.round_robin { self.next + 1 } else { 0 };
            self.state = LegState::Away(now.after(self.pause(1)));
        } else {
            self.failed(now);
        }
        (fault, was_online)
    }

    /// Why the connection has ended.
    fn fault(&mut self, reason: CloseReason) -> ConnectError {
        let address = self.address().clone();
        let text = match self.farewell.take() {
            Some((farewell, is_refusal)) => {
                return ConnectError::said(&address, &farewell, is_refusal);
            }
            None if self.is_online() => "the connection ended: ".to_owned() + reason.meaning(),
            None if reason == CloseReason::TimedOut => {
                "no CONNACK in time. Is it an MQTT broker?".to_owned()
            }
            None => "the connection ended before CONNACK: ".to_owned() + reason.meaning(),
        };
        let (what, text) = (ConnectErrorKind::Ended(reason), format!("{address}: {text}"));
        ConnectError { what, text }
    }

    /// An address did not do: the others are tried at once, and all of them again after a pause.
    pub fn failed(&mut self, now: Now) {
        let count = self.plan.addresses.len();
        self.tries = self.tries.saturating_add(1);
        self.next = (self.next + 1) % count;
        let is_round_over = (self.tries as usize).is_multiple_of(count);
        let pause = if is_round_over { self.tries / count as u32 } else { 0 };
        self.state = LegState::Away(match pause {
            0 => now.mono,
            round => now.after(self.pause(round)),
        });
    }

    /// The pause doubles from round to round, half of it drawn at random.
    fn pause(&mut self, round: u32) -> Duration {
        let retry = self.plan.retry;
        let doubled = retry.min.saturating_mul(1 << round.saturating_sub(1).min(16));
        let half = doubled.min(retry.max) / 2;
        half + Duration::from_nanos(self.random.below(half.as_nanos() as u64 + 1))
    }

    /// The version that is spoken.
    pub fn version(&self) -> Version {
        self.plan.profile.version
    }

    /// The broker has ended a connection without accepting it: another version is spoken on the
    /// next, if there is one. A version that was accepted once stays.
    pub fn try_other_version(&mut self) -> bool {
        let Some(older) = self.plan.older.take() else { return false };
        let newer = std::mem::replace(&mut self.plan.profile, older);
        self.plan.older = Some(newer);
        self.say_profile();
        true
    }

    fn say_profile(&mut self) {
        if let Some(client) = &mut self.resting {
            client.set_profile(Arc::new(self.plan.profile.clone()));
        }
    }

    /// Whether it says to the broker that it is a bridge.
    pub fn is_marked(&self) -> bool {
        self.plan.profile.is_bridge
    }

    /// Stops marking the leg as a bridge, from the next connection on.
    pub fn unmark(&mut self) {
        self.plan.profile.is_bridge = false;
        self.say_profile();
    }

    /// Publishes a message of the bridge's own, or of QoS 0; at QoS 1 and 2 it waits while there is
    /// no connection.
    pub fn publish(&mut self, message: impl Into<Arc<Publication>>) -> ClientOrder {
        ClientOrder::Publish { token: self.take_token(), message: message.into() }
    }

    fn take_token(&mut self) -> u32 {
        self.token = self.token.wrapping_add(1);
        self.token
    }

    /// Gives an order to the machine at rest. Its output on the wire is discarded.
    pub fn order(&mut self, now: Now, order: ClientOrder, out: &mut Outbox<MqttEvent>) {
        if let Some(client) = &mut self.resting {
            // Nothing ends: there is no connection.
            let _ = client.command(now, order, out);
        }
        out.drain_wire(|_| {});
        out.take_wake();
        out.take_silence();
        out.take_tell_drained();
    }
}

/// A leg's machine on its connection.
pub(super) struct LegMachine {
    pub id: LegId,
    /// Taken out when the connection has ended, for the next one.
    client: Cell<Option<Client>>,
}

/// An order to a leg.
pub(super) struct LegOrder {
    /// Leg that is meant.
    pub id: LegId,
    pub order: ClientOrder,
}

impl LegMachine {
    fn client(&mut self) -> &mut Client {
        self.client.get_mut().as_mut().expect("it is taken out when its connection has ended")
    }
}

type Out = Outbox<MqttEvent>;

impl Machine for LegMachine {
    type Up = MqttEvent;
    type Down = LegOrder;

    fn opened(&mut self, now: Now, link: &Link, out: &mut Out) -> Result<(), CloseReason> {
        self.client().opened(now, link, out)
    }

    fn receive(
        &mut self,
        now: Now,
        input: &mut Input<'_>,
        out: &mut Out,
    ) -> Result<(), CloseReason> {
        self.client().receive(now, input, out)
    }

    /// A message of QoS 0 is dropped where a broker does not read.
    fn command(&mut self, now: Now, down: LegOrder, out: &mut Out) -> Result<(), CloseReason> {
        match down.order {
            ClientOrder::Publish { token, message }
                if message.qos == Qos::AtMostOnce && out.backlog() > out.backlog_max() =>
            {
                let result = Err::<ReasonCode, _>(Unpublished::QueueFull);
                out.say(MqttEvent::Published { token, result });
                Ok(())
            }
            order => self.client().command(now, order, out),
        }
    }

    fn wake(&mut self, now: Now, out: &mut Out) -> Result<(), CloseReason> {
        self.client().wake(now, out)
    }

    fn silent(&mut self, now: Now, out: &mut Out) -> Result<(), CloseReason> {
        self.client().silent(now, out)
    }

    fn turn_away(&mut self, _: Now, _: TurnAway<'_>, _: &mut Out) {
        // Nobody turns away the connections of a bridge.
    }

    fn closed(&mut self, now: Now, reason: CloseReason, out: &mut Out) {
        self.client().closed(now, reason, out);
    }
}
