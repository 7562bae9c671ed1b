//! Topic filters with the subscriber's own names in them: `dev/%c/in`, `users/%u/#`.
//!
//! `%c` stands for the client identifier and `%u` for the user, both as they are: a name with a `/`
//! spans levels, one with a wildcard matches no topic, because no topic has one. It knows no users
//! and decides nothing. Invariant: a topic that begins with `$` is matched only by a pattern whose
//! own text does, so neither `#` nor a client named `$SYS` reaches the server's topics (MQTT5
//! 4.7.2-1).

use model::ports::access::Who;

/// Longest pattern, bytes.
pub const PATTERN_BYTES_MAX: usize = 4_096;

/// A filter, cut up once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pattern {
    text: Box<str>,
    parts: Box<[Part]>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    /// Range of the text that is taken literally.
    Plain(u16, u16),
    Client,
    User,
    /// `+`: up to the next `/`.
    Level,
    /// `/#` behind something: nothing more, or whole levels.
    Below,
    /// `#` alone, or behind `+` at the very beginning: everything.
    Everything,
}

/// Relation of a pattern and a filter, by the topics they match.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Relation {
    /// The pattern matches whatever the filter does.
    Covers,
    /// Some topic matches both.
    Overlaps,
    /// No topic matches both.
    Apart,
}

impl Pattern {
    /// Parses a filter; the error says why it is none (MQTT5 4.7.1).
    pub fn parse(text: &str) -> Result<Pattern, String> {
        Pattern::cut(text, names)
    }

    /// As [`parse`](Self::parse), but `%c` and `%u` stand for themselves.
    pub fn literal(text: &str) -> Result<Pattern, String> {
        Pattern::cut(text, |level, at, parts| plain(at, at + level.len(), parts))
    }

    fn cut(text: &str, names: impl Fn(&str, usize, &mut Vec<Part>)) -> Result<Pattern, String> {
        if text.is_empty() || text.len() > PATTERN_BYTES_MAX || text.contains('\0') {
            return Err(format!(
                "a topic filter must have 1 to {PATTERN_BYTES_MAX} bytes, none of them 0"
            ));
        }
        let mut parts = Vec::new();
        let mut levels = text.split('/').peekable();
        let mut at = 0;
        while let Some(level) = levels.next() {
            let is_last = levels.peek().is_none();
            match level {
                "#" if is_last && (parts.is_empty() || text == "+/#") => {
                    parts = vec![Part::Everything];
                }
                "#" if is_last => {
                    drop_slash(&mut parts);
                    parts.push(Part::Below);
                }
                "+" => parts.push(Part::Level),
                level if level.contains(['#', '+']) => {
                    return Err(format!("in `{text}`, + must be a whole level and # the last one"));
                }
                level => names(level, at, &mut parts),
            }
            at += level.len();
            if !is_last {
                plain(at, at + 1, &mut parts);
                at += 1;
            }
        }
        Ok(Pattern { text: text.into(), parts: parts.into() })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether `%c` and `%u` in its text stand for themselves.
    pub(crate) fn is_literal(&self) -> bool {
        !self.parts.iter().any(|part| matches!(part, Part::Client | Part::User))
    }

    /// Whether the pattern has neither names nor wildcards: it matches its own text alone.
    pub(crate) fn is_exact(&self) -> bool {
        matches!(*self.parts, [Part::Plain(..)])
    }

    /// The first level, if it is the same for all clients.
    pub(crate) fn first_level(&self) -> Option<&str> {
        match self.parts.first() {
            Some(Part::Plain(..)) => {
                let (first, more) = match self.text.split_once('/') {
                    Some((first, _)) => (first, true),
                    None => (&*self.text, false),
                };
                let is_whole = !first.contains('%') || !more && self.is_exact();
                is_whole.then_some(first)
            }
            _ => None,
        }
    }

    /// Whether it matches a topic name. Allocates nothing.
    pub fn matches(&self, who: &Who<'_>, topic: &str) -> bool {
        if topic.starts_with('$') && !self.text.starts_with('$') {
            return false;
        }
        let mut rest = topic;
        for part in &self.parts {
            let literal = match *part {
                Part::Plain(from, to) => &self.text[usize::from(from)..usize::from(to)],
                Part::Client => who.client_id,
                Part::User => who.user.unwrap_or_default(),
                Part::Level => {
                    rest = rest.find('/').map_or("", |at| &rest[at..]);
                    continue;
                }
                Part::Below => return rest.is_empty() || rest.starts_with('/'),
                Part::Everything => return true,
            };
            // Nobody is called nothing: such a pattern is not about those without a name.
            let is_named = matches!(part, Part::Plain(..)) || !literal.is_empty();
            match rest.strip_prefix(literal) {
                Some(behind) if is_named => rest = behind,
                _ => return false,
            }
        }
        rest.is_empty()
    }

    /// Relation of the pattern to a filter.
    pub(crate) fn relation(&self, who: &Who<'_>, filter: &str) -> Relation {
        let Some(own) = self.filled(who) else { return Relation::Apart };
        let (own_is_reserved, is_reserved) = (self.text.starts_with('$'), filter.starts_with('$'));
        if own_is_reserved != is_reserved {
            return Relation::Apart;
        }
        let whole = |filter| if filter == "+/#" { "#" } else { filter };
        let (own, filter) = (whole(&own), whole(filter));
        match (covers(own, filter), overlaps(own, filter)) {
            (true, _) => Relation::Covers,
            (false, true) => Relation::Overlaps,
            (false, false) => Relation::Apart,
        }
    }

    /// The filter with a client's names filled in; `None` if it can match nothing for that client.
    fn filled(&self, who: &Who<'_>) -> Option<String> {
        let mut filled = String::with_capacity(self.text.len() + who.client_id.len());
        for part in &self.parts {
            match *part {
                Part::Plain(from, to) => {
                    filled += &self.text[usize::from(from)..usize::from(to)];
                }
                Part::Client | Part::User => {
                    let client = matches!(part, Part::Client).then_some(who.client_id);
                    let name = client.unwrap_or(who.user.unwrap_or_default());
                    if name.is_empty() || name.contains(['+', '#']) {
                        return None;
                    }
                    filled += name;
                }
                Part::Level => filled += "+",
                Part::Below => filled += "/#",
                Part::Everything => filled += "#",
            }
        }
        Some(filled)
    }
}

/// A level with names in it, which begins at `at`.
fn names(level: &str, at: usize, parts: &mut Vec<Part>) {
    let mut from = 0;
    while let Some(found) = level[from..].find('%').map(|found| from + found) {
        let part = match level[found..].get(..2) {
            Some("%c") => Part::Client,
            Some("%u") => Part::User,
            _ => {
                plain(at + from, at + found + 1, parts);
                from = found + 1;
                continue;
            }
        };
        plain(at + from, at + found, parts);
        parts.push(part);
        from = found + 2;
    }
    plain(at + from, at + level.len(), parts);
}

/// Plain bytes of the text; joined with those before.
fn plain(from: usize, to: usize, parts: &mut Vec<Part>) {
    match parts.last_mut() {
        _ if from == to => {}
        Some(Part::Plain(_, before)) if usize::from(*before) == from => *before = to as u16,
        _ => parts.push(Part::Plain(from as u16, to as u16)),
    }
}

/// The `/` in front of a `#` belongs to it.
fn drop_slash(parts: &mut Vec<Part>) {
    match parts.last_mut() {
        Some(Part::Plain(from, to)) if *to - *from > 1 => *to -= 1,
        _ => drop(parts.pop()),
    }
}

/// Whether `outer` matches whatever `inner` does; neither begins with `$` unless both do.
fn covers(outer: &str, inner: &str) -> bool {
    let (mut outer, mut inner) = (outer.split('/'), inner.split('/'));
    loop {
        match (outer.next(), inner.next()) {
            (Some("#"), _) | (None, None) => return true,
            (Some("+"), Some(level)) if level != "#" => {}
            (Some(own), Some(level)) if own == level => {}
            _ => return false,
        }
    }
}

/// Whether a topic is matched by both.
fn overlaps(one: &str, other: &str) -> bool {
    let (mut one, mut other) = (one.split('/'), other.split('/'));
    loop {
        match (one.next(), other.next()) {
            (Some("#"), _) | (_, Some("#")) | (None, None) => return true,
            (Some(a), Some(b)) if a == "+" || b == "+" || a == b => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHO: Who<'_> = Who { client_id: "d7", user: Some("ann") };

    fn matches(pattern: &str, who: &Who<'_>, topic: &str) -> bool {
        Pattern::parse(pattern).expect("a pattern").matches(who, topic)
    }

    #[test]
    fn wildcards_match_as_the_standard_says() {
        let yes = [
            ("a/b", "a/b"),
            ("#", "a"),
            ("#", ""),
            ("#", "/"),
            ("+/#", "a"),
            ("a/#", "a"),
            ("a/#", "a/"),
            ("a/#", "a/b/c"),
            ("a/+/c", "a//c"),
            ("+", ""),
            ("+/+", "/"),
            ("/+", "/finance"),
            ("$SYS/#", "$SYS/broker"),
            ("$SYS/+", "$SYS/a"),
            ("/#", ""),
            ("/#", "/a"),
            ("+/+/#", "a/b"),
            ("100%/x", "100%/x"),
        ];
        for (pattern, topic) in yes {
            assert!(matches(pattern, &WHO, topic), "{pattern} {topic}");
        }
        let no = [
            ("a/b", "a/b/"),
            ("a/#", "ab"),
            ("a/+", "a"),
            ("+", "a/b"),
            ("#", "$SYS/a"),
            ("+/a", "$SYS/a"),
            ("+/+/#", "a"),
            ("a/+/#", "a"),
            ("$SYS/#", "SYS/a"),
        ];
        for (pattern, topic) in no {
            assert!(!matches(pattern, &WHO, topic), "{pattern} {topic}");
        }
    }

    #[test]
    fn names_are_put_in_as_they_are() {
        assert!(matches("dev/%c/in", &WHO, "dev/d7/in"));
        assert!(!matches("dev/%c/in", &WHO, "dev/d8/in"));
        assert!(matches("x-%c-%u/#", &WHO, "x-d7-ann/y"));
        assert!(matches("%u", &WHO, "ann") && !matches("%u", &WHO, "anna"));
        let far = Who { client_id: "a/b", user: None };
        assert!(matches("dev/%c/#", &far, "dev/a/b/c") && !matches("dev/%c", &far, "dev/a"));
    }

    #[test]
    fn a_name_opens_nothing_that_the_pattern_does_not() {
        for name in ["+", "#", "a/#", "+/b"] {
            let who = Who { client_id: name, user: Some(name) };
            for topic in ["a", "x", "a/b", "dev/x"] {
                assert!(!matches("%c", &who, topic) && !matches("dev/%u", &who, topic), "{name}");
            }
            let pattern = Pattern::parse("%c").expect("a pattern");
            assert_eq!(pattern.relation(&who, "#"), Relation::Apart);
        }
        let who = Who { client_id: "$SYS", user: Some("$SYS/broker") };
        assert!(!matches("%c/#", &who, "$SYS/broker/load") && !matches("%u", &who, "$SYS/broker"));
        let nobody = Who { client_id: "", user: None };
        assert!(!matches("dev/%u/#", &nobody, "dev//x") && !matches("dev/%c", &nobody, "dev/"));
    }

    #[test]
    fn what_is_no_filter_is_refused() {
        let long = "a".repeat(PATTERN_BYTES_MAX + 1);
        for text in ["", "a/#/b", "a#", "a+/b", "#/a", "++", "a\0b", &long] {
            assert!(Pattern::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_filter_within_a_pattern_is_covered() {
        let relation =
            |pattern, filter| Pattern::parse(pattern).expect("a pattern").relation(&WHO, filter);
        for (pattern, filter) in [
            ("#", "#"),
            ("+/#", "#"),
            ("#", "+/#"),
            ("a/#", "a"),
            ("a/#", "a/+/#"),
            ("a/+", "a/b"),
            ("+/+", "a/+"),
            ("$SYS/#", "$SYS/+/x"),
            ("dev/%c/#", "dev/d7/+"),
        ] {
            assert_eq!(relation(pattern, filter), Relation::Covers, "{pattern} {filter}");
        }
        for (pattern, filter) in
            [("a/b", "a/+"), ("a/+/#", "a/#"), ("+/b", "a/+"), ("+", "#"), ("dev/%c/x", "dev/+/#")]
        {
            assert_eq!(relation(pattern, filter), Relation::Overlaps, "{pattern} {filter}");
        }
        for (pattern, filter) in
            [("a", "b"), ("#", "$SYS/#"), ("$SYS/#", "#"), ("a/+", "a"), ("dev/%c", "dev/d8")]
        {
            assert_eq!(relation(pattern, filter), Relation::Apart, "{pattern} {filter}");
        }
    }

    #[test]
    fn the_longest_pattern_is_taken() {
        let longest = "a".repeat(PATTERN_BYTES_MAX);
        assert!(Pattern::parse(&longest).is_ok_and(|pattern| pattern.matches(&WHO, &longest)));
        assert!(Pattern::literal(&longest).is_ok_and(|pattern| pattern.text() == longest));
        assert!(Pattern::literal(&(longest + "a")).is_err());
    }

    #[test]
    fn a_first_level_is_one_that_no_name_changes() {
        let first = |text: &str| {
            let pattern = Pattern::parse(text).expect("a pattern");
            (pattern.first_level().map(String::from), pattern.is_exact())
        };
        let of = |level: &str| Some(level.to_string());
        assert_eq!(first("a/b"), (of("a"), true));
        assert_eq!(first("100%"), (of("100%"), true));
        assert_eq!(first("a/%c"), (of("a"), false));
        assert_eq!(first("a/+/b"), (of("a"), false));
        assert_eq!(first("a-%c/b"), (None, false));
        assert_eq!(
            (first("%u/b"), first("+/a"), first("#")),
            ((None, false), (None, false), (None, false))
        );
    }
}
