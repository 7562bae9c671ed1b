//! Looking: at the tester while something is waited for, and once a second for a row.
//!
//! This module decides nothing. The invariant: while clients are awaited it looks ten times a
//! second, while time is held once, and a row is made of one look.

use super::{End, LOOK_MS, ROW_MS, Runner};
use crate::run::{RunTick, StagePart, row};
use lab::series::{FigureKind, Reading, Unit};

/// Two looks have so many milliseconds between them at least: a thread's activity in less cannot be
/// measured.
const LOOK_MS_MIN: u64 = 20;

impl Runner<'_> {
    /// Waits until then at most, but no longer than to the next look; rows, ticks and wishes happen
    /// on the way. A pause is spent here.
    pub(super) fn beat(&mut self, until_ms: u64) {
        self.step(until_ms);
        let began = self.now_ms();
        let part = self.part;
        while self.paused && self.end.is_none() {
            self.part = StagePart::Paused;
            self.step(u64::MAX);
        }
        self.part = part;
        self.paused_ms += self.now_ms() - began;
    }

    fn step(&mut self, until_ms: u64) {
        let now = self.now_ms();
        // While a time is held nothing is waited for: a row a second is enough.
        let holds =
            matches!(self.part, StagePart::Holding | StagePart::Paused) && !self.counts_messages;
        let look = if holds { u64::MAX } else { now + LOOK_MS };
        let wake = until_ms.min(self.row_due_ms).min(look).max(now);
        let at = self.began_ms + wake;
        self.parts.clock.rest_until(at);
        if self.parts.clock.is_interrupted() && self.end.is_none() {
            self.end = Some(End::Interrupted);
        }
        if self.now_ms() >= self.row_due_ms {
            self.row();
        } else {
            self.look();
        }
    }

    /// Reads the counts of the load generator and of the pushes now.
    pub(super) fn look(&mut self) {
        let now = self.now_ms();
        if self.looked_ms.is_some_and(|at| now < at + LOOK_MS_MIN) {
            return;
        }
        self.looked_ms = Some(now);
        let look = self.parts.generator.look();
        let mut groups = look.groups;
        for (group, counts) in self.parts.pushes.look() {
            groups.entry(group).or_default().add(&counts);
        }
        self.with_sums(&mut groups);
        self.excuse(now, &mut groups);
        self.total = self.audited.clone();
        groups.values().for_each(|counts| self.total.add(counts));
        self.note_latest(now);
        self.groups = groups;
        for note in look.notes {
            self.note(note);
        }
        self.agents(look.agents);
        self.looks += 1;
        if let Some(last) = look.saturation.into_iter().next_back() {
            self.saturated.1 = last;
            self.saturated_looks += 1;
        }
        self.readings.push(look.reading);
    }

    /// Reading of the tester's machines since the last row. Each look covers the time since the one
    /// before: shares are averaged, and of heights the highest counts.
    fn own(&mut self) -> Reading {
        let readings = std::mem::take(&mut self.readings);
        let Some(last) = readings.last() else { return Reading::default() };
        let mut own = Reading::default();
        for (column, value) in last.iter() {
            let all = readings.iter().filter_map(|reading| reading.of(&column.name));
            let value = match (column.unit, column.kind) {
                (Unit::Share, FigureKind::Gauge | FigureKind::Peak) => {
                    let (sum, count) = all.fold((0.0, 0.0), |(sum, n), v| (sum + v, n + 1.0));
                    sum / f64::max(count, 1.0)
                }
                (_, FigureKind::Peak) => all.fold(*value, f64::max),
                (_, FigureKind::Low) => all.fold(*value, f64::min),
                _ => *value,
            };
            own.set(column.clone(), value);
        }
        own
    }

    /// Looks, and makes a row of it; whoever looks on is shown it and asked what he wishes.
    pub(super) fn row(&mut self) {
        self.look();
        let own = self.own();
        let at_ms = self.now_ms();
        self.row_due_ms = (at_ms / ROW_MS + 1) * ROW_MS;
        let mut reading = row::of(&self.total, &self.row_total);
        reading.extend(own);
        let (read, notes) = self.parts.eyes.read();
        reading.extend(read);
        notes.into_iter().for_each(|note| self.note(note));
        let stage = u16::try_from(self.place).unwrap_or(u16::MAX);
        self.run.series.push(at_ms, stage, &reading);
        self.row_total = self.total.clone();
        // A second was saturated when most of it was.
        let looks = std::mem::take(&mut self.looks);
        let saturated = 2 * std::mem::take(&mut self.saturated_looks) > looks;
        self.saturated.0 += u64::from(saturated);
        let saturation = if saturated { vec![self.saturated.1.clone()] } else { Vec::new() };
        let tick = RunTick {
            at_ms,
            stage: self.place,
            stages: self.plan.stages.iter().map(|stage| stage.name.clone()).collect(),
            part: self.part,
            clients: self.wanted.values().map(|count| u64::from(*count)).sum(),
            until_ms: self.until_ms,
            counts: self.total.clone(),
            groups: self.groups.clone(),
            reading,
            notes: self.run.notes[self.notes_shown..].to_vec(),
            findings: self.run.findings.clone(),
            saturation,
        };
        self.notes_shown = self.run.notes.len();
        self.parts.watch.tick(&tick);
        self.wishes();
    }
}
