//! `docs/events.md`, which is printed from the vocabulary.

use super::*;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/events.md");

const HEAD: &str = "\
# Events

Everything that the server tells of itself, by the name that it has everywhere. This list is \
printed from `crates/model/src/counters/event`; a test holds the two together, and no line of \
the log is written but by it.

## In the log

A line has a level, the words below, its fields, and the event's name as `event`: `… WARN a \
client was turned away shard=0 reason=\"bad_credentials\" client=\"till-7\" \
peer=192.0.2.7:51212 event=\"client_turned_away\"`, and the same as members of an object with \
`[server] log_format = \"json\"`. So a rule about a line asks for `event`, and a change of \
words breaks none.

- `error`: a person must act. `warn`: something is degraded, or a limit was reached. `info`: \
the life of the process. `debug`: that of a connection; off by default.
- `holdline_log_events_total` in `/metrics` has, by `event`, how often each `error` and `warn` \
was told since the start, if the log's filter lets them pass.
- `GET /v1/log` and the console's page *Log* have the newest `error` and `warn`, with what \
they mean.
- Where a metric is named it counts the same thing, those times included that were not told.
";

const STREAMS: &str = "
## In streams and webhooks

The `type` of an event of [`GET /v1/events`](api.md#events) and of \
[webhooks](api.md#webhooks). Each has `id`, `type` and `at_ms` besides its fields; fields that \
say nothing are absent. *By name* is told only to who names it.
";

fn written() -> String {
    let mut page = HEAD.to_owned();
    let titles = [
        (EventGroup::Process, "The process"),
        (EventGroup::Storage, "Storage"),
        (EventGroup::Outside, "What is asked or told elsewhere"),
        (EventGroup::Connections, "Connections"),
        (EventGroup::Devices, "Of devices"),
        (EventGroup::Clients, "Of clients of topics"),
        (EventGroup::Chat, "Of chat"),
    ];
    for (group, title) in titles {
        let kinds: Vec<_> = all().filter(|kind| kind.of == group).collect();
        let is_streamed = kinds.iter().all(|kind| kind.is_streamed());
        if group == EventGroup::Devices {
            page.push_str(STREAMS);
        }
        let column = if is_streamed { "told" } else { "level, words" };
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
