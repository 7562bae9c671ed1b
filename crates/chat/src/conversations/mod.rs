//! This shard's accounts' states of their conversations, kept in memory while they are in use.
//!
//! ```text
//! asked ─► line ┐
//!               ├ a row: all up to a place of the inbox ─► the inbox behind it ─► Ready ─► line
//!               └ in memory: each new entry of the inbox is added
//! ```
//! A state is the sum of the inbox, so neither sending nor distributing writes anything for it. Its
//! row is written now and then (`knowledge.rs`), so that little is read behind it. A change takes a
//! place in the inbox, one at a time per account: while the log stores it, other requests for the
//! account wait in line. Invariant: an answer is the sum of the inbox up to a place.

pub(crate) mod bookmarks;
pub(crate) mod changes;
pub(crate) mod chores;
pub(crate) mod displayed;
mod knowledge;
pub(crate) mod lists;
pub(crate) mod receipts;
mod unread;

use crate::accounts::fault_of;
use crate::inboxes::entry::Entry;
use crate::log::{Answered, PendingCall};
use crate::sessions::Requester;
use crate::waits::Waits;
use crate::{Chat, Effects};
use base::time::{Instant, Now};
use changes::{Changing, Subject, Task, Wish};
use knowledge::Knowledge;
use model::account::AccountAddress;
use model::chat::{ChatFault, MuteLevel};
use model::counters::ChatCounter;
use model::ports::log::{Call, Done, PAGE_MESSAGES_MAX, Pull, Read, RowHome, Table, Write};
use model::timeline::{ReaderId, Seq, TimelineId};
use std::collections::{HashMap, VecDeque};

/// Maximum of requests that wait for one account's state. A further one is answered as busy.
const LINE_MAX: usize = 64;

/// Maximum bytes of an inbox that are read at once.
const LOAD_BYTES_MAX: usize = 256 * 1024;

/// Entries after which an inbox is added up even without a request, so that retention may drop the
/// old ones.
const SUMMED_AFTER: Seq = 1_024;

/// How long a read cursor waits for its message to reach the reader's inbox, milliseconds.
const READ_AHEAD_MS: u32 = 1_000;

/// Maximum of cursors that wait so, per shard. A further one is answered as invalid at once.
const READS_AHEAD_MAX: usize = 1_024;

/// Memory of an account itself, counted in conversations.
const BESIDE_CONVERSATIONS: usize = 2;

/// The states of accounts, by their inboxes.
#[derive(Default)]
pub(crate) struct Conversations {
    known: HashMap<TimelineId, Account>,
    /// The conversations in memory as counted at the last request for each account, and some for
    /// each account itself.
    count: usize,
    /// Counts requests: the account that was last asked for is kept longest.
    clock: u64,
    /// Read cursors of messages that the reader's inbox does not have yet: a message is answered
    /// when its conversation has it, a moment before the sender's own inbox does.
    ahead: Waits<ReadAhead>,
}

/// A read cursor that came before the message that it names.
struct ReadAhead {
    inbox: TimelineId,
    conversation: TimelineId,
    task: Task,
}

/// The state of one account, and the requests that wait for it.
#[derive(Default)]
struct Account {
    knowledge: Knowledge,
    step: Step,
    /// The last place of the inbox that is known to have an entry.
    head: Seq,
    /// The place up to which the row stores the state.
    stored: Seq,
    line: VecDeque<Task>,
    asked_at: u64,
    /// The part of the count that is this account's.
    counted: usize,
}

#[derive(Default)]
enum Step {
    /// The row is being read.
    #[default]
    Unread,
    /// The inbox is being read; its last known place was this when the read began.
    Loading(Seq),
    Ready,
    /// The log is storing a change.
    Changing(Box<Changing>),
}

/// An account's read position in a conversation; and the last place of the conversation, with the
/// place of its last message in the inbox.
pub(crate) type Reached = (Seq, (Seq, Seq));

impl Conversations {
    fn counts(&mut self, inbox: TimelineId) {
        if let Some(account) = self.known.get_mut(&inbox) {
            let count = account.knowledge.len() + BESIDE_CONVERSATIONS;
            self.count = self.count + count - account.counted;
            account.counted = count;
        }
    }

    fn forget(&mut self, inbox: TimelineId) -> Option<Account> {
        let account = self.known.remove(&inbox)?;
        self.count -= account.counted;
        Some(account)
    }

    /// Forgets an erased account.
    pub(crate) fn is_erased(&mut self, inbox: TimelineId) {
        let is_idle = |it: &Account| matches!(it.step, Step::Ready) && it.line.is_empty();
        if self.known.get(&inbox).is_some_and(is_idle) {
            self.forget(inbox);
        }
    }

    /// With too many conversations in memory, forgets those of the accounts that were asked for
    /// least recently, until there is room for some.
    fn make_room(&mut self, most: usize) {
        if self.count < most {
            return;
        }
        let is_idle = |it: &Account| matches!(it.step, Step::Ready) && it.line.is_empty();
        let idle = self.known.iter().filter(|(_, it)| is_idle(it));
        let mut idle: Vec<_> = idle.map(|(inbox, it)| (it.asked_at, *inbox)).collect();
        idle.sort_unstable();
        for (_, inbox) in idle {
            if self.count < most - most / 8 {
                break;
            }
            self.forget(inbox);
        }
    }

    /// The unread messages of an account in memory, of all its conversations, as far as their mutes
    /// let them notify.
    pub(crate) fn badge(&self, inbox: TimelineId) -> u32 {
        let known = self.known.get(&inbox);
        let rows = known.into_iter().flat_map(|account| account.knowledge.before(Seq::MAX));
        let count = |row: &knowledge::Row| match row.muted {
            MuteLevel::Off => row.unread(),
            MuteLevel::ButMentions => row.mentions(),
            MuteLevel::Everything => 0,
        };
        rows.map(|(_, row)| u32::from(count(row))).sum()
    }

    /// The read position of an account in memory in a conversation, and the conversation's mute.
    pub(crate) fn kept(&self, inbox: TimelineId, of: TimelineId) -> Option<(Seq, MuteLevel)> {
        let row = self.known.get(&inbox)?.knowledge.row(of)?;
        Some((row.read, row.muted))
    }

    /// Whether an account in memory has pinned its conversation with somebody, and how that is
    /// muted.
    pub(crate) fn settings(
        &self,
        inbox: TimelineId,
        with: &AccountAddress,
    ) -> Option<(bool, MuteLevel)> {
        let known = &self.known.get(&inbox)?.knowledge;
        let mut rows = known.before(Seq::MAX).map(|(_, row)| row);
        rows.find(|row| row.with == *with).map(|row| (row.pinned, row.muted))
    }

    /// The position of an account in memory in a conversation.
    pub(crate) fn reached(&self, inbox: TimelineId, of: TimelineId) -> Option<Reached> {
        let row = self.known.get(&inbox)?.knowledge.row(of)?;
        Some((row.read, (row.last_seq, row.place)))
    }

    /// The last place of a conversation that is in the inbox of an account in memory, and whether
    /// the account has left the conversation.
    pub(crate) fn drawn(&self, inbox: TimelineId, of: TimelineId) -> Option<(Seq, bool)> {
        let row = self.known.get(&inbox)?.knowledge.row(of)?;
        Some((row.last_seq, row.left))
    }

    pub(crate) fn audit(&self) {
        let count: usize = self.known.values().map(|account| account.counted).sum();
        assert_eq!(count, self.count, "all of them are counted");
    }
}

impl Chat {
    /// Takes a request about the state of an account of this shard.
    pub(crate) fn for_account(
        &mut self,
        now: Now,
        inbox: TimelineId,
        task: Task,
        fx: &mut Effects,
    ) {
        let most = self.settings.limits.chat.conversations_known_max as usize;
        let all = &mut self.conversations;
        let is_new = !all.known.contains_key(&inbox);
        let is_full = all.known.get(&inbox).is_some_and(|it| it.line.len() >= LINE_MAX);
        if is_full || !self.log.may_ask() {
            return self.refuse_wish(now, (inbox, task), ChatFault::Busy, fx);
        }
        if is_new {
            all.make_room(most);
        }
        all.clock += 1;
        let account = all.known.entry(inbox).or_default();
        account.asked_at = all.clock;
        account.line.push_back(task);
        all.counts(inbox);
        if is_new {
            fx.counters.count(ChatCounter::ConversationsLoaded);
            let read = Read::Row { table: Table::ChatStates, key: key_of(inbox) };
            return self.log.ask(PendingCall::State(inbox), Call::Read(read), fx);
        }
        self.advance_account(now, inbox, fx);
    }

    /// Takes the row of an account's state, which was read.
    pub(crate) fn state_read(
        &mut self,
        now: Now,
        inbox: TimelineId,
        result: Answered,
        fx: &mut Effects,
    ) {
        let Some(account) = self.conversations.known.get_mut(&inbox) else { return };
        match result {
            Ok(Done::Row(row)) => {
                // A row that cannot be decoded is replaced by the sum of the whole inbox.
                let row = row.and_then(|row| Knowledge::decode(&row));
                account.knowledge = row.unwrap_or_default();
                account.stored = account.knowledge.upto;
                self.load(inbox, fx);
            }
            Ok(_) => self.give_account_up(now, inbox, ChatFault::StoreFailed, fx),
            Err(error) => self.give_account_up(now, inbox, fault_of(error), fx),
        }
    }

    /// The conversation of an account in memory with somebody; of all partners that had that name,
    /// the one with the last change.
    pub(crate) fn conversation_with(
        &self,
        inbox: TimelineId,
        with: &AccountAddress,
    ) -> Option<TimelineId> {
        let known = &self.conversations.known.get(&inbox)?.knowledge;
        known.before(Seq::MAX).find(|(_, row)| row.with == *with).map(|(of, _)| of)
    }

    /// Reads the inbox behind the place up to which it is added up.
    fn load(&mut self, inbox: TimelineId, fx: &mut Effects) {
        let Some(account) = self.conversations.known.get_mut(&inbox) else { return };
        account.step = Step::Loading(account.head);
        let (from, count_max, bytes_max) =
            (account.knowledge.upto, PAGE_MESSAGES_MAX, LOAD_BYTES_MAX);
        let pull = Pull { timeline: inbox, from, backwards: false, count_max, bytes_max };
        self.log.ask(PendingCall::Knowledge(inbox), Call::Read(Read::Pull(pull)), fx);
    }

    /// Takes a page of the inbox of an account that is being loaded.
    pub(crate) fn knowledge_read(
        &mut self,
        now: Now,
        inbox: TimelineId,
        result: Answered,
        fx: &mut Effects,
    ) {
        let most = self.settings.limits.chat.conversations_an_account_max as usize;
        let Some(account) = self.conversations.known.get_mut(&inbox) else { return };
        let Step::Loading(head) = account.step else { return };
        let page = match result {
            Ok(Done::Page(page)) => page,
            Ok(_) => return self.give_account_up(now, inbox, ChatFault::StoreFailed, fx),
            Err(error) => return self.give_account_up(now, inbox, fault_of(error), fx),
        };
        let knowledge = &mut account.knowledge;
        for placed in &page.messages {
            match Entry::decode(&placed.message) {
                Some(entry) => {
                    if knowledge.has(placed.seq, &entry, most) {
                        fx.counters.count(ChatCounter::ConversationsForgotten);
                    }
                }
                None => knowledge.passes(placed.seq),
            }
        }
        page.damaged.last().into_iter().for_each(|place| knowledge.passes(*place));
        if !page.more {
            knowledge.passes(head); // the inbox was read at least up to here
        }
        let is_whole = !page.more && knowledge.upto >= account.head;
        self.conversations.counts(inbox);
        if !is_whole {
            return self.load(inbox, fx);
        }
        if let Some(account) = self.conversations.known.get_mut(&inbox) {
            account.step = Step::Ready;
        }
        self.store_if_due(inbox, fx);
        self.advance_account(now, inbox, fx);
    }

    /// Gives up an account whose state cannot be read now: its waiting requests fail.
    fn give_account_up(&mut self, now: Now, inbox: TimelineId, fault: ChatFault, fx: &mut Effects) {
        let Some(account) = self.conversations.forget(inbox) else { return };
        for task in account.line {
            self.refuse_wish(now, (inbox, task), fault, fx);
        }
    }

    /// Adds an entry that was stored in an inbox of this shard.
    pub(crate) fn has_entry(
        &mut self,
        now: Now,
        (inbox, place): (TimelineId, Seq),
        entry: &Entry,
        fx: &mut Effects,
    ) {
        let most = self.settings.limits.chat.conversations_an_account_max as usize;
        let Some(account) = self.conversations.known.get_mut(&inbox) else {
            if place.is_multiple_of(SUMMED_AFTER) {
                let (wait, wish, what) = (Requester::NOBODY, Wish::Sum, Subject::All);
                self.for_account(now, inbox, Task { wait, wish, what }, fx);
            }
            return;
        };
        account.head = account.head.max(place);
        let is_loaded = matches!(account.step, Step::Ready | Step::Changing(_));
        if !is_loaded || place <= account.knowledge.upto {
            return; // the entry is being read, or was
        }
        if account.knowledge.has(place, entry, most) {
            fx.counters.count(ChatCounter::ConversationsForgotten);
        }
        self.conversations.counts(inbox);
        self.store_if_due(inbox, fx);
        self.judge_reads_ahead(now, (inbox, entry.conversation()), fx);
    }

    /// Keeps a read cursor whose message the reader's inbox does not have, until the inbox has
    /// another entry of the conversation.
    fn reads_ahead(
        &mut self,
        now: Now,
        (inbox, conversation): (TimelineId, TimelineId),
        task: Task,
        fx: &mut Effects,
    ) {
        if self.conversations.ahead.len() >= READS_AHEAD_MAX {
            return self.refuse_wish(now, (inbox, task), ChatFault::Invalid, fx);
        }
        self.conversations.ahead.put(ReadAhead { inbox, conversation, task });
    }

    /// Judges the cursors again that wait for an entry of a conversation in an inbox.
    fn judge_reads_ahead(
        &mut self,
        now: Now,
        (inbox, conversation): (TimelineId, TimelineId),
        fx: &mut Effects,
    ) {
        if self.conversations.ahead.len() == 0 {
            return;
        }
        let is_of = |it: &ReadAhead| it.inbox == inbox && it.conversation == conversation;
        for ahead in self.conversations.ahead.take_all(is_of) {
            self.for_account(now, inbox, ahead.task, fx);
        }
    }

    /// Refuses cursors whose message did not come in time; returns when to look again.
    pub(crate) fn turn_reads_ahead(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let (over, next) = self.conversations.ahead.overdue(now, READ_AHEAD_MS);
        for ReadAhead { inbox, task, .. } in over {
            self.refuse_wish(now, (inbox, task), ChatFault::Invalid, fx);
        }
        next
    }

    /// Stores an account's state, if much was added since it was stored; the larger the state, the
    /// more must be added.
    fn store_if_due(&mut self, inbox: TimelineId, fx: &mut Effects) {
        let least = self.settings.limits.chat.conversations_stored_after as usize;
        let Some(account) = self.conversations.known.get_mut(&inbox) else { return };
        let knowledge = &account.knowledge;
        if !self.log.has_failed()
            && knowledge.upto - account.stored >= least.max(knowledge.len()) as u64
        {
            account.stored = knowledge.upto;
            let (table, key, value) = (Table::ChatStates, key_of(inbox), knowledge.encode());
            let summed = PendingCall::Summed(Box::new((inbox, knowledge.upto)));
            self.log.ask(summed, Call::Write(Write::Put { table, key, value }), fx);
        }
    }

    /// Takes the log's result for the row of an account's state. Entries up to a stored row are not
    /// read again, so the inbox may lose them.
    pub(crate) fn summed(
        &mut self,
        (timeline, upto): (TimelineId, Seq),
        result: &Answered,
        fx: &mut Effects,
    ) {
        let reader = ReaderId::KNOWLEDGE;
        match (result, self.conversations.known.get_mut(&timeline)) {
            (Ok(_), _) => self.log.write(Write::Acknowledge { timeline, reader, upto }, fx),
            // The next entry finds the row due again.
            (Err(_), Some(account)) => account.stored = 0,
            (Err(_), None) => {}
        }
    }

    /// Carries out the waiting requests of an account, until one changes its state.
    fn advance_account(&mut self, now: Now, inbox: TimelineId, fx: &mut Effects) {
        while let Some(account) = self.conversations.known.get_mut(&inbox)
            && matches!(account.step, Step::Ready)
            && let Some(task) = account.line.pop_front()
        {
            self.grant_wish(now, inbox, task, fx);
        }
    }
}

/// The key of the row with the state of the account with this inbox.
fn key_of(inbox: TimelineId) -> Box<[u8]> {
    RowHome::key_of(inbox, &[])
}
