//! A state as one line of text, for those who have no terminal, and what is news in it.
//!
//! Lines go to logs: no colours, no cursor, one line a call, the same columns each time.

use crate::state::RunState;
use crate::words;

/// Columns of the bar.
const BAR: usize = 10;

/// How the run stands, in a line.
pub fn line(state: &RunState) -> String {
    let last = state.last();
    let stage = state.stages.get(state.stage).map_or("", String::as_str);
    let bar = state.done().map_or(String::new(), |done| {
        let full = (done * BAR as f64) as usize;
        format!("[{}{}] {:>5}", "#".repeat(full), ".".repeat(BAR - full), words::percent(done))
    });
    let mut line = format!(
        "{} {}/{} {stage} {:<9} {bar:<18}  online {}/{}  +{}/s  errors {} (+{}/s)  sent {}/s  \
         received {}/s",
        words::clock(state.at_ms),
        state.stage + 1,
        state.stages.len(),
        state.part,
        words::count(state.online),
        words::count(state.clients as f64),
        words::short(last.connects),
        words::count(state.errors),
        words::short(last.errors),
        words::short(last.sent),
        words::short(last.received),
    );
    for now in state.timings.iter().take(2) {
        let (p50, p99) = (words::micros(now.p50), words::micros(now.p99));
        line += &format!("  {} p50 {p50} p99 {p99}", now.name);
    }
    if !state.saturation.is_empty() {
        line += "  TESTER SATURATED";
    }
    line
}

/// The last `count` notes, a line each.
pub fn notes(state: &RunState, count: usize) -> Vec<String> {
    let skipped = state.notes.len().saturating_sub(count);
    let notes = state.notes.iter().skip(skipped);
    notes.map(|note| format!("{} note: {}", words::clock(note.at_ms), note.text)).collect()
}
