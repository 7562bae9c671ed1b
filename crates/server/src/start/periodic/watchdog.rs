//! Signs of life for the supervisor: the shards are asked whether they turn, and only when all
//! of them have answered is it told so.
//!
//! A shard that hangs answers nothing, so the supervisor hears nothing and starts the server again.
//! A mailbox that is full is asked once more the next time: who empties it turns.

use super::PeriodicTask;
use crate::shard_logic::Mail;
use crate::start::ServerOutside;
use crate::start::supervisor::{LifeSign, Supervisor};
use crate::switchboard::Switchboard;
use model::id::ShardId;
use net::shard::Census;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Looks within the time that the supervisor gives: a shard may be slow for half of it.
const LOOKS: u32 = 4;

/// Time between two looks at most, for the status says how many connections there are.
const LOOK_MAX: Duration = Duration::from_secs(10);

/// Time between two looks for the cluster: several within a second, in which all must turn.
const BEAT: Duration = Duration::from_millis(250);

/// A question to all shards; false where one could not be asked.
type AskAll = Box<dyn Fn(&SyncSender<ShardId>) -> bool + Send>;

/// Asks so many shards by this way, and tells the supervisor. `None`: it wants no sign of life.
pub(in crate::start) fn of_shards(
    supervisor: &Supervisor,
    (shards, way): (usize, &Switchboard<ServerOutside>),
    census: &Arc<Census>,
) -> Option<PeriodicTask> {
    let way = way.clone();
    let ask = Box::new(move |to: &SyncSender<ShardId>| way.tell_all(|| Mail::Turns(to.clone())));
    task(supervisor.clone(), (shards, ask), census.clone())
}

/// Asks them each second, and calls this when all have answered.
pub(in crate::start) fn beats(
    turned: Arc<dyn Fn() + Send + Sync>,
    (shards, way): (usize, &Switchboard<ServerOutside>),
) -> PeriodicTask {
    let way = way.clone();
    let ask = Box::new(move |to: &SyncSender<ShardId>| way.tell_all(|| Mail::Turns(to.clone())));
    let mut watchdog = Watchdog { shards, ask, round: None };
    Box::new(move || {
        if watchdog.look() {
            turned();
        }
        BEAT
    })
}

fn task(
    supervisor: Supervisor,
    (shards, ask): (usize, AskAll),
    census: Arc<Census>,
) -> Option<PeriodicTask> {
    let look = (supervisor.watchdog()? / LOOKS).min(LOOK_MAX);
    let mut watchdog = Watchdog { shards, ask, round: None };
    Some(Box::new(move || {
        if watchdog.look() {
            supervisor.tell(LifeSign::Alive(&connections(census.open())));
        }
        look
    }))
}

/// How many there are, in words.
pub(in crate::start) fn connections(count: u32) -> String {
    let end = if count == 1 { "" } else { "s" };
    format!("{count} connection{end}")
}

struct Watchdog {
    shards: usize,
    ask: AskAll,
    round: Option<Round>,
}

/// A question that was asked.
struct Round {
    answers: Receiver<ShardId>,
    left: usize,
    /// All were asked.
    is_whole: bool,
}

impl Watchdog {
    /// Counts the answers to the last question. True: all have answered it, and it is asked again.
    fn look(&mut self) -> bool {
        let alive = self.round.as_mut().is_some_and(|round| {
            round.left -= round.answers.try_iter().count().min(round.left);
            round.left == 0
        });
        if alive || self.round.as_ref().is_none_or(|round| !round.is_whole) {
            let (sender, answers) = sync_channel(self.shards);
            let is_whole = (self.ask)(&sender);
            self.round = Some(Round { answers, left: self.shards, is_whole });
        }
        alive
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Shards that answer when they are let.
    #[derive(Clone, Default)]
    struct Shards {
        asked: Arc<Mutex<Vec<SyncSender<ShardId>>>>,
        is_full: Arc<Mutex<bool>>,
    }

    impl Shards {
        fn watchdog(&self, shards: usize) -> Watchdog {
            let this = self.clone();
            let ask = Box::new(move |to: &SyncSender<ShardId>| {
                this.asked.lock().expect("held").push(to.clone());
                !*this.is_full.lock().expect("held")
            });
            Watchdog { shards, ask, round: None }
        }

        fn answer(&self, shard: u16) {
            let asked = self.asked.lock().expect("held");
            asked.last().expect("a question").try_send(ShardId(shard)).expect("room");
        }

        fn questions(&self) -> usize {
            self.asked.lock().expect("held").len()
        }
    }

    #[test]
    fn only_when_all_have_answered_it_is_alive() {
        let shards = Shards::default();
        let mut watchdog = shards.watchdog(2);
        assert!(!watchdog.look(), "nobody was asked yet");
        assert!(!watchdog.look(), "nobody has answered");
        shards.answer(0);
        assert!(!watchdog.look(), "one is silent");
        shards.answer(1);
        assert!(watchdog.look());
        assert_eq!(shards.questions(), 2);
        assert!(!watchdog.look(), "an answer is good for one sign");
    }

    #[test]
    fn who_hangs_is_not_asked_again_and_again() {
        let shards = Shards::default();
        let mut watchdog = shards.watchdog(1);
        assert!((0..100).all(|_| !watchdog.look()));
        assert_eq!(shards.questions(), 1);
    }

    #[test]
    fn a_full_mailbox_is_asked_again() {
        let shards = Shards::default();
        let mut watchdog = shards.watchdog(1);
        *shards.is_full.lock().expect("held") = true;
        assert!(!watchdog.look() && !watchdog.look());
        *shards.is_full.lock().expect("held") = false;
        assert!(!watchdog.look());
        assert_eq!(shards.questions(), 3);
        shards.answer(0);
        assert!(watchdog.look());
    }

    #[test]
    fn without_a_wish_for_it_there_is_no_task() {
        let (shards, census) = (Shards::default(), Arc::<Census>::default());
        let ask = shards.watchdog(1).ask;
        assert!(task(Supervisor::default(), (1, ask), census).is_none());
        assert_eq!(
            (connections(1), connections(2)),
            ("1 connection".into(), "2 connections".into())
        );
    }
}
