//! The list of bans on the log, and the rules that ban by themselves.
//!
//! A ban is on stable storage before it is answered; then it holds, and the shards are woken to end
//! the connections that it is about. Bans of rules are stored by a thread of their own, as many at
//! once as wait: a shard never waits for the log. `guard` decides who is banned. Invariants: one
//! change at a time, and rules ban neither this machine nor what is exempt.

use super::row_logs::RowLogs;
use crate::clock;
use crate::config::BansSection;
use guard::bans::BanList;
use guard::bans::offences::{OffenceRule, Offences};
use guard::{AccessControl, LoginWitness};
use model::id::ShardId;
use model::link::Source;
use model::link::network::IpNetwork;
use model::ports::access::Question;
use model::ports::bans::{Ban, BanAct, BanCause, BanFault, BanOrder, BanSubject, Bans};
use model::ports::log::{RowHome, Table, Write};
use model::{event, tell};
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// How long a new ban waits for connections to end.
const ENDS: Duration = Duration::from_secs(3);

/// Time between two looks whether they have.
const LOOK: Duration = Duration::from_millis(2);

/// Time between two checks for expired bans, and for log lines.
const ROUND: Duration = Duration::from_secs(10);

/// Bans of rules that may wait for the thread. One more is not made: who goes on offends again.
const PENDING_MAX: usize = 4_096;

/// Sources whose failed logins are counted.
const SOURCES_MAX: usize = 100_000;

/// Bits of the network that is banned for an address of IPv6: what [`Source`] is.
const SOURCE_BITS: u8 = 64;

/// Settings of the operator.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BanSettings {
    /// `[bans]`.
    pub section: BansSection,
    /// Proxies of the listeners.
    pub proxies: Vec<IpNetwork>,
}

impl BanSettings {
    /// The rule about clients that come and go.
    fn flapping(&self) -> OffenceRule {
        let BansSection { flapping_max, flapping_window_s, flapping_ban_s, .. } = self.section;
        let (count_max, window_s, ban_s) = (flapping_max, flapping_window_s, flapping_ban_s);
        OffenceRule { count_max, window_s, ban_s }
    }

    fn failed_logins(&self) -> OffenceRule {
        let section = &self.section;
        OffenceRule {
            count_max: section.failed_logins_max,
            window_s: section.failed_logins_window_s,
            ban_s: section.failed_logins_ban_s,
        }
    }

    fn is_exempt(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let has = |networks: &[IpNetwork]| networks.iter().any(|it| it.contains(address));
        address.is_loopback() || has(&self.section.exempt_networks()) || has(&self.proxies)
    }
}

/// Wakes all shards.
pub type WakeShards = Box<dyn Fn() + Send + Sync>;

/// The list.
pub(crate) struct BanBook {
    list: Arc<BanList>,
    access_control: Arc<AccessControl>,
    logs: Arc<RowLogs>,
    settings: RwLock<Arc<BanSettings>>,
    /// Whether disconnects are counted: looked at for each.
    counts_disconnects: AtomicBool,
    /// Held while the list is changed.
    changing: Mutex<()>,
    /// By shard, the version of the list by which its connections were asked about.
    asked: Mutex<Vec<u64>>,
    failures: Mutex<Failures>,
    pending: Mutex<Pending>,
    came: Condvar,
    wake: OnceLock<WakeShards>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Failed logins.
struct Failures {
    of_sources: Offences<Source>,
    /// A second, and the lines that were logged in it.
    told: (u32, u32),
}

#[derive(Default)]
struct Pending {
    orders: Vec<BanOrder>,
    closed: bool,
}

impl BanBook {
    pub(super) fn new(
        access_control: Arc<AccessControl>,
        logs: Arc<RowLogs>,
        settings: BanSettings,
    ) -> BanBook {
        let counts_disconnects = AtomicBool::new(settings.flapping().count_max > 0);
        BanBook {
            counts_disconnects,
            list: access_control.bans(),
            access_control,
            logs,
            settings: RwLock::new(Arc::new(settings)),
            changing: Mutex::default(),
            asked: Mutex::default(),
            failures: Mutex::new(Failures { of_sources: Offences::new(SOURCES_MAX), told: (0, 0) }),
            pending: Mutex::default(),
            came: Condvar::new(),
            wake: OnceLock::new(),
            thread: Mutex::default(),
        }
    }

    /// A row that the log kept. False: it cannot be read.
    pub(super) fn restore(&self, key: &[u8], value: &[u8]) -> bool {
        let read = subject_of(key).and_then(|subject| ban_of(subject, value));
        let is_read = read.is_some();
        match read {
            Some(ban) => drop(self.list.put([ban])),
            None => {
                let subject = String::from_utf8_lossy(RowHome::rest(key).unwrap_or_default());
                let subject = base::text::escaped(&subject).to_string();
                tell!(event::BAN_UNREADABLE, kind = "unknown", subject);
            }
        }
        is_read
    }

    /// Sets the logs and the shards, which `wake` wakes.
    pub(super) fn begin(self: &Arc<Self>, shards: u16, wake: WakeShards) -> Result<(), String> {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = vec![0; usize::from(shards)];
        // A second one is as good as the first.
        let _ = self.wake.set(wake);
        let witness: Weak<BanBook> = Arc::downgrade(self);
        self.access_control.heed(witness);
        let book = self.clone();
        let thread = Builder::new().name("bans".into()).spawn(move || book.run());
        let thread = thread.map_err(|error| format!("no thread for bans: {error}"))?;
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(())
    }

    /// New settings.
    pub(super) fn reload(&self, settings: BanSettings) {
        self.counts_disconnects.store(settings.flapping().count_max > 0, Ordering::Relaxed);
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }

    pub(super) fn close(&self) {
        self.pending().closed = true;
        self.came.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tell!(event::THREAD_PANICKED, thread = "bans");
        }
    }

    /// Bans in force.
    fn settings(&self) -> Arc<BanSettings> {
        self.settings.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The bans.
    pub(crate) fn bans_in_force(&self) -> &BanList {
        &self.list
    }

    /// A shard has asked about all its connections by this version of the list.
    pub(crate) fn asked_again(&self, shard: ShardId, version: u64) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(of_shard) = asked.get_mut(usize::from(shard.0)) {
            *of_shard = version;
        }
    }

    /// The rule about clients that reconnect too often, if one is configured.
    pub(crate) fn flapping(&self) -> Option<OffenceRule> {
        self.counts_disconnects.load(Ordering::Relaxed).then(|| self.settings().flapping())
    }

    /// A client flaps.
    pub(crate) fn flaps(&self, client: &str, for_s: u32) {
        if let Ok(subject) = BanSubject::parse("client", client) {
            self.offer(subject, BanCause::Flapping, for_s);
        }
    }

    /// Notes a failed login from an address, in the log and for the rule.
    pub(crate) fn login_failed(
        &self,
        now_s: u32,
        address: IpAddr,
        protocol: &str,
        (user, client): (Option<&str>, Option<&str>),
    ) {
        let settings = self.settings();
        let address = address.to_canonical();
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.told.0 != now_s {
            failures.told = (now_s, 0);
        }
        failures.told.1 += 1;
        let is_told = failures.told.1 <= settings.section.login_lines_per_s;
        let rule = settings.failed_logins();
        let is_counted = rule.count_max > 0 && !settings.is_exempt(address);
        let is_too_often = is_counted && failures.of_sources.see(now_s, rule, Source::of(address));
        drop(failures);
        if is_told {
            let shown = |name: Option<&str>| name.map(|name| base::text::escaped(name).to_string());
            let (user, client) = (shown(user), shown(client));
            let (user, client) = (user.as_deref(), client.as_deref());
            tell!(event::LOGIN_FAILED, %address, proto = protocol, user, client);
        }
        if is_too_often {
            let network = match address {
                IpAddr::V4(_) => IpNetwork::of(address),
                IpAddr::V6(_) => IpNetwork::around(address, SOURCE_BITS),
            };
            self.offer(BanSubject::Network(network), BanCause::FailedLogins, rule.ban_s);
        }
    }

    /// Hands a ban of a rule to the thread.
    fn offer(&self, subject: BanSubject, cause: BanCause, for_s: u32) {
        let (note, by) = Default::default();
        let mut pending = self.pending();
        if pending.orders.len() < PENDING_MAX {
            pending.orders.push(BanOrder { subject, cause, note, by, for_s });
            drop(pending);
            self.came.notify_all();
        }
    }

    /// Stores bans by rules, and removes expired ones, until the end.
    fn run(&self) {
        let (mut told_s, mut more, mut left_out) = (0, 0, 0);
        loop {
            let waits = |pending: &mut Pending| pending.orders.is_empty() && !pending.closed;
            let woken = self.came.wait_timeout_while(self.pending(), ROUND, waits);
            let mut pending = woken.unwrap_or_else(PoisonError::into_inner).0;
            if pending.closed {
                return;
            }
            let orders = std::mem::take(&mut pending.orders);
            drop(pending);
            let now_s = clock::unix_s();
            self.remove_over(now_s);
            for order in orders {
                let subject = order.subject.clone();
                match self.put_by_rule(now_s, order) {
                    Ok(Some(ban)) if now_s.saturating_sub(told_s) >= ROUND.as_secs() as u32 => {
                        told_s = now_s;
                        let (kind, value) = (subject.kind(), subject.value());
                        let value = base::text::escaped(&value).to_string();
                        let (cause, until_s) = (ban.cause.name(), ban.until_s);
                        tell!(event::BANNED_BY_RULE, kind, subject = value, cause, until_s);
                    }
                    Ok(Some(_)) => more += 1,
                    Ok(None) => {}
                    Err(_) => left_out += 1,
                }
            }
            if now_s.saturating_sub(told_s) >= ROUND.as_secs() as u32 {
                if more > 0 {
                    tell!(event::MORE_BANNED, count = more);
                }
                if left_out > 0 {
                    tell!(event::BANS_FULL, count = left_out);
                }
                if more + left_out > 0 {
                    (told_s, more, left_out) = (now_s, 0, 0);
                }
            }
        }
    }

    /// Bans by a rule; `None`: it is banned already.
    fn put_by_rule(&self, now_s: u32, order: BanOrder) -> Result<Option<Ban>, BanFault> {
        if self.list.find(now_s, &order.subject).is_some() {
            return Ok(None);
        }
        self.store(now_s, order).map(|(ban, _)| Some(ban))
    }

    /// Stores a ban, has it hold, and has the shards look for those that it is about. Gives the
    /// versions by which they will have.
    fn store(&self, now_s: u32, order: BanOrder) -> Result<(Ban, (u64, u64)), BanFault> {
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.list.has_room(&order.subject, self.settings().section.max)?;
        let BanOrder { subject, cause, note, by, for_s } = order;
        let until_s = if for_s == 0 { 0 } else { now_s.saturating_add(for_s) };
        let (refused, ended) = (0, 0);
        let ban = Ban { subject, cause, note, by, made_s: now_s, until_s, refused, ended };
        let (table, key) = (Table::Bans, key_of(&ban.subject));
        let write = Write::Put { table, key, value: row_of(&ban).into() };
        self.logs.write(vec![write]).map_err(|_| BanFault::NotKept)?;
        let versions = (self.list.put([ban.clone()]), self.access_control.look_again());
        if let Some(wake) = self.wake.get() {
            wake();
        }
        Ok((ban, versions))
    }

    /// Removes expired bans from the log and the list.
    fn remove_over(&self, now_s: u32) {
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let over = self.list.over(now_s);
        let delete = |subject| Write::Delete { table: Table::Bans, key: key_of(subject) };
        // Expired bans that the log does not remove now have ended all the same; the removal is
        // retried.
        if !over.is_empty() && self.logs.write(over.iter().map(delete).collect()).is_ok() {
            self.list.remove(&over);
        }
    }

    /// Waits until the shards have ended the banned connections, for a limited time.
    fn await_ends(&self, (list, access): (u64, u64)) {
        let began = clock::began();
        let is_done = || {
            let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            asked.iter().all(|version| *version >= list) && self.access_control.has_looked(access)
        };
        while !is_done() && clock::since(began) < ENDS && !self.pending().closed {
            std::thread::sleep(LOOK);
        }
    }

    /// Locks what is pending. Nothing panics half way through a change of it.
    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bans for BanBook {
    fn list(&self) -> Vec<Ban> {
        self.list.all(clock::unix_s())
    }

    fn put(&self, order: BanOrder) -> Result<Ban, BanFault> {
        let now_s = clock::unix_s();
        self.remove_over(now_s);
        let (ban, versions) = self.store(now_s, order)?;
        self.await_ends(versions);
        let ban = self.list.find(now_s, &ban.subject).unwrap_or(ban);
        let (kind, value) = (ban.subject.kind(), ban.subject.value());
        let shown = |text: &str| base::text::escaped(text).to_string();
        let (subject, note) = (shown(&value), shown(&ban.note));
        let Ban { by, until_s, ended, .. } = &ban;
        tell!(event::BAN_ADDED, kind, subject, by = &**by, until_s, ended, note);
        Ok(ban)
    }

    fn remove(&self, subject: &BanSubject, by: &str) -> Result<bool, BanFault> {
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.list.find(clock::unix_s(), subject).is_none() {
            return Ok(false);
        }
        let write = Write::Delete { table: Table::Bans, key: key_of(subject) };
        self.logs.write(vec![write]).map_err(|_| BanFault::NotKept)?;
        self.list.remove([subject]);
        let (kind, value) = (subject.kind(), subject.value());
        let subject = base::text::escaped(&value).to_string();
        tell!(event::BAN_REMOVED, kind, subject, by);
        Ok(true)
    }

    fn refuses(&self, address: Option<IpAddr>, user: Option<&str>) -> bool {
        let whom = guard::bans::BanQuery { address, client: None, user };
        self.list.bans(clock::unix_s(), &whom, BanAct::Refuses)
    }

    fn refuses_client(&self, client: &str) -> bool {
        let whom = guard::bans::BanQuery { address: None, client: Some(client), user: None };
        self.list.bans(clock::unix_s(), &whom, BanAct::Refuses)
    }

    fn login_failed(&self, address: IpAddr, user: Option<&str>) {
        BanBook::login_failed(self, clock::unix_s(), address, "http", (user, None));
    }
}

impl LoginWitness for BanBook {
    fn failed(&self, now_s: u32, question: &Question) {
        let user = question.user.as_deref().filter(|user| !user.is_empty());
        let client = Some(&*question.client_id).filter(|id| !id.is_empty());
        let address = SocketAddr::ip(&question.peer);
        self.login_failed(now_s, address, question.protocol, (user, client));
    }
}

fn key_of(subject: &BanSubject) -> Box<[u8]> {
    let value = subject.value();
    RowHome::PROCESS.key(&[subject.kind().as_bytes(), b" ", value.as_bytes()])
}

fn subject_of(key: &[u8]) -> Option<BanSubject> {
    let (kind, value) = std::str::from_utf8(RowHome::rest(key)?).ok()?.split_once(' ')?;
    BanSubject::parse(kind, value).ok()
}

fn row_of(ban: &Ban) -> Vec<u8> {
    let row = json!({
        "cause": ban.cause.name(),
        "note": &*ban.note,
        "by": &*ban.by,
        "made_s": ban.made_s,
        "until_s": ban.until_s,
    });
    row.to_string().into_bytes()
}

fn ban_of(subject: BanSubject, row: &[u8]) -> Option<Ban> {
    let row: Value = serde_json::from_slice(row).ok()?;
    let word = row["cause"].as_str()?;
    let cause = BanCause::ALL.into_iter().find(|cause| cause.name() == word)?;
    let text = |key: &str| row[key].as_str().map(Box::from);
    let second = |key: &str| row[key].as_u64().and_then(|second| u32::try_from(second).ok());
    let (made_s, until_s) = (second("made_s")?, second("until_s")?);
    let (refused, ended) = (0, 0);
    Some(Ban {
        subject,
        cause,
        note: text("note")?,
        by: text("by")?,
        made_s,
        until_s,
        refused,
        ended,
    })
}
