//! Outcomes of a tracked push at devices, as the value of a row.
//!
//! ```text
//!  version 1, Unix ms (8), then for each line:
//!  what (1), ms after the first (4), device
//!
//!  what: 0 stored, 1 delivered, 2 expired, 3 opened, 4 dismissed, from 16 on rejected, by reason
//! ```

use super::bytes::{self, text};
use base::bytes::ByteReader;
use model::ports::pushes::DeviceStep;
use model::push::{Outcome, PushReport, PushStep, Rejection};

const VERSION: u8 = 1;
const REJECTED: u8 = 16;

const STEPS: [PushStep; 5] = [
    PushStep::Outcome(Outcome::Stored),
    PushStep::Outcome(Outcome::Delivered),
    PushStep::Outcome(Outcome::Expired),
    PushStep::Report(PushReport::Opened),
    PushStep::Report(PushReport::Dismissed),
];

fn code(step: PushStep) -> u8 {
    let at = match step {
        PushStep::Outcome(Outcome::Rejected(why)) => {
            let at = Rejection::ALL.iter().position(|it| *it == why);
            at.map(|at| at + usize::from(REJECTED))
        }
        step => STEPS.iter().position(|it| *it == step),
    };
    at.expect("every step has a place") as u8
}

fn step(code: u8) -> Option<PushStep> {
    match code.checked_sub(REJECTED) {
        Some(at) => {
            let why = Rejection::ALL.get(usize::from(at))?;
            Some(PushStep::Outcome(Outcome::Rejected(*why)))
        }
        None => STEPS.get(usize::from(code)).copied(),
    }
}

/// The value of a row of lines.
pub(crate) fn encode<'a>(lines: impl Iterator<Item = &'a DeviceStep> + Clone) -> Box<[u8]> {
    let first_ms = lines.clone().map(|line| line.at_ms).min().unwrap_or(0);
    let mut out = vec![VERSION];
    out.extend_from_slice(&first_ms.to_le_bytes());
    for line in lines {
        out.push(code(line.step));
        let after_ms = u32::try_from(line.at_ms - first_ms).unwrap_or(u32::MAX);
        out.extend_from_slice(&after_ms.to_le_bytes());
        text(line.device.as_str(), &mut out);
    }
    out.into()
}

/// Decodes a row of lines.
pub(crate) fn decode(value: &[u8]) -> Option<Vec<DeviceStep>> {
    let mut from = ByteReader::of(VERSION, value)?;
    let (first_ms, mut lines) = (from.u64()?, Vec::new());
    while !from.is_empty() {
        let (step, after_ms) = (step(from.byte()?)?, from.u32()?);
        let (device, at_ms) = (bytes::device(&mut from)?, first_ms.checked_add(after_ms.into())?);
        lines.push(DeviceStep { device, step, at_ms });
    }
    Some(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::id::DeviceId;

    #[test]
    fn lines_come_back_as_they_went_and_no_half_of_one_does() {
        let rejected = Rejection::ALL.map(|why| PushStep::Outcome(Outcome::Rejected(why)));
        let steps = STEPS.into_iter().chain(rejected).enumerate();
        let lines: Vec<_> = steps
            .map(|(at, step)| {
                let device = DeviceId::parse(&format!("d-{at}")).expect("allowed");
                DeviceStep { device, step, at_ms: 1_800_000_000_000 + (at as u64 ^ 5) * 1_000 }
            })
            .collect();
        let value = encode(lines.iter());
        assert_eq!(decode(&value).as_ref(), Some(&lines));
        let mut ends = vec![9];
        for line in &lines {
            ends.push(ends[ends.len() - 1] + 6 + line.device.as_str().len());
        }
        for cut in 0..value.len() {
            assert_eq!(decode(&value[..cut]).is_some(), ends.contains(&cut), "{cut}");
        }
        assert_eq!(decode(&[&value[..9], &[5], &[0; 4], &[1, b'd']].concat()), None, "no step");
        assert_eq!(decode(&[&value[..9], &[27], &[0; 4], &[1, b'd']].concat()), None, "no reason");
    }
}
