//! Retained messages: stored by the owner of their topic, for later subscribers.
//!
//! The last message that reaches the owner wins, and rows are written in the same order: a message
//! of QoS 1 or 2 is answered when its row is on stable storage, so a message published after that
//! answer comes later. Numbers do not show this order: they are given on the publisher's shard. An
//! empty payload clears (MQTT5 3.3.1-6).

use super::answers::{PendingAnswer, receipt_of};
use crate::Broker;
use crate::Effects;
use crate::durable::calls::PendingCall;
use crate::peer_message::PeerMessage;
use crate::retained::is_own;
use base::slab::Key;
use base::time::{Instant, Now};
use model::counters::{ProcessCounter, TopicCounter};
use model::ports::log::Call;
use model::pressure::Pressure;
use model::session::Denial;
use model::topic::{Publication, Qos};
use std::sync::Arc;

/// Retained messages whose time is looked at in one turn.
const EXPIRE_SLICE: usize = 256;

/// A row that was asked for, and whose answer is waited for.
pub(crate) struct Retaining {
    topic: Box<str>,
    number: u64,
    wait: Key,
}

impl Broker {
    /// A message is to be kept by the owner of its topic.
    pub(crate) fn retain(
        &mut self,
        now: Now,
        message: &Arc<Publication>,
        pending_answer: &mut PendingAnswer,
        fx: &mut Effects,
    ) -> bool {
        let owner = self.settings.owner_of_topic(message.topic());
        if owner == self.settings.shard {
            return self.retain_here(now, message, pending_answer, fx);
        }
        let receipt = match message.qos {
            Qos::AtMostOnce => 0,
            _ => self.answers.one_more(pending_answer).map_or(0, receipt_of),
        };
        let (message, from, pages) = (message.clone(), self.settings.shard, pending_answer.pages);
        fx.peer_messages.push((owner, PeerMessage::Keep { message, from, receipt, pages }));
        false
    }

    /// Notes the pages that were given out, before subscribers of a message to retain are looked
    /// up.
    pub(crate) fn look_at_pages(&self, message: &Publication, pending_answer: &mut PendingAnswer) {
        if message.retain && self.settings.shards > 1 {
            let owner = self.settings.owner_of_topic(message.topic());
            if owner != self.settings.shard {
                pending_answer.pages = self.settings.summary.pages(owner);
            }
        }
    }

    /// Retains a message whose topic has its home here. True if it went to a subscriber that had
    /// missed it.
    pub(crate) fn retain_here(
        &mut self,
        now: Now,
        message: &Arc<Publication>,
        pending_answer: &mut PendingAnswer,
        fx: &mut Effects,
    ) -> bool {
        let topic = message.topic();
        let before = match message.qos {
            Qos::AtMostOnce => None,
            _ => self.retained.all().get(topic).cloned(),
        };
        // A topic without a message may have been cleared a moment ago, and its row not yet: the
        // answer that it is cleared waits for the row all the same.
        let mut is_changed = true;
        if message.payload().is_empty() {
            is_changed = self.retained.clear(topic);
            if !is_changed && message.qos == Qos::AtMostOnce {
                return false;
            }
            fx.counters.count_by(TopicCounter::RetainedCleared, u64::from(is_changed));
        } else {
            let max_s = self.settings.limits.topics.retained_expiry_s_max;
            let kept = match max_s {
                0 => message.clone(),
                max_s => {
                    let last = now.unix_s().saturating_add(max_s);
                    let expire_at = match message.expire_at {
                        0 => last,
                        other => other.min(last),
                    };
                    let mut kept = (**message).clone();
                    kept.expire_at = expire_at;
                    Arc::new(kept)
                }
            };
            let pressed = self.pressure >= Pressure::Stores && !is_own(topic);
            if pressed {
                fx.counters.count(ProcessCounter::PressedStores);
            }
            if pressed || self.retained.set(kept).is_err() {
                fx.counters.count(TopicCounter::RetainedRefused);
                pending_answer.error = Some(Denial::Quota);
                return false;
            }
            fx.counters.count(TopicCounter::RetainedSet);
        }
        let is_late = is_changed && self.tell_askers(now, message, pending_answer.pages, fx);
        match message.qos {
            // The server's own topics are no longer true after a restart, so they are not stored.
            _ if is_own(topic) => {}
            Qos::AtMostOnce => self.write_retained(topic.into(), fx),
            _ => {
                let write = self.retained.row(topic);
                if let Some(wait) = self.answers.one_more(pending_answer) {
                    let number = self.retained.asked(topic, before);
                    let retaining = Box::new(Retaining { topic: topic.into(), number, wait });
                    self.log.ask(PendingCall::Retaining(retaining), Call::Write(write), fx);
                }
            }
        }
        is_late
    }

    /// The row of a topic is written some time. Refused, it is written again as it is by then: an
    /// older one must not undo a newer one.
    pub(crate) fn write_retained(&mut self, topic: Box<str>, fx: &mut Effects) {
        self.retained.for_good(&topic);
        if !self.log.has_failed() {
            let write = self.retained.row(&topic);
            self.log.ask(PendingCall::Retained(topic), Call::Write(write), fx);
        }
    }

    /// The log has answered for a row that an answer waits for.
    pub(crate) fn retained_answered(
        &mut self,
        now: Now,
        Retaining { topic, number, wait }: Retaining,
        result: Result<(), Denial>,
        fx: &mut Effects,
    ) {
        // A message that the log refused is counted as refused once, whatever follows on its topic.
        fx.counters.count_by(TopicCounter::RetainedRefused, u64::from(result.is_err()));
        if self.retained.answered(&topic, number, result.is_ok()) {
            self.write_retained(topic, fx);
        }
        self.arrived(now, wait, result, fx);
    }

    /// Clears a topic for an operator; returns whether it had a message.
    pub(crate) fn clear_retained(&mut self, topic: &str, fx: &mut Effects) -> bool {
        let was_there = self.retained.clear(topic);
        if was_there {
            fx.counters.count(TopicCounter::RetainedCleared);
            self.write_retained(topic.into(), fx);
        }
        was_there
    }

    /// Removes expired retained messages, a slice of them.
    pub(crate) fn turn_retained(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let mut gone = Vec::new();
        let more = self.retained.expire(now.unix_s(), EXPIRE_SLICE, &mut gone);
        for message in gone {
            fx.counters.count(TopicCounter::RetainedCleared);
            self.write_retained(message.topic().into(), fx);
        }
        match more {
            true => Some(now.mono),
            false => self.retained.all().next_expiry().map(|at_s| wall(now, at_s)),
        }
    }
}

/// When it will be this Unix second, if the wall clock does not step; within an hour.
pub(crate) fn wall(now: Now, at_s: u32) -> Instant {
    let left_ms = (u64::from(at_s) * 1_000).saturating_sub(now.wall_ms).min(3_600_000);
    now.after(std::time::Duration::from_millis(left_ms))
}
