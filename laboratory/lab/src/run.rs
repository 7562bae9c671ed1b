//! A run that was made: everything a report needs, and nothing that grows with the run's length.

use crate::cause::{Cause, Causes, Side};
use crate::host::{Environment, HostRow};
use crate::series::Series;
use crate::timing::Timings;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The version of the file.
pub const FORMAT: u32 = 1;

/// A run.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct Run {
    /// Version of the file: [`FORMAT`].
    pub format: u32,
    /// Its name: the plan's, and when it began.
    pub name: String,
    /// Purpose of the plan, in a sentence.
    pub about: String,
    /// The command that made it.
    pub command: String,
    /// The plan, as TOML, without secrets.
    pub plan: String,
    /// Targets of the test, without secrets.
    pub target: Vec<String>,
    /// Unix time of its beginning, milliseconds.
    pub began_unix_ms: u64,
    /// How long it took, milliseconds.
    pub took_ms: u64,
    /// Seed of all randomness.
    pub seed: u64,
    /// Whether it came to its planned end.
    pub finished: bool,
    /// The tester's machine.
    pub environment: Environment,
    /// Its stages, those that were not reached excepted.
    pub stages: Vec<StageRun>,
    /// Names of planned stages that were not reached, or not run, and why.
    pub skipped: Vec<(String, String)>,
    /// Counts of all clients over the whole run.
    pub total: Counts,
    /// Figures over time.
    pub series: Series,
    /// External events: faults, keys pressed, agents lost.
    pub notes: Vec<Note>,
    /// Settings of both machines before the run.
    pub doctor: Vec<(String, HostRow)>,
    /// The machines that made the load.
    pub agents: Vec<Agent>,
    /// Summary in a few sentences without jargon; empty: none was written.
    #[serde(default)]
    pub summary: String,
    /// Findings about the run.
    pub findings: Vec<Finding>,
    /// Rules over the whole run, and whether they held.
    pub checks: Vec<CheckResult>,
    /// Why the tester's own figures cannot be trusted; empty: they can.
    pub saturation: Vec<String>,
}

/// Notes that are kept, at most.
pub const NOTES_MAX: usize = 1_000;

impl Run {
    /// Whether all rules held, it came to its end and its figures can be trusted.
    pub fn passed(&self) -> bool {
        let mut checks = self.checks.iter().chain(self.stages.iter().flat_map(|s| &s.checks));
        self.finished && self.saturation.is_empty() && checks.all(|check| check.held == Some(true))
    }

    /// Whether clients called over loopback: both ends were one machine, with nothing between.
    pub fn is_on_loopback(&self) -> bool {
        let far = |agent: &Agent| {
            let host = &agent.environment.host;
            !host.is_empty() && *host != self.environment.host
        };
        let here = !self.target.is_empty() && self.target.iter().all(|url| is_loopback(url));
        here && !self.agents.iter().any(far)
    }

    /// Side that caused ends of this kind in this run.
    pub fn side_of(&self, cause: Cause) -> Side {
        if self.is_on_loopback() { cause.side_here() } else { cause.side() }
    }
}

/// Whether a URL leads to this machine.
fn is_loopback(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    host.starts_with("127.") || host.starts_with("localhost") || host.starts_with("[::1]")
}

/// A stage that was run.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct StageRun {
    /// Its name.
    pub name: String,
    /// Milliseconds since the run began.
    pub from_ms: u64,
    /// When all clients were there, or the waiting was over.
    pub arrived_ms: u64,
    /// When it ended.
    pub to_ms: u64,
    /// Clients that should have been there.
    pub clients: u64,
    /// Counts of the stage.
    pub counts: Counts,
    /// Its rules, and whether they held.
    pub checks: Vec<CheckResult>,
}

/// Counts of clients: of a run, of a stage, or so far.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Clients that were planned.
    pub planned: u64,
    /// Calls made, those of returning clients included.
    pub attempts: u64,
    /// Connections that are open, at the end.
    pub open: u64,
    /// Clients that are bound, at the end.
    pub online: u64,
    /// Times a client was bound.
    pub bound: u64,
    /// Ends by phase and cause.
    pub causes: Causes,
    /// Refusals and kicks, by the protocol's word and code: `refused 135`.
    pub codes: BTreeMap<String, u64>,
    /// Sums that must agree, each with its parts.
    pub accounts: Vec<Balance>,
    /// Times.
    pub timings: Timings,
    /// All other counts, by name: `messages.sent`, `heartbeats.late` ...
    pub figures: BTreeMap<String, f64>,
}

/// Names of [`Counts::figures`] and what they count. All of them only grow.
pub const FIGURES: &[(&str, &str)] = &[
    ("reconnects", "Connection attempts of clients that had been connected or refused before."),
    ("established", "Connections established, including TLS and WebSocket."),
    ("resumed", "Binds that resumed a session."),
    ("go_aways", "Times that the target asked a client to reconnect."),
    ("subscriptions.granted", "Subscriptions granted (MQTT)."),
    ("subscriptions.refused", "Subscriptions refused (MQTT)."),
    ("subscriptions.unanswered", "Subscriptions without an answer when sending began (MQTT)."),
    ("subscriptions.lowered", "Subscriptions granted at a lower QoS than requested (MQTT)."),
    (
        "sessions.lost",
        "Reconnects without the session that the target should have kept (MQTT 3.1.1 and 5, \
         `keep_session`).",
    ),
    ("heartbeats.sent", "Heartbeats sent."),
    ("heartbeats.answered", "Heartbeats answered in time."),
    ("heartbeats.late", "Heartbeats answered after the group's timeout."),
    ("heartbeats.lost", "Heartbeats whose connection ended before the answer."),
    ("heartbeats.cut", "Heartbeats whose connection the plan ended before the answer."),
    ("heartbeats.skipped", "Heartbeats not sent because the last one was unanswered."),
    ("messages.sent", "Messages (reports, publications) sent."),
    ("messages.taken", "Messages that the target acknowledged."),
    ("messages.refused", "Messages that the target refused."),
    ("messages.lost", "Messages whose connection ended before the target's answer."),
    ("messages.cut", "Messages whose connection the plan ended before the target's answer."),
    (
        "messages.unsent",
        "Planned messages and requests that no client could send: none was online, or its window \
         was full.",
    ),
    ("messages.received", "Messages received."),
    ("messages.repeated", "Duplicate messages received."),
    (
        "messages.missing",
        "Messages that a receiver should have received and did not, by their \
                          numbers.",
    ),
    ("messages.skipped", "Messages that the target reported as skipped for a receiver (IM)."),
    ("messages.reordered", "Messages received after a later one of the same sender and topic."),
    ("messages.changed", "Messages with a changed body, by its checksum."),
    ("messages.foreign", "Messages whose body is not from a client of this run."),
    ("messages.earlier", "Messages from an earlier run, not counted elsewhere (IM)."),
    ("messages.pulled", "Messages received by a client's own request (IM)."),
    (
        "marks.taken",
        "Sum of the marks (24 bits each) of messages that the target acknowledged, which \
         identifies them (IM).",
    ),
    (
        "marks.received",
        "Sum of the marks of messages received for the first time: equal if the messages are the \
         same (IM).",
    ),
    ("messages.astray", "Messages received by a client that had not subscribed to their topic."),
    (
        "messages.other_qos",
        "Messages received at another QoS than the lower one of publication and subscription \
         (MQTT, bodies of 44 bytes and more).",
    ),
    (
        "messages.other_topic",
        "Messages received under another topic than they were published to (MQTT, bodies of 44 \
         bytes and more).",
    ),
    (
        "messages.retained_live",
        "Messages received with the RETAIN flag that were published without it (MQTT, bodies of 44 \
         bytes and more).",
    ),
    (
        "messages.early_dup",
        "Messages received with the DUP flag that the target had not sent before (MQTT).",
    ),
    (
        "messages.other_sender",
        "Messages received with another account as sender (IM, XMPP; sender and receiver in one \
         group of clients).",
    ),
    ("messages.overcounted", "Acknowledgements of more stanzas than were sent (XMPP)."),
    (
        "messages.missing_kept",
        "Of `messages.missing`, those at QoS 1 or 2 for sessions that outlive connections: a \
         connection cut by the plan does not excuse them (MQTT).",
    ),
    (
        "messages.unjudged",
        "Messages received whose uniqueness and order are unknown: too short for a number (below \
         36 bytes), changed, foreign, or older than the tester's memory.",
    ),
    (
        "messages.untracked",
        "Messages sent with an unknown number of receivers: no group receives from the sender.",
    ),
    (
        "messages.unanswered",
        "Messages without an answer from the target when everything pending had arrived.",
    ),
    ("messages.bytes", "Bytes of the bodies of messages received."),
    ("requests.sent", "Requests sent (HTTP, TCP)."),
    ("requests.answered", "Requests answered."),
    ("requests.errors", "Requests answered with a status above 399."),
    ("requests.lost", "Requests whose connection ended before the answer."),
    ("requests.cut", "Requests whose connection the plan ended before the answer."),
    ("dropped", "Planned actions that the tester could not perform in time."),
    ("bytes.in", "Bytes received, including TLS and WebSocket."),
    ("bytes.out", "Bytes sent, including TLS and WebSocket."),
];

impl fmt::Debug for Counts {
    /// Lists all counts above zero, a line each: a test that fails prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { planned, attempts, open, online, bound, .. } = self;
        writeln!(
            f,
            "{planned} planned, {attempts} attempts, {open} open, {online} online, {bound} bound"
        )?;
        writeln!(f, "ends {:?}, codes {:?}", self.causes, self.codes)?;
        for account in &self.accounts {
            let is_off = if account.agrees() { "" } else { " DOES NOT AGREE" };
            writeln!(f, "{} {} = {:?}{is_off}", account.what, account.total, account.parts)?;
        }
        for (timing, timed) in self.timings.iter() {
            writeln!(f, "{}: {timed:?}", timing.name())?;
        }
        let counted: BTreeMap<_, _> =
            self.figures.iter().filter(|(_, value)| **value != 0.0).collect();
        write!(f, "{counted:?}")
    }
}

impl Counts {
    /// A figure; zero where nothing was counted.
    pub fn figure(&self, name: &str) -> f64 {
        self.figures.get(name).copied().unwrap_or(0.0)
    }

    /// Adds to a figure.
    pub fn raise(&mut self, name: &str, by: f64) {
        match self.figures.get_mut(name) {
            Some(value) => *value += by,
            None => {
                self.figures.insert(name.to_owned(), by);
            }
        }
    }

    /// Adds what others counted.
    pub fn add(&mut self, other: &Counts) {
        self.planned += other.planned;
        self.attempts += other.attempts;
        self.open += other.open;
        self.online += other.online;
        self.bound += other.bound;
        self.causes.add(&other.causes);
        for (code, count) in &other.codes {
            *self.codes.entry(code.clone()).or_default() += count;
        }
        for account in &other.accounts {
            match self.accounts.iter_mut().find(|mine| mine.what == account.what) {
                Some(mine) => mine.add(account),
                None => self.accounts.push(account.clone()),
            }
        }
        self.timings.add(&other.timings);
        other.figures.iter().for_each(|(name, value)| self.raise(name, *value));
    }

    /// Counts since `earlier`, an older state of this one. Open and online clients stay as they are
    /// now, and so do the accounts, which hold from the beginning on.
    pub fn since(&self, earlier: &Counts) -> Counts {
        let less = |code: &String, count: u64| {
            count.saturating_sub(earlier.codes.get(code).copied().unwrap_or(0))
        };
        let codes = self.codes.iter().map(|(code, &count)| (code.clone(), less(code, count)));
        let figures = self.figures.iter();
        Counts {
            planned: self.planned,
            attempts: self.attempts.saturating_sub(earlier.attempts),
            open: self.open,
            online: self.online,
            bound: self.bound.saturating_sub(earlier.bound),
            causes: self.causes.since(&earlier.causes),
            codes: codes.filter(|(_, count)| *count > 0).collect(),
            accounts: self.accounts.clone(),
            timings: self.timings.since(&earlier.timings),
            figures: figures
                .map(|(name, value)| (name.clone(), value - earlier.figure(name)))
                .collect(),
        }
    }
}

/// A sum and the parts it must agree with.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Balance {
    /// Name of what is counted.
    pub what: String,
    /// How many there were.
    pub total: u64,
    /// Parts of the sum.
    pub parts: Vec<(String, u64)>,
}

impl Balance {
    /// Whether nothing is missing and nothing is there twice.
    pub fn agrees(&self) -> bool {
        self.total == self.parts.iter().map(|(_, count)| count).sum::<u64>()
    }

    /// Adds another's, part by part.
    fn add(&mut self, other: &Balance) {
        self.total += other.total;
        for (part, count) in &other.parts {
            match self.parts.iter_mut().find(|(mine, _)| mine == part) {
                Some((_, mine)) => *mine += count,
                None => self.parts.push((part.clone(), *count)),
            }
        }
    }
}

/// Event from outside the run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Note {
    /// Milliseconds since the run began.
    pub at_ms: u64,
    /// Text of the note.
    pub text: String,
}

/// A machine that made load.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct Agent {
    /// Its name.
    pub name: String,
    /// Description of the machine.
    pub environment: Environment,
    /// How far its clock was from the coordinator's, microseconds, and how sure that is.
    pub offset_us: i64,
    /// Half the width of the interval that the offset lies in, microseconds.
    pub offset_error_us: u64,
    /// Clients it was given.
    pub clients: u64,
    /// Milliseconds since the run began when it was lost; `None`: it stayed.
    pub lost_ms: Option<u64>,
    /// Processor seconds it spent.
    pub cpu_s: f64,
    /// Share of the time in which its busiest thread ran or wanted to.
    pub busiest: f64,
    /// Longest turn of its loops, microseconds.
    pub turn_us_max: u64,
}

/// How grave a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gravity {
    /// Worth knowing.
    Note,
    /// The finding may have changed the figures.
    Warning,
    /// A limit was met.
    Limit,
    /// The result is not valid.
    Invalid,
}

/// Finding, with the figures that show it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Finding {
    /// How grave it is.
    pub gravity: Gravity,
    /// Side of the cause; empty: unknown.
    pub side: String,
    /// In a sentence, e.g. `The server's accept queue overflowed.`
    pub what: String,
    /// Evidence, with figures: `ListenDrops +41,233 between 00:41 and 00:44`.
    pub evidence: String,
    /// The setting that is likely to be wrong, and what to do; empty: none.
    pub remedy: String,
    /// When it began, milliseconds since the run began.
    pub from_ms: u64,
    /// When it ended.
    pub to_ms: u64,
}

/// A rule and what became of it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CheckResult {
    /// The rule as it was written.
    pub rule: String,
    /// Value of the figure: microseconds, bytes, a share or a plain number, by the rule's unit;
    /// `None`: it could not be known.
    pub value: Option<f64>,
    /// Whether it held; `None`: it could not be known, which is not a pass.
    pub held: Option<bool>,
}

impl CheckResult {
    /// Value of the figure, in the unit that the rule was written in: `473 ms`; `unknown`.
    pub fn shown(&self) -> String {
        let Some(value) = self.value else { return "unknown".to_owned() };
        let bound = self.rule.rsplit(['<', '>', '=']).next().unwrap_or_default().trim();
        let unit = bound.trim_start_matches(|c: char| c.is_ascii_digit() || "+-.eE ".contains(c));
        let one = match unit {
            "ms" | "k" => 1e3,
            "s" | "M" => 1e6,
            "m" => 60e6,
            "h" => 3_600e6,
            "%" => 0.01,
            "G" => 1e9,
            "KiB" => 1_024.0,
            "MiB" => 1_048_576.0,
            "GiB" => 1_073_741_824.0,
            _ => 1.0,
        };
        let value = value / one;
        let number = match value.abs() {
            size if size == 0.0 || (1_000.0..1e15).contains(&size) => format!("{value:.0}"),
            size if (1.0..1e15).contains(&size) => format!("{value:.2}"),
            size if (0.001..1.0).contains(&size) => format!("{value:.4}"),
            _ => format!("{value:.2e}"),
        };
        let number = match number.contains('.') && !number.contains('e') {
            true => number.trim_end_matches('0').trim_end_matches('.'),
            false => &number,
        };
        if unit.is_empty() { number.to_owned() } else { format!("{number} {unit}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::{Cause, Phase};
    use crate::timing::Timing;

    fn some() -> Counts {
        let mut counts = Counts { attempts: 3, open: 1, online: 1, bound: 2, ..Counts::default() };
        counts.causes.count(Phase::Connect, Cause::Refused);
        counts.causes.count(Phase::Online, Cause::Reset);
        counts.timings.at(Timing::Bind).note(70);
        counts.raise("messages.sent", 5.0);
        counts.codes.insert("refused 135".to_owned(), 4);
        let parts = vec![("open".to_owned(), 1), ("ended".to_owned(), 2)];
        counts.accounts.push(Balance { what: "attempts".to_owned(), total: 3, parts });
        counts
    }

    #[test]
    fn counts_add_up_and_can_be_taken_apart() {
        let mut both = some();
        both.add(&some());
        assert!(both.accounts[0].agrees() && both.accounts[0].total == 6);
        let rest = both.since(&some());
        assert_eq!((rest.attempts, rest.bound, rest.causes.sum()), (3, 2, 2));
        assert_eq!((rest.figure("messages.sent"), rest.codes["refused 135"]), (5.0, 4));
        assert_eq!(rest.timings.of(Timing::Bind).raw.count(), 1);
        both.accounts[0].total += 1;
        assert!(!both.accounts[0].agrees());
    }

    #[test]
    fn loopback_is_told_from_elsewhere() {
        for url in ["mqtt://127.0.0.1:1883", "miop://a:b@127.1.2.3:7/", "ws://[::1]:80/x"] {
            assert!(is_loopback(url), "{url}");
        }
        for url in ["mqtt://10.0.0.1:1883", "http://example/127.0.0.1", "127user@10.0.0.1:1"] {
            assert!(!is_loopback(url), "{url}");
        }
        let mut run = Run { target: vec!["mqtt://127.0.0.1:1883".to_owned()], ..Run::default() };
        assert_eq!(run.side_of(Cause::Reset), Side::Target);
        run.target.push("mqtt://10.0.0.1:1883".to_owned());
        assert_eq!(run.side_of(Cause::Reset), Side::Between);
    }

    #[test]
    fn a_checks_figure_is_shown_in_the_units_of_its_rule() {
        let shown =
            |rule: &str, value| CheckResult { rule: rule.to_owned(), value, held: None }.shown();
        assert_eq!(shown("bind.p99 < 500ms", Some(473_250.0)), "473.25 ms");
        assert_eq!(shown("online_share >= 99.9 %", Some(1.0)), "100 %");
        assert_eq!(shown("heartbeats.lost_share < 1e-5", Some(2.5e-6)), "2.50e-6");
        assert_eq!(shown("errors == 0", Some(1_391.0)), "1391");
        assert_eq!(shown("errors == 0", Some(0.0)), "0");
        assert_eq!(shown("target.process.rss.max < 2GiB", Some(1_610_612_736.0)), "1.5 GiB");
        assert_eq!(shown("errors == 0", None), "unknown");
    }

    #[test]
    fn what_is_printed_of_counts_is_what_was_counted() {
        let mut counts = Counts { attempts: 3, ..Counts::default() };
        counts.raise("messages.sent", 2.0);
        counts.raise("messages.lost", 0.0);
        counts.causes.count(crate::cause::Phase::Online, Cause::Reset);
        counts.timings.at(crate::timing::Timing::Bind).note(7);
        let parts = vec![("open".to_owned(), 1)];
        counts.accounts.push(Balance { what: "messages".to_owned(), total: 2, parts });
        let printed = format!("{counts:?}");
        for part in ["3 attempts", "(Online, Reset): 1", "messages.sent", "bind: ", "DOES NOT"] {
            assert!(printed.contains(part), "{part}: {printed}");
        }
        assert!(!printed.contains("messages.lost"), "{printed}");
        assert!(printed.lines().count() < 10, "{printed}");
    }

    #[test]
    fn a_run_that_cannot_be_trusted_or_known_has_not_passed() {
        let mut run = Run { finished: true, ..Run::default() };
        assert!(run.passed());
        run.checks.push(CheckResult { rule: "errors == 0".to_owned(), value: None, held: None });
        assert!(!run.passed());
        run.checks.clear();
        run.saturation.push("a thread was busy all the time".to_owned());
        assert!(!run.passed());
    }
}
