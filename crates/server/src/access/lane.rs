//! Questions that wait for a thread, and the threads.
//!
//! A lane has a bounded queue: whoever is one too many is told at once, and nobody waits longer
//! than a client has patience. What is done with a question is the caller's. Invariant: every
//! question that was taken is handed out once, at the latest when the lane is closed.

use model::id::ShardId;
use model::ports::access::Question;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crate::clock;

/// How long a question may wait: no client is patient for longer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Somebody's question.
pub(super) struct Asked {
    pub(super) shard: ShardId,
    pub(super) number: u64,
    pub(super) question: Box<Question>,
}

/// How a question leaves the lane.
pub(super) enum Turn {
    /// It is to be answered.
    Now,
    /// It waited too long, or the lane is closed.
    TooLate,
}

/// A queue with threads.
pub(super) struct Lane {
    waiting_max: usize,
    queue: Mutex<Queue>,
    came: Condvar,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<(Instant, Asked)>,
    closed: bool,
}

impl Lane {
    pub(super) fn new(waiting_max: u32) -> Arc<Lane> {
        Arc::new(Lane {
            waiting_max: waiting_max as usize,
            queue: Mutex::default(),
            came: Condvar::new(),
            threads: Mutex::default(),
        })
    }

    /// Starts the threads, unless they were started.
    pub(super) fn start(
        self: &Arc<Lane>,
        name: &str,
        count: u16,
        work: Arc<dyn Fn(Turn, Asked) + Send + Sync>,
    ) -> Result<(), String> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if !threads.is_empty() {
            return Ok(());
        }
        for number in 0..count {
            let (lane, work) = (self.clone(), work.clone());
            let run = move || {
                while let Some((turn, asked)) = lane.next() {
                    work(turn, asked);
                }
            };
            let thread = Builder::new().name(format!("{name}-{number}")).spawn(run);
            threads.push(thread.map_err(|error| format!("no thread for {name}: {error}"))?);
        }
        Ok(())
    }

    /// Takes a question, if there is room.
    pub(super) fn put(&self, asked: Asked) -> Result<(), Asked> {
        let mut queue = self.lock();
        if queue.closed || queue.waiting.len() >= self.waiting_max {
            return Err(asked);
        }
        queue.waiting.push_back((clock::began(), asked));
        drop(queue);
        self.came.notify_one();
        Ok(())
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Takes no more, and waits until every question was handed out.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.came.notify_all();
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a thread that resolves questions of access panicked");
            }
        }
    }

    fn next(&self) -> Option<(Turn, Asked)> {
        let idle = |queue: &mut Queue| queue.waiting.is_empty() && !queue.closed;
        let queue = self.came.wait_while(self.lock(), idle);
        let mut queue = queue.unwrap_or_else(PoisonError::into_inner);
        let (since, asked) = queue.waiting.pop_front()?;
        let is_late = queue.closed || clock::since(since) > PATIENCE;
        Some((if is_late { Turn::TooLate } else { Turn::Now }, asked))
    }

    /// Nothing panics half way through a change of the queue.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
