//! Distribution: stored messages are put into the inboxes of their receivers, across failures.
//!
//! ```text
//! stored ─► a parcel for each shard ─► there: appended ─► placed up to n ─► leaves the outbox
//!              ▲ numbered, in order       │ lost, or refused
//!              └─── repeated, from the first that is not confirmed
//! ```
//! Parcels to a shard are sent in the order of the log, and accepted in no other; so an inbox has a
//! conversation's messages in their order. The number of parcels on their way is limited by the
//! capacity of a log's queue; the others wait here (`way.rs`). After a start the outbox, a timeline
//! of this shard, lists the messages that were not confirmed (`left.rs`). Invariant: a message is
//! in the outbox until it is in every inbox.

pub(crate) mod left;
pub(crate) mod receivers;
mod way;

use crate::label::{Relation, Route};
use crate::log::Removals;
use crate::word::{Cargo, ChatWord, Parcel};
use crate::{Chat, Effects};
use base::hash::{HashKey, home};
use base::time::{Instant, Now};
use left::Line;
use left::scans::Scans;
use model::account::Addressee;
use model::chat::{ChatFault, GroupChange, GroupVerb, Mentions};
use model::counters::ChatCounter;
use model::id::ShardId;
use model::latency::{Began, LatencyPhase};
use model::timeline::{Seq, Space, TimelineId};
use receivers::{Carriage, Readers, Receivers};
use std::collections::BTreeMap;
use std::time::Duration;
use way::Way;

/// Largest number of inboxes in a parcel. A large group gets several parcels, between which those
/// of other messages can go.
const PARCEL_INBOXES_MAX: usize = 256;

/// Position of a message in an outbox: this shard's own, or that of a shard of an earlier start.
pub(crate) type OutboxPlace = (TimelineId, Seq);

/// Messages that this shard has stored and that are not yet in every inbox.
pub(crate) struct Outbox {
    timeline: TimelineId,
    /// The timeline of messages for an external archive, if one is configured.
    archive: Option<TimelineId>,
    ways: Vec<Way>,
    /// Messages with unconfirmed parcels: how many, and since when.
    open: BTreeMap<OutboxPlace, (u32, Began)>,
    /// Messages that all shards have confirmed, to be removed from the log.
    over: Removals,
    /// Memory of the messages that are being stored and distributed, bytes.
    bytes: u64,
    /// Messages found at the start, and those that wait behind them.
    pub(crate) line: Line,
    /// Searches of this shard's inboxes for undistributed messages.
    pub(crate) scans: Scans,
}

impl Outbox {
    /// An empty outbox of this shard, in a process with this many shards.
    pub(crate) fn new(key: HashKey, shard: ShardId, shards: u16) -> Outbox {
        Outbox {
            timeline: timeline_here(Space::Outbox, key, shard, shards),
            archive: None,
            ways: (0..shards.max(1)).map(|_| Way::of(shards)).collect(),
            open: BTreeMap::new(),
            over: Removals::default(),
            bytes: 0,
            line: Line::default(),
            scans: Scans::default(),
        }
    }

    pub(crate) fn timeline(&self) -> TimelineId {
        self.timeline
    }

    /// Stores messages for an archive from now on, too.
    pub(crate) fn keep_for(&mut self, archive: TimelineId) {
        self.archive = Some(archive);
    }

    pub(crate) fn archive(&self) -> Option<TimelineId> {
        self.archive
    }

    /// Bytes of messages that are being stored and distributed and will reach their inboxes.
    /// Parcels to a log that accepts nothing are not included.
    pub(crate) fn moving_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.ways.iter().map(Way::stuck_bytes).sum())
    }

    /// The fault to refuse further messages with, if this many bytes wait already; none: they are
    /// accepted. A message that ends something may exceed the limit by a quarter.
    pub(crate) fn fault(&self, bytes_max: u64, ends: bool) -> Option<ChatFault> {
        let more = if ends { bytes_max / 4 } else { 0 };
        let moves = self.moving_bytes() > self.bytes / 2;
        let fault = if moves { ChatFault::Busy } else { ChatFault::StoreFull };
        (self.bytes >= bytes_max + more).then_some(fault)
    }

    /// Messages that are not yet in every inbox.
    pub(crate) fn len(&self) -> usize {
        self.open.len() + self.line.len()
    }

    /// Messages whose removal has not yet been requested from the log.
    pub(crate) fn unsettled(&self) -> usize {
        self.over.len()
    }

    pub(crate) fn takes(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    pub(crate) fn gives(&mut self, bytes: usize) {
        self.bytes -= bytes as u64;
    }

    /// Restores a message of an outbox at the start of the shard.
    pub(crate) fn restore(&mut self, place: OutboxPlace, id: u64, label: &[u8]) -> bool {
        let Some(route) = Route::decode(label) else { return false };
        self.line.found_at_start(place, id, route);
        true
    }

    pub(crate) fn audit(&self) {
        let parcels = self.ways.iter().flat_map(Way::unconfirmed);
        let mut counts = BTreeMap::<OutboxPlace, u32>::new();
        let mut bytes = 0;
        for (parcel, place) in parcels {
            *counts.entry(*place).or_default() += 1;
            bytes += parcel.weight() as u64;
        }
        let open = self.open.iter().map(|(place, (count, _))| (*place, *count));
        assert_eq!(counts, open.collect(), "each message has its parcels");
        assert!(bytes <= self.bytes, "all of them are counted");
    }
}

impl Chat {
    /// Distributes a stored message to its receivers, behind earlier messages.
    pub(crate) fn distribute(
        &mut self,
        now: Now,
        place: OutboxPlace,
        (route, receivers): (Route, &Receivers),
        cargo: &Cargo,
        fx: &mut Effects,
    ) {
        if self.outbox.line.is_empty() {
            return self.hand_out(now, place, (route, receivers), cargo, fx);
        }
        self.outbox.takes(cargo.weight());
        self.outbox.line.stored_since(place, (route, receivers), cargo);
    }

    /// Hands a message to the shards of its receivers.
    pub(crate) fn hand_out(
        &mut self,
        now: Now,
        place: OutboxPlace,
        (route, receivers): (Route, &Receivers),
        cargo: &Cargo,
        fx: &mut Effects,
    ) {
        match receivers {
            Receivers::Written(all) => self.hand_to_inboxes(now, place, (route, all), cargo, fx),
            Receivers::Read(readers) => {
                self.hand_to_readers(now, place, (route.conversation, readers), cargo, fx);
            }
        }
    }

    /// Hands a message of a read group to the shards: a notice for each shard with members, behind
    /// parcels for the members who follow the group from this message on.
    fn hand_to_readers(
        &mut self,
        now: Now,
        place: OutboxPlace,
        (conversation, readers): (TimelineId, &Readers),
        cargo: &Cargo,
        fx: &mut Effects,
    ) {
        let Readers { members, shards, begin, at_once } = readers;
        let mut parcels = Vec::new();
        for (to, all) in &self.settings.by_shard(begin.iter().copied()) {
            let slices = all.chunks(PARCEL_INBOXES_MAX);
            parcels.extend(slices.map(|slice| (*to, slice.into(), Carriage::Begin)));
        }
        for to in &**shards {
            let (members, at_once) = (members.clone(), *at_once);
            parcels.push((*to, [].into(), Carriage::Read { members, at_once }));
        }
        if parcels.is_empty() {
            return self.leaves(place);
        }
        self.outbox.open.insert(place, (parcels.len() as u32, Began::at(now)));
        for (to, inboxes, carriage) in parcels {
            let (relation, cargo) = (Relation::default(), cargo.clone());
            let parcel = Parcel { number: 0, inboxes, conversation, relation, cargo, carriage };
            self.put_parcel(now, (to, place), parcel, fx);
        }
    }

    /// Numbers a parcel and queues it; sends what has room.
    fn put_parcel(
        &mut self,
        now: Now,
        (to, place): (ShardId, OutboxPlace),
        parcel: Parcel,
        fx: &mut Effects,
    ) {
        let again = self.again_after();
        let way = &mut self.outbox.ways[usize::from(to.0)];
        let parcel = Parcel { number: way.next_number(), ..parcel };
        self.outbox.bytes += parcel.weight() as u64;
        way.put(now, again, (parcel, place));
        self.go_on(now, to, fx);
    }

    /// Hands a message to inboxes: in a parcel for each shard and slice of inboxes, and separate
    /// ones for the sender's own inbox, for mentioned accounts, and for members who leave by it.
    fn hand_to_inboxes(
        &mut self,
        now: Now,
        place: OutboxPlace,
        (route, inboxes): (Route, &[TimelineId]),
        cargo: &Cargo,
        fx: &mut Effects,
    ) {
        let mut ways = BTreeMap::<(ShardId, Relation), Vec<TimelineId>>::new();
        let (ends, mentioned) = (self.ends_for(cargo), self.mentioned_by(cargo));
        for &inbox in inboxes {
            let own = inbox == route.from;
            let mentioned = !own && mentioned.has(inbox);
            let relation = Relation { own, ends: ends.has(inbox), mentioned, drawn: false };
            let way = (self.settings.shard_at(inbox), relation);
            ways.entry(way).or_default().push(inbox);
        }
        if ways.is_empty() {
            return self.leaves(place);
        }
        let count: usize = ways.values().map(|all| all.len().div_ceil(PARCEL_INBOXES_MAX)).sum();
        self.outbox.open.insert(place, (count as u32, Began::at(now)));
        let slices = ways
            .iter()
            .flat_map(|(&way, all)| all.chunks(PARCEL_INBOXES_MAX).map(move |slice| (way, slice)));
        for ((to, relation), slice) in slices {
            let (number, carriage, cargo) = (0, Carriage::Write, cargo.clone());
            let (inboxes, conversation) = (slice.into(), route.conversation);
            let parcel = Parcel { number, inboxes, conversation, relation, cargo, carriage };
            self.put_parcel(now, (to, place), parcel, fx);
        }
    }

    /// Sends the queued parcels to a shard for which there is room.
    fn go_on(&mut self, now: Now, to: ShardId, fx: &mut Effects) {
        while let Some(parcel) = self.outbox.ways[usize::from(to.0)].next() {
            self.hand_over(now, to, parcel, fx);
        }
    }

    /// The accounts whose membership of a group ends by this change.
    pub(crate) fn ends_for(&self, cargo: &Cargo) -> Ends {
        let mut changes = match cargo {
            Cargo::Message(message) => GroupChange::all_of(&message.content),
            Cargo::Event(..) => return Ends::Nobodys,
        };
        changes.retain(|change| change.verb.leaves_outside());
        if changes.is_empty() {
            return Ends::Nobodys;
        }
        if changes.iter().any(|change| change.verb == GroupVerb::Dissolve) {
            return Ends::Everybodys;
        }
        let (home, all) = (self.settings.home, changes.iter().flat_map(|change| &change.members));
        Ends::Of(all.map(|it| it.address.inbox(home, it.id)).collect())
    }

    /// The accounts that a message mentions or invites, by their names, whatever account has the
    /// name.
    pub(crate) fn mentioned_by(&self, cargo: &Cargo) -> Mentioned {
        let Cargo::Message(message) = cargo else { return Mentioned::default() };
        let key = self.settings.home;
        let invited = cargo.invited();
        if !invited.is_empty() {
            let homes = invited.iter().map(|it| it.address.home_hash(key)).collect();
            return Mentioned { homes, everybody: false };
        }
        let Some(Mentions { accounts, everybody }) = message.content.mentions.as_deref() else {
            return Mentioned::default();
        };
        let home = |account: &Addressee| account.within("").home_hash(key);
        Mentioned { homes: accounts.iter().map(home).collect(), everybody: *everybody }
    }

    fn hand_over(&mut self, now: Now, to: ShardId, parcel: Parcel, fx: &mut Effects) {
        if to == self.settings.shard {
            self.place(now, to, parcel, fx);
        } else {
            fx.peer_messages.push((to, ChatWord::Place(parcel)));
        }
    }

    /// Handles a shard's confirmation that all parcels up to this number are in their inboxes.
    pub(crate) fn confirmed(&mut self, now: Now, from: ShardId, upto: u64, fx: &mut Effects) {
        let again = self.again_after();
        let Outbox { ways, open, bytes, .. } = &mut self.outbox;
        let Some(way) = ways.get_mut(usize::from(from.0)) else { return };
        let mut over = Vec::new();
        while let Some((parcel, place)) = way.confirm_first(now, again, upto) {
            *bytes -= parcel.weight() as u64;
            if let Some((left, began)) = open.get_mut(&place) {
                *left -= 1;
                if *left == 0 {
                    fx.counters.lasted(LatencyPhase::Distribute, began.until(now));
                    open.remove(&place);
                    over.push(place);
                }
            }
        }
        over.into_iter().for_each(|place| self.leaves(place));
        self.go_on(now, from, fx);
    }

    /// Handles a shard's refusal of a parcel and its successors, which are repeated after a pause.
    pub(crate) fn refused(&mut self, now: Now, from: ShardId) {
        let again = self.again_after();
        if let Some(way) = self.outbox.ways.get_mut(usize::from(from.0)) {
            way.refused(now, again);
        }
    }

    /// Removes a message that is in every inbox.
    pub(crate) fn leaves(&mut self, (outbox, seq): OutboxPlace) {
        self.outbox.over.put(outbox, &[seq]);
    }

    /// Repeats parcels that were not confirmed in time, and removes distributed messages from the
    /// log; returns when to be called again.
    pub(crate) fn turn_outbox(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        self.log.remove(&mut self.outbox.over, fx);
        let again = self.again_after();
        let mut next = self.turn_line(now, fx);
        for shard in 0..self.outbox.ways.len() {
            let way = &mut self.outbox.ways[shard];
            if let Some(count) = way.begin_again(now, again) {
                fx.counters.count_by(ChatCounter::Redistributed, count as u64);
                self.go_on(now, ShardId(shard as u16), fx);
            }
            let due = self.outbox.ways[shard].due();
            next = next.into_iter().chain(due).min();
        }
        next
    }

    pub(crate) fn again_after(&self) -> Duration {
        Duration::from_millis(self.settings.limits.chat.redistribute_ms.into())
    }
}

/// The accounts whose membership ends.
pub(crate) enum Ends {
    Nobodys,
    Of(Vec<TimelineId>),
    Everybodys,
}

impl Ends {
    pub(crate) fn has(&self, inbox: TimelineId) -> bool {
        match self {
            Ends::Nobodys => false,
            Ends::Of(those) => those.contains(&inbox),
            Ends::Everybodys => true,
        }
    }
}

/// The accounts that a message mentions, by the hashes of their homes, which no two names share.
#[derive(Default)]
pub(crate) struct Mentioned {
    homes: Vec<u64>,
    everybody: bool,
}

impl Mentioned {
    pub(crate) fn has(&self, inbox: TimelineId) -> bool {
        self.everybody || self.homes.contains(&inbox.home_hash())
    }
}

/// The outbox of a shard, or its timeline in another space: the first of a sequence of names that
/// hashes to the shard, out of this many.
pub(crate) fn timeline_here(space: Space, key: HashKey, shard: ShardId, shards: u16) -> TimelineId {
    let named = |n: u32| {
        let (number, try_) = (shard.0.to_be_bytes(), n.to_be_bytes());
        TimelineId::of(space, key, &[b"outbox", &number, &try_])
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
            let of = |n| timeline_here(Space::Outbox, key, ShardId(n), shards);
            let all: Vec<_> = (0..shards).map(of).collect();
            for (n, outbox) in all.iter().enumerate() {
                assert_eq!(usize::from(home(outbox.home_hash(), shards)), n);
                assert!(all[..n].iter().all(|other| other != outbox));
            }
        }
    }
}
