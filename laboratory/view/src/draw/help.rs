//! Help on the keys, over everything else.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::{Block, BorderType, Clear, Paragraph, Widget};

const TEXT: &str = "\
 +    add clients: a number, or a share like 10%
 [ ]  send less, send more: by a quarter each time
 c    cut a share of all links, and in which way
 p    pause: the stage's time stands still; p goes on
 q    end: what was measured is judged and written
      q again: end at once
 ?    this help; any key closes it

 Rates are of the last second. p50 and p99 count from
 the planned moment (corrected). Charts: one bar is
 one second, the last one is now. Red: used up.";

pub(super) fn draw(area: Rect, buffer: &mut Buffer) {
    let width = TEXT.lines().map(|line| line.chars().count()).max().unwrap_or(0) as u16 + 3;
    let height = TEXT.lines().count() as u16 + 2;
    let (width, height) = (width.min(area.width), height.min(area.height));
    let over = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    Clear.render(over, buffer);
    let block = Block::bordered().border_type(BorderType::Rounded).title(" keys ");
    Paragraph::new(TEXT).block(block).render(over, buffer);
}
