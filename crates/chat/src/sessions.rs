//! Sessions: devices that are here, and what each has of its account's inbox.
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

mod binding;

use crate::{Chat, Effects};
use base::slab::{Key, Slab};
use base::time::{Instant, Now};
use model::account::AccountAddress;
use model::chat::{ChatDelivery, ChatMessage, SessionEnd};
use model::close::CloseReason;
use model::counters::ChatCounter;
use model::id::{ConnRef, SessionRef};
use model::ports::access::{GrantedAccount, Who};
use model::ports::log::Write;
use model::service::ServiceKind;
use model::session::Denial;
use model::timeline::{ReaderId, Seq, TimelineId};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// How long a device's place is kept in memory before it is stored.
const STORE_AFTER: Duration = Duration::from_secs(1);

/// Devices that are here, and accounts that have one.
pub(crate) struct Sessions {
    slab: Slab<Session>,
    online: HashMap<TimelineId, Online>,
    /// Sessions that are behind and have not been told.
    untold: Vec<Key>,
    /// When the rights of those end that have them for a time, Unix seconds.
    ending: BTreeSet<(u32, Key)>,
    /// Sessions whose place is to be stored, and when.
    unstored: VecDeque<(Instant, Key)>,
    /// The rules that all of them were looked at by.
    version: u64,
    /// Where the walk over all of them stands that follows a change of the rules.
    renewing: Option<(u64, u32)>,
}

/// A device that is here.
struct Session {
    conn: ConnRef,
    inbox: TimelineId,
    reader: ReaderId,
    device: Box<str>,
    user: Option<Arc<str>>,
    /// All of the inbox up to here was sent, or is the device's own.
    known: Seq,
    /// The device has said that it has all up to here.
    acked: Seq,
    /// That is stored up to here.
    stored: Seq,
    step: Step,
    /// Pages that it has asked for and not got.
    readings: u8,
    /// It goes on where any of its account's did that bind.
    binds: bool,
    version: u64,
    account: Option<GrantedAccount>,
    until_s: u32,
}

const _: () = assert!(size_of::<Session>() <= 160);

/// Whether a device is sent what comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    InStep,
    /// Told so, or about to be.
    Behind,
}

/// An account with devices that are here, or on their way in.
struct Online {
    address: AccountAddress,
    /// The last place of its inbox that is known.
    head: Seq,
    /// How far any device has come that binds.
    shared: Seq,
    /// In the order in which they came.
    sessions: Vec<Key>,
    /// Devices whose standing is being read: what is placed meanwhile must not escape them.
    coming: u32,
}

/// A device that comes in.
pub(crate) struct Arrival {
    pub conn: ConnRef,
    pub inbox: TimelineId,
    pub device: Box<str>,
    pub reader: ReaderId,
    pub binds: bool,
    pub cursor: Seq,
    pub last: Seq,
    pub version: u64,
    pub until_s: u32,
    pub user: Option<Arc<str>>,
    pub account: Option<GrantedAccount>,
}

/// Who waits for an answer: connection, session and request.
#[derive(Clone, Copy)]
pub(crate) struct Requester {
    pub conn: ConnRef,
    pub session: SessionRef,
    pub number: u32,
}

/// Who asks for something: an account's device.
pub(crate) struct Asker {
    pub inbox: TimelineId,
    pub address: AccountAddress,
    pub device: Box<str>,
}

impl Sessions {
    /// None; `version` is that of the rules in force.
    pub(crate) fn new(sessions_max: usize, version: u64) -> Sessions {
        Sessions {
            slab: Slab::new(sessions_max),
            online: HashMap::new(),
            untold: Vec::new(),
            ending: BTreeSet::new(),
            unstored: VecDeque::new(),
            version,
            renewing: None,
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.slab.len() >= self.slab.cap()
    }

    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    /// Names of the devices of an account that are here.
    pub(crate) fn devices(&self, inbox: TimelineId) -> Vec<Box<str>> {
        let keys = self.online.get(&inbox).map_or(&[][..], |online| &online.sessions);
        let names = keys.iter().filter_map(|&key| Some(self.slab.at(key)?.device.clone()));
        names.filter(|name| !name.is_empty()).collect()
    }

    /// A device of this account is on its way in: from now on it is known what its inbox gets.
    pub(crate) fn expect(&mut self, inbox: TimelineId, address: &AccountAddress) {
        let online =
            || Online { address: address.clone(), head: 0, shared: 0, sessions: vec![], coming: 0 };
        self.online.entry(inbox).or_insert_with(online).coming += 1;
    }

    /// It has come, or will not.
    pub(crate) fn expect_no_more(&mut self, inbox: TimelineId) {
        if let Some(online) = self.online.get_mut(&inbox) {
            online.coming = online.coming.saturating_sub(1);
            if online.coming == 0 && online.sessions.is_empty() {
                self.online.remove(&inbox);
            }
        }
    }

    fn bound(&self, from: ConnRef, session: SessionRef) -> Option<Key> {
        let key = session.key();
        self.slab.at(key).filter(|session| session.conn == from).map(|_| key)
    }

    /// Whether a device may ask for another page; it has, then.
    pub(crate) fn begins_to_read(
        &mut self,
        (conn, session): (ConnRef, SessionRef),
        most: u8,
    ) -> bool {
        let key = self.bound(conn, session);
        let Some(session) = key.and_then(|key| self.slab.at_mut(key)) else { return false };
        let may = session.readings < most;
        session.readings += u8::from(may);
        may
    }

    /// It has got one, or will not.
    pub(crate) fn ends_to_read(&mut self, (conn, session): (ConnRef, SessionRef)) {
        let key = self.bound(conn, session);
        if let Some(session) = key.and_then(|key| self.slab.at_mut(key)) {
            session.readings = session.readings.saturating_sub(1);
        }
    }

    pub(crate) fn audit(&self) {
        let all: usize = self.online.values().map(|online| online.sessions.len()).sum();
        assert_eq!(all, self.slab.len(), "each session is of one account");
        for (inbox, online) in &self.online {
            assert!(!online.sessions.is_empty() || online.coming > 0);
            for &key in &online.sessions {
                let session = self.slab.at(key).expect("it is here");
                assert!(session.inbox == *inbox && session.acked >= session.stored);
            }
        }
    }
}

impl Chat {
    /// A device that was expected has come in: its session, and the last place of its inbox.
    /// `None`: there is no room.
    pub(crate) fn arrive(
        &mut self,
        arrival: Arrival,
        fx: &mut Effects,
    ) -> Option<(SessionRef, Seq)> {
        let Arrival { conn, inbox, device, cursor, until_s, binds, .. } = arrival;
        self.make_room(inbox, &device, fx);
        let online = self.sessions.online.get_mut(&inbox)?;
        online.head = online.head.max(arrival.last);
        let head = online.head;
        if binds {
            online.shared = online.shared.max(cursor);
        }
        let step = if cursor == head { Step::InStep } else { Step::Behind };
        let session = Session {
            conn,
            inbox,
            reader: arrival.reader,
            device,
            user: arrival.user,
            known: cursor,
            acked: cursor,
            stored: cursor,
            step,
            readings: 0,
            binds,
            version: arrival.version,
            account: arrival.account,
            until_s,
        };
        let key = self.sessions.slab.insert(session).ok()?;
        online.sessions.push(key);
        if until_s != 0 {
            self.sessions.ending.insert((until_s, key));
        }
        Some((SessionRef::new(self.settings.shard, key), head))
    }

    /// The same device ends where it was before, unless it is nameless yet; with too many, the one
    /// that came first.
    fn make_room(&mut self, inbox: TimelineId, device: &str, fx: &mut Effects) {
        let Some(online) = self.sessions.online.get(&inbox) else { return };
        let of = |key: &Key| self.sessions.slab.at(*key).is_some_and(|it| *it.device == *device);
        let most = usize::from(self.settings.limits.chat.devices_an_account_max);
        let same = online.sessions.iter().copied().find(|key| !device.is_empty() && of(key));
        let first = online.sessions.first().copied().filter(|_| online.sessions.len() >= most);
        let Some(key) = same.or(first) else { return };
        self.end(key, (Denial::TakenOver, CloseReason::Replaced), fx);
    }

    /// The server ends a session.
    fn end(&mut self, key: Key, (why, reason): (Denial, CloseReason), fx: &mut Effects) {
        let Some(conn) = self.sessions.slab.at(key).map(|session| session.conn) else { return };
        fx.deliveries.push((conn, ChatDelivery::End(Box::new(SessionEnd { why, reason }))));
        self.leave(key, fx);
    }

    /// Ends all sessions of an account; how many there were.
    pub(crate) fn end_all(&mut self, inbox: TimelineId, fx: &mut Effects) -> u32 {
        let keys = self.sessions.online.get(&inbox).map(|online| online.sessions.clone());
        let keys = keys.unwrap_or_default();
        for &key in &keys {
            self.end(key, (Denial::AdminKick, CloseReason::AdminKick), fx);
        }
        keys.len() as u32
    }

    /// A connection ended while this session was bound to it.
    pub(crate) fn closed(&mut self, from: ConnRef, session: SessionRef, fx: &mut Effects) {
        if let Some(key) = self.sessions.bound(from, session) {
            self.leave(key, fx);
        }
    }

    fn leave(&mut self, key: Key, fx: &mut Effects) {
        self.store_place(key, fx);
        let Some(session) = self.sessions.slab.remove(key) else { return };
        self.sessions.ending.remove(&(session.until_s, key));
        if let Some(online) = self.sessions.online.get_mut(&session.inbox) {
            online.sessions.retain(|other| *other != key);
            if online.sessions.is_empty() && online.coming == 0 {
                self.sessions.online.remove(&session.inbox);
            }
        }
    }

    /// Whose session this is, if it is this connection's.
    pub(crate) fn asker(&self, from: ConnRef, session: SessionRef) -> Option<Asker> {
        let key = self.sessions.bound(from, session)?;
        let session = self.sessions.slab.at(key)?;
        let online = self.sessions.online.get(&session.inbox)?;
        Some(Asker {
            inbox: session.inbox,
            address: online.address.clone(),
            device: session.device.clone(),
        })
    }

    /// Something is for whoever asked, if it is still there.
    pub(crate) fn answer_session(
        &mut self,
        (conn, session): (ConnRef, SessionRef),
        delivery: ChatDelivery,
        fx: &mut Effects,
    ) {
        if self.sessions.bound(conn, session).is_some() {
            fx.deliveries.push((conn, delivery));
        }
    }

    /// A message has its place in an inbox: devices in step are sent it, the others told.
    pub(crate) fn deliver(
        &mut self,
        inbox: TimelineId,
        seq: Seq,
        message: &Arc<ChatMessage>,
        fx: &mut Effects,
    ) {
        let Sessions { slab, online, untold, .. } = &mut self.sessions;
        let Some(online) = online.get_mut(&inbox) else { return };
        online.head = online.head.max(seq);
        let most = u64::from(self.settings.limits.chat.inline_a_session_max);
        let is_own = message.from == online.address;
        for &key in &online.sessions {
            let Some(session) = slab.at_mut(key) else { continue };
            if session.step == Step::Behind || session.known >= seq {
                continue; // it pulls, or a page had this already
            }
            let has_all = session.acked >= session.known;
            if is_own && *session.device == *message.device {
                session.known = seq;
                if has_all {
                    session.acked = seq;
                }
            } else if session.known.saturating_sub(session.acked) < most {
                session.known = seq;
                fx.counters.count(ChatCounter::Delivered);
                let message = message.clone();
                fx.deliveries.push((session.conn, ChatDelivery::Message { seq, message }));
            } else {
                session.step = Step::Behind;
                untold.push(key);
            }
        }
    }

    /// A device is being sent its inbox up to a place, by a page that goes on from where it says
    /// it is: that place, and the last one there is. Who is beyond that is told so. `None`: it has
    /// gone.
    pub(crate) fn paged(
        &mut self,
        (conn, session): (ConnRef, SessionRef),
        (upto, is_empty): (Seq, bool),
    ) -> Option<(Seq, Seq)> {
        let key = self.sessions.bound(conn, session)?;
        let session = self.sessions.slab.at_mut(key)?;
        let head = self.sessions.online.get(&session.inbox)?.head;
        // A page may have what was placed a moment ago; an empty one has nothing beyond the end.
        session.known = if is_empty { upto.min(head) } else { upto };
        session.step = if session.known >= head { Step::InStep } else { Step::Behind };
        Some((session.known, head.max(session.known)))
    }

    /// A device has everything up to a place.
    pub(crate) fn acknowledge(&mut self, now: Now, from: ConnRef, session: SessionRef, upto: Seq) {
        let Some(key) = self.sessions.bound(from, session) else { return };
        let Some(session) = self.sessions.slab.at_mut(key) else { return };
        let upto = upto.min(session.known);
        if upto > session.acked {
            if session.acked == session.stored {
                self.sessions.unstored.push_back((now.after(STORE_AFTER), key));
            }
            session.acked = upto;
            let (inbox, binds) = (session.inbox, session.binds);
            if let Some(online) = self.sessions.online.get_mut(&inbox).filter(|_| binds) {
                online.shared = online.shared.max(upto);
            }
        }
    }

    /// Stores how far a device has come.
    fn store_place(&mut self, key: Key, fx: &mut Effects) {
        let Some(session) = self.sessions.slab.at_mut(key) else { return };
        if session.acked > session.stored {
            session.stored = session.acked;
            let Session { inbox: timeline, reader, acked: upto, .. } = *session;
            self.log.write(Write::Acknowledge { timeline, reader, upto }, fx);
        }
    }

    /// Tells those that are behind, stores places, looks at rights; when to come back.
    pub(crate) fn turn_sessions(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        for key in std::mem::take(&mut self.sessions.untold) {
            let Some(session) = self.sessions.slab.at(key) else { continue };
            let online = self.sessions.online.get(&session.inbox);
            if let Some(online) = online.filter(|_| session.step == Step::Behind) {
                let (conn, head) = (session.conn, online.head);
                fx.counters.count(ChatCounter::Notified);
                fx.deliveries.push((conn, ChatDelivery::Notify { head }));
            }
        }
        let mut next = None;
        while let Some(&(due, key)) = self.sessions.unstored.front() {
            if due > now.mono {
                next = Some(due);
                break;
            }
            self.sessions.unstored.pop_front();
            self.store_place(key, fx);
        }
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
        let renewals = self.renew(now, fx);
        [next, ends, renewals].into_iter().flatten().min()
    }

    /// Looks at a slice of the sessions after the rules have changed.
    fn renew(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let in_force = self.settings.access.version();
        // A walk that was begun goes on to its end, however often the rules change meanwhile.
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
        self.settings.access.renewed((ServiceKind::Chat, self.settings.shard), version);
        (version != in_force).then_some(now.mono)
    }

    /// Looks at a session's rights, unless that was done by these rules.
    pub(crate) fn renew_one(&mut self, now: Now, key: Key, version: u64, fx: &mut Effects) {
        let Some(session) = self.sessions.slab.at(key).filter(|it| it.version != version) else {
            return;
        };
        let who = Who { client_id: &session.device, user: session.user.as_deref() };
        let access = &self.settings.access;
        let online = self.sessions.online.get(&session.inbox);
        let goes_on = match who.user {
            Some(user) => access.holds(user, session.account),
            // Whoever came without a proof goes when its name has become a user's.
            None => !online.is_some_and(|it| access.knows(self.settings.user_of(&it.address))),
        };
        if !goes_on {
            return self.end(key, (Denial::NotAuthorized, CloseReason::AuthFailed), fx);
        }
        let Some(mut grant) = access.renew(&who) else { return };
        if grant.until_s == 0 {
            grant.until_s = session.until_s; // what came with the proof stays
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
