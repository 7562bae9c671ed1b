//! Presence in a real redis-server of the bench's own: how much it takes, how far it lags, what a
//! transition costs it, and how long it takes to compare a million.
//!
//! Two threads as in the server: a shard that notes and hands out, and one that calls. Redis keeps
//! nothing on disk and has the machine's other core; rates on a shared machine say little, its CPU
//! and its bytes for a transition say what it costs.

use super::DEVICES;
use super::rig::{Replies, Rig, at, nanos_each, refused};
use crate::clock;
use crate::measure::cpu;
use crate::measure::slope::quantile;
use crate::results::Outcome;
use crate::scenario::Scale;
use base::time::Now;
use directory::{Redis, RedisTls, Settings};
use model::id::ShardId;
use model::ports::presence::directory::{Batch, Directory, DirectoryEntry, DirectoryError, Put};
use model::presence::PresenceVersion;
use presence::{Digests, ReplicationSink, Replicator, ReplicatorSettings};
use serde_json::json;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use testkit::redis::{RedisOptions, RedisServer};

/// Transitions that wait while as many as possible are written.
const WAITING: u64 = 12_000;
const SUSTAINED_S: u32 = 10;
const PACE_PER_S: u64 = 10_000;
const PACED_S: u32 = 20;
/// Longest queue of the directory's thread.
const MAIL: usize = 32_768;

enum StoreReply {
    Written(Result<Vec<Put>, DirectoryError>),
    Compare(u16, Arc<Vec<DirectoryEntry>>),
}

struct Post(SyncSender<StoreReply>);

impl ReplicationSink for Post {
    fn written(&mut self, _: ShardId, result: Result<Vec<Put>, DirectoryError>) {
        let _ = self.0.send(StoreReply::Written(result)); // an error says that the run is over
    }

    fn compare(&mut self, bucket: u16, stored: Arc<Vec<DirectoryEntry>>) {
        let _ = self.0.send(StoreReply::Compare(bucket, stored));
    }
}

/// Bytes to and from Redis.
#[derive(Default)]
struct Traffic {
    sent: AtomicU64,
    received: AtomicU64,
}

/// A shard and a directory's thread.
struct Live {
    rig: Rig,
    offers: Option<SyncSender<Vec<Batch>>>,
    mail: Receiver<StoreReply>,
    courier: Option<JoinHandle<Replicator>>,
    traffic: Arc<Traffic>,
    began: Instant,
    /// When each transition that waits was noted, and those that are out.
    noted: HashMap<PresenceVersion, Instant>,
    out: Vec<PresenceVersion>,
    lags_ms: Vec<f64>,
    taken: u64,
}

/// Runs the scenario.
pub fn run(scale: Scale) -> io::Result<Outcome> {
    let devices = scale.of(DEVICES);
    let server = RedisServer::start(RedisOptions { lines: quiet(), ..RedisOptions::default() });
    let pid = u32::try_from(server.pid().as_raw_nonzero().get()).map_err(io::Error::other)?;
    let empty = used_memory(&server);
    let mut live = Live::start(devices, open(&server)?)?;
    let mut outcome = Outcome::new(json!({
        "devices": devices, "sustained_s": scale.of(SUSTAINED_S), "paced_s": scale.of(PACED_S),
        "pace": PACE_PER_S, "redis": server.cli(&["INFO", "server"]).lines().nth(1),
        "persistence": "none", "shards": 1,
    }));
    let (began, cpu_before) = (clock::now(), cpu::used(pid)?);
    live.fill(devices)?;
    let rate = f64::from(devices) / clock::since(began).as_secs_f64();
    let filling = nanos_each(cpu::used(pid)?.saturating_sub(cpu_before), u64::from(devices));
    let each = (used_memory(&server) - empty) / f64::from(devices);
    live.sustain(&mut outcome, scale, pid)?;
    live.pace(&mut outcome, scale)?;
    live.settle()?;
    outcome.figure("filling an empty one", rate, "records/s");
    outcome.figure("CPU of Redis a record, filling", filling / 1e3, "µs");
    outcome.figure("memory of Redis a record", each, "bytes");
    let mut looking = open(&server)?;
    let (began, cpu_before) = (clock::now(), cpu::used(pid)?);
    let audit = live.rig.audit(&mut looking, 0)?;
    outcome.figure("audit", clock::since(began).as_secs_f64(), "s");
    let spent = cpu::used(pid)?.saturating_sub(cpu_before);
    outcome.figure("CPU of Redis for an audit", spent.as_secs_f64(), "s");
    outcome.figure("persistent differences", audit.persistent.len() as f64, "");
    outcome.detail("online at the audit", audit.online);
    let standing = live.end()?.standing(at(0));
    let counters = standing.counters.into_iter();
    let counters = counters.map(|(name, _, value)| (name.to_owned(), json!(value)));
    outcome.detail("counters", counters.collect::<serde_json::Map<_, _>>());
    Ok(outcome)
}

fn quiet() -> Vec<String> {
    vec!["save \"\"".into(), "appendonly no".into()]
}

fn open(server: &RedisServer) -> io::Result<Redis> {
    let settings = Settings {
        url: server.url(),
        prefix: "holdline:".into(),
        address: String::new(),
        timeout_ms: 500,
        tls: RedisTls::default(),
    };
    Redis::new(&settings).map_err(io::Error::other)
}

/// Bytes that Redis has allocated.
fn used_memory(server: &RedisServer) -> f64 {
    let told = server.cli(&["INFO", "memory"]);
    let line = told.lines().find_map(|line| line.trim().strip_prefix("used_memory:"));
    line.and_then(|bytes| bytes.parse().ok()).unwrap_or(f64::NAN)
}

impl Live {
    fn start(devices: u32, redis: Redis) -> io::Result<Live> {
        let rig = Rig::new(devices, true, "redis");
        let (offers, offered) = sync_channel(4);
        let (post, mail) = sync_channel(MAIL);
        let (traffic, began) = (Arc::new(Traffic::default()), clock::now());
        let settings = ReplicatorSettings::new(rig.lease().clone(), 1, "redis", 6);
        let (digests, shared) = (Arc::clone(&rig.digests), Arc::clone(&traffic));
        let courier = Courier { settings, digests, traffic: shared, began, offered };
        let courier = Builder::new()
            .name("directory".into())
            .spawn(move || courier.carry(redis, &mut Post(post)))?;
        Ok(Live {
            rig,
            mail,
            traffic,
            began,
            offers: Some(offers),
            courier: Some(courier),
            noted: HashMap::new(),
            out: Vec::new(),
            lags_ms: Vec::new(),
            taken: 0,
        })
    }

    fn now(&self) -> Now {
        now(self.began)
    }

    /// The shard's turn: mail, then what is due. Waits a moment if there is nothing.
    fn step(&mut self, wait: Duration) -> io::Result<()> {
        let now = self.now();
        let first = self.mail.recv_timeout(wait).ok();
        let mut replies = Replies::default();
        for reply in first.into_iter().chain(self.mail.try_iter()) {
            match reply {
                StoreReply::Compare(bucket, stored) => replies.compare.push((bucket, stored)),
                StoreReply::Written(result) => {
                    let puts = result.as_ref().map_err(|fault| refused(fault.clone()))?;
                    let read = clock::now();
                    for (version, put) in self.out.drain(..).zip(puts) {
                        self.taken += u64::from(*put == Put::Taken);
                        if let Some(noted) = self.noted.remove(&version) {
                            self.lags_ms.push((read - noted).as_secs_f64() * 1e3);
                        }
                    }
                    replies.written.push(result);
                }
            }
        }
        self.rig.hear(now, replies);
        let batches = self.rig.hand_out(now);
        if !batches.is_empty() {
            let entries = batches.iter().flat_map(|batch| &batch.entries);
            self.out = entries.map(|(_, record)| record.version).collect();
            let offers = self.offers.as_ref().expect("it is open until the end");
            offers.send(batches).map_err(io::Error::other)?;
        }
        Ok(())
    }

    fn fill(&mut self, devices: u32) -> io::Result<()> {
        let mut next = 0;
        while next < devices || self.rig.digests.unwritten() > 0 {
            while next < devices && self.rig.digests.unwritten() < WAITING {
                let now = self.now();
                self.rig.flap(now, next);
                next += 1;
            }
            self.step(Duration::from_millis(1))?;
        }
        Ok(())
    }

    /// Measures the highest rate of transitions that the directory takes.
    fn sustain(&mut self, outcome: &mut Outcome, scale: Scale, pid: u32) -> io::Result<()> {
        let (began, cpu_before, taken) = (clock::now(), cpu::used(pid)?, self.taken);
        let bytes = |traffic: &Traffic| {
            (traffic.sent.load(Ordering::Relaxed), traffic.received.load(Ordering::Relaxed))
        };
        let (sent, received) = bytes(&self.traffic);
        let span = Duration::from_secs(u64::from(scale.of(SUSTAINED_S)));
        while clock::since(began) < span {
            while self.rig.digests.unwritten() < WAITING {
                let now = self.now();
                self.rig.flap_any(now);
            }
            self.step(Duration::from_millis(1))?;
        }
        let (took, count) = (clock::since(began), self.taken - taken);
        let spent = cpu::used(pid)?.saturating_sub(cpu_before);
        let (sent_then, received_then) = bytes(&self.traffic);
        let each = |bytes: u64| bytes as f64 / count.max(1) as f64;
        outcome.figure("sustained", count as f64 / took.as_secs_f64(), "transitions/s");
        outcome.figure("CPU of Redis a transition", nanos_each(spent, count) / 1e3, "µs");
        outcome.figure("sent to Redis a transition", each(sent_then - sent), "bytes");
        outcome.figure("received from Redis a transition", each(received_then - received), "bytes");
        Ok(())
    }

    /// At a pace; how old each transition is when its answer is read.
    fn pace(&mut self, outcome: &mut Outcome, scale: Scale) -> io::Result<()> {
        self.settle()?;
        let (began, mut said) = (clock::now(), 0);
        let span = Duration::from_secs(u64::from(scale.of(PACED_S)));
        self.lags_ms.clear();
        while clock::since(began) < span {
            let due = clock::since(began).as_micros() as u64 * PACE_PER_S / 1_000_000;
            while said < due {
                let now = self.now();
                let version = self.rig.flap_any(now);
                self.noted.insert(version, clock::now());
                said += 1;
            }
            self.step(Duration::from_micros(500))?;
        }
        self.settle()?;
        self.noted.clear();
        for (figure, share) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
            let name = format!("lag at 10,000 a second, {figure}");
            outcome.figure(&name, quantile(&self.lags_ms, share), "ms");
        }
        outcome.detail("lags measured", self.lags_ms.len());
        Ok(())
    }

    fn settle(&mut self) -> io::Result<()> {
        while self.rig.digests.unwritten() > 0 {
            self.step(Duration::from_millis(1))?;
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<Replicator> {
        self.offers = None;
        let courier = self.courier.take().expect("it ends once");
        courier.join().map_err(|_| io::Error::other("the directory's thread panicked"))
    }
}

fn now(began: Instant) -> Now {
    at(clock::since(began).as_millis() as u64)
}

/// Parts of the directory's thread.
struct Courier {
    settings: ReplicatorSettings,
    digests: Arc<Digests>,
    traffic: Arc<Traffic>,
    began: Instant,
    offered: Receiver<Vec<Batch>>,
}

impl Courier {
    fn carry(self, mut redis: Redis, sink: &mut Post) -> Replicator {
        let mut replicator = Replicator::new(self.settings, self.digests);
        loop {
            let due = replicator.turn(now(self.began), &mut redis, sink);
            let (sent, received) = redis.traffic();
            self.traffic.sent.store(sent, Ordering::Relaxed);
            self.traffic.received.store(received, Ordering::Relaxed);
            match self.offered.recv_timeout(due - now(self.began).mono) {
                Ok(batches) => replicator.offer(ShardId(0), batches),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    replicator.farewell(&mut redis);
                    return replicator;
                }
            }
        }
    }
}
