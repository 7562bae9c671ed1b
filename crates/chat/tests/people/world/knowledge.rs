//! Accounts' knowledge of their conversations: devices that read, set and look, and an independent
//! count from the entries of the inboxes.

use super::device::Looked;
use super::{Device, PEOPLE, World, person, whole};
use model::account::AccountAddress;
use model::chat::*;
use model::timeline::Seq;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// An inbox: its entries, by offset.
type Inbox = BTreeMap<Seq, Thing>;

#[derive(Clone, Debug)]
pub enum Thing {
    Message(Arc<ChatMessage>),
    Event(Arc<InboxEvent>),
}

impl World {
    /// Reports a device's random read position.
    pub(super) fn reads_on(&mut self, at: usize) {
        let device = &self.devices[at];
        let all: Vec<_> = device.has.values().map(|it| (other(device, it), it.seq)).collect();
        if all.is_empty() {
            return;
        }
        let (with, seq) = all[self.rng.below(all.len() as u64) as usize].clone();
        let upto = if self.rng.one_in(20) { seq + 1_000 } else { seq };
        self.has_read_this(at, with, upto);
    }

    fn has_read_this(&mut self, at: usize, with: AccountAddress, upto: Seq) {
        if let Some(request) = self.devices[at].has_read(with, upto) {
            self.ask(at, request);
        }
    }

    fn anybody(&mut self) -> AccountAddress {
        let group = if self.rng.one_in(2) { self.a_group() } else { None };
        group.unwrap_or_else(|| person(self.rng.below(PEOPLE.into()) as u32))
    }

    /// Makes a device's random change of a conversation's settings.
    pub(super) fn sets(&mut self, at: usize) {
        let (with, on) = (self.anybody(), self.rng.one_in(2));
        let change = match self.rng.below(4) {
            0 => ConversationChange::Pin(on),
            1 => ConversationChange::Mute(on.into()),
            2 => ConversationChange::Hide(on),
            _ => ConversationChange::Draft(format!("draft {}", self.rng.below(100)).into()),
        };
        self.sets_this(at, with, change);
    }

    fn sets_this(&mut self, at: usize, with: AccountAddress, change: ConversationChange) {
        if let Some(request) = self.devices[at].sets(with, change) {
            self.ask(at, request);
        }
    }

    /// Makes a device's random request for conversations.
    pub(super) fn looks(&mut self, at: usize) {
        let looked = match self.rng.below(5) {
            0 => Looked::At(self.anybody()),
            1 => Looked::Before(self.rng.below(60), 2),
            2 => Looked::Groups(if self.rng.one_in(2) { Seq::MAX } else { 40 }, 2),
            _ => Looked::Before(Seq::MAX, 1 + self.rng.below(8) as u16),
        };
        self.looks_for(at, looked);
    }

    fn looks_for(&mut self, at: usize, looked: Looked) {
        if let Some(request) = self.devices[at].looks(looked) {
            self.ask(at, request);
        }
    }

    /// Reports a device's read position; returns the answer, when everything is at rest.
    pub fn has_read(
        &mut self,
        at: usize,
        with: &AccountAddress,
        upto: Seq,
    ) -> Result<Seq, ChatFault> {
        // Earlier positions are sent on first.
        self.pass_ms(1_000);
        self.has_read_this(at, with.clone(), upto);
        self.rest();
        // A position ahead of the inbox waits for a moment.
        for _ in 0..3 {
            self.pass_ms(500);
            self.rest();
        }
        let answer = self.devices[at].cursors.last().map(|(_, upto)| *upto);
        let fault = self.devices[at].failed.take();
        fault.map_or_else(|| Ok(answer.expect("answered")), Err)
    }

    /// Sends a device's message, and its read position right after it.
    pub fn says_and_has_read(
        &mut self,
        at: usize,
        (with, upto): (&AccountAddress, Seq),
    ) -> Result<Seq, ChatFault> {
        let id = ClientMessageId((self.tried.len() as u128).to_be_bytes());
        let said = (self.devices[at].account.clone(), id);
        self.tried.insert(said.clone(), (with.clone(), "a text".into()));
        self.say_this(at, said, with.clone(), "a text".into());
        self.has_read(at, with, upto)
    }

    /// Reports several read positions of a device at once.
    pub fn reads_at_once(&mut self, at: usize, with: &AccountAddress, all: &[Seq]) {
        for upto in all {
            self.has_read_this(at, with.clone(), *upto);
        }
        self.rest();
    }

    /// The answers to a device's read positions.
    pub fn answers_of_reads(&self, at: usize) -> Vec<Seq> {
        self.devices[at].cursors.iter().map(|(_, upto)| *upto).collect()
    }

    /// Entries of an account's inbox other than messages, as far as a device has them.
    pub fn events(&self, at: usize) -> Vec<InboxEvent> {
        self.devices[at].events.values().map(|event| (**event).clone()).collect()
    }

    /// Changes a conversation's settings by a device; returns the answer, when everything is at
    /// rest.
    pub fn keeps(
        &mut self,
        at: usize,
        with: &AccountAddress,
        change: ConversationChange,
    ) -> Result<(), ChatFault> {
        self.sets_this(at, with.clone(), change);
        self.rest();
        self.devices[at].failed.take().map_or(Ok(()), Err)
    }

    /// An account's knowledge of a conversation.
    pub fn knows(&mut self, at: usize, with: &AccountAddress) -> Option<Conversation> {
        self.looks_for(at, Looked::At(with.clone()));
        self.rest();
        self.devices[at].lists.last().expect("answered").1.conversations.first().cloned()
    }

    /// A part of the list of an account's conversations.
    pub fn list(
        &mut self,
        at: usize,
        before: Seq,
        count: u16,
    ) -> Result<ConversationsPage, ChatFault> {
        self.looks_for(at, Looked::Before(before, count));
        self.rest();
        let fault = self.devices[at].failed.take();
        fault.map_or_else(|| Ok(self.devices[at].lists.last().expect("answered").1.clone()), Err)
    }

    /// The groups among an account's conversations, the newest first.
    pub fn list_groups(&mut self, at: usize) -> Vec<AccountAddress> {
        self.looks_for(at, Looked::Groups(Seq::MAX, 5));
        self.rest();
        let page = &self.devices[at].lists.last().expect("answered").1;
        page.conversations.iter().map(|it| it.with.clone()).collect()
    }

    /// Checks that every answer about conversations agrees with the inboxes.
    pub(super) fn check_knowledge(&mut self) {
        for at in 0..self.devices.len() {
            let heads = self.devices[at].lists.len();
            self.looks_for(at, Looked::Before(Seq::MAX, 5));
            self.rest();
            assert!(self.devices[at].lists.len() > heads, "whoever looks is told");
        }
        let inboxes: Vec<_> = (0..PEOPLE).map(|n| (person(n), self.all_of(n))).collect();
        for (account, inbox) in &inboxes {
            let last = inbox.keys().next_back().copied().unwrap_or(0);
            let at_the_end = recount(account, inbox, Seq::MAX);
            check_events(account, inbox, &inboxes);
            for device in self.devices.iter().filter(|device| device.account == *account) {
                assert_eq!(device.lists.last().expect("it looked").1.upto, last);
                check_cursors(device, &at_the_end);
                for (looked, page) in &device.lists {
                    check_list(account, inbox, looked, page);
                }
            }
            for row in at_the_end.values().filter(|row| !row.with.is_group()) {
                // Read positions of people of other servers are unknown here.
                let Some((_, inbox)) = inboxes.iter().find(|(of, _)| *of == row.with) else {
                    assert_eq!(row.peer_read, 0);
                    continue;
                };
                let peer = recount(&row.with, inbox, Seq::MAX);
                let read = peer.get(account).filter(|_| row.with != *account).map(|it| it.read);
                assert_eq!(row.peer_read, read.unwrap_or(0), "{account} knows of {}", row.with);
            }
        }
    }

    fn all_of(&self, n: u32) -> Inbox {
        let of: Vec<&Device> =
            self.devices.iter().filter(|device| device.account == person(n)).collect();
        let messages = whole(&of).into_iter().map(|(seq, it)| (seq, Thing::Message(it)));
        let mut inbox: Inbox = messages.collect();
        for (seq, event) in of.iter().flat_map(|device| &device.events) {
            match inbox.insert(*seq, Thing::Event(event.clone())) {
                Some(Thing::Message(message)) => panic!("{message:?} is where {event:?} is"),
                Some(Thing::Event(before)) => assert_eq!(before, *event),
                None => {}
            }
        }
        inbox
    }
}

/// The other party of a message that a device has.
fn other(device: &Device, message: &ChatMessage) -> AccountAddress {
    other_of(&device.account, message)
}

fn other_of(account: &AccountAddress, message: &ChatMessage) -> AccountAddress {
    let is_mine = message.from == *account || message.to.is_group();
    if is_mine { message.to.clone() } else { message.from.clone() }
}

/// Whether a message has no content of its own.
fn is_quiet(content: &Content) -> bool {
    content.is_amendment() || FanOut::of(content).is_some()
}

/// The conversations of an inbox up to an offset, counted anew by other party.
fn recount(
    account: &AccountAddress,
    inbox: &Inbox,
    upto: Seq,
) -> BTreeMap<AccountAddress, Conversation> {
    let mut by = BTreeMap::<AccountAddress, Vec<(Seq, &Thing)>>::new();
    for (&place, thing) in inbox.range(..=upto) {
        let with = match thing {
            Thing::Message(message) => other_of(account, message),
            Thing::Event(event) => event.with.clone(),
        };
        by.entry(with).or_default().push((place, thing));
    }
    by.into_iter().map(|(with, all)| (with.clone(), recount_one(account, with, &all))).collect()
}

fn recount_one(
    account: &AccountAddress,
    with: AccountAddress,
    all: &[(Seq, &Thing)],
) -> Conversation {
    use ConversationChange::{Hide, Mute, Pin};
    let messages = all.iter().filter_map(|(place, thing)| match thing {
        Thing::Message(message) => Some((*place, message)),
        Thing::Event(_) => None,
    });
    let messages: Vec<_> = messages.collect();
    let events = all.iter().filter_map(|(place, thing)| match thing {
        Thing::Message(_) => None,
        Thing::Event(event) => Some((*place, &event.what)),
    });
    let events: Vec<_> = events.collect();
    let reads = |own: bool| {
        let all = events.iter().filter_map(move |(_, what)| match what {
            InboxChange::Read(upto) if own => Some(*upto),
            InboxChange::PeerRead(upto) if !own => Some(*upto),
            _ => None,
        });
        all.max().unwrap_or(0)
    };
    let set = |is_it: fn(&ConversationChange) -> bool| {
        let mut all = events.iter().filter_map(|(place, what)| match what {
            InboxChange::Set(change @ (Pin(on) | Hide(on))) if is_it(change) => Some((*place, *on)),
            InboxChange::Set(change @ Mute(mute)) if is_it(change) => Some((*place, mute.is_on())),
            _ => None,
        });
        all.next_back().unwrap_or((0, false))
    };
    let draft = events.iter().rev().find_map(|(_, what)| match what {
        InboxChange::Set(ConversationChange::Draft(draft)) => Some(draft.clone()),
        _ => None,
    });
    let hidden = set(|change| matches!(change, Hide(_)));
    let recalled: BTreeSet<Seq> =
        messages.iter().filter_map(|(_, it)| Recall::of(&it.content)).map(|it| it.seq).collect();
    let read = reads(true);
    let unread = messages.iter().filter(|(_, it)| {
        it.content.counts && it.from != *account && it.seq > read && !recalled.contains(&it.seq)
    });
    let mentions = mentions_in(unread.clone().map(|(_, it)| &***it), account);
    let last = messages.iter().rfind(|(_, it)| !is_quiet(&it.content));
    let place = last.or(messages.last()).map_or(0, |it| it.0);
    let place = if last.is_some() { place } else { place.max(events.last().map_or(0, |it| it.0)) };
    let left = messages.last().and_then(|(_, it)| GroupChange::of(&it.content)).is_some_and(|it| {
        let is_named = it.members.iter().any(|one| one.address == *account);
        it.verb.leaves_outside() && (is_named || it.verb == GroupVerb::Dissolve)
    });
    Conversation {
        with,
        place,
        last_seq: messages.last().map_or(0, |(_, it)| it.seq),
        said_seq: last.map_or(0, |(_, it)| it.seq),
        last: None,
        read,
        peer_read: reads(false),
        unread: unread.count() as u16,
        mentions,
        pinned: set(|change| matches!(change, Pin(_))).1,
        muted: set(|change| matches!(change, Mute(_))).1,
        hidden: hidden.1 && last.is_none_or(|last| last.0 < hidden.0),
        draft: draft.unwrap_or_default(),
        left,
    }
}

/// Number of these messages that mention an account; [`u16::MAX`]: one was recalled, and its
/// mentions are unknown.
pub fn mentions_in<'a>(
    unread: impl Iterator<Item = &'a ChatMessage> + Clone,
    account: &AccountAddress,
) -> u16 {
    let is_mentioned = |it: &&ChatMessage| {
        let mentions = it.content.mentions.as_deref();
        mentions.is_some_and(|it| it.everybody || it.accounts.contains(&account.clone().into()))
    };
    match unread.clone().any(|it| it.content.kind == Content::RECALLED) {
        true => u16::MAX,
        false => unread.filter(is_mentioned).count() as u16,
    }
}

fn check_list(account: &AccountAddress, inbox: &Inbox, looked: &Looked, page: &ConversationsPage) {
    let all = recount(account, inbox, page.upto);
    let (expected, more): (Vec<_>, bool) = match looked {
        Looked::At(with) => (all.get(with).into_iter().collect(), false),
        Looked::Before(before, count) | Looked::Groups(before, count) => {
            let is_of_groups = matches!(looked, Looked::Groups(..));
            let is_wanted = |it: &Conversation| match is_of_groups {
                true => it.with.is_group() && !it.left,
                false => !it.hidden,
            };
            let rows = all.values().filter(|it| it.place < *before && is_wanted(it));
            let mut rows: Vec<_> = rows.collect();
            rows.sort_by_key(|row| std::cmp::Reverse(row.place));
            let count = usize::from(*count).min(5); // the limit of tests
            let more = rows.len() > count;
            rows.truncate(count);
            (rows, more)
        }
    };
    let told: Vec<_> =
        page.conversations.iter().map(|it| Conversation { last: None, ..it.clone() }).collect();
    let mut expected: Vec<_> = expected.into_iter().cloned().collect();
    for (expected, told) in expected.iter_mut().zip(&told) {
        if expected.mentions == u16::MAX {
            // Whether the recall came before the message reached the inbox cannot be known here.
            expected.unread = told.unread.min(expected.unread);
            expected.mentions = told.mentions.min(told.unread);
        }
    }
    assert_eq!(told, expected, "{account}, {looked:?}, as of {}", page.upto);
    assert_eq!(page.more, more);
    for row in &page.conversations {
        let message = inbox.get(&row.place).and_then(|thing| match thing {
            Thing::Message(message) => Some(message).filter(|it| !is_quiet(&it.content)),
            Thing::Event(_) => None,
        });
        assert_eq!(row.last.is_some(), message.is_some(), "{row:?}");
        let (Some(last), Some(message)) = (&row.last, message) else { continue };
        assert_eq!((last.id, &last.from), (message.id, &message.from));
        let is_same = last.text == message.content.text && last.kind == message.content.kind;
        // A text that was edited meanwhile differs.
        let is_same =
            is_same || last.kind == Content::TEXT && message.content.kind == Content::TEXT;
        let is_gone = [last.kind, message.content.kind].contains(&Content::RECALLED);
        assert!(is_same || is_gone, "{row:?}: {message:?}");
    }
}

/// Checks that confirmed read positions hold, and that none has fallen.
fn check_cursors(device: &Device, rows: &BTreeMap<AccountAddress, Conversation>) {
    let mut last = BTreeMap::<&AccountAddress, Seq>::new();
    for (with, upto) in &device.cursors {
        let before = last.insert(with, *upto).unwrap_or(0);
        assert!(before <= *upto, "{} had read {before} of {with}, now {upto}", device.account);
    }
    for (with, upto) in last {
        assert!(rows[with].read >= upto, "{} has read {upto} of {with}", device.account);
    }
}

/// Checks that an inbox has each event once and in order.
fn check_events(account: &AccountAddress, inbox: &Inbox, all: &[(AccountAddress, Inbox)]) {
    let mut last = BTreeMap::<(&AccountAddress, bool), Seq>::new();
    for thing in inbox.values() {
        let Thing::Event(event) = thing else { continue };
        let (own, upto) = match event.what {
            InboxChange::Read(upto) => (true, upto),
            InboxChange::PeerRead(upto) => (false, upto),
            InboxChange::Set(_) => continue,
        };
        let before = last.insert((&event.with, own), upto).unwrap_or(0);
        assert!(before < upto, "{account}: {event:?} behind {before}");
        if !own {
            let (_, theirs) = all.iter().find(|(of, _)| *of == event.with).expect("a person");
            let read = InboxEvent { with: account.clone(), what: InboxChange::Read(upto) };
            let has = theirs.values().any(|it| matches!(it, Thing::Event(it) if **it == read));
            assert!(has, "{account} was told {event:?}");
        }
    }
}
