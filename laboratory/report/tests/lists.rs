//! Lists as long as they are shown, and one longer: what is left out is told.

mod runs;

use lab::compare::{Better, Comparison, ComparisonRow as Compared};
use lab::host::{Fitness, HostRow};
use lab::run::{CheckResult, Finding, Gravity, Note, Run, StageRun};
use lab::series::{Column, FigureKind, Reading, Unit};
use runs::account;
use std::borrow::Cow;

/// A list of a run.
struct List {
    /// Its name where some of it are left out.
    what: &'static str,
    fill: fn(&mut Run, usize),
    /// Text that only one of its rows has: in the page, and for a terminal.
    rows: [&'static str; 2],
    /// The most that are shown there.
    most: [usize; 2],
}

const LISTS: [List; 10] = [
    List {
        what: "codes",
        fill: |run, n| {
            run.total.codes.insert(format!("code-{n:03}"), 1);
        },
        rows: ["<tr><th>code-", "\n  code-"],
        most: [60, 40],
    },
    List {
        what: "sums",
        fill: |run, n| run.total.accounts.push(account(&format!("sum-{n:03}"), &[])),
        rows: ["agrees</span> sum-", "agrees: sum-"],
        most: [40, 40],
    },
    List {
        what: "agents",
        fill: |run, n| {
            let name = format!("agent-{n:03}");
            run.agents.push(lab::run::Agent { name, ..Default::default() });
        },
        rows: ["<tr><th>agent-", ""],
        most: [40, 0],
    },
    List { what: "settings", fill: setting, rows: ["<tr><td>whose-", ""], most: [120, 0] },
    List {
        what: "notes",
        fill: |run, n| run.notes.push(Note { at_ms: 0, text: format!("note-{n:03}") }),
        rows: ["</a> note-", ""],
        most: [300, 0],
    },
    List {
        what: "findings",
        fill: |run, n| {
            let (gravity, what) = (Gravity::Warning, format!("finding-{n:03}"));
            let (side, evidence, remedy) = Default::default();
            let finding = Finding { gravity, side, what, evidence, remedy, from_ms: 0, to_ms: 0 };
            run.findings.push(finding);
        },
        rows: ["</span>finding-", "warning: finding-"],
        most: [40, 40],
    },
    List {
        what: "reasons",
        fill: |run, n| run.saturation.push(format!("reason-{n:03}")),
        rows: ["<li>reason-", "\n  reason-"],
        most: [40, 40],
    },
    List {
        what: "rules",
        fill: |run, n| {
            run.checks.push(CheckResult { rule: format!("rule-{n:03}"), value: None, held: None });
        },
        rows: ["<tr><th><code>rule-", "\n  rule-"],
        most: [60, 40],
    },
    List {
        what: "stages",
        fill: |run, n| {
            run.stages.push(StageRun { name: format!("stage-{n:03}"), ..StageRun::default() })
        },
        rows: ["<tr><th>stage-", "\n  stage-"],
        most: [64, 40],
    },
    List {
        what: "stages that were not run",
        fill: |run, n| run.skipped.push((format!("skip-{n:03}"), "why".to_owned())),
        rows: ["<tr class=\"skipped\"><th>skip-", "was not run: why"],
        most: [40, 40],
    },
];

fn setting(run: &mut Run, n: usize) {
    let text = String::new;
    let row = HostRow {
        item: text(),
        value: text(),
        need: text(),
        fitness: Fitness::Good,
        symptom: text(),
        remedy: text(),
        root: false,
        connections_max: None,
    };
    run.doctor.push((format!("whose-{n:03}"), row));
}

/// The page without the run that it holds.
fn page(run: &Run) -> String {
    let page = report::html(run);
    page.split("<script type=\"application/json\"").next().expect("something").to_owned()
}

/// Holds a list against what is shown of it: `told` is what is said of one that is left out.
fn look(list: &List, at: usize, shown: fn(&Run) -> String, told: &str) {
    let most = list.most[at];
    for count in [most, most + 1] {
        let mut run = Run::default();
        (0..count).for_each(|n| (list.fill)(&mut run, n));
        let shown = shown(&run);
        assert_eq!(shown.matches(list.rows[at]).count(), most, "{count} {}", list.what);
        assert_eq!(shown.contains(told), count > most, "{count} {}: {told}", list.what);
    }
}

#[test]
fn a_page_shows_so_much_of_each_list_and_tells_how_much_more_there_is() {
    for list in &LISTS {
        look(list, 0, page, &format!(">1 more {} stand in the saved run.", list.what));
    }
}

#[test]
fn a_terminal_shows_so_much_of_each_list_and_tells_how_much_more_there_is() {
    for list in LISTS.iter().filter(|list| list.most[1] > 0) {
        look(list, 1, report::text, "\n  1 more are in the page.");
    }
}

#[test]
fn figures_without_a_chart_are_shown_up_to_so_many() {
    for (owner, kind) in [("server.", FigureKind::Gauge), ("target.tcp.", FigureKind::Total)] {
        let list = |count: usize| {
            let mut run = Run::default();
            for value in [1.0, 2.0] {
                let mut reading = Reading::default();
                for n in 0..count {
                    let name = Cow::Owned(format!("{owner}figure-{n:03}"));
                    reading.set(Column { name, unit: Unit::Count, kind }, value);
                }
                run.series.push(value as u64 * 1_000, 0, &reading);
            }
            let page = page(&run);
            let rows = page.matches(&format!("<tr><th>{owner}figure-")).count();
            (rows, page.contains(">1 more figures stand in the saved run."))
        };
        assert_eq!([120, 121].map(list), [(120, false), (120, true)], "{owner}");
    }
}

#[test]
fn a_plan_is_shown_up_to_so_many_characters() {
    for (chars, cut) in [(30_000, false), (30_001, true)] {
        let run = Run { plan: "é".repeat(chars), ..Run::default() };
        let page = page(&run);
        assert_eq!(page.matches('é').count(), 30_000);
        assert_eq!(page.contains("\n…</pre>"), cut, "{chars}");
    }
}

#[test]
fn a_sum_has_so_many_parts_and_dots_for_the_others() {
    for (count, dots) in [(60, false), (61, true)] {
        let names: Vec<String> = (0..count).map(|n| format!("part-{n:02}")).collect();
        let mut parts: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
        parts.push(("nothing", 0));
        let mut run = Run::default();
        run.total.accounts = vec![account("sum", &parts)];
        let page = page(&run);
        assert!(page.contains(&format!("sum {count} = part-00 1 + part-01 1")));
        assert_eq!(page.matches(" 1</li>").count(), usize::from(!dots));
        assert_eq!(page.contains("part-59 1 + …</li>"), dots, "{count}");
    }
}

#[test]
fn a_comparison_shows_so_many_rows_and_remarks_and_tells_of_more() {
    let row = |n: usize| Compared {
        figure: format!("figure-{n:03}"),
        meaning: String::new(),
        values: [1.0, 1.0],
        shown: ["1".to_owned(), "1".to_owned()],
        change: None,
        interval: None,
        better: Better::NoDifference,
        method: String::new(),
    };
    for (rows, remarks, more) in [(400, 400, 0), (401, 400, 1), (400, 401, 1), (401, 401, 2)] {
        let comparison = Comparison {
            differs: (0..remarks).map(|n| format!("remark-{n:03}")).collect(),
            compared: true,
            rows: (0..rows).map(row).collect(),
            ..Comparison::default()
        };
        for shown in [report::compare::text(&comparison), report::compare::html(&comparison)] {
            let count = |of: &str| shown.matches(of).count();
            assert_eq!((count("figure-"), count("remark-")), (400, 400));
            assert_eq!(count("1 more are not shown."), more);
        }
    }
}
