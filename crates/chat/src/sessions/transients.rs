//! Transients: messages for connected devices, which are not stored.
//!
//! ```text
//! Transient ─► the receiver's account ─► neither has blocked the other ─┐
//!         └──► the group's home ─► its sender may speak there ──────────┤
//!                                  the inboxes' shards ◄────────────────┘ ─► connected
//!              devices, in a group those of members who have not blocked the sender
//! ```
//! A transient that may not be delivered is dropped: that is counted, and reported to the session
//! if the transient has a number. A receiver without a connected device is no such case.
//! Invariants: no transient is written to a log; a session may send a limited number per minute; a
//! numbered transient is answered once.

use crate::groups::{self, GroupTask};
use crate::people::Task;
use crate::service::flow::Flow;
use crate::sessions::detached::weight_of;
use crate::sessions::{Asker, Requester};
use crate::word::{ChatWord, PeerReply, PeerRequest, ReplyTo};
use crate::{Chat, Effects};
use base::encoding::Encoding;
use base::time::Now;
use model::chat::{ChatDelivery, ChatFault, Content, NewTransient, SendRejected, Transient};
use model::counters::ChatCounter;
use model::id::{ConnRef, SessionRef};
use model::pressure::Pressure;
use model::timeline::TimelineId;
use std::sync::Arc;

/// Number of transients that a session has sent in the present minute.
#[derive(Clone, Copy, Default)]
pub(crate) struct ToldThisMinute {
    /// The lowest bits of the minute's number.
    minute: u16,
    count: u16,
}

impl ToldThisMinute {
    /// Whether one more transient may be sent; if so, it is counted.
    pub(crate) fn takes(&mut self, now: Now, most: u16) -> bool {
        let minute = (now.mono.nanos() / 60_000_000_000) as u16;
        if self.minute != minute {
            *self = ToldThisMinute { minute, count: 0 };
        }
        let may = self.count < most;
        self.count += u16::from(may);
        may
    }

    /// Milliseconds until the next minute begins.
    fn next_ms(now: Now) -> u32 {
        60_000 - (now.mono.nanos() / 1_000_000 % 60_000) as u32
    }
}

/// A transient for a group, on its way to the group's home.
#[derive(Debug, Encoding)]
pub struct TransientSaid {
    /// The inbox of the sender.
    pub(crate) by: TimelineId,
    /// The flow that is answered; none: no answer is wanted.
    pub(crate) to: Option<ReplyTo>,
    pub(crate) transient: Arc<Transient>,
}

/// A transient on its way to the shards of accounts, for their devices.
#[derive(Debug, Encoding)]
pub struct TransientTold {
    pub(crate) to: Box<[TimelineId]>,
    pub(crate) transient: Arc<Transient>,
}

impl TransientSaid {
    /// Approximate memory, bytes.
    pub(crate) fn weight(&self) -> usize {
        size_of::<TransientSaid>() + self.transient.weight()
    }
}

/// A delivery for XMPP devices that is not stored, on its way to their shards.
#[derive(Debug, Encoding)]
pub struct BoundTold {
    to: Box<[TimelineId]>,
    delivery: ChatDelivery,
}

impl BoundTold {
    /// Approximate memory, bytes.
    pub(crate) fn weight(&self) -> usize {
        size_of::<BoundTold>() + size_of_val(&*self.to) + weight_of(&self.delivery) as usize
    }
}

impl TransientTold {
    /// Approximate memory, bytes.
    pub(crate) fn weight(&self) -> usize {
        size_of::<TransientTold>() + size_of_val(&*self.to) + self.transient.weight()
    }
}

/// Sends a transient to another account, or to a group.
async fn tell(mut flow: Flow, wait: Requester, inbox: TimelineId, transient: Arc<Transient>) {
    if transient.to.is_group() {
        let conversation = groups::conversation_of(flow.state().0.settings.home, &transient.to);
        let home = flow.state().0.settings.shard_at(conversation);
        let said = Box::new(TransientSaid { by: inbox, to: None, transient });
        let result = flow.request(home, PeerRequest::Transient(said)).await.map(|_| ());
        let (chat, _, fx) = flow.state();
        return chat.answer_handed(wait, result, fx);
    }
    let result = tell_account(&mut flow, inbox, &transient).await;
    let (chat, _, fx) = flow.state();
    match result {
        Ok(()) => chat.answer_handed(wait, Ok(()), fx),
        Err(why) => chat.drop_transient(wait, why, fx),
    }
}

async fn tell_account(
    flow: &mut Flow,
    inbox: TimelineId,
    transient: &Arc<Transient>,
) -> Result<(), ChatFault> {
    let (bytes, other) = (transient.weight(), &transient.to);
    let id = flow.account(other, bytes).await?;
    let to = other.inbox(flow.state().0.settings.home, id);
    flow.contacts((inbox, &transient.from), bytes).await?;
    let (chat, now, fx) = flow.state();
    if let Some(why) = chat.is_barred(inbox, (other, to)) {
        return Err(why);
    }
    chat.tell_transient(now, &[to], transient, fx);
    Ok(())
}

impl Chat {
    /// Handles a device's transient.
    pub(crate) fn transient(
        &mut self,
        now: Now,
        from: ConnRef,
        (session, number): (SessionRef, u32),
        new: NewTransient,
        fx: &mut Effects,
    ) {
        let Some(asker) = self.asker(from, session) else { return };
        let wait = match number {
            0 => Requester::NOBODY,
            number => Requester { conn: from, session, number },
        };
        if let Some(fault) = self.may_not_tell(now, &asker, &new) {
            return self.drop_transient(wait, fault, fx);
        }
        let most = self.settings.limits.chat.transients_a_minute_max;
        let Some((_, it)) = self.sessions.session_of((from, session)) else {
            return self.drop_transient(wait, ChatFault::Busy, fx);
        };
        if !it.told.takes(now, most) {
            return self.drop_beyond_rate(now, wait, fx);
        }
        fx.counters.count(ChatCounter::Transients);
        let NewTransient { to, state, content } = new;
        let to = to.within(asker.address.domain());
        let nick = self.nick_in(from, session, (&to, &asker.address));
        let content = Content { nick, ..content.without_others() };
        let Asker { inbox, address: from, device, .. } = asker;
        let transient = Arc::new(Transient { from, device, to: to.clone(), state, content });
        if number == 0 && to.is_group() {
            // No answer is wanted.
            let said = Box::new(TransientSaid { by: inbox, to: None, transient });
            let owner = self.settings.shard_at(groups::conversation_of(self.settings.home, &to));
            return match owner == self.settings.shard {
                true => self.transient_in_group(now, *said, fx),
                false => fx.peer_messages.push((owner, ChatWord::TransientSaid(said))),
            };
        }
        if !self.begin(|flow| tell(flow, wait, inbox, transient)) {
            self.drop_transient(wait, ChatFault::Busy, fx);
        }
    }

    /// The reason why an account may not send this transient.
    fn may_not_tell(&self, now: Now, asker: &Asker, new: &NewTransient) -> Option<ChatFault> {
        if self.mutes.until(now, &asker.address) > 0 {
            return Some(ChatFault::Silenced); // an operator's mute holds here too
        }
        let bytes_max = self.settings.limits.chat.transient_bytes_max as usize;
        let is_large = (new.bytes() > bytes_max).then_some(ChatFault::TooLarge);
        let is_wrong = !new.says() || new.content.is_reserved();
        let is_busy = (self.pressure >= Pressure::Stores).then_some(ChatFault::Busy);
        is_wrong.then_some(ChatFault::Invalid).or(is_large).or(is_busy)
    }

    /// Drops a transient, and answers a session that waits with the reason.
    fn drop_transient(&mut self, wait: Requester, why: ChatFault, fx: &mut Effects) {
        fx.counters.count(ChatCounter::TransientsDropped);
        self.answer_handed(wait, Err(why), fx);
    }

    /// Drops a transient beyond the limit per minute.
    fn drop_beyond_rate(&mut self, now: Now, wait: Requester, fx: &mut Effects) {
        fx.counters.count(ChatCounter::TransientsDropped);
        if wait == Requester::NOBODY {
            return;
        }
        let Requester { conn, session, number } = wait;
        let rejected = SendRejected {
            number,
            why: ChatFault::RateLimited,
            reason: "more in a minute than a device may tell others".into(),
            retry_after_ms: ToldThisMinute::next_ms(now),
        };
        self.answer_session((conn, session), ChatDelivery::Rejected(Box::new(rejected)), fx);
    }

    /// Handles a transient for a group whose home is this shard.
    pub(crate) fn transient_in_group(&mut self, now: Now, said: TransientSaid, fx: &mut Effects) {
        let conversation = groups::conversation_of(self.settings.home, &said.transient.to);
        self.for_group(now, conversation, GroupTask::Transient(said), fx);
    }

    /// Sends a transient to the members of its group, or drops it if the sender may not speak
    /// there.
    pub(crate) fn transient_to_members(
        &mut self,
        now: Now,
        said: &TransientSaid,
        members: Result<Arc<[TimelineId]>, ChatFault>,
        fx: &mut Effects,
    ) {
        let most = self.settings.limits.chat.transient_members_max as usize;
        let is_small = |all: Arc<[TimelineId]>| {
            let is_small = all.len() <= most;
            is_small.then_some(all).ok_or(ChatFault::TooLarge)
        };
        let result = members.and_then(is_small).map(|members| {
            let others: Vec<_> = members.iter().copied().filter(|it| *it != said.by).collect();
            self.tell_transient(now, &others, &said.transient, fx);
            let home = self.settings.home;
            let conversation = groups::conversation_of(home, &said.transient.to);
            self.transient_to_strangers((conversation, said.by), &said.transient, fx);
        });
        if result.is_err() {
            fx.counters.count(ChatCounter::TransientsDropped);
        }
        if let Some(to) = said.to {
            self.reply(to, result.map(|()| PeerReply::Done), fx);
        }
    }

    /// Sends a transient to the shards of these inboxes.
    fn tell_transient(
        &mut self,
        now: Now,
        to: &[TimelineId],
        transient: &Arc<Transient>,
        fx: &mut Effects,
    ) {
        for (shard, to) in self.settings.by_shard(to.iter().copied()) {
            let told = TransientTold { to: to.into(), transient: transient.clone() };
            if shard == self.settings.shard {
                self.transient_told(now, &told, fx);
            } else {
                fx.peer_messages.push((shard, ChatWord::TransientTold(Box::new(told))));
            }
        }
    }

    /// Delivers a transient to accounts of this shard. Blocks between two accounts have been
    /// checked by the sender's home; in a group each member's home checks its own.
    pub(crate) fn transient_told(&mut self, now: Now, told: &TransientTold, fx: &mut Effects) {
        let TransientTold { to, transient } = told;
        for &inbox in to {
            let Some(online) = self.sessions.online.get(&inbox) else { continue };
            if !transient.to.is_group() || online.address == transient.from {
                self.transient_reaches(inbox, transient, fx);
                continue;
            }
            let address = online.address.clone();
            let task = Task::Heard(transient.clone());
            self.for_person(now, (inbox, &address), task, fx);
        }
    }

    /// Delivers a transient of a group to a member, unless the member has blocked the sender.
    pub(crate) fn transient_heard(
        &mut self,
        inbox: TimelineId,
        transient: &Arc<Transient>,
        fx: &mut Effects,
    ) {
        match self.people.blocks(inbox, &transient.from) {
            true => fx.counters.count(ChatCounter::TransientsDropped),
            false => self.transient_reaches(inbox, transient, fx),
        }
    }

    /// Delivers a transient to an account's connected devices, except the one that sent it.
    fn transient_reaches(
        &mut self,
        inbox: TimelineId,
        transient: &Arc<Transient>,
        fx: &mut Effects,
    ) {
        let Some(online) = self.sessions.online.get(&inbox) else { return };
        let is_own = online.address == transient.from;
        for &key in &online.sessions {
            let Some(session) = self.sessions.slab.at(key) else { continue };
            if !(is_own && *session.device == *transient.device) {
                fx.counters.count(ChatCounter::TransientsDelivered);
                let delivery = ChatDelivery::Transient(transient.clone());
                fx.deliveries.push((session.conn, delivery));
            }
        }
    }

    /// Sends a delivery to the XMPP devices of these accounts, at their shards; other protocols
    /// have no such message.
    pub(crate) fn tell_bound(
        &self,
        to: impl IntoIterator<Item = TimelineId>,
        delivery: &ChatDelivery,
        fx: &mut Effects,
    ) {
        for (shard, to) in self.settings.by_shard(to) {
            let told = BoundTold { to: to.into(), delivery: delivery.clone() };
            if shard == self.settings.shard {
                self.bound_told(&told, fx);
            } else {
                fx.peer_messages.push((shard, ChatWord::BoundTold(Box::new(told))));
            }
        }
    }

    /// Sends a delivery to the connected XMPP devices of accounts of this shard.
    pub(crate) fn bound_told(&self, told: &BoundTold, fx: &mut Effects) {
        let BoundTold { to, delivery } = told;
        for inbox in to {
            let Some(online) = self.sessions.online.get(inbox) else { continue };
            let sessions = online.sessions.iter().filter_map(|key| self.sessions.slab.at(*key));
            for session in sessions.filter(|it| it.binds) {
                fx.counters.count(ChatCounter::TransientsDelivered);
                fx.deliveries.push((session.conn, delivery.clone()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::time::Instant;
    use std::time::Duration;

    #[test]
    fn a_session_tells_as_many_in_a_minute_as_it_may_and_then_some_again() {
        let mut told = ToldThisMinute::default();
        let at = |s| Now::new(Instant::default() + Duration::from_secs(s), 0);
        let mut taken = |s: u64| told.takes(at(s), 3);
        assert_eq!([1, 2, 59, 59, 59].map(&mut taken), [true, true, true, false, false]);
        assert_eq!([60, 61, 119, 119].map(&mut taken), [true, true, true, false]);
        assert!(!told.takes(at(1_000), 0));
    }
}
