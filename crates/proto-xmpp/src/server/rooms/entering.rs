//! Entering a room, and leaving it (XEP-0045 7.2, 7.14).
//!
//! ```text
//! Entering (a seat, and who is there) ──► History ──► occupants, oneself, what was said, the title
//!    │ ▲ no such room, or not for this account
//!    ▼ │ made
//! Making (whoever enters a room that is not there makes it; its first form opens it)
//!    │ ▲ it is there
//!    ▼ │ joined
//! Joining (an account that was invited becomes a member)
//! ```
//! A channel has no occupants: an account that enters one subscribes (Joining), and is shown
//! itself.
//! Invariant: what is written of a room has all that its conversation has up to the history's end,
//! and what comes behind that follows from the inbox, which waits meanwhile, and from news, which
//! are kept meanwhile.

use super::listing::name_of;
use super::news::{self, MISSED_MAX};
use super::occupants::Reader;
use super::walk::Walk;
use super::{MUC, OccupancyAsk, Room, RoomAnswer, RoomAsk, RoomRequest, RoomWhat, Step, fault_of};
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
    ChatFault, ChatMessage, Entry, GroupRole, GroupVerb, HistoryRange, Occupant, OccupantShow,
    ROOM_PASSWORD_BYTES_MAX, RoomEntered, RoomEvent, RoomExit, RoomNews, nick_of,
};
use model::counters::ChatCounter;
use model::limits::ChatLimits;
use model::timeline::Seq;
use std::sync::Arc;

/// Messages of a room's history that are shown, unless fewer are wanted.
const HISTORY_DEFAULT: u16 = 20;

/// Most messages of a history that are shown.
const HISTORY_MAX: u16 = 50;

/// Messages that are read besides those that are wanted, in place of some that are not shown.
const HISTORY_UNSHOWN: u16 = 20;

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
    /// Whether the entering account may make it, and what it becomes by its first form.
    makes: Option<NewRoom>,
    /// The room was not there before.
    pub(super) is_made: bool,
    /// Whether the room existed, and the account has become a member.
    pub(super) has_joined: bool,
    /// Whether it left before it was in.
    pub(super) is_left: bool,
    /// How it says that it is there.
    pub(super) show: OccupantShow,
    /// The password that it gives (7.2.5). None is longer than that of a room may be.
    password: Option<Box<str>>,
    /// Occupants, once the device has its seat.
    pub(super) entered: Option<Box<RoomEntered>>,
    /// News of the room since.
    pub(super) missed: Vec<Arc<RoomNews>>,
}

/// Settings of a room that was just made, for when its maker answers its first form, where the form
/// does not say otherwise (10.1). Until then only members enter it.
#[derive(Clone, Copy)]
pub(super) struct NewRoom {
    pub(super) is_open: bool,
    pub(super) is_public: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Entering,
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
    /// Begins to enter, with what the presence shows. A session that may make rooms has the limits
    /// that say how they are made.
    pub(super) fn new(
        room: &AccountAddress,
        nick: &str,
        (presence, show): (&Element<'_, '_>, OccupantShow),
        may_make: Option<&ChatLimits>,
    ) -> Entering {
        let makes = |limits: &ChatLimits| NewRoom {
            is_open: limits.rooms_open,
            is_public: limits.rooms_public,
        };
        Entering {
            walk: Walk::new(room.clone()),
            stage: if room.is_channel() { Stage::History } else { Stage::Entering },
            nick: nick.into(),
            wished: Wished::of(presence),
            said: Vec::new(),
            // A channel is made in IM.
            makes: may_make.filter(|_| !room.is_channel()).map(makes),
            is_made: false,
            has_joined: false,
            is_left: false,
            show,
            password: password_of(presence),
            entered: None,
            missed: Vec::new(),
        }
    }

    /// Keeps news of the room, which are shown behind the history.
    pub(super) fn misses(&mut self, news: &Arc<RoomNews>) {
        if self.missed.len() <= MISSED_MAX {
            self.missed.push(news.clone());
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
        for message in &self.said {
            let mut stanza = Vec::new();
            if stanzas.len() >= wished.stanzas.into() {
                break;
            }
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
            Stage::Entering => {
                let (nick, show) = (self.nick.clone(), self.show.clone());
                let (password, makes) = (self.password.clone(), self.is_made);
                let entry = Box::new(Entry { nick, show, password, makes });
                RoomRequest::Room(room.clone(), OccupancyAsk::Enter(entry))
            }
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
                // At the least the last: behind it the inbox follows. More than are wanted, for
                // changes of the group are among them that are not shown.
                count: match self.wished.stanzas {
                    0 => 1,
                    wanted => (wanted + HISTORY_UNSHOWN).min(HISTORY_MAX),
                },
            }),
        }
    }

    pub(super) fn take(&mut self, own_address: &str, answer: RoomAnswer<'_>) -> Step {
        if self.is_left {
            return Step::Done;
        }
        match (self.stage, answer) {
            (Stage::Entering, RoomAnswer::Entered(entered)) => {
                (self.stage, self.entered) = (Stage::History, Some(Box::new(entered.clone())));
                Step::Ask
            }
            (Stage::History, RoomAnswer::History(page)) => {
                (self.stage, self.said) = (Stage::Members, page.messages.clone());
                match self.missed.len() > MISSED_MAX {
                    true => Step::Refused(StanzaFault::ResourceConstraint),
                    false if self.walk.room.is_channel() => Step::Ask,
                    false => Step::Done,
                }
            }
            (_, RoomAnswer::Failed(ChatFault::NotMember))
                if self.is_first() && !self.is_made && !self.has_joined =>
            {
                self.stage = if self.makes.is_some() { Stage::Making } else { Stage::Joining };
                Step::Ask
            }
            (Stage::Making, RoomAnswer::Changed(_)) => {
                (self.stage, self.is_made) = (Stage::Entering, true);
                Step::Ask
            }
            // The account has made it long ago, has left since, and may be invited.
            (Stage::Entering, RoomAnswer::Failed(ChatFault::NotMember)) if self.is_made => {
                (self.stage, self.is_made, self.makes) = (Stage::Joining, false, None);
                Step::Ask
            }
            // Whoever publishes in a channel is shown itself alone, too.
            (Stage::Members, RoomAnswer::Members(page)) => {
                let own = page.members.iter().chain(page.own.as_deref());
                let own = own.filter(|it| it.member.address.as_str() == own_address).cloned();
                let found: Vec<_> = own.take(1).collect();
                self.walk.title = page.title.clone();
                self.walk.found = found;
                Step::Done
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
            (Stage::Joining, RoomAnswer::Changed(_) | RoomAnswer::Failed(ChatFault::Unchanged)) => {
                let is_channel = self.walk.room.is_channel();
                self.stage = if is_channel { Stage::History } else { Stage::Entering };
                self.has_joined = true;
                Step::Ask
            }
            // Whoever subscribes to a channel is shown itself alone.
            (Stage::Members, RoomAnswer::Failed(ChatFault::Forbidden))
                if self.walk.room.is_channel() =>
            {
                Step::Done
            }
            // For members alone (7.2.6).
            (_, RoomAnswer::Failed(ChatFault::NotMember)) if self.walk.room.is_channel() => {
                Step::Refused(StanzaFault::ItemNotFound)
            }
            (_, RoomAnswer::Failed(ChatFault::NotMember)) => {
                Step::Refused(StanzaFault::RegistrationRequired)
            }
            // A name that none may have.
            (Stage::Entering, RoomAnswer::Failed(ChatFault::Invalid)) => {
                Step::Refused(StanzaFault::JidMalformed)
            }
            (_, RoomAnswer::Failed(why)) => Step::Refused(fault_of(why)),
            _ => Step::Refused(StanzaFault::ResourceConstraint),
        }
    }

    /// The statuses of the device's own presence (7.2.2, 10.1.1).
    pub(super) fn told(&self, own_nick: &str) -> String {
        let mut told = "<status code='100'/><status code='110'/>".to_owned();
        if self.is_made {
            told.push_str("<status code='201'/>");
        }
        if *self.nick != *own_nick {
            told.push_str("<status code='210'/>");
        }
        told
    }

    /// Occupants, as the account sees them.
    pub(super) fn entered(&self, account: &AccountAddress) -> RoomEntered {
        let entered = self.entered.as_deref().cloned();
        entered.unwrap_or_else(|| alone_in(&self.walk, account))
    }

    /// Whether nothing but the first question was asked.
    fn is_first(&self) -> bool {
        let is_channel = self.walk.room.is_channel();
        self.stage == if is_channel { Stage::History } else { Stage::Entering }
    }
}

/// The password that a presence gives.
fn password_of(presence: &Element<'_, '_>) -> Option<Box<str>> {
    let password = presence.child("x", MUC)?.child("password", MUC)?;
    let password = Some(password.text()).filter(|it| it.len() <= ROOM_PASSWORD_BYTES_MAX)?;
    Some(password.as_ref().into())
}

/// A channel as whoever has entered it sees it: itself alone, which has a voice if it publishes.
fn alone_in(walk: &Walk, account: &AccountAddress) -> RoomEntered {
    let role = walk.found.first().map_or(GroupRole::Member, |it| it.role);
    let own = Occupant {
        nick: nick_of(&walk.room, account).into(),
        account: account.clone(),
        device: Box::default(),
        role: Some(role),
        silent: role == GroupRole::Member,
        moderates: false,
        show: OccupantShow::default(),
    };
    RoomEntered {
        number: 0,
        group: walk.room.clone(),
        last: 0,
        own: Arc::new(own),
        others: Vec::new(),
        title: walk.title.clone(),
        titled_by: None,
    }
}

impl Session {
    /// Presence for a room, or for somebody in it.
    pub(in crate::server) fn presence_in_room(
        &mut self,
        now: Now,
        (jid, limits): (&Jid, &ChatLimits),
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
        let own = self.room(room).map(|it| it.own.nick.clone());
        let is_in = own.is_some();
        let Ok((show, is_long)) = news::shown(presence) else {
            return self.entry_makes_no_sense(about, StanzaFault::PolicyViolation, out);
        };
        if is_long {
            out.count(ChatCounter::TransientsDropped);
        }
        if presence.child("x", MUC).is_none() {
            let (id, to) = (about.0.map(Box::from), about.1.unwrap_or_default().into());
            match own {
                None => self.entry_makes_no_sense(about, StanzaFault::NotAcceptable, out),
                Some(own) if own == *nick || room.is_channel() => {
                    self.says_in_room(room, OccupancyAsk::Show(show), out);
                }
                // Another name is wanted (7.6).
                Some(_) => {
                    let what = RoomWhat::Rename(Box::new(room.clone()), nick.clone());
                    let ask = RoomAsk { stanza: "presence", id, to, what, place: None };
                    self.ask_room(now, ask, out);
                }
            }
            return;
        }
        if !self.has(Session::AVAILABLE) {
            return self.entry_makes_no_sense(about, StanzaFault::UnexpectedRequest, out);
        }
        let rooms = self.rooms();
        let entering = rooms.asks.iter().filter(|ask| matches!(ask.what, RoomWhat::Enter(_)));
        if !is_in && rooms.entered.len() + entering.count() >= limits.rooms_a_session_max.into() {
            return self.refuse_entry(about, StanzaFault::PolicyViolation, out);
        }
        let entering = Entering::new(room, nick, (presence, show), Some(limits));
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
        let Some(account) = self.own_address() else { return };
        let entered = entering.entered(&account);
        let told = entering.told(&entered.own.nick);
        let new = entering.makes.filter(|_| entering.is_made);
        let Entering { walk, missed, .. } = entering;
        let room = walk.room;
        self.forgets_kept(&room); // it was in it already
        let RoomEntered { own, others, title, titled_by, last, .. } = entered;
        let jid = self.jid().to_owned();
        let reader = Reader { to: &jid, account: &account, nick: &own.nick };
        for occupant in &others {
            reader.put(&room, occupant, ("", ""), out.bytes());
            self.counts_sent(out);
        }
        reader.put(&room, &own, ("", &told), out.bytes());
        self.counts_sent(out);
        for stanza in history {
            out.bytes().extend_from_slice(&stanza);
            self.counts_sent(out);
        }
        let is_hidden = room.is_channel() && title.is_empty();
        let title = if is_hidden { name_of(&room, &title) } else { &title };
        self.write_subject(&room, (titled_by.as_deref(), title), out);
        let (address, behind) = (room.clone(), place);
        let it = Room { address, place, behind, last, configured: 0, own, new };
        let rooms = self.rooms();
        match rooms.at(&room) {
            Some(before) => *before = it,
            None => rooms.entered.push(it),
        }
        for news in missed {
            self.in_room(now, news, out);
        }
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
        self.write_left(room, "", out);
        self.forgets_kept(room);
        let Some(rooms) = self.busy.as_mut().and_then(|busy| busy.rooms.as_mut()) else { return };
        let before = rooms.entered.len();
        rooms.entered.retain(|it| it.address != *room);
        let was_in = rooms.entered.len() < before;
        let (mut was_entering, mut nick) = (false, None);
        for ask in &mut rooms.asks {
            if let RoomWhat::Enter(entering) = &mut ask.what
                && entering.walk.room == *room
            {
                was_entering |= !entering.is_left;
                entering.is_left = true;
                nick = Some(entering.nick.clone());
            }
        }
        if was_entering && !was_in {
            self.write_never_in(room, nick.unwrap_or_default(), out);
        }
        if was_in || was_entering {
            self.looks_away(room, out);
        }
    }

    /// Shows a device that left before it was in that it is not.
    fn write_never_in(&mut self, room: &AccountAddress, nick: Box<str>, out: &mut Out) {
        let Some(account) = self.own_address() else { return };
        let (device, role) = (self.resource().into(), None);
        let (silent, moderates, show) = (false, false, OccupantShow::default());
        let account_of_it = account.clone();
        let own = Occupant { nick, account: account_of_it, device, role, silent, moderates, show };
        let reader = Reader { to: self.jid(), account: &account, nick: &own.nick };
        let event = RoomEvent::Gone(Arc::new(own.clone()), RoomExit::Left);
        for stanza in reader.shown(room, &event, "") {
            out.bytes().extend_from_slice(&stanza);
            self.counts_sent(out);
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
