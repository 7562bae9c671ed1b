//! Text from outside, made fit to be shown to people.
//!
//! A name that a stranger chose may hold bytes that a terminal obeys: they move its cursor, set its
//! title, write into its clipboard (ECMA-48 5.6, the OSC sequences of xterm), or turn the order of
//! what stands behind them (Unicode UAX 9). Shown as `\u001b` they are harmless, and JSON that
//! holds them stays the same JSON. Invariant: what comes out has no character that is not to be
//! seen, but for those line ends and tabs that were asked for.

use std::borrow::Cow;

/// A name, a topic, a reason: what has to stay on its line. Line ends and tabs are shown too.
pub fn escaped(text: &str) -> Cow<'_, str> {
    escape(text, is_obeyed)
}

/// As [`escaped`], for a text of several lines: line ends and tabs stay.
pub fn escaped_lines(text: &str) -> Cow<'_, str> {
    escape(text, |char| is_obeyed(char) && char != '\n' && char != '\t')
}

/// The text between quotes, as TOML and JSON write it: it can be pasted into a file.
pub fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Whether a terminal does something else with it than to show it.
fn is_obeyed(char: char) -> bool {
    let turns = matches!(char, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}' | '\u{061c}');
    let ends = matches!(char, '\u{2028}' | '\u{2029}');
    char.is_control() || turns || ends
}

fn escape(text: &str, is_hidden: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for char in text.chars() {
        match is_hidden(char) {
            true => shown += &format!("\\u{:04x}", u32::from(char)),
            false => shown.push(char),
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_shown() {
        let hostile = "a\x1b]0;owned\x07b\u{9b}2J\x7f\u{202e}c";
        assert_eq!(escaped(hostile), "a\\u001b]0;owned\\u0007b\\u009b2J\\u007f\\u202ec");
        assert_eq!(escaped("a\nb\tc\r\0"), "a\\u000ab\\u0009c\\u000d\\u0000");
        assert_eq!(escaped_lines("a\nb\tc\r\u{2028}\x1b"), "a\nb\tc\\u000d\\u2028\\u001b");
        assert_eq!(escaped_lines("\u{2066}\u{200f}\u{61c}"), "\\u2066\\u200f\\u061c");
    }

    #[test]
    fn other_text_is_as_it_was() {
        for text in ["", "till-7/温度", "ü 🙂 \\u001b \"x\""] {
            assert!(matches!(escaped(text), Cow::Borrowed(same) if same == text));
            assert!(matches!(escaped_lines(text), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn texts_are_quoted_as_toml_does() {
        assert_eq!(quoted("a\"b\\c\n"), r#""a\"b\\c\u000A""#);
    }
}
