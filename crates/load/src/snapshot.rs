//! What a fleet has seen so far: counts, latencies, and the proof that nothing was lost.
//!
//! Each thread keeps one of these for its pilots; they are merged when asked, histograms included.
//! Latencies are microseconds. A shard reads its clock once a turn, so a latency is the difference
//! of two turns: the sending turn's time (or the planned time, where a plan sets it) and the
//! receiving turn's. What a turn takes is its error; `turn_us_max` of the threads bounds it.

use crate::effort::ThreadUse;
use crate::tally::{Codes, Ends};
use hdrhistogram::Histogram;
use std::fmt;
use std::time::Duration;

/// What a fleet has seen so far.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Time since the first thread began.
    pub elapsed: Duration,
    /// Pilots in the plan.
    pub planned: u64,
    /// Calls made, those of returning pilots included.
    pub attempts: u64,
    /// Calls of pilots that had been connected or refused before.
    pub reconnects: u64,
    /// Calls under way now (layers included).
    pub connecting: u64,
    /// Calls that came through, layers included.
    pub established: u64,
    /// Binds under way now.
    pub asking: u64,
    /// Binds accepted.
    pub bound: u64,
    /// Binds that went on with an earlier session.
    pub resumed: u64,
    /// Devices online now.
    pub online_now: u64,
    /// Pilots that will not come back.
    pub over: u64,
    /// Calls that did not come through, by reason. `timed_out`: no answer in the plan's time.
    pub connect_failed: Ends,
    /// Connections that ended before the Bind was answered, by reason.
    pub bind_failed: Ends,
    /// Binds refused, by the protocol's code.
    pub refused: Codes,
    /// Sessions that the server ended in words, by the protocol's code.
    pub kicked: Codes,
    /// Other ends of bound connections, by reason. `redirected`: asked to go away and went.
    pub closed: Ends,
    /// Times a server asked a pilot to leave and come back.
    pub go_aways: u64,
    /// Heartbeats sent.
    pub pings: u64,
    /// Heartbeats answered in time.
    pub pongs: u64,
    /// Heartbeats answered after the plan's timeout.
    pub late_pongs: u64,
    /// Heartbeats whose connection ended before the answer.
    pub lost_pings: u64,
    /// Heartbeats under way now.
    pub open_pings: u64,
    /// Answers to no heartbeat.
    pub unasked_pongs: u64,
    /// Heartbeats that had no answer in the plan's timeout; they are late, lost or open.
    pub unanswered: u64,
    /// Heartbeats not sent at their time because the last one was still under way.
    pub skipped_beats: u64,
    /// Messages received.
    pub messages: u64,
    /// Messages received that may have been received before.
    pub repeated_messages: u64,
    /// Bytes of their bodies.
    pub message_bytes: u64,
    /// Pulls answered.
    pub pulled: u64,
    /// Reports sent.
    pub reports: u64,
    /// Reports the server took responsibility for.
    pub taken_reports: u64,
    /// Reports it did not take, by the protocol's code.
    pub refused_reports: Codes,
    /// Reports whose connection ended before the answer.
    pub lost_reports: u64,
    /// Reports under way now.
    pub open_reports: u64,
    /// Bytes received, layers included.
    pub bytes_in: u64,
    /// Bytes sent, layers included.
    pub bytes_out: u64,
    /// From the call (in open loop: its planned time) until layers are open, microseconds.
    pub connect_us: Histogram<u64>,
    /// From the Bind to its acceptance, microseconds.
    pub bind_us: Histogram<u64>,
    /// From heartbeat (with `Heartbeat::Rate`: its planned time) to answer, microseconds.
    pub heartbeat_us: Histogram<u64>,
    /// From Report to acknowledgement, microseconds; of a device's Reports under way one is timed.
    pub report_us: Histogram<u64>,
    /// From the stamp in a message's body ([`crate::stamp`]) to its arrival, microseconds.
    pub push_us: Histogram<u64>,
    /// Answered requests (Binds and heartbeats) a second, of each thread in each tenth of one.
    pub requests_per_s: Histogram<u64>,
    /// What each thread spent.
    pub threads: Vec<ThreadUse>,
    /// Threads that broke off; what they had counted is missing.
    pub lost_threads: u64,
}

impl Default for Snapshot {
    fn default() -> Self {
        let histogram = || Histogram::new(3).expect("three digits are a valid precision");
        Snapshot {
            elapsed: Duration::ZERO,
            planned: 0,
            attempts: 0,
            reconnects: 0,
            connecting: 0,
            established: 0,
            asking: 0,
            bound: 0,
            resumed: 0,
            online_now: 0,
            over: 0,
            connect_failed: Ends::default(),
            bind_failed: Ends::default(),
            refused: Codes::default(),
            kicked: Codes::default(),
            closed: Ends::default(),
            go_aways: 0,
            pings: 0,
            pongs: 0,
            late_pongs: 0,
            lost_pings: 0,
            open_pings: 0,
            unasked_pongs: 0,
            unanswered: 0,
            skipped_beats: 0,
            messages: 0,
            repeated_messages: 0,
            message_bytes: 0,
            pulled: 0,
            reports: 0,
            taken_reports: 0,
            refused_reports: Codes::default(),
            lost_reports: 0,
            open_reports: 0,
            bytes_in: 0,
            bytes_out: 0,
            connect_us: histogram(),
            bind_us: histogram(),
            heartbeat_us: histogram(),
            report_us: histogram(),
            push_us: histogram(),
            requests_per_s: histogram(),
            threads: Vec::new(),
            lost_threads: 0,
        }
    }
}

/// Longest latency that is told apart, microseconds: an hour. Longer ones count as one.
const LATENCY_US_MAX: u64 = 3_600 * 1_000_000;

/// Records a latency or a rate. The histogram grows with the largest.
pub(crate) fn note(histogram: &mut Histogram<u64>, value: u64) {
    let value = value.min(LATENCY_US_MAX);
    histogram.record(value).expect("a histogram that resizes takes any value");
}

/// A sum that must agree: what it is about, the whole, and its parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Account {
    /// Name of the whole.
    pub name: &'static str,
    /// The whole.
    pub whole: u64,
    /// Its parts.
    pub parts: Vec<(&'static str, u64)>,
}

impl Account {
    /// Whether the parts add up to the whole.
    pub fn agrees(&self) -> bool {
        self.whole == self.parts.iter().map(|(_, count)| count).sum::<u64>()
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.whole, self.name)?;
        for (at, (name, count)) in self.parts.iter().enumerate() {
            write!(f, " {} {count} {name}", if at == 0 { "=" } else { "+" })?;
        }
        let verdict = if self.agrees() { "agrees" } else { "DOES NOT AGREE" };
        write!(f, " ({verdict})")
    }
}

impl Snapshot {
    /// Whether every attempt, Bind, heartbeat and Report has exactly one outcome or is open.
    pub fn conserved(&self) -> bool {
        self.lost_threads == 0 && self.accounts().iter().all(Account::agrees)
    }

    /// The sums behind [`conserved`](Self::conserved): attempts, bound, heartbeats, Reports.
    pub fn accounts(&self) -> [Account; 4] {
        let account = |name, whole, parts: &[_]| Account { name, whole, parts: parts.to_vec() };
        [
            account(
                "attempts",
                self.attempts,
                &[
                    ("connecting", self.connecting),
                    ("not connected", self.connect_failed.sum()),
                    ("asking", self.asking),
                    ("refused", self.refused.sum()),
                    ("ended unbound", self.bind_failed.sum()),
                    ("bound", self.bound),
                ],
            ),
            account(
                "bound",
                self.bound,
                &[
                    ("online", self.online_now),
                    ("kicked", self.kicked.sum()),
                    ("ended", self.closed.sum()),
                ],
            ),
            account(
                "heartbeats",
                self.pings,
                &[
                    ("answered", self.pongs),
                    ("late", self.late_pongs),
                    ("lost", self.lost_pings),
                    ("open", self.open_pings),
                ],
            ),
            account(
                "reports",
                self.reports,
                &[
                    ("taken", self.taken_reports),
                    ("refused", self.refused_reports.sum()),
                    ("lost", self.lost_reports),
                    ("open", self.open_reports),
                ],
            ),
        ]
    }

    /// Requests answered: Binds, whatever the answer, and heartbeats.
    pub fn requests(&self) -> u64 {
        self.bound + self.refused.sum() + self.pongs + self.late_pongs
    }

    /// Whether a thread was too busy for the figures to be the target's alone.
    pub fn is_saturated(&self) -> bool {
        self.threads.iter().any(ThreadUse::is_saturated)
    }

    /// Whether no pilot is connected or will be.
    pub fn is_over(&self) -> bool {
        self.planned > 0 && self.over == self.planned
    }

    /// Adds what another thread (or fleet) has seen. `elapsed` becomes the longer one.
    pub fn merge(&mut self, other: &Snapshot) {
        self.elapsed = self.elapsed.max(other.elapsed);
        let sums = [
            (&mut self.planned, other.planned),
            (&mut self.attempts, other.attempts),
            (&mut self.reconnects, other.reconnects),
            (&mut self.connecting, other.connecting),
            (&mut self.established, other.established),
            (&mut self.asking, other.asking),
            (&mut self.bound, other.bound),
            (&mut self.resumed, other.resumed),
            (&mut self.online_now, other.online_now),
            (&mut self.over, other.over),
            (&mut self.go_aways, other.go_aways),
            (&mut self.pings, other.pings),
            (&mut self.pongs, other.pongs),
            (&mut self.late_pongs, other.late_pongs),
            (&mut self.lost_pings, other.lost_pings),
            (&mut self.open_pings, other.open_pings),
            (&mut self.unasked_pongs, other.unasked_pongs),
            (&mut self.unanswered, other.unanswered),
            (&mut self.skipped_beats, other.skipped_beats),
            (&mut self.messages, other.messages),
            (&mut self.repeated_messages, other.repeated_messages),
            (&mut self.message_bytes, other.message_bytes),
            (&mut self.pulled, other.pulled),
            (&mut self.reports, other.reports),
            (&mut self.taken_reports, other.taken_reports),
            (&mut self.lost_reports, other.lost_reports),
            (&mut self.open_reports, other.open_reports),
            (&mut self.bytes_in, other.bytes_in),
            (&mut self.bytes_out, other.bytes_out),
            (&mut self.lost_threads, other.lost_threads),
        ];
        sums.into_iter().for_each(|(mine, theirs)| *mine += theirs);
        self.connect_failed.add(&other.connect_failed);
        self.bind_failed.add(&other.bind_failed);
        self.closed.add(&other.closed);
        self.refused.add(&other.refused);
        self.kicked.add(&other.kicked);
        self.refused_reports.add(&other.refused_reports);
        let histograms = [
            (&mut self.connect_us, &other.connect_us),
            (&mut self.bind_us, &other.bind_us),
            (&mut self.heartbeat_us, &other.heartbeat_us),
            (&mut self.report_us, &other.report_us),
            (&mut self.push_us, &other.push_us),
            (&mut self.requests_per_s, &other.requests_per_s),
        ];
        for (mine, theirs) in histograms {
            mine.add(theirs).expect("histograms that resize take any value");
        }
        self.threads.extend_from_slice(&other.threads);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::close::CloseReason;

    #[test]
    fn a_single_late_answer_is_kept() {
        let mut seen = Snapshot::default();
        [5, 16_000_000].into_iter().for_each(|us| note(&mut seen.heartbeat_us, us));
        let mut all = Snapshot::default();
        all.merge(&seen);
        assert!(all.heartbeat_us.max() >= 16_000_000, "{}", all.heartbeat_us.max());
    }

    #[test]
    fn sums_are_checked_and_shown() {
        let mut seen = Snapshot { attempts: 3, bound: 1, online_now: 1, ..Snapshot::default() };
        seen.refused.count(30);
        assert!(!seen.conserved());
        seen.connect_failed.count(CloseReason::ConnectRefused);
        assert!(seen.conserved());
        let proof = "3 attempts = 0 connecting + 1 not connected + 0 asking + 1 refused + 0 ended \
                     unbound + 1 bound (agrees)";
        assert_eq!(seen.accounts()[0].to_string(), proof);
        seen.merge(&seen.clone());
        assert!(seen.conserved() && seen.attempts == 6);
        seen.pings += 1;
        assert!(seen.accounts()[2].to_string().ends_with("(DOES NOT AGREE)"));
    }
}
