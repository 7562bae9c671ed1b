//! Effects that the broker wants: lanes that the roof empties after every call.
//!
//! The broker does nothing itself. One `Effects` serves a shard; `counters` only grow, the other
//! lanes are drained by whoever carries them out. Order within a lane is the order of carrying out.

use crate::peer_message::PeerMessage;
use model::event::{ClientEvent, Counters};
use model::id::{ConnRef, ShardId};
use model::ports::access::Question;
use model::ports::log::{Call, Ticket};
use model::ports::topics::TopicAnswer;
use model::presence::Transition;
use model::session::SessionDelivery;

/// Effects that the broker wants, and what it has to know of who listens.
#[derive(Default)]
pub struct Effects {
    /// For the machines of these connections.
    pub deliveries: Vec<(ConnRef, SessionDelivery)>,
    /// For the brokers of other shards, in order for each of them.
    pub peer_messages: Vec<(ShardId, PeerMessage)>,
    /// For whoever can find out; the answer comes by [`crate::Broker::admitted`].
    pub questions: Vec<(u64, Box<Question>)>,
    /// To commands, under the number they came with.
    pub answers: Vec<(u64, TopicAnswer)>,
    /// For the log; each ticket is completed once.
    pub calls: Vec<(Ticket, Call)>,
    /// For whoever listens.
    pub events: Vec<ClientEvent>,
    /// Who came and went, whether or not anybody listens: for whoever keeps presence.
    pub transitions: Vec<Transition>,
    /// What happened since the process began.
    pub counters: Counters,
    /// Set by the roof: somebody listens to what happens to clients.
    pub events_wanted: bool,
    /// Set by the roof: somebody listens to what they publish.
    pub messages_wanted: bool,
}

impl Effects {
    /// Whether every lane is empty.
    pub fn is_empty(&self) -> bool {
        self.deliveries.is_empty()
            && self.peer_messages.is_empty()
            && self.questions.is_empty()
            && self.answers.is_empty()
            && self.calls.is_empty()
            && self.events.is_empty()
            && self.transitions.is_empty()
    }
}
