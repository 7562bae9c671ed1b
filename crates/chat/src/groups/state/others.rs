//! The rest of a group's state: members of other servers, banned accounts, rights of accounts that
//! are no members, and who is above whom.
//! Pure, and part of the state. Invariant: a list of members of other servers has all of them, and
//! they have no inbox.

use super::{GroupState, Membership, Wanted, Wish};
use crate::groups::asides::{Declining, Hearer};
use crate::groups::changes::ChangeOrder;
use crate::groups::nicks::key_of;
use crate::groups::occupants::Standing;
use base::hash::HashKey;
use model::account::AccountAddress;
use model::chat::{
    AsideWhat, ChatFault, GroupAside, GroupChange, GroupMember, GroupRole as Role, GroupVerb,
    MemberStatus, RoomRule, RoomRules, nick_of,
};
use model::timeline::{Space, TimelineId};
use std::sync::Arc;

/// The members of a group that are on other servers.
#[derive(Clone, Default, Debug)]
pub(crate) struct Abroad {
    pub all: Arc<[AccountAddress]>,
}

impl GroupState {
    /// The number of accounts that the state has: members, former ones, invited and banned ones.
    pub(crate) fn known(&self) -> usize {
        self.members.len() + self.leavers.len() + self.invited.len() + self.banned.len()
    }

    /// Whether an account that is no member is invited.
    pub(crate) fn is_invited(&self, inbox: TimelineId) -> bool {
        self.invited.contains_key(&inbox)
    }

    /// Whether all of these accounts are invited.
    pub(super) fn has_invited(&self, home: HashKey, all: &[GroupMember]) -> bool {
        let mut inboxes = all.iter().map(|one| one.address.inbox(home, one.id));
        !all.is_empty() && inboxes.all(|inbox| self.is_invited(inbox))
    }

    /// The verb for a member's wish to add these accounts: those that left by themselves are
    /// invited. Either all of them are to be members, or all are to be invited.
    pub(super) fn adds_or_invites(
        &self,
        home: HashKey,
        all: &[GroupMember],
    ) -> Result<GroupVerb, ChatFault> {
        let went = |one: &&GroupMember| self.leavers.went(one.address.inbox(home, one.id));
        match all.iter().filter(went).count() {
            0 => Ok(GroupVerb::Add),
            count if count == all.len() && !self.is_channel => Ok(GroupVerb::Invite),
            _ => Err(ChatFault::InvitationNeeded),
        }
    }

    /// Those of these accounts on which a verb has an effect: no account is invited twice.
    pub(super) fn not_yet(
        &self,
        home: HashKey,
        verb: GroupVerb,
        mut all: Vec<GroupMember>,
    ) -> Vec<GroupMember> {
        let is_invite = verb == GroupVerb::Invite;
        all.retain(|one| !is_invite || !self.is_invited(one.address.inbox(home, one.id)));
        all
    }

    /// The accounts that get a change and are no members: those that it invites, and those that are
    /// invited until then.
    pub(super) fn told_outside(&self, home: HashKey, change: &GroupChange) -> Vec<TimelineId> {
        use GroupVerb::{Dissolve, Invite, Leave, Remove};
        let named = change.members.iter().map(|one| one.address.inbox(home, one.id));
        match change.verb {
            Dissolve => self.invited.keys().copied().collect(),
            Invite => named.collect(),
            Leave | Remove => named.filter(|inbox| self.is_invited(*inbox)).collect(),
            _ => Vec::new(),
        }
    }

    /// The accounts that follow a group, if its members read it, from the message of a change on:
    /// new members; and accounts that are or were invited, which draw that message and no more.
    pub(super) fn begin_at(&self, home: HashKey, change: &GroupChange) -> Vec<TimelineId> {
        use GroupVerb::{Dissolve, Invite, Leave, Remove};
        let named = change.members.iter().map(|one| one.address.inbox(home, one.id));
        match change.verb {
            Dissolve => self.invited.keys().copied().collect(),
            verb if verb.makes_members() || matches!(verb, Invite | Leave | Remove) => {
                named.filter(|inbox| inbox.space() != Space::Foreign).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The number of the message by which an account has left that has messages of the group; none:
    /// it is a member.
    pub(crate) fn left_by(&self, inbox: TimelineId) -> Option<u64> {
        let is_member = self.members.contains_key(&inbox);
        (!is_member).then(|| self.leavers.left_by(inbox))
    }

    /// The number of the last message by which a member left; 0: no member has left.
    pub(crate) fn last_left(&self) -> u64 {
        self.leavers.last()
    }

    /// The number of banned accounts.
    pub(crate) fn banned_len(&self) -> usize {
        self.banned.len()
    }

    pub(crate) fn description(&self) -> &str {
        &self.description
    }

    /// Whether a wanted change is the description that the group already has.
    pub(crate) fn is_described(&self, wish: &Wanted) -> bool {
        let Wanted::One(Wish { verb, title, .. }) = wish else { return false };
        *verb == GroupVerb::Describe && *title == self.description
    }

    /// Whether any account that knows the group's address may become a member.
    pub(crate) fn is_unlocked(&self) -> bool {
        self.unlocked_since.is_some()
    }

    /// Whether any account that knows the group's address may join it by itself: it says no
    /// password by that.
    pub(super) fn lets_in(&self) -> bool {
        self.is_unlocked() && self.rules.password.is_empty()
    }

    /// The rules of the group's room.
    pub(crate) fn rules(&self) -> &RoomRules {
        &self.rules
    }

    /// The change that hands the room's password to accounts that changes add or invite (XEP-0045
    /// 7.8.2).
    pub(crate) fn key_for(&self, changes: &[GroupChange]) -> Option<GroupChange> {
        let adds = |it: &GroupChange| matches!(it.verb, GroupVerb::Add | GroupVerb::Invite);
        let password = Some(&self.rules.password).filter(|it| !it.is_empty());
        let password = password.filter(|_| changes.iter().any(adds))?;
        Some(GroupChange::of_rule(&RoomRule::Key(password.clone())))
    }

    /// The number of the message since which any account may enter, and reads messages.
    pub(crate) fn unlocked_since(&self) -> Option<u64> {
        self.unlocked_since
    }

    /// The standing of an account: its role, if it is a member, and whether it may say nothing.
    pub(crate) fn standing(&self, inbox: TimelineId) -> Standing {
        let role = self.members.get(&inbox).map(|it| it.role);
        let is_silent = self.closed || self.members.get(&inbox).is_some_and(|it| it.muted);
        (role, is_silent && role <= Some(Role::Member))
    }

    /// Whether the group has muted a member.
    pub(crate) fn is_muted(&self, inbox: TimelineId) -> bool {
        self.members.get(&inbox).is_some_and(|it| it.muted && it.role == Role::Member)
    }

    /// The standing of an account that enters the group's room with a password, if that is the
    /// room's, whatever the account is there (XEP-0045 7.2.5). An invited account becomes a member
    /// first.
    pub(crate) fn may_enter(
        &self,
        inbox: TimelineId,
        (address, password): (&AccountAddress, Option<&str>),
    ) -> Result<Standing, ChatFault> {
        self.is_there()?;
        if self.banned.contains_key(address) {
            return Err(ChatFault::GroupBanned);
        }
        let is_invited = self.is_invited(inbox);
        let is_visitor = self.is_unlocked() && !is_invited;
        let is_let_in = self.members.contains_key(&inbox) || is_visitor || is_invited;
        let wanted = &*self.rules.password;
        if is_let_in && !wanted.is_empty() && password != Some(wanted) {
            return Err(ChatFault::BadPassword);
        }
        match self.members.contains_key(&inbox) || is_visitor {
            true => Ok(self.standing(inbox)),
            false => Err(ChatFault::NotMember),
        }
    }

    /// Whether a name in the room is that of another member's account, or the address of another
    /// account, member or not: orders name occupants by either.
    pub(crate) fn reserves(&self, group: &AccountAddress, nick: &str, by: &AccountAddress) -> bool {
        let key = key_of(nick);
        let is_its = |it: &AccountAddress| key_of(nick_of(group, it)) == key;
        let is_address = nick.contains('@') && AccountAddress::parse(nick.trim(), "").is_ok();
        if is_address && !is_its(by) && key != key_of(by.as_str()) {
            return true;
        }
        // Nobody chooses a name in most rooms.
        key.is_some() && !is_its(by) && self.members.values().any(|it| is_its(&it.member.address))
    }

    /// Ends the memberships of accounts of other servers that have become members by entering an
    /// open room, as earlier versions had it: they were members while they were there.
    pub(crate) fn lets_guests_go(&mut self) {
        self.members.retain(|inbox, it| !it.is_guest || inbox.space() != Space::Foreign);
        (self.listed, self.foreign) = (None, None);
    }

    /// Whether the group is in the list of its domain.
    pub(crate) fn is_public(&self) -> bool {
        self.is_public
    }

    /// Whether the group ends when no session is in its room any more.
    pub(crate) fn is_temporary(&self) -> bool {
        self.is_temporary
    }

    /// Up to so many of the banned accounts, behind the first `from`.
    pub(crate) fn some_banned(&self, from: usize, count: usize) -> Vec<MemberStatus> {
        let these = self.banned.values().skip(from).take(count).cloned();
        let of = |(member, reason)| {
            let (role, muted) = (Role::Member, true);
            MemberStatus { member, role, muted, reason }
        };
        these.map(of).collect()
    }

    /// The members that have an inbox, with it.
    pub(crate) fn with_inboxes(&self) -> impl Iterator<Item = (AccountAddress, TimelineId)> {
        let here = self.members.iter().filter(|(inbox, _)| inbox.space() != Space::Foreign);
        here.map(|(inbox, it)| (it.member.address.clone(), *inbox))
    }

    /// The role of a member, and whether it is muted, whatever the group's settings are.
    pub(crate) fn status_of(&self, inbox: TimelineId) -> Option<MemberStatus> {
        let it = self.members.get(&inbox)?;
        let (member, role, muted) = (it.member.clone(), it.role, it.muted);
        Some(MemberStatus { member, role, muted, reason: None })
    }

    /// Whether an account may see the list of banned accounts: owner and admins may.
    pub(crate) fn may_list_banned(&self, by: TimelineId) -> Result<(), ChatFault> {
        if self.member(by)?.role == Role::Member { Err(ChatFault::Forbidden) } else { Ok(()) }
    }

    /// The address of an account, if it is above the author of the message with this number: admins
    /// are above members and former members. Messages of an earlier group of this name are out of
    /// its reach.
    pub(crate) fn moderator(
        &self,
        by: TimelineId,
        (author, id): (TimelineId, u64),
    ) -> Option<AccountAddress> {
        self.made.as_ref().filter(|(made, _)| *made <= id)?;
        let it = self.members.get(&by).filter(|it| it.role > Role::Member)?;
        let others = self.members.get(&author).map_or(Role::Member, |it| it.role);
        let is_above = by != author && it.role > others;
        is_above.then(|| it.member.address.clone())
    }

    /// The inviter that a leaving member names, if that is a member, and the notice for it. An
    /// account that joined by itself has no inviter.
    pub(crate) fn declining(&self, by: TimelineId, asked: &ChangeOrder) -> Option<Declining> {
        let Wanted::One(Wish { verb, title, members }) = &asked.wish else { return None };
        let (named, _) = members.first().filter(|_| *verb == GroupVerb::Leave)?;
        let member = self.members.get(&by).filter(|it| !it.is_guest && !self.is_channel);
        let it = member.map(|it| &it.member).or_else(|| self.invited.get(&by))?;
        let mut others = self.members.iter().filter(|(inbox, _)| **inbox != by);
        let (inbox, inviter) = others.find(|(_, other)| other.member.address == *named)?;
        let (group, who) = (asked.group.clone(), it.address.clone());
        let aside = GroupAside { group, who, what: AsideWhat::Declined(title.clone()) };
        Some(((*inbox, inviter.member.address.clone()), aside))
    }

    /// A member that may not send messages. A subscriber of a channel never may.
    pub(crate) fn voiceless(&self, by: TimelineId) -> Option<AccountAddress> {
        let it = self.members.get(&by).filter(|_| !self.is_channel)?;
        (self.may_speak(by) == Err(ChatFault::Muted)).then(|| it.member.address.clone())
    }

    /// The owner and the admins.
    pub(crate) fn moderators(&self) -> Vec<Hearer> {
        let all = self.members.iter().filter(|(_, it)| it.role > Role::Member);
        all.map(|(inbox, it)| (*inbox, it.member.address.clone())).collect()
    }

    /// All members on other servers.
    pub(crate) fn foreign(&mut self) -> Abroad {
        let there = self.members.iter().filter(|(inbox, _)| inbox.space() == Space::Foreign);
        let there = there.map(|(_, it)| it);
        let address = |it: &Membership| it.member.address.clone();
        let made = || Abroad { all: there.map(address).collect() };
        self.foreign.get_or_insert_with(made).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::account::AccountId;

    #[test]
    fn of_a_stored_group_only_guests_of_other_servers_are_members_no_more() {
        let home = HashKey::new(1, 2);
        let mut state = GroupState::default();
        let member = |text: &str| {
            let address = AccountAddress::parse(text, "a.example").expect("right");
            let is_foreign = address.domain() != "a.example";
            GroupMember { address, id: if is_foreign { AccountId::FOREIGN } else { AccountId(1) } }
        };
        let changes = [
            (GroupVerb::Create, Some("ann")),
            (GroupVerb::Unlock, None),
            (GroupVerb::Join, Some("eve@b.example")),
            (GroupVerb::Join, Some("bob")),
            (GroupVerb::Add, Some("mallory@b.example")),
            (GroupVerb::Join, Some("kim@b.example")),
            (GroupVerb::Promote, Some("kim@b.example")),
        ];
        for (id, (verb, name)) in (1..).zip(changes) {
            let members = name.map(member).into_iter().collect();
            state.apply(home, id, &GroupChange { verb, title: Box::default(), members });
        }
        assert_eq!((state.len(), state.foreign().all.len()), (5, 3));
        // A ban of a member whose account is not found concerns the member that it is.
        let kim = member("kim@b.example");
        let by = member("ann").address.inbox(home, AccountId(1));
        let asked = [(kim.address.clone(), Some(AccountId(0)))];
        let whom = state.whom(home, (by, false), GroupVerb::Ban, &asked);
        assert_eq!(whom, Ok((GroupVerb::Ban, vec![kim])));
        // The address of an account is nobody else's name in the room.
        let group = AccountAddress::parse("g", "conference.a.example").expect("right");
        let [ann, eve] = ["ann", "eve@b.example"].map(|name| member(name).address);
        assert!(state.reserves(&group, "dave@a.example", &ann));
        assert!(!state.reserves(&group, "eve@b.example", &eve));
        assert!(!state.reserves(&group, "ann@a.example", &ann));
        assert!(!state.reserves(&group, "tea @ five", &ann));
        state.lets_guests_go();
        let all = state.some(0, 9).into_iter().map(|it| it.member.address.to_string());
        let mut all: Vec<String> = all.collect();
        all.sort_unstable();
        assert_eq!(all, ["ann@a.example", "bob@a.example", "kim@b.example", "mallory@b.example"]);
        assert_eq!(state.foreign().all.len(), 2);
    }
}
