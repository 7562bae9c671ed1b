//! Reviews: messages that wait for the verdict of an external hook before they are sent on.
//!
//! ```text
//! send ─► queue of its sender and receiver ─► hook asked ─► verdict, or timeout ─┐
//!                                                                                ▼
//!            first of its queue? ─► sent on, changed or refused, and then those behind it
//! ```
//! All messages of a queue are reviewed at the same time and leave it in order: messages of one
//! sender to one conversation stay in order, and a late verdict delays no other queue. No message
//! in a queue has been acknowledged. Invariant: a message leaves its queue once, at the latest at
//! its timeout.

use crate::send::{Rejected, SendError};
use crate::service::flow::Reply;
use crate::sessions::Asker;
use crate::{Chat, Effects};
use base::flows::WaitKey;
use base::time::{Instant, Now};
use model::account::AccountAddress;
use model::chat::{ChatFault, NewMessage, REASON_BYTES_MAX};
use model::counters::ChatCounter;
use model::ports::requests::PortRequest;
use model::ports::reviews::{Review, ReviewVerdict, Reviewed, Unreviewed};
use model::timeline::TimelineId;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// The fewest senders that share the capacity: each sender may use at most this fraction of it.
const SENDERS_MIN: usize = 4;

/// Settings of the before-send hook.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReviewSettings {
    /// Messages between two accounts are reviewed.
    pub single: bool,
    /// Messages to groups are reviewed.
    pub group: bool,
    /// Timeout of a verdict, milliseconds.
    pub ms_max: u32,
    /// Treatment of messages without a verdict.
    pub unreviewed: Unreviewed,
}

impl ReviewSettings {
    /// Settings that review messages of these kinds.
    pub fn of(kinds: &[Reviewed], ms_max: u32, unreviewed: Unreviewed) -> ReviewSettings {
        let has = |kind| kinds.contains(&kind);
        let (single, group) = (has(Reviewed::Single), has(Reviewed::Group));
        ReviewSettings { single, group, ms_max, unreviewed }
    }

    fn wants(&self, to: &AccountAddress) -> bool {
        if to.is_group() { self.group } else { self.single }
    }
}

/// A message in a queue.
struct InLine {
    /// The key under which the message's flow waits; its number names the review.
    key: WaitKey,
    bytes: u64,
    verdict: Option<ReviewVerdict>,
}

/// Inbox of the sender, and receiver.
type LineKey = (TimelineId, AccountAddress);

/// Messages of a shard that wait for verdicts.
#[derive(Default)]
pub(crate) struct Reviews {
    lines: HashMap<LineKey, VecDeque<InLine>>,
    /// Deadlines of reviews, in the order in which they were requested; all have the same timeout.
    asked: VecDeque<(Instant, u64)>,
    /// The queue of each review, by its number.
    of: HashMap<u64, LineKey>,
    /// Number of waiting messages of each sender.
    by: HashMap<TimelineId, usize>,
    bytes: u64,
}

impl Reviews {
    fn put(&mut self, line: LineKey, one: InLine) {
        self.bytes += one.bytes;
        self.of.insert(one.key.number(), line.clone());
        *self.by.entry(line.0).or_default() += 1;
        self.lines.entry(line).or_default().push_back(one);
    }

    /// Whether a message of this sender to the same receiver waits.
    fn has_line(&self, by: TimelineId, to: &AccountAddress) -> bool {
        // Usually no message waits: then nothing is copied.
        !self.lines.is_empty() && self.lines.contains_key(&(by, to.clone()))
    }

    /// Records the verdict on a waiting message; returns its queue, if the review is known.
    fn judged(&mut self, number: u64, verdict: ReviewVerdict) -> Option<LineKey> {
        let key = self.of.get(&number)?.clone();
        let line = self.lines.get_mut(&key)?;
        let one = line.iter_mut().find(|one| one.key.number() == number)?;
        one.verdict.get_or_insert(verdict);
        Some(key)
    }

    /// Removes the first message of a queue, if its verdict has arrived.
    fn leave(&mut self, key: &LineKey) -> Option<(WaitKey, ReviewVerdict)> {
        let line = self.lines.get_mut(key)?;
        let verdict = line.front_mut()?.verdict.take()?;
        let one = line.pop_front()?;
        if line.is_empty() {
            self.lines.remove(key);
        }
        self.of.remove(&one.key.number());
        let of_sender = self.by.get_mut(&key.0)?;
        *of_sender -= 1;
        if *of_sender == 0 {
            self.by.remove(&key.0);
        }
        self.bytes -= one.bytes;
        Some((one.key, verdict))
    }

    pub(crate) fn audit(&self) {
        let all: usize = self.lines.values().map(VecDeque::len).sum();
        assert_eq!(all, self.of.len(), "each is in one line");
        assert_eq!(all, self.by.values().sum::<usize>(), "and of one sender");
        let bytes: u64 = self.lines.values().flatten().map(|one| one.bytes).sum();
        assert_eq!(bytes, self.bytes);
    }
}

impl Chat {
    /// Whether a message has to wait for a verdict: its own, or that of one queued before it.
    pub(crate) fn is_to_review(&self, by: &Asker, to: &AccountAddress) -> bool {
        self.wants_review(by, to).is_some() || self.reviews.has_line(by.inbox, to)
    }

    fn wants_review(&self, by: &Asker, to: &AccountAddress) -> Option<ReviewSettings> {
        self.settings.reviews.filter(|it| !by.is_operator && it.wants(to))
    }

    /// Queues a message for review; the flow that waits under this key gets the verdict.
    pub(crate) fn review(
        &mut self,
        now: Now,
        key: WaitKey,
        (by, to, message): (&Asker, &AccountAddress, &NewMessage),
        fx: &mut Effects,
    ) -> Result<(), ChatFault> {
        let limits = &self.settings.limits.chat;
        let bytes_max = limits.reviewed_bytes_max / u64::from(self.settings.shards.max(1));
        let most = limits.reviewed_messages_max as usize;
        let of_sender = self.reviews.by.get(&by.inbox).copied().unwrap_or_default();
        let bytes = (size_of::<InLine>() + to.as_str().len() + message.weight()) as u64;
        // One sender leaves capacity for others, however slow the hook is.
        if self.reviews.of.len() >= most
            || of_sender >= most.div_ceil(SENDERS_MIN)
            || self.reviews.bytes + bytes > bytes_max
        {
            return Err(ChatFault::Busy);
        }
        let line = (by.inbox, to.clone());
        let Some(settings) = self.wants_review(by, to) else {
            self.reviews.put(line, InLine { key, bytes, verdict: Some(ReviewVerdict::Allow) });
            return Ok(());
        };
        let review = Box::new(Review {
            at_ms: now.wall_ms,
            ms_max: settings.ms_max,
            from: by.address.clone(),
            device: by.device.clone(),
            to: to.clone(),
            client_id: message.client_id,
            content: message.content.clone(),
        });
        self.reviews.put(line, InLine { key, bytes, verdict: None });
        let due = now.after(Duration::from_millis(settings.ms_max.into()));
        self.reviews.asked.push_back((due, key.number()));
        fx.counters.count(ChatCounter::Reviewed);
        fx.port_requests.push((key.number(), PortRequest::Review(review)));
        Ok(())
    }

    /// Handles a verdict; the verdict on a message that no longer waits is ignored.
    pub(crate) fn reviewed(&mut self, number: u64, verdict: ReviewVerdict) {
        let Some(line) = self.reviews.judged(number, verdict) else { return };
        while let Some((key, verdict)) = self.reviews.leave(&line) {
            self.flows.reply(key, Reply::Reviewed(verdict));
        }
    }

    /// Applies a verdict to a message. True: its content has changed.
    pub(crate) fn follow_verdict(
        &mut self,
        now: Now,
        by: &Asker,
        verdict: ReviewVerdict,
        message: &mut NewMessage,
        fx: &mut Effects,
    ) -> Result<bool, SendError> {
        self.may_still_say(now, by, fx)?;
        match verdict {
            ReviewVerdict::Allow => Ok(false),
            ReviewVerdict::Change { text, extra } => {
                fx.counters.count(ChatCounter::ReviewsChanged);
                let content = &mut message.content;
                content.text = text.unwrap_or_else(|| std::mem::take(&mut content.text));
                content.extra = extra.unwrap_or_else(|| std::mem::take(&mut content.extra));
                // Content from the hook has the same limits as a client's.
                self.may_not_say(content).map_or(Ok(true), |fault| Err(fault.into()))
            }
            ReviewVerdict::Refuse(reason) => {
                fx.counters.count(ChatCounter::ReviewsRefused);
                let end = reason.floor_char_boundary(REASON_BYTES_MAX);
                Err(Rejected::because(&reason[..end]).into())
            }
            ReviewVerdict::None => {
                fx.counters.count(ChatCounter::ReviewsMissed);
                match self.settings.reviews.map(|it| it.unreviewed) {
                    Some(Unreviewed::Refuse) => {
                        let reason = "it could not be reviewed: try again later";
                        Err(Rejected::because(reason).into())
                    }
                    _ => Ok(false),
                }
            }
        }
    }

    /// Sends on messages whose timeout is over without a verdict; returns when to be called again.
    pub(crate) fn turn_reviews(&mut self, now: Now) -> Option<Instant> {
        while let Some(&(due, number)) = self.reviews.asked.front() {
            let is_judged = !self.reviews.waits_for(number);
            if !is_judged && due > now.mono {
                return Some(due);
            }
            self.reviews.asked.pop_front();
            if !is_judged {
                self.reviewed(number, ReviewVerdict::None);
            }
        }
        None
    }
}

impl Reviews {
    /// Whether this review waits for its verdict.
    fn waits_for(&self, number: u64) -> bool {
        let line = self.of.get(&number).and_then(|key| self.lines.get(key));
        let mut line = line.into_iter().flatten();
        line.any(|one| one.key.number() == number && one.verdict.is_none())
    }
}
