//! Erasure: deletes all data of an account, and recalls the messages that it sent.
//!
//! ```text
//! Erase ─► a row says so ─► messages ─► groups ─► contacts ─► nodes ─► rows ─► the account's row
//!            │ after a start: goes on at the offset of the row                   │
//!            └─ logins by the name are refused, and its sessions have ended      └─► its own row
//! ```
//! Each step makes requests as an operator's errand would ([`errands`](crate::operators::errands)),
//! so every rule of conversations, groups and contacts holds, and others are notified as usual: a
//! recalled message keeps its offset, and has no content. Requests are idempotent, so a step that a
//! crash interrupted is begun again. Invariant: when the row is deleted, the log has nothing of the
//! account but empty offsets, messages that others sent to it in their own conversations, and
//! notices of recalls.

mod rows;
mod steps;

use crate::accounts::AccountRow;
use crate::log::{Answered, PendingCall};
use crate::operators::errands::{self, Owed};
use crate::sessions::{Asker, Requester};
use crate::{Chat, Effects};
use base::bytes::ByteReader;
use base::time::{Instant, Now};
use model::account::AccountAddress;
use model::chat::{ChatDelivery, ChatFault};
use model::counters::ChatCounter;
use model::ports::chat::{ChatAnswer, ChatCommand, ErasureStatus, ErrandWhat};
use model::ports::log::{Call, RowHome, Table, Write};
use model::timeline::{Seq, TimelineId};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;
use steps::Step;

/// Version of a row.
const VERSION: u8 = 1;

/// Erasures of a shard with open requests. The others wait in line, the earliest first; an erasure
/// that waits for a time occupies no place.
const AT_ONCE: usize = 4;

/// Pause before a step that failed is begun again.
const AGAIN: Duration = Duration::from_secs(1);

/// Accounts of this shard that are being erased, by their inboxes.
#[derive(Default)]
pub(crate) struct Erasures {
    open: BTreeMap<TimelineId, Erasure>,
    /// Inboxes of the accounts that are being erased, by their addresses.
    names: HashMap<AccountAddress, TimelineId>,
    /// Replies that are handled at the next turn.
    heard: Vec<(TimelineId, ChatDelivery)>,
    /// Accounts whose erasure row is being written, with the commands that wait for it.
    beginning: BTreeMap<AccountAddress, Vec<u64>>,
}

/// An account that is being erased.
pub(crate) struct Erasure {
    pub(super) address: AccountAddress,
    pub(super) step: Step,
    /// Replies that have not arrived.
    pub(super) waiting: u32,
    /// A request of the step failed for now.
    pub(super) has_failed: bool,
    /// Its messages in read groups have been copied to its inbox.
    pub(super) is_drawn: bool,
    /// Time at which the erasure continues.
    due: Instant,
    /// Number of recalled messages.
    pub(super) messages: u64,
    /// Messages are recalled up to this offset of its inbox.
    pub(super) done: Seq,
    /// Messages that were on their way have had time to reach the inbox.
    pub(super) has_settled: bool,
}

/// Name of an erasure's row among the rows of an account.
const NAME: &[u8] = b"erasing";

/// The key of the row of an account with this inbox.
fn key_of(inbox: TimelineId) -> Box<[u8]> {
    RowHome::key_of(inbox, &[NAME])
}

impl Erasures {
    /// Restores an erasure from its row at the start of the shard, and continues it.
    pub(crate) fn restore(&mut self, key: &[u8], value: &[u8]) -> bool {
        let named = RowHome::parts_of(key).filter(|(_, name)| *name == NAME);
        let read = || {
            let mut bytes = ByteReader::of(VERSION, value)?;
            let (after, messages) = (bytes.u64()?, bytes.u64()?);
            let address = std::str::from_utf8(bytes.rest()).ok()?;
            Some((after, messages, AccountAddress::parse(address, "").ok()?))
        };
        let Some(((inbox, _), (after, messages, address))) = named.zip(read()) else {
            return false;
        };
        self.put(inbox, Erasure::new(address, after, messages));
        true
    }

    /// The write of the row of a new erasure, which continues after a restart.
    pub(crate) fn row_of(&self, inbox: TimelineId, address: &AccountAddress) -> Write {
        Erasure::new(address.clone(), 0, 0).put(inbox)
    }

    /// Begins an erasure whose row is stored.
    pub(crate) fn opens(&mut self, inbox: TimelineId, address: AccountAddress) {
        if !self.has(inbox) {
            self.put(inbox, Erasure::new(address, 0, 0));
        }
    }

    fn put(&mut self, inbox: TimelineId, erasure: Erasure) {
        self.names.insert(erasure.address.clone(), inbox);
        self.open.insert(inbox, erasure);
    }

    /// Forgets an erasure that is finished.
    fn take(&mut self, inbox: TimelineId) -> Option<Erasure> {
        let erasure = self.open.remove(&inbox)?;
        self.names.remove(&erasure.address);
        Some(erasure)
    }

    /// Number of erasures.
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether an account is being erased.
    pub(crate) fn has(&self, inbox: TimelineId) -> bool {
        self.open.contains_key(&inbox)
    }

    /// Whether an account of this name is being erased: a login by the name would be taken for it.
    pub(crate) fn has_name(&self, address: &AccountAddress) -> bool {
        self.of(address).is_some()
    }

    /// Status of the erasure that keeps a command from being carried out: data that the command
    /// wrote would be deleted at once, or be left behind.
    pub(crate) fn keeps_from(&self, command: &ChatCommand) -> Option<ErasureStatus> {
        let address = match command {
            ChatCommand::Open(address)
            | ChatCommand::MoveIn(address, _)
            | ChatCommand::ChangeMoved(address, _)
            | ChatCommand::MovedUpTo(address, _) => address,
            ChatCommand::Errand(errand) if errand.what.is_change() => &errand.by,
            _ => return None,
        };
        let begins = || {
            let erasure = || Erasure::new(address.clone(), 0, 0).status();
            self.beginning.contains_key(address).then(erasure)
        };
        self.of(address).map(Erasure::status).or_else(begins)
    }

    /// The erasure of an account, by its address.
    fn of(&self, address: &AccountAddress) -> Option<&Erasure> {
        self.names.get(address).and_then(|inbox| self.open.get(inbox))
    }
}

impl Erasure {
    fn new(address: AccountAddress, after: Seq, messages: u64) -> Erasure {
        let (step, due) = (Step::Messages { after }, Instant::default());
        let (waiting, has_failed, is_drawn) = (0, false, false);
        let (done, has_settled) = (after, false);
        Erasure { address, step, waiting, has_failed, is_drawn, due, messages, done, has_settled }
    }

    fn row(&self) -> Box<[u8]> {
        let numbers = [self.done, self.messages].map(u64::to_le_bytes).concat();
        [&[VERSION][..], &numbers, self.address.as_str().as_bytes()].concat().into()
    }

    /// The write that stores the progress of an erasure.
    fn put(&self, inbox: TimelineId) -> Write {
        Write::Put { table: Table::ChatApart, key: key_of(inbox), value: self.row() }
    }

    fn status(&self) -> ErasureStatus {
        ErasureStatus { messages: self.messages, step: self.step.word() }
    }
}

impl Chat {
    /// Answers an operator's command with the status of a running erasure. True: it is answered.
    pub(crate) fn is_erasing(
        &mut self,
        ask: u64,
        address: &AccountAddress,
        fx: &mut Effects,
    ) -> bool {
        let status = self.erasures.of(address).map(Erasure::status);
        let is_open = status.is_some();
        fx.answers.extend(status.map(|status| (ask, ChatAnswer::Erasing(Some(status)))));
        is_open
    }

    /// Begins the erasure of an account that has been found.
    pub(crate) fn erase(
        &mut self,
        ask: u64,
        address: &AccountAddress,
        row: AccountRow,
        fx: &mut Effects,
    ) {
        if self.is_erasing(ask, address, fx) {
            return;
        }
        let inbox = address.inbox(self.settings.home, row.id);
        let waiting = self.erasures.beginning.entry(address.clone()).or_default();
        waiting.push(ask);
        if waiting.len() > 1 {
            return;
        }
        let write = Erasure::new(address.clone(), 0, 0).put(inbox);
        let begun = PendingCall::ErasureBegun(Box::new((inbox, address.clone())));
        self.log.ask(begun, Call::Write(write), fx);
    }

    /// Handles the write of an erasure's row: from now on no client can log in by the name.
    pub(crate) fn erasure_begun(
        &mut self,
        (inbox, address): (TimelineId, AccountAddress),
        result: Answered,
        fx: &mut Effects,
    ) {
        let asks = self.erasures.beginning.remove(&address).unwrap_or_default();
        let answer = match result {
            Ok(_) => {
                let erasure = Erasure::new(address, 0, 0);
                let status = erasure.status();
                fx.counters.count(ChatCounter::ErasuresBegun);
                self.erasures.put(inbox, erasure);
                self.end_all(inbox, fx);
                ChatAnswer::Erasing(Some(status))
            }
            Err(_) => ChatAnswer::StoreFailed,
        };
        fx.answers.extend(asks.into_iter().map(|ask| (ask, answer.clone())));
    }

    /// Makes a request on behalf of an account that is being erased.
    pub(super) fn erasure_asks(
        &mut self,
        now: Now,
        inbox: TimelineId,
        what: ErrandWhat,
        fx: &mut Effects,
    ) {
        let Some(wait) = self.errand_of_erasure(inbox, false) else { return };
        self.request(now, wait.conn, errands::request_of(wait.session, what), fx);
    }

    /// Registers an errand whose reply goes to an erasure; returns its requester.
    pub(super) fn errand_of_erasure(
        &mut self,
        inbox: TimelineId,
        is_operator: bool,
    ) -> Option<Requester> {
        let erasure = self.erasures.open.get_mut(&inbox)?;
        erasure.waiting += 1;
        let (address, device) = (erasure.address.clone(), Box::default());
        let asker = Asker { inbox, address, device, is_operator, source: None };
        Some(self.puts_errand(Owed::Erasure(inbox), asker))
    }

    /// Queues the reply to a request of an erasure.
    pub(crate) fn erasure_hears(&mut self, inbox: TimelineId, told: ChatDelivery) {
        self.erasures.heard.push((inbox, told));
    }

    /// Continues the erasures; returns when to be called again.
    pub(crate) fn turn_erasures(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        if self.erasures.open.is_empty() {
            return None;
        }
        for (inbox, told) in std::mem::take(&mut self.erasures.heard) {
            self.erasure_told(now, inbox, told, fx);
        }
        let waits = |it: &&Erasure| it.waiting == 0;
        let room = |all: &Erasures| {
            AT_ONCE.saturating_sub(all.open.values().filter(|it| it.waiting > 0).count())
        };
        let ready = self.erasures.open.iter().filter(|(_, it)| waits(it) && it.due <= now.mono);
        let mut ready: Vec<_> = ready.map(|(inbox, it)| (it.due, *inbox)).collect();
        ready.sort_unstable();
        ready.truncate(room(&self.erasures));
        for (_, inbox) in ready {
            self.erasure_steps(now, inbox, fx);
        }
        // An erasure that waits for a place continues when a reply arrives.
        let next = self.erasures.open.values().filter(waits).map(|it| it.due).min();
        let next = next.filter(|_| room(&self.erasures) > 0);
        let has_heard = !self.erasures.heard.is_empty();
        has_heard.then_some(now.mono).or(next.map(|due| due.max(now.mono)))
    }

    /// Postpones an erasure; its step is begun again after this time.
    pub(super) fn erasure_waits(&mut self, now: Now, inbox: TimelineId, after: Duration) {
        if let Some(erasure) = self.erasures.open.get_mut(&inbox) {
            erasure.due = now.after(after);
        }
    }

    /// Continues an erasure at the next turn, since its messages in read groups have been copied.
    pub(crate) fn erasure_has_drawn(&mut self, now: Now, inbox: TimelineId) {
        self.erasure_waits(now, inbox, Duration::ZERO);
    }

    /// Handles the reply to a request of a step.
    fn erasure_told(&mut self, now: Now, inbox: TimelineId, told: ChatDelivery, fx: &mut Effects) {
        let Some(erasure) = self.erasures.open.get_mut(&inbox) else { return };
        erasure.waiting = erasure.waiting.saturating_sub(1);
        if let ChatDelivery::Failed { why, .. } = &told
            && is_for_now(*why)
        {
            erasure.has_failed = true;
        } else if self.step_told(inbox, told) {
            return;
        }
        let Some(erasure) = self.erasures.open.get_mut(&inbox) else { return };
        if erasure.waiting > 0 {
            return;
        }
        if std::mem::take(&mut erasure.has_failed) {
            return self.erasure_waits(now, inbox, AGAIN);
        }
        self.step_over(now, inbox, fx);
    }

    /// Stores the progress of an erasure.
    pub(super) fn keep_erasure(&mut self, inbox: TimelineId, fx: &mut Effects) {
        let Some(erasure) = self.erasures.open.get(&inbox) else { return };
        self.log.write(erasure.put(inbox), fx);
    }
}

/// Whether a request that was refused for this reason may succeed later.
const fn is_for_now(why: ChatFault) -> bool {
    matches!(
        why,
        ChatFault::Busy | ChatFault::StoreFull | ChatFault::StoreFailed | ChatFault::RateLimited
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::hash::HashKey;
    use model::timeline::Space;

    #[test]
    fn a_row_says_where_to_go_on_and_what_is_no_row_is_refused() {
        let inbox = TimelineId::of(Space::Inbox, HashKey::new(1, 2), &[b"a"]);
        let ann = AccountAddress::parse("ann", "a.example").expect("right");
        let mut erasure = Erasure::new(ann.clone(), 70, 12);
        let mut erasures = Erasures::default();
        assert!(erasures.restore(&key_of(inbox), &erasure.row()));
        let read = &erasures.open[&inbox];
        assert!(matches!(read.step, Step::Messages { after: 70 }));
        assert_eq!((read.messages, &read.address), (12, &ann));
        assert!(erasures.has(inbox) && erasures.of(&ann).is_some());
        erasure.step = Step::Settle;
        assert!(erasures.restore(&key_of(inbox), &erasure.row()), "a few may have come since");
        assert!(matches!(erasures.open[&inbox].step, Step::Messages { after: 70 }));
        for (key, value) in [(&key_of(inbox)[..4], &erasure.row()[..]), (&key_of(inbox), &[1, 2])] {
            assert!(!erasures.restore(key, value));
        }
    }
}
