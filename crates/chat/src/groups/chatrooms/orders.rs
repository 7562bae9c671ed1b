//! Orders: a chatroom is made, changed or closed, and accounts are shown out of it.
//!
//! ```text
//! device ─► Order ─► who gets rights is found ─► home: may it? ─► row written ─► told, answered
//! ```
//! Invariant: an order is answered once; what was answered holds over a restart.

use super::home::{Chatroom, Step, Task};
use super::row::{self, By, ChatroomRow, RowLimits};
use super::words::{ChatroomAsked, ChatroomWord};
use crate::accounts::{Waiter, fault_of};
use crate::log::{Answered, PendingCall};
use crate::sessions::Requester;
use crate::waits::Waits;
use crate::{Chat, Effects};
use base::time::{Instant, Now};
use model::account::{AccountAddress, AccountId};
use model::chat::{ChatDelivery, ChatFault, ChatroomOrder, ChatroomOut, ChatroomVerb as Verb};
use model::counters::ChatCounter;
use model::id::ShardId;
use model::ports::log::{Call, Write};
use model::pressure::Pressure;
use model::timeline::TimelineId;
use std::sync::Arc;

/// Orders that may wait for an account or a home, a shard. One more is answered as busy.
const ORDERS_MAX: usize = 4_096;

/// An order of a session of this shard.
pub(crate) struct Ordering {
    wait: Requester,
    by: By,
    room: AccountAddress,
    order: Box<ChatroomOrder>,
}

pub(crate) type Orders = Waits<Ordering>;

/// A change of a chatroom that is with the log.
pub(crate) struct Changing {
    from: ShardId,
    number: u64,
    timeline: TimelineId,
    verb: Verb,
    /// What it is then; none: it is no more.
    row: Option<Arc<ChatroomRow>>,
    /// Those who are to leave.
    outs: Vec<Option<AccountAddress>>,
    /// What was said there goes first, if the log has it.
    forgets: bool,
}

impl Chat {
    /// A device wants a chatroom made or changed.
    pub(super) fn chatroom_order(
        &mut self,
        now: Now,
        (wait, by): (Requester, By),
        order: ChatroomOrder,
        fx: &mut Effects,
    ) {
        let domain = by.address.domain();
        let room = order.room.chatroom_within(domain);
        let is_ours =
            |room: &AccountAddress| order.verb != Verb::Create || room.is_chatroom_of(domain);
        let is_busy =
            self.pressure >= Pressure::Stores || self.chatrooms.orders.len() >= ORDERS_MAX;
        let fault = order.fault().or(is_busy.then_some(ChatFault::Busy));
        let Some(room) = room.filter(is_ours).filter(|_| fault.is_none()) else {
            let why = fault.unwrap_or(ChatFault::Invalid);
            return self.refuse_chatroom_ask(wait, why, fx);
        };
        let gets_rights = order.verb == Verb::Promote;
        let named: Vec<AccountAddress> =
            order.accounts.iter().map(|it| it.within(domain)).collect();
        let order = Box::new(order);
        let number = self.chatrooms.orders.put(Ordering { wait, by, room, order });
        if gets_rights && let Some(one) = named.first() {
            return self.find_account(now, one, None, Waiter::Chatroom(number), fx);
        }
        let named = named.into_iter().map(|one| (one, None)).collect();
        self.hand_chatroom_order(now, number, named, fx);
    }

    /// Whoever is to get rights is found, or not.
    pub(crate) fn moderator_found(
        &mut self,
        now: Now,
        number: u64,
        (address, id): (&AccountAddress, Result<AccountId, ChatFault>),
        fx: &mut Effects,
    ) {
        match id {
            Ok(id) => {
                let inbox = address.inbox(self.settings.home, id);
                let named = vec![(address.clone(), Some(inbox))];
                self.hand_chatroom_order(now, number, named, fx);
            }
            Err(fault) => self.chatroom_ordered(number, Err(fault), fx),
        }
    }

    fn hand_chatroom_order(
        &mut self,
        now: Now,
        number: u64,
        named: Vec<(AccountAddress, Option<TimelineId>)>,
        fx: &mut Effects,
    ) {
        let Some(it) = self.chatrooms.orders.at(number) else { return };
        let (room, by, order) = (it.room.clone(), it.by.clone(), (*it.order).clone());
        let (_, home) = self.chatroom_at(&room);
        let asked = Box::new(ChatroomAsked { number, room, by, order, named });
        self.tell_chatroom(now, home, ChatroomWord::Order(asked), fx);
    }

    /// The home has answered an order.
    pub(super) fn chatroom_ordered(
        &mut self,
        number: u64,
        result: Result<(), ChatFault>,
        fx: &mut Effects,
    ) {
        let Some(Ordering { wait, .. }) = self.chatrooms.orders.take(number) else { return };
        match result {
            Ok(()) => {
                let told = ChatDelivery::Done { number: wait.number };
                self.answer_session((wait.conn, wait.session), told, fx);
            }
            Err(why) => self.refuse_chatroom_ask(wait, why, fx),
        }
    }

    pub(super) fn refuse_chatroom_ask(
        &mut self,
        wait: Requester,
        why: ChatFault,
        fx: &mut Effects,
    ) {
        fx.counters.count(ChatCounter::ChatroomsRefused);
        let told = ChatDelivery::Failed { number: wait.number, why };
        self.answer_session((wait.conn, wait.session), told, fx);
    }

    /// Orders that were not answered in time; when to look again.
    pub(super) fn turn_chatroom_orders(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let ms_max = self.settings.limits.answer_ms_max;
        let (over, next) = self.chatrooms.orders.overdue(now, ms_max);
        for it in over {
            self.refuse_chatroom_ask(it.wait, ChatFault::Busy, fx);
        }
        next
    }

    /// Some shard wants a chatroom of this one made or changed.
    pub(super) fn order_chatroom(
        &mut self,
        now: Now,
        from: ShardId,
        asked: Box<ChatroomAsked>,
        fx: &mut Effects,
    ) {
        let (timeline, _) = self.chatroom_at(&asked.room);
        let is_there = self.chatrooms.homes.known.contains_key(&timeline);
        if asked.order.verb != Verb::Create || is_there {
            let room = asked.room.clone();
            return self.for_chatroom(now, &room, Task::Order(from, asked), fx);
        }
        if let Err(fault) = self.may_make_chatroom(&asked.by) {
            return self.refuse_chatroom(now, Task::Order(from, asked), fault, fx);
        }
        let row = Arc::new(ChatroomRow::made(&asked.by, &asked.order, self.row_limits()));
        let mut made = Chatroom::new(asked.room.clone(), None);
        made.step = Step::Ready;
        self.chatrooms.homes.known.insert(timeline, made);
        let (number, verb, outs) = (asked.number, Verb::Create, Vec::new());
        let (row, forgets) = (Some(row), false);
        let changing = Changing { from, number, timeline, verb, row, outs, forgets };
        self.write_chatroom(changing, fx);
    }

    fn row_limits(&self) -> RowLimits {
        let limits = &self.settings.limits.chat;
        RowLimits {
            keeps_max: limits.chatroom_keeps_max,
            banned_max: limits.chatroom_banned_max as usize,
        }
    }

    fn may_make_chatroom(&self, by: &By) -> Result<(), ChatFault> {
        let limits = &self.settings.limits.chat;
        let homes = &self.chatrooms.homes.known;
        if !self.log.may_ask() {
            return Err(ChatFault::Busy);
        }
        if homes.len() >= limits.chatrooms_max as usize {
            return Err(ChatFault::ChatroomsFull);
        }
        if by.is_operator {
            return Ok(());
        }
        let is_own = |it: &&Chatroom| it.row.as_ref().is_some_and(|row| row.owner.1 == by.inbox);
        let own = homes.values().filter(is_own).count();
        match limits.chatrooms_an_account_max as usize {
            0 => Err(ChatFault::Forbidden),
            most if own >= most => Err(ChatFault::ChatroomsFull),
            _ => Ok(()),
        }
    }

    /// An order is for a chatroom of this shard that is there.
    pub(super) fn change_chatroom(
        &mut self,
        now: Now,
        (timeline, from): (TimelineId, ShardId),
        row: &ChatroomRow,
        asked: ChatroomAsked,
        fx: &mut Effects,
    ) {
        let ChatroomAsked { number, by, order, named, .. } = asked;
        let verb = order.verb;
        let is_made_again = verb == Verb::Create && row.owner == (by.address.clone(), by.inbox);
        let judged = match is_made_again {
            true => Err(ChatFault::Unchanged),
            false => row.changed(&by, &order, &named, self.row_limits()),
        };
        let judged = judged.and_then(|row| match self.log.may_ask() {
            true => Ok(row),
            false => Err(ChatFault::Busy),
        });
        let row = match judged {
            Ok(row) => Arc::new(row),
            Err(fault) => return self.answer_chatroom(now, (from, number), Err(fault), fx),
        };
        let outs: Vec<_> = named.into_iter().map(|(one, _)| Some(one)).collect();
        match verb {
            Verb::Kick => {
                let is_told = self.out_of_chatroom(now, timeline, (&outs, ChatroomOut::Kicked), fx);
                let result = if is_told { Ok(()) } else { Err(ChatFault::Busy) };
                self.answer_chatroom(now, (from, number), result, fx);
            }
            Verb::Close => {
                let forgets = row.is_kept();
                let (row, outs) = (None, vec![None]);
                let changing = Changing { from, number, timeline, verb, row, outs, forgets };
                self.write_chatroom(changing, fx);
            }
            _ => {
                let (row, forgets) = (Some(row), false);
                let changing = Changing { from, number, timeline, verb, row, outs, forgets };
                self.write_chatroom(changing, fx);
            }
        }
    }

    fn answer_chatroom(
        &mut self,
        now: Now,
        (to, number): (ShardId, u64),
        result: Result<(), ChatFault>,
        fx: &mut Effects,
    ) {
        self.tell_chatroom(now, to, ChatroomWord::Ordered { number, result }, fx);
    }

    fn write_chatroom(&mut self, changing: Changing, fx: &mut Effects) {
        let Some(home) = self.chatrooms.homes.known.get_mut(&changing.timeline) else { return };
        home.step = Step::Changing;
        let at = changing.timeline.home_hash();
        let write = match &changing.row {
            Some(row) => row::put(at, &home.room, row),
            None if changing.forgets => Write::Forget(changing.timeline),
            None => row::delete(at, &home.room),
        };
        let pending = PendingCall::ChatroomChanged(Box::new(changing));
        self.log.ask(pending, Call::Write(write), fx);
    }

    /// The log has a change of a chatroom, or not.
    pub(crate) fn chatroom_changed(
        &mut self,
        now: Now,
        changing: Changing,
        result: Answered,
        fx: &mut Effects,
    ) {
        if changing.forgets && result.is_ok() {
            return self.write_chatroom(Changing { forgets: false, ..changing }, fx);
        }
        let Changing { from, number, timeline, verb, row, outs, .. } = changing;
        let Some(home) = self.chatrooms.homes.known.get_mut(&timeline) else { return };
        home.step = Step::Ready;
        if let Err(error) = result {
            self.answer_chatroom(now, (from, number), Err(fault_of(error)), fx);
            return self.advance_chatroom(now, timeline, fx);
        }
        home.row = row;
        let begins = verb == Verb::Create && home.row.as_ref().is_some_and(|row| row.is_kept());
        if begins {
            home.step = Step::Reading;
        }
        fx.counters.count(ChatCounter::ChatroomChanges);
        let shards = home.shards();
        self.flush_chatroom(now, timeline, fx);
        match verb {
            Verb::Ban => {
                // Whoever is not shown out, for too many are, may say nothing more all the same.
                self.out_of_chatroom(now, timeline, (&outs, ChatroomOut::Banned), fx);
            }
            Verb::Close => {
                self.out_of_chatroom(now, timeline, (&outs, ChatroomOut::Closed), fx);
            }
            // What the log knows of a room of this name that was closed: its last number.
            Verb::Create if begins => self.read_chatroom(timeline, fx),
            Verb::Create | Verb::Mute | Verb::Unmute | Verb::Unban => {}
            _ => self.news_of_chatroom(now, timeline, &shards, fx),
        }
        self.answer_chatroom(now, (from, number), Ok(()), fx);
        self.advance_chatroom(now, timeline, fx);
    }
}
