//! Outside of a simulated logic: the world's logs, its event feed, its directory.

use crate::copies::SimReplicators;
use crate::disk::SimDisk;
use model::id::ShardId;
use model::ports::events::DeviceEvent;
use model::ports::log::{Call, Completion, Ticket};
use model::ports::presence::directory::{Batch, DirectoryError};
use model::service::{Event, ServiceKind};
use server::shard_logic::outside::Outside;
use std::cell::RefCell;
use std::rc::Rc;

/// The event feed of a world.
#[derive(Default)]
pub(crate) struct Feed {
    pub heard: Vec<DeviceEvent>,
}

/// The outside of one shard.
pub struct SimOutside {
    pub(super) shard: ShardId,
    pub(super) disk: Rc<RefCell<SimDisk>>,
    pub(super) events: Rc<RefCell<Feed>>,
    pub(super) copies: Rc<RefCell<SimReplicators>>,
}

impl Outside for SimOutside {
    fn call(&mut self, service: ServiceKind, calls: Vec<(Ticket, Call)>) -> Vec<Ticket> {
        self.disk.borrow_mut().take(self.shard, service, calls)
    }

    fn completed(&mut self, _: ServiceKind, _: &[Completion]) {}

    fn events_wanted(&self, service: ServiceKind) -> bool {
        service == ServiceKind::Push
    }

    fn publish(&mut self, events: Vec<Event>) -> usize {
        let events = events.into_iter().filter_map(|event| event.try_into().ok());
        self.events.borrow_mut().heard.extend(events);
        0
    }

    fn messages_wanted(&self) -> bool {
        false
    }

    fn copy(&mut self, batches: Vec<Batch>) -> Result<(), DirectoryError> {
        self.copies.borrow_mut().offer(self.shard, batches)
    }
}
