//! The client machines of all protocols in one type, and what they are told.
//!
//! A [`Profile`] says what the clients of a fleet have in common; a [`Client`] is one of them. What
//! a client needs besides its seat is boxed, so that one of MIOP or MQTT costs what it alone needs.

pub mod http;
pub mod tcp;

use base::time::Now;
use model::close::CloseReason;
use model::link::{Link, Protocol};
use model::machine::{Input, Machine, Outbox};
use model::pilot::{Action, Observation};
use proto_miop::client as miop;
use proto_mqtt::client as mqtt;
use std::sync::Arc;

/// What the clients of a fleet have in common. Heartbeats (`beats`) must be off: the house says
/// when.
#[derive(Clone)]
pub enum Profile {
    /// Devices that speak MIOP.
    Miop(Arc<miop::Profile>),
    /// Clients of an MQTT broker.
    Mqtt(Arc<mqtt::Profile>),
    /// Callers of an HTTP server.
    Http(Arc<http::Profile>),
    /// Connections that are held, or whose bytes are echoed.
    Tcp,
}

impl From<Arc<miop::Profile>> for Profile {
    fn from(profile: Arc<miop::Profile>) -> Profile {
        Profile::Miop(profile)
    }
}

impl From<Arc<mqtt::Profile>> for Profile {
    fn from(profile: Arc<mqtt::Profile>) -> Profile {
        Profile::Mqtt(profile)
    }
}

impl Profile {
    /// What `net` goes by. It knows no HTTP without an upgrade and no bare TCP: both are bytes to
    /// it, like MIOP.
    pub fn protocol(&self) -> Protocol {
        match self {
            Profile::Mqtt(_) => Protocol::Mqtt,
            Profile::Http(_) => Protocol::Http,
            Profile::Miop(_) | Profile::Tcp => Protocol::Miop,
        }
    }

    /// Whether its clients would beat by themselves.
    pub(crate) fn beats(&self) -> bool {
        match self {
            Profile::Miop(profile) => profile.beats,
            Profile::Mqtt(profile) => profile.beats,
            Profile::Http(_) | Profile::Tcp => false,
        }
    }

    /// Client `number`.
    pub(crate) fn client(&self, number: u32) -> Client {
        match self {
            Profile::Miop(profile) => Client::Miop(miop::Client::new(profile.clone(), number)),
            Profile::Mqtt(profile) => Client::Mqtt(mqtt::Pilot::new(profile.clone(), number)),
            Profile::Http(profile) => Client::Http(Box::new(http::Client::new(profile.clone()))),
            Profile::Tcp => Client::Tcp(tcp::Client::default()),
        }
    }
}

/// One simulated client's machine.
pub(crate) enum Client {
    Miop(miop::Client),
    Mqtt(mqtt::Pilot),
    Http(Box<http::Client>),
    Tcp(tcp::Client),
}

/// What a simulated client is told.
#[derive(Clone, Debug)]
pub enum Act {
    /// What every protocol knows.
    Do(Action),
    /// Publish to a topic (MQTT).
    Publish(Box<Letter>),
    /// Send these bytes and wait for their answer; none: the profile's (HTTP, TCP).
    Ask(Arc<[u8]>),
    /// Read nothing more, or read again.
    Hold(bool),
}

/// A message to a topic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Letter {
    /// Where to.
    pub topic: Box<str>,
    /// 0, 1 or 2.
    pub qos: u8,
    /// It is to be kept for later subscribers.
    pub retain: bool,
    /// What it says.
    pub body: Box<[u8]>,
}

type Out = Outbox<Observation>;
type Told = Result<(), CloseReason>;

impl Client {
    pub(super) fn opened(&mut self, now: Now, link: &Link, out: &mut Out) -> Told {
        match self {
            Client::Miop(client) => client.opened(now, link, out),
            Client::Mqtt(client) => client.opened(now, link, out),
            Client::Http(client) => client.opened(out),
            Client::Tcp(client) => client.opened(out),
        }
    }

    pub(super) fn receive(&mut self, now: Now, input: &mut Input<'_>, out: &mut Out) -> Told {
        match self {
            Client::Miop(client) => client.receive(now, input, out),
            Client::Mqtt(client) => client.receive(now, input, out),
            Client::Http(client) => client.receive(input, out),
            Client::Tcp(client) => client.receive(input, out),
        }
    }

    /// What it is told; what its protocol does not know is nothing.
    pub(super) fn command(&mut self, now: Now, act: Act, out: &mut Out) -> Told {
        match (self, act) {
            (_, Act::Hold(hold)) => out.hold(hold),
            (Client::Miop(client), Act::Do(action)) => return client.command(now, action, out),
            (Client::Mqtt(client), Act::Do(action)) => return client.command(now, action, out),
            (Client::Mqtt(client), Act::Publish(letter)) => {
                let Letter { topic, qos, retain, body } = &*letter;
                client.publish_to(now, topic, (*qos, *retain), body, out);
            }
            // Neither has a word for it.
            (Client::Http(_) | Client::Tcp(_), Act::Do(Action::Unbind)) => {
                return Err(CloseReason::OwnStop);
            }
            (Client::Http(client), Act::Ask(bytes)) => client.ask(&bytes, out),
            (Client::Tcp(client), Act::Ask(bytes)) => client.ask(&bytes, out),
            _ => {}
        }
        Ok(())
    }

    pub(super) fn wake(&mut self, now: Now, out: &mut Out) -> Told {
        match self {
            Client::Miop(client) => client.wake(now, out),
            Client::Mqtt(client) => client.wake(now, out),
            Client::Http(_) | Client::Tcp(_) => Ok(()),
        }
    }

    pub(super) fn drained(&mut self, now: Now, out: &mut Out) -> Told {
        match self {
            Client::Mqtt(client) => client.drained(now, out),
            _ => Ok(()),
        }
    }

    pub(super) fn closed(&mut self, now: Now, reason: CloseReason, out: &mut Out) {
        match self {
            Client::Miop(client) => client.closed(now, reason, out),
            Client::Mqtt(client) => client.closed(now, reason, out),
            Client::Http(client) => client.closed(out),
            Client::Tcp(client) => client.closed(),
        }
    }
}
