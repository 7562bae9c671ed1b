//! Problem of a configuration, said so that it can be mended without a manual.
//!
//! Every problem has a place (file and line, or the environment), the key, the value as it was
//! written, what is allowed, and what to do. Secrets are not shown, nor are the values of unknown
//! keys, for a misspelt secret is one too. This file does not know where problems come from.

use std::fmt;

/// Longest value shown in a message, characters. The rest is cut off.
const VALUE_CHARS_MAX: usize = 60;

/// One thing that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigProblem {
    /// `holdline.toml:17`, `holdline.toml` or `environment`.
    pub place: String,
    /// `[limits] connections_max`, or the name of an environment variable.
    pub key: String,
    /// The value as it was written, if it may be shown.
    pub value: Option<String>,
    /// What holds for it.
    pub rule: String,
    /// What to do.
    pub remedy: String,
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place)?;
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        if let Some(value) = &self.value {
            write!(f, " = {}", brief(value))?;
        }
        write!(f, ": {}; {}", self.rule, self.remedy)
    }
}

/// Everything that is wrong with a configuration; never empty. Prints a line for each problem.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigError {
    /// In the order of the tree.
    pub problems: Vec<ConfigProblem>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.problems.iter().map(ConfigProblem::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for ConfigError {}

/// The text as TOML writes it.
pub(super) fn quoted(text: &str) -> String {
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

/// What stands for a secret wherever it would be printed.
pub(super) const HIDDEN: &str = "(hidden)";

/// A URL, or what should be one, without the secrets in it. Of a Redis whatever is between the
/// scheme and the last @ is hidden, and what follows a question mark; all of it where a password
/// may stand without an @. Of others the path too ([`admin::shown_url`]).
pub(super) fn without_password(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("//") else {
        return if text.contains('@') { HIDDEN.into() } else { text.to_owned() };
    };
    let bare = text.trim_matches(['"', '\'']);
    if !bare.starts_with("redis") {
        return text.replace(bare, &admin::shown_url(bare));
    }
    let (hidden, rest) = match rest.rsplit_once('@') {
        Some((_, rest)) => (format!("{HIDDEN}@"), rest),
        None => (String::new(), rest),
    };
    let (rest, query) = rest.split_once('?').map_or((rest, ""), |(rest, _)| (rest, "?"));
    let hosts = rest.split('/').next().unwrap_or_default().trim_end_matches(['"', '\'']);
    let is_port = |port: &str| port.bytes().all(|b| b.is_ascii_digit());
    let plain = |host: &str| host.starts_with('[') || host.split(':').skip(1).all(is_port);
    if hosts.split(',').all(plain) {
        let query = if query.is_empty() { String::new() } else { format!("?{HIDDEN}") };
        format!("{scheme}//{hidden}{rest}{query}")
    } else {
        format!("{scheme}//{HIDDEN}")
    }
}

/// The known word that is nearest to a mistyped one, if it is near enough to be meant: a third of
/// the letters may differ, at least one and at most four.
pub(super) fn nearest<'a>(
    typed: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    if typed.is_empty() {
        return known.into_iter().next(); // nothing is near to nothing: show what one looks like
    }
    let enough = (typed.chars().count() / 3).clamp(1, 4);
    known
        .into_iter()
        .map(|word| (distance(typed, word), word))
        .filter(|(apart, _)| *apart <= enough)
        .min_by_key(|(apart, _)| *apart)
        .map(|(_, word)| word)
}

/// How many letters must be put in, taken out or replaced to make one word of the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

fn brief(value: &str) -> String {
    let line = value.lines().next().unwrap_or_default();
    let short: String = line.chars().take(VALUE_CHARS_MAX).collect();
    if short.len() < value.len() { format!("{short}…") } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_one_that_may_be_meant() {
        let known = ["connections_max", "crowd_max", "tls"];
        assert_eq!(nearest("conections_max", known), Some("connections_max"));
        assert_eq!(nearest("crowds_max", known), Some("crowd_max"));
        assert_eq!(nearest("tsl", known), None);
        assert_eq!(nearest("elephants", known), None);
    }

    #[test]
    fn a_long_value_is_cut_off() {
        assert_eq!(brief(&"x".repeat(60)), "x".repeat(60));
        assert_eq!(brief(&"x".repeat(61)), format!("{}…", "x".repeat(60)));
        assert_eq!(brief("[\n1]"), "[…");
    }

    #[test]
    fn a_password_in_a_url_is_hidden_however_it_is_written() {
        let told = [
            ("redis://host:6379/0", "redis://host:6379/0"),
            ("redis://me:pw@host/0", "redis://(hidden)@host/0"),
            ("redis://me:p@w/x//@host", "redis://(hidden)@host"),
            ("redis://me:pw", "redis://(hidden)"),
            (
                "redis+sentinel://a:1,b:2/m?sentinel_password=pw",
                "redis+sentinel://a:1,b:2/m?(hidden)",
            ),
            ("\"redis://host:6379\"", "\"redis://host:6379\""),
            ("\"redis://me:pw@host\"", "\"redis://(hidden)@host\""),
            ("me:pw@host", "(hidden)"),
            ("none", "none"),
            ("\"https://me:pw@hooks.example/\"", "\"https://(hidden)@hooks.example/\""),
        ];
        for (url, shown) in told {
            assert_eq!(without_password(url), shown);
        }
        let shown = without_password("\"https://hooks.example/T0/s3cret\"");
        assert!(shown.starts_with("\"https://hooks.example/…") && !shown.contains("s3cret"));
    }

    #[test]
    fn texts_are_quoted_as_toml_does() {
        assert_eq!(quoted("a\"b\\c\n"), r#""a\"b\\c\u000A""#);
    }
}
