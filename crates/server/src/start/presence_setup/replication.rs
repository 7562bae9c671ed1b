//! The thread that carries records to the directory.
//!
//! Shards hand it what is to be written over a bounded channel and never wait: one that finds it
//! full gets the error that the directory is slow, and its tracker offers the same again. The
//! result goes back by mail. All decisions are the [`Replicator`]'s: here it gets a clock, a
//! directory and somebody to tell. Invariant: calls to a directory are made here, and in the
//! queries' own connections, and nowhere else.

use crate::clock;
use base::time::{Instant, Now};
use model::id::ShardId;
use model::ports::presence::directory::{Batch, Directory, DirectoryEntry, DirectoryError, Put};
use model::ports::presence::queries::{Circuit, ReplicationStatus};
use model::{event, tell};
use presence::{Digests, ReplicationSink, Replicator};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Batches on their way for each shard: its tracker has one out, and one more is never needed.
const ROOM_A_SHARD: usize = 2;

/// Batches of one shard.
type Offer = (ShardId, Vec<Batch>);

/// A shard's way to the thread.
#[derive(Clone)]
pub struct ReplicatorInbox {
    offers: SyncSender<Offer>,
}

impl ReplicatorInbox {
    /// Hands batches over; an error when they were not taken.
    pub fn offer(&self, shard: ShardId, batches: Vec<Batch>) -> Result<(), DirectoryError> {
        self.offers.try_send((shard, batches)).map_err(|error| match error {
            TrySendError::Full(_) => DirectoryError::Slow,
            TrySendError::Disconnected(_) => {
                DirectoryError::Unreachable("the writer has stopped".into())
            }
        })
    }
}

/// Latest status of the copy, as its thread last said.
#[derive(Clone)]
pub struct Latest {
    standing: Arc<Mutex<ReplicationStatus>>,
    digests: Arc<Digests>,
}

impl Latest {
    /// As it stood then, with what shards know better: how much is unwritten, and since when.
    pub fn standing(&self) -> ReplicationStatus {
        let standing = self.standing.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let lag_ms = self.digests.lag_ms(clock::wall_ms());
        ReplicationStatus { unwritten: self.digests.unwritten(), lag_ms, ..standing }
    }
}

/// The thread.
pub struct ReplicatorThread {
    copies: Option<ReplicatorInbox>,
    latest: Latest,
    thread: Option<JoinHandle<()>>,
}

/// Parts that the replicator's thread works with.
pub struct ReplicatorParts {
    /// Decides what is written when.
    pub replicator: Replicator,
    /// Directory that records are written to.
    pub directory: Box<dyn Directory>,
    /// Sink for results.
    pub sink: Box<dyn ReplicationSink + Send>,
    /// Unwritten entries.
    pub digests: Arc<Digests>,
}

impl ReplicatorThread {
    /// Begins to carry for so many shards.
    pub fn start(shards: usize, work: ReplicatorParts) -> std::io::Result<ReplicatorThread> {
        let (offers, offered) = mpsc::sync_channel(shards * ROOM_A_SHARD);
        let began = clock::began();
        let standing = work.replicator.standing(clock::now(began));
        let digests = work.digests.clone();
        let latest = Latest { standing: Arc::new(Mutex::new(standing)), digests };
        let shown = latest.clone();
        let run = move || Life { work, latest: shown, began, news: News::default() }.run(&offered);
        let thread = Builder::new().name("directory".into()).spawn(run)?;
        Ok(ReplicatorThread {
            copies: Some(ReplicatorInbox { offers }),
            latest,
            thread: Some(thread),
        })
    }

    /// A way to it.
    pub fn copies(&self) -> Option<ReplicatorInbox> {
        self.copies.clone()
    }

    /// State of the replication.
    pub fn latest(&self) -> Latest {
        self.latest.clone()
    }

    /// The shards have ended, and nobody hands anything over: ends this node's lease, and the
    /// thread.
    pub fn stop(&mut self) {
        self.copies = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tell!(event::THREAD_PANICKED, thread = "directory");
        }
    }
}

struct Life {
    work: ReplicatorParts,
    latest: Latest,
    began: std::time::Instant,
    news: News,
}

impl Life {
    fn run(mut self, offered: &Receiver<Offer>) {
        let mut wait = Duration::ZERO;
        loop {
            match offered.recv_timeout(wait) {
                Ok((shard, batches)) => self.work.replicator.offer(shard, batches),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            while let Ok((shard, batches)) = offered.try_recv() {
                self.work.replicator.offer(shard, batches);
            }
            let ReplicatorParts { replicator, directory, sink, .. } = &mut self.work;
            let now = clock::now(self.began);
            let due = replicator.turn(now, directory.as_mut(), sink.as_mut());
            let now = clock::now(self.began);
            wait = due - now.mono;
            self.show(now);
        }
        self.work.replicator.farewell(self.work.directory.as_mut());
    }

    /// Lets others see how it stands, and tells the log what changed.
    fn show(&mut self, now: Now) {
        let new = self.work.replicator.standing(now);
        self.news.look(now, &new);
        let latest = &self.latest.standing;
        *latest.lock().unwrap_or_else(PoisonError::into_inner) = new;
    }
}

/// How long a circuit must be closed, with something to write, before the directory is said to be
/// back: one that renews leases and refuses writes would be back every few seconds.
const BACK_AFTER: Duration = Duration::from_secs(1);

/// State that was logged last.
#[derive(Default)]
struct News {
    away: bool,
    comparing: bool,
    closed_since: Option<Instant>,
}

impl News {
    /// A line of the log for each change of state, and none between.
    fn look(&mut self, now: Now, standing: &ReplicationStatus) {
        let ReplicationStatus { unwritten, resync_left, .. } = *standing;
        let since = match standing.circuit {
            Circuit::Closed => Some(*self.closed_since.get_or_insert(now.mono)),
            Circuit::Open | Circuit::HalfOpen => None,
        };
        self.closed_since = since;
        match since {
            None if !self.away => {
                self.away = true;
                let fault = standing.fault.as_ref().map_or("", |(why, _)| why.as_str());
                tell!(event::DIRECTORY_AWAY, fault, unwritten);
            }
            Some(since) if self.away && (unwritten == 0 || now.mono - since >= BACK_AFTER) => {
                self.away = false;
                tell!(event::DIRECTORY_BACK, unwritten);
            }
            _ => {}
        }
        if self.comparing && resync_left == 0 {
            tell!(event::DIRECTORY_COMPARED);
        }
        self.comparing = resync_left > 0;
    }
}

/// Tells shards by their mailboxes, whatever waits there.
pub struct ShardMailboxes<F>(pub F);

impl<F: FnMut(ShardNotice)> ReplicationSink for ShardMailboxes<F> {
    fn written(&mut self, shard: ShardId, result: Result<Vec<Put>, DirectoryError>) {
        (self.0)(ShardNotice::Written(shard, result));
    }

    fn compare(&mut self, bucket: u16, stored: Arc<Vec<DirectoryEntry>>) {
        (self.0)(ShardNotice::Compare(bucket, stored));
    }
}

/// Notice of the replicator to shards.
pub enum ShardNotice {
    /// To one: what became of its batches.
    Written(ShardId, Result<Vec<Put>, DirectoryError>),
    /// For all shards: the directory's content of a bucket.
    Compare(u16, Arc<Vec<DirectoryEntry>>),
}
