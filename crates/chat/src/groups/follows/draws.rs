//! Draws: the messages of a group that an account lacks are read from the conversation and put into
//! its inbox.
//!
//! An account draws from one group at a time, a few messages at a time: the next ones when these
//! are stored. Messages are read as for a history, so one that was recalled or edited meanwhile
//! gets its place all the same. Invariant: a message is put into an inbox behind all before it, and
//! only once.

use super::row::{self, Following};
use super::{Followed, Follower, Step};
use crate::conversations::changes::{Subject, Task, Wish};
use crate::inboxes::entry::Entry;
use crate::inboxes::put_entry;
use crate::label::Relation;
use crate::outbox::{Ends, Mentioned};
use crate::reads::{READINGS_MAX, Wanted};
use crate::service::flow::Flow;
use crate::sessions::Requester;
use crate::word::{Cargo, Fetched, Range, ReadBy};
use crate::{Chat, Effects};
use base::time::Now;
use model::chat::{ChatFault, ChatMessage, GroupChange, GroupVerb};
use model::counters::ChatCounter;
use model::ports::log::{ROWS_MAX, Row};
use model::timeline::{Seq, TimelineId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum of messages that are drawn at once for one account.
const AT_ONCE: u16 = 64;

/// The relation of a message to accounts: by its sender's name hash, the memberships that it ends,
/// and the accounts that it mentions.
pub(super) struct Bearing {
    own: u64,
    ends: Ends,
    mentioned: Mentioned,
}

impl Bearing {
    pub(super) fn for_inbox(&self, inbox: TimelineId) -> Relation {
        let own = self.own == inbox.home_hash();
        let mentioned = !own && self.mentioned.has(inbox);
        Relation { own, ends: self.ends.has(inbox), mentioned, drawn: true }
    }
}

impl Chat {
    /// Takes the rows of a follower that were read.
    pub(super) fn rows_loaded(
        &mut self,
        now: Now,
        inbox: TimelineId,
        rows: &[Row],
        fx: &mut Effects,
    ) {
        let Some(follower) = self.follows.followers.get_mut(&inbox) else { return };
        let before = follower.groups.len();
        for (key, value) in rows {
            let of = row::conversation_of(key);
            // A row that cannot be decoded counts as none.
            let Some((of, following)) = of.zip(Following::decode(value)) else { continue };
            follower.groups.insert(of, Followed::new(following));
            self.follows.live.entry(of).or_default().joins(inbox);
        }
        self.follows.count += follower.groups.len() - before;
        if let Some((last, _)) = rows.last().filter(|_| rows.len() == ROWS_MAX) {
            return self.load_follower(now, inbox, Some(last.clone()), fx);
        }
        if follower.groups.is_empty() {
            follower.is_loaded = true;
            return self.follows.is_due(inbox);
        }
        follower.step = Step::Cursors;
        let (wait, wish, what) = (Requester::NOBODY, Wish::Follow, Subject::All);
        self.for_account(now, inbox, Task { wait, wish, what }, fx);
    }

    /// Takes the account's state of its conversations, once it is complete: it has how far the
    /// inbox has the groups that the account follows.
    pub(crate) fn cursors_known(&mut self, now: Now, inbox: TimelineId, is_known: bool) {
        let Some(follower) = self.follows.followers.get_mut(&inbox) else { return };
        if follower.step != Step::Cursors {
            return;
        }
        follower.step = Step::Idle;
        if !is_known {
            return self.follows.waits(now, inbox);
        }
        follower.is_loaded = true;
        for (of, it) in &mut follower.groups {
            match self.conversations.drawn(inbox, *of) {
                Some((seq, true)) => it.following.ends(seq),
                Some((seq, false)) => it.following.goes_on_behind(seq),
                None => {}
            }
        }
        self.follows.is_due(inbox);
    }

    /// Reads the next messages of a group.
    pub(super) fn fetch_next(
        &mut self,
        now: Now,
        inbox: TimelineId,
        (conversation, behind, target): (TimelineId, Seq, Seq),
        fx: &mut Effects,
    ) {
        if self.readings.len() + self.fetchings.len() >= READINGS_MAX || !self.log.may_ask() {
            return self.follows.waits(now, inbox);
        }
        if let Some(follower) = self.follows.followers.get_mut(&inbox) {
            follower.step = Step::Messages(conversation, target);
            follower.last_drawn = Some(conversation);
        }
        let (from, backwards, count) = (behind, false, AT_ONCE);
        let range = Range::part(conversation, from, backwards, count);
        let by_shard = BTreeMap::from([(self.settings.shard_at(conversation), vec![range])]);
        let by = ReadBy::Holder(inbox);
        self.read_for(now, Requester::NOBODY, Wanted::Draw(inbox), (by_shard, by), fx);
    }

    /// Takes the messages of a group that were read for a follower, or the fault.
    pub(super) fn messages_fetched(
        &mut self,
        now: Now,
        inbox: TimelineId,
        result: Result<Fetched, ChatFault>,
    ) {
        let Some(follower) = self.follows.followers.get_mut(&inbox) else { return };
        let Step::Messages(conversation, target) = follower.step else { return };
        follower.step = Step::Idle;
        let Ok(fetched) = result else { return self.follows.waits(now, inbox) };
        let Some(it) = follower.groups.get(&conversation) else { return };
        let mut following = it.following.clone();
        let mut more = fetched.more && !fetched.messages.is_empty();
        let (mut wanted, mut found) = (Vec::new(), None);
        for (_, message) in fetched.messages {
            if following.looks() {
                if !wanted.is_empty() {
                    more = true; // the rest is read again
                    break;
                }
                match self.is_told_first(&message, inbox) {
                    true => following.finds(message.seq),
                    false => following.has(message.seq),
                }
                found = Some(following.clone());
            }
            if !following.looks() && following.wants(message.seq) {
                let relation = self.bearing_of(&message).for_inbox(inbox);
                match relation.ends {
                    true => following.ends(message.seq),
                    false => following.has(message.seq),
                }
                wanted.push((relation, message));
            }
        }
        if let (Some(it), Some(found)) = (self.followed(inbox, conversation), found) {
            it.following = found;
        }
        if !wanted.is_empty() {
            return self.draw(now, (inbox, conversation), (wanted, more));
        }
        if let Some(it) = self.followed(inbox, conversation) {
            if !more {
                it.following.has(target); // no message up to there is left
                it.following.finds_nothing();
                it.is_unread = false;
            }
            it.is_behind = more || it.target > target;
        }
        self.follows.is_due(inbox);
    }

    /// Whether an account follows a group from this message on: by it the account becomes a member,
    /// or is invited.
    fn is_told_first(&self, message: &ChatMessage, inbox: TimelineId) -> bool {
        let is_one = |verb: GroupVerb| verb.makes_members() || verb == GroupVerb::Invite;
        let changes = GroupChange::all_of(&message.content);
        let named = changes.iter().filter(|it| is_one(it.verb)).flat_map(|it| &it.members);
        named.map(|it| it.address.inbox(self.settings.home, it.id)).any(|it| it == inbox)
    }

    /// The relation of a message to the accounts that draw it.
    pub(super) fn bearing_of(&self, message: &Arc<ChatMessage>) -> Bearing {
        let cargo = Cargo::Message(message.clone());
        let own = message.from.home_hash(self.settings.home);
        Bearing { own, ends: self.ends_for(&cargo), mentioned: self.mentioned_by(&cargo) }
    }

    /// Stores messages in the inbox of the account that draws them.
    fn draw(
        &mut self,
        now: Now,
        (inbox, conversation): (TimelineId, TimelineId),
        (wanted, more): (Vec<(Relation, Arc<ChatMessage>)>, bool),
    ) {
        if !self.log.may_place() {
            return self.follows.waits(now, inbox);
        }
        if let Some(follower) = self.follows.followers.get_mut(&inbox) {
            let (left, has_failed) = (wanted.len() as u32, false);
            follower.list_room = follower.list_room.saturating_sub(left);
            follower.step = Step::Places { conversation, left, has_failed, more };
        }
        for (relation, message) in wanted {
            let of = (inbox, conversation, relation);
            if !self.begin(|flow| put_drawn(flow, of, message)) {
                self.is_drawn(now, inbox, false);
            }
        }
    }

    /// Records that one of the messages that an account draws is in its inbox, or was refused.
    fn is_drawn(&mut self, now: Now, inbox: TimelineId, is_placed: bool) {
        let Some(follower) = self.follows.followers.get_mut(&inbox) else { return };
        let Step::Places { conversation, left, has_failed, more } = follower.step else { return };
        let (left, has_failed) = (left.saturating_sub(1), has_failed || !is_placed);
        follower.step = Step::Places { conversation, left, has_failed, more };
        if left > 0 {
            return;
        }
        follower.step = Step::Idle;
        if has_failed {
            return self.follows.waits(now, inbox);
        }
        if let Some(it) = follower.groups.get_mut(&conversation) {
            it.is_behind = more || it.following.wants(it.target);
            it.is_unread &= more;
        }
        self.follows.is_due(inbox);
    }

    /// Records that the inbox of a follower has a message.
    pub(super) fn has_drawn(&mut self, inbox: TimelineId, entry: &Entry, fx: &mut Effects) {
        fx.counters.count(ChatCounter::Drawn);
        let Some(pointer) = entry.pointer() else { return };
        let Some(it) = self.followed(inbox, pointer.conversation) else { return };
        if pointer.relation.ends {
            it.following.ends(pointer.seq);
            let write = it.following.put(inbox, pointer.conversation);
            self.log.write(write, fx);
        } else {
            it.following.has(pointer.seq);
        }
    }

    pub(super) fn followed(
        &mut self,
        inbox: TimelineId,
        conversation: TimelineId,
    ) -> Option<&mut Followed> {
        let follower: &mut Follower = self.follows.followers.get_mut(&inbox)?;
        follower.groups.get_mut(&conversation)
    }
}

/// Puts a message into the inbox of the account that draws it.
async fn put_drawn(
    mut flow: Flow,
    (inbox, conversation, relation): (TimelineId, TimelineId, Relation),
    message: Arc<ChatMessage>,
) {
    let entry = Entry::of_message(conversation, relation, &message);
    let places = put_entry(&mut flow, &[inbox], &entry, &Cargo::Message(message)).await;
    let (chat, now, fx) = flow.state();
    if places.is_some() {
        chat.has_drawn(inbox, &entry, fx);
    }
    chat.is_drawn(now, inbox, places.is_some());
}
