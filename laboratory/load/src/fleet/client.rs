//! The client machines of all protocols in one type, and their orders.
//!
//! A [`FleetProfile`] says what the clients of a fleet have in common; a [`Client`] is one of them.
//! State that a client needs besides its seat is boxed, so that one of MIOP or MQTT costs only its
//! own.

pub mod http;
pub mod im;
pub mod tcp;
pub mod xmpp;

use base::time::Now;
use model::close::CloseReason;
use model::link::{Link, Protocol, StartTlsRefusal};
use model::machine::{Input, Machine, Outbox};
use model::ports::virtual_client::{Action, Observation};
use proto_miop::client as miop;
use proto_mqtt::client as mqtt;
use std::sync::Arc;

/// Profile that the clients of a fleet share. Heartbeats (`beats`) must be off: the logic says
/// when.
#[derive(Clone)]
pub enum FleetProfile {
    /// Devices that speak MIOP.
    Miop(Arc<miop::Profile>),
    /// Clients of an MQTT broker.
    Mqtt(Arc<mqtt::Profile>),
    /// Devices of accounts that talk to each other.
    Im(Arc<im::ImProfile>),
    /// Resources of accounts of XMPP, that talk to each other.
    Xmpp(Arc<xmpp::XmppProfile>),
    /// Callers of an HTTP server.
    Http(Arc<http::HttpProfile>),
    /// Connections that are held, or whose bytes are echoed.
    Tcp,
}

impl From<Arc<miop::Profile>> for FleetProfile {
    fn from(profile: Arc<miop::Profile>) -> FleetProfile {
        FleetProfile::Miop(profile)
    }
}

impl From<Arc<mqtt::Profile>> for FleetProfile {
    fn from(profile: Arc<mqtt::Profile>) -> FleetProfile {
        FleetProfile::Mqtt(profile)
    }
}

impl FleetProfile {
    /// Protocol as `net` names it. `net` knows no HTTP without an upgrade and no bare TCP: both are
    /// bytes to it, like MIOP.
    pub fn protocol(&self) -> Protocol {
        match self {
            FleetProfile::Mqtt(_) => Protocol::Mqtt,
            FleetProfile::Im(_) => Protocol::Im,
            FleetProfile::Xmpp(_) => Protocol::Xmpp,
            FleetProfile::Http(_) => Protocol::Http,
            FleetProfile::Miop(_) | FleetProfile::Tcp => Protocol::Miop,
        }
    }

    /// Whether its clients would beat by themselves.
    pub(crate) fn beats(&self) -> bool {
        match self {
            FleetProfile::Miop(profile) => profile.beats,
            FleetProfile::Mqtt(profile) => profile.beats,
            FleetProfile::Im(_)
            | FleetProfile::Xmpp(_)
            | FleetProfile::Http(_)
            | FleetProfile::Tcp => false,
        }
    }

    /// Whether what is said is kept until it is answered, over connections.
    pub(crate) fn says_once(&self) -> bool {
        matches!(self, FleetProfile::Im(_))
    }

    /// Client `number`.
    pub(crate) fn client(&self, number: u32) -> Client {
        match self {
            FleetProfile::Miop(profile) => Client::Miop(miop::Client::new(profile.clone(), number)),
            FleetProfile::Mqtt(profile) => {
                Client::Mqtt(mqtt::VirtualClient::new(profile.clone(), number))
            }
            FleetProfile::Im(profile) => {
                Client::Im(Box::new(im::Client::new(profile.clone(), number)))
            }
            FleetProfile::Xmpp(profile) => {
                Client::Xmpp(Box::new(xmpp::Client::new(profile.clone(), number)))
            }
            FleetProfile::Http(profile) => {
                Client::Http(Box::new(http::Client::new(profile.clone())))
            }
            FleetProfile::Tcp => Client::Tcp(tcp::Client::default()),
        }
    }
}

/// One simulated client's machine.
pub(crate) enum Client {
    Miop(miop::Client),
    Mqtt(mqtt::VirtualClient),
    Im(Box<im::Client>),
    Xmpp(Box<xmpp::Client>),
    Http(Box<http::Client>),
    Tcp(tcp::Client),
}

/// Order to a simulated client.
#[derive(Clone, Debug)]
pub enum ClientAct {
    /// An action that every protocol knows.
    Do(Action),
    /// Publish to a topic (MQTT).
    Publish(Box<TopicMessage>),
    /// Say something to somebody (IM, XMPP).
    Say(Box<im::ChatSay>),
    /// Send these bytes and wait for their answer; none: the profile's (HTTP, TCP).
    Ask(Arc<[u8]>),
    /// Read nothing more, or read again.
    Hold(bool),
}

/// A message to a topic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicMessage {
    /// Topic that it is published to.
    pub topic: Box<str>,
    /// 0, 1 or 2.
    pub qos: u8,
    /// Whether the broker retains it for later subscribers.
    pub retain: bool,
    /// Payload of the message.
    pub body: Box<[u8]>,
}

type Out = Outbox<Observation>;
type Told = Result<(), CloseReason>;

impl Client {
    pub(super) fn opened(&mut self, now: Now, link: &Link, out: &mut Out) -> Told {
        match self {
            Client::Miop(client) => client.opened(now, link, out),
            Client::Mqtt(client) => client.opened(now, link, out),
            Client::Im(client) => client.opened(out),
            Client::Xmpp(client) => client.opened(out),
            Client::Http(client) => client.opened(out),
            Client::Tcp(client) => client.opened(out),
        }
    }

    pub(super) fn receive(&mut self, now: Now, input: &mut Input<'_>, out: &mut Out) -> Told {
        match self {
            Client::Miop(client) => client.receive(now, input, out),
            Client::Mqtt(client) => client.receive(now, input, out),
            Client::Im(client) => client.receive(now, input, out),
            Client::Xmpp(client) => client.receive(input, out),
            Client::Http(client) => client.receive(input, out),
            Client::Tcp(client) => client.receive(input, out),
        }
    }

    /// Carries out an order; orders that its protocol does not know do nothing.
    pub(super) fn command(&mut self, now: Now, act: ClientAct, out: &mut Out) -> Told {
        match (self, act) {
            (_, ClientAct::Hold(hold)) => out.hold(hold),
            (Client::Miop(client), ClientAct::Do(action)) => {
                return client.command(now, action, out);
            }
            (Client::Mqtt(client), ClientAct::Do(action)) => {
                return client.command(now, action, out);
            }
            (Client::Mqtt(client), ClientAct::Publish(topic_message)) => {
                let TopicMessage { topic, qos, retain, body } = &*topic_message;
                client.publish_to(now, topic, (*qos, *retain), body, out);
            }
            (Client::Im(client), ClientAct::Do(action)) => return client.act(&action, out),
            (Client::Im(client), ClientAct::Say(say)) => client.say(*say, out),
            (Client::Xmpp(client), ClientAct::Do(action)) => return client.act(&action, out),
            (Client::Xmpp(client), ClientAct::Say(say)) => client.say(&say, out),
            // Neither has a word for it.
            (Client::Http(_) | Client::Tcp(_), ClientAct::Do(Action::Unbind)) => {
                return Err(CloseReason::OwnStop);
            }
            (Client::Http(client), ClientAct::Ask(bytes)) => client.ask(&bytes, out),
            (Client::Tcp(client), ClientAct::Ask(bytes)) => client.ask(&bytes, out),
            _ => {}
        }
        Ok(())
    }

    pub(super) fn wake(&mut self, now: Now, out: &mut Out) -> Told {
        match self {
            Client::Miop(client) => client.wake(now, out),
            Client::Mqtt(client) => client.wake(now, out),
            Client::Im(client) => client.wake(out),
            Client::Xmpp(_) | Client::Http(_) | Client::Tcp(_) => Ok(()),
        }
    }

    /// TLS stands that it ordered, or does not begin.
    pub(super) fn tls_started(
        &mut self,
        link: Result<&Link, StartTlsRefusal>,
        out: &mut Out,
    ) -> Told {
        match (self, link) {
            (Client::Xmpp(client), Ok(_)) => client.encrypted(out),
            _ => return Err(CloseReason::TlsFailed),
        }
        Ok(())
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
            Client::Im(client) => client.closed(),
            Client::Xmpp(client) => client.closed(),
            Client::Http(client) => client.closed(out),
            Client::Tcp(client) => client.closed(),
        }
    }
}
