//! Orders: what goes into conversations and is no flow yet where the conversation is at home.
//!
//! ```text
//! StoreOrder ─► room there? ─► the group's line, or the last message there ─► the log ─► Stored
//! ```
//! A change of a group, and what moves in. Their askers are flows already, so both kinds of act
//! meet where an order is handed over, and where it is answered. Invariant: an order is answered
//! once.

use crate::accounts::fault_of;
use crate::envelope;
use crate::groups::state::Abroad;
use crate::groups::{self, GroupTask};
use crate::label::Route;
use crate::log::{Answered, PendingCall};
use crate::operators::moving::Arriving;
use crate::outbox::receivers::Receivers;
use crate::service::flow::Flow;
use crate::sessions::Requester;
use crate::word::{Cargo, ChatWord, Moved, StoreOrder, StoredMessage};
use crate::{Chat, Effects};
use base::time::Now;
use model::chat::{ChatFault, GroupChange};
use model::id::ShardId;
use model::ports::events::ChatEvent;
use model::ports::log::{Append, AppendWith, Call, Done, OnceKey, Write};
use model::timeline::Message;
use std::sync::Arc;

/// A message that is being stored, and for whom.
pub(crate) struct Storing {
    from: ShardId,
    number: u64,
    route: Route,
    message: Arc<Message>,
    /// What it does to its group.
    change: Option<Box<GroupChange>>,
    /// That is told to nobody: it stands in no conversation and no outbox.
    is_quiet: bool,
    /// The inboxes that get it; a change of the group replaces them.
    receivers: Receivers,
    /// Members of other servers that get it, kept here because the group may leave memory before
    /// the message is stored; a change of the group replaces them.
    abroad: Option<Abroad>,
    /// It was said elsewhere, before it came here: nobody is told that it happens.
    is_moved: bool,
}

/// Hands an order of this shard to the home of a conversation, and answers the device that asked
/// when the home has answered.
async fn order(mut flow: Flow, wait: Requester, order: StoreOrder) {
    let key = flow.key();
    let (chat, now, fx) = flow.state();
    chat.hand_to_conversation(now, StoreOrder { number: key.number(), ..order }, fx);
    let result = flow.stored(key).await;
    let (chat, _, fx) = flow.state();
    chat.answer_stored(wait, result, fx);
}

impl Chat {
    /// Orders something of the home of a conversation, for whoever waits.
    pub(crate) fn order(&mut self, wait: Requester, of: StoreOrder, fx: &mut Effects) {
        if !self.begin(|flow| order(flow, wait, of)) {
            self.answer_send(wait, Err(ChatFault::Busy), fx);
        }
    }

    /// An order that is no plain message goes to the home of its conversation.
    pub(crate) fn hand_to_conversation(&mut self, now: Now, order: StoreOrder, fx: &mut Effects) {
        let owner = self.settings.shard_at(order.route.conversation);
        if owner == self.settings.shard {
            self.store(now, owner, order, fx);
        } else {
            fx.peer_messages.push((owner, ChatWord::Store(Box::new(order))));
        }
    }

    /// A change of a group, or a message that moves in, is to be stored.
    pub(crate) fn store(&mut self, now: Now, from: ShardId, order: StoreOrder, fx: &mut Effects) {
        let number = order.number;
        let is_exempt = order.is_operator || order.moved.is_some();
        if let Err(fault) = self.takes_room(now, (&order.route, &order.body), is_exempt, fx) {
            return self.tell_stored(from, number, Err(fault), fx);
        }
        if let Some(Moved::Between(_)) = order.moved {
            let (change, receivers) = (None, order.route.inboxes().into());
            return self.looks_at_last(Arriving { from, order, change, receivers }, fx);
        }
        self.for_group(now, order.route.conversation, GroupTask::Store(from, order), fx);
    }

    /// A message is handed to the log, for those whom it concerns.
    pub(crate) fn append(
        &mut self,
        now: Now,
        from: ShardId,
        order: StoreOrder,
        (change, receivers): (Option<GroupChange>, Receivers),
        fx: &mut Effects,
    ) {
        let StoreOrder { number, route, once, body, moved, .. } = order;
        let id = match moved {
            Some(Moved::Between(id) | Moved::InGroup(id)) => id,
            Some(Moved::Behind) | None => self.next_id(now),
        };
        // What is said next has a higher one, be it in the same millisecond.
        self.last_id = self.last_id.max(id);
        let (at_s, label) = (now.unix_s(), route.encode());
        let message = Arc::new(Message { id, at_s, label, body });
        let once = Some(OnceKey::at_home(route.conversation.home_hash(), once));
        let mut to = vec![route.conversation, self.outbox.timeline()];
        let of_group = change.as_ref();
        let is_quiet = of_group.is_some_and(|change| self.is_quiet(route.conversation, change));
        if is_quiet {
            to.clear(); // it is part of what the channel is, and of nothing that is read
        }
        let is_moved = moved.is_some();
        let is_nobodys = is_moved && change.is_none() && receivers.is_empty();
        if is_nobodys {
            to.truncate(1); // nobody has to be found for it
        }
        if change.is_some() {
            to.push(groups::changes_of(self.settings.home, route.conversation));
        }
        to.extend(self.outbox.archive());
        let ends = change.as_ref().is_some_and(|change| change.verb.ends_membership());
        let append = Append { message: message.clone(), to, once, heard: None, ends };
        let check = envelope::check_of(self.settings.home, &message);
        let write = Write::AppendWith(Box::new(AppendWith { append, check, replaces: None }));
        self.outbox.takes(message.weight());
        let abroad = self.groups.foreign(route.conversation).filter(|_| change.is_none());
        let change = change.map(Box::new);
        let storing =
            Storing { from, number, route, message, change, is_quiet, receivers, abroad, is_moved };
        let storing = Box::new(storing);
        self.log.ask(PendingCall::Stored(storing), Call::Write(write), fx);
    }

    /// The log has stored a message, or not.
    pub(crate) fn stored(
        &mut self,
        now: Now,
        storing: Storing,
        result: Answered,
        fx: &mut Effects,
    ) {
        let Storing { from, number, route, message, change, .. } = storing;
        let Storing { is_quiet, mut receivers, mut abroad, is_moved, .. } = storing;
        self.outbox.gives(message.weight());
        if is_moved {
            self.moving.remove(&route.conversation);
        }
        let answer = match result {
            Ok(Done::Appended(done)) if is_quiet => {
                if let (true, Some(change)) = (done.new, &change) {
                    self.group_changed(route.conversation, (done.id, &**change), fx);
                }
                Ok(StoredMessage { id: done.id, seq: 0, again: !done.new })
            }
            Ok(Done::Appended(done)) if is_moved && change.is_none() && receivers.is_empty() => {
                let seq = done.seqs.first().copied().unwrap_or(0);
                Ok(StoredMessage { id: done.id, seq, again: !done.new })
            }
            Ok(Done::Appended(done)) if done.seqs.len() >= 2 => {
                let (seq, place) = (done.seqs[0], done.seqs[1]);
                let mut before = None;
                if let (true, Some(change)) = (done.new, &change) {
                    let told = (done.id, &**change);
                    if change.verb.ends_membership() {
                        before = self.groups.foreign(route.conversation).map(|it| it.all);
                    }
                    receivers = self.group_changed(route.conversation, told, fx);
                    abroad = self.groups.foreign(route.conversation);
                }
                if done.new
                    && let Some(message) = envelope::decode(message.id, seq, &message.body)
                {
                    let (place, message) = ((self.outbox.timeline(), place), Arc::new(message));
                    if fx.events_wanted && !is_moved {
                        fx.tell(ChatEvent::of_message(&message));
                    }
                    if let Some(abroad) = abroad.filter(|_| !is_moved) {
                        self.group_goes_out(&message, (before, abroad), fx);
                    }
                    let cargo = Cargo::Message(message);
                    self.distribute(now, place, (route, &receivers), &cargo, fx);
                }
                Ok(StoredMessage { id: done.id, seq, again: !done.new })
            }
            Ok(_) => Err(ChatFault::StoreFailed),
            Err(error) => Err(fault_of(error)),
        };
        self.tell_stored(from, number, answer, fx);
        if change.is_some() || is_moved {
            self.change_is_over(now, route.conversation, fx);
        }
    }
}
