//! An engine as a subject of the law: on a file system that fails, with upkeep tasks out between
//! writes.

use crate::engine::{
    Engine, EngineFound, EngineSettings, FjallState, Keep, MemoryState, Retention, Sorted, State,
    StateChange, StateError, UpkeepTask,
};
use crate::log::{LogIdentity, LogSettings, Origin};
use crate::{Fsync, OpenError};
use base::prng::Prng;
use model::ports::files::FileSystem;
use model::ports::log::{Call, Done, StoreError, Write};
use std::path::Path;
use std::sync::Arc;
use testkit::files::FaultyFiles;
use testkit::log::{CallAnswer, KilledWork, LogOptions, Restoration, Subject};

/// Storage of the state.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ground {
    Memory,
    Fjall,
}

/// An engine, what it stands on, and what it is asked.
pub(super) struct Held {
    options: LogOptions,
    pub(super) settings: EngineSettings,
    now_s: u32,
    prng: Prng,
    pub(super) files: FaultyFiles,
    pub(super) memory: Option<Arc<MemoryState>>,
    folder: tempfile::TempDir,
    pub(super) engine: Option<Engine>,
    upkeep_task: Option<UpkeepTask>,
    restored: Restoration,
    pub(super) found: EngineFound,
    /// State fails now and then.
    pub(super) shaky: bool,
    /// The log's disk is full now and then.
    pub(super) tight: bool,
}

pub(super) fn settings(options: &LogOptions) -> EngineSettings {
    let log = LogSettings {
        whose: LogIdentity::default(),
        origin: Origin::default(),
        fsync: Fsync::Always,
        segment_bytes: options.segment_bytes,
        log_bytes_max: options.log_bytes_max,
        kept_bytes: options.log_bytes_max / 16,
    };
    let mut settings = EngineSettings {
        heads_resident_max: 8,
        hot_bytes_max: options.segment_bytes as usize,
        once_count_max: options.once_count_max,
        once_age_s_max: options.once_age_s_max,
        roster_members_resident_max: 6,
        checkpoint_bytes: 4 * 1024,
        index_changes_bytes: 4 * 1024,
        checkpoint_s: 2,
        load_timelines_min: 3,
        load_bytes_max: 600,
        sweep_s: 3,
        ..EngineSettings::new(log)
    };
    for (space, rule) in &options.retention {
        let rule = Retention {
            age_s_max: rule.age_s_max,
            count_max: rule.count_max,
            bytes_max: rule.bytes_max,
            acknowledged: rule.acknowledged,
            ..Retention::default()
        };
        settings = settings.keep(*space, rule);
    }
    settings
}

/// A folder in memory if there is one: what fjall promises of a disk is not tested here.
pub(super) fn quick_folder() -> tempfile::TempDir {
    let made = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    made.expect("a folder for the test")
}

/// State on the same machine: it takes nothing when the power has failed.
struct Powered {
    state: Arc<dyn State>,
    files: FaultyFiles,
}

impl Powered {
    fn on(&self) -> Result<&dyn State, StateError> {
        match self.files.is_off() {
            true => Err(StateError { full: false, why: "the power has failed".into() }),
            false => Ok(&*self.state),
        }
    }
}

impl State for Powered {
    fn get(&self, space: Keep, key: &[u8]) -> Result<Option<Vec<u8>>, StateError> {
        self.on()?.get(space, key)
    }

    fn range(
        &self,
        space: Keep,
        span: (&[u8], &[u8]),
        backwards: bool,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StateError> {
        self.on()?.range(space, span, backwards, each)
    }

    fn write(&self, changes: Vec<StateChange>) -> Result<(), StateError> {
        self.on()?.write(changes)
    }

    fn load(&self, space: Keep, rows: &Sorted) -> Result<(), StateError> {
        self.on()?.load(space, rows)
    }

    fn persist(&self) -> Result<(), StateError> {
        self.on()?.persist()
    }
}

impl Held {
    pub(super) fn new(seed: u64, ground: Ground, options: LogOptions) -> Held {
        let mut held = Held {
            settings: settings(&options),
            now_s: options.now_s,
            options,
            prng: Prng::new(seed),
            files: FaultyFiles::new(seed),
            memory: (ground == Ground::Memory).then(Arc::default),
            folder: quick_folder(),
            engine: None,
            upkeep_task: None,
            restored: Restoration::default(),
            found: EngineFound::default(),
            shaky: false,
            tight: false,
        };
        let files = &held.files;
        let made =
            files.make_folder(Path::new("/log")).and_then(|()| files.sync_folder(Path::new("/")));
        made.expect("no fault is planned");
        assert!(held.open(), "the first start");
        held
    }

    pub(super) fn engine(&mut self) -> &mut Engine {
        self.engine.as_mut().expect("it is open")
    }

    /// State, which is in memory.
    pub(super) fn memory(&self) -> &MemoryState {
        self.memory.as_ref().expect("only what stands on it asks")
    }

    /// False if the power failed meanwhile.
    pub(super) fn open(&mut self) -> bool {
        let mut opened = self.try_open();
        if let (Err(_), true, Some(memory)) = (&opened, self.shaky, &self.memory) {
            // State took nothing: the start is refused, and nothing is lost by it.
            memory.fail_after(None);
            opened = self.try_open();
        }
        if self.files.is_off() {
            return false;
        }
        let (engine, found) = opened.expect("it opens");
        self.restored = Restoration::collect(|each| engine.restore(each).expect("it restores"));
        self.found = found;
        self.engine = Some(engine);
        true
    }

    pub(super) fn try_open(&self) -> Result<(Engine, EngineFound), OpenError> {
        let state: Arc<dyn State> = match &self.memory {
            Some(memory) => Arc::clone(memory) as _,
            None => Arc::new(FjallState::open(self.folder.path(), 1 << 20).expect("fjall opens")),
        };
        let state = Arc::new(Powered { state, files: self.files.clone() });
        let files = Arc::new(self.files.clone());
        Engine::open(files, Path::new("/log"), self.settings.clone(), state)
    }

    pub(super) fn die(&mut self) {
        (self.engine, self.upkeep_task) = (None, None);
        self.files.crash();
        if let Some(memory) = &self.memory {
            memory.crash(&mut self.prng);
        }
    }

    /// Gives the engine something to do beside, which is out for a while.
    fn stir(&mut self) {
        let now_s = self.now_s;
        if self.shaky {
            let writes = self.prng.one_in(3).then(|| self.prng.below(3));
            self.memory.as_ref().expect("only this one can be shaky").fail_after(writes);
        }
        if self.tight && self.prng.one_in(4) {
            let room = if self.prng.one_in(2) { u64::MAX } else { self.files.used() + 4_096 };
            self.files.resize(room);
        }
        if let Some(upkeep_task) = self.upkeep_task.take() {
            let finished = upkeep_task.run();
            self.engine().finished(now_s, finished);
        }
        // Retention at any time would drop what a case still wants to tell it not to.
        if self.options.retention.is_empty() && self.prng.one_in(2) {
            self.upkeep_task = self.engine().upkeep_task(now_s);
        }
    }

    pub(super) fn come_home(&mut self) {
        let now_s = self.now_s;
        if let Some(upkeep_task) = self.upkeep_task.take() {
            let finished = upkeep_task.run();
            self.engine().finished(now_s, finished);
        }
    }

    fn some(&mut self, calls: Vec<Call>) -> Vec<Result<Done, StoreError>> {
        let mut answers = Vec::new();
        let mut writes: Vec<Write> = Vec::new();
        let mut plans = Vec::new();
        for call in calls {
            match call {
                Call::Write(write) => {
                    writes.push(write);
                    if self.prng.one_in(8) {
                        self.write(&mut writes, &mut answers);
                    }
                }
                Call::Read(read) => {
                    self.write(&mut writes, &mut answers);
                    let plan = self.engine().plan(read);
                    if self.prng.one_in(2) {
                        self.stir(); // it may be slow; nothing is written meanwhile, but told
                    }
                    plans.push((answers.len(), plan));
                    answers.push(Ok(Done::Written));
                    let (at, plan) = plans.pop().expect("just put in");
                    answers[at] = plan.finish();
                }
            }
        }
        self.write(&mut writes, &mut answers);
        answers
    }

    fn write(&mut self, writes: &mut Vec<Write>, answers: &mut Vec<Result<Done, StoreError>>) {
        let now_s = self.now_s;
        answers.extend(self.engine().commit(now_s, writes));
        writes.clear();
        self.stir();
    }

    fn mend(&mut self) {
        self.files.resize(u64::MAX);
        if let Some(memory) = &self.memory {
            memory.fail_after(None);
        }
    }

    fn maintain(&mut self) {
        self.come_home();
        let now_s = self.now_s;
        let engine = self.engine();
        engine.checkpoint_now(now_s);
        engine.retain_now(now_s);
        engine.compact_now(now_s);
    }

    fn verify(&mut self) {
        let messages = self.prng.one_in(4);
        let verified = self.engine().verify(messages).expect("state is readable");
        assert_eq!(verified.told, Vec::<String>::new());
    }
}

impl Subject for Held {
    fn options(&self) -> &LogOptions {
        &self.options
    }

    fn now_s(&self) -> u32 {
        self.now_s
    }

    fn call(&mut self, calls: Vec<Call>) -> Vec<Result<Done, StoreError>> {
        let answers = self.some(calls);
        if self.prng.one_in(16) {
            self.verify();
        }
        answers
    }

    fn restart(&mut self) {
        self.come_home();
        self.mend();
        let now_s = self.now_s;
        self.engine().checkpoint_now(now_s);
        self.engine = None;
        assert!(self.open(), "a restart");
        self.verify();
    }

    fn crash(&mut self, work: KilledWork, point: u32) -> Vec<CallAnswer> {
        let at = self.files.points() + u64::from(point);
        let mut answers = Vec::new();
        match work {
            KilledWork::Nothing => {}
            KilledWork::Calls(calls) => {
                self.files.crash_at(at);
                for call in calls {
                    if self.files.is_off() {
                        answers.push(None);
                        continue;
                    }
                    let answer = self.some(vec![call]).pop();
                    let is_out = self.files.is_off() && answer == Some(Err(StoreError::Failed));
                    answers.push(answer.filter(|_| !is_out));
                }
            }
            KilledWork::Tidy(now_s) => {
                self.files.crash_at(at);
                self.now_s = self.now_s.max(now_s);
                self.maintain();
            }
            KilledWork::Restart => {
                self.come_home();
                self.files.crash_at(at);
                let now_s = self.now_s;
                self.engine().checkpoint_now(now_s);
                self.engine = None;
                self.open();
            }
            KilledWork::Recovery => {
                self.die();
                self.mend();
                self.files.crash_at(self.files.points() + u64::from(point));
                self.open();
            }
        }
        self.die();
        self.mend();
        assert!(self.open(), "after a crash");
        self.verify();
        answers
    }

    fn tidy(&mut self, now_s: u32) {
        self.now_s = self.now_s.max(now_s);
        self.maintain();
        self.verify();
    }

    fn restored(&self) -> Restoration {
        self.restored.clone()
    }

    fn may_refuse(&self) -> bool {
        self.tight
    }

    fn stored_bytes(&self) -> Option<u64> {
        self.engine.as_ref().map(|engine| engine.sizes().log_bytes)
    }
}
