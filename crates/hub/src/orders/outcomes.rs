//! Outcomes of tracked pushes at their devices: lines in rows, and their sums in memory.
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
use crate::reports::WaitingReport;
use crate::{Effects, Hub};
use base::slab::Key;
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

/// About the bytes of a line in a row, for the number of rows that a page needs.
const LINE_BYTES: u64 = 32;

/// Most lines of a page, of one shard.
const LINES_MAX: usize = 1_000;

/// Memory beside a row, and beside a device that reported, in the limit of bytes.
const BESIDE: u64 = 32;

/// State of a tracked push on one shard, in memory.
#[derive(Default)]
pub(crate) struct Tracked {
    /// Number of the next row.
    pub next: u32,
    /// Bytes of its rows.
    pub bytes: u64,
    /// Lines are missing, because they found no room.
    pub is_cut: bool,
    /// The log was asked to store that lines are missing.
    pub is_cut_told: bool,
    /// Removed shards whose rows this one has, each with the number behind its last row.
    pub adopted: BTreeMap<u16, u32>,
    /// Reports that are gathered for one row.
    pub gathered: Vec<WaitingReport>,
    /// Reports that are not on stable storage yet.
    waiting: BTreeSet<(TimelineId, PushReport)>,
    minutes: BTreeMap<u32, [u64; StepKind::ALL.len()]>,
    /// Devices that reported, and what.
    reported: BTreeSet<(TimelineId, PushReport)>,
}

impl Tracked {
    /// Whether a device has reported this.
    pub fn has_reported(&self, device: TimelineId, report: PushReport) -> bool {
        self.reported.contains(&(device, report))
    }

    /// Whether a report of a device waits for the log.
    pub fn is_waiting(&self, device: TimelineId, report: PushReport) -> bool {
        self.waiting.contains(&(device, report))
    }

    /// Whether the log is to store that lines are missing.
    pub fn has_cut_to_tell(&self) -> bool {
        self.is_cut && !self.is_cut_told
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
    /// Whether nothing of the order waits for the log.
    pub fn is_idle(&self) -> bool {
        let gathers = self.tracked.as_ref().is_some_and(|tracked| !tracked.gathered.is_empty());
        self.settled.is_empty() && self.asked == 0 && !gathers
    }

    /// Whether a row about devices is to be written.
    pub fn has_untold(&self) -> bool {
        let has_cut = self.tracked.as_ref().is_some_and(|tracked| tracked.has_cut_to_tell());
        !self.settled.is_empty() || has_cut
    }

    /// Counts lines of a row that is stored, or was before the start.
    fn count_lines<'a>(&mut self, lines: impl Iterator<Item = &'a DeviceStep>) {
        let Some(tracked) = &mut self.tracked else { return };
        lines.for_each(|line| tracked.count(line.step, line.at_ms));
    }

    /// Counts a report of a device, unless it was known. It takes [`BESIDE`] of the limit of bytes.
    fn count_report(&mut self, device: TimelineId, report: PushReport) -> bool {
        let Some(tracked) = &mut self.tracked else { return false };
        let is_new = tracked.reported.insert((device, report));
        if is_new {
            tracked.bytes += BESIDE;
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
    /// Part of the limit of bytes that the row takes.
    pub fn weight(key: &[u8], value: &[u8]) -> u64 {
        (key.len() + value.len()) as u64 + BESIDE
    }
}

impl Jobs {
    /// Whether lines of a tracked push have room; otherwise it is marked.
    pub fn has_room_for_lines(&mut self, id: MessageId) -> bool {
        let has_room = self.outcome_bytes < self.outcome_bytes_max;
        if let Some(tracked) = self.at_mut(id).and_then(|job| job.tracked.as_mut()) {
            tracked.is_cut |= !has_room;
        }
        has_room
    }

    /// A row for these lines of a tracked push, whose bytes are counted from now on.
    pub fn row_of_lines<'a>(
        &mut self,
        id: MessageId,
        lines: impl Iterator<Item = &'a DeviceStep> + Clone,
    ) -> Option<OutcomeRow> {
        let shard = self.shard;
        let tracked = self.at_mut(id)?.tracked.as_mut()?;
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

    /// Notes that a report about a tracked push waits for the log.
    pub fn report_waits(&mut self, id: MessageId, device: TimelineId, waiting: WaitingReport) {
        let Some(report) = waiting.report() else { return };
        if let Some(tracked) = self.at_mut(id).and_then(|job| job.tracked.as_mut()) {
            tracked.waiting.insert((device, report));
            tracked.gathered.push(waiting);
            self.gathered += 1;
        }
    }

    /// Handles the log's answer to a report about a tracked push. False: it counts nothing.
    pub fn report_told(
        &mut self,
        id: MessageId,
        (device, report): (TimelineId, PushReport),
        line: &DeviceStep,
        is_stored: bool,
    ) -> bool {
        let Some(job) = self.at_mut(id) else { return false };
        if let Some(tracked) = &mut job.tracked {
            tracked.waiting.remove(&(device, report));
        }
        let is_new = is_stored && job.count_report(device, report);
        if is_new {
            job.count_lines(std::iter::once(line));
            self.outcome_bytes += BESIDE;
        }
        is_new
    }

    /// Reports of the device with this key that are gathered for a row.
    pub fn gathered_of(&self, key: Key) -> usize {
        let tracked = self.jobs.values().filter_map(|job| job.tracked.as_ref());
        tracked.flat_map(|it| &it.gathered).filter(|report| report.key() == key).count()
    }

    /// Number of reports that are gathered for rows.
    pub fn gathered(&self) -> usize {
        self.gathered
    }

    /// Whether lines of a tracked push are missing.
    pub fn is_cut(&self, id: MessageId) -> bool {
        let tracked = self.at(id).and_then(|job| job.tracked.as_ref());
        tracked.is_some_and(|tracked| tracked.is_cut)
    }

    /// Whether the outcome of a push at each device is stored.
    pub fn is_tracked(&self, id: MessageId) -> bool {
        self.at(id).is_some_and(|job| job.tracked.is_some())
    }

    /// The oldest tracked push that is over and need not stay because of another order.
    pub fn oldest_tracked(&self) -> Option<MessageId> {
        self.tracked.iter().copied().find(|&id| self.may_go(id))
    }

    /// Whether a tracked push is over here and need not stay because of another order.
    pub fn may_go(&self, id: MessageId) -> bool {
        let is_over = self.at(id).is_some_and(|job| job.open.is_none() && job.is_idle());
        is_over && !self.has_cancel(id)
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
    /// The shard that wrote the rows.
    origin: ShardId,
    from: Place,
    kind: Option<StepKind>,
    count: usize,
    /// Rows asked for.
    rows: usize,
}

/// A place among the lines of a push that one shard wrote: a row, by its number, and a line in it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Place {
    number: u32,
    line: u16,
}

impl Place {
    fn of(packed: u64) -> Place {
        Place { number: (packed >> 16) as u32, line: packed as u16 }
    }

    fn packed(self) -> u64 {
        u64::from(self.number) << 16 | u64::from(self.line)
    }

    /// The place of a row's line.
    fn at(number: u32, line: usize) -> Place {
        Place { number, line: u16::try_from(line).expect("a row has few lines") }
    }
}

/// The page of lines, and what a start makes of rows.
impl Hub {
    /// Answers with the outcomes of a push by minute.
    pub(crate) fn minutes(&self, push: MessageId, product: Option<&ProductKey>) -> PushAnswer {
        let Some(job) = self.jobs.shown(push, product) else {
            return PushAnswer::Minutes(None);
        };
        let Some(tracked) = &job.tracked else { return PushAnswer::NotTracked };
        let all = tracked.minutes.iter();
        PushAnswer::Minutes(Some(
            all.map(|(&minute, &counts)| PushMinute { minute, counts }).collect(),
        ))
    }

    /// Reads a page of the outcomes of a push at this shard's devices, and answers with it.
    pub(crate) fn list_outcomes(
        &mut self,
        reply: u64,
        (push, product): (MessageId, Option<&ProductKey>),
        after: &[u64],
        (kind, count): (Option<StepKind>, u32),
        fx: &mut Effects,
    ) {
        let job = self.jobs.shown(push, product);
        let answer = match job.map(|job| job.tracked.is_some()) {
            None => PushAnswer::Outcomes(None),
            Some(false) => PushAnswer::NotTracked,
            Some(true) if !self.log.has_room_to_pull() => PushAnswer::Busy,
            Some(true) => {
                let question = self.page_question(reply, push, after, (kind, count as usize));
                let (origin, first) = (question.origin, question.from.number);
                let before = first.checked_sub(1);
                let read = Read::Rows {
                    table: Table::Orders,
                    prefix: order::prefix_of_outcomes(push, origin),
                    after: before.map(|it| order::key(push, Kind::Outcomes(origin, it))),
                    count: question.rows,
                };
                return self.log.ask(PendingCall::Page(question.into()), Call::Read(read), fx);
            }
        };
        fx.answers.push((reply, answer));
    }

    /// The rows of a page. Those that a removed shard wrote come before this shard's own, as only
    /// the own ones become more. Each shard that wrote rows has a place of its own, so a place
    /// holds also after a change of the number of shards.
    fn page_question(
        &self,
        reply: u64,
        push: MessageId,
        after: &[u64],
        (kind, count): (Option<StepKind>, usize),
    ) -> PageQuestion {
        let place = |shard: u16| Place::of(after.get(usize::from(shard)).copied().unwrap_or(0));
        let tracked = self.jobs.at(push).and_then(|job| job.tracked.as_ref());
        let mut adopted = tracked.iter().flat_map(|tracked| &tracked.adopted);
        let unread = adopted.find(|&(&shard, &next)| place(shard).number < next);
        let origin = unread.map_or(self.settings.shard, |(&shard, _)| ShardId(shard));
        let count = count.min(LINES_MAX);
        let all = tracked.map_or(0, |it| {
            u64::from(it.next) + it.adopted.values().map(|&next| u64::from(next)).sum::<u64>()
        });
        let row_bytes = tracked.and_then(|it| it.bytes.checked_div(all)).unwrap_or(0).max(1);
        let rows = match kind {
            // Most lines may be of another kind.
            Some(_) => ROWS_MAX,
            None => {
                (count as u64 * LINE_BYTES).div_ceil(row_bytes).clamp(1, ROWS_MAX as u64) as usize
            }
        };
        PageQuestion { reply, push, origin, from: place(origin.0), kind, count, rows }
    }

    /// Answers with a page of lines, from the rows that the log read.
    pub(crate) fn page_read(
        &mut self,
        question: PageQuestion,
        result: Result<Done, StoreError>,
        fx: &mut Effects,
    ) {
        let PageQuestion { reply, push, origin, from, kind, count, rows: asked } = question;
        let Ok(Done::Rows(rows)) = result else {
            return fx.answers.push((reply, PushAnswer::Busy));
        };
        let is_own = origin == self.settings.shard;
        let (mut lines, mut end, mut more) = (Vec::new(), from, rows.len() == asked || !is_own);
        'rows: for (key, value) in &rows {
            let Some((_, Kind::Outcomes(_, number))) = order::kind(key) else { continue };
            for (at, line) in outcomes::decode(value).unwrap_or_default().into_iter().enumerate() {
                if Place::at(number, at) < from {
                    continue;
                }
                if lines.len() == count {
                    more = true;
                    break 'rows;
                }
                end = Place::at(number, at + 1);
                let is_wanted = kind.is_none_or(|kind| line.step.kind() == kind);
                if is_wanted && self.is_so(push, &line) {
                    lines.push((end.packed(), line));
                }
            }
            // Rows never change: the next line is in a later one.
            end = Place::at(number + 1, 0);
        }
        let job = self.jobs.at(push);
        let tracked = job.and_then(|it| it.tracked.as_ref());
        let last = tracked.and_then(|it| it.adopted.get(&origin.0));
        if let Some(&last) = last.filter(|_| rows.is_empty()) {
            // The rows were removed meanwhile.
            end = Place::at(last, 0);
        }
        let is_cut = self.jobs.is_cut(push);
        let (shard, from, end) = (origin.0, from.packed(), end.packed());
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
            let Some(tracked) = &mut job.tracked else {
                self.restoring.stray_row(key);
                return true;
            };
            let before = tracked.bytes;
            tracked.bytes += OutcomeRow::weight(key, value);
            let next = match is_own {
                true => &mut tracked.next,
                false => tracked.adopted.entry(shard.0).or_default(),
            };
            *next = (*next).max(number + 1);
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
            let after = job.tracked.as_ref().map_or(before, |tracked| tracked.bytes);
            self.jobs.outcome_bytes += after - before;
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
