//! Groups: orders and lists of members, as both directions have them (IM 10).
//!
//! Changes of a group are announced by messages in it; these fields are for requests and their
//! answers. Of the names of an order one more is kept than is allowed, so that an order with too
//! many is refused.

use super::WireFault;
use super::protobuf::{Body, Sink, Value};
use model::account::{AccountAddress, AccountId};
use model::chat::{
    GROUP_NAMED_MAX, GroupChanged, GroupMember, GroupRole, GroupVerb, MemberStatus, MembersPage,
    RoomRules,
};
use model::timeline::Seq;

/// `GroupOrder`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct GroupFields<'a> {
    /// Number that the answer repeats.
    pub number: u32,
    /// Which, perhaps without a domain; empty: the one that is made.
    pub group: &'a str,
    /// The asker's id for it.
    pub client_id: &'a [u8],
    /// The verb's number.
    pub verb: u32,
    /// The title, of those that have one.
    pub title: &'a str,
    /// Accounts that the order is about, perhaps without domains; at most one more than may be.
    pub members: Vec<&'a str>,
}

/// `GroupChanged`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ChangedFields<'a> {
    /// Number of the order.
    pub number: u32,
    /// The group, whole.
    pub group: &'a str,
    /// The server's number for the message that tells of it.
    pub id: u64,
    /// Its place in the conversation.
    pub seq: Seq,
    /// When it was taken, Unix milliseconds.
    pub at_ms: u64,
    /// Whether an order with this id was carried out before: this repeats its answer.
    pub again: bool,
}

/// `Members`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MembersFields<'a> {
    /// Number that the answer repeats.
    pub number: u32,
    /// The group, perhaps without a domain.
    pub group: &'a str,
    /// The version that is gone on with; 0: none.
    pub version: u64,
    /// Number of members to skip.
    pub from: u32,
    /// The most that are wanted.
    pub count: u32,
    /// Whether to list banned accounts instead.
    pub banned: bool,
}

/// `MembersPage`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct MembersPageFields<'a> {
    /// Number of the request.
    pub number: u32,
    /// The group, whole.
    pub group: &'a str,
    /// Version of the group to which the page belongs.
    pub version: u64,
    /// The group's title.
    pub title: &'a str,
    /// Only owner and admins may speak.
    pub closed: bool,
    /// How many members there are.
    pub total: u32,
    /// Number of members before these.
    pub from: u32,
    /// Members.
    pub members: Vec<MemberFields<'a>>,
    /// The group's description.
    pub description: &'a str,
    /// Whether anybody who knows its address may become a member.
    pub unlocked: bool,
    /// Whether the group is in the list of its domain.
    pub public: bool,
    /// Whether the group ends as soon as nobody is in its room.
    pub temporary: bool,
}

/// `Member`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MemberFields<'a> {
    /// Full address of the member.
    pub address: &'a str,
    /// The account's number.
    pub account: u64,
    /// The role's number.
    pub role: u32,
    /// Whether the member is muted.
    pub muted: bool,
}

impl<'a> GroupFields<'a> {
    pub(super) fn read(value: Value<'a>) -> Result<GroupFields<'a>, WireFault> {
        let mut it = GroupFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.number = value.u32()?,
                2 => it.group = value.text()?,
                3 => it.client_id = value.bytes()?,
                4 => it.verb = value.u32()?,
                5 => it.title = value.text()?,
                6 => {
                    let name = value.text()?;
                    if it.members.len() <= GROUP_NAMED_MAX {
                        it.members.push(name);
                    }
                }
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for GroupFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.u32(1, self.number);
        sink.text(2, self.group);
        sink.bytes(3, self.client_id);
        sink.u32(4, self.verb);
        sink.text(5, self.title);
        self.members.iter().for_each(|name| sink.each_text(6, name));
    }
}

impl<'a> ChangedFields<'a> {
    /// Of a change.
    pub fn of(changed: &'a GroupChanged) -> ChangedFields<'a> {
        let GroupChanged { number, id, seq, at_ms, again, .. } = *changed;
        ChangedFields { number, group: changed.group.as_str(), id, seq, at_ms, again }
    }

    /// The change, if it can be one.
    pub fn changed(&self) -> Result<GroupChanged, WireFault> {
        let ChangedFields { number, id, seq, at_ms, again, .. } = *self;
        Ok(GroupChanged { number, group: address(self.group)?, id, seq, at_ms, again })
    }

    pub(super) fn read(value: Value<'a>) -> Result<ChangedFields<'a>, WireFault> {
        let mut it = ChangedFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.number = value.u32()?,
                2 => it.group = value.text()?,
                3 => it.id = value.fixed64()?,
                4 => it.seq = value.u64()?,
                5 => it.at_ms = value.u64()?,
                6 => it.again = value.bool()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for ChangedFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.u32(1, self.number);
        sink.text(2, self.group);
        sink.fixed64(3, self.id);
        sink.u64(4, self.seq);
        sink.u64(5, self.at_ms);
        sink.bool(6, self.again);
    }
}

impl<'a> MembersFields<'a> {
    pub(super) fn read(value: Value<'a>) -> Result<MembersFields<'a>, WireFault> {
        let mut it = MembersFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.number = value.u32()?,
                2 => it.group = value.text()?,
                3 => it.version = value.fixed64()?,
                4 => it.from = value.u32()?,
                5 => it.count = value.u32()?,
                80 => it.banned = value.bool()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for MembersFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.u32(1, self.number);
        sink.text(2, self.group);
        sink.fixed64(3, self.version);
        sink.u32(4, self.from);
        sink.u32(5, self.count);
        sink.bool(80, self.banned);
    }
}

impl<'a> MembersPageFields<'a> {
    /// Of a page.
    pub fn of(page: &'a MembersPage) -> MembersPageFields<'a> {
        let MembersPage { number, version, closed, unlocked, public, temporary, .. } = *page;
        let MembersPage { total, from, .. } = *page;
        // A group whose room has a password is joined by invitation only.
        let unlocked = unlocked && !page.protected;
        let members = page.members.iter().map(MemberFields::of).collect();
        let (group, title, description) = (page.group.as_str(), &*page.title, &*page.description);
        MembersPageFields {
            number,
            group,
            version,
            title,
            closed,
            total,
            from,
            members,
            description,
            unlocked,
            public,
            temporary,
        }
    }

    /// The page, if it can be one.
    pub fn page(&self) -> Result<MembersPage, WireFault> {
        let MembersPageFields { number, version, closed, unlocked, .. } = *self;
        let MembersPageFields { public, temporary, total, from, .. } = *self;
        let members = self.members.iter().map(MemberFields::member).collect::<Result<_, _>>()?;
        let (group, title) = (address(self.group)?, self.title.into());
        let description = self.description.into();
        Ok(MembersPage {
            number,
            group,
            version,
            title,
            description,
            closed,
            unlocked,
            public,
            temporary,
            protected: false,
            rules: RoomRules::default(),
            occupants: 0,
            own: None,
            total,
            from,
            members,
        })
    }

    pub(super) fn read(value: Value<'a>) -> Result<MembersPageFields<'a>, WireFault> {
        let mut it = MembersPageFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.number = value.u32()?,
                2 => it.group = value.text()?,
                3 => it.version = value.fixed64()?,
                4 => it.title = value.text()?,
                5 => it.closed = value.bool()?,
                6 => it.total = value.u32()?,
                7 => it.from = value.u32()?,
                8 => it.members.push(MemberFields::read(value)?),
                80 => it.description = value.text()?,
                81 => it.unlocked = value.bool()?,
                82 => it.public = value.bool()?,
                83 => it.temporary = value.bool()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for MembersPageFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.u32(1, self.number);
        sink.text(2, self.group);
        sink.fixed64(3, self.version);
        sink.text(4, self.title);
        sink.bool(5, self.closed);
        sink.u32(6, self.total);
        sink.u32(7, self.from);
        self.members.iter().for_each(|member| sink.body(8, member));
        sink.text(80, self.description);
        sink.bool(81, self.unlocked);
        sink.bool(82, self.public);
        sink.bool(83, self.temporary);
    }
}

impl<'a> MemberFields<'a> {
    fn of(status: &'a MemberStatus) -> MemberFields<'a> {
        let MemberStatus { member, role, muted, .. } = status;
        let (address, account) = (member.address.as_str(), member.id.0);
        MemberFields { address, account, role: role_number(*role), muted: *muted }
    }

    fn member(&self) -> Result<MemberStatus, WireFault> {
        let member = GroupMember { address: address(self.address)?, id: AccountId(self.account) };
        // A role of a later version may do at least what every member may.
        let role = role_of(self.role).unwrap_or(GroupRole::Member);
        Ok(MemberStatus { member, role, muted: self.muted, reason: None })
    }

    fn read(value: Value<'a>) -> Result<MemberFields<'a>, WireFault> {
        let mut it = MemberFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.address = value.text()?,
                2 => it.account = value.fixed64()?,
                3 => it.role = value.u32()?,
                4 => it.muted = value.bool()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for MemberFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.text(1, self.address);
        sink.fixed64(2, self.account);
        sink.u32(3, self.role);
        sink.bool(4, self.muted);
    }
}

pub(crate) fn address(text: &str) -> Result<AccountAddress, WireFault> {
    AccountAddress::parse(text, "").map_err(|_| WireFault::Address)
}

/// Parses the address of a contact, which may be a domain itself: `@domain`.
pub(super) fn contact_address(text: &str) -> Result<AccountAddress, WireFault> {
    AccountAddress::of_contact(text).ok_or(WireFault::Address)
}

/// The number of a verb on the wire (IM 8.4).
pub const fn verb_number(verb: GroupVerb) -> u32 {
    match verb {
        GroupVerb::Create => 1,
        GroupVerb::Add => 2,
        GroupVerb::Remove => 3,
        GroupVerb::Leave => 4,
        GroupVerb::HandOver => 5,
        GroupVerb::Promote => 6,
        GroupVerb::Demote => 7,
        GroupVerb::Mute => 8,
        GroupVerb::Unmute => 9,
        GroupVerb::Close => 10,
        GroupVerb::Open => 11,
        GroupVerb::Rename => 12,
        GroupVerb::Dissolve => 13,
        GroupVerb::Join => 14,
        GroupVerb::Ban => 15,
        GroupVerb::Unban => 16,
        GroupVerb::Describe => 17,
        GroupVerb::Lock => 18,
        GroupVerb::Unlock => 19,
        GroupVerb::Reveal => 20,
        GroupVerb::Hide => 21,
        GroupVerb::Persist => 22,
        GroupVerb::Unpersist => 23,
        GroupVerb::Invite => 24,
        GroupVerb::AddOwner => 25,
        GroupVerb::RemoveOwner => 26,
        // It is ordered by XMPP and the API.
        GroupVerb::Set => 0,
    }
}

/// The verb with this number; `None`: none, or one that a later version added.
pub fn verb_of(number: u32) -> Option<GroupVerb> {
    GroupVerb::ALL.iter().find(|verb| number > 0 && verb_number(**verb) == number).copied()
}

/// The number of a role on the wire (IM 8.5).
pub const fn role_number(role: GroupRole) -> u32 {
    match role {
        GroupRole::Member => 1,
        GroupRole::Admin => 2,
        GroupRole::Owner => 3,
    }
}

/// The role with this number; `None`: one that a later version added.
pub fn role_of(number: u32) -> Option<GroupRole> {
    GroupRole::ALL.iter().find(|role| role_number(**role) == number).copied()
}
