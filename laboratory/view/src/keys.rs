//! Keys, as transitions of a state: what is asked, what was typed, what is wished.
//!
//! ```text
//!            +            c              ?
//!  watching ───► add?   ───► cut?      ───► help
//!      ▲ ◄─ Enter: a wish, Esc: none ─┘       │ any key
//!      └──────────────────────────────────────┘
//! ```
//! `[ ] p q` are wishes at once; `q` ends politely, and a second `q` at once. It knows no terminal.

use crate::state::RunState;
use crate::words;
use lab::order::{Cut, OnlookerRequest};

/// A key that was pressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyPress {
    /// A character.
    Char(char),
    /// Enter.
    Enter,
    /// Escape.
    Escape,
    /// Backspace.
    Backspace,
    /// Tab.
    Tab,
}

/// Question to the user.
#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct Asking {
    pub(crate) question: Question,
    pub(crate) typed: String,
    /// Place of the group that clients are added to.
    pub(crate) group: usize,
    pub(crate) how: usize,
    /// Whether the end was wished already.
    pub(crate) quitting: bool,
    /// The answer to the last key, for the bottom line.
    pub(crate) answer: String,
}

/// A question on the screen.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Question {
    /// No question.
    #[default]
    Nothing,
    /// How many clients to add.
    Add,
    /// Share to cut, and how.
    Cut,
    /// Help on the keys.
    Help,
}

/// Characters of an answer, at most.
const TYPED_MAX: usize = 9;
/// Factor of the rate for one press of `]`; `[` divides by it.
const RATE_STEP: f64 = 1.25;
/// Default answer.
const OFFER: &str = "10%";

/// Ways to cut, in the order that Tab goes through them.
pub(crate) const WAYS: [(Cut, &str); 6] = [
    (Cut::Close, "close"),
    (Cut::Reset, "reset"),
    (Cut::Farewell, "farewell"),
    (Cut::Freeze, "freeze"),
    (Cut::StopReading, "stop reading"),
    (Cut::Thaw, "thaw"),
];

impl RunState {
    /// A key was pressed.
    pub fn press(&mut self, key: KeyPress) -> Option<OnlookerRequest> {
        match self.asking.question {
            Question::Nothing => self.command(key),
            Question::Help => {
                self.asking.question = Question::Nothing;
                None
            }
            Question::Add | Question::Cut => self.reply(key),
        }
    }

    /// Help on the keys of the moment, or the question that is open.
    pub(crate) fn prompt(&self) -> String {
        let typed = if self.asking.typed.is_empty() { OFFER } else { &self.asking.typed };
        match self.asking.question {
            Question::Add => {
                let group = self.groups.get(self.asking.group);
                let group = group.map_or(String::new(), |(name, _)| format!(" to group {name}"));
                let more = if self.groups.len() > 1 { ", Tab: another group" } else { "" };
                format!("add how many clients{group}? {typed}_   (Enter, Esc{more})")
            }
            Question::Cut => {
                let (_, how) = WAYS[self.asking.how];
                format!("cut which share? {typed}_  by: {how}   (Enter, Esc, Tab: another way)")
            }
            _ if !self.asking.answer.is_empty() => self.asking.answer.clone(),
            _ => "+ add   [ ] rate   c cut   p pause   q end   ? help".to_owned(),
        }
    }

    fn command(&mut self, key: KeyPress) -> Option<OnlookerRequest> {
        self.asking.answer.clear();
        let KeyPress::Char(key) = key else { return None };
        let (wish, answer) = match key {
            '+' | 'c' => {
                self.asking.typed.clear();
                self.asking.group = self.asking.group.min(self.groups.len().saturating_sub(1));
                self.asking.question = if key == '+' { Question::Add } else { Question::Cut };
                return None;
            }
            '?' | 'h' => {
                self.asking.question = Question::Help;
                return None;
            }
            ']' => (rate(RATE_STEP), "the rate is raised by 25 %"),
            '[' => (rate(1.0 / RATE_STEP), "the rate is lowered by 20 %"),
            'p' => (OnlookerRequest::Pause, "pause was asked for: p goes on"),
            'q' => {
                let now = std::mem::replace(&mut self.asking.quitting, true);
                let polite = "the run is being ended and will be judged; q again: at once";
                (OnlookerRequest::Quit { now }, if now { "the run ends at once" } else { polite })
            }
            _ => return None,
        };
        answer.clone_into(&mut self.asking.answer);
        Some(wish)
    }

    fn reply(&mut self, key: KeyPress) -> Option<OnlookerRequest> {
        let cut = self.asking.question == Question::Cut;
        match key {
            KeyPress::Escape => self.asking.question = Question::Nothing,
            KeyPress::Backspace => {
                self.asking.typed.pop();
            }
            KeyPress::Tab if cut => self.asking.how = (self.asking.how + 1) % WAYS.len(),
            KeyPress::Tab => self.asking.group = (self.asking.group + 1) % self.groups.len().max(1),
            KeyPress::Char(c) if "0123456789.%".contains(c) => {
                if self.asking.typed.len() < TYPED_MAX {
                    self.asking.typed.push(c);
                }
            }
            KeyPress::Char(_) => {}
            KeyPress::Enter => {
                self.asking.question = Question::Nothing;
                let typed = std::mem::take(&mut self.asking.typed);
                let typed = if typed.is_empty() { OFFER.to_owned() } else { typed };
                let wish = if cut { self.cut(&typed) } else { self.add(&typed) };
                if wish.is_none() {
                    self.asking.answer =
                        format!("`{typed}` is no number and no share: nothing done");
                }
                return wish;
            }
        }
        None
    }

    fn add(&mut self, typed: &str) -> Option<OnlookerRequest> {
        let (group, planned) = self.groups.get(self.asking.group).cloned().unwrap_or_default();
        let there = if planned > 0 { planned as f64 } else { self.clients as f64 };
        let clients = match typed.strip_suffix('%') {
            Some(percent) => (percent.parse::<f64>().ok()? / 100.0 * there).ceil(),
            None => typed.parse::<f64>().ok()?.floor(),
        };
        if !(1.0..=f64::from(u32::MAX)).contains(&clients) {
            return None;
        }
        self.asking.answer = format!("{} clients are added", words::count(clients));
        Some(OnlookerRequest::Add { group, clients: clients as u32 })
    }

    /// A share is percents, or a fraction below one.
    fn cut(&mut self, typed: &str) -> Option<OnlookerRequest> {
        let share = match typed.strip_suffix('%') {
            Some(percent) => percent.parse::<f64>().ok()? / 100.0,
            None => match typed.parse::<f64>().ok()? {
                fraction if typed.contains('.') => fraction,
                percent => percent / 100.0,
            },
        };
        if !(share > 0.0 && share <= 1.0) {
            return None;
        }
        let (how, word) = WAYS[self.asking.how];
        self.asking.answer = format!("{} of the links: {word}", words::percent(share));
        Some(OnlookerRequest::Cut { share, how })
    }
}

/// All groups send so many times as often.
fn rate(factor: f64) -> OnlookerRequest {
    OnlookerRequest::Rate { group: String::new(), factor }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Title;

    fn state() -> RunState {
        let mut state = RunState::new(Title::default());
        state.groups = vec![("pub".to_owned(), 50), ("sub".to_owned(), 1_001)];
        state
    }

    fn type_in(state: &mut RunState, text: &str) -> Option<OnlookerRequest> {
        let mut wish = None;
        for c in text.chars() {
            wish = state.press(match c {
                '\n' => KeyPress::Enter,
                '\t' => KeyPress::Tab,
                '\x08' => KeyPress::Backspace,
                '\x1b' => KeyPress::Escape,
                c => KeyPress::Char(c),
            });
        }
        wish
    }

    fn add(group: &str, clients: u32) -> Option<OnlookerRequest> {
        Some(OnlookerRequest::Add { group: group.to_owned(), clients })
    }

    #[test]
    fn clients_are_added_by_number_or_share_to_the_chosen_group() {
        let mut state = state();
        assert_eq!(type_in(&mut state, "+\n"), add("pub", 5));
        assert_eq!(type_in(&mut state, "+\t\n"), add("sub", 101));
        assert_eq!(type_in(&mut state, "+1x0\x08500\n"), add("sub", 1_500));
        assert_eq!(state.prompt(), "1,500 clients are added");
        assert_eq!(type_in(&mut state, "+5\x1b\n"), None);
        for wrong in ["+0\n", "+.\n", "+%\n", "+1%1\n", "+999999999\n+0%\n"] {
            assert_eq!(type_in(&mut state, wrong), None, "{wrong}");
        }
        assert!(state.prompt().contains("nothing done"));
        type_in(&mut state, "+12345678901");
        assert_eq!(state.asking.typed, "123456789");
    }

    #[test]
    fn a_cut_wants_a_share_and_a_way() {
        let mut state = state();
        let cut = |share, how| Some(OnlookerRequest::Cut { share, how });
        assert_eq!(type_in(&mut state, "c\n"), cut(0.1, Cut::Close));
        assert_eq!(type_in(&mut state, "c50\t\n"), cut(0.5, Cut::Reset));
        assert_eq!(type_in(&mut state, "c0.25\t\n"), cut(0.25, Cut::Farewell));
        assert_eq!(type_in(&mut state, "c100%\n"), cut(1.0, Cut::Farewell));
        for wrong in ["c101%\n", "c0\n", "c..\n"] {
            assert_eq!(type_in(&mut state, wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_second_q_ends_at_once_and_help_goes_away_with_any_key() {
        let mut state = state();
        assert_eq!(type_in(&mut state, "?q"), None);
        assert_eq!(type_in(&mut state, "q"), Some(OnlookerRequest::Quit { now: false }));
        assert_eq!(type_in(&mut state, "p"), Some(OnlookerRequest::Pause));
        assert_eq!(type_in(&mut state, "q"), Some(OnlookerRequest::Quit { now: true }));
        let Some(OnlookerRequest::Rate { factor: up, .. }) = type_in(&mut state, "]") else {
            panic!("no rate")
        };
        let Some(OnlookerRequest::Rate { factor: down, .. }) = type_in(&mut state, "[") else {
            panic!("no rate")
        };
        assert!((up * down - 1.0).abs() < 1e-9 && up > 1.0);
        assert_eq!(type_in(&mut state, "x\n\x1b"), None);
    }
}
