//! The table of protocols: which machine speaks which.
//!
//! One variant a protocol, stored in the connection's record itself: sixteen bytes, the tag
//! included, with whatever is not idle boxed by the machine (docs/adr/0003). A new protocol is a
//! new variant here and a line in each match. [`ChatOverMqtt`] is two of them on one connection.

mod chat_over_mqtt;

pub use self::chat_over_mqtt::ChatOverMqtt;
use base::time::Now;
use model::chat::foreign::ForeignDomains;
use model::close::CloseReason;
use model::link::{Link, Protocol, StartTlsRefusal, WireProfile};
use model::machine::{Input, Machine, Outbox, TurnAway};
use model::service::{Delivery, Request};
use model::session::SessionDelivery;
use net::connection::{ConnectionRecord, RECORD_BYTES_MAX};
pub use proto_im::server::ImListener;
pub use proto_mqtt::server::ListenerProfile;
pub use proto_xmpp::server::XmppListener;
use std::mem::size_of;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Protocols that one listener can tell apart.
pub const WIRES: [WireProfile; 4] =
    [proto_miop::WIRE, proto_mqtt::WIRE, proto_im::WIRE, proto_xmpp::WIRE];

/// Profile of a listener: how each protocol is taken there.
#[derive(Clone)]
pub struct DoorProfile {
    /// MQTT, and how long any protocol may take to log in.
    pub mqtt: ListenerProfile,
    /// IM.
    pub im: Arc<ImListener>,
    /// XMPP.
    pub xmpp: Arc<XmppListener>,
}

impl DoorProfile {
    /// A profile that tolerates no faults; accounts are of this domain, unless they name another.
    pub fn strict(bind_ms_max: u32, domain: &str) -> DoorProfile {
        let im = Arc::new(ImListener { bind_ms_max, domain: domain.into() });
        let xmpp = Arc::new(XmppListener {
            bind_ms_max,
            registration: model::ports::users::Registration::Password,
            domains: Arc::new(ForeignDomains { own: domain.into(), ..ForeignDomains::default() }),
            scram_sha_256: true,
            scram_sha_1: false,
            plain: true,
            certificates: true,
            guests: false,
            fast: true,
            advertised: Arc::default(),
        });
        DoorProfile { mqtt: ListenerProfile::strict(bind_ms_max), im, xmpp }
    }
}

/// The server machine of any protocol.
pub enum ServerMachine {
    /// MIOP 5, 6 and 7.
    Miop(proto_miop::server::Server),
    /// MQTT 3.1, 3.1.1 and 5.
    Mqtt(proto_mqtt::server::Server),
    /// IM.
    Im(proto_im::server::Server),
    /// XMPP.
    Xmpp(proto_xmpp::server::Server),
    /// MQTT whose client is a device of an account, once it is one.
    ChatOverMqtt(Box<ChatOverMqtt>),
}

const _: () =
    assert!(size_of::<Option<ConnectionRecord<ServerMachine, OwnedFd>>>() <= RECORD_BYTES_MAX);

impl ServerMachine {
    /// The machine for a connection, `None` when its protocol is not served. `profile` is its
    /// listener's.
    pub fn new(link: &Link, profile: &DoorProfile) -> Option<ServerMachine> {
        match link.protocol {
            Protocol::Miop => {
                let machine = proto_miop::server::Server::new(profile.mqtt.bind_ms_max);
                Some(ServerMachine::Miop(machine))
            }
            Protocol::Mqtt => {
                Some(ServerMachine::Mqtt(proto_mqtt::server::Server::new(profile.mqtt)))
            }
            Protocol::Im => {
                Some(ServerMachine::Im(proto_im::server::Server::new(profile.im.clone())))
            }
            Protocol::Xmpp => {
                let machine = proto_xmpp::server::Server::new(profile.xmpp.clone());
                Some(ServerMachine::Xmpp(machine))
            }
            Protocol::Http | Protocol::Tls => None,
        }
    }
}

type Out = Outbox<Request>;

/// Whether the broker says something that the machine of MQTT alone cannot do.
fn is_about_chat(down: &Delivery) -> bool {
    matches!(down, Delivery::Topics(SessionDelivery::Call(_) | SessionDelivery::Device(_)))
}

impl Machine for ServerMachine {
    type Up = Request;
    type Down = Delivery;

    fn opened(&mut self, now: Now, link: &Link, out: &mut Out) -> Result<(), CloseReason> {
        match self {
            ServerMachine::Miop(machine) => machine.opened(now, link, out),
            ServerMachine::Mqtt(machine) => machine.opened(now, link, out),
            ServerMachine::Im(machine) => machine.opened(now, link, out),
            ServerMachine::Xmpp(machine) => machine.opened(now, link, out),
            ServerMachine::ChatOverMqtt(machine) => machine.opened(now, link, out),
        }
    }

    fn receive(
        &mut self,
        now: Now,
        input: &mut Input<'_>,
        out: &mut Out,
    ) -> Result<(), CloseReason> {
        match self {
            ServerMachine::Miop(machine) => machine.receive(now, input, out),
            ServerMachine::Mqtt(machine) => machine.receive(now, input, out),
            ServerMachine::Im(machine) => machine.receive(now, input, out),
            ServerMachine::Xmpp(machine) => machine.receive(now, input, out),
            ServerMachine::ChatOverMqtt(machine) => machine.receive(now, input, out),
        }
    }

    fn command(&mut self, now: Now, down: Delivery, out: &mut Out) -> Result<(), CloseReason> {
        if let ServerMachine::Mqtt(machine) = self
            && is_about_chat(&down)
        {
            let unused = proto_mqtt::server::Server::new(ListenerProfile::strict(0));
            let machine = ChatOverMqtt::of(std::mem::replace(machine, unused));
            *self = ServerMachine::ChatOverMqtt(Box::new(machine));
        }
        match self {
            ServerMachine::Miop(machine) => machine.command(now, down, out),
            ServerMachine::Mqtt(machine) => machine.command(now, down, out),
            ServerMachine::Im(machine) => machine.command(now, down, out),
            ServerMachine::Xmpp(machine) => machine.command(now, down, out),
            ServerMachine::ChatOverMqtt(machine) => machine.command(now, down, out),
        }
    }

    fn wake(&mut self, now: Now, out: &mut Out) -> Result<(), CloseReason> {
        match self {
            ServerMachine::Miop(machine) => machine.wake(now, out),
            ServerMachine::Mqtt(machine) => machine.wake(now, out),
            ServerMachine::Im(machine) => machine.wake(now, out),
            ServerMachine::Xmpp(machine) => machine.wake(now, out),
            ServerMachine::ChatOverMqtt(machine) => machine.wake(now, out),
        }
    }

    fn drained(&mut self, now: Now, out: &mut Out) -> Result<(), CloseReason> {
        match self {
            ServerMachine::Miop(machine) => machine.drained(now, out),
            ServerMachine::Mqtt(machine) => machine.drained(now, out),
            ServerMachine::Im(machine) => machine.drained(now, out),
            ServerMachine::Xmpp(machine) => machine.drained(now, out),
            ServerMachine::ChatOverMqtt(machine) => machine.drained(now, out),
        }
    }

    fn tls_started(
        &mut self,
        now: Now,
        link: Result<&Link, StartTlsRefusal>,
        out: &mut Out,
    ) -> Result<(), CloseReason> {
        match self {
            ServerMachine::Miop(machine) => machine.tls_started(now, link, out),
            ServerMachine::Mqtt(machine) => machine.tls_started(now, link, out),
            ServerMachine::Im(machine) => machine.tls_started(now, link, out),
            ServerMachine::Xmpp(machine) => machine.tls_started(now, link, out),
            ServerMachine::ChatOverMqtt(machine) => machine.tls_started(now, link, out),
        }
    }

    fn silent(&mut self, now: Now, out: &mut Out) -> Result<(), CloseReason> {
        match self {
            ServerMachine::Miop(machine) => machine.silent(now, out),
            ServerMachine::Mqtt(machine) => machine.silent(now, out),
            ServerMachine::Im(machine) => machine.silent(now, out),
            ServerMachine::Xmpp(machine) => machine.silent(now, out),
            ServerMachine::ChatOverMqtt(machine) => machine.silent(now, out),
        }
    }

    fn turn_away(&mut self, now: Now, away: TurnAway<'_>, out: &mut Out) {
        match self {
            ServerMachine::Miop(machine) => machine.turn_away(now, away, out),
            ServerMachine::Mqtt(machine) => machine.turn_away(now, away, out),
            ServerMachine::Im(machine) => machine.turn_away(now, away, out),
            ServerMachine::Xmpp(machine) => machine.turn_away(now, away, out),
            ServerMachine::ChatOverMqtt(machine) => machine.turn_away(now, away, out),
        }
    }

    fn closed(&mut self, now: Now, reason: CloseReason, out: &mut Out) {
        match self {
            ServerMachine::Miop(machine) => machine.closed(now, reason, out),
            ServerMachine::Mqtt(machine) => machine.closed(now, reason, out),
            ServerMachine::Im(machine) => machine.closed(now, reason, out),
            ServerMachine::Xmpp(machine) => machine.closed(now, reason, out),
            ServerMachine::ChatOverMqtt(machine) => machine.closed(now, reason, out),
        }
    }
}
