//! Reports about sessions: events, drops, transitions of presence.

use super::sessions::Sessions;
use crate::Effects;
use base::slab::Key;
use base::time::Now;
use model::id::SessionRef;
use model::ports::control::disconnections::{self, Parting};
use model::ports::control::slow_clients::Loss;
use model::ports::events::{ClientEvent, ClientWhat};
use model::ports::presence::queries::PresenceStatus;
use model::ports::trace::TraceSubject;
use model::presence::{OnlineState, PresenceVersion, Principal as Who, Transition};
use model::service::ServiceKind;
use model::session::Drop;

impl Sessions {
    /// Publishes an event of a client, if there are listeners.
    pub fn event(&self, now: Now, key: Key, what: impl FnOnce() -> ClientWhat, fx: &mut Effects) {
        if !fx.events_wanted {
            return;
        }
        let Some(session) = self.at(key) else { return };
        let user = self.principal(session).user.clone();
        let (at_ms, client_id, what) = (now.wall_ms, Box::<str>::from(session.id()), what());
        let version = match what {
            ClientWhat::Connected { .. } | ClientWhat::Disconnected { .. } => session.version(),
            _ => PresenceVersion::default(),
        };
        fx.events.push(ClientEvent { at_ms, client_id, user, version, what });
    }

    /// Notifies presence of a client's new state.
    pub fn transition(&self, key: Key, state: OnlineState, fx: &mut Effects) {
        let Some(session) = self.at(key) else { return };
        let (who, version) = (Who::Client(Box::<str>::from(session.id())), session.version());
        let user = self.principal(session).user.clone();
        let protocol = self.protocol_name(session.protocol());
        // The address of a client that goes offline may already be that of its successor.
        let peer = state.is_online().then(|| session.peer()).flatten();
        fx.transitions.push(Transition { who, user, state, protocol, peer, version });
    }

    /// Notifies presence that a session is about to leave its connection.
    pub fn part(&self, key: Key, fx: &mut Effects) {
        let Some(session) = self.at(key) else { return };
        let Some(conn) = session.conn() else { return };
        let since_ms = match session.online() {
            Some(_) => session.version().unix_ms(),
            None => u64::from(session.since_s()) * 1_000,
        };
        fx.partings.push(Parting {
            conn,
            client: disconnections::cut(session.id()).into(),
            product: None,
            user: self.principal(session).user.clone(),
            peer: session.peer(),
            since_ms,
            detail: "",
        });
    }

    /// Messages for a session are dropped.
    pub fn dropped(&mut self, now: Now, key: Key, why: Drop, count: u64, fx: &mut Effects) {
        if count == 0 {
            return;
        }
        fx.counters.dropped(why, count);
        if let Some(session) = self.at_mut(key) {
            session.drop_more(count);
            let is_slow = matches!(why, Drop::SlowReader | Drop::QueueCount | Drop::QueueBytes);
            if let Some(conn) = session.online().filter(|_| is_slow) {
                let session = SessionRef::new(conn.shard(), key);
                let subject = TraceSubject::Session(ServiceKind::Topics, session);
                fx.losses.push(Loss { conn, subject, count });
            }
        }
        self.event(now, key, || ClientWhat::Dropped { why, count }, fx);
    }

    /// Presence of a client; `None`: it has no session, or never was online.
    pub fn presence_of(&self, now: Now, client_id: &str) -> Option<PresenceStatus> {
        let session = self.at(self.find(client_id)?)?;
        let state = match session.online() {
            Some(_) => OnlineState::Online(self.protocol_name(session.protocol())),
            None => OnlineState::Offline(session.reason()?),
        };
        Some(PresenceStatus {
            who: Who::Client(client_id.into()),
            user: self.principal(session).user.as_deref().map(Box::from),
            state,
            since_ms: session.version().unix_ms().min(now.wall_ms),
            seen_ms: session.seen_ms(now),
            version: session.version(),
        })
    }
}
