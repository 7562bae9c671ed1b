//! Occupants: members of a group as a room shows them (XEP-0045 5, 7.2.2).
//!
//! Each member is one, by the name of its account, whether a device of it is here or not: chat
//! knows who is a member, and not who looks. Affiliation and role follow from the member's role.
//! Changes of members are shown as they happen; who may speak after a mute, or in a room that was
//! closed, is read from the group.

use super::walk::Walk;
use super::{RoomAnswer, RoomAsk, RoomWhat, Step};
pub(super) use crate::render::room::account_of;
pub(in crate::server) use crate::render::room::nick_of;
use crate::render::room::{OccupantItem, put_configured, put_invitation, put_occupant, reason};
use crate::server::Out;
use crate::server::session::Session;
use crate::xml::text::escaped;
use base::time::Now;
use model::account::AccountAddress;
use model::chat::{
    ChatMessage, GroupChange, GroupRole, GroupVerb, MEMBERS_PAGE_MAX, MemberShow, MemberShown,
    MemberStatus,
};

/// Members that are shown as occupants to whoever enters, a page of them. Of a larger group these,
/// and oneself.
pub(super) const OCCUPANTS_MAX: usize = MEMBERS_PAGE_MAX as usize;

/// An occupant as it is shown.
#[derive(Clone, Copy)]
pub(super) struct Occupant<'a> {
    pub(super) room: &'a AccountAddress,
    pub(super) account: &'a AccountAddress,
    pub(super) role: GroupRole,
    /// Whether it may not speak.
    pub(super) is_silent: bool,
    /// Availability, if the occupant has said so.
    pub(super) show: Option<&'a MemberShow>,
}

impl<'a> Occupant<'a> {
    pub(super) fn of(walk: &'a Walk, member: &'a MemberStatus) -> Occupant<'a> {
        let (room, account) = (&walk.room, &member.member.address);
        let is_silent = is_silent(member, walk.is_closed);
        let show = member.show.as_deref();
        Occupant { room, account, role: member.role, is_silent, show }
    }

    /// Occupant whose availability has changed.
    pub(super) fn shown(shown: &'a MemberShown) -> Occupant<'a> {
        let MemberShown { group: room, closed, status } = shown;
        let (account, is_silent) = (&status.member.address, is_silent(status, *closed));
        let show = status.show.as_deref();
        Occupant { room, account, role: status.role, is_silent, show }
    }

    /// Its role in the room (5.1).
    pub(super) const fn role(&self) -> &'static str {
        role_in_room(self.role, self.is_silent)
    }
}

/// Whether a member may not say anything.
pub(super) fn is_silent(member: &MemberStatus, is_closed: bool) -> bool {
    (member.muted || is_closed) && member.role == GroupRole::Member
}

/// The role in a room of who has this one in the group (5.1).
pub(super) const fn role_in_room(role: GroupRole, is_silent: bool) -> &'static str {
    match role {
        GroupRole::Owner | GroupRole::Admin => "moderator",
        GroupRole::Member if is_silent => "visitor",
        GroupRole::Member => "participant",
    }
}

/// Account that changed an occupant, and the reason.
#[derive(Clone, Copy)]
pub(super) struct Why<'a> {
    by: &'a AccountAddress,
    /// In words for people; empty: that was not said.
    reason: &'a str,
}

impl<'a> Why<'a> {
    /// Author and reason of a change, from the message about it.
    pub(super) fn of(message: &'a ChatMessage, change: &'a GroupChange) -> Why<'a> {
        Why { by: &message.from, reason: change.reason() }
    }

    /// As XML (8.2, 9.1); of what somebody does to itself nobody else is the actor.
    pub(super) fn put(self, (room, account): (&AccountAddress, &AccountAddress)) -> String {
        let mut out = String::new();
        if self.by != account {
            let (nick, jid) = (escaped(nick_of(room, self.by)), escaped(self.by.as_str()));
            out = format!("<actor nick='{nick}' jid='{jid}'/>");
        }
        out.push_str(&reason(self.reason));
        out
    }
}

/// How somebody is no occupant any more.
#[derive(Clone, Copy)]
pub(super) enum Gone<'a> {
    /// The occupant has left the room with this session, and is a member still.
    Away(GroupRole),
    /// The occupant has left the group.
    Left(Why<'a>),
    /// The occupant was removed by somebody, from a room that it may enter again, or not.
    Removed(Why<'a>, bool),
    /// The occupant was banned by somebody.
    Banned(Why<'a>),
    /// The group is dissolved: why, and where to go instead.
    Dissolved(&'a str, Option<&'a AccountAddress>),
}

impl<'a> Gone<'a> {
    /// How a change ends the membership of those it names, in a room that they may enter again, or
    /// not.
    pub(super) fn of(message: &'a ChatMessage, change: &'a GroupChange, is_unlocked: bool) -> Self {
        let why = Why::of(message, change);
        match change.verb {
            GroupVerb::Remove => Gone::Removed(why, is_unlocked),
            GroupVerb::Ban => Gone::Banned(why),
            GroupVerb::Dissolve => Gone::Dissolved(change.reason(), change.venue()),
            _ => Gone::Left(why),
        }
    }

    /// Its affiliation then, who did it and why, and the status code for it, as XML (8.2: kicked;
    /// 9.4: a room for members alone, and no member any more; 9.1: banned; 10.9: destroyed).
    pub(super) fn told(
        self,
        of: (&AccountAddress, &AccountAddress),
    ) -> (&'static str, String, String) {
        let status = |code: u16| format!("<status code='{code}'/>");
        match self {
            Gone::Away(role) => (role.word(), String::new(), String::new()),
            Gone::Left(why) => ("none", why.put(of), String::new()),
            Gone::Removed(why, true) => ("none", why.put(of), status(307)),
            Gone::Removed(why, false) => ("none", why.put(of), status(321)),
            Gone::Banned(why) => ("outcast", why.put(of), status(301)),
            Gone::Dissolved(why, venue) => ("none", String::new(), destroyed(why, venue)),
        }
    }
}

fn destroyed(why: &str, venue: Option<&AccountAddress>) -> String {
    let venue = venue.map_or_else(String::new, |it| format!(" jid='{}'", escaped(it.as_str())));
    match reason(why).as_str() {
        "" => format!("<destroy{venue}/>"),
        why => format!("<destroy{venue}>{why}</destroy>"),
    }
}

/// A repeated question about roles, after somebody was muted, or a room closed.
pub(super) struct Refreshing {
    pub(super) walk: Walk,
    /// Members that it is about; empty: all.
    whom: Vec<AccountAddress>,
    /// Author and reason, if all of it is one change.
    why: Option<(AccountAddress, Box<str>)>,
}

impl Refreshing {
    /// A question about these members; about all, if nobody is named.
    pub(super) fn of(room: &AccountAddress, whom: Vec<AccountAddress>) -> Refreshing {
        Refreshing { walk: Walk::new(room.clone()), whom, why: None }
    }

    /// A question about the members that a change names; about all, if it names nobody.
    pub(super) fn after(message: &ChatMessage, change: &GroupChange) -> Refreshing {
        let whom: Vec<_> = change.members.iter().map(|it| it.address.clone()).collect();
        let why = (message.from.clone(), change.reason().into());
        let why = Some(why).filter(|_| !whom.is_empty());
        Refreshing { why, ..Refreshing::of(&message.to, whom) }
    }

    /// XML of the author and reason of the change of this member.
    pub(super) fn why(&self, account: &AccountAddress) -> String {
        let why = self.why.as_ref().map(|(by, reason)| Why { by, reason });
        why.map_or_else(String::new, |why| why.put((&self.walk.room, account)))
    }

    /// Whether it is about all.
    pub(super) fn is_of_all(&self) -> bool {
        self.whom.is_empty()
    }

    /// Adds these members; all, if nobody is named or too many are.
    fn is_about(&mut self, others: Vec<AccountAddress>) {
        let is_all = self.whom.is_empty() || others.is_empty();
        self.why = None;
        self.whom.extend(others);
        self.whom.sort_unstable();
        self.whom.dedup();
        if is_all || self.whom.len() > OCCUPANTS_MAX {
            self.whom.clear();
        }
    }

    pub(super) fn take(&mut self, answer: RoomAnswer<'_>) -> Step {
        let RoomAnswer::Members(page) = answer else {
            return Step::Refused(crate::fault::StanzaFault::ResourceConstraint);
        };
        let Refreshing { walk, whom, .. } = self;
        let is_wanted = |member: &MemberStatus, found: usize| match whom.is_empty() {
            true => found < OCCUPANTS_MAX,
            false => whom.contains(&member.member.address),
        };
        let most = if whom.is_empty() { OCCUPANTS_MAX } else { whom.len() };
        let taken = walk.take(page, is_wanted);
        if whom.is_empty() {
            walk.found.extend(page.own.as_deref().cloned());
        }
        match taken {
            Ok(is_all) if is_all || walk.found.len() >= most => Step::Done,
            Ok(_) => Step::Ask,
            Err(fault) => Step::Refused(fault),
        }
    }
}

impl Session {
    /// The name of the account in a room.
    pub(super) fn own_nick(&self, room: &AccountAddress) -> Box<str> {
        account_of(self.account(), self.domain())
            .map_or_else(|| self.account().into(), |own| nick_of(room, &own).into())
    }

    /// Shows an occupant; who has made that of it and why, and statuses, are XML.
    pub(super) fn write_occupant(
        &mut self,
        occupant: Occupant<'_>,
        (why, told): (&str, &str),
        out: &mut Out,
    ) {
        let Occupant { room, account, show, .. } = occupant;
        let is_own = account.as_str() == self.account();
        let jid = if is_own { self.jid() } else { account.as_str() };
        let (kind, affiliation, role) = ("", occupant.role.word(), occupant.role());
        let item = OccupantItem { room, account, jid, kind, affiliation, role, show };
        put_occupant(self.jid(), item, (why, told), out.bytes());
        self.counts_sent(out);
    }

    /// Shows that somebody is an occupant no more.
    pub(super) fn write_gone(
        &mut self,
        (room, account): (&AccountAddress, &AccountAddress),
        how: Gone<'_>,
        out: &mut Out,
    ) {
        let (affiliation, why, told) = how.told((room, account));
        let is_own = account.as_str() == self.account();
        let told = format!("{told}{}", if is_own { "<status code='110'/>" } else { "" });
        let jid = if is_own { self.jid() } else { account.as_str() };
        let (kind, role, show) = ("unavailable", "none", None);
        let item = OccupantItem { room, account, jid, kind, affiliation, role, show };
        put_occupant(self.jid(), item, (&why, &told), out.bytes());
        self.counts_sent(out);
    }

    /// Reads from the group who may speak, and shows it; of all members if nobody is named. A
    /// question about the room that is waiting absorbs this one.
    pub(super) fn look_again(
        &mut self,
        now: Now,
        (message, change): (&ChatMessage, &GroupChange),
        out: &mut Out,
    ) {
        let (room, refreshing) = (&message.to, Refreshing::after(message, change));
        let waiting = self.rooms().asks.iter_mut().skip(1).find_map(|ask| match &mut ask.what {
            RoomWhat::Refresh(it) if it.walk.room == *room => Some(it),
            _ => None,
        });
        if let Some(waiting) = waiting {
            return waiting.is_about(refreshing.whom);
        }
        let what = RoomWhat::Refresh(refreshing);
        let to = room.as_str().into();
        self.ask_room(now, RoomAsk { stanza: "presence", id: None, to, what, place: None }, out);
    }

    /// Shows who may speak, as the group says.
    pub(super) fn refresh(&mut self, refreshing: &Refreshing, out: &mut Out) {
        let walk = &refreshing.walk;
        let Some(room) = self.room(&walk.room) else { return };
        (room.is_closed, room.is_unlocked) = (walk.is_closed, walk.is_unlocked);
        walk.found.iter().for_each(|member| room.shows.sees(member));
        for member in &walk.found {
            let occupant = Occupant::of(walk, member);
            let is_own = occupant.account.as_str() == self.account();
            if let Some(room) = self.room(&walk.room).filter(|_| is_own) {
                room.is_muted = member.muted;
            }
            let told = if is_own { "<status code='110'/>" } else { "" };
            let why = refreshing.why(occupant.account);
            self.write_occupant(occupant, (&why, told), out);
        }
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
        of: (&AccountAddress, &AccountAddress, &str),
        how: (&str, &str),
        out: &mut Out,
    ) {
        put_invitation(self.jid(), of, how, out.bytes());
        self.counts_sent(out);
    }
}
