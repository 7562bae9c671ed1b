//! Reading back: everything that was acknowledged is there, once, in its order, and right.
//!
//! A rival is scanned, rows and messages apart. Of our log all rows are read back as they are at
//! its owner's start (`Engine::restore`), and bodies by pages as its users do, of every group of
//! timelines or of [`GROUPS_PULLED_MAX`] evenly spread. It knows what was made by asking the
//! [`Traffic`] alone.

use super::rival::Rival;
use super::traffic::{Group, Traffic};
use model::ports::log::{PAGE_MESSAGES_MAX, Pull};
use model::timeline::{Message, Placed, Seq, TimelineId};
use std::collections::HashMap;
use std::io;

/// Groups of timelines of our log whose messages are pulled: so many that lost bodies would show,
/// so few that small timelines by the million are read back in time.
pub const GROUPS_PULLED_MAX: usize = 20_000;

/// Results of a scan so far.
pub struct Seen<'a> {
    traffic: &'a Traffic,
    messages: u64,
    rows: u64,
    /// By a timeline's hash: its last place, and the message there.
    timelines: HashMap<u64, (Seq, u64)>,
}

impl<'a> Seen<'a> {
    /// Makes an empty record, but for what was removed on purpose.
    pub fn new(traffic: &'a Traffic) -> Seen<'a> {
        let gone = traffic.groups().flat_map(|(group, timelines)| {
            timelines.iter().map(move |it| (it.home_hash(), (u64::from(group.gone), 0)))
        });
        Seen { traffic, messages: 0, rows: 0, timelines: gone.collect() }
    }

    /// A message is there; each must be shown once.
    pub fn message(&mut self, message: &Message) -> io::Result<()> {
        self.messages += 1;
        let wrong = || io::Error::other(format!("message {} is not as it was", message.id));
        if self.traffic.made(message) { Ok(()) } else { Err(wrong()) }
    }

    /// A row is there. Those of a timeline must be shown in their order; other traffics' are left
    /// out.
    pub fn row(&mut self, timeline: u64, seq: Seq, message: u64) -> io::Result<()> {
        let Some(last) = self.timelines.get_mut(&timeline) else { return Ok(()) };
        self.rows += 1;
        if seq != last.0 + 1 || message <= last.1 || message > self.traffic.messages() {
            return Err(io::Error::other(format!("place {seq} is wrong after {last:?}")));
        }
        *last = (seq, message);
        Ok(())
    }

    /// The rows that were there; an error if any is missing.
    pub fn rows_over(self) -> io::Result<u64> {
        let last = |timeline: &TimelineId| self.timelines[&timeline.home_hash()].0;
        let whole = self.traffic.groups().all(|(group, timelines)| {
            let owed = u64::from(group.gone + group.made);
            timelines.iter().all(|timeline| last(timeline) == owed)
        });
        whole.then_some(self.rows).ok_or_else(|| io::Error::other("acknowledged rows are missing"))
    }

    /// As [`rows_over`](Self::rows_over), when messages were shown too: all of them must have been.
    pub fn over(self) -> io::Result<u64> {
        let (there, made) = (self.messages, self.traffic.messages());
        if there != made {
            return Err(io::Error::other(format!("{there} of {made} messages are there")));
        }
        self.rows_over()
    }
}

/// Pulls every message of groups of timelines, from the first of each; how many there were.
pub fn by_pages(rival: &mut (impl Rival + ?Sized), traffic: &Traffic) -> io::Result<u64> {
    let groups: Vec<_> = traffic.groups().filter(|(group, _)| group.made > 0).collect();
    let mut messages = 0;
    for (group, timelines) in groups.iter().step_by(groups.len() / GROUPS_PULLED_MAX + 1) {
        messages += one(rival, traffic, timelines[0], *group)?;
    }
    Ok(messages)
}

/// Reads back one timeline, which is as `group` says.
fn one(
    rival: &mut (impl Rival + ?Sized),
    traffic: &Traffic,
    timeline: TimelineId,
    group: Group,
) -> io::Result<u64> {
    let lost = |why: &str| Err(io::Error::other(format!("{timeline:?}: {why}")));
    let (mut from, mut rows, mut last) = (0, 0, 0);
    loop {
        let (count_max, bytes_max) = (PAGE_MESSAGES_MAX, usize::MAX);
        let page = rival.page(&Pull { timeline, from, backwards: false, count_max, bytes_max })?;
        let Some(end) = page.last() else { break };
        from = end.seq;
        for Placed { seq, message } in page {
            rows += 1;
            let owed = u64::from(group.gone) + rows;
            if seq != owed || message.id <= last || !traffic.made(&message) {
                return lost(&format!("what is at {seq} was not appended there"));
            }
            last = message.id;
        }
    }
    if rows == u64::from(group.made) {
        return Ok(rows);
    }
    lost(&format!("{} messages were acknowledged, {rows} are there", group.made))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::log::traffic::timelines;

    #[test]
    fn what_is_missing_double_or_wrong_is_an_error() {
        let all = timelines(4);
        let mut traffic = Traffic::new(1, 4, &all);
        let messages = [traffic.append().message, traffic.append().message];
        let shown = |rows: &[(usize, Seq, u64)], count: usize| {
            let mut seen = Seen::new(&traffic);
            messages[..count].iter().try_for_each(|message| seen.message(message))?;
            for &(timeline, seq, message) in rows {
                seen.row(all[timeline].home_hash(), seq, message)?;
            }
            seen.over()
        };
        let whole: Vec<_> = (0..4).flat_map(|at| [(at, 1, 1), (at, 2, 2)]).collect();
        assert_eq!(shown(&whole, 2).unwrap(), 8);
        assert!(shown(&whole, 1).is_err(), "a message is missing");
        assert!(shown(&whole[..7], 2).is_err(), "a row is missing");
        assert!(shown(&whole[1..], 2).is_err(), "the first row is missing");
        let twice: Vec<_> = whole.iter().chain(&whole[7..]).copied().collect();
        assert!(shown(&twice, 2).is_err(), "a row is there twice");
    }
}
