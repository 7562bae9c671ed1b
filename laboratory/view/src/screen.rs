//! The terminal itself: opened, drawn on, asked for keys, and given back as it was.
//!
//! The screen takes the alternate screen and raw mode. Dropping it gives the terminal back, and so
//! does a panic anywhere in the process before its message is printed. The screen keeps nothing of
//! a run.

use crate::draw;
use crate::keys::KeyPress;
use crate::server::{ServerState, draw_server};
use crate::state::RunState;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::io::{self, IsTerminal};
use std::time::Duration;

/// Input from the terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Press {
    /// A key.
    Key(KeyPress),
    /// The terminal has another size: draw anew.
    Resized,
}

/// An open terminal.
pub struct Screen(DefaultTerminal);

impl Screen {
    /// Whether there is a terminal to be opened: keys come from one and output goes to one.
    pub fn possible() -> bool {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        !dumb && io::stdin().is_terminal() && io::stdout().is_terminal()
    }

    /// Opens the terminal of this process.
    pub fn open() -> io::Result<Screen> {
        ratatui::try_init().map(Screen)
    }

    /// Shows a state.
    pub fn draw(&mut self, state: &RunState) -> io::Result<()> {
        self.0.draw(|frame| draw(state, frame.area(), frame.buffer_mut())).map(drop)
    }

    /// Shows a server.
    pub fn draw_server(&mut self, state: &ServerState) -> io::Result<()> {
        self.0.draw(|frame| draw_server(state, frame.area(), frame.buffer_mut())).map(drop)
    }

    /// The next key, if one comes within `wait`.
    pub fn press(&mut self, wait: Duration) -> io::Result<Option<Press>> {
        if !event::poll(wait)? {
            return Ok(None);
        }
        Ok(match event::read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release => key_of(key).map(Press::Key),
            Event::Resize(..) => Some(Press::Resized),
            _ => None,
        })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Control-C is `q`, for in raw mode it is no signal any more.
fn key_of(key: KeyEvent) -> Option<KeyPress> {
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
            Some(KeyPress::Char('q'))
        }
        KeyCode::Char(_) if key.modifiers.contains(KeyModifiers::CONTROL) => None,
        KeyCode::Char(c) => Some(KeyPress::Char(c)),
        KeyCode::Enter => Some(KeyPress::Enter),
        KeyCode::Esc => Some(KeyPress::Escape),
        KeyCode::Backspace => Some(KeyPress::Backspace),
        KeyCode::Tab => Some(KeyPress::Tab),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_c_asks_for_the_end_and_other_controls_for_nothing() {
        let key = |c, modifiers| key_of(KeyEvent::new(KeyCode::Char(c), modifiers));
        assert_eq!(key('c', KeyModifiers::CONTROL), Some(KeyPress::Char('q')));
        assert_eq!(key('c', KeyModifiers::NONE), Some(KeyPress::Char('c')));
        assert_eq!(key('q', KeyModifiers::CONTROL), None);
        assert_eq!(key_of(KeyEvent::new(KeyCode::F(1), KeyModifiers::NONE)), None);
    }
}
