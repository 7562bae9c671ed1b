//! The engine over simulated files, with state that shares their fate.
//!
//! Driven on one thread as its owner drives it, but for upkeep tasks and reads, which stay open as
//! long as the seed likes. Invariant: what the machine remembers after its power is off, nobody
//! hears.

use crate::{TIDY_S, settings};
use base::prng::Prng;
use model::ports::files::{File, FileSystem};
use model::ports::log::{Call, Done, RosterId, StoreError, Table, Write};
use model::timeline::TimelineId;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use store::engine::*;
use testkit::files::{Error, FaultyFiles, Op};
use testkit::log::{CallAnswer, KilledWork, LogOptions, Restoration, Subject};

const FOLDER: &str = "/data/log-00";
const STATE: &str = "/state";

/// State that loses its power together with the files: each write and persist of it is a change of
/// a file of theirs, so that it can be crashed at and can fail.
pub(crate) struct Powered {
    pub(crate) state: MemoryState,
    file: Mutex<Box<dyn File>>,
    count: AtomicU64,
}

impl Powered {
    fn mark(&self) -> Result<(), StateError> {
        let n = self.count.fetch_add(1, Ordering::Relaxed);
        let mut file = self.file.lock().expect("nobody panics with it");
        file.write_at(0, &n.to_le_bytes())
            .map_err(|error| StateError { full: false, why: error.to_string() })
    }
}

pub(crate) struct Held(pub(crate) Arc<Powered>);

impl State for Held {
    fn get(&self, space: Keep, key: &[u8]) -> Result<Option<Vec<u8>>, StateError> {
        self.0.state.get(space, key)
    }

    fn range(
        &self,
        space: Keep,
        range: (&[u8], &[u8]),
        backwards: bool,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StateError> {
        self.0.state.range(space, range, backwards, each)
    }

    fn write(&self, changes: Vec<StateChange>) -> Result<(), StateError> {
        self.0.mark()?;
        self.0.state.write(changes)
    }

    fn load(&self, space: Keep, rows: &Sorted) -> Result<(), StateError> {
        self.0.mark()?;
        self.0.state.load(space, rows)
    }

    fn persist(&self) -> Result<(), StateError> {
        self.0.mark()?;
        self.0.state.persist()
    }
}

/// Faults while a simulated store is up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    Nothing,
    /// Calls to the disk fail.
    Errors,
    /// The disk is full for a while.
    Room,
}

impl Trouble {
    /// Something goes wrong, or not, or is over.
    pub(crate) fn happen(self, files: &FaultyFiles, prng: &mut Prng) {
        match self {
            Trouble::Errors if prng.one_in(30) => {
                let ops = [Op::Read, Op::Write, Op::Sync, Op::Name, Op::SyncFolder, Op::Cut];
                let op = ops[prng.below(ops.len() as u64) as usize];
                files.fail_after(op, prng.below(6), Error::Io);
            }
            Trouble::Room if prng.one_in(8) => files.resize(files.used() + prng.below(300_000)),
            Trouble::Room if prng.one_in(4) => files.resize(u64::MAX),
            Trouble::Nothing | Trouble::Errors | Trouble::Room => {}
        }
    }
}

/// The engine over simulated files and state in memory, driven on one thread as its owner drives
/// it, but for upkeep tasks, which stay open as long as the seed likes.
pub(crate) struct Simulated {
    options: LogOptions,
    files: FaultyFiles,
    state: Arc<Powered>,
    engine: Option<Engine>,
    now_s: u32,
    restored: Restoration,
    prng: Prng,
    upkeep_task: Option<UpkeepTask>,
    trouble: Trouble,
    /// Upkeep tasks are done between calls too, not in `tidy` alone.
    pub(crate) busy: bool,
    /// Nothing is synced unless the engine needs it.
    pub(crate) lazy: bool,
}

impl Simulated {
    pub(crate) fn new(seed: u64, options: LogOptions, trouble: Trouble) -> Simulated {
        let files = FaultyFiles::new(seed);
        make_folder(&files, FOLDER);
        let state = Powered::new(&files);
        let mut made = Simulated {
            now_s: options.now_s,
            options,
            files,
            state,
            engine: None,
            restored: Restoration::default(),
            prng: Prng::new(seed ^ 0x0065_6e67),
            upkeep_task: None,
            trouble,
            busy: seed % 2 == 1,
            lazy: false,
        };
        made.open(None);
        made
    }

    /// Opens the engine; with a crash in the middle first, if that is wanted.
    fn open(&mut self, crash_at: Option<u32>) {
        assert!(self.engine.is_none(), "it was closed");
        if let Some(point) = crash_at {
            self.files.crash_at(self.files.points() + u64::from(point));
            let _ = self.try_open();
            self.engine = None;
            self.lose_power();
        }
        let mut tries = 0;
        while let Err(why) = self.try_open() {
            tries += 1;
            let may_fail = self.trouble != Trouble::Nothing && tries < 100;
            assert!(may_fail, "it does not open: {why}");
            self.files.resize(u64::MAX);
            self.state = self.state.reopened(&self.files);
        }
    }

    fn try_open(&mut self) -> Result<(), String> {
        let files: Arc<dyn FileSystem> = Arc::new(self.files.clone());
        let state: Arc<dyn State> = Arc::new(Held(Arc::clone(&self.state)));
        let mut settings = settings(&self.options);
        if self.lazy {
            settings.log.fsync = store::Fsync::Never;
        }
        let opened = Engine::open(files, Path::new(FOLDER), settings, state);
        let (engine, _) = opened.map_err(|error| error.to_string())?;
        let mut why = Ok(());
        self.restored = Restoration::collect(|each| {
            why = engine.restore(each).map_err(|error| error.to_string());
        });
        why?;
        self.engine = Some(engine);
        Ok(())
    }

    fn engine(&mut self) -> &mut Engine {
        self.engine.as_mut().expect("it is open")
    }

    /// State, memory and log agree.
    fn verify(&mut self) {
        if !self.files.is_off() {
            let verified = self.engine().verify(true).expect("state can be read");
            let wrong = verified.told.iter().filter(|why| !why.contains("Input/output error"));
            assert_eq!(wrong.collect::<Vec<_>>(), Vec::<&String>::new(), "what does not agree");
        }
    }

    /// Nothing is kept when everything is gone.
    pub(crate) fn empty(&mut self) {
        self.restart();
        let restored = self.restored();
        let mut calls = Vec::new();
        let all: (&[u8], &[u8]) = (&[], &[u8::MAX; 600]);
        let forget = &mut |key: &[u8], _: &[u8]| {
            let id = key.try_into().ok().and_then(TimelineId::from_bytes);
            calls.push(Call::Write(Write::Forget(id.expect("heads go by timelines"))));
            true
        };
        self.state.state.range(Keep::Heads, all, false, forget).expect("it is memory");
        let from = [Table::Rosters as u8];
        let rosters: (&[u8], &[u8]) = (&from, &[Table::Rosters as u8 + 1]);
        let disband = &mut |key: &[u8], _: &[u8]| {
            let id = RosterId::of_row(&key[1..]).expect("rosters go by their ids");
            calls.push(Call::Write(Write::Disband(id)));
            true
        };
        self.state.state.range(Keep::Rows, rosters, false, disband).expect("it is memory");
        for (table, key) in restored.keys() {
            calls.push(Call::Write(Write::Delete { table, key: key.into() }));
        }
        let answers = self.call(calls);
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        for _ in 0..3 {
            let now_s = self.now_s;
            self.tidy(now_s);
        }
        self.restart();
        self.verify();
        let (sizes, longest) = (self.engine().sizes(), self.options.segment_bytes + 100_000);
        assert!(sizes.segments <= 3 && sizes.log_bytes < longest, "too much is left: {sizes:?}");
        for space in [Keep::Runs, Keep::Cursors, Keep::Rows] {
            let mut left = 0;
            let count = &mut |_: &[u8], _: &[u8]| {
                left += 1;
                true
            };
            self.state.state.range(space, all, false, count).expect("it is memory");
            assert_eq!(left, 0, "left in {space:?}");
        }
    }

    /// The machine is off, and on again.
    fn lose_power(&mut self) {
        (self.upkeep_task, self.engine) = (None, None);
        self.files.crash();
        if self.prng.one_in(2) {
            self.files.resize(u64::MAX);
        }
        self.state.state.crash(&mut self.prng);
        self.state = self.state.reopened(&self.files);
    }

    /// The process is killed; the machine stays, and so does a full disk, with luck.
    fn kill(&mut self) {
        (self.upkeep_task, self.engine) = (None, None);
        self.files.kill();
        if self.prng.one_in(2) {
            self.files.resize(u64::MAX);
        }
        self.state = self.state.reopened(&self.files);
    }

    /// A step of an upkeep task, or of nothing.
    fn stir(&mut self) {
        if self.files.is_off() {
            return;
        }
        let now_s = self.now_s;
        match self.upkeep_task.take() {
            Some(upkeep_task) if self.prng.one_in(2) => {
                let finished = upkeep_task.run();
                self.engine().finished(now_s, finished);
            }
            Some(upkeep_task) => self.upkeep_task = Some(upkeep_task),
            None => self.upkeep_task = self.engine().upkeep_task(now_s),
        }
    }

    /// Calls as they come, writes that stand together in one batch; reads may be finished late.
    fn carry(&mut self, calls: Vec<Call>) -> Vec<CallAnswer> {
        let mut answers: Vec<CallAnswer> = calls.iter().map(|_| None).collect();
        let (mut batch, mut places) = (Vec::new(), Vec::new());
        let mut planned = Vec::new();
        for (n, call) in calls.into_iter().enumerate() {
            match call {
                Call::Write(write) => {
                    batch.push(write);
                    places.push(n);
                    if self.prng.one_in(20) {
                        self.commit(&mut batch, &mut places, &mut answers);
                    }
                }
                Call::Read(read) => {
                    self.commit(&mut batch, &mut places, &mut answers);
                    planned.push((n, self.engine().plan(read)));
                    if self.prng.one_in(2) {
                        let (n, plan) =
                            planned.remove(self.prng.below(planned.len() as u64) as usize);
                        self.finish(n, plan, &mut answers);
                    }
                }
            }
        }
        self.commit(&mut batch, &mut places, &mut answers);
        for (n, plan) in planned {
            self.finish(n, plan, &mut answers);
        }
        answers
    }

    fn commit(
        &mut self,
        batch: &mut Vec<Write>,
        places: &mut Vec<usize>,
        answers: &mut [CallAnswer],
    ) {
        let (writes, now_s) = (std::mem::take(batch), self.now_s);
        let places = std::mem::take(places);
        if writes.is_empty() || self.files.is_off() {
            return;
        }
        let all = self.engine().commit(now_s, &writes);
        assert_eq!(all.len(), writes.len(), "answers of a commit");
        for (place, answer) in places.into_iter().zip(all) {
            let dead = self.files.is_off() && answer == Err(StoreError::Failed);
            answers[place] = (!dead).then_some(answer);
        }
        if self.busy {
            self.stir();
        }
    }

    fn finish(&mut self, n: usize, plan: Planned, answers: &mut [CallAnswer]) {
        if !self.files.is_off() {
            let answer = plan.finish();
            if !self.files.is_off() {
                answers[n] = Some(answer);
            }
        }
    }

    /// Every upkeep task that is due now and in the seconds until everything has its turn.
    fn maintain(&mut self, now_s: u32) {
        self.now_s = self.now_s.max(now_s);
        for _ in 0..TIDY_S {
            let mut upkeep_tasks = 0;
            while !self.files.is_off() {
                let now_s = self.now_s;
                let upkeep_task =
                    self.upkeep_task.take().or_else(|| self.engine().upkeep_task(now_s));
                let Some(upkeep_task) = upkeep_task else { break };
                let finished = upkeep_task.run();
                self.engine().finished(now_s, finished);
                upkeep_tasks += 1;
                assert!(upkeep_tasks < 10_000, "its maintenance does not end");
            }
            self.now_s += 1;
        }
    }

    fn close(&mut self) {
        if let Some(upkeep_task) = self.upkeep_task.take() {
            let (finished, now_s) = (upkeep_task.run(), self.now_s);
            self.engine().finished(now_s, finished);
        }
        let now_s = self.now_s;
        let _ = self.engine().checkpoint_now(now_s);
        let _ = self.engine().sync();
        self.engine = None;
    }
}

impl Powered {
    pub(crate) fn new(files: &FaultyFiles) -> Arc<Powered> {
        make_folder(files, STATE);
        Arc::new(Powered { state: MemoryState::default(), file: mark(files), count: 0.into() })
    }

    /// The same state in another life of the files.
    pub(crate) fn reopened(self: &Arc<Powered>, files: &FaultyFiles) -> Arc<Powered> {
        *self.file.lock().expect("nobody panics with it") = mark(files).into_inner().expect("new");
        Arc::clone(self)
    }
}

/// A folder that survives every crash.
pub(crate) fn make_folder(files: &FaultyFiles, path: &str) {
    files.make_folder(Path::new(path)).expect("nothing is wrong yet");
    for above in Path::new(path).ancestors() {
        files.sync_folder(above).expect("nothing is wrong yet");
    }
}

fn mark(files: &FaultyFiles) -> Mutex<Box<dyn File>> {
    for _ in 0..100 {
        if let Ok(file) = files.open(&Path::new(STATE).join("mark")) {
            return Mutex::new(file);
        }
    }
    panic!("the mark cannot be opened");
}

impl Subject for Simulated {
    fn options(&self) -> &LogOptions {
        &self.options
    }

    fn now_s(&self) -> u32 {
        self.now_s
    }

    fn call(&mut self, calls: Vec<Call>) -> Vec<Result<Done, StoreError>> {
        self.trouble.happen(&self.files, &mut self.prng);
        let answers = self.carry(calls);
        answers.into_iter().map(|answer| answer.expect("the power is on")).collect()
    }

    fn restart(&mut self) {
        self.verify();
        self.close();
        self.kill();
        self.open(None);
        self.verify();
    }

    fn crash(&mut self, work: KilledWork, point: u32) -> Vec<CallAnswer> {
        let at = self.files.points() + u64::from(point);
        let power = self.prng.below(4) > 0;
        let mut answers = Vec::new();
        match work {
            KilledWork::Nothing => {}
            KilledWork::Recovery => {
                self.lose_power();
                self.open(Some(point));
                return answers;
            }
            work => {
                self.files.crash_at(at);
                match work {
                    KilledWork::Calls(calls) => answers = self.carry(calls),
                    KilledWork::Tidy(now_s) => self.maintain(now_s),
                    _ => {
                        self.close();
                        if !self.files.is_off() {
                            self.kill();
                            let _ = self.try_open();
                        }
                    }
                }
            }
        }
        // A process that is killed loses nothing that it had written; that needs the power on.
        match power || self.files.is_off() {
            true => self.lose_power(),
            false => {
                self.files.crash_at(u64::MAX);
                self.kill();
            }
        }
        self.open(None);
        self.verify();
        answers
    }

    fn tidy(&mut self, now_s: u32) {
        self.maintain(now_s);
        self.verify();
    }

    fn restored(&self) -> Restoration {
        self.restored.clone()
    }

    fn stored_bytes(&self) -> Option<u64> {
        Some(self.files.used())
    }

    fn is_lazy(&self) -> bool {
        self.lazy
    }

    fn may_refuse(&self) -> bool {
        self.trouble != Trouble::Nothing
    }

    fn may_fail(&self) -> bool {
        self.trouble != Trouble::Nothing
    }
}
