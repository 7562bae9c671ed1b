//! Errors by phase and cause, the most frequent first, each with its side and its explanation.

use super::{BAD, BOLD, FAINT, GOOD, WEAK, cut, part};
use crate::state::RunState;
use crate::words;
use lab::cause::{Cause, Side};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Widget};

/// Columns before the explanation.
const BEFORE: usize = 47;
/// Columns before what has a line of its own.
const INDENT: usize = 12;

pub(super) fn draw(state: &RunState, area: Rect, buffer: &mut Buffer) {
    if area.height < 2 {
        return;
    }
    let worst = state.worst();
    let mut title = vec![Span::raw("errors by cause")];
    let hidden = worst.len().saturating_sub(usize::from(area.height) - 1);
    if hidden > 0 {
        title.push(Span::styled(format!(", {hidden} more causes"), FAINT));
    }
    let inner = part(title, area, buffer);
    if worst.is_empty() {
        Paragraph::new(Line::styled("none", GOOD)).render(inner, buffer);
        return;
    }
    let room = usize::from(inner.width).saturating_sub(BEFORE);
    let double = 2 * worst.len() <= usize::from(inner.height);
    let mut lines = Vec::new();
    for &(phase, cause, count) in &worst {
        let explained = explanation(cause, room, double);
        lines.push(Line::from(vec![
            Span::styled(format!("{:>11} ", words::count(count as f64)), BOLD),
            Span::raw(format!("{:<8}", phase.name())),
            Span::raw(format!("{:<19}", cause.name())),
            Span::styled(format!("{:<8}", cause.side().name()), colour(cause.side())),
            Span::styled(cut(&explained, room), FAINT),
        ]));
        if double && !cause.setting().is_empty() {
            let setting = format!("{:INDENT$}see: {}", "", cause.setting());
            lines.push(Line::styled(cut(&setting, usize::from(inner.width)), FAINT));
        }
    }
    Paragraph::new(lines).render(inner, buffer);
}

fn colour(side: Side) -> Style {
    match side {
        Side::Target => BAD,
        Side::Tester | Side::Between => WEAK,
        Side::Plan => FAINT,
    }
}

/// Meaning of the cause and the setting that is likely; if only one fits, the setting, unless that
/// has a line of its own.
fn explanation(cause: Cause, room: usize, double: bool) -> String {
    let (meaning, setting) = (cause.meaning(), cause.setting());
    if double || setting.is_empty() {
        return meaning.to_owned();
    }
    let both = format!("{meaning} See: {setting}");
    if both.chars().count() <= room { both } else { format!("see: {setting}") }
}
