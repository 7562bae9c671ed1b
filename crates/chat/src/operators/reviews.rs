//! Reviews: what waits for somebody's verdict before it is sent on.
//!
//! ```text
//! send ─► line of its sender and whom it is for ─► asked ─► verdict, or the time is over ─┐
//!                                                                                        ▼
//!                          first of its line? ─► sent on, changed or refused, and who is behind it
//! ```
//! Everybody in a line is asked at once and leaves it in order: what one sender says to one
//! conversation stays in its order, and a verdict that does not come holds up nobody else. Nothing
//! that is here was acknowledged. Invariant: what is in a line leaves it once, at the latest when
//! its time is over.

use crate::send::Rejected;
use crate::sessions::{Asker, Requester};
use crate::{Chat, Effects};
use base::time::{Instant, Now};
use model::account::AccountAddress;
use model::chat::{ChatFault, NewMessage, REASON_BYTES_MAX};
use model::counters::ChatCounter;
use model::ports::reviews::{Review, ReviewVerdict, Reviewed, Unreviewed};
use model::timeline::TimelineId;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// So many senders at least have room among what waits: none has more than its part.
const SENDERS_MIN: usize = 4;

/// How messages are reviewed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReviewSettings {
    /// Those between two accounts are.
    pub single: bool,
    /// Those to groups are.
    pub group: bool,
    /// So long a verdict is waited for, milliseconds.
    pub ms_max: u32,
    /// What becomes of those without one.
    pub unreviewed: Unreviewed,
}

impl ReviewSettings {
    /// Those of these kinds.
    pub fn of(kinds: &[Reviewed], ms_max: u32, unreviewed: Unreviewed) -> ReviewSettings {
        let has = |kind| kinds.contains(&kind);
        let (single, group) = (has(Reviewed::Single), has(Reviewed::Group));
        ReviewSettings { single, group, ms_max, unreviewed }
    }

    fn wants(&self, to: &AccountAddress) -> bool {
        if to.is_group() { self.group } else { self.single }
    }
}

/// A message on its way to be sent on.
pub(crate) struct Held {
    pub(crate) wait: Requester,
    pub(crate) asker: Asker,
    pub(crate) to: AccountAddress,
    pub(crate) message: Box<NewMessage>,
    /// It says something else than its sender's device has said.
    pub(crate) is_changed: bool,
}

/// One in a line.
struct InLine {
    number: u64,
    held: Held,
    verdict: Option<ReviewVerdict>,
}

/// Who says something, and to whom.
type LineKey = (TimelineId, AccountAddress);

/// What waits for verdicts on a shard.
#[derive(Default)]
pub(crate) struct Reviews {
    lines: HashMap<LineKey, VecDeque<InLine>>,
    /// Those without a verdict, in the order in which they were asked about: each waits as long.
    asked: VecDeque<(Instant, u64)>,
    /// Lines by the numbers of what is in them.
    of: HashMap<u64, LineKey>,
    /// How many each sender has here.
    by: HashMap<TimelineId, usize>,
    last: u64,
    bytes: u64,
}

impl Held {
    fn weight(&self) -> u64 {
        (size_of::<InLine>() + self.to.as_str().len() + self.message.weight()) as u64
    }
}

impl Reviews {
    fn put(&mut self, held: Held, verdict: Option<ReviewVerdict>) -> u64 {
        self.last += 1;
        let (number, key) = (self.last, (held.asker.inbox, held.to.clone()));
        self.bytes += held.weight();
        self.of.insert(number, key.clone());
        *self.by.entry(key.0).or_default() += 1;
        self.lines.entry(key).or_default().push_back(InLine { number, held, verdict });
        number
    }

    /// Whether something of this sender waits that is for the same conversation.
    fn has_line(&self, held: &Held) -> bool {
        // Most often nothing waits: then nothing is copied.
        !self.lines.is_empty() && self.lines.contains_key(&(held.asker.inbox, held.to.clone()))
    }

    /// A verdict of one that waits. Its line, if that is known.
    fn judged(&mut self, number: u64, verdict: ReviewVerdict) -> Option<LineKey> {
        let key = self.of.get(&number)?.clone();
        let line = self.lines.get_mut(&key)?;
        let one = line.iter_mut().find(|one| one.number == number)?;
        one.verdict.get_or_insert(verdict);
        Some(key)
    }

    /// The first of a line, if it has a verdict.
    fn leave(&mut self, key: &LineKey) -> Option<(Held, ReviewVerdict)> {
        let line = self.lines.get_mut(key)?;
        let verdict = line.front_mut()?.verdict.take()?;
        let InLine { number, held, .. } = line.pop_front()?;
        if line.is_empty() {
            self.lines.remove(key);
        }
        self.of.remove(&number);
        let of_sender = self.by.get_mut(&key.0)?;
        *of_sender -= 1;
        if *of_sender == 0 {
            self.by.remove(&key.0);
        }
        self.bytes -= held.weight();
        Some((held, verdict))
    }

    pub(crate) fn audit(&self) {
        let all: usize = self.lines.values().map(VecDeque::len).sum();
        assert_eq!(all, self.of.len(), "each is in one line");
        assert_eq!(all, self.by.values().sum::<usize>(), "and of one sender");
        let bytes: u64 = self.lines.values().flatten().map(|one| one.held.weight()).sum();
        assert_eq!(bytes, self.bytes);
    }
}

impl Chat {
    /// A message that may be said is reviewed if it is to be, and waits behind what is.
    pub(crate) fn review(&mut self, now: Now, held: Held, fx: &mut Effects) {
        let wanted =
            self.settings.reviews.filter(|it| !held.asker.is_operator && it.wants(&held.to));
        if wanted.is_none() && !self.reviews.has_line(&held) {
            return self.send_on(now, held, fx);
        }
        let limits = &self.settings.limits.chat;
        let bytes_max = limits.reviewed_bytes_max / u64::from(self.settings.shards.max(1));
        let most = limits.reviewed_messages_max as usize;
        let of_sender = self.reviews.by.get(&held.asker.inbox).copied().unwrap_or_default();
        // One sender leaves room for others, however long the hook takes.
        if self.reviews.of.len() >= most
            || of_sender >= most.div_ceil(SENDERS_MIN)
            || self.reviews.bytes + held.weight() > bytes_max
        {
            return self.answer_send(held.wait, Err(ChatFault::Busy), fx);
        }
        let Some(settings) = wanted else {
            self.reviews.put(held, Some(ReviewVerdict::Allow));
            return;
        };
        let review = Box::new(Review {
            at_ms: now.wall_ms,
            ms_max: settings.ms_max,
            from: held.asker.address.clone(),
            device: held.asker.device.clone(),
            to: held.to.clone(),
            client_id: held.message.client_id,
            content: held.message.content.clone(),
        });
        let number = self.reviews.put(held, None);
        let due = now.after(Duration::from_millis(settings.ms_max.into()));
        self.reviews.asked.push_back((due, number));
        fx.counters.count(ChatCounter::Reviewed);
        fx.reviews.push((number, review));
    }

    /// Somebody has judged a message; one that waits no longer is passed over.
    pub(crate) fn reviewed(
        &mut self,
        now: Now,
        number: u64,
        verdict: ReviewVerdict,
        fx: &mut Effects,
    ) {
        let Some(key) = self.reviews.judged(number, verdict) else { return };
        while let Some((held, verdict)) = self.reviews.leave(&key) {
            self.review_is_over(now, held, verdict, fx);
        }
    }

    fn review_is_over(&mut self, now: Now, held: Held, verdict: ReviewVerdict, fx: &mut Effects) {
        let held = match self.may_still_say(now, held, fx) {
            Ok(held) => held,
            Err((wait, rejected)) => return self.reject_send(wait, rejected, fx),
        };
        let unreviewed = self.settings.reviews.map(|it| it.unreviewed);
        match verdict {
            ReviewVerdict::Allow => self.send_on(now, held, fx),
            ReviewVerdict::Change { text, extra } => {
                fx.counters.count(ChatCounter::ReviewsChanged);
                let mut held = held;
                let content = &mut held.message.content;
                content.text = text.unwrap_or_else(|| std::mem::take(&mut content.text));
                content.extra = extra.unwrap_or_else(|| std::mem::take(&mut content.extra));
                held.is_changed = true;
                // What comes from outside is held to the same limits.
                match self.may_not_say(&held.message.content) {
                    None => self.send_on(now, held, fx),
                    Some(fault) => self.answer_send(held.wait, Err(fault), fx),
                }
            }
            ReviewVerdict::Refuse(reason) => {
                fx.counters.count(ChatCounter::ReviewsRefused);
                let end = reason.floor_char_boundary(REASON_BYTES_MAX);
                self.reject_send(held.wait, Rejected::because(&reason[..end]), fx);
            }
            ReviewVerdict::None => {
                fx.counters.count(ChatCounter::ReviewsMissed);
                match unreviewed {
                    Some(Unreviewed::Refuse) => {
                        let reason = "it could not be reviewed: try again later";
                        self.reject_send(held.wait, Rejected::because(reason), fx);
                    }
                    _ => self.send_on(now, held, fx),
                }
            }
        }
    }

    /// Those whose time is over go on without a verdict; when to look again.
    pub(crate) fn turn_reviews(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        while let Some(&(due, number)) = self.reviews.asked.front() {
            let is_judged = !self.reviews.waits_for(number);
            if !is_judged && due > now.mono {
                return Some(due);
            }
            self.reviews.asked.pop_front();
            if !is_judged {
                self.reviewed(now, number, ReviewVerdict::None, fx);
            }
        }
        None
    }
}

impl Reviews {
    /// Whether one is in a line without a verdict.
    fn waits_for(&self, number: u64) -> bool {
        let line = self.of.get(&number).and_then(|key| self.lines.get(key));
        let mut line = line.into_iter().flatten();
        line.any(|one| one.number == number && one.verdict.is_none())
    }
}
