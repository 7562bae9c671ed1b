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
    /// The rule.
    pub rule: String,
    /// The remedy.
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

/// Problems of a configuration; never empty. Prints a line for each problem.
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

/// Placeholder for a secret wherever it would be printed.
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

fn brief(value: &str) -> String {
    let line = value.lines().next().unwrap_or_default();
    let short: String = line.chars().take(VALUE_CHARS_MAX).collect();
    if short.len() < value.len() { format!("{short}…") } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
