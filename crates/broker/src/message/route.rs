//! A message finds its receivers: those of this shard at once, those of others by peer message.
//!
//! Matches are numbers that lead straight to sessions. A session whose subscriptions overlap gets
//! one copy, with the highest QoS of them and all their identifiers (MQTT5 3.3.4-2, 3.3.4-4; the
//! same for MQTT 3). At QoS 0 nothing is allocated here.

use super::fan_out;
use super::filters::{Hits, Holder, holder, option, qos_of};
use super::keep::Kept;
use super::queue::{ASKED_BYTES, Entry};
use super::waits::{Origin, WAITS_MAX, Wait, receipt_of};
use crate::Broker;
use crate::Effects;
use crate::durable::entries::Label;
use crate::durable::tickets::CALLS_MAX;
use crate::peer_message::{OldPlace, PeerMessage};
use base::slab::Key;
use base::time::Now;
use model::event::Counter;
use model::id::ShardId;
use model::ports::access::Act;
use model::ports::log::APPEND_TIMELINES_MAX;
use model::session::{Denial, Drop, Outgoing, Routed, SessionDelivery};
use model::topic::{Publication, Qos, SubscriptionIds};
use std::ops::Range;
use std::sync::Arc;

/// Matches that are a unit of work.
const MATCHES: usize = 8;

/// An answer that may have to wait, while it is found out for what.
pub(crate) struct PendingAnswer {
    pub origin: Origin,
    pub wait: Option<Key>,
    /// The packet identifier that is to be marked as taken with the message.
    pub mark: Option<(Key, u16)>,
    /// Makes a repetition harmless; 0: it is none.
    pub once: u128,
    /// Other shards get it when the mark is written: all of them, for whoever
    /// subscribes until the peer message comes gets it too.
    pub defer: Option<Vec<ShardId>>,
    /// A member of another shard has it: the mark is written by itself, so that a repetition after
    /// a crash goes to shared groups again.
    pub mark_alone: bool,
    /// Why it is not taken.
    pub error: Option<Denial>,
    /// A member of a group that went away has it until another one does.
    pub offered: Option<OldPlace>,
    /// Pages that the owner of its topic had given out before it was looked at who is subscribed.
    pub pages: u64,
    /// Appends: sessions by the shape in which they get it.
    appends: Vec<(Label, Vec<Key>)>,
    /// How many sessions they are for.
    asked: u64,
    /// Those that are made when the mark is written.
    pub deferred: Vec<(Label, Vec<Key>)>,
}

impl PendingAnswer {
    pub fn of(origin: Origin) -> PendingAnswer {
        let (wait, mark, once, defer, error) = (None, None, 0, None, None);
        let (mark_alone, offered, appends, deferred) = (false, None, Vec::new(), Vec::new());
        let (pages, asked) = (u64::MAX, 0);
        PendingAnswer {
            origin,
            wait,
            mark,
            once,
            defer,
            mark_alone,
            error,
            offered,
            pages,
            appends,
            asked,
            deferred,
        }
    }
}

/// One session's share of a message.
struct Copy {
    options: u8,
    qos: Qos,
    as_published: bool,
    ids: SubscriptionIds,
    /// Others get it too.
    shared: bool,
}

impl Broker {
    /// The wait of an answer waits for one more.
    pub(crate) fn one_more(&mut self, pending_answer: &mut PendingAnswer) -> Option<Key> {
        let key = match pending_answer.wait {
            Some(key) => key,
            None => {
                let wait =
                    Wait { origin: pending_answer.origin, left: 0, matched: false, error: None };
                let Ok(key) = self.waits.insert(wait) else {
                    pending_answer.error = Some(Denial::Quota);
                    return None;
                };
                pending_answer.wait = Some(key);
                key
            }
        };
        self.waits.at_mut(key)?.left += 1;
        Some(key)
    }

    /// Whether logs and answers have room for what a message may cause.
    pub(crate) fn has_room_to_wait(&self) -> bool {
        self.waits.len() < WAITS_MAX && self.may_ask_log()
    }

    /// Routes a message to everybody; whether anybody may want it.
    pub(crate) fn route(
        &mut self,
        now: Now,
        message: &Arc<Publication>,
        pending_answer: &mut PendingAnswer,
        fx: &mut Effects,
    ) -> bool {
        let here = self.route_here(now, message, pending_answer, fx);
        let there = self.route_there(message, pending_answer, fx);
        here || there
    }

    /// The answer is given, or waits.
    pub(crate) fn close(
        &mut self,
        now: Now,
        pending_answer: PendingAnswer,
        matched: bool,
        fx: &mut Effects,
    ) -> Option<Key> {
        match pending_answer.wait {
            Some(wait) => {
                if let Some(open) = self.waits.at_mut(wait) {
                    open.matched |= matched;
                    open.error = open.error.or(pending_answer.error);
                }
                Some(wait)
            }
            None => {
                let routed = if matched { Routed::Matched } else { Routed::NoSubscriber };
                let result = pending_answer.error.map_or(Ok(routed), Err);
                self.answer(now, (None, pending_answer.origin), result, fx);
                None
            }
        }
    }

    /// The other shards.
    pub(crate) fn route_there(
        &mut self,
        message: &Arc<Publication>,
        pending_answer: &mut PendingAnswer,
        fx: &mut Effects,
    ) -> bool {
        if self.settings.shards < 2 {
            return false;
        }
        let elsewhere = self.filters.elsewhere(message.topic());
        if elsewhere.any.is_empty() {
            return false;
        }
        for shard in elsewhere.any.iter() {
            let waits = message.qos != Qos::AtMostOnce && elsewhere.durable.has(shard);
            if let Some(shards) = &mut pending_answer.defer {
                shards.push(shard);
                continue;
            }
            let receipt = match waits {
                true => self.one_more(pending_answer).map_or(0, receipt_of),
                false => 0,
            };
            let (message, from, once) = (message.clone(), self.settings.shard, pending_answer.once);
            let peer_message = PeerMessage::Publish { message, from, receipt, once };
            self.send(shard, peer_message, fx);
        }
        true
    }

    /// Whether a message of this publisher waits for its mark.
    fn defers(&self, key: Key) -> bool {
        self.deferred.range((key, 0)..=(key, u16::MAX)).next().is_some()
    }

    /// The sessions and groups of this shard.
    pub(crate) fn route_here(
        &mut self,
        now: Now,
        message: &Arc<Publication>,
        pending_answer: &mut PendingAnswer,
        fx: &mut Effects,
    ) -> bool {
        let mut found = std::mem::take(&mut self.hits);
        let rest = self.find_slice(message, (0, fan_out::AT_ONCE), &mut found);
        let matched = !found.numbers.is_empty();
        if matched && (rest.is_some() || self.fan_outs.has_like(message)) {
            self.hits = found;
            self.line_up(message, pending_answer, fx);
            return true;
        }
        self.hand_out(now, message, &found, pending_answer, fx);
        self.hits = found;
        matched
    }

    /// Finds who of this shard gets a message, from one on and about so many: see
    /// [`Filters::matches`](super::filters::Filters::matches).
    pub(crate) fn find_slice(
        &mut self,
        message: &Publication,
        slice: (u64, usize),
        found: &mut Hits,
    ) -> Option<u64> {
        found.clear();
        let rest = self.filters.matches(message.topic(), &self.sessions, slice, found);
        self.units.spend(1 + found.numbers.len() / MATCHES);
        rest
    }

    /// Those that were found get the message.
    pub(crate) fn hand_out(
        &mut self,
        now: Now,
        message: &Arc<Publication>,
        found: &Hits,
        pending_answer: &mut PendingAnswer,
        fx: &mut Effects,
    ) {
        let hits = &found.numbers;
        let mut at = 0;
        while let Some(&hit) = hits.get(at) {
            self.units.spend(1);
            match holder(hit) {
                Holder::Group(group) => {
                    at += 1;
                    self.share_out(now, group, (message, None), pending_answer, fx);
                }
                Holder::Session(slot, options) => {
                    let same = hits[at..].iter().take_while(
                        |&&other| matches!(holder(other), Holder::Session(of, _) if of == slot),
                    );
                    let count = same.count();
                    let shared = hits.len() > count;
                    let copy = self.copy(slot, (message, options), (found, at..at + count));
                    if let Some(copy) = copy {
                        let copy = Copy { shared, ..copy };
                        self.hand(now, slot, (message, copy), pending_answer, fx);
                    }
                    at += count;
                }
            }
        }
        self.write_appends(message, pending_answer, fx);
    }

    /// What one session gets, of all its subscriptions that match; `None`: nothing.
    fn copy(
        &self,
        slot: u32,
        (message, first): (&Publication, u8),
        (found, range): (&Hits, Range<usize>),
    ) -> Option<Copy> {
        let hits = &found.numbers[range];
        let mut copy = Copy {
            options: first,
            qos: Qos::AtMostOnce,
            as_published: false,
            ids: None,
            shared: false,
        };
        if hits.len() == 1 && first & (option::NO_LOCAL | option::HAS_ID | option::PARTLY) == 0 {
            copy.qos = qos_of(first).min(message.qos);
            copy.as_published = first & option::AS_PUBLISHED != 0;
            return Some(copy);
        }
        let (_, session) = self.sessions.tenant(slot)?;
        let mut any = false;
        for &hit in hits {
            let Holder::Session(_, options) = holder(hit) else { continue };
            if options & option::NO_LOCAL != 0
                && message.publisher == self.publisher_of(&session.id)
            {
                continue;
            }
            any = true;
            copy.qos = copy.qos.max(qos_of(options).min(message.qos));
            copy.as_published |= options & option::AS_PUBLISHED != 0;
            copy.options |= options;
        }
        if !any {
            return None;
        }
        if copy.options & option::PARTLY != 0 {
            let principal = self.principals.at(session.principal);
            if !principal.may(&session.id, Act::Read, message.topic()) {
                return None;
            }
        }
        if copy.options & option::HAS_ID != 0 {
            let named = found.named_by(slot).iter();
            let mut ids: Vec<u32> =
                named.filter_map(|&(_, filter)| session.subscription_id(filter)).collect();
            ids.sort_unstable();
            ids.dedup();
            copy.ids = (!ids.is_empty()).then(|| ids.into());
        }
        Some(copy)
    }

    /// The message goes to one session: at once, into its queue, or into the log.
    fn hand(
        &mut self,
        now: Now,
        slot: u32,
        (message, copy): (&Arc<Publication>, Copy),
        pending_answer: &mut PendingAnswer,
        fx: &mut Effects,
    ) {
        let Some((key, session)) = self.sessions.tenant(slot) else { return };
        if session.is_reaching() && !self.may_read_now(session, message.topic()) {
            return;
        }
        let lasts = session.is_durable() && copy.qos != Qos::AtMostOnce;
        if message.retain && self.newcomers.live(key, message) && !lasts {
            // It came as a retained message before. What is promised to outlive the process is
            // written all the same.
            return;
        }
        let retain = copy.as_published && message.retain;
        if copy.qos == Qos::AtMostOnce {
            if let Some(conn) = session.online() {
                fx.counters.count(Counter::Delivered);
                let outgoing = Outgoing {
                    message: message.clone(),
                    id: 0,
                    qos: Qos::AtMostOnce,
                    again: false,
                    retain,
                    shared: copy.shared,
                    subscription_ids: copy.ids,
                };
                fx.deliveries.push((conn, SessionDelivery::Publish(outgoing)));
            } else {
                self.hand_away(now, key, message, (retain, copy.ids), fx);
            }
            return;
        }
        let entry = Entry::of(message, (copy.qos, retain), copy.ids);
        self.hand_entry(now, key, entry, pending_answer, fx);
    }

    /// A message of QoS 1 or 2 for one session.
    pub(crate) fn hand_entry(
        &mut self,
        now: Now,
        key: Key,
        entry: Entry,
        pending_answer: &mut PendingAnswer,
        fx: &mut Effects,
    ) {
        let Some(session) = self.sessions.at(key) else { return };
        let durable = session.is_durable();
        let straight = !durable && session.online().is_some();
        let in_window = session.queue().is_none_or(|queue| queue.waiting() == 0);
        let goes = straight && in_window;
        if !goes
            && !self.make_room(now, key, (entry.cost(), pending_answer.asked * ASKED_BYTES), fx)
        {
            return self.share_over(key, &entry, fx);
        }
        if !durable {
            return self.enqueue(now, key, entry, fx);
        }
        let label = Label {
            qos: entry.qos,
            retain: entry.retain(),
            bytes: entry.bytes,
            expire_at: entry.expire_at,
            origin: (0, 0),
            share: entry.share,
            ids: entry.ids(),
            old_place: pending_answer.offered.clone().filter(OldPlace::fits),
        };
        pending_answer.asked += 1;
        let same = |(other, to): &&mut (Label, Vec<Key>)| {
            *other == label && to.len() + 1 < APPEND_TIMELINES_MAX
        };
        match pending_answer.appends.iter_mut().find(same) {
            Some((_, to)) => to.push(key),
            None => pending_answer.appends.push((label, vec![key])),
        }
    }

    /// Hands what durable sessions get to the log.
    pub(crate) fn write_appends(
        &mut self,
        message: &Arc<Publication>,
        pending_answer: &mut PendingAnswer,
        fx: &mut Effects,
    ) {
        if pending_answer.appends.is_empty() {
            return;
        }
        if let Some((key, _)) = pending_answer.mark
            && (self.defers(key)
                || pending_answer.mark_alone
                || pending_answer.appends.len() > 1
                || pending_answer.appends.iter().any(|(_, to)| to.contains(&key)))
        {
            // Mark and message are one append or the mark comes first, and the message so that a
            // repetition is harmless. What comes behind such a message stays behind it.
            pending_answer.deferred = std::mem::take(&mut pending_answer.appends);
            return;
        }
        for (mut label, to) in std::mem::take(&mut pending_answer.appends) {
            let mark = pending_answer.mark.take();
            label.origin = self.label_origin(mark);
            let wait = self.one_more(pending_answer);
            let once = pending_answer.once;
            let message = message.clone();
            self.keep(Kept { message, label, to, mark, wait }, once, fx);
        }
    }

    /// A message of QoS 0 for a session that is away.
    fn hand_away(
        &mut self,
        now: Now,
        key: Key,
        message: &Arc<Publication>,
        (retain, ids): (bool, SubscriptionIds),
        fx: &mut Effects,
    ) {
        if !self.settings.limits.topics.queue_qos0 {
            return self.dropped(now, key, (Drop::Offline, 1), fx);
        }
        let entry = Entry::of(message, (Qos::AtMostOnce, retain), ids);
        if self.make_room(now, key, (entry.cost(), 0), fx) {
            self.enqueue(now, key, entry, fx);
        }
    }

    /// Sends a peer message, or keeps it until those before it have gone.
    pub(crate) fn send(&mut self, to: ShardId, peer_message: PeerMessage, fx: &mut Effects) {
        debug_assert!(to != self.settings.shard, "nobody writes to himself");
        self.post(to, peer_message, fx);
    }

    /// What stands for a client in what it publishes.
    pub(crate) fn publisher_of(&self, client_id: &str) -> u64 {
        self.settings.home.of(&[b"mqtt", client_id.as_bytes()])
    }
}

const _: () = assert!(CALLS_MAX <= WAITS_MAX);
