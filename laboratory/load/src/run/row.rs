//! A second of a load generator's clients as a row of the series.
//!
//! This module makes figures of counts and does not know when or why they are read. The names are
//! those that rules, charts and the judge use: `clients.online`, `clients.ended.refused`,
//! `clients.bind.p99` of the last second.

use lab::cause::Cause;
use lab::run::{Counts, FIGURES};
use lab::series::{Column, FigureKind, Reading, Unit};
use lab::timing::Timing;
use std::borrow::Cow;

/// Figures of all clients' counts; `earlier` are the counts of a second before.
pub(super) fn of(counts: &Counts, earlier: &Counts) -> Reading {
    let mut reading = Reading::default();
    for (name, value) in [
        ("clients.online", counts.online),
        ("clients.open", counts.open),
        ("clients.planned", counts.planned),
    ] {
        reading.set(Column::gauge(name, Unit::Count), value as f64);
    }
    for (name, value) in [
        ("clients.attempts", counts.attempts),
        ("clients.bound", counts.bound),
        ("clients.errors", counts.causes.errors()),
    ] {
        reading.set(Column::total(name, Unit::Count), value as f64);
    }
    for &cause in Cause::ALL {
        let name = format!("clients.ended.{}", cause.name());
        reading
            .set(column(name, Unit::Count, FigureKind::Total), counts.causes.all_of(cause) as f64);
    }
    for (name, _) in FIGURES {
        let unit = if name.contains("bytes") { Unit::Bytes } else { Unit::Count };
        let column = column(format!("clients.{name}"), unit, FigureKind::Total);
        reading.set(column, counts.figure(name));
    }
    for &timing in Timing::ALL {
        let (now, then) = (counts.timings.of(timing), earlier.timings.of(timing));
        if now.raw.count() == then.raw.count() {
            continue;
        }
        let corrected = now.corrected.since(&then.corrected);
        let raw = now.raw.since(&then.raw);
        for (point, us) in [
            ("p50", corrected.at(50.0)),
            ("p99", corrected.at(99.0)),
            ("max", corrected.max()),
            ("raw_p99", raw.at(99.0)),
        ] {
            let name = format!("clients.{}.{point}", timing.name());
            reading.set(column(name, Unit::Micros, FigureKind::Peak), us as f64);
        }
    }
    reading
}

fn column(name: String, unit: Unit, kind: FigureKind) -> Column {
    Column { name: Cow::Owned(name), unit, kind }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_its_own_times_and_all_totals() {
        let mut earlier = Counts { attempts: 5, ..Counts::default() };
        earlier.timings.at(Timing::Bind).note(1_000_000);
        let mut counts = earlier.clone();
        counts.online = 3;
        (0..99).for_each(|_| counts.timings.at(Timing::Bind).note_both(200, 100));
        counts.raise("messages.sent", 7.0);
        let row = of(&counts, &earlier);
        assert_eq!(row.of("clients.online"), Some(3.0));
        assert_eq!(row.of("clients.attempts"), Some(5.0));
        assert_eq!(row.of("clients.messages.sent"), Some(7.0));
        assert_eq!(row.of("clients.ended.refused"), Some(0.0));
        assert_eq!(row.of("clients.bind.p50"), Some(200.0));
        assert_eq!(row.of("clients.bind.raw_p99"), Some(100.0));
        assert_eq!(row.of("clients.connect.p50"), None);
        let names: Vec<_> = row.iter().map(|(column, _)| column.name.clone()).collect();
        assert_eq!(names.len(), names.iter().collect::<std::collections::BTreeSet<_>>().len());
    }
}
