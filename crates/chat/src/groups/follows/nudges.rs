//! Nudges: a group whose members read it has a new message. Members with devices online that have
//! all messages before it take it together, all messages of a turn at once; a member that lacks
//! more draws.
//!
//! For members with devices to be notified a mark is stored before the nudge is confirmed; the
//! messages are drawn when the push is due. Invariant: the log has one batch of a group at a time,
//! and the messages that wait behind it are bounded.

use super::Step;
use crate::inboxes::entry::Entry;
use crate::inboxes::put_entry;
use crate::label::Relation;
use crate::service::flow::Flow;
use crate::word::Cargo;
use crate::{Chat, Effects};
use base::time::Now;
use model::chat::ChatMessage;
use model::id::ShardId;
use model::ports::log::Call;
use model::timeline::{Seq, TimelineId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum of inboxes of one append. Between the appends of a large group, others take their turn.
const INBOXES_MAX: usize = 1_024;

/// Maximum bytes of messages that wait for the log in one group.
const BYTES_MAX: usize = 1 << 20;

/// A group with followers in memory.
#[derive(Default)]
pub(super) struct Live {
    followers: BTreeSet<TimelineId>,
    /// New messages that wait for the append under way.
    queue: Vec<Arc<ChatMessage>>,
    bytes: usize,
    /// The number of appends under way.
    placing: u32,
    /// Members without devices online take part, too.
    at_once: bool,
}

impl Live {
    pub(super) fn joins(&mut self, inbox: TimelineId) {
        self.followers.insert(inbox);
    }

    pub(super) fn leaves(&mut self, inbox: TimelineId) {
        self.followers.remove(&inbox);
    }

    /// Whether messages wait, and may be handed to the log.
    pub(super) fn may_go_on(&self) -> bool {
        !self.queue.is_empty() && self.placing == 0
    }

    pub(super) fn is_over(&self) -> bool {
        self.followers.is_empty() && self.placing == 0
    }

    pub(super) fn followers(&self) -> impl Iterator<Item = &TimelineId> {
        self.followers.iter()
    }

    /// Queues a message. False: the queue was full, and was emptied.
    fn takes(&mut self, message: &Arc<ChatMessage>, most: usize) -> bool {
        if self.queue.last().is_some_and(|last| last.seq >= message.seq) {
            return true; // a repeated parcel
        }
        self.bytes += message.weight();
        self.queue.push(message.clone());
        let fits = self.queue.len() <= most && self.bytes <= BYTES_MAX;
        if !fits {
            (self.queue, self.bytes) = (Vec::new(), 0);
        }
        fits
    }
}

impl Chat {
    /// Takes a new message of a group with members at home here. Its parcel is confirmed when the
    /// marks for pushes are stored.
    pub(crate) fn nudged(
        &mut self,
        now: Now,
        parcel: (ShardId, u64),
        (conversation, cargo): (TimelineId, &Cargo),
        (members, at_once): (&[TimelineId], bool),
        fx: &mut Effects,
    ) {
        let Cargo::Message(message) = cargo else { return self.parcel_done(parcel, true) };
        if at_once {
            self.all_draw((conversation, message.seq), members);
        }
        let most = usize::from(self.settings.limits.chat.drawn_together_max);
        if let Some(live) = self.follows.live.get_mut(&conversation) {
            live.at_once = at_once;
            self.follows.loud.insert(conversation);
            if !live.takes(message, most) {
                let all: Vec<_> = live.followers.iter().copied().collect();
                all.into_iter().for_each(|inbox| self.lacks(inbox, conversation, message.seq));
            }
        }
        let marked = self.owe_members(now, (conversation, members), message, fx);
        let Some(inbox) = marked else { return self.parcel_done(parcel, true) };
        // The parcel comes once more if the marks cannot be waited for.
        if !self.log.may_ask() || !self.begin(|flow| confirm_marked(flow, inbox, parcel)) {
            self.parcel_done(parcel, false);
        }
    }

    /// Has all members of this shard draw a message, even without devices online.
    fn all_draw(&mut self, (conversation, seq): (TimelineId, Seq), members: &[TimelineId]) {
        let here = self.settings.shard;
        for &inbox in members.iter().filter(|inbox| self.settings.shard_at(**inbox) == here) {
            let follower = self.follows.followers.entry(inbox).or_default();
            // A member that has all messages before it takes it with the others.
            let is_loaded = follower.is_loaded;
            let mut known = follower.groups.get_mut(&conversation).filter(|_| is_loaded);
            if let Some(it) = &mut known {
                it.hears(seq);
                it.wanted = it.target;
            }
            if known.is_none_or(|it| it.is_behind) {
                follower.draws_all = true;
                self.follows.due.push(inbox);
            }
        }
    }

    /// Marks members with registered devices for pushes, unless a device online has the message by
    /// the time that the push is due. Returns some account whose mark is being written.
    fn owe_members(
        &mut self,
        now: Now,
        (conversation, members): (TimelineId, &[TimelineId]),
        message: &ChatMessage,
        fx: &mut Effects,
    ) -> Option<TimelineId> {
        if !message.content.counts {
            return None;
        }
        let own = message.from.home_hash(self.settings.home);
        let mut all = self.pushes.registered_of(members);
        all.retain(|inbox| inbox.home_hash() != own);
        let mut marked = None;
        for inbox in all {
            if let Some(it) = self.followed(inbox, conversation) {
                it.hears(message.seq);
            }
            if self.owes_undrawn(now, inbox, fx) {
                marked = Some(inbox);
            }
        }
        marked
    }

    /// Has a follower draw a message of a group which it does not take with the others.
    fn lacks(&mut self, inbox: TimelineId, conversation: TimelineId, seq: Seq) {
        if let Some(it) = self.followed(inbox, conversation) {
            it.lacks(seq);
            self.follows.is_due(inbox);
        }
    }

    /// Stores the messages since the last turn in the inboxes of the followers that have all before
    /// them.
    pub(super) fn hand_together(&mut self, now: Now) {
        for conversation in std::mem::take(&mut self.follows.loud) {
            match self.follows.live.get(&conversation) {
                Some(live) if live.may_go_on() => self.hand_one_together(now, conversation),
                Some(live) if !live.queue.is_empty() => {
                    self.follows.loud.insert(conversation);
                }
                _ => {}
            }
        }
    }

    fn hand_one_together(&mut self, now: Now, conversation: TimelineId) {
        let Some(live) = self.follows.live.get_mut(&conversation) else { return };
        let (queue, at_once) = (std::mem::take(&mut live.queue), live.at_once);
        live.bytes = 0;
        let all: Vec<TimelineId> = live.followers.iter().copied().collect();
        let last = queue.last().map_or(0, |message| message.seq);
        let gap = queue.windows(2).position(|pair| pair[0].seq + 1 != pair[1].seq);
        let whole = &queue[..gap.map_or(queue.len(), |at| at + 1)];
        let mut takers = Vec::new();
        for inbox in all {
            let behind = self.behind(inbox, conversation);
            let first = behind.and_then(|at| whole.iter().position(|it| it.seq == at + 1));
            let may = |_: &usize| (at_once || self.may_draw(inbox)) && self.log.may_place();
            let first = first.filter(may);
            takers.extend(first.map(|first| (inbox, first)));
            if first.is_none() || gap.is_some() {
                self.lacks(inbox, conversation, last);
            }
        }
        let mut ended = BTreeSet::new();
        for (at, message) in whole.iter().enumerate() {
            let mut ways = BTreeMap::<Relation, Vec<TimelineId>>::new();
            let bearing = self.bearing_of(message);
            for (inbox, first) in &takers {
                if *first <= at && !ended.contains(inbox) {
                    let relation = bearing.for_inbox(*inbox);
                    if relation.ends {
                        ended.insert(*inbox);
                    }
                    ways.entry(relation).or_default().push(*inbox);
                }
            }
            for (relation, inboxes) in ways {
                for slice in inboxes.chunks(INBOXES_MAX) {
                    self.append_together(now, (conversation, relation), (slice, message));
                }
            }
        }
    }

    /// The place behind which a follower takes messages with the others; `None`: it does not.
    fn behind(&self, inbox: TimelineId, conversation: TimelineId) -> Option<Seq> {
        let follower = self.follows.followers.get(&inbox).filter(|it| it.is_loaded)?;
        let is_drawing = match follower.step {
            Step::Messages(of, _) | Step::Places { conversation: of, .. } => of == conversation,
            _ => false,
        };
        let it = follower.groups.get(&conversation)?;
        let is_alone = it.is_behind || it.together > 0 || is_drawing;
        it.following.next_behind().filter(|_| !is_alone && !it.following.looks())
    }

    fn append_together(
        &mut self,
        now: Now,
        (conversation, relation): (TimelineId, Relation),
        (inboxes, message): (&[TimelineId], &Arc<ChatMessage>),
    ) {
        for inbox in inboxes {
            if let Some(it) = self.followed(*inbox, conversation) {
                it.together += 1;
            }
        }
        if let Some(live) = self.follows.live.get_mut(&conversation) {
            live.placing += 1;
        }
        let (inboxes, seq): (Arc<[_]>, _) = (inboxes.into(), message.seq);
        let (of, all) = ((conversation, relation), inboxes.clone());
        if !self.begin(|flow| put_together(flow, of, all, message.clone())) {
            self.taken_together(now, (conversation, &inboxes), (seq, false));
        }
    }

    /// Records that followers have a message in their inboxes which they took together, or that it
    /// was refused.
    fn taken_together(
        &mut self,
        now: Now,
        (conversation, inboxes): (TimelineId, &[TimelineId]),
        (seq, is_placed): (Seq, bool),
    ) {
        for &inbox in inboxes {
            let Some(follower) = self.follows.followers.get_mut(&inbox) else { continue };
            let is_waited_for = follower.draws_all || follower.wakes;
            let Some(it) = follower.groups.get_mut(&conversation) else { continue };
            it.together -= 1;
            if !is_placed {
                it.lacks(seq);
            }
            if it.together == 0 && (it.is_behind || is_waited_for) {
                match is_placed {
                    true => self.follows.is_due(inbox),
                    false => self.follows.waits(now, inbox),
                }
            }
        }
        if let Some(live) = self.follows.live.get_mut(&conversation) {
            live.placing -= 1;
            if live.is_over() {
                self.follows.live.remove(&conversation);
            }
        }
    }
}

/// Confirms the parcel of a nudge when all earlier writes, the marks for its pushes among them, are
/// stored.
async fn confirm_marked(mut flow: Flow, inbox: TimelineId, parcel: (ShardId, u64)) {
    let stored = flow.log(Call::Write(super::row::nothing(inbox))).await;
    flow.state().0.parcel_done(parcel, stored.is_ok());
}

/// Puts a message into the inboxes of followers that take it together.
async fn put_together(
    mut flow: Flow,
    (conversation, relation): (TimelineId, Relation),
    inboxes: Arc<[TimelineId]>,
    message: Arc<ChatMessage>,
) {
    let entry = Entry::of_message(conversation, relation, &message);
    let (seq, cargo) = (message.seq, Cargo::Message(message));
    let places = put_entry(&mut flow, &inboxes, &entry, &cargo).await;
    let (chat, now, fx) = flow.state();
    if places.is_some() {
        inboxes.iter().for_each(|inbox| chat.has_drawn(*inbox, &entry, fx));
    }
    chat.taken_together(now, (conversation, &inboxes), (seq, places.is_some()));
}
