//! The law of the durable log, held against the engine and against the store around it.
//!
//! The engine stands on files that fail by a seed and on state that is lost with them
//! ([`simulated`]), on a real folder with fjall ([`on_disk`]), and behind its threads
//! ([`threaded`]). Seeds are few here; `HOLDLINE_SEEDS=n` runs n of each, from
//! `HOLDLINE_SEED_FIRST` on, each of `HOLDLINE_STEPS` steps.

mod copied;
mod on_disk;
mod simulated;
mod standby;
mod threaded;

use model::timeline::Space;
use on_disk::OnDisk;
use simulated::{Simulated, Trouble};
use store::Fsync;
use store::engine::{EngineSettings, Retention};
use store::log::{LogIdentity, LogSettings, Origin};
use testkit::log::Retention as Rule;
use testkit::log::{LogOptions, Subject, Way, crash_at_every_point, random, suite, suite_in};
use threaded::Threaded;

/// Seconds after which every kind of maintenance had its turn.
const TIDY_S: u32 = 8;

/// Small enough that everything has to be done often.
fn settings(options: &LogOptions) -> EngineSettings {
    let mut settings = EngineSettings::new(LogSettings {
        whose: LogIdentity::default(),
        origin: Origin::default(),
        fsync: Fsync::Always,
        segment_bytes: options.segment_bytes,
        log_bytes_max: options.log_bytes_max,
        kept_bytes: options.log_bytes_max / 16,
    });
    settings.heads_resident_max = 3;
    settings.hot_bytes_max = options.segment_bytes as usize;
    settings.once_count_max = options.once_count_max;
    settings.once_age_s_max = options.once_age_s_max;
    settings.roster_members_resident_max = 6;
    settings.checkpoint_bytes = 100_000;
    settings.index_changes_bytes = 32 * 1024;
    settings.checkpoint_s = 5;
    (settings.load_timelines_min, settings.load_bytes_max) = (2, 400);
    settings.sweep_s = 1;
    for (&space, rule) in &options.retention {
        let Rule { age_s_max, count_max, bytes_max, acknowledged } = *rule;
        let limits = Retention { age_s_max, count_max, bytes_max, ..Retention::default() };
        let rule = Retention { acknowledged, ..limits };
        settings = settings.keep(space, rule);
    }
    settings
}

/// A folder that vanishes, in memory if the machine has such: nothing here is to outlive it.
fn folder() -> tempfile::TempDir {
    let made = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    made.expect("there is room")
}

/// Seeds of a run: as many as are asked for, or few.
fn seeds(few: u64) -> std::ops::Range<u64> {
    let first = asked("HOLDLINE_SEED_FIRST", 0);
    first..first + asked("HOLDLINE_SEEDS", few)
}

/// Steps of a seed's run: as many as are asked for, or few.
fn steps(few: u64) -> u64 {
    asked("HOLDLINE_STEPS", few)
}

fn asked(name: &str, or: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(or)
}

#[test]
fn the_engine_over_simulated_files_keeps_the_law() {
    let mut seed = 0;
    suite(&mut |options| {
        seed += 1;
        Box::new(Simulated::new(seed, options, Trouble::Nothing))
    });
}

#[test]
fn the_engine_over_simulated_files_survives_seeded_runs() {
    for seed in seeds(8) {
        let options = few_bytes(seed);
        let mut subject = Simulated::new(seed, options, Trouble::Nothing);
        random(seed, steps(300), &mut subject, true);
        subject.empty();
    }
}

#[test]
fn the_engine_drops_what_retention_says_and_nothing_else() {
    for seed in seeds(6) {
        let count = Rule { count_max: Some(1 + seed % 7), ..Rule::default() };
        let bytes_max = Some(500 + seed * 997 % 20_000);
        let read = Rule { acknowledged: true, bytes_max, ..Rule::default() };
        let retention = [(Space::Pushes, count), (Space::Reports, read)].into();
        let options = LogOptions { retention, ..few_bytes(seed) };
        let mut subject = Simulated::new(seed, options, Trouble::Nothing);
        subject.busy = false;
        random(seed, steps(200), &mut subject, true);
        subject.empty();
    }
}

#[test]
fn the_engine_that_does_not_sync_loses_the_last_writes_alone() {
    for seed in seeds(6) {
        let mut subject = Simulated::new(seed, few_bytes(seed), Trouble::Nothing);
        subject.lazy = true;
        subject.restart();
        random(seed, steps(200), &mut subject, true);
    }
}

#[test]
fn the_engine_survives_errors_of_the_disk() {
    for seed in seeds(8) {
        random(seed, steps(300), &mut Simulated::new(seed, few_bytes(seed), Trouble::Errors), true);
    }
}

#[test]
fn the_engine_survives_a_full_disk() {
    for seed in seeds(8) {
        random(seed, steps(300), &mut Simulated::new(seed, few_bytes(seed), Trouble::Room), true);
    }
}

#[test]
fn the_engine_survives_a_crash_at_every_point() {
    for seed in seeds(1) {
        let mut make = || -> Box<dyn Subject> {
            Box::new(Simulated::new(seed, few_bytes(seed), Trouble::Nothing))
        };
        let points = if std::env::var_os("HOLDLINE_SEEDS").is_some() { 60 } else { 15 };
        crash_at_every_point(seed, 0..points, &mut make);
    }
}

#[test]
fn the_engine_over_fjall_keeps_the_law() {
    suite_in(&[Way::Crash], &mut |options| Box::new(OnDisk::new(options)));
}

#[test]
fn the_engine_over_fjall_survives_seeded_runs() {
    for seed in seeds(2) {
        random(seed, steps(100), &mut OnDisk::new(few_bytes(seed)), true);
    }
}

#[test]
fn the_store_behind_its_threads_keeps_the_law() {
    let mut seed = 0;
    suite_in(&[Way::Crash, Way::CrashTidyCrashRestart], &mut |options| {
        seed += 1;
        Box::new(Threaded::simulated(seed, options))
    });
}

#[test]
fn the_store_behind_its_threads_survives_seeded_runs() {
    for seed in seeds(5) {
        random(seed, steps(200), &mut Threaded::simulated(seed, few_bytes(seed)), true);
    }
}

#[test]
fn the_store_behind_its_threads_survives_bad_disks() {
    for seed in seeds(4) {
        let mut subject = Threaded::simulated(seed, few_bytes(seed));
        subject.trouble = if seed % 2 == 0 { Trouble::Errors } else { Trouble::Room };
        random(seed, steps(200), &mut subject, true);
    }
}

#[test]
fn the_store_on_a_disk_keeps_the_law() {
    suite_in(&[Way::Restart], &mut |options| Box::new(Threaded::on_disk(options)));
}

#[test]
fn the_store_on_a_disk_survives_seeded_runs() {
    for seed in seeds(1) {
        random(seed, steps(100), &mut Threaded::on_disk(few_bytes(seed)), true);
    }
}

/// Segments of different lengths, so that some runs see many and some few.
fn few_bytes(seed: u64) -> LogOptions {
    let segment_bytes = [8_000, 60_000, 500_000][seed as usize % 3];
    LogOptions { segment_bytes, ..LogOptions::default() }
}
