//! A server's state as cells of a screen: a pure function, whatever the size.
//!
//! From above: which server and how it is, who is there, what goes in and out with a chart of it,
//! what waits, and why connections ended and messages were dropped. Parts without room are left out
//! from below; the bottom line always stays.

use super::{ReasonRate, ServerState};
use crate::draw::{BAD, BOLD, FAINT, GOOD, WEAK, cut, part};
use crate::words;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Sparkline, Widget};

/// Columns of a figure with its name.
const FIGURE: usize = 26;

/// Draws a state into an area.
pub fn draw(state: &ServerState, area: Rect, buffer: &mut Buffer) {
    let area = area.intersection(buffer.area);
    if area.is_empty() {
        return;
    }
    let groups = [people(state), traffic(state), waiting(state)];
    let columns = (usize::from(area.width) / FIGURE).max(1);
    let rows = |figures: &[(String, String)]| 1 + figures.len().div_ceil(columns) as u16;
    let mut left = area.height - 1;
    let mut take = |wanted: u16| {
        let taken = wanted.min(left);
        left -= taken;
        taken
    };
    let head = take(2);
    let [there, moves, waits] = groups.each_ref().map(|group| take(rows(group)));
    let chart = take(if area.height >= 30 { 6 } else { 4 });
    let ends = take(u16::MAX);
    let heights = [head, there, moves, chart, waits, ends, 1].map(Constraint::Length);
    let [head, there, moves, chart, waits, ends, bottom] = Layout::vertical(heights).areas(area);
    header(state, head, buffer);
    let areas = [("People", there), ("Traffic", moves), ("Waiting", waits)];
    for ((title, area), figures) in areas.into_iter().zip(&groups) {
        grid(title, figures, columns, (area, buffer));
    }
    charts(state, chart, buffer);
    reasons(state, ends, buffer);
    Paragraph::new(Line::styled("q end", FAINT)).render(bottom, buffer);
}

fn header(state: &ServerState, area: Rect, buffer: &mut Buffer) {
    let now = &state.now;
    let mut first = vec![
        Span::styled(format!("holdline {}", now.version), BOLD),
        Span::raw(format!(" at {}  ", state.place)),
        Span::styled(now.readiness.clone(), if now.is_ready { GOOD } else { BAD }),
    ];
    if let Some((words, is_well)) = &now.cluster {
        first.push(Span::styled(format!("  {words}"), if *is_well { GOOD } else { BAD }));
    }
    let first = Line::from(first);
    let calm = now.pressure == "calm";
    let turn = words::micros(state.gauge("turn_us_max") as f64);
    let second = match &state.fault {
        Some(why) => Line::styled(format!("no answer: {why}"), BAD),
        None => Line::from(vec![
            Span::raw("memory "),
            Span::styled(now.pressure.clone(), if calm { GOOD } else { WEAK }),
            Span::raw(format!("   longest turn {turn}   {} shards", state.gauge("shards"))),
        ]),
    };
    Paragraph::new(vec![first, second]).render(area, buffer);
}

fn figure(name: &str, value: String) -> (String, String) {
    (name.to_owned(), value)
}

fn people(state: &ServerState) -> Vec<(String, String)> {
    let count = |name| words::count(state.gauge(name) as f64);
    let came = words::short(state.rate("connections_accepted_total"));
    let went = words::short(state.growth(|reading| reading.closed.values().sum()));
    vec![
        figure("connections", count("connections")),
        figure("come, go", format!("+{came} -{went}/s")),
        figure("devices online", count("online")),
        figure("devices known", count("devices")),
        figure("sessions online", count("sessions_online")),
        figure("sessions kept", count("sessions")),
        figure("subscriptions", count("subscriptions")),
        figure("retained", count("retained")),
    ]
}

fn traffic(state: &ServerState) -> Vec<(String, String)> {
    let rate = |name| format!("{}/s", words::short(state.rate(name)));
    let bytes = |name| format!("{}/s", words::bytes(state.rate(name)));
    vec![
        figure("packets in", rate("packets_received_total")),
        figure("packets out", rate("packets_sent_total")),
        figure("bytes in", bytes("bytes_received_total")),
        figure("bytes out", bytes("bytes_sent_total")),
        figure("published", rate("publishes_received_total")),
        figure("delivered", rate("deliveries_total")),
        figure("pushed", rate("pushes_sent_total")),
        figure("push delivered", rate("pushes_delivered_total")),
        figure("pings", rate("pings_total")),
        figure("sent again", rate("deliveries_again_total")),
    ]
}

fn waiting(state: &ServerState) -> Vec<(String, String)> {
    let count = |name| words::count(state.gauge(name) as f64);
    let bytes = |name| words::bytes(state.gauge(name) as f64);
    vec![
        figure("pushes", count("waiting")),
        figure("their bytes", bytes("waiting_bytes")),
        figure("messages", count("queued")),
        figure("their bytes", bytes("queued_bytes")),
        figure("for later", count("delayed")),
        figure("log faults", words::count(state.counter("store_failures_total") as f64)),
    ]
}

/// Figures beside each other, in as many columns as there are.
fn grid(
    title: &str,
    figures: &[(String, String)],
    columns: usize,
    (area, buffer): (Rect, &mut Buffer),
) {
    if area.height < 2 {
        return;
    }
    let inner = part(vec![Span::styled(title, BOLD)], area, buffer);
    let lines = figures.chunks(columns).map(|row| {
        let spans = row.iter().flat_map(|(name, value)| {
            let room = FIGURE - 2;
            let gap = room.saturating_sub(name.chars().count() + value.chars().count()).max(1);
            [
                Span::styled(name.clone(), FAINT),
                Span::raw(" ".repeat(gap)),
                Span::styled(value.clone(), BOLD),
                Span::raw("  "),
            ]
        });
        Line::from(spans.collect::<Vec<_>>())
    });
    Paragraph::new(lines.collect::<Vec<_>>()).render(inner, buffer);
}

fn charts(state: &ServerState, area: Rect, buffer: &mut Buffer) {
    if area.height < 3 {
        return;
    }
    let halves = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).areas::<2>(area);
    for ((at, name), area) in [(0, "packets in"), (1, "packets out")].into_iter().zip(halves) {
        let most = state.packets.iter().map(|rates| rates[at]).fold(0.0, f64::max);
        let title = format!("{name}, two minutes, {}/s at most", words::short(most));
        let inner = part(vec![Span::styled(title, BOLD)], area, buffer);
        let room = usize::from(inner.width);
        let skipped = state.packets.len().saturating_sub(room);
        let values: Vec<u64> =
            state.packets.iter().skip(skipped).map(|rates| rates[at].round() as u64).collect();
        Sparkline::default().data(&values).style(GOOD).render(inner, buffer);
    }
}

fn reasons(state: &ServerState, area: Rect, buffer: &mut Buffer) {
    if area.height < 2 {
        return;
    }
    let halves = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).areas::<2>(area);
    let all = [
        ("Connections ended", state.reasons(|reading| &reading.closed)),
        ("Messages dropped", state.reasons(|reading| &reading.dropped)),
    ];
    for ((title, reasons), area) in all.into_iter().zip(halves) {
        let inner = part(vec![Span::styled(title, BOLD)], area, buffer);
        let lines = reasons.iter().take(usize::from(inner.height)).map(|reason| {
            let ReasonRate { name, all, rate } = reason;
            let style = if *rate > 0.0 { WEAK } else { FAINT };
            let lately = match *rate > 0.0 {
                true => format!("  +{}/s", words::short(*rate)),
                false => String::new(),
            };
            let room = usize::from(inner.width).saturating_sub(22);
            let text = format!("{:>12}  {}{lately}", words::count(*all as f64), cut(name, room));
            Line::styled(text, style)
        });
        let lines: Vec<Line<'_>> = match reasons.is_empty() {
            true => vec![Line::styled("none", FAINT)],
            false => lines.collect(),
        };
        Paragraph::new(lines).render(inner, buffer);
    }
}
