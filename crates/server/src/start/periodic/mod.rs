//! Periodic work of the process, one thread for all of it: a look at memory, figures of presence,
//! `$SYS` topics.
//!
//! A task is called when it is due and says when it is again. It does not block: what it asks of
//! shards it finds answered when it is called the next time. Invariant: the thread ends as soon as
//! it is told to.

pub(super) mod certificates;
pub(super) mod memory;
pub(super) mod sys;
pub(super) mod watchdog;

use crate::clock;
use model::{event, tell};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Called when it is due; says after how long it is again.
pub(super) type PeriodicTask = Box<dyn FnMut() -> Duration + Send>;

/// Time between two looks whether shards have answered.
pub(super) const ANSWER_LOOK: Duration = Duration::from_millis(5);

/// Time to the next full second, in whole milliseconds: what comes once a second comes together,
/// and wakes the thread once.
pub(super) fn to_next_second() -> Duration {
    Duration::from_millis(1_000 - clock::wall_ms() % 1_000)
}

/// The thread.
pub(super) struct Periodic {
    over: Arc<(Mutex<bool>, Condvar)>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Tasks, and when each is due.
struct Schedule(Vec<(Instant, PeriodicTask)>);

impl Schedule {
    /// Calls those that are due; how long nobody is.
    fn call(&mut self, now: Instant) -> Option<Duration> {
        for (due, task) in self.0.iter_mut().filter(|(due, _)| *due <= now) {
            *due = now + task();
        }
        self.0.iter().map(|(due, _)| due.saturating_duration_since(now)).min()
    }
}

impl Periodic {
    /// Calls those of these that there are, each for the first time at once.
    pub(super) fn start(
        tasks: impl IntoIterator<Item = Option<PeriodicTask>>,
    ) -> std::io::Result<Periodic> {
        let over = Arc::<(Mutex<bool>, Condvar)>::default();
        let now = clock::began();
        let tasks = tasks.into_iter().flatten();
        let mut schedule = Schedule(tasks.map(|task| (now, task)).collect());
        let told = over.clone();
        let run = move || {
            let (over, ended) = &*told;
            let mut is_over = over.lock().unwrap_or_else(PoisonError::into_inner);
            while !*is_over {
                let Some(wait) = schedule.call(clock::began()) else { return };
                let woken = ended.wait_timeout(is_over, wait);
                is_over = woken.unwrap_or_else(PoisonError::into_inner).0;
            }
        };
        let thread = Builder::new().name("periodic".into()).spawn(run)?;
        Ok(Periodic { over, thread: Mutex::new(Some(thread)) })
    }

    /// Ends it.
    pub(super) fn stop(&self) {
        *self.over.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.over.1.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tell!(event::THREAD_PANICKED, thread = "periodic");
        }
    }
}

impl Drop for Periodic {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    #[test]
    fn each_task_is_called_when_it_is_due_and_no_sooner() {
        let calls = Arc::new(Mutex::new(Vec::new()));
        let task = |name: &'static str, ms: u64| -> PeriodicTask {
            let calls = calls.clone();
            Box::new(move || {
                calls.lock().expect("held").push(name);
                Duration::from_millis(ms)
            })
        };
        let began = clock::began();
        let mut schedule = Schedule(vec![(began, task("a", 10)), (began, task("b", 25))]);
        let mut at = |ms| {
            let wait = schedule.call(began + Duration::from_millis(ms));
            let wait = wait.expect("there are tasks").as_millis();
            (std::mem::take(&mut *calls.lock().expect("held")), wait)
        };
        assert_eq!(at(0), (vec!["a", "b"], 10));
        assert_eq!(at(9), (vec![], 1));
        assert_eq!(at(12), (vec!["a"], 10));
        assert_eq!(at(25), (vec!["a", "b"], 10));
        assert_eq!(at(100), (vec!["a", "b"], 10), "a late one is not called twice");
        assert_eq!(Schedule(Vec::new()).call(began), None);
    }

    #[test]
    fn it_ends_when_it_is_told_to() {
        let (called, heard) = sync_channel(1);
        let task: PeriodicTask = Box::new(move || {
            let _ = called.try_send(());
            Duration::from_secs(3_600)
        });
        let periodic = Periodic::start([Some(task)]).expect("a thread");
        heard.recv().expect("it is called at once");
        periodic.stop();
        periodic.stop();
    }
}
