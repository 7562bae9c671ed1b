//! Publishing side of a client: identifiers, windows, aliases, and what is sent again.
//!
//! Messages of QoS 1 and 2 stand in the order in which they were first sent; those that were not
//! sent on this connection stand last. An identifier is in use as long as its message stands there,
//! so the next one is free unless it is that of the oldest.

use super::relay::RelayEvent;
use super::{Client, EventTranslator, Heard, State, Told, Unpublished, say};
use crate::codec::header::{varint_bytes, write_varint};
use crate::codec::publish::{first_byte, write_header};
use crate::codec::writer::write_binary;
use crate::codec::{PacketKind, Qos, ReasonCode, Unsent};
use base::time::Now;
use model::machine::Outbox;
use model::topic::Publication;
use std::sync::Arc;

/// A message that was sent and is not completed.
pub(super) struct Outgoing {
    pub id: u16,
    pub qos: Qos,
    pub stage: Stage,
    pub token: u32,
    /// Kept as long as it may have to be sent again.
    pub message: Option<Arc<Publication>>,
}

/// How far a message is that was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// The server has not said that it has it.
    Sent,
    /// The server has it, and is to release it.
    Released,
    /// The message is relayed, and the target has not said that it has it.
    Relayed,
    /// The target has it; the source has not released it.
    Held,
    /// The source has released it, and the target is to release it.
    Ended,
}

impl Stage {
    /// PUBREL is on its way, or is to be sent again.
    fn is_released(self) -> bool {
        matches!(self, Stage::Released | Stage::Ended)
    }

    /// Its steps are those of another session.
    pub fn is_relayed(self) -> bool {
        matches!(self, Stage::Relayed | Stage::Held | Stage::Ended)
    }
}

/// A message that was not sent yet.
pub(super) struct Waiting {
    /// The identifier that it has to have; 0: any.
    pub id: u16,
    /// Whether it is sent with DUP.
    pub again: bool,
    pub token: u32,
    pub message: Arc<Publication>,
}

/// A question without an answer.
pub(super) struct Asked {
    pub id: u16,
    pub token: u32,
    pub count: u16,
    pub kind: PacketKind,
}

/// A message that was received and not acknowledged.
pub(super) struct Incoming {
    pub id: u16,
    pub qos: Qos,
    pub token: u32,
    /// Whether it came on this connection, so that it can be acknowledged.
    pub is_here: bool,
    /// Reason code to answer with.
    pub answer: Option<ReasonCode>,
}

/// Parts of a PUBLISH.
#[derive(Clone, Copy)]
pub(super) struct Parts<'a> {
    pub qos: Qos,
    pub retain: bool,
    pub topic: &'a str,
    /// Encoded, without their length.
    pub properties: &'a [u8],
    /// Unix second at which it is over; 0: never.
    pub expire_at: u32,
    pub payload: &'a [u8],
}

impl<'a> Parts<'a> {
    pub fn of(message: &'a Publication) -> Parts<'a> {
        Parts {
            qos: message.qos,
            retain: message.retain,
            topic: message.topic(),
            properties: message.properties(),
            expire_at: message.expire_at,
            payload: message.payload(),
        }
    }
}

impl Client {
    /// A packet identifier that is not zero and not in use (MQTT5 2.2.1-3, MQTT3 2.3.1-2); `None`
    /// when all are.
    pub(super) fn take_id(&mut self) -> Option<u16> {
        if self.relays() {
            // Identifiers of another session are in use, in any order.
            let after = |id: u16| id.checked_add(1).unwrap_or(1);
            let all = std::iter::successors(Some(self.next_id), |&id| Some(after(id)));
            let id = all.take(usize::from(u16::MAX)).find(|&id| !self.is_used(id))?;
            self.next_id = after(id);
            return Some(id);
        }
        let id = self.next_id;
        let used = self.work.as_ref().is_some_and(|work| {
            work.outgoing.front().is_some_and(|oldest| oldest.id == id)
                || work.asked.front().is_some_and(|oldest| oldest.id == id)
        });
        if used {
            return None;
        }
        self.next_id = id.checked_add(1).unwrap_or(1);
        Some(id)
    }

    /// Messages that may be on their way (MQTT5 3.3.4-7).
    pub(super) fn window(&self) -> usize {
        usize::from(self.server.receive_max.min(self.profile.inflight_max).max(1))
    }

    /// Publishes a message, or has it wait.
    pub(super) fn publish<U: EventTranslator>(
        &mut self,
        now: Now,
        token: u32,
        message: Arc<Publication>,
        out: &mut Outbox<U>,
    ) -> Told {
        let qos = Parts::of(&message).qos;
        if qos == Qos::AtMostOnce {
            let result = match self.state {
                State::Online => self.send(now, token, &Parts::of(&message), || None, out),
                _ => Err(Unpublished::Offline),
            };
            let result = result.map(|()| ReasonCode::Success);
            say(now, Heard::Published { token, up_to: None, result }, out);
            return Ok(());
        }
        if self.state == State::Online && self.has_room() {
            self.send_kept(now, Waiting { id: 0, again: false, token, message }, out);
            return Ok(());
        }
        if self.work().waiting.len() >= self.profile.waiting_max as usize {
            let result = Err(Unpublished::QueueFull);
            say(now, Heard::Published { token, up_to: None, result }, out);
            return Ok(());
        }
        self.work().waiting.push_back(Waiting { id: 0, again: false, token, message });
        Ok(())
    }

    /// Whether a message of QoS 1 or 2 may be sent now.
    pub(super) fn has_room(&self) -> bool {
        if self.is_paused() {
            return false;
        }
        self.work.as_ref().is_none_or(|work| {
            work.unsent == 0
                && work.waiting.is_empty()
                && work.outgoing.len() < self.window()
                && (self.relays()
                    || work.outgoing.front().is_none_or(|oldest| oldest.id != self.next_id))
        })
    }

    pub(super) fn send_kept<U: EventTranslator>(
        &mut self,
        now: Now,
        next: Waiting,
        out: &mut Outbox<U>,
    ) {
        let Waiting { id, again, token, message } = next;
        let parts = Parts::of(&message);
        let kept = message.clone();
        if id == 0 {
            if let Err(why) = self.send(now, token, &parts, || Some(kept), out) {
                say(now, Heard::Published { token, up_to: None, result: Err(why) }, out);
            }
            return;
        }
        let sent = self.may_send(&parts).and_then(|()| self.write(now, &parts, (id, again), out));
        if let Err(why) = sent {
            let result = Err(why);
            return say(now, Heard::Relay(RelayEvent::Taken { id, result }), out);
        }
        let (qos, stage, message) = (parts.qos, Stage::Relayed, Some(kept));
        self.work().outgoing.push_back(Outgoing { id, qos, stage, token, message });
    }

    /// Whether the server takes such messages.
    fn may_send(&self, parts: &Parts<'_>) -> Result<(), Unpublished> {
        if parts.qos > self.server.qos_max {
            return Err(Unpublished::QosNotServed); // MQTT5 3.2.2-11
        }
        if parts.retain && !self.server.retains {
            return Err(Unpublished::RetainNotServed); // MQTT5 3.2.2-14
        }
        Ok(())
    }

    /// Sends a message for the first time.
    pub(super) fn send<U: EventTranslator>(
        &mut self,
        now: Now,
        token: u32,
        parts: &Parts<'_>,
        keep: impl FnOnce() -> Option<Arc<Publication>>,
        out: &mut Outbox<U>,
    ) -> Result<(), Unpublished> {
        self.may_send(parts)?;
        let before = self.next_id;
        let mut id = 0;
        if parts.qos != Qos::AtMostOnce {
            id = self.take_id().ok_or(Unpublished::QueueFull)?;
        }
        if let Err(why) = self.write(now, parts, (id, false), out) {
            self.next_id = before;
            return Err(why);
        }
        if parts.qos != Qos::AtMostOnce {
            let (qos, message) = (parts.qos, keep());
            let outgoing = Outgoing { id, qos, stage: Stage::Sent, token, message };
            let work = self.work();
            work.newest = token;
            work.outgoing.push_back(outgoing);
        }
        Ok(())
    }

    /// Writes a PUBLISH with this identifier and DUP.
    fn write<U>(
        &mut self,
        now: Now,
        parts: &Parts<'_>,
        (id, dup): (u16, bool),
        out: &mut Outbox<U>,
    ) -> Result<(), Unpublished> {
        let mut expiry_s = None;
        if parts.expire_at != 0 {
            let left = u64::from(parts.expire_at).saturating_sub(now.wall_ms / 1_000);
            // What was sent once does not expire any more (MQTT5 4.3.3-7).
            if left == 0 && !dup {
                return Err(Unpublished::Expired);
            }
            expiry_s = u32::try_from(left).ok();
        }
        let (alias, known) = self.alias_of(parts.topic);
        let topic = if known { "" } else { parts.topic };
        let terms = self.terms();
        let mut own = Vec::new();
        let mut remaining = 2 + topic.len() + parts.payload.len();
        remaining += if id == 0 { 0 } else { 2 };
        if terms.version.has_properties() {
            if let Some(seconds) = expiry_s {
                own.push(0x02);
                own.extend_from_slice(&seconds.to_be_bytes());
            }
            if alias != 0 {
                own.push(0x23);
                own.extend_from_slice(&alias.to_be_bytes());
            }
            let bytes = own.len() + parts.properties.len();
            remaining += varint_bytes(bytes as u32) + bytes;
        }
        let bytes = out.bytes();
        let unsent = |_: Unsent| Unpublished::TooLarge;
        write_header(first_byte(parts.qos, dup, parts.retain), remaining, &terms, bytes)
            .map_err(unsent)?;
        write_binary(topic.as_bytes(), bytes).map_err(unsent)?;
        if id != 0 {
            bytes.extend_from_slice(&id.to_be_bytes());
        }
        if terms.version.has_properties() {
            write_varint((own.len() + parts.properties.len()) as u32, bytes);
            bytes.extend_from_slice(&own);
            bytes.extend_from_slice(parts.properties);
        }
        bytes.extend_from_slice(parts.payload);
        if alias != 0 && !known {
            self.work().aliases_out.push(parts.topic.into());
        }
        Ok(())
    }

    /// The alias of a topic, and whether the server knows it; 0: it has none. The first topics have
    /// one, up to what both sides take (MQTT5 3.2.2-17, 3.2.2-18, 3.3.2-9).
    fn alias_of(&self, topic: &str) -> (u16, bool) {
        let most = self.server.alias_max.min(self.profile.alias_out_max);
        if most == 0 {
            return (0, false);
        }
        let known = self.work.as_ref().map_or(&[][..], |work| &work.aliases_out);
        match known.iter().position(|known| **known == *topic) {
            Some(at) => (at as u16 + 1, true),
            None if known.len() < usize::from(most) => (known.len() as u16 + 1, false),
            None => (0, false),
        }
    }

    /// Sends what there is room for: first what is to be sent again (MQTT5 4.4.0-1, MQTT3 4.4.0-1),
    /// in the order in which it was sent (MQTT5 4.6.0-1), then what waits.
    pub(super) fn pump<U: EventTranslator>(&mut self, now: Now, out: &mut Outbox<U>) {
        if self.is_paused() {
            return;
        }
        let (window, relays) = (self.window(), self.relays());
        while let Some(work) = &mut self.work {
            let on_wire = work.outgoing.len() - work.unsent;
            if on_wire >= window {
                return;
            }
            if work.unsent > 0 {
                work.unsent -= 1;
                self.send_again(now, on_wire, out);
                continue;
            }
            let oldest = work.outgoing.front().map(|oldest| oldest.id);
            if !relays && oldest == Some(self.next_id) {
                return;
            }
            let Some(id) = work.waiting.front().map(|next| next.id) else { return };
            if id != 0 && self.is_used(id) {
                return;
            }
            let Some(next) = self.work().waiting.pop_front() else { return };
            self.send_kept(now, next, out);
        }
    }

    fn send_again<U: EventTranslator>(&mut self, now: Now, at: usize, out: &mut Outbox<U>) {
        let Some(work) = &self.work else { return };
        let outgoing = &work.outgoing[at];
        let (id, token) = (outgoing.id, outgoing.token);
        if outgoing.stage.is_released() {
            acknowledge(PacketKind::Pubrel, id, ReasonCode::Success, self.terms().version, out);
            return;
        }
        let Some(message) = outgoing.message.clone() else { return };
        let sent = self.write(now, &Parts::of(&message), (id, true), out);
        if let Err(why) = sent {
            let lost = self.work().outgoing.remove(at);
            let result = Err(why);
            let is_relayed = lost.is_some_and(|lost| lost.stage.is_relayed());
            let heard = match is_relayed {
                true => Heard::Relay(RelayEvent::Taken { id, result }),
                false => Heard::Published { token, up_to: None, result },
            };
            say(now, heard, out);
        }
    }

    /// PUBACK, PUBREC or PUBCOMP of a message that was sent.
    pub(super) fn settled<U: EventTranslator>(
        &mut self,
        now: Now,
        kind: PacketKind,
        (id, reason): (u16, ReasonCode),
        out: &mut Outbox<U>,
    ) {
        let version = self.profile.version;
        let work = self.work.get_or_insert_default();
        let fits = |outgoing: &Outgoing| match kind {
            PacketKind::Puback => outgoing.qos == Qos::AtLeastOnce,
            PacketKind::Pubrec => outgoing.qos == Qos::ExactlyOnce,
            _ => outgoing.stage.is_released(),
        };
        let is_it = |outgoing: &Outgoing| outgoing.id == id && fits(outgoing);
        let Some(at) = work.outgoing.iter().position(is_it) else {
            match kind {
                PacketKind::Pubrec => {
                    acknowledge(PacketKind::Pubrel, id, ReasonCode::PacketIdNotFound, version, out);
                }
                PacketKind::Pubcomp => self.cleared(now, out),
                _ => {}
            }
            return;
        };
        if kind == PacketKind::Pubrec && !reason.is_failure() {
            let outgoing = &mut work.outgoing[at];
            outgoing.message = None; // it is the server's now
            match outgoing.stage {
                Stage::Relayed => {
                    outgoing.stage = Stage::Held;
                    say(now, Heard::Relay(RelayEvent::Taken { id, result: Ok(reason) }), out);
                }
                Stage::Held => {}
                stage => {
                    outgoing.stage = if stage == Stage::Sent { Stage::Released } else { stage };
                    acknowledge(PacketKind::Pubrel, id, ReasonCode::Success, version, out);
                }
            }
            return;
        }
        if at >= work.outgoing.len() - work.unsent {
            work.unsent -= 1;
        }
        let Some(outgoing) = work.outgoing.remove(at) else { return };
        let token = outgoing.token;
        let up_to = (at == 0).then(|| match work.outgoing.front() {
            Some(oldest) => oldest.token.wrapping_sub(1),
            None => work.newest,
        });
        let is_failure = reason.is_failure() && kind != PacketKind::Pubcomp;
        let result = if is_failure { Err(Unpublished::Refused(reason)) } else { Ok(reason) };
        let heard = match outgoing.stage {
            Stage::Sent | Stage::Released => Heard::Published { token, up_to, result },
            Stage::Relayed | Stage::Held => Heard::Relay(RelayEvent::Taken { id, result }),
            Stage::Ended => Heard::Relay(RelayEvent::Completed { id }),
        };
        say(now, heard, out);
        self.pump(now, out);
    }

    /// The session is over: nothing of it is known any more (MQTT5 3.2.2-5). Messages that were not
    /// sent go on waiting.
    pub(super) fn discard_session<U: EventTranslator>(&mut self, now: Now, out: &mut Outbox<U>) {
        let Some(work) = &mut self.work else { return };
        work.unsent = 0;
        work.releasing.clear();
        work.releasing_before = 0;
        work.incoming.clear();
        work.asked.clear();
        let all = std::mem::take(&mut work.outgoing).into_iter();
        let (relayed, own) = all.partition::<Vec<_>, _>(|it| it.stage.is_relayed());
        self.discard_relayed(now, relayed, out);
        for outgoing in own {
            let (token, message) = (outgoing.token, outgoing.message);
            match outgoing.stage.is_released() {
                // The server has taken it; that was its promise.
                true => {
                    let result = Ok(ReasonCode::Success);
                    say(now, Heard::Published { token, up_to: None, result }, out);
                }
                false => say(now, Heard::Lost { token, message }, out),
            }
        }
    }
}

/// Appends one of the four acknowledgements; before 5.0 without a reason. They are the smallest
/// packets there are, and no server refuses them for their size.
pub(super) fn acknowledge<U>(
    kind: PacketKind,
    id: u16,
    reason: ReasonCode,
    version: crate::codec::Version,
    out: &mut Outbox<U>,
) {
    let [high, low] = id.to_be_bytes();
    match reason {
        ReasonCode::Success => {
            out.bytes().extend_from_slice(&[kind.first_byte(), 2, high, low]);
        }
        _ if !version.has_properties() => {
            out.bytes().extend_from_slice(&[kind.first_byte(), 2, high, low]);
        }
        _ => {
            let code = reason.number();
            out.bytes().extend_from_slice(&[kind.first_byte(), 3, high, low, code]);
        }
    }
}
