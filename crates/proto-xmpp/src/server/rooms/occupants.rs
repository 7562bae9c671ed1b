//! Occupants of a room, as presence shows them (XEP-0045 5, 7.2.2), and how they go.
//!
//! Chat says who is in a room, under which name, with which role; here that becomes stanzas, for
//! devices of this server and of others. Invariant: affiliation and role are those that chat says.

use super::relay::put_relayed;
pub(super) use crate::render::room::account_of;
use crate::render::room::{
    Invitation, OccupantItem, put_configured, put_invitation, put_occupant, put_whisper, reason,
};
use crate::server::Out;
use crate::server::session::Session;
use crate::xml::text::escaped;
use model::account::AccountAddress;
use model::chat::{GroupRole, Occupant, RoomActor, RoomEvent, RoomExit, nick_of};

/// The affiliation of who has this role as a member (5.2).
pub(super) const fn affiliation_of(role: Option<GroupRole>) -> &'static str {
    match role {
        Some(role) => role.word(),
        None => "none",
    }
}

/// Account that did it, and the reason, as XML (8.2, 9.1). An account is not the actor of what it
/// does to itself.
fn actor_of(occupant: &Occupant, actor: &RoomActor) -> String {
    let mut out = String::new();
    if actor.by != occupant.account {
        let (nick, jid) = (escaped(&actor.nick), escaped(actor.by.as_str()));
        out = format!("<actor nick='{nick}' jid='{jid}'/>");
    }
    out.push_str(&reason(&actor.reason));
    out
}

/// The affiliation of an occupant that goes, who did it and why, and the status code for it, as XML
/// (8.2: kicked; 9.4: a room for members alone, and no member any more; 9.1: banned; 10.9:
/// destroyed; 10.2: a room for members alone from now on).
fn told_of(occupant: &Occupant, how: &RoomExit) -> (&'static str, String, String) {
    let status = |code: u16| format!("<status code='{code}'/>");
    let actor = |actor: &RoomActor| actor_of(occupant, actor);
    let affiliation = affiliation_of(occupant.role);
    match how {
        RoomExit::Left => (affiliation, String::new(), String::new()),
        RoomExit::Kicked(by) => (affiliation, actor(by), status(307)),
        RoomExit::Removed(by) => ("none", actor(by), status(321)),
        RoomExit::Locked(by) => ("none", actor(by), status(322)),
        RoomExit::Banned(by) => ("outcast", actor(by), status(301)),
        RoomExit::Dissolved(why, venue) => ("none", String::new(), destroyed(why, venue.as_ref())),
    }
}

fn destroyed(why: &str, venue: Option<&AccountAddress>) -> String {
    let venue = venue.map_or_else(String::new, |it| format!(" jid='{}'", escaped(it.as_str())));
    match reason(why).as_str() {
        "" => format!("<destroy{venue}/>"),
        why => format!("<destroy{venue}>{why}</destroy>"),
    }
}

/// A reader of a room: its full JID, its account, and its name there.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    pub(super) to: &'a str,
    pub(super) account: &'a AccountAddress,
    pub(super) nick: &'a str,
}

impl Reader<'_> {
    fn is(&self, occupant: &Occupant) -> bool {
        occupant.account == *self.account && *occupant.nick == *self.nick
    }

    /// Whether news are about the reader itself.
    pub(super) fn is_meant(&self, event: &RoomEvent) -> bool {
        match event {
            RoomEvent::Is(it, _) | RoomEvent::Gone(it, _) => self.is(it),
            RoomEvent::Renamed(before, it) => it.account == *self.account && **before == *self.nick,
            RoomEvent::Said(_) | RoomEvent::Whispered(..) | RoomEvent::Relayed(..) => false,
        }
    }

    /// Appends the presence of an occupant; statuses are XML.
    pub(super) fn put(
        &self,
        room: &AccountAddress,
        occupant: &Occupant,
        (why, told): (&str, &str),
        out: &mut Vec<u8>,
    ) {
        let item = OccupantItem {
            room,
            occupant,
            kind: "",
            affiliation: affiliation_of(occupant.role),
            role: occupant.room_role().word(),
            renamed: None,
        };
        put_occupant(self.to, item, (why, told), out);
    }

    /// Stanzas by which the reader is shown news: one, or two of an occupant that has another name.
    pub(super) fn shown(
        &self,
        room: &AccountAddress,
        event: &RoomEvent,
        more: &str,
    ) -> Vec<Vec<u8>> {
        let own = if self.is_meant(event) { "<status code='110'/>" } else { "" };
        let mut out = Vec::new();
        match event {
            RoomEvent::Is(occupant, actor) => {
                let why = actor.as_ref().map(|it| actor_of(occupant, it)).unwrap_or_default();
                self.put(room, occupant, (&why, own), &mut out);
            }
            RoomEvent::Gone(occupant, how) => {
                let (affiliation, why, told) = told_of(occupant, how);
                let (kind, role, renamed) = ("unavailable", "none", None);
                let item = OccupantItem { room, occupant, kind, affiliation, role, renamed };
                put_occupant(self.to, item, (&why, &format!("{told}{more}{own}")), &mut out);
            }
            RoomEvent::Renamed(before, occupant) => {
                let former = Occupant { nick: before.clone(), ..(**occupant).clone() };
                let item = OccupantItem {
                    room,
                    occupant: &former,
                    kind: "unavailable",
                    affiliation: affiliation_of(occupant.role),
                    role: occupant.room_role().word(),
                    renamed: Some(&occupant.nick),
                };
                let (told, mut now_is) = (format!("<status code='303'/>{own}"), Vec::new());
                put_occupant(self.to, item, ("", &told), &mut out);
                self.put(room, occupant, ("", own), &mut now_is);
                return vec![out, now_is];
            }
            RoomEvent::Whispered(by, content) => {
                put_whisper(self.to, (room, by), content, &mut out);
            }
            RoomEvent::Relayed(by, it) => put_relayed(self.to, (room, by), it, &mut out),
            RoomEvent::Said(_) => return Vec::new(),
        }
        vec![out]
    }
}

impl Session {
    /// The address of the account.
    pub(super) fn own_address(&self) -> Option<AccountAddress> {
        account_of(self.account(), self.domain())
    }

    /// The name of the account in a room, unless it chooses another.
    pub(super) fn own_nick(&self, room: &AccountAddress) -> Box<str> {
        self.own_address().map_or_else(|| self.account().into(), |own| nick_of(room, &own).into())
    }

    /// Writes that a room's configuration has changed (10.2.1).
    pub(super) fn write_configured(&mut self, room: &AccountAddress, out: &mut Out) {
        put_configured(self.jid(), room, out.bytes());
        self.counts_sent(out);
    }

    /// Tells the device that its account was added to a group by somebody, and why (7.8.2,
    /// XEP-0249).
    pub(super) fn write_invitation(
        &mut self,
        invitation: &Invitation<'_>,
        how: (&str, &str),
        out: &mut Out,
    ) {
        put_invitation(self.jid(), invitation, how, out.bytes());
        self.counts_sent(out);
    }
}
