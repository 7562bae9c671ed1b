//! A MariaDB beside the server: Debian's `mariadbd` on a free port of loopback, with a database of
//! its own in a temporary folder; killed and started again on request.
//!
//! The benchmark asks MariaDB by its own client over its socket file. This module does not know the
//! tables in it. Invariant: the process ends with its [`MariaDb`], and leaves nothing behind.

use crate::child::Child;
use crate::clock;
use crate::holdline::free_ports;
use crate::swarm::peers::installed;
use rustix::process::getuid;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Time within which it must answer after a start.
const PATIENCE: Duration = Duration::from_secs(60);
/// User of the server, and its database; no password, on this one loopback.
const WHO: &str = "holdline";
/// Ticks of `/proc/PID/stat` a second, as Linux tells them to programs.
const TICKS_A_SECOND: f64 = 100.0;

/// A running one.
pub struct MariaDb {
    child: Child,
    folder: tempfile::TempDir,
    address: SocketAddr,
    /// Processor seconds of those that ended before.
    spent_s: f64,
}

impl MariaDb {
    /// Makes an empty one and starts it.
    pub fn start() -> io::Result<MariaDb> {
        let folder = tempfile::tempdir()?;
        let mut install = Command::new(program("mariadb-install-db")?);
        install.args(["--no-defaults", "--skip-test-db"]);
        install.args(["--auth-root-authentication-method=normal"]).args(as_root());
        install.arg(format!("--datadir={}", folder.path().join("data").display()));
        let made = install.env("TMPDIR", folder.path()).output()?;
        if !made.status.success() {
            let why = String::from_utf8_lossy(&made.stderr).into_owned();
            return Err(io::Error::other(format!("mariadb-install-db: {why}")));
        }
        let [address] = free_ports()?;
        let child = run(folder.path(), address)?;
        let database = MariaDb { child, folder, address, spent_s: 0.0 };
        database.wait()?;
        database.ask(&format!(
            "CREATE DATABASE {WHO}; CREATE USER '{WHO}'@'127.0.0.1'; \
             GRANT ALL ON {WHO}.* TO '{WHO}'@'127.0.0.1'"
        ))?;
        Ok(database)
    }

    /// URL of the database, for a server's configuration.
    pub fn url(&self) -> String {
        format!("mysql://{WHO}@{}/{WHO}", self.address)
    }

    /// Version of the database.
    pub fn version(&self) -> io::Result<String> {
        self.ask("SELECT VERSION()")
    }

    /// Kills it.
    pub fn kill(&mut self) -> io::Result<()> {
        self.spent_s += spent_s(self.child.pid())?;
        self.child.kill()
    }

    /// Starts it again, over what it has on its disk.
    pub fn come_back(&mut self) -> io::Result<()> {
        self.child = run(self.folder.path(), self.address)?;
        self.wait()
    }

    /// Processor seconds of all its threads since it was made, those of killed processes too.
    pub fn cpu_s(&self) -> io::Result<f64> {
        Ok(self.spent_s + spent_s(self.child.pid())?)
    }

    /// The text that it answers.
    pub fn ask(&self, text: &str) -> io::Result<String> {
        let mut client = Command::new(program("mariadb")?);
        client.args(["--no-defaults", "--user=root", "--batch", "--skip-column-names"]);
        client.arg(format!("--socket={}", socket(self.folder.path()).display()));
        client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut client = client.spawn()?;
        client.stdin.take().expect("it was asked for").write_all(text.as_bytes())?;
        let told = client.wait_with_output()?;
        match told.status.success() {
            true => Ok(String::from_utf8_lossy(&told.stdout).trim().to_owned()),
            false => Err(io::Error::other(String::from_utf8_lossy(&told.stderr).into_owned())),
        }
    }

    /// The number that it answers.
    pub fn number(&self, text: &str) -> io::Result<u64> {
        self.ask(text)?.parse().map_err(io::Error::other)
    }

    fn wait(&self) -> io::Result<()> {
        let began = clock::now();
        loop {
            match self.ask("SELECT 1") {
                Ok(_) => return Ok(()),
                Err(why) if clock::since(began) > PATIENCE => return Err(why),
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }
}

fn run(folder: &Path, address: SocketAddr) -> io::Result<Child> {
    let mut command = Command::new(program("mariadbd")?);
    let path = |name: &str| folder.join(name).display().to_string();
    command.arg("--no-defaults").arg(format!("--datadir={}", path("data")));
    command.arg(format!("--socket={}", socket(folder).display()));
    command.arg(format!("--port={}", address.port())).arg("--bind-address=127.0.0.1");
    command.args(["--skip-name-resolve", "--performance-schema=OFF"]);
    command.arg("--innodb-buffer-pool-size=256M").arg(format!("--tmpdir={}", folder.display()));
    command.arg(format!("--pid-file={}", path("pid"))).args(as_root());
    command.stderr(std::fs::File::create(folder.join("log"))?);
    Child::start_quiet(&mut command)
}

fn socket(folder: &Path) -> PathBuf {
    folder.join("socket")
}

/// Option for root: without it `mariadbd` refuses to run as root.
fn as_root() -> Option<&'static str> {
    getuid().is_root().then_some("--user=root")
}

/// A program of it.
fn program(name: &str) -> io::Result<PathBuf> {
    let remedy = "apt-get install mariadb-server-core mariadb-client-core";
    let missing = || io::Error::other(format!("{name} is not installed: {remedy}"));
    installed(name).ok_or_else(missing)
}

/// User and system time of a process, threads that ended included.
fn spent_s(pid: u32) -> io::Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    spent(&text).ok_or_else(|| io::Error::other(format!("/proc/{pid}/stat says {text:?}")))
}

/// The 14th and 15th field; the second is a name in parentheses that may hold anything.
fn spent(text: &str) -> Option<f64> {
    let rest = text.rsplit_once(") ")?.1;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some((ticks()? + ticks()?) as f64 / TICKS_A_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_found_behind_any_name() {
        let text = "7 (a b) c) S 1 1 1 0 -1 4194304 1 0 0 0 150 50 3 4 20 0 1";
        assert_eq!(spent(text), Some(2.0));
        assert_eq!(spent("7 (a) S 1"), None);
    }
}
