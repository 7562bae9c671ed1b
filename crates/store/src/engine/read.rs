//! Reads: what memory knows is gathered on the log's thread, the rest is done on any thread.
//!
//! A plan sees every write before it. A later read from state may see newer rows: then the entries
//! are those of the moment of the plan, without some that left meanwhile. Invariant: a page never
//! has a gap of entries that were there all the time, and a message that cannot be read is named
//! and never left out.

pub(crate) mod body;
pub(crate) mod inspection;
pub(crate) mod page;
mod rows;
pub(crate) mod runs;
pub(crate) mod standing;
pub(crate) mod verify;

use super::Engine;
use super::state::StateError;
use model::ports::log::{Done, ROWS_MAX, Read, StoreError};
use model::{event, tell};
use page::PagePlan;
use rows::{RowPlan, RowsPlan};
use standing::StandingPlan;

/// A read that may still need state or the disk.
pub struct Planned(Plan);

enum Plan {
    Ready(Result<Done, StoreError>),
    Page(PagePlan),
    Standing(StandingPlan),
    Row(RowPlan),
    Roster(RowPlan),
    Rows(RowsPlan),
}

impl Planned {
    /// Whether memory knew it all: [`Planned::finish`] does not wait for a disk.
    pub fn is_ready(&self) -> bool {
        matches!(self.0, Plan::Ready(_))
    }

    /// Does the rest.
    pub fn finish(self) -> Result<Done, StoreError> {
        match self.0 {
            Plan::Ready(done) => done,
            Plan::Page(plan) => plan.finish().map(Done::Page),
            Plan::Standing(plan) => plan.finish().map(Done::Standing),
            Plan::Row(plan) => plan.finish().map(Done::Row),
            Plan::Roster(plan) => plan.finish().and_then(rows::roster).map(Done::Roster),
            Plan::Rows(plan) => plan.finish(),
        }
    }
}

impl Engine {
    /// Part of a read that memory answers; the rest may be done on any thread.
    pub fn plan(&mut self, read: Read) -> Planned {
        Planned(match read {
            Read::Pull(pull) => {
                let plan = self.plan_page(pull);
                if plan.is_ready() {
                    Plan::Ready(plan.finish().map(Done::Page))
                } else {
                    Plan::Page(plan)
                }
            }
            Read::Standing { timeline, reader } => match self.plan_standing(timeline, reader) {
                Ok(plan) if plan.is_ready() => Plan::Ready(plan.finish().map(Done::Standing)),
                Ok(plan) => Plan::Standing(plan),
                Err(error) => Plan::Ready(Err(state_failed(&error))),
            },
            Read::Roster(roster) => self.plan_roster(roster),
            Read::Row { table, key } => self.plan_row(table, &key),
            Read::Rows { count, .. } if count > ROWS_MAX => Plan::Ready(Err(StoreError::TooLarge)),
            Read::Rows { table, prefix, after, count } => {
                Plan::Rows(self.plan_rows(table, &prefix, after.as_deref(), count))
            }
        })
    }

    /// As [`plan`](Self::plan), but reads at once.
    pub fn read(&mut self, read: Read) -> Result<Done, StoreError> {
        self.plan(read).finish()
    }
}

/// Error of derived state, as the caller gets it.
pub(crate) fn state_failed(error: &StateError) -> StoreError {
    if error.full {
        return StoreError::Full; // whoever writes to state says so
    }
    tell!(event::STATE_UNREADABLE, %error);
    StoreError::Failed
}
