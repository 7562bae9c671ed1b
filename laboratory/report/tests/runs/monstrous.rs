//! As large as a run can be, with texts as bad as texts can be.

use super::{environment, finding, note_spread, stage};
use lab::cause::{Cause, Phase};
use lab::host::{Fitness, HostRow};
use lab::run::{Agent, Balance, CheckResult, FORMAT, Gravity, NOTES_MAX, Note, Run};
use lab::series::{COLUMNS_MAX, Column, FigureKind, ROWS_MAX, Reading, Unit};
use lab::timing::Timing;
use std::borrow::Cow;

/// A text that breaks whatever does not escape it.
pub const EVIL: &str = "</script><script>alert(1)</script><!--\"'&\
                        <img src=x onerror=alert(2)>\u{0}\r\n\u{202e}{};=1+1\\";

/// With every text so many times as long.
pub fn monstrous(times: usize) -> Run {
    let long = EVIL.repeat(times);
    let mut run = Run {
        format: FORMAT,
        name: long.clone(),
        about: long.clone(),
        command: long.clone(),
        plan: EVIL.repeat(times * 100),
        summary: long.clone(),
        target: vec![long.clone(); 500],
        took_ms: 3_600_000,
        environment: environment(&long),
        skipped: vec![(long.clone(), long.clone()); 300],
        saturation: vec![long.clone(); 200],
        ..Run::default()
    };
    series(&mut run);
    for cause in Cause::ALL {
        for (nth, phase) in Phase::ALL.into_iter().enumerate() {
            (0..=nth).for_each(|_| run.total.causes.count(phase, *cause));
        }
    }
    for &timing in Timing::ALL {
        note_spread(&mut run.total, timing, 5_000_000, 3_000.0, 2.5);
    }
    for place in 0..400_u64 {
        let mut stage = stage(&format!("{place} {long}"), place * 9_000, 1_000);
        stage.to_ms = (place + 1) * 9_000;
        let check = CheckResult { rule: long.clone(), value: Some(f64::MAX), held: None };
        stage.checks = vec![check; 10];
        if place % 100 == 0 {
            Timing::ALL.iter().for_each(|&t| note_spread(&mut stage.counts, t, 90_000, 3e3, 2.0));
        }
        run.stages.push(stage);
    }
    run.checks = run.stages[0].checks.clone();
    rows(&mut run, &long);
    run
}

fn rows(run: &mut Run, long: &str) {
    for place in 0..NOTES_MAX as u64 {
        run.notes.push(Note { at_ms: place * 3_600, text: format!("{place}{long}") });
        run.total.codes.insert(format!("{place} {long}"), place);
        if place >= 60 {
            continue;
        }
        let gravity = [Gravity::Note, Gravity::Limit, Gravity::Warning][place as usize % 3];
        run.findings.push(finding(gravity, long, (place, place * 3_000), [long, long, long]));
        let row = HostRow {
            item: long.to_owned(),
            value: long.to_owned(),
            need: long.to_owned(),
            fitness: Fitness::Bad,
            symptom: long.to_owned(),
            remedy: long.to_owned(),
            root: true,
            connections_max: None,
        };
        run.doctor.push((long.to_owned(), row));
        let parts = (0..20).map(|part| (format!("{part}{long}"), u64::MAX / 200)).collect();
        run.total.accounts.push(Balance { what: long.to_owned(), total: 5, parts });
        let (name, environment) = (format!("agent-{place}{long}"), environment(long));
        run.agents.push(Agent { name, environment, lost_ms: Some(7), ..Agent::default() });
    }
}

/// Rows and columns as many as there can be, each number as long as it can be.
fn series(run: &mut Run) {
    let mut columns = Vec::new();
    let mut add = |name: String, unit: Unit, kind: FigureKind| {
        columns.push(Column { name: Cow::Owned(name), unit, kind });
    };
    for name in ["online", "open", "planned"] {
        add(format!("clients.{name}"), Unit::Count, FigureKind::Gauge);
    }
    for name in ["attempts", "bound", "errors", "established", "reconnects"] {
        add(format!("clients.{name}"), Unit::Count, FigureKind::Total);
    }
    for timing in Timing::ALL {
        for point in ["p50", "p99", "max", "raw_p99"] {
            add(format!("clients.{}.{point}", timing.name()), Unit::Micros, FigureKind::Peak);
        }
    }
    Cause::ALL
        .iter()
        .for_each(|c| add(format!("clients.ended.{}", c.name()), Unit::Count, FigureKind::Total));
    for owner in ["target", "tester"] {
        (0..64).for_each(|k| add(format!("{owner}.cpu.core.{k}"), Unit::Share, FigureKind::Peak));
        for name in ["process.rss", "memory.slab", "memory.used", "memory.total"] {
            add(format!("{owner}.{name}"), Unit::Bytes, FigureKind::Peak);
        }
    }
    while columns.len() < COLUMNS_MAX {
        let (name, unit) = (format!("server.{}.{EVIL}", columns.len()), Unit::Count);
        let kind = if columns.len() % 2 == 0 { FigureKind::Total } else { FigureKind::Gauge };
        columns.push(Column { name: Cow::Owned(name), unit, kind });
    }
    let mut seed = 99_u64;
    for row in 0..ROWS_MAX {
        let mut reading = Reading::default();
        for column in &columns {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_041);
            let random = (seed >> 11) as f64 / (1_u64 << 53) as f64;
            let value = match column.kind {
                FigureKind::Total => row as f64 * 1e6 + random * 1e6,
                _ => random * 10_f64.powi((seed % 12) as i32),
            };
            reading.set(column.clone(), value);
        }
        run.series.push(row as u64 * 1_000, (row / 9) as u16, &reading);
    }
}
