//! Units of work: how much a call is, counted, so that none stalls its shard.
//!
//! A unit is a filter that is looked at, one who gets a message, eight matches, a topic that a
//! replay passes, eight messages that go: some microseconds at most. Work that may exceed a turn
//! goes on in the next one.

use crate::message::{fan_out, replay, subscribe};
use crate::session::{endings, rights, timers};

/// Units of one call, at most; a call whose work a client cannot make longer is not counted.
pub const UNITS_A_CALL_MAX: usize = 9_216;

const _: () = assert!(
    subscribe::FILTERS_A_TURN
        + subscribe::FILTERS_AT_ONCE
        + endings::UNITS_A_TURN
        + endings::UNITS_AT_ONCE
        + timers::TIMERS_A_TURN
        + 2 * replay::LOOKS_MAX
        + 2 * fan_out::AT_ONCE
        + 2 * rights::UNITS_A_TURN
        < UNITS_A_CALL_MAX
);

/// The work of one call.
#[derive(Default)]
pub(crate) struct Units {
    spent: usize,
    most: usize,
    all: u64,
}

impl Units {
    /// A call begins.
    pub fn begin(&mut self) {
        self.spent = 0;
    }

    pub fn spend(&mut self, units: usize) {
        self.spent += units;
        self.all += units as u64;
        self.most = self.most.max(self.spent);
    }

    /// How many of so many this call may still spend.
    pub fn left(&self, of: usize) -> usize {
        of.saturating_sub(self.spent)
    }

    /// Of all calls.
    pub fn all(&self) -> u64 {
        self.all
    }

    /// Of the longest call.
    pub fn most(&self) -> usize {
        self.most
    }
}
