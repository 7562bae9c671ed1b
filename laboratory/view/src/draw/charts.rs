//! The last seconds as bars: who is online, how many came, what was sent, how long it took.
//!
//! Draws as many charts side by side as the width carries; each shows the seconds that fit into it,
//! and its title says the highest of those.

use super::{FAINT, part};
use crate::state::{RunState, Second};
use crate::words;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style};
use ratatui::text::Span;
use ratatui::widgets::{Sparkline, Widget};

/// Columns that a chart needs.
const WIDTH: u16 = 26;

struct Chart {
    name: String,
    color: Color,
    /// Of a second and of the timing that is shown.
    of: fn(&Second, &str) -> Option<f64>,
    text: fn(f64) -> String,
}

pub(super) fn draw(state: &RunState, area: Rect, buffer: &mut Buffer) {
    if area.height < 2 {
        return;
    }
    let charts = charts(state);
    let shown = usize::from((area.width / WIDTH).max(1)).min(charts.len());
    let areas = Layout::horizontal(vec![Constraint::Fill(1); shown]).spacing(1).split(area);
    for (chart, area) in charts.iter().zip(areas.iter()) {
        one(state, chart, *area, buffer);
    }
}

fn charts(state: &RunState) -> Vec<Chart> {
    let timing = timing(state);
    let chart = |name: &str, color, of, text| Chart { name: name.to_owned(), color, of, text };
    let mut charts = vec![
        chart("online", Color::Cyan, |second, _| Some(second.online), words::short),
        chart("connects/s", Color::Green, |second, _| Some(second.connects), words::short),
        chart(&format!("{timing} p99"), Color::Magenta, p99, words::micros),
    ];
    if state.history.iter().any(|second| second.sent + second.received > 0.0) {
        charts.push(chart("messages/s", Color::Blue, |second, _| Some(second.sent), words::short));
    }
    if state.errors > 0.0 {
        charts.push(chart("errors/s", Color::Red, |second, _| Some(second.errors), words::short));
    }
    charts
}

/// A chart is of one timing: the one that mattered most lately.
fn timing(state: &RunState) -> &'static str {
    let last = state.history.iter().rev().find_map(|second| second.p99);
    last.map_or("latency", |(name, _)| name)
}

fn p99(second: &Second, timing: &str) -> Option<f64> {
    second.p99.filter(|(name, _)| *name == timing).map(|(_, us)| us)
}

fn one(state: &RunState, chart: &Chart, area: Rect, buffer: &mut Buffer) {
    let skipped = state.history.len().saturating_sub(usize::from(area.width));
    let seconds = state.history.iter().skip(skipped);
    let timing = timing(state);
    // Tenths: rates below one are seen too.
    let values: Vec<Option<u64>> = seconds
        .map(|second| {
            (chart.of)(second, timing).map(|value| (value * 10.0).round().max(0.0) as u64)
        })
        .collect();
    let highest = values.iter().flatten().copied().max();
    let highest_text = highest.map_or("none yet".to_owned(), |value| {
        format!("max {}", (chart.text)(value as f64 / 10.0))
    });
    let title =
        vec![Span::raw(chart.name.clone()), Span::styled(format!(" {highest_text}"), FAINT)];
    let inner = part(title, area, buffer);
    Sparkline::default()
        .data(values)
        .max(highest.unwrap_or(0).max(1))
        .style(Style::new().fg(chart.color))
        .render(inner, buffer);
}
