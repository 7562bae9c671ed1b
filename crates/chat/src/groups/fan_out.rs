//! Fan-out of groups: a large one is read by its members, a small one written into their inboxes.
//!
//! ```text
//!           more members than the border             half as many, or fewer
//!  written ─────────────────────────────► read ─────────────────────────────► read, by all at once
//!                                           ▲                                      │
//!                                           └──────────────────────────────────────┘
//! ```
//! A turn is a message of the group, stored like a change and before whatever is said next; what
//! stands before it was distributed by the way before. A group that was read once is drawn from
//! ever after, by all its members at once when it is small; so no inbox has to change its way while
//! some of it is missing there. Invariant: how a message reaches the members is what the turns with
//! lower numbers say.

use super::state::GroupState;
use super::{Step, changes_of};
use crate::envelope::{self, Sender};
use crate::label::Route;
use crate::log::PendingCall;
use crate::outbox::Storing;
use crate::outbox::receivers::{Readers, Receivers};
use crate::word::StoreOrder;
use crate::{Chat, Effects};
use base::time::Now;
use model::chat::{ClientMessageId, FanOut, GroupChange, GroupRole, GroupVerb, NewMessage};
use model::counters::ChatCounter;
use model::id::ShardId;
use model::ports::log::{Append, Call, OnceKey, Write};
use model::timeline::{Message, Space, TimelineId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// How a group's messages reach its members.
#[derive(Clone, Default, Debug)]
pub(crate) struct Turned {
    fan_out: FanOut,
    /// It was read once.
    is_read: bool,
    /// The message that told of the last turn.
    pub(super) last_id: u64,
    /// The log has refused a turn: what is said next goes the way before.
    is_refused: bool,
    /// Its members, while nothing changes.
    readers: Option<Readers>,
}

impl Turned {
    /// Other members have it.
    pub(super) fn has_others(&mut self) {
        self.readers = None;
    }
}

impl GroupState {
    /// Where the group is to turn to before anything else is said, if it is; `border`: the members
    /// up to which it is written.
    fn turns(&mut self, border: usize) -> Option<FanOut> {
        if self.is_channel || self.len() == 0 || std::mem::take(&mut self.turned.is_refused) {
            return None;
        }
        match self.turned.fan_out {
            FanOut::Write if border > 0 && self.len() > border => Some(FanOut::Read),
            FanOut::Read if border == 0 || self.len() <= border / 2 => Some(FanOut::Write),
            _ => None,
        }
    }

    /// It has turned, as a message tells.
    pub(crate) fn has_turned(&mut self, id: u64, fan_out: FanOut) {
        self.turned.is_read |= fan_out == FanOut::Read;
        (self.turned.fan_out, self.turned.last_id) = (fan_out, id);
        self.turned.readers = None;
    }

    /// The highest number of a message that says what the group is.
    pub(super) fn highest_id(&self) -> u64 {
        self.last_id.max(self.turned.last_id)
    }

    /// For whom what is said now is; `shard_at` says where an inbox is at home.
    pub(crate) fn receivers(&mut self, shard_at: impl Fn(TimelineId) -> ShardId) -> Receivers {
        let members = self.inboxes();
        if !self.turned.is_read {
            return Receivers::Written(members);
        }
        let at_once = self.turned.fan_out == FanOut::Write;
        let make = || readers(members, [].into(), at_once, shard_at);
        Receivers::Read(self.turned.readers.get_or_insert_with(make).clone())
    }

    /// It turns, as a message tells; for whom that message is.
    pub(crate) fn turned_to(
        &mut self,
        (id, fan_out): (u64, FanOut),
        shard_at: impl Fn(TimelineId) -> ShardId,
    ) -> Receivers {
        let before = self.is_read();
        self.has_turned(id, fan_out);
        let concerned = self.inboxes();
        self.receivers_of(Told::Turn { before }, concerned, shard_at)
    }

    /// For whom the message is that tells of what has just happened.
    pub(crate) fn receivers_of(
        &mut self,
        told: Told<'_>,
        concerned: Arc<[TimelineId]>,
        shard_at: impl Fn(TimelineId) -> ShardId,
    ) -> Receivers {
        if !self.turned.is_read {
            return Receivers::Written(concerned);
        }
        let begin = match told {
            Told::Turn { before: true } => [].into(),
            Told::Turn { before: false } => concerned.clone(),
            // Who is invited, or was until now, draws that message and follows no more.
            Told::Change(home, change)
                if change.verb.makes_members()
                    || matches!(
                        change.verb,
                        GroupVerb::Invite | GroupVerb::Leave | GroupVerb::Remove
                    ) =>
            {
                let inboxes = change.members.iter().map(|one| one.address.inbox(home, one.id));
                inboxes.filter(|it| it.space() != Space::Foreign).collect()
            }
            Told::Change(..) => [].into(),
        };
        let at_once = self.turned.fan_out == FanOut::Write;
        Receivers::Read(readers(concerned, begin, at_once, shard_at))
    }

    /// Whether it was read once.
    pub(crate) fn is_read(&self) -> bool {
        self.turned.is_read
    }
}

/// What a message tells of.
pub(crate) enum Told<'a> {
    /// A turn; it was read before, or not.
    Turn {
        before: bool,
    },
    Change(base::hash::HashKey, &'a GroupChange),
}

fn readers(
    members: Arc<[TimelineId]>,
    begin: Arc<[TimelineId]>,
    at_once: bool,
    shard_at: impl Fn(TimelineId) -> ShardId,
) -> Readers {
    let shards: BTreeSet<ShardId> = members.iter().map(|inbox| shard_at(*inbox)).collect();
    Readers { shards: shards.into_iter().collect(), members, begin, at_once }
}

impl Chat {
    /// Before something is said in a group it turns, if it has become large, or small. True: that
    /// is with the log now.
    pub(super) fn turns_group(
        &mut self,
        now: Now,
        conversation: TimelineId,
        order: &StoreOrder,
        fx: &mut Effects,
    ) -> bool {
        let home = self.settings.home;
        let border = self.settings.limits.chat.group_written_members_max;
        let may_ask = self.log.may_ask();
        let Some(group) = self.groups.known.get_mut(&conversation) else { return false };
        let Some(fan_out) = group.state.turns(border as usize).filter(|_| may_ask) else {
            return false;
        };
        let to = match &order.change {
            Some(asked) => Some(asked.group.clone()),
            None => envelope::decode(0, 0, &order.body).map(|message| message.to),
        };
        let owner = group.state.one_with(GroupRole::Owner);
        let Some((address, (from, owner))) = to.zip(owner) else { return false };
        group.step = Step::Changing;
        // The same however often it is tried.
        let last = group.state.highest_id().to_be_bytes();
        let of: [&[u8]; 3] = [&conversation.to_bytes(), fan_out.word().as_bytes(), &last];
        let (first, once) = (home.of(&of[1..]), home.of(&of));
        let client_id = u128::from(first) << 64 | u128::from(once);
        let client_id = ClientMessageId(client_id.to_be_bytes());
        let new = NewMessage { to: address.clone().into(), client_id, content: fan_out.content() };
        let body = envelope::encode(Sender { address: &owner, device: "" }, &address, &new);
        let route = Route { from, to: None, conversation, read: None };
        let (id, label) = (self.next_id(now), route.encode());
        let message = Arc::new(Message { id, at_s: now.unix_s(), label, body });
        let mut to = vec![conversation, self.outbox.timeline(), changes_of(home, conversation)];
        to.extend(self.outbox.archive());
        let once = Some(OnceKey::at_home(conversation.home_hash(), once));
        self.outbox.takes(message.weight());
        let append = Append { message: message.clone(), to, once, heard: None, ends: false };
        let storing = Box::new(Storing {
            from: self.settings.shard,
            number: 0, // nobody waits for it
            route,
            message,
            about: None,
            change: None,
            is_quiet: false,
            turn: Some(fan_out),
            receivers: Receivers::nobody(),
            abroad: None,
            is_moved: false,
        });
        self.log.ask(PendingCall::Stored(storing), Call::Write(Write::Append(append)), fx);
        true
    }

    /// The log has stored a turn; whom its message is for.
    pub(crate) fn group_turned(
        &mut self,
        conversation: TimelineId,
        (id, fan_out): (u64, FanOut),
        fx: &mut Effects,
    ) -> Receivers {
        let Some(group) = self.groups.known.get_mut(&conversation) else {
            return Receivers::nobody();
        };
        fx.counters.count(ChatCounter::GroupsTurned);
        let settings = &self.settings;
        group.state.turned_to((id, fan_out), |inbox| settings.shard_at(inbox))
    }

    /// The log has refused a turn: the next message does not wait for one.
    pub(crate) fn turn_refused(&mut self, conversation: TimelineId) {
        if let Some(group) = self.groups.known.get_mut(&conversation) {
            group.state.turned.is_refused = true;
        }
    }
}
