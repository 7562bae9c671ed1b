//! Target and progress: the run, its stage with a bar, and the verdict so far.

use super::{BAD, BOLD, FAINT, GOOD, WEAK, cut};
use crate::state::RunState;
use crate::words;
use lab::run::Gravity;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Widget};

/// Columns of the bar.
const BAR: usize = 20;

pub(super) fn draw(state: &RunState, area: Rect, buffer: &mut Buffer) {
    let width = usize::from(area.width);
    let lines = vec![title(state, width), stage(state), verdict(state, width)];
    Paragraph::new(lines).render(area, buffer);
}

fn title(state: &RunState, width: usize) -> Line<'_> {
    let clock = words::clock(state.at_ms);
    let room = width.saturating_sub(clock.len() + 1);
    let name = cut(&state.title.name, room);
    let left = room.saturating_sub(name.chars().count());
    let target = cut(&format!("  {}", state.title.target), left);
    let gap = " ".repeat(left.saturating_sub(target.chars().count()) + 1);
    Line::from(vec![
        Span::styled(name, BOLD),
        Span::raw(target),
        Span::raw(gap),
        Span::styled(clock, BOLD),
    ])
}

fn stage(state: &RunState) -> Line<'_> {
    let Some(name) = state.stages.get(state.stage) else {
        return Line::styled("waiting for the first second", FAINT);
    };
    let mut spans = vec![
        Span::raw(format!("stage {} of {} ", state.stage + 1, state.stages.len())),
        Span::styled(name.as_str(), BOLD),
        Span::raw(format!(" {} ", state.part)),
    ];
    if let Some(done) = state.done() {
        spans.push(Span::styled(words::bar(done, BAR), GOOD));
        spans.push(Span::raw(format!(" {}", words::percent(done))));
    }
    let left = state.until_ms.saturating_sub(state.at_ms);
    if left > 0 && state.part != "paused" {
        let most = if state.part == "holding" { "" } else { "at most " };
        spans.push(Span::styled(format!("  {most}{} left", words::clock(left)), FAINT));
    }
    Line::from(spans)
}

fn verdict(state: &RunState, width: usize) -> Line<'_> {
    let (gravity, text) = state.verdict();
    let (style, text) = match gravity {
        Gravity::Note => (GOOD, text),
        Gravity::Warning => (WEAK, text),
        Gravity::Limit => (BAD, format!("LIMIT: {text}")),
        Gravity::Invalid => (BAD, format!("NOT VALID: {text}")),
    };
    Line::styled(cut(&text, width), style)
}
