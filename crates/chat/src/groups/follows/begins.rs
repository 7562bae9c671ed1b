//! Beginnings: an account follows a group from some message on; its row has this before the parcel
//! of the message is confirmed.
//!
//! A beginning waits until all earlier parcels of its shard are in their inboxes: written entries
//! come before those that are drawn. A write that the log refuses is repeated here: later parcels
//! may be done, so the sender would not repeat it. Invariant: a parcel is confirmed when each of
//! its rows is written.

use super::row::{self, Following};
use super::{Followed, Step};
use crate::log::{Answered, PendingCall};
use crate::word::Parcel;
use crate::{Chat, Effects};
use base::time::Now;
use model::id::ShardId;
use model::ports::log::{Call, Done, Write};
use model::timeline::{Seq, TimelineId};
use std::sync::Arc;

/// A parcel that names the new followers of a group.
pub(super) struct Beginning {
    inboxes: Arc<[TimelineId]>,
    conversation: TimelineId,
    from: Seq,
    /// The new followers are invited: offline devices are notified.
    wakes: bool,
    /// The number of rows that are not written yet, once they are being written.
    left: Option<usize>,
}

/// An account that is to follow a group from a place on, by a parcel.
#[derive(Clone, Copy)]
pub(super) struct Begin {
    conversation: TimelineId,
    from: Seq,
    parcel: (ShardId, u64),
}

impl Chat {
    /// Takes a parcel that names the new followers of its group.
    pub(crate) fn begins(&mut self, from: ShardId, parcel: Parcel) {
        let Parcel { number, inboxes, conversation, cargo, .. } = parcel;
        let (from, seq) = ((from, number), cargo.seq());
        for inbox in &*inboxes {
            *self.follows.to_begin.entry(*inbox).or_default() += 1;
        }
        let wakes = cargo.invites();
        let beginning = Beginning { inboxes, conversation, from: seq, wakes, left: None };
        self.follows.begins.insert(from, beginning);
    }

    /// Continues the parcels before which all others are in their inboxes.
    pub(crate) fn begins_that_may(&mut self, now: Now, fx: &mut Effects) {
        let open = self.follows.begins.iter().filter(|(_, it)| it.left.is_none());
        let may = |(from, number): &(ShardId, u64)| self.inboxes.is_next(*from, *number);
        let next: Vec<_> = open.map(|(parcel, _)| *parcel).filter(may).collect();
        for parcel in next {
            let Some(it) = self.follows.begins.get_mut(&parcel) else { continue };
            it.left = Some(it.inboxes.len());
            let (inboxes, begin) = (
                it.inboxes.clone(),
                Begin { conversation: it.conversation, from: it.from, parcel },
            );
            let wakes = it.wakes;
            for &inbox in &*inboxes {
                self.follows.begins_now(inbox);
                if wakes && !self.pushes.registered_of(&[inbox]).is_empty() {
                    // The mark for a push is stored before the row, and is drawn for.
                    self.owes_undrawn(now, inbox, fx);
                }
                self.follows.followers.entry(inbox).or_default().line.push_back(begin);
                self.advance_follower(now, inbox, fx);
            }
        }
    }

    /// Stores the next beginning of a follower.
    pub(super) fn begin_next(&mut self, now: Now, inbox: TimelineId, fx: &mut Effects) {
        let may_ask = self.log.may_ask();
        let Some(follower) = self.follows.followers.get_mut(&inbox) else { return };
        let Some(Begin { conversation, from, .. }) = follower.line.front().copied() else { return };
        if !may_ask {
            return self.follows.waits(now, inbox);
        }
        if !follower.is_loaded {
            follower.step = Step::Row;
            let read = row::read_one(inbox, conversation);
            return self.log.ask(PendingCall::Follow(inbox), Call::Read(read), fx);
        }
        let is_new = !follower.groups.contains_key(&conversation);
        let followed = || Followed::new(Following::default());
        let it = follower.groups.entry(conversation).or_insert_with(followed);
        let begins = it.following.begins(from);
        it.is_unstored |= begins;
        it.is_behind |= begins;
        it.is_unread |= begins;
        let write = it.is_unstored.then(|| it.following.put(inbox, conversation));
        self.follows.count += usize::from(is_new);
        self.follows.live.entry(conversation).or_default().joins(inbox);
        self.write_beginning(inbox, write, fx);
    }

    fn write_beginning(&mut self, inbox: TimelineId, write: Option<Write>, fx: &mut Effects) {
        let Some(write) = write else { return self.begun(inbox) };
        if let Some(follower) = self.follows.followers.get_mut(&inbox) {
            follower.step = Step::Writing;
        }
        self.log.ask(PendingCall::Follow(inbox), Call::Write(write), fx);
    }

    /// Takes the log's result of reading or writing a row of a follower, or of reading all.
    pub(crate) fn follow_goes_on(
        &mut self,
        now: Now,
        inbox: TimelineId,
        result: Answered,
        fx: &mut Effects,
    ) {
        let Some(follower) = self.follows.followers.get_mut(&inbox) else { return };
        let step = std::mem::take(&mut follower.step);
        match (step, result) {
            (Step::Row, Ok(Done::Row(row))) => {
                let Some(begin) = follower.line.front().copied() else { return };
                // A row that cannot be decoded counts as none.
                let following = row.and_then(|row| Following::decode(&row));
                let mut following = following.unwrap_or_default();
                let begins = following.begins(begin.from);
                let write = begins.then(|| following.put(inbox, begin.conversation));
                self.write_beginning(inbox, write, fx);
            }
            (Step::Writing, Ok(_)) => {
                let of = follower.line.front().map(|begin| begin.conversation);
                if let Some(it) = of.and_then(|of| follower.groups.get_mut(&of)) {
                    it.is_unstored = false;
                }
                self.begun(inbox);
            }
            (Step::Rows, Ok(Done::Rows(rows))) => self.rows_loaded(now, inbox, &rows, fx),
            _ => self.follows.waits(now, inbox),
        }
    }

    /// Ends a beginning of a follower that is stored.
    fn begun(&mut self, inbox: TimelineId) {
        let Some(follower) = self.follows.followers.get_mut(&inbox) else { return };
        let Some(Begin { parcel, .. }) = follower.line.pop_front() else { return };
        if let Some(it) = self.follows.begins.get_mut(&parcel) {
            let left = it.left.map_or(0, |left| left.saturating_sub(1));
            it.left = Some(left);
            if left == 0 {
                self.follows.begins.remove(&parcel);
                self.parcel_done(parcel, true);
            }
        }
        self.follows.is_due(inbox);
    }

    /// Reads the rows of a follower, behind one of them.
    pub(super) fn load_follower(
        &mut self,
        now: Now,
        inbox: TimelineId,
        after: Option<Box<[u8]>>,
        fx: &mut Effects,
    ) {
        if !self.log.may_ask() {
            return self.follows.waits(now, inbox);
        }
        if let Some(follower) = self.follows.followers.get_mut(&inbox) {
            follower.step = Step::Rows;
        }
        let read = Call::Read(row::read(inbox, after));
        self.log.ask(PendingCall::Follow(inbox), read, fx);
    }
}
