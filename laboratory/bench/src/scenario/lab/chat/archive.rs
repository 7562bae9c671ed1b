//! Wildfire's W1 with its messages in MariaDB, which is killed half-way and comes back.
//!
//! The server's log acknowledges; a table gets every message behind that. When half of the messages
//! are acknowledged the database is killed, stays away for a while and is started again. When all
//! is sent and audited, what still waits for the table drains: then its rows must be the messages
//! that were acknowledged, each once. CPU is that of the server with its log from the first send
//! until it is at rest, beside the database's own over everything.

use super::super::talk::{self, Talked};
use super::mariadb::MariaDb;
use crate::api::Api;
use crate::clock;
use crate::holdline::{Holdline, Setup};
use crate::results::Outcome;
use crate::scenario::{SERVER_CORE, Scale};
use serde_json::json;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Senders, receivers and rounds of W1: a fifth of its ten million messages.
const SENDERS: u32 = 200;
const RECEIVERS: u32 = 1_000;
const LOOPS: u32 = 10;
/// Messages without an answer that a sender has.
const WINDOW: u32 = 64;
/// For so long there is no database.
const AWAY: Duration = Duration::from_secs(5);
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(50);
/// The longest wait until the table has everything.
const PATIENCE: Duration = Duration::from_secs(900);
/// Rules whose end depends on the machine: they are reported with the figures. Behind its answers
/// the server goes on for the table, so that it may be at work when it is looked at.
const OF_THE_MACHINE: [&str; 3] =
    ["cpu_limited == 1", "target.process.cpu.last < 0.1", "messages.tail_ms <= 1000"];

/// Runs the scenario.
pub fn w1_mariadb(scale: Scale) -> io::Result<Outcome> {
    let mut database = MariaDb::start()?;
    let chat = format!("archive = \"{}\"\n", database.url());
    let core = Some(SERVER_CORE);
    let server = Setup { shards: 1, core, chat, ..Setup::default() }.start()?;
    let receivers = scale.of(RECEIVERS);
    let messages = u64::from(SENDERS) * u64::from(receivers) * u64::from(LOOPS);
    let sets = vec![
        format!("ReceiveUserCount={receivers}"),
        format!("Loop={LOOPS}"),
        format!("Window={WINDOW}"),
    ];
    let mut outcome = Outcome::new(json!({
        "plan": "im-w1", "parameters": sets, "messages": messages, "server": server.plan(),
        "database": database.version()?, "killed_when_acknowledged": messages / 2,
        "away_s": AWAY.as_secs(),
        "cores": "the server on one, holdline load on the other, the database on both",
    }));
    let talked = while_killed(&server, &mut database, messages, &sets)?;
    let drained_at = clock::now();
    drain(&server.api)?;
    let drained_s = clock::since(drained_at).as_secs_f64();
    tell(&talked, &database, &mut outcome)?;
    let readings = &server.api.ask("overview")?["readings"];
    let of = |name: &str| readings[name].as_f64().unwrap_or(f64::NAN);
    outcome.figure("from the audit's end until the table had all", drained_s, "s");
    outcome.figure("calls to the database that failed", of("archive_faults_total"), "calls");
    outcome.detail("lost of the archive", json!(of("archive_lost_total")));
    Ok(outcome)
}

/// Runs the plan, and kills the database when half of the messages are acknowledged.
fn while_killed(
    server: &Holdline,
    database: &mut MariaDb,
    messages: u64,
    sets: &[String],
) -> io::Result<Talked> {
    let over = AtomicBool::new(false);
    let api = server.api.clone();
    std::thread::scope(|scope| {
        let kill = || -> io::Result<bool> {
            while api.count("chat_sent_total")? < messages / 2 {
                if over.load(Ordering::Relaxed) {
                    return Ok(false);
                }
                std::thread::sleep(LOOK);
            }
            database.kill()?;
            std::thread::sleep(AWAY);
            database.come_back().map(|()| true)
        };
        let thread = std::thread::Builder::new().name("killer".into());
        let killer = thread.spawn_scoped(scope, kill)?;
        let talked = talk::known(server, "im-w1", sets);
        over.store(true, Ordering::Relaxed);
        let killed = killer.join().map_err(|_| io::Error::other("the killer failed"))??;
        match killed {
            true => talked,
            false => Err(io::Error::other("the database was never killed")),
        }
    })
}

/// Waits until the table has all that waits for it.
fn drain(api: &Api) -> io::Result<()> {
    let began = clock::now();
    loop {
        let readings = &api.ask("overview")?["readings"];
        if readings["archive_waiting"].as_f64() == Some(0.0) {
            return Ok(());
        }
        if clock::since(began) > PATIENCE {
            return Err(io::Error::other(format!("the table lacks messages: {readings}")));
        }
        std::thread::sleep(LOOK);
    }
}

/// The figures; an error unless the table has what was acknowledged, each once.
fn tell(talked: &Talked, database: &MariaDb, outcome: &mut Outcome) -> io::Result<()> {
    let of_the_machine = talked.held_but(&OF_THE_MACHINE)?;
    let send = talked.stage("send")?;
    let cpu_s = talked.cpu_s("send", "quiet")?;
    let taken = send.counts.figure("messages.taken");
    let rows = database.number("SELECT COUNT(*) FROM holdline.messages")?;
    let distinct =
        "SELECT COUNT(*) FROM (SELECT DISTINCT conversation, id FROM holdline.messages) t";
    let distinct = database.number(distinct)?;
    if (rows as f64, distinct) != (taken, rows) {
        let why = format!("{taken} acknowledged, {rows} rows, {distinct} of them different");
        return Err(io::Error::other(why));
    }
    outcome.figure("acknowledged", taken, "messages");
    outcome.figure("rows there", rows as f64, "rows");
    outcome.figure("sends", taken / talked.sending_s(send), "a second");
    outcome.figure("CPU", 1e6 * cpu_s / taken, "µs a send");
    outcome.figure("MariaDB's CPU", 1e6 * database.cpu_s()? / taken, "µs a row");
    for (name, us) in Talked::latencies(send) {
        outcome.figure(&name, us, "µs");
    }
    outcome.detail("rules of the machine", of_the_machine);
    let notes = talked.run.notes.iter().map(|note| note.text.clone());
    outcome.detail("audit", notes.collect::<Vec<_>>());
    Ok(())
}
