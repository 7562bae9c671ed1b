//! Pending calls to the log: what was asked of it, until it answers.
//!
//! Every call bears a ticket, every ticket holds a pending call: what is to happen when the call is
//! completed. The log completes every ticket once; the order does not matter here. A push whose
//! append was refused is dropped, sent or not, and its outcome says so: the application was not
//! promised anything, and a copy that reached the device meanwhile is one more than promised.

use crate::Effects;
use crate::Hub;
use crate::jobs::Settled;
use crate::log::claims::Claim;
use crate::log::cleanup::CleanupTask;
use crate::registry::queue::Queue;
use crate::reports::Waiting;
use base::never;
use base::slab::Key;
use base::time::Now;
use model::event::Counter;
use model::id::{MessageId, ProductKey, Tag};
use model::ports::calls;
use model::ports::log::{Completion, Done, StoreError, Ticket};
use model::ports::pushes::PushAnswer;
use model::product::Product;
use model::timeline::{Seq, TimelineId};
use std::sync::Arc;

/// Call to the log that is not completed: what it was for.
pub(crate) enum PendingCall {
    /// A push waits for devices.
    Keep(MessageId, Vec<Key>),
    /// An order with an idempotency key.
    Claim(Box<Claim>),
    /// Pushes are over.
    Remove(TimelineId, Vec<Seq>),
    /// A row or a timeline has to go.
    Cleanup(Box<CleanupTask>),
    /// A device's row: nobody waits for it.
    Row(Key),
    /// The row of a device that was kicked, to be answered: whether it was online.
    Kicked(u64, Key, bool),
    /// A device is fetching bodies.
    Pull(Key, Fetch),
    /// An order of the API.
    Order(Box<Order>),
    /// A Report that webhooks want.
    Report(Box<Waiting>),
    /// Epochs may be so high.
    Mark(u64),
    /// An order to many was taken.
    Take(MessageId),
    /// Of an order to many it is told at whom it came to its end.
    Told(Box<(MessageId, Vec<Settled>)>),
    /// An order to many is over everywhere.
    Close(MessageId),
}

/// Bodies that a device is fetching.
#[derive(Clone, Copy)]
pub(crate) struct Fetch {
    /// The place of the first.
    pub first: Seq,
    /// How many.
    pub count: usize,
}

/// An order of the API that is carried out, and answered, once it is on stable storage.
pub(crate) enum Order {
    /// Make or change a product.
    Put(u64, Arc<Product>),
    /// Remove a product.
    Drop(u64, ProductKey),
    /// Block or unblock a device.
    Block(u64, Key, bool),
    /// Give a device tags.
    Tags(u64, Key, Vec<Tag>),
}

/// Tickets given and not completed, and how many of them are of what has a limit.
#[derive(Default)]
pub(crate) struct Tickets {
    given: calls::Tickets<PendingCall>,
    waits: usize,
    pulls: usize,
    rows: usize,
    reports: usize,
}

impl Tickets {
    /// Pushes that may wait for the log, a shard. One more is rejected as Busy.
    pub const WAITS_MAX: usize = 65_536;

    /// Pushes waiting for the log beyond which fan-outs pause.
    pub const WAITS_EASY: usize = 4_096;

    /// Devices that may be fetching bodies, a shard. The others wait.
    pub const PULLS_MAX: usize = 4_096;

    /// Rows nobody waits for that may be with the log. The others stay to be written.
    pub const ROWS_MAX: usize = 4_096;

    /// Reports that may wait for the log, a shard. One more is refused as Busy.
    pub const REPORTS_MAX: usize = 16_384;

    /// Whether so many pushes more may be handed to the log.
    pub fn have_room(&self, pushes: usize) -> bool {
        self.waits + pushes <= Tickets::WAITS_MAX
    }

    /// Whether a fan-out may go on.
    pub fn are_easy(&self) -> bool {
        self.waits < Tickets::WAITS_EASY
    }

    /// Whether another device may fetch.
    pub fn have_room_to_pull(&self) -> bool {
        self.pulls < Tickets::PULLS_MAX
    }

    /// Whether another row may be written.
    pub fn have_room_for_row(&self) -> bool {
        self.rows < Tickets::ROWS_MAX
    }

    /// Whether another Report may wait.
    pub fn have_room_for_report(&self) -> bool {
        self.reports < Tickets::REPORTS_MAX
    }

    /// Tickets not completed.
    pub fn len(&self) -> usize {
        self.given.len()
    }

    /// A ticket for a pending call.
    pub fn give(&mut self, pending: PendingCall) -> Ticket {
        let (count, size) = self.count(&pending);
        *count += size;
        self.given.give(pending)
    }

    /// The pending call of a ticket, which is completed by this.
    fn take(&mut self, ticket: Ticket) -> Option<PendingCall> {
        let pending = self.given.take(ticket)?;
        let (count, size) = self.count(&pending);
        *count -= size;
        Some(pending)
    }

    /// Another device for a push that waits for others already.
    pub fn join(&mut self, ticket: Ticket, key: Key) {
        if let Some(PendingCall::Keep(_, keys)) = self.given.at_mut(ticket) {
            keys.push(key);
            self.waits += 1;
        }
    }

    /// Another push that is over.
    pub fn join_remove(&mut self, ticket: Ticket, seq: Seq) {
        if let Some(PendingCall::Remove(_, seqs)) = self.given.at_mut(ticket) {
            seqs.push(seq);
        }
    }

    /// What all of them are for, for an audit.
    pub fn iter(&self) -> impl Iterator<Item = &PendingCall> {
        self.given.iter()
    }

    /// The count that a pending call belongs to, and what it adds to it.
    fn count(&mut self, pending: &PendingCall) -> (&mut usize, usize) {
        match pending {
            PendingCall::Keep(_, keys) => (&mut self.waits, keys.len()),
            PendingCall::Claim(claim) => (&mut self.waits, claim.size()),
            PendingCall::Pull(..) => (&mut self.pulls, 1),
            PendingCall::Row(_) | PendingCall::Kicked(..) => (&mut self.rows, 1),
            PendingCall::Report(_) => (&mut self.reports, 1),
            PendingCall::Remove(..)
            | PendingCall::Cleanup(_)
            | PendingCall::Order(_)
            | PendingCall::Mark(_)
            | PendingCall::Take(_)
            | PendingCall::Told(_)
            | PendingCall::Close(_) => (&mut self.rows, 0),
        }
    }
}

impl Hub {
    /// The log has answered a call.
    pub fn complete(&mut self, now: Now, completion: Completion, fx: &mut Effects) {
        let (ticket, result) = completion;
        let pending = self.tickets.take(ticket);
        if never!(pending.is_none(), "ticket {ticket} was completed twice or never given") {
            return;
        }
        let Some(pending) = pending else { return };
        let is_pull = matches!(pending, PendingCall::Pull(..));
        if result.is_err() && result != Err(StoreError::Conflict) && !is_pull {
            fx.counters.count(Counter::StoreFailures);
        }
        self.log_failed |= result == Err(StoreError::Failed);
        match pending {
            PendingCall::Keep(id, keys) => self.kept(now, (id, keys), result, fx),
            PendingCall::Claim(claim) => self.claimed(now, *claim, result, fx),
            PendingCall::Remove(timeline, seqs) => {
                self.retry(now, CleanupTask::Remove(timeline, seqs), result, fx);
            }
            PendingCall::Cleanup(task) => self.retry(now, *task, result, fx),
            PendingCall::Row(key) => self.row_answered(key, result.is_ok()),
            // It was kicked, whether the log has it or not.
            PendingCall::Kicked(reply, key, was_online) => {
                self.row_answered(key, result.is_ok());
                fx.answers.push((reply, PushAnswer::Done(was_online)));
            }
            PendingCall::Pull(key, fetch) => self.pulled(now, (key, fetch), result, fx),
            PendingCall::Order(order) => self.ordered(now, *order, result.is_ok(), fx),
            PendingCall::Report(waiting) => self.report_kept(*waiting, result.is_ok(), fx),
            PendingCall::Mark(bound) => self.epochs.marked(bound, result.map(|_| ())),
            PendingCall::Take(id) => self.order_kept(now, id, result.map(|_| ()), fx),
            PendingCall::Told(told) => self.ends_told(now, *told, result.map(|_| ())),
            PendingCall::Close(id) => self.order_closed(now, id, result.map(|_| ()), fx),
        }
    }

    fn ordered(&mut self, now: Now, order: Order, is_stored: bool, fx: &mut Effects) {
        if let Order::Block(_, key, _) | Order::Tags(_, key, _) = &order {
            self.row_answered(*key, is_stored);
        }
        match is_stored {
            true => self.carry_out(now, order, fx),
            false => {
                let reply = order.reply();
                self.give_up(now, order, fx);
                fx.answers.push((reply, PushAnswer::StoreFailed));
            }
        }
    }

    /// An append was answered: for each device, where the push stands in its timeline.
    fn kept(
        &mut self,
        now: Now,
        (id, keys): (MessageId, Vec<Key>),
        result: Result<Done, StoreError>,
        fx: &mut Effects,
    ) {
        let result = match result {
            Ok(Done::Appended(appended)) => Ok(appended.seqs),
            Ok(other) => {
                never!(true, "an append was answered by {other:?}");
                Err(StoreError::Failed)
            }
            Err(error) => Err(error),
        };
        for (at, key) in keys.into_iter().enumerate() {
            // Whoever is gone was forgotten after the append, and the push with it.
            let Some(device) = self.registry.at_mut(key) else { continue };
            device.extra().asked -= 1;
            match &result {
                Ok(seqs) => {
                    let Some(seq) = seqs.get(at) else { continue };
                    if device.rowed() {
                        self.stored(now, (key, id), *seq, fx);
                    } else {
                        // Its row was refused: it could not be found again.
                        self.enter_remove(key, *seq, fx);
                        self.not_stored(now, (key, id), StoreError::Busy, fx);
                    }
                }
                Err(error) => self.not_stored(now, (key, id), *error, fx),
            }
            self.release(now, key);
        }
    }
}

impl Order {
    /// The number of the command.
    pub fn reply(&self) -> u64 {
        match self {
            Order::Put(reply, ..) | Order::Drop(reply, ..) => *reply,
            Order::Block(reply, ..) | Order::Tags(reply, ..) => *reply,
        }
    }
}

const _: () = assert!(size_of::<Queue>() <= 80 && size_of::<PendingCall>() <= 64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_up_to_each_limit_and_no_further() {
        let (waits, pulls) = (Tickets::WAITS_MAX - 1, Tickets::PULLS_MAX - 1);
        let (rows, reports) = (Tickets::ROWS_MAX - 1, Tickets::REPORTS_MAX - 1);
        let mut tickets = Tickets { waits, pulls, rows, reports, ..Tickets::default() };
        assert!(tickets.have_room(1) && !tickets.have_room(2));
        assert!(tickets.have_room_to_pull() && tickets.have_room_for_row());
        assert!(tickets.have_room_for_report());
        (tickets.pulls, tickets.rows, tickets.reports) = (pulls + 1, rows + 1, reports + 1);
        assert!(!tickets.have_room_to_pull() && !tickets.have_room_for_row());
        assert!(!tickets.have_room_for_report());
        tickets.waits = Tickets::WAITS_EASY - 1;
        assert!(tickets.are_easy());
        tickets.waits += 1;
        assert!(!tickets.are_easy());
    }
}
