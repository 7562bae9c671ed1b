//! Output: wrk's layout first, then the part that wrk does not have.
//!
//! The output is a function of figures, so that a test can hold it against a text. In wrk's part a
//! request is also a Bind, a heartbeat or a message, and its latency that of the answer. The output
//! of the script's `done` comes between the two parts.

use super::arguments::Arguments;
use super::tally::Tally;
use super::units::{binary, column, metric, time_s, time_us};
use crate::script::stdev;
use lab::cause::Cause;
use lab::codes;
use lab::run::Balance;
use lab::timing::Spectrum;
use load::target::Speech;
use std::fmt::Write;
use std::time::Duration;

/// A test that is over.
pub struct WrkRun<'a> {
    /// Arguments of the test.
    pub arguments: &'a Arguments,
    /// Counts when the time was over.
    pub tally: &'a Tally,
    /// Whether all sums agreed after the end too.
    pub settled: bool,
    /// Processor time of this process.
    pub cpu: Duration,
}

/// The lines printed before the test.
pub fn opening(arguments: &Arguments) -> String {
    let (threads, connections) = (arguments.threads, arguments.connections);
    let (span, url) = (time_s(arguments.duration), &arguments.url);
    format!(
        "Running {span} test @ {}\n  {threads} threads and {connections} connections\n",
        shown(url)
    )
}

/// The URL without what proves who the clients are.
fn shown(url: &str) -> String {
    let mut text = url.to_owned();
    for name in ["secret=", "password="] {
        let Some(at) = text.find(name) else { continue };
        let from = at + name.len();
        let to = text[from..].find('&').map_or(text.len(), |length| from + length);
        text.replace_range(from..to, "...");
    }
    text
}

/// The lines printed after it: wrk's, and ours.
pub fn print(run: &WrkRun<'_>) -> (String, String) {
    let (mut wrks, mut ours) = (String::new(), String::new());
    // Writing to a string does not fail.
    let _ = wrk_block(run, &mut wrks).and_then(|()| own_block(run, &mut ours));
    (wrks, ours)
}

fn wrk_block(run: &WrkRun<'_>, out: &mut String) -> std::fmt::Result {
    let (tally, seen) = (run.tally, &run.tally.seen);
    let latency = &tally.latency.corrected;
    writeln!(out, "  Thread Stats{:>6}{:>11}{:>8}{:>12}", "Avg", "Stdev", "Max", "+/- Stdev")?;
    stats("Latency", latency, time_us, out)?;
    stats("Req/Sec", &tally.per_s, metric, out)?;
    if run.arguments.latency {
        distribution("Latency Distribution", latency, out)?;
    }
    if run.arguments.uncorrected {
        let name = "Latency Distribution, uncorrected (from the moment a request was really sent)";
        distribution(name, &tally.latency.raw, out)?;
    }
    let seconds = seen.elapsed.as_secs_f64().max(1e-6);
    let (requests, bytes) = (seen.answered, seen.bytes_in as f64);
    let span = time_us(seen.elapsed.as_micros() as f64);
    writeln!(out, "  {requests} requests in {span}, {}B read", binary(bytes))?;
    let errors = tally.errors();
    if errors.connect + errors.read + errors.write + errors.timeout > 0 {
        writeln!(
            out,
            "  Socket errors: connect {}, read {}, write {}, timeout {}",
            errors.connect, errors.read, errors.write, errors.timeout
        )?;
    }
    if errors.status > 0 {
        writeln!(out, "  Non-2xx or 3xx responses: {}", errors.status)?;
    }
    writeln!(out, "Requests/sec: {:>9.2}", requests as f64 / seconds)?;
    writeln!(out, "Transfer/sec: {:>10}B", binary(bytes / seconds))
}

fn distribution(name: &str, of: &Spectrum, out: &mut String) -> std::fmt::Result {
    writeln!(out, "  {name}")?;
    for percent in [50.0, 75.0, 90.0, 99.0] {
        let us = of.at(percent) as f64;
        writeln!(out, "{percent:>7.0}%{}", column(&time_us(us), 10))?;
    }
    Ok(())
}

fn stats(
    name: &str,
    of: &Spectrum,
    unit: impl Fn(f64) -> String,
    out: &mut String,
) -> std::fmt::Result {
    let (mean, stdev, max) = (of.mean(), stdev(of), of.max() as f64);
    writeln!(
        out,
        "    {name:<10}{}{}{}{:>8.2}%",
        column(&unit(mean), 8),
        column(&unit(stdev), 10),
        column(&unit(max), 9),
        within(of, mean - stdev, mean + stdev),
    )
}

/// Per cent of the values between two bounds.
fn within(of: &Spectrum, low: f64, high: f64) -> f64 {
    if of.is_empty() {
        return 0.0;
    }
    let inside = of.iter().filter(|(value, _)| (low..=high).contains(&(*value as f64)));
    100.0 * inside.map(|(_, count)| count).sum::<u64>() as f64 / of.count() as f64
}

fn own_block(run: &WrkRun<'_>, out: &mut String) -> std::fmt::Result {
    let (tally, seen) = (run.tally, &run.tally.seen);
    writeln!(out, "\nConnections")?;
    writeln!(
        out,
        "  attempted {} (for {} clients, {} of them again), established {}, {} {}, online at the \
         end {}",
        seen.attempts,
        seen.planned,
        seen.reconnects,
        seen.established,
        if run.arguments.target.binds() { "bound" } else { "open" },
        seen.bound,
        seen.online_now,
    )?;
    let uncalled = (seen.planned + seen.reconnects).saturating_sub(seen.attempts);
    if uncalled > 0 {
        writeln!(out, "  {uncalled} clients were never called: the time was over before")?;
    }
    let scheme = match run.arguments.target.scheme {
        Speech::Miop => "miop",
        Speech::Mqtt => "mqtt",
        Speech::Im => "im",
        Speech::Xmpp => "xmpp",
        Speech::Http | Speech::Tcp => "http",
    };
    for (code, count) in seen.codes.iter() {
        let named = codes::meaning(scheme, code).map(|known| format!(" ({})", known.text));
        writeln!(out, "    {code}: {count}{}", named.unwrap_or_default())?;
    }
    times(run, out)?;
    writeln!(out, "  Ends by cause (whose doing)")?;
    for (phase, cause, count) in seen.causes.iter() {
        let (name, side) = (cause.name(), cause.side().name());
        writeln!(out, "    {count} in {}: {name} ({side}). {}", phase.name(), cause.meaning())?;
        if cause.is_error() && !cause.setting().is_empty() {
            writeln!(out, "      look at: {}", cause.setting())?;
        }
    }
    if seen.causes.sum() == 0 {
        writeln!(out, "    none")?;
    }
    writeln!(out, "  Sums")?;
    for account in tally.accounts().iter().filter(|account| account.total > 0) {
        writeln!(out, "    {}", proof(account))?;
    }
    if !run.settled {
        writeln!(out, "    AFTER THE END THE SUMS DO NOT AGREE: a defect of the tester")?;
    }
    if seen.messages > 0 {
        writeln!(out, "  {} messages came unasked", seen.messages)?;
    }
    tester(run, out)
}

fn times(run: &WrkRun<'_>, out: &mut String) -> std::fmt::Result {
    writeln!(out, "  Times                   p50       p90       p99     p99.9       max")?;
    for (timing, timed) in run.tally.seen.timings.iter() {
        percentiles(timing.name(), &timed.corrected, out)?;
        if run.arguments.rate.is_some() && timed.corrected != timed.raw {
            percentiles(&format!("{}, raw", timing.name()), &timed.raw, out)?;
        }
    }
    let unsent = run.tally.seen.unsent;
    if unsent > 0 {
        writeln!(
            out,
            "  {unsent} requests of the planned rate were not sent: all clients still waited for \
             answers. Their times are in no figure above; use more connections (-c)"
        )?;
    }
    Ok(())
}

/// A sum and its parts, in a line.
fn proof(account: &Balance) -> String {
    let parts: Vec<_> = account.parts.iter().map(|(name, n)| format!("{n} {name}")).collect();
    let verdict = if account.agrees() { "agrees" } else { "DOES NOT AGREE" };
    format!("{} {} = {} ({verdict})", account.total, account.what, parts.join(" + "))
}

fn tester(run: &WrkRun<'_>, out: &mut String) -> std::fmt::Result {
    let seen = &run.tally.seen;
    let busy = seen.threads.iter().map(|thread| thread.busy()).fold(0.0, f64::max);
    let turn = seen.threads.iter().map(|thread| thread.turn_us_max).max().unwrap_or(0);
    let share = 100.0 * run.cpu.as_secs_f64() / seen.elapsed.as_secs_f64().max(1e-6);
    writeln!(
        out,
        "Tester: {:.2}s CPU ({share:.0}% of one), busiest thread {:.0}% busy, longest turn {}",
        run.cpu.as_secs_f64(),
        100.0 * busy,
        time_us(turn as f64),
    )?;
    if seen.is_saturated() {
        writeln!(
            out,
            "WARNING: the tester was saturated: these are its own limits as much as the server's. \
             Use more threads (-t), a rate (-R) or another machine."
        )?;
    }
    if seen.causes.all_of(Cause::Kicked) > 0 && run.arguments.target.binds() {
        writeln!(
            out,
            "WARNING: sessions were taken away. Does another tester have clients with the prefix \
             `{}` too? Two with one name kick each other.",
            run.arguments.target.prefix,
        )?;
    }
    Ok(())
}

fn percentiles(name: &str, of: &Spectrum, out: &mut String) -> std::fmt::Result {
    write!(out, "    {name:<16}")?;
    for percent in [50.0, 90.0, 99.0, 99.9, 100.0] {
        let us = of.at(percent).min(of.max());
        write!(out, "{}", column(&time_us(us as f64), 10))?;
    }
    out.truncate(out.trim_end_matches(' ').len());
    writeln!(out)
}
