//! Findings and notes, the latest last, as many as fit.

use super::{BAD, FAINT, WEAK, cut, part};
use crate::state::RunState;
use crate::words;
use lab::run::Gravity;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Widget};

pub(super) fn draw(state: &RunState, area: Rect, buffer: &mut Buffer) {
    if area.height < 2 {
        return;
    }
    let inner = part(vec![Span::raw("findings and notes")], area, buffer);
    let room = usize::from(inner.height);
    let width = usize::from(inner.width);
    // The verdict line has the gravest finding already.
    let findings = state.findings.iter().skip(1).map(|finding| {
        let style = match finding.gravity {
            Gravity::Note => Style::new(),
            Gravity::Warning => WEAK,
            Gravity::Limit | Gravity::Invalid => BAD,
        };
        let text = format!("{} {} {}", finding.what, finding.evidence, finding.remedy);
        Line::styled(cut(text.trim_end(), width), style)
    });
    let remedy = state.findings.first().filter(|finding| !finding.remedy.is_empty());
    let remedy = remedy.map(|finding| Line::raw(cut(&format!("→ {}", finding.remedy), width)));
    let mut lines: Vec<Line> = remedy.into_iter().chain(findings).take(room.div_ceil(2)).collect();
    let shown = (room - lines.len()).min(state.notes.len());
    lines.extend(state.notes.iter().skip(state.notes.len() - shown).map(|note| {
        let clock = words::clock(note.at_ms);
        let text = cut(&note.text, width.saturating_sub(clock.len() + 1));
        Line::from(vec![Span::styled(format!("{clock} "), FAINT), Span::raw(text)])
    }));
    Paragraph::new(lines).render(inner, buffer);
}
