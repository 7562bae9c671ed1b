//! What became of tracked pushes at their devices: lines in rows, and what memory knows of them.
//!
//! A tracked push is an order to many, also to one device. Each of its rows of devices tells what
//! became of the push at them, and when, and stays as long as the push is remembered: so one row
//! both lets a restart pass over a device and answers for it later. A device has a line when it
//! stored the push, one for its end, and one for each report. Rows are numbered in the order of
//! writing and never change, so a reader that goes from row to row gets each line once, also while
//! the push is under way. Lines of a shard have a limit of bytes: beyond it finished pushes are
//! forgotten, on all shards, and devices of the others are counted without a line.

use super::columns::end_of;
use super::jobs::{Job, Jobs};
use crate::log::LogCalls;
use crate::log::durable::order::{self, Ends, Kind};
use crate::log::durable::outcomes;
use crate::log::pending::PendingCall;
use crate::{Effects, Hub};
use model::id::{MessageId, ProductKey, ShardId};
use model::ports::log::{Call, Done, Read, StoreError, Table};
use model::ports::pushes::{DeviceStep, OutcomePart, PushAnswer, PushMinute};
use model::push::{Outcome, PushReport, PushStep, StepKind};
use model::timeline::TimelineId;
use std::collections::{BTreeMap, BTreeSet};

/// Minutes of a push that are counted each; the oldest ones are added up beyond it.
const MINUTES_MAX: usize = 1_440;

/// Most rows that are read for one page.
const ROWS_MAX: usize = 16;

/// Most lines of a page, of one shard.
const LINES_MAX: usize = 1_000;

/// Memory beside a row, and beside a device that reported, in the limit of bytes.
const BESIDE: u64 = 32;

/// What memory knows of a tracked push on one shard.
#[derive(Default)]
pub(crate) struct Tracked {
    /// Number of the next row.
    pub next: u32,
    /// Bytes of its rows.
    pub bytes: u64,
    /// Devices were counted without a line.
    pub is_cut: bool,
    minutes: BTreeMap<u32, [u64; StepKind::ALL.len()]>,
    /// Devices that reported, and what.
    reported: BTreeSet<(TimelineId, PushReport)>,
}

impl Tracked {
    /// Whether a device has reported this.
    pub fn has_reported(&self, device: TimelineId, report: PushReport) -> bool {
        self.reported.contains(&(device, report))
    }

    /// Counts a step in its minute. Without room for one more, the oldest is added to the next.
    fn count(&mut self, step: PushStep, at_ms: u64) {
        let minute = u32::try_from(at_ms / 60_000).unwrap_or(u32::MAX);
        self.minutes.entry(minute).or_default()[step.kind() as usize] += 1;
        if self.minutes.len() > MINUTES_MAX
            && let Some((_, oldest)) = self.minutes.pop_first()
            && let Some(mut next) = self.minutes.first_entry()
        {
            next.get_mut().iter_mut().zip(oldest).for_each(|(count, more)| *count += more);
        }
    }
}

impl Job {
    /// Counts lines of a row that is stored, or was before the start.
    fn count_lines<'a>(&mut self, lines: impl Iterator<Item = &'a DeviceStep>) {
        let Some(tracked) = &mut self.tracked else { return };
        lines.for_each(|line| tracked.count(line.step, line.at_ms));
    }

    /// Counts a report of a device, unless it was known.
    fn count_report(&mut self, device: TimelineId, report: PushReport) -> bool {
        let is_new = self.tracked.as_mut().is_some_and(|it| it.reported.insert((device, report)));
        if is_new {
            match report {
                PushReport::Opened => self.counts.opened += 1,
                PushReport::Dismissed => self.counts.dismissed += 1,
            }
        }
        is_new
    }
}

/// A row of outcomes.
pub(crate) struct OutcomeRow {
    pub key: Box<[u8]>,
    pub value: Box<[u8]>,
}

impl OutcomeRow {
    /// What it takes of the limit of bytes.
    pub fn weight(key: &[u8], value: &[u8]) -> u64 {
        (key.len() + value.len()) as u64 + BESIDE
    }
}

impl Jobs {
    /// A row for these lines of a tracked push, whose bytes are counted from now on. Absent if the
    /// push is not tracked, or the limit of bytes is reached: the push is marked then.
    pub fn row_of_lines<'a>(
        &mut self,
        id: MessageId,
        lines: impl Iterator<Item = &'a DeviceStep> + Clone,
    ) -> Option<OutcomeRow> {
        let (shard, has_room) = (self.shard, self.outcome_bytes < self.outcome_bytes_max);
        let tracked = self.at_mut(id)?.tracked.as_mut()?;
        if !has_room {
            tracked.is_cut = true;
            return None;
        }
        let key = order::key(id, Kind::Outcomes(shard, tracked.next));
        let value = outcomes::encode(lines);
        let weight = OutcomeRow::weight(&key, &value);
        tracked.next += 1;
        tracked.bytes += weight;
        self.outcome_bytes += weight;
        Some(OutcomeRow { key, value })
    }

    /// Handles the log's answer to a row of lines.
    pub fn lines_told<'a>(
        &mut self,
        id: MessageId,
        lines: impl Iterator<Item = &'a DeviceStep>,
        weight: u64,
        is_stored: bool,
    ) {
        let Some(job) = self.at_mut(id) else { return };
        match is_stored {
            true => job.count_lines(lines),
            false => {
                let Some(tracked) = &mut job.tracked else { return };
                tracked.bytes -= weight;
                self.outcome_bytes -= weight;
            }
        }
    }

    /// Counts a report of a device about a tracked push; false if it was known, or there is no
    /// such push.
    pub fn reported(&mut self, id: MessageId, device: TimelineId, report: PushReport) -> bool {
        self.at_mut(id).is_some_and(|job| job.count_report(device, report))
    }

    /// Keys of the rows of outcomes that this shard wrote for a push.
    pub fn rows_of_outcomes(&self, id: MessageId, job: &Job) -> Vec<Box<[u8]>> {
        let rows = job.tracked.as_ref().map_or(0, |tracked| tracked.next);
        (0..rows).map(|number| order::key(id, Kind::Outcomes(self.shard, number))).collect()
    }

    /// Whether what becomes of a push at each device is stored.
    pub fn is_tracked(&self, id: MessageId) -> bool {
        self.at(id).is_some_and(|job| job.tracked.is_some())
    }

    /// The oldest tracked push that is over and need not stay because of another order.
    pub fn oldest_tracked(&self) -> Option<MessageId> {
        let is_idle = |job: &Job| job.open.is_none() && job.settled.is_empty() && job.asked == 0;
        let mut of = self.jobs.iter().filter(|(_, job)| job.tracked.is_some() && is_idle(job));
        of.find(|(id, _)| !self.has_cancel(**id)).map(|(id, _)| *id)
    }

    /// Whether the lines of tracked pushes have more bytes than they may.
    pub fn has_too_many_outcomes(&self) -> bool {
        self.outcome_bytes > self.outcome_bytes_max
    }
}

/// A question for a page of lines, while the log reads rows.
pub(crate) struct PageQuestion {
    reply: u64,
    push: MessageId,
    from: Place,
    kind: Option<StepKind>,
    count: usize,
}

/// A place among the lines of a push on one shard: a row, by the shard that wrote it and its
/// number, and a line in it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Place {
    shard: u16,
    number: u32,
    line: u16,
}

impl Place {
    fn of(packed: u64) -> Place {
        let (shard, number) = ((packed >> 48) as u16, (packed >> 16) as u32);
        Place { shard, number, line: packed as u16 }
    }

    fn packed(self) -> u64 {
        u64::from(self.shard) << 48 | u64::from(self.number) << 16 | u64::from(self.line)
    }

    /// The place of a row's line.
    fn at(shard: ShardId, number: u32, line: usize) -> Place {
        let line = u16::try_from(line).expect("a row has few lines");
        Place { shard: shard.0, number, line }
    }

    /// The last key before the row, or before all rows.
    fn key_before(self, push: MessageId) -> Option<Box<[u8]>> {
        let before = match (self.number.checked_sub(1), self.shard.checked_sub(1)) {
            (Some(number), _) => Kind::Outcomes(ShardId(self.shard), number),
            (None, Some(shard)) => Kind::Outcomes(ShardId(shard), u32::MAX),
            (None, None) => return None,
        };
        Some(order::key(push, before))
    }
}

/// The page of lines, and what a start makes of rows.
impl Hub {
    /// What became of a push, by minute.
    pub(crate) fn minutes(&self, push: MessageId) -> PushAnswer {
        let Some(job) = self.jobs.at(push).filter(|job| job.changes.is_none()) else {
            return PushAnswer::Minutes(None);
        };
        let Some(tracked) = &job.tracked else { return PushAnswer::NotTracked };
        let all = tracked.minutes.iter();
        PushAnswer::Minutes(Some(
            all.map(|(&minute, &counts)| PushMinute { minute, counts }).collect(),
        ))
    }

    /// Reads a page of what became of a push at this shard's devices, and answers with it.
    pub(crate) fn list_outcomes(
        &mut self,
        reply: u64,
        (push, product): (MessageId, Option<&ProductKey>),
        after: &[u64],
        (kind, count): (Option<StepKind>, u32),
        fx: &mut Effects,
    ) {
        let job = self.jobs.at(push).filter(|job| job.changes.is_none());
        let job = job.filter(|job| product.is_none() || job.product.as_ref() == product);
        let answer = match job.map(|job| job.tracked.is_some()) {
            None => PushAnswer::Outcomes(None),
            Some(false) => PushAnswer::NotTracked,
            Some(true) if !self.log.has_room_to_pull() => PushAnswer::Busy,
            Some(true) => {
                let shard = usize::from(self.settings.shard.0);
                let from = Place::of(after.get(shard).copied().unwrap_or(0));
                let count = (count as usize).min(LINES_MAX);
                let read = Read::Rows {
                    table: Table::Orders,
                    prefix: order::prefix_of_outcomes(push),
                    after: from.key_before(push),
                    count: ROWS_MAX,
                };
                let question = PageQuestion { reply, push, from, kind, count };
                return self.log.ask(PendingCall::Page(question.into()), Call::Read(read), fx);
            }
        };
        fx.answers.push((reply, answer));
    }

    /// Answers with a page of lines, from the rows that the log read.
    pub(crate) fn page_read(
        &mut self,
        question: PageQuestion,
        result: Result<Done, StoreError>,
        fx: &mut Effects,
    ) {
        let PageQuestion { reply, push, from, kind, count } = question;
        let Ok(Done::Rows(rows)) = result else {
            return fx.answers.push((reply, PushAnswer::Busy));
        };
        let (mut lines, mut end, mut more) = (Vec::new(), from, rows.len() == ROWS_MAX);
        'rows: for (key, value) in &rows {
            let Some((_, Kind::Outcomes(shard, number))) = order::kind(key) else { continue };
            if !self.jobs.adopts(shard) {
                continue;
            }
            for (at, line) in outcomes::decode(value).unwrap_or_default().into_iter().enumerate() {
                if Place::at(shard, number, at) < from {
                    continue;
                }
                if lines.len() == count {
                    more = true;
                    break 'rows;
                }
                end = Place::at(shard, number, at + 1);
                let is_wanted = kind.is_none_or(|kind| line.step.kind() == kind);
                if is_wanted && self.is_so(push, &line) {
                    lines.push((end.packed(), line));
                }
            }
        }
        let job = self.jobs.at(push);
        let is_cut = job.and_then(|it| it.tracked.as_ref()).is_some_and(|it| it.is_cut);
        let (shard, from, end) = (self.settings.shard.0, from.packed(), end.packed());
        let part = OutcomePart { shard, from, lines, end, more, is_cut };
        fx.answers.push((reply, PushAnswer::Outcomes(Some(vec![part]))));
    }

    /// Whether a line still holds: the push of a line "stored" is still queued for its device.
    fn is_so(&self, push: MessageId, line: &DeviceStep) -> bool {
        if line.step != PushStep::Outcome(Outcome::Stored) {
            return true;
        }
        let product = self.jobs.at(push).and_then(|job| job.product.as_ref());
        // Of a device of another shard, which is so after a change of their number, nothing is
        // known here.
        if product.is_some_and(|product| !self.share().has(product.as_str(), line.device.as_str()))
        {
            return true;
        }
        let number = product.and_then(|product| self.registry.products.number(product));
        let key = number.and_then(|number| self.registry.find(number, line.device.as_str()));
        let queue = key.and_then(|key| self.registry.at(key)).and_then(|device| device.queue());
        queue.is_some_and(|queue| queue.items().any(|item| item.id == push))
    }

    /// Restores a row of outcomes, after the rows of its order and of its counts.
    pub(crate) fn restore_outcomes(
        &mut self,
        (id, shard, number): (MessageId, ShardId, u32),
        key: &[u8],
        value: &[u8],
    ) -> bool {
        let Some(lines) = outcomes::decode(value) else { return false };
        if self.restoring.has_left(id) {
            return false;
        }
        let (adopts, is_own) = (self.jobs.adopts(shard), shard == self.settings.shard);
        let product = self.jobs.at(id).and_then(|job| job.product.clone());
        let timeline = |line: &DeviceStep| {
            let product = product.as_ref().map_or("", ProductKey::as_str);
            crate::timeline_of(self.settings.home, product, line.device.as_str())
        };
        let is_stored = |line: &&DeviceStep| line.step == PushStep::Outcome(Outcome::Stored);
        self.restoring.had_stored(id, lines.iter().filter(is_stored).map(&timeline));
        let Some(job) = self.jobs.at_mut(id).filter(|job| adopts || job.open.is_some()) else {
            self.restoring.stray_row(key);
            return true;
        };
        if adopts {
            let tracked = job.tracked.get_or_insert_default();
            let weight = OutcomeRow::weight(key, value);
            tracked.bytes += weight;
            match is_own {
                true => tracked.next = tracked.next.max(number + 1),
                false => job.foreign.push(key.into()),
            }
            let mut ends = Ends::default();
            let all = lines.iter().filter_map(|line| end_of(line.step.end()?));
            all.for_each(|end| ends[end] += 1);
            job.add(ends);
            for line in &lines {
                if let PushStep::Report(report) = line.step
                    && !job.count_report(timeline(line), report)
                {
                    continue;
                }
                job.count_lines(std::iter::once(line));
            }
            self.jobs.outcome_bytes += weight;
        } else if let Some(open) = &mut job.open {
            open.rows.push(key.into());
        }
        let ended = lines.iter().filter(|line| line.step.end().is_some());
        let ended: Vec<_> = ended.map(&timeline).collect();
        let is_open = self.jobs.at(id).is_some_and(|job| job.open.is_some());
        self.restoring.had_ends((id, shard), is_open, ended);
        true
    }
}

impl LogCalls {
    /// Asks the log to store a row of outcomes.
    pub fn write_outcomes(&mut self, pending: PendingCall, row: OutcomeRow, fx: &mut Effects) {
        let OutcomeRow { key, value } = row;
        let write = model::ports::log::Write::Put { table: Table::Orders, key, value };
        self.write(pending, write, fx);
    }
}
