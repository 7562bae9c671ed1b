//! Numbers with units, as wrk reads and prints them.

use std::time::Duration;

/// Part of the next unit's size from which on it is used: 0.89ms, not 890.00us.
const STEP: f64 = 0.85;

/// A count, with an optional SI unit: 1k, 1M, 1G.
pub fn number(flag: &str, text: &str) -> Result<u64, String> {
    scaled(text, &[("k", 1_000), ("K", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)])
        .ok_or_else(|| format!("{flag} {text}: a whole number, with k, M or G at most"))
}

/// A time, in seconds or with an optional unit: 2s, 2m, 2h.
pub fn span(flag: &str, text: &str) -> Result<Duration, String> {
    scaled(text, &[("s", 1), ("m", 60), ("h", 3_600)])
        .filter(|seconds| *seconds <= 365 * 24 * 3_600)
        .map(Duration::from_secs)
        .ok_or_else(|| format!("{flag} {text}: a whole number, with s, m or h at most, one year"))
}

fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let unit = units.iter().find_map(|(unit, size)| Some((text.strip_suffix(unit)?, *size)));
    let (digits, size) = unit.unwrap_or((text, 1));
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(size)
}

/// A count, with two decimals: 14.23k.
pub fn metric(count: f64) -> String {
    stepped(count, 1_000.0, &["", "k", "M", "G", "T", "P"], 2)
}

/// Bytes, in powers of 1,024: 17.76GB is `17.76G`.
pub fn binary(bytes: f64) -> String {
    stepped(bytes, 1_024.0, &["", "K", "M", "G", "T", "P"], 2)
}

/// A time given in microseconds, with two decimals: 635.91us, 12.92ms, 1.20s, 2.00m.
pub fn time_us(us: f64) -> String {
    if us >= 1_000_000.0 * STEP {
        return stepped(us / 1_000_000.0, 60.0, &["s", "m", "h"], 2);
    }
    stepped(us, 1_000.0, &["us", "ms"], 2)
}

/// A time given in seconds, whole: 30s, 2h.
pub fn time_s(span: Duration) -> String {
    stepped(span.as_secs_f64(), 60.0, &["s", "m", "h"], 0)
}

fn stepped(mut amount: f64, scale: f64, units: &[&'static str], decimals: usize) -> String {
    let mut at = 0;
    while at + 1 < units.len() && amount >= scale * STEP {
        amount /= scale;
        at += 1;
    }
    format!("{amount:.decimals$}{}", units[at])
}

/// `text` in a column of `width`, so that the digits of all rows line up whatever their unit:
/// two places at the end are kept for its letters.
pub fn column(text: &str, width: usize) -> String {
    let letters = text.bytes().rev().take(2).take_while(u8::is_ascii_alphabetic).count();
    let pad = 2 - letters;
    format!("{text:>width$}{:pad$}", "", width = width - pad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read() {
        assert_eq!((number("-c", "60000"), number("-c", "1k")), (Ok(60_000), Ok(1_000)));
        assert_eq!(number("-c", "2M"), Ok(2_000_000));
        assert_eq!(span("-d", "120m"), Ok(Duration::from_secs(7_200)));
        assert_eq!(
            (span("-d", "15"), span("-d", "1h").map(|s| s.as_secs())),
            (Ok(Duration::from_secs(15)), Ok(3_600))
        );
        for bad in ["", "k", "-1", "1.5", "1x", "1kk", "99999999999999999999"] {
            assert!(number("-c", bad).is_err(), "{bad}");
            assert!(span("-d", bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn units_are_printed() {
        assert_eq!(
            ["635.91us", "0.89ms", "12.92ms"].map(String::from),
            [635.91, 890.0, 12_920.0].map(time_us)
        );
        assert_eq!(
            (time_us(1_200_000.0), time_us(30_010_000.0)),
            ("1.20s".into(), "30.01s".into())
        );
        assert_eq!(
            (time_s(Duration::from_secs(30)), time_s(Duration::from_secs(7_200))),
            ("30s".into(), "2h".into())
        );
        assert_eq!(
            (metric(56_200.0), binary(17.76 * 1_073_741_824.0)),
            ("56.20k".into(), "17.76G".into())
        );
        assert_eq!(
            (column("1.00us", 8), column("1.00s", 8), column("1.00", 8)),
            ("  1.00us".into(), "  1.00s ".into(), "  1.00  ".into())
        );
    }
}
