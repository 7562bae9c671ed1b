//! Topics of the API, by which clients that are generated divide its calls.
//!
//! A topic is that of the first word of a path behind its version. Invariant: every route has one.

use serde_json::{Value, json};

/// The first words of paths, the topic's name, and what its calls do.
const TAGS: [(&[&str], &str, &str); 15] = [
    (&["", "console", "session"], "Console", "The console's files, and logging in to it."),
    (
        &[
            "healthz",
            "readyz",
            "openapi.json",
            "im.proto",
            "metrics",
            "status",
            "cluster",
            "drain",
            "backup",
        ],
        "Server",
        "Health, figures, cluster, drains and backups of the server.",
    ),
    (
        &["overview", "alarms", "meanings", "log", "trace", "certificates"],
        "Monitoring",
        "What operators look at: overview, alarms, log, traces, certificates.",
    ),
    (&["configuration"], "Configuration", "The configuration in force, and its reload."),
    (&["events", "webhooks"], "Events", "The stream of events, and webhooks."),
    (
        &["pushes", "reports", "schedules", "platforms"],
        "Pushes",
        "Pushes to devices, reports about them, schedules, and the push services of platforms.",
    ),
    (&["products"], "Products", "Products and their devices."),
    (&["devices", "device"], "Devices", "Devices, with any name."),
    (
        &["clients", "client", "disconnections", "slow_clients", "top"],
        "Clients",
        "MQTT clients and their subscriptions; who is slow, busy or gone.",
    ),
    (
        &["publish", "retained", "retained_message", "bridges"],
        "Messages",
        "Publishing, retained messages, and bridges to other brokers.",
    ),
    (&["presence"], "Presence", "Who is online, by memory and by the directory."),
    (&["users"], "Users", "Users of the accounts book."),
    (&["bans"], "Bans", "Banned addresses, clients and users."),
    (&["tokens", "audit_log"], "Access", "Tokens of the API, and the audit log."),
    (&["chat"], "Chat", "Accounts, messages, groups, chatrooms and broadcasts of chat."),
];

/// All of them, as the description lists them.
pub(super) fn all() -> Value {
    TAGS.iter().map(|(_, name, told)| json!({ "name": name, "description": told })).collect()
}

/// That of a route.
pub(super) fn of(path: &str) -> &'static str {
    let behind = path.strip_prefix("/v1/").unwrap_or(&path[1..]);
    let first = behind.split('/').next().expect("a text has a first part");
    let tag = TAGS.iter().find(|(words, ..)| words.contains(&first));
    tag.unwrap_or_else(|| panic!("{path} has no topic")).1
}
