//! What a simulated house has outside its shard: the world's journal and its event feed.

use crate::journal::Journal;
use model::event::Event;
use model::id::ShardId;
use model::ports::journal::{Entry, StoreError, Ticket};
use server::outside::Outside;
use std::cell::RefCell;
use std::rc::Rc;

/// The event feed of a world.
#[derive(Default)]
pub(crate) struct Feed {
    pub heard: Vec<Event>,
}

/// The outside of one shard.
pub struct SimOutside {
    pub(super) shard: ShardId,
    pub(super) journal: Rc<RefCell<Journal>>,
    pub(super) events: Rc<RefCell<Feed>>,
}

impl Outside for SimOutside {
    fn store(&mut self, entries: Vec<(Ticket, Entry)>) -> Result<(), (StoreError, Vec<Ticket>)> {
        self.journal.borrow_mut().take(self.shard, entries)
    }

    fn events_wanted(&self) -> bool {
        true
    }

    fn events_full(&self) -> bool {
        false
    }

    fn publish(&mut self, events: Vec<Event>) -> usize {
        self.events.borrow_mut().heard.extend(events);
        0
    }
}
