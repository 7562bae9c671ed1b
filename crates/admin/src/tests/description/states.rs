//! One word for a state: CLI, console and documentation have the words of the API.

use super::document;
use serde_json::{Value, json};

macro_rules! cli {
    ($($file:literal)*) => {
        &[$(include_str!(concat!("../../../../holdline/src/client/", $file))),*]
    };
}

macro_rules! console {
    ($($file:literal)*) => {
        &[$(include_str!(concat!("../../../../../clients/console/", $file))),*]
    };
}

/// A state, by the field of the API that has it.
struct State {
    of: &'static str,
    /// Schema and field.
    field: (&'static str, &'static str),
    /// Those of an enumeration, all of them; of a flag, the word when it is set, and the word when
    /// it is not, if this is shown.
    words: &'static [&'static str],
    /// Sources that have these words. Others show the word that the API has.
    cli: &'static [&'static str],
    console: &'static [&'static str],
}

#[rustfmt::skip] // a row a state
const STATES: &[State] = &[
    State { of: "server", field: ("Readiness", "ready"), words: &["ready", "not ready"],
        cli: cli!("state/status.rs"), console: &[] },
    State { of: "server", field: ("Readiness", "draining"), words: &["draining"],
        cli: cli!("state/status.rs"), console: &[] },
    State { of: "log of the store", field: ("Readiness", "logs"),
        words: &["good", "full", "failed"], cli: &[], console: &[] },
    State { of: "memory of the server", field: ("Status", "memory_pressure"),
        words: &["calm", "connections", "qos0", "stores"], cli: &[], console: &[] },
    State { of: "presence directory", field: ("PresenceStatus", "circuit"),
        words: &["closed", "open", "half_open"], cli: &[], console: &[] },
    State { of: "certificate", field: ("CertificateStatus", "state"),
        words: &["valid", "expiring", "expired"], cli: &[], console: console!("certificates.js") },
    State { of: "alarm", field: ("Alarm", "level"), words: &["critical", "warning"],
        cli: &[], console: console!("alarms.js" "overview.js") },
    State { of: "bridge", field: ("Bridge", "state"), words: &["connected", "disconnected"],
        cli: cli!("bridge.rs"), console: console!("services.js") },
    State { of: "push platform", field: ("PlatformStatus", "state"),
        words: &["ready", "resting", "denied"], cli: &[], console: &[] },
    State { of: "client, MQTT session", field: ("Client", "online"), words: &["online", "offline"],
        cli: cli!("clients.rs"), console: console!("show.js") },
    State { of: "slow client", field: ("SlowClient", "stalled"), words: &["stalled"],
        cli: cli!("disconnections.rs"), console: console!("slow.js") },
    State { of: "device", field: ("Device", "online"), words: &["online", "offline"],
        cli: cli!("devices.rs"), console: console!("show.js") },
    State { of: "device", field: ("Device", "blocked"), words: &["blocked"],
        cli: cli!("device.rs"), console: console!("clients.js") },
    State { of: "push to a device", field: ("PushOutcome", "outcome"),
        words: &["delivered", "stored", "expired", "rejected"], cli: &[], console: &[] },
    State { of: "push at a device", field: ("PushDevice", "outcome"),
        words: &["stored", "delivered", "expired", "rejected", "cancelled", "opened", "dismissed"],
        cli: &[], console: &[] },
    State { of: "push", field: ("PushCounts", "state"),
        words: &["finished", "scheduled", "paused", "running", "cancelled"],
        cli: &[], console: &[] },
    State { of: "user", field: ("User", "disabled"), words: &["disabled"],
        cli: cli!("user/mod.rs"), console: console!("access.js") },
    State { of: "API token", field: ("ApiToken", "expired"), words: &["expired"],
        cli: cli!("token.rs"), console: console!("access.js") },
    State { of: "call in the audit log", field: ("AuditLogEntry", "outcome"),
        words: &["done", "refused", "failed"], cli: &[], console: &[] },
    State { of: "account that is erased", field: ("ChatErasure", "erased"), words: &["erased"],
        cli: cli!("chat/mod.rs"), console: &[] },
    State { of: "broadcast", field: ("ChatBroadcast", "state"),
        words: &["running", "done", "cancelled", "failed"], cli: &[], console: &[] },
    State { of: "group", field: ("ChatGroup", "closed"), words: &["closed"],
        cli: cli!("chat/mod.rs"), console: console!("rooms.js") },
    State { of: "member of a group", field: ("ChatMember", "muted"), words: &["muted"],
        cli: cli!("chat/mod.rs"), console: console!("rooms.js") },
    State { of: "chatroom", field: ("ChatroomTold", "quiet"), words: &["quiet"],
        cli: cli!("chat/mod.rs"), console: console!("rooms.js") },
];

/// The words of an enumeration; nothing for a flag.
fn words(document: &Value, (schema, field): (&str, &str)) -> Option<Value> {
    let schemas = &document["components"]["schemas"];
    let mut found = &schemas[schema]["properties"][field];
    if let Some(place) = found["$ref"].as_str() {
        found = &schemas[place.rsplit('/').next().expect("a name")];
    }
    if found["items"].is_object() {
        found = &found["items"];
    }
    assert!(found["type"] == "boolean" || found["enum"].is_array(), "{schema}.{field}: {found}");
    found.get("enum").cloned()
}

#[test]
fn the_cli_the_console_and_the_documentation_have_the_words_of_the_api_for_states() {
    let document = document();
    let page = include_str!("../../../../../docs/api.md");
    for State { of, field, words: said, cli, console } in STATES {
        if let Some(words) = words(&document, *field) {
            assert_eq!(words, json!(said), "{field:?}");
        }
        for word in *said {
            for source in *cli {
                assert!(source.contains(&format!("{word}\"")), "the CLI: {of} {word}");
            }
            for source in *console {
                let quoted = [format!("'{word}'"), format!("{word}: '")];
                assert!(quoted.iter().any(|it| source.contains(it)), "the console: {of} {word}");
            }
        }
        let said = said.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" ");
        let row = format!("| {of} | `{}` of `{}` | {said} |\n", field.1, field.0);
        assert!(page.contains(&row), "docs/api.md wants this row in its table of states:\n{row}");
    }
}
