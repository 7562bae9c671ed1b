//! Positions of this shard's accounts in a conversation, for other accounts that ask.
//!
//! ```text
//! Positions ─► each account's state (read once) ─► its cursor ─► answered
//!                    of delivery: ─► how far any device has acknowledged ─► the entries before it
//! ```
//! No row has delivered positions: some device has the inbox up to a place, and so the conversation
//! up to its last entry before that place. Invariant: a question is answered once, or its asker
//! gives up; a position that an account does not share is 0.

use crate::accounts::fault_of;
use crate::conversations::changes::{Subject, Task, Wish};
use crate::label::EntryLabel;
use crate::service::flow::Flow;
use crate::sessions::Requester;
use crate::word::{PeerReply, ReplyTo};
use base::encoding::Encoding;
use model::chat::ChatFault;
use model::ports::log::{Call, Done, Pull, Read};
use model::timeline::{Seq, TimelineId};

/// Maximum of entries that are searched for the last one of a conversation.
const ENTRIES_MAX: usize = 256;

/// Maximum bytes of bodies that are read with these entries.
const BYTES_MAX: usize = 64 * 1024;

/// The position of an account in a conversation.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Encoding)]
pub struct ReaderPosition {
    pub(crate) read: Seq,
    pub(crate) delivered: Seq,
}

/// A question for the positions of accounts.
#[derive(Debug, Encoding)]
pub struct PositionsAsked {
    pub(crate) conversation: TimelineId,
    pub(crate) inboxes: Box<[TimelineId]>,
    /// Whether the delivered position is wanted; `inboxes` is one inbox then.
    pub(crate) of_delivery: bool,
}

/// Positions of accounts, by their inboxes.
pub(crate) type Positions = Vec<(TimelineId, ReaderPosition)>;

/// Replies to a shard with the positions of accounts of this one.
pub(crate) async fn tell(mut flow: Flow, to: ReplyTo, asked: Box<PositionsAsked>) {
    let found = positions(&mut flow, &asked).await;
    let (chat, _, fx) = flow.state();
    chat.reply(to, found.map(PeerReply::Positions), fx);
}

async fn positions(flow: &mut Flow, asked: &PositionsAsked) -> Result<Positions, ChatFault> {
    let (chat, now, fx) = flow.state();
    // The states of all accounts are read at the same time.
    for &inbox in &asked.inboxes {
        let (wait, wish, what) = (Requester::NOBODY, Wish::Sum, Subject::All);
        chat.for_account(now, inbox, Task { wait, wish, what }, fx);
    }
    let mut found = Vec::new();
    for &inbox in &asked.inboxes {
        let row = flow.reached(inbox, asked.conversation).await?;
        let shares = flow.state().0.shares_reads(inbox);
        let mut position = ReaderPosition::default();
        if let Some((read, last)) = row {
            position.read = if shares { read } else { 0 };
            if asked.of_delivery {
                position.delivered = delivered(flow, (inbox, asked.conversation), last).await?;
            }
        }
        found.push((inbox, position));
    }
    Ok(found)
}

/// The place up to which some device of an account has a conversation. The account's state has the
/// conversation up to `last_seq`, which is at `place` in the inbox.
async fn delivered(
    flow: &mut Flow,
    (timeline, conversation): (TimelineId, TimelineId),
    (last_seq, place): (Seq, Seq),
) -> Result<Seq, ChatFault> {
    let reader = flow.state().0.settings.any_reader();
    let cursor = match flow.log(Call::Read(Read::Standing { timeline, reader })).await {
        Ok(Done::Standing(status)) => status.cursor,
        Ok(_) => return Err(ChatFault::StoreFailed),
        Err(error) => return Err(fault_of(error)),
    };
    let online = flow.state().0.sessions.online.get(&timeline);
    let upto = cursor.max(online.map_or(0, |online| online.reach.upto()));
    if place <= upto {
        return Ok(last_seq);
    }
    let (from, backwards) = (upto.saturating_add(1), true);
    let (count_max, bytes_max) = (ENTRIES_MAX, BYTES_MAX);
    let pull = Pull { timeline, from, backwards, count_max, bytes_max };
    let page = match flow.log(Call::Read(Read::Pull(pull))).await {
        Ok(Done::Page(page)) => page,
        Ok(_) => return Err(ChatFault::StoreFailed),
        Err(error) => return Err(fault_of(error)),
    };
    let seq_of = |label: &[u8]| match EntryLabel::decode(label) {
        Some(EntryLabel::Reference(it)) if it.conversation == conversation => Some(it.seq),
        _ => None,
    };
    let seq = page.messages.iter().find_map(|placed| seq_of(&placed.message.label));
    Ok(seq.unwrap_or(0))
}

impl PositionsAsked {
    /// Approximate memory, bytes.
    pub(crate) fn weight(&self) -> usize {
        size_of::<PositionsAsked>() + size_of_val(&*self.inboxes)
    }
}
