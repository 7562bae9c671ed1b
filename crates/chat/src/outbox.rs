//! Distribute: what was stored is put into the inboxes that it concerns, whatever happens.
//!
//! ```text
//! stored ─► a parcel for each inbox ─► its shard: appended ─► placed up to n ─► leaves the outbox
//!              ▲ numbered, in order       │ lost, or refused
//!              └─── once more, from the first that is not confirmed
//! ```
//! Parcels to a shard go in the order of the log, and are taken there in no other; so an inbox has
//! a conversation's messages in their order. The outbox, a timeline of this shard, says after a
//! start what had not been confirmed; what is said since waits behind it. Invariant: a message is
//! in the outbox until it is in every inbox.

use crate::envelope;
use crate::label::{Pointer, Route};
use crate::log::{Answered, PendingCall};
use crate::word::{ChatWord, Parcel, weight};
use crate::{Chat, Effects};
use base::hash::{HashKey, home};
use base::time::{Instant, Now};
use model::chat::ChatMessage;
use model::counters::ChatCounter;
use model::id::ShardId;
use model::ports::calls::RETRY_PAUSE;
use model::ports::log::{Call, Done, Pull, REMOVE_SEQS_MAX, Read, StoreError, Write};
use model::timeline::{Message, Placed, Seq, Space, TimelineId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Parcels that are said once more in one turn, to one shard.
const AGAIN_A_TURN_MAX: usize = 256;

/// Messages that are looked for at once after a start.
const LOOKING_MAX: usize = 64;

/// Messages of a conversation that are looked through at once for one of them, and their bytes.
const LOOK_COUNT_MAX: usize = 64;
const LOOK_BYTES_MAX: usize = 256 * 1024;

/// A message that is being stored, and for whom.
pub(crate) struct Storing {
    pub from: ShardId,
    pub number: u64,
    pub route: Route,
    pub message: Arc<Message>,
}

/// Place of a message in an outbox: one's own, or that of a shard of an earlier start.
pub(crate) type OutboxPlace = (TimelineId, Seq);

/// What a shard has stored and not seen in every inbox.
pub(crate) struct Outbox {
    timeline: TimelineId,
    ways: Vec<Way>,
    /// How many inboxes have not confirmed.
    open: BTreeMap<OutboxPlace, u8>,
    /// Confirmed by all: to leave the log.
    over: BTreeMap<TimelineId, Vec<Seq>>,
    /// What is being stored and distributed, bytes.
    bytes: u64,
    line: Line,
}

/// Parcels to one shard.
#[derive(Default)]
struct Way {
    /// The number of the last.
    last: u64,
    unconfirmed: VecDeque<(Parcel, OutboxPlace)>,
    /// When they are said once more, unless some are confirmed before.
    due: Instant,
}

/// What a start found, in its order, and behind it what has been stored since.
#[derive(Default)]
struct Line {
    all: BTreeMap<u64, Waiting>,
    last: u64,
    /// Those before this one are looked for, or found.
    next: u64,
    /// How many are looked for.
    looking: usize,
    /// Those that the log was too busy to read, and when it is asked again.
    refused: Vec<u64>,
    due: Instant,
}

/// A message that waits for others to be distributed before it.
struct Waiting {
    place: OutboxPlace,
    id: u64,
    route: Route,
    found: Found,
}

/// Where a message of the line is.
enum Found {
    /// In its conversation, somewhere.
    NotYet,
    Here(Arc<ChatMessage>),
    /// It was erased; or cannot be read, and the next start tries again.
    Nowhere,
}

impl Outbox {
    /// An empty one of this shard, of so many.
    pub(crate) fn new(key: HashKey, shard: ShardId, shards: u16) -> Outbox {
        Outbox {
            timeline: outbox_of(key, shard, shards),
            ways: (0..shards.max(1)).map(|_| Way::default()).collect(),
            open: BTreeMap::new(),
            over: BTreeMap::new(),
            bytes: 0,
            line: Line::default(),
        }
    }

    pub(crate) fn timeline(&self) -> TimelineId {
        self.timeline
    }

    /// Bytes of what is being stored and distributed.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Messages that are not yet in every inbox.
    pub(crate) fn len(&self) -> usize {
        self.open.len() + self.line.all.len()
    }

    /// Messages whose removal the log has not been asked for.
    pub(crate) fn unsettled(&self) -> usize {
        self.over.values().map(Vec::len).sum()
    }

    pub(crate) fn takes(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    pub(crate) fn gives(&mut self, bytes: usize) {
        self.bytes -= bytes as u64;
    }

    /// The log had this in an outbox when the shard started.
    pub(crate) fn restore(&mut self, place: OutboxPlace, id: u64, label: &[u8]) -> bool {
        let Some(route) = Route::decode(label) else { return false };
        self.line.put(Waiting { place, id, route, found: Found::NotYet });
        true
    }

    pub(crate) fn audit(&self) {
        let parcels = self.ways.iter().flat_map(|way| &way.unconfirmed);
        let mut counts = BTreeMap::<OutboxPlace, u8>::new();
        let mut bytes = 0;
        for (parcel, place) in parcels {
            *counts.entry(*place).or_default() += 1;
            bytes += parcel.weight() as u64;
        }
        assert_eq!(counts, self.open, "each message has its parcels");
        assert!(bytes <= self.bytes, "all of them are counted");
    }
}

impl Line {
    fn put(&mut self, waiting: Waiting) {
        self.all.insert(self.last, waiting);
        self.last += 1;
    }
}

impl Chat {
    /// What a start found is looked for in its conversation, some at a time.
    pub(crate) fn look_for_left(&mut self, fx: &mut Effects) {
        let line = &mut self.outbox.line;
        let mut begun = Vec::new();
        while line.looking < LOOKING_MAX
            && let Some(waiting) = line.all.get(&line.next)
        {
            if matches!(waiting.found, Found::NotYet) {
                line.looking += 1;
                begun.push((line.next, waiting.route.conversation));
            }
            line.next += 1;
        }
        for (number, conversation) in begun {
            self.look_back(number, conversation, Seq::MAX, fx);
        }
    }

    fn look_back(&mut self, number: u64, timeline: TimelineId, from: Seq, fx: &mut Effects) {
        let (count_max, bytes_max) = (LOOK_COUNT_MAX, LOOK_BYTES_MAX);
        let pull = Pull { timeline, from, backwards: true, count_max, bytes_max };
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
        let Some(waiting) = self.outbox.line.all.get_mut(&number) else { return };
        waiting.found = match result {
            Ok(Done::Page(page)) => {
                let found = page.messages.iter().find(|placed| placed.message.id == waiting.id);
                let last = page.messages.last().filter(|_| page.more && found.is_none());
                if let Some(Placed { seq, .. }) = last {
                    let (conversation, from) = (waiting.route.conversation, *seq);
                    return self.look_back(number, conversation, from, fx);
                }
                let decode = |placed: &Placed| {
                    envelope::decode(placed.message.id, placed.seq, &placed.message.body)
                };
                if found.is_none() {
                    let (outbox, seq) = waiting.place; // it was erased meanwhile
                    self.outbox.over.entry(outbox).or_default().push(seq);
                }
                let message = found.and_then(decode).map(Arc::new);
                self.outbox.bytes += message.as_ref().map_or(0, |it| weight(it) as u64);
                message.map_or(Found::Nowhere, Found::Here)
            }
            Err(StoreError::Busy) => {
                let line = &mut self.outbox.line;
                line.refused.push(number);
                line.due = now.after(RETRY_PAUSE);
                return;
            }
            _ => Found::Nowhere,
        };
        self.outbox.line.looking -= 1;
        self.advance(now, fx);
        self.look_for_left(fx);
    }

    /// Asks again what the log was too busy for; when to come back.
    fn look_again(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let line = &mut self.outbox.line;
        if line.refused.is_empty() {
            return None;
        }
        if line.due > now.mono {
            return Some(line.due);
        }
        for number in std::mem::take(&mut line.refused) {
            let waiting = self.outbox.line.all.get(&number);
            if let Some(conversation) = waiting.map(|waiting| waiting.route.conversation) {
                self.look_back(number, conversation, Seq::MAX, fx);
            }
        }
        None
    }

    /// Distributes from the front of the line what is found.
    fn advance(&mut self, now: Now, fx: &mut Effects) {
        while let Some(first) = self.outbox.line.all.first_entry()
            && !matches!(first.get().found, Found::NotYet)
        {
            let Waiting { place, route, found, .. } = first.remove();
            if let Found::Here(message) = found {
                self.outbox.bytes -= weight(&message) as u64;
                self.hand_out(now, place, route, &message, fx);
            }
        }
    }

    /// A message is stored: it goes to every inbox that it concerns, behind those before it.
    pub(crate) fn distribute(
        &mut self,
        now: Now,
        place: OutboxPlace,
        route: Route,
        message: &Arc<ChatMessage>,
        fx: &mut Effects,
    ) {
        let line = &mut self.outbox.line;
        if line.all.is_empty() {
            return self.hand_out(now, place, route, message, fx);
        }
        self.outbox.bytes += weight(message) as u64;
        line.put(Waiting { place, id: message.id, route, found: Found::Here(message.clone()) });
    }

    /// A parcel for each inbox that a message concerns.
    fn hand_out(
        &mut self,
        now: Now,
        place: OutboxPlace,
        route: Route,
        message: &Arc<ChatMessage>,
        fx: &mut Effects,
    ) {
        let due = now.after(self.again_after());
        for inbox in route.inboxes() {
            let own = inbox == route.from;
            let pointer = Pointer { conversation: route.conversation, seq: message.seq, own };
            let to = self.settings.shard_at(inbox);
            let way = &mut self.outbox.ways[usize::from(to.0)];
            if way.unconfirmed.is_empty() {
                way.due = due;
            }
            way.last += 1;
            let parcel = Parcel { number: way.last, inbox, pointer, message: message.clone() };
            way.unconfirmed.push_back((parcel.clone(), place));
            self.outbox.bytes += parcel.weight() as u64;
            *self.outbox.open.entry(place).or_default() += 1;
            self.hand_over(to, parcel, fx);
        }
    }

    fn hand_over(&mut self, to: ShardId, parcel: Parcel, fx: &mut Effects) {
        if to == self.settings.shard {
            self.place(to, parcel, fx);
        } else {
            fx.peer_messages.push((to, ChatWord::Place(parcel)));
        }
    }

    /// A shard has everything up to this number in its inboxes.
    pub(crate) fn confirmed(&mut self, now: Now, from: ShardId, upto: u64) {
        let due = now.after(self.again_after());
        let Outbox { ways, open, bytes, .. } = &mut self.outbox;
        let Some(way) = ways.get_mut(usize::from(from.0)) else { return };
        let mut over = Vec::new();
        while let Some((parcel, place)) = way.unconfirmed.front()
            && parcel.number <= upto
        {
            *bytes -= parcel.weight() as u64;
            if let Some(left) = open.get_mut(place) {
                *left -= 1;
                if *left == 0 {
                    open.remove(place);
                    over.push(*place);
                }
            }
            way.unconfirmed.pop_front();
            way.due = due;
        }
        over.into_iter().for_each(|place| self.leaves(place));
    }

    /// A message is in every inbox.
    fn leaves(&mut self, (outbox, seq): OutboxPlace) {
        self.outbox.over.entry(outbox).or_default().push(seq);
    }

    /// Says once more what was not confirmed in time, and takes out of the log what was; when to
    /// come back.
    pub(crate) fn turn_outbox(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        for (timeline, seqs) in std::mem::take(&mut self.outbox.over) {
            for seqs in seqs.chunks(REMOVE_SEQS_MAX) {
                self.log.write(Write::Remove { timeline, seqs: seqs.to_vec() }, fx);
            }
        }
        let again = now.after(self.again_after());
        let mut next = self.look_again(now, fx);
        for shard in 0..self.outbox.ways.len() {
            let way = &mut self.outbox.ways[shard];
            if way.unconfirmed.is_empty() {
                continue;
            }
            if way.due <= now.mono {
                way.due = again;
                let first = way.unconfirmed.iter().take(AGAIN_A_TURN_MAX);
                let parcels: Vec<Parcel> = first.map(|(parcel, _)| parcel.clone()).collect();
                fx.counters.count_by(ChatCounter::Redistributed, parcels.len() as u64);
                for parcel in parcels {
                    self.hand_over(ShardId(shard as u16), parcel, fx);
                }
            }
            let due = self.outbox.ways[shard].due;
            next = Some(next.map_or(due, |next: Instant| next.min(due)));
        }
        next
    }

    fn again_after(&self) -> Duration {
        Duration::from_millis(self.settings.limits.chat.redistribute_ms.into())
    }
}

/// The outbox of a shard, of so many: the first of a row of names that is at home there.
fn outbox_of(key: HashKey, shard: ShardId, shards: u16) -> TimelineId {
    let named = |n: u32| {
        let (number, try_) = (shard.0.to_be_bytes(), n.to_be_bytes());
        TimelineId::of(Space::Outbox, key, &[b"outbox", &number, &try_])
    };
    let is_here = |id: &TimelineId| home(id.home_hash(), shards.max(1)) == shard.0;
    (0..).map(named).find(is_here).expect("every shard has slots")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shard_has_an_outbox_of_its_own_at_home() {
        let key = HashKey::new(5, 6);
        for shards in [1, 2, 3, 64] {
            let all: Vec<_> = (0..shards).map(|n| outbox_of(key, ShardId(n), shards)).collect();
            for (n, outbox) in all.iter().enumerate() {
                assert_eq!(usize::from(home(outbox.home_hash(), shards)), n);
                assert!(all[..n].iter().all(|other| other != outbox));
            }
        }
    }
}
