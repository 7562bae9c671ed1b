//! The engine on a real folder with fjall.
//!
//! A crash leaves what a killed process leaves: the folder as it is at that moment, copied away
//! before the process ends well. It says nothing of power cuts; [`crate::simulated`] does.

use crate::{TIDY_S, folder, settings};
use model::ports::files::FileSystem;
use model::ports::log::{Call, Done, StoreError};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use store::engine::{Engine, FjallState};
use store::files::Disk;
use testkit::log::{CallAnswer, KilledWork, LogOptions, Restoration, Subject};

/// The engine on a real folder, with fjall.
pub(crate) struct OnDisk {
    options: LogOptions,
    root: tempfile::TempDir,
    /// Which copy of the folder is the live one.
    copy: u32,
    engine: Option<Engine>,
    now_s: u32,
    restored: Restoration,
}

impl OnDisk {
    pub(crate) fn new(options: LogOptions) -> OnDisk {
        let mut made = OnDisk {
            now_s: options.now_s,
            options,
            root: folder(),
            copy: 0,
            engine: None,
            restored: Restoration::default(),
        };
        std::fs::create_dir(made.folder()).expect("there is room");
        made.open();
        made
    }

    fn folder(&self) -> PathBuf {
        self.root.path().join(self.copy.to_string())
    }

    fn open(&mut self) {
        let folder = self.folder();
        let state = FjallState::open(&folder.join("state"), 1 << 20).expect("fjall opens");
        let files: Arc<dyn FileSystem> = Arc::new(Disk);
        let settings = settings(&self.options);
        let opened = Engine::open(files, &folder, settings, Arc::new(state));
        let (engine, _) = opened.expect("the engine opens");
        self.restored = Restoration::collect(|each| {
            engine.restore(each).expect("fjall reads");
        });
        self.engine = Some(engine);
    }

    fn engine(&mut self) -> &mut Engine {
        self.engine.as_mut().expect("it is open")
    }

    /// Every upkeep task that is due now and in the seconds until everything has its turn, or so
    /// many.
    fn maintain(&mut self, now_s: u32, mut upkeep_tasks: u32) {
        self.now_s = self.now_s.max(now_s);
        for _ in 0..TIDY_S {
            let now_s = self.now_s;
            while upkeep_tasks > 0
                && let Some(upkeep_task) = self.engine().upkeep_task(now_s)
            {
                let finished = upkeep_task.run();
                self.engine().finished(now_s, finished);
                upkeep_tasks -= 1;
            }
            self.now_s += 1;
        }
    }

    fn close(&mut self) {
        let now_s = self.now_s;
        let _ = self.engine().checkpoint_now(now_s);
        let _ = self.engine().sync();
        self.engine = None;
    }
}

impl Subject for OnDisk {
    fn options(&self) -> &LogOptions {
        &self.options
    }

    fn now_s(&self) -> u32 {
        self.now_s
    }

    fn call(&mut self, calls: Vec<Call>) -> Vec<Result<Done, StoreError>> {
        let now_s = self.now_s;
        let mut answers = Vec::new();
        let mut batch = Vec::new();
        for call in calls {
            match call {
                Call::Write(write) => batch.push(write),
                Call::Read(read) => {
                    answers.extend(self.engine().commit(now_s, &std::mem::take(&mut batch)));
                    answers.push(self.engine().plan(read).finish());
                }
            }
        }
        answers.extend(self.engine().commit(now_s, &batch));
        answers
    }

    fn restart(&mut self) {
        self.close();
        self.open();
    }

    /// The folder as it is at that moment is what the next process finds.
    fn crash(&mut self, work: KilledWork, point: u32) -> Vec<CallAnswer> {
        let mut answers = Vec::new();
        match work {
            KilledWork::Calls(mut calls) => {
                let all = calls.len();
                calls.truncate(point as usize);
                let done = self.call(calls);
                answers = done.into_iter().map(Some).collect();
                answers.resize(all, None);
            }
            KilledWork::Tidy(now_s) => self.maintain(now_s, point),
            KilledWork::Restart => self.restart(),
            KilledWork::Nothing | KilledWork::Recovery => {}
        }
        let from = self.folder();
        self.copy += 1;
        // Threads of fjall go on: what changed while it was copied is no moment.
        loop {
            let before = seen(&from);
            copy(&from, &self.folder());
            if seen(&from) == before {
                break;
            }
            std::fs::remove_dir_all(self.folder()).expect("nobody has it");
        }
        self.engine = None;
        std::fs::remove_dir_all(&from).expect("nobody has it");
        self.open();
        answers
    }

    fn tidy(&mut self, now_s: u32) {
        self.maintain(now_s, u32::MAX);
    }

    fn restored(&self) -> Restoration {
        self.restored.clone()
    }
}

/// All files below a folder, with when they changed last and their sizes.
fn seen(folder: &Path) -> BTreeMap<PathBuf, (Option<SystemTime>, u64)> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(about) = entry.metadata() else { continue };
        match about.is_dir() {
            true => all.extend(seen(&entry.path())),
            false => _ = all.insert(entry.path(), (about.modified().ok(), about.len())),
        }
    }
    all
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).expect("there is room");
    for entry in std::fs::read_dir(from).expect("it is a folder") {
        let Ok(entry) = entry else { continue };
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => copy(&path, &to),
            _ => drop(std::fs::copy(&path, &to)),
        }
    }
}
