//! State after the seconds that it is shown.

use super::*;
use lab::series::{Column, Unit};

/// Shows a state some seconds; what is not given is empty.
fn frame<'a>(
    at_ms: u64,
    counts: &'a Counts,
    reading: &'a Reading,
    groups: &'a BTreeMap<String, Counts>,
) -> RunFrame<'a> {
    RunFrame {
        at_ms,
        stage: 0,
        stages: &[],
        part: "arriving",
        clients: 1_000,
        until_ms: 60_000,
        counts,
        groups,
        reading,
        notes: &[],
        findings: &[],
        saturation: &[],
    }
}

#[test]
fn rates_are_of_the_time_between_two_looks() {
    let (groups, reading) = (BTreeMap::new(), Reading::default());
    let mut state = RunState::new(Title::default());
    let mut counts = Counts { online: 100, bound: 100, ..Counts::default() };
    state.see(&frame(1_000, &counts, &reading, &groups));
    assert_eq!(state.last().connects, 100.0);
    counts.bound = 600;
    counts.online = 500;
    counts.raise("messages.sent", 50.0);
    counts.causes.count(Phase::Online, Cause::Reset);
    counts.causes.count(Phase::Online, Cause::Farewell);
    state.see(&frame(3_000, &counts, &reading, &groups));
    let last = state.last();
    assert_eq!((last.connects, last.errors, last.sent), (250.0, 0.5, 25.0));
    assert_eq!(state.worst(), [(Phase::Online, Cause::Reset, 1)]);
    assert_eq!(state.done(), Some(0.5));
}

#[test]
fn however_long_a_run_is_the_state_is_bounded() {
    let (groups, counts) = (BTreeMap::new(), Counts::default());
    let mut state = RunState::new(Title::default());
    for second in 0..2_000 {
        let mut reading = Reading::default();
        let column = Column::total("net.dropped", Unit::Count);
        reading.set(column.of(&format!("agent-{second}")), 1.0);
        let notes = [Note { at_ms: second, text: "again".to_owned() }];
        let frame = RunFrame { notes: &notes, ..frame(second * 1_000, &counts, &reading, &groups) };
        state.see(&frame);
    }
    assert_eq!((state.history.len(), state.notes.len()), (HISTORY_MAX, NOTES_MAX));
}

#[test]
fn a_tester_that_was_saturated_is_not_forgotten() {
    let (groups, counts, reading) = (BTreeMap::new(), Counts::default(), Reading::default());
    let mut state = RunState::new(Title::default());
    let saturation = ["a thread was busy all the time".to_owned()];
    state.see(&RunFrame { saturation: &saturation, ..frame(1_000, &counts, &reading, &groups) });
    assert!(state.verdict().1.contains("a thread was busy"));
    state.see(&frame(2_000, &counts, &reading, &groups));
    let (gravity, text) = state.verdict();
    assert_eq!(gravity, Gravity::Warning);
    assert!(text.contains("saturated for 1 s"), "{text}");
}

#[test]
fn the_gravest_finding_is_the_verdict() {
    let (groups, counts, reading) = (BTreeMap::new(), Counts::default(), Reading::default());
    let finding = |gravity, what: &str| Finding {
        gravity,
        side: String::new(),
        what: what.to_owned(),
        evidence: String::new(),
        remedy: String::new(),
        from_ms: 0,
        to_ms: 0,
    };
    let findings = [finding(Gravity::Warning, "Slow."), finding(Gravity::Limit, "Full.")];
    let mut state = RunState::new(Title::default());
    state.see(&RunFrame { findings: &findings, ..frame(1_000, &counts, &reading, &groups) });
    assert_eq!(state.verdict(), (Gravity::Limit, "Full.".to_owned()));
}

#[test]
fn a_second_remembers_which_timing_it_showed() {
    let (groups, counts) = (BTreeMap::new(), Counts::default());
    let mut state = RunState::new(Title::default());
    for name in ["ready", "delivery"] {
        let mut reading = Reading::default();
        for part in ["p50", "p99"] {
            let column = Column::peak(part, Unit::Micros).of(name).of("clients");
            reading.set(column, 70.0);
        }
        state.see(&frame(1_000, &counts, &reading, &groups));
    }
    let shown: Vec<_> = state.history.iter().map(|second| second.p99).collect();
    assert_eq!(shown, [Some(("ready", 70.0)), Some(("delivery", 70.0))]);
}
