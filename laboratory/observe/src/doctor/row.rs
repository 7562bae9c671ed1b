//! How a row of the list is made.

use super::Look;
use lab::host::{Fitness, HostRow};

/// A number as people read it: `1,048,576`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Bytes as people read them: `4.1 GB`.
pub(super) fn bytes(number: u64) -> String {
    let number = number as f64;
    match number {
        _ if number >= 1e9 => format!("{:.1} GB", number / 1e9),
        _ if number >= 1e6 => format!("{:.0} MB", number / 1e6),
        _ => format!("{:.0} kB", number / 1e3),
    }
}

/// A row that is good until it is said otherwise.
pub(super) fn row(item: &str, value: impl Into<String>, need: impl Into<String>) -> HostRow {
    HostRow {
        item: item.to_owned(),
        value: value.into(),
        need: need.into(),
        fitness: Fitness::Good,
        symptom: String::new(),
        remedy: String::new(),
        root: false,
        connections_max: None,
    }
}

/// A row about something that cannot be read here, and where it could be.
pub(super) fn unknown(item: &str, why: &str, need: impl Into<String>) -> HostRow {
    HostRow { fitness: Fitness::Unknown, ..row(item, why, need) }
}

/// Additions to a row.
pub(super) trait Say {
    /// Symptom of a wrong setting, and the counter that shows it.
    fn symptom(self, text: &str) -> HostRow;
    /// So fit, unless it cannot be known.
    fn judged(self, fitness: Fitness) -> HostRow;
    /// Remedy for root, if one is needed.
    fn by_root(self, command: impl Into<String>) -> HostRow;
    /// Remedy for any user, if one is needed.
    fn by_anyone(self, command: impl Into<String>) -> HostRow;
    /// Bound on the number of connections.
    fn bounds(self, connections: u64) -> HostRow;
}

impl Say for HostRow {
    fn symptom(self, text: &str) -> HostRow {
        HostRow { symptom: text.to_owned(), ..self }
    }

    fn judged(self, fitness: Fitness) -> HostRow {
        let known = self.fitness != Fitness::Unknown;
        HostRow { fitness: if known { fitness } else { Fitness::Unknown }, ..self }
    }

    fn by_root(self, command: impl Into<String>) -> HostRow {
        let wanted = self.fitness >= Fitness::Weak;
        let remedy = if wanted { command.into() } else { String::new() };
        HostRow { remedy, root: wanted, ..self }
    }

    fn by_anyone(self, command: impl Into<String>) -> HostRow {
        HostRow { root: false, ..self.by_root(command) }
    }

    fn bounds(self, connections: u64) -> HostRow {
        HostRow { connections_max: Some(connections), ..self }
    }
}

/// A setting of the kernel that must not be less than a number; otherwise it is so unfit.
pub(super) fn at_least(look: &Look, name: &str, need: u64, otherwise: Fitness) -> HostRow {
    let wanted = format!("at least {}", grouped(need));
    let Some(value) = look.number(name) else {
        return unknown(name, "not present", wanted);
    };
    let fitness = if value >= need { Fitness::Good } else { otherwise };
    row(name, grouped(value), wanted).judged(fitness).by_root(format!("sysctl -w {name}={need}"))
}

/// A setting of the kernel that should be one of some; the first one is the remedy's.
pub(super) fn one_of(look: &Look, name: &str, good: &[&str], otherwise: Fitness) -> HostRow {
    let wanted = good.join(" or ");
    let Some(value) = look.setting(name) else {
        return unknown(name, "not present", wanted);
    };
    let fitness = if good.contains(&value.as_str()) { Fitness::Good } else { otherwise };
    row(name, value, wanted).judged(fitness).by_root(format!("sysctl -w {name}={}", good[0]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        assert_eq!([0, 999, 1_000, 41_233].map(grouped), ["0", "999", "1,000", "41,233"]);
        assert_eq!(grouped(1_048_576), "1,048,576");
        assert_eq!([900, 5_000_000, 4_100_000_000].map(bytes), ["1 kB", "5 MB", "4.1 GB"]);
    }
}
