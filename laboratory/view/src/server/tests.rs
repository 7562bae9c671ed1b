//! State after readings, and that it can be drawn on any screen.

use super::*;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

fn reading(at_ms: u64, packets: u64, resets: u64) -> ServerReading {
    let of = |all: &[(&str, u64)]| {
        all.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect::<BTreeMap<_, _>>()
    };
    ServerReading {
        at_ms,
        version: "1.2.3".into(),
        readiness: "ready".into(),
        is_ready: true,
        cluster: Some(("leads, 1 of 1 followers".into(), true)),
        pressure: "calm".into(),
        gauges: of(&[("connections", 12_345), ("online", 7), ("waiting", 3), ("shards", 2)]),
        counters: of(&[("packets_received_total", packets), ("pings_total", 5)]),
        closed: of(&[("peer_reset", resets), ("peer_closed", 9), ("malformed", 0)]),
        dropped: BTreeMap::new(),
    }
}

fn shown(state: &ServerState, width: u16, height: u16) -> String {
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    draw_server(state, area, &mut buffer);
    let cells: Vec<&str> = buffer.content().iter().map(|cell| cell.symbol()).collect();
    let rows = cells.chunks(usize::from(width)).map(|row| row.concat().trim_end().to_owned());
    rows.collect::<Vec<_>>().join("\n")
}

#[test]
fn rates_are_of_the_time_between_two_readings() {
    let mut state = ServerState::new("here".into());
    state.see(reading(1_000, 100, 4));
    assert_eq!((state.rate("packets_received_total"), state.packets.len()), (0.0, 0));
    state.see(reading(3_000, 700, 4));
    assert_eq!(state.rate("packets_received_total"), 300.0);
    assert_eq!(state.packets, [[300.0, 0.0]]);
    let names = |state: &ServerState| {
        let reasons = state.reasons(|reading| &reading.closed);
        reasons.into_iter().map(|reason| (reason.name, reason.all, reason.rate)).collect::<Vec<_>>()
    };
    let frequent = [("peer_closed".to_owned(), 9, 0.0), ("peer_reset".to_owned(), 4, 0.0)];
    assert_eq!(names(&state), frequent, "the most frequent first, and none that never was");
    state.see(reading(4_000, 700, 6));
    assert_eq!(names(&state)[0], ("peer_reset".to_owned(), 6, 2.0), "what happens now is first");
    let line = state.line();
    for part in
        ["ready", "connections    12,345", "devices         7", "ends peer_reset 2/s", "  leads, 1"]
    {
        assert!(line.contains(part), "{part}: {line}");
    }
}

#[test]
fn a_server_that_was_started_again_has_no_rate_below_zero() {
    let mut state = ServerState::new("here".into());
    state.see(reading(1_000, 500, 4));
    state.see(reading(2_000, 20, 0));
    assert_eq!((state.rate("packets_received_total"), state.packets.len()), (0.0, 0));
    state.see(reading(3_000, 30, 0));
    assert_eq!(state.rate("packets_received_total"), 10.0);
}

#[test]
fn rates_are_kept_for_two_minutes() {
    let mut state = ServerState::new("here".into());
    for second in 0..500 {
        state.see(reading(second * 1_000, second, 0));
    }
    assert_eq!(state.packets.len(), RATES_MAX);
}

#[test]
fn the_screen_shows_who_is_there_what_moves_and_why_it_ended() {
    let mut state = ServerState::new("http://here".into());
    state.see(reading(1_000, 0, 4));
    state.see(reading(2_000, 1_500, 6));
    let text = shown(&state, 110, 36);
    for part in [
        "holdline 1.2.3 at http://here  ready  leads, 1 of 1 followers",
        "memory calm",
        "connections       12,345",
        "packets in        1.5k/s",
        "6  peer_reset  +2/s",
        "9  peer_closed",
        "none",
        "q end",
    ] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    state.miss("connection refused\nand a hint");
    assert!(shown(&state, 110, 36).contains("no answer: connection refused"));
    assert_eq!(state.line(), "no answer: connection refused");
}

#[test]
fn any_screen_will_do() {
    let mut state = ServerState::new("http://here".into());
    for at in 1..50 {
        state.see(reading(at * 1_000, at * at, at));
    }
    for width in [0, 1, 2, 25, 26, 60, 400] {
        for height in [0, 1, 2, 3, 5, 12, 29, 30, 100] {
            let text = shown(&state, width.max(1), height.max(1));
            assert!(width < 5 || text.ends_with("q end"), "{width} x {height}:\n{text}");
        }
    }
}
