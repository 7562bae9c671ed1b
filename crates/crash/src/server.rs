//! The server under test: one process on a data folder, on ports that the system chose.
//!
//! The harness starts and ends the server and knows it by its process id alone; dropping it ends
//! it. Its log goes to a file that grows over all its lives. This module does not know its
//! requests.

use crate::clock;
use crate::plan::{BODY_BYTES_MAX, PRODUCT, Plan};
use rustix::process::{Pid, Signal};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

/// Token of the API, for this one run on loopback.
pub const TOKEN: &str = "crash-harness-token-of-loopback";

/// A server that is not up after so long has not started.
const START_PATIENCE: Duration = Duration::from_secs(30);
/// A server that has not stopped so long after SIGTERM does not.
const STOP_PATIENCE_MS: u64 = 15_000;
/// Starts a program that dies with its parent, and becomes it (util-linux).
const SETPRIV: &str = "/usr/bin/setpriv";
/// Bytes of its log that are printed with a violation.
const LOG_TAIL_BYTES: usize = 4_000;

/// Where a server lives.
#[derive(Clone, Debug)]
pub struct Home {
    /// The binary.
    pub binary: PathBuf,
    /// Its data folder.
    pub data: PathBuf,
    config: PathBuf,
    log: PathBuf,
}

/// A running server.
pub struct Server {
    process: Child,
    /// Where devices come in.
    pub devices: SocketAddr,
    /// Where clients of MQTT come in.
    pub mqtt: SocketAddr,
    /// Its API.
    pub api: SocketAddr,
    /// From its start until it was up, microseconds.
    pub recovery_us: u64,
}

impl Home {
    /// A home in `folder` for the servers of `plan`, which tell `hook` of Reports.
    pub fn make(plan: &Plan, folder: &Path, hook: Option<SocketAddr>) -> io::Result<Home> {
        let home = Home {
            binary: plan.binary.clone(),
            data: folder.join("data"),
            config: folder.join("holdline.toml"),
            log: folder.join("log"),
        };
        std::fs::write(&home.config, config(plan, hook))?;
        Ok(home)
    }

    /// Starts a server and waits until it is up.
    pub fn start(&self) -> io::Result<Server> {
        let began = clock::now_us();
        let mut process = self.spawn()?;
        let output = process.stdout.take().expect("it was asked for");
        match welcome(output) {
            Ok([devices, mqtt, api]) => {
                let recovery_us = clock::now_us() - began;
                Ok(Server { process, devices, mqtt, api, recovery_us })
            }
            Err(error) => {
                let _ = process.kill(); // an error says that it has ended
                let _ = process.wait();
                Err(error)
            }
        }
    }

    /// Starts a server and kills it in the middle of that.
    pub fn stumble(&self, ms: u64) -> io::Result<()> {
        let mut process = self.spawn()?;
        clock::rest(ms);
        let _ = process.kill(); // an error says that it has ended
        process.wait().map(|_| ())
    }

    fn spawn(&self) -> io::Result<Child> {
        let log = std::fs::File::options().create(true).append(true).open(&self.log)?;
        // Where the system has it, no server outlives a harness that was killed itself.
        let mut command = match Path::new(SETPRIV).is_file() {
            true => {
                let mut command = Command::new(SETPRIV);
                command.args(["--pdeathsig", "KILL", "--"]).arg(&self.binary);
                command
            }
            false => Command::new(&self.binary),
        };
        command.arg("serve").arg("--config").arg(&self.config).arg("--data").arg(&self.data);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        // The server reads its environment as configuration: the file alone is meant.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("HOLDLINE_") {
                command.env_remove(name);
            }
        }
        command.spawn()
    }

    /// The end of the log.
    pub fn log_tail(&self) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let tail = &log[log.len().saturating_sub(LOG_TAIL_BYTES)..];
        String::from_utf8_lossy(tail).into_owned()
    }
}

impl Server {
    /// Whether it has ended although nobody told it to.
    pub fn has_died(&mut self) -> bool {
        !matches!(self.process.try_wait(), Ok(None))
    }

    /// SIGKILL, and its end.
    pub fn kill(&mut self) {
        let _ = self.process.kill(); // an error says that it has ended
        let _ = self.process.wait();
    }

    /// SIGTERM.
    pub fn ask_to_stop(&self) {
        if let Some(pid) = Pid::from_raw(self.process.id() as i32) {
            let _ = rustix::process::kill_process(pid, Signal::TERM); // an error: it has ended
        }
    }

    /// Waits for the end that was asked for: whether it came in time and with the code 0.
    pub fn stop(&mut self) -> bool {
        let until = clock::now_us() + STOP_PATIENCE_MS * 1_000;
        while clock::now_us() < until {
            if let Ok(Some(status)) = self.process.try_wait() {
                return status.success();
            }
            clock::rest(2);
        }
        self.kill();
        false
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Reads what the server prints until it is up, in a thread, for it may never come.
fn welcome(output: ChildStdout) -> io::Result<[SocketAddr; 3]> {
    let (lines, read) = sync_channel(64);
    std::thread::Builder::new().name("welcome".into()).spawn(move || {
        let mut output = BufReader::new(output);
        let mut line = String::new();
        while output.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
            // Nobody listens after the welcome; what is printed later is read and dropped.
            let _ = lines.try_send(std::mem::take(&mut line));
        }
    })?;
    let until = clock::now_us() + START_PATIENCE.as_micros() as u64;
    let (mut devices, mut mqtt, mut api) = (None, None, None);
    loop {
        let left = Duration::from_micros(until.saturating_sub(clock::now_us()));
        let line = match read.recv_timeout(left) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => return Err(io::Error::other("it did not get up")),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(io::Error::other("it ended at its start"));
            }
        };
        if line.starts_with("Stop with") {
            let all = devices.zip(mqtt).zip(api).map(|((devices, mqtt), api)| [devices, mqtt, api]);
            return all.ok_or_else(|| io::Error::other("its welcome names no addresses"));
        }
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some("any"), Some(address)) => devices = address.parse().ok(),
            (Some("mqtt"), Some(address)) => mqtt = address.parse().ok(),
            (Some("api"), Some(address)) => {
                api = address.trim_start_matches("http://").parse().ok()
            }
            _ => {}
        }
    }
}

/// The file that the server is started with.
fn config(plan: &Plan, hook: Option<SocketAddr>) -> String {
    let mut sections: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    let mut put = |section: &str, key: &str, value: &str| {
        let keys = sections.entry(section.to_owned()).or_default();
        keys.retain(|(known, _)| known != key);
        keys.push((key.to_owned(), value.to_owned()));
    };
    let product = format!("products.{PRODUCT}");
    let body_bytes_max = BODY_BYTES_MAX.to_string();
    for (section, key, value) in [
        ("server", "shards", "2"),
        ("server", "pin", "false"),
        ("server", "log", "\"info\""),
        ("listen.any", "address", "\"127.0.0.1:0\""),
        ("listen.mqtt", "address", "\"127.0.0.1:0\""),
        ("listen.mqtt", "protocol", "\"mqtt\""),
        ("mqtt", "flaps_max", "65535"),
        ("mqtt", "queue_count_max", "1000000"),
        ("mqtt", "queue_bytes_max", "1073741824"),
        ("api", "address", "\"127.0.0.1:0\""),
        ("api", "token", &format!("\"{TOKEN}\"")),
        ("limits", "connections_max", "1000"),
        ("limits", "drain_ms", "60"),
        ("limits", "retry_jitter_ms", "0"),
        ("limits", "binds_per_s", "1000000"),
        ("limits", "push_bytes_max", &body_bytes_max),
        ("limits", "out_bytes_max", "1073741824"),
        ("limits", "out_frames_max", "100000"),
        ("limits", "jobs_max", "100000"),
        ("store", "fsync", &format!("\"{}\"", plan.fsync)),
        (&product, "app_id", "1"),
        (&product, "anonymous", "\"loopback\""),
        (&product, "inflight_max", "1024"),
        (&product, "offline_count_max", "10000"),
        (&product, "offline_bytes_max", "268435456"),
        (&product, "reports_per_s", "10000"),
    ] {
        put(section, key, value);
    }
    for (section, key, value) in &plan.sets {
        put(section, key, value);
    }
    let mut text = String::new();
    for (section, keys) in sections {
        let lines: String = keys.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
        write!(text, "[{section}]\n{lines}\n").expect("a String takes all");
    }
    if let Some(hook) = hook {
        let url = format!("http://{hook}/events");
        write!(text, "[[webhook]]\nurl = \"{url}\"\nevents = [\"report\"]\n")
            .expect("a String takes all");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_server_that_does_not_get_up_has_ended() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("program");
        // It goes on for as long as it is let, and says its pid where one looks for it.
        let script =
            "#!/bin/sh\necho $$ > \"$(dirname \"$0\")/pid\"\necho Stop with\nexec sleep 600\n";
        std::fs::write(&program, script).expect("a script");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&program, mode).expect("it may run");
        let words = ["--binary".to_owned(), program.display().to_string()];
        let plan = Plan::read(&words, 1).expect("a plan");
        let home = Home::make(&plan, folder.path(), None).expect("a home");
        let error = home.start().err().expect("it names no addresses");
        assert_eq!(error.to_string(), "its welcome names no addresses");
        let pid = std::fs::read_to_string(folder.path().join("pid")).expect("it ran");
        assert!(!Path::new(&format!("/proc/{}", pid.trim())).exists(), "it runs on");
    }
}
