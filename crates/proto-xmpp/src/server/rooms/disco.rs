//! Questions to the service, to a room and to an occupant (XEP-0045 6, XEP-0410).
//!
//! Of a room that is locked and hidden whoever is no member hears the same as of one that is not
//! there.

use super::administration::Ordering;
use super::asides::VOICE;
use super::forms;
use super::items::Items;
use super::listing::{Glance, Listing, Looking, name_of};
use super::moderation::{MODERATE, Moderating};
use super::occupants::account_of;
use super::relay::Relaying;
use super::walk::Walk;
use super::{MUC, MUC_ADMIN, MUC_OWNER, RoomAsk, RoomWhat};
use crate::archive::{MAM_FEATURES, RSM};
use crate::fault::StanzaFault;
use crate::forms::FORMS;
use crate::jid::Jid;
use crate::render::{OCCUPANT_IDS, STANZA_IDS};
use crate::server::Out;
use crate::server::archive::is_asked;
use crate::server::iq::{DISCO_INFO, DISCO_ITEMS, PING, disco_info};
use crate::server::session::Session;
use crate::xml::scan::Element;
use crate::xml::text::escaped;
use base::time::Now;
use model::account::AccountAddress;
use model::chat::{CHANNEL_SERVICE, GroupVerb, nick_of};

/// Registration with a room (7.10): of it, that one goes.
const REGISTER: &str = "jabber:iq:register";
/// The node that tells one's own name in a room (7.12).
const OWN_NICK: &str = "x-roomuser-item";

/// Features of the service.
const SERVICE_FEATURES: [&str; 5] = [DISCO_INFO, DISCO_ITEMS, PING, MUC, RSM];

/// Features and kinds of every room.
const ROOM_FEATURES: [&str; 9] = [
    DISCO_INFO,
    DISCO_ITEMS,
    MUC,
    "muc_nonanonymous",
    "http://jabber.org/protocol/muc#self-ping-optimization",
    "http://jabber.org/protocol/muc#stable_id",
    STANZA_IDS,
    OCCUPANT_IDS,
    MODERATE,
];

/// How a question goes on.
pub(super) enum Reply {
    /// The question is answered by this.
    Now(String),
    /// The group has to be asked.
    Ask(RoomWhat),
}

pub(super) type Replied = Result<Reply, StanzaFault>;

impl Session {
    /// A question for the service, a room or an occupant.
    pub(in crate::server) fn asks_of_rooms(
        &mut self,
        now: Now,
        (jid, asked): (&Jid, &Element<'_, '_>),
        (is_set, about): (bool, (Option<&str>, Option<&str>)),
        (iq, out): (&Element<'_, '_>, &mut Out),
    ) {
        if let (Some(room), None, true) = (&jid.account, &jid.resource, is_asked(asked)) {
            return self.asks_archive((asked, Some(room)), (is_set, about), out);
        }
        let reply = match (&jid.account, &jid.resource) {
            (None, None) => asks_service(asked, is_set, (&jid.domain, true)),
            (Some(room), None) if self.cancels_room(room, (asked, is_set)) => {
                let order = Ordering::verb(room.clone(), GroupVerb::Dissolve, "".into());
                Ok(Reply::Ask(RoomWhat::Order(order)))
            }
            (Some(room), None) => {
                let own = account_of(self.account(), self.domain());
                asks_room(own.as_ref(), room, asked, is_set)
            }
            (Some(room), Some(nick)) => self.asks_occupant((room, nick), (asked, is_set), iq),
            (None, Some(_)) => Err(StanzaFault::ServiceUnavailable),
        };
        match reply {
            Ok(Reply::Now(inner)) => self.answers(about, &inner, out),
            Ok(Reply::Ask(mut what)) => {
                self.of_new(&mut what);
                let (id, to) = (about.0.map(Box::from), about.1.unwrap_or_default().into());
                self.ask_room(now, RoomAsk { stanza: "iq", id, to, what, place: None }, out);
            }
            Err(fault) => self.refuse_here("iq", about, fault, out),
        }
        if asked.is("ping", PING) {
            out.beat();
        }
    }

    /// Whether a room that was just made is not wanted: its first form is cancelled (10.1.3).
    fn cancels_room(
        &mut self,
        room: &AccountAddress,
        (asked, is_set): (&Element<'_, '_>, bool),
    ) -> bool {
        let rooms = self.busy.as_mut().and_then(|busy| busy.rooms.as_mut());
        let orders = |ask: &RoomAsk| matches!(&ask.what, RoomWhat::Order(it) if it.room() == room);
        let rooms = rooms.filter(|rooms| !rooms.asks.iter().any(orders));
        let room = rooms.and_then(|rooms| rooms.at(room));
        let is_new = room.is_some_and(|room| room.new.is_some());
        let form = asked.child("x", FORMS).filter(|_| is_set && asked.is("query", MUC_OWNER));
        is_new && form.is_some_and(|it| it.attribute("type").as_deref() == Some("cancel"))
    }

    /// Adds to the first form of a new room what new rooms are, where the form says nothing
    /// (10.1.2).
    fn of_new(&mut self, what: &mut RoomWhat) {
        if let RoomWhat::Order(order) = what
            && let Some(new) = self.room(order.room()).and_then(|room| room.new)
            && let Some(wanted) = order.settings()
        {
            wanted.unlocked.get_or_insert(new.is_open);
            wanted.public.get_or_insert(new.is_public);
        }
    }

    /// Answers an account that asks for its own occupant whether it is in the room still (XEP-0410
    /// 3); everything else the room relays (17.4).
    fn asks_occupant(
        &mut self,
        (room, nick): (&AccountAddress, &str),
        (asked, is_set): (&Element<'_, '_>, bool),
        iq: &Element<'_, '_>,
    ) -> Replied {
        let own = self.room(room).map(|it| it.own.nick.clone());
        let is_own = own.as_deref() == Some(nick);
        match (own.is_some(), asked.is("ping", PING) && !is_set) {
            // Whoever is not in the room learns that by a ping (XEP-0410 3), and asks no occupant
            // anything else (XEP-0045 6.6).
            (false, true) => Err(StanzaFault::NotAcceptable),
            (false, false) => Err(StanzaFault::BadRequest),
            (true, true) if is_own => Ok(Reply::Now(String::new())),
            _ if room.is_channel() => Err(StanzaFault::ServiceUnavailable),
            _ => {
                let relaying = Relaying::asks((room, nick), iq)?;
                Ok(Reply::Ask(RoomWhat::Relay(Box::new(relaying))))
            }
        }
    }

    /// Answers a question once the room's description is known.
    pub(super) fn looked(
        &mut self,
        looking: Looking,
        about: (Option<&str>, Option<&str>),
        out: &mut Out,
    ) {
        let Looking { walk, what } = looking;
        match what {
            Glance::Information => self.answers(about, &information(&walk), out),
            Glance::Items => self.answers(about, &no_items(), out),
            Glance::Form => self.answers(about, &forms::configuration(&walk), out),
        }
    }
}

/// Question of somebody, whose account is `own`, to a room.
pub(super) fn asks_room(
    own: Option<&AccountAddress>,
    room: &AccountAddress,
    asked: &Element<'_, '_>,
    is_set: bool,
) -> Replied {
    let look = |what| {
        let walk = Walk::glance(room.clone());
        Ok(Reply::Ask(RoomWhat::Look(Looking { walk, what })))
    };
    let node = asked.attribute("node");
    let (name, namespace) = (asked.name(), asked.namespace());
    match (name, namespace, is_set, node.as_deref()) {
        ("query", DISCO_INFO, false, Some(OWN_NICK)) => {
            let nick = own.map_or("", |own| nick_of(room, own));
            Ok(Reply::Now(own_nick(nick)))
        }
        ("query", DISCO_INFO | DISCO_ITEMS, false, Some(_)) => Err(StanzaFault::ItemNotFound),
        ("query", DISCO_INFO, false, None) => look(Glance::Information),
        ("query", DISCO_ITEMS, false, None) => look(Glance::Items),
        ("ping", PING, false, _) => Ok(Reply::Now(String::new())),
        ("query", MUC_ADMIN, false, _) => {
            Ok(Reply::Ask(RoomWhat::List(Listing::of(room.clone(), asked)?)))
        }
        ("query", MUC_ADMIN, true, _) => {
            let ordering = Ordering::of(room.clone(), asked, own)?;
            Ok(Reply::Ask(RoomWhat::Order(ordering)))
        }
        ("query", MUC_OWNER, false, _) => look(Glance::Form),
        ("query", MUC_OWNER, true, _) => match asked.child("destroy", MUC_OWNER) {
            Some(destroy) => {
                Ok(Reply::Ask(RoomWhat::Order(Ordering::destroy(room.clone(), &destroy)?)))
            }
            None => Ok(match forms::wanted(asked)? {
                Some(wanted) => {
                    Reply::Ask(RoomWhat::Order(Ordering::configure(room.clone(), wanted)))
                }
                None => Reply::Now(String::new()),
            }),
        },
        ("moderate", MODERATE, true, _) => {
            Ok(Reply::Ask(RoomWhat::Moderate(Moderating::of(room, asked)?)))
        }
        ("query", REGISTER, true, _) if asked.child("remove", REGISTER).is_some() => {
            let order = Ordering::verb(room.clone(), GroupVerb::Leave, "".into());
            Ok(Reply::Ask(RoomWhat::Order(order)))
        }
        _ => Err(StanzaFault::ServiceUnavailable),
    }
}

/// Question to the service at this domain; `has_rooms`: by an account that may be in some.
pub(super) fn asks_service(
    asked: &Element<'_, '_>,
    is_set: bool,
    (service, has_rooms): (&str, bool),
) -> Replied {
    let has_node = asked.attribute("node").is_some();
    let name = if service.starts_with(CHANNEL_SERVICE) { "Channels" } else { "Rooms" };
    match (asked.name(), asked.namespace(), is_set) {
        ("query", DISCO_INFO | DISCO_ITEMS, false) if has_node => Err(StanzaFault::ItemNotFound),
        ("query", DISCO_INFO, false) => {
            Ok(Reply::Now(disco_info(None, &identity(name), SERVICE_FEATURES, "")))
        }
        ("query", DISCO_ITEMS, false) => {
            Ok(Reply::Ask(RoomWhat::Items(Items::of(service, asked, has_rooms)?)))
        }
        ("ping", PING, false) => Ok(Reply::Now(String::new())),
        _ => Err(StanzaFault::ServiceUnavailable),
    }
}

/// The items of a room: its occupants are seen by those who are in it (6.5).
pub(super) fn no_items() -> String {
    format!("<query xmlns='{DISCO_ITEMS}'/>")
}

fn own_nick(nick: &str) -> String {
    disco_info(Some(OWN_NICK), &identity(nick), [], "")
}

pub(super) fn information(walk: &Walk) -> String {
    let speech = if walk.is_closed { "muc_moderated" } else { "muc_unmoderated" };
    let entry = if walk.is_unlocked { "muc_open" } else { "muc_membersonly" };
    let view = if walk.is_public { "muc_public" } else { "muc_hidden" };
    let end = if walk.is_temporary { "muc_temporary" } else { "muc_persistent" };
    let key = if walk.is_protected { "muc_passwordprotected" } else { "muc_unsecured" };
    // Of a channel nobody but who publishes has a voice.
    let voice = (!walk.room.is_channel()).then_some(VOICE);
    let features = ROOM_FEATURES.into_iter().chain(MAM_FEATURES).chain(voice);
    let features = features.chain([speech, entry, view, end, key]);
    let identity = identity(name_of(&walk.room, &walk.title));
    disco_info(None, &identity, features, &forms::information(walk))
}

fn identity(name: &str) -> String {
    format!("<identity category='conference' type='text' name='{}'/>", escaped(name))
}
