//! What is printed: wrk's layout first, then what wrk does not know of long connections.
//!
//! It is a function of figures, so that a test can hold it against a text. In wrk's part a request
//! is a Bind or a heartbeat and its latency that of the answer.

use super::arguments::Arguments;
use super::units::{binary, column, metric, time_s, time_us};
use crate::snapshot::Snapshot;
use crate::tally::{Codes, Ends, side_of};
use hdrhistogram::Histogram;
use model::close::CloseReason;
use std::fmt::Write;
use std::time::Duration;

/// A test that is over.
pub struct Run<'a> {
    /// What was asked for.
    pub arguments: &'a Arguments,
    /// What had been seen when the time was over.
    pub seen: &'a Snapshot,
    /// What had been seen after the fleet stopped.
    pub stopped: &'a Snapshot,
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

/// The URL without its secret.
fn shown(url: &str) -> String {
    let Some(at) = url.find("secret=") else { return url.to_owned() };
    let from = at + "secret=".len();
    let to = url[from..].find('&').map_or(url.len(), |length| from + length);
    format!("{}...{}", &url[..from], &url[to..])
}

/// The lines printed after it.
pub fn print(run: &Run<'_>) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = wrk_block(run, &mut out).and_then(|()| own_block(run, &mut out));
    out
}

fn wrk_block(run: &Run<'_>, out: &mut String) -> std::fmt::Result {
    let seen = run.seen;
    let mut latency = seen.heartbeat_us.clone();
    latency.add(&seen.bind_us).expect("histograms that resize take any value");
    writeln!(out, "  Thread Stats{:>6}{:>11}{:>8}{:>12}", "Avg", "Stdev", "Max", "+/- Stdev")?;
    stats("Latency", &latency, time_us, out)?;
    stats("Req/Sec", &seen.requests_per_s, metric, out)?;
    if run.arguments.latency {
        writeln!(out, "  Latency Distribution")?;
        for percent in [50.0, 75.0, 90.0, 99.0] {
            let us = latency.value_at_percentile(percent) as f64;
            writeln!(out, "{percent:>7.0}%{}", column(&time_us(us), 10))?;
        }
    }
    let seconds = seen.elapsed.as_secs_f64().max(1e-6);
    let (requests, bytes) = (seen.requests(), seen.bytes_in as f64);
    let span = time_us(seen.elapsed.as_micros() as f64);
    writeln!(out, "  {requests} requests in {span}, {}B read", binary(bytes))?;
    let [connect, read, write, timeout] = errors(seen);
    if connect + read + write + timeout > 0 {
        writeln!(
            out,
            "  Socket errors: connect {connect}, read {read}, write {write}, timeout {timeout}"
        )?;
    }
    if seen.refused.sum() > 0 {
        writeln!(out, "  Non-2xx or 3xx responses: {}", seen.refused.sum())?;
    }
    writeln!(out, "Requests/sec: {:>9.2}", requests as f64 / seconds)?;
    writeln!(out, "Transfer/sec: {:>10}B", binary(bytes / seconds))
}

fn stats(
    name: &str,
    of: &Histogram<u64>,
    unit: impl Fn(f64) -> String,
    out: &mut String,
) -> std::fmt::Result {
    let (mean, stdev, max) = (of.mean(), of.stdev(), of.max() as f64);
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
fn within(of: &Histogram<u64>, low: f64, high: f64) -> f64 {
    if of.is_empty() {
        return 0.0;
    }
    let (low, high) = (low.max(0.0).ceil() as u64, high.floor() as u64);
    100.0 * of.count_between(low, high) as f64 / of.len() as f64
}

/// wrk's four: calls that failed, connections that ended while they were to be read from, or
/// written to, and requests without an answer in time.
fn errors(seen: &Snapshot) -> [u64; 4] {
    let late_calls = seen.connect_failed.of(CloseReason::TimedOut);
    let late_binds = seen.bind_failed.of(CloseReason::BindTimeout);
    let ended = seen.bind_failed.sum() - late_binds + seen.closed.sum() + seen.kicked.sum();
    let unread = |ends: &Ends| ends.of(CloseReason::SlowConsumer);
    let write = unread(&seen.bind_failed) + unread(&seen.closed);
    let connect = seen.connect_failed.sum() - late_calls;
    [connect, ended - write, write, late_calls + late_binds + seen.unanswered]
}

fn own_block(run: &Run<'_>, out: &mut String) -> std::fmt::Result {
    let (seen, wanted) = (run.seen, run.arguments.connections);
    writeln!(out, "\nConnections")?;
    writeln!(
        out,
        "  attempted {} (for {wanted} devices, {} of them again), established {}, bound {}, \
         refused {}, open at the end {}",
        seen.attempts,
        seen.reconnects,
        seen.established,
        seen.bound,
        seen.refused.sum(),
        seen.online_now,
    )?;
    codes("refused with code", &seen.refused, out)?;
    codes("kicked with code", &seen.kicked, out)?;
    writeln!(out, "  Latency         p50       p90       p99     p99.9       max")?;
    percentiles("connect", &seen.connect_us, out)?;
    percentiles("bind", &seen.bind_us, out)?;
    let beat = if run.arguments.rate.is_some() { "planned beat" } else { "heartbeat" };
    percentiles(beat, &seen.heartbeat_us, out)?;
    writeln!(out, "  Ends by cause (side)")?;
    ends("not connected", &seen.connect_failed, out)?;
    ends("ended unbound", &seen.bind_failed, out)?;
    ends("ended", &seen.closed, out)?;
    let all = [&seen.connect_failed, &seen.bind_failed, &seen.closed];
    if all.iter().all(|ends| ends.sum() == 0) {
        writeln!(out, "    none")?;
    }
    writeln!(out, "  Sums")?;
    let accounts = seen.accounts();
    for account in accounts.iter().filter(|account| account.name != "reports") {
        writeln!(out, "    {account}")?;
    }
    if !run.stopped.conserved() {
        writeln!(out, "    AFTER THE STOP THE SUMS DO NOT AGREE: {:?}", run.stopped.accounts())?;
    }
    tester(run, out)
}

fn tester(run: &Run<'_>, out: &mut String) -> std::fmt::Result {
    let seen = run.seen;
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
    Ok(())
}

fn codes(name: &str, codes: &Codes, out: &mut String) -> std::fmt::Result {
    for (code, count) in codes.iter() {
        writeln!(out, "    {name} {code}: {count}")?;
    }
    Ok(())
}

fn ends(name: &str, ends: &Ends, out: &mut String) -> std::fmt::Result {
    for (reason, count) in ends.iter() {
        let side = side_of(reason).name();
        writeln!(out, "    {count} {name}: {} ({side}). {}", reason.name(), meaning(reason))?;
    }
    Ok(())
}

/// What a reason means here: most were named from the server's side.
fn meaning(reason: CloseReason) -> &'static str {
    match reason {
        CloseReason::BindTimeout => "The Bind had no answer in time.",
        CloseReason::TimedOut => "No answer to the call, or to sent bytes, came in time.",
        CloseReason::Redirected => "The server asked it to leave and come back.",
        CloseReason::ServerStopped | CloseReason::OwnStop => "The test was over.",
        _ => reason.meaning(),
    }
}

fn percentiles(name: &str, of: &Histogram<u64>, out: &mut String) -> std::fmt::Result {
    write!(out, "    {name:<12}")?;
    for percent in [50.0, 90.0, 99.0, 99.9, 100.0] {
        let us = if of.is_empty() { 0 } else { of.value_at_percentile(percent).min(of.max()) };
        write!(out, "{}", column(&time_us(us as f64), 10))?;
    }
    out.truncate(out.trim_end_matches(' ').len());
    writeln!(out)
}
