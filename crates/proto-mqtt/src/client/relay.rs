//! A client that passes messages of one session on to another: how a bridge keeps QoS 2.
//!
//! ```text
//!  source            bridge            target
//!    ── PUBLISH n ──►      ── PUBLISH n ──►
//!    ◄── PUBREC n ──       ◄── PUBREC n ──
//!    ── PUBREL n ──►       ── PUBREL n ──►
//!    ◄── PUBCOMP n ──      ◄── PUBCOMP n ──
//! ```
//! A message goes out under the packet identifier under which it came in, and each step of its
//! exchange is passed on when it has come. The state of a message is therefore known by the
//! sessions of both brokers, which outlive this process: after a restart the source repeats PUBLISH
//! or PUBREL, and the target knows the identifier (MQTT5 4.3.3, 4.4.0-1).
//!
//! The client of the source reports PUBREL and answers it when it is told to; the client of the
//! target reports PUBREC and PUBCOMP, and sends PUBREL when it is told to. After each CONNACK it
//! sends no message of QoS 1 and 2 before [`RelayOrder::Resume`]. Where an earlier session left
//! identifiers behind, the server frees those first ([`RelayOrder::Clear`]).

use super::send::{Outgoing, Stage, Waiting, acknowledge};
use super::{Client, EventTranslator, Heard, PublishAckMode, State, Unpublished, say};
use crate::codec::{PacketKind, Qos, ReasonCode};
use base::time::Now;
use model::machine::Outbox;
use model::topic::Publication;
use std::sync::Arc;

/// Order to a client that relays.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RelayOrder {
    /// Publish a message of QoS 1 or 2 under this identifier. Answered by [`RelayEvent::Taken`].
    Publish {
        /// Identifier that the source gave it; not 0.
        id: u16,
        /// The source sent it before (DUP): an earlier process may have published it.
        again: bool,
        /// The message.
        message: Arc<Publication>,
    },
    /// The source releases this identifier: PUBREL. Answered by [`RelayEvent::Completed`].
    Release {
        /// The identifier.
        id: u16,
    },
    /// The target has completed this identifier: PUBCOMP to the source.
    Complete {
        /// The identifier.
        id: u16,
    },
    /// The session of the source is lost: what was relayed of it is finished without it.
    Disown,
    /// Free every identifier at the server that is not in use here, before more is sent at QoS 1
    /// and 2, which waits for `Resume`. Answered by [`RelayEvent::Cleared`]; forgotten when the
    /// connection ends.
    Clear,
    /// Send messages of QoS 1 and 2 on this connection.
    Resume,
}

/// Event of a client that relays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RelayEvent {
    /// The target has a message (PUBACK or PUBREC), or will not have it.
    Taken {
        /// Its identifier.
        id: u16,
        /// Outcome at the target.
        result: Result<ReasonCode, Unpublished>,
    },
    /// The source has released an identifier (PUBREL).
    Released {
        /// The identifier.
        id: u16,
    },
    /// The target has completed an identifier (PUBCOMP).
    Completed {
        /// The identifier.
        id: u16,
    },
    /// The server has freed all identifiers that it was told to.
    Cleared,
}

/// PUBREL without an answer while identifiers are freed: a mosquitto that has more packets to send
/// than `max_queued_messages` (1,000 by default) drops messages.
const CLEARING_MAX: u16 = 256;

/// Identifiers that a server is freeing.
pub(super) struct Clearing {
    /// The last identifier for which PUBREL was sent.
    last: u16,
    /// PUBREL without an answer.
    unanswered: u16,
}

impl Client {
    /// Whether it passes on what is said between two sessions.
    pub(super) fn relays(&self) -> bool {
        self.profile.acks == PublishAckMode::Relayed
    }

    /// Whether messages of QoS 1 and 2 have to wait for [`RelayOrder::Resume`].
    pub(super) fn is_paused(&self) -> bool {
        self.relays() && !self.is_resumed
    }

    /// Whether a packet of this client that is not completed has the identifier.
    pub(super) fn is_used(&self, id: u16) -> bool {
        self.work.as_ref().is_some_and(|work| {
            work.outgoing.iter().any(|outgoing| outgoing.id == id)
                || work.asked.iter().any(|asked| asked.id == id)
        })
    }

    pub(super) fn relay<U: EventTranslator>(
        &mut self,
        now: Now,
        order: RelayOrder,
        out: &mut Outbox<U>,
    ) {
        let is_online = self.state == State::Online;
        match order {
            RelayOrder::Publish { id, again, message } => {
                self.relay_message(now, (id, again), message, out);
            }
            RelayOrder::Release { id } => self.relay_release(now, id, out),
            RelayOrder::Complete { id } => self.relay_complete(id, out),
            RelayOrder::Disown => self.disown(out),
            RelayOrder::Clear if is_online => {
                self.is_resumed = false;
                self.clear(now, out);
            }
            RelayOrder::Resume if is_online => {
                self.is_resumed = true;
                self.pump(now, out);
            }
            RelayOrder::Clear | RelayOrder::Resume => {}
        }
    }

    fn relay_message<U: EventTranslator>(
        &mut self,
        now: Now,
        (id, again): (u16, bool),
        message: Arc<Publication>,
        out: &mut Outbox<U>,
    ) {
        // The source has another message under the identifier: it will not speak of the former.
        self.disown_one(id, out);
        let next = Waiting { id, again, token: 0, message };
        if self.state == State::Online && self.has_room() && !self.is_used(id) {
            self.send_kept(now, next, out);
        } else {
            self.work().waiting.push_back(next);
        }
    }

    fn relay_release<U: EventTranslator>(&mut self, now: Now, id: u16, out: &mut Outbox<U>) {
        let version = self.profile.version;
        let is_online = self.state == State::Online;
        let is_sending = is_online && !self.is_paused();
        let work = self.work();
        let is_it = |it: &Outgoing| it.id == id && it.stage.is_relayed();
        let Some(at) = work.outgoing.iter().position(is_it) else {
            // Of an earlier process: the target knows whether it has to release anything.
            let (stage, qos) = (Stage::Ended, Qos::ExactlyOnce);
            let ended = Outgoing { id, qos, stage, token: 0, message: None };
            if is_sending {
                let at = work.outgoing.len() - work.unsent;
                work.outgoing.insert(at, ended);
                acknowledge(PacketKind::Pubrel, id, ReasonCode::Success, version, out);
            } else {
                work.outgoing.push_back(ended);
                work.unsent += 1;
            }
            return;
        };
        let is_sent = at < work.outgoing.len() - work.unsent;
        match work.outgoing[at].stage {
            Stage::Held => {
                work.outgoing[at].stage = Stage::Ended;
                if is_online && is_sent {
                    acknowledge(PacketKind::Pubrel, id, ReasonCode::Success, version, out);
                }
            }
            Stage::Relayed => {
                // It was told so by an earlier process: it asks for nothing more.
                self.disown_one(id, out);
                say(now, Heard::Relay(RelayEvent::Completed { id }), out);
            }
            _ => {}
        }
    }

    fn relay_complete<U>(&mut self, id: u16, out: &mut Outbox<U>) {
        if let Some(work) = &mut self.work {
            work.free(id);
        }
        // Without a connection the source says PUBREL again on the next.
        if self.state == State::Online {
            let version = self.profile.version;
            acknowledge(PacketKind::Pubcomp, id, ReasonCode::Success, version, out);
        }
    }

    fn disown<U>(&mut self, out: &mut Outbox<U>) {
        let all = self.work.iter().flat_map(|work| &work.outgoing);
        let ids: Vec<u16> = all.filter(|it| it.stage.is_relayed()).map(|it| it.id).collect();
        ids.into_iter().for_each(|id| self.disown_one(id, out));
        if let Some(work) = &mut self.work {
            work.waiting.iter_mut().for_each(|waiting| waiting.id = 0);
        }
    }

    /// A relayed message is from now on as if this client had published it.
    fn disown_one<U>(&mut self, id: u16, out: &mut Outbox<U>) {
        let version = self.profile.version;
        let is_online = self.state == State::Online;
        let Some(work) = &mut self.work else { return };
        let is_it = |it: &Outgoing| it.id == id && it.stage.is_relayed();
        let Some(at) = work.outgoing.iter().position(is_it) else { return };
        let is_sent = at < work.outgoing.len() - work.unsent;
        let outgoing = &mut work.outgoing[at];
        if outgoing.stage == Stage::Held && is_online && is_sent {
            acknowledge(PacketKind::Pubrel, id, ReasonCode::Success, version, out);
        }
        outgoing.stage = match outgoing.stage {
            Stage::Relayed => Stage::Sent,
            _ => Stage::Released,
        };
    }

    /// Begins to free identifiers.
    fn clear<U: EventTranslator>(&mut self, now: Now, out: &mut Outbox<U>) {
        self.work().clearing = Some(Clearing { last: 0, unanswered: 0 });
        (0..CLEARING_MAX).for_each(|_| self.clear_next(now, out));
    }

    /// The server has freed an identifier. Each answer makes room for one PUBREL, so that neither
    /// side waits for the other: a server without TCP_NODELAY sends its further answers when the
    /// first one is acknowledged, which takes 40 ms unless something is sent with it.
    pub(super) fn cleared<U: EventTranslator>(&mut self, now: Now, out: &mut Outbox<U>) {
        let clearing = self.work.as_mut().and_then(|work| work.clearing.as_mut());
        let Some(clearing) = clearing else { return };
        clearing.unanswered = clearing.unanswered.saturating_sub(1);
        self.clear_next(now, out);
    }

    /// Sends PUBREL for the next identifier that is not in use here.
    fn clear_next<U: EventTranslator>(&mut self, now: Now, out: &mut Outbox<U>) {
        let last = match self.work.as_ref().and_then(|work| work.clearing.as_ref()) {
            Some(clearing) => clearing.last,
            None => return,
        };
        let next = (last..=u16::MAX).skip(1).find(|&id| !self.is_used(id));
        let version = self.profile.version;
        let work = self.work();
        let Some(clearing) = &mut work.clearing else { return };
        clearing.last = next.unwrap_or(u16::MAX);
        match next {
            Some(id) => {
                clearing.unanswered += 1;
                acknowledge(PacketKind::Pubrel, id, ReasonCode::Success, version, out);
            }
            None if clearing.unanswered == 0 => {
                work.clearing = None;
                say(now, Heard::Relay(RelayEvent::Cleared), out);
            }
            None => {}
        }
    }

    /// The session of the target is lost. Messages that it has not answered are sent as new, under
    /// the same identifier; those it had taken are completed.
    pub(super) fn discard_relayed<U: EventTranslator>(
        &mut self,
        now: Now,
        lost: Vec<Outgoing>,
        out: &mut Outbox<U>,
    ) {
        for outgoing in lost.into_iter().rev() {
            let Outgoing { id, stage, message, .. } = outgoing;
            match (stage, message) {
                (Stage::Relayed, Some(message)) => {
                    let again = false;
                    self.work().waiting.push_front(Waiting { id, again, token: 0, message });
                }
                (Stage::Ended, _) => say(now, Heard::Relay(RelayEvent::Completed { id }), out),
                _ => {}
            }
        }
    }
}
