//! Pushes go to the log, and leave it.
//!
//! A push is handed to the log only when it has to wait: one that is acknowledged while its sender
//! waits never gets here. What several devices are to keep of the same push goes in one call as
//! long as nothing but removals comes between; removals of one timeline go together too. The end of
//! a push whose place is not known yet is told when its place is.

use crate::Effects;
use crate::Hub;
use crate::log::durable::push;
use crate::log::tickets::PendingCall;
use crate::registry::item::Kept;
use base::slab::Key;
use base::time::Now;
use model::event::Counter;
use model::id::MessageId;
use model::ports::log::{
    APPEND_TIMELINES_MAX, Append, Call, REMOVE_SEQS_MAX, StoreError, Ticket, Write,
};
use model::push::{Outcome, Push, Rejection};
use model::timeline::{Message, Seq, TimelineId};
use std::collections::VecDeque;
use std::sync::Arc;

/// Pushes whose messages are remembered, so that slices of a fan-out share one.
const MESSAGES_MAX: usize = 8;

/// Append that was handed to the log last.
#[derive(Default)]
pub(crate) struct Keeping {
    /// Messages made last, with their pushes.
    messages: VecDeque<(Arc<Push>, Arc<Message>)>,
    /// The last append that others may join: its ticket and its place in the lane.
    last: Option<(Ticket, usize)>,
}

impl Keeping {
    /// The message for a push: the same one for the same push, if it was asked for not long ago.
    pub fn message(&mut self, now: Now, push: &Arc<Push>) -> Arc<Message> {
        let known = self.messages.iter().find(|(known, _)| Arc::ptr_eq(known, push));
        if let Some((_, message)) = known {
            return message.clone();
        }
        let message = Arc::new(push::message(push, now.unix_s(), None));
        if self.messages.len() == MESSAGES_MAX {
            self.messages.pop_front();
        }
        self.messages.push_back((push.clone(), message.clone()));
        message
    }
}

impl Hub {
    /// Hands the log a call.
    pub(crate) fn enter(&mut self, pending: PendingCall, call: Call, fx: &mut Effects) {
        if !matches!(pending, PendingCall::Remove(..)) {
            self.keeping.last = None;
        }
        let ticket = self.tickets.give(pending);
        fx.calls.push((ticket, call));
    }

    /// Asks the log to keep a push that waits, unless it was asked before. When no more may wait
    /// for the log, the push is over.
    pub(crate) fn keep(&mut self, now: Now, key: Key, id: MessageId, fx: &mut Effects) {
        let room = self.tickets.have_room(1);
        let Some(device) = self.registry.at_mut(key) else { return };
        let Some(queue) = device.queue_mut() else { return };
        let Some(item) = queue.find(id).filter(|item| item.kept() == Kept::No) else { return };
        let Some(push) = item.push().filter(|_| room).cloned() else {
            let Some(item) = queue.remove(id) else { return };
            return self.end(now, key, item, Outcome::Rejected(Rejection::Busy), fx);
        };
        item.set_kept(Kept::Asked);
        device.extra().asked += 1;
        self.ensure_row(key, fx);
        let message = self.keeping.message(now, &push);
        self.append(key, message, fx);
    }

    /// The log has a push of a device, there.
    pub(crate) fn stored(
        &mut self,
        now: Now,
        (key, id): (Key, MessageId),
        seq: Seq,
        fx: &mut Effects,
    ) {
        fx.counters.count(Counter::PushesStored);
        let Some(device) = self.registry.at_mut(key) else { return };
        let online = device.conn().is_some();
        let item = device.queue_mut().and_then(|queue| queue.find(id));
        let Some(item) = item.filter(|item| item.kept() == Kept::Asked) else {
            // It is over by now, and nobody could say so before.
            return match self.jobs.at(id) {
                Some(_) => self.settle_order(now, (key, id), (Some(seq), None)),
                None => self.enter_remove(key, seq, fx),
            };
        };
        item.set_kept(Kept::At(seq));
        let push = item.push().filter(|push| push.collapse.is_some()).cloned();
        if !online {
            item.shed();
        }
        let (counted, answers) = (item.watch().counted, item.stop_answering());
        let mut replaced = Vec::new();
        if let (Some(push), Some(queue)) = (push, device.queue_mut()) {
            queue.collapse(&push, false, &mut replaced);
        }
        for item in replaced {
            self.end(now, key, item, Outcome::Rejected(Rejection::Collapsed), fx);
        }
        if counted {
            self.jobs.stored(id);
            self.jobs.look(id, now.mono);
        }
        if answers {
            self.settle(key, id, Outcome::Stored, fx);
        }
    }

    /// The log did not take a push of a device.
    pub(crate) fn not_stored(
        &mut self,
        now: Now,
        (key, id): (Key, MessageId),
        error: StoreError,
        fx: &mut Effects,
    ) {
        let device = self.registry.at_mut(key);
        let Some(queue) = device.and_then(|device| device.queue_mut()) else { return };
        if queue.find(id).is_none_or(|item| item.kept() != Kept::Asked) {
            return;
        }
        let Some(item) = queue.remove(id) else { return };
        self.end(now, key, item, Outcome::Rejected(rejection(error)), fx);
        self.pump(now, key, fx);
    }

    /// A push that the log keeps for a device is over.
    pub(crate) fn enter_remove(&mut self, key: Key, seq: Seq, fx: &mut Effects) {
        let home = self.settings.home;
        let Some(timeline) = self.registry.timeline(home, key) else { return };
        self.remove_from(timeline, vec![seq], fx);
    }

    /// These messages of a timeline are over.
    pub(crate) fn remove_from(
        &mut self,
        timeline: TimelineId,
        mut seqs: Vec<Seq>,
        fx: &mut Effects,
    ) {
        if let Some((ticket, Call::Write(Write::Remove { timeline: last, seqs: before }))) =
            fx.calls.last_mut()
            && *last == timeline
            && before.len() + seqs.len() <= REMOVE_SEQS_MAX
        {
            seqs.iter().for_each(|&seq| self.tickets.join_remove(*ticket, seq));
            before.append(&mut seqs);
            return;
        }
        let pending = PendingCall::Remove(timeline, seqs.clone());
        self.enter(pending, Call::Write(Write::Remove { timeline, seqs }), fx);
    }

    /// Appends a message for a device, in one call with those before it if it can be.
    fn append(&mut self, key: Key, message: Arc<Message>, fx: &mut Effects) {
        let home = self.settings.home;
        let Some(timeline) = self.registry.timeline(home, key) else { return };
        if let Some((ticket, at)) = self.keeping.last
            && let Some((last, Call::Write(Write::Append(append)))) = fx.calls.get_mut(at)
            && *last == ticket
            && Arc::ptr_eq(&append.message, &message)
            && append.to.len() < APPEND_TIMELINES_MAX
        {
            append.to.push(timeline);
            return self.tickets.join(ticket, key);
        }
        let pending = PendingCall::Keep(MessageId(message.id), vec![key]);
        let append = Append { message, to: vec![timeline], once: None };
        self.enter(pending, Call::Write(Write::Append(append)), fx);
        self.keeping.last = fx.calls.last().map(|(ticket, _)| (*ticket, fx.calls.len() - 1));
    }
}

/// What the log's refusal means for a push.
pub(crate) fn rejection(error: StoreError) -> Rejection {
    match error {
        StoreError::Busy => Rejection::Busy,
        StoreError::TooLarge => Rejection::TooLarge,
        StoreError::Full => Rejection::StoreFull,
        StoreError::Failed | StoreError::Conflict | StoreError::Damaged => Rejection::StoreFailed,
    }
}
