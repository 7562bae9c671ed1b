//! The state of a group: the sum of its changes.
//!
//! Pure: it takes changes in their order, and decides whether another one is allowed, who may speak
//! and which accounts a message concerns. Invariant: an existing group has an owner of this
//! server; an account that is no member has no rights.

mod leavers;
mod others;
mod whole;

use crate::groups::changes::{Anew, ChangeOrder};
use crate::groups::fan_out::Turned;
use base::encoding::Encoding;
use base::hash::HashKey;
use leavers::Leavers;
use model::account::{AccountAddress, AccountId};
use model::chat::{
    ChatFault, ChatMessage, FanOut, GROUP_NAMED_MAX, GroupChange, GroupMember, GroupRole as Role,
    GroupSettings, GroupVerb, MemberStatus, RoomRule, RoomRules, nick_of,
};
use model::timeline::{Seq, Space, TimelineId};
pub(crate) use others::Abroad;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
pub(crate) use whole::{Affiliated, Consent};

/// A member of a group.
#[derive(Clone, Debug)]
pub(crate) struct Membership {
    member: GroupMember,
    role: Role,
    muted: bool,
    /// The number of the message by which it became a member: earlier messages it may not read.
    pub(crate) since: u64,
    /// The member has joined by itself, and no other has given it more rights.
    is_guest: bool,
}

/// An account that an order names, and its number once that is found.
pub(crate) type Named = (AccountAddress, Option<AccountId>);

/// A change that an account wants. The accounts that are to become members have been found.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
#[encoding(One = 0, Settings = 1, Affiliations = 2)]
pub(crate) enum Wanted {
    One(Wish),
    Settings(Box<GroupSettings>),
    Affiliations(Vec<Affiliated>),
}

/// A change of one kind.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub(crate) struct Wish {
    pub verb: GroupVerb,
    pub title: Box<str>,
    pub members: Vec<Named>,
}

/// A group as its changes have made it; if it was made anew, by those since then.
#[derive(Clone, Default, Debug)]
pub(crate) struct GroupState {
    /// The message that announced its making: number, and change.
    made: Option<(u64, GroupChange)>,
    /// An earlier group of this name is dissolved.
    is_anew: bool,
    /// The number of the message of its last change.
    pub(crate) last_id: u64,
    title: Box<str>,
    /// The nick of the occupant who gave it that title; none: it was made with the title.
    titled_by: Option<Box<str>>,
    members: BTreeMap<TimelineId, Membership>,
    closed: bool,
    description: Box<str>,
    /// The former members.
    leavers: Leavers,
    /// The accounts that may become members, because a member has invited them.
    invited: BTreeMap<TimelineId, GroupMember>,
    /// The accounts that may not become members, by address, with the reason, if one was given.
    banned: BTreeMap<AccountAddress, (GroupMember, Option<Arc<str>>)>,
    /// The message since which any account may join by itself, and reads the messages since then;
    /// none: accounts cannot join by themselves.
    unlocked_since: Option<u64>,
    /// The group is in the list of its domain.
    is_public: bool,
    /// The group ends when no session is in its room any more.
    is_temporary: bool,
    /// Rules of its room.
    rules: RoomRules,
    /// The group is a channel: owner and admins publish, the others subscribe.
    pub(crate) is_channel: bool,
    /// The inboxes of all members in the order of their list, until the next change.
    listed: Option<Arc<[TimelineId]>>,
    /// The inboxes of the members that have one: those of this server.
    inboxes: Option<Arc<[TimelineId]>>,
    /// How often those were listed.
    #[cfg(test)]
    listings: usize,
    /// The members of other servers, which have no inbox.
    foreign: Option<Abroad>,
    /// The way by which messages reach the members.
    pub(super) turned: Turned,
}

/// The accounts that a message of a group concerns, by their inboxes.
pub(crate) struct Concerned {
    pub all: Arc<[TimelineId]>,
    /// Those of them that follow the group from this message on, if its members read it.
    pub begin: Arc<[TimelineId]>,
}

/// The limits of a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Most {
    pub members: usize,
    pub banned: usize,
}

/// The verdict on a wanted change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// These changes are to be stored, as one.
    Change(Vec<GroupChange>),
    /// The change is the one that made the group, by a message with this number and place; 0: the
    /// place is unknown.
    Made(u64, Seq),
}

impl GroupState {
    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    pub(crate) fn titled_by(&self) -> Option<Box<str>> {
        self.titled_by.clone()
    }

    /// Keeps the name in the room of the account that has changed the title, if these changes do.
    pub(crate) fn is_titled(&mut self, changes: &[GroupChange], nick: &str) {
        if changes.iter().any(|it| it.verb == GroupVerb::Rename) {
            self.titled_by = Some(nick.into());
        }
    }

    /// Whether only owner and admins may send messages.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Up to so many members, behind the first `from`, in an order that stays until the next
    /// change.
    pub(crate) fn some(&mut self, from: usize, count: usize) -> Vec<MemberStatus> {
        let members = &self.members;
        let listed = self.listed.get_or_insert_with(|| members.keys().copied().collect());
        let these = listed.iter().skip(from).take(count);
        let these = these.filter_map(|inbox| self.members.get(inbox));
        let of = |it: &Membership| MemberStatus {
            member: it.member.clone(),
            role: it.role,
            muted: it.muted,
            reason: None,
        };
        these.map(of).collect()
    }

    /// An owner that is an account of this server, and its inbox.
    pub(super) fn owner(&self) -> Option<(TimelineId, AccountAddress)> {
        let (inbox, it) = self.members.iter().find(|(inbox, it)| it.is_owner_here(inbox))?;
        Some((*inbox, it.member.address.clone()))
    }

    /// Whether an owner of this server is left without these accounts.
    fn keeps_an_owner(&self, home: HashKey, without: &[GroupMember]) -> bool {
        let go: HashSet<_> = without.iter().map(|one| one.address.inbox(home, one.id)).collect();
        self.members.iter().any(|(inbox, it)| it.is_owner_here(inbox) && !go.contains(inbox))
    }

    /// An account's membership, by its inbox.
    pub(crate) fn member(&self, inbox: TimelineId) -> Result<&Membership, ChatFault> {
        self.members.get(&inbox).ok_or(ChatFault::NotMember)
    }

    /// Whether an account may see the list of members: in a channel, only publishers may.
    pub(crate) fn may_list(&self, by: TimelineId) -> Result<(), ChatFault> {
        let is_subscriber = self.is_channel && self.member(by)?.role == Role::Member;
        if is_subscriber { Err(ChatFault::Forbidden) } else { self.member(by).map(|_| ()) }
    }

    /// Whether changes are stored, but announced to no member.
    pub(crate) fn is_quiet(&self, changes: &[GroupChange]) -> bool {
        self.is_channel && changes.iter().all(|it| it.verb.is_about_subscribers())
    }

    /// Whether the group exists: it was made, and is not dissolved.
    pub(crate) fn is_there(&self) -> Result<(), ChatFault> {
        if self.members.is_empty() { Err(ChatFault::NotMember) } else { Ok(()) }
    }

    /// Whether the group existed, and is dissolved.
    fn is_gone(&self) -> bool {
        self.made.is_some() && self.members.is_empty()
    }

    /// Whether an account may send messages.
    pub(crate) fn may_speak(&self, by: TimelineId) -> Result<(), ChatFault> {
        let it = self.member(by)?;
        let is_silenced = it.muted || self.closed || self.is_channel;
        if is_silenced && it.role == Role::Member { Err(ChatFault::Muted) } else { Ok(()) }
    }

    /// Whether an operator may amend a message: messages of a dissolved group still exist for the
    /// accounts that have them.
    pub(crate) fn may_amend_as_operator(&self) -> Result<(), ChatFault> {
        if self.made.is_some() { Ok(()) } else { Err(ChatFault::NotMember) }
    }

    /// The inboxes of all members that have one.
    pub(crate) fn inboxes(&mut self) -> Arc<[TimelineId]> {
        let here = self.members.keys().copied().filter(|it| it.space() != Space::Foreign);
        #[cfg(test)]
        {
            self.listings += usize::from(self.inboxes.is_none());
        }
        self.inboxes.get_or_insert_with(|| here.collect()).clone()
    }

    /// The verdict on a change that an account wants, or an operator in its name.
    pub(crate) fn judge(
        &self,
        home: HashKey,
        (by, is_operator): (TimelineId, bool),
        asked: &ChangeOrder,
        most: Most,
    ) -> Result<Verdict, ChatFault> {
        match &asked.wish {
            Wanted::One(wish) => self.judge_one(home, (by, is_operator), (asked, wish), most),
            Wanted::Settings(wanted) => self.judge_settings((by, is_operator), wanted),
            Wanted::Affiliations(wanted) => {
                self.judge_affiliations(home, (by, is_operator), (wanted, most))
            }
        }
    }

    fn judge_one(
        &self,
        home: HashKey,
        (by, is_operator): (TimelineId, bool),
        (asked, wish): (&ChangeOrder, &Wish),
        Most { members: members_max, banned: banned_max }: Most,
    ) -> Result<Verdict, ChatFault> {
        let Wish { verb, title, members } = wish;
        // The account that makes a group is named besides.
        if title.len() > verb.text_bytes_max() || members.len() > GROUP_NAMED_MAX + 1 {
            return Err(ChatFault::TooLarge);
        }
        if *verb == GroupVerb::Create {
            let is_alone = members.len() == 1 || !asked.group.is_channel();
            // Accounts subscribe to a channel only by themselves.
            return match is_alone {
                true => self.judge_making((asked, wish), members_max),
                false => Err(ChatFault::Invalid),
            };
        }
        if *verb == GroupVerb::Set {
            let rules = vec![RoomRule::of(title).ok_or(ChatFault::Invalid)?];
            let wanted = GroupSettings { rules, ..GroupSettings::default() };
            return self.judge_settings((by, is_operator), &wanted);
        }
        if *verb == GroupVerb::Join {
            return self.judge_joining(home, members, members_max);
        }
        let role = match is_operator {
            true => self.is_there().map(|()| Role::Owner)?,
            // An invited account declines by leaving.
            false if *verb == GroupVerb::Leave && self.is_invited(by) => Role::Member,
            false => self.member(by)?.role,
        };
        let whose = (by, is_operator);
        let (verb, members) = self.whom(home, whose, *verb, members)?;
        let change = GroupChange { verb, title: title.clone(), members };
        self.allows(home, role, &change)?;
        let so_many = change.members.len()
            + match verb {
                GroupVerb::Add => self.len(),
                GroupVerb::Invite => self.len() + self.invited.len(),
                _ => 0,
            };
        if matches!(verb, GroupVerb::Add | GroupVerb::Invite) && so_many > members_max {
            return Err(ChatFault::GroupFull);
        }
        if verb == GroupVerb::Ban && self.banned.len() + change.members.len() > banned_max {
            return Err(ChatFault::BansFull);
        }
        Ok(Verdict::Change(vec![change]))
    }

    /// The members that a wanted change affects, and the verb that applies to them.
    fn whom(
        &self,
        home: HashKey,
        (by, is_operator): (TimelineId, bool),
        mut verb: GroupVerb,
        members: &[Named],
    ) -> Result<(GroupVerb, Vec<GroupMember>), ChatFault> {
        let members = match verb {
            GroupVerb::Leave if self.is_invited(by) => {
                self.invited.get(&by).cloned().into_iter().collect()
            }
            GroupVerb::Leave => vec![self.member(by)?.member.clone()],
            GroupVerb::Add => {
                let all = self.strangers(home, members)?;
                if !is_operator {
                    verb = self.adds_or_invites(home, &all)?;
                }
                self.not_yet(home, verb, all)
            }
            GroupVerb::Invite => {
                let all = self.strangers(home, members)?;
                // Other servers have no invitations, only members.
                if self.is_channel || all.iter().any(|one| one.id == AccountId::FOREIGN) {
                    return Err(ChatFault::Invalid);
                }
                self.not_yet(home, verb, all)
            }
            GroupVerb::Ban => {
                let mut all = found(members)?;
                // A member whose account is not found, or that has another one by now, is banned
                // as the member that it is.
                for one in &mut all {
                    let is_it = |it: &&Membership| it.member.address == one.address;
                    if let Some(it) = self.members.values().find(is_it) {
                        *one = it.member.clone();
                    }
                }
                all.retain(|one| !self.banned.contains_key(&one.address));
                all
            }
            GroupVerb::Unban => {
                let all = members.iter().filter_map(|(address, _)| self.banned.get(address));
                all.map(|(member, _)| member.clone()).collect()
            }
            GroupVerb::Dissolve => {
                let id = AccountId(0); // a venue is no account
                let venue = members.first().map(|(address, _)| address.clone());
                venue.into_iter().map(|address| GroupMember { address, id }).collect()
            }
            verb if !verb.names_members() => vec![],
            verb => self.concerned(verb, members),
        };
        Ok((verb, members))
    }

    /// The verdict on making a group: a retry makes no second one; the name of a dissolved group is
    /// free.
    fn judge_making(
        &self,
        (asked, wish): (&ChangeOrder, &Wish),
        members_max: usize,
    ) -> Result<Verdict, ChatFault> {
        let (all, title) = (found(&wish.members)?, wish.title.clone());
        // The account that makes the group is named first.
        if all.first().is_none_or(|first| first.address != asked.address) {
            return Err(ChatFault::Invalid);
        }
        if all.len() > members_max {
            return Err(ChatFault::GroupFull);
        }
        let change = GroupChange { verb: GroupVerb::Create, title, members: all };
        match (&self.made, asked.anew) {
            (Some(_), Anew::May) if self.is_gone() => Ok(Verdict::Change(vec![change])),
            (Some(_), Anew::MayNot) if self.is_gone() => Err(ChatFault::Conflict),
            (Some((id, made)), _) if *made == change => {
                Ok(Verdict::Made(*id, if self.is_anew { 0 } else { 1 }))
            }
            (Some(_), _) => Err(ChatFault::Conflict),
            (None, _) => Ok(Verdict::Change(vec![change])),
        }
    }

    /// The verdict on an account that subscribes to a channel, or joins an unlocked group.
    fn judge_joining(
        &self,
        home: HashKey,
        members: &[Named],
        members_max: usize,
    ) -> Result<Verdict, ChatFault> {
        self.is_there()?;
        let members = self.strangers(home, members)?;
        match members.len() {
            // No account joins another group by itself, or learns whether it exists: except a
            // banned one, which gets that fault (XEP-0045 7.2.7).
            _ if !self.is_channel && !self.lets_in() && !self.has_invited(home, &members) => {
                Err(ChatFault::NotMember)
            }
            // An account of another server enters the room, and becomes no member by that.
            _ if members.iter().any(|one| one.id == AccountId::FOREIGN)
                && !self.has_invited(home, &members) =>
            {
                Err(ChatFault::NotMember)
            }
            0 => Err(ChatFault::Unchanged),
            1 if self.len() >= members_max => Err(ChatFault::GroupFull),
            1 => {
                let (verb, title) = (GroupVerb::Join, Box::default());
                Ok(Verdict::Change(vec![GroupChange { verb, title, members }]))
            }
            _ => Err(ChatFault::Invalid),
        }
    }

    /// Those of the named accounts that are no members yet. The fault if one of them is banned.
    fn strangers(&self, home: HashKey, members: &[Named]) -> Result<Vec<GroupMember>, ChatFault> {
        let mut all = found(members)?;
        all.retain(|one| !self.members.contains_key(&one.address.inbox(home, one.id)));
        match all.iter().any(|one| self.banned.contains_key(&one.address)) {
            true => Err(ChatFault::GroupBanned),
            false => Ok(all),
        }
    }

    /// The members among the named accounts that a verb affects.
    fn concerned(&self, verb: GroupVerb, members: &[Named]) -> Vec<GroupMember> {
        let named: HashSet<_> = members.iter().map(|(address, _)| address).collect();
        let differs = |it: &&Membership| {
            named.contains(&it.member.address)
                && match verb {
                    GroupVerb::Promote => it.role == Role::Member,
                    GroupVerb::Demote => it.role == Role::Admin,
                    GroupVerb::HandOver | GroupVerb::AddOwner => it.role != Role::Owner,
                    GroupVerb::RemoveOwner => it.role == Role::Owner,
                    GroupVerb::Mute => !it.muted,
                    GroupVerb::Unmute => it.muted,
                    _ => true,
                }
        };
        let members = self.members.values().filter(differs).map(|it| it.member.clone());
        let is_over = |it: &&GroupMember| verb == GroupVerb::Remove && named.contains(&it.address);
        members.chain(self.invited.values().filter(is_over).cloned()).collect()
    }

    /// Whether a role allows a change that has an effect.
    fn allows(&self, home: HashKey, role: Role, change: &GroupChange) -> Result<(), ChatFault> {
        let least = match change.verb {
            GroupVerb::Leave => Role::Member,
            GroupVerb::Add | GroupVerb::Invite if self.rules.members_invite => Role::Member,
            verb if verb.changes_role() => Role::Owner,
            // These changes end a temporary group, sooner or later.
            GroupVerb::Dissolve | GroupVerb::Persist | GroupVerb::Unpersist => Role::Owner,
            _ => Role::Admin,
        };
        let role_of = |one: &GroupMember| {
            self.members.get(&one.address.inbox(home, one.id)).map(|it| it.role)
        };
        // Owners may end each other's membership.
        let is_equal = role == Role::Owner && change.verb.ends_membership();
        let is_above =
            |one: &GroupMember| is_equal || role_of(one).is_none_or(|other| other < role);
        let is_unchanged = match change.verb {
            GroupVerb::Close => self.closed,
            GroupVerb::Open => !self.closed,
            GroupVerb::Lock => !self.is_unlocked(),
            GroupVerb::Unlock => self.is_unlocked(),
            GroupVerb::Reveal => self.is_public,
            GroupVerb::Hide => !self.is_public,
            GroupVerb::Persist => !self.is_temporary,
            GroupVerb::Unpersist => self.is_temporary,
            GroupVerb::Rename | GroupVerb::Describe | GroupVerb::Dissolve => false,
            _ => change.members.is_empty(),
        };
        match change.verb {
            _ if role < least => Err(ChatFault::Forbidden),
            // A channel is open to all subscribers, is in no list, and has no known attendance.
            GroupVerb::Lock
            | GroupVerb::Unlock
            | GroupVerb::Reveal
            | GroupVerb::Hide
            | GroupVerb::Persist
            | GroupVerb::Unpersist
                if self.is_channel =>
            {
                Err(ChatFault::Invalid)
            }
            _ if is_unchanged => Err(ChatFault::Unchanged),
            // A group always has an owner of its server, who hands it over before leaving.
            GroupVerb::Leave | GroupVerb::Remove | GroupVerb::Ban | GroupVerb::RemoveOwner
                if role == Role::Owner && !self.keeps_an_owner(home, &change.members) =>
            {
                Err(ChatFault::Forbidden)
            }
            GroupVerb::HandOver if !is_one_of_ours(&change.members) => Err(ChatFault::Invalid),
            GroupVerb::Remove | GroupVerb::Ban | GroupVerb::Mute | GroupVerb::Unmute
                if !change.members.iter().all(is_above) =>
            {
                Err(ChatFault::Forbidden)
            }
            _ => Ok(()),
        }
    }

    /// Applies the changes that a message announces. Returns the accounts that they concern: the
    /// members, and those that were members until then.
    pub(crate) fn apply_all(
        &mut self,
        home: HashKey,
        id: u64,
        changes: &[GroupChange],
    ) -> Concerned {
        let ends = changes.iter().any(|it| it.verb.ends_membership());
        let before = ends.then(|| self.inboxes());
        let (mut outside, mut begin) = (Vec::new(), BTreeSet::new());
        for change in changes {
            outside.extend(self.told_outside(home, change));
            begin.extend(self.begin_at(home, change));
            self.apply(home, id, change);
        }
        let all = match before {
            // Nobody has become a member.
            Some(before) if !changes.iter().any(|it| it.verb.makes_members()) => before,
            before => {
                outside.extend(before.iter().flat_map(|it| it.iter()));
                self.inboxes()
            }
        };
        Concerned { all: union(all, outside), begin: begin.into_iter().collect() }
    }

    /// Applies a change that a message announces.
    pub(crate) fn apply(&mut self, home: HashKey, id: u64, change: &GroupChange) {
        (self.listed, self.inboxes, self.foreign) = (None, None, None);
        self.turned.has_others();
        if change.verb == GroupVerb::Create && self.is_gone() {
            self.begins_anew();
        }
        self.last_id = id;
        if change.verb == GroupVerb::Create && self.made.is_none() {
            self.made = Some((id, change.clone()));
        }
        for (at, one) in change.concerned().iter().enumerate() {
            let inbox = one.address.inbox(home, one.id);
            if change.verb.makes_members() {
                let is_owner = change.verb == GroupVerb::Create && at == 0;
                self.joins(inbox, one, (id, change.verb), is_owner);
            }
            match change.verb {
                GroupVerb::Ban => {
                    let why = Some(change.reason()).filter(|why| !why.is_empty()).map(Arc::from);
                    self.banned.insert(one.address.clone(), (one.clone(), why));
                }
                GroupVerb::Unban => _ = self.banned.remove(&one.address),
                GroupVerb::Invite => _ = self.invited.insert(inbox, one.clone()),
                _ => {}
            }
            if change.verb.makes_members() || change.verb.ends_membership() {
                self.invited.remove(&inbox);
            }
            self.changes(inbox, (id, change.verb));
        }
        match change.verb {
            GroupVerb::Create | GroupVerb::Rename => self.title = change.title.clone(),
            GroupVerb::Close => self.closed = true,
            GroupVerb::Open => self.closed = false,
            GroupVerb::Describe => self.description = change.title.clone(),
            GroupVerb::Unlock => self.unlocked_since = Some(id),
            GroupVerb::Lock => self.unlocked_since = None,
            GroupVerb::Reveal => self.is_public = true,
            GroupVerb::Hide => self.is_public = false,
            GroupVerb::Persist => self.is_temporary = false,
            GroupVerb::Unpersist => self.is_temporary = true,
            GroupVerb::Dissolve => {
                self.leavers.all_leave(id);
                self.members.clear();
                self.banned.clear();
                self.invited.clear();
                (self.unlocked_since, self.is_public, self.is_temporary) = (None, false, false);
                self.rules = RoomRules::default();
            }
            GroupVerb::Set => change.rule().into_iter().for_each(|rule| self.rules.set(rule)),
            _ => {}
        }
    }

    /// Makes an account a member from a message on.
    fn joins(
        &mut self,
        inbox: TimelineId,
        one: &GroupMember,
        (id, verb): (u64, GroupVerb),
        is_owner: bool,
    ) {
        let role = if is_owner { Role::Owner } else { Role::Member };
        // Later subscribers of a channel read all that it has published; and members of an unlocked
        // group what any visitor reads: the messages since it was unlocked.
        let since = if self.is_channel { 0 } else { self.unlocked_since.unwrap_or(id) };
        let is_guest = verb == GroupVerb::Join && !self.is_invited(inbox);
        let it = Membership { member: one.clone(), role, muted: false, since, is_guest };
        self.members.insert(inbox, it);
        self.leavers.come_back(inbox);
    }

    /// Clears the state of a dissolved group; but messages that are in the log keep their way of
    /// delivery.
    fn begins_anew(&mut self) {
        let turned = std::mem::take(&mut self.turned);
        let (is_channel, leavers) = (self.is_channel, std::mem::take(&mut self.leavers));
        let nothing = GroupState::default();
        *self = GroupState { turned, leavers, is_anew: true, is_channel, ..nothing };
    }

    /// Applies a change to one of the accounts that it names.
    fn changes(&mut self, inbox: TimelineId, (id, verb): (u64, GroupVerb)) {
        if verb.ends_membership() {
            if self.members.remove(&inbox).is_some() && inbox.space() != Space::Foreign {
                self.leavers.leave(inbox, (id, verb == GroupVerb::Leave));
            }
            return;
        }
        if verb == GroupVerb::HandOver {
            let owners = self.members.values_mut().filter(|it| it.role == Role::Owner);
            owners.for_each(|it| it.role = Role::Admin);
        }
        let Some(it) = self.members.get_mut(&inbox) else { return };
        match verb {
            GroupVerb::HandOver | GroupVerb::AddOwner => {
                (it.role, it.muted, it.is_guest) = (Role::Owner, false, false);
            }
            GroupVerb::RemoveOwner => it.role = Role::Admin,
            GroupVerb::Promote => {
                (it.role, it.muted, it.is_guest) = (Role::Admin, false, false);
            }
            GroupVerb::Demote => it.role = Role::Member,
            GroupVerb::Mute => it.muted = true,
            GroupVerb::Unmute => it.muted = false,
            _ => {}
        }
    }

    /// Applies a message of the group's timeline. False: it announces no known change, so the
    /// group's state is unknown.
    pub(crate) fn recall(&mut self, home: HashKey, message: &ChatMessage) -> bool {
        self.is_channel |= message.to.is_channel();
        if let Some(fan_out) = FanOut::of(&message.content) {
            self.has_turned(message.id, fan_out);
            return true;
        }
        let changes = GroupChange::all_of(&message.content);
        changes.iter().for_each(|it| self.apply(home, message.id, it));
        let nick = message.content.nick.as_deref();
        self.is_titled(&changes, nick.unwrap_or_else(|| nick_of(&message.to, &message.from)));
        !changes.is_empty()
    }
}

impl Membership {
    pub(crate) fn is_owner(&self) -> bool {
        self.role == Role::Owner
    }

    /// Whether it is an owner, and an account of this server.
    fn is_owner_here(&self, inbox: &TimelineId) -> bool {
        self.role == Role::Owner && inbox.space() != Space::Foreign
    }
}

/// All of these inboxes, each once.
fn union(all: Arc<[TimelineId]>, more: Vec<TimelineId>) -> Arc<[TimelineId]> {
    if more.is_empty() {
        return all;
    }
    let all: BTreeSet<_> = all.iter().copied().chain(more).collect();
    all.into_iter().collect()
}

/// Whether one account is named, and it is one of this server.
fn is_one_of_ours(members: &[GroupMember]) -> bool {
    members.len() == 1 && members.iter().all(|one| one.id != AccountId::FOREIGN)
}

/// The named accounts, each once; the fault if one was not found.
fn found(members: &[Named]) -> Result<Vec<GroupMember>, ChatFault> {
    let mut all: Vec<GroupMember> = Vec::with_capacity(members.len());
    for (address, id) in members {
        let one = GroupMember { address: address.clone(), id: id.ok_or(ChatFault::Invalid)? };
        if !all.contains(&one) {
            all.push(one);
        }
    }
    Ok(all)
}
