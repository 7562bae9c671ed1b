//! Ends the ties of accounts that were removed from the account book.
//!
//! ```text
//! book: row ─► account removed ─► new rules ─► rows are read ─► inbox found ─► its ties end,
//!                                                               one at a time ─► row deleted
//! ```
//! The book writes a row before it removes an account, so a crash between the two, or later, leaves
//! the row, and the next start continues. Ties end as by an order to remove each contact, so other
//! homes and other servers are notified as usual. A second pass, [`SETTLES`] later, ends ties that
//! were on their way during the first. Invariant: a row is deleted when its account has no ties and
//! no debts left.

use super::Task;
use super::orders::wish;
use super::store::{Change, Then};
use crate::accounts::{AccountRow, Owner};
use crate::log::{Answered, PendingCall};
use crate::{Chat, Effects};
use base::bytes::ByteReader;
use base::hash::HashKey;
use base::time::{Instant, Now, earliest};
use model::account::{AccountAddress, AccountId};
use model::chat::ContactOrder;
use model::counters::ChatCounter;
use model::ports::log::{Call, Done, Read, Row, RowHome, Table, Write};
use model::timeline::TimelineId;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

const VERSION: u8 = 1;

/// Removed accounts of a shard whose ties end at once. The others wait in their rows.
const AT_ONCE: usize = 64;

/// Pause before the second pass over the ties of a removed account.
const SETTLES: Duration = Duration::from_secs(10);

/// Pause before a step that failed is repeated.
const AGAIN: Duration = Duration::from_secs(1);

/// Removed accounts of this shard.
#[derive(Default)]
pub(crate) struct Partings {
    open: BTreeMap<TimelineId, Parting>,
    /// The cause for which all rows were last read.
    looked: Option<Cause>,
    /// The cause for which the rows are being read.
    look: Option<Cause>,
    /// Number of rows that chat itself has written.
    noted: u64,
    /// Rows that were read and not yet handled.
    rows: VecDeque<Row>,
    /// Key of the last row that was read; absent: all rows are read.
    more: Option<Box<[u8]>>,
    /// A read of rows, or of the first row's account, is open.
    is_asking: bool,
    /// Time at which a read that failed is repeated.
    due: Instant,
}

/// The cause to read the rows: the version of the rules, and the number of rows that chat has
/// written.
type Cause = (u64, u64);

/// A removed account whose ties are being ended.
struct Parting {
    address: AccountAddress,
    key: Box<[u8]>,
    since: Instant,
    /// Time at which it continues, unless another event continues it earlier.
    due: Instant,
}

/// Contents of a row.
struct Removed {
    address: AccountAddress,
    uid: u64,
    /// The account's number in chat, if it is known.
    id: Option<AccountId>,
}

/// The write of a row for an account of the book that is about to be removed, and whose ties are to
/// end then. `id`: its number in chat, if the account row will belong to another account by then.
pub fn row(home: HashKey, (address, uid): (&AccountAddress, u64), id: Option<AccountId>) -> Write {
    let at = RowHome::at(address.home_hash(home));
    let key = at.key(&[&uid.to_be_bytes(), address.as_str().as_bytes()]);
    let id = id.map_or(0, |id| id.0).to_le_bytes();
    let value = [&[VERSION][..], &id].concat().into();
    Write::Put { table: Table::ChatPartings, key, value }
}

impl Removed {
    fn of((key, value): &Row) -> Option<Removed> {
        let (uid, address) = RowHome::rest(key)?.split_first_chunk()?;
        let address = AccountAddress::parse(std::str::from_utf8(address).ok()?, "").ok()?;
        let mut bytes = ByteReader::of(VERSION, value)?;
        let id = Some(AccountId(bytes.u64()?)).filter(|id| id.0 != 0);
        bytes.ends(Removed { address, uid: u64::from_be_bytes(*uid), id })
    }
}

impl Partings {
    /// Whether the account with this inbox was removed, and its ties are being ended.
    pub(super) fn has(&self, inbox: TimelineId) -> bool {
        self.open.contains_key(&inbox)
    }

    /// Records that chat has written another row.
    pub(crate) fn look_again(&mut self) {
        self.noted += 1;
    }
}

impl Chat {
    /// Continues with removed accounts; returns when to be called again.
    pub(super) fn turn_partings(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let look = self.looks_for_removed(now, fx);
        let open = self.people.partings.open.iter().filter(|(_, it)| it.due <= now.mono);
        let ready: Vec<_> = open.map(|(inbox, it)| (*inbox, it.address.clone())).collect();
        for (inbox, address) in ready {
            // A failed task is repeated after this pause.
            self.parting_waits(now, inbox, AGAIN);
            self.for_person(now, (inbox, &address), Task::Part, fx);
        }
        let next = self.people.partings.open.values().map(|parting| parting.due).min();
        earliest([look, next])
    }

    /// Reads the rows, from the first on when the rules have changed.
    fn looks_for_removed(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let cause = (self.settings.access.version(), self.people.partings.noted);
        while !self.people.partings.is_asking {
            let partings = &mut self.people.partings;
            if partings.look.is_none() {
                if partings.looked == Some(cause) {
                    return None;
                }
                partings.look = Some(cause);
                partings.rows.clear();
                partings.more = Some(Box::default());
            }
            if now.mono < partings.due || !self.log.may_ask() {
                return Some(partings.due.max(now.after(AGAIN)));
            }
            if partings.open.len() >= AT_ONCE {
                return None; // when one of them is over
            }
            if let Some(row) = self.people.partings.rows.pop_front() {
                self.looks_at_row(now, row, fx);
                continue;
            }
            let Some(after) = self.people.partings.more.take() else {
                let partings = &mut self.people.partings;
                partings.looked = partings.look.take();
                continue;
            };
            self.people.partings.is_asking = true;
            let after = Some(after).filter(|after| !after.is_empty());
            let (table, prefix, count) = (Table::ChatPartings, Box::default(), AT_ONCE);
            let read = Read::Rows { table, prefix, after, count };
            self.log.ask(PendingCall::Partings, Call::Read(read), fx);
        }
        None
    }

    fn looks_at_row(&mut self, now: Now, row: Row, fx: &mut Effects) {
        let Some(Removed { address, uid, id }) = Removed::of(&row) else { return };
        // The row is written before the account is removed, and stays if the removal failed.
        if !self.settings.access.is_removed(self.settings.user_of(&address), uid) {
            return;
        }
        if let Some(id) = id {
            return self.parting_begins(now, (address, id), row.0);
        }
        self.people.partings.rows.push_front(row);
        self.people.partings.is_asking = true;
        let read = Read::Row { table: Table::ChatAccounts, key: self.row_key(&address) };
        self.log.ask(PendingCall::Partings, Call::Read(read), fx);
    }

    /// Handles the rows that were read, or the account of the first of them.
    pub(crate) fn partings_read(&mut self, now: Now, result: Answered, fx: &mut Effects) {
        let partings = &mut self.people.partings;
        partings.is_asking = false;
        match result {
            Ok(Done::Rows(rows)) => {
                let last = rows.last().filter(|_| rows.len() >= AT_ONCE);
                partings.more = last.map(|(key, _)| key.clone());
                partings.rows = rows.into();
            }
            Ok(Done::Row(account)) => {
                let Some(row) = partings.rows.pop_front() else { return };
                let Some(Removed { address, uid, .. }) = Removed::of(&row) else { return };
                let account = account.as_deref().and_then(AccountRow::decode);
                match account.filter(|it| it.owner == Owner::Booked(uid)) {
                    Some(account) => self.parting_begins(now, (address, account.id), row.0),
                    // The account's row was overwritten since: this row has the number by now, and
                    // is read again.
                    None if partings.look.is_some_and(|(_, noted)| noted != partings.noted) => {}
                    // The account never used chat.
                    None => self.parting_over(row.0, fx),
                }
            }
            // Reads again from the first row, after a pause.
            _ => {
                (partings.look, partings.due) = (None, now.after(AGAIN));
            }
        }
        self.looks_for_removed(now, fx);
    }

    fn parting_begins(
        &mut self,
        now: Now,
        (address, id): (AccountAddress, AccountId),
        key: Box<[u8]>,
    ) {
        let inbox = address.inbox(self.settings.home, id);
        let parting = Parting { address, key, since: now.mono, due: now.mono };
        self.people.partings.open.entry(inbox).or_insert(parting);
    }

    fn parting_waits(&mut self, now: Now, inbox: TimelineId, after: Duration) {
        if let Some(parting) = self.people.partings.open.get_mut(&inbox) {
            parting.due = now.after(after);
        }
    }

    /// Ends one tie of a removed account; without any left, finishes the account.
    pub(super) fn part_person(&mut self, now: Now, inbox: TimelineId, fx: &mut Effects) {
        let Some(person) = self.people.known.get(&inbox) else { return };
        let number = person.next_version(now);
        let ended = person.ties.values().find_map(|tie| {
            let mut ended = tie.clone();
            for order in [ContactOrder::Unblock, ContactOrder::Remove] {
                wish(&mut ended, (order, number), false).ok()?;
            }
            (ended != *tie).then_some(ended)
        });
        if let Some(tie) = ended {
            let change = Change { tie, said: None, then: Then::Part };
            return self.change_tie(now, inbox, Box::new(change), fx);
        }
        if person.ties.values().any(|tie| tie.owes != 0) {
            return self.parting_waits(now, inbox, AGAIN);
        }
        let Some(parting) = self.people.partings.open.get_mut(&inbox) else { return };
        let settled = parting.since + SETTLES;
        if now.mono < settled {
            parting.due = settled;
            return;
        }
        if let Some(parting) = self.people.partings.open.remove(&inbox) {
            fx.counters.count(ChatCounter::AccountsParted);
            self.parting_over(parting.key, fx);
        }
    }

    /// Queues the end of the next tie of a removed account, behind its other tasks.
    pub(super) fn parts_on(&mut self, inbox: TimelineId) {
        if let Some(person) = self.people.known.get_mut(&inbox) {
            person.line.push_back(Task::Part);
        }
    }

    /// Deletes the row of a removed account.
    fn parting_over(&mut self, key: Box<[u8]>, fx: &mut Effects) {
        self.log.write(Write::Delete { table: Table::ChatPartings, key }, fx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_names_the_account_and_what_is_cut_is_refused() {
        let home = HashKey::new(1, 2);
        let ann = AccountAddress::parse("ann", "a.example").expect("right");
        for id in [None, Some(AccountId(7 << 22))] {
            let Write::Put { key, value, .. } = row(home, (&ann, 9), id) else { panic!("a row") };
            let read = Removed::of(&(key.clone(), value.clone())).expect("it is whole");
            assert_eq!((read.address, read.uid, read.id), (ann.clone(), 9, id));
            for end in 0..value.len() {
                assert!(Removed::of(&(key.clone(), value[..end].into())).is_none());
            }
            assert!(Removed::of(&(key[..9].into(), value)).is_none());
        }
    }
}
