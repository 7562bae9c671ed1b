//! Receiving side of a client.

use super::relay::RelayEvent;
use super::send::{Incoming, acknowledge};
use super::{Client, End, EventTranslator, Heard, PublishAckMode, Server, State, Told, say};
use crate::codec::connack::Connack;
use crate::codec::fault::PacketFault;
use crate::codec::publish::Publish;
use crate::codec::{
    DecodeRules, DecodeStep, FaultSet, Packet, PacketKind, Qos, ReasonCode, Sender, Version, decode,
};
use base::time::Now;
use model::close::CloseReason;
use model::machine::{Input, Outbox};

impl Client {
    fn rules(&self) -> DecodeRules {
        let rules = DecodeRules::strict(Sender::Server, self.profile.version);
        // A client has no use for a quarrel over trailing bytes or needlessly long lengths.
        let tolerate = FaultSet::of(&[PacketFault::Trailing, PacketFault::LengthNotShortest]);
        DecodeRules { packet_bytes_max: self.profile.packet_bytes_max, tolerate, ..rules }
    }

    /// Takes every whole packet.
    pub(super) fn packets<U: EventTranslator>(
        &mut self,
        now: Now,
        input: &mut Input<'_>,
        out: &mut Outbox<U>,
    ) -> Told {
        let rules = self.rules();
        loop {
            match decode(input.rest(), &rules)? {
                DecodeStep::More(_) => return Ok(()),
                DecodeStep::Packet { packet, bytes, .. } => {
                    input.take(bytes);
                    self.packet(now, &packet, out)?;
                }
            }
        }
    }

    fn packet<U: EventTranslator>(
        &mut self,
        now: Now,
        packet: &Packet<'_>,
        out: &mut Outbox<U>,
    ) -> Told {
        match (self.state, packet) {
            (State::Asking, Packet::Connack(connack)) => return self.connack(now, connack, out),
            (State::Asking | State::Online, Packet::Auth(auth)) => {
                let method = self.profile.method.as_ref().map(|(method, _)| &**method);
                if method.is_none() || auth.properties.auth_method() != method {
                    return Err(End::out_of_order());
                }
                let data = auth.properties.auth_data().unwrap_or_default();
                match auth.reason {
                    ReasonCode::Success if self.state == State::Online => {
                        say(now, Heard::Authenticated { data }, out);
                    }
                    ReasonCode::ContinueAuthentication => say(now, Heard::Challenge { data }, out),
                    _ => return Err(End::out_of_order()),
                }
            }
            (State::Asking | State::Online, Packet::Disconnect(disconnect)) => {
                let (reason, properties) = (disconnect.reason, disconnect.properties);
                say(now, Heard::Disconnected { reason, properties }, out);
                return Err(End::silent(ended_by(reason)));
            }
            (State::Online, packet) => return self.packet_online(now, packet, out),
            (State::Out | State::Idle, _) => {}
            _ => return Err(End::out_of_order()),
        }
        Ok(())
    }

    fn packet_online<U: EventTranslator>(
        &mut self,
        now: Now,
        packet: &Packet<'_>,
        out: &mut Outbox<U>,
    ) -> Told {
        let kind = packet.kind();
        match packet {
            Packet::Publish(publish) => self.message(now, publish, out)?,
            Packet::Puback(ack) | Packet::Pubrec(ack) | Packet::Pubcomp(ack) => {
                self.settled(now, kind, (ack.id, ack.reason), out);
            }
            Packet::Pubrel(ack) => self.release(now, ack.id, out),
            Packet::Suback(answer) | Packet::Unsuback(answer) => {
                self.answered(now, kind, answer, out)?;
            }
            Packet::Pingresp => {
                self.pinging = false;
                say(now, Heard::Pong, out);
            }
            _ => return Err(End::out_of_order()),
        }
        Ok(())
    }

    fn connack<U: EventTranslator>(
        &mut self,
        now: Now,
        connack: &Connack<'_>,
        out: &mut Outbox<U>,
    ) -> Told {
        let (reason, properties) = (connack.reason, connack.properties);
        if reason.is_failure() {
            let is_new = self.profile.version.has_properties();
            let told = if is_new { None } else { reason.return_code() };
            let code = told.unwrap_or(reason.number());
            say(now, Heard::Refused { reason, code, properties }, out);
            return Err(End::silent(refused_by(reason)));
        }
        let session_present = connack.session_present;
        if session_present && self.starts_clean() {
            return Err(End::out_of_order()); // MQTT5 3.2.2-4
        }
        self.server = Server {
            packet_bytes_max: properties
                .maximum_packet_size()
                .map_or(Server::default().packet_bytes_max, |bytes| bytes),
            receive_max: properties.receive_maximum().unwrap_or(Server::default().receive_max),
            alias_max: properties.topic_alias_maximum().unwrap_or_default(),
            // MQTT5 3.1.2-21, 3.2.2-21
            keep_alive_s: properties.server_keep_alive().unwrap_or(self.profile.keep_alive_s),
            qos_max: properties.maximum_qos().and_then(Qos::of).unwrap_or(Qos::ExactlyOnce),
            retains: properties.retain_available() != Some(0),
        };
        self.state = State::Online;
        self.again = true;
        let keep_alive_s = self.server.keep_alive_s;
        let is_watched = self.profile.beats && keep_alive_s != 0;
        let grace_ms = u32::from(keep_alive_s) * 1_000 + (u32::from(keep_alive_s) * 500).max(5_000);
        out.silence(if is_watched { grace_ms } else { 0 });
        say(now, Heard::Connected { session_present, keep_alive_s, properties }, out);
        if session_present {
            if let Some(work) = &mut self.work {
                // Not here until the server has sent it again.
                work.incoming.iter_mut().for_each(|incoming| incoming.is_here = false);
                work.releasing_before = work.releasing.len();
            }
        } else {
            self.discard_session(now, out); // MQTT5 3.2.2-5
            self.want(true, out)?;
        }
        self.pump(now, out);
        self.beat(now, out)
    }

    /// A message (MQTT5 4.3). A message that has come before at QoS 2 is only acknowledged again.
    fn message<U: EventTranslator>(
        &mut self,
        now: Now,
        publish: &Publish<'_>,
        out: &mut Outbox<U>,
    ) -> Told {
        let topic = self.topic_of(publish)?;
        let topic = topic.as_deref().unwrap_or(publish.topic);
        let (id, version) = (publish.id, self.profile.version);
        if publish.qos == Qos::AtMostOnce {
            say(now, Heard::Message { token: 0, topic, publish }, out);
            return Ok(());
        }
        if let Some(work) = &mut self.work {
            if work.releasing.contains(&id) {
                acknowledge(PacketKind::Pubrec, id, ReasonCode::Success, version, out);
                return Ok(());
            }
            if let Some(known) = work.incoming.iter_mut().find(|known| known.id == id)
                && (publish.dup || publish.qos == Qos::ExactlyOnce)
            {
                known.is_here = true;
                self.flush(out);
                return Ok(());
            }
            if !publish.dup {
                // The server sends again first: what it has not, it will not.
                work.incoming.retain(|incoming| incoming.is_here);
            }
            let open = work.incoming.len() + work.releasing.len() - work.releasing_before;
            let is_strict = version == Version::V5 && !self.profile.bears_more;
            if is_strict && open >= usize::from(self.profile.receive_max) {
                return Err(PacketFault::ReceiveMaximum.into());
            }
        }
        self.token = if self.relays() { id.into() } else { self.token.wrapping_add(1) };
        let (token, qos) = (self.token, publish.qos);
        say(now, Heard::Message { token, topic, publish }, out);
        match (self.profile.acks, qos) {
            (PublishAckMode::AtOnce, Qos::AtLeastOnce) => {
                acknowledge(PacketKind::Puback, id, ReasonCode::Success, version, out);
            }
            (PublishAckMode::AtOnce, _) => {
                self.work().releasing.push(id);
                acknowledge(PacketKind::Pubrec, id, ReasonCode::Success, version, out);
            }
            (PublishAckMode::Relayed, _) => {
                let incoming = Incoming { id, qos, token, is_here: true, answer: None };
                self.work().incoming.push_back(incoming);
            }
            (PublishAckMode::Never, _) => {}
        }
        Ok(())
    }

    /// The topic that an alias stands for; `None`: the packet has it (MQTT5 3.3.2-7, 3.3.2-10).
    fn topic_of(&mut self, publish: &Publish<'_>) -> Result<Option<Box<str>>, End> {
        let Some(alias) = publish.topic_alias() else { return Ok(None) };
        if alias == 0 || alias > self.profile.alias_max {
            return Err(End {
                code: Some(ReasonCode::TopicAliasInvalid),
                reason: CloseReason::Malformed,
            });
        }
        let at = usize::from(alias) - 1;
        let aliases = &mut self.work().aliases_in;
        if publish.topic.is_empty() {
            let known = aliases.get(at).filter(|topic| !topic.is_empty());
            return known.cloned().map(Some).ok_or(PacketFault::AliasUnknown.into());
        }
        if aliases.len() <= at {
            aliases.resize(at + 1, Box::default());
        }
        aliases[at] = publish.topic.into();
        Ok(None)
    }

    /// PUBREL: the identifier is free (MQTT5 4.3.3-11).
    fn release<U: EventTranslator>(&mut self, now: Now, id: u16, out: &mut Outbox<U>) {
        if self.relays() {
            return say(now, Heard::Relay(RelayEvent::Released { id }), out);
        }
        let reason = match self.work.as_mut().is_some_and(|work| work.free(id)) {
            true => ReasonCode::Success,
            false => ReasonCode::PacketIdNotFound,
        };
        acknowledge(PacketKind::Pubcomp, id, reason, self.profile.version, out);
    }

    /// A message that was received is done with.
    pub(super) fn acknowledge<U: EventTranslator>(
        &mut self,
        token: u32,
        reason: ReasonCode,
        out: &mut Outbox<U>,
    ) {
        let Some(work) = &mut self.work else { return };
        let found = work.incoming.iter_mut().find(|incoming| incoming.token == token);
        let Some(incoming) = found else { return };
        incoming.answer = Some(reason);
        if self.state == State::Online {
            self.flush(out);
        }
    }

    /// Sends what can be sent, in the order of the messages (MQTT5 4.6.0-2, 4.6.0-3).
    fn flush<U: EventTranslator>(&mut self, out: &mut Outbox<U>) {
        let version = self.profile.version;
        let Some(work) = &mut self.work else { return };
        while let Some(front) = work.incoming.front()
            && let (true, Some(reason)) = (front.is_here, front.answer)
        {
            let (id, qos) = (front.id, front.qos);
            work.incoming.pop_front();
            let kind = match qos {
                Qos::ExactlyOnce => PacketKind::Pubrec,
                _ => PacketKind::Puback,
            };
            acknowledge(kind, id, reason, version, out);
            if qos == Qos::ExactlyOnce && (!reason.is_failure() || version != Version::V5) {
                work.releasing.push(id);
            }
        }
    }
}

/// How a connection ended that the server said farewell to.
fn ended_by(reason: ReasonCode) -> CloseReason {
    match reason {
        ReasonCode::SessionTakenOver => CloseReason::Replaced,
        ReasonCode::ServerShuttingDown => CloseReason::Draining,
        ReasonCode::AdministrativeAction => CloseReason::AdminKick,
        ReasonCode::ServerBusy | ReasonCode::ConnectionRateExceeded => CloseReason::Busy,
        ReasonCode::UseAnotherServer | ReasonCode::ServerMoved => CloseReason::Redirected,
        ReasonCode::KeepAliveTimeout => CloseReason::KeepAliveTimeout,
        _ => CloseReason::Unbound,
    }
}

/// How a connection ended that the server refused.
fn refused_by(reason: ReasonCode) -> CloseReason {
    match reason {
        ReasonCode::BadUserNameOrPassword
        | ReasonCode::NotAuthorized
        | ReasonCode::Banned
        | ReasonCode::BadAuthenticationMethod
        | ReasonCode::ClientIdentifierNotValid => CloseReason::AuthFailed,
        ReasonCode::ServerBusy
        | ReasonCode::ServerUnavailable
        | ReasonCode::ConnectionRateExceeded => CloseReason::Busy,
        ReasonCode::UseAnotherServer | ReasonCode::ServerMoved => CloseReason::Redirected,
        ReasonCode::UnsupportedProtocolVersion => CloseReason::UnknownVersion,
        _ => CloseReason::ConnectRefused,
    }
}
