//! Figures as people read them: `12,345`, `1.2k`, `3.4 ms`, `1.5 GB`, `1:02:03`.
//!
//! This module does not know the meaning of figures. Every text is short, so that columns hold.

/// A number of things, with separators: `1,234,567`.
pub fn count(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::with_capacity(digits.len() + digits.len() / 3 + 1);
    if value < -0.5 {
        text.push('-');
    }
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of things in at most six characters: `12.3k`.
pub fn short(value: f64) -> String {
    scaled(value, 1_000.0, &["", "k", "M", "G", "T"], "")
}

/// Bytes: `1.5 GB`.
pub fn bytes(value: f64) -> String {
    scaled(value, 1_024.0, &["B", "KB", "MB", "GB", "TB"], " ")
}

/// Microseconds: `850 us`, `3.4 ms`, `12 s`.
pub fn micros(value: f64) -> String {
    match value {
        _ if value >= 99_950_000.0 => format!("{:.0} s", value / 1e6),
        _ if value >= 999_500.0 => format!("{:.1} s", value / 1e6),
        _ if value >= 99_950.0 => format!("{:.0} ms", value / 1e3),
        _ if value >= 1_000.0 => format!("{:.1} ms", value / 1e3),
        _ => format!("{value:.0} us"),
    }
}

/// A share: `43 %`.
pub fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// A length of time: `1:02:03`.
pub fn clock(ms: u64) -> String {
    let seconds = ms / 1_000;
    format!("{}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

/// A share as a bar of so many columns: `████▌───`.
pub fn bar(share: f64, columns: usize) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * columns as f64 * 8.0) as usize;
    let mut bar = "█".repeat(eighths / 8);
    bar.push_str(PARTS[eighths % 8]);
    let rest = columns - eighths.div_ceil(8);
    bar + &"─".repeat(rest)
}

fn scaled(value: f64, step: f64, units: &[&str], gap: &str) -> String {
    let mut value = value;
    let mut unit = 0;
    while value.abs() >= step * 0.9995 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let digits = usize::from(unit > 0 && value.abs() < 99.95);
    let gap = if units[unit].is_empty() { "" } else { gap };
    format!("{value:.digits$}{gap}{}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_as_they_are_meant() {
        assert_eq!(
            [0.0, 999.0, 1_000.0, 1_234_567.0].map(count),
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(count(-1_000.0), "-1,000");
        assert_eq!(
            [0.0, 999.0, 999.9, 12_345.0, 999_990.0].map(short),
            ["0", "999", "1.0k", "12.3k", "1.0M"]
        );
        assert_eq!([12.0, 1_536.0, 3e9].map(bytes), ["12 B", "1.5 KB", "2.8 GB"]);
        assert_eq!(
            [0.0, 999.0, 3_400.0, 250_000.0, 2e6].map(micros),
            ["0 us", "999 us", "3.4 ms", "250 ms", "2.0 s"]
        );
        assert_eq!(
            [0.0, 0.5, 0.51, 1.0, 9.0].map(|share| bar(share, 4)),
            ["────", "██──", "██──", "████", "████"]
        );
        assert_eq!(bar(0.14, 4), "▌───");
        assert_eq!((clock(3_723_999), percent(0.426)), ("1:02:03".to_owned(), "43 %".to_owned()));
    }
}
