//! Operators, hooks and word lists, and imports, over shards whose logs answer at once, with a
//! manual clock and a hook whose verdicts and times the test chooses.

mod edits;
mod errands;
mod house;
mod moving;
mod moving_groups;
mod public;
mod reports;
mod retention;
mod reviews;
mod rules;
