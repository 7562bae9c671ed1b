//! Accounts by their addresses: numbers that are remembered, and those that are being found.
//!
//! An account has a row at its home, made when somebody first logs in by that name, or first writes
//! to a name that may log in. Nothing else of an account that is not here is in memory, but the
//! numbers of those that were asked for last. Invariant: an address that is being found has one
//! call or one question under way, however many wait for it.

use crate::log::{Answered, PendingCall};
use crate::waits::Waits;
use crate::word::ChatWord;
use crate::{Chat, Effects};
use base::bytes::ByteReader;
use base::time::Now;
use model::account::{AccountAddress, AccountId};
use model::chat::ChatFault;
use model::id::{MessageId, ShardId};
use model::ports::log::{Call, Done, Read, RowHome, StoreError, Table, Write};
use std::collections::{BTreeMap, HashMap};

const VERSION: u8 = 1;

/// Addresses that may be in the course of being found, a shard. One more is answered as busy.
const FINDING_MAX: usize = 65_536;

/// Who waits for the number of an account.
pub(crate) enum Waiter {
    /// A device that was let in.
    Login(Box<crate::login::LetIn>),
    /// Whoever sends to it.
    Send(Box<crate::send::Sending>),
    /// Whoever reads what was said with it.
    History(Box<crate::reads::HistoryAsked>),
    /// Another shard, with its question's number.
    Peer(ShardId, u64),
    /// A command, by its number.
    Command(u64),
}

/// An account that is being made.
pub(crate) struct Made {
    address: AccountAddress,
    row: AccountRow,
}

/// What is stored of an account.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AccountRow {
    pub id: AccountId,
    /// When it was made, Unix seconds.
    pub made_s: u32,
}

impl AccountRow {
    fn encode(self) -> Box<[u8]> {
        [&[VERSION][..], &self.id.0.to_le_bytes(), &self.made_s.to_le_bytes()].concat().into()
    }

    fn decode(value: &[u8]) -> Option<AccountRow> {
        let mut bytes = ByteReader::of(VERSION, value)?;
        let (id, made_s) = (AccountId(bytes.u64()?), bytes.u32()?);
        bytes.ends(AccountRow { id, made_s })
    }
}

/// An address that is being found.
#[derive(Default)]
struct Finding {
    waiters: Vec<Waiter>,
    /// It is to be made, if it is not there.
    make: bool,
}

/// Numbers of accounts. Those that were wanted last are remembered in two halves: when the younger
/// is full it becomes the older one, and that is forgotten.
pub(crate) struct Accounts {
    young: HashMap<AccountAddress, AccountRow>,
    old: HashMap<AccountAddress, AccountRow>,
    half_max: usize,
    finding: BTreeMap<AccountAddress, Finding>,
    asked: Waits<AccountAddress>,
    last: u64,
}

impl Accounts {
    pub(crate) fn new(known_max: u32) -> Accounts {
        Accounts {
            young: HashMap::new(),
            old: HashMap::new(),
            half_max: (known_max as usize / 2).max(1),
            finding: BTreeMap::new(),
            asked: Waits::default(),
            last: 0,
        }
    }

    fn known(&mut self, address: &AccountAddress) -> Option<AccountRow> {
        if let Some(row) = self.young.get(address) {
            return Some(*row);
        }
        let row = self.old.remove(address)?;
        self.remember(address.clone(), row);
        Some(row)
    }

    fn remember(&mut self, address: AccountAddress, row: AccountRow) {
        if self.young.len() >= self.half_max {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(address, row);
    }
}

impl Chat {
    /// Finds the account with this address, and makes it if `make` says so and it is not there.
    pub(crate) fn find_account(
        &mut self,
        now: Now,
        address: &AccountAddress,
        make: bool,
        waiter: Waiter,
        fx: &mut Effects,
    ) {
        if let Some(row) = self.accounts.known(address) {
            return self.account_found(now, address, waiter, Ok(row), fx);
        }
        if let Some(finding) = self.accounts.finding.get_mut(address) {
            finding.make |= make;
            return finding.waiters.push(waiter);
        }
        if self.accounts.finding.len() >= FINDING_MAX || !self.log.may_ask() {
            return self.account_found(now, address, waiter, Err(ChatFault::Busy), fx);
        }
        let finding = Finding { waiters: vec![waiter], make };
        self.accounts.finding.insert(address.clone(), finding);
        let owner = self.settings.owner(address);
        if owner == self.settings.shard {
            let read = Read::Row { table: Table::ChatAccounts, key: self.row_key(address) };
            self.log.ask(PendingCall::Account(address.clone()), Call::Read(read), fx);
        } else {
            let number = self.accounts.asked.put(address.clone());
            let find = ChatWord::Find { number, address: address.clone() };
            fx.peer_messages.push((owner, find));
        }
    }

    fn row_key(&self, address: &AccountAddress) -> Box<[u8]> {
        RowHome::at(address.home_hash(self.settings.home)).key(&[address.as_str().as_bytes()])
    }

    /// The row of an account of this shard was read.
    pub(crate) fn account_read(
        &mut self,
        now: Now,
        address: AccountAddress,
        result: Answered,
        fx: &mut Effects,
    ) {
        let row = match result {
            Ok(Done::Row(row)) => row,
            Ok(_) => return self.end_finding(now, address, Err(ChatFault::StoreFailed), fx),
            Err(error) => return self.end_finding(now, address, Err(fault_of(error)), fx),
        };
        if let Some(row) = row {
            let row = AccountRow::decode(&row).ok_or(ChatFault::StoreFailed);
            return self.end_finding(now, address, row, fx);
        }
        let make = self.accounts.finding.get(&address).is_some_and(|finding| finding.make);
        if !make && !self.settings.access.knows(self.settings.user_of(&address)) {
            return self.end_finding(now, address, Err(ChatFault::UnknownAccount), fx);
        }
        let row = AccountRow { id: self.next_account_id(now), made_s: now.unix_s() };
        let (table, key, value) = (Table::ChatAccounts, self.row_key(&address), row.encode());
        let made = Box::new(Made { address, row });
        self.log.ask(PendingCall::Made(made), Call::Write(Write::Put { table, key, value }), fx);
    }

    /// A number that no account of any address at home here has had.
    fn next_account_id(&mut self, now: Now) -> AccountId {
        let id = MessageId::after(self.accounts.last, now.wall_ms, self.settings.node);
        self.accounts.last = id.0;
        AccountId(id.0)
    }

    /// The row of a new account was written.
    pub(crate) fn account_made(
        &mut self,
        now: Now,
        made: Made,
        result: Answered,
        fx: &mut Effects,
    ) {
        let row = result.map(|_| made.row).map_err(fault_of);
        self.end_finding(now, made.address, row, fx);
    }

    /// Another shard wants to know.
    pub(crate) fn find_for_peer(
        &mut self,
        now: Now,
        from: ShardId,
        (number, address): (u64, AccountAddress),
        fx: &mut Effects,
    ) {
        self.find_account(now, &address, false, Waiter::Peer(from, number), fx);
    }

    /// Another shard knows.
    pub(crate) fn account_told(
        &mut self,
        now: Now,
        number: u64,
        result: Result<AccountId, ChatFault>,
        fx: &mut Effects,
    ) {
        if let Some(address) = self.accounts.asked.take(number) {
            let row = result.map(|id| AccountRow { id, made_s: 0 });
            self.end_finding(now, address, row, fx);
        }
    }

    /// Answers of other shards that did not come in time; when to look again.
    pub(crate) fn turn_accounts(
        &mut self,
        now: Now,
        fx: &mut Effects,
    ) -> Option<base::time::Instant> {
        let (over, next) = self.accounts.asked.overdue(now, self.settings.limits.answer_ms_max);
        for address in over {
            self.end_finding(now, address, Err(ChatFault::Busy), fx);
        }
        next
    }

    fn end_finding(
        &mut self,
        now: Now,
        address: AccountAddress,
        row: Result<AccountRow, ChatFault>,
        fx: &mut Effects,
    ) {
        let finding = self.accounts.finding.remove(&address).unwrap_or_default();
        if let Ok(row) = row {
            self.accounts.remember(address.clone(), row);
        }
        for waiter in finding.waiters {
            self.account_found(now, &address, waiter, row, fx);
        }
    }

    fn account_found(
        &mut self,
        now: Now,
        address: &AccountAddress,
        waiter: Waiter,
        row: Result<AccountRow, ChatFault>,
        fx: &mut Effects,
    ) {
        match waiter {
            Waiter::Login(let_in) => self.account_of_login(*let_in, row, fx),
            Waiter::Send(sending) => {
                self.receiver_found(now, *sending, (address, row.map(|row| row.id)), fx);
            }
            Waiter::History(asked) => {
                self.partner_found(*asked, (address, row.map(|row| row.id)), fx);
            }
            Waiter::Peer(shard, number) => {
                let result = row.map(|row| row.id);
                fx.peer_messages.push((shard, ChatWord::Account { number, result }));
            }
            Waiter::Command(ask) => self.account_of_command(address, ask, row, fx),
        }
    }
}

/// What the log's refusal is for whoever waits.
pub(crate) fn fault_of(error: StoreError) -> ChatFault {
    match error {
        StoreError::Full => ChatFault::StoreFull,
        StoreError::Busy | StoreError::Stale => ChatFault::Busy,
        StoreError::Conflict => ChatFault::Conflict,
        StoreError::TooLarge => ChatFault::TooLarge,
        StoreError::Failed | StoreError::Damaged => ChatFault::StoreFailed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_as_it_was_written() {
        let row = AccountRow { id: AccountId(u64::MAX - 1), made_s: 7 };
        assert_eq!(AccountRow::decode(&row.encode()), Some(row));
        assert_eq!(AccountRow::decode(&row.encode()[..8]), None);
    }

    #[test]
    fn as_many_accounts_are_remembered_as_may_be_and_those_wanted_last() {
        let mut accounts = Accounts::new(8);
        let address = |n: u32| AccountAddress::parse(&format!("a{n}"), "a.example").expect("right");
        let row = |n: u32| AccountRow { id: AccountId(n.into()), made_s: 0 };
        for n in 0..100 {
            accounts.remember(address(n), row(n));
            assert!(accounts.known(&address(0)).is_some() || n > 4, "{n}");
            assert!(accounts.young.len() + accounts.old.len() <= 8);
        }
        assert_eq!(accounts.known(&address(99)), Some(row(99)));
        assert_eq!(accounts.known(&address(50)), None);
    }
}
