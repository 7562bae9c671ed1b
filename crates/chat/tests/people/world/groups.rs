//! Groups: random changes of them, and the final state that everyone must have.

use super::device::put;
use super::members::Then;
use super::{Device, PEOPLE, Said, World, person, whole};
use model::account::AccountAddress;
use model::chat::{
    ChatFault, ChatMessage, ChatRequest, ClientMessageId, Content, FanOut, GroupChange, GroupOrder,
    GroupVerb, MembersRange, PUBLIC_PAGE_MAX, PublicRange,
};
use model::timeline::Seq;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Largest number of groups.
const GROUPS_MAX: usize = 3;

/// Length of a generated group name, bytes.
const NAME_BYTES: usize = 13;

/// Messages of a group, as far as any device has them.
type Conversation = BTreeMap<Seq, Arc<ChatMessage>>;

impl World {
    /// Groups that any device has learned of.
    pub fn groups(&self) -> Vec<AccountAddress> {
        let all = self.devices.iter().flat_map(|device| &device.groups);
        all.cloned().collect::<BTreeSet<_>>().into_iter().collect()
    }

    pub(super) fn a_group(&mut self) -> Option<AccountAddress> {
        let groups = self.groups();
        let at = self.rng.below(groups.len().max(1) as u64) as usize;
        groups.get(at).cloned()
    }

    /// Makes a device's random order about a group, or repeats one.
    pub(super) fn order(&mut self, at: usize) {
        let account = self.devices[at].account.clone();
        let own: Vec<Said> = self.orders.keys().filter(|(by, _)| *by == account).cloned().collect();
        if !own.is_empty() && self.rng.one_in(4) {
            let said = own[self.rng.below(own.len() as u64) as usize].clone();
            if self.devices[at].said.contains(&said) {
                self.order_this(at, said);
            }
            return;
        }
        let group = self.a_group();
        let makes = self.groups().len() < GROUPS_MAX && (group.is_none() || self.rng.one_in(4));
        // Joining by oneself has tests of its own, and happens here where guests exist; temporary
        // groups have tests of their own, too.
        let has_guests = self.abroad.is_on;
        let is_of_all = |verb: &&GroupVerb| match verb {
            GroupVerb::Lock | GroupVerb::Unlock => has_guests,
            verb => !matches!(verb, GroupVerb::Join | GroupVerb::Persist | GroupVerb::Unpersist),
        };
        let verbs: Vec<GroupVerb> = GroupVerb::ALL.iter().filter(is_of_all).copied().collect();
        let verb = verbs[self.rng.below(verbs.len() as u64) as usize];
        // A chosen name becomes free again, and is taken again.
        let name = self.a_name();
        let has_made = |name: &AccountAddress| {
            let is_it =
                |it: &GroupOrder| it.group.as_ref().is_some_and(|it| it.within("") == *name);
            let mut made = self.orders.iter().filter(|(_, it)| it.verb == GroupVerb::Create);
            made.any(|((by, _), it)| *by == account && is_it(it))
        };
        let may_end = has_made(&name);
        let named = self.rng.one_in(if may_end { 2 } else { 4 }).then_some(name);
        // Orders that end much are rare.
        let verb = match verb {
            _ if named.is_some() && may_end && self.rng.one_in(2) => GroupVerb::Dissolve,
            _ if named.is_some() || makes => GroupVerb::Create,
            _ if self.rng.one_in(8) => GroupVerb::Reveal,
            _ if has_guests && self.rng.one_in(4) => GroupVerb::Unlock,
            _ if has_guests && self.rng.one_in(6) => GroupVerb::Add,
            GroupVerb::Create | GroupVerb::Dissolve if !self.rng.one_in(20) => GroupVerb::Add,
            GroupVerb::Close if !self.rng.one_in(3) => GroupVerb::Open,
            GroupVerb::Mute if !self.rng.one_in(3) => GroupVerb::Unmute,
            GroupVerb::Ban if !self.rng.one_in(3) => GroupVerb::Unban,
            GroupVerb::Hide if !self.rng.one_in(3) => GroupVerb::Reveal,
            GroupVerb::Lock if !self.rng.one_in(3) => GroupVerb::Unlock,
            verb => verb,
        };
        let count = if verb == GroupVerb::HandOver { 1 } else { 1 + self.rng.below(2) };
        let one = |world: &mut World| match has_guests && world.rng.one_in(3) {
            true => world.a_foreigner(),
            false => person(world.rng.below(PEOPLE.into()) as u32),
        };
        let members = (0..count).map(|_| one(self).into()).collect();
        let group = match verb {
            _ if named.is_some() => named,
            GroupVerb::Create => self.rng.one_in(3).then(|| self.a_name()),
            _ => group,
        };
        self.order_new(at, verb, group, members);
    }

    /// The address of a group with a chosen name: one of two.
    fn a_name(&mut self) -> AccountAddress {
        let address = format!("room{}@conference.a.example", self.rng.below(2));
        AccountAddress::parse(&address, "").expect("right")
    }

    fn order_new(
        &mut self,
        at: usize,
        verb: GroupVerb,
        group: Option<AccountAddress>,
        members: Vec<model::account::Addressee>,
    ) {
        let number = self.tried.len() + self.orders.len();
        let client_id = ClientMessageId((1 << 64 | number as u128).to_be_bytes());
        let said = (self.devices[at].account.clone(), client_id);
        let (group, title) = (group.map(Into::into), format!("title {number}").into());
        let order = GroupOrder { group, client_id, verb, title, members };
        self.orders.insert(said.clone(), order);
        self.order_this(at, said);
    }

    fn order_this(&mut self, at: usize, said: Said) {
        let order = self.orders[&said].clone();
        self.devices[at].said.insert(said.clone());
        if let Some(request) = self.devices[at].orders(said, order) {
            self.ask(at, request);
        }
    }

    /// Makes a device's order about a group; returns the answer, when everything is at rest.
    pub fn orders(
        &mut self,
        at: usize,
        verb: GroupVerb,
        group: Option<&AccountAddress>,
        members: &[u32],
    ) -> Result<(), ChatFault> {
        let members = members.iter().map(|&n| person(n).into()).collect();
        self.order_new(at, verb, group.cloned(), members);
        self.rest();
        self.devices[at].failed.take().map_or(Ok(()), Err)
    }

    /// The offset of a person's message in its conversation.
    pub fn said_at(&self, by: &AccountAddress, text: &str) -> Option<Seq> {
        let said = self.tried.iter().find(|((from, _), (_, it))| from == by && &**it == text);
        Some(self.sent.get(said?.0)?.1)
    }

    /// Repeats the last order by which a device's account created a group; returns the answer.
    pub fn makes_again(&mut self, at: usize) -> Result<(), ChatFault> {
        let account = self.devices[at].account.clone();
        let own = self
            .orders
            .iter()
            .filter(|((by, _), order)| *by == account && order.verb == GroupVerb::Create);
        let said = own.map(|(said, _)| said.clone()).max().expect("it has made one");
        self.order_this(at, said);
        self.rest();
        self.devices[at].failed.take().map_or(Ok(()), Err)
    }

    /// Checks that the members of the time have a group's messages, and no one else.
    pub(super) fn check_groups(&self) {
        let inboxes: Vec<_> = (0..PEOPLE).map(|n| (person(n), self.inbox_of(n))).collect();
        let mut all = BTreeMap::<AccountAddress, Conversation>::new();
        for message in inboxes.iter().flat_map(|(_, inbox)| inbox.values()) {
            if message.to.is_group() {
                let group = all.entry(message.to.clone()).or_default();
                put(group, message.seq, message.clone());
            }
        }
        for (group, conversation) in &all {
            self.check_group(group, conversation, &inboxes);
        }
        for (said, (id, seq, _)) in &self.sent {
            let group = match (self.tried.get(said), self.orders.get(said)) {
                (Some((to, _)), _) if to.is_group() => to.clone(),
                (_, Some(order)) if order.verb != GroupVerb::Create => {
                    order.group.as_ref().expect("named").within("")
                }
                _ => continue,
            };
            let found = all.get(&group).and_then(|conversation| conversation.get(seq));
            let found = found.unwrap_or_else(|| panic!("{said:?} is nowhere in {group}"));
            assert_eq!((&found.from, found.client_id, found.id), (&said.0, said.1, *id));
        }
    }

    /// Checks that the list of public groups agrees with the groups' changes, also after a crash.
    /// Returns the number of public groups.
    pub fn check_public(&mut self) -> usize {
        let mut all = BTreeMap::<AccountAddress, Conversation>::new();
        for message in (0..PEOPLE).flat_map(|n| self.inbox_of(n).into_values()) {
            if message.to.is_group() {
                put(all.entry(message.to.clone()).or_default(), message.seq, message);
            }
        }
        let mut expected = BTreeMap::new();
        for (group, conversation) in &all {
            let mut then = Then::default();
            conversation.values().for_each(|message| then.hears(message));
            expected.extend(then.title_if_public().map(|title| (group.clone(), title.into())));
            let range = MembersRange {
                group: group.clone().into(),
                version: 0,
                from: 0,
                count: 1,
                banned: false,
            };
            _ = self.lists_so(0, range);
        }
        assert_eq!(self.public(), expected);
        self.kill();
        self.connect(0);
        self.rest();
        assert_eq!(self.public(), expected, "after a kill");
        expected.len()
    }

    /// The public groups that a device gets, by their addresses, when everything is at rest.
    fn public(&mut self) -> BTreeMap<AccountAddress, Box<str>> {
        let session = self.devices[0].session.expect("it is here");
        let (number, domain) = (self.devices[0].number(), "conference.a.example".into());
        let range = PublicRange { domain, from: None, backwards: false, count: PUBLIC_PAGE_MAX };
        let range = Box::new(range);
        self.ask(0, ChatRequest::PublicGroups { session, number, range });
        self.rest();
        let page = self.devices[0].public.take().expect("an answer");
        page.groups.into_iter().map(|it| (it.group, it.title)).collect()
    }

    /// Number of groups that were created under an earlier group's name.
    pub fn anew(&self) -> usize {
        let all = (0..PEOPLE).flat_map(|n| self.inbox_of(n).into_values().collect::<Vec<_>>());
        let is_made = |it: &Arc<ChatMessage>| {
            let change = GroupChange::of(&it.content);
            it.seq > 1 && change.is_some_and(|change| change.verb == GroupVerb::Create)
        };
        let these = all.filter(is_made).map(|it| (it.to.clone(), it.seq));
        these.collect::<BTreeSet<_>>().len()
    }

    /// Number of turns of groups, to being read or to being written.
    pub fn turns(&self) -> usize {
        let inboxes = (0..PEOPLE).map(|n| self.inbox_of(n));
        let all = inboxes.flat_map(|inbox| inbox.into_values().collect::<Vec<_>>());
        let turns = all.filter(|it| FanOut::of(&it.content).is_some());
        turns.map(|it| (it.to.clone(), it.seq)).collect::<BTreeSet<_>>().len()
    }

    pub(super) fn inbox_of(&self, n: u32) -> BTreeMap<Seq, Arc<ChatMessage>> {
        let of = self.devices.iter().filter(|device| device.account == person(n));
        whole(&of.collect::<Vec<&Device>>())
    }

    fn check_group(
        &self,
        group: &AccountAddress,
        conversation: &Conversation,
        inboxes: &[(AccountAddress, BTreeMap<Seq, Arc<ChatMessage>>)],
    ) {
        let mut members = BTreeSet::<AccountAddress>::new();
        let (mut then, mut versions) = (Then::default(), BTreeMap::<u64, Then>::new());
        let mut concerned = BTreeMap::<&AccountAddress, Vec<Seq>>::new();
        for (at, (&seq, message)) in (1..).zip(conversation) {
            assert_eq!(seq, at, "{group} has no gap: {conversation:?}");
            let (before, invited) = (members.clone(), then.invited.clone());
            let change = GroupChange::of(&message.content);
            let named = change.iter().flat_map(|change| &change.members);
            let named: Vec<_> = named.map(|one| one.address.clone()).collect();
            let verb = change.as_ref().map(|change| change.verb);
            let names = named.clone();
            match verb {
                Some(verb) if verb.makes_members() => members.extend(named),
                Some(GroupVerb::Dissolve) => members.clear(),
                Some(verb) if verb.ends_membership() => members.retain(|it| !named.contains(it)),
                _ => {}
            }
            then.hears(message);
            assert!(then.members.keys().eq(&members), "{then:?}");
            if change.is_some() {
                versions.insert(message.id, then.clone());
            }
            assert!(members.len() <= 3, "the limit of tests");
            let is_first = verb == Some(GroupVerb::Create);
            assert!(
                is_first == before.is_empty(),
                "it is made when it is not there, and then only"
            );
            let is_chosen = group.name().len() < NAME_BYTES;
            assert!(!is_first || seq == 1 || is_chosen, "{group} is made once");
            // A moderator may recall messages of a former member.
            let is_recall = message.content.kind == Content::RECALL;
            let comes = verb == Some(GroupVerb::Join) && members.contains(&message.from);
            let declines = verb == Some(GroupVerb::Leave) && invited.contains(&message.from);
            let may_say = is_first || is_recall || comes || declines;
            // Accounts of other servers may be in the room of an open group without being members.
            let is_visitor = verb.is_none() && super::abroad::is_abroad(&message.from);
            let may_say = may_say || is_visitor || before.contains(&message.from);
            assert!(may_say, "{message:?} is by no member");
            let whom = told(verb, (before, &members), (&invited, &names));
            for (person, _) in inboxes.iter().filter(|(person, _)| whom.contains(person)) {
                concerned.entry(person).or_default().push(seq);
            }
        }
        for (person, inbox) in inboxes {
            let has = inbox.values().filter(|it| it.to == *group).map(|it| it.seq);
            let has: Vec<Seq> = has.collect();
            let all = concerned.remove(person).unwrap_or_default();
            assert_eq!(has, all, "{person} has of {group} what concerns it, in order");
            for device in self.devices.iter().filter(|device| device.account == *person) {
                for page in device.pages.iter().filter(|page| page.group == *group) {
                    let then = versions.get(&page.version).expect("a version of it");
                    then.check(person, page);
                }
                for (_, seq) in device.read.iter().filter(|(of, _)| of == group) {
                    // A new member of an open group reads earlier messages, too.
                    let may = self.abroad.is_on || all.contains(seq);
                    assert!(may, "{person} has read {seq} of {group}");
                }
            }
        }
    }
}

/// The accounts that get a change: members before or after it, and invited accounts, also former
/// ones.
fn told(
    verb: Option<GroupVerb>,
    (before, now): (BTreeSet<AccountAddress>, &BTreeSet<AccountAddress>),
    (invited, named): (&BTreeSet<AccountAddress>, &[AccountAddress]),
) -> BTreeSet<AccountAddress> {
    let ends = verb.is_some_and(GroupVerb::ends_membership);
    let mut whom = if ends { before } else { now.clone() };
    if verb == Some(GroupVerb::Dissolve) {
        whom.extend(invited.iter().cloned());
    } else if verb.is_some_and(|it| it.leaves_outside() && it != GroupVerb::Ban) {
        let is_told =
            |it: &&AccountAddress| verb == Some(GroupVerb::Invite) || invited.contains(*it);
        whom.extend(named.iter().filter(is_told).cloned());
    }
    whom
}
