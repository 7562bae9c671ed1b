//! Orders: what admins and owners, and whoever goes, want of a room become orders for its group
//! (XEP-0045 8, 9, 10).
//!
//! ```text
//! affiliation   member                 admin                        owner
//!               Add ─► is one?         Promote ─► is owner, none?   AddOwner ─► is none? ─► Add
//!                 Demote ─► is owner?       RemoveOwner ─► is none?     AddOwner ◄────────────┘
//!                 RemoveOwner ─► Demote     Add ─► Promote
//!               outcast: Ban           none: Remove ─► is none? ─► Unban
//!               whoever is banned and shall be more: Unban first
//! ```
//! An affiliation says what somebody shall be, an order what is done; so the next order follows
//! from what came of the one before. Invariant: what is so already is done; orders are given one
//! after the other, and the first that is refused ends them.

use super::forms::Configuration;
use super::walk::Walk;
use super::{MUC_ADMIN, MUC_OWNER, OccupancyAsk, RoomAnswer, RoomRequest, Step, fault_of};
use crate::fault::StanzaFault;
use crate::jid::Jid;
use crate::render::room::{account_of, domain_of};
use crate::xml::scan::Element;
use model::account::{AccountAddress, Addressee};
use model::chat::{ChatFault, GroupRole, GroupVerb, REASON_BYTES_MAX};
use std::collections::VecDeque;

/// Most people that one stanza is about.
const ITEMS_MAX: usize = 64;

/// Most orders that somebody's affiliation takes. Beyond, others change it at the same time.
const STEPS_MAX: u8 = 6;

/// Orders for a group.
pub(super) struct Ordering {
    room: AccountAddress,
    /// The first is given.
    orders: VecDeque<Order>,
    /// Orders that were given for the first.
    steps: u8,
}

struct Order {
    goal: Goal,
    verb: GroupVerb,
    /// Its title, or the reason that is given for it.
    title: Box<str>,
    members: Vec<Addressee>,
    /// The occupant that it is about, whose account is to be looked up, or who is shown out.
    nick: Option<Box<str>>,
    /// Whether the account that gives it is the one that it is about.
    is_own: bool,
}

/// Goal of orders.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Goal {
    /// This one is done.
    Verb,
    /// The occupant is shown out, and may come back.
    Kicked,
    /// The account is a member, and no more.
    Member,
    /// The account is an admin, and no more.
    Admin,
    /// The account is an owner.
    Owner,
    /// The account is neither a member nor banned.
    None,
}

impl Goal {
    /// The order behind one that changed something, or nothing; `is_banned`: it was not done, for
    /// whom it is about is banned.
    fn next(self, verb: GroupVerb, (has_changed, is_banned): (bool, bool)) -> Option<GroupVerb> {
        match (self, verb, has_changed) {
            (Goal::Verb | Goal::None | Goal::Kicked, ..) if is_banned => None,
            (_, GroupVerb::Add, _) if is_banned => Some(GroupVerb::Unban),
            (Goal::None, GroupVerb::Remove, false) => Some(GroupVerb::Unban),
            (Goal::Member | Goal::Admin | Goal::Owner, GroupVerb::Unban, _) => Some(GroupVerb::Add),
            (Goal::Member, GroupVerb::Add, false) => Some(GroupVerb::Demote),
            (Goal::Member, GroupVerb::Demote, false) => Some(GroupVerb::RemoveOwner),
            (Goal::Member, GroupVerb::RemoveOwner, true) => Some(GroupVerb::Demote),
            (Goal::Admin, GroupVerb::Promote, false) => Some(GroupVerb::RemoveOwner),
            (Goal::Admin, GroupVerb::RemoveOwner, false) => Some(GroupVerb::Add),
            (Goal::Admin, GroupVerb::Add, true) => Some(GroupVerb::Promote),
            (Goal::Owner, GroupVerb::AddOwner, false) => Some(GroupVerb::Add),
            (Goal::Owner, GroupVerb::Add, true) => Some(GroupVerb::AddOwner),
            _ => None,
        }
    }
}

impl Order {
    /// An order that is done when the group has carried it out.
    fn of(verb: GroupVerb, title: Box<str>, members: Vec<Addressee>) -> Order {
        Order { goal: Goal::Verb, verb, title, members, nick: None, is_own: false }
    }
}

impl Ordering {
    fn new(room: AccountAddress, orders: impl IntoIterator<Item = Order>) -> Ordering {
        Ordering { room, orders: orders.into_iter().collect(), steps: 0 }
    }

    pub(super) fn room(&self) -> &AccountAddress {
        &self.room
    }

    /// One that names nobody.
    pub(super) fn verb(room: AccountAddress, verb: GroupVerb, title: Box<str>) -> Ordering {
        Ordering::new(room, [Order::of(verb, title, Vec::new())])
    }

    /// The order by which an added account leaves, since it does not want to be there; its inviter
    /// is notified.
    pub(super) fn decline(
        room: AccountAddress,
        inviter: Option<AccountAddress>,
        reason: Box<str>,
    ) -> Ordering {
        let members = inviter.into_iter().map(Addressee::from).collect();
        Ordering::new(room, [Order::of(GroupVerb::Leave, reason, members)])
    }

    /// Order that lets an account speak again.
    pub(super) fn unmute(room: AccountAddress, whom: AccountAddress) -> Ordering {
        let nick = Some(whom.as_str().into());
        let order = Order::of(GroupVerb::Unmute, Box::default(), vec![whom.into()]);
        Ordering::new(room, [Order { nick, ..order }])
    }

    /// Orders that add these accounts, each with a reason: one order for each reason.
    pub(super) fn add(room: AccountAddress, invited: Vec<(Addressee, Box<str>)>) -> Ordering {
        let mut orders: Vec<Order> = Vec::new();
        for (one, reason) in invited {
            match orders.iter_mut().find(|order| order.title == reason) {
                Some(order) => order.members.push(one),
                None => orders.push(Order::of(GroupVerb::Add, reason, vec![one])),
            }
        }
        Ordering::new(room, orders)
    }

    /// The order that destroys a room (10.9), with the reason, and the room to go to instead.
    pub(super) fn destroy(
        room: AccountAddress,
        destroy: &Element<'_, '_>,
    ) -> Result<Ordering, StanzaFault> {
        let venue = destroy.attribute("jid").filter(|jid| !jid.is_empty());
        let account = |jid: &str| Jid::parse(jid)?.account;
        let venue = venue.map(|jid| account(&jid).ok_or(StanzaFault::JidMalformed)).transpose()?;
        let reason = reason_of(destroy, MUC_OWNER)?;
        let members = venue.into_iter().map(Addressee::from).collect();
        Ok(Ordering::new(room, [Order::of(GroupVerb::Dissolve, reason, members)]))
    }

    /// Orders that give a room its owner's configuration; `None`: it has it already.
    pub(super) fn configure(walk: &Walk, wanted: Configuration) -> Option<Ordering> {
        let order = |verb, title| Order::of(verb, title, Vec::new());
        let name = wanted.name.filter(|name| *name != walk.title);
        let description = wanted.description.filter(|it| *it != walk.description);
        let is_moderated = wanted.is_moderated.filter(|is| *is != walk.is_closed);
        let is_locked = wanted.is_locked.filter(|is| *is == walk.is_unlocked);
        let is_public = wanted.is_public.filter(|is| *is != walk.is_public);
        let is_persistent = wanted.is_persistent.filter(|is| *is == walk.is_temporary);
        let so = |wanted: Option<bool>, is, verb| {
            wanted.filter(|wanted| *wanted == is).map(|_| order(verb, "".into()))
        };
        // First what its owner alone may want: whoever else does is refused before anything is
        // done. Strangers are told no more what the room is, at last they are told what it is then.
        let all = [
            so(is_persistent, true, GroupVerb::Persist),
            so(is_persistent, false, GroupVerb::Unpersist),
            so(is_public, false, GroupVerb::Hide),
            so(is_locked, true, GroupVerb::Lock),
            name.map(|name| order(GroupVerb::Rename, name)),
            description.map(|it| order(GroupVerb::Describe, it)),
            so(is_moderated, true, GroupVerb::Close),
            so(is_moderated, false, GroupVerb::Open),
            so(is_locked, false, GroupVerb::Unlock),
            so(is_public, true, GroupVerb::Reveal),
        ];
        let all = Ordering::new(walk.room.clone(), all.into_iter().flatten());
        (!all.orders.is_empty()).then_some(all)
    }

    /// Orders for the items of an admin's `query`; `own` is the account that asks.
    pub(super) fn of(
        room: AccountAddress,
        query: &Element<'_, '_>,
        own: Option<&AccountAddress>,
    ) -> Result<Ordering, StanzaFault> {
        let items: Vec<_> = query.children().filter(|it| it.is("item", MUC_ADMIN)).collect();
        if items.is_empty() {
            return Err(StanzaFault::BadRequest);
        }
        if items.len() > ITEMS_MAX {
            return Err(StanzaFault::PolicyViolation);
        }
        // Names in a room are those of accounts of its own domain.
        let domain = domain_of(&room);
        let orders = items.iter().map(|item| order_of(item, domain, own));
        let orders = orders.collect::<Result<Vec<_>, _>>()?;
        Ok(Ordering::new(room, orders))
    }

    pub(super) fn request(&self) -> RoomRequest {
        let first = self.orders.front();
        let group = self.room.clone();
        if let Some(Order { goal, verb, title, nick: Some(nick), .. }) = first {
            let (nick, reason) = (nick.clone(), title.clone());
            return RoomRequest::Room(
                group,
                match goal {
                    Goal::Kicked => OccupancyAsk::Kick { nick, reason },
                    Goal::Verb if matches!(verb, GroupVerb::Mute | GroupVerb::Unmute) => {
                        let voice = *verb == GroupVerb::Unmute;
                        OccupancyAsk::SetVoice { whom: nick, voice, reason }
                    }
                    _ => OccupancyAsk::Find(nick),
                },
            );
        }
        let (verb, title, members) = first.map_or_else(
            || (GroupVerb::Rename, Box::default(), Vec::new()),
            |it| (it.verb, it.title.clone(), it.members.clone()),
        );
        RoomRequest::Order { group, verb, title, members }
    }

    pub(super) fn take(&mut self, answer: RoomAnswer<'_>) -> Step {
        let Some(first) = self.orders.front_mut() else { return Step::Done };
        if first.goal != Goal::Kicked && first.nick.is_some() {
            match answer {
                // A role is refused that an occupant cannot have: moderators are admins, and always
                // have a voice (9.6, 9.7).
                RoomAnswer::Occupant(it) if !may_have(it.role, first.verb) => {
                    return Step::Refused(StanzaFault::NotAllowed);
                }
                RoomAnswer::Occupant(it) => first.members = vec![it.account.clone().into()],
                // A visitor has a voice, or none, from now on.
                RoomAnswer::Changed => {
                    self.orders.pop_front();
                    return if self.orders.is_empty() { Step::Done } else { Step::Ask };
                }
                // Nobody in the room has that name: a member may.
                RoomAnswer::Failed(ChatFault::UnknownAccount) if !first.members.is_empty() => {}
                RoomAnswer::Failed(why) => return Step::Refused(fault_of(why)),
                _ => return Step::Refused(StanzaFault::ResourceConstraint),
            }
            first.nick = None;
            return Step::Ask;
        }
        let came_of_it = match answer {
            RoomAnswer::Changed => (true, false),
            RoomAnswer::Failed(ChatFault::Unchanged) => (false, false),
            // Who makes a member of somebody who is banned undoes that (9.2).
            RoomAnswer::Failed(ChatFault::GroupBanned) if first.goal != Goal::Verb => (false, true),
            // A group is never without an owner (10.4): another one is made first.
            RoomAnswer::Failed(ChatFault::Forbidden)
                if first.verb == GroupVerb::Leave
                    || first.is_own && first.verb == GroupVerb::RemoveOwner =>
            {
                return Step::Refused(StanzaFault::Conflict);
            }
            RoomAnswer::Failed(ChatFault::NotMember) => {
                return Step::Refused(StanzaFault::Forbidden);
            }
            RoomAnswer::Failed(why) => return Step::Refused(fault_of(why)),
            _ => return Step::Refused(StanzaFault::ResourceConstraint),
        };
        self.steps += 1;
        match first.goal.next(first.verb, came_of_it) {
            Some(_) if self.steps >= STEPS_MAX => Step::Refused(StanzaFault::ResourceConstraint),
            Some(verb) => {
                first.verb = verb;
                Step::Ask
            }
            None => {
                self.orders.pop_front();
                self.steps = 0;
                if self.orders.is_empty() { Step::Done } else { Step::Ask }
            }
        }
    }
}

/// Whether an occupant with this role in the group may get the role in the room that a verb gives.
fn may_have(role: Option<GroupRole>, verb: GroupVerb) -> bool {
    match verb {
        GroupVerb::Promote => role.is_some(),
        GroupVerb::Mute | GroupVerb::Unmute => role <= Some(GroupRole::Member),
        _ => true,
    }
}

/// Order for one item.
fn order_of(
    item: &Element<'_, '_>,
    domain: &str,
    own: Option<&AccountAddress>,
) -> Result<Order, StanzaFault> {
    let nick = item.attribute("nick").filter(|_| item.attribute("jid").is_none());
    let account = match (item.attribute("jid"), &nick) {
        (Some(jid), _) => Jid::parse(&jid).ok_or(StanzaFault::JidMalformed)?.account,
        (None, Some(nick)) => account_of(nick, domain),
        (None, None) => return Err(StanzaFault::BadRequest),
    };
    let account = account.filter(|it| !it.is_group());
    let (affiliation, role) = (item.attribute("affiliation"), item.attribute("role"));
    let (goal, verb) = match (affiliation.as_deref(), role.as_deref()) {
        (Some("none"), _) if account.as_ref() == own => (Goal::Verb, GroupVerb::Leave),
        // Nobody bans itself (9.1).
        (Some("outcast"), _) if account.as_ref() == own => return Err(StanzaFault::Conflict),
        (Some("outcast"), _) => (Goal::Verb, GroupVerb::Ban),
        (Some("none"), _) => (Goal::None, GroupVerb::Remove),
        // Who is shown out is a member still (8.2).
        (None, Some("none")) if nick.is_some() => (Goal::Kicked, GroupVerb::Remove),
        (None, Some("none")) => (Goal::Verb, GroupVerb::Remove),
        (Some("member"), _) => (Goal::Member, GroupVerb::Add),
        (Some("admin"), _) => (Goal::Admin, GroupVerb::Promote),
        (Some("owner"), _) => (Goal::Owner, GroupVerb::AddOwner),
        (None, Some("visitor")) => (Goal::Verb, GroupVerb::Mute),
        (None, Some("participant")) => (Goal::Verb, GroupVerb::Unmute),
        (None, Some("moderator")) => (Goal::Verb, GroupVerb::Promote),
        _ => return Err(StanzaFault::BadRequest),
    };
    let is_leave = verb == GroupVerb::Leave;
    let is_own = account.is_some() && account.as_ref() == own;
    if account.is_none() && nick.is_none() {
        return Err(StanzaFault::ItemNotFound);
    }
    let is_of_voice = matches!(verb, GroupVerb::Mute | GroupVerb::Unmute);
    let address = account.as_ref().filter(|_| is_of_voice).map(|it| it.as_str().into());
    let nick = nick.filter(|_| !is_leave).map(|nick| nick.as_ref().into()).or(address);
    let members = account.filter(|_| !is_leave).into_iter().map(Addressee::from).collect();
    Ok(Order { goal, verb, title: reason_of(item, MUC_ADMIN)?, members, nick, is_own })
}

/// The reason that an element gives for what it wants, in its namespace; nothing, if it has none.
/// One that is too long is refused: half of it is shown to nobody.
pub(super) fn reason_of(
    element: &Element<'_, '_>,
    namespace: &str,
) -> Result<Box<str>, StanzaFault> {
    let reason = element.child("reason", namespace);
    let reason: Box<str> = reason.map(|it| it.text().as_ref().into()).unwrap_or_default();
    match reason.len() > REASON_BYTES_MAX {
        true => Err(StanzaFault::PolicyViolation),
        false => Ok(reason),
    }
}
