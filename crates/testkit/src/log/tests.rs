//! The suite and the seeded runs over the reference, and over stores that are broken on purpose:
//! each must be caught, or the suite proves nothing.

mod broken;

use super::*;
use base::prng::Prng;
use broken::{Broken, Fault};
use model::ports::log::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Message of a panic, if the run panics.
fn caught(run: impl FnOnce()) -> Option<String> {
    let panic = catch_unwind(AssertUnwindSafe(run)).err()?;
    let text = panic.downcast_ref::<String>().cloned();
    Some(text.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string())).unwrap_or_default())
}

#[test]
fn the_reference_passes_the_suite() {
    suite(&mut |options| Box::new(MemoryLog::new(options)));
}

#[test]
fn the_reference_passes_seeded_runs() {
    for seed in 0..20 {
        random(seed, 300, &mut MemoryLog::new(LogOptions::default()), seed % 4 != 0);
    }
}

/// A sound store on an unsound disk, or one that is unsound there itself.
struct OnABadDisk {
    log: MemoryLog,
    prng: Prng,
    failed: bool,
    wrong: Option<Wrong>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wrong {
    KeepsWhatItRefused,
    DropsWhatItAnswered,
    KeepsTheLaterOnly,
}

impl OnABadDisk {
    fn new(seed: u64, wrong: Option<Wrong>) -> OnABadDisk {
        let log = MemoryLog::new(LogOptions::default());
        OnABadDisk { log, prng: Prng::new(seed), failed: false, wrong }
    }
}

impl Subject for OnABadDisk {
    fn options(&self) -> &LogOptions {
        self.log.options()
    }

    fn now_s(&self) -> u32 {
        self.log.now_s()
    }

    fn call(&mut self, calls: Vec<Call>) -> Vec<Result<Done, StoreError>> {
        let full = self.prng.one_in(10);
        let fails_at = if self.prng.one_in(10) { self.prng.below(8) as usize } else { usize::MAX };
        let kept = fails_at.saturating_add(self.prng.below(4) as usize);
        let mut answers = Vec::new();
        for (n, call) in calls.iter().enumerate() {
            let (Call::Write(_), false) = (call, self.failed) else {
                let failed = matches!(call, Call::Write(_)).then_some(Err(StoreError::Failed));
                answers.push(failed.unwrap_or_else(|| self.log.answer(call)));
                continue;
            };
            if n >= fails_at {
                let skipped = self.wrong == Some(Wrong::KeepsTheLaterOnly) && n == fails_at;
                if n < kept && !skipped {
                    let _ = self.log.answer(call);
                }
                answers.push(Err(StoreError::Failed));
            } else if full && self.prng.one_in(3) {
                if self.wrong == Some(Wrong::KeepsWhatItRefused) {
                    let _ = self.log.answer(call);
                }
                answers.push(Err(StoreError::Full));
            } else if full && self.wrong == Some(Wrong::DropsWhatItAnswered) {
                answers.push(self.log.clone().answer(call));
            } else {
                answers.push(self.log.answer(call));
            }
        }
        self.failed |= answers.contains(&Err(StoreError::Failed));
        answers
    }

    fn restart(&mut self) {
        self.failed = false;
    }

    fn crash(&mut self, work: KilledWork, point: u32) -> Vec<CallAnswer> {
        let failed = std::mem::take(&mut self.failed);
        match work {
            KilledWork::Calls(calls) if failed => vec![None; calls.len()],
            work => self.log.crash(work, point),
        }
    }

    fn tidy(&mut self, now_s: u32) {
        self.log.tidy(now_s);
    }

    fn restored(&self) -> Restoration {
        self.log.restored()
    }

    fn may_refuse(&self) -> bool {
        true
    }

    fn may_fail(&self) -> bool {
        true
    }
}

#[test]
fn a_sound_store_on_a_bad_disk_passes_seeded_runs() {
    for seed in 0..20 {
        random(seed, 200, &mut OnABadDisk::new(seed, None), true);
    }
}

#[test]
fn an_unsound_store_on_a_bad_disk_is_caught() {
    let all = [Wrong::KeepsWhatItRefused, Wrong::DropsWhatItAnswered, Wrong::KeepsTheLaterOnly];
    for wrong in all {
        let run =
            |seed| caught(|| random(seed, 300, &mut OnABadDisk::new(seed, Some(wrong)), true));
        let why = (0..10).find_map(run);
        assert!(why.is_some_and(|why| why.starts_with("seed ")), "{wrong:?} passes ten runs");
    }
}

#[test]
fn a_crash_at_every_point_is_survived_or_caught() {
    crash_at_every_point(3, 0..20, &mut || Box::new(MemoryLog::new(LogOptions::default())));
    let why = caught(|| {
        crash_at_every_point(3, 0..20, &mut || {
            Box::new(Broken::new(Fault::HalfAnAppendAtCrash, LogOptions::default()))
        });
    });
    assert!(why.is_some_and(|why| why.starts_with("seed 3, point ")), "half an append passes");
}

#[test]
fn the_suite_catches_every_broken_store() {
    let ways = [Way::AtOnce, Way::Restart, Way::Crash, Way::Tidy];
    for (fault, _) in Fault::ALL {
        let mut make = |options| -> Box<dyn Subject> { Box::new(Broken::new(fault, options)) };
        let why = caught(|| suite_in(&ways, &mut make));
        let why = why.unwrap_or_else(|| panic!("{fault:?} passes the suite"));
        assert!(why.starts_with("case \""), "{fault:?}: {why}");
        println!("{fault:?}: {}", why.lines().next().unwrap_or_default());
    }
}

#[test]
fn seeded_runs_catch_broken_stores() {
    for (fault, must) in Fault::ALL {
        let why = (0..10).find_map(|seed| {
            let mut broken = Broken::new(fault, LogOptions::default());
            caught(|| random(seed, 300, &mut broken, true))
        });
        assert!(why.is_some() || !must, "{fault:?} passes ten seeded runs");
        let why = why.unwrap_or_else(|| "not seen".into());
        assert!(!must || why.starts_with("seed "), "{fault:?}: {why}");
        println!("{fault:?}: {}", why.lines().next().unwrap_or_default());
    }
}
