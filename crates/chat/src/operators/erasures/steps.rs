//! The steps of an erasure that make requests as a device would: messages, groups, contacts, nodes.
//!
//! Invariants: a step whose requests are all answered is followed by the next; a step with a failed
//! request is begun again, and its earlier requests change nothing then.

use crate::amendments::RecallAsked;
use crate::envelope::client_id_of;
use crate::inboxes::entry::Entry;
use crate::log::{Answered, PendingCall};
use crate::sessions::Asker;
use crate::{Chat, Effects};
use base::time::Now;
use model::account::{AccountAddress, AccountId, Addressee};
use model::chat::*;
use model::ports::chat::ErrandWhat;
use model::ports::log::{Call, Done, Pull, Read};
use model::timeline::{Seq, TimelineId};
use std::collections::VecDeque;
use std::time::Duration;

/// Largest number of inbox entries that are read at once, and their bytes.
const ENTRIES: usize = 64;
const BYTES: usize = 64 * 1024;

/// Largest number of conversations or contacts that are requested at once.
const PAGE: u16 = 32;

/// Attempts to leave a group that the account owns.
const TRIES: u8 = 4;

/// Time in which messages on their way reach their inboxes.
const SETTLES: Duration = Duration::from_secs(10);

/// The next step of an erasure.
pub(crate) enum Step {
    /// Reads the inbox behind an offset.
    Messages { after: Seq },
    /// Recalls the account's messages in this part of the inbox.
    Recalling { after: Seq, upto: Seq },
    /// Requests groups of the account's conversation list, before an offset.
    Groups { before: Seq },
    /// Leaves these groups, then requests those before an offset.
    Leaving { groups: VecDeque<AccountAddress>, next: Option<Seq>, how: How, tries: u8 },
    /// Requests contacts.
    Contacts { range: ContactsRange },
    /// Removes these contacts, then requests the next ones.
    Removing { contacts: Vec<(AccountAddress, bool)>, next: Option<ContactsRange> },
    /// Requests nodes.
    Nodes,
    /// Deletes these nodes.
    Deleting { nodes: Box<[Box<str>]> },
    /// Waits until messages on their way have arrived.
    Settle,
    /// Deletes rows, one table after the other.
    Rows { at: usize },
    /// Deletes the account's inbox and its row.
    Last,
    /// Deletes the erasure's own row.
    Own,
}

/// How the account leaves the first group.
pub(crate) enum How {
    Leave,
    /// The account alone owns the group: reads its other members.
    Look,
    AddOwner(AccountAddress),
    /// No other member can own the group.
    Dissolve,
}

impl Step {
    /// Name of the step in the API.
    pub(super) const fn word(&self) -> &'static str {
        match self {
            Step::Messages { .. } | Step::Recalling { .. } => "messages",
            Step::Groups { .. } | Step::Leaving { .. } => "groups",
            Step::Contacts { .. } | Step::Removing { .. } => "contacts",
            Step::Nodes | Step::Deleting { .. } => "nodes",
            Step::Settle | Step::Rows { .. } | Step::Last | Step::Own => "rows",
        }
    }
}

impl Chat {
    fn step_is(&mut self, inbox: TimelineId, step: Step) {
        if let Some(erasure) = self.erasures.open.get_mut(&inbox) {
            erasure.step = step;
        }
    }

    /// Makes the requests of the next step.
    pub(super) fn erasure_steps(&mut self, now: Now, inbox: TimelineId, fx: &mut Effects) {
        let Some(erasure) = self.erasures.open.get(&inbox) else { return };
        let ask = match &erasure.step {
            // The step has failed in part: it is begun again.
            &Step::Recalling { after, .. } | &Step::Messages { after } => {
                return self.read_said(now, inbox, after, fx);
            }
            &Step::Groups { before } => {
                ErrandWhat::Conversations { before, count: PAGE, groups: true }
            }
            Step::Leaving { groups, how, .. } => match groups.front() {
                Some(group) => self.leaves_group(group, how),
                None => return self.step_over(now, inbox, fx),
            },
            Step::Contacts { range } => ErrandWhat::Contacts(*range),
            Step::Removing { contacts, .. } => {
                let wishes = contacts.iter().flat_map(|(contact, is_blocked)| {
                    let wish = |order| ContactWish { contact: contact.clone().into(), order };
                    let unblocks = is_blocked.then(|| wish(ContactOrder::Unblock));
                    unblocks.into_iter().chain([wish(ContactOrder::Remove)])
                });
                let all: Vec<_> = wishes.map(|wish| ErrandWhat::Contact(Box::new(wish))).collect();
                return self.erasure_asks_all(now, inbox, all, fx);
            }
            Step::Nodes => ErrandWhat::Nodes(Box::new(NodesAsk::Names)),
            Step::Deleting { nodes } => {
                let all = nodes.iter().map(|it| NodesAsk::Delete(it.clone()));
                let all = all.map(|ask| ErrandWhat::Nodes(Box::new(ask))).collect();
                return self.erasure_asks_all(now, inbox, all, fx);
            }
            Step::Settle => return self.looks_once_more(inbox),
            &Step::Rows { at } => return self.erase_rows(inbox, at, fx),
            Step::Last => return self.erase_last(inbox, fx),
            Step::Own => return self.erase_own(inbox, fx),
        };
        self.erasure_asks(now, inbox, ask, fx);
    }

    fn erasure_asks_all(
        &mut self,
        now: Now,
        inbox: TimelineId,
        all: Vec<ErrandWhat>,
        fx: &mut Effects,
    ) {
        if all.is_empty() {
            return self.step_over(now, inbox, fx);
        }
        for what in all {
            self.erasure_asks(now, inbox, what, fx);
        }
    }

    fn read_said(&mut self, now: Now, inbox: TimelineId, after: Seq, fx: &mut Effects) {
        let is_drawn = self.erasures.open.get(&inbox).is_some_and(|it| it.is_drawn);
        // The account's messages in read groups are copied to its inbox first.
        if !self.log.may_ask() || !is_drawn && !self.has_drawn_all(inbox) {
            return self.erasure_waits(now, inbox, super::AGAIN);
        }
        self.step_is(inbox, Step::Messages { after });
        if let Some(erasure) = self.erasures.open.get_mut(&inbox) {
            (erasure.waiting, erasure.is_drawn) = (1, true);
        }
        let (count_max, bytes_max) = (ENTRIES, BYTES);
        let pull = Pull { timeline: inbox, from: after, backwards: false, count_max, bytes_max };
        self.log.ask(PendingCall::ErasurePage(inbox), Call::Read(Read::Pull(pull)), fx);
    }

    /// Recalls the account's messages among these entries of its inbox, in all conversations.
    pub(crate) fn erasure_page(
        &mut self,
        now: Now,
        inbox: TimelineId,
        result: Answered,
        fx: &mut Effects,
    ) {
        let Some(erasure) = self.erasures.open.get_mut(&inbox) else { return };
        erasure.waiting = 0;
        let Step::Messages { after } = erasure.step else { return };
        let Ok(Done::Page(page)) = result else {
            return self.erasure_waits(now, inbox, super::AGAIN);
        };
        let places = page.messages.iter().map(|placed| placed.seq);
        let Some(upto) = places.chain(page.damaged.iter().copied()).max() else {
            if !erasure.has_settled {
                return self.step_is(inbox, Step::Groups { before: Seq::MAX });
            }
            self.clear_pushes(inbox, fx);
            return self.step_is(inbox, Step::Rows { at: 0 });
        };
        self.step_is(inbox, Step::Recalling { after, upto });
        for placed in &page.messages {
            let Some(Entry::Message(pointer, with)) = Entry::decode(&placed.message) else {
                continue;
            };
            if !pointer.relation.own || pointer.recalls.is_some() {
                continue;
            }
            let Some(wait) = self.errand_of_erasure(inbox, true) else { return };
            let Some(erasure) = self.erasures.open.get(&inbox) else { return };
            let (address, device, is_operator) = (erasure.address.clone(), Box::default(), true);
            let asker = Asker { inbox, address, device, source: None, is_operator };
            let (seq, conversation, reason) =
                (pointer.seq, Some(pointer.conversation), Box::default());
            // Between two accounts the other one is notified, too.
            self.begin_recall(RecallAsked { wait, asker, with, seq, reason, conversation }, fx);
        }
        let is_idle = self.erasures.open.get(&inbox).is_some_and(|it| it.waiting == 0);
        if is_idle {
            self.step_over(now, inbox, fx);
        }
    }

    /// Reads the inbox again, for messages that were on their way at the first time.
    fn looks_once_more(&mut self, inbox: TimelineId) {
        if let Some(erasure) = self.erasures.open.get_mut(&inbox) {
            (erasure.has_settled, erasure.is_drawn) = (true, false);
            erasure.step = Step::Messages { after: erasure.done };
        }
    }

    fn leaves_group(&self, group: &AccountAddress, how: &How) -> ErrandWhat {
        let (verb, members): (_, Vec<Addressee>) = match how {
            How::Look => {
                let group = group.clone().into();
                let range = MembersRange { group, version: 0, from: 0, count: 2, banned: false };
                return ErrandWhat::Members(Box::new(range));
            }
            How::Leave => (GroupVerb::Leave, vec![]),
            How::AddOwner(to) => (GroupVerb::AddOwner, vec![to.clone().into()]),
            How::Dissolve => (GroupVerb::Dissolve, vec![]),
        };
        // The id is the same for each repetition.
        let named = members.first().map_or("", |it| it.as_str());
        let of: [&[u8]; 4] =
            [b"erase", group.as_str().as_bytes(), verb.word().as_bytes(), named.as_bytes()];
        ErrandWhat::Group(Box::new(GroupOrder {
            group: Some(group.clone().into()),
            client_id: client_id_of(self.settings.home, &of),
            verb,
            title: "".into(),
            members,
        }))
    }

    /// Handles a reply that is no reason to begin the step again. True: the step has this reply.
    pub(super) fn step_told(&mut self, inbox: TimelineId, told: ChatDelivery) -> bool {
        let Some(erasure) = self.erasures.open.get_mut(&inbox) else { return true };
        match (&mut erasure.step, told) {
            (Step::Recalling { .. }, ChatDelivery::Sent { again: false, .. }) => {
                erasure.messages += 1;
                return false;
            }
            (Step::Groups { .. }, ChatDelivery::Conversations(page)) => {
                let next = page.conversations.last().filter(|_| page.more).map(|it| it.place);
                let groups = page.conversations.iter().map(|it| it.with.clone()).collect();
                erasure.step = Step::Leaving { groups, next, how: How::Leave, tries: 0 };
            }
            (Step::Leaving { groups, how, tries, .. }, told) => {
                *tries += 1;
                let is_owners =
                    matches!(&told, ChatDelivery::Failed { why: ChatFault::Forbidden, .. });
                let next = match (&how, told) {
                    (How::Leave, _) if is_owners && *tries < TRIES => Some(How::Look),
                    (How::Look, ChatDelivery::Members(page)) => {
                        // A group has an owner of its server.
                        let ours =
                            page.members.iter().filter(|it| it.member.id != AccountId::FOREIGN);
                        let other =
                            ours.map(|it| &it.member.address).find(|it| **it != erasure.address);
                        Some(other.map_or(How::Dissolve, |other| How::AddOwner(other.clone())))
                    }
                    (How::AddOwner(_), _) => Some(How::Leave),
                    _ => None,
                };
                match next {
                    Some(next) => *how = next,
                    None => {
                        groups.pop_front();
                        (*how, *tries) = (How::Leave, 0);
                    }
                }
                return false;
            }
            (Step::Contacts { .. }, ChatDelivery::ContactsPage(page)) => {
                let there = page.contacts.iter().filter(|contact| !contact.is_gone());
                let contacts = there.map(|it| (it.address.clone(), it.is_blocked)).collect();
                let (after, since, count) = (page.upto, page.since, PAGE);
                let next = page.more.then_some(ContactsRange { after, since, count });
                erasure.step = Step::Removing { contacts, next };
            }
            (Step::Nodes, ChatDelivery::Nodes(answer)) => {
                let nodes = match answer.result {
                    Ok(NodesFound::Names(names)) => names,
                    _ => Box::default(),
                };
                erasure.step = Step::Deleting { nodes };
            }
            _ => return false,
        }
        true
    }

    /// Chooses the next step when all requests of a step are answered.
    pub(super) fn step_over(&mut self, now: Now, inbox: TimelineId, fx: &mut Effects) {
        let Some(erasure) = self.erasures.open.get_mut(&inbox) else { return };
        let next = match &erasure.step {
            &Step::Recalling { upto, .. } => {
                erasure.done = upto;
                Step::Messages { after: upto }
            }
            // The list was refused, and is not requested again: every request is answered.
            Step::Groups { .. } => Step::Contacts { range: first_contacts() },
            Step::Leaving { groups, next, .. } if groups.is_empty() => match *next {
                Some(before) => Step::Groups { before },
                None => Step::Contacts { range: first_contacts() },
            },
            Step::Contacts { .. } => Step::Nodes,
            Step::Removing { next, .. } => match *next {
                Some(range) => Step::Contacts { range },
                None => Step::Nodes,
            },
            Step::Nodes => Step::Deleting { nodes: Box::default() },
            Step::Deleting { .. } => {
                erasure.step = Step::Settle;
                return self.erasure_waits(now, inbox, SETTLES);
            }
            Step::Messages { .. }
            | Step::Leaving { .. }
            | Step::Settle
            | Step::Rows { .. }
            | Step::Last
            | Step::Own => return,
        };
        let is_page = matches!(next, Step::Messages { .. });
        erasure.step = next;
        if is_page {
            self.keep_erasure(inbox, fx);
        }
    }
}

fn first_contacts() -> ContactsRange {
    ContactsRange { after: 0, since: 0, count: PAGE }
}
