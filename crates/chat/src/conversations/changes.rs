//! Read cursors and settings: changes of an account's state, each a place in its inbox.
//!
//! ```text
//! Read ─► the conversation ─► in line ─► is it further? ─► inbox (and outbox) ─► answered
//!                                         │ no                        └─► the other's inbox
//!                                         └─► answered with where the cursor is
//! ```
//! In a conversation of two the other account gets a read position by the way of messages: the
//! outbox has it until the other's inbox stores it. Invariant: a cursor is answered when it is on
//! stable storage, and no place of an inbox has a lower cursor than one before it.

use crate::accounts::{FOUND_BYTES, fault_of};
use crate::conversations::Step;
use crate::conversations::chores::Whose;
use crate::conversations::knowledge::{Knowledge, Row};
use crate::conversations::receipts::paces::Pace;
use crate::groups;
use crate::inboxes::entry::{self, Entry};
use crate::label::Route;
use crate::log::{Answered, PendingCall};
use crate::operators::rates::BESIDE_BYTES;
use crate::reads::PartnerAsked;
use crate::send::conversation_of;
use crate::service::flow::{Flow, Reply};
use crate::sessions::{Asker, Requester};
use crate::word::Cargo;
use crate::{Chat, Effects};
use base::flows::WaitKey;
use base::time::Now;
use model::account::{AccountAddress, Addressee};
use model::chat::{ChatDelivery, ChatFault, ConversationChange, InboxChange, InboxEvent};
use model::counters::ChatCounter;
use model::id::{ConnRef, SessionRef};
use model::ports::log::{Append, Call, Done, Write};
use model::pressure::Pressure;
use model::timeline::{Message, Seq, TimelineId};
use std::sync::Arc;

/// A request about an account's state of its conversations.
pub(crate) struct Task {
    pub(crate) wait: Requester,
    pub(crate) wish: Wish,
    pub(crate) what: Subject,
}

/// The kind of a request.
#[derive(Clone)]
pub(crate) enum Wish {
    Read(Seq),
    Set(ConversationChange),
    /// The state of the conversation.
    Look,
    /// A part of the conversation's messages.
    Reread(Box<PartnerAsked>),
    List(Part),
    /// All of the state, for the round of pushes with this number.
    Push(u64),
    /// The account's position in a conversation, for the flow that waits with this key.
    Position(WaitKey, TimelineId),
    /// How far the account's inbox has the groups that the account follows.
    Follow,
    /// The number of groups that the account has made, 0 if it has made this one, for the flow that
    /// waits with this key.
    Made(WaitKey, TimelineId),
    /// The settings of conversations, for the published bookmarks with this number.
    Bookmarks(u64),
    /// Only the sum of the inbox, without an answer.
    Sum,
}

/// Part of a list of conversations.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    /// Only conversations before this place.
    pub(crate) before: Seq,
    /// At most so many.
    pub(crate) count: u16,
    /// Only conversations with groups, hidden ones too.
    pub(crate) groups: bool,
}

/// The conversation that a request is about; a list is about none.
#[derive(Clone)]
pub(crate) enum Subject {
    All,
    One {
        conversation: TimelineId,
        by: AccountAddress,
        with: AccountAddress,
        /// The inbox of the other account of two, if that gets the read position.
        peer: Option<TimelineId>,
    },
    /// The conversation with an account that does not exist any more: only the asker's state has
    /// it.
    Gone {
        by: AccountAddress,
        with: AccountAddress,
    },
}

/// A change that the log is storing.
pub(crate) struct Changing {
    wait: Requester,
    entry: Entry,
    route: Route,
    id: u64,
    by: AccountAddress,
    /// The inbox, if its account owes the change to offline devices.
    owed: Vec<TimelineId>,
}

/// Carries out a device's request about its account's conversation with another account.
async fn ask(mut flow: Flow, wait: Requester, asker: Asker, (with, wish): (AccountAddress, Wish)) {
    let what = subject_of(&mut flow, &asker, with, &wish).await;
    let (chat, now, fx) = flow.state();
    match what {
        Ok(what) => chat.for_account(now, asker.inbox, Task { wait, wish, what }, fx),
        Err(fault) => chat.wish_fails(wait, &wish, fault, fx),
    }
}

/// The conversation that a request is about. The other account gets the read position, unless one
/// of the two has blocked the other.
async fn subject_of(
    flow: &mut Flow,
    Asker { inbox, address, .. }: &Asker,
    with: AccountAddress,
    wish: &Wish,
) -> Result<Subject, ChatFault> {
    let by = address.clone();
    let id = match flow.account(&with, FOUND_BYTES).await {
        Ok(id) => id,
        Err(ChatFault::UnknownAccount) => return Ok(Subject::Gone { by, with }),
        Err(fault) => return Err(fault),
    };
    let home = flow.state().0.settings.home;
    let other = with.inbox(home, id);
    let mut peer = None;
    // No account blocks itself.
    if matches!(wish, Wish::Read(_)) && other != *inbox {
        flow.contacts((*inbox, address), FOUND_BYTES).await?;
        peer = Some(other).filter(|_| flow.state().0.is_barred(*inbox, (&with, other)).is_none());
    }
    let conversation = conversation_of(home, *inbox, other);
    Ok(Subject::One { conversation, by, with, peer })
}

impl Chat {
    /// Takes a device's request about one conversation.
    pub(crate) fn wish(
        &mut self,
        now: Now,
        from: ConnRef,
        (session, number): (SessionRef, u32),
        (with, wish): (&Addressee, Wish),
        fx: &mut Effects,
    ) {
        let Some(asker) = self.asker(from, session) else { return };
        let wait = Requester { conn: from, session, number };
        if matches!(wish, Wish::Look)
            && let Some(fault) = self.may_not_read(wait, 1)
        {
            return self.read_is_refused(wait, fault, fx);
        }
        let fault = match &wish {
            Wish::Set(ConversationChange::Draft(draft))
                if draft.len() > self.settings.limits.chat.draft_bytes_max as usize =>
            {
                Some(ChatFault::TooLarge)
            }
            Wish::Read(_) | Wish::Set(_) if self.pressure >= Pressure::Stores => {
                Some(ChatFault::Busy)
            }
            _ => None,
        };
        let stored = match &wish {
            Wish::Set(ConversationChange::Draft(draft)) => BESIDE_BYTES + draft.len() as u64,
            Wish::Read(_) | Wish::Set(_) => BESIDE_BYTES,
            _ => 0,
        };
        let fault = fault.or_else(|| {
            let may = stored == 0 || self.may_store(now, &asker, stored, fx).is_ok();
            (!may).then_some(ChatFault::RateLimited)
        });
        if let Some(fault) = fault {
            return self.wish_fails(wait, &wish, fault, fx);
        }
        let with = with.within(asker.address.domain());
        if !with.is_group() {
            if self.flows.is_full() {
                return self.wish_fails(wait, &wish, ChatFault::Busy, fx);
            }
            self.begin(|flow| ask(flow, wait, asker, (with, wish)));
            return;
        }
        let conversation = groups::conversation_of(self.settings.home, &with);
        let Asker { inbox, address: by, .. } = asker;
        let what = Subject::One { conversation, by, with, peer: None };
        self.for_account(now, inbox, Task { wait, wish, what }, fx);
    }

    /// Carries out a request whose turn has come: the account's state is complete.
    pub(super) fn grant_wish(&mut self, now: Now, inbox: TimelineId, task: Task, fx: &mut Effects) {
        let Task { wait, wish, what } = task;
        let what = match what {
            Subject::Gone { by, with } => match self.conversation_with(inbox, &with) {
                Some(conversation) => Subject::One { conversation, by, with, peer: None },
                None => return self.wish_fails(wait, &wish, ChatFault::UnknownAccount, fx),
            },
            what => what,
        };
        if let (Wish::Reread(asked), Subject::One { conversation, .. }) = (&wish, &what) {
            return self.read_with_partner(now, PartnerAsked::clone(asked), *conversation, fx);
        }
        let (of, change) = match (what, &wish) {
            (_, Wish::Push(number)) => return self.push_known(now, *number, true, fx),
            (_, Wish::Position(key, of)) => {
                let reached = self.conversations.reached(inbox, *of);
                self.flows.reply(*key, Reply::Reached(Ok(reached)));
                return;
            }
            (_, Wish::Made(key, again)) => {
                let made = self.groups_made(inbox, *again);
                self.flows.reply(*key, Reply::GroupsMade(Ok(made)));
                return;
            }
            (_, Wish::Follow) => return self.cursors_known(now, inbox, true),
            (_, Wish::Bookmarks(number)) => {
                return self.bookmarks_known(now, *number, true, fx);
            }
            (_, Wish::Sum) => return,
            (Subject::All, Wish::List(part)) => {
                return self.list_conversations(now, (inbox, wait), *part, fx);
            }
            (Subject::One { conversation, .. }, Wish::Look) => {
                return self.look_at(now, (inbox, wait), conversation, fx);
            }
            (Subject::One { conversation, by, with, peer }, Wish::Read(upto)) => {
                ((conversation, by, with, peer), InboxChange::Read(*upto))
            }
            (Subject::One { conversation, by, with, .. }, Wish::Set(change)) => {
                ((conversation, by, with, None), InboxChange::Set(change.clone()))
            }
            _ => return self.wish_fails(wait, &wish, ChatFault::Invalid, fx),
        };
        let (conversation, by, with, peer) = of;
        let account = self.conversations.known.get(&inbox);
        let row = account.and_then(|account| account.knowledge.row(conversation));
        match judge(row, &with, &change) {
            Err(ChatFault::Invalid) if matches!(wish, Wish::Read(_)) => {
                let what = Subject::One { conversation, by, with, peer };
                self.reads_ahead(now, (inbox, conversation), Task { wait, wish, what }, fx);
            }
            Err(fault) => self.wish_fails(wait, &wish, fault, fx),
            Ok(Some(answer)) => self.wish_granted(wait, answer, fx),
            Ok(None) => {
                let route = match &change {
                    InboxChange::Read(upto) => match self.pace(now, (inbox, conversation)) {
                        Pace::Now => {
                            let peer = peer.filter(|_| self.shares_reads(inbox));
                            Route::of_read(inbox, peer, (conversation, *upto))
                        }
                        Pace::Later => {
                            let what = Subject::One { conversation, by, with, peer };
                            let read = (*upto, Task { wait, wish, what });
                            return self.receipts.paces.put((inbox, conversation), read);
                        }
                        Pace::Full => return self.wish_fails(wait, &wish, ChatFault::Busy, fx),
                    },
                    _ => Route { from: inbox, to: None, conversation, read: None },
                };
                let entry = Entry::Event(conversation, InboxEvent { with, what: change });
                let (id, owed) = (0, Vec::new());
                self.change(now, Changing { wait, entry, route, id, by, owed }, &wish, fx);
            }
        }
    }

    /// The number of groups that an account has made; 0 if it has already made the group `again`.
    fn groups_made(&self, inbox: TimelineId, again: TimelineId) -> usize {
        let knowledge = self.conversations.known.get(&inbox).map(|it| &it.knowledge);
        let is_made = |it: &&Knowledge| it.row(again).is_some_and(Row::is_made);
        knowledge.filter(|it| !is_made(it)).map_or(0, Knowledge::made)
    }

    /// Hands a change to the log; if another account is to get it, the outbox stores it, too.
    fn change(&mut self, now: Now, mut changing: Changing, wish: &Wish, fx: &mut Effects) {
        let Changing { wait, entry, route, by, .. } = &changing;
        let (wait, inbox) = (*wait, route.from);
        let is_told = route.read.is_some() && route.to.is_some();
        let fault = self.outbox.fault(self.settings.undistributed_max(), true);
        let fault = fault.filter(|_| is_told).or((!self.log.may_ask()).then_some(ChatFault::Busy));
        if let Some(fault) = fault {
            return self.wish_fails(wait, wish, fault, fx);
        }
        let (label, body) = match (entry, route.read) {
            (Entry::Event(_, event), Some(_)) => entry::own_read(*route, by, &event.with),
            _ => entry.encode(),
        };
        let mut to = vec![inbox];
        if is_told {
            to.push(self.outbox.timeline());
        }
        changing.owed = self.owe(now, (&[inbox], now.unix_s()), &changing.entry, fx);
        changing.id = self.next_id(now);
        let message = Arc::new(Message { id: changing.id, at_s: now.unix_s(), label, body });
        let Some(account) = self.conversations.known.get_mut(&inbox) else { return };
        account.step = Step::Changing(Box::new(changing));
        let append = Append { message, to, once: None, heard: None, ends: true };
        self.log.ask(PendingCall::Changed(inbox), Call::Write(Write::Append(append)), fx);
    }

    /// Takes the log's result for a change.
    pub(crate) fn changed(
        &mut self,
        now: Now,
        inbox: TimelineId,
        result: Answered,
        fx: &mut Effects,
    ) {
        let Some(account) = self.conversations.known.get_mut(&inbox) else { return };
        let Step::Changing(changing) = std::mem::replace(&mut account.step, Step::Ready) else {
            return;
        };
        let Changing { wait, entry, route, id, by, owed } = *changing;
        let place = match &result {
            Ok(Done::Appended(done)) => done.seqs.first().copied(),
            _ => None,
        };
        match result {
            Ok(Done::Appended(done)) if !done.seqs.is_empty() => {
                self.has_entry(now, (inbox, done.seqs[0]), &entry, fx);
                if let Entry::Event(_, event) = entry {
                    let answer = answer_of(&event.what);
                    let event = Arc::new(event);
                    let cargo = Cargo::Event(id, event.clone());
                    self.deliver(now, (inbox, done.seqs[0]), &cargo, fx);
                    self.clients_follow(now, (inbox, &by), &event, fx);
                    self.wish_granted(wait, answer, fx);
                }
                if let (Some(&place), Some(upto)) = (done.seqs.get(1), route.read) {
                    let cargo = Cargo::Event(id, Arc::new(entry::peer_read(by, upto)));
                    let place = (self.outbox.timeline(), place);
                    self.distribute(now, place, (route, &route.inboxes().into()), &cargo, fx);
                }
            }
            Ok(_) => self.change_fails(wait, ChatFault::StoreFailed, fx),
            Err(error) => self.change_fails(wait, fault_of(error), fx),
        }
        owed.into_iter().for_each(|inbox| self.owes(now, (inbox, place), fx));
        self.advance_account(now, inbox, fx);
    }

    /// Updates what clients of XMPP have published of a conversation, after its change.
    fn clients_follow(
        &mut self,
        now: Now,
        (inbox, by): (TimelineId, &AccountAddress),
        event: &InboxEvent,
        fx: &mut Effects,
    ) {
        let whose = || Whose { inbox, by: by.clone(), with: event.with.clone() };
        match &event.what {
            InboxChange::Read(upto) => self.is_displayed(whose(), *upto),
            InboxChange::Set(ConversationChange::Pin(_) | ConversationChange::Mute(_)) => {
                self.is_set(now, whose(), fx);
            }
            InboxChange::Set(_) | InboxChange::PeerRead(_) => {}
        }
    }

    fn wish_granted(&mut self, wait: Requester, answer: Answer, fx: &mut Effects) {
        let others = self.receipts.paces.follow(wait);
        for Requester { conn, session, number } in [wait].into_iter().chain(others) {
            let (counter, delivery) = match answer {
                Answer::Read(upto) => {
                    (ChatCounter::CursorsMoved, ChatDelivery::Read { number, upto })
                }
                Answer::Set => (ChatCounter::ConversationsSet, ChatDelivery::Set { number }),
            };
            fx.counters.count(counter);
            self.answer_session((conn, session), delivery, fx);
        }
    }

    pub(super) fn refuse_wish(
        &mut self,
        now: Now,
        (inbox, task): (TimelineId, Task),
        fault: ChatFault,
        fx: &mut Effects,
    ) {
        match task.wish {
            Wish::Push(number) => return self.push_known(now, number, false, fx),
            Wish::Position(key, _) => {
                self.flows.reply(key, Reply::Reached(Err(fault)));
                return;
            }
            Wish::Follow => return self.cursors_known(now, inbox, false),
            Wish::Bookmarks(number) => return self.bookmarks_known(now, number, false, fx),
            Wish::Made(key, _) => {
                self.flows.reply(key, Reply::GroupsMade(Err(fault)));
                return;
            }
            Wish::Sum => return,
            _ => {}
        }
        self.wish_fails(task.wait, &task.wish, fault, fx);
    }

    fn wish_fails(&mut self, wait: Requester, wish: &Wish, fault: ChatFault, fx: &mut Effects) {
        match wish {
            Wish::Read(_) | Wish::Set(_) => self.change_fails(wait, fault, fx),
            Wish::Reread(asked) => self.nobody_to_read_with(asked, fault, fx),
            Wish::Look | Wish::List(_) => self.read_fails(wait, fault, fx),
            // No device waits for these.
            Wish::Push(_) | Wish::Position(..) | Wish::Made(..) => {}
            Wish::Follow | Wish::Sum | Wish::Bookmarks(_) => {}
        }
    }

    fn change_fails(&mut self, wait: Requester, why: ChatFault, fx: &mut Effects) {
        let others = self.receipts.paces.follow(wait);
        for Requester { conn, session, number } in [wait].into_iter().chain(others) {
            fx.counters.count(ChatCounter::ChangesFailed);
            self.answer_session((conn, session), ChatDelivery::Failed { number, why }, fx);
        }
    }
}

/// The answer to a change.
enum Answer {
    Read(Seq),
    Set,
}

fn answer_of(change: &InboxChange) -> Answer {
    match change {
        InboxChange::Read(upto) | InboxChange::PeerRead(upto) => Answer::Read(*upto),
        InboxChange::Set(_) => Answer::Set,
    }
}

/// Whether a change is allowed; with an answer, the state has it already.
fn judge(
    row: Option<&Row>,
    with: &AccountAddress,
    change: &InboxChange,
) -> Result<Option<Answer>, ChatFault> {
    // An account outside of a group has no state of it; but it may begin a conversation with any
    // account.
    let nothing = if with.is_group() { ChatFault::NotMember } else { ChatFault::Invalid };
    match (change, row) {
        (InboxChange::Set(_), None) if !with.is_group() => Ok(None),
        (_, None) => Err(nothing),
        (InboxChange::Set(change), Some(row)) => Ok(row.is_set(change).then_some(Answer::Set)),
        (InboxChange::Read(upto) | InboxChange::PeerRead(upto), Some(row)) => {
            match *upto > row.last_seq {
                true => Err(ChatFault::Invalid),
                false => Ok((*upto <= row.read).then_some(Answer::Read(row.read))),
            }
        }
    }
}
