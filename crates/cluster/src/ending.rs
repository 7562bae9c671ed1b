//! The end of a generation: the stream that forgot is closed by a message of its own.
//!
//! A leader that still publishes to this stream finds that message behind its own, and no more of
//! its batches count. So nothing is acknowledged in the old stream once the new one begins. A
//! claimer ends a stream only where it judged it: if the stream is longer by now, it is judged
//! anew.

use crate::batch::LogLeader;
use crate::counting::Counting;
use crate::port::{ANSWER, Ask, LogCommand, PublishNumber, StreamError, StreamPage};
use crate::rules::Rule;
use crate::wire::message::{LogName, MessageBody, StreamMessage};
use base::time::Instant;
use std::time::Duration;

const PAUSE: Duration = Duration::from_millis(500);

/// The ending of a generation under a claim.
#[derive(Clone, Debug)]
pub(crate) struct Ending {
    name: LogName,
    by: LogLeader,
    generation: u32,
    epoch: u32,
    ask: Ask,
    again: Instant,
    counting: Option<Counting>,
    /// The last sequence of the stream as a claimer judged it. None: a leader that is open has
    /// everything that counts under its own epoch.
    judged: Option<u64>,
    /// The message is on its way.
    number: Option<PublishNumber>,
    round: u64,
}

/// State of the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EndingStep {
    Waits,
    /// The generation has ended, or its stream does not exist.
    Ended,
    /// The stream changed since it was read: it is to be judged anew.
    Changed,
    /// A later claim was there before.
    Deposed,
}

impl Ending {
    pub(crate) fn begin(
        name: LogName,
        by: LogLeader,
        (generation, epoch): (u32, u32),
        judged: Option<u64>,
        ask: Ask,
    ) -> Ending {
        let (again, counting, number) = (Instant::default(), None, None);
        Ending { name, by, generation, epoch, ask, again, counting, judged, number, round: ask }
    }

    pub(crate) fn tick(&mut self, now: Instant, out: &mut Vec<LogCommand>) {
        if now >= self.again {
            (self.counting, self.number) = (None, None);
            self.ask(now, out);
        }
    }

    fn ask(&mut self, now: Instant, out: &mut Vec<LogCommand>) {
        self.ask += 1;
        self.again = now + ANSWER;
        let (generation, ask) = (self.generation, self.ask);
        let from = self.counting.as_ref().map_or(0, Counting::next);
        out.push(LogCommand::Read { generation, ask, from, wait: false });
    }

    pub(crate) fn read(
        &mut self,
        now: Instant,
        (ask, result): (Ask, Result<StreamPage, StreamError>),
        out: &mut Vec<LogCommand>,
    ) -> EndingStep {
        if ask != self.ask || self.number.is_some() {
            return EndingStep::Waits;
        }
        let page = match result {
            Ok(page) => page,
            Err(StreamError::Gone) => return EndingStep::Ended,
            Err(_) => {
                self.again = now + PAUSE;
                return EndingStep::Waits;
            }
        };
        let name = self.name;
        let mut counting = self.counting.take().unwrap_or_else(|| Counting::new(name, page.first));
        for (sequence, message) in &page.messages {
            if counting.read(*sequence, message).is_err() {
                self.ask(now, out);
                return EndingStep::Waits;
            }
        }
        let last = counting.anchor().map_or(0, |anchor| anchor.end.epoch);
        if last > self.epoch || counting.ended().is_some_and(|epoch| epoch > self.epoch) {
            return EndingStep::Deposed;
        }
        let (is_at_end, has_ended) = (counting.next() > page.last, counting.ended().is_some());
        self.counting = Some(counting);
        if !is_at_end {
            self.ask(now, out);
            return EndingStep::Waits;
        }
        let is_other = self.judged.is_some_and(|last| last != page.last);
        if is_other && Rule::EndWhatWasJudged.holds() {
            return EndingStep::Changed;
        }
        if has_ended || !Rule::EndTheGeneration.holds() {
            return EndingStep::Ended;
        }
        self.publish(now, page.last, out);
        EndingStep::Waits
    }

    fn publish(&mut self, now: Instant, expected: u64, out: &mut Vec<LogCommand>) {
        self.round += 1;
        let number = PublishNumber { round: self.round, number: 0 };
        let message = StreamMessage { by: self.by, body: MessageBody::End { epoch: self.epoch } };
        let (generation, message) = (self.generation, message.write(self.name));
        out.push(LogCommand::Publish { generation, number, expected, message });
        (self.number, self.again) = (Some(number), now + ANSWER);
    }

    pub(crate) fn published(
        &mut self,
        now: Instant,
        number: PublishNumber,
        result: Result<u64, StreamError>,
    ) -> EndingStep {
        if self.number != Some(number) {
            return EndingStep::Waits;
        }
        match result {
            Ok(_) | Err(StreamError::Gone) => EndingStep::Ended,
            Err(StreamError::Refused) => EndingStep::Changed,
            Err(_) => {
                self.again = now + PAUSE;
                EndingStep::Waits
            }
        }
    }
}
