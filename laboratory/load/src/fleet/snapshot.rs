//! Snapshot of what a fleet has seen: counts, times, and the proof that nothing was lost.
//!
//! Each thread keeps one of these for its virtual clients; they are merged when asked,
//! distributions included. Times are microseconds. A shard reads its clock once a turn, so a time
//! is the difference of two turns: the sending turn's time (raw) or the planned time (corrected),
//! and the receiving turn's. The duration of a turn is its error; `turn_us_max` of the threads
//! bounds it.

use super::effort::ThreadUse;
use lab::cause::{Causes, Phase};
use lab::run::{Balance, Counts};
use lab::timing::Timings;
use std::collections::BTreeMap;
use std::time::Duration;

/// Declares the counts of a snapshot that add up when snapshots are merged.
macro_rules! counts {
    ($($name:ident $meaning:literal;)+) => {
        /// A fleet's counts so far.
        #[derive(Clone, Debug, Default)]
        pub struct Snapshot {
            /// Time since the first thread began.
            pub elapsed: Duration,
            /// Ends by phase and cause.
            pub causes: Causes,
            /// Refusals and kicks, by the protocol's word and code, and what else ends tell.
            pub codes: Codes,
            /// Times.
            pub timings: Timings,
            /// Time that each thread spent.
            pub threads: Vec<ThreadUse>,
            $(#[doc = $meaning] pub $name: u64,)+
        }

        impl Snapshot {
            fn add_counts(&mut self, other: &Snapshot) {
                $(self.$name += other.$name;)+
            }
        }
    };
}

counts! {
    planned "Planned clients.";
    attempts "Connection attempts, including reconnects.";
    reconnects "Connection attempts of clients that had been connected or refused before.";
    connecting "Connection attempts in progress, including TLS and WebSocket.";
    established "Connections established, including TLS and WebSocket.";
    asking "Binds in progress.";
    bound "Binds accepted.";
    resumed "Binds that resumed a session.";
    online_now "Clients online now.";
    over "Clients that ended and do not reconnect.";
    go_aways "Times the server asked a client to reconnect.";
    subscribed "Subscriptions granted.";
    not_subscribed "Subscriptions refused.";
    lowered "Subscriptions granted at a lower QoS than requested.";
    lost_sessions "Binds for which the server had lost the session.";
    pings "Heartbeats sent.";
    pongs "Heartbeats answered in time.";
    late_pongs "Heartbeats answered after the plan's timeout.";
    lost_pings "Heartbeats whose connection ended before the answer.";
    cut_pings "Heartbeats whose connection the plan ended before the answer.";
    open_pings "Heartbeats without an answer yet.";
    unasked_pongs "Heartbeat answers without a heartbeat.";
    unanswered "Heartbeats not answered within the plan's timeout: late, lost or open.";
    skipped_beats "Heartbeats not sent because the previous one was unanswered.";
    sent "Messages sent.";
    taken "Messages acknowledged by the server.";
    refused "Messages refused by the server.";
    lost "Messages whose connection ended before the answer.";
    cut "Messages whose connection the plan ended before the answer.";
    open "Messages without an answer yet.";
    messages "Messages received.";
    repeated "Duplicate messages received.";
    changed "Messages received with a changed body.";
    foreign "Messages received whose body is not from a client of this run.";
    earlier "Messages received from an earlier run.";
    fetched "Messages received by the client's own request.";
    taken_marks "Sum of the marks of acknowledged messages.";
    received_marks "Sum of the marks of messages received for the first time.";
    fell_behind "Binds of clients with stored messages.";
    caught_up "Of them, clients that have received everything.";
    left_behind "Of them, clients whose connection ended first.";
    behind_now "Of them, clients still receiving.";
    astray "Messages received by a client that had not subscribed to their topic.";
    other_qos "Messages received at the wrong QoS.";
    other_topic "Messages received under another topic than published.";
    retained_live "Messages received with RETAIN but published without it.";
    early_dup "Messages received with DUP that had not been sent before.";
    other_sender "Messages received with the wrong sender.";
    overcounted "Acknowledgements of more stanzas than were sent.";
    unjudged "Messages received whose order and uniqueness are unknown.";
    missing "Messages overdue at a receiver by more than a second, by sequence number.";
    skipped "Messages that the server reported as skipped for a receiver.";
    reordered "Messages received after a later one of the same sender.";
    message_bytes "Bytes of the bodies of messages received.";
    pulled "Pulls answered.";
    asked "Requests sent.";
    answered "Requests answered.";
    answered_badly "Of them, answers with a status above 399.";
    lost_requests "Requests whose connection ended before the answer.";
    cut_requests "Requests whose connection the plan ended before the answer.";
    open_requests "Requests without an answer yet.";
    dropped "Planned actions that the tester could not perform in time.";
    unsent "Planned messages not sent: no client was online or had room.";
    thawed "Clients that continued after a freeze or after they had stopped reading.";
    bytes_in "Bytes received, including TLS and WebSocket.";
    bytes_out "Bytes sent, including TLS and WebSocket.";
    lost_threads "Threads that failed; their counts are missing.";
}

impl Snapshot {
    /// Whether every attempt, Bind, heartbeat, message and request has exactly one outcome or is
    /// open.
    pub fn conserved(&self) -> bool {
        self.lost_threads == 0 && self.accounts().iter().all(Balance::agrees)
    }

    /// The sums behind [`conserved`](Self::conserved).
    pub fn accounts(&self) -> [Balance; 6] {
        let in_phase = |wanted: Phase| {
            let ends = self.causes.iter().filter(|(phase, _, _)| *phase == wanted);
            ends.map(|(_, _, count)| count).sum::<u64>()
        };
        [
            account(
                "attempts",
                self.attempts,
                &[
                    ("connecting", self.connecting),
                    ("ended while connecting", in_phase(Phase::Connect)),
                    ("ended while layers opened", in_phase(Phase::Layers)),
                    ("asking", self.asking),
                    ("ended unbound", in_phase(Phase::Bind)),
                    ("bound", self.bound),
                ],
            ),
            account(
                "bound",
                self.bound,
                &[("online", self.online_now), ("ended", in_phase(Phase::Online))],
            ),
            account(
                "heartbeats",
                self.pings,
                &[
                    ("answered", self.pongs),
                    ("late", self.late_pongs),
                    ("lost", self.lost_pings),
                    ("cut", self.cut_pings),
                    ("open", self.open_pings),
                ],
            ),
            account(
                "messages",
                self.sent,
                &[
                    ("taken", self.taken),
                    ("refused", self.refused),
                    ("lost", self.lost),
                    ("cut", self.cut),
                    ("open", self.open),
                ],
            ),
            account(
                "inboxes",
                self.fell_behind,
                &[
                    ("caught up", self.caught_up),
                    ("ended before", self.left_behind),
                    ("open", self.behind_now),
                ],
            ),
            account(
                "requests",
                self.asked,
                &[
                    ("answered", self.answered),
                    ("lost", self.lost_requests),
                    ("cut", self.cut_requests),
                    ("open", self.open_requests),
                ],
            ),
        ]
    }

    /// Whether a thread was too busy for the figures to be the target's alone.
    pub fn is_saturated(&self) -> bool {
        self.threads.iter().any(ThreadUse::is_saturated)
    }

    /// Whether no virtual client is connected or will be.
    pub fn is_over(&self) -> bool {
        self.planned > 0 && self.over >= self.planned
    }

    /// Adds what another thread (or fleet) has seen. `elapsed` becomes the longer one.
    pub fn merge(&mut self, other: &Snapshot) {
        self.elapsed = self.elapsed.max(other.elapsed);
        self.add_counts(other);
        self.causes.add(&other.causes);
        self.codes.add(&other.codes);
        self.timings.add(&other.timings);
        self.threads.extend_from_slice(&other.threads);
    }

    /// The snapshot in the laboratory's words. `open` are connections whose layers are open.
    pub fn counts(&self) -> Counts {
        let figures = [
            ("reconnects", self.reconnects),
            ("established", self.established),
            ("resumed", self.resumed),
            ("go_aways", self.go_aways),
            ("subscriptions.granted", self.subscribed),
            ("subscriptions.refused", self.not_subscribed),
            ("subscriptions.lowered", self.lowered),
            ("sessions.lost", self.lost_sessions),
            ("heartbeats.sent", self.pings),
            ("heartbeats.answered", self.pongs),
            ("heartbeats.late", self.late_pongs),
            ("heartbeats.lost", self.lost_pings),
            ("heartbeats.cut", self.cut_pings),
            ("heartbeats.skipped", self.skipped_beats),
            ("messages.sent", self.sent),
            ("messages.taken", self.taken),
            ("messages.refused", self.refused),
            ("messages.lost", self.lost),
            ("messages.cut", self.cut),
            ("messages.unsent", self.unsent),
            ("messages.received", self.messages),
            ("messages.repeated", self.repeated),
            ("messages.missing", self.missing),
            ("messages.skipped", self.skipped),
            ("messages.reordered", self.reordered),
            ("messages.changed", self.changed),
            ("messages.foreign", self.foreign),
            ("messages.earlier", self.earlier),
            ("messages.pulled", self.fetched),
            ("marks.taken", self.taken_marks),
            ("marks.received", self.received_marks),
            ("messages.astray", self.astray),
            ("messages.other_qos", self.other_qos),
            ("messages.other_topic", self.other_topic),
            ("messages.retained_live", self.retained_live),
            ("messages.early_dup", self.early_dup),
            ("messages.other_sender", self.other_sender),
            ("messages.overcounted", self.overcounted),
            // Of those missing, by what groups and their traffic are: no thread knows.
            ("messages.missing_kept", 0),
            ("messages.unjudged", self.unjudged),
            // By what was sent and heard in all, which no thread knows.
            ("subscriptions.unanswered", 0),
            ("messages.untracked", 0),
            ("messages.unanswered", 0),
            ("messages.bytes", self.message_bytes),
            ("requests.sent", self.asked),
            ("requests.answered", self.answered),
            ("requests.errors", self.answered_badly),
            ("requests.lost", self.lost_requests),
            ("requests.cut", self.cut_requests),
            ("dropped", self.dropped),
            ("bytes.in", self.bytes_in),
            ("bytes.out", self.bytes_out),
        ];
        Counts {
            planned: self.planned,
            attempts: self.attempts,
            open: self.asking + self.online_now,
            online: self.online_now,
            bound: self.bound,
            causes: self.causes.clone(),
            codes: self.codes.iter().map(|(code, count)| (code.to_owned(), count)).collect(),
            accounts: self.accounts().to_vec(),
            timings: self.timings.clone(),
            figures: figures.map(|(name, count)| (name.to_owned(), count as f64)).into(),
        }
    }
}

fn account(what: &str, total: u64, parts: &[(&str, u64)]) -> Balance {
    let parts = parts.iter().map(|(part, count)| ((*part).to_owned(), *count)).collect();
    Balance { what: what.to_owned(), total, parts }
}

/// Counts by word and code.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Codes(BTreeMap<String, u64>);

impl Codes {
    /// Words that are counted apart.
    pub const KINDS_MAX: usize = 128;
    /// Stands for all words beyond.
    pub const OTHER: &str = "other";

    /// Counts of this word.
    pub fn of(&self, word: &str) -> u64 {
        self.0.get(word).copied().unwrap_or(0)
    }

    /// All counts.
    pub fn sum(&self) -> u64 {
        self.0.values().sum()
    }

    /// The words that occurred, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(word, &count)| (word.as_str(), count))
    }

    /// Counts this word.
    pub fn count(&mut self, word: &str) {
        self.count_by(word, 1);
    }

    pub(crate) fn add(&mut self, other: &Codes) {
        other.iter().for_each(|(word, count)| self.count_by(word, count));
    }

    fn count_by(&mut self, word: &str, by: u64) {
        if let Some(count) = self.0.get_mut(word) {
            *count += by;
            return;
        }
        let is_room = self.0.len() < Self::KINDS_MAX;
        let word = if is_room { word } else { Self::OTHER };
        *self.0.entry(word.to_owned()).or_default() += by;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::cause::Cause;

    #[test]
    fn sums_are_checked_and_every_figure_is_declared() {
        let mut seen = Snapshot { attempts: 3, bound: 1, online_now: 1, ..Snapshot::default() };
        seen.causes.count(Phase::Bind, Cause::BindRefused);
        assert!(!seen.conserved());
        seen.causes.count(Phase::Connect, Cause::Refused);
        assert!(seen.conserved());
        seen.merge(&seen.clone());
        assert!(seen.conserved() && seen.attempts == 6);
        seen.pings += 1;
        assert!(!seen.conserved());
        let counts = seen.counts();
        let mut declared: Vec<&str> = lab::run::FIGURES.iter().map(|(name, _)| *name).collect();
        declared.sort_unstable();
        assert_eq!(counts.figures.keys().map(String::as_str).collect::<Vec<_>>(), declared);
    }

    #[test]
    fn codes_from_outside_are_bounded() {
        let mut codes = Codes::default();
        (0..1_000).for_each(|code| codes.count(&format!("refused {code}")));
        assert_eq!(codes.sum(), 1_000);
        assert_eq!((codes.of("refused 127"), codes.of("refused 128")), (1, 0));
        assert_eq!(codes.of(Codes::OTHER), 1_000 - Codes::KINDS_MAX as u64);
    }
}
