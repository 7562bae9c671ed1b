//! The table of `docs/capacity.md`: what each phase of a message costs, by the stored results.
//!
//! Made from the JSON files alone, each row with the run that shows it; what no stored run shows
//! has no row. It judges nothing. Invariant: outside its two marks the page stays as it is.

use super::table::{number, text};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;

/// The latest result of each scenario, by its name.
pub type Latest = BTreeMap<String, Value>;

const BEGIN: &str = "<!-- measured -->\n";
const END: &str = "<!-- /measured -->\n";
/// Of what a core does this share is planned with, the rest is kept free.
const PLANNED: f64 = 0.5;

/// A row: what it is, in words; the scenario; the figure's name there; how it is to be read.
type Row = (&'static str, &'static str, &'static str, How);

/// How a figure is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    /// Microseconds of CPU each.
    Micros,
    /// Nanoseconds of CPU each.
    Nanos,
    /// Events a second on one core.
    PerSecond,
}

use How::{Micros, Nanos, PerSecond};

/// Phases and their rows, in the order of a message's way.
const PHASES: &[(&str, &[Row])] = &[
    (
        "send",
        &[
            ("each sender waits for the acknowledgement", "im-w1", "CPU", Micros),
            ("many messages in flight", "im-w1-pipelined", "CPU", Micros),
            ("36 bytes, to an online recipient", "im-sizes", "36 bytes: CPU", Micros),
            ("1 KiB, to an online recipient", "im-sizes", "1024 bytes: CPU", Micros),
            ("16 KiB, to an online recipient", "im-sizes", "16384 bytes: CPU", Micros),
            ("64 KiB, to an online recipient", "im-sizes", "65536 bytes: CPU", Micros),
            ("of this, the store", "log-chat-send", "CPU", Micros),
        ],
    ),
    (
        "distribute",
        &[
            (
                "to a member's inbox, groups of 100 members",
                "im-w3",
                "distributions a second a core",
                PerSecond,
            ),
            (
                "to a member's inbox, groups of 200 members",
                "im-w4",
                "distributions a second a core",
                PerSecond,
            ),
            (
                "to a member's inbox, groups of 1,000 members",
                "im-w5",
                "distributions a second a core",
                PerSecond,
            ),
        ],
    ),
    (
        "notify",
        &[
            ("send, and delivery to an online recipient", "im-w2", "CPU", Micros),
            ("the same, many messages in flight", "im-w2-pipelined", "CPU", Micros),
            ("to an online member of a large group", "im-wukongim-large", "CPU", Nanos),
            (
                "to a participant of a chatroom of 1,000",
                "im-w6",
                "deliveries a second a core",
                PerSecond,
            ),
            (
                "to a participant of a chatroom of 2,000",
                "im-w7",
                "deliveries a second a core",
                PerSecond,
            ),
            (
                "to a participant of a chatroom of 5,000",
                "im-w8",
                "deliveries a second a core",
                PerSecond,
            ),
            ("to a participant of a chatroom of 15,000", "im-goim", "CPU", Nanos),
        ],
    ),
    ("push", &[("to an offline user, through the gateway", "im-push", "8 at once: CPU", Micros)]),
    (
        "pull",
        &[
            ("a message, from memory", "im-pull", "from memory: CPU", Micros),
            ("from the page cache", "im-pull", "from page cache: CPU", Micros),
            ("from the disk", "im-pull", "from disk: CPU", Micros),
            (
                "of this, the store, from memory",
                "log-pull",
                "hot tail, forwards, engine: CPU",
                Micros,
            ),
            (
                "of this, the store, from the page cache",
                "log-pull",
                "page cache, forwards, engine: CPU",
                Micros,
            ),
            (
                "of this, the store, from the disk",
                "log-pull",
                "cold, forwards, engine: CPU",
                Micros,
            ),
            ("a login with 1,000 conversations", "im-login-sync", "a new device: CPU", Micros),
        ],
    ),
    (
        "files",
        &[
            ("permission to upload", "im-media", "leave to upload: CPU", Micros),
            ("the message about the file", "im-media", "the message of a file: CPU", Micros),
        ],
    ),
];

/// Bytes of memory: what it is, the scenario, the figure.
const MEMORY: &[(&str, &str, &str)] = &[
    ("a session, with its connection", "sim-im-1m", "server bytes a client"),
    ("an account with ten conversations, all in memory", "im-memory", "all known: a person"),
    ("a million such accounts with default settings: the whole process", "im-memory", BY_DEFAULT),
];
const BY_DEFAULT: &str = "by default: all of them, whole process";

/// Writes the table into the page.
pub fn write(latest: &Latest) -> io::Result<()> {
    let page = std::fs::read_to_string(page())?;
    std::fs::write(self::page(), renewed(&page, latest)?)
}

fn page() -> PathBuf {
    super::root().join("docs/capacity.md")
}

/// The page with this table between its marks.
fn renewed(page: &str, latest: &Latest) -> io::Result<String> {
    let marks = || io::Error::other("docs/capacity.md lacks its marks");
    let (before, rest) = page.split_once(BEGIN).ok_or_else(marks)?;
    let (_, after) = rest.split_once(END).ok_or_else(marks)?;
    Ok(format!("{before}{BEGIN}{}{END}{after}", render(latest)))
}

fn render(latest: &Latest) -> String {
    let mut out = String::from(
        "| phase | what | CPU each, µs | per second and core | at half load | run |\n\
         | --- | --- | --- | --- | --- | --- |\n",
    );
    for (phase, rows) in PHASES {
        for (what, scenario, figure, how) in *rows {
            let Some((value, run)) = found(latest, scenario, figure) else { continue };
            let each_us = match how {
                Micros => value,
                Nanos => value / 1e3,
                PerSecond => 1e6 / value,
            };
            row(&mut out, (phase, what), each_us, &run);
        }
        if *phase == "notify" {
            difference(&mut out, latest);
        }
    }
    let mut head = "\n| memory | bytes | run |\n| --- | --- | --- |\n";
    for (what, scenario, figure) in MEMORY {
        let Some((value, run)) = found(latest, scenario, figure) else { continue };
        let _ = writeln!(out, "{head}| {what} | {} | {run} |", number(&json!(value.round())));
        head = "";
    }
    out
}

/// Writes the cost of notifying besides sending: two runs that differ in nothing else.
fn difference(out: &mut String, latest: &Latest) {
    for (what, with, without) in [
        ("delivery alone: the difference of W2 and W1", "im-w2", "im-w1"),
        ("the same, many messages in flight", "im-w2-pipelined", "im-w1-pipelined"),
    ] {
        // Runs of two days, on machines that differ, say nothing by their difference.
        if day(latest, with) != day(latest, without) {
            continue;
        }
        let both = found(latest, with, "CPU").zip(found(latest, without, "CPU"));
        if let Some(((more, of_more), (less, of_less))) = both.filter(|(a, b)| a.0 > b.0) {
            row(out, ("notify", what), more - less, &format!("{of_more}, {of_less}"));
        }
    }
}

fn day<'a>(latest: &'a Latest, scenario: &str) -> &'a str {
    latest.get(scenario).map_or("", |result| text(&result["date"]))
}

fn row(out: &mut String, (phase, what): (&str, &str), each_us: f64, run: &str) {
    let a_core = 1e6 / each_us;
    let _ = writeln!(
        out,
        "| {phase} | {what} | {} | {} | {} | {run} |",
        rounded(each_us),
        number(&json!(two(a_core))),
        number(&json!(two(a_core * PLANNED))),
    );
}

/// Two digits that are planned with.
fn two(value: f64) -> f64 {
    let scale = 10f64.powf(value.abs().log10().floor() - 1.0);
    (value / scale).round() * scale
}

/// Three digits, small ones too.
fn rounded(value: f64) -> String {
    let places = (2.0 - value.abs().log10().floor()).clamp(0.0, 4.0) as usize;
    format!("{value:.places$}")
}

/// A figure of the latest result of a scenario, and a link to it.
fn found(latest: &Latest, scenario: &str, figure: &str) -> Option<(f64, String)> {
    let result = latest.get(scenario)?;
    let figures = result["figures"].as_array()?;
    let value = figures.iter().find(|it| text(&it["name"]) == figure)?["value"].as_f64()?;
    let date = text(&result["date"]);
    let run = format!("[{scenario}](../bench/results/{date}-{scenario}.json)");
    (value > 0.0).then_some((value, run))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latest(figures: &[(&str, &str, f64)]) -> Latest {
        let mut latest = Latest::new();
        for (scenario, name, value) in figures {
            let empty = || json!({ "date": "2026-11-26", "figures": [] });
            let result = latest.entry((*scenario).to_owned()).or_insert_with(empty);
            let all = result["figures"].as_array_mut().expect("a list");
            all.push(json!({ "name": name, "value": value }));
        }
        latest
    }

    #[test]
    fn a_row_is_what_a_run_shows_with_half_kept_free() {
        let text = render(&latest(&[("im-w3", "distributions a second a core", 1_386_963.0)]));
        let row = "| distribute | to a member's inbox, groups of 100 members | 0.721 | 1,400,000 | \
                   690,000 | [im-w3](../bench/results/2026-11-26-im-w3.json) |";
        assert!(text.contains(row), "{text}");
        assert_eq!(text.lines().count(), 3, "nothing else was run: {text}");
    }

    #[test]
    fn delivery_alone_is_a_difference_of_runs_of_one_day() {
        let mut runs = latest(&[("im-w2", "CPU", 35.0), ("im-w1", "CPU", 25.0)]);
        assert!(render(&runs).contains("of W2 and W1 | 10.0 | 100,000 | 50,000 |"));
        runs.get_mut("im-w1").expect("it is there")["date"] = json!("2026-11-25");
        assert!(!render(&runs).contains("of W2 and W1"));
    }

    #[test]
    fn the_page_has_what_the_stored_results_say() {
        let page = std::fs::read_to_string(self::page()).expect("the page");
        let latest = super::super::table::latest().expect("the results");
        let renewed = renewed(&page, &latest).expect("its marks");
        assert!(page == renewed, "`bench table` writes docs/capacity.md anew");
    }
}
