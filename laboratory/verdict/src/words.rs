//! Numbers and moments as people read them in sentences.
//!
//! This module knows units, not the meaning of numbers. The invariant: no number is shown with more
//! precision than three digits behind its first, whole counts excepted.

/// A count with commas: `41,233`.
pub fn count(value: f64) -> String {
    if !value.is_finite() {
        return "an unknown number".to_owned();
    }
    let whole = format!("{:.0}", value.abs());
    let mut text = String::with_capacity(whole.len() * 4 / 3 + 1);
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value <= -0.5 { format!("-{text}") } else { text }
}

/// A number that may be a fraction: `0.42`, `3.5`, `12,000`.
pub fn number(value: f64) -> String {
    match value.abs() {
        size if size == 0.0 || size >= 100.0 => count(value),
        size if size >= 10.0 => trimmed(format!("{value:.1}")),
        size if size >= 1.0 => trimmed(format!("{value:.2}")),
        size if size >= 0.001 => trimmed(format!("{value:.4}")),
        _ if !value.is_finite() => count(value),
        _ => format!("{value:.1e}"),
    }
}

/// Microseconds in the unit that suits them: `473 ms`.
pub fn time(us: f64) -> String {
    match us.abs() {
        size if size < 1_000.0 => format!("{} us", number(us)),
        size if size < 1e6 => format!("{} ms", number(us / 1e3)),
        size if size < 120e6 => format!("{} s", number(us / 1e6)),
        _ => format!("{} min", number(us / 60e6)),
    }
}

/// A share in percent: `12.5 %`.
pub fn percent(share: f64) -> String {
    format!("{} %", number(share * 100.0))
}

/// Bytes in the unit that suits them: `1.5 GiB`.
pub fn bytes(value: f64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut place) = (value, 0);
    while value.abs() >= 1_024.0 && place + 1 < UNITS.len() {
        (value, place) = (value / 1_024.0, place + 1);
    }
    format!("{} {}", number(value), UNITS[place])
}

/// A moment of the run: `00:41`, `1:02:03`.
pub fn moment(ms: u64) -> String {
    let seconds = ms / 1_000;
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes:02}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// A stretch of the run: `between 00:41 and 00:44`, `at 00:41`.
pub fn between(from_ms: u64, to_ms: u64) -> String {
    match (moment(from_ms), moment(to_ms)) {
        (from, to) if from == to => format!("at {from}"),
        (from, to) => format!("between {from} and {to}"),
    }
}

/// Several things in a sentence: `a, b and c`.
pub fn list(things: &[String]) -> String {
    match things {
        [] => "nothing".to_owned(),
        [only] => only.clone(),
        [front @ .., last] => format!("{} and {last}", front.join(", ")),
    }
}

/// The name of `known` that is nearest to `name`, if it is near enough to be meant.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // What goes on where the name ends is nearer than whatever is spelt alike.
    let begins = |known: &str| known.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
    let far = known.into_iter().map(|known| match begins(known) {
        true => (0, known),
        false => (distance(name, known), known),
    });
    let (distance, nearest) = far.min_by_key(|(distance, _)| *distance)?;
    (distance <= 2 + name.len() / 4).then_some(nearest)
}

/// Letters to insert, to drop or to change to make one of the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.chars().enumerate() {
        let mut corner = row[0];
        row[0] = at + 1;
        for place in 0..other.len() {
            let changed = corner + usize::from(other[place] != letter);
            corner = row[place + 1];
            row[place + 1] = changed.min(row[place] + 1).min(corner + 1);
        }
    }
    row[other.len()]
}

fn trimmed(text: String) -> String {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_people_write_them() {
        assert_eq!(count(41_233.0), "41,233");
        assert_eq!([count(0.0), count(999.0), count(-1e6)], ["0", "999", "-1,000,000"]);
        assert_eq!([number(0.5), number(12.34), number(1e-5)], ["0.5", "12.3", "1.0e-5"]);
        assert_eq!([number(0.0), number(3.0), number(524_273.0)], ["0", "3", "524,273"]);
        assert_eq!([time(473_000.0), time(1_500_000.0), time(7.0)], ["473 ms", "1.5 s", "7 us"]);
        assert_eq!([bytes(1_536.0), bytes(12.0)], ["1.5 KiB", "12 B"]);
        assert_eq!(percent(0.125), "12.5 %");
        assert_eq!(count(f64::NAN), "an unknown number");
    }

    #[test]
    fn moments_are_those_of_the_run() {
        assert_eq!(between(41_000, 44_900), "between 00:41 and 00:44");
        assert_eq!([between(41_000, 41_900), moment(3_723_000)], ["at 00:41", "1:02:03"]);
        let things = ["a", "b", "c"].map(str::to_owned);
        assert_eq!([list(&things), list(&things[..1])], ["a, b and c", "a"]);
    }

    #[test]
    fn the_nearest_name_is_offered_and_a_far_one_is_not() {
        let known = ["bind.p99", "bind.p90", "heartbeats.lost_share"];
        assert_eq!(nearest("bnd.p99", known), Some("bind.p99"));
        assert_eq!(nearest("heartbeat.lost_share", known), Some("heartbeats.lost_share"));
        assert_eq!(nearest("cpu", known), None);
        assert_eq!(nearest("a.memory", ["a.memorx", "a.memory.used"]), Some("a.memory.used"));
    }

    #[test]
    fn a_unit_ends_where_the_next_begins() {
        for (told, words) in [
            (number(99.96), "100"),
            (number(100.0), "100"),
            (number(100.4), "100"),
            (number(-99.94), "-99.9"),
            (number(10.0), "10"),
            (number(9.994), "9.99"),
            (number(1.0), "1"),
            (number(0.99994), "0.9999"),
            (number(0.001), "0.001"),
            (number(0.00099), "9.9e-4"),
            (count(-0.4), "0"),
            (count(-0.6), "-1"),
            (count(1_000.0), "1,000"),
            (time(999.0), "999 us"),
            (time(1_000.0), "1 ms"),
            (time(999_999.0), "1,000 ms"),
            (time(1e6), "1 s"),
            (time(119.9e6), "120 s"),
            (time(120e6), "2 min"),
            (bytes(1_023.0), "1,023 B"),
            (bytes(1_024.0), "1 KiB"),
            (bytes(f64::from(1 << 20)), "1 MiB"),
            (bytes(2_f64.powi(30)), "1 GiB"),
            (bytes(2_f64.powi(40)), "1 TiB"),
            (bytes(2_f64.powi(50)), "1,024 TiB"),
            (bytes(-2_048.0), "-2 KiB"),
            (moment(3_599_999), "59:59"),
            (moment(3_600_000), "1:00:00"),
            (list(&[]), "nothing"),
            (list(&["a".to_owned(), "b".to_owned()]), "a and b"),
        ] {
            assert_eq!(told, words);
        }
    }

    #[test]
    fn a_name_is_meant_by_two_letters_and_a_quarter_of_it() {
        for (one, other, letters) in [
            ("", "", 0),
            ("abc", "abc", 0),
            ("abc", "", 3),
            ("", "ab", 2),
            ("abc", "abd", 1),
            ("abc", "ab", 1),
            ("bc", "abc", 1),
            ("kitten", "sitting", 3),
            ("ab", "ba", 2),
        ] {
            assert_eq!(distance(one, other), letters, "{one} {other}");
        }
        assert_eq!(nearest("abcd", ["abxyz"]), Some("abxyz"), "three of four letters and two");
        assert_eq!(nearest("abcd", ["awxyz"]), None);
        assert_eq!(nearest("abc", ["xyc"]), Some("xyc"));
        assert_eq!(nearest("abc", ["xyz"]), None);
    }
}
