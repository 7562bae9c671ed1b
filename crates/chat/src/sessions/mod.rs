//! Sessions: connected devices of accounts, from login to end.
//!
//! Invariant: each session is of one account, and an account that has one is online.

mod binding;
pub(crate) mod book_orders;
pub(crate) mod detached;
mod entering;
pub(crate) mod fast;
mod following;
pub(crate) mod guests;
pub(crate) mod login;
mod rights;
pub(crate) mod transients;
pub(crate) mod uploads;

use self::detached::Resumables;
use self::transients::ToldThisMinute;
use crate::accounts::Owner;
use crate::conversations::receipts::delivered::Reach;
use crate::{Chat, Effects};
use base::slab::{Key, Slab};
use base::thin_queue::ThinQueue;
use base::time::Instant;
use model::account::AccountAddress;
use model::chat::{ChatDelivery, ClientMessageId, SessionEnd};
use model::close::CloseReason;
use model::id::{ConnRef, SessionRef};
use model::ports::access::GrantedAccount;
use model::ports::control::disconnections::{self, Parting};
use model::session::Denial;
use model::timeline::{ReaderId, Seq, TimelineId};
use std::collections::{BTreeSet, HashMap, VecDeque};

/// Sessions, and the accounts that have any.
pub(crate) struct Sessions {
    pub(crate) slab: Slab<Session>,
    pub(crate) online: HashMap<TimelineId, Box<Online>>,
    /// Sessions that are behind and have not been notified.
    pub(crate) untold: Vec<Key>,
    /// Sessions with limited rights, and when these end, Unix seconds.
    pub(crate) ending: BTreeSet<(u32, Key)>,
    /// Sessions with a position to be stored, and when.
    pub(crate) unstored: VecDeque<(Instant, Key)>,
    /// The version of the rules by which all sessions have been checked.
    pub(crate) version: u64,
    /// The walk over all sessions that follows a change of the rules: the version, and the next
    /// slot.
    pub(crate) renewing: Option<(u64, u32)>,
    /// Sessions that may outlive their connection.
    pub(crate) resumables: Resumables,
}

/// A connected device.
pub(crate) struct Session {
    pub(crate) conn: ConnRef,
    pub(crate) inbox: TimelineId,
    pub(crate) reader: ReaderId,
    pub(crate) device: Box<str>,
    /// All entries of the inbox up to here were sent to the device, or are its own.
    pub(crate) known: Seq,
    /// The device has acknowledged all entries up to here.
    pub(crate) acked: Seq,
    /// The acknowledgement is stored up to here.
    pub(crate) stored: Seq,
    pub(crate) step: Step,
    /// Pages that the device has requested and not received.
    pub(crate) readings: u8,
    /// The device gets its name after the login, and shares its account's cursor with all such
    /// devices.
    pub(crate) binds: bool,
    /// The last read of its inbox that the device requested: the low bits of the read's number.
    pub(crate) last_pull: u32,
    /// Time of the login over this connection, Unix seconds.
    pub(crate) since_s: u32,
    /// Messages that the device has sent over this connection and that are not yet in its inbox.
    pub(crate) own: ThinQueue<ClientMessageId>,
    pub(crate) version: u64,
    pub(crate) owner: Owner,
    pub(crate) account: Option<GrantedAccount>,
    pub(crate) until_s: u32,
    /// The login was by a password, or by an equivalent.
    pub(crate) by_password: bool,
    /// Transients that the device has sent in this minute.
    pub(crate) told: ToldThisMinute,
    /// A hash of the source of the login.
    pub(crate) source: u32,
}

const _: () = assert!(size_of::<Session>() <= 152, "of each device that is here");

/// Whether a device is sent entries as they come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    InStep,
    /// The device has been notified, or is about to be.
    Behind,
}

/// An account with devices that are connected or logging in.
pub(crate) struct Online {
    pub(crate) address: AccountAddress,
    /// The highest known offset of its inbox.
    pub(crate) head: Seq,
    /// The highest offset acknowledged by a device with the shared cursor.
    pub(crate) shared: Seq,
    /// Sessions, in the order of their logins.
    pub(crate) sessions: Vec<Key>,
    /// Logins whose position is being read: entries that are placed meanwhile must be counted for
    /// them.
    pub(crate) coming: u32,
    /// Messages that no device has acknowledged, and how far the devices have come.
    pub(crate) reach: Reach,
}

const _: () = assert!(size_of::<Online>() <= 80, "of each account that is here");

/// A device that has logged in.
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
    pub account: Option<GrantedAccount>,
    pub by_password: bool,
    pub owner: Owner,
    pub since_s: u32,
    pub source: u32,
}

/// The receiver of an answer: connection, session and number of the request.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Requester {
    pub conn: ConnRef,
    pub session: SessionRef,
    pub number: u32,
}

impl Requester {
    /// No receiver: the request is the service's own.
    pub(crate) const NOBODY: Requester = Requester {
        conn: ConnRef::from_bits(u64::MAX),
        session: SessionRef::from_bits(u64::MAX),
        number: 0,
    };
}

/// The origin of a request: an account's device, or an errand on its behalf.
#[derive(Clone)]
pub(crate) struct Asker {
    pub inbox: TimelineId,
    pub address: AccountAddress,
    pub device: Box<str>,
    /// An operator makes the request on the account's behalf: limits of accounts do not apply.
    pub is_operator: bool,
    /// A hash of the device's source; none: the request is not by a device that logged in here.
    pub source: Option<u32>,
}

impl Sessions {
    /// No sessions; `version` is that of the rules in force.
    pub(crate) fn new(sessions_max: usize, version: u64) -> Sessions {
        Sessions {
            slab: Slab::new(sessions_max),
            online: HashMap::new(),
            untold: Vec::new(),
            ending: BTreeSet::new(),
            unstored: VecDeque::new(),
            version,
            renewing: None,
            resumables: Resumables::default(),
        }
    }

    /// Whether no further session is possible, not even in place of a detached one.
    pub(crate) fn is_full(&self) -> bool {
        self.has_no_room() && self.resumables.next_to_end().is_none()
    }

    /// Changes the largest number of sessions.
    pub(crate) fn set_max(&mut self, sessions_max: usize) {
        self.slab.set_cap(sessions_max);
    }

    fn has_no_room(&self) -> bool {
        self.slab.len() >= self.slab.cap()
    }

    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    /// Names of an account's connected devices.
    pub(crate) fn devices(&self, inbox: TimelineId) -> Vec<Box<str>> {
        let keys = self.online.get(&inbox).map_or(&[][..], |online| &online.sessions);
        let names = keys.iter().filter_map(|&key| Some(self.slab.at(key)?.device.clone()));
        names.filter(|name| !name.is_empty()).collect()
    }

    /// Counts a login of this account: from now on entries of its inbox are tracked.
    pub(crate) fn expect(&mut self, inbox: TimelineId, address: &AccountAddress) {
        let online = || {
            Box::new(Online {
                address: address.clone(),
                head: 0,
                shared: 0,
                sessions: vec![],
                coming: 0,
                reach: Reach::default(),
            })
        };
        self.online.entry(inbox).or_insert_with(online).coming += 1;
    }

    /// Ends the count of a login that has succeeded or failed.
    pub(crate) fn expect_no_more(&mut self, inbox: TimelineId) {
        if let Some(online) = self.online.get_mut(&inbox) {
            online.coming = online.coming.saturating_sub(1);
            if online.coming == 0 && online.sessions.is_empty() {
                self.online.remove(&inbox);
            }
        }
    }

    pub(crate) fn bound(&self, from: ConnRef, session: SessionRef) -> Option<Key> {
        let key = session.key();
        self.slab.at(key).filter(|session| session.conn == from).map(|_| key)
    }

    pub(crate) fn session_of(
        &mut self,
        (conn, session): (ConnRef, SessionRef),
    ) -> Option<(Key, &mut Session)> {
        let key = self.bound(conn, session)?;
        Some((key, self.slab.at_mut(key)?))
    }

    /// Whether a device may request another page; if so, the page is counted.
    pub(crate) fn begins_to_read(&mut self, whom: (ConnRef, SessionRef), most: u8) -> bool {
        let Some((_, session)) = self.session_of(whom) else { return false };
        let may = session.readings < most;
        session.readings += u8::from(may);
        may
    }

    /// Counts a page as received or failed.
    pub(crate) fn ends_to_read(&mut self, session: SessionRef) {
        if let Some(session) = self.slab.at_mut(session.key()) {
            session.readings = session.readings.saturating_sub(1);
        }
    }

    pub(crate) fn audit(&self) {
        let all: usize = self.online.values().map(|online| online.sessions.len()).sum();
        assert_eq!(all, self.slab.len(), "each session is of one account");
        self.resumables.audit();
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
    /// Creates the session of a device that has logged in. Returns it, and the head of its inbox.
    /// `None`: no room is left.
    pub(crate) fn arrive(
        &mut self,
        arrival: Arrival,
        fx: &mut Effects,
    ) -> Option<(SessionRef, Seq)> {
        let Arrival { conn, inbox, device, cursor, until_s, binds, .. } = arrival;
        self.make_room(inbox, (&device, arrival.owner), fx);
        if self.sessions.has_no_room()
            && let Some(away) = self.sessions.resumables.next_to_end()
        {
            self.leave(away, fx);
        }
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
            known: cursor,
            acked: cursor,
            stored: cursor,
            step,
            readings: 0,
            binds,
            last_pull: 0,
            since_s: arrival.since_s,
            own: ThinQueue::default(),
            owner: arrival.owner,
            version: arrival.version,
            account: arrival.account,
            until_s,
            by_password: arrival.by_password,
            told: ToldThisMinute::default(),
            source: arrival.source,
        };
        let key = self.sessions.slab.insert(session).ok()?;
        online.sessions.reserve_exact(1);
        online.sessions.push(key);
        self.follows.comes(inbox);
        if until_s != 0 {
            self.sessions.ending.insert((until_s, key));
        }
        Some((SessionRef::new(self.settings.shard, key), head))
    }

    /// Ends sessions in favour of a new one: the session of the same device, if it is named;
    /// sessions of another owner of the account's name; and with too many, a detached one or else
    /// the oldest.
    fn make_room(&mut self, inbox: TimelineId, (device, owner): (&str, Owner), fx: &mut Effects) {
        let Some(online) = self.sessions.online.get(&inbox) else { return };
        let most = usize::from(self.settings.limits.chat.devices_an_account_max);
        let ends = |key: &&Key| {
            let session = self.sessions.slab.at(**key);
            let is_it = |name: &str| !device.is_empty() && *name == *device;
            session.is_some_and(|it| is_it(&it.device) || it.owner != owner)
        };
        let mut ended: Vec<Key> = online.sessions.iter().filter(ends).copied().collect();
        if ended.is_empty() && online.sessions.len() >= most {
            let away = online.sessions.iter().find(|key| self.sessions.resumables.is_away(**key));
            ended.extend(away.or(online.sessions.first()));
        }
        for key in ended {
            self.end(key, (Denial::TakenOver, CloseReason::Replaced), fx);
        }
    }

    /// Ends a session on behalf of the server.
    pub(crate) fn end(&mut self, key: Key, (why, reason): (Denial, CloseReason), fx: &mut Effects) {
        let Some(conn) = self.sessions.slab.at(key).map(|session| session.conn) else { return };
        fx.deliveries.push((conn, ChatDelivery::End(Box::new(SessionEnd { why, reason }))));
        self.leave(key, fx);
    }

    /// Ends all sessions of an account; returns how many.
    pub(crate) fn end_all(&mut self, inbox: TimelineId, fx: &mut Effects) -> u32 {
        let keys = self.sessions.online.get(&inbox).map(|online| online.sessions.clone());
        let keys = keys.unwrap_or_default();
        for &key in &keys {
            self.end(key, (Denial::AdminKick, CloseReason::AdminKick), fx);
        }
        keys.len() as u32
    }

    /// Ends the session that was bound to a closed connection.
    pub(crate) fn closed(&mut self, from: ConnRef, session: SessionRef, fx: &mut Effects) {
        if let Some(key) = self.sessions.bound(from, session) {
            self.leave(key, fx);
        }
    }

    /// Reports the disconnection of a session.
    pub(crate) fn part(&self, key: Key, fx: &mut Effects) {
        let Some(session) = self.sessions.slab.at(key) else { return };
        let Some(online) = self.sessions.online.get(&session.inbox) else { return };
        if self.sessions.resumables.is_away(key) {
            return;
        }
        fx.partings.push(Parting {
            conn: session.conn,
            client: disconnections::cut(&session.device).into(),
            product: None,
            user: Some(online.address.as_str().into()),
            peer: None,
            since_ms: u64::from(session.since_s) * 1_000,
            detail: "",
        });
    }

    fn leave(&mut self, key: Key, fx: &mut Effects) {
        self.part(key, fx);
        self.store_place(key, fx);
        let Some(session) = self.sessions.slab.remove(key) else { return };
        self.sessions.ending.remove(&(session.until_s, key));
        self.leaves_people(key, session.inbox, fx);
        self.leaves_chatrooms(key);
        self.takes_back_directed(key, (session.inbox, &session.device), fx);
        self.looks.leaves(key, (session.inbox, self.settings.shard));
        let was = (SessionRef::new(self.settings.shard, key), session.inbox);
        let wanted = self.sessions.resumables.forget(key, Some(was));
        wanted.into_iter().for_each(|whom| self.not_resumed(whom, None, fx));
        self.pushes.leaves(session.inbox);
        if let Some(online) = self.sessions.online.get_mut(&session.inbox) {
            online.sessions.retain(|other| *other != key);
            if online.sessions.is_empty() && online.coming == 0 {
                self.sessions.online.remove(&session.inbox);
                self.follows.is_due(session.inbox);
                self.leaves_guest(session.inbox);
            }
        }
    }

    /// The user that a session has authenticated as: a login with a proof proved the account's
    /// name.
    pub(crate) fn user_of_session(&self, session: &Session) -> Option<&str> {
        let online = self.sessions.online.get(&session.inbox)?;
        (session.owner != Owner::Nobody).then(|| self.settings.user_of(&online.address))
    }

    /// The account and device of a session, if it is bound to this connection.
    pub(crate) fn asker(&self, from: ConnRef, session: SessionRef) -> Option<Asker> {
        if self.is_errand(from) {
            return self.asker_of_errand(session);
        }
        let key = self.sessions.bound(from, session)?;
        let session = self.sessions.slab.at(key)?;
        let online = self.sessions.online.get(&session.inbox)?;
        Some(Asker {
            inbox: session.inbox,
            address: online.address.clone(),
            device: session.device.clone(),
            is_operator: false,
            source: Some(session.source),
        })
    }

    /// Sends an answer to a session, if it still exists, over its present connection.
    pub(crate) fn answer_session(
        &mut self,
        (conn, session): (ConnRef, SessionRef),
        delivery: ChatDelivery,
        fx: &mut Effects,
    ) {
        if self.is_errand(conn) {
            return self.answer_errand(session, delivery, fx);
        }
        if let Some(session) = self.sessions.slab.at(session.key()) {
            fx.deliveries.push((session.conn, delivery));
        }
    }
}
