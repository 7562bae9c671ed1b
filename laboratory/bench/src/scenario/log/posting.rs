//! Posting lists: messages for rosters of 100 and of 1,000 timelines, a million timelines in all.
//!
//! The CPU is that of all threads but the producer's from the first post until the log is closed,
//! its last checkpoint and what state does later with it: nothing is left for others to pay. Making
//! the rosters is not in it. Everything is read back.

use super::lane::Lane;
use super::meter::{self, Others};
use super::rival::Rival;
use super::traffic::{TIMELINES, Traffic, timelines};
use super::{disk, drive, ours};
use crate::clock;
use crate::results::Outcome;
use crate::scenario::Scale;
use model::ports::log::{Call, Ticket, Write};
use serde_json::json;
use std::io;
use std::path::Path;

/// Timelines of a roster, and posts under way.
const FANS: [(u32, usize); 2] = [(100, 160), (1_000, 16)];
/// Rows that posts make.
const ROWS: u32 = 12_000_000;
/// Rosters that are made at once.
const ROSTERS_TOGETHER: usize = 64;

/// Posts to all, until everything is at rest.
pub fn run(scale: Scale) -> io::Result<Outcome> {
    let mut outcome = Outcome::new(json!({
        "timelines": scale.of(TIMELINES), "members_and_window": FANS, "rows": scale.of(ROWS),
        "body_bytes": super::traffic::BODY_BYTES,
        "cpu": "all threads but the producer's, until the log is closed and at rest",
        "ours": ours::plan(),
    }));
    for (fan, window) in FANS {
        measure(scale, (fan, window), &mut outcome)?;
    }
    Ok(outcome)
}

fn measure(scale: Scale, (fan, window): (u32, usize), outcome: &mut Outcome) -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let mut traffic =
        Traffic::new(u64::from(fan), fan, &timelines(scale.of(TIMELINES) / fan * fan));
    let log = ours::Threaded::open(folder.path())?;
    make_rosters(&log, &traffic)?;
    meter::rest();
    let before = disk::bytes(&folder.path().join("log-00"))?;
    let (began, others) = (clock::now(), Others::begin());
    let posts = u64::from(scale.of(ROWS) / fan);
    post(&log, &mut traffic, (window, posts))?;
    let wall = clock::since(began);
    let written = disk::bytes(&folder.path().join("log-00"))?.saturating_sub(before);
    Box::new(log).close()?;
    meter::rest();
    let cpu = others.used();
    let rows = posts * u64::from(fan);
    let ns = cpu.as_nanos() as f64 / rows as f64;
    outcome.figure(&format!("to {fan}: CPU"), ns, "ns a row");
    outcome.figure(&format!("to {fan}: rows a second a core"), 1e9 / ns, "a second");
    let rate = rows as f64 / wall.as_secs_f64();
    outcome.figure(&format!("to {fan}: rows acknowledged"), rate, "a second");
    let told = json!({
        "posts": posts, "rows": rows, "rows_read_back": read_back(folder.path(), &traffic)?,
        "bytes_of_log_and_state": written, "cpu_ms": cpu.as_millis() as u64,
    });
    outcome.detail(&format!("to {fan}"), told);
    Ok(())
}

fn make_rosters(log: &ours::Threaded, traffic: &Traffic) -> io::Result<()> {
    let changes: Vec<_> = traffic.rosters().collect();
    let mut completions = Vec::new();
    for some in changes.chunks(ROSTERS_TOGETHER) {
        let call = |change: &_| (0, Call::Write(Write::Roster(Clone::clone(change))));
        log.call(some.iter().map(call).collect())?;
        let mut done = 0;
        while done < some.len() {
            log.mailbox().expect(&mut completions)?;
            done += completions.len();
            if let Some((_, Err(error))) = completions.iter().find(|(_, done)| done.is_err()) {
                return Err(io::Error::other(format!("a roster was not made: {error:?}")));
            }
        }
    }
    Ok(())
}

/// Makes so many posts, of which `window` are under way at once.
fn post(
    log: &ours::Threaded,
    traffic: &mut Traffic,
    (window, posts): (usize, u64),
) -> io::Result<()> {
    let (mut done, mut completions) = (0, Vec::new());
    while done < posts {
        let room = (window as u64 - (traffic.messages() - done)).min(posts - traffic.messages());
        let next = |traffic: &mut Traffic| -> (Ticket, Call) {
            let post = traffic.post();
            (post.message.id, Call::Write(Write::Post(post)))
        };
        let burst: Vec<_> = (0..room).map(|_| next(traffic)).collect();
        if !burst.is_empty() {
            log.call(burst)?;
        }
        log.mailbox().expect(&mut completions)?;
        for completion in &completions {
            done += 1;
            drive::acknowledged(completion, done)?;
        }
    }
    Ok(())
}

fn read_back(folder: &Path, traffic: &Traffic) -> io::Result<u64> {
    ours::behind_log(folder)?.audit(traffic)
}
