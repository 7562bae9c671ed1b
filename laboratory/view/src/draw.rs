//! A state as cells of a screen: a pure function, whatever the size.
//!
//! From above: whom and how far, the verdict so far, the figures of this second, charts, errors by
//! cause, the two ends' machines, notes, and the keys. Parts without room are left out from below
//! the figures on; the bottom line always stays.

mod charts;
mod errors;
mod figures;
mod header;
mod help;
mod machines;
mod notes;

use crate::keys::Question;
use crate::state::RunState;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph, Widget};

/// Draws a state into an area.
pub fn draw(state: &RunState, area: Rect, buffer: &mut Buffer) {
    let area = area.intersection(buffer.area);
    if area.is_empty() {
        return;
    }
    let heights = heights(state, area);
    let [header, figures, charts, errors, machines, notes, bottom] =
        Layout::vertical(heights.map(Constraint::Length)).areas(area);
    header::draw(state, header, buffer);
    figures::draw(state, figures, buffer);
    charts::draw(state, charts, buffer);
    errors::draw(state, errors, buffer);
    machines::draw(state, machines, buffer);
    notes::draw(state, notes, buffer);
    keys(state, bottom, buffer);
    if state.asking.question == Question::Help {
        help::draw(area, buffer);
    }
}

/// Rows of header, figures, charts, errors, machines, notes and the bottom line.
fn heights(state: &RunState, area: Rect) -> [u16; 7] {
    let bottom = 1;
    let mut left = area.height - bottom;
    let mut take = |wanted: u16, least: u16| {
        let taken = if left >= least { wanted.min(left) } else { 0 };
        left -= taken;
        taken
    };
    let tall = area.height >= 34;
    let header = take(3, 1);
    let figures = take(3, 3);
    let causes = state.worst().len();
    let errors = take(if tall { 2 * causes.min(5) } else { causes.min(3) }.max(1) as u16 + 1, 2);
    let charts = take(if tall { 9 } else { 5 }, 4);
    let machines = take(machines::rows(state, tall), 3);
    let notes = take(u16::MAX, 2);
    [header, figures, charts, errors, machines, notes, bottom]
}

fn keys(state: &RunState, area: Rect, buffer: &mut Buffer) {
    let open = matches!(state.asking.question, Question::Add | Question::Cut);
    let style = if open { BOLD.fg(Color::Yellow) } else { FAINT };
    Paragraph::new(Line::styled(state.prompt(), style)).render(area, buffer);
}

pub(crate) const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
pub(crate) const FAINT: Style = Style::new().fg(Color::DarkGray);
pub(crate) const BAD: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
pub(crate) const WEAK: Style = Style::new().fg(Color::Yellow);
pub(crate) const GOOD: Style = Style::new().fg(Color::Green);

/// A part of the screen: its title with a rule, and the room below.
pub(crate) fn part(title: Vec<Span<'_>>, area: Rect, buffer: &mut Buffer) -> Rect {
    let mut line = vec![Span::raw(" ")];
    line.extend(title);
    line.push(Span::raw(" "));
    let block = Block::new().borders(Borders::TOP).border_style(FAINT).title(Line::from(line));
    let inner = block.inner(area);
    block.render(area, buffer);
    inner
}

/// A text that has at most so many columns, with an ellipsis where it was longer.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(columns.saturating_sub(1)).collect();
    short.truncate(short.trim_end().len());
    if columns > 0 {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests;
