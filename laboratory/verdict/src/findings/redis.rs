//! Redis beside the server: how far it lags, how much waits for it, what does not agree.
//!
//! Names of such columns are the server's own; what matters is that they speak of Redis or presence
//! and of a lag, a depth, a backlog or a mismatch.

use crate::case::Case;
use crate::window;
use crate::words;
use lab::run::{Finding, Gravity};
use lab::series::{FigureKind, Unit};

/// Words in the names of Redis' columns that are reported.
const SIGNS: [&str; 8] =
    ["lag", "depth", "backlog", "queue", "dirty", "mismatch", "pending", "unwritten"];

/// Columns of Redis that rose and did not come back, or rose at all.
pub fn detect(case: &Case) -> Vec<Finding> {
    let columns = case.series().columns().iter();
    let spoken = columns.filter(|column| {
        let name = &column.name;
        column.kind != FigureKind::Total
            // How much may wait at its door is a setting.
            && !name.ends_with("listen_backlog")
            && (name.contains("redis") || name.contains("presence"))
            && SIGNS.iter().any(|sign| name.rsplit(['.', '_']).any(|word| word == *sign))
    });
    spoken.filter_map(|column| one(case, &column.name, column.unit)).collect()
}

fn one(case: &Case, name: &str, unit: Unit) -> Option<Finding> {
    let shown = window::shown(case.series(), name, case.whole());
    let usual = crate::fit::median(shown.iter().map(|(_, value)| *value))?;
    let (at, most) = case.highest(name)?;
    let (to_ms, last) = *shown.last()?;
    if most <= 0.0 || most < 2.0 * usual.max(0.0) && last < most {
        return None;
    }
    let risen = shown.iter().find(|(_, value)| *value >= 0.5 * most)?.0;
    let stays = last >= 0.5 * most && to_ms.saturating_sub(risen) >= 5_000;
    let back = shown.iter().find(|(later, value)| *later > at && *value <= 0.1 * most);
    let value = |value: f64| match unit {
        Unit::Micros => words::time(value),
        Unit::Seconds => words::time(value * 1e6),
        Unit::Bytes => words::bytes(value),
        _ => words::number(value),
    };
    let after = match back {
        Some((later, _)) => format!("; below a tenth of that again at {}", words::moment(*later)),
        None => format!("; {} at the end", value(last)),
    };
    Some(Finding {
        gravity: if stays { Gravity::Warning } else { Gravity::Note },
        side: "target".to_owned(),
        what: match stays {
            true => format!("The queue of writes to Redis grew and did not shrink again ({name})."),
            false => format!("The queue of writes to Redis grew and shrank again ({name})."),
        },
        evidence: format!("{} at {}{after}", value(most), words::moment(at)),
        remedy: match stays {
            true => {
                "Redis or the network to it is too slow for the rate of changes: check its CPU, \
                 the network and the server's batch size."
            }
            false => "",
        }
        .to_owned(),
        from_ms: risen,
        to_ms: back.map_or(to_ms, |(later, _)| *later),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::Made;

    #[test]
    fn a_depth_that_stays_is_a_warning_and_one_that_comes_back_a_note() {
        let mut made = Made::of(60);
        made.gauge("server.redis.depth", |s| if s > 30 { 9_000.0 } else { 0.0 });
        made.gauge("redis.lag", |s| if (20..25).contains(&s) { 700.0 } else { 1.0 });
        made.gauge("server.redis.delay", |_| 5.0);
        made.gauge("server.holdline_presence_lag_seconds", |s| if s == 40 { 900.0 } else { 0.0 });
        made.gauge("server.redis.queue", |_| 0.0);
        made.gauge("redis.process.listen_backlog", |_| 511.0);
        let found = detect(&Case::of(&made.run(10)));
        let told: Vec<_> = found.iter().map(|found| (found.gravity, found.from_ms)).collect();
        let all = [(Gravity::Warning, 31_000), (Gravity::Note, 20_000), (Gravity::Note, 40_000)];
        assert_eq!(told, all);
        assert!(found[1].evidence.contains("again at 00:25"), "{}", found[1].evidence);
    }
}
