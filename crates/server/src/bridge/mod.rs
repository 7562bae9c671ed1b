//! Bridges to other MQTT brokers.
//!
//! A bridge has two legs: a session at the remote broker and one at our own, both durable unless it
//! is told otherwise. A message that comes in on one leg is acknowledged there when the other leg's
//! broker has it, and not before: while one side is away, messages wait in the other side's queue
//! for the bridge's session, and a crash loses none. At QoS 2 a message crosses under the packet
//! identifier that it came with, step by step, so that a crash doubles none either.
//!
//! Each bridge lives on a shard with a thread of its own ([`logic`]), so that a reload that changes
//! one does not touch the others. It knows no shard of the server and no store: our own broker is
//! an address to it, like the remote one. [`crossing`] passes messages between the legs, [`map`]
//! maps topics, [`settings`] has a bridge's settings.

mod crossing;
mod in_step;
mod leg;
mod logic;
pub mod map;
pub mod settings;

pub use map::{Direction, Topic};
use settings::LegPlan;
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
    running: Vec<RunningBridge>,
    /// Resolver for all of them, once one of them has a name.
    names: Option<Resolver>,
}

/// A bridge with its thread.
struct RunningBridge {
    settings: BridgeSection,
    status: Arc<Mutex<BridgeStatus>>,
    shard: Option<(BridgeMailbox, JoinHandle<()>)>,
}

/// Bytes waiting for a leg's socket beyond which messages of QoS 0 are dropped, and counted.
const QOS0_BACKLOG_BYTES_MAX: u32 = 1024 * 1024;
/// Bytes that may wait for it in all. Beyond, the broker does not read, and the connection ends.
const OUT_BYTES_MAX: u32 = 64 * 1024 * 1024;
/// Messages that wait for the shard of bridges: answers to look-ups.
const MESSAGES_MAX: usize = 1_024;

/// Starts the bridges that are to start, each on a thread of its own. An error says what to change.
pub fn start(
    all: Vec<BridgeSection>,
    local: &LocalBroker,
    look_ups: &NameSettings,
) -> Result<Bridges, String> {
    let mut bridges = Bridges::default();
    bridges.change(all, local, look_ups)?;
    Ok(bridges)
}

/// Room for the connections of a bridge, and for its largest packet.
fn limits(bridge: &BridgeSection) -> Limits {
    let largest = bridge.packet_bytes_max;
    Limits {
        connections_max: 4,
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

/// Caller of the resolver, which gets answers by mail.
fn asker(names: &Resolver, mailbox: BridgeMailbox) -> names::NameAsker {
    names.asker(Arc::new(move |ticket, answer| {
        // Without room the look-up has no answer in time, which the dialler knows how to take.
        let _ = mailbox.put(ShardMessage::Mail(BridgeMail::Names(ticket, answer)));
        mailbox.ring();
    }))
}

/// Resolver that is never asked, as only addresses and socket files are called.
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
    /// Runs these bridges from now on. One that runs with the same settings goes on untouched; the
    /// others stop, and those that are new or differ start. An error says what to change: if it is
    /// in the settings, nothing has changed; if a thread could not be started, its bridge is
    /// missing.
    pub fn change(
        &mut self,
        all: Vec<BridgeSection>,
        local: &LocalBroker,
        look_ups: &NameSettings,
    ) -> Result<(), String> {
        let wanted: Vec<_> = all.into_iter().filter(|settings| settings.enabled).collect();
        for settings in &wanted {
            plans(settings, local)?;
        }
        self.running.retain(|running| wanted.contains(&running.settings));
        let mut before = std::mem::take(&mut self.running);
        for settings in wanted {
            let at = before.iter().position(|running| running.settings == settings);
            let running = match at {
                Some(at) => before.swap_remove(at),
                None => match self.begin(settings, local, look_ups) {
                    Ok(running) => running,
                    Err(why) => {
                        self.running.append(&mut before);
                        return Err(why);
                    }
                },
            };
            self.running.push(running);
        }
        Ok(())
    }

    fn begin(
        &mut self,
        settings: BridgeSection,
        local: &LocalBroker,
        look_ups: &NameSettings,
    ) -> Result<RunningBridge, String> {
        let (seed, began) = (random()?, crate::clock::began());
        let limits = limits(&settings);
        let plans = plans(&settings, local)?;
        let mut addresses = plans.iter().flat_map(|plan| &plan.addresses);
        let asks_names = addresses.any(|address| is_name(&address.place));
        let mark = format!("{}-{seed:x}", settings.name);
        let name = settings.name.clone();
        let status = Arc::new(Mutex::new(BridgeStatus { name, ..BridgeStatus::default() }));
        let told = (mark, status.clone());
        let bridge = Bridge::new(settings.clone(), plans, seed, told, local.folder.clone())?;
        let mailbox = Mailbox::new(MESSAGES_MAX).map_err(failed)?;
        let names: Box<dyn NameResolver + Send> = match asks_names {
            true => {
                let resolver = match self.names.take() {
                    Some(resolver) => resolver,
                    None => Resolver::start(look_ups)?,
                };
                Box::new(asker(self.names.insert(resolver), mailbox.clone()))
            }
            false => Box::new(NoNames),
        };
        let dialler = Dialler::new(DialLimits::default(), seed);
        let logic = BridgeLogic::new(vec![bridge], dialler, names);
        let of_shard = net::Settings {
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
        let mut shard = Shard::new(of_shard, net.map_err(failed)?, logic);
        let builder = std::thread::Builder::new().name("bridge".into());
        let thread = builder.spawn(move || shard.run()).map_err(failed)?;
        Ok(RunningBridge { settings, status, shard: Some((mailbox, thread)) })
    }

    /// Function that returns the bridges' present states.
    pub fn statuses(&self) -> admin::BridgeStatuses {
        let statuses: Vec<_> = self.running.iter().map(|bridge| bridge.status.clone()).collect();
        let status = |status: &Arc<Mutex<BridgeStatus>>| {
            status.lock().unwrap_or_else(PoisonError::into_inner).clone()
        };
        Arc::new(move || statuses.iter().map(status).collect())
    }

    /// Present states of the bridges.
    pub fn status(&self) -> Vec<BridgeStatus> {
        (self.statuses())()
    }

    /// Stops them; each says farewell to both brokers.
    pub fn stop(&mut self) {
        self.running.iter().for_each(RunningBridge::tell_stop);
        self.running.iter_mut().for_each(RunningBridge::stop);
    }
}

/// The plans of a bridge's legs, at the remote broker and at ours.
fn plans(settings: &BridgeSection, local: &LocalBroker) -> Result<[LegPlan; 2], String> {
    settings.check()?;
    Ok([settings.remote()?, settings.ours(local)?])
}

impl RunningBridge {
    fn tell_stop(&self) {
        let Some((mailbox, thread)) = &self.shard else { return };
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
    }

    /// Waits for its end.
    fn stop(&mut self) {
        let Some((_, thread)) = self.shard.take() else { return };
        // One that broke off has said so in the log.
        let _ = thread.join();
    }
}

impl Drop for RunningBridge {
    fn drop(&mut self) {
        self.tell_stop();
        self.stop();
    }
}

#[cfg(test)]
mod tests;
