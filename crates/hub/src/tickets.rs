//! What was asked of the store, until it answers.
//!
//! Every entry bears a ticket, every ticket holds a promise: what is to happen when the entry is on
//! stable storage, or is not. The store completes every ticket once; the order does not matter
//! here. A push whose entry was refused is dropped, sent or not, and its outcome says so: the
//! application was not promised anything, and a copy that reached the device meanwhile is one more
//! than promised.

use crate::Hub;
use crate::effects::Effects;
use crate::queue::Kept;
use base::never;
use base::slab::Key;
use base::time::Now;
use model::event::Counter;
use model::id::{DeviceId, MessageId, ProductKey};
use model::ports::control::Answer;
use model::ports::journal::{Completion, Entry, StoreError, Ticket};
use model::product::Product;
use model::push::{Outcome, Rejection};
use std::collections::VecDeque;
use std::sync::Arc;

/// What an entry was for.
pub(crate) enum Promise {
    /// A push is over: nothing follows.
    Over,
    /// A push waits for a device.
    Waits(Key, MessageId),
    /// An order of the API.
    Order(Box<Order>),
}

/// An order of the API that is carried out, and answered, once it is on stable storage.
pub(crate) enum Order {
    /// Make or change a product.
    Put(u64, Arc<Product>),
    /// Remove a product.
    Drop(u64, ProductKey),
    /// Block or unblock a device.
    Block(u64, ProductKey, DeviceId, bool),
}

/// Tickets given and not completed.
#[derive(Default)]
pub(crate) struct Tickets {
    /// The ticket of the first of `open`.
    first: Ticket,
    open: VecDeque<Option<Promise>>,
    waits: usize,
}

impl Tickets {
    /// Pushes that may wait for the store, a shard. One more is rejected as Busy.
    pub const WAITS_MAX: usize = 65_536;

    /// Pushes waiting for the store beyond which fan-outs pause.
    pub const WAITS_EASY: usize = 4_096;

    /// Whether another push may be handed to the store.
    pub fn has_room(&self) -> bool {
        self.waits < Tickets::WAITS_MAX
    }

    /// Whether a fan-out may go on.
    pub fn is_easy(&self) -> bool {
        self.waits < Tickets::WAITS_EASY
    }

    /// Tickets not completed.
    pub fn len(&self) -> usize {
        self.open.iter().flatten().count()
    }

    fn give(&mut self, promise: Promise) -> Ticket {
        self.waits += usize::from(matches!(promise, Promise::Waits(..)));
        self.open.push_back(Some(promise));
        self.first + self.open.len() as Ticket - 1
    }

    fn take(&mut self, ticket: Ticket) -> Option<Promise> {
        let at = usize::try_from(ticket.checked_sub(self.first)?).ok()?;
        let promise = self.open.get_mut(at)?.take()?;
        self.waits -= usize::from(matches!(promise, Promise::Waits(..)));
        while matches!(self.open.front(), Some(None)) {
            self.open.pop_front();
            self.first += 1;
        }
        Some(promise)
    }
}

impl Hub {
    /// The store has answered an entry.
    pub fn complete(&mut self, now: Now, completion: Completion, fx: &mut Effects) {
        let (ticket, result) = completion;
        if result.is_err() {
            fx.counters.count(Counter::StoreFailures);
        }
        let promise = self.tickets.take(ticket);
        if never!(promise.is_none(), "ticket {ticket} was completed twice or never given") {
            return;
        }
        match promise {
            None | Some(Promise::Over) => {}
            Some(Promise::Waits(key, id)) => match result {
                Ok(()) => self.stored(key, id, fx),
                Err(error) => self.not_stored(now, (key, id), error, fx),
            },
            Some(Promise::Order(order)) => match result {
                Ok(()) => self.carry_out(now, *order, fx),
                Err(_) => fx.answers.push((order.reply(), Answer::StoreFailed)),
            },
        }
    }

    /// Hands the store an entry.
    pub(crate) fn enter(&mut self, promise: Promise, entry: Entry, fx: &mut Effects) {
        let ticket = self.tickets.give(promise);
        fx.entries.push((ticket, entry));
    }

    /// Asks the store to keep a push that waits, unless it was asked before. When no more may wait
    /// for the store, the push is over.
    pub(crate) fn keep(&mut self, now: Now, key: Key, id: MessageId, fx: &mut Effects) {
        let room = self.tickets.has_room();
        let Some(device) = self.registry.at_mut(key) else { return };
        let Some(queue) = device.queue_mut() else { return };
        let Some(item) = queue.find(id).filter(|item| item.kept == Kept::No) else { return };
        if !room {
            let Some(item) = queue.remove(id) else { return };
            return self.end(now, key, item, Outcome::Rejected(Rejection::Busy), fx);
        }
        item.kept = Kept::Asked;
        let push = item.push.clone();
        let Some((_, device)) = self.registry.names(key) else { return };
        self.enter(Promise::Waits(key, id), Entry::Waits { push, device }, fx);
    }

    fn stored(&mut self, key: Key, id: MessageId, fx: &mut Effects) {
        fx.counters.count(Counter::PushesStored);
        let device = self.registry.at_mut(key);
        let Some(queue) = device.and_then(|device| device.queue_mut()) else { return };
        // It may be over by now; its end was entered after it.
        let Some(item) = queue.find(id).filter(|item| item.kept == Kept::Asked) else { return };
        item.kept = Kept::Yes;
        let answers = std::mem::take(&mut item.answers);
        if item.counted {
            self.jobs.stored(id);
        }
        if answers {
            self.settle(key, id, Outcome::Stored, fx);
        }
    }

    fn not_stored(
        &mut self,
        now: Now,
        (key, id): (Key, MessageId),
        error: StoreError,
        fx: &mut Effects,
    ) {
        let device = self.registry.at_mut(key);
        let Some(queue) = device.and_then(|device| device.queue_mut()) else { return };
        if queue.find(id).is_none_or(|item| item.kept != Kept::Asked) {
            return;
        }
        let Some(mut item) = queue.remove(id) else { return };
        item.kept = Kept::No;
        let why = match error {
            StoreError::Full | StoreError::Failed => Rejection::StoreFull,
            StoreError::Busy => Rejection::Busy,
        };
        self.end(now, key, item, Outcome::Rejected(why), fx);
        self.pump(now, key, fx);
        self.release(now, key);
    }
}

impl Order {
    /// The number of the command.
    pub fn reply(&self) -> u64 {
        match self {
            Order::Put(reply, ..) | Order::Drop(reply, ..) | Order::Block(reply, ..) => *reply,
        }
    }
}
