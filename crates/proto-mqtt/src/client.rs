//! The client's side of a connection, in all three versions.
//!
//! The client connects when the link opens, keeps the connection alive, publishes and receives at
//! every QoS, and goes on with its session when it is opened again on another link: messages on
//! their way are sent again. Bridges and the command line drive it as [`Client`], with words that
//! own what they say; the laboratory as [`VirtualClient`], which costs next to nothing while it is
//! idle. The client knows no socket, keeps no list of its subscriptions, and computes no proof: an
//! authentication's steps come from its driver.
//!
//! The invariant: every message it was ordered to publish is answered once, or is still on its way.

mod ask;
mod hear;
mod profile;
mod relay;
mod send;
mod virtual_client;
mod word;

pub use profile::{Clean, Formula, Profile, PublishAckMode, Wanted, WillProfile};
pub use relay::{RelayEvent, RelayOrder};
pub use virtual_client::VirtualClient;
pub use word::{
    ClientOrder, ConnectAccepted, EventTranslator, Farewell, Heard, MqttEvent, Unpublished,
    properties_of, publication,
};

use crate::codec::fault::PacketFault;
use crate::codec::property::absent;
use crate::codec::{PACKET_BYTES_MAX, Qos, ReasonCode, Terms, Unsent};
use base::time::Now;
use model::close::CloseReason;
use model::link::Link;
use model::machine::{Input, Machine, Outbox, TurnAway};
use relay::Clearing;
use send::{Asked, Incoming, Outgoing, Waiting};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// One client.
pub struct Client {
    profile: Arc<Profile>,
    /// State of open exchanges; absent while there are none.
    work: Option<Box<Work>>,
    /// When something was last sent, and received; milliseconds of the monotonic clock.
    sent_ms: u32,
    heard_ms: u32,
    number: u32,
    /// Of the next message received.
    token: u32,
    server: Server,
    next_id: u16,
    state: State,
    /// PINGREQ without an answer.
    pinging: bool,
    /// Whether it has been connected before.
    again: bool,
    /// A client that relays may send messages of QoS 1 and 2 on this connection.
    is_resumed: bool,
}

const _: () = assert!(size_of::<Client>() <= 56, "an idle client is 56 bytes");

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The client has no connection.
    Idle,
    /// CONNECT is on its way, or an authentication.
    Asking,
    /// The server accepted it.
    Online,
    /// The server said no, or farewell.
    Out,
}

/// The server's limits; absent ones as the standard has them.
#[derive(Clone, Copy)]
struct Server {
    packet_bytes_max: u32,
    receive_max: u16,
    alias_max: u16,
    keep_alive_s: u16,
    qos_max: Qos,
    retains: bool,
}

impl Default for Server {
    fn default() -> Server {
        Server {
            packet_bytes_max: PACKET_BYTES_MAX,
            receive_max: absent::RECEIVE_MAXIMUM,
            alias_max: absent::TOPIC_ALIAS_MAXIMUM,
            keep_alive_s: 0,
            qos_max: Qos::ExactlyOnce,
            retains: true,
        }
    }
}

/// Open exchanges.
#[derive(Default)]
struct Work {
    /// Sent at QoS 1 and 2 and not completed, in the order in which they were first sent.
    outgoing: VecDeque<Outgoing>,
    /// How many of these, at the end, have not been sent on this connection.
    unsent: usize,
    /// Token of the newest of them.
    newest: u32,
    /// To be sent when there is room.
    waiting: VecDeque<Waiting>,
    /// Subscriptions and their ends without an answer.
    asked: VecDeque<Asked>,
    /// Received and not acknowledged, in order.
    incoming: VecDeque<Incoming>,
    /// Packet identifiers of QoS 2 that wait for their PUBREL.
    releasing: Vec<u16>,
    /// How many of them, in front, are of earlier connections: they take no room of this one's
    /// Receive Maximum (MQTT5 4.9).
    releasing_before: usize,
    /// Topics that the server named by alias; the first has alias 1.
    aliases_in: Vec<Box<str>>,
    /// Topics that the server has given aliases, likewise.
    aliases_out: Vec<Box<str>>,
    /// Identifiers that the server is freeing.
    clearing: Option<Clearing>,
}

impl Work {
    /// The server has released an identifier; whether it was taken.
    fn free(&mut self, id: u16) -> bool {
        let Some(at) = self.releasing.iter().position(|&known| known == id) else { return false };
        self.releasing_before -= usize::from(at < self.releasing_before);
        self.releasing.remove(at);
        true
    }

    fn is_over(&self) -> bool {
        self.outgoing.is_empty()
            && self.waiting.is_empty()
            && self.asked.is_empty()
            && self.incoming.is_empty()
            && self.releasing.is_empty()
            && self.aliases_in.is_empty()
            && self.aliases_out.is_empty()
            && self.clearing.is_none()
    }
}

/// Why a client ends its connection: the reason code for a server of 5.0, and the reason it counts
/// under.
struct End {
    code: Option<ReasonCode>,
    reason: CloseReason,
}

impl End {
    const fn silent(reason: CloseReason) -> End {
        End { code: None, reason }
    }

    /// A packet that may not come now.
    const fn out_of_order() -> End {
        End { code: Some(ReasonCode::ProtocolError), reason: CloseReason::OutOfOrder }
    }
}

impl From<PacketFault> for End {
    fn from(fault: PacketFault) -> End {
        End { code: Some(fault.code()), reason: fault.close_reason() }
    }
}

impl From<Unsent> for End {
    /// A required packet cannot be sent: the profile asks for more than fits a packet.
    fn from(_: Unsent) -> End {
        End::silent(CloseReason::LocalLimit)
    }
}

type Told = Result<(), End>;

impl Client {
    /// Client `number` of its profile.
    pub fn new(profile: Arc<Profile>, number: u32) -> Client {
        Client {
            profile,
            work: None,
            sent_ms: 0,
            heard_ms: 0,
            number,
            token: 0,
            server: Server::default(),
            next_id: 1,
            state: State::Idle,
            pinging: false,
            again: false,
            is_resumed: false,
        }
    }

    /// Profile of the client.
    pub fn profile(&self) -> &Arc<Profile> {
        &self.profile
    }

    /// Changes what it is. Holds from the next connection on; the version must not change while a
    /// session is kept.
    pub fn set_profile(&mut self, profile: Arc<Profile>) {
        self.profile = profile;
    }

    /// Whether the server has accepted it on this connection.
    pub fn is_online(&self) -> bool {
        self.state == State::Online
    }

    /// Messages of QoS 1 and 2 that were sent and not completed, and those that wait to be sent.
    pub fn under_way(&self) -> usize {
        self.work.as_ref().map_or(0, |work| work.outgoing.len() + work.waiting.len())
    }

    fn work(&mut self) -> &mut Work {
        self.work.get_or_insert_default()
    }

    /// Lets go of what holds nothing.
    fn rest(&mut self) {
        self.work.take_if(|work| work.is_over());
    }

    fn terms(&self) -> Terms {
        let version = self.profile.version;
        Terms { version, packet_bytes_max: self.server.packet_bytes_max, problems: true }
    }

    /// Runs one input: notes what was sent, and says why the connection ends.
    fn step<U: EventTranslator>(
        &mut self,
        now: Now,
        out: &mut Outbox<U>,
        input: impl FnOnce(&mut Self, &mut Outbox<U>) -> Told,
    ) -> Result<(), CloseReason> {
        let before = out.wire_len();
        let told = input(self, out);
        if out.wire_len() > before {
            self.sent_ms = now.mono.millis() as u32;
        }
        told.map_err(|end| {
            let has_words = self.profile.version.has_properties();
            if let Some(code) = end.code.filter(|_| has_words && self.state != State::Idle) {
                out.bytes().extend_from_slice(&[0xe0, 1, code.number()]); // DISCONNECT, 4.13.1
            }
            self.state = State::Out;
            end.reason
        })
    }

    /// When PINGREQ is due: an eighth of the keep-alive before nothing was sent, or received, for
    /// all of it (MQTT5 3.1.2-20, MQTT3 3.1.2-23). Being woken takes a while.
    fn due_in(&self, now: Now) -> Duration {
        let keep_alive_ms = u64::from(self.server.keep_alive_s) * 875;
        let now_ms = now.mono.millis() as u32;
        let sent_ms = now_ms.wrapping_sub(self.sent_ms);
        let heard_ms = if self.pinging { 0 } else { now_ms.wrapping_sub(self.heard_ms) };
        Duration::from_millis(keep_alive_ms.saturating_sub(u64::from(sent_ms.max(heard_ms))))
    }

    /// Sends PINGREQ if it is due, and asks to be woken for the next.
    fn beat<U: EventTranslator>(&mut self, now: Now, out: &mut Outbox<U>) -> Told {
        if !self.profile.beats || self.state != State::Online || self.server.keep_alive_s == 0 {
            return Ok(());
        }
        if self.due_in(now).is_zero() {
            self.ping(out);
            self.sent_ms = now.mono.millis() as u32;
            self.rest();
        }
        out.wake(now.after(self.due_in(now).max(Duration::from_millis(50))));
        Ok(())
    }

    fn ping<U>(&mut self, out: &mut Outbox<U>) {
        self.pinging = true;
        out.bytes().extend_from_slice(&[0xc0, 0]);
    }

    /// The machine's part, for any kind of word: the link is up.
    fn open<U: EventTranslator>(
        &mut self,
        now: Now,
        out: &mut Outbox<U>,
    ) -> Result<(), CloseReason> {
        self.heard_ms = now.mono.millis() as u32;
        self.step(now, out, Self::connect)
    }

    fn hear<U: EventTranslator>(
        &mut self,
        now: Now,
        input: &mut Input<'_>,
        out: &mut Outbox<U>,
    ) -> Result<(), CloseReason> {
        self.heard_ms = now.mono.millis() as u32;
        self.step(now, out, |this, out| this.packets(now, input, out))
    }

    fn wake_up<U: EventTranslator>(
        &mut self,
        now: Now,
        out: &mut Outbox<U>,
    ) -> Result<(), CloseReason> {
        self.step(now, out, |this, out| this.beat(now, out))
    }

    /// The connection has ended. The state of a session that is kept stays.
    fn end<U: EventTranslator>(&mut self, now: Now, out: &mut Outbox<U>) {
        self.state = State::Idle;
        self.pinging = false;
        if !self.profile.keeps_session() {
            self.discard_session(now, out);
        }
        self.rest();
    }
}

impl Machine for Client {
    type Up = MqttEvent;
    type Down = ClientOrder;

    fn opened(
        &mut self,
        now: Now,
        _: &Link,
        out: &mut Outbox<MqttEvent>,
    ) -> Result<(), CloseReason> {
        self.open(now, out)
    }

    fn receive(
        &mut self,
        now: Now,
        input: &mut Input<'_>,
        out: &mut Outbox<MqttEvent>,
    ) -> Result<(), CloseReason> {
        self.hear(now, input, out)
    }

    fn command(
        &mut self,
        now: Now,
        order: ClientOrder,
        out: &mut Outbox<MqttEvent>,
    ) -> Result<(), CloseReason> {
        self.step(now, out, |this, out| this.order(now, order, out))
    }

    fn wake(&mut self, now: Now, out: &mut Outbox<MqttEvent>) -> Result<(), CloseReason> {
        self.wake_up(now, out)
    }

    fn silent(&mut self, _: Now, _: &mut Outbox<MqttEvent>) -> Result<(), CloseReason> {
        Err(CloseReason::KeepAliveTimeout)
    }

    fn turn_away(&mut self, _: Now, _: TurnAway<'_>, _: &mut Outbox<MqttEvent>) {}

    fn closed(&mut self, now: Now, _: CloseReason, out: &mut Outbox<MqttEvent>) {
        self.end(now, out);
    }
}

/// A word, if its driver cares.
fn say<U: EventTranslator>(now: Now, heard: Heard<'_>, out: &mut Outbox<U>) {
    if let Some(word) = U::of(now, heard) {
        out.say(word);
    }
}

#[cfg(test)]
mod tests;
