//! What the hub wants done: lanes that the roof empties after every call.
//!
//! The hub does nothing itself. One `Effects` serves a shard; `counters` only grow, the other
//! lanes are drained by whoever carries them out. Order within a lane is the order of carrying out.

use model::event::{Counter, Counters, Event};
use model::id::ConnRef;
use model::ports::control::Answer;
use model::ports::journal::{Entry, Ticket};
use model::request::Delivery;

/// What the hub wants done, and what it has to know of the event feed.
#[derive(Default)]
pub struct Effects {
    /// For the machines of these connections.
    pub deliveries: Vec<(ConnRef, Delivery)>,
    /// To commands, under the number they came with.
    pub answers: Vec<(u64, Answer)>,
    /// For the store; each ticket is completed once.
    pub entries: Vec<(Ticket, Entry)>,
    /// For whoever listens.
    pub events: Vec<Event>,
    /// What happened since the process began.
    pub counters: Counters,
    /// Set by the roof: somebody listens.
    pub events_wanted: bool,
    /// Set by the roof: the event feed has no room. Reports are refused, other events dropped.
    pub events_full: bool,
}

impl Effects {
    /// Whether every lane is empty.
    pub fn is_empty(&self) -> bool {
        self.deliveries.is_empty()
            && self.answers.is_empty()
            && self.entries.is_empty()
            && self.events.is_empty()
    }

    pub(crate) fn tell(&mut self, event: Event) {
        match (self.events_wanted, self.events_full) {
            (true, false) => self.events.push(event),
            (true, true) => self.counters.count(Counter::EventsDropped),
            (false, _) => {}
        }
    }
}
