//! Answers of the broker to a client whose session is bound, in packets of its version.
//!
//! An end is a DISCONNECT in 5.0; before, the connection just ends (MQTT3 4.8.0-1).

use super::connect::{told, write_auth};
use super::state::{AuthStep, Bound};
use super::{Out, denial};
use crate::codec::ack::{Ack, Reasons, Suback};
use crate::codec::auth::Disconnect;
use crate::codec::block::{Block, Properties};
use crate::codec::property::Property;
use crate::codec::{Packet, PacketFault, PacketKind, Qos, ReasonCode, Sender, Version};
use base::time::Now;
use model::close::CloseReason;
use model::session::{Denial, Denied, Routed, SessionDelivery};

impl Bound {
    /// Carries out what the broker said.
    pub(super) fn tell(
        &mut self,
        now: Now,
        word: SessionDelivery,
        out: &mut Out,
    ) -> Result<(), CloseReason> {
        match word {
            SessionDelivery::Publish(outgoing) => self.deliver(now, &outgoing, out),
            SessionDelivery::Taken { id, qos, result } => return self.taken(id, qos, result, out),
            SessionDelivery::Release { id, unknown } => {
                self.write(&Packet::Pubrel(about(id, unknown)), out);
            }
            SessionDelivery::Completed { id, unknown } => {
                self.write(&Packet::Pubcomp(about(id, unknown)), out);
                // What was not known was not counted either.
                if !unknown && self.is_counted_to_the_end() {
                    self.answered(out);
                }
            }
            SessionDelivery::Subscribed { id, results } => self.subscribed(id, &results, out),
            SessionDelivery::Unsubscribed { id, results } => self.unsubscribed(id, &results, out),
            SessionDelivery::Challenge { method, data } => {
                self.set_step(AuthStep::Challenged);
                let reason = ReasonCode::ContinueAuthentication;
                write_auth(reason, &method, &data, &self.terms(), out);
            }
            SessionDelivery::Authenticated { method, data } => {
                self.set_step(AuthStep::Idle);
                write_auth(ReasonCode::Success, &method, &data, &self.terms(), out);
            }
            SessionDelivery::Refused(denied) | SessionDelivery::End(denied) => {
                self.write_end(&denied, out);
                return Err(denied.reason);
            }
            SessionDelivery::Call(_) | SessionDelivery::Device(_) => {
                return Err(super::unexpected("what the roof gives to chat"));
            }
            SessionDelivery::Connected(_) => return Err(super::unexpected("Connected twice")),
        }
        Ok(())
    }

    /// The broker has a message of the client's, or not (MQTT5 3.4.2.1, 3.5.2.1). Before 5.0 a
    /// refusal cannot be said: where the next try may be taken, the connection ends without an
    /// acknowledgement, so that the client sends the message again (MQTT3 3.3.5-2).
    fn taken(
        &mut self,
        id: u16,
        qos: Qos,
        result: Result<Routed, Denial>,
        out: &mut Out,
    ) -> Result<(), CloseReason> {
        if !self.version().has_properties() {
            match result {
                Err(Denial::StoreFull | Denial::StoreFailed) => return Err(CloseReason::Full),
                Err(Denial::Busy) => return Err(CloseReason::Busy),
                _ => {}
            }
        }
        let is_last = qos == Qos::AtLeastOnce || result.is_err() || !self.is_counted_to_the_end();
        let kind = match qos {
            Qos::ExactlyOnce => PacketKind::Pubrec,
            Qos::AtMostOnce | Qos::AtLeastOnce => PacketKind::Puback,
        };
        let reason = match result {
            Ok(Routed::Matched) => ReasonCode::Success,
            Ok(Routed::NoSubscriber) => ReasonCode::NoMatchingSubscribers,
            Err(why) => denial::code(why, kind),
        };
        let ack = Ack { reason, ..Ack::of(id) };
        if ack.write(kind, &self.terms(), out.bytes()).is_ok() {
            out.packets(0, 1);
        }
        if is_last {
            self.answered(out);
        }
        Ok(())
    }

    fn subscribed(&self, id: u16, results: &[Result<Qos, Denial>], out: &mut Out) {
        let code = |result: &Result<Qos, Denial>| match result {
            Ok(qos) => *qos as u8,
            Err(why) => denial::code(*why, PacketKind::Suback).number(),
        };
        let codes: Vec<u8> = results.iter().map(code).collect();
        let properties = Properties::default();
        let suback = Suback { id, properties, reasons: Reasons::over(&codes) };
        self.write(&Packet::Suback(suback), out);
    }

    fn unsubscribed(&self, id: u16, results: &[Result<bool, Denial>], out: &mut Out) {
        let code = |result: &Result<bool, Denial>| match result {
            Ok(true) => ReasonCode::Success,
            Ok(false) => ReasonCode::NoSubscriptionExisted,
            Err(why) => denial::code(*why, PacketKind::Unsuback),
        };
        let codes: Vec<u8> = results.iter().map(|result| code(result).number()).collect();
        let properties = Properties::default();
        let unsuback = Suback { id, properties, reasons: Reasons::over(&codes) };
        self.write(&Packet::Unsuback(unsuback), out);
    }

    fn set_step(&mut self, step: AuthStep) {
        if let Some(more) = &mut self.more {
            more.step = step;
        }
    }

    /// Tells the client why the connection ends.
    pub(super) fn write_end(&self, denied: &Denied, out: &mut Out) {
        let reason = denial::code(denied.why, PacketKind::Disconnect);
        self.write_disconnect(reason, &told(denied), out);
    }

    /// Tells the client what was wrong with what it sent (MQTT5 4.13.1).
    pub(super) fn write_fault(&self, fault: PacketFault, out: &mut Out) {
        let mut block = Block::default();
        let _ = block.push(Property::ReasonString(fault.meaning())); // it is a short sentence
        self.write_disconnect(fault.code(), &block, out);
    }

    /// Tells the client that it was silent for too long (MQTT5 3.14.2.1, 0x8d).
    pub(super) fn write_silence(&self, out: &mut Out) {
        self.write_disconnect(ReasonCode::KeepAliveTimeout, &Block::default(), out);
    }

    fn write_disconnect(&self, reason: ReasonCode, block: &Block, out: &mut Out) {
        if self.version() == Version::V5 {
            let properties = block.properties();
            self.write(&Packet::Disconnect(Disconnect { reason, properties }), out);
        }
    }

    /// Appends a packet; one that is above what the client takes is not sent (MQTT5 3.1.2-24).
    fn write(&self, packet: &Packet<'_>, out: &mut Out) {
        if packet.write(Sender::Server, &self.terms(), out.bytes()).is_ok() {
            out.packets(0, 1);
        }
    }
}

/// PUBREL or PUBCOMP.
fn about(id: u16, unknown: bool) -> Ack<'static> {
    let reason = if unknown { ReasonCode::PacketIdNotFound } else { ReasonCode::Success };
    Ack { reason, ..Ack::of(id) }
}
