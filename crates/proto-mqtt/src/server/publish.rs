//! A message from the client: what it is about, whether it may come now, and on to the broker
//! (MQTT5 3.3, 4.9; MQTT3 3.3).
//!
//! The count of unanswered messages is what the client's own send quota leaves: in 5.0, taken to
//! the letter, until the last packet of the exchange; otherwise until the broker has the message,
//! because who waits for the client must not stop reading from it.

use super::Out;
use super::pace::Pace;
use super::state::{Bound, Marks};
use crate::codec::fanout::passed_on;
use crate::codec::publish::Publish;
use crate::codec::{PacketFault, Qos, Version};
use base::time::{Instant, Now};
use model::counters::TopicCounter;
use model::limits::TopicLimits;
use model::session::SessionRequest;
use model::topic::Publication;
use std::sync::Arc;

/// A client that was held for its unanswered messages is read again when no more than these are
/// left.
const RESUME_AT: u16 = 32;

impl Bound {
    /// Takes a message; false when it has to wait, and nothing is read from the client until then.
    pub(super) fn publish(
        &mut self,
        now: Now,
        publish: &Publish<'_>,
        bytes: usize,
        limits: &TopicLimits,
        out: &mut Out,
    ) -> Result<bool, PacketFault> {
        if publish.qos != Qos::AtMostOnce && self.unanswered >= limits.receive_max {
            self.over_quota(out)?;
            return Ok(false);
        }
        if Pace::is_set(limits)
            && let Err(at) = self.more().pace.take(now, bytes, limits)
        {
            self.hold_until(at, out);
            return Ok(false);
        }
        if !self.marks.has(Marks::LENIENT) && !publish.payload_is_as_said() {
            return Err(PacketFault::PayloadFormat);
        }
        let message = match publish.topic_alias() {
            None => publication(now, publish.topic, publish),
            Some(alias) => self.aliased(now, alias, publish, limits)?,
        };
        if publish.qos != Qos::AtMostOnce {
            self.unanswered = self.unanswered.saturating_add(1);
        }
        let (session, id, again) = (self.session, publish.id, publish.dup);
        let message = Arc::new(message);
        out.say(SessionRequest::Publish { session, id, again, message });
        Ok(true)
    }

    /// Takes a packet of so many filters; false as for a message.
    pub(super) fn paces_filters(
        &mut self,
        now: Now,
        count: usize,
        limits: &TopicLimits,
        out: &mut Out,
    ) -> bool {
        if limits.subscribes_per_s == 0 {
            return true;
        }
        let pace = &mut self.more().pace;
        match pace.take_filters(now, count, limits) {
            Ok(begins) => {
                let paid_at = pace.paid(now).filter(|_| begins);
                paid_at.into_iter().for_each(|at| out.wake(at));
                true
            }
            Err(at) => {
                self.hold_until(at, out);
                false
            }
        }
    }

    fn hold_until(&mut self, at: Instant, out: &mut Out) {
        self.more().pace.resume_at = Some(at);
        self.hold(out);
        out.wake(at);
    }

    /// A message that brings an alias, or has one for its topic (MQTT5 3.3.2-7 to 3.3.2-12).
    fn aliased(
        &mut self,
        now: Now,
        alias: u16,
        publish: &Publish<'_>,
        limits: &TopicLimits,
    ) -> Result<Publication, PacketFault> {
        if alias > limits.topic_alias_max {
            return Err(PacketFault::AliasInvalid);
        }
        if publish.topic.is_empty() {
            let aliases = self.more.as_ref().map(|more| &more.aliases_in);
            let topic = aliases.ok_or(PacketFault::AliasUnknown)?.topic(alias)?;
            return Ok(publication(now, topic, publish));
        }
        self.more().aliases_in.set(alias, publish.topic);
        Ok(publication(now, publish.topic, publish))
    }

    /// Handles more unanswered messages than agreed: ends the connection, or pauses reading.
    fn over_quota(&mut self, out: &mut Out) -> Result<(), PacketFault> {
        if !self.is_counted_to_the_end() {
            if self.version() == Version::V5 {
                out.count(TopicCounter::TolerateOrder);
            }
            self.hold(out);
            return Ok(());
        }
        Err(PacketFault::ReceiveMaximum)
    }

    /// Whether a message counts until the last packet of its exchange (MQTT5 4.9).
    pub(super) fn is_counted_to_the_end(&self) -> bool {
        self.version() == Version::V5 && !self.marks.has(Marks::LENIENT)
    }

    /// One message less is unanswered.
    pub(super) fn answered(&mut self, out: &mut Out) {
        self.unanswered = self.unanswered.saturating_sub(1);
        let is_paced = self.more.as_ref().is_some_and(|more| more.pace.resume_at.is_some());
        if self.marks.has(Marks::HELD) && !is_paced && self.unanswered <= RESUME_AT {
            self.resume(out);
        }
    }

    fn hold(&mut self, out: &mut Out) {
        self.marks.set(Marks::HELD, true);
        out.hold(true);
        out.count(TopicCounter::ReadsHeld);
    }

    /// A time has come for which the pace asked.
    pub(super) fn woken(&mut self, now: Now, out: &mut Out) {
        let Some(more) = &mut self.more else { return };
        more.pace.paid(now).into_iter().for_each(|at| out.wake(at));
        match more.pace.resume_at {
            Some(at) if at > now.mono => out.wake(at),
            Some(_) => {
                more.pace.resume_at = None;
                self.resume(out);
            }
            None => {}
        }
    }

    /// The client is read again.
    pub(super) fn resume(&mut self, out: &mut Out) {
        self.marks.set(Marks::HELD, false);
        out.hold(false);
    }
}

fn publication(now: Now, topic: &str, publish: &Publish<'_>) -> Publication {
    let (properties, at_s) = (publish.properties, now.unix_s());
    let expiry_s = properties.message_expiry();
    let expire_at = expiry_s.map_or(0, |seconds| at_s.saturating_add(seconds));
    let mut message = Publication::new(topic, &passed_on(properties), publish.payload);
    (message.qos, message.retain) = (publish.qos, publish.retain);
    (message.at_s, message.expire_at) = (at_s, expire_at);
    message
}
