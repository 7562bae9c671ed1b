//! Timers of sessions: their ends, wills, late connects, grants that are over.
//!
//! One wheel; a timer is not cancelled, whoever it is for looks whether it still means anything.
//! Invariant: an away session that ends some time has a timer that comes no later than its end.

use super::connect::Proven;
use super::record::NEVER_S;
use crate::Broker;
use crate::Effects;
use base::slab::Key;
use base::time::{Instant, Now};
use model::close::CloseReason;
use model::event::Counter;
use model::id::ConnRef;
use model::session::{Denial, Denied};
use std::collections::BTreeMap;
use std::time::Duration;

/// Connects that may wait, a shard. One more is refused as Busy.
const LATE_MAX: usize = 16_384;

/// Longest time a timer is set for: it is set again then.
const SPAN_S: u64 = 24 * 3_600;

/// Timers that are looked at in one turn. The others wait for the next.
pub(crate) const TIMERS_A_TURN: usize = 256;

const KIND: u32 = 62;
const END: u64 = 0;
const WILL: u64 = 1;
const LATE: u64 = 2;
const GRANT: u64 = 3;

/// Connects that are answered late.
#[derive(Default)]
pub(crate) struct Late {
    open: BTreeMap<u64, (ConnRef, Box<Proven>)>,
    of: BTreeMap<ConnRef, u64>,
    last: u64,
}

impl Late {
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// The connection went.
    pub fn forget(&mut self, conn: ConnRef) {
        if let Some(number) = self.of.remove(&conn) {
            self.open.remove(&number);
        }
    }

    fn put(&mut self, conn: ConnRef, proven: Box<Proven>) -> u64 {
        self.last += 1;
        self.of.insert(conn, self.last);
        self.open.insert(self.last, (conn, proven));
        self.last
    }

    fn take(&mut self, number: u64) -> Option<(ConnRef, Box<Proven>)> {
        let late = self.open.remove(&number)?;
        self.of.remove(&late.0);
        Some(late)
    }
}

impl Broker {
    /// The client is bound to its session later: it comes too often.
    pub(crate) fn attach_late(
        &mut self,
        now: Now,
        from: ConnRef,
        proven: Box<Proven>,
        fx: &mut Effects,
    ) {
        if self.late.len() >= LATE_MAX {
            return self.turn_away(now, from, &proven.connect.client_id, Denial::Busy, fx);
        }
        let delay = Duration::from_millis(self.settings.limits.topics.flap_delay_ms.into());
        let number = self.late.put(from, proven);
        self.timers.insert(now.after(delay), LATE << KIND | number);
    }

    /// An away session has a timer for its end.
    pub(crate) fn time_end(&mut self, now: Now, key: Key) {
        let Some(session) = self.sessions.at_mut(key) else { return };
        if session.expiry_s == NEVER_S || session.is_timed() {
            return;
        }
        session.set_timed(true);
        let left_s = session.ends_at_s().saturating_sub(u64::from(now.unix_s()));
        let at = now.after(Duration::from_secs(left_s.min(SPAN_S)));
        self.timers.insert(at, END << KIND | key.pack());
    }

    /// A will has a timer for its publication.
    pub(crate) fn time_will(&mut self, now: Now, key: Key, due_s: u32) {
        let left_s = u64::from(due_s.saturating_sub(now.unix_s()));
        let at = now.after(Duration::from_secs(left_s.min(SPAN_S)));
        self.timers.insert(at, WILL << KIND | key.pack());
    }

    /// What a client may do is over some time.
    pub(crate) fn time_grant(&mut self, now: Now, key: Key, until_s: u32) {
        let left_s = u64::from(until_s.saturating_sub(now.unix_s()));
        let at = now.after(Duration::from_secs(left_s.min(SPAN_S)));
        self.timers.insert(at, GRANT << KIND | key.pack());
    }

    /// Does what has fallen due.
    pub(crate) fn turn_timers(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        self.timers.advance(now.mono, TIMERS_A_TURN);
        for _ in 0..TIMERS_A_TURN {
            let Some(token) = self.timers.take() else { break };
            self.units.spend(1);
            let number = token & ((1 << KIND) - 1);
            match token >> KIND {
                END => self.end_due(now, Key::unpack(number), fx),
                WILL => self.will_due(now, Key::unpack(number), fx),
                GRANT => self.grant_due(now, Key::unpack(number), fx),
                _ => {
                    if let Some((conn, proven)) = self.late.take(number) {
                        self.attach_waited(now, conn, *proven, fx);
                    }
                }
            }
        }
        self.timers.next(now.mono)
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
        fx.counters.count(Counter::SessionsExpired);
        self.end_session(now, key, fx);
    }

    fn grant_due(&mut self, now: Now, key: Key, fx: &mut Effects) {
        let Some(session) = self.sessions.at(key) else { return };
        let until_s = session.more.as_ref().map_or(0, |more| more.until_s);
        if until_s == 0 || session.conn().is_none() {
            return;
        }
        if until_s > now.unix_s() {
            return self.time_grant(now, key, until_s);
        }
        self.end(now, key, Denied::of(Denial::Expired, CloseReason::AuthFailed), fx);
    }
}
