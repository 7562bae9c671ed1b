//! Pages of lists: the members of a group, for a member that asks; and the public groups of a
//! domain, for accounts of this server and of others.
//!
//! A list belongs to a **version** of its group, the number of the message that told of its last
//! change. Pages of one version are parts of one list. Invariant: a client that goes on with a list
//! that is no longer the group's gets a page of the present one from its beginning on.

use super::{ChatDelivery, ChatRequest, GroupMember, RoomRules};
use crate::account::{AccountAddress, Addressee};
use crate::timeline::Seq;
use base::encoding::Encoding;
use std::sync::Arc;

/// Most members that are asked for at once.
pub const MEMBERS_PAGE_MAX: u16 = 256;

/// Declares the roles once: variant, word, meaning.
macro_rules! roles {
    ($($variant:ident $word:literal $meaning:literal;)+) => {
        /// Role of a member; a greater one may do more.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum GroupRole { $(#[doc = $meaning] $variant,)+ }

        impl GroupRole {
            /// All roles.
            pub const ALL: &'static [GroupRole] = &[$(GroupRole::$variant,)+];

            /// The word for people and the log.
            pub const fn word(self) -> &'static str {
                match self { $(GroupRole::$variant => $word,)+ }
            }
        }
    };
}

roles! {
    Member "member" "Says something, and leaves.";
    Admin "admin" "Adds members, removes and mutes those who are none.";
    Owner "owner" "Does everything, and leaves if another owner stays.";
}

/// Part of the list of a group's members.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct MembersRange {
    /// Address of the group.
    pub group: Addressee,
    /// The version whose list is gone on with; 0: none.
    pub version: u64,
    /// Number of members to skip.
    pub from: u32,
    /// The most that are wanted, 1 to [`MEMBERS_PAGE_MAX`].
    pub count: u16,
    /// Whether to list banned accounts instead: for owner and admins.
    pub banned: bool,
}

/// A page of the members of a group, and what the group is.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct MembersPage {
    /// Number of the request.
    pub number: u32,
    /// The group's whole address.
    pub group: AccountAddress,
    /// The version that this is of. If it is not the one that was asked for, `from` is 0.
    pub version: u64,
    /// The group's title.
    pub title: Box<str>,
    /// The group's description.
    pub description: Box<str>,
    /// Only owner and admins may say something.
    pub closed: bool,
    /// Whether anybody who knows its address may become a member.
    pub unlocked: bool,
    /// Whether the group is in the list of its domain.
    pub public: bool,
    /// Whether the group ends as soon as nobody is in its room.
    pub temporary: bool,
    /// Whether its room is entered with a password.
    pub protected: bool,
    /// Rules of its room; the password for its owners alone.
    pub rules: RoomRules,
    /// How many occupants its room has.
    pub occupants: u32,
    /// How many members there are; or banned ones, if those were asked for.
    pub total: u32,
    /// Number of members before these.
    pub from: u32,
    /// Members, in an order that stays while the version does.
    pub members: Vec<MemberStatus>,
    /// The asking account, on the first page of several, if it is a member and not among these.
    pub own: Option<Box<MemberStatus>>,
}

impl MembersPage {
    /// Approximate memory, bytes.
    pub fn weight(&self) -> usize {
        let texts = self.title.len() + self.description.len() + self.rules.password.len();
        let members = self.members.iter().chain(self.own.as_deref()).map(MemberStatus::weight);
        size_of::<MembersPage>() + texts + members.sum::<usize>()
    }
}

/// Most groups that are asked for at once.
pub const PUBLIC_PAGE_MAX: u16 = 256;

/// Part of the list of the public groups of a domain.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct PublicRange {
    /// The domain of their addresses.
    pub domain: Box<str>,
    /// Lists groups behind this name, or before it; `None`: from the end where the listing begins.
    pub from: Option<Box<str>>,
    /// Whether to list backwards: the nearest groups before the name.
    pub backwards: bool,
    /// The most that are wanted, up to [`PUBLIC_PAGE_MAX`].
    pub count: u16,
}

impl PublicRange {
    /// Approximate memory beside itself, bytes.
    pub fn weight(&self) -> usize {
        self.domain.len() + self.from.as_ref().map_or(0, |it| it.len())
    }
}

/// A page of the public groups of a domain.
#[derive(Clone, PartialEq, Eq, Default, Debug, Encoding)]
pub struct PublicPage {
    /// Number of the request.
    pub number: u32,
    /// The groups, in the order of their names.
    pub groups: Vec<PublicGroup>,
}

impl PublicPage {
    /// Approximate memory, bytes.
    pub fn weight(&self) -> usize {
        let of =
            |it: &PublicGroup| size_of::<PublicGroup>() + it.group.as_str().len() + it.title.len();
        size_of::<PublicPage>() + self.groups.iter().map(of).sum::<usize>()
    }
}

/// A public group.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Encoding)]
pub struct PublicGroup {
    /// Its address.
    pub group: AccountAddress,
    /// Its title.
    pub title: Box<str>,
}

/// A member of a group.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct MemberStatus {
    /// The member.
    pub member: GroupMember,
    /// The member's role.
    pub role: GroupRole,
    /// Whether the member is muted: its messages are refused.
    pub muted: bool,
    /// Why it is banned, of who is, if that was said.
    pub reason: Option<Arc<str>>,
}

impl MemberStatus {
    /// Approximate memory, bytes.
    pub fn weight(&self) -> usize {
        let reason = self.reason.as_ref().map_or(0, |it| it.len());
        size_of::<MemberStatus>() + self.member.address.as_str().len() + reason
    }
}

/// A change of a group that is stored.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct GroupChanged {
    /// Number of the request.
    pub number: u32,
    /// The group's whole address.
    pub group: AccountAddress,
    /// The server's number for the message that tells of it.
    pub id: u64,
    /// When it was taken, Unix milliseconds.
    pub at_ms: u64,
    /// Its place in the conversation.
    pub seq: Seq,
    /// Whether an order with this id was carried out before: this repeats its answer.
    pub again: bool,
}

// What is large is behind a pointer: these wait in queues.
const _: () = assert!(size_of::<ChatRequest>() <= 40 && size_of::<ChatDelivery>() <= 40);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_may_more_than_an_admin_and_that_one_more_than_a_member() {
        assert!(GroupRole::ALL.is_sorted());
        let words: Vec<_> = GroupRole::ALL.iter().map(|role| role.word()).collect();
        assert_eq!(words, ["member", "admin", "owner"]);
    }
}
