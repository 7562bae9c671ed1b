//! The figures of this second, each in a cell: its name, the figure, and what it is to be held
//! against. On a narrow screen the last cells are left out.

use super::{BAD, BOLD, FAINT};
use crate::state::RunState;
use crate::words;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Widget};

/// Columns of a cell with a distance to the next.
const CELL: u16 = 19;

struct Cell {
    name: String,
    figure: String,
    beside: String,
    style: Style,
}

pub(super) fn draw(state: &RunState, area: Rect, buffer: &mut Buffer) {
    let mut x = area.x;
    for cell in cells(state) {
        let width = CELL.min(area.right().saturating_sub(x));
        if width + 2 < CELL {
            break;
        }
        let lines = vec![
            Line::styled(cell.name, FAINT),
            Line::styled(cell.figure, cell.style),
            Line::styled(cell.beside, FAINT),
        ];
        Paragraph::new(lines).render(Rect { x, width, ..area }, buffer);
        x += CELL;
    }
}

fn cells(state: &RunState) -> Vec<Cell> {
    let last = state.last();
    let planned = state.clients as f64;
    let mut cells = vec![
        Cell {
            name: "online".to_owned(),
            figure: words::count(state.online),
            beside: format!("of {}", words::count(planned)),
            style: BOLD,
        },
        Cell {
            name: "connects/s".to_owned(),
            figure: words::count(last.connects),
            beside: format!("{} calls", words::short(state.attempts)),
            style: BOLD,
        },
        Cell {
            name: "errors/s".to_owned(),
            figure: words::count(last.errors),
            beside: format!("{} in all", words::count(state.errors)),
            style: if last.errors > 0.0 { BAD } else { BOLD },
        },
        Cell {
            name: "messages/s".to_owned(),
            figure: words::count(last.sent),
            beside: format!("{} received", words::count(last.received)),
            style: BOLD,
        },
    ];
    cells.extend(state.timings.iter().map(|now| Cell {
        name: format!("{} p99", now.name),
        figure: words::micros(now.p99),
        beside: format!("p50 {}", words::micros(now.p50)),
        style: BOLD,
    }));
    cells
}
