//! Scans: inboxes of this shard that are gone through for whoever left a message behind at a kill.
//!
//! ```text
//! Seek ─► the next scan of that inbox ─► a page, backwards ─► told: it is there │ it is older
//!            ▲ others that come meanwhile    └─ the next page
//! ```
//! An inbox is gone through as far back as what is sought there is old, once for all that is sought
//! by then. It knows nothing of the line ([`left`](super)). Invariant: an inbox has one scan at a
//! time, and what is sought in it already is not sought once more.

use super::{first_of, page_of};
use crate::label::EntryLabel;
use crate::log::{Answered, PendingCall};
use crate::word::ChatWord;
use crate::{Chat, Effects};
use base::time::Now;
use model::id::ShardId;
use model::ports::log::{Call, Done, Read};
use model::timeline::{Placed, Seq, Space, TimelineId};
use std::collections::BTreeMap;

/// How much earlier than its message a reference may seem to be, seconds: clocks are set.
pub(crate) const CLOCK_SLACK_S: u32 = 60;

/// An inbox that is gone through, for whoever asked: has it this entry?
#[derive(Clone, Copy, Debug)]
pub struct Sought {
    pub(crate) number: u64,
    pub(crate) inbox: TimelineId,
    pub(crate) conversation: TimelineId,
    pub(crate) seq: Seq,
    /// Not a reference, but that the other has read up to there.
    pub(crate) peer_read: bool,
    /// When its message was taken, Unix seconds.
    pub(crate) at_s: u32,
}

impl Sought {
    fn is_in(&self, placed: &Placed) -> bool {
        let (of, seq, peer_read) = match EntryLabel::decode(&placed.message.label) {
            Some(EntryLabel::Reference(it)) => (it.conversation, it.seq, false),
            Some(EntryLabel::PeerRead(of, upto)) => (of, upto, true),
            _ => return false,
        };
        (of, seq, peer_read) == (self.conversation, self.seq, self.peer_read)
    }

    /// Whether what stands before this entry is older than it.
    fn is_behind(&self, placed: &Placed) -> bool {
        placed.message.at_s < self.at_s.saturating_sub(CLOCK_SLACK_S)
    }
}

/// An inbox that is gone through. How much is sought there is bounded by what each shard asks for
/// at once (`left_inboxes_at_once_max`).
#[derive(Default)]
struct Scan {
    sought: Vec<(ShardId, Sought)>,
    /// For the next one.
    next: Vec<(ShardId, Sought)>,
}

/// Inboxes of this shard that are gone through.
#[derive(Default)]
pub(crate) struct Scans(BTreeMap<TimelineId, Scan>);

impl Scans {
    /// Something is sought. True: a scan begins with it.
    fn put(&mut self, from: ShardId, sought: Sought) -> bool {
        let is_new = !self.0.contains_key(&sought.inbox);
        let scan = self.0.entry(sought.inbox).or_default();
        let mut all = scan.sought.iter().chain(&scan.next);
        let is_known = all.any(|(by, it)| (*by, it.number) == (from, sought.number));
        match is_new {
            true => scan.sought.push((from, sought)),
            false if is_known => {}
            false => scan.next.push((from, sought)),
        }
        is_new
    }

    /// Of what is sought in an inbox, this is known by a page of it. Whether anything is left.
    fn tell(
        &mut self,
        inbox: TimelineId,
        (page, is_last): (&[Placed], bool),
        told: &mut Vec<(ShardId, Sought, bool)>,
    ) -> bool {
        let Some(scan) = self.0.get_mut(&inbox) else { return false };
        scan.sought.retain(|(from, sought)| {
            let has = page.iter().any(|placed| sought.is_in(placed));
            let is_over = is_last || page.last().is_some_and(|last| sought.is_behind(last));
            if has || is_over {
                told.push((*from, *sought, has));
            }
            !(has || is_over)
        });
        !scan.sought.is_empty()
    }

    /// A scan is over. True: the next begins.
    fn ends(&mut self, inbox: TimelineId) -> bool {
        let Some(scan) = self.0.get_mut(&inbox) else { return false };
        scan.sought = std::mem::take(&mut scan.next);
        let goes_on = !scan.sought.is_empty();
        if !goes_on {
            self.0.remove(&inbox);
        }
        goes_on
    }
}

impl Chat {
    /// A shard wants to know whether an inbox of this one has a reference. What the log has no room
    /// for is asked for again.
    pub(crate) fn sought(&mut self, from: ShardId, sought: Sought, fx: &mut Effects) {
        if self.log.may_ask() && self.outbox.scans.put(from, sought) {
            self.scan_on(sought.inbox, Seq::MAX, fx);
        }
    }

    fn scan_on(&mut self, inbox: TimelineId, from: Seq, fx: &mut Effects) {
        let page = Call::Read(Read::Pull(page_of(inbox, from, true)));
        self.log.ask(PendingCall::Sought(inbox), page, fx);
    }

    /// A page of an inbox that is gone through. What was refused is asked for again.
    pub(crate) fn sought_in(
        &mut self,
        now: Now,
        inbox: TimelineId,
        result: Answered,
        fx: &mut Effects,
    ) {
        let Ok(Done::Page(page)) = result else {
            self.outbox.scans.0.remove(&inbox);
            return;
        };
        let back = first_of(&page).filter(|_| page.more);
        let mut told = Vec::new();
        let goes_on = self.outbox.scans.tell(inbox, (&page.messages, back.is_none()), &mut told);
        match back.filter(|_| goes_on) {
            Some(back) => self.scan_on(inbox, back, fx),
            None if self.outbox.scans.ends(inbox) => self.scan_on(inbox, Seq::MAX, fx),
            None => {}
        }
        for (from, Sought { number, conversation, seq, .. }, has) in told {
            // What is for a foreign account stands in the queue of its home.
            let is_queued = inbox.space() == Space::Foreign;
            let has = has || is_queued && self.send_queue.has((conversation, seq));
            match from == self.settings.shard {
                true => self.told_of(now, (number, inbox), has, fx),
                false => fx.peer_messages.push((from, ChatWord::Sought { number, inbox, has })),
            }
        }
    }
}
