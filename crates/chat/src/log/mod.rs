//! Calls to the log: the purpose of each, and the repetition of refused writes.
//!
//! Every call has a ticket, and every ticket the purpose that is served when the call is completed.
//! A refused write whose result no flow waits for is repeated after a pause, unless its row has
//! been written anew ([`again`]).

mod again;

use crate::inboxes::Placing;
use crate::service::flow::Reply;
use crate::{Chat, Effects};
use again::{Subject, WriteRetries};
use base::flows::WaitKey;
use base::time::{Instant, Now};
use model::counters::ProcessCounter;
use model::ports::calls::{RETRIES_A_TURN_MAX, Tickets, may_be_taken_later};
use model::ports::log::{Call, Completion, Done, REMOVE_SEQS_MAX, StoreError, Ticket, Write};
use model::timeline::{Seq, TimelineId};
use std::collections::BTreeMap;

/// Calls that may be open at the log; requests beyond are answered as busy.
const CALLS_MAX: usize = 262_144;

/// The purpose of a call.
pub(crate) enum PendingCall {
    /// A flow waits for the result.
    Flow(WaitKey),
    /// Appends an entry to inboxes, or to the queue, which have an order; a flow waits for the
    /// result.
    Entry(WaitKey),
    /// Appends a parcel to inboxes.
    Placed(Box<Placing>),
    /// Reads a page of the queue of messages for other servers.
    QueueRead,
    /// Reads the rows of the groups that an account follows, or writes one of them, by its inbox.
    Follow(TimelineId),
    /// Reads a page of an inbox, for a fetch with this number.
    Inbox(u64),
    /// Reads the row of an account's knowledge of its conversations, by its inbox.
    State(TimelineId),
    /// Writes that row, by its inbox, which the row covers up to this offset.
    Summed(Box<(TimelineId, Seq)>),
    /// Reads a page of an inbox, for its account's knowledge of its conversations.
    Knowledge(TimelineId),
    /// Appends a change of an account's knowledge of its conversations to its inbox.
    Changed(TimelineId),
    /// Reads a page of a group's changes, by its conversation.
    Group(TimelineId),
    /// Reads a page of the changes of the group that a message of the outbox belongs to.
    Concerned(u64),
    /// Reads one range of a fetch: the fetch's number and the range's index.
    Range(u64, u16),
    /// Reads the present states of amended messages in the gap of such a range.
    Overlays(u64, u16),
    /// Reads up to where retention has removed messages of the conversation of such a range.
    Front(u64, u16),
    /// Reads the present state of the message at this offset, of which such a range has an edit.
    Edited(u64, u16, Seq),
    /// Reads the recalls in the conversation of a message of the outbox.
    Buried(u64),
    /// Reads the present state of the message that an edit in the outbox is about.
    LeftEdit(u64),
    /// Reads a message that was not distributed before a start, by its offset in the outbox.
    Undistributed(u64),
    /// Reads a page of an inbox that is searched for other shards.
    Sought(TimelineId),
    /// A call about the contacts of an account of this shard, by its inbox.
    Person(TimelineId),
    /// Reads rows of removed accounts, or the account row of one of them.
    Partings,
    /// Writes the mark that an account owes pushes to offline devices, by its inbox.
    PushMark(TimelineId),
    /// Reads the rows of an account's push registrations, for a round with this number.
    PushRows(u64),
    /// Reads a page of the account's inbox, for such a round.
    PushOwed(u64),
    /// A step of a change of an account's push registrations, by its inbox.
    PushWish(TimelineId),
    /// A call about the nodes of an account of this shard, except the reading of items.
    Nodes(TimelineId),
    /// Reads the row of an item of a node, by its index among those that are read.
    NodeItem(TimelineId, u32),
    /// Reads the last messages of a chatroom.
    ChatroomRead(TimelineId),
    /// A write whose result no flow waits for; it is repeated if the log refuses it.
    Retry(Box<Write>),
}

const _: () = assert!(size_of::<PendingCall>() <= 32);

impl PendingCall {
    /// Whether the call appends an entry to inboxes, or to the queue, which have an order.
    fn is_entry(&self) -> bool {
        matches!(self, PendingCall::Entry(_) | PendingCall::Placed(_))
    }
}

/// A call that is not completed.
struct Asked {
    pending: PendingCall,
    /// The row or timeline that the call writes, where repetitions must know it.
    subject: Option<Box<Subject>>,
}

/// Entries that are to be removed from timelines of the shard, collected until the log is called.
#[derive(Default)]
pub(crate) struct Removals(BTreeMap<TimelineId, Vec<Seq>>);

impl Removals {
    /// Adds entries of a timeline, by their offsets.
    pub(crate) fn put(&mut self, timeline: TimelineId, seqs: &[Seq]) {
        self.0.entry(timeline).or_default().extend(seqs);
    }

    /// Number of the collected entries, in all timelines.
    pub(crate) fn len(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }
}

/// The calls of a shard.
#[derive(Default)]
pub(crate) struct LogCalls {
    tickets: Tickets<Asked>,
    again: WriteRetries,
    order: InboxOrder,
}

/// Order of entries of inboxes: no entry overtakes one that was refused.
///
/// The log refuses the entries on their way behind a refused one ([`Append::heard`]). Until it has
/// answered all of them, nothing more is put into inboxes; then they are repeated in their order.
///
/// [`Append::heard`]: model::ports::log::Append::heard
#[derive(Default)]
struct InboxOrder {
    /// Entries that the log has not answered.
    open: usize,
    /// An entry was refused, and entries of that time are still open.
    is_held: bool,
    /// The next ticket at the time when all refusals had been answered.
    heard: Ticket,
}

impl InboxOrder {
    /// Records the answer to an entry; `next`: the ticket of the next call.
    fn answered(&mut self, is_refused: bool, next: Ticket) {
        self.open -= 1;
        self.is_held |= is_refused;
        if self.is_held && self.open == 0 {
            (self.is_held, self.heard) = (false, next);
        }
    }
}

impl LogCalls {
    /// Whether another call may be made to the log.
    pub(crate) fn may_ask(&self) -> bool {
        self.tickets.len() < CALLS_MAX
    }

    /// Whether entries may be put into inboxes: no answers are awaited behind a refusal.
    pub(crate) fn may_place(&self) -> bool {
        self.may_ask() && !self.order.is_held
    }

    /// The ticket up to which refusals have been received, for appends to inboxes.
    pub(crate) fn heard(&self) -> Option<Ticket> {
        Some(self.order.heard)
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.tickets.has_failed()
    }

    /// Calls that are not completed, and writes that wait to be repeated.
    pub(crate) fn unsettled(&self) -> usize {
        self.tickets.len() + self.again.len()
    }

    pub(crate) fn ask(&mut self, pending: PendingCall, call: Call, fx: &mut Effects) {
        let subject = Subject::of(&call).map(Box::new);
        if let Some(subject) = &subject {
            self.again.asked(self.tickets.next(), subject);
        }
        self.order.open += usize::from(pending.is_entry());
        self.tickets.ask(Asked { pending, subject }, call, fx);
    }

    /// Closes a call that the log has completed; returns its purpose.
    fn completed(&mut self, (ticket, result): (Ticket, &Answered)) -> Option<PendingCall> {
        let Asked { pending, subject } = self.tickets.completed(ticket, result)?;
        if let (Ok(_), Some(subject)) = (result, subject) {
            self.again.stored(ticket, &subject);
        }
        if pending.is_entry() {
            self.order.answered(result.is_err(), self.tickets.next());
        }
        Some(pending)
    }

    /// Makes a write whose result no flow waits for.
    pub(crate) fn write(&mut self, write: Write, fx: &mut Effects) {
        if !self.has_failed() {
            self.ask(PendingCall::Retry(Box::new(write.clone())), Call::Write(write), fx);
        }
    }

    /// Removes all collected entries from the log, and empties the collection.
    pub(crate) fn remove(&mut self, removals: &mut Removals, fx: &mut Effects) {
        for (timeline, seqs) in std::mem::take(&mut removals.0) {
            for seqs in seqs.chunks(REMOVE_SEQS_MAX) {
                self.write(Write::Remove { timeline, seqs: seqs.to_vec() }, fx);
            }
        }
    }

    fn settle(&mut self, now: Now, write: (Ticket, Write), result: &Answered, fx: &mut Effects) {
        let Err(refused) = *result else { return };
        let next = self.tickets.next();
        if !may_be_taken_later(refused) || !self.again.refused(now, write, next) {
            fx.counters.count(ProcessCounter::RemovalsGivenUp);
        }
    }

    /// Repeats refused writes; returns when to be called again.
    pub(crate) fn turn(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        if self.again.is_empty() {
            return None;
        }
        if let Err(due) = self.again.is_due(now) {
            return Some(due);
        }
        for _ in 0..RETRIES_A_TURN_MAX {
            if self.again.is_empty() {
                return None;
            }
            let Some(write) = self.again.take(self.tickets.completed_below()) else {
                self.again.pause(now); // a call before it is not answered
                return self.again.is_due(now).err();
            };
            self.write(write, fx);
        }
        Some(now.mono)
    }
}

impl Chat {
    /// Handles a completed call.
    pub(crate) fn complete(&mut self, now: Now, (ticket, result): Completion, fx: &mut Effects) {
        let Some(pending) = self.log.completed((ticket, &result)) else { return };
        if result.is_err() {
            fx.counters.count(ProcessCounter::StoreFailures);
        }
        match pending {
            PendingCall::Flow(key) | PendingCall::Entry(key) => {
                self.flows.reply(key, Reply::Log(result));
            }
            PendingCall::Placed(placing) => self.placed_here(now, *placing, result, fx),
            PendingCall::QueueRead => self.queue_read(now, result, fx),
            PendingCall::Follow(inbox) => self.follow_goes_on(now, inbox, result, fx),
            PendingCall::Inbox(number) => self.inbox_read(now, number, result, fx),
            PendingCall::State(inbox) => self.state_read(now, inbox, result, fx),
            PendingCall::Summed(of) => self.summed(*of, &result, fx),
            PendingCall::Knowledge(inbox) => self.knowledge_read(now, inbox, result, fx),
            PendingCall::Changed(inbox) => self.changed(now, inbox, result, fx),
            PendingCall::Group(conversation) => self.group_read(now, conversation, result, fx),
            PendingCall::Concerned(number) => self.concerned_read(now, number, result, fx),
            PendingCall::Range(number, at) => self.range_read(now, (number, at), result, fx),
            PendingCall::Overlays(it, at) => self.overlays_read(now, (it, at), result, fx),
            PendingCall::Front(it, at) => self.front_read(now, (it, at), result, fx),
            PendingCall::Edited(it, at, seq) => self.edited_read(now, (it, at, seq), result, fx),
            PendingCall::Buried(number) => self.buried_read(now, number, result, fx),
            PendingCall::LeftEdit(number) => self.left_edit_read(now, number, result, fx),
            PendingCall::Undistributed(number) => self.found_again(now, number, result, fx),
            PendingCall::Sought(inbox) => self.sought_in(now, inbox, result, fx),
            PendingCall::Person(inbox) => self.person_done(now, inbox, result, fx),
            PendingCall::Partings => self.partings_read(now, result, fx),
            PendingCall::PushMark(inbox) => self.mark_written(inbox, result),
            PendingCall::PushRows(number) => self.push_rows_read(now, number, result, fx),
            PendingCall::PushOwed(number) => self.owed_read(now, number, result, fx),
            PendingCall::PushWish(inbox) => self.push_wish_goes_on(now, inbox, result, fx),
            PendingCall::Nodes(inbox) => self.nodes_done(now, inbox, result, fx),
            PendingCall::NodeItem(inbox, at) => self.item_read(now, (inbox, at), result, fx),
            PendingCall::ChatroomRead(timeline) => self.chatroom_read(now, timeline, result, fx),
            PendingCall::Retry(write) => self.log.settle(now, (ticket, *write), &result, fx),
        }
    }
}

/// The log's answer to a call.
pub(crate) type Answered = Result<Done, StoreError>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_more_is_put_into_inboxes_until_all_that_is_under_way_behind_a_refusal_is_heard_of() {
        let mut order = InboxOrder { open: 3, ..InboxOrder::default() };
        order.answered(false, 4);
        assert!(!order.is_held);
        order.answered(true, 5);
        assert_eq!((order.is_held, order.heard), (true, 0), "one is under way");
        order.answered(false, 6);
        assert_eq!((order.is_held, order.heard), (false, 6));
    }
}
