//! Figures as people read them: three digits that matter, and a unit.
//!
//! A number and its unit are one word: between them is a space that does not break.
//! It knows no figure by name.

use base::calendar;
use lab::series::Unit;

/// Space between a number and its unit.
pub const SPACE: char = '\u{a0}';

/// A value of this unit.
pub fn of(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Count => count(value),
        Unit::Bytes => bytes(value),
        Unit::Micros => micros(value),
        Unit::Share => share(value),
        Unit::Seconds => seconds(value),
    }
}

/// Things: whole ones with separators, `431,233`; less than a hundred with a fraction, `2.5`.
pub fn count(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let rounded = value.round();
    if value != rounded && value.abs() < 100.0 {
        return digits(value);
    }
    if rounded.abs() >= 1e15 {
        return format!("{value:.2e}");
    }
    let whole = format!("{}", rounded.abs() as u64);
    let mut out = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if rounded < 0.0 { format!("−{out}") } else { out }
}

/// The figure in as few characters as an axis has: `420k`, `1.2M`.
pub fn short(unit: Unit, value: f64) -> String {
    match unit {
        _ if value == 0.0 => "0".to_owned(),
        Unit::Count => {
            let units = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
            match units.iter().find(|(one, _)| value.abs() >= *one) {
                Some((one, name)) => format!("{}{name}", digits(value / one)),
                None => digits(value),
            }
        }
        _ => of(unit, value),
    }
}

/// Bytes: `1.62 GiB`.
pub fn bytes(value: f64) -> String {
    let mut value = value;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value.abs() < 1_000.0 {
            return format!("{}\u{a0}{unit}", digits(value));
        }
        value /= 1_024.0;
    }
    format!("{}\u{a0}TiB", digits(value))
}

/// Microseconds: `850 µs`, `12.4 ms`, `3.2 s`.
pub fn micros(us: f64) -> String {
    match us.abs() {
        us_abs if us_abs < 1e3 => format!("{}\u{a0}µs", digits(us)),
        us_abs if us_abs < 1e6 => format!("{}\u{a0}ms", digits(us / 1e3)),
        us_abs if us_abs < 120e6 => format!("{}\u{a0}s", digits(us / 1e6)),
        _ => seconds(us / 1e6),
    }
}

/// A share: `42 %`; below a thousandth as `3.1e-5`.
pub fn share(value: f64) -> String {
    if value != 0.0 && value.abs() < 1e-4 {
        return format!("{value:.1e}");
    }
    format!("{}\u{a0}%", digits(value * 100.0))
}

/// Seconds: `2.5 s`, `12 min 5 s`, `2 h 4 min`.
pub fn seconds(value: f64) -> String {
    let whole = value.round();
    match value.abs() {
        abs if abs < 120.0 => format!("{}\u{a0}s", digits(value)),
        abs if abs < 7_200.0 => two_parts(whole, (60.0, "min"), (1.0, "s")),
        _ => two_parts(whole, (3_600.0, "h"), (60.0, "min")),
    }
}

/// `12 min 5 s`; `12 min` where nothing is left.
fn two_parts(value: f64, large: (f64, &str), small: (f64, &str)) -> String {
    let smalls = (value / small.0).round();
    let a_large = large.0 / small.0;
    let (larges, rest) = ((smalls / a_large).floor(), smalls.rem_euclid(a_large));
    let large = format!("{larges:.0}{SPACE}{}", large.1);
    if rest == 0.0 { large } else { format!("{large} {rest:.0}{SPACE}{}", small.1) }
}

/// A moment of the run: `4:07`, `1:04:07`.
pub fn clock(at_ms: u64) -> String {
    let seconds = at_ms / 1_000;
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}

/// Three digits that matter, without zeros at the end of a fraction.
pub fn digits(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    if value.abs() >= 1e15 {
        return format!("{value:.2e}");
    }
    let places = match value.abs() {
        abs if abs == 0.0 || abs >= 99.95 => 0,
        abs if abs >= 9.995 => 1,
        abs if abs >= 0.9995 => 2,
        abs if abs >= 0.000_1 => (2.0 - abs.log10().floor()) as usize,
        _ => return format!("{value:.1e}"),
    };
    let text = format!("{value:.places$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// A Unix time in milliseconds as a date and a time of day, UTC.
pub fn date(unix_ms: u64) -> String {
    let seconds = unix_ms / 1_000;
    let (date, hour) = (calendar::date(seconds), calendar::hour(seconds));
    format!("{date} {hour}:{:02} UTC", seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short_and_have_their_unit() {
        assert_eq!(count(431_233.0), "431,233");
        assert_eq!((count(2.5), count(-1_000.0)), ("2.5".to_owned(), "−1,000".to_owned()));
        let plain = |text: String| text.replace(SPACE, " ");
        for (text, wanted) in [
            (micros(850.0), "850 µs"),
            (micros(12_400.0), "12.4 ms"),
            (micros(3.2e6), "3.2 s"),
            (micros(4e8), "6 min 40 s"),
            (share(0.42), "42 %"),
            (share(0.000_031), "3.1e-5"),
            (bytes(1_738_000_000.0), "1.62 GiB"),
            (bytes(512.0), "512 B"),
            (seconds(725.0), "12 min 5 s"),
            (seconds(960.0), "16 min"),
            (seconds(7_440.0), "2 h 4 min"),
        ] {
            assert_eq!(plain(text), wanted);
        }
        assert_eq!((clock(247_000), clock(3_847_000)), ("4:07".into(), "1:04:07".into()));
        assert_eq!(
            (digits(0.0), digits(9.999), digits(0.012_34)),
            ("0".into(), "10".into(), "0.0123".into())
        );
        assert_eq!(digits(f64::NAN), "–");
    }

    #[test]
    fn a_date_has_its_seconds() {
        assert_eq!(date(1_795_206_425_000), "2026-11-20 20:27:05 UTC");
    }

    #[test]
    fn units_change_at_their_borders() {
        let plain = |text: String| text.replace(SPACE, " ");
        for (text, wanted) in [
            (micros(999.0), "999 µs"),
            (micros(1_000.0), "1 ms"),
            (micros(1e6), "1 s"),
            (micros(119e6), "119 s"),
            (micros(120e6), "2 min"),
            (micros(-1_500.0), "-1.5 ms"),
            (seconds(119.0), "119 s"),
            (seconds(120.0), "2 min"),
            (seconds(7_199.0), "119 min 59 s"),
            (seconds(7_200.0), "2 h"),
            (bytes(999.0), "999 B"),
            (bytes(1_000.0), "0.977 KiB"),
            (bytes(1_048_576.0), "1 MiB"),
            (bytes(2_199_023_255_552.0), "2 TiB"),
            (share(1e-4), "0.01 %"),
            (share(0.99e-4), "9.9e-5"),
            (share(0.0), "0 %"),
            (share(-0.5), "-50 %"),
            (of(Unit::Share, 0.5), "50 %"),
            (of(Unit::Seconds, 5.0), "5 s"),
            (of(Unit::Count, 5.0), "5"),
            (short(Unit::Count, 999.0), "999"),
            (short(Unit::Count, 1e3), "1k"),
            (short(Unit::Count, 1e6), "1M"),
            (short(Unit::Count, 2.5e9), "2.5G"),
            (short(Unit::Count, -2e3), "-2k"),
            (short(Unit::Bytes, 0.0), "0"),
            (short(Unit::Bytes, 1_024.0), "1 KiB"),
        ] {
            assert_eq!(plain(text), wanted);
        }
    }

    #[test]
    fn counts_and_digits_keep_three_places() {
        for (value, wanted) in [
            (0.0, "0"),
            (999.0, "999"),
            (1_000.0, "1,000"),
            (1_234_567.0, "1,234,567"),
            (99.5, "99.5"),
            (100.5, "101"),
            (-0.25, "-0.25"),
            (1e15, "1.00e15"),
            (9.99e14, "999,000,000,000,000"),
            (f64::INFINITY, "–"),
        ] {
            assert_eq!(count(value), wanted);
        }
        for (value, wanted) in [
            (99.95, "100"),
            (99.94, "99.9"),
            (9.995, "10"),
            (9.994, "9.99"),
            (0.9995, "1"),
            (0.9994, "0.999"),
            (0.0001, "0.0001"),
            (0.000_09, "9.0e-5"),
            (1e15, "1.00e15"),
            (123.4, "123"),
            (-12.34, "-12.3"),
        ] {
            assert_eq!(digits(value), wanted);
        }
        let clocks = [0, 59_999, 60_000, 3_599_000, 3_600_000, 36_061_000].map(clock);
        assert_eq!(clocks, ["0:00", "0:59", "1:00", "59:59", "1:00:00", "10:01:01"]);
    }
}
