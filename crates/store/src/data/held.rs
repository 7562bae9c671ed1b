//! Answers and the like that a writer holds back until copies of its log have what they need.
//!
//! Answers, reads and upkeep tasks wait in the order in which they would have left, each for the
//! index of the last record that was known when it was made. A lone node's log holds nothing. It
//! knows neither log nor copies. Invariant: what is held leaves in its order, or is given up.

use crate::data::log_queue::{Awaited, Reading};
use crate::data::writer::Answered;
use crate::engine::{Engine, UpkeepTask};
use std::collections::VecDeque;

/// With so many bytes of batches that are not acknowledged the writer takes no calls: they wait in
/// their queue, and are refused with `Busy` when that is full.
const WAITING_BYTES_MAX: usize = 2 << 20;

/// Output that leaves the writer.
pub(crate) enum Leaving {
    /// Answers to writes, and to reads from memory.
    Answers(Vec<Answered>),
    /// Reads for the reader.
    Readings(Vec<Reading>),
    /// A slice of upkeep for the upkeep thread.
    Task(UpkeepTask),
}

/// Answers, reads and tasks that are held back.
#[derive(Default)]
pub(crate) struct Held {
    waiting: VecDeque<(u64, Leaving)>,
    is_full: bool,
}

impl Held {
    /// This leaves when all up to the index is acknowledged.
    pub(crate) fn hold(&mut self, index: u64, leaving: Leaving) {
        self.waiting.push_back((index, leaving));
    }

    /// The next that leaves, now that all up to this index is acknowledged.
    pub(crate) fn next(&mut self, upto: u64) -> Option<Leaving> {
        let leaves = self.waiting.pop_front_if(|(index, _)| *index <= upto);
        leaves.map(|(_, leaving)| leaving)
    }

    /// Looks how much of the log waits. Where upkeep falls behind nothing is written besides.
    pub(crate) fn look(&mut self, engine: &Engine) {
        let is_behind = engine.is_behind() && engine.awaited() > 0;
        self.is_full = is_behind || engine.waiting_bytes() >= WAITING_BYTES_MAX;
    }

    /// Event that the writer waits for.
    pub(crate) fn awaited(&self) -> Awaited {
        let has_task = self.waiting.iter().any(|(_, leaving)| matches!(leaving, Leaving::Task(_)));
        Awaited { is_full: self.is_full, has_task }
    }

    /// Removes and returns all that waits.
    pub(crate) fn give_up(&mut self) -> impl Iterator<Item = Leaving> + '_ {
        self.waiting.drain(..).map(|(_, leaving)| leaving)
    }
}
