//! Archive of messages: copies stored messages from the logs to a database, after the answers.
//!
//! Each log has a timeline of messages that the archive does not have yet; a thread reads it,
//! passes pages to the archive and removes what that has accepted. Timelines of an earlier number
//! of shards are drained before those of this one. It knows no rule of chat and no SQL. Invariants:
//! a message leaves the timeline when the archive has it; after a kill between the two it is passed
//! again, which changes nothing there.

#[cfg(test)]
mod tests;

use crate::access::LogFailed;
use crate::access::RowLogs;
use crate::clock;
use model::ports::databases::accounts::DatabaseFault;
use model::ports::databases::archive::{
    ARCHIVED_A_CALL_MAX, ArchivedMessage, ArchivedState, MessageArchive,
};
use model::ports::log::{Call, Completion, Done, Page, Pull, Read, Table, TimelineStatus, Write};
use model::timeline::{Message, ReaderId, Seq, TimelineId};
use model::{event, tell};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

pub use crate::access::{LogWay, SubmitRows};

/// Bytes of messages that are read at once: far below what a database takes in one packet.
const PAGE_BYTES_MAX: usize = 2 << 20;

/// Time between two looks when nothing waits.
const LOOK_MS: u64 = 250;

/// Time between two tries when the database is away.
const RETRY_MS: u64 = 1_000;

/// Reader of the timelines: its cursor is the last entry that the archive has.
pub(crate) const READER: ReaderId = ReaderId(0);

/// Where messages wait for the archive: a log, and a timeline of it.
pub type ArchivePlace = (u16, TimelineId);

/// Places of the archive.
pub struct ArchivePlaces {
    /// Places with messages of an earlier number of shards, to which none are added.
    pub earlier: Vec<ArchivePlace>,
    /// Where they come now.
    pub own: Vec<ArchivePlace>,
}

/// Figures of the archive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ArchiveCounts {
    /// 1: it takes what it is given.
    pub up: u64,
    /// Messages that wait for it.
    pub waiting: u64,
    /// Age of the oldest of them, seconds.
    pub waiting_s: u64,
    /// Messages that it has taken.
    pub taken: u64,
    /// Messages that were dropped before it had them, or cannot be read.
    pub lost: u64,
    /// Calls to it that failed.
    pub faults: u64,
}

/// Figures that are counted.
#[derive(Default)]
struct ArchiveTally {
    up: AtomicBool,
    taken: AtomicU64,
    lost: AtomicU64,
    faults: AtomicU64,
    /// By place: how many wait, and since which Unix second the oldest.
    waiting: Mutex<BTreeMap<ArchivePlace, (u64, u32)>>,
}

/// Reads what the logs have of messages.
#[derive(Clone, Copy)]
pub struct MessageReader {
    /// A stored message; `None`: it cannot be read.
    pub message: fn(&Message) -> Option<ArchivedMessage>,
    /// The key of the row of `ChatRecalled` that says what the message is which this one amends.
    pub amended_row: fn(&Message) -> Option<Box<[u8]>>,
    /// Content of such a row, by its key and value.
    pub state: fn(&[u8], &[u8]) -> Option<ArchivedState>,
}

/// The archive, and who writes to it.
pub struct Archive {
    logs: RowLogs,
    read: MessageReader,
    tables: Arc<dyn MessageArchive>,
    tally: ArchiveTally,
    over: Mutex<bool>,
    ended: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Messages of a page that amend others: their places in it, and the keys of the others' rows.
type Amended = Vec<(usize, Box<[u8]>)>;

/// Why a page did not get there.
enum Stopped {
    /// The log does not answer: it is asked again.
    Log,
    /// The database.
    Database,
}

impl From<LogFailed> for Stopped {
    fn from(_: LogFailed) -> Stopped {
        Stopped::Log
    }
}

impl Archive {
    /// An archive without a writing thread.
    pub fn new(tables: Arc<dyn MessageArchive>, read: MessageReader) -> Arc<Archive> {
        Arc::new(Archive {
            logs: RowLogs::default(),
            read,
            tables,
            tally: ArchiveTally::default(),
            over: Mutex::new(false),
            ended: Condvar::new(),
            thread: Mutex::default(),
        })
    }

    /// The logs are there. Starts the thread, which goes over these places.
    pub fn begin(self: &Arc<Archive>, way: LogWay, places: ArchivePlaces) -> Result<(), String> {
        self.logs.begin(way);
        let archive = self.clone();
        let thread = Builder::new().name("archive".into()).spawn(move || archive.run(&places));
        let thread = thread.map_err(|error| format!("cannot start the archive thread: {error}"))?;
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(())
    }

    /// A log has answered.
    pub fn complete(&self, completions: Vec<Completion>) {
        self.logs.complete(completions);
    }

    /// Ends the thread; what it does not have waits in the logs.
    pub fn close(&self) {
        *self.over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.ended.notify_all();
        self.tables.close();
        self.logs.close();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tell!(event::THREAD_PANICKED, thread = "archive");
        }
    }

    /// Counts of the archive.
    pub fn counts(&self) -> ArchiveCounts {
        let ArchiveTally { up, taken, lost, faults, waiting } = &self.tally;
        let waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest_s = waiting.values().filter(|(count, _)| *count > 0).map(|(_, at_s)| *at_s);
        let now_s = clock::unix_s();
        ArchiveCounts {
            up: up.load(Ordering::Relaxed).into(),
            waiting: waiting.values().map(|(count, _)| count).sum(),
            waiting_s: oldest_s.min().map_or(0, |at_s| now_s.saturating_sub(at_s)).into(),
            taken: taken.load(Ordering::Relaxed),
            lost: lost.load(Ordering::Relaxed),
            faults: faults.load(Ordering::Relaxed),
        }
    }

    fn run(&self, places: &ArchivePlaces) {
        while !self.is_over() {
            let wait_ms = match self.round(places) {
                Ok(true) => continue,
                Ok(false) => LOOK_MS,
                Err(_) => RETRY_MS,
            };
            let over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
            let wait = Duration::from_millis(wait_ms);
            drop(self.ended.wait_timeout_while(over, wait, |over| !*over));
        }
    }

    /// Copies all messages of earlier places, and a page of each other one. True if there are more.
    fn round(&self, places: &ArchivePlaces) -> Result<bool, Stopped> {
        // The number of waiting messages is reported whether or not the archive accepts any.
        for place in &places.earlier {
            self.look(*place)?;
        }
        let looked = places.own.iter().map(|place| self.look(*place));
        let standings: Vec<TimelineStatus> = looked.collect::<Result<_, _>>()?;
        if !self.tally.up.load(Ordering::Relaxed) {
            self.say(self.tables.open())?;
        }
        // What calls a message back may wait in another place than the message by now: behind it.
        for place in &places.earlier {
            while self.page(*place, self.look(*place)?)? {}
        }
        let mut is_more = false;
        for (place, standing) in places.own.iter().zip(standings) {
            is_more |= self.page(*place, standing)?;
        }
        Ok(is_more)
    }

    fn look(&self, place: ArchivePlace) -> Result<TimelineStatus, Stopped> {
        let (log, timeline) = place;
        let read = Read::Standing { timeline, reader: READER };
        let Done::Standing(standing) = self.ask(log, Call::Read(read))? else {
            return Err(Stopped::Log);
        };
        let mut waiting = self.tally.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, since_s) = waiting.entry(place).or_default();
        if *count == 0 && standing.count > 0 {
            *since_s = clock::unix_s();
        }
        *count = standing.count;
        Ok(standing)
    }

    /// Sends the oldest entries of a place, whose state this is, to the archive. True: more wait.
    fn page(
        &self,
        (log, timeline): ArchivePlace,
        standing: TimelineStatus,
    ) -> Result<bool, Stopped> {
        if standing.count == 0 {
            return Ok(false);
        }
        let (count_max, bytes_max) = (ARCHIVED_A_CALL_MAX, PAGE_BYTES_MAX);
        let pull = Pull { timeline, from: 0, backwards: false, count_max, bytes_max };
        let Done::Page(page) = self.ask(log, Call::Read(Read::Pull(pull)))? else {
            return Err(Stopped::Log);
        };
        if let Some(first) = page.messages.first() {
            let at_s = first.message.at_s;
            let mut waiting = self.tally.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.insert((log, timeline), (standing.count, at_s));
        }
        let (seqs, mut messages, amended) = self.unpack(&page, standing.cursor);
        self.amend(&mut messages, amended)?;
        let Some(upto) = seqs.iter().copied().max() else { return Ok(false) };
        if !messages.is_empty() {
            self.say(self.tables.put(&messages))?;
        }
        self.tally.taken.fetch_add(messages.len() as u64, Ordering::Relaxed);
        // The cursor first: a removal without it would be reported as a loss.
        let known = Write::Acknowledge { timeline, reader: READER, upto };
        let writes = [known, Write::Remove { timeline, seqs }];
        self.logs.ask(writes.map(|write| (log, Call::Write(write))).into(), RowLogs::ANSWER)?;
        self.look((log, timeline))?;
        Ok(page.more)
    }

    /// The places of a page, the messages that it has, and of those that amend others, by their
    /// places in the list, the rows that say what these are by now. Places missing between them
    /// were dropped by retention, and damaged messages are dropped now: both are counted and
    /// reported.
    fn unpack(&self, page: &Page, cursor: Seq) -> (Vec<Seq>, Vec<ArchivedMessage>, Amended) {
        let mut seqs: Vec<Seq> = page.messages.iter().map(|placed| placed.seq).collect();
        let mut messages = Vec::with_capacity(seqs.len());
        let mut amended = Vec::new();
        let mut unread = page.damaged.len();
        for placed in &page.messages {
            match (self.read.message)(&placed.message) {
                Some(message) => {
                    let row = (self.read.amended_row)(&placed.message);
                    amended.extend(row.map(|key| (messages.len(), key)));
                    messages.push(message);
                }
                None => unread += 1,
            }
        }
        seqs.extend_from_slice(&page.damaged);
        let highest = seqs.iter().copied().max().unwrap_or(cursor);
        let dropped = highest.saturating_sub(cursor).saturating_sub(seqs.len() as u64);
        let lost = dropped + unread as u64;
        if lost > 0 {
            self.tally.lost.fetch_add(lost, Ordering::Relaxed);
            tell!(event::ARCHIVE_LOST, dropped, unread);
        }
        (seqs, messages, amended)
    }

    /// Reads what the messages are by now that some of these edit or react to.
    fn amend(&self, messages: &mut [ArchivedMessage], amended: Amended) -> Result<(), Stopped> {
        if amended.is_empty() {
            return Ok(());
        }
        let keys = amended.iter().map(|(_, key)| key.clone()).collect();
        let rows = self.logs.row_of_each(Table::ChatRecalled, keys)?;
        for ((at, key), row) in amended.iter().zip(rows) {
            messages[*at].amends = row.and_then(|row| (self.read.state)(key, &row));
        }
        Ok(())
    }

    fn ask(&self, log: u16, call: Call) -> Result<Done, Stopped> {
        self.logs.ask(vec![(log, call)], RowLogs::ANSWER)?.pop().ok_or(Stopped::Log)
    }

    /// Logs the state of the database once per change.
    fn say(&self, done: Result<(), DatabaseFault>) -> Result<(), Stopped> {
        let was_up = self.tally.up.swap(done.is_ok(), Ordering::Relaxed);
        match done {
            Ok(()) if !was_up => tell!(event::ARCHIVE_BACK),
            Ok(()) => {}
            Err(why) => {
                let faults = self.tally.faults.fetch_add(1, Ordering::Relaxed);
                if was_up || faults == 0 {
                    tell!(event::ARCHIVE_AWAY, %why);
                }
                return Err(Stopped::Database);
            }
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        *self.over.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
