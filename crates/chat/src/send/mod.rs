//! Send: a message from its request to its answer, and on its way to the inboxes.
//!
//! ```text
//! send        may it be said? ─► reviewed ─► receiver, contacts ─► home of the conversation ─┐
//!               answered ◄────────────────────────────────────────────────────── stored ◄────┤
//! store       room there? ─► the group's turn, may it speak? ─► the log ─► outbox ◄──────────┘
//! ```
//! [`send`] runs at the sender's shard, [`store`] where the conversation is at home: it stores the
//! message there and in its outbox by one write, and has it put into the inboxes
//! ([`outbox`](crate::outbox)). A retry gets the first answer. Invariant: an answer that says
//! "sent" is given when the message is on stable storage; a sender whose answer does not come gets
//! an error in time.

use crate::envelope::{self, Sender, time_of};
use crate::groups;
use crate::label::Route;
use crate::operators::rates::{BESIDE_BYTES, Storer, Used};
use crate::outbox::receivers::{Audience, Receivers};
use crate::service::flow::Flow;
use crate::sessions::{Asker, Requester};
use crate::word::{Cargo, PeerRequest, ReplyTo, SendOrder, StoredMessage};
use crate::{Chat, Effects, Settings};
use base::hash::HashKey;
use base::time::Now;
use model::account::AccountAddress;
use model::chat::{
    ChatDelivery, ChatFault, ChatMessage, ClientMessageId, Content, Mentions, NewMessage,
    SendRejected, emoji_of,
};
use model::counters::ChatCounter;
use model::id::{ConnRef, MessageId, SessionRef};
use model::latency::{Began, LatencyPhase};
use model::ports::events::{ChatEvent, ChatWhat};
use model::ports::log::{Append, AppendWith, OnceKey, Replaced, Write};
use model::pressure::Pressure;
use model::timeline::{Message, Seq, Space, TimelineId};
use std::sync::Arc;

/// The refusal of a message, with the reason and the pause for its sender.
pub(crate) struct Rejected {
    pub(crate) why: ChatFault,
    pub(crate) reason: Box<str>,
    pub(crate) retry_after_ms: u32,
}

/// The error of a message that is not sent.
pub(crate) enum SendError {
    Fault(ChatFault),
    /// A fault with a reason and a pause for the sender.
    Rejected(Rejected),
}

impl From<ChatFault> for SendError {
    fn from(fault: ChatFault) -> SendError {
        SendError::Fault(fault)
    }
}

impl From<Rejected> for SendError {
    fn from(rejected: Rejected) -> SendError {
        SendError::Rejected(rejected)
    }
}

impl Rejected {
    /// A refusal of the content, with its reason; a retry does not help.
    pub(crate) fn because(reason: &str) -> Rejected {
        Rejected { why: ChatFault::Rejected, reason: reason.into(), retry_after_ms: 0 }
    }
}

/// The refusal for an account that sends too many messages at once.
pub(crate) fn too_fast(retry_after_ms: u32) -> Rejected {
    let reason = "too many messages at once".into();
    Rejected { why: ChatFault::RateLimited, reason, retry_after_ms }
}

/// The refusal for a muted account.
fn silenced(now: Now, until_s: u32) -> Rejected {
    let left_s = until_s.saturating_sub(now.unix_s());
    let reason = format!("an operator has muted this account for another {left_s} s");
    let retry_after_ms = left_s.saturating_mul(1_000);
    Rejected { why: ChatFault::Silenced, reason: reason.into(), retry_after_ms }
}

/// Sends the message of a device, and answers the device: stored, or refused.
async fn send(mut flow: Flow, wait: Requester, asker: Asker, message: Box<NewMessage>) {
    let began = Began::at(flow.state().1);
    let result = send_message(&mut flow, wait, &asker, message).await;
    let (chat, now, fx) = flow.state();
    match result {
        Ok(stored) => {
            fx.counters.lasted(LatencyPhase::Send, began.until(now));
            chat.answer_send(wait, Ok(stored), fx);
        }
        Err(SendError::Fault(fault)) => chat.answer_stored(wait, Err(fault), fx),
        Err(SendError::Rejected(rejected)) => chat.reject_send(wait, rejected, fx),
    }
}

async fn send_message(
    flow: &mut Flow,
    wait: Requester,
    asker: &Asker,
    mut message: Box<NewMessage>,
) -> Result<StoredMessage, SendError> {
    let (chat, now, fx) = flow.state();
    message.content = of_others(message.content, asker.address.domain());
    chat.may_say(&message.content)?;
    let to = message.to.within(asker.address.domain());
    // Messages of a chatroom cannot be amended or quoted.
    let is_about = message.content.is_amendment() || message.content.quote.is_some();
    if to.is_chatroom() && is_about {
        return Err(ChatFault::Invalid.into());
    }
    let mut is_changed = false;
    if !asker.is_operator {
        let said = (message.client_id, &mut message.content);
        is_changed = chat.moderate(now, asker, &to, said, fx)?;
        if let Some(verdict) = flow.review(asker, &to, &message).await? {
            let (chat, now, fx) = flow.state();
            is_changed |= chat.follow_verdict(now, asker, verdict, &mut message, fx)?;
        }
    }
    if to.is_chatroom() {
        let (chat, _, _) = flow.state();
        let (timeline, _) = chat.chatroom_at(&to);
        let saying = chat.saying(wait, asker, (to, message))?;
        return Ok(flow.store(timeline, PeerRequest::Say(saying)).await?);
    }
    let (chat, _, _) = flow.state();
    if !is_changed {
        // A sender whose message was changed gets the stored one.
        chat.sessions.says((wait.conn, wait.session), message.client_id, to.is_group());
    }
    chat.names_sender((wait.conn, wait.session), (&to, &asker.address), &mut message.content);
    let route = match to.is_group() {
        true => route_to_group(flow, asker, &to, &mut message).await?,
        false => route_to_account(flow, asker, &to, &message).await?,
    };
    let (chat, _, _) = flow.state();
    let order = chat.send_order(asker, route, (&to, &message));
    drop(message);
    Ok(flow.store(route.conversation, PeerRequest::Send(order)).await?)
}

/// The route to another account, unless one of the two has blocked the other.
async fn route_to_account(
    flow: &mut Flow,
    asker: &Asker,
    to: &AccountAddress,
    message: &NewMessage,
) -> Result<Route, ChatFault> {
    let inbox = flow.reach(asker, to, weight_of(message)).await?;
    let home = flow.state().0.settings.home;
    let conversation = conversation_of(home, asker.inbox, inbox);
    Ok(Route { from: asker.inbox, to: Some(inbox), conversation, read: None })
}

/// The route to a group. Accounts that have blocked the sender are not mentioned, which the
/// sender's contacts say; messages behind one that waits for the contacts wait, too.
async fn route_to_group(
    flow: &mut Flow,
    asker: &Asker,
    to: &AccountAddress,
    message: &mut NewMessage,
) -> Result<Route, ChatFault> {
    let (chat, _, _) = flow.state();
    let mentions = message.content.mentions.as_deref();
    let names_any = mentions.is_some_and(|it| !it.accounts.is_empty());
    if !asker.is_operator && (names_any || chat.people.is_waited_for(asker.inbox)) {
        flow.contacts((asker.inbox, &asker.address), weight_of(message)).await?;
        let (chat, _, _) = flow.state();
        let mentions = message.content.mentions.take();
        message.content.mentions = mentions.and_then(|mut it| {
            it.accounts.retain(|one| !chat.people.is_barred_by(asker.inbox, &one.within("")));
            Mentions::of(it.accounts, it.everybody)
        });
    }
    let conversation = groups::conversation_of(flow.state().0.settings.home, to);
    Ok(Route { from: asker.inbox, to: None, conversation, read: None })
}

/// Stores a message in a conversation of this shard, for a sender on some shard.
async fn store(mut flow: Flow, to: ReplyTo, order: Box<SendOrder>) {
    let result = store_message(&mut flow, order).await;
    let (chat, _, fx) = flow.state();
    chat.tell_stored(to, result, fx);
}

async fn store_message(flow: &mut Flow, order: Box<SendOrder>) -> Result<StoredMessage, ChatFault> {
    let bytes = order.weight();
    let SendOrder { route, once, is_operator, body } = *order;
    let mut receivers = Receivers::from(route.inboxes());
    if route.is_to_group() {
        flow.group(route.conversation, bytes).await?;
        let group = || envelope::decode(0, 0, &body).map(|message| message.to);
        groups::fan_out::turn_if_due(flow, route.conversation, group).await;
        let (chat, now, _) = flow.state();
        receivers = chat.may_say_in_group(now, &route, is_operator)?;
    }
    let (chat, now, _) = flow.state();
    // An import may have begun since the order was taken: its ids are below those of now.
    if !route.is_to_group() && chat.moving.contains(&route.conversation) {
        return Err(ChatFault::Busy);
    }
    let abroad = chat.groups.foreign(route.conversation);
    let audience = Audience { route, receivers, abroad };
    let said = (chat.next_id(now), once, body);
    let (message, write) = chat.message_write(now, &route, said, None);
    let done = flow.append(&message, Write::AppendWith(write)).await?;
    let (chat, now, fx) = flow.state();
    let [seq, place, ..] = done.seqs[..] else { return Err(ChatFault::StoreFailed) };
    if done.new
        && let Some(message) = envelope::decode(message.id, seq, &message.body)
    {
        chat.fan_out(now, place, audience, message, fx);
    }
    Ok(StoredMessage { id: done.id, seq, again: !done.new })
}

impl Chat {
    /// Sends the message of a device.
    pub(crate) fn send(
        &mut self,
        from: ConnRef,
        (session, number): (SessionRef, u32),
        message: Box<NewMessage>,
        fx: &mut Effects,
    ) {
        let Some(asker) = self.asker(from, session) else { return };
        let wait = Requester { conn: from, session, number };
        if !self.begin(|flow| send(flow, wait, asker, message)) {
            self.answer_send(wait, Err(ChatFault::Busy), fx);
        }
    }

    /// Refuses a message of an account that is muted or being erased, even if only since it was
    /// sent.
    pub(crate) fn may_still_say(
        &mut self,
        now: Now,
        asker: &Asker,
        fx: &mut Effects,
    ) -> Result<(), Rejected> {
        let until_s = self.mutes.until(now, &asker.address);
        if until_s > 0 {
            fx.counters.count(ChatCounter::Silenced);
            return Err(silenced(now, until_s));
        }
        if self.erasures.has(asker.inbox) {
            return Err(Rejected::because("this account is being erased"));
        }
        Ok(())
    }

    /// Takes bytes to be stored from an account's rate, or refuses them.
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

    /// Checks an account's message against mutes, rates and words. True: the message's text was
    /// changed.
    pub(crate) fn moderate(
        &mut self,
        now: Now,
        asker: &Asker,
        to: &AccountAddress,
        (client_id, content): (ClientMessageId, &mut Content),
        fx: &mut Effects,
    ) -> Result<bool, Rejected> {
        self.may_still_say(now, asker, fx)?;
        if let Err(retry_after_ms) = self.account_rates.take(now, asker.inbox, 1) {
            fx.counters.count(ChatCounter::RateLimited);
            return Err(too_fast(retry_after_ms));
        }
        let bytes = content.weight() as u64 + BESIDE_BYTES;
        self.may_store(now, asker, bytes, fx)?;
        let found = self.settings.words.list().look(&content.text);
        if found.refused {
            fx.counters.count(ChatCounter::WordsRefused);
            return Err(Rejected::because("it has a word that may not be said here"));
        }
        let is_changed = found.replaced.is_some();
        if let Some(text) = found.replaced {
            fx.counters.count(ChatCounter::WordsReplaced);
            content.text = text.into();
        }
        if found.flagged {
            fx.counters.count(ChatCounter::WordsFlagged);
            let (from, to) = (asker.address.clone(), to.clone());
            let what = ChatWhat::Flagged { from, to, client_id };
            fx.tell(ChatEvent { at_ms: now.wall_ms, what });
        }
        Ok(is_changed)
    }

    /// Whether no more messages can be sent now.
    pub(crate) fn is_busy_to_send(&self) -> bool {
        self.flows.is_full() || self.pressure >= Pressure::Stores
    }

    /// The fault of content that no account may send, or not now.
    pub(crate) fn may_say(&self, content: &Content) -> Result<(), ChatFault> {
        match self.may_not_say(content) {
            Some(fault) => Err(fault),
            None if self.is_busy_to_send() => Err(ChatFault::Busy),
            None => Ok(()),
        }
    }

    /// The fault of content that no account may send.
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

    /// An account's message for the home of its conversation.
    fn send_order(
        &self,
        asker: &Asker,
        route: Route,
        (to, message): (&AccountAddress, &NewMessage),
    ) -> Box<SendOrder> {
        let once = self.settings.home.of(&[&asker.inbox.to_bytes(), &message.client_id.0]);
        let sender = Sender { address: &asker.address, device: &asker.device };
        let body = envelope::encode(sender, to, message);
        Box::new(SendOrder { route, once, is_operator: asker.is_operator, body })
    }

    /// Stores a message in a conversation of this shard, if it has room. The message that it amends
    /// or quotes is read first.
    pub(crate) fn store_sent(
        &mut self,
        now: Now,
        to: ReplyTo,
        order: Box<SendOrder>,
        fx: &mut Effects,
    ) {
        let SendOrder { route, body, is_operator, .. } = &*order;
        if let Err(fault) = self.takes_room(now, (route, body), *is_operator, fx) {
            return self.reply(to, Err(fault), fx);
        }
        if matches!(envelope::kind_of(&order.body), Content::EDIT | Content::REACTION) {
            return self.amend_said(to, &order, fx);
        }
        if envelope::may_quote(&order.body) && self.looks_at_quoted(to, &order, fx) {
            return;
        }
        if !self.begin(|flow| store(flow, to, order)) {
            self.reply(to, Err(ChatFault::Busy), fx);
        }
    }

    /// Takes room for a message in its conversation of this shard, and in the share of its sender.
    /// `is_exempt`: shares do not bind the sender.
    pub(crate) fn takes_room(
        &mut self,
        now: Now,
        (route, body): (&Route, &[u8]),
        is_exempt: bool,
        fx: &mut Effects,
    ) -> Result<(), ChatFault> {
        self.may_store_in(route.conversation, body)?;
        if !is_exempt && !self.has_share(now, route, body) {
            fx.counters.count(ChatCounter::ShareFull);
            return Err(ChatFault::StoreFull);
        }
        Ok(())
    }

    /// Whether a conversation of this shard can store another message now.
    pub(crate) fn may_store_in(
        &self,
        conversation: TimelineId,
        body: &[u8],
    ) -> Result<(), ChatFault> {
        let ends = envelope::kind_of(body) == Content::RECALL;
        let fault = self.outbox.fault(self.settings.undistributed_max(), ends);
        let is_busy = self.moving.contains(&conversation) || !self.log.may_ask();
        fault.or(is_busy.then_some(ChatFault::Busy)).map_or(Ok(()), Err)
    }

    /// The write that stores a message with this number once in its conversation and in this
    /// shard's outbox; `replaces`: another message that the same write replaces.
    pub(crate) fn message_write(
        &mut self,
        now: Now,
        route: &Route,
        (id, once, body): (u64, u64, Box<[u8]>),
        replaces: Option<Replaced>,
    ) -> (Arc<Message>, Box<AppendWith>) {
        // The next message has a higher number, even in the same millisecond.
        self.last_id = self.last_id.max(id);
        let ends = envelope::kind_of(&body) == Content::RECALL;
        let (at_s, label) = (now.unix_s(), route.encode());
        let message = Arc::new(Message { id, at_s, label, body });
        let once = Some(OnceKey::at_home(route.conversation.home_hash(), once));
        let mut to = vec![route.conversation, self.outbox.timeline()];
        to.extend(self.outbox.archive());
        let append = Append { message: message.clone(), to, once, heard: None, ends };
        let check = envelope::check_of(self.settings.home, &message);
        (message, Box::new(AppendWith { append, check, replaces }))
    }

    /// Hands a stored message, at this place of the outbox, to listeners, to other domains and to
    /// inboxes.
    pub(crate) fn fan_out(
        &mut self,
        now: Now,
        place: Seq,
        audience: Audience,
        message: ChatMessage,
        fx: &mut Effects,
    ) {
        let message = Arc::new(message);
        if fx.events_wanted {
            fx.tell(ChatEvent::of_message(&message));
        }
        let Audience { route, receivers, abroad } = audience;
        if let Some(abroad) = abroad {
            self.room_hears(route.conversation, &message, abroad, fx);
        }
        let place = (self.outbox.timeline(), place);
        self.distribute(now, place, (route, &receivers), &Cargo::Message(message), fx);
    }

    /// Whether the sender of a message, or its foreign domain, has room for it in the shard's log.
    fn has_share(&mut self, now: Now, route: &Route, body: &[u8]) -> bool {
        let is_domain = route.from.space() == Space::Foreign;
        let who = match is_domain.then(|| envelope::decode(0, 0, body)).flatten() {
            Some(said) => self.settings.home.of(&[said.from.domain().as_bytes()]),
            None => route.from.home_hash(),
        };
        self.shares.takes(now, (who, is_domain), body.len() as u64 + BESIDE_BYTES)
    }

    /// Answers the device that waits for the home of a conversation.
    pub(crate) fn answer_stored(
        &mut self,
        wait: Requester,
        result: Result<StoredMessage, ChatFault>,
        fx: &mut Effects,
    ) {
        if result == Err(ChatFault::RateLimited) {
            // The group's own bucket is at its home: in a second some of it is back.
            fx.counters.count(ChatCounter::RateLimited);
            return self.reject_send(wait, too_fast(1_000), fx);
        }
        self.answer_send(wait, result, fx);
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

    /// Refuses a message, with a reason and a pause for its sender.
    pub(crate) fn reject_send(&mut self, wait: Requester, rejected: Rejected, fx: &mut Effects) {
        let Requester { conn, session, number } = wait;
        let Rejected { why, reason, retry_after_ms } = rejected;
        fx.counters.count(ChatCounter::SendsFailed);
        let rejected = SendRejected { number, why, reason, retry_after_ms };
        self.answer_session((conn, session), ChatDelivery::Rejected(Box::new(rejected)), fx);
    }

    /// A number for a message, by the time, that no other shard gives.
    pub(crate) fn next_id(&mut self, now: Now) -> u64 {
        let Settings { node, shard, shards, .. } = self.settings;
        let of = (shard.0, shards);
        self.last_id = MessageId::after_of(self.last_id, now.wall_ms, node, of).0;
        self.last_id
    }
}

/// The content with whole addresses of the accounts that it mentions. Amendments lose quotes and
/// mentions.
fn of_others(content: Content, domain: &str) -> Content {
    if content.is_amendment() {
        return content.without_others();
    }
    let mentions = content.mentions.map(|it| Box::new(it.within(domain)));
    Content { mentions, ..content }
}

/// The counter for a stored message.
pub(crate) fn counter_of(again: bool) -> ChatCounter {
    if again { ChatCounter::SentAgain } else { ChatCounter::Sent }
}

/// The conversation of two inboxes, whichever of them begins it.
pub(crate) fn conversation_of(home: HashKey, one: TimelineId, other: TimelineId) -> TimelineId {
    let (first, second) = (one.min(other).to_bytes(), one.max(other).to_bytes());
    TimelineId::of(Space::Conversation, home, &[&first, &second])
}

/// Approximate memory of a message that waits to be sent, bytes.
fn weight_of(message: &NewMessage) -> usize {
    size_of::<Asker>() + message.weight()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_send<F>(_: impl FnOnce(Flow, Requester, Asker, Box<NewMessage>) -> F) -> usize {
        size_of::<F>()
    }

    fn size_of_store<F>(_: impl FnOnce(Flow, ReplyTo, Box<SendOrder>) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_message_under_way_is_small_at_its_sender_and_at_the_home_of_its_conversation() {
        let (send, store) = (size_of_send(send), size_of_store(store));
        assert!(send <= 640 && store <= 512, "{send} and {store} bytes");
    }
}
