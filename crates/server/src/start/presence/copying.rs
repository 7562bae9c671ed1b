//! The thread that carries records to the directory.
//!
//! Shards hand it what is to be written over a bounded channel and never wait: one that finds it
//! full is told that the directory is slow, and its keeper offers the same again. What became of it
//! goes back by mail. All decisions are the [`Copyist`]'s: here it gets a clock, a directory and
//! somebody to tell. Invariant: calls to a directory are made here, and in the office's own
//! connections, and nowhere else.

use crate::clock;
use base::time::{Instant, Now};
use model::id::ShardId;
use model::ports::directory::{Batch, Directory, Entry, Fault, Put};
use model::ports::presence::{Circuit, Standing};
use presence::{Copyist, Desk, Digests};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Batches on their way for each shard: its keeper has one out, and one more is never needed.
const ROOM_A_SHARD: usize = 2;

/// What one shard hands over.
type Offer = (ShardId, Vec<Batch>);

/// A shard's way to the thread.
#[derive(Clone)]
pub struct Copies {
    offers: SyncSender<Offer>,
}

impl Copies {
    /// Hands batches over; an error when they were not taken.
    pub fn offer(&self, shard: ShardId, batches: Vec<Batch>) -> Result<(), Fault> {
        self.offers.try_send((shard, batches)).map_err(|error| match error {
            TrySendError::Full(_) => Fault::Slow,
            TrySendError::Disconnected(_) => Fault::Unreachable("nobody writes any more".into()),
        })
    }
}

/// How the copy stood when its thread last said so.
#[derive(Clone)]
pub struct Latest {
    standing: Arc<Mutex<Standing>>,
    digests: Arc<Digests>,
}

impl Latest {
    /// As it stood then, with what shards know better: how much is unwritten, and since when.
    pub fn standing(&self) -> Standing {
        let standing = self.standing.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let lag_ms = self.digests.lag_ms(clock::wall_ms());
        Standing { unwritten: self.digests.unwritten(), lag_ms, ..standing }
    }
}

/// The thread.
pub struct Copying {
    copies: Option<Copies>,
    latest: Latest,
    thread: Option<JoinHandle<()>>,
}

/// What the thread works with.
pub struct Work {
    /// Who decides.
    pub copyist: Copyist,
    /// Where to.
    pub directory: Box<dyn Directory>,
    /// Whom to tell.
    pub desk: Box<dyn Desk + Send>,
    /// What is unwritten.
    pub digests: Arc<Digests>,
}

impl Copying {
    /// Begins to carry for so many shards.
    pub fn start(shards: usize, work: Work) -> std::io::Result<Copying> {
        let (offers, offered) = mpsc::sync_channel(shards * ROOM_A_SHARD);
        let began = clock::began();
        let standing = work.copyist.standing(clock::now(began));
        let digests = work.digests.clone();
        let latest = Latest { standing: Arc::new(Mutex::new(standing)), digests };
        let shown = latest.clone();
        let run = move || Life { work, latest: shown, began, news: News::default() }.run(&offered);
        let thread = Builder::new().name("directory".into()).spawn(run)?;
        Ok(Copying { copies: Some(Copies { offers }), latest, thread: Some(thread) })
    }

    /// A way to it.
    pub fn copies(&self) -> Option<Copies> {
        self.copies.clone()
    }

    /// How it stands.
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
            tracing::error!("the directory's thread panicked");
        }
    }
}

struct Life {
    work: Work,
    latest: Latest,
    began: std::time::Instant,
    news: News,
}

impl Life {
    fn run(mut self, offered: &Receiver<Offer>) {
        let mut wait = Duration::ZERO;
        loop {
            match offered.recv_timeout(wait) {
                Ok((shard, batches)) => self.work.copyist.offer(shard, batches),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            while let Ok((shard, batches)) = offered.try_recv() {
                self.work.copyist.offer(shard, batches);
            }
            let Work { copyist, directory, desk, .. } = &mut self.work;
            let now = clock::now(self.began);
            let due = copyist.turn(now, directory.as_mut(), desk.as_mut());
            let now = clock::now(self.began);
            wait = due - now.mono;
            self.show(now);
        }
        self.work.copyist.farewell(self.work.directory.as_mut());
    }

    /// Lets others see how it stands, and tells the log what changed.
    fn show(&mut self, now: Now) {
        let new = self.work.copyist.standing(now);
        self.news.look(now, &new);
        let latest = &self.latest.standing;
        *latest.lock().unwrap_or_else(PoisonError::into_inner) = new;
    }
}

/// How long a circuit must be closed, with something to write, before the directory is said to be
/// back: one that renews leases and refuses writes would be back every few seconds.
const BACK_AFTER: Duration = Duration::from_secs(1);

/// What the log was told last.
#[derive(Default)]
struct News {
    away: bool,
    comparing: bool,
    closed_since: Option<Instant>,
}

impl News {
    /// A line of the log for each change of state, and none between.
    fn look(&mut self, now: Now, standing: &Standing) {
        let Standing { unwritten, resync_left, .. } = *standing;
        let since = match standing.circuit {
            Circuit::Closed => Some(*self.closed_since.get_or_insert(now.mono)),
            Circuit::Open | Circuit::HalfOpen => None,
        };
        self.closed_since = since;
        match since {
            None if !self.away => {
                self.away = true;
                let fault = standing.fault.as_ref().map_or("", |(why, _)| why.as_str());
                tracing::warn!(
                    fault,
                    unwritten,
                    "the directory of presence is away: changes wait, nothing else does"
                );
            }
            Some(since) if self.away && (unwritten == 0 || now.mono - since >= BACK_AFTER) => {
                self.away = false;
                tracing::info!(unwritten, "the directory of presence is back");
            }
            _ => {}
        }
        if self.comparing && resync_left == 0 {
            tracing::info!("the directory of presence was compared with memory");
        }
        self.comparing = resync_left > 0;
    }
}

/// Tells shards by their mailboxes, whatever waits there.
pub struct Post<F>(pub F);

impl<F: FnMut(Word)> Desk for Post<F> {
    fn written(&mut self, shard: ShardId, result: Result<Vec<Put>, Fault>) {
        (self.0)(Word::Written(shard, result));
    }

    fn compare(&mut self, bucket: u16, stored: Arc<Vec<Entry>>) {
        (self.0)(Word::Compare(bucket, stored));
    }
}

/// What shards are told.
pub enum Word {
    /// To one: what became of its batches.
    Written(ShardId, Result<Vec<Put>, Fault>),
    /// To all: what the directory has in a bucket.
    Compare(u16, Arc<Vec<Entry>>),
}
