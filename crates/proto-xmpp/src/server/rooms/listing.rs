//! Lists of those who have a role in a room (XEP-0045 9.5, 9.8, 10.5, 10.8), and a glance at what a
//! room is.
//!
//! Invariant: a list is whole, or refused.

use super::occupants::affiliation_of;
use super::walk::Walk;
use super::{MUC_ADMIN, OccupancyAsk, RoomAnswer, RoomRequest, Step, fault_of};
use crate::fault::StanzaFault;
use crate::render::full_jid;
use crate::render::room::reason;
use crate::xml::scan::Element;
use crate::xml::text::escaped;
use model::account::AccountAddress;
use model::chat::{ChatFault, GroupRole, MemberStatus, Occupant, RoomRole, nick_of};
use std::sync::Arc;

/// Members that are listed by a role. More are refused.
const MEMBERS_LISTED_MAX: usize = 1_024;

/// Bytes of reasons in a list of those who are banned, as XML; who has no room is there without.
const REASONS_BYTES_MAX: usize = 128 * 1024;

/// Longest list of occupants by role, bytes: many servers take no stanza above 512 KiB.
const ROLES_BYTES_MAX: usize = 256 * 1024;

/// Request for the state or the settings of a room.
pub(super) struct Looking {
    pub(super) walk: Walk,
    pub(super) what: Glance,
}

/// Purpose of a glance.
pub(super) enum Glance {
    Information,
    Form,
    Items,
}

impl Looking {
    /// Whether it is answered to whoever may enter the room.
    fn is_for_all(&self) -> bool {
        matches!(self.what, Glance::Information | Glance::Items)
    }

    /// Goes on with an answer for the account `own`.
    pub(super) fn take(&mut self, own: &str, answer: RoomAnswer<'_>) -> Step {
        let is_owner =
            |it: &MemberStatus| it.member.address.as_str() == own && it.role == GroupRole::Owner;
        match answer {
            // How a room is configured its owners hear (10.2).
            RoomAnswer::Members(page)
                if !self.is_for_all()
                    && !page.members.iter().chain(page.own.as_deref()).any(is_owner) =>
            {
                Step::Refused(StanzaFault::Forbidden)
            }
            RoomAnswer::Members(page) => match self.walk.take(page, |_, _| false) {
                Ok(_) => Step::Done,
                Err(fault) => Step::Refused(fault),
            },
            // Who subscribes to a channel hears no more of it than that it is there.
            RoomAnswer::Failed(ChatFault::Forbidden)
                if self.walk.room.is_channel() && self.is_for_all() =>
            {
                self.walk.is_channel();
                Step::Done
            }
            RoomAnswer::Failed(ChatFault::NotMember) => Step::Refused(match self.what {
                Glance::Information | Glance::Items => StanzaFault::ItemNotFound,
                Glance::Form => StanzaFault::Forbidden,
            }),
            RoomAnswer::Failed(why) => Step::Refused(fault_of(why)),
            _ => Step::Refused(StanzaFault::ResourceConstraint),
        }
    }
}

/// Request for the members of a room that have a role.
pub(super) struct Listing {
    pub(super) walk: Walk,
    wanted: Wanted,
}

enum Wanted {
    Affiliation(GroupRole),
    /// Banned accounts (XEP-0045 9.2).
    Outcasts,
    /// Occupants with a role (8.5, 9.8), and those that were found.
    Role(RoomRole, Vec<Arc<Occupant>>),
}

impl Listing {
    /// The list that a `query` asks for.
    pub(super) fn of(
        room: AccountAddress,
        query: &Element<'_, '_>,
    ) -> Result<Listing, StanzaFault> {
        let mut items = query.children().filter(|it| it.is("item", MUC_ADMIN));
        let (Some(item), None) = (items.next(), items.next()) else {
            return Err(StanzaFault::BadRequest);
        };
        let (affiliation, role) = (item.attribute("affiliation"), item.attribute("role"));
        let wanted = match (affiliation.as_deref(), role.as_deref()) {
            (Some("outcast"), None) => Wanted::Outcasts,
            (Some(word), None) => {
                let role = GroupRole::ALL.iter().find(|role| role.word() == word);
                Wanted::Affiliation(*role.ok_or(StanzaFault::BadRequest)?)
            }
            (None, Some(word)) => {
                let role = RoomRole::ALL.into_iter().find(|role| role.word() == word);
                let role = role.filter(|role| *role != RoomRole::None);
                Wanted::Role(role.ok_or(StanzaFault::BadRequest)?, Vec::new())
            }
            _ => return Err(StanzaFault::BadRequest),
        };
        let walk = match wanted {
            Wanted::Outcasts => Walk::of_banned(room),
            _ => Walk::new(room),
        };
        Ok(Listing { walk, wanted })
    }

    pub(super) fn request(&self) -> RoomRequest {
        match &self.wanted {
            Wanted::Role(role, _) => {
                RoomRequest::Room(self.walk.room.clone(), OccupancyAsk::List(*role))
            }
            _ => self.walk.request(),
        }
    }

    pub(super) fn take(&mut self, answer: RoomAnswer<'_>) -> Step {
        let page = match answer {
            RoomAnswer::Occupants(all) => {
                if all.iter().map(|it| with_role(it).len()).sum::<usize>() > ROLES_BYTES_MAX {
                    return Step::Refused(StanzaFault::PolicyViolation);
                }
                if let Wanted::Role(_, found) = &mut self.wanted {
                    *found = all.to_vec();
                }
                return Step::Done;
            }
            // Whoever is no member is not told who is.
            RoomAnswer::Members(page) if page.members.is_empty() && page.total > 0 => {
                return Step::Refused(StanzaFault::Forbidden);
            }
            RoomAnswer::Members(page) => page,
            RoomAnswer::Failed(ChatFault::NotMember) => {
                return Step::Refused(StanzaFault::Forbidden);
            }
            RoomAnswer::Failed(why) => return Step::Refused(fault_of(why)),
            _ => return Step::Refused(StanzaFault::ResourceConstraint),
        };
        let wanted = &self.wanted;
        let is_wanted = |member: &MemberStatus, found: usize| {
            let has = match wanted {
                Wanted::Affiliation(role) => member.role == *role,
                Wanted::Outcasts => true,
                Wanted::Role(..) => false,
            };
            has && found <= MEMBERS_LISTED_MAX
        };
        match self.walk.take(page, is_wanted) {
            Ok(_) if self.walk.found.len() > MEMBERS_LISTED_MAX => {
                Step::Refused(StanzaFault::PolicyViolation)
            }
            Ok(true) => Step::Done,
            Ok(false) => Step::Ask,
            Err(fault) => Step::Refused(fault),
        }
    }

    pub(super) fn result(&self) -> String {
        let mut left = REASONS_BYTES_MAX;
        let item = |member: &MemberStatus| {
            if let Wanted::Outcasts = self.wanted {
                let jid = escaped(member.member.address.as_str());
                let why = reason(member.reason.as_deref().unwrap_or_default());
                let why = Some(why).filter(|why| why.len() <= left).unwrap_or_default();
                left -= why.len();
                return match why.as_str() {
                    "" => format!("<item affiliation='outcast' jid='{jid}'/>"),
                    why => format!("<item affiliation='outcast' jid='{jid}'>{why}</item>"),
                };
            }
            let (jid, affiliation) = (&member.member.address, member.role.word());
            let nick = nick_of(&self.walk.room, jid);
            format!("<item affiliation='{affiliation}' jid='{jid}' nick='{nick}'/>")
        };
        if let Wanted::Role(_, found) = &self.wanted {
            let items: String = found.iter().map(|it| with_role(it)).collect();
            return format!("<query xmlns='{MUC_ADMIN}'>{items}</query>");
        }
        let items: String = self.walk.found.iter().map(item).collect();
        format!("<query xmlns='{MUC_ADMIN}'>{items}</query>")
    }
}

/// Name of a room: its title, if it has one.
pub(super) fn name_of<'a>(room: &'a AccountAddress, title: &'a str) -> &'a str {
    if title.is_empty() { room.name() } else { title }
}

/// The item of an occupant in a list by role.
fn with_role(it: &Occupant) -> String {
    let (affiliation, role) = (affiliation_of(it.role), it.room_role().word());
    let (nick, jid) = (escaped(&it.nick), escaped(&full_jid(&it.account, &it.device)));
    format!("<item affiliation='{affiliation}' role='{role}' jid='{jid}' nick='{nick}'/>")
}
