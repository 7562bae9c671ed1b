//! Chat over topics: a client of a publish-and-subscribe protocol is a device of its account.
//!
//! ```text
//! machine ─► Publish to $im/req/OP ─► broker, which knows whose it is ─► Call ─► machine
//! machine ─► what stands in it, as a request ─► chat, where the account is at home ─► machine
//! ```
//! The broker says whose device a client is, and hands back what is not its own to answer; what
//! stands in a call only the machine can read. A session of chat may then be of another shard than
//! the connection that it is had over.

use super::{ChatRequest, Login};
use crate::account::AccountAddress;
use crate::id::{SessionRef, ShardId};
use crate::limits::Limits;
use crate::ports::access::GrantedAccount;
use crate::topic::{Publication, Qos};
use base::hash::{HashKey, home};
use std::net::SocketAddr;
use std::sync::Arc;

/// How all topics begin that belong to chat.
pub const CHAT_TOPICS: &str = "$im/";

/// How topics begin to which requests are published; behind it stands which.
pub const CHAT_REQUESTS: &str = "$im/req/";

/// The filter of a client that wants events of its account.
pub const CHAT_EVENTS: &str = "$im/evt";

/// The topic of events encoded as JSON.
pub const CHAT_EVENTS_JSON: &str = "$im/evt/json";

/// The topic of answers for which the request names none; behind a `/` may stand the client's
/// identifier.
pub const CHAT_ANSWERS: &str = "$im/res";

/// Account of a client, and its request to chat.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccountDevice {
    /// The account.
    pub address: AccountAddress,
    /// The name that it was let in by.
    pub user: Arc<str>,
    /// The account, with the epoch that it had when the device was let in.
    pub account: GrantedAccount,
    /// Unix second at which the grant is over; 0: it is not.
    pub until_s: u32,
    /// The device's name: that which it brought, or the client's identifier.
    pub device: Box<str>,
    /// The protocol, for events and queries.
    pub protocol: &'static str,
    /// Its address.
    pub peer: Option<SocketAddr>,
    /// Events that the client wants to receive.
    pub events: EventsWanted,
    /// The limits in force.
    pub limits: Arc<Limits>,
}

/// Forms in which a device wants events.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct EventsWanted {
    /// Subscription in the protocol's own form.
    pub plain: Option<EventsForm>,
    /// Subscription in JSON.
    pub json: Option<EventsForm>,
}

/// A subscription to what happens.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct EventsForm {
    /// The number that deliveries shall name.
    pub subscription_id: Option<u32>,
}

impl EventsWanted {
    /// Whether it wants any events.
    pub const fn any(self) -> bool {
        self.plain.is_some() || self.json.is_some()
    }
}

/// Why a client is nobody's device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoDevice {
    /// The server has no chat for such clients.
    Off,
    /// The client has not logged in with an account of the book.
    NoAccount,
}

impl NoDevice {
    /// Meaning, for people.
    pub const fn meaning(self) -> &'static str {
        match self {
            NoDevice::Off => "this server has no chat over MQTT",
            NoDevice::NoAccount => "the client has not logged in with an account of the server",
        }
    }
}

/// A message that chat is to answer: the machine reads what stands in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChatCall {
    /// The publisher's packet identifier; 0 at QoS 0.
    pub id: u16,
    /// QoS of the answer to the publisher.
    pub qos: Qos,
    /// The message.
    pub message: Arc<Publication>,
    /// Account of the publisher.
    pub device: Result<AccountDevice, NoDevice>,
    /// Its identifier.
    pub client_id: Box<str>,
}

/// A device that another service has let in, as this account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GrantedLogin {
    /// All that is asked when a device logs in, but for the proof.
    pub login: Login,
    /// The name that it was let in by.
    pub user: Arc<str>,
    /// The account, with the epoch that it had when the device was let in.
    pub account: GrantedAccount,
    /// Unix second at which the grant is over; 0: it is not.
    pub until_s: u32,
}

impl ChatRequest {
    /// The shard it is for, of so many, when the machine that asks lives on shard `here`.
    pub fn owner(&self, here: ShardId, (key, shards): (HashKey, u16)) -> ShardId {
        match self {
            ChatRequest::Enter(entering) => {
                ShardId(home(entering.login.account.home_hash(key), shards))
            }
            ChatRequest::Register(it) => ShardId(home(it.address.home_hash(key), shards)),
            // Its machine has moved to where the account is at home before it asks.
            ChatRequest::Login(_)
            | ChatRequest::Redeem(_)
            | ChatRequest::Proceed(_)
            | ChatRequest::Gone => here,
            request => request.session().map_or(here, SessionRef::shard),
        }
    }
}
