//! Delays that a shard sees from its log: nothing but appends, then beside checkpoints, compaction,
//! backup.
//!
//! The shard is played by a thread (`shard`) over the log as the server uses it, opened anew for
//! each phase with settings that bring about what the phase is of. Before the compaction most of
//! what the log holds is forgotten, so that there is much to move. Idle is measured first and last:
//! what differs between the two is the machine's noise.

use super::drive::{self, Plan};
use super::lane::Lane;
use super::ours::{self, Threaded, Tuning};
use super::rival::Rival;
use super::shard::{self, Felt, QUANTILES, RATE};
use super::traffic::{Traffic, other_timelines, timelines};
use super::{disk, meter};
use crate::clock;
use crate::measure::slope;
use crate::results::Outcome;
use crate::scenario::Scale;
use model::timeline::TimelineId;
use serde_json::{Value, json};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;
use std::time::Duration;
use store::engine::Sizes;

const PHASE: Duration = Duration::from_secs(4);
const TIMELINES: u32 = 1 << 16;
/// Messages in the log before the first phase.
const MESSAGES: u32 = 400_000;
/// Of so many groups of timelines, all but one are forgotten before the compaction.
const STAYS: usize = 10;
/// Bytes of records after which a checkpoint is made, where checkpoints are measured.
const CHECKPOINT_BYTES: u64 = 1 << 20;
/// Bytes of a segment, so that there are many.
const SEGMENT_BYTES: u64 = 8 << 20;
/// Timelines that are forgotten at once.
const FORGOTTEN_TOGETHER: usize = 256;
/// Compaction is waited for no longer, until the log is half of what it was.
const PATIENCE: Duration = Duration::from_secs(15);
/// Looks at the log that are stored.
const TOLD_MAX: usize = 30;
/// Pause between two backups, and between two looks at the log.
const PAUSE: Duration = Duration::from_millis(100);
/// Pause between two lots of timelines that are forgotten.
const PAUSE_SHORT: Duration = Duration::from_millis(5);

/// Work beside the appends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    Nothing,
    Checkpoints,
    Compaction,
    Backups,
}

/// Runs the scenario.
pub fn run(scale: Scale) -> io::Result<Outcome> {
    let mut outcome = Outcome::new(json!({
        "appends_a_second": RATE, "timelines_each": 2, "timelines": TIMELINES,
        "messages_before": scale.of(MESSAGES), "phase_ms": PHASE.as_millis(),
        "checkpoint_bytes": CHECKPOINT_BYTES, "segment_bytes": SEGMENT_BYTES,
        "forgotten": format!("all but one of {STAYS}"), "ours": ours::plan(),
    }));
    let folder = tempfile::tempdir()?;
    let (place, backups) = (folder.path().join("log"), folder.path().join("backups"));
    let mut before = Traffic::new(17, 2, &timelines(TIMELINES));
    fill(&place, &mut before, u64::from(scale.of(MESSAGES)))?;
    let mut traffic = Traffic::new(19, 2, &other_timelines(TIMELINES));
    let time = if scale.quick { PHASE / 5 } else { PHASE };
    for (name, beside) in [
        ("idle", Beside::Nothing),
        ("checkpoints", Beside::Checkpoints),
        ("backup", Beside::Backups),
        ("compaction", Beside::Compaction),
        ("idle again", Beside::Nothing),
    ] {
        let forgotten = match beside {
            Beside::Compaction => before.forget_but(STAYS),
            _ => Vec::new(),
        };
        let (place, backups) = (&place, &backups);
        let phase = Phase { name, beside, time, place, backups, forgotten };
        phase.measure(&mut traffic, &mut outcome)?;
    }
    let mut log = ours::behind_log(&place)?;
    let rows = log.audit(&before)? + log.audit(&traffic)?;
    outcome.detail("rows read back", rows);
    Ok(outcome)
}

fn fill(place: &Path, traffic: &mut Traffic, appends_max: u64) -> io::Result<()> {
    let mut lane = Threaded::open_with(place, &tuning(Beside::Nothing))?;
    let plan = Plan { window: 4_096, time: Duration::from_secs(30), appends_max };
    drive::run(&mut lane, traffic, &plan)?;
    Box::new(lane).close()
}

fn tuning(beside: Beside) -> Tuning {
    let segment_bytes = Some(SEGMENT_BYTES);
    match beside {
        // Compaction moves what is alive; what it leaves behind goes with the next checkpoint.
        Beside::Checkpoints | Beside::Compaction => {
            Tuning { checkpoint_bytes: Some(CHECKPOINT_BYTES), segment_bytes, ..Tuning::default() }
        }
        _ => Tuning { still: true, segment_bytes, ..Tuning::default() },
    }
}

/// A phase.
struct Phase<'a> {
    name: &'static str,
    beside: Beside,
    time: Duration,
    place: &'a Path,
    backups: &'a Path,
    forgotten: Vec<TimelineId>,
}

impl Phase<'_> {
    fn measure(&self, traffic: &mut Traffic, outcome: &mut Outcome) -> io::Result<()> {
        let before = disk::bytes(self.place)?;
        let mut lane = Threaded::open_with(self.place, &tuning(self.beside))?;
        meter::rest();
        let (hand, over) = (lane.beside(), AtomicBool::new(false));
        let (felt, told) = std::thread::scope(|scope| {
            let work = || {
                let told = self.go_on(&hand);
                over.store(true, Ordering::Relaxed);
                told
            };
            let working = Builder::new().name("beside".into()).spawn_scoped(scope, work)?;
            let felt = shard::play(&mut lane, traffic, self.time, &over);
            let told = working.join().map_err(|_| io::Error::other("what was beside panicked"))?;
            Ok::<_, io::Error>((felt?, told?))
        })?;
        Box::new(lane).close()?;
        self.tell(&felt, outcome);
        let after = disk::bytes(self.place)?;
        let told = json!({
            "felt": felt.told(), "beside": told, "bytes_before": before, "bytes_after": after,
        });
        outcome.detail(self.name, told);
        Ok(())
    }

    /// Does the work beside the appends while the phase lasts; returns what is to be reported of
    /// it.
    fn go_on(&self, hand: &ours::Beside) -> io::Result<Value> {
        let (began, mut told) = (clock::now(), Vec::new());
        let mut forgotten = self.forgotten.chunks(FORGOTTEN_TOGETHER);
        let bytes_first = hand.sizes().log_bytes;
        let mut compacted = self.beside != Beside::Compaction;
        while clock::since(began) < self.time
            || forgotten.len() > 0
            || !compacted && clock::since(began) < PATIENCE
        {
            let at = clock::now();
            match self.beside {
                Beside::Backups => {
                    let to = self.backups.join(told.len().to_string());
                    std::fs::create_dir_all(&to)?;
                    hand.backup(&to)?;
                    std::fs::remove_dir_all(&to)?;
                }
                _ => forgotten.next().map_or(Ok(()), |some| hand.forget(some))?,
            }
            let ms = clock::since(at).as_millis() as u64;
            let Sizes { log_bytes, segments, bytes_since_checkpoint, .. } = hand.sizes();
            compacted |= log_bytes < bytes_first / 2;
            told.push(json!([ms, log_bytes, segments, bytes_since_checkpoint]));
            std::thread::sleep(if forgotten.len() > 0 { PAUSE_SHORT } else { PAUSE });
        }
        let ms = clock::since(began).as_millis() as u64;
        let told = told.iter().step_by(told.len() / TOLD_MAX + 1).collect::<Vec<_>>();
        Ok(json!({
            "ms": ms, "log_halved_by_compaction": compacted && self.beside == Beside::Compaction,
            "ms_logbytes_segments_sincecheckpoint": told,
        }))
    }

    fn tell(&self, felt: &Felt, outcome: &mut Outcome) {
        for (kind, times) in felt.kinds() {
            for (quantile, share) in QUANTILES {
                let name = format!("{}: {kind}, {quantile}", self.name);
                outcome.figure(&name, slope::quantile(times, share), "µs");
            }
        }
    }
}
