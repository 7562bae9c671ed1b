//! One bridge: its two legs, and the messages that pass between them.
//!
//! The invariant: a message of QoS 1 or 2 that came in on one leg is acknowledged there when the
//! other leg's broker has answered it, or when it is clear that it never will. At QoS 2 the release
//! and its completion are passed on in the same way, under one packet identifier
//! ([`RelayOrder`]), so that both brokers know how far a message is and nothing of it is known here
//! alone.

use super::in_step::InStep;
use super::leg::{Leg, LegMachine};
use super::map::{BridgeSide, Topic, cross};
use super::settings::{BridgeSection, LegPlan};
use admin::BridgeStatus;
use base::time::Now;
use client::{
    Block, ClientOrder, ConnectErrorKind, MqttEvent, Property, Publication, Qos, ReasonCode,
    RelayEvent, RelayOrder, RetainHandling, SubscriptionOptions, Unpublished, Version,
    properties_of, publication,
};
use model::close::CloseReason;
use model::id::ConnRef;
use model::{event, tell};
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The user property by which a message is known that has been through this process.
const MARK: &str = "holdline-bridge";

/// A bridge at work.
pub(super) struct Bridge {
    settings: BridgeSection,
    topics: Vec<Topic>,
    remote: Leg,
    local: Leg,
    /// The connections are ending because the bridge was stopped.
    is_ending: bool,
    /// Of this process: what comes back with it has made a round.
    mark: String,
    status: Arc<Mutex<BridgeStatus>>,
    in_step: InStep,
    /// Identifiers of QoS 2 of messages that did not cross: their exchange is completed here.
    ended: HashSet<(BridgeSide, u16)>,
    /// Orders to the legs that were not carried out yet.
    orders: Vec<(BridgeSide, ClientOrder)>,
}

impl Bridge {
    /// A bridge of these settings, with the plans of its legs at the remote broker and at ours.
    /// `mark` is of this process alone, `seed` draws pauses; what outlives the process stands in
    /// `folder`.
    pub fn new(
        settings: BridgeSection,
        [remote, local]: [LegPlan; 2],
        seed: u64,
        (mark, status): (String, Arc<Mutex<BridgeStatus>>),
        folder: Option<PathBuf>,
    ) -> Result<Bridge, String> {
        let topics = settings.mapped_topics()?;
        let file = folder.filter(|_| !settings.clean);
        let file = file.map(|folder| folder.join(format!("{}.in-step", settings.name)));
        let remote = Leg::new(remote, wishes(&topics, BridgeSide::Remote), seed);
        let local = Leg::new(local, wishes(&topics, BridgeSide::Local), !seed);
        Ok(Bridge {
            settings,
            topics,
            remote,
            local,
            is_ending: false,
            mark,
            status,
            in_step: InStep::of(file),
            ended: HashSet::new(),
            orders: Vec::new(),
        })
    }

    pub fn leg(&mut self, side: BridgeSide) -> &mut Leg {
        match side {
            BridgeSide::Local => &mut self.local,
            BridgeSide::Remote => &mut self.remote,
        }
    }

    /// Takes the orders that have come up.
    pub fn take_orders(&mut self) -> Vec<(BridgeSide, ClientOrder)> {
        std::mem::take(&mut self.orders)
    }

    fn status(&self) -> MutexGuard<'_, BridgeStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An order found its connection gone: it comes up again.
    pub fn put_back(&mut self, side: BridgeSide, order: ClientOrder) {
        self.orders.push((side, order));
    }

    /// Event of a leg's machine, on this connection or, at rest, on none.
    pub fn event(&mut self, side: BridgeSide, conn: Option<ConnRef>, event: MqttEvent) {
        match event {
            MqttEvent::Connected(accepted) => {
                let Some(conn) = conn else { return };
                let order = self.leg(side).accepted(conn, &accepted);
                self.orders.extend(order.map(|order| (side, order)));
                self.keep_in_step(side, accepted.session_present);
                self.connected(side);
            }
            MqttEvent::Refused(farewell) => self.leg(side).told(farewell, true),
            MqttEvent::Disconnected(farewell) => self.leg(side).told(farewell, false),
            MqttEvent::Message { packet_id, qos, again, message, .. } => {
                self.pass(side, (packet_id, qos, again), &message);
            }
            MqttEvent::Relay(event) => self.relayed(side, event),
            MqttEvent::Published { result, .. } => self.count(side, result),
            // The message may have arrived, or not: at QoS 1 and 2 it is sent again.
            MqttEvent::Lost { token, message: Some(message) } => {
                self.orders.push((side, ClientOrder::Publish { token, message }));
            }
            MqttEvent::Subscribed { reasons, .. } => {
                self.leg(side).subscribed();
                self.show_online();
                if reasons.iter().any(|reason| reason.is_failure()) {
                    let name = &self.settings.name;
                    tell!(event::BRIDGE_REFUSED, bridge = name, ?side);
                }
            }
            _ => {}
        }
    }

    /// Handles a broker's acceptance of its leg: before messages of QoS 1 and 2 are sent, the
    /// broker has to free identifiers of ended sessions.
    fn keep_in_step(&mut self, side: BridgeSide, present: bool) {
        let sessions = (side == BridgeSide::Remote).then(|| {
            let ids = (self.settings.remote_id(), self.settings.local_id());
            format!("{} {:?}", self.remote.address(), ids)
        });
        if !present {
            self.relay(other(side), RelayOrder::Disown);
            self.ended.retain(|(of, _)| *of != side);
        }
        if self.in_step.accepted(side, present, sessions) && self.leg(other(side)).is_online() {
            self.clear(other(side));
        }
        self.clear(side);
        self.resume();
    }

    /// Whether messages may cross. Not while one broker still frees identifiers: a process that
    /// began then would have both free them again, and with them those of messages on their way.
    fn is_in_step(&self) -> bool {
        self.settings.clean || self.in_step.is_settled()
    }

    /// A broker has freed its identifiers.
    fn cleared(&mut self, side: BridgeSide) {
        self.in_step.cleared(side);
        self.resume();
    }

    /// Has messages cross, if they may. A leg without a connection takes no notice.
    fn resume(&mut self) {
        if self.is_in_step() {
            for side in [BridgeSide::Local, BridgeSide::Remote] {
                self.relay(side, RelayOrder::Resume);
            }
        }
    }

    /// Has a broker free the identifiers of sessions that are over. Where sessions do not outlive
    /// their connections, no identifier does.
    fn clear(&mut self, side: BridgeSide) {
        if !self.settings.clean && self.in_step.ask(side) {
            self.relay(side, RelayOrder::Clear);
        }
    }

    fn relay(&mut self, side: BridgeSide, order: RelayOrder) {
        self.orders.push((side, ClientOrder::Relay(order)));
    }

    /// A step of a message that is on its way from one side to the other.
    fn relayed(&mut self, side: BridgeSide, event: RelayEvent) {
        match event {
            RelayEvent::Taken { id, result } => {
                self.count(side, result);
                self.answered(other(side), id, result);
            }
            RelayEvent::Released { id } if self.ended.remove(&(side, id)) => {
                self.relay(side, RelayOrder::Complete { id });
            }
            RelayEvent::Released { id } => self.relay(other(side), RelayOrder::Release { id }),
            RelayEvent::Completed { id } => self.relay(other(side), RelayOrder::Complete { id }),
            RelayEvent::Cleared => self.cleared(side),
        }
    }

    fn connected(&mut self, side: BridgeSide) {
        if side == BridgeSide::Remote {
            let (name, address) = (&self.settings.name, self.remote.address().to_string());
            tell!(event::BRIDGE_UP, bridge = name, address);
            let mut status = self.status();
            status.last_fault = None;
            status.connects += 1;
            drop(status);
            self.notify(BridgeSide::Remote, "1");
        }
        if self.remote.is_online() {
            self.notify(BridgeSide::Local, "1");
        }
        self.show_online();
    }

    /// The bridge is online when both brokers have accepted it and answered its subscriptions: what
    /// is published from then on crosses.
    fn show_online(&mut self) {
        if self.remote.is_subscribed() && self.local.is_subscribed() {
            self.status().is_online = true;
        }
    }

    /// A leg's connection has ended. Gives which it was.
    pub fn ended(
        &mut self,
        now: Now,
        side: BridgeSide,
        machine: &LegMachine,
        reason: CloseReason,
    ) -> Option<ConnRef> {
        let leg = self.leg(side);
        let conn = leg.conn();
        let (fault, was_online) = leg.ended(now, machine, reason);
        let too_old = ConnectErrorKind::Refused(ReasonCode::UnsupportedProtocolVersion);
        self.lost(side, fault.text, was_online);
        let is_unheard = fault.what == too_old || is_unheard(&fault.what);
        if side == BridgeSide::Remote
            && !was_online
            && is_unheard
            && self.remote.try_other_version()
        {
            return conn;
        }
        if side == BridgeSide::Remote && fault.what == too_old && self.remote.is_marked() {
            let name = &self.settings.name;
            tell!(event::BRIDGE_UNMARKED, bridge = name);
            self.remote.unmark();
        }
        conn
    }

    /// A leg's connection has ended, or did not come about.
    pub fn lost(&mut self, side: BridgeSide, fault: String, was_online: bool) {
        if self.is_ending {
            return;
        }
        let name = &self.settings.name;
        if side == BridgeSide::Local {
            if was_online {
                tell!(event::BRIDGE_UNWELCOME, bridge = name, fault);
            }
            return;
        }
        let mut status = self.status();
        let is_news = was_online || status.last_fault.is_none();
        if is_news {
            tell!(event::BRIDGE_AWAY, bridge = name, fault);
        }
        (status.is_online, status.last_fault) = (false, Some(fault));
        drop(status);
        if was_online {
            self.notify(BridgeSide::Local, "0");
        }
    }

    /// Disconnects from both brokers.
    pub fn stop(&mut self) {
        self.is_ending = true;
        for side in [BridgeSide::Local, BridgeSide::Remote] {
            self.notify(side, "0");
            if self.leg(side).is_online() {
                let (reason, properties) = (ReasonCode::Success, Block::default());
                self.orders.push((side, ClientOrder::Disconnect { reason, properties }));
            }
        }
        self.status().is_online = false;
    }

    fn publish(&mut self, side: BridgeSide, message: Publication) {
        let order = self.leg(side).publish(message);
        self.orders.push((side, order));
    }

    /// A message came in, under an identifier unless it has QoS 0: on the other leg it goes out.
    fn pass(
        &mut self,
        from: BridgeSide,
        (id, qos, again): (u16, Qos, bool),
        message: &Publication,
    ) {
        let to = other(from);
        let crossed = cross(&self.topics, from, message.topic());
        let has_returned = from == BridgeSide::Remote && self.is_marked(message);
        let Some((topic, qos_max)) = crossed.filter(|_| !has_returned) else {
            // Of an old session's subscription, or a loop.
            self.status().refused += 1;
            return self.end(from, (id, qos), ReasonCode::Success);
        };
        let mut made = self.remade(to, &topic, message);
        made.qos = qos.min(qos_max);
        let passes_retain = to == BridgeSide::Local || self.settings.outgoing_retain;
        made.retain = message.retain && passes_retain;
        if made.qos == Qos::AtMostOnce {
            self.publish(to, made);
            return self.end(from, (id, qos), ReasonCode::Success);
        }
        self.ended.remove(&(from, id));
        if qos > made.qos {
            self.ended.insert((from, id));
        }
        self.relay(to, RelayOrder::Publish { id, again, message: Arc::new(made) });
    }

    /// The message under its new topic; what goes to a broker of version 5 is marked.
    fn remade(&self, to: BridgeSide, topic: &str, message: &Publication) -> Publication {
        if to == BridgeSide::Local || self.remote.version() != Version::V5 {
            return message.renamed(topic);
        }
        let mut block = Block::default();
        // What came in one packet fits into another, but perhaps not with the mark.
        for property in properties_of(message) {
            let _ = block.push(property);
        }
        let _ = block.push(Property::UserProperty((MARK, &self.mark)));
        let made = publication(message.at_s, topic, block.properties(), message.payload());
        with_expiry(made, message)
    }

    fn is_marked(&self, message: &Publication) -> bool {
        let mark = Property::UserProperty((MARK, &self.mark));
        properties_of(message).any(|property| property == mark)
    }

    /// Ends an exchange of which nothing is under way on the other leg: what is left of it is
    /// between this broker and the bridge.
    fn end(&mut self, from: BridgeSide, (id, qos): (u16, Qos), reason: ReasonCode) {
        if qos == Qos::AtMostOnce {
            return;
        }
        if qos == Qos::ExactlyOnce {
            self.ended.insert((from, id));
        }
        self.orders.push((from, ClientOrder::Ack { token: id.into(), reason }));
    }

    /// How the broker of one side has answered a message.
    fn count(&self, side: BridgeSide, result: Result<ReasonCode, Unpublished>) {
        let mut status = self.status();
        match (result, side) {
            (Ok(_), BridgeSide::Remote) => status.out += 1,
            (Ok(_), BridgeSide::Local) => status.received += 1,
            (Err(_), _) => status.refused += 1,
        }
    }

    /// Passes a broker's answer about a message to the side that the message is from.
    fn answered(&mut self, from: BridgeSide, id: u16, result: Result<ReasonCode, Unpublished>) {
        let reason = match result {
            Ok(_) => ReasonCode::Success,
            Err(Unpublished::Refused(reason)) => reason,
            Err(Unpublished::Expired) => ReasonCode::Success,
            Err(_) => ReasonCode::ImplementationSpecific,
        };
        if result.is_err() {
            // Before MQTT 5 a refusal cannot be said, and the exchange goes on.
            self.ended.insert((from, id));
        }
        self.orders.push((from, ClientOrder::Ack { token: id.into(), reason }));
    }

    /// Publishes on one side whether the bridge is up. The remote one's `0` is its will.
    fn notify(&mut self, side: BridgeSide, state: &str) {
        let settings = &self.settings;
        let is_wanted = settings.notifications
            && (side == BridgeSide::Local || !settings.notifications_local_only);
        if is_wanted && self.leg(side).is_online() {
            let topic = self.settings.notification_topic();
            let mut message = Publication::new(&topic, &[], state.as_bytes());
            (message.qos, message.retain) = (Qos::AtLeastOnce, true);
            self.publish(side, message);
        }
    }
}

/// Whether a broker ended a connection as those do that do not know the version of its CONNECT: by
/// an answer in the words of another, or by none.
fn is_unheard(what: &ConnectErrorKind) -> bool {
    use CloseReason::{Malformed, OutOfOrder, PeerClosed, PeerReset};
    matches!(what, ConnectErrorKind::Ended(Malformed | OutOfOrder | PeerClosed | PeerReset))
}

fn other(side: BridgeSide) -> BridgeSide {
    match side {
        BridgeSide::Local => BridgeSide::Remote,
        BridgeSide::Remote => BridgeSide::Local,
    }
}

/// Subscriptions to what crosses from this side. Retained messages come with new ones.
fn wishes(topics: &[Topic], side: BridgeSide) -> Vec<SubscriptionOptions> {
    let wish = |topic: &Topic| {
        Some(SubscriptionOptions {
            filter: topic.subscribed(side)?.into(),
            qos: topic.qos,
            no_local: true,
            retain_as_published: true,
            retain_handling: RetainHandling::SendIfNew,
        })
    };
    topics.iter().filter_map(wish).collect()
}

fn with_expiry(made: Publication, of: &Publication) -> Publication {
    let mut made = made;
    made.expire_at = of.expire_at;
    made
}
