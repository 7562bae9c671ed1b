//! Amendments: what becomes of a message after it was said. It is called back or edited by whoever
//! said it, or somebody reacts to it.
//!
//! ```text
//! Recall, Send ─► its overlay ─► the message ─► may it? ─► one write: the new overlay,
//!                  (read)         (read)                    the message is taken out,
//!                                                           a message that says so ─► Sent
//! ```
//! All of it happens where the conversation is at home; of one message one thing is done at a time.
//! The message that says so is distributed as what is said is ([`send`](crate::send)), and because
//! the outbox has it by the same write a start distributes what a crash broke off. A recall's is
//! the same whoever of the account asks and however often, so it is there once. What it says of an
//! edited text is not stored with it: it is read from the overlay, so that a recall has nothing to
//! chase. Invariants: a message is amended if and only if the message that says so is stored; when
//! an amendment is answered, every page that is asked for afterwards has the message as it is now;
//! of what was called back, nothing of what it said.

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

/// Amendments that may be under way, a shard. One more is answered as busy.
const AMENDMENTS_MAX: usize = 4_096;

/// Bytes of the message that is looked at: it is one, however large.
const LOOK_BYTES_MAX: usize = 1;

/// What a recall waits for costs so much in memory, bytes, roughly.
const RECALL_BYTES: usize = 256;

/// A recall, from the account that wants it.
pub(crate) struct RecallAsked {
    pub(crate) wait: Requester,
    pub(crate) asker: Asker,
    pub(crate) with: AccountAddress,
    pub(crate) seq: Seq,
    pub(crate) reason: Box<str>,
    /// The conversation, where it is known: then it is called back there, whoever has the
    /// partner's name by now.
    pub(crate) conversation: Option<TimelineId>,
}

/// A message is to be amended.
#[derive(Debug)]
pub struct AmendOrder {
    pub(crate) route: Route,
    /// An operator does it, in the name of whoever said it.
    pub(crate) is_operator: bool,
    /// The message's place.
    pub(crate) seq: Seq,
    pub(crate) what: Amendment,
}

/// What is to become of a message.
#[derive(Debug)]
pub(crate) enum Amendment {
    /// It is called back, for this reason; by whom, where another one has said it.
    Recall { reason: Box<str>, moderator: Option<AccountAddress> },
    /// Somebody says that it is edited, or reacts; what was said, as it is in the envelope, and its
    /// once key.
    Said(Box<ChatMessage>, u64),
    /// Nothing, but that what is said quotes it. Likewise.
    Quotes(Box<ChatMessage>, u64),
}

/// A message that amends another one, or quotes it, as it is stored.
struct AmendmentMessage {
    route: Route,
    once: u64,
    body: Box<[u8]>,
    /// What is told of it now: more than is stored.
    live: Content,
    /// What the other one becomes, by the same write.
    becomes: Option<Overlay>,
    /// What is counted when it is stored.
    counter: ChatCounter,
}

/// What is being amended.
#[derive(Default)]
pub(crate) struct Amendments {
    /// Messages of which something is under way, until that is answered.
    targets: HashSet<(TimelineId, Seq)>,
    /// Amendments whose messages are being read.
    reading: usize,
}

impl Amendments {
    /// Whether nothing is being amended.
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
        (Err(ChatFault::UnknownAccount), Some(_)) => own, // nobody is left to be told
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

/// A message of a conversation of this shard is amended, or quoted, for an asker on some shard.
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
    // Of one message one thing is done at a time.
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

/// What a message is now, and what stands at its place.
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

/// Stores a message that amends another one, which becomes something else by the same write.
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

/// How a message leaves its conversation as it becomes something else.
fn replaced(timeline: TimelineId, overlay: &Overlay) -> Replaced {
    let seq = overlay.message.seq;
    let (table, key) = (Table::ChatRecalled, overlays::key_of(timeline, seq));
    Replaced { timeline, seq, table, key, value: overlay.encode() }
}

impl Chat {
    /// A device calls a message of its account back, or of another one in a group.
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

    /// Something is said, to be stored here, that amends a message.
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

    /// A message of a conversation of this shard is to be amended, if there is room.
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

    /// Whether a message may be amended so, and what comes next.
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
        // Whoever moderates a group calls back what others have said there.
        if let Amendment::Recall { moderator, .. } = &mut order.what
            && !order.is_operator
        {
            *moderator = self.moderator(&order.route, (now_is.from, now_is.message.id));
            order.is_operator = moderator.is_some();
        }
        if order.is_operator && order.changes() {
            order.route = order.route.turned_to(now_is.from); // who said it does it
        }
        let left = self.last_left(&order.route);
        let at = Moment { number: self.next_id(now), left };
        judge::judge((now, at), &self.settings.limits.chat, order, (now_is, is_there))
    }

    /// The message that says what becomes of another one.
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
                // Whichever device asks, or moderator, the same is said.
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

    /// By what the message that says so is known, which follows from what is called back.
    fn names_of_recall(&self, conversation: TimelineId, seq: Seq) -> (u64, ClientMessageId) {
        let (of, at) = (conversation.to_bytes(), seq.to_be_bytes());
        let name = |part: &[u8]| self.settings.home.of(&[part, &of, &at]);
        let (first, second) = (name(b"recall"), name(b"recall, too"));
        let id = u128::from(first) << 64 | u128::from(second);
        (first, ClientMessageId(id.to_be_bytes()))
    }
}

impl AmendOrder {
    /// Whether the message is another one afterwards.
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

    /// The number of the message, if the order says it.
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
