//! Rights of sessions: applies changed rules to connected clients and their subscriptions.
//!
//! When the version of the rules rises, every session is looked at again, a slice a turn: who may
//! not be here any more is ended, as is one that is older than an order to end its account's
//! sessions, and how far subscriptions reach is found out anew. A walk goes on to its end when the
//! version rises meanwhile, and is followed by another, so that changes without pause keep no
//! session from being looked at. That, and
//! telling groups how a member stands, is some work for each subscription: a session with many of
//! them goes on with it a slice a turn. Until it is known how far its subscriptions reach by the
//! rules that hold now, each message is looked at before it is delivered
//! ([`Session::is_reaching`]), so that nobody reads meanwhile what only older rules allow.
//! A session whose account was removed ends, whether its client is here or away.
//!
//! [`Session::is_reaching`]: super::record::Session::is_reaching

use super::principals::Principal;
use super::timers::Timer;
use crate::Broker;
use crate::Effects;
use crate::message::groups::shared_filter;
use crate::message::route::holder::option;
use crate::message::subscriptions::{Held, Hold};
use base::slab::Key;
use base::time::{Instant, Now};
use model::close::CloseReason;
use model::ports::access::{Act, Grant, Reach, Rules, Who};
use model::ports::bans::BanAct;
use model::service::ServiceKind;
use model::session::{Denial, Denied};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Subscriptions that are looked at in a turn, of all sessions that have many.
pub(crate) const UNITS_A_TURN: usize = 512;

/// Subscriptions of one session that are looked at at once when it asks.
const UNITS_AT_ONCE: usize = 128;

/// Where one session stands.
struct Reaching {
    /// The next of its own filters; `None`: they are done.
    filter: Option<u32>,
    /// The last of its shared ones that was looked at.
    share: Box<str>,
    /// Whether rules are checked; otherwise only the session's groups get its new state.
    asks: bool,
}

/// Rules that are not known until the client is back.
#[derive(Debug)]
pub(crate) struct Unknown;

impl Rules for Unknown {
    fn may(&self, _: &Who<'_>, act: Act, _: &str) -> bool {
        // The will's topic was checked at the login.
        act == Act::Publish
    }

    fn reach(&self, _: &Who<'_>, _: &str) -> Reach {
        Reach::Partly
    }
}

/// Progress of changes of the rights of a shard's sessions.
pub(crate) struct Rights {
    /// Of the rules in force when the last walk began.
    version: u64,
    /// The next slot to look at, while grants are renewed.
    renewing: Option<u32>,
    /// Sessions with many subscriptions, that go on.
    reaching: BTreeMap<Key, Reaching>,
}

impl Rights {
    /// Makes a state for this version of the rules, with no grant to renew.
    pub fn new(version: u64) -> Rights {
        Rights { version, renewing: None, reaching: BTreeMap::new() }
    }
}

impl Broker {
    /// Whether the rules have changed since the last walk began.
    pub(crate) fn has_other_rules(&self) -> bool {
        self.settings.access.version() != self.rights.version
    }

    /// Looks at a slice of the sessions, if the rules have changed.
    pub(crate) fn turn_renewal(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let version = self.settings.access.version();
        if self.rights.renewing.is_none() && version != self.rights.version {
            (self.rights.version, self.rights.renewing) = (version, Some(0));
        }
        let mut slot = self.rights.renewing?;
        let mut left = self.settings.limits.topics.renewals_a_turn.max(1);
        while left > 0 && slot < self.sessions.slots() {
            if let Some((key, _)) = self.sessions.tenant(slot) {
                self.renew(now, key, fx);
                left -= 1;
            }
            slot += 1;
        }
        self.rights.renewing = (slot < self.sessions.slots()).then_some(slot);
        if self.rights.renewing.is_none() {
            let by = (ServiceKind::Topics, self.settings.shard);
            self.settings.access.renewed(by, self.rights.version);
        }
        (self.rights.renewing.is_some() || version != self.rights.version).then_some(now.mono)
    }

    /// Looks again at what a session may do.
    pub(crate) fn renew(&mut self, now: Now, key: Key, fx: &mut Effects) {
        let Some(session) = self.sessions.at(key) else { return };
        let Principal { user, account, .. } = self.sessions.principal(session).clone();
        let who = Who { client_id: session.id(), user: user.as_deref() };
        let access = &self.settings.access;
        if self.is_orphan(key) {
            let denied = Denied::of(Denial::NotAuthorized, CloseReason::AuthFailed);
            self.end(now, key, denied, fx);
            return self.end_orphan(now, key, fx);
        }
        if let Some(peer) = session.peer().filter(|_| session.conn().is_some())
            && access.is_banned(now.unix_s(), &who, Some(peer.ip()), BanAct::Ends)
        {
            return self.end(now, key, Denied::of(Denial::Banned, CloseReason::Banned), fx);
        }
        // A session without a connection is not ended: its client needs a new grant to come back.
        if session.conn().is_some() && user.as_deref().is_some_and(|it| !access.holds(it, account))
        {
            let denied = Denied::of(Denial::NotAuthorized, CloseReason::AuthFailed);
            return self.end(now, key, denied, fx);
        }
        if let Some(grant) = access.renew(&who) {
            self.regrant_kept(now, key, Grant { account, ..grant }, fx);
        }
    }

    /// Whether the account of a session was removed: the next user of its name is another account.
    fn is_orphan(&self, key: Key) -> bool {
        let Some(session) = self.sessions.at(key) else { return false };
        let principal = self.sessions.principal(session);
        let (Some(user), Some(uid)) = (principal.user.as_deref(), principal.uid()) else {
            return false;
        };
        self.settings.access.is_removed(user, uid)
    }

    /// The session of an account that was removed ends, with all that waits for it.
    fn end_orphan(&mut self, now: Now, key: Key, fx: &mut Effects) {
        if self.sessions.at(key).is_some() {
            self.end_session(now, key, fx);
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
            grant.until_s = session.until_s();
        }
        self.regrant(now, key, &grant, fx);
    }

    /// Applies the current rules after a restart. If they are unknown until the client is back, no
    /// message is stored for it that it might not be allowed to read.
    pub(crate) fn regrant_restored(&mut self, now: Now, key: Key, fx: &mut Effects) {
        if self.is_orphan(key) {
            return self.end_orphan(now, key, fx);
        }
        let Some(session) = self.sessions.at(key) else { return };
        let Principal { user, account, .. } = self.sessions.principal(session).clone();
        let who = Who { client_id: session.id(), user: user.as_deref() };
        let options = session.filters().filter_map(|f| self.subscriptions.options(f, key.slot));
        let is_partly = options.fold(0, |all, options| all | options) & option::PARTLY != 0;
        let grant = match self.settings.access.renew(&who) {
            Some(grant) => Grant { until_s: 0, account, ..grant },
            None if is_partly => {
                Grant { user, rules: Some(Arc::new(Unknown)), account, ..Grant::OPEN }
            }
            None => return,
        };
        self.regrant(now, key, &grant, fx);
    }

    /// Applies a new grant to the session.
    pub(crate) fn regrant(&mut self, now: Now, key: Key, grant: &Grant, fx: &mut Effects) {
        self.sessions.forget_allowed();
        self.sessions.grant(key, grant);
        let Some(session) = self.sessions.at_mut(key) else { return };
        session.set_until_s(grant.until_s);
        if grant.until_s != 0 {
            if grant.until_s <= now.unix_s() {
                let denied = Denied::of(Denial::NotAuthorized, CloseReason::AuthFailed);
                return self.end(now, key, denied, fx);
            }
            self.timers.set(now, Timer::Grant(key), grant.until_s.into());
        }
        self.reach_again(now, key, fx);
    }

    /// How far the session's subscriptions reach by the rules that hold now.
    pub(crate) fn reach_again(&mut self, now: Now, key: Key, fx: &mut Effects) {
        let reaching = Reaching { filter: Some(0), share: "".into(), asks: true };
        self.reach(now, key, reaching, fx);
    }

    /// The session's groups hear how it stands: online or away, and what it may read.
    pub(crate) fn stand_again(&mut self, now: Now, key: Key, fx: &mut Effects) {
        let more = self.sessions.more(key);
        if more.is_none_or(|more| more.shares.is_empty()) {
            return;
        }
        // One that goes on begins again, and asks what it asked.
        let (filter, asks) = match self.rights.reaching.remove(&key) {
            Some(known) => (known.filter, known.asks),
            None => (None, false),
        };
        self.reach(now, key, Reaching { filter, share: "".into(), asks }, fx);
    }

    fn reach(&mut self, now: Now, key: Key, mut reaching: Reaching, fx: &mut Effects) {
        let Some(session) = self.sessions.at_mut(key) else { return };
        session.set_reaching(session.is_reaching() || reaching.asks);
        let mut left = UNITS_AT_ONCE.min(self.units.left(UNITS_A_TURN));
        match self.reach_on(now, key, &mut reaching, &mut left, fx) {
            true => self.reached(key),
            false => _ = self.rights.reaching.insert(key, reaching),
        }
    }

    /// Goes on with those that have many subscriptions.
    pub(crate) fn turn_reachings(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let mut left = UNITS_A_TURN;
        while left > 0 {
            let (key, mut reaching) = self.rights.reaching.pop_first()?;
            match self.reach_on(now, key, &mut reaching, &mut left, fx) {
                true => self.reached(key),
                false => _ = self.rights.reaching.insert(key, reaching),
            }
        }
        (!self.rights.reaching.is_empty()).then_some(now.mono)
    }

    /// Ends the check of a session's subscriptions: the reach of all of them is known.
    fn reached(&mut self, key: Key) {
        self.rights.reaching.remove(&key);
        if let Some(session) = self.sessions.at_mut(key) {
            session.set_reaching(false);
        }
    }

    /// Checks some subscriptions; true if these were the last.
    fn reach_on(
        &mut self,
        now: Now,
        key: Key,
        reaching: &mut Reaching,
        left: &mut usize,
        fx: &mut Effects,
    ) -> bool {
        while let Some(from) = reaching.filter {
            let Some(session) = self.sessions.at(key) else { return true };
            let Some(filter) = session.filter_from(from) else {
                reaching.filter = None;
                break;
            };
            if *left == 0 {
                return false;
            }
            (*left, reaching.filter) = (*left - 1, filter.checked_add(1));
            self.units.spend(1);
            self.reach_filter(key, filter, fx);
        }
        loop {
            let more = self.sessions.more(key);
            let next = more.and_then(|more| more.shares.behind(&reaching.share));
            let Some(filter) = next.map(|share| share.filter.clone()) else { return true };
            if *left == 0 {
                return false;
            }
            *left -= 1;
            self.units.spend(1);
            if !reaching.asks || self.reach_share(now, key, &filter, fx) {
                self.tell_standing(now, key, &filter, 0, fx);
            }
            reaching.share = filter;
        }
    }

    fn reach_filter(&mut self, key: Key, filter: u32, fx: &mut Effects) {
        let Some(session) = self.sessions.at(key) else { return };
        let (id, durable) = (Box::<str>::from(session.id()), session.is_durable());
        let Some(before) = self.subscriptions.options(filter, key.slot) else { return };
        let text = self.subscriptions.text(filter, &id);
        let options = match self.sessions.reach(session, &text) {
            Reach::Nothing => return self.let_go_filter(key, filter, durable, fx),
            Reach::All => before & !option::PARTLY,
            Reach::Partly => before | option::PARTLY,
        };
        if options != before {
            let known = Some(Held { number: filter, options: before });
            let (text, slot) = (&*text, key.slot);
            let hold = Hold { filter: text, client_id: &id, slot, options, durable };
            let held = self.subscriptions.hold(hold, known);
            if let (Ok(number), Some(session)) = (held, self.sessions.at_mut(key)) {
                session.change_filter(filter, number);
            }
        }
    }

    /// False: it reaches nothing, and goes.
    fn reach_share(&mut self, now: Now, key: Key, filter: &str, fx: &mut Effects) -> bool {
        let Some(session) = self.sessions.at(key) else { return false };
        let plain = shared_filter(filter).unwrap_or_default();
        let reach = self.sessions.reach(session, plain);
        if reach == Reach::Nothing {
            self.leave_group(now, key, filter, fx);
            self.drop_share_row(key, filter, fx);
            return false;
        }
        let Some(more) = self.sessions.more_mut(key) else { return true };
        let before = more.shares.get(filter).map_or(0, |share| share.options) & !option::PARTLY;
        let partly = if reach == Reach::Partly { option::PARTLY } else { 0 };
        more.shares.set_options(filter, before | partly);
        true
    }
}
