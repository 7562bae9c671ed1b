//! Carries what trackers hand out to a directory, whatever state that is in.
//!
//! The replicator renews the lease, writes records, compares buckets after a loss and slowly for
//! ever, and removes records of dead nodes. Each [`turn`](Replicator::turn) makes a few calls of
//! bounded size and no more, so that none of these waits long for another. The replicator knows
//! neither the kind of directory nor principals. Invariants: one offer a shard waits at most, and
//! each is answered once; nothing is called while the circuit is open; comparing and sweeping keep
//! their rates whatever happens.
//!
//! ```text
//!            a fault                         after a pause that doubles: the lease is tried
//! closed ────────────► open ────────────────────────────────────────────► half open
//!    ▲                  ▲                                fault              │ │
//!    │                  └───────────────────────────────────────────────────┘ │
//!    └────────────────────────────────────────────────────────────────────────┘ done
//! ```

mod breaker;
mod carry;
pub(crate) mod living;
mod resync;
mod sweep;
mod tally;

use crate::digests::Digests;
use base::time::{Instant, Now};
use breaker::CircuitBreaker;
use carry::{CarriedLoad, WriteOffer};
use living::Living;
use model::id::ShardId;
use model::ports::presence::directory::{
    Batch, Directory, DirectoryEntry, DirectoryError, History, Lease, Put,
};
use model::ports::presence::queries::{Circuit, ReplicationStatus};
use resync::Resync;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use sweep::Sweep;
use tally::ReplicationTally;

/// Records of one call to the directory, at most. More would stop Redis for longer than a
/// heartbeat of its own takes.
pub const ENTRIES_MAX: usize = 4_096;

/// Settings of a replicator.
#[derive(Clone, Debug)]
pub struct ReplicatorSettings {
    /// This node, and which start of it.
    pub lease: Lease,
    /// Shards of the process.
    pub shards: u16,
    /// The kind of directory, as [`ReplicationStatus`] tells it.
    pub kind: &'static str,
    /// How long a lease holds, milliseconds; it is renewed every third of it.
    pub lease_ms: u32,
    /// Buckets that are compared after a loss, a second.
    pub resync_per_s: u32,
    /// In how many seconds all buckets are compared though nothing was lost.
    pub background_s: u32,
    /// In how many seconds the first of the nodes looks for what the dead have left.
    pub sweep_s: u32,
    /// Age after which the record of one that is offline is removed, seconds.
    pub forget_after_s: u32,
    /// For jitter.
    pub seed: u64,
}

impl ReplicatorSettings {
    /// The defaults.
    pub fn new(lease: Lease, shards: u16, kind: &'static str, seed: u64) -> ReplicatorSettings {
        ReplicatorSettings {
            lease,
            shards,
            kind,
            lease_ms: 15_000,
            resync_per_s: 2_000,
            background_s: 60,
            sweep_s: 3_600,
            forget_after_s: 7 * 24 * 3_600,
            seed,
        }
    }
}

/// Sink in which a replicator puts what shards must know.
pub trait ReplicationSink {
    /// Takes the results of the batches that `shard` offered.
    fn written(&mut self, shard: ShardId, result: Result<Vec<Put>, DirectoryError>);

    /// All shards are to compare this bucket, which the directory has so.
    fn compare(&mut self, bucket: u16, stored: Arc<Vec<DirectoryEntry>>);
}

/// The replicator of a process.
pub struct Replicator {
    settings: ReplicatorSettings,
    digests: Arc<Digests>,
    offers: VecDeque<WriteOffer>,
    breaker: CircuitBreaker,
    lease_due: Instant,
    /// Moment until which the lease holds that was renewed last.
    leased_until: Instant,
    history: Option<History>,
    /// Whether a call failed since the lease was last renewed: what was written may be gone.
    doubt: bool,
    /// When a part of the directory did not answer last, while others did.
    untaken_at: Option<Instant>,
    resync: Resync,
    living: Living,
    sweep: Sweep,
    tally: ReplicationTally,
    traffic: (u64, u64),
}

impl Replicator {
    /// One that has not called yet.
    pub fn new(settings: ReplicatorSettings, digests: Arc<Digests>) -> Replicator {
        Replicator {
            breaker: CircuitBreaker::new(settings.seed),
            resync: Resync::new(&settings),
            living: Living::new(&settings),
            sweep: Sweep::new(&settings),
            offers: VecDeque::new(),
            lease_due: Instant::default(),
            leased_until: Instant::default(),
            history: None,
            doubt: false,
            untaken_at: None,
            tally: ReplicationTally::default(),
            traffic: (0, 0),
            settings,
            digests,
        }
    }

    /// A shard wants these written. It has no other offer here, and gets one answer to this one.
    pub fn offer(&mut self, shard: ShardId, batches: Vec<Batch>) {
        self.offers.push_back(WriteOffer { shard, batches });
    }

    /// Does what is due: a lease, a write, a comparison or a sweep, at most one of each. When it
    /// is to be called again, unless an offer comes before.
    pub fn turn(
        &mut self,
        now: Now,
        directory: &mut dyn Directory,
        sink: &mut dyn ReplicationSink,
    ) -> Instant {
        let tries = self.breaker.tries(now);
        if tries && (now.mono >= self.lease_due || self.breaker.circuit() == Circuit::HalfOpen) {
            self.renew(now, directory);
        }
        if self.works() {
            self.write(now, directory, sink);
        }
        if self.works() {
            self.look(now, directory, sink);
        }
        self.traffic = directory.traffic();
        if !self.works() {
            self.refuse(sink);
            return self.breaker.again_at();
        }
        let next = if self.offers.is_empty() { self.lease_due } else { now.mono };
        let next = next.min(self.resync.next(now)).min(self.sweep.next());
        next.max(now.mono)
    }

    /// How the copy stands.
    pub fn standing(&self, now: Now) -> ReplicationStatus {
        let mut counters = self.tally.counters(self.traffic);
        counters.extend(self.digests.counters());
        ReplicationStatus {
            kind: self.settings.kind,
            node: self.settings.lease.clone(),
            circuit: self.breaker.circuit(),
            unwritten: self.digests.unwritten(),
            lag_ms: self.digests.lag_ms(now.wall_ms),
            resync_left: self.resync.left(),
            fault: self.breaker.last().cloned(),
            counters,
        }
    }

    /// The process ends: so does the lease, if the directory can be reached.
    pub fn farewell(&mut self, directory: &mut dyn Directory) {
        if self.works() {
            // An error means that the lease ends by itself a little later.
            let _ = directory.release(&self.settings.lease);
            self.traffic = directory.traffic();
        }
    }

    fn works(&self) -> bool {
        self.breaker.circuit() == Circuit::Closed
    }

    fn renew(&mut self, now: Now, directory: &mut dyn Directory) {
        let lease_for = Duration::from_millis(self.settings.lease_ms.into());
        match directory.lease(&self.settings.lease, self.settings.lease_ms.into()) {
            Ok(history) => {
                self.breaker.worked();
                self.tally.leases += 1;
                self.lease_due = now.after(lease_for / 3);
                let before = self.history.replace(history);
                let other = before != self.history;
                // Without a lease, records are litter to others: a process that was stopped for
                // long sees no fault, and may have lost them all the same.
                let lapsed = now.mono > self.leased_until;
                // A part that answers again may be another copy of it.
                let whole = self.untaken_at.take_if(|at| now.mono - *at >= lease_for / 3).is_some();
                // Before the first lease nothing was written that could have been lost.
                if before.is_some() && (other || lapsed || whole || self.doubt) {
                    self.tally.resyncs += 1;
                    self.resync.begin();
                    self.living.shaken(now);
                }
                self.doubt = false;
                self.leased_until = now.after(lease_for);
            }
            Err(fault) => self.fault(now, &fault),
        }
    }

    /// Writes the offers that go into one call.
    fn write(&mut self, now: Now, directory: &mut dyn Directory, sink: &mut dyn ReplicationSink) {
        let Some(load) = carry::load(&mut self.offers) else { return };
        self.tally.puts += 1;
        let answers = directory.put(&load.batches).and_then(|answers| match answers.len() {
            count if count == load.entries() => Ok(answers),
            count => {
                Err(DirectoryError::Nonsense(format!("{count} answers to {}", load.entries())))
            }
        });
        let judged = answers.and_then(|mut answers| {
            self.living.judge(now, &mut answers, directory)?;
            Ok(answers)
        });
        let answers = match judged {
            Ok(answers) => Ok(self.wrote(now, answers)),
            Err(fault @ DirectoryError::Refused(_)) => self.refused(now, &load, fault, directory),
            Err(fault) => {
                self.fault(now, &fault);
                Err(fault)
            }
        };
        load.unload(answers, sink);
    }

    fn wrote(&mut self, now: Now, answers: Vec<Put>) -> Vec<Put> {
        self.breaker.wrote();
        for answer in &answers {
            match answer {
                Put::Taken => self.tally.records += 1,
                Put::Kept(_) => self.tally.kept += 1,
                Put::Untaken => {
                    self.tally.untaken += 1;
                    self.untaken_at = Some(now.mono);
                }
            }
        }
        answers
    }

    /// All of a write was refused. If the lease is not, only a part of the directory refuses, such
    /// as a bucket that moves: that is no reason to keep the others waiting.
    fn refused(
        &mut self,
        now: Now,
        load: &CarriedLoad,
        fault: DirectoryError,
        directory: &mut dyn Directory,
    ) -> Result<Vec<Put>, DirectoryError> {
        self.tally.fault(&fault);
        self.breaker.note(now, &fault);
        self.renew(now, directory);
        if !self.works() {
            return Err(fault);
        }
        Ok(self.wrote(now, vec![Put::Untaken; load.entries()]))
    }

    /// Compares a little and sweeps a little.
    fn look(&mut self, now: Now, directory: &mut dyn Directory, sink: &mut dyn ReplicationSink) {
        let sides = resync::ResyncSides { lease: &self.settings.lease, digests: &self.digests };
        let read = self.resync.step(now, sides, &mut self.tally, directory);
        let looked = read.and_then(|read| {
            let Some((bucket, mut stored)) = read else { return Ok(()) };
            self.living.judge_entries(now, &mut stored, directory)?;
            sink.compare(bucket, Arc::new(stored));
            Ok(())
        });
        match looked.and_then(|()| self.sweep.step(now, &mut self.tally, directory)) {
            Ok(()) => {}
            // A place refuses, and only that one: the others go on, and it is asked again.
            Err(fault @ (DirectoryError::Refused(_) | DirectoryError::Nonsense(_))) => {
                self.tally.fault(&fault);
                self.breaker.note(now, &fault);
            }
            Err(fault) => self.fault(now, &fault),
        }
    }

    /// Handles a fault: the directory is not called for a while.
    fn fault(&mut self, now: Now, fault: &DirectoryError) {
        self.tally.fault(fault);
        self.tally.openings += u64::from(self.breaker.circuit() == Circuit::Closed);
        self.doubt = true;
        self.breaker.failed(now, fault);
        self.living.shaken(now);
        self.sweep.forget();
    }

    /// Answers all offers with the fault because of which nothing is called.
    fn refuse(&mut self, sink: &mut dyn ReplicationSink) {
        for offer in self.offers.drain(..) {
            sink.written(offer.shard, Err(self.breaker.fault()));
        }
    }
}

#[cfg(test)]
mod tests;
