//! Orders and requests of sessions about contacts.
//!
//! Invariant: each order is answered once: "done" when it is on stable storage, or the fault.

use super::store::{Change, Then};
use super::tie::Tie;
use super::{Task, requester};
use crate::people::foreign;
use crate::service::flow::Flow;
use crate::sessions::Requester;
use crate::{Chat, Effects};
use base::time::Now;
use model::account::AccountAddress;
use model::chat::*;
use model::id::ConnRef;
use model::pressure::Pressure;
use model::timeline::{Space, TimelineId};
use std::sync::Arc;

/// Largest memory of an order whose contact is being found, bytes.
const WISH_BYTES: usize = GREETING_BYTES_MAX + GREETING_EXTRA_BYTES_MAX;

/// Carries out an order about a contact after finding it. `is_blind`: a missing account gives the
/// same answer as one that does not reply (RFC 6121 8.5.1).
async fn find_and_order(
    mut flow: Flow,
    wait: Requester,
    (inbox, address): (TimelineId, AccountAddress),
    about: Box<(AccountAddress, ContactOrder)>,
    is_blind: bool,
) {
    let id = flow.account(&about.0, WISH_BYTES).await;
    let (chat, now, fx) = flow.state();
    let peer = match id {
        Ok(id) => Some(about.0.inbox(chat.settings.home, id)),
        // A name without an account may be blocked beforehand.
        Err(ChatFault::UnknownAccount) if is_blind || about.1 == ContactOrder::Block => None,
        Err(fault) => return chat.answer_people(wait, Err(fault), fx),
    };
    chat.for_person(now, (inbox, &address), Task::Order(wait, about, peer), fx);
}

impl Chat {
    /// Carries out a session's request about contacts or presence.
    pub(crate) fn ask_people(
        &mut self,
        now: Now,
        from: ConnRef,
        asked: PeopleRequest,
        fx: &mut Effects,
    ) {
        let PeopleRequest { session, number, ask } = asked;
        let Some(asker) = self.asker(from, session) else { return };
        let wait = requester(from, session, number);
        if let Some(fault) = self.may_not_ask(&ask) {
            return self.answer_people(wait, Err(fault), fx);
        }
        let person = (asker.inbox, &asker.address);
        match ask {
            PeopleAsk::Contacts { after } => {
                self.for_person(now, person, Task::List(wait, after), fx);
            }
            PeopleAsk::Page(range) => {
                self.for_person(now, person, Task::Page(wait, range), fx);
            }
            PeopleAsk::Present(availability) => {
                if availability.is_none()
                    && let Some(key) = self.sessions.bound(from, session)
                {
                    self.takes_back_directed(key, (asker.inbox, &asker.device), fx);
                }
                let availability = availability.map(|it| Arc::from(*it));
                self.present_with_badge(now, person, (wait, availability), fx);
            }
            PeopleAsk::Report(report) => self.report_abuse(now, (asker, wait), report, fx),
            PeopleAsk::Wish(wish) => {
                let contact = wish.contact.within(asker.address.domain());
                if contact == asker.address || !self.may_be_contact(&contact, &wish.order) {
                    return self.answer_people(wait, Err(ChatFault::Invalid), fx);
                }
                let wants_account = wants_account(&contact, &wish.order);
                let about = Box::new((contact, wish.order));
                if !wants_account {
                    return self.for_person(now, person, Task::Order(wait, about, None), fx);
                }
                let session = self.sessions.session_of((from, session));
                let is_blind = session.is_some_and(|(_, session)| session.binds);
                let by = (asker.inbox, asker.address);
                if !self.begin(|flow| find_and_order(flow, wait, by, about, is_blind)) {
                    self.answer_people(wait, Err(ChatFault::Busy), fx);
                }
            }
        }
    }

    /// Whether this order may be made for this address. A local domain cannot be a contact or be
    /// blocked; a room service cannot be a contact. Removing and unblocking are allowed for any
    /// domain, since the domain may have changed hands after the tie was made.
    fn may_be_contact(&self, contact: &AccountAddress, order: &ContactOrder) -> bool {
        let is_room = contact.is_group() || contact.is_chatroom();
        if !contact.is_domain() {
            return !is_room;
        }
        let foreign = &self.settings.foreign;
        let domain = contact.domain();
        let is_ours = foreign.is_ours(domain) && !foreign.is_component(domain);
        match order {
            ContactOrder::Remove | ContactOrder::Unblock => true,
            ContactOrder::Block => !is_ours,
            _ => !is_ours && !is_room,
        }
    }

    fn may_not_ask(&self, ask: &PeopleAsk) -> Option<ChatFault> {
        let is_too_large = match ask {
            PeopleAsk::Contacts { .. } | PeopleAsk::Present(None) => return None,
            PeopleAsk::Report(_) => false,
            PeopleAsk::Page(range) => {
                return (range.count == 0).then_some(ChatFault::Invalid);
            }
            PeopleAsk::Present(Some(it)) => {
                it.status.len() > STATUS_BYTES_MAX || it.extra.len() > PRESENCE_EXTRA_BYTES_MAX
            }
            PeopleAsk::Wish(wish) => match &wish.order {
                ContactOrder::Set { name, groups } => {
                    let is_long = |group: &str| group.len() > CONTACT_GROUP_BYTES_MAX;
                    name.len() > CONTACT_NAME_BYTES_MAX
                        || groups.len() > CONTACT_GROUPS_MAX
                        || groups.iter().any(|group| is_long(group))
                }
                ContactOrder::Say(_, greeting) | ContactOrder::Befriend(greeting) => {
                    let (text, extra) = greeting_parts(greeting);
                    text.len() > GREETING_BYTES_MAX || extra.len() > GREETING_EXTRA_BYTES_MAX
                }
                ContactOrder::Remove | ContactOrder::Block | ContactOrder::Unblock => false,
            },
        };
        // A block that is refused for it has no report either.
        let is_change = matches!(ask, PeopleAsk::Wish(_) | PeopleAsk::Report(_));
        let is_busy = is_change && self.pressure >= Pressure::Stores;
        let large = is_too_large.then_some(ChatFault::TooLarge);
        large.or(is_busy.then_some(ChatFault::Busy))
    }

    /// Carries out a session's order about a contact.
    pub(super) fn order_tie(
        &mut self,
        now: Now,
        (inbox, wait): (TimelineId, Requester),
        (contact, order): (AccountAddress, ContactOrder),
        peer: Option<TimelineId>,
        fx: &mut Effects,
    ) {
        let Some(person) = self.people.known.get(&inbox) else { return };
        let known = person.ties.get(&contact);
        let mut tie = known.cloned().unwrap_or_else(|| Tie::new(contact));
        match peer {
            Some(peer) => tie.is_now(peer),
            // The name has no account now: its former account gets no more words.
            None if wants_account(&tie.contact.address, &order) => tie.is_nobody(),
            None => {}
        }
        if inbox.space() == Space::Foreign {
            let about = (person.address.clone(), tie.contact.address.clone());
            foreign::answer_again(about, (&order, tie.subscription()), fx);
        }
        let number = person.next_version(now);
        let is_block = matches!(order, ContactOrder::Block | ContactOrder::Unblock);
        let is_blocked = person.blocks(&tie.contact.address);
        let mut result = wish(&mut tie, (order, number), is_blocked);
        let most = self.settings.limits.chat.contacts_an_account_max as usize;
        let is_more = tie.counts() && !known.is_some_and(Tie::counts);
        if is_more && person.ties.values().filter(|tie| tie.counts()).count() >= most {
            result = Err(ChatFault::ContactsFull);
        }
        if let Err(fault) = result {
            return self.answer_people(wait, Err(fault), fx);
        }
        let then = if is_block { Then::AnswerLater(wait) } else { Then::Answer(wait) };
        self.change_tie(now, inbox, Box::new(Change { tie, said: None, then }), fx);
    }
}

/// Whether the order needs the contact's present account.
fn wants_account(contact: &AccountAddress, order: &ContactOrder) -> bool {
    let is_asking =
        |verb| matches!(verb, SubscriptionVerb::Subscribe | SubscriptionVerb::Subscribed);
    match order {
        ContactOrder::Say(verb, _) => is_asking(*verb),
        ContactOrder::Befriend(_) => true,
        ContactOrder::Block => !contact.is_domain(),
        ContactOrder::Set { .. } | ContactOrder::Remove | ContactOrder::Unblock => false,
    }
}

/// Makes a tie what is wanted of it; `number` is one that no wish had before. Nobody wishes to see
/// whom it has blocked.
pub(super) fn wish(
    tie: &mut Tie,
    (order, number): (ContactOrder, u64),
    is_blocked: bool,
) -> Result<(), ChatFault> {
    use SubscriptionVerb::{Subscribe, Subscribed, Unsubscribe, Unsubscribed};
    if is_blocked && matches!(order, ContactOrder::Befriend(_) | ContactOrder::Say(Subscribe, _)) {
        return Err(ChatFault::Blocked);
    }
    match order {
        ContactOrder::Set { name, groups } => {
            let contact = Arc::make_mut(&mut tie.contact);
            let mut groups = Vec::from(groups);
            groups.sort_unstable();
            groups.dedup();
            (contact.is_listed, contact.name, contact.groups) = (true, name, groups.into());
        }
        ContactOrder::Remove => {
            let Subscription { to, .. } = tie.subscription();
            if to != Half::None {
                tie.says(Unsubscribe, number);
            }
            tie.says(Unsubscribed, number);
            let contact = Arc::make_mut(&mut tie.contact);
            contact.is_listed = false;
            (contact.name, contact.groups) = Default::default();
        }
        ContactOrder::Say(verb, greeting) => say(tie, (verb, greeting), number),
        ContactOrder::Befriend(greeting) => {
            say(tie, (Subscribed, Box::default()), number);
            say(tie, (Subscribe, greeting), number);
        }
        ContactOrder::Block | ContactOrder::Unblock => {
            let is_blocked = order == ContactOrder::Block;
            if tie.contact.is_blocked != is_blocked {
                Arc::make_mut(&mut tie.contact).is_blocked = is_blocked;
                tie.block = number;
                tie.owe_block();
            }
        }
    }
    Ok(())
}

fn say(tie: &mut Tie, (verb, greeting): (SubscriptionVerb, Box<str>), number: u64) {
    let lists = matches!(verb, SubscriptionVerb::Subscribe | SubscriptionVerb::Subscribed);
    if lists && !tie.contact.is_listed {
        Arc::make_mut(&mut tie.contact).is_listed = true;
    }
    if verb == SubscriptionVerb::Subscribe && tie.subscription().to != Half::Subscribed {
        tie.greeting = greeting;
    }
    if verb == SubscriptionVerb::Unsubscribe {
        tie.greeting = Box::default();
        if tie.subscription().to == Half::None {
            return; // the contact's home knows
        }
    }
    tie.says(verb, number);
}
