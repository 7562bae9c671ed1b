//! Access control, with the work that `guard` may not do itself: threads for hashing and for
//! requests to services, reading files, fetching keys, and the book of users on the log.
//!
//! [`Entrance`] joins them. A shard calls [`Entrance::access`]; a question without an immediate
//! answer comes here ([`Entrance::resolve`]) and the answer returns by mail. Two lanes: one hashes,
//! one asks services, so that a slow service delays no client with a password. No rule of access is
//! in this file. Invariant: every accepted question is answered once, whatever happens.

pub(crate) mod ban_book;
mod console;
mod database;
mod import;
mod lane;
mod ldap;
mod order_desk;
mod row_logs;
mod service;
mod settings;
mod token_shelf;
mod user_book;

pub use ban_book::{BanSettings, WakeShards};
pub use database::DatabaseCounts;
pub use ldap::LdapCounts;
pub use order_desk::{OrderWays, TellBooked, Witness};
pub use row_logs::{LogFailed, LogWay, RowLogs, SubmitRows};
pub use settings::{Settings, database_settings};

use crate::clock;
use ::database::MySqlAccounts;
use ban_book::BanBook;
use console::ConsoleDoor;
use database::{BookDatabase, Follower};
use guard::book::UserEntry;
use guard::http::{NoVerdict, ServiceVerdict};
use guard::passwords::{self, Hashing};
use guard::{AccessControl, Errands, NotRead};
use lane::{Asked, Lane, LaneLimits, Turn};
use ldap::{LdapService, LdapTally};
use model::id::ShardId;
use model::limits::ChatLimits;
use model::ports::access::{Access, Admission, LdapVerdict, Question};
use model::ports::bans::Bans;
use model::ports::databases::accounts::AccountTables;
use model::ports::log::Completion;
use model::ports::tokens::TokenRows;
use model::ports::users::{BookFault, BookOrder, Users};
use model::service::ServiceKind;
use model::session::Denial;
use model::{event, tell};
use order_desk::OrderDesk;
use service::Service;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, RwLock};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use token_shelf::TokenShelf;
use user_book::UserBook;

/// Files named in the settings that cannot be used, a sentence each.
pub fn unusable(settings: &Settings) -> Option<String> {
    settings.load().err()
}

/// A line of a password file for a new password, as a server reads it from `password_file`. Slow.
/// The error says why there is none.
pub fn password_line(user: &str, password: &str) -> Result<String, String> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(|error| format!("random number generator: {error}"))?;
    passwords::line(user, password, &Hashing::default(), random)
}

/// Hands the answer to a question to the service that asked, on its shard. It must arrive.
pub type Tell = Box<dyn Fn((ServiceKind, ShardId), u64, Admission) + Send + Sync>;

/// The ways out.
pub struct Outbound {
    /// To the logs that hold users and tokens.
    pub logs: LogWay,
    /// To the shards.
    pub tell: Tell,
    /// Has them look for connections that are banned.
    pub wake: WakeShards,
}

/// Counts of the questions of access.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AccessCounts {
    /// Questions that wait now.
    pub waiting: u64,
    /// Questions that were answered by a thread.
    pub resolved: u64,
    /// Times that the service was asked.
    pub asked: u64,
    /// Times that it did not answer.
    pub ask_failures: u64,
    /// Questions that were refused because too many waited, or for too long.
    pub refused_full: u64,
    /// Checks that were not made, because they had been made a short while before.
    pub remembered: u64,
}

/// The way to users and rules.
pub struct Entrance {
    shared: Arc<AccessShared>,
    logs: Arc<RowLogs>,
    tokens: Arc<TokenShelf>,
    orders: Arc<OrderDesk>,
    bans: Arc<BanBook>,
    /// The keys' thread.
    fetcher: Mutex<Option<JoinHandle<()>>>,
    /// The thread that has the book follow its database.
    follower: Mutex<Option<JoinHandle<()>>>,
}

/// State shared by the threads.
struct AccessShared {
    access_control: Arc<AccessControl>,
    book: Arc<UserBook>,
    settings: RwLock<(Settings, Arc<Others>)>,
    hashing: Arc<Lane>,
    asking: Arc<Lane>,
    tell: OnceLock<Tell>,
    tally: Tally,
    /// Whether the threads must end; the keys' thread is woken.
    over: Mutex<bool>,
    ended: Condvar,
}

/// Others that are asked.
struct Others {
    service: Service,
    ldap: LdapService,
}

impl Others {
    fn new(settings: &Settings) -> Result<Arc<Others>, String> {
        let (service, ldap) = (Service::new(settings), LdapService::new(settings)?);
        Ok(Arc::new(Others { service, ldap }))
    }
}

#[derive(Default)]
struct Tally {
    resolved: AtomicU64,
    asked: AtomicU64,
    ask_failures: AtomicU64,
    refused_full: AtomicU64,
    ldap: LdapTally,
}

impl Entrance {
    /// Reads all files; the error says what is wrong with them, for the operator. `seed` is random
    /// and new.
    pub fn new(settings: Settings, seed: [u8; 32]) -> Result<Arc<Entrance>, String> {
        let tables = settings.database()?.map(|settings| MySqlAccounts::new(&settings));
        let tables = tables.transpose()?.map(|tables| Arc::new(tables) as Arc<dyn AccountTables>);
        Entrance::with_tables(settings, seed, tables)
    }

    /// As [`new`](Self::new), with the tables of the book, where a database keeps it.
    fn with_tables(
        settings: Settings,
        seed: [u8; 32],
        tables: Option<Arc<dyn AccountTables>>,
    ) -> Result<Arc<Entrance>, String> {
        let database = tables.map(|tables| Arc::new(BookDatabase::new(tables)));
        let (guarded, files) = settings.load()?;
        let access_control = Arc::new(AccessControl::new(guarded, files, seed));
        let others = Others::new(&settings)?;
        let room = LaneLimits {
            waiting_max: settings.access.waiting_max,
            a_source_max: settings.access.waiting_a_source_max,
        };
        let lane = || Lane::new(room);
        let logs = Arc::new(RowLogs::default());
        let shared = AccessShared {
            book: Arc::new(UserBook::new(
                access_control.clone(),
                (logs.clone(), settings.chat_domain.clone()),
                database,
            )),
            access_control,
            hashing: lane(),
            asking: lane(),
            settings: RwLock::new((settings, others)),
            tell: OnceLock::new(),
            tally: Tally::default(),
            over: Mutex::new(false),
            ended: Condvar::new(),
        };
        let tokens = Arc::new(TokenShelf::new(logs.clone()));
        let bans = shared.settings.read().unwrap_or_else(PoisonError::into_inner).0.bans.clone();
        let bans = Arc::new(BanBook::new(shared.access_control.clone(), logs.clone(), bans));
        let (fetcher, follower) = Default::default();
        let orders = OrderDesk::new(shared.book.clone(), shared.access_control.clone());
        let (shared, orders) = (Arc::new(shared), Arc::new(orders));
        Ok(Arc::new(Entrance { shared, logs, tokens, orders, bans, fetcher, follower }))
    }

    /// A row of [`model::ports::log::Table::Users`] that the log kept. False: it cannot be read.
    pub fn restore(&self, key: &[u8], value: &[u8]) -> bool {
        self.shared.book.restore(key, value)
    }

    /// To be called when all rows of users are restored. The error says why the server cannot use
    /// them, for the operator.
    pub fn restored(&self) -> Result<(), String> {
        self.shared.book.restored()
    }

    /// Takes a row of [`model::ports::log::Table::ApiTokens`] at the start. False: it is invalid.
    pub fn restore_token(&self, key: &[u8], value: &[u8]) -> bool {
        self.tokens.restore(key, value)
    }

    /// Takes a row of [`model::ports::log::Table::Bans`] at the start. False: it is invalid.
    pub fn restore_ban(&self, key: &[u8], value: &[u8]) -> bool {
        self.bans.restore(key, value)
    }

    /// Starts the threads. From now on questions are resolved and the book can be changed.
    pub fn begin(&self, outbound: Outbound) -> Result<(), String> {
        self.begin_alone(outbound)?;
        self.start_following()
    }

    /// As [`begin`](Self::begin), without the thread that follows a database.
    fn begin_alone(&self, outbound: Outbound) -> Result<(), String> {
        let shards = outbound.logs.shards;
        self.shared.access_control.serve(shards);
        self.logs.begin(outbound.logs);
        self.bans.begin(shards, outbound.wake)?;
        // A second one is as good as the first.
        let _ = self.shared.tell.set(outbound.tell);
        let failed = |fault| format!("cannot open the user database: {fault:?}");
        self.shared.book.begin().map_err(failed)?;
        self.start_threads()
    }

    fn start_following(&self) -> Result<(), String> {
        let Some(database) = &self.shared.book.database else { return Ok(()) };
        let follower = Follower::new(self.shared.book.clone(), database.clone());
        let thread = Builder::new().name("accounts".into()).spawn(move || follower.run());
        let thread = thread.map_err(|error| format!("cannot start the account thread: {error}"))?;
        *self.follower.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(())
    }

    /// Access control that brokers ask. One serves all shards.
    pub fn access(&self) -> Arc<dyn Access> {
        self.shared.access_control.clone()
    }

    /// The book, for the API.
    pub fn users(&self) -> Arc<dyn Users> {
        self.shared.book.clone()
    }

    /// Users that may log in to the console by name and password.
    pub fn console_people(&self) -> Arc<dyn admin::ConsolePeople> {
        let (book, access_control) = (&self.shared.book, &self.shared.access_control);
        Arc::new(ConsoleDoor { book: book.clone(), access_control: access_control.clone() })
    }

    /// The list of bans, for the API.
    pub fn bans(&self) -> Arc<dyn Bans> {
        self.bans.clone()
    }

    /// The list of bans, for shards.
    pub(crate) fn ban_book(&self) -> &BanBook {
        &self.bans
    }

    /// Where the API's tokens are kept.
    pub fn token_rows(&self) -> Arc<dyn TokenRows> {
        self.tokens.clone()
    }

    /// Takes a question that [`Access::admit`] answered with `Later`. Never blocks. `Err`: this is
    /// the answer, at once.
    pub fn resolve(
        &self,
        by: (ServiceKind, ShardId),
        number: u64,
        question: Box<Question>,
    ) -> Result<(), Admission> {
        let known = self.shared.access_control.known(clock::unix_s(), &question);
        self.shared.hashing.put(Asked { by, number, question, known }).map_err(|(why, _)| {
            self.shared.tally.refused_full.fetch_add(1, Ordering::Relaxed);
            Admission::Refused(why)
        })
    }

    /// Takes orders to the book from now on, which services give.
    pub fn take_orders(&self, ways: OrderWays) -> Result<(), String> {
        self.orders.begin(ways)
    }

    /// Sets other limits for registrations and passwords.
    pub fn set_limits(&self, limits: &ChatLimits) {
        self.orders.set_limits(limits);
    }

    /// Sets the witness that such orders are reported to before they are answered.
    pub fn tell_orders(&self, witness: Witness) {
        self.orders.heed(witness);
    }

    /// Takes an order to the book. Never blocks. `Err`: it will not be carried out.
    pub fn order(
        &self,
        by: (ServiceKind, ShardId),
        number: u64,
        order: Box<BookOrder>,
    ) -> Result<(), BookFault> {
        self.orders.put(by, number, order)
    }

    /// The log has answered calls of [`model::ports::log::Party::Users`].
    pub fn complete(&self, completions: Vec<Completion>) {
        self.logs.complete(completions);
    }

    /// Reads all files again and applies the new settings. The error says what is wrong: then the
    /// old ones stay in force. The number of threads and of places stays until a restart.
    pub fn reload(&self, settings: Settings) -> Result<(), String> {
        let (guarded, files) = settings.load()?;
        let others = Others::new(&settings)?;
        self.bans.reload(settings.bans.clone());
        let mut current = self.shared.settings.write().unwrap_or_else(PoisonError::into_inner);
        if current.0.keys_url() != settings.keys_url() {
            self.shared.access_control.learn(guard::token::Keys::default());
        }
        *current = (settings, others);
        drop(current);
        self.shared.access_control.replace(guarded, files);
        self.shared.ended.notify_all();
        self.start_threads()
    }

    /// Refuses all waiting questions, ends all waiting for the log, and ends the threads. To be
    /// called when the shards have ended.
    pub fn close(&self) {
        *self.shared.over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.ended.notify_all();
        self.logs.close();
        self.orders.close();
        self.bans.close();
        self.shared.book.database.iter().for_each(|database| database.close());
        self.shared.hashing.close();
        self.shared.asking.close();
        let threads =
            [(&self.fetcher, "fetches keys"), (&self.follower, "follows the database of accounts")];
        for (thread, what) in threads {
            let thread = thread.lock().unwrap_or_else(PoisonError::into_inner).take();
            if thread.is_some_and(|thread| thread.join().is_err()) {
                tell!(event::THREAD_PANICKED, thread = what);
            }
        }
    }

    /// Figures of the database of accounts, where one keeps them.
    pub fn database_counts(&self) -> Option<DatabaseCounts> {
        self.shared.book.database.as_ref().map(|database| database.counts())
    }

    /// Metrics of the LDAP server, if one is configured.
    pub fn ldap_counts(&self) -> Option<LdapCounts> {
        let settings = self.shared.settings.read().unwrap_or_else(PoisonError::into_inner);
        settings.0.access.ldap.is_on().then(|| self.shared.tally.ldap.counts())
    }

    /// Work done so far.
    pub fn counts(&self) -> AccessCounts {
        let AccessShared { access_control, hashing, asking, tally, .. } = &*self.shared;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        AccessCounts {
            waiting: (hashing.waiting() + asking.waiting()) as u64,
            resolved: count(&tally.resolved),
            asked: count(&tally.asked),
            ask_failures: count(&tally.ask_failures),
            refused_full: count(&tally.refused_full),
            remembered: access_control.remembered(),
        }
    }

    /// Starts the wanted threads that do not run yet.
    fn start_threads(&self) -> Result<(), String> {
        let settings =
            self.shared.settings.read().unwrap_or_else(PoisonError::into_inner).0.clone();
        let shared = self.shared.clone();
        let hash = Arc::new(move |turn, asked| shared.work(turn, asked, false));
        self.shared.hashing.start("access", settings.access.threads, hash)?;
        if !settings.asks() {
            return Ok(());
        }
        let shared = self.shared.clone();
        let ask = Arc::new(move |turn, asked| shared.work(turn, asked, true));
        self.shared.asking.start("access-ask", settings.access.ask_threads, ask)?;
        let mut fetcher = self.fetcher.lock().unwrap_or_else(PoisonError::into_inner);
        if fetcher.is_none() {
            let shared = self.shared.clone();
            let run = move || shared.keep_keys();
            let thread = Builder::new().name("access-keys".into()).spawn(run);
            *fetcher = Some(thread.map_err(|error| {
                format!(
                    "cannot start the key thread: \
                                                            {error}"
                )
            })?);
        }
        Ok(())
    }
}

impl AccessShared {
    /// Answers one question, on a thread of a lane.
    fn work(&self, turn: Turn, asked: Asked, asks: bool) {
        if matches!(turn, Turn::TooLate) {
            self.tally.refused_full.fetch_add(1, Ordering::Relaxed);
            return self.answer(&asked, Admission::Refused(Denial::Unavailable));
        }
        let mut errands = Thread { shared: self, asks };
        let admission = self.access_control.resolve(clock::unix_s(), &asked.question, &mut errands);
        if !matches!(admission, Admission::Later) {
            self.tally.resolved.fetch_add(1, Ordering::Relaxed);
            return self.answer(&asked, admission);
        }
        // The question needs a service, so it moves to the other lane.
        let left = if asks { Err((Denial::Unavailable, asked)) } else { self.asking.put(asked) };
        if let Err((why, asked)) = left {
            self.tally.refused_full.fetch_add(1, Ordering::Relaxed);
            self.answer(&asked, Admission::Refused(why));
        }
    }

    fn answer(&self, asked: &Asked, admission: Admission) {
        let tell = self.tell.get().expect("threads are started when there is somebody to tell");
        tell(asked.by, asked.number, admission);
    }

    /// Fetches keys periodically, and probes the LDAP server, until the end.
    fn keep_keys(&self) {
        let (mut known, mut fetched_s) = (None::<Arc<Others>>, 0);
        loop {
            let (others, now_s) = (self.others(), clock::unix_s());
            let is_new = known.as_ref().is_none_or(|known| !Arc::ptr_eq(known, &others));
            let refresh_s = others.service.refresh_s().unwrap_or(u32::MAX);
            if is_new || now_s.saturating_sub(fetched_s) >= refresh_s {
                self.fetch_keys(&others);
                fetched_s = now_s;
            }
            // A login may have found the server unavailable, and the next login may be hours away.
            if is_new || self.tally.ldap.is_away() {
                others.ldap.probe(&self.tally.ldap);
            }
            let retry_s = if others.ldap.is_configured() { ldap::RETRY_S } else { u32::MAX };
            known = Some(others);
            let wait_s = refresh_s.min(retry_s);
            let over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
            if *over {
                return;
            }
            // A reload wakes it too: what it has to fetch may be elsewhere now.
            let woken = self.ended.wait_timeout(over, Duration::from_secs(wait_s.into()));
            if *woken.unwrap_or_else(PoisonError::into_inner).0 {
                return;
            }
        }
    }

    fn fetch_keys(&self, others: &Arc<Others>) -> bool {
        others.service.fetch_keys(clock::unix_s(), |keys| {
            // Keys that were fetched for replaced settings are dropped.
            let current = self.settings.read().unwrap_or_else(PoisonError::into_inner);
            if Arc::ptr_eq(others, &current.1) {
                self.access_control.learn(keys);
            }
        })
    }

    fn others(&self) -> Arc<Others> {
        self.settings.read().unwrap_or_else(PoisonError::into_inner).1.clone()
    }
}

/// Kinds of slow work that a thread does.
struct Thread<'a> {
    shared: &'a AccessShared,
    /// Whether the thread may ask external services.
    asks: bool,
}

// Each errand finds the services after access control has read its settings: an answer of replaced
// settings is then never kept under the new ones.
impl Errands for Thread<'_> {
    fn may_hash(&self) -> bool {
        true
    }

    fn ask(&mut self, question: &str) -> Option<Result<ServiceVerdict, NoVerdict>> {
        if !self.asks {
            return None;
        }
        self.shared.tally.asked.fetch_add(1, Ordering::Relaxed);
        let answer = self.shared.others().service.ask(question);
        if answer.is_err() {
            self.shared.tally.ask_failures.fetch_add(1, Ordering::Relaxed);
        }
        Some(answer)
    }

    fn look_up(&mut self, user: &str, password: &[u8]) -> Option<Result<LdapVerdict, NoVerdict>> {
        let look_up = || self.shared.others().ldap.look_up(&self.shared.tally.ldap, user, password);
        self.asks.then(look_up)
    }

    fn fetch_keys(&mut self) -> Option<bool> {
        self.asks.then(|| self.shared.fetch_keys(&self.shared.others()))
    }

    fn entry(&mut self, name: &str) -> Option<Result<Option<UserEntry>, NotRead>> {
        Some(self.shared.book.entry(name))
    }
}

#[cfg(test)]
mod ban_tests;
#[cfg(test)]
mod ldap_tests;
#[cfg(test)]
mod order_tests;
#[cfg(test)]
mod tests;
