//! One step of a walk over topics in order: it matches, or where the next that can match may be.
//!
//! A topic that does not match has a level that is too small, too large, missing or too many. If it
//! is too small or missing, the topic that would match is known up to the next wildcard; otherwise
//! nothing below the level at the last `+` before can match any more.

/// A filter, by its levels.
pub(super) struct Filter<'f> {
    levels: Vec<&'f str>,
}

/// Action at a topic.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// The topic matches; go on with the next.
    Match,
    /// The topic does not match; the next that can is not before this text.
    Seek(String),
    /// Ends the walk: neither this topic nor any behind it matches.
    End,
}

/// The first text behind all names of the server's own.
const BEHIND_DOLLAR: &str = "%";

impl<'f> Filter<'f> {
    pub fn new(filter: &'f str) -> Filter<'f> {
        Filter { levels: filter.split('/').collect() }
    }

    /// Where a walk begins that goes on behind `after`.
    pub fn first(&self, after: Option<&str>) -> String {
        match after {
            Some(after) => format!("{after}/"), // the very next text in the order
            None => self.literals(0),
        }
    }

    pub fn step(&self, topic: &str) -> Step {
        if topic.starts_with('$') && matches!(self.levels[0], "+" | "#") {
            return Step::Seek(BEHIND_DOLLAR.to_owned()); // MQTT5 4.7.2-1
        }
        let mut from = 0;
        let mut last_plus = None;
        for (depth, &wanted) in self.levels.iter().enumerate() {
            if wanted == "#" {
                return Step::Match;
            }
            let Some(rest) = topic.get(from..) else {
                return Step::Seek(format!("{topic}/{}", self.literals(depth)));
            };
            let end = rest.find('/').map_or(topic.len(), |at| from + at);
            if wanted == "+" {
                last_plus = Some(end);
            } else {
                match topic[from..end].cmp(wanted) {
                    std::cmp::Ordering::Equal => {}
                    std::cmp::Ordering::Less => {
                        return Step::Seek(format!("{}{}", &topic[..from], self.literals(depth)));
                    }
                    std::cmp::Ordering::Greater => return behind(topic, last_plus),
                }
            }
            from = end + 1;
        }
        if from > topic.len() { Step::Match } else { behind(topic, last_plus) }
    }

    /// The levels from a depth on, up to the next wildcard.
    fn literals(&self, depth: usize) -> String {
        let is_literal = |level: &&&str| !matches!(**level, "+" | "#");
        let levels: Vec<&str> =
            self.levels[depth..].iter().take_while(is_literal).copied().collect();
        levels.join("/")
    }
}

/// Step to the first topic behind all those below the level at the last `+`.
fn behind(topic: &str, last_plus: Option<usize>) -> Step {
    match last_plus {
        // Only `/` is before U+0001, for no topic has a NUL (MQTT5 4.7.3-2).
        Some(end) => Step::Seek(format!("{}\u{1}", &topic[..end])),
        None => Step::End,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_goes_as_far_as_it_can() {
        let to = |text: &str| Step::Seek(text.to_owned());
        for (filter, topic, wanted) in [
            ("a/b", "a/b", Step::Match),
            ("a/b", "a/a", to("a/b")),
            ("a/b", "a", to("a/b")),
            ("a/b", "a/b/c", Step::End),
            ("a/b", "a/c", Step::End),
            ("a/#", "a", Step::Match),
            ("a/#", "a!", Step::End),
            ("a/+/c/d/#", "a/x", to("a/x/c/d")),
            ("a/+/c/d/#", "a/x/b/y", to("a/x/c/d")),
            ("a/+/c/d/#", "a/x/c/e", to("a/x\u{1}")),
            ("a/+/c/d/#", "a/x/c/d", Step::Match),
            ("a/+/+", "a/x", to("a/x/")),
            ("a/+/+", "a/x/y/z", to("a/x/y\u{1}")),
            ("+/b", "$x/b", to("%")),
            ("#", "$x", to("%")),
            ("$x/#", "$x/b", Step::Match),
        ] {
            assert_eq!(Filter::new(filter).step(topic), wanted, "{filter} {topic}");
        }
        assert_eq!(Filter::new("a/b/+/c").first(None), "a/b");
        assert_eq!(Filter::new("#").first(None), "");
        assert_eq!(Filter::new("#").first(Some("a")), "a/");
    }
}
