//! Topic names and filters as far as the API has to understand them (MQTT5 4.7).
//!
//! The checks of names need no answer of the broker, so that a slip is answered with its field; the
//! broker has the last word. This module knows neither sessions nor rules. Invariant: [`matches()`]
//! takes any two texts.

use model::limits::TopicLimits;

/// Fault of a topic name to publish on, if any.
pub(crate) fn wrong_name(name: &str, limits: &TopicLimits) -> Option<String> {
    impossible_name(name, limits).or_else(|| control(name))
}

/// Fault of a topic filter to subscribe with, if any.
pub(crate) fn wrong_filter(filter: &str, limits: &TopicLimits) -> Option<String> {
    impossible_filter(filter, limits).or_else(|| control(filter))
}

/// Why there can be nothing on a topic of this name, if there cannot.
pub(crate) fn impossible_name(name: &str, limits: &TopicLimits) -> Option<String> {
    if name.contains(['+', '#']) {
        return Some("is a topic name: + and # are only allowed in filters".into());
    }
    impossible_text(name, limits)
}

/// Why there can be no subscription with this filter, if there cannot.
pub(crate) fn impossible_filter(filter: &str, limits: &TopicLimits) -> Option<String> {
    let levels = || filter.split('/');
    let last = levels().count() - 1;
    let hash = levels().enumerate().any(|(at, level)| {
        level.contains('#') && (level != "#" || at < last) || level.contains('+') && level != "+"
    });
    if hash {
        return Some("must use + only as a whole level, and # only as the last one".into());
    }
    impossible_text(filter, limits)
}

fn impossible_text(text: &str, limits: &TopicLimits) -> Option<String> {
    let (bytes_max, levels_max) = (limits.topic_bytes_max, limits.topic_levels_max);
    if text.is_empty() || text.len() > usize::from(bytes_max) {
        return Some(format!("must have 1 to {bytes_max} bytes"));
    }
    if text.contains('\0') {
        return Some("must not contain U+0000".into());
    }
    (text.split('/').count() > usize::from(levels_max))
        .then(|| format!("must have at most {levels_max} levels"))
}

/// Clients may send control characters, if they insist (MQTT5 1.5.4); the API begins nothing there.
fn control(text: &str) -> Option<String> {
    text.chars().any(char::is_control).then(|| "must not contain control characters".into())
}

/// Whether a filter matches a topic name (MQTT5 4.7.1, 4.7.2).
pub(crate) fn matches(filter: &str, name: &str) -> bool {
    if name.starts_with('$') && filter.starts_with(['+', '#']) {
        return false;
    }
    let (mut filter, mut name) = (filter.split('/'), name.split('/'));
    loop {
        match (filter.next(), name.next()) {
            (Some("#"), _) => return true,
            (Some("+"), Some(_)) => {}
            (Some(wanted), Some(level)) if wanted == level => {}
            (None, None) => return true,
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_match_as_the_standard_says() {
        for (filter, name) in [
            ("sport/tennis/player1/#", "sport/tennis/player1"),
            ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon"),
            ("#", "a"),
            ("sport/+", "sport/"),
            ("+/+", "/finance"),
            ("/+", "/finance"),
            ("$SYS/#", "$SYS/a"),
        ] {
            assert!(matches(filter, name), "{filter} {name}");
        }
        for (filter, name) in [
            ("sport/+", "sport"),
            ("+", "/finance"),
            ("#", "$SYS/a"),
            ("+/a", "$SYS/a"),
            ("a/b", "a"),
            ("a", "a/b"),
        ] {
            assert!(!matches(filter, name), "{filter} {name}");
        }
    }

    #[test]
    fn what_is_no_name_or_filter_is_told() {
        let limits = TopicLimits { topic_levels_max: 3, ..TopicLimits::default() };
        assert_eq!(wrong_name("a/b", &limits), None);
        assert!(
            wrong_name("a/+", &limits).is_some_and(|why| why.contains("only allowed in filters"))
        );
        assert!(wrong_name("", &limits).is_some_and(|why| why.contains("1 to 1024")));
        assert!(wrong_name("a/b/c/d", &limits).is_some_and(|why| why.contains("3 levels")));
        assert!(wrong_name("a\0", &limits).is_some_and(|why| why.contains("U+0000")));
        assert!(wrong_name("a\u{1}", &limits).is_some_and(|why| why.contains("control")));
        assert_eq!(impossible_name("a\u{1}", &limits), None);
        for filter in ["#", "a/#", "+/a/+", "$share/g/#"] {
            assert_eq!(wrong_filter(filter, &limits), None, "{filter}");
        }
        for filter in ["a#", "#/a", "a+/b", ""] {
            assert!(wrong_filter(filter, &limits).is_some(), "{filter}");
        }
    }
}
