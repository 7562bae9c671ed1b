//! One rule: does it apply, and what comes of it.

use super::{Names, is_filter};

/// A checked rule.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    filter: Box<str>,
    to: Box<str>,
}

impl Rule {
    pub fn new(filter: &str, to: &str) -> Result<Rule, String> {
        if !is_filter(filter) {
            return Err("it is no topic filter".to_owned());
        }
        if to.is_empty() || to.contains(['+', '#', '\0']) {
            return Err("what it becomes is empty or has a wildcard".to_owned());
        }
        let wildcards = filter.split('/').filter(|level| matches!(*level, "+" | "#")).count();
        for (at, _) in to.match_indices('$') {
            let number = place(&to[at + 1..]);
            if number.is_some_and(|(number, _)| number == 0 || number > wildcards) {
                return Err(format!("the filter has {wildcards} wildcards"));
            }
        }
        Ok(Rule { filter: filter.into(), to: to.into() })
    }

    /// The new name of a topic or filter; `None`: the rule does not apply.
    pub fn apply(&self, text: &str, names: Names<'_>) -> Option<String> {
        let found = self.found(text, names)?;
        let mut renamed = String::with_capacity(text.len() + self.to.len());
        let mut rest = &*self.to;
        while let Some(at) = rest.find('$') {
            fill(&rest[..at], names, &mut renamed)?;
            rest = &rest[at + 1..];
            let Some((number, after)) = place(rest) else {
                renamed.push('$');
                continue;
            };
            match found[number - 1] {
                Some(found) => renamed.push_str(found),
                None if renamed.ends_with('/') => {
                    renamed.pop();
                }
                None => {}
            }
            rest = after;
        }
        fill(rest, names, &mut renamed)?;
        Some(renamed)
    }

    /// The levels that each wildcard matched, if the filter matches; `#` may match none.
    fn found<'t>(&self, text: &'t str, names: Names<'_>) -> Option<Vec<Option<&'t str>>> {
        if text.starts_with('$') && self.filter.starts_with(['+', '#']) {
            return None; // MQTT5 4.7.2-1
        }
        let mut found = Vec::new();
        let mut rest = Some(text);
        for wanted in self.filter.split('/') {
            if wanted == "#" {
                found.push(rest);
                return Some(found);
            }
            let (level, below) = match rest?.split_once('/') {
                Some((level, below)) => (level, Some(below)),
                None => (rest?, None),
            };
            match wanted {
                "+" if level == "#" => return None, // a filter that wants more than one level
                "+" => found.push(Some(level)),
                wanted => {
                    let mut filled = String::new();
                    fill(wanted, names, &mut filled).filter(|()| filled == level)?;
                }
            }
            rest = below;
        }
        rest.is_none().then_some(found)
    }
}

/// Adds a text with names in their places. `None`: there is no such name, or it is no level.
pub(super) fn fill(text: &str, names: Names<'_>, filled: &mut String) -> Option<()> {
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        filled.push_str(&rest[..at]);
        let name = match rest.as_bytes().get(at + 1) {
            Some(b'c') => names.client,
            Some(b'u') => names.user?,
            _ => {
                filled.push('%');
                rest = &rest[at + 1..];
                continue;
            }
        };
        if name.is_empty() || name.contains(['/', '+', '#', '\0']) {
            return None;
        }
        filled.push_str(name);
        rest = &rest[at + 2..];
    }
    filled.push_str(rest);
    Some(())
}

/// The number at the beginning of what is behind a `$`, and what is behind it.
fn place(text: &str) -> Option<(usize, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number = text[..end].parse().ok()?;
    Some((number, &text[end..]))
}
