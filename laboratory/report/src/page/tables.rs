//! The tables: errors, codes, sums, times, figures, agents, machines, plan, definitions.

use super::top::{self, NAME_CHARS_MAX, SENTENCE_CHARS_MAX};
use crate::{escape, figure, text};
use lab::cause::{Cause, Phase};
use lab::host::{Environment, Fitness, HostRow};
use lab::run::{FIGURES, Run};
use lab::timing::{Spectrum, Timing};
use std::fmt::Write;

/// Codes, sums, agents, settings and notes that are shown, at most.
const CODES_MAX: usize = 60;
const ACCOUNTS_MAX: usize = 40;
const AGENTS_MAX: usize = 40;
const SETTINGS_MAX: usize = 120;
const NOTES_MAX: usize = 300;
/// Characters of a plan, at most.
const PLAN_CHARS_MAX: usize = 30_000;

/// Errors and ends by cause and side, with what is known about each.
pub fn causes(out: &mut String, run: &Run) {
    let causes = &run.total.causes;
    out.push_str("<h3>Ends by cause and side</h3>");
    if causes.sum() == 0 {
        out.push_str("<p>No connection ended.</p>");
        return;
    }
    let mut rows: Vec<(u64, Cause)> =
        Cause::ALL.iter().map(|&cause| (causes.all_of(cause), cause)).collect();
    rows.retain(|(count, _)| *count > 0);
    rows.sort_by_key(|(count, cause)| (!cause.is_error(), std::cmp::Reverse(*count)));
    out.push_str(
        "<div class=\"scroll\"><table class=\"causes\"><thead><tr><th>cause</th><th>side</th>\
         <th class=\"n\">ends</th><th>how far it had come</th><th>what it means</th>\
         <th>likely setting</th><th>shown by</th></tr></thead><tbody>",
    );
    for (count, cause) in rows {
        let phases = Phase::ALL.into_iter().map(|phase| (phase, causes.of(phase, cause)));
        let phases: Vec<String> = phases
            .filter(|(_, count)| *count > 0)
            .map(|(phase, count)| format!("{} {}", phase.name(), figure::count(count as f64)))
            .collect();
        let class = if cause.is_error() { "" } else { " class=\"dim\"" };
        let counter = match cause.counter() {
            "" => "",
            counter => &format!("<code>{counter}</code>"),
        };
        let _ = write!(
            out,
            "<tr{class}><th>{}</th><td>{}</td><td class=\"n\">{}</td><td>{}</td><td>{}</td>\
             <td>{}</td><td>{counter}</td></tr>",
            cause.name(),
            run.side_of(cause).name(),
            figure::count(count as f64),
            phases.join(", "),
            escape::html(cause.meaning()),
            escape::html(cause.setting()),
        );
    }
    out.push_str("</tbody></table></div>");
}

/// Refusals and kicks by the protocol's code.
pub fn codes(out: &mut String, run: &Run) {
    let mut codes: Vec<_> = run.total.codes.iter().collect();
    if codes.is_empty() {
        return;
    }
    codes.sort_by_key(|(code, count)| (std::cmp::Reverse(**count), code.as_str()));
    out.push_str("<h3>Codes of the protocol</h3><table><tbody>");
    for (code, count) in codes.iter().take(CODES_MAX) {
        let code = escape::html_line(code, NAME_CHARS_MAX);
        let count = figure::count(**count as f64);
        let _ = write!(out, "<tr><th>{code}</th><td class=\"n\">{count}</td></tr>");
    }
    out.push_str("</tbody></table>");
    more(out, codes.len(), CODES_MAX, "codes");
}

/// The sums, each with the proof that nothing is missing and nothing is there twice.
pub fn accounts(out: &mut String, run: &Run) {
    out.push_str("<h3>Sums that must agree</h3>");
    if run.total.accounts.is_empty() {
        out.push_str("<p>None was kept.</p>");
    }
    out.push_str("<ul class=\"accounts\">");
    for account in run.total.accounts.iter().take(ACCOUNTS_MAX) {
        let (class, word) = match account.agrees() {
            true => ("ok", "agrees"),
            false => ("bad", "does not agree"),
        };
        let proof = escape::html(&text::proof(account));
        let _ = write!(out, "<li><span class=\"{class}\">{word}</span> {proof}</li>");
    }
    out.push_str("</ul>");
    more(out, run.total.accounts.len(), ACCOUNTS_MAX, "sums");
}

/// All times in figures, from the planned moment and from the real one.
pub fn times(out: &mut String, run: &Run) {
    out.push_str(
        "<div class=\"scroll\"><table><thead><tr><th>time</th><th>from</th><th class=\"n\">count\
         </th><th class=\"n\">mean</th><th class=\"n\">p50</th><th class=\"n\">p90</th>\
         <th class=\"n\">p99</th><th class=\"n\">p99.9</th><th class=\"n\">p99.99</th>\
         <th class=\"n\">longest</th></tr></thead><tbody>",
    );
    for (timing, timed) in run.total.timings.iter() {
        time_row(out, timing.name(), "planned (corrected)", &timed.corrected);
        if timed.raw == timed.corrected {
            let _ = write!(
                out,
                "<tr class=\"dim\"><th></th><td>real (raw)</td>\
                 <td colspan=\"8\">the same: no plan sets a moment for it, or none was missed\
                 </td></tr>"
            );
        } else {
            time_row(out, "", "real (raw)", &timed.raw);
        }
    }
    out.push_str("</tbody></table></div>");
}

fn time_row(out: &mut String, name: &str, from: &str, times: &Spectrum) {
    let count = figure::count(times.count() as f64);
    let _ = write!(out, "<tr><th>{name}</th><td>{from}</td><td class=\"n\">{count}</td>");
    let points = [50.0, 90.0, 99.0, 99.9, 99.99].map(|percent| times.at(percent) as f64);
    for us in [times.mean()].into_iter().chain(points).chain([times.max() as f64]) {
        let _ = write!(out, "<td class=\"n\">{}</td>", figure::micros(us));
    }
    out.push_str("</tr>");
}

/// Writes all other counts.
pub fn figures(out: &mut String, run: &Run) {
    out.push_str("<h3>Everything that was counted</h3><table><tbody>");
    for (name, meaning) in FIGURES {
        let value = run.total.figure(name);
        if value != 0.0 {
            let of_bytes = name.contains("bytes");
            let value = if of_bytes { figure::bytes(value) } else { figure::count(value) };
            let _ = write!(
                out,
                "<tr><th>{name}</th><td class=\"n\">{value}</td><td>{}</td></tr>",
                escape::html(meaning)
            );
        }
    }
    out.push_str("</tbody></table>");
}

/// The machines that made the load.
pub fn agents(out: &mut String, run: &Run) {
    out.push_str(
        "<div class=\"scroll\"><table><thead><tr><th>agent</th><th class=\"n\">clients</th>\
         <th class=\"n\">processor time</th><th class=\"n\">busiest thread</th>\
         <th class=\"n\">longest turn</th><th class=\"n\">clock</th><th>lost</th><th>machine</th>\
         </tr></thead><tbody>",
    );
    for agent in run.agents.iter().take(AGENTS_MAX) {
        let lost = agent.lost_ms.map_or("no".to_owned(), |at| top::when(at, at));
        let class = if agent.lost_ms.is_some() { "bad" } else { "" };
        let offset = agent.offset_us as f64;
        let clock = format!(
            "{} ± {}",
            figure::micros(offset),
            figure::micros(agent.offset_error_us as f64)
        );
        let _ = write!(
            out,
            "<tr><th>{}</th><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{clock}</td><td class=\"{class}\">{lost}</td>\
             <td>{}</td></tr>",
            escape::html_line(&agent.name, NAME_CHARS_MAX),
            figure::count(agent.clients as f64),
            figure::seconds(agent.cpu_s),
            figure::share(agent.busiest),
            figure::micros(agent.turn_us_max as f64),
            escape::html(&machine(&agent.environment)),
        );
    }
    out.push_str("</tbody></table></div>");
    more(out, run.agents.len(), AGENTS_MAX, "agents");
}

/// A machine in one line.
pub fn machine(environment: &Environment) -> String {
    let cores = match environment.cores {
        0 => String::new(),
        1 => "1 core".to_owned(),
        cores => format!("{cores} cores"),
    };
    let memory = match environment.memory_bytes {
        0 => String::new(),
        bytes => figure::bytes(bytes as f64),
    };
    let kernel = match environment.kernel.as_str() {
        "" => String::new(),
        kernel => format!("kernel {kernel}"),
    };
    let version = environment.version.clone();
    let parts = [
        &environment.host,
        &environment.cpu,
        &cores,
        &memory,
        &kernel,
        &environment.around,
        &version,
    ];
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    parts.map(|part| escape::line(part, NAME_CHARS_MAX)).collect::<Vec<_>>().join(" · ")
}

/// The tester's machine, and what the doctor said of both.
pub fn environment(out: &mut String, run: &Run) {
    out.push_str("<section id=\"environment\"><h2>Environment and doctor</h2><dl class=\"facts\">");
    let facts = [
        ("Command", format!("<code>{}</code>", escape::html_line(&run.command, 2_000))),
        ("Target", escape::html_line(&run.target.join(", "), SENTENCE_CHARS_MAX)),
        ("Tester", escape::html(&machine(&run.environment))),
        ("Seed", format!("{}", run.seed)),
        ("Began", figure::date(run.began_unix_ms)),
        ("Took", figure::seconds(run.took_ms as f64 / 1_000.0)),
    ];
    for (what, value) in facts {
        let _ = write!(out, "<dt>{what}</dt><dd>{value}</dd>");
    }
    out.push_str("</dl>");
    doctor(out, run);
    out.push_str("</section>");
}

fn doctor(out: &mut String, run: &Run) {
    let mut rows: Vec<&(String, HostRow)> = run.doctor.iter().collect();
    rows.sort_by_key(|(_, row)| std::cmp::Reverse(row.fitness));
    let bad = rows.iter().filter(|(_, row)| row.fitness == Fitness::Bad).count();
    let weak = rows.iter().filter(|(_, row)| row.fitness == Fitness::Weak).count();
    let _ = write!(
        out,
        "<h3>Settings before the run</h3><p>Looked at: {}. Not enough: {bad}. Weak, at a price: \
         {weak}.</p>",
        rows.len()
    );
    if rows.is_empty() {
        return;
    }
    out.push_str(
        "<div class=\"scroll\"><table><thead><tr><th>machine</th><th>setting</th><th></th>\
         <th>is</th><th>need</th><th>otherwise</th><th>remedy</th></tr></thead><tbody>",
    );
    for (whose, row) in rows.iter().take(SETTINGS_MAX) {
        let (class, word) = match row.fitness {
            Fitness::Good => ("ok", "enough"),
            Fitness::Unknown => ("dim", "unknown"),
            Fitness::Weak => ("warn", "weak"),
            Fitness::Bad => ("bad", "not enough"),
        };
        let text = |text: &str| escape::html_line(text, 300);
        let remedy = match row.remedy.as_str() {
            "" => String::new(),
            remedy => {
                let root = if row.root { " <span class=\"dim\">(root)</span>" } else { "" };
                format!("<code>{}</code>{root}", text(remedy))
            }
        };
        let _ = write!(
            out,
            "<tr><td>{}</td><th>{}</th><td class=\"{class}\">{word}</td><td>{}</td><td>{}</td>\
             <td>{}</td><td>{remedy}</td></tr>",
            text(whose),
            text(&row.item),
            text(&row.value),
            text(&row.need),
            text(&row.symptom),
        );
    }
    out.push_str("</tbody></table></div>");
    more(out, rows.len(), SETTINGS_MAX, "settings");
}

/// Writes the external events, and the plan.
pub fn notes_and_plan(out: &mut String, run: &Run) {
    if !run.notes.is_empty() {
        let _ = write!(
            out,
            "<details><summary>What happened from outside ({})</summary><ol class=\"notes\">",
            run.notes.len()
        );
        for note in run.notes.iter().take(NOTES_MAX) {
            let text = escape::html_line(&note.text, 200);
            let _ = write!(out, "<li>{} {text}</li>", top::when(note.at_ms, note.at_ms));
        }
        out.push_str("</ol>");
        more(out, run.notes.len(), NOTES_MAX, "notes");
        out.push_str("</details>");
    }
    if !run.plan.is_empty() {
        let plan: String = run.plan.chars().take(PLAN_CHARS_MAX).collect();
        let cut = if plan.len() < run.plan.len() { "\n…" } else { "" };
        let plan = escape::html(&plan);
        let _ = write!(out, "<details><summary>The plan</summary><pre>{plan}{cut}</pre></details>");
    }
}

/// Kinds of loops in which a plan's clients come and send; `None`: its text does not tell.
fn loops(plan: &str) -> Option<String> {
    let told = |after: &str, words: &[&'static str]| -> Vec<&'static str> {
        let mut found = Vec::new();
        for (at, _) in plan.match_indices(after) {
            let next: String = plan[at + after.len()..].chars().take(60).collect();
            let places = words.iter().filter_map(|word| Some((next.find(word)?, *word)));
            found.extend(places.min().map(|(_, word)| word));
        }
        found.sort_unstable();
        found.dedup();
        found
    };
    let named = |words: Vec<&str>| {
        let each = words.iter().map(|word| match *word {
            "window" => "<code>window</code>, closed loop".to_owned(),
            word => format!("<code>{word}</code>, open loop"),
        });
        each.collect::<Vec<_>>().join("; ")
    };
    let arrivals = told("shape = ", &["rate", "poisson", "burst", "steps", "window"]);
    let paces = told("pace", &["per_s", "window", "every", "wave"]);
    let mut parts = Vec::new();
    if !arrivals.is_empty() {
        parts.push(format!("connections arrived by {}", named(arrivals)));
    }
    if !paces.is_empty() {
        parts.push(format!("messages were sent by {}", named(paces)));
    }
    (!parts.is_empty()).then(|| format!("<p>In this run {}.</p>", parts.join(", and ")))
}

/// How each number is defined.
pub fn definitions(out: &mut String, run: &Run) {
    out.push_str(
        "<section id=\"definitions\"><h2>How each number is defined</h2>\
         <h3>The model of the load</h3><p><b>Open loop</b>: connections by <code>rate</code>, \
         <code>poisson</code>, <code>burst</code> or <code>steps</code>, and messages by \
         <code>per_s</code>, <code>every</code> or <code>wave</code>, have a planned moment each, \
         whether or not earlier ones were answered. <b>Closed loop</b>: by <code>window</code> the \
         next one waits for an answer, so a slow target is asked less.</p>\
         <p><b>Corrected</b> times count from the planned moment, so a stall counts for everyone \
         who was to be served in it. <b>Raw</b> times count from the moment the tester got to it; \
         where no plan sets a moment both are the same.</p>",
    );
    out.push_str(&loops(&run.plan).unwrap_or_default());
    out.push_str("<h3>Times</h3><dl class=\"facts\">");
    for timing in Timing::ALL {
        let meaning = escape::html(timing.meaning());
        let _ = write!(out, "<dt>{}</dt><dd>{meaning}</dd>", timing.name());
    }
    out.push_str("</dl><h3>Counts</h3><dl class=\"facts\">");
    let plain = [
        ("planned", "Clients that the plan wants to be there."),
        ("attempts", "Connection attempts, including reconnects."),
        ("open", "Connections that are open, bound or not."),
        ("online", "Bound clients."),
        ("bound", "Successful binds."),
        ("errors, lost", "Connections that failed or ended against the plan."),
        ("all bound after", "From the stage's beginning until its clients were all there."),
        (
            "memory a connection",
            "Resident memory of the target's process at the stage's end less that of the run's \
             beginning, by clients online. The kernel's part is in the charts of memory.",
        ),
    ];
    for (name, meaning) in plain.iter().chain(FIGURES) {
        let _ = write!(out, "<dt>{name}</dt><dd>{}</dd>", escape::html(meaning));
    }
    out.push_str("</dl></section>");
}

/// How many are not shown.
pub fn more(out: &mut String, all: usize, shown: usize, what: &str) {
    if all > shown {
        let _ =
            write!(out, "<p class=\"dim\">{} more {what} stand in the saved run.</p>", all - shown);
    }
}
