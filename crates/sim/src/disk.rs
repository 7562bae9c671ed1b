//! The logs of a world: the engines that are shipped, over a file system and state that fail and
//! forget.
//!
//! A shard's calls wait here and are carried out some at a time, as a log's thread would; reads are
//! answered later than the writes behind them, and upkeep is done whenever the world's dice say so.
//! A crash loses whatever was not on stable storage. It does not know what a message means, but for
//! the webhook's courier that lives here too. Invariant: nothing but what the engines keep survives
//! [`SimDisk::restart`].

use base::hash::HashKey;
use base::prng::Prng;
use model::id::ShardId;
use model::ports::files::FileSystem;
use model::ports::log::{
    Call, Completion, Done, PAGE_MESSAGES_MAX, Pull, Read, Restored, StoreError, Ticket, Write,
};
use model::service::ServiceKind;
use model::timeline::{Space, TimelineId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::Fsync;
use store::engine::{
    Engine, EngineSettings, Finished, MemoryState, Planned, Retention, UpkeepTask,
};
use store::log::{LogIdentity, LogSettings, Origin};
use testkit::files::{Error, FaultyFiles, Op};

/// Faults of a world's disk: once in so many times; zero: never.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DiskFaults {
    /// Calls, or whole batches of them, that find no room.
    pub refuse_in: u64,
    /// Syncs that fail, and with them the log until the next start.
    pub fail_in: u64,
}

/// A Report as the webhook's application got it: device, epoch, number.
pub type Posted = (String, u64, u32);

/// The logs of one world.
pub struct SimDisk {
    rng: Prng,
    files: FaultyFiles,
    logs: Vec<Log>,
    faults: DiskFaults,
    /// Reports that the webhook's application got.
    posted: BTreeSet<Posted>,
}

/// A call's number, and whose it is.
type Asked = (ServiceKind, Ticket);

struct Log {
    engine: Engine,
    state: Arc<MemoryState>,
    calls: VecDeque<(Asked, Call)>,
    reads: VecDeque<(Asked, Planned)>,
    upkeep_task: Option<UpkeepTask>,
    finished: Option<Finished>,
}

/// The key by which devices are at home in every world.
pub const HOME: HashKey = HashKey::new(5, 6);

/// Where Reports wait for the webhook.
pub fn report_timeline() -> TimelineId {
    TimelineId::of(Space::Reports, HOME, &[b"http://sim/", b""])
}

impl SimDisk {
    /// Empty logs for so many shards.
    pub fn new(seed: u64, shards: u16, faults: DiskFaults) -> SimDisk {
        let files = FaultyFiles::new(seed ^ 9);
        for shard in 0..shards {
            files.make_folder(&folder(shard)).expect("a sound disk");
        }
        files.sync_folder(Path::new("/")).expect("a sound disk");
        let logs = (0..shards).map(|shard| open(&files, shard, Arc::default())).collect();
        let mut disk =
            SimDisk { rng: Prng::new(seed), files, logs, faults, posted: BTreeSet::new() };
        disk.set_faults(faults);
        disk
    }

    /// Changes what goes wrong from now on.
    pub fn set_faults(&mut self, faults: DiskFaults) {
        self.faults = faults;
        self.files.fail_one_in(Op::Write, faults.refuse_in * 2, Error::NoSpace);
        self.files.fail_one_in(Op::Sync, faults.fail_in, Error::Io);
    }

    /// Takes a shard's calls, or none of them: then their tickets come back.
    pub fn take(
        &mut self,
        shard: ShardId,
        service: ServiceKind,
        calls: Vec<(Ticket, Call)>,
    ) -> Vec<Ticket> {
        let refuse_in = self.faults.refuse_in;
        if refuse_in != 0 && self.rng.one_in(refuse_in) {
            return calls.into_iter().map(|(ticket, _)| ticket).collect();
        }
        let calls = calls.into_iter().map(|(ticket, call)| ((service, ticket), call));
        self.logs[usize::from(shard.0)].calls.extend(calls);
        Vec::new()
    }

    /// Carries out the first few calls of a shard, answers some reads, and does some upkeep.
    pub fn work(&mut self, now_s: u32, shard: ShardId) -> Vec<(ServiceKind, Vec<Completion>)> {
        let at = usize::from(shard.0);
        if self.rng.one_in(2) {
            self.logs[at].keep_up(now_s, &mut self.rng);
        }
        if self.rng.one_in(20) {
            self.post(now_s, at);
        }
        let mut completions = BTreeMap::<ServiceKind, Vec<Completion>>::new();
        for ((service, ticket), result) in self.logs[at].work(now_s, &mut self.rng) {
            completions.entry(service).or_default().push((ticket, result));
        }
        completions.into_iter().collect()
    }

    /// The process died, or the machine did; both begin again, and every log is read.
    pub fn restart(&mut self) {
        let shards = self.logs.len() as u16;
        let states: Vec<_> = self.logs.drain(..).map(|log| log.state).collect();
        self.files.crash();
        for (shard, state) in (0..shards).zip(states) {
            state.crash(&mut self.rng);
            // Derived state may be lost altogether as long as the log is whole: it is not here.
            self.logs.push(open(&self.files, shard, state));
        }
        self.set_faults(self.faults);
    }

    /// The content that a shard's log returns at a start. `each` says of a timeline whether its
    /// entries are wanted.
    pub fn restore(&self, shard: ShardId, each: &mut dyn FnMut(Restored<'_>) -> bool) {
        let restored = self.logs[usize::from(shard.0)].engine.restore(each);
        restored.expect("state in memory can be read");
    }

    /// Calls that were taken and not completed.
    pub fn waiting(&self) -> usize {
        self.logs.iter().map(|log| log.calls.len() + log.reads.len()).sum()
    }

    /// Calls to the disk that failed so far.
    pub fn faults(&self) -> u64 {
        self.files.counts().errors
    }

    /// Whether a log takes nothing any more until the next start.
    pub fn is_failed(&self) -> bool {
        self.logs.iter().any(|log| log.engine.is_failed())
    }

    /// Pushes that the logs keep. Panics where a log does not agree with itself.
    pub fn pushes(&mut self, now_s: u32) -> usize {
        let mut pushes = 0;
        for log in &mut self.logs {
            log.rest(now_s);
            // The first ends the one that may be under way; the second has what came since.
            for _ in 0..2 {
                assert!(log.engine.checkpoint_now(now_s), "a calm disk takes a checkpoint");
            }
            let verified = log.engine.verify(true).expect("state in memory can be read");
            assert_eq!(verified.problems, 0, "{:?}", verified.told);
            let restored = log.engine.restore(&mut |restored| {
                if let Restored::Timeline { timeline, count, .. } = restored
                    && timeline.space() == Space::Pushes
                {
                    pushes += count as usize;
                }
                false
            });
            restored.expect("state in memory can be read");
        }
        pushes
    }

    /// Posts what waits for the webhook, to the last Report. Gives all that was ever posted.
    pub fn post_all(&mut self, now_s: u32) -> &BTreeSet<Posted> {
        (0..self.logs.len()).for_each(|at| self.post(now_s, at));
        &self.posted
    }

    /// The webhook's courier: posts a page and takes it off, unless it dies in between.
    fn post(&mut self, now_s: u32, at: usize) {
        let timeline = report_timeline();
        let (count_max, bytes_max) = (PAGE_MESSAGES_MAX, 1 << 20);
        let pull = Pull { timeline, from: 0, backwards: false, count_max, bytes_max };
        let engine = &mut self.logs[at].engine;
        let page = match engine.read(Read::Pull(pull)) {
            Ok(Done::Page(page)) => page,
            other => panic!("a page is answered: {other:?}"),
        };
        assert!(!page.more, "fewer Reports wait than a page holds");
        let seqs: Vec<_> = page.messages.iter().map(|placed| placed.seq).collect();
        assert!(seqs.is_sorted(), "places are in order: {seqs:?}");
        for placed in &page.messages {
            let event = hub::decode_event(&placed.message.body).expect("a Report");
            let model::ports::events::DeviceWhat::Report { seq, .. } = event.what else { continue };
            self.posted.insert((event.device.as_str().to_owned(), event.epoch, seq));
        }
        if !seqs.is_empty() && self.rng.one_in(2) {
            engine.commit(now_s, &[Write::Remove { timeline, seqs }]);
        }
    }
}

impl Log {
    fn work(&mut self, now_s: u32, rng: &mut Prng) -> Vec<(Asked, Result<Done, StoreError>)> {
        let waiting = self.calls.len() as u64;
        let count = rng.below(waiting + 1).max(waiting.min(1)) as usize;
        let (mut tickets, mut writes) = (Vec::new(), Vec::new());
        let mut planned = Vec::new();
        for (ticket, call) in self.calls.drain(..count) {
            match call {
                Call::Write(write) => {
                    tickets.push(ticket);
                    writes.push(write);
                }
                Call::Read(read) => planned.push((ticket, read)),
            }
        }
        let mut completions = Vec::new();
        if !writes.is_empty() {
            let answers = self.engine.commit(now_s, &writes);
            completions.extend(tickets.into_iter().zip(answers));
        }
        let engine = &mut self.engine;
        self.reads.extend(planned.into_iter().map(|(ticket, read)| (ticket, engine.plan(read))));
        let count = rng.below(self.reads.len() as u64 + 1) as usize;
        let done = self.reads.drain(..count).map(|(ticket, read)| (ticket, read.finish()));
        completions.extend(done);
        completions
    }

    /// The next step of upkeep: an upkeep task is given out, run, and told.
    fn keep_up(&mut self, now_s: u32, rng: &mut Prng) {
        if let Some(finished) = self.finished.take() {
            self.engine.finished(now_s, finished);
        } else if let Some(upkeep_task) = self.upkeep_task.take() {
            self.finished = Some(upkeep_task.run());
        } else {
            self.upkeep_task = self.engine.upkeep_task(now_s);
        }
        if rng.one_in(500) {
            self.rest(now_s);
            self.engine.compact_now(now_s);
        }
    }

    /// No upkeep task is out any more.
    fn rest(&mut self, now_s: u32) {
        let finished = self.upkeep_task.take().map(UpkeepTask::run).or(self.finished.take());
        finished.into_iter().for_each(|finished| self.engine.finished(now_s, finished));
    }
}

fn folder(shard: u16) -> PathBuf {
    PathBuf::from(format!("/log-{shard:02}"))
}

/// A log with small limits, so that everything happens.
fn open(files: &FaultyFiles, shard: u16, state: Arc<MemoryState>) -> Log {
    let (segment_bytes, log_bytes_max) = (16 * 1024, 64 << 20);
    let whose = LogIdentity { cluster: 1, log: shard.into() };
    let (origin, fsync) = (Origin::default(), Fsync::Always);
    let log = LogSettings { whose, origin, fsync, segment_bytes, log_bytes_max, kept_bytes: 0 };
    let settings = EngineSettings {
        heads_resident_max: 4,
        hot_bytes_max: 4 * 1024,
        checkpoint_bytes: 8 * 1024,
        checkpoint_s: 5,
        sweep_s: 30,
        ..EngineSettings::new(log)
    };
    let settings = settings.keep(Space::Reports, Retention::default());
    let files = Arc::new(files.clone());
    let opened = Engine::open(files, &folder(shard), settings, state.clone());
    let (engine, _) = opened.expect("a log opens after every crash");
    let (calls, reads) = (VecDeque::new(), VecDeque::new());
    Log { engine, state, calls, reads, upkeep_task: None, finished: None }
}
