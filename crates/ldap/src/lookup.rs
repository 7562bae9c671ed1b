//! The check of a user's name and password, over pooled connections.
//!
//! With a search first, each login uses two connections in turn: one is bound as `bind_dn` and
//! searches, on the other users bind. With `user_dn`, one connection does both, as the user. An
//! idle connection that a server has closed meanwhile is replaced once, within the call's time.

use crate::clock::{Deadline, now};
use crate::connection::Connection;
use crate::fault::{LdapFault, LdapFaultKind};
use crate::filter::Filter;
use crate::message::{Entry, Scope, Search};
use crate::pause::Pause;
use crate::settings::{BindName, LdapSettings, Plan};
use crate::template::Values;
use model::ports::access::LdapVerdict;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Most bytes of a name.
const NAME_BYTES_MAX: usize = 256;

/// Most idle connections of a kind that are kept: one per thread that may call.
const KEPT_MAX: usize = 64;

/// Longest time of a probe, milliseconds: a process that ends waits for the probe.
const PROBE_MS_MAX: u32 = 10_000;

/// How long an idle connection is kept. Firewalls drop idle ones without notice.
const IDLE: Duration = Duration::from_secs(60);

/// An LDAP service: one server, or several with the same content.
pub struct Ldap {
    plan: Plan,
    /// Index of the server that answered last.
    preferred: AtomicUsize,
    pause: Pause,
    searching: Kept,
    binding: Kept,
}

/// Idle connections.
#[derive(Default)]
struct Kept(Mutex<Vec<(Connection, Instant)>>);

impl Kept {
    /// Takes the connection that was used last. Closes connections that were idle for too long.
    fn take(&self) -> Option<Connection> {
        let now = now();
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(_, since)| now.saturating_duration_since(*since) < IDLE);
        kept.pop().map(|(connection, _)| connection)
    }

    fn put(&self, connection: Connection) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT_MAX {
            kept.push((connection, now()));
        }
    }

    fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Ldap {
    /// An LDAP service without connections. The error says what is wrong with the settings.
    pub fn new(settings: &LdapSettings) -> Result<Ldap, String> {
        Ok(Ldap {
            plan: Plan::of(settings)?,
            preferred: AtomicUsize::new(0),
            pause: Pause::default(),
            searching: Kept::default(),
            binding: Kept::default(),
        })
    }

    /// Checks a name and a password. Blocks, at most until the configured timeout is over; not at
    /// all while calls pause because the last ones got no answer.
    pub fn ask(&self, user: &str, password: &[u8]) -> Result<LdapVerdict, LdapFault> {
        if user.is_empty() || user.len() > NAME_BYTES_MAX {
            return Ok(LdapVerdict::Unknown);
        }
        if password.is_empty() {
            return Ok(LdapVerdict::Wrong);
        }
        let call = Duration::from_millis(u64::from(self.plan.timeout_ms));
        if let Some(fault) = self.pause.fault(now(), call) {
            return Err(fault);
        }
        let verdict = self.check(user, password);
        self.pause.heed(now(), &verdict);
        verdict
    }

    fn check(&self, user: &str, password: &[u8]) -> Result<LdapVerdict, LdapFault> {
        let deadline = Deadline::after(self.plan.timeout_ms);
        match &self.plan.bind_name {
            BindName::Found => self.search_first(user, password, deadline),
            BindName::Dn(pattern) => {
                self.bind_first(user, &pattern.fill_dn(user), password, deadline)
            }
            BindName::Form(pattern) => {
                let name = pattern.fill(Values { user, dn: None });
                self.bind_first(user, &String::from_utf8_lossy(&name), password, deadline)
            }
        }
    }

    /// Connects to a server, and binds as `bind_dn` if users are searched for.
    pub fn probe(&self) -> Result<(), LdapFault> {
        let deadline = Deadline::after(self.plan.timeout_ms.min(PROBE_MS_MAX));
        let kept = match &self.plan.bind_name {
            BindName::Found => &self.searching,
            BindName::Dn(_) | BindName::Form(_) => &self.binding,
        };
        let searches = std::ptr::eq(kept, &self.searching);
        let opened = self.open(searches, deadline);
        self.pause.heed(now(), &opened);
        kept.put(opened?);
        Ok(())
    }

    fn search_first(
        &self,
        user: &str,
        password: &[u8],
        deadline: Deadline,
    ) -> Result<LdapVerdict, LdapFault> {
        let base = (&*self.plan.base, Scope::Subtree);
        let find = |connection: &mut Connection| connection.find(&self.search(user, base));
        let Some(entry) = self.with(&self.searching, deadline, find)? else {
            return Ok(LdapVerdict::Unknown);
        };
        let bind = |connection: &mut Connection| connection.bind(&entry.dn, password);
        if !self.with(&self.binding, deadline, bind)? {
            return Ok(LdapVerdict::Wrong);
        }
        if self.plan.group.is_none() && self.plan.superuser.is_none() {
            return self.right(user, &entry, false);
        }
        let standing = |connection: &mut Connection| self.standing(connection, user, &entry);
        match self.with(&self.searching, deadline, standing)? {
            Some(is_super) => self.right(user, &entry, is_super),
            None => Ok(LdapVerdict::NotMember),
        }
    }

    fn bind_first(
        &self,
        user: &str,
        name: &str,
        password: &[u8],
        deadline: Deadline,
    ) -> Result<LdapVerdict, LdapFault> {
        let base = match &*self.plan.base {
            "" => (name, Scope::Base),
            base => (base, Scope::Subtree),
        };
        self.with(&self.binding, deadline, |connection| {
            if !connection.bind(name, password)? {
                return Ok(LdapVerdict::Wrong);
            }
            let Some(entry) = connection.find(&self.search(user, base))? else {
                return Ok(LdapVerdict::NotMember);
            };
            // The filter may find another entry than the one that accepted the password.
            if *entry.dn != *name && !connection.bind(&entry.dn, password)? {
                return Ok(LdapVerdict::Wrong);
            }
            match self.standing(connection, user, &entry)? {
                Some(is_super) => self.right(user, &entry, is_super),
                None => Ok(LdapVerdict::NotMember),
            }
        })
    }

    /// Whether the user is a superuser; `None` if the user is not in the required group.
    fn standing(
        &self,
        connection: &mut Connection,
        user: &str,
        entry: &Entry,
    ) -> Result<Option<bool>, LdapFault> {
        let base = match &*self.plan.group_base {
            "" => (&*entry.dn, Scope::Base),
            base => (base, Scope::Subtree),
        };
        let mut matches = |filter: &Filter| {
            let values = Values { user, dn: Some(&entry.dn) };
            let search = self.search(user, base);
            connection.finds(&Search { filter, values, attribute: None, ..search })
        };
        if let Some(group) = &self.plan.group
            && !matches(group)?
        {
            return Ok(None);
        }
        self.plan.superuser.as_ref().map_or(Ok(false), matches).map(Some)
    }

    fn search<'a>(&'a self, user: &'a str, (base, scope): (&'a str, Scope)) -> Search<'a> {
        Search {
            base,
            scope,
            filter: &self.plan.filter,
            values: Values { user, dn: None },
            attribute: Some(&self.plan.name_attribute),
            seconds: self.plan.timeout_ms.div_ceil(1_000),
        }
    }

    /// The answer for a right password, with the user's name: the value that the client gave, if
    /// the entry has it, and otherwise the first in order. Servers ignore case, spaces and
    /// invisible characters in comparisons, so the given name itself could be one of many for the
    /// same user.
    fn right(&self, user: &str, entry: &Entry, is_super: bool) -> Result<LdapVerdict, LdapFault> {
        let names = entry.names.iter().filter_map(|name| std::str::from_utf8(name).ok());
        let is_usable = |name: &String| {
            !name.trim().is_empty()
                && name.len() <= NAME_BYTES_MAX
                && !name.contains(char::is_control)
        };
        let names = names.map(str::to_lowercase).filter(is_usable);
        let given = user.to_lowercase();
        let name = names.min_by_key(|name| (*name != given, name.clone())).ok_or_else(|| {
            let (dn, attribute) = (base::text::quoted(&entry.dn), &self.plan.name_attribute);
            let words = format!("the entry {dn} has no usable value of {attribute}");
            LdapFault::new(LdapFaultKind::Unnamed, words)
        })?;
        Ok(LdapVerdict::Right { name: name.into(), is_super })
    }

    /// Runs `work` on an idle connection, or on a new one if none is idle or that one failed.
    fn with<T>(
        &self,
        kept: &Kept,
        deadline: Deadline,
        mut work: impl FnMut(&mut Connection) -> Result<T, LdapFault>,
    ) -> Result<T, LdapFault> {
        if let Some(mut connection) = kept.take() {
            let others = self.plan.servers.len() - 1;
            // If other servers are configured, half of the time is left to try them.
            connection.begin(if others > 0 { deadline.share(2) } else { deadline });
            match work(&mut connection) {
                Ok(done) => {
                    kept.put(connection);
                    return Ok(done);
                }
                Err(fault) if fault.kind.is_of_entry() => return Err(fault),
                Err(fault) => {
                    // The other idle connections are as old.
                    kept.clear();
                    if fault.kind == LdapFaultKind::Timeout {
                        if others == 0 {
                            return Err(fault);
                        }
                        self.preferred.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        }
        let searches = std::ptr::eq(kept, &self.searching);
        let mut connection = self.open(searches, deadline)?;
        let done = work(&mut connection)?;
        kept.put(connection);
        Ok(done)
    }

    /// A new connection to the first server that accepts one; the last one that did is tried first.
    fn open(&self, searches: bool, deadline: Deadline) -> Result<Connection, LdapFault> {
        let servers = &self.plan.servers;
        let first = self.preferred.load(Ordering::Relaxed);
        let mut last = LdapFault::new(LdapFaultKind::Unreachable, "no server is configured");
        for at in 0..servers.len() {
            let place = first.wrapping_add(at) % servers.len();
            let time = deadline.share(servers.len() - at);
            match self.open_one(place, searches, time) {
                Ok(mut connection) => {
                    connection.begin(deadline);
                    self.preferred.store(place, Ordering::Relaxed);
                    return Ok(connection);
                }
                Err(fault) => last = fault,
            }
        }
        Err(last)
    }

    fn open_one(
        &self,
        place: usize,
        searches: bool,
        deadline: Deadline,
    ) -> Result<Connection, LdapFault> {
        let plan = &self.plan;
        let mut connection = Connection::open(&plan.servers[place], plan, deadline)?;
        if searches && !plan.bind_dn.is_empty() {
            let password = plan.password.as_bytes();
            if !connection.bind(&plan.bind_dn, password)? {
                let words = "bind_dn or its password was refused";
                return Err(connection.fault(LdapFaultKind::Credentials, words));
            }
        }
        Ok(connection)
    }
}
