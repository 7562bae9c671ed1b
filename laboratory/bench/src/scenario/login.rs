//! Login: server CPU from accept to the answer, Holdline's beside a minimal program's.
//!
//! A hello of about 50 bytes, an answer of about 64, a record kept. Rounds of the two take turns;
//! closing is not measured. Each round brings devices that were never seen, which is the dearer
//! kind, and a second kind of round brings the same devices back.

use super::{CALLER_CORE, SERVER_CORE, Scale};
use crate::caller::orders::Remote;
use crate::caller::speech::Speech;
use crate::child::Child;
use crate::holdline::Setup;
use crate::measure::{cpu, slope};
use crate::results::Outcome;
use serde_json::json;
use std::io;
use std::time::Duration;

const LOGINS: u32 = 4_000;
const WINDOW: u32 = 200;

/// Runs the scenario.
pub fn run(scale: Scale) -> io::Result<Outcome> {
    let (logins, rounds) = (scale.of(LOGINS), if scale.quick { 3 } else { 9 });
    let mut floor = Child::again(&["floor", "login"], Some(SERVER_CORE))?;
    let login = floor.ready()?.parse().map_err(io::Error::other)?;
    let setup = Setup { shards: 1, core: Some(SERVER_CORE), ..Setup::default() };
    let holdline = setup.start()?;
    let mut outcome = Outcome::new(json!({
        "logins": logins, "window": WINDOW, "rounds": rounds,
        "cores": [SERVER_CORE, CALLER_CORE], "holdline": holdline.plan(),
    }));
    let miop =
        Speech::Miop { product: "demo".to_owned(), prefix: "login".to_owned(), reports: false };
    let mut minimal = Remote::start(login, &Speech::Hello, Some(CALLER_CORE))?;
    let mut devices = Remote::start(holdline.address, &miop, Some(CALLER_CORE))?;
    let (mut floors, mut news, mut known) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=rounds {
        let first = round * logins;
        let took = [
            measure(floor.pid(), &mut minimal, logins, first)?,
            measure(holdline.pid(), &mut devices, logins, first)?,
            measure(holdline.pid(), &mut devices, logins, first)?,
        ];
        if round > 0 {
            for (all, took) in [&mut floors, &mut news, &mut known].into_iter().zip(took) {
                all.push(took);
            }
        } // the first round warms up
    }
    let [least, new, again] = [&floors, &news, &known].map(|all| slope::median(all));
    outcome.figure("ratio", new / least, "times");
    outcome.figure("ratio of devices that come back", again / least, "times");
    outcome.figure("floor", least, "µs of CPU a login");
    outcome.figure("new device", new, "µs of CPU a login");
    outcome.figure("known device", again, "µs of CPU a login");
    outcome.detail("rounds", json!({ "floor": floors, "new": news, "known": known }));
    Ok(outcome)
}

/// CPU a login in microseconds. The lines are closed again, and the server left to notice.
fn measure(pid: u32, caller: &mut Remote, logins: u32, first: u32) -> io::Result<f64> {
    let before = cpu::used(pid)?;
    caller.open(logins, WINDOW, first)?;
    let used = cpu::used(pid)? - before;
    caller.close()?;
    std::thread::sleep(Duration::from_millis(500));
    Ok(used.as_nanos() as f64 / 1e3 / f64::from(logins))
}
