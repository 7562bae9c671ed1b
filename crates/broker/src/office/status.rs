//! What operators see of a shard: its gauges, what is not settled, and events as they happen.
//!
//! Counts are kept where things change; nothing is walked here.

use crate::Broker;
use crate::effects::Effects;
use base::slab::Key;
use base::time::Now;
use model::event::{ClientEvent, ClientWhat};
use model::ports::control::Status;

impl Broker {
    /// Adds this shard's gauges.
    pub fn status(&self, status: &mut Status) {
        status.sessions += self.sessions.len() as u64;
        status.sessions_online += self.online;
        status.subscriptions += self.filters.len() as u64 + self.groups.members();
        status.retained += self.retained.len() as u64;
        status.retained_bytes += self.retained.bytes();
        status.queued += self.totals.count;
        status.queued_bytes += self.totals.bytes;
        status.delayed += self.later.len() as u64;
    }

    /// Calls to the log that are not completed, and rows and letters that wait.
    pub fn unsettled(&self) -> usize {
        self.tickets.len()
            + self.chores.len()
            + self.removals.len()
            + self.outgoing.len()
            + self.wills.len()
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
        let user = self.principals.at(session.principal).user.clone();
        let client_id = session.id.clone();
        fx.events.push(ClientEvent { at_ms: now.wall_ms, client_id, user, what: what() });
    }
}
