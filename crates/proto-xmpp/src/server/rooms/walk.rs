//! Going over a group's members, page by page, of one version.
//!
//! Invariant: what was found is of one version of the group; a walk whose group changes begins
//! anew, and is given up when that happens too often.

use super::RoomRequest;
use crate::fault::StanzaFault;
use model::account::AccountAddress;
use model::chat::{MEMBERS_PAGE_MAX, MemberStatus, MembersPage, MembersRange, RoomRules};

/// How often a walk begins anew before it is given up.
const RESTARTS_MAX: u8 = 8;

/// A walk over the members of a group.
pub(super) struct Walk {
    pub(super) room: AccountAddress,
    /// Members that are asked for at once.
    count: u16,
    version: u64,
    seen: u32,
    restarts: u8,
    pub(super) title: Box<str>,
    pub(super) description: Box<str>,
    pub(super) is_closed: bool,
    pub(super) is_unlocked: bool,
    pub(super) is_public: bool,
    pub(super) is_temporary: bool,
    pub(super) is_protected: bool,
    pub(super) rules: RoomRules,
    /// Whether it lists banned accounts instead of members.
    is_of_banned: bool,
    pub(super) total: u32,
    pub(super) occupants: u32,
    /// Members that are wanted.
    pub(super) found: Vec<MemberStatus>,
}

impl Walk {
    pub(super) fn new(room: AccountAddress) -> Walk {
        Walk {
            room,
            count: MEMBERS_PAGE_MAX,
            version: 0,
            seen: 0,
            restarts: 0,
            title: Box::default(),
            description: Box::default(),
            is_closed: false,
            is_unlocked: false,
            is_public: false,
            is_temporary: false,
            is_protected: false,
            rules: RoomRules::default(),
            is_of_banned: false,
            total: 0,
            occupants: 0,
            found: Vec::new(),
        }
    }

    /// One that asks for no more than what the group is.
    pub(super) fn glance(room: AccountAddress) -> Walk {
        Walk { count: 1, ..Walk::new(room) }
    }

    /// One over those who are banned.
    pub(super) fn of_banned(room: AccountAddress) -> Walk {
        Walk { is_of_banned: true, ..Walk::new(room) }
    }

    pub(super) fn request(&self) -> RoomRequest {
        let group = self.room.clone().into();
        let (version, from, count) = (self.version, self.seen, self.count);
        let banned = self.is_of_banned;
        RoomRequest::Members(MembersRange { group, version, from, count, banned })
    }

    /// Sets the walk up for a channel, which shows its subscribers to nobody.
    pub(super) fn is_channel(&mut self) {
        (self.is_closed, self.is_unlocked) = (true, true);
    }

    /// A page has come, of which those members are kept for whom `keeps` says so; it gets the
    /// number of those kept already. Whether it was the last.
    pub(super) fn take(
        &mut self,
        page: &MembersPage,
        keeps: impl Fn(&MemberStatus, usize) -> bool,
    ) -> Result<bool, StanzaFault> {
        if page.version != self.version {
            self.restarts += u8::from(self.version != 0);
            if self.restarts > RESTARTS_MAX {
                return Err(StanzaFault::ResourceConstraint);
            }
            (self.version, self.seen) = (page.version, 0);
            self.found.clear();
        }
        (self.title, self.is_closed) = (page.title.clone(), page.closed);
        (self.description, self.is_unlocked) = (page.description.clone(), page.unlocked);
        (self.is_public, self.is_temporary) = (page.public, page.temporary);
        (self.is_protected, self.rules) = (page.protected, page.rules.clone());
        (self.total, self.occupants) = (page.total, page.occupants);
        self.seen += page.members.len() as u32;
        for member in &page.members {
            if keeps(member, self.found.len()) {
                self.found.push(member.clone());
            }
        }
        Ok(page.members.is_empty() || self.seen >= page.total)
    }
}
