//! Entering a room, and leaving it (XEP-0045 7.2, 7.14).
//!
//! ```text
//! History ──► Members (a page) ──► occupants, oneself, what was said, the title
//!    │ ▲ no member
//!    ▼ │ made
//! Making (whoever enters a room that is not there makes it)
//!    │ ▲ it is there
//!    ▼ │ joined
//! Joining (a room that is unlocked: whoever enters becomes a member)
//! ```
//! Invariant: what is written of a room has all that its conversation has up to the history's end,
//! and what comes behind that follows from the inbox, which waits meanwhile. A change of the group
//! between history and members is shown twice, and never missed.

use super::listing::name_of;
use super::occupants::{Gone, Occupant, account_of};
use super::shows::{self, Shows};
use super::walk::Walk;
use super::{MUC, Room, RoomAnswer, RoomAsk, RoomRequest, RoomWhat, Step, fault_of};
use crate::fault::StanzaFault;
use crate::jid::Jid;
use crate::moment::moment;
use crate::render::room::put_subject;
use crate::server::Out;
use crate::server::session::Session;
use crate::stanza::{ID_BYTES_MAX, kind};
use crate::xml::scan::Element;
use base::time::Now;
use model::account::AccountAddress;
use model::chat::{
    ChatFault, ChatMessage, GroupLook, GroupRole, GroupVerb, HistoryRange, MemberShow, MemberStatus,
};
use model::counters::ChatCounter;
use model::timeline::Seq;
use std::sync::Arc;

/// Messages of a room's history that are shown, unless fewer are wanted.
const HISTORY_DEFAULT: u16 = 20;

/// Most messages of a history that are shown.
const HISTORY_MAX: u16 = 50;

/// Bytes of a history after which no older message is shown.
const HISTORY_BYTES_MAX: usize = 64 * 1024;

/// State of a session that is entering a room.
pub(super) struct Entering {
    pub(super) walk: Walk,
    stage: Stage,
    /// The name it wants in the room.
    pub(super) nick: Box<str>,
    wished: Wished,
    /// The end of the conversation; it comes newest first.
    said: Vec<Arc<ChatMessage>>,
    /// Whether the entering account may make it.
    may_make: bool,
    /// The room was not there before.
    pub(super) is_made: bool,
    /// Whether the room existed, and the account has become a member.
    pub(super) has_joined: bool,
    /// Whether it left before it was in.
    pub(super) is_left: bool,
    /// How it says that it is there.
    pub(super) show: MemberShow,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    History,
    Making,
    Joining,
    Members,
}

/// Part of the history that the client wants (7.2.15).
pub(super) struct Wished {
    stanzas: u16,
    bytes: usize,
    /// Earliest time of messages: in seconds before now, and in Unix milliseconds.
    seconds: Option<u64>,
    since_ms: Option<u64>,
}

impl Wished {
    /// Reads the part from the presence.
    pub(super) fn of(presence: &Element<'_, '_>) -> Wished {
        let history = presence.child("x", MUC).and_then(|x| x.child("history", MUC));
        let number = |name: &str| {
            let value = history.and_then(|history| history.attribute(name))?;
            value.trim().parse::<u64>().ok()
        };
        let stanzas = number("maxstanzas").unwrap_or(HISTORY_DEFAULT.into());
        let bytes = number("maxchars").map_or(usize::MAX, |it| it.try_into().unwrap_or(usize::MAX));
        let since = history.and_then(|history| history.attribute("since"));
        Wished {
            stanzas: stanzas.min(HISTORY_MAX.into()) as u16,
            bytes: bytes.min(HISTORY_BYTES_MAX),
            seconds: number("seconds"),
            since_ms: since.and_then(|it| moment(&it)).map(|it| it.ceil_ms),
        }
    }

    /// Number of messages.
    pub(super) fn stanzas(&self) -> u16 {
        self.stanzas
    }

    pub(super) fn wants(&self, now_ms: u64, message: &ChatMessage) -> bool {
        let is_young =
            |seconds: u64| message.at_ms >= now_ms.saturating_sub(seconds.saturating_mul(1_000));
        self.seconds.is_none_or(is_young) && self.since_ms.is_none_or(|it| message.at_ms >= it)
    }
}

impl Entering {
    /// Begins to enter; a session that may create no rooms joins a group only if it is unlocked.
    pub(super) fn new(
        room: &AccountAddress,
        nick: &str,
        presence: &Element<'_, '_>,
        may_make: bool,
    ) -> Entering {
        Entering {
            walk: Walk::new(room.clone()),
            stage: Stage::History,
            nick: nick.into(),
            wished: Wished::of(presence),
            said: Vec::new(),
            // A channel is made in IM.
            may_make: may_make && !room.is_channel(),
            is_made: false,
            has_joined: false,
            is_left: false,
            show: shows::shown(presence).unwrap_or_default(),
        }
    }

    /// The place that the last of what was said has.
    pub(super) fn place(&self) -> Seq {
        self.said.iter().map(|message| message.seq).max().unwrap_or(0)
    }

    /// The end of what was said, as much of it as is wanted and has room, as `put` writes it; it
    /// comes newest first.
    pub(super) fn history(
        &self,
        now_ms: u64,
        put: impl Fn(&ChatMessage, &mut Vec<u8>) -> bool,
    ) -> Vec<Vec<u8>> {
        let (wished, mut stanzas, mut bytes) = (&self.wished, Vec::new(), 0);
        for message in self.said.iter().take(wished.stanzas.into()) {
            let mut stanza = Vec::new();
            if !wished.wants(now_ms, message) || !put(message, &mut stanza) {
                continue;
            }
            bytes += stanza.len();
            if bytes > wished.bytes && !(stanzas.is_empty() && wished.bytes == HISTORY_BYTES_MAX) {
                break;
            }
            stanzas.push(stanza);
        }
        stanzas.reverse();
        stanzas
    }

    /// Whether what the inbox has waits: it is shown behind the history.
    pub(super) fn holds_inbox(&self) -> bool {
        !matches!(self.stage, Stage::Making | Stage::Joining)
    }

    pub(super) fn request(&self) -> RoomRequest {
        let room = &self.walk.room;
        match self.stage {
            Stage::Members => self.walk.request(),
            Stage::Making => RoomRequest::Order {
                group: room.clone(),
                verb: GroupVerb::Create,
                title: room.name().into(),
                members: Vec::new(),
            },
            Stage::Joining => RoomRequest::Order {
                group: room.clone(),
                verb: GroupVerb::Join,
                title: Box::default(),
                members: Vec::new(),
            },
            Stage::History => RoomRequest::History(HistoryRange {
                with: room.clone().into(),
                from: Seq::MAX,
                backwards: true,
                // At the least the last: behind it the inbox follows.
                count: self.wished.stanzas.max(1),
            }),
        }
    }

    pub(super) fn take(&mut self, own: &str, answer: RoomAnswer<'_>) -> Step {
        if self.is_left {
            return Step::Done;
        }
        match (self.stage, answer) {
            (Stage::History, RoomAnswer::History(page)) => {
                (self.stage, self.said) = (Stage::Members, page.messages.clone());
                Step::Ask
            }
            (Stage::History, RoomAnswer::Failed(ChatFault::NotMember))
                if !self.is_made && !self.has_joined =>
            {
                self.stage = if self.may_make { Stage::Making } else { Stage::Joining };
                Step::Ask
            }
            (Stage::Making, RoomAnswer::Changed) => {
                (self.stage, self.is_made) = (Stage::History, true);
                Step::Ask
            }
            (Stage::Members, RoomAnswer::Members(page)) => {
                let is_own = |it: &MemberStatus| it.member.address.as_str() == own;
                // The first page has as many as are shown, and oneself, wherever that stands.
                if let Err(fault) = self.walk.take(page, |_, _| true) {
                    return Step::Refused(fault);
                }
                self.walk.found.extend(page.own.as_deref().cloned());
                match self.walk.found.iter().any(is_own) {
                    true => Step::Done,
                    false => Step::Refused(StanzaFault::RegistrationRequired),
                }
            }
            // It is another's, or a name that is taken for good; or the account makes none now, and
            // may find one that is there.
            (
                Stage::Making,
                RoomAnswer::Failed(
                    ChatFault::Conflict | ChatFault::GroupsFull | ChatFault::RateLimited,
                ),
            ) => {
                self.stage = Stage::Joining;
                Step::Ask
            }
            // Another device of the account was quicker.
            (Stage::Joining, RoomAnswer::Changed | RoomAnswer::Failed(ChatFault::Unchanged)) => {
                (self.stage, self.has_joined) = (Stage::History, true);
                Step::Ask
            }
            // Whoever subscribes to a channel is shown itself alone.
            (Stage::Members, RoomAnswer::Failed(ChatFault::Forbidden))
                if self.walk.room.is_channel() =>
            {
                self.walk.is_channel();
                Step::Done
            }
            // For members alone (7.2.6).
            (_, RoomAnswer::Failed(ChatFault::NotMember)) if self.walk.room.is_channel() => {
                Step::Refused(StanzaFault::ItemNotFound)
            }
            (_, RoomAnswer::Failed(ChatFault::NotMember)) => {
                Step::Refused(StanzaFault::RegistrationRequired)
            }
            (_, RoomAnswer::Failed(why)) => Step::Refused(fault_of(why)),
            _ => Step::Refused(StanzaFault::ResourceConstraint),
        }
    }
}

impl Session {
    /// Presence for a room, or for somebody in it.
    pub(in crate::server) fn presence_in_room(
        &mut self,
        now: Now,
        (jid, rooms_max): (&Jid, u16),
        presence: &Element<'_, '_>,
        out: &mut Out,
    ) {
        let (id, to) = (presence.attribute("id"), presence.attribute("to"));
        let about = (id.as_deref().filter(|id| id.len() <= ID_BYTES_MAX), to.as_deref());
        let is_leaving = kind(presence) == "unavailable";
        let (Some(room), Some(nick)) = (&jid.account, &jid.resource) else {
            if let (Some(room), true) = (&jid.account, is_leaving) {
                self.leaves(room, out);
            } else if !is_leaving {
                // Neither the service nor a room without a name in it is entered (7.2.1).
                self.entry_makes_no_sense(about, StanzaFault::JidMalformed, out);
            }
            return;
        };
        if is_leaving {
            return self.leaves(room, out);
        }
        let is_in = self.room(room).is_some();
        let Ok(show) = shows::shown(presence) else {
            return self.entry_makes_no_sense(about, StanzaFault::PolicyViolation, out);
        };
        if presence.child("x", MUC).is_none() {
            // One's own name is that of the account, and nobody takes another (7.6).
            if !is_in || **nick != *self.own_nick(room) {
                return self.entry_makes_no_sense(about, StanzaFault::NotAcceptable, out);
            }
            return self.looks_at(room, GroupLook::Shows(show), out);
        }
        if !self.has(Session::AVAILABLE) {
            return self.entry_makes_no_sense(about, StanzaFault::UnexpectedRequest, out);
        }
        let rooms = self.rooms();
        let entering = rooms.asks.iter().filter(|ask| matches!(ask.what, RoomWhat::Enter(_)));
        if !is_in && rooms.entered.len() + entering.count() >= rooms_max.into() {
            return self.refuse_entry(about, StanzaFault::PolicyViolation, out);
        }
        // Before it reads anything there: a temporary room that it finds stays.
        self.looks_at(room, GroupLook::Begins, out);
        let entering = Entering::new(room, nick, presence, true);
        let what = RoomWhat::Enter(Box::new(entering));
        let (id, to) = (about.0.map(Box::from), to.unwrap_or_default().as_ref().into());
        self.ask_room(now, RoomAsk { stanza: "presence", id, to, what, place: None }, out);
    }

    fn entry_makes_no_sense(
        &mut self,
        about: (Option<&str>, Option<&str>),
        fault: StanzaFault,
        out: &mut Out,
    ) {
        out.count(ChatCounter::Invalid);
        self.refuse_entry(about, fault, out);
    }

    /// The room is entered: what is to be seen of it is written, in the order of 7.1.
    pub(super) fn enters(
        &mut self,
        now: Now,
        entering: Entering,
        about: (Option<&str>, Option<&str>),
        out: &mut Out,
    ) {
        if out.backlog() > out.backlog_max() {
            self.looks_away(&entering.walk.room, out);
            return self.refuse_entry(about, StanzaFault::ResourceConstraint, out);
        }
        let history = entering.history(now.wall_ms, |it, out| self.put_in_room(it, true, out));
        let place = entering.place();
        let Entering { walk, nick, is_made, show, .. } = entering;
        let own = account_of(self.account(), self.domain());
        let is_own = |it: &&MemberStatus| Some(&it.member.address) == own.as_ref();
        for member in walk.found.iter().filter(|it| !is_own(it)) {
            self.write_occupant(Occupant::of(&walk, member), ("", ""), out);
        }
        let mut told = "<status code='100'/><status code='110'/>".to_owned();
        if is_made {
            told.push_str("<status code='201'/>");
        }
        if *nick != *self.own_nick(&walk.room) {
            told.push_str("<status code='210'/>");
        }
        let (mut role, mut is_muted) = (GroupRole::Member, false);
        if let Some(member) = walk.found.iter().find(is_own) {
            (role, is_muted) = (member.role, member.muted);
            self.write_occupant(Occupant::of(&walk, member), ("", &told), out);
        } else if let Some(account) = &own {
            // Whoever subscribes to a channel is on no list that it may read.
            let (room, is_silent, show) = (&walk.room, true, None);
            let occupant = Occupant { room, account, role, is_silent, show };
            self.write_occupant(occupant, ("", &told), out);
        }
        for stanza in history {
            out.bytes().extend_from_slice(&stanza);
            self.counts_sent(out);
        }
        let is_hidden = walk.room.is_channel() && walk.title.is_empty();
        let title = if is_hidden { name_of(&walk.room, &walk.title) } else { &walk.title };
        self.write_subject(&walk.room, (None, title), out);
        let (address, is_closed) = (walk.room.clone(), walk.is_closed);
        let (is_unlocked, shows) = (walk.is_unlocked, Shows::of(&walk.found));
        let room = Room { address, place, role, is_muted, is_closed, is_unlocked, shows };
        let rooms = self.rooms();
        match rooms.at(&walk.room) {
            Some(it) => *it = room,
            None => rooms.entered.push(room),
        }
        // It has said so before it read; that may have been lost.
        let look = if show.is_plain() { GroupLook::Begins } else { GroupLook::Shows(show) };
        self.looks_at(&walk.room, look, out);
    }

    /// The title of a room (8.1), and who gave it.
    pub(super) fn write_subject(
        &mut self,
        room: &AccountAddress,
        (by, title): (Option<&str>, &str),
        out: &mut Out,
    ) {
        put_subject(self.jid(), (room, by), title, out.bytes());
        self.counts_sent(out);
    }

    /// The session leaves a room, or was about to enter it. It is a member still.
    fn leaves(&mut self, room: &AccountAddress, out: &mut Out) {
        let Some(rooms) = self.busy.as_mut().and_then(|busy| busy.rooms.as_mut()) else { return };
        let at = rooms.entered.iter().position(|it| it.address == *room);
        let room_left = at.map(|at| rooms.entered.remove(at));
        let role = room_left.as_ref().map(|it| it.role);
        let mut was_entering = false;
        for ask in &mut rooms.asks {
            if let RoomWhat::Enter(entering) = &mut ask.what
                && entering.walk.room == *room
            {
                was_entering |= !entering.is_left;
                entering.is_left = true;
            }
        }
        let own = account_of(self.account(), self.domain());
        if let Some(own) = own.filter(|_| role.is_some() || was_entering) {
            let role = role.unwrap_or(GroupRole::Member);
            self.write_gone((room, &own), Gone::Away(role), out);
        }
        if room_left.is_some() || was_entering {
            self.looks_away(room, out);
        }
    }

    /// The session is not there any more, or wants no messages: it leaves all rooms.
    pub(in crate::server) fn leaves_rooms(&mut self, out: &mut Out) {
        let Some(rooms) = self.busy.as_ref().and_then(|busy| busy.rooms.as_ref()) else { return };
        let entering = rooms.asks.iter().filter_map(|ask| match &ask.what {
            RoomWhat::Enter(entering) => Some(&entering.walk.room),
            _ => None,
        });
        let all = rooms.entered.iter().map(|it| &it.address).chain(entering);
        for room in all.cloned().collect::<Vec<_>>() {
            self.leaves(&room, out);
        }
        self.leaves_all_live(out);
    }
}
