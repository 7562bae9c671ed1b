//! What each device has of its account's inbox, and what it is sent of it.
//!
//! ```text
//!            all up to `known` was sent        told of more
//!   LoggedIn ───────────────► InStep ─────────────────────► Behind ──┐ Pull
//!                               ▲  too much unacknowledged           │
//!                               └────── a page that reaches the end ─┘
//! ```
//! A device in step is sent each message as it comes, a few before it acknowledges; one that is
//! behind is told so once, and pulls. So nothing waits in memory for whoever does not read.
//! Invariant: a session in step knows all of its inbox up to the head.

use crate::sessions::{Online, Session, Sessions, Step};
use crate::word::Cargo;
use crate::{Chat, Effects};
use base::slab::Key;
use base::time::{Instant, Now};
use model::chat::{ChatDelivery, ChatMessage, ClientMessageId};
use model::counters::ChatCounter;
use model::id::{ConnRef, SessionRef};
use model::ports::log::Write;
use model::timeline::{Seq, TimelineId};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// How long a device's place is kept in memory before it is stored.
const STORE_AFTER: Duration = Duration::from_secs(1);

/// Messages of a device that have no place in its inbox yet and are known to be its own. Those
/// before them are sent to it as others' are.
const OWN_MAX: usize = 256;

impl Sessions {
    /// A device says something over its connection: it need not be sent it. One that binds is sent
    /// what it says to a group, in its order: a room reflects (XEP-0045 7.4).
    pub(crate) fn says(
        &mut self,
        whom: (ConnRef, SessionRef),
        id: ClientMessageId,
        is_to_group: bool,
    ) {
        let Some((_, session)) = self.session_of(whom) else { return };
        let is_reflected = is_to_group && session.binds;
        if !is_reflected && !session.own.iter().any(|other| *other == id) {
            if session.own.len() >= OWN_MAX {
                session.own.pop_front();
            }
            session.own.push_back(id);
        }
    }

    /// A device pulls, by this reading.
    pub(crate) fn pulls(&mut self, whom: (ConnRef, SessionRef), reading: u64) {
        if let Some((_, session)) = self.session_of(whom) {
            session.last_pull = reading as u32;
        }
    }
}

impl Session {
    /// Whether this was said over this connection, and has its place now.
    fn said_here(&mut self, message: &ChatMessage) -> bool {
        let is_here = *self.device == *message.device;
        is_here && self.own.take_first(|id| *id == message.client_id).is_some()
    }

    /// The device has everything up to a place, which is stored in a while.
    fn has_up_to(
        &mut self,
        now: Now,
        (key, upto): (Key, Seq),
        unstored: &mut VecDeque<(Instant, Key)>,
    ) {
        if upto > self.acked {
            if self.acked == self.stored {
                unstored.push_back((now.after(STORE_AFTER), key));
            }
            self.acked = upto;
        }
    }
}

impl Chat {
    /// Something has its place in an inbox: devices in step are sent it, the others told.
    pub(crate) fn deliver(
        &mut self,
        now: Now,
        (inbox, seq): (TimelineId, Seq),
        cargo: &Cargo,
        fx: &mut Effects,
    ) {
        if let Cargo::Message(message) = cargo {
            self.deliver_addressed((inbox, seq), message, fx);
        }
        let is_kept_back =
            matches!(cargo, Cargo::Event(_, event) if !self.is_told_of(inbox, event));
        let Sessions { slab, online, untold, unstored, .. } = &mut self.sessions;
        let Some(online) = online.get_mut(&inbox) else { return };
        online.head = online.head.max(seq);
        let most = u64::from(self.settings.limits.chat.inline_a_session_max);
        let Online { address, sessions, shared, .. } = &mut **online;
        let own = match cargo {
            Cargo::Message(message) if message.from == *address => Some(message),
            _ => None,
        };
        for &key in &*sessions {
            let Some(session) = slab.at_mut(key) else { continue };
            if session.step == Step::Behind || session.known >= seq {
                continue; // it pulls, or a page had this already
            }
            let has_all = session.acked >= session.known;
            let said_here = |message: &Arc<ChatMessage>| {
                // What an account says to itself comes to all of its devices (RFC 6121 8.5.2.1.1).
                session.said_here(message) && !(session.binds && message.to == message.from)
            };
            if is_kept_back || own.is_some_and(said_here) {
                session.known = seq;
                if has_all {
                    session.has_up_to(now, (key, seq), unstored);
                    *shared = (*shared).max(if session.binds { seq } else { 0 });
                }
            } else if session.known.saturating_sub(session.acked) < most {
                session.known = seq;
                let delivery = match cargo.clone() {
                    Cargo::Message(message) => {
                        fx.counters.count(ChatCounter::Delivered);
                        ChatDelivery::Message { seq, message }
                    }
                    Cargo::Event(_, event) => ChatDelivery::Event { seq, event },
                };
                fx.deliveries.push((session.conn, delivery));
            } else {
                session.step = Step::Behind;
                untold.push(key);
            }
        }
    }

    /// A message was addressed to one device: that is sent it, though it wants none that are for
    /// all, by its priority (RFC 6121 8.5.3.1). Such a device does not follow the inbox.
    fn deliver_addressed(
        &self,
        (inbox, seq): (TimelineId, Seq),
        message: &Arc<ChatMessage>,
        fx: &mut Effects,
    ) {
        let Some(resource) = message.content.resource() else { return };
        let Some(online) = self.sessions.online.get(&inbox) else { return };
        for &key in &*online.sessions {
            let Some(session) = self.sessions.slab.at(key).filter(|it| it.binds) else { continue };
            // One that had to be escaped is compared where that is known.
            let is_named = *session.device == *resource || resource.contains('&');
            let is_there = is_named && self.people.is_present(inbox, key, i8::MIN);
            if is_there && !self.people.is_present(inbox, key, 0) {
                let delivery = ChatDelivery::ForDevice(seq, message.clone());
                fx.deliveries.push((session.conn, delivery));
            }
        }
    }

    /// A device is being sent its inbox up to a place, by a page that goes on from where it says
    /// it is: that place, and the last one there is. Who is beyond that is told so, unless it has
    /// asked for another page since. `None`: it has gone.
    pub(crate) fn paged(
        &mut self,
        whom: (ConnRef, SessionRef),
        reading: u64,
        (upto, is_empty): (Seq, bool),
    ) -> Option<(Seq, Seq)> {
        if self.is_errand(whom.0) {
            return Some((upto, upto)); // it follows nothing
        }
        let key = self.sessions.bound(whom.0, whom.1)?;
        let session = self.sessions.slab.at_mut(key)?;
        let head = self.sessions.online.get(&session.inbox)?.head;
        // A page may have what was placed a moment ago; an empty one has nothing beyond the end.
        let upto = if is_empty { upto.min(head) } else { upto };
        if reading as u32 == session.last_pull || upto > session.known {
            session.known = upto;
            session.step = if upto >= head { Step::InStep } else { Step::Behind };
            self.follows.comes_further(session.inbox);
        }
        Some((upto, head.max(upto)))
    }

    /// A device has everything up to a place: what it was sent, and what it has from before.
    pub(crate) fn acknowledge(&mut self, now: Now, from: ConnRef, session: SessionRef, upto: Seq) {
        let Some(key) = self.sessions.bound(from, session) else { return };
        let Sessions { slab, online, untold, unstored, .. } = &mut self.sessions;
        let Some(session) = slab.at_mut(key) else { return };
        let Some(online) = online.get_mut(&session.inbox) else { return };
        let upto = upto.min(session.known.max(online.head));
        if upto > session.known {
            session.known = upto;
            match upto >= online.head {
                true => session.step = Step::InStep,
                false => untold.push(key), // of what came since it was told
            }
            self.follows.comes_further(session.inbox);
        }
        session.has_up_to(now, (key, upto), unstored);
        if session.binds {
            online.shared = online.shared.max(upto);
        }
    }

    /// Stores how far a device has come.
    pub(crate) fn store_place(&mut self, key: Key, fx: &mut Effects) {
        let Some(session) = self.sessions.slab.at_mut(key) else { return };
        if session.acked > session.stored {
            session.stored = session.acked;
            let Session { inbox: timeline, reader, acked: upto, .. } = *session;
            self.log.write(Write::Acknowledge { timeline, reader, upto }, fx);
            self.reaches(timeline, upto, fx);
        }
    }

    /// Tells those that are behind, and stores places; when to come back.
    pub(crate) fn turn_following(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        for key in std::mem::take(&mut self.sessions.untold) {
            let Some(session) = self.sessions.slab.at(key) else { continue };
            let online = self.sessions.online.get(&session.inbox);
            if let Some(online) = online.filter(|_| session.step == Step::Behind) {
                let (conn, head) = (session.conn, online.head);
                fx.counters.count(ChatCounter::Notified);
                fx.deliveries.push((conn, ChatDelivery::Notify { head }));
            }
        }
        while let Some(&(due, key)) = self.sessions.unstored.front() {
            if due > now.mono {
                return Some(due);
            }
            self.sessions.unstored.pop_front();
            self.store_place(key, fx);
        }
        None
    }
}
