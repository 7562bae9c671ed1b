//! What another server had kept of accounts that come over.
//!
//! ```text
//! MoveIn ─► the other's account ─► the conversation's home: its last message is read
//!   └────── or the group's line ─►   ├─ not older: it is there already, or came too late
//! ChangeMoved ─► the group's line ─► └─ older: appended, with the number of its time
//! ```
//! A message takes its place as one that is sent does, behind the last of its conversation, but
//! with a number of the time at which it was said, which it has whenever it is brought: so whoever
//! brings all of them again, in their order, brings none twice, whatever was forgotten here. A
//! group is made at the time of what was said there first, and what else is done to it has the
//! number behind the last: so nothing of it is newer than what is still to come. What was said in
//! it goes into no inbox but its sender's, of which an erasure finds it: members read it in the
//! group. It knows no file of another server. Invariants: numbers of a conversation rise; nothing
//! that moves in is told to another domain, or to those who are told of what is said.

use super::errands::Owed;
use crate::accounts::{Waiter, fault_of};
use crate::envelope::{self, Sender};
use crate::groups;
use crate::label::Route;
use crate::log::{Answered, PendingCall};
use crate::outbox::receivers::Receivers;
use crate::send::conversation_of;
use crate::sessions::{Asker, Requester};
use crate::word::{Moved, StoreOrder, StoredMessage};
use crate::{Chat, Effects};
use base::time::Now;
use model::account::{AccountAddress, AccountId};
use model::chat::{
    ChatDelivery, ChatFault, DEVICE_NAME_BYTES_MAX, GroupChange, GroupVerb, MovedChange,
    MovedMessage, NewMessage,
};
use model::id::{SessionRef, ShardId};
use model::ports::chat::ChatAnswer;
use model::ports::log::{Call, Done, Pull, Read, Write};
use model::timeline::{Seq, Space};

/// A message that moves in, whose other is being found.
pub(crate) struct MovingIn {
    wait: Requester,
    asker: Asker,
    moved: MovedMessage,
}

/// Something for a conversation that waits for the log: what moves in for the last message there,
/// the change of a group for its row.
pub(crate) struct Arriving {
    pub(crate) from: ShardId,
    pub(crate) order: StoreOrder,
    /// What it does to its group.
    pub(crate) change: Option<GroupChange>,
    pub(crate) receivers: Receivers,
}

impl MovingIn {
    /// Approximate memory, bytes.
    pub(crate) fn weight(&self) -> usize {
        size_of::<MovingIn>() + self.moved.content.weight()
    }
}

impl Chat {
    /// A message of an account comes over.
    pub(crate) fn moves_in(
        &mut self,
        now: Now,
        ask: u64,
        (address, id): (&AccountAddress, AccountId),
        moved: MovedMessage,
        fx: &mut Effects,
    ) {
        let Some((wait, asker)) = self.begins_move(ask, (address, id), fx) else { return };
        if let Some(fault) = self.may_not_move_in(now, &moved) {
            return self.answer_send(wait, Err(fault), fx);
        }
        let with = moved.with.within(asker.address.domain());
        if with.is_chatroom() || with.is_channel() {
            return self.answer_send(wait, Err(ChatFault::Invalid), fx);
        }
        if with.is_group() {
            return self.was_said_in((wait, &asker), (&with, &moved), fx);
        }
        let moving = Box::new(MovingIn { wait, asker, moved });
        self.find_account(now, &with, None, Waiter::MovedIn(moving), fx);
    }

    /// It was said in a group, which may be that of another shard.
    fn was_said_in(
        &mut self,
        (wait, asker): (Requester, &Asker),
        (group, moved): (&AccountAddress, &MovedMessage),
        fx: &mut Effects,
    ) {
        let home = self.settings.home;
        let MovedMessage { is_own, device, at_ms, client_id, content, .. } = moved;
        // Nobody logs in as the server itself, which has no inbox to be filled.
        let inbox = match asker.address.is_system() {
            true => asker.address.inbox(home, AccountId::FOREIGN),
            false => asker.inbox,
        };
        let once = home.of(&[&inbox.to_bytes(), &client_id.0]);
        let number_of = MovedMessage::number_at(*at_ms, once).filter(|_| *is_own);
        let Some(id) = number_of else {
            return self.answer_send(wait, Err(ChatFault::Invalid), fx);
        };
        let (to, content) = (group.clone().into(), content.clone());
        let said = NewMessage { to, client_id: *client_id, content };
        let body = envelope::encode(Sender { address: &asker.address, device }, group, &said);
        let conversation = groups::conversation_of(home, group);
        let route = Route { from: inbox, to: Some(inbox), conversation, read: None };
        self.takes_place((wait, route), (once, Moved::InGroup(id), body), fx);
    }

    /// A group that another server had as a room is made, or changed.
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
            // The first of its millisecond, so that what is done to it next finds room there.
            GroupVerb::Create => MovedMessage::number_at(at_ms, 0)
                .filter(|_| at_ms <= now.wall_ms)
                .map(Moved::InGroup),
            _ => Some(Moved::Behind),
        };
        match moved.filter(|_| !is_channel) {
            Some(moved) => self.orders_group(now, (wait, asker), (order, Some(moved)), fx),
            None => self.answer_send(wait, Err(ChatFault::Invalid), fx),
        }
    }

    /// A command about an account that comes over is under way; unless there are too many.
    fn begins_move(
        &mut self,
        ask: u64,
        (address, id): (&AccountAddress, AccountId),
        fx: &mut Effects,
    ) -> Option<(Requester, Asker)> {
        if self.errands.len() >= self.settings.limits.chat.errands_max as usize {
            fx.answers.push((ask, ChatAnswer::Busy));
            return None;
        }
        let inbox = address.inbox(self.settings.home, id);
        let device = Box::default();
        let asker =
            Asker { inbox, address: address.clone(), device, is_operator: true, source: None };
        Some((self.puts_errand(Owed::Command(ask), asker.clone()), asker))
    }

    fn may_not_move_in(&self, now: Now, moved: &MovedMessage) -> Option<ChatFault> {
        let is_busy = self.is_busy_to_send();
        let content = &moved.content;
        let is_wrong = content.is_amendment()
            || content.quote.is_some()
            || moved.device.len() > DEVICE_NAME_BYTES_MAX
            || moved.at_ms > now.wall_ms
            || MovedMessage::number_at(moved.at_ms, 0).is_none();
        let fault = self.may_not_say(content).or(is_wrong.then_some(ChatFault::Invalid));
        fault.or(is_busy.then_some(ChatFault::Busy))
    }

    /// The other of a message that comes over is found, or not.
    pub(crate) fn moves_in_with(
        &mut self,
        moving: MovingIn,
        (with, id): (&AccountAddress, Result<AccountId, ChatFault>),
        fx: &mut Effects,
    ) {
        let MovingIn { wait, asker, moved } = moving;
        let id = match id {
            Ok(id) => id,
            Err(fault) => return self.answer_send(wait, Err(fault), fx),
        };
        let home = self.settings.home;
        let (own, other) = (asker.inbox, with.inbox(home, id));
        let conversation = conversation_of(home, own, other);
        let (from, to) = if moved.is_own { (own, other) } else { (other, own) };
        let (sender, receiver) = match moved.is_own {
            true => (&asker.address, with),
            false => (with, &asker.address),
        };
        let MovedMessage { device, at_ms, client_id, content, .. } = &moved;
        let once = home.of(&[&from.to_bytes(), &client_id.0]);
        let number_of = MovedMessage::number_at(*at_ms, once);
        let Some(id) = number_of else {
            return self.answer_send(wait, Err(ChatFault::Invalid), fx);
        };
        // It went out when it was said: it concerns nobody who is elsewhere.
        let is_far = other.space() == Space::Foreign;
        let (from, to) = if is_far { (own, own) } else { (from, to) };
        let route = Route { from, to: Some(to), conversation, read: None };
        let said = NewMessage {
            to: receiver.clone().into(),
            client_id: *client_id,
            content: content.clone(),
        };
        let body = envelope::encode(Sender { address: sender, device }, receiver, &said);
        self.takes_place((wait, route), (once, Moved::Between(id), body), fx);
    }

    /// A message that comes over goes to the home of its conversation.
    fn takes_place(
        &mut self,
        (wait, route): (Requester, Route),
        (once, moved, body): (u64, Moved, Box<[u8]>),
        fx: &mut Effects,
    ) {
        let (number, is_operator, change, moved) = (0, true, None, Some(moved));
        let order = StoreOrder { number, route, once, is_operator, body, change, moved };
        self.order(wait, order, fx);
    }

    /// The home of a conversation looks at its last message before one moves in.
    pub(crate) fn looks_at_last(&mut self, arriving: Arriving, fx: &mut Effects) {
        let timeline = arriving.order.route.conversation;
        // Until it is stored nothing else is, so that numbers rise. A group's line sees to it.
        if let Some(Moved::Between(_)) = arriving.order.moved {
            self.moving.insert(timeline);
        }
        let (from, backwards, count_max, bytes_max) = (Seq::MAX, true, 1, 1);
        let pull = Pull { timeline, from, backwards, count_max, bytes_max };
        let pending = PendingCall::LastBefore(Box::new(arriving));
        self.log.ask(pending, Call::Read(Read::Pull(pull)), fx);
    }

    /// It is read.
    pub(crate) fn last_is_read(
        &mut self,
        now: Now,
        Arriving { from, mut order, change, receivers }: Arriving,
        result: Answered,
        fx: &mut Effects,
    ) {
        let last = match result {
            Ok(Done::Page(page)) => Ok(page.messages.first().map_or(0, |it| it.message.id)),
            Ok(_) => Err(ChatFault::StoreFailed),
            Err(error) => Err(fault_of(error)),
        };
        let stored = match (last, order.moved) {
            (Ok(last), Some(Moved::Between(id) | Moved::InGroup(id)))
                if change.is_none() && last >= id =>
            {
                Ok(StoredMessage { id, seq: 0, again: true })
            }
            (Ok(last), moved) => {
                order.moved = match moved {
                    Some(Moved::InGroup(id)) if change.is_some() => {
                        Some(Moved::InGroup(id.max(last + 1)))
                    }
                    // Where nothing can be read there is no number behind the last.
                    Some(Moved::Behind) => Some(Moved::InGroup(last + 1)).filter(|_| last > 0),
                    moved => moved,
                };
                return self.append(now, from, order, (change, receivers), fx);
            }
            (Err(fault), _) => Err(fault),
        };
        let conversation = order.route.conversation;
        self.moving.remove(&conversation);
        self.tell_stored(from, order.number, stored, fx);
        self.change_is_over(now, conversation, fx);
    }

    /// Devices of an account have had all of its inbox up to a place, elsewhere.
    pub(crate) fn has_moved(
        &mut self,
        ask: u64,
        (address, id): (&AccountAddress, AccountId),
        upto: Seq,
        fx: &mut Effects,
    ) {
        let begun = self.begins_move(ask, (address, id), fx);
        let Some((Requester { session, .. }, Asker { inbox, .. })) = begun else { return };
        let (timeline, any) = (inbox, self.settings.any_reader());
        self.log.write(Write::Acknowledge { timeline, reader: any, upto }, fx);
        let reader = self.settings.shared_reader();
        let write = Call::Write(Write::Acknowledge { timeline, reader, upto });
        self.log.ask(PendingCall::MovedUpTo(session), write, fx);
    }

    /// That is stored, or not.
    pub(crate) fn moved_up_to(&mut self, session: SessionRef, result: Answered, fx: &mut Effects) {
        let number = 0;
        let told = match result {
            Ok(_) => ChatDelivery::Done { number },
            Err(error) => ChatDelivery::Failed { number, why: fault_of(error) },
        };
        self.answer_errand(session, told, fx);
    }
}
