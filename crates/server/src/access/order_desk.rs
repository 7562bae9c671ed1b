//! Orders of chat clients to the book of users: queued for one thread that may hash and wait for
//! logs, and answered by mail.
//!
//! The sender of an order was checked on arrival, and is checked again here, in the row while no
//! other writer can change it: an account that was kicked, disabled or replaced meanwhile orders
//! nothing. Changes, and refusals to administrators, are in the audit log before the answer.
//! Invariants: an accepted order is answered once; registrations and password hashes per hour are
//! limited.

use super::user_book::UserBook;
use crate::clock;
use guard::AccessControl;
use guard::book::UserEntry;
use model::account::AccountAddress;
use model::chat::{CONTACTS_PAGE_MAX, ChatDelivery, ContactsRange};
use model::id::ShardId;
use model::limits::ChatLimits;
use model::link::Source;
use model::ports::access::GrantedAccount;
use model::ports::chat::{ChatAnswer, ChatCommand, Errand, ErrandWhat};
use model::ports::control::{Answer, Command, Control};
use model::ports::users::{
    Announcement, Authority, BOOK_ONLINE_MAX, BookAnswer, BookDone, BookFault, BookOrder,
    NewPassword, OperatorWish, UserChange, UserFault, UserOrder, UserVerb, Users,
};
use model::service::ServiceKind;
use model::{event, tell};
use std::collections::{HashMap, VecDeque};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Orders that may wait. One more is answered as busy.
const WAITING_MAX: usize = 256;

/// Most sources and accounts that are counted in an hour. Above that all orders are refused until
/// the hour is over.
const COUNTED_MAX: usize = 100_000;

/// How long the shards are waited for.
const SHARDS: Duration = Duration::from_secs(3);

const HOUR_US: u64 = 3_600_000_000;

/// Hands what became of an order to the service that gave it. It must arrive.
pub type TellBooked = Box<dyn Fn((ServiceKind, ShardId), u64, BookAnswer) + Send + Sync>;

/// Parts that the desk needs of others.
pub struct OrderWays {
    /// To the shards that ordered something.
    pub tell: TellBooked,
    /// Way to all shards.
    pub control: Arc<dyn Control>,
    /// Limits of registrations and passwords.
    pub limits: Mutex<ChatLimits>,
}

impl OrderWays {
    fn limits(&self) -> MutexGuard<'_, ChatLimits> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Hears what was ordered, for the audit log and the console; before it is answered.
pub type Witness = Box<dyn Fn(admin::BookNote) + Send + Sync>;

/// The desk.
pub(super) struct OrderDesk {
    book: Arc<UserBook>,
    access_control: Arc<AccessControl>,
    queue: Mutex<Queue>,
    came: Condvar,
    hour: Mutex<Hour>,
    ways: OnceLock<OrderWays>,
    witness: OnceLock<Witness>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<((ServiceKind, ShardId), u64, Box<BookOrder>)>,
    closed: bool,
}

/// Orders in an hour.
#[derive(Default)]
struct Hour {
    since_us: u64,
    registrations: u32,
    of_sources: HashMap<Source, u32>,
    passwords: HashMap<Box<str>, u32>,
}

impl Hour {
    /// The hour that this is in.
    fn at(&mut self, now_us: u64) -> &mut Hour {
        if now_us.saturating_sub(self.since_us) >= HOUR_US {
            *self = Hour { since_us: now_us, ..Hour::default() };
        }
        self
    }

    /// Counts a registration; false if the limit is reached.
    fn registers(&mut self, source: Option<Source>, limits: &ChatLimits) -> bool {
        if let Some(source) = source
            && !counts(&mut self.of_sources, source, limits.registrations_a_source_max)
        {
            return false;
        }
        let may = self.registrations < limits.registrations_an_hour_max;
        self.registrations += u32::from(may);
        may
    }

    /// Counts a password change of an account; false if the limit is reached.
    fn changes(&mut self, user: &str, limits: &ChatLimits) -> bool {
        counts(&mut self.passwords, user.into(), limits.passwords_an_account_max)
    }
}

/// Counts one more, if there may be one.
fn counts<K: std::hash::Hash + Eq>(counted: &mut HashMap<K, u32>, what: K, most: u32) -> bool {
    if counted.len() >= COUNTED_MAX && !counted.contains_key(&what) {
        return false;
    }
    let count = counted.entry(what).or_default();
    let may = *count < most;
    *count += u32::from(may);
    may
}

impl OrderDesk {
    /// A desk without a thread.
    pub(super) fn new(book: Arc<UserBook>, access_control: Arc<AccessControl>) -> OrderDesk {
        OrderDesk {
            book,
            access_control,
            queue: Mutex::default(),
            came: Condvar::new(),
            hour: Mutex::default(),
            ways: OnceLock::new(),
            witness: OnceLock::new(),
            thread: Mutex::default(),
        }
    }

    /// Starts its thread. Orders are taken from now on.
    pub(super) fn begin(self: &Arc<OrderDesk>, ways: OrderWays) -> Result<(), String> {
        // A second one is as good as the first.
        let _ = self.ways.set(ways);
        let desk = self.clone();
        let thread = Builder::new().name("accounts-orders".into()).spawn(move || desk.work());
        let thread = thread.map_err(|error| format!("cannot start the order thread: {error}"))?;
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(())
    }

    /// Sets the witness that orders are reported to.
    pub(super) fn heed(&self, witness: Witness) {
        let _ = self.witness.set(witness);
    }

    /// Takes an order. Never blocks.
    pub(super) fn put(
        &self,
        by: (ServiceKind, ShardId),
        number: u64,
        order: Box<BookOrder>,
    ) -> Result<(), BookFault> {
        let mut queue = self.lock();
        if queue.closed || self.ways.get().is_none() || queue.waiting.len() >= WAITING_MAX {
            return Err(BookFault::Busy);
        }
        queue.waiting.push_back((by, number, order));
        drop(queue);
        self.came.notify_one();
        Ok(())
    }

    /// Accepts no more, answers queued orders, and ends its thread.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.came.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tell!(event::THREAD_PANICKED, thread = "orders to the book of accounts");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let Some(ways) = self.ways.get() else { return };
        loop {
            let idle = |queue: &mut Queue| queue.waiting.is_empty() && !queue.closed;
            let queue = self.came.wait_while(self.lock(), idle);
            let mut queue = queue.unwrap_or_else(PoisonError::into_inner);
            let (next, closed) = (queue.waiting.pop_front(), queue.closed);
            drop(queue);
            let Some((by, number, order)) = next else { return };
            let answer = match closed {
                true => Err(BookFault::Busy),
                false => self.carry_out(&order, ways),
            };
            (ways.tell)(by, number, answer);
        }
    }

    fn carry_out(&self, order: &BookOrder, ways: &OrderWays) -> BookAnswer {
        let answer = match order {
            BookOrder::Password { user, account, password } => {
                self.changes((user, *account), password, ways)
            }
            BookOrder::Leave { user, account } => {
                let is_its = |entry: &UserEntry| is_still(entry, *account);
                // A user may remove its own account, even one of an administrator.
                self.book.remove_if(user, Authority::Admin, &is_its).map_err(fault).and_then(
                    |left| match left {
                        true => Ok(BookDone::Done),
                        false => Err(BookFault::Off),
                    },
                )
            }
            BookOrder::Register { user, password, source } => {
                self.registers((user, password), *source, ways)
            }
            BookOrder::Operate { by, account, wish, users } => {
                self.operates((by, *account), (wish, users), ways)
            }
        };
        if let (Some(note), Some(witness)) = (note(order, &answer), self.witness.get()) {
            witness(note);
        }
        answer
    }

    /// Sets other limits.
    pub(super) fn set_limits(&self, limits: &ChatLimits) {
        if let Some(ways) = self.ways.get() {
            *ways.limits() = limits.clone();
        }
    }

    /// Sets a new password for an account.
    fn changes(
        &self,
        (user, account): (&str, GrantedAccount),
        password: &NewPassword,
        ways: &OrderWays,
    ) -> BookAnswer {
        if !self.hour().at(clock::monotonic_us()).changes(user, &ways.limits()) {
            return Err(BookFault::Rate);
        }
        let order = UserOrder { password: Some(password.reveal().into()), ..order_for(user) };
        let is_its = |entry: Option<&UserEntry>| entry.is_some_and(|it| is_still(it, account));
        match self.book.put_if(&order, Authority::Admin, &is_its).map_err(fault)? {
            Some(entry) => Ok(BookDone::Granted(entry.granted())),
            None => Err(BookFault::Off),
        }
    }

    /// Registers an account.
    fn registers(
        &self,
        (user, password): (&str, &NewPassword),
        source: Option<Source>,
        ways: &OrderWays,
    ) -> BookAnswer {
        if !self.hour().at(clock::monotonic_us()).registers(source, &ways.limits()) {
            return Err(BookFault::Rate);
        }
        if self.access_control.is_spoken_for(user) {
            return Err(BookFault::Conflict);
        }
        self.adds(user, password)
    }

    fn adds(&self, user: &str, password: &NewPassword) -> BookAnswer {
        let order = UserOrder { password: Some(password.reveal().into()), ..order_for(user) };
        match self
            .book
            .put_if(&order, Authority::Users, &|before| before.is_none())
            .map_err(fault)?
        {
            Some(_) => Ok(BookDone::Done),
            None => Err(BookFault::Conflict),
        }
    }

    fn operates(
        &self,
        (by, account): (&str, GrantedAccount),
        (wish, users): (&OperatorWish, &[Box<str>]),
        ways: &OrderWays,
    ) -> BookAnswer {
        let entry = self.book.read(by).map_err(|_| BookFault::StoreFailed)?;
        if !entry.is_some_and(|entry| is_still(&entry, account)) {
            return Err(BookFault::Forbidden);
        }
        match wish {
            OperatorWish::May => Ok(BookDone::Done),
            OperatorWish::Registered => Ok(BookDone::Count(self.access_control.count() as u64)),
            OperatorWish::Online(count) => online(ways, (*count).min(BOOK_ONLINE_MAX as u16)),
            OperatorWish::Statistics(address) => statistics(ways, address),
            OperatorWish::Announce(it) => announce(ways, it.clone()),
            OperatorWish::Change(change) => {
                for user in users {
                    self.change(user, change)?;
                }
                Ok(BookDone::Done)
            }
        }
    }

    fn change(&self, user: &str, change: &UserChange) -> BookAnswer {
        let password = || change.password.as_ref().map(|it| it.reveal().to_owned());
        let order = match (change.verb, &change.password) {
            (UserVerb::Add, Some(password)) => return self.adds(user, password),
            (UserVerb::Add, None) => return Err(BookFault::Wrong("a password is missing".into())),
            (UserVerb::Remove, _) => {
                let removed = self.book.remove(user, Authority::Users).map_err(fault)?;
                return removed.then_some(BookDone::Done).ok_or(BookFault::Unknown(user.into()));
            }
            (UserVerb::End, _) => {
                let kicked = self.book.kick(user, Authority::Users).map_err(fault)?;
                return kicked.map(|_| BookDone::Done).ok_or(BookFault::Unknown(user.into()));
            }
            (UserVerb::Disable, _) => UserOrder { is_disabled: Some(true), ..order_for(user) },
            (UserVerb::Enable, _) => UserOrder { is_disabled: Some(false), ..order_for(user) },
            (UserVerb::SetPassword, _) => UserOrder { password: password(), ..order_for(user) },
        };
        let put = self.book.put_if(&order, Authority::Users, &|before| before.is_some());
        let put = put.map_err(fault)?;
        put.map(|_| BookDone::Done).ok_or(BookFault::Unknown(user.into()))
    }

    fn hour(&self) -> MutexGuard<'_, Hour> {
        self.hour.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether an account is the one that a session was granted, by its password.
fn is_still(entry: &UserEntry, account: GrantedAccount) -> bool {
    let has_password = entry.account.kept.hash.is_some();
    entry.granted() == account && has_password && !entry.account.is_disabled
}

/// An order with nothing but its user.
pub(super) fn order_for(user: &str) -> UserOrder {
    let (password, is_super, is_disabled, rules) = Default::default();
    UserOrder { name: user.into(), password, is_super, is_disabled, rules }
}

/// Answers of the shards; none: not in time.
fn asked(ways: &OrderWays, command: ChatCommand) -> Option<ChatAnswer> {
    let (tell, told) = sync_channel(1);
    let reply = move |answer| drop(tell.try_send(answer));
    ways.control.ask(Command::Chat(command), Box::new(reply));
    match told.recv_timeout(SHARDS) {
        Ok(Answer::Chat(answer)) => Some(answer),
        _ => None,
    }
}

/// Accounts with devices here, by the shards' answers.
fn online(ways: &OrderWays, count: u16) -> BookAnswer {
    match asked(ways, ChatCommand::Online(count)) {
        Some(ChatAnswer::Online(online, mut accounts)) => {
            accounts.truncate(count.into());
            Ok(BookDone::Online { count: online, accounts })
        }
        _ => Err(BookFault::Busy),
    }
}

/// Sends an announcement to all devices that are online.
fn announce(ways: &OrderWays, announcement: Arc<Announcement>) -> BookAnswer {
    match asked(ways, ChatCommand::Announce(announcement)) {
        Some(ChatAnswer::Announcing) => Ok(BookDone::Done),
        _ => Err(BookFault::Busy),
    }
}

/// Facts about an account, by its shard's answer.
fn statistics(ways: &OrderWays, address: &AccountAddress) -> BookAnswer {
    let devices = match asked(ways, ChatCommand::Account(address.clone())) {
        Some(ChatAnswer::Account(Some(status))) => status.devices,
        Some(ChatAnswer::Account(None)) => return Err(BookFault::Unknown(address.as_str().into())),
        _ => return Err(BookFault::Busy),
    };
    let (mut contacts, mut since, mut after) = (0, 0, 0);
    let pages = ways.limits().contacts_an_account_max / u32::from(CONTACTS_PAGE_MAX) + 2;
    for _ in 0..pages {
        let what = ErrandWhat::Contacts(ContactsRange { after, since, count: CONTACTS_PAGE_MAX });
        let errand = Box::new(Errand { by: address.clone(), is_operators: true, what });
        let page = match asked(ways, ChatCommand::Errand(errand)) {
            Some(ChatAnswer::Told(Some(told))) => match *told {
                ChatDelivery::ContactsPage(page) => page,
                _ => return Err(BookFault::Busy),
            },
            _ => return Err(BookFault::Busy),
        };
        contacts += page.contacts.iter().filter(|it| it.is_listed).count() as u64;
        (since, after) = (page.since, page.upto);
        if !page.more {
            return Ok(BookDone::Statistics { contacts, devices });
        }
    }
    Err(BookFault::Busy) // it changes faster than it is read
}

fn fault(fault: UserFault) -> BookFault {
    match fault {
        UserFault::Wrong(why) => BookFault::Wrong(why.into()),
        UserFault::OutOfReach(_) => BookFault::Forbidden,
        UserFault::Full => BookFault::Full,
        UserFault::Busy => BookFault::Busy,
        UserFault::StoreFailed | UserFault::DatabaseFailed(_) => BookFault::StoreFailed,
    }
}

/// The entry of an order for the audit log; `None` for a query, or a failed order of a user who is
/// no administrator.
fn note(order: &BookOrder, answer: &BookAnswer) -> Option<admin::BookNote> {
    let (by, action, users) = match order {
        BookOrder::Operate { by, wish: OperatorWish::Change(change), users, .. } => {
            (Some(by), change.verb.name(), users.clone())
        }
        BookOrder::Operate { by, wish: OperatorWish::Announce(_), users, .. } => {
            (Some(by), "announce", users.clone())
        }
        BookOrder::Operate { .. } => return None,
        _ if answer.is_err() => return None,
        BookOrder::Password { user, .. } => (None, "own password", vec![user.clone()]),
        BookOrder::Leave { user, .. } => (None, "leave", vec![user.clone()]),
        BookOrder::Register { user, .. } => (None, "register", vec![user.clone()]),
    };
    let code = match answer {
        Ok(_) => None,
        Err(BookFault::Off | BookFault::Forbidden) => Some("forbidden"),
        Err(BookFault::Conflict) => Some("conflict"),
        Err(BookFault::Unknown(_)) => Some("unknown_user"),
        Err(BookFault::Wrong(_)) => Some("bad_request"),
        Err(BookFault::Full) => Some("users_full"),
        Err(BookFault::Rate | BookFault::Busy) => Some("busy"),
        Err(BookFault::StoreFailed) => Some("store_failed"),
    };
    let by = by.map(|by| by.to_string());
    Some(admin::BookNote { by, action, users: users.into_iter().map(Into::into).collect(), code })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_has_so_many_registrations_and_passwords_and_then_another_begins() {
        let limits = ChatLimits {
            registrations_an_hour_max: 4,
            registrations_a_source_max: 2,
            passwords_an_account_max: 1,
            ..ChatLimits::default()
        };
        let source = |last| Some(Source::of([10, 0, 0, last].into()));
        let mut hour = Hour::default();
        let mut registers = |at, source| hour.at(at).registers(source, &limits);
        let at = 2 * HOUR_US;
        assert_eq!([1; 3].map(|it| registers(at, source(it))), [true, true, false]);
        assert!(registers(at, None), "of this machine");
        assert_eq!([2, 3].map(|it| registers(at, source(it))), [true, false], "four in all");
        assert!(registers(at + HOUR_US, source(1)));
        let mut changes = |at, user| hour.at(at).changes(user, &limits);
        let at = at + HOUR_US;
        assert_eq!(["ann", "ann", "bob"].map(|it| changes(at, it)), [true, false, true]);
        assert!(changes(at + HOUR_US, "ann"));
    }

    #[test]
    fn no_more_is_counted_than_there_is_room_for() {
        let mut counted: HashMap<usize, u32> = (0..COUNTED_MAX).map(|it| (it, 1)).collect();
        assert!(!counts(&mut counted, COUNTED_MAX, 9));
        assert!(counts(&mut counted, 0, 9), "one that is there already");
    }
}
