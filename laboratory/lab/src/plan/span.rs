//! A length of time as people write it: `10ms`, `90s`, `2m`, `1h30m`, `1d`.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A length of time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Span(pub Duration);

/// Units and their nanoseconds, the longest first.
const UNITS: [(&str, u64); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

impl Span {
    /// Span of so many seconds.
    pub const fn from_secs(seconds: u64) -> Span {
        Span(Duration::from_secs(seconds))
    }

    /// Span of so many milliseconds.
    pub const fn from_millis(millis: u64) -> Span {
        Span(Duration::from_millis(millis))
    }

    /// Whether it is no time at all.
    pub const fn is_zero(self) -> bool {
        self.0.is_zero()
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Span, String> {
        let wrong = || format!("`{text}` is not a duration: write 500ms, 90s, 5m, 1h30m or 1d");
        let (mut nanos, mut rest) = (0.0, text);
        // From the longest unit to the shortest, each once.
        let mut below = u64::MAX;
        while !rest.is_empty() || below == u64::MAX {
            let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
            let (number, others) = rest.split_at(digits);
            let letters = others.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(others.len());
            let (unit, others) = others.split_at(letters);
            let number: f64 = number.parse().map_err(|_| wrong())?;
            let found = UNITS.iter().find(|(name, of)| *name == unit && *of < below);
            let (_, of) = found.ok_or_else(wrong)?;
            nanos += number * *of as f64;
            (below, rest) = (*of, others);
        }
        // A century is longer than any test, and fits.
        if nanos.is_finite() && nanos < 3.2e18 {
            Ok(Span(Duration::from_nanos(nanos.round() as u64)))
        } else {
            Err(wrong())
        }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos() as u64;
        if nanos == 0 {
            return f.write_str("0s");
        }
        let whole = UNITS.iter().find(|(_, unit)| nanos.is_multiple_of(*unit));
        let (name, unit) = whole.expect("a nanosecond divides everything");
        write!(f, "{}{name}", nanos / unit)
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Span {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        for text in ["10ms", "90s", "2m", "2h", "1d", "0s", "1us", "1h30m", "1d2h3m4s5ms"] {
            let span: Span = text.parse().expect("a time");
            assert_eq!(span.to_string().parse::<Span>(), Ok(span), "{text}");
        }
        assert_eq!("1.5s".parse(), Ok(Span::from_millis(1_500)));
        for wrong in ["", "5", "s", "-1s", "1w", "1e9d", "9999999999d", "1m1h", "1s1s", "1h30"] {
            assert!(wrong.parse::<Span>().is_err(), "{wrong}");
        }
    }
}
