//! `docs/events.md`, which is printed from the vocabulary.

use super::*;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/events.md");

const HEAD: &str = "\
# Events

Every event of the server, under the one name that log, metrics, API and console use for it. \
The first part lists the lines of the log, for those who write alert rules or look up a \
message; [the second part](#in-streams-and-webhooks) lists the events that streams and \
webhooks receive. The page is generated from `crates/model/src/counters/event`; a test keeps \
the two identical, and the server logs no other lines.

## In the log

A log line has a level, a message, fields, and the name of its event as `event`: `… WARN a \
client was turned away shard=0 reason=\"bad_credentials\" client=\"till-7\" \
peer=192.0.2.7:51212 event=\"client_turned_away\"`. With `[server] log_format = \"json\"` \
these are the members of an object. Match `event` in alert rules: the name stays when the \
message is reworded.

- Levels: `error`: a person must act. `warn`: something is degraded, or a limit was reached. \
`info`: the life of the process. `debug`: the life of a connection; off by default.
- `holdline_log_events_total` in `/metrics` counts by `event` how often each `error` and \
`warn` was logged since the start, if the log's filter passes them.
- `GET /v1/log` and the console's page *Log* show the newest `error` and `warn` lines with \
their meanings.
- The metric in the last column counts the same thing, including the times that were not logged.
";

const STREAMS: &str = "
## In streams and webhooks

The `type` of an event of [`GET /v1/events`](api.md#events) and of \
[webhooks](api.md#webhooks). Each event has `id`, `type` and `at_ms` besides its fields; \
fields without a value are absent. Events marked *by name* are sent only to subscribers that \
name them.
";

fn written() -> String {
    let mut page = HEAD.to_owned();
    let titles = [
        (EventGroup::Process, "Process"),
        (EventGroup::Storage, "Storage"),
        (EventGroup::Outside, "External services"),
        (EventGroup::Cluster, "Cluster"),
        (EventGroup::Connections, "Connections"),
        (EventGroup::Devices, "Devices"),
        (EventGroup::Clients, "MQTT clients"),
        (EventGroup::Chat, "Chat"),
        (EventGroup::Server, "Server"),
    ];
    for (group, title) in titles {
        let kinds: Vec<_> = all().filter(|kind| kind.of == group).collect();
        let is_streamed = kinds.iter().all(|kind| kind.is_streamed());
        if group == EventGroup::Devices {
            page.push_str(STREAMS);
        }
        let column = if is_streamed { "sent" } else { "level, message" };
        write!(page, "\n### {title}\n| event | {column} | fields | meaning | metric |\n")
            .expect("text");
        page.push_str("| --- | --- | --- | --- | --- |\n");
        kinds.iter().for_each(|kind| page.push_str(&row(kind)));
    }
    page
}

fn row(kind: &EventKind) -> String {
    let told = match kind.told {
        Told::Logged(severity, says) => format!("{}: {says}", severity.name()),
        Told::Streamed => "always".into(),
        Told::StreamedByName => "by name".into(),
    };
    let fields: Vec<_> = kind.fields.iter().map(|field| format!("`{field}`")).collect();
    let metric = kind.counter.map(|it| format!("`holdline_{it}`")).unwrap_or_default();
    let (name, fields, means) = (kind.name, fields.join(" "), kind.means());
    format!("| `{name}` | {told} | {fields} | {means} | {metric} |\n")
}

#[test]
fn the_page_of_events_is_what_the_vocabulary_says() {
    let there = fs::read_to_string(PAGE).expect("docs/events.md is there");
    let remedy = "cargo test -p model -- --ignored the_page_of_events_is_written";
    assert!(there == written(), "docs/events.md is old: {remedy}");
}

#[test]
#[ignore = "writes docs/events.md anew after a change to the vocabulary"]
fn the_page_of_events_is_written() {
    fs::write(PAGE, written()).expect("docs/events.md is written");
}

#[test]
fn a_name_belongs_to_one_kind_and_is_a_word() {
    let mut names = BTreeSet::new();
    for kind in all() {
        assert!(names.insert(kind.name), "{} is declared twice", kind.name);
        let is_word = kind.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        assert!(is_word, "{} is no word", kind.name);
        assert!(kind.means().ends_with('.'), "{} means no sentence", kind.name);
        assert!(!kind.has("event"), "{}: `event` is its name", kind.name);
    }
}

#[test]
fn what_applications_hear_is_in_the_order_of_its_groups() {
    let groups: Vec<_> = STREAMED_NAMES.iter().map(|name| streamed(name).unwrap().of).collect();
    assert!(groups.is_sorted_by_key(|group| *group as u8), "{groups:?}");
    assert!(all().filter(|kind| kind.is_streamed()).count() == STREAMED_NAMES.len());
    assert_eq!(streamed("memory_short"), None, "it is a line of the log");
}

#[test]
fn a_kind_knows_its_fields_by_their_whole_names() {
    assert!(MEMORY_SHORT.has("level") && MEMORY_SHORT.has("bytes"));
    assert!(!MEMORY_SHORT.has("lev") && !MEMORY_SHORT.has("levels") && !MEMORY_SHORT.has(""));
}
