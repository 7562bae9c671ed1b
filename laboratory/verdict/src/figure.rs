//! Figures that a rule can be about: their names, their meanings, and how they are read from a run
//! or a stage.
//!
//! Counts come from [`Counts`], times from its distributions, everything with a dotted column name
//! from the series. The invariant: a name that is listed by [`figures`] is read by
//! [`Figure::named`], and a figure without a measurement is an error in words, not zero.

use crate::columns::{self, OWNERS};
use crate::scope::Scope;
use crate::{fit, message_figures, presence_figures, saturation, window, words};
use lab::cause::{Cause, Side};
use lab::run::{Counts, FIGURES};
use lab::series::{FigureKind, Series, Unit};
use lab::timing::Timing;
use std::fmt;

/// Figure of a run or a stage.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Figure {
    /// A count of its own.
    Plain(Plain),
    /// One of [`lab::run::FIGURES`].
    Counted(&'static str),
    /// Its growth a second.
    PerSecond(&'static str),
    /// Errors with this cause.
    ErrorsOf(Cause),
    /// Errors that were the doing of a side.
    ErrorsBy(Side),
    /// Ends with this cause, errors or not.
    Ended(Cause),
    /// A timing.
    Time {
        /// Timing that the figure is taken from.
        timing: Timing,
        /// From the moment the tester got to it, not from the planned one.
        raw: bool,
        /// Point of the distribution.
        point: Point,
    },
    /// A column of the series.
    Column {
        /// Its name.
        name: String,
        /// Aspect of the column.
        aspect: Aspect,
    },
}

/// Declares named variants once.
macro_rules! named {
    ($(#[$doc:meta])* $kind:ident { $($variant:ident $name:literal $meaning:literal;)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $kind { $(#[doc = $meaning] $variant,)+ }

        impl $kind {
            /// All figures.
            pub const ALL: &'static [$kind] = &[$($kind::$variant,)+];

            /// The name in rules.
            pub const fn name(self) -> &'static str {
                match self { $($kind::$variant => $name,)+ }
            }

            /// Meaning of the variant.
            pub const fn meaning(self) -> &'static str {
                match self { $($kind::$variant => $meaning,)+ }
            }

            fn named(name: &str) -> Option<$kind> {
                Self::ALL.iter().copied().find(|known| known.name() == name)
            }
        }
    };
}

named! {
    /// A count that has a name of its own.
    Plain {
        Attempts "attempts" "Connection attempts, including reconnects.";
        Bound "bound" "Successful binds.";
        Open "open" "Open connections at the end.";
        Online "online" "Clients bound at the end.";
        OnlineShare "online_share" "Share of the planned clients that are bound at the end.";
        Ended "ended" "Connections and attempts that ended, for any reason.";
        Errors "errors" "Unplanned ends.";
        ErrorShare "error_share" "Errors as a share of all attempts.";
        Unexplained "unexplained"
            "Errors without an explanation: `internal` and `local_error`.";
        Accounts "accounts" "1 if all sums agree with their parts, 0 otherwise.";
        HeartbeatsLostShare "heartbeats.lost_share" "Share of sent heartbeats that were lost.";
        HeartbeatsLateShare "heartbeats.late_share" "Share of sent heartbeats that were answered \
                                                     late.";
        MessagesLostShare "messages.lost_share"
            "Share of sent messages whose connection ended before the target's answer.";
        MessagesMissingShare "messages.missing_share"
            "Share of expected messages that receivers did not receive.";
        RequestsErrorShare "requests.error_share"
            "Share of sent requests that were lost or answered with a status above 399.";
        BytesPerConnection "bytes_per_connection"
            "Memory of the target's process for one more client: the slope of its resident memory \
             over the clients online, over the whole run.";
        BytesPerConnectionR2 "bytes_per_connection.r2"
            "Fit of that line: 1 is a straight line.";
        MessagesOwed "messages.owed"
            "Planned messages (`messages`, `loops`) that the target had not acknowledged at the \
             stage's end.";
        MessagesTailMs "messages.tail_ms"
            "Milliseconds from the target's last answer to a message until the last message was \
             received, by looks of 100 ms; of several stages the sum.";
        MessagesSendingMs "messages.sending_ms"
            "Milliseconds from the first moment of sending until the target's last answer, where a \
             number of messages was to be sent (`messages`, `loops`), by looks of 100 ms; of \
             several stages the sum.";
        AuditExpected "audit.expected"
            "Entries that the messages which the target had acknowledged should have in inboxes: \
             one for a message between two, and of what is said to a group one for each member, \
             its sender too, whose inbox is audited; in the whole run so far.";
        AuditEntries "audit.entries"
            "Entries found, each counted once, by what the auditing clients fetched.";
        AuditMissing "audit.missing" "Expected entries that were not found.";
        AuditUnacknowledged "audit.unacknowledged"
            "Unexpected entries: their messages were never acknowledged.";
        AuditDiffers "audit.differs"
            "1 if the number of entries is right but the sums of their marks differ, so that they \
             are other messages.";
        AuditRepeated "audit.repeated" "Messages found more than once in an inbox.";
        AuditReordered "audit.reordered"
            "Messages found after a later one of the same conversation.";
        AuditChanged "audit.changed"
            "Messages found that were changed, or that nobody sent.";
        CpuLimited "cpu_limited"
            "1 when a processor was the limit: over the middle of the hold's rows the busiest core \
             of the target's machine, or the busiest thread of the tester, was busy for 90 % of \
             the time or more; else 0.";
        PresenceDifferences "presence.differences"
            "Clients for which the server's memory and its directory still differed after the \
             settle time, by the server's own audit at the stage's end.";
        PresenceDiffering "presence.differing" "Clients that differed at the audit's first \
                                                comparison.";
        PresenceAuditMs "presence.audit_ms"
            "Duration of the audit in milliseconds, without the settle time; the mean of several.";
        PresenceLagMs "presence.lag_ms"
            "Age of the oldest change not yet in the directory when the audit began, in \
             milliseconds; the mean of several.";
    }
}

named! {
    /// Point of a distribution of times.
    Point {
        P50 "p50" "50 % were not longer.";
        P90 "p90" "90 % were not longer.";
        P99 "p99" "99 % were not longer.";
        P999 "p999" "99.9 % were not longer.";
        Max "max" "The longest.";
        Mean "mean" "The mean.";
    }
}

named! {
    /// Aspect of a column.
    Aspect {
        Max "max" "The highest in the stage. Of what only grows: of its growth a second.";
        Min "min" "The lowest in the stage. Of what only grows: of its growth a second.";
        Last "last" "The last in the stage. Of what only grows: of its growth a second.";
        Mean "mean" "The mean over the stage. Of what only grows: of its growth a second.";
        Growth "growth" "By how much it grew in the stage.";
        Drift "drift"
            "By what share of itself its trend (a straight line) changes over the hold.";
        SlopeR2 "slope_r2" "How straight that line is over the hold: 1 is a straight line.";
    }
}

/// Measure of a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Measure {
    /// Things.
    Count,
    /// Things a second.
    PerSecond,
    /// Microseconds.
    Micros,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// A share: 1 is all.
    Share,
    /// The unit of its column.
    Unknown,
}

impl Measure {
    /// The measure, in a sentence.
    pub const fn what(self) -> &'static str {
        match self {
            Measure::Count => "a number of things",
            Measure::PerSecond => "a number of things a second",
            Measure::Micros | Measure::Seconds => "a time",
            Measure::Bytes => "a number of bytes",
            Measure::Share => "a share",
            Measure::Unknown => "what its column counts",
        }
    }

    /// The units that may be written.
    pub const fn units(self) -> &'static str {
        match self {
            Measure::Count | Measure::PerSecond => "a plain number, or one with k, M or G",
            Measure::Micros | Measure::Seconds => "us, ms, s, m or h behind the number",
            Measure::Bytes => "a plain number, or one with B, KiB, MiB, GiB, k, M or G",
            Measure::Share => "a percentage (1%) or a plain number (0.01)",
            Measure::Unknown => "any unit",
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Figure::Plain(plain) => f.write_str(plain.name()),
            Figure::Counted(name) => f.write_str(name),
            Figure::PerSecond(name) => write!(f, "{name}.per_s"),
            Figure::ErrorsOf(cause) => write!(f, "errors.{}", cause.name()),
            Figure::ErrorsBy(side) => write!(f, "errors.{}", side.name()),
            Figure::Ended(cause) => write!(f, "ended.{}", cause.name()),
            Figure::Time { timing, raw, point } => {
                let raw = if *raw { "raw." } else { "" };
                write!(f, "{}.{raw}{}", timing.name(), point.name())
            }
            Figure::Column { name, aspect } => write!(f, "{name}.{}", aspect.name()),
        }
    }
}

impl Figure {
    /// The figure of this name, or what is wrong with it and which is nearest.
    pub fn named(name: &str) -> Result<Figure, String> {
        if let Some(figure) = plain(name).or_else(|| time(name)) {
            return Ok(figure);
        }
        if OWNERS.iter().any(|owner| columns::is_of(name, owner)) {
            return column(name);
        }
        let all: Vec<String> = figures().into_iter().map(|figure| figure.name).collect();
        let nearest = words::nearest(name, all.iter().map(String::as_str));
        let nearest = nearest.map_or(String::new(), |near| format!(" Did you mean `{near}`?"));
        Err(format!(
            "`{name}` is no figure.{nearest} Allowed are counts (errors, online_share, \
             messages.sent), their rates (messages.sent.per_s), times (bind.p99, bind.raw.p99), \
             and columns of the series that begin with {} and end with .max, .min, .last, .mean, \
             .growth, .drift or .slope_r2",
            words::list(&OWNERS.map(|owner| format!("{owner}."))),
        ))
    }

    /// The figure's measure, as far as its name tells.
    pub fn measure(&self) -> Measure {
        match self {
            Figure::Plain(plain) => match plain {
                Plain::OnlineShare
                | Plain::ErrorShare
                | Plain::HeartbeatsLostShare
                | Plain::HeartbeatsLateShare
                | Plain::MessagesLostShare
                | Plain::MessagesMissingShare
                | Plain::RequestsErrorShare => Measure::Share,
                Plain::BytesPerConnection => Measure::Bytes,
                _ => Measure::Count,
            },
            Figure::Counted(name) if is_bytes(name) => Measure::Bytes,
            Figure::PerSecond(name) if is_bytes(name) => Measure::Bytes,
            Figure::PerSecond(_) => Measure::PerSecond,
            Figure::Time { .. } => Measure::Micros,
            Figure::Column { aspect: Aspect::Drift, .. } => Measure::Share,
            Figure::Column { aspect: Aspect::SlopeR2, .. } => Measure::Count,
            Figure::Column { .. } => Measure::Unknown,
            _ => Measure::Count,
        }
    }

    /// The figure's measure in this series.
    pub(crate) fn measure_in(&self, series: &Series) -> Measure {
        let Figure::Column { name, .. } = self else { return self.measure() };
        let column = series.columns().iter().find(|column| column.name == name.as_str());
        let grows = column.is_some_and(|column| column.kind == FigureKind::Total);
        let grows = grows && !matches!(self, Figure::Column { aspect: Aspect::Growth, .. });
        match (self.measure(), column.map(|column| column.unit)) {
            (Measure::Unknown, Some(unit)) => match unit {
                Unit::Count if grows => Measure::PerSecond,
                Unit::Count => Measure::Count,
                Unit::Bytes => Measure::Bytes,
                Unit::Micros => Measure::Micros,
                Unit::Share => Measure::Share,
                Unit::Seconds => Measure::Seconds,
            },
            (measure, _) => measure,
        }
    }

    /// The figure's value in a run or a stage, or why it cannot be known.
    pub fn value(&self, scope: &Scope) -> Result<f64, String> {
        let counts = scope.counts;
        match self {
            Figure::Plain(plain) => plain_value(*plain, scope),
            Figure::Counted(name) => Ok(counts.figure(name)),
            Figure::PerSecond(name) => per_second(name, scope),
            Figure::ErrorsOf(cause) | Figure::Ended(cause) => {
                Ok(counts.causes.all_of(*cause) as f64)
            }
            Figure::ErrorsBy(side) if scope.is_here => Ok(counts.causes.by_side_here(*side) as f64),
            Figure::ErrorsBy(side) => Ok(counts.causes.by_side(*side) as f64),
            Figure::Time { timing, raw, point } => {
                let timed = counts.timings.of(*timing);
                let spectrum = if *raw { &timed.raw } else { &timed.corrected };
                if spectrum.is_empty() {
                    return Err(format!("no time of `{}` was measured", timing.name()));
                }
                Ok(match point {
                    Point::P50 => spectrum.at(50.0) as f64,
                    Point::P90 => spectrum.at(90.0) as f64,
                    Point::P99 => spectrum.at(99.0) as f64,
                    Point::P999 => spectrum.at(99.9) as f64,
                    Point::Max => spectrum.max() as f64,
                    Point::Mean => spectrum.mean(),
                })
            }
            Figure::Column { name, aspect } => column_value(name, *aspect, scope),
        }
    }
}

/// A figure that can be named in a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Meaning {
    /// Its name; of columns with a placeholder: `COLUMN.max`.
    pub name: String,
    /// Meaning of the figure, in a sentence.
    pub meaning: String,
}

/// Amount by which a count may be higher than what was counted, and why; `None`: it is exact. Of a
/// share likewise.
pub(crate) fn doubt(figure: &Figure, scope: &Scope) -> Option<(f64, String)> {
    let of = |name: &str| scope.counts.figure(name);
    let told = |names: &[(&str, &str)]| {
        let parts: Vec<_> = names.iter().map(|(name, what)| (of(name), *what)).collect();
        let sum: f64 = parts.iter().map(|(count, _)| count).sum();
        let told = parts.iter().filter(|(count, _)| *count >= 1.0);
        let told: Vec<_> =
            told.map(|(count, what)| format!("{} {what}", words::count(*count))).collect();
        (sum >= 1.0).then(|| (sum, words::list(&told)))
    };
    const UNJUDGED: (&str, &str) = ("messages.unjudged", "messages received could not be judged");
    const MISSING: [(&str, &str); 4] = [
        UNJUDGED,
        ("messages.untracked", "messages sent are of a group that no group `hears`"),
        ("messages.lost", "may have arrived or not: their connections ended"),
        ("messages.cut", "may have arrived or not: the plan cut their connections"),
    ];
    match figure {
        Figure::Counted("messages.repeated" | "messages.reordered" | "messages.changed") => {
            told(&[UNJUDGED])
        }
        Figure::Counted("messages.missing") => told(&MISSING),
        Figure::Plain(Plain::MessagesMissingShare) => {
            let (_, whole, _) = parts(Plain::MessagesMissingShare, scope)?;
            let (sum, why) = told(&MISSING)?;
            Some((sum / (whole + sum).max(1.0), why))
        }
        _ => None,
    }
}

/// All figures that can be named in a rule, in the order of the documentation.
pub fn figures() -> Vec<Meaning> {
    let mut all = Vec::new();
    let mut add = |name: String, meaning: String| all.push(Meaning { name, meaning });
    for plain in Plain::ALL {
        add(plain.name().to_owned(), plain.meaning().to_owned());
    }
    for &cause in Cause::ALL {
        let kind = if cause.is_error() { "errors" } else { "ended" };
        add(format!("{kind}.{}", cause.name()), format!("Ends: {}", cause.meaning()));
    }
    for side in [Side::Tester, Side::Target, Side::Between] {
        let meaning = format!("Errors caused by: {}.", side.name());
        add(format!("errors.{}", side.name()), meaning);
    }
    for (name, meaning) in FIGURES {
        add((*name).to_owned(), (*meaning).to_owned());
        let per_s = format!("Per second, over the hold: {meaning}");
        add(format!("{name}.per_s"), per_s);
    }
    for &timing in Timing::ALL {
        for (raw, how) in [("", "from the planned moment"), ("raw.", "from the real moment")] {
            for point in Point::ALL {
                let name = format!("{}.{raw}{}", timing.name(), point.name());
                add(name, format!("{} {} ({how})", timing.meaning(), point.meaning()));
            }
        }
    }
    for aspect in Aspect::ALL {
        add(format!("COLUMN.{}", aspect.name()), aspect.meaning().to_owned());
    }
    all
}

fn is_bytes(name: &str) -> bool {
    name == "messages.bytes" || name.starts_with("bytes.")
}

fn plain(name: &str) -> Option<Figure> {
    if let Some(plain) = Plain::named(name) {
        return Some(Figure::Plain(plain));
    }
    let counted = |name: &str| FIGURES.iter().find(|(known, _)| *known == name).map(|row| row.0);
    if let Some(known) = counted(name) {
        return Some(Figure::Counted(known));
    }
    if let Some(known) = name.strip_suffix(".per_s").and_then(counted) {
        return Some(Figure::PerSecond(known));
    }
    if let Some(rest) = name.strip_prefix("errors.") {
        let side = Side::ALL.into_iter().find(|side| side.name() == rest && *side != Side::Plan);
        let cause = Cause::named(rest).filter(|cause| cause.is_error());
        return side.map(Figure::ErrorsBy).or(cause.map(Figure::ErrorsOf));
    }
    Cause::named(name.strip_prefix("ended.")?).map(Figure::Ended)
}

fn time(name: &str) -> Option<Figure> {
    let (timing, rest) = name.split_once('.')?;
    let timing = Timing::ALL.iter().copied().find(|known| known.name() == timing)?;
    let (raw, point) = match rest.strip_prefix("raw.") {
        Some(point) => (true, point),
        None => (false, rest),
    };
    Some(Figure::Time { timing, raw, point: Point::named(point)? })
}

fn column(name: &str) -> Result<Figure, String> {
    let (column, last) = name.rsplit_once('.').unwrap_or((name, ""));
    let aspect = Aspect::named(last).ok_or_else(|| {
        format!(
            "`{name}` names a column, but not what of it: end it with .max, .min, .last, .mean, \
             .growth, .drift or .slope_r2"
        )
    })?;
    Ok(Figure::Column { name: column.to_owned(), aspect })
}

fn share(part: f64, whole: f64, of: &str) -> Result<f64, String> {
    match whole > 0.0 {
        true => Ok(part / whole),
        false => Err(format!("there were no {of}")),
    }
}

/// Of a share its part, its whole, and what the whole is of; `None`: it is no share.
pub(crate) fn parts(plain: Plain, scope: &Scope) -> Option<(f64, f64, &'static str)> {
    let counts: &Counts = scope.counts;
    let figure = |name| counts.figure(name);
    Some(match plain {
        Plain::OnlineShare => (counts.online as f64, scope.clients as f64, "clients planned"),
        Plain::ErrorShare => (counts.causes.errors() as f64, counts.attempts as f64, "calls"),
        Plain::HeartbeatsLostShare => {
            (figure("heartbeats.lost"), figure("heartbeats.sent"), "heartbeats")
        }
        Plain::HeartbeatsLateShare => {
            (figure("heartbeats.late"), figure("heartbeats.sent"), "heartbeats")
        }
        Plain::MessagesLostShare => (figure("messages.lost"), figure("messages.sent"), "messages"),
        Plain::MessagesMissingShare => {
            let missing = figure("messages.missing");
            (missing, figure("messages.received") + missing, "messages to be received")
        }
        Plain::RequestsErrorShare => {
            let wrong = figure("requests.errors") + figure("requests.lost");
            (wrong, figure("requests.sent"), "requests")
        }
        _ => return None,
    })
}

fn plain_value(plain: Plain, scope: &Scope) -> Result<f64, String> {
    if let Some((part, whole, of)) = parts(plain, scope) {
        return share(part, whole, of);
    }
    let counts: &Counts = scope.counts;
    match plain {
        Plain::Attempts => Ok(counts.attempts as f64),
        Plain::Bound => Ok(counts.bound as f64),
        Plain::Open => Ok(counts.open as f64),
        Plain::Online => Ok(counts.online as f64),
        Plain::Ended => Ok(counts.causes.sum() as f64),
        Plain::Errors => Ok(counts.causes.errors() as f64),
        Plain::Unexplained => {
            let unexplained = [Cause::Internal, Cause::LocalError];
            Ok(unexplained.map(|cause| counts.causes.all_of(cause)).iter().sum::<u64>() as f64)
        }
        Plain::Accounts if counts.accounts.is_empty() => Err("no sums were kept".to_owned()),
        Plain::MessagesOwed
        | Plain::MessagesTailMs
        | Plain::MessagesSendingMs
        | Plain::AuditExpected
        | Plain::AuditEntries
        | Plain::AuditMissing
        | Plain::AuditUnacknowledged
        | Plain::AuditDiffers
        | Plain::AuditRepeated
        | Plain::AuditReordered
        | Plain::AuditChanged => message_figures::value(counts, plain.name()),
        Plain::CpuLimited => saturation::cpu_limited(scope).map(|is_so| f64::from(u8::from(is_so))),
        Plain::PresenceDifferences | Plain::PresenceDiffering => {
            presence_figures::audits(counts).map(|_| counts.figure(plain.name()))
        }
        Plain::PresenceAuditMs | Plain::PresenceLagMs => {
            presence_figures::audits(counts).map(|audits| counts.figure(plain.name()) / audits)
        }
        Plain::Accounts => {
            Ok(f64::from(u8::from(counts.accounts.iter().all(lab::run::Balance::agrees))))
        }
        _ => {
            let line = memory_line(scope.series)?;
            Ok(if plain == Plain::BytesPerConnection { line.slope } else { line.r2 })
        }
    }
}

/// Bytes a client below which memory did not move for the clients: no server keeps one in less, but
/// one that is warm takes what earlier clients left.
pub(crate) const MOVED_BYTES: f64 = 32.0;

/// Memory of the target's process over the clients online: the rows in which there were more
/// clients than ever before, for what they leave behind when they go is not given back at once.
pub(crate) fn memory_line(series: &Series) -> Result<fit::FittedLine, String> {
    let points = memory_points(series, columns::TARGET_RSS);
    let line = fit::FittedLine::through(&points).ok_or_else(|| {
        format!(
            "there are not enough rows in which `{}` was read while clients came",
            columns::TARGET_RSS
        )
    })?;
    if line.slope < MOVED_BYTES {
        let clients = points.last().map_or(0.0, |last| last.0) - points[0].0;
        let grown = points.last().map_or(0.0, |last| last.1) - points[0].1;
        return Err(format!(
            "the server's memory did not move while {} clients came ({}): it had room from before, \
             so what a client costs is not known; start the server anew",
            words::count(clients),
            words::bytes(grown)
        ));
    }
    Ok(line)
}

/// Clients online and memory, of the rows in which there were more clients than ever before.
pub(crate) fn memory_points(series: &Series, memory: &str) -> Vec<(f64, f64)> {
    let pairs = series.values(columns::ONLINE).iter().zip(series.values(memory));
    let mut most = f64::NEG_INFINITY;
    let mut points = Vec::new();
    for (online, memory) in pairs.filter_map(|(online, memory)| Some(((*online)?, (*memory)?))) {
        if online > most {
            most = online;
            points.push((online, memory));
        }
    }
    points
}

/// The rate over the hold; where the series has not two rows in it, over the whole stage.
fn per_second(name: &str, scope: &Scope) -> Result<f64, String> {
    let column = format!("clients.{name}");
    let (from, to) = scope.hold_ms;
    if let Some(grown) = window::growth(scope.series, &column, scope.hold_ms)
        && to.saturating_sub(from) >= 1_000
    {
        return Ok(grown * 1_000.0 / (to - from) as f64);
    }
    let took_ms = scope.whole_ms.1.saturating_sub(scope.whole_ms.0);
    share(scope.counts.figure(name) * 1_000.0, took_ms as f64, "milliseconds to divide by")
}

fn column_value(name: &str, aspect: Aspect, scope: &Scope) -> Result<f64, String> {
    let series = scope.series;
    let Some(kind) = window::kind(series, name) else {
        let known = series.columns().iter().map(|column| &*column.name);
        let nearest = words::nearest(name, known);
        let nearest = nearest.map_or(String::new(), |near| format!("; the nearest is `{near}`"));
        return Err(format!("nothing gave a column `{name}`{nearest}"));
    };
    let shown = window::values(series, name, scope.whole_ms);
    let value = match aspect {
        Aspect::Max => shown.iter().copied().reduce(f64::max),
        Aspect::Min => shown.iter().copied().reduce(f64::min),
        Aspect::Last => shown.last().copied(),
        Aspect::Mean => fit::mean(&shown),
        Aspect::Growth => window::growth(series, name, scope.whole_ms),
        Aspect::Drift => window::drift(series, name, scope.hold_ms),
        Aspect::SlopeR2 => window::trend(series, name, scope.hold_ms).map(|line| line.r2),
    };
    let rows = if kind == FigureKind::Total { "two rows" } else { "enough rows" };
    value.ok_or_else(|| format!("`{name}` was not read in {rows} of the time in question"))
}
