//! Onlookers while a plan is worked off: a terminal, an exporter, a test.
//!
//! Once a second a [`Watch`] is shown a [`RunTick`] and asked for its [`OnlookerRequest`]es, which
//! the runner carries out before the next second and writes down as notes. A watch never waits: it
//! is called from the thread that gives the orders.

use lab::order::OnlookerRequest;
use lab::run::{Counts, Finding, Note, Run};
use lab::series::Reading;
use std::collections::BTreeMap;

/// Wishes that are carried out in one second, at most; the rest is dropped with a note.
pub const WISHES_MAX: usize = 64;

/// Onlooker of a run.
pub trait Watch {
    /// A second has passed.
    fn tick(&mut self, tick: &RunTick);

    /// Takes the wishes since the last call.
    fn wishes(&mut self) -> Vec<OnlookerRequest> {
        Vec::new()
    }

    /// The run is over, judged, and about to be written.
    fn done(&mut self, run: &Run) {
        let _ = run;
    }
}

/// No onlooker.
pub struct Nobody;

impl Watch for Nobody {
    fn tick(&mut self, _tick: &RunTick) {}
}

/// Several look on; the wishes of all are carried out.
impl Watch for Vec<Box<dyn Watch>> {
    fn tick(&mut self, tick: &RunTick) {
        self.iter_mut().for_each(|watch| watch.tick(tick));
    }

    fn wishes(&mut self) -> Vec<OnlookerRequest> {
        self.iter_mut().flat_map(|watch| watch.wishes()).collect()
    }

    fn done(&mut self, run: &Run) {
        self.iter_mut().for_each(|watch| watch.done(run));
    }
}

/// Part of a stage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StagePart {
    /// Clients leave, because the stage wants all of them anew.
    Leaving,
    /// Clients come.
    Arriving,
    /// All are there (or the waiting was over), and the time of the stage is held.
    Holding,
    /// Nothing is sent any more; answers that are under way come in.
    Settling,
    /// An onlooker paused the run.
    Paused,
}

impl StagePart {
    /// The word on a screen.
    pub const fn name(self) -> &'static str {
        match self {
            StagePart::Leaving => "leaving",
            StagePart::Arriving => "arriving",
            StagePart::Holding => "holding",
            StagePart::Settling => "settling",
            StagePart::Paused => "paused",
        }
    }
}

/// How a run stands at the end of a second.
#[derive(Clone, PartialEq, Debug)]
pub struct RunTick {
    /// Milliseconds since the run began.
    pub at_ms: u64,
    /// Place of the stage, from 0.
    pub stage: usize,
    /// Names of all planned stages, in order.
    pub stages: Vec<String>,
    /// Part of the stage.
    pub part: StagePart,
    /// Clients that shall be there in this stage, of all groups.
    pub clients: u64,
    /// Milliseconds since the run began when the part ends by itself at the latest.
    pub until_ms: u64,
    /// Counts of all clients, from the beginning on. Timings are those of the whole run.
    pub counts: Counts,
    /// Counts of each group's clients: attempts, online, ends. From the beginning on.
    pub groups: BTreeMap<String, Counts>,
    /// The row of the series that this second became, with full names: `clients.online`,
    /// `clients.bind.p99` (of the last second), `tester.cpu.busy` ...
    pub reading: Reading,
    /// Notes since the last tick.
    pub notes: Vec<Note>,
    /// Findings so far; the judge speaks at the end of each stage.
    pub findings: Vec<Finding>,
    /// Why the tester's figures of this second cannot be trusted; empty: they can.
    pub saturation: Vec<String>,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A tick with these counts and nothing else.
    pub(crate) fn tick(counts: Counts) -> RunTick {
        RunTick {
            at_ms: 1_000,
            stage: 0,
            stages: vec!["one".to_owned()],
            part: StagePart::Arriving,
            clients: 0,
            until_ms: 0,
            counts,
            groups: BTreeMap::new(),
            reading: Reading::default(),
            notes: Vec::new(),
            findings: Vec::new(),
            saturation: Vec::new(),
        }
    }

    #[test]
    fn several_look_on_and_all_wishes_are_heard() {
        struct Wishful(Vec<OnlookerRequest>);
        impl Watch for Wishful {
            fn tick(&mut self, _tick: &RunTick) {
                self.0.push(OnlookerRequest::Pause);
            }

            fn wishes(&mut self) -> Vec<OnlookerRequest> {
                std::mem::take(&mut self.0)
            }
        }
        let mut all: Vec<Box<dyn Watch>> =
            vec![Box::new(Wishful(Vec::new())), Box::new(Nobody), Box::new(Wishful(Vec::new()))];
        all.tick(&tick(Counts::default()));
        assert_eq!(all.wishes(), [OnlookerRequest::Pause, OnlookerRequest::Pause]);
        assert!(all.wishes().is_empty());
    }
}
