//! The store behind its threads, as a shard sees it: parcels go in, completions come out.
//!
//! Its maintenance goes on by itself, so nobody can wait for its end. Invariant: each ticket is
//! completed once, and writes in order.

use crate::simulated::{Held, Powered, Trouble, make_folder};
use crate::{TIDY_S, folder};
use base::prng::Prng;
use model::ports::log::{Call, Completion, Done, Party, Read, StoreError, Ticket};
use model::timeline::{ReaderId, Space, TimelineId};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use store::data::{Folder, Logs, Secrets, Settings};
use store::engine::State;
use store::files::Disk;
use testkit::files::FaultyFiles;
use testkit::log::{CallAnswer, KilledWork, LogOptions, Restoration, Subject};

type Answers = BTreeMap<Ticket, Result<Done, StoreError>>;

/// Completions by ticket, and tickets in the order of the completions.
#[derive(Default)]
struct Told {
    answers: Mutex<(Answers, Vec<Ticket>)>,
    more: Condvar,
}

impl Told {
    fn tell(&self, completions: Vec<Completion>) {
        let mut told = self.answers.lock().expect("nobody panics with it");
        for (ticket, answer) in completions {
            told.1.push(ticket);
            let before = told.0.insert(ticket, answer);
            assert!(before.is_none(), "ticket {ticket} was completed twice");
        }
        self.more.notify_all();
    }

    /// Waits for all of these, and takes them.
    fn take(&self, tickets: &[Ticket]) -> (Vec<Result<Done, StoreError>>, Vec<Ticket>) {
        let told = self.answers.lock().expect("nobody panics with it");
        let lacks = |told: &mut (Answers, Vec<Ticket>)| {
            tickets.iter().any(|ticket| !told.0.contains_key(ticket))
        };
        let waited = self.more.wait_timeout_while(told, Duration::from_secs(60), lacks);
        let (mut told, late) = waited.expect("nobody panics with it");
        assert!(!late.timed_out(), "a call is not completed");
        let order = std::mem::take(&mut told.1);
        let answer = |ticket| told.0.remove(ticket).expect("it was waited for");
        (tickets.iter().map(answer).collect(), order)
    }
}

/// Where a threaded store has its files.
enum Ground {
    Disk(tempfile::TempDir),
    Simulated(FaultyFiles, Arc<Powered>),
}

/// The store behind its threads, as a shard sees it.
pub(crate) struct Threaded {
    options: LogOptions,
    ground: Ground,
    logs: Option<Logs>,
    told: Arc<Told>,
    next_ticket: Ticket,
    clock: Arc<AtomicU32>,
    restored: Restoration,
    prng: Prng,
    pub(crate) trouble: Trouble,
}

impl Threaded {
    fn new(seed: u64, options: LogOptions, ground: Ground) -> Threaded {
        let mut made = Threaded {
            clock: Arc::new(options.now_s.into()),
            options,
            ground,
            logs: None,
            told: Arc::default(),
            next_ticket: 1,
            restored: Restoration::default(),
            prng: Prng::new(seed ^ 0x7468_7265),
            trouble: Trouble::Nothing,
        };
        made.open().expect("it opens");
        made
    }

    pub(crate) fn on_disk(options: LogOptions) -> Threaded {
        Threaded::new(0, options, Ground::Disk(folder()))
    }

    pub(crate) fn simulated(seed: u64, options: LogOptions) -> Threaded {
        let files = FaultyFiles::new(seed);
        make_folder(&files, "/data");
        let state = Powered::new(&files);
        Threaded::new(seed, options, Ground::Simulated(files, state))
    }

    fn settings(&self) -> Settings {
        let mut settings = Settings::new(Secrets::of([7; 64]), 1);
        let LogOptions { once_count_max, once_age_s_max, segment_bytes, log_bytes_max, .. } =
            self.options;
        settings.segment_bytes = segment_bytes;
        settings.log_bytes_max = log_bytes_max;
        settings.hot_bytes_max = segment_bytes as usize;
        settings.cache_bytes = 1 << 20;
        (settings.once_count_max, settings.once_age_s_max) = (once_count_max, once_age_s_max);
        (settings.checkpoint_bytes, settings.checkpoint_s) = (100_000, 5);
        settings
    }

    fn open(&mut self) -> Result<(), String> {
        assert!(self.logs.is_none(), "it was closed");
        let settings = self.settings();
        let opened = match &self.ground {
            Ground::Disk(root) => Folder::open(root.path(), settings, Arc::new(Disk)),
            Ground::Simulated(files, state) => {
                let state = Arc::clone(state);
                let states =
                    move |_: &Path, _| Ok(Arc::new(Held(Arc::clone(&state))) as Arc<dyn State>);
                let files = Arc::new(files.clone());
                Folder::open_with(Path::new("/data"), settings, files, Arc::new(states))
            }
        };
        let opened = opened.map_err(|error| error.to_string())?;
        let mut why = Ok(());
        self.restored = Restoration::collect(|each| {
            why = opened.restore(0, each).map_err(|error| error.to_string());
        });
        why?;
        let clock = Arc::clone(&self.clock);
        let now_s = Arc::new(move || clock.load(Ordering::Relaxed));
        let told = Arc::clone(&self.told);
        let logs = opened.start(now_s, move |_, completions| told.tell(completions));
        self.logs = Some(logs.map_err(|error| error.to_string())?);
        Ok(())
    }

    fn is_off(&self) -> bool {
        matches!(&self.ground, Ground::Simulated(files, _) if files.is_off())
    }

    /// Hands calls over in parcels, and waits for their completions.
    fn carry(&mut self, calls: Vec<Call>) -> Vec<CallAnswer> {
        let mut writes = Vec::new();
        let mut tickets = Vec::new();
        let mut calls = calls.into_iter().peekable();
        while calls.peek().is_some() {
            let mut parcel = Vec::new();
            let length = 1 + self.prng.below(400) as usize;
            for call in calls.by_ref().take(length) {
                if matches!(call, Call::Write(_)) {
                    writes.push(self.next_ticket);
                }
                tickets.push(self.next_ticket);
                parcel.push((self.next_ticket, call));
                self.next_ticket += 1;
            }
            let logs = self.logs.as_ref().expect("it is open");
            logs.submit(Party::Hooks, 0, parcel).expect("there is room for calls");
        }
        let (answers, order) = self.told.take(&tickets);
        let order: Vec<_> = order.into_iter().filter(|ticket| writes.contains(ticket)).collect();
        assert_eq!(order, writes, "writes were completed out of order");
        // What a machine without power says of what it remembers, nobody hears.
        let dead = self.is_off();
        let answer = |(ticket, answer)| match answer {
            Err(StoreError::Failed) if dead => None,
            _ if dead && !writes.contains(ticket) => None,
            answer => Some(answer),
        };
        tickets.iter().zip(answers).map(answer).collect()
    }

    /// Gives the upkeep thread its turns.
    fn poke(&mut self, times: u32) {
        let timeline = TimelineId::of(Space::Other, base::hash::HashKey::new(0, 0), &[]);
        for _ in 0..times {
            let reader = ReaderId(0);
            self.carry(vec![Call::Read(Read::Standing { timeline, reader })]);
        }
    }
}

impl Subject for Threaded {
    fn options(&self) -> &LogOptions {
        &self.options
    }

    fn now_s(&self) -> u32 {
        self.clock.load(Ordering::Relaxed)
    }

    fn call(&mut self, calls: Vec<Call>) -> Vec<Result<Done, StoreError>> {
        if let Ground::Simulated(files, _) = &self.ground {
            self.trouble.happen(files, &mut self.prng);
        }
        let answers = self.carry(calls);
        answers.into_iter().map(|answer| answer.expect("the power is on")).collect()
    }

    fn restart(&mut self) {
        self.logs = None;
        for tries in 0.. {
            if let Ground::Simulated(files, state) = &mut self.ground {
                files.kill();
                files.resize(u64::MAX);
                *state = state.reopened(files);
            }
            let Err(why) = self.open() else { return };
            let may_fail = self.trouble != Trouble::Nothing && tries < 100;
            assert!(may_fail, "it does not open: {why}");
        }
    }

    /// On a real disk it is closed in the middle instead: `make crash` kills it.
    fn crash(&mut self, work: KilledWork, point: u32) -> Vec<CallAnswer> {
        if let Ground::Simulated(files, _) = &self.ground {
            files.crash_at(files.points() + u64::from(point));
        }
        let mut dies_again = work == KilledWork::Recovery;
        let mut answers = Vec::new();
        match work {
            KilledWork::Calls(calls) => answers = self.carry(calls),
            KilledWork::Tidy(now_s) => self.tidy(now_s),
            KilledWork::Nothing | KilledWork::Restart | KilledWork::Recovery => {}
        }
        self.logs = None;
        loop {
            if let Ground::Simulated(files, state) = &mut self.ground {
                files.crash();
                files.resize(u64::MAX);
                state.state.crash(&mut self.prng);
                *state = state.reopened(files);
                if std::mem::take(&mut dies_again) {
                    files.crash_at(files.points() + u64::from(point));
                }
            }
            let opened = self.open();
            if let Ground::Simulated(files, _) = &self.ground {
                files.crash_at(u64::MAX);
            }
            match opened {
                Ok(()) if !self.is_off() => return answers,
                Ok(()) => self.logs = None,
                Err(why) => assert!(self.is_off(), "it does not open: {why}"),
            }
        }
    }

    fn tidy(&mut self, now_s: u32) {
        let now_s = self.now_s().max(now_s);
        for now_s in now_s..now_s + TIDY_S {
            self.clock.store(now_s, Ordering::Relaxed);
            self.poke(5);
        }
    }

    fn restored(&self) -> Restoration {
        self.restored.clone()
    }

    fn can_end_tidy(&self) -> bool {
        false
    }

    fn may_refuse(&self) -> bool {
        self.trouble != Trouble::Nothing
    }

    fn may_fail(&self) -> bool {
        self.trouble != Trouble::Nothing
    }
}
