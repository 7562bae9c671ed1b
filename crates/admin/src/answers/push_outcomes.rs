//! Outcomes of a tracked push.

use super::pushes::rejection;
use crate::texts::{Decimal, OutcomesPlace, RejectionWord, StepWord};
use model::id::MessageId;
use model::ports::pushes::{DeviceStep, OutcomePart, PushMinute};
use model::push::{PushStep, StepKind};
use schemars::JsonSchema;
use serde::Serialize;

/// Outcomes of a push at devices: a page.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PushDevices")]
pub(crate) struct OutcomesPage {
    /// Id of the push, a decimal number of 64 bits as text.
    #[schemars(with = "Decimal")]
    id: String,
    /// The lines, those of a shard in the order in which they were stored.
    devices: Vec<Line>,
    /// Where to continue: `after` of the next request. Never null, since more may happen.
    #[schemars(with = "OutcomesPlace")]
    next: String,
    /// Whether there are more lines already.
    more: bool,
    /// Whether there was no room for some lines ([limits] outcomes_bytes_max).
    cut: bool,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PushDevice")]
struct Line {
    /// The device.
    device: String,
    /// Outcome of the push. stored: it is queued. cancelled: recalled by a cancel. opened,
    /// dismissed: reported by the device. The others end it.
    #[schemars(with = "StepWord")]
    outcome: &'static str,
    /// Why it was rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<RejectionWord>")]
    reason: Option<&'static str>,
    /// When, Unix milliseconds.
    at_ms: u64,
}

impl Line {
    fn new(line: &DeviceStep) -> Line {
        let reason = match line.step {
            PushStep::Outcome(outcome) => rejection(outcome),
            PushStep::Report(_) => None,
        };
        let (device, outcome) = (line.device.as_str().into(), line.step.kind().name());
        Line { device, outcome, reason, at_ms: line.at_ms }
    }
}

impl OutcomesPage {
    /// The earliest lines of all parts, at most so many. Each part goes on behind its last line,
    /// the others where the page before ended.
    pub(crate) fn new(
        push: MessageId,
        mut places: Vec<u64>,
        parts: &[OutcomePart],
        count: usize,
    ) -> OutcomesPage {
        let shards = parts.iter().map(|part| usize::from(part.shard) + 1).max().unwrap_or(1);
        places.resize(shards.max(places.len()), 0);
        let mut devices = Vec::new();
        let mut taken = vec![0; parts.len()];
        while devices.len() < count {
            let heads = parts.iter().zip(&taken).enumerate();
            let heads = heads.filter_map(|(at, (part, &taken))| Some((at, part.lines.get(taken)?)));
            let Some((at, (_, line))) = heads.min_by_key(|(_, (_, line))| line.at_ms) else {
                break;
            };
            devices.push(Line::new(line));
            taken[at] += 1;
        }
        let mut more = false;
        for (part, &taken) in parts.iter().zip(&taken) {
            let is_whole = taken == part.lines.len();
            more |= part.more || !is_whole;
            let last = taken.checked_sub(1).and_then(|last| part.lines.get(last));
            places[usize::from(part.shard)] = match is_whole {
                true => part.end,
                false => last.map_or(part.from, |(place, _)| *place),
            };
        }
        let places: Vec<_> = places.iter().map(|place| format!("{place:x}")).collect();
        let cut = parts.iter().any(|part| part.is_cut);
        OutcomesPage { id: push.0.to_string(), devices, next: places.join("-"), more, cut }
    }
}

/// Outcomes of a push, by minute.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PushMinutes")]
pub(crate) struct Minutes {
    /// Id of the push, a decimal number of 64 bits as text.
    #[schemars(with = "Decimal")]
    id: String,
    /// Minutes in which something happened, the first one first.
    minutes: Vec<Minute>,
}

/// How many devices, in a minute.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PushMinute")]
struct Minute {
    /// When it began, Unix milliseconds.
    at_ms: u64,
    /// Devices that stored it.
    stored: u64,
    /// Devices that acknowledged it.
    delivered: u64,
    /// Devices for which it expired.
    expired: u64,
    /// Devices at which it was rejected, or given up.
    rejected: u64,
    /// Devices from which it was recalled.
    cancelled: u64,
    /// Devices whose user opened it.
    opened: u64,
    /// Devices whose user dismissed it.
    dismissed: u64,
}

impl Minutes {
    pub(crate) fn new(push: MessageId, minutes: &[PushMinute]) -> Minutes {
        let minute = |it: &PushMinute| {
            let of = |kind: StepKind| it.counts[kind as usize];
            Minute {
                at_ms: u64::from(it.minute) * 60_000,
                stored: of(StepKind::Stored),
                delivered: of(StepKind::Delivered),
                expired: of(StepKind::Expired),
                rejected: of(StepKind::Rejected),
                cancelled: of(StepKind::Cancelled),
                opened: of(StepKind::Opened),
                dismissed: of(StepKind::Dismissed),
            }
        };
        Minutes { id: push.0.to_string(), minutes: minutes.iter().map(minute).collect() }
    }
}

/// A report that was taken.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ReportTaken {
    /// Always true.
    pub(crate) taken: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::id::DeviceId;
    use model::push::PushReport;

    fn part(shard: u16, times: &[u64], end: u64, more: bool) -> OutcomePart {
        let line = |(at, &at_ms): (usize, &u64)| {
            let device = DeviceId::parse(&format!("d{shard}-{at}")).expect("a name");
            let step = PushStep::Report(PushReport::Opened);
            (at as u64 + 101, DeviceStep { device, step, at_ms })
        };
        let lines = times.iter().enumerate().map(line).collect();
        OutcomePart { shard, from: 100, lines, end, more, is_cut: shard == 1 }
    }

    #[test]
    fn a_page_takes_the_earliest_lines_and_each_shard_goes_on_behind_its_own() {
        let parts =
            [part(0, &[5, 6, 9], 110, false), part(2, &[1], 103, false), part(1, &[], 120, true)];
        let names = |page: &OutcomesPage| -> Vec<String> {
            page.devices.iter().map(|line| line.device.clone()).collect()
        };
        let page = OutcomesPage::new(MessageId(7), vec![], &parts, 2);
        assert_eq!(names(&page), ["d2-0", "d0-0"]);
        assert_eq!((&*page.next, page.more, page.cut), ("65-78-67", true, true));
        let page = OutcomesPage::new(MessageId(7), vec![], &parts, 1);
        assert_eq!((&*page.next, page.more), ("64-78-67", true));
        let all = OutcomesPage::new(MessageId(7), vec![9, 9, 9, 9], &parts[..2], 9);
        assert_eq!(names(&all), ["d2-0", "d0-0", "d0-1", "d0-2"]);
        assert_eq!((&*all.next, all.more, all.cut), ("6e-9-67-9", false, false));
    }
}
