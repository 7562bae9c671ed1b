//! Each device's position in its account's inbox, and the entries that are sent to it.
//!
//! ```text
//!            all up to `known` was sent        told of more
//!   LoggedIn ───────────────► InStep ─────────────────────► Behind ──┐ Pull
//!                               ▲  too much unacknowledged           │
//!                               └────── a page that reaches the end ─┘
//! ```
//! A device in step is sent each entry as it comes, up to a limit without acknowledgement; one that
//! is behind is notified once, and pulls. So no entries wait in memory for a slow consumer.
//! Invariant: a session in step has been sent its whole inbox up to the head.

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

/// Delay before a device's position is stored.
const STORE_AFTER: Duration = Duration::from_secs(1);

/// Messages of a device that are not yet in its inbox and are known to be its own. Earlier ones are
/// sent to the device like messages of others.
const OWN_MAX: usize = 256;

impl Sessions {
    /// Records that a device has sent a message over its connection, so that the message is not
    /// sent back to it. An XMPP device does get its messages to groups back, in order: a room
    /// reflects them (XEP-0045 7.4).
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

    /// Records that a device pulls, and by which read.
    pub(crate) fn pulls(&mut self, whom: (ConnRef, SessionRef), reading: u64) {
        if let Some((_, session)) = self.session_of(whom) {
            session.last_pull = reading as u32;
        }
    }
}

impl Session {
    /// Whether this message was sent over this connection; it is then forgotten, since it has been
    /// placed.
    fn said_here(&mut self, message: &ChatMessage) -> bool {
        let is_here = *self.device == *message.device;
        is_here && self.own.take_first(|id| *id == message.client_id).is_some()
    }

    /// Records that the device has everything up to an offset, which is stored after `STORE_AFTER`.
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
    /// Sends an entry that has been placed in an inbox to devices in step; the others will be
    /// notified.
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
                continue; // the device pulls, or a page had this already
            }
            let has_all = session.acked >= session.known;
            let said_here = |message: &Arc<ChatMessage>| {
                // Messages of an account to itself go to all of its devices (RFC 6121 8.5.2.1.1).
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

    /// Sends a message that is addressed to one device to that device, even if its priority is
    /// negative (RFC 6121 8.5.3.1). Such a device does not follow the inbox.
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
            // A name with escapes is compared by the device's protocol machine.
            let is_named = *session.device == *resource || resource.contains('&');
            let is_there = is_named && self.people.is_present(inbox, key, i8::MIN);
            if is_there && !self.people.is_present(inbox, key, 0) {
                let delivery = ChatDelivery::ForDevice(seq, message.clone());
                fx.deliveries.push((session.conn, delivery));
            }
        }
    }

    /// Records that a device is sent a page of its inbox up to an offset. Returns that offset, and
    /// the head of the inbox. A device that is already beyond the offset keeps its position, unless
    /// this is its last pull. `None`: the session has ended.
    pub(crate) fn paged(
        &mut self,
        whom: (ConnRef, SessionRef),
        reading: u64,
        (upto, is_empty): (Seq, bool),
    ) -> Option<(Seq, Seq)> {
        if self.is_errand(whom.0) {
            return Some((upto, upto)); // an errand follows no inbox
        }
        let key = self.sessions.bound(whom.0, whom.1)?;
        let session = self.sessions.slab.at_mut(key)?;
        let head = self.sessions.online.get(&session.inbox)?.head;
        // A page may have entries that were just placed; an empty page cannot reach beyond the
        // head.
        let upto = if is_empty { upto.min(head) } else { upto };
        if reading as u32 == session.last_pull || upto > session.known {
            session.known = upto;
            session.step = if upto >= head { Step::InStep } else { Step::Behind };
            self.follows.comes_further(session.inbox);
        }
        Some((upto, head.max(upto)))
    }

    /// Records a device's acknowledgement up to an offset: of entries that it was sent, or has from
    /// before.
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
                false => untold.push(key), // of entries since its last position
            }
            self.follows.comes_further(session.inbox);
        }
        session.has_up_to(now, (key, upto), unstored);
        if session.binds {
            online.shared = online.shared.max(upto);
        }
    }

    /// Stores a device's position.
    pub(crate) fn store_place(&mut self, key: Key, fx: &mut Effects) {
        let Some(session) = self.sessions.slab.at_mut(key) else { return };
        if session.acked > session.stored {
            session.stored = session.acked;
            let Session { inbox: timeline, reader, acked: upto, .. } = *session;
            self.log.write(Write::Acknowledge { timeline, reader, upto }, fx);
            self.reaches(timeline, upto, fx);
        }
    }

    /// Notifies devices that are behind, and stores positions; returns when to be called again.
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
