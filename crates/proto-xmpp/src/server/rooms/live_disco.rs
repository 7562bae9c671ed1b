//! Questions to chatrooms and to their service, and orders of their moderators (XEP-0045 6, 8, 9).
//!
//! Neither the occupants of a chatroom nor the list of chatrooms is shown to anybody. This module
//! knows nothing of messages. Invariant: each question is answered once, here or when the service
//! has answered.

use super::{MUC, MUC_ADMIN};
use crate::fault::StanzaFault;
use crate::jid::Jid;
use crate::render::room::{account_of, domain_of};
use crate::server::Out;
use crate::server::iq::{DISCO_INFO, DISCO_ITEMS, PING, disco_info};
use crate::server::session::Session;
use crate::xml::scan::Element;
use crate::xml::text::escaped;
use model::account::AccountAddress;
use model::chat::ChatroomVerb;

/// Features of the service and its rooms.
const FEATURES: [&str; 4] = [DISCO_INFO, DISCO_ITEMS, PING, MUC];

/// Further features of a room.
const ROOM_FEATURES: [&str; 6] = [
    "muc_hidden",
    "muc_nonanonymous",
    "muc_open",
    "muc_persistent",
    "muc_unsecured",
    "http://jabber.org/protocol/muc#stable_id",
];

impl Session {
    /// A question for the service, a chatroom or somebody in it (6, XEP-0410).
    pub(in crate::server) fn asks_of_live(
        &mut self,
        (jid, asked): (&Jid, &Element<'_, '_>),
        (is_set, about): (bool, (Option<&str>, Option<&str>)),
        out: &mut Out,
    ) {
        let is_in = jid.account.as_ref().is_some_and(|room| self.live(room).is_some());
        let node = asked.attribute("node").is_some();
        let reply = match (&jid.account, asked.name(), asked.namespace(), is_set) {
            (_, "query", DISCO_INFO | DISCO_ITEMS, false) if node => Err(StanzaFault::ItemNotFound),
            (Some(_), "ping", PING, false) if jid.resource.is_some() && !is_in => {
                Err(StanzaFault::NotAcceptable)
            }
            (_, "ping", PING, false) => Ok(String::new()),
            (Some(room), "query", MUC_ADMIN, true) if is_in && jid.resource.is_none() => {
                let room = room.clone();
                return self.administers_live((room, about), asked, out);
            }
            (_, "query", _, false) if jid.resource.is_some() => {
                Err(StanzaFault::ServiceUnavailable)
            }
            (None, "query", DISCO_INFO, false) => {
                Ok(disco_info(None, &identity("Chatrooms"), FEATURES, ""))
            }
            (Some(room), "query", DISCO_INFO, false) => {
                let title = self.live(room).map(|it| it.state.title.clone());
                let title = title.filter(|title| !title.is_empty());
                let name = title.unwrap_or_else(|| room.name().into());
                let features = FEATURES.into_iter().chain(ROOM_FEATURES);
                Ok(disco_info(None, &identity(&name), features, ""))
            }
            // Who is in a room is not told, and rooms are hidden.
            (_, "query", DISCO_ITEMS, false) => Ok(format!("<query xmlns='{DISCO_ITEMS}'/>")),
            _ => Err(StanzaFault::ServiceUnavailable),
        };
        match reply {
            Ok(inner) => self.answers(about, &inner, out),
            Err(fault) => self.refuse_here("iq", about, fault, out),
        }
        if asked.is("ping", PING) {
            out.beat();
        }
    }

    /// A moderator says who may speak, stay and come (8.2 to 8.4, 9.1): of one at a time.
    fn administers_live(
        &mut self,
        (room, about): (AccountAddress, (Option<&str>, Option<&str>)),
        asked: &Element<'_, '_>,
        out: &mut Out,
    ) {
        let mut items = asked.children();
        let item = items.next().filter(|_| items.next().is_none());
        let item = item.filter(|item| item.is("item", MUC_ADMIN));
        let whom = item.as_ref().and_then(|item| self.named_in_live(&room, item));
        let verb = item.as_ref().and_then(verb_of);
        let (Some(whom), Some(verb)) = (whom, verb) else {
            return self.refuse_here("iq", about, StanzaFault::BadRequest, out);
        };
        let what = (room, verb, Box::default(), vec![whom.into()]);
        self.orders_live("iq", about, what, out);
    }

    /// Account that an item is about, by its address or by its name in the room.
    fn named_in_live(
        &self,
        room: &AccountAddress,
        item: &Element<'_, '_>,
    ) -> Option<AccountAddress> {
        match (item.attribute("jid"), item.attribute("nick")) {
            (Some(jid), _) => Jid::parse(&jid)?.account,
            (None, Some(nick)) => account_of(&nick, domain_of(room)),
            (None, None) => None,
        }
    }
}

/// Change that an item makes to somebody.
fn verb_of(item: &Element<'_, '_>) -> Option<ChatroomVerb> {
    match (item.attribute("role").as_deref(), item.attribute("affiliation").as_deref()) {
        (Some("none"), None) => Some(ChatroomVerb::Kick),
        (Some("visitor"), None) => Some(ChatroomVerb::Mute),
        (Some("participant"), None) => Some(ChatroomVerb::Unmute),
        (None, Some("outcast")) => Some(ChatroomVerb::Ban),
        (None, Some("none")) => Some(ChatroomVerb::Unban),
        (None, Some("admin")) => Some(ChatroomVerb::Promote),
        (None, Some("member")) => Some(ChatroomVerb::Demote),
        _ => None,
    }
}

fn identity(name: &str) -> String {
    format!("<identity category='conference' type='text' name='{}'/>", escaped(name))
}
