//! A shard's keeper and the process's copyist, joined as the roof joins them, without threads.
//!
//! It plays the hub: it knows who is connected, draws versions, and says each transition. Time is
//! told to it, so that an hour need not take one. It does not know which directory there is.

use base::hash::HashKey;
use base::prng::Prng;
use base::time::{Instant, Now};
use model::close::CloseReason;
use model::id::ShardId;
use model::ports::directory::{Directory, Entry, Fault, Lease, Put};
use model::ports::presence::{Audit, AuditOrder, MemoryEntry, PresenceAnswer, PresenceCommand};
use model::ports::presence::{Remembered, Standing};
use model::presence::{NodeName, Principal, State, Transition, Version, VersionClock};
use presence::{Copyist, CopyistSettings, Desk, Digests, Effects, Keeper, Memory, Settings, Sides};
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// The wall clock when it began, Unix milliseconds.
const BEGAN_MS: u64 = 1_790_000_000_000;
const PROTOCOL: &str = "mqtt5";
const SHARD: ShardId = ShardId(0);

/// Keeper, copyist and devices.
pub struct Rig {
    pub keeper: Keeper,
    pub copyist: Copyist,
    pub digests: Arc<Digests>,
    /// Transitions said so far.
    pub said: u64,
    lease: Lease,
    devices: Vec<Principal>,
    online: Vec<bool>,
    clock: VersionClock,
    prng: Prng,
    fx: Effects,
}

/// What the directory's side has to say, until it is heard.
#[derive(Default)]
pub struct Letters {
    pub written: Vec<Result<Vec<Put>, Fault>>,
    pub compare: Vec<(u16, Arc<Vec<Entry>>)>,
}

impl Desk for Letters {
    fn written(&mut self, _: ShardId, result: Result<Vec<Put>, Fault>) {
        self.written.push(result);
    }

    fn compare(&mut self, bucket: u16, stored: Arc<Vec<Entry>>) {
        self.compare.push((bucket, stored));
    }
}

/// `ms` milliseconds after the beginning.
pub fn at(ms: u64) -> Now {
    Now::new(Instant::from_nanos(ms * 1_000_000), BEGAN_MS + ms)
}

/// A device's name, of the length that ids have.
pub fn device(number: u32) -> Principal {
    Principal::parse(&format!("demo#bench-{number:010}")).expect("a device's key")
}

impl Rig {
    /// A keeper of so many devices, none of them online; `copies`: whether there is a directory.
    pub fn new(devices: u32, copies: bool, kind: &'static str) -> Rig {
        let lease = Lease { node: NodeName::parse("bench").expect("a name"), boot: 0xbe };
        let digests = Digests::new();
        let settings = Settings {
            shard: SHARD,
            shards: 1,
            home: HashKey::new(1, 2),
            lease: lease.clone(),
            copies,
            history_max: 65_536,
            flush_ms: 10,
            seed: 3,
        };
        let copyist = CopyistSettings::new(lease.clone(), 1, kind, 4);
        Rig {
            keeper: Keeper::new(settings, Arc::clone(&digests)),
            copyist: Copyist::new(copyist, Arc::clone(&digests)),
            devices: (0..devices).map(device).collect(),
            online: vec![false; devices as usize],
            clock: VersionClock::default(),
            prng: Prng::new(5),
            fx: Effects::default(),
            said: 0,
            digests,
            lease,
        }
    }

    /// How this node is called.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// How many are connected.
    pub fn online(&self) -> u64 {
        self.online.iter().filter(|online| **online).count() as u64
    }

    /// That device comes, or goes.
    pub fn flap(&mut self, now: Now, number: u32) -> Version {
        let online = &mut self.online[number as usize];
        *online = !*online;
        let state =
            if *online { State::Online(PROTOCOL) } else { State::Offline(CloseReason::PeerReset) };
        let version = self.clock.next(now.wall_ms, SHARD);
        let who = self.devices[number as usize].clone();
        let transition = Transition { who, user: None, state, protocol: PROTOCOL, version };
        self.keeper.note(now, transition);
        self.said += 1;
        version
    }

    /// Some device comes or goes.
    pub fn flap_any(&mut self, now: Now) -> Version {
        let number = self.prng.below(self.devices.len() as u64) as u32;
        self.flap(now, number)
    }

    /// One turn of shard and directory's thread. When there is something to do again.
    pub fn turn(&mut self, now: Now, directory: &mut dyn Directory) -> Instant {
        let mut due = self.keeper.turn(now, &mut self.fx);
        if !self.fx.batches.is_empty() {
            self.copyist.offer(SHARD, std::mem::take(&mut self.fx.batches));
        }
        let mut letters = Letters::default();
        let copyist = self.copyist.turn(now, directory, &mut letters);
        let heard = !letters.written.is_empty() || !letters.compare.is_empty();
        self.hear(now, letters);
        if heard {
            due = Some(now.mono);
        }
        due.map_or(copyist, |due| due.min(copyist))
    }

    /// The shard reads its mail.
    pub fn hear(&mut self, now: Now, letters: Letters) {
        for result in letters.written {
            self.keeper.written(now, result, &mut self.fx);
        }
        for (bucket, stored) in letters.compare {
            self.keeper.compare(now, bucket, &stored, &mut self.fx);
        }
        if let Some(seen) = self.fx.observed.take() {
            self.clock.observe(seen);
        }
        assert!(self.fx.outvoted.is_empty(), "there is no other node");
    }

    /// What the keeper hands out, for whoever carries it himself.
    pub fn hand_out(&mut self, now: Now) -> Vec<model::ports::directory::Batch> {
        self.keeper.turn(now, &mut self.fx);
        std::mem::take(&mut self.fx.batches)
    }

    /// Turns until all is written and nothing is owed, from `ms` of told time on; until when.
    pub fn settle(&mut self, mut ms: u64, directory: &mut dyn Directory) -> io::Result<u64> {
        let until = ms + 600_000;
        loop {
            let due = self.turn(at(ms), directory).nanos().div_ceil(1_000_000);
            let Standing { unwritten, resync_left, .. } = self.copyist.standing(at(ms));
            if unwritten == 0 && resync_left == 0 {
                return Ok(ms);
            }
            if ms >= until {
                return Err(io::Error::other("it does not settle"));
            }
            ms = due.clamp(ms + 1, ms + 1_000);
        }
    }

    /// Compares; an error unless exactly `expected` principals differ.
    pub fn audit(&self, directory: &mut dyn Directory, expected: u64) -> io::Result<Audit> {
        let sides = Sides { lease: &self.lease, digests: &self.digests, memory: self, directory };
        let order = AuditOrder { settle_ms: 0, repair: false, told_max: 10 };
        let audit = presence::audit(order, sides, &mut |_| {}).map_err(refused)?;
        let differing: u64 = audit.persistent.values().sum();
        if differing != expected || audit.online != self.online() {
            return Err(io::Error::other(format!("instead of {expected}: {audit:?}")));
        }
        Ok(audit)
    }

    /// One of the counters.
    pub fn counter(&self, name: &str) -> u64 {
        let counters = self.copyist.standing(at(0)).counters;
        counters.iter().find(|(its, ..)| *its == name).map_or(0, |(.., value)| *value)
    }
}

impl Memory for Rig {
    fn entries(&self, buckets: Vec<u16>) -> Result<Vec<MemoryEntry>, Fault> {
        match self.keeper.answer(&PresenceCommand::Buckets(buckets)) {
            PresenceAnswer::Entries(entries) => Ok(entries),
            other => Err(Fault::Nonsense(format!("{other:?}"))),
        }
    }

    fn histories(&self, who: Vec<Principal>) -> Result<Vec<(Principal, Vec<Remembered>)>, Fault> {
        match self.keeper.answer(&PresenceCommand::Histories(who)) {
            PresenceAnswer::Histories(histories) => Ok(histories),
            other => Err(Fault::Nonsense(format!("{other:?}"))),
        }
    }

    fn compare(&self, _: u16, _: Arc<Vec<Entry>>) -> Result<(), Fault> {
        Err(Fault::Refused("nothing is repaired here".into()))
    }
}

/// A directory's fault as the scenario's.
pub fn refused(fault: Fault) -> io::Error {
    io::Error::other(fault.to_string())
}

/// Nanoseconds each.
pub fn nanos_each(span: Duration, count: u64) -> f64 {
    span.as_nanos() as f64 / count.max(1) as f64
}

/// CPU time of this thread.
pub fn worked() -> Duration {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32)
}
