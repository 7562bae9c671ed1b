//! Connecting: a client is checked, bound to its session, and welcomed.
//!
//! Cheapest checks first; a refused client leaves no state behind. A session has one connection: a
//! newer one takes over at once, and nothing that the older one says afterwards has any effect. A
//! new durable session is welcomed when its row is on stable storage. It is online when it is
//! welcomed: a client that disconnects before never was, and its presence stays as it was.

use super::access::claimed;
use super::admissions::{LastWord, Proven, Welcome};
use super::keep_alive;
use super::record::{NEVER_S, SessionTerms};
use super::timers::Timer;
use crate::Broker;
use crate::Effects;
use crate::durable::calls::PendingCall;
use crate::durable::rows;
use crate::rewrite::Names;
use base::slab::Key;
use base::time::Now;
use model::close::CloseReason;
use model::counters::TopicCounter;
use model::id::{ConnRef, SessionRef};
use model::ports::access::{Act, Who};
use model::ports::events::ClientWhat;
use model::ports::log::{Call, Table, Write};
use model::presence::OnlineState;
use model::session::{ConnectRequest, Connected, Denial, Denied, SessionDelivery};
use std::sync::Arc;
use std::time::Duration;

/// A session and the connection that it is bound to.
#[derive(Clone, Copy)]
struct Binding {
    key: Key,
    from: ConnRef,
    /// Whether the session existed before.
    present: bool,
}

impl Broker {
    /// Handles the request of a client to connect.
    pub(crate) fn connect(
        &mut self,
        now: Now,
        from: ConnRef,
        mut connect: Box<ConnectRequest>,
        fx: &mut Effects,
    ) {
        let why = if self.admissions.are_closed() {
            Some(Denial::ShuttingDown)
        } else if connect.crowded {
            Some(Denial::Full)
        } else if !self.admissions.is_in_pace(now) {
            Some(Denial::Busy)
        } else if connect.client_id.len()
            > usize::from(self.settings.limits.topics.client_id_bytes_max)
        {
            Some(Denial::ClientIdInvalid)
        } else {
            None
        };
        if let Some(why) = why {
            return self.turn_away(now, from, claimed(&connect), why, fx);
        }
        if connect.client_id.is_empty() {
            self.assign(&mut connect);
        }
        self.ask_in(now, from, connect, fx);
    }

    /// Gives an identifier that is new and at home on this shard.
    fn assign(&mut self, connect: &mut ConnectRequest) {
        let (settings, sessions) = (&self.settings, &self.sessions);
        connect.client_id = self.admissions.assign(|id| {
            let here = settings.owner_of_session(id) == settings.shard;
            here && sessions.find(id).is_none()
        });
    }

    /// The client was let in: its session is found or made. One that takes its own connection over
    /// too often has to wait for that: two clients with one identifier would end each other without
    /// a pause. A client that comes behind its own farewell may come as often as it likes. Only who
    /// has shown who it is counts: a stranger who knows the identifier must not delay its owner.
    pub(crate) fn attach(&mut self, now: Now, from: ConnRef, mut proven: Proven, fx: &mut Effects) {
        if let Err(why) = self.may_attach(&mut proven, fx) {
            return self.turn_away(now, from, claimed(&proven.connect), why, fx);
        }
        let most = self.settings.limits.topics.flaps_max;
        let before = self.sessions.find(&proven.connect.client_id);
        let takes_over = before.is_some_and(|key| self.sessions.conn(key).is_some());
        if !takes_over || !self.admissions.flaps(now, proven.names(), most) {
            return self.attach_now(now, from, proven, fx);
        }
        fx.counters.count(TopicCounter::SessionsDelayed);
        match self.admissions.put_late(from, Box::new(proven)) {
            Ok(number) => {
                let delay_ms = self.settings.limits.topics.flap_delay_ms;
                let delay = Duration::from_millis(delay_ms.into());
                self.timers.set_in(now, Timer::Late(number), delay);
            }
            Err(proven) => {
                self.turn_away(now, from, claimed(&proven.connect), Denial::Busy, fx);
            }
        }
    }

    /// A client that had to wait has waited. Facts about it may have changed meanwhile.
    pub(crate) fn attach_waited(
        &mut self,
        now: Now,
        from: ConnRef,
        mut proven: Proven,
        fx: &mut Effects,
    ) {
        if let Err(why) = self.may_attach(&mut proven, fx) {
            return self.turn_away(now, from, claimed(&proven.connect), why, fx);
        }
        let (id, version) = (proven.connect.client_id.clone(), proven.version);
        self.attach_now(now, from, proven, fx);
        if version == self.settings.access.version() {
            return;
        }
        let key = self.sessions.find(&id);
        let bound = |&key: &Key| self.sessions.conn(key) == Some(from);
        if let Some(key) = key.filter(bound) {
            self.renew(now, key, fx);
        }
    }

    fn attach_now(&mut self, now: Now, from: ConnRef, mut proven: Proven, fx: &mut Effects) {
        let assigned = self.admissions.take_assigned(&proven.connect.client_id);
        let id = &proven.connect.client_id;
        if let Some(key) = self.sessions.find(id) {
            // What nobody had, or another account under the same name, is not this one's.
            let is_its = |session| self.sessions.principal(session).is_same(&proven.grant);
            let is_clean = proven.connect.clean_start || !self.sessions.at(key).is_some_and(is_its);
            let was_durable = self.sessions.at(key).is_some_and(|session| session.is_durable());
            proven.ends_durable |= is_clean && was_durable;
            self.take_over(now, key, from, is_clean, fx);
        }
        if self.endings.has(id) {
            return self.come_later(now, from, Box::new(proven), fx);
        }
        let known = self.sessions.find(id);
        let present = known.is_some();
        let Some(key) = known.or_else(|| self.sessions.insert(id)) else {
            return self.turn_away(now, from, claimed(&proven.connect), Denial::Full, fx);
        };
        let row = match self.bind(now, Binding { key, from, present }, &proven, fx) {
            true => FirstRow::Written,
            false if proven.ends_durable => FirstRow::Gone,
            false => FirstRow::Known,
        };
        let Proven { mut connect, method, .. } = proven;
        let will = connect.will.take().and_then(|will| self.set_will(now, key, will));
        let mut connected = self.connected(key, &connect, method);
        connected.present = present;
        connected.assigned = assigned.then_some(connect.client_id);
        let welcome = Welcome { key, conn: from, connected };
        self.write_rows(now, welcome, row, will, fx);
    }

    /// Writes the rows of a session and of its will. A new session, a will, and that what was there
    /// before is gone, are promised by the welcome, so it waits for the last of them.
    fn write_rows(
        &mut self,
        now: Now,
        welcome: Welcome,
        row: FirstRow,
        will: Option<Write>,
        fx: &mut Effects,
    ) {
        let key = welcome.key;
        let durable = self.sessions.at(key).is_some_and(|session| session.is_durable());
        if row == FirstRow::Known && will.is_none() {
            if durable {
                self.put_session_row(key, None, fx);
            }
            return self.welcome(now, welcome, fx);
        }
        self.admissions.expect_welcome(&welcome);
        let welcome = Box::new(welcome);
        match will {
            Some(row) if !durable => {
                self.log.ask(PendingCall::Welcome(welcome), Call::Write(row), fx)
            }
            None if !durable => {
                let Some(session) = self.sessions.at(key) else { return };
                let row = rows::session_key(self.settings.home, session.id());
                let write = Write::Delete { table: Table::Sessions, key: row };
                self.log.ask(PendingCall::Welcome(welcome), Call::Write(write), fx);
            }
            will => {
                will.into_iter().for_each(|row| self.log.write(row, fx));
                self.put_session_row(key, Some(welcome), fx);
            }
        }
    }

    fn may_attach(&self, proven: &mut Proven, fx: &mut Effects) -> Result<(), Denial> {
        let Proven { connect, grant, .. } = proven;
        let who = Who { client_id: &connect.client_id, user: grant.user.as_deref() };
        // The server assigned this identifier, so no rule about identifiers applies.
        if !self.admissions.has_assigned(&connect.client_id) && !self.settings.access.may_be(&who) {
            fx.counters.count(TopicCounter::ClientIdsRefused);
            return Err(Denial::ClientIdInvalid);
        }
        let known = self.sessions.find(&connect.client_id).and_then(|key| self.sessions.at(key));
        if let Some(session) = known {
            // A session belongs to its user: no other user resumes or ends it. A session without a
            // user is replaced for a client with one.
            let owner = &self.sessions.principal(session).user;
            if owner.is_some() && *owner != grant.user {
                fx.counters.count(TopicCounter::ClientIdsRefused);
                return Err(Denial::NotAuthorized);
            }
        } else if self.sessions.is_full() {
            return Err(Denial::Full);
        }
        let Some(will) = &mut connect.will else { return Ok(()) };
        let names = Names { client: &connect.client_id, user: grant.user.as_deref() };
        if let Some(other) = self.published_as(will.message.topic(), names)? {
            will.message = Arc::new(will.message.renamed(&other));
        }
        let principal = super::principals::Principal::of(grant);
        match principal.may(&connect.client_id, Act::Publish, will.message.topic()) {
            true => Ok(()),
            false => Err(Denial::NotAuthorized),
        }
    }

    /// Ends the connection before this one, and the session with it where the client wants a clean
    /// start, or where it does not outlive its connection.
    fn take_over(&mut self, now: Now, key: Key, from: ConnRef, clean: bool, fx: &mut Effects) {
        if let Some(conn) = self.sessions.conn(key) {
            fx.counters.count(TopicCounter::SessionsTakenOver);
            if conn != from {
                let text = Some("a newer connection took the session over".into());
                let denied =
                    Denied { text, ..Denied::of(Denial::TakenOver, CloseReason::Replaced) };
                fx.deliveries.push((conn, SessionDelivery::End(Box::new(denied))));
            }
            self.admissions.end_welcome(conn);
            self.detach(now, key, CloseReason::Replaced, fx);
        }
        if clean {
            self.end_session(now, key, fx);
        }
    }

    /// Binds the session to the connection; whether it has to get a row before it is welcomed.
    fn bind(
        &mut self,
        now: Now,
        Binding { key, from, present }: Binding,
        Proven { connect, grant, .. }: &Proven,
        fx: &mut Effects,
    ) -> bool {
        let limits = self.settings.limits.topics.clone();
        let is_other = self.sessions.grant(key, grant);
        let version = (!present).then(|| self.sessions.next_version(now));
        let protocol = self.sessions.protocol(connect.protocol);
        let expiry_s = match (connect.expiry_s, limits.session_expiry_s_max) {
            (wish, NEVER_S) => wish,
            (wish, max) => wish.min(max),
        };
        // Only version 5 can be given another keep-alive than it asked for (MQTT5 3.2.2.3.14).
        let is_told = connect.protocol == "mqtt5";
        let wish_s = connect.keep_alive_s;
        let keep_alive_s = keep_alive::agreed_s(wish_s, is_told, &limits, self.admissions.rng());
        let Some(session) = self.sessions.at_mut(key) else { return false };
        let window = connect.receive_max.min(limits.inflight_max).max(1);
        let is_bridge = connect.is_bridge;
        let terms = SessionTerms { protocol, expiry_s, keep_alive_s, window, is_bridge };
        session.bind(now, from, &terms);
        version.into_iter().for_each(|version| session.transit(version, None));
        session.set_peer(connect.peer);
        session.set_until_s(grant.until_s);
        session.set_device(connect.device.clone());
        let was_durable = session.is_durable();
        // The client is back before its will was due (MQTT5 3.1.3-9), with a new one or none.
        self.cancel_will(key, fx);
        if grant.until_s != 0 {
            self.timers.set(now, Timer::Grant(key), grant.until_s.into());
        }
        // Who has the rights it had reaches what it reached.
        if present && is_other {
            self.reach_again(now, key, fx);
        }
        let durable = expiry_s > 0;
        let session = self.sessions.at_mut(key);
        if !durable || was_durable {
            return session.is_some_and(|it| it.is_unwritten());
        }
        // One that does not outlive its connections has ended with the last of them.
        base::never!(session.as_ref().is_some_and(|it| it.subscriptions() > 0), "it is new");
        if let Some(session) = session {
            session.set_durable(true);
            session.set_unwritten(true);
        }
        true
    }

    fn connected(&self, key: Key, connect: &ConnectRequest, method: LastWord) -> Connected {
        let session = self.sessions.at(key);
        let limits = &self.settings.limits.topics;
        let information = format!("{RESPONSES}{}/", connect.client_id);
        Connected {
            session: SessionRef::new(self.settings.shard, key),
            present: false,
            assigned: None,
            keep_alive_s: session.map_or(0, |session| session.keep_alive_s()),
            expiry_s: session.map_or(0, |session| session.expiry_s()),
            receive_max: limits.receive_max,
            response_information: connect.wants_response_information.then(|| information.into()),
            method,
            is_bridge: connect.is_bridge,
        }
    }

    /// The row of a new durable session, or of a will, was answered.
    pub(crate) fn welcome_written(
        &mut self,
        now: Now,
        welcome: Welcome,
        is_written: bool,
        fx: &mut Effects,
    ) {
        self.admissions.end_welcome(welcome.conn);
        let Some(session) = self.sessions.at_mut(welcome.key) else { return };
        if is_written {
            session.set_unwritten(false);
        }
        if session.conn() != Some(welcome.conn) {
            return;
        }
        if is_written {
            return self.welcome(now, welcome, fx);
        }
        let id = Box::<str>::from(session.id());
        let session = self.sessions.at(welcome.key);
        let user = session.and_then(|session| self.sessions.principal(session).user.clone());
        self.cancel_will(welcome.key, fx);
        match welcome.connected.present {
            true => self.detach(now, welcome.key, CloseReason::Quota, fx),
            false => self.drop_session(now, welcome.key, fx),
        }
        let who = Who { client_id: &id, user: user.as_deref() };
        self.turn_away(now, welcome.conn, who, Denial::StoreFull, fx);
    }

    /// Sends the client its welcome, and the messages that waited for it.
    fn welcome(&mut self, now: Now, welcome: Welcome, fx: &mut Effects) {
        let Welcome { key, conn, connected } = welcome;
        let present = connected.present;
        fx.counters.count(TopicCounter::SessionsConnected);
        fx.counters.count_by(TopicCounter::SessionsResumed, u64::from(present));
        fx.deliveries.push((conn, SessionDelivery::Connected(Box::new(connected))));
        self.sessions.go_online(now, key);
        let Some(session) = self.sessions.at(key) else { return };
        let protocol = self.sessions.protocol_name(session.protocol());
        self.sessions.transition(key, OnlineState::Online(protocol), fx);
        self.keep_work(key);
        if fx.events_wanted
            && let Some(session) = self.sessions.at(key)
            && let Some(peer) = session.peer()
        {
            let what = ClientWhat::Connected { protocol, peer, resumed: present };
            self.sessions.event(now, key, || what, fx);
        }
        self.share_presence(now, key, true, fx);
        match present {
            true => self.tell_device_again(key, fx),
            false => self.auto_subscribe(now, key, fx),
        }
        self.resume(now, key, fx);
    }

    /// Writes the row of a session; a welcome is sent when it is written.
    pub(crate) fn put_session_row(
        &mut self,
        key: Key,
        welcome: Option<Box<Welcome>>,
        fx: &mut Effects,
    ) {
        let Some(session) = self.sessions.at(key) else { return };
        let protocol = self.sessions.protocol_name(session.protocol());
        let value = rows::session_row(session, self.sessions.principal(session), protocol);
        let key = rows::session_key(self.settings.home, session.id());
        let write = Write::Put { table: Table::Sessions, key, value };
        match welcome {
            Some(welcome) => self.log.ask(PendingCall::Welcome(welcome), Call::Write(write), fx),
            None => self.log.write(write, fx),
        }
    }
}

/// State of the session's row at a welcome.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FirstRow {
    /// The row is on stable storage, or none is needed.
    Known,
    /// The row is being written.
    Written,
    /// The row is gone: the session that had it was ended by this connection.
    Gone,
}

/// Prefix of response topics that clients get.
const RESPONSES: &str = "$response/";
