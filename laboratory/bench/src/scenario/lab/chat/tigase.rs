//! Tigase's published test at half its users, over XMPP: 15,000 sessions of 200,003 accounts, and
//! waves from 500 to 10,000 messages a second; the accounts embedded, and in MariaDB.
//!
//! The plan is the one that comes along (`holdline load run tigase`). Tigase's report has a mean of
//! 4,426 packets a second; the waves have 5,250 messages, each of which is a packet to the server
//! and one from it. The server's only shard has one core and the tester the other; threads of the
//! log are where there is room. A message is on stable storage before it is acknowledged. Memory is
//! the most that the server's process had resident while the waves went on, its accounts and its
//! log included, with the allocator as it ships.

use super::super::talk::{self, Talked};
use super::accounts;
use super::mariadb::MariaDb;
use crate::holdline::Setup;
use crate::results::Outcome;
use crate::scenario::Scale;
use lab::timing::Timing;
use serde_json::json;
use std::io;

/// Sessions.
const USERS: u32 = 15_000;
/// Messages a second, at least and at most.
const LOW: u32 = 500;
const HIGH: u32 = 10_000;
/// Time of the waves, minutes: three of them, and as long as Tigase's went on.
const MINUTES: u32 = 6;
const MINUTES_OF_THE_REPORT: u32 = 144;
/// Of the log at most then, GiB: 45 million messages of some 700 bytes each are 32, twice what a
/// server keeps by default.
const LOG_GIB_OF_THE_REPORT: u64 = 48;

/// The accounts in the server's own logs.
pub fn embedded(scale: Scale) -> io::Result<Outcome> {
    run(scale, scale.of(60 * MINUTES), None, String::new())
}

/// The accounts in MariaDB on the same machine.
pub fn in_mariadb(scale: Scale) -> io::Result<Outcome> {
    let database = MariaDb::start()?;
    let accounts = format!("[accounts]\nstore = \"{}\"\n", database.url());
    run(scale, scale.of(60 * MINUTES), Some(database), accounts)
}

/// For as long as the report's test.
pub fn whole() -> io::Result<Outcome> {
    let store = format!("[store]\nlog_bytes_max = {}\n", LOG_GIB_OF_THE_REPORT << 30);
    run(Scale { quick: false }, 60 * MINUTES_OF_THE_REPORT, None, store)
}

/// Waves for `hold_s` seconds against a server with `more` in its configuration.
fn run(scale: Scale, hold_s: u32, database: Option<MariaDb>, more: String) -> io::Result<Outcome> {
    let setup = Setup { shards: 1, more, ..Setup::default() };
    let server = setup.start()?;
    server.keep_shard(0)?;
    let [users, low, high] = [USERS, LOW, HIGH].map(|all| scale.of(all));
    let sets = vec![
        format!("Users={users}"),
        format!("Low={low}"),
        format!("High={high}"),
        format!("Hold={hold_s}s"),
        format!("Password={}", accounts::PASSWORD),
    ];
    let mut outcome = Outcome::new(json!({
        "plan": "tigase", "parameters": sets, "accounts": accounts::ACCOUNTS,
        "server": server.plan(),
        "database": database.as_ref().map(MariaDb::version).transpose()?,
        "cores": "the shard on one, holdline load on the other, the log on either",
    }));
    if database.is_some() {
        accounts::follows(&server)?;
    }
    let imported_s = accounts::bring_people(&server, accounts::users())?;
    let before_s = database.as_ref().map(MariaDb::cpu_s).transpose()?;
    let talked = talk::over(&server, "xmpp", "tigase", &sets)?;
    if let Err(why) = tell(&talked, f64::from(hold_s), &mut outcome) {
        return Err(talked.kept(&why)); // it may have taken hours
    }
    outcome.detail("seconds of the import", imported_s);
    if let Some((database, before_s)) = database.zip(before_s) {
        outcome.figure("MariaDB's CPU", database.cpu_s()? - before_s, "s");
    }
    Ok(outcome)
}

/// The figures. Those that depend on the machine are among them; all other rules must have held.
fn tell(talked: &Talked, hold_s: f64, outcome: &mut Outcome) -> io::Result<()> {
    let rules = ["delivery.mean <= 25ms", "delivery.p99 <= 100ms"];
    let of_the_machine = talked.held_but(&rules)?;
    let waves = talked.stage("waves")?;
    let (taken, received) =
        (waves.counts.figure("messages.taken"), waves.counts.figure("messages.received"));
    let delivery = &waves.counts.timings.of(Timing::Delivery).corrected;
    outcome.figure("delivered, mean", delivery.mean(), "µs");
    for (name, us) in Talked::latencies(waves) {
        outcome.figure(&name, us, "µs");
    }
    let (connect_s, cpu_s) = (talked.cpu_s("connect", "connect")?, talked.cpu_s("waves", "waves")?);
    let users = talked.stage("connect")?.counts.online as f64;
    outcome.figure("messages", taken / hold_s, "a second");
    outcome.figure("CPU", 1e6 * cpu_s / taken, "µs a message");
    outcome.figure("the server, of one core", 100.0 * cpu_s / hold_s, "%");
    outcome.figure("a login", 1e6 * connect_s / users, "µs of CPU");
    let memory = talked.most("waves", "target.process.rss")?;
    outcome.figure("memory, at most", memory / (1 << 20) as f64, "MiB");
    outcome.detail("messages", json!({ "taken": taken, "received": received, "cpu_s": cpu_s }));
    outcome.detail("rules of the machine", of_the_machine);
    outcome.detail("the tester of itself", talked.run.saturation.clone());
    Ok(())
}
