//! A run with a text of somebody else's in every place where somebody else's text can be.

use super::{account, agent, finding};
use lab::host::{Environment, HostRow};
use lab::run::{CheckResult, Gravity, Note, Run};
use lab::series::{Column, FigureKind, Reading, Unit};
use std::borrow::Cow;

/// The same run with this in every text that somebody else writes.
pub fn poisoned(mut run: Run, text: &str) -> Run {
    let evil = || text.to_owned();
    [&mut run.name, &mut run.about, &mut run.command, &mut run.plan, &mut run.summary]
        .into_iter()
        .for_each(|each| *each = evil());
    run.target = vec![evil(), evil()];
    run.skipped = vec![(evil(), evil())];
    run.notes = vec![Note { at_ms: 1_000, text: evil() }];
    run.findings = [Gravity::Limit, Gravity::Warning]
        .map(|gravity| finding(gravity, text, (0, 9_000), [text, text, text]))
        .to_vec();
    run.saturation = vec![evil()];
    run.agents = vec![agent(text)];
    run.agents[0].busiest = f64::NAN;
    environment(&mut run.environment, text);
    environment(&mut run.agents[0].environment, text);
    run.checks = vec![CheckResult { rule: evil(), value: Some(1.0), held: Some(false) }];
    run.stages.iter_mut().for_each(|stage| stage.name = evil());
    run.total.codes.insert(evil(), 3);
    run.total.accounts = vec![account(text, &[(text, 3), (text, 4)])];
    for (whose, row) in &mut run.doctor {
        let HostRow { item, value, need, symptom, remedy, .. } = row;
        [whose, item, value, need, symptom, remedy].into_iter().for_each(|each| *each = evil());
    }
    for (later, value) in [(1, 1.0), (2, 9.0)] {
        let mut reading = Reading::default();
        for name in ["redis.", "server.", ""] {
            let name = Cow::Owned(format!("{name}{text}"));
            reading.set(Column { name, unit: Unit::Count, kind: FigureKind::Total }, value);
        }
        let name = Cow::Owned(format!("{text}.busiest"));
        reading.set(Column { name, unit: Unit::Share, kind: FigureKind::Peak }, value / 10.0);
        let rss = Column::peak("target.process.rss", Unit::Bytes);
        reading.set(rss, if later == 1 { 1e300 } else { f64::NAN });
        run.series.push(run.took_ms + later * 1_000, 0, &reading);
    }
    run
}

fn environment(environment: &mut Environment, text: &str) {
    let Environment { host, cpu, kernel, around, version, .. } = environment;
    [host, cpu, kernel, around, version].into_iter().for_each(|each| *each = text.to_owned());
}
