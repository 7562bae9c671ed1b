//! How far a session's subscriptions reach, and how it stands to its groups, found out and said
//! anew.
//!
//! Both are some work for each subscription: a session with many of them goes on with it a slice a
//! turn. Until it is known how far its subscriptions reach by the rules that hold now, each message
//! is looked at before it is delivered ([`Session::is_reaching`]), so that nobody reads meanwhile
//! what only older rules allow.
//!
//! [`Session::is_reaching`]: super::record::Session::is_reaching

use crate::Broker;
use crate::Effects;
use crate::message::subscribe::shared_filter;
use crate::message::subscriptions::{Held, Hold, option};
use base::slab::Key;
use base::time::{Instant, Now};
use model::ports::access::Reach;
use std::collections::BTreeMap;

/// Subscriptions that are looked at in a turn, of all sessions that have many.
pub(crate) const UNITS_A_TURN: usize = 512;

/// The same of one session, when it is asked for.
const UNITS_AT_ONCE: usize = 128;

/// Where one session stands.
struct Reaching {
    /// The next of its own filters; `None`: they are done.
    filter: Option<u32>,
    /// The last of its shared ones that was looked at.
    share: Box<str>,
    /// Rules are asked; else its groups hear how it stands, and no more.
    asks: bool,
}

/// Those of a shard that go on.
#[derive(Default)]
pub(crate) struct Reachings {
    open: BTreeMap<Key, Reaching>,
}

impl Broker {
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
        let (filter, asks) = match self.reachings.open.remove(&key) {
            Some(known) => (known.filter, known.asks),
            None => (None, false),
        };
        self.reach(now, key, Reaching { filter, share: "".into(), asks }, fx);
    }

    fn reach(&mut self, now: Now, key: Key, mut reaching: Reaching, fx: &mut Effects) {
        let Some(session) = self.sessions.at_mut(key) else { return };
        session.set_reaching(session.is_reaching() || reaching.asks);
        let mut left = UNITS_AT_ONCE.min(self.units.left(UNITS_A_TURN));
        match self.reach_on(now, key, (&mut reaching, &mut left), fx) {
            true => self.reached(key),
            false => _ = self.reachings.open.insert(key, reaching),
        }
    }

    /// Goes on with those that have many subscriptions.
    pub(crate) fn turn_reachings(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let mut left = UNITS_A_TURN;
        while left > 0 {
            let (key, mut reaching) = self.reachings.open.pop_first()?;
            match self.reach_on(now, key, (&mut reaching, &mut left), fx) {
                true => self.reached(key),
                false => _ = self.reachings.open.insert(key, reaching),
            }
        }
        (!self.reachings.open.is_empty()).then_some(now.mono)
    }

    /// It is known how far all of them reach.
    fn reached(&mut self, key: Key) {
        self.reachings.open.remove(&key);
        if let Some(session) = self.sessions.at_mut(key) {
            session.set_reaching(false);
        }
    }

    /// Looks at so many subscriptions; true: that were all.
    fn reach_on(
        &mut self,
        now: Now,
        key: Key,
        (reaching, left): (&mut Reaching, &mut usize),
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
            self.reach_filter((key, filter), fx);
        }
        loop {
            let more = self.sessions.more(key);
            let next = more.and_then(|more| more.share_behind(&reaching.share));
            let Some(filter) = next.map(|share| share.filter.clone()) else { return true };
            if *left == 0 {
                return false;
            }
            *left -= 1;
            self.units.spend(1);
            if !reaching.asks || self.reach_share(now, (key, &filter), fx) {
                self.tell_standing(now, key, (&filter, 0), fx);
            }
            reaching.share = filter;
        }
    }

    fn reach_filter(&mut self, (key, filter): (Key, u32), fx: &mut Effects) {
        let Some(session) = self.sessions.at(key) else { return };
        let (id, durable) = (session.id.clone(), session.is_durable());
        let Some(before) = self.subscriptions.options(filter, key.slot) else { return };
        let text = self.subscriptions.text(filter, &id);
        let options = match self.sessions.reach(session, &text) {
            Reach::Nothing => return self.let_go_filter((key, filter), durable, fx),
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
    fn reach_share(&mut self, now: Now, (key, filter): (Key, &str), fx: &mut Effects) -> bool {
        let Some(session) = self.sessions.at(key) else { return false };
        let plain = shared_filter(filter).unwrap_or_default();
        let reach = self.sessions.reach(session, plain);
        if reach == Reach::Nothing {
            self.leave_group(now, key, filter, fx);
            self.drop_share_row(key, filter, fx);
            return false;
        }
        let more = self.sessions.more_mut(key);
        let shares = more.map_or(&mut [][..], |more| &mut more.shares);
        for share in shares.iter_mut().filter(|share| *share.filter == *filter) {
            share.options &= !option::PARTLY;
            share.options |= if reach == Reach::Partly { option::PARTLY } else { 0 };
        }
        true
    }
}
