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
//! exchange is passed on when it has come. What has happened to a message is therefore known by the
//! sessions of both brokers, which outlive this process: after a restart the source repeats
//! PUBLISH or PUBREL, and the target knows the identifier (MQTT5 4.3.3, 4.4.0-1).
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
        /// What became of it.
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

/// Identifiers that a server is told to free at once: a mosquitto that has more packets to send
/// than `max_queued_messages` (1,000 by default) drops messages.
const CLEARED_AT_ONCE: usize = 256;

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
                self.clear_ids(now, 0, out);
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

    /// Frees the next identifiers behind this one. The last stands among what is under way until
    /// its PUBCOMP has come.
    pub(super) fn clear_ids<U: EventTranslator>(
        &mut self,
        now: Now,
        behind: u16,
        out: &mut Outbox<U>,
    ) {
        let version = self.profile.version;
        let free = (behind..=u16::MAX).skip(1).filter(|&id| !self.is_used(id));
        let free: Vec<u16> = free.take(CLEARED_AT_ONCE).collect();
        for &id in &free {
            acknowledge(PacketKind::Pubrel, id, ReasonCode::Success, version, out);
        }
        let Some(&id) = free.last() else {
            return say(now, Heard::Relay(RelayEvent::Cleared), out);
        };
        let (stage, qos) = (Stage::Cleared, Qos::ExactlyOnce);
        let work = self.work();
        let at = work.outgoing.len() - work.unsent;
        work.outgoing.insert(at, Outgoing { id, qos, stage, token: 0, message: None });
    }

    /// The session of the target is lost. What it has not answered is sent as new, under the same
    /// identifier; what it had taken is completed.
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
