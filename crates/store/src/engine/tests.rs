//! The engine held to the law of the durable log, over state in memory and in fjall, on a file
//! system that fails on purpose.

mod full;
mod keep;
mod rules;
mod subject;

use subject::{Ground, Held};
use testkit::log::{LogOptions, Subject, crash_at_every_point, random, suite};

#[test]
fn the_suite_passes_over_state_in_memory() {
    suite(&mut |options| Box::new(Held::new(1, Ground::Memory, options)));
}

#[test]
fn the_suite_passes_over_fjall() {
    use testkit::log::Way::{CrashTidyCrashRestart, Restart};
    testkit::log::suite_in(&[Restart, CrashTidyCrashRestart], &mut |options| {
        Box::new(Held::new(2, Ground::Fjall, options))
    });
}

fn short_segments() -> LogOptions {
    LogOptions { segment_bytes: 8 * 1024, ..LogOptions::default() }
}

#[test]
fn seeded_runs_with_crashes_agree_with_the_reference() {
    for seed in 1..=12 {
        let mut held = Held::new(seed, Ground::Memory, short_segments());
        random(seed, 600, &mut held, true);
    }
}

#[test]
fn a_seeded_run_over_fjall_agrees_with_the_reference() {
    let mut held = Held::new(5, Ground::Fjall, short_segments());
    random(5, 400, &mut held, true);
}

#[test]
fn a_crash_at_any_point_loses_nothing() {
    for seed in 1..=3 {
        crash_at_every_point(seed, 0..24, &mut || {
            Box::new(Held::new(seed, Ground::Memory, short_segments())) as Box<dyn Subject>
        });
    }
}

#[test]
fn a_state_that_fails_now_and_then_is_told_again() {
    for seed in 1..=6 {
        let mut held = Held::new(seed, Ground::Memory, short_segments());
        held.shaky = true;
        random(seed, 400, &mut held, true);
    }
}

#[test]
fn a_disk_that_is_full_now_and_then_refuses_whole_writes() {
    for seed in 1..=6 {
        let mut held = Held::new(seed, Ground::Memory, short_segments());
        held.tight = true;
        random(seed, 400, &mut held, true);
    }
}
