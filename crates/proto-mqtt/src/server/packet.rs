//! Packets of a client whose session is bound (MQTT5 3.3 to 3.15, MQTT3 3.3 to 3.14).
//!
//! Each is checked against the state of the connection and becomes a word for the broker; what
//! belongs to the session (identifiers in use, subscriptions) is the broker's to judge.

use super::connect::proceed;
use super::state::{AuthStep, Bound, Marks};
use super::{End, Out, tolerated};
use crate::codec::ack::Ack;
use crate::codec::auth::{Auth, Disconnect};
use crate::codec::subscribe::{self as wire, RetainHandling as Wished};
use crate::codec::{DecodeRules, DecodeStep, Packet, PacketFault, PacketKind, ReasonCode, decode};
use base::time::Now;
use model::close::CloseReason;
use model::machine::Input;
use model::session::{AckStep, SessionRequest, SubscribeRequest, UnsubscribeRequest};
use model::topic::{RetainHandling, SubscriptionOptions};

impl Bound {
    /// Takes as many packets as there are and may come.
    pub(super) fn receive(
        &mut self,
        now: Now,
        input: &mut Input<'_>,
        out: &mut Out,
    ) -> Result<(), CloseReason> {
        let rules = self.marks.rules(input.limits);
        loop {
            match self.step(now, &rules, input, out) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(End::Close(reason)) => return Err(reason),
                Err(End::Fault(fault)) => {
                    self.write_fault(fault, out);
                    return Err(fault.close_reason());
                }
            }
        }
    }

    /// Takes one packet; false when there is no whole one, or it has to wait.
    fn step(
        &mut self,
        now: Now,
        rules: &DecodeRules,
        input: &mut Input<'_>,
        out: &mut Out,
    ) -> Result<bool, End> {
        let rest = input.rest();
        let Some(first) = rest.first().filter(|_| !self.is_held()) else { return Ok(false) };
        if first >> 4 == PacketKind::Connect.number() {
            return Err(PacketFault::SecondConnect.into());
        }
        let DecodeStep::Packet { packet, bytes, tolerated: passed } = decode(rest, rules)? else {
            return Ok(false);
        };
        if let Packet::Publish(publish) = &packet
            && !self.publish(now, publish, bytes, &input.limits.topics, out)?
        {
            return Ok(false);
        }
        let filters = match &packet {
            Packet::Subscribe(packet) => packet.subscriptions.iter().count(),
            Packet::Unsubscribe(packet) => packet.filters.iter().count(),
            _ => 0,
        };
        if filters > 0 && !self.paces_filters(now, filters, &input.limits.topics, out) {
            return Ok(false);
        }
        input.take(bytes);
        out.packets(1, 0);
        tolerated(passed, out);
        let session = self.session;
        match packet {
            Packet::Publish(_) => {}
            Packet::Puback(ack) => self.acked(&ack, AckStep::Puback(ack.reason.is_failure()), out),
            Packet::Pubrec(ack) => self.acked(&ack, AckStep::Pubrec(ack.reason.is_failure()), out),
            Packet::Pubcomp(ack) => self.acked(&ack, AckStep::Pubcomp, out),
            Packet::Pubrel(ack) => say(SessionRequest::Release { session, id: ack.id }, out),
            Packet::Subscribe(packet) => self.subscribe(&packet, out),
            Packet::Unsubscribe(packet) => self.unsubscribe(&packet, out),
            Packet::Pingreq => {
                out.bytes().extend_from_slice(&[PacketKind::Pingresp.first_byte(), 0]);
                out.packets(0, 1);
                out.beat();
            }
            Packet::Disconnect(farewell) => return self.leave(&farewell, out),
            Packet::Auth(auth) => self.authenticate(&auth, out)?,
            // The codec takes none of these from a client.
            Packet::Connect(_)
            | Packet::Connack(_)
            | Packet::Suback(_)
            | Packet::Unsuback(_)
            | Packet::Pingresp => return Err(PacketFault::WrongDirection.into()),
        }
        Ok(true)
    }

    fn acked(&self, ack: &Ack<'_>, step: AckStep, out: &mut Out) {
        say(SessionRequest::Acked { session: self.session, id: ack.id, step }, out);
    }

    fn subscribe(&self, packet: &wire::Subscribe<'_>, out: &mut Out) {
        let wishes = packet.subscriptions.iter().map(|(filter, options)| SubscriptionOptions {
            filter: filter.into(),
            qos: options.qos,
            no_local: options.no_local,
            retain_as_published: options.retain_as_published,
            retain_handling: match options.retain_handling {
                Wished::Always => RetainHandling::Send,
                Wished::WhenNew => RetainHandling::SendIfNew,
                Wished::Never => RetainHandling::DoNotSend,
            },
        });
        let subscription_id = packet.properties.subscription_ids().next();
        let (session, id, wishes) = (self.session, packet.id, wishes.collect());
        let words = SubscribeRequest { session, id, subscription_id, wishes };
        say(SessionRequest::Subscribe(Box::new(words)), out);
    }

    fn unsubscribe(&self, packet: &wire::Unsubscribe<'_>, out: &mut Out) {
        let filters = packet.filters.iter().map(Into::into).collect();
        let words = UnsubscribeRequest { session: self.session, id: packet.id, filters };
        say(SessionRequest::Unsubscribe(Box::new(words)), out);
    }

    /// A farewell. Only the plain one discards the will (MQTT5 3.14.4-3); a session that was to
    /// end with its connection cannot be given time by it (MQTT5 3.14.2.2.2).
    fn leave(&mut self, farewell: &Disconnect<'_>, out: &mut Out) -> Result<bool, End> {
        let expiry_s = farewell.properties.session_expiry();
        if self.marks.has(Marks::ENDS) && expiry_s.is_some_and(|seconds| seconds != 0) {
            return Err(PacketFault::ExpiryFromZero.into());
        }
        self.tell_dropped(out);
        let with_will = farewell.reason != ReasonCode::Success;
        say(SessionRequest::Leave { session: self.session, with_will, expiry_s }, out);
        Err(End::Close(CloseReason::Unbound))
    }

    /// A new authentication, or a step of it (MQTT5 4.12.1).
    fn authenticate(&mut self, auth: &Auth<'_>, out: &mut Out) -> Result<(), PacketFault> {
        let more = self.more.as_mut().ok_or(PacketFault::AuthUnasked)?;
        let method = more.method.as_deref().ok_or(PacketFault::AuthUnasked)?;
        let expected = match more.step {
            AuthStep::Idle => Some(ReasonCode::ReAuthenticate),
            AuthStep::Challenged => Some(ReasonCode::ContinueAuthentication),
            AuthStep::Asked => None,
        };
        if Some(auth.reason) != expected || auth.properties.auth_method() != Some(method) {
            return Err(PacketFault::AuthOrder);
        }
        more.step = AuthStep::Asked;
        say(proceed(Some(self.session), auth), out);
        Ok(())
    }
}

fn say(word: SessionRequest, out: &mut Out) {
    out.say(word);
}
