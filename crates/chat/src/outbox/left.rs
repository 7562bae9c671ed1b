//! What a start finds in the outbox: stored before, and perhaps not in every inbox.
//!
//! ```text
//! outbox ─► its conversation, backwards: the message ─► each inbox, backwards: is it there?
//!                                                          │ no
//!        distributed in the order of the outbox ◄──────────┘
//! ```
//! What is stored meanwhile waits in line behind it, so that no inbox has a conversation in another
//! order. So many inboxes are asked for at once, those of the first in line before the others'; how
//! one is gone through is [`scans`]'s. Invariant: what waits is distributed in the order of its
//! places, and put into no inbox that has it.

pub(crate) mod scans;

use crate::amendments::overlays::{self, Overlay};
use crate::envelope::{self, time_of};
use crate::groups;
use crate::groups::state::GroupState;
use crate::inboxes::entry;
use crate::label::Route;
use crate::log::{Answered, PendingCall};
use crate::outbox::OutboxPlace;
use crate::outbox::receivers::Receivers;
use crate::reads::fetching;
use crate::word::{Cargo, ChatWord};
use crate::{Chat, Effects};
use base::time::{Instant, Now};
use model::chat::{ChatMessage, FanOut, GroupChange};
use model::ports::calls::RETRY_PAUSE;
use model::ports::log::{Call, Done, Page, Pull, ROWS_MAX, Read, StoreError};
use model::timeline::{Seq, TimelineId};
use scans::Sought;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Messages that are looked for at once after a start.
const LOOKING_MAX: usize = 64;

/// Messages of a timeline that are looked through at once for one of them, and their bytes.
const LOOK_COUNT_MAX: usize = 64;
const LOOK_BYTES_MAX: usize = 256 * 1024;

/// What a start found, in its order, and behind it what has been stored since.
#[derive(Default)]
pub(crate) struct Line {
    all: BTreeMap<u64, Waiting>,
    last: u64,
    /// Those before this one are looked for, or found.
    next: u64,
    /// Numbers of those that are looked for.
    looking: BTreeMap<u64, Look>,
    /// Inboxes that are asked for, of all of them.
    asked: usize,
    /// Where the last one that was found of a conversation stands there: the next stand behind it.
    near: BTreeMap<TimelineId, Seq>,
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
    /// In its conversation, behind one that was before it.
    Near,
    /// In its conversation, from the end. `damaged`: some of that could not be read.
    Conversation {
        damaged: bool,
    },
    /// The log was too busy; it is asked again then.
    Refused {
        due: Instant,
    },
    /// Not there: was it amended?
    Overlay,
    /// An edit: what does the message say that it is about?
    Edit(ChatMessage),
    /// In the group that it was said to: who was a member then?
    Group {
        message: Arc<ChatMessage>,
        state: Box<GroupState>,
    },
    Inboxes(Seeking),
}

/// In which inboxes something is.
struct Seeking {
    cargo: Cargo,
    /// Those that are not asked for yet: the next is the last.
    left: Vec<TimelineId>,
    /// Those that are. They are asked for again then.
    asked: Vec<TimelineId>,
    due: Instant,
    /// Those that do not have it.
    lack: Vec<TimelineId>,
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

    /// The next inbox that is to be asked for, where no more than so many are: of the first in line
    /// that lacks one. It is asked for again then.
    fn next_to_ask(&mut self, at_once_max: usize, again: Instant) -> Option<Sought> {
        if self.asked >= at_once_max {
            return None;
        }
        let open = self.looking.iter_mut().find_map(|(number, look)| match look {
            Look::Inboxes(seeking) => seeking.left.pop().map(|inbox| (*number, inbox, seeking)),
            _ => None,
        });
        let (number, inbox, seeking) = open?;
        if seeking.asked.is_empty() {
            seeking.due = again;
        }
        seeking.asked.push(inbox);
        self.asked += 1;
        let waiting = self.all.get(&number)?;
        Some(sought(number, waiting.route, &seeking.cargo, inbox))
    }

    /// Those that are asked for and were not told of in time; they are asked for again then.
    fn ask_again(&mut self, now: Now, after: Duration) -> Vec<Sought> {
        let mut again = Vec::new();
        for (number, look) in &mut self.looking {
            let (Some(waiting), Look::Inboxes(seeking)) = (self.all.get(number), look) else {
                continue;
            };
            if seeking.due <= now.mono && !seeking.asked.is_empty() {
                seeking.due = now.after(after);
                let of =
                    |inbox: &TimelineId| sought(*number, waiting.route, &seeking.cargo, *inbox);
                again.extend(seeking.asked.iter().map(of));
            }
        }
        again
    }
}

/// What an inbox is asked for, for one of the line.
fn sought(number: u64, route: Route, cargo: &Cargo, inbox: TimelineId) -> Sought {
    let (conversation, seq) = (route.conversation, cargo.seq());
    let (peer_read, at_s) = (route.read.is_some(), (time_of(cargo.id()) / 1_000) as u32);
    Sought { number, inbox, conversation, seq, peer_read, at_s }
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
                self.look_for(number, way, fx);
            }
        }
    }

    /// Looks for a message in its conversation: behind one that was before it, if one was found.
    /// Whatever else it is stands in the outbox whole.
    fn look_for(&mut self, number: u64, (route, place): (Route, OutboxPlace), fx: &mut Effects) {
        let near = self.outbox.line.near.get(&route.conversation).copied();
        let (pull, look) = match (route.read, near) {
            (Some(_), _) => {
                let pull = page_of(place.0, place.1 - 1, false);
                (Pull { count_max: 1, ..pull }, Look::Conversation { damaged: false })
            }
            (None, Some(near)) => (page_of(route.conversation, near, false), Look::Near),
            (None, None) => return self.look_from_the_end(number, route.conversation, fx),
        };
        self.outbox.line.looking.insert(number, look);
        self.log.ask(PendingCall::Undistributed(number), Call::Read(Read::Pull(pull)), fx);
    }

    fn look_from_the_end(&mut self, number: u64, conversation: TimelineId, fx: &mut Effects) {
        self.outbox.line.looking.insert(number, Look::Conversation { damaged: false });
        let pull = page_of(conversation, Seq::MAX, true);
        self.log.ask(PendingCall::Undistributed(number), Call::Read(Read::Pull(pull)), fx);
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
            let Some(message) = message else {
                return self.found(now, number, Found::Nowhere, fx);
            };
            line.near.insert(route.conversation, message.seq);
            if let Some(of) = fetching::edited_by(&message) {
                *look = Look::Edit(message);
                let read = Call::Read(overlays::read_one(route.conversation, of));
                return self.log.ask(PendingCall::LeftEdit(number), read, fx);
            }
            return self.message_found(now, number, (route, Arc::new(message)), fx);
        }
        if matches!(look, Look::Near) {
            return self.look_from_the_end(number, route.conversation, fx);
        }
        let Look::Conversation { damaged } = look else { return };
        *damaged |= !page.damaged.is_empty();
        if let (true, Some(from)) = (page.more, first_of(&page)) {
            let pull = Call::Read(Read::Pull(page_of(route.conversation, from, true)));
            return self.log.ask(PendingCall::Undistributed(number), pull, fx);
        }
        if !*damaged {
            *look = Look::Overlay;
            return self.look_for_overlay(number, (route.conversation, 1), fx);
        }
        self.found(now, number, Found::Nowhere, fx);
    }

    /// What the message says now that an edit is about which was left.
    pub(crate) fn left_edit_read(
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
        let Look::Edit(edit) = look else { return };
        let row = match result {
            Ok(Done::Row(row)) => row,
            Err(StoreError::Busy) => {
                *look = Look::Refused { due: now.after(RETRY_PAUSE) };
                return;
            }
            _ => return self.found(now, number, Found::Nowhere, fx),
        };
        let (route, edit) = (waiting.route, edit.clone());
        let of = fetching::edited_by(&edit).unwrap_or(0);
        let key = overlays::key_of(route.conversation, of);
        let now_is = row.and_then(|row| Overlay::decode((&key, &row)));
        let now_is = now_is.filter(|it| !it.is_tombstone()).map(|it| it.message);
        let edit = fetching::with_its_text(edit, now_is.as_deref());
        self.message_found(now, number, (route, Arc::new(edit)), fx);
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
            state.receivers_of(concerned, shard_at)
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
        let left: Vec<_> = inboxes.iter().rev().copied().collect();
        let (asked, lack, due) = (Vec::new(), Vec::new(), now.mono);
        if left.is_empty() {
            return self.found_in_all(now, number, (cargo, lack), fx);
        }
        let seeking = Seeking { cargo, left, asked, due, lack };
        self.outbox.line.looking.insert(number, Look::Inboxes(seeking));
        self.seek(now, fx);
    }

    /// Asks the shards of inboxes whether they have what was found, as many as there is room for.
    fn seek(&mut self, now: Now, fx: &mut Effects) {
        let most = self.settings.limits.chat.left_inboxes_at_once_max as usize;
        let again = now.after(self.again_after());
        while let Some(sought) = self.outbox.line.next_to_ask(most, again) {
            self.seek_one(sought, fx);
        }
    }

    fn seek_one(&mut self, sought: Sought, fx: &mut Effects) {
        let shard = self.settings.shard_at(sought.inbox);
        if shard == self.settings.shard {
            self.sought(shard, sought, fx);
        } else {
            fx.peer_messages.push((shard, ChatWord::Seek(Box::new(sought))));
        }
    }

    /// A shard says whether an inbox has a message that was left.
    pub(crate) fn told_of(
        &mut self,
        now: Now,
        (number, inbox): (u64, TimelineId),
        has: bool,
        fx: &mut Effects,
    ) {
        let line = &mut self.outbox.line;
        let Some(Look::Inboxes(seeking)) = line.looking.get_mut(&number) else { return };
        let Some(at) = seeking.asked.iter().position(|other| *other == inbox) else { return };
        seeking.asked.swap_remove(at);
        line.asked -= 1;
        if !has {
            seeking.lack.push(inbox);
        }
        if seeking.asked.is_empty() && seeking.left.is_empty() {
            let (cargo, lack) = (seeking.cargo.clone(), std::mem::take(&mut seeking.lack));
            self.found_in_all(now, number, (cargo, lack), fx);
        }
        self.seek(now, fx);
    }

    /// Of all inboxes that something concerns it is known whether they have it.
    fn found_in_all(
        &mut self,
        now: Now,
        number: u64,
        (cargo, lack): (Cargo, Vec<TimelineId>),
        fx: &mut Effects,
    ) {
        self.outbox.takes(cargo.weight());
        self.found(now, number, Found::Here(cargo, Receivers::Written(lack.into())), fx);
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
        if self.outbox.line.is_empty() {
            self.outbox.line.near.clear();
        }
    }

    /// Asks again what was refused, or not answered in time; when to come back.
    pub(crate) fn turn_line(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let line = &self.outbox.line;
        let is_due = |look: &Look| matches!(look, Look::Refused { due } if *due <= now.mono);
        let refused = line.looking.iter().filter(|(_, look)| is_due(look));
        let refused: Vec<u64> = refused.map(|(number, _)| *number).collect();
        for number in refused {
            let way = self.outbox.line.all.get(&number).map(|it| (it.route, it.place));
            way.into_iter().for_each(|way| self.look_for(number, way, fx));
        }
        for sought in self.outbox.line.ask_again(now, self.again_after()) {
            self.seek_one(sought, fx);
        }
        let due = |look: &Look| match look {
            Look::Refused { due } => Some(*due),
            Look::Inboxes(seeking) if !seeking.asked.is_empty() => Some(seeking.due),
            _ => None,
        };
        self.outbox.line.looking.values().filter_map(due).min()
    }
}

/// A page of a timeline behind a place, or before it.
fn page_of(timeline: TimelineId, from: Seq, backwards: bool) -> Pull {
    let (count_max, bytes_max) = (LOOK_COUNT_MAX, LOOK_BYTES_MAX);
    Pull { timeline, from, backwards, count_max, bytes_max }
}

/// The place that a page backwards ends at, damaged ones included.
fn first_of(page: &Page) -> Option<Seq> {
    let last = page.messages.last().map(|placed| placed.seq);
    last.into_iter().chain(page.damaged.last().copied()).min()
}
