//! Properties of every page, whatever the run: whole, small, and free of foreign markup.

mod markup;
mod runs;

use lab::compare::{Better, Comparison, ComparisonRow, Interval};
use lab::run::Run;
use std::fs;

#[test]
fn the_largest_runs_with_the_worst_texts_make_pages_within_their_limit() {
    for times in [1, 60] {
        let page = report::html(&runs::monstrous(times));
        assert!(page.len() <= report::PAGE_BYTES_MAX, "{times}: {} bytes", page.len());
        assert!(page.len() > 2_000_000, "{times}: {} bytes: where are the charts?", page.len());
        markup::is_ours_alone(&page);
    }
}

#[test]
fn a_run_that_has_no_room_is_thinned_and_keeps_its_heights() {
    let mut run = runs::monstrous(1);
    let columns = lab::series::COLUMNS_MAX;
    let mut high = lab::series::Reading::default();
    let first = run.series.columns()[0].clone();
    high.set(first, 7e15);
    let at = run.series.times_ms().last().copied().expect("rows");
    run.series.push(at + 500, *run.series.stages().last().expect("rows"), &high);
    let saved = report::read(&markup::embedded(&report::html(&run))).expect("its own words");
    assert_eq!(saved.series.columns().len(), columns);
    assert!(saved.series.len() < run.series.len() && saved.series.len() > 4);
    let highest = saved.series.values("clients.online").iter().flatten();
    assert_eq!(highest.fold(0.0, |high: f64, value| high.max(*value)), 7e15);
}

#[test]
fn whatever_stands_in_a_text_it_stays_a_text() {
    let mut seed = 5_u64;
    let mut next = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_041);
        (seed >> 33) as usize % below
    };
    let parts = [
        "<",
        ">",
        "\"",
        "'",
        "&",
        "`",
        "</script>",
        "<script>",
        "<!--",
        "-->",
        "]]>",
        "\u{0}",
        "\n",
        "\r\n",
        "\t",
        "\u{1b}[31m",
        "{}",
        "\\",
        "\\n",
        ",",
        "=",
        "javascript:",
        " onx=",
        "/",
        "%",
        "é",
        "漢",
        "\u{202e}",
        "</title>",
        "</style>",
        "<svg/onload=x>",
        "&lt;",
        "a",
        "1",
    ];
    for _ in 0..60 {
        let text: String = (0..next(30)).map(|_| parts[next(parts.len())]).collect();
        let run = runs::poisoned(runs::tiny(), &text);
        let page = report::html(&run);
        markup::is_ours_alone(&page);
        let mut saved = report::read(&markup::embedded(&page)).expect("its own words");
        let mut run = report::read(&report::json(&run)).expect("its own words");
        assert_eq!(saved.series.columns(), run.series.columns());
        (saved.series, run.series) = Default::default();
        assert!(saved == run, "{text:?}");
        markup::is_ours_alone(&report::compare::html(&comparison(&text)));
    }
}

#[test]
fn every_chart_has_a_title_words_and_a_table() {
    let page = report::html(&runs::link_limit());
    let charts: Vec<&str> = page.split("<figure").skip(1).collect();
    assert!(charts.len() > 25, "{}", charts.len());
    for chart in charts {
        let chart = chart.split("</figure>").next().expect("it ends");
        assert!(chart.contains("<h4>") && chart.contains("role=\"img\""), "{chart:.100}");
        assert!(chart.contains("aria-label=\"") && chart.contains("<tbody><tr>"), "{chart:.100}");
        assert!(chart.contains("d=\"M"), "{chart:.100}");
    }
}

#[test]
fn the_page_says_what_the_run_came_to() {
    let failed = report::html(&runs::link_limit());
    for words in [
        "banner failed",
        "The server&#39;s accept queue overflowed",
        "syn_timed_out",
        "attempts 480,000 = open 421,200 + ended 58,800",
        "LimitNOFILE=1100000",
        "421,200",
        "Corrected",
        "Open loop",
        "href=\"#charts\" data-from=\"845000\"",
        "connections arrived by <code>rate</code>, open loop",
    ] {
        assert!(failed.contains(words), "{words}");
    }
    let passed = report::html(&runs::ladder());
    assert!(passed.contains("banner passed") && passed.contains("BindRefused 135 BUSY"));
    let invalid = report::html(&runs::saturated());
    assert!(invalid.contains("The tester was saturated, this result is not valid."));
    assert!(invalid.contains("banner invalid") && !invalid.contains("banner passed"));
}

#[test]
fn a_run_without_anything_is_a_page_as_well() {
    for run in [Run::default(), runs::tiny()] {
        markup::is_ours_alone(&report::html(&run));
        assert!(!report::text(&run).is_empty());
    }
}

#[test]
#[ignore = "writes pages to the folder named by HOLDLINE_SAMPLES"]
fn writes_samples() {
    let folder = std::env::var("HOLDLINE_SAMPLES").expect("HOLDLINE_SAMPLES names a folder");
    fs::create_dir_all(&folder).expect("a folder that can be written");
    let write = |name: &str, text: String| {
        fs::write(format!("{folder}/{name}"), text).expect("room on the disk");
    };
    for (name, run) in [
        ("link-limit", runs::link_limit()),
        ("ladder", runs::ladder()),
        ("saturated", runs::saturated()),
        ("tiny", runs::tiny()),
        ("empty", Run::default()),
        ("monstrous", runs::monstrous(1)),
    ] {
        write(&format!("{name}.html"), report::html(&run));
        write(&format!("{name}.txt"), report::text(&run));
        write(&format!("{name}.json"), report::json(&run));
    }
    // A run of the laboratory's own, where one is named.
    if let Ok(path) = std::env::var("HOLDLINE_RUN") {
        let run = report::read(&fs::read_to_string(path).expect("a file")).expect("a run");
        write("real.html", report::html(&run));
        write("real.txt", report::text(&run));
    }
    write("compare.html", report::compare::html(&comparison("holdline and mosquitto")));
    write("compare.txt", report::compare::text(&comparison("holdline and mosquitto")));
}

fn comparison(text: &str) -> Comparison {
    let row = |figure: &str, values: [f64; 2], interval: Option<[f64; 2]>, better: Better| {
        ComparisonRow {
            figure: figure.to_owned(),
            meaning: text.to_owned(),
            values,
            shown: values.map(|value| format!("{value:.1} ms")),
            change: Some(values[1] / values[0] - 1.0),
            interval: interval.map(|[low, high]| Interval { low, high }),
            better,
            method: "the runs' own spread (5 and 5 runs)".to_owned(),
        }
    };
    Comparison {
        names: ["ladder of Monday".to_owned(), text.to_owned()],
        differs: vec![text.to_owned()],
        compared: true,
        rows: vec![
            row("bind.p50", [2.1, 2.0], Some([-0.18, -0.03]), Better::Better),
            row("bind.p99", [82.0, 97.0], Some([6.0, 24.0]), Better::Worse),
            row("connect.p99", [1.5, 1.52], Some([-0.2, 0.24]), Better::NoDifference),
            row("clients.online", [1e6, 9e5], None, Better::NoDifference),
            row("messages.sent", [100.0, 180.0], Some([60.0, 300.0]), Better::Differs),
            row(text, [0.0, 1.0], Some([0.5, 1.5]), Better::Worse),
        ],
        summary: "Binding got slower at the tail.".to_owned(),
    }
}
