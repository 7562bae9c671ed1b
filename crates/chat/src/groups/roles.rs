//! Roles that occupants of a room are given, and lists of them (XEP-0045 5.1, 8.2 to 8.5, 9.6 to
//! 9.8).
//!
//! Roles end with the last device of an account in the room. Invariant: admins and owners are
//! moderators; a list of roles is carried out as a whole, or not at all.

use crate::word::PeerReply;
use crate::{Chat, Effects};
use base::time::Now;
use model::account::AccountAddress;
use model::chat::{
    ChatFault, GroupRole, REASON_BYTES_MAX, ROLES_LISTED_MAX, ROLES_SET_MAX, RoleItem, RoomActor,
    RoomExit, RoomRole,
};
use model::timeline::TimelineId;
use std::collections::HashSet;

impl Chat {
    /// Gives occupants roles, all of them or none (8.2 to 8.4, 9.6, 9.7): a moderator shows out
    /// whose affiliation is not above its own, and gives or takes a voice; an admin makes and
    /// unmakes moderators. Admins and owners are moderators always.
    pub(super) fn sets_roles(
        &mut self,
        now: Now,
        conversation: TimelineId,
        (by, address, device): (TimelineId, &AccountAddress, &str),
        items: &[RoleItem],
        fx: &mut Effects,
    ) -> Result<PeerReply, ChatFault> {
        let state = self.groups.state(conversation)?;
        let rank = state.standing(by).0;
        let is_admin = rank > Some(GroupRole::Member);
        if !is_admin && !self.occupants.moderates(conversation, by) {
            return Err(ChatFault::Forbidden);
        }
        if items.len() > ROLES_SET_MAX || items.iter().any(|it| it.reason.len() > REASON_BYTES_MAX)
        {
            return Err(ChatFault::TooLarge);
        }
        let room = self.occupants.room(conversation).ok_or(ChatFault::UnknownAccount)?;
        let (mut all, mut named) = (Vec::with_capacity(items.len()), HashSet::new());
        for RoleItem { whom, role, reason } in items {
            let (inbox, it) = room.found(whom).ok_or(ChatFault::UnknownAccount)?;
            if !named.insert(inbox) {
                return Err(ChatFault::Invalid); // each occupant has one role
            }
            let of_admin = it.role > Some(GroupRole::Member);
            let is_kick = *role == RoomRole::None;
            if !is_kick && it.room_role() == *role {
                continue;
            }
            if it.role > rank || of_admin && (!is_kick || it.role == rank) {
                return Err(ChatFault::Outranked);
            }
            if !is_admin && (*role == RoomRole::Moderator || it.moderates) {
                return Err(if is_kick { ChatFault::Outranked } else { ChatFault::Forbidden });
            }
            // Whom the group has muted it lets speak again, before it can be a moderator.
            if *role > RoomRole::Visitor && state.is_muted(inbox) {
                let may = is_admin && items.len() == 1 && *role == RoomRole::Participant;
                return if may { Ok(PeerReply::Occupant(it)) } else { Err(ChatFault::Outranked) };
            }
            all.push((inbox, *role, reason));
        }
        if all.is_empty() {
            return Err(ChatFault::Unchanged);
        }
        let group = room.group.clone();
        let nick = self.nick_there((conversation, by), (&group, address, device));
        for (inbox, role, reason) in all {
            let (by, nick) = (address.clone(), nick.clone());
            let actor = RoomActor { by, nick, reason: reason.clone() };
            if role == RoomRole::None {
                let exit = RoomExit::Kicked(Box::new(actor));
                self.shows_out(now, (conversation, inbox), &exit, fx);
                continue;
            }
            if let Some(room) = self.occupants.room(conversation) {
                room.sets_role(inbox, Some(role));
            }
            self.stands_otherwise(conversation, inbox, &actor, fx);
        }
        Ok(PeerReply::Done)
    }

    /// The occupants with a role, for one of them, or for a member (8.5, 9.8).
    pub(super) fn lists_roles(
        &mut self,
        conversation: TimelineId,
        by: TimelineId,
        role: RoomRole,
    ) -> Result<PeerReply, ChatFault> {
        if self.occupants.one_of(conversation, by).is_none() {
            self.groups.state(conversation)?.member(by)?;
        }
        let room = self.occupants.room(conversation);
        let all = room.map(|room| room.with_role(role)).unwrap_or_default();
        match all.len() > ROLES_LISTED_MAX {
            true => Err(ChatFault::TooLarge),
            false => Ok(PeerReply::Occupants(all)),
        }
    }
}
