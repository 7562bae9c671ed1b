//! Walks: an account's contacts are sent its presence, or asked for theirs, in slices.
//!
//! ```text
//! changed ─► ready ─► a slice of the contacts, a word a shard ─► all confirmed ► the next slice
//!              ▲                                                                  │ no more
//!              └── changed meanwhile, and not too often ──────────────────────────┘
//! ```
//! A word that is not confirmed in time is sent again, with the state of that time. So the cost of
//! an account is bounded by its contacts, however often it comes and goes. Invariant: an account
//! has one walk at a time; changes during a walk are sent by the next.

use super::words::{PresenceTold, ProbeAsked};
use super::{Person, Tie};
use crate::people::foreign;
use crate::people::nodes::{Interests, LastAsked, NodesTold, Untold, UntoldNode};
use crate::word::ChatWord;
use crate::{Chat, Effects};
use base::slab::Key;
use base::thin_queue::ThinQueue;
use base::time::{Instant, Now, earliest};
use model::account::AccountAddress;
use model::chat::NodeEvent;
use model::counters::ChatCounter;
use model::id::ShardId;
use model::timeline::{Space, TimelineId};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

/// Largest number of contacts in a slice.
const SLICE_MAX: usize = 1_024;

/// Slices in one turn, of all accounts together.
const SLICES_A_TURN_MAX: usize = 16;

/// The interval in which changes are counted.
const MINUTE: Duration = Duration::from_secs(60);

/// An account's queue of presence to send and to request.
#[derive(Default)]
pub(super) struct Walks {
    /// None: the queue is empty.
    work: Option<Box<Work>>,
    /// The account is in `People::ready`, or in `People::held`.
    is_queued: bool,
    /// Begin of the interval in which announcements are counted, and their number.
    since: Instant,
    told: u16,
    /// Requests to all contacts in that interval.
    asked: u16,
    last: Instant,
}

/// Announcements and requests that wait.
#[derive(Default)]
struct Work {
    /// Devices with a presence that has changed since the last announcement.
    changed: BTreeSet<Box<str>>,
    /// Changes of nodes that have not been announced.
    untold: Untold,
    /// Requests that wait.
    asks: ThinQueue<Question>,
    going: Option<Walk>,
}

/// A request for contacts' presence, or for the last items of their nodes.
#[derive(Clone, PartialEq, Eq)]
struct Question {
    /// All contacts, or this one.
    contact: Option<AccountAddress>,
    /// The session that gets the answer; none: all sessions.
    session: Option<Key>,
    /// Nodes of which the last items are requested; none: the request is for presence.
    interests: Option<Interests>,
}

/// A walk over an account's contacts.
struct Walk {
    what: What,
    /// The last contact of the slices so far.
    after: Option<AccountAddress>,
    /// Words without a receipt: number, shard, and the contacts they are about.
    open: Vec<(u64, ShardId, Vec<AccountAddress>)>,
}

#[derive(Clone)]
enum What {
    /// Announces the presence of these devices.
    Tell(Arc<[Box<str>]>),
    Ask(Question),
    /// Announces changes of nodes.
    News(Arc<[(UntoldNode, Arc<[NodeEvent]>)]>),
}

impl Work {
    /// Whether another walk is due.
    fn is_more(&self) -> bool {
        !self.changed.is_empty() || !self.untold.is_empty() || !self.asks.is_empty()
    }
}

impl Walks {
    pub(super) fn is_idle(&self) -> bool {
        self.work.is_none() && !self.is_queued
    }

    /// Whether another walk is due.
    fn is_more(&self) -> bool {
        self.work.as_ref().is_some_and(|work| work.is_more())
    }

    fn work(&mut self) -> &mut Work {
        self.work.get_or_insert_default()
    }

    fn going(&self) -> Option<&Walk> {
        self.work.as_ref()?.going.as_ref()
    }

    fn going_mut(&mut self) -> Option<&mut Walk> {
        self.work.as_mut()?.going.as_mut()
    }

    /// Frees the memory of an empty queue.
    fn rest(&mut self) {
        self.work.take_if(|work| work.going.is_none() && !work.is_more());
    }

    /// Queues a change of a node. Returns whether the account has become ready, and how many older
    /// changes were dropped.
    pub(super) fn node_changed(&mut self, news: UntoldNode, most: usize) -> (bool, u64) {
        let lost = self.work().untold.put(news, most);
        (self.queue(), lost)
    }

    /// Queues a request, in place of one of the same session and kind. Returns whether the account
    /// has become ready.
    fn ask(&mut self, question: Question) -> bool {
        let is_same = |other: &Question| {
            let is_alike = other.interests.is_some() == question.interests.is_some();
            is_alike && (&other.contact, other.session) == (&question.contact, question.session)
        };
        let asks = &mut self.work().asks;
        asks.retain(|other| !is_same(other));
        asks.push_back(question);
        self.queue()
    }

    /// Queues a device's changed presence. Returns whether the account has become ready.
    pub(super) fn device_changed(&mut self, device: Box<str>) -> bool {
        self.work().changed.insert(device);
        self.queue()
    }

    /// Drops requests of a session that ends.
    pub(super) fn forget(&mut self, session: Key) {
        if let Some(work) = &mut self.work {
            work.asks.retain(|ask| ask.session != Some(session));
            self.rest();
        }
    }

    fn queue(&mut self) -> bool {
        self.going().is_none() && !std::mem::replace(&mut self.is_queued, true)
    }

    /// The next walk, if it may begin; `Err`: the time at which it may.
    fn next(&mut self, now: Now, most: u16, pause: Duration) -> Result<Option<Walk>, Instant> {
        let walk = |what| Some(Walk { what, after: None, open: Vec::new() });
        let Some(work) = &mut self.work else { return Ok(None) };
        if now.mono >= self.since + MINUTE {
            (self.since, self.told, self.asked) = (now.mono, 0, 0);
        }
        let is_late = now.mono >= self.last + pause;
        // A single contact is asked at once; all contacts at the rate of announcements.
        let may_ask_all = self.asked < most || is_late;
        let may_ask =
            |ask: &Question| ask.interests.is_none() && (may_ask_all || ask.contact.is_some());
        if let Some(question) = work.asks.take_first(may_ask) {
            if question.contact.is_none() {
                self.asked = self.asked.saturating_add(1);
                self.last = now.mono;
            }
            return Ok(walk(What::Ask(question)));
        }
        if !work.is_more() {
            return Ok(None);
        }
        let is_about_nodes = |ask: &Question| ask.interests.is_some();
        let has_other = !work.changed.is_empty()
            || !work.untold.is_empty()
            || work.asks.iter().any(is_about_nodes);
        if !has_other || self.told >= most && !is_late {
            return Err(self.last + pause);
        }
        self.told = self.told.saturating_add(1);
        self.last = now.mono;
        if !work.changed.is_empty() {
            let changed = std::mem::take(&mut work.changed);
            return Ok(walk(What::Tell(changed.into_iter().collect())));
        }
        if !work.untold.is_empty() {
            let whole = |mut news: UntoldNode| {
                let events = std::mem::take(&mut news.events);
                (news, events.into())
            };
            return Ok(walk(What::News(work.untold.take().into_iter().map(whole).collect())));
        }
        Ok(work.asks.take_first(is_about_nodes).and_then(|question| walk(What::Ask(question))))
    }
}

impl Chat {
    /// Requests a contact's presence, or that of all contacts, for a session or for all.
    pub(super) fn look_for_contacts(
        &mut self,
        inbox: TimelineId,
        contact: Option<&AccountAddress>,
        session: Option<Key>,
    ) {
        let Some(person) = self.people.known.get_mut(&inbox) else { return };
        if session.is_none() && person.sessions.values().all(|here| here.present.is_none()) {
            return;
        }
        let question = Question { contact: contact.cloned(), session, interests: None };
        let mut is_ready = person.walks.ask(question);
        let interests = self.interests_of(inbox);
        let Some(person) = self.people.known.get_mut(&inbox) else { return };
        if session.is_none() && !interests.is_empty() {
            let interests = Some(interests);
            is_ready |=
                person.walks.ask(Question { contact: contact.cloned(), session, interests });
        }
        if is_ready {
            self.people.ready.push_back(inbox);
        }
    }

    /// Requests the last items of nodes, of all contacts and of the account itself.
    pub(crate) fn look_for_nodes(&mut self, inbox: TimelineId, session: Key, nodes: Interests) {
        let Some(person) = self.people.known.get_mut(&inbox) else { return };
        let (session, interests) = (Some(session), Some(nodes));
        if person.walks.ask(Question { contact: None, session, interests }) {
            self.people.ready.push_back(inbox);
        }
    }

    /// Announces a change of a node to an account's contacts.
    pub(super) fn node_changed(&mut self, inbox: TimelineId, news: UntoldNode, fx: &mut Effects) {
        let most = usize::from(self.settings.limits.chat.node_changes_untold_max);
        let Some(person) = self.people.known.get(&inbox) else { return };
        let subscribers: Vec<_> = news.subscribers(|address| person.ties.get(address)).collect();
        if !subscribers.is_empty() {
            let address = person.address.clone();
            self.tell_subscribers((inbox, &address), &news, subscribers, fx);
        }
        let Some(person) = self.people.known.get_mut(&inbox) else { return };
        if !person.ties.values().any(|tie| person.is_seen(tie) && news.has(tie)) {
            return;
        }
        let (is_ready, lost) = person.walks.node_changed(news, most);
        fx.counters.count_by(ChatCounter::NodeNewsLost, lost);
        if is_ready {
            self.people.ready.push_back(inbox);
        }
    }

    /// Continues with a few slices; returns when to be called again.
    pub(super) fn turn_walks(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let again_ms = self.settings.limits.chat.redistribute_ms;
        let (unheard, waits) = self.people.walking.overdue(now, again_ms);
        for (inbox, shard) in unheard {
            self.say_slice_again(inbox, shard, fx);
        }
        while let Some(&(due, inbox)) = self.people.held.first()
            && due <= now.mono
        {
            self.people.held.pop_first();
            self.people.ready.push_back(inbox);
        }
        for _ in 0..self.people.ready.len().min(SLICES_A_TURN_MAX) {
            let Some(inbox) = self.people.ready.pop_front() else { break };
            self.walk_on(now, inbox, fx);
        }
        let ready = (!self.people.ready.is_empty()).then_some(now.mono);
        let held = self.people.held.first().map(|(due, _)| *due);
        earliest([waits, ready, held])
    }

    /// Sends the next slice of an account's walk, or begins the next walk.
    fn walk_on(&mut self, now: Now, inbox: TimelineId, fx: &mut Effects) {
        let limits = &self.settings.limits.chat;
        let most = limits.presence_changes_a_minute_max;
        let pause = Duration::from_millis(limits.presence_pause_ms.into());
        let Some(person) = self.people.known.get_mut(&inbox) else { return };
        person.walks.is_queued = false;
        let going = person.walks.work.as_mut().and_then(|work| work.going.take());
        let is_new = going.is_none();
        let mut walk = match going {
            Some(walk) => walk,
            None => match person.walks.next(now, most, pause) {
                Ok(Some(walk)) => walk,
                Ok(None) => return person.walks.rest(),
                Err(due) => {
                    person.walks.is_queued = true;
                    fx.counters.count(ChatCounter::PresenceHeld);
                    self.people.held.insert((due, inbox));
                    return;
                }
            },
        };
        let (slice, own) = (person.slice(&walk), person.address.clone());
        if slice.is_empty() {
            match person.walks.is_more() {
                false => person.walks.rest(),
                true if person.walks.queue() => self.people.ready.push_back(inbox),
                true => {}
            }
        }
        if let What::Ask(Question { contact: None, session, interests: Some(interests) }) =
            &walk.what
            && is_new
        {
            self.want_own_last((inbox, &own), (interests.clone(), *session), fx);
        }
        let Some((last, _)) = slice.last() else { return };
        walk.after = Some(last.clone());
        let mut shards = BTreeMap::<ShardId, Vec<AccountAddress>>::new();
        let is_foreign = |peer: &TimelineId| peer.space() == Space::Foreign;
        let (foreign, slice): (Vec<_>, Vec<_>) =
            slice.into_iter().partition(|(_, peer)| is_foreign(peer));
        self.tell_foreign_contacts(inbox, (&walk.what, &foreign), fx);
        for (contact, peer) in slice {
            shards.entry(self.settings.shard_at(peer)).or_default().push(contact);
        }
        if shards.is_empty() {
            let Some(person) = self.people.known.get_mut(&inbox) else { return };
            person.walks.work().going = Some(walk);
            person.walks.is_queued = true;
            return self.people.ready.push_back(inbox);
        }
        for (shard, contacts) in shards {
            let number = self.people.walking.put((inbox, shard));
            walk.open.push((number, shard, contacts));
        }
        let numbers: Vec<u64> = walk.open.iter().map(|(number, ..)| *number).collect();
        let Some(person) = self.people.known.get_mut(&inbox) else { return };
        person.walks.work().going = Some(walk);
        numbers.into_iter().for_each(|number| self.say_slice(inbox, number, fx));
    }

    /// Sends a walk's presence or request to foreign contacts, each by itself and without a
    /// receipt. Changes of nodes are not sent to them.
    fn tell_foreign_contacts(
        &self,
        inbox: TimelineId,
        (what, contacts): (&What, &[(AccountAddress, TimelineId)]),
        fx: &mut Effects,
    ) {
        let Some(person) = self.people.known.get(&inbox) else { return };
        for (contact, _) in contacts {
            match what {
                What::Tell(devices) => {
                    let states = devices.iter().map(|it| (it.clone(), person.state_of(it)));
                    foreign::tell(&person.address, contact, states, fx);
                }
                What::Ask(Question { interests: None, .. }) => {
                    foreign::probe(&person.address, contact, fx);
                }
                What::News(_) | What::Ask(_) => {}
            }
        }
    }

    /// Sends a slice's word to a shard, with the state of this time.
    fn say_slice(&mut self, inbox: TimelineId, number: u64, fx: &mut Effects) {
        let Some(person) = self.people.known.get(&inbox) else { return };
        let Some(walk) = person.walks.going() else { return };
        let open = walk.open.iter().find(|(open, ..)| *open == number);
        let Some((_, shard, contacts)) = open else { return };
        let (shard, from, by) = (*shard, person.address.clone(), inbox);
        let ties = contacts.iter().filter_map(|contact| person.ties.get(contact));
        let is_here = shard == self.settings.shard;
        fx.counters.count(match &walk.what {
            What::Tell(_) | What::Ask(Question { interests: None, .. }) => {
                ChatCounter::PresenceWords
            }
            What::News(_) | What::Ask(_) => ChatCounter::NodeWords,
        });
        match &walk.what {
            What::Tell(devices) => {
                let states = devices.iter().map(|device| (device.clone(), person.state_of(device)));
                let states = states.collect();
                let to =
                    ties.filter(|tie| person.is_seen(tie)).filter_map(|tie| tie.peer).collect();
                let told = PresenceTold { number, from, by, states, to };
                match is_here {
                    true => self.presence_told(shard, &told, fx),
                    false => fx.peer_messages.push((shard, ChatWord::Presence(Box::new(told)))),
                }
            }
            What::News(news) => {
                let ties: Vec<_> = ties.filter(|tie| person.is_seen(tie)).collect();
                let parts = news.iter().map(|(news, events)| {
                    let to = ties.iter().filter(|tie| news.has(tie)).filter_map(|tie| tie.peer);
                    (news.node.clone(), events.clone(), to.collect())
                });
                let (parts, number) = (parts.collect(), Some(number));
                let told = NodesTold { number, from, by, parts, only: None, is_subscribed: false };
                match is_here {
                    true => self.nodes_told(shard, &told, fx),
                    false => fx.peer_messages.push((shard, ChatWord::NodesTold(Box::new(told)))),
                }
            }
            What::Ask(Question { interests: Some(interests), session, .. }) => {
                let of = ties.filter(|tie| person.sees(tie));
                let of = of.filter_map(|tie| Some((tie.contact.address.clone(), tie.peer?)));
                let (of, interests, only) = (of.collect(), interests.clone(), *session);
                let asked = Box::new(LastAsked { number, from, by, of, interests, only });
                match is_here {
                    true => self.last_asked(shard, *asked, fx),
                    false => fx.peer_messages.push((shard, ChatWord::LastAsked(asked))),
                }
            }
            What::Ask(_) => {
                let to = ties.filter(|tie| person.sees(tie)).filter_map(|tie| tie.peer).collect();
                let asked = ProbeAsked { number, from, by, to };
                match is_here {
                    true => self.probe(shard, &asked, fx),
                    false => fx.peer_messages.push((shard, ChatWord::Probe(Box::new(asked)))),
                }
            }
        }
    }

    /// Repeats a slice's word that a shard did not confirm in time.
    fn say_slice_again(&mut self, inbox: TimelineId, shard: ShardId, fx: &mut Effects) {
        let Some(person) = self.people.known.get_mut(&inbox) else { return };
        let Some(walk) = person.walks.going_mut() else { return };
        let Some(open) = walk.open.iter_mut().find(|(_, to, _)| *to == shard) else { return };
        let number = self.people.walking.put((inbox, shard));
        open.0 = number;
        self.say_slice(inbox, number, fx);
    }

    /// The account whose request has this number, and the session that gets the answer.
    pub(super) fn walk_asks(&mut self, number: u64) -> Option<(TimelineId, Option<Key>)> {
        let (inbox, _) = *self.people.walking.at_mut(number)?;
        match &self.people.known.get(&inbox)?.walks.going()?.what {
            What::Ask(question) => Some((inbox, question.session)),
            What::Tell(_) | What::News(_) => None,
        }
    }

    /// Confirms a slice's word of a shard to this one.
    pub(super) fn heard(&mut self, from: ShardId, number: u64, fx: &mut Effects) {
        match from == self.settings.shard {
            true => self.walk_heard(number),
            false => fx.peer_messages.push((from, ChatWord::PresenceHeard { number })),
        }
    }

    /// Handles a shard's receipt of a slice's word.
    pub(crate) fn walk_heard(&mut self, number: u64) {
        let Some((inbox, _)) = self.people.walking.take(number) else { return };
        let Some(person) = self.people.known.get_mut(&inbox) else { return };
        let Some(walk) = person.walks.going_mut() else { return };
        walk.open.retain(|(open, ..)| *open != number);
        if walk.open.is_empty() && !std::mem::replace(&mut person.walks.is_queued, true) {
            self.people.ready.push_back(inbox);
        }
    }
}

impl Person {
    /// The contacts of the walk's next slice, and their inboxes.
    fn slice(&self, walk: &Walk) -> Vec<(AccountAddress, TimelineId)> {
        let only = match &walk.what {
            What::Ask(Question { contact: Some(contact), .. }) => Some(contact),
            _ => None,
        };
        let from = match (only, &walk.after) {
            (_, Some(after)) => Bound::Excluded(after),
            (Some(only), None) => Bound::Included(only),
            (None, None) => Bound::Unbounded,
        };
        let is_told = matches!(walk.what, What::Tell(_) | What::News(_));
        let ties = self.ties.range::<AccountAddress, _>((from, Bound::Unbounded));
        let ties = ties.take_while(|(contact, _)| only.is_none_or(|only| only == *contact));
        let concerns = |tie: &Tie| if is_told { self.is_seen(tie) } else { self.sees(tie) };
        let ties = ties.filter(|(_, tie)| concerns(tie));
        let ties = ties.filter_map(|(contact, tie)| Some((contact.clone(), tie.peer?)));
        ties.take(SLICE_MAX).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_contacts_are_asked_as_often_as_something_may_be_told_and_one_at_once() {
        let (most, pause) = (3, Duration::from_secs(1));
        let at = |ms| Now::new(Instant::default() + Duration::from_millis(ms), 0);
        let mut walks = Walks::default();
        let asks = |walks: &mut Walks, ms: u64, contact: Option<&str>| {
            let contact = contact.map(|it| AccountAddress::parse(it, "a.example").expect("right"));
            walks.ask(Question { contact, session: None, interests: None });
            walks.next(at(ms), most, pause).map(|walk| walk.is_some())
        };
        let held = |ms| Err(at(ms).mono);
        for ms in [0, 10, 20] {
            assert_eq!(asks(&mut walks, ms, None), Ok(true));
        }
        assert_eq!(asks(&mut walks, 30, None), held(1_020));
        assert_eq!(asks(&mut walks, 40, Some("bob")), Ok(true), "one contact is asked at once");
        walks.device_changed("desk".into());
        let tells = walks.next(at(50), most, pause).map(|walk| walk.map(|it| it.what));
        assert!(matches!(tells, Ok(Some(What::Tell(_)))), "what may be told is told");
        assert_eq!(asks(&mut walks, 60, None), held(1_050));
        assert_eq!(asks(&mut walks, 1_050, None), Ok(true));
        assert_eq!(asks(&mut walks, 60_000, None), Ok(true), "in another minute");
    }
}
