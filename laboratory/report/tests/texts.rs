//! The other forms of a run: for terminals, as rows, as a file, as live figures.

mod runs;

use lab::run::Run;
use lab::series::{Column, Reading, Unit};
use runs::EVIL;

#[test]
fn a_terminal_shows_it_within_a_hundred_columns_and_is_not_commanded() {
    let evil = runs::poisoned(runs::tiny(), EVIL);
    for run in [runs::link_limit(), runs::ladder(), runs::saturated(), evil, Run::default()] {
        let text = report::text(&run);
        assert!(text.chars().all(|char| char == '\n' || !char.is_control()));
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
        assert!(text.lines().count() < 400);
    }
}

#[test]
fn a_terminal_shows_what_matters() {
    let text = report::text(&runs::link_limit());
    for words in [
        "FAILED  link-limit",
        "First limit",
        "accept queue overflowed",
        "480k",
        "58,800",
        "agrees: attempts 480,000 = open 421,200 + ended 58,800",
        "errors == 0",
    ] {
        assert!(text.contains(words), "{words}:\n{text}");
    }
    assert!(report::text(&runs::saturated()).starts_with("NOT VALID"));
    assert!(report::text(&runs::ladder()).starts_with("PASSED"));
}

#[test]
fn rows_have_a_cell_for_every_column_and_no_formula() {
    let csv = report::csv(&runs::poisoned(runs::tiny(), EVIL));
    let rows = rows(&csv);
    assert_eq!(rows[0][..2], ["at_ms", "stage"]);
    assert!(rows.len() > 2 && rows.iter().all(|row| row.len() == rows[0].len()));
    assert!(rows.iter().flatten().all(|cell| !cell.starts_with(['=', '+', '-', '@'])));
    assert!(rows[0].iter().any(|cell| cell == &format!("server.{EVIL}")));
}

/// Rows of a text by RFC 4180.
fn rows(csv: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell) = (Vec::new(), Vec::new(), String::new());
    let mut quoted = false;
    let mut chars = csv.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '"' if quoted && chars.peek() == Some(&'"') => {
                cell.push('"');
                chars.next();
            }
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut cell)),
            '\r' if !quoted && chars.peek() == Some(&'\n') => {
                chars.next();
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            _ => cell.push(char),
        }
    }
    rows
}

#[test]
fn a_file_is_read_back_and_a_damaged_one_is_named() {
    let run = runs::ladder();
    let json = report::json(&run);
    let back = report::read(&json).expect("its own words");
    assert!(back.total == run.total && back.stages == run.stages && back.doctor == run.doctor);
    assert!(report::text(&back) == report::text(&run));
    assert!(back.series.columns() == run.series.columns());
    assert!(back.series.times_ms() == run.series.times_ms());
    for (text, words) in [
        (String::new(), "empty"),
        ("hello".to_owned(), "no file of a run"),
        ("[1]".to_owned(), "no file of a run"),
        ("{}".to_owned(), "no file of a run"),
        (json[..json.len() - 7].to_owned(), "cut off"),
        (json.replacen("\"format\":1", "\"format\":2", 1), "format 2"),
        (json.replacen("\"attempts\":", "\"attempts\":-", 1), "damaged"),
        (json.replacen("\"at_ms\":[", "\"at_ms\":[0,", 1), "different lengths"),
        (json.replacen("\"values\":[[", "\"values\":[[],[", 1), "different lengths"),
    ] {
        let error = report::read(&text).expect_err(words);
        assert!(error.contains(words), "{error}");
    }
    let tiny = report::json(&runs::tiny());
    for at in (0..tiny.len()).filter(|at| tiny.is_char_boundary(*at)) {
        assert!(report::read(&tiny[..at]).is_err(), "cut at {at}");
    }
}

#[test]
fn live_figures_are_lines_that_prometheus_reads() {
    let run = runs::poisoned(runs::link_limit(), EVIL);
    let mut reading = Reading::default();
    reading.set(Column::gauge("cpu.busy", Unit::Share).of("target"), 0.5);
    reading.set(Column::gauge("cpu.busy", Unit::Share).of("target"), 0.75);
    reading.set(Column::total("retransmits", Unit::Count).of(EVIL), 4.0);
    reading.set(Column::peak("clients.bind.p99", Unit::Micros), 2_500.0);
    let text = report::prometheus(&run.total, &reading);
    let mut families = std::collections::BTreeMap::new();
    for line in text.lines() {
        if let Some(head) = line.strip_prefix("# TYPE ") {
            let (name, kind) = head.split_once(' ').expect("a name and a type");
            assert!(families.insert(name, kind).is_none(), "{name} is declared twice");
        } else if !line.starts_with("# HELP ") {
            let (name, value) = sample(line);
            let family = name.trim_end_matches("_sum").trim_end_matches("_count");
            assert!(families.contains_key(name) || families.contains_key(family), "{line}");
            assert!(name.starts_with("holdline_load_"), "{line}");
            value.parse::<f64>().expect("a number");
        }
    }
    for line in [
        "holdline_load_attempts_total 480000",
        "holdline_load_ended_total{phase=\"connect\",cause=\"syn_timed_out\",side=\"between\"} \
         47040",
        "holdline_load_reading{name=\"target.cpu.busy\",unit=\"ratio\"} 0.75",
        "holdline_load_reading{name=\"clients.bind.p99\",unit=\"seconds\"} 0.0025",
        "holdline_load_seconds_count{timing=\"bind\",from=\"raw\"} 421308",
    ] {
        assert!(text.lines().any(|each| each == line), "{line}");
    }
}

/// A line's name and value; its labels must be whole.
fn sample(line: &str) -> (&str, &str) {
    let Some((name, rest)) = line.split_once('{') else {
        return line.split_once(' ').expect("a name and a value");
    };
    let (mut quoted, mut escaped) = (false, false);
    for (at, char) in rest.char_indices() {
        match char {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '}' if !quoted => return (name, rest[at + 1..].trim_start()),
            _ => {}
        }
    }
    panic!("labels that never end: {line}");
}
