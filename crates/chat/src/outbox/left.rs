//! What a start finds in the outbox: stored before, and perhaps not in every inbox.
//!
//! ```text
//! outbox ─► its conversation, backwards: the message ─► each inbox, backwards: is it there?
//!                                                          │ no
//!        distributed in the order of the outbox ◄──────────┘
//! ```
//! What is stored meanwhile waits in line behind it, so that no inbox has a conversation in another
//! order. An inbox is gone through as far back as the message is old. Invariant: what waits is
//! distributed in the order of its places, and put into no inbox that has it.

use crate::amendments::overlays::{self, Overlay};
use crate::envelope::{self, time_of};
use crate::groups;
use crate::groups::fan_out::Told;
use crate::groups::state::GroupState;
use crate::inboxes::entry;
use crate::label::{EntryLabel, Route};
use crate::log::{Answered, PendingCall};
use crate::outbox::OutboxPlace;
use crate::outbox::receivers::Receivers;
use crate::word::{Cargo, ChatWord};
use crate::{Chat, Effects};
use base::time::{Instant, Now};
use model::chat::{ChatMessage, FanOut, GroupChange};
use model::id::ShardId;
use model::ports::calls::RETRY_PAUSE;
use model::ports::log::{Call, Done, Page, Pull, ROWS_MAX, Read, StoreError};
use model::timeline::{Seq, TimelineId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Messages that are looked for at once after a start.
const LOOKING_MAX: usize = 64;

/// Messages of a timeline that are looked through at once for one of them, and their bytes.
const LOOK_COUNT_MAX: usize = 64;
const LOOK_BYTES_MAX: usize = 256 * 1024;

/// How much earlier than its message a reference may seem to be, seconds: clocks are set.
pub(crate) const CLOCK_SLACK_S: u32 = 60;

/// What a start found, in its order, and behind it what has been stored since.
#[derive(Default)]
pub(crate) struct Line {
    all: BTreeMap<u64, Waiting>,
    last: u64,
    /// Those before this one are looked for, or found.
    next: u64,
    /// Numbers of those that are looked for.
    looking: BTreeMap<u64, Look>,
}

/// A message that waits for others to be distributed before it.
struct Waiting {
    place: OutboxPlace,
    id: u64,
    route: Route,
    found: Found,
}

/// What is known of a message of the line.
enum Found {
    NotYet,
    /// It is for these: inboxes that do not have it, or members who draw it.
    Here(Cargo, Receivers),
    /// It was erased; or cannot be read, and the next start tries again.
    Nowhere,
}

/// How far one of them has been looked for.
enum Look {
    /// In its conversation. `damaged`: some of that could not be read.
    Conversation { damaged: bool },
    /// The log was too busy; it is asked again then.
    Refused { due: Instant },
    /// Not there: was it amended?
    Overlay,
    /// In the group that it was said to: who was a member then?
    Group { message: Arc<ChatMessage>, state: Box<GroupState> },
    /// In inboxes: in which it is not yet known to be or not, and those that do not have it. These
    /// are asked again then.
    Inboxes { cargo: Cargo, open: Vec<TimelineId>, lack: Vec<TimelineId>, due: Instant },
}

/// An inbox that is gone through, for whoever asked: has it this entry?
#[derive(Clone, Copy, Debug)]
pub struct Sought {
    pub(crate) number: u64,
    pub(crate) inbox: TimelineId,
    pub(crate) conversation: TimelineId,
    pub(crate) seq: Seq,
    /// Not a reference, but that the other has read up to there.
    pub(crate) peer_read: bool,
    /// When its message was taken, Unix seconds.
    pub(crate) at_s: u32,
}

impl Line {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn found_at_start(&mut self, place: OutboxPlace, id: u64, route: Route) {
        self.put(Waiting { place, id, route, found: Found::NotYet });
    }

    pub(crate) fn stored_since(
        &mut self,
        place: OutboxPlace,
        (route, receivers): (Route, &Receivers),
        cargo: &Cargo,
    ) {
        let found = Found::Here(cargo.clone(), receivers.clone());
        self.put(Waiting { place, id: cargo.id(), route, found });
    }

    fn put(&mut self, waiting: Waiting) {
        self.all.insert(self.last, waiting);
        self.last += 1;
    }
}

impl Chat {
    /// What a start found is looked for in its conversation, some at a time.
    pub(crate) fn look_for_left(&mut self, fx: &mut Effects) {
        while self.outbox.line.looking.len() < LOOKING_MAX
            && let Some(waiting) = self.outbox.line.all.get(&self.outbox.line.next)
        {
            let (number, way) = (self.outbox.line.next, (waiting.route, waiting.place));
            let is_sought = matches!(waiting.found, Found::NotYet);
            self.outbox.line.next += 1;
            if is_sought {
                let look = Look::Conversation { damaged: false };
                self.outbox.line.looking.insert(number, look);
                self.look_for(number, way, fx);
            }
        }
    }

    /// Looks for a message in its conversation, from the end; whatever else it is stands in the
    /// outbox whole.
    fn look_for(&mut self, number: u64, (route, place): (Route, OutboxPlace), fx: &mut Effects) {
        let pending = PendingCall::Undistributed(number);
        if route.read.is_none() {
            return self.look_back(pending, route.conversation, Seq::MAX, fx);
        }
        let (timeline, from, bytes_max) = (place.0, place.1 - 1, LOOK_BYTES_MAX);
        let pull = Pull { timeline, from, backwards: false, count_max: 1, bytes_max };
        self.log.ask(pending, Call::Read(Read::Pull(pull)), fx);
    }

    fn look_back(
        &mut self,
        pending: PendingCall,
        timeline: TimelineId,
        from: Seq,
        fx: &mut Effects,
    ) {
        let (count_max, bytes_max) = (LOOK_COUNT_MAX, LOOK_BYTES_MAX);
        let pull = Pull { timeline, from, backwards: true, count_max, bytes_max };
        self.log.ask(pending, Call::Read(Read::Pull(pull)), fx);
    }

    /// A page of the conversation of something that was left.
    pub(crate) fn found_again(
        &mut self,
        now: Now,
        number: u64,
        result: Answered,
        fx: &mut Effects,
    ) {
        let line = &mut self.outbox.line;
        let (Some(waiting), Some(look)) = (line.all.get(&number), line.looking.get_mut(&number))
        else {
            return;
        };
        let page = match result {
            Ok(Done::Page(page)) => page,
            Err(StoreError::Busy) => {
                *look = Look::Refused { due: now.after(RETRY_PAUSE) };
                return;
            }
            _ => return self.found(now, number, Found::Nowhere, fx),
        };
        let route = waiting.route;
        if let Some(upto) = route.read {
            let placed = page.messages.first().filter(|placed| placed.seq == waiting.place.1);
            let by = placed.and_then(|placed| entry::read_by(&placed.message.body));
            let Some((by, _)) = by else { return self.found(now, number, Found::Nowhere, fx) };
            let cargo = Cargo::Event(waiting.id, Arc::new(entry::peer_read(by, upto)));
            return self.look_in_inboxes(now, number, (cargo, &route.inboxes()), fx);
        }
        let found = page.messages.iter().find(|placed| placed.message.id == waiting.id);
        if let Some(placed) = found {
            let message = envelope::decode(placed.message.id, placed.seq, &placed.message.body);
            let Some(message) = message.map(Arc::new) else {
                return self.found(now, number, Found::Nowhere, fx);
            };
            return self.message_found(now, number, (route, message), fx);
        }
        let Look::Conversation { damaged } = look else { return };
        *damaged |= !page.damaged.is_empty();
        if let (true, Some(from)) = (page.more, first_of(&page)) {
            let pending = PendingCall::Undistributed(number);
            return self.look_back(pending, route.conversation, from, fx);
        }
        if !*damaged {
            *look = Look::Overlay;
            return self.look_for_overlay(number, (route.conversation, 1), fx);
        }
        self.found(now, number, Found::Nowhere, fx);
    }

    fn look_for_overlay(
        &mut self,
        number: u64,
        (conversation, first): (TimelineId, Seq),
        fx: &mut Effects,
    ) {
        let read = overlays::read(conversation, first, ROWS_MAX as u64);
        self.log.ask(PendingCall::Buried(number), Call::Read(read), fx);
    }

    /// Some of what was called back in the conversation of something that was left.
    pub(crate) fn buried_read(
        &mut self,
        now: Now,
        number: u64,
        result: Answered,
        fx: &mut Effects,
    ) {
        let line = &mut self.outbox.line;
        let (Some(waiting), Some(look)) = (line.all.get(&number), line.looking.get_mut(&number))
        else {
            return;
        };
        let rows = match result {
            Ok(Done::Rows(rows)) => rows,
            Err(StoreError::Busy) => {
                *look = Look::Refused { due: now.after(RETRY_PAUSE) };
                return;
            }
            _ => return self.found(now, number, Found::Nowhere, fx),
        };
        let (route, place, id) = (waiting.route, waiting.place, waiting.id);
        let read = rows.iter().filter_map(|(key, value)| Overlay::decode((key, value)));
        let read: Vec<_> = read.map(|it| it.message).collect();
        if let Some(message) = read.iter().find(|message| message.id == id) {
            return self.message_found(now, number, (route, message.clone()), fx);
        }
        match read.last().filter(|_| rows.len() == ROWS_MAX).map(|last| last.seq + 1) {
            Some(first) => {
                self.look_for_overlay(number, (route.conversation, first), fx);
            }
            None => {
                self.leaves(place); // it was erased meanwhile
                self.found(now, number, Found::Nowhere, fx);
            }
        }
    }

    /// A message that was left is found, or what is left of it: whom does it concern?
    fn message_found(
        &mut self,
        now: Now,
        number: u64,
        (route, message): (Route, Arc<ChatMessage>),
        fx: &mut Effects,
    ) {
        if route.is_to_group() {
            let look = Look::Group { message, state: Box::default() };
            self.outbox.line.looking.insert(number, look);
            return self.look_at_group(number, (route, 0), fx);
        }
        let cargo = Cargo::Message(message);
        self.look_in_inboxes(now, number, (cargo, &route.inboxes()), fx);
    }

    fn look_at_group(&mut self, number: u64, (route, from): (Route, Seq), fx: &mut Effects) {
        let pull = groups::recall(self.settings.home, route.conversation, from);
        self.log.ask(PendingCall::Concerned(number), Call::Read(Read::Pull(pull)), fx);
    }

    /// A page of what had happened to a group when something was said there. Numbers of messages
    /// rise in a conversation, so what has a lower one was before.
    pub(crate) fn concerned_read(
        &mut self,
        now: Now,
        number: u64,
        result: Answered,
        fx: &mut Effects,
    ) {
        let home = self.settings.home;
        let line = &mut self.outbox.line;
        let (Some(waiting), Some(look)) = (line.all.get(&number), line.looking.get_mut(&number))
        else {
            return;
        };
        let Look::Group { message, state } = look else { return };
        let page = match result {
            Ok(Done::Page(page)) if page.damaged.is_empty() => page,
            Err(StoreError::Busy) => {
                *look = Look::Refused { due: now.after(RETRY_PAUSE) };
                return;
            }
            _ => return self.found(now, number, Found::Nowhere, fx),
        };
        let mut more = page.messages.last().map(|placed| placed.seq).filter(|_| page.more);
        for placed in &page.messages {
            if placed.message.id >= message.id {
                more = None;
                break;
            }
            let before = envelope::decode(placed.message.id, placed.seq, &placed.message.body);
            if !before.is_some_and(|before| state.recall(home, &before)) {
                return self.found(now, number, Found::Nowhere, fx);
            }
        }
        if let Some(from) = more {
            let route = waiting.route;
            return self.look_at_group(number, (route, from), fx);
        }
        let message = message.clone();
        let settings = &self.settings;
        let shard_at = |inbox| settings.shard_at(inbox);
        let receivers = if let Some(fan_out) = FanOut::of(&message.content) {
            state.turned_to((message.id, fan_out), shard_at)
        } else if let Some(change) = GroupChange::of(&message.content) {
            let concerned = state.apply(home, message.id, &change);
            state.receivers_of(Told::Change(home, &change), concerned, shard_at)
        } else {
            state.receivers(shard_at)
        };
        let cargo = Cargo::Message(message);
        match receivers {
            Receivers::Written(all) => self.look_in_inboxes(now, number, (cargo, &all), fx),
            Receivers::Read(_) => {
                self.outbox.takes(cargo.weight());
                self.found(now, number, Found::Here(cargo, receivers), fx);
            }
        }
    }

    fn look_in_inboxes(
        &mut self,
        now: Now,
        number: u64,
        (cargo, inboxes): (Cargo, &[TimelineId]),
        fx: &mut Effects,
    ) {
        let (open, lack, due) = (inboxes.to_vec(), Vec::new(), now.mono);
        self.outbox.line.looking.insert(number, Look::Inboxes { cargo, open, lack, due });
        self.seek(now, number, fx);
    }

    /// Asks the shards of inboxes whether they have a message that was found.
    fn seek(&mut self, now: Now, number: u64, fx: &mut Effects) {
        let again = now.after(self.again_after());
        let line = &mut self.outbox.line;
        let Some(waiting) = line.all.get(&number) else { return };
        let Some(Look::Inboxes { cargo, open, due, .. }) = line.looking.get_mut(&number) else {
            return;
        };
        *due = again;
        let (conversation, seq) = (waiting.route.conversation, cargo.seq());
        let peer_read = waiting.route.read.is_some();
        let at_s = (time_of(cargo.id()) / 1_000) as u32;
        let of = |&inbox: &TimelineId| Sought { number, inbox, conversation, seq, peer_read, at_s };
        let all: Vec<Sought> = open.iter().map(of).collect();
        for sought in all {
            let shard = self.settings.shard_at(sought.inbox);
            if shard == self.settings.shard {
                self.sought(shard, sought, fx);
            } else {
                fx.peer_messages.push((shard, ChatWord::Seek(Box::new(sought))));
            }
        }
    }

    /// A shard wants to know whether an inbox of this one has a reference.
    pub(crate) fn sought(&mut self, from: ShardId, sought: Sought, fx: &mut Effects) {
        if self.log.may_ask() {
            let pending = PendingCall::Sought(Box::new((from, sought)));
            self.look_back(pending, sought.inbox, Seq::MAX, fx);
        }
    }

    /// A page of an inbox that is gone through. What the log is too busy for is asked again.
    pub(crate) fn sought_in(
        &mut self,
        now: Now,
        (from, sought): (ShardId, Sought),
        result: Answered,
        fx: &mut Effects,
    ) {
        let Ok(Done::Page(page)) = result else { return };
        let is_it = |label: &[u8]| {
            let (of, seq, peer_read) = match EntryLabel::decode(label) {
                Some(EntryLabel::Reference(it)) => (it.conversation, it.seq, false),
                Some(EntryLabel::PeerRead(of, upto)) => (of, upto, true),
                _ => return false,
            };
            (of, seq, peer_read) == (sought.conversation, sought.seq, sought.peer_read)
        };
        let has = page.messages.iter().any(|placed| is_it(&placed.message.label));
        let until_s = sought.at_s.saturating_sub(CLOCK_SLACK_S);
        let is_older = page.messages.last().is_some_and(|placed| placed.message.at_s < until_s);
        if let (false, false, true, Some(back)) = (has, is_older, page.more, first_of(&page)) {
            let pending = PendingCall::Sought(Box::new((from, sought)));
            return self.look_back(pending, sought.inbox, back, fx);
        }
        if from == self.settings.shard {
            return self.told_of(now, (sought.number, sought.inbox), has, fx);
        }
        let (number, inbox) = (sought.number, sought.inbox);
        fx.peer_messages.push((from, ChatWord::Sought { number, inbox, has }));
    }

    /// A shard says whether an inbox has a message that was left.
    pub(crate) fn told_of(
        &mut self,
        now: Now,
        (number, inbox): (u64, TimelineId),
        has: bool,
        fx: &mut Effects,
    ) {
        let look = self.outbox.line.looking.get_mut(&number);
        let Some(Look::Inboxes { cargo, open, lack, .. }) = look else { return };
        let Some(at) = open.iter().position(|other| *other == inbox) else { return };
        open.remove(at);
        if !has {
            lack.push(inbox);
        }
        if open.is_empty() {
            let (cargo, lack) = (cargo.clone(), std::mem::take(lack));
            self.outbox.takes(cargo.weight());
            self.found(now, number, Found::Here(cargo, Receivers::Written(lack.into())), fx);
        }
    }

    /// What was looked for is found, or not: the line goes on.
    fn found(&mut self, now: Now, number: u64, found: Found, fx: &mut Effects) {
        let line = &mut self.outbox.line;
        line.looking.remove(&number);
        if let Some(waiting) = line.all.get_mut(&number) {
            waiting.found = found;
        }
        self.advance(now, fx);
        self.look_for_left(fx);
    }

    /// Distributes from the front of the line what is found.
    fn advance(&mut self, now: Now, fx: &mut Effects) {
        while let Some(first) = self.outbox.line.all.first_entry()
            && !matches!(first.get().found, Found::NotYet)
        {
            let Waiting { place, route, found, .. } = first.remove();
            let Found::Here(cargo, lack) = found else { continue };
            self.outbox.gives(cargo.weight());
            match lack.is_empty() {
                true => self.leaves(place),
                false => self.hand_out(now, place, (route, &lack), &cargo, fx),
            }
        }
    }

    /// Asks again what was refused, or not answered in time; when to come back.
    pub(crate) fn turn_line(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let mut next: Option<Instant> = None;
        let numbers: Vec<u64> = self.outbox.line.looking.keys().copied().collect();
        for number in numbers {
            let line = &mut self.outbox.line;
            let (waiting, look) = (line.all.get(&number), line.looking.get_mut(&number));
            let (Some(waiting), Some(look)) = (waiting, look) else { continue };
            match look {
                Look::Refused { due } if *due <= now.mono => {
                    let way = (waiting.route, waiting.place);
                    *look = Look::Conversation { damaged: false };
                    self.look_for(number, way, fx);
                }
                Look::Inboxes { due, .. } if *due <= now.mono => self.seek(now, number, fx),
                _ => {}
            }
            let look = self.outbox.line.looking.get(&number);
            if let Some(Look::Refused { due } | Look::Inboxes { due, .. }) = look {
                next = Some(next.map_or(*due, |next| next.min(*due)));
            }
        }
        next
    }
}

/// The place that a page backwards ends at, damaged ones included.
fn first_of(page: &Page) -> Option<Seq> {
    let last = page.messages.last().map(|placed| placed.seq);
    last.into_iter().chain(page.damaged.last().copied()).min()
}
