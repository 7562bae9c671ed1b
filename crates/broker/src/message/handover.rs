//! Handover of queued messages from a durable member of a shared group that goes offline.
//!
//! The messages that the member was not sent, and at QoS 1 those that it has not answered, are
//! offered to the owner of the group, page by page in the order of the log. The owner accepts a
//! message if another member is online; it leaves the old member's timeline when the new one has
//! it. A refused message returns to its place. A kill in between leaves it in both timelines: the
//! new place names the old one, and the start removes that. A client identifier that is too long
//! cannot be named there: then a message that may not come twice stays, and at QoS 1 the kill
//! duplicates it. A member that returns keeps messages that were not offered yet. Invariant: an
//! entry is queued or offered, never both.

use super::answers::{Origin, PendingAnswer};
use super::queue::Entry;
use crate::Broker;
use crate::Effects;
use crate::durable::calls::PendingCall;
use crate::durable::entries::{Label, OLD_CLIENT_BYTES_MAX, Said};
use crate::peer_message::{GroupWhat, GroupWord, OldPlace, PeerMessage};
use crate::retained::decode;
use crate::session::record::EntryRef;
use base::slab::Key;
use base::time::{Instant, Now};
use model::counters::ProcessCounter;
use model::id::ShardId;
use model::ports::log::{Call, Done, Pull, Read, StoreError};
use model::pressure::Pressure;
use model::session::Denial;
use model::timeline::{Placed, Seq, TimelineId};
use model::topic::{Publication, Qos};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Entries that a session offers at once.
const PAGE_COUNT: usize = 128;

/// Bytes of their bodies, but always one.
const PAGE_BYTES: usize = 256 * 1024;

/// Sessions that begin a page in one turn.
const PAGES_A_TURN: usize = 64;

/// Entries that are looked at for a unit of work.
const LOOKS: usize = 64;

/// How long to wait for room.
const PAUSE: Duration = Duration::from_secs(1);

/// How long after a member went something may come that was on its way to it, seconds.
const LATE_S: u32 = 2;

/// The owner's answer when no other member is online.
pub(crate) const NOBODY: Denial = Denial::Unavailable;

/// A session that gives back what it has of its groups.
#[derive(Default)]
struct Handover {
    /// Offers that are not answered.
    left: u32,
    /// The page that is being read.
    pulling: Option<u64>,
    /// Whether a recipient had no room.
    busy: bool,
    /// Groups in which no member can take messages.
    shut: BTreeSet<u32>,
    /// Place up to which messages are no longer offered.
    from: Seq,
    /// The log was read to its end.
    is_read: bool,
}

/// All handovers of a shard.
#[derive(Default)]
pub(crate) struct Handovers {
    open: BTreeMap<Key, Handover>,
    /// Sessions that continue to hand over, with the time to do so.
    ready: Vec<(Instant, Key)>,
    /// The number of the last page that was asked for.
    last_page: u64,
}

impl Handovers {
    /// Whether a page of messages to offer is being read for a session.
    pub fn is_pulling(&self, key: Key) -> bool {
        self.open.get(&key).is_some_and(|handover| handover.pulling.is_some())
    }
}

/// A message that a member of a group went away with, for another member.
pub(crate) struct WorkOffer {
    pub group: Arc<str>,
    pub member: TimelineId,
    pub message: Arc<Publication>,
    /// Shard that is answered whether another member has the message, and under which number.
    pub from: ShardId,
    pub receipt: u64,
    /// Place of the message until then.
    pub place: OldPlace,
}

impl Broker {
    /// A durable member goes away.
    pub(crate) fn give_work(&mut self, now: Now, key: Key, fx: &mut Effects) {
        let Some(session) = self.sessions.at(key).filter(|session| session.is_durable()) else {
            return;
        };
        if self.admissions.are_closed()
            || session.more.as_ref().is_none_or(|more| more.shares.is_empty())
        {
            return;
        }
        self.handovers.open.entry(key).or_default().is_read = false;
        self.give_on(now, key, fx);
    }

    /// Offers messages that came for a member within [`LATE_S`] of its going, because they were on
    /// their way then.
    pub(crate) fn give_late(&mut self, now: Now, key: Key, fx: &mut Effects) {
        let session = self.sessions.at(key);
        if session.is_some_and(|session| now.unix_s() <= session.since_s().saturating_add(LATE_S)) {
            self.give_work(now, key, fx);
        }
    }

    /// The member is back, or gone for good: it gives nothing more.
    pub(crate) fn keep_work(&mut self, key: Key) {
        self.handovers.open.remove(&key);
    }

    /// Offers one entry of the log, if it may be.
    fn offer(&mut self, now: Now, key: Key, placed: &Placed, fx: &mut Effects) {
        let seq = placed.seq;
        let Some(Said::Message(label)) = Said::decode(&placed.message.label) else { return };
        let Some(more) = self.sessions.more_mut(key) else { return };
        let was_sent = more.queue.was_sent(seq, label.qos);
        let offered = self.offered_group(key, was_sent, &label);
        let Some((filter, member, client)) = offered else { return };
        let Some(message) = decode(&placed.message.body).map(Arc::new) else { return };
        let totals = &mut self.totals;
        let Some(more) = self.sessions.more_mut(key) else { return };
        let mut stub = Entry::stub(&label, seq, placed.message.weight() as u32);
        if was_sent {
            stub.set_again();
        }
        let Some(entry) = more.queue.lend(stub, totals) else { return };
        let receipt = match self.await_move(key, entry) {
            Ok(receipt) => receipt,
            Err(entry) => {
                self.offer_later(key, seq);
                return self.put_back(now, key, *entry, fx);
            }
        };
        if let Some(handover) = self.handovers.open.get_mut(&key) {
            handover.left += 1;
        }
        let place = OldPlace { client, seq };
        let what = GroupWhat::Offer { message, from: self.settings.shard, receipt, place };
        self.tell_group(now, &filter, member, what, fx);
    }

    /// The group through which an entry came, and its member, if the entry may be offered; an
    /// exchange of QoS 2 that has begun may not.
    fn offered_group(
        &self,
        key: Key,
        was_sent: bool,
        label: &Label,
    ) -> Option<(Box<str>, TimelineId, Arc<str>)> {
        let handover = self.handovers.open.get(&key)?;
        let session = self.sessions.at(key)?;
        let more = session.more.as_ref()?;
        let share = more.shares.numbered(label.share)?;
        let may = match label.qos {
            Qos::ExactlyOnce => !was_sent && session.id().len() <= OLD_CLIENT_BYTES_MAX,
            Qos::AtMostOnce | Qos::AtLeastOnce => true,
        };
        let is_open = may && !handover.shut.contains(&label.share);
        let member = more.shares.member().filter(|_| is_open)?;
        Some((share.filter.clone(), member, Arc::from(session.id())))
    }

    /// An offer was answered.
    pub(crate) fn offer_answered(
        &mut self,
        now: Now,
        key: Key,
        entry: Entry,
        why: Option<Denial>,
        fx: &mut Effects,
    ) {
        let (share, seq) = (entry.share, entry.seq);
        match why {
            None => self.over(key, &entry),
            Some(_) => self.put_back(now, key, entry, fx),
        }
        let Some(handover) = self.handovers.open.get_mut(&key) else { return };
        handover.left = handover.left.saturating_sub(1);
        match why {
            None => {}
            Some(NOBODY) => _ = handover.shut.insert(share),
            Some(_) => self.offer_later(key, seq),
        }
        self.give_on(now, key, fx);
    }

    /// Puts an entry off for lack of room: all from there on are looked at again.
    fn offer_later(&mut self, key: Key, seq: Seq) {
        if let Some(handover) = self.handovers.open.get_mut(&key) {
            (handover.busy, handover.is_read) = (true, false);
            handover.from = handover.from.min(seq - 1);
        }
    }

    /// Reads the next page, if there is one, once all offers are answered.
    fn give_on(&mut self, now: Now, key: Key, fx: &mut Effects) {
        let Some(handover) = self.handovers.open.get_mut(&key) else { return };
        if handover.left > 0 || handover.pulling.is_some() {
            return;
        }
        let at = if handover.busy { now.after(PAUSE) } else { now.mono };
        handover.busy = false;
        let refused = !handover.shut.is_empty();
        if !handover.is_read {
            if !self.handovers.ready.iter().any(|&(_, other)| other == key) {
                self.handovers.ready.push((at, key));
            }
            return;
        }
        self.handovers.open.remove(&key);
        if refused {
            // Entries that were sent before and are back in the queue are known to have been sent.
            self.put_session_row(key, None, fx);
        }
    }

    /// Reads the next pages of those whose offers are all answered.
    pub(crate) fn turn_handovers(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        if self.handovers.ready.is_empty() {
            return None;
        }
        let mut begun = 0;
        for (at, key) in std::mem::take(&mut self.handovers.ready) {
            if at > now.mono || begun == PAGES_A_TURN || !self.has_room_to_wait() {
                self.handovers.ready.push((at, key));
                continue;
            }
            let Some(session) = self.sessions.at(key) else { continue };
            let Some(handover) = self.handovers.open.get_mut(&key) else { continue };
            let pull = Pull {
                timeline: session.timeline(self.settings.home),
                from: handover.from,
                backwards: false,
                count_max: PAGE_COUNT,
                bytes_max: PAGE_BYTES,
            };
            self.handovers.last_page += 1;
            let page = self.handovers.last_page;
            handover.pulling = Some(page);
            begun += 1;
            self.log.ask(PendingCall::Given(key, page), Call::Read(Read::Pull(pull)), fx);
        }
        self.handovers.ready.iter().map(|(at, _)| *at).min()
    }

    /// A page of what is to be offered came, or did not. One that was asked for before the member
    /// was back in between may have what is over by now.
    pub(crate) fn given_came(
        &mut self,
        now: Now,
        (key, page): (Key, u64),
        result: Result<Done, StoreError>,
        fx: &mut Effects,
    ) {
        let handover = self.handovers.open.get_mut(&key);
        let Some(handover) = handover.filter(|handover| handover.pulling == Some(page)) else {
            return;
        };
        handover.pulling = None;
        let Ok(Done::Page(page)) = result else {
            fx.counters.count(ProcessCounter::PullsFailed);
            handover.busy = true;
            return self.give_on(now, key, fx);
        };
        let last = page.messages.last().map_or(0, |placed| placed.seq);
        let last = page.damaged.last().copied().unwrap_or(0).max(last);
        let more = self.sessions.more(key);
        let known = more.map_or(0, |more| more.queue.told());
        // What the log has and has not told yet is given when it comes.
        handover.is_read = !page.more || last > known;
        handover.from = handover.from.max(last.min(known));
        self.units.spend(1 + page.messages.len() / LOOKS);
        for placed in &page.messages {
            self.offer(now, key, placed, fx);
        }
        self.give_on(now, key, fx);
    }

    /// Returns an entry that no member accepted to its place.
    pub(crate) fn put_back(&mut self, now: Now, key: Key, mut entry: Entry, fx: &mut Effects) {
        let totals = &mut self.totals;
        let Some(session) = self.sessions.at_mut(key) else { return };
        let online = session.online().is_some();
        entry.message = None;
        session.more().queue.put_back(entry, totals);
        if online {
            self.pump(now, key, fx);
        }
    }

    /// The owner of a group is offered the work of a member that went away.
    pub(crate) fn offered(&mut self, now: Now, offer: WorkOffer, fx: &mut Effects) {
        let WorkOffer { group, member, message, from, receipt, place } = offer;
        let origin = Origin::Shard(from, receipt);
        let Some(number) = self.groups.with_another(&group, member, message.topic()) else {
            return self.refuse(now, origin, NOBODY, fx);
        };
        if !self.has_room_to_wait() {
            return self.refuse(now, origin, Denial::Busy, fx);
        }
        let mut pending_answer = PendingAnswer::of(origin);
        (pending_answer.offered, pending_answer.except) = (Some(place), Some(member));
        self.share_out(now, number, &message, &mut pending_answer, fx);
        self.write_appends(&message, &mut pending_answer, fx);
        self.close(now, pending_answer, true, fx);
    }

    /// A picked member has gone meanwhile: the owner is asked again.
    pub(crate) fn offer_again(&mut self, now: Now, offer: WorkOffer, fx: &mut Effects) {
        let WorkOffer { group, member, message, from, receipt, place } = offer;
        let what = GroupWhat::Offer { message, from, receipt, place };
        let word = GroupWord { group, member, what };
        self.tell(now, from, PeerMessage::Group(Box::new(word)), fx);
    }

    /// Whether a session's queue is so empty that it does not have to drop what others drop in.
    pub(crate) fn has_room_for_work(&self, key: Key, weight: u32) -> bool {
        let limits = &self.settings.limits.topics;
        let Some(more) = self.sessions.more(key) else {
            return false;
        };
        let count = more.queue.waiting() + more.asked() as usize;
        let bytes = more.queue.bytes() + u64::from(weight);
        count < limits.queue_count_max as usize / 2
            && (bytes <= u64::from(limits.queue_bytes_max) / 2 || count == 0)
            && self.totals.has_room(0)
            && self.pressure < Pressure::Stores
    }

    /// After a start: removes a message from the place where it stood before, as it stands
    /// somewhere else by now.
    pub(crate) fn leave_old_place(&mut self, now: Now, place: OldPlace, fx: &mut Effects) {
        let shard = self.settings.owner_of_session(&place.client);
        if shard != self.settings.shard {
            return self.tell(now, shard, PeerMessage::Elsewhere(place), fx);
        }
        let Some(key) = self.sessions.find(&place.client) else { return };
        let totals = &mut self.totals;
        let Some(more) = self.sessions.more_mut(key) else { return };
        if more.queue.lose(place.seq, totals).is_some() {
            self.log.remove(key, place.seq);
        } else if more.queue.doubt(place.seq) {
            self.ask_doubt(EntryRef { session: key, seq: place.seq }, fx);
        }
        self.sessions.rest(key);
    }
}
