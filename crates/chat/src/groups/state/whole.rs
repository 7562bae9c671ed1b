//! Changes that are made as a whole, or not at all: the settings of a form, and a list of
//! affiliations (XEP-0045 9, 10).
//!
//! Each becomes a list of changes, which one message announces. Pure, and part of the state.
//! Invariants: a wish that the state meets already is no change; every change is judged by the
//! state before the first one; behind the last one the group has an owner.

use super::{GroupState, Membership, Most, Named, Verdict};
use base::encoding::Encoding;
use base::hash::HashKey;
use model::account::{AccountAddress, AccountId};
use model::chat::{
    Affiliation, ChatFault, EXTRA_BYTES_MAX, GROUP_NAMED_MAX, GROUP_TITLE_BYTES_MAX, GroupChange,
    GroupMember, GroupRole as Role, GroupSettings, GroupVerb, REASON_BYTES_MAX, RoomRule,
};
use model::timeline::TimelineId;
use std::collections::{HashMap, HashSet};

/// An account, and the affiliation that it is to have.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub(crate) struct Affiliated {
    pub account: Named,
    pub affiliation: Affiliation,
    pub reason: Box<str>,
    /// Whether the account may be made a member, if it is none yet.
    pub consent: Consent,
}

/// Whether an account may be made a member by another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encoding)]
#[encoding(Given = 0, Needed = 1, Refused = 2)]
pub(crate) enum Consent {
    Given,
    /// The account is to be invited.
    Needed,
    /// The account has blocked the other one.
    Refused,
}

/// A member that a list names, with its role, or an account that is invited.
type Known<'a> = (&'a GroupMember, Option<Role>);

/// Changes that one message is to announce.
struct Changes(Vec<GroupChange>);

impl Changes {
    /// Puts a change of an account behind the others, beside those of the same kind.
    fn put(&mut self, verb: GroupVerb, reason: &str, member: &GroupMember) {
        let is_it = |it: &&mut GroupChange| it.verb == verb && *it.title == *reason;
        match self.0.iter_mut().find(is_it) {
            Some(change) => change.members.push(member.clone()),
            None => {
                let (title, members) = (reason.into(), vec![member.clone()]);
                self.0.push(GroupChange { verb, title, members });
            }
        }
    }

    /// The verdict; `Unchanged`, if there is nothing to change.
    fn verdict(self) -> Result<Verdict, ChatFault> {
        match self.0.is_empty() {
            true => Err(ChatFault::Unchanged),
            false if GroupChange::content_of(&self.0).extra.len() > EXTRA_BYTES_MAX => {
                Err(ChatFault::TooLarge)
            }
            false => Ok(Verdict::Change(self.0)),
        }
    }
}

/// The order in which changes of a list are made: a banned account cannot be added, and only a
/// member can become an admin. Invitations are last: they have a message of their own.
const ORDER: [GroupVerb; 10] = [
    GroupVerb::Unban,
    GroupVerb::Add,
    GroupVerb::AddOwner,
    GroupVerb::RemoveOwner,
    GroupVerb::Demote,
    GroupVerb::Promote,
    GroupVerb::Remove,
    GroupVerb::Leave,
    GroupVerb::Ban,
    GroupVerb::Invite,
];

const fn affiliation_of(role: Role) -> Affiliation {
    match role {
        Role::Member => Affiliation::Member,
        Role::Admin => Affiliation::Admin,
        Role::Owner => Affiliation::Owner,
    }
}

impl GroupState {
    /// The verdict on the settings that an owner wants, or an operator.
    pub(super) fn judge_settings(
        &self,
        (by, is_operator): (TimelineId, bool),
        wanted: &GroupSettings,
    ) -> Result<Verdict, ChatFault> {
        self.is_there()?;
        if !is_operator && self.member(by)?.role != Role::Owner {
            return Err(ChatFault::Forbidden);
        }
        let GroupSettings { title, description, closed, unlocked, public, temporary, rules } =
            wanted;
        let is_long = |text: &Option<Box<str>>| {
            text.as_ref().is_some_and(|text| text.len() > GROUP_TITLE_BYTES_MAX)
        };
        if is_long(title) || is_long(description) {
            return Err(ChatFault::TooLarge);
        }
        let text = |text: &Option<Box<str>>, is: &str, verb| {
            let title = text.clone().filter(|text| **text != *is)?;
            Some(GroupChange { verb, title, members: Vec::new() })
        };
        let either = |wanted: &Option<bool>, is: bool, verbs: [GroupVerb; 2]| {
            let wanted = wanted.filter(|wanted| *wanted != is)?;
            let (title, members) = (Box::default(), Vec::new());
            Some(GroupChange { verb: verbs[usize::from(wanted)], title, members })
        };
        use GroupVerb::{Close, Describe, Hide, Lock, Open, Persist, Rename, Reveal, Unlock};
        let of_room = [
            either(temporary, self.is_temporary, [Persist, GroupVerb::Unpersist]),
            either(unlocked, self.is_unlocked(), [Lock, Unlock]),
            either(public, self.is_public, [Hide, Reveal]),
        ];
        if rules.iter().any(|it| matches!(it, RoomRule::Key(_))) {
            return Err(ChatFault::Invalid);
        }
        let rules = rules.iter().filter(|rule| !self.rules.has(rule)).map(GroupChange::of_rule);
        let of_room: Vec<_> = of_room.into_iter().flatten().chain(rules).collect();
        // A channel is open to all subscribers, is in no list, and has no known attendance.
        if self.is_channel && !of_room.is_empty() {
            return Err(ChatFault::Invalid);
        }
        let of_group = [
            text(title, &self.title, Rename),
            text(description, &self.description, Describe),
            either(closed, self.closed, [Open, Close]),
        ];
        Changes(of_group.into_iter().flatten().chain(of_room).collect()).verdict()
    }

    /// The verdict on affiliations that an account wants to set, or an operator.
    pub(super) fn judge_affiliations(
        &self,
        home: HashKey,
        (by, is_operator): (TimelineId, bool),
        (wanted, most): (&[Affiliated], Most),
    ) -> Result<Verdict, ChatFault> {
        self.is_there()?;
        let rank = if is_operator { Role::Owner } else { self.member(by)?.role };
        let own = self.members.get(&by).map(|it| &it.member.address).filter(|_| !is_operator);
        let members = self.named(wanted)?;
        let (mut changes, mut owners) = (Changes(Vec::new()), HashMap::new());
        let (mut added, mut invited) = (0, 0);
        for it in wanted {
            let address = &it.account.0;
            let is_own = own == Some(address);
            if it.reason.len() > REASON_BYTES_MAX {
                return Err(ChatFault::TooLarge);
            }
            // A member does not learn who is banned.
            if rank == Role::Member && !is_own {
                return Err(ChatFault::Forbidden);
            }
            let all = members.get(address).map_or(&[][..], |all| all);
            for (account, now_is, is_invited) in self.whose(it, all) {
                let is_invitation_over = is_invited && it.affiliation == Affiliation::None;
                if now_is == it.affiliation && !is_invitation_over {
                    continue;
                }
                ranks((rank, is_own), now_is, it.affiliation)?;
                let account = account.ok_or(ChatFault::UnknownAccount)?;
                owners.insert(address, it.affiliation == Affiliation::Owner);
                for verb in self.steps(home, (it, &account), now_is, is_operator)? {
                    added += usize::from(verb == GroupVerb::Add);
                    invited += usize::from(verb == GroupVerb::Invite);
                    let verb =
                        if is_own && verb == GroupVerb::Remove { GroupVerb::Leave } else { verb };
                    changes.put(verb, &it.reason, &account);
                }
            }
        }
        changes.0.sort_by_key(|it| ORDER.iter().position(|verb| *verb == it.verb));
        let bans = changes.0.iter().filter(|it| it.verb == GroupVerb::Ban);
        let bans: HashSet<_> = bans.flat_map(|it| &it.members).map(|one| &one.address).collect();
        let len = self.len() + added;
        let is_full = added > 0 && len > most.members
            || invited > 0 && len + self.invited.len() + invited > most.members;
        if is_full {
            return Err(ChatFault::GroupFull);
        }
        if !bans.is_empty() && self.banned.len() + bans.len() > most.banned {
            return Err(ChatFault::BansFull);
        }
        let is_owner = |it: &GroupMember| owners.get(&it.address).copied();
        let owners_here = self.members.iter().filter(|(inbox, it)| it.is_owner_here(inbox));
        let goes = |(_, it): (&TimelineId, &Membership)| is_owner(&it.member) == Some(false);
        let is_new = |it: &GroupMember| is_owner(it) == Some(true) && it.id != AccountId::FOREIGN;
        let is_kept = owners_here.clone().any(|it| !goes(it))
            || changes.0.iter().flat_map(|it| &it.members).any(is_new);
        if owners_here.clone().any(goes) && !is_kept {
            return Err(ChatFault::LastOwner);
        }
        changes.verdict()
    }

    /// The members and the invited accounts among those that a list names, with the roles of the
    /// members. The fault if the list names one twice, or too many.
    fn named<'a>(
        &'a self,
        wanted: &'a [Affiliated],
    ) -> Result<HashMap<&'a AccountAddress, Vec<Known<'a>>>, ChatFault> {
        let mut named: HashMap<_, _> = wanted.iter().map(|it| (&it.account.0, vec![])).collect();
        if wanted.len() > GROUP_NAMED_MAX {
            return Err(ChatFault::TooLarge);
        }
        if named.len() < wanted.len() {
            return Err(ChatFault::Invalid);
        }
        let members = self.members.values().map(|it| (&it.member, Some(it.role)));
        for it in members.chain(self.invited.values().map(|it| (it, None))) {
            if let Some(all) = named.get_mut(&it.0.address) {
                all.push(it);
            }
        }
        Ok(named)
    }

    /// Those that are to have an affiliation, with what they have now, and whether they are
    /// invited. Of several accounts of one name, of which the earlier are removed, the last gets
    /// it, and all lose what is above it.
    fn whose(
        &self,
        it: &Affiliated,
        all: &[Known<'_>],
    ) -> Vec<(Option<GroupMember>, Affiliation, bool)> {
        let (address, id) = &it.account;
        let known = |(member, role): &Known<'_>| {
            let now_is = role.map_or(Affiliation::None, affiliation_of);
            (Some((*member).clone()), now_is, role.is_none())
        };
        let is_given = it.affiliation > Affiliation::None;
        let is_it = |(member, _): &Known<'_>| id.is_none_or(|id| member.id == id);
        let has_it = all.iter().any(is_it);
        let keeps = |it_is: &Known<'_>| is_it(it_is) || known(it_is).1 > it.affiliation;
        let mut whose: Vec<_> = all.iter().filter(|it| !is_given || keeps(it)).map(known).collect();
        if all.is_empty() || is_given && !has_it {
            let is_banned = self.banned.contains_key(address);
            let now_is = if is_banned { Affiliation::Outcast } else { Affiliation::None };
            let account = id.map(|id| GroupMember { address: address.clone(), id });
            whose.push((account, now_is, false));
        }
        whose
    }

    /// The verbs by which an account gets another affiliation than it has.
    fn steps(
        &self,
        home: HashKey,
        (it, account): (&Affiliated, &GroupMember),
        now_is: Affiliation,
        is_operator: bool,
    ) -> Result<Vec<GroupVerb>, ChatFault> {
        use Affiliation::{Admin, Member, None, Outcast, Owner};
        let inbox = account.address.inbox(home, account.id);
        let mut verbs = Vec::new();
        if it.affiliation >= Member && now_is < Member {
            if now_is == Outcast {
                verbs.push(GroupVerb::Unban);
            }
            let went = self.leavers.went(inbox) && !is_operator;
            match it.consent {
                Consent::Refused => return Err(ChatFault::UnknownAccount),
                Consent::Given if !went => verbs.push(GroupVerb::Add),
                // It would be no member, and so no admin and no owner.
                _ if self.is_channel || it.affiliation > Member => {
                    return Err(ChatFault::InvitationNeeded);
                }
                _ if self.is_invited(inbox) => {}
                _ => verbs.push(GroupVerb::Invite),
            }
        }
        match (now_is, it.affiliation) {
            (_, Owner) => verbs.push(GroupVerb::AddOwner),
            (Owner, Admin) => verbs.push(GroupVerb::RemoveOwner),
            (_, Admin) => verbs.push(GroupVerb::Promote),
            (Owner, Member) => verbs.extend([GroupVerb::RemoveOwner, GroupVerb::Demote]),
            (Admin, Member) => verbs.push(GroupVerb::Demote),
            (Outcast, None) => verbs.push(GroupVerb::Unban),
            (_, None) => verbs.push(GroupVerb::Remove),
            (_, Outcast) => verbs.push(GroupVerb::Ban),
            (_, Member) => {}
        }
        Ok(verbs)
    }
}

/// Whether an account of this rank may give another one, or itself, this affiliation (5.2.1). Each
/// may give up what it is.
fn ranks(
    (rank, is_own): (Role, bool),
    now_is: Affiliation,
    wanted: Affiliation,
) -> Result<(), ChatFault> {
    let is_high = now_is.max(wanted) >= Affiliation::Admin;
    match rank {
        _ if is_own && wanted < now_is && wanted != Affiliation::Outcast => Ok(()),
        Role::Member => Err(ChatFault::Forbidden),
        Role::Admin if is_high => Err(ChatFault::Outranked),
        Role::Owner if is_own => Err(ChatFault::LastOwner), // it bans itself (9.1)
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::groups::state::Concerned;
    use std::collections::BTreeSet;

    const HOME: HashKey = HashKey::new(1, 2);
    const MOST: Most = Most { members: 8, banned: 2 };

    fn member(text: &str) -> GroupMember {
        let address = AccountAddress::parse(text, "a.example").expect("right");
        let is_foreign = address.domain() != "a.example";
        GroupMember { address, id: if is_foreign { AccountId::FOREIGN } else { AccountId(1) } }
    }

    /// Ann owns it, Bob is an admin, Carol a member, Dave was one and left, Eve is banned.
    fn lunch() -> GroupState {
        let mut state = GroupState::default();
        let changes = [
            (GroupVerb::Create, "ann bob carol dave"),
            (GroupVerb::Promote, "bob"),
            (GroupVerb::Leave, "dave"),
            (GroupVerb::Ban, "eve"),
        ];
        for (id, (verb, names)) in (1..).zip(changes) {
            let members = names.split(' ').map(member).collect();
            state.apply(HOME, id, &GroupChange { verb, title: "Lunch".into(), members });
        }
        state
    }

    fn told(verdict: Result<Verdict, ChatFault>) -> String {
        let all = match verdict {
            Ok(Verdict::Change(all)) => all,
            Ok(other) => panic!("{other:?}"),
            Err(why) => return why.name().into(),
        };
        let one = |it: &GroupChange| {
            let names = it.members.iter().map(|one| format!(" {}", one.address.name()));
            let title = Some(&*it.title).filter(|it| !it.is_empty());
            let title = title.map_or_else(String::new, |it| format!(" \"{it}\""));
            format!("{}{}{title}", it.verb.word(), names.collect::<String>())
        };
        all.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    fn sets(state: &GroupState, by: &str, items: &[(&str, Affiliation)]) -> String {
        let by = member(by);
        let wanted = items.iter().map(|(name, affiliation)| {
            let one = member(name);
            let consent = match *name {
                _ if name.starts_with("shy") => Consent::Needed,
                "foe" => Consent::Refused,
                _ => Consent::Given,
            };
            let id = Some(one.id).filter(|_| *name != "nobody");
            let (account, reason) = ((one.address, id), Box::default());
            Affiliated { account, affiliation: *affiliation, reason, consent }
        });
        let wanted: Vec<_> = wanted.collect();
        let by = (by.address.inbox(HOME, by.id), false);
        told(state.judge_affiliations(HOME, by, (&wanted, MOST)))
    }

    #[test]
    fn an_affiliation_is_what_is_to_be_done_for_it_and_each_rank_gives_its_own() {
        use Affiliation::{Admin, Member, None, Outcast, Owner};
        let state = lunch();
        for (by, whom, affiliation, expected) in [
            ("ann", "carol", Owner, "add-owner carol"),
            ("ann", "frank", Owner, "add frank, add-owner frank"),
            ("ann", "frank", Admin, "add frank, promote frank"),
            ("ann", "eve", Admin, "unban eve, add eve, promote eve"),
            ("ann", "eve", None, "unban eve"),
            ("ann", "bob", Member, "demote bob"),
            ("ann", "bob", Admin, "unchanged"),
            ("ann", "carol", None, "remove carol"),
            ("ann", "frank", None, "unchanged"),
            ("ann", "nobody", None, "unchanged"),
            ("ann", "nobody", Member, "unknown_account"),
            ("ann", "bob", Outcast, "ban bob"),
            ("ann", "dave", Member, "invite dave"),
            ("ann", "dave", Owner, "invitation_needed"),
            ("ann", "shy", Member, "invite shy"),
            ("ann", "shy", Admin, "invitation_needed"),
            ("ann", "foe", Member, "unknown_account"),
            ("ann", "ann", Member, "last_owner"),
            ("ann", "ann", None, "last_owner"),
            ("bob", "carol", Outcast, "ban carol"),
            ("bob", "frank", Member, "add frank"),
            ("bob", "carol", Admin, "outranked"),
            ("bob", "ann", None, "outranked"),
            ("bob", "bob", Owner, "outranked"),
            ("bob", "bob", Member, "demote bob"),
            ("bob", "bob", None, "leave bob"),
            ("carol", "carol", Owner, "forbidden"),
            ("carol", "carol", None, "leave carol"),
            ("carol", "frank", Member, "forbidden"),
            ("carol", "frank", None, "forbidden"),
            ("carol", "eve", Outcast, "forbidden"),
            ("carol", "carol", Member, "unchanged"),
            ("frank", "frank", Member, "not_member"),
        ] {
            assert_eq!(sets(&state, by, &[(whom, affiliation)]), expected, "{by} {whom}");
        }
    }

    #[test]
    fn a_list_is_judged_as_a_whole_before_anything_is_done() {
        use Affiliation::{Admin, Member, None, Outcast, Owner};
        let mut state = lunch();
        assert_eq!(sets(&state, "bob", &[("frank", Member), ("ann", None)]), "outranked");
        let all = [("frank", Admin), ("eve", Admin), ("carol", Outcast), ("ann", Owner)];
        let expected = "unban eve, add frank eve, promote frank eve, ban carol";
        assert_eq!(sets(&state, "ann", &all), expected);
        assert_eq!(sets(&state, "ann", &[("carol", None), ("carol", Owner)]), "invalid");
        let others = [("f1", Outcast), ("f2", Outcast)];
        assert_eq!(sets(&state, "ann", &others), "bans_full");
        let many = ["m1", "m2", "m3", "m4", "m5", "m6"].map(|name| (name, Member));
        assert_eq!(sets(&state, "ann", &many), "group_full");
        // Owners of other servers do not keep it.
        let handed = [("bob", Owner), ("ann", Member)];
        assert_eq!(sets(&state, "ann", &handed), "add-owner bob, remove-owner ann, demote ann");
        let abroad = [("kim@b.example", Owner), ("ann", Member)];
        assert_eq!(sets(&state, "ann", &abroad), "last_owner");
        for (id, (verb, name)) in (9..).zip([(GroupVerb::AddOwner, "bob")]) {
            let change = GroupChange { verb, title: "".into(), members: vec![member(name)] };
            state.apply(HOME, id, &change);
        }
        assert_eq!(sets(&state, "ann", &[("ann", Member)]), "remove-owner ann, demote ann");
        assert_eq!(sets(&state, "ann", &[("ann", Outcast)]), "last_owner", "nobody bans itself");
        assert_eq!(sets(&state, "bob", &[("ann", None)]), "remove ann");
        assert_eq!(sets(&state, "bob", &[("ann", None), ("bob", None)]), "last_owner");
    }

    #[test]
    fn of_two_accounts_with_one_name_the_last_gets_a_role_and_both_lose_theirs() {
        use Affiliation::{Admin, Member, None, Outcast, Owner};
        let mut state = lunch();
        let earlier = GroupMember { id: AccountId(7), ..member("carol") };
        let change = |verb| GroupChange { verb, title: "".into(), members: vec![earlier.clone()] };
        state.apply(HOME, 9, &change(GroupVerb::Add));
        state.apply(HOME, 10, &change(GroupVerb::Promote));
        for (affiliation, expected) in [
            (None, "remove carol carol"),
            (Outcast, "ban carol carol"),
            (Member, "demote carol"),
            (Admin, "promote carol"),
            (Owner, "add-owner carol"),
        ] {
            assert_eq!(sets(&state, "ann", &[("carol", affiliation)]), expected);
        }
        let by = (member("ann").address.inbox(HOME, AccountId(1)), false);
        let account = (earlier.address.clone(), Some(AccountId(1)));
        let owner = |affiliation| Affiliated {
            account: account.clone(),
            affiliation,
            reason: "".into(),
            consent: Consent::Given,
        };
        match state.judge_affiliations(HOME, by, (&[owner(Owner)], MOST)) {
            Ok(Verdict::Change(all)) => assert_eq!(all[0].members[0].id, AccountId(1)),
            other => panic!("{other:?}"),
        }
        // Only the earlier one is a member: the account of now is added.
        state.apply(
            HOME,
            11,
            &GroupChange {
                verb: GroupVerb::Remove,
                title: "".into(),
                members: vec![member("carol")],
            },
        );
        assert_eq!(sets(&state, "ann", &[("carol", Member)]), "add carol, demote carol");
    }

    #[test]
    fn invited_accounts_take_a_place_as_members_do() {
        use Affiliation::{Member, Outcast};
        let mut state = lunch();
        let (first, second) = (["shy1", "shy2", "shy3"], ["shy4", "shy5", "shy6"]);
        let [first, second] = [first, second].map(|all| all.map(|name| (name, Member)));
        assert_eq!(sets(&state, "ann", &first), "invite shy1 shy2 shy3");
        let members = first.iter().map(|(name, _)| member(name)).collect();
        let invites = GroupChange { verb: GroupVerb::Invite, title: "".into(), members };
        state.apply(HOME, 9, &invites);
        assert_eq!(sets(&state, "ann", &second), "group_full", "of eight");
        assert_eq!(
            sets(&state, "ann", &[("shy4", Member), ("carol", Outcast)]),
            "ban carol, invite shy4"
        );
        assert_eq!(
            sets(&state, "ann", &[("shy4", Member), ("frank", Member)]),
            "add frank, invite shy4"
        );
        let three = [("shy4", Member), ("frank", Member), ("gina", Member)];
        assert_eq!(sets(&state, "ann", &three), "group_full");
        assert_eq!(sets(&state, "ann", &three[1..]), "add frank gina");
    }

    #[test]
    fn whom_a_list_of_many_lines_concerns_is_found_by_two_looks_at_the_members() {
        let named = |prefix: &str, count: usize| {
            (0..count).map(|n| member(&format!("{prefix}{n}"))).collect::<Vec<_>>()
        };
        let change = |verb, members| GroupChange { verb, title: "".into(), members };
        let mut state = GroupState::default();
        let mut all = vec![member("ann")];
        all.extend(named("m", 1_000));
        state.apply(HOME, 1, &change(GroupVerb::Create, all));
        state.apply(HOME, 2, &change(GroupVerb::Invite, named("called", 64)));
        let verbs = [
            (GroupVerb::Add, "new"),
            (GroupVerb::Promote, "new"),
            (GroupVerb::Invite, "shy"),
            (GroupVerb::Remove, "called"),
            (GroupVerb::Remove, "m"),
            (GroupVerb::Ban, "m2"),
        ];
        let lines = |(verb, prefix): (GroupVerb, &str)| {
            named(prefix, 64)
                .into_iter()
                .map(move |one| change(verb, vec![one]))
                .collect::<Vec<_>>()
        };
        let lines: Vec<_> = verbs.into_iter().flat_map(lines).collect();
        let mut alone = state.clone();
        let mut expected = [BTreeSet::new(), BTreeSet::new()];
        for it in &lines {
            let Concerned { all, begin } = alone.apply_all(HOME, 3, std::slice::from_ref(it));
            expected[0].extend(all.iter().copied());
            expected[1].extend(begin.iter().copied());
        }
        state.listings = 0;
        let Concerned { all, begin } = state.apply_all(HOME, 3, &lines);
        assert_eq!([&all, &begin].map(|it| it.iter().copied().collect::<BTreeSet<_>>()), expected);
        assert_eq!((all.len(), begin.len()), (expected[0].len(), expected[1].len()), "each once");
        assert_eq!((all.len(), state.listings), (1 + 1_000 + 3 * 64, 2));
    }

    #[test]
    fn settings_are_one_change_by_an_owner_of_what_is_otherwise() {
        let state = lunch();
        let sets = |by: &str, wanted: &GroupSettings| {
            let by = member(by);
            told(state.judge_settings((by.address.inbox(HOME, by.id), false), wanted))
        };
        let wanted = GroupSettings {
            title: Some("Tea".into()),
            description: Some("".into()),
            closed: Some(false),
            unlocked: Some(true),
            public: Some(true),
            temporary: Some(true),
            rules: vec![RoomRule::OccupantsMax(0), RoomRule::OpenSubject(true)],
        };
        let all = "rename \"Tea\", unpersist, unlock, reveal, set \"open-subject 1\"";
        assert_eq!(sets("ann", &wanted), all);
        assert_eq!(sets("bob", &wanted), "forbidden");
        assert_eq!(sets("frank", &wanted), "not_member");
        assert_eq!(sets("ann", &GroupSettings::default()), "unchanged");
        let title = Some("x".repeat(GROUP_TITLE_BYTES_MAX + 1).into());
        let long = GroupSettings { title, unlocked: Some(true), ..GroupSettings::default() };
        assert_eq!(sets("ann", &long), "too_large");
    }
}
