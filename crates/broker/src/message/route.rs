//! A message finds its receivers: those of this shard at once, those of others by peer message.
//!
//! Matches are numbers that lead straight to sessions. A session whose subscriptions overlap gets
//! one copy, with the highest QoS of them and all their identifiers (MQTT5 3.3.4-2, 3.3.4-4; the
//! same for MQTT 3). At QoS 0 nothing is allocated here.

pub(crate) mod hits;
pub(crate) mod holder;
pub(crate) mod routing;

use self::hits::Hits;
use self::holder::{Holder, holder, option, qos_of};
use super::answers::{Origin, PendingAnswer, SameShape, WAITS_MAX, receipt_of};
use super::fan_out::{AT_ONCE, FanOut};
use super::keep::Kept;
use super::queue::{ASKED_BYTES, Entry};
use crate::Broker;
use crate::Effects;
use crate::durable::calls::CALLS_MAX;
use crate::durable::entries::Label;
use crate::peer_message::{OldPlace, PeerMessage};
use crate::session::record::Exchange;
use base::slab::Key;
use base::time::{Instant, Now};
use model::counters::TopicCounter;
use model::ports::access::Act;
use model::session::{Denial, Drop, Outgoing, SessionDelivery};
use model::topic::{Publication, Qos, SubscriptionIds};
use std::ops::Range;
use std::sync::Arc;

/// Matches that are a unit of work.
const MATCHES: usize = 8;

/// A session's copy of a message.
struct Copy {
    options: u8,
    qos: Qos,
    as_published: bool,
    ids: SubscriptionIds,
    /// Whether other sessions get it too.
    shared: bool,
}

/// A message with one session's share of it.
struct Handed<'m> {
    message: &'m Arc<Publication>,
    copy: Copy,
}

impl Broker {
    /// Routes a message to all its receivers; returns whether there may be any.
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

    /// Routes a message to the other shards.
    pub(crate) fn route_there(
        &mut self,
        message: &Arc<Publication>,
        pending_answer: &mut PendingAnswer,
        fx: &mut Effects,
    ) -> bool {
        if self.settings.shards < 2 {
            return false;
        }
        let elsewhere = self.subscriptions.elsewhere(message.topic());
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
                true => self.answers.one_more(pending_answer).map_or(0, receipt_of),
                false => 0,
            };
            let (message, from, once) = (message.clone(), self.settings.shard, pending_answer.once);
            let peer_message = PeerMessage::Publish { message, from, receipt, once };
            fx.peer_messages.push((shard, peer_message));
        }
        true
    }

    /// The sessions and groups of this shard.
    pub(crate) fn route_here(
        &mut self,
        now: Now,
        message: &Arc<Publication>,
        pending_answer: &mut PendingAnswer,
        fx: &mut Effects,
    ) -> bool {
        let mut found = self.routing.take_hits();
        let at_once = self.subscriptions.find_all(message.topic(), &self.sessions, &mut found);
        self.units.spend(1 + found.looks() / MATCHES);
        let matched = !found.numbers.is_empty() || !at_once;
        if matched && (!at_once || self.fan_outs.has_like(message)) {
            self.routing.put_hits(found);
            self.line_up(message, pending_answer, fx);
            return true;
        }
        self.hand_out(now, message, &found, pending_answer, fx);
        self.routing.put_hits(found);
        matched
    }

    /// Delivers a message to the subscriptions that were found.
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
                    self.share_out(now, group, message, pending_answer, fx);
                }
                Holder::Session(slot, options) => {
                    let same = hits[at..].iter().take_while(
                        |&&other| matches!(holder(other), Holder::Session(of, _) if of == slot),
                    );
                    let count = same.count();
                    let shared = hits.len() > count;
                    let copy = self.copy(slot, message, options, found, at..at + count);
                    if let Some(copy) = copy {
                        let copy = Copy { shared, ..copy };
                        self.hand(now, slot, Handed { message, copy }, pending_answer, fx);
                    }
                    at += count;
                }
            }
        }
        self.write_appends(message, pending_answer, fx);
    }

    /// The copy for one session, of all its subscriptions that match; `None`: it gets none.
    fn copy(
        &self,
        slot: u32,
        message: &Publication,
        first: u8,
        found: &Hits,
        range: Range<usize>,
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
                && message.publisher == self.routing.publisher_of(session.id())
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
        if copy.options & option::PARTLY != 0
            && !self.sessions.may(session, Act::Read, message.topic())
        {
            return None;
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
        Handed { message, copy }: Handed<'_>,
        pending_answer: &mut PendingAnswer,
        fx: &mut Effects,
    ) {
        let Some((key, session)) = self.sessions.tenant(slot) else { return };
        if session.is_reaching() && !self.sessions.may(session, Act::Read, message.topic()) {
            return;
        }
        let lasts = session.is_durable() && copy.qos != Qos::AtMostOnce;
        if message.retain && self.replays.newcomers().live(key, message) && !lasts {
            // The session got the message as a retained one before. A copy that is promised to
            // outlive the process is written all the same.
            return;
        }
        let retain = copy.as_published && message.retain;
        if copy.qos == Qos::AtMostOnce {
            if let Some(conn) = session.online() {
                fx.counters.count(TopicCounter::Delivered);
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
                self.hand_away(now, key, Handed { message, copy }, fx);
            }
            return;
        }
        let entry = Entry::of(message, copy.qos, retain, copy.ids);
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
        let label = durable.then(|| Label {
            qos: entry.qos,
            retain: entry.retain(),
            expire_at: entry.expire_at,
            origin: 0,
            share: entry.share,
            ids: entry.ids(),
            old_place: pending_answer.offered.clone().filter(OldPlace::fits),
        });
        let kept = label.as_ref().zip(entry.message.as_ref());
        let cost = kept.map_or(entry.cost(), |(label, message)| label.weight(message).into());
        if !goes && !self.make_room(now, key, cost, pending_answer.asked * ASKED_BYTES, fx) {
            return self.share_over(key, &entry, fx);
        }
        match label {
            Some(label) => pending_answer.append(label, key),
            None => self.enqueue(now, key, entry, fx),
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
        if let Some(Exchange { session: key, .. }) = pending_answer.mark
            && (self.answers.defers(key)
                || pending_answer.mark_alone
                || pending_answer.appends.len() > 1
                || pending_answer.appends.iter().any(|same| same.to.contains(&key)))
        {
            // Mark and message are one append or the mark comes first, and the message so that a
            // repetition is harmless. What comes behind such a message stays behind it.
            pending_answer.deferred = std::mem::take(&mut pending_answer.appends);
            return;
        }
        for SameShape { mut label, to } in std::mem::take(&mut pending_answer.appends) {
            let mark = pending_answer.mark.take();
            label.origin = mark.map_or(0, |mark| mark.id);
            let wait = self.answers.one_more(pending_answer);
            let once = pending_answer.once;
            let message = message.clone();
            self.keep(Kept { message, label, to, mark, wait }, once, fx);
        }
    }

    /// A message of QoS 0 for a session that is away.
    fn hand_away(&mut self, now: Now, key: Key, handed: Handed<'_>, fx: &mut Effects) {
        let Handed { message, copy } = handed;
        if !self.settings.limits.topics.queue_qos0 {
            return self.sessions.dropped(now, key, Drop::Offline, 1, fx);
        }
        let retain = copy.as_published && message.retain;
        let entry = Entry::of(message, Qos::AtMostOnce, retain, copy.ids);
        if self.make_room(now, key, entry.cost(), 0, fx) {
            self.enqueue(now, key, entry, fx);
        }
    }

    /// A message goes to more than may be served at once, or must not overtake one that does.
    pub(crate) fn line_up(
        &mut self,
        message: &Arc<Publication>,
        pending_answer: &mut PendingAnswer,
        fx: &mut Effects,
    ) {
        let (once, mark) = (pending_answer.once, pending_answer.mark);
        let mut fan_out = FanOut::of(message.clone(), once, mark);
        if !self.fan_outs.have_room(&fan_out) {
            pending_answer.error = Some(Denial::Busy);
            return fx.counters.dropped(Drop::Busy, 1);
        }
        if message.qos != Qos::AtMostOnce {
            fan_out.wait = self.answers.one_more(pending_answer);
            if fan_out.wait.is_none() {
                return;
            }
        }
        self.fan_outs.push(fan_out);
    }

    /// Serves a slice of those who get what stands in line.
    pub(crate) fn turn_fan_outs(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let mut left = AT_ONCE;
        while left > 0 && self.log.is_easy() {
            // The messages that wait for the log continue with its answer.
            let (mut fan_out, mut result) = self.fan_outs.take_first()?;
            let mut is_last = true;
            if result.is_ok() {
                let mut found = self.routing.take_hits();
                let mut pending_answer = PendingAnswer::of(Origin::Server);
                (pending_answer.wait, pending_answer.once) = (fan_out.wait, fan_out.once);
                let message = fan_out.message.clone();
                let slice = (&mut fan_out.merge, left);
                is_last = self.subscriptions.find_more(
                    message.topic(),
                    &self.sessions,
                    slice,
                    &mut found,
                );
                let looks = found.looks();
                self.units.spend(1 + looks / MATCHES);
                self.hand_out(now, &message, &found, &mut pending_answer, fx);
                left = left.saturating_sub(looks.max(1));
                self.routing.put_hits(found);
                result = pending_answer.error.map_or(Ok(()), Err);
            }
            match (is_last, fan_out.wait) {
                (false, wait) => {
                    if let Some(wait) = wait {
                        self.answers.note(wait, false, result.err());
                    }
                    self.fan_outs.put_back(fan_out);
                }
                (true, Some(wait)) => self.arrived(now, wait, result, fx),
                (true, None) => {}
            }
        }
        let goes_on = self.log.is_easy() && self.fan_outs.len() > 0;
        goes_on.then_some(now.mono)
    }
}

const _: () = assert!(CALLS_MAX <= WAITS_MAX);
