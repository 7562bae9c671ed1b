//! Text from outside on its way into markup, script, labels and cells.
//!
//! The invariant: whatever the text, it stays text there, and it is no longer than it may be.

/// As the text of an element or the value of an attribute in double quotes. Control characters
/// that HTML does not allow become a replacement character.
pub fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(char),
            _ if char.is_control() => out.push('\u{fffd}'),
            _ => out.push(char),
        }
    }
    out
}

/// As [`html()`], for a text that is shown in one line of at most so many characters.
pub fn html_line(text: &str, chars_max: usize) -> String {
    html(&line(text, chars_max))
}

/// As [`html_line`], but text between two backticks is code.
pub fn html_prose(text: &str, chars_max: usize) -> String {
    let line = line(text, chars_max);
    let parts: Vec<&str> = line.split('`').collect();
    let paired = parts.len() % 2 == 1;
    let mut out = String::new();
    for (place, part) in parts.iter().enumerate() {
        match (paired, place % 2) {
            (true, 1) => out.push_str(&format!("<code>{}</code>", html(part))),
            (false, _) if place > 0 => out.push_str(&format!("`{}", html(part))),
            _ => out.push_str(&html(part)),
        }
    }
    out
}

/// A text in one line of at most so many characters, without control characters.
pub fn line(text: &str, chars_max: usize) -> String {
    let mut out = String::new();
    for (at, char) in text.chars().enumerate() {
        if at >= chars_max {
            out.pop();
            out.push('…');
            break;
        }
        out.push(match char {
            '\n' | '\r' | '\t' => ' ',
            _ if char.is_control() => '\u{fffd}',
            _ => char,
        });
    }
    out
}

/// JSON inside a `script` element: no `<`, so that no element ends or begins there, and whole
/// numbers without the `.0` that fractions would have.
pub fn json_in_script(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let (mut quoted, mut escaped) = (false, false);
    let mut rest = json;
    while let Some(char) = rest.chars().next() {
        if !quoted && [".0,", ".0]", ".0}"].iter().any(|end| rest.starts_with(end)) {
            rest = &rest[2..];
            continue;
        }
        match char {
            '<' => out.push_str("\\u003c"),
            _ => out.push(char),
        }
        match char {
            _ if escaped => escaped = false,
            '\\' => escaped = quoted,
            '"' => quoted = !quoted,
            _ => {}
        }
        rest = &rest[char.len_utf8()..];
    }
    out
}

/// A cell of a row: in quotes where that is needed, and never a spreadsheet's formula.
pub fn cell(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if formula { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

/// The value of a label in Prometheus' text format.
pub fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_in_a_script_is_the_same_json_and_has_no_elements() {
        let json = r#"{"a":[1.0,2.5,-3.0],"b":{"c":4.0},"d":"x.0,y.0]</script>\".0,\\","e":0.0}"#;
        let inside = json_in_script(json);
        assert_eq!(
            inside,
            r#"{"a":[1,2.5,-3],"b":{"c":4},"d":"x.0,y.0]\u003c/script>\".0,\\","e":0}"#
        );
        let [there, here] = [json, inside.as_str()]
            .map(|text| serde_json::from_str::<serde_json::Value>(text).expect("JSON"));
        assert_eq!((&there["d"], there["a"][0].as_f64()), (&here["d"], here["a"][0].as_f64()));
    }

    #[test]
    fn code_stands_between_backticks_and_a_lone_one_is_a_character() {
        assert_eq!(html_prose("set `a<b` now", 99), "set <code>a&lt;b</code> now");
        assert_eq!(html_prose("a ` b", 99), "a ` b");
        assert_eq!(html_prose("`a` ` <", 99), "`a` ` &lt;");
        assert_eq!(html_prose("", 99), "");
    }

    #[test]
    fn a_line_is_one_and_no_longer_than_it_may_be() {
        assert_eq!(line("a\nb\u{1b}[1m", 99), "a b\u{fffd}[1m");
        assert_eq!((line("abcd", 4), line("abcde", 4)), ("abcd".to_owned(), "abc…".to_owned()));
        assert_eq!(line("ab", 0), "…");
    }
}
