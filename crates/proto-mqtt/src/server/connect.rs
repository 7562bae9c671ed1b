//! From the first byte to CONNACK (MQTT5 3.1.4, 3.2, 4.12.0; MQTT3 3.1.4, 3.2).
//!
//! A CONNECT is decoded where it arrives, to find the shard of its client identifier, and again
//! there. Input behind it is left untaken until the broker has answered; while the client has a
//! challenge to answer, only AUTH and DISCONNECT are taken. A refusal is a CONNACK in the words of
//! the client's version, or the end alone where it has none.

use super::state::{AuthStep, Bound, Marks};
use super::{End, Out, denial, tolerated};
use crate::codec::auth::Auth;
use crate::codec::block::Block;
use crate::codec::connack::Connack;
use crate::codec::connect::{self as wire};
use crate::codec::fanout::passed_on;
use crate::codec::property::{Property, absent};
use crate::codec::{
    DecodeStep, FaultAnswer, PACKET_BYTES_MAX, Packet, PacketFault, PacketKind, ReasonCode, Terms,
    Version, decode, decode_first,
};
use base::time::{Instant, Now};
use model::close::CloseReason;
use model::link::Link;
use model::machine::Input;
use model::session::{ConnectRequest, Connected, Denial, Denied, Proceed, SessionRequest, Will};
use model::topic::Publication;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// No CONNECT has been taken.
pub(super) struct Fresh {
    /// When it must have come.
    pub(super) due: Instant,
    /// With a version once its CONNECT asked for its home.
    pub(super) marks: Marks,
    /// Address of the client, kept because later input does not name it.
    pub(super) peer: SocketAddr,
}

/// The CONNECT was taken, and its answer is due.
pub(super) struct Asked {
    pub(super) marks: Marks,
    /// When the answer must have been given.
    pub(super) due: Instant,
    /// The client must answer a challenge before the broker does.
    challenged: bool,
    /// The authentication method it named.
    method: Option<Box<str>>,
    /// Terms that the client wished for, where CONNACK names differences.
    expiry_s: u32,
    keep_alive_s: u16,
    wants_response_information: bool,
    /// Its Maximum Packet Size.
    packet_bytes_max: u32,
    /// Aliases that both sides allow towards it.
    aliases_out_max: u16,
    /// The server's limits, for CONNACK.
    own_packet_bytes_max: u32,
    own_aliases_max: u16,
}

/// Bytes of a CONNECT from which its version is known: header, name and level.
const VERSION_BYTES: usize = 5 + 2 + 6 + 1;

impl Fresh {
    /// Takes a CONNECT if one has come, and asks the broker.
    pub(super) fn receive(
        &mut self,
        now: Now,
        input: &mut Input<'_>,
        out: &mut Out,
    ) -> Result<Option<Box<Asked>>, CloseReason> {
        let rest = input.rest();
        self.take(now, input, out).map_err(|fault| {
            fault.answer_to_first(rest).write(out.bytes());
            fault.close_reason()
        })
    }

    fn take(
        &mut self,
        now: Now,
        input: &mut Input<'_>,
        out: &mut Out,
    ) -> Result<Option<Box<Asked>>, PacketFault> {
        let rest = input.rest();
        let is_homed = self.marks.version().is_some();
        // Also when it is looked at again: a CONNECT has a size of its own, and its own version.
        let rules = Marks::of(self.marks.has(Marks::LENIENT), self.marks.has(Marks::STRICT_TEXT))
            .rules(input.limits);
        let step = match decode_first(rest, &rules) {
            // A size that is refused shows before the version in whose words to say so.
            Err(PacketFault::TooLarge) if rest.len() < VERSION_BYTES => return Ok(None),
            step => step?,
        };
        let DecodeStep::Packet { packet: Packet::Connect(connect), bytes, tolerated: passed } =
            step
        else {
            return Ok(None);
        };
        self.marks.set_version(connect.version);
        if !is_homed && !connect.client_id.is_empty() {
            out.home(&[b"mqtt", connect.client_id.as_bytes()]);
            return Ok(None);
        }
        let strict = !self.marks.has(Marks::LENIENT);
        let is_as_said = |will: &wire::WillFields<'_>| {
            will.properties.payload_format() != Some(1) || std::str::from_utf8(will.payload).is_ok()
        };
        if strict && connect.will.as_ref().is_some_and(|will| !is_as_said(will)) {
            return Err(PacketFault::PayloadFormat);
        }
        tolerated(passed, out);
        input.take(bytes);
        out.packets(1, 0);
        let asked = Asked::of(now, self.marks, &connect, input);
        let link = &Link { peer: self.peer, ..input.link.clone() };
        out.say(SessionRequest::Connect(words(&connect, &asked, link)));
        out.wake(asked.due);
        Ok(Some(Box::new(asked)))
    }
}

impl Asked {
    fn of(now: Now, marks: Marks, connect: &wire::Connect<'_>, input: &Input<'_>) -> Asked {
        let (terms, properties) = (connect.terms(), &connect.properties);
        let topics = &input.limits.topics;
        let mut marks = marks;
        let expiry_s = expiry_s(connect);
        marks.set(Marks::ENDS, expiry_s == 0);
        marks.set(Marks::NO_PROBLEMS, !terms.problems);
        let theirs = properties.topic_alias_maximum().unwrap_or(absent::TOPIC_ALIAS_MAXIMUM);
        let asks = properties.request_response().unwrap_or(absent::REQUEST_RESPONSE);
        Asked {
            marks,
            due: now.after(Duration::from_millis(u64::from(input.limits.bind_ms_max))),
            challenged: false,
            method: properties.auth_method().map(Into::into),
            expiry_s,
            keep_alive_s: connect.keep_alive_s,
            wants_response_information: asks == 1,
            packet_bytes_max: terms.packet_bytes_max,
            aliases_out_max: theirs.min(topics.topic_alias_out_max),
            own_packet_bytes_max: topics.packet_bytes_max,
            own_aliases_max: topics.topic_alias_max,
        }
    }

    fn version(&self) -> Version {
        self.marks.version().expect("it is in every CONNECT")
    }

    fn terms(&self) -> Terms {
        let problems = !self.marks.has(Marks::NO_PROBLEMS);
        Terms { version: self.version(), packet_bytes_max: self.packet_bytes_max, problems }
    }

    /// Holds back what comes while the broker thinks; takes the answer to a challenge.
    pub(super) fn receive(
        &mut self,
        input: &mut Input<'_>,
        out: &mut Out,
    ) -> Result<(), CloseReason> {
        if !self.challenged {
            if !input.rest().is_empty() && !self.marks.has(Marks::HELD) {
                self.marks.set(Marks::HELD, true);
                out.hold(true);
            }
            return Ok(());
        }
        match self.take_auth(input, out) {
            Ok(()) => Ok(()),
            Err(End::Close(reason)) => Err(reason),
            Err(End::Fault(fault)) => {
                // Before CONNACK nothing else can be said (MQTT5 3.14.0-1).
                FaultAnswer::Connack(fault.code()).write(out.bytes());
                out.packets(0, 1);
                Err(fault.close_reason())
            }
        }
    }

    fn take_auth(&mut self, input: &mut Input<'_>, out: &mut Out) -> Result<(), End> {
        let rest = input.rest();
        match rest.first().map(|byte| PacketKind::of(byte >> 4)) {
            None => return Ok(()),
            Some(Some(PacketKind::Auth | PacketKind::Disconnect)) => {}
            Some(Some(PacketKind::Connect)) => return Err(PacketFault::SecondConnect.into()),
            Some(_) => return Err(PacketFault::AuthOrder.into()),
        }
        let DecodeStep::Packet { packet, bytes, tolerated: passed } =
            decode(rest, &self.marks.rules(input.limits))?
        else {
            return Ok(());
        };
        tolerated(passed, out);
        input.take(bytes);
        out.packets(1, 0);
        let auth = match packet {
            Packet::Auth(auth) => auth,
            Packet::Disconnect(_) => return Err(End::Close(CloseReason::Unbound)),
            _ => return Err(PacketFault::AuthOrder.into()),
        };
        let method = auth.properties.auth_method();
        let fits = auth.reason == ReasonCode::ContinueAuthentication
            && method.is_some_and(|method| self.method.as_deref() == Some(method));
        if !fits {
            return Err(PacketFault::AuthOrder.into());
        }
        self.challenged = false;
        out.say(proceed(None, &auth));
        Ok(())
    }

    /// The client must say more (MQTT5 4.12.0-2).
    pub(super) fn challenge(&mut self, method: &str, data: &[u8], out: &mut Out) {
        self.challenged = true;
        self.release(out);
        write_auth(ReasonCode::ContinueAuthentication, method, data, &self.terms(), out);
    }

    /// The session is bound: CONNACK, and what waited for it may come. On `Err` it is bound, too.
    pub(super) fn connected(
        mut self,
        connected: &Connected,
        out: &mut Out,
    ) -> (Bound, Result<(), CloseReason>) {
        self.release(out);
        let block = self.accepted(connected);
        let connack = Connack {
            session_present: connected.present,
            reason: ReasonCode::Success,
            properties: block.properties(),
        };
        let written = connack.write(&self.terms(), out.bytes());
        let (session, marks) = (connected.session, self.marks);
        let mut bound = Bound { session, marks, unanswered: 0, more: None };
        if self.packet_bytes_max != PACKET_BYTES_MAX {
            bound.more().packet_bytes_max = self.packet_bytes_max;
        }
        if self.aliases_out_max > 0 {
            bound.more().aliases_out.allow(self.aliases_out_max);
        }
        if let Some(method) = self.method {
            let more = bound.more();
            (more.method, more.step) = (Some(method), AuthStep::Idle);
        }
        out.packets(0, u64::from(written.is_ok()));
        out.silence(patience_ms(connected.keep_alive_s));
        // A client that does not take its own CONNACK cannot be served.
        (bound, written.map_err(|_| CloseReason::TooLarge))
    }

    /// Properties of the CONNACK: all terms that differ from the defaults.
    fn accepted(&self, connected: &Connected) -> Block {
        let mut block = Block::default();
        if !self.version().has_properties() {
            return block;
        }
        let mut tell = |property| {
            // What cannot be told for its length is left out.
            let _ = block.push(property);
        };
        if connected.expiry_s != self.expiry_s {
            tell(Property::SessionExpiry(connected.expiry_s));
        }
        if connected.receive_max != absent::RECEIVE_MAXIMUM {
            tell(Property::ReceiveMaximum(connected.receive_max));
        }
        if self.own_packet_bytes_max < PACKET_BYTES_MAX {
            tell(Property::MaximumPacketSize(self.own_packet_bytes_max));
        }
        if let Some(id) = &connected.assigned {
            tell(Property::AssignedClientId(id));
        }
        if self.own_aliases_max != absent::TOPIC_ALIAS_MAXIMUM {
            tell(Property::TopicAliasMaximum(self.own_aliases_max));
        }
        if connected.keep_alive_s != self.keep_alive_s {
            tell(Property::ServerKeepAlive(connected.keep_alive_s));
        }
        if let Some(prefix) = &connected.response_information
            && self.wants_response_information
        {
            tell(Property::ResponseInformation(prefix));
        }
        if let Some(method) = &self.method {
            tell(Property::AuthMethod(method));
            if let Some((_, data)) = connected.method.as_ref().filter(|(_, data)| !data.is_empty())
            {
                tell(Property::AuthData(data));
            }
        }
        block
    }

    /// The session is not bound.
    pub(super) fn refused(&self, denied: &Denied, out: &mut Out) {
        let block = told(denied);
        let reason = denial::code(denied.why, PacketKind::Connack);
        let connack = Connack { session_present: false, reason, properties: block.properties() };
        // Before 5.0 there is not a code for everything (MQTT3 3.2.2-6).
        if connack.write(&self.terms(), out.bytes()).is_ok() {
            out.packets(0, 1);
        }
    }

    /// The time for it is over.
    pub(super) fn too_late(&self, out: &mut Out) {
        let why = if self.challenged { Denial::NotAuthorized } else { Denial::Unavailable };
        self.refused(&Denied::of(why, CloseReason::BindTimeout), out);
    }

    fn release(&mut self, out: &mut Out) {
        if self.marks.has(Marks::HELD) {
            self.marks.set(Marks::HELD, false);
            out.hold(false);
        }
    }
}

/// A refusal of one whose CONNECT has not been taken, if it is known which words it understands.
pub(super) fn refuse_unheard(marks: Marks, denied: &Denied, out: &mut Out) {
    let Some(version) = marks.version() else { return };
    let reason = denial::code(denied.why, PacketKind::Connack);
    let block = told(denied);
    let properties = block.properties();
    let connack = Connack { session_present: false, reason, properties };
    if connack.write(&Terms::of(version), out.bytes()).is_ok() {
        out.packets(0, 1);
    }
}

/// Properties of a refusal or an end, for a 5.0 client.
pub(super) fn told(denied: &Denied) -> Block {
    let mut block = Block::default();
    let text = denied.text.as_deref().map(Property::ReasonString);
    let server = denied.server.as_deref().map(Property::ServerReference);
    for property in server.into_iter().chain(text) {
        let _ = block.push(property); // what cannot be told for its length is left out
    }
    block
}

/// Appends a server's AUTH.
pub(super) fn write_auth(
    reason: ReasonCode,
    method: &str,
    data: &[u8],
    terms: &Terms,
    out: &mut Out,
) {
    let mut block = Block::default();
    let data = (!data.is_empty()).then_some(Property::AuthData(data));
    for property in [Property::AuthMethod(method)].into_iter().chain(data) {
        let _ = block.push(property); // a method is as long as a client could say it
    }
    let auth = Auth { reason, properties: block.properties() };
    if auth.write(terms, out.bytes()).is_ok() {
        out.packets(0, 1);
    }
}

/// A client's AUTH in the broker's words.
pub(super) fn proceed(session: Option<model::id::SessionRef>, auth: &Auth<'_>) -> SessionRequest {
    SessionRequest::Proceed(Box::new(Proceed {
        session,
        method: auth.properties.auth_method().unwrap_or_default().into(),
        data: auth.properties.auth_data().unwrap_or_default().into(),
    }))
}

/// One and a half keep-alives, seconds (MQTT5 3.1.2-22).
fn patience_ms(keep_alive_s: u16) -> u32 {
    u32::from(keep_alive_s) * 1_500
}

/// How long the session is to outlive the connection. Before 5.0 it is for ever or not at all; one
/// whose identifier the client does not know cannot be come back to.
fn expiry_s(connect: &wire::Connect<'_>) -> u32 {
    if connect.version.has_properties() {
        return connect.properties.session_expiry().unwrap_or(absent::SESSION_EXPIRY_S);
    }
    let is_kept = !connect.clean_start && !connect.client_id.is_empty();
    if is_kept { u32::MAX } else { 0 }
}

/// The user property by which a client names the device of its account that it is (IM 19.1).
const DEVICE: &str = "im-device";

/// A CONNECT in the broker's words.
fn words(connect: &wire::Connect<'_>, asked: &Asked, link: &Link) -> Box<ConnectRequest> {
    let properties = &connect.properties;
    let data = properties.auth_data().unwrap_or_default();
    let certificate = link.tls.as_ref().and_then(|tls| tls.identity.clone());
    Box::new(ConnectRequest {
        protocol: connect.version.name(),
        client_id: connect.client_id.into(),
        clean_start: connect.clean_start || connect.client_id.is_empty(),
        expiry_s: asked.expiry_s,
        keep_alive_s: connect.keep_alive_s,
        receive_max: properties.receive_maximum().unwrap_or(absent::RECEIVE_MAXIMUM),
        is_bridge: connect.is_bridge,
        wants_response_information: asked.wants_response_information,
        will: connect.will.as_ref().map(will),
        user: connect.user_name.map(Into::into),
        password: connect.password.map(Into::into),
        device: properties
            .user_properties()
            .find(|(name, _)| *name == DEVICE)
            .map(|it| it.1.into()),
        method: asked.method.clone().map(|method| (method, data.into())),
        certificate,
        peer: link.peer,
        near: link.near,
        door: link.door,
        tls: link.tls.is_some(),
        crowded: link.crowded,
    })
}

fn will(will: &wire::WillFields<'_>) -> Will {
    let properties = will.properties;
    let mut message = Publication::new(will.topic, &passed_on(properties), will.payload);
    (message.qos, message.retain) = (will.qos, will.retain);
    Will {
        message: Arc::new(message),
        delay_s: properties.will_delay().unwrap_or(absent::WILL_DELAY_S),
        expiry_s: properties.message_expiry().map_or(0, |seconds| seconds.max(1)),
    }
}
