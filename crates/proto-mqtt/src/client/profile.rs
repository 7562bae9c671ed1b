//! Profile of a client: its name, its wishes, its limits.
//!
//! One profile is shared by all clients of a fleet; what differs between them follows from a
//! client's number by a [`Formula`], so that a simulated client owns no text. A client of a person
//! or of a bridge has a profile of its own.

use crate::codec::block::Block;
use crate::codec::property::absent;
use crate::codec::subscribe::SubscribeOptions;
use crate::codec::{PACKET_BYTES_MAX, Qos, Version};
use std::borrow::Cow;

/// Text with places for a client's number.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Formula {
    first: Box<str>,
    /// Text behind each place.
    rest: Box<[Box<str>]>,
}

impl Formula {
    /// Text in which `%i` stands for the number.
    pub fn new(text: &str) -> Formula {
        let mut parts = text.split("%i").map(Box::from);
        let first = parts.next().unwrap_or_default();
        Formula { first, rest: parts.collect() }
    }

    /// This text, whatever is in it.
    pub fn plain(text: &str) -> Formula {
        Formula { first: text.into(), rest: Box::default() }
    }

    /// The text of a number.
    pub fn of(&self, number: u32) -> Cow<'_, str> {
        if self.rest.is_empty() {
            return Cow::Borrowed(&self.first);
        }
        let number = number.to_string();
        let mut text = String::with_capacity(self.first.len() + self.rest.len() * 16);
        text.push_str(&self.first);
        for part in &self.rest {
            text.push_str(&number);
            text.push_str(part);
        }
        Cow::Owned(text)
    }
}

/// When a client begins anew (Clean Start, MQTT5 3.1.2-4; Clean Session before).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Clean {
    /// With every connection.
    #[default]
    Always,
    /// With its first one.
    First,
    /// Never: it goes on with what the server has of it.
    Never,
}

/// Mode in which messages of QoS 1 and 2 are acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PublishAckMode {
    /// As they come (MQTT5 4.5.0-2).
    #[default]
    AtOnce,
    /// When whoever drives the client says so, step by step, for they are passed on to another
    /// session: [`super::ClientOrder::Ack`], by the packet identifier, and [`super::RelayOrder`].
    Relayed,
    /// Never: a client that tests what a server does about it.
    Never,
}

/// A message for the time after (MQTT5 3.1.2.5).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WillProfile {
    /// Topic of the will.
    pub topic: Formula,
    /// Payload of the will.
    pub payload: Box<[u8]>,
    /// Its QoS.
    pub qos: Qos,
    /// Whether it is retained.
    pub retain: bool,
    /// Its properties, delay and expiry included; 5.0 only.
    pub properties: Block,
}

/// A subscription that is made whenever there is no session to go on with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Its filter.
    pub filter: Formula,
    /// Options of the subscription.
    pub options: SubscribeOptions,
}

/// Profile of a client.
#[derive(Clone, PartialEq, Eq)]
pub struct Profile {
    /// The version it speaks.
    pub version: Version,
    /// Its client identifier; empty: the server gives one.
    pub client_id: Formula,
    /// When it begins anew.
    pub clean: Clean,
    /// Seconds its session outlives a connection; `u32::MAX`: for ever. 5.0 only.
    pub expiry_s: u32,
    /// Longest silence it wishes, seconds; 0: any.
    pub keep_alive_s: u16,
    /// Whether it asks to be woken for PINGREQ and ends when nobody answers; otherwise its driver
    /// does.
    pub beats: bool,
    /// Seconds it waits for CONNACK, if it beats.
    pub answer_wait_s: u16,
    /// Messages of QoS 1 and 2 it takes at once, 1 to 65,535 (MQTT5 3.1.2.11.3).
    pub receive_max: u16,
    /// A server that sends more than that is borne: Mosquitto 2.0 does when a session goes on.
    pub bears_more: bool,
    /// Largest packet it takes, bytes.
    pub packet_bytes_max: u32,
    /// Topic aliases it takes.
    pub alias_max: u16,
    /// Topic aliases it uses, as far as the server takes them; the first topics get them.
    pub alias_out_max: u16,
    /// Messages of QoS 1 and 2 it has on the way, as far as the server takes them.
    pub inflight_max: u16,
    /// Messages that wait to be sent. One more is refused ([`super::Unpublished::QueueFull`]).
    pub waiting_max: u32,
    /// Its user name.
    pub user: Option<Formula>,
    /// Its password.
    pub password: Option<Box<[u8]>>,
    /// An exchange instead: method and first data (MQTT5 4.12).
    pub method: Option<(Box<str>, Box<[u8]>)>,
    /// Whether it marks itself as a bridge; before 5.0 only.
    pub is_bridge: bool,
    /// Whether it asks for Response Information.
    pub wants_response_information: bool,
    /// Whether it wants Reason Strings.
    pub wants_problems: bool,
    /// Its will.
    pub will: Option<WillProfile>,
    /// Further properties of its CONNECT: its own user properties.
    pub properties: Block,
    /// How it acknowledges.
    pub acks: PublishAckMode,
    /// Subscriptions that it makes by itself.
    pub wanted: Vec<Wanted>,
    /// Where a virtual client publishes, by number; the first is where it reports.
    pub topics: Vec<Formula>,
    /// QoS of a virtual client's reports.
    pub qos: Qos,
}

impl Profile {
    /// A client with this name that begins anew each time, keeps alive each minute and takes what
    /// the standard lets it take.
    pub fn new(version: Version, client_id: Formula) -> Profile {
        Profile {
            version,
            client_id,
            clean: Clean::Always,
            expiry_s: absent::SESSION_EXPIRY_S,
            keep_alive_s: 60,
            beats: true,
            answer_wait_s: 30,
            receive_max: absent::RECEIVE_MAXIMUM,
            bears_more: false,
            packet_bytes_max: PACKET_BYTES_MAX,
            alias_max: 0,
            alias_out_max: 0,
            inflight_max: 20,
            waiting_max: 1_000,
            user: None,
            password: None,
            method: None,
            is_bridge: false,
            wants_response_information: false,
            wants_problems: true,
            will: None,
            properties: Block::default(),
            acks: PublishAckMode::AtOnce,
            wanted: Vec::new(),
            topics: Vec::new(),
            qos: Qos::AtMostOnce,
        }
    }

    /// Whether the session outlives a connection.
    pub fn keeps_session(&self) -> bool {
        match self.version {
            Version::V5 => self.expiry_s > 0,
            Version::V31 | Version::V311 => self.clean != Clean::Always,
        }
    }
}

impl std::fmt::Debug for Profile {
    /// Without what proves who it is.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Profile")
            .field("version", &self.version)
            .field("client_id", &self.client_id)
            .field("clean", &self.clean)
            .field("keep_alive_s", &self.keep_alive_s)
            .field("has_password", &self.password.is_some())
            .finish_non_exhaustive()
    }
}
