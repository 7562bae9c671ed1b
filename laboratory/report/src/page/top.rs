//! The top of the page: the verdict, what it came to in sentences, and what was found out.

use super::tables::more;
use crate::summary::{self, RunVerdict};
use crate::{escape, figure};
use lab::run::{CheckResult, Finding, Gravity, Run};
use std::fmt::Write;

/// Characters of a name, a sentence and a longer text, at most.
pub const NAME_CHARS_MAX: usize = 120;
/// Characters of a sentence, at most.
pub const SENTENCE_CHARS_MAX: usize = 800;
/// Findings that are shown, at most, the gravest first.
const FINDINGS_MAX: usize = 40;
/// Rules that are shown of one stage or of the run, at most.
const CHECKS_MAX: usize = 60;

/// The banner.
pub fn banner(out: &mut String, run: &Run) {
    let verdict = summary::verdict(run);
    let _ = write!(
        out,
        "<header class=\"banner {}\"><p class=\"kind\">Load report · {}</p><h1>{}</h1>\
         <p class=\"verdict\"><strong>{}</strong> {}</p>",
        class(verdict),
        figure::date(run.began_unix_ms),
        escape::html_line(&run.name, NAME_CHARS_MAX),
        verdict.word(),
        escape::html_prose(&summary::why(run), SENTENCE_CHARS_MAX),
    );
    if verdict == RunVerdict::Invalid {
        out.push_str("<ul>");
        for why in run.saturation.iter().take(FINDINGS_MAX) {
            let _ = write!(out, "<li>{}</li>", escape::html_prose(why, SENTENCE_CHARS_MAX));
        }
        out.push_str("</ul>");
        more(out, run.saturation.len(), FINDINGS_MAX, "reasons");
    }
    out.push_str("</header>");
}

/// Writes the summary.
pub fn summary(out: &mut String, run: &Run) {
    out.push_str("<section id=\"summary\"><h2>Summary</h2>");
    if !run.about.is_empty() {
        let about = escape::html_line(&run.about, SENTENCE_CHARS_MAX);
        let _ = write!(out, "<p class=\"about\">{about}</p>");
    }
    out.push_str("<div class=\"prose\">");
    let written = run.summary.split("\n\n").filter(|part| !part.trim().is_empty());
    let written: Vec<String> =
        written.take(8).map(|part| escape::line(part.trim(), 2 * SENTENCE_CHARS_MAX)).collect();
    let parts = if written.is_empty() { summary::sentences(run) } else { written };
    for part in parts {
        let _ = write!(out, "<p>{}</p>", escape::html_prose(&part, 2 * SENTENCE_CHARS_MAX));
    }
    out.push_str("</div><dl class=\"tiles\">");
    for (what, value, beside) in summary::tiles(run) {
        let _ = write!(
            out,
            "<div><dt>{}</dt><dd>{}</dd><dd class=\"dim\">{}</dd></div>",
            escape::html(&what),
            escape::html(&value),
            escape::html_line(&beside, NAME_CHARS_MAX),
        );
    }
    out.push_str("</dl></section>");
}

/// Writes the findings, the first limit before all others.
pub fn findings(out: &mut String, run: &Run) {
    out.push_str("<section id=\"findings\"><h2>First limit and findings</h2>");
    let first = summary::first_limit(run);
    if first.is_none() {
        out.push_str("<p>No limit was reached.</p>");
    }
    let mut findings: Vec<&Finding> = run.findings.iter().collect();
    findings.sort_by_key(|finding| {
        let is_first = first.is_some_and(|first| std::ptr::eq(first, *finding));
        (!is_first, std::cmp::Reverse(finding.gravity), finding.from_ms)
    });
    for finding in findings.iter().take(FINDINGS_MAX) {
        let is_first = first.is_some_and(|first| std::ptr::eq(first, *finding));
        one_finding(out, finding, is_first);
    }
    more(out, findings.len(), FINDINGS_MAX, "findings");
    out.push_str("</section>");
}

fn one_finding(out: &mut String, finding: &Finding, is_first: bool) {
    let (class, word) = match finding.gravity {
        _ if is_first => ("limit", "First limit"),
        Gravity::Invalid => ("invalid", "Not valid"),
        Gravity::Limit => ("limit", "Limit"),
        Gravity::Warning => ("warning", "Warning"),
        Gravity::Note => ("note", "Note"),
    };
    let text = |text: &str| escape::html_prose(text, SENTENCE_CHARS_MAX);
    let side = if finding.side.is_empty() {
        String::new()
    } else {
        format!("<span class=\"side\">{}</span>", escape::html_line(&finding.side, 40))
    };
    let _ = write!(
        out,
        "<article class=\"finding {class}\"><h3><span class=\"chip\">{word}</span>{}</h3>\
         <p class=\"when\">{}{side}</p>",
        text(&finding.what),
        when(finding.from_ms, finding.to_ms),
    );
    if !finding.evidence.is_empty() {
        let evidence = text(&finding.evidence);
        let _ = write!(out, "<p><b>Evidence</b> {evidence}</p>");
    }
    if !finding.remedy.is_empty() {
        let _ = write!(out, "<p><b>Remedy</b> {}</p>", text(&finding.remedy));
    }
    out.push_str("</article>");
}

/// A stretch of the run, to be jumped to.
pub fn when(from_ms: u64, to_ms: u64) -> String {
    let words = match (figure::clock(from_ms), figure::clock(to_ms)) {
        (from, to) if from == to => from,
        (from, to) => format!("{from} – {to}"),
    };
    format!(
        "<a class=\"jump\" href=\"#charts\" data-from=\"{from_ms}\" data-to=\"{to_ms}\">{words}</a>"
    )
}

/// Rules and what became of them.
pub fn checks(out: &mut String, checks: &[CheckResult]) {
    out.push_str(
        "<table \
         class=\"checks\"><thead><tr><th>rule</th><th>measured</th><th></th></tr></thead><tbody>",
    );
    for check in checks.iter().take(CHECKS_MAX) {
        let (class, word) = match check.held {
            Some(true) => ("ok", "held"),
            Some(false) => ("bad", "failed"),
            None => ("warn", "unknown"),
        };
        let _ = write!(
            out,
            "<tr><th><code>{}</code></th><td>{}</td><td class=\"{class}\">{word}</td></tr>",
            escape::html_line(&check.rule, NAME_CHARS_MAX),
            escape::html_line(&check.shown(), 40),
        );
    }
    out.push_str("</tbody></table>");
    more(out, checks.len(), CHECKS_MAX, "rules");
}

/// The verdict's name in the style.
pub fn class(verdict: RunVerdict) -> &'static str {
    match verdict {
        RunVerdict::Passed => "passed",
        RunVerdict::Failed => "failed",
        RunVerdict::Invalid => "invalid",
    }
}
