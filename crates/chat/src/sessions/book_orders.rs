//! Orders to the account book: the clients that may give them, and the treatment of their sessions.
//!
//! ```text
//! request ─► allowed? ─► open, session not checked ─► the book ─► answered ─► session checked
//! registration ─► account exists? ─► open ─► the book ─► answered
//! ```
//! The book owns passwords and accounts, and checks again whose order it is. A session with an open
//! order is skipped by the walk that follows a change of the rules: else a device that has changed
//! its password would be ended before it got the answer. Invariants: a session has one open order
//! at most; a skipped session is checked as soon as its order is answered, and until then the walk
//! is not reported as complete.

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
use model::ports::requests::PortRequest;
use model::ports::users::{
    BOOK_ACCOUNTS_MAX, BookAnswer, BookDone, BookFault, BookOrder, BookRequest, BookWish,
    OperatorWish, Registering, Registration, UserOrder, UserVerb,
};
use model::service::ServiceKind;
use std::collections::{BTreeSet, BinaryHeap, HashMap};
use std::sync::Arc;

/// Open orders of a shard. A further one is answered as busy.
const UNDER_WAY_MAX: usize = 1_024;

/// Accounts of a shard that one request for a list examines.
const LOOKED_MAX: usize = 65_536;

/// Prefix of guests' names, which cannot be registered.
const GUEST: &str = "guest-";

/// The clients that may give orders to the account book.
#[derive(Clone, Debug)]
pub struct BookPolicy {
    /// Operations that users may perform on their own accounts.
    pub registration: Registration,
    /// The users who administer the server by protocols of chat.
    pub administrators: Arc<[Box<str>]>,
}

impl Default for BookPolicy {
    fn default() -> Self {
        BookPolicy { registration: Registration::Off, administrators: Arc::default() }
    }
}

/// Open orders of a shard.
#[derive(Default)]
pub(crate) struct BookOrders {
    under_way: HashMap<u64, By>,
    sessions: BTreeSet<Key>,
    last: u64,
    /// The version of the rules by which all sessions but some of these have been checked.
    owed: Option<u64>,
}

/// The origin of an order.
enum By {
    /// A session.
    Session(Requester),
    /// A connection without a session.
    Nobody(ConnRef),
}

impl BookOrders {
    /// Whether the session has an open order.
    pub(crate) fn has(&self, key: Key) -> bool {
        self.sessions.contains(&key)
    }

    /// Records that all sessions have been checked by this version of the rules. Returns whether
    /// that may be reported.
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
        fx.port_requests.push((self.last, PortRequest::Book(Box::new(order))));
    }

    pub(crate) fn audit(&self) {
        let of_sessions = self.under_way.values().filter(|by| matches!(by, By::Session(_)));
        assert_eq!(of_sessions.count(), self.sessions.len(), "one order a session");
        assert!(self.owed.is_none() || !self.sessions.is_empty());
    }
}

/// Has the book create an account with an unused name.
async fn register(mut flow: Flow, conn: ConnRef, registering: Registering) {
    let Registering { address, password, source } = registering;
    let bytes = FOUND_BYTES + UserOrder::PASSWORD_BYTES_MAX;
    let row = flow.account_row((&address, None), bytes).await;
    let (chat, _, fx) = flow.state();
    let fault = match row {
        // The name belongs to an account that another authentication proves, or none.
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
    /// Handles a device's request to the account book.
    pub(crate) fn book_wish(&mut self, from: ConnRef, asked: BookRequest, fx: &mut Effects) {
        let BookRequest { session, number, wish } = asked;
        let Some(key) = self.sessions.bound(from, session) else { return };
        let wait = Requester { conn: from, session, number };
        match self.order_of(key, wish) {
            Ok(order) => self.book_orders.put(By::Session(wait), order, fx),
            Err(fault) => self.book_answers(wait, Err(fault), fx),
        }
    }

    /// The order that a session's request amounts to.
    fn order_of(&self, key: Key, wish: BookWish) -> Result<BookOrder, BookFault> {
        let session = self.sessions.slab.at(key).ok_or(BookFault::Busy)?;
        let is_operators = matches!(wish, BookWish::Operate(_));
        // A session without an account in the user database cannot change an account, and must not
        // send operators' commands.
        let none = if is_operators { BookFault::Forbidden } else { BookFault::Off };
        // Limited rights, such as those of a token, must not create unlimited ones.
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

    /// Whether an account may have this address at all.
    fn may_be_made(&self, address: &AccountAddress) -> bool {
        !address.is_group()
            && !address.is_chatroom()
            && !address.is_system()
            && !address.name().starts_with(GUEST)
    }

    /// Handles a registration by a connection without a session.
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

    /// Handles the book's answer to an order.
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
        // The walk has skipped the session meanwhile: it goes on only if it still may.
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

    /// Accounts with devices that are online or logging in: their number, and the first `count` of
    /// those examined, sorted.
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
