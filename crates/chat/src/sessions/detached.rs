//! Sessions that outlive their connection for a time (XEP-0198 5).
//!
//! ```text
//!           Keep                Detach                        time over, too much
//!  (session) ───► may be kept ─────────► away ───────────────────────────────► ended
//!                    ▲   │ Yield          │ Resume
//!                    │   └───(Detach)─────┤
//!                    └────────────────────┘ Resumed
//! ```
//! A detached session is online for everyone else. The state of its machine is kept here, and its
//! deliveries within bounds; none of its inbox: it is behind, and pulls when it resumes. A client
//! that resumes must be logged in to the same account, and know the session's secret. None of this
//! is stored: after a restart no session can be resumed. Invariant: a detached session has a time
//! at which it ends, and the memory of all of them is counted.

use crate::sessions::Step;
use crate::{Chat, Effects};
use base::slab::Key;
use base::time::{Instant, Now};
use model::chat::{
    ChatDelivery, Conversation, Detaching, EXCERPT_BYTES_MAX, Keeping, KeptSession, NodesAnswer,
    NodesFound, Presence, Resumed, ResumptionId,
};
use model::counters::ChatCounter;
use model::id::{ConnRef, SessionRef};
use model::timeline::TimelineId;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

/// Sessions of a shard that ended while detached, of which the number of handled stanzas is
/// remembered. When one more ends, the oldest is forgotten.
const LAPSED_MAX: usize = 1_024;

/// Sessions that may be detached, and those that are.
#[derive(Default)]
pub(crate) struct Resumables {
    known: HashMap<Key, Resumable>,
    /// The last connections of sessions, whose deliveries are returned.
    left: HashMap<ConnRef, Key>,
    ending: BTreeSet<(Instant, Key)>,
    /// Memory of all detached sessions, bytes.
    bytes: u64,
    lapsed: VecDeque<Lapsed>,
}

/// A session that may outlive its connection.
struct Resumable {
    secret: u128,
    seconds: u32,
    /// The session's previous connection.
    left: Option<ConnRef>,
    away: Option<Box<Away>>,
    /// The connection and session that wait to take it over, until its present machine has yielded
    /// it.
    wanted: Option<(ConnRef, SessionRef)>,
}

/// A session without a connection.
struct Away {
    until: Instant,
    kept: KeptSession,
    handled: u32,
    waiting: VecDeque<ChatDelivery>,
    /// Memory of the session's kept state, bytes.
    bytes: u64,
}

/// A session that ended while detached.
struct Lapsed {
    id: ResumptionId,
    inbox: TimelineId,
    handled: u32,
}

impl Resumables {
    /// Whether a session is detached.
    pub(crate) fn is_away(&self, key: Key) -> bool {
        self.known.get(&key).is_some_and(|it| it.away.is_some())
    }

    /// The detached session that would end next.
    pub(crate) fn next_to_end(&self) -> Option<Key> {
        self.ending.first().map(|(_, key)| *key)
    }

    /// Removes the detached state of a session that resumes or ends.
    fn take_away(&mut self, key: Key) -> Option<Box<Away>> {
        let away = self.known.get_mut(&key)?.away.take()?;
        self.ending.remove(&(away.until, key));
        self.bytes -= away.bytes;
        Some(away)
    }

    /// Forgets a session that ends, or may not be detached any more. Returns the session that waits
    /// to resume it.
    pub(super) fn forget(
        &mut self,
        key: Key,
        lapsed: Option<(SessionRef, TimelineId)>,
    ) -> Option<(ConnRef, SessionRef)> {
        let away = self.take_away(key);
        let known = self.known.remove(&key)?;
        if let Some(left) = known.left {
            self.left.remove(&left);
        }
        if let (Some(away), Some((session, inbox))) = (away, lapsed) {
            if self.lapsed.len() >= LAPSED_MAX {
                self.lapsed.pop_front();
            }
            let id = ResumptionId { session, secret: known.secret };
            self.lapsed.push_back(Lapsed { id, inbox, handled: away.handled });
        }
        known.wanted
    }

    /// The number of stanzas that an ended session had handled.
    fn handled(&self, id: &ResumptionId, inbox: TimelineId) -> Option<u32> {
        let lapsed = self.lapsed.iter().find(|it| it.id == *id && it.inbox == inbox);
        lapsed.map(|it| it.handled)
    }

    pub(super) fn audit(&self) {
        let away = self.known.values().filter_map(|it| it.away.as_deref());
        let (mut bytes, mut count) = (0, 0);
        for it in away {
            (bytes, count) = (bytes + it.bytes, count + 1);
        }
        assert_eq!((bytes, count), (self.bytes, self.ending.len()), "all that is kept is counted");
        for (conn, key) in &self.left {
            assert_eq!(self.known.get(key).and_then(|it| it.left), Some(*conn));
        }
    }
}

impl Chat {
    /// Allows a session to outlive its connection, or revokes that.
    pub(crate) fn keep(&mut self, from: ConnRef, keeping: &Keeping, fx: &mut Effects) {
        let Keeping { id, seconds } = *keeping;
        let Some(key) = self.sessions.bound(from, id.session) else { return };
        if seconds == 0 {
            if self.sessions.resumables.known.contains_key(&key) {
                fx.counters.count(ChatCounter::DetachedFull);
            }
            let wanted = self.sessions.resumables.forget(key, None);
            wanted.into_iter().for_each(|whom| self.not_resumed(whom, None, fx));
            return;
        }
        let seconds = seconds.min(self.settings.limits.chat.resume_s_max);
        let secret = id.secret;
        let new = Resumable { secret, seconds, left: None, away: None, wanted: None };
        self.sessions.resumables.known.entry(key).or_insert(new);
    }

    /// Detaches a session whose connection ended in the middle of its stream.
    pub(crate) fn detach(
        &mut self,
        now: Now,
        from: ConnRef,
        detaching: Detaching,
        fx: &mut Effects,
    ) {
        let Detaching { session, kept, bytes, handled, .. } = detaching;
        let Some(key) = self.sessions.bound(from, session) else { return };
        self.part(key, fx);
        let bytes = (bytes + size_of::<Away>()) as u64;
        let most = self.detached_max();
        let resumables = &mut self.sessions.resumables;
        let may_be_kept = resumables.bytes + bytes <= most;
        let Some(known) = resumables.known.get_mut(&key).filter(|_| may_be_kept) else {
            if !may_be_kept {
                fx.counters.count(ChatCounter::DetachedFull);
            }
            return self.leave(key, fx);
        };
        let until = now.after(Duration::from_secs(known.seconds.into()));
        let waiting = VecDeque::new();
        known.away = Some(Box::new(Away { until, kept, handled, waiting, bytes }));
        let before = known.left.replace(from);
        let wanted = known.wanted.take();
        before.map(|conn| resumables.left.remove(&conn));
        resumables.left.insert(from, key);
        resumables.ending.insert((until, key));
        resumables.bytes += bytes;
        fx.counters.count(ChatCounter::Detached);
        self.store_place(key, fx);
        if let Some(session) = self.sessions.slab.at_mut(key) {
            session.step = Step::Behind;
            self.pushes.leaves(session.inbox);
        }
        self.moves_in_chatrooms(key, None);
        if let Some(whom) = wanted {
            self.attach(now, whom, key, fx);
        }
    }

    /// This shard's share of the memory for detached sessions, bytes.
    fn detached_max(&self) -> u64 {
        self.settings.limits.chat.detached_bytes_max / u64::from(self.settings.shards.max(1))
    }

    /// Handles the request of a session that has just logged in to resume another one.
    pub(crate) fn resume(
        &mut self,
        now: Now,
        from: ConnRef,
        (session, id): (SessionRef, &ResumptionId),
        fx: &mut Effects,
    ) {
        let own = self.sessions.bound(from, session);
        let Some(inbox) = own.and_then(|key| self.sessions.slab.at(key)).map(|it| it.inbox) else {
            return;
        };
        let key = id.session.key();
        let resumables = &mut self.sessions.resumables;
        let is_here = id.session.shard() == self.settings.shard;
        let found = self.sessions.slab.at(key).filter(|_| is_here && Some(key) != own);
        let known = resumables.known.get_mut(&key).filter(|_| found.is_some());
        let (Some(other), Some(known)) = (found, known) else {
            let handled = resumables.handled(id, inbox);
            // All sessions of an account are on its shard, so this one is none of the account's.
            let refused = ChatCounter::ResumesRefused;
            fx.counters.count(if is_here { ChatCounter::ResumesFailed } else { refused });
            return self.not_resumed((from, session), handled, fx);
        };
        if other.inbox != inbox || known.secret != id.secret {
            fx.counters.count(ChatCounter::ResumesRefused);
            return self.not_resumed((from, session), None, fx);
        }
        if known.away.is_some() {
            return self.attach(now, (from, session), key, fx);
        }
        // The old connection may be dead without notice; the client that came last gets the
        // session.
        let (conn, before) = (other.conn, known.wanted.replace((from, session)));
        if let Some(whom) = before {
            return self.not_resumed(whom, None, fx);
        }
        fx.deliveries.push((conn, ChatDelivery::Yield));
    }

    pub(super) fn not_resumed(
        &mut self,
        whom: (ConnRef, SessionRef),
        handled: Option<u32>,
        fx: &mut Effects,
    ) {
        self.answer_session(whom, ChatDelivery::NotResumed { handled }, fx);
    }

    /// Moves a detached session to the connection of another session, which ends.
    fn attach(
        &mut self,
        now: Now,
        (conn, session): (ConnRef, SessionRef),
        key: Key,
        fx: &mut Effects,
    ) {
        // If the client that wanted the session has gone, it stays detached.
        let Some(own) = self.sessions.bound(conn, session) else { return };
        let Some(away) = self.sessions.resumables.take_away(key) else { return };
        let rights = self.sessions.slab.at(own);
        let rights = rights.map(|it| (it.version, it.until_s, it.account, it.by_password));
        self.leave(own, fx);
        let Away { kept, waiting, .. } = *away;
        let Some((version, until_s, account, by_password)) = rights else { return };
        let Some(it) = self.sessions.slab.at_mut(key) else { return };
        let inbox = it.inbox;
        let head = self.sessions.online.get(&inbox).map_or(it.acked, |online| online.head);
        self.sessions.ending.remove(&(it.until_s, key));
        if until_s != 0 {
            self.sessions.ending.insert((until_s, key));
        }
        // The session learns the head of its inbox and pulls the entries it lacks up to there;
        // later ones are sent to it.
        (it.conn, it.known, it.step, it.last_pull) = (conn, head, Step::InStep, 0);
        (it.version, it.until_s, it.since_s) = (version, until_s, now.unix_s());
        (it.account, it.by_password) = (account, by_password);
        self.people_resume(inbox, key, conn);
        self.moves_in_chatrooms(key, Some(conn));
        fx.counters.count(ChatCounter::Resumed);
        let session = SessionRef::new(self.settings.shard, key);
        let waiting = waiting.into();
        let resumed = Box::new(Resumed { session, kept, waiting, head });
        fx.deliveries.push((conn, ChatDelivery::Resumed(resumed)));
        self.renew_one(now, key, self.settings.access.version(), fx);
    }

    /// Handles a delivery that was returned because its connection has ended: the session may be
    /// detached, or have moved.
    pub(crate) fn came_back(&mut self, to: ConnRef, delivery: ChatDelivery, fx: &mut Effects) {
        // These can be read from the inbox, except a transient, which is for connected devices.
        let is_left_out = matches!(
            delivery,
            ChatDelivery::Message { .. }
                | ChatDelivery::Event { .. }
                | ChatDelivery::Notify { .. }
                | ChatDelivery::Page(_)
                | ChatDelivery::Transient(_)
        );
        let Some(&key) = self.sessions.resumables.left.get(&to).filter(|_| !is_left_out) else {
            return;
        };
        // Messages of a chatroom are not kept: the session learns how many it missed.
        let missed = match &delivery {
            ChatDelivery::ChatroomSaid(it) => Some((it.timeline, 1, false)),
            ChatDelivery::ChatroomMissed(it) => Some((it.timeline, it.missed, true)),
            _ => None,
        };
        if let Some(missed) = missed {
            return self.skips_in_chatroom(key, missed, fx);
        }
        match self.sessions.resumables.is_away(key) {
            true => self.waits(key, delivery, fx),
            // The session moved to another connection while the delivery was on its way.
            false => {
                let conn = self.sessions.slab.at(key).map(|session| session.conn);
                fx.deliveries.extend(conn.map(|conn| (conn, delivery)));
            }
        }
    }

    /// Keeps a delivery for a detached session; of presence, and of delivery notices, only the
    /// newest.
    fn waits(&mut self, key: Key, delivery: ChatDelivery, fx: &mut Effects) {
        let limits = &self.settings.limits.chat;
        let (bytes_max, count_max) = (limits.resume_bytes_max, limits.resume_stanzas_max);
        let all_max = self.detached_max();
        let resumables = &mut self.sessions.resumables;
        let Some(away) = resumables.known.get_mut(&key).and_then(|it| it.away.as_mut()) else {
            return;
        };
        let before = away.bytes;
        if let Some(at) = away.waiting.iter().position(|it| is_older(it, &delivery)) {
            away.bytes -= weight_of(&away.waiting[at]);
            away.waiting.remove(at);
        }
        away.bytes += weight_of(&delivery);
        away.waiting.push_back(delivery);
        let is_full = away.bytes > u64::from(bytes_max) || away.waiting.len() > count_max as usize;
        resumables.bytes = resumables.bytes - before + away.bytes;
        if is_full || resumables.bytes > all_max {
            fx.counters.count(ChatCounter::DetachedFull);
            self.leave(key, fx);
        }
    }

    /// Ends sessions that were detached for too long; returns when to be called again.
    pub(crate) fn turn_detached(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        while let Some(&(until, key)) = self.sessions.resumables.ending.first() {
            if until > now.mono {
                return Some(until);
            }
            fx.counters.count(ChatCounter::DetachedOver);
            self.leave(key, fx);
        }
        None
    }
}

/// Whether a delivery is superseded by another one of the same kind and subject.
fn is_older(one: &ChatDelivery, other: &ChatDelivery) -> bool {
    match (one, other) {
        (ChatDelivery::Presence(older), ChatDelivery::Presence(newer)) => is_of(older, newer),
        (ChatDelivery::Delivered(older), ChatDelivery::Delivered(newer)) => {
            older.with == newer.with
        }
        _ => false,
    }
}

/// Whether both are presences of the same device.
fn is_of(one: &Presence, other: &Presence) -> bool {
    one.from == other.from && one.device == other.device
}

/// Approximate memory of a kept delivery, bytes.
pub(crate) fn weight_of(delivery: &ChatDelivery) -> u64 {
    let more = match delivery {
        ChatDelivery::Presence(it) => it.weight(),
        ChatDelivery::Contact(it) => it.contact.weight(),
        ChatDelivery::Contacts(it) => it.contacts.iter().map(|it| it.weight()).sum(),
        ChatDelivery::Members(it) => it.weight(),
        ChatDelivery::PublicGroups(it) => it.weight(),
        ChatDelivery::RoomEntered(it) => it.weight(),
        ChatDelivery::RoomNews(it) => it.weight(),
        ChatDelivery::Occupant { occupant, .. } => occupant.weight(),
        ChatDelivery::Occupants { occupants, .. } => size_of_val(&**occupants),
        ChatDelivery::Aside(it) => it.weight(),
        ChatDelivery::Announcement(it) => it.weight(),
        ChatDelivery::ForDevice(_, message) => message.weight(),
        ChatDelivery::Conversations(it) => {
            it.conversations.len() * (size_of::<Conversation>() + EXCERPT_BYTES_MAX)
        }
        ChatDelivery::History(it) => it.messages.iter().map(|it| it.weight()).sum(),
        ChatDelivery::Archive(it) => it.messages.iter().map(|it| it.weight()).sum(),
        ChatDelivery::Found(it) => it.found.iter().map(|(_, it)| it.weight()).sum(),
        ChatDelivery::NodeNews(it) => it.weight(),
        ChatDelivery::Stanza(it) => it.len(),
        ChatDelivery::Nodes(it) => {
            size_of::<NodesAnswer>() + it.result.as_ref().map_or(0, NodesFound::weight)
        }
        _ => 0,
    };
    (size_of::<ChatDelivery>() + more) as u64
}
