//! What another server had kept of accounts that come over.
//!
//! ```text
//! MoveIn ─► the other's account ─► the conversation's home: its last message is read
//!                                    ├─ not older: it is there already, or came too late
//!                                    └─ older: appended, with the number of its time
//! ```
//! A message takes its place as one that is sent does, behind the last of its conversation, but
//! with a number of the time at which it was said, which it has whenever it is brought: so whoever
//! brings all of them again, in their order, brings none twice, whatever was forgotten here. It
//! knows no file of another server. Invariants: numbers of a conversation rise; nothing that moves
//! in is told to another domain, or to those who are told of what is said.

use super::errands::Owed;
use crate::accounts::{Waiter, fault_of};
use crate::envelope::{self, Sender};
use crate::label::Route;
use crate::log::{Answered, PendingCall};
use crate::send::{SENDS_MAX, StoreWait, conversation_of};
use crate::sessions::{Asker, Requester};
use crate::word::{StoreOrder, StoredMessage};
use crate::{Chat, Effects};
use base::time::Now;
use model::account::{AccountAddress, AccountId};
use model::chat::{ChatDelivery, ChatFault, DEVICE_NAME_BYTES_MAX, MovedMessage, NewMessage};
use model::id::{SessionRef, ShardId};
use model::latency::Began;
use model::ports::chat::ChatAnswer;
use model::ports::log::{Call, Done, Pull, Read, Write};
use model::pressure::Pressure;
use model::timeline::{Seq, Space};

/// A message that moves in, whose other is being found.
pub(crate) struct MovingIn {
    wait: Requester,
    asker: Asker,
    moved: MovedMessage,
}

impl MovingIn {
    /// What it costs in memory, bytes, roughly.
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
        if with.is_group() || with.is_chatroom() {
            return self.answer_send(wait, Err(ChatFault::Invalid), fx);
        }
        let moving = Box::new(MovingIn { wait, asker, moved });
        self.find_account(now, &with, None, Waiter::MovedIn(moving), fx);
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
        let asker = Asker { inbox, address: address.clone(), device, is_operator: true };
        Some((self.puts_errand(Owed::Command(ask), asker.clone()), asker))
    }

    fn may_not_move_in(&self, now: Now, moved: &MovedMessage) -> Option<ChatFault> {
        let is_busy = self.sends.len() >= SENDS_MAX || self.pressure >= Pressure::Stores;
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
        now: Now,
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
        let number = self.sends.put_since(Began::default(), StoreWait { wait, group: None });
        let (is_operator, change, live, moved) = (true, None, None, Some(id));
        let order = StoreOrder { number, route, once, is_operator, body, change, live, moved };
        self.hand_to_conversation(now, order, fx);
    }

    /// The home of a conversation looks at its last message before one moves in.
    pub(crate) fn looks_at_last(
        &mut self,
        from: ShardId,
        (order, id): (StoreOrder, u64),
        fx: &mut Effects,
    ) {
        let timeline = order.route.conversation;
        // Until it is stored nothing else is, so that numbers rise.
        self.moving.insert(timeline);
        let (from_seq, backwards, count_max, bytes_max) = (Seq::MAX, true, 1, 1);
        let pull = Pull { timeline, from: from_seq, backwards, count_max, bytes_max };
        let pending = PendingCall::LastBefore(Box::new((from, order, id)));
        self.log.ask(pending, Call::Read(Read::Pull(pull)), fx);
    }

    /// It is read.
    pub(crate) fn last_is_read(
        &mut self,
        now: Now,
        (from, order, id): (ShardId, StoreOrder, u64),
        result: Answered,
        fx: &mut Effects,
    ) {
        let last = match result {
            Ok(Done::Page(page)) => Ok(page.messages.first().map_or(0, |it| it.message.id)),
            Ok(_) => Err(ChatFault::StoreFailed),
            Err(error) => Err(fault_of(error)),
        };
        let is_before = last.map(|last| last >= id);
        if is_before != Ok(false) {
            self.moving.remove(&order.route.conversation);
            let stored = is_before.map(|_| StoredMessage { id, seq: 0, again: true });
            return self.tell_stored(from, order.number, stored, fx);
        }
        let receivers = order.route.inboxes();
        self.append(now, from, order, (None, receivers.into()), fx);
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
