//! The running logs: calls go in by [`Logs::submit`], completions come out of a closure.
//!
//! Each log has three threads: a writer, a reader and an upkeep thread; one ticker serves all. A
//! caller that submits never waits. Invariant: every ticket that was taken is completed once, also
//! when the logs are closed.

use crate::data::Place;
use crate::data::folder::{OpenLog, log_folder};
use crate::data::gathering::Gathering;
use crate::data::held::Held;
use crate::data::log_base::Base;
use crate::data::log_queue::LogQueue;
use crate::data::refusals::Refusals;
use crate::data::upkeep_thread::{self, Ticker};
use crate::data::writer::{self, Clock, Writer};
use crate::engine::{Engine, Sizes, State, StateMemory};
use crate::tools::backup::{Copied, Rest, Still, Target};
use crate::{Fsync, OpenError, data};
use model::ports::log::{Call, Completion, Party, Ticket};
use model::{event, tell};
use std::io;
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{Builder, JoinHandle};

/// The running logs of a data folder. Dropping them does what waits, completes it, and lets the
/// folder go.
pub struct Logs {
    queues: Vec<Arc<LogQueue>>,
    sizes: Vec<Arc<Mutex<Sizes>>>,
    states: Vec<Arc<dyn State>>,
    bases: Vec<Mutex<Weak<Base>>>,
    ticker: Arc<Ticker>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    place: Mutex<Option<Place>>,
}

/// Sizes of one log, as of its last batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogSizes {
    /// Sizes that the engine reports.
    pub engine: Sizes,
    /// Memory of its state now.
    pub state: StateMemory,
    /// Calls that wait for the log or for its disk.
    pub calls_waiting: u64,
}

impl Logs {
    pub(crate) fn start(
        place: Place,
        open: Vec<OpenLog>,
        settings: &data::Settings,
        now_s: &Clock,
        on_complete: impl Fn(Party, Vec<Completion>) + Clone + Send + Sync + 'static,
    ) -> io::Result<Logs> {
        let mut logs = Logs {
            queues: Vec::new(),
            sizes: Vec::new(),
            states: Vec::new(),
            bases: Vec::new(),
            ticker: Arc::default(),
            threads: Mutex::default(),
            place: Mutex::new(Some(place)),
        };
        for (number, OpenLog { engine, state, .. }) in open.into_iter().enumerate() {
            logs.states.push(state);
            logs.bases.push(Mutex::default());
            let queue = LogQueue::new(settings.calls_waiting_max, settings.bytes_waiting_max);
            let queue = Arc::new(queue);
            let sizes = Arc::new(Mutex::new(engine.sizes()));
            logs.queues.push(Arc::clone(&queue));
            logs.sizes.push(Arc::clone(&sizes));
            let (kept, read) = (Arc::clone(&queue), Arc::clone(&queue));
            let tell = on_complete.clone();
            let (now_s, on_complete) = (Arc::clone(now_s), on_complete.clone());
            let gathering = (settings.fsync == Fsync::Always).then(Gathering::new);
            let refusals = Refusals::default();
            let held = Held::default();
            let writer =
                Writer { engine, queue, gathering, sizes, refusals, held, now_s, on_complete };
            logs.spawn(format!("holdline-log-{number}"), move || writer.run())?;
            logs.spawn(format!("holdline-read-{number}"), move || {
                writer::finish_reads(&read, &tell);
            })?;
            logs.spawn(format!("holdline-keep-{number}"), move || upkeep_thread::keep(&kept))?;
        }
        let (ticker, queues) = (Arc::clone(&logs.ticker), logs.queues.clone());
        let sync = match settings.fsync {
            Fsync::Interval(interval) => Some(interval),
            Fsync::Always | Fsync::Never => None,
        };
        logs.spawn("holdline-tick".into(), move || ticker.run(&queues, sync))?;
        Ok(logs)
    }

    /// How many logs there are.
    pub fn count(&self) -> u16 {
        self.queues.len() as u16
    }

    /// Hands calls to a log, of those there are, without waiting. Each ticket is completed later,
    /// writes in order within the party. When too much waits, or the logs are closed, all of them
    /// come back: that is [`model::ports::log::StoreError::Busy`].
    pub fn submit(
        &self,
        party: Party,
        log: u16,
        calls: Vec<(Ticket, Call)>,
    ) -> Result<(), Vec<(Ticket, Call)>> {
        if calls.is_empty() {
            return Ok(());
        }
        self.queues[usize::from(log)].put((party, calls)).map_err(|(_, calls)| calls)
    }

    /// All records of a log up to this index are acknowledged by its copies.
    pub fn acknowledge(&self, log: u16, upto: u64) {
        self.queues[usize::from(log)].acknowledge(upto);
    }

    /// Where a log's batches are shipped takes no more, or takes them again.
    pub fn stream_full(&self, log: u16, is_full: bool) {
        let visit = move |engine: &mut Engine, _| engine.note_stream_full(is_full);
        // A log that is closed stores nothing anyway.
        let _ = self.queues[usize::from(log)].visit(Box::new(visit));
    }

    /// How much there is in each log, as of its last batch.
    pub fn sizes(&self) -> Vec<LogSizes> {
        let all = self.queues.iter().zip(&self.sizes).zip(&self.states);
        let sizes = all.map(|((queue, sizes), state)| LogSizes {
            engine: *sizes.lock().unwrap_or_else(PoisonError::into_inner),
            state: state.memory(),
            calls_waiting: queue.waiting() as u64,
        });
        sizes.collect()
    }

    /// Copies the folder to another that is new or empty, while the logs go on. Calls that had been
    /// completed before are in the copy.
    pub fn backup(&self, to: &Path) -> Result<Copied, OpenError> {
        let place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        let place = place.as_ref().ok_or_else(|| closed(to))?;
        let target = Target::begin(place, to)?;
        let mut copied = Copied::default();
        for (number, (queue, state)) in self.queues.iter().zip(&self.states).enumerate() {
            if !queue.hold() {
                return Err(closed(to));
            }
            let number = number as u16;
            let still = still(queue, place, number);
            let done = still.and_then(|still| target.log(number, &still, &**state, &mut copied));
            queue.release();
            done?;
        }
        target.end(self.count())?;
        Ok(copied)
    }

    /// A base of a log for followers, made while the log goes on. As long as somebody has one,
    /// others get the same.
    pub fn base(&self, log: u16) -> Result<Arc<Base>, OpenError> {
        let place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        let place = place.as_ref().ok_or_else(|| closed(Path::new("")))?;
        let (path, at) = (log_folder(&place.path, log, ""), usize::from(log));
        let mut kept = self.bases[at].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(base) = kept.upgrade() {
            return Ok(base);
        }
        let queue = &self.queues[at];
        if !queue.hold() {
            return Err(closed(&path));
        }
        let still = still(queue, place, log);
        let made =
            still.and_then(|still| Base::make(&place.files, &path, &still, &*self.states[at]));
        queue.release();
        let base = Arc::new(made?.sum()?);
        *kept = Arc::downgrade(&base);
        Ok(base)
    }

    /// Takes nothing more, does and completes what waits, makes checkpoints, and lets the folder
    /// go.
    pub fn close(&self) {
        self.ticker.close();
        self.queues.iter().for_each(|queue| queue.close());
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            if thread.join().is_err() {
                tell!(event::THREAD_PANICKED, thread = "store");
            }
        }
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn spawn(&self, name: String, life: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let thread = Builder::new().name(name).spawn(life)?;
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(())
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        self.close();
    }
}

/// Brings a log to rest, step by step on its writer's thread, which goes on writing in between: its
/// closed segments and its state then stay as they are until upkeep tasks are given again. The
/// queue is held.
fn still(queue: &LogQueue, place: &Place, number: u16) -> Result<Still, OpenError> {
    let path = log_folder(&place.path, number, "");
    let (mut is_first, mut finished) = (true, None);
    loop {
        let (tell, told) = sync_channel(1);
        let (files, folder) = (Arc::clone(&place.files), path.clone());
        let last = (is_first, finished.take());
        let visit = move |engine: &mut Engine, now_s: u32| {
            // Whoever asked may have gone.
            let _ = tell.send(Still::step(engine, (&*files, &folder), now_s, last));
        };
        queue.visit(Box::new(visit)).map_err(|_| closed(&path))?;
        match told.recv().map_err(|_| closed(&path))?? {
            Rest::Still(still) => return Ok(still),
            Rest::Task(upkeep_task) => {
                if !queue.until_acknowledged(upkeep_task.awaits()) {
                    return Err(closed(&path));
                }
                finished = Some(upkeep_task.run());
            }
            Rest::More => {}
        }
        is_first = false;
    }
}

fn closed(path: &Path) -> OpenError {
    let error = io::Error::other("the store is closed, or a backup is being made");
    OpenError::Failed { path: path.into(), error }
}
