//! People: the contacts of each account of this shard, and the visibility of presence.
//!
//! ```text
//!                             ┌ not in memory: its rows are read
//! order, word, list ─► queue ─┤
//!                             └ one at a time ─► a row is written ─► applied ─► answered, sent
//!                                                                     └► words to the contact's
//!                                                                        home, until confirmed
//! ```
//! An account's ties are rows at its home, read when they are needed and kept while there is room.
//! An account whose home owes another home a word has a row that marks this, written before, by
//! which a start finds it. Invariants: an order is answered when its row is on stable storage; a
//! receipt is sent when its word is; presence goes only to subscribers.

mod arrivals;
mod departures;
pub(crate) mod foreign;
mod lists;
pub(crate) mod nodes;
mod orders;
pub(crate) mod partings;
mod presence;
mod reports;
pub(crate) mod stanzas;
mod store;
mod subscription;
mod tie;
mod walks;
mod words;

pub use arrivals::ArrivalTaken;
pub(crate) use store::key_of;
pub(crate) use tie::Tie;
pub use tie::{TieVerb, TieWord};
pub(crate) use words::weight_of;
pub use words::{PresenceTold, ProbeAsked, Probed, TieReceipt, TieTold};

use crate::conversations::receipts::delivered::DeliveredTold;
use crate::people::nodes::UntoldNode;
use crate::service::flow::Reply;
use crate::sessions::Requester;
use crate::waits::Waits;
use crate::word::ReplyTo;
use crate::{Chat, Effects};
use base::flows::WaitKey;
use base::slab::Key;
use base::small_map::SmallMap;
use base::thin_queue::ThinQueue;
use base::time::{Instant, Now, earliest};
use departures::Departures;
use model::account::AccountAddress;
use model::chat::foreign::ForeignArrival;
use model::chat::{Availability, ChatDelivery, ChatFault, ContactOrder, ContactsRange, Transient};
use model::counters::ChatCounter;
use model::id::{ConnRef, SessionRef, ShardId};
use model::ports::chat::ChatAnswer;
use model::timeline::TimelineId;
use partings::Partings;
use stanzas::StanzaHanded;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use store::Step;
use walks::Walks;

/// Tasks that may wait for one account. A further one is answered as busy; homes repeat their
/// words.
const LINE_MAX: usize = 4_096;

/// Cost of an account itself in memory, in contacts.
const BESIDE_CONTACTS: usize = 4;

/// Recent presences of sessions that are remembered, to share equal ones.
const SAID_LATELY_MAX: usize = 16;

/// Accounts with debts from before a start that are read in one turn.
const LEFT_A_TURN_MAX: usize = 64;

/// Accounts of this shard in use, by their inboxes.
#[derive(Default)]
pub(crate) struct People {
    known: HashMap<TimelineId, Box<Person>>,
    /// Number of contacts of all accounts, and `BESIDE_CONTACTS` for each account itself.
    contacts: usize,
    /// The part of `contacts` that was in use at the last check.
    needed: usize,
    /// Accounts that had debts at the start.
    left: VecDeque<(TimelineId, AccountAddress)>,
    /// Time of the next attempt to read them, if the log was busy.
    left_due: Instant,
    /// Ties with words whose receipts are awaited: account and contact.
    said: Waits<(TimelineId, AccountAddress)>,
    /// Block orders that are answered when the contact's home knows of them.
    blocking: Waits<Blocking>,
    /// Arrivals from other domains at other homes: the commands that wait for them.
    arriving: Waits<u64>,
    /// Stanzas of farewell from devices that went offline, for receivers of their directed
    /// presence.
    farewells: Vec<(AccountAddress, stanzas::Handing)>,
    /// Presence words whose receipts are awaited.
    walking: Waits<(TimelineId, ShardId)>,
    /// Accounts with presence to send or request.
    ready: VecDeque<TimelineId>,
    /// Accounts that exceeded the rate of presence, and when they may continue.
    held: BTreeSet<(Instant, TimelineId)>,
    departures: Departures,
    pub(crate) partings: Partings,
    /// Recent presences of sessions, the oldest first: most sessions send equal ones.
    said_lately: VecDeque<Arc<Availability>>,
}

/// A block order that waits until the contact's home knows of it.
struct Blocking {
    wait: Requester,
    inbox: TimelineId,
    contact: AccountAddress,
}

/// An account in use.
pub(crate) struct Person {
    address: AccountAddress,
    step: Step,
    line: ThinQueue<Task>,
    ties: BTreeMap<AccountAddress, Tie>,
    /// Version of the last change.
    version: u64,
    /// Contacts removed up to this version are not remembered.
    floor: u64,
    /// A row marks that the account has debts.
    is_marked: bool,
    /// The log may have rows that are not needed.
    is_untidy: bool,
    /// Number of ties that block a whole domain.
    domains_blocked: u32,
    /// Sessions of the account that use contacts or presence.
    sessions: SmallMap<Key, Here>,
    walks: Walks,
}

const _: () = assert!(size_of::<Person>() <= 160, "of each account that is here");
const _: () = assert!(size_of::<(Key, Here)>() <= 48, "of each session of it");

/// A session that uses contacts or presence.
struct Here {
    conn: ConnRef,
    device: Box<str>,
    /// The session gets changes of contacts.
    follows: bool,
    /// Presence of the session.
    present: Option<Arc<Availability>>,
    /// The session has sent a presence, available or not.
    has_said: bool,
}

/// A task for an account of this shard.
pub(crate) enum Task {
    /// A session's order about a contact, whose inbox is given if it was found.
    Order(Requester, Box<(AccountAddress, ContactOrder)>, Option<TimelineId>),
    /// A session's request for all contacts, or for changes since a version.
    List(Requester, Option<u64>),
    /// A session's request for a page of contacts.
    Page(Requester, ContactsRange),
    /// A session's presence.
    Present(Requester, Option<Arc<Availability>>),
    /// A flow's request to look at the account's ties.
    Flow(WaitKey),
    /// A stanza for all devices of the account; the flow that sent it waits for the answer.
    Stanza(ReplyTo, Box<StanzaHanded>),
    /// A transient message of a group that the account is in, unless it has blocked the sender.
    Heard(Arc<Transient>),
    /// A notice that a message of the account was delivered, for its devices, unless it has blocked
    /// the receiver.
    Delivered(Box<DeliveredTold>),
    /// An arrival from another domain, unless its sender is blocked; a command waits for it.
    Arrival(u64, Box<ForeignArrival>),
    /// A word of another account's home.
    Word(ShardId, Box<TieTold>),
    /// A receipt of another account's home.
    Receipt(Box<TieReceipt>),
    /// A change of a node of the account, for its contacts.
    NodeNews(Box<UntoldNode>),
    /// Ends one more tie of a removed account.
    Part,
    /// Reads the account, which had debts at the start.
    Settle,
}

impl Person {
    fn new(address: AccountAddress) -> Person {
        Person {
            address,
            step: Step::default(),
            line: ThinQueue::default(),
            ties: BTreeMap::new(),
            version: 0,
            floor: 0,
            is_marked: false,
            is_untidy: true,
            domains_blocked: 0,
            sessions: SmallMap::default(),
            walks: Walks::default(),
        }
    }

    /// Whether the account is not in use.
    fn is_idle(&self) -> bool {
        let is_quiet = self.line.is_empty() && self.sessions.is_empty() && self.walks.is_idle();
        is_quiet && self.step.is_ready() && self.ties.values().all(|tie| tie.owes == 0)
    }

    /// Whether its ties are in memory and no task waits.
    fn is_free(&self) -> bool {
        self.line.is_empty() && self.step.is_ready()
    }

    /// The version of the next change. It is above all earlier ones, also of contacts that are not
    /// remembered, so it serves as the number of a subscription request, too.
    fn next_version(&self, now: Now) -> u64 {
        now.wall_ms.max(self.version + 1)
    }

    fn weight(&self) -> usize {
        self.ties.len() + BESIDE_CONTACTS
    }

    /// Whether the account has blocked a contact, or the contact's whole domain.
    fn blocks(&self, contact: &AccountAddress) -> bool {
        let is_blocked = self.ties.get(contact).is_some_and(|tie| tie.contact.is_blocked);
        is_blocked || self.blocks_domain_of(contact)
    }

    /// Whether the account has blocked the whole domain of a contact that is not a domain itself.
    fn blocks_domain_of(&self, contact: &AccountAddress) -> bool {
        let of_domain = || self.ties.get(contact.of_its_domain());
        self.domains_blocked > 0
            && !contact.is_domain()
            && of_domain().is_some_and(|tie| tie.contact.is_blocked)
    }

    /// Whether the account sees a contact's presence.
    fn sees(&self, tie: &Tie) -> bool {
        tie.sees() && !self.blocks_domain_of(&tie.contact.address)
    }

    /// Whether a contact sees the account's presence, as far as is known here ([`Tie::is_seen`]).
    fn is_seen(&self, tie: &Tie) -> bool {
        tie.is_seen() && !self.blocks_domain_of(&tie.contact.address)
    }
}

impl People {
    /// Shares a session's presence with other sessions that recently sent an equal one.
    fn shared(&mut self, said: Arc<Availability>) -> Arc<Availability> {
        if let Some(same) = self.said_lately.iter().find(|other| **other == said) {
            return same.clone();
        }
        if self.said_lately.len() >= SAID_LATELY_MAX {
            self.said_lately.pop_front();
        }
        self.said_lately.push_back(said.clone());
        said
    }

    /// The tie of an account with another, if it is in memory.
    pub(crate) fn tie(&self, inbox: TimelineId, contact: &AccountAddress) -> Option<&Tie> {
        self.known.get(&inbox)?.ties.get(contact)
    }

    /// Whether an account has blocked another, or the other's whole domain, if its ties are in
    /// memory.
    pub(crate) fn blocks(&self, inbox: TimelineId, contact: &AccountAddress) -> bool {
        self.known.get(&inbox).is_some_and(|person| person.blocks(contact))
    }

    /// Whether another has blocked an account, if that account's ties are in memory.
    pub(crate) fn is_barred_by(&self, inbox: TimelineId, other: &AccountAddress) -> bool {
        self.tie(inbox, other).is_some_and(|tie| tie.is_barred)
    }

    /// Whether a task waits for an account's ties.
    pub(crate) fn is_waited_for(&self, inbox: TimelineId) -> bool {
        self.known.get(&inbox).is_some_and(|person| !person.is_free())
    }

    /// Sessions of an account that have sent available presence.
    pub(crate) fn present(&self, inbox: TimelineId) -> impl Iterator<Item = (Key, ConnRef)> {
        let here = self.known.get(&inbox).into_iter().flat_map(|person| person.sessions.iter());
        here.filter(|(_, here)| here.present.is_some()).map(|(key, here)| (*key, here.conn))
    }

    /// The address of an account with tasks that wait.
    pub(crate) fn waiting_at(&self, inbox: TimelineId) -> Option<AccountAddress> {
        let person = self.known.get(&inbox).filter(|person| !person.is_free());
        person.map(|person| person.address.clone())
    }

    /// Whether a session has sent available presence, with a priority of at least this.
    pub(crate) fn is_present(&self, inbox: TimelineId, session: Key, priority: i8) -> bool {
        let person = self.known.get(&inbox);
        let here = person.and_then(|person| person.sessions.at(&session));
        let present = here.and_then(|here| here.present.as_ref());
        present.is_some_and(|present| present.priority >= priority)
    }
}

impl Chat {
    /// Carries out a task for an account of this shard, or queues it until its ties are read.
    pub(crate) fn for_person(
        &mut self,
        now: Now,
        (inbox, address): (TimelineId, &AccountAddress),
        task: Task,
        fx: &mut Effects,
    ) {
        let person = self.people.known.get(&inbox);
        let is_new = person.is_none();
        let is_full = person.is_some_and(|it| it.line.len() >= LINE_MAX)
            || self.outbox.moving_bytes() > self.settings.undistributed_max();
        if is_full || (is_new && !self.log.may_ask()) {
            return self.refuse_person(task, ChatFault::Busy, fx);
        }
        if is_new {
            self.forget_idle_people();
            self.people.contacts += BESIDE_CONTACTS;
        }
        let new = || Box::new(Person::new(address.clone()));
        let person = self.people.known.entry(inbox).or_insert_with(new);
        match person.is_free() {
            true => self.do_for_person(now, inbox, task, fx),
            false => person.line.push_back(task),
        }
        if is_new {
            return self.read_ties(inbox, None, fx);
        }
        self.advance_person(now, inbox, fx);
    }

    /// With too many contacts in memory, forgets accounts that are not in use.
    fn forget_idle_people(&mut self) {
        let most = self.settings.limits.chat.contacts_known_max as usize;
        // When most contacts are in use, not all of them are checked for each new account.
        let due = most.max(self.people.needed + self.people.needed / 8);
        if self.people.contacts >= due {
            self.people.known.retain(|_, person| !person.is_idle());
            self.people.contacts = self.people.known.values().map(|it| it.weight()).sum();
            self.people.needed = self.people.contacts;
        }
    }

    /// Continues with an account's tasks after a flow has looked at its ties.
    pub(crate) fn contacts_left(&mut self, now: Now, inbox: TimelineId, fx: &mut Effects) {
        if let Some(person) = self.people.known.get_mut(&inbox)
            && matches!(person.step, Step::Entered)
        {
            person.step = Step::Ready;
            self.advance_person(now, inbox, fx);
        }
    }

    /// Carries out an account's tasks until one of them has to write.
    fn advance_person(&mut self, now: Now, inbox: TimelineId, fx: &mut Effects) {
        while let Some(person) = self.people.known.get_mut(&inbox)
            && person.step.is_ready()
        {
            let Some(task) = person.line.pop_front() else {
                if !self.tidy_person(inbox, fx) {
                    return;
                }
                continue;
            };
            self.do_for_person(now, inbox, task, fx);
        }
    }

    /// Carries out a task of an account whose ties are in memory and free.
    fn do_for_person(&mut self, now: Now, inbox: TimelineId, task: Task, fx: &mut Effects) {
        match task {
            Task::Order(wait, about, peer) => {
                self.order_tie(now, (inbox, wait), *about, peer, fx);
            }
            Task::List(wait, after) => self.list_contacts(inbox, wait, after, fx),
            Task::Page(wait, range) => self.page_contacts(inbox, wait, range, fx),
            Task::Present(wait, how) => self.present(inbox, wait, how, fx),
            Task::Flow(key) => {
                if let Some(person) = self.people.known.get_mut(&inbox) {
                    person.step = Step::Entered;
                }
                self.flows.reply(key, Reply::Entered(Ok(())));
            }
            Task::Stanza(to, handed) => self.hand_here(to, &handed, fx),
            Task::Heard(transient) => self.transient_heard(inbox, &transient, fx),
            Task::Delivered(told) => self.delivery_goes(inbox, &told, fx),
            Task::Arrival(ask, arrival) => {
                self.outbox.gives(arrival.weight());
                self.arrival_goes(now, (inbox, ask), *arrival, fx);
            }
            Task::Word(from, told) => self.tie_told(now, inbox, (from, *told), fx),
            Task::Receipt(receipt) => self.tie_heard(now, inbox, &receipt, fx),
            Task::NodeNews(news) => self.node_changed(inbox, *news, fx),
            Task::Part => self.part_person(now, inbox, fx),
            Task::Settle => {}
        }
    }

    /// Refuses a task that cannot be carried out now.
    fn refuse_person(&mut self, task: Task, fault: ChatFault, fx: &mut Effects) {
        match task {
            Task::Order(wait, ..)
            | Task::List(wait, _)
            | Task::Page(wait, _)
            | Task::Present(wait, _) => self.answer_people(wait, Err(fault), fx),
            Task::Flow(key) => {
                self.flows.reply(key, Reply::Entered(Err(fault)));
            }
            Task::Stanza(to, _) => self.reply(to, Err(fault), fx),
            Task::Heard(_) => fx.counters.count(ChatCounter::TransientsDropped),
            Task::Arrival(ask, arrival) => {
                self.outbox.gives(arrival.weight());
                let is_busy = fault == ChatFault::Busy;
                let answer = if is_busy { ChatAnswer::Busy } else { ChatAnswer::StoreFailed };
                fx.answers.push((ask, answer));
            }
            // A client that missed the notice asks for the position.
            Task::Delivered(_) => {}
            // Homes repeat words and receipts.
            Task::Word(..) | Task::Receipt(_) => {}
            Task::NodeNews(news) => {
                fx.counters.count_by(ChatCounter::NodeNewsLost, news.events.len() as u64);
            }
            // The next turn repeats it ([`Partings`]).
            Task::Part => {}
            // An account in memory sends its debts by itself.
            Task::Settle => {}
        }
    }

    /// Answers a session's request about people.
    fn answer_people(&mut self, wait: Requester, result: Result<(), ChatFault>, fx: &mut Effects) {
        let Requester { conn, session, number } = wait;
        let answer = match result {
            Ok(()) => ChatDelivery::Done { number },
            Err(why) => {
                fx.counters.count(ChatCounter::ContactsFailed);
                ChatDelivery::Failed { number, why }
            }
        };
        self.answer_session((conn, session), answer, fx);
    }

    /// The entry of a session that uses contacts or presence; it is created if needed.
    fn here(&mut self, inbox: TimelineId, wait: Requester) -> Option<(Key, &mut Here)> {
        let key = wait.session.key();
        let session = self.sessions.slab.at(key).filter(|it| it.inbox == inbox)?;
        let person = self.people.known.get_mut(&inbox)?;
        let (conn, device) = (session.conn, session.device.clone());
        let new = || Here { conn, device, follows: false, present: None, has_said: false };
        Some((key, person.sessions.at_or_insert(key, new)))
    }

    /// Repeats unconfirmed words, and continues with presence and with debts from before the start;
    /// returns when to be called again.
    pub(crate) fn turn_people(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let left = self.turn_left(now, fx);
        let again_ms = self.settings.limits.chat.redistribute_ms;
        let (unheard, words) = self.people.said.overdue(now, again_ms);
        for (inbox, contact) in unheard {
            self.say_again(now, inbox, &contact, fx);
        }
        let answer_ms = self.settings.limits.answer_ms_max;
        let (over, blocks) = self.people.blocking.overdue(now, answer_ms);
        for Blocking { wait, .. } in over {
            self.answer_people(wait, Err(ChatFault::Busy), fx);
        }
        let walks = self.turn_walks(now, fx);
        let remembered = self.settings.limits.chat.departures_known_max as usize;
        self.people.departures.turn(now, remembered);
        let partings = self.turn_partings(now, fx);
        self.turn_stanzas(fx);
        let arrivals = self.turn_arrivals(now, fx);
        earliest([left, words, blocks, walks, partings, arrivals])
    }

    /// Reads accounts that had debts at the start, a few in each turn.
    fn turn_left(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        for _ in 0..LEFT_A_TURN_MAX {
            if self.people.left.is_empty() || self.log.has_failed() {
                return None;
            }
            if now.mono < self.people.left_due || !self.log.may_ask() {
                return Some(self.people.left_due.max(now.mono));
            }
            let Some((inbox, address)) = self.people.left.pop_front() else { break };
            self.for_person(now, (inbox, &address), Task::Settle, fx);
        }
        Some(now.mono)
    }

    /// Removes a session that ends.
    pub(crate) fn leaves_people(&mut self, key: Key, inbox: TimelineId, fx: &mut Effects) {
        self.leaves_nodes(key, fx);
        let Some(person) = self.people.known.get_mut(&inbox) else { return };
        person.walks.forget(key);
        if let Some(Here { device, present: Some(_), .. }) = person.sessions.remove(&key) {
            self.device_changed(inbox, device, None, fx);
            self.device_came_or_went(inbox);
        }
    }

    /// Moves a session to another connection, on which it continues.
    pub(crate) fn people_resume(&mut self, inbox: TimelineId, key: Key, conn: ConnRef) {
        let person = self.people.known.get_mut(&inbox);
        if let Some(here) = person.and_then(|person| person.sessions.at_mut(&key)) {
            here.conn = conn;
        }
    }

    pub(crate) fn audit_people(&self) {
        let sum: usize = self.people.known.values().map(|person| person.weight()).sum();
        assert_eq!(sum, self.people.contacts, "all contacts are counted");
        for (inbox, person) in &self.people.known {
            let is_blocked = |tie: &&Tie| tie.contact.address.is_domain() && tie.contact.is_blocked;
            let blocked = person.ties.values().filter(is_blocked).count();
            assert_eq!(blocked, person.domains_blocked as usize, "all blocked domains are counted");
            for (key, here) in person.sessions.iter() {
                let session = self.sessions.slab.at(*key).expect("it is here");
                assert!(session.inbox == *inbox && session.conn == here.conn);
            }
        }
    }
}

/// The requester of an answer to a session.
fn requester(conn: ConnRef, session: SessionRef, number: u32) -> Requester {
    Requester { conn, session, number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_lately_is_there_once_and_no_more_than_a_few() {
        let mut people = People::default();
        let said = |priority| Arc::new(Availability { priority, ..Availability::default() });
        let first = people.shared(said(0));
        assert!(Arc::ptr_eq(&first, &people.shared(said(0))));
        assert!(!Arc::ptr_eq(&first, &people.shared(said(1))));
        (2..100).for_each(|priority| drop(people.shared(said(priority))));
        assert_eq!(people.said_lately.len(), SAID_LATELY_MAX);
        assert!(!Arc::ptr_eq(&first, &people.shared(said(0))), "it was forgotten");
    }
}
