//! Seats: sessions of this shard that are in chatrooms.
//!
//! ```text
//!  Join ─► asked ─► Joined: seated ─► Said ─► handed on, or missed ─► count sent, once a while
//!                                       │                    ▲
//!                                       └ the machine says that the device does not read
//! ```
//! A seat ends with its session; a detached session without a connection misses messages, and is
//! notified of that when it is back. No message waits for a single seat: a device that does not
//! read costs a number. Invariant: the messages that a seat was handed and those that it missed are
//! all since it was taken; the home eventually gets the number of seats.

use super::handing::Untold;
use super::row::By;
use super::words::{ChatroomWord, JoinAsked};
use crate::service::flow::Flow;
use crate::sessions::Requester;
use crate::word::{PeerReply, PeerRequest};
use crate::{Chat, Effects};
use base::slab::Key;
use base::time::{Instant, Now};
use model::account::{AccountAddress, Addressee};
use model::chat::{
    ChatDelivery, ChatFault, ChatroomAsk, ChatroomJoined, ChatroomNews, ChatroomRequest,
};
use model::counters::ChatCounter;
use model::id::ConnRef;
use model::pressure::Pressure;
use model::timeline::{Seq, TimelineId};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Pauses after which a shard reports its number of sessions even if that has not changed.
pub(super) const HERE_PAUSES: u32 = 10;

/// The version of every list of members: it stands for no state, so a list never begins anew.
pub(super) const LIST_VERSION: u64 = 1;

/// Maximum of joins that wait for homes, per shard. A further one is answered as busy.
const JOINS_MAX: usize = 65_536;

/// Chatrooms with sessions of this shard.
#[derive(Default)]
pub(crate) struct Seats {
    pub(super) rooms: HashMap<TimelineId, Hall>,
    /// The rooms that a session is in, or has asked to be.
    of: HashMap<Key, Vec<TimelineId>>,
    /// The number of joins that wait for homes.
    joins: usize,
    /// Rooms with messages that their sessions have not got, in the order of their turns.
    pub(super) line: VecDeque<TimelineId>,
    /// Bytes of the messages that wait there.
    pub(super) untold_bytes: usize,
    /// The times at which a report is due for a room: to its home, or to sessions that missed
    /// messages.
    due: BTreeSet<(Instant, TimelineId)>,
}

/// The sessions of this shard in one room.
pub(super) struct Hall {
    pub(super) room: AccountAddress,
    pub(super) seats: BTreeMap<Key, Seat>,
    /// The number of joins that wait for the home.
    joining: u32,
    /// The place of the last message of which the shard knows.
    pub(super) heard: Seq,
    pub(super) untold: Untold,
    /// The number of the last account that was removed.
    pub(super) outs: u64,
    /// The number of sessions that was last reported to the home.
    pub(super) told: u32,
    pub(super) told_at: Instant,
    due: Instant,
    /// The number of seats that are behind.
    pub(super) behind: u32,
    pub(super) news: Option<Arc<ChatroomNews>>,
}

/// A session in a room.
pub(super) struct Seat {
    pub(super) conn: ConnRef,
    /// The last message that the seat was handed, or misses.
    pub(super) had: Seq,
    /// The number of missed messages of which the session has not been notified.
    pub(super) missed: u32,
    /// The device does not read, and is notified of missed messages when the pause is over.
    pub(super) behind: bool,
    /// The session has no connection.
    pub(super) away: bool,
}

/// Joins a session to a room, or asks for the room's last messages once more. `is_new`: the session
/// has no seat yet, and is counted among those that wait for one.
async fn join(
    mut flow: Flow,
    wait: Requester,
    (timeline, is_new): (TimelineId, bool),
    asked: Box<JoinAsked>,
) {
    let (chat, _, _) = flow.state();
    chat.chatrooms.seats.joins += 1;
    let home = chat.settings.shard_at(timeline);
    let result = match flow.request(home, PeerRequest::Join(asked)).await {
        Ok(PeerReply::Joined(joined)) => Ok(joined),
        Ok(_) => Err(ChatFault::Busy),
        Err(fault) => Err(fault),
    };
    let (chat, _, fx) = flow.state();
    chat.chatrooms.seats.joins -= 1;
    chat.chatroom_joined(wait, (timeline, is_new), result, fx);
}

impl Seats {
    /// The number of sessions that are in a room, or have asked to be.
    pub(super) fn sessions(&self) -> usize {
        self.of.len()
    }
}

impl Hall {
    fn new(room: AccountAddress) -> Hall {
        Hall {
            room,
            seats: BTreeMap::new(),
            joining: 0,
            heard: 0,
            untold: Untold::default(),
            outs: 0,
            told: 0,
            told_at: Instant::default(),
            due: Instant::default(),
            behind: 0,
            news: None,
        }
    }

    pub(super) fn here(&self) -> u32 {
        self.seats.len() as u32 + self.joining
    }
}

impl Chat {
    /// Takes a device's request about a chatroom.
    pub(crate) fn chatroom(&mut self, from: ConnRef, request: ChatroomRequest, fx: &mut Effects) {
        let ChatroomRequest { session, number, ask } = request;
        let Some(asker) = self.asker(from, session) else { return };
        let wait = Requester { conn: from, session, number };
        let is_operator = asker.is_operator;
        let by = By { address: asker.address, inbox: asker.inbox, is_operator };
        match ask {
            ChatroomAsk::Order(order) => self.chatroom_order((wait, by), order, fx),
            ChatroomAsk::Join { room, history } => {
                self.join_chatroom((wait, by), (&room, history), fx);
            }
            ChatroomAsk::Leave(room) => self.leave_chatroom((wait, &by), &room, fx),
        }
    }

    fn join_chatroom(
        &mut self,
        (wait, by): (Requester, By),
        (room, history): (&Addressee, u16),
        fx: &mut Effects,
    ) {
        let limits = &self.settings.limits.chat;
        let Some(room) = room.chatroom_within(by.address.domain()) else {
            return self.refuse_chatroom_ask(wait, ChatFault::NoChatroom, fx);
        };
        let Some(key) = self.sessions.bound(wait.conn, wait.session) else {
            // An errand has no session that could be in a room.
            return self.refuse_chatroom_ask(wait, ChatFault::Invalid, fx);
        };
        let (timeline, _) = self.chatroom_at(&room);
        let is_busy = self.flows.is_full() || self.pressure >= Pressure::Stores;
        let seats = &mut self.chatrooms.seats;
        let of = seats.of.entry(key).or_default();
        let is_full =
            !of.contains(&timeline) && of.len() >= usize::from(limits.chatrooms_a_session_max);
        if is_full || is_busy || seats.joins >= JOINS_MAX {
            let why = if is_full { ChatFault::ChatroomsFull } else { ChatFault::Busy };
            self.forget_seatless(key);
            return self.refuse_chatroom_ask(wait, why, fx);
        }
        if !of.contains(&timeline) {
            of.push(timeline);
        }
        let hall = seats.rooms.entry(timeline).or_insert_with(|| Hall::new(room.clone()));
        let is_new = !hall.seats.contains_key(&key);
        hall.joining += u32::from(is_new);
        let asked = Box::new(JoinAsked { room, by, history, is_new });
        self.begin(|flow| join(flow, wait, (timeline, is_new), asked));
    }

    /// Takes the home's answer to a join.
    fn chatroom_joined(
        &mut self,
        wait: Requester,
        (timeline, is_new): (TimelineId, bool),
        result: Result<Box<ChatroomJoined>, ChatFault>,
        fx: &mut Effects,
    ) {
        let key = wait.session.key();
        let session = self.sessions.slab.at(key);
        let conn = session.map(|session| session.conn);
        let away = self.sessions.resumables.is_away(key);
        let Some(hall) = self.chatrooms.seats.rooms.get_mut(&timeline) else {
            // The session was in the room, and has left meanwhile.
            return self.refuse_chatroom_ask(wait, ChatFault::Busy, fx);
        };
        hall.joining -= u32::from(is_new);
        if !is_new && !hall.seats.contains_key(&key) {
            return self.refuse_chatroom_ask(wait, ChatFault::Busy, fx); // it has left
        }
        // The home has counted the session: it gets the number of sessions again, whatever came in
        // between.
        hall.told = u32::MAX;
        let (mut joined, conn) = match (result, conn) {
            (Ok(joined), Some(conn)) => (joined, conn),
            (result, _) => {
                self.stays_out(key, timeline);
                let why = result.err().unwrap_or(ChatFault::Busy);
                return self.refuse_chatroom_ask(wait, why, fx);
            }
        };
        hall.hears_up_to(joined.state.head);
        // A session that joins once more misses its waiting messages, except those in the history
        // it gets.
        let missed = hall.gives_up(key);
        fx.counters.count_by(ChatCounter::ChatroomMissed, missed.into());
        let seat = || Seat { conn, had: joined.state.head, missed: 0, behind: false, away };
        hall.seats.entry(key).or_insert_with(seat);
        let of = self.chatrooms.seats.of.entry(key).or_default();
        if !of.contains(&timeline) {
            of.push(timeline);
        }
        joined.number = wait.number;
        fx.counters.count(ChatCounter::ChatroomJoins);
        self.answer_session((wait.conn, wait.session), ChatDelivery::ChatroomJoined(joined), fx);
        self.stands_in_line(timeline);
        self.hall_is_due(timeline);
    }

    /// Ends a join that has failed; a seat that was taken before stays.
    fn stays_out(&mut self, key: Key, timeline: TimelineId) {
        match self.is_seated(key, timeline) {
            true => self.hall_is_due(timeline),
            false => self.unseat(key, timeline),
        }
    }

    fn leave_chatroom(&mut self, (wait, by): (Requester, &By), room: &Addressee, fx: &mut Effects) {
        let room = room.chatroom_within(by.address.domain());
        let timeline = room.map(|room| self.chatroom_at(&room).0);
        let key = self.sessions.bound(wait.conn, wait.session);
        let (Some(timeline), Some(key)) = (timeline, key) else {
            return self.refuse_chatroom_ask(wait, ChatFault::NotInChatroom, fx);
        };
        if !self.is_seated(key, timeline) {
            return self.refuse_chatroom_ask(wait, ChatFault::NotInChatroom, fx);
        }
        self.tell_of_missed(key, timeline, fx);
        self.unseat(key, timeline);
        let told = ChatDelivery::Done { number: wait.number };
        self.answer_session((wait.conn, wait.session), told, fx);
    }

    pub(super) fn is_seated(&self, key: Key, timeline: TimelineId) -> bool {
        let hall = self.chatrooms.seats.rooms.get(&timeline);
        hall.is_some_and(|hall| hall.seats.contains_key(&key))
    }

    /// Removes a session from a room, or from those that wait to join it.
    pub(super) fn unseat(&mut self, key: Key, timeline: TimelineId) {
        let seats = &mut self.chatrooms.seats;
        if let Some(hall) = seats.rooms.get_mut(&timeline)
            && let Some(seat) = hall.seats.remove(&key)
        {
            hall.behind -= u32::from(seat.behind);
        }
        if let Some(of) = seats.of.get_mut(&key) {
            of.retain(|it| *it != timeline);
        }
        self.forget_seatless(key);
        self.hall_is_due(timeline);
    }

    fn forget_seatless(&mut self, key: Key) {
        let of = &mut self.chatrooms.seats.of;
        if of.get(&key).is_some_and(Vec::is_empty) {
            of.remove(&key);
        }
    }

    pub(super) fn tell_home(
        &mut self,
        now: Now,
        timeline: TimelineId,
        (room, here, heard, outs): (AccountAddress, u32, Seq, u64),
        fx: &mut Effects,
    ) {
        let home = self.settings.shard_at(timeline);
        let word = ChatroomWord::Here { room, here, heard, outs };
        self.tell_chatroom(now, home, word, fx);
    }

    /// Schedules the next report about a room, when the pause since the last is over; a report that
    /// the last session has left is sent at once.
    pub(super) fn hall_is_due(&mut self, timeline: TimelineId) {
        let pause = Duration::from_millis(self.settings.limits.chat.chatroom_pause_ms.into());
        let seats = &mut self.chatrooms.seats;
        let Some(hall) = seats.rooms.get_mut(&timeline) else { return };
        let is_new = hall.here() != hall.told || hall.behind > 0;
        let pauses = if is_new { 1 } else { HERE_PAUSES };
        let at = hall.told_at + pause * pauses;
        seats.due.remove(&(hall.due, timeline));
        hall.due = if hall.here() == 0 { Instant::default() } else { at };
        seats.due.insert((hall.due, timeline));
    }

    /// Removes a session that has ended from its rooms.
    pub(crate) fn leaves_chatrooms(&mut self, key: Key) {
        let of = self.chatrooms.seats.of.get(&key).cloned().unwrap_or_default();
        of.into_iter().for_each(|timeline| self.unseat(key, timeline));
    }

    /// Updates the connection of a session in its rooms: it was lost, or replaced.
    pub(crate) fn moves_in_chatrooms(&mut self, key: Key, conn: Option<ConnRef>) {
        let of = self.chatrooms.seats.of.get(&key).cloned().unwrap_or_default();
        for timeline in of {
            if let Some(hall) = self.chatrooms.seats.rooms.get_mut(&timeline) {
                // The session gets the present state, whether or not it missed messages.
                hall.skips(key, 0);
                if let Some(seat) = hall.seats.get_mut(&key) {
                    (seat.conn, seat.away) = (conn.unwrap_or(seat.conn), conn.is_none());
                }
            }
            self.hall_is_due(timeline);
        }
    }

    /// Reports to homes how many sessions are here, and to sessions what they missed; returns when
    /// to continue.
    pub(super) fn turn_seats(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        while let Some(&(at, timeline)) = self.chatrooms.seats.due.first() {
            if at > now.mono {
                return Some(at);
            }
            self.chatrooms.seats.due.pop_first();
            self.tell_of_hall(now, timeline, fx);
        }
        None
    }

    pub(super) fn audit_seats(&self) {
        let seats = &self.chatrooms.seats;
        let waits: usize = seats.rooms.values().map(|hall| hall.untold.bytes()).sum();
        assert_eq!(waits, seats.untold_bytes);
        for (timeline, hall) in &seats.rooms {
            let behind = hall.seats.values().filter(|seat| seat.behind).count();
            assert_eq!(behind, hall.behind as usize);
            for key in hall.seats.keys() {
                assert!(self.sessions.slab.at(*key).is_some(), "a seat is gone with its session");
                assert!(seats.of.get(key).is_some_and(|of| of.contains(timeline)));
            }
            assert!(seats.due.contains(&(hall.due, *timeline)) || hall.joining > 0);
        }
        assert!(seats.of.values().all(|of| !of.is_empty()));
    }
}
