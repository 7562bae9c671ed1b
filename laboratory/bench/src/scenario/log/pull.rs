//! Pages of 100: from the hot tail, from files that the kernel has in memory, and from the disk.
//!
//! A million rows of half a million messages in 4,096 timelines, so that a page's messages lie
//! scattered over the whole log. *Hot*: the last hundred of timelines that were just written,
//! without a restart. *Warm*: anywhere, after a restart, all files in the kernel's cache. *Cold*:
//! the same, and before every few pages the kernel is asked to forget the files
//! (`POSIX_FADV_DONTNEED`; what lies below the kernel may still have them). Every page is checked.

use super::drive;
use super::lane::Ordered;
use super::rival::{Kind, Rival};
use super::traffic::{Traffic, timeline, timelines};
use super::{disk, meter, ours};
use crate::clock;
use crate::measure::slope;
use crate::results::Outcome;
use crate::scenario::Scale;
use base::prng::Prng;
use model::ports::log::{Append, Pull};
use model::timeline::{Placed, Seq};
use serde_json::json;
use std::io;
use std::path::Path;
use std::time::Duration;

const TIMELINES: u32 = 4_096;
const FAN: u32 = 2;
/// Messages of a group, before the hot ones.
const MESSAGES: u32 = 256;
/// Messages that are made durable at once.
const BATCH: u32 = 1_024;
/// Groups that are hot, and their messages.
const HOT: (u32, u32) = (64, 128);
const PAGE: usize = 100;
const CACHE_BYTES: usize = 32 * 1024 * 1024;
const ROUND: Duration = Duration::from_millis(700);
/// Pages between two times that the kernel forgets.
const COLD_PAGES: u32 = 32;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Heat {
    Hot,
    Warm,
    Cold,
}

impl Heat {
    const fn name(self) -> &'static str {
        match self {
            Heat::Hot => "hot tail",
            Heat::Warm => "page cache",
            Heat::Cold => "cold",
        }
    }
}

/// Runs the scenario.
pub fn run(scale: Scale) -> io::Result<Outcome> {
    let mut outcome = Outcome::new(json!({
        "timelines": width(scale), "rows": width(scale) * MESSAGES, "page": PAGE,
        "round_ms": ROUND.as_millis(), "cold_pages_between_forgetting": COLD_PAGES,
        "cache_bytes": CACHE_BYTES, "cpu": "of all threads", "ours": ours::plan(),
    }));
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Bare) {
        let named = |error| io::Error::other(format!("{}: {error}", kind.name()));
        measure(kind, scale, &mut outcome).map_err(named)?;
    }
    Ok(outcome)
}

fn measure(kind: Kind, scale: Scale, outcome: &mut Outcome) -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let place = folder.path().join(kind.name());
    let mut traffic = Traffic::new(5, FAN, &timelines(width(scale)));
    let mut rival = kind.open(&place, CACHE_BYTES)?;
    fill(&mut *rival, &mut traffic)?;
    for heat in [Heat::Hot, Heat::Warm, Heat::Cold] {
        if heat != Heat::Hot {
            rival.close()?;
            rival = kind.open(&place, CACHE_BYTES)?;
        }
        for backwards in [false, true] {
            let pulls = Pulls { heat, backwards, traffic: &traffic, folder: &place };
            pulls.measure(kind, &mut *rival, scale, outcome)?;
        }
    }
    rival.close()
}

/// Timelines, in whole groups.
fn width(scale: Scale) -> u32 {
    scale.of(TIMELINES) / FAN * FAN
}

/// Appends half a million messages anywhere, then the hot timelines' last ones.
fn fill(rival: &mut dyn Rival, traffic: &mut Traffic) -> io::Result<()> {
    let groups = traffic.groups().count() as u32;
    for _ in 0..groups * MESSAGES / BATCH {
        commit(rival, (0..BATCH).map(|_| traffic.append()))?;
    }
    for _ in 0..HOT.1 {
        commit(rival, (0..HOT.0).map(|group| traffic.append_to(group)))?;
    }
    Ok(())
}

fn commit(rival: &mut dyn Rival, appends: impl Iterator<Item = Append>) -> io::Result<()> {
    let batch: Vec<Ordered> = appends.map(|append| (append.message.id, append)).collect();
    let owed: Vec<u64> = batch.iter().map(|(ticket, _)| *ticket).collect();
    let answers = rival.commit(batch)?;
    owed.iter().zip(&answers).try_for_each(|(owed, answer)| drive::acknowledged(answer, *owed))
}

/// Pulls of one kind.
struct Pulls<'a> {
    heat: Heat,
    backwards: bool,
    traffic: &'a Traffic,
    folder: &'a Path,
}

impl Pulls<'_> {
    fn measure(
        &self,
        kind: Kind,
        rival: &mut dyn Rival,
        scale: Scale,
        outcome: &mut Outcome,
    ) -> io::Result<()> {
        let mut prng = Prng::new(11);
        let counts: Vec<u32> = self.traffic.groups().map(|(group, _)| group.made).collect();
        let (mut messages, mut wall) = (0u64, Duration::ZERO);
        let (mut cpu, mut pages_us) = (Duration::ZERO, Vec::new());
        let time = if scale.quick { ROUND / 10 } else { ROUND };
        let began = clock::now();
        while clock::since(began) < time * 3 && wall < time {
            if self.heat == Heat::Cold {
                disk::forget(self.folder)?;
            }
            for _ in 0..COLD_PAGES {
                let pull = self.pull(&counts, &mut prng);
                let (at, before) = (clock::now(), meter::process());
                let page = rival.page(&pull)?;
                let took = clock::since(at);
                cpu += meter::process() - before;
                wall += took;
                pages_us.push(took.as_secs_f64() * 1e6);
                messages += page.len() as u64;
                self.check(&pull, &page)?;
            }
        }
        let way = if self.backwards { "backwards" } else { "forwards" };
        let name = format!("{}, {way}, {}", self.heat.name(), kind.name());
        let rate = messages as f64 / wall.as_secs_f64();
        outcome.figure(&name, rate, "messages a second");
        let each = cpu.as_secs_f64() * 1e6 / messages as f64;
        outcome.figure(&format!("{name}: CPU"), each, "µs a message");
        let quantiles = [0.5, 0.99, 1.0].map(|share| slope::quantile(&pages_us, share));
        let told = json!({ "pages": pages_us.len(), "page_us_p50_p99_max": quantiles });
        outcome.detail(&name, told);
        Ok(())
    }

    /// The next pull: a timeline, and where in it.
    fn pull(&self, counts: &[u32], prng: &mut Prng) -> Pull {
        let groups = if self.heat == Heat::Hot { HOT.0 } else { counts.len() as u32 };
        let number = prng.below(u64::from(groups * FAN)) as u32;
        let count = u64::from(counts[(number / FAN) as usize]);
        let spare = count.saturating_sub(PAGE as u64);
        let first: Seq = if self.heat == Heat::Hot { spare } else { prng.below(spare + 1) };
        let from = if self.backwards { (first + PAGE as u64).min(count) + 1 } else { first };
        let (count_max, bytes_max) = (PAGE, usize::MAX);
        Pull { timeline: timeline(number), from, backwards: self.backwards, count_max, bytes_max }
    }

    /// An error unless `page` is what was asked for.
    fn check(&self, pull: &Pull, page: &[Placed]) -> io::Result<()> {
        let step = |at: u64| if pull.backwards { pull.from - 1 - at } else { pull.from + 1 + at };
        let right = |(at, placed): (usize, &Placed)| {
            placed.seq == step(at as u64) && self.traffic.made(&placed.message)
        };
        if page.len() == PAGE && page.iter().enumerate().all(right) {
            return Ok(());
        }
        Err(io::Error::other(format!("{pull:?} brought {} messages", page.len())))
    }
}
