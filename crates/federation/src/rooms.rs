//! The way from rooms, as occupants of other servers see them, to chat.
//!
//! A question of an occupant is handed to the home of the account that asks, and the answer comes
//! back by mail. The desk knows no room. Invariant: each question is answered once, unless the
//! mailbox is too full for the answer; then the asking room gives up after a time.

use crate::{FederationMail, WayOut};
use model::account::AccountAddress;
use model::chat::ChatDelivery;
use model::chat::foreign::{ArrivalWhat, ForeignArrival};
use model::ports::chat::{ChatAnswer, ChatCommand, ErrandWhat};
use model::ports::control::{Answer, Command, Control};
use std::sync::Arc;

/// Where rooms ask.
pub struct RoomsDesk {
    control: Arc<dyn Control + Send + Sync>,
    way: WayOut,
    /// Seed of the ids of orders and messages that rooms make.
    pub seed: u64,
}

impl RoomsDesk {
    /// One over these shards.
    pub fn new(control: Arc<dyn Control + Send + Sync>, way: WayOut, seed: u64) -> RoomsDesk {
        RoomsDesk { control, way, seed }
    }

    /// Asks chat in the name of an account of another server.
    pub fn ask(
        &self,
        (number, home): (u64, AccountAddress),
        device: Box<str>,
        what: Box<ErrandWhat>,
    ) {
        let arrival = ForeignArrival { home, what: ArrivalWhat::Ask { device, what } };
        let way = self.way.clone();
        let reply = move |answer| {
            // Without room the answer is as good as lost.
            let _ = way.post(FederationMail::Asked(number, answer));
        };
        self.control.ask(Command::Chat(ChatCommand::Foreign(Box::new(arrival))), Box::new(reply));
    }
}

/// Chat's delivery in an answer; `None`: chat could not carry out the request.
pub fn told(answer: &Answer) -> Option<&ChatDelivery> {
    match answer {
        Answer::Chat(ChatAnswer::Told(told)) => told.as_deref(),
        _ => None,
    }
}
