//! Figures over time: a thread that asks all shards once a second for their totals.
//!
//! Shards answer by mail into a bounded channel and never wait; a shard that does not answer in
//! time leaves that second out, and what it counted falls into the next. Invariant: the thread ends
//! as soon as it is told to.

use crate::clock;
use crate::shard_logic::Figures;
use presence::Statistics;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Time between two readings.
const PERIOD_MS: u64 = 1_000;

/// How long shards may take to answer.
const ANSWER: Duration = Duration::from_millis(500);

/// Asks every shard to put its totals in there; false when some could not be asked.
pub type AskAll = Box<dyn Fn(&SyncSender<Figures>) -> bool + Send>;

/// The thread.
pub struct Sampling {
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Sampling {
    /// Begins to ask so many shards.
    pub fn start(
        shards: usize,
        ask: AskAll,
        statistics: Arc<Mutex<Statistics>>,
    ) -> std::io::Result<Sampling> {
        let (stop, told) = mpsc::sync_channel(1);
        let run = move || {
            let until_next = || PERIOD_MS - clock::wall_ms() % PERIOD_MS;
            let mut wait = Duration::from_millis(until_next());
            while told.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                // Late answers of the last time went with its channel.
                let (sender, answers) = mpsc::sync_channel(shards);
                let asked = ask(&sender);
                if let Some(figures) = asked.then(|| gather(&answers, shards)).flatten() {
                    let Figures { counts, heartbeats, late, lost } = figures;
                    let mut rings = statistics.lock().unwrap_or_else(PoisonError::into_inner);
                    rings.note(clock::wall_ms() / 1_000, &counts, heartbeats, late, lost);
                }
                wait = Duration::from_millis(until_next());
            }
        };
        let thread = Builder::new().name("presence-figures".into()).spawn(run)?;
        Ok(Sampling { stop: Some(stop), thread: Some(thread) })
    }

    /// Ends it.
    pub fn stop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of presence's figures panicked");
        }
    }
}

/// All shards' totals, if all of them answer.
fn gather(answers: &Receiver<Figures>, shards: usize) -> Option<Figures> {
    let mut all = Figures::default();
    for _ in 0..shards {
        all.add(&answers.recv_timeout(ANSWER).ok()?);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_of_all_shards_are_one_and_a_silent_shard_leaves_the_second_out() {
        let (sender, answers) = mpsc::sync_channel(2);
        for heartbeats in [3, 4] {
            let figures = Figures { heartbeats, late: 1, ..Figures::default() };
            sender.try_send(figures).expect("room");
        }
        let all = gather(&answers, 2).expect("both answered");
        assert_eq!((all.heartbeats, all.late, all.lost), (7, 2, 0));
        drop(sender);
        assert_eq!(gather(&answers, 1), None);
    }

    #[test]
    fn it_ends_when_it_is_told_to() {
        let ask: AskAll = Box::new(|_| false);
        let mut sampling = Sampling::start(1, ask, Arc::default()).expect("a thread");
        sampling.stop();
        sampling.stop();
    }
}
