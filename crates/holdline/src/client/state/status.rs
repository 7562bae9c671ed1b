//! `holdline status`: how a running server is, once, with an exit code for whoever watches over it.

use crate::client::{Server, entries, moment};
use clap::Args;
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;
use view::{ServerReading, words};

/// Time for an answer: one that comes later is none for whoever watches.
const PATIENCE: Duration = Duration::from_secs(10);

/// How a running server is; exit 0 when it takes everything, 1 when not, 2 without an answer or
/// with an invalid token
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    server: Server,
    /// Print the server's readiness and status as JSON
    #[arg(long)]
    json: bool,
}

/// Asks, and prints what came of it.
pub fn status(arguments: &Arguments) -> ExitCode {
    let Arguments { server, json } = arguments;
    let readiness = match readiness(server, PATIENCE) {
        Ok(readiness) => readiness,
        Err(why) => {
            note!("{why}");
            return ExitCode::from(2);
        }
    };
    let mut status = match figures(server, "/v1/status") {
        Ok(status) => status,
        Err(why) => {
            note!("{why}");
            return ExitCode::from(2);
        }
    };
    if !status.is_null() && status["cluster"].is_null() {
        let told = figures(server, "/v1/cluster").unwrap_or(Value::Null);
        status["cluster"] = told["cluster"].clone();
    }
    // A node that follows answers nothing else.
    let has_more = !status.is_null() && status["follows"] != true;
    let overview = has_more.then(|| figures(server, "/v1/overview")).and_then(Result::ok);
    let overview = overview.unwrap_or(Value::Null);
    let reading = reading(0, &readiness, &status);
    if *json {
        let alarms =
            if status["follows"] == true { &status["alarms"] } else { &overview["alarms"] };
        out!(
            "{}",
            serde_json::json!({ "readiness": readiness, "status": status, "alarms": alarms })
        );
    } else if status.is_null() {
        out!("{}: {}", server.place(), reading.readiness);
    } else if status["follows"] == true {
        crate::out::print(&follower(&server.place(), &reading, &status["cluster"]));
        crate::out::print(&alarms(&status));
    } else {
        crate::out::print(&text(&server.place(), &reading));
        if !overview.is_null() {
            crate::out::print(&more(&overview));
        }
    }
    ExitCode::from(u8::from(!reading.is_ready))
}

/// Answer of the server to a call; null: this caller may not ask, and a note says why. Anybody may
/// ask for readiness, so a missing token or scope is no error here; an invalid token is one.
fn figures(server: &Server, path: &str) -> Result<Value, String> {
    let told = |why: String| {
        note!("{why}");
        Value::Null
    };
    match server.ask(PATIENCE, path) {
        Ok((401, answer)) => Err(server.told(401, answer).err().unwrap_or_default()),
        Ok((status, answer)) => Ok(server.told(status, answer).unwrap_or_else(told)),
        Err(why) => Ok(told(why)),
    }
}

/// Answer to `/readyz`.
fn readiness(server: &Server, patience: Duration) -> Result<Value, String> {
    match server.look(patience, "/readyz")? {
        (200 | 503, readiness) if readiness.is_object() => Ok(readiness),
        (code, _) => Err(format!("{} answered {code} to /readyz", server.place())),
    }
}

/// Answers to `/readyz` and `/v1/status`, within this time each.
pub(super) fn ask(server: &Server, patience: Duration) -> Result<(Value, Value), String> {
    let readiness = readiness(server, patience)?;
    let mut status = server.call_within(Some(patience), "GET", "/v1/status", None)?;
    if status["cluster"].is_null() {
        let told = server.call_within(Some(patience), "GET", "/v1/cluster", None)?;
        status["cluster"] = told["cluster"].clone();
    }
    Ok((readiness, status))
}

/// The answers as figures, asked at this moment.
pub(super) fn reading(at_ms: u64, readiness: &Value, status: &Value) -> ServerReading {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let numbers = |value: &Value| {
        let all = value.as_object().into_iter().flatten();
        all.filter_map(|(name, value)| Some((name.clone(), value.as_u64()?))).collect()
    };
    let (is_ready, readiness) = (readiness["ready"] == true, word_of(readiness));
    let (counters, closed): (BTreeMap<_, _>, _) =
        (numbers(&status["counters"]), numbers(&status["closed"]));
    ServerReading {
        at_ms,
        version: text(&status["version"]),
        readiness,
        is_ready,
        cluster: in_cluster(&status["cluster"]),
        pressure: text(&status["memory_pressure"]),
        gauges: numbers(status),
        counters,
        closed,
        dropped: numbers(&status["dropped"]),
    }
}

/// Why it does not take everything; a log that is full does not make it unready.
fn word_of(readiness: &Value) -> String {
    if readiness["draining"] == true {
        return "draining".into();
    }
    let logs = readiness["logs"].as_array().into_iter().flatten().enumerate();
    let worst = |word| {
        let mut of = logs.clone().filter(|(_, log)| **log == word).map(|(at, _)| at);
        of.next().map(|at| format!("log {at} {word}"))
    };
    let ready = if readiness["ready"] == true { "ready" } else { "not ready" };
    worst("failed").or_else(|| worst("full")).unwrap_or_else(|| ready.into())
}

/// How a node stands in its cluster, in a line, and whether that is well.
fn in_cluster(cluster: &Value) -> Option<(String, bool)> {
    let number = |of: &Value, name: &str| of[name].as_u64().unwrap_or_default();
    let logs = || cluster["logs"].as_array().into_iter().flatten();
    let most = |name| logs().map(|log| number(log, name)).max().unwrap_or_default();
    if cluster.is_null() {
        return None;
    }
    if cluster["leads"] != true {
        let lag = words::count(most("lag") as f64);
        return Some(match cluster["leader"].as_u64() {
            _ if cluster["isolated"] == true => ("isolated: NATS does not answer".into(), false),
            Some(leader) if cluster["node"] == leader => ("takes over".into(), true),
            Some(leader) => (format!("follows node {leader}, {lag} records behind"), true),
            None => ("follows nobody".into(), false),
        });
    }
    let (there, wanted) = (number(cluster, "followers"), number(cluster, "followers_wanted"));
    let after = words::micros(most("acknowledged_after_us") as f64);
    let bytes: u64 = logs().map(|log| number(log, "stream_bytes")).sum();
    let full = if cluster["full"] == true { ", a stream is full" } else { "" };
    let full = format!("{full}{}{}", away(cluster), lost(cluster));
    let told = format!(
        "leads, {there} of {wanted} followers, NATS acknowledges after {after}, streams {}{full}",
        words::bytes(bytes as f64)
    );
    Some((told, there >= wanted && full.is_empty()))
}

/// Nodes of a cluster that were silent for 3 s, as the end of a line.
fn away(cluster: &Value) -> String {
    let nodes = cluster["nodes"].as_array().into_iter().flatten();
    let away = nodes.filter(|node| {
        node["node"] != cluster["node"] && node["heard_ms"].as_u64().is_none_or(|ms| ms >= 3_000)
    });
    let away: Vec<&str> = away.filter_map(|node| node["name"].as_str()).collect();
    if away.is_empty() { String::new() } else { format!(", away: {}", away.join(" ")) }
}

/// Acknowledged records that were lost and not seen by an operator, as the end of a line.
fn lost(cluster: &Value) -> String {
    match cluster["lost_unseen"].as_u64().unwrap_or_default() {
        0 => String::new(),
        lost => format!(", {lost} acknowledged records LOST (holdline cluster lost)"),
    }
}

/// A node of a cluster that follows.
fn follower(place: &str, reading: &ServerReading, cluster: &Value) -> String {
    let nodes = cluster["nodes"].as_array().into_iter().flatten();
    let named = |number: &Value| {
        let found = nodes.clone().find(|node| node["node"] == *number);
        match found.and_then(|node| node["name"].as_str()) {
            Some(name) => format!("{name} ({number})"),
            None => "nobody".to_owned(),
        }
    };
    let logs = cluster["logs"].as_array().into_iter().flatten();
    let lag = logs.filter_map(|log| log["lag"].as_u64()).max().unwrap_or_default();
    let nats = if cluster["connected"] == true { "connected" } else { "disconnected" };
    let lines = [
        ("this node", named(&cluster["node"])),
        ("leader", named(&cluster["leader"])),
        ("leader's API", cluster["leader_api"].as_str().unwrap_or("not known").to_owned()),
        ("behind it", format!("{} records", words::count(lag as f64))),
        ("NATS", nats.to_owned()),
        ("away", away(cluster).trim_start_matches(", away: ").to_owned()),
        ("lost", lost(cluster).trim_start_matches(", ").to_owned()),
    ];
    let lines = lines.into_iter().filter(|(_, value)| !value.is_empty());
    let mut out =
        format!("holdline {} at {place}: follows, {}\n", reading.version, reading.readiness);
    for (name, value) in lines {
        out += &format!("  {name:<18}{value}\n");
    }
    out
}

fn text(place: &str, reading: &ServerReading) -> String {
    let number = |name: &str| reading.gauges.get(name).copied().unwrap_or_default() as f64;
    let (count, bytes) = (|name| words::count(number(name)), |name| words::bytes(number(name)));
    let lines = [
        ("connections", count("connections")),
        ("devices", format!("{} online, {} known", count("online"), count("devices"))),
        ("sessions", format!("{} online, {} stored", count("sessions_online"), count("sessions"))),
        ("subscriptions", count("subscriptions")),
        ("retained", format!("{} messages, {}", count("retained"), bytes("retained_bytes"))),
        ("pushes queued", format!("{}, {}", count("waiting"), bytes("waiting_bytes"))),
        ("messages queued", format!("{}, {}", count("queued"), bytes("queued_bytes"))),
        ("delayed", count("delayed")),
        ("memory", reading.pressure.clone()),
        ("longest loop turn", words::micros(number("turn_us_max"))),
    ];
    let mut out = format!("holdline {} at {place}: {}\n", reading.version, reading.readiness);
    let cluster = reading.cluster.iter().map(|(told, _)| ("cluster", told.clone()));
    for (name, value) in lines.into_iter().chain(cluster) {
        out += &format!("  {name:<18}{value}\n");
    }
    out
}

/// Backups and alarms.
fn more(overview: &Value) -> String {
    let backup = match overview["readings"]["backup_newest_timestamp_seconds"].as_u64() {
        None => "not scheduled".to_owned(),
        Some(0) => "none yet".to_owned(),
        Some(newest_s) => moment(&Value::from(newest_s * 1_000), "-"),
    };
    format!("  {:<18}{backup}\n{}", "scheduled backup", alarms(overview))
}

/// The active alarms of an answer that has them.
fn alarms(answer: &Value) -> String {
    let alarms = entries(answer, "alarms");
    if alarms.is_empty() {
        return format!("  {:<18}none\n", "alarms");
    }
    let mut out = String::new();
    for (at, alarm) in alarms.iter().enumerate() {
        let column = |key: &str| crate::clients::text(&alarm[key]);
        let subject = match alarm["subject"].as_str() {
            None | Some("") => String::new(),
            Some(_) => format!("{}: ", column("subject")),
        };
        let name = if at == 0 { "alarms" } else { "" };
        let (level, kind, text) = (column("level"), column("kind"), column("text"));
        out += &format!("  {name:<18}{level} {kind}: {subject}{text}\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_keeps_a_server_from_taking_everything_is_named() {
        let word = |ready: bool, draining: bool, logs: &[&str]| {
            word_of(&json!({ "ready": ready, "draining": draining, "logs": logs }))
        };
        assert_eq!(word(true, false, &["good", "good"]), "ready");
        assert_eq!(word(true, false, &["good", "full"]), "log 1 full");
        assert_eq!(word(false, false, &["full", "failed"]), "log 1 failed");
        assert_eq!(word(false, true, &["good"]), "draining");
        assert_eq!(word(false, false, &[]), "not ready");
    }

    #[test]
    fn a_node_that_follows_says_whom_and_how_far_it_is() {
        let cluster = json!({
            "node": 2, "leader": 1, "leader_api": "10.0.0.1:7080", "connected": true,
            "nodes": [{ "node": 1, "name": "north" }, { "node": 2, "name": "south" }],
            "logs": [{ "lag": 3 }, { "lag": 7 }],
        });
        let readiness = json!({ "ready": true, "draining": false, "logs": [] });
        let status = json!({ "version": "1.2.3", "follows": true, "cluster": cluster });
        let shown = follower("here", &reading(0, &readiness, &status), &status["cluster"]);
        assert!(shown.starts_with("holdline 1.2.3 at here: follows, ready\n"), "{shown}");
        assert!(shown.contains("leader            north (1)\n"), "{shown}");
        assert!(shown.contains("behind it         7 records\n"), "{shown}");
        let shown = follower("here", &reading(0, &readiness, &status), &json!({}));
        assert!(shown.contains("leader            nobody\n"), "{shown}");
    }

    #[test]
    fn active_alarms_are_named_with_their_severity_and_the_newest_backup_with_its_time() {
        let calm = json!({ "alarms": [], "readings": {} });
        assert_eq!(more(&calm), "  scheduled backup  not scheduled\n  alarms            none\n");
        let alarm = |level: &str, kind: &str, subject: &str, text: &str| {
            json!({
                "level": level, "kind": kind, "subject": subject, "text": text,
            })
        };
        let overview = json!({
            "alarms": [
                alarm("critical", "log_full", "1", "log 1 is full: new data is refused"),
                alarm("warning", "slow_clients", "", "slow clients: 2"),
            ],
            "readings": { "backup_newest_timestamp_seconds": 1_795_922_055 },
        });
        assert_eq!(
            more(&overview),
            "  scheduled backup  2026-11-29T03:14:15Z\n\
             \x20 alarms            critical log_full: 1: log 1 is full: new data is refused\n\
             \x20                   warning slow_clients: slow clients: 2\n"
        );
        let none = json!({ "readings": { "backup_newest_timestamp_seconds": 0 } });
        assert!(more(&none).starts_with("  scheduled backup  none yet\n"));
    }

    #[test]
    fn a_node_s_place_in_its_cluster_is_told_in_a_line() {
        let log = json!({ "lag": 7, "stream_bytes": 2_048, "acknowledged_after_us": 2_600 });
        let mut cluster = json!({
            "leads": true, "leader": 1, "followers": 1, "followers_wanted": 1, "logs": [log],
        });
        let (told, is_well) = in_cluster(&cluster).expect("a cluster");
        assert!(told.starts_with("leads, 1 of 1 followers, NATS acknowledges after 2.6"), "{told}");
        assert!(told.ends_with("streams 2.0 KB") && is_well, "{told}");
        (cluster["followers"], cluster["full"]) = (json!(0), json!(true));
        let (told, is_well) = in_cluster(&cluster).expect("a cluster");
        assert!(told.ends_with(", a stream is full") && !is_well, "{told}");
        cluster["node"] = json!(1);
        cluster["lost_unseen"] = json!(3);
        cluster["nodes"] = json!([
            { "node": 1, "name": "north", "heard_ms": 0 },
            { "node": 2, "name": "south", "heard_ms": 9_000 },
            { "node": 3, "name": "east", "heard_ms": null },
            { "node": 4, "name": "west", "heard_ms": 400 },
        ]);
        let (told, _) = in_cluster(&cluster).expect("a cluster");
        let end = "full, away: south east, 3 acknowledged records LOST (holdline cluster lost)";
        assert!(told.ends_with(end), "{told}");
        cluster["node"] = json!(7);
        cluster["leads"] = json!(false);
        assert_eq!(in_cluster(&cluster), Some(("follows node 1, 7 records behind".into(), true)));
        cluster["leader"] = Value::Null;
        assert_eq!(in_cluster(&cluster), Some(("follows nobody".into(), false)));
        cluster["isolated"] = json!(true);
        assert!(in_cluster(&cluster).is_some_and(|(told, _)| told.starts_with("isolated")));
        assert_eq!(in_cluster(&Value::Null), None);
    }

    #[test]
    fn figures_are_those_of_the_api() {
        let readiness = json!({ "ready": true, "draining": false, "logs": ["good"] });
        let status = json!({
            "version": "1.2.3", "memory_pressure": "calm", "connections": 1_234, "online": 7,
            "devices": 9, "waiting": 3, "waiting_bytes": 2_048, "turn_us_max": 187,
            "counters": { "pings_total": 5 }, "closed": { "peer_reset": 2 }, "dropped": {},
        });
        let reading = reading(17, &readiness, &status);
        assert!(reading.is_ready && reading.at_ms == 17 && reading.counters["pings_total"] == 5);
        assert_eq!((reading.closed["peer_reset"], reading.dropped.len()), (2, 0));
        let text = text("http://here", &reading);
        for line in [
            "holdline 1.2.3 at http://here: ready",
            "  connections       1,234",
            "  devices           7 online, 9 known",
            "  pushes queued     3, 2.0 KB",
            "  longest loop turn 187 us",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}:\n{text}");
        }
    }
}
