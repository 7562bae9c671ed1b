//! Import of messages and groups that another server kept for accounts that move here.
//!
//! ```text
//! MoveIn ─► the other's account ─► the conversation's home, or the group's turn ─► last message
//!   answered ◄── in inboxes ◄── appended, with the number of its time ◄── is older ◄──┤
//!      └────────────────── is not older: already imported, or too late ◄──────────────┘
//! ```
//! An imported message is appended like one that is sent, behind the last of its conversation, but
//! with a message number made of the time at which it was sent, which is the same at each import:
//! so an import that is repeated in order never duplicates messages, even if this server has
//! forgotten their keys. A group is created at the time of its first message, and later changes of
//! it get the number behind its last one ([`changes`](crate::groups::changes)): so no change is
//! newer than the messages still to be imported. A message to a group goes only into the inbox of
//! its sender, so that an erasure finds it there: members read it in the group. This module imports
//! no files of another server. Invariants: numbers of a conversation rise; imported messages are
//! sent neither to other domains nor to observers of messages.

use super::errands::Owed;
use crate::accounts::fault_of;
use crate::envelope::{self, Sender};
use crate::groups;
use crate::groups::changes::Moved;
use crate::label::Route;
use crate::outbox::receivers::Receivers;
use crate::send::conversation_of;
use crate::service::flow::Flow;
use crate::sessions::{Asker, Requester};
use crate::word::{Cargo, PeerRequest, ReplyTo, StoredMessage};
use crate::{Chat, Effects};
use base::encoding::Encoding;
use base::time::Now;
use model::account::{AccountAddress, AccountId};
use model::chat::{
    ChatDelivery, ChatFault, DEVICE_NAME_BYTES_MAX, GroupVerb, MovedChange, MovedMessage,
    NewMessage,
};
use model::ports::chat::ChatAnswer;
use model::ports::log::{Call, Done, Pull, Read, Write};
use model::timeline::{Seq, Space, TimelineId};
use std::sync::Arc;

/// A message to import, for the shard of its conversation.
#[derive(Debug, Encoding)]
pub struct ImportOrder {
    route: Route,
    /// Names the message among all of its conversation: a hash of its sender and the sender's id.
    once: u64,
    /// The message's number, made of the time at which it was sent.
    id: u64,
    /// The message was sent in a group.
    is_in_group: bool,
    body: Box<[u8]>,
}

impl ImportOrder {
    /// Approximate memory, bytes.
    pub(crate) fn weight(&self) -> usize {
        size_of::<ImportOrder>() + self.body.len()
    }
}

/// Imports a message of an account; answers with its place, or with the fault.
async fn import(mut flow: Flow, wait: Requester, asker: Asker, moved: MovedMessage) {
    let result = import_message(&mut flow, &asker, moved).await;
    let (chat, _, fx) = flow.state();
    chat.answer_stored(wait, result, fx);
}

async fn import_message(
    flow: &mut Flow,
    asker: &Asker,
    moved: MovedMessage,
) -> Result<StoredMessage, ChatFault> {
    let (chat, now, _) = flow.state();
    chat.may_move_in(now, &moved)?;
    let with = moved.with.within(asker.address.domain());
    if with.is_chatroom() || with.is_channel() {
        return Err(ChatFault::Invalid);
    }
    let order = match with.is_group() {
        true => chat.import_in_group(asker, &with, &moved),
        false => {
            let bytes = size_of::<Asker>() + moved.content.weight();
            let id = flow.account(&with, bytes).await?;
            flow.state().0.import_between(asker, (&with, id), &moved)
        }
    };
    let order = Box::new(order.ok_or(ChatFault::Invalid)?);
    drop(moved);
    flow.store(order.route.conversation, PeerRequest::Import(order)).await
}

/// Stores an imported message in a conversation of this shard.
pub(crate) async fn store(mut flow: Flow, to: ReplyTo, order: Box<ImportOrder>) {
    let result = store_import(&mut flow, *order).await;
    let (chat, _, fx) = flow.state();
    chat.tell_stored(to, result, fx);
}

/// Nothing else is stored in the conversation meanwhile, so that numbers rise.
async fn store_import(flow: &mut Flow, order: ImportOrder) -> Result<StoredMessage, ChatFault> {
    let conversation = order.route.conversation;
    let (chat, now, fx) = flow.state();
    chat.takes_room(now, (&order.route, &order.body), true, fx)?;
    if order.is_in_group {
        flow.group(conversation, order.weight()).await?;
        flow.state().0.hold_group(conversation)?;
        let result = store_at_its_time(flow, order).await;
        let (chat, now, fx) = flow.state();
        chat.group_entered_again(now, conversation, fx);
        result
    } else {
        chat.moving.insert(conversation);
        let result = store_at_its_time(flow, order).await;
        flow.state().0.moving.remove(&conversation);
        result
    }
}

async fn store_at_its_time(
    flow: &mut Flow,
    order: ImportOrder,
) -> Result<StoredMessage, ChatFault> {
    let ImportOrder { route, once, id, is_in_group, body } = order;
    if last_number(flow, route.conversation).await? >= id {
        return Ok(StoredMessage { id, seq: 0, again: true });
    }
    let (chat, now, _) = flow.state();
    // A group's message goes only into the inbox of its sender, which lists all messages that the
    // account has sent.
    let receivers = match is_in_group && route.from.space() != Space::Inbox {
        true => Receivers::nobody(),
        false => route.inboxes().into(),
    };
    let (message, mut write) = chat.message_write(now, &route, (id, once, body), None);
    if receivers.is_empty() {
        write.append.to.remove(1); // no receiver has to be found for it, so it is in no outbox
    }
    let done = flow.append(&message, Write::AppendWith(write)).await?;
    let (seq, place) = match done.seqs[..] {
        [seq, ..] if receivers.is_empty() => (seq, None),
        [seq, place, ..] => (seq, Some(place)),
        _ => return Err(ChatFault::StoreFailed),
    };
    let said = envelope::decode(message.id, seq, &message.body);
    if let Some((place, said)) = place.zip(said).filter(|_| done.new) {
        let (chat, now, fx) = flow.state();
        let (place, cargo) = ((chat.outbox.timeline(), place), Cargo::Message(Arc::new(said)));
        chat.distribute(now, place, (route, &receivers), &cargo, fx);
    }
    Ok(StoredMessage { id: done.id, seq, again: !done.new })
}

/// The number of the last message of a conversation of this shard; 0: no message can be read there.
pub(crate) async fn last_number(flow: &mut Flow, timeline: TimelineId) -> Result<u64, ChatFault> {
    Ok(last_of(flow, timeline).await?.map_or(0, |(id, _)| id))
}

/// The number of the last message of a conversation of this shard, and its offset.
pub(crate) async fn last_of(
    flow: &mut Flow,
    timeline: TimelineId,
) -> Result<Option<(u64, Seq)>, ChatFault> {
    let (from, backwards, count_max, bytes_max) = (Seq::MAX, true, 1, 1);
    let pull = Pull { timeline, from, backwards, count_max, bytes_max };
    match flow.log(Call::Read(Read::Pull(pull))).await {
        Ok(Done::Page(page)) => Ok(page.messages.first().map(|it| (it.message.id, it.seq))),
        Ok(_) => Err(ChatFault::StoreFailed),
        Err(error) => Err(fault_of(error)),
    }
}

/// Records that devices of an account had received its inbox up to an offset on the other server.
async fn import_reached(mut flow: Flow, wait: Requester, timeline: TimelineId, upto: Seq) {
    let (chat, _, fx) = flow.state();
    let (any, shared) = (chat.settings.any_reader(), chat.settings.shared_reader());
    chat.log.write(Write::Acknowledge { timeline, reader: any, upto }, fx);
    let write = Write::Acknowledge { timeline, reader: shared, upto };
    let told = match flow.log(Call::Write(write)).await {
        Ok(_) => ChatDelivery::Done { number: wait.number },
        Err(error) => ChatDelivery::Failed { number: wait.number, why: fault_of(error) },
    };
    let (chat, _, fx) = flow.state();
    chat.answer_errand(wait.session, told, fx);
}

impl Chat {
    /// Begins the import of a message of an account.
    pub(crate) fn moves_in(
        &mut self,
        ask: u64,
        of: (&AccountAddress, AccountId),
        moved: MovedMessage,
        fx: &mut Effects,
    ) {
        let Some((wait, asker)) = self.begins_move(ask, of, fx) else { return };
        if !self.begin(|flow| import(flow, wait, asker, moved)) {
            self.answer_send(wait, Err(ChatFault::Busy), fx);
        }
    }

    /// Creates or changes a group that was a room of another server.
    pub(crate) fn changes_moved(
        &mut self,
        now: Now,
        ask: u64,
        (address, id): (&AccountAddress, AccountId),
        MovedChange { order, at_ms }: MovedChange,
        fx: &mut Effects,
    ) {
        let Some((wait, asker)) = self.begins_move(ask, (address, id), fx) else { return };
        let is_channel =
            order.group.as_ref().is_some_and(|it| it.within(address.domain()).is_channel());
        let moved = match order.verb {
            // The first number of its millisecond, so that the next change of the group has a
            // higher one.
            GroupVerb::Create => {
                MovedMessage::number_at(at_ms, 0).filter(|_| at_ms <= now.wall_ms).map(Moved::At)
            }
            _ => Some(Moved::Behind),
        };
        match moved.filter(|_| !is_channel) {
            Some(moved) => self.orders_group((wait, asker), (order, Some(moved)), fx),
            None => self.answer_send(wait, Err(ChatFault::Invalid), fx),
        }
    }

    /// Begins to record that devices had received the inbox up to an offset on the other server.
    pub(crate) fn has_moved(
        &mut self,
        ask: u64,
        of: (&AccountAddress, AccountId),
        upto: Seq,
        fx: &mut Effects,
    ) {
        let Some((wait, asker)) = self.begins_move(ask, of, fx) else { return };
        if !self.begin(|flow| import_reached(flow, wait, asker.inbox, upto)) {
            self.answer_send(wait, Err(ChatFault::Busy), fx);
        }
    }

    /// Begins a command about an account that moves here; answers as busy if too many are open.
    fn begins_move(
        &mut self,
        ask: u64,
        (address, id): (&AccountAddress, AccountId),
        fx: &mut Effects,
    ) -> Option<(Requester, Asker)> {
        if self.is_full_of_errands() {
            fx.answers.push((ask, ChatAnswer::Busy));
            return None;
        }
        let inbox = address.inbox(self.settings.home, id);
        let device = Box::default();
        let asker =
            Asker { inbox, address: address.clone(), device, is_operator: true, source: None };
        Some((self.puts_errand(Owed::Command(ask), asker.clone()), asker))
    }

    fn may_move_in(&self, now: Now, moved: &MovedMessage) -> Result<(), ChatFault> {
        let content = &moved.content;
        let is_wrong = content.is_amendment()
            || content.quote.is_some()
            || moved.device.len() > DEVICE_NAME_BYTES_MAX
            || moved.at_ms > now.wall_ms
            || MovedMessage::number_at(moved.at_ms, 0).is_none();
        match self.may_not_say(content) {
            Some(fault) => Err(fault),
            None if is_wrong => Err(ChatFault::Invalid),
            None if self.is_busy_to_send() => Err(ChatFault::Busy),
            None => Ok(()),
        }
    }

    /// The import of a message that an account sent in a group; none: another account has sent it.
    fn import_in_group(
        &self,
        asker: &Asker,
        group: &AccountAddress,
        moved: &MovedMessage,
    ) -> Option<ImportOrder> {
        let home = self.settings.home;
        // No client logs in as the server itself, so it has no inbox to fill.
        let inbox = match asker.address.is_system() {
            true => asker.address.inbox(home, AccountId::FOREIGN),
            false => asker.inbox,
        };
        let conversation = groups::conversation_of(home, group);
        let route = Route { from: inbox, to: Some(inbox), conversation, read: None };
        let order = self.import_of((&asker.address, inbox), group, route, moved)?;
        Some(ImportOrder { is_in_group: true, ..order }).filter(|_| moved.is_own)
    }

    /// The import of a message between an account and another one, in either direction.
    fn import_between(
        &self,
        asker: &Asker,
        (with, id): (&AccountAddress, AccountId),
        moved: &MovedMessage,
    ) -> Option<ImportOrder> {
        let home = self.settings.home;
        let (own, other) = (asker.inbox, with.inbox(home, id));
        let conversation = conversation_of(home, own, other);
        let (sender, receiver, from, to) = match moved.is_own {
            true => (&asker.address, with, own, other),
            false => (with, &asker.address, other, own),
        };
        // The message was sent to the other server at its time: it goes into no foreign queue now.
        let is_far = other.space() == Space::Foreign;
        let (left, right) = if is_far { (own, own) } else { (from, to) };
        let route = Route { from: left, to: Some(right), conversation, read: None };
        self.import_of((sender, from), receiver, route, moved)
    }

    fn import_of(
        &self,
        (sender, inbox): (&AccountAddress, TimelineId),
        to: &AccountAddress,
        route: Route,
        MovedMessage { device, at_ms, client_id, content, .. }: &MovedMessage,
    ) -> Option<ImportOrder> {
        let once = self.settings.home.of(&[&inbox.to_bytes(), &client_id.0]);
        let id = MovedMessage::number_at(*at_ms, once)?;
        let (receiver, content) = (to.clone().into(), content.clone());
        let said = NewMessage { to: receiver, client_id: *client_id, content };
        let body = envelope::encode(Sender { address: sender, device }, to, &said);
        Some(ImportOrder { route, once, id, is_in_group: false, body })
    }
}
