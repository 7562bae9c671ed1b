//! Ties in the log: read when an account is needed, written before a request is answered.
//!
//! An account has one call open at a time, so writes are stored in order, and memory is never ahead
//! of the disk. Keys: the account's inbox, followed by the contact's address; the row without an
//! address has the version up to which removed contacts are forgotten.

use super::tie::Tie;
use super::words::TieTold;
use super::{People, Person, Task};
use crate::accounts::fault_of;
use crate::log::{Answered, PendingCall};
use crate::sessions::Requester;
use crate::{Chat, Effects};
use base::bytes::ByteReader;
use base::time::Now;
use model::account::AccountAddress;
use model::chat::{ChatDelivery, ChatFault, Contact, ContactChange, SubscriptionVerb};
use model::counters::ChatCounter;
use model::id::ShardId;
use model::ports::calls::RETRY_PAUSE;
use model::ports::log::{Call, Done, ROWS_MAX, Read, Row, RowHome, Table, Write};
use model::timeline::{Space, TimelineId};
use std::sync::Arc;

const VERSION: u8 = 1;

/// The call that an account waits for.
#[derive(Default)]
pub(super) enum Step {
    /// Reading its rows.
    #[default]
    Unread,
    Ready,
    /// A flow looks at the ties.
    Entered,
    /// Writing the row that marks debts, before that of a tie.
    Marking(Box<Change>),
    /// Writing the row of a tie.
    Changing(Box<Change>),
    /// Deleting the row that marks debts, since none are left.
    Unmarking,
    /// Raising the floor to the version of a removed contact.
    Rising(AccountAddress),
    /// Deleting that contact's row.
    Dropping(AccountAddress),
}

/// A new state of a tie, and the action after it is stored.
pub(super) struct Change {
    pub tie: Tie,
    /// The contact's word that caused the change.
    pub said: Option<SubscriptionVerb>,
    pub then: Then,
}

/// The action after a change is stored.
pub(super) enum Then {
    Answer(Requester),
    /// Answer the session when the contact's home knows of the change, too.
    AnswerLater(Requester),
    /// Send a receipt to the contact's home.
    Confirm(ShardId, Box<TieTold>),
    /// End the next tie of a removed account.
    Part,
    Nobody,
}

impl Step {
    pub(super) fn is_ready(&self) -> bool {
        matches!(self, Step::Ready)
    }
}

impl People {
    /// Restores an account with debts at the start of the shard.
    pub(crate) fn restore(&mut self, key: &[u8], value: &[u8]) -> bool {
        let address = ByteReader::of(VERSION, value).map(ByteReader::rest);
        let address = address.and_then(address_of);
        let (Some((inbox, [])), Some(address)) = (RowHome::parts_of(key), address) else {
            return false;
        };
        self.left.push_back((inbox, address));
        true
    }
}

impl Chat {
    /// Reads an account's ties, from behind a key on.
    pub(super) fn read_ties(
        &mut self,
        inbox: TimelineId,
        after: Option<Box<[u8]>>,
        fx: &mut Effects,
    ) {
        let (table, prefix) = (Table::ChatContacts, key_of(inbox, ""));
        let read = Read::Rows { table, prefix, after, count: ROWS_MAX };
        self.log.ask(PendingCall::Person(inbox), Call::Read(read), fx);
    }

    /// Handles the log's answer to an account's call.
    pub(crate) fn person_done(
        &mut self,
        now: Now,
        inbox: TimelineId,
        result: Answered,
        fx: &mut Effects,
    ) {
        let Some(person) = self.people.known.get_mut(&inbox) else { return };
        match (std::mem::replace(&mut person.step, Step::Ready), result) {
            (Step::Unread, Ok(Done::Rows(rows))) => return self.ties_read(now, inbox, rows, fx),
            (Step::Unread, result) => {
                let fault = result.map_or_else(fault_of, |_| ChatFault::StoreFailed);
                return self.give_person_up(now, inbox, fault, fx);
            }
            (Step::Ready | Step::Entered, _) => {}
            (Step::Marking(change), Ok(_)) => {
                person.is_marked = true;
                return self.write_tie(inbox, change, fx);
            }
            (Step::Changing(change), Ok(_)) => self.apply(now, inbox, *change, fx),
            (Step::Marking(change) | Step::Changing(change), Err(error)) => {
                self.change_failed(*change, fault_of(error), fx);
            }
            (Step::Unmarking, Ok(_)) => person.is_marked = false,
            (Step::Rising(contact), Ok(_)) => {
                let version = person.ties.get(&contact).map_or(0, |tie| tie.contact.version);
                person.floor = person.floor.max(version);
                person.step = Step::Dropping(contact.clone());
                let key = key_of(inbox, contact.as_str());
                let write = Write::Delete { table: Table::ChatContacts, key };
                return self.log.ask(PendingCall::Person(inbox), Call::Write(write), fx);
            }
            (Step::Dropping(contact), Ok(_)) => {
                self.people.contacts -= usize::from(person.ties.remove(&contact).is_some());
            }
            // A failed clean-up is repeated after the next change.
            (Step::Unmarking | Step::Rising(_) | Step::Dropping(_), Err(_)) => {
                person.is_untidy = false;
            }
        }
        self.advance_person(now, inbox, fx);
    }

    /// Adds ties that were read.
    fn ties_read(&mut self, now: Now, inbox: TimelineId, rows: Vec<Row>, fx: &mut Effects) {
        let Some(person) = self.people.known.get_mut(&inbox) else { return };
        let last = rows.last().filter(|_| rows.len() >= ROWS_MAX).map(|(key, _)| key.clone());
        let before = person.ties.len();
        let is_whole = rows.iter().all(|(key, value)| person.recall(inbox, key, value));
        self.people.contacts += person.ties.len() - before;
        if !is_whole {
            return self.give_person_up(now, inbox, ChatFault::StoreFailed, fx);
        }
        if last.is_some() {
            person.step = Step::Unread;
            return self.read_ties(inbox, last, fx);
        }
        let owing: Vec<AccountAddress> = person.owing().cloned().collect();
        let settles = person.line.iter().any(|task| matches!(task, Task::Settle));
        person.is_marked = settles || !owing.is_empty();
        for contact in owing {
            self.say_again(now, inbox, &contact, fx);
        }
        self.advance_person(now, inbox, fx);
    }

    /// Refuses all tasks of an account whose rows cannot be read now.
    fn give_person_up(&mut self, now: Now, inbox: TimelineId, fault: ChatFault, fx: &mut Effects) {
        let Some(person) = self.people.known.remove(&inbox) else { return };
        self.people.contacts -= person.weight();
        for task in person.line {
            if let Task::Settle = task {
                self.people.left_due = now.after(RETRY_PAUSE);
                self.people.left.push_back((inbox, person.address.clone()));
            }
            self.refuse_person(task, fault, fx);
        }
    }

    /// Stores a changed tie, and carries out the action when it is stored.
    pub(super) fn change_tie(
        &mut self,
        now: Now,
        inbox: TimelineId,
        mut change: Box<Change>,
        fx: &mut Effects,
    ) {
        let Some(person) = self.people.known.get_mut(&inbox) else { return };
        let before = person.ties.get(&change.tie.contact.address);
        if before == Some(&change.tie) || (before.is_none() && change.tie.is_over()) {
            return self.apply(now, inbox, *change, fx);
        }
        let is_news = before.is_none_or(|before| before.contact != change.tie.contact);
        if is_news {
            let version = person.next_version(now);
            Arc::make_mut(&mut change.tie.contact).version = version;
        }
        if change.tie.owes == 0 || person.is_marked {
            return self.write_tie(inbox, change, fx);
        }
        let address = [&[VERSION][..], person.address.as_str().as_bytes()].concat().into();
        person.step = Step::Marking(change);
        let (table, key, value) = (Table::ChatOwing, key_of(inbox, ""), address);
        let write = Write::Put { table, key, value };
        self.log.ask(PendingCall::Person(inbox), Call::Write(write), fx);
    }

    fn write_tie(&mut self, inbox: TimelineId, change: Box<Change>, fx: &mut Effects) {
        let Some(person) = self.people.known.get_mut(&inbox) else { return };
        let key = key_of(inbox, change.tie.contact.address.as_str());
        let value = change.tie.encode();
        person.step = Step::Changing(change);
        let write = Write::Put { table: Table::ChatContacts, key, value };
        self.log.ask(PendingCall::Person(inbox), Call::Write(write), fx);
    }

    /// Puts a stored tie into memory, and notifies sessions and homes.
    fn apply(&mut self, now: Now, inbox: TimelineId, change: Change, fx: &mut Effects) {
        let Change { tie, said, then } = change;
        let Some(person) = self.people.known.get_mut(&inbox) else { return };
        let (address, contact) = (tie.contact.address.clone(), tie.contact.clone());
        let before = person.ties.get(&address).cloned();
        if before.is_none() && tie.is_over() {
            return self.tie_changed(now, inbox, (&address, then), fx);
        }
        let before = before.unwrap_or_else(|| {
            self.people.contacts += 1;
            Tie::new(address.clone())
        });
        // A block of the contact's domain hides the contact, too.
        let is_hidden = person.blocks_domain_of(&address);
        let (saw, sees) = (before.sees() && !is_hidden, tie.sees() && !is_hidden);
        if inbox.space() == Space::Foreign {
            let about = (person.address.clone(), contact.clone(), tie.peer);
            self.foreign_heard(about, said, !saw && sees, fx);
        }
        let Some(person) = self.people.known.get_mut(&inbox) else { return };
        person.is_untidy = true;
        person.version = person.version.max(contact.version);
        let is_new_word = tie.words().any(|word| before.words().all(|other| other != word));
        person.domains_blocked -= blocked_domains(&before);
        person.domains_blocked += blocked_domains(&tie);
        person.ties.insert(address.clone(), tie);
        let is_block_news = before.contact.is_blocked != contact.is_blocked;
        let is_blocked = contact.is_blocked;
        if before.contact != contact || said.is_some() {
            fx.counters.count(ChatCounter::ContactChanges);
            let is_news = shown(&before.contact) != shown(&contact);
            let change = ContactChange { contact, said, is_news, is_block_news };
            for here in person.sessions.values() {
                if here.follows || here.present.is_some() {
                    let change = ChatDelivery::Contact(Box::new(change.clone()));
                    fx.deliveries.push((here.conn, change));
                }
            }
        }
        match (saw, sees) {
            (true, false) => self.contact_is_hidden(inbox, &address, fx),
            (false, true) => self.look_for_contacts(inbox, Some(&address), None),
            _ => {}
        }
        if is_block_news {
            self.foreign_block_changed(inbox, (&address, is_blocked), fx);
        }
        if is_new_word {
            self.say_again(now, inbox, &address, fx);
        }
        self.tie_changed(now, inbox, (&address, then), fx);
    }

    /// Carries out the action after a change.
    fn tie_changed(
        &mut self,
        now: Now,
        inbox: TimelineId,
        (contact, then): (&AccountAddress, Then),
        fx: &mut Effects,
    ) {
        match then {
            Then::Answer(wait) => self.answer_people(wait, Ok(()), fx),
            Then::AnswerLater(wait) => self.answer_when_told(inbox, contact, wait, fx),
            Then::Confirm(to, told) => self.confirm(now, to, (*told, false), fx),
            Then::Part => self.parts_on(inbox),
            Then::Nobody => {}
        }
    }

    fn change_failed(&mut self, change: Change, fault: ChatFault, fx: &mut Effects) {
        if let Then::Answer(wait) | Then::AnswerLater(wait) = change.then {
            self.answer_people(wait, Err(fault), fx);
        }
    }

    /// Deletes a row that an account does not need any more, one at a time. False: none is left.
    pub(super) fn tidy_person(&mut self, inbox: TimelineId, fx: &mut Effects) -> bool {
        let most = usize::from(self.settings.limits.chat.contacts_removed_max);
        let Some(person) = self.people.known.get_mut(&inbox) else { return false };
        if !person.is_untidy {
            return false;
        }
        if person.is_marked && person.owing().next().is_none() {
            person.step = Step::Unmarking;
            let write = Write::Delete { table: Table::ChatOwing, key: key_of(inbox, "") };
            self.log.ask(PendingCall::Person(inbox), Call::Write(write), fx);
            return true;
        }
        let over = person.ties.values().filter(|tie| tie.is_over());
        let oldest = over.clone().min_by_key(|tie| tie.contact.version);
        let Some(oldest) = oldest.filter(|_| over.count() > most) else {
            person.is_untidy = false;
            return false;
        };
        let (contact, floor) = (oldest.contact.address.clone(), oldest.contact.version);
        let value = [&[VERSION][..], &person.floor.max(floor).to_le_bytes()].concat().into();
        person.step = Step::Rising(contact);
        let write = Write::Put { table: Table::ChatContacts, key: key_of(inbox, ""), value };
        self.log.ask(PendingCall::Person(inbox), Call::Write(write), fx);
        true
    }
}

impl Person {
    /// Adds the contents of a row. False: the row cannot be read.
    fn recall(&mut self, inbox: TimelineId, key: &[u8], value: &[u8]) -> bool {
        let name = RowHome::rest(key).and_then(|rest| rest.strip_prefix(&inbox.to_bytes()[..]));
        let Some(name) = name else { return false };
        if name.is_empty() {
            let floor = ByteReader::of(VERSION, value).and_then(|mut floor| floor.u64());
            self.floor = self.floor.max(floor.unwrap_or(0));
            self.version = self.version.max(self.floor);
            return floor.is_some();
        }
        let tie = address_of(name).and_then(|address| Tie::decode(address, value));
        let Some(tie) = tie else { return false };
        self.version = self.version.max(tie.contact.version);
        self.domains_blocked += blocked_domains(&tie);
        self.ties.insert(tie.contact.address.clone(), tie);
        true
    }

    /// Contacts with homes that are still owed a word.
    fn owing(&self) -> impl Iterator<Item = &AccountAddress> {
        self.ties.iter().filter(|(_, tie)| tie.owes != 0).map(|(address, _)| address)
    }
}

/// Number of domains that a tie blocks.
fn blocked_domains(tie: &Tie) -> u32 {
    u32::from(tie.contact.address.is_domain() && tie.contact.is_blocked)
}

/// The fields of a contact that a contact list shows.
type Shown<'a> = (&'a str, &'a [Box<str>], &'static str, [bool; 2]);

/// The fields of a contact that a contact list shows, if the contact is listed.
fn shown(contact: &Contact) -> Option<Shown<'_>> {
    let subscription = contact.subscription;
    let asks = subscription.to == model::chat::Half::Pending;
    contact.is_listed.then_some((
        &*contact.name,
        &*contact.groups,
        subscription.word(),
        [asks, subscription.approved],
    ))
}

/// The key of the row of an account's tie with a contact.
pub(crate) fn key_of(inbox: TimelineId, contact: &str) -> Box<[u8]> {
    RowHome::key_of(inbox, &[contact.as_bytes()])
}

fn address_of(text: &[u8]) -> Option<AccountAddress> {
    AccountAddress::of_contact(std::str::from_utf8(text).ok()?)
}
