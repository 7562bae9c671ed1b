//! The two legs of a bridge, and what passes between them.
//!
//! The invariant: a message of QoS 1 or 2 that came in on one leg is acknowledged there when the
//! other leg's broker has answered it, or when it is clear that it never will.

use super::map::{BridgeSide, Topic, cross};
use super::settings::BridgeSection;
use super::{LOOK, Shared};
use client::{
    Block, ConnectError, ConnectErrorKind, MqttEvent, Property, Publication, Qos, ReasonCode,
    RetainHandling, Session, SubscriptionOptions, Unpublished, Version, properties_of, publication,
};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Events of one leg that are looked at before the other has its turn.
const TURN: usize = 256;
/// Bytes waiting for a leg's socket beyond which messages of QoS 0 are dropped, and counted.
const QOS0_BACKLOG_BYTES_MAX: usize = 1024 * 1024;
/// The user property by which a message is known that has been through this process.
const MARK: &str = "holdline-bridge";

/// A bridge at work.
pub(super) struct Legs {
    settings: BridgeSection,
    topics: Vec<Topic>,
    remote: Leg,
    local: Leg,
    /// Of this process: what comes back with it has made a round.
    mark: String,
    shared: Arc<Shared>,
}

struct Leg {
    session: Session,
    /// Tokens of messages sent on this leg, with those of the other leg that wait for them.
    waiting: HashMap<u32, u32>,
    /// Subscriptions were made in this process.
    is_subscribed: bool,
    was_online: bool,
}

impl Leg {
    fn new(session: Session) -> Leg {
        Leg { session, waiting: HashMap::new(), is_subscribed: false, was_online: false }
    }
}

impl Legs {
    /// Legs of these settings, over their session at the remote broker and over that at ours.
    pub fn new(
        settings: BridgeSection,
        [remote, ours]: [Session; 2],
        shared: Arc<Shared>,
    ) -> Result<Legs, String> {
        let mark = format!("{}-{:x}", settings.name, client::now().wall_ms);
        let (topics, remote, local) = (settings.mapped_topics()?, Leg::new(remote), Leg::new(ours));
        Ok(Legs { settings, topics, remote, local, mark, shared })
    }

    /// Works until it is told to stop.
    pub fn run(&mut self) {
        while !self.shared.stop.load(Ordering::Relaxed) {
            self.serve(BridgeSide::Local);
            self.serve(BridgeSide::Remote);
            let legs = [&self.local.session, &self.remote.session];
            if legs.iter().any(|session| session.has_events()) {
                continue;
            }
            let idle = legs.iter().map(|session| session.idle_for()).min().unwrap_or(LOOK);
            let idle = idle.clamp(Duration::from_millis(1), LOOK);
            let sockets: Vec<_> = legs.iter().filter_map(|session| session.waits_on()).collect();
            client::wait(&sockets, idle);
        }
        self.notify("0");
        for leg in [&mut self.local, &mut self.remote] {
            leg.session.disconnect(ReasonCode::Success, Block::default());
        }
        self.shared.status().is_online = false;
    }

    fn leg(&mut self, side: BridgeSide) -> &mut Leg {
        match side {
            BridgeSide::Local => &mut self.local,
            BridgeSide::Remote => &mut self.remote,
        }
    }

    /// Does what there is to do on one side.
    fn serve(&mut self, side: BridgeSide) {
        for _ in 0..TURN {
            match self.leg(side).session.poll(Duration::ZERO) {
                Ok(Some(event)) => self.event(side, event),
                Ok(None) => break,
                Err(fault) => {
                    self.lost(side, &fault);
                    break;
                }
            }
        }
    }

    fn event(&mut self, side: BridgeSide, event: MqttEvent) {
        match event {
            MqttEvent::Connected(_) => self.connected(side),
            MqttEvent::Message { token, qos, message, .. } => {
                self.pass(side, (token, qos), &message)
            }
            MqttEvent::Published { token, result } => self.answered(side, token, result),
            MqttEvent::Subscribed { reasons, .. } if reasons.iter().any(|r| r.is_failure()) => {
                let name = &self.settings.name;
                tracing::warn!(bridge = name, ?side, "a subscription was refused");
            }
            _ => {}
        }
    }

    fn connected(&mut self, side: BridgeSide) {
        let name = self.settings.name.clone();
        self.leg(side).was_online = true;
        if !std::mem::replace(&mut self.leg(side).is_subscribed, true) {
            self.subscribe(side);
        }
        if side == BridgeSide::Remote {
            let address = self.remote.session.address().to_string();
            tracing::info!(bridge = name, address, "the bridge is up");
            let mut status = self.shared.status();
            (status.is_online, status.last_fault) = (true, None);
            status.connects += 1;
            drop(status);
            self.notify("1");
        } else if self.remote.session.is_online() {
            self.notify("1");
        }
    }

    fn lost(&mut self, side: BridgeSide, fault: &ConnectError) {
        let name = self.settings.name.clone();
        let was_online = std::mem::take(&mut self.leg(side).was_online);
        if side == BridgeSide::Remote {
            let mut status = self.shared.status();
            let is_news = was_online || status.last_fault.is_none();
            (status.is_online, status.last_fault) = (false, Some(fault.text.clone()));
            drop(status);
            if is_news {
                tracing::warn!(bridge = name, "{fault}");
            }
            if was_online {
                self.notify("0");
            }
            let is_shy = matches!(
                fault.what,
                ConnectErrorKind::Refused(ReasonCode::UnsupportedProtocolVersion)
            );
            if is_shy && self.remote.session.profile().is_bridge {
                tracing::warn!(bridge = name, "the remote broker takes no marked bridge: unmarked");
                self.remote.session.change_profile(|profile| profile.is_bridge = false);
            }
        } else if was_online {
            tracing::warn!(bridge = name, "our own broker: {fault}");
        }
    }

    /// Subscribes to what crosses from this side. Retained messages come with new subscriptions.
    fn subscribe(&mut self, side: BridgeSide) {
        let wish = |filter: String, qos| SubscriptionOptions {
            filter: filter.into(),
            qos,
            no_local: true,
            retain_as_published: true,
            retain_handling: RetainHandling::SendIfNew,
        };
        let topics = &self.topics;
        let wishes: Vec<SubscriptionOptions> = topics
            .iter()
            .filter_map(|topic| Some(wish(topic.subscribed(side)?, topic.qos)))
            .collect();
        if !wishes.is_empty() {
            self.leg(side).session.subscribe(wishes, Block::default());
        }
    }

    /// A message came in: on the other leg it goes out.
    fn pass(&mut self, from: BridgeSide, (token, qos): (u32, Qos), message: &Publication) {
        let to = if from == BridgeSide::Local { BridgeSide::Remote } else { BridgeSide::Local };
        let crossed = cross(&self.topics, from, message.topic());
        let has_returned = from == BridgeSide::Remote && self.is_marked(message);
        let Some((topic, qos_max)) = crossed.filter(|_| !has_returned) else {
            // Of an old session's subscription, or a loop.
            self.refuse(from, (token, qos), ReasonCode::Success);
            return;
        };
        let mut made = self.remade(to, &topic, message);
        made.qos = qos.min(qos_max);
        let passes_retain = to == BridgeSide::Local || self.settings.outgoing_retain;
        made.retain = message.retain && passes_retain;
        let is_unsure = made.qos == Qos::AtMostOnce;
        let leg = self.leg(to);
        if is_unsure && leg.session.backlog() > QOS0_BACKLOG_BYTES_MAX {
            self.refuse(from, (token, qos), ReasonCode::Success);
            return;
        }
        let sent = leg.session.publish(made);
        if qos != Qos::AtMostOnce {
            if is_unsure {
                self.leg(from).session.acknowledge(token, ReasonCode::Success);
            } else {
                self.leg(to).waiting.insert(sent, token);
            }
        }
    }

    /// The message under its new topic; what goes to a broker of version 5 is marked.
    fn remade(&self, to: BridgeSide, topic: &str, message: &Publication) -> Publication {
        if to == BridgeSide::Local || self.settings.version() != Version::V5 {
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

    /// It does not cross.
    fn refuse(&mut self, from: BridgeSide, (token, qos): (u32, Qos), reason: ReasonCode) {
        self.shared.status().refused += 1;
        if qos != Qos::AtMostOnce {
            self.leg(from).session.acknowledge(token, reason);
        }
    }

    /// The broker of one side has answered a message: the other side's hears of it.
    fn answered(&mut self, side: BridgeSide, token: u32, result: Result<ReasonCode, Unpublished>) {
        let mut status = self.shared.status();
        match (&result, side) {
            (Ok(_), BridgeSide::Remote) => status.out += 1,
            (Ok(_), BridgeSide::Local) => status.received += 1,
            (Err(_), _) => status.refused += 1,
        }
        drop(status);
        let Some(waiting) = self.leg(side).waiting.remove(&token) else { return };
        let reason = match result {
            Ok(_) => ReasonCode::Success,
            Err(Unpublished::Refused(reason)) => reason,
            Err(Unpublished::Expired) => ReasonCode::Success,
            Err(_) => ReasonCode::ImplementationSpecific,
        };
        let other = if side == BridgeSide::Local { BridgeSide::Remote } else { BridgeSide::Local };
        self.leg(other).session.acknowledge(waiting, reason);
    }

    /// Says whether the bridge is up, on both sides. The remote one's `0` is its will.
    fn notify(&mut self, state: &str) {
        if !self.settings.notifications {
            return;
        }
        let mut message =
            Publication::new(&self.settings.notification_topic(), &[], state.as_bytes());
        (message.qos, message.retain) = (Qos::AtLeastOnce, true);
        if !self.settings.notifications_local_only && self.remote.session.is_online() {
            self.remote.session.publish(message.clone());
        }
        if self.local.session.is_online() {
            self.local.session.publish(message);
        }
    }
}

fn with_expiry(made: Publication, of: &Publication) -> Publication {
    let mut made = made;
    made.expire_at = of.expire_at;
    made
}
