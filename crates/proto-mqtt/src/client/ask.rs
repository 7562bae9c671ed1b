//! Requests of a client: to connect, to subscribe, to be proved, to go.

use super::send::Asked;
use super::{Clean, Client, ClientOrder, End, EventTranslator, Heard, State, Told, say};
use crate::codec::auth::{Auth, Disconnect};
use crate::codec::block::Block;
use crate::codec::connect::{Connect, WillFields};
use crate::codec::property::{Property, absent};
use crate::codec::subscribe::{
    Filters, RetainHandling, Subscribe, SubscribeOptions, Subscriptions, Unsubscribe, push_filter,
    push_subscription,
};
use crate::codec::{PACKET_BYTES_MAX, PacketKind, ReasonCode, Sender, Terms, Unsent, Version};
use base::time::Now;
use model::close::CloseReason;
use model::machine::Outbox;
use model::topic::SubscriptionOptions;

impl Client {
    /// Whether this connection begins with a new session.
    pub(super) fn starts_clean(&self) -> bool {
        match self.profile.clean {
            Clean::Always => true,
            Clean::First => !self.again,
            Clean::Never => false,
        }
    }

    /// CONNECT, the first packet (MQTT5 3.1.0-1).
    pub(super) fn connect<U: EventTranslator>(&mut self, out: &mut Outbox<U>) -> Told {
        self.state = State::Asking;
        self.pinging = false;
        self.is_resumed = false;
        self.server = super::Server::default();
        if let Some(work) = &mut self.work {
            // No connection answers what was asked on another one.
            work.asked.clear();
            work.clearing = None;
            work.aliases_in.clear();
            work.aliases_out.clear();
            work.unsent = work.outgoing.len();
        }
        let profile = &*self.profile;
        let block = if profile.version == Version::V5 { self.wishes()? } else { Block::default() };
        let client_id = profile.client_id.of(self.number);
        let user = profile.user.as_ref().map(|user| user.of(self.number));
        let will = profile.will.as_ref().map(|will| (will, will.topic.of(self.number)));
        let connect = Connect {
            is_bridge: profile.is_bridge && profile.version != Version::V5,
            clean_start: self.starts_clean(),
            keep_alive_s: profile.keep_alive_s,
            properties: block.properties(),
            will: will.as_ref().map(|(will, topic)| WillFields {
                qos: will.qos,
                retain: will.retain,
                properties: will.properties.properties(),
                topic,
                payload: &will.payload,
            }),
            user_name: user.as_deref(),
            password: profile.password.as_deref(),
            ..Connect::of(profile.version, &client_id)
        };
        connect.write(&Terms::of(profile.version), out.bytes())?;
        if profile.beats {
            out.silence(u32::from(profile.answer_wait_s) * 1_000);
        }
        Ok(())
    }

    /// The properties of CONNECT, as far as they are not what holds without them.
    fn wishes(&self) -> Result<Block, Unsent> {
        let profile = &*self.profile;
        let mut block = profile.properties.clone();
        let mut put = |is_said: bool, property| if is_said { block.push(property) } else { Ok(()) };
        let expiry_s = profile.expiry_s;
        put(expiry_s != absent::SESSION_EXPIRY_S, Property::SessionExpiry(expiry_s))?;
        let receive_max = profile.receive_max;
        put(receive_max != absent::RECEIVE_MAXIMUM, Property::ReceiveMaximum(receive_max))?;
        let bytes = profile.packet_bytes_max;
        put(bytes < PACKET_BYTES_MAX, Property::MaximumPacketSize(bytes))?;
        let aliases = profile.alias_max;
        put(aliases != absent::TOPIC_ALIAS_MAXIMUM, Property::TopicAliasMaximum(aliases))?;
        put(!profile.wants_problems, Property::RequestProblem(0))?;
        put(profile.wants_response_information, Property::RequestResponse(1))?;
        if let Some((method, data)) = &profile.method {
            put(true, Property::AuthMethod(method))?;
            put(!data.is_empty(), Property::AuthData(data))?;
        }
        Ok(block)
    }

    /// Carries out an order. Before the server has accepted it, only what waits or answers may be
    /// (MQTT5 3.1.2-30).
    pub(super) fn order<U: EventTranslator>(
        &mut self,
        now: Now,
        order: ClientOrder,
        out: &mut Outbox<U>,
    ) -> Told {
        let is_online = self.state == State::Online;
        match order {
            ClientOrder::Publish { token, message } => self.publish(now, token, message, out)?,
            ClientOrder::Ack { token, reason } if self.relays() => {
                self.acknowledge(token, reason, out);
            }
            ClientOrder::Relay(order) if self.relays() => self.relay(now, order, out),
            ClientOrder::Prove(data) if self.state == State::Asking || is_online => {
                self.prove(ReasonCode::ContinueAuthentication, &data, out)?;
            }
            ClientOrder::Disconnect { reason, properties } if self.state != State::Idle => {
                return self.leave(reason, &properties, out);
            }
            ClientOrder::Reauthenticate(data) if is_online => {
                self.prove(ReasonCode::ReAuthenticate, &data, out)?;
            }
            ClientOrder::Subscribe { token, wishes, properties } if is_online => {
                let mut list = Vec::new();
                wishes.iter().try_for_each(|wish| {
                    push_subscription(&wish.filter, options(wish), &mut list)
                })?;
                self.subscribe(token, wishes.len(), &list, &properties, out)?;
            }
            ClientOrder::Unsubscribe { token, filters, properties } if is_online => {
                self.unsubscribe(token, &filters, &properties, out)?;
            }
            ClientOrder::Ping if is_online => self.ping(out),
            _ => {}
        }
        Ok(())
    }

    /// A step of the exchange, by the method that CONNECT named; without one there is no AUTH
    /// (MQTT5 4.12.0-7, 4.12.1-1; a client's step during CONNECT says 0x18, 4.12.0-3).
    fn prove<U>(&self, reason: ReasonCode, data: &[u8], out: &mut Outbox<U>) -> Told {
        let Some((method, _)) = &self.profile.method else { return Ok(()) };
        let block = Block::of(&[Property::AuthMethod(method), Property::AuthData(data)])?;
        let auth = Auth { reason, properties: block.properties() };
        Ok(auth.write(&self.terms(), out.bytes())?)
    }

    /// DISCONNECT; after it a client sends nothing and closes (MQTT5 3.14.4-1, 3.14.4-2;
    /// MQTT3 3.14.4-1, 3.14.4-2).
    pub(super) fn leave<U>(
        &mut self,
        reason: ReasonCode,
        properties: &Block,
        out: &mut Outbox<U>,
    ) -> Told {
        // Before CONNACK a client of 5.0 alone may say it (MQTT5 3.1.2-30).
        if self.state == State::Online || self.profile.version == Version::V5 {
            let disconnect = Disconnect { reason, properties: properties.properties() };
            disconnect.write(Sender::Client, &self.terms(), out.bytes())?;
        }
        self.state = State::Out;
        Err(End::silent(CloseReason::OwnStop))
    }

    /// SUBSCRIBE with `count` filters in `list`. A server that takes no such packet answers none.
    fn subscribe<U: EventTranslator>(
        &mut self,
        token: u32,
        count: usize,
        list: &[u8],
        properties: &Block,
        out: &mut Outbox<U>,
    ) -> Told {
        let Some(id) = self.take_id() else { return Ok(()) };
        let subscriptions = Subscriptions::over(list);
        let packet = Subscribe { id, properties: properties.properties(), subscriptions };
        packet.write(&self.terms(), out.bytes())?;
        let count = count as u16;
        self.work().asked.push_back(Asked { id, token, count, kind: PacketKind::Suback });
        Ok(())
    }

    fn unsubscribe<U: EventTranslator>(
        &mut self,
        token: u32,
        filters: &[Box<str>],
        properties: &Block,
        out: &mut Outbox<U>,
    ) -> Told {
        let Some(id) = self.take_id() else { return Ok(()) };
        let mut list = Vec::new();
        filters.iter().try_for_each(|filter| push_filter(filter, &mut list))?;
        let filters_of = Filters::over(&list);
        let packet = Unsubscribe { id, properties: properties.properties(), filters: filters_of };
        packet.write(&self.terms(), out.bytes())?;
        let count = filters.len() as u16;
        self.work().asked.push_back(Asked { id, token, count, kind: PacketKind::Unsuback });
        Ok(())
    }

    /// Makes the subscriptions of the profile, or ends them.
    pub(super) fn want<U: EventTranslator>(&mut self, begin: bool, out: &mut Outbox<U>) -> Told {
        let profile = self.profile.clone();
        if profile.wanted.is_empty() || self.state != State::Online {
            return Ok(());
        }
        let filters = profile.wanted.iter().map(|wanted| wanted.filter.of(self.number));
        if !begin {
            let filters: Vec<Box<str>> = filters.map(|filter| Box::from(&*filter)).collect();
            return self.unsubscribe(0, &filters, &Block::default(), out);
        }
        let mut list = Vec::new();
        for (wanted, filter) in profile.wanted.iter().zip(filters) {
            push_subscription(&filter, wanted.options, &mut list)?;
        }
        self.subscribe(0, profile.wanted.len(), &list, &Block::default(), out)
    }

    /// SUBACK or UNSUBACK: for what was asked, with a reason for each filter (MQTT5 3.8.4-6).
    pub(super) fn answered<U: EventTranslator>(
        &mut self,
        now: Now,
        kind: PacketKind,
        answer: &crate::codec::ack::Suback<'_>,
        out: &mut Outbox<U>,
    ) -> Told {
        let reasons = answer.reasons;
        let work = self.work();
        let Some(at) = work.asked.iter().position(|asked| asked.id == answer.id) else {
            return Ok(()); // of another connection
        };
        let asked = &work.asked[at];
        let is_bare = kind == PacketKind::Unsuback && reasons.is_empty();
        if asked.kind != kind || !is_bare && reasons.len() != usize::from(asked.count) {
            return Err(End::out_of_order());
        }
        let token = asked.token;
        work.asked.remove(at);
        say(
            now,
            match kind {
                PacketKind::Suback => Heard::Subscribed { token, reasons },
                _ => Heard::Unsubscribed { token, reasons },
            },
            out,
        );
        if self.relays() {
            // A message may wait for the identifier.
            self.pump(now, out);
        }
        if self.work().asked.is_empty() {
            self.rest();
        }
        Ok(())
    }
}

/// Options of a wish, on the wire.
fn options(wish: &SubscriptionOptions) -> SubscribeOptions {
    SubscribeOptions {
        qos: wish.qos,
        no_local: wish.no_local,
        retain_as_published: wish.retain_as_published,
        retain_handling: match wish.retain_handling {
            model::topic::RetainHandling::Send => RetainHandling::Always,
            model::topic::RetainHandling::SendIfNew => RetainHandling::WhenNew,
            model::topic::RetainHandling::DoNotSend => RetainHandling::Never,
        },
    }
}
