//! Made-up runs for the tests of detectors: columns as functions of the second.

use lab::cause::{Cause, Phase};
use lab::host::{Fitness, HostRow};
use lab::run::{FORMAT, Run, StageRun};
use lab::series::{Column, FigureKind, Reading, Series, Unit};

/// A run in the making.
pub struct Made {
    seconds: u64,
    columns: Vec<(Column, Vec<Option<f64>>)>,
    /// Ends to be counted.
    pub ends: Vec<(Phase, Cause, u64)>,
    /// Rows of the doctor.
    pub doctor: Vec<HostRow>,
    /// When a row was read, milliseconds, by its number.
    pub at_ms: fn(u64) -> u64,
}

impl Made {
    /// A run of so many seconds, a row each, that has no columns yet.
    pub fn of(seconds: u64) -> Made {
        Made {
            seconds,
            columns: Vec::new(),
            ends: Vec::new(),
            doctor: Vec::new(),
            at_ms: |row| row * 1_000,
        }
    }

    /// A column.
    pub fn column(
        &mut self,
        name: &str,
        kind: FigureKind,
        unit: Unit,
        of: impl Fn(u64) -> Option<f64>,
    ) {
        let column = Column { name: name.to_owned().into(), unit, kind };
        self.columns.push((column, (0..=self.seconds).map(of).collect()));
    }

    /// A total.
    pub fn total(&mut self, name: &str, of: impl Fn(u64) -> f64) {
        self.column(name, FigureKind::Total, Unit::Count, |second| Some(of(second)));
    }

    /// A gauge.
    pub fn gauge(&mut self, name: &str, of: impl Fn(u64) -> f64) {
        self.column(name, FigureKind::Gauge, Unit::Count, |second| Some(of(second)));
    }

    /// Ends, in the counts and as a column that grows at this second.
    pub fn ended(&mut self, phase: Phase, cause: Cause, count: u64, at: u64) {
        self.ends.push((phase, cause, count));
        let grown = move |second| if second >= at { count as f64 } else { 0.0 };
        self.total(&crate::case::ended(cause), grown);
    }

    /// A row of the doctor.
    pub fn doctor(&mut self, item: &str, value: &str, connections_max: Option<u64>) {
        self.doctor.push(HostRow {
            item: item.to_owned(),
            value: value.to_owned(),
            need: "more".to_owned(),
            fitness: Fitness::Bad,
            symptom: String::new(),
            remedy: String::new(),
            root: false,
            connections_max,
        });
    }

    /// The run, on two machines, with one stage that was arrived at after a tenth of its time.
    pub fn run(&self, attempts: u64) -> Run {
        let mut series = Series::default();
        for second in 0..=self.seconds {
            let mut reading = Reading::default();
            for (column, values) in &self.columns {
                if let Some(value) = values[second as usize] {
                    reading.set(column.clone(), value);
                }
            }
            series.push((self.at_ms)(second), 0, &reading);
        }
        let mut run = Run { format: FORMAT, name: "made".to_owned(), ..Run::default() };
        run.target = vec!["mqtt://10.0.0.1:1883".to_owned()];
        run.total.attempts = attempts;
        run.total.planned = attempts;
        for (phase, cause, count) in &self.ends {
            (0..*count).for_each(|_| run.total.causes.count(*phase, *cause));
        }
        let ended = run.total.causes.sum();
        run.total.online = attempts.saturating_sub(ended);
        run.total.open = run.total.online;
        run.total.bound = run.total.online;
        run.took_ms = self.seconds * 1_000;
        run.finished = true;
        run.doctor = self.doctor.iter().map(|row| ("target".to_owned(), row.clone())).collect();
        run.stages = vec![StageRun {
            name: "hold".to_owned(),
            from_ms: 0,
            arrived_ms: self.seconds * 100,
            to_ms: self.seconds * 1_000,
            clients: attempts,
            counts: run.total.clone(),
            checks: Vec::new(),
        }];
        run.series = series;
        run
    }
}
