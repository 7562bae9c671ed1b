//! The history of presence: each transition is a line of a file in the data folder.
//!
//! Shards hand lines over and never wait; one thread writes them and answers questions, so that no
//! question meets a file that is just being replaced. Nothing of it is kept in memory: what a
//! device costs is what it did, on the disk ([`files`]). Lines are not synced: a crash of the
//! process loses what its shards had not handed over, a power cut what the kernel had not written.
//! Invariant: a line that is not written is counted.

mod files;

use files::HistoryFiles;

use crate::config::PresenceSection;
use admin::{MetricReading, Readings};
use model::ports::presence::directory::Lease;
use model::ports::presence::queries::PastTransition;
use model::presence::Principal;
use model::{event, tell};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Bytes that a shard hands over at once, about: then what is not taken is lost.
const LINES_BYTES: usize = 64 * 1024;

/// Orders in the queue of the thread: at most eight megabytes of lines.
const WORDS_MAX: usize = 128;

/// How long a query waits for the answer of the thread.
const ANSWER: Duration = Duration::from_secs(10);

/// For the thread.
enum Word {
    Lines(String),
    Read { who: Principal, count: usize, tell: SyncSender<io::Result<Vec<PastTransition>>> },
    Stop,
}

/// The way to the thread.
#[derive(Clone)]
pub struct HistoryInbox {
    words: SyncSender<Word>,
    lost: Arc<AtomicU64>,
}

impl HistoryInbox {
    /// Hands lines over. Lines without room stay with the shard until they are too many.
    pub fn offer(&self, lines: &mut String) {
        match self.words.try_send(Word::Lines(std::mem::take(lines))) {
            Ok(()) => {}
            Err(TrySendError::Full(Word::Lines(back))) if back.len() < LINES_BYTES => *lines = back,
            Err(TrySendError::Full(word) | TrySendError::Disconnected(word)) => {
                if let Word::Lines(lines) = word {
                    count_lost(&self.lost, &lines);
                }
            }
        }
    }

    /// The last transitions of somebody, oldest first; none: they cannot be read.
    pub fn read(&self, who: &Principal, count: usize) -> Option<Vec<PastTransition>> {
        let (tell, told) = mpsc::sync_channel(1);
        self.words.send(Word::Read { who: who.clone(), count, tell }).ok()?;
        told.recv_timeout(ANSWER).ok()?.ok()
    }

    /// How many lines were lost.
    pub fn readings(&self) -> Readings {
        let lost = Arc::clone(&self.lost);
        Arc::new(move || {
            vec![MetricReading {
                name: "presence_history_lost_total",
                help: "Transitions missing in the history: the disk was too slow or full.",
                value: lost.load(Ordering::Relaxed),
            }]
        })
    }
}

fn count_lost(lost: &AtomicU64, lines: &str) {
    let count = lines.bytes().filter(|&byte| byte == b'\n').count();
    lost.fetch_add(count as u64, Ordering::Relaxed);
}

/// The thread that writes.
pub struct HistoryThread {
    inbox: HistoryInbox,
    thread: Option<JoinHandle<()>>,
}

impl HistoryThread {
    /// Begins, if a history is kept.
    pub fn start(
        data: &Path,
        config: &PresenceSection,
        lease: &Lease,
    ) -> io::Result<Option<HistoryThread>> {
        if config.history_bytes_max == 0 {
            return Ok(None);
        }
        let folder = data.join("presence-history");
        let files = HistoryFiles::open(&folder, config.history_bytes_max, lease)?;
        let (words, heard) = mpsc::sync_channel(WORDS_MAX);
        let inbox = HistoryInbox { words, lost: Arc::default() };
        let lost = Arc::clone(&inbox.lost);
        let run = move || Life { files, lost, is_failing: false }.run(&heard);
        let thread = Some(Builder::new().name("presence-history".into()).spawn(run)?);
        Ok(Some(HistoryThread { inbox, thread }))
    }

    /// A way to it.
    pub fn inbox(&self) -> HistoryInbox {
        self.inbox.clone()
    }

    /// The shards have ended: what they handed over is written, and nothing after that.
    pub fn stop(&mut self) {
        let _ = self.inbox.words.send(Word::Stop); // it has ended already
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tell!(event::THREAD_PANICKED, thread = "presence-history");
        }
    }
}

struct Life {
    files: HistoryFiles,
    lost: Arc<AtomicU64>,
    is_failing: bool,
}

impl Life {
    fn run(mut self, words: &Receiver<Word>) {
        while let Ok(word) = words.recv() {
            match word {
                Word::Lines(lines) => self.write(&lines),
                Word::Read { who, count, tell } => {
                    // Whoever asked may have gone.
                    let _ = tell.send(self.files.last(&who, count));
                }
                Word::Stop => return,
            }
        }
    }

    fn write(&mut self, lines: &str) {
        let written = self.files.append(lines.as_bytes());
        if written.is_err() {
            count_lost(&self.lost, lines);
        }
        match (written, std::mem::take(&mut self.is_failing)) {
            (Err(error), was_failing) => {
                self.is_failing = true;
                if !was_failing {
                    tell!(event::HISTORY_AWAY, %error);
                }
            }
            (Ok(()), true) => tell!(event::HISTORY_BACK),
            (Ok(()), false) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard_logic::history_line::put;
    use crate::shard_logic::history_line::tests::{came, lease, who};

    #[test]
    fn what_is_handed_over_is_read_in_order_and_outlives_the_thread() {
        let data = tempfile::tempdir().expect("a folder");
        let config = PresenceSection::default();
        let start = |boot| {
            let started = HistoryThread::start(data.path(), &config, &lease(boot));
            started.expect("it starts").expect("a history is kept")
        };
        let mut thread = start(1);
        let inbox = thread.inbox();
        for n in 1..=3 {
            let mut lines = String::new();
            put(&came("shop#a", n), &mut lines);
            put(&came("shop#b", n), &mut lines);
            inbox.offer(&mut lines);
            assert!(lines.is_empty(), "it was taken");
        }
        let found = inbox.read(&who("shop#a"), 2).expect("it can be read");
        let versions = |found: &[PastTransition]| -> Vec<u64> {
            found.iter().map(|it| it.version.0).collect()
        };
        assert_eq!(versions(&found), [2, 3]);
        thread.stop();
        assert_eq!(inbox.read(&who("shop#a"), 2), None, "nobody answers any more");
        let mut late = String::new();
        put(&came("shop#a", 9), &mut late);
        inbox.offer(&mut late);
        assert_eq!(inbox.readings()()[0].value, 1, "what comes too late is counted");
        let mut thread = start(2);
        let found = thread.inbox().read(&who("shop#a"), 8).expect("it can be read");
        assert_eq!(versions(&found), [1, 2, 3]);
        assert!(found.iter().all(|it| it.lease == lease(1)), "of the start before");
        thread.stop();
    }

    #[test]
    fn no_history_is_kept_where_it_may_have_no_bytes() {
        let data = tempfile::tempdir().expect("a folder");
        let config = PresenceSection { history_bytes_max: 0, ..PresenceSection::default() };
        let started = HistoryThread::start(data.path(), &config, &lease(1)).expect("no fault");
        assert!(
            started.is_none() && std::fs::read_dir(data.path()).expect("it is there").count() == 0
        );
    }
}
