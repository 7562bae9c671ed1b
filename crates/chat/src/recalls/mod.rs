//! Recall: whoever said a message calls it back.
//!
//! ```text
//! Recall ─► the message ─► a tombstone ─► taken out ─► a message that says so ─► Sent
//!             │ not there      ▲ each step when the one before is on stable storage
//!             └─► a tombstone: goes on behind it
//! ```
//! All of it happens where the conversation is at home. The message that says so is stored and
//! distributed as what is said is ([`send`](crate::send)); it is the same whoever of the account
//! asks and however often, so it is there once. Invariant: when a recall is answered, what was
//! called back is in no page that is asked for afterwards.

pub(crate) mod tombstones;

use crate::accounts::{Waiter, fault_of};
use crate::envelope::{self, Sender};
use crate::groups::state::GroupState;
use crate::groups::{self, GroupTask};
use crate::label::Route;
use crate::log::{Answered, PendingCall};
use crate::send::{SENDS_MAX, StoreWait, conversation_of};
use crate::sessions::{Asker, Requester};
use crate::waits::Waits;
use crate::word::{ChatWord, StoreOrder};
use crate::{Chat, Effects};
use base::time::Now;
use model::account::{AccountAddress, AccountId, Addressee};
use model::chat::{ChatFault, ChatMessage, ClientMessageId, NewMessage, Recall};
use model::counters::ChatCounter;
use model::id::{ConnRef, SessionRef, ShardId};
use model::ports::log::{Call, Done, Page, Pull, Read, Table, Write};
use model::pressure::Pressure;
use model::timeline::{Seq, TimelineId};
use tombstones::Tombstone;

/// Recalls that may be under way, a shard. One more is answered as busy.
const RECALLS_MAX: usize = 4_096;

/// Bytes of the message that is looked at: it is one, however large.
const LOOK_BYTES_MAX: usize = 1;

/// A recall in a conversation whose partner is being found.
pub(crate) struct RecallAsked {
    wait: Requester,
    asker: Asker,
    seq: Seq,
}

/// A message is to be called back.
#[derive(Debug)]
pub struct RecallOrder {
    /// The asker's own.
    pub(crate) number: u64,
    pub(crate) route: Route,
    /// An operator calls it back, whosever it is.
    pub(crate) is_operator: bool,
    /// The message's place.
    pub(crate) seq: Seq,
}

/// A message that is being called back.
pub(crate) struct Recalling {
    from: ShardId,
    order: RecallOrder,
    step: Step,
}

/// What the log was asked for.
enum Step {
    /// The message.
    Message,
    /// Its tombstone, since it is not there.
    Tombstone,
    /// To put that.
    Bury(Tombstone),
    /// To take the message out.
    TakeOut(Tombstone),
}

pub(crate) type Recalls = Waits<Recalling>;

impl RecallOrder {
    /// Whether whoever asks may say something in this group, where the message is.
    pub(crate) fn may_recall(&self, group: &GroupState) -> Result<(), ChatFault> {
        if self.is_operator { group.is_there() } else { group.may_speak(self.route.from) }
    }
}

impl Chat {
    /// A device calls a message of its account back.
    pub(crate) fn recall(
        &mut self,
        now: Now,
        from: ConnRef,
        (session, number): (SessionRef, u32),
        (with, seq): (&Addressee, Seq),
        fx: &mut Effects,
    ) {
        let Some(asker) = self.asker(from, session) else { return };
        let wait = Requester { conn: from, session, number };
        let is_busy = self.sends.len() >= SENDS_MAX || self.pressure >= Pressure::Stores;
        let fault = match seq {
            0 => Some(ChatFault::Invalid),
            _ => is_busy.then_some(ChatFault::Busy),
        };
        if let Some(fault) = fault {
            return self.answer_send(wait, Err(fault), fx);
        }
        let with = with.within(asker.address.domain());
        if with.is_group() {
            let conversation = groups::conversation_of(self.settings.home, &with);
            let route = Route { from: asker.inbox, to: None, conversation, read: None };
            return self.order_recall(now, (wait, asker.is_operator), (route, seq), fx);
        }
        let asked = Box::new(RecallAsked { wait, asker, seq });
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
        let RecallAsked { wait, asker, seq } = asked;
        let to = match id {
            Ok(id) => with.inbox(self.settings.home, id),
            Err(fault) => return self.answer_send(wait, Err(fault), fx),
        };
        let (from, home) = (asker.inbox, self.settings.home);
        let conversation = conversation_of(home, from, to);
        let route = Route { from, to: Some(to), conversation, read: None };
        self.order_recall(now, (wait, asker.is_operator), (route, seq), fx);
    }

    /// The conversation's home is asked for it.
    pub(crate) fn order_recall(
        &mut self,
        now: Now,
        (wait, is_operator): (Requester, bool),
        (route, seq): (Route, Seq),
        fx: &mut Effects,
    ) {
        let number = self.sends.put(StoreWait { wait, group: None });
        let order = RecallOrder { number, route, is_operator, seq };
        let owner = self.settings.shard_at(route.conversation);
        if owner == self.settings.shard {
            self.recall_here(now, owner, order, fx);
        } else {
            fx.peer_messages.push((owner, ChatWord::Recall(Box::new(order))));
        }
    }

    /// A message of a conversation of this shard is to be called back.
    pub(crate) fn recall_here(
        &mut self,
        now: Now,
        from: ShardId,
        order: RecallOrder,
        fx: &mut Effects,
    ) {
        let is_full = self.outbox.bytes() >= self.settings.undistributed_max()
            || self.recalls.len() >= RECALLS_MAX
            || !self.log.may_ask();
        if is_full {
            return self.tell_stored(from, order.number, Err(ChatFault::Busy), fx);
        }
        if order.route.is_to_group() {
            let conversation = order.route.conversation;
            return self.for_group(now, conversation, GroupTask::Recall(from, order), fx);
        }
        self.look_at_recalled(from, order, fx);
    }

    /// Whoever asks may say something there: the message is looked at.
    pub(crate) fn look_at_recalled(&mut self, from: ShardId, order: RecallOrder, fx: &mut Effects) {
        let (timeline, before) = (order.route.conversation, order.seq - 1);
        let key = self.recalls.put(Recalling { from, order, step: Step::Message });
        let (backwards, count_max, bytes_max) = (false, 1, LOOK_BYTES_MAX);
        let pull = Pull { timeline, from: before, backwards, count_max, bytes_max };
        self.log.ask(PendingCall::Recall(key), Call::Read(Read::Pull(pull)), fx);
    }

    /// The log has done a step, or not.
    pub(crate) fn recall_goes_on(
        &mut self,
        now: Now,
        key: u64,
        result: Answered,
        fx: &mut Effects,
    ) {
        let Some(Recalling { from, mut order, step }) = self.recalls.take(key) else { return };
        let (conversation, seq) = (order.route.conversation, order.seq);
        let table = Table::ChatRecalled;
        let next = match (step, result) {
            (_, Err(error)) => Err(fault_of(error)),
            (Step::Message, Ok(Done::Page(page))) => self.judge_recall(now, &mut order, &page),
            (Step::Tombstone, Ok(Done::Row(row))) => {
                let tombstone_key = tombstones::key_of(conversation, seq);
                let row = row.as_ref().map(|value| (&*tombstone_key, &**value));
                return match self.judge_again(now, &mut order, row) {
                    Ok(tombstone) => self.say_recalled(now, from, order, &tombstone, fx),
                    Err(fault) => self.tell_stored(from, order.number, Err(fault), fx),
                };
            }
            (Step::Bury(tombstone), Ok(_)) => Ok(Step::TakeOut(tombstone)),
            (Step::TakeOut(tombstone), Ok(_)) => {
                fx.counters.count(ChatCounter::Recalled);
                return self.say_recalled(now, from, order, &tombstone, fx);
            }
            _ => Err(ChatFault::StoreFailed),
        };
        let step = match next {
            Ok(step) => step,
            Err(fault) => return self.tell_stored(from, order.number, Err(fault), fx),
        };
        let row = tombstones::key_of(conversation, seq);
        let call = match &step {
            Step::Message | Step::Tombstone => Call::Read(Read::Row { table, key: row }),
            Step::Bury(tombstone) => {
                Call::Write(Write::Put { table, key: row, value: tombstone.encode() })
            }
            Step::TakeOut(_) => {
                Call::Write(Write::Remove { timeline: conversation, seqs: vec![seq] })
            }
        };
        let key = self.recalls.put(Recalling { from, order, step });
        self.log.ask(PendingCall::Recall(key), call, fx);
    }

    /// Whether the message at this place may be called back, and what comes next.
    fn judge_recall(
        &self,
        now: Now,
        order: &mut RecallOrder,
        page: &Page,
    ) -> Result<Step, ChatFault> {
        if page.damaged.contains(&order.seq) {
            return Err(ChatFault::StoreFailed);
        }
        let placed = page.messages.first().filter(|placed| placed.seq == order.seq);
        let Some(placed) = placed else { return Ok(Step::Tombstone) };
        let route = Route::decode(&placed.message.label);
        let message = envelope::decode(placed.message.id, placed.seq, &placed.message.body);
        let Some(message) = message else { return Err(ChatFault::StoreFailed) };
        if let (true, Some(route)) = (order.is_operator, route) {
            order.route = route; // who said it calls it back
        }
        let is_its = route.is_some_and(|route| route.from == order.route.from);
        if !is_its || message.content.is_reserved() {
            return Err(ChatFault::Forbidden);
        }
        if !order.is_operator && self.is_too_late(now, &message) {
            return Err(ChatFault::TooLate);
        }
        Ok(Step::Bury(Tombstone::of(order.route.from, &message)))
    }

    /// Likewise where it was called back before, of which this row tells.
    fn judge_again(
        &self,
        now: Now,
        order: &mut RecallOrder,
        row: Option<(&[u8], &[u8])>,
    ) -> Result<Tombstone, ChatFault> {
        let row = row.ok_or(ChatFault::UnknownMessage)?;
        let tombstone = Tombstone::decode(row).ok_or(ChatFault::StoreFailed)?;
        if order.is_operator {
            order.route = order.route.turned_to(tombstone.from);
        }
        if tombstone.from != order.route.from {
            return Err(ChatFault::Forbidden);
        }
        // The log may have forgotten that it was said: it is not said again.
        let is_over = self.is_too_late(now, &tombstone.message);
        if is_over { Err(ChatFault::Unchanged) } else { Ok(tombstone) }
    }

    fn is_too_late(&self, now: Now, message: &ChatMessage) -> bool {
        let most_ms = u64::from(self.settings.limits.chat.recall_s_max) * 1_000;
        now.wall_ms.saturating_sub(message.at_ms) > most_ms
    }

    /// What was called back is out: now it is said.
    fn say_recalled(
        &mut self,
        now: Now,
        from: ShardId,
        order: RecallOrder,
        tombstone: &Tombstone,
        fx: &mut Effects,
    ) {
        let RecallOrder { number, route, is_operator, seq } = order;
        let (once, client_id) = self.names_of_recall(route.conversation, seq);
        let message = &tombstone.message;
        // Whichever device asks, the same is said.
        let sender = Sender { address: &message.from, device: "" };
        let (to, content) = (message.to.clone().into(), Recall { seq, id: message.id }.content());
        let said = NewMessage { to, client_id, content };
        let body = envelope::encode(sender, &message.to, &said);
        let order = StoreOrder { number, route, once, is_operator, body, change: None };
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
