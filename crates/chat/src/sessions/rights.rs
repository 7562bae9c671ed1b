//! Rights of sessions: their end, and checks after the rules have changed.

use crate::sessions::Sessions;
use crate::{Chat, Effects};
use base::slab::Key;
use base::time::{Instant, Now, earliest};
use model::close::CloseReason;
use model::ports::access::Who;
use model::ports::bans::BanAct;
use model::service::ServiceKind;
use model::session::Denial;
use std::time::Duration;

impl Chat {
    /// Ends sessions whose rights are over, by time or by changed rules; returns when to be called
    /// again.
    pub(crate) fn turn_rights(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let renewals = self.renew(now, fx);
        while let Some(&(until_s, key)) = self.sessions.ending.first()
            && until_s <= now.unix_s()
        {
            self.sessions.ending.pop_first();
            self.end(key, (Denial::Expired, CloseReason::AuthFailed), fx);
        }
        let ending = self.sessions.ending.first();
        let ends = ending.map(|(until_s, _)| {
            let left_ms = (u64::from(*until_s) * 1_000).saturating_sub(now.wall_ms);
            now.after(Duration::from_millis(left_ms))
        });
        earliest([ends, renewals])
    }

    /// Checks a slice of the sessions after the rules have changed.
    fn renew(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let in_force = self.settings.access.version();
        // A walk that has begun goes on to its end, however often the rules change meanwhile.
        let (version, from) = match self.sessions.renewing {
            Some(walk) => walk,
            None if self.sessions.version == in_force => return None,
            None => (in_force, 0),
        };
        let slice = self.settings.limits.topics.renewals_a_turn.max(1);
        let to = from.saturating_add(slice).min(self.sessions.slab.slots());
        for slot in from..to {
            if let Some((key, _)) = self.sessions.slab.tenant(slot) {
                self.renew_one(now, key, version, fx);
            }
        }
        if to < self.sessions.slab.slots() {
            self.sessions.renewing = Some((version, to));
            return Some(now.mono);
        }
        (self.sessions.renewing, self.sessions.version) = (None, version);
        if self.book_orders.may_tell(version) {
            self.settings.access.renewed((ServiceKind::Chat, self.settings.shard), version);
        }
        (version != in_force).then_some(now.mono)
    }

    /// Checks a session's rights, unless it was checked by this version of the rules.
    pub(crate) fn renew_one(&mut self, now: Now, key: Key, version: u64, fx: &mut Effects) {
        if self.book_orders.has(key) {
            return; // the session is checked when its order is answered
        }
        let Some(session) = self.sessions.slab.at(key).filter(|it| it.version != version) else {
            return;
        };
        let who = Who { client_id: &session.device, user: self.user_of_session(session) };
        let access = &self.settings.access;
        let online = self.sessions.online.get(&session.inbox);
        let name = online.map(|online| self.owner_of(&online.address));
        let is_its = name.is_some_and(|name| session.owner.has(name));
        let goes_on = is_its && who.user.is_none_or(|user| access.holds(user, session.account));
        let user = online.map(|online| self.settings.user_of(&online.address));
        let named = Who { client_id: "", user };
        if access.is_banned(now.unix_s(), &named, None, BanAct::Ends) {
            return self.end(key, (Denial::Banned, CloseReason::Banned), fx);
        }
        if !goes_on {
            return self.end(key, (Denial::NotAuthorized, CloseReason::AuthFailed), fx);
        }
        let Some(mut grant) = access.renew(&who) else { return };
        if grant.until_s == 0 {
            grant.until_s = session.until_s; // a limit from the proof stays
        }
        if grant.until_s != 0 && grant.until_s <= now.unix_s() {
            return self.end(key, (Denial::Expired, CloseReason::AuthFailed), fx);
        }
        let Sessions { slab, ending, .. } = &mut self.sessions;
        let Some(session) = slab.at_mut(key) else { return };
        ending.remove(&(session.until_s, key));
        if grant.until_s != 0 {
            ending.insert((grant.until_s, key));
        }
        (session.version, session.until_s) = (version, grant.until_s);
    }
}
