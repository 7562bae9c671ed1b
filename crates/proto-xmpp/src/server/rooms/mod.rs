//! Rooms (XEP-0045): a room is a group of chat, under the same address.
//!
//! ```text
//! presence, iq ─► line of questions ─► the first is with the service ─► its next step, or answered
//! message      ─► Send ─► the group ─► inbox, or news ─► of a room that was entered: its stanza
//! ```
//! A session's questions about rooms are asked one after the other, so that it has one reading
//! under way besides its inbox's. Kept of a room is its address and the last place that was shown;
//! both go with [`Busy`](super::busy::Busy) when no room is left. Who is in a room is known to its
//! home, which sends news of it. Invariant: each question is answered once; of a
//! room that was entered each message of the group is shown once, in the group's order.

pub mod abroad;
mod administration;
mod asides;
mod changes;
mod disco;
mod entering;
mod forms;
mod items;
mod listing;
mod live;
mod live_disco;
mod moderation;
mod news;
mod occupants;
mod relay;
mod talk;
mod walk;

use super::Out;
use super::session::Session;
use crate::fault::StanzaFault;
use crate::jid::Jid;
use crate::render;
use crate::stanza::StanzaReply;
use crate::xml::scan::{CLIENT, Element};
use administration::Ordering;
use asides::Standing;
use base::time::Now;
use entering::{Entering, NewRoom};
use items::Items;
use listing::{Listing, Looking};
use live::{LiveAsk, LiveRoom};
use model::account::{AccountAddress, Addressee};
use model::chat::{
    CHANNEL_SERVICE, ChatDelivery, ChatFault, ChatRequest, ConversationsPage, GROUP_SERVICE,
    GroupOrder, GroupVerb, HistoryPage, HistoryRange, MembersPage, MembersRange, OccupancyAsk,
    OccupancyRequest, Occupant, PublicPage, PublicRange, RecallOrder, RoomChange, RoomEntered,
};
use model::counters::ChatCounter;
use model::timeline::Seq;
use moderation::Moderating;
use news::Catching;
use relay::Relaying;
use std::collections::VecDeque;
use std::sync::Arc;
use talk::{Reflecting, Whisper};

/// The namespace of rooms (XEP-0045 17.2).
const MUC: &str = "http://jabber.org/protocol/muc";
/// That of what admins ask.
const MUC_ADMIN: &str = "http://jabber.org/protocol/muc#admin";
/// That of what owners ask.
const MUC_OWNER: &str = "http://jabber.org/protocol/muc#owner";

/// Rooms of a session: those it is in, and what it asks about rooms.
#[derive(Default)]
pub(super) struct Rooms {
    entered: Vec<Room>,
    /// The first is with the service, under this number.
    asks: VecDeque<RoomAsk>,
    number: Option<u32>,
    /// Chatrooms that it is in, and what it asks of any.
    live: Vec<LiveRoom>,
    live_asks: Vec<LiveAsk>,
}

/// A room that a session is in.
struct Room {
    address: AccountAddress,
    /// The last place of the group's conversation that was shown, or was before what was.
    place: Seq,
    /// The last place that came as news; beyond `place`, what is between is being read.
    behind: Seq,
    /// Number of the last news.
    last: u64,
    /// The place of the last change of the settings by the device itself, which was shown with its
    /// result.
    configured: Seq,
    /// The occupant that the device is.
    own: Arc<Occupant>,
    /// The device has made it, and nothing has happened in it since (10.1).
    new: Option<NewRoom>,
}

/// A question about rooms.
struct RoomAsk {
    /// The name of the stanza that asks, its id, and to whom it is.
    stanza: &'static str,
    id: Option<Box<str>>,
    to: Box<str>,
    what: RoomWhat,
    /// Which stanza it is of those that are acknowledged, if nothing else says that it is done.
    place: Option<u32>,
}

/// A question about a room, and its progress.
enum RoomWhat {
    Enter(Box<Entering>),
    /// The device takes another name.
    Rename(Box<AccountAddress>, Box<str>),
    Catch(Catching),
    Whisper(Box<Whisper>),
    Relay(Box<Relaying>),
    Look(Looking),
    List(Listing),
    Items(Items),
    Order(Ordering),
    Reflect(Reflecting),
    Moderate(Moderating),
}

/// Request to the service for a question.
enum RoomRequest {
    Members(MembersRange),
    History(HistoryRange),
    Order { group: AccountAddress, verb: GroupVerb, title: Box<str>, members: Vec<Addressee> },
    Conversations { before: Seq, count: u16 },
    Public(PublicRange),
    Recall(RecallOrder),
    Room(AccountAddress, OccupancyAsk),
    Change(AccountAddress, RoomChange),
}

/// Answer of the service to a request.
#[derive(Clone, Copy)]
enum RoomAnswer<'a> {
    Members(&'a MembersPage),
    History(&'a HistoryPage),
    Conversations(&'a ConversationsPage),
    Public(&'a PublicPage),
    Entered(&'a RoomEntered),
    Occupant(&'a Arc<Occupant>),
    Occupants(&'a [Arc<Occupant>]),
    /// Done: by the message at this place of the conversation; 0: by none, or the place is unknown.
    Changed(Seq),
    Failed(ChatFault),
}

/// Next step of a question.
enum Step {
    /// Asks the next question.
    Ask,
    Done,
    Refused(StanzaFault),
}

impl Rooms {
    /// Questions that are not answered.
    pub(super) fn waiting(&self) -> usize {
        self.asks.len() + self.live_asks.len()
    }

    /// Whether it is entering a room, or something of one is to be otherwise.
    pub(super) fn is_changing(&self) -> bool {
        let changes = |ask: &RoomAsk| matches!(ask.what, RoomWhat::Enter(_) | RoomWhat::Order(_));
        self.asks.iter().any(changes) || !self.live_asks.is_empty()
    }

    /// The place of the first order that is not answered and of which nothing says that it is done.
    pub(super) fn first_unanswered(&self) -> Option<u32> {
        self.asks.iter().find_map(|ask| ask.place)
    }

    /// Memory, bytes, roughly.
    pub(super) fn weight(&self) -> usize {
        let live = self.live.len() * size_of::<LiveRoom>();
        let asks: usize = self.asks.iter().map(RoomAsk::weight).sum();
        let live_asks = self.live_asks.len() * size_of::<LiveAsk>();
        let own: usize = self.entered.iter().map(|it| it.own.weight()).sum();
        self.entered.len() * size_of::<Room>() + own + asks + live + live_asks
    }

    /// Whether nothing is kept of rooms.
    pub(super) fn is_empty(&self) -> bool {
        let is_nowhere = self.entered.is_empty() && self.live.is_empty();
        is_nowhere && self.asks.is_empty() && self.live_asks.is_empty()
    }

    fn at(&mut self, room: &AccountAddress) -> Option<&mut Room> {
        self.entered.iter_mut().find(|it| it.address == *room)
    }
}

impl RoomAsk {
    /// Memory, bytes, roughly.
    fn weight(&self) -> usize {
        let what = match &self.what {
            RoomWhat::Relay(relaying) => relaying.weight(),
            _ => 0,
        };
        size_of::<RoomAsk>() + what
    }
}

impl Room {
    /// Whether the occupant moderates, and whether it has no voice.
    fn standing(&self) -> Standing {
        (self.own.is_moderator(), self.own.silent)
    }
}

impl RoomWhat {
    fn request(&self) -> RoomRequest {
        match self {
            RoomWhat::Enter(entering) => entering.request(),
            RoomWhat::Rename(room, nick) => {
                RoomRequest::Room((**room).clone(), OccupancyAsk::Rename(nick.clone()))
            }
            RoomWhat::Catch(catching) => catching.request(),
            RoomWhat::Whisper(whisper) => whisper.request(),
            RoomWhat::Relay(relaying) => relaying.request(),
            RoomWhat::Look(looking) => looking.walk.request(),
            RoomWhat::List(listing) => listing.request(),
            RoomWhat::Items(items) => items.request(),
            RoomWhat::Order(ordering) => ordering.request(),
            RoomWhat::Reflect(reflecting) => reflecting.request(),
            RoomWhat::Moderate(moderating) => moderating.request(),
        }
    }

    /// Whether what is placed in the inbox waits for the answer: it is shown behind the end of the
    /// conversation that is read.
    fn holds_inbox(&self) -> bool {
        match self {
            RoomWhat::Enter(entering) => entering.holds_inbox(),
            RoomWhat::Reflect(_) | RoomWhat::Catch(_) => true,
            _ => false,
        }
    }

    /// Goes on with an answer; `own` is the account.
    fn take(&mut self, own: &str, answer: RoomAnswer<'_>) -> Step {
        match self {
            RoomWhat::Enter(entering) => entering.take(own, answer),
            RoomWhat::Rename(..) => renamed(answer),
            RoomWhat::Catch(catching) => catching.take(answer),
            RoomWhat::Whisper(whisper) => whisper.take(answer),
            RoomWhat::Relay(relaying) => relaying.take(answer),
            RoomWhat::Look(looking) => looking.take(own, answer),
            RoomWhat::List(listing) => listing.take(answer),
            RoomWhat::Items(items) => items.take(answer),
            RoomWhat::Order(ordering) => ordering.take(answer),
            RoomWhat::Reflect(reflecting) => reflecting.take(answer),
            RoomWhat::Moderate(moderating) => moderating.take(answer),
        }
    }
}

impl Session {
    /// Whether somebody is a room, an occupant of one, or the service that has them.
    pub(super) fn is_of_rooms(&self, jid: &Jid) -> bool {
        self.is_at(jid, GROUP_SERVICE) || self.is_at(jid, CHANNEL_SERVICE)
    }

    fn rooms(&mut self) -> &mut Rooms {
        self.busy().rooms.get_or_insert_default()
    }

    /// Whether it is in a room.
    pub(super) fn is_in_room(&mut self, room: &AccountAddress) -> bool {
        self.room(room).is_some()
    }

    fn room(&mut self, room: &AccountAddress) -> Option<&mut Room> {
        self.busy.as_mut()?.rooms.as_mut()?.at(room)
    }

    /// A question is put at the end of the line.
    fn ask_room(&mut self, now: Now, ask: RoomAsk, out: &mut Out) {
        self.rooms().asks.push_back(ask);
        self.ask_for_room(now, out);
    }

    /// Asks the service what the first of the line needs, unless it has that.
    fn ask_for_room(&mut self, now: Now, out: &mut Out) {
        let rooms = self.rooms();
        let Some(first) = rooms.asks.front().filter(|_| rooms.number.is_none()) else { return };
        let (request, holds_inbox) = (first.what.request(), first.what.holds_inbox());
        let (session, number) = (self.session, self.numbers(1));
        self.rooms().number = Some(number);
        self.set(Session::ENTERING, holds_inbox);
        out.say(match request {
            RoomRequest::Members(range) => {
                ChatRequest::Members { session, number, range: Box::new(range) }
            }
            RoomRequest::History(range) => {
                ChatRequest::History { session, number, range: Box::new(range) }
            }
            RoomRequest::Conversations { before, count } => {
                ChatRequest::Conversations { session, number, before, count, groups: true }
            }
            RoomRequest::Public(range) => {
                ChatRequest::PublicGroups { session, number, range: Box::new(range) }
            }
            RoomRequest::Recall(order) => {
                ChatRequest::Recall { session, number, order: Box::new(order) }
            }
            RoomRequest::Room(group, ask) => {
                let group = group.into();
                ChatRequest::Room(Box::new(OccupancyRequest { session, number, group, ask }))
            }
            RoomRequest::Change(group, change) => {
                let (group, client_id) = (group.into(), self.made_up(now, out));
                let ask = OccupancyAsk::Change { client_id, change };
                ChatRequest::Room(Box::new(OccupancyRequest { session, number, group, ask }))
            }
            RoomRequest::Order { group, verb, title, members } => {
                let (group, client_id) = (Some(group.into()), self.made_up(now, out));
                let order = GroupOrder { group, client_id, verb, title, members };
                ChatRequest::Group { session, number, order: Box::new(order) }
            }
        });
    }

    /// The service says something that only rooms ask for. False: nobody did.
    pub(super) fn room_told(&mut self, now: Now, word: &ChatDelivery, out: &mut Out) -> bool {
        let (number, answer) = match word {
            ChatDelivery::Members(page) => (page.number, RoomAnswer::Members(page)),
            ChatDelivery::History(page) => (page.number, RoomAnswer::History(page)),
            ChatDelivery::Conversations(page) => (page.number, RoomAnswer::Conversations(page)),
            ChatDelivery::PublicGroups(page) => (page.number, RoomAnswer::Public(page)),
            ChatDelivery::Changed(changed) => {
                let seq = if changed.again { 0 } else { changed.seq };
                (changed.number, RoomAnswer::Changed(seq))
            }
            ChatDelivery::RoomEntered(entered) => (entered.number, RoomAnswer::Entered(entered)),
            ChatDelivery::Occupant { number, occupant } => {
                (*number, RoomAnswer::Occupant(occupant))
            }
            ChatDelivery::Occupants { number, occupants } => {
                (*number, RoomAnswer::Occupants(occupants))
            }
            ChatDelivery::Done { number } => (*number, RoomAnswer::Changed(0)),
            // Something was called back.
            ChatDelivery::Sent { number, .. } => (*number, RoomAnswer::Changed(0)),
            _ => return false,
        };
        self.room_answered(now, (number, answer), out)
    }

    /// Handles the failure of a request about rooms. False: the request was not about rooms.
    pub(super) fn room_failed(
        &mut self,
        now: Now,
        (number, why): (u32, ChatFault),
        out: &mut Out,
    ) -> bool {
        self.room_answered(now, (number, RoomAnswer::Failed(why)), out)
    }

    fn room_answered(
        &mut self,
        now: Now,
        (number, answer): (u32, RoomAnswer<'_>),
        out: &mut Out,
    ) -> bool {
        let own = self.account().to_owned();
        let Some(rooms) = self.busy.as_mut().and_then(|busy| busy.rooms.as_mut()) else {
            return false;
        };
        if rooms.number != Some(number) {
            return false;
        }
        rooms.number = None;
        let Some(first) = rooms.asks.front_mut() else { return false };
        let step = first.what.take(&own, answer);
        let done = if matches!(step, Step::Ask) { None } else { rooms.asks.pop_front() };
        self.set(Session::ENTERING, false);
        if let Some(ask) = done {
            self.room_done(now, ask, (step, answer), out);
            self.pay_ack(out);
        }
        self.ask_for_room(now, out);
        self.releases(out);
        self.pull_again(out);
        true
    }

    /// A question has its answer, which is said.
    fn room_done(
        &mut self,
        now: Now,
        ask: RoomAsk,
        (step, answer): (Step, RoomAnswer<'_>),
        out: &mut Out,
    ) {
        let RoomAsk { stanza, id, to, what, .. } = ask;
        let about = (id.as_deref(), Some(&*to));
        match (step, what) {
            (_, RoomWhat::Enter(entering)) if entering.is_left => {}
            // The server asks that for itself.
            (Step::Refused(_), RoomWhat::Reflect(_)) => {}
            (Step::Refused(_), RoomWhat::Relay(it)) if !it.is_question() => {}
            (Step::Refused(_), RoomWhat::Catch(catching)) => self.caught(now, &catching, None, out),
            // A name that cannot be had leaves the device in the room (7.6).
            (Step::Refused(fault), RoomWhat::Rename(..)) => self.refuse_entry(about, fault, out),
            (Step::Refused(fault), RoomWhat::Enter(entering)) => {
                self.looks_away(&entering.walk.room, out);
                self.refuse_entry(about, fault, out);
            }
            (Step::Refused(fault), _) => self.refuse(stanza, about, fault, out),
            (_, RoomWhat::Enter(entering)) => self.enters(now, *entering, about, out),
            (_, RoomWhat::Reflect(reflecting)) => {
                if let RoomAnswer::History(page) = answer {
                    self.reflect(&reflecting, page, out);
                }
            }
            (_, RoomWhat::Rename(..)) => {}
            (_, RoomWhat::Catch(catching)) => {
                if let RoomAnswer::History(page) = answer {
                    self.caught(now, &catching, Some(page), out);
                }
            }
            (_, RoomWhat::Whisper(_)) => {}
            (_, RoomWhat::Relay(it)) => {
                if let (true, RoomAnswer::Occupant(occupant)) = (it.is_of_account, answer) {
                    self.tells_card(now, &occupant.account, about, out);
                }
            }
            (_, RoomWhat::Look(looking)) => self.looked(looking, about, out),
            (_, RoomWhat::List(listing)) => self.answers(about, &listing.result(), out),
            (_, RoomWhat::Items(items)) => self.answers(about, &items.result(), out),
            (_, RoomWhat::Moderate(_)) => self.answers(about, "", out),
            (_, RoomWhat::Order(order)) => {
                self.ordered(order, answer, out);
                if stanza == "iq" {
                    self.answers(about, "", out);
                }
            }
        }
    }

    /// An order is carried out. That the configuration has changed is shown before the result
    /// (10.2.1), and not once more when the change comes.
    fn ordered(&mut self, order: Ordering, answer: RoomAnswer<'_>, out: &mut Out) {
        let Some(room) = self.room(order.room()) else { return };
        room.new = None;
        if let RoomAnswer::Changed(seq) = answer
            && order.is_of_settings
            && seq > room.place
        {
            room.configured = seq;
            self.write_configured(order.room(), out);
        }
    }

    /// Refuses entry to a room with an error that names the room's protocol (XEP-0045 7.2).
    fn refuse_entry(
        &mut self,
        (id, from): (Option<&str>, Option<&str>),
        fault: StanzaFault,
        out: &mut Out,
    ) {
        let reply = StanzaReply { name: "presence", from, to: self.jid(), id };
        reply.error_whole(&format!("<x xmlns='{MUC}'/>"), fault, ("", ""), out.bytes());
        self.counts_sent(out);
    }

    /// Refuses what makes no sense whatever the group is; that is counted.
    fn refuse_here(
        &mut self,
        stanza: &'static str,
        about: (Option<&str>, Option<&str>),
        fault: StanzaFault,
        out: &mut Out,
    ) {
        out.count(ChatCounter::Invalid);
        self.refuse(stanza, about, fault, out);
    }
}

/// Result of a request for another name.
fn renamed(answer: RoomAnswer<'_>) -> Step {
    match answer {
        RoomAnswer::Changed(_) => Step::Done,
        RoomAnswer::Failed(ChatFault::Invalid) => Step::Refused(StanzaFault::JidMalformed),
        RoomAnswer::Failed(why) => Step::Refused(fault_of(why)),
        _ => Step::Refused(StanzaFault::ResourceConstraint),
    }
}

/// The subject that a message gives a room: that of one without a text (8.1).
fn subject_alone(message: &Element<'_, '_>) -> Option<Box<str>> {
    let subject = message.child("subject", CLIENT)?;
    let body = render::text_of(message).filter(|body| !body.text().is_empty());
    body.is_none().then(|| subject.text().into_owned().into())
}

/// Why a message is not for a place in the domain of rooms, where no room takes it.
fn refuse_place(jid: &Jid, is_for_all: bool) -> StanzaFault {
    match (&jid.account, &jid.resource) {
        (None, _) => StanzaFault::ServiceUnavailable,
        (Some(_), Some(_)) if is_for_all => StanzaFault::BadRequest,
        // Whoever wants to say something to one of them knows its address (7.5).
        (Some(_), Some(_)) => StanzaFault::NotAllowed,
        (Some(_), None) if is_for_all => StanzaFault::NotAcceptable,
        (Some(_), None) => StanzaFault::ServiceUnavailable,
    }
}

/// Why the service did not do what was asked of a room (XEP-0045 7, 8, 9).
fn fault_of(why: ChatFault) -> StanzaFault {
    match why {
        ChatFault::UnknownAccount | ChatFault::UnknownMessage => StanzaFault::ItemNotFound,
        ChatFault::Forbidden | ChatFault::Muted | ChatFault::TooLate => StanzaFault::Forbidden,
        ChatFault::GroupFull | ChatFault::ChatroomFull => StanzaFault::ServiceUnavailable,
        ChatFault::NoChatroom => StanzaFault::ItemNotFound,
        ChatFault::ChatroomBanned | ChatFault::GroupBanned => StanzaFault::Forbidden,
        ChatFault::BansFull
        | ChatFault::PublicFull
        | ChatFault::TemporaryFull
        | ChatFault::GroupsFull => StanzaFault::ResourceConstraint,
        ChatFault::LastOwner => StanzaFault::Conflict,
        ChatFault::BadPassword => StanzaFault::NotAuthorized,
        ChatFault::Outranked => StanzaFault::NotAllowed,
        // It is invited, and decides by itself.
        ChatFault::InvitationNeeded | ChatFault::NotInChatroom => StanzaFault::NotAcceptable,
        ChatFault::NotMember => StanzaFault::NotAcceptable,
        other => StanzaFault::of(other, false),
    }
}
