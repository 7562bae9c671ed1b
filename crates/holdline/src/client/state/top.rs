//! `holdline top`: a running server, live, on a terminal; a line a second where there is none.
//!
//! The command asks the API at its interval, and shows what [`view`] makes of the answers. A server
//! that goes away is waited for: its place and its last figures stay.

use super::status::{ask, reading};
use crate::client::Server;
use clap::Args;
use server::clock::{began as now, since};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use view::{KeyPress, Press, Screen, ServerState};

/// Time for an answer. Keys wait as long.
const PATIENCE: Duration = Duration::from_secs(2);

/// Live figures of a running server: who is there, what moves, what waits, and why connections
/// ended. `q` ends it
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    server: Server,
    /// Time between two refreshes: 1s, 5m; a plain number is in seconds
    #[arg(
        long,
        value_name = "TIME",
        value_parser = crate::duration::some_seconds,
        default_value = "1s"
    )]
    interval: u32,
    /// End after this many refreshes; exit code 2 if the last one got no answer
    #[arg(long)]
    count: Option<u64>,
    /// Print lines, even on a terminal
    #[arg(long)]
    plain: bool,
}

/// Shows it until it is told to end.
pub fn top(arguments: &Arguments) -> ExitCode {
    let Arguments { server, plain, .. } = arguments;
    let mut state = ServerState::new(server.place());
    match ask(server, PATIENCE) {
        Ok((readiness, status)) => state.see(reading(0, &readiness, &status)),
        // Who cannot be asked at all is told so, and not waited for.
        Err(why) => {
            note!("{why}");
            return ExitCode::from(2);
        }
    }
    let screen = if *plain || !Screen::possible() { None } else { Screen::open().ok() };
    match screen {
        Some(screen) => live(arguments, &mut state, screen),
        None => lines(arguments, &mut state),
    }
    ExitCode::from(if state.is_missed() { 2 } else { 0 })
}

impl Arguments {
    /// Asks, and has the state know what came of it.
    fn look(&self, state: &mut ServerState, began: Instant) {
        let at_ms = since(began).as_millis() as u64;
        match ask(&self.server, PATIENCE) {
            Ok((readiness, status)) => state.see(reading(at_ms, &readiness, &status)),
            Err(why) => state.miss(&why),
        }
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(self.interval.into())
    }

    /// Whether so many looks were enough.
    fn is_enough(&self, looks: u64) -> bool {
        self.count.is_some_and(|count| looks >= count)
    }
}

fn live(arguments: &Arguments, state: &mut ServerState, mut screen: Screen) {
    let (began, mut looks) = (now(), 1);
    let mut due = arguments.interval();
    loop {
        if since(began) >= due {
            if arguments.is_enough(looks) {
                return;
            }
            arguments.look(state, began);
            (looks, due) = (looks + 1, since(began) + arguments.interval());
        }
        if screen.draw_server(state).is_err() {
            return;
        }
        match screen.press(due.saturating_sub(since(began))) {
            Ok(Some(Press::Key(KeyPress::Char('q') | KeyPress::Escape))) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

fn lines(arguments: &Arguments, state: &mut ServerState) {
    let (began, mut looks) = (now(), 1);
    out!("{}", state.line());
    while !arguments.is_enough(looks) && !crate::out::is_closed() {
        std::thread::sleep(arguments.interval());
        arguments.look(state, began);
        looks += 1;
        out!("{}", state.line());
    }
}
