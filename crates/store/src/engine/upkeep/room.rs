//! Room: when a log comes near what it may have, the oldest goes of what gives way.
//!
//! ```text
//! much is alive ─► weighed: how many bytes were made when ─► a sweep with a second before which
//!                  all goes, and how many bytes are enough (`retention.rs`)
//! ```
//! Only living entries count, not the whole log: the rest is compaction's. Invariant: what gives
//! way is older than what of its kind stays, within the grain of the times.

use super::Work;
use super::retention::{Sweep, spaces_giving_way, walk};
use crate::engine::record::run;
use crate::engine::record::stored::Stored;
use crate::engine::state::{Keep, State, StateError};
use crate::engine::{Engine, EngineSettings};
use model::timeline::Space;
use model::{event, tell};
use std::collections::BTreeMap;

/// Times that are distinguished; with more, neighbours become one.
const TIMES_MAX: usize = 16_384;

/// Percent of what a log may have that are made free at once.
const AT_ONCE_PERCENT: u64 = 5;

/// Seconds from one time to the next.
const REST_S: u32 = 10;

/// Approximate size of an entry of a message that is stored elsewhere, bytes.
const REFERENCE_BYTES: u64 = 64;

/// Approximate bytes freed with an entry.
pub(super) fn bytes_of(space: Space, stored: &Stored) -> u64 {
    match space {
        // One record is in many inboxes.
        Space::Inbox => u64::from(stored.length).min(REFERENCE_BYTES),
        _ => stored.length.into(),
    }
}

/// How many bytes were made when.
#[derive(Default)]
struct Ages {
    /// By seconds divided by the grain.
    bytes: BTreeMap<u32, u64>,
    /// Halvings: the grain is two to this, seconds.
    grain_bits: u32,
}

impl Ages {
    fn add(&mut self, at_s: u32, bytes: u64) {
        *self.bytes.entry(at_s >> self.grain_bits).or_default() += bytes;
        while self.bytes.len() > TIMES_MAX {
            self.grain_bits += 1;
            for (time, bytes) in std::mem::take(&mut self.bytes) {
                *self.bytes.entry(time >> 1).or_default() += bytes;
            }
        }
    }

    /// The second before which so many bytes were made; with fewer, all were made before it.
    fn before(&self, bytes: u64) -> Option<u32> {
        let mut sum = 0;
        let last = self.bytes.iter().find(|(_, some)| {
            sum += **some;
            sum >= bytes
        });
        let (time, _) = last.or(self.bytes.last_key_value())?;
        Some(time.saturating_add(1).checked_shl(self.grain_bits).unwrap_or(u32::MAX))
    }
}

/// A walk by which it is known how old what gives way is.
pub(in crate::engine) struct Weighing {
    ages: Ages,
    spaces: Vec<Space>,
    from: Vec<u8>,
    /// Bytes that are to become free.
    wanted: u64,
}

/// Findings of a slice of it.
pub(super) struct Weighed(Result<Weighing, StateError>);

impl Weighing {
    pub(super) fn run(mut self, state: &dyn State) -> Weighed {
        let Some(&space) = self.spaces.last() else { return Weighed(Ok(self)) };
        let ages = &mut self.ages;
        let next = walk(state, (Keep::Runs, space), &self.from, &mut |key, value| {
            let (_, first) = run::read_key(key)?;
            for entry in run::read(first, value)? {
                ages.add(entry.stored.at_s, bytes_of(space, &entry.stored));
            }
            Some(true)
        });
        Weighed(next.map(|next| {
            if next.is_none() {
                self.spaces.pop();
            }
            self.from = next.unwrap_or_default();
            self
        }))
    }
}

/// How many bytes are to become free of a log of which so many are alive, if any.
fn wanted(settings: &EngineSettings, live_bytes: u64) -> Option<u64> {
    let percent = u64::from(settings.gives_way_percent);
    let part = |percent: u64| settings.log.log_bytes_max / 100 * percent;
    let goal = part(percent.saturating_sub(AT_ONCE_PERCENT));
    (percent > 0 && live_bytes >= part(percent)).then(|| live_bytes - goal)
}

impl Engine {
    /// The next slice of weighing what gives way, if the log comes near what it may have.
    pub(super) fn weigh_work(&mut self, now_s: u32) -> Option<Work> {
        if let Some(weighing) = self.upkeep.weighing.take() {
            return Some(Work::Weigh(weighing));
        }
        if now_s < self.upkeep.weigh_from_s || self.upkeep.sweep.is_some() {
            return None;
        }
        wanted(&self.settings, self.log.bytes())?;
        let live = self.index.counts.iter().map(|(_, count)| count.live_bytes()).sum();
        let wanted = wanted(&self.settings, live)?;
        let spaces = spaces_giving_way(&self.settings);
        if spaces.is_empty() {
            return None;
        }
        let (ages, from) = (Ages::default(), Vec::new());
        Some(Work::Weigh(Weighing { ages, spaces, from, wanted }))
    }

    pub(super) fn weighed(&mut self, now_s: u32, weighed: Weighed) {
        match weighed.0 {
            Err(error) => tell!(event::RETENTION_FAILED, %error),
            Ok(weighing) if !weighing.spaces.is_empty() => {
                self.upkeep.weighing = Some(weighing);
                return;
            }
            Ok(Weighing { ages, wanted, .. }) => {
                if let Some(before_s) = ages.before(wanted) {
                    tell!(event::LOG_GIVES_WAY, before_s, bytes = wanted);
                    let what = (before_s, wanted);
                    self.upkeep.sweep = Some(Sweep::giving_way(&self.settings, now_s, what));
                }
            }
        }
        self.upkeep.weigh_from_s = now_s.saturating_add(REST_S);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_the_first_before_which_enough_was_made() {
        let mut ages = Ages::default();
        assert_eq!(ages.before(1), None);
        for (at_s, bytes) in [(30, 5), (10, 7), (20, 1), (10, 3)] {
            ages.add(at_s, bytes);
        }
        assert_eq!((ages.before(1), ages.before(10)), (Some(11), Some(11)));
        assert_eq!(
            (ages.before(11), ages.before(12), ages.before(99)),
            (Some(21), Some(31), Some(31))
        );
    }

    #[test]
    fn times_are_told_apart_within_memory() {
        let mut ages = Ages::default();
        for n in 0..100_000u32 {
            ages.add(1_700_000_000 + n, 1);
            assert!(ages.bytes.len() <= TIMES_MAX);
        }
        let before_s = ages.before(50_000).expect("something was made");
        assert!((1_700_050_000..1_700_050_016).contains(&before_s), "{before_s}");
    }
}
