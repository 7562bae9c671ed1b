//! Orders: a chatroom is made, changed or closed, or accounts are removed from it.
//!
//! ```text
//! device ─► Order ─► new moderator is found ─► home: allowed? ─► row ─► reported, answered
//! ```
//! Invariant: an order is answered once; an answered change holds over a restart.

use super::home::{Chatroom, Step, Task};
use super::row::{self, By, ChatroomRow, RowLimits};
use super::words::ChatroomAsked;
use crate::accounts::{FOUND_BYTES, fault_of};
use crate::service::flow::Flow;
use crate::sessions::Requester;
use crate::word::{PeerReply, PeerRequest, ReplyTo};
use crate::{Chat, Effects};
use base::time::Now;
use model::account::AccountAddress;
use model::chat::{ChatDelivery, ChatFault, ChatroomOrder, ChatroomOut, ChatroomVerb as Verb};
use model::counters::ChatCounter;
use model::ports::log::{Call, Write};
use model::pressure::Pressure;
use model::timeline::TimelineId;
use std::sync::Arc;

/// Maximum of orders under way, per shard. A further one is answered as busy.
const ORDERS_MAX: usize = 4_096;

/// A change of a chatroom that the log is storing.
struct Changing {
    to: ReplyTo,
    timeline: TimelineId,
    verb: Verb,
    /// The row after the change; none: the room is closed.
    row: Option<Arc<ChatroomRow>>,
    /// The accounts that are to leave.
    outs: Vec<Option<AccountAddress>>,
    /// The room's messages are deleted first, if the log has them.
    forgets: bool,
}

/// Carries out a device's order to make or change a chatroom.
async fn order(mut flow: Flow, wait: Requester, by: By, order: ChatroomOrder) {
    flow.state().0.chatrooms.orders += 1;
    let result = carry_out(&mut flow, by, order).await;
    let (chat, _, fx) = flow.state();
    chat.chatrooms.orders -= 1;
    match result {
        Ok(()) => {
            let told = ChatDelivery::Done { number: wait.number };
            chat.answer_session((wait.conn, wait.session), told, fx);
        }
        Err(why) => chat.refuse_chatroom_ask(wait, why, fx),
    }
}

async fn carry_out(flow: &mut Flow, by: By, order: ChatroomOrder) -> Result<(), ChatFault> {
    let (chat, _, _) = flow.state();
    let is_busy = chat.pressure >= Pressure::Stores || chat.chatrooms.orders > ORDERS_MAX;
    if let Some(fault) = order.fault().or(is_busy.then_some(ChatFault::Busy)) {
        return Err(fault);
    }
    let domain = by.address.domain();
    let is_ours = |room: &AccountAddress| order.verb != Verb::Create || room.is_chatroom_of(domain);
    let room = order.room.chatroom_within(domain).filter(is_ours).ok_or(ChatFault::Invalid)?;
    let named = order.accounts.iter().map(|it| (it.within(domain), None));
    let mut named: Vec<(AccountAddress, Option<TimelineId>)> = named.collect();
    if order.verb == Verb::Promote
        && let Some((one, inbox)) = named.first_mut()
    {
        let id = flow.account(one, FOUND_BYTES).await?;
        *inbox = Some(one.inbox(flow.state().0.settings.home, id));
        named.truncate(1);
    }
    let (_, home) = flow.state().0.chatroom_at(&room);
    let asked = Box::new(ChatroomAsked { room, by, order, named });
    flow.request(home, PeerRequest::Chatroom(asked)).await.map(|_| ())
}

/// Stores a change of a chatroom of this shard, and then applies it.
async fn change(mut flow: Flow, changing: Changing) {
    let stored = store(&mut flow, &changing).await;
    let (chat, now, fx) = flow.state();
    chat.chatroom_changed(now, changing, stored, fx);
}

async fn store(flow: &mut Flow, changing: &Changing) -> Result<(), ChatFault> {
    let (timeline, at) = (changing.timeline, changing.timeline.home_hash());
    if changing.forgets {
        flow.log(Call::Write(Write::Forget(timeline))).await.map_err(fault_of)?;
    }
    let homes = &flow.state().0.chatrooms.homes.known;
    let room = &homes.get(&timeline).ok_or(ChatFault::StoreFailed)?.room;
    let write = match &changing.row {
        Some(row) => row::put(at, room, row),
        None => row::delete(at, room),
    };
    flow.log(Call::Write(write)).await.map_err(fault_of).map(|_| ())
}

impl Chat {
    /// Takes a device's order to make or change a chatroom.
    pub(super) fn chatroom_order(
        &mut self,
        (wait, by): (Requester, By),
        of: ChatroomOrder,
        fx: &mut Effects,
    ) {
        if !self.begin(|flow| order(flow, wait, by, of)) {
            self.refuse_chatroom_ask(wait, ChatFault::Busy, fx);
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

    /// Takes an order of some shard to make or change a chatroom of this one.
    pub(crate) fn order_chatroom(
        &mut self,
        now: Now,
        to: ReplyTo,
        asked: Box<ChatroomAsked>,
        fx: &mut Effects,
    ) {
        let (timeline, _) = self.chatroom_at(&asked.room);
        let is_there = self.chatrooms.homes.known.contains_key(&timeline);
        if asked.order.verb != Verb::Create || is_there {
            let room = asked.room.clone();
            return self.for_chatroom(now, &room, Task::Order(to, asked), fx);
        }
        if let Err(fault) = self.may_make_chatroom(&asked.by) {
            return self.reply(to, Err(fault), fx);
        }
        let row = Arc::new(ChatroomRow::made(&asked.by, &asked.order, self.row_limits()));
        let mut made = Chatroom::new(asked.room.clone(), None);
        made.step = Step::Ready;
        self.chatrooms.homes.known.insert(timeline, made);
        let (verb, row, outs, forgets) = (Verb::Create, Some(row), Vec::new(), false);
        self.write_chatroom(Changing { to, timeline, verb, row, outs, forgets });
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
        if !self.log.may_ask() || self.flows.is_full() {
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

    /// Takes an order for an existing chatroom of this shard.
    pub(super) fn change_chatroom(
        &mut self,
        now: Now,
        (timeline, to): (TimelineId, ReplyTo),
        row: &ChatroomRow,
        asked: ChatroomAsked,
        fx: &mut Effects,
    ) {
        let ChatroomAsked { by, order, named, .. } = asked;
        let verb = order.verb;
        let is_made_again = verb == Verb::Create && row.owner == (by.address.clone(), by.inbox);
        let judged = match is_made_again {
            true => Err(ChatFault::Unchanged),
            false => row.changed(&by, &order, &named, self.row_limits()),
        };
        let may_write = self.log.may_ask() && !self.flows.is_full();
        let judged = judged.and_then(|row| if may_write { Ok(row) } else { Err(ChatFault::Busy) });
        let row = match judged {
            Ok(row) => Arc::new(row),
            Err(fault) => return self.reply(to, Err(fault), fx),
        };
        let outs: Vec<_> = named.into_iter().map(|(one, _)| Some(one)).collect();
        match verb {
            Verb::Kick => {
                let is_told = self.out_of_chatroom(now, timeline, (&outs, ChatroomOut::Kicked), fx);
                let result = if is_told { Ok(PeerReply::Done) } else { Err(ChatFault::Busy) };
                self.reply(to, result, fx);
            }
            Verb::Close => {
                let forgets = row.is_kept();
                let (row, outs) = (None, vec![None]);
                self.write_chatroom(Changing { to, timeline, verb, row, outs, forgets });
            }
            _ => {
                let (row, forgets) = (Some(row), false);
                self.write_chatroom(Changing { to, timeline, verb, row, outs, forgets });
            }
        }
    }

    /// Stores a change; until it is stored, or refused, other tasks for the room wait.
    fn write_chatroom(&mut self, changing: Changing) {
        let Some(home) = self.chatrooms.homes.known.get_mut(&changing.timeline) else { return };
        home.step = Step::Changing;
        self.begin(|flow| change(flow, changing));
    }

    /// Takes the log's result for a change of a chatroom.
    fn chatroom_changed(
        &mut self,
        now: Now,
        changing: Changing,
        stored: Result<(), ChatFault>,
        fx: &mut Effects,
    ) {
        let Changing { to, timeline, verb, row, outs, .. } = changing;
        let Some(home) = self.chatrooms.homes.known.get_mut(&timeline) else { return };
        home.step = Step::Ready;
        if let Err(fault) = stored {
            self.reply(to, Err(fault), fx);
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
                // A banned account that too many others keep from being removed may not send
                // messages all the same.
                self.out_of_chatroom(now, timeline, (&outs, ChatroomOut::Banned), fx);
            }
            Verb::Close => {
                self.out_of_chatroom(now, timeline, (&outs, ChatroomOut::Closed), fx);
            }
            // The log has the last number of a closed room of this name.
            Verb::Create if begins => self.read_chatroom(timeline, fx),
            Verb::Create | Verb::Mute | Verb::Unmute | Verb::Unban => {}
            _ => self.news_of_chatroom(now, timeline, &shards, fx),
        }
        self.reply(to, Ok(PeerReply::Done), fx);
        self.advance_chatroom(now, timeline, fx);
    }
}
