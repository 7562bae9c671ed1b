//! Accounts by their addresses: numbers that are remembered, and those that are being looked up.
//!
//! An account has a row at its home, created at the first login by its name, or at the first
//! message to a name that may log in. The row has the account's owner: when the name passes to
//! another owner, a new account gets it, with a new number and nothing of the old account. Of an
//! account without a session, memory has only its number, if it was among the last asked for.
//!
//! Invariants: the lookup of an address is one flow, however many flows wait for it; a number is
//! used only while its row's owner has the name.

use crate::Chat;
use crate::label::Route;
use crate::people::partings;
use crate::service::flow::{Flow, Reply};
use crate::word::{PeerReply, PeerRequest, ReplyTo};
use base::bytes::ByteReader;
use base::encoding::Encoding;
use base::flows::WaitKey;
use base::hash::HashKey;
use base::time::Now;
use model::account::{AccountAddress, AccountId};
use model::chat::ChatFault;
use model::id::MessageId;
use model::ports::access::NameOwner;
use model::ports::events::{ChatEvent, ChatWhat};
use model::ports::log::{Call, Done, Read, RowHome, StoreError, Table, Write};
use model::timeline::TimelineId;
use std::collections::{BTreeMap, HashMap};

const VERSION: u8 = 2;

/// Maximum of address lookups in progress, per shard. A further lookup returns `Busy`.
const FINDING_MAX: usize = 65_536;

/// Approximate memory of a flow that waits for an account and holds nothing else, bytes.
pub(crate) const FOUND_BYTES: usize = 256;

/// Owner of an account.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Encoding)]
#[encoding(Nobody = 0, Outside = 1, Booked = 2)]
pub(crate) enum Owner {
    /// A client that has proved nothing.
    Nobody,
    /// A client that proves the name by other means than the book of accounts: a file, a token, a
    /// certificate.
    Outside,
    /// The book's account with this number.
    Booked(u64),
}

/// The stored row of an account.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encoding)]
pub struct AccountRow {
    pub(crate) id: AccountId,
    /// Time of creation, Unix seconds.
    pub(crate) made_s: u32,
    pub(crate) owner: Owner,
}

impl Owner {
    /// The owner of a name, as far as the book of accounts and the files know it.
    fn known(name: NameOwner) -> Option<Owner> {
        match name {
            NameOwner::Account(uid) => Some(Owner::Booked(uid)),
            NameOwner::File => Some(Owner::Outside),
            NameOwner::Unknown => None,
        }
    }

    /// Whether an account of this owner still goes by the name.
    pub(crate) fn has(self, name: NameOwner) -> bool {
        Owner::known(name).map_or(!matches!(self, Owner::Booked(_)), |owner| owner == self)
    }

    fn number(self) -> u64 {
        match self {
            Owner::Nobody => 0,
            Owner::Outside => u64::MAX,
            Owner::Booked(uid) => uid,
        }
    }

    fn of_number(number: u64) -> Owner {
        match number {
            0 => Owner::Nobody,
            u64::MAX => Owner::Outside,
            uid => Owner::Booked(uid),
        }
    }
}

impl AccountRow {
    fn encode(self) -> Box<[u8]> {
        let numbers = [self.id.0, self.owner.number()].map(u64::to_le_bytes).concat();
        [&[VERSION][..], &numbers, &self.made_s.to_le_bytes()].concat().into()
    }

    pub(crate) fn decode(value: &[u8]) -> Option<AccountRow> {
        let mut bytes = ByteReader::of(VERSION, value)?;
        let (id, owner) = (AccountId(bytes.u64()?), Owner::of_number(bytes.u64()?));
        let made_s = bytes.u32()?;
        bytes.ends(AccountRow { id, made_s, owner })
    }
}

/// The timeline that belongs to a row of an account or a group, and its owner in words.
pub fn owner_of_row(
    home: HashKey,
    table: Table,
    (key, value): (&[u8], &[u8]),
) -> Option<(TimelineId, String)> {
    let address = |text| AccountAddress::parse(std::str::from_utf8(text).ok()?, "").ok();
    match table {
        Table::ChatAccounts => {
            let (account, row) = (address(RowHome::rest(key)?)?, AccountRow::decode(value)?);
            Some((account.inbox(home, row.id), format!("account {}", account.as_str())))
        }
        Table::ChatGroups => {
            let group = address(value)?;
            let conversation = crate::groups::conversation_of(home, &group);
            Some((conversation, format!("group {}", group.as_str())))
        }
        _ => None,
    }
}

/// The inboxes of the sender and the receiver of a message, as its label has them.
pub fn inboxes_of_label(label: &[u8]) -> Vec<TimelineId> {
    let route = Route::decode(label);
    route.map_or(Vec::new(), |route| [Some(route.from), route.to].into_iter().flatten().collect())
}

/// A lookup of an address that is in progress.
#[derive(Default)]
struct Finding {
    /// Flows that wait for the account, each with the bytes that it holds.
    waiters: Vec<(WaitKey, usize)>,
    /// Owner for whom the account is created if it does not exist.
    make: Option<Owner>,
    /// The account was erased while its row was being read: the row is read once more.
    is_stale: bool,
}

/// Numbers of accounts. The ones used last are remembered in two halves: when the younger half is
/// full it becomes the older one, and the former older one is forgotten.
pub(crate) struct Accounts {
    young: HashMap<AccountAddress, AccountRow>,
    old: HashMap<AccountAddress, AccountRow>,
    half_max: usize,
    finding: BTreeMap<AccountAddress, Finding>,
    /// Memory that all waiting flows hold, bytes.
    waiting_bytes: u64,
    last: u64,
}

impl Accounts {
    pub(crate) fn new(known_max: u32) -> Accounts {
        Accounts {
            young: HashMap::new(),
            old: HashMap::new(),
            half_max: (known_max as usize / 2).max(1),
            finding: BTreeMap::new(),
            waiting_bytes: 0,
            last: 0,
        }
    }

    /// Changes how many accounts are remembered at most.
    pub(crate) fn set_max(&mut self, known_max: u32) {
        self.half_max = (known_max as usize / 2).max(1);
    }

    /// Forgets an erased account; if its row is being read, the row is read once more.
    pub(crate) fn is_erased(&mut self, address: &AccountAddress) {
        self.young.remove(address);
        self.old.remove(address);
        if let Some(finding) = self.finding.get_mut(address) {
            finding.is_stale = true;
        }
    }

    /// The number of an account that was asked for lately.
    pub(crate) fn number_of(&self, address: &AccountAddress) -> Option<AccountId> {
        let row = self.young.get(address).or_else(|| self.old.get(address));
        row.map(|row| row.id)
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

/// Looks up the account with an address, for all flows that wait for it.
async fn find(mut flow: Flow, address: AccountAddress) {
    let row = find_row(&mut flow, &address).await;
    let (chat, _, _) = flow.state();
    if let Ok(row) = row {
        chat.accounts.remember(address.clone(), row);
    }
    let waiters = chat.accounts.finding.remove(&address).unwrap_or_default().waiters;
    for (key, bytes) in waiters {
        chat.accounts.waiting_bytes -= bytes as u64;
        chat.flows.reply(key, Reply::Account(row));
    }
}

/// Reads the account's row here, and creates or overwrites it if a flow wants that; or asks the
/// account's home.
async fn find_row(flow: &mut Flow, address: &AccountAddress) -> Result<AccountRow, ChatFault> {
    let (chat, _, _) = flow.state();
    let owner = chat.settings.owner(address);
    if owner != chat.settings.shard {
        let request = PeerRequest::Find(Box::new(address.clone()));
        return match flow.request(owner, request).await? {
            PeerReply::Account(row) => Ok(row),
            _ => Err(ChatFault::Busy),
        };
    }
    let row = read_row(flow, address).await?;
    let (chat, now, _) = flow.state();
    let make = chat.accounts.finding.get(address).and_then(|finding| finding.make);
    // An account that is created during its own erasure would be erased with the rest.
    let is_gone = chat.erasures.has_name(address);
    let name = chat.owner_of(address);
    let made = match (row.filter(|row| row.owner.has(name)), Owner::known(name).or(make)) {
        (Some(row), Some(owner)) if is_taken_over(&row, Some(owner)) && !is_gone => {
            AccountRow { owner, ..row }
        }
        (Some(row), _) => return Ok(row),
        (None, Some(owner)) if !is_gone => {
            let before = row.map_or(0, |row| row.id.0);
            let id = chat.next_account_id(now, before);
            AccountRow { id, made_s: now.unix_s(), owner }
        }
        (None, _) => return Err(ChatFault::UnknownAccount),
    };
    if let Some(AccountRow { id, owner: Owner::Booked(uid), .. }) = row
        && made.id != id
    {
        // The row of a removed account is about to be overwritten: the account's ties end.
        let write = partings::row(chat.settings.home, (address, uid), Some(id));
        flow.log_in_time(Call::Write(write)).await.map_err(fault_of)?;
        flow.state().0.people.partings.look_again();
    }
    let (table, key) = (Table::ChatAccounts, flow.state().0.row_key(address));
    let write = Write::Put { table, key, value: made.encode() };
    flow.log_in_time(Call::Write(write)).await.map_err(fault_of)?;
    let (_, now, fx) = flow.state();
    let what = ChatWhat::AccountMade { account: address.clone(), id: made.id };
    fx.tell(ChatEvent { at_ms: now.wall_ms, what });
    Ok(made)
}

/// The row of an account of this shard.
async fn read_row(
    flow: &mut Flow,
    address: &AccountAddress,
) -> Result<Option<AccountRow>, ChatFault> {
    loop {
        let (table, key) = (Table::ChatAccounts, flow.state().0.row_key(address));
        let row = match flow.log_in_time(Call::Read(Read::Row { table, key })).await {
            Ok(Done::Row(row)) => row,
            Ok(_) => return Err(ChatFault::StoreFailed),
            Err(error) => return Err(fault_of(error)),
        };
        let finding = flow.state().0.accounts.finding.get_mut(address);
        if !finding.is_some_and(|finding| std::mem::take(&mut finding.is_stale)) {
            let decode = |row: Box<[u8]>| AccountRow::decode(&row).ok_or(ChatFault::StoreFailed);
            return row.map(decode).transpose();
        }
    }
}

/// Replies to another shard with an account that is at home here.
pub(crate) async fn tell_account(mut flow: Flow, to: ReplyTo, address: Box<AccountAddress>) {
    let row = flow.account_row((&address, None), FOUND_BYTES).await;
    let (chat, _, fx) = flow.state();
    chat.reply(to, row.map(PeerReply::Account), fx);
}

impl Chat {
    /// Finds the account with this address for the flow that waits with this key and holds so many
    /// bytes, and creates it for `make` if it does not exist.
    pub(crate) fn find_account(
        &mut self,
        (address, make): (&AccountAddress, Option<Owner>),
        (key, bytes): (WaitKey, usize),
    ) {
        match self.known_account(address, make) {
            Some(row) => _ = self.flows.reply(key, Reply::Account(Ok(row))),
            None => self.look_for_account((address, make), (key, bytes)),
        }
    }

    fn known_account(
        &mut self,
        address: &AccountAddress,
        make: Option<Owner>,
    ) -> Option<AccountRow> {
        if self.settings.is_foreign(address) {
            return Some(AccountRow { id: AccountId::FOREIGN, made_s: 0, owner: Owner::Outside });
        }
        let name = self.owner_of(address);
        let is_known = |row: &AccountRow| row.owner.has(name) && !is_taken_over(row, make);
        self.accounts.known(address).filter(is_known)
    }

    fn look_for_account(
        &mut self,
        (address, make): (&AccountAddress, Option<Owner>),
        (key, bytes): (WaitKey, usize),
    ) {
        let accounts = &mut self.accounts;
        let is_full = accounts.finding.len() >= FINDING_MAX
            || accounts.waiting_bytes + bytes as u64 > self.settings.undistributed_max()
            || !self.log.may_ask()
            || self.flows.is_full();
        if is_full {
            self.flows.reply(key, Reply::Account(Err(ChatFault::Busy)));
            return;
        }
        accounts.waiting_bytes += bytes as u64;
        if let Some(finding) = accounts.finding.get_mut(address) {
            finding.make = finding.make.max(make);
            return finding.waiters.push((key, bytes));
        }
        let finding = Finding { waiters: vec![(key, bytes)], make, is_stale: false };
        accounts.finding.insert(address.clone(), finding);
        self.begin(|flow| find(flow, address.clone()));
    }

    /// The owner of an account's name now.
    pub(crate) fn owner_of(&self, address: &AccountAddress) -> NameOwner {
        self.settings.access.owner(self.settings.user_of(address))
    }

    pub(crate) fn row_key(&self, address: &AccountAddress) -> Box<[u8]> {
        RowHome::at(address.home_hash(self.settings.home)).key(&[address.as_str().as_bytes()])
    }

    /// A number that no account of any address at home here has had: not the earlier account of
    /// this address either, whatever the clock says.
    fn next_account_id(&mut self, now: Now, before: u64) -> AccountId {
        let last = self.accounts.last.max(before);
        let id = MessageId::after(last, now.wall_ms, self.settings.node);
        self.accounts.last = id.0;
        AccountId(id.0)
    }
}

/// Whether an unproved account passes to a client that has proved the name: the book of accounts
/// and the files know neither, so nothing distinguishes the two.
fn is_taken_over(row: &AccountRow, make: Option<Owner>) -> bool {
    row.owner == Owner::Nobody && make == Some(Owner::Outside)
}

/// The fault that a waiting flow gets for an error of the log.
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
        for owner in [Owner::Nobody, Owner::Outside, Owner::Booked(1), Owner::Booked(1 << 52)] {
            let row = AccountRow { id: AccountId(u64::MAX - 1), made_s: 7, owner };
            assert_eq!(AccountRow::decode(&row.encode()), Some(row));
            assert_eq!(AccountRow::decode(&row.encode()[..20]), None);
        }
    }

    #[test]
    fn an_account_is_its_owners_while_that_has_the_name() {
        let names = [NameOwner::Account(7), NameOwner::Account(8), NameOwner::File];
        let has = |owner: Owner| names.map(|name| owner.has(name));
        assert_eq!(has(Owner::Booked(7)), [true, false, false]);
        assert_eq!(has(Owner::Outside), [false, false, true]);
        assert_eq!(has(Owner::Nobody), [false; 3]);
        let unknown = [Owner::Nobody, Owner::Outside, Owner::Booked(7)];
        assert_eq!(unknown.map(|it| it.has(NameOwner::Unknown)), [true, true, false]);
    }

    #[test]
    fn as_many_accounts_are_remembered_as_may_be_and_those_wanted_last() {
        let mut accounts = Accounts::new(8);
        let address = |n: u32| AccountAddress::parse(&format!("a{n}"), "a.example").expect("right");
        let owner = Owner::Nobody;
        let row = |n: u32| AccountRow { id: AccountId(n.into()), made_s: 0, owner };
        for n in 0..100 {
            accounts.remember(address(n), row(n));
            assert!(accounts.known(&address(0)).is_some() || n > 4, "{n}");
            assert!(accounts.young.len() + accounts.old.len() <= 8);
        }
        assert_eq!(accounts.known(&address(99)), Some(row(99)));
        assert_eq!(accounts.known(&address(50)), None);
    }
}
