//! Lanes: queues of questions, and the threads that answer them.
//!
//! A lane has a bounded queue: a question beyond its limit is refused at once, and none waits
//! longer than a client would. Questions of known clients come first, and among equally known ones
//! the sources take turns, so that a thousand questions of one source delay another's by at most
//! one. A lane has one thread, and further ones when questions wait. The caller decides what is
//! done with a question. Invariant: every accepted question is handed out once, at the latest when
//! the lane is closed.

use guard::sources::Known;
use model::id::ShardId;
use model::link::Source;
use model::ports::access::Question;
use model::service::ServiceKind;
use model::session::Denial;
use model::{event, tell};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crate::clock;

/// How long a question may wait: no client is patient for longer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Question that waits for a thread.
pub(super) struct Asked {
    /// The service that asks, and its shard.
    pub(super) by: (ServiceKind, ShardId),
    pub(super) number: u64,
    pub(super) question: Box<Question>,
    /// How well the asking client is known.
    pub(super) known: Known,
}

/// How a question leaves the lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Turn {
    /// The question is to be answered.
    Now,
    /// The question waited too long, had to make room, or the lane is closed.
    TooLate,
}

/// How many may wait.
#[derive(Clone, Copy)]
pub(super) struct LaneLimits {
    /// In all. One more is refused, or one who is known less.
    pub(super) waiting_max: u32,
    /// Limit for one source. One more is refused.
    pub(super) a_source_max: u32,
}

/// A queue with threads.
pub(super) struct Lane {
    room: LaneLimits,
    queue: Mutex<Queue>,
    came: Condvar,
    threads: Mutex<LaneThreads>,
}

/// Handling of a question.
type Work = Arc<dyn Fn(Turn, Asked) + Send + Sync>;

/// Threads of a lane.
#[derive(Default)]
struct LaneThreads {
    name: Box<str>,
    most: usize,
    /// Absent: threads must not be started, any more or yet.
    work: Option<Work>,
    running: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Queue {
    /// Questions by how well their clients are known, the best first.
    ranks: [Rank; Known::ALL.len()],
    /// Had to make room; each is answered by the next thread.
    pushed_out: VecDeque<Asked>,
    count: usize,
    /// Threads that wait for one.
    idle: usize,
    closed: bool,
}

/// Questions of those who are known equally well.
#[derive(Default)]
struct Rank {
    /// Sources with questions, in the order of their turns.
    turns: VecDeque<Option<Source>>,
    of: HashMap<Option<Source>, VecDeque<(Instant, Asked)>>,
}

impl Rank {
    fn put(&mut self, source: Option<Source>, entry: (Instant, Asked)) {
        let questions = self.of.entry(source).or_default();
        if questions.is_empty() {
            self.turns.push_back(source);
        }
        questions.push_back(entry);
    }

    /// The first question of the source whose turn it is.
    fn take(&mut self) -> Option<(Instant, Asked)> {
        let source = self.turns.pop_front()?;
        let questions = self.of.get_mut(&source)?;
        let first = questions.pop_front();
        if questions.is_empty() {
            self.of.remove(&source);
        } else {
            self.turns.push_back(source);
        }
        first
    }

    /// The last question of the source whose turn is last.
    fn take_last(&mut self) -> Option<Asked> {
        let source = *self.turns.back()?;
        let questions = self.of.get_mut(&source)?;
        let last = questions.pop_back();
        if questions.is_empty() {
            self.of.remove(&source);
            self.turns.pop_back();
        }
        last.map(|(_, asked)| asked)
    }
}

impl Queue {
    fn waiting_of(&self, source: Option<Source>) -> usize {
        self.ranks.iter().filter_map(|rank| rank.of.get(&source)).map(VecDeque::len).sum()
    }

    /// Drops a question that is less known than `known`, to make room.
    fn push_out(&mut self, known: Known) -> bool {
        let worse = self.ranks[known as usize + 1..].iter_mut().rev();
        let Some(asked) = worse.filter_map(Rank::take_last).next() else { return false };
        self.pushed_out.push_back(asked);
        self.count -= 1;
        true
    }

    fn next(&mut self) -> Option<(Turn, Asked)> {
        if let Some(asked) = self.pushed_out.pop_front() {
            return Some((Turn::TooLate, asked));
        }
        let (since, asked) = self.ranks.iter_mut().find_map(Rank::take)?;
        self.count -= 1;
        let is_late = self.closed || clock::since(since) > PATIENCE;
        Some((if is_late { Turn::TooLate } else { Turn::Now }, asked))
    }

    fn is_empty(&self) -> bool {
        self.count == 0 && self.pushed_out.is_empty()
    }
}

impl Lane {
    pub(super) fn new(room: LaneLimits) -> Arc<Lane> {
        Arc::new(Lane {
            room,
            queue: Mutex::default(),
            came: Condvar::new(),
            threads: Mutex::default(),
        })
    }

    /// Starts a thread, and allows `count` of them when they are needed; does nothing if that was
    /// done.
    pub(super) fn start(
        self: &Arc<Lane>,
        name: &str,
        count: u16,
        work: Work,
    ) -> Result<(), String> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if threads.work.is_some() {
            return Ok(());
        }
        (threads.name, threads.most, threads.work) = (name.into(), count.into(), Some(work));
        self.start_one(&mut threads)
    }

    /// Starts one more, if there may be more.
    fn start_one(self: &Arc<Lane>, threads: &mut LaneThreads) -> Result<(), String> {
        let LaneThreads { name, most, work: Some(work), running } = threads else { return Ok(()) };
        if running.len() >= *most {
            return Ok(());
        }
        let (lane, work) = (self.clone(), work.clone());
        let run = move || {
            // Hashes of a flood of wrong passwords must not keep those waiting who are logged in.
            net::executor::priority::give_way();
            while let Some((turn, asked)) = lane.next() {
                work(turn, asked);
            }
        };
        let thread = Builder::new().name(format!("{name}-{}", running.len())).spawn(run);
        running.push(thread.map_err(|error| format!("no thread for {name}: {error}"))?);
        Ok(())
    }

    /// Queues a question, if there is room or a less known one gives way. `Err`: the reason.
    pub(super) fn put(self: &Arc<Lane>, asked: Asked) -> Result<(), (Denial, Asked)> {
        let source = (!asked.question.near).then(|| Source::of(asked.question.peer.ip()));
        let mut queue = self.lock();
        let LaneLimits { waiting_max, a_source_max } = self.room;
        if source.is_some() && queue.waiting_of(source) >= a_source_max as usize {
            return Err((Denial::Rate, asked));
        }
        let most = waiting_max as usize;
        let is_full = queue.count >= most || queue.pushed_out.len() >= most;
        if queue.closed || is_full && !(queue.count > 0 && queue.push_out(asked.known)) {
            return Err((Denial::Unavailable, asked));
        }
        queue.count += 1;
        queue.ranks[asked.known as usize].put(source, (clock::began(), asked));
        drop(queue);
        self.came.notify_one();
        Ok(())
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        self.lock().count
    }

    /// Accepts no more, and waits until every question was handed out.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.came.notify_all();
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads.running {
            if thread.join().is_err() {
                tell!(event::THREAD_PANICKED, thread = "access");
            }
        }
    }

    fn next(self: &Arc<Lane>) -> Option<(Turn, Asked)> {
        let idle = |queue: &mut Queue| queue.is_empty() && !queue.closed;
        let mut queue = self.lock();
        queue.idle += 1;
        let queue = self.came.wait_while(queue, idle);
        let mut queue = queue.unwrap_or_else(PoisonError::into_inner);
        queue.idle -= 1;
        let next = queue.next();
        let waits = queue.count > queue.idle;
        drop(queue);
        if waits {
            // By a thread of the lane, and not by who asks: that is a shard's, which is kept on a
            // core, and threads are kept where those are that start them.
            let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = self.start_one(&mut threads) {
                // The existing threads answer the question, and no more are tried.
                threads.most = threads.running.len();
                tell!(event::ACCESS_FAULT, %error);
            }
        }
        next
    }

    /// Locks the queue. Nothing panics half way through a change of it.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    fn asked(number: u64, peer: &str, known: Known) -> Asked {
        let question = Question {
            client_id: "d".into(),
            user: Some("ann".into()),
            password: None,
            certificate: None,
            method: None,
            dialogue: None,
            bindings: None,
            peer: peer.parse().expect("an address"),
            near: peer.starts_with("127."),
            door: 0,
            tls: false,
            protocol: "mqtt5",
        };
        Asked { by: (ServiceKind::Topics, ShardId(0)), number, question: Box::new(question), known }
    }

    #[test]
    fn threads_are_started_when_questions_wait_for_them() {
        let lane = lane(100, 100);
        let (gate, begun) = (Arc::new(Barrier::new(4)), Arc::new(Barrier::new(4)));
        let (waits, meets) = (gate.clone(), begun.clone());
        let work = move |_, asked: Asked| {
            if asked.number < 3 {
                meets.wait();
                waits.wait();
            }
        };
        let running = || lane.threads.lock().expect("held").running.len();
        // All three wait when the first thread takes one: who takes it starts another.
        for number in 0..3 {
            assert_eq!(put(&lane, asked(number, "10.0.0.1:1", Known::Both)), Ok(()));
        }
        lane.start("t", 3, Arc::new(work)).expect("a thread");
        // Each of the three has a thread, or nobody gets here.
        begun.wait();
        assert_eq!((running(), put(&lane, asked(3, "10.0.0.1:1", Known::Both))), (3, Ok(())));
        assert_eq!(running(), 3, "there are no more");
        gate.wait();
        lane.close();
        assert_eq!((running(), lane.waiting()), (0, 0));
    }

    #[test]
    fn one_thread_is_started_while_nobody_asks() {
        let lane = lane(100, 100);
        lane.start("t", 3, Arc::new(|_, _| {})).expect("a thread");
        assert_eq!(lane.threads.lock().expect("held").running.len(), 1);
        lane.close();
    }

    fn lane(waiting_max: u32, a_source_max: u32) -> Arc<Lane> {
        Lane::new(LaneLimits { waiting_max, a_source_max })
    }

    fn numbers(lane: &Arc<Lane>, count: usize) -> Vec<u64> {
        (0..count).map(|_| lane.next().expect("one waits").1.number).collect()
    }

    fn put(lane: &Arc<Lane>, asked: Asked) -> Result<(), Denial> {
        lane.put(asked).map_err(|(why, _)| why)
    }

    #[test]
    fn a_thousand_of_one_source_keep_another_waiting_for_one() {
        let lane = lane(10_000, 10_000);
        for number in 0..1_500 {
            assert_eq!(put(&lane, asked(number, "10.0.0.1:1", Known::Neither)), Ok(()));
        }
        assert_eq!(put(&lane, asked(9_001, "10.0.0.2:1", Known::Neither)), Ok(()));
        assert_eq!(put(&lane, asked(9_002, "10.0.0.2:2", Known::Neither)), Ok(()));
        assert_eq!(numbers(&lane, 5), [0, 9_001, 1, 9_002, 2]);
        assert_eq!(lane.waiting(), 1_497);
    }

    #[test]
    fn whoever_is_known_is_first() {
        let lane = lane(100, 100);
        for (number, known) in [(1, Known::Neither), (2, Known::One), (3, Known::Both)] {
            assert_eq!(put(&lane, asked(number, "10.0.0.1:1", known)), Ok(()));
        }
        assert_eq!(numbers(&lane, 3), [3, 2, 1]);
    }

    #[test]
    fn one_source_has_its_part_and_this_machine_is_none() {
        let lane = lane(100, 2);
        let from = |peer| put(&lane, asked(1, peer, Known::Neither));
        assert_eq!([from("10.0.0.1:1"), from("10.0.0.1:2")], [Ok(()), Ok(())]);
        assert_eq!(put(&lane, asked(1, "10.0.0.1:3", Known::Both)), Err(Denial::Rate));
        assert_eq!(from("10.0.0.2:1"), Ok(()));
        assert!((0..90).all(|_| from("127.0.0.1:1") == Ok(())));
    }

    #[test]
    fn a_full_lane_makes_room_for_whoever_is_known_better() {
        let lane = lane(2, 100);
        assert_eq!(put(&lane, asked(1, "10.0.0.1:1", Known::Neither)), Ok(()));
        assert_eq!(put(&lane, asked(2, "10.0.0.1:1", Known::One)), Ok(()));
        let none = put(&lane, asked(3, "10.0.0.2:1", Known::Neither));
        assert_eq!(none, Err(Denial::Unavailable));
        assert_eq!(put(&lane, asked(4, "10.0.0.2:1", Known::Both)), Ok(()));
        let (turn, first) = lane.next().expect("it is answered");
        assert_eq!((turn, first.number), (Turn::TooLate, 1));
        assert_eq!(put(&lane, asked(5, "10.0.0.2:1", Known::One)), Err(Denial::Unavailable));
        assert_eq!((lane.waiting(), numbers(&lane, 2)), (2, vec![4, 2]));
    }
}
