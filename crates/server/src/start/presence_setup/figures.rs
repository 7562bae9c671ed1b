//! Figures over time: all shards are asked once a second for their totals.
//!
//! Shards answer by mail into a bounded channel and never wait; a shard that does not answer in
//! time leaves that second out, and what it counted falls into the next.

use super::super::periodic::{ANSWER_LOOK, PeriodicTask};
use crate::clock;
use crate::shard_logic::Figures;
use presence::Statistics;
use std::sync::mpsc::{self, Receiver, SyncSender, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Time between two readings.
const PERIOD_MS: u64 = 1_000;

/// How long shards may take to answer.
const ANSWER: Duration = Duration::from_millis(500);

/// Asks every shard to put its totals in there; false when some could not be asked.
pub type AskAll = Box<dyn Fn(&SyncSender<Figures>) -> bool + Send>;

/// Asks so many shards at each full second, and notes what they answer.
pub fn task(shards: usize, ask: AskAll, statistics: Arc<Mutex<Statistics>>) -> PeriodicTask {
    let mut gathering = None;
    Box::new(move || {
        if gathering.is_none() {
            // Late answers of the last time went with its channel.
            let (sender, answers) = mpsc::sync_channel(shards);
            if !ask(&sender) {
                return until_next();
            }
            let (all, left) = (Figures::default(), shards);
            gathering = Some((Gathering { answers, all, left }, clock::began()));
            return ANSWER_LOOK;
        }
        let Some((mut of, since)) = gathering.take() else { return until_next() };
        match of.all_have_answered() {
            Some(true) => {
                let Figures { counts, heartbeats, late, lost } = of.all;
                let mut rings = statistics.lock().unwrap_or_else(PoisonError::into_inner);
                rings.note(clock::wall_ms() / 1_000, &counts, heartbeats, late, lost);
                until_next()
            }
            Some(false) if clock::since(since) < ANSWER => {
                gathering = Some((of, since));
                ANSWER_LOOK
            }
            _ => until_next(),
        }
    })
}

fn until_next() -> Duration {
    Duration::from_millis(PERIOD_MS - clock::wall_ms() % PERIOD_MS)
}

/// Totals of shards, as far as they have answered.
struct Gathering {
    answers: Receiver<Figures>,
    all: Figures,
    left: usize,
}

impl Gathering {
    /// Whether they are those of all; `None`: they never will be.
    fn all_have_answered(&mut self) -> Option<bool> {
        while self.left > 0 {
            match self.answers.try_recv() {
                Ok(figures) => self.all.add(&figures),
                Err(TryRecvError::Empty) => return Some(false),
                Err(TryRecvError::Disconnected) => return None,
            }
            self.left -= 1;
        }
        Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_of_all_shards_are_one_and_a_silent_shard_leaves_the_second_out() {
        let (sender, answers) = mpsc::sync_channel(2);
        let mut of = Gathering { answers, all: Figures::default(), left: 2 };
        for (heartbeats, all) in [(3, false), (4, true)] {
            assert_eq!(of.all_have_answered(), Some(false));
            let figures = Figures { heartbeats, late: 1, ..Figures::default() };
            sender.try_send(figures).expect("room");
            assert_eq!(of.all_have_answered(), Some(all));
        }
        assert_eq!((of.all.heartbeats, of.all.late, of.all.lost), (7, 2, 0));
        let (sender, answers) = mpsc::sync_channel(1);
        let mut of = Gathering { answers, all: Figures::default(), left: 1 };
        drop(sender);
        assert_eq!(of.all_have_answered(), None);
    }

    #[test]
    fn a_second_is_asked_for_once_and_noted_when_it_is_whole() {
        let (asked, heard) = mpsc::sync_channel(9);
        let ask: AskAll = Box::new(move |to| asked.try_send(to.clone()).is_ok());
        let statistics = Arc::<Mutex<Statistics>>::default();
        let mut task = task(1, ask, statistics);
        assert_eq!((task(), task()), (ANSWER_LOOK, ANSWER_LOOK));
        let to = heard.try_recv().expect("it was asked");
        assert!(heard.try_recv().is_err(), "once");
        to.try_send(Figures::default()).expect("room");
        assert!(task() > Duration::ZERO);
        assert_eq!(task(), ANSWER_LOOK);
        // A shard that goes without an answer ends the second.
        drop(heard.try_recv().expect("the next one"));
        assert!(task() <= Duration::from_millis(PERIOD_MS));
        drop(heard);
        assert!(task() <= Duration::from_millis(PERIOD_MS), "nobody can be asked");
    }
}
