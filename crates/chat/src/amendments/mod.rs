//! Amendments: later changes of a message. Its sender recalls or edits it, a moderator recalls it,
//! or an account reacts to it.
//!
//! ```text
//! Recall, Send ─► its overlay ─► the message ─► may it? ─► one write: the new overlay,
//!                  (read)         (read)                    the message is taken out,
//!                                                           its own message ─► Sent
//! ```
//! All of it happens where the conversation is at home; a message has one amendment under way at a
//! time. The message that records the amendment is distributed as any other is
//! ([`send`](crate::send)), and because the outbox has it by the same write, a restart distributes
//! what a crash interrupted. The message that records a recall is the same whichever device of the
//! account asks and however often, so it is stored once. An edited text is not stored with the
//! message that records the edit: it is read from the overlay, so a recall has no other copy to
//! remove. Invariants: a message is amended if and only if the message that records this is stored;
//! once an amendment is answered, each page that is requested afterwards has the message as it is
//! now; of a recalled message it has no content.

pub(crate) mod judge;
pub(crate) mod overlays;
mod quotes;

use crate::accounts::fault_of;
use crate::envelope::{self, Sender};
use crate::groups;
use crate::label::Route;
use crate::outbox::receivers::{Audience, Receivers};
use crate::send::conversation_of;
use crate::service::flow::Flow;
use crate::sessions::{Asker, Requester};
use crate::word::{PeerRequest, ReplyTo, SendOrder, StoredMessage};
use crate::{Chat, Effects};
use base::encoding::Encoding;
use base::time::Now;
use judge::Verdict;
use model::account::AccountAddress;
use model::chat::{
    ChatFault, ChatMessage, ClientMessageId, Content, Moderated, NewMessage, REASON_BYTES_MAX,
    Recall, RecallOrder, TargetMessage,
};
use model::counters::ChatCounter;
use model::id::{ConnRef, SessionRef};
use model::ports::log::{Call, Done, Page, Pull, Read, Replaced, Table, Write};
use model::timeline::{Seq, TimelineId};
use overlays::{Moment, Overlay};
use std::collections::HashSet;

/// Maximum of amendments whose messages are being read, per shard. A further one is answered as
/// busy.
const AMENDMENTS_MAX: usize = 4_096;

/// Maximum bytes of the page that reads the message: the page has one message, however large.
const LOOK_BYTES_MAX: usize = 1;

/// Approximate memory of a recall while it waits, bytes.
const RECALL_BYTES: usize = 256;

/// A recall, as an account orders it.
pub(crate) struct RecallAsked {
    pub(crate) wait: Requester,
    pub(crate) asker: Asker,
    pub(crate) with: AccountAddress,
    pub(crate) seq: Seq,
    pub(crate) reason: Box<str>,
    /// The conversation, where it is known: the message is then recalled there, whichever account
    /// has the partner's name by now.
    pub(crate) conversation: Option<TimelineId>,
}

/// An order to amend a message, or to quote it.
#[derive(Debug, Encoding)]
pub struct AmendOrder {
    pub(crate) route: Route,
    /// An operator or a moderator orders it, in the name of the message's sender.
    pub(crate) is_operator: bool,
    /// The message's place.
    pub(crate) seq: Seq,
    pub(crate) what: Amendment,
}

/// The kind of an amendment.
#[derive(Debug, Encoding)]
#[encoding(Recall = 0, Said = 1, Quotes = 2)]
pub(crate) enum Amendment {
    /// The message is recalled, for this reason; by this moderator, where another account has sent
    /// it.
    Recall { reason: Box<str>, moderator: Option<AccountAddress> },
    /// The message is edited, or reacted to, by this message as the envelope has it, with this once
    /// key.
    Said(Box<ChatMessage>, u64),
    /// The message does not change, but is quoted by this message, with this once key.
    Quotes(Box<ChatMessage>, u64),
}

/// A message that amends another one, or quotes it, as it is stored.
struct AmendmentMessage {
    route: Route,
    once: u64,
    body: Box<[u8]>,
    /// The content that is delivered now: more than is stored.
    live: Content,
    /// The state of the other message afterwards, stored by the same write.
    becomes: Option<Overlay>,
    /// The counter that rises when the message is stored.
    counter: ChatCounter,
}

/// The amendments that are under way.
#[derive(Default)]
pub(crate) struct Amendments {
    /// Messages with an amendment under way, until that is answered.
    targets: HashSet<(TimelineId, Seq)>,
    /// Amendments whose messages are being read.
    reading: usize,
}

impl Amendments {
    /// Whether no amendment is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.targets.is_empty() && self.reading == 0
    }
}

/// Recalls a message, the asker's own or another member's in a group, and answers the asker.
async fn recall(mut flow: Flow, asked: RecallAsked) {
    let wait = asked.wait;
    let result = recall_message(&mut flow, asked).await;
    let (chat, _, fx) = flow.state();
    chat.answer_stored(wait, result, fx);
}

async fn recall_message(flow: &mut Flow, asked: RecallAsked) -> Result<StoredMessage, ChatFault> {
    let route = route_of_recall(flow, &asked).await?;
    let RecallAsked { asker: Asker { is_operator, .. }, seq, reason, .. } = asked;
    let what = Amendment::Recall { reason, moderator: None };
    let order = Box::new(AmendOrder { route, is_operator, seq, what });
    flow.store(route.conversation, PeerRequest::Amend(order)).await
}

async fn route_of_recall(flow: &mut Flow, asked: &RecallAsked) -> Result<Route, ChatFault> {
    let RecallAsked { asker, with, conversation, .. } = asked;
    let (home, own) = (flow.state().0.settings.home, asker.inbox);
    if with.is_group() {
        let conversation = conversation.unwrap_or_else(|| groups::conversation_of(home, with));
        return Ok(Route { from: own, to: None, conversation, read: None });
    }
    let id = flow.account(with, RECALL_BYTES).await;
    let to = match (id.map(|id| with.inbox(home, id)), *conversation) {
        (Ok(to), Some(known)) if conversation_of(home, own, to) != known => own,
        (Err(ChatFault::UnknownAccount), Some(_)) => own, // the partner no longer exists
        (Ok(to), _) => to,
        (Err(fault), _) => return Err(fault),
    };
    if !asker.is_operator && to != own {
        flow.contacts((own, &asker.address), RECALL_BYTES).await?;
        let (chat, _, fx) = flow.state();
        chat.may_reach(asker.inbox, (with, to), fx)?;
    }
    let conversation = conversation.unwrap_or_else(|| conversation_of(home, own, to));
    Ok(Route { from: own, to: Some(to), conversation, read: None })
}

/// Amends or quotes a message of a conversation of this shard, for an asker on some shard.
async fn amend(mut flow: Flow, to: ReplyTo, order: Box<AmendOrder>) {
    let result = amend_message(&mut flow, order).await;
    let (chat, _, fx) = flow.state();
    chat.tell_stored(to, result, fx);
}

async fn amend_message(
    flow: &mut Flow,
    order: Box<AmendOrder>,
) -> Result<StoredMessage, ChatFault> {
    let target = (order.route.conversation, order.seq);
    if order.route.is_to_group() {
        flow.group(order.route.conversation, 0).await?;
        let (chat, now, _) = flow.state();
        chat.may_amend_in_group(now, &order)?;
    }
    let (chat, _, _) = flow.state();
    if order.seq == 0 {
        return Err(ChatFault::Invalid);
    }
    // A message has one amendment under way at a time.
    let changes = order.changes();
    if changes && !chat.amendments.targets.insert(target) {
        return Err(ChatFault::Busy);
    }
    let result = amend_target(flow, order).await;
    if changes {
        flow.state().0.amendments.targets.remove(&target);
    }
    result
}

async fn amend_target(
    flow: &mut Flow,
    mut order: Box<AmendOrder>,
) -> Result<StoredMessage, ChatFault> {
    flow.state().0.amendments.reading += 1;
    let target = read_target(flow, (order.route.conversation, order.seq)).await;
    let (chat, now, _) = flow.state();
    chat.amendments.reading -= 1;
    let (overlay, page) = target?;
    let verdict = chat.verdict(now, &mut order, overlay, &page)?;
    let is_operator = order.is_operator;
    let amended = chat.amended(*order, verdict);
    store_amended(flow, is_operator, amended).await
}

/// The overlay of a message, and the page of its conversation at its place.
async fn read_target(
    flow: &mut Flow,
    (timeline, seq): (TimelineId, Seq),
) -> Result<(Option<Overlay>, Page), ChatFault> {
    let overlay = match flow.log(Call::Read(overlays::read_one(timeline, seq))).await {
        Ok(Done::Row(None)) => None,
        Ok(Done::Row(Some(row))) => {
            let overlay = Overlay::decode((&overlays::key_of(timeline, seq), &row));
            Some(overlay.ok_or(ChatFault::StoreFailed)?)
        }
        Ok(_) => return Err(ChatFault::StoreFailed),
        Err(error) => return Err(fault_of(error)),
    };
    let (backwards, count_max, bytes_max) = (false, 1, LOOK_BYTES_MAX);
    let pull = Pull { timeline, from: seq - 1, backwards, count_max, bytes_max };
    match flow.log(Call::Read(Read::Pull(pull))).await {
        Ok(Done::Page(page)) => Ok((overlay, page)),
        Ok(_) => Err(ChatFault::StoreFailed),
        Err(error) => Err(fault_of(error)),
    }
}

/// Stores a message that amends another one, together with the other one's new state.
async fn store_amended(
    flow: &mut Flow,
    is_operator: bool,
    amended: AmendmentMessage,
) -> Result<StoredMessage, ChatFault> {
    let AmendmentMessage { route, once, body, live, becomes, counter } = amended;
    let (chat, _, _) = flow.state();
    chat.may_store_in(route.conversation, &body)?;
    let mut receivers = Receivers::from(route.inboxes());
    if route.is_to_group() {
        flow.group(route.conversation, body.len()).await?;
        let group = || envelope::decode(0, 0, &body).map(|message| message.to);
        groups::fan_out::turn_if_due(flow, route.conversation, group).await;
        let (chat, _, _) = flow.state();
        receivers = chat.may_still_amend_in_group(&route, is_operator)?;
    }
    let (chat, now, _) = flow.state();
    let abroad = chat.groups.foreign(route.conversation);
    let audience = Audience { route, receivers, abroad };
    let replaces = becomes.as_ref().map(|overlay| replaced(route.conversation, overlay));
    let said = (chat.next_id(now), once, body);
    let (message, write) = chat.message_write(now, &route, said, replaces);
    let done = flow.append(&message, Write::AppendWith(write)).await?;
    let (chat, now, fx) = flow.state();
    let [seq, place, ..] = done.seqs[..] else { return Err(ChatFault::StoreFailed) };
    if done.new
        && let Some(message) = envelope::decode(message.id, seq, &message.body)
    {
        fx.counters.count(counter);
        chat.fan_out(now, place, audience, ChatMessage { content: live, ..message }, fx);
    }
    Ok(StoredMessage { id: done.id, seq, again: !done.new })
}

/// The part of the write by which an overlay replaces its message in the conversation.
fn replaced(timeline: TimelineId, overlay: &Overlay) -> Replaced {
    let seq = overlay.message.seq;
    let (table, key) = (Table::ChatRecalled, overlays::key_of(timeline, seq));
    Replaced { timeline, seq, table, key, value: overlay.encode() }
}

impl Chat {
    /// Recalls a message for a device: one of its account, or of another account in a group.
    pub(crate) fn recall(
        &mut self,
        from: ConnRef,
        (session, number): (SessionRef, u32),
        order: RecallOrder,
        fx: &mut Effects,
    ) {
        let RecallOrder { with, seq, reason } = order;
        let Some(asker) = self.asker(from, session) else { return };
        let wait = Requester { conn: from, session, number };
        let fault = match seq {
            0 => Some(ChatFault::Invalid),
            _ if reason.len() > REASON_BYTES_MAX => Some(ChatFault::TooLarge),
            _ => self.is_busy_to_send().then_some(ChatFault::Busy),
        };
        if let Some(fault) = fault {
            return self.answer_send(wait, Err(fault), fx);
        }
        let (with, conversation) = (with.within(asker.address.domain()), None);
        self.begin_recall(RecallAsked { wait, asker, with, seq, reason, conversation }, fx);
    }

    pub(crate) fn begin_recall(&mut self, asked: RecallAsked, fx: &mut Effects) {
        let wait = asked.wait;
        if !self.begin(|flow| recall(flow, asked)) {
            self.answer_send(wait, Err(ChatFault::Busy), fx);
        }
    }

    /// Amends a message by another message, which is to be stored here.
    pub(crate) fn amend_said(&mut self, to: ReplyTo, order: &SendOrder, fx: &mut Effects) {
        let SendOrder { route, once, is_operator, body } = order;
        let said = envelope::decode(0, 0, body);
        let target = said.as_ref().and_then(|said| said.content.target());
        let (Some(said), Some(target)) = (said, target) else {
            return self.reply(to, Err(ChatFault::Invalid), fx);
        };
        let what = Amendment::Said(Box::new(said), *once);
        let (route, is_operator, seq) = (*route, *is_operator, target.seq);
        self.amend_here(to, Box::new(AmendOrder { route, is_operator, seq, what }), fx);
    }

    /// Amends a message of a conversation of this shard, if there is room.
    pub(crate) fn amend_here(&mut self, to: ReplyTo, order: Box<AmendOrder>, fx: &mut Effects) {
        let ends = matches!(order.what, Amendment::Recall { .. });
        let fault = self.outbox.fault(self.settings.undistributed_max(), ends);
        let is_full = self.amendments.reading >= AMENDMENTS_MAX || !self.log.may_ask();
        if let Some(fault) = fault.or(is_full.then_some(ChatFault::Busy)) {
            return self.reply(to, Err(fault), fx);
        }
        if !self.begin(|flow| amend(flow, to, order)) {
            self.reply(to, Err(ChatFault::Busy), fx);
        }
    }

    /// The verdict on an amendment of a message.
    fn verdict(
        &mut self,
        now: Now,
        order: &mut AmendOrder,
        overlay: Option<Overlay>,
        page: &Page,
    ) -> Result<Verdict, ChatFault> {
        if page.damaged.contains(&order.seq) {
            return Err(ChatFault::StoreFailed);
        }
        let placed = page.messages.first().filter(|placed| placed.seq == order.seq);
        let is_there = placed.is_some();
        let as_said = placed.map(|placed| {
            let by = Route::decode(&placed.message.label).map(|route| route.from);
            let message = envelope::decode(placed.message.id, placed.seq, &placed.message.body);
            by.zip(message).map(|(by, message)| Overlay::of(by, message))
        });
        let now_is = match (overlay, as_said) {
            (Some(overlay), _) => overlay,
            (None, Some(as_said)) => as_said.ok_or(ChatFault::StoreFailed)?,
            (None, None) => return Err(ChatFault::UnknownMessage),
        };
        // A moderator of a group recalls messages of others there.
        if let Amendment::Recall { moderator, .. } = &mut order.what
            && !order.is_operator
        {
            *moderator = self.moderator(&order.route, (now_is.from, now_is.message.id));
            order.is_operator = moderator.is_some();
        }
        if order.is_operator && order.changes() {
            order.route = order.route.turned_to(now_is.from); // the sender amends it
        }
        let left = self.last_left(&order.route);
        let at = Moment { number: self.next_id(now), left };
        judge::judge((now, at), &self.settings.limits.chat, order, (now_is, is_there))
    }

    /// The message that records an amendment of another one.
    fn amended(&self, order: AmendOrder, verdict: Verdict) -> AmendmentMessage {
        let (overlay, becomes) = match verdict {
            Verdict::Becomes(overlay) => (overlay.clone(), Some(overlay)),
            Verdict::Is(overlay) => (overlay, None),
        };
        let counter = order.counter();
        let AmendOrder { route, seq, what, .. } = order;
        let message = &overlay.message;
        let target = TargetMessage { seq, id: message.id, name: overlay.name.clone() };
        let (once, client_id, content, live, sender) = match &what {
            Amendment::Recall { .. } => {
                let (once, client_id) = self.names_of_recall(route.conversation, seq);
                let by = Moderated::of(&message.content);
                let recall = Recall { seq, id: message.id };
                let content = recall.moderated(&target.name, by.as_ref());
                // The message is the same, whichever device or moderator asks.
                let sender = Sender { address: &message.from, device: "" };
                (once, client_id, content.clone(), content, sender)
            }
            Amendment::Said(said, once) => {
                let (content, live) = judge::told(said, &target, message);
                let sender = Sender { address: &said.from, device: &said.device };
                (*once, said.client_id, content, live, sender)
            }
            Amendment::Quotes(said, once) => {
                let (content, live) = quotes::told(&said.content, &target, message);
                let sender = Sender { address: &said.from, device: &said.device };
                (*once, said.client_id, content, live, sender)
            }
        };
        let to = match &what {
            Amendment::Recall { .. } => &message.to,
            Amendment::Said(said, _) | Amendment::Quotes(said, _) => &said.to,
        };
        let said = NewMessage { to: to.clone().into(), client_id, content };
        let body = envelope::encode(sender, to, &said);
        AmendmentMessage { route, once, body, live, becomes, counter }
    }

    /// The once key and the client id of a recall's message, which follow from the recalled
    /// message.
    fn names_of_recall(&self, conversation: TimelineId, seq: Seq) -> (u64, ClientMessageId) {
        let (of, at) = (conversation.to_bytes(), seq.to_be_bytes());
        let name = |part: &[u8]| self.settings.home.of(&[part, &of, &at]);
        let (first, second) = (name(b"recall"), name(b"recall, too"));
        let id = u128::from(first) << 64 | u128::from(second);
        (first, ClientMessageId(id.to_be_bytes()))
    }
}

impl AmendOrder {
    /// Whether the order changes the message.
    fn changes(&self) -> bool {
        !matches!(self.what, Amendment::Quotes(..))
    }

    fn counter(&self) -> ChatCounter {
        match &self.what {
            Amendment::Recall { .. } => ChatCounter::Recalled,
            Amendment::Quotes(..) => ChatCounter::Quoted,
            Amendment::Said(said, _) if said.content.kind == Content::EDIT => ChatCounter::Edited,
            Amendment::Said(..) => ChatCounter::Reacted,
        }
    }

    /// The number of the message, if the order has it.
    pub(crate) fn target_id(&self) -> Option<u64> {
        match &self.what {
            Amendment::Recall { .. } => None,
            Amendment::Said(said, _) => said.content.target().map(|target| target.id),
            Amendment::Quotes(said, _) => said.content.quote.as_ref().map(|it| it.target.id),
        }
    }

    /// Approximate memory, bytes.
    pub(crate) fn weight(&self) -> usize {
        let said = match &self.what {
            Amendment::Recall { reason, .. } => reason.len(),
            Amendment::Said(said, _) | Amendment::Quotes(said, _) => said.weight(),
        };
        size_of::<AmendOrder>() + said
    }
}
