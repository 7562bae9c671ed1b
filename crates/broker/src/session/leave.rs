//! A client goes, and a session ends.
//!
//! Messages on the way wait for the client's return if the session outlives the connection. The
//! will belongs to its connection: a farewell discards it, any other end has it published, after
//! its delay or at the session's end.

use super::admissions::Proven;
use super::endings::{Ending, MESSAGES, UNITS_A_TURN, UNITS_AT_ONCE};
use super::record::NEVER_S;
use super::timers::{TIMERS_A_TURN, Timer};
use crate::Broker;
use crate::Effects;
use crate::durable::entries::timeline_of;
use crate::durable::rows::{self, subscription_key};
use crate::message::queue::Entry;
use crate::peer_message::GroupWhat;
use base::slab::Key;
use base::time::{Instant, Now};
use model::close::CloseReason;
use model::counters::TopicCounter;
use model::id::ConnRef;
use model::ports::access::Who;
use model::ports::events::ClientWhat;
use model::ports::log::{Table, Write};
use model::presence::{OnlineState, PresenceVersion};
use model::session::{Denial, Denied, Drop, SessionDelivery};
use model::topic::Qos;

impl Broker {
    /// The client says farewell.
    pub(crate) fn leave(
        &mut self,
        now: Now,
        key: Key,
        with_will: bool,
        expiry_s: Option<u32>,
        fx: &mut Effects,
    ) {
        if !with_will {
            self.cancel_will(key, fx);
        }
        let max_s = self.settings.limits.topics.session_expiry_s_max;
        if let (Some(session), Some(expiry_s)) = (self.sessions.at_mut(key), expiry_s)
            && session.expiry_s() != 0
        {
            let cut = if max_s == NEVER_S { expiry_s } else { expiry_s.min(max_s) };
            session.set_expiry_s(cut);
        }
        self.detach(now, key, CloseReason::Unbound, fx);
    }

    /// Detaches a session from its connection.
    pub(crate) fn detach(&mut self, now: Now, key: Key, reason: CloseReason, fx: &mut Effects) {
        self.sessions.part(key, fx);
        if self.sessions.online(key).is_some() {
            let version = self.sessions.next_version(now);
            self.offline(now, key, version, reason, fx);
        }
        self.unbind(now, key, reason, fx);
    }

    /// Ends the local connection of a client that, according to the directory, has connected to
    /// another server. Its version is directly after the online that it ends, and not above the
    /// other server's, because this is not the client's latest transition.
    pub fn outvoted(&mut self, now: Now, client_id: &str, fx: &mut Effects) {
        let Some(key) = self.sessions.find(client_id) else { return };
        let Some(session) = self.sessions.at(key) else { return };
        let Some(conn) = session.online() else { return };
        let version = PresenceVersion::after(session.version().0, 0);
        self.sessions.observe(version);
        self.sessions.part(key, fx);
        let reason = CloseReason::Replaced;
        let text = Some("a connection to another server took over".into());
        let denied = Denied { text, ..Denied::of(Denial::TakenOver, reason) };
        fx.deliveries.push((conn, SessionDelivery::End(Box::new(denied))));
        self.offline(now, key, version, reason, fx);
        self.unbind(now, key, reason, fx);
    }

    /// A version of another clock was seen: those given here are above it from now on.
    pub fn observe(&mut self, seen: PresenceVersion) {
        self.sessions.observe(seen);
    }

    /// Notes that a client went offline.
    fn offline(
        &mut self,
        now: Now,
        key: Key,
        version: PresenceVersion,
        reason: CloseReason,
        fx: &mut Effects,
    ) {
        self.sessions.go_offline(key, version, reason);
        self.sessions.transition(key, OnlineState::Offline(reason), fx);
        self.sessions.event(now, key, || ClientWhat::Disconnected { reason }, fx);
    }

    fn unbind(&mut self, now: Now, key: Key, reason: CloseReason, fx: &mut Effects) {
        let Some(session) = self.sessions.at_mut(key) else { return };
        let conn = session.unbind(now);
        let ends = session.expiry_s() == 0;
        if let Some(more) = &mut session.more {
            more.inbound.disconnect();
            more.replays.pause();
            more.queue.rewind();
        }
        let totals = &mut self.totals;
        let more = self.sessions.more_mut(key);
        // A session that ends gives back below what it has in memory.
        if let Some(more) = more.filter(|_| !ends) {
            more.queue.stow(totals);
        }
        // A client that was taken over is back in a moment.
        if !ends && reason != CloseReason::Replaced {
            self.give_work(now, key, fx);
        }
        if let Some(conn) = conn {
            self.admissions.forget_asking(conn);
        }
        if !ends && !self.settings.limits.topics.queue_qos0 {
            let totals = &mut self.totals;
            let more = self.sessions.more_mut(key);
            let none = |entry: &Entry| entry.qos == Qos::AtMostOnce;
            let gone = more.map_or(0, |more| more.queue.take_waiting(none, totals).len());
            self.sessions.dropped(now, key, Drop::Offline, gone as u64, fx);
        }
        self.share_presence(now, key, false, fx);
        if ends {
            return self.end_session(now, key, fx);
        }
        self.will_due(now, key, fx);
        self.mark_taken(now, key, fx);
        self.put_session_row(key, None, fx);
        self.time_end(now, key);
        self.sessions.rest(key);
    }

    /// Ends a session, and publishes its will if it still has one.
    pub(crate) fn end_session(&mut self, now: Now, key: Key, fx: &mut Effects) {
        self.publish_will(now, key, fx);
        self.sessions.event(now, key, || ClientWhat::SessionEnded, fx);
        self.drop_session(now, key, fx);
    }

    /// Takes a session out, with all that is its own.
    pub(crate) fn drop_session(&mut self, now: Now, key: Key, fx: &mut Effects) {
        self.keep_work(key);
        let shares = self.leave_groups(now, key, fx);
        let Some(mut session) = self.sessions.bury(key) else { return };
        let durable = session.is_durable();
        let filters: Vec<u32> = session.filters().collect();
        let queue = session.more.as_mut().map(|more| std::mem::take(&mut more.queue));
        let queue = queue.unwrap_or_default();
        fx.counters.dropped(Drop::SessionEnded, queue.count() as u64);
        if durable {
            let row = rows::session_key(self.settings.home, session.id());
            self.log.delete(Table::Sessions, row, fx);
            let home = self.settings.home;
            for timeline in [session.timeline(home), session.exchanges(home)] {
                self.log.write(Write::Forget(timeline), fx);
            }
        }
        // A subscription whose session is not there any more is taken away at a start, too.
        let ending = Ending { key, durable, filters, shares, queue, coming: None };
        self.end_begins(now, session.into_id(), ending, fx);
    }

    /// The server ends a connection.
    pub(crate) fn end(&mut self, now: Now, key: Key, denied: Denied, fx: &mut Effects) {
        let Some(conn) = self.sessions.conn(key) else { return };
        let reason = denied.reason;
        fx.deliveries.push((conn, SessionDelivery::End(Box::new(denied))));
        self.admissions.end_welcome(conn);
        self.detach(now, key, reason, fx);
    }

    /// An away session has a timer that comes no later than its end.
    pub(crate) fn time_end(&mut self, now: Now, key: Key) {
        let Some(session) = self.sessions.at_mut(key) else { return };
        if session.expiry_s() == NEVER_S || session.is_timed() {
            return;
        }
        session.set_timed(true);
        self.timers.set(now, Timer::End(key), session.ends_at_s());
    }

    /// Does what has fallen due.
    pub(crate) fn turn_timers(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        self.timers.advance(now);
        for _ in 0..TIMERS_A_TURN {
            let Some(timer) = self.timers.take() else { break };
            self.units.spend(1);
            match timer {
                Timer::End(key) => self.end_due(now, key, fx),
                Timer::Will(key) => self.will_due(now, key, fx),
                Timer::Grant(key) => self.grant_due(now, key, fx),
                Timer::Late(number) => {
                    if let Some((conn, proven)) = self.admissions.take_late(number) {
                        self.attach_waited(now, conn, *proven, fx);
                    }
                }
            }
        }
        self.timers.next(now)
    }

    fn end_due(&mut self, now: Now, key: Key, fx: &mut Effects) {
        let Some(session) = self.sessions.at_mut(key) else { return };
        session.set_timed(false);
        // A session lasts as long as its connection, at least (MQTT5 4.1.0-1).
        if session.conn().is_some() {
            return;
        }
        if session.ends_at_s() > u64::from(now.unix_s()) {
            return self.time_end(now, key);
        }
        fx.counters.count(TopicCounter::SessionsExpired);
        self.end_session(now, key, fx);
    }

    fn grant_due(&mut self, now: Now, key: Key, fx: &mut Effects) {
        let Some(session) = self.sessions.at(key) else { return };
        let until_s = session.until_s();
        if until_s == 0 || session.conn().is_none() {
            return;
        }
        if until_s > now.unix_s() {
            return self.timers.set(now, Timer::Grant(key), until_s.into());
        }
        self.end(now, key, Denied::of(Denial::Expired, CloseReason::AuthFailed), fx);
    }

    /// A session is gone; what it leaves is taken away, as far as that is not too much.
    pub(crate) fn end_begins(
        &mut self,
        now: Now,
        id: Box<str>,
        mut ending: Ending,
        fx: &mut Effects,
    ) {
        let mut left = UNITS_AT_ONCE.min(self.units.left(UNITS_A_TURN));
        match self.end_on(now, (&id, &mut ending), &mut left, fx) {
            true => self.sessions.free(ending.key),
            false => self.endings.put(id, ending),
        }
    }

    /// The session's last one is still ending: its client waits.
    pub(crate) fn come_later(
        &mut self,
        now: Now,
        from: ConnRef,
        proven: Box<Proven>,
        fx: &mut Effects,
    ) {
        let (id, user) = (proven.connect.client_id.clone(), proven.connect.user.clone());
        if let Some(before) = self.endings.wait(from, proven) {
            let who = Who { client_id: &id, user: user.as_deref() };
            self.turn_away(now, before, who, Denial::Busy, fx);
        }
    }

    /// Cleans up a slice of the ended sessions.
    pub(crate) fn turn_endings(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let mut left = UNITS_A_TURN;
        while left > 0 && self.log.is_easy() {
            let (id, mut ending) = self.endings.take()?;
            if !self.end_on(now, (&id, &mut ending), &mut left, fx) {
                self.endings.put(id, ending);
                break;
            }
            self.sessions.free(ending.key);
            if let Some((from, proven)) = self.endings.take_coming(ending) {
                self.attach_waited(now, from, *proven, fx);
            }
        }
        // Where the log has too much to do, its next answer brings a turn.
        let goes_on = self.log.is_easy();
        (goes_on && self.endings.len() > 0).then_some(now.mono)
    }

    /// Takes away so much; true: that was all.
    fn end_on(
        &mut self,
        now: Now,
        (id, ending): (&str, &mut Ending),
        left: &mut usize,
        fx: &mut Effects,
    ) -> bool {
        let before = *left;
        while *left > 0 {
            let Some(filter) = ending.filters.pop() else { break };
            self.end_filter(id, ending.key, filter, ending.durable, fx);
            *left -= 1;
        }
        let member = timeline_of(self.settings.home, id);
        while *left > 0 {
            let Some(share) = ending.shares.pop() else { break };
            self.tell_group(now, &share.filter, member, GroupWhat::Leave, fx);
            if ending.durable {
                let row = subscription_key(self.settings.home, id, &share.filter);
                self.log.delete(Table::Subscriptions, row, fx);
            }
            *left -= 1;
        }
        if *left > 0 {
            let gone = ending.queue.drop_some(*left * MESSAGES, &mut self.totals);
            *left -= gone.div_ceil(MESSAGES);
        }
        self.units.spend(before - *left);
        ending.filters.is_empty() && ending.shares.is_empty() && ending.queue.count() == 0
    }

    fn end_filter(&mut self, id: &str, key: Key, number: u32, durable: bool, fx: &mut Effects) {
        let text = self.subscriptions.text(number, id);
        if self.subscriptions.let_go(number, id, key.slot, durable) && durable {
            let key = subscription_key(self.settings.home, id, &text);
            self.log.delete(Table::Subscriptions, key, fx);
        }
    }
}
