//! Orders: what admins and owners, and whoever goes, want of a room become orders for its group
//! (XEP-0045 8, 9, 10).
//!
//! ```text
//! form of an owner       ─► Change: settings ──────┐
//! list of affiliations   ─► accounts of names (Find) ─► Change: affiliations ─► done, or refused
//! list of roles          ─► SetRoles ──────────────┤
//! subject, leave, destroy, invitations ─► a verb ──┘
//! ```
//! The home of the group judges each form and each list as a whole. Invariant: what is so already
//! is done; orders are given one after the other, and the first that is refused ends them.

use super::forms::Configuration;
use super::{MUC_ADMIN, MUC_OWNER, OccupancyAsk, RoomAnswer, RoomRequest, Step, fault_of};
use crate::fault::StanzaFault;
use crate::jid::Jid;
use crate::xml::scan::Element;
use model::account::{AccountAddress, Addressee};
use model::chat::{
    Affiliation, AffiliationItem, ChatFault, GroupSettings, GroupVerb, NICK_BYTES_MAX,
    OccupantName, REASON_BYTES_MAX, RoleItem, RoomChange, RoomRole,
};
use std::collections::VecDeque;

/// Most people that one stanza is about.
const ITEMS_MAX: usize = 64;

/// Orders for a group.
pub(super) struct Ordering {
    room: AccountAddress,
    /// The first is given.
    orders: VecDeque<Order>,
    /// Whether it is of a form.
    pub(super) is_of_settings: bool,
}

enum Order {
    /// Something that a group does by one verb.
    Verb(Verb),
    Roles(Vec<RoleItem>),
    Settings(Box<GroupSettings>),
    Affiliations(Vec<Item>),
}

struct Verb {
    verb: GroupVerb,
    /// Its title, or the reason that is given for it.
    title: Box<str>,
    members: Vec<Addressee>,
}

/// The affiliation that an account is to have.
struct Item {
    whom: Whom,
    affiliation: Affiliation,
    reason: Box<str>,
}

enum Whom {
    Account(AccountAddress),
    /// An occupant, whose account is still to be looked up.
    Nick(Box<str>),
}

impl Order {
    fn of(verb: GroupVerb, title: Box<str>, members: Vec<Addressee>) -> Order {
        Order::Verb(Verb { verb, title, members })
    }
}

impl Ordering {
    fn new(room: AccountAddress, orders: impl IntoIterator<Item = Order>) -> Ordering {
        Ordering { room, orders: orders.into_iter().collect(), is_of_settings: false }
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

    /// The order that gives an occupant a voice.
    pub(super) fn voice(room: AccountAddress, whom: OccupantName) -> Ordering {
        let (role, reason) = (RoomRole::Participant, Box::default());
        Ordering::new(room, [Order::Roles(vec![RoleItem { whom, role, reason }])])
    }

    /// Orders that add these accounts, each with a reason: one order for each reason.
    pub(super) fn add(room: AccountAddress, invited: Vec<(Addressee, Box<str>)>) -> Ordering {
        let mut all: Vec<Verb> = Vec::new();
        for (one, title) in invited {
            match all.iter_mut().find(|it| it.title == title) {
                Some(it) => it.members.push(one),
                None => all.push(Verb { verb: GroupVerb::Add, title, members: vec![one] }),
            }
        }
        Ordering::new(room, all.into_iter().map(Order::Verb))
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

    /// The order that gives a room its owner's configuration.
    pub(super) fn configure(room: AccountAddress, wanted: Configuration) -> Ordering {
        let orders = [Order::Settings(Box::new(wanted))].into();
        Ordering { room, orders, is_of_settings: true }
    }

    /// The settings that it is to order.
    pub(super) fn settings(&mut self) -> Option<&mut GroupSettings> {
        match self.orders.front_mut() {
            Some(Order::Settings(wanted)) => Some(wanted),
            _ => None,
        }
    }

    /// The orders for the items of an admin's `query`; `own` is the account that asks.
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
        let has = |item: &Element<'_, '_>, name| item.attribute(name).is_some();
        // An item has one of both (9), and a list is of one kind, so that it can be done as a
        // whole.
        let is_of = |name, other| items.iter().all(|it| has(it, name) && !has(it, other));
        if is_of("affiliation", "role") {
            let items = items.iter().map(|item| affiliation_of(item, own));
            let items = items.collect::<Result<Vec<_>, _>>()?;
            return Ok(Ordering::new(room, [Order::Affiliations(items)]));
        }
        if !is_of("role", "affiliation") {
            return Err(StanzaFault::BadRequest);
        }
        let items = items.iter().map(role_of).collect::<Result<Vec<_>, _>>()?;
        Ok(Ordering::new(room, [Order::Roles(items)]))
    }

    pub(super) fn request(&self) -> RoomRequest {
        let group = self.room.clone();
        match self.orders.front() {
            Some(Order::Verb(Verb { verb, title, members })) => {
                let (verb, title, members) = (*verb, title.clone(), members.clone());
                RoomRequest::Order { group, verb, title, members }
            }
            Some(Order::Roles(items)) => {
                RoomRequest::Room(group, OccupancyAsk::SetRoles(items.clone()))
            }
            Some(Order::Settings(wanted)) => {
                RoomRequest::Change(group, RoomChange::Settings(wanted.clone()))
            }
            Some(Order::Affiliations(items)) => {
                let mut all = Vec::with_capacity(items.len());
                for Item { whom, affiliation, reason } in items {
                    let account = match whom {
                        Whom::Account(account) => account.clone().into(),
                        Whom::Nick(nick) => {
                            return RoomRequest::Room(group, OccupancyAsk::Find(nick.clone()));
                        }
                    };
                    let (affiliation, reason) = (*affiliation, reason.clone());
                    all.push(AffiliationItem { account, affiliation, reason });
                }
                RoomRequest::Change(group, RoomChange::Affiliations(all))
            }
            None => RoomRequest::Change(group, RoomChange::Affiliations(Vec::new())),
        }
    }

    pub(super) fn take(&mut self, answer: RoomAnswer<'_>) -> Step {
        let Some(first) = self.orders.front_mut() else { return Step::Done };
        match (first, answer) {
            // The group has muted it, and lets it speak again.
            (first @ Order::Roles(_), RoomAnswer::Occupant(whom)) => {
                return first.become_verb(whom.account.clone());
            }
            // A member who is not in the room the group mutes, or lets speak again.
            (first, RoomAnswer::Failed(ChatFault::UnknownAccount))
                if first.member_of_voice().is_some() =>
            {
                let member = first.member_of_voice().cloned();
                return member.map_or(Step::Done, |member| first.become_verb(member));
            }
            (Order::Affiliations(items), RoomAnswer::Occupant(found)) => {
                let is_open = |it: &&mut Item| matches!(it.whom, Whom::Nick(_));
                if let Some(item) = items.iter_mut().find(is_open) {
                    item.whom = Whom::Account(found.account.clone());
                }
                return Step::Ask;
            }
            (_, RoomAnswer::Changed(_) | RoomAnswer::Failed(ChatFault::Unchanged)) => {}
            // A group is never without an owner (10.4): another one is made first.
            (
                Order::Verb(Verb { verb: GroupVerb::Leave, .. }),
                RoomAnswer::Failed(ChatFault::Forbidden),
            ) => return Step::Refused(StanzaFault::Conflict),
            (_, RoomAnswer::Failed(ChatFault::NotMember)) => {
                return Step::Refused(StanzaFault::Forbidden);
            }
            (_, RoomAnswer::Failed(why)) => return Step::Refused(fault_of(why)),
            _ => return Step::Refused(StanzaFault::ResourceConstraint),
        }
        self.orders.pop_front();
        if self.orders.is_empty() { Step::Done } else { Step::Ask }
    }
}

impl Order {
    /// The account that alone is to have a voice, or none.
    fn member_of_voice(&self) -> Option<&AccountAddress> {
        let Order::Roles(items) = self else { return None };
        match &items[..] {
            [
                RoleItem {
                    whom: OccupantName::Account(account),
                    role: RoomRole::Visitor | RoomRole::Participant,
                    ..
                },
            ] => Some(account),
            _ => None,
        }
    }

    /// The role of an account becomes an order for the group.
    fn become_verb(&mut self, account: AccountAddress) -> Step {
        if let Order::Roles(items) = self
            && let Some(RoleItem { role, reason, .. }) = items.pop()
        {
            let verb = if role == RoomRole::Visitor { GroupVerb::Mute } else { GroupVerb::Unmute };
            *self = Order::of(verb, reason, vec![account.into()]);
        }
        Step::Ask
    }
}

/// The affiliation that an item gives, for a list of the account `own`.
fn affiliation_of(
    item: &Element<'_, '_>,
    own: Option<&AccountAddress>,
) -> Result<Item, StanzaFault> {
    let word = item.attribute("affiliation");
    let affiliation = Affiliation::ALL.into_iter().find(|it| word.as_deref() == Some(it.word()));
    let affiliation = affiliation.ok_or(StanzaFault::BadRequest)?;
    let whom = match (item.attribute("jid"), item.attribute("nick")) {
        (Some(jid), _) => Whom::Account(account_of(&jid)?),
        (None, Some(nick)) => Whom::Nick(nick_of(&nick)?),
        (None, None) => return Err(StanzaFault::BadRequest),
    };
    // Nobody bans itself (9.1).
    let is_own = matches!(&whom, Whom::Account(it) if Some(it) == own);
    if is_own && affiliation == Affiliation::Outcast {
        return Err(StanzaFault::Conflict);
    }
    Ok(Item { whom, affiliation, reason: reason_of(item, MUC_ADMIN)? })
}

/// The role that an item gives.
fn role_of(item: &Element<'_, '_>) -> Result<RoleItem, StanzaFault> {
    let word = item.attribute("role");
    let role = RoomRole::ALL.into_iter().find(|it| word.as_deref() == Some(it.word()));
    let role = role.ok_or(StanzaFault::BadRequest)?;
    let whom = match (item.attribute("nick"), item.attribute("jid")) {
        (Some(nick), None) => OccupantName::Nick(nick_of(&nick)?),
        (_, Some(jid)) => OccupantName::Account(account_of(&jid)?),
        (None, None) => return Err(StanzaFault::BadRequest),
    };
    Ok(RoleItem { whom, role, reason: reason_of(item, MUC_ADMIN)? })
}

/// The account that an item names.
fn account_of(jid: &str) -> Result<AccountAddress, StanzaFault> {
    let account = Jid::parse(jid).ok_or(StanzaFault::JidMalformed)?.account;
    account.filter(|it| !it.is_group()).ok_or(StanzaFault::ItemNotFound)
}

/// The nick that an item names. No occupant has a nick above the limit of nicks.
fn nick_of(nick: &str) -> Result<Box<str>, StanzaFault> {
    if nick.len() > NICK_BYTES_MAX { Err(StanzaFault::ItemNotFound) } else { Ok(nick.into()) }
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
