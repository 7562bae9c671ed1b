//! Durations on the command line, in one notation for all options: `500ms`, `90s`, `5m`, `1h30m`,
//! `1d`. A plain number has the unit that the option had before this notation.

use lab::plan::Span;
use std::time::Duration;

/// Reads a duration; a plain number is in seconds.
pub fn of_seconds(text: &str) -> Result<Duration, String> {
    parsed(text, "s")
}

/// Whole seconds; a plain number is in seconds.
pub fn seconds(text: &str) -> Result<u32, String> {
    let duration = parsed(text, "s")?;
    if duration.subsec_nanos() != 0 {
        return Err("give whole seconds".into());
    }
    u32::try_from(duration.as_secs()).map_err(|_| format!("`{text}` is too long"))
}

/// As [`seconds`], but refuses 0.
pub fn some_seconds(text: &str) -> Result<u32, String> {
    match seconds(text)? {
        0 => Err("must be longer than 0, as in 90s".into()),
        seconds => Ok(seconds),
    }
}

/// Whole milliseconds; a plain number is in milliseconds.
pub fn millis(text: &str) -> Result<u32, String> {
    let duration = parsed(text, "ms")?;
    u32::try_from(duration.as_millis()).map_err(|_| format!("`{text}` is too long"))
}

fn parsed(text: &str, unit: &str) -> Result<Duration, String> {
    let is_plain = text.chars().all(|c| c.is_ascii_digit() || c == '.');
    let span: Span = match is_plain {
        true => format!("{text}{unit}").parse(),
        false => text.parse(),
    }
    .map_err(|_| format!("`{text}` is not a duration: write 500ms, 90s, 5m, 1h30m or 1d"))?;
    Ok(span.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_reads_the_same_notation() {
        for (written, s) in
            [("90", 90), ("90s", 90), ("5m", 300), ("1h30m", 5_400), ("1d", 86_400), ("0", 0)]
        {
            assert_eq!(seconds(written), Ok(s), "{written}");
        }
        assert_eq!(
            (millis("2000"), millis("2s"), millis("1m1ms")),
            (Ok(2_000), Ok(2_000), Ok(60_001))
        );
        assert_eq!(of_seconds("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(of_seconds("500ms"), Ok(Duration::from_millis(500)));
    }

    #[test]
    fn what_is_no_duration_is_refused_with_an_example() {
        for wrong in ["", "m", "5w", "-1s", "30m1h", "1s1s", "5 m", "99999999999d", "1e9"] {
            let why = seconds(wrong).expect_err(wrong);
            assert!(why.contains("1h30m") || why.contains("too long"), "{wrong}: {why}");
        }
        assert!(seconds("1500ms").is_err() && some_seconds("0s").is_err());
    }
}
