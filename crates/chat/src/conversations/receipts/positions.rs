//! How far accounts of this shard are with a conversation, for whoever asks of another.
//!
//! ```text
//! Positions ─► what each knows (read once) ─► its cursor ─► told
//!                    of delivery: ─► how far any device has acknowledged ─► the entries before it
//! ```
//! What is delivered is no row: some device has the inbox up to a place, and so the conversation up
//! to the last entry of it before that. Invariant: a question is answered once, or its asker gives
//! up; what an account does not share is 0.

use crate::accounts::fault_of;
use crate::conversations::changes::{Subject, Task, Wish};
use crate::label::EntryLabel;
use crate::log::{Answered, PendingCall};
use crate::sessions::Requester;
use crate::word::ChatWord;
use crate::{Chat, Effects};
use base::time::Now;
use model::chat::ChatFault;
use model::id::ShardId;
use model::ports::log::{Call, Done, Pull, Read};
use model::timeline::{Seq, TimelineId};

/// Entries that are looked through for the last one of a conversation.
const ENTRIES_MAX: usize = 256;

/// Bytes of bodies that are read with them.
const BYTES_MAX: usize = 64 * 1024;

/// How far an account is with a conversation.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ReaderPosition {
    pub(crate) read: Seq,
    pub(crate) delivered: Seq,
}

/// How far are these?
#[derive(Debug)]
pub struct PositionsAsked {
    /// The asker's own.
    pub(crate) number: u64,
    pub(crate) conversation: TimelineId,
    pub(crate) inboxes: Box<[TimelineId]>,
    /// Whether it is wanted what is delivered; then there is one inbox.
    pub(crate) of_delivery: bool,
}

/// So far.
#[derive(Debug)]
pub struct PositionsTold {
    /// The question's.
    pub(crate) number: u64,
    pub(crate) result: Result<Vec<(TimelineId, ReaderPosition)>, ChatFault>,
}

/// A question that is being answered.
pub(crate) struct Answering {
    from: ShardId,
    asked: PositionsAsked,
    found: Vec<(TimelineId, ReaderPosition)>,
    /// What the one of whom delivery is wanted knows: the last of the conversation, and its place.
    last: (Seq, Seq),
}

impl Chat {
    /// A shard wants to know how far accounts of this one are.
    pub(crate) fn positions_asked(
        &mut self,
        now: Now,
        from: ShardId,
        asked: PositionsAsked,
        fx: &mut Effects,
    ) {
        let inboxes = asked.inboxes.clone();
        let answering = Answering { from, asked, found: Vec::new(), last: (0, 0) };
        let number = self.receipts.answering.put(answering);
        for &inbox in &inboxes {
            let (wait, wish) = (Requester::NOBODY, Wish::Position(number));
            self.for_account(now, inbox, Task { wait, wish, what: Subject::All }, fx);
        }
    }

    /// What an account knows cannot be read.
    pub(crate) fn position_unknown(&mut self, number: u64, why: ChatFault, fx: &mut Effects) {
        self.end_positions(number, Err(why), fx);
    }

    /// What an account knows is whole.
    pub(crate) fn position_known(&mut self, inbox: TimelineId, number: u64, fx: &mut Effects) {
        let shares = self.shares_reads(inbox);
        let Some(answering) = self.receipts.answering.at_mut(number) else { return };
        let row = self.conversations.reached(inbox, answering.asked.conversation);
        let (read, last) = row.unwrap_or_default();
        let read = if shares { read } else { 0 };
        answering.found.push((inbox, ReaderPosition { read, delivered: 0 }));
        if answering.asked.of_delivery && row.is_some() {
            answering.last = last;
            let read = Read::Standing { timeline: inbox, reader: self.settings.any_reader() };
            let reached = PendingCall::Reached(Box::new((number, inbox)));
            return self.log.ask(reached, Call::Read(read), fx);
        }
        if answering.found.len() == answering.asked.inboxes.len() {
            self.end_positions(number, Ok(()), fx);
        }
    }

    /// How far any device of the account has come.
    pub(crate) fn reached(
        &mut self,
        (number, inbox): (u64, TimelineId),
        result: Answered,
        fx: &mut Effects,
    ) {
        let Some(answering) = self.receipts.answering.at_mut(number) else { return };
        let cursor = match result {
            Ok(Done::Standing(status)) => status.cursor,
            Ok(_) => return self.end_positions(number, Err(ChatFault::StoreFailed), fx),
            Err(error) => return self.end_positions(number, Err(fault_of(error)), fx),
        };
        let online = self.sessions.online.get(&inbox).map_or(0, |online| online.reach.upto());
        let (upto, (last_seq, place)) = (cursor.max(online), answering.last);
        if place <= upto {
            return self.delivered_upto(number, last_seq, fx);
        }
        let (from, backwards) = (upto.saturating_add(1), true);
        let (count_max, bytes_max) = (ENTRIES_MAX, BYTES_MAX);
        let pull = Pull { timeline: inbox, from, backwards, count_max, bytes_max };
        self.log.ask(PendingCall::LastReached(number), Call::Read(Read::Pull(pull)), fx);
    }

    /// The entries before that place.
    pub(crate) fn last_reached(&mut self, number: u64, result: Answered, fx: &mut Effects) {
        let Some(answering) = self.receipts.answering.at_mut(number) else { return };
        let page = match result {
            Ok(Done::Page(page)) => page,
            Ok(_) => return self.end_positions(number, Err(ChatFault::StoreFailed), fx),
            Err(error) => return self.end_positions(number, Err(fault_of(error)), fx),
        };
        let conversation = answering.asked.conversation;
        let seq_of = |label: &[u8]| match EntryLabel::decode(label) {
            Some(EntryLabel::Reference(it)) if it.conversation == conversation => Some(it.seq),
            _ => None,
        };
        let seq = page.messages.iter().find_map(|placed| seq_of(&placed.message.label));
        self.delivered_upto(number, seq.unwrap_or(0), fx);
    }

    fn delivered_upto(&mut self, number: u64, seq: Seq, fx: &mut Effects) {
        if let Some(answering) = self.receipts.answering.at_mut(number) {
            answering.found.iter_mut().for_each(|(_, it)| it.delivered = seq);
        }
        self.end_positions(number, Ok(()), fx);
    }

    fn end_positions(&mut self, number: u64, result: Result<(), ChatFault>, fx: &mut Effects) {
        let Some(answering) = self.receipts.answering.take(number) else { return };
        let Answering { from, asked, found, .. } = answering;
        let told = PositionsTold { number: asked.number, result: result.map(|()| found) };
        if from == self.settings.shard {
            return self.positions_told(told, fx);
        }
        fx.peer_messages.push((from, ChatWord::PositionsTold(Box::new(told))));
    }
}

impl PositionsAsked {
    /// Approximate memory, bytes.
    pub(crate) fn weight(&self) -> usize {
        size_of::<PositionsAsked>() + size_of_val(&*self.inboxes)
    }
}

impl PositionsTold {
    /// Approximate memory, bytes.
    pub(crate) fn weight(&self) -> usize {
        let found = self.result.as_ref().map_or(0, Vec::len);
        size_of::<PositionsTold>() + found * size_of::<(TimelineId, ReaderPosition)>()
    }
}
