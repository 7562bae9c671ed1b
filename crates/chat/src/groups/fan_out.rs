//! Fan-out of groups: the messages of a large one are read by its members, those of a small one are
//! written into their inboxes.
//!
//! ```text
//!           more members than the border             half as many, or fewer
//!  written ─────────────────────────────► read ─────────────────────────────► read, by all at once
//!                                           ▲                                      │
//!                                           └──────────────────────────────────────┘
//! ```
//! A turn is a message of the group, stored like a change and before the next message; messages
//! before it were distributed in the former way. The members of a group that was read once draw its
//! messages ever after, all members at once when it is small; so no inbox has to change its way
//! while messages are missing in it. Invariant: the turns with lower numbers decide how a message
//! reaches the members.

use super::state::{Concerned, GroupState};
use super::{Step, changes_of};
use crate::envelope::{self, Sender};
use crate::label::Route;
use crate::outbox::receivers::{Audience, Readers, Receivers};
use crate::service::flow::Flow;
use crate::{Chat, Effects};
use base::time::Now;
use model::account::AccountAddress;
use model::chat::{ClientMessageId, FanOut, NewMessage};
use model::counters::ChatCounter;
use model::id::ShardId;
use model::ports::log::{Append, Appended, OnceKey, Write};
use model::timeline::{Message, TimelineId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The way by which a group's messages reach its members.
#[derive(Clone, Default, Debug)]
pub(crate) struct Turned {
    fan_out: FanOut,
    /// The group was read at some time.
    is_read: bool,
    /// The number of the message of the last turn.
    pub(super) last_id: u64,
    /// The log has refused a turn: the next message goes by the former way.
    is_refused: bool,
    /// The group's readers, until the next change.
    readers: Option<Readers>,
}

impl Turned {
    /// Forgets the readers, because the members have changed.
    pub(super) fn has_others(&mut self) {
        self.readers = None;
    }
}

impl GroupState {
    /// The fan-out to which the group is to turn before the next message, if it is to; `border`:
    /// the number of members up to which messages are written.
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

    /// Turns the group, as a message announces.
    pub(crate) fn has_turned(&mut self, id: u64, fan_out: FanOut) {
        self.turned.is_read |= fan_out == FanOut::Read;
        (self.turned.fan_out, self.turned.last_id) = (fan_out, id);
        self.turned.readers = None;
    }

    /// The highest number of a message that is part of the group's state.
    pub(super) fn highest_id(&self) -> u64 {
        self.last_id.max(self.turned.last_id)
    }

    /// The receivers of the next message; `shard_at` returns the shard where an inbox is at home.
    pub(crate) fn receivers(&mut self, shard_at: impl Fn(TimelineId) -> ShardId) -> Receivers {
        let members = self.inboxes();
        if !self.turned.is_read {
            return Receivers::Written(members);
        }
        let at_once = self.turned.fan_out == FanOut::Write;
        let make = || readers(members, [].into(), at_once, shard_at);
        Receivers::Read(self.turned.readers.get_or_insert_with(make).clone())
    }

    /// Turns the group, as a message announces; returns the receivers of that message.
    pub(crate) fn turned_to(
        &mut self,
        (id, fan_out): (u64, FanOut),
        shard_at: impl Fn(TimelineId) -> ShardId,
    ) -> Receivers {
        let was_read = self.is_read();
        self.has_turned(id, fan_out);
        let all = self.inboxes();
        let begin = if was_read { [].into() } else { all.clone() };
        self.receivers_of(Concerned { all, begin }, shard_at)
    }

    /// The receivers of the message that announces the change which was just applied.
    pub(crate) fn receivers_of(
        &self,
        Concerned { all, begin }: Concerned,
        shard_at: impl Fn(TimelineId) -> ShardId,
    ) -> Receivers {
        if !self.turned.is_read {
            return Receivers::Written(all);
        }
        let at_once = self.turned.fan_out == FanOut::Write;
        Receivers::Read(readers(all, begin, at_once, shard_at))
    }

    /// Whether the group was read at some time.
    pub(crate) fn is_read(&self) -> bool {
        self.turned.is_read
    }
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

/// A group that is about to turn.
struct Turning {
    route: Route,
    group: AccountAddress,
    owner: AccountAddress,
    fan_out: FanOut,
    /// The highest number of a message that is part of the group's state.
    last_id: u64,
}

/// Turns a group that a flow has entered, before the flow sends a message there or changes it, if
/// the group has become large, or small; `group` returns its address.
pub(crate) async fn turn_if_due(
    flow: &mut Flow,
    conversation: TimelineId,
    group: impl FnOnce() -> Option<AccountAddress>,
) {
    let (chat, _, _) = flow.state();
    let Some(turning) = chat.begins_to_turn(conversation, group) else { return };
    // Few messages wait for a turn: the others do not carry the memory of one.
    Box::pin(turn(flow, turning)).await;
    let (chat, now, fx) = flow.state();
    chat.group_entered_again(now, conversation, fx);
}

/// Turns a group, by a message of the group.
async fn turn(flow: &mut Flow, turning: Turning) {
    let Turning { route, fan_out, .. } = turning;
    let (chat, now, _) = flow.state();
    let (message, write) = chat.turn_write(now, turning);
    let done = flow.append(&message, write).await;
    let (chat, now, fx) = flow.state();
    let Ok(Appended { new, id, seqs }) = done else {
        return chat.turn_refused(route.conversation);
    };
    let receivers = chat.group_turned(route.conversation, (id, fan_out), fx);
    let abroad = chat.groups.foreign(route.conversation);
    if new
        && let [seq, place, ..] = seqs[..]
        && let Some(message) = envelope::decode(message.id, seq, &message.body)
    {
        let audience = Audience { route, receivers, abroad };
        chat.fan_out(now, place, audience, message, fx);
    }
}

impl Chat {
    /// Begins a turn of a group that is due. Until it has ended no other message is stored there.
    fn begins_to_turn(
        &mut self,
        conversation: TimelineId,
        group: impl FnOnce() -> Option<AccountAddress>,
    ) -> Option<Turning> {
        let border = self.settings.limits.chat.group_written_members_max;
        let may_ask = self.log.may_ask() && !self.flows.is_full();
        let known = self.groups.known.get_mut(&conversation)?;
        let fan_out = known.state.turns(border as usize).filter(|_| may_ask)?;
        let (group, (from, owner)) = group().zip(known.state.owner())?;
        known.step = Step::Changing;
        let route = Route { from, to: None, conversation, read: None };
        Some(Turning { route, group, owner, fan_out, last_id: known.state.highest_id() })
    }

    /// The write of the message that announces a turn: the same for each retry.
    fn turn_write(&mut self, now: Now, turning: Turning) -> (Arc<Message>, Write) {
        let Turning { route, group, owner, fan_out, last_id } = turning;
        let (home, conversation) = (self.settings.home, route.conversation);
        let last = last_id.to_be_bytes();
        let of: [&[u8]; 3] = [&conversation.to_bytes(), fan_out.word().as_bytes(), &last];
        let (first, once) = (home.of(&of[1..]), home.of(&of));
        let client_id = u128::from(first) << 64 | u128::from(once);
        let client_id = ClientMessageId(client_id.to_be_bytes());
        let new = NewMessage { to: group.clone().into(), client_id, content: fan_out.content() };
        let body = envelope::encode(Sender { address: &owner, device: "" }, &group, &new);
        let (id, label) = (self.next_id(now), route.encode());
        let message = Arc::new(Message { id, at_s: now.unix_s(), label, body });
        let mut to = vec![conversation, self.outbox.timeline(), changes_of(home, conversation)];
        to.extend(self.outbox.archive());
        let once = Some(OnceKey::at_home(conversation.home_hash(), once));
        let append = Append { message: message.clone(), to, once, heard: None, ends: false };
        (message, Write::Append(append))
    }

    /// Takes a turn that the log has stored; returns the receivers of its message.
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

    /// Takes the log's refusal of a turn: the next message does not wait for one.
    pub(crate) fn turn_refused(&mut self, conversation: TimelineId) {
        if let Some(group) = self.groups.known.get_mut(&conversation) {
            group.state.turned.is_refused = true;
        }
    }
}
