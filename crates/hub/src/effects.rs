//! Effects that the hub wants: lanes that the roof empties after every call.
//!
//! The hub does nothing itself. One `Effects` serves a shard; `counters` only grow, the other
//! lanes are drained by whoever carries them out. Order within a lane is the order of carrying out.

use crate::orders::OrderMessage;
use model::event::{Counters, Event};
use model::id::{ConnRef, ShardId};
use model::ports::control::Answer;
use model::ports::log::{Call, Ticket};
use model::presence::Transition;
use model::push::Push;
use model::request::Delivery;
use std::sync::Arc;

/// Effects that the hub wants, and what it has to know of the event feed.
#[derive(Default)]
pub struct Effects {
    /// For the machines of these connections.
    pub deliveries: Vec<(ConnRef, Delivery)>,
    /// To commands, under the number they came with.
    pub answers: Vec<(u64, Answer)>,
    /// For the log; each ticket is completed once.
    pub calls: Vec<(Ticket, Call)>,
    /// For whoever listens.
    pub events: Vec<Event>,
    /// Who came and went, whether or not anybody listens: for whoever keeps presence.
    pub transitions: Vec<Transition>,
    /// For the hubs of other shards.
    pub order_messages: Vec<(ShardId, OrderMessage)>,
    /// Pushes that are to be published on these topics too.
    pub mirrors: Vec<(String, Arc<Push>)>,
    /// What happened since the process began.
    pub counters: Counters,
    /// Set by the roof: somebody listens.
    pub events_wanted: bool,
}

impl Effects {
    /// Whether every lane is empty.
    pub fn is_empty(&self) -> bool {
        self.deliveries.is_empty()
            && self.answers.is_empty()
            && self.calls.is_empty()
            && self.events.is_empty()
            && self.transitions.is_empty()
            && self.mirrors.is_empty()
            && self.order_messages.is_empty()
    }

    pub(crate) fn tell(&mut self, event: Event) {
        if self.events_wanted {
            self.events.push(event);
        }
    }
}
