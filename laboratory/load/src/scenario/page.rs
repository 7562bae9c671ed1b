//! Holds docs/laboratory.md against the program: keys of a plan, figures of rules, causes.
//!
//! The page's tables are made here and compared with what stands there. To write them anew:
//! `cargo test -p load -- --ignored the_page_is_written`.

use lab::cause::Cause;
use std::path::PathBuf;

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/laboratory.md")
}

fn page() -> String {
    std::fs::read_to_string(path()).expect("the page is in the repository")
}

/// The keys of a plan with what they mean: the documentation of `lab::plan`'s fields.
fn keys() -> String {
    let sources = [
        include_str!("../../../lab/src/plan.rs"),
        include_str!("../../../lab/src/plan/conversation.rs"),
        include_str!("../../../lab/src/plan/fault.rs"),
    ];
    sources.map(keys_of).concat()
}

fn keys_of(source: &str) -> String {
    let mut out = String::new();
    let (mut docs, mut rename): (Vec<&str>, Option<&str>) = (Vec::new(), None);
    let mut skipping = 0;
    for line in source.lines() {
        let text = line.trim();
        if skipping > 0 || text.starts_with("fn ") || text.starts_with("pub fn ") {
            let depth = |c| text.matches(c).count() as i32;
            skipping += depth('{') - depth('}');
            docs.clear();
        } else if let Some(doc) = text.strip_prefix("///") {
            docs.push(doc.trim());
        } else if let Some(rest) = text.split("rename = \"").nth(1) {
            rename = rest.split('"').next();
        } else if let Some(name) = named(text, "pub struct ").or(named(text, "pub enum ")) {
            out.push_str(&format!("\n**{}** {}\n\n", heading(name), docs.join(" ")));
            out.push_str("| key | meaning |\n| --- | --- |\n");
            docs.clear();
        } else if !docs.is_empty() && !text.starts_with('#') {
            let field = text.trim_start_matches("pub ");
            let word = field.split([':', ' ', ',', '(', '{']).next().unwrap_or_default();
            let inner = line.len() - line.trim_start().len() > 4;
            let name = rename.take().map_or_else(|| snake(word), str::to_owned);
            if !word.is_empty() && !text.starts_with("pub type") {
                let mark = if inner { "· " } else { "" };
                let docs = docs.join(" ").replace(['[', ']'], "").replace('|', "\\|");
                out.push_str(&format!("| {mark}`{name}` | {docs} |\n"));
            }
            docs.clear();
        } else if text.starts_with("mod default") {
            break;
        }
    }
    out
}

fn named<'a>(text: &'a str, start: &str) -> Option<&'a str> {
    Some(text.strip_prefix(start)?.trim_end_matches([' ', '{']))
}

/// How a part of a plan is written.
fn heading(name: &str) -> &str {
    match name {
        "Plan" => "The plan.",
        "Parameter" => "A value of `[parameters]`.",
        "Target" => "`[target]`.",
        "Group" => "`[[group]]`.",
        "Stage" => "`[[stage]]`.",
        "Arrival" => "`stage.arrive`, `{ shape = \"…\", … }`.",
        "PlannedConversation" => "`[[conversation]]`.",
        "Traffic" => "`[[stage.traffic.GROUP]]`.",
        "What" => "`what` of traffic.",
        "Pace" => "`pace` of traffic.",
        "Fault" => "`[[stage.fault]]`.",
        "FaultKind" => "`what` of a fault.",
        "Network" => "`how` of a network fault.",
        other => other,
    }
}

/// `PerS` as it is written: `per_s`.
fn snake(word: &str) -> String {
    let mut out = String::new();
    for (at, c) in word.char_indices() {
        if c.is_ascii_uppercase() && at > 0 {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

fn figures() -> String {
    let mut out = "| figure | meaning |\n| --- | --- |\n".to_owned();
    for figure in verdict::figures() {
        out.push_str(&format!("| `{}` | {} |\n", figure.name, figure.meaning));
    }
    out
}

fn causes() -> String {
    let mut out = "| cause | whose doing | meaning | look at | counter |\n".to_owned();
    out.push_str("| --- | --- | --- | --- | --- |\n");
    for cause in Cause::ALL {
        let counter = match cause.counter() {
            "" => String::new(),
            counter => format!("`{counter}`"),
        };
        out.push_str(&format!(
            "| `{}` | {} | {} | {} | {counter} |\n",
            cause.name(),
            cause.side().name(),
            cause.meaning(),
            cause.setting(),
        ));
    }
    out
}

/// The page with its tables as they should be.
fn whole(page: &str) -> String {
    let mut page = page.to_owned();
    for (name, table) in [("keys", keys()), ("figures", figures()), ("causes", causes())] {
        let (open, close) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
        let from = page.find(&open).expect("the page has the mark") + open.len();
        let to = page.find(&close).expect("the page has the closing mark");
        page.replace_range(from..to, table.trim_start_matches('\n'));
    }
    page
}

#[test]
fn the_page_says_what_the_program_knows() {
    let page = page();
    let remedy = "docs/laboratory.md: cargo test -p load -- --ignored the_page_is_written";
    assert!(whole(&page) == page, "{remedy}");
    for cause in Cause::ALL {
        assert!(page.contains(&format!("| `{}` |", cause.name())), "{}", cause.name());
    }
    let about = "[[group]]";
    assert!(keys().contains(about) && keys().contains("`keep_alive`"), "{}", keys());
}

#[test]
#[ignore = "it writes the page"]
fn the_page_is_written() {
    std::fs::write(path(), whole(&page())).expect("the page can be written");
}

#[test]
fn the_plan_on_the_page_can_be_run() {
    let page = page();
    let text = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let mut asked = crate::scenario::Asked::default();
    asked.target.url = vec!["mqtt://127.0.0.1:1883".to_owned()];
    let ready = crate::scenario::ready("page", text.expect("a plan"), &asked, false);
    assert!(ready.is_ok(), "{ready:?}");
}

#[test]
fn every_command_on_the_page_names_a_plan_that_comes_along() {
    let page = page();
    for name in ["link-limit", "stability", "ladder", "exception"] {
        assert!(page.contains(&format!("holdline load {name}")), "{name}");
        assert!(crate::scenario::Scenario::named(name).is_some(), "{name}");
    }
}
