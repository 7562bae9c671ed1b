//! Of a group what is not its members here: those of other servers, those who are banned, what it
//! is to whoever is no member, and who is above whom.
//!
//! Pure, and part of the state. Invariant: what is said of members of other servers is of all of
//! them, and they have no inbox.

use super::{GroupState, Membership, Wish};
use crate::groups::asides::{Declining, Hearer};
use crate::groups::changes::ChangeOrder;
use base::hash::HashKey;
use model::account::AccountAddress;
use model::chat::{
    AsideWhat, ChatFault, GroupAside, GroupChange, GroupMember, GroupRole as Role, GroupVerb,
    MemberStatus,
};
use model::timeline::{Space, TimelineId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Members of a group that are of other servers.
#[derive(Clone, Default, Debug)]
pub(crate) struct Abroad {
    pub all: Arc<[AccountAddress]>,
    /// Those who have come by themselves: they are members while they are there.
    pub guests: Arc<[AccountAddress]>,
    /// Whoever knows the group's address may become a member.
    pub unlocked: bool,
}

impl GroupState {
    /// Accounts that are remembered of it: members, those who were, who are invited, and who are
    /// banned.
    pub(crate) fn known(&self) -> usize {
        self.members.len() + self.leavers.len() + self.invited.len() + self.banned.len()
    }

    /// Whether an account that is no member may become one.
    pub(crate) fn is_invited(&self, inbox: TimelineId) -> bool {
        self.invited.contains_key(&inbox)
    }

    /// Whether all of these may.
    pub(super) fn has_invited(&self, home: HashKey, all: &[GroupMember]) -> bool {
        let mut inboxes = all.iter().map(|one| one.address.inbox(home, one.id));
        !all.is_empty() && inboxes.all(|inbox| self.is_invited(inbox))
    }

    /// What becomes of a member's wish to add these: who went by itself is invited. They are all to
    /// be members, or all to be invited.
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

    /// Those of these to whom a verb makes a difference: nobody is invited twice.
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

    /// The inboxes of those who are told of a change: members, and who is invited or was.
    pub(super) fn told_of(&mut self, home: HashKey, change: &GroupChange) -> Arc<[TimelineId]> {
        let members = self.inboxes();
        let named = change.concerned().iter().map(|one| one.address.inbox(home, one.id));
        let invited: Vec<_> = match change.verb {
            GroupVerb::Dissolve => self.invited.keys().copied().collect(),
            verb if !verb.leaves_outside() || verb == GroupVerb::Ban => return members,
            _ => named.filter(|inbox| self.is_invited(*inbox)).collect(),
        };
        if invited.is_empty() {
            return members;
        }
        let all: BTreeSet<TimelineId> = members.iter().copied().chain(invited).collect();
        all.into_iter().collect()
    }

    /// Of a group that is read, who follows it from the message on that tells of a change: new
    /// members, and who is invited or was, who draws that message and follows no more.
    pub(super) fn begin_at(&self, home: HashKey, change: &GroupChange) -> Arc<[TimelineId]> {
        use GroupVerb::{Dissolve, Invite, Leave, Remove};
        let named = change.members.iter().map(|one| one.address.inbox(home, one.id));
        match change.verb {
            Dissolve => self.invited.keys().copied().collect(),
            verb if verb.makes_members() || matches!(verb, Invite | Leave | Remove) => {
                named.filter(|inbox| inbox.space() != Space::Foreign).collect()
            }
            _ => [].into(),
        }
    }

    /// The number of the message by which an account has left that has something of it; none: it is
    /// a member.
    pub(crate) fn left_by(&self, inbox: TimelineId) -> Option<u64> {
        let is_member = self.members.contains_key(&inbox);
        (!is_member).then(|| self.leavers.left_by(inbox))
    }

    /// The last such number; 0: nobody has left.
    pub(crate) fn last_left(&self) -> u64 {
        self.leavers.last()
    }

    /// How many are banned from it.
    pub(crate) fn banned_len(&self) -> usize {
        self.banned.len()
    }

    pub(crate) fn description(&self) -> &str {
        &self.description
    }

    /// Whether a wish is to describe it as it is described.
    pub(crate) fn is_described(&self, wish: &Wish) -> bool {
        wish.verb == GroupVerb::Describe && wish.title == self.description
    }

    /// Whether whoever knows its address may become a member.
    pub(crate) fn is_unlocked(&self) -> bool {
        self.unlocked_since.is_some()
    }

    /// Whether it is in the list of its domain.
    pub(crate) fn is_public(&self) -> bool {
        self.is_public
    }

    /// Whether it ends when nobody is in its room any more.
    pub(crate) fn is_temporary(&self) -> bool {
        self.is_temporary
    }

    /// So many of those who are banned, behind the first `from`.
    pub(crate) fn some_banned(&self, from: usize, count: usize) -> Vec<MemberStatus> {
        let these = self.banned.values().skip(from).take(count).cloned();
        let of = |(member, reason)| {
            let (role, muted, show) = (Role::Member, true, None);
            MemberStatus { member, role, muted, show, reason }
        };
        these.map(of).collect()
    }

    /// Members that have an inbox, and it.
    pub(crate) fn with_inboxes(&self) -> impl Iterator<Item = (AccountAddress, TimelineId)> {
        let here = self.members.iter().filter(|(inbox, _)| inbox.space() != Space::Foreign);
        here.map(|(inbox, it)| (it.member.address.clone(), *inbox))
    }

    /// What a member is, and whether it may not say anything, whatever the group is.
    pub(crate) fn status_of(&self, inbox: TimelineId) -> Option<MemberStatus> {
        let it = self.members.get(&inbox)?;
        let (member, role, muted) = (it.member.clone(), it.role, it.muted);
        Some(MemberStatus { member, role, muted, show: None, reason: None })
    }

    /// Whether an account may know who is banned: owner and admins.
    pub(crate) fn may_list_banned(&self, by: TimelineId) -> Result<(), ChatFault> {
        if self.member(by)?.role == Role::Member { Err(ChatFault::Forbidden) } else { Ok(()) }
    }

    /// An account, if it is above another one that has said something, by a message with this
    /// number: an admin above members and those who are none any more. What was said in a group of
    /// this name before this one is none of its business.
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

    /// Whom a member that goes names as the one who had invited it, if that one is a member: it is
    /// told. Who came by itself was invited by nobody.
    pub(crate) fn declining(&self, by: TimelineId, asked: &ChangeOrder) -> Option<Declining> {
        let Wish { verb, title, members } = &asked.wish;
        let (named, _) = members.first().filter(|_| *verb == GroupVerb::Leave)?;
        let member = self.members.get(&by).filter(|it| !it.is_guest && !self.is_channel);
        let it = member.map(|it| &it.member).or_else(|| self.invited.get(&by))?;
        let mut others = self.members.iter().filter(|(inbox, _)| **inbox != by);
        let (inbox, inviter) = others.find(|(_, other)| other.member.address == *named)?;
        let (group, who) = (asked.group.clone(), it.address.clone());
        let aside = GroupAside { group, who, what: AsideWhat::Declined(title.clone()) };
        Some(((*inbox, inviter.member.address.clone()), aside))
    }

    /// A member that may not say anything. Who subscribes to a channel never may.
    pub(crate) fn voiceless(&self, by: TimelineId) -> Option<AccountAddress> {
        let it = self.members.get(&by).filter(|_| !self.is_channel)?;
        (self.may_speak(by) == Err(ChatFault::Muted)).then(|| it.member.address.clone())
    }

    /// Owner and admins.
    pub(crate) fn moderators(&self) -> Vec<Hearer> {
        let all = self.members.iter().filter(|(_, it)| it.role > Role::Member);
        all.map(|(inbox, it)| (*inbox, it.member.address.clone())).collect()
    }

    /// All members of other servers.
    pub(crate) fn foreign(&mut self) -> Abroad {
        let there = self.members.iter().filter(|(inbox, _)| inbox.space() == Space::Foreign);
        let there = there.map(|(_, it)| it);
        let address = |it: &Membership| it.member.address.clone();
        let made = || Abroad {
            all: there.clone().map(address).collect(),
            guests: there.filter(|it| it.is_guest).map(address).collect(),
            unlocked: false,
        };
        let unlocked = self.unlocked_since.is_some();
        Abroad { unlocked, ..self.foreign.get_or_insert_with(made).clone() }
    }
}
