//! Messages that a start finds in the outbox: stored before it, and perhaps missing in some
//! inboxes.
//!
//! ```text
//! outbox ─► its conversation, backwards: the message ─► each inbox, backwards: is it there?
//!                                                          │ no
//!        distributed in the order of the outbox ◄──────────┘
//! ```
//! Messages that are stored meanwhile wait in line behind these, so that no inbox gets a
//! conversation in another order. The number of inboxes that are searched at once is limited, and
//! those of earlier messages come first; [`scans`] searches them. Invariant: messages in line are
//! distributed in the order of the outbox, and are put into no inbox that has them already.

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

/// Largest number of messages that are looked for at once after a start.
const LOOKING_MAX: usize = 64;

/// Size of a page when a conversation or an inbox is searched, messages and bytes.
const LOOK_COUNT_MAX: usize = 64;
const LOOK_BYTES_MAX: usize = 256 * 1024;

/// Messages that a start found in the outbox, in its order, and behind them those stored since.
#[derive(Default)]
pub(crate) struct Line {
    all: BTreeMap<u64, Waiting>,
    last: u64,
    /// The search has begun, or is over, for all messages before this number.
    next: u64,
    /// Running searches, by the numbers of their messages.
    looking: BTreeMap<u64, Look>,
    /// Number of inboxes with open queries, of all messages.
    asked: usize,
    /// Offset of the message found last in each conversation: later ones are behind it.
    near: BTreeMap<TimelineId, Seq>,
}

/// A message that waits for others to be distributed before it.
struct Waiting {
    place: OutboxPlace,
    id: u64,
    route: Route,
    found: Found,
}

/// Result of the search for a message of the line.
enum Found {
    NotYet,
    /// The message, with the inboxes that lack it or the members of a read group.
    Here(Cargo, Receivers),
    /// The message was erased, or cannot be read; in the latter case the next start tries again.
    Nowhere,
}

/// State of the search for a message.
enum Look {
    /// Searching its conversation behind the message found there before.
    Near,
    /// Searching its conversation backwards from the end. `damaged`: a part could not be read.
    Conversation {
        damaged: bool,
    },
    /// The log was busy; the search is begun again at `due`.
    Refused {
        due: Instant,
    },
    /// Not found in the conversation: searching the amended messages.
    Overlay,
    /// The message is an edit: reading the present state of the message that it edits.
    Edit(ChatMessage),
    /// Reading the changes of its group, to find the members of that time.
    Group {
        message: Arc<ChatMessage>,
        state: Box<GroupState>,
    },
    Inboxes(Seeking),
}

/// The search for a message in its inboxes.
struct Seeking {
    cargo: Cargo,
    /// Inboxes that have not been queried; the last one is next.
    left: Vec<TimelineId>,
    /// Inboxes with an open query, which is repeated at `due`.
    asked: Vec<TimelineId>,
    due: Instant,
    /// Inboxes that lack the message.
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

    /// The next query to an inbox, if fewer than `at_once_max` are open: for the first message in
    /// line with an inbox left. The query is repeated at `again`.
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

    /// Queries that were not answered in time, to be sent again; they are due again after this
    /// time.
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

/// The query whether an inbox has this entry of the line.
fn sought(number: u64, route: Route, cargo: &Cargo, inbox: TimelineId) -> Sought {
    let (conversation, seq) = (route.conversation, cargo.seq());
    let (peer_read, at_s) = (route.read.is_some(), (time_of(cargo.id()) / 1_000) as u32);
    Sought { number, inbox, conversation, seq, peer_read, at_s }
}

impl Chat {
    /// Begins to look for messages of the line in their conversations, a limited number at a time.
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

    /// Looks for a message in its conversation: behind the one found there before, if any. A read
    /// position is complete in the outbox and is read from there.
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

    /// Handles a page of the conversation in which a message is looked for, or the read position.
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

    /// Handles the present state of the message that an edit of the line is about.
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

    /// Handles a page of amended messages of the conversation in which a message is looked for.
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
                self.leaves(place); // the message was erased meanwhile
                self.found(now, number, Found::Nowhere, fx);
            }
        }
    }

    /// Finds the receivers of a message that was found, whole or recalled.
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

    /// Handles a page of the changes of a group before a message. Numbers of messages rise in a
    /// conversation, so a change with a lower number came before the message.
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
        } else {
            match GroupChange::all_of(&message.content) {
                changes if changes.is_empty() => state.receivers(shard_at),
                changes => {
                    let concerned = state.apply_all(home, message.id, &changes);
                    state.receivers_of(concerned, shard_at)
                }
            }
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

    /// Queries the shards of inboxes whether they have messages of the line, up to the limit.
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

    /// Handles a shard's answer whether an inbox has a message.
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

    /// Completes the search for a message: all inboxes that lack it are known.
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

    /// Records the result of the search for a message, and continues with the line.
    fn found(&mut self, now: Now, number: u64, found: Found, fx: &mut Effects) {
        let line = &mut self.outbox.line;
        line.looking.remove(&number);
        if let Some(waiting) = line.all.get_mut(&number) {
            waiting.found = found;
        }
        self.advance(now, fx);
        self.look_for_left(fx);
    }

    /// Distributes messages from the front of the line whose search is over.
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

    /// Repeats reads that were refused and queries that were not answered in time; returns when to
    /// be called again.
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

/// A page of a timeline behind an offset, or before it.
fn page_of(timeline: TimelineId, from: Seq, backwards: bool) -> Pull {
    let (count_max, bytes_max) = (LOOK_COUNT_MAX, LOOK_BYTES_MAX);
    Pull { timeline, from, backwards, count_max, bytes_max }
}

/// The lowest offset of a page that is read backwards, damaged entries included.
fn first_of(page: &Page) -> Option<Seq> {
    let last = page.messages.last().map(|placed| placed.seq);
    last.into_iter().chain(page.damaged.last().copied()).min()
}
