//! What operators, hooks and words do to what people say, and what moves in: over shards whose logs
//! answer at once, with a told clock and a hook that says what the test wants, when it wants.

mod edits;
mod errands;
mod house;
mod moving;
mod moving_groups;
mod public;
mod retention;
mod reviews;
mod rules;
