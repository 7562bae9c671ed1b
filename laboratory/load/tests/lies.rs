//! Reports about servers with planted faults (lies): each fault is planted in a server whose
//! correct behaviour is known, and the whole report, not only one figure, is checked. The table of
//! these faults in docs/laboratory.md is generated from the results.

#[path = "lies/broker.rs"]
mod broker;
#[path = "lies/chat.rs"]
mod chat;
#[path = "lies/chats.rs"]
mod chats;
#[path = "lies/lab.rs"]
mod lab_;
#[path = "lies/list.rs"]
mod list;
#[path = "lies/xmpp.rs"]
mod xmpp;

use lab::run::{Gravity, Run};
use list::{Lie, lies};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs that go on at once: most of their time they wait.
const AT_ONCE: usize = 6;

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/laboratory.md")
}

/// Runs every lie, in whatever order, and says what the report said of each.
fn all() -> Vec<(Lie, Run)> {
    let lies = lies();
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(lie) = lies.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let run = (lie.run)();
                    done.lock().expect("none broke off").push((lie.name, run));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("none broke off");
    let mut take = |name| {
        let at = done.iter().position(|(known, _)| *known == name).expect("each was run");
        done.swap_remove(at).1
    };
    lies.into_iter()
        .map(|lie| {
            let run = take(lie.name);
            (lie, run)
        })
        .collect()
}

/// Errors of a run's report, in words.
fn wrong(lie: &Lie, run: &Run) -> Vec<String> {
    let mut wrong = Vec::new();
    for (figure, count) in lie.figures {
        let counted = run.total.figure(figure);
        if counted != *count {
            wrong.push(format!("{figure} is {counted} and not {count}"));
        }
    }
    for (cause, count) in lie.causes {
        let counted = run.total.causes.all_of(*cause);
        if counted != *count {
            wrong.push(format!("{} is {counted} and not {count}", cause.name()));
        }
    }
    if let Some(what) = lie.says {
        let found = run.findings.iter().find(|finding| finding.what.contains(what));
        match found {
            None => wrong.push(format!("nobody says `{what}`")),
            Some(found) if found.side != lie.side => {
                wrong.push(format!(
                    "`{what}` is said of `{}` and not of `{}`",
                    found.side, lie.side
                ));
            }
            Some(found) if !found.evidence.contains(lie.shows) => {
                wrong
                    .push(format!("its evidence is `{}`, without `{}`", found.evidence, lie.shows));
            }
            Some(_) => {}
        }
    }
    for rule in lie.unknown {
        let checks = run.stages.iter().flat_map(|stage| &stage.checks);
        let held = checks.filter(|check| check.rule == *rule).map(|check| check.held);
        if held.clone().any(|held| held.is_some()) || held.count() == 0 {
            wrong.push(format!("`{rule}` is not unknown"));
        }
    }
    for account in run.total.accounts.iter().filter(|account| !account.agrees()) {
        wrong.push(format!("a sum does not agree: {account:?}"));
    }
    let truth = lie.name == "works correctly" && !run.passed();
    let grave = run.findings.iter().filter(|found| found.gravity > Gravity::Note);
    if truth || lie.name.starts_with("works correctly") && grave.count() > 0 {
        wrong.push("an honest one is blamed".to_owned());
    }
    if !wrong.is_empty() {
        wrong.push(format!("findings: {:?}", run.findings));
        wrong.push(format!("not to be trusted: {:?}", run.saturation));
        let checks = run.checks.iter().chain(run.stages.iter().flat_map(|stage| &stage.checks));
        wrong.push(format!("rules: {:?}", checks.collect::<Vec<_>>()));
        wrong.push(format!("finished: {}, notes: {:?}", run.finished, run.notes));
        wrong.push(format!("counted: {:?}", run.total));
    }
    wrong
}

fn table(all: &[(Lie, Run)]) -> String {
    let mut out = "| the server | the report says | fault of | shown by |\n".to_owned();
    out.push_str("| --- | --- | --- | --- |\n");
    for (lie, _) in all {
        let says = match (lie.says, lie.unknown) {
            (Some(says), _) => says.trim_end_matches(['.', ':', '`']).to_owned(),
            (None, []) => "nothing".to_owned(),
            (None, rules) => format!("not known: {}", rules.join(", ")),
        };
        let side = if lie.side.is_empty() { "–" } else { lie.side };
        let shows =
            if lie.shows.is_empty() { "–".to_owned() } else { format!("`{}`", lie.shows) };
        out.push_str(&format!("| {} | {says} | {side} | {shows} |\n", lie.name));
    }
    out
}

fn whole(page: &str, table: &str) -> String {
    let (open, close) = ("<!-- lies -->\n", "<!-- /lies -->");
    let from = page.find(open).expect("the page has the mark") + open.len();
    let to = page.find(close).expect("the page has the closing mark");
    format!("{}{table}{}", &page[..from], &page[to..])
}

#[test]
fn the_report_tells_every_lie_and_the_page_lists_them() {
    let all = all();
    let wrong: Vec<String> = all
        .iter()
        .map(|(lie, run)| (lie.name, wrong(lie, run)))
        .filter(|(_, wrong)| !wrong.is_empty())
        .map(|(name, wrong)| format!("the server {name}:\n  {}", wrong.join("\n  ")))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    let told = all.iter().filter(|(lie, _)| !lie.name.starts_with("works correctly")).count();
    assert!(told >= 60, "{told} lies");
    let page = std::fs::read_to_string(path()).expect("the page");
    let right = whole(&page, &table(&all));
    if std::env::var_os("LIES_WRITE").is_some() {
        std::fs::write(path(), &right).expect("the page can be written");
    } else {
        assert!(page == right, "docs/laboratory.md: LIES_WRITE=1 cargo test -p load --test lies");
    }
}
