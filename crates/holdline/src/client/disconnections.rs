//! `holdline clients disconnections`: which connections ended, when and why; and
//! `holdline clients slow`: which clients do not keep up.

use crate::client::{Server, moment, query};
use crate::clients::{lines, text};
use base::calendar::unix_day;
use clap::Args;
use lab::plan::Span;
use serde_json::Value;
use server::clock::wall_ms;

/// Milliseconds of a day.
const DAY_MS: u64 = 86_400_000;

/// Printed instead of a table without a line.
const NONE_FOUND: &str = "No disconnection found. A client that is connected has none: see \
                          `holdline clients`; the server forgets the oldest beyond \
                          `disconnections_max`.\n";

/// Filter of the disconnections.
#[derive(Args)]
pub struct Disconnections {
    /// Only of this client or device; `account/device` is a device of an account
    client: Option<String>,
    /// Only of this user or account
    #[arg(long)]
    user: Option<String>,
    /// Only from this address or network, as in 10.1.0.0/16
    #[arg(long, value_name = "ADDRESS")]
    from: Option<String>,
    /// Only those that ended for this reason, as in slow_consumer or auth_failed
    #[arg(long)]
    reason: Option<String>,
    /// Only over this protocol: miop, mqtt, im, xmpp or http
    #[arg(long)]
    protocol: Option<String>,
    /// Only since then: a duration as in 15m, a time of day as in 03:10 or a date and time as in
    /// 2026-11-29T03:10 (UTC). A time of day is the last one
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only before then, in the same notation. A time of day is the first one after --since
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Maximum number of entries; the newest are shown first
    #[arg(long, default_value_t = 20)]
    limit: u32,
}

/// Asks for disconnections; what is to be printed.
pub fn disconnections(
    server: &Server,
    json: bool,
    wanted: &Disconnections,
) -> Result<String, String> {
    let (since_ms, until_ms) = period(wanted.since.as_deref(), wanted.until.as_deref(), wall_ms())?;
    let filters = [
        ("client_id", wanted.client.clone()),
        ("user", wanted.user.clone()),
        ("address", wanted.from.clone()),
        ("reason", wanted.reason.clone()),
        ("protocol", wanted.protocol.clone()),
        ("since_ms", since_ms.map(|ms| ms.to_string())),
        ("until_ms", until_ms.map(|ms| ms.to_string())),
    ];
    let asked = query("/v1/disconnections", &filters);
    let found = server.pages(&asked, "disconnections", wanted.limit)?;
    Ok(match found.is_empty() {
        _ if json => lines(&found),
        true => NONE_FOUND.into(),
        false => table(&found),
    })
}

/// The first and the last Unix millisecond of a period. The error says why it is none.
fn period(
    since: Option<&str>,
    until: Option<&str>,
    now_ms: u64,
) -> Result<(Option<u64>, Option<u64>), String> {
    let since_ms = since.map(|text| unix_ms(text, now_ms)).transpose()?;
    let mut until_ms = until.map(|text| unix_ms(text, now_ms)).transpose()?;
    let is_time_of_day = until.is_some_and(|text| text.contains(':') && !text.contains('T'));
    if let (Some(since_ms), Some(until_ms), true) = (since_ms, &mut until_ms, is_time_of_day)
        && *until_ms <= since_ms
        && *until_ms + DAY_MS - since_ms <= DAY_MS / 2
    {
        // From 02:55 to 03:20, said at 03:01: an end that is still to come.
        *until_ms += DAY_MS;
    }
    match (since_ms, until_ms) {
        (Some(from), Some(to)) if to <= from => Err(format!(
            "--until {} is not after --since {}; write the date too, as in 2026-11-29T03:10",
            until.unwrap_or_default(),
            since.unwrap_or_default()
        )),
        period => Ok(period),
    }
}

/// The Unix millisecond that a text means: a duration before now, a time of day (the last one), or
/// a date with a time.
fn unix_ms(text: &str, now_ms: u64) -> Result<u64, String> {
    let wrong = || format!("{text}: not a time; write 15m, 03:10 or 2026-11-29T03:10");
    if let Some((day, time)) = text.split_once('T') {
        let day = day_number(day).ok_or_else(wrong)?;
        let time = day_ms(time.trim_end_matches('Z')).ok_or_else(wrong)?;
        return Ok(day * DAY_MS + time);
    }
    if text.contains(':') {
        let time = day_ms(text.trim_end_matches('Z')).ok_or_else(wrong)?;
        let at = now_ms - now_ms % DAY_MS + time;
        return Ok(if at > now_ms { at.saturating_sub(DAY_MS) } else { at });
    }
    let before: Span = text.parse().map_err(|_| wrong())?;
    Ok(now_ms.saturating_sub(before.0.as_millis() as u64))
}

/// The Unix day of `YYYY-MM-DD`.
fn day_number(text: &str) -> Option<u64> {
    let mut parts = text.splitn(3, '-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let day = unix_day(year.parse().ok()?, month.parse().ok()?, day.parse().ok()?)?;
    u64::try_from(day).ok()
}

/// Milliseconds of a day until `HH:MM` or `HH:MM:SS`.
fn day_ms(text: &str) -> Option<u64> {
    let parts: Result<Vec<u64>, _> = text.split(':').map(str::parse).collect();
    let (hour, minute, second) = match *parts.ok()? {
        [hour, minute] => (hour, minute, 0),
        [hour, minute, second] => (hour, minute, second),
        _ => return None,
    };
    let is_time = hour < 24 && minute < 60 && second < 60;
    is_time.then_some(((hour * 60 + minute) * 60 + second) * 1_000)
}

/// How long something lasted.
fn span(ms: &Value) -> String {
    match ms.as_u64() {
        None => "-".into(),
        Some(ms) if ms < 1_000 => format!("{ms}ms"),
        Some(ms) if ms < 600_000 => format!("{}s", ms / 1_000),
        Some(ms) if ms < 36_000_000 => format!("{}m", ms / 60_000),
        Some(ms) if ms < 864_000_000 => format!("{}h", ms / 3_600_000),
        Some(ms) => format!("{}d", ms / 86_400_000),
    }
}

fn table(found: &[Value]) -> String {
    let mut out = format!(
        "{:<20} {:<24} {:<14} {:<24} {:<5} {:<20} {:>9} {:>9} {:>9}  DETAIL\n",
        "ENDED", "CLIENT", "USER", "ADDRESS", "PROTO", "REASON", "CONNECTED", "TCP IN", "TCP OUT"
    );
    for it in found {
        let column = |key: &str| text(&it[key]);
        out += &format!(
            "{:<20} {:<24} {:<14} {:<24} {:<5} {:<20} {:>9} {:>9} {:>9}  {}\n",
            moment(&it["at_ms"], "-"),
            column("client_id"),
            column("user"),
            column("address"),
            column("protocol"),
            column("reason"),
            span(&it["connected_ms"]),
            column("bytes_in"),
            column("bytes_out"),
            column("detail"),
        );
    }
    out
}

/// The clients that do not keep up, one a line.
pub fn slow_table(found: &[Value]) -> String {
    let mut out = format!(
        "{:<24} {:<14} {:<5} {:<20} {:>10} {:>10} {:>10} {:>10} {:>8}  ADDRESS\n",
        "CLIENT",
        "USER",
        "PROTO",
        "SINCE",
        "IN SESSION",
        "IN QUEUE",
        "IN SOCKET",
        "BYTES/S",
        "DROPPED"
    );
    for it in found {
        let column = |key: &str| text(&it[key]);
        let reads = if it["stalled"] == true { "stalled".into() } else { column("bytes_per_s") };
        out += &format!(
            "{:<24} {:<14} {:<5} {:<20} {:>10} {:>10} {:>10} {:>10} {:>8}  {}\n",
            column("client_id"),
            column("user"),
            column("protocol"),
            moment(&it["since_ms"], "-"),
            column("queued_bytes"),
            column("queue_bytes"),
            column("socket_bytes"),
            reads,
            column("dropped"),
            column("address"),
        );
    }
    if found.iter().any(|it| it["socket_bytes"].is_null()) {
        out += "-: not sampled yet; the server looks at a connection about once a second\n";
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// 2026-11-29T03:14:15Z.
    const NOW_MS: u64 = 1_795_922_055_000;

    #[test]
    fn times_are_read_as_people_write_them() {
        let ms = |text| unix_ms(text, NOW_MS);
        assert_eq!(ms("15m"), Ok(NOW_MS - 900_000));
        assert_eq!(ms("2d"), Ok(NOW_MS - 172_800_000));
        assert_eq!(ms("03:14"), Ok(NOW_MS - 15_000));
        assert_eq!(ms("03:14:16"), Ok(NOW_MS + 1_000 - 86_400_000), "the last one was yesterday");
        assert_eq!(ms("2026-11-29T03:14:15Z"), Ok(NOW_MS));
        assert_eq!(ms("2026-11-29T03:14"), Ok(NOW_MS - 15_000));
        for wrong in ["", "15", "m", "25:00", "03:60", "2026-13-01T00:00", "2026-11-29T", "now"] {
            assert!(ms(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_period_ends_behind_its_beginning() {
        let of = |since, until| period(Some(since), Some(until), NOW_MS);
        let minute = 60_000;
        let soon = NOW_MS - 15_000 + 6 * minute;
        assert_eq!(of("02:55", "03:20"), Ok((Some(NOW_MS - 15_000 - 19 * minute), Some(soon))));
        let (from, to) = (NOW_MS - 15_000 - 14 * minute, NOW_MS - 15_000 - 4 * minute);
        assert_eq!(of("03:00", "03:10"), Ok((Some(from), Some(to))));
        let night = of("23:50", "00:10").expect("a period");
        assert_eq!(night.1.zip(night.0).map(|(to, from)| to - from), Some(20 * minute));
        assert_eq!(period(None, Some("03:20"), NOW_MS), Ok((None, Some(soon - DAY_MS))));
        for (since, until) in [("03:10", "03:00"), ("5m", "15m"), ("2026-11-29T03:00", "1d")] {
            let why = of(since, until).expect_err("no period");
            assert!(why.starts_with(&format!("--until {until} is not after --since")), "{why}");
        }
    }

    #[test]
    fn an_end_is_one_line_with_its_reason() {
        let it = json!({
            "at_ms": NOW_MS, "client_id": "till-7", "product": null, "user": "tills",
            "address": "10.1.2.3:40", "listener": "main", "protocol": "mqtt",
            "reason": "keep_alive_timeout", "detail": null, "connected_ms": 3_600_000,
            "bytes_in": 12, "bytes_out": 345,
        });
        let shown = table(&[it]);
        let line = shown.lines().nth(1).unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(
            words,
            [
                "2026-11-29T03:14:15Z",
                "till-7",
                "tills",
                "10.1.2.3:40",
                "mqtt",
                "keep_alive_timeout",
                "60m",
                "12",
                "345",
                "-"
            ]
        );
        assert_eq!((span(&json!(90_000)), span(&json!(null))), ("90s".into(), "-".into()));
    }

    #[test]
    fn a_client_that_does_not_read_is_stalled() {
        let it = json!({
            "client_id": "till-7", "user": null, "address": null, "protocol": "mqtt",
            "since_ms": NOW_MS, "waiting_bytes": 12, "queued": 1, "queued_bytes": 3,
            "queue_bytes": 4, "socket_bytes": 5, "stalled": true, "bytes_per_s": 0, "dropped": 7,
        });
        let shown = slow_table(&[it]);
        assert!(shown.contains("3          4          5    stalled        7  -"), "{shown}");
        assert_eq!(shown.lines().count(), 2, "{shown}");
    }

    #[test]
    fn bytes_that_nobody_has_looked_at_are_not_zero() {
        let it = json!({
            "client_id": "till-7", "user": null, "address": null, "protocol": "mqtt",
            "since_ms": NOW_MS, "waiting_bytes": 3, "queued": 1, "queued_bytes": 3,
            "queue_bytes": null, "socket_bytes": null, "stalled": false, "bytes_per_s": null,
            "dropped": 7,
        });
        let shown = slow_table(&[it]);
        assert!(shown.contains("3          -          -          -        7  -"), "{shown}");
        assert!(shown.ends_with("once a second\n"), "{shown}");
    }
}
