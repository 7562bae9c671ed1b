//! Consent to what cannot be undone: a question at a terminal, `--yes` elsewhere.

use crate::out;
use std::io::{BufRead, IsTerminal};
use std::process::ExitCode;

/// The exit code when the question was answered with no, or could not be asked.
const DECLINED: u8 = 3;

/// Asks, unless `--yes` was given. Declined: the exit code.
pub fn consent(question: &str, yes: bool) -> Result<(), ExitCode> {
    let input = std::io::stdin();
    if yes {
        return Ok(());
    }
    if !input.is_terminal() {
        note!("{question}\nNothing was done: add --yes to confirm.");
        return Err(ExitCode::from(DECLINED));
    }
    out::note(&format!("{question} [y/N] "));
    let mut line = String::new();
    match input.lock().read_line(&mut line) {
        Ok(_) if is_yes(&line) => Ok(()),
        _ => {
            note!("Nothing was done.");
            Err(ExitCode::from(DECLINED))
        }
    }
}

fn is_yes(line: &str) -> bool {
    matches!(line.trim(), "y" | "Y" | "yes" | "Yes" | "YES")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_yes_is_one() {
        assert!(is_yes("y\n") && is_yes(" yes\r\n"));
        for other in ["", "\n", "n\n", "yep\n", "ye\n"] {
            assert!(!is_yes(other), "{other:?}");
        }
    }
}
