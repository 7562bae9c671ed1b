//! The screen at several sizes, as text. `golden/` holds what it must look like.

use super::*;
use crate::state::{RunFrame, Title};
use crate::{KeyPress, lines};
use lab::cause::{Cause, Phase};
use lab::run::{Counts, Finding, Gravity, Note};
use lab::series::{Column, Reading, Unit};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use std::collections::BTreeMap;

fn text(state: &RunState, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a test's terminal");
    terminal.draw(|frame| draw(state, frame.area(), frame.buffer_mut())).expect("cells");
    let buffer = terminal.backend().buffer();
    let rows = (0..height).map(|y| {
        let row: String = (0..width).map(|x| buffer[(x, y)].symbol()).collect();
        row.trim_end().to_owned()
    });
    rows.map(|row| row + "\n").collect()
}

fn reading(second: u64) -> Reading {
    let mut reading = Reading::default();
    let gauge = |name| Column::gauge(name, Unit::Count);
    reading.set(gauge("clients.bind.p50"), 900.0 + 40.0 * second as f64);
    reading.set(gauge("clients.bind.p99"), 2_500.0 + 400.0 * second as f64);
    reading.set(gauge("clients.delivery.p50"), 450.0);
    reading.set(gauge("clients.delivery.p99"), 1_900.0 + 100.0 * (second % 5) as f64);
    for (whose, scale) in [("target", 1.9), ("tester", 0.4)] {
        reading.set(gauge("cpu.busy").of(whose), scale);
        reading.set(gauge("cpu.cores").of(whose), 2.0);
        reading.set(gauge("cpu.busiest").of(whose), scale / 1.95);
        reading.set(gauge("memory.used").of(whose), 1.3e9);
        reading.set(gauge("memory.total").of(whose), 8.0e9);
        reading.set(gauge("process.rss").of(whose), 2.0e8);
        reading.set(gauge("tcp.established").of(whose), 50.0 * second as f64);
        reading.set(gauge("process.fds").of(whose), 50.0 * second as f64 + 12.0);
        reading.set(gauge("process.fds_max").of(whose), 65_536.0);
    }
    let drops = Column::total("tcp.listen_drops", Unit::Count);
    reading.set(drops.of("target"), 3.0 * second.saturating_sub(10) as f64);
    reading
}

/// Half a minute of arrivals at a server that begins to drop.
fn state() -> RunState {
    let target = "mqtt://127.0.0.1:1883".to_owned();
    let mut state = RunState::new(Title { name: "link-limit".to_owned(), target });
    let stages = ["step-1", "step-2", "step-3"].map(str::to_owned);
    let mut counts = Counts::default();
    for second in 1..=30_u64 {
        (counts.attempts, counts.bound) = (52 * second, 50 * second);
        (counts.online, counts.open) = (50 * second, 50 * second);
        counts.raise("messages.sent", 1_200.0);
        counts.raise("messages.received", 1_200.0);
        if second > 10 {
            counts.causes.count(Phase::Connect, Cause::SynTimedOut);
            counts.causes.count(Phase::Bind, Cause::BindTimedOut);
            counts.causes.count(Phase::Connect, Cause::SynTimedOut);
        }
        let mut groups = BTreeMap::new();
        groups.insert("devices".to_owned(), Counts { planned: 60_000, ..Counts::default() });
        let notes = [Note { at_ms: 11_000, text: "agent-2 was lost".to_owned() }];
        let findings = [Finding {
            gravity: Gravity::Limit,
            side: "target".to_owned(),
            what: "The server's accept queue overflowed.".to_owned(),
            evidence: "ListenDrops +60 between 0:00:11 and 0:00:30.".to_owned(),
            remedy: "net.core.somaxconn and the listener's backlog".to_owned(),
            from_ms: 11_000,
            to_ms: 30_000,
        }];
        state.see(&RunFrame {
            at_ms: second * 1_000,
            stage: 1,
            stages: &stages,
            part: "arriving",
            clients: 60_000,
            until_ms: 600_000,
            counts: &counts,
            groups: &groups,
            reading: &reading(second),
            notes: if second == 11 { &notes } else { &[] },
            findings: if second > 10 { &findings } else { &[] },
            saturation: &[],
        });
    }
    state
}

fn golden(name: &str, drawn: &str, expected: &str) {
    assert!(drawn == expected, "golden/{name} is not what is drawn:\n{drawn}");
}

#[test]
fn a_usual_terminal_shows_all_parts() {
    golden("80x24.txt", &text(&state(), 80, 24), include_str!("golden/80x24.txt"));
}

#[test]
fn a_large_terminal_shows_more_of_each() {
    golden("130x40.txt", &text(&state(), 130, 40), include_str!("golden/130x40.txt"));
}

#[test]
fn a_small_terminal_keeps_what_matters() {
    golden("44x12.txt", &text(&state(), 44, 12), include_str!("golden/44x12.txt"));
}

#[test]
fn before_the_first_second_there_is_an_empty_frame_and_a_question_is_seen() {
    let mut state = RunState::new(Title { name: "smoke".to_owned(), target: String::new() });
    state.press(KeyPress::Char('+'));
    golden("empty.txt", &text(&state, 70, 20), include_str!("golden/empty.txt"));
}

#[test]
fn help_lies_over_everything() {
    let mut state = state();
    state.press(KeyPress::Char('?'));
    golden("help.txt", &text(&state, 80, 24), include_str!("golden/help.txt"));
}

#[test]
fn a_saturated_tester_is_red() {
    let mut state = state();
    state.saturation = vec!["a thread ran 100 % of the time".to_owned()];
    let area = Rect::new(0, 0, 80, 24);
    let mut buffer = Buffer::empty(area);
    draw(&state, area, &mut buffer);
    assert_eq!(buffer[(0, 2)].fg, Color::Red);
    assert!(text(&state, 80, 24).contains("tester SATURATED"));
    assert!(lines::line(&state).ends_with("TESTER SATURATED"));
}

#[test]
fn no_size_is_too_small_or_too_large() {
    let mut state = state();
    for help in [false, true] {
        for (width, height) in [(0, 0), (1, 1), (3, 2), (500, 1), (1, 200), (60, 3), (300, 120)] {
            let area = Rect::new(0, 0, width, height);
            let mut buffer = Buffer::empty(area);
            draw(&state, area, &mut buffer);
            draw(&state, Rect::new(0, 0, 400, 400), &mut buffer);
        }
        if !help {
            state.press(KeyPress::Char('?'));
        }
    }
}

#[test]
fn a_line_has_what_a_log_needs() {
    let line = lines::line(&state());
    let expected = "0:00:30 2/3 step-2 arriving  [..........]   2 %  online 1,500/60,000  +50/s  \
                    errors 60 (+3/s)  sent 1.2k/s  received 1.2k/s  delivery p50 450 us p99 \
                    1.9 ms  bind p50 2.1 ms p99 14.5 ms";
    assert_eq!(line, expected);
    assert_eq!(lines::notes(&state(), 5), ["0:00:11 note: agent-2 was lost"]);
}
