//! What a house needs of the world outside its shard: its log and the event feed.

use model::event::Event;
use model::ports::log::{Call, Completion, Ticket};

/// The log and the feed, as one shard sees them. Implemented by the real ones (`start`) and by
/// the simulated world.
pub trait Outside {
    /// Hands calls to the shard's log. Completions come by mail. The tickets that come back are
    /// those of calls that were not taken, because too much waits: there will be no completion for
    /// them.
    fn call(&mut self, calls: Vec<(Ticket, Call)>) -> Vec<Ticket>;

    /// The log has completed these, and the hub is told next.
    fn completed(&mut self, completions: &[Completion]);

    /// Whether somebody listens to events.
    fn events_wanted(&self) -> bool;

    /// Publishes events; returns how many were dropped.
    fn publish(&mut self, events: Vec<Event>) -> usize;
}
