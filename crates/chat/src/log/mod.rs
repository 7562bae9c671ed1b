//! Calls to the log: what each was for, and what is asked again.
//!
//! Every call bears a ticket, every ticket holds what is to happen when the call is completed. A
//! write that nobody waits for and that was refused is asked for again after a pause, unless what
//! it wrote has been written anew ([`again`]).

mod again;

use crate::groups::follows::{Drawing, Together};
use crate::inboxes::Placing;
use crate::people::foreign::queue::Queueing;
use crate::service::flow::Reply;
use crate::{Chat, Effects};
use again::{Subject, WriteRetries};
use base::flows::WaitKey;
use base::time::{Instant, Now};
use model::counters::ProcessCounter;
use model::id::ShardId;
use model::ports::calls::{RETRIES_A_TURN_MAX, Tickets, may_be_taken_later};
use model::ports::log::{
    Call, Completion, Done, REMOVE_SEQS_MAX, StoreError, Table, Ticket, Write,
};
use model::timeline::{Seq, TimelineId};
use std::collections::BTreeMap;

/// Calls that may wait for the log; beyond, what needs it is answered as busy.
const CALLS_MAX: usize = 262_144;

/// What a call was for.
pub(crate) enum PendingCall {
    /// A flow waits for it.
    Flow(WaitKey),
    /// A message stands in an inbox.
    Placed(Box<Placing>),
    /// A message for another server stands in the queue.
    Queued(Box<Queueing>),
    /// A page of that.
    QueueRead,
    /// A row of a group that an account follows, or all of them, by its inbox.
    Follow(TimelineId),
    /// A message stands in the inbox of who drew it.
    Drawn(Box<Drawing>),
    /// A message stands in the inboxes of those who took it together.
    Together(Box<Together>),
    /// What stands before the confirmation of a parcel is done.
    Nudged(Box<(ShardId, u64)>),
    /// A page of an inbox, for a reading.
    Inbox(u64),
    /// The row of what an account knows of its conversations, by its inbox.
    State(TimelineId),
    /// The row of what an account knows was written, by its inbox: all up to a place.
    Summed(Box<(TimelineId, Seq)>),
    /// A page of an inbox, for what its account knows.
    Knowledge(TimelineId),
    /// A change of what an account knows stands in its inbox.
    Changed(TimelineId),
    /// A page of what happened to a group, by its conversation.
    Group(TimelineId),
    /// A page of what had happened to the group of a message of the outbox.
    Concerned(u64),
    /// One of the ranges of a fetching, by its place.
    Range(u64, u16),
    /// What messages of such a range are now that are not there.
    Overlays(u64, u16),
    /// Up to where the conversation of such a range has lost its messages to retention.
    Front(u64, u16),
    /// What the message at a place is now, of which such a range has an edit.
    Edited(u64, u16, Seq),
    /// What was called back of the conversation of a message of the outbox.
    Buried(u64),
    /// What the message is now that an edit of the outbox is about.
    LeftEdit(u64),
    /// A message that was not distributed before a start, by its place in the outbox.
    Undistributed(u64),
    /// A page of an inbox that is gone through for shards.
    Sought(TimelineId),
    /// What an account of this shard waits for, of its contacts.
    Person(TimelineId),
    /// Accounts that were removed, or the row of one of them.
    Partings,
    /// The mark of what an account owes to devices that are away, by its inbox.
    PushMark(TimelineId),
    /// The rows of an account's pushes, for a round.
    PushRows(u64),
    /// A page of its inbox, likewise.
    PushOwed(u64),
    /// A step of a wish about an account's pushes, by its inbox.
    PushWish(TimelineId),
    /// What nodes of an account of this shard wait for, but for items that are read.
    Nodes(TimelineId),
    /// The row of an item, by its place among what is read.
    NodeItem(TimelineId, u32),
    /// The row of an erasure that begins.
    ErasureBegun(Box<(TimelineId, model::account::AccountAddress)>),
    /// A page of the inbox of an account that is being erased.
    ErasurePage(TimelineId),
    /// Rows of such an account in a table.
    ErasureRows(TimelineId, Table),
    /// Something that goes with an account.
    ErasureWrote(TimelineId),
    /// The row of an erasure that is over is gone.
    Erased(TimelineId),
    /// The last messages of a chatroom.
    ChatroomRead(TimelineId),
    /// Something nobody waits for; refused, it is tried again.
    Retry(Box<Write>),
}

const _: () = assert!(size_of::<PendingCall>() <= 32);

impl PendingCall {
    /// Whether it puts something into inboxes, or the queue, that is in an order.
    fn is_entry(&self) -> bool {
        use PendingCall::{Drawn, Placed, Queued, Together};
        matches!(self, Placed(_) | Queued(_) | Drawn(_) | Together(_))
    }
}

/// A call that is not completed.
struct Asked {
    pending: PendingCall,
    /// What it writes, where that matters to what is asked for again.
    subject: Option<Box<Subject>>,
}

/// What is to leave timelines of the shard, until the log is asked for it.
#[derive(Default)]
pub(crate) struct Removals(BTreeMap<TimelineId, Vec<Seq>>);

impl Removals {
    /// What stands at these places of a timeline is to leave it.
    pub(crate) fn put(&mut self, timeline: TimelineId, seqs: &[Seq]) {
        self.0.entry(timeline).or_default().extend(seqs);
    }

    /// Places of all of them.
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

/// Order of entries of inboxes: none overtakes one that was refused.
///
/// The log refuses what was on its way behind that ([`Append::heard`]). Until all of it is heard of
/// nothing more is put into inboxes; then it goes again, in its order.
///
/// [`Append::heard`]: model::ports::log::Append::heard
#[derive(Default)]
struct InboxOrder {
    /// Entries that the log has not answered.
    open: usize,
    /// One was refused since there were none.
    is_held: bool,
    /// The next ticket when all refusals had been heard of.
    heard: Ticket,
}

impl InboxOrder {
    /// One is answered; `next`: the ticket of what the log is asked next.
    fn answered(&mut self, is_refused: bool, next: Ticket) {
        self.open -= 1;
        self.is_held |= is_refused;
        if self.is_held && self.open == 0 {
            (self.is_held, self.heard) = (false, next);
        }
    }
}

impl LogCalls {
    /// Whether another call may wait for the log.
    pub(crate) fn may_ask(&self) -> bool {
        self.tickets.len() < CALLS_MAX
    }

    /// Whether something may be put into inboxes: nothing waits to be heard of that was refused.
    pub(crate) fn may_place(&self) -> bool {
        self.may_ask() && !self.order.is_held
    }

    /// Up to where refusals have been heard of, for what is put into inboxes.
    pub(crate) fn heard(&self) -> Option<Ticket> {
        Some(self.order.heard)
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.tickets.has_failed()
    }

    /// Calls that are not completed, and writes that are asked for again.
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

    /// The log has completed a call: what it was for.
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

    /// Has the log write something that nobody waits for.
    pub(crate) fn write(&mut self, write: Write, fx: &mut Effects) {
        if !self.has_failed() {
            self.ask(PendingCall::Retry(Box::new(write.clone())), Call::Write(write), fx);
        }
    }

    /// Has the log remove all of these, of which there are none then.
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

    /// Asks again what was refused; when to come back.
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
                self.again.pause(now); // something before it is not answered
                return self.again.is_due(now).err();
            };
            self.write(write, fx);
        }
        Some(now.mono)
    }
}

impl Chat {
    /// The log has completed a call.
    pub(crate) fn complete(&mut self, now: Now, (ticket, result): Completion, fx: &mut Effects) {
        let Some(pending) = self.log.completed((ticket, &result)) else { return };
        if result.is_err() {
            fx.counters.count(ProcessCounter::StoreFailures);
        }
        match pending {
            PendingCall::Flow(key) => {
                self.flows.reply(key, Reply::Log(result));
            }
            PendingCall::Placed(placing) => self.placed_here(now, *placing, result, fx),
            PendingCall::Queued(queueing) => self.queued(*queueing, result, fx),
            PendingCall::QueueRead => self.queue_read(now, result, fx),
            PendingCall::Follow(inbox) => self.follow_goes_on(now, inbox, result, fx),
            PendingCall::Drawn(drawing) => self.drawn(now, *drawing, result, fx),
            PendingCall::Together(it) => self.taken_together(now, *it, result, fx),
            PendingCall::Nudged(parcel) => self.nudge_marked(*parcel, &result),
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
            PendingCall::ErasureBegun(of) => self.erasure_begun(*of, result, fx),
            PendingCall::ErasurePage(inbox) => self.erasure_page(now, inbox, result, fx),
            PendingCall::ErasureWrote(inbox) => self.erasure_wrote(now, inbox, result),
            PendingCall::ErasureRows(it, of) => self.erasure_rows_read(now, (it, of), result, fx),
            PendingCall::Erased(inbox) => self.erased(now, inbox, result, fx),
            PendingCall::ChatroomRead(timeline) => self.chatroom_read(now, timeline, result, fx),
            PendingCall::Retry(write) => self.log.settle(now, (ticket, *write), &result, fx),
        }
    }
}

/// The answer of a log as somebody waits for it.
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
