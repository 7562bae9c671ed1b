//! Status of a shard: its gauges, what is not settled, and events as they happen.
//!
//! Counts are kept where things change; nothing is walked here.

use crate::Broker;
use crate::Effects;
use base::slab::Key;
use base::time::Now;
use model::event::{ClientEvent, ClientWhat};
use model::ports::control::Status;
use model::ports::presence_queries::PresenceStatus;
use model::presence::{OnlineState, PresenceVersion, Principal as Who, Transition};

impl Broker {
    /// Adds this shard's gauges.
    pub fn status(&self, status: &mut Status) {
        status.sessions += self.sessions.len() as u64;
        status.sessions_online += self.sessions.count_online();
        status.subscriptions += self.subscriptions.len() as u64 + self.groups.members();
        status.retained += self.retained.len() as u64;
        status.retained_bytes += self.retained.bytes();
        status.queued += self.totals.count;
        status.queued_bytes += self.totals.bytes;
        status.delayed += self.later.len() as u64;
    }

    /// Calls to the log that are not completed, and work that waits.
    pub fn unsettled(&self) -> usize {
        let waiting = self.wills.len() + self.endings.len() + self.fan_outs.len();
        self.log.unsettled() + waiting
    }

    /// Tells what happened to a client, if anybody listens.
    pub(crate) fn event(
        &self,
        now: Now,
        key: Key,
        what: impl FnOnce() -> ClientWhat,
        fx: &mut Effects,
    ) {
        if !fx.events_wanted {
            return;
        }
        let Some(session) = self.sessions.at(key) else { return };
        let user = self.sessions.principal(session).user.clone();
        let (at_ms, client_id, what) = (now.wall_ms, session.id.clone(), what());
        let version = match what {
            ClientWhat::Connected { .. } | ClientWhat::Disconnected { .. } => session.version,
            _ => PresenceVersion::default(),
        };
        fx.events.push(ClientEvent { at_ms, client_id, user, version, what });
    }

    /// Says to whoever keeps presence what a client is from now on.
    pub(crate) fn transition(&self, key: Key, state: OnlineState, fx: &mut Effects) {
        let Some(session) = self.sessions.at(key) else { return };
        let (who, version) = (Who::Client(session.id.clone()), session.version);
        let user = self.sessions.principal(session).user.clone();
        let protocol = self.sessions.protocol_name(session.protocol);
        fx.transitions.push(Transition { who, user, state, protocol, version });
    }

    /// What is known of a client's presence; `None`: it has no session, or never was online.
    pub fn find(&self, now: Now, client_id: &str) -> Option<PresenceStatus> {
        let session = self.sessions.at(self.sessions.find(client_id)?)?;
        let state = match session.online() {
            Some(_) => OnlineState::Online(self.sessions.protocol_name(session.protocol)),
            None => OnlineState::Offline(session.reason()?),
        };
        Some(PresenceStatus {
            who: Who::Client(client_id.into()),
            user: self.sessions.principal(session).user.as_deref().map(Box::from),
            state,
            since_ms: session.version.unix_ms().min(now.wall_ms),
            seen_ms: session.seen_ms(now),
            version: session.version,
        })
    }
}
