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

use crate::accounts::{Waiter, fault_of};
use crate::envelope::{self, Sender};
use crate::groups::{self, GroupTask};
use crate::label::Route;
use crate::log::{Answered, PendingCall};
use crate::people::reach::Reaching;
use crate::send::{SENDS_MAX, StoreWait, conversation_of};
use crate::sessions::{Asker, Requester};
use crate::waits::Waits;
use crate::word::{ChatWord, StoreOrder};
use crate::{Chat, Effects};
use base::time::Now;
use judge::Verdict;
use model::account::{AccountAddress, AccountId};
use model::chat::{
    ChatFault, ChatMessage, ClientMessageId, Content, Moderated, NewMessage, REASON_BYTES_MAX,
    Recall, RecallOrder, TargetMessage,
};
use model::counters::ChatCounter;
use model::id::{ConnRef, SessionRef, ShardId};
use model::ports::log::{Call, Done, Page, Pull, Read, Replaced, Table};
use model::pressure::Pressure;
use model::timeline::{Seq, TimelineId};
use overlays::{Moment, Overlay};
use std::collections::{HashMap, HashSet};

/// Amendments that may be under way, a shard. One more is answered as busy.
const AMENDMENTS_MAX: usize = 4_096;

/// Bytes of the message that is looked at: it is one, however large.
const LOOK_BYTES_MAX: usize = 1;

/// A recall in a conversation whose partner is being found.
pub(crate) struct RecallAsked {
    pub(crate) wait: Requester,
    pub(crate) asker: Asker,
    pub(crate) seq: Seq,
    /// The conversation, where it is known: then it is called back there, whoever has the
    /// partner's name by now.
    pub(crate) conversation: Option<TimelineId>,
}

/// A message is to be amended.
#[derive(Debug)]
pub struct AmendOrder {
    /// The asker's own.
    pub(crate) number: u64,
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

/// A message that is being amended.
pub(crate) struct Amending {
    from: ShardId,
    order: AmendOrder,
    step: Step,
}

/// What the log was asked for.
enum Step {
    /// What the message is now.
    Overlay,
    /// The message; its overlay is this.
    Message(Option<Overlay>),
}

/// Another message of its conversation that a message is about which is to be stored.
#[derive(Debug)]
pub(crate) struct About {
    /// What is told of the new message now: more than is stored.
    pub(crate) live: Content,
    /// What the other one becomes, by the same write.
    becomes: Option<Overlay>,
    /// What is counted when it is stored.
    pub(crate) counter: ChatCounter,
}

impl About {
    /// What becomes of the other one by the write that stores the new one.
    pub(crate) fn replaces(&self, conversation: TimelineId) -> Option<Replaced> {
        let overlay = self.becomes.as_ref()?;
        let seq = overlay.message.seq;
        Some(Replaced {
            timeline: conversation,
            seq,
            table: Table::ChatRecalled,
            key: overlays::key_of(conversation, seq),
            value: overlay.encode(),
        })
    }

    /// Approximate memory, bytes.
    pub(crate) fn weight(&self) -> usize {
        let becomes = self.becomes.as_ref().map_or(0, |it| it.message.weight());
        size_of::<About>() + self.live.text.len() + self.live.extra.len() + becomes
    }
}

/// An order by its asker: a shard, and the number that the shard has given it.
type Asking = (ShardId, u64);

/// What is being amended.
#[derive(Default)]
pub(crate) struct Amendments {
    waits: Waits<Amending>,
    /// Messages of which something is under way, until that is answered.
    targets: HashSet<(TimelineId, Seq)>,
    by_asking: HashMap<Asking, (TimelineId, Seq)>,
}

impl Amendments {
    /// Something of a message is under way. False: so is something else already.
    fn begins(&mut self, asking: Asking, target: (TimelineId, Seq)) -> bool {
        let is_free = self.targets.insert(target);
        if is_free {
            self.by_asking.insert(asking, target);
        }
        is_free
    }

    /// It is answered: something else may be done of the message.
    pub(crate) fn ends(&mut self, asking: Asking) {
        if let Some(target) = self.by_asking.remove(&asking) {
            self.targets.remove(&target);
        }
    }
}

impl Chat {
    /// A device calls a message of its account back, or of another one in a group.
    pub(crate) fn recall(
        &mut self,
        now: Now,
        from: ConnRef,
        (session, number): (SessionRef, u32),
        order: RecallOrder,
        fx: &mut Effects,
    ) {
        let RecallOrder { with, seq, reason } = order;
        let Some(asker) = self.asker(from, session) else { return };
        let wait = Requester { conn: from, session, number };
        let is_busy = self.sends.len() >= SENDS_MAX || self.pressure >= Pressure::Stores;
        let fault = match seq {
            0 => Some(ChatFault::Invalid),
            _ if reason.len() > REASON_BYTES_MAX => Some(ChatFault::TooLarge),
            _ => is_busy.then_some(ChatFault::Busy),
        };
        if let Some(fault) = fault {
            return self.answer_send(wait, Err(fault), fx);
        }
        let with = with.within(asker.address.domain());
        if with.is_group() {
            let conversation = groups::conversation_of(self.settings.home, &with);
            let route = Route { from: asker.inbox, to: None, conversation, read: None };
            let of = (route, seq, reason);
            return self.order_recall(now, (wait, asker.is_operator), of, fx);
        }
        let asked = Box::new(RecallAsked { wait, asker, seq, conversation: None });
        self.find_account(now, &with, None, Waiter::Recall(asked), fx);
    }

    /// The partner in the conversation is known, or why not.
    pub(crate) fn recall_partner_found(
        &mut self,
        now: Now,
        asked: RecallAsked,
        (with, id): (&AccountAddress, Result<AccountId, ChatFault>),
        fx: &mut Effects,
    ) {
        let (home, inbox) = (self.settings.home, asked.asker.inbox);
        let to = id.map(|id| with.inbox(home, id));
        let to = match (to, asked.conversation) {
            (Ok(to), Some(known)) if conversation_of(home, inbox, to) != known => inbox,
            (Err(ChatFault::UnknownAccount), Some(_)) => inbox, // nobody is left to be told
            (Ok(to), _) => to,
            (Err(fault), _) => return self.refuse_recall(asked, fault, fx),
        };
        if asked.asker.is_operator {
            return self.recall_of_two(now, asked, to, fx);
        }
        let by = (asked.asker.inbox, &asked.asker.address.clone());
        self.reach(now, by, (Reaching::Recall(asked), (with.clone(), to)), fx);
    }

    pub(crate) fn refuse_recall(&mut self, asked: RecallAsked, why: ChatFault, fx: &mut Effects) {
        self.answer_send(asked.wait, Err(why), fx);
    }

    /// Nothing stands between whoever calls back what it said and the other of the two.
    pub(crate) fn recall_of_two(
        &mut self,
        now: Now,
        asked: RecallAsked,
        to: TimelineId,
        fx: &mut Effects,
    ) {
        let RecallAsked { wait, asker, seq, conversation } = asked;
        let (from, home) = (asker.inbox, self.settings.home);
        let conversation = conversation.unwrap_or_else(|| conversation_of(home, from, to));
        let route = Route { from, to: Some(to), conversation, read: None };
        self.order_recall(now, (wait, asker.is_operator), (route, seq, Box::default()), fx);
    }

    /// The conversation's home is asked for it.
    pub(crate) fn order_recall(
        &mut self,
        now: Now,
        (wait, is_operator): (Requester, bool),
        (route, seq, reason): (Route, Seq, Box<str>),
        fx: &mut Effects,
    ) {
        let number = self.sends.put(StoreWait { wait, group: None });
        let what = Amendment::Recall { reason, moderator: None };
        let order = AmendOrder { number, route, is_operator, seq, what };
        let owner = self.settings.shard_at(route.conversation);
        if owner == self.settings.shard {
            self.amend_here(now, owner, order, fx);
        } else {
            fx.peer_messages.push((owner, ChatWord::Amend(Box::new(order))));
        }
    }

    /// Something is said, to be stored here, that amends a message: that comes first.
    pub(crate) fn say_amendment(
        &mut self,
        now: Now,
        from: ShardId,
        order: &StoreOrder,
        fx: &mut Effects,
    ) {
        let StoreOrder { number, route, once, is_operator, body, .. } = order;
        let said = envelope::decode(0, 0, body);
        let target = said.as_ref().and_then(|said| said.content.target());
        let (Some(said), Some(target)) = (said, target) else {
            return self.tell_stored(from, *number, Err(ChatFault::Invalid), fx);
        };
        let what = Amendment::Said(Box::new(said), *once);
        let (number, route, is_operator, seq) = (*number, *route, *is_operator, target.seq);
        let order = AmendOrder { number, route, is_operator, seq, what };
        self.amend_here(now, from, order, fx);
    }

    /// A message of a conversation of this shard is to be amended.
    pub(crate) fn amend_here(
        &mut self,
        now: Now,
        from: ShardId,
        order: AmendOrder,
        fx: &mut Effects,
    ) {
        let ends = matches!(order.what, Amendment::Recall { .. });
        let fault = self.outbox.fault(self.settings.undistributed_max(), ends);
        let is_full = self.amendments.waits.len() >= AMENDMENTS_MAX || !self.log.may_ask();
        if let Some(fault) = fault.or(is_full.then_some(ChatFault::Busy)) {
            return self.tell_stored(from, order.number, Err(fault), fx);
        }
        if order.route.is_to_group() {
            let conversation = order.route.conversation;
            return self.for_group(now, conversation, GroupTask::Amend(from, order), fx);
        }
        self.look_at_target(from, order, fx);
    }

    /// Whoever asks may say something there: what the message is now is looked at.
    pub(crate) fn look_at_target(&mut self, from: ShardId, order: AmendOrder, fx: &mut Effects) {
        if order.seq == 0 {
            return self.tell_stored(from, order.number, Err(ChatFault::Invalid), fx);
        }
        let (asking, target) = ((from, order.number), (order.route.conversation, order.seq));
        if order.changes() && !self.amendments.begins(asking, target) {
            return self.tell_stored(from, order.number, Err(ChatFault::Busy), fx);
        }
        self.ask_for_amendment(Amending { from, order, step: Step::Overlay }, fx);
    }

    /// Asks the log for what a step needs.
    fn ask_for_amendment(&mut self, amending: Amending, fx: &mut Effects) {
        let (timeline, seq) = (amending.order.route.conversation, amending.order.seq);
        let read = match &amending.step {
            Step::Overlay => overlays::read_one(timeline, seq),
            Step::Message(_) => {
                let (backwards, count_max, bytes_max) = (false, 1, LOOK_BYTES_MAX);
                Read::Pull(Pull { timeline, from: seq - 1, backwards, count_max, bytes_max })
            }
        };
        let key = self.amendments.waits.put(amending);
        self.log.ask(PendingCall::Amend(key), Call::Read(read), fx);
    }

    /// The log has done a step, or not.
    pub(crate) fn amendment_goes_on(
        &mut self,
        now: Now,
        key: u64,
        result: Answered,
        fx: &mut Effects,
    ) {
        let Some(Amending { from, mut order, step }) = self.amendments.waits.take(key) else {
            return;
        };
        let row_key = overlays::key_of(order.route.conversation, order.seq);
        let step = match (step, result) {
            (_, Err(error)) => Err(fault_of(error)),
            (Step::Overlay, Ok(Done::Row(row))) => {
                let row = row.map(|row| Overlay::decode((&row_key, &row)));
                row.map_or(Ok(None), |row| row.ok_or(ChatFault::StoreFailed).map(Some))
                    .map(Step::Message)
            }
            (Step::Message(overlay), Ok(Done::Page(page))) => {
                match self.verdict(now, &mut order, overlay, &page) {
                    Ok(verdict) => return self.say_amended(now, from, order, verdict, fx),
                    Err(fault) => Err(fault),
                }
            }
            _ => Err(ChatFault::StoreFailed),
        };
        match step {
            Ok(step) => self.ask_for_amendment(Amending { from, order, step }, fx),
            Err(fault) => self.tell_stored(from, order.number, Err(fault), fx),
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

    /// What is to become of the message is known: that is stored with a message that says so.
    fn say_amended(
        &mut self,
        now: Now,
        from: ShardId,
        order: AmendOrder,
        verdict: Verdict,
        fx: &mut Effects,
    ) {
        let (overlay, becomes) = match verdict {
            Verdict::Becomes(overlay) => (overlay.clone(), Some(overlay)),
            Verdict::Is(overlay) => (overlay, None),
        };
        let counter = order.counter();
        let AmendOrder { number, route, is_operator, seq, what } = order;
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
        let about = Some(Box::new(About { live, becomes, counter }));
        let (change, moved) = (None, None);
        let order = StoreOrder { number, route, once, is_operator, body, change, about, moved };
        self.store(now, from, order, fx);
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
