//! Bridges to other MQTT brokers.
//!
//! A bridge has two legs: a session at the remote broker and one at our own, both durable unless it
//! is told otherwise. A message that comes in on one leg is acknowledged there when the other leg's
//! broker has it, and not before: while one side is away, messages wait in the other side's queue
//! for the bridge's session, and a crash loses none. At QoS 2 a message crosses under the packet
//! identifier that it came with, step by step, so that a crash doubles none either.
//!
//! All bridges live on one shard with a thread of its own ([`logic`]), which knows no shard of the
//! server and no store: our own broker is an address to it, as the remote ones are. What passes
//! between the legs stands in [`crossing`], how topics are mapped in [`map`], what a bridge is
//! asked for in [`settings`].

mod crossing;
mod in_step;
mod leg;
mod logic;
pub mod map;
pub mod settings;

pub use map::{Direction, Topic};
pub use settings::{BridgeProtocol, BridgeSection, LocalBroker};

use crate::start::{self, random_word};
use admin::BridgeStatus;
use base::hash::HashKey;
use client::Endpoint;
use crossing::Bridge;
use leg::CONNECT_TIME;
use logic::{BridgeLogic, BridgeMail};
use model::id::ShardId;
use model::limits::{DialLimits, Limits, TopicLimits};
use model::ports::names::{NameQuestion, NameResolver};
use names::{NameSettings, Resolver};
use net::epoll::Epoll;
use net::mailbox::Mailbox;
use net::shard::{Census, ShardMessage, ShardMessageOf};
use net::{Dialler, Shard};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

type BridgeMailbox = Arc<Mailbox<ShardMessageOf<BridgeLogic, OwnedFd>>>;

/// The bridges of this process. Dropping them stops them.
#[derive(Default)]
pub struct Bridges {
    statuses: Vec<Arc<Mutex<BridgeStatus>>>,
    shard: Option<(BridgeMailbox, JoinHandle<()>)>,
}

/// Bytes waiting for a leg's socket beyond which messages of QoS 0 are dropped, and counted.
const QOS0_BACKLOG_BYTES_MAX: u32 = 1024 * 1024;
/// Bytes that may wait for it in all. Beyond, the broker does not read, and the connection ends.
const OUT_BYTES_MAX: u32 = 64 * 1024 * 1024;
/// Messages that wait for the shard of bridges: answers to look-ups.
const MESSAGES_MAX: usize = 1_024;

/// Starts the bridges that are to start, on a thread for all. An error says what to change.
pub fn start(
    all: Vec<BridgeSection>,
    local: &LocalBroker,
    look_ups: &NameSettings,
) -> Result<Bridges, String> {
    let (mut bridges, mut statuses) = (Vec::new(), Vec::new());
    let (seed, began) = (random()?, crate::clock::began());
    let limits = limits(&all);
    let mut asks_names = false;
    for settings in all.into_iter().filter(|settings| settings.enabled) {
        settings.check()?;
        let plans = [settings.remote()?, settings.ours(local)?];
        let addresses = plans.iter().flat_map(|plan| &plan.addresses);
        asks_names |= addresses.map(|address| &address.place).any(is_name);
        let mark = format!("{}-{seed:x}", settings.name);
        let name = settings.name.clone();
        let status = Arc::new(Mutex::new(BridgeStatus { name, ..BridgeStatus::default() }));
        statuses.push(status.clone());
        let own = seed ^ statuses.len() as u64;
        bridges.push(Bridge::new(settings, plans, own, (mark, status), local.folder.clone())?);
    }
    if bridges.is_empty() {
        return Ok(Bridges::default());
    }
    let mailbox = Mailbox::new(MESSAGES_MAX).map_err(failed)?;
    let names: Box<dyn NameResolver + Send> = match asks_names {
        true => Box::new(asker(&Resolver::start(look_ups)?, mailbox.clone())),
        false => Box::new(NoNames),
    };
    let logic = BridgeLogic::new(bridges, Dialler::new(DialLimits::default(), seed), names);
    let settings = net::Settings {
        shard: ShardId(0),
        shards: 1,
        hash_key: HashKey::new(random()?, random()?),
        limits: Arc::new(limits),
        doors: Vec::new(),
        census: Arc::<Census>::default(),
        seed,
        secrets: start::random().map_err(|error| error.to_string())?,
    };
    let net = Epoll::new(ShardId(0), Vec::new(), Arc::new([mailbox.clone()]), began);
    let mut shard = Shard::new(settings, net.map_err(failed)?, logic);
    let builder = std::thread::Builder::new().name("bridges".into());
    let thread = builder.spawn(move || shard.run()).map_err(failed)?;
    Ok(Bridges { statuses, shard: Some((mailbox, thread)) })
}

/// Room for the connections of all bridges, and for the largest packet of any.
fn limits(all: &[BridgeSection]) -> Limits {
    let largest = all.iter().map(|bridge| bridge.packet_bytes_max).max().unwrap_or_default();
    Limits {
        connections_max: 4 * all.len() as u32,
        bind_ms_max: CONNECT_TIME.as_millis() as u32,
        out_bytes_max: OUT_BYTES_MAX,
        topics: TopicLimits {
            packet_bytes_max: largest,
            connect_bytes_max: largest,
            qos0_backlog_bytes_max: QOS0_BACKLOG_BYTES_MAX,
            ..TopicLimits::default()
        },
        ..Limits::default()
    }
}

fn is_name(place: &Endpoint) -> bool {
    matches!(place, Endpoint::Host(host, _) if host.parse::<IpAddr>().is_err())
}

/// Who asks for names, and is told by mail.
fn asker(names: &Resolver, mailbox: BridgeMailbox) -> names::NameAsker {
    names.asker(Arc::new(move |ticket, answer| {
        // Without room the look-up has no answer in time, which the dialler knows how to take.
        let _ = mailbox.put(ShardMessage::Mail(BridgeMail::Names(ticket, answer)));
        mailbox.ring();
    }))
}

/// Nobody to ask, for there are no names: only addresses and socket files.
struct NoNames;

impl NameResolver for NoNames {
    fn ask(&mut self, _: u64, _: NameQuestion) {}
}

fn random() -> Result<u64, String> {
    random_word().map_err(|error| error.to_string())
}

fn failed(error: std::io::Error) -> String {
    format!("bridges: cannot start their thread: {error}")
}

impl Bridges {
    /// How they are, whenever it is asked.
    pub fn statuses(&self) -> admin::BridgeStatuses {
        let statuses = self.statuses.clone();
        let status = |status: &Arc<Mutex<BridgeStatus>>| {
            status.lock().unwrap_or_else(PoisonError::into_inner).clone()
        };
        Arc::new(move || statuses.iter().map(status).collect())
    }

    /// How they are now.
    pub fn status(&self) -> Vec<BridgeStatus> {
        (self.statuses())()
    }

    /// Stops them; each says farewell to both brokers.
    pub fn stop(&mut self) {
        let Some((mailbox, thread)) = self.shard.take() else { return };
        let mut mail = ShardMessage::Mail(BridgeMail::Stop);
        while let Err(back) = mailbox.put(mail) {
            if thread.is_finished() {
                break;
            }
            mail = back;
            mailbox.ring();
            std::thread::yield_now();
        }
        mailbox.ring();
        // One that broke off has said so in the log.
        let _ = thread.join();
    }
}

impl Drop for Bridges {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests;
