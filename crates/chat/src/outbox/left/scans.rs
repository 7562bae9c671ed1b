//! Scans: searches of this shard's inboxes for entries of messages that a crash left undistributed.
//!
//! ```text
//! Seek ─► the next scan of that inbox ─► a page, backwards ─► answers: found │ too old
//!            ▲ others that come meanwhile    └─ the next page
//! ```
//! A scan reads an inbox backwards until its entries are older than those sought, once for all
//! queries that have arrived by then. This module does not know the line ([`left`](super)).
//! Invariant: an inbox has one scan at a time, and a repeated query is ignored while the first is
//! open.

use super::{first_of, page_of};
use crate::label::EntryLabel;
use crate::log::{Answered, PendingCall};
use crate::word::ChatWord;
use crate::{Chat, Effects};
use base::encoding::Encoding;
use base::time::Now;
use model::id::ShardId;
use model::ports::log::{Call, Done, Read};
use model::timeline::{Placed, Seq, Space, TimelineId};
use std::collections::BTreeMap;

/// How much earlier than its message a reference may seem to be, seconds, since clocks are set.
pub(crate) const CLOCK_SLACK_S: u32 = 60;

/// A shard's query whether an inbox has an entry.
#[derive(Clone, Copy, Debug, Encoding)]
pub struct Sought {
    pub(crate) number: u64,
    pub(crate) inbox: TimelineId,
    pub(crate) conversation: TimelineId,
    pub(crate) seq: Seq,
    /// The entry is a read position of the other party, not a reference to a message.
    pub(crate) peer_read: bool,
    /// Time at which the message was accepted, Unix seconds.
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

    /// Whether entries before this one are too old to be the entry sought.
    fn is_behind(&self, placed: &Placed) -> bool {
        placed.message.at_s < self.at_s.saturating_sub(CLOCK_SLACK_S)
    }
}

/// A search of an inbox. The number of its queries is bounded by what each shard asks for at once
/// (`left_inboxes_at_once_max`).
#[derive(Default)]
struct Scan {
    sought: Vec<(ShardId, Sought)>,
    /// Queries for the next scan.
    next: Vec<(ShardId, Sought)>,
}

/// Inboxes of this shard that are being searched.
#[derive(Default)]
pub(crate) struct Scans(BTreeMap<TimelineId, Scan>);

impl Scans {
    /// Adds a query. True: a scan begins with it.
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

    /// Collects the answers that a page of an inbox gives. Returns whether queries are left.
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

    /// Ends a scan. True: the next one begins.
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
    /// Handles a shard's query whether an inbox of this one has an entry. A query beyond the log's
    /// capacity is dropped; the shard repeats it.
    pub(crate) fn sought(&mut self, from: ShardId, sought: Sought, fx: &mut Effects) {
        if self.log.may_ask() && self.outbox.scans.put(from, sought) {
            self.scan_on(sought.inbox, Seq::MAX, fx);
        }
    }

    fn scan_on(&mut self, inbox: TimelineId, from: Seq, fx: &mut Effects) {
        let page = Call::Read(Read::Pull(page_of(inbox, from, true)));
        self.log.ask(PendingCall::Sought(inbox), page, fx);
    }

    /// Handles a page of an inbox. A read that failed ends the scan; the shards repeat their
    /// queries.
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
            // Messages to a foreign account are in the queue of its home.
            let is_queued = inbox.space() == Space::Foreign;
            let has = has || is_queued && self.send_queue.has((conversation, seq));
            match from == self.settings.shard {
                true => self.told_of(now, (number, inbox), has, fx),
                false => fx.peer_messages.push((from, ChatWord::Sought { number, inbox, has })),
            }
        }
    }
}
