//! What accounts of this shard know of their conversations, kept in memory while they are in use.
//!
//! ```text
//! asked ─► line ┐
//!               ├ a row: all up to a place of the inbox ─► the inbox behind it ─► Ready ─► line
//!               └ in memory: whatever takes a place in the inbox is added as it does
//! ```
//! It is the sum of the inbox, so neither sending nor distributing writes anything for it. The row
//! is written now and then (`knowledge.rs`), so that little is read behind it. A change takes a
//! place in the inbox, one at a time an account: while one is with the log, whatever else is asked
//! waits in line. Invariant: what is answered is the sum of the inbox up to a place.

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

/// What may wait for what one account knows. One more is answered as busy.
const LINE_MAX: usize = 64;

/// Bytes of an inbox that are read at once.
const LOAD_BYTES_MAX: usize = 256 * 1024;

/// After so many entries an inbox is added up though nobody asks for it, so that retention may drop
/// what is old of it.
const SUMMED_AFTER: Seq = 1_024;

/// How long a read cursor waits for the message that it names to reach the reader's inbox.
const READ_AHEAD_MS: u32 = 1_000;

/// So many cursors wait for that on a shard. One more is answered as invalid at once.
const READS_AHEAD_MAX: usize = 1_024;

/// What an account costs as if it were conversations.
const BESIDE_CONVERSATIONS: usize = 2;

/// What accounts know, by their inboxes.
#[derive(Default)]
pub(crate) struct Conversations {
    known: HashMap<TimelineId, Account>,
    /// Conversations of all of them when they were asked last, and some for each account itself.
    count: usize,
    /// Counts what is asked: who was asked for last is kept longest.
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

/// What one of them knows, and who waits for it.
#[derive(Default)]
struct Account {
    knowledge: Knowledge,
    step: Step,
    /// The last place of the inbox that is known to be taken.
    head: Seq,
    /// Up to here it is stored as a row.
    stored: Seq,
    line: VecDeque<Task>,
    asked_at: u64,
    /// What it was counted as.
    counted: usize,
}

#[derive(Default)]
enum Step {
    /// The row is being read.
    #[default]
    Unread,
    /// The inbox is being read, which was known up to here when that was asked.
    Loading(Seq),
    Ready,
    /// A change is with the log.
    Changing(Box<Changing>),
}

/// How far an account has read a conversation; and what was said last there, with its place in the
/// inbox.
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

    /// Nothing is left of an account.
    pub(crate) fn is_erased(&mut self, inbox: TimelineId) {
        let is_idle = |it: &Account| matches!(it.step, Step::Ready) && it.line.is_empty();
        if self.known.get(&inbox).is_some_and(is_idle) {
            self.forget(inbox);
        }
    }

    /// With too many in memory, those of accounts that nobody asked for longest are forgotten,
    /// until there is room for some.
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

    /// What is unread of an account that is in memory, of all conversations, as far as it may make
    /// noise.
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

    /// How far such an account has read a conversation, and how it is muted.
    pub(crate) fn kept(&self, inbox: TimelineId, of: TimelineId) -> Option<(Seq, MuteLevel)> {
        let row = self.known.get(&inbox)?.knowledge.row(of)?;
        Some((row.read, row.muted))
    }

    /// Whether such an account has pinned its conversation with somebody, and how that is muted.
    pub(crate) fn settings(
        &self,
        inbox: TimelineId,
        with: &AccountAddress,
    ) -> Option<(bool, MuteLevel)> {
        let known = &self.known.get(&inbox)?.knowledge;
        let mut rows = known.before(Seq::MAX).map(|(_, row)| row);
        rows.find(|row| row.with == *with).map(|row| (row.pinned, row.muted))
    }

    /// How far such an account is with a conversation.
    pub(crate) fn reached(&self, inbox: TimelineId, of: TimelineId) -> Option<Reached> {
        let row = self.known.get(&inbox)?.knowledge.row(of)?;
        Some((row.read, (row.last_seq, row.place)))
    }

    /// How far the inbox of such an account has a conversation, and whether it is none of it any
    /// more.
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
    /// Something is asked of what an account of this shard knows.
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

    /// The row of what an account knows was read.
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
                // What cannot be read is added up anew.
                let row = row.and_then(|row| Knowledge::decode(&row));
                account.knowledge = row.unwrap_or_default();
                account.stored = account.knowledge.upto;
                self.load(inbox, fx);
            }
            Ok(_) => self.give_account_up(now, inbox, ChatFault::StoreFailed, fx),
            Err(error) => self.give_account_up(now, inbox, fault_of(error), fx),
        }
    }

    /// The conversation of an account in memory with somebody, of all that had that name the one in
    /// which something happened last.
    pub(crate) fn conversation_with(
        &self,
        inbox: TimelineId,
        with: &AccountAddress,
    ) -> Option<TimelineId> {
        let known = &self.conversations.known.get(&inbox)?.knowledge;
        known.before(Seq::MAX).find(|(_, row)| row.with == *with).map(|(of, _)| of)
    }

    /// Reads what stands in an inbox behind what is known.
    fn load(&mut self, inbox: TimelineId, fx: &mut Effects) {
        let Some(account) = self.conversations.known.get_mut(&inbox) else { return };
        account.step = Step::Loading(account.head);
        let (from, count_max, bytes_max) =
            (account.knowledge.upto, PAGE_MESSAGES_MAX, LOAD_BYTES_MAX);
        let pull = Pull { timeline: inbox, from, backwards: false, count_max, bytes_max };
        self.log.ask(PendingCall::Knowledge(inbox), Call::Read(Read::Pull(pull)), fx);
    }

    /// A page of the inbox of an account that is being loaded.
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
            knowledge.passes(head); // it was read behind that
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

    /// What an account knows cannot be read now: whoever waits is told why.
    fn give_account_up(&mut self, now: Now, inbox: TimelineId, fault: ChatFault, fx: &mut Effects) {
        let Some(account) = self.conversations.forget(inbox) else { return };
        for task in account.line {
            self.refuse_wish(now, (inbox, task), fault, fx);
        }
    }

    /// Something has its place in an inbox of this shard.
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
            return; // it is being read, or was
        }
        if account.knowledge.has(place, entry, most) {
            fx.counters.count(ChatCounter::ConversationsForgotten);
        }
        self.conversations.counts(inbox);
        self.store_if_due(inbox, fx);
        self.judge_reads_ahead(now, (inbox, entry.conversation()), fx);
    }

    /// A read cursor names a message that the reader's inbox does not have: it waits until that
    /// has something more of the conversation.
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

    /// An inbox has something more of a conversation: cursors that waited for it are judged again.
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

    /// Cursors whose message did not come are refused; when to look again.
    pub(crate) fn turn_reads_ahead(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let (over, next) = self.conversations.ahead.overdue(now, READ_AHEAD_MS);
        for ReadAhead { inbox, task, .. } in over {
            self.refuse_wish(now, (inbox, task), ChatFault::Invalid, fx);
        }
        next
    }

    /// Stores what an account knows, if much was added since it was stored; the more it knows, the
    /// more must be.
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

    /// The row of what an account knows is stored, or not. What is in it is not read again, so the
    /// inbox may lose that.
    pub(crate) fn summed(
        &mut self,
        (timeline, upto): (TimelineId, Seq),
        result: &Answered,
        fx: &mut Effects,
    ) {
        let reader = ReaderId::KNOWLEDGE;
        match (result, self.conversations.known.get_mut(&timeline)) {
            (Ok(_), _) => self.log.write(Write::Acknowledge { timeline, reader, upto }, fx),
            // The next entry finds it due.
            (Err(_), Some(account)) => account.stored = 0,
            (Err(_), None) => {}
        }
    }

    /// Does what waits for what an account knows, until one of it changes that.
    fn advance_account(&mut self, now: Now, inbox: TimelineId, fx: &mut Effects) {
        while let Some(account) = self.conversations.known.get_mut(&inbox)
            && matches!(account.step, Step::Ready)
            && let Some(task) = account.line.pop_front()
        {
            self.grant_wish(now, inbox, task, fx);
        }
    }
}

/// The key of the row of what the account with this inbox knows.
fn key_of(inbox: TimelineId) -> Box<[u8]> {
    RowHome::key_of(inbox, &[])
}
