//! Messages of a group as stanzas of its room (XEP-0045 7.4): as they are said, later, in an
//! archive (XEP-0313 5.1.2), to a device here or elsewhere.
//!
//! This module knows no session. Invariant: a room shows only messages of its group, each with the
//! room's id and its sender.

use super::{CONFERENCE, KeptStanza, MUC_USER, OCCUPANT_IDS, full_jid, put_delay, put_stanza_id};
use crate::message::amend;
use crate::server::put_show;
use crate::stanza::{StanzaReply, put_attribute};
use crate::xml::scan::CLIENT;
use crate::xml::text::escaped;
use model::account::AccountAddress;
use model::chat::{
    CHANNEL_SERVICE, CHATROOM_SERVICE, ChatMessage, Content, GROUP_SERVICE, Moderated, Occupant,
    nick_of,
};

/// How a message of a room is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoomRendering<'a> {
    /// To which device; none: it is part of an archive, with whose it was.
    pub to: Option<&'a str>,
    /// Whether it is history: then it has its time.
    pub is_delayed: bool,
    /// On a stream between servers, which has a namespace of its own.
    pub is_abroad: bool,
}

/// Appends a message of a group as a stanza of its room. False: it says nothing that is shown.
pub fn write_in_room(message: &ChatMessage, how: RoomRendering<'_>, out: &mut Vec<u8>) -> bool {
    let room = &message.to;
    let kept = KeptStanza::of(&message.content);
    // What happened to the group is shown by itself, and no part of what was said.
    // A subject without a text would be taken for the room's (8.1), which is the title.
    let is_hidden = message.content.is_reserved() || kept.is_subject(message);
    let left = amend::tombstone(message).filter(|_| how.to.is_none());
    if is_hidden && left.is_none() && !amend::is_one(&message.content) {
        return false;
    }
    let begin = out.len();
    open_in_room(message, &kept, how, out);
    match left {
        Some(left) => out.extend_from_slice(left.as_bytes()),
        None if kept.put_said(message, out) => {}
        None => {
            out.truncate(begin);
            return false;
        }
    }
    put_stanza_id(message, room.as_str(), out);
    let is_of_room = is_of_room(message);
    if !is_of_room {
        out.extend_from_slice(occupant_id(&message.from).as_bytes());
    }
    if how.is_delayed {
        put_delay(message, room.as_str(), out);
    }
    if how.to.is_none() && !is_of_room {
        let jid = escaped(message.from.as_str());
        let whose = format!("<x xmlns='{MUC_USER}'><item jid='{jid}'/></x>");
        out.extend_from_slice(whose.as_bytes());
    }
    out.extend_from_slice(b"</message>");
    true
}

/// Whether the room itself says it: that a moderator has called a message back (XEP-0425 4).
fn is_of_room(message: &ChatMessage) -> bool {
    amend::is_one(&message.content) && Moderated::of(&message.content).is_some()
}

/// Appends the start tag of what somebody said in a room, or the room itself.
pub fn open_in_room(
    message: &ChatMessage,
    kept: &KeptStanza<'_>,
    how: RoomRendering<'_>,
    out: &mut Vec<u8>,
) {
    let room = &message.to;
    out.extend_from_slice(b"<message");
    put_attribute("xmlns", (!how.is_abroad).then_some(CLIENT), out);
    let from = match is_of_room(message) {
        true => room.to_string(),
        false => format!("{room}/{}", nick_in(message)),
    };
    put_attribute("from", Some(&from), out);
    put_attribute("to", how.to, out);
    put_attribute("type", Some("groupchat"), out);
    kept.put_attributes(message, out);
    out.push(b'>');
}

/// Item of an occupant in its presence (XEP-0045 7.2.2).
#[derive(Clone, Copy, Debug)]
pub struct OccupantItem<'a> {
    /// The room.
    pub room: &'a AccountAddress,
    /// The occupant.
    pub occupant: &'a Occupant,
    /// `unavailable`, or empty.
    pub kind: &'static str,
    /// Its affiliation with the room, which outlives its visits.
    pub affiliation: &'static str,
    /// Its role in the room.
    pub role: &'static str,
    /// The name that it has from now on instead of this one (7.6).
    pub renamed: Option<&'a str>,
}

/// Appends presence of an occupant; who has made that of it and why, and statuses, are XML.
pub fn put_occupant(
    to: &str,
    item: OccupantItem<'_>,
    (why, told): (&str, &str),
    out: &mut Vec<u8>,
) {
    let OccupantItem { room, occupant, kind, affiliation, role, renamed } = item;
    let Occupant { nick, account, device, show, .. } = occupant;
    let from = format!("{room}/{nick}");
    let head = StanzaReply { name: "presence", from: Some(&from), to, id: None };
    let renamed = renamed.map_or_else(String::new, |nick| format!(" nick='{}'", escaped(nick)));
    let inner = format!(
        "<x xmlns='{MUC_USER}'><item affiliation='{affiliation}' role='{role}' jid='{}'{renamed}>\
         {why}</item>{told}</x>{}",
        escaped(&full_jid(account, device)),
        occupant_id(account)
    );
    head.open(kind, out);
    if kind.is_empty() {
        put_show(show.show, &show.status, out);
        out.extend_from_slice(show.extra.as_ref().map_or("", |it| it).as_bytes());
    }
    out.extend_from_slice(inner.as_bytes());
    head.close(out);
}

/// Appends what an occupant says to the reader alone (7.5).
pub fn put_whisper(
    to: &str,
    (room, by): (&AccountAddress, &Occupant),
    content: &Content,
    out: &mut Vec<u8>,
) {
    let kept = KeptStanza::of(content);
    out.extend_from_slice(b"<message");
    put_attribute("from", Some(&format!("{room}/{}", by.nick)), out);
    put_attribute("to", Some(to), out);
    put_attribute("type", Some("chat"), out);
    kept.put_own_attributes(out);
    out.push(b'>');
    kept.put_content(content, out);
    let told = format!("<x xmlns='{MUC_USER}'/>{}</message>", occupant_id(&by.account));
    out.extend_from_slice(told.as_bytes());
}

/// Opens what a room relays from an occupant to another one's device (17.4).
pub fn open_relayed(
    to: &str,
    (room, nick): (&AccountAddress, &str),
    (kind, id): (&str, &str),
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"<iq");
    put_attribute("type", Some(kind), out);
    put_attribute("id", Some(id), out);
    put_attribute("from", Some(&format!("{room}/{nick}")), out);
    put_attribute("to", Some(to), out);
    out.push(b'>');
}

/// Appends the subject of a room (8.1), and who gave it.
pub fn put_subject(
    to: &str,
    (room, by): (&AccountAddress, Option<&str>),
    title: &str,
    out: &mut Vec<u8>,
) {
    let from = by.map_or_else(|| room.to_string(), |nick| format!("{room}/{nick}"));
    let head = StanzaReply { name: "message", from: Some(&from), to, id: None };
    head.put("groupchat", &format!("<subject>{}</subject>", escaped(title)), out);
}

/// Appends that a room is configured otherwise (10.2.1).
pub fn put_configured(to: &str, room: &AccountAddress, out: &mut Vec<u8>) {
    let from = Some(room.as_str());
    let head = StanzaReply { name: "message", from, to, id: None };
    head.put("groupchat", &format!("<x xmlns='{MUC_USER}'><status code='104'/></x>"), out);
}

/// An invitation: the inviter, the reason, and the room's password; empty: none.
#[derive(Clone, Copy)]
pub struct Invitation<'a> {
    /// The room.
    pub room: &'a AccountAddress,
    /// The inviter.
    pub by: &'a AccountAddress,
    /// The reason.
    pub why: &'a str,
    /// The password.
    pub password: &'a str,
}

/// Appends an invitation, mediated and direct (7.8.2, XEP-0249).
pub fn put_invitation(
    to: &str,
    invitation: &Invitation<'_>,
    (id, delay): (&str, &str),
    out: &mut Vec<u8>,
) {
    let Invitation { room, by, why, password } = *invitation;
    let head = StanzaReply { name: "message", from: Some(room.as_str()), to, id: Some(id) };
    let (invite, direct) = match reason(why).as_str() {
        "" => (format!("<invite from='{by}'/>"), String::new()),
        mediated => (
            format!("<invite from='{by}'>{mediated}</invite>"),
            format!(" reason='{}'", escaped(why)),
        ),
    };
    let (key, direct_key) = match escaped(password) {
        none if none.is_empty() => (String::new(), String::new()),
        it => (format!("<password>{it}</password>"), format!(" password='{it}'")),
    };
    let inner = format!(
        "<x xmlns='{MUC_USER}'>{invite}{key}</x>\
         <x xmlns='{CONFERENCE}' jid='{room}'{direct}{direct_key}/>{delay}"
    );
    head.put("", &inner, out);
}

/// A reason as XML; nothing where none was given.
pub fn reason(why: &str) -> String {
    if why.is_empty() { String::new() } else { format!("<reason>{}</reason>", escaped(why)) }
}

/// The name in its room of whoever said something there, at that time.
pub fn nick_in(message: &ChatMessage) -> &str {
    message.content.nick.as_deref().unwrap_or_else(|| nick_of(&message.to, &message.from))
}

/// Account of a nickname in a room, if accounts there are of this domain.
pub fn account_of(nick: &str, domain: &str) -> Option<AccountAddress> {
    let (name, domain) = nick.split_once('@').unwrap_or((nick, domain));
    crate::jid::account(name, domain)
}

/// The domain whose accounts a room is of.
pub fn domain_of(room: &AccountAddress) -> &str {
    let of = |service| room.domain().strip_prefix(service);
    let services = [GROUP_SERVICE, CHANNEL_SERVICE, CHATROOM_SERVICE];
    services.into_iter().find_map(of).unwrap_or(room.domain())
}

/// The id of an occupant (XEP-0421 4): the rooms hide nobody, so it is the account.
pub fn occupant_id(account: &AccountAddress) -> String {
    format!("<occupant-id xmlns='{OCCUPANT_IDS}' id='{}'/>", escaped(account.as_str()))
}
