//! Lanes: what takes appends with tickets and completes them later, once each.
//!
//! Our log's face is one; [`Group`] makes one of any engine, by the same rule of group commit: a
//! batch is what arrived while the last one was being written. The producer knows lanes only, so
//! that what it costs and how it waits is alike for all.

use super::rival::Rival;
use model::ports::log::{Append, Completion, Ticket};
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// A completion that does not come for so long will not come.
const PATIENCE: Duration = Duration::from_secs(60);

/// An append and its ticket.
pub type Ordered = (Ticket, Append);

/// See the module.
pub trait Lane {
    /// Hands appends over without waiting.
    fn submit(&mut self, appends: Vec<Ordered>) -> io::Result<()>;

    /// Where its completions arrive.
    fn mailbox(&self) -> &Mailbox;

    /// Does what it has left to do, and ends.
    fn close(self: Box<Self>) -> io::Result<()>;
}

/// Completions that wait for the producer.
#[derive(Default)]
pub struct Mailbox {
    completions: Mutex<Vec<Completion>>,
    rang: Condvar,
}

impl Mailbox {
    /// Adds completions. Never blocks for longer than the producer takes what is there.
    pub fn put(&self, completions: Vec<Completion>) {
        let mut waiting = self.completions.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.extend(completions);
        self.rang.notify_one();
    }

    /// Takes everything that is there into `out`, which is emptied before; waits for something at
    /// most `patience`.
    pub fn take(&self, patience: Duration, out: &mut Vec<Completion>) {
        out.clear();
        let mut waiting = self.completions.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.is_empty() && !patience.is_zero() {
            let empty = |waiting: &mut Vec<Completion>| waiting.is_empty();
            let woken = self.rang.wait_timeout_while(waiting, patience, empty);
            waiting = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        std::mem::swap(&mut *waiting, out);
    }

    /// As [`take`](Self::take), but fails if no append is completed for a minute.
    pub fn expect(&self, out: &mut Vec<Completion>) -> io::Result<()> {
        self.take(PATIENCE, out);
        let silent = || Err(io::Error::other("no append was completed for a minute"));
        if out.is_empty() { silent() } else { Ok(()) }
    }
}

/// A lane over an engine: one thread that commits whatever waits, all of it at once.
pub struct Group {
    inbox: Arc<Inbox>,
    mailbox: Arc<Mailbox>,
    writer: JoinHandle<io::Result<()>>,
}

#[derive(Default)]
struct Inbox {
    waiting: Mutex<(Vec<Ordered>, bool)>,
    rang: Condvar,
}

impl Group {
    /// Starts the writer over `rival`.
    pub fn start(mut rival: Box<dyn Rival>) -> io::Result<Group> {
        let (inbox, mailbox) = (Arc::new(Inbox::default()), Arc::new(Mailbox::default()));
        let (from, to) = (Arc::clone(&inbox), Arc::clone(&mailbox));
        let life = move || {
            while let Some(batch) = from.take() {
                to.put(rival.commit(batch)?);
            }
            rival.close()
        };
        let writer = Builder::new().name("group".into()).spawn(life)?;
        Ok(Group { inbox, mailbox, writer })
    }
}

impl Inbox {
    /// Takes all that waits, as soon as something does; `None` at the end.
    fn take(&self) -> Option<Vec<Ordered>> {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = |waiting: &mut (Vec<Ordered>, bool)| waiting.0.is_empty() && !waiting.1;
        let woken = self.rang.wait_while(waiting, idle);
        let batch = std::mem::take(&mut woken.unwrap_or_else(PoisonError::into_inner).0);
        (!batch.is_empty()).then_some(batch)
    }
}

impl Lane for Group {
    fn submit(&mut self, appends: Vec<Ordered>) -> io::Result<()> {
        if self.writer.is_finished() {
            return Err(io::Error::other("the engine failed; closing it says why"));
        }
        let mut waiting = self.inbox.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.0.extend(appends);
        self.inbox.rang.notify_one();
        Ok(())
    }

    fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        self.inbox.waiting.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
        self.inbox.rang.notify_one();
        self.writer.join().map_err(|_| io::Error::other("the engine's thread panicked"))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::log::drive::{self, Plan};
    use crate::scenario::log::rival::Kind;
    use crate::scenario::log::traffic::{Traffic, timelines};

    /// Appends go through a lane over each rival, and what is there afterwards is read back.
    fn driven(kind: Kind) -> (io::Result<u64>, io::Result<u64>) {
        let folder = tempfile::tempdir().unwrap();
        let (mut traffic, time) = (Traffic::new(1, 2, &timelines(64)), Duration::from_secs(60));
        let mut lane = Group::start(kind.open(folder.path(), 1 << 20).unwrap()).unwrap();
        let plan = Plan { window: 7, time, appends_max: 100 };
        let run = drive::run(&mut lane, &mut traffic, &plan).unwrap();
        assert_eq!(run.appends, 100);
        Box::new(lane).close().unwrap();
        let mut rival = kind.open(folder.path(), 1 << 20).unwrap();
        let whole = rival.audit(&traffic);
        traffic.append(); // which nobody stored
        (whole, rival.audit(&traffic))
    }

    #[test]
    fn all_rivals_keep_what_they_acknowledged_and_a_lost_message_shows() {
        for kind in Kind::ALL {
            let (whole, lacking) = driven(kind);
            assert_eq!(whole.unwrap(), 200, "{kind:?}");
            assert!(lacking.is_err(), "{kind:?}");
        }
    }
}
