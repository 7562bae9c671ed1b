//! 200,003 accounts by one command: embedded, and into MariaDB; and files of accounts for others.
//!
//! The file is one that another server's tools would make: a line an account, with its keys for
//! SCRAM-SHA-256. `holdline user import` brings it to a fresh server, and once more. Timed is the
//! command from its start to its end, which is when every account is on stable storage.

use super::mariadb::MariaDb;
use crate::clock;
use crate::holdline::{Holdline, Setup};
use crate::measure::cpu;
use crate::results::Outcome;
use crate::scenario::{SERVER_CORE, Scale};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use guard::scram::{ScramHash, ScramKeys};
use serde_json::json;
use std::fmt::Write as _;
use std::io;
use std::process::Stdio;
use std::time::Duration;

/// Accounts, as many as Coolpy7's file of users has.
pub const ACCOUNTS: u32 = 200_003;
/// Rounds of the keys, as other servers make them.
const ROUNDS: u32 = 4_096;
/// Of so many accounts one is looked at afterwards.
const LOOKED_AT: usize = 9_973;
/// The longest wait for the server's first look at its database.
const PATIENCE: Duration = Duration::from_secs(30);

/// Into the server's own logs.
pub fn embedded(scale: Scale) -> io::Result<Outcome> {
    let server = setup().start()?;
    let mut outcome = Outcome::new(json!({
        "accounts": scale.of(ACCOUNTS), "line": line(0), "server": server.plan(),
        "timed": "holdline user import, from its start to its end",
    }));
    import(&server, scale, "embedded", &mut outcome)?;
    Ok(outcome)
}

/// Into MariaDB on the same machine.
pub fn in_mariadb(scale: Scale) -> io::Result<Outcome> {
    let database = MariaDb::start()?;
    let more = format!("[accounts]\nstore = \"{}\"\n", database.url());
    let server = Setup { more, ..setup() }.start()?;
    let mut outcome = Outcome::new(json!({
        "accounts": scale.of(ACCOUNTS), "line": line(0), "server": server.plan(),
        "database": database.version()?,
        "timed": "holdline user import, from its start to its end",
    }));
    follows(&server)?;
    let before_s = database.cpu_s()?;
    import(&server, scale, "MariaDB", &mut outcome)?;
    let rows = database.number("SELECT COUNT(*) FROM holdline.accounts")?;
    if rows != u64::from(scale.of(ACCOUNTS)) {
        return Err(io::Error::other(format!("{rows} rows of {}", scale.of(ACCOUNTS))));
    }
    outcome.figure("rows there", rows as f64, "rows");
    outcome.figure("MariaDB's CPU, both times", database.cpu_s()? - before_s, "s");
    Ok(outcome)
}

fn setup() -> Setup {
    Setup { shards: 1, core: Some(SERVER_CORE), ..Setup::default() }
}

/// Waits until the server follows its database.
pub fn follows(server: &Holdline) -> io::Result<()> {
    let began = clock::now();
    loop {
        let readings = &server.api.ask("overview")?["readings"];
        let is_one = |name: &str| readings[name].as_f64() == Some(1.0);
        if is_one("accounts_database_up") && is_one("accounts_database_whole") {
            return Ok(());
        }
        if clock::since(began) > PATIENCE {
            return Err(io::Error::other("the server does not follow its database"));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Brings all accounts twice, and looks at some of them.
fn import(server: &Holdline, scale: Scale, to: &str, outcome: &mut Outcome) -> io::Result<()> {
    let accounts = scale.of(ACCOUNTS);
    let mut text = String::new();
    (0..accounts).for_each(|number| text += &line(number));
    let (first_s, cpu_s) = bring(server, &text)?;
    outcome.figure(&format!("imported, {to}"), first_s, "s");
    outcome.figure("the server's CPU", 1e6 * cpu_s / f64::from(accounts), "µs an account");
    outcome.figure("again", bring(server, &text)?.0, "s");
    for number in (0..accounts).step_by(LOOKED_AT).chain([accounts - 1]) {
        let user = server.api.ask(&format!("users/{}", name(number)))?;
        if user["name"] != name(number).as_str() {
            return Err(io::Error::other(format!("{} is {user}", name(number))));
        }
    }
    outcome.detail("bytes of the file", json!(text.len()));
    Ok(())
}

/// Brings accounts, a line each, to a server: seconds of the command, and of the server's CPU
/// meanwhile.
fn bring(server: &Holdline, lines: &str) -> io::Result<(f64, f64)> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("accounts");
    std::fs::write(&file, lines)?;
    let mut command = server.command(&["user", "import"])?;
    command.arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let (began, before) = (clock::now(), cpu::used(server.pid())?);
    let told = command.output()?;
    let (took, used) = (clock::since(began), cpu::used(server.pid())? - before);
    match told.status.success() {
        true => Ok((took.as_secs_f64(), used.as_secs_f64())),
        false => Err(io::Error::other(String::from_utf8_lossy(&told.stderr).into_owned())),
    }
}

fn name(number: u32) -> String {
    format!("user-{number:06}")
}

/// The password of all whom [`bring_people`] brings.
pub const PASSWORD: &str = "secret";

/// The names of as many accounts, from `user-0` on.
pub fn users() -> impl Iterator<Item = String> {
    (0..ACCOUNTS).map(|number| format!("user-{number}"))
}

/// Brings accounts that can log in: the seconds that it took.
pub fn bring_people(server: &Holdline, names: impl Iterator<Item = String>) -> io::Result<f64> {
    bring(server, &of_one_password(names, PASSWORD)).map(|(took_s, _)| took_s)
}

/// Lines of accounts that all have this password, and a salt in common: it is derived once.
fn of_one_password(names: impl Iterator<Item = String>, password: &str) -> String {
    let keys =
        ScramKeys::derive(ScramHash::Sha256, password.as_bytes(), b"salt of them all", ROUNDS);
    let keys = keys.text();
    names.map(|name| format!("{name}:$scram-sha-256${keys}\n")).collect()
}

/// An account's line; its keys are numbers where others have secrets.
fn line(number: u32) -> String {
    let mut line = format!("{}:$scram-sha-256${ROUNDS}", name(number));
    for (kind, bytes) in [(1u8, 16), (2, 32), (3, 32)] {
        let mut key = vec![kind; bytes];
        key[..4].copy_from_slice(&number.to_be_bytes());
        let _ = write!(line, "${}", STANDARD.encode(key)); // a text takes everything
    }
    line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_a_line_with_keys_of_its_own() {
        let parts = |number| line(number).matches('$').count();
        assert_eq!((parts(0), line(1).lines().count()), (5, 1));
        assert_ne!(line(1).split('$').nth(4), line(2).split('$').nth(4));
    }
}
