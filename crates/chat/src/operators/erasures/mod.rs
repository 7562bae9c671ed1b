//! Erasure: deletes all data of an account, and recalls the messages that it sent.
//!
//! ```text
//! Erase ─► a row says so ─► messages ─► groups ─► contacts ─► nodes ─► rows ─► the account's row
//!            │ after a start: goes on at the offset of the row                   │
//!            └─ logins by the name are refused, and its sessions have ended      └─► its own row
//! ```
//! A flow makes requests as an operator's errand would ([`errands`](crate::operators::errands)), so
//! every rule of conversations, groups and contacts holds, and others are notified as usual: a
//! recalled message keeps its offset, and has no content. Requests are idempotent, so whatever a
//! crash interrupted is begun again. Invariant: when the row is deleted, the log has nothing of the
//! account but empty offsets, messages that others sent to it in their own conversations, and
//! notices of recalls.

mod steps;

use crate::accounts::AccountRow;
use crate::service::flow::{Flow, Reply};
use crate::{Chat, Effects};
use base::bytes::ByteReader;
use base::flows::WaitKey;
use base::time::{Instant, Now};
use model::account::AccountAddress;
use model::counters::ChatCounter;
use model::ports::chat::{ChatAnswer, ChatCommand, ErasureStatus};
use model::ports::log::{Call, RowHome, Table, Write};
use model::timeline::{Seq, TimelineId};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

/// Version of a row.
const VERSION: u8 = 1;

/// Erasures of a shard with open requests. The others wait in line; an erasure that waits for a
/// time occupies no place.
const AT_ONCE: usize = 4;

/// Pause before requests that failed are repeated.
const AGAIN: Duration = Duration::from_secs(1);

/// Accounts of this shard that are being erased, by their inboxes.
#[derive(Default)]
pub(crate) struct Erasures {
    open: BTreeMap<TimelineId, Erasure>,
    /// Inboxes of the accounts that are being erased, by their addresses.
    names: HashMap<AccountAddress, TimelineId>,
    /// Accounts whose erasure row is being written, once for each command.
    beginning: Vec<AccountAddress>,
    /// Erasures whose flows are not begun.
    new: VecDeque<TimelineId>,
    /// Erasures with a place.
    running: usize,
    /// Waits of the others for a place.
    line: VecDeque<WaitKey>,
}

/// An account that is being erased.
struct Erasure {
    address: AccountAddress,
    /// Name of the present step in the API.
    step: &'static str,
    /// Number of recalled messages.
    messages: u64,
    /// Messages are recalled up to this offset of its inbox.
    done: Seq,
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
        self.new.push_back(inbox);
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
            self.beginning.contains(address).then(erasure)
        };
        self.status(address).or_else(begins)
    }

    /// The status of an account's erasure that has begun.
    pub(super) fn status(&self, address: &AccountAddress) -> Option<ErasureStatus> {
        self.of(address).map(Erasure::status)
    }

    /// The erasure of an account, by its address.
    fn of(&self, address: &AccountAddress) -> Option<&Erasure> {
        self.names.get(address).and_then(|inbox| self.open.get(inbox))
    }

    /// Takes a place. False: none is free, and the wait with this key is answered when one is.
    fn takes_place(&mut self, key: WaitKey) -> bool {
        let is_free = self.running < AT_ONCE;
        match is_free {
            true => self.running += 1,
            false => self.line.push_back(key),
        }
        is_free
    }
}

impl Erasure {
    fn new(address: AccountAddress, done: Seq, messages: u64) -> Erasure {
        Erasure { address, step: "messages", messages, done }
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
        ErasureStatus { messages: self.messages, step: self.step }
    }
}

/// Begins the erasure of an account by an operator's command: when its row is stored, no client can
/// log in by the name.
pub(super) async fn begin(
    flow: &mut Flow,
    address: &AccountAddress,
    row: AccountRow,
) -> ChatAnswer {
    let (chat, _, _) = flow.state();
    if let Some(status) = chat.erasures.status(address) {
        return ChatAnswer::Erasing(Some(status));
    }
    let inbox = address.inbox(chat.settings.home, row.id);
    let write = chat.erasures.row_of(inbox, address);
    chat.erasures.beginning.push(address.clone());
    let stored = flow.log(Call::Write(write)).await;
    let (chat, _, fx) = flow.state();
    let beginning = &mut chat.erasures.beginning;
    beginning.iter().position(|it| it == address).map(|at| beginning.swap_remove(at));
    if stored.is_err() {
        return ChatAnswer::StoreFailed;
    }
    if !chat.erasures.has(inbox) {
        fx.counters.count(ChatCounter::ErasuresBegun);
        chat.erasures.opens(inbox, address.clone());
        chat.end_all(inbox, fx);
    }
    ChatAnswer::Erasing(chat.erasures.status(address))
}

impl Chat {
    /// Answers an operator's command with the status of a running erasure. True: it is answered.
    pub(super) fn is_erasing(
        &mut self,
        ask: u64,
        address: &AccountAddress,
        fx: &mut Effects,
    ) -> bool {
        let status = self.erasures.status(address);
        let is_open = status.is_some();
        fx.answers.extend(status.map(|status| (ask, ChatAnswer::Erasing(Some(status)))));
        is_open
    }

    /// Begins the flows of new erasures; returns when to be called again.
    pub(crate) fn turn_erasures(&mut self, now: Now) -> Option<Instant> {
        while let Some(&inbox) = self.erasures.new.front() {
            let address = self.erasures.open.get(&inbox).map(|it| it.address.clone());
            let is_begun =
                address.is_none_or(|address| self.begin(|flow| steps::erase(flow, inbox, address)));
            if !is_begun {
                return Some(now.after(AGAIN));
            }
            self.erasures.new.pop_front();
        }
        None
    }

    /// Gives the place of an erasure to the next in line.
    fn leave_erasing(&mut self) {
        while let Some(key) = self.erasures.line.pop_front() {
            if self.flows.reply(key, Reply::Entered(Ok(()))) {
                return;
            }
        }
        self.erasures.running -= 1;
    }
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
        assert_eq!((read.done, read.messages, &read.address), (70, 12, &ann));
        assert!(erasures.has(inbox) && erasures.of(&ann).is_some());
        erasure.step = "rows";
        assert!(erasures.restore(&key_of(inbox), &erasure.row()), "a few may have come since");
        let read = &erasures.open[&inbox];
        assert_eq!((read.done, read.step), (70, "messages"));
        for (key, value) in [(&key_of(inbox)[..4], &erasure.row()[..]), (&key_of(inbox), &[1, 2])] {
            assert!(!erasures.restore(key, value));
        }
    }
}
