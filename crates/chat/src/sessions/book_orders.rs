//! Orders to the book of accounts: from whom they are taken, and what becomes of the sessions that
//! gave them.
//!
//! ```text
//! wish ─► may it? ─► under way, and not looked at ─► the book ─► answered ─► looked at again
//! registration ─► is there an account? ─► under way ─► the book ─► answered
//! ```
//! Passwords and accounts are the book's, which looks again at whose order it is. A session whose
//! order is under way is left by the walk that follows a change of the rules: else a device that
//! has changed its password would be ended before it heard so. Invariants: a session has one order
//! under way at most; one that was left is looked at as soon as its order is answered, and until
//! then nobody is told that all were looked at.

use crate::accounts::FOUND_BYTES;
use crate::service::flow::Flow;
use crate::sessions::Requester;
use crate::{Chat, Effects};
use base::slab::Key;
use base::time::Now;
use model::account::AccountAddress;
use model::chat::{ChatDelivery, ChatFault};
use model::id::ConnRef;
use model::ports::access::{GrantedAccount, NameOwner};
use model::ports::users::{
    BOOK_ACCOUNTS_MAX, BookAnswer, BookDone, BookFault, BookOrder, BookRequest, BookWish,
    OperatorWish, Registering, Registration, UserOrder, UserVerb,
};
use model::service::ServiceKind;
use std::collections::{BTreeSet, BinaryHeap, HashMap};
use std::sync::Arc;

/// Orders of a shard that may be under way. One more is answered as busy.
const UNDER_WAY_MAX: usize = 1_024;

/// Accounts of a shard that one list of them looks through.
const LOOKED_MAX: usize = 65_536;

/// How names of guests begin, which nobody registers.
const GUEST: &str = "guest-";

/// From whom orders to the book are taken.
#[derive(Clone, Debug)]
pub struct BookPolicy {
    /// What anybody may do with its own account.
    pub registration: Registration,
    /// The users who administer the server by protocols of chat.
    pub administrators: Arc<[Box<str>]>,
}

impl Default for BookPolicy {
    fn default() -> Self {
        BookPolicy { registration: Registration::Off, administrators: Arc::default() }
    }
}

/// Orders that are under way.
#[derive(Default)]
pub(crate) struct BookOrders {
    under_way: HashMap<u64, By>,
    sessions: BTreeSet<Key>,
    last: u64,
    /// The version by which all sessions but some of these were looked at.
    owed: Option<u64>,
}

/// Whose order it is.
enum By {
    /// A session's.
    Session(Requester),
    /// That of a connection without one.
    Nobody(ConnRef),
}

impl BookOrders {
    /// Whether a session's order is under way.
    pub(crate) fn has(&self, key: Key) -> bool {
        self.sessions.contains(&key)
    }

    /// All sessions were looked at by this version of the rules. Whether that may be told.
    pub(crate) fn may_tell(&mut self, version: u64) -> bool {
        self.owed = (!self.sessions.is_empty()).then_some(version);
        self.owed.is_none()
    }

    fn put(&mut self, by: By, order: BookOrder, fx: &mut Effects) {
        self.last += 1;
        if let By::Session(wait) = &by {
            self.sessions.insert(wait.session.key());
        }
        self.under_way.insert(self.last, by);
        fx.book_orders.push((self.last, Box::new(order)));
    }

    pub(crate) fn audit(&self) {
        let of_sessions = self.under_way.values().filter(|by| matches!(by, By::Session(_)));
        assert_eq!(of_sessions.count(), self.sessions.len(), "one order a session");
        assert!(self.owed.is_none() || !self.sessions.is_empty());
    }
}

/// The book makes an account of a name that nobody has.
async fn register(mut flow: Flow, conn: ConnRef, registering: Registering) {
    let Registering { address, password, source } = registering;
    let bytes = FOUND_BYTES + UserOrder::PASSWORD_BYTES_MAX;
    let row = flow.account_row((&address, None), bytes).await;
    let (chat, _, fx) = flow.state();
    let fault = match row {
        // It is somebody's who proves it by something else than the book, or by nothing.
        Ok(_) => BookFault::Conflict,
        Err(ChatFault::UnknownAccount) if chat.erasures.has_name(&address) => BookFault::Conflict,
        Err(ChatFault::UnknownAccount) if chat.book_orders.under_way.len() < UNDER_WAY_MAX => {
            let user = chat.settings.user_of(&address).into();
            let order = BookOrder::Register { user, password, source };
            return chat.book_orders.put(By::Nobody(conn), order, fx);
        }
        Err(ChatFault::StoreFailed | ChatFault::StoreFull) => BookFault::StoreFailed,
        Err(_) => BookFault::Busy,
    };
    answer(conn, 0, Err(fault), fx);
}

impl Chat {
    /// A device wants something of the book.
    pub(crate) fn book_wish(&mut self, from: ConnRef, asked: BookRequest, fx: &mut Effects) {
        let BookRequest { session, number, wish } = asked;
        let Some(key) = self.sessions.bound(from, session) else { return };
        let wait = Requester { conn: from, session, number };
        match self.order_of(key, wish) {
            Ok(order) => self.book_orders.put(By::Session(wait), order, fx),
            Err(fault) => self.book_answers(wait, Err(fault), fx),
        }
    }

    /// The order that a wish of a session comes to.
    fn order_of(&self, key: Key, wish: BookWish) -> Result<BookOrder, BookFault> {
        let session = self.sessions.slab.at(key).ok_or(BookFault::Busy)?;
        let is_operators = matches!(wish, BookWish::Operate(_));
        // Whoever is not of the book has nothing there, and is nobody who could order something.
        let none = if is_operators { BookFault::Forbidden } else { BookFault::Off };
        // Rights that have an end of their own, as those of a token, are not made ones without.
        let account = session.account.filter(|_| session.until_s == 0);
        let (Some(user), Some(account)) = (self.user_of_session(session), account) else {
            return Err(none);
        };
        let policy = &self.settings.book;
        let may = match &wish {
            BookWish::Password(_) => policy.registration != Registration::Off,
            BookWish::Leave => policy.registration == Registration::Open,
            BookWish::Operate(_) => policy.administrators.iter().any(|name| **name == *user),
        };
        if !may {
            return Err(none);
        }
        if self.book_orders.has(key) || self.book_orders.under_way.len() >= UNDER_WAY_MAX {
            return Err(BookFault::Busy);
        }
        let user = user.into();
        Ok(match wish {
            BookWish::Password(password) => BookOrder::Password { user, account, password },
            BookWish::Leave => BookOrder::Leave { user, account },
            BookWish::Operate(wish) => self.operators_order((user, account), wish)?,
        })
    }

    fn operators_order(
        &self,
        (by, account): (Box<str>, GrantedAccount),
        wish: OperatorWish,
    ) -> Result<BookOrder, BookFault> {
        if let OperatorWish::Statistics(address) = &wish
            && self.settings.is_foreign(address)
        {
            return Err(BookFault::Unknown(address.as_str().into()));
        }
        let mut users = Vec::new();
        if let OperatorWish::Change(change) = &wish {
            if !(1..=BOOK_ACCOUNTS_MAX).contains(&change.accounts.len()) {
                let why = format!("give 1 to {BOOK_ACCOUNTS_MAX} accounts");
                return Err(BookFault::Wrong(why.into()));
            }
            let wants_one = matches!(change.verb, UserVerb::Add | UserVerb::SetPassword);
            if wants_one != change.password.is_some() {
                return Err(BookFault::Wrong("a password is missing or invalid".into()));
            }
            for address in &change.accounts {
                if change.verb == UserVerb::Add && !self.may_be_made(address) {
                    return Err(BookFault::Wrong("this name is not allowed".into()));
                }
                if self.settings.is_foreign(address) {
                    return Err(BookFault::Unknown(address.as_str().into()));
                }
                users.push(self.settings.user_of(address).into());
            }
        }
        Ok(BookOrder::Operate { by, account, wish, users })
    }

    /// Whether somebody may have this address at all.
    fn may_be_made(&self, address: &AccountAddress) -> bool {
        !address.is_group()
            && !address.is_chatroom()
            && !address.is_system()
            && !address.name().starts_with(GUEST)
    }

    /// Somebody without a session wants an account.
    pub(crate) fn register(&mut self, conn: ConnRef, registering: Registering, fx: &mut Effects) {
        let address = &registering.address;
        let refused = if self.settings.book.registration != Registration::Open {
            Some(BookFault::Off)
        } else if self.settings.is_foreign(address) || !self.may_be_made(address) {
            Some(BookFault::Wrong("this name is not allowed".into()))
        } else if self.owner_of(address) != NameOwner::Unknown {
            Some(BookFault::Conflict)
        } else {
            (!self.begin(|flow| register(flow, conn, registering))).then_some(BookFault::Busy)
        };
        if let Some(fault) = refused {
            answer(conn, 0, Err(fault), fx);
        }
    }

    /// What became of an order.
    pub(crate) fn book_told(
        &mut self,
        now: Now,
        number: u64,
        result: BookAnswer,
        fx: &mut Effects,
    ) {
        let wait = match self.book_orders.under_way.remove(&number) {
            Some(By::Session(wait)) => wait,
            Some(By::Nobody(conn)) => return answer(conn, 0, result, fx),
            None => return,
        };
        let key = wait.session.key();
        self.book_orders.sessions.remove(&key);
        if let (Ok(BookDone::Granted(account)), Some(session)) =
            (&result, self.sessions.slab.at_mut(key))
        {
            session.account = Some(*account);
        }
        self.book_answers(wait, result, fx);
        // It was left by the walk meanwhile, and goes on only if it still may.
        self.renew_one(now, key, self.settings.access.version(), fx);
        if self.book_orders.sessions.is_empty()
            && let Some(version) = self.book_orders.owed.take()
        {
            self.settings.access.renewed((ServiceKind::Chat, self.settings.shard), version);
        }
    }

    fn book_answers(&mut self, wait: Requester, result: BookAnswer, fx: &mut Effects) {
        let Requester { conn, session, number } = wait;
        let answer = Box::new(result);
        self.answer_session((conn, session), ChatDelivery::Book { number, answer }, fx);
    }

    /// Accounts that have devices here, or on their way in: how many, and so many of those that
    /// are looked through, in order.
    pub(crate) fn accounts_here(&self, count: usize) -> (u64, Vec<AccountAddress>) {
        let online = &self.sessions.online;
        let mut some = BinaryHeap::new();
        for one in online.values().take(LOOKED_MAX).filter(|one| !one.sessions.is_empty()) {
            some.push(&one.address);
            if some.len() > count {
                some.pop();
            }
        }
        let some = some.into_sorted_vec().into_iter().cloned();
        (online.len() as u64, some.collect())
    }
}

fn answer(conn: ConnRef, number: u32, result: BookAnswer, fx: &mut Effects) {
    let answer = Box::new(result);
    fx.deliveries.push((conn, ChatDelivery::Book { number, answer }));
}
