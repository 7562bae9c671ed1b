//! Flows of chat: an operation from its request to its answer, with its waits where they occur.
//!
//! A flow that goes through a door ([`Flow::contacts`], [`Flow::group`]) is admitted when
//! everything before it at that door is done, and until its next wait no other is. Invariants: at
//! most [`FLOWS_MAX`] flows exist; a flow is never dropped while its shard lives: a wait that takes
//! too long is answered. A flow that is lost with its shard has acknowledged nothing, or its result
//! is in the outbox.

use super::ShardState;
use crate::accounts::{AccountRow, Owner, fault_of, tell_account};
use crate::conversations::Reached;
use crate::conversations::changes::{Subject, Task as Inquiry, Wish};
use crate::conversations::receipts::{positions, readers};
use crate::groups::chatrooms::home;
use crate::groups::{GroupTask, adding, changes, members, rooms};
use crate::log::{Answered, PendingCall};
use crate::operators::moving;
use crate::people::Task;
use crate::sessions::transients::TransientSaid;
use crate::sessions::{Asker, Requester};
use crate::word::{ChatWord, PeerReply, PeerRequest, ReplyTo, StoredMessage};
use crate::{Chat, Effects};
use base::flows::{FlowHandle, Flows, WaitKey};
use base::never;
use base::time::Now;
use model::account::{AccountAddress, AccountId};
use model::chat::{ChatDelivery, ChatFault, NewMessage};
use model::id::ShardId;
use model::ports::log::{Append, Appended, Call, Done, StoreError, Write};
use model::ports::reviews::ReviewVerdict;
use model::timeline::{Message, Seq, TimelineId};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// Maximum of flows under way, per shard. A request beyond it is answered as busy.
pub(crate) const FLOWS_MAX: usize = 262_144;

pub(crate) type ChatFlows = Flows<ShardState>;

/// A flow's access to its shard.
pub(crate) struct Flow(FlowHandle<ShardState>);

/// The answer that a flow has waited for.
pub(crate) enum Reply {
    /// The log's result of a call.
    Log(Answered),
    /// The account with an address.
    Account(Result<AccountRow, ChatFault>),
    /// A door is open, or why not.
    Entered(Result<(), ChatFault>),
    /// The reply of the shard that was asked.
    Peer(Result<PeerReply, ChatFault>),
    /// The number of groups that an account has made.
    GroupsMade(Result<usize, ChatFault>),
    /// The position of an account in a conversation, if the account has the conversation.
    Reached(Result<Option<Reached>, ChatFault>),
    /// The verdict on a message that was reviewed.
    Reviewed(ReviewVerdict),
    /// The answer to an errand.
    Told(Box<ChatDelivery>),
    /// The wait took too long, or the time of a pause is over.
    Late,
}

/// A place where flows take turns with everything else that waits there.
#[derive(Clone, Copy)]
pub(crate) enum Door {
    /// The contacts of the account with this inbox.
    Contacts(TimelineId),
    /// The group with this conversation.
    Group(TimelineId),
}

impl Flow {
    /// The shard's chat, the time and the call's effects: until the next wait.
    pub(crate) fn state(&mut self) -> (&mut Chat, Now, &mut Effects) {
        let ShardState { chat, fx, now } = self.0.state();
        (chat, *now, fx)
    }

    /// The key of the next wait, for the part that will answer it.
    pub(crate) fn key(&mut self) -> WaitKey {
        self.0.key()
    }

    /// The key of the next wait, which is for so many replies.
    pub(crate) fn key_of_all(&mut self, count: usize) -> WaitKey {
        self.0.key_of_all(count)
    }

    /// Lets time pass, or waits until somebody answers the wait with the next key before.
    pub(crate) async fn sleep(&mut self, time: Duration) {
        let key = self.key();
        let (chat, now, _) = self.state();
        chat.flows.set_deadline(key, now.after(time));
        self.0.reply().await;
    }

    /// Waits for the place for which the next key is in line.
    pub(crate) async fn place(&mut self) {
        self.0.reply().await;
    }

    /// The answers to so many errands, under one key ([`Flow::key_of_all`]), in the order in which
    /// they come.
    pub(crate) async fn told(&mut self, errands: usize) -> Vec<ChatDelivery> {
        let replies = self.0.replies(errands).await;
        let told = replies.into_iter().map(|reply| match reply {
            Reply::Told(told) => *told,
            _ => {
                never!(true, "an errand is answered as a device is");
                ChatDelivery::Failed { number: 0, why: ChatFault::StoreFailed }
            }
        });
        told.collect()
    }

    /// Makes calls to the log, all at once; the results, in the order in which they come.
    pub(crate) async fn log_all(&mut self, calls: Vec<Call>) -> Vec<Answered> {
        let (count, key) = (calls.len(), self.key_of_all(calls.len()));
        let (chat, _, fx) = self.state();
        calls.into_iter().for_each(|call| chat.log.ask(PendingCall::Flow(key), call, fx));
        self.0.replies(count).await.into_iter().map(answered).collect()
    }

    /// Asks the log at once, not only when the returned future is awaited.
    pub(crate) fn log(&mut self, call: Call) -> impl Future<Output = Answered> {
        let key = self.key();
        let (chat, _, fx) = self.state();
        chat.log.ask(PendingCall::Flow(key), call, fx);
        async { answered(self.0.reply().await) }
    }

    /// Asks the log with a deadline: a log that is too late returns `Busy`, and may make the call
    /// all the same.
    pub(crate) fn log_in_time(&mut self, call: Call) -> impl Future<Output = Answered> {
        let key = self.key();
        self.limit_wait(key);
        self.log(call)
    }

    /// Ends the wait with this key after `answer_ms_max` milliseconds.
    fn limit_wait(&mut self, key: WaitKey) {
        let (chat, now, _) = self.state();
        let wait = Duration::from_millis(chat.settings.limits.answer_ms_max.into());
        chat.flows.set_deadline(key, now.after(wait));
    }

    /// Asks the log, at once, to store a message; until the answer the outbox counts its bytes.
    pub(crate) fn append(
        &mut self,
        message: &Message,
        write: Write,
    ) -> impl Future<Output = Result<Appended, ChatFault>> {
        let (key, bytes) = (self.key(), message.weight());
        let (chat, _, fx) = self.state();
        chat.outbox.takes(bytes);
        chat.log.ask(PendingCall::Flow(key), Call::Write(write), fx);
        async move {
            let reply = self.0.reply().await;
            self.state().0.outbox.gives(bytes);
            match reply {
                Reply::Log(Ok(Done::Appended(done))) => Ok(done),
                Reply::Log(Err(error)) => Err(fault_of(error)),
                _ => Err(ChatFault::StoreFailed),
            }
        }
    }

    /// Asks the log, at once, to append an entry to timelines that have an order; returns its place
    /// in each. `None`: the log has refused the entry.
    pub(crate) fn append_entry(
        &mut self,
        message: Message,
        to: Vec<TimelineId>,
    ) -> impl Future<Output = Option<Vec<Seq>>> {
        let key = self.key();
        let (chat, _, fx) = self.state();
        let (message, heard) = (Arc::new(message), chat.log.heard());
        let append = Append { message, to, once: None, heard, ends: true };
        chat.log.ask(PendingCall::Entry(key), Call::Write(Write::Append(append)), fx);
        async {
            match self.0.reply().await {
                Reply::Log(Ok(Done::Appended(done))) => Some(done.seqs),
                _ => None,
            }
        }
    }

    /// The number of the account with an address; `bytes`: memory that the waiting flow holds.
    pub(crate) async fn account(
        &mut self,
        address: &AccountAddress,
        bytes: usize,
    ) -> Result<AccountId, ChatFault> {
        self.account_row((address, None), bytes).await.map(|row| row.id)
    }

    /// The row of an account, which is created for `make` if it does not exist.
    pub(crate) async fn account_row(
        &mut self,
        (address, make): (&AccountAddress, Option<Owner>),
        bytes: usize,
    ) -> Result<AccountRow, ChatFault> {
        let key = self.key();
        self.state().0.find_account((address, make), (key, bytes));
        match self.0.reply().await {
            Reply::Account(found) => found,
            _ => unexpected("an account is found or not"),
        }
    }

    /// Waits until an account's contacts are in memory and what came before is done.
    pub(crate) async fn contacts(
        &mut self,
        (inbox, address): (TimelineId, &AccountAddress),
        bytes: usize,
    ) -> Result<(), ChatFault> {
        let key = self.key();
        let (chat, now, fx) = self.state();
        chat.outbox.takes(bytes);
        chat.for_person(now, (inbox, address), Task::Flow(key), fx);
        self.enters(Door::Contacts(inbox), bytes).await
    }

    /// Waits until a group of this shard is in memory and what came before is done.
    pub(crate) async fn group(
        &mut self,
        conversation: TimelineId,
        bytes: usize,
    ) -> Result<(), ChatFault> {
        let key = self.key();
        let (chat, now, fx) = self.state();
        chat.outbox.takes(bytes);
        chat.for_group(now, conversation, GroupTask::Flow(key), fx);
        self.enters(Door::Group(conversation), bytes).await
    }

    async fn enters(&mut self, door: Door, bytes: usize) -> Result<(), ChatFault> {
        let reply = self.0.reply().await;
        let (chat, _, _) = self.state();
        chat.outbox.gives(bytes);
        let Reply::Entered(entered) = reply else { return unexpected("a door opens or not") };
        if entered.is_ok() {
            chat.doors.push(door);
        }
        entered
    }

    /// The inbox of another account, unless one of the two has blocked the other; blocks do not
    /// bind operators.
    pub(crate) async fn reach(
        &mut self,
        asker: &Asker,
        other: &AccountAddress,
        bytes: usize,
    ) -> Result<TimelineId, ChatFault> {
        let id = self.account(other, bytes).await?;
        let inbox = other.inbox(self.state().0.settings.home, id);
        if !asker.is_operator && inbox != asker.inbox {
            self.contacts((asker.inbox, &asker.address), bytes).await?;
            let (chat, _, fx) = self.state();
            chat.may_reach(asker.inbox, (other, inbox), fx)?;
        }
        Ok(inbox)
    }

    /// The number of groups that an account of this shard has made; 0 if it has already made the
    /// group `again`.
    pub(crate) async fn groups_made(
        &mut self,
        inbox: TimelineId,
        again: TimelineId,
    ) -> Result<usize, ChatFault> {
        let key = self.key();
        let (chat, now, fx) = self.state();
        let (wait, wish) = (Requester::NOBODY, Wish::Made(key, again));
        chat.for_account(now, inbox, Inquiry { wait, wish, what: Subject::All }, fx);
        match self.0.reply().await {
            Reply::GroupsMade(made) => made,
            _ => unexpected("an account knows how many groups it has made, or why not"),
        }
    }

    /// The position of an account of this shard in a conversation, if the account has the
    /// conversation.
    pub(crate) async fn reached(
        &mut self,
        inbox: TimelineId,
        of: TimelineId,
    ) -> Result<Option<Reached>, ChatFault> {
        let key = self.key();
        let (chat, now, fx) = self.state();
        let (wait, wish) = (Requester::NOBODY, Wish::Position(key, of));
        chat.for_account(now, inbox, Inquiry { wait, wish, what: Subject::All }, fx);
        match self.0.reply().await {
            Reply::Reached(reached) => reached,
            _ => unexpected("an account knows how far it is, or why not"),
        }
    }

    /// Waits for the verdict on a message, after those on its sender's earlier messages there;
    /// `None`: the message is not reviewed.
    pub(crate) async fn review(
        &mut self,
        by: &Asker,
        to: &AccountAddress,
        message: &NewMessage,
    ) -> Result<Option<ReviewVerdict>, ChatFault> {
        let key = self.key();
        let (chat, now, fx) = self.state();
        if !chat.is_to_review(by, to) {
            return Ok(None);
        }
        chat.review(now, key, (by, to, message), fx)?;
        match self.0.reply().await {
            Reply::Reviewed(verdict) => Ok(Some(verdict)),
            _ => unexpected("a review ends with a verdict"),
        }
    }

    /// Asks a shard, which may be this one, and waits for its reply; `None`: the reply took too
    /// long, and the request may be carried out all the same.
    pub(crate) fn ask(
        &mut self,
        shard: ShardId,
        request: PeerRequest,
    ) -> impl Future<Output = Option<Result<PeerReply, ChatFault>>> {
        let key = self.key();
        let (chat, now, fx) = self.state();
        let number = key.number();
        if shard == chat.settings.shard {
            chat.requested(now, ReplyTo { shard, number }, request, fx);
        } else {
            fx.peer_messages.push((shard, ChatWord::Request { number, request }));
        }
        self.peer_reply(key)
    }

    /// Asks a shard, as [`Flow::ask`] does; a reply that takes too long is `Busy`.
    pub(crate) fn request(
        &mut self,
        shard: ShardId,
        request: PeerRequest,
    ) -> impl Future<Output = Result<PeerReply, ChatFault>> {
        let reply = self.ask(shard, request);
        async { reply.await.unwrap_or(Err(ChatFault::Busy)) }
    }

    /// Asks the home of a conversation to store something; a reply that takes too long is `Busy`.
    pub(crate) fn store(
        &mut self,
        conversation: TimelineId,
        request: PeerRequest,
    ) -> impl Future<Output = Result<StoredMessage, ChatFault>> {
        let home = self.state().0.settings.shard_at(conversation);
        let reply = self.request(home, request);
        async { stored(reply.await) }
    }

    async fn peer_reply(&mut self, key: WaitKey) -> Option<Result<PeerReply, ChatFault>> {
        self.limit_wait(key);
        match self.0.reply().await {
            Reply::Peer(result) => Some(result),
            Reply::Late => None,
            _ => Some(unexpected("a shard that is asked replies")),
        }
    }
}

/// The log's result in a reply.
fn answered(reply: Reply) -> Answered {
    match reply {
        Reply::Log(answer) => answer,
        Reply::Late => Err(StoreError::Busy),
        _ => {
            never!(true, "the log answers with what it has done");
            Err(StoreError::Failed)
        }
    }
}

/// The stored message of a reply.
pub(crate) fn stored(reply: Result<PeerReply, ChatFault>) -> Result<StoredMessage, ChatFault> {
    match reply {
        Ok(PeerReply::Stored(stored)) => Ok(stored),
        Ok(_) => unexpected("a message is stored or not"),
        Err(fault) => Err(fault),
    }
}

fn unexpected<T>(what: &str) -> Result<T, ChatFault> {
    never!(true, "{what}");
    Err(ChatFault::StoreFailed)
}

impl Chat {
    /// Takes the request of a flow on some shard, for state that is at home here.
    pub(crate) fn requested(
        &mut self,
        now: Now,
        to: ReplyTo,
        request: PeerRequest,
        fx: &mut Effects,
    ) {
        let is_begun = match request {
            PeerRequest::Find(address) => self.begin(|flow| tell_account(flow, to, address)),
            PeerRequest::Send(order) => return self.store_sent(now, to, order, fx),
            PeerRequest::Amend(order) => return self.amend_here(to, order, fx),
            PeerRequest::PublicGroups(range) => return self.tell_public(to, &range, fx),
            PeerRequest::Chatroom(asked) => return self.order_chatroom(now, to, asked, fx),
            PeerRequest::Stanza(handed) => return self.stanza_handed(now, to, handed, fx),
            PeerRequest::Transient(said) => {
                let said = TransientSaid { to: Some(to), ..*said };
                return self.transient_in_group(now, said, fx);
            }
            PeerRequest::Join(asked) => {
                let room = asked.room.clone();
                return self.for_chatroom(now, &room, home::Task::Join(to, asked), fx);
            }
            PeerRequest::Say(saying) => {
                let room = saying.room.clone();
                return self.for_chatroom(now, &room, home::Task::Say(to, saying), fx);
            }
            PeerRequest::Nodes(asked) => return self.nodes_asked(now, to, asked, fx),
            PeerRequest::Members(asked) if asked.group.is_chatroom() => {
                return self.list_chatroom(now, to, &asked, fx);
            }
            PeerRequest::Members(asked) => self.begin(|flow| members::list(flow, to, asked)),
            PeerRequest::Room(asked) => self.begin(|flow| rooms::ask_here(flow, to, asked)),
            PeerRequest::Readers(it) => self.begin(|flow| readers::tell_others(flow, to, it)),
            PeerRequest::Positions(asked) => self.begin(|flow| positions::tell(flow, to, asked)),
            PeerRequest::Change(order) => self.begin(|flow| changes::change(flow, to, order)),
            PeerRequest::Import(order) => self.begin(|flow| moving::store(flow, to, order)),
            PeerRequest::Adding(asked) => self.begin(|flow| adding::adding(flow, to, asked)),
        };
        if !is_begun {
            self.reply(to, Err(ChatFault::Busy), fx);
        }
    }

    /// Replies to a flow of some shard.
    pub(crate) fn reply(
        &mut self,
        ReplyTo { shard, number }: ReplyTo,
        result: Result<PeerReply, ChatFault>,
        fx: &mut Effects,
    ) {
        if shard == self.settings.shard {
            return self.replied(number, result);
        }
        fx.peer_messages.push((shard, ChatWord::Reply { number, result }));
    }

    /// Replies to a flow that has asked for a message to be stored.
    pub(crate) fn tell_stored(
        &mut self,
        to: ReplyTo,
        result: Result<StoredMessage, ChatFault>,
        fx: &mut Effects,
    ) {
        self.reply(to, result.map(PeerReply::Stored), fx);
    }

    /// Hands the reply of another shard to the flow of this one that waits for it.
    pub(crate) fn replied(&mut self, number: u64, result: Result<PeerReply, ChatFault>) {
        self.flows.reply(WaitKey::of_number(number), Reply::Peer(result));
    }

    /// Begins a flow. False: too many flows are under way.
    pub(crate) fn begin<F>(&mut self, flow: impl FnOnce(Flow) -> F) -> bool
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.flows.begin(|handle| flow(Flow(handle)))
    }

    /// Panics where flows do not agree with what they hold.
    pub(super) fn audit_flows(&self) {
        assert!(!self.flows.is_ready() && self.doors.is_empty(), "between calls no flow runs");
        assert!(
            !self.flows.is_empty()
                || self.amendments.is_idle()
                    && self.moving.is_empty()
                    && (self.orders, self.reports) == (0, 0),
            "flows give back all they hold"
        );
    }

    /// Opens the doors that admitted a flow to others: the flow waits for something else, or is
    /// over.
    pub(super) fn leave_doors(&mut self, now: Now, fx: &mut Effects) {
        while let Some(door) = self.doors.pop() {
            match door {
                Door::Contacts(inbox) => self.contacts_left(now, inbox, fx),
                Door::Group(conversation) => self.group_left(now, conversation, fx),
            }
        }
    }
}
