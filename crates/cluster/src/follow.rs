//! Reading a stream into the own log: how a follower follows, and how a claimer catches up.
//!
//! Reading begins with the stream's first message, so which batches count depends on nothing that
//! the reader remembers; then it goes on behind the last message read. A gap between the own log
//! and the stream is for a copy of the leader's log to close. Invariant: the own log is changed
//! only by batches that count.

use crate::counting::{Counted, Counting};
use crate::held::Held;
use crate::own_log::{Compared, OwnLog};
use crate::port::{ANSWER, Ask, LogCommand, LogNotice, StreamError, StreamPage};
use crate::rules::Rule;
use crate::wire::message::LogName;
use base::time::Instant;
use std::time::Duration;

/// A question that waits for messages is asked again after so long.
const WAIT: Duration = Duration::from_secs(5);

/// A stream that was silent is asked again after so long.
const PAUSE: Duration = Duration::from_millis(500);

/// The reading of one stream.
#[derive(Clone, Debug)]
pub struct Follow {
    name: LogName,
    generation: u32,
    /// Count of batches; `None` before the first page.
    counting: Option<Counting>,
    held: Held,
    ask: Ask,
    again: Instant,
    /// Reading stops at the stream's end, as the stream's leader reports it.
    is_to_end: bool,
}

/// How far the reading is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FollowStep {
    /// Reading goes on.
    Reads,
    /// At the end of the stream.
    AtEnd,
    /// The stream does not continue the own log.
    Gap,
    /// The stream does not exist.
    Gone,
}

impl Follow {
    /// Begins to read the stream of a generation; its questions have this number and those behind.
    pub fn begin(name: LogName, generation: u32, ask: Ask, is_to_end: bool) -> Follow {
        let (held, again) = (Held::default(), Instant::default());
        Follow { name, generation, counting: None, held, ask, again, is_to_end }
    }

    /// The batches that counted, and the content of the stream; `None`: nothing was read yet.
    pub fn into_counted(self) -> Option<(Counting, Held)> {
        self.counting.map(|counting| (counting, self.held))
    }

    /// The batches that counted; `None`: nothing was read yet.
    pub fn counting(&self) -> Option<&Counting> {
        self.counting.as_ref()
    }

    /// Asks for more, if no answer is waited for.
    pub fn tick(&mut self, now: Instant, out: &mut Vec<LogCommand>) {
        if now >= self.again {
            self.ask(now, out);
        }
    }

    fn ask(&mut self, now: Instant, out: &mut Vec<LogCommand>) {
        self.ask += 1;
        let (generation, ask) = (self.generation, self.ask);
        let from = self.counting.as_ref().map_or(0, Counting::next);
        let wait = !self.is_to_end && self.counting.is_some();
        self.again = now + if wait { WAIT } else { ANSWER };
        out.push(LogCommand::Read { generation, ask, from, wait });
    }

    /// The answer to a question. None: to another one.
    pub fn read(
        &mut self,
        now: Instant,
        (ask, result): (Ask, Result<StreamPage, StreamError>),
        own: &mut OwnLog,
        out: &mut Vec<LogCommand>,
    ) -> Option<FollowStep> {
        if ask != self.ask {
            return None;
        }
        let page = match result {
            Ok(page) => page,
            Err(StreamError::Gone) => {
                self.again = now + PAUSE;
                return Some(FollowStep::Gone);
            }
            Err(_) => {
                self.again = now + PAUSE;
                return Some(FollowStep::Reads);
            }
        };
        let first = page.first;
        let mut counting = match self.counting.take() {
            Some(counting) => counting,
            None => Counting::new(self.name, first),
        };
        if first > counting.next() || (self.is_to_end && page.last + 1 < counting.next()) {
            // What was to be read next is purged, or the stream went back: from its beginning.
            self.held = Held::default();
            self.ask(now, out);
            return Some(FollowStep::Reads);
        }
        for (sequence, message) in &page.messages {
            let Ok(counted) = counting.read(*sequence, message) else { break };
            self.held.message(message.len());
            let Some(counted) = counted else { continue };
            self.held.count(&counted);
            if !take(&counted, own, out) {
                return Some(FollowStep::Gap);
            }
        }
        self.held.purged(first);
        if let Some(index) = self.held.first_index() {
            own.forget_before(index);
        }
        let is_at_end = counting.next() > page.last;
        self.counting = Some(counting);
        if !(is_at_end && self.is_to_end) {
            self.ask(now, out);
        }
        Some(if is_at_end { FollowStep::AtEnd } else { FollowStep::Reads })
    }
}

/// Takes batches that count into the own log. False: they do not continue it.
fn take(counted: &Counted, own: &mut OwnLog, out: &mut Vec<LogCommand>) -> bool {
    let before = own.acknowledged();
    for batch in &counted.batches {
        match own.compare(batch) {
            Compared::Has => continue,
            Compared::Next => {}
            Compared::Differs(behind) if Rule::CutWhereTheStreamDiffers.holds() => {
                if let Some((first, last)) = own.cut(behind) {
                    out.push(LogCommand::Tell(LogNotice::AcknowledgedLost { first, last }));
                }
                out.push(LogCommand::Cut { behind });
            }
            Compared::Differs(_) => continue,
            Compared::Gap if Rule::CopyAnewBehindAGap.holds() => return false,
            Compared::Gap => {}
        }
        own.push(batch);
        out.push(LogCommand::Append { batch: batch.clone() });
    }
    own.acknowledge(counted.at.end.index);
    if own.acknowledged() > before {
        out.push(LogCommand::Mark { index: own.acknowledged() });
    }
    true
}
