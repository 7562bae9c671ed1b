//! Sessions of the console: browsers that have shown a token once, and a cookie since then.
//!
//! A session has the rights of its token, and ends with it, by a log-out, after a time without
//! requests, and after a maximum time. Of a cookie only a hash is stored. It knows no routes.
//! Invariants: there are never more sessions than the limit, and a cookie counts only in a request
//! that the console itself made ([`origin`]).

pub(crate) mod attempts;
pub(crate) mod origin;

use crate::roles::ConsoleRole;
use crate::tokens::{Token, Wrong};
use base::hex;
use model::limits::ApiLimits;
use model::limits::seats::share_of;
use model::link::Source;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use tokio::sync::watch;

/// A browser that is logged in.
pub(crate) struct Session {
    pub(crate) token: Arc<Token>,
    /// Epoch of the user at log-in: the session ends when the user has another one. Of a token: 0.
    epoch: u64,
    /// Source of the log-in.
    from: Source,
    /// From then on it opens nothing.
    pub(crate) ends_ms: u64,
    idle_ms_max: u64,
    seen_ms: AtomicU64,
    over: watch::Sender<bool>,
}

impl Session {
    /// Whether the session's time, or its token's, is over.
    pub(crate) fn is_over(&self, now_ms: u64) -> bool {
        let idle_ms = now_ms.saturating_sub(self.seen_ms.load(Ordering::Relaxed));
        *self.over.borrow()
            || self.ends_ms <= now_ms
            || idle_ms >= self.idle_ms_max
            || self.token.is_revoked()
            || self.token.is_expired(now_ms)
    }

    /// Marks the session as used: it made a request, or reads a live stream.
    pub(crate) fn see(&self, now_ms: u64) {
        self.seen_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Becomes true when it is ended.
    pub(crate) fn over(&self) -> watch::Receiver<bool> {
        self.over.subscribe()
    }
}

/// Open sessions, by the hash of their cookie.
type Open = HashMap<[u8; 32], Arc<Session>>;

/// Sessions of the console.
pub(crate) struct Sessions {
    bounds: RwLock<Bounds>,
    open: Mutex<Open>,
}

/// Bounds for new sessions.
#[derive(Clone, Copy)]
struct Bounds {
    sessions_max: usize,
    share: usize,
    idle_ms_max: u64,
    age_ms_max: u64,
}

impl Bounds {
    fn of(limits: &ApiLimits) -> Bounds {
        let (max, share) = (limits.console_sessions_max, limits.console_sessions_a_source_max);
        Bounds {
            sessions_max: max as usize,
            share: share_of(share, max) as usize,
            idle_ms_max: u64::from(limits.console_idle_s_max) * 1_000,
            age_ms_max: u64::from(limits.console_age_s_max) * 1_000,
        }
    }

    /// Which one ends before another may begin there: of its own, where its source has its share.
    fn too_many(&self, open: &Open, from: Source) -> Option<[u8; 32]> {
        let own = |session: &Arc<Session>| session.from == from;
        let is_beyond = open.values().filter(|session| own(session)).count() >= self.share;
        if !is_beyond && open.len() < self.sessions_max {
            return None;
        }
        let may = open.iter().filter(|(_, session)| !is_beyond || own(session));
        let idlest = may.min_by_key(|(_, session)| session.seen_ms.load(Ordering::Relaxed));
        idlest.map(|(hash, _)| *hash)
    }
}

impl Sessions {
    pub(crate) fn new(limits: &ApiLimits) -> Sessions {
        Sessions { bounds: RwLock::new(Bounds::of(limits)), open: Mutex::default() }
    }

    /// Sets other bounds for sessions that begin from now on.
    pub(crate) fn set_limits(&self, limits: &ApiLimits) {
        *self.bounds.write().unwrap_or_else(PoisonError::into_inner) = Bounds::of(limits);
    }

    /// Begins one, from random bytes; gives it with the value of its cookie.
    pub(crate) fn begin(
        &self,
        now_ms: u64,
        (token, epoch): (Arc<Token>, u64),
        (random, from): ([u8; 24], Source),
    ) -> (Arc<Session>, String) {
        let cookie = hex::encode(&random);
        let bounds = *self.bounds.read().unwrap_or_else(PoisonError::into_inner);
        let session = Arc::new(Session {
            ends_ms: now_ms.saturating_add(bounds.age_ms_max),
            idle_ms_max: bounds.idle_ms_max,
            epoch,
            from,
            token,
            seen_ms: AtomicU64::new(now_ms),
            over: watch::Sender::new(false),
        });
        let mut open = self.open();
        open.retain(|_, session| !session.is_over(now_ms));
        while let Some(idlest) = bounds.too_many(&open, from) {
            open.remove(&idlest).inspect(|session| _ = session.over.send_replace(true));
        }
        open.insert(Sha256::digest(&cookie).into(), Arc::clone(&session));
        (session, cookie)
    }

    /// The session with this cookie; counts as a request of it.
    pub(crate) fn find(&self, now_ms: u64, cookie: &str) -> Result<Arc<Session>, Wrong> {
        let hash: [u8; 32] = Sha256::digest(cookie).into();
        let mut open = self.open();
        let session = open.get(&hash).cloned().ok_or(Wrong::SessionOver)?;
        if session.is_over(now_ms) {
            open.remove(&hash);
            session.over.send_replace(true);
            return Err(Wrong::SessionOver);
        }
        session.see(now_ms);
        Ok(session)
    }

    /// Ends one: its streams end too.
    pub(crate) fn end(&self, session: &Arc<Session>) {
        self.open().retain(|_, other| !Arc::ptr_eq(other, session));
        session.over.send_replace(true);
    }

    /// Users of the book who have sessions.
    pub(crate) fn users(&self) -> Vec<String> {
        let open = self.open();
        let of_users = open.values().filter(|session| session.token.role.is_some());
        let mut names: Vec<_> = of_users.map(|session| session.token.name.clone()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Ends the sessions of a user that were begun in another role than this, or when something
    /// else stood for it; without either all.
    pub(crate) fn end_of_user(&self, name: &str, stands: Option<(ConsoleRole, u64)>) {
        self.open().retain(|_, session| {
            let is_its = session.token.role.is_some() && session.token.name == name;
            let begun = session.token.role.map(|role| (role, session.epoch));
            let is_over = is_its && stands != begun;
            if is_over {
                session.over.send_replace(true);
            }
            !is_over
        });
    }

    /// Number of sessions.
    pub(crate) fn count(&self, now_ms: u64) -> usize {
        self.open().values().filter(|session| !session.is_over(now_ms)).count()
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_has_its_share_ends_a_session_of_its_own() {
        let limits = ApiLimits { console_sessions_max: 6, ..ApiLimits::default() };
        let sessions = Sessions::new(&limits);
        let token = Arc::new(Token::of_user("ann".into(), ConsoleRole::Admin));
        let begin = |now_ms: u64, host: u8| {
            let (random, from) = ([now_ms as u8; 24], Source::of([10, 0, 0, host].into()));
            sessions.begin(now_ms, (token.clone(), 0), (random, from)).0
        };
        let other = begin(1, 9);
        let crowd: Vec<_> = (2..6).map(|now_ms| begin(now_ms, 1)).collect();
        let is_over = |session: &Arc<Session>| session.is_over(6);
        assert!(!is_over(&other), "though it has asked nothing for longest");
        assert_eq!(crowd.iter().map(is_over).collect::<Vec<_>>(), [true, false, false, false]);
        assert_eq!(sessions.count(6), 4);
        let _more = [(6, 2), (7, 3)].map(|(now_ms, host)| begin(now_ms, host));
        begin(8, 4);
        assert!(is_over(&other), "of all, where there is no room");
    }
}
