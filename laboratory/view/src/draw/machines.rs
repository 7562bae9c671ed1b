//! The machines at both ends: processor, memory, sockets, files, and kernel counters that rose
//! though they should not. Red where something is used up.

use super::{BAD, FAINT, WEAK, part};
use crate::state::RunState;
use crate::words;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Widget};

/// Share from which on a resource counts as used up.
const FULL: f64 = 0.95;
/// Columns from which the two ends stand side by side with all they have.
const SIDE: u16 = 60;

/// Rows that both panels need.
pub(super) fn rows(state: &RunState, tall: bool) -> u16 {
    let (server, testers) = ends(state);
    let rows = |names: &[&str]| match names {
        [] => 1,
        [one] => (facts(state, one).len() + state.rose.of(one).len()) as u16,
        many => many.len() as u16 + 1,
    };
    let wanted = rows(&server).max(rows(&testers)) + 1;
    wanted.min(if tall { 11 } else { 6 })
}

pub(super) fn draw(state: &RunState, area: Rect, buffer: &mut Buffer) {
    if area.height < 2 {
        return;
    }
    let (server, testers) = ends(state);
    let halves = if area.width >= SIDE { [1, 1] } else { [1, 0] };
    let [left, right] = Layout::horizontal(halves.map(Constraint::Fill)).spacing(1).areas(area);
    let inner = part(vec![Span::raw("server")], left, buffer);
    let unknown = "not observed: give its pid or port";
    Paragraph::new(lines(state, &server, unknown)).render(inner, buffer);
    if right.width > 0 {
        let saturated = !state.saturation.is_empty();
        let name = if testers.len() > 1 { "agents" } else { "tester" };
        let mut title = vec![Span::raw(name)];
        if saturated {
            title.push(Span::styled(" SATURATED", BAD));
        }
        let inner = part(title, right, buffer);
        Paragraph::new(lines(state, &testers, "no figures yet")).render(inner, buffer);
    }
}

/// Machines of the server's end, and of the testers' end.
fn ends(state: &RunState) -> (Vec<&str>, Vec<&str>) {
    state.machines().into_iter().partition(|name| *name == "target")
}

fn lines<'a>(state: &'a RunState, names: &[&'a str], nothing: &'static str) -> Vec<Line<'a>> {
    match names {
        [] => vec![Line::styled(nothing, FAINT)],
        [one] => {
            let facts = facts(state, one).into_iter();
            let facts = facts.map(|(text, full)| Line::styled(text, alarm(full)));
            facts.chain(rose(state, one, "")).collect()
        }
        many => {
            let one_each = many.iter().map(|name| {
                let facts = facts(state, name);
                let full = facts.iter().any(|(_, full)| *full);
                let texts: Vec<_> = facts.into_iter().map(|(text, _)| text).collect();
                Line::styled(format!("{name}: {}", texts.join(" · ")), alarm(full))
            });
            one_each.chain(many.iter().flat_map(|name| rose(state, name, name))).collect()
        }
    }
}

fn alarm(full: bool) -> Style {
    if full { BAD } else { Style::new() }
}

/// Counters that rose, as lines; those that rise at this moment are red.
fn rose<'a>(state: &'a RunState, name: &str, whose: &'a str) -> impl Iterator<Item = Line<'a>> {
    let rose: Vec<_> =
        state.rose.of(name).into_iter().map(|(name, rise)| (name.to_owned(), rise)).collect();
    rose.into_iter().map(move |(name, rise)| {
        let gap = if whose.is_empty() { "" } else { "." };
        let mut text = format!("{whose}{gap}{name} +{}", words::count(rise.all()));
        if rise.lately > 0.0 {
            text += &format!(", +{} now", words::count(rise.lately));
        }
        Line::styled(text, if rise.lately > 0.0 { BAD } else { WEAK })
    })
}

/// Facts about a machine, in up to four lines, each with whether a resource is used up.
fn facts(state: &RunState, whose: &str) -> Vec<(String, bool)> {
    let of = |name: &str| state.reading.of(&format!("{whose}.{name}"));
    let mut facts = Vec::new();
    let mut line = |parts: Vec<Option<String>>, full: bool| {
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if !parts.is_empty() {
            facts.push((parts.join(" · "), full));
        }
    };
    let busiest = [of("cpu.busiest"), of("busiest"), of("process.busiest")];
    let busiest = busiest
        .into_iter()
        .flatten()
        .fold(None, |most: Option<f64>, share| Some(most.map_or(share, |most| most.max(share))));
    let cores = of("cpu.cores");
    let busy = of("cpu.busy");
    let all = busy.zip(cores).is_some_and(|(busy, cores)| busy >= FULL * cores);
    line(
        vec![
            busy.map(|busy| match cores {
                Some(cores) => format!("cpu {busy:.1} of {cores:.0}"),
                None => format!("cpu {busy:.1}"),
            }),
            busiest.map(|share| format!("busiest {}", words::percent(share))),
            of("turn_us_max").map(|us| format!("turn {}", words::micros(us))),
        ],
        all || busiest.is_some_and(|share| share >= FULL),
    );
    let (used, total) = (of("memory.used"), of("memory.total"));
    line(
        vec![
            used.map(|used| match total {
                Some(total) => format!("memory {} of {}", words::bytes(used), words::bytes(total)),
                None => format!("memory {}", words::bytes(used)),
            }),
            of("process.rss").map(|rss| format!("rss {}", words::bytes(rss))),
        ],
        full(used, total),
    );
    let (files, most) = (of("process.fds"), of("process.fds_max"));
    line(
        vec![
            of("tcp.established").map(|sockets| format!("tcp {}", words::count(sockets))),
            files.map(|files| match most {
                Some(most) => format!("files {} of {}", words::count(files), words::short(most)),
                None => format!("files {}", words::count(files)),
            }),
        ],
        full(files, most),
    );
    facts
}

fn full(used: Option<f64>, most: Option<f64>) -> bool {
    used.zip(most).is_some_and(|(used, most)| most > 0.0 && used >= FULL * most)
}
