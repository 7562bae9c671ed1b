//! Rules change while clients are here.
//!
//! When the version of the rules rises, every session is looked at again, a slice a turn: who may
//! not be here any more is ended, and how far subscriptions reach is found out anew.

use super::timers::Timer;
use crate::Broker;
use crate::Effects;
use crate::message::subscriptions::option;
use base::slab::Key;
use base::time::{Instant, Now};
use model::close::CloseReason;
use model::ports::access::{Act, Grant, Reach, Rules, Who};
use model::session::{Denial, Denied};
use std::sync::Arc;

/// Rules that are not known until the client is back.
#[derive(Debug)]
struct Unknown;

impl Rules for Unknown {
    fn may(&self, _: &Who<'_>, act: Act, _: &str) -> bool {
        // Its will was looked at when it came.
        act == Act::Publish
    }

    fn reach(&self, _: &Who<'_>, _: &str) -> Reach {
        Reach::Partly
    }
}

/// Progress of the renewal of grants.
#[derive(Default)]
pub(crate) struct Renewal {
    version: u64,
    /// The next slot to look at, while one goes on.
    at: Option<u32>,
}

impl Renewal {
    /// None is needed for this version.
    pub fn of(version: u64) -> Renewal {
        Renewal { version, at: None }
    }
}

impl Broker {
    /// Looks at a slice of the sessions, if the rules have changed.
    pub(crate) fn turn_renewal(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let version = self.settings.access.version();
        if version != self.renewal.version {
            self.renewal = Renewal { version, at: Some(0) };
        }
        let mut slot = self.renewal.at?;
        let mut left = self.settings.limits.topics.renewals_a_turn.max(1);
        while left > 0 && slot < self.sessions.slots() {
            if let Some((key, _)) = self.sessions.tenant(slot) {
                self.renew(now, key, fx);
                left -= 1;
            }
            slot += 1;
        }
        self.renewal.at = (slot < self.sessions.slots()).then_some(slot);
        self.renewal.at.map(|_| now.mono)
    }

    /// Looks again at what a session may do.
    pub(crate) fn renew(&mut self, now: Now, key: Key, fx: &mut Effects) {
        let Some(session) = self.sessions.at(key) else { return };
        let user = self.sessions.principal(session).user.clone();
        let who = Who { client_id: &session.id, user: user.as_deref() };
        if let Some(grant) = self.settings.access.renew(&who) {
            self.regrant_kept(now, key, grant, fx);
        }
    }

    /// The rules say what holds now; what came with the proof itself (a token's rules, and its
    /// end) stays as it was.
    fn regrant_kept(&mut self, now: Now, key: Key, mut grant: Grant, fx: &mut Effects) {
        let Some(session) = self.sessions.at(key) else { return };
        let is_over = grant.until_s != 0 && grant.until_s <= now.unix_s();
        let rules = &self.sessions.principal(session).rules;
        if rules.as_ref().is_some_and(|rules| rules.fixed()) && !is_over {
            return;
        }
        if grant.until_s == 0 {
            grant.until_s = session.more.as_ref().map_or(0, |more| more.until_s);
        }
        self.regrant(now, key, &grant, fx);
    }

    /// After a restart: the rules that hold now. Where nobody knows them until the client is back,
    /// nothing is kept for it that it might not read.
    pub(crate) fn regrant_restored(&mut self, now: Now, key: Key, fx: &mut Effects) {
        let Some(session) = self.sessions.at(key) else { return };
        let user = self.sessions.principal(session).user.clone();
        let who = Who { client_id: &session.id, user: user.as_deref() };
        let options = session.filters().filter_map(|f| self.subscriptions.options(f, key.slot));
        let is_partly = options.fold(0, |all, options| all | options) & option::PARTLY != 0;
        let grant = match self.settings.access.renew(&who) {
            Some(grant) => Grant { until_s: 0, ..grant },
            None if is_partly => Grant { user, rules: Some(Arc::new(Unknown)), until_s: 0 },
            None => return,
        };
        self.regrant(now, key, &grant, fx);
    }

    /// From now on the session may do this.
    pub(crate) fn regrant(&mut self, now: Now, key: Key, grant: &Grant, fx: &mut Effects) {
        self.sessions.forget_allowed();
        self.sessions.grant(key, grant);
        let Some(session) = self.sessions.at_mut(key) else { return };
        if let Some(more) = &mut session.more {
            more.until_s = 0;
        }
        if grant.until_s != 0 {
            session.more().until_s = grant.until_s;
        }
        if grant.until_s != 0 {
            if grant.until_s <= now.unix_s() {
                let denied = Denied::of(Denial::NotAuthorized, CloseReason::AuthFailed);
                return self.end(now, key, denied, fx);
            }
            self.timers.set(now, Timer::Grant(key), grant.until_s.into());
        }
        self.reach_again(now, key, fx);
    }
}
