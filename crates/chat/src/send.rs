//! Send: a message is stored in its conversation, then answered.
//!
//! The sender's shard finds the receiver and hands the message to the shard where the conversation
//! is at home; that one stores it there and in its outbox by one write, answers, and has it put
//! into the inboxes ([`outbox`](crate::outbox)). Whoever sends a message again gets the first
//! answer.
//! Invariant: an answer that says "sent" is given when the message is on stable storage; who waits
//! for one that does not come is told so in time.

use crate::accounts::{Waiter, fault_of};
use crate::envelope::{self, Sender, time_of};
use crate::groups::orders::Ordered;
use crate::groups::{self, GroupTask};
use crate::label::Route;
use crate::log::{Answered, PendingCall};
use crate::operators::moving::Arriving;
use crate::operators::rates::{BESIDE_BYTES, Storer, Used};
use crate::operators::reviews::Held;
use crate::outbox::Storing;
use crate::outbox::receivers::Receivers;
use crate::people::Task;
use crate::sessions::{Asker, Requester};
use crate::word::{Cargo, ChatWord, Moved, StoreOrder, StoredMessage};
use crate::{Chat, Effects, Settings};
use base::hash::HashKey;
use base::time::{Instant, Now};
use model::account::{AccountAddress, AccountId};
use model::chat::{
    ChatDelivery, ChatFault, Content, GroupChange, Mentions, NewMessage, SendRejected, emoji_of,
};
use model::counters::ChatCounter;
use model::id::{ConnRef, MessageId, SessionRef, ShardId};
use model::latency::{Began, LatencyPhase};
use model::ports::events::{ChatEvent, ChatWhat};
use model::ports::log::{Append, AppendWith, Call, Done, OnceKey, Write};
use model::pressure::Pressure;
use model::timeline::{Message, Space, TimelineId};
use std::sync::Arc;

/// Sends that may wait for another shard or the log, a shard. One more is answered as busy.
pub(crate) const SENDS_MAX: usize = 262_144;

/// A message whose receiver is being found.
pub(crate) struct Sending {
    wait: Requester,
    asker: Asker,
    message: Box<NewMessage>,
}

/// Who waits for a message to be stored.
pub(crate) struct StoreWait {
    pub(crate) wait: Requester,
    /// The change of a group that it tells of, and what follows it.
    pub(crate) group: Option<Box<Ordered>>,
}

/// Why a message is not taken, with what its sender is told.
pub(crate) struct Rejected {
    pub(crate) why: ChatFault,
    pub(crate) reason: Box<str>,
    pub(crate) retry_after_ms: u32,
}

impl Rejected {
    /// It may not be said.
    pub(crate) fn because(reason: &str) -> Rejected {
        Rejected { why: ChatFault::Rejected, reason: reason.into(), retry_after_ms: 0 }
    }
}

/// What an account is told that says too much at once.
pub(crate) fn too_fast(retry_after_ms: u32) -> Rejected {
    let reason = "too many messages at once".into();
    Rejected { why: ChatFault::RateLimited, reason, retry_after_ms }
}

/// What a muted account is told.
fn silenced(now: Now, until_s: u32) -> Rejected {
    let left_s = until_s.saturating_sub(now.unix_s());
    let reason = format!("an operator has muted this account for another {left_s} s");
    let retry_after_ms = left_s.saturating_mul(1_000);
    Rejected { why: ChatFault::Silenced, reason: reason.into(), retry_after_ms }
}

const _: () = assert!(size_of::<StoreWait>() <= 32, "of each message that is on its way");

impl Sending {
    /// Approximate memory, bytes.
    pub(crate) fn weight(&self) -> usize {
        size_of::<Sending>() + self.message.weight()
    }
}

impl Chat {
    /// A device says something.
    pub(crate) fn send(
        &mut self,
        now: Now,
        from: ConnRef,
        (session, number): (SessionRef, u32),
        mut message: Box<NewMessage>,
        fx: &mut Effects,
    ) {
        let Some(asker) = self.asker(from, session) else { return };
        let wait = Requester { conn: from, session, number };
        message.content = of_others(message.content, asker.address.domain());
        if let Some(fault) = self.may_not_send(&message) {
            return self.answer_send(wait, Err(fault), fx);
        }
        let to = message.to.within(asker.address.domain());
        // Of what is said in a chatroom nothing becomes something else.
        let is_about = message.content.is_amendment() || message.content.quote.is_some();
        if to.is_chatroom() && is_about {
            return self.answer_send(wait, Err(ChatFault::Invalid), fx);
        }
        let held = Held { wait, asker, to, message, is_changed: false };
        if held.asker.is_operator {
            return self.send_on(now, held, fx);
        }
        match self.moderate(now, held, fx) {
            Ok(held) => self.review(now, held, fx),
            Err((wait, rejected)) => self.reject_send(wait, rejected, fx),
        }
    }

    /// Whether an account is muted or being erased, be it since it said this.
    pub(crate) fn may_still_say(
        &mut self,
        now: Now,
        held: Held,
        fx: &mut Effects,
    ) -> Result<Held, (Requester, Rejected)> {
        let until_s = self.mutes.until(now, &held.asker.address);
        if until_s > 0 {
            fx.counters.count(ChatCounter::Silenced);
            return Err((held.wait, silenced(now, until_s)));
        }
        if self.erasures.has(held.asker.inbox) {
            return Err((held.wait, Rejected::because("this account is being erased")));
        }
        Ok(held)
    }

    /// Whether an account may have so many bytes stored now; they are taken of its rate.
    pub(crate) fn may_store(
        &mut self,
        now: Now,
        asker: &Asker,
        bytes: u64,
        fx: &mut Effects,
    ) -> Result<(), Rejected> {
        let Asker { inbox, address, source, is_operator, .. } = asker;
        if *is_operator {
            return Ok(());
        }
        let is_foreign = self.settings.is_foreign(address);
        let storer = Storer { inbox: *inbox, address, is_foreign, source: *source };
        self.byte_rates.take(now, storer, bytes).map_err(|(used, retry_after_ms)| {
            fx.counters.count(match used {
                Used::Account => ChatCounter::BytesOfAccount,
                Used::Source => ChatCounter::BytesOfSource,
                Used::Domain => ChatCounter::BytesOfDomain,
            });
            let reason = match used {
                Used::Account => "this account stores too many bytes at once",
                Used::Source => "accounts of this address store too many bytes at once",
                Used::Domain => "accounts of this domain store too many bytes at once",
            };
            Rejected { why: ChatFault::RateLimited, reason: reason.into(), retry_after_ms }
        })
    }

    /// What an account says is held against mutes, rates and words.
    fn moderate(
        &mut self,
        now: Now,
        held: Held,
        fx: &mut Effects,
    ) -> Result<Held, (Requester, Rejected)> {
        let mut held = self.may_still_say(now, held, fx)?;
        if let Err(retry_after_ms) = self.account_rates.take(now, held.asker.inbox, 1) {
            fx.counters.count(ChatCounter::RateLimited);
            return Err((held.wait, too_fast(retry_after_ms)));
        }
        let bytes = held.message.content.weight() as u64 + BESIDE_BYTES;
        if let Err(rejected) = self.may_store(now, &held.asker, bytes, fx) {
            return Err((held.wait, rejected));
        }
        let found = self.settings.words.list().look(&held.message.content.text);
        if found.refused {
            fx.counters.count(ChatCounter::WordsRefused);
            let reason = "it has a word that may not be said here";
            return Err((held.wait, Rejected::because(reason)));
        }
        if let Some(text) = found.replaced {
            fx.counters.count(ChatCounter::WordsReplaced);
            held.message.content.text = text.into();
            held.is_changed = true;
        }
        if found.flagged {
            fx.counters.count(ChatCounter::WordsFlagged);
            let (from, to) = (held.asker.address.clone(), held.to.clone());
            let what = ChatWhat::Flagged { from, to, client_id: held.message.client_id };
            fx.tell(ChatEvent { at_ms: now.wall_ms, what });
        }
        Ok(held)
    }

    /// Nothing stands in the way of a message any more, as far as its sender is concerned.
    pub(crate) fn send_on(&mut self, now: Now, held: Held, fx: &mut Effects) {
        if held.to.is_chatroom() {
            return self.say_in_chatroom(now, held, fx);
        }
        let Held { wait, asker, to, message, is_changed } = held;
        if !is_changed {
            // Who has said something else than what stands there is sent that.
            self.sessions.says((wait.conn, wait.session), message.client_id, to.is_group());
        }
        if to.is_group() {
            let mentions = message.content.mentions.as_deref();
            let names_any = mentions.is_some_and(|it| !it.accounts.is_empty());
            // What was said behind such a one waits for it.
            if !asker.is_operator && (names_any || self.people.is_waited_for(asker.inbox)) {
                let sending = Box::new(Sending { wait, asker, message });
                return self.mentions_in_group(now, sending, to, fx);
            }
            return self.say_in_group(now, (wait, &asker), (&to, &message), fx);
        }
        let sending = Box::new(Sending { wait, asker, message });
        self.find_account(now, &to, None, Waiter::Send(sending), fx);
    }

    /// Something is said in a group that mentions somebody: whoever has blocked its sender is not
    /// mentioned by it, which the sender's home knows.
    fn mentions_in_group(
        &mut self,
        now: Now,
        sending: Box<Sending>,
        group: AccountAddress,
        fx: &mut Effects,
    ) {
        let (inbox, address) = (sending.asker.inbox, sending.asker.address.clone());
        let conversation = groups::conversation_of(self.settings.home, &group);
        self.outbox.takes(sending.weight());
        let task = Task::Send(sending, Box::new((group, conversation)));
        self.for_person(now, (inbox, &address), task, fx);
    }

    /// The same, when what the sender has of others is known.
    pub(crate) fn mentions_known(
        &mut self,
        now: Now,
        sending: Sending,
        group: &AccountAddress,
        fx: &mut Effects,
    ) {
        let Sending { wait, asker, mut message } = sending;
        let content = &mut message.content;
        content.mentions = content.mentions.take().and_then(|mut it| {
            it.accounts.retain(|one| !self.people.is_barred_by(asker.inbox, &one.within("")));
            Mentions::of(it.accounts, it.everybody)
        });
        self.say_in_group(now, (wait, &asker), (group, &message), fx);
    }

    fn say_in_group(
        &mut self,
        now: Now,
        (wait, asker): (Requester, &Asker),
        (group, message): (&AccountAddress, &NewMessage),
        fx: &mut Effects,
    ) {
        let conversation = groups::conversation_of(self.settings.home, group);
        let route = Route { from: asker.inbox, to: None, conversation, read: None };
        self.order_storing(now, (wait, asker), route, (group, message), fx);
    }

    fn may_not_send(&self, message: &NewMessage) -> Option<ChatFault> {
        let is_busy = self.sends.len() >= SENDS_MAX || self.pressure >= Pressure::Stores;
        self.may_not_say(&message.content).or(is_busy.then_some(ChatFault::Busy))
    }

    /// Why nobody may say this.
    pub(crate) fn may_not_say(&self, content: &Content) -> Option<ChatFault> {
        let limits = &self.settings.limits.chat;
        let is_empty = content.text.is_empty() && content.extra.is_empty();
        let mentions_max = usize::from(limits.mentions_a_message_max);
        let is_wrong = match content.kind {
            Content::REACTION => {
                let emoji = emoji_of(&content.text, limits.emoji_a_person_max);
                content.target().is_none() || emoji.is_none()
            }
            Content::EDIT => content.target().is_none() || content.text.is_empty(),
            _ => is_empty || content.is_reserved(),
        };
        if is_wrong {
            Some(ChatFault::Invalid)
        } else if content.text.len() > limits.text_bytes_max as usize
            || content.beside_bytes() > limits.extra_bytes_max as usize
            || content.mentions.as_deref().is_some_and(|it| it.accounts.len() > mentions_max)
        {
            Some(ChatFault::TooLarge)
        } else {
            None
        }
    }

    /// The receiver of a message is known, or why not.
    pub(crate) fn receiver_found(
        &mut self,
        now: Now,
        sending: Sending,
        (receiver, id): (&AccountAddress, Result<AccountId, ChatFault>),
        fx: &mut Effects,
    ) {
        let id = match id {
            Ok(id) => id,
            Err(fault) => return self.refuse_send(sending, fault, fx),
        };
        let to = receiver.inbox(self.settings.home, id);
        if sending.asker.is_operator {
            return self.send_to(now, sending, (receiver, to), fx);
        }
        let (inbox, address) = (sending.asker.inbox, sending.asker.address.clone());
        self.outbox.takes(sending.weight());
        let task = Task::Send(Box::new(sending), Box::new((receiver.clone(), to)));
        self.for_person(now, (inbox, &address), task, fx);
    }

    /// A message that waited to be sent is not.
    pub(crate) fn refuse_send(&mut self, sending: Sending, fault: ChatFault, fx: &mut Effects) {
        self.answer_send(sending.wait, Err(fault), fx);
    }

    /// Nothing stands between the sender of a message and its receiver.
    pub(crate) fn send_to(
        &mut self,
        now: Now,
        sending: Sending,
        (receiver, to): (&AccountAddress, TimelineId),
        fx: &mut Effects,
    ) {
        let Sending { wait, asker, message } = sending;
        let conversation = conversation_of(self.settings.home, asker.inbox, to);
        let route = Route { from: asker.inbox, to: Some(to), conversation, read: None };
        self.order_storing(now, (wait, &asker), route, (receiver, &message), fx);
    }

    /// The shard of a conversation is asked to store a message.
    fn order_storing(
        &mut self,
        now: Now,
        (wait, asker): (Requester, &Asker),
        route: Route,
        (to, message): (&AccountAddress, &NewMessage),
        fx: &mut Effects,
    ) {
        let once = self.settings.home.of(&[&asker.inbox.to_bytes(), &message.client_id.0]);
        let sender = Sender { address: &asker.address, device: &asker.device };
        let body = envelope::encode(sender, to, message);
        let began = Began::at(now);
        let number = self.sends.put_since(began, StoreWait { wait, group: None });
        let (is_operator, change, about) = (asker.is_operator, None, None);
        let moved = None;
        let order = StoreOrder { number, route, once, is_operator, body, change, about, moved };
        self.hand_to_conversation(now, order, fx);
    }

    pub(crate) fn hand_to_conversation(&mut self, now: Now, order: StoreOrder, fx: &mut Effects) {
        let owner = self.settings.shard_at(order.route.conversation);
        if owner == self.settings.shard {
            self.store(now, owner, order, fx);
        } else {
            fx.peer_messages.push((owner, ChatWord::Store(Box::new(order))));
        }
    }

    /// A message is to be stored, for a sender on some shard.
    pub(crate) fn store(&mut self, now: Now, from: ShardId, order: StoreOrder, fx: &mut Effects) {
        let number = order.number;
        let ends = envelope::kind_of(&order.body) == Content::RECALL;
        let fault = self.outbox.fault(self.settings.undistributed_max(), ends);
        let is_behind = self.moving.contains(&order.route.conversation);
        let is_busy = is_behind || !self.log.may_ask();
        if let Some(fault) = fault.or(is_busy.then_some(ChatFault::Busy)) {
            return self.tell_stored(from, number, Err(fault), fx);
        }
        if order.about.is_none() && order.moved.is_none() && !self.has_share(now, &order) {
            fx.counters.count(ChatCounter::ShareFull);
            return self.tell_stored(from, number, Err(ChatFault::StoreFull), fx);
        }
        if let Some(Moved::Between(_)) = order.moved {
            let (change, receivers) = (None, order.route.inboxes().into());
            return self.looks_at_last(Arriving { from, order, change, receivers }, fx);
        }
        let kind = envelope::kind_of(&order.body);
        if matches!(kind, Content::EDIT | Content::REACTION) && order.about.is_none() {
            return self.say_amendment(now, from, &order, fx);
        }
        let may_quote = envelope::may_quote(&order.body) && order.about.is_none();
        if may_quote && self.looks_at_quoted(now, from, &order, fx) {
            return;
        }
        if order.route.is_to_group() || order.moved.is_some() {
            let conversation = order.route.conversation;
            return self.for_group(now, conversation, GroupTask::Store(from, order), fx);
        }
        let receivers = order.route.inboxes().into();
        self.append(now, from, order, (None, receivers), fx);
    }

    /// Whether whoever says something has room for it in the shard's log.
    fn has_share(&mut self, now: Now, order: &StoreOrder) -> bool {
        if order.is_operator {
            return true;
        }
        let StoreOrder { route, body, .. } = order;
        let is_domain = route.from.space() == Space::Foreign;
        let who = match is_domain.then(|| envelope::decode(0, 0, body)).flatten() {
            Some(said) => self.settings.home.of(&[said.from.domain().as_bytes()]),
            None => route.from.home_hash(),
        };
        self.shares.takes(now, (who, is_domain), body.len() as u64 + BESIDE_BYTES)
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
        let StoreOrder { number, route, once, body, about, moved, .. } = order;
        let id = match moved {
            Some(Moved::Between(id) | Moved::InGroup(id)) => id,
            Some(Moved::Behind) | None => self.next_id(now),
        };
        // What is said next has a higher one, be it in the same millisecond.
        self.last_id = self.last_id.max(id);
        let (at_s, label) = (now.unix_s(), route.encode());
        let message = Arc::new(Message { id, at_s, label, body });
        let once = OnceKey::at_home(route.conversation.home_hash(), once);
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
        let (once, ends) = (Some(once), ends_something(&message.body, change.as_ref()));
        let append = Append { message: message.clone(), to, once, heard: None, ends };
        let check = envelope::check_of(self.settings.home, &message);
        let replaces = about.as_ref().and_then(|about| about.replaces(route.conversation));
        let write = Write::AppendWith(Box::new(AppendWith { append, check, replaces }));
        self.outbox.takes(message.weight());
        let abroad = self.groups.foreign(route.conversation).filter(|_| change.is_none());
        let change = change.map(Box::new);
        let turn = None;
        let storing = Storing {
            from,
            number,
            route,
            message,
            about,
            change,
            is_quiet,
            turn,
            receivers,
            abroad,
            is_moved,
        };
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
        let Storing { from, number, route, message, about, change, .. } = storing;
        let Storing { is_quiet, turn, mut receivers, mut abroad, is_moved, .. } = storing;
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
                if let Some(fan_out) = turn {
                    receivers = self.group_turned(route.conversation, (done.id, fan_out), fx);
                    abroad = self.groups.foreign(route.conversation);
                }
                if done.new
                    && let Some(mut message) = envelope::decode(message.id, seq, &message.body)
                {
                    if let Some(about) = about {
                        fx.counters.count(about.counter);
                        message.content = about.live;
                    }
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
        if turn.is_some() && answer.is_err() {
            self.turn_refused(route.conversation);
        }
        self.tell_stored(from, number, answer, fx);
        if change.is_some() || turn.is_some() || is_moved {
            self.change_is_over(now, route.conversation, fx);
        }
    }

    pub(crate) fn tell_stored(
        &mut self,
        to: ShardId,
        number: u64,
        result: Result<StoredMessage, ChatFault>,
        fx: &mut Effects,
    ) {
        self.amendments.ends((to, number));
        if to == self.settings.shard {
            return self.send_answered(number, result, fx);
        }
        fx.peer_messages.push((to, ChatWord::Stored { number, result }));
    }

    /// The shard of the conversation has answered.
    pub(crate) fn send_answered(
        &mut self,
        number: u64,
        result: Result<StoredMessage, ChatFault>,
        fx: &mut Effects,
    ) {
        match self.sends.take_timed(number) {
            Some((_, StoreWait { wait, group: Some(group) })) => {
                self.answer_change(wait, *group, result, fx);
            }
            Some((_, StoreWait { wait, group: None })) if result == Err(ChatFault::RateLimited) => {
                // The group's own bucket is at its home: in a second some of it is back.
                fx.counters.count(ChatCounter::RateLimited);
                self.reject_send(wait, too_fast(1_000), fx);
            }
            Some((began, StoreWait { wait, group: None })) => {
                if began != Began::default() && result.is_ok() {
                    fx.counters.lasted(LatencyPhase::Send, began.until(self.came));
                }
                self.answer_send(wait, result, fx);
            }
            None => {}
        }
    }

    pub(crate) fn answer_send(
        &mut self,
        wait: Requester,
        result: Result<StoredMessage, ChatFault>,
        fx: &mut Effects,
    ) {
        let Requester { conn, session, number } = wait;
        let (counter, answer) = match result {
            Ok(StoredMessage { id, seq, again }) => (
                counter_of(again),
                ChatDelivery::Sent { number, id, seq, at_ms: time_of(id), again },
            ),
            Err(why) => (ChatCounter::SendsFailed, ChatDelivery::Failed { number, why }),
        };
        fx.counters.count(counter);
        self.answer_session((conn, session), answer, fx);
    }

    /// A message is not taken, and its sender is told more than why.
    pub(crate) fn reject_send(&mut self, wait: Requester, rejected: Rejected, fx: &mut Effects) {
        let Requester { conn, session, number } = wait;
        let Rejected { why, reason, retry_after_ms } = rejected;
        fx.counters.count(ChatCounter::SendsFailed);
        let rejected = SendRejected { number, why, reason, retry_after_ms };
        self.answer_session((conn, session), ChatDelivery::Rejected(Box::new(rejected)), fx);
    }

    /// Whoever waited for too long is told so; when to look again.
    pub(crate) fn turn_sends(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let (over, next) = self.sends.overdue(now, self.settings.limits.answer_ms_max);
        for StoreWait { wait, .. } in over {
            self.answer_send(wait, Err(ChatFault::Busy), fx);
        }
        next
    }

    /// A number for a message, by the time, that no other shard gives.
    pub(crate) fn next_id(&mut self, now: Now) -> u64 {
        let Settings { node, shard, shards, .. } = self.settings;
        let of = (shard.0, shards);
        self.last_id = MessageId::after_of(self.last_id, now.wall_ms, node, of).0;
        self.last_id
    }
}

/// What is said, with whole addresses of those whom it mentions. What amends another message says
/// nothing of others.
fn of_others(content: Content, domain: &str) -> Content {
    if content.is_amendment() {
        return content.without_others();
    }
    let mentions = content.mentions.map(|it| Box::new(it.within(domain)));
    Content { mentions, ..content }
}

/// How a message that is stored is counted.
pub(crate) fn counter_of(again: bool) -> ChatCounter {
    if again { ChatCounter::SentAgain } else { ChatCounter::Sent }
}

/// The conversation of two inboxes, whoever of them begins it.
pub(crate) fn conversation_of(home: HashKey, one: TimelineId, other: TimelineId) -> TimelineId {
    let (first, second) = (one.min(other).to_bytes(), one.max(other).to_bytes());
    TimelineId::of(Space::Conversation, home, &[&first, &second])
}

/// Whether a message ends something: it says that another one is called back, which is so already,
/// or that somebody leaves a group.
fn ends_something(body: &[u8], change: Option<&GroupChange>) -> bool {
    envelope::kind_of(body) == Content::RECALL
        || change.is_some_and(|change| change.verb.ends_membership())
}
