//! What a house needs of the world outside its shard: the store and the event feed.

use model::event::Event;
use model::ports::journal::{Entry, StoreError, Ticket};

/// The store and the feed, as one shard sees them. Implemented by the real ones (`start`) and by
/// the simulated world.
pub trait Outside {
    /// Hands entries to the store. Completions come by mail; on an error none of the entries was
    /// taken and there will be no completion for them.
    fn store(&mut self, entries: Vec<(Ticket, Entry)>) -> Result<(), (StoreError, Vec<Ticket>)>;

    /// Whether somebody listens to events.
    fn events_wanted(&self) -> bool;

    /// Whether the feed has no room: a listener that must not miss any is behind.
    fn events_full(&self) -> bool;

    /// Publishes events; returns how many were dropped.
    fn publish(&mut self, events: Vec<Event>) -> usize;
}
