//! `holdline clients`: who is connected or has a session, and the end of either.

use crate::client::disconnections::{Disconnections, disconnections, slow_table};
use crate::client::{Server, encoded, query, tell};
use base::text::escaped;
use clap::{Args, Subcommand};
use serde_json::Value;
use std::process::ExitCode;

/// Clients that are looked at to find those that lost most.
const SLOW_READ_MAX: u32 = 5_000;

/// Action of `holdline clients`.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    server: Server,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List clients, one per line
    List {
        /// Only connected clients
        #[arg(long, conflicts_with = "offline")]
        online: bool,
        /// Only disconnected clients
        #[arg(long)]
        offline: bool,
        /// Only clients of this user
        #[arg(long)]
        user: Option<String>,
        /// Only clients whose identifier starts with this
        #[arg(long)]
        prefix: Option<String>,
        /// Maximum number of entries
        #[arg(long, default_value_t = 20)]
        limit: u32,
    },
    /// List connections that ended or were refused, newest first: when, why, for how long
    Disconnections(Disconnections),
    /// List clients that do not keep up, worst first: by bytes that wait in session, queue and
    /// socket
    Slow {
        /// All clients that lost messages since their session began, by how many
        #[arg(long)]
        lost: bool,
        /// Maximum number of entries
        #[arg(long, default_value_t = 20)]
        limit: u32,
    },
    /// Show a client and its subscriptions
    Show {
        /// Client identifier
        client: String,
    },
    /// Disconnect a client; it may reconnect
    Kick {
        /// Client identifier
        client: String,
        /// Also delete its session, with subscriptions and queued messages
        #[arg(long)]
        session: bool,
    },
}

/// Carries out the command, and prints the result.
pub fn clients(arguments: Arguments) -> ExitCode {
    tell(act(&arguments))
}

fn act(arguments: &Arguments) -> Result<String, String> {
    let (server, json) = (&arguments.server, arguments.json);
    match &arguments.action {
        Action::List { online, offline, user, prefix, limit } => {
            let online = (*online || *offline).then(|| online.to_string());
            let filters = [("online", online), ("user", user.clone()), ("prefix", prefix.clone())];
            let found = server.pages(&query("/v1/clients", &filters), "clients", *limit)?;
            Ok(if json { lines(&found) } else { table(&found) })
        }
        Action::Slow { lost, limit } => {
            let found = if *lost {
                let asked = query("/v1/clients", &[("dropped_min", Some("1".to_owned()))]);
                worst(server.page(&asked, "clients", SLOW_READ_MAX)?.found, "dropped", *limit)
            } else {
                let asked = format!("/v1/slow_clients?limit={}", (*limit).clamp(1, 1_000));
                let answer = server.call("GET", &asked, None)?;
                answer["clients"].as_array().cloned().unwrap_or_default()
            };
            Ok(match (json, found.is_empty()) {
                (true, _) => lines(&found),
                (false, true) => "no slow clients\n".to_owned(),
                (false, false) if *lost => table(&found),
                (false, false) => slow_table(&found),
            })
        }
        Action::Disconnections(wanted) => disconnections(server, json, wanted),
        Action::Show { client } => {
            let asked = format!("?client_id={}", encoded(client));
            let mut found = server.call("GET", &format!("/v1/client{asked}"), None)?;
            let subscriptions = format!("/v1/client/subscriptions{asked}");
            let more = server.call("GET", &subscriptions, None)?;
            if json {
                found["subscriptions"] = more["subscriptions"].clone();
                return Ok(format!("{found}\n"));
            }
            Ok(card(&found, more["subscriptions"].as_array().map_or(&[], Vec::as_slice)))
        }
        Action::Kick { client, session } => {
            // Not in the path: there are identifiers that no path carries.
            let mut path = format!("/v1/client?client_id={}", encoded(client));
            if *session {
                path += "&session=true";
            }
            let answer = server.call("DELETE", &path, None)?;
            if json {
                return Ok(format!("{answer}\n"));
            }
            Ok(match (session, answer["was_online"] == true) {
                (true, _) => format!("{client}: session deleted\n"),
                (false, true) => format!("{client}: disconnected\n"),
                (false, false) => format!("{client}: was not connected\n"),
            })
        }
    }
}

/// The clients with most of something, in order.
fn worst(mut clients: Vec<Value>, by: &str, limit: u32) -> Vec<Value> {
    clients.sort_by_key(|client| std::cmp::Reverse(client[by].as_u64()));
    clients.truncate(limit as usize);
    clients
}

/// JSON, an entry a line.
pub fn lines(entries: &[Value]) -> String {
    entries.iter().map(|entry| format!("{entry}\n")).collect()
}

/// A value as people read it, on one line whatever a stranger wrote into it; nothing is a dash.
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::String(text) => escaped(text).into_owned(),
        other => other.to_string(),
    }
}

fn state(client: &Value) -> &'static str {
    if client["online"] == true { "online" } else { "offline" }
}

fn table(clients: &[Value]) -> String {
    let mut out = format!(
        "{:<32} {:<16} {:<7} {:<8} {:>6} {:>7} {:>7}   PEER\n",
        "CLIENT", "USER", "STATE", "PROTOCOL", "SUBS", "QUEUED", "DROPPED"
    );
    for client in clients {
        let column = |key: &str| text(&client[key]);
        out += &format!(
            "{:<32} {:<16} {:<7} {:<8} {:>6} {:>7} {:>7}   {}\n",
            column("client_id"),
            column("user"),
            state(client),
            column("protocol"),
            column("subscriptions"),
            column("queued"),
            column("dropped"),
            column("peer"),
        );
    }
    out
}

fn card(client: &Value, subscriptions: &[Value]) -> String {
    let mut out = format!("{} is {}\n", text(&client["client_id"]), state(client));
    let expiry = match &client["session_expiry_s"] {
        Value::Null => "never expires".to_owned(),
        seconds => format!("{seconds} s"),
    };
    for (name, value) in [
        ("user", text(&client["user"])),
        ("protocol", text(&client["protocol"])),
        ("peer", text(&client["peer"])),
        ("last disconnect reason", text(&client["reason"])),
        ("keep-alive", format!("{} s", client["keep_alive_s"])),
        ("session expiry", expiry),
        ("in flight", text(&client["inflight"])),
        ("queued", format!("{} ({} bytes)", client["queued"], client["queued_bytes"])),
        ("dropped", text(&client["dropped"])),
        ("will", if client["has_will"] == true { "yes" } else { "no" }.to_owned()),
    ] {
        out += &format!("  {name:<28} {value}\n");
    }
    for subscription in subscriptions {
        let (filter, granted) = (text(&subscription["filter"]), &subscription["granted"]);
        out += &format!("  subscribed at QoS {granted}          {filter}\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn those_for_whom_most_waits_come_first() {
        let all = [3, 7, 5].map(|bytes| json!({ "queued_bytes": bytes })).to_vec();
        let found = worst(all, "queued_bytes", 2);
        assert_eq!(found, [json!({ "queued_bytes": 7 }), json!({ "queued_bytes": 5 })]);
    }

    #[test]
    fn a_client_is_shown_with_what_it_has() {
        let client = json!({
            "client_id": "till-7", "user": null, "online": true, "protocol": "mqtt5",
            "peer": "192.0.2.7:1", "reason": null, "keep_alive_s": 60, "session_expiry_s": null,
            "inflight": 0, "queued": 2, "queued_bytes": 9, "dropped": 1, "has_will": false,
            "subscriptions": 1,
        });
        let shown = card(&client, &[json!({ "filter": "a/#", "granted": 1 })]);
        assert!(shown.starts_with("till-7 is online\n") && shown.contains("2 (9 bytes)"));
        assert!(shown.contains("never expires") && shown.ends_with("a/#\n"), "{shown}");
        let listed = table(&[client]);
        assert!(listed.lines().nth(1).is_some_and(|line| line.ends_with("192.0.2.7:1")));
    }
}
