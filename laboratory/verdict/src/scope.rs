//! Scope of a rule: a whole run or one of its stages, with the two stretches of time that figures
//! are taken over.
//!
//! A scope borrows the run that it judges. The invariant: the hold lies within the whole.

use lab::run::{Counts, Run};
use lab::series::Series;

/// A run or a stage as a rule sees it.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// Counts of the scope.
    pub counts: &'a Counts,
    /// Figures over time, of the whole run.
    pub series: &'a Series,
    /// Clients that were planned.
    pub clients: u64,
    /// From its beginning to its end, milliseconds since the run began.
    pub whole_ms: (u64, u64),
    /// The time that was held: from when all clients were there to its end.
    pub hold_ms: (u64, u64),
    /// Whether both ends were one machine, so that nothing lay between them.
    pub is_here: bool,
}

impl<'a> Scope<'a> {
    /// The whole run. Its hold and the clients that should be there at its end are those of its
    /// last stage: earlier ones may have had fewer, and what changes with their number is no drift.
    pub fn of_run(run: &'a Run) -> Scope<'a> {
        let end = run.took_ms.max(run.series.times_ms().last().copied().unwrap_or(0));
        let arrived = run.stages.last().map_or(0, |stage| stage.arrived_ms.min(end));
        let clients = run.stages.last().map_or(0, |stage| stage.clients);
        Scope {
            counts: &run.total,
            series: &run.series,
            clients: if clients > 0 { clients } else { run.total.planned },
            whole_ms: (0, end),
            hold_ms: (arrived, end),
            is_here: run.is_on_loopback(),
        }
    }

    /// One of its stages, by place; `None`: the run has no such stage.
    pub fn of_stage(run: &'a Run, place: usize) -> Option<Scope<'a>> {
        let stage = run.stages.get(place)?;
        let to = stage.to_ms.max(stage.from_ms);
        Some(Scope {
            counts: &stage.counts,
            series: &run.series,
            clients: if stage.clients > 0 { stage.clients } else { stage.counts.planned },
            whole_ms: (stage.from_ms, to),
            hold_ms: (stage.arrived_ms.clamp(stage.from_ms, to), to),
            is_here: run.is_on_loopback(),
        })
    }
}
