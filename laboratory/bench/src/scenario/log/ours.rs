//! Our log under measurement: as an engine on the writer's thread, and with its own threads.
//!
//! [`Direct`] is the engine alone, behind the same group commit as its rivals, its upkeep done
//! where it is due. [`Threaded`] is the whole of it as the server uses it: one log of a data
//! folder, calls by ticket, completions through a closure. Both have the shipped defaults unless
//! a [`Tuning`] says otherwise.

use super::audit::{Seen, by_pages};
use super::lane::{Lane, Mailbox, Ordered};
use super::rival::Rival;
use super::traffic::Traffic;
use crate::clock;
use model::id::ShardId;
use model::ports::log::{Call, Completion, Done, Party, Pull, Read, Restored, Ticket, Write};
use model::service::ServiceKind;
use model::timeline::{Placed, TimelineId};
use serde_json::{Value, json};
use std::io;
use std::path::Path;
use std::sync::Arc;
use store::Fsync;
use store::data::{Folder, Logs, Secrets, Settings};
use store::engine::{Engine, EngineFound, EngineSettings, FjallState, Sizes};
use store::files::Disk;
use store::log::{LogIdentity, LogSettings, Origin};

/// Blocks of state in memory, bytes: what a lone log of the server has.
const STATE_CACHE_BYTES: u64 = 64 << 20;
const PARTY: Party = Party::Service(ServiceKind::Push, ShardId(0));

/// Settings that differ from the defaults.
#[derive(Clone, Debug, Default)]
pub struct Tuning {
    /// No checkpoint is made unasked.
    pub still: bool,
    /// Bytes of records after which one is made.
    pub checkpoint_bytes: Option<u64>,
    /// Bytes of a segment.
    pub segment_bytes: Option<u64>,
    /// Heads that stay in memory.
    pub heads_resident_max: Option<usize>,
    /// Identity of the log.
    pub whose: LogIdentity,
}

impl Tuning {
    fn folder(&self) -> Settings {
        let mut settings = Settings::new(secrets(), 1);
        if self.still {
            (settings.checkpoint_bytes, settings.checkpoint_s) = (u64::MAX, u32::MAX);
        }
        settings.checkpoint_bytes = self.checkpoint_bytes.unwrap_or(settings.checkpoint_bytes);
        settings.segment_bytes = self.segment_bytes.unwrap_or(settings.segment_bytes);
        settings
    }

    fn engine(&self) -> EngineSettings {
        let Settings { segment_bytes, log_bytes_max, hot_bytes_max, .. } = self.folder();
        let whose = self.whose;
        let log = LogSettings {
            whose,
            origin: Origin::default(),
            fsync: Fsync::Always,
            segment_bytes,
            log_bytes_max,
            kept_bytes: 0,
        };
        let mut settings = EngineSettings::new(log);
        settings.hot_bytes_max = hot_bytes_max;
        if self.still {
            (settings.checkpoint_bytes, settings.checkpoint_s) = (u64::MAX, u32::MAX);
            settings.index_changes_bytes = u64::MAX;
        }
        let heads = self.heads_resident_max.unwrap_or(settings.heads_resident_max);
        settings.heads_resident_max = heads;
        settings
    }
}

/// The settings that are measured.
pub fn plan() -> Value {
    let engine = Tuning::default().engine();
    json!({
        "fsync": "always", "segment_bytes": engine.log.segment_bytes,
        "hot_bytes_max": engine.hot_bytes_max, "state_cache_bytes": STATE_CACHE_BYTES,
        "checkpoint_bytes": engine.checkpoint_bytes,
        "index_changes_bytes": engine.index_changes_bytes,
        "checkpoint_s": engine.checkpoint_s, "heads_resident_max": engine.heads_resident_max,
    })
}

/// Heads that stay in memory by default.
pub fn heads_resident_max() -> usize {
    Tuning::default().engine().heads_resident_max
}

/// The engine behind a folder that [`Threaded`] wrote.
pub fn behind_log(folder: &Path) -> io::Result<Direct> {
    let whose = LogIdentity { cluster: secrets().cluster.fingerprint(), log: 0 };
    Direct::open_with(&folder.join("log-00"), &Tuning { whose, ..Tuning::default() })
}

fn secrets() -> Secrets {
    Secrets::of([7; 64])
}

/// The engine.
pub struct Direct {
    engine: Engine,
    found: EngineFound,
}

impl Direct {
    /// Opens it in `folder`.
    pub fn open(folder: &Path) -> io::Result<Direct> {
        Direct::open_with(folder, &Tuning::default())
    }

    /// As [`open`](Self::open), with another tuning.
    pub fn open_with(folder: &Path, tuning: &Tuning) -> io::Result<Direct> {
        std::fs::create_dir_all(folder)?;
        let state = FjallState::open(&folder.join("state"), STATE_CACHE_BYTES);
        let state = Arc::new(state.map_err(io::Error::other)?);
        let opened = Engine::open(Arc::new(Disk), folder, tuning.engine(), state);
        let (engine, found) = opened.map_err(io::Error::other)?;
        Ok(Direct { engine, found })
    }

    /// Findings of the opening.
    pub fn found(&self) -> Value {
        let EngineFound { log, timelines, rebuilt, .. } = &self.found;
        json!({
            "log_bytes": log.bytes, "log_bytes_read": log.bytes_read, "records": log.records,
            "segments_read": log.segments_read, "timelines": timelines, "rebuilt": rebuilt,
            "torn": log.torn.is_some(),
        })
    }

    /// Makes a checkpoint now.
    pub fn checkpoint(&mut self) -> io::Result<()> {
        let made = self.engine.checkpoint_now(now_s());
        made.then_some(()).ok_or_else(|| io::Error::other("no checkpoint was made"))
    }

    /// Bytes of the log's files.
    pub fn log_bytes(&self) -> u64 {
        self.engine.sizes().log_bytes
    }

    /// Heads in memory.
    pub fn heads_resident(&self) -> u64 {
        self.engine.sizes().heads_resident
    }
}

fn now_s() -> u32 {
    clock::unix_s() as u32
}

impl Rival for Direct {
    fn commit(&mut self, batch: Vec<Ordered>) -> io::Result<Vec<Completion>> {
        let write = |(ticket, append): Ordered| (ticket, Write::Append(append));
        let (tickets, writes): (Vec<Ticket>, Vec<Write>) = batch.into_iter().map(write).unzip();
        let now_s = now_s();
        let answers = self.engine.commit(now_s, &writes);
        while let Some(upkeep_task) = self.engine.upkeep_task(now_s) {
            self.engine.finished(now_s, upkeep_task.run());
        }
        Ok(tickets.into_iter().zip(answers).collect())
    }

    fn page(&mut self, pull: &Pull) -> io::Result<Vec<Placed>> {
        match self.engine.plan(Read::Pull(*pull)).finish() {
            Ok(Done::Page(page)) => Ok(page.messages),
            other => Err(io::Error::other(format!("{pull:?} was answered by {other:?}"))),
        }
    }

    fn scan(&mut self, seen: &mut Seen<'_>) -> io::Result<()> {
        let mut shown = Ok(());
        let mut each = |restored: Restored<'_>| {
            if let (Restored::Entry { timeline, seq, id, .. }, true) = (restored, shown.is_ok()) {
                shown = seen.row(timeline.home_hash(), seq, id);
            }
            true
        };
        self.engine.restore(&mut each).map_err(io::Error::other)?;
        shown
    }

    fn audit(&mut self, traffic: &Traffic) -> io::Result<u64> {
        let mut seen = Seen::new(traffic);
        self.scan(&mut seen)?;
        by_pages(self, traffic)?;
        seen.rows_over()
    }

    fn close(mut self: Box<Self>) -> io::Result<()> {
        self.checkpoint()
    }
}

/// The log with its threads.
pub struct Threaded {
    logs: Arc<Logs>,
    mailbox: Arc<Mailbox>,
    others: Arc<Mailbox>,
}

impl Threaded {
    /// Opens it in `folder`.
    pub fn open(folder: &Path) -> io::Result<Threaded> {
        Threaded::open_with(folder, &Tuning::default())
    }

    /// As [`open`](Self::open), with another tuning.
    pub fn open_with(folder: &Path, tuning: &Tuning) -> io::Result<Threaded> {
        let opened = Folder::open(folder, tuning.folder(), Arc::new(Disk));
        let opened = opened.map_err(io::Error::other)?;
        let (mailbox, others) = (Arc::new(Mailbox::default()), Arc::new(Mailbox::default()));
        let (to, to_others) = (Arc::clone(&mailbox), Arc::clone(&others));
        let on_complete = move |party, completions| match party {
            PARTY => to.put(completions),
            _ => to_others.put(completions),
        };
        let logs = Arc::new(opened.start(Arc::new(now_s), on_complete)?);
        Ok(Threaded { logs, mailbox, others })
    }

    /// Hands calls over without waiting.
    pub fn call(&self, calls: Vec<(Ticket, Call)>) -> io::Result<()> {
        hand_over(&self.logs, PARTY, calls)
    }

    /// A handle for other work on the log meanwhile.
    pub fn beside(&self) -> Beside {
        Beside { logs: Arc::clone(&self.logs), mailbox: Arc::clone(&self.others) }
    }
}

impl Lane for Threaded {
    fn submit(&mut self, appends: Vec<Ordered>) -> io::Result<()> {
        let call = |(ticket, append)| (ticket, Call::Write(Write::Append(append)));
        self.call(appends.into_iter().map(call).collect())
    }

    fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        self.logs.close();
        Ok(())
    }
}

/// Another hand on a log that appends go to.
pub struct Beside {
    logs: Arc<Logs>,
    mailbox: Arc<Mailbox>,
}

impl Beside {
    /// Forgets timelines, and waits for it.
    pub fn forget(&self, timelines: &[TimelineId]) -> io::Result<()> {
        let call = |timeline: &TimelineId| (0, Call::Write(Write::Forget(*timeline)));
        hand_over(&self.logs, Party::Hooks, timelines.iter().map(call).collect())?;
        let (mut done, mut completions) = (0, Vec::new());
        while done < timelines.len() {
            self.mailbox.expect(&mut completions)?;
            done += completions.len();
            if let Some((_, Err(error))) = completions.iter().find(|(_, done)| done.is_err()) {
                return Err(io::Error::other(format!("not forgotten: {error:?}")));
            }
        }
        Ok(())
    }

    /// Copies the folder to `to`.
    pub fn backup(&self, to: &Path) -> io::Result<()> {
        self.logs.backup(to).map(|_| ()).map_err(io::Error::other)
    }

    /// How much there is, as of the last batch.
    pub fn sizes(&self) -> Sizes {
        self.logs.sizes().into_iter().next().map(|log| log.engine).unwrap_or_default()
    }
}

fn hand_over(logs: &Logs, party: Party, calls: Vec<(Ticket, Call)>) -> io::Result<()> {
    let busy = |calls: Vec<_>| io::Error::other(format!("{} calls were refused", calls.len()));
    logs.submit(party, 0, calls).map_err(busy)
}
