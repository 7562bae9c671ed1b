//! The scenarios: each starts what it needs afresh, measures one thing, and ends it all.
//!
//! [`ALL`] is the only list of them. A scenario knows how its figure is taken and not how it is
//! judged or stored. Every one is bounded in counts and in time.

mod echo;
mod fanout;
mod front_door;
mod idle;
pub mod lab;
pub mod log;
mod login;
mod memory;
mod mqtt;
pub mod presence_copy;
mod push;
mod sim;
pub mod stages;
mod stalls;
pub mod vm;

use crate::results::Outcome;
use std::io;

/// How a run is scaled.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// For trying out: a tenth of the connections and of the time.
    pub quick: bool,
}

impl Scale {
    /// `count` connections, rounds or messages, or a tenth of them.
    pub fn of(self, count: u32) -> u32 {
        if self.quick { (count / 10).max(1) } else { count }
    }
}

/// A scenario: its name, and how it runs.
pub type Scenario = (&'static str, fn(Scale) -> io::Result<Outcome>);

/// All scenarios, in the order in which they run.
pub const ALL: &[Scenario] = &[
    ("memory-plain", memory::plain),
    ("memory-tls", memory::tls),
    ("memory-websocket", memory::websocket),
    ("echo", echo::run),
    ("login", login::run),
    ("front-door", front_door::run),
    ("fan-out", fanout::run),
    ("idle", idle::run),
    ("empty", mqtt::empty),
    ("quiet", mqtt::quiet),
    ("console", idle::console),
    ("trace", idle::traced),
    ("push-ack", push::run),
    ("log-append", log::append),
    ("log-fanout", log::fanout),
    ("log-posting", log::posting),
    ("log-chat-send", log::chat_send),
    ("log-pull", log::pull),
    ("log-recovery", log::recovery),
    ("log-memory", log::memory),
    ("log-stall", log::stall),
    ("im-w1", lab::im::w1),
    ("im-w1-pipelined", lab::im::w1_pipelined),
    ("im-w2", lab::im::w2),
    ("im-w2-pipelined", lab::im::w2_pipelined),
    ("im-w3", lab::im::w3),
    ("im-w4", lab::im::w4),
    ("im-w5", lab::im::w5),
    ("im-w5-read", lab::im::w5_read),
    ("im-w6", lab::im::w6),
    ("im-w7", lab::im::w7),
    ("im-w8", lab::im::w8),
    ("im-latency", lab::latency),
    ("im-sizes", lab::sizes),
    ("im-accounts-embedded", lab::chat::accounts::embedded),
    ("im-accounts-mariadb", lab::chat::accounts::in_mariadb),
    ("im-archive", lab::chat::w1_mariadb),
    ("im-memory", lab::chat::memory),
    ("im-pull", lab::chat::pull),
    ("im-login-sync", lab::chat::login_sync),
    ("im-wukongim-100", lab::w11),
    ("im-wukongim-large", lab::w12),
    ("im-goim", lab::w13),
    ("im-wukongim-api", lab::chat::wukongim_api),
    ("im-push", lab::chat::push),
    ("im-media", lab::chat::media),
    ("mqtt-memory", mqtt::memory),
    ("mqtt-pages", mqtt::pages),
    ("mqtt-connect", mqtt::connect),
    ("mqtt-shapes", mqtt::shapes),
    ("mqtt-latency", mqtt::latency),
    ("mqtt-kept", mqtt::kept),
    ("mqtt-retained", mqtt::retained),
    ("xmpp", crate::swarm::xmpp::run),
    ("xmpp-room", crate::swarm::xmpp::room::run),
    ("xmpp-tigase", lab::chat::tigase::embedded),
    ("xmpp-tigase-mariadb", lab::chat::tigase::in_mariadb),
    ("stalls", stalls::run),
    ("presence-note", presence_copy::note),
    ("presence-memory", presence_copy::memory),
    ("presence-hour", presence_copy::hour),
    ("presence-audit", presence_copy::audit),
    ("presence-redis", presence_copy::redis),
    ("lab-clients", lab::clients),
    ("lab-rate", lab::highest),
    ("sim-1m", sim::million),
    ("sim-10m", sim::ten_million),
    ("sim-mqtt-10m", sim::ten_million_mqtt),
    ("sim-im-1m", sim::million_im),
    ("sim-mqtt-storm", sim::storm),
];

/// The core that measured programs are kept on, where CPU is compared.
pub const SERVER_CORE: usize = 0;
/// The core that their callers are kept on: another one, if there is one.
pub const CALLER_CORE: usize = 1;
